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
    limits_of,
    plain_decisions,
)
from confmax.evaluate.scores import Estimate, Score
from confmax.metrics import Metric
from confmax.metrics import labels as label_metrics
from confmax.rule.labels import LabelRule
from confmax.tables import MemoryTable
from confmax.tables.fingerprints import fingerprint

TUNED = "tuned rule"
SEPARATE = "separate thresholds"
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
    def alone(self) -> Array | None:
        """The best threshold of every label on the tuning rows (L,), before it is drawn towards others."""

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
    plain : str
        The plain rule with the largest value, with which the tuned one is compared first.
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
    decided = decided_beside(table, rule, solution, folds, rows)
    metrics = {repr(one): one for one in (metric, *label_metrics.without_parameters())}
    plain = tuple(name for name in decided if name != TUNED)
    limits: dict[str, Judgeable] = dict.fromkeys(decided, limits_of(rule, table)) if rule.constraints else {}
    score = compare_labels(table, metrics, decided, plain=plain, limits=limits, **settings)
    few = {**settings, "n_replicates": settings["n_replicates"] if table.n_classes <= LABEL_INTERVALS else 0}
    assert table.labels is not None
    seen = folds is None and rule.tuned_on == fingerprint(table.unordered_hashes(), table.labels, table.classes)
    best = _best_plain(score, repr(metric), seen=seen)
    both = {best: decided[best], TUNED: decided[TUNED]}
    each = compare_labels(table, f1_of_labels(table), both, plain=(best,), **few)
    made: dict[str, Array] = {"true": table.labels.astype(np.float64), **both}
    return LabelFigures(
        table,
        rule,
        repr(metric),
        score,
        best,
        rows_of_labels(rule, table, each, decided[TUNED], TUNED),
        tuple(_per_row(name, H, table) for name, H in made.items()),
        seen,
        None if solution is None else solution.guarantee,
        None if folds is None else len(folds.solutions),
        None if folds is None or solution is None else solution.label_value,
    )


def _best_plain(score: Score, metric: str, *, seen: bool) -> str:
    """Return the plain rule with the largest value of a ``metric``, of equal ones the first."""
    # on the rows that they were tuned on, separate thresholds are the best there are, and show nothing
    names = [name for name in score.plain if not (seen and name == SEPARATE)]
    values = np.array([score.estimate(name, metric).value for name in names])
    return names[int(np.argmax(np.where(np.isnan(values), -np.inf, values)))]


def decided_beside(
    table: MemoryTable,
    rule: LabelRule,
    solution: TunedLabels | None,
    folds: LabelFolds | None = None,
    rows: Any = None,
) -> dict[str, Array]:
    """Return what a ``rule`` decides (n, L), as `TUNED`, behind what is decided without tuning, by name.

    It decides the ``rows`` of the table as they were given, see `decided_labels`.
    The thresholds that are best for each label alone are known of a ``solution`` only.
    """
    decided = plain_decisions(table, [rule.decisions], by_prior=True)
    known = () if solution is None else (solution,) if folds is None else folds.solutions
    alone = [_separate(one) for one in known if one.alone is not None and rule.thresholds is not None]
    if folds is not None:
        if len(alone) == len(folds.solutions):
            decided[SEPARATE] = folds.decided(alone, table)
        return {**decided, TUNED: folds.decided([one.rule for one in folds.solutions], table)}
    if alone:
        decided[SEPARATE] = decided_labels(SEPARATE, alone[0], table, rows)
    return {**decided, TUNED: decided_labels(TUNED, rule, table, rows)}


def _separate(solution: TunedLabels) -> LabelRule:
    """Return the rule of the thresholds that are best for each label alone."""
    assert solution.alone is not None
    return LabelRule.from_thresholds(solution.alone, classes=solution.rule.class_names)


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


def named_label_metric(text: str) -> Metric | None:
    """Return the metric that the file of a rule of several labels names; None for functions, and what is not known."""
    name, _, rest = text.partition("(")
    params = dict(part.split("=", 1) for part in rest.rstrip(")").split(", ") if "=" in part)
    try:
        return label_metrics.get(name, None, **{key: float(value) for key, value in params.items()})
    except ValueError:
        return None
