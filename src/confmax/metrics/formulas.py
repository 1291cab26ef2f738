"""Values and first derivatives of the catalogue's metrics, as functions of a confusion matrix's statistics.

With row sums r, diagonal D and column sums c, a metric ``psi(r, D, c)`` has the gradient
``G[i, j] = [i = j] dpsi/dD_i + dpsi/dr_i + dpsi/dc_j``. The part that is constant within a row does not change a
decision, so the reduced gain is ``a = dpsi/dD``, ``b = dpsi/dc``. Every function here maps a `Confusion` (possibly a
batch) to a `FirstOrder`. At 0/0 the value is scikit-learn's ``zero_division=0`` with all labels listed.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from confmax.confusion import UNIT, Array, Confusion, sum_of_others

Smoothing = Literal["relative", "additive"]

TINY = 1e-150  # what is smaller is zero: its reciprocal, squared, could not be held


class FirstOrder(NamedTuple):
    """A metric near one confusion matrix: its value and its partial derivatives.

    ``matrix`` (..., K, M) is None for metrics of the statistics alone; for the others it is the whole gradient. Then
    ``columns`` and ``rows`` (..., K) are the derivatives by the column and row sums, for where C is a part of a larger
    matrix whose sums count; or empty.
    """

    value: Array
    diagonal: Array = np.empty(0)
    columns: Array = np.empty(0)
    rows: Array = np.empty(0)
    matrix: Array | None = None


def safe_ratio(numerator: Array, denominator: Array) -> Array:
    """Return ``numerator / denominator``, 0 where the denominator is 0 (or below `TINY`)."""
    shape = np.broadcast(numerator, denominator).shape
    return np.divide(numerator, denominator, out=np.zeros(shape), where=np.abs(denominator) > TINY)


def reciprocal(x: Array) -> Array:
    """Return ``1 / x``, 0 where x is 0 (or below `TINY`)."""
    present = np.abs(x) > TINY
    # a division with a mask is not vectorised
    return 1.0 / x if np.all(present) else np.divide(1.0, x, out=np.zeros(np.shape(x)), where=present)


# --- functions of the recalls T = D / r -----------------------------------------------------------------------------


def _recalls(S: Confusion, rho: float, smoothing: Smoothing, *, numerator_too: bool) -> tuple[Array, Array]:
    """Return the (smoothed) recalls T and dT/dD; dT/dr is ``-T dT/dD`` (relative smoothing: ``-(T-T(0)) dT/dD``)."""
    if rho == 0.0:
        return safe_ratio(S.diagonal, S.rows), reciprocal(S.rows)
    shift = rho if numerator_too else 0.0
    if smoothing == "additive":
        slope = 1.0 / (S.rows + rho)
        return (S.diagonal + shift) * slope, slope
    slope = reciprocal(S.rows) / (1.0 + rho)
    return S.diagonal * slope + shift / (1.0 + rho), slope


def _through_recalls(
    S: Confusion, value: Array, partial: Array, rho: float, smoothing: Smoothing, *, numerator_too: bool = True
) -> FirstOrder:
    """Chain ``partial = dvalue/dT`` (..., K) through the recalls."""
    T, slope = _recalls(S, rho, smoothing, numerator_too=numerator_too)
    moving = T if smoothing == "additive" or rho == 0.0 else S.diagonal * slope
    # an absent class has slope 0 (no smoothing): its gradient is set to zero
    rate = safe_ratio(np.ones_like(S.rows), S.rows) if smoothing == "relative" else slope
    return FirstOrder(value, partial * slope, np.zeros_like(S.columns), -partial * moving * rate)


def accuracy(S: Confusion) -> FirstOrder:
    """Sum of the diagonal."""
    zero = np.zeros_like(S.diagonal)
    return FirstOrder(S.diagonal.sum(-1), np.ones_like(S.diagonal), np.zeros_like(S.columns), zero)


def balanced_accuracy(S: Confusion, *, adjusted: bool = False) -> FirstOrder:
    """Mean recall; ``adjusted`` rescales it so that chance is 0: informedness, ``(K mean - 1) / (K - 1)``."""
    T, _ = _recalls(S, 0.0, "relative", numerator_too=True)
    K = T.shape[-1]
    value, partial = T.mean(-1), np.full_like(T, 1.0 / K)
    if adjusted:
        value, partial = (K * value - 1.0) / (K - 1.0), partial * K / (K - 1.0)
    return _through_recalls(S, value, partial, 0.0, "relative")


def h_mean_value(S: Confusion, *, rho: float = 0.0, smoothing: Smoothing = "relative") -> Array:
    """Harmonic mean of the recalls, 0 where one vanishes."""
    T, _ = _recalls(S, rho, smoothing, numerator_too=True)
    alive = np.asarray(T.min(-1) > TINY)
    safe = T if alive.all() else np.where(T > TINY, T, 1.0)
    return np.where(alive, T.shape[-1] / (1.0 / safe).sum(-1), 0.0)


def h_mean(S: Confusion, *, rho: float = 0.0, smoothing: Smoothing = "relative") -> FirstOrder:
    """Harmonic mean of the recalls. Where some vanish the gradient is the mean of K e_u over them, a supergradient."""
    T, _ = _recalls(S, rho, smoothing, numerator_too=True)
    K = T.shape[-1]
    dead = T <= TINY
    some_dead = dead.any(-1, keepdims=True)
    safe = np.where(dead, 1.0, T)
    total = (1.0 / safe).sum(-1, keepdims=True)
    at_zero = K * dead / np.maximum(dead.sum(-1, keepdims=True), 1)
    partial = np.where(some_dead, at_zero, K / (safe * total) ** 2)
    return _through_recalls(S, h_mean_value(S, rho=rho, smoothing=smoothing), partial, rho, smoothing)


def g_mean_value(S: Confusion, *, rho: float = 0.0, smoothing: Smoothing = "relative") -> Array:
    """Geometric mean of the recalls, 0 where one vanishes."""
    T, _ = _recalls(S, rho, smoothing, numerator_too=True)
    alive = np.asarray(T.min(-1) > TINY)
    safe = T if alive.all() else np.where(T > TINY, T, 1.0)
    return np.where(alive, np.exp(np.log(safe).mean(-1)), 0.0)


def g_mean(S: Confusion, *, rho: float = 0.0, smoothing: Smoothing = "relative") -> FirstOrder:
    """Geometric mean of the recalls. Where a recall vanishes the slope is infinite and the gradient is NaN."""
    T, _ = _recalls(S, rho, smoothing, numerator_too=True)
    value = g_mean_value(S, rho=rho, smoothing=smoothing)
    dead = T <= TINY
    some_dead = dead.any(-1, keepdims=True)
    partial = np.where(some_dead, np.nan, value[..., None] / (T.shape[-1] * np.where(dead, 1.0, T)))
    return _through_recalls(S, value, partial, rho, smoothing)


def q_mean_value(S: Confusion, *, rho: float = 0.0, smoothing: Smoothing = "relative") -> Array:
    """One minus the root mean square of ``1 - T``."""
    T, _ = _recalls(S, rho, smoothing, numerator_too=False)
    miss = 1.0 - T
    return 1.0 - np.sqrt((miss * miss).sum(-1)) / np.sqrt(T.shape[-1])


def q_mean(S: Confusion, *, rho: float = 0.0, smoothing: Smoothing = "relative") -> FirstOrder:
    """One minus the root mean square of ``1 - T``. At the perfect classifier the supergradient 0 is used."""
    T, _ = _recalls(S, rho, smoothing, numerator_too=False)
    miss = 1.0 - T
    norm = np.sqrt((miss * miss).sum(-1, keepdims=True))
    partial = safe_ratio(miss, norm) / np.sqrt(T.shape[-1])
    value = q_mean_value(S, rho=rho, smoothing=smoothing)
    return _through_recalls(S, value, partial, rho, smoothing, numerator_too=False)


def min_recall(S: Confusion, *, rho: float = 0.0) -> FirstOrder:
    """Smallest recall; with ``rho > 0`` the soft minimum ``-rho log mean exp(-T / rho)``, within rho log K above it."""
    T, _ = _recalls(S, 0.0, "relative", numerator_too=True)
    low = T.min(-1, keepdims=True)
    if rho == 0.0:
        partial = (low == T).astype(np.float64)
        partial /= partial.sum(-1, keepdims=True)
        return _through_recalls(S, low[..., 0], partial, 0.0, "relative")
    partial = np.exp((low - T) / rho)
    total = partial.sum(-1, keepdims=True)
    value = (low - rho * np.log(total / T.shape[-1]))[..., 0]
    return _through_recalls(S, value, partial / total, 0.0, "relative")


# --- means of one score per class -----------------------------------------------------------------------------------


class ClassScores(NamedTuple):
    """One score per class and its derivatives by that class's own diagonal entry, column sum and row sum."""

    value: Array
    diagonal: Array
    columns: Array
    rows: Array


