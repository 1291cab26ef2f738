"""Conditional gradient: the paper's Algorithm 3, and the same with exact line search.

Round j linearises the metric at the current confusion, asks the oracle for the rule V that maximises the linear
function, and moves the current rule, a mixture, toward V. For concave metrics every answer bounds the optimum. For
ratios of affine functions a stationary point is a global optimum; line search along a segment then goes all the way,
which is Dinkelbach's method.

`Stationary` is for metrics whose structure does not lead to the optimum. It improves several starts independently, each
until no step improves the metric; all starts share the passes. Macro F1 and similar metrics are sums of one ratio per
class. Dinkelbach's method finds the K separate maxima in the same passes. Their sum bounds the metric. The gradient of
the sum at these maxima is one more start.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from confmax.confusion import Array, Confusion, Gains
from confmax.metrics import Metric
from confmax.metrics.first_order import FirstOrder
from confmax.metrics.ratios import Ratios
from confmax.optimize.few_rows import best_spread
from confmax.optimize.line_search import GRID, ROUNDS, best_steps
from confmax.optimize.loop import Problem, Solver, Status, Step, check_setting, check_word
from confmax.optimize.mixture import Mixture
from confmax.optimize.rounding import BATCH, LEAST_WEIGHT, OF_TOL
from confmax.optimize.row_prices import MOST_CLASSES, row_bound

MANY = 1 << 12  # classes, above which a line search tries fewer points:
GRID_OF_MANY = 9  # a round makes the interval 4 times smaller,
ROUNDS_OF_MANY = 7  # and the last one leaves 6e-5
MAX_RATIOS = 1000  # one gain per class and pass, K numbers each
FEW_RATIOS = 32  # of which the separate maxima are known soon
NEAR_LARGEST = (0.001, 0.01, 0.03, 0.1)  # by which parts a row may lie below the largest value of a ratio
MOST_REST = 2  # classes that may have all other rows


@dataclass(frozen=True, eq=False)
class FrankWolfeState:
    """The current rule h^j and the round j that comes next."""

    rule: Mixture
    round: int = 1


@dataclass(frozen=True)
class FrankWolfe(Solver):
    """Conditional gradient over the attainable confusion matrices (paper, Algorithm 3).

    Parameters
    ----------
    step_rule : {"line_search", "open_loop"}
        Exact line search, or the paper's ``2 / (j + 1)``.
    rho : float or None
        Smoothing parameter of the metrics that have one. With None, only the smallest recall is smoothed, by a soft
        minimum with ``rho = 1 / (2 sqrt(j))`` in round j.
    smoothing : {"relative", "additive"}
        Smooth relative to each class's prior, or as in the paper's Table 2.

    Notes
    -----
    Theorem 9 (with erratum E16) bounds the regret after T open-loop rounds by ``8 beta / (T + 2)``.

    Raises
    ------
    ValueError
        If a setting is out of range. `check` raises one for metrics or tables that the solver cannot handle.

    Examples
    --------
    >>> import confmax
    >>> from confmax.optimize import FrankWolfe
    >>> solution = confmax.maximize("h_mean", [[0.5, 0.5]], solver=FrankWolfe(), randomized=True)
    >>> round(solution.value, 6)
    0.5
    """

    step_rule: Literal["line_search", "open_loop"] = "line_search"
    rho: float | None = None
    smoothing: Literal["relative", "additive"] = "relative"

    def __post_init__(self) -> None:
        """Refuse settings out of range."""
        check_word(self, "step_rule", "line_search", "open_loop")
        check_rho(self, self.rho)
        check_word(self, "smoothing", "relative", "additive")

    def init(self, problem: Problem) -> FrankWolfeState:
        """Start at the best starting rule."""
        return FrankWolfeState(problem.start)

    def step(self, problem: Problem, state: FrankWolfeState) -> tuple[FrankWolfeState, Step]:
        """Make round j."""
        surrogate = self.surrogate(problem.metric, state.round)
        rule, vertex, bound, slope = linear_step(problem, surrogate, state.rule)
        if self.step_rule == "open_loop":
            size = open_loop(state.round)
        else:
            size = line_search(surrogate, rule.confusion, vertex.confusion)
        moved = rule.toward(vertex, size)
        status = None
        # a soft minimum still changes from round to round: no step now does not mean that there is none later
        hardens = surrogate is not problem.metric and problem.metric.structure.hardens
        if size == 0.0 and not hardens:
            status = Status.STATIONARY if slope <= problem.tol and problem.oracle.exact else Status.STALLED
        return FrankWolfeState(moved, state.round + 1), Step(moved, (vertex,), bound, status)

    def surrogate(self, metric: Metric, j: int) -> Metric:
        """Return the stand-in for ``metric`` whose gradient is used in round ``j``."""
        if self.rho is not None:
            return metric.smoothed(self.rho, self.smoothing)
        return metric.smoothed(0.5 / math.sqrt(j)) if metric.structure.hardens else metric


def linearised(problem: Problem, surrogate: Metric, rule: Mixture) -> tuple[Mixture, FirstOrder, Gains]:
    """Return the rule that a gradient is taken at, value and gradient there, and the gradient as a gain.

    Where the metric has no gradient (a recall of zero under the G-mean) the rule that decides at random, an inner point
    of the attainable set, takes the rule's place.
    """
    first = surrogate.at(rule.confusion)
    gains = surrogate.gains(first)
    if gains.is_finite:
        return rule, first, gains
    decisions = problem.oracle.table.decisions
    inner: dict[str, Any] = {"matrix": problem.needs_matrix, "decisions": decisions, "barred": problem.oracle.barred}
    rule = Mixture.uniform(problem.oracle.rows, problem.n_decisions, **inner)
    first = surrogate.at(rule.confusion)
    return rule, first, surrogate.gains(first)


def linear_step(problem: Problem, surrogate: Metric, rule: Mixture) -> tuple[Mixture, Mixture, float | None, float]:
    """Maximise the gradient at ``rule``; return the rule it was taken at, the maximiser, the bound and the slope."""
    rule, first, gains = linearised(problem, surrogate, rule)
    answer = problem.ask(gains)[0]
    bound = None
    if problem.oracle.exact and (surrogate == problem.metric or problem.metric.bounds_any_gain):
        bound = problem.metric.upper_bound(first, rule.confusion, answer)
    return rule, Mixture.single(gains, answer), bound, surrogate.slope(first, answer, rule.confusion)


def check_rho(solver: Solver, rho: float | None) -> None:
    """Raise a ValueError if the smoothing ``rho`` of a ``solver`` is out of range."""
    valid = rho is None or (isinstance(rho, (int, float)) and 0 <= rho < math.inf)
    check_setting(solver, "rho", valid, "finite and not negative")


# --- step sizes -------------------------------------------------------------------------------------------------------


def open_loop(j: int) -> float:
    """Return the paper's step ``2 / (j + 1)`` of round ``j = 1, 2, ...`` (Algorithm 3); the first is 1."""
    return 2.0 / (j + 1.0)


