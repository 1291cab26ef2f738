"""The smallest recall: a linear program over generated rules, which a pass either improves or proves optimal.

On labels the oracle's answers are not maximisers, and a search that follows only the program's duals stops early. The
first rules therefore come from column generation on the model confusion, and the program mixes them on label
confusions. If the model is wrong, the best rules for the labels lie far from all of these. So the search then runs on
the labels: all other weights of the best single rule are fixed, and every value of one class weight is compared. The
comparison uses a soft minimum of the recalls, which improves even where the smallest recall does not. Each of these
rounds also follows the program's duals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from confmax.confusion import Array, Confusion, Gains
from confmax.metrics import Metric
from confmax.metrics.structure import LinearFunctions, MinOfLinear
from confmax.optimize.coordinate import Coordinate, breakpoints, moved, working_gain
from confmax.optimize.loop import Problem, Status, Step, best_answer
from confmax.optimize.points import Points
from confmax.optimize.query import query_gains
from confmax.tables import Oracle

PATIENCE = 15  # least number of rounds without progress on labels, where no bound ends the run
PROGRESS = 1e-5
SOFTNESS = 0.03  # of the minimum by which single rules are searched on labels
CANDIDATES = 4  # values of a class weight that are tried after a search
MOST_POINTS = 150  # columns of the linear program; those that would lose most are dropped
PRICED_OUT = 1e-12
MODEL_GAP, MODEL_ROUNDS = 1e-4, 60  # when rules generated on the model are enough for labels


@dataclass(frozen=True, eq=False)
class Columns:
    """Rules on one confusion estimate, their mixture, the LP's class weights, those of the best bound, and values.

    On labels, where there is no bound, the best single rule's weights and minus its smallest recall stand for it.
    """

    points: Points
    mix: Array
    weights: Array
    best_weights: Array
    best_bound: float = np.inf
    value: float = -np.inf

    @classmethod
    def of(cls, points: Points) -> Columns:
        """Mix points for the first time, with equal weights on the classes."""
        value, mix, weights = _mix(_functions(points).values(points.confusions))
        return cls(points, mix, weights, np.full(len(weights), 1.0 / len(weights)), value=value)

    def gains(self, seed: int) -> Array:
        """Return class weights to ask for (B, S), each summing to one."""
        lowest = 1e-12
        asked = query_gains(np.maximum(self.best_weights, lowest), np.maximum(self.weights, lowest), None, seed)
        return asked / asked.sum(axis=1, keepdims=True)

    def joined(self, gains: Gains, answers: Confusion, weights: Array, *, exact: bool) -> Columns:
        """Return the columns with these answers to class weights (B, S), mixed anew."""
        recalls = _functions(self.points).values(answers)
        # without bounds the best single rule takes the place of the best bound; ties go to the larger mean recall
        merit = (recalls * weights).sum(axis=1) if exact else -recalls.min(axis=1) - 1e-6 * recalls.mean(axis=1)
        k = int(np.argmin(merit))
        best = (self.best_weights, self.best_bound)
        if merit[k] < best[1]:
            best = (weights[k], float(merit[k]))
        if (recalls @ self.weights).max() <= self.value + PRICED_OUT:
            # no answer is worth more than the mixture at the program's own weights: its solution stays
            mix = np.concatenate([self.mix, np.zeros(len(recalls))])
            return Columns(self.points.joined(gains, answers), mix, self.weights, *best, self.value)
        points = _trimmed(self.points, self.mix, self.weights).joined(gains, answers)
        value, mix, newest = _mix(_functions(points).values(points.confusions))
        return Columns(points, mix, newest, *best, value)


@dataclass(frozen=True, eq=False)
class MaxMinState:
    """Columns on the problem's own estimate, those on the model while they generate with their oracle, and rounds."""

    own: Columns
    model: Columns | None = None
    oracle: Oracle | None = None
    round: int = 0
    idle: int = 0


@dataclass(frozen=True)
class MaxMin:
    """Maximise the smallest recall by column generation (the min-max metric of the paper's Table 1).

    A linear program mixes the rules found so far: ``max v`` with ``v <= sum_i w_i T_u(h_i)`` for every class u. Its
    dual weights on the classes define the next gain, and the answer to this gain bounds the optimum: ``min T <= max_h
    <lambda, T(h)>``. Each pass evaluates several gains, between the weights of the best bound and the newest weights,
    and around them.

    On labels there is no bound. At first, the model confusion generates rules and the program mixes them on label
    confusions; such a round takes two passes, one on each confusion. After that, every round searches one class weight
    of the best single rule exactly (as `CoordinateSearch` does) for a greater soft minimum, and evaluates the result
    together with the gains of the duals. Such a round takes two passes as well.

    Source: linear programming duality. The paper's remark in Section 3, that every maximiser of a subgradient is
    optimal, is false as printed (erratum E19). Under Assumption A it holds for the class weights of the program's dual,
    the least favourable ones; `Solution.multipliers` holds them. A remark in Section 5 proposes to run the paper's
    algorithm on a smooth approximation.

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
    starts_from_sample: ClassVar[tuple[str, ...]] = ("model",)

    def check(self, metric: Metric, n_classes: int, n_rows: int) -> None:
        """Refuse every metric except the smallest of linear functions, such as the unsmoothed ``min_recall``."""
        if not isinstance(metric.structure, MinOfLinear):
            raise ValueError(
                f"MaxMin maximises only the unsmoothed min_recall and got {metric!r}, which is not declared the "
                f"smallest of linear functions; use solver='auto'"
            )

    def init(self, problem: Problem) -> MaxMinState:
        """Start from the constant rules, argmax and p / prior."""
        own = Columns.of(Points.start(problem))
        if problem.oracle.exact:
            return MaxMinState(own)
        oracle = problem.oracle.second_estimate(1.0)
        answers = oracle.maximize(own.points.gains, matrix=problem.needs_matrix)
        space = replace(own.points.space, rows=oracle.rows)
        model = Columns.of(replace(own.points, space=space, confusions=answers, x=space.vectors(answers)))
        return MaxMinState(own, model, oracle)

    def step(self, problem: Problem, state: MaxMinState) -> tuple[MaxMinState, Step]:
        """Evaluate several gains, and compute the best mixture again."""
        if problem.oracle.exact:
            following, gains, answers = _exact_round(problem, state)
        elif state.model is not None and _passes_left(problem) >= 2:
            following, gains, answers = _model_round(problem, state)
        else:
            following, gains, answers = _label_round(problem, state)
        own = following.own
        rules = (best_answer(problem, gains, answers),)
        patience = max(PATIENCE, len(own.weights))
        status = Status.STALLED if following.idle >= patience and not problem.oracle.exact else None
        bound = own.best_bound if problem.oracle.exact else None
        multipliers = own.best_weights if problem.oracle.exact else own.weights
        return following, Step(own.points.mixture(own.mix), rules, bound, status, multipliers)


# --- rounds: each returns the next state, and the gains asked for with their answers ----------------------------------


def _exact_round(problem: Problem, state: MaxMinState) -> tuple[MaxMinState, Gains, Confusion]:
    """Follow the program's duals where answers are maximisers."""
    weights = state.own.gains(state.round)
    gains = _functions(state.own.points).combined(weights)
    answers = problem.ask(gains)
    return MaxMinState(state.own.joined(gains, answers, weights, exact=True), round=state.round + 1), gains, answers


