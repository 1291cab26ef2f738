"""Any labels of a row: one threshold a label, the best of all on every estimate of the confusion.

A metric that is a mean of one score per label is maximised label by label, over all places where the rows may be cut,
sorted by the probability of the label. A ratio of sums over all labels has one threshold for all of them, and its
entries are sorted together. Most rows need no sorting: they are counted in buckets of similar probabilities. All scores
here rise with the hits and fall with the decisions, so within a bucket no cut is better than one that would decide all
of its true rows and no other. Only the rows of buckets where this is better than the best cut between buckets are
sorted. What is cut are the probabilities as they are given; a calibration that rises keeps their order, and takes part
in the estimate alone.

Of labels with few true rows, the best threshold follows these rows. `drawn_together` moves the thresholds of a mean of
scores such as F1 towards the one that is best for all labels, in logarithms, by the number of true rows. Before that,
`steadied` takes the mean of the best ones over resampled rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Confusion, Gains
from confmax.kernels.order import stable_order
from confmax.metrics import Metric
from confmax.metrics.first_order import safe_ratio
from confmax.metrics.labels import Micro, ratio_of, shares_of
from confmax.optimize.stored_labels import EQUAL, Stored, best_cuts
from confmax.oracle import CountingOracle
from confmax.tables import MemoryTable
from confmax.tables.decisions import Decisions
from confmax.tables.draws import uniform
from confmax.tables.several import decide_labels

MOST_DIGITS = 17
FEW = 1 << 12  # rows that are sorted as fast as they are counted
LEAST = 2.0**-24  # probabilities below it share a bucket, and its logarithm
PER_OCTAVE = 16  # bits of a float32 that a bucket leaves out: 128 buckets between a probability and its double
RESAMPLES = 30
ENOUGH = 300  # true rows, from which on a label's best threshold is not resampled
MARGIN = 4
MOST_KEPT = 1 << 24  # entries of a table whose columns are kept
SAMPLE = 1 << 10  # rows, or entries, whose levels are the first ones
ROUNDS = 20
LEAST_NEAR = 512  # rows that are drawn anew at least, and at most
MOST_NEAR = 1 << 15
# how likely it is that a Poisson number of mean one is at most 0, 1, ...
POISSON = np.cumsum(np.exp(-1.0) / np.array([math.factorial(k) for k in range(12)]))
KEPT = ("weight", "mean", "known", "stored", "_modelled")  # what estimates of all shares have in common
BUCKETS = (24 << (23 - PER_OCTAVE)) + 2


@dataclass(frozen=True, eq=False)
class Target:
    """The estimate of what is true of every row and label: ``share p + (1 - share) y``, by label.

    ``calibrate`` maps probabilities (n,) of label number l to calibrated ones, rising; None leaves them as they are.
    """

    table: MemoryTable
    share: Array
    calibrate: Callable[[NDArray[Any], int], Array] | None = None

    @cached_property
    def weight(self) -> Array:
        """The weight of every row (n,), as a fraction of all weight."""
        table = self.table
        weights = np.ones(table.n_rows) if table.weight is None else table.weight
        return np.asarray(weights / weights.sum())

    @cached_property
    def stored(self) -> Stored | None:
        """What a sparse table stores; None for arrays."""
        return Stored.of(self.table, self._modelled) if self.table.is_truncated else None

    @cached_property
    def _modelled(self) -> NDArray[Any]:
        """The calibrated probabilities of what a sparse table stores, in its order."""
        csr = self.table.proba
        # the map of one label is that of many, a label for each entry
        return csr.data if self.calibrate is None else self.calibrate(csr.data, csr.indices)

    @cached_property
    def known(self) -> dict[int, tuple[NDArray[Any], NDArray[Any]]]:
        """The columns of labels, given and calibrated, that are kept, because they are read several times."""
        return {}

    def best(self, metric: Metric) -> LabelThresholds:
        """Return the best thresholds for a mean of scores of labels, or for a ratio of sums over them."""
        return (best_for_all if isinstance(metric.formula, Micro) else best_per_label)(metric, self)

    def most_at(self, labels: list[int], gain: float, price: float) -> tuple[float, float]:
        """Return the hits and decisions of ``labels`` at the largest ``gain`` hits less ``price`` decisions of each."""
        return _most_at(self, labels, gain, price)

    @property
    def n_passes(self) -> int:
        """How often all rows were read."""
        return 1 if self.calibrate is not None else max(1, self.oracle.n_passes)

    def deciding(self, decisions: Decisions) -> Target:
        """Return the estimate of rows for which these ``decisions`` are made."""
        return replace(self, table=replace(self.table, decisions=decisions))

    def near(self, wanted: Mapping[int, int]) -> Iterator[tuple[int, float, NDArray[Any], Array, Array]]:
        """Yield some labels, and of so many rows ``wanted`` with the largest probabilities these, estimate and weight.

        All rows that have the least of these probabilities are among them, which is yielded second.
        """
        for label, many in wanted.items():
            p = self.columns(label)[0]
            edge = -np.inf if many >= len(p) else float(np.partition(p, len(p) - many)[len(p) - many])
            rows = np.flatnonzero(p >= edge)
            yield label, edge, p[rows], self.column(label)[rows], self.weight[self.places(label)][rows]

    def columns(self, label: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the given and the calibrated probabilities of one ``label``: (n,), of a sparse table those stored."""
        if self.stored is not None:
            part = self.stored.of_label(label)
            return self.stored.p[part], self.stored.calibrated[part]
        found = self.known.get(label)
        if found is None:
            p = np.ascontiguousarray(self.table.proba[:, label])
            found = p, p if self.calibrate is None else self.calibrate(p, label)
            if self.table.proba.size <= MOST_KEPT:
                self.known[label] = found
        return found

    def places(self, label: int) -> Any:
        """Return the rows of what `columns` gives of one ``label``: a slice of all, or indices."""
        return slice(None) if self.stored is None else self.stored.row[self.stored.of_label(label)]

    @cached_property
    def mean(self) -> Array:
        """The means (L,) of the calibrated probabilities."""
        if self.stored is not None:
            values = self.weight[self.stored.row] * self.stored.calibrated
            return np.bincount(self.stored.label, values, self.table.n_classes).astype(np.float64)
        if self.calibrate is None:
            return self.table.mean_probability()
        return np.array([self.weight @ self.columns(label)[1] for label in range(self.table.n_classes)])

    @cached_property
    def rows(self) -> Array:
        """How often every label is true (L,)."""
        if self.calibrate is None or self.stored is not None:
            return self.oracle.rows
        true = self.table.label_weight() if (self.share < 1.0).any() else 0.0
        model = self.mean if (self.share > 0.0).any() else 0.0
        return np.asarray(self.share * model + (1.0 - self.share) * true)

    @cached_property
    def oracle(self) -> CountingOracle:
        """The oracle of this estimate, without the calibration; that of a sparse table counts with it."""
        if self.stored is not None and self.calibrate is not None:
            from confmax.tables.sparse.labels import SparseLabelsOracle

            return CountingOracle(SparseLabelsOracle(self.table, self.share, self._modelled))
        return CountingOracle(self.table.oracle(self.share))

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
            return np.asarray(self.table.labels[:, label], dtype=np.float64)  # type: ignore[index]
        out = share * self.columns(label)[1].astype(np.float64, copy=False)
        return out if share == 1.0 else out + (1.0 - share) * self.table.labels[:, label]  # type: ignore[index]

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
        if self.calibrate is None or self.stored is not None:
            return self.oracle.maximize(gains)
        modelled = np.flatnonzero(self.share > 0.0)
        by_label = replace(self, calibrate=None, share=np.zeros(len(self.share))) if table.has_labels else None
        found = []
        for k in range(len(gains)):
            chosen = decide_labels(table.proba, gains[k], table.decisions)
            made = self.weight @ chosen
            hits = np.zeros(len(self.share)) if by_label is None else by_label.oracle.maximize(gains[k])[0].diagonal
            hits = (1.0 - self.share) * hits
            for label in modelled.tolist():
                made_here = np.flatnonzero(chosen[:, label])
                expected = self.weight[made_here] @ self.columns(label)[1][made_here]
                hits[label] += self.share[label] * expected
            found.append(Confusion(self.rows, hits, made))
        return replace(Confusion.stack(found), rows=self.rows)


