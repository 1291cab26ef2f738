"""`confmax compare`: what tuning for each of several metrics gains, and what it costs in the others.

For every metric a rule is tuned and evaluated on rows that it was not tuned on: five folds by the content of the rows,
each decided by the rule tuned on the other four. So every row has one decision per metric, all are counted on the same
rows, and the bootstrap compares them in pairs.
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from confmax import metrics as catalogue
from confmax.cli import app
from confmax.cli.columns import TABLE_OPTIONS, FileRows, TableOptions, joined
from confmax.cli.metrics import check_applies, judged_table, not_applicable, over, rows_for
from confmax.cli.report import with_commas
from confmax.cli.score import bootstrap_document
from confmax.cli.show import Bar, Document, Page, number, print_document, show_source, source_document
from confmax.evaluate import Score
from confmax.evaluate.evidence import pooled
from confmax.evaluate.uncertainty import compare, doubts, plain_rules
from confmax.metrics import Metric
from confmax.metrics.alignment import aligned
from confmax.rule import DecisionRule
from confmax.solution import maximize
from confmax.tables import MemoryTable
from confmax.tables.folds import cross_fit, folds_to_judge, masks, quietly

N_FOLDS = 5
SEVERAL = ("macro_f1", "balanced_accuracy", "g_mean", "min_recall", "cohen_kappa")
OF_TWO = ("f1", "balanced_accuracy", "g_mean", "mcc", "cohen_kappa")


@app.confmax.command("compare")
@click.argument("file", type=app.PATH)
@app.LABEL
@click.option("--metric", "names", multiple=True, metavar="NAME", shell_complete=app.metric_names,
              help="Tune for this metric and evaluate by it; may be repeated. Default: five that suit the "
                   "classes.")  # fmt: skip
@app.PARAM
@click.option("--rule", "rules", type=app.PATH, multiple=True, metavar="RULE", shell_complete=app.rule_files,
              help="A rule file to compare with the tuned rules; may be repeated.")  # fmt: skip
@app.table_options
@app.bootstrap_options
@app.AS_JSON
def compare_rules(file: Path, as_json: bool, **more: Any) -> None:
    """Tune for several metrics and evaluate every rule by each of them.

    The rows of FILE are split into five folds. Each fold is decided by a rule tuned on the other four, so no rule is
    evaluated on rows that it was tuned on. These rules are called 'for NAME'. Rules given with --rule are applied as
    they are, so FILE should hold other rows than those they were tuned on.

    \b
    Example:
      confmax compare validation.csv --label truth
      confmax compare validation.csv --label truth --metric macro_f1 --metric min_recall
      confmax compare validation.csv --label truth --metric g_mean --rule rule.json --json
    """
    named, settings = app.metrics_and_bootstrap(more)
    paths = more.pop("rules")
    if len(set(paths)) < len(paths):
        raise click.UsageError("--rule names a file twice; name each rule once")
    rules = {str(path): app.load_rule(path) for path in paths}
    rows = rows_for(next(iter(rules.values()), None), file, TableOptions(**more))
    with Bar("comparing", "rules") as bar:
        document = comparison(rows, named, rules, bar.update, **settings)
    print_document(document, as_json, partial(_show, again=_tune(file, rows.options)))


# --- the comparison --------------------------------------------------------------------------------------------------


def comparison(
    rows: FileRows,
    named: Sequence[Metric],
    rules: Mapping[str, DecisionRule],
    progress: Callable[[int, int], Any],
    **settings: Any,
) -> Document:
    """Return every rule's value by every metric, on rows that it was not tuned on.

    Parameters
    ----------
    rows : FileRows
        The labelled rows.
    named : sequence of Metric
        Metrics to tune for; none for those that suit the classes.
    rules : mapping
        Further rules, by the names of their files.
    progress : callable
        Takes the number of rules that were tuned, and of all.
    **settings
        Of the bootstrap, as `uncertainty.compare` takes them.
    """
    chosen = _chosen(named, rows)
    evaluated = _applicable((*chosen.values(), *map(catalogue.get, ("precision", "recall", "accuracy"))), rows)
    table = judged_table(rows)  # every rule is tuned on calibrated probabilities
    counts = np.bincount(np.asarray(table.labels), minlength=table.n_classes)
    rare = [f"{name} ({count})" for name, count in zip(table.classes, counts, strict=True) if 0 < count < 2 * N_FOLDS]
    if rare:
        app.warn(f"few rows have the label {joined(rare)}: rules tuned without one fold have seen hardly any of them")
    compared: dict[str, Any] = {**plain_rules(table), **_cross_fitted(table, rows, chosen, settings["seed"], progress)}
    tuned_for: dict[str, str | None] = {f"for {name}": name for name in chosen}
    for path, rule in rules.items():
        compared[path], tuned_for[path] = _of_same_classes(path, rule, rows.classes), rule.metric
    scores = compare(table, evaluated, compared, **settings)
    for sentence in doubts(scores, evaluated, undefined=False):
        app.warn(sentence)
    return {
        **source_document(rows),
        "folds": N_FOLDS,
        "metrics": list(scores.metrics),
        "rules": [
            _values_of_rule(scores, name, tuned_for.get(name), cross_fitted=name.startswith("for "))
            for name in scores.rules
        ],
        "best": _best(scores),
        "intervals": bootstrap_document(scores),
    }


def _applicable(chosen: Iterable[Metric], rows: FileRows) -> dict[str, Metric]:
    return {repr(metric): metric for metric in chosen if not not_applicable(metric, rows)}


def _chosen(named: Sequence[Metric], rows: FileRows) -> dict[str, Metric]:
    """Return the metrics to tune for."""
    if not named:
        return _applicable(map(catalogue.get, OF_TWO if len(rows.classes) == 2 else SEVERAL), rows)
    chosen = {repr(metric): metric for metric in (aligned(metric, rows.classes) for metric in named)}
    for metric in chosen.values():
        check_applies(metric, rows)
    if len(chosen) < len(named):
        raise ValueError("--metric names a metric twice; name each once")
    return chosen


def _cross_fitted(
    table: MemoryTable,
    rows: FileRows,
    chosen: Mapping[str, Metric],
    seed: int,
    progress: Callable[[int, int], Any],
) -> dict[str, Any]:
    """Return what the rules tuned for every metric decide on rows that they have not seen; of draws the expectation."""
    folds, labels = folds_to_judge(table, N_FOLDS, seed), rows.labels
    assert labels is not None
    decided: dict[str, Any] = {}
    done = itertools.count()
    for name, metric in chosen.items():

        def fit(part: Any, metric: Metric = metric) -> DecisionRule:
            progress(next(done), N_FOLDS * len(chosen))
            weight = None if rows.weight is None else rows.weight[~part]
            return maximize(
                metric, rows.proba[~part], labels[~part], sample_weight=weight, classes=rows.classes,
                random_state=seed,
            ).rule  # fmt: skip

        try:
            rules = [rule for _, rule in cross_fit(quietly(fit), masks(folds))]
        except ValueError as error:
            raise ValueError(
                f"no rule for {name} can be tuned without one of the folds ({error}); add rows of rare classes"
            ) from None
        decided[f"for {name}"] = pooled(rules, table, folds)
    return decided


def _of_same_classes(path: str, rule: DecisionRule, classes: tuple[Any, ...]) -> DecisionRule:
    own = rule.class_names[: rule.n_classes]
    if set(own) != set(classes):
        raise ValueError(
            f"the rule {path} decides between {joined(own)} and the classes here are {joined(classes)}; compare rules "
            f"of the same classes"
        )
    return over(rule, classes)


def _values_of_rule(scores: Score, rule: str, tuned_for: str | None, *, cross_fitted: bool) -> Document:
    """Return one rule's values, with replicates also intervals and differences to argmax."""
    entries = {metric: rules[rule] for metric, rules in scores.to_dict()["metrics"].items()}
    document: Document = {
        "rule": rule,
        "tuned_for": tuned_for,
        "cross_fitted": cross_fitted,
        "values": {metric: entry["value"] for metric, entry in entries.items()},
    }
    if scores.n_replicates:
        document["intervals"] = {metric: [entry["low"], entry["high"]] for metric, entry in entries.items()}
    if rule != "argmax":
        document["minus_argmax"] = {metric: entry["minus"]["argmax"] for metric, entry in entries.items()}
    return document


