"""Master problems: the best mixture of the rules that column generation has met, and its prices."""

from __future__ import annotations

import numpy as np

from confmax.confusion import ABSENT, Array, Gains
from confmax.metrics import Metric
from confmax.optimize.masters.generic import Concave
from confmax.optimize.masters.linear_program import FEASIBLE, LinearProgram, largest_minimum
from confmax.optimize.masters.protocol import Master, Optimum
from confmax.optimize.masters.recall_means import KINDS, RecallMeans
from confmax.optimize.points import Space

__all__ = ["FEASIBLE", "Concave", "LinearProgram", "Master", "Optimum", "RecallMeans", "best_mixture", "is_minimum",
           "linear_functions", "master_of"]  # fmt: skip


def is_minimum(metric: Metric) -> bool:
    """Whether a metric is the smallest of linear functions, with kinks everywhere."""
    return metric.name == "min_recall" and not dict(metric.params).get("rho")


def master_of(metric: Metric) -> Master:
    """Return the master of a concave ``metric``."""
    if is_minimum(metric):
        return LinearProgram()
    return RecallMeans() if metric.bounds_any_gain and metric.transform in KINDS else Concave()


def linear_functions(metric: Metric, rows: Array) -> Gains | None:
    """Return the functions whose minimum a ``metric`` is at class priors ``rows`` (K,); None if it is none."""
    if not is_minimum(metric):
        return None
    used = list(metric.classes or range(len(rows)))
    return Gains.reduced(np.diag(1.0 / np.where(rows > ABSENT, rows, 1.0))[used])


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
