"""Ratios of affine functions of the confusion matrix: Dinkelbach's method, and bisection.

Let ``F(l) = max_C N(C) - l D(C)``. F is convex and decreasing, and the largest ratio is the l where F is zero. The rule
that answers level l reaches at least l if ``F(l) >= 0``, and no rule exceeds a level with ``F(l) <= 0``. Both methods
change the level and use every answer. The answers are deterministic rules, and one of them is optimal.

The same problem as a linear program over all rules met (Charnes and Cooper, 1962: weights w with ``sum w D = 1``) asks
for the same levels, because its dual is the ratio of the best rule. It was measured over 17 tables and five metrics:
the same passes, and 1.6 to 2.7 times the processor time. Only limits, which make mixtures optimal, would need it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from confmax.confusion import Array
from confmax.metrics import Metric
from confmax.metrics.ratios import Ratios
from confmax.optimize.conditional_gradient import linear_step
from confmax.optimize.loop import Problem, Solver, Status, Step, best_answer
from confmax.optimize.mixture import Mixture

AHEAD = (0.0, 0.15, 0.4)  # first levels, from the best starting rule's toward 1
LEVELS = 17  # levels that share a pass on labels
ZOOMS = 3
# where the best level is flat, and a finer one only finds noise
MANY_ROWS = 100_000
MANY_LEVELS = 13
MANY_ZOOMS = 2


@dataclass(frozen=True, eq=False)
class LevelState:
    """The best rule so far, and an interval of levels; Dinkelbach's `high` has ``F(high) <= 0``."""

    rule: Mixture
    low: float
    high: float
    round: int = 0


@dataclass(frozen=True)
class Dinkelbach(Solver):
    """Maximise a ratio: set the level to the ratio of the best rule so far, until its answer is no better.

    On the model confusion the result is a global optimum. Each pass also evaluates a second level. A level where F is
    not positive is an upper bound; so are the root of a chord of F, because F is convex, and ``l + max(F(l), 0) / min
    D``. On labels, the method searches the rules of the one-parameter family ``argmax`` of ``N - l D`` on a grid of
    levels, which it refines. If the numerator and the denominator are not known (user functions), it uses the gradient
    at the best rule, which is the same gain.

    Source: Dinkelbach, On nonlinear fractional programming (1967). The paper remarks that one number parametrises the
    gains of such metrics (Section 4, on Parambath et al.), and that their stationary points are global optima (Section
    5, on fractional-linear metrics).

    Examples
    --------
    >>> import confmax
    >>> from confmax.optimize import Dinkelbach
    >>> P = [[0.7, 0.2, 0.1], [0.5, 0.4, 0.1], [0.4, 0.2, 0.4]]
    >>> solution = confmax.maximize("cohen_kappa", P, solver=Dinkelbach())
    >>> solution.gap < 1e-6
    True
    """

    def check(self, metric: Metric, n_classes: int, n_rows: int) -> None:
        """Refuse metrics that are not declared ratios (a linear metric is a ratio with denominator 1)."""
        _refuse_others(self.name, metric)

    def init(self, problem: Problem) -> LevelState:
        """Start at the best of the starting rules."""
        return LevelState(problem.start, 0.0, np.inf)

    def step(self, problem: Problem, state: LevelState) -> tuple[LevelState, Step]:
        """Raise the level to the value of its answer; on labels, compare a grid of levels."""
        parts = problem.ratios()
        if parts is None:
            _, met, bound, _ = linear_step(problem, problem.metric, state.rule)
            return _advance(problem, state, met, bound)
        # the answers on labels are no maximisers, so that F is not known: only values can be compared
        if not (problem.oracle.exact or problem.metric.structure.is_linear):
            return self._over_levels(problem, parts, state)
        level = problem.value(state.rule.confusion)
        tol = problem.tol
        # in the first pass nothing tells how far the optimum is: a ratio of the catalogue is at most one
        levels = level + (max(1.0, level) - level) * np.array(AHEAD)
        if state.round:
            # with the last digits of the level in doubt, a bound needs a level that is clearly above
            levels = np.array([level, max(state.high if np.isfinite(state.high) else level, level + 0.5 * tol)])
        gains = parts.gains(levels)
        answers = problem.ask(gains)
        # what is left of the numerator at each level, and how much of it may be rounding
        excess = parts.excess(levels, answers)
        doubts = parts.doubts(levels, answers)
        root = _chord_root(levels, excess) + float(doubts.max())
        high = min(state.high, float(parts.bounds(levels, excess, doubts).min()), root)
        following, step = _advance(problem, state, best_answer(problem, gains, answers), high)
        return replace(following, high=high), step

    def _over_levels(self, problem: Problem, parts: Ratios, state: LevelState) -> tuple[LevelState, Step]:
        value = problem.value(state.rule.confusion)
        # a kappa may be negative, and so may that of every starting rule
        low, high = (state.low, state.high) if state.round else (min(0.0, value), max(1.0, value))
        large = problem.oracle.table.n_rows >= MANY_ROWS
        count, zooms = (MANY_LEVELS, MANY_ZOOMS) if large else (LEVELS, ZOOMS)
        levels = np.linspace(low, high, count)
        gains = parts.gains(levels)
        answers = problem.ask(gains)
        values = np.nan_to_num(problem.metric.values(answers), nan=-np.inf)
        k = int(np.argmax(values))
        met = Mixture.single(gains[k], answers[k])
        best = problem.best((state.rule, met))
        low = float(levels[max(k - 1, 0)])
        high = float(levels[min(k + 1, count - 1)])
        status = Status.FINISHED if state.round + 1 == zooms else None
        return LevelState(best, low, high, state.round + 1), Step(best, (met,), None, status)