class Cut(NamedTuple):
    """A place where rows are cut: decided are those with a probability of ``high`` and more, which is above ``low``."""

    low: float
    high: float
    hits: float
    decided: float


def between(low: float, high: float, dtype: np.dtype[Any]) -> float:
    """Return a number with few digits, near the middle, above which probabilities from ``high`` on are decided.

    Those of ``low`` and less are not, in ``dtype``. Infinity stands for never, minus infinity for always.
    """
    if not np.isfinite(high):
        return np.inf
    if not np.isfinite(low):
        return -np.inf
    middle = low + (high - low) / 2.0
    for digits in range(2, MOST_DIGITS):
        short = float(np.format_float_positional(middle, digits, fractional=False))
        if low <= dtype.type(short) < high and low <= short < high:
            return short
    return low


def bucket_of(p: NDArray[Any]) -> NDArray[np.intp]:
    """Return the bucket of every probability (n,), the largest ones first."""
    # the bits of positive numbers have the order of these numbers, also where float32 rounds them
    bits = np.maximum(p.astype(np.float32), np.float32(LEAST)).view(np.int32) >> PER_OCTAVE
    first = int(np.float32(LEAST).view(np.int32)) >> PER_OCTAVE
    return np.asarray((BUCKETS - 1) - (bits.astype(np.intp) - first))


