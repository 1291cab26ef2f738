"""A line search for functions that may have several maxima on a segment: a grid, refined around its best point."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from confmax.confusion import Array

GRID = 65  # points: a round makes the interval 32 times smaller
ROUNDS = 5  # after which it is below 1e-7


def best_steps(values: Callable[[Array], Array], B: int, rounds: int = ROUNDS, grid: int = GRID) -> tuple[Array, Array]:
    """Return the best of the steps in [0, 1] on each of B segments, and what is reached there (B,).

    ``values`` takes steps (B, ``grid``) to values (B, ``grid``), which must not be NaN.
    """
    at = np.arange(B)
    low = best = np.zeros(B)
    high = np.ones(B)
    reached = np.full(B, -np.inf)
    for _ in range(rounds):
        steps = np.linspace(low, high, grid, axis=1)
        here = values(steps)
        k = here.argmax(axis=1)
        better = here[at, k] > reached
        best = np.where(better, steps[at, k], best)
        reached = np.where(better, here[at, k], reached)
        low = steps[at, np.maximum(k - 1, 0)]
        high = steps[at, np.minimum(k + 1, grid - 1)]
    return best, reached
