"""The weight of the model against the labels, in a shrinkage estimate of the confusion matrix.

Counts of labels are unbiased, but have the variance of few rows. The model's probabilities have little variance, but
are biased if they are not calibrated. Consider the recall of a class at a fixed rule. The average of the two estimates
with the smallest mean squared error gives the model the weight ``V / (V + bias^2)``, where V is the variance of the
difference D between the two. The data estimate this weight, because ``E D^2 = V + bias^2``. For D, each row has
probabilities that were calibrated without it.

All classes share one weight: D is pooled over the classes and over two fixed rules, argmax and p / prior. Of two
classes it is pooled over thresholds along the whole order, because every threshold is compared on the blend. A model
that is right at two rules may be wrong between them. Within limits the levels of the order are compared, too: a recall
does not see that half of the expected rows are true, and a precision does.

The blend is the default with labels: on small samples it is better than labels for nine of ten metrics measured
(`benchmarks/RESULTS.md`, section confusion). What is proved of its rule is of the model alone
(`solution/search.py`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import ABSENT, Array, Gains
from confmax.tables import Part, Table, decide

ROUNDING = 1e-12  # a recall that differs by less than 1e-8 does not differ
QUANTILES = 24  # of the rows in the order of two classes, at which recalls are compared,
STEPS = 12  # and of the rows that are expected of either class
LEVELS = 10  # parts of the order, up to whose ends labels are counted
ALONG = 1.5  # times V: what chance explains of the square of D along one order
LEAST_SHARE = 0.2  # of the model: where it is smaller, labels alone count within limits on one class, or two
LEAST_VARIANCE = 1e-4  # so that classes whose recall is certain do not decide alone


def model_share(table: Table, fraction: float = 1.0, *, levels: bool = False) -> float:
    """Return the weight of the model, from 0 to 1, in the blend of model and label confusion.

    The weight is ``min(1, sum w V / sum w D^2)`` with ``w = 1 / (V + 1e-4)``, summed over what is compared. Along one
    order the differences go together, so that chance makes them large at once: half of V more is put down to it. If
    the rows are a sample, a ``fraction`` of all rows that the blend is used for, the excess of ``sum w D^2`` over ``sum
    w V`` is the bias on all rows, whose variance is smaller than V. The labelled rows of the table were calibrated
    without them (`confmax.calibration.held_out`); the rules decide on the raw probabilities. With ``levels``, how often
    labels of two classes are true among the first tenths of the order is compared, too.
    """
    differences, variances = _differences(table.head, levels=levels)
    weight = 1.0 / (variances + LEAST_VARIANCE)
    off = float(weight @ differences**2)
    if off <= ROUNDING:
        return 1.0
    sampling = float(weight @ variances)
    by_chance = sampling * (ALONG if table.n_classes == 2 else 1.0)
    bias = max(off - by_chance, 0.0)
    rest = sampling * fraction
    return rest / (rest + bias) if rest + bias > 0.0 else 1.0


def shares_of_groups(table: Table, fraction: float = 1.0) -> Array:
    """Return the `model_share` of every group (G,) of a table with limits; without rows that of all groups."""
    whole = model_share(table, fraction, levels=True)
    rows = table.head
    shares = np.full(len(rows.groups), whole)
    for g in range(len(shares)):
        there = np.flatnonzero(rows.groups.codes == g)
        if len(there):
            raw = None if rows.raw is None else rows.raw.take(there)
            shares[g] = model_share(Table.of(replace(rows.take(there), raw=raw)), fraction, levels=True)
    return shares


def _differences(table: Part, *, levels: bool) -> tuple[Array, Array]:
    """Return quantities of labels minus those of the model, and the variances of these differences.

    The quantities are the recalls of every present class by some rules. The variance is that of the labels given the
    probabilities: row i contributes ``p (1 - p)`` times the square of what its label moves the recall by, ``w_i (1[h =
    k] - T_k) / pi_k``.
    """
    labels = table.labels
    K = table.n_classes
    assert labels is not None
    w = table.weights
    # weights are relative: the variance sees (sum w)^2 / sum w^2 rows
    w = w / w.sum()
    given = table if table.raw is None else table.raw
    if K == 2:
        key, p = (one.probability_of(np.ones(len(w), dtype=np.intp)) for one in (given, table))
        return _along_order(key, p.astype(np.float64), w, labels == 1, levels=levels)
    prior = np.bincount(labels, weights=w, minlength=K)
    model = table.column_sums(w)
    spread = table.column_sums(w**2, spread=True)
    present = (prior > ABSENT) & (model > ABSENT)
    inverse = np.divide(1.0, prior, out=np.zeros(K), where=prior > ABSENT)
    differences = []
    variances = []
    # the probe rules are argmax and the rule of balanced accuracy, which do not depend on the metric
    for decision in decide(given.proba, Gains.reduced(np.array([np.ones(K), inverse]))):
        p = table.probability_of(decision).astype(np.float64)
        hits, own = (np.bincount(decision, weights=each, minlength=K) for each in (w * p, w**2 * p * (1.0 - p)))
        recall = np.divide(hits, model, out=np.zeros(K), where=present)
        observed = np.bincount(labels, weights=w * (decision == labels), minlength=K) * inverse
        differences.append((observed - recall)[present])
        # rows that decide the class move its recall by 1 - T, the others by T
        moved = (1.0 - recall) ** 2 * own + recall**2 * np.maximum(spread - own, 0.0)
        variances.append(moved[present] / model[present] ** 2)
    return np.concatenate(differences), np.concatenate(variances)


def _along_order(
    key: NDArray[Any], p: Array, w: Array, true: NDArray[np.bool_], *, levels: bool
) -> tuple[Array, Array]:
    """Return what `_differences` does of two classes, whose rules are thresholds at quantiles of ``key`` (n,).

    ``p`` (n,) are the probabilities of the second class, ``w`` (n,) weights whose sum is one.
    """
    order = np.argsort(-key, kind="stable")
    key, p, w, true = key[order], p[order], w[order], true[order]
    ends = np.append(np.flatnonzero(key[1:] != key[:-1]), len(key) - 1) + 1
    rows = np.append(0.0, np.cumsum(w))
    spread = np.append(0.0, np.cumsum(w**2 * p * (1.0 - p)))
    differences, variances = [], []
    # a rare class lies in few of the rows, and a tie may hold most of them
    expected = [np.append(0.0, np.cumsum(w * each)) for each in (p, 1.0 - p)]
    some = np.unique(np.concatenate([_at(ends, rows, QUANTILES), *(_at(ends, each, STEPS) for each in expected)]))
    for q, is_true, above in ((p, true, True), (1.0 - p, ~true, False)):
        model, labels = (np.append(0.0, np.cumsum(w * each)) for each in (q, is_true))
        if min(model[-1], labels[-1]) > ABSENT:
            recall, observed = (each[some] / each[-1] for each in (model, labels))
            own = spread[some]
            if not above:
                recall, observed, own = 1.0 - recall, 1.0 - observed, spread[-1] - own
            differences.append(observed - recall)
            variances.append(((1.0 - recall) ** 2 * own + recall**2 * (spread[-1] - own)) / model[-1] ** 2)
        if levels and above:
            there = np.append(_at(ends, rows, LEVELS - 1), len(key))
            differences.append((labels - model)[there] / rows[there])
            variances.append(spread[there] / rows[there] ** 2)
    return np.concatenate([np.zeros(0), *differences]), np.concatenate([np.zeros(0), *variances])


def _at(ends: NDArray[np.intp], rows: Array, n: int) -> NDArray[np.intp]:
    """Return the ends of equal numbers at ``n`` quantiles of the running sums ``rows``, without the end of all."""
    wanted = rows[-1] * np.arange(1, n + 1) / (n + 1)
    some = ends[np.unique(np.searchsorted(rows[ends], wanted).clip(max=len(ends) - 1))]
    return np.asarray(some[some < ends[-1]])
