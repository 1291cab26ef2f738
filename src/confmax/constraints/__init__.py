"""Constraints: quantities of the confusion matrix, and limits on them, as texts and as objects.

Every quantity of the catalogue that can be limited is a function here, such as ``recall("VF")``.
"""

from typing import Any

from confmax.constraints.binding import bind
from confmax.constraints.grammar import parse, resolve
from confmax.constraints.labels import bind_labels
from confmax.constraints.limits import Limits, least_coverage
from confmax.constraints.outcomes import ConstraintOutcome, GroupValue
from confmax.constraints.quantities import FUNCTIONS, at_least, at_most, cost, labels_per_row, quantity
from confmax.constraints.words import Constraint, Quantity

__all__ = [
    "Constraint",
    "ConstraintOutcome",
    "GroupValue",
    "Limits",
    "Quantity",
    "at_least",
    "at_most",
    "bind",
    "bind_labels",
    "cost",
    "labels_per_row",
    "least_coverage",
    "parse",
    "quantity",
    "resolve",
    *FUNCTIONS,
]


def __getattr__(name: str) -> Any:
    """Return the function that makes a quantity of the catalogue."""
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
