"""`confmax score` and `confmax compare`: rules judged on the labels of a file.

`score` takes a rule as it is, so the rows should be others than those that it was tuned on. `compare` tunes a rule for
each of several metrics and evaluates it on rows that it was not tuned on: five folds by the content of the rows, each
decided by the rule tuned on the other four. So every row has one decision per metric, all are counted on the same rows,
and the bootstrap compares them in pairs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from confmax import metrics as catalogue
from confmax.calibration.column_order import doubt_of_order
from confmax.cli import app
from confmax.cli.columns import TABLE_OPTIONS, FileRows, TableOptions
from confmax.cli.decided import (
    EVERY_ROW,
    areas_of,
    checked_abstain,
    of_what_is_decided,
    refused,
    rows_undecided,
    show_areas,
    with_one_more,
)
from confmax.cli.grouped import (
    check_group,
    groups_of_file,
    limit_by_group,
    lines_by_group,
    show_groups,
    values_by_group,
    values_in_groups,
)
from confmax.cli.matching import check_applies, not_applicable, over, positive_of, rows_for, tuned_metric
from confmax.cli.outputs import load_rule
from confmax.cli.show import (
    Bar,
    Document,
    Page,
    between,
    finite,
    key_of,
    number,
    print_document,
    show_source,
    source_document,
)
from confmax.cli.texts import joined
from confmax.constraints import Limits, bind
from confmax.constraints import resolve as resolve_constraints
from confmax.constraints.limits import judged
from confmax.errors import extended
from confmax.evaluate import Score, uncertainty
from confmax.evaluate.by_group import side_by_side
from confmax.evaluate.evidence import Evidence, of_folds, seen_by_tuning
from confmax.evaluate.uncertainty import Decided, check_bootstrap, decided_by, doubts, in_groups, plain_rules
from confmax.metrics import Metric
from confmax.metrics.alignment import aligned
from confmax.rule import DecisionRule
from confmax.solution import Solution, maximize
from confmax.tables import MemoryTable, make_table
from confmax.tables.draws import cross_fit, folds_to_judge, masks, quietly
from confmax.tables.groups import Groups

N_FOLDS = 5
SEVERAL = ("macro_f1", "balanced_accuracy", "g_mean", "min_recall", "cohen_kappa")
OF_TWO = ("f1", "balanced_accuracy", "g_mean", "mcc", "cohen_kappa")


def metrics_and_bootstrap(options: dict[str, Any]) -> tuple[list[Metric], dict[str, Any]]:
    """Take the metrics and the settings of the bootstrap out of a command's options."""
    names = options.pop("names")
    params = options.pop("params")
    # which of several metrics a parameter is for cannot be told
    if params and len(names) != 1:
        raise click.UsageError("--param belongs to one --metric; give exactly one")
    if "linear" in names:
        command = click.get_current_context().info_name
        raise ValueError(f"{command} has no table of costs for linear; confmax tune --costs shows its values")
    settings = {key: options.pop(key) for key in ("n_replicates", "level", "stratified", "seed")}
    check_bootstrap(settings["n_replicates"], settings["level"])
    # by `resolve`, which knows coverage too
    return [catalogue.get(name, **params) if params else catalogue.resolve(name) for name in names], settings


def judged_table(rows: FileRows) -> MemoryTable:
    """Return labelled rows as a table; classes without rows, and columns that seem to be in another order, are told."""
    table = make_table(rows.proba, rows.labels, rows.weight, rows.classes).in_memory()
    absent = [name for name, weight in zip(rows.classes, table.label_weight(), strict=True) if not weight]
    if absent:
        app.warn(f"no row has the label {joined(absent)}: metrics that divide by class sizes leave it out")
    doubt = doubt_of_order(table, calibrated=0.0)
    if doubt:
        app.warn(doubt)
    return table


# --- rules as they are -----------------------------------------------------------------------------------------------


def score(file: Path, rule: Path | None, as_json: bool, **more: Any) -> int:
    """Run `confmax score`, and return its exit code: 3 if the rule misses a constraint that it was tuned within.

    A constraint that the rows cannot judge is not missed.
    """
    chosen, settings = metrics_and_bootstrap(more)
    loaded = None if rule is None else load_rule(rule, of_groups=True)
    if loaded is not None:
        check_group(loaded, str(rule), more["group"])
    rows = rows_for(loaded, file, TableOptions(**more))
    document = score_rows(rows, chosen, loaded, **settings)
    print_document(document, as_json, _show)
    return 3 if any(one["kept"] is False for one in document.get("constraints", ())) else 0


