"""Conditional gradient: the paper's Algorithms 3 and 4, and the same with exact line search.

Round j linearises the metric at the current confusion, asks the oracle for the rule V that maximises the linear
function, and moves the current rule, a mixture, toward V. For concave metrics every answer bounds the optimum. For
ratios of affine functions a stationary point is a global optimum; line search along a segment then goes all the way,
which is Dinkelbach's method.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from confmax._metric import Metric
from confmax.confusion import Gains
from confmax.formulas import FirstOrder
from confmax.optimize._loop import DEFAULT_MAX_PASSES, Problem, Status, Step
from confmax.optimize._mixture import Mixture
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
        Smoothing of metrics that have it. None: none for metrics with gradients inside, and for the smallest recall
        a soft minimum that hardens as ``rho = 1 / (2 sqrt(j))`` over the rounds j.
    smoothing : {"relative", "additive"}
        Smooth relative to each class's prior, or as in the paper's Table 2.

    Notes
    -----
    Theorem 9 (with erratum E16) bounds the regret after T open-loop rounds by ``8 beta / (T + 2)``.

    Raises
    ------
    ValueError
        If a setting is out of range; by `check`, for what it cannot solve.

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
            raise ValueError(f"step_rule of FrankWolfe is 'line_search' or 'open_loop'; got {self.step_rule!r}")
        _check_smoothing("FrankWolfe", self.rho, self.smoothing)

    def check(self, metric: Metric, n_classes: int, n_rows: int) -> None:
        """Accept every metric that has a gradient."""

    def init(self, problem: Problem) -> FrankWolfeState:
        """Start at the best of the starting rules."""
        return FrankWolfeState(problem.start)

    def step(self, problem: Problem, state: FrankWolfeState) -> tuple[FrankWolfeState, Step]:
        """Make round j."""
        surrogate = self.surrogate(problem.metric, state.round)
        rule, vertex, bound, slope = _linear_step(problem, surrogate, state.rule)
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
        return metric.smoothed(0.5 / math.sqrt(j)) if metric.name == "min_recall" else metric


@dataclass(frozen=True)
class BayesCG:
    """The paper's Algorithm 4: conditional gradient on a sample with a plug-in oracle and step ``2 / (j + 1)``.

    Parameters
    ----------
    alpha : float in (0, 1]
        Fraction of the sample on which confusion matrices are measured. The table given is this part S''; the
        probabilities come from a model fitted on the rest, S'. The sample then has ``m = round(n / alpha)`` rows.
    kappa : int
        The algorithm makes ``T = ceil(kappa m)`` rounds; fewer if ``max_passes`` is smaller, which `status` tells.
    rho : float
        Smoothing (Theorem 12). The paper lets it fall with m (Corollary 13).
    smoothing : {"relative", "additive"}
        Relative to each class's prior, or as in the paper's Table 2.

    Notes
    -----
    Round 1 has step 1, so the initial rule only fixes the first gradient (note on Theorem 9 in the errata). The best
    rule met is returned, as on labels the last one may be worse.

    Raises
    ------
    ValueError
        If a setting is out of range; by `check`, for what it cannot solve.

    Examples
    --------
    >>> import confmax
    >>> from confmax.optimize import BayesCG
    >>> P, y = [[0.9, 0.1], [0.6, 0.4], [0.7, 0.3]], [0, 1, 0]
    >>> confmax.maximize("g_mean", P, y, solver=BayesCG(kappa=5), confusion="labels").value
    1.0
    """

    name: ClassVar[str] = "BayesCG"
    budget: ClassVar[int] = DEFAULT_MAX_PASSES

    alpha: float = 1.0
    kappa: float = 1.0
    rho: float = 0.01
    smoothing: Literal["relative", "additive"] = "relative"

    def __post_init__(self) -> None:
        """Refuse settings out of range."""
        if not (isinstance(self.alpha, (int, float)) and 0 < self.alpha <= 1):
            raise ValueError(f"alpha of BayesCG is a fraction in (0, 1]; got {self.alpha!r}")
        if not (isinstance(self.kappa, (int, float)) and self.kappa > 0 and math.isfinite(self.kappa)):
            raise ValueError(f"kappa of BayesCG must be positive and finite; got {self.kappa!r}")
        _check_smoothing("BayesCG", self.rho, self.smoothing)

    def rounds(self, n_rows: int) -> int:
        """Return ``T = ceil(kappa m)`` for a table of ``n_rows`` rows, which is the fraction alpha of m."""
        return math.ceil(self.kappa * round(n_rows / self.alpha))

    def check(self, metric: Metric, n_classes: int, n_rows: int) -> None:
        """Accept every metric that has a gradient (the guarantee is for concave ones)."""

    def init(self, problem: Problem) -> FrankWolfeState:
        """Start at the plug-in argmax, which is among the rules that Lemma 11 covers (erratum E17)."""
        return FrankWolfeState(problem.starts[0])

    def step(self, problem: Problem, state: FrankWolfeState) -> tuple[FrankWolfeState, Step]:
        """Make round j."""
        surrogate = problem.metric.smoothed(self.rho, self.smoothing)
        rule, vertex, bound, _ = _linear_step(problem, surrogate, state.rule)
        moved = rule.toward(vertex.atoms[0], vertex.confusion, open_loop(state.round))
        T = self.rounds(problem.oracle.table.n_rows)
        status = None
        if state.round >= T:
            status = Status.FINISHED
        elif problem.oracle.n_passes >= problem.max_passes:
            status = Status.TRUNCATED
        return FrankWolfeState(moved, state.round + 1), Step(moved, (vertex,), bound, status)


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


def _linear_step(problem: Problem, surrogate: Metric, rule: Mixture) -> tuple[Mixture, Mixture, float | None, float]:
    """Maximise the gradient at ``rule``; return the rule it was taken at, the maximiser, the bound and the slope."""
    rule, first, gains = linearised(problem, surrogate, rule)
    answer = problem.ask(gains)[0]
    bound = None
    if problem.oracle.exact and (surrogate == problem.metric or problem.metric.bounds_any_gain):
        bound = problem.metric.upper_bound(first, rule.confusion, answer)
    return rule, Mixture.single(gains, answer), bound, surrogate.slope(first, answer, rule.confusion)


def _hardens(surrogate: Metric, metric: Metric) -> bool:
    """Whether the surrogate still changes from round to round, so that no step now does not mean none later."""
    return surrogate is not metric and metric.name == "min_recall"


def _check_smoothing(solver: str, rho: float | None, smoothing: str) -> None:
    if rho is not None and not (isinstance(rho, (int, float)) and rho >= 0 and math.isfinite(rho)):
        raise ValueError(f"rho of {solver} must be finite and not negative; got {rho!r}")
    if smoothing not in ("relative", "additive"):
        raise ValueError(f"smoothing of {solver} is 'relative' or 'additive'; got {smoothing!r}")
