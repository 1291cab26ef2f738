"""Floors on means of the recalls, which are concave and no linear inequalities: outer cuts take their place.

Where a mixture misses such a floor l, a tangent of the mean f is added to the limits: ``f(y) + <f'(y), x - y> >= l``
holds for all recalls x that keep the floor, because f is concave. Points y on the edge of the floor cut deepest. No
cut needs a pass: the recalls of every rule are rows of the limits.
"""

from __future__ import annotations

import numpy as np

from confmax.confusion import Array
from confmax.metrics.structure import MeanFloor
from confmax.optimize.points import Space
from confmax.optimize.rounding import HALVINGS, LEFT_OVER

FALLS_SHORT = LEFT_OVER  # where no mixture keeps the limits: by how much a mean may lie below its cuts


def further_cuts(space: Space, point: Array, shortfall: float) -> Array | None:
    """Return the cuts (c, m + 1) that a mixture asks for: weights of the m rows of the limits, and a constant.

    The mixture ``point`` (d + m + cuts,) misses the limits and cuts so far by the ``shortfall``, by choice of the
    master; it is zero where it keeps them. None is returned if it keeps all floors, or where none can be kept misses
    them by no more than the shortfall.
    """
    limits = space.split(point)[1][: space.n_given]
    cuts = []
    for curve in space.curves:
        recalls = limits[curve.rows] - 1.0
        short = float(curve.mean.value(recalls)) - curve.floor + max(shortfall, 0.0)
        if short >= (-FALLS_SHORT if shortfall > 0.0 else 0.0):
            continue
        at, slopes = curve.mean.tangent(recalls if shortfall > 0.0 else _edge(curve, recalls))
        cut = np.zeros(space.n_given + 1)
        cut[curve.rows] = slopes
        # the rows hold recalls plus one
        cut[-1] = curve.mean.value(at) - curve.floor - slopes @ (at + 1.0)
        cuts.append(cut)
    return np.array(cuts) if cuts else None


def _edge(curve: MeanFloor, recalls: Array) -> Array:
    """Return the point between ``recalls`` that miss a floor and the perfect ones where it is met."""
    low = 0.0
    high = 1.0
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        met = curve.mean.value(recalls + middle * (1.0 - recalls)) >= curve.floor
        low, high = (low, middle) if met else (middle, high)
    return np.asarray(recalls + high * (1.0 - recalls))
