"""The rules on the way from argmax to a rule, and beyond it: what a trade-off is drawn along."""

from __future__ import annotations

import numpy as np

from confmax.calibration.thresholds import class_cut
from confmax.confusion import Array, Gains


def reduced_path(gain: Gains, t: Array) -> Gains:
    """Return a gain at the steps ``t``: argmax at 0, the gain itself at 1, both to the bit.

    The logarithms of weights and the offsets are ``t`` times those of the gain; weights that are not all positive are
    scaled linearly. A gain that decides one class by its probability alone has weights of which the logarithms mean
    nothing: its scores go linearly from argmax's to its own, and beyond that the log odds of its cut are ``t`` times
    its own.

    Parameters
    ----------
    gain : Gains
        One of them, reduced to probabilities.
    t : ndarray (S,)
        The steps, not negative.

    Returns
    -------
    Gains
        S of them.

    Examples
    --------
    >>> reduced_path(Gains.reduced([1.0, 16.0]), np.array([0.0, 0.5, 1.0])).a
    array([[1.  , 1.  ],
           [0.5 , 2.  ],
           [0.25, 4.  ]])
    """
    a, b = (part[0] for part in gain.pair())
    at = t[:, None]
    one = class_cut(gain)
    if one is not None:
        return _one_class_path(a, b, one, at)
    # powers of two: products with them are exact, so that ties at 0 and at 1 are those of argmax and of the gain
    scale = _power_of_two(float(np.log2(a[a > 0]).mean())) if (a > 0).any() else 1.0
    a, b = a / scale, b / scale
    return Gains.reduced(a**at if (a > 0).all() else (1.0 - at) + at * a, at * b)


def _one_class_path(a: Array, b: Array, one: tuple[int, float], at: Array) -> Gains:
    k, cut = one
    before = np.clip(1.0 - at, 0.0, None)
    plain = _power_of_two(float(np.log2(a[k] if a[k] > 0 else np.abs(b).max())))
    until = np.minimum(at, 1.0)
    weights, offsets = before * plain + until * a, until * b
    beyond = at[:, 0] > 1.0
    if 0.0 < cut < 1.0:
        odds = (cut / (1.0 - cut)) ** at[beyond, 0]
        offsets[beyond, k] = b[k - 1] - a[k] * odds / (1.0 + odds)
    return Gains.reduced(weights, offsets)


def _power_of_two(log: float) -> float:
    return float(np.ldexp(1.0, round(log)))
