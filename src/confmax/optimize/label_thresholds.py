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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.calibration.labels import LabelScaling
from confmax.confusion import Array, Confusion, Gains
from confmax.kernels.label_bins import BUCKETS, EDGES, GIVEN, LEAST, MAPPED, bucket_of
from confmax.metrics import Metric
from confmax.metrics.first_order import safe_ratio
from confmax.metrics.labels import each_of, fraction_of, is_total, shares_of
from confmax.optimize.cuts import EQUAL, shortest
from confmax.optimize.label_cuts import (
    FEW,
    MOST,
    BestCuts,
    Counted,
    Entries,
    LabelBins,
    Sorted,
    Values,
    best_cuts,
    estimate,
)
from confmax.optimize.stored_labels import Stored
from confmax.oracle import CountingOracle
from confmax.tables import MemoryTable, Table
from confmax.tables.array.label_columns import MOST_KEPT
from confmax.tables.decisions import ANY, Decisions
from confmax.tables.draws import uniform
from confmax.tables.several import decide_labels

RESAMPLES = 30
ENOUGH = 300  # true rows, from which on a label's best threshold is not resampled
MARGIN = 4
SAMPLE = 1 << 10  # rows, or entries, whose levels are the first ones
ROUNDS = 20
LEAST_NEAR = 512  # rows that are drawn anew at least, and at most
MOST_NEAR = 1 << 15
# how likely it is that a Poisson number of mean one is at most 0, 1, ...
POISSON = np.cumsum(np.exp(-1.0) / np.array([math.factorial(k) for k in range(12)]))
KEPT = ("weight", "mean", "known", "stored", "_modelled", "bins")  # what estimates of all shares have in common


