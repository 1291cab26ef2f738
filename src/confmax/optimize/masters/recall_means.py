"""The master of the means of recalls: the mixture that maximises ``sum_k phi(T_k)``.

``phi'`` is ``t^(p - 1)`` for a power mean of the exponent p (geometric: 0, harmonic: -1), and ``(1 - t)^(p - 1)`` for
one of misses (the Q-mean: 2). The sum is separable and strictly concave in the recalls, so the model of a Newton step
is a sum of squares, and its best mixture a point of least norm, whose orthogonal basis is updated rather than
recomputed.
"""

from __future__ import annotations

import numpy as np

from confmax import kernels
from confmax.confusion import Array
from confmax.metrics.structure import PowerMean
from confmax.optimize.masters.generic import optimum
from confmax.optimize.masters.least_norm import least_norm
from confmax.optimize.masters.protocol import Master, Optimum
from confmax.optimize.points import Space
from confmax.optimize.rounding import NEWTON_STEPS

HALVINGS = 40
FLAT = 1e-6  # misses below it would have no curvature, or an infinite one
IDLE = 2  # steps whose promise does not fall


class RecallMeans(Master):
    """Maximise an unsmoothed mean of the recalls; the statistics with which vectors start begin with the diagonal."""

    def mix(self, space: Space, z: Array, start: Array, room: float = 0.0) -> Optimum:
        """Take Newton steps from ``start``; within limits a mean is the objective of `masters.Program`."""
        diagonal, rows = _diagonal(space, z)
        mean = _mean(space)
        weights = best_mix_of_recalls(diagonal / rows, start, float(mean.exponent), of_misses=mean.of_misses)
        return optimum(space, z, weights)

    def bounds(self, space: Space, gains: Array, heights: Array, at: Array) -> Array:
        """Bound the mean by the inequality between it and a weighted mean of the recalls (`PowerMean.bound`)."""
        # the inequality holds for any weights, so this master needs no further gains between its points
        diagonal, rows = _diagonal(space, gains)
        return np.nan_to_num(_mean(space).bound(diagonal * rows, heights), nan=np.inf)


def _mean(space: Space) -> PowerMean:
    mean = space.metric.structure.recall_mean
    assert mean is not None
    return mean


def _diagonal(space: Space, z: Array) -> tuple[Array, Array]:
    """Return the diagonal (A, S) in vectors z (A, d + m) and the priors (S,), of the classes of the metric."""
    used = np.array(space.metric.classes or range(len(space.rows)))
    # the entries of the whole matrix stand row after row
    places = used * (space.n_decisions + 1) if space.statistics == "matrix" else used
    return z[:, places], space.rows[used]


def best_mix_of_recalls(recalls: Array, start: Array, p: float, *, of_misses: bool) -> Array:
    """Return shares (A,) that maximise ``sum phi`` at ``mix @ recalls``, for points (A, K), from shares ``start``."""
    if kernels.native is None:
        with np.errstate(all="ignore"):
            return _best_mix_by_numpy(recalls, start, p, of_misses=of_misses)
    mix = np.empty(len(recalls))
    kernels.native.best_mix_of_recalls(
        np.ascontiguousarray(recalls), np.ascontiguousarray(start), p, int(of_misses), mix
    )
    return mix


def _best_mix_by_numpy(recalls: Array, mix: Array, p: float, *, of_misses: bool) -> Array:
    A = len(recalls)
    least = np.inf
    idle = 0
    if not (of_misses or (mix @ recalls > 0.0).all()):
        mix = 0.5 * mix + 0.5 / A
    for _ in range(NEWTON_STEPS):
        T = mix @ recalls
        if not (of_misses or (T > 0.0).all()):
            return mix
        slope = _slope(T, p, of_misses=of_misses)
        root = np.sqrt(_bend(T, p, of_misses=of_misses))
        end = least_norm((recalls - T) * root - slope / root, mix)
        change = end @ recalls - T
        # what the model promises, in the unit of the sum; near rounding it no longer falls
        promised = float(slope @ change)
        idle = 0 if promised < least else idle + 1
        least = min(least, promised)
        if promised <= 0.0 or idle == IDLE:
            return mix
        size = _longest(T, change, p, of_misses=of_misses)
        mix = (1.0 - size) * mix + size * end
        if of_misses and p == 2.0:
            return mix
    return mix


def _slope(T: Array, p: float, *, of_misses: bool) -> Array:
    """Return phi'."""
    if of_misses:
        return 1.0 - T if p == 2.0 else np.maximum(1.0 - T, 0.0) ** (p - 1.0)
    return T ** (p - 1.0)


def _bend(T: Array, p: float, *, of_misses: bool) -> Array:
    """Return minus phi''."""
    return (p - 1.0) * np.maximum(1.0 - T, FLAT) ** (p - 2.0) if of_misses else (1.0 - p) * T ** (p - 2.0)


def _longest(T: Array, change: Array, p: float, *, of_misses: bool) -> float:
    """Return the best step along a line on which the sum is concave, by halving on the sign of its slope."""
    low = 0.0
    high = 1.0
    size = 1.0
    for _ in range(HALVINGS):
        at = T + size * change
        inside = of_misses or bool((at > 0.0).all())
        if inside and _slope(at, p, of_misses=of_misses) @ change >= 0.0:
            low = size
        else:
            high = size
        if low == 1.0:
            break
        size = 0.5 * (low + high)
    return low
