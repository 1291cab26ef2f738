"""Step sizes of the conditional gradient method."""

from __future__ import annotations

import numpy as np

from confmax.confusion import Array, Confusion
from confmax.metrics import Metric

GRID = 65
ROUNDS = 5
MOST_CELLS = 1 << 20  # of the statistics on the grids of several segments
# a rule that keeps less than this weight would live on rounding: macro precision rewards deciding a class with a
# probability that vanishes
LEAST_WEIGHT = 1e-6
CELLS = 1 << 17  # numbers per batch of confusions, each vector of them: stays in the cache


def open_loop(j: int) -> float:
    """Return the paper's step ``2 / (j + 1)`` of round ``j = 1, 2, ...`` (Algorithm 3); the first is 1."""
    return 2.0 / (j + 1.0)


def line_search(metric: Metric, C: Confusion, V: Confusion) -> float:
    """Return the step in [0, 1] from C toward V that maximises the metric; 0 where nothing improves on C.

    A grid is refined around its best point until the interval is below 1e-7: exact for metrics that are concave or
    quasi-concave along the segment, and a global scan with 65 points for the others.
    """
    return float(line_searches(metric, Confusion.stack([C]), Confusion.stack([V]))[0])


def line_searches(
    metric: Metric, C: Confusion, V: Confusion, *, rounds: int = ROUNDS, least: float = LEAST_WEIGHT
) -> Array:
    """Return the best step (B,) of each segment between two batches of B confusions, as `line_search` finds it.

    Each of ``rounds`` makes the interval 32 times smaller. A step that leaves less than ``least`` to C is 1."""
    B = len(C)
    at = np.arange(B)
    if B > 1 and (metric.statistics == "matrix" or B * GRID * C.columns.shape[-1] > MOST_CELLS):
        # all grids at once would be too much to hold
        pairs = ((Confusion.stack([C[k]]), Confusion.stack([V[k]])) for k in range(B))
        return np.concatenate([line_searches(metric, *pair, rounds=rounds, least=least) for pair in pairs])
    best, best_value = np.zeros(B), np.asarray(metric.values(C), dtype=np.float64)
    low, high = np.zeros(B), np.ones(B)
    for _ in range(rounds):
        steps = np.linspace(low, high, GRID, axis=1)
        values = np.nan_to_num(metric.values(C.along(V, steps)), nan=-np.inf)
        k = values.argmax(axis=1)
        better = values[at, k] > best_value
        best = np.where(better, steps[at, k], best)
        best_value = np.where(better, values[at, k], best_value)
        low, high = steps[at, np.maximum(k - 1, 0)], steps[at, np.minimum(k + 1, GRID - 1)]
    return np.where(best <= 1.0 - least, best, 1.0)