def _best(scores: Score) -> dict[str, list[str]]:
    """Return the rules with the largest value, by metric."""
    best = {}
    for metric, values in zip(scores.metrics, scores.values, strict=True):
        known = values[np.isfinite(values)]
        top = known.max() if len(known) else np.nan
        best[metric] = [rule for rule, value in zip(scores.rules, values, strict=True) if value == top]
    return best


# --- what is printed -------------------------------------------------------------------------------------------------


def _tune(file: Path, options: TableOptions) -> str:
    """Return the command that tunes on the same columns, but for its metric."""
    words = ["confmax", "tune", str(file)]
    for option in TABLE_OPTIONS:
        given = getattr(options, option)
        if given:
            words += [f"--{option}", given if isinstance(given, str) else with_commas(given)]
    return shlex.join(words)


def _show(page: Page, document: Document, again: str) -> None:
    show_source(page, document)
    page.say()
    names = document["metrics"]
    page.say("Values; * is the best of its column", "bold")
    page.table(["rule", *names], [[row["rule"], *_values(row, document["best"])] for row in document["rules"]])
    intervals = document["intervals"]
    page.say()
    if intervals is not None:
        page.say("Difference to argmax, with its interval", "bold")
        others = [row for row in document["rules"] if "minus_argmax" in row]
        page.table(["rule", *names], [[row["rule"], *_differences(row)] for row in others])
        page.say()
    page.say(
        f"'for NAME': tuned for that metric on {document['folds'] - 1} of {document['folds']} folds and evaluated on "
        f"the remaining one, {document['folds']} times. p/prior takes the class sizes from the same rows."
    )
    if any(not row["cross_fitted"] and row["tuned_for"] is not None for row in document["rules"]):
        page.say(
            "Rules given with --rule are applied as they are: if they were tuned on these rows, their values are "
            "optimistic."
        )
    if any(value is None for row in document["rules"] for value in row["values"].values()):
        page.say("-: not finite, or not defined for a rule of more decisions than classes.")
    if intervals is not None:
        page.say(f"In brackets: {intervals['method']}. A difference whose interval excludes 0 is hardly due to chance.")
    page.say(f"To tune a rule on all rows: {again} --metric NAME -o rule.json")


def _values(row: Document, best: Mapping[str, Sequence[str]]) -> list[str]:
    return [number(value) + ("*" if row["rule"] in best[metric] else " ") for metric, value in row["values"].items()]


def _differences(row: Document) -> list[str]:
    return [
        "-" if minus["value"] is None else f"{minus['value']:+.3f} [{minus['low']:+.3f}, {minus['high']:+.3f}]"
        for minus in row["minus_argmax"].values()
    ]
