"""The other metrics: of one class, of any table of gains, and roots of ratios; each with its row of `METRICS`."""

from __future__ import annotations

import numpy as np

from confmax.confusion import UNIT, Array, Confusion, Gains, sum_of_others
from confmax.metrics.first_order import TINY, FirstOrder, reciprocal, safe_ratio
from confmax.metrics.metric import Metric
from confmax.metrics.ratios import Ratios
from confmax.metrics.scores import ONE_CLASS, ClassScores, disagreement, last
from confmax.metrics.structure import Linear, Quasiconvex

# --- linear -----------------------------------------------------------------------------------------------------------


def specificity(S: Confusion) -> FirstOrder:
    """Share of the rows of all classes but the last that are not decided as the last; 0 where there are none."""
    K = S.rows.shape[-1]
    one = last(K)
    others = S.rows[..., :-1].sum(-1)
    false = S.columns[..., K - 1] - S.diagonal[..., -1]
    unit = reciprocal(others)
    value = np.where(others > TINY, 1.0 - false * unit, 0.0)
    by_rows = (false * unit * unit)[..., None] * (1.0 - one)
    by_columns = np.zeros_like(S.columns)
    by_columns[..., K - 1] = -unit
    return FirstOrder(value, unit[..., None] * one, by_columns, by_rows)


def linear(S: Confusion, *, gain: tuple[tuple[float, ...], ...]) -> FirstOrder:
    """``<gain, C>`` for any gain matrix (K, M); a cost matrix is its negative."""
    assert S.matrix is not None
    G = np.array(gain)
    # a view: the gradients of a batch are all the same table
    return FirstOrder((S.matrix * G).sum((-2, -1)), matrix=np.broadcast_to(G, S.matrix.shape))


def linear_parts(_rows: Array, *, gain: tuple[tuple[float, ...], ...]) -> Ratios:
    """``<gain, C> / 1``."""
    G, one = np.array(gain), np.ones(1)
    return Ratios(Gains.from_matrix(G), Gains.from_matrix(np.zeros_like(G)), np.zeros(1), one, one, one, np.inf)


# --- roots ------------------------------------------------------------------------------------------------------------


def _spread(x: Array) -> Array:
    """Return ``1 - sum x^2`` (..., 1) of shares, exactly zero where one of them is all."""
    total = x.sum(-1, keepdims=True)
    missing = np.where(np.abs(1.0 - total) < UNIT, 0.0, 1.0 - total * total)
    return missing + (x * sum_of_others(x)).sum(-1, keepdims=True)


def mcc(S: Confusion) -> FirstOrder:
    """Multi-class Matthews correlation; 0 with a NaN gradient where truth or decisions are constant."""
    observed, chance = disagreement(S)
    total, decided = (part.sum(-1, keepdims=True) for part in (S.rows, S.columns))
    # where all classes count, what is decided as none of them is one more decision
    further = np.where((np.abs(1.0 - total) < UNIT) & (np.abs(1.0 - decided) >= UNIT), 1.0 - decided, 0.0)
    spread_c, spread_r = _spread(S.columns) - further**2, _spread(S.rows)
    # there the correlation is 0/0: its value is scikit-learn's, and it has no derivative
    flat = np.minimum(spread_c, spread_r) <= TINY
    # the product of the two could underflow before its root is taken
    scale = np.where(flat, 1.0, np.sqrt(spread_c) * np.sqrt(spread_r))
    value = np.where(flat, 0.0, (chance - observed)[..., None] / scale)
    by_columns = -S.rows / scale + value * (S.columns - further) / np.where(flat, 1.0, spread_c)
    by_rows = -S.columns / scale + value * S.rows / np.where(flat, 1.0, spread_r)
    parts = (np.broadcast_to(1.0 / scale, S.diagonal.shape), by_columns, by_rows)
    return FirstOrder(value[..., 0], *(np.where(flat, np.nan, part) for part in parts))


