"""The numbers of a report on rules of several labels: metrics of all rules, every label apart, and labels per row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from confmax.confusion import Array
from confmax.evaluate.label_lines import JudgedLabels, judge_labels
from confmax.evaluate.label_rivals import Folds, Rivals, label_rivals
from confmax.evaluate.label_scores import (
    Judgeable,
    compare_labels,
    decided_by_folds,
    label_verdict,
    labels_decided,
    limits_of,
)
from confmax.evaluate.scores import Score
from confmax.evaluate.seen import was_tuned_on
from confmax.evaluate.verdict import Estimate, Verdict
from confmax.metrics import Metric
from confmax.metrics import labels as label_metrics
from confmax.rule.labels import LabelRule
from confmax.tables import Part, Table

TUNED = "tuned rule"
LABEL_INTERVALS = 200  # labels up to which every one has its own interval
# rows of a label below which its figures say little: in a blend the model then counts more than they do
FEW = 20
F1_OF = "F1 of {}"  # a key that no metric has


@dataclass(frozen=True, eq=False)
class LabelFolds:
    """The folds of the rows, and what was tuned without each of them."""

    folds: Folds
    solutions: Sequence[TunedLabels]


class TunedLabels(Protocol):
    """What a report reads of `confmax.solution.labels.LabelSolution`."""

    @property
    def rule(self) -> LabelRule:
        """The rule."""

    @property
    def metric(self) -> Metric:
        """What was maximised."""

    @property
    def guarantee(self) -> str:
        """What is proved, in a sentence."""

    @property
    def label_value(self) -> float | None:
        """The metric of the rule on the labels of the tuning rows."""


@dataclass(frozen=True)
class LabelRow:
    """One label on the rows of a report: precision and recall are None where nothing is decided, or nothing true."""

    name: str
    n_rows: int
    share: float
    threshold: float | None
    rate: float
    precision: float | None
    recall: float | None
    f1: Estimate
    f1_plain: float


@dataclass(frozen=True)
class PerRow:
    """How many labels rows get: the mean, and the shares of rows with 0, 1, ... labels, the last of them and more.

    Shares are empty for rules that draw.
    """

    name: str
    mean: float
    shares: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class LabelFigures:
    """The numbers of a page.

    Attributes
    ----------
    score : Score
        The metrics of the rules, the tuned one last, which is called `TUNED`.
    metric : str
        The name of the tuned metric in it.
    verdict : Verdict
        On the tuned rule, by the tuned metric.
    plain : str
        Of the rivals that keep the limits the one with the largest value, beside which the tables show the tuned rule.
    labels : tuple of LabelRow
        In the order of the columns.
    per_row : tuple of PerRow
        Of the true labels, the rule ``plain``, and the tuned rule.
    seen : bool
        Whether the rule was tuned on these rows.
    n_folds : int or None
        Of cross-fitted figures: each row is decided by a rule that was tuned without its fold.
    on_tuning : float or None
        Then the metric of the kept rule on the labels of these rows, which tuned it.
    n_found_on : int
        The number of rows on which the thresholds of the rivals were found, zero if none were.
    proof : str or None
        What is proved, in a sentence; None for a saved rule.
    """

    table: Table
    rule: LabelRule
    metric: str
    score: Score
    verdict: Verdict
    plain: str
    labels: tuple[LabelRow, ...]
    per_row: tuple[PerRow, ...]
    seen: bool
    proof: str | None
    n_folds: int | None = None
    on_tuning: float | None = None
    n_found_on: int = 0

    @property
    def total_weight(self) -> float | None:
        """The weight of all rows; None where all have the same."""
        return None if self.table.head.weight is None else self.table.weight_total


def label_figures(
    table: Table,
    metric: Metric,
    rule: LabelRule,
    solution: TunedLabels | None = None,
    folds: LabelFolds | None = None,
    **settings: Any,
) -> LabelFigures:
    """Return the numbers of a ``rule`` on a labelled ``table``, by a ``metric``; ``settings`` are the bootstrap's.

    With ``folds`` they are cross-fitted.
    """
    rivals = label_rivals(table, [rule.decisions], settings.get("seed", 0), None if folds is None else folds.folds)
    judged = judge_labels(table, partial(decided_beside, rivals, rule, folds))
    metrics = {repr(one): one for one in (metric, *label_metrics.without_parameters())}
    within = limits_of(rule, table) if rule.constraints else None
    limits: dict[str, Judgeable] = {} if within is None else dict.fromkeys(judged.rules, within)
    score = compare_labels(judged, metrics, plain=judged.rules[:-1], limits=limits, **settings)
    verdict = label_verdict(score, TUNED, metric, judged, within)
    few = {**settings, "n_replicates": settings["n_replicates"] if table.n_classes <= LABEL_INTERVALS else 0}
    seen = folds is None and bool(was_tuned_on(rule, table))
    best = _strongest(verdict)
    both = judged.only((best, TUNED))
    each = compare_labels(both, f1_of_labels(table), plain=(best,), **few)
    return LabelFigures(
        table,
        rule,
        repr(metric),
        score,
        verdict,
        best,
        rows_of_labels(rule, both, each, TUNED),
        tuple(_per_row(name, judged) for name in ("true", best, TUNED)),
        seen,
        None if solution is None else solution.guarantee,
        None if folds is None else len(folds.solutions),
        None if folds is None or solution is None else solution.label_value,
        rivals.n_found_on,
    )


def _strongest(verdict: Verdict) -> str:
    """Return the rival with the largest value, of those that keep the limits, if some do; of equal ones the first."""
    rivals = verdict.competing or verdict.rivals
    values = np.array([one.value.value for one in rivals])
    return rivals[int(np.argmax(np.where(np.isnan(values), -np.inf, values)))].name


def decided_beside(rivals: Rivals, rule: LabelRule, folds: LabelFolds | None, part: Part) -> dict[str, Array]:
    """Return what a ``rule``, or those of ``folds``, decides for the rows of a ``part`` (n, L), as `TUNED`.

    It stands behind its ``rivals``, by name.
    """
    if folds is None:
        return labels_decided(rivals, {TUNED: rule}, part)
    return {**rivals(part), TUNED: decided_by_folds([one.rule for one in folds.solutions], folds.folds, part)}


def f1_of_labels(table: Table) -> dict[str, Metric]:
    """Return the F1 of every label of a ``table`` as a metric, by `F1_OF` its name."""
    f1 = label_metrics.resolve("macro_f1", None)
    return {F1_OF.format(name): replace(f1, classes=(k,)) for k, name in enumerate(table.classes)}


def rows_of_labels(rule: LabelRule, judged: JudgedLabels, score: Score, name: str) -> tuple[LabelRow, ...]:
    """Return every label apart, of a rule that was ``judged`` as ``name`` and is called so in a ``score`` of F1."""
    S = judged.whole[name][0]
    n_rows = judged.table.positives()
    thresholds = rule.thresholds
    at = {str(label): k for k, label in enumerate(rule.class_names)}
    found = []
    for k, label in enumerate(judged.table.classes):
        key = F1_OF.format(label)
        found.append(
            LabelRow(
                str(label),
                int(n_rows[k]),
                float(S.rows[k]),
                None if thresholds is None else float(thresholds[at.get(str(label), k)]),
                float(S.columns[k]),
                float(S.diagonal[k] / S.columns[k]) if S.columns[k] else None,
                float(S.diagonal[k] / S.rows[k]) if S.rows[k] else None,
                score.estimate(name, key),
                score.estimate(score.plain[0], key).value,
            )
        )
    return tuple(found)


def _per_row(name: str, judged: JudgedLabels) -> PerRow:
    """Return how many labels rows have, by the name "true", or get by a rule that was ``judged``."""
    rule = None if name == "true" else name
    return PerRow(name, judged.labels_per_row(rule), judged.shares_per_row(rule))
