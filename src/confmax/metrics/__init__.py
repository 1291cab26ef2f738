"""Metrics: functions of the confusion matrix, with the gradients, bounds and structure that solvers need."""

from confmax.metrics.catalogue import aliases, from_function, get, names, resolve
from confmax.metrics.metric import Metric

__all__ = ["Metric", "aliases", "from_function", "get", "names", "resolve"]
