"""Upper bounds on a metric over all attainable confusion matrices, from what one exact oracle answer proves.

An oracle answer is the maximum of one linear function over the attainable set. For each kind of metric that number
bounds the metric itself. All bounds hold for the model confusion only, where the oracle is exact.
"""

from __future__ import annotations

import numpy as np

from confmax.confusion import Array

# --- concave functions of the recalls T: from h = max <weights, T>, weights >= 0 ------------------------------------


def g_mean_bound(weights: Array, height: float) -> float:
    """Bound the geometric mean: ``K geomean(w) geomean(T) <= <w, T> <= h`` (arithmetic and geometric means)."""
    if (weights <= 0.0).any():
        return np.inf
    return float(height / (len(weights) * np.exp(np.log(weights).mean())))


def h_mean_bound(weights: Array, height: float) -> float:
    """Bound the harmonic mean: ``(sum sqrt(w))^2 <= <w, T> sum 1/T`` (Cauchy-Schwarz)."""
    if (weights < 0.0).any() or not weights.any():
        return np.inf
    return float(height * len(weights) / np.sqrt(weights).sum() ** 2)


def q_mean_bound(weights: Array, height: float) -> float:
    """Bound the Q-mean: ``<w, 1 - T> >= sum w - h``, and ``<w, 1 - T> <= |w| |1 - T|``."""
    short = max(0.0, float(weights.sum()) - height)
    return float(1.0 - short / (np.linalg.norm(weights) * np.sqrt(len(weights))))


def min_recall_bound(weights: Array, height: float) -> float:
    """Bound the smallest recall: ``min T sum w <= <w, T> <= h``."""
    return float(height / weights.sum())