@dataclass(frozen=True, eq=False)
class Target:
    """The estimate of what is true of every row and label: ``share p + (1 - share) y``, by label.

    ``maps`` are those of the calibration; None leaves probabilities as they are. Labels that are ``barred`` (L,) are
    never decided, because no row has them; None are none.
    """

    table: Table
    share: Array
    maps: LabelScaling | None = None
    barred: NDArray[np.bool_] | None = None

    @property
    def here(self) -> MemoryTable:
        """The table, all of whose rows are in memory."""
        assert self.table.is_whole
        return self.table.in_memory()

    @cached_property
    def weight(self) -> Array:
        """The weight of every row (n,), as a fraction of all weight."""
        table = self.here
        weights = np.ones(table.n_rows) if table.weight is None else table.weight
        return np.asarray(weights / weights.sum())

    @cached_property
    def stored(self) -> Stored | None:
        """What a sparse table stores; None for arrays."""
        return Stored.of(self.here, self._modelled) if self.table.is_truncated else None

    @cached_property
    def _modelled(self) -> NDArray[Any]:
        """The calibrated probabilities of what a sparse table stores, in its order."""
        csr = self.here.proba
        # the map of one label is that of many, a label for each entry
        return csr.data if self.maps is None else self.maps.column(csr.data, csr.indices)

    @cached_property
    def known(self) -> dict[int, tuple[NDArray[Any], NDArray[Any]]]:
        """The columns of labels, given and calibrated, that are kept, because they are read several times."""
        return {}

    def best(self, metric: Metric) -> LabelThresholds:
        """Return the best thresholds for a mean of scores of labels, or for a ratio of sums over them."""
        found = (best_for_all if is_total(metric) else best_per_label)(metric, self)
        return without(found, self.barred)

    def allowed(self, thresholds: Array) -> Array:
        """Return ``thresholds`` (L,), infinity for labels that are never decided."""
        return thresholds if self.barred is None else np.where(self.barred, np.inf, thresholds)

    @property
    def n_passes(self) -> int:
        """How often all rows were read; those of an array with maps are counted once, and kept."""
        if self.table.is_whole:
            return 1 if self.maps is not None else max(1, self.oracle.n_passes)
        return self.bins.passes[0] + self.oracle.n_passes

    def deciding(self, decisions: Decisions) -> Target:
        """Return the estimate of rows for which these ``decisions`` are made."""
        table: Any = self.table
        return replace(self, table=replace(table, decisions=decisions))

    def near(self, wanted: Mapping[int, int]) -> Iterator[tuple[int, float, NDArray[Any], Array, Array]]:
        """Yield some labels, and of so many rows ``wanted`` with the largest probabilities these, estimate and weight.

        All rows that have the least of these probabilities are among them, which is yielded second.
        """
        if self.stored is not None:
            for label, many in wanted.items():
                p, rows = self.columns(label)[0], self.places(label)
                edge = -np.inf if many >= len(p) else float(np.partition(p, len(p) - many)[len(p) - many])
                kept = p >= edge
                yield label, edge, p[kept], self.column(label)[kept], self.weight[rows][kept]
            return
        for labels in self.bins.batches():
            if some := [label for label in wanted if label in labels]:
                yield from self._near(labels, {label: wanted[label] for label in some})

    def _near(
        self, labels: range, wanted: Mapping[int, int]
    ) -> Iterator[tuple[int, float, NDArray[Any], Array, Array]]:
        """Yield what `near` does of an array, of bins from the largest probabilities on."""
        above = np.cumsum(self.bins.sums(labels).rows, axis=1)
        last = {label: _reached(above[label - labels.start], many) for label, many in wanted.items()}
        some = np.zeros(above.shape, np.bool_)
        for label, k in last.items():
            some[label - labels.start, : k + 1] = True
        found = self.bins.entries(labels, some)
        for label, many in wanted.items():
            part = Entries._make(each[found.label == label - labels.start] for each in found)
            if not len(part.p):
                continue
            edge = -np.inf
            if many < len(part.p):
                edge = float(np.partition(part.p, len(part.p) - many)[len(part.p) - many])
            elif last[label] + 1 < above.shape[1]:
                edge = float(self.bins.edges[last[label] + 1])
            kept = part.p >= edge
            made = estimate(self.share[label], part.value, part.true)
            yield label, edge, part.p[kept], made[kept], part.weight[kept] / self.table.weight_total

    def columns(self, label: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the given and the calibrated probabilities of one ``label``: (n,), of a sparse table those stored."""
        if self.stored is not None:
            part = self.stored.of_label(label)
            return self.stored.p[part], self.stored.calibrated[part]
        found = self.known.get(label)
        if found is None:
            p = np.abs(self.here.label_columns.of_label(label))
            found = p, p if self.maps is None else self.maps.column(p, label)
            if self.here.proba.size <= MOST_KEPT:
                self.known[label] = found
        return found

    def places(self, label: int) -> Any:
        """Return the rows of what `columns` gives of one ``label``: a slice of all, or indices."""
        return slice(None) if self.stored is None else self.stored.row[self.stored.of_label(label)]

    @cached_property
    def bins(self) -> LabelBins:
        """The rows of an array in bins."""
        return LabelBins(self.table, self.maps)

    @cached_property
    def mean(self) -> Array:
        """The means (L,) of the calibrated probabilities."""
        if self.stored is not None:
            values = self.weight[self.stored.row] * self.stored.calibrated
            return np.bincount(self.stored.label, values, self.table.n_classes).astype(np.float64)
        if self.maps is None:
            return self.table.mean_probability()
        sums = np.concatenate([self.bins.sums(labels).value.sum(axis=1) for labels in self.bins.batches()])
        return sums / self.table.weight_total

    @cached_property
    def rows(self) -> Array:
        """How often every label is true (L,)."""
        if self.maps is None or self.stored is not None:
            return self.oracle.rows
        true = self.table.label_weight() if (self.share < 1.0).any() else 0.0
        model = self.mean if (self.share > 0.0).any() else 0.0
        return np.asarray(self.share * model + (1.0 - self.share) * true)

    @cached_property
    def oracle(self) -> CountingOracle:
        """The oracle of this estimate, without the calibration; that of a sparse table counts with it."""
        if self.stored is not None and self.maps is not None:
            from confmax.tables.sparse.labels import SparseLabelsOracle

            return CountingOracle(SparseLabelsOracle(self.here, self.share, self._modelled), barred=self.barred)
        return CountingOracle(self.table.oracle(self.share), barred=self.barred)

    @cached_property
    def answers(self) -> dict[bytes, Confusion]:
        """The statistics of rules that are counted by scans: a rule that is found is asked for again."""
        return {}

    def with_share(self, share: float) -> Target:
        """Return the estimate with the same ``share`` of the model for every label."""
        found = replace(self, share=np.full(self.table.n_classes, share))
        # what has been computed of all rows is not computed again
        vars(found).update({name: vars(self)[name] for name in KEPT if name in vars(self)})
        return found

    def column(self, label: int) -> Array:
        """Return the estimate of one ``label``, of the rows of `columns`."""
        if self.stored is not None:
            return self.stored_estimate[self.stored.of_label(label)]
        share = float(self.share[label])
        if share == 0.0:
            return np.asarray(self.here.labels[:, label], dtype=np.float64)  # type: ignore[index]
        out = share * self.columns(label)[1].astype(np.float64, copy=False)
        return out if share == 1.0 else out + (1.0 - share) * self.here.labels[:, label]  # type: ignore[index]

    @cached_property
    def stored_estimate(self) -> Array:
        """The estimate of what a sparse table stores, in the order of `stored`."""
        stored = self.stored
        assert stored is not None
        share = self.share[stored.label]
        out = share * stored.calibrated
        if (self.share < 1.0).any():
            oracle: Any = self.oracle.oracle
            out += (1.0 - share) * oracle.true_entries[stored.order]
        return np.asarray(out)

    def counted(self, gains: Gains) -> Confusion:
        """Return the statistics (B) of deciding by each of ``gains`` on the given probabilities."""
        table = self.table
        if self.maps is None or self.stored is not None:
            keys = [b"".join(part.tobytes() for part in gains[k].pair()) for k in range(len(gains))]
            new = [k for k, key in enumerate(keys) if key not in self.answers]
            if new:
                answers = self.oracle.maximize(Gains.concatenate([gains[k] for k in new]))
                self.answers.update({keys[k]: answers[place] for place, k in enumerate(new)})
            return replace(Confusion.stack([self.answers[key] for key in keys]), rows=self.rows)
        known = self.bins.above(gains) if table.decisions == ANY else None
        if known is not None:
            made, true, value = known
            return Confusion(self.rows, estimate(self.share, value, true), made)
        scanned = self.bins.over_parts(partial(_scanned, gains, self.share, table.weight_total))
        hits, decided = reduce(np.add, scanned)
        return Confusion(self.rows, hits, decided)


def _scanned(gains: Gains, share: Array, total: float, bins: LabelBins) -> Array:
    """Return hits and decisions (2, B, L) of a part by each of ``gains``, where all rows weigh ``total``."""
    part = bins.table.in_memory()
    weight = (np.ones(part.n_rows) if part.weight is None else part.weight) / total
    out = np.empty((2, len(gains), part.n_classes))
    estimates = Target(part, share, bins.maps)
    for k in range(len(gains)):
        chosen = decide_labels(part.proba, gains[k], part.decisions) != 0
        for label in range(part.n_classes):
            there = np.flatnonzero(chosen[:, label])
            out[0, k, label] = weight[there] @ estimates.column(label)[there]
        out[1, k] = weight @ chosen
    return out


def _reached(above: Array, many: int) -> int:
    """Return the bin by which there are so ``many`` rows, of which ``above`` (B,) are above the ends of the bins.

    A bin that holds very many more is left out, as where most rows have the same probability.
    """
    k = min(int(np.searchsorted(above, many)), len(above) - 1)
    return k - 1 if above[k] > MOST and k > 0 else k


@dataclass(frozen=True, eq=False)
class LabelThresholds:
    """Thresholds (L,) above which labels are decided, the statistics there, and the largest value of such rules.

    Of a mean of scores, ``common`` is the one threshold that is best for all labels, of those between buckets.
    """

    values: Array
    statistics: Confusion
    most: float
    common: float | None = None


def without(found: LabelThresholds, barred: NDArray[np.bool_] | None) -> LabelThresholds:
    """Return thresholds that never decide labels that are ``barred`` (L,); metrics do not count these."""
    if barred is None or not barred.any():
        return found
    S = found.statistics
    hits, decided = (np.where(barred, 0.0, part) for part in (S.diagonal, S.columns))
    values = np.where(barred, np.inf, found.values)
    return replace(found, values=values, statistics=Confusion(S.rows, hits, decided))


def best_per_label(metric: Metric, target: Target) -> LabelThresholds:
    """Return the best threshold of every label, for a ``metric`` that is a mean of scores of labels."""
    if (coefficients := _levels(metric, target)) is not None:
        return by_levels(metric, target, coefficients)
    if target.stored is not None:
        return of_stored(metric, target, target.stored)
    rows = target.rows
    shares = shares_of(metric, rows)
    cuts = []
    edges = target.bins.edges
    together = np.zeros(len(edges))
    for labels in target.bins.batches():
        found = cuts_of(target, labels, partial(_scores_at, metric, rows[labels]))
        together += found.at_all(shares[labels])
        cuts.append(found)
    low, high, hits, decided, beyond = (np.concatenate(parts) for parts in list(zip(*cuts, strict=True))[:5])
    statistics = Confusion(rows, hits, decided)
    most = float(metric.values(statistics)) + float(shares @ beyond)
    return LabelThresholds(_between(low, high, target), statistics, most, float(edges[np.argmax(together)]))


def _scores_at(metric: Metric, rows: Array, hits: Array, decided: Array, label: NDArray[np.intp]) -> Array:
    """Return the scores (...) of labels of which ``rows`` (m,) is how often each is true."""
    return each_of(metric, Confusion(rows[label], hits, decided))


def cuts_of(target: Target, labels: range, values: Values) -> BestCuts:
    """Return the best cuts of some ``labels`` (m,) by ``values`` of their hits and decisions; of a sparse table of all.

    Of a sparse table all entries are sorted. Rows that do not store a label are below its threshold.
    """
    stored = target.stored
    if stored is not None:
        weight = target.weight[stored.row]
        entries = Sorted(stored.label, stored.p, stored.p, weight, weight * target.stored_estimate)
        made, true = (
            np.bincount(stored.label, part, len(labels)).astype(np.float64)[:, None] for part in (weight, entries.hits)
        )
        whole = Counted(true, made, np.diff(stored.edges)[:, None] > 0, BUCKETS)
        cuts = best_cuts(whole, values, lambda _: entries, True)
        return cuts._replace(low=np.maximum(cuts.low, stored.lowest))
    bins = target.bins
    sums = bins.sums(labels)
    total = target.table.weight_total

    def take(wanted: NDArray[np.bool_]) -> Sorted:
        return bins.cut([(labels, wanted)], target.share, GIVEN, together=False)

    hits = estimate(target.share[labels, None], sums.value, sums.true) / total
    counted = Counted(hits, sums.weight / total, sums.rows > 0.0, bins.step)
    return best_cuts(counted, values, take, target.table.n_rows <= FEW)


def common_cut(target: Target, labels: list[int], values: Callable[[Array, Array], Array]) -> BestCuts:
    """Return the best cut (1,) of the calibrated probabilities of all ``labels`` by ``values``."""
    n = target.table.n_rows * len(labels)
    stored = target.stored
    if stored is not None:
        some = np.isin(stored.label, labels)
        p, weight = stored.calibrated[some], target.weight[stored.row][some]
        parts = (weight * target.stored_estimate[some], weight, np.ones(len(p)))
        place = bucket_of(p)
        hits, decided, count = (np.bincount(place, part, BUCKETS).astype(np.float64)[None] for part in parts)

        def near(wanted: NDArray[np.bool_]) -> Sorted:
            k = np.flatnonzero(wanted[0, place])
            return Sorted.by_key(p[k], weight[k], parts[0][k])

        return best_cuts(Counted(hits, decided, count > 0.0), lambda t, q, _: values(t, q), near, len(p) <= FEW)
    bins = target.bins
    counted = np.isin(np.arange(target.table.n_classes), labels)
    sums = np.zeros((3, 1, len(bins.edges) - 1))
    for batch in bins.batches():
        made = bins.sums(batch, MAPPED)
        parts = estimate(target.share[batch, None], made.value, made.true), made.weight, made.rows
        sums[:, 0] += [counted[batch] @ part for part in parts]

    def take(wanted: NDArray[np.bool_]) -> Sorted:
        some = [(batch, wanted & counted[batch, None]) for batch in bins.batches()]
        return bins.cut(some, target.share, MAPPED, together=True)

    hits, decided = sums[:2] / target.table.weight_total
    return best_cuts(Counted(hits, decided, sums[2] > 0.0, bins.step), lambda t, q, _: values(t, q), take, n <= FEW)


def of_stored(metric: Metric, target: Target, stored: Stored) -> LabelThresholds:
    """Return `best_per_label` of a sparse table."""
    rows = target.rows
    shares = shares_of(metric, rows)
    cuts = cuts_of(target, range(len(rows)), partial(_scores_at, metric, rows))
    # what each entry adds to the score of its label
    label = stored.label[cuts.ends]
    first = np.append(True, label[1:] != label[:-1])[: len(label)]
    earlier = np.where(first, cuts.edges[label, 0], np.append(0.0, cuts.inside[:-1])[: len(label)])
    changes = np.bincount(bucket_of(stored.p[cuts.ends]) + 1, shares[label] * (cuts.inside - earlier), BUCKETS + 1)
    changes[0] += shares @ cuts.edges[:, 0]
    thresholds = _between(cuts.low, cuts.high, target)
    statistics = target.counted(Gains.above(thresholds))[0]
    common = float(EDGES[np.argmax(np.cumsum(changes))])
    return LabelThresholds(thresholds, statistics, float(metric.values(statistics)), common)


def _between(low: Array, high: Array, target: Target) -> Array:
    """Return thresholds (L,) between what is not decided and what is."""
    return shortest(low, high, target.table.dtype, closed=False)


def _levels(metric: Metric, target: Target) -> tuple[float, float, float] | None:
    """Return the coefficients of scores whose best levels `by_levels` finds; None where rows are counted and sorted."""
    on_model = target.maps is None and not target.table.is_truncated and bool((target.share == 1.0).all())
    return levels_on_model(metric) if on_model and target.table.n_rows * target.table.n_classes > FEW else None


def levels_on_model(metric: Metric) -> tuple[float, float, float] | None:
    """Return (hits, base, less) of scores whose best levels `by_levels` finds on the model; None for other scores."""
    found = fraction_of(metric)
    if found is None:
        return None
    hits, base, decided, less = found
    # a precision has no floor below its denominator
    return (hits, base, less) if base > 0.0 and decided == 1.0 else None


def by_levels(metric: Metric, target: Target, coefficients: tuple[float, float, float]) -> LabelThresholds:
    """Return the best thresholds on the model, of scores such as F1, in a few scans without sorting.

    A score ``hits t / (base r + q - less t)``, of a label or of the sums over all, is largest where labels are decided
    above ``level / (hits + less level)``, the level being the largest score. Dinkelbach's method finds it, from the
    level of some of the rows. What is left of the numerator at the last level bounds all scores.
    """
    table = target.table
    top, base, less = coefficients
    pooled = is_total(metric)
    sample = table.in_memory()
    some = sample.proba[:: -(-sample.n_rows // max(1, SAMPLE // (table.n_classes if pooled else 1)))].astype(np.float64)
    some = -np.sort(-(some.reshape(-1, 1) if pooled else some), axis=0)
    hits = np.cumsum(some, axis=0)
    counts = np.arange(1.0, len(some) + 1.0)[:, None]
    level = safe_ratio(top * hits, base * hits[-1] + counts - less * hits).max(axis=0)
    for _ in range(ROUNDS):
        each = np.broadcast_to(level, (table.n_classes,))
        thresholds = each / (top + less * each)
        S = target.counted(Gains.above(thresholds))[0]
        parts = (S.rows, S.diagonal, S.columns)
        r, t, q = (part.sum(keepdims=True) for part in parts) if pooled else parts
        below = base * r + q - less * t
        reached = safe_ratio(top * t, below)
        # at another level the numerator has no more than this left
        most = level + safe_ratio(np.maximum(top * t - level * below, 0.0), base * r)
        if (most - reached).max() <= EQUAL:
            break
        level = reached
    value = float(metric.values(S))
    bound = float(most[0])
    if not pooled:
        bound = float(shares_of(metric, S.rows) @ most)
    return LabelThresholds(thresholds, S, max(bound, value))


def best_for_all(metric: Metric, target: Target) -> LabelThresholds:
    """Return the best thresholds for a ``metric`` of the sums over labels: one on the calibrated probabilities of all.

    On the probabilities as they are given, it is another one for every label.
    """
    if (coefficients := _levels(metric, target)) is not None:
        return by_levels(metric, target, coefficients)
    labels = counted_in(metric, target.table.n_classes)
    # a ratio of sums reads nothing else of the three vectors
    values = score_of_one(replace(metric, classes=None), float(target.rows[labels].sum()))
    cut = common_cut(target, labels, values)
    thresholds = thresholds_from(target, cut.low[0], cut.high[0])
    statistics = target.counted(Gains.above(thresholds))[0]
    value = float(metric.values(statistics))
    # on the model's estimate, no thresholds of the labels are better than a common one
    most = value if (target.share == 1.0).all() else most_of_sums(metric, target, value)
    return LabelThresholds(thresholds, statistics, most)


def most_of_sums(metric: Metric, target: Target, level: float) -> float:
    """Return the largest value over all thresholds, one for each label, of a ``metric`` of the sums over labels.

    ``level`` is the value of some thresholds. At each level the best cut of a label does not depend on the others.
    """
    found = fraction_of(metric)
    assert found is not None
    top, base, spent, less = found
    labels = counted_in(metric, target.table.n_classes)
    floor = base * float(target.rows[labels].sum())
    most = level if floor else 1.0
    for _ in range(ROUNDS if floor else 0):
        hits, decided, beyond = most_at(target, labels, top + less * level, spent * level)
        below = floor + spent * decided - less * hits
        most = level + max(top * hits - level * below + beyond, 0.0) / floor
        if most - level <= EQUAL:
            break
        level = max(level, top * hits / below)
    return most


def most_at(target: Target, labels: list[int], gain: float, price: float) -> tuple[float, float, float]:
    """Return the hits and decisions of all ``labels`` at the largest ``gain`` hits less ``price`` decisions of each.

    The third number is how much larger this may be, where probabilities are counted together.
    """
    L = target.table.n_classes
    counted = np.isin(np.arange(L), labels)
    sums = np.zeros(3)
    for batch in target.bins.batches() if target.stored is None else [range(L)]:
        cuts = cuts_of(target, batch, lambda t, q, _: gain * t - price * q)
        sums += [counted[batch] @ part for part in (cuts.hits, cuts.decided, cuts.beyond)]
    return float(sums[0]), float(sums[1]), float(sums[2])


def counted_in(metric: Metric, n_labels: int) -> list[int]:
    """Return the labels that a ``metric`` counts."""
    return list(range(n_labels) if metric.classes is None else metric.classes)


def thresholds_from(target: Target, low: float, high: float) -> Array:
    """Return thresholds (L,) that decide every label where its calibrated probability is ``high`` or more, not ``low``.

    On the probabilities as they are given it is another one for every label that has a map.
    """
    if target.maps is None:
        return np.full(target.table.n_classes, shortest(low, high, target.table.dtype, closed=False))
    stored = target.stored
    return _between(*(target.bins.ends(high) if stored is None else stored.within(stored.calibrated >= high)), target)


def steadied(metric: Metric, target: Target, best: LabelThresholds, positives: NDArray[Any], seed: int) -> Array:
    """Return the ``best`` thresholds (L,), of labels with few true rows the geometric mean of those of `RESAMPLES`.

    Which threshold is best depends on few rows, and jumps with them; its mean over resampled rows does not (bagging:
    Breiman 1996). Only the rows near the top are drawn anew, which are `MARGIN` times as many as are decided.
    """
    score = replace(metric, classes=None)
    out = best.values.copy()
    decided = np.ceil(best.statistics.columns * target.table.n_rows).astype(np.intp)
    few = np.flatnonzero((positives > 0) & (positives < ENOUGH) & np.isfinite(best.values)).tolist()
    wanted = {label: min(max(LEAST_NEAR, MARGIN * int(decided[label])), MOST_NEAR) for label in few}
    for label, edge, p, made_true, weight in target.near(wanted):
        # rows that are alike in all of this may change places
        order = np.lexsort((weight, made_true, -p))
        x, s, w = p[order].astype(np.float64), made_true[order], weight[order]
        last = np.flatnonzero(np.append(x[1:] != x[:-1], True))
        draws = _poisson(seed, len(x)) * w
        hits, made = (np.cumsum(part, axis=1)[:, last] for part in (draws * s, draws))
        true = hits[:, -1] + (target.rows[label] - w @ s)
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
