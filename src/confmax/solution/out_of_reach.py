"""What is said where no rule keeps all constraints: which is out of reach, and how far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from confmax.constraints import Constraint, ConstraintOutcome, Limits
from confmax.errors import Sentence
from confmax.metrics import Metric
from confmax.metrics.limited import negative
from confmax.metrics.views import without_view
from confmax.optimize import ColumnGeneration, Outcome, Problem, Solver, Status, choose, run
from confmax.optimize.auto import class_of
from confmax.optimize.class_cuts import least_rows
from confmax.optimize.column_generation import refused_within_limits
from confmax.optimize.cuts import Cuts
from confmax.optimize.estimate import Estimate
from confmax.solution.plan import may_read_again
from confmax.tables import Table

TOLERANCE = 1e-4  # of the largest value that one limit's quantity reaches under the others
SHOWN = 4  # constraints in a sentence
SPARE = 1e-9  # by which a limit is looser than what the closest rule reaches


def best_of_closest(problem: Problem, outcome: Outcome, solver: Solver) -> Outcome:
    """Return the best rule for the metric among those that miss the limits by no more than the closest one.

    The closest rule says nothing of what its limits leave open. So the limits that it misses are loosened to what it
    reaches, and the metric is maximised within them. The outcome is returned as it is where a rule keeps all limits.
    """
    limits: Any = problem.limits
    S = outcome.mixture.confusion
    stopped = outcome.status is Status.STOPPED or problem.shortfall(S) == 0.0
    # of what is decided, a metric is bounded by the least coverage that the limits ask for
    if limits is None or stopped or without_view(problem.metric).formula.is_of_decided:
        return outcome
    reached = limits.values(S).tolist()
    missed = limits.slacks(S) < 0.0
    loosened = tuple(
        _loosened(one, value) if far else one
        for one, value, far in zip(limits.constraints, reached, missed, strict=True)
    )
    part = replace(
        problem,
        limits=replace(limits.untested, constraints=loosened),
        starts=(outcome.mixture, outcome.single),
        sample=None,
        max_passes=problem.oracle.n_passes + solver.budget,
        refines=False,
    )
    found = run(solver, part)
    if part.shortfall(found.mixture.confusion) > 0.0:
        return outcome
    return replace(outcome, mixture=found.mixture, single=found.single, mixed=found.mixed)


def _loosened(one: Constraint, value: float) -> Constraint:
    """Return a constraint whose limit a ``value`` of its quantity just keeps, within the range of the quantity."""
    low, high = one.range
    return replace(one, limit=max(low, value - SPARE) if one.is_floor else min(high, value + SPARE))


def infeasibility(problem: Problem, status: Status, kept: Sequence[ConstraintOutcome], *, drawn: bool) -> str:
    """Return in a sentence that no rule keeps all constraints, and how far the first that fails can be met.

    ``drawn`` says that a rule that draws keeps them, and none was asked for.
    """
    limits: Any = problem.limits
    if drawn:
        listed = ", ".join(limits.texts[:SHOWN])
        way_out = "`randomized=True` returns one that draws and keeps them"
        return Sentence(f"no single rule that keeps {listed} was met; {way_out}")
    by_thresholds = None if status in (Status.STOPPED, Status.MAX_PASSES) else _by_thresholds(problem)
    if by_thresholds is not None:
        return by_thresholds
    texts = ", ".join(limits.texts[:SHOWN]) + (", ..." if len(limits) > SHOWN else "")
    if status is not Status.INFEASIBLE:
        missed = "; ".join(f"{one.text} at {one.value:.4g}" for one in kept if not one.kept_on_estimate)
        proof = "none was proved impossible" if problem.oracle.exact else "counts of labels prove nothing"
        passes = problem.oracle.n_passes
        spent = status in (Status.STOPPED, Status.MAX_PASSES) or not may_read_again(problem.oracle.table)
        reached = "" if spent or problem.oracle.exact else _reached(problem, limits)
        return (
            f"no rule that keeps {texts} was met in {passes} passes, and {proof} (the nearest rule misses {missed})"
            f"{': of the rules met, ' + reached if reached else ''}"
        )
    # a blend that is all model is proved by the model, and the caller did not say that it is to be trusted
    proved = "proved" if problem.certify else "proved, if the probabilities are right"
    reached = _reached(problem, limits)
    if not reached:
        nearest = ", ".join(f"{one.text} at {one.value:.4g}" for one in kept[:SHOWN])
        return f"no rule on this table keeps {texts} ({proved}); the nearest rule has {nearest}"
    return f"no rule on this table keeps {texts}: {reached} ({proved})"


def _reached(problem: Problem, limits: Limits) -> str:
    """Return how far every limit must be loosened if the others stay, the least change first; empty if not known."""
    known = []
    for k, one in enumerate(limits.constraints[:SHOWN]):
        value = _best_under_others(problem, limits, k)
        if value is not None:
            known.append((abs(value - one.limit), one, value))
    several = len(limits) > 1
    others = f" under the other limit{'s' if len(limits) > 2 else ''}" if several else ""
    said = []
    for change, one, value in sorted(known, key=lambda part: part[0]):
        quantity = one.across.text(one.metric, one.sense)
        by = f", {change:.3g} {'below' if one.is_floor else 'above'} its limit" if several else ""
        said.append(f"{quantity} {'reaches at most' if one.is_floor else 'is at least'} {value:.4g}{others}{by}")
    return "; ".join(said)


def _best_under_others(problem: Problem, limits: Limits, k: int) -> float | None:
    """Return a bound on the quantity of limit ``k`` under the other ones; where nothing is proved, the best value met.

    None if it is not known, and if it keeps its limit there: then the others cannot be kept together.
    """
    one = limits.constraints[k]
    if one.of_groups:
        return None
    metric, rest = _apart(limits, k)
    sign = 1.0
    if not one.is_floor:
        opposite = negative(metric)
        if opposite is None:
            return None
        metric, sign = opposite, -1.0
    if problem.oracle.exact and rest is None and not metric.structure.is_minimum:
        solver = choose("auto", metric, len(problem.oracle.rows), problem.n_decisions, exact=True, sorts=False)
    else:
        solver = ColumnGeneration()
    matrix = "matrix" in (metric.statistics, limits.statistics)
    if (matrix and not problem.needs_matrix) or refused_within_limits(metric) is not None:
        return None
    part = replace(
        problem,
        metric=metric,
        limits=rest,
        tol=TOLERANCE,
        wants_single=False,
        sample=None,
        max_passes=problem.oracle.n_passes + solver.budget,
    )
    outcome = run(solver, part)
    if outcome.status is Status.INFEASIBLE or part.shortfall(outcome.mixture.confusion) > 0.0:
        return None
    value = outcome.upper_bound if problem.oracle.exact else part.value(outcome.mixture.confusion)
    if value is None:
        return None
    far = sign * value
    # a bound beyond the limit says nothing
    return far if (one.limit - far) * sign > 0.0 else None


def _apart(limits: Limits, k: int) -> tuple[Metric, Limits | None]:
    """Return the metric that limit ``k`` is on, and the other limits; None if there are none."""
    return limits.members(limits.constraints[k])[0], limits.without(k)


def _by_thresholds(problem: Problem) -> str | None:
    """Return in a sentence that no threshold of a class keeps the limits, and what the model and the labels allow."""
    limits = problem.limits
    table = problem.oracle.table
    k = class_of(problem.metric, limits, table.n_classes)
    return None if limits is None or k is None else table.sorting(lambda: _said_of_thresholds(table, limits, k), None)


def _said_of_thresholds(table: Table, limits: Limits, k: int) -> str | None:
    within = replace(limits, kept_by_none=False).of_class(1, 2)
    said = []
    model = _reached_by_thresholds([Cuts.of(Estimate.alike(table, 1.0).one_class(k))], within, on_labels=False)
    if model is not None:
        said.append(f"the model expects {model}")
    if table.has_labels:
        # labels are asked for thresholds on the raw probability, too
        orders = [table] if table.calibrator is None else [table, table.calibrated(None)]
        cuts = [Cuts.of(Estimate.alike(one, 0.0).one_class(k)) for one in orders]
        labels = _reached_by_thresholds(cuts, within, on_labels=True)
        said += [] if labels is None else [f"the labels show {labels}"]
    name = table.classes[k]
    return f"no threshold on p({name}) keeps {', '.join(limits.texts)}: {', and '.join(said)}" if said else None


def _reached_by_thresholds(every: Sequence[Cuts], limits: Limits, *, on_labels: bool) -> str | None:
    """Return how far each limit is met that cannot be kept, by thresholds that keep the others, the nearest first.

    The cuts are those of ``every`` order of the rows.
    """
    said = []
    slacks = [limits.slacks(cuts.confusions) for cuts in every]
    for j, one in enumerate(limits.constraints):
        alone = replace(limits, constraints=(one,))
        wanted, least = (alone.least_rows, least_rows(every[0], alone)) if on_labels else (1, 1)
        enough = [
            (np.delete(part, j, axis=-1) >= 0.0).all(axis=-1) & (cuts.rows >= least)
            for cuts, part in zip(every, slacks, strict=True)
        ]
        reached = [float(part[some, j].max()) for part, some in zip(slacks, enough, strict=True) if some.any()]
        if reached and max(reached) < 0.0:
            far = one.limit + max(reached) * one.stated.sign
            about = one.across.text(one.metric, one.sense) + " " if len(limits.constraints) > 1 else ""
            among = f" on {least:,} rows or more" if least > 1 else ""
            # more rows than the class has cannot be right
            among += f" ({wanted:,} would be needed to show it)" if wanted > least else ""
            said.append((-max(reached), f"{about}at {'most' if one.is_floor else 'least'} {far:.3g}{among}"))
    return " or ".join(text for _, text in sorted(said)) or None
