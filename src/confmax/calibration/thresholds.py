"""The threshold of a rule of two classes, between which it may abstain, or of one class among several.

Of two classes it is the raw probability of the one that was asked about, from which on this class is decided.

With two classes and two decisions the difference of the scores is a linear function of the calibrated probability, and
the calibrated probability is a monotone function of the raw one unless a class is calibrated with a negative power. So
the decisions change at most once between p = 0 and p = 1, and the place is searched where the decisions are made: over
the floats, by the same code that `predict` runs. No formula is inverted, so the answer is exact to the float.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from confmax.calibration.calibrators import Scaling
from confmax.confusion import MAX_MATRIX_CLASSES, Gains
from confmax.tables import Calibrator, apply_calibrator, decide

POINTS = 1024  # probabilities that are decided at once
SAME = 1e-12  # of the largest gain: a difference that rounding explains
BEYOND = 2.0**60  # times the weight of the others: they break ties and change nothing else


def cuts(gains: Gains, calibrator: Calibrator | None, k: int = 1) -> list[float | None]:
    """Return the threshold of every gain (A,) on the raw probability of class ``k`` of two.

    It is the smallest float64 p for which the class is decided on the row of p and 1 - p: 0.0 if it always is, infinity
    if it never is. None if the class is decided *below* some probability, if there are more classes or decisions than
    two, or if it is not known that the calibration is monotone: objects that are not confmax's, and powers of which one
    is negative.

    >>> gains = Gains.reduced([[1.0, 3.0], [1.0, -1.0], [-1.0, -1.0]])
    >>> cuts(gains, None), cuts(gains, None, 0)
    ([0.25, inf, None], [0.7500000000000001, 0.0, None])
    """
    if gains.n_classes != 2 or gains.n_decisions != 2 or not _is_monotone(calibrator):
        return [None] * len(gains)
    return [_cut(gains[atom], calibrator, lambda decisions: decisions == k, k) for atom in range(len(gains))]


def abstaining_cuts(gain: Gains, calibrator: Calibrator | None, k: int = 1) -> tuple[float, float] | None:
    """Return between which raw probabilities of class ``k`` of two a gain abstains, its last decision.

    They are the smallest float64 p for which the other class is not decided on the row of p and 1 - p, and the smallest
    one for which class k is; infinity if there is none. None if the decisions do not follow each other in this order,
    if there are not two classes and one decision more, or if the calibration is not known to be monotone.
    """
    if gain.n_classes != 2 or gain.n_decisions != 3 or not _is_monotone(calibrator):
        return None
    first, second, last = np.diff(gain.matrices()[0], axis=0)[0]
    # the largest of three linear functions of p is the one of the least slope first, and that of the largest last
    if not first <= last <= second:
        return None
    low = _cut(gain, calibrator, lambda decisions: decisions != 1 - k, k)
    high = _cut(gain, calibrator, lambda decisions: decisions == k, k)
    return None if low is None or high is None else (low, high)


def _is_monotone(calibrator: Calibrator | None) -> bool:
    """Whether a calibration is known to keep the order of the probabilities of a class: a negative power does not."""
    return calibrator is None or (isinstance(calibrator, Scaling) and calibrator.is_monotone)


def _cut(
    gain: Gains,
    calibrator: Calibrator | None,
    after: Callable[[NDArray[np.int64]], NDArray[np.bool_]],
    k: int = 1,
    dtype: Any = np.float64,
) -> float | None:
    """Return the smallest p of class ``k`` ``after`` which, as this says of decisions, they are others.

    The other classes share the rest alike. Of the numbers of a ``dtype`` the smallest one is returned.
    """
    kind = np.dtype(dtype)
    n_others = gain.n_classes - 1
    bits = np.dtype(f"i{kind.itemsize}")

    def decided(p: NDArray[Any]) -> NDArray[np.bool_]:
        rows = np.repeat((1 - p[:, None]) / kind.type(n_others), n_others + 1, axis=1)
        rows[:, k] = p
        return np.asarray(after(decide(np.asarray(apply_calibrator(calibrator, rows)), gain)[0]))

    at_zero, at_one = decided(np.array([0.0, 1.0], kind)).tolist()
    if at_zero:
        return 0.0 if at_one else None
    if not at_one:
        return np.inf
    # positive floats are ordered like their bits: those of a probability before the change, and of one after it
    low = 0
    high = int(np.ones(1, kind).view(bits)[0])
    # the decisions change once, so the place is between the last one before and the first one after
    while high - low > 1:
        step = -(-(high - low) // POINTS)
        tried = np.minimum(low + step * np.arange(1, POINTS + 1), high).astype(bits)
        first = int(np.argmax(decided(tried.view(kind))))
        low = low if first == 0 else int(tried[first - 1])
        high = int(tried[first])
    return float(np.array([high], bits).view(kind)[0])


class ClassFirst(NamedTuple):
    """How a gain decides that compares the probability of one class first.

    Class ``k`` is decided from the probability ``cut`` on, after any calibration; it is infinite, of either sign, if
    the probability does not matter. ``others`` decide below the cut, with zeros in the place of the class; None stands
    for the most probable other class.
    """

    k: int
    cut: float
    others: Gains | None


def class_first(gain: Gains) -> ClassFirst | None:
    """Return how a gain decides that compares the probability of one class first, None for other gains.

    Such gains give one class its score, and the others scores that are too small to do more than order them.

    >>> found = class_first(Gains.reduced([2.0**-70, 2.0, 2.0**-69], [0.0, -0.5, -(2.0**-71)]))
    >>> found.k, found.cut, found.others.pair()
    (1, 0.25, (array([[0.5, 0. , 1. ]]), array([[ 0.  ,  0.  , -0.25]])))
    """
    if gain.full is not None or gain.power or gain.n_classes < 2 or gain.has_further:
        return None
    a, b = (part[0] for part in gain.pair())
    # a common offset changes no decision; more than half of the classes have that of the others
    b = b - (b[np.argmin(np.abs(a))] if len(a) == 2 else np.median(b))
    size = np.maximum(np.abs(a), np.abs(b))
    k = int(np.argmax(size))
    others = np.arange(len(a)) != k
    if a[k] < 0 or size[k] == 0.0 or size[k] < size[others].max() * BEYOND:
        return None
    cut = float(-b[k] / a[k]) if a[k] else float(-np.inf * b[k])
    weights = np.where(others, a, 0.0)
    offsets = np.where(others, b - b[others].max(), 0.0)
    if weights[others].min() == weights.max() > 0.0 and not offsets.any():
        return ClassFirst(k, cut, None)
    # a power of two: nothing is rounded
    exponent = 1 - int(np.frexp(max(np.abs(weights).max(), np.abs(offsets).max()))[1])
    return ClassFirst(k, cut, Gains.reduced(np.ldexp(weights, exponent), np.ldexp(offsets, exponent)))


def decided_from(gain: Gains, k: int, dtype: Any) -> float:
    """Return the smallest probability, of a ``dtype``, at which a gain that compares class ``k`` first decides it.

    It is exact, also where the cut is a number that the scores round: 0 if the class is always decided, infinity if it
    never is.
    """
    found = _cut(gain, None, lambda decisions: decisions == k, k, dtype)
    assert found is not None
    return found


def class_cut(gain: Gains) -> tuple[int, float] | None:
    """Return which class a gain decides by its probability alone, and from which probability on, after any calibration.

    The most probable other class is decided below the cut (`confmax.confusion.ties`). The cut is infinite, of either
    sign, if the probability does not matter. None for other gains, and for those of two classes.
    """
    first = class_first(gain) if gain.n_classes > 2 else None
    return None if first is None or first.others is not None else (first.k, first.cut)


def abstaining_class_cuts(gain: Gains) -> tuple[int, float, float] | None:
    """Return which class a gain decides by its probability alone, and between which of its probabilities it abstains.

    Its last decision is to abstain. The probabilities, after any calibration, are those from which the most probable
    other class is not decided, and from which the class is, as in `abstaining_cuts`. None for other gains, and for
    those of two classes.
    """
    K = gain.n_classes
    if gain.power or not 3 <= K <= MAX_MATRIX_CLASSES or gain.n_decisions != K + 1:
        return None
    G = gain.matrices()[0]
    size = np.abs(G).max()
    k = int(np.argmax(np.abs(G[:, :K]).max(axis=0)))
    others = np.arange(K) != k
    # the scores of the others: a number, and the same small multiple of their own probability
    rest = G[:, :K][:, others]
    own = np.diagonal(G)[others]
    shared = rest[k, 0]
    same = bool((np.where(np.eye(K, dtype=np.bool_)[:, others], shared, rest) == shared).all())
    if not same or (own != own[0]).any() or not 0.0 < own[0] - shared < size / BEYOND or abs(shared) > size / BEYOND:
        return None
    # beside the probability of the class, the others count alike to it and to abstaining
    far = G[others][:, [k, K]]
    # a score as small as those of the others would be compared with their probabilities
    if (np.ptp(far, axis=0) > SAME * size).any() or (np.abs(far) <= size / BEYOND).any():
        return None
    two = abstaining_cuts(Gains.from_matrix([[0.0, *far[0]], [0.0, *G[k, [k, K]]]]), None)
    return None if two is None else (k, *two)
