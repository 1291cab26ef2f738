"""Column generation: a master mixes the rules met so far, and its prices say which rules to ask for next.

Every pass evaluates a dozen gains: between the dual point of the best bound and the master's newest, along Newton's
step on the dual, and in orthogonal directions around them (`optimize/query.py`). The master (`optimize/masters`) then
mixes all rules anew. An answer to the prices either improves the mixture or proves that nothing does: with the
objective f, the mixture x*, the limits ``A x >= b`` and their multipliers mu, no rule that meets the limits exceeds
``f(x*) + max_V <f'(x*), V - x*> + mu' (A V - b)``. `FullyCorrective` and `MaxMin` are this algorithm with the masters
of metrics that have a gradient and of the smallest recall.

On labels the oracle's answers are not maximisers, and a search that follows only the master's prices stops early. The
rules of the smallest recall are therefore generated on the model confusion first, and mixed on label counts. If the
model is wrong, the best rules for the labels lie far from all of these: where it is confident and wrong, its rules
alone reached .70 on one table where .80 is possible. So the search then runs on the labels: all other weights of the
best single rule are fixed, and every value of one class weight is compared (`optimize/breakpoints.py`). The comparison
uses a soft minimum, which improves even where the smallest recall does not. Each of these rounds also follows the
prices. This search reaches the highest values on tuning rows, but lower values than the conditional gradient on
held-out rows.

Within limits, rules for labels or a blend are generated on the model for every metric, and the mixture keeps the limits
as the labels count them. Rounds that follow the prices of this mixture are next, and single rules are searched on the
labels themselves (`optimize/beam.py`). Nothing is proved: limits that no rule met was seen to keep may yet be possible.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Confusion, Gains
from confmax.metrics import Metric
from confmax.metrics.curved import SHRUNK
from confmax.optimize.beam import improved
from confmax.optimize.breakpoints import Coordinate, better_values, working_gain
from confmax.optimize.columns import NEAR_ROUNDS, PRICED_OUT, Columns, master_of
from confmax.optimize.conditional_gradient import rules_of_few
from confmax.optimize.descent import descended, slope_of_answers
from confmax.optimize.group_thresholds import GroupThresholds
from confmax.optimize.loop import Incumbent, Problem, Solver, Status, Step, WarmStart, best_answer
from confmax.optimize.masters.protocol import FEASIBLE
from confmax.optimize.mixture import Mixture, constant_rules
from confmax.optimize.path_query import breadth, lifted
from confmax.optimize.points import Points, Space
from confmax.optimize.query import by_differences
from confmax.optimize.rounding import BINDS, NEWTON_STEPS, OF_TOL, PROGRESS
from confmax.optimize.row_prices import row_bound
from confmax.optimize.single import Swarm, interchangeable, search
from confmax.optimize.warm import sample_of
from confmax.tables import Oracle

PATIENCE = 12  # passes that improve neither value nor bound: a kink, which gradients at single points do not see

# in which a master that climbs gets single rules from all around: they cost 5 % of the passes, and without them one of
# 19 tables has a macro F1 within two limits of .631 instead of .652
CLIMB_ROUNDS = 2
NEAREST = BINDS  # how exactly the smallest shortfall is found where no rule keeps all limits

SEARCHED = 2  # class weights that a round searches on labels
LABEL_PATIENCE = 3  # least number of rounds without progress on labels, where no bound ends the run
LIMITED_PATIENCE = 8  # the same within limits, where the rounds that follow prices are the last
GOOD = 1e-4  # a loss for which no better single rule is searched, where good ones are known
SOFTNESS = 0.03  # of the minimum by which single rules are searched on labels


@dataclass(frozen=True, eq=False)
class ColumnState:
    """Columns on the problem's estimate, and on the model while these generate rules for labels."""

    columns: Columns
    # those that generate rules for labels, with their ``oracle``
    model: Columns | None = None
    oracle: Oracle | None = None
    # number of rounds so far; -1 if the starting rules may prove enough
    round: int = 0
    value: float = -np.inf
    # idle, patience: number of rounds without progress, and how many of them end the run
    idle: int = 0
    patience: int = PATIENCE
    # whether a sample has shown where the optimum is, so that few gains around it are enough
    near: bool = False
    # on labels of two classes within limits, the best thresholds for every gain
    thresholds: GroupThresholds | None = None
    # single rules (the bytes of their class weights) with the classes whose weight improves nothing there
    exhausted: frozenset[tuple[bytes, int]] = frozenset()