def line_search(metric: Metric, C: Confusion, V: Confusion) -> float:
    """Return the step in [0, 1] from C toward V that maximises the metric; 0 where nothing improves on C.

    A grid is refined around its best point until the interval is below 1e-7: exact for metrics that are concave or
    quasi-concave along the segment, and a global scan with 65 points for the others. A metric may know its best step.
    For metrics that no draw improves, only the two ends are compared.
    """
    known = metric.best_step(C, V)
    if known is not None:
        return known if known <= 1.0 - LEAST_WEIGHT else 1.0
    return float(line_searches(metric, Confusion.stack([C]), Confusion.stack([V]))[0])


def line_searches(
    metric: Metric, C: Confusion, V: Confusion, *, rounds: int = ROUNDS, least: float = LEAST_WEIGHT
) -> Array:
    """Return the best step (B,) of each segment between two batches of B confusions, as `line_search` finds it.

    Each of ``rounds`` makes the interval 32 times smaller; of very many classes the search is coarser. A step that
    leaves less than ``least`` to C is 1.
    """
    B = len(C)
    if not metric.structure.may_draw:
        # largest at an end of every segment; a correlation below zero is not, but a constant rule is better than it
        first, last = (np.nan_to_num(metric.values(ends), nan=-np.inf) for ends in (C, V))
        return (last > first).astype(np.float64)
    if B > 1 and (metric.statistics == "matrix" or B * GRID * C.columns.shape[-1] > BATCH):
        # all grids at once would be too much to hold
        pairs = ((Confusion.stack([C[k]]), Confusion.stack([V[k]])) for k in range(B))
        return np.concatenate([line_searches(metric, *pair, rounds=rounds, least=least) for pair in pairs])
    on_segments = metric.on_segments(C, V)

    def values(steps: Array) -> Array:
        return np.nan_to_num(on_segments(steps), nan=-np.inf)

    if C.columns.shape[-1] <= MANY:
        best, _ = best_steps(values, B, rounds)
    else:
        # a point takes as long as a vector of all classes, and many at once leave the cache
        best, _ = best_steps(
            lambda steps: np.hstack([values(one[:, None]) for one in steps.T]), B, ROUNDS_OF_MANY, GRID_OF_MANY
        )
    return np.where(best <= 1.0 - least, best, 1.0)


