"""What mixtures of thresholds on one class attain: a convex polygon, off which every limit cuts a half-plane.

A rule's point has two coordinates, how much of the rest and how much of the class is decided as the class. Quasi-convex
functions of it, such as linear metrics and ratios, are largest at a corner.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Confusion
from confmax.metrics import Metric
from confmax.metrics.structure import LinearFunctions
from confmax.optimize.rounding import SINGLE, SINGULAR
from confmax.optimize.threshold import hull_chains

OUTSIDE = SINGULAR  # a corner that is cut off by no more, which rounding explains, stays
LOOSER = SINGLE  # by which a limit is loosened to find its price


@dataclass(frozen=True)
class Drawn:
    """A draw between thresholds: their indices and weights, its value, and the price of every function of a limit."""

    index: NDArray[np.intp]
    weights: Array
    value: float
    prices: Array | None


@dataclass(frozen=True, eq=False)
class Polygon:
    """The corners of a convex polygon, in their order around it."""

    # batch of C, one for each corner
    confusions: Confusion
    # (C, D): the thresholds between which a corner draws, D at most
    index: NDArray[np.intp]
    # (C, D): their weights
    weights: Array

    @classmethod
    def of(cls, confusions: Confusion) -> Polygon:
        """Return the hull of thresholds (T), from never deciding the class to always."""
        upper, lower = hull_chains(confusions)
        around = np.concatenate([upper, lower[-2:0:-1]])
        return cls(confusions[around], around[:, None], np.ones((len(around), 1)))

    def cut_off(self, heights: Array) -> Polygon | None:
        """Return the part where a linear function of the confusion is not negative; None where nothing is left.

        ``heights`` (C,) are its values at the corners.
        """
        inside = heights >= -OUTSIDE
        if inside.all():
            return self
        if not inside.any():
            return None
        following = np.roll(np.arange(len(heights)), -1)
        i = np.flatnonzero(inside != inside[following])
        j = following[i]
        share = np.clip(heights[i] / (heights[i] - heights[j]), 0.0, 1.0)[:, None]
        S = self.confusions
        inner = np.flatnonzero(inside)
        # a new corner stands between the two whose edge is cut
        order = np.argsort(np.concatenate([inner, i + 0.5]), kind="stable")

        def joined(part: NDArray[np.float64]) -> Array:
            return np.concatenate([part[inner], (1.0 - share) * part[i] + share * part[j]])[order]

        index = np.concatenate([np.tile(self.index[inner], 2), np.hstack([self.index[i], self.index[j]])])
        weights = np.concatenate(
            [
                np.pad(self.weights[inner], ((0, 0), (0, self.weights.shape[1]))),
                np.hstack([(1.0 - share) * self.weights[i], share * self.weights[j]]),
            ]
        )
        return Polygon(Confusion(S.rows, joined(S.diagonal), joined(S.columns)), index[order], weights[order])

    def within(self, functions: LinearFunctions, shift: Array) -> Polygon | None:
        """Return the part where ``functions`` (m), each raised by its ``shift`` (m,), are not negative."""
        left: Polygon | None = self
        for k in range(len(shift)):
            if left is not None:
                left = left.cut_off(functions.values(left.confusions)[..., k] + shift[k])
        return left

    def best(self, metric: Metric) -> Drawn:
        """Return the best corner."""
        values = np.nan_to_num(metric.values(self.confusions), nan=-np.inf)
        k = int(np.argmax(values))
        index, inverse = np.unique(self.index[k], return_inverse=True)
        weights = np.bincount(inverse, self.weights[k], len(index)).astype(np.float64)
        used = weights > 0.0
        return Drawn(index[used], weights[used], float(values[k]), None)


def best_drawn_within(confusions: Confusion, metric: Metric, functions: LinearFunctions | None) -> Drawn | None:
    """Return the best mixture of thresholds at which all ``functions`` are not negative; None if there is none.

    The T thresholds have common row sums (2,). The ``metric`` is linear or a ratio, of two columns.
    """
    polygon = Polygon.of(confusions)
    if functions is None:
        return polygon.best(metric)
    left = polygon.within(functions, np.zeros(len(functions)))
    if left is None:
        return None
    best = left.best(metric)
    prices = []
    if not confusions.columns[best.index, 1].any():
        # a precision of no row is no number that a limit moves
        return best
    for unit in np.eye(len(functions)):
        looser = polygon.within(functions, LOOSER * unit)
        prices.append(0.0 if looser is None else max(0.0, looser.best(metric).value - best.value) / LOOSER)
    return Drawn(best.index, best.weights, best.value, np.array(prices))
