"""Single rules within limits on labels: a beam search over one coefficient at a time, with all breakpoints.

The rules that the model generates lie near the model's optimum, and those of the labels may lie elsewhere. So the best
rules met are improved on the labels themselves: of each, every value of every single coefficient is compared
(`optimize/breakpoints.py`), and the best values of several coefficients are tried together. Where several limits bind,
no single coefficient moves without missing one. Rules are therefore compared by their value less a penalty for what
they miss, a few times its price. If that improves nothing, they are compared by what they miss first, and by their
value second. Then all coefficients of the best rule are moved at random, and the search begins again from there. On
348 problems within limits on a blend, both together raise 43 values by more than 1e-4 and lower 6.

The most that a metric, and the functions of limits, reach where every statistic lies between two confusions.

A linear function is largest where the statistics with positive coefficients are largest and the others smallest. The
objectives of column generation rise with linear functions, or are ratios of them, so the same corners bound them. A
search along one coefficient uses the bounds to leave out stretches on which nothing can be better
(`optimize/breakpoints.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import ABSENT, Array, Confusion, Gains, Layout
from confmax.constraints.limits import Limits
from confmax.metrics import Metric
from confmax.metrics.ratios import Ratios
from confmax.metrics.structure import AffineFunctions, LinearFunctions, PowerMean, Statistics, affine
from confmax.optimize.breakpoints import Bound, Coordinate, Kind, Merit, Scored, all_breakpoints, moved, working_gain
from confmax.optimize.loop import MISSED, Incumbent, Problem, Step, best_answer
from confmax.optimize.rounding import BEST, BINDS, DIGITS, PER_PASS
from confmax.tables import Part

ROUNDS = 24
LINES = 900  # coefficients whose values are compared: a round of many classes compares many
CELLS = 4_000_000  # rows times squared classes, for all rules that are searched at once
FEW_CELLS = 250_000  # the same where good rules are known
PER_LINE = 2  # values of one coefficient that the oracle confirms
# of a price; of a limit without price, relative to the largest
FACTOR = 3.0
LEAST_PENALTY = 0.1
SURELY = BINDS  # a function of a limit below zero by so much is missed in any unit
OUT_OF_REACH = 1e9  # rules that miss a limit come after all others
FAR = 3.0  # losses, as multiples of that for which a draw is preferred, that a search from random rules does not end
# how far random moves go on a log scale
WIDTHS = (0.003, 0.3)


@dataclass(frozen=True, eq=False)
class Boxes:
    """What bounds the merits below: the objective, and the limits' functions that are missed below zero."""

    objective: Objective
    limits: Corners
    # whether these functions are by how much limits are kept, in the unit in which rules are compared
    in_units: bool

    @classmethod
    def of(cls, problem: Problem) -> Boxes | None:
        """Return the bounds of a problem; None where it has none, or groups."""
        limits = problem.limits
        assert limits is not None
        if problem.oracle.table.layout is not None or problem.needs_matrix:
            return None
        rows = problem.oracle.rows
        objective = Objective.of(problem.metric, rows, problem.n_decisions)
        corners = Corners.of(limits.functions(rows, problem.n_decisions))
        return None if objective is None or corners is None else cls(objective, corners, limits.are_linear)


class Bounded(ABC):
    """A merit that ``boxes`` bound, where there are some."""

    boxes: Boxes | None

    @property
    def bound(self) -> Bound | None:
        """What the merits are at most where statistics lie between two confusions, if it is known."""
        return None if self.boxes is None else partial(self.most, self.boxes)

    @abstractmethod
    def most(self, boxes: Boxes, low: Confusion, high: Confusion) -> Array:
        """Return what the merits are at most (B,) between batches of confusions."""


@dataclass(frozen=True, eq=False)
class Penalised(Bounded):
    """The objective less ``prices`` (m,) times what the limits' ``functions`` miss."""

    problem: Problem
    functions: LinearFunctions
    prices: Array
    statistics: Statistics
    boxes: Boxes | None

    def values(self, S: Confusion) -> Array:
        """Return the merits (B,) of a batch."""
        missed = np.maximum(-self.functions.values(S), 0.0)
        return np.asarray(self.problem.metric.values(S) - missed @ self.prices)

    def most(self, boxes: Boxes, low: Confusion, high: Confusion) -> Array:
        """Return what the merits are at most (B,) between batches of confusions."""
        missed = np.maximum(-boxes.limits.most(low, high), 0.0)
        return np.asarray(boxes.objective.most(low, high) - missed @ self.prices)


