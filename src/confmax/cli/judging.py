"""What `confmax score` and `confmax compare` share: rules judged on the labels of a file, in all rows and by group.

A metric of what is decided counts one decision more than there are classes. Rules that decide every row count as rules
that have this decision and never take it, so their coverage is one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import click
import numpy as np

from confmax import metrics as catalogue
from confmax.calibration.column_order import doubt_of_order
from confmax.cli import app
from confmax.cli.columns import FileRows
from confmax.cli.matching import check_applies, not_applicable, typed
from confmax.cli.show import Document, Page, between, finite
from confmax.cli.texts import joined
from confmax.confusion import Array
from confmax.constraints import Constraint, Limits, resolve
from confmax.constraints.outcomes import NONE_DECIDED
from confmax.evaluate import uncertainty
from confmax.evaluate.decided import Decided, decided_by
from confmax.evaluate.judging import gains_of, judge_rules, plain_rules
from confmax.evaluate.limits import judged_limits
from confmax.evaluate.lines import Judged
from confmax.evaluate.scores import Score
from confmax.evaluate.uncertainty import check_bootstrap, doubts, in_groups
from confmax.evaluate.verdict import Estimate, Verdict
from confmax.evaluate.words import in_words
from confmax.metrics import Metric
from confmax.metrics.alignment import aligned
from confmax.metrics.catalogue import metric_of
from confmax.metrics.decided import of_decided
from confmax.rule import DecisionRule
from confmax.solution import fit_metric
from confmax.tables import Part, Table, make_table
from confmax.tables.groups import Groups

# metrics that are shown where none is named, of two classes and of several; and beside them
SEVERAL = ("macro_f1", "balanced_accuracy", "g_mean", "min_recall", "cohen_kappa")
OF_TWO = ("f1", "balanced_accuracy", "g_mean", "mcc", "cohen_kappa")
BESIDE = ("precision", "recall", "accuracy")
EVERY_ROW = "Metrics are those of the rows that a rule decides; argmax and p/prior decide every row."
AS_MANY = "Chow's rule, and p/prior on as many rows, decide as many as the rule: those that they are surest of."


def metrics_and_bootstrap(
    options: dict[str, Any], rules: Mapping[str, DecisionRule]
) -> tuple[list[Metric], dict[str, Any]]:
    """Take the metrics and the settings of the bootstrap out of a command's options.

    The table of ``linear`` is the one of the ``rules``, by their files.
    """
    names = options.pop("names")
    params = options.pop("params")
    # which of several metrics a parameter is for cannot be told
    if params and len(names) != 1:
        raise click.UsageError("--param belongs to one --metric; give exactly one")
    settings = {key: options.pop(key) for key in ("n_replicates", "level", "stratified", "seed")}
    check_bootstrap(settings["n_replicates"], settings["level"])
    return [metric_named(name, params, rules) for name in names], settings


def metric_named(name: str, params: Mapping[str, Any], rules: Mapping[str, DecisionRule]) -> Metric:
    """Return a metric by its name; ``linear`` is that of the table which ``rules``, by their files, were tuned for."""
    if name != "linear":
        # by `resolve`, which knows coverage too
        return catalogue.get(name, **params) if params else catalogue.resolve(name)
    if params:
        raise ValueError(f"linear takes its table from the rule, not --param {next(iter(params))}")
    found = table_metrics(rules)
    if not found:
        raise ValueError(
            "linear needs a table of costs or gains, which rules hold that 'confmax tune --costs' has tuned; name such "
            "a rule"
        )
    if len(found) > 1:
        raise ValueError(
            f"{joined(list(found))} were tuned for different tables of costs or gains; give rules of one table"
        )
    return next(iter(found.values()))


def table_metrics(rules: Mapping[str, DecisionRule]) -> dict[str, Metric]:
    """Return the metrics of the different tables of costs or gains that ``rules`` hold, by the first file of each."""
    found: dict[str, Metric] = {}
    tables = []
    for path, rule in rules.items():
        table = rule.cost_table
        if table is None:
            continue
        names = rule.class_names
        cells = {(i, j): x for i, row in zip(names, table.rows, strict=False) for j, x in zip(names, row, strict=True)}
        if (table.of, cells) not in tables:
            tables.append((table.of, cells))
            found[path] = cast(Metric, metric_of(rule))
    return found


# --- rows and decisions ----------------------------------------------------------------------------------------------


def judged_rows(
    rows: FileRows, rules: Mapping[str, DecisionRule], *, abstains: bool
) -> tuple[Judged, dict[str, dict[str, Decided]]]:
    """Return the lines of labelled rows with what argmax, p/prior and ``rules`` for their classes decide.

    These are made comparable, as `decisions`. The second are what decides as many rows as each rule that abstains.

    Classes without rows, and columns that seem to be in another order, are told.
    """
    table = make_table(rows.proba, classes=rows.classes) if rows.is_in_parts else checked_table(rows, rules.values())
    by_gains = partial(gains_of, rules) if rows.is_in_parts else None
    placed = partial(decisions, n_classes=table.n_classes, abstains=abstains)
    found = judge_rules(table, partial(_decide, rules), by_gains, rules, placed)
    if rows.is_in_parts:
        _doubts_of(table)
    return found


def _decide(rules: Mapping[str, DecisionRule], table: Part, prior: Array | None = None) -> dict[str, Decided]:
    """Return what plain rules, by the class sizes ``prior`` (K,), and ``rules`` decide for the rows of a part."""
    return {**plain_rules(table, prior), **{name: decided_in_groups(rule, table) for name, rule in rules.items()}}


def decided_in_groups(rule: DecisionRule, table: Part) -> Decided:
    """Return what a rule decides on a ``table``, whose file may hold the names of the rule's groups as text."""
    groups = table.groups
    if groups is not None and rule.groups:
        table = replace(table, groups=replace(groups, names=tuple(typed(groups.names, rule.groups))))
    return decided_by(rule, table)


