"""Searches within limits that are tightened less and less: each starts from the rules of those before it.

The rows are calibrated once. The best rules within a tighter limit are near those within the next one, and the best
single rule that an earlier search has met is one of the starting rules. So the wide search for single rules, which
costs most, is not needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from confmax.constraints import Limits
from confmax.optimize import Mixture, Outcome, Problem, Progress
from confmax.optimize.along import Record, RecordingOracle, atoms_of
from confmax.optimize.rounding import PROGRESS
from confmax.oracle import CountingOracle
from confmax.solution.plan import Task
from confmax.solution.result import Solution
from confmax.solution.search import Prepared, prepare


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
        self.record = Record(self.prepared.read)
        self.rules: tuple[Mixture, ...] = ()

    def alone(self, limits: Limits) -> Solution:
        """Return the solution within ``limits`` of a search that nothing else has an effect on."""
        # no further one follows it
        self.begun = self.count
        return self.prepared.within(self._placed(limits), CountingOracle(self.prepared.oracle.oracle)).search()

    def following(self, limits: Limits) -> Searched:
        """Return a search within ``limits`` that starts from what those before it have met."""
        self.begun += 1
        placed = self._placed(limits)
        pairs = zip(self.limits.constraints, placed.constraints, strict=True)
        moved = np.array([one.stated.sign * (one.limit - tightened.limit) for one, tightened in pairs])
        search = self.prepared.within(placed, RecordingOracle(self.prepared.oracle.oracle, self.record), self.rules)
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
