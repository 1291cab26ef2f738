"""The master problem of the means of recalls, compiled: the mixture that maximises ``sum_k phi(T_k)``.

``phi`` is log T (geometric mean), -1/T (harmonic) or -(1 - T)^2 / 2 (quadratic). The sum is separable and strictly
concave in the recalls, so the model of a Newton step is a sum of squares, and its best mixture a point of least norm.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from confmax.optimize._least_norm import least_norm

LOG, INVERSE, SQUARE = range(3)
KINDS = {"log": LOG, "inverse": INVERSE, "square": SQUARE}
NEWTON_STEPS = 60
HALVINGS = 40
IDLE = 2  # steps whose promise does not fall


@njit(cache=True, nogil=True)
def derivatives(T, kind):  # type: ignore[no-untyped-def]
    """Return phi' and minus phi'' at recalls T (K,)."""
    if kind == LOG:
        return 1.0 / T, 1.0 / (T * T)
    if kind == INVERSE:
        return 1.0 / (T * T), 2.0 / (T * T * T)
    return 1.0 - T, np.ones_like(T)


@njit(cache=True, nogil=True)
def _longest(T, change, kind):  # type: ignore[no-untyped-def]
    # the best step along a line on which the sum is concave, by halving on the sign of its slope
    low, high = 0.0, 1.0
    for k in range(HALVINGS):
        size = 1.0 if k == 0 else 0.5 * (low + high)
        at = T + size * change
        inside = kind == SQUARE or at.min() > 0.0
        if inside and np.dot(derivatives(at, kind)[0], change) >= 0.0:
            low = size
            if k == 0:
                return 1.0
        else:
            high = size
    return low


@njit(cache=True, nogil=True)
def best_mix_of_recalls(recalls, mix, kind):  # type: ignore[no-untyped-def]
    """Return shares (A,) that maximise ``sum phi`` at ``mix @ recalls``, for points (A, K), from shares ``mix``."""
    if kind != SQUARE and np.dot(mix, recalls).min() <= 0.0:
        mix = 0.5 * mix + 0.5 / len(mix)
    least, idle = np.inf, 0
    for _ in range(NEWTON_STEPS):
        T = np.dot(mix, recalls)
        if kind != SQUARE and T.min() <= 0.0:
            return mix
        slope, bend = derivatives(T, kind)
        root = np.sqrt(bend)
        found = least_norm((recalls - T) * root - slope / root, mix)
        change = np.dot(found, recalls) - T
        # what the model promises, in the unit of the sum; near rounding it no longer falls
        promised = np.dot(slope, change)
        idle = 0 if promised < least else idle + 1
        least = min(least, promised)
        if promised <= 0.0 or idle == IDLE:
            return mix
        size = _longest(T, change, kind)
        mix = (1.0 - size) * mix + size * found
        if kind == SQUARE:
            return mix
    return mix