@dataclass(frozen=True)
class ColumnGeneration(Solver):
    """Maximise a concave metric, or the smallest of linear functions, by column generation, with a certificate.

    Notes
    -----
    The master follows from the metric: `masters.Program` for the smallest recall, `masters.RecallMeans` for the
    unsmoothed means of recalls, `masters.Smooth` for every other metric with a gradient. Of the rules without weight,
    only the few that come nearest to being used are kept. Within limits, ratios and sums of ratios (macro F1) are
    maximised too. A sum of ratios is not concave: its master, `masters.RatioSum`, climbs, and the run ends where no
    rule improves the metric to first order. Its bound is that of `optimize/row_prices.py`, with prices of the limits.
    Concave means of labels within limits climb too, to their largest value, which the last gradient bounds.

    Examples
    --------
    >>> import confmax
    >>> from confmax.optimize import ColumnGeneration
    >>> P = [[0.7, 0.2, 0.1], [0.5, 0.4, 0.1], [0.4, 0.2, 0.4]]
    >>> confmax.maximize("min_recall", P, solver=ColumnGeneration(), randomized=True).gap < 1e-6
    True
    """

    budget: ClassVar[int] = 2 * Solver.budget
    starts_from_sample: ClassVar[tuple[str, ...]] = ("model",)
    wants_curvature: ClassVar[bool] = True
    takes_limits: ClassVar[bool] = True
    takes: ClassVar[Literal["both", "gradients", "minima"]] = "both"

    def check(self, metric: Metric, n_classes: int, n_rows: int, *, limited: bool = False) -> None:
        """Refuse metrics that are not declared concave, and those that are another master's.

        ``limited`` says that there are limits: then ratios are solved, too.
        """
        if limited:
            why = refused_within_limits(metric)
            if why:
                raise ValueError(why)
            return
        minimum = metric.structure.is_minimum
        if self.takes == "minima" and not minimum:
            raise ValueError(
                f"{self.name} maximises only the unsmoothed min_recall and got {metric!r}, which is not declared the "
                f"smallest of linear functions; use solver='auto'"
            )
        if not metric.structure.is_concave or (minimum and self.takes == "gradients"):
            way_out = "solver='max_min'" if minimum else "solver='auto'"
            raise ValueError(
                f"{self.name} needs a concave metric with a gradient and got {metric!r}, declared "
                f"{metric.structure}; use {way_out}"
            )

    def init(self, problem: Problem) -> ColumnState:
        """Mix the constant rules and the starting rules."""
        oracle = problem.oracle
        space = _space(problem, oracle.rows)
        master = master_of(space)
        extreme = () if space.sum_of is None else rules_of_few(problem, space.sum_of)
        points = Points.start(replace(problem, starts=(*problem.starts, *extreme)), space)
        columns = Columns.of(points, master, breadth(oracle.table.n_rows, oracle.table.n_classes))
        if oracle.exact and master.follows_path and not master.climbs:
            return ColumnState(_near_optimum_of_sample(problem, columns))
        if oracle.exact and not master.follows_path:
            return _from_sample(problem.sample, columns)
        if not oracle.exact and problem.limits is not None:
            thresholds = GroupThresholds.of(problem)
            if thresholds is not None:
                return ColumnState(columns, thresholds=thresholds)
        if oracle.exact or not master.follows_path:
            # on labels no gain that follows from a gradient is sure to be better
            few = 1 if problem.limits is None else LIMITED_PATIENCE
            return ColumnState(columns, patience=PATIENCE if oracle.exact else few)
        model = oracle.second_estimate(1.0)
        answers = model.maximize(points.gains, matrix=problem.needs_matrix)
        space = _space(problem, model.rows)
        points = Points(space, points.gains, answers, points.n_fixed)
        patience = max(LABEL_PATIENCE, -(-space.split(points.z)[0].shape[1] // SEARCHED))
        if problem.limits is not None:
            model_columns = Columns.of(points, master, columns.breadth)
            return ColumnState(columns, model_columns, model, patience=LIMITED_PATIENCE)
        return ColumnState(columns, Columns.of(points, master, columns.breadth), model, patience=patience)

    def step(self, problem: Problem, state: ColumnState) -> tuple[ColumnState, Step]:
        """Evaluate gains around the best prices and the newest, and compute the best mixture again."""
        if state.round < 0:
            # what the starting rules prove may be enough
            return replace(state, round=0), Step(state.columns.mixture(), (), state.columns.best_bound)
        exact = problem.oracle.exact
        limited = problem.limits is not None
        by_prices = exact or state.thresholds is not None or not state.columns.master.follows_path
        if by_prices or (limited and state.model is None):
            following, gains, answers = _price_round(problem, state)
        elif state.model is not None and _passes_left(problem) >= 2:
            following, gains, answers = _model_round(problem, state)
        else:
            following, gains, answers = _label_round(problem, state)
        columns = following.columns
        rules = (best_answer(problem, gains, answers),)
        if not columns.is_feasible:
            # a bound below zero on the slack that all limits can have at once is a proof (Farkas); what follows it
            # finds how near they can be met
            proved = exact and columns.best_bound < -FEASIBLE
            near = columns.best_bound + columns.optimum.shortfall <= NEAREST or following.idle >= following.patience
            ending = Status.INFEASIBLE if proved and near else None
            if not exact and state.model is None and following.idle >= following.patience:
                ending = Status.STALLED
            return following, Step(columns.mixture(), rules, status=ending)
        status = Status.STALLED if following.idle >= following.patience else None
        closed = columns.best_bound - columns.optimum.value <= problem.tol
        if state.thresholds is not None and closed and not columns.master.climbs:
            # of thresholds and what draws between them; other rules are not compared
            status = Status.OPTIMAL
        space = columns.points.space
        optimum = columns.optimum
        multipliers = None
        prices = None
        if problem.metric.structure.is_minimum:
            assert space.minimum_of is not None
            weights = (columns.best_gain if exact else optimum.gain)[: len(space.minimum_of)]
            multipliers = weights / weights.sum()
        # of a ratio the level is the objective, and its price is the denominator
        unit = float(optimum.point[1]) if space.ratio is not None else 1.0
        if space.n_limits and unit > 0.0:
            prices = space.without_cuts(optimum.gain)[-space.n_given :] / unit
        bound = columns.best_bound if exact else None
        if columns.master.climbs:
            # nothing to gain to first order: the gradient that was asked for is that of the mixture, which stays
            if closed and optimum.value - state.columns.optimum.value <= problem.tol:
                status = Status.STATIONARY if exact else Status.STALLED
            left = _passes_left(problem)
            ends = exact and left and (status is not None or left == 1)
            if exact and problem.metric.structure.is_concave:
                # of `OfLabels`
                bound = columns.best_bound / (1.0 - SHRUNK)
            else:
                bound = _bound_by_rows(problem, columns) if ends else None
        return following, Step(columns.mixture(), rules, bound, status, multipliers, prices)

    def singles(self, problem: Problem, state: ColumnState, incumbent: Incumbent) -> Iterator[Step]:
        """Yield steps with single rules that keep all limits of a ``problem`` and may be better than the ``incumbent``.

        They lie near the best mixture of the last ``state``.
        """
        columns = state.columns
        space = columns.points.space
        gains = columns.points.gains
        answers = columns.points.confusions
        # the constant rules, and those that join the decisions of several in different groups, were never asked for
        yield Step(best_answer(problem, gains, answers))
        layout = problem.oracle.table.layout
        matrix = problem.needs_matrix
        if layout is not None:
            # deciding one class for the rows of all groups keeps every difference
            as_one = replace(layout, shared=True)
            constants = constant_rules(
                problem.oracle.rows, problem.n_decisions, matrix=matrix, layout=as_one, barred=problem.oracle.barred
            )
            yield Step(best_answer(problem, *constants))
        if state.thresholds is not None:
            rule, confusion, is_best = state.thresholds.single(problem, columns, (incumbent.mixture, incumbent.single))
            yield Step(Mixture.single(rule[0], confusion[0]))
            # the thresholds of all groups are all rules, and few of them pass tests of labels
            if is_best or (problem.limits is not None and any(problem.limits.tested)):
                return
        # what metric and limits do not tell apart is decided for accuracy and not searched; a limit that does not bind
        # counts if it is missed without a search
        everything = interchangeable(problem, space)
        few = interchangeable(problem, space, columns.optimum) if columns.is_feasible else everything
        yield from _near(problem, columns, incumbent, few)
        if (few != everything).any() and incumbent.single_loss() == np.inf:
            yield from _near(problem, columns, incumbent, everything)


def _near(problem: Problem, columns: Columns, incumbent: Incumbent, alike: NDArray[np.bool_]) -> Iterator[Step]:
    """Yield steps with single rules near the best mixture; decisions ``alike`` (M,) stay as they are."""
    space = columns.points.space
    gains = columns.points.gains
    answers = columns.points.confusions
    exact = problem.oracle.exact
    swarm = None
    if problem.refines and incumbent.single_loss() <= GOOD:
        return
    if columns.is_feasible and columns.master.follows_path and (exact or not problem.refines):
        swarm = Swarm.of(problem, space, columns.optimum, columns.queries, alike)
    if swarm is not None:
        gains, answers = (yield from search(problem, swarm, incumbent)) or (gains, answers)
    if not exact and not incumbent.single_loss() <= problem.small_loss:
        # the best rules for the labels may lie far from those that the model generates
        best = incumbent.single
        gains = Gains.concatenate([gains, best.atoms[0]])
        answers = Confusion.concatenate([answers, Confusion.stack([best.confusion])])
        for step in improved(problem, gains, answers, incumbent, alike):
            yield step
            if incumbent.single_loss() <= problem.small_loss:
                return


@dataclass(frozen=True)
class FullyCorrective(ColumnGeneration):
    """Maximise a concave metric with a certificate (paper, Algorithm 3; the step is fully corrective).

    This is column generation with the master of metrics that have a gradient. Each pass evaluates several gains: the
    gradient at the best mixture so far, gradients at points between it and the point of the best bound, and gains
    around them. Some metrics of the recalls (the unsmoothed means) are bounded by any gain, so every answer gives a
    bound. For the others, a concave f satisfies ``f(C) <= f(C_i) + max <f'(C_i), V - C_i>`` at every point C_i whose
    gradient was evaluated, and the smallest of these bounds counts.

    Examples
    --------
    >>> import confmax
    >>> from confmax.optimize import FullyCorrective
    >>> P = [[0.7, 0.2, 0.1], [0.5, 0.4, 0.1], [0.4, 0.2, 0.4]]
    >>> solution = confmax.maximize("g_mean", P, solver=FullyCorrective(), randomized=True)
    >>> solution.gap < 1e-6
    True
    """

    budget: ClassVar[int] = Solver.budget
    takes: ClassVar[Literal["both", "gradients", "minima"]] = "gradients"


@dataclass(frozen=True)
class MaxMin(ColumnGeneration):
    """Maximise the smallest recall by column generation (the min-max metric of the paper's Table 1).

    A linear program mixes the rules found so far: ``max v`` with ``v <= sum_i w_i T_u(h_i)`` for every class u. Its
    dual weights on the classes define the next gain, and the answer to this gain bounds the optimum: ``min T <= max_h
    <lambda, T(h)>``. Each pass evaluates several gains, between the weights of the best bound and the newest weights,
    and around them.

    On labels there is no bound. At first, the model confusion generates rules and the program mixes them on label
    confusions; such a round takes two passes, one on each confusion. After that, every round searches two class weights
    of the best single rule exactly (as `CoordinateSearch` does) for a greater soft minimum, and evaluates the results
    together with the gains of the duals. Such a round takes three passes.

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

    # the prices of a sample's least bound say more than its rules
    starts_from_sample: ClassVar[tuple[str, ...]] = ()
    takes: ClassVar[Literal["both", "gradients", "minima"]] = "minima"


def refused_within_limits(metric: Metric) -> str | None:
    """Return in a sentence why a metric cannot be maximised under constraints, None if it can."""
    structure = metric.structure
    if structure.is_concave or structure.fractions is not None or structure.climb is not None:
        return None
    way_out = "maximise macro_f1, f1 of a class, cohen_kappa or a mean of the recalls, or leave the constraints out"
    why = f"it is declared {structure}"
    if structure.is_ratio:
        why = "its numerator and denominator are not known"
    return f"{metric.name} cannot be maximised under constraints, because {why}; {way_out}"


# --- starts -----------------------------------------------------------------------------------------------------------


def _space(problem: Problem, rows: Array) -> Space:
    """Return the space of a problem at class priors ``rows`` (K,)."""
    metric = problem.metric
    M = problem.n_decisions
    structure = metric.structure
    if problem.limits is None:
        return Space(metric, rows, M, metric.linear_functions(rows, M) if structure.is_minimum else None)
    parts = metric.as_ratios(rows, M)
    climb = metric.as_climb(rows, M)
    is_one_ratio = structure.is_ratio and not structure.is_linear
    return Space(
        metric,
        rows,
        M,
        metric.as_functions(rows, M) if climb is None else climb.functions,
        problem.limits.functions(rows, M),
        ratio=parts if is_one_ratio else None,
        mean=structure.recall_mean,
        curved=None if climb is None else climb.of,
        sum_of=None if climb is None else parts,
        curves=problem.limits.curves(len(rows)),
        leeway=problem.limits.leeway(len(rows)),
    )


def _from_sample(sample: WarmStart | None, columns: Columns) -> ColumnState:
    """Return the first state after what a sample of the rows has shown.

    The sample's answers are moved by its error at the one gain that both tables answered. Where each weight of that
    gain was moved there too, the changes of the answers are the curvature of the support function.
    """
    points = columns.points
    space = columns.points.space
    starts = space.vectors_of_gains(points.gains[points.n_fixed :])
    if starts is None or sample is None:
        return ColumnState(columns)
    z = points.z[points.n_fixed :]
    queries = columns.queries
    earlier = None if sample.gains is None else space.vectors_of_gains(sample.gains)
    if earlier is not None and sample.answers is not None:
        answers = space.vectors(sample.answers)
        n = sample.n_perturbed
        shifted = answers + (z[len(z) - len(sample.rules)] - answers[-1])
        queries = queries.joined(earlier[: -1 - n], shifted[: -1 - n])
        if n:
            queries = replace(queries, curvature=by_differences(earlier[-1], earlier[-1 - n : -1], answers[-1 - n :]))
    columns = replace(columns, queries=queries.joined(starts, z))
    # where the starting rules' own gains bound the metric, the first pass of the solver may already prove the optimum
    bounds = columns.bounds(starts, (starts * z).sum(axis=1), starts[:0])
    k = int(np.argmin(bounds))
    if not np.isfinite(bounds[k]):
        return ColumnState(columns)
    best = {"best_gain": starts[k], "best_point": columns.optimum.point, "best_bound": float(bounds[k])}
    return ColumnState(replace(columns, **best), round=-1, near=True)


def _near_optimum_of_sample(problem: Problem, columns: Columns) -> Columns:
    """Return columns that start at the prices of a sample of the rows, where the table is large.

    On 200,000 rows of 20 classes nine problems within limits and a smallest recall take 66 passes instead of 112, and
    two thirds of the time.
    """
    sampled = sample_of(problem.oracle)
    if sampled is None or columns.points.space.curves:
        # cuts of a sample's mixtures would be limits of the table
        return columns
    small = problem.oracle.anew(sampled)
    matrix = problem.needs_matrix
    space = _space(problem, small.rows)
    improving = descended(space, small, matrix=matrix)
    if improving is None:
        return columns
    # three standard errors of what a limit reads
    gain = lifted(space.form, *improving, 1.5 * np.sqrt(space.row_sizes() / small.table.n_rows))
    curvature = slope_of_answers(space, small, gain, matrix=matrix) * np.linalg.norm(gain)
    return replace(columns, best_gain=gain, near_rounds=NEAR_ROUNDS, is_sampled=True, curvature=np.asarray(curvature))


# --- rounds: each returns the next state, and the gains asked for with their answers ----------------------------------


def _price_round(problem: Problem, state: ColumnState) -> tuple[ColumnState, Gains, Confusion]:
    """Follow the master's prices."""
    columns = state.columns
    if problem.oracle.exact:
        columns = columns.curved(problem.oracle.table.sample)
        state = replace(state, columns=columns)
    duals, at = columns.next_dual_points(state.round, problem.tol, near=state.near)
    gains = columns.points.space.gains(duals)
    singles = _singles_to_climb_from(problem, state)
    if singles is not None:
        gains = Gains.concatenate([gains, singles])
    exact = problem.oracle.exact or state.thresholds is not None
    if state.thresholds is not None:
        gains, answers = state.thresholds.answers(gains)
    else:
        answers = problem.ask(gains)
    columns = state.columns.joined(duals, at, gains, answers, exact=exact, idle=state.idle > 1)
    least = OF_TOL * problem.tol if exact else PRICED_OUT
    if exact:
        closer = columns.best_bound < state.columns.best_bound - least
    else:
        closer = columns.optimum.shortfall < state.columns.optimum.shortfall - PROGRESS
    better = columns.optimum.value > state.value + least or closer
    idle = 0 if better else state.idle + 1
    value = max(columns.optimum.value, state.value)
    return replace(state, columns=columns, round=state.round + 1, value=value, idle=idle), gains, answers


def _singles_to_climb_from(problem: Problem, state: ColumnState) -> Gains | None:
    """Return gains of single rules around the mixture, in the first rounds of a master that climbs.

    A better single rule than all rules met so far may lead to a higher top.
    """
    columns = state.columns
    climbs = columns.master.climbs and problem.oracle.exact and columns.is_feasible and state.round < CLIMB_ROUNDS
    if not climbs:
        return None
    space = columns.points.space
    swarm = Swarm.of(problem, space, columns.optimum, columns.queries, interchangeable(problem, space))
    return None if swarm is None else swarm.gains


def _bound_by_rows(problem: Problem, columns: Columns) -> float | None:
    """Return a bound on a sum of ratios at the best mixture and its prices of the limits; it takes a pass."""
    space = columns.points.space
    if space.sum_of is None or not problem.certify:
        return None
    _, multipliers = space.split(columns.optimum.gain)
    # the cuts are no limits of the problem
    given = multipliers[: space.n_given]
    return row_bound(problem, space.sum_of, columns.mixture().confusion, multipliers=given)


def _model_round(problem: Problem, state: ColumnState) -> tuple[ColumnState, Gains, Confusion]:
    """Generate rules on the model, and mix them on the labels."""
    model = state.model
    oracle = state.oracle
    assert model is not None and oracle is not None
    model = model.curved(oracle.table.sample)
    duals, at = model.next_dual_points(state.round, problem.tol, near=False)
    space = model.points.space
    gains = space.gains(duals)
    model = model.joined(duals, at, gains, oracle.maximize(gains, matrix=problem.needs_matrix), exact=True)
    answers = problem.ask(gains)
    columns = state.columns.joined(space.without_cuts(duals), at, gains, answers, exact=False)
    # the last digits of the model's optimum do not matter to the labels
    done = model.best_bound - model.optimum.value <= PROGRESS or state.round >= NEWTON_STEPS
    # limits that the model refutes may be kept on labels
    done |= not model.is_feasible and model.best_bound < -FEASIBLE
    return replace(state, columns=columns, model=None if done else model, round=state.round + 1), gains, answers


def _label_round(problem: Problem, state: ColumnState) -> tuple[ColumnState, Gains, Confusion]:
    """Search some class weights of the best single rule, and follow the prices."""
    columns = state.columns
    points = state.columns.points
    soft = problem.metric.smoothed(SOFTNESS)
    merits = soft.values(points.confusions)
    # a constant rule has no breakpoints
    merits[: points.n_fixed] = -np.inf
    single = int(np.argmax(merits))
    classes = problem.metric.classes or range(len(points.space.rows))
    # all classes in turn
    turn = state.round * SEARCHED + np.arange(min(SEARCHED, len(classes)))
    places = [Coordinate("weight", classes[k % len(classes)]) for k in turn.tolist()]
    places = problem.oracle.table.sorting(lambda: places, [])
    duals, at = columns.next_dual_points(state.round, problem.tol, near=False)
    gains = points.space.gains(duals)
    exhausted = state.exhausted
    if places and points.gains.full is None:
        gain = working_gain(points.gains[single], problem.oracle.table.dtype)
        # near the end the same rule returns round after round, and a second search of one weight repeats the first
        weights = b"".join(part.tobytes() for part in gain.pair())
        for place in places:
            here = (weights, place.decision)
            improving = None
            if _passes_left(problem) < 2:
                # the last pass is for the answers
                break
            if here not in exhausted:
                improving = better_values(soft, problem.oracle, gain, place, float(merits[single]))
            if improving is None:
                exhausted |= {here}
            else:
                gains = Gains.concatenate([gains, improving])
    answers = problem.ask(gains)
    following = columns.joined(duals, at, gains, answers, exact=False)
    better = following.optimum.value > columns.optimum.value + PROGRESS
    better = better or soft.values(answers).max() > merits[single] + PROGRESS
    idle = 0 if better else state.idle + 1
    after = replace(state, columns=following, model=None, round=state.round + 1, idle=idle, exhausted=exhausted)
    return after, gains, answers


def _passes_left(problem: Problem) -> int:
    return problem.max_passes - problem.oracle.n_passes
