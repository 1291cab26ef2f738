"""Rules that abstain, where the search for one may start."""

from __future__ import annotations

import numpy as np

from confmax.confusion import ABSENT, Array, Gains
from confmax.metrics import Metric
from confmax.metrics.seen import Seen

THRESHOLDS = np.array([0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95, 0.99])  # from the least to the most


def first_rules(metric: Metric, priors: Array) -> Gains | None:
    """Return rules that abstain below a threshold, where a climb may start; None for metrics that need no start.

    They decide the largest p, or the largest p / prior, if it reaches the threshold. ``priors`` (K,) are the class
    sizes.
    """
    if isinstance(metric.formula, Seen):
        layout = metric.formula.layout
        found = first_rules(metric.formula.inner, layout.priors(priors))
        return None if found is None else layout.beside([found] * layout.n_groups)
    if not metric.is_of_decided or metric.structure.is_concave or metric.structure.is_ratio:
        return None
    present = priors > ABSENT
    K = len(priors)
    n = len(THRESHOLDS)
    scale = np.where(present, 1.0 / np.where(present, priors, 1.0), 0.0)
    a = np.concatenate([np.ones((n, K)), np.repeat(scale[None], n, axis=0)])
    b = np.zeros((2 * n, K + 1))
    b[:n, K] = 1.0 / K + (1.0 - 1.0 / K) * THRESHOLDS
    # p / prior reaches one for some class, and at most one over the smallest class
    b[n:, K] = scale.max() ** THRESHOLDS
    return Gains(a, b)