def _f_beta_values(S: Confusion, beta: float = 1.0) -> tuple[Array, Array]:
    """Return the scores, and one over their denominators."""
    square = beta * beta
    per_unit = reciprocal(square * S.rows + S.columns)
    return (1.0 + square) * S.diagonal * per_unit, per_unit


def f_beta_scores(S: Confusion, beta: float = 1.0) -> ClassScores:
    """Return ``F_k = (1 + beta^2) D_k / (beta^2 r_k + c_k)``; 0 at 0/0."""
    square = beta * beta
    score, per_unit = _f_beta_values(S, beta)
    return ClassScores(score, (1.0 + square) * per_unit, -score * per_unit, -square * score * per_unit)


def jaccard_scores(S: Confusion) -> ClassScores:
    """Return ``J_k = D_k / (r_k + c_k - D_k)``; 0 at 0/0."""
    per_unit = reciprocal(S.rows + S.columns - S.diagonal)
    score = S.diagonal * per_unit
    return ClassScores(score, (1.0 + score) * per_unit, -score * per_unit, -score * per_unit)


def precision_scores(S: Confusion) -> ClassScores:
    """Return ``P_k = D_k / c_k``; a class that is never decided has score and derivatives 0."""
    per_unit = reciprocal(S.columns)
    score = S.diagonal * per_unit
    return ClassScores(score, per_unit + 0.0, -score * per_unit, np.zeros_like(score))


