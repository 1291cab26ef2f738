"""Limits that hold on new data: rules with room to spare are tested on rows that tuned nothing.

Every row goes by chance to the rows that tune, calibration included, or to those that test. A path of rules is tuned,
with limits that are tightened from far to not at all. On the test rows the number of rows that count for a proportion
is binomial, and an exact one-sided test of the level ``1 - confidence`` says whether its limit is kept on new rows. The
rules are tested in the order of the path, from the safest on, and the last one before the first that fails is returned.
Then the chance that a limit of the returned rule is violated in truth is at most the level: for the path, because a
fixed sequence stops at the first rule that would be wrongly passed (Maurer, Hothorn and Lehmacher, 1995); for several
limits, because a rule must pass all tests (Berger, 1982). No correction is needed for either. Questions about one class
need no split: see `class_confidence.py`.

A limit that reads several classes or groups is a limit for each of them, with room by its own number of rows: a share
of few rows needs more room to pass. The first rule of the path has the most room that is within reach, and would pass
on rows like those that tune. Between the rules of two searches lie others, whose gains are between theirs: where both
decide alike, so do these. So the path moves by small steps, and one class whose test rows are unlucky stops it late.
All of this is fixed by the rows that tune, and by how many rows there are.

A rule draws only where that was asked for. What is tested is what `DecisionRule.predict` makes of a row: the draws of
one seed are a function of the row, and equal rows are decided alike. So such a rule is a single one, too.

Rows are split by a hash of their content, their label and the number of equal rows before them, so neither the order of
the rows nor their division into parts matters. Classes are not balanced between the two sides: stratifying would hide
variation that both share.

Searches within limits that are tightened less and less: each starts from the rules of those before it.

The rows are calibrated once. The best rules within a tighter limit are near those within the next one, and the best
single rule that an earlier search has met is one of the starting rules. So the wide search for single rules, which
costs most, is not needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.calibration import Calibration
from confmax.confusion import Array, Gains
from confmax.constraints import Constraint, ConstraintOutcome, Limits
from confmax.constraints.each_class import Separated
from confmax.constraints.outcomes import Blocking, on_labels
from confmax.constraints.proportions import counted_rows, trials
from confmax.errors import InputError, Sentence
from confmax.optimize import Mixture, Outcome, Problem, Progress
from confmax.optimize.along import Record, RecordingOracle, atoms_of
from confmax.optimize.loop import MISSED
from confmax.optimize.rounding import PROGRESS
from confmax.rule import DecisionRule
from confmax.solution.class_confidence import class_to_test, out_of_reach, threshold_with_confidence
from confmax.solution.plan import Task, is_auto
from confmax.solution.result import Solution
from confmax.solution.returned import evaluated, solution_of
from confmax.solution.search import Prepared, prepare
from confmax.solution.side_by_side import counted_as_predicted, refuse_shared_rows, without_errors
from confmax.tables import Part, Table
from confmax.tables.array.kind import ARRAYS
from confmax.tables.columns import warn
from confmax.tables.draws import FOLDS, row_keys, uniform
from confmax.tables.groups import Groups

# standard errors by which the limits of searches are tightened
STEPS = (12.0, 8.0, 6.0, 4.5, 3.0, 1.5, 0.0)
BETWEEN = 6  # steps of the path from the rule of one search to that of the next
SMALLER = 10.0  # times: the level at which the first rule passes on rows like those that tune
UNSHOWN = 4.5  # standard errors of the rule that is returned where no rule passes
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
    if task.raw.n_weighted < task.raw.n_rows:
        (counts,) = task.raw.each_row(_have_weight, "`confidence`")
        task = task.but(raw=task.raw.rows_where(counts))
    assert task.limits is not None
    k = class_to_test(task.metric, task.limits, task.raw.n_classes)
    if k is not None and _is_of_a_threshold(task):
        return threshold_with_confidence(task, k)
    if is_auto(task.plan.randomized):
        task = task.but(plan=task.plan.but(randomized=False))
    assert task.limits is not None
    apart = Separated.of(task.limits, task.raw.classes)
    limits = apart.limits
    tuning, side = _split(task.but(limits=limits))
    sizes = _sizes(limits, tuning.raw, side.n_rows)
    searches = Searches(tuning, len(STEPS))

    @cache
    def searched(step: float) -> Searched:
        place = STEPS.index(step)
        if place > 0:
            # whatever the rows that test say, a search follows the one before it on the path
            searched(STEPS[place - 1])
        return searches.following(_tightened(limits, step, sizes))

    def tested(solution: Solution) -> Solution:
        return replace(_tested(solution, task, apart, side), missed_by=searches.missed_by)

    passed = None
    failed = None
    rules = (one for one in _path(searched, searches) if _has_room(limits, one))
    confidence = task.plan.confidence
    assert confidence is not None
    for solution in _from_first(rules, lambda one: _would_pass(limits, sizes, one, side.n_rows, confidence)):
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


def _path(searched: Callable[[float], Searched], searches: Searches) -> Iterator[Solution]:
    """Yield rules with less and less room.

    The rule that is nearest to limits out of reach is the first, if it has the room of those within reach.
    """
    nearest = None
    last = None
    for step in STEPS:
        found = searched(step)
        if last is None and step > 0.0 and (found.is_out_of_reach or not found.solution.feasible_on_estimate):
            nearest = found
            continue
        if last is None and nearest is not None and found.problem.shortfall(nearest.outcome.single.confusion) == 0.0:
            last = nearest
            yield last.solution
        if last is not None:
            yield from searches.between(last, found)
        last = found
        yield last.solution


def _from_first(rules: Iterator[Solution], would_pass: Callable[[Solution], bool]) -> Iterator[Solution]:
    """Yield the rules from the first that would pass its tests on; all of them where there is none."""
    before = []
    for one in rules:
        if would_pass(one):
            yield one
            yield from rules
            return
        before.append(one)
    yield from before


def _would_pass(
    limits: Limits, sizes: Sequence[Sequence[float]], solution: Solution, n_tested: int, confidence: float
) -> bool:
    """Whether a rule passes, even at a smaller level, where the rows that test are like those that tune.

    A rule that decides next to nothing as a class keeps a floor on its precision, and no row shows it.
    """
    surely = 1.0 - (1.0 - confidence) / SMALLER
    every = zip(limits.constraints, sizes, solution.constraints, strict=True)
    return all(
        one.across.passes(
            one.stated,
            [part.value for part in outcome.parts],
            rows if one.of_groups else [trials(one.metric, solution.statistics, n_tested)],
            surely,
        )
        for one, rows, outcome in every
    )


def _has_room(limits: Limits, solution: Solution) -> bool:
    """Whether a rule of tightened limits keeps those that are wanted on the rows that tune."""
    return min(map(_slack, limits.constraints, solution.constraints)) >= 0.0


# --- the split --------------------------------------------------------------------------------------------------------


def _split(task: Task) -> tuple[Task, Table]:
    """Return the task on the rows that tune, and the rows that test: the same ones for every division into parts."""
    table = task.raw
    limits = task.limits
    confidence = task.plan.confidence
    assert limits is not None and confidence is not None
    share = _share_tested(limits, table, confidence)
    hashes, labels, codes = table.each_row(_names_of_rows, "the split of `confidence`")
    # what tells rows apart is all that the split reads
    rows = Part(ARRAYS, np.empty((len(labels), 0)), hashes=hashes, labels=labels, weight=None, classes=table.classes)
    groups = None if limits.layout is None else Groups(table.groups.names, codes)
    keys = row_keys(rows, None if groups is None else codes)
    test = _is_tested(rows, keys, task.plan.random_state, share, groups)
    # a bound on the rules that keep tightened limits is none on those that are wanted
    tuning = task.but(plan=task.plan.but(prove=False), raw=table.rows_where(~test))
    return tuning, table.rows_where(test)


def _names_of_rows(part: Part) -> tuple[NDArray[Any], ...]:
    """Return the hash of every row (n,) of a part, its label and its group."""
    assert part.labels is not None
    codes = np.zeros(part.n_rows, np.int32) if part.groups is None else part.groups.codes
    return part.row_hashes(), part.labels.astype(np.int32), codes.astype(np.int32)


def _have_weight(part: Part) -> tuple[NDArray[np.bool_]]:
    """Return which rows (n,) of a part have weight."""
    return (part.weights > 0.0,)


def _is_tested(
    table: Part, keys: NDArray[np.uint64], seed: int, share: float = TESTED, groups: Groups | None = None
) -> NDArray[np.bool_]:
    """Return which rows (n,) test; a row of every class tunes, of every one of limited ``groups``."""
    assert table.labels is not None
    draws = uniform(seed, keys, FOLDS)
    test = draws < share
    codes = np.zeros_like(table.labels) if groups is None else groups.codes
    cells = codes * table.n_classes + table.labels
    for cell in np.unique(cells):
        mine = np.flatnonzero(cells == cell)
        if test[mine].all():
            test[mine[np.argmax(draws[mine])]] = False
    if groups is not None:
        _test_every_group(groups, draws, test)
    return test


def _test_every_group(groups: Groups, draws: Array, test: NDArray[np.bool_]) -> None:
    """Take a row of every group among those that ``test`` (n,), the one with the least draw; a ValueError for one."""
    for g, name in enumerate(groups.names):
        mine = np.flatnonzero(groups.codes == g)
        if len(mine) == 1:
            raise InputError(
                f"`confidence` tests a limit of groups on rows that tuned nothing, and group {name!r} has one row",
                "join it with another group",
            )
        if not test[mine].any():
            test[mine[np.argmin(draws[mine])]] = True


def _share_tested(limits: Limits, table: Table, confidence: float) -> float:
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


def _sizes(limits: Limits, tuning: Table, n_tested: int) -> list[list[float]]:
    """Return of about how many of the rows that test every value of every limit is a share.

    The labels of the rows that tune say so, since those that test have no part in the path.
    """
    S = without_errors(tuning, limits.layout)
    return [[max(trials(one, S, n_tested), 1.0) for one in limits.members(each)] for each in limits.constraints]


def _tightened(limits: Limits, step: float, sizes: Sequence[Sequence[float]]) -> Limits:
    """Return the limits with so many standard errors of ``sizes`` rows of room, without reaching zero or one."""

    def moved(one: Constraint, rows: Sequence[float]) -> Constraint:
        number, across = one.across.tightened(one.stated, rows, step)
        return replace(one, limit=number, across=across)

    return replace(limits, constraints=tuple(map(moved, limits.constraints, sizes)))


def _tested(found: Solution, task: Task, apart: Separated, side: Table) -> Solution:
    """Return a solution with what the test rows say of its rule and of the limits that are wanted.

    The solution is one within the limits ``apart``, which are tightened there.
    """
    wanted = task.limits
    limits = apart.limits
    confidence = task.plan.confidence
    assert wanted is not None and confidence is not None
    S = counted_as_predicted(found.rule, side)
    whole = S if limits.layout is None else limits.layout.total(S)
    values = on_labels(found.constraints, limits, S, side.n_rows, side.classes)
    kept = []
    never = _never_decided(found.rule, limits)
    for one, outcome in zip(limits.constraints, values, strict=True):
        parts: Sequence[Any] = outcome.parts
        place = one.metric.class_place
        if one.is_floor and place is not None and one.metric.formula.side == "decided" and not one.across.compares:
            # no row can be one of those whose share the precision is
            parts = [part for part, none in zip(parts, never[:, place], strict=True) if not none]
        shares = [part.label_value or 0.0 for part in parts]
        sizes = [part.label_rows or 0 for part in parts]
        passes = one.across.passes(one.stated, shares, sizes, confidence)
        alone = [] if passes or one.across.compares else zip(parts, shares, sizes, strict=True)
        blocking = tuple(
            Blocking(
                f"group {part.group}" if part in outcome.by_group else "",
                share,
                n,
                one.across.rows_needed(one.stated, [share], confidence),
            )
            for part, share, n in alone
            if not one.across.passes(one.stated, [share], [n], confidence)
        )
        kept.append(
            replace(
                outcome,
                text=one.text,
                limit=one.limit,
                slack=_slack(one, outcome),
                # that of the search is one of the tightened limit
                price=None,
                assured=passes,
                rows_needed=None if passes else _rows_needed(one, shares, blocking, confidence),
                blocking=blocking,
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
        missed = [one.text for one in outcomes if not one.kept_on_estimate]
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


def _rows_needed(
    one: Constraint, shares: Sequence[float], blocking: Sequence[Blocking], confidence: float
) -> int | None:
    """Return about how many rows a limit needs: of those whose tests fail the largest number, where they are known."""
    if not blocking:
        return one.across.rows_needed(one.stated, shares, confidence)
    needed = [part.rows_needed for part in blocking]
    return None if None in needed else max(n for n in needed if n is not None)


def _never_decided(rule: DecisionRule, limits: Limits) -> NDArray[np.bool_]:
    """Return the decisions that no row of a group can get (G, M), of all rows where there are no groups (1, M).

    Some other decision has a larger score at every corner of the simplex.
    """
    layout = limits.layout
    parts = [rule.gains] if layout is None else [layout.gains_of(rule.gains, g) for g in range(layout.n_groups)]
    scores = np.stack([part.matrices() for part in parts])
    smaller = np.all(scores[..., :, None] < scores[..., None, :], axis=-3)
    return np.asarray(smaller.any(axis=-1).all(axis=1))


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
        """The solution, of the rule that misses the limits by least where they are out of reach."""
        return self.search.solution(self.problem, self.outcome)


class Searches:
    """The searches of a ``task`` with other numbers in its limits, of which there are ``count`` at most."""

    def __init__(self, task: Task, count: int) -> None:
        self.count = count
        self.begun = 0
        if task.plan.callback is not None:
            task = task.but(plan=task.plan.but(callback=partial(self._numbered, task.plan.callback)))
        self.prepared = prepare(task).sorting_once()
        # other rows test them
        self.limits = self.prepared.limits.untested
        self.record = Record(self.prepared.read, matrix=self.prepared.problem().needs_matrix)
        self.rules: tuple[Mixture, ...] = ()

    @cached_property
    def missed_by(self) -> tuple[str, ...]:
        """The rules to compare with that miss a limit, as it is wanted, on the rows that tune."""
        return self.prepared.missed_by(replace(self.prepared.problem(), limits=self.limits))

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

    def between(self, first: Searched, second: Searched) -> Iterator[Solution]:
        """Yield solutions whose rules lie between those of two searches, from the first to the second.

        Their gains are between those of the two. There is none between rules that draw, or are calibrated otherwise.
        """
        a = first.solution.rule
        known = second.solution
        b = known.rule
        if a.is_randomized or b.is_randomized or a.calibrator is not b.calibrator:
            return
        # within the limits that are wanted
        problem = replace(second.problem, limits=self.limits)
        table = problem.oracle.table
        table = table if table.calibrator is a.calibrator else table.calibrated(a.calibrator)
        for part in np.arange(1, BETWEEN) / BETWEEN:
            gains = a.gains.times((1.0 - part) / _scale(a.gains)).plus(b.gains, part / _scale(b.gains))
            rule = Mixture.single(gains, second.outcome.single.confusion)
            best = evaluated(problem, table, rule, b.seed)
            best = best._replace(rule=replace(best.rule, abstain=b.abstain, columns=b.columns))
            yield solution_of(problem, second.outcome, best, known.baselines, known.mode, known.calibration)

    def _numbered(self, callback: Callable[[Progress], Any], progress: Progress) -> Any:
        """Call back with the number of the search."""
        return callback(replace(progress, search=self.begun, n_searches=self.count))

    def _placed(self, limits: Limits) -> Limits:
        """Return the limits of the search with the numbers of others."""
        return replace(self.limits, constraints=limits.constraints)


def _scale(gains: Gains) -> float:
    """Return the largest coefficient of gains."""
    parts = gains.coefficients() if gains.full is None else (gains.full,)
    return float(max(np.abs(part).max() for part in parts)) or 1.0
