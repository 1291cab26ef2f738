"""Conditional gradient: the paper's Algorithm 3, and the same with exact line search.

Round j linearises the metric at the current confusion, asks the oracle for the rule V that maximises the linear
function, and moves the current rule, a mixture, toward V. For concave metrics every answer bounds the optimum. For
ratios of affine functions a stationary point is a global optimum; line search along a segment then goes all the way,
which is Dinkelbach's method.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from confmax.confusion import Gains
from confmax.metrics import Metric
from confmax.metrics.first_order import FirstOrder
from confmax.optimize.loop import DEFAULT_MAX_PASSES, Problem, Status, Step
from confmax.optimize.mixture import Mixture
from confmax.optimize.step_size import line_search, open_loop


@dataclass(frozen=True, eq=False)
class FrankWolfeState:
    """The current rule h^j and the round j that comes next."""

    rule: Mixture
    round: int = 1


@dataclass(frozen=True)
class FrankWolfe:
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

    name: ClassVar[str] = "FrankWolfe"
    budget: ClassVar[int] = DEFAULT_MAX_PASSES

    step_rule: Literal["line_search", "open_loop"] = "line_search"
    rho: float | None = None
    smoothing: Literal["relative", "additive"] = "relative"

    def __post_init__(self) -> None:
        """Refuse settings out of range."""
        if self.step_rule not in ("line_search", "open_loop"):
            raise ValueError(f"step_rule of FrankWolfe must be 'line_search' or 'open_loop'; got {self.step_rule!r}")
        check_smoothing("FrankWolfe", self.rho, self.smoothing)

    def check(self, metric: Metric, n_classes: int, n_rows: int) -> None:
        """Accept every metric that has a gradient."""

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
        if size == 0.0 and not _hardens(surrogate, problem.metric):
            status = Status.STATIONARY if slope <= problem.tol and problem.oracle.exact else Status.STALLED
        return FrankWolfeState(moved, state.round + 1), Step(moved, (vertex,), bound, status)

    def surrogate(self, metric: Metric, j: int) -> Metric:
        """Return the stand-in for ``metric`` whose gradient is used in round ``j``."""
        if self.rho is not None:
            return metric.smoothed(self.rho, self.smoothing)
        return metric.smoothed(0.5 / math.sqrt(j)) if metric.structure.hardens else metric


def linearised(problem: Problem, surrogate: Metric, rule: Mixture) -> tuple[Mixture, FirstOrder, Gains]:
    """Return the rule that a gradient is taken at, value and gradient there, and the gradient as a gain.

    Where the metric has no gradient (a recall of zero under the G-mean) the random rule takes the rule's place.
    """
    first = surrogate.at(rule.confusion)
    gains = surrogate.gains(first)
    if not gains.is_finite:
        rule = Mixture.uniform(problem.oracle.rows, problem.n_decisions, matrix=problem.needs_matrix)
        first = surrogate.at(rule.confusion)
        gains = surrogate.gains(first)
    return rule, first, gains


def linear_step(problem: Problem, surrogate: Metric, rule: Mixture) -> tuple[Mixture, Mixture, float | None, float]:
    """Maximise the gradient at ``rule``; return the rule it was taken at, the maximiser, the bound and the slope."""
    rule, first, gains = linearised(problem, surrogate, rule)
    answer = problem.ask(gains)[0]
    bound = None
    if problem.oracle.exact and (surrogate == problem.metric or problem.metric.bounds_any_gain):
        bound = problem.metric.upper_bound(first, rule.confusion, answer)
    return rule, Mixture.single(gains, answer), bound, surrogate.slope(first, answer, rule.confusion)


def _hardens(surrogate: Metric, metric: Metric) -> bool:
    """Whether the surrogate still changes from round to round, so that no step now does not mean none later."""
    return surrogate is not metric and metric.structure.hardens


def check_smoothing(solver: str, rho: float | None, smoothing: str) -> None:
    """Refuse, by a ValueError, a ``rho`` or a ``smoothing`` of a ``solver`` that is out of range."""
    if rho is not None and not (isinstance(rho, (int, float)) and rho >= 0 and math.isfinite(rho)):
        raise ValueError(f"rho of {solver} must be finite and not negative; got {rho!r}")
    if smoothing not in ("relative", "additive"):
        raise ValueError(f"smoothing of {solver} must be 'relative' or 'additive'; got {smoothing!r}")
