"""A rule that was found elsewhere, as a solver: it is evaluated, and returned as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from confmax.confusion import Gains
from confmax.optimize.loop import Problem, Solver, Status, Step
from confmax.optimize.mixture import Mixture


@dataclass(frozen=True, eq=False)
class GivenRule(Solver):
    """Evaluate one rule, and return it whatever its value."""

    gains: Gains
    mixes: ClassVar[bool] = False
    takes_limits: ClassVar[bool] = True
    returns: ClassVar[Literal["last"]] = "last"

    def check(self, metric: object, n_classes: int, n_rows: int, *, limited: bool = False) -> None:
        """Take any metric."""

    def init(self, problem: Problem) -> None:
        """Nothing to prepare."""

    def step(self, problem: Problem, state: None) -> tuple[None, Step]:
        """Evaluate the rule in one pass."""
        rule = Mixture.single(self.gains, problem.ask(self.gains)[0])
        return None, Step(rule, (rule,), status=Status.FINISHED)
