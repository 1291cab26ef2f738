"""Metrics whose structure does not lead to the optimum: gradient steps from several starts, and a bound from ratios.

Every start is improved independently. The oracle maximises the gradient at its rule, and an exact line search moves
toward the answer, until no step improves the metric. All starts share the passes. Macro F1 and similar metrics are sums
of one ratio per class. Dinkelbach's method finds the K separate maxima in the same passes. Their sum bounds the metric.
The gradient of the sum at these maxima is one more start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from confmax.confusion import Array, Confusion, Gains
from confmax.metrics.ratios import Ratios
from confmax.metrics.structure import Linear, Ratio
from confmax.optimize.conditional_gradient import line_searches, linearised
from confmax.optimize.loop import Problem, Solver, Status, Step
from confmax.optimize.mixture import Mixture

SMALL = 0.05  # an improvement below this part of tol ends a start
MAX_RATIOS = 1000  # one gain per class and pass, K numbers each


@dataclass(frozen=True, eq=False)
class Levels:
    """Dinkelbach's method for all ratios of a sum side by side.

    Attributes
    ----------
    parts : Ratios
        The B ratios.
    low : ndarray (B,)
        What some rule reaches, each ratio by itself.
    high : ndarray (B,)
        What no rule exceeds, if the oracle is exact.
    denominators : ndarray (B,)
        D at the rule that reached `low`.
    """

    parts: Ratios
    low: Array
    high: Array
    denominators: Array

    @classmethod
    def start(cls, parts: Ratios, rules: tuple[Mixture, ...]) -> Levels:
        """Start from the best of the rules for each ratio."""
        values = np.array([parts.values(rule.confusion) for rule in rules])
        D = np.array([parts.denominators(rule.confusion) for rule in rules])
        best = values.argmax(axis=0)
        each = np.arange(values.shape[1])
        return cls(parts, values[best, each], np.full(len(each), np.inf), D[best, each])

    @property
    def bound(self) -> float:
        """The sum of the separate bounds; inf until each has one."""
        used = self.parts.weights > 0
        return float(self.parts.weights[used] @ self.high[used])

    def is_closed(self, tol: float) -> bool:
        """Whether more passes would lower the bound by no more than ``tol``."""
        return self.bound - float(self.parts.weights @ self.low) <= tol

    def asked(self, tol: float) -> list[Array]:
        """Return the levels (B,) to ask for: where a denominator may vanish, those just above join."""
        return [self.low] if (self.parts.floor > 0).all() else [self.low, self.low + tol]

    def gains(self, tol: float) -> Gains:
        """Return one gain per ratio and level."""
        return Gains.concatenate([self.parts.gains(levels) for levels in self.asked(tol)])

    def answered(self, answers: Confusion, tol: float) -> Levels:
        """Return what the answers to `gains` leave."""
        B, low, high, denominators = len(self.low), self.low, self.high, self.denominators
        for k, levels in enumerate(self.asked(tol)):
            part = answers[k * B : (k + 1) * B]
            bounds = self.parts.bounds(levels, self.parts.excess(levels, part), self.parts.doubts(levels, part))
            values = self.parts.values(part)
            better = values > low
            low, high = np.where(better, values, low), np.minimum(high, bounds)
            denominators = np.where(better, self.parts.denominators(part), denominators)
        return Levels(self.parts, low, high, denominators)

    def compromise(self) -> Gains:
        """Return the gradient that the sum has where every ratio is at its own maximum."""
        D = self.denominators
        share = np.divide(self.parts.weights, D, out=np.zeros_like(D), where=D > 0)
        a, b = self.parts.gains(self.low).pair()
        return Gains.reduced(share @ a, share @ b)


@dataclass(frozen=True, eq=False)
class StationaryState:
    """Rules that still move, gains that are starts as soon as they are answered, and the ratios' levels."""

    rules: tuple[Mixture, ...]
    waiting: tuple[Gains, ...]
    levels: Levels | None
    best: Mixture


