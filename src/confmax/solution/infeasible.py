"""What is said where no rule keeps all constraints: which is out of reach, and how far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from confmax.constraints import ConstraintOutcome, Limits
from confmax.metrics.structure import MinOfLinear
from confmax.optimize import ColumnGeneration, Problem, Status, choose, run

if TYPE_CHECKING:
    from confmax.solution.result import Solution

WAY_OUT = "loosen one of them, or pass on_infeasible='closest' for the rule that misses them least"
TOLERANCE = 1e-4  # of the largest value that one limit's quantity reaches under the others
SHOWN = 4  # constraints in a sentence


class Infeasible(ValueError):
    """No rule keeps all constraints.

    Parameters
    ----------
    message : str
        Why, in a sentence.
    closest : Solution
        The rule that misses them least.

    Attributes
    ----------
    closest : Solution
        The rule that misses them least, with what is proved.

    Examples
    --------
    >>> import confmax
    >>> P = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]]
    >>> try:
    ...     confmax.maximize("accuracy", P, constraints=["recall[1] >= 0.9", "rate[1] <= 0.5"])
    ... except confmax.Infeasible as error:
    ...     round(error.closest.constraints[0].value, 3), error.closest.feasible
    (0.789, False)
    """

    def __init__(self, message: str, closest: Solution) -> None:
        super().__init__(message)
        self.closest = closest

    def __reduce__(self) -> tuple[type, tuple[str, Solution]]:
        return type(self), (str(self), self.closest)


def check_infeasible(on_infeasible: object) -> None:
    """Raise a ValueError unless the word for what to do where no rule keeps all constraints is known."""
    if on_infeasible not in ("raise", "closest"):
        raise ValueError(f"on_infeasible is 'raise' or 'closest'; got {on_infeasible!r}")


def or_raise(solution: Solution, on_infeasible: str) -> Solution:
    """Return a solution; raise `Infeasible` if it does not keep all constraints, unless the closest is wanted."""
    if solution.infeasibility is not None and on_infeasible == "raise":
        raise Infeasible(f"{solution.infeasibility}; {WAY_OUT}", solution)
    return solution


def infeasibility(problem: Problem, status: Status, kept: Sequence[ConstraintOutcome]) -> str:
    """Return in a sentence that no rule keeps all constraints, and how far the first that fails can be met."""
    limits = problem.limits
    assert isinstance(limits, Limits)
    texts = ", ".join(limits.texts[:SHOWN]) + (", ..." if len(limits) > SHOWN else "")
    if status is not Status.INFEASIBLE:
        missed = "; ".join(f"{one.text} at {one.value:.4g}" for one in kept if not one.kept)
        proof = "none was proved impossible" if problem.certify else "counts of labels prove nothing"
        return (
            f"no rule that keeps {texts} was met in {problem.oracle.n_passes} passes, and {proof} "
            f"(the nearest rule misses {missed})"
        )
    reached = _reached(problem, limits, kept)
    if reached is None:
        nearest = ", ".join(f"{one.text} at {one.value:.4g}" for one in kept[:SHOWN])
        return f"no rule on this table keeps {texts} (proved); the nearest rule has {nearest}"
    return f"no rule on this table keeps {texts}: {reached} (proved)"


def _reached(problem: Problem, limits: Limits, kept: Sequence[ConstraintOutcome]) -> str | None:
    """Return how far the quantity of one floor can be raised under the other constraints; None if that is not known."""
    failing = [k for k, one in enumerate(limits.constraints) if one.is_floor and not one.over and not kept[k].kept]
    for k in failing:
        one = limits.constraints[k]
        others = tuple(other for place, other in enumerate(limits.constraints) if place != k)
        rest = replace(limits, constraints=others) if others else None
        (metric,) = limits.members(one)
        if rest is None and not isinstance(metric.structure, MinOfLinear):
            solver = choose("auto", metric, len(problem.oracle.rows), problem.n_decisions, exact=True, in_parts=True)
        else:
            solver = ColumnGeneration()
        matrix = "matrix" in (metric.statistics, limits.statistics)
        if matrix and not problem.needs_matrix:
            return None
        part = replace(
            problem, metric=metric, limits=rest, tol=TOLERANCE, wants_single=False, sample=None,
            max_passes=problem.oracle.n_passes + solver.budget,
        )  # fmt: skip
        outcome = run(solver, part)
        if outcome.status is not Status.INFEASIBLE and outcome.upper_bound is not None:
            under = "" if rest is None else f" under the other limit{'s' if len(others) > 1 else ''}"
            name = one.text.split(" >= ")[0]
            return f"{name} reaches at most {outcome.upper_bound:.4g}{under}"
    return None
