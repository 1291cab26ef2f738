"""Single rules within limits: the best one near the optimum of the mixtures.

At the optimum some rows tie, and the mixture draws between the rules that decide them differently. All rules near it
have about one value of the Lagrangian, so a single rule is good if it keeps every limit that binds, and by little. Many
gains are searched at once. Each keeps a small random move of all its weights and offsets, which decides what rows it
takes first, and its multipliers follow Newton's steps until the limits are kept by a few rows. The derivatives of the
slacks by the multipliers are the same for all of them, and follow from their answers. After some rounds a new
generation begins with small moves around the best, as long as that finds better rules.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Confusion, Gains
from confmax.confusion.ties import never_told_apart
from confmax.optimize.loop import Incumbent, Problem, Step, best_answer
from confmax.optimize.masters.protocol import Optimum
from confmax.optimize.path_query import normalised
from confmax.optimize.points import Space
from confmax.optimize.query import DualQueries, second_derivative
from confmax.optimize.rounding import BEST, BINDS, ROUNDS, SINGLE

# of a generation after the first, which takes `ROUNDS`
FURTHER = 6
# at most; the part of the loss that the last one must have saved
GENERATIONS = 10
SAVED = 0.05
# of its moves of weights and offsets, relative to the weights
SMALLEST = 1e-6
LARGEST = 0.01
WORTH = 5e-5  # a loss for which no further generation is asked
# of the table, times gains; how many gains
CELLS = 8_000_000
LEAST = 24
MOST = 300
LEAST_MOVE = 1e-5  # of weights and offsets, relative to the weights,
# and the largest, and that on labels, where a beam search follows
MOST_MOVE = 0.06
ON_LABELS = 0.03
# of the first multipliers, relative to themselves
SPREAD = 0.1
HALVINGS = 8
# rows by which a limit is to be kept, at most; more in every round in which no gain keeps all
KEPT = 1.2
MORE = 0.4
# rows by which a limit is kept that counts as binding; its price, relative to others
NEAR = 4.0
LEAST_PRICE = 0.01
STEP = 0.5  # largest part of a price that a step takes away
# of the derivatives: in a step, and when they are fitted
RIDGE = 1e-3
STIFF = 0.1
CLOSE = SINGLE  # to the best mixture: nothing to gain


@dataclass(frozen=True, eq=False)
class Swarm:
    """Gains that are searched at once."""

    # how rules and gains are laid out
    space: Space
    # (B, d): their dual points
    duals: Array
    # what is added to the gains of these (B)
    moves: Gains
    # (r,): entries that bind: prices of several functions, and multipliers
    active: NDArray[np.intp]
    # (r, r): derivative of these entries of an answer by those of the dual point
    slope: Array
    # (r,): how much one row changes them at most
    unit: Array
    # (r,): what they should be
    level: Array
    # (M,): decisions that are not told apart (`interchangeable`): their weights and offsets do not move
    alike: NDArray[np.bool_]
    # (B, d) or None: the dual points of the round before, and their answers
    before: tuple[Array, Array] | None = None

    @classmethod
    def of(
        cls, problem: Problem, space: Space, optimum: Optimum, known: DualQueries, alike: NDArray[np.bool_]
    ) -> Swarm | None:
        """Start around the best mixture of a ``problem``; None if no limit binds."""
        n_rows = problem.oracle.table.n_rows
        exact = problem.oracle.exact
        form = space.form
        target = normalised(space.form, optimum.gain, optimum.gain)
        d = len(target)
        m = form.n_limits
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
        rng = np.random.default_rng(d)
        count = int(np.clip(CELLS // (n_rows * len(space.rows)), LEAST, MOST))
        widths = SPREAD * 0.5 ** rng.integers(0, HALVINGS, (count - 1, 1))
        duals = np.repeat(target[None], count, axis=0)
        duals[1:, active] *= np.exp(widths * rng.standard_normal((count - 1, len(active))))
        curved = second_derivative(known, target)
        slope = np.diag(unit[active] * n_rows / target[active]) if curved is None else curved[0][np.ix_(active, active)]
        level = np.where(active < form.n_tops, optimum.value, 0.0)
        width = np.exp(rng.uniform(np.log(LEAST_MOVE), np.log(MOST_MOVE if exact else ON_LABELS), count))
        width[0] = 0.0
        moves = _drawn(space.gains(target[None]), width, rng, alike)
        return cls(space, duals, moves, active, slope, unit[active], level, alike)

    def around(self, best: Gains, seed: int) -> Swarm:
        """Return a generation of this swarm that begins around the ``best`` gains; its multipliers are as at first."""
        rng = np.random.default_rng([seed, len(self.duals)])
        count = len(self.duals)
        target = self.space.gains(self.duals[:1])
        widths = np.exp(rng.uniform(np.log(SMALLEST), np.log(LARGEST), count))
        place = np.arange(count) % len(best)
        drawn = _drawn(target, widths, rng, self.alike)
        return replace(self, moves=best[place].plus(target, -1.0).plus(drawn))

    @property
    def gains(self) -> Gains:
        """The gains to ask for (B)."""
        return self.space.gains(self.duals).plus(self.moves)

    def following(self, z: Array, seed: int) -> Swarm:
        """Return the swarm after Newton's steps from its answers z (B, d); ``seed`` is the number of the round."""
        rng = np.random.default_rng(seed)
        prices = self.duals[:, self.active]
        at = z[:, self.active]
        slope = self.slope
        if self.before is not None:
            moved = prices - self.before[0][:, self.active]
            changed = at - self.before[1][:, self.active]
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


