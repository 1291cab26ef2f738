"""Two classes: the value of `confmax.maximize` against every rule ``p >= t``, by enumeration.

Tables have ties, weights of which some are zero, and labels that agree with the probabilities or not. Counted are calls
whose value lies below that of the best threshold on the same estimate, with the weights of the solution, by more than
rounding; so are calls after new class shares (`Solution.adapt`).
"""

from __future__ import annotations

from collections import Counter

import numpy as np

import confmax
from benchmarks.harness import benchmark, markdown

METRICS = (
    *("accuracy", "balanced_accuracy", "informedness", "costs", "f1", "jaccard", "cohen_kappa", "mcc", "macro_f1"),
    *("g_mean", "h_mean", "q_mean", "min_recall"),
)
ESTIMATES = ("model", "labels", "blend")
ROUNDING = 1e-9


def drawn(seed):
    """Return probabilities (n, 2) with ties, labels (n,) of both classes, and weights (n,)."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(8, 60))
    p = rng.beta(*rng.uniform(0.5, 2.0, 2), n).round(int(rng.integers(1, 3)))
    true = np.clip(p ** rng.uniform(0.3, 3.0) * rng.uniform(0.5, 1.0), 0.02, 0.98)
    y = (rng.random(n) < true).astype(int)
    y[:2] = 0, 1
    w = rng.choice([0.0, 0.5, 1.0, 3.0], n)
    w[:2] = 1.0
    return np.column_stack([1.0 - p, p]), y, w


def metric_of(name):
    """Return a metric by its name, or a table of costs."""
    return (
        confmax.metrics.get("linear", cost=[[0.0, 1.0], [3.0, 0.2]]) if name == "costs" else confmax.metrics.get(name)
    )


def matrices(P, y, w, share):
    """Return the confusion matrices (T, 2, 2) of all rules ``p >= t``, of never and always deciding class 1."""
    truth = share * P + (1.0 - share) * (y[:, None] == np.arange(2))
    truth *= (w / w.sum())[:, None]
    chosen = np.array([P[:, 1] >= t for t in [*np.unique(P[:, 1]), np.inf]])
    return np.stack([(~chosen).astype(float) @ truth, chosen.astype(float) @ truth], axis=2)


def shortfall(solution, metric, P, y, w):
    """Return by how much the value of a solution lies below the best threshold; zero where it does not."""
    share = {"model": 1.0, "labels": 0.0}.get(solution.mode, solution.model_share)
    best = max(metric.value(C) for C in matrices(P, y, w, share))
    return max(0.0, best - solution.value)


def short(seed, metrics=METRICS, estimates=ESTIMATES):
    """Yield metric, estimate and whether the value of a drawn table is below the best threshold."""
    P, y, w = drawn(seed)
    for name in metrics:
        metric = metric_of(name)
        for estimate in estimates:
            found = confmax.maximize(metric, P, y, sample_weight=w, confusion=estimate, calibration=None)
            yield name, estimate, shortfall(found, metric, P, y, w) > ROUNDING
        adapted = confmax.maximize(metric, P, y, sample_weight=w, calibration=None).adapt(P, priors=[0.7, 0.3])
        # metrics of the recalls alone keep their rule
        if adapted.rule.calibrator is not None:
            moved = adapted.rule.calibrator.transform(P)
            yield name, "adapted", shortfall(adapted, metric, moved, y, np.ones(len(P))) > ROUNDING


@benchmark("every-threshold", "[TABLES]")
def every_threshold(tables=1000):
    """Count, by metric and estimate, the calls below the best threshold."""
    counts, total = Counter(), Counter()
    for seed in range(tables):
        for name, estimate, is_short in short(seed):
            total[name, estimate] += 1
            counts[name, estimate] += is_short
    kinds = (*ESTIMATES, "adapted")
    rows = [[name, *(f"{counts[name, kind]}" for kind in kinds)] for name in METRICS]
    text = f"{sum(counts.values())} of {sum(total.values())} calls on {tables} tables are below the best threshold."
    return text, markdown(["metric", *kinds], rows)
