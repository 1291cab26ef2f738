"""Rules that abstain, where the search for one may start."""

from __future__ import annotations

import numpy as np

from confmax.confusion import ABSENT, Array, Gains, Layout
from confmax.metrics import Metric
from confmax.metrics.views import View

N_THRESHOLDS = 10


def first_rules(metric: Metric, priors: Array) -> Gains | None:
    """Return rules that abstain below a threshold, where a climb may start; None for metrics that need no start.

    They decide the largest p, or the largest p / prior, if it reaches the threshold. ``priors`` (K,) are the class
    sizes.
    """
    if isinstance(metric.formula, View) and isinstance(layout := metric.formula.blocks, Layout):
        found = first_rules(metric.formula.inner, layout.priors(priors))
        return None if found is None else layout.alike(found)
    if not metric.formula.is_of_decided or metric.structure.is_concave or metric.structure.is_ratio:
        return None
    present = priors > ABSENT
    K = len(priors)
    # in the middles of equal parts, from the least threshold to the largest
    n = N_THRESHOLDS
    thresholds = (np.arange(n) + 0.5) / n
    scale = np.where(present, 1.0 / np.where(present, priors, 1.0), 0.0)
    a = np.concatenate([np.ones((n, K)), np.repeat(scale[None], n, axis=0)])
    b = np.zeros((2 * n, K + 1))
    b[:n, K] = 1.0 / K + (1.0 - 1.0 / K) * thresholds
    # p / prior reaches one for some class, and at most one over the smallest class
    b[n:, K] = scale.max() ** thresholds
    return Gains(a, b)