def score_rows(rows: FileRows, wanted: Sequence[Metric], rule: DecisionRule | None, **settings: Any) -> Document:
    """Return the ``wanted`` metrics, else all that apply, of argmax, p/prior and a rule on a file's labels.

    ``settings`` are those of the bootstrap, as `uncertainty.compare` takes them.
    """
    rules = {}
    tuned_for = None
    if rule is not None:
        positive = positive_of(rule)
        if positive is not None and not rows.options.classes and not rows.options.positive:
            # metrics of two classes take the last one as the positive one
            rows = rows.in_order(tuple(sorted(rows.classes, key=lambda name: name == positive)))
        tuned_for = tuned_metric(rule, rows.classes)
        # who tuned a rule for a metric of ordered classes has said what the order is
        ordered = positive is not None or (tuned_for is not None and tuned_for.ordered)
        rows = replace(rows, order_known=rows.order_known or ordered)
        rules["rule"] = over(rule, rows.classes)
    used = _aligned(wanted, rows)
    skipped = []
    if not wanted:
        # with their default beta f_beta and macro_f_beta are f1 and macro_f1
        every = [catalogue.get(name) for name in catalogue.names() if name not in ("linear", "f_beta", "macro_f_beta")]
        if tuned_for is not None:
            every = [tuned_for, *(metric for metric in every if not is_same(metric, tuned_for, len(rows.classes)))]
        skipped = [{"metric": metric.name, "why": why} for metric in every if (why := not_applicable(metric, rows))]
        used = {repr(metric): metric for metric in every if not not_applicable(metric, rows)}
    table = judged_table(rows)
    undecided = {}
    tuned_here = None if rule is None or rule.tuned_on is None else rule.tuned_on == table.fingerprint()
    if tuned_here:
        app.warn(seen_by_tuning(table.n_rows))
    groups = groups_of_file(rows, rule)
    abstains = rule is not None and rule.abstain is not None
    decided = _decisions(table, rules, groups, abstains=abstains)
    if abstains:
        used, more = of_what_is_decided(used, table, rows)
        undecided = {"abstain": rules["rule"].abstain, "rows_undecided": rows_undecided(decided["rule"])}
        skipped += more
    limits, absent = judged(() if rule is None else rule.constraints, table, abstains=abstains, groups=groups)
    scores, limited = _scores(table, used, limits, decided, groups, **settings)
    kept = [] if limits is None else _constraints(scores, limits, decided["rule"], table, groups, "rule")
    for text in absent:
        app.warn(f"the limit {text} cannot be judged on this file: no row has the class{' in a group' * bool(groups)}")
        kept.append({"text": text, "value": None, "kept": None, "vacuous": False})
    return {
        **source_document(rows),
        "tuned_for": rule and rule.metric,
        "tuned_on_these_rows": tuned_here,
        **undecided,
        **({"constraints": kept} if kept else {}),
        "values": [_scored(scores, name) for name in scores.metrics if name not in limited],
        **({} if groups is None else {"groups": values_by_group(scores.by_group, limited)}),
        "skipped": skipped,
        "intervals": bootstrap_document(scores),
    }


def _aligned(wanted: Sequence[Metric], rows: FileRows) -> dict[str, Metric]:
    """Return the metrics that were asked for, by name, for the classes of a file; refuse those that do not apply."""
    found = [aligned(metric, rows.classes) for metric in wanted]
    for metric in found:
        check_applies(metric, rows)
    return {repr(metric): metric for metric in found}


def _decisions(
    table: MemoryTable, rules: Mapping[str, DecisionRule | Decided], groups: Groups | None, *, abstains: bool
) -> dict[str, Decided]:
    """Return what argmax, p/prior and further rules decide on a table, whose rows may be in groups."""
    further = {name: one if isinstance(one, Decided) else decided_by(one, table, groups) for name, one in rules.items()}
    every = {**plain_rules(table), **further}
    return with_one_more(every, table) if abstains else every


