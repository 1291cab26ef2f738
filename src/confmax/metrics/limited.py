"""A metric that is limited: which limits can be proved, and the linear functions that must not fall below zero.

At fixed row sums a limit on a ratio N / D is linear: a floor l is ``N - l D >= 0``, a ceiling ``l D - N >= 0``
(Dinkelbach's functions, as in `confmax.metrics.ratios`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Confusion, Gains
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


def count_of(metric: Metric, n_classes: int) -> int:
    """Return how many linear functions a limit on a metric is."""
    if metric.structure.recall_mean is not None:
        return len(metric.classes or range(n_classes))
    if not metric.structure.is_minimum:
        return 1
    return len(metric.linear_functions(np.full(n_classes, 1 / n_classes), n_classes))


def functions_of_limit(metric: Metric, limit: float, sign: float, rows: Array, n_decisions: int) -> AffineFunctions:
    """Return the functions of a ``limit`` on one metric: a floor, if the ``sign`` is one, or a ceiling."""
    structure = metric.structure
    if structure.is_minimum or structure.recall_mean is not None:
        # a mean has its recalls plus one (`Limits.curves`)
        gains, constants = affine(metric.as_functions(rows, n_decisions))
        return AffineFunctions(wide(gains, n_decisions), constants + (-limit if structure.is_minimum else 1.0))
    parts = ratio_of(metric, rows, n_decisions)
    factor = sign / (without_errors(parts, rows) or 1.0)
    gains = parts.gains(np.array([limit]))
    return AffineFunctions(gains.times(factor), factor * (parts.top_constant - limit * parts.bottom_constant) + 0.0)


def scales_of(metric: Metric, S: Confusion) -> Array:
    """Return `Limits.scales` of a limit on one metric."""
    K = len(S.rows)
    M = S.columns.shape[-1]
    if metric.structure.is_minimum:
        return np.ones(count_of(metric, K))
    mean = metric.structure.recall_mean
    if mean is not None:
        functions = metric.as_functions(S.rows, M)
        assert functions is not None
        _, slopes = mean.tangent(functions.values(S))
        return np.full(len(slopes), 1.0 / slopes.sum())
    ratio = ratio_of(metric, S.rows, M)
    return np.asarray(ratio.denominators(S) / (without_errors(ratio, S.rows) or 1.0))


def ratio_of(metric: Metric, rows: Array, n_decisions: int) -> Ratios:
    """Return numerator and denominator of a ratio, or of a linear metric over one, for all ``n_decisions``."""
    parts = metric.as_ratios(rows, n_decisions)
    if parts is None:
        linear = metric.as_functions(rows, n_decisions)
        assert isinstance(linear, AffineFunctions) and linear.constants is not None
        one = np.ones(1)
        none = Gains.reduced(np.zeros(len(rows)), np.zeros(n_decisions))
        parts = Ratios(linear.gains, none, linear.constants, one, one, one)
    return replace(parts, top=wide(parts.top, n_decisions), bottom=wide(parts.bottom, n_decisions))


@dataclass(frozen=True, eq=False)
class ManyRatios:
    """Ratios (n) of linear functions at given row sums, read at once.

    ``places`` (n,) say which of several metrics they are. ``tops`` and ``bottoms`` hold the coefficients of the
    diagonal (K, n) and of the decisions (M, n), and constants (n,). The denominators of those that are ``linear`` (n,)
    are one.
    """

    places: NDArray[np.intp]
    tops: tuple[Array, Array, Array]
    bottoms: tuple[Array, Array, Array]
    linear: NDArray[np.bool_]

    @classmethod
    def of_metrics(cls, metrics: Sequence[Metric], rows: Array, n_decisions: int) -> ManyRatios | None:
        """Return those of the ``metrics`` that are ratios or linear in diagonal and decisions; None if none is."""
        found = []
        for place, metric in enumerate(metrics):
            if not metric.structure.is_ratio or metric.statistics == "matrix":
                continue
            parts = ratio_of(metric, rows, n_decisions)
            reduced = not any(gains.full is not None or gains.power for gains in (parts.top, parts.bottom))
            if reduced and parts.weights.tolist() == [1.0]:
                found.append((place, parts, metric.structure.is_linear))
        if not found:
            return None
        places, every, linear = zip(*found, strict=True)
        tops = [(*parts.top.coefficients(), parts.top_constant) for parts in every]
        bottoms = [(*parts.bottom.coefficients(), parts.bottom_constant) for parts in every]
        return cls(np.array(places), _stacked(tops), _stacked(bottoms), np.array(linear))

    def of(self, S: Confusion) -> tuple[Array, NDArray[np.bool_]]:
        """Return the values (..., n) at ``S``, and where they are 0/0."""
        N, D = (S.diagonal @ a + S.columns @ b + constant for a, b, constant in (self.tops, self.bottoms))
        vacuous = ~self.linear & (D <= TINY)
        return np.divide(N, D, out=np.zeros(D.shape), where=D > 0), vacuous


def _stacked(parts: Sequence[tuple[Array, Array, Array]]) -> tuple[Array, Array, Array]:
    a, b, constants = (np.concatenate(each) for each in zip(*parts, strict=True))
    return np.ascontiguousarray(a.T), np.ascontiguousarray(b.T), constants


def without_errors(parts: Ratios, rows: Array) -> float:
    """Return the denominator of a single ratio where every row is decided as its class."""
    M = parts.bottom.n_decisions
    columns = np.concatenate([rows, np.zeros(M - len(rows))])
    whole = parts.bottom.full is not None or parts.bottom.power
    S = Confusion(rows, rows, columns, np.eye(len(rows), M) * rows[:, None] if whole else None)
    return max(0.0, float(parts.denominators(S)[0]))


def may_be_vacuous(metric: Metric) -> bool:
    """Whether a metric is 0/0 of some rules."""
    return metric.structure.is_ratio and not metric.structure.is_linear


def is_vacuous(metric: Metric, S: Confusion, parts: Ratios | None = None) -> NDArray[np.bool_]:
    """Return where a ratio is 0/0 (...) at confusions (...); ``parts`` is its `ratio_of`, if that is known."""
    if S.rows.ndim > 1:
        # what a denominator is depends on the row sums
        shape = S.diagonal.shape[:-1]
        return np.array([is_vacuous(metric, S[index]) for index in np.ndindex(*shape)], dtype=bool).reshape(shape)
    shape = S.diagonal.shape[:-1]
    if not may_be_vacuous(metric):
        return np.zeros(shape, dtype=bool)
    D = (parts or ratio_of(metric, S.rows, S.columns.shape[-1])).denominators(S)
    return np.asarray(D <= TINY).reshape(shape)


def wide(gains: Gains, n_decisions: int) -> Gains:
    """Return gains with an offset for each of ``n_decisions``: those beyond the classes have none."""
    if gains.full is not None and gains.n_decisions != n_decisions:
        raise ValueError(
            f"a table of costs in a constraint has {gains.n_decisions} decisions and the rule chooses between "
            f"{n_decisions}; give every decision a column"
        )
    return gains.padded(n_decisions)