def edge_of(bucket: int) -> float:
    """Return the threshold that decides what lies in the buckets before one."""
    first = int(np.float32(LEAST).view(np.int32)) >> PER_OCTAVE
    # older NumPy makes a shifted int32 an int64
    return float(np.int32((first + BUCKETS - bucket) << PER_OCTAVE).view(np.float32))


@dataclass(frozen=True, eq=False)
class Buckets:
    """Rows with their probabilities ``p``, ``target`` and ``weight`` (n,), counted from the largest probability on.

    ``hits`` and ``decided`` (B + 1,) are those before each bucket, and after the last one.
    """

    p: NDArray[Any]
    target: Array
    weight: Array
    place: NDArray[np.intp]
    hits: Array
    decided: Array

    @classmethod
    def of(cls, p: NDArray[Any], target: Array, weight: Array) -> Buckets:
        """Count rows."""
        place = bucket_of(p)
        counts = [np.bincount(place, part, BUCKETS) for part in (weight * target, weight)]
        return cls(p, target, weight, place, *(np.append(0.0, np.cumsum(part)) for part in counts))

    def best(self, values: Callable[[Array, Array], Array]) -> Cut:
        """Return the best cut by ``values(hits, decided)``; of equal ones that with most right decisions."""
        edges = np.nan_to_num(values(self.hits, self.decided), nan=-np.inf)
        some = np.diff(self.decided) > 0.0
        if len(self.p) > FEW:
            most = self.hits[:-1] + np.diff(self.hits)
            bounds = values(most, self.decided[:-1] + np.diff(self.hits))
            some &= ~(bounds <= edges.max() + EQUAL)
        rows = np.flatnonzero(some[self.place])
        order = rows[stable_order(-self.p[rows])]
        x, at = self.p[order], self.place[order]
        w = self.weight[order]
        inside = [np.cumsum(w * self.target[order]), np.cumsum(w)]
        # the sums begin anew in every bucket, with what lies before it
        starts = np.flatnonzero(np.append(True, at[1:] != at[:-1])) if len(at) else np.zeros(0, np.intp)
        sizes = np.diff(np.append(starts, len(at)))
        last = np.flatnonzero(np.append(x[1:] != x[:-1], True)) if len(at) else np.zeros(0, np.intp)
        sums = []
        for running, before in zip(inside, (self.hits, self.decided), strict=True):
            earlier = np.append(0.0, running)[starts]
            sums.append((running + np.repeat(before[at[starts]] - earlier, sizes))[last])
        # the edges first, that is: nothing, then all rows of the first buckets
        hits = np.append(self.hits, sums[0])
        decided = np.append(self.decided, sums[1])
        reached = np.append(edges, np.nan_to_num(values(*sums), nan=-np.inf)) if len(last) else edges
        right = np.where(reached >= reached.max() - EQUAL, 2.0 * hits - decided, -np.inf)
        # rounding, which the order of rows changes, chooses between no cuts
        k = int(np.argmax(right >= right.max() - EQUAL))
        return self._cut(k, x[last], float(hits[k]), float(decided[k]))

    def _cut(self, k: int, values: NDArray[Any], hits: float, decided: float) -> Cut:
        """Return the cut below bucket ``k``, or beyond these at the ``values``."""
        p = self.p
        if k < len(self.hits):
            above = p[self.place < k]
            high = above.min() if len(above) else np.inf
        else:
            high = values[k - len(self.hits)]
        below = p[p < high]
        return Cut(float(below.max()) if len(below) else -np.inf, float(high), hits, decided)