def _scores(
    table: MemoryTable,
    used: Mapping[str, Metric],
    limits: Limits | None,
    decided: Mapping[str, Decided],
    groups: Groups | None,
    **settings: Any,
) -> tuple[Score, dict[str, Metric]]:
    """Return values of rules by the metrics ``used`` and by those that are limited, and the latter, by name.

    What makes the values doubtful is printed. What a limit of groups limits has a value in every group alone.
    """
    wanted = () if limits is None else limits.constraints
    limited = {str(one): one.metric for one in wanted}
    of_all = {**used, **{str(one): one.metric for one in wanted if not one.of_groups}}
    scores = uncertainty.compare(table, of_all, decided, **settings)
    app.warn(*doubts(scores, of_all, undefined=False))
    if groups is not None:
        scores = replace(scores, by_group=in_groups(table, groups, {**used, **limited}, decided, **settings))
    return scores, limited


def is_same(metric: Metric, tuned_for: Metric, n_classes: int) -> bool:
    """Return whether a metric of the catalogue is the one that a rule was tuned for, which may name its class."""
    of_last = tuned_for.classes is None or (n_classes == 2 and tuned_for.classes[-1] == 1)
    same = (metric.name, metric.params, metric.structure) == (tuned_for.name, tuned_for.params, tuned_for.structure)
    return same and of_last


def _constraints(
    scores: Score, limits: Limits, decided: Decided, table: MemoryTable, groups: Groups | None, rule: str
) -> list[Document]:
    """Return what a ``rule``, by what it ``decided``, makes of constraints on these rows."""
    limits, S = side_by_side(limits, decided, table, groups)
    documents = []
    told = zip(limits.constraints, limits.values(S), limits.slacks(S), limits.vacuous(S), strict=True)
    for one, value, slack, vacuous in told:
        document: Document = {
            "text": str(one),
            "value": finite(value),
            "kept": bool(slack >= 0.0),
            "vacuous": bool(vacuous),
        }
        if one.of_groups:
            document["by_group"] = limit_by_group(scores.by_group, str(one), rule)
        elif scores.n_replicates:
            entry = scores.to_dict()["metrics"][str(one)][rule]
            document["interval"] = [entry["low"], entry["high"]]
        documents.append(document)
    return documents


def _scored(scores: Score, metric: str) -> Document:
    """Return a metric's value for every rule; with replicates also intervals, and differences between rules."""
    document: Document = {"metric": metric}
    intervals = {}
    differences = {}
    for name, entry in scores.to_dict()["metrics"][metric].items():
        document[key_of(name)] = entry["value"]
        intervals[key_of(name)] = [entry["low"], entry["high"]]
        differences[key_of(name)] = {key_of(base): minus for base, minus in entry["minus"].items()}
    return {**document, "intervals": intervals, "differences": differences} if scores.n_replicates else document


def bootstrap_document(scores: Score) -> Document | None:
    """Return what the intervals are."""
    if not scores.n_replicates:
        return None
    return {
        "method": scores.method,
        "level": scores.level,
        "replicates": scores.n_replicates,
        "stratified": scores.stratified,
        "absent": {str(name): share for name, share in scores.absent.items()},
    }


def _show(page: Page, document: Document) -> None:
    """Print the metrics of every rule."""
    show_source(page, document)
    if document["tuned_for"] is not None:
        items = {"rule": f"tuned for {document['tuned_for'] or 'an unnamed metric'}"}
        if "abstain" in document:
            items["undecided"] = f"{document['rows_undecided']:g} of {document['rows']} rows, as {document['abstain']}"
        page.items(items)
    page.say()
    if document.get("constraints"):
        cells = []
        for one in document["constraints"]:
            told = "no" if not one["kept"] else "no decision" if one["vacuous"] else "yes"
            told = "cannot be judged" if one["kept"] is None else told
            cells.append([one["text"], between(one["value"], *one.get("interval", (None, None))), told])
            cells += [[*line, ""] for line in lines_by_group(one.get("by_group", {}))]
        page.table(["constraint", "rule", "kept"], cells)
        page.say()
    names = ["argmax", "p/prior", *(["rule"] if document["tuned_for"] is not None else [])]
    keys = [key_of(name) for name in names]
    body = [[row["metric"], *(number(row[key]) for key in keys)] for row in document["values"]]
    about = document["intervals"]
    heads = ["metric", *names]
    if about is not None:
        for line, row in zip(body, document["values"], strict=True):
            line[1:] = [between(row[key], *row["intervals"][key]) for key in keys]
            minus = row["differences"][keys[-1]]["argmax"]
            line.append(between(minus["value"], minus["low"], minus["high"], sign="+"))
            line.append("-" if minus["better"] is None else f"{minus['better']:.0%}")
        heads += [f"{names[-1]} - argmax", "better"]
    page.table(heads, body, best=3)
    show_groups(page, document.get("groups", {}), names)
    page.say("", *([EVERY_ROW] if "abstain" in document else []), "p/prior uses the class sizes of these rows.")
    if about is not None:
        page.say(
            f"In brackets: {about['method']}, the same resamples for all rules.",
            "better: share of the replicates in which the difference is positive.",
        )
    if any("-" in row for row in body):
        page.say("-: not finite, or undefined for a rule with more decisions than classes.")
    reasons: dict[str, list[str]] = {}
    for entry in document["skipped"]:
        # reasons that differ in the metric's name only are one
        reasons.setdefault(entry["why"].replace(f"{entry['metric']}[", "["), []).append(entry["metric"])
    for why, left_out in reasons.items():
        page.say(f"Left out: {', '.join(left_out)} ({why.replace('[', f'{left_out[0]}[')}).")


