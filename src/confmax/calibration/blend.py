"""The weight of the model against the labels, in a shrinkage estimate of the confusion matrix.

Counts of labels are unbiased, but have the variance of few rows. The model's probabilities have little variance, but
are biased if they are not calibrated. Consider the recall of a class at a fixed rule. The average of the two estimates
with the smallest mean squared error gives the model the weight ``V / (V + bias^2)``, where V is the variance of the
difference D between the two. The data estimate this weight, because ``E D^2 = V + bias^2``. All classes share one
weight: D is pooled over the classes and over two fixed rules, argmax and p / prior. For D, each row has probabilities
that were calibrated without it.

The blend is the default with labels: on small samples it is better than labels for nine of ten metrics measured
(`benchmarks/RESULTS.md`, section confusion). What is proved of its rule is of the model alone
(`solution/search.py`).
"""

from __future__ import annotations

import numpy as np

from confmax.confusion import ABSENT, Array, Gains
from confmax.tables import MemoryTable, Table, decide

ROUNDING = 1e-12  # a recall that differs by less than 1e-8 does not differ
LEAST_VARIANCE = 1e-4  # so that classes whose recall is certain do not decide alone


def model_share(table: Table, fraction: float = 1.0) -> float:
    """Return the weight of the model, from 0 to 1, in the blend of model and label confusion.

    The weight is ``min(1, sum w V / sum w D^2)`` with ``w = 1 / (V + 1e-4)``, summed over classes and rules. If the
    rows are a sample, a ``fraction`` of all rows that the blend is used for, the excess of ``sum w D^2`` over ``sum w
    V`` is the bias on all rows, whose variance is smaller than V. The labelled rows of the table were calibrated
    without them (`confmax.calibration.held_out`); the rules decide on the raw probabilities.
    """
    differences, variances = _recall_differences(table.in_memory())
    weight = 1.0 / (variances + LEAST_VARIANCE)
    off = float(weight @ differences**2)
    if off <= ROUNDING:
        return 1.0
    sampling = float(weight @ variances)
    bias = max(off - sampling, 0.0)
    rest = sampling * fraction
    return rest / (rest + bias) if rest + bias > 0.0 else 1.0


def _recall_differences(table: MemoryTable) -> tuple[Array, Array]:
    """Return label recall minus model recall, and the variance of that, for every present class and rule.

    The variance is that of the labels given the probabilities: row i contributes ``p (1 - p)`` times the square of what
    its label moves the recall by, ``w_i (1[h = k] - T_k) / pi_k``.
    """
    labels = table.labels
    K = table.n_classes
    assert labels is not None
    w = np.ones(table.n_rows) if table.weight is None else table.weight
    # weights are relative: the variance sees (sum w)^2 / sum w^2 rows
    w = w / w.sum()
    prior = np.bincount(labels, weights=w, minlength=K)
    model = table.column_sums(w)
    spread = table.column_sums(w**2, spread=True)
    present = (prior > ABSENT) & (model > ABSENT)
    inverse = np.divide(1.0, prior, out=np.zeros(K), where=prior > ABSENT)
    differences = []
    variances = []
    raw = table.proba if table.raw is None else table.raw.proba
    # the probe rules are argmax and the rule of balanced accuracy, which do not depend on the metric
    for decision in decide(raw, Gains.reduced(np.array([np.ones(K), inverse]))):
        p = table.probability_of(decision).astype(np.float64)
        hits, own = (np.bincount(decision, weights=each, minlength=K) for each in (w * p, w**2 * p * (1.0 - p)))
        recall = np.divide(hits, model, out=np.zeros(K), where=present)
        observed = np.bincount(labels, weights=w * (decision == labels), minlength=K) * inverse
        differences.append((observed - recall)[present])
        # rows that decide the class move its recall by 1 - T, the others by T
        moved = (1.0 - recall) ** 2 * own + recall**2 * np.maximum(spread - own, 0.0)
        variances.append(moved[present] / model[present] ** 2)
    return np.concatenate(differences), np.concatenate(variances)
