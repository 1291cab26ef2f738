"""Weights and offsets of gains as people read them: divided by one number, so that the least weight is one."""

from __future__ import annotations

import numpy as np

from confmax.calibration.thresholds import class_first
from confmax.confusion import Array, Gains

UNSEEN = 2.0**-60


def coefficients(gains: Gains, scale: Array | None = None) -> tuple[Array, Array]:
    """Return weights and offsets (A, M) of reduced gains, the least weight of each one, the largest offset zero.

    Of gains that decide one class by its probability alone, the weight of this class is one, and the others have
    numbers that are too small to do more than order them; where there is no order, the other of two classes, they are
    zero. Decisions beyond the classes have the weight zero. With a ``scale`` (A,), weights and offsets are divided by
    it.
    """
    a, b = gains.coefficients()
    a = np.pad(a, ((0, 0), (0, b.shape[1] - a.shape[1])))
    # the decision is unchanged by a common factor and a common offset
    if scale is None:
        scale = np.array([_scale(gains[s]) for s in range(len(gains))])
    a = a / scale[:, None]
    b = (b - b.max(axis=1, keepdims=True)) / scale[:, None]
    of_two = [gains.n_classes == 2 and class_first(gains[s]) is not None for s in range(len(gains))]
    tiny = np.array(of_two)[:, None] & (np.abs([a, b]) < UNSEEN)
    return np.where(tiny[0], 0.0, a), np.where(tiny[1], 0.0, b)


def _scale(gain: Gains) -> float:
    """Return what the weights and offsets of a gain are divided by to be shown."""
    a, b = (part[0] for part in gain.coefficients())
    one = class_first(gain)
    if one is not None:
        return float(a[one.k] or np.ptp(b) or 1.0)
    return float(least_weights(gain)[0])


def least_weights(gains: Gains) -> Array:
    """Return the least size of each gain's weights (A,) that is not zero, one where all are zero."""
    sizes = np.abs(gains.coefficients()[0])
    least = np.where(sizes > 0, sizes, np.inf).min(axis=1)
    return np.where(np.isfinite(least), least, 1.0)
