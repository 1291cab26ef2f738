"""Which metrics a report shows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from confmax import metrics
from confmax.metrics import Metric
from confmax.metrics.alignment import aligned, in_given_order, positive_class
from confmax.metrics.catalogue import plain_names
from confmax.tables import Part

# what most people know first; f_beta and macro_f_beta are here only if they were asked for, with their beta
ORDER = (
    "accuracy",
    "balanced_accuracy",
    "macro_f1",
    "weighted_f1",
    "macro_precision",
    "macro_jaccard",
    "min_recall",
    "g_mean",
    "h_mean",
    "q_mean",
    "cohen_kappa",
    "linear_kappa",
    "quadratic_kappa",
    "mcc",
    "f1",
    "jaccard",
    "fowlkes_mallows",
    "ams",
    "micro_f1",
    "micro_f1_once",
    "informedness",
)
# then those of all classes that have no parameters
SHOWN = (*ORDER, *(name for name in plain_names() if name not in ORDER))
OF_TWO = ("linear_kappa", "quadratic_kappa", "micro_f1")  # of two classes these are Cohen's kappa and F1
PARTS = ("precision", "recall", "f1")


def applicable(table: Part, tuned: Metric, second: Metric, *, order_known: bool) -> dict[str, Metric]:
    """Return the metrics for a table by name: the tuned one, the second one, and those of the catalogue."""
    K = table.n_classes
    present = np.flatnonzero(table.label_weight() > 0).tolist()
    metrics_shown = {repr(tuned): tuned, repr(second): second}
    positive = K == 2 and tuned.label is not None
    for name in SHOWN:
        metric = metrics.get(name)
        fits = not (metric.binary and K != 2) and (order_known or positive or not metric.ordered)
        # of two classes the page would show the same number under two names
        if fits and not (K == 2 and name in OF_TWO):
            if metric.one_class and positive:
                # the class of the tuned metric is the positive one of all: the page compares them
                metric = aligned(replace(metric, label=tuned.label, binary=False, ordered=False), table.classes)
            elif metric.ordered and positive:
                k = positive_class(tuned)
                metric = in_given_order(metric, (1 - k, k))
            elif metric.ordered and tuned.ordered and tuned.classes is not None:
                # an ordered metric means the same scale as the tuned one, which may count the classes otherwise
                metric = replace(metric, classes=tuned.classes)
            over = replace(metric, classes=tuple(present))
            if metric.divides_by_prior and len(present) < K and repr(over) in metrics_shown:
                continue  # without the absent classes it is the tuned one
            metrics_shown.setdefault(repr(metric), metric)
    return metrics_shown


def of_class(part: str, k: int) -> Metric:
    """Return precision, recall or F1 of class k as a metric for a bootstrap; a class without rows has no recall."""
    return replace(metrics.get(part), classes=(k,), binary=False, ordered=False)
