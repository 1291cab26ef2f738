"""`maximize`: the rule that is best for a metric, and what is proved about it."""

from confmax.solution.tuning import (
    Solution,
    aligned,
    check_settings,
    fit_metric,
    maximize,
    tune,
    value_on_labels,
    warn_of_trivial,
)

__all__ = [
    "Solution",
    "aligned",
    "check_settings",
    "fit_metric",
    "maximize",
    "tune",
    "value_on_labels",
    "warn_of_trivial",
]