@dataclass(frozen=True, eq=False)
class LabelThresholds:
    """Thresholds (L,) above which labels are decided, the statistics there, and the largest value of such rules.

    Of a mean of scores, ``common`` is the one threshold that is best for all labels, of those between buckets.
    """

    values: Array
    statistics: Confusion
    most: float
    common: float | None = None


def best_per_label(metric: Metric, target: Target) -> LabelThresholds:
    """Return the best threshold of every label, for a ``metric`` that is a mean of scores of labels."""
    if (coefficients := _levels(metric, target)) is not None:
        return by_levels(metric, target, coefficients)
    if target.stored is not None:
        return of_stored(metric, target, target.stored)
    table = target.table
    L = table.n_classes
    # the mean over one label is its score
    score = replace(metric, classes=None)
    rows = target.rows
    shares = shares_of(metric, rows)
    thresholds, hits, decided = (np.empty(L) for _ in range(3))
    together = np.zeros(BUCKETS + 1)
    for label in range(L):
        found = Buckets.of(target.columns(label)[0], target.column(label), target.weight)
        values = score_of_one(score, rows[label])
        cut = found.best(values)
        thresholds[label] = between(cut.low, cut.high, table.proba.dtype)
        hits[label] = cut.hits
        decided[label] = cut.decided
        together += shares[label] * values(found.hits, found.decided)
    statistics = Confusion(rows, hits, decided)
    return LabelThresholds(thresholds, statistics, float(metric.values(statistics)), edge_of(int(np.argmax(together))))


def of_stored(metric: Metric, target: Target, stored: Stored) -> LabelThresholds:
    """Return `best_per_label` of a sparse table: rows that do not store a label are below its threshold."""
    rows = target.rows
    weight = target.weight[stored.row]
    found = best_cuts(metric, stored, rows, shares_of(metric, rows), target.stored_estimate, weight)
    changes = np.bincount(bucket_of(stored.p[stored.ends]) + 1, found.changes, BUCKETS + 1)
    changes[0] += found.first
    thresholds = _thresholds(found.low, found.high, target)
    statistics = target.counted(Gains.above(thresholds))[0]
    common = edge_of(int(np.argmax(np.cumsum(changes))))
    return LabelThresholds(thresholds, statistics, float(metric.values(statistics)), common)


def _thresholds(low: Array, high: Array, target: Target) -> Array:
    """Return thresholds (L,) `between` what is not decided and what is."""
    dtype = target.table.proba.dtype
    out = np.full(len(low), np.inf)
    # most of very many labels are never decided
    for label in np.flatnonzero(np.isfinite(high)).tolist():
        out[label] = between(float(low[label]), float(high[label]), dtype)
    return out


