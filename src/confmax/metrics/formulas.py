"""Formulas of the metrics that are not means of the recalls (`confmax.metrics.recalls`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from confmax.confusion import UNIT, Array, Confusion, sum_of_others
from confmax.metrics.first_order import TINY, FirstOrder, Formula, reciprocal, safe_ratio
from confmax.metrics.ratios import last

# --- one score per class, and means of it ----------------------------------------------------------------------------

# by the class's own diagonal entry, column sum and row sum
Slopes = tuple[Array, Array, Array]
# the scores (..., K) of a batch of statistics, and a call that computes their derivatives
Scores = tuple[Array, Callable[[], Slopes]]


def f_beta_scores(S: Confusion, *, beta: float = 1.0) -> Scores:
    """Return ``F_k = (1 + beta^2) D_k / (beta^2 r_k + c_k)``; 0 at 0/0."""
    square = beta * beta
    per_unit = reciprocal(square * S.rows + S.columns)
    score = (1.0 + square) * S.diagonal * per_unit
    return score, lambda: ((1.0 + square) * per_unit, -score * per_unit, -square * score * per_unit)


def jaccard_scores(S: Confusion) -> Scores:
    """Return ``J_k = D_k / (r_k + c_k - D_k)``; 0 at 0/0."""
    per_unit = reciprocal(S.rows + S.columns - S.diagonal)
    score = S.diagonal * per_unit
    return score, lambda: ((1.0 + score) * per_unit, -score * per_unit, -score * per_unit)


def precision_scores(S: Confusion) -> Scores:
    """Return ``P_k = D_k / c_k``; a class that is never decided has score and derivatives 0."""
    per_unit = reciprocal(S.columns)
    score = S.diagonal * per_unit
    return score, lambda: (per_unit + 0.0, -score * per_unit, np.zeros_like(score))


def recall_scores(S: Confusion) -> Scores:
    """Return ``T_k = D_k / r_k``; 0 at 0/0."""
    per_unit = reciprocal(S.rows)
    score = S.diagonal * per_unit
    return score, lambda: (per_unit + 0.0, np.zeros_like(score), -score * per_unit)


@dataclass(frozen=True)
class ClassMean(Formula):
    """The mean of one score per class, or the sum weighted by the row sums."""

    scores: Callable[..., Scores]
    by_size: bool = False

    def __call__(self, S: Confusion, **params: Any) -> FirstOrder:
        """Return value and derivatives; the weights, too, are differentiated."""
        score, slopes = self.scores(S, **params)
        diagonal, columns, rows = slopes()
        if self.by_size:
            return FirstOrder((S.rows * score).sum(-1), S.rows * diagonal, S.rows * columns, score + S.rows * rows)
        K = score.shape[-1]
        return FirstOrder(score.mean(-1), diagonal / K, columns / K, rows / K)

    def values(self, S: Confusion, **params: Any) -> Array:
        """Return the values alone."""
        score, _ = self.scores(S, **params)
        return np.asarray((S.rows * score).sum(-1) if self.by_size else score.mean(-1))


def _last_class(scores: Scores) -> FirstOrder:
    """Return the score of one class: metrics of one class have it as their last, the positive one of two."""
    score, slopes = scores
    one = last(score.shape[-1])
    return FirstOrder(score[..., -1], *(slope * one for slope in slopes()))


def f_beta(S: Confusion, *, beta: float = 1.0) -> FirstOrder:
    """F-beta of one class, the last (erratum E3: the positive class is the second)."""
    return _last_class(f_beta_scores(S, beta=beta))


def jaccard(S: Confusion) -> FirstOrder:
    """Jaccard score of one class, the last."""
    return _last_class(jaccard_scores(S))


def precision(S: Confusion) -> FirstOrder:
    """Precision of one class, the last, ``D / c``; 0 where it is never decided."""
    return _last_class(precision_scores(S))


def recall(S: Confusion) -> FirstOrder:
    """Recall of one class, the last, ``D / r``."""
    return _last_class(recall_scores(S))


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


# --- one ratio, or one root, of sums --------------------------------------------------------------------------------


def micro_f1(S: Confusion) -> FirstOrder:
    """Micro F1 over classes 1..K-1, ``2 TP / (2 - r_0 - c_0)``: an error between two of them counts twice."""
    front = np.ones(S.diagonal.shape[-1])
    front[0] = 0.0
    total = S.rows @ front + S.columns @ front
    value = safe_ratio(2.0 * S.diagonal @ front, total)
    unit = reciprocal(total)[..., None]
    share = -(value[..., None] * unit) * front
    return FirstOrder(value, 2.0 * unit * front, share, share)


def micro_f1_once(S: Confusion) -> FirstOrder:
    """Micro F1 of the paper's Table 1, each error counted once: ``2 TP / (2 TP + errors)`` (erratum E4)."""
    front = np.ones(S.diagonal.shape[-1])
    front[0] = 0.0
    hits = S.diagonal @ front
    total = 2.0 * hits + S.rows.sum(-1) - S.diagonal.sum(-1)
    value = safe_ratio(2.0 * hits, total)[..., None]
    unit = reciprocal(total)[..., None]
    diagonal = unit * (2.0 * front - value * (2.0 * front - 1.0))
    return FirstOrder(value[..., 0], diagonal, np.zeros_like(S.columns), np.broadcast_to(-value * unit, diagonal.shape))