# --- rules that are tuned on the other folds -------------------------------------------------------------------------


def compare(file: Path, as_json: bool, **more: Any) -> None:
    """Run `confmax compare`."""
    wanted, settings = metrics_and_bootstrap(more)
    paths, constraints, abstain = (more.pop(key) for key in ("rules", "constraints", "abstain"))
    wanted_limits = resolve_constraints(constraints)
    if len(set(paths)) < len(paths):
        raise click.UsageError("--rule names a file twice; name each rule once")
    rules = {str(path): load_rule(path, of_groups=True) for path in paths}
    for path, rule in rules.items():
        check_group(rule, path, more["group"])
    if more["group"] is None and any(one.of_groups for one in wanted_limits):
        raise click.UsageError("a limit of --subject-to speaks of groups; give --group, the column of these")
    rows = rows_for(next(iter(rules.values()), None), file, TableOptions(**more))
    with Bar("comparing", "rules") as bar:
        document = comparison(rows, wanted, rules, bar.update, constraints, abstain, **settings)
    print_document(document, as_json, _show_comparison)


def comparison(
    rows: FileRows,
    wanted: Sequence[Metric],
    rules: Mapping[str, DecisionRule],
    progress: Callable[[int, int], Any],
    constraints: Sequence[str] = (),
    abstain: str | None = None,
    **settings: Any,
) -> Document:
    """Return every rule's value by every metric, on rows that it was not tuned on.

    Parameters
    ----------
    rows : FileRows
        The labelled rows.
    wanted : sequence of Metric
        Metrics to tune for; none for those that suit the classes.
    rules : mapping
        Further rules, by the names of their files.
    progress : callable
        Takes the number of rules that were tuned, and of all.
    constraints : sequence of str
        Limits that the tuned rules must keep, and by which all are judged.
    abstain : str or None
        What the tuned rules decide for rows that they leave undecided; None if they decide every row.
    **settings
        Of the bootstrap, as `uncertainty.compare` takes them.
    """
    table = judged_table(rows)  # every rule is tuned on calibrated probabilities
    chosen = _chosen(wanted, rows, limited=bool(constraints), abstains=abstain is not None)
    groups = groups_of_file(rows, None)
    name, limits = checked_abstain(abstain, chosen, constraints, table, groups)
    abstains = name is not None or any(rule.abstain is not None for rule in rules.values())
    evaluated = _applicable((*chosen.values(), *map(catalogue.get, ("precision", "recall", "accuracy"))), rows)
    if abstains:
        evaluated, _ = of_what_is_decided(evaluated, table, rows)
        limits = bind(constraints, table, explicit=True, abstains=True, groups=groups)
    _warn_of_rare(table)
    given = _of_files(rules, rows)
    # a file may hold the names of a rule's groups as text
    applied = {path: decided_by(rule, table, groups_of_file(rows, rule)) for path, rule in given.items()}
    evidence = _cross_fitted(table, rows, chosen, settings["seed"], progress, constraints, name)
    cross_fitted = {one: found.decided for one, found in evidence.items()}
    areas = {} if name is None else areas_of(evidence, limits)
    tuned_for = {one: one.removeprefix("for ") for one in cross_fitted} | {path: rules[path].metric for path in given}
    decides = _decisions(table, {**cross_fitted, **applied}, None, abstains=abstains)
    scores, _ = _scores(table, evaluated, limits, decides, groups, **settings)
    return {
        **source_document(rows),
        "folds": N_FOLDS,
        **({} if name is None else {"abstain": name}),
        "metrics": list(evaluated),
        "rules": [
            {
                "rule": name,
                "tuned_for": tuned_for.get(name),
                "cross_fitted": name in cross_fitted,
                **_values_of_rule(scores, name, evaluated),
                **({"risk_coverage": areas[name]} if name in areas else {}),
                **({} if groups is None else {"groups": values_in_groups(scores.by_group, name, evaluated)}),
                **(
                    {}
                    if limits is None
                    else {"constraints": _constraints(scores, limits, decides[name], table, groups, name)}
                ),
            }
            for name in scores.rules
        ],
        "best": _best(scores, evaluated),
        "intervals": bootstrap_document(scores),
    }


