"""`maximize`: the rule that is best for a metric, and what is proved about it."""

from confmax.metrics.alignment import aligned, fit_metric
from confmax.solution.coverage_rules import coverage_path
from confmax.solution.frontier_result import Curve, Frontier
from confmax.solution.frontiers import frontier
from confmax.solution.infeasible import Infeasible
from confmax.solution.plan import Plan
from confmax.solution.result import Solution
from confmax.solution.tuning import maximize, tune, value_on_labels, warn_of_trivial

__all__ = [
    "Curve",
    "Frontier",
    "Infeasible",
    "Plan",
    "Solution",
    "aligned",
    "coverage_path",
    "fit_metric",
    "frontier",
    "maximize",
    "tune",
    "value_on_labels",
    "warn_of_trivial",
]