def checked_table(rows: FileRows, rules: Iterable[DecisionRule] = ()) -> Table:
    """Return labelled rows as a table with the groups of its rows, in memory if a sample would have all of them.

    Raise a ValueError if one of the ``rules``, which decide by groups, does not know the group of a row.
    """
    table = make_table(rows.proba, rows.labels, rows.weight, rows.classes)
    if rows.group is not None:
        table = table.with_groups(Groups.of(rows.group, rows.n_rows))
        for rule in rules:
            if rule.groups:
                Groups.of(typed(rows.group, rule.groups), rows.n_rows, rule.groups)
    _doubts_of(table)
    return table


def _doubts_of(table: Table) -> None:
    """Tell classes without rows, and columns that seem to be in another order."""
    absent = [name for name, weight in zip(table.classes, table.label_weight(), strict=True) if not weight]
    if absent:
        app.warn(f"no row has the label {joined(absent)}: metrics that divide by class sizes leave it out")
    doubt = doubt_of_order(table, calibrated=0.0)
    if doubt:
        app.warn(doubt)


def aligned_metrics(wanted: Sequence[Metric], rows: FileRows) -> dict[str, Metric]:
    """Return the metrics that were asked for, by name, for the classes of a file; refuse those that do not apply."""
    found = [aligned(metric, rows.classes) for metric in wanted]
    for metric in found:
        check_applies(metric, rows)
    return {repr(metric): metric for metric in found}


def of_what_is_decided(
    metrics: Mapping[str, Metric], table: Table, rows: FileRows
) -> tuple[dict[str, Metric], list[Document]]:
    """Return coverage and ``metrics`` of what is decided, by name; and which of them have no value here, and why."""
    used = {"coverage": catalogue.resolve("coverage")}
    skipped = []
    for name, metric in metrics.items():
        try:
            with warnings.catch_warnings():
                # which classes have no rows has been said of the table
                warnings.simplefilter("ignore", UserWarning)
                decided = of_decided(fit_metric(metric, table, explicit=True), table.n_classes)
            why = not_applicable(decided, rows)
        except ValueError:
            why = "no row has its class" if metric.one_class else "few classes have rows"
        if why:
            skipped.append({"metric": name, "why": why})
        else:
            used[name] = decided
    return used, skipped


def decisions(every: Mapping[str, Decided], n_classes: int, *, abstains: bool) -> dict[str, Decided]:
    """Return what rules decide; if some ``abstains``, all between K + 1 decisions."""
    M = n_classes + 1
    for name, one in every.items():
        if abstains and (one.n_decisions > M or (one.n_decisions == M and not one.abstains)):
            raise ValueError(
                f"the rule {name} has decisions beyond the classes that are not called abstaining, and other rules "
                f"here abstain; leave it out, or compare it with rules that decide every row"
            )
    return {name: one._replace(n_decisions=M, abstains=True) if abstains else one for name, one in every.items()}


# --- values ----------------------------------------------------------------------------------------------------------


def scores_of(
    table: Part,
    used: Mapping[str, Metric],
    wanted: Sequence[Constraint],
    decided: Mapping[str, Decided],
    settings: Mapping[str, Any],
) -> Score:
    """Return values of rules by the metrics ``used`` and by those that are limited in ``wanted``, by their texts.

    What makes the values doubtful is printed. What a limit of groups limits has a value in every group alone.
    """
    of_all = {**used, **{str(one): one.metric for one in wanted if not one.of_groups}}
    scores = uncertainty.compare(table, of_all, decided, **settings)
    app.warn(*doubts(scores, of_all, undefined=False))
    in_each = {**used, **{str(one): one.metric for one in wanted}}
    return replace(scores, by_group=in_groups(table, in_each, decided, **settings))


