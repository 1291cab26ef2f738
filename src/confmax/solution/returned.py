"""What the outcome of a run is worth as a rule: which of its rules is returned, and the solution of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from confmax.calibration import Calibration
from confmax.calibration.thresholds import abstaining_class_cuts
from confmax.confusion import MAX_MATRIX_CLASSES, Confusion
from confmax.confusion.ties import with_ties_broken
from confmax.constraints.proportions import counted_rows, interval, trials
from confmax.evaluate.decided import in_rows
from confmax.metrics.alignment import class_asked_about, extra_names
from confmax.metrics.decided import as_written
from confmax.metrics.user import refuse_infinite
from confmax.metrics.views import view, without_view
from confmax.optimize import Mixture, Outcome, Problem, Status
from confmax.oracle import make_oracle
from confmax.rule import DecisionRule
from confmax.rule.counts import Counts
from confmax.solution.plan import Task
from confmax.solution.result import Solution
from confmax.solution.second_objective import RANDOMIZED_ABOVE, decided_for_accuracy, worth_drawing
from confmax.solution.side_by_side import parts_of_rule
from confmax.tables import Table
from confmax.tables.precision import held

if TYPE_CHECKING:
    from confmax.constraints import ConstraintOutcome, Limits


class Evaluated(NamedTuple):
    """A rule as it is returned, what it is worth on the table, and how much less than the best mixture."""

    rule: DecisionRule
    statistics: Confusion
    value: float
    loss: float = 0.0


def solution_of(
    problem: Problem, outcome: Outcome, best: Evaluated, base: dict[str, float], mode: str, fitted: Calibration | None
) -> Solution:
    """Return the solution of the ``best`` rule, with ``base``, the values of the plain rules."""
    metric = problem.metric
    refuse_infinite(metric, best.value)
    oracle = problem.oracle
    table = problem.oracle.table
    layout = table.layout
    label_value = best.value if table.has_labels else None
    counted = best.statistics if table.has_labels else None
    if table.has_labels and oracle.reads_model:
        # the labels are not the estimate, or not all of it: they take one more scan
        few = table.n_classes <= MAX_MATRIX_CLASSES
        counted = best.rule.evaluate(oracle.second_estimate(0.0), matrix=few or problem.needs_matrix)
        label_value = float(metric.values(counted))
    # the last digit of a closed gap is rounding
    upper = None if outcome.upper_bound is None else max(outcome.upper_bound, best.value)
    paid = best.loss if outcome.mixed else None
    status = outcome.status
    most = 1.0 if outcome.upper_bound is None else outcome.upper_bound
    if problem.shortfall(best.statistics) > 0.0 and metric.formula.is_coverage and most <= problem.tol:
        status = Status.INFEASIBLE  # only rules that leave every row keep the limits
    if status is Status.CONVERGED and upper is not None and upper - best.value - (paid or 0.0) > problem.tol + 1e-12:
        status = Status.STALLED  # the rule, evaluated by itself, is worth less: its value is lost in rounding
    multipliers = outcome.multipliers
    if multipliers is not None and metric.classes is not None:
        # the solver has one per class of the metric, the solution one per class of the table
        multipliers = np.zeros(table.n_classes if layout is None else layout.n_classes)
        multipliers[list(metric.classes)] = outcome.multipliers
    statistics = best.statistics if layout is None else layout.total(best.statistics)
    kept, why = _within_limits(problem, outcome, best, counted, status)
    shares = np.asarray(oracle.model_share)
    if why is not None:
        upper = None
        paid = None
    return Solution(
        best.rule,
        best.value,
        upper,
        paid,
        status,
        oracle.n_passes,
        outcome.history,
        statistics,
        label_value,
        base,
        without_view(metric),
        mode,
        float(np.average(shares, weights=oracle.rows.reshape(len(shares), -1).sum(axis=1) if shares.ndim else None)),
        fitted,
        multipliers=multipliers,
        constraints=kept,
        infeasibility=why,
        counts=None if counted is None else _counts(best.rule, counted, table),
        group_shares=tuple(shares.tolist()) if shares.ndim else (),
    )


def _counts(rule: DecisionRule, counted: Confusion, table: Table) -> Counts:
    """Return what a rule decides for the rows of a labelled ``table``, whose statistics are ``counted``."""
    whole = counted if table.layout is None else table.layout.total(counted)
    return in_rows(whole, table, rule.class_names[: rule.n_classes], rule.class_names)


def _within_limits(
    problem: Problem, outcome: Outcome, best: Evaluated, counted: Confusion | None, status: Status
) -> tuple[tuple[ConstraintOutcome, ...], str | None]:
    """Return what became of the constraints, and why the ``best`` rule does not keep them all; None if it does.

    ``counted`` is the confusion of the rule on the labels.
    """

    limits = problem.limits
    if limits is None:
        return (), None
    from confmax.constraints.outcomes import on_labels, outcomes, without_slack

    assert limits is not None
    table = problem.oracle.table
    layout = table.layout
    feasible = problem.shortfall(best.statistics) == 0.0
    kept = outcomes(
        limits,
        best.statistics,
        outcome.prices if feasible else None,
        outcome.mixture.confusion,
        rounding=problem.rounding,
    )
    kept = without_slack(kept, limits, best.statistics, table.n_rows)
    if counted is not None:
        n_labelled = None if layout and layout.shared else counted_rows(table)
        kept = on_labels(kept, limits, counted, n_labelled, table.classes)
    if feasible:
        return kept, None
    from confmax.solution.out_of_reach import infeasibility

    drawn = problem.shortfall(outcome.mixture.confusion) == 0.0
    return kept, infeasibility(problem, status, kept, drawn=drawn)


def refitted(solution: Solution, limits: Limits | None, out_of_fold: Table) -> Solution:
    """Return the ``solution`` of a refitted model, with what its rule is worth on the labels ``out_of_fold``."""
    metric = solution.metric
    kept = solution.constraints
    few = out_of_fold.n_classes <= MAX_MATRIX_CLASSES
    matrix = few or "matrix" in (metric.statistics, limits and limits.statistics)
    S = solution.rule.evaluate(make_oracle(out_of_fold, "labels"), matrix=matrix)
    if limits is not None:
        from confmax.constraints.outcomes import on_labels

        kept = on_labels(kept, limits, S, counted_rows(out_of_fold), out_of_fold.classes)
    value = float(view(metric, out_of_fold.layout).values(S))
    counts = _counts(solution.rule, S, out_of_fold)
    return replace(solution, label_value=value, constraints=kept, tuned_on="refit", counts=counts)


def best_rule(
    task: Task, problem: Problem, outcome: Outcome, plain: dict[str, Mixture]
) -> tuple[Evaluated, dict[str, float]]:
    """Choose between mixture, single rule and ``plain`` rules; return the best one, and the values of the plain ones.

    These are of one kind of scan where rounding could matter.
    """
    one_class = task.one_class is not None
    randomized = task.plan.randomized
    seed = task.plan.random_state
    metric = problem.metric
    table = problem.oracle.table
    base = {name: float(metric.values(rule.confusion)) for name, rule in plain.items()}
    if outcome.prescribed:
        # the algorithm as printed returns its last rule, even where a plain one is better
        return evaluated(problem, table, outcome.mixture, seed), base
    worth = worth_drawing(problem)
    if randomized == "auto":
        outcome = _with_accurate_single(problem, outcome, worth)
    single_value = float(metric.values(outcome.single.confusion))
    loss = max(0.0, float(metric.values(outcome.mixture.confusion)) - single_value)
    mixed = bool(randomized) and loss > 0.0
    if randomized == "auto":
        mixed = loss > worth and not _too_few_to_draw(problem, outcome, loss)
    two_cuts = False
    if randomized is not True and metric.formula.is_of_decided and as_written(metric).class_place is not None:
        # two thresholds on the class separate it, the others and abstaining, where the best single rule is such a pair
        mixed = False
        two_cuts = abstaining_class_cuts(with_ties_broken(outcome.single.atoms[0])) is not None
    if problem.shortfall(outcome.single.confusion) > problem.shortfall(outcome.mixture.confusion):
        # a rule that draws is no answer to a question for a single one
        mixed = bool(randomized)
        loss = 0.0
    first = outcome.mixture if mixed else outcome.single
    chosen = first
    if mixed or not (one_class or two_cuts):
        # the search of one class has decided the others already
        kept = [base[name] for name, rule in plain.items() if problem.shortfall(rule.confusion) == 0.0]
        draws = mixed or randomized is True
        chosen = decided_for_accuracy(
            problem, outcome, first, draws=draws, least=max(kept, default=-np.inf), rows=task.plan.breaks_ties
        )
    mixed |= len(chosen.atoms) > 1
    # what the metric loses by the second objective: less than the tolerance
    slack = max(0.0, problem.value(first.confusion) - problem.value(chosen.confusion))
    best = evaluated(problem, table, chosen, seed)._replace(loss=0.0 if mixed else loss + slack)
    if mixed and best.value < single_value - 2.0 * slack and not problem.shortfall(outcome.single.confusion):
        # the mixture gained only through weights that the rule drops
        best = evaluated(problem, table, outcome.single, seed)
        loss = 0.0
    for name, rule in plain.items():
        reached = best.value + slack
        if problem.shortfall(rule.confusion) > problem.shortfall(best.statistics) or (one_class and name != "argmax"):
            # beside a threshold on one class, p / prior would decide the other classes without need
            continue
        if base[name] <= reached + 1e-13 * max(1.0, abs(reached)):
            continue
        # better without calibration; or the difference is rounding, so evaluate the rule by the same kind of scan
        again = evaluated(problem, table.calibrated(None), rule, seed)
        base[name] = again.value
        if again.value > reached and problem.shortfall(again.statistics) <= problem.shortfall(best.statistics):
            best = again._replace(loss=max(loss + single_value - again.value, 0.0))
            slack = 0.0
    return best, base


def _with_accurate_single(problem: Problem, outcome: Outcome, worth: float) -> Outcome:
    """Return an outcome whose single rule costs more than a row, with a better one that a search for accuracy meets."""
    single = outcome.single
    far = problem.value(outcome.mixture.confusion) - problem.value(single.confusion) > worth > RANDOMIZED_ABOVE
    if not far or problem.shortfall(single.confusion) > 0.0:
        return outcome
    from confmax.optimize.along import with_rule

    found = decided_for_accuracy(problem, outcome, single, draws=False, rows=False, dear=False)
    return with_rule(problem, outcome, found)


def _too_few_to_draw(problem: Problem, outcome: Outcome, loss: float) -> bool:
    """Whether the rows are too few to say that drawing helps a proportion within limits on one class.

    The best single rule keeps the limits by more than it must, since a label moves a proportion of few rows far. Both
    this excess and the ``loss`` are then within the intervals that so many rows give. Who asks for counts of labels
    alone takes them as they are.
    """

    limits = problem.limits
    n = counted_rows(problem.oracle.table) if problem.oracle.is_blend else None
    if limits is None or limits.only_class is None or n is None:
        return False
    if not all(metric.formula.is_share for metric in (problem.metric, *(one.metric for one in limits.constraints))):
        return False
    S = outcome.single.confusion
    excess = limits.slacks(S) - np.maximum(limits.slacks(outcome.mixture.confusion), 0.0)
    # a quantity, its value, and how far from it the other of the two rules is
    apart = [(problem.metric, problem.value(S), loss)]
    for one, gone in zip(limits.constraints, excess.tolist(), strict=True):
        apart.append((one.metric, one.limit, gone if one.is_floor else -gone))
    for metric, value, distance in apart:
        lower, upper = interval(value, trials(metric, S, n))
        if not lower <= value + distance <= upper:
            return False
    return True


def evaluated(problem: Problem, table: Table, mixture: Mixture, seed: int) -> Evaluated:
    """Build the rule of a mixture that decides on ``table``, and evaluate it."""

    metric = problem.metric
    (gains, weights) = mixture.gathered()
    gains = problem.oracle.allowed(table.with_ties_broken(gains))
    # a metric that brings its own decisions, such as a table of costs, names them
    names = metric.names and metric.names[1]
    layout = table.layout
    classes = table.head.classes
    n_decisions = gains.n_decisions if layout is None else layout.n_decisions
    names = names or (*classes, *extra_names(classes, n_decisions))
    kept = problem.limits.stored if problem.limits is not None else ()
    # a rule refuses coefficients that float64 cannot hold beside the largest; a division by a tiny share makes them
    parts = {**parts_of_rule(table), "cost_table": metric.cost_table}
    if len(classes) == 2:
        parts["positive"] = class_asked_about(metric, classes)
    rule = DecisionRule(held(gains), weights, names, repr(metric), seed, table.calibrator, kept, **parts)
    # a matrix of very many classes is computed if the metric reads it, but not kept
    few = table.n_classes <= MAX_MATRIX_CLASSES
    statistics = rule.evaluate(problem.oracle, matrix=few or problem.needs_matrix)
    value = float(metric.values(statistics))
    return Evaluated(rule, statistics if few else replace(statistics, matrix=None), value)
