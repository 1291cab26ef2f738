"""The numbers of a report on rules of several labels: metrics of all rules, every label apart, and labels per row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array
from confmax.evaluate.label_scores import (
    Judgeable,
    compare_labels,
    decided_by_folds,
    decided_labels,
    label_rivals,
    label_verdict,
    limits_of,
)
from confmax.evaluate.scores import Score
from confmax.evaluate.seen import was_tuned_on
from confmax.evaluate.verdict import Estimate, Verdict
from confmax.metrics import Metric
from confmax.metrics import labels as label_metrics
from confmax.rule.labels import LabelRule
from confmax.tables import MemoryTable

TUNED = "tuned rule"
LABEL_INTERVALS = 200  # labels up to which every one has its own interval
MOST_PER_ROW = 5  # labels of a row, above which rows are counted together
# rows of a label below which its figures say little: in a blend the model then counts more than they do
FEW = 20
F1_OF = "F1 of {}"  # a key that no metric has


@dataclass(frozen=True, eq=False)
class LabelFolds:
    """The fold (n,) of every row, and what was tuned without each of the folds."""

    fold: NDArray[np.int64]
    solutions: Sequence[TunedLabels]

    def decided(self, rules: Sequence[LabelRule], table: MemoryTable) -> Array:
        """Return what rules of the folds give to the rows (n, L) of their folds."""
        return decided_by_folds(rules, table, self.fold)


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
    proof : str or None
        What is proved, in a sentence; None for a saved rule.
    """

    table: MemoryTable
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


def label_figures(
    table: MemoryTable,
    metric: Metric,
    rule: LabelRule,
    solution: TunedLabels | None = None,
    folds: LabelFolds | None = None,
    *,
    rows: Any = None,
    **settings: Any,
) -> LabelFigures:
    """Return the numbers of a ``rule`` on a labelled ``table``, by a ``metric``; ``settings`` are the bootstrap's.

    With ``folds`` they are cross-fitted. The ``rows`` are those of the table as they were given, see `decided_labels`.
    """
    decided = decided_beside(table, rule, settings.get("seed", 0), folds, rows)
    metrics = {repr(one): one for one in (metric, *label_metrics.without_parameters())}
    plain = tuple(name for name in decided if name != TUNED)
    within = limits_of(rule, table) if rule.constraints else None
    limits: dict[str, Judgeable] = {} if within is None else dict.fromkeys(decided, within)
    score = compare_labels(table, metrics, decided, plain=plain, limits=limits, **settings)
    verdict = label_verdict(score, TUNED, metric, decided, table, within)
    few = {**settings, "n_replicates": settings["n_replicates"] if table.n_classes <= LABEL_INTERVALS else 0}
    assert table.labels is not None
    seen = folds is None and bool(was_tuned_on(rule, table))
    best = _strongest(verdict)
    both = {best: decided[best], TUNED: decided[TUNED]}
    each = compare_labels(table, f1_of_labels(table), both, plain=(best,), **few)
    made: dict[str, Array] = {"true": table.labels.astype(np.float64), **both}
    return LabelFigures(
        table,
        rule,
        repr(metric),
        score,
        verdict,
        best,
        rows_of_labels(rule, table, each, decided[TUNED], TUNED),
        tuple(_per_row(name, H, table) for name, H in made.items()),
        seen,
        None if solution is None else solution.guarantee,
        None if folds is None else len(folds.solutions),
        None if folds is None or solution is None else solution.label_value,
    )


def _strongest(verdict: Verdict) -> str:
    """Return the rival with the largest value, of those that keep the limits, if some do; of equal ones the first."""
    rivals = verdict.competing or verdict.rivals
    values = np.array([one.value.value for one in rivals])
    return rivals[int(np.argmax(np.where(np.isnan(values), -np.inf, values)))].name


def decided_beside(
    table: MemoryTable, rule: LabelRule, seed: int, folds: LabelFolds | None = None, rows: Any = None
) -> dict[str, Array]:
    """Return what a ``rule`` decides (n, L), as `TUNED`, behind its rivals, by name.

    It decides the ``rows`` of the table as they were given, see `decided_labels`.
    """
    decided = label_rivals(table, [rule.decisions], seed, None if folds is None else folds.fold)
    if folds is not None:
        return {**decided, TUNED: folds.decided([one.rule for one in folds.solutions], table)}
    return {**decided, TUNED: decided_labels(TUNED, rule, table, rows)}


def f1_of_labels(table: MemoryTable) -> dict[str, Metric]:
    """Return the F1 of every label of a ``table`` as a metric, by `F1_OF` its name."""
    f1 = label_metrics.resolve("macro_f1", None)
    return {F1_OF.format(name): replace(f1, classes=(k,)) for k, name in enumerate(table.classes)}


def rows_of_labels(rule: LabelRule, table: MemoryTable, score: Score, H: Array, name: str) -> tuple[LabelRow, ...]:
    """Return every label apart, of a rule that decides ``H`` (n, L) and is called ``name`` in a ``score`` of F1."""
    assert table.labels is not None
    weight = np.ones(table.n_rows) if table.weight is None else table.weight
    Y = table.labels.astype(np.float64)
    total = float(weight.sum())
    hits, made, true = ((weight @ part) / total for part in (Y * H, H, Y))
    n_rows = table.positives()
    thresholds = rule.thresholds
    at = {str(label): k for k, label in enumerate(rule.class_names)}
    found = []
    for k, label in enumerate(table.classes):
        key = F1_OF.format(label)
        found.append(
            LabelRow(
                str(label),
                int(n_rows[k]),
                float(true[k]),
                None if thresholds is None else float(thresholds[at.get(str(label), k)]),
                float(made[k]),
                float(hits[k] / made[k]) if made[k] else None,
                float(hits[k] / true[k]) if true[k] else None,
                score.estimate(name, key),
                score.estimate(score.plain[0], key).value,
            )
        )
    return tuple(found)


def _per_row(name: str, H: Array, table: MemoryTable) -> PerRow:
    """Return how many labels the decisions ``H`` (n, L) give to rows."""
    weight = np.ones(table.n_rows) if table.weight is None else table.weight
    share = weight / weight.sum()
    counts = H.sum(axis=1)
    mean = float(share @ counts)
    if (np.isclose(H, 0.0) | np.isclose(H, 1.0)).all():
        top = np.minimum(counts.round().astype(np.int64), MOST_PER_ROW)
        return PerRow(name, mean, tuple(np.bincount(top, share, MOST_PER_ROW + 1).tolist()))
    return PerRow(name, mean, ())