def _warn_of_rare(table: MemoryTable) -> None:
    """Warn of classes with so few rows that rules without one fold have seen hardly any of them."""
    counts = np.bincount(np.asarray(table.labels), minlength=table.n_classes)
    rare = [f"{name} ({count})" for name, count in zip(table.classes, counts, strict=True) if 0 < count < 2 * N_FOLDS]
    if rare:
        app.warn(f"few rows have the label {joined(rare)}: rules tuned without one fold have seen hardly any of them")


def _of_files(rules: Mapping[str, DecisionRule], rows: FileRows) -> dict[str, DecisionRule]:
    """Return rules, by their files, for the classes of the rows; refuse those of other classes."""
    given = {}
    for path, rule in rules.items():
        own = rule.class_names[: rule.n_classes]
        if set(own) != set(rows.classes):
            raise ValueError(
                f"the rule {path} decides between {joined(own)} and the classes here are {joined(rows.classes)}; "
                f"compare rules of the same classes"
            )
        given[path] = over(rule, rows.classes)
    return given


def _applicable(chosen: Iterable[Metric], rows: FileRows) -> dict[str, Metric]:
    return {repr(metric): metric for metric in chosen if not not_applicable(metric, rows)}


def _chosen(wanted: Sequence[Metric], rows: FileRows, *, limited: bool, abstains: bool) -> dict[str, Metric]:
    """Return the metrics to tune for; those that cannot be maximised within limits are left out, or refused."""

    def why_not(metric: Metric) -> str | None:
        return refused(metric, len(rows.classes), abstains=abstains) if limited else None

    if not wanted:
        # of what is decided, accuracy needs no other metric beside it
        names = (*(["accuracy"] if abstains else []), *(OF_TWO if len(rows.classes) == 2 else SEVERAL))
        return _applicable((metric for metric in map(catalogue.get, names) if not why_not(metric)), rows)
    chosen = _aligned(wanted, rows)
    for why in filter(None, map(why_not, chosen.values())):
        raise ValueError(why)
    if len(chosen) < len(wanted):
        raise ValueError("--metric names a metric twice; name each once")
    return chosen


def _cross_fitted(
    table: MemoryTable,
    rows: FileRows,
    chosen: Mapping[str, Metric],
    seed: int,
    progress: Callable[[int, int], Any],
    constraints: Sequence[str],
    abstain: Any,
) -> dict[str, Evidence]:
    """Return what the rules tuned for every metric decide on rows that they have not seen; of draws the expectation."""
    folds = folds_to_judge(table, N_FOLDS, seed)
    labels = rows.labels
    assert labels is not None
    groups = groups_of_file(rows, None)
    # without a limit of groups the rules are those of all rows
    by_group = rows.group if any(one.of_groups for one in resolve_constraints(constraints)) else None
    decided: dict[str, Evidence] = {}
    done = itertools.count()
    for name, metric in chosen.items():

        def fit(part: Any, metric: Metric = metric) -> Solution:
            progress(next(done), N_FOLDS * len(chosen))
            weight = None if rows.weight is None else rows.weight[~part]
            return maximize(
                metric,
                rows.proba[~part],
                labels[~part],
                sample_weight=weight,
                classes=rows.classes,
                random_state=seed,
                constraints=constraints,
                on_infeasible="closest",
                abstain=False if abstain is None else abstain,
                group=None if by_group is None else by_group[~part],
            )

        try:
            found = [solution for _, solution in cross_fit(quietly(fit), masks(folds))]
        except ValueError as error:
            fails = f"no rule for {name} can be tuned without one of the folds ("
            raise extended(error, fails, "); add rows of rare classes") from None
        if missing := sum(not solution.feasible for solution in found):
            app.warn(
                f"for {name}: in {missing} of {len(found)} folds no rule was met that keeps all limits on the other "
                f"folds, and the one that misses them least is used"
            )
        decided[f"for {name}"] = of_folds([solution.rule for solution in found], table, metric, folds, groups)
    return decided