# --- several starts ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Levels:
    """Dinkelbach's method for all ratios of a sum side by side."""

    parts: Ratios
    # (B,): what some rule reaches, each ratio by itself
    low: Array
    # (B,): what no rule exceeds, if the oracle is exact
    high: Array
    # (B,): D at the rule that reached `low`
    denominators: Array

    @classmethod
    def start(cls, problem: Problem, parts: Ratios) -> Levels | None:
        """Start from the best of the starting rules for each ratio; None where the separate maxima are not searched."""
        # sorted columns have shown those of labels; gains of distances, or of a table of gains, are not reduced ones
        if parts.top.full is not None or parts.top.power or problem.oracle.table.decisions.several:
            return None
        values = np.array([parts.values(rule.confusion) for rule in problem.starts])
        D = np.array([parts.denominators(rule.confusion) for rule in problem.starts])
        best = values.argmax(axis=0)
        place = np.arange(values.shape[1])
        return cls(parts, values[best, place], np.full(len(place), np.inf), D[best, place])

    @property
    def bound(self) -> float:
        """The sum of the separate bounds; inf until each has one."""
        used = self.parts.weights > 0
        return float(self.parts.weights[used] @ self.high[used])

    def is_closed(self, tol: float) -> bool:
        """Whether more passes would lower the bound by no more than ``tol``."""
        return self.bound - float(self.parts.weights @ self.low) <= tol

    def next_levels(self, tol: float) -> list[Array]:
        """Return the levels (B,) to ask for: where a denominator may vanish, those just above join."""
        return [self.low] if (self.parts.floor > 0).all() else [self.low, self.low + tol]

    def gains(self, tol: float) -> Gains:
        """Return one gain per ratio and level."""
        return Gains.concatenate([self.parts.gains(levels) for levels in self.next_levels(tol)])

    def answered(self, answers: Confusion, tol: float) -> Levels:
        """Return what the answers to `gains` leave."""
        B = len(self.low)
        low = self.low
        high = self.high
        denominators = self.denominators
        for k, levels in enumerate(self.next_levels(tol)):
            part = answers[k * B : (k + 1) * B]
            bounds = self.parts.bounds(levels, self.parts.excess(levels, part), self.parts.doubts(levels, part))
            values = self.parts.values(part)
            better = values > low
            low = np.where(better, values, low)
            high = np.minimum(high, bounds)
            denominators = np.where(better, self.parts.denominators(part), denominators)
        return Levels(self.parts, low, high, denominators)

    def compromise(self) -> Gains:
        """Return the gradient that the sum has where every ratio is at its own maximum."""
        D = self.denominators
        share = np.divide(self.parts.weights, D, out=np.zeros_like(D), where=D > 0)
        a, b = self.parts.gains(self.low).pair()
        return Gains.reduced(share @ a, share @ b)

    def all_but_one(self, problem: Problem) -> tuple[Gains, ...]:
        """Return rules that decide as one class what is far from the largest value of every other ratio.

        A ratio whose denominator may vanish is largest where almost nothing is decided. Then one class has the other
        rows: one that loses little by it. Nothing is returned where a denominator cannot vanish, and where there is not
        one ratio for each class and decision.
        """
        rows = problem.oracle.rows
        K = len(rows)
        if self.parts.floor.any() or not problem.n_decisions == len(self.low) == K:
            return ()
        constant = Confusion(rows, np.diag(rows), np.eye(K))
        loss = self.low - np.array([self.parts.values(constant[k])[k] for k in range(K)])
        near = [self.parts.gains((1.0 - part) * self.low).pair() for part in NEAR_LARGEST]
        others = [np.arange(K) != k for k in np.argsort(loss, kind="stable")[:MOST_REST]]
        return (Gains.concatenate([Gains.reduced(share @ a, share @ b) for a, b in near for share in others]),)


def rules_of_few(problem: Problem, parts: Ratios) -> tuple[Mixture, ...]:
    """Return rules that decide few rows as any class but one, where all denominators vanish with their decisions.

    There a climb from other rules may end where a class is not decided at all.
    """
    oracle = problem.oracle
    levels = Levels.start(problem, parts) if oracle.exact else None
    if levels is None or not levels.all_but_one(problem):
        return ()
    for _ in range(ROUNDS):
        if levels.is_closed(problem.tol) or problem.max_passes - oracle.n_passes <= 2 * ROUNDS:
            break
        levels = levels.answered(problem.ask(levels.gains(problem.tol)), problem.tol)
    (gains,) = levels.all_but_one(problem)
    answers = problem.ask(gains)
    return tuple(Mixture.single(gains[k], answers[k]) for k in range(len(gains)))


@dataclass(frozen=True, eq=False)
class StationaryState:
    """Rules that still move, gains that are starts as soon as they are answered, and what bounds a sum of ratios."""

    rules: tuple[Mixture, ...]
    waiting: tuple[Gains, ...]
    levels: Levels | None
    best: Mixture
    # a sum of them has a bound by prices of rows
    parts: Ratios | None = None
    # of all mixtures, where there are few rows
    bound: float | None = None