_AMS_VALUE = [1 / 56, -1 / 42, 1 / 30, -1 / 20, 1 / 12, -1 / 6, 1 / 2]
_AMS_SLOPE = [-1 / 8, 1 / 7, -1 / 6, 1 / 5, -1 / 4, 1 / 3, -1 / 2]


def ams(S: Confusion, *, b_reg: float = 0.0, b_min: float = 0.0) -> FirstOrder:
    """Approximate median significance ``sqrt(2 ((s + b) log(1 + s / b) - s))``, s = C_11, b = max(C_01, b_min) + b_reg.

    Infinite, with a NaN gradient, where no negative is accepted and ``b_reg = 0``; 0 with a NaN gradient at s = 0.
    """
    s = S.diagonal[..., 1]
    b = S.columns[..., 1] - s
    floored = b <= max(b_min, 1e-15)
    b = np.where(floored, b_min, b) + b_reg
    inside = (s > TINY) & (b > TINY)
    b_in, x = np.where(inside, b, 1.0), np.where(inside, s, 1.0) / np.where(inside, b, 1.0)
    log = np.log1p(x)
    # both differences cancel for small x: there their series, to x^8
    small = np.minimum(x, 0.01)
    half_square = np.where(x < 0.01, small**2 * np.polyval(_AMS_VALUE, small), (1.0 + x) * log - x)
    log_minus_x = np.where(x < 0.01, small**2 * np.polyval(_AMS_SLOPE, small), log - x)
    value = np.where(inside, np.sqrt(2.0 * b_in * half_square), np.where(s > TINY, np.inf, 0.0))
    safe = np.where(inside, value, np.nan)
    by_s, by_b = log / safe, np.where(floored & (b_min > 0.0), 0.0, log_minus_x / safe)
    positive = np.array([0.0, 1.0])
    none = np.zeros_like(S.rows)
    return FirstOrder(value, (by_s - by_b)[..., None] * positive, by_b[..., None] * positive, none)


def fowlkes_mallows(S: Confusion) -> FirstOrder:
    """Geometric mean of precision and recall of class 1 (not scikit-learn's clustering score of that name)."""
    hit, row, column = (part[..., 1:] for part in (S.diagonal, S.rows, S.columns))
    unit = reciprocal(np.sqrt(row * column))
    value, positive = hit * unit, last(2)
    by_column, by_row = -safe_ratio(value, 2.0 * column) * positive, -safe_ratio(value, 2.0 * row) * positive
    return FirstOrder(value[..., 0], unit * positive, by_column, by_row)


# --- the catalogue ----------------------------------------------------------------------------------------------------

METRICS = (
    Metric("linear", linear, Linear(fractions=linear_parts), "matrix", ordered=True, title="mean gain",
           description="any table of gains or costs per (true class, decision)"),
    Metric("recall", ClassScores(1.0, columns=0, over="last"), Linear(), "diagonal", divides_by_prior=True, **ONE_CLASS,
           description="share of the rows of one class that are decided as this class", of_many="balanced_accuracy",
           trivial_rule="every row is decided as it"),
    Metric("specificity", specificity, Linear(), "columns", binary=True, ordered=True, one_class="with others",
           description="share of the rows of other classes that are not decided as one class",
           of_many="balanced_accuracy", trivial_rule="no row is decided as it"),
    Metric("ams", ams, Quasiconvex(floor="b_min", smoother="b_reg"), "columns", (("b_reg", 0.0), ("b_min", 0.0)),
           binary=True, ordered=True, title="AMS", description="approximate median significance of class 1"),
    Metric("fowlkes_mallows", fowlkes_mallows, Quasiconvex(), "columns", binary=True, ordered=True,
           title="Fowlkes-Mallows", description="geometric mean of precision and recall of class 1"),
    Metric("mcc", mcc, Quasiconvex(), "columns", equal_weights=True, title="MCC",
           description="Matthews correlation coefficient"),
)  # fmt: skip
