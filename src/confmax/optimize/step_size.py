"""Step sizes of the conditional gradient method."""

from __future__ import annotations

import numpy as np

from confmax._metric import Metric
from confmax.confusion import Array, Confusion

GRID = 65
ROUNDS = 5
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
    start = float(metric.values(C))
    low, high, best, best_value = 0.0, 1.0, 0.0, start
    for _ in range(ROUNDS):
        steps = np.linspace(low, high, GRID)
        values = np.nan_to_num(np.concatenate([metric.values(C.toward(V, t)) for t in _batches(steps, C)]), nan=-np.inf)
        k = int(np.argmax(values))
        if values[k] > best_value:
            best, best_value = float(steps[k]), float(values[k])
        low, high = steps[max(k - 1, 0)], steps[min(k + 1, GRID - 1)]
    return best if best <= 1.0 - LEAST_WEIGHT else 1.0


def _batches(steps: Array, C: Confusion) -> list[Array]:
    """Split the steps so that their confusions take bounded memory."""
    cells = max(C.diagonal.size, C.columns.size) if C.matrix is None else C.matrix.size
    return np.array_split(steps, min(len(steps), -(-len(steps) * cells // CELLS)))
