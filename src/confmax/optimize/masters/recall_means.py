"""The master of the means of recalls, compiled: the mixture that maximises ``sum_k phi(T_k)``.

``phi'`` is ``t^(p - 1)`` for a power mean of the exponent p (geometric: 0, harmonic: -1), and ``(1 - t)^(p - 1)`` for
one of misses (the Q-mean: 2). The sum is separable and strictly concave in the recalls, so the model of a Newton step
is a sum of squares, and its best mixture a point of least norm, whose orthogonal basis is updated rather than
recomputed. The loops are plain, because array expressions and `numpy.dot` take seconds each to compile.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from confmax.confusion import Array
from confmax.metrics.structure import Concave, PowerMean
from confmax.optimize.masters.generic import Smooth, optimum
from confmax.optimize.masters.least_norm import least_norm
from confmax.optimize.masters.linear_program import largest_minimum
from confmax.optimize.masters.protocol import Master, Optimum
from confmax.optimize.points import Space

NEWTON_STEPS = 60
HALVINGS = 40
FLAT = 1e-6  # misses below it would have no curvature, or an infinite one
IDLE = 2  # steps whose promise does not fall


class RecallMeans(Master):
    """Maximise an unsmoothed mean of the recalls; the statistics with which vectors start begin with the diagonal."""

    def solve(self, space: Space, z: Array, start: Array) -> Optimum:
        """Take compiled Newton steps from ``start``; within limits, those of any concave metric."""
        diagonal, rows = _diagonal(space, z)
        recalls = np.ascontiguousarray(diagonal / rows)
        if space.n_limits:
            # the compiled model has no limits, and within them the statistics may be more than the recalls
            if not (start @ recalls > 0.0).all():
                # the means have no derivative where a recall is zero
                start = largest_minimum(recalls, z[:, -space.n_limits :])[1]
            return Smooth().solve(space, z, start)
        mean = _mean(space)
        weights = best_mix_of_recalls(recalls, start, float(mean.exponent), mean.of_misses)
        return optimum(space, z, np.asarray(weights))

    def bounds(self, space: Space, gains: Array, heights: Array, at: Array) -> Array:
        """Bound the mean by the inequality between it and a weighted mean of the recalls (`PowerMean.bound`)."""
        # the inequality holds for any weights, so this master needs no further gains between its points
        diagonal, rows = _diagonal(space, gains)
        return np.nan_to_num(_mean(space).bound(diagonal * rows, heights), nan=np.inf)


def _mean(space: Space) -> PowerMean:
    structure = space.metric.structure
    assert isinstance(structure, Concave) and structure.recall_mean is not None
    return structure.recall_mean


def _diagonal(space: Space, z: Array) -> tuple[Array, Array]:
    """Return the diagonal (A, S) in vectors z (A, d + m) and the priors (S,), of the classes of the metric."""
    used = np.array(space.metric.classes or range(len(space.rows)))
    # the entries of the whole matrix stand row after row
    places = used * (space.n_decisions + 1) if space.statistics == "matrix" else used
    return z[:, places], space.rows[used]


@njit(cache=True, nogil=True)
def _slope(t, p, of_misses):  # type: ignore[no-untyped-def]
    # phi'; the exponents of the catalogue by products, as a power takes ten times as long
    if of_misses:
        return 1.0 - t if p == 2.0 else max(1.0 - t, 0.0) ** (p - 1.0)
    if p == 0.0:
        return 1.0 / t
    return 1.0 / (t * t) if p == -1.0 else t ** (p - 1.0)


@njit(cache=True, nogil=True)
def _bend(t, p, of_misses):  # type: ignore[no-untyped-def]
    # minus phi''
    if of_misses:
        return 1.0 if p == 2.0 else (p - 1.0) * max(1.0 - t, FLAT) ** (p - 2.0)
    if p == 0.0:
        return 1.0 / (t * t)
    return 2.0 / (t * t * t) if p == -1.0 else (1.0 - p) * t ** (p - 2.0)


@njit(cache=True, nogil=True)
def _mixed(recalls, mix, of_misses, T):  # type: ignore[no-untyped-def]
    # write the recalls of a mixture (K,); whether phi takes them
    inside = True
    for k in range(recalls.shape[1]):
        T[k] = 0.0
    for a in range(recalls.shape[0]):
        if mix[a] != 0.0:
            for k in range(recalls.shape[1]):
                T[k] += mix[a] * recalls[a, k]
    for k in range(recalls.shape[1]):
        inside &= T[k] > 0.0
    return inside or of_misses


@njit(cache=True, nogil=True)
def _longest(T, change, p, of_misses):  # type: ignore[no-untyped-def]
    # the best step along a line on which the sum is concave, by halving on the sign of its slope
    low, high, size = 0.0, 1.0, 1.0
    for _ in range(HALVINGS):
        slope, inside = 0.0, True
        for k in range(T.shape[0]):
            at = T[k] + size * change[k]
            if not of_misses and at <= 0.0:
                inside = False
                break
            slope += _slope(at, p, of_misses) * change[k]
        if inside and slope >= 0.0:
            low = size
        else:
            high = size
        if low == 1.0:
            break
        size = 0.5 * (low + high)
    return low


@njit(cache=True, nogil=True)
def best_mix_of_recalls(recalls, start, p, of_misses):  # type: ignore[no-untyped-def]
    """Return shares (A,) that maximise ``sum phi`` at ``mix @ recalls``, for points (A, K), from shares ``start``."""
    A, K = recalls.shape
    mix, T, change, points = start.copy(), np.empty(K), np.empty(K), np.empty((A, K))
    if not _mixed(recalls, mix, of_misses, T):
        for a in range(A):
            mix[a] = 0.5 * mix[a] + 0.5 / A
    least, idle = np.inf, 0
    for _ in range(NEWTON_STEPS):
        if not _mixed(recalls, mix, of_misses, T):
            return mix
        for k in range(K):
            root = math.sqrt(_bend(T[k], p, of_misses))
            for a in range(A):
                points[a, k] = (recalls[a, k] - T[k]) * root - _slope(T[k], p, of_misses) / root
        found = least_norm(points, mix)
        _mixed(recalls, found, of_misses, change)
        # what the model promises, in the unit of the sum; near rounding it no longer falls
        promised = 0.0
        for k in range(K):
            change[k] -= T[k]
            promised += _slope(T[k], p, of_misses) * change[k]
        idle = 0 if promised < least else idle + 1
        least = min(least, promised)
        if promised <= 0.0 or idle == IDLE:
            return mix
        size = _longest(T, change, p, of_misses)
        for a in range(A):
            mix[a] = (1.0 - size) * mix[a] + size * found[a]
        if of_misses and p == 2.0:
            return mix
    return mix