def _disagreement(S: Confusion) -> tuple[Array, Array]:
    """Return ``1 - po`` and ``1 - pe``: how often truth and decision differ, observed and expected by chance.

    Where one class has nearly all weight both are tiny: they are sums of what differs, not differences from one.
    """
    total, decided = S.rows.sum(-1), S.columns.sum(-1)
    # sums that are one up to the rounding of a table are one; metrics over some of the classes have smaller ones
    rest = np.where(np.abs(1.0 - total) < UNIT, 0.0, 1.0 - total)
    missing = np.where(np.abs(1.0 - total * decided) < UNIT, 0.0, 1.0 - total * decided)
    if S.rows.shape[-1] == 2 == S.columns.shape[-1]:
        # of two classes the smaller one tells all errors
        rows = np.broadcast_to(S.rows, S.diagonal.shape)
        missed, false = np.maximum(rows - S.diagonal, 0.0), np.maximum(S.columns - S.diagonal, 0.0)
        smaller = np.where(rows[..., 0] <= rows[..., 1], (missed + false)[..., 0], (missed + false)[..., 1])
        # unless some rows are not decided as either class
        both = (rest == 0.0) & (np.abs(1.0 - decided) < UNIT)
        observed = np.where(both, smaller, 1.0 - S.diagonal.sum(-1))
    else:
        observed = rest + (S.rows - S.diagonal).sum(-1)
    return observed, missing + (S.rows * sum_of_others(S.columns)).sum(-1)


def cohen_kappa(S: Confusion) -> FirstOrder:
    """``(po - pe) / (1 - pe)``; 0 at 0/0, where scikit-learn returns NaN."""
    observed, chance = _disagreement(S)
    unit = reciprocal(chance)[..., None]
    value = np.where(chance > 0.0, 1.0 - observed * unit[..., 0], 0.0)
    fall = observed[..., None] * unit * unit
    return FirstOrder(value, np.broadcast_to(unit, S.diagonal.shape), -S.rows * fall, -S.columns * fall)


def _spread(x: Array) -> Array:
    """Return ``1 - sum x^2`` (..., 1) of shares, exactly zero where one of them is all."""
    total = x.sum(-1, keepdims=True)
    missing = np.where(np.abs(1.0 - total) < UNIT, 0.0, 1.0 - total * total)
    return missing + (x * sum_of_others(x)).sum(-1, keepdims=True)


def mcc(S: Confusion) -> FirstOrder:
    """Multi-class Matthews correlation; 0 with a NaN gradient where truth or decisions are constant."""
    observed, chance = _disagreement(S)
    total, decided = (part.sum(-1, keepdims=True) for part in (S.rows, S.columns))
    # where all classes count, what is decided as none of them is one more decision
    further = np.where((np.abs(1.0 - total) < UNIT) & (np.abs(1.0 - decided) >= UNIT), 1.0 - decided, 0.0)
    spread_c, spread_r = _spread(S.columns) - further**2, _spread(S.rows)
    flat = np.minimum(spread_c, spread_r) <= TINY
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
    hit, row, column = S.diagonal[..., 1], S.rows[..., 1], S.columns[..., 1]
    unit = reciprocal(np.sqrt(row * column))
    value = hit * unit
    positive = np.array([0.0, 1.0])
    by_column, by_row = -safe_ratio(value, 2.0 * column), -safe_ratio(value, 2.0 * row)
    return FirstOrder(value, unit[..., None] * positive, by_column[..., None] * positive, by_row[..., None] * positive)


# --- functions of the whole matrix ----------------------------------------------------------------------------------


def linear(S: Confusion, *, gain: tuple[tuple[float, ...], ...]) -> FirstOrder:
    """``<gain, C>`` for any gain matrix (K, M); a cost matrix is its negative."""
    assert S.matrix is not None
    G = np.array(gain)
    return FirstOrder((S.matrix * G).sum((-2, -1)), matrix=np.broadcast_to(G, S.matrix.shape))


def weighted_kappa(S: Confusion, *, power: int) -> FirstOrder:
    """``1 - sum w C / sum w r c^T`` with ``w_ij = |i - j|^power``; 0 at 0/0, where scikit-learn returns NaN."""
    assert S.matrix is not None
    index = np.arange(S.rows.shape[-1], dtype=np.float64)
    w = np.abs(index[:, None] - index) ** power / max(index[-1] ** power, 1.0)
    observed = (S.matrix * w).sum((-2, -1))[..., None, None]
    by_rows, by_columns = S.columns @ w, S.rows @ w
    expected = (by_rows * S.rows).sum(-1)[..., None, None]
    unit = reciprocal(expected)
    # the value is 0, not 1, at 0/0
    value = np.where(expected[..., 0, 0] > 0.0, 1.0 - (observed * unit)[..., 0, 0], 0.0)
    pull = by_rows[..., :, None] + by_columns[..., None, :]
    share = observed * unit * unit
    parts = {"columns": share[..., 0] * by_columns, "rows": share[..., 0] * by_rows}
    return FirstOrder(value, matrix=-w * unit + share * pull, **parts)
