"""Any labels of a row: one threshold a label, the best of all on every estimate of the confusion.

A metric that is a mean of one score per label is maximised label by label, over all places where the rows may be cut,
sorted by the probability of the label. A ratio of sums over all labels has one threshold for all of them, and its
entries are sorted together (`confmax.optimize.label_cuts`). What is cut are the probabilities as they are given; a
calibration that rises keeps their order, and takes part in the estimate alone.

Of labels with few true rows, the best threshold follows these rows. `drawn_together` moves the thresholds of a mean of
scores such as F1 towards the one that is best for all labels, in logarithms, by the number of true rows. Before that,
`steadied` takes the mean of the best ones over resampled rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Confusion, Gains
from confmax.kernels.label_bins import BUCKETS, EDGES, GIVEN, LEAST, MAPPED, bucket_of
from confmax.metrics import Metric
from confmax.metrics.first_order import safe_ratio
from confmax.metrics.labels import each_of, fraction_of, is_total, shares_of
from confmax.metrics.views import Fraction
from confmax.optimize.cuts import EQUAL, shortest
from confmax.optimize.estimate import Estimate
from confmax.optimize.label_cuts import (
    FEW,
    BestCuts,
    Counted,
    Sorted,
    Values,
    best_cuts,
    blended,
)
from confmax.optimize.stored_labels import Stored
from confmax.tables.draws import uniform

RESAMPLES = 30
ENOUGH = 300  # true rows, from which on a label's best threshold is not resampled
MARGIN = 4
SAMPLE = 1 << 10  # rows, or entries, whose levels are the first ones
ROUNDS = 20
LEAST_NEAR = 512  # rows that are drawn anew at least, and at most
MOST_NEAR = 1 << 15
# how likely it is that a Poisson number of mean one is at most 0, 1, ...
POISSON = np.cumsum(np.exp(-1.0) / np.array([math.factorial(k) for k in range(12)]))


@dataclass(frozen=True, eq=False)
class LabelThresholds:
    """Thresholds (L,) above which labels are decided, the statistics there, and the largest value of such rules.

    Of a mean of scores, ``common`` is the one threshold that is best for all labels, of those between buckets.
    """

    values: Array
    statistics: Confusion
    most: float
    common: float | None = None


def best_of_labels(metric: Metric, estimate: Estimate) -> LabelThresholds:
    """Return the best thresholds for a mean of scores of labels, or for a ratio of sums over them."""
    found = (best_for_all if is_total(metric) else best_per_label)(metric, estimate)
    return without(found, estimate.barred)


def without(found: LabelThresholds, barred: NDArray[np.bool_] | None) -> LabelThresholds:
    """Return thresholds that never decide labels that are ``barred`` (L,); metrics do not count these."""
    if barred is None or not barred.any():
        return found
    S = found.statistics
    hits, decided = (np.where(barred, 0.0, part) for part in (S.diagonal, S.columns))
    values = np.where(barred, np.inf, found.values)
    return replace(found, values=values, statistics=Confusion(S.rows, hits, decided))


def best_per_label(metric: Metric, estimate: Estimate) -> LabelThresholds:
    """Return the best threshold of every label, for a ``metric`` that is a mean of scores of labels."""
    if (fraction := _on_model(metric, estimate)) is not None:
        return by_levels(metric, estimate, fraction)
    if estimate.stored is not None:
        return of_stored(metric, estimate, estimate.stored)
    rows = estimate.rows
    shares = shares_of(metric, rows)
    edges = estimate.bins.edges
    batches = list(estimate.bins.batches())
    cuts = estimate.bins.each_batch(lambda labels: cuts_of(estimate, labels, partial(_scores_at, metric, rows[labels])))
    together = sum(cut.at_all(shares[labels]) for labels, cut in zip(batches, cuts, strict=True))
    low, high, hits, decided, beyond = (np.concatenate(parts) for parts in list(zip(*cuts, strict=True))[:5])
    statistics = Confusion(rows, hits, decided)
    most = float(metric.values(statistics)) + float(shares @ beyond)
    return LabelThresholds(_between(low, high, estimate), statistics, most, float(edges[np.argmax(together)]))


def _scores_at(metric: Metric, rows: Array, hits: Array, decided: Array, label: NDArray[np.intp]) -> Array:
    """Return the scores (...) of labels of which ``rows`` (m,) is how often each is true."""
    return each_of(metric, Confusion(rows[label], hits, decided))


def cuts_of(estimate: Estimate, labels: range, values: Values) -> BestCuts:
    """Return the best cuts of some ``labels`` (m,) by ``values`` of their hits and decisions; of a sparse table of all.

    Of a sparse table all entries are sorted. Rows that do not store a label are below its threshold.
    """
    stored = estimate.stored
    if stored is not None:
        weight = estimate.weight[stored.row]
        parts = weight, weight * estimate.stored_estimate, weight * stored.calibrated, (weight > 0.0).astype(np.float64)
        entries = Sorted(stored.label, stored.p, stored.p, *parts)
        made, true = (
            np.bincount(stored.label, part, len(labels)).astype(np.float64)[:, None] for part in (weight, entries.hits)
        )
        whole = Counted(true, made, np.diff(stored.edges)[:, None] > 0, BUCKETS)
        cuts = best_cuts(whole, values, lambda _: entries, True)
        return cuts._replace(low=np.maximum(cuts.low, stored.lowest))
    bins = estimate.bins
    sums = bins.sums(labels)
    total = estimate.table.weight_total

    def take(wanted: NDArray[np.bool_]) -> Sorted:
        return bins.cut([(labels, wanted)], estimate.share, GIVEN, together=False)

    hits = blended(estimate.share[labels, None], sums.value, sums.true) / total
    counted = Counted(hits, sums.weight / total, sums.rows > 0.0, bins.step)
    return best_cuts(counted, values, take, estimate.table.n_rows <= FEW)


def common_cut(estimate: Estimate, labels: list[int], values: Callable[[Array, Array], Array]) -> BestCuts:
    """Return the best cut (1,) of the calibrated probabilities of all ``labels`` by ``values``."""
    n = estimate.table.n_rows * len(labels)
    stored = estimate.stored
    if stored is not None:
        some = np.isin(stored.label, labels)
        p, weight = stored.calibrated[some], estimate.weight[stored.row][some]
        parts = (weight * estimate.stored_estimate[some], weight, np.ones(len(p)))
        place = bucket_of(p)
        hits, decided, count = (np.bincount(place, part, BUCKETS).astype(np.float64)[None] for part in parts)

        def near(wanted: NDArray[np.bool_]) -> Sorted:
            k = np.flatnonzero(wanted[0, place])
            return Sorted.by_key(p[k], weight[k], parts[0][k], weight[k] * p[k])

        cuts = best_cuts(Counted(hits, decided, count > 0.0), lambda t, q, _: values(t, q), near, len(p) <= FEW)
        return cuts._replace(low=np.maximum(cuts.low, stored.lowest.max()))
    bins = estimate.bins
    counted = np.isin(np.arange(estimate.table.n_classes), labels)

    def added(batch: range) -> Array:
        made = bins.sums(batch, MAPPED)
        parts = blended(estimate.share[batch, None], made.value, made.true), made.weight, made.rows
        return np.stack([counted[batch] @ part for part in parts])

    sums = np.sum(bins.each_batch(added), axis=0)[:, None]

    def take(wanted: NDArray[np.bool_]) -> Sorted:
        some = [(batch, wanted & counted[batch, None]) for batch in bins.batches()]
        return bins.cut(some, estimate.share, MAPPED, together=True)

    hits, decided = sums[:2] / estimate.table.weight_total
    return best_cuts(Counted(hits, decided, sums[2] > 0.0, bins.step), lambda t, q, _: values(t, q), take, n <= FEW)


def of_stored(metric: Metric, estimate: Estimate, stored: Stored) -> LabelThresholds:
    """Return `best_per_label` of a sparse table."""
    rows = estimate.rows
    shares = shares_of(metric, rows)
    cuts = cuts_of(estimate, range(len(rows)), partial(_scores_at, metric, rows))
    # what each entry adds to the score of its label
    label = stored.label[cuts.ends]
    first = np.append(True, label[1:] != label[:-1])[: len(label)]
    earlier = np.where(first, cuts.edges[label, 0], np.append(0.0, cuts.inside[:-1])[: len(label)])
    changes = np.bincount(bucket_of(stored.p[cuts.ends]) + 1, shares[label] * (cuts.inside - earlier), BUCKETS + 1)
    changes[0] += shares @ cuts.edges[:, 0]
    thresholds = _between(cuts.low, cuts.high, estimate)
    statistics = estimate.counted(Gains.above(thresholds))[0]
    common = float(EDGES[np.argmax(np.cumsum(changes))])
    return LabelThresholds(thresholds, statistics, float(metric.values(statistics)), common)


def _between(low: Array, high: Array, estimate: Estimate) -> Array:
    """Return thresholds (L,) between what is not decided and what is."""
    return shortest(low, high, estimate.table.dtype, closed=False)


def _on_model(metric: Metric, estimate: Estimate) -> Fraction | None:
    """Return the fraction of scores whose best levels `by_levels` finds; None where rows are counted and sorted."""
    on_model = estimate.maps is None and not estimate.table.is_truncated and bool((estimate.share == 1.0).all())
    if not on_model or estimate.table.n_rows * estimate.table.n_classes <= FEW:
        return None
    found = fraction_of(metric)
    # a precision has no floor below its denominator
    return found if found is not None and found.base > 0.0 and found.decided == 1.0 else None


def by_levels(metric: Metric, estimate: Estimate, fraction: Fraction) -> LabelThresholds:
    """Return the best thresholds on the model, of scores such as F1, in a few scans without sorting.

    A score ``hits t / (base r + q - less t)``, of a label or of the sums over all, is largest where labels are decided
    above ``level / (hits + less level)``, the level being the largest score. Dinkelbach's method finds it, from the
    level of some of the rows. What is left of the numerator at the last level bounds all scores.
    """
    table = estimate.table
    pooled = is_total(metric)
    sample = table.head
    some = sample.proba[:: -(-sample.n_rows // max(1, SAMPLE // (table.n_classes if pooled else 1)))].astype(np.float64)
    some = -np.sort(-(some.reshape(-1, 1) if pooled else some), axis=0)
    hits = np.cumsum(some, axis=0)
    counts = np.arange(1.0, len(some) + 1.0)[:, None]
    level = fraction.value(hits[-1], hits, counts).max(axis=0)
    for _ in range(ROUNDS):
        gain, price = fraction.worth(np.broadcast_to(level, (table.n_classes,)))
        thresholds = price / gain
        S = estimate.counted(Gains.above(thresholds))[0]
        parts = (S.rows, S.diagonal, S.columns)
        r, t, q = (part.sum(keepdims=True) for part in parts) if pooled else parts
        reached = fraction.value(r, t, q)
        # at another level the numerator has no more than this left
        left = np.maximum(fraction.hits * t - level * fraction.below(r, t, q), 0.0)
        most = level + safe_ratio(left, fraction.base * r)
        if (most - reached).max() <= EQUAL:
            break
        level = reached
    value = float(metric.values(S))
    bound = float(most[0])
    if not pooled:
        bound = float(shares_of(metric, S.rows) @ most)
    return LabelThresholds(thresholds, S, max(bound, value))


def best_for_all(metric: Metric, estimate: Estimate) -> LabelThresholds:
    """Return the best thresholds for a ``metric`` of the sums over labels: one on the calibrated probabilities of all.

    On the probabilities as they are given, it is another one for every label.
    """
    if (fraction := _on_model(metric, estimate)) is not None:
        return by_levels(metric, estimate, fraction)
    labels = counted_in(metric, estimate.table.n_classes)
    # a ratio of sums reads nothing else of the three vectors
    values = score_of_one(replace(metric, classes=None), float(estimate.rows[labels].sum()))
    cut = common_cut(estimate, labels, values)
    thresholds = thresholds_from(estimate, cut.low[0], cut.high[0])
    statistics = estimate.counted(Gains.above(thresholds))[0]
    value = float(metric.values(statistics))
    # on the model's estimate, no thresholds of the labels are better than a common one
    most = value if (estimate.share == 1.0).all() else most_of_sums(metric, estimate, value)
    return LabelThresholds(thresholds, statistics, most)


def most_of_sums(metric: Metric, estimate: Estimate, level: float) -> float:
    """Return the largest value over all thresholds, one for each label, of a ``metric`` of the sums over labels.

    ``level`` is the value of some thresholds. At each level the best cut of a label does not depend on the others.
    """
    fraction = fraction_of(metric)
    assert fraction is not None
    labels = counted_in(metric, estimate.table.n_classes)
    true = float(estimate.rows[labels].sum())
    floor = fraction.base * true
    most = level if floor else 1.0
    for _ in range(ROUNDS if floor else 0):
        hits, decided, beyond = most_at(estimate, labels, *fraction.worth(level))
        below = fraction.below(true, hits, decided)
        most = level + max(fraction.hits * hits - level * below + beyond, 0.0) / floor
        if most - level <= EQUAL:
            break
        level = max(level, fraction.hits * hits / below)
    return most


def most_at(estimate: Estimate, labels: list[int], gain: float, price: float) -> tuple[float, float, float]:
    """Return the hits and decisions of all ``labels`` at the largest ``gain`` hits less ``price`` decisions of each.

    The third number is how much larger this may be, where probabilities are counted together.
    """
    L = estimate.table.n_classes
    counted = np.isin(np.arange(L), labels)

    def added(batch: range) -> list[float]:
        cuts = cuts_of(estimate, batch, lambda t, q, _: gain * t - price * q)
        return [float(counted[batch] @ part) for part in (cuts.hits, cuts.decided, cuts.beyond)]

    sums = estimate.bins.each_batch(added) if estimate.stored is None else [added(range(L))]
    hits, decided, beyond = map(sum, zip(*sums, strict=True))
    return hits, decided, beyond


def counted_in(metric: Metric, n_labels: int) -> list[int]:
    """Return the labels that a ``metric`` counts."""
    return list(range(n_labels) if metric.classes is None else metric.classes)


def thresholds_from(estimate: Estimate, low: float, high: float) -> Array:
    """Return thresholds (L,) that decide labels where calibrated probabilities are ``high`` or more, and not ``low``.

    On the probabilities as they are given it is another one for every label that has a map.
    """
    if estimate.maps is None:
        return np.full(estimate.table.n_classes, shortest(low, high, estimate.table.dtype, closed=False))
    stored = estimate.stored
    return _between(
        *(estimate.bins.ends(high) if stored is None else stored.within(stored.calibrated >= high)), estimate
    )


def steadied(metric: Metric, estimate: Estimate, best: LabelThresholds, positives: NDArray[Any], seed: int) -> Array:
    """Return the ``best`` thresholds (L,), of labels with few true rows the geometric mean of those of `RESAMPLES`.

    Which threshold is best depends on few rows, and jumps with them; its mean over resampled rows does not (bagging:
    Breiman 1996). Only the rows near the top are drawn anew, which are `MARGIN` times as many as are decided.
    """
    # rows of weight zero are not drawn, nor do they take the places of others
    estimate = estimate.of_weight()
    score = replace(metric, classes=None)
    out = best.values.copy()
    decided = np.ceil(best.statistics.columns * estimate.table.n_rows).astype(np.intp)
    few = np.flatnonzero((positives > 0) & (positives < ENOUGH) & np.isfinite(best.values)).tolist()
    wanted = {label: min(max(LEAST_NEAR, MARGIN * int(decided[label])), MOST_NEAR) for label in few}
    for label, edge, p, made_true, weight in estimate.near(wanted):
        # rows that are alike in all of this may change places
        order = np.lexsort((weight, made_true, -p))
        x, s, w = p[order].astype(np.float64), made_true[order], weight[order]
        last = np.flatnonzero(np.append(x[1:] != x[:-1], True))
        draws = _poisson(seed, len(x)) * w
        hits, made = (np.cumsum(part, axis=1)[:, last] for part in (draws * s, draws))
        true = hits[:, -1] + (estimate.rows[label] - w @ s)
        values = score.values(Confusion(true[:, None, None], hits[..., None], made[..., None]))
        chosen = values.argmax(axis=1)
        middles = (x[last] + np.append(x[last][1:], min(max(edge, 0.0), x[-1]))) / 2.0
        out[label] = float(f"{np.exp(np.log(np.maximum(middles[chosen], LEAST)).mean()):.6g}")
    return out


def _poisson(seed: int, n: int) -> Array:
    """Return how often each of n rows stands in each of `RESAMPLES` resamples, independent draws of mean one."""
    keys = np.arange(RESAMPLES * n, dtype=np.uint64).reshape(RESAMPLES, n)
    return np.searchsorted(POISSON, uniform(seed, keys.ravel()), "right").reshape(keys.shape).astype(np.float64)


def score_of_one(metric: Metric, rows: float) -> Callable[[Array, Array], Array]:
    """Return a function of hits and decisions (T,): the ``metric`` of one label that is true of the share ``rows``."""
    true = np.array([rows])
    return lambda hits, decided: metric.values(Confusion(true, hits[..., None], decided[..., None]))


def drawn_together(own: Array, towards: Array, positives: NDArray[Any], strength: float) -> Array:
    """Return thresholds (L,) between the labels' ``own`` (L,) and others (L,), by their number of true rows.

    In logarithms, the others count as ``strength`` true rows.
    """
    finite = np.isfinite(own) & np.isfinite(towards)
    one, other = (np.log(np.maximum(np.where(finite, part, 0.5), LEAST)) for part in (own, towards))
    together = np.exp((positives * one + strength * other) / (positives + strength))
    return np.where(finite, together, np.where(positives > 0, own, towards))