@dataclass(frozen=True, eq=False)
class Ranked(Bounded):
    """The objective where all limits are kept; else how far one is missed, below all others."""

    problem: Problem
    statistics: Statistics
    boxes: Boxes | None

    def values(self, S: Confusion) -> Array:
        """Return the merits (B,) of a batch."""
        assert self.problem.limits is not None
        missed = -self.problem.limits.slacks(S).min(axis=-1)
        return np.where(missed <= MISSED, self.problem.metric.values(S), -OUT_OF_REACH - missed)

    def most(self, boxes: Boxes, low: Confusion, high: Confusion) -> Array:
        """Return what the merits are at most (B,) between batches of confusions."""
        missed = -boxes.limits.most(low, high).min(axis=1)
        least = missed - SURELY if boxes.in_units else 0.0
        return np.where(missed > SURELY, -OUT_OF_REACH - least, boxes.objective.most(low, high))


@dataclass(frozen=True, eq=False)
class InGroup:
    """A merit along a line that changes the decisions of one group: of the ``rest``, all groups at the rule."""

    merit: Merit
    layout: Layout
    group: int
    share: float
    # all groups before the change
    rest: Confusion

    @property
    def statistics(self) -> Statistics:
        """What it reads."""
        return self.merit.statistics

    def values(self, S: Confusion) -> Array:
        """Return the merits (B,) of a batch of the group's confusions."""
        B = len(S)
        block = (slice(None), *self.layout.block(self.group))
        diagonal, columns = (np.repeat(part[None], B, axis=0) for part in (self.rest.diagonal, self.rest.columns))
        diagonal[:, self.layout.classes(self.group)] = self.share * S.diagonal
        columns[:, self.layout.decisions(self.group)] = self.share * S.columns
        matrix = None
        if self.rest.matrix is not None and S.matrix is not None:
            matrix = np.repeat(self.rest.matrix[None], B, axis=0)
            matrix[block] = self.share * S.matrix
        return self.merit.values(Confusion(self.rest.rows, diagonal, columns, matrix))


