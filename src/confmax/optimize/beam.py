"""Single rules within limits on labels: a beam search over one coefficient at a time, with all breakpoints.

The rules that the model generates lie near the model's optimum, and those of the labels may lie elsewhere. So the best
rules met are improved on the labels themselves: of each, every value of every single coefficient is compared
(`optimize/coordinate.py`). Where several limits bind, no single coefficient moves without missing one. Rules are
therefore compared by their value less a penalty for what they miss, a few times its price. If that improves nothing,
they are compared by what they miss first, and by their value second. Then all coefficients are moved at random.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from confmax.confusion import Array, Confusion, Gains
from confmax.metrics.structure import LinearFunctions, Statistics
from confmax.optimize.coordinate import Coordinate, Kind, Merit, breakpoints, moved, working_gain
from confmax.optimize.loop import MISSED, Problem, Step, best_answer

ROUNDS = 24
MOST_RULES, CELLS = 4, 4_000_000  # searched at once; rows times squared classes, for all of them
PER_LINE = 2  # values of one coefficient that the oracle confirms
FACTOR, LEAST_PENALTY = 3.0, 0.1  # of a price; of a limit without price, relative to the largest
OUT_OF_REACH = 1e9  # rules that miss a limit come after all others
MOVES, WIDTHS = 64, (0.003, 0.3)  # random ones, and how far they go on a log scale


@dataclass(frozen=True, eq=False)
class Penalised:
    """The objective less ``prices`` (m,) times what the limits' ``functions`` miss."""

    problem: Problem
    functions: LinearFunctions
    prices: Array
    statistics: Statistics

    def values(self, S: Confusion) -> Array:
        """Return the merits (B,) of a batch."""
        missed = np.maximum(-self.functions.values(S), 0.0)
        return np.asarray(self.problem.metric.values(S) - missed @ self.prices)


@dataclass(frozen=True, eq=False)
class Ranked:
    """The objective where all limits are kept; else how far one is missed, below all others."""

    problem: Problem
    statistics: Statistics

    def values(self, S: Confusion) -> Array:
        """Return the merits (B,) of a batch."""
        assert self.problem.limits is not None
        missed = -self.problem.limits.slacks(S).min(axis=-1)
        return np.where(missed <= MISSED, self.problem.metric.values(S), -OUT_OF_REACH - missed)


def improved(problem: Problem, gains: Gains, answers: Confusion, prices: Array | None) -> Iterator[Step]:
    """Yield steps with single rules that keep the limits of a ``problem``, from ``gains`` (B) with their ``answers``.

    ``prices`` (m,) are those of the limits' functions, None where they are not known. A large table takes no step.
    """
    table, limits = problem.oracle.table, problem.limits
    size = min(CELLS // (table.n_rows * table.n_classes**2), MOST_RULES)
    if size == 0 or limits is None or not table.is_whole:
        return
    statistics: Statistics = "matrix" if problem.needs_matrix else "columns"
    functions = limits.functions(problem.oracle.rows, problem.n_decisions)
    worth = np.ones(len(functions)) if prices is None or not prices.any() else prices
    penalties = FACTOR * np.maximum(worth, LEAST_PENALTY * float(worth.max()))
    merits = (Penalised(problem, functions, penalties, statistics), Ranked(problem, statistics))
    searched: tuple[set[bytes], set[bytes]] = (set(), set())
    rng, turn = np.random.default_rng(len(table.classes)), 0
    for _ in range(ROUNDS):
        if problem.max_passes - problem.oracle.n_passes < 2:
            return
        found = _better(problem, merits[turn], gains, answers, searched[turn], size)
        if not found:
            turn = 1 - turn
            if turn == 1:
                continue
            best = int(np.argmax(merits[1].values(answers)))
            found = [_moved_at_random(working_gain(gains[best], table.dtype), rng)]
        asked = Gains.concatenate(found)
        new = problem.ask(asked)
        yield Step(best_answer(problem, asked, new))
        gains, answers = Gains.concatenate([gains, asked]), Confusion.concatenate([answers, new])


def _better(
    problem: Problem, merit: Merit, gains: Gains, answers: Confusion, searched: set[bytes], size: int
) -> list[Gains]:
    """Return gains that improve the best ``size`` rules by one coefficient; those already ``searched`` are left out."""
    values = merit.values(answers)
    # rules of one merit are mostly one rule
    _, first = np.unique(-np.round(values, 12), return_index=True)
    waiting = []
    for k in first[:size].tolist():
        gain = working_gain(gains[k], problem.oracle.table.dtype)
        key = b"".join(part.tobytes() for part in (gain.a, gain.b, gain.full) if part is not None)
        if key not in searched:
            searched.add(key)
            waiting.append((gain, float(values[k])))
    if not waiting:
        return []
    rows, found = problem.oracle.read_rows("the search of one coefficient"), []
    for gain, above in waiting:
        for coordinate in _coordinates(problem, gain):
            line = breakpoints(merit, problem.oracle, gain, coordinate, rows)
            best = np.empty(0) if line is None else line.best(above, PER_LINE)
            if len(best):
                found.append(moved(gain, coordinate, best))
    return found


def _coordinates(problem: Problem, gain: Gains) -> list[Coordinate]:
    """Return the coefficients that are searched: weights alone where nothing reads how often a class is decided."""
    assert problem.limits is not None
    both: tuple[Kind, ...] = ("weight", "offset")
    if gain.full is not None:
        both = ("offset",)
    elif problem.metric.statistics == problem.limits.statistics == "diagonal":
        both = ("weight",)
    M = {"weight": gain.n_classes, "offset": gain.n_decisions}
    return [Coordinate(kind, j) for kind in both for j in range(M[kind])]


def _moved_at_random(gain: Gains, rng: np.random.Generator) -> Gains:
    """Return one gain with all of its coefficients moved, many times."""
    widths = np.exp(rng.uniform(np.log(WIDTHS[0]), np.log(WIDTHS[1]), (MOVES, 1)))
    if gain.full is not None:
        size = widths * float(np.abs(gain.full).mean())
        return Gains.from_matrix(gain.full + size[:, None] * rng.standard_normal((MOVES, 1, gain.n_decisions)))
    a, b = gain.pair()
    # offsets that are all zero are none of the metric's
    size = widths * float(np.abs(a).mean()) * b.any()
    moves = np.exp(widths * rng.standard_normal((MOVES, a.shape[1])))
    return Gains.reduced(a * moves, b + size * rng.standard_normal((MOVES, b.shape[1])))
