"""`maximize`: the rule that is best for a metric, and what is proved about it."""

from confmax.metrics.alignment import aligned, fit_metric
from confmax.solution.infeasible import Infeasible
from confmax.solution.labels import LabelSolution
from confmax.solution.plan import Plan
from confmax.solution.result import Solution
from confmax.solution.tuning import maximize, tune, value_on_labels, warn_of_trivial

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