def limit_documents(
    scores: Score,
    limits: Limits | None,
    decided: Decided,
    table: Part,
    rule: str,
    absent: Sequence[str] = (),
) -> list[Document]:
    """Return what a ``rule``, by what it ``decided``, makes of limits on these rows; ``absent`` ones have no rows."""
    documents = []
    judged = [] if limits is None else judged_limits(limits, scores, rule, decided, table)
    for one, found in zip(() if limits is None else limits.constraints, judged, strict=True):
        document: Document = {
            "text": str(one),
            "value": finite(found.estimate.value),
            "kept": found.kept,
            "vacuous": found.vacuous,
            **_interval(scores, found.estimate),
        }
        if one.of_groups:
            document["by_group"] = {
                str(name): {"value": finite(part.value), **_interval(scores, part)}
                for name, part in found.by_group.items()
            }
        documents.append(document)
    for text in absent:
        why = "no row has the class" if table.groups is None else "no row has the class in a group"
        if table.groups is None and any(one.of_groups for one in resolve(text)):
            why = "it speaks of groups; give --group, the column of these"
        app.warn(f"the limit {text} cannot be judged on this file: {why}")
        documents.append({"text": text, "value": None, "kept": None, "vacuous": False})
    return documents


def verdict_documents(
    judge: Callable[[str, Metric], Verdict],
    by: str,
    metrics: Mapping[str, Metric],
    asked: Iterable[str],
    unit: Callable[[str], str | None],
    rule: str,
) -> Document:
    """Return the verdict on a ``rule`` by its own metric, and in brief those by other metrics that were ``asked`` for.

    ``judge`` returns the verdict by one of the ``metrics``, by its name, ``unit`` what people read in the place of a
    name, and ``by`` is the name of the rule's own metric.
    """

    def found(name: str) -> Document:
        verdict = judge(name, metrics[name])
        return {**verdict.to_dict(), "unit": unit(name), "told": in_words(verdict, rule)}

    others = [found(name) for name in asked if name != by]
    brief = [{key: one[key] for key in ("metric", "unit", "kind", "of", "side", "told")} for one in others]
    return {"verdict": found(by), **({"further_verdicts": brief} if brief else {})}


def say_verdicts(page: Page, documents: Iterable[Document]) -> None:
    """Print what documents say of their rules."""
    found = [one for row in documents if "verdict" in row for one in (row["verdict"], *row.get("further_verdicts", ()))]
    said = [f"By {one['unit'] or one['metric']}, {one['told']}." for one in found if one["told"]]
    page.say(*([""] if said else []), *said)


def in_each(scores: Score, table: Part, documents: Callable[[Score], Any]) -> Document:
    """Return, for a document, what ``documents`` make of the scores in each group; nothing without groups."""
    if table.groups is None:
        return {}
    return {"groups": {str(name): documents(part) for name, part in scores.by_group.items()}}


def each_of(document: Document) -> list[tuple[str, Any]]:
    """Return the titles of the groups in a document, and what it holds of each."""
    return [(f"Group {name}", part) for name, part in document.get("groups", {}).items()]


def limit_cells(one: Document) -> list[list[str]]:
    """Return the cells of a limit, and below it what it limits in every group."""
    kept = {None: "cannot be judged", False: "no", True: NONE_DECIDED if one["vacuous"] else "yes"}[one["kept"]]
    lines = [[one["text"], with_interval(one), kept]]
    for name, part in one.get("by_group", {}).items():
        lines.append([f"  {name}", with_interval(part), NONE_DECIDED if part["value"] is None else ""])
    return lines


def _interval(scores: Score, it: Estimate) -> Document:
    """Return the interval of a value, nothing without replicates or an interval."""
    return {} if it.low is None or not scores.n_replicates else {"interval": [it.low, it.high]}


def with_interval(one: Document) -> str:
    """Return the value of a document with its interval, if it has one."""
    return between(one["value"], *one.get("interval", (None, None)))


def rows_undecided(decided: Decided, table: Part) -> float:
    """Return how many rows of a ``table`` are left undecided; of a rule that draws, the expected number."""
    copies = np.ones(table.n_rows) if table.copies is None else table.copies
    return float(decided.shares @ (decided.decisions == decided.n_decisions - 1) @ copies)


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


def undecided_words(document: Document) -> dict[str, str]:
    """Return how many rows a rule leaves undecided, nothing for one that decides every row."""
    if "abstain" not in document:
        return {}
    return {"undecided": f"{document['rows_undecided']:g} of {document['rows']} rows, as {document['abstain']}"}
