"""The frontier of several labels per row: the best thresholds, or rules of a number of labels, at levels of a limit.

The rows are calibrated once, and for thresholds sorted once. Every level is solved as `maximize` does it. Levels of
rules with a number of labels share what their searches start from (`confmax.solution.budgets.Met`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from confmax.calibration.words import printable
from confmax.confusion import Array, Confusion
from confmax.constraints import Constraint, resolve
from confmax.constraints.labels import place_of
from confmax.constraints.limits import Limits
from confmax.constraints.smallest import is_smallest
from confmax.errors import InputError
from confmax.frontiers.levels import INSIDE, checked_levels, in_order, monotone, read_limit, refuse_alike
from confmax.frontiers.result import Frontier
from confmax.optimize.label_limits import best_within
from confmax.progress import Bar, bar_for
from confmax.solution.budgets import Met, farthest
from confmax.solution.infeasible import Infeasible
from confmax.solution.label_task import LabelPlan, LabelTask, task_of
from confmax.solution.labels import LabelSolution
from confmax.solution.several import Free, free_thresholds, is_protected, refuse_unstored, solve
from confmax.tables.decisions import Decisions
from confmax.tables.frames import columns_of
from confmax.tables.several import dense_table, labels_table


def label_frontier(
    metric: Any,
    limit: Any,
    rows: tuple[Any, Any, Any],
    decisions: Decisions,
    *,
    classes: Any,
    levels: Any,
    constraints: Any,
    progress: bool | Bar,
    **settings: Any,
) -> Frontier:
    """Return the frontier of rules on ``rows``: probabilities (n, L), labels or None, and weights or None.

    The other arguments, Frontier and ValueErrors are those of `confmax.frontier`.
    """
    template, asked = read_limit(limit)
    wanted = checked_levels(levels, asked)
    if template.metric.formula.is_coverage:
        raise InputError(
            "rules of several labels do not abstain, so they have no coverage",
            "limit one label, such as recall[NAME], a sum of rates, or labels_per_row",
        )
    if is_smallest(template.metric):
        raise InputError(
            f"{template.metric.name} is a limit on every label, and a frontier moves one",
            "move recall[NAME] of a label",
        )
    plan = LabelPlan.checked(
        metric, decisions, constraints=(*resolve(constraints), template), on_infeasible="closest", **settings
    )
    proba, y, weight = rows
    table = labels_table(decisions, proba, y, weight, classes, stated=classes is not None)
    plan = replace(plan, columns=columns_of(proba, table, table.classes))
    # what a sparse table leaves out has no place among cuts
    dense = dense_table(table, "a frontier of several labels") if table.is_truncated else table
    task = task_of(plan, dense)
    with bar_for(progress, f"frontier of {printable(repr(plan.metric))}", "levels") as bar:
        path = _Path(task, None if plan.by_gains else free_thresholds(task), bar)
        solutions = path.solutions(path.levels(wanted) if isinstance(wanted, int) else wanted, asked)
    if dense is not table:
        for _, solution in solutions:
            refuse_unstored(table, solution.rule)
    return Frontier.of(template, solutions, asked, dense)


@dataclass(frozen=True, eq=False)
class _Path:
    """The levels of a ``task``, whose last limit is the one that moves; a ``bar`` counts them."""

    task: LabelTask
    free: Free | None
    bar: Bar | None
    met: Met = field(default_factory=Met)

    @property
    def limits(self) -> Limits:
        """The limits, of which the last one moves."""
        assert self.task.limits is not None
        return self.task.limits

    @property
    def template(self) -> Constraint:
        """The limit that moves."""
        return self.limits.constraints[-1]

    @property
    def range(self) -> tuple[float, float]:
        """Between which numbers the quantity lies."""
        if place_of(self.template) is not None:
            return self.template.range
        none = np.zeros(self.task.table.n_classes)
        weights = self.limits.constraints[-1].metric.at(Confusion(none, none, none)).columns
        return float(np.minimum(weights, 0.0).sum()), float(np.maximum(weights, 0.0).sum())

    def at(self, level: float) -> LabelTask:
        """Return the task at one level."""
        limits = replace(self.limits, constraints=self._moved(self.limits.constraints, level))
        plan = replace(self.task.plan, constraints=self._moved(self.task.plan.constraints, level))
        return replace(self.task, limits=limits, plan=plan)

    def _moved(self, constraints: tuple[Constraint, ...], level: float) -> tuple[Constraint, ...]:
        return (*constraints[:-1], replace(constraints[-1], limit=float(level)))

    def levels(self, count: int) -> Array:
        """Return evenly spaced levels from where the limit changes nothing to the tightest that can be kept."""
        low, high = self.range
        loosest, tightest = (low, high) if self.template.is_floor else (high, low)
        idle = solve(self.at(loosest), self.free, self.met)
        self._refuse(idle)
        start = idle.constraints[-1].value
        end = self._reached(tightest)
        refuse_alike(repr(self.task.plan.metric), self.template, start, end)
        found = np.linspace(start, end - INSIDE * (end - start) if self.template.is_floor else end, count)
        return np.clip(found, low, high)

    def _reached(self, tightest: float) -> float:
        """Return the best value that the limited quantity can have beside the other limits."""
        task = self.at(tightest)
        assert task.limits is not None
        if self.free is None:
            return farthest(task, len(self.limits) - 1, tightest)
        most, cuts = self.free.most, self.free.cuts
        within = best_within(task.metric, task.limits, most, cuts, together=bool(is_protected(task)))
        ends = [one.value for one in within.reached if one.constraint == len(self.limits) - 1]
        return ends[0] if ends else tightest

    def solutions(self, levels: Array, asked: float | None) -> list[tuple[float, LabelSolution]]:
        """Return levels with their solutions, from the loosest to the tightest; the best of tighter levels counts."""
        wanted = in_order(levels, asked, self.template).tolist()
        found: list[tuple[float, LabelSolution]] = []
        counted: Iterable[float] = wanted if self.bar is None else self.bar.each(wanted, len(wanted))
        for level in counted:
            solution = solve(self.at(level), self.free, self.met)
            if not found:
                self._refuse(solution)
            found.append((level, solution))
        return monotone(found)

    def _refuse(self, solution: LabelSolution) -> None:
        """Raise `Infeasible` for a ``solution`` of the loosest level that is."""
        if solution.infeasibility is not None:
            raise Infeasible(solution.infeasibility, solution, "take looser levels, or loosen the further limits")