@dataclass(frozen=True)
class Stationary(Solver):
    """Improve the metric from several starts until all are stationary, and return the best rule.

    The starts are argmax, p / prior, p / sqrt(prior) and, for sums of ratios, the gradient at the ratios' separate
    maxima. For macro F1, macro F-beta, macro Jaccard, weighted F1 and macro precision, the run also returns an upper
    bound: the weighted mean of the best score that each class can reach alone. It equals the optimum only if one rule
    is best for all classes. With more than 1000 classes there is no bound.

    Source: the paper's Algorithm 3 with line search. If the metric is not concave, the algorithm may stop at a point
    that is not the best one; see the remark on fractional-linear metrics in Section 5.

    Examples
    --------
    >>> import confmax
    >>> from confmax.optimize import Stationary
    >>> P = [[0.7, 0.2, 0.1], [0.5, 0.4, 0.1], [0.4, 0.2, 0.4]]
    >>> solution = confmax.maximize("macro_f1", P, solver=Stationary())
    >>> solution.value <= solution.upper_bound
    True
    """

    starts_from_sample: ClassVar[tuple[str, ...]] = ("labels",)

    def init(self, problem: Problem) -> StationaryState:
        """Lay out the starts."""
        if problem.sample is not None:
            # a sample has found more starts, and without bounds the ratios' own maxima are of no other use
            return StationaryState(problem.starts, (), None, problem.start)
        rows = problem.oracle.rows
        many = len(problem.metric.classes or rows) * len(rows) > MAX_RATIOS**2
        one = isinstance(problem.metric.structure, (Ratio, Linear))
        parts, levels = None if many and not one else problem.ratios(), None
        # those of distances, and of a table of gains, have no reduced gains to add up
        if parts is not None and parts.top.full is None and not parts.top.power:
            levels = Levels.start(parts, problem.starts)
        # further decisions have no class to divide by
        roots = Gains.reduced(np.divide(1.0, np.sqrt(rows), out=np.zeros(len(rows)), where=rows > 0))
        waiting = (roots,) if problem.n_decisions == len(rows) else ()
        return StationaryState(problem.starts, waiting, levels, problem.start)

    def step(self, problem: Problem, state: StationaryState) -> tuple[StationaryState, Step]:
        """Improve every rule and every level once."""
        moving = [linearised(problem, problem.metric, rule) for rule in state.rules]
        gains = [*(gain for _, _, gain in moving), *state.waiting]
        n_rules = len(gains)
        if state.levels is not None:
            gains.append(state.levels.gains(problem.tol))
        asked = Gains.concatenate(gains)
        answers = problem.ask(asked)
        met = tuple(Mixture.single(asked[k], answers[k]) for k in range(n_rules))
        improved = self._moved(problem, [at for at, _, _ in moving], met[: len(moving)])
        levels, bound = None, None
        waiting: tuple[Gains, ...] = ()
        if state.levels is not None:
            levels = state.levels.answered(answers[n_rules:], problem.tol)
            bound = levels.bound if problem.oracle.exact else None
            if levels.is_closed(problem.tol) or np.array_equal(levels.low, state.levels.low):
                waiting, levels = (levels.compromise(),), None
        rules = (*met, *improved)
        best = problem.best((state.best, *rules))
        following = StationaryState((*improved, *met[len(moving) :]), waiting, levels, best)
        done = not following.rules and not waiting and levels is None
        status = (Status.STATIONARY if problem.oracle.exact else Status.STALLED) if done else None
        return following, Step(best, rules, bound, status)

    def _moved(self, problem: Problem, rules: list[Mixture], met: tuple[Mixture, ...]) -> tuple[Mixture, ...]:
        """Return, for each rule that one between it and its vertex improves on, the best such."""
        if not rules:
            return ()
        starts = Confusion.stack([rule.confusion for rule in rules])
        sizes = line_searches(problem.metric, starts, Confusion.stack([vertex.confusion for vertex in met]))
        moved = [
            rule.toward(vertex.atoms[0], vertex.confusion, float(size))
            for rule, vertex, size in zip(rules, met, sizes, strict=True)
        ]
        before = problem.metric.values(starts)
        after = problem.metric.values(Confusion.stack([rule.confusion for rule in moved]))
        return tuple(moved[k] for k in np.flatnonzero(after > before + SMALL * problem.tol))
