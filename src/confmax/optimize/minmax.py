"""The smallest recall: a linear program over generated rules, which a pass either improves or proves optimal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from confmax._metric import Metric
from confmax.confusion import Array
from confmax.optimize._loop import Problem, Status, Step
from confmax.optimize._recalls import Points, ask_between

PATIENCE = 15  # passes without progress on labels, where no bound ends the run
PROGRESS = 1e-9


@dataclass(frozen=True, eq=False)
class MaxMinState:
    """Rules so far, the LP's class weights, the weights of the best bound, and passes without progress."""

    points: Points
    weights: Array
    best_weights: Array
    best_bound: float
    value: float = -np.inf
    idle: int = 0


@dataclass(frozen=True)
class MaxMin:
    """Maximise the smallest recall by column generation (paper, Section 2, min-max metric).

    The rules met so far are mixed by the linear program ``max v``, ``v <= sum_i w_i T_u(h_i)`` for every class u. Its
    dual weights on the classes make the next gain, whose answer bounds the optimum: ``min T <= max_h <lambda, T(h)>``.
    Several gains per pass lie between the weights of the best bound and the newest. With labels the same program mixes
    the rules on label confusions, and there is no bound.

    Examples
    --------
    >>> import confmax
    >>> from confmax.optimize import MaxMin
    >>> P = [[0.7, 0.2, 0.1], [0.5, 0.4, 0.1], [0.4, 0.2, 0.4]]
    >>> solution = confmax.maximize("min_recall", P, solver=MaxMin(), randomized=True)
    >>> solution.gap < 1e-6
    True
    """

    name: ClassVar[str] = "MaxMin"
    budget: ClassVar[int] = 200

    def check(self, metric: Metric, n_classes: int, n_rows: int) -> None:
        """Refuse other metrics."""
        if metric.name != "min_recall" or dict(metric.params).get("rho"):
            raise ValueError(f"MaxMin maximises min_recall only and was given {metric!r}; use solver='auto'")

    def init(self, problem: Problem) -> MaxMinState:
        """Start from the constant rules, argmax and p / prior, with equal weights on the classes."""
        points = Points.start(problem)
        _, _, weights = _mix(points.recalls)
        equal = np.full(points.recalls.shape[1], 1.0 / points.recalls.shape[1])
        return MaxMinState(points, weights, equal, np.inf)

    def step(self, problem: Problem, state: MaxMinState) -> tuple[MaxMinState, Step]:
        """Ask for several gains, and mix again."""
        gains, answers, rules, heights = ask_between(problem, state.best_weights, state.weights)
        points = state.points.joined(problem, gains, answers)
        value, mix, weights = _mix(points.recalls)
        best_weights, bound = min([(state.best_weights, state.best_bound), *heights], key=lambda pair: pair[1])
        if not problem.oracle.exact:
            best_weights = state.weights
        idle = 0 if value > state.value + PROGRESS else state.idle + 1
        status = Status.STALLED if idle >= PATIENCE else None
        following = MaxMinState(points, weights, best_weights, bound, value, idle)
        return following, Step(points.mixture(mix), rules, bound, status)


def _mix(recalls: Array) -> tuple[float, Array, Array]:
    """Solve ``max_w min_u (w @ recalls)_u`` over the simplex; return value, w (A,) and the dual class weights (S,)."""
    # scipy.optimize takes longer to import than confmax
    from scipy.optimize import linprog

    A, S = recalls.shape
    result = linprog(
        np.append(np.zeros(A), -1.0),
        A_ub=np.hstack([-recalls.T, np.ones((S, 1))]),
        b_ub=np.zeros(S),
        A_eq=[np.append(np.ones(A), 0.0)],
        b_eq=[1.0],
        bounds=[(0, None)] * (A + 1),
        method="highs-ds",
    )
    if result.x is None:
        raise RuntimeError(f"the linear program of MaxMin has a solution, yet none was found: {result.message}")
    weights = np.maximum(-np.asarray(result.ineqlin.marginals), 0.0)
    return float(result.x[-1]), np.maximum(result.x[:-1], 0.0), weights / weights.sum()
