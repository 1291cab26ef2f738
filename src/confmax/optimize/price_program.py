"""The linear program of the search for prices (`optimize/prices.py`), by an interior-point method.

What is known bounds the two maxima from below: each class's own by the points that it attains alone, and that over all
rules by the answers. The program minimises the sum of these bounds over a box of prices around the best ones::

    min  sum_l s_l + s_0   with  s_l >= top_nl - cut_nl' z_l  for all points n of class l,
                                 s_0 >= base_a + rule_a' z    for all answers a,  -low <= z <= high

A point of class l reads the two prices of its class alone. The s are eliminated, so that a step is one system in the
prices, of covariances of cuts and rules. All iterates meet the constraints of the program and of its dual. Their gap is
the distance to a value that no prices in the box fall below, and a rough solution is enough to ask for the next ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from confmax.confusion import Array
from confmax.kernels.products import Positive
from confmax.optimize.masters.interior import centred, longest
from confmax.optimize.rounding import LITTLE, NEGLIGIBLE, NEWTON_STEPS

MARGIN = 0.1  # by how much the first iterate lies inside, as a part of what the constraints span
CLOSE = NEGLIGIBLE  # gap, relative to this span, at which rounding is all that is left


@dataclass(frozen=True, eq=False)
class PriceProgram:
    """The program for B classes, N points of each, A answers and d = 2B + m prices, m of them of limits."""

    # (N, B): bounds of the classes' own maxima where the step z is zero
    tops: Array
    # (2, N, B): how much they fall by a step
    cuts: Array
    # (A,): bounds of the maximum over rules where the step is zero
    base: Array
    # (A, d): how much they rise by a step
    rules: Array
    # low, high: (d,): the longest steps down and up
    low: Array
    high: Array

    def solve(self, bound: float, part: float) -> tuple[float, Array, Array]:
        """Return a value that no step falls below, a step (d,), and weights (A,), which mix the answers.

        The step's own value lies above by at most a ``part`` of what is left to a ``bound``.
        """
        A = len(self.base)
        (N, B) = self.tops.shape
        # bounds that are all alike span nothing, and their size is the scale
        span = max(float(np.ptp(part)) for part in (self.tops, self.base))
        span = max(span, float(np.abs(self.tops).max()), float(np.abs(self.base).max()))
        z = np.maximum(MARGIN * self.high - self.low, 0.0)
        s = (self.tops - self._falls(z)).max(axis=0) + MARGIN * span
        s_0 = float((self.base + self.rules @ z).max()) + MARGIN * span
        slack = self._slack(z, s, s_0)
        weights = self._first_weights(slack)
        floor = -np.inf
        for _ in range(NEWTON_STEPS):
            gap = float(slack @ weights)
            value = float(s.sum()) + s_0
            floor = max(floor, value - gap)
            if gap <= max(CLOSE * span, part * (bound - floor)):
                break
            step = self._step(slack, weights, gap)
            if step is None:
                break
            (dz, ds, ds_0), primal, moved, dual = step
            z = z + primal * dz
            s = s + primal * ds
            s_0 = s_0 + primal * ds_0
            slack = self._slack(z, s, s_0)
            weights = weights + dual * moved
        return floor, z, weights[N * B : N * B + A]

    def _falls(self, z: Array) -> Array:
        """Return how much the classes' own bounds fall by a step (N, B)."""
        first, second = z[: 2 * self.tops.shape[1]].reshape(2, -1)
        return np.asarray(self.cuts[0] * first + self.cuts[1] * second)

    def _change(self, z: Array, s: Array, s_0: float) -> Array:
        """Return by how much all slacks change: those of points, answers, and both ends of the box."""
        return np.concatenate([(s + self._falls(z)).ravel(), s_0 - self.rules @ z, z, -z])

    def _slack(self, z: Array, s: Array, s_0: float) -> Array:
        return self._change(z, s, s_0) + np.concatenate([-self.tops.ravel(), -self.base, self.low, self.high])

    def _parts(self, vector: Array) -> tuple[Array, Array, Array, Array]:
        """Return what belongs to points (N, B), answers (A,), and the lower and upper end of the box (d,)."""
        n = self.tops.size
        A = len(self.base)
        d = len(self.low)
        return vector[:n].reshape(self.tops.shape), vector[n : n + A], vector[n + A : n + A + d], vector[n + A + d :]

    def _first_weights(self, slack: Array) -> Array:
        """Return equal weights of points and of answers, and multipliers of the box that make them dual feasible."""
        A = len(self.base)
        (N, B) = self.tops.shape
        points = np.full((N, B), 1.0 / N)
        answers = np.full(A, 1.0 / A)
        tilt = -answers @ self.rules
        tilt[: 2 * B] += (points * self.cuts).sum(axis=1).ravel()
        of_points, rest, below, above = self._parts(slack)
        mean = float((points * of_points).sum() + answers @ rest) / (N * B + A)
        least = mean / np.minimum(below, above)
        return np.concatenate([points.ravel(), answers, least + np.maximum(-tilt, 0.0), least + np.maximum(tilt, 0.0)])

    def _step(
        self, slack: Array, weights: Array, gap: float
    ) -> tuple[tuple[Array, Array, float], float, Array, float] | None:
        """Return a predictor-corrector step (Mehrotra, 1992), of the variables and of the weights, with its lengths."""
        (of_points, rest, below, above) = self._parts(ratio := weights / slack)
        B = self.tops.shape[1]
        total = of_points.sum(axis=0)
        middle = (of_points * self.cuts).sum(axis=1) / total
        centre = rest @ self.rules / rest.sum()
        cuts = self.cuts - middle[:, None]
        rules = (self.rules - centre) * np.sqrt(rest)[:, None]
        try:
            system = _System(np.einsum("inb,jnb->ijb", of_points * cuts, cuts), below + above, rules)
        except ValueError:
            return None

        def direction(aims: Array) -> tuple[tuple[Array, Array, float], Array, Array]:
            """Return the changes of variables, slacks and weights toward products ``aims * slack``."""
            points, answers, at_low, at_high = self._parts(aims)
            rest_s = points.sum(axis=0) - 1.0
            rest_0 = float(answers.sum()) - 1.0
            right = at_low - at_high - answers @ self.rules + centre * rest_0
            right[: 2 * B] += ((points * self.cuts).sum(axis=1) - middle * rest_s).ravel()
            z = system.solve(right)
            s = rest_s / total - (middle * z[: 2 * B].reshape(2, B)).sum(axis=0)
            moves = z, s, rest_0 / float(rest.sum()) + float(centre @ z)
            change = self._change(*moves)
            return moves, change, aims - weights - ratio * change

        _, change, moved = direction(np.zeros_like(slack))
        left = float((slack + longest(slack, change) * change) @ (weights + longest(weights, moved) * moved))
        # a rough solution is enough, and no point of the path is asked for
        aim = centred(left, gap, len(slack), LITTLE)
        moves, change, moved = direction((aim - change * moved) / slack)
        if not (np.isfinite(change).all() and np.isfinite(moved).all()):
            return None
        return moves, longest(slack, change), moved, longest(weights, moved)