def _values_of_rule(scores: Score, rule: str, metrics: Iterable[str]) -> Document:
    """Return one rule's values by metric, with replicates also intervals, and differences to argmax."""
    every = scores.to_dict()["metrics"]
    entries = {metric: every[metric][rule] for metric in metrics}
    document: Document = {"values": {metric: entry["value"] for metric, entry in entries.items()}}
    if scores.n_replicates:
        document["intervals"] = {metric: [entry["low"], entry["high"]] for metric, entry in entries.items()}
    if rule != "argmax":
        document["minus_argmax"] = {metric: entry["minus"]["argmax"] for metric, entry in entries.items()}
    return document


def _best(scores: Score, metrics: Iterable[str]) -> dict[str, list[str]]:
    """Return the rules with the largest value, by metric."""
    best = {}
    for metric, values in zip(metrics, scores.values, strict=False):
        # nothing equals NaN: where no value is finite, no rule is the best
        top = max(values[np.isfinite(values)], default=np.nan)
        best[metric] = [rule for rule, value in zip(scores.rules, values, strict=True) if value == top]
    return best


def _show_comparison(page: Page, document: Document) -> None:
    show_source(page, document)
    names = document["metrics"]
    page.say("", "Values; * is the best of its column", style="bold")
    page.table(["rule", *names], [[row["rule"], *_values(row, document["best"])] for row in document["rules"]])
    limits = [one["text"] for one in document["rules"][0].get("constraints", ())]
    if limits:
        page.say("", "Limits; * is kept on these rows", style="bold")
        page.table(["rule", *limits], [[row["rule"], *_kept(row)] for row in document["rules"]])
        _show_limits_of_groups(page, document["rules"])
    show_areas(page, document["rules"])
    for name in document["rules"][0].get("groups", {}):
        page.say("", f"Values in group {name}", style="bold")
        cells = [[row["rule"], *map(number, row["groups"][name].values())] for row in document["rules"]]
        page.table(["rule", *names], cells)
    intervals = document["intervals"]
    if intervals is not None:
        page.say("", "Difference to argmax, with its interval", style="bold")
        others = [row for row in document["rules"] if "minus_argmax" in row]
        page.table(["rule", *names], [[row["rule"], *_differences(row)] for row in others])
    page.say(
        "",
        f"'for NAME': tuned for that metric on {document['folds'] - 1} of {document['folds']} folds and evaluated on "
        f"the remaining one, {document['folds']} times. p/prior takes the class sizes from the same rows.",
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
    if "coverage" in names:
        page.say(EVERY_ROW)
    kept = ("file", "constraints", "abstain", *(["group"] if _has_limits_of_groups(document) else []), *TABLE_OPTIONS)
    again = app.command_line(click.get_current_context(), "confmax tune", kept)
    page.say(f"To tune a rule on all rows: {again} --metric NAME -o rule.json")


def _has_limits_of_groups(document: Document) -> bool:
    return any("by_group" in one for one in document["rules"][0].get("constraints", ()))


def _show_limits_of_groups(page: Page, rules: Sequence[Document]) -> None:
    """Print what every limit of groups limits in each of them, a table each."""
    for k, one in enumerate(rules[0]["constraints"]):
        if "by_group" in one:
            page.say("", f"{one['text']}, by group", style="bold")
            each = [[row["rule"], row["constraints"][k]["by_group"]] for row in rules]
            cells = [[rule, *(number(part["value"]) for part in found.values())] for rule, found in each]
            page.table(["rule", *one["by_group"]], cells)


def _values(row: Document, best: Mapping[str, Sequence[str]]) -> list[str]:
    return [number(value) + ("*" if row["rule"] in best[metric] else " ") for metric, value in row["values"].items()]


def _kept(row: Document) -> list[str]:
    return [number(one["value"]) + ("*" if one["kept"] else " ") for one in row["constraints"]]


def _differences(row: Document) -> list[str]:
    return [
        "-" if minus["value"] is None else f"{minus['value']:+.3f} [{minus['low']:+.3f}, {minus['high']:+.3f}]"
        for minus in row["minus_argmax"].values()
    ]
