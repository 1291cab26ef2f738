"""The smallest share of all classes, such as ``min_recall``: which metrics are one, and a limit for each class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from confmax.constraints.words import Constraint
from confmax.metrics import Metric
from confmax.metrics.catalogue import quantity
from confmax.tables.labels import plain


def is_tested(metric: Metric) -> bool:
    """Whether exact tests on rows show that a limit on a ``metric`` is kept: it is a share, or the smallest of some."""
    return bool(metric.formula.is_share) or is_smallest(metric)


def is_smallest(metric: Metric) -> bool:
    """Whether a ``metric`` is the smallest share of all classes, such as ``min_recall``."""
    return metric.structure.is_minimum and metric.formula.smallest_of is not None


def of_each(one: Constraint, classes: Sequence[Any]) -> list[Constraint]:
    """Return a limit for each class that a smallest share is one of; other limits as they are."""
    metric = one.metric
    name = metric.formula.smallest_of
    if name is None or not is_smallest(metric):
        return [one]
    K = len(classes)
    shares = (
        replace(quantity(name), label=str(plain(classes[k])), binary=False).of_class(k, K) for k in places(metric, K)
    )
    return [replace(one, metric=share) for share in shares]


def places(metric: Metric, K: int) -> tuple[int, ...]:
    """Return the classes that a metric is computed over."""
    return metric.classes or tuple(range(K))