def _class_mean(scores: ClassScores) -> FirstOrder:
    K = scores.value.shape[-1]
    return FirstOrder(scores.value.mean(-1), scores.diagonal / K, scores.columns / K, scores.rows / K)


def recall_scores(S: Confusion) -> ClassScores:
    """Return ``T_k = D_k / r_k``; 0 at 0/0."""
    per_unit = reciprocal(S.rows)
    score = S.diagonal * per_unit
    return ClassScores(score, per_unit + 0.0, np.zeros_like(score), -score * per_unit)


def _last_class(scores: ClassScores) -> FirstOrder:
    """Return the score of one class: metrics of one class have it as their last, the positive one of two."""
    one = _last(scores.value.shape[-1])
    return FirstOrder(scores.value[..., -1], scores.diagonal * one, scores.columns * one, scores.rows * one)


def _last(K: int) -> Array:
    one = np.zeros(K)
    one[-1] = 1.0
    return one


def macro_f_beta_value(S: Confusion, *, beta: float = 1.0) -> Array:
    """Mean of the per-class F-beta scores."""
    return np.asarray(_f_beta_values(S, beta)[0].mean(-1))


def macro_f_beta(S: Confusion, *, beta: float = 1.0) -> FirstOrder:
    """Mean of the per-class F-beta scores."""
    return _class_mean(f_beta_scores(S, beta))


def macro_jaccard_value(S: Confusion) -> Array:
    """Mean of the per-class Jaccard scores."""
    return np.asarray((S.diagonal * reciprocal(S.rows + S.columns - S.diagonal)).mean(-1))


def macro_jaccard(S: Confusion) -> FirstOrder:
    """Mean of the per-class Jaccard scores."""
    return _class_mean(jaccard_scores(S))


def macro_precision_value(S: Confusion) -> Array:
    """Mean of the per-class precisions."""
    return np.asarray((S.diagonal * reciprocal(S.columns)).mean(-1))


def macro_precision(S: Confusion) -> FirstOrder:
    """Mean of the per-class precisions; it jumps where a class is decided for the first time."""
    return _class_mean(precision_scores(S))


def weighted_f1_value(S: Confusion) -> Array:
    """Sum of ``r_k F_k``."""
    return np.asarray((S.rows * _f_beta_values(S)[0]).sum(-1))


def weighted_f1(S: Confusion) -> FirstOrder:
    """Sum of ``r_k F_k``; the weights, too, are differentiated."""
    F = f_beta_scores(S)
    return FirstOrder((S.rows * F.value).sum(-1), S.rows * F.diagonal, S.rows * F.columns, F.value + S.rows * F.rows)


def f_beta(S: Confusion, *, beta: float = 1.0) -> FirstOrder:
    """F-beta of one class, the last (erratum E3: the positive class is the second)."""
    return _last_class(f_beta_scores(S, beta))


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
    one = _last(K)
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
        observed = np.where(rest == 0.0, smaller, 1.0 - S.diagonal.sum(-1))
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
    spread_c, spread_r = _spread(S.columns), _spread(S.rows)
    flat = np.minimum(spread_c, spread_r) <= TINY
    scale = np.where(flat, 1.0, np.sqrt(spread_c) * np.sqrt(spread_r))
    value = np.where(flat, 0.0, (chance - observed)[..., None] / scale)
    by_columns = -S.rows / scale + value * S.columns / np.where(flat, 1.0, spread_c)
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