def search(
    problem: Problem, first: Swarm, incumbent: Incumbent
) -> Generator[Step, None, tuple[Gains, Confusion] | None]:
    """Yield the best rules of each round, generation after generation; return the last gains with their answers.

    On labels there is one generation.

    The ``incumbent`` holds the best rules so far, of which the caller keeps count.
    """
    exact = problem.oracle.exact
    space = first.space
    swarm = first
    met: list[tuple[Gains, Array]] = []
    last = None
    # of a large table single rows say little, and passes cost much
    most = GENERATIONS if exact and len(first.duals) > LEAST and not problem.refines else 1
    for generation in range(most):
        before = incumbent.single_loss()
        for k in range(FURTHER if generation else ROUNDS):
            if (
                exact and incumbent.single_loss() <= max(CLOSE, problem.tol)
            ) or problem.oracle.n_passes >= problem.max_passes:
                return last
            gains = swarm.gains
            answers = problem.ask(gains)
            last = gains, answers
            yield Step(best_answer(problem, gains, answers))
            z = space.vectors(answers)
            missed = np.minimum(z[:, -space.n_limits :].min(axis=1), 0.0)
            values = np.nan_to_num(problem.metric.values(answers), nan=-np.inf)
            met.append((gains, np.stack([missed, values], axis=1)))
            swarm = swarm.following(z, k)
        loss = incumbent.single_loss()
        if loss <= WORTH or (generation and not loss < (1.0 - SAVED) * before):
            break
        met = [_best(met)]
        swarm = replace(first.around(met[0][0], generation), slope=swarm.slope)
    return last


def _best(met: list[tuple[Gains, Array]]) -> tuple[Gains, Array]:
    """Return the best of all gains that were met (B), of equal ones one: those that miss least, then by value."""
    gains = Gains.concatenate([part for part, _ in met])
    merits = np.concatenate([part for _, part in met])
    _, first = np.unique(merits, axis=0, return_index=True)
    chosen = first[::-1][:BEST]
    return gains[chosen], merits[chosen]


def _fitted(slope: Array, moved: Array, changed: Array) -> Array:
    """Return the slope that explains changes (B, r) by moves (B, r) best, near the slope so far."""
    size = np.linalg.norm(moved, axis=1)
    size = np.where(size > 0.0, size, np.inf)[:, None]
    moved, rest = moved / size, (changed - moved @ slope.T) / size
    return np.asarray(slope + np.linalg.solve(moved.T @ moved + STIFF * np.eye(len(slope)), moved.T @ rest).T)


def interchangeable(problem: Problem, space: Space, optimum: Optimum | None = None) -> NDArray[np.bool_]:
    """Return which decisions (M,) are classes that neither the metric nor a limit tells apart (`never_told_apart`).

    Classes that are never decided are among them. With an ``optimum``, limits that do not bind there do not count.
    """
    barred = np.zeros(problem.n_decisions, dtype=bool)
    barred[: len(problem.oracle.barred)] = problem.oracle.barred
    if space.minimum_of is None:
        # a function of all statistics
        return barred
    counts = np.ones(space.n_objective + space.n_limits, dtype=bool)
    if optimum is not None and space.n_limits:
        m = space.n_limits
        priced = np.abs(optimum.gain[-m:]) > BINDS * np.abs(optimum.gain).max()
        near = optimum.point[-m:] < NEAR * space.row_sizes()[-m:] / problem.oracle.table.n_rows
        counts[-m:] = priced | near
    functions = space.gains(np.eye(len(counts))[counts])
    return barred | never_told_apart(functions, problem.oracle.table.layout)


def _drawn(gain: Gains, widths: Array, rng: np.random.Generator, alike: NDArray[np.bool_]) -> Gains:
    """Return random gains of the form of one, of sizes ``widths`` (B,) relative to its weights.

    They are zero for decisions that are ``alike`` (M,).
    """
    if gain.full is not None:
        size = widths * float(np.abs(gain.full).mean())
        draws = size[:, None, None] * rng.standard_normal((len(widths), *gain.full.shape[1:]))
        return Gains.from_matrix(np.where(alike, 0.0, draws))
    a, b = gain.coefficients()
    K = a.shape[1]
    size = widths * float(np.abs(a).mean())
    draws = size[:, None] * rng.standard_normal((len(widths), K + b.shape[1]))
    return Gains(np.where(alike[:K], 0.0, draws[:, :K]), np.where(alike, 0.0, draws[:, K:]), power=gain.power)
