"""Limits on one class that hold on new data: thresholds on its raw probability, tested on all rows.

The order of the rows by the raw probability of a class does not depend on their labels, so no row need be kept apart to
test. Of two classes every single rule is such a threshold, whatever is maximised. A threshold is named by the number of
rows that it decides as the class, its *count*.

* A limit on the recall, the rate, the specificity or the false positive rate is kept by all counts on one side of an
  order statistic. One exact binomial test, at the whole error, says which: the tolerance limits of Wilks,
  "Determination of sample sizes for setting tolerance limits", Annals of Mathematical Statistics 12 (1941).
* A floor on the precision is tested in fixed sequences toward more decisions (Maurer, Hothorn and Lehmacher, 1995).
  They start at the counts that the sum of the probabilities and its half name, and at the least count that passes with
  two misses, go on in steps of 3 %, and share the error. A sequence ends with its first count that fails. A floor on
  the negative predictive value is one on the precision of "not the class": the same sequences count the other rows.
* Several limits must all pass, each at the whole error (Berger, 1982).

Of rows in parts the probability of the class, and whether a row has it, are brought to one place.

The promise is one for independent rows. Copies of rows break it, and a warning says where rows look like copies.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from confmax.calibration import choose
from confmax.confusion import Array, Confusion
from confmax.constraints import Constraint, Limits
from confmax.constraints.proportions import chances_of_counts, rows_for_floor, rows_needed, trials
from confmax.metrics import Metric
from confmax.optimize.auto import class_of
from confmax.optimize.class_cuts import gains_of_cuts
from confmax.optimize.cuts import Cuts
from confmax.optimize.estimate import class_on_labels, probability_of_class
from confmax.optimize.given import GivenRule
from confmax.solution.one_class import for_raw_order
from confmax.solution.plan import Plan, Task
from confmax.solution.result import Solution
from confmax.solution.search import search
from confmax.tables import Table
from confmax.tables.columns import warn

# where sequences of tests start: parts of the sum of the probabilities, and the least count that passes with so many
# misses, for a floor that is higher than the model of most rows
STARTS = (1.0, 0.5)
MISSES = 2
RATIO = 1.03  # of a count to the one before it in a sequence
FEW_EXPECTED = 0.25  # of the pairs of equal rows whose labels should differ, differ among copies
LEAST_PAIRS = 5.0  # pairs of equal rows whose labels should differ, below which nothing is said


def class_to_test(metric: Metric, limits: Limits, n_classes: int) -> int | None:
    """Return the class whose thresholds are tested on all rows; None where rows that tune are kept apart from others.

    These are questions about one class, if the thresholds that pass the test of every limit are known.
    """
    k = class_of(metric, limits, n_classes)
    if k is None and n_classes == metric.n_decisions(2) == 2 and metric.statistics != "matrix":
        # every single rule of two classes is a threshold
        k = limits.only_class
    if k is None or not all(map(_counts_follow_thresholds, limits.constraints)):
        return None
    return k


def _counts_follow_thresholds(one: Constraint) -> bool:
    """Whether the thresholds that pass the test of a limit are known.

    They are if its rows do not depend on the rule, and for a floor on a share of the rows on one side of a threshold.
    """
    return one.metric.structure.is_linear or (one.metric.formula.side is not None and one.is_floor)


def threshold_with_confidence(task: Task, k: int) -> Solution:
    """Return the best threshold on the raw probability of class ``k`` whose limits hold with the plan's confidence.

    The rows are labelled and of equal weight; the limits read class ``k`` alone, and so does the metric of more
    than two classes. The calibration is that of the other classes; the class keeps its raw probability. Warn if no
    threshold passes, or rows look like copies.
    """
    plan = task.plan
    table = task.raw
    limits = task.limits
    confidence = plan.confidence
    seed = plan.random_state
    assert limits is not None and confidence is not None
    column = class_on_labels(table, k)
    cuts = Cuts.of(column)
    within = limits.of_class(1, 2)
    tests = _Tests(cuts, within, float(column.key.sum()), 1.0 - confidence)
    passed = np.logical_and.reduce([tests.passed(one) for one in within.constraints])
    assured = bool(passed.any())
    index = cuts.among(passed).best(_values(task.metric, cuts, k), 0.0) if assured else tests.nearest()
    gains = gains_of_cuts(cuts, [index], k, table.n_classes, table.dtype)
    given = Plan(
        plan.metric,
        confusion="labels",
        calibration=for_raw_order(choose(table, plan.calibration, seed=seed), table.sample, k, seed),
        solver=GivenRule(gains),
        randomized=False,
        random_state=seed,
        callback=plan.callback,
    )
    found = search(Task(given, task.metric, task.raw, replace(limits, kept_by_none=False)))
    kept = []
    for one, outcome in zip(within.constraints, found.constraints, strict=True):
        holds = bool(tests.passed(one)[index])
        share = outcome.label_value or 0.0
        needed = rows_needed(share, one.limit, is_floor=one.is_floor, confidence=1.0 - tests.error_of(one))
        if holds or (needed is not None and needed <= (outcome.label_rows or 0)):
            # it would pass alone, and a test before it has failed
            needed = None
        kept.append(replace(outcome, assured=holds, rows_needed=needed))
    why = None
    if not assured and tests.are_out_of_reach:
        why = out_of_reach(task)
    solution = replace(found, constraints=tuple(kept), confidence=confidence, tested_on="all rows", infeasibility=why)
    _warn_of_copies(table)
    if not assured and why is None:
        warn(solution.guarantee)
    return solution


def _values(metric: Metric, cuts: Cuts, k: int) -> Array:
    """Return the values (T,) of a metric of class ``k``, or of two classes, at all cuts of this class."""
    S = cuts.confusions
    if metric.class_place == k:
        return np.asarray(metric.of_class(1, 2).values(S))
    order = [0, 1] if k else [1, 0]
    values = metric.values(Confusion(S.rows[order], S.diagonal[:, order], S.columns[:, order]))
    return np.asarray(np.nan_to_num(values, nan=-np.inf))


def out_of_reach(task: Task) -> str | None:
    """Return why no rule keeps the limits of a task even without its confidence: more rows would not help."""
    return search(task.but(plan=task.plan.but(confidence=None, callback=None))).infeasibility


@dataclass(frozen=True, eq=False)
class _Tests:
    """The tests of all thresholds ``cuts`` of a class, with the ``limits`` placed among two columns.

    ``expected`` is the sum of the probabilities of the class, and ``error`` that of every test.
    """

    cuts: Cuts
    limits: Limits
    expected: float
    error: float

    def passed(self, one: Constraint) -> NDArray[np.bool_]:
        """Return which thresholds (T,) pass the test of a limit."""
        chances = self.chances(one)
        if one.metric.formula.side is None:
            return np.asarray(chances <= self.error)
        good = np.zeros(len(chances), dtype=np.bool_)
        for sequence in self.sequences(one):
            held = chances[sequence] <= self.error_of(one)
            good[sequence[: len(held) if held.all() else int(np.argmin(held))]] = True
        return good

    def rows(self, one: Constraint) -> NDArray[np.int64]:
        """Return how many rows (T,) the quantity of a limit is a share of, at every threshold."""
        decided = self.cuts.rows
        n = int(decided[-1])
        if one.metric.formula.side == "decided":
            return decided
        if one.metric.formula.side == "others":
            return n - decided
        return np.full(len(decided), round(trials(one.metric, self.cuts.confusions[0], n)))

    def chances(self, one: Constraint) -> Array:
        """Return the p-value (T,) of a limit at every threshold."""
        rows = self.rows(one)
        counts = np.round(one.metric.values(self.cuts.confusions) * rows)
        return chances_of_counts(counts, rows, one.limit, is_floor=one.is_floor)

    def sequences(self, one: Constraint) -> list[NDArray[np.intp]]:
        """Return the thresholds at which a limit on one side of them is tested, in their order, for each start."""
        rows = self.rows(one)
        n = int(rows.max())
        order = np.arange(len(rows)) if one.metric.formula.side == "decided" else np.arange(len(rows))[::-1]
        found = []
        for count in self.starts(one):
            counts = []
            while count < n:
                counts.append(count)
                count = max(count + 1, int(np.ceil(count * RATIO)))
            # equal rows are decided alike: the first threshold that decides so many rows
            found.append(order[np.unique(np.searchsorted(rows[order], [*counts, n]))])
        return found

    def starts(self, one: Constraint) -> list[int]:
        """Return the counts at which sequences of tests of a limit start."""
        n = int(self.cuts.rows[-1])
        expected = self.expected if one.metric.formula.side == "decided" else n - self.expected
        least = _least_count(one.limit, self.error_of(one), n)
        return [*(max(1, round(part * expected)) for part in STARTS), least]

    def error_of(self, one: Constraint) -> float:
        """Return the error of one test of a limit."""
        return self.error / (len(STARTS) + 1 if one.metric.formula.side is not None else 1)

    def nearest(self) -> int:
        """Return the threshold that is nearest to passing: the worst p-value of a limit is the least there.

        Where every threshold misses a limit on the labels, the p-values say how many rows there are. The one that
        misses its limit by least is taken then.
        """
        worst = np.max([self.chances(one) for one in self.limits.constraints], axis=0)
        if self.are_out_of_reach:
            worst = -self._slacks
        return int(np.argmin(np.where(self._have_enough, worst, np.inf)))

    @property
    def are_out_of_reach(self) -> bool:
        """Whether every threshold that decides enough rows misses a limit on the labels."""
        return bool((self._slacks[self._have_enough] < 0.0).all())

    @cached_property
    def _slacks(self) -> Array:
        return np.asarray(self.limits.slacks(self.cuts.confusions).min(axis=-1))

    @cached_property
    def _have_enough(self) -> NDArray[np.bool_]:
        of_a_side = [self._enough(one) for one in self.limits.constraints if one.metric.formula.side is not None]
        return np.asarray(np.logical_and.reduce(of_a_side or [self.cuts.rows > 0]))

    def _enough(self, one: Constraint) -> NDArray[np.bool_]:
        """Return which thresholds (T,) count enough rows, or as many as there are right ones, to show a limit."""
        place = 1 if one.metric.formula.side == "decided" else 0
        most = round(float(self.cuts.confusions.rows[place]) * int(self.cuts.rows[-1]))
        return np.asarray(self.rows(one) >= max(1, min(rows_for_floor(one.limit), most)))


def _least_count(limit: float, error: float, most: int) -> int:
    """Return the least number of rows, at most ``most``, of which a precision passes its test with `MISSES` misses."""
    counts = np.arange(MISSES + 1, most + 1)
    passes = chances_of_counts(counts - MISSES, counts, limit, is_floor=True) <= error
    return int(counts[int(np.argmax(passes))]) if passes.any() else most


def _warn_of_copies(whole: Table) -> None:
    """Warn where equal rows have equal labels more often than their probabilities say, as copies of rows do.

    Of a table in parts these are the rows of its sample, which has all copies of a row or none.
    """
    table = whole.head
    keys = table.row_hashes()
    labels = table.labels
    assert labels is not None
    order = np.lexsort((labels, keys))
    pairs = np.flatnonzero(keys[order][1:] == keys[order][:-1])
    if not len(pairs):
        return
    first = order[pairs]
    second = order[pairs + 1]
    # of two rows with probabilities p the labels differ with probability 1 - sum p^2
    rows = table.take(np.asarray(first))
    same = np.sum([probability_of_class(rows, k).astype(np.float64) ** 2 for k in range(rows.n_classes)], axis=0)
    expected = float((1.0 - same).sum())
    differing = int((labels[first] != labels[second]).sum())
    if expected >= LEAST_PAIRS and differing <= FEW_EXPECTED * expected:
        repeats = round(len(pairs) * whole.n_rows / table.n_rows)
        warn(
            f"{repeats:,} rows repeat the probabilities of another row, and their labels agree more often than "
            f"those of independent rows; confidence= counts every row, so leave copies out"
        )
