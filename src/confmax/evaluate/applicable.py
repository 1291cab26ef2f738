"""Which metrics a report shows, and the metric that a rule's file names."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np

from confmax import metrics
from confmax.confusion import MAX_MATRIX_CLASSES, Array, Confusion
from confmax.evaluate.threshold_curve import positive_class
from confmax.metrics import Metric
from confmax.metrics.alignment import aligned, in_given_order
from confmax.metrics.first_order import FirstOrder, Formula
from confmax.metrics.structure import General
from confmax.tables import MemoryTable

# what most people know first; f_beta and macro_f_beta are here only if they were asked for, with their beta
ORDER = (
    "accuracy", "balanced_accuracy", "macro_f1", "weighted_f1", "macro_precision", "macro_jaccard", "min_recall",
    "g_mean", "h_mean", "q_mean", "cohen_kappa", "linear_kappa", "quadratic_kappa", "mcc", "f1", "jaccard",
    "fowlkes_mallows", "ams", "micro_f1", "micro_f1_once", "informedness",
)  # fmt: skip
OF_TWO = ("linear_kappa", "quadratic_kappa", "micro_f1")  # of two classes these are Cohen's kappa and F1
PARTS = ("precision", "recall", "f1")


def applicable(table: MemoryTable, tuned: Metric, second: Metric, *, order_known: bool) -> dict[str, Metric]:
    """Return the metrics for a table by name: the tuned one, the second one, and those of the catalogue."""
    K, present = table.n_classes, np.flatnonzero(table.label_weight() > 0).tolist()
    metrics_shown = {repr(tuned): tuned, repr(second): second}
    positive = has_positive(tuned, K)
    for name in ORDER:
        metric = metrics.get(name)
        fits = not (metric.binary and K != 2) and (order_known or positive or not metric.ordered)
        # the page would show the same number under two names
        fits = fits and not (K == 2 and name in OF_TWO)
        if fits and (metric.statistics != "matrix" or K <= MAX_MATRIX_CLASSES):
            if metric.one_class and positive:
                metric = aligned(replace(metric, label=tuned.label, binary=False, ordered=False), table.classes)
            elif metric.ordered and positive:
                k = positive_class(tuned)
                metric = in_given_order(metric, (1 - k, k))
            elif metric.ordered and tuned.ordered and tuned.classes is not None:
                metric = replace(metric, classes=tuned.classes)  # in the order that the tuned one counts them
                metric = tuned if repr(metric) == repr(tuned) else metric
            over = replace(metric, classes=tuple(present))
            if metric.divides_by_prior and len(present) < K and repr(over) in metrics_shown:
                continue  # without the absent classes it is the tuned one
            metrics_shown.setdefault(repr(metric), metric)
    return metrics_shown


def has_positive(tuned: Metric, n_classes: int) -> bool:
    """Return whether a metric names the positive one of two classes, in brackets."""
    return n_classes == 2 and tuned.label is not None


def of_class(part: str, k: int) -> Metric:
    """Return precision, recall or F1 of class k as a metric without a gradient, for a bootstrap.

    Nothing decided or nothing right is 0, as scikit-learn's ``zero_division=0``; a class without rows has no recall.
    """

    class OfClass(Formula):
        """The score of the class, without derivatives."""

        def __call__(self, S: Confusion, **_: Any) -> FirstOrder:
            raise TypeError(f"the {part} of one class is shown, never maximised")

        def values(self, S: Confusion, **_: Any) -> Array:
            return values(S)

    def values(S: Confusion) -> Array:
        hit, rows, columns = S.diagonal[..., k], S.rows[..., k], S.columns[..., k]
        below = {"precision": columns, "recall": rows, "f1": (rows + columns) / 2}[part]
        empty = np.where(rows > 0, 0.0, np.nan) if part == "recall" else np.zeros_like(rows)
        return np.divide(hit, below, out=np.broadcast_to(empty, hit.shape).copy(), where=below > 0)

    return Metric(f"{part} of class {k}", OfClass(), General(), "diagonal")


def named(text: str) -> Metric | None:
    """Return the metric that a rule's file names, None for tables of costs, functions and what is not understood."""
    parts = re.fullmatch(r"(\w+)(\[.*\])?(\(.*\))?", text, re.DOTALL)  # the name of a class may have parentheses
    if parts is None or parts[1] == "linear" or parts[1] not in metrics.names():
        return None
    name, inside = parts[1] + (parts[2] or ""), (parts[3] or "()")[1:-1]
    params: dict[str, Any] = {}
    classes: tuple[int, ...] | None = None
    for key, value in re.findall(r"(\w+)=(\([\d, ]*\)|[^,()]+)", inside):
        if key == "classes":
            classes = tuple(int(part) for part in re.findall(r"\d+", value))
            continue
        try:
            params[key] = float(value)
        except ValueError:
            params[key] = value
    try:
        metric = metrics.get(name, **params)
        return metric if classes is None else metric.over(classes)
    except ValueError:
        return None
