"""The best attainable value of one quantity at every level of a limit on another.

The rows are calibrated once, and every level starts from the rules of the level before (`optimize/along.py`). Of a
looser level the best rule of a tighter one is a rule, too: where the search ends lower, that rule is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from confmax import optimize
from confmax.calibration.column_order import doubt_of_order
from confmax.calibration.words import printable
from confmax.confusion import Array
from confmax.constraints import Constraint, Quantity, least_coverage
from confmax.errors import InputError
from confmax.evaluate.uncertainty import AnyMetric
from confmax.frontiers.labels import label_frontier
from confmax.frontiers.levels import INSIDE, checked_levels, in_order, monotone, read_limit, refuse_alike
from confmax.frontiers.result import Frontier
from confmax.metrics.catalogue import refusing_parameters
from confmax.metrics.decided import as_written, of_decided
from confmax.metrics.limited import negative
from confmax.metrics.structure import Linear
from confmax.optimize.along import Record, RecordingOracle, along, atoms_of, with_rule
from confmax.optimize.class_cuts import ClassThreshold
from confmax.optimize.column_generation import refused_within_limits
from confmax.optimize.mixture import constant_rules
from confmax.progress import Bar, bar_for
from confmax.solution.infeasible import Infeasible
from confmax.solution.plan import Plan, Task
from confmax.solution.result import Solution
from confmax.solution.search import Prepared, prepare
from confmax.solution.second_objective import RANDOMIZED_ABOVE
from confmax.solution.side_by_side import warn_of_groups
from confmax.solution.tuning import task_of, tune
from confmax.tables.columns import warn
from confmax.tables.decisions import decisions_of

_Item = TypeVar("_Item")
Solved = tuple[optimize.Problem, optimize.Outcome]

# the keywords of `maximize` that a frontier takes, and those that it refuses
SETTINGS = set("pos_label abstain confusion calibration shrinkage solver randomized max_passes random_state".split())
REFUSED = {"confidence", "on_infeasible", "callback"}
# one of so many levels has a search for single rules of its own, where labels have a part in the estimate
EVERY = 4
FEW = 5  # at least so many have one


@refusing_parameters
def frontier(
    metric: AnyMetric,
    limit: str | Constraint | Quantity,
    proba: ArrayLike,
    y: ArrayLike | None = None,
    *,
    levels: int | ArrayLike = 50,
    decisions: Any = "one",
    constraints: Any = (),
    sample_weight: ArrayLike | None = None,
    classes: Sequence[Any] | None = None,
    group: ArrayLike | None = None,
    group_proba: ArrayLike | None = None,
    normalize: bool = False,
    tol: float = 1e-4,
    progress: bool | Bar = False,
    **settings: Any,
) -> Frontier:
    """Return the best attainable value of a metric at every level of a limit on another quantity.

    Parameters
    ----------
    metric : str, Metric or callable
        What is maximised, as for `maximize`.
    limit : str, Constraint or Quantity
        The quantity that is limited, with the direction and without a number: ``"precision[L] >="`` or
        ``"rate[VF] <="``. The direction may be left out where people want only one, such as for ``"precision[L]"``. A
        number is one more level, which is marked: ``"precision[L] >= 0.9"``.
    proba : array-like (n, K)
        Raw class probabilities of the tuning rows, as for `maximize`.
    y : array-like (n,) or None
        True classes.
    levels : int or array-like (S,)
        The numbers of the limit. An int is how many, evenly spaced, from the value of the quantity where nothing limits
        it to the best value that it can have; of a coverage from ``1 / levels`` to 1.
    decisions : {"one", "any"}, int k, or ("at_most", k)
        What is decided for a row, as for `maximize`: one class, or several labels. Then ``limit`` is on one label, on a
        sum of rates or on ``"labels_per_row <="``, and ``proba`` and ``y`` are as for `maximize`.
    constraints : str, Constraint or a sequence of these
        Further limits, as for `maximize`, that every rule keeps.
    sample_weight : array-like (n,) or None
        Non-negative weights.
    classes : sequence or None
        Class names in column order.
    group : array-like (n,) or None
        The group of each row, for limits that speak of groups.
    group_proba : array-like (n, G) or None
        The probability of every group, for rules that do not know the group of a row.
    normalize : bool
        Whether to divide every row by its sum.
    tol : float
        How near to the best value the search of every level ends.
    progress : bool
        Whether to show on stderr how many levels are done, as `maximize` shows passes.
    **settings
        Further keywords of `maximize`: ``pos_label``, ``abstain``, ``confusion``, ``calibration``, ``solver``,
        ``randomized``, ``max_passes`` and ``random_state``; of several labels ``shrinkage``.

    Returns
    -------
    Frontier
        Levels, values, bounds and rules. Levels that no rule keeps are left out.

    Raises
    ------
    ValueError
        For bad input: a limit without a direction that people would agree on, fewer than two levels, and quantities
        that move alike, so that there is nothing to choose.
    Infeasible
        If no rule keeps the further limits, or the limit at any level.

    Warns
    -----
    UserWarning
        As `maximize` does of columns and groups.

    Notes
    -----
    With ``confusion="model"`` every value has an upper bound that holds for all rules. Metrics without a certificate,
    and estimates with labels, have none (NaN): the curve is then that of the best rules that were met.

    Examples
    --------
    >>> import confmax, numpy as np
    >>> p = np.linspace(0.05, 0.95, 10)
    >>> found = confmax.frontier("recall[1]", "precision[1] >=", np.column_stack([1 - p, p]), levels=[0.6, 0.8, 0.9])
    >>> found.levels.tolist(), found.values.round(2).tolist()
    ([0.6, 0.8, 0.9], [0.96, 0.64, 0.36])
    """
    unknown = settings.keys() - SETTINGS
    if unknown - REFUSED:
        raise TypeError(f"frontier() got an unexpected keyword argument {min(unknown - REFUSED)!r}")
    for name in sorted(REFUSED):
        if name in settings:
            raise ValueError(f"{name} is not a setting of a frontier; choose a level, and pass {name}= to maximize")
    of = decisions_of(decisions)
    if of.several:
        given = {"group": group, "group_proba": group_proba, "normalize": normalize, "tol": tol, **settings}
        rows = (proba, y, sample_weight)
        shared = {"classes": classes, "levels": levels, "constraints": constraints, "progress": progress}
        return label_frontier(metric, limit, rows, of, **shared, **given)
    if "shrinkage" in settings:
        raise InputError("`shrinkage` is of several labels per row", "pass `decisions=`, or leave it out")
    template, asked = read_limit(limit)
    wanted = checked_levels(levels, asked)
    if template.metric.formula.is_coverage:
        # without a floor next to nothing is decided
        wanted = np.arange(1, wanted + 1) / wanted if isinstance(wanted, int) else wanted
        template = replace(template, limit=max(template.limit, float(wanted[0])))
    plan = Plan.checked(metric, constraints=constraints, tol=tol, progress=progress, **settings)
    plan = plan.but(
        progress=False,
        constraints=(*plan.constraints, template),
        prove=False,
        breaks_ties=False,
        on_infeasible="closest",
    )
    task, likely = task_of(
        plan,
        proba,
        y,
        sample_weight=sample_weight,
        classes=classes,
        group=group,
        group_proba=group_proba,
        normalize=normalize,
    )
    warn_of_groups(task)
    with bar_for(progress, f"frontier of {printable(repr(plan.metric))}", "levels") as bar:
        path = Path(task, bar)
        solutions = path.solutions(path.levels(wanted) if isinstance(wanted, int) else wanted, asked)
    calibration = solutions[0][1].calibration
    calibrated = None if calibration is None else calibration.log_loss_after
    warn(doubt_of_order(task.raw, likely=likely, calibrated=calibrated))
    return Frontier.of(path.template, solutions, asked, task.raw)


# --- the path ---------------------------------------------------------------------------------------------------------


class Path:
    """The searches of all levels of a ``task``, whose last limit is the one that moves; a ``bar`` counts them."""

    def __init__(self, task: Task, bar: Bar | None = None) -> None:
        # the loosest limit may be kept by every rule, and is one of the searches all the same
        self.prepared = prepare(task).sorting_once()
        self.by_thresholds = isinstance(self.prepared.method, ClassThreshold)
        self.limits = self.prepared.limits
        self.given = task
        self.bar = bar
        self.template = self.limits.constraints[-1]
        self.record = Record(self.prepared.read)
        self.exact = self.prepared.oracle.exact

    def at(self, level: float, rules: Sequence[optimize.Mixture] = ()) -> Prepared:
        """Return the search at one level, with further starting rules."""
        moved = replace(self.template, limit=float(level))
        limits = replace(self.limits, constraints=(*self.limits.constraints[:-1], moved))
        counted = self.prepared.oracle
        oracle = counted.anew() if self.by_thresholds else RecordingOracle(counted, self.record)
        search = self.prepared.within(limits, oracle, rules)
        metric = search.task.metric
        if metric.formula.is_of_decided:
            # its bounds follow from the least coverage
            least = least_coverage(limits, self.given.raw.n_classes)
            placed = of_decided(as_written(metric), self.given.raw.n_classes, *least)
            metric = replace(placed, names=metric.names, binary=metric.binary)
        return replace(search, task=search.task.but(metric=metric))

    def deciding_all(self) -> Solution:
        """Return the solution of the rule that cannot abstain, which decides new rows, too, whatever they are."""
        plan = self.given.plan
        kept = tuple(one for one in plan.constraints if not one.metric.formula.is_coverage)
        plan = plan.but(constraints=kept, abstain=False, **self._calibrated())
        return tune(plan.on(self.given.raw))

    def _calibrated(self) -> dict[str, Any]:
        """Return the settings of a further search with this calibration, and on this estimate."""
        return {"calibration": self.prepared.fitted, "confusion": self.prepared.task.plan.confusion}

    def levels(self, count: int) -> Array:
        """Return evenly spaced levels from where the limit changes nothing to the tightest that can be kept."""
        template = self.template
        idle = self.at(template.limit)
        problem = idle.problem(wants_single=False)
        outcome = idle.run(problem)
        self._refuse(idle.solution(problem, outcome))
        start = float(self.limits.values(outcome.mixture.confusion)[-1])
        end = self._tightest()
        refuse_alike(repr(self.given.metric), template, start, end)
        levels = np.linspace(start, end - INSIDE * (end - start) if template.is_floor else end, count)
        # a sum of parts may exceed its range by rounding
        return np.clip(levels, *template.range)

    def _tightest(self) -> float:
        """Return the best value that the limited quantity can have within the other limits."""
        template = self.template
        low, high = template.range
        rest = self.given.limits
        assert rest is not None
        metric = rest.constraints[-1].metric
        if not template.is_floor and metric.gain is None:
            opposite = negative(metric)
            if len(self.limits) == 1 or opposite is None or template.of_groups:
                return low if np.isfinite(low) else float(template.limit)
            metric = opposite
        elif not template.is_floor:
            opposite_gain = tuple(tuple(-gain for gain in row) for row in metric.gain or ())
            metric = replace(metric, structure=Linear(opposite_gain, fractions=metric.structure.fractions))
        if template.of_groups or refused_within_limits(metric) is not None:
            return high
        if template.is_floor and self._one_decision_keeps(high):
            return high
        others = replace(rest, constraints=rest.constraints[:-1]) if len(rest) > 1 else None
        plan = self.given.plan.but(**self._calibrated())
        search = prepare(self.given.but(plan=plan, metric=metric, limits=others))
        problem = search.problem(wants_single=False)
        reached: float = problem.value(search.run(problem).mixture.confusion) * template.stated.sign
        return reached

    def _one_decision_keeps(self, level: float) -> bool:
        """Whether to decide one class for all rows reaches a level, and keeps the other limits."""
        rows = self.prepared.oracle.rows
        n_decisions = self.given.n_decisions
        matrix = self.limits.statistics == "matrix"
        barred = self.prepared.oracle.barred
        _, known = constant_rules(rows, n_decisions, matrix=matrix, layout=self.limits.layout, barred=barred)
        reached = self.limits.values(known)[:, -1] == level
        kept = (self.limits.slacks(known) >= 0.0).all(axis=-1)
        return bool((reached & kept).any())

    def solutions(self, levels: Array, asked: float | None) -> list[tuple[float, Solution]]:
        """Return levels with their solutions, from the loosest to the tightest; the best of tighter levels counts."""
        wanted = in_order(levels, asked, self.template)
        searches: dict[float, Prepared] = {}
        last = float(wanted[-1])
        every = min(EVERY, max(1, len(wanted) // FEW))

        def problem_at(level: float, rules: Sequence[optimize.Mixture]) -> optimize.Problem:
            # of two classes all thresholds are compared at once
            chosen = len(searches) % every == 0 or level in (asked, last) or self.given.raw.n_classes == 2
            searched = self.by_thresholds or (not self.exact and chosen)
            searches[level] = self.at(level, rules)
            return searches[level].problem(wants_single=searched)

        whole = self.template.metric.formula.is_coverage and self._may_decide_all
        numbers = [level for level in wanted.tolist() if not (whole and level == 1.0)]
        path = list(along(problem_at, self._counted(numbers), self.prepared.run))
        if not self.by_thresholds:
            path = self._with_singles(numbers, path)
        found: list[tuple[float, Solution]] = []
        for level, (problem, outcome) in zip(numbers, path, strict=True):
            solution = searches[level].solution(problem, outcome)
            if solution.infeasibility is not None and found and self.exact:
                # tighter limits would be missed, too; on labels a tighter precision may be that of enough rows
                break
            if not found:
                self._refuse(solution)
            found.append((level, solution))
        if len(numbers) < len(wanted) and len(found) == len(numbers):
            solution = self.deciding_all()
            found += [] if solution.infeasibility is not None else [(1.0, solution)]
        return monotone(found)

    def _counted(self, items: Sequence[_Item], *parts: str) -> Iterable[_Item]:
        """Return the items, as the bar counts them, with further ``parts`` of its line."""
        return items if self.bar is None else self.bar.each(items, len(items), *parts)

    def _refuse(self, solution: Solution) -> None:
        """Raise `Infeasible` for a ``solution`` of the loosest level that is, naming the limits that were given."""
        if solution.infeasibility is None:
            return
        limits = self.given.limits
        # without a floor on the coverage, what is decided has no bound
        if limits is not None and len(limits) > 1 and not self.template.metric.formula.is_coverage:
            others = replace(limits, constraints=limits.constraints[:-1])
            plan = self.given.plan.but(**self._calibrated())
            alone = prepare(self.given.but(plan=plan, limits=others)).search()
            if alone.infeasibility is not None:
                raise Infeasible(alone.infeasibility, alone, "loosen the further limits")
        raise Infeasible(solution.infeasibility, solution, "take looser levels, or loosen the further limits")

    @property
    def _may_decide_all(self) -> bool:
        """Whether a rule that cannot abstain keeps all limits on coverages, because they are floors."""
        return all(one.is_floor for one in self.limits.constraints if one.metric.formula.is_coverage)

    def _with_singles(self, levels: Sequence[float], path: Sequence[Solved]) -> list[Solved]:
        """Return the outcomes with the best single rules of all levels, some of which are searched for."""
        found = []
        for level, (problem, first) in zip(levels, path, strict=True):
            # by how much each limit is looser than where the record was read
            moved = np.zeros(len(self.limits))
            moved[-1] = self.template.stated.sign * (self.template.limit - level)
            found.append((problem, with_rule(problem, first, self.record.best(moved, problem.rounding))))
        if not self.exact:
            # the levels that were to be searched have been
            return found
        vain = False
        for k in self._counted(range(len(found)), "single rules"):
            solved = found[k]
            if not self._is_far(*solved):
                vain = False
            elif not vain:
                # where a search finds none, the next levels are not searched
                found[k] = self._searched(levels[k], *solved)
                vain = self._is_far(*found[k])
        return found

    def _searched(self, level: float, problem: optimize.Problem, outcome: optimize.Outcome) -> Solved:
        """Return an outcome with the best single rule of a search that starts at its rules; its bound is known."""
        again = replace(self.at(level, atoms_of(outcome)).problem(), certify=False)
        return problem, with_rule(problem, outcome, self.prepared.run(again).single)

    def _is_far(self, problem: optimize.Problem, outcome: optimize.Outcome) -> bool:
        """Whether the best mixture is so much better than the best single rule that a search may find a better one."""
        if self.prepared.task.plan.randomized is True:
            return False
        missed, lost = np.subtract(problem.rank(outcome.mixture.confusion), problem.rank(outcome.single.confusion))
        return bool(missed > 0.0 or lost > RANDOMIZED_ABOVE)
