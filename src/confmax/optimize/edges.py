"""Mixtures of two thresholds: the best rule between two neighbours on the hull of the ROC points.

Each threshold on the probability of class 1 is a point of two coordinates: how much of class 0 and of class 1 is
decided as 1. Mixtures of thresholds fill the convex hull of these points. A metric that does not fall when a recall
rises is largest on the upper edges of the hull, where a rule draws between two thresholds. The lower edges are searched
too, for metrics that reward errors.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from confmax.confusion import Array, Confusion
from confmax.metrics import Metric
from confmax.metrics.structure import Concave, MinOfLinear
from confmax.optimize.step_size import LEAST_WEIGHT, line_searches

MOST_EDGES = 256  # edges with the best ends, which are looked at inside
INSIDE = 9  # points on each of them
SEARCHED = 8  # edges that are searched to the last digit
ROUNDS = 11  # of a grid of 65 points: the interval shrinks below 1e-16


def best_edge(metric: Metric, confusions: Confusion, values: Array) -> tuple[int, int, float]:
    """Return the thresholds ``i`` and ``j`` (hull neighbours) and the weight of ``j`` of the best rule between them.

    Parameters
    ----------
    metric : Metric
        Concave metrics are searched exactly. The others may have several maxima along an edge: a grid tells which one
        is searched, and each threshold keeps a weight of at least 1e-6, or none.
    confusions : Confusion
        Batch of T, the thresholds falling: from never deciding class 1 to always.
    values : ndarray (T,)
        The metric at each, finite or infinite.
    """
    x = np.maximum(confusions.rows[..., 0] - confusions.diagonal[:, 0], 0.0)
    y = confusions.diagonal[:, 1]
    upper, lower = _upper_chain(x, y), _upper_chain(x, -y)
    first, second = np.concatenate([upper[:-1], lower[:-1]]), np.concatenate([upper[1:], lower[1:]])
    ends = np.maximum(values[first], values[second])
    # a concave metric rises along the upper edges to its maximum and falls after it: the best ends are beside it
    near = np.argsort(-ends, kind="stable")[:MOST_EDGES]
    first, second = first[near], second[near]
    steps = np.broadcast_to(np.linspace(0.0, 1.0, INSIDE), (len(first), INSIDE))
    inside = metric.values(_taken(confusions, first).along(_taken(confusions, second), steps))
    merit = np.nan_to_num(inside, nan=-np.inf).max(axis=1)
    best = np.argsort(-merit, kind="stable")[:SEARCHED]
    first, second = first[best], second[best]
    low, high = _taken(confusions, first), _taken(confusions, second)
    least = 0.0 if isinstance(metric.structure, (Concave, MinOfLinear)) else LEAST_WEIGHT
    found = line_searches(metric, low, high, rounds=ROUNDS, least=least)
    found = np.where(found >= least, found, 0.0)
    reached = metric.values(low.along(high, found[:, None]))[:, 0]
    k = int(np.argmax(np.nan_to_num(reached, nan=-np.inf)))
    return int(first[k]), int(second[k]), float(found[k])


def _taken(confusions: Confusion, index: NDArray[np.intp]) -> Confusion:
    """Return the listed confusions of a batch, as a batch."""
    matrix = None if confusions.matrix is None else confusions.matrix[index]
    rows = confusions.rows[index] if confusions.rows.ndim > 1 else confusions.rows
    return Confusion(rows, confusions.diagonal[index], confusions.columns[index], matrix)


@njit(cache=True, nogil=True)
def _upper_chain(x, y):  # type: ignore[no-untyped-def]
    """Return the corners of the upper hull of points (T,) whose x does not fall, in their order."""
    kept = np.empty(len(x), np.int64)
    size = 0
    for t in range(len(x)):
        # drop corners that lie on or below the line from the one before them to the new point
        while size >= 2:
            a, b = kept[size - 2], kept[size - 1]
            if (x[b] - x[a]) * (y[t] - y[a]) < (y[b] - y[a]) * (x[t] - x[a]):
                break
            size -= 1
        kept[size] = t
        size += 1
    return kept[:size]