def improved(
    problem: Problem, gains: Gains, answers: Confusion, incumbent: Incumbent, alike: NDArray[np.bool_]
) -> Iterator[Step]:
    """Yield steps with single rules that keep the limits of a ``problem``, from ``gains`` (B) with their ``answers``.

    The ``incumbent`` holds the best rules so far, of which the caller keeps count, and the prices of the limits'
    functions, where they are known. The coefficients of decisions that are ``alike`` (M,) stay. A large table takes no
    step.
    """
    table = problem.oracle.table
    limits = problem.limits
    n_classes = table.n_classes if table.layout is None else table.layout.n_classes
    cells = table.n_rows * n_classes**2
    size = min(CELLS // cells, BEST)
    if problem.refines:
        size = min(size, max(1, FEW_CELLS // cells))
    if size > 0 and limits is not None:
        none: Iterable[Step] = ()
        steps = partial(_steps, problem, limits, size, gains, answers, incumbent, alike)
        yield from table.sorting(steps, none, in_groups=True)


def _steps(
    problem: Problem,
    limits: Limits,
    size: int,
    gains: Gains,
    answers: Confusion,
    incumbent: Incumbent,
    alike: NDArray[np.bool_],
) -> Iterator[Step]:
    """Yield the steps of `improved`, with rules that change one coefficient of ``size`` rules at a time."""
    table = problem.oracle.table
    statistics: Statistics = "matrix" if problem.needs_matrix else "columns"
    functions = limits.functions(problem.oracle.rows, problem.n_decisions)
    prices = incumbent.prices
    worth = np.ones(len(functions)) if prices is None or not prices.any() else prices
    penalties = FACTOR * np.maximum(worth, LEAST_PENALTY * float(worth.max()))
    boxes = Boxes.of(problem)
    merits = (Penalised(problem, functions, penalties, statistics, boxes), Ranked(problem, statistics, boxes))
    known: tuple[set[bytes], set[bytes]] = (set(), set())
    rng = np.random.default_rng(len(table.classes))
    turn = 0
    top: tuple[float, Gains] | None = None
    n_coordinates = len(_coordinates(problem, gains, alike))
    for _ in range(ROUNDS):
        n_searched = sum(map(len, known))
        if problem.max_passes - problem.oracle.n_passes < 2 or n_searched * n_coordinates >= LINES:
            return
        improving = _better(problem, merits[turn], gains, answers, known[turn], size, alike)
        if not improving:
            turn = 1 - turn
            if turn == 1:
                continue
            # a draw that is worth much more is returned whatever a further search meets
            drawn = incumbent.is_feasible and incumbent.single_loss() > FAR * problem.worth > 0.0
            if problem.refines or drawn:
                return
            ranks = merits[1].values(answers)
            best = int(np.argmax(ranks))
            if top is None or ranks[best] > top[0]:
                top = (float(ranks[best]), gains[best])
            # the search begins again around the best rule: among better rules, the new ones would never be searched
            improving = [_moved_at_random(working_gain(top[1], table.dtype), rng, alike)]
            gains = gains[:0]
            answers = answers[:0]
        batch = Gains.concatenate(improving)
        new = problem.ask(batch)
        yield Step(best_answer(problem, batch, new))
        answers = Confusion.concatenate([answers, new]) if len(gains) else new
        gains = Gains.concatenate([gains, batch]) if len(gains) else batch


def _better(
    problem: Problem,
    merit: Penalised | Ranked,
    gains: Gains,
    answers: Confusion,
    searched: set[bytes],
    size: int,
    alike: NDArray[np.bool_],
) -> list[Gains]:
    """Return gains that improve the best ``size`` rules by their coefficients; those ``searched`` are left out."""
    values = merit.values(answers)
    # rules of one merit are mostly one rule
    _, first = np.unique(-np.round(values, DIGITS), return_index=True)
    waiting = []
    for k in first[:size].tolist():
        gain = working_gain(problem.oracle.allowed(gains[k]), problem.oracle.table.dtype)
        key = b"".join(part.tobytes() for part in (gain.a, gain.b, gain.full) if part is not None)
        if key not in searched:
            searched.add(key)
            waiting.append((gain, float(values[k]), answers[k]))
    if not waiting:
        return []
    groups = problem.oracle.read_groups("the search of one coefficient")
    least = problem.tol if problem.refines else 0.0
    improving = []
    for gain, above, at in waiting:
        for group in range(len(groups)):
            improving += _better_in(problem, merit, gain, above + least, at, group, groups, alike)
    return improving


def _better_in(
    problem: Problem,
    merit: Penalised | Ranked,
    gain: Gains,
    above: float,
    at: Confusion,
    group: int,
    groups: list[tuple[Any, Part]],
    alike: NDArray[np.bool_],
) -> list[Gains]:
    """Return gains that improve one rule by coefficients of a group, or of all rows where there are no groups."""
    layout = problem.oracle.table.layout
    oracle, rows = groups[group]
    mine = gain
    compared: Merit = merit
    bound = merit.bound
    if layout is not None:
        alike = alike[layout.decisions(group)]
        share = float(problem.oracle.rows[layout.classes(group)].sum() / oracle.rows.sum())
        bound = None
        compared = InGroup(merit, layout, group, share, at)
        mine = working_gain(layout.gains_of(gain, group), rows.dtype)
    improving = []
    reached = []
    scored = Scored.of(oracle, rows, mine)
    for line in all_breakpoints(compared, scored, _coordinates(problem, mine, alike), bound, above):
        best = line.best(above, PER_LINE)
        if len(best):
            improving.append(moved(mine, line.coordinate, best))
            reached.append((float(line.values.max()), line.coordinate, best[:1]))
    improving += _together(mine, reached)
    if layout is not None:
        improving = [_beside(layout, gain, group, better) for better in improving]
    return improving


def _together(gain: Gains, reached: list[tuple[float, Coordinate, Array]]) -> list[Gains]:
    """Return gains that change several coefficients of one: those that reach most alone, two of them, three, and all.

    Coefficients of different decisions change what is decided in different rows, for the most part.
    """
    found = []
    changed: set[int] = set()
    for _, coordinate, value in sorted(reached, key=lambda each: -each[0]):
        if coordinate.decision not in changed:
            changed.add(coordinate.decision)
            gain = moved(gain, coordinate, value)
            found.append(gain)
    return found[1:]


def _beside(layout: Layout, gain: Gains, group: int, better: Gains) -> Gains:
    """Return gains (B) with ``better`` ones (B) of a group, and those of one ``gain`` for the other groups."""
    same = np.zeros(len(better), dtype=np.intp)
    return layout.beside([better if g == group else layout.gains_of(gain, g)[same] for g in range(layout.n_groups)])


def _coordinates(problem: Problem, gain: Gains, alike: NDArray[np.bool_]) -> list[Coordinate]:
    """Return the coefficients that are searched: weights alone where nothing reads how often a class is decided.

    Those of decisions ``alike`` (M,) are not.
    """
    assert problem.limits is not None
    both: tuple[Kind, ...] = ("weight", "offset")
    if gain.full is not None:
        both = ("offset",)
    elif problem.metric.statistics == problem.limits.statistics == "diagonal":
        both = ("weight",)
    M = {"weight": gain.n_classes, "offset": gain.n_decisions}
    return [Coordinate(kind, j) for kind in both for j in range(M[kind]) if not alike[j]]


def _moved_at_random(gain: Gains, rng: np.random.Generator, alike: NDArray[np.bool_]) -> Gains:
    """Return one gain with all of its coefficients moved, many times, but for decisions ``alike`` (M,)."""
    widths = np.exp(rng.uniform(np.log(WIDTHS[0]), np.log(WIDTHS[1]), (PER_PASS, 1)))
    if gain.full is not None:
        size = widths * float(np.abs(gain.full).mean())
        draws = np.where(alike, 0.0, rng.standard_normal((PER_PASS, 1, gain.n_decisions)))
        return Gains.from_matrix(gain.full + size[:, None] * draws)
    a, b = gain.pair()
    # offsets that are all zero are none of the metric's
    size = widths * float(np.abs(a).mean()) * b.any()
    moves = np.where(alike[: a.shape[1]], 1.0, np.exp(widths * rng.standard_normal((PER_PASS, a.shape[1]))))
    return Gains.reduced(a * moves, b + size * np.where(alike, 0.0, rng.standard_normal((PER_PASS, b.shape[1]))))


# --- the most between two confusions ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Corners:
    """The largest values of linear functions in boxes.

    ``parts`` (2 (K + M), S) are their coefficients: positive ones of the largest statistics, then negative ones of the
    smallest. ``constants`` is (S,).
    """

    parts: Array
    constants: Array

    @classmethod
    def of(cls, functions: LinearFunctions) -> Corners | None:
        """Return the corners of functions; None for those of the whole matrix."""
        gains, constants = affine(functions)
        if gains.full is not None or gains.power:
            return None
        weights = np.hstack(gains.pair()).T
        return cls(np.vstack([np.maximum(weights, 0.0), np.minimum(weights, 0.0)]), constants)

    def most(self, low: Confusion, high: Confusion) -> Array:
        """Return the largest values (B, S) between batches of confusions."""
        ends = (high.diagonal, high.columns, low.diagonal, low.columns)
        return np.asarray(np.concatenate(ends, axis=1) @ self.parts + self.constants)


@dataclass(frozen=True, eq=False)
class Objective:
    """A metric as a rising function of the largest values of linear functions, in boxes.

    The functions are numerators of ``ratios`` and their denominators with a minus sign; else the metric is their
    ``mean``, or the smallest of them.
    """

    corners: Corners
    ratios: Ratios | None = None
    mean: PowerMean | None = None

    @classmethod
    def of(cls, metric: Metric, rows: Array, n_decisions: int) -> Objective | None:
        """Return a metric at class priors ``rows`` (K,); None where it is no such function of diagonal and columns."""
        structure = metric.structure
        ratios = None
        functions: LinearFunctions | None = None
        rises = structure.is_linear or structure.is_minimum or structure.recall_mean is not None
        # of what is decided nothing but ratios is known
        if rises and metric.formula.lift is None:
            functions = metric.as_functions(rows, n_decisions)
        elif (ratios := metric.as_ratios(rows, n_decisions)) is not None:
            signed = Gains.concatenate([ratios.top, ratios.bottom.times(-1.0)])
            functions = AffineFunctions(signed, np.append(ratios.top_constant, -ratios.bottom_constant))
        corners = None if functions is None else Corners.of(functions)
        return None if corners is None else cls(corners, ratios, None if ratios else structure.recall_mean)

    def most(self, low: Confusion, high: Confusion) -> Array:
        """Return what the metric is at most (B,) between batches of confusions."""
        z = self.corners.most(low, high)
        if self.ratios is None:
            return z.min(axis=1) if self.mean is None else self.mean.value(z)
        n = z.shape[1] // 2
        top = z[:, :n]
        bottom = z[:, n:]
        # a ratio without a denominator is zero
        above = np.divide(top, -bottom, out=np.full_like(top, np.inf), where=bottom < -ABSENT)
        return np.asarray(np.clip(above, 0.0, self.ratios.most) @ self.ratios.weights)
