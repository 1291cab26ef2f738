"""Upper bounds on a metric over all attainable confusion matrices, derived from one exact oracle answer.

An oracle answer is the maximum of one linear function over the attainable set. For each kind of metric that number
bounds the metric itself. Weights (..., K) and heights (...) may be batches. All bounds hold for the model confusion
only, where the oracle is exact.
"""

from __future__ import annotations

import numpy as np

from confmax.confusion import Array

# --- concave functions of the recalls T: from h = max <weights, T>, weights >= 0 ------------------------------------


def g_mean_bound(weights: Array, height: Array) -> Array:
    """Bound the geometric mean: ``K geomean(w) geomean(T) <= <w, T> <= h`` (arithmetic and geometric means)."""
    positive = np.asarray((weights > 0.0).all(axis=-1))
    logs = np.log(np.where(positive[..., None], weights, 1.0))
    return np.where(positive, height / (weights.shape[-1] * np.exp(logs.mean(axis=-1))), np.inf)


def h_mean_bound(weights: Array, height: Array) -> Array:
    """Bound the harmonic mean: ``(sum sqrt(w))^2 <= <w, T> sum 1/T`` (Cauchy-Schwarz)."""
    valid = np.asarray((weights >= 0.0).all(axis=-1) & weights.any(axis=-1))
    roots = np.sqrt(np.where(valid[..., None], weights, 1.0)).sum(axis=-1)
    return np.where(valid, height * weights.shape[-1] / roots**2, np.inf)


def q_mean_bound(weights: Array, height: Array) -> Array:
    """Bound the Q-mean: ``<w, 1 - T> >= sum w - h``, and ``<w, 1 - T> <= |w| |1 - T|``."""
    short = np.maximum(0.0, weights.sum(axis=-1) - height)
    length = np.sqrt((weights * weights).sum(axis=-1)) * np.sqrt(weights.shape[-1])
    return np.asarray(1.0 - np.divide(short, length, out=np.zeros(np.shape(short)), where=length > 0))


def min_recall_bound(weights: Array, height: Array) -> Array:
    """Bound the smallest recall: ``min T sum w <= <w, T> <= h``."""
    total = weights.sum(axis=-1)
    return np.divide(height, total, out=np.full(np.shape(total), np.inf), where=total > 0)