def _levels(metric: Metric, target: Target) -> tuple[float, float, float] | None:
    """Return the coefficients of scores whose best levels `by_levels` finds; None where rows are counted and sorted."""
    on_model = target.calibrate is None and not target.table.is_truncated and bool((target.share == 1.0).all())
    return levels_on_model(metric) if on_model and target.table.proba.size > FEW else None


def levels_on_model(metric: Metric) -> tuple[float, float, float] | None:
    """Return the coefficients of scores whose best levels `by_levels` finds on the model; None for other scores."""
    found = ratio_of(metric)
    # a precision has no floor below its denominator
    return found if found is not None and found[1] > 0.0 else None


def by_levels(metric: Metric, target: Any, coefficients: tuple[float, float, float]) -> LabelThresholds:
    """Return the best thresholds on the model, of scores such as F1, in a few scans without sorting.

    A score ``hits t / (base r + q - less t)``, of a label or of the sums over all, is largest where labels are decided
    above ``level / (hits + less level)``, the level being the largest score. Dinkelbach's method finds it, from the
    level of some of the rows. What is left of the numerator at the last level bounds all scores.
    """
    table = target.table
    top, base, less = coefficients
    pooled = isinstance(metric.formula, Micro)
    sample = table.in_memory()
    some = sample.proba[:: -(-sample.n_rows // max(1, SAMPLE // (table.n_classes if pooled else 1)))].astype(np.float64)
    some = -np.sort(-(some.reshape(-1, 1) if pooled else some), axis=0)
    hits = np.cumsum(some, axis=0)
    counts = np.arange(1.0, len(some) + 1.0)[:, None]
    level = safe_ratio(top * hits, base * hits[-1] + counts - less * hits).max(axis=0)
    for _ in range(ROUNDS):
        each = np.broadcast_to(level, (table.n_classes,))
        S = target.oracle.maximize(Gains.reduced(top + less * each, -each))[0]
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
    return LabelThresholds(each / (top + less * each), S, max(bound, value))


def best_for_all(metric: Metric, target: Target) -> LabelThresholds:
    """Return the best thresholds for a ``metric`` of the sums over labels: one on the calibrated probabilities of all.

    On the probabilities as they are given, it is another one for every label.
    """
    if (coefficients := _levels(metric, target)) is not None:
        return by_levels(metric, target, coefficients)
    table = target.table
    L = table.n_classes
    labels = counted_in(metric, L)
    # a ratio of sums reads nothing else of the three vectors
    values = score_of_one(replace(metric, classes=None), float(target.rows[labels].sum()))
    stored = target.stored
    if stored is None:
        every = np.concatenate([target.column(label) for label in labels])
        p = np.concatenate([target.columns(label)[1] for label in labels])
        cut = Buckets.of(p, every, np.tile(target.weight, len(labels))).best(values)
        thresholds = thresholds_from(target, cut.high)
        if target.calibrate is None:
            thresholds[:] = between(cut.low, cut.high, table.proba.dtype)
    else:
        some = np.isin(stored.label, labels)
        weight = target.weight[stored.row]
        cut = Buckets.of(stored.calibrated[some], target.stored_estimate[some], weight[some]).best(values)
        ends = stored.within(stored.calibrated >= cut.high)
        if target.calibrate is None:
            ends = np.full(L, max(cut.low, stored.lowest.max())), np.full(L, cut.high)
        thresholds = _thresholds(*ends, target)
    if target.calibrate is None:
        thresholds[:] = between(cut.low, cut.high, table.proba.dtype)
    statistics = target.counted(Gains.above(thresholds))[0]
    value = float(metric.values(statistics))
    # on the model's estimate, no thresholds of the labels are better than a common one
    most = value if (target.share == 1.0).all() else most_of_sums(metric, target, value)
    return LabelThresholds(thresholds, statistics, most)


def most_of_sums(metric: Metric, target: Any, level: float) -> float:
    """Return the largest value over all thresholds, one for each label, of a ``metric`` of the sums over labels.

    ``level`` is the value of some thresholds. At each level the best cut of a label does not depend on the others.
    """
    found = ratio_of(metric)
    assert found is not None
    top, base, less = found
    labels = counted_in(metric, target.table.n_classes)
    rows = float(target.rows[labels].sum())
    most = level
    for _ in range(ROUNDS):
        hits, decided = target.most_at(labels, top + less * level, level)
        below = base * rows + decided - less * hits
        most = level + max(top * hits - level * below, 0.0) / (base * rows)
        if most - level <= EQUAL:
            break
        level = max(level, top * hits / below)
    return most


def _most_at(target: Target, labels: list[int], gain: float, price: float) -> tuple[float, float]:
    """Return the hits and decisions of all ``labels`` at the largest ``gain`` hits less ``price`` decisions of each."""
    stored = target.stored
    if stored is None:
        parts = (Buckets.of(target.columns(k)[0], target.column(k), target.weight) for k in labels)
        cuts = [part.best(lambda t, q: gain * t - price * q) for part in parts]
        return sum(cut.hits for cut in cuts), sum(cut.decided for cut in cuts)
    weight = target.weight[stored.row]
    hits, decided = stored.sums(weight * target.stored_estimate), stored.sums(weight)
    kept = np.zeros(target.table.n_classes, dtype=np.bool_)
    kept[labels] = True
    chosen = stored.largest(gain * hits - price * decided, kept)
    return float(hits[chosen].sum()), float(decided[chosen].sum())


def counted_in(metric: Metric, n_labels: int) -> list[int]:
    """Return the labels that a ``metric`` counts."""
    return list(range(n_labels) if metric.classes is None else metric.classes)


def thresholds_from(target: Target, high: float) -> Array:
    """Return thresholds (L,) that decide every label where its calibrated probability is ``high`` or more."""
    L = target.table.n_classes
    thresholds = np.empty(L)
    for label, (p, q) in enumerate(target.columns(label) for label in range(L)):
        decided = q >= high
        least = p[decided].min() if decided.any() else np.inf
        most = p[~decided].max() if not decided.all() else -np.inf
        thresholds[label] = between(float(most), float(least), target.table.proba.dtype)
    return thresholds


def steadied(metric: Metric, target: Any, best: LabelThresholds, positives: NDArray[Any], seed: int) -> Array:
    """Return the ``best`` thresholds (L,), of labels with few true rows the geometric mean of those of `RESAMPLES`.

    Which threshold is best depends on few rows, and jumps with them; its mean over resampled rows does not (bagging:
    Breiman 1996). Only the rows near the top are drawn anew, which are `MARGIN` times as many as are decided.
    """
    score = replace(metric, classes=None)
    out = best.values.copy()
    decided = np.ceil(best.statistics.columns * target.table.n_rows).astype(np.intp)
    few = np.flatnonzero((positives > 0) & (positives < ENOUGH) & np.isfinite(best.values)).tolist()
    wanted = {label: min(max(LEAST_NEAR, MARGIN * int(decided[label])), MOST_NEAR) for label in few}
    for label, edge, p, estimate, weight in target.near(wanted):
        # rows that are alike in all of this may change places
        order = np.lexsort((weight, estimate, -p))
        x, s, w = p[order].astype(np.float64), estimate[order], weight[order]
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
    return lambda hits, decided: metric.values(Confusion(true, hits[:, None], decided[:, None]))


def drawn_together(own: Array, towards: Array, positives: NDArray[Any], strength: float) -> Array:
    """Return thresholds (L,) between the labels' ``own`` (L,) and others (L,), by their number of true rows.

    In logarithms, the others count as ``strength`` true rows.
    """
    finite = np.isfinite(own) & np.isfinite(towards)
    one, other = (np.log(np.maximum(np.where(finite, part, 0.5), LEAST)) for part in (own, towards))
    together = np.exp((positives * one + strength * other) / (positives + strength))
    return np.where(finite, together, np.where(positives > 0, own, towards))