def _chord_root(levels: Array, excess: Array) -> float:
    """Return where a chord of F crosses zero, which is at or above F's own root as F is convex; inf without one."""
    roots = [
        low + (high - low) * above / (above - below)
        for low, above in zip(levels, excess, strict=True)
        for high, below in zip(levels, excess, strict=True)
        if above > 0.0 > below and low < high
    ]
    return float(min(roots, default=np.inf))


def _advance(problem: Problem, state: LevelState, met: Mixture, bound: float | None) -> tuple[LevelState, Step]:
    """Take an answer if it beats the rule; else the level stands."""
    best = problem.best((state.rule, met))
    status = None
    if best is state.rule:
        status = Status.STATIONARY if problem.oracle.exact else Status.STALLED
    return replace(state, rule=best, round=state.round + 1), Step(best, (met,), bound, status)


@dataclass(frozen=True)
class Bisection(Solver):
    """Maximise a ratio by halving the interval of levels that contains the optimum.

    On the model confusion, a level is a bound if ``F <= 0`` there and is reached if ``F >= 0``. On labels nothing is
    proved, and a level counts as reached if its plug-in rule reaches it. Every pass at least halves the interval;
    `Dinkelbach` needs fewer passes.

    Source: Narasimhan, Ramaswamy, Saha and Agarwal, Consistent multiclass algorithms for complex performance measures
    (2015). The method is not in the paper, whose remarks on such metrics are in Sections 4 and 5.

    Examples
    --------
    >>> import confmax
    >>> from confmax.optimize import Bisection
    >>> P = [[0.7, 0.2, 0.1], [0.5, 0.4, 0.1], [0.4, 0.2, 0.4]]
    >>> solution = confmax.maximize("cohen_kappa", P, solver=Bisection())
    >>> solution.gap < 1e-6
    True
    """

    def check(self, metric: Metric, n_classes: int, n_rows: int) -> None:
        """Refuse metrics that are not ratios with a known numerator and denominator."""
        _refuse_others(self.name, metric)
        if metric.structure.fractions is None:
            raise ValueError(
                f"Bisection needs the numerator and the denominator of {metric.name}, which are not known for a "
                f"function; use solver='dinkelbach'"
            )

    def init(self, problem: Problem) -> LevelState:
        """Start with the interval from the best starting rule up to an unknown bound."""
        return LevelState(problem.start, problem.value(problem.start.confusion), np.inf)

    def step(self, problem: Problem, state: LevelState) -> tuple[LevelState, Step]:
        """Test the middle of the interval."""
        parts = problem.ratios()
        assert parts is not None
        # the level of the best starting rule comes first: its answer ends the interval above
        level = state.low if np.isinf(state.high) else 0.5 * (state.low + state.high)
        levels = np.array([level])
        gains = parts.gains(levels)
        answers = problem.ask(gains)
        reached = problem.value(answers[0])
        excess = parts.excess(levels, answers)
        met = Mixture.single(gains, answers[0])
        best = problem.best((state.rule, met))
        # a metric of the catalogue is at most 1; a linear one is bounded by its first answer
        highest = level + float(max(excess[0], 0.0)) if problem.metric.structure.is_linear else 1.0
        high = min(state.high, max(highest, level))
        bound = None
        if problem.oracle.exact:
            bound = high = min(high, float(parts.bounds(levels, excess, parts.doubts(levels, answers))[0]))
        # on labels nothing is proved, and a level that its own plug-in rule misses counts as out of reach
        elif reached < level:
            high = min(high, level)
        low = max(state.low, reached)
        status = Status.FINISHED if high - low <= problem.tol else None
        return LevelState(best, low, max(high, low)), Step(best, (met,), bound, status)


def _refuse_others(solver: str, metric: Metric) -> None:
    if not metric.structure.is_ratio:
        raise ValueError(
            f"{solver} maximises ratios of affine functions, but {metric.name} is declared {metric.structure}; use "
            f"solver='auto'"
        )