@dataclass(frozen=True)
class Stationary(Solver):
    """Improve the metric from several starts until all are stationary, and return the best rule.

    The starts are argmax, p / prior, p / sqrt(prior) and, for sums of ratios, the gradient at the ratios' separate
    maxima. For macro F1, macro F-beta, macro Jaccard, weighted F1 and macro precision, the run also returns an upper
    bound, for up to 1000 classes. At first, of few classes, this is the weighted mean of the best score that each class
    can reach alone. Where the climb ends, prices of the rows give one that is much closer, for up to 300 classes
    (`optimize/row_prices.py`). More classes, and macro precision, keep the first. Tables of at most 16 rows, and of
    fewer rows than classes, start at the best mixture (`optimize/few_rows.py`).

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
            # on labels nothing is bounded, so the ratios' own maxima are starts only, and the run on a sample has found
            # better ones
            return StationaryState(problem.starts, (), None, problem.start)
        rows = problem.oracle.rows
        many = len(problem.metric.classes or rows) * len(rows) > MAX_RATIOS**2
        is_single_ratio = problem.metric.structure.is_ratio
        parts = None if many and not is_single_ratio else problem.ratios()
        levels = None if parts is None else Levels.start(problem, parts)
        # further decisions have no class to divide by
        roots = Gains.reduced(np.divide(1.0, np.sqrt(rows), out=np.zeros(len(rows)), where=rows > 0))
        waiting: tuple[Gains, ...] = (roots,) if problem.n_decisions == len(rows) else ()
        if parts is not None and levels is not None:
            few = best_spread(problem, parts)
            if few is not None:
                mixture, bound = few
                # the other starts lead to single rules
                rules = (*problem.starts, mixture)
                return StationaryState(rules, waiting, None, problem.best((problem.start, mixture)), bound=bound)
            # one gain per class and pass is much beside the climb's own, unless nothing else bounds the sum
            few_ratios = len(parts.weights) <= FEW_RATIOS or len(rows) > MOST_CLASSES or not (parts.floor > 0).all()
            levels = levels if few_ratios else None
        bounded = parts if problem.certify and not is_single_ratio else None
        return StationaryState(problem.starts, waiting, levels, problem.start, bounded)

    def step(self, problem: Problem, state: StationaryState) -> tuple[StationaryState, Step]:
        """Improve every rule and every level once."""
        moving = [linearised(problem, problem.metric, rule) for rule in state.rules]
        gains = [*(gain for _, _, gain in moving), *state.waiting]
        n_rules = sum(map(len, gains))
        if state.levels is not None:
            gains.append(state.levels.gains(problem.tol))
        batch = Gains.concatenate(gains)
        answers = problem.ask(batch)
        met = tuple(Mixture.single(batch[k], answers[k]) for k in range(n_rules))
        improved = self._moved(problem, [at for at, _, _ in moving], met[: len(moving)])
        started = met[len(moving) :]
        bound = state.bound
        levels = state.levels
        waiting: tuple[Gains, ...] = ()
        if levels is not None:
            low = levels.low
            levels = levels.answered(answers[n_rules:], problem.tol)
            bound = levels.bound if problem.oracle.exact else None
            if levels.is_closed(problem.tol) or np.array_equal(levels.low, low):
                waiting = (levels.compromise(), *levels.all_but_one(problem))
                levels = None
        rules = (*met, *improved)
        best = problem.best((state.best, *rules))
        following = StationaryState((*improved, *started), waiting, levels, best, state.parts, state.bound)
        done = not following.rules and not waiting and levels is None
        status = (Status.STATIONARY if problem.oracle.exact else Status.STALLED) if done else None
        passes_left = problem.max_passes - problem.oracle.n_passes
        if state.parts is not None and passes_left and (done or passes_left == 1):
            bound = row_bound(problem, state.parts, best.confusion, bound)
        return following, Step(best, rules, bound, status)

    def _moved(self, problem: Problem, rules: list[Mixture], met: tuple[Mixture, ...]) -> tuple[Mixture, ...]:
        """Return, for each rule that one between it and its vertex improves on, the best such."""
        if not rules:
            return ()
        starts = Confusion.stack([rule.confusion for rule in rules])
        sizes = line_searches(problem.metric, starts, Confusion.stack([vertex.confusion for vertex in met]))
        moved = [rule.toward(vertex, float(size)) for rule, vertex, size in zip(rules, met, sizes, strict=True)]
        before = problem.metric.values(starts)
        after = problem.metric.values(Confusion.stack([rule.confusion for rule in moved]))
        return tuple(moved[k] for k in np.flatnonzero(after > before + OF_TOL * problem.tol))
