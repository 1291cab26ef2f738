"""What is lost among the rows that are decided, against how many rows are decided.

A rule that abstains has two numbers: the share of the rows that it decides, its coverage, and the loss among them, one
minus a metric. Chow's order is what people use without tuning: it decides the most probable class of the rows where
this probability is largest, so that one order of the rows serves every coverage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax.confusion import Array, Confusion
from confmax.evaluate.decided import counts_of
from confmax.evaluate.protocols import Decides, Tuned
from confmax.evaluate.rivals import CHOW, chow
from confmax.evaluate.uncertainty import (
    AnyMetric,
    aligned_rule,
    column_order,
    decided_by,
    values_at,
)
from confmax.evaluate.verdict import Difference, Estimate
from confmax.metrics import Metric, resolve
from confmax.metrics.alignment import fit_metric
from confmax.metrics.decided import of_decided
from confmax.rule.parts import refuse_labels
from confmax.tables import Calibrator, MemoryTable, apply_calibrator, make_table
from confmax.tables.columns import deprecated, stated_order

BEST = "best rule at each coverage"
EVEN = 50  # points of Chow's curve
NEAR = 1e-6  # a rule that is tuned to a coverage may decide so much more


@dataclass(frozen=True, eq=False)
class RiskCoverage:
    """A risk-coverage curve: the loss among the rows that are decided, against their share.

    Attributes
    ----------
    coverages : ndarray (S,)
        Shares of all weight that are decided, increasing.
    losses : ndarray (S,)
        One minus the metric of the rows that are decided.
    metric : str
        Name of the metric.
    """

    coverages: Array
    losses: Array
    metric: str

    def loss_at(self, coverage: float) -> float:
        """Return the loss if at least the ``coverage`` is decided, on the line between two points.

        Below the first point it is the loss of that rule, which decides more rows than that.

        Raises
        ------
        ValueError
            If no rule of the curve decides so many rows.
        """
        high = float(self.coverages[-1])
        if not 0.0 <= coverage <= high + NEAR:
            raise ValueError(f"the curve reaches a coverage of {high:.6g}, and {coverage!r} lies beyond")
        return float(np.interp(coverage, self.coverages, self.losses))

    def area(self, low: float | None = None, high: float | None = None) -> float:
        """Return the mean loss over the coverages from ``low`` to ``high``: the area by the trapezoid, over its length.

        None is the end of the curve. Compare two curves over the same coverages, as `loss_at` reads them.

        Raises
        ------
        ValueError
            If no rule of the curve decides so many rows, or ``low`` is not below ``high``.

        Examples
        --------
        >>> RiskCoverage(np.array([0.5, 1.0]), np.array([0.0, 0.2]), "accuracy").area()
        0.1
        """
        start = float(self.coverages[0]) if low is None else float(low)
        end = float(self.coverages[-1]) if high is None else float(high)
        ends = self.loss_at(start), self.loss_at(end)
        if not start < end:
            raise ValueError(f"an area needs two coverages, the lower one first; got {start:.6g} and {end:.6g}")
        inside = (self.coverages > start) & (self.coverages < end)
        x = np.concatenate([[start], self.coverages[inside], [end]])
        y = np.concatenate([[ends[0]], self.losses[inside], [ends[1]]])
        return float((np.diff(x) * (y[1:] + y[:-1])).sum() / 2.0 / (end - start))


def risk_coverage(
    metric: AnyMetric,
    proba: ArrayLike,
    y: ArrayLike | None = None,
    rules: Sequence[Decides | Tuned] | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    classes: Sequence[Any] | None = None,
    calibrator: Calibrator | None = None,
    coverages: ArrayLike | None = None,
) -> RiskCoverage:
    """Return the risk-coverage curve of rules that abstain, or of Chow's rule, on rows.

    .. deprecated:: 0.1
        Use `confmax.frontier` with ``"coverage >="``: its `Frontier.on` reads the rules on rows, beside Chow's rule.

    Chow's rule decides the most probable class of the rows where its probability is largest. Of equal probabilities it
    decides an equal share, in expectation over the choice.

    Parameters
    ----------
    metric : str, Metric or callable
        A metric of the rows that are decided; one minus it is the loss.
    proba : array-like (n, K)
        Raw class probabilities.
    y : array-like (n,) or None
        True classes. None: the loss that is expected by the probabilities, as each rule calibrates them.
    rules : sequence of DecisionRule or Solution, or None
        Rules that abstain, such as those of `coverage_path`: each is a point of the curve, at the coverage that it has
        on these rows. A rule that decides every row is the point at 1. None for Chow's rule.
    sample_weight : array-like (n,) or None
        Non-negative weights.
    classes : sequence or None
        Class names in column order.
    calibrator : Calibrator or None
        Of Chow's rule: what corrects the probabilities first, such as ``solution.rule.calibrator``.
    coverages : array-like (S,) or None
        Of Chow's rule: the coverages of the points, in (0, 1]; by default .02, .04, ..., 1.

    Returns
    -------
    RiskCoverage
        The curve, with its area.

    Raises
    ------
    ValueError
        If the metric speaks of all rows, a rule has decisions beyond the classes that are not abstaining, or the input
        is bad.

    Examples
    --------
    >>> import confmax, warnings
    >>> P, y = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]] * 25, [0, 0, 1, 1] * 25
    >>> with warnings.catch_warnings(action="ignore"):
    ...     curve = confmax.risk_coverage("accuracy", P, y, coverages=[0.5, 0.75, 1.0])
    >>> curve.losses
    array([0.  , 0.  , 0.25])
    >>> round(curve.area(0.75, 1.0), 3)
    0.125
    """
    deprecated("risk_coverage", "confmax.frontier(metric, 'coverage >=', ...).on(proba, y)")
    given: list[Any] = [getattr(rule, "rule", rule) for rule in rules or ()]
    for rule in given:
        refuse_labels(rule, "a risk-coverage curve")
        if not isinstance(rule, Decides):
            raise ValueError(f"rules are rules or solutions of maximize; got {type(rule).__name__}")
    order = (column_order(given) or stated_order(y, proba)) if classes is None else classes
    table = make_table(proba, y, sample_weight, order, stated=classes is not None).dense("a risk-coverage curve")
    chosen = of_what_is_decided(fit_metric(resolve(metric), table, explicit=order is not None), table.n_classes)
    if rules is None:
        P = apply_calibrator(calibrator, table.proba)
        return chow_curve(chosen, P, table, checked_coverages(coverages))
    if not given:
        raise ValueError("rules is a sequence of rules that abstain, or None for Chow's rule; got an empty one")
    confusions = []
    for k, rule in enumerate(given):
        decided = decided_by(aligned_rule(f"{k}", rule, table.classes), table)
        if decided.n_decisions > table.n_classes and not decided.abstains:
            raise ValueError(
                f"rule {k} decides between {decided.n_decisions} things for {table.n_classes} classes and does not "
                f"abstain; tune it with abstain=True"
            )
        truth = apply_calibrator(getattr(rule, "calibrator", None), table.proba) if table.labels is None else None
        confusions.append(counts_of(decided, table, truth))
    return curve_of(chosen, confusions)


def of_what_is_decided(metric: Metric, n_classes: int) -> Metric:
    """Return a metric of the rows that are decided; a ValueError for one that speaks of all rows."""
    placed = of_decided(metric, n_classes)
    if not placed.formula.is_of_decided:
        raise ValueError(
            f"{metric!r} speaks of all rows, so it has no risk-coverage curve; take a metric of what is "
            f"decided, such as accuracy"
        )
    return placed


def checked_coverages(coverages: ArrayLike | None) -> Array:
    """Return coverages in increasing order, even ones for None; a ValueError if they are no shares of rows."""
    levels = np.unique(np.asarray(np.arange(1, EVEN + 1) / EVEN if coverages is None else coverages, dtype=np.float64))
    if not len(levels) or not (levels[0] > 0.0 and levels[-1] <= 1.0):
        raise ValueError(f"coverages are shares of the rows, above 0 and at most 1; got {coverages!r:.80}")
    return levels


# --- Chow's rule ------------------------------------------------------------------------------------------------------


def chow_curve(metric: Metric, proba: NDArray[Any], table: MemoryTable, coverages: ArrayLike) -> RiskCoverage:
    """Return the curve of Chow's rule on a ``table`` by its calibrated probabilities ``proba`` (n, K)."""
    weight = np.ones(table.n_rows) if table.weight is None else table.weight
    expected = proba if table.labels is None else None
    at = np.asarray(coverages, dtype=np.float64).tolist()
    return curve_of(metric, [counts_of(chow(proba, weight, c), table, expected) for c in at])