def _model_round(problem: Problem, state: MaxMinState) -> tuple[MaxMinState, Gains, Confusion]:
    """Generate rules on the model, and mix them on the labels."""
    assert state.model is not None and state.oracle is not None
    weights = state.model.gains(state.round)
    gains = _functions(state.model.points).combined(weights)
    model = state.model.joined(gains, state.oracle.maximize(gains, matrix=problem.needs_matrix), weights, exact=True)
    answers = problem.ask(gains)
    own = state.own.joined(gains, answers, _as_weights(state.own.points, gains), exact=False)
    done = model.best_bound - model.value <= MODEL_GAP or state.round >= MODEL_ROUNDS
    return MaxMinState(own, None if done else model, state.oracle, state.round + 1), gains, answers


def _label_round(problem: Problem, state: MaxMinState) -> tuple[MaxMinState, Gains, Confusion]:
    """Search one class weight of the best single rule, and follow the duals."""
    own, points = state.own, state.own.points
    soft = problem.metric.smoothed(SOFTNESS)
    merits = soft.values(points.confusions)
    merits[: points.n_fixed] = -np.inf
    single = int(np.argmax(merits))
    classes = problem.metric.classes or range(len(points.space.rows))
    place = Coordinate("weight", classes[state.round % len(classes)])
    found = [_functions(points).combined(own.gains(state.round))]
    gains_are_reduced = points.gains.full is None
    if _passes_left(problem) >= 2 and problem.oracle.table.is_whole and gains_are_reduced:
        found += _searched(problem, soft, points.gains[single], place, float(merits[single]))
    gains = Gains.concatenate(found)
    answers = problem.ask(gains)
    own = own.joined(gains, answers, _as_weights(points, gains), exact=False)
    better = own.value > state.own.value + PROGRESS or soft.values(answers).max() > merits[single] + PROGRESS
    return MaxMinState(own, None, None, state.round + 1, 0 if better else state.idle + 1), gains, answers


def _passes_left(problem: Problem) -> int:
    return problem.max_passes - problem.oracle.n_passes


def _searched(problem: Problem, metric: Metric, gain: Gains, place: Coordinate, above: float) -> list[Gains]:
    """Return the gain with the best other values of one weight, empty where none exceeds ``above``; one pass."""
    gain = working_gain(gain, problem.oracle.table.dtype)
    cuts = breakpoints(metric, problem.oracle, gain, place)
    values = np.empty(0) if cuts is None else cuts.best(above, CANDIDATES)
    return [Gains.reduced(*moved(gain, place, values).pair())] if len(values) else []


# --- columns and their program ----------------------------------------------------------------------------------------


def _functions(points: Points) -> LinearFunctions:
    """Return the functions whose smallest one is the metric, such as the recalls."""
    return points.space.metric.linear_functions(points.space.rows, points.space.n_decisions)


def _as_weights(points: Points, gains: Gains) -> Array:
    """Return gains as weights of the functions (B, S), each summing to one."""
    weights = _functions(points).weights(gains)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _trimmed(points: Points, mix: Array, weights: Array) -> Points:
    """Return the constant rules and the columns with the least reduced costs."""
    if len(points.x) <= MOST_POINTS:
        return points
    merit = np.where(mix > 1e-12, np.inf, _functions(points).values(points.confusions) @ weights)
    merit[: points.n_fixed] = np.inf
    return points.kept(np.sort(np.argsort(-merit, kind="stable")[:MOST_POINTS]).tolist())


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
        # recalls are not negative; other functions may be
        bounds=[(0, None)] * A + [(min(0.0, float(recalls.min())), None)],
        method="highs-ds",
    )
    if result.x is None:
        raise RuntimeError(f"no solution of MaxMin's linear program was found, although one exists: {result.message}")
    weights = np.maximum(-np.asarray(result.ineqlin.marginals), 0.0)
    return float(result.x[-1]), np.maximum(result.x[:-1], 0.0), weights / weights.sum()
