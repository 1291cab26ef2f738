"""Metrics of the rows that are decided, where a rule may abstain: the last column of C holds the rows that it leaves.

A metric of what is decided is the metric of C without its last column, divided by the sum of what remains. The row sums
of what is decided depend on the rule. So a ratio N / D, whose constants are linear functions of the row sums, stays a
ratio of linear functions: each entry of C that is decided brings its part of the constants. The accuracy of what is
decided, the selective accuracy, is ``sum D / coverage``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from confmax.confusion import UNIT, Array, Confusion, Gains
from confmax.metrics.curved import Climb, OfShares
from confmax.metrics.first_order import FirstOrder, Formula, Side, reciprocal
from confmax.metrics.metric import ZERO_TO_ONE, Metric
from confmax.metrics.ratios import Ratios
from confmax.metrics.recalls import BALANCED_ACCURACY
from confmax.metrics.scores import ClassParts, ClassScores
from confmax.metrics.shares import Share, ShareParts
from confmax.metrics.structure import AffineFunctions, General, Linear, MinOfLinear, Ratio, Structure

SAME = 1e-12  # relative difference of coefficients that rounding explains
SOFT = 0.005  # smoothing of the smallest recall, where it is climbed


@dataclass(frozen=True)
class Coverage(Formula):
    """The share of all rows that are decided, or of the rows of the class at ``place``."""

    place: int | None = None
    whole: ClassVar[bool] = True
    is_share: ClassVar[bool] = True
    is_coverage: ClassVar[bool] = True

    def decides(self, n_classes: int) -> int:
        return n_classes + 1

    def __call__(self, S: Confusion, **_: Any) -> FirstOrder:
        """Return value and derivatives; without a decision beyond the classes all rows are decided."""
        K = S.rows.shape[-1]
        M = S.columns.shape[-1]
        if self.place is None:
            # what is left undecided has no rounding where nothing is
            by_columns = np.zeros_like(S.columns)
            by_columns[..., K:] = -1.0
            zero = np.zeros_like(S.diagonal)
            return FirstOrder(1.0 - S.columns[..., K:].sum(-1), zero, by_columns, np.zeros_like(S.rows))
        assert S.matrix is not None
        unit = np.asarray(reciprocal(S.rows[..., self.place]))
        decided = S.matrix[..., self.place, :K].sum(-1)
        full = np.zeros((*S.matrix.shape[:-2], K, M))
        full[..., self.place, :K] = unit[..., None]
        return FirstOrder(decided * unit, matrix=full)

    def values(self, S: Confusion, **_: Any) -> Array:
        return self(S).value

    def among(self, S: Confusion) -> Array:
        return S.rows.sum(-1) if self.place is None else S.rows[..., self.place]


def coverage_parts(rows: Array, **_: Any) -> Ratios:
    """``(1 - c) / 1`` with c, how often is abstained."""
    K = len(rows)
    top = Gains(np.zeros((1, K)), -np.eye(1, K + 1, K))
    none = Gains(np.zeros((1, K)), np.zeros((1, K + 1)))
    one = np.ones(1)
    return Ratios(top, none, one, one, one, one)


@dataclass(frozen=True)
class OfDecided(Formula):
    """The formula of ``inner``, a metric placed among the classes, on the rows that are decided."""

    inner: Metric
    whole: ClassVar[bool] = True
    is_of_decided: ClassVar[bool] = True

    @property
    def is_share(self) -> bool:
        return self.inner.formula.is_share

    @property
    def side(self) -> Side | None:
        return self.inner.formula.side

    def decides(self, n_classes: int) -> int:
        return n_classes + 1

    def __call__(self, S: Confusion, **_: Any) -> FirstOrder:
        """Return value and derivatives; zero where nothing is decided."""
        K = S.rows.shape[-1]
        seen, unit = self.seen(S)
        first = self.inner.at(seen)
        none = unit == 0.0
        value = np.where(none, 0.0, first.value)
        if not reads_rows(self.inner):
            along = (first.diagonal * seen.diagonal).sum(-1) + (first.columns * seen.columns).sum(-1)
            by_columns = np.zeros_like(S.columns)
            by_columns[..., :K] = (first.columns - along[..., None]) * unit[..., None]
            return FirstOrder(value, first.diagonal * unit[..., None], by_columns, np.zeros_like(S.rows))
        assert S.matrix is not None and seen.matrix is not None
        G = first.matrix
        if G is None:
            G = first.diagonal[..., None, :] * np.eye(K) + first.columns[..., None, :] + first.rows[..., :, None]
        full = np.zeros(S.matrix.shape)
        full[..., :K] = (G - (G * seen.matrix).sum((-2, -1))[..., None, None]) * unit[..., None, None]
        return FirstOrder(value, matrix=full)

    def values(self, S: Confusion, **_: Any) -> Array:
        # of many matrices mostly the sums are read, and then none is copied
        seen, unit = self.seen(S, matrix=self.inner.statistics == "matrix")
        return np.where(unit == 0.0, 0.0, self.inner.values(seen))

    def among(self, S: Confusion) -> Array:
        """Return those of the rows that are decided."""
        return self.inner.among(self.seen(S)[0]) * S.columns[..., : S.rows.shape[-1]].sum(-1)

    def seen(self, S: Confusion, *, matrix: bool = True) -> tuple[Confusion, Array]:
        """Return the confusion of the rows that are decided, and one over their share (...), 0 for none.

        Its ``matrix`` is there for metrics that read the row sums, if it is asked for.
        """
        K = S.rows.shape[-1]
        unit = np.asarray(reciprocal(S.columns[..., :K].sum(-1)))
        hits, decisions = (part * unit[..., None] for part in (S.diagonal, S.columns[..., :K]))
        if not reads_rows(self.inner):
            return Confusion(np.broadcast_to(S.rows, S.diagonal.shape), hits, decisions), unit
        assert S.matrix is not None
        kept = S.matrix[..., :K]
        whole = kept * unit[..., None, None] if matrix else None
        return Confusion(kept.sum(-1) * unit[..., None], hits, decisions, whole), unit


def of_decided(metric: Metric, n_classes: int, least: float = 0.0, of_classes: tuple[float, ...] = ()) -> Metric:
    """Return a metric of the rows that are decided, for rules that may abstain; it is placed among ``n_classes`` K.

    What speaks of all rows (`coverage`, `rate`, tables of costs) is returned as it is. ``least`` is the least coverage
    of the rules that count, of all rows and ``of_classes`` (K): a bound on the metric divides by it.

    >>> import confmax
    >>> selective = of_decided(confmax.metrics.get("accuracy"), 2)
    >>> selective.value([[40, 10, 10], [0, 30, 10]])
    0.875
    """
    if metric.formula == Coverage() and metric.one_class is not None:
        place = (metric.classes or (0,))[-1]
        return replace(metric.of_class(place, n_classes), formula=Coverage(place))
    if metric.of_all_rows or metric.formula.is_of_decided:
        return metric
    parts = _lifted(metric, np.full(n_classes, 1.0 / n_classes))
    structure: Structure = General()
    if parts is None and metric.statistics != "matrix":
        structure = General(climb=_Climbs(metric))
    if parts is not None:
        fractions = _Fractions(metric, least, of_classes)
        structure = Ratio(fractions=fractions) if len(parts.top) == 1 else General(fractions=fractions)
    return replace(
        metric,
        formula=OfDecided(metric),
        structure=structure,
        classes=tuple(range(n_classes)),
        statistics="matrix" if reads_rows(metric) else "columns",
        one_class=None,
        divides_by_prior=False,
    )


def as_written(metric: Metric) -> Metric:
    """Return the metric of which one is that of what is decided; others as they are."""
    return metric.formula.inner if isinstance(metric.formula, OfDecided) else metric


def reads_rows(metric: Metric) -> bool:
    """Whether a metric reads the row sums, which are those of what is decided."""
    return metric.statistics == "matrix" or metric.formula.reads_rows


# --- ratios -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Fractions:
    """The ratios of a metric of what is decided, at row sums (K,), and the least coverage of the rules that count."""

    metric: Metric
    least: float
    of_classes: tuple[float, ...]

    def __call__(self, rows: Array, **_: Any) -> Ratios:
        found = _lifted(self.metric, rows, self.least, self.of_classes)
        assert found is not None
        return found


@dataclass(frozen=True)
class _Climbs:
    """A metric of what is decided as a smooth function of the diagonal, the column sums and the row sums of that."""

    metric: Metric

    def __call__(self, rows: Array) -> Climb:
        K = len(rows)
        full = np.zeros((3 * K, K, K + 1))
        k = np.arange(K)
        full[k, k, k] = 1.0
        full[K + k, :, k] = 1.0
        full[2 * K + k, k, :K] = 1.0
        # no gradient leads to the largest minimum: a soft one lies within SOFT log K of it
        smooth = self.metric.smoothed(SOFT) if isinstance(self.metric.structure, MinOfLinear) else self.metric
        return Climb(AffineFunctions(Gains(full=full), np.zeros(3 * K)), OfShares(smooth, K))


def _lifted(metric: Metric, rows: Array, least: float = 0.0, of_classes: tuple[float, ...] = ()) -> Ratios | None:
    """Return the ratios of a metric of what is decided; None where their constants are not linear in the row sums."""
    K = len(rows)
    at = _parts(metric, rows)
    if at is None:
        return None
    B = len(at.top)
    tops = np.zeros((B, K))
    bottoms = np.zeros((B, K))
    for k, unit in enumerate(np.eye(K)):
        one = _parts(metric, unit)
        assert one is not None
        if not (_same(one.top, at.top) and _same(one.bottom, at.bottom) and np.array_equal(one.weights, at.weights)):
            return None
        tops[:, k] = one.top_constant
        bottoms[:, k] = one.bottom_constant
    for found, constants in ((tops, at.top_constant), (bottoms, at.bottom_constant)):
        # the class sizes of a table in float32 do not quite sum to one
        if not np.allclose(found @ rows, constants, rtol=UNIT, atol=1e-12):
            return None
    floor = np.zeros(B)
    zero = np.zeros(B)
    if not (at.bottom.matrices() < 0.0).any():
        # what every row that is decided brings at least, and every row of a class
        floor = np.maximum(bottoms.min(axis=1) * least, bottoms @ (rows * np.array(of_classes or np.zeros(K))))
    top = _with_rows(at.top, tops)
    bottom = _with_rows(at.bottom, bottoms)
    if (top.full is None) != (bottom.full is None):
        top, bottom = (Gains.from_matrix(part.matrices()) for part in (top, bottom))
    return Ratios(top, bottom, zero, zero, floor, at.weights, at.most)


def _parts(metric: Metric, rows: Array) -> Ratios | None:
    """Return the ratios that a metric sums at row sums ``rows`` (K,), those of linear metrics too."""
    K = len(rows)
    if metric.structure.fractions is not None:
        return metric.as_ratios(rows, K)
    index = rows if metric.classes is None else rows[list(metric.classes)]
    formula = metric.formula
    if not isinstance(metric.structure, Linear):
        return None
    if isinstance(formula, Share):
        found = ShareParts(formula)(index)
    elif formula == BALANCED_ACCURACY and not metric.params:
        found = ClassParts(ClassScores(1.0, columns=0))(index)
    else:
        return None
    return found if metric.classes is None else found.placed(metric.classes, K, K)


def _same(one: Gains, other: Gains) -> bool:
    """Whether two batches of gains are equal up to rounding."""
    parts = [(one.a, other.a), (one.b, other.b), (one.full, other.full)]
    if one.power != other.power or any((x is None) != (y is None) for x, y in parts):
        return False
    return all(np.allclose(x, y, rtol=SAME, atol=SAME) for x, y in parts if x is not None and y is not None)


def _with_rows(gains: Gains, constants: Array) -> Gains:
    """Return gains (B) over K + 1 decisions, to which a row of class k that is decided adds ``constants`` (B, k)."""
    K = gains.n_classes
    alike = bool((constants == constants[:, :1]).all())
    if gains.full is None and not gains.power and alike:
        a, b = gains.pair()
        return Gains(a, np.pad(b + constants[:, :1], ((0, 0), (0, 1))) + 0.0)
    full = np.zeros((len(gains), K, K + 1))
    full[:, :, :K] = gains.matrices() + constants[:, :, None]
    return Gains.from_matrix(full)


# --- what is limited, or maximised within limits ----------------------------------------------------------------------

COVERAGE = Metric(
    "coverage",
    Coverage(),
    Linear(fractions=coverage_parts),
    "columns",
    description="share of all rows that are decided",
    range=ZERO_TO_ONE,
    use="within limits",
    of_all_rows=True,
)
COVERAGE_OF_CLASS = Metric(
    "coverage",
    Coverage(),
    Linear(),
    "matrix",
    one_class="alone",
    divides_by_prior=True,
    ordered=True,
    description="share of the rows of one class that are decided",
    range=ZERO_TO_ONE,
    use="within limits",
    of_all_rows=True,
)