def curve_of(metric: Metric, confusions: Sequence[Array]) -> RiskCoverage:
    """Return the curve through rules with ``confusions``, weights (K, M) of rows by true class and decision.

    ``metric`` is one of what is decided. Rules of one coverage are one point, their mean loss.
    """
    K = len(confusions[0])
    C = np.stack([np.pad(counts / counts.sum(), ((0, 0), (0, K + 1 - counts.shape[1]))) for counts in confusions])
    coverages = C[:, :, :K].sum(axis=(1, 2))
    losses = 1.0 - values_at(metric, Confusion.from_matrix(C))
    points, which = np.unique(coverages.round(12), return_inverse=True)
    often = np.bincount(which)
    return RiskCoverage(points, np.bincount(which, weights=losses) / often, repr(metric))


# --- the numbers of a report ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Undecided:
    """Which share of a class, or of all rows, a rule leaves undecided, and which one Chow's rule."""

    name: str
    rule: Estimate
    chow: Estimate


@dataclass(frozen=True, eq=False)
class CoverageFigures:
    """The numbers of a report about what a rule leaves undecided; `confmax.evaluate.studies` computes them.

    ``label`` is the name of the metric. ``everywhere`` is argmax on all rows, ``chow`` Chow's rule at the coverage of
    the rule, ``rule`` the rule itself, and ``minus`` the rule minus Chow's. ``path`` is the curve of the best rules at
    a grid of coverages, None where there is none; ``over`` are the coverages that both areas are taken over.
    """

    label: str
    shares: tuple[Undecided, ...]
    everywhere: Estimate
    chow: Estimate
    rule: Estimate
    minus: Difference
    curve: RiskCoverage
    path: RiskCoverage | None
    over: tuple[float, float]

    @property
    def point(self) -> tuple[float, float]:
        """Coverage and loss of the rule."""
        return 1.0 - self.shares[0].rule.value, 1.0 - self.rule.value

    @property
    def curves(self) -> dict[str, RiskCoverage]:
        """The curves by their names."""
        return named_curves(self.curve, self.path)


def named_curves(chow: RiskCoverage, best: RiskCoverage | None) -> dict[str, RiskCoverage]:
    """Return Chow's curve and that of the best rules, which may not be known, by their names."""
    return {CHOW: chow} | ({} if best is None else {BEST: best})
