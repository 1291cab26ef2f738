"""Master problems: the best mixture of the rules that column generation has met, and its prices."""

from __future__ import annotations

import numpy as np

from confmax.confusion import Array
from confmax.metrics import Metric
from confmax.metrics.structure import MinOfLinear
from confmax.optimize.masters.generic import Smooth
from confmax.optimize.masters.linear_program import FEASIBLE, LinearProgram, largest_minimum
from confmax.optimize.masters.protocol import Master, Optimum
from confmax.optimize.masters.recall_means import RecallMeans
from confmax.optimize.points import Space

__all__ = ["FEASIBLE", "LinearProgram", "Master", "Optimum", "RecallMeans", "Smooth", "best_mixture", "master_of"]


def master_of(metric: Metric) -> Master:
    """Return the master of a concave ``metric``."""
    if isinstance(metric.structure, MinOfLinear):
        return LinearProgram()
    return RecallMeans() if metric.bounds_any_gain else Smooth()


def best_mixture(master: Master, space: Space, z: Array, start: Array) -> Optimum:
    """Return the best mixture of rules z (A, d + m) from ``start`` (A,), or how far all of them miss the limits."""
    d = z.shape[1] - space.n_limits
    if space.n_limits:
        # phase one: the largest slack that all limits can have at once
        least, weights, prices, _ = largest_minimum(z[:, d:])
        if least < -FEASIBLE:
            return Optimum(weights, weights @ z, -np.inf, np.concatenate([np.zeros(d), prices]), -least)
        if (start @ z[:, d:]).min() < 0.0:
            start = weights
    return master.solve(space, z, start)
