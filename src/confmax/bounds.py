"""Upper bounds on a metric over all attainable confusion matrices, from what one exact oracle answer proves.

An oracle answer is the maximum of one linear function over the attainable set. For each kind of metric that number
bounds the metric itself. All bounds hold for the model confusion only, where the oracle is exact.
"""

from __future__ import annotations

import numpy as np

from confmax.confusion import Array, Confusion

# --- concave functions of the recalls T: from h = max <weights, T>, weights >= 0 ------------------------------------


def g_mean_bound(weights: Array, height: float) -> float:
    """Bound the geometric mean: ``K geomean(w) geomean(T) <= <w, T> <= h`` (arithmetic and geometric means)."""
    if (weights <= 0.0).any():
        return np.inf
    return float(height / (len(weights) * np.exp(np.log(weights).mean())))


def h_mean_bound(weights: Array, height: float) -> float:
    """Bound the harmonic mean: ``(sum sqrt(w))^2 <= <w, T> sum 1/T`` (Cauchy-Schwarz)."""
    return float(height * len(weights) / np.sqrt(weights).sum() ** 2)


def q_mean_bound(weights: Array, height: float) -> float:
    """Bound the Q-mean: ``<w, 1 - T> >= sum w - h``, and ``<w, 1 - T> <= |w| |1 - T|``."""
    short = max(0.0, float(weights.sum()) - height)
    return float(1.0 - short / (np.linalg.norm(weights) * np.sqrt(len(weights))))


def min_recall_bound(weights: Array, height: float) -> float:
    """Bound the smallest recall: ``min T sum w <= <w, T> <= h``."""
    return float(height / weights.sum())


# --- ratios of affine functions at fixed priors: (denominator at C, its minimum over all rules) ----------------------


def f_beta_denominator(S: Confusion, *, beta: float = 1.0) -> tuple[float, float]:
    """``beta^2 pi_1 + c_1``, at least ``beta^2 pi_1``."""
    floor = beta * beta * float(S.rows[1])
    return floor + float(S.columns[1]), floor


def jaccard_denominator(S: Confusion) -> tuple[float, float]:
    """``pi_1 + c_1 - D_1``, at least ``pi_1``."""
    return float(S.rows[1] + S.columns[1] - S.diagonal[1]), float(S.rows[1])


def micro_f1_denominator(S: Confusion) -> tuple[float, float]:
    """``2 - pi_0 - c_0``, at least ``1 - pi_0``."""
    front = float(S.rows[1:].sum())
    return front + float(S.columns[1:].sum()), front


def micro_f1_once_denominator(S: Confusion) -> tuple[float, float]:
    """``1 + TP - C_00``, at least ``1 - pi_0``."""
    return 1.0 + float(S.diagonal[1:].sum() - S.diagonal[0]), float(S.rows[1:].sum())


def cohen_kappa_denominator(S: Confusion) -> tuple[float, float]:
    """``1 - pe``, at least ``1 - max pi``."""
    return 1.0 - float(S.rows @ S.columns), 1.0 - float(S.rows.max())


def weighted_kappa_denominator(S: Confusion, *, power: int) -> tuple[float, float]:
    """``sum_j c_j f_j`` with ``f_j = sum_i pi_i w_ij``, at least ``min f``."""
    index = np.arange(len(S.rows), dtype=np.float64)
    w = np.abs(index[:, None] - index) ** power / max(index[-1] ** power, 1.0)
    by_column = S.rows @ w
    return float(S.columns @ by_column), float(by_column.min())


def ratio_bound(value: float, slope: float, denominator: float, floor: float) -> float:
    """Bound a ratio N/D: ``psi* - psi(C) = D(C) / D(C*) <grad psi(C), C* - C>`` (erratum E15), and ``D(C*) >= floor``.

    ``slope`` is ``max <grad psi(C), V - C>`` over the attainable set.
    """
    if slope <= 0.0:
        return value
    return value + slope * denominator / floor if floor > 0.0 else np.inf
