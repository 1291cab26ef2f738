"""Conditional gradient: the paper's Algorithm 3, and the same with exact line search.

Round j linearises the metric at the current confusion, asks the oracle for the rule V that maximises the linear
function, and moves the current rule, a mixture, toward V. For concave metrics every answer bounds the optimum. For
ratios of affine functions a stationary point is a global optimum; line search along a segment then goes all the way,
which is Dinkelbach's method.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from confmax.confusion import Array, Confusion, Gains
from confmax.metrics import Metric
from confmax.metrics.first_order import FirstOrder
from confmax.optimize.loop import Problem, Solver, Status, Step, check_setting, check_word
from confmax.optimize.mixture import Mixture

GRID = 65
ROUNDS = 5
MOST_CELLS = 1 << 20  # of the statistics on the grids of several segments
# a rule that keeps less than this weight would live on rounding: macro precision rewards deciding a class with a
# probability that vanishes
LEAST_WEIGHT = 1e-6


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
        moved = rule.toward(vertex.atoms[0], vertex.confusion, size)
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
    rule = Mixture.uniform(problem.oracle.rows, problem.n_decisions, matrix=problem.needs_matrix)
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
    quasi-concave along the segment, and a global scan with 65 points for the others.
    """
    return float(line_searches(metric, Confusion.stack([C]), Confusion.stack([V]))[0])


def line_searches(
    metric: Metric, C: Confusion, V: Confusion, *, rounds: int = ROUNDS, least: float = LEAST_WEIGHT
) -> Array:
    """Return the best step (B,) of each segment between two batches of B confusions, as `line_search` finds it.

    Each of ``rounds`` makes the interval 32 times smaller. A step that leaves less than ``least`` to C is 1."""
    B = len(C)
    at = np.arange(B)
    if B > 1 and (metric.statistics == "matrix" or B * GRID * C.columns.shape[-1] > MOST_CELLS):
        # all grids at once would be too much to hold
        pairs = ((Confusion.stack([C[k]]), Confusion.stack([V[k]])) for k in range(B))
        return np.concatenate([line_searches(metric, *pair, rounds=rounds, least=least) for pair in pairs])
    best, best_value = np.zeros(B), np.asarray(metric.values(C), dtype=np.float64)
    low, high = np.zeros(B), np.ones(B)
    for _ in range(rounds):
        steps = np.linspace(low, high, GRID, axis=1)
        values = np.nan_to_num(metric.values(C.along(V, steps)), nan=-np.inf)
        k = values.argmax(axis=1)
        better = values[at, k] > best_value
        best = np.where(better, steps[at, k], best)
        best_value = np.where(better, values[at, k], best_value)
        low, high = steps[at, np.maximum(k - 1, 0)], steps[at, np.minimum(k + 1, GRID - 1)]
    return np.where(best <= 1.0 - least, best, 1.0)
