"""The threshold of a rule of two classes, or of one class among several.

Of two classes it is the raw probability of the second one, from which on this class is decided.

With two classes and two decisions the difference of the scores is a linear function of the calibrated probability, and
the calibrated probability is a monotone function of the raw one unless a class is calibrated with a negative power. So
the decisions change at most once between p = 0 and p = 1, and the place is searched where the decisions are made: over
the floats, by the same code that `predict` runs. No formula is inverted, so the answer is exact to the float.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from confmax.calibration.calibrators import Scaling
from confmax.confusion import Array, Gains
from confmax.tables import Calibrator, apply_calibrator, decide

POINTS = 1024  # probabilities that are decided at once
ONE = int(np.float64(1.0).view(np.int64))  # positive floats are ordered like their bits
BEYOND = 2.0**60  # times the weight of the others: they break ties and change nothing else


def cuts(gains: Gains, calibrator: Calibrator | None) -> list[float | None]:
    """Return the threshold of every gain on the raw probability of the second class.

    Parameters
    ----------
    gains : Gains
        A of them.
    calibrator : Calibrator or None
        What is applied to the raw probabilities first.

    Returns
    -------
    list of float or None (A,)
        The smallest float64 p for which the second class is decided on the row (1 - p, p): 0.0 if it always is,
        infinity if it never is. None if the second class is decided *below* some probability, if there are more
        classes or decisions than two, or if it is not known that the calibration is monotone: objects that are not
        confmax's, and powers of which one is negative.

    Examples
    --------
    >>> cuts(Gains.reduced([[1.0, 3.0], [1.0, -1.0], [-1.0, -1.0]]), None)
    [0.25, inf, None]
    """
    # a negative power turns the order of the probabilities round
    is_monotone = calibrator is None or (isinstance(calibrator, Scaling) and calibrator.is_monotone)
    if gains.n_classes != 2 or gains.n_decisions != 2 or not is_monotone:
        return [None] * len(gains)
    return [_cut(gains[k], calibrator) for k in range(len(gains))]


def _cut(gain: Gains, calibrator: Calibrator | None) -> float | None:
    def decided(p: Array) -> NDArray[np.bool_]:
        rows = np.stack([1.0 - p, p], axis=1)
        return np.asarray(decide(np.asarray(apply_calibrator(calibrator, rows)), gain)[0] == 1)

    at_zero, at_one = decided(np.array([0.0, 1.0])).tolist()
    if at_zero:
        return 0.0 if at_one else None
    if not at_one:
        return np.inf
    low, high = 0, ONE  # bits of a probability where the first class is decided, and of one where the second is
    # the decisions change once, so the place is between the last first class and the first second one
    while high - low > 1:
        step = -(-(high - low) // POINTS)
        bits = np.minimum(low + step * np.arange(1, POINTS + 1), high)
        first = int(np.argmax(decided(bits.view(np.float64))))
        low, high = (low if first == 0 else int(bits[first - 1])), int(bits[first])
    return float(np.int64(high).view(np.float64))


def class_cut(gain: Gains) -> tuple[int, float] | None:
    """Return which class a gain decides by its probability alone, and from which probability on.

    Such gains give one class its score and all others the same weight, too small to do more than order them. So the
    most probable other class is decided below the cut (`Metric.with_ties_broken`).

    Parameters
    ----------
    gain : Gains
        One of them.

    Returns
    -------
    (int, float) or None
        The class, and the cut on its probability, after any calibration; infinite, of either sign, if the probability
        does not matter. None for other gains, and for those of two classes.

    Examples
    --------
    >>> class_cut(Gains.reduced([1e-21, 2.0, 1e-21], [0.0, -0.5, 0.0]))
    (1, 0.25)
    """
    if gain.full is not None or gain.power or gain.n_classes < 3 or gain.has_further:
        return None
    a, b = (part[0] for part in gain.pair())
    b = b - np.median(b)  # that of the others: more than half of the classes have it
    size = np.maximum(a, np.abs(b))
    k = int(np.argmax(size))
    others = np.arange(len(a)) != k
    rest = a[others]
    if rest[0] <= 0 or (rest != rest[0]).any() or b[others].any() or a[k] < 0 or size[k] < rest[0] * BEYOND:
        return None
    return k, float(-b[k] / a[k]) if a[k] else float(-np.inf * b[k])
