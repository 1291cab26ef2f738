"""Tables and evidence for tests of reports."""

import numpy as np

import confmax
from confmax.evaluate.evidence import cross_fitted, evidence_of
from confmax.evaluate.figures import figures
from confmax.metrics import get, resolve
from confmax.oracle import make_table
from confmax.tables.groups import Groups


def sample(n=600, K=3, seed=0, sharp=1.0, sizes=None):
    """Return probabilities (n, K) and labels drawn from them (after sharpening by ``sharp``, which miscalibrates)."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(K, 0.8) if sizes is None else sizes, n).clip(1e-6)
    P /= P.sum(1, keepdims=True)
    y = (P.cumsum(1) < rng.random((n, 1))).sum(1).clip(0, K - 1)
    stated = P**sharp
    return stated / stated.sum(1, keepdims=True), y


def judge(
    rule, P, y, metric="macro_f1", *, second="accuracy", weight=None, group=None, classes=None, replicates=199, **more
):
    """Return figures of a rule or solution on rows, by default by macro F1; by the metric of a solution for None."""
    solution = rule if isinstance(rule, confmax.Solution) else None
    own = rule if solution is None else solution.rule
    chosen = solution.metric if metric is None else resolve(metric)
    table = make_table(P, y, weight, classes or own.class_names[: own.n_classes])
    if group is not None:
        table = table.with_groups(Groups.of(group, len(P)))
    return shown(evidence_of(table.head, chosen, own, solution), second, replicates, **more)


def cross_fit(metric, P, y, *, folds=5, second="accuracy", weight=None, replicates=199, **settings):
    """Return figures of rules tuned without each fold."""
    table = make_table(P, y, weight).head

    def tune(kept, kind):
        own = None if weight is None else table.weight[kept]
        names = np.array(table.classes)[table.labels[kept]]
        return confmax.maximize(
            metric, P[kept], names, sample_weight=own, classes=table.classes, **{**settings, **kind}
        )

    solution = tune(np.ones(len(y), bool), {})
    return shown(cross_fitted(table, solution, tune, n_folds=folds, seed=0), second, replicates)


def shown(evidence, second="accuracy", replicates=199, order_known=True):
    return figures(evidence, get(second), order_known=order_known, n_replicates=replicates, level=0.95, seed=0)
