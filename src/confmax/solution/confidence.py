"""Limits that hold on new data: rules with room to spare are tested on rows that tuned nothing.

Every row goes by chance to the rows that tune, calibration included, or to those that test. A path of rules is tuned,
with limits that are tightened from far to not at all. On the test rows the number of rows that count for a proportion
is binomial, and an exact one-sided test of the level ``1 - confidence`` says whether its limit is kept on new rows. The
rules are tested in the order of the path, from the safest on, and the last one before the first that fails is returned.
Then the chance that a limit of the returned rule is violated in truth is at most the level: for the path, because a
fixed sequence stops at the first rule that would be wrongly passed (Maurer, Hothorn and Lehmacher, 1995); for several
limits, because a rule must pass all tests (Berger, 1982). No correction is needed for either. Questions about one class
need no split: see `class_confidence.py`.

Rows are split by a hash of their content, their label and the number of equal rows before them, so the order of the
rows does not matter. Classes are not balanced between the parts: stratifying would hide variation that both halves
share.

Searches within limits that are tightened less and less: each starts from the rules of those before it.

The rows are calibrated once. The best rules within a tighter limit are near those within the next one, and the best
single rule that an earlier search has met is one of the starting rules. So the wide search for single rules, which
costs most, is not needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from confmax.calibration import Calibration
from confmax.constraints import Constraint, ConstraintOutcome, Limits
from confmax.constraints.each_class import Separated
from confmax.constraints.outcomes import on_labels
from confmax.constraints.proportions import counted_rows, trials
from confmax.errors import InputError, Sentence
from confmax.optimize import Mixture, Outcome, Problem, Progress
from confmax.optimize.along import Record, RecordingOracle, atoms_of
from confmax.optimize.loop import MISSED
from confmax.optimize.rounding import PROGRESS
from confmax.solution.class_confidence import class_to_test, out_of_reach, threshold_with_confidence
from confmax.solution.plan import Task, is_auto
from confmax.solution.result import Solution
from confmax.solution.search import Prepared, prepare
from confmax.solution.side_by_side import counted_by_draws, refuse_shared_rows, without_errors
from confmax.tables import MemoryTable
from confmax.tables.columns import warn
from confmax.tables.draws import FOLDS, row_keys, uniform

# standard errors by which the limits are tightened
STEPS = (16.0, 12.0, 8.0, 6.0, 5.0, 4.0, 3.0, 2.5, 2.0, 1.75, 1.5, 1.25, 1.0, 0.75, 0.5, 0.25, 0.0)
UNSHOWN = 4.0  # those of the rule that is returned where no rule passes
# share of the rows, and where half of them could not show a limit
TESTED = 0.5
MOST_TESTED = 0.75
SPARE = 1.2  # times the rows that show a limit if all of them keep it
UNEQUAL = Sentence(
    "`confidence` counts rows, and their weights are not equal; leave `sample_weight` out, or leave `confidence` out"
)


def tune_with_confidence(task: Task) -> Solution:
    """Return the best rule of the path whose limits hold on new rows with the confidence of the plan.

    The file's head says how. The rows must be labelled, and there are limits on shares of rows.
    """
    assert task.limits is not None
    _check_rows(task, task.limits)
    table = task.raw.in_memory()
    if table.weight is not None:
        task = task.but(raw=table.take(table.weight > 0.0))
    assert task.limits is not None
    k = class_to_test(task.metric, task.limits, task.raw.n_classes)
    if k is not None and _is_of_a_threshold(task):
        return threshold_with_confidence(task, k)
    apart = Separated.of(task.limits, task.raw.classes)
    limits = apart.limits
    tuning, side = _split(task.but(limits=limits))
    searches = Searches(tuning, len(STEPS))

    @cache
    def searched(step: float) -> Searched:
        place = STEPS.index(step)
        if place > 0:
            # whatever the rows that test say, a search follows the one before it on the path
            searched(STEPS[place - 1])
        return searches.following(_tightened(limits, step, side))

    def tested(solution: Solution) -> Solution:
        return _tested(solution, task, apart, side)

    passed = None
    failed = None
    for solution in _path(searched):
        if not _has_room(limits, solution):
            continue
        last = tested(solution)
        if not _is_assured(last):
            failed = last
            break
        passed = last
    if passed is not None:
        return passed
    if failed is None:
        # not even on the rows that tune the limits can be kept
        nearest = tested(searches.alone(limits))
        if nearest.infeasibility is None or len(limits) == len(task.limits):
            return nearest
        # what is tested class by class was asked for as one limit
        return replace(nearest, infeasibility=out_of_reach(task) or nearest.infeasibility)
    # the safest rule may decide one class alone: a rule with less room is of more use
    unshown = searched(UNSHOWN).solution
    if _has_room(limits, unshown):
        unshown = tested(unshown)
        # what passes after the safest has failed shows nothing
        failed = failed if _is_assured(unshown) else unshown
    warn(failed.guarantee)
    return failed


def _check_rows(task: Task, limits: Limits) -> None:
    """Raise a ValueError for rows that cannot test the ``limits``, such as those that the model was fitted on."""
    raw = task.raw
    if not raw.has_labels:
        raise ValueError("confidence tests the constraints on labels, and there are none; pass y")
    if not raw.is_whole:
        raise InputError("`confidence` splits the rows by chance, and these are read in parts", "pass `proba=array`")
    if counted_rows(raw) is None:
        raise InputError(UNEQUAL)
    if task.out_of_fold is not None:
        raise ValueError(
            "confidence tests rows that neither model nor rule were fitted on, and these are the model's own; tune on "
            "a hold-out, or on a model that is fitted already"
        )
    refuse_shared_rows(raw, limits)


def _is_of_a_threshold(task: Task) -> bool:
    """Whether the settings leave room for a threshold on the raw probability, on counts of the labels."""
    plan = task.plan
    calibration = plan.calibration
    # that of an earlier solution was chosen by confmax, unless it was given then
    chosen = calibration is None or is_auto(calibration)
    chosen |= isinstance(calibration, Calibration) and calibration.kind != "given"
    settings = plan.confusion in ("auto", "labels") and plan.randomized in ("auto", False)
    return task.abstain is None and plan.takes_threshold and chosen and settings


def _is_assured(solution: Solution) -> bool:
    return all(one.assured for one in solution.constraints)


def _path(searched: Callable[[float], Searched]) -> Iterator[Solution]:
    """Yield rules with less and less room.

    Where limits are out of reach, the nearest rule has the most room, and the last of these has it at the right limits.
    """
    nearest = None
    for step in STEPS:
        found = searched(step)
        if step > 0.0 and (found.is_out_of_reach or not found.solution.feasible):
            nearest = found
            continue
        if nearest is not None:
            yield nearest.solution
        nearest = None
        yield found.solution


def _has_room(limits: Limits, solution: Solution) -> bool:
    """Whether a rule of tightened limits keeps those that are wanted on the rows that tune."""
    return min(map(_slack, limits.constraints, solution.constraints)) >= 0.0


# --- the split --------------------------------------------------------------------------------------------------------


def _split(task: Task) -> tuple[Task, _Testing]:
    """Return the task on the rows that tune, and the rows that test."""
    table = task.raw.in_memory()
    limits = task.limits
    confidence = task.plan.confidence
    assert limits is not None and confidence is not None
    keys = row_keys(table)
    share = _share_tested(limits, table, confidence)
    test = _is_tested(table, keys, task.plan.random_state, share)
    side = _Testing(table.take(test), keys[test])
    # a bound on the rules that keep tightened limits is none on those that are wanted
    tuning = task.but(plan=task.plan.but(prove=False), raw=table.take(~test))
    return tuning, side


def _is_tested(table: MemoryTable, keys: NDArray[np.uint64], seed: int, share: float = TESTED) -> NDArray[np.bool_]:
    """Return which rows (n,) test; a row of every class tunes."""
    assert table.labels is not None
    draws = uniform(seed, keys, FOLDS)
    test = draws < share
    for k in np.unique(table.labels):
        mine = np.flatnonzero(table.labels == k)
        if test[mine].all():
            test[mine[np.argmax(draws[mine])]] = False
    return test


def _share_tested(limits: Limits, table: MemoryTable, confidence: float) -> float:
    """Return the share of the rows that test: half of them, or more where so few show no limit."""
    S = without_errors(table, limits.layout)
    share = TESTED
    for one in limits.constraints:
        odds = one.limit if one.is_floor else 1.0 - one.limit
        # of values that are compared, no number of rows is known beforehand
        if not one.across.compares and 0.0 < odds < 1.0:
            needed = SPARE * np.log(1.0 - confidence) / np.log(odds)
            n = min(trials(metric, S, table.n_rows) for metric in limits.members(one))
            share = max(share, min(needed / max(n, 1.0), MOST_TESTED))
    return float(share)


# --- the path and its tests -------------------------------------------------------------------------------------------


class _Testing(NamedTuple):
    """The rows that test, and their keys."""

    table: MemoryTable
    keys: NDArray[np.uint64]


def _tightened(limits: Limits, step: float, testing: _Testing) -> Limits:
    """Return the limits tightened by so many standard errors of the test rows, without reaching zero or one."""
    S = without_errors(testing.table, limits.layout)
    n = testing.table.n_rows

    def moved(one: Constraint) -> Constraint:
        sizes = [max(trials(metric, S, n), 1.0) for metric in limits.members(one)]
        return replace(one, limit=one.across.tightened(one.stated, sizes, step))

    return replace(limits, constraints=tuple(moved(one) for one in limits.constraints))


def _tested(found: Solution, task: Task, apart: Separated, testing: _Testing) -> Solution:
    """Return a solution with what the test rows say of its rule and of the limits that are wanted.

    The solution is one within the limits ``apart``, which are tightened there.
    """
    wanted = task.limits
    limits = apart.limits
    confidence = task.plan.confidence
    assert wanted is not None and confidence is not None
    S = counted_by_draws(found.rule, testing.table, testing.keys)
    whole = S if limits.layout is None else limits.layout.total(S)
    values = on_labels(found.constraints, limits, S, testing.table.n_rows)
    kept = []
    for one, outcome in zip(limits.constraints, values, strict=True):
        shares = [part.label_value or 0.0 for part in outcome.parts]
        sizes = [part.label_rows or 0 for part in outcome.parts]
        passes = one.across.passes(one.stated, shares, sizes, confidence)
        kept.append(
            replace(
                outcome,
                text=one.text,
                limit=one.limit,
                slack=_slack(one, outcome),
                assured=passes,
                rows_needed=None if passes else one.across.rows_needed(one.stated, shares, confidence),
            )
        )
    value = None
    if whole.matrix is not None or found.metric.statistics != "matrix":
        value = float(found.metric.values(whole))
    rule = replace(found.rule, constraints=wanted.stored)
    outcomes = apart.joined(wanted, kept)
    why = found.infeasibility
    if why is not None and any(map(_differ, found.constraints, limits.constraints)):
        # it names the tightened limits
        missed = [one.text for one in outcomes if not one.kept]
        why = f"no rule that keeps {', '.join(missed)} was met on the rows that tune" if missed else None
    # nor is one that the search itself has found
    return replace(
        found,
        rule=rule,
        upper_bound=None,
        label_value=value,
        constraints=outcomes,
        confidence=confidence,
        infeasibility=why,
        doubt=None,
    )


def _differ(outcome: ConstraintOutcome, one: Constraint) -> bool:
    """Whether an outcome is that of a tightened limit."""
    return outcome.limit != one.limit


def _slack(one: Constraint, outcome: ConstraintOutcome) -> float:
    """Return by how much a limit that is wanted is kept on the rows that tune, where a tightened one was set."""
    slack = (outcome.value - one.limit) * (1.0 if one.is_floor else -1.0)
    return 0.0 if outcome.vacuous or -MISSED <= slack < 0.0 else slack


# --- searches within limits that are tightened less and less ----------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Searched:
    """The outcome of one search; its solution is computed if somebody reads it."""

    search: Prepared
    problem: Problem
    outcome: Outcome

    @property
    def is_out_of_reach(self) -> bool:
        """Whether no rule that keeps the limits was met, not even one that draws."""
        return self.problem.shortfall(self.outcome.mixture.confusion) > 0.0

    @cached_property
    def solution(self) -> Solution:
        """The solution, which is the closest one where the limits are out of reach."""
        return self.search.solution(self.problem, self.search.closest(self.problem, self.outcome))


class Searches:
    """The searches of a ``task`` with other numbers in its limits, of which there are ``count`` at most."""

    def __init__(self, task: Task, count: int) -> None:
        self.count = count
        self.begun = 0
        if task.plan.callback is not None:
            task = task.but(plan=task.plan.but(callback=partial(self._numbered, task.plan.callback)))
        self.prepared = prepare(task).sorting_once()
        self.limits = self.prepared.limits
        self.record = Record(self.prepared.read, matrix=self.prepared.problem().needs_matrix)
        self.rules: tuple[Mixture, ...] = ()

    def alone(self, limits: Limits) -> Solution:
        """Return the solution within ``limits`` of a search that nothing else has an effect on."""
        # no further one follows it
        self.begun = self.count
        return self.prepared.within(self._placed(limits), self.prepared.oracle.anew()).search()

    def following(self, limits: Limits) -> Searched:
        """Return a search within ``limits`` that starts from what those before it have met."""
        self.begun += 1
        placed = self._placed(limits)
        pairs = zip(self.limits.constraints, placed.constraints, strict=True)
        moved = np.array([one.stated.sign * (one.limit - tightened.limit) for one, tightened in pairs])
        search = self.prepared.within(placed, RecordingOracle(self.prepared.oracle, self.record), self.rules)
        problem = search.problem()
        known = self.record.best(moved, problem.rounding)
        starts = problem.starts if known is None else (*problem.starts, known)
        # rows that test tell no smaller differences apart
        problem = replace(problem, starts=starts, refines=True, tol=max(problem.tol, PROGRESS))
        outcome = search.run_once(problem)
        self.rules = atoms_of(outcome)
        return Searched(search, problem, outcome)

    def _numbered(self, callback: Callable[[Progress], Any], progress: Progress) -> Any:
        """Call back with the number of the search."""
        return callback(replace(progress, search=self.begun, n_searches=self.count))

    def _placed(self, limits: Limits) -> Limits:
        """Return the limits of the search with the numbers of others."""
        return replace(self.limits, constraints=limits.constraints)
