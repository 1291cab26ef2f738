"""`maximize`: the rule that is best for a metric, and what is proved about it."""

from typing import TYPE_CHECKING

from confmax.lazily import names_of
from confmax.metrics.alignment import aligned, fit_metric
from confmax.solution.infeasible import Infeasible
from confmax.solution.plan import Plan
from confmax.solution.result import Solution
from confmax.solution.tuning import maximize, tune, value_on_labels, warn_of_trivial

if TYPE_CHECKING:
    from confmax.solution.labels import LabelSolution

__all__ = [
    "Infeasible",
    "LabelSolution",
    "Plan",
    "Solution",
    "aligned",
    "fit_metric",
    "maximize",
    "tune",
    "value_on_labels",
    "warn_of_trivial",
]

# solutions of several labels are imported with the first of them
__getattr__, __dir__ = names_of(__name__, {"labels": "LabelSolution"})
