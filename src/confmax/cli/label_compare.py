"""`confmax compare` for several labels per row: a rule for each of several metrics, judged on rows new to it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from confmax.cli import app
from confmax.cli.columns import FileRows, TableOptions
from confmax.cli.comparing import among_kept, best_of, show_differences, show_limits_of_files, show_values, values_of
from confmax.cli.judging import bootstrap_document, say_verdicts, verdict_documents
from confmax.cli.label_columns import read_label_rows
from confmax.cli.label_options import label_source, only_options
from confmax.cli.label_scores import limit_cells, limit_documents
from confmax.cli.outputs import load_any_rule
from confmax.cli.show import Document, Page, number, print_document, show_source
from confmax.cli.tables import read_frame
from confmax.cli.texts import joined
from confmax.confusion import Array
from confmax.constraints.labels import judged_labels
from confmax.evaluate import check_bootstrap
from confmax.evaluate.evidence import solutions_of_folds
from confmax.evaluate.label_lines import judge_labels
from confmax.evaluate.label_rivals import SEPARATE, Folds, Rivals, label_rivals
from confmax.evaluate.label_scores import (
    Judgeable,
    absent_labels,
    compare_labels,
    decided_by_folds,
    decided_labels,
    judged_by,
    label_verdict,
    limits_of,
)
from confmax.evaluate.seen import doubt_of_rows
from confmax.evaluate.verdict import Verdict
from confmax.metrics import Metric
from confmax.metrics import labels as label_metrics
from confmax.progress import Bar
from confmax.rule import LabelRule
from confmax.solution.label_task import LabelPlan
from confmax.solution.several import on_some_label_rows
from confmax.tables import Part, Table
from confmax.tables.decisions import ANY, Decisions, decisions_of
from confmax.tables.draws import label_folds_to_judge
from confmax.tables.several import labels_table

# what is tuned for where no metric is named, of those that the decisions can maximise
FIVE = ("macro_f1", "micro_f1", "balanced_accuracy", "g_mean", "hamming")
FIVE_OF_MOST = ("macro_f1", "micro_f1", "macro_recall", "macro_precision", "g_mean")
BOOTSTRAP = ("n_replicates", "level", "seed")
_TAKEN = (
    *("file", "decisions", "label", "label_columns", "separator", "weight", "columns", "classes", "sep", "names"),
    *("params", "rules", "constraints", *BOOTSTRAP, "as_json"),
)


def compare_labels_of_file(file: Path, n_folds: int, *, as_json: bool, **more: Any) -> None:
    """Run `confmax compare` for several labels per row, in ``n_folds`` folds."""
    only_options(_TAKEN, "--decisions means")
    decisions = decisions_of(more["decisions"])
    settings = {key: more[key] for key in BOOTSTRAP}
    check_bootstrap(settings["n_replicates"], settings["level"])
    plans = _plans(decisions, more)
    rules = _rules(more["rules"])
    if more["label"] is None and not more["label_columns"]:
        raise click.UsageError("give the true labels: --labels A,B,C, or --label COL and --separator MARK")
    names = ("label", "label_columns", "separator", "weight", "columns", "classes", "sep")
    options = TableOptions(**{name: more[name] for name in names})
    first = next(iter(rules.values()), None)
    known = () if first is None else first.class_names
    rows = read_label_rows(read_frame(file, options.sep), options, known)
    app.warn(*rows.notes)
    with Bar("comparing", "rules") as bar:
        document = _comparison(
            rows, decisions, plans, rules, n_folds, bar, settings, list(plans) if more["names"] else []
        )
    print_document(document, as_json, _show)


def _plans(decisions: Decisions, more: Mapping[str, Any]) -> dict[str, LabelPlan]:
    """Return a plan for each metric, by its name."""
    names, params, limits = more["names"], more["params"], more["constraints"]
    if params and len(names) != 1:
        raise click.UsageError("--param belongs to one --metric; give exactly one")
    usable = label_metrics.names(decisions)
    wanted = names or [name for name in (FIVE if decisions == ANY else FIVE_OF_MOST) if name in usable]
    # with limits, metrics are of use that are largest if no row, or every row, gets a label
    found = [label_metrics.get(name, None if limits else decisions, **params) for name in wanted]
    plans = {
        repr(metric): LabelPlan.checked(
            metric, decisions, constraints=limits, on_infeasible="closest", random_state=more["seed"]
        )
        for metric in found
    }
    if len(plans) < len(found):
        raise ValueError("--metric names a metric twice; name each once")
    return plans


def _rules(paths: Sequence[Path]) -> dict[str, LabelRule]:
    """Return the rules of files by their names; those of one class are refused."""
    if len(set(paths)) < len(paths):
        raise click.UsageError("--rule names a file twice; name each rule once")
    rules = {}
    for path in paths:
        rule = load_any_rule(path)
        if not isinstance(rule, LabelRule):
            raise ValueError(
                f"{path} decides one class for every row, and --decisions means several labels; leave one of them out"
            )
        rules[str(path)] = rule
    return rules


def _comparison(
    rows: FileRows,
    decisions: Decisions,
    plans: Mapping[str, LabelPlan],
    rules: Mapping[str, LabelRule],
    n_folds: int,
    bar: Bar,
    settings: Mapping[str, Any],
    asked: Sequence[str],
) -> Document:
    """Return every rule's value by every metric, on labelled rows that it was not tuned on.

    Rules of files are judged by the metrics ``asked`` for, too.
    """
    table = labels_table(decisions, rows.proba, rows.labels, rows.weight, rows.classes)
    app.warn(*filter(None, [absent_labels(table), doubt_of_rows(rules, table)]))
    _warn_of_rare(table, n_folds)
    wanted = next(iter(plans.values())).constraints
    limits = Judgeable(*judged_labels(wanted, table.classes, table.label_weight())) if wanted else None
    for path, rule in rules.items():
        # a rule of other labels is refused before anything is tuned
        decided_labels(path, rule, table.head.take(np.arange(1)))
    fold = label_folds_to_judge(table.head, n_folds, settings["seed"])
    folds = Folds.of(table.head, fold, settings["seed"])
    rivals = _rivals(table, decisions, settings["seed"], folds)
    plain = rivals.names_on(table)
    separate = [name for name in plain if name.endswith(SEPARATE)]
    tuned = _cross_fitted(table, plans, fold, bar)
    found = judge_labels(table, partial(_decided, rivals, tuned, folds, rules))
    chosen: dict[str, Metric] = {name: plan.metric for name, plan in plans.items()}
    further_metrics = map(label_metrics.get, ("macro_precision", "macro_recall", "hamming"))
    evaluated = {**chosen, **{repr(metric): metric for metric in further_metrics}}
    sized = {name: label_metrics.sized(metric, table.n_rows) for name, metric in evaluated.items()}
    of_files = {path: metric for path, rule in rules.items() if (metric := judged_by(rule, table)) is not None}
    by = {f"for {name}": name for name in plans}
    by |= {path: repr(of_files[path]) if path in of_files else next(iter(sized)) for path in rules}
    # the rules are judged by these, so they are shown, whatever was asked for
    for metric in of_files.values():
        sized.setdefault(repr(metric), metric)
    own = {path: limits_of(rule, table) for path, rule in rules.items() if rule.constraints}
    judged = {} if limits is None else dict.fromkeys(found.rules, limits)
    judged |= {path: limits_of(rules[path], table, wanted) for path in own}
    further = dict(zip(["separate"], separate, strict=False))
    scores = compare_labels(found, sized, plain=plain, limits=judged, **settings)
    tuned_for = {one: one.removeprefix("for ") for one in tuned} | dict.fromkeys(separate, "macro_f1")
    tuned_for |= {path: rule.metric for path, rule in rules.items()}

    def beside(name: str) -> Document:
        if name not in by:
            return {}

        def verdict(metric: str, by_it: Metric) -> Verdict:
            return label_verdict(scores, name, by_it, found, judged.get(name), metric)

        return verdict_documents(verdict, by[name], sized, asked if name in rules else (), scores.unit_of, f"'{name}'")

    def kept(name: str) -> Document:
        warned = name != scores.rules[0]
        found = {} if limits is None else {"constraints": limit_documents(scores, name, limits.texts, warned=warned)}
        return found | ({"own_constraints": limit_documents(scores, name, own[name].texts)} if name in own else {})

    documents = [
        {
            "rule": name,
            "tuned_for": tuned_for.get(name),
            "cross_fitted": name in tuned or name in separate,
            "labels_per_row": found.labels_per_row(name),
            **values_of(scores, name, sized, "plain", further),
            **beside(name),
            **kept(name),
        }
        for name in scores.rules
    ]
    return {
        **label_source(rows),
        "folds": n_folds,
        "decisions": decisions.argument,
        "plain": scores.plain[0],
        "metrics": list(sized),
        "true_labels_per_row": found.labels_per_row(),
        "rules": documents,
        "best": best_of(scores, sized, dict.fromkeys(sized, among_kept(documents))),
        "intervals": bootstrap_document(scores),
    }


def _rivals(table: Table, decisions: Decisions, seed: int, folds: Folds) -> Rivals:
    """Return what competes with the rules; beside p > 0.5 stand as many labels as rows have on average.

    Thresholds are found in the usual way to tune: of each label the one with the largest F1 on the other folds.
    """
    if decisions.most is not None:
        return label_rivals(table, [decisions], seed, folds)
    mean = float(table.label_weight().sum())
    as_many = decisions_of(min(max(1, round(mean)), table.n_classes))
    return replace(label_rivals(table, [decisions, as_many], seed, folds), prior=None)


def _decided(
    rivals: Rivals,
    tuned: Mapping[str, Sequence[LabelRule]],
    folds: Folds,
    rules: Mapping[str, LabelRule],
    part: Part,
) -> dict[str, Array]:
    """Return what all rules decide (n, L), by name: those ``tuned`` without each fold decide the rows of this fold."""
    crossed = {name: decided_by_folds(every, folds, part) for name, every in tuned.items()}
    return {**rivals(part), **crossed, **{path: decided_labels(path, rule, part) for path, rule in rules.items()}}


def _warn_of_rare(table: Table, n_folds: int) -> None:
    """Warn of labels with so few rows that rules without one fold have seen hardly any of them."""
    counts = table.positives().tolist()
    rare = [f"{name} ({count})" for name, count in zip(table.classes, counts, strict=True) if 0 < count < 2 * n_folds]
    if rare:
        app.warn(f"few rows have the label {joined(rare)}: rules tuned without one fold have seen hardly any of them")


def _cross_fitted(
    table: Table, plans: Mapping[str, LabelPlan], fold: NDArray[np.int64], bar: Bar
) -> dict[str, list[LabelRule]]:
    """Return the rules of every plan that were tuned without each of the folds (n,)."""
    every = {f"for {name}": plan for name, plan in plans.items()}
    done = itertools.count()
    total = int(fold.max() + 1) * len(every)
    return {
        name: _without_folds(name, plan, table, fold, lambda: bar.update(next(done), total))
        for name, plan in every.items()
    }


def _without_folds(
    name: str, plan: LabelPlan, table: Table, fold: Any, progress: Callable[[], None]
) -> list[LabelRule]:
    """Return the rules that a plan finds without each of the folds."""
    solve = on_some_label_rows(plan, table)

    def tune(rows: Any, kind: Mapping[str, Any]) -> Any:
        progress()
        return solve(rows, kind)

    fails = f"no rule {name} can be tuned without one of the folds"
    solutions = solutions_of_folds(tune, fold, {}, fails=fails, way_out="add rows of rare labels")
    missing = sum(not one.feasible_on_estimate for one in solutions)
    if missing:
        app.warn(
            f"{name}: in {missing} of {len(solutions)} folds no rule was met that keeps all limits on the other folds, "
            f"and the one that misses them least is used"
        )
    return [one.rule for one in solutions]  # type: ignore[misc]


# --- what is printed -------------------------------------------------------------------------------------------------


def _show(page: Page, document: Document) -> None:
    """Print the values of every rule, what it makes of limits, and its differences to the first plain one."""
    show_source(page, document)
    per_row = {row["rule"]: number(row["labels_per_row"]) for row in document["rules"]}
    show_values(page, document, ("labels per row", per_row))
    page.say(f"Rows have {number(document['true_labels_per_row'])} true labels on average.")
    show_differences(page, document, document["plain"], "plain")
    separate = next((row["rule"] for row in document["rules"] if row["rule"].endswith(SEPARATE)), None)
    if separate is not None:
        show_differences(page, document, separate, "separate")
    show_limits_of_files(page, document["rules"], limit_cells)
    say_verdicts(page, document["rules"])
    page.say(
        "",
        f"'for NAME': tuned for that metric on {document['folds'] - 1} of {document['folds']} folds and evaluated on "
        f"the remaining one, {document['folds']} times.",
    )
    if separate is not None:
        page.say(f"'{SEPARATE}': of each label the one with the largest F1 on the labels of the other folds.")
    if any(not row["cross_fitted"] and row["tuned_for"] is not None for row in document["rules"]):
        page.say(
            "Rules given with --rule are applied as they are: if they were tuned on these rows, their values are "
            "optimistic."
        )
    if document["intervals"] is not None:
        page.say(
            f"In brackets: {document['intervals']['method']}. A difference whose interval excludes 0 is hardly due to "
            f"chance."
        )
    of_tune = tuple(name for name in _TAKEN if name not in ("names", "params", "rules", "as_json", *BOOTSTRAP))
    again = app.command_line(click.get_current_context(), "confmax tune", of_tune)
    page.say(f"To tune a rule on all rows: {again} --metric NAME -o rule.json")