class _System:
    """The matrix ``D + rules' rules`` of a step, where D has a block of two prices for each class, factored.

    Where there are fewer rules than prices, the system is one of the rules (Sherman, Morrison and Woodbury). The
    diagonal is larger by what rounding may take off.

    Raises a ValueError if the matrix is not positive definite.
    """

    def __init__(self, blocks: Array, diagonal: Array, rules: Array) -> None:
        self.rules = rules
        self.is_small = len(rules) < len(diagonal)
        if self.is_small:
            try:
                self.factor = self._of_rules(blocks, diagonal)
            except ValueError:
                # the blocks alone are nearly singular where a price is bound by the rules only
                self.is_small = False
        if not self.is_small:
            self.factor = self._of_prices(blocks, diagonal)

    def _of_prices(self, blocks: Array, diagonal: Array) -> Positive:
        """Return the factor of the matrix of the prices."""
        place = np.arange(2 * blocks.shape[2]).reshape(2, -1)
        matrix = self.rules.T @ self.rules + np.diag(diagonal)
        matrix[place[:, None], place[None]] += blocks
        matrix[np.diag_indices_from(matrix)] *= 1.0 + NEGLIGIBLE
        return Positive(matrix)

    def _of_rules(self, blocks: Array, diagonal: Array) -> Positive:
        """Return the factor of the matrix of the rules, and set the entries of the inverse of D."""
        place = np.arange(2 * blocks.shape[2]).reshape(2, -1)
        first, second = (diagonal[place] + blocks[[0, 1], [0, 1]]) * (1.0 + NEGLIGIBLE)
        determinant = first * second - blocks[0, 1] ** 2
        if not (determinant > 0.0).all():
            raise ValueError("a block of a step is not positive definite")
        # of a price by itself, and by the other price of its class
        self.alone = 1.0 / diagonal
        self.alone[place] = np.stack([second, first]) / determinant
        self.other = -blocks[0, 1] / determinant
        self.spread = self._divided(self.rules)
        return Positive(np.eye(len(self.rules)) + self.spread @ self.rules.T)

    def solve(self, right: Array) -> Array:
        """Return the solution (d,) for a right side (d,)."""
        if not self.is_small:
            return self.factor.solve(right)
        z = self._divided(right)
        return np.asarray(z - self.factor.solve(self.rules @ z) @ self.spread)

    def _divided(self, rows: Array) -> Array:
        """Return the products of ``rows`` (..., d) and the inverse of D."""
        B = len(self.other)
        out = rows * self.alone
        out[..., :B] += self.other * rows[..., B : 2 * B]
        out[..., B : 2 * B] += self.other * rows[..., :B]
        return out
