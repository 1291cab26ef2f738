"""Metrics: functions of the confusion matrix, with the gradients, bounds and structure that solvers need."""

from confmax.metrics.catalogue import Metric, aliases, from_function, get, names, resolve

__all__ = [
    "Metric",
    "aliases",
    "from_function",
    "get",
    "names",
    "resolve",
]
