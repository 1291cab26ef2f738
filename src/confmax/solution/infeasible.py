"""The error that says that no rule keeps all constraints."""

from __future__ import annotations

from typing import Any, TypeVar

from confmax.errors import InputError
from confmax.evaluate.protocols import Tuned

T = TypeVar("T", bound=Tuned)

WAY_OUT = "loosen {}, or pass `on_infeasible='closest'` for the rule that misses {} least"


class Infeasible(InputError):
    """No rule keeps all constraints.

    Parameters
    ----------
    message : str
        Why, in a sentence.
    closest : Solution or LabelSolution
        The rule that misses them least.
    remedy : str
        The way out, which may be empty.

    Attributes
    ----------
    closest : Solution or LabelSolution
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

    def __init__(self, message: str, closest: Any, remedy: str = "") -> None:
        super().__init__(message, remedy, "constraints")
        self.closest = closest

    def __reduce__(self) -> tuple[type, tuple[str, Any, str]]:
        return type(self), (self.problem, self.closest, self.remedy)


def or_raise(solution: T, on_infeasible: str) -> T:
    """Return a solution; raise `Infeasible` if it does not keep all constraints, unless the closest is wanted."""
    if solution.infeasibility is not None and on_infeasible == "raise":
        several = len(solution.constraints) > 1
        way_out = WAY_OUT.format(*("one of them", "them") if several else ("it", "it"))
        raise Infeasible(solution.infeasibility, solution, way_out)
    return solution
