"""The master of linear functions, ratios, the smallest of several functions, and means of the recalls within limits.

It follows the central path of the interior-point method (`interior.py`), where the next prices are asked for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from confmax.confusion import Array
from confmax.optimize.masters.interior import solve, value_at
from confmax.optimize.masters.protocol import Master, Optimum, per_price
from confmax.optimize.masters.within import mixed_inside
from confmax.optimize.points import Space
from confmax.optimize.rounding import LEFT_OVER

DEAD = LEFT_OVER  # a recall that counts as zero


class Program(Master):
    """Maximise a linear function, a ratio of two, the smallest of several, or a mean of the recalls, within limits."""

    most_columns: ClassVar[int] = 150
    follows_path: ClassVar[bool] = True

    def mix(self, space: Space, z: Array, start: Array, room: float = 0.0) -> Optimum:
        """Follow the central path to the best mixture within the limits."""
        return mixed_inside(self, space, z, start, room)

    def solve(self, space: Space, z: Array, start: Array) -> Optimum:
        """Follow the central path to the solution; some mixture keeps the limits by a little."""
        form = space.form
        if form.ratio and not z[:, form.n_tops].any():
            return _without_denominator(z, start)
        if form.mean is not None and not form.mean.of_misses and (start @ z[:, : form.n_tops]).min() < DEAD:
            # such a mean is zero where a recall is, and says nothing there: the smallest recall is raised first
            smallest = solve(replace(form, mean=None), z)
            if smallest.value < DEAD:
                return replace(smallest, value=0.0)
        return solve(form, z)

    def value(self, space: Space, point: Array) -> float:
        """Return the objective at a mixture as a vector (d + m,)."""
        return value_at(space.form, point)

    def bounds(self, space: Space, gains: Array, heights: Array, at: Array) -> Array:
        """Bound by what an answer proves at its prices, and at mixtures of two dual points."""
        objective, _ = space.split(gains)
        if space.mean is not None:
            return np.nan_to_num(space.mean.bound(objective, heights), nan=np.inf)
        if space.ratio is None:
            return per_price(heights, objective.sum(axis=1))
        with np.errstate(divide="ignore", invalid="ignore"):
            levels = -objective[:, 1] / objective[:, 0]
            excess = heights / objective[:, 0]
            steps = np.where(excess > 0.0, excess / space.ratio.floor[0], 0.0)
            # the excess is convex in level and multipliers: where a chord of it is zero, it is not positive
            above = excess[:, None]
            below = excess[None]
            roots = (levels[None] * above - levels[:, None] * below) / (above - below)
        chords = np.where((above > 0.0) & (below < 0.0), roots, np.inf)
        bounds = np.minimum(levels + steps, chords.min(axis=0))
        return np.where((objective[:, 0] > 0.0) & np.isfinite(bounds), bounds, np.inf)


def _without_denominator(z: Array, start: Array) -> Optimum:
    """Return the mixture ``start`` of rules z (A, d + m) that all have a denominator of zero, where the ratio is zero.

    No weights bring the denominator to one. What the numerator alone asks for may have one.
    """
    weights = start / start.sum()
    gain = np.eye(1, z.shape[1])
    return Optimum(weights, weights @ z, 0.0, gain[0], gain, np.zeros(1))
