"""Constraints: quantities of the confusion matrix, and limits on them, as texts and as objects.

Every quantity of the catalogue that can be limited is a function here, such as ``recall("VF")``.
"""

from itertools import chain
from typing import TYPE_CHECKING

from confmax.lazily import names_of
from confmax.metrics.catalogue import limited_names

if TYPE_CHECKING:
    from confmax.constraints.binding import bind
    from confmax.constraints.grammar import parse, resolve
    from confmax.constraints.labels import bind_labels
    from confmax.constraints.limits import Limits, least_coverage
    from confmax.constraints.outcomes import ConstraintOutcome, GroupValue
    from confmax.constraints.quantities import at_least, at_most, cost, labels_per_row, quantity
    from confmax.constraints.words import Constraint, Quantity

_FUNCTIONS = tuple(chain(*limited_names()))

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
    *_FUNCTIONS,
]

__getattr__, __dir__ = names_of(
    __name__,
    {
        "binding": "bind",
        "grammar": "parse resolve",
        "labels": "bind_labels",
        "limits": "Limits least_coverage",
        "outcomes": "ConstraintOutcome GroupValue",
        "quantities": f"at_least at_most cost labels_per_row quantity {' '.join(_FUNCTIONS)}",
        "words": "Constraint Quantity",
    },
)
