"""A metric that is limited: which limits can be proved, and the linear functions that must not fall below zero.

At fixed row sums a limit on a ratio N / D is linear: a floor l is ``N - l D >= 0``, a ceiling ``l D - N >= 0``
(Dinkelbach's functions, as in `confmax.metrics.ratios`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import ROUNDING, Array, Confusion, Gains
from confmax.metrics.first_order import TINY, FirstOrder, Formula
from confmax.metrics.metric import Metric
from confmax.metrics.ratios import Ratios
from confmax.metrics.structure import AffineFunctions, Linear, affine


def refusal(metric: Metric, is_floor: bool, number: str) -> str | None:
    """Return why the rules that keep a limit on a metric are no convex set, and what to limit; None if they are one.

    ``number`` is the limit, as the sentence shows it.
    """
    structure = metric.structure
    sense = ">=" if is_floor else "<="
    if structure.is_linear or (structure.is_ratio and structure.fractions is not None):
        return None
    if structure.is_concave:
        if not is_floor:
            return (
                f"no ceiling can be set on a concave metric, because the rules that keep it are no convex set; limit "
                f"the recall of a class, such as recall[NAME] <= {number}"
            )
        if structure.recall_mean is not None or structure.is_minimum:
            return None
        return (
            "of the concave metrics only means of the recalls without smoothing can be limited; limit g_mean, h_mean, "
            "q_mean or min_recall instead"
        )
    if structure.is_ratio:
        return (
            f"the numerator and the denominator of a function are not known; limit a ratio of the catalogue, such as "
            f"cohen_kappa {sense} {number}"
        )
    return (
        f"{metric.name} is neither linear nor a ratio, so no limit on it can be proved; limit a ratio instead, such as "
        f"cohen_kappa {sense} {number}, or f1[NAME] {sense} {number} of each class"
    )


@dataclass(frozen=True)
class Negative(Formula):
    """Minus a linear ``formula``."""

    formula: Formula

    @property
    def whole(self) -> bool:  # type: ignore[override]
        return self.formula.whole

    def decides(self, n_classes: int) -> int:
        """Return the number of decisions of the formula."""
        return self.formula.decides(n_classes)

    def __call__(self, S: Confusion, **params: Any) -> FirstOrder:
        first = self.formula(S, **params)
        matrix = None if first.matrix is None else -first.matrix
        return FirstOrder(-first.value, -first.diagonal, -first.columns, -first.rows, matrix)

    def values(self, S: Confusion, **params: Any) -> Array:
        return -self.formula.values(S, **params)


def negative(metric: Metric) -> Metric | None:
    """Return minus a linear metric, whose largest value is minus the smallest of the metric; None for others.

    >>> import confmax
    >>> negative(confmax.metrics.get("accuracy")).value([[3, 1], [0, 4]])
    -0.875
    """
    if not metric.structure.is_linear or metric.gain is not None:
        return None
    return replace(metric, formula=Negative(metric.formula), structure=Linear())


Coefficients = tuple[Array, Array, Array]


def count_of(metric: Metric, n_classes: int) -> int:
    """Return how many linear functions a limit on a metric is."""
    if metric.structure.recall_mean is not None:
        return len(metric.classes or range(n_classes))
    if not metric.structure.is_minimum:
        return 1
    return len(metric.linear_functions(np.full(n_classes, 1 / n_classes), n_classes))


def functions_of_limit(metric: Metric, parts: Ratios, limit: float, sign: float, rows: Array) -> AffineFunctions:
    """Return the functions of a ``limit`` on one metric, of these `ratio_of`: a floor, if the ``sign`` is one.

    A ceiling otherwise.
    """
    if metric.structure.recall_mean is not None:
        # a mean has its recalls plus one (`Limits.curves`)
        return AffineFunctions(parts.top, parts.top_constant + 1.0)
    factor = sign / (without_errors(parts, rows) or 1.0)
    gains = parts.gains(np.full(len(parts.top), limit))
    return AffineFunctions(gains.times(factor), factor * (parts.top_constant - limit * parts.bottom_constant) + 0.0)


def scales_of(metric: Metric, parts: Ratios, S: Confusion) -> Array:
    """Return `Limits.scales` of a limit on one metric, of these `ratio_of`."""
    mean = metric.structure.recall_mean
    if mean is not None:
        _, slopes = mean.tangent(AffineFunctions(parts.top, parts.top_constant).values(S))
        return np.full(len(slopes), 1.0 / slopes.sum())
    return np.asarray(parts.denominators(S) / (without_errors(parts, S.rows) or 1.0))


def ratio_of(metric: Metric, rows: Array, n_decisions: int) -> Ratios:
    """Return a metric that can be limited as ratios of linear functions, for all ``n_decisions``.

    Linear functions are over one. The smallest of several has them all, and a mean of the recalls the recalls.
    """
    parts = metric.as_ratios(rows, n_decisions) if metric.structure.is_ratio else None
    if parts is None:
        gains, constants = affine(metric.as_functions(rows, n_decisions))
        one = np.ones(len(gains))
        parts = Ratios(gains, gains.times(0.0), constants, one, one, one)
    return replace(parts, top=wide(parts.top, n_decisions), bottom=wide(parts.bottom, n_decisions))


@dataclass(frozen=True, eq=False)
class Fractions:
    """Metrics (n) that limits are on as `ratio_of` at row sums ``rows`` (K,), with ``n_decisions`` M.

    What a limit says of a rule follows from them: its value, by how much it is kept, and the linear functions that a
    search reads. Most limits are of one kind, and many are read by one product.
    """

    metrics: tuple[Metric, ...]
    rows: Array
    n_decisions: int

    def __getitem__(self, k: int) -> Ratios:
        """Return the ratios of metric ``k``."""
        if k not in self._parts:
            self._parts[k] = ratio_of(self.metrics[k], self.rows, self.n_decisions)
        return self._parts[k]

    def read(self, S: Confusion) -> tuple[Array, NDArray[np.bool_]]:
        """Return the values (..., n) at ``S``, and where they are 0/0."""
        values = np.empty((*S.diagonal.shape[:-1], len(self.metrics)))
        vacuous = np.zeros(values.shape, dtype=bool)
        places, ratios, tops, bottoms = self._together
        if len(places):
            N, D = (S.diagonal @ a + S.columns @ b + constant for a, b, constant in (tops, bottoms))
            nothing = D <= TINY
            if (D <= ROUNDING).any():
                a, b, constants = map(np.abs, bottoms)
                nothing |= ROUNDING * (S.diagonal @ a + S.columns @ b + constants) >= D
            vacuous[..., places] = nothing & ratios
            values[..., places] = np.divide(N, D, out=np.zeros(D.shape), where=~nothing)
        for k in self._apart:
            metric = self.metrics[k]
            values[..., k] = metric.values(S)
            if metric.structure.is_ratio and not metric.structure.is_linear:
                vacuous[..., k] = self[k].denominators(S) <= TINY
        return values, vacuous

    @cached_property
    def _parts(self) -> dict[int, Ratios]:
        return {}

    @cached_property
    def _apart(self) -> list[int]:
        """Which metrics are no single ratios in diagonal and decisions."""
        return np.setdiff1d(np.arange(len(self.metrics)), self._together[0]).tolist()

    @cached_property
    def _together(self) -> tuple[NDArray[np.intp], NDArray[np.bool_], Coefficients, Coefficients]:
        """Which metrics are single ratios in diagonal and decisions, of these not linear, and their coefficients."""
        some = [k for k, one in enumerate(self.metrics) if one.structure.is_ratio and one.statistics != "matrix"]
        places = np.array([k for k in some if self[k].is_reduced and self[k].weights.tolist() == [1.0]], dtype=np.intp)
        every = [self[k] for k in places]
        tops, bottoms = (
            [(*gains.coefficients(), constant) for gains, constant in parts]
            for parts in (
                [(part.top, part.top_constant) for part in every],
                [(part.bottom, part.bottom_constant) for part in every],
            )
        )
        ratios = np.array([not self.metrics[k].structure.is_linear for k in places], dtype=np.bool_)
        return places, ratios, _stacked(tops), _stacked(bottoms)


def _stacked(parts: Sequence[Coefficients]) -> Coefficients:
    """Return coefficients of the diagonal (K, n) and of the decisions (M, n), and constants (n,)."""
    if not parts:
        return np.zeros((0, 0)), np.zeros((0, 0)), np.zeros(0)
    a, b, constants = (np.concatenate(each) for each in zip(*parts, strict=True))
    return np.ascontiguousarray(a.T), np.ascontiguousarray(b.T), constants


def without_errors(parts: Ratios, rows: Array) -> float:
    """Return the denominator of the first ratio where every row is decided as its class."""
    M = parts.bottom.n_decisions
    columns = np.concatenate([rows, np.zeros(M - len(rows))])
    whole = parts.bottom.full is not None or parts.bottom.power
    S = Confusion(rows, rows, columns, np.eye(len(rows), M) * rows[:, None] if whole else None)
    return max(0.0, float(parts.denominators(S)[0]))


def wide(gains: Gains, n_decisions: int) -> Gains:
    """Return gains with an offset for each of ``n_decisions``: those beyond the classes have none."""
    if gains.full is not None and gains.n_decisions != n_decisions:
        raise ValueError(
            f"a table of costs in a constraint has {gains.n_decisions} decisions and the rule chooses between "
            f"{n_decisions}; give every decision a column"
        )
    return gains.padded(n_decisions)
