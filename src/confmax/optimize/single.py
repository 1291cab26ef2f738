"""Single rules within limits: the best one near the optimum of the mixtures.

At the optimum some rows tie, and the mixture draws between the rules that decide them differently. All rules near it
have about one value of the Lagrangian, so a single rule is good if it keeps every limit that binds, and by little. Many
gains are searched at once. Each keeps a small random move of all its weights and offsets, which decides what rows it
takes first, and its multipliers follow Newton's steps until the limits are kept by a few rows. The derivatives of the
slacks by the multipliers are the same for all of them, and follow from their answers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Gains
from confmax.optimize.descent import BINDS
from confmax.optimize.masters.protocol import Optimum
from confmax.optimize.path_query import normalised
from confmax.optimize.points import Space
from confmax.optimize.query import DualQueries, second_derivative

ROUNDS = 10
CELLS, LEAST, MOST = 8_000_000, 24, 300  # of the table, times gains; how many gains
LEAST_MOVE, MOST_MOVE = 1e-5, 0.03  # of weights and offsets, relative to the weights
SPREAD, HALVINGS = 0.1, 8  # of the first multipliers, relative to themselves
KEPT, MORE = 1.2, 0.4  # rows by which a limit is to be kept, at most; more in every round in which no gain keeps all
NEAR, LEAST_PRICE = 4.0, 0.01  # rows by which a limit is kept that counts as binding; its price, relative to others
STEP = 0.5  # largest part of a price that a step takes away
RIDGE, STIFF = 1e-3, 0.1  # of the derivatives: in a step, and when they are fitted
CLOSE = 1e-7  # to the best mixture: nothing to gain


@dataclass(frozen=True, eq=False)
class Swarm:
    """Gains that are searched at once.

    Attributes
    ----------
    space : Space
        How rules and gains are laid out.
    duals : ndarray (B, d)
        Their dual points.
    moves : Gains
        What is added to the gains of these (B).
    active : ndarray of int (r,)
        Entries that bind: prices of several functions, and multipliers.
    slope : ndarray (r, r)
        Derivative of these entries of an answer by those of the dual point.
    unit : ndarray (r,)
        How much one row changes them at most.
    level : ndarray (r,)
        What they should be.
    before : tuple of ndarray (B, d), or None
        The dual points of the round before, and their answers.
    """

    space: Space
    duals: Array
    moves: Gains
    active: NDArray[np.intp]
    slope: Array
    unit: Array
    level: Array
    before: tuple[Array, Array] | None = None

    @classmethod
    def of(cls, space: Space, optimum: Optimum, known: DualQueries, n_rows: int) -> Swarm | None:
        """Start around the best mixture of a table of ``n_rows``; None if no limit binds."""
        form, target = space.form, normalised(space.form, optimum.gain, optimum.gain)
        d, m = len(target), form.n_limits
        unit = space.row_sizes() / n_rows
        used = np.abs(target) > BINDS * np.abs(target).max()
        if form.has_slopes or form.n_tops == 1:
            # the price of a single function is one, and those of a mean change little between its best rules
            used[: d - m] = False
        # a limit that is kept by a few rows without a price is missed by the next rule
        used[d - m :] |= optimum.point[d - m :] < NEAR * unit[d - m :]
        active = np.flatnonzero(used)
        if not len(active):
            return None
        some = target[active][target[active] > 0.0]
        target[active] = np.maximum(target[active], LEAST_PRICE * float(np.median(some) if len(some) else 1.0))
        rng, count = np.random.default_rng(d), int(np.clip(CELLS // (n_rows * len(space.rows)), LEAST, MOST))
        widths = SPREAD * 0.5 ** rng.integers(0, HALVINGS, (count - 1, 1))
        duals = np.repeat(target[None], count, axis=0)
        duals[1:, active] *= np.exp(widths * rng.standard_normal((count - 1, len(active))))
        curved = second_derivative(known, target)
        slope = np.diag(unit[active] * n_rows / target[active]) if curved is None else curved[0][np.ix_(active, active)]
        level = np.where(active < form.n_tops, optimum.value, 0.0)
        moves = _moves(space.gains(target[None]), count, rng)
        return cls(space, duals, moves, active, slope, unit[active], level)

    @property
    def gains(self) -> Gains:
        """The gains to ask for (B)."""
        base = self.space.gains(self.duals)
        if base.full is not None or self.moves.full is not None:
            return Gains.from_matrix(base.matrices() + self.moves.matrices())
        (a, b), (c, d) = base.coefficients(), self.moves.coefficients()
        return Gains(a + c, b + d, power=base.power)

    def following(self, z: Array, seed: int) -> Swarm:
        """Return the swarm after Newton's steps from its answers z (B, d); ``seed`` is the number of the round."""
        rng = np.random.default_rng(seed)
        prices, at = self.duals[:, self.active], z[:, self.active]
        slope = self.slope
        if self.before is not None:
            moved, changed = prices - self.before[0][:, self.active], at - self.before[1][:, self.active]
            slope = _fitted(slope, moved, changed)
        some_keep = z[:, -self.space.n_limits :].min(axis=1).max() >= 0.0
        wanted = rng.uniform(0.0, KEPT, at.shape) + (0.0 if some_keep else MORE * seed)
        try:
            system = slope + RIDGE * np.diag(np.diag(slope))
            steps = np.linalg.solve(system, (self.level + wanted * self.unit - at).T).T
        except np.linalg.LinAlgError:
            return self
        duals = self.duals.copy()
        duals[:, self.active] = np.clip(prices + steps, (1.0 - STEP) * prices, (1.0 + STEP) * prices)
        return replace(self, duals=duals, slope=slope, before=(self.duals, z))


def _fitted(slope: Array, moved: Array, changed: Array) -> Array:
    """Return the slope that explains changes (B, r) by moves (B, r) best, near the slope so far."""
    size = np.linalg.norm(moved, axis=1)
    size = np.where(size > 0.0, size, np.inf)[:, None]
    moved, rest = moved / size, (changed - moved @ slope.T) / size
    return np.asarray(slope + np.linalg.solve(moved.T @ moved + STIFF * np.eye(len(slope)), moved.T @ rest).T)


def _moves(gain: Gains, count: int, rng: np.random.Generator) -> Gains:
    """Return random moves (count) of all coefficients of one gain; the first is none."""
    width = np.exp(rng.uniform(np.log(LEAST_MOVE), np.log(MOST_MOVE), count))
    width[0] = 0.0
    if gain.full is not None:
        size = width * float(np.abs(gain.full).mean())
        return Gains.from_matrix(size[:, None, None] * rng.standard_normal((count, *gain.full.shape[1:])))
    a, b = gain.coefficients()
    size = (width * float(np.abs(a).mean()))[:, None]
    draws = rng.standard_normal((count, a.shape[1] + b.shape[1]))
    return Gains(size * draws[:, : a.shape[1]], size * draws[:, a.shape[1] :], power=gain.power)
