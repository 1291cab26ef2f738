"""Any labels of a row, where the rows lie in parts: the best thresholds, from what all parts add up to.

As in memory (`confmax.optimize.label_thresholds`), rows are counted in buckets of similar probabilities, and only those
of buckets inside which a cut may be better than the best one between buckets are told apart. What comes back of a part
are sums by label and bucket, and in a second pass sums by distinct probability inside the few buckets that are left. So
the thresholds are the best ones on all rows. If more than `MOST` rows are left, their probabilities are rounded down to
fewer numbers, and what a cut between two of these could gain is part of the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from confmax.calibration.labels import LabelScaling
from confmax.confusion import Array, Confusion, Gains
from confmax.kernels.label_bins import BUCKETS, EDGES, LEAST, PER_OCTAVE
from confmax.metrics import Metric
from confmax.metrics.labels import Micro, shares_of
from confmax.optimize.label_thresholds import (
    LabelThresholds,
    Target,
    between,
    by_levels,
    counted_in,
    levels_on_model,
    most_of_sums,
    score_of_one,
    without,
)
from confmax.optimize.stored_labels import EQUAL
from confmax.oracle import CountingOracle
from confmax.tables import Table
from confmax.tables.decisions import Decisions
from confmax.tables.table import MemoryTable, T

CELLS = 1 << 18  # buckets of all labels: what comes back of a part
MOST = 1 << 22  # rows that are told apart
DIGITS = 8  # bits of a float32 that are left out where these are more


class Bins(NamedTuple):
    """Rows by their probabilities, from the largest on: the least of each bin, its sums, and whether it may be cut."""

    low: Array
    hits: Array
    decided: Array
    cuttable: NDArray[np.bool_]

    def before(self) -> tuple[Array, Array]:
        """Return hits and decisions (B + 1,) where none of the bins, the first, ... and all are decided."""
        hits, decided = (np.append(0.0, np.cumsum(part)) for part in (self.hits, self.decided))
        return hits, decided

    def corners(self) -> tuple[Array, Array]:
        """Return hits and decisions (B,) that no cut inside a bin exceeds: all of its true rows, and no other."""
        hits, decided = self.before()
        return hits[1:], decided[:-1] + self.hits


@dataclass(frozen=True, eq=False)
class PartsTarget:
    """The estimate of what is true of rows that lie in parts, with the methods of `Target`."""

    table: Table
    share: Array
    maps: LabelScaling | None = None
    barred: NDArray[np.bool_] | None = None
    passes: list[int] = field(default_factory=lambda: [0])

    @cached_property
    def oracle(self) -> CountingOracle:
        """The oracle of this estimate, without the calibration."""
        return CountingOracle(self.table.oracle(self.share), barred=self.barred)

    @property
    def n_passes(self) -> int:
        """How often all parts were read."""
        return self.passes[0] + self.oracle.n_passes

    @cached_property
    def mean(self) -> Array:
        """The means (L,) of the calibrated probabilities."""
        if self.maps is None:
            return self.table.mean_probability()
        return np.asarray(sum(self._over_parts(_means)) / self.table.weight_total)

    @cached_property
    def rows(self) -> Array:
        """How often every label is true (L,)."""
        if self.maps is None:
            return self.oracle.rows
        true = self.table.label_weight() if (self.share < 1.0).any() else 0.0
        model = self.mean if (self.share > 0.0).any() else 0.0
        return np.asarray(self.share * model + (1.0 - self.share) * true)

    def with_share(self, share: float) -> PartsTarget:
        """Return the estimate with the same ``share`` of the model for every label."""
        found = replace(self, share=np.full(self.table.n_classes, share))
        if "mean" in vars(self):
            vars(found)["mean"] = self.mean
        return found

    def deciding(self, decisions: Decisions) -> PartsTarget:
        """Return the estimate of rows for which these ``decisions`` are made."""
        table: Any = self.table
        return replace(self, table=replace(table, decisions=decisions))

    def counted(self, gains: Gains) -> Confusion:
        """Return the statistics (B) of deciding by each of ``gains`` on the given probabilities."""
        if self.maps is None:
            return self.oracle.maximize(gains)
        hits, decided = reduce(_both, self._over_parts(partial(_counted, gains)))
        return Confusion(self.rows, hits / self.table.weight_total, decided / self.table.weight_total)

    def best(self, metric: Metric) -> LabelThresholds:
        """Return the best thresholds for a mean of scores of labels, or for a ratio of sums over them."""
        on_model = self.maps is None and bool((self.share == 1.0).all())
        coefficients = levels_on_model(metric) if on_model else None
        if coefficients is not None:
            found = by_levels(metric, self, coefficients)
        else:
            found = self._for_all(metric) if isinstance(metric.formula, Micro) else self._per_label(metric)
        return without(found, self.barred)

    def allowed(self, thresholds: Array) -> Array:
        """Return what `Target.allowed` does."""
        return thresholds if self.barred is None else np.where(self.barred, np.inf, thresholds)

    def near(self, wanted: Mapping[int, int]) -> Iterator[tuple[int, float, NDArray[Any], Array, Array]]:
        """Yield what `Target.near` does: of buckets from the largest probabilities on, as many as are needed."""
        lows = {label: _reached(self._counts[2][label], self._edges, many) for label, many in wanted.items()}
        found = list(self._over_parts(partial(_above, lows))) if lows else []
        for label, many in wanted.items():
            p, s, w = (np.concatenate([part[label][k] for part in found]) for k in range(3))
            if not len(p):
                continue
            edge = lows[label] if many >= len(p) else float(np.partition(p, len(p) - many)[len(p) - many])
            kept = p >= edge
            yield label, edge, p[kept], s[kept], w[kept] / self.table.weight_total

    def most_at(self, labels: list[int], gain: float, price: float) -> tuple[float, float]:
        """Return hits and decisions with no less than the largest ``gain`` hits less ``price`` decisions of labels."""
        out = np.zeros(2)
        for bins in (self._by_label[k] for k in labels):
            hits, decided = (np.concatenate(part) for part in zip(bins.before(), bins.corners(), strict=True))
            best = int(np.argmax(gain * hits - price * decided))
            out += hits[best], decided[best]
        return float(out[0]), float(out[1])

    # --- what is counted ----------------------------------------------------------------------------------------------

    def _over_parts(self, work: Callable[[Target], T]) -> Iterator[T]:
        self.passes[0] += 1
        return self.table.over_parts(partial(_on_target, work, self.share, self.maps))

    @cached_property
    def _edges(self) -> Array:
        """Where buckets begin, rising."""
        return EDGES[BUCKETS - 1 :: -1][:: self._stride]

    @property
    def _stride(self) -> int:
        """How many buckets of a table in memory are one."""
        return -(-self.table.n_classes * BUCKETS // CELLS)

    @cached_property
    def _counts(self) -> Array:
        """Sums of the estimate, of weights and of rows (3, L, B), by label and bucket."""
        return self._counted_in([[label] for label in range(self.table.n_classes)], pooled=False)

    @cached_property
    def _by_label(self) -> list[Bins]:
        return [_bins(self._counts[:, label], self._edges) for label in range(self.table.n_classes)]

    def _counted_in(self, groups: Sequence[Sequence[int]], *, pooled: bool) -> Array:
        """Return the sums of groups of labels (3, G, B): of calibrated probabilities, ``pooled``, or given ones."""
        found = reduce(add, self._over_parts(partial(_by_bucket, groups, self._stride, pooled)))
        found[:2] /= self.table.weight_total
        return np.asarray(found)

    def _told_apart(
        self,
        groups: Sequence[Sequence[int]],
        counts: Array,
        every: list[Bins],
        values: Sequence[Callable[[Array, Array], Array]],
        *,
        pooled: bool,
    ) -> list[Bins]:
        """Return the bins of groups of labels, with those inside which the best cut may lie divided."""
        open_ = np.zeros(counts[2].shape, dtype=np.bool_)
        for g, (bins, value) in enumerate(zip(every, values, strict=True)):
            best = np.nan_to_num(value(*bins.before()), nan=-np.inf).max()
            # buckets are counted from the smallest probabilities on
            open_[g] = (~(value(*bins.corners()) <= best + EQUAL) & (bins.decided > 0.0))[::-1]
        n = counts[2][open_].sum()
        if not n:
            return [bins._replace(cuttable=np.zeros(len(bins.low), np.bool_)) for bins in every]
        work = partial(_inside, groups, self._stride, open_, pooled, DIGITS if n > MOST else 0)
        found = list(self._over_parts(work))
        out = []
        for g, bins in enumerate(every):
            parts = (np.concatenate([part[g][k] for part in found]) for k in range(3))
            p, hits, decided = _by_value(*parts)
            kept = ~open_[g][::-1]
            low = np.concatenate([bins.low[kept], p])
            order = np.argsort(-low, kind="stable")
            out.append(
                Bins(
                    low[order],
                    np.concatenate([bins.hits[kept], hits / self.table.weight_total])[order],
                    np.concatenate([bins.decided[kept], decided / self.table.weight_total])[order],
                    np.append(np.zeros(int(kept.sum()), np.bool_), np.full(len(p), n > MOST))[order],
                )
            )
        return out

    # --- what is best -------------------------------------------------------------------------------------------------

    def _per_label(self, metric: Metric) -> LabelThresholds:
        """Return the best threshold of every label."""
        L = self.table.n_classes
        rows = self.rows
        shares = shares_of(metric, rows)
        score = replace(metric, classes=None)
        values = [score_of_one(score, rows[label]) for label in range(L)]
        together = sum(
            share * value(*bins.before()) for share, value, bins in zip(shares, values, self._by_label, strict=True)
        )
        lows = np.append(self._edges[-1], self._by_label[0].low)
        groups = [[label] for label in range(L)]
        every = self._told_apart(groups, self._counts, self._by_label, values, pooled=False)
        cuts = [_best(bins, value) for bins, value in zip(every, values, strict=True)]
        at, hits, decided, beyond = (np.array(part) for part in zip(*cuts, strict=True))
        statistics = Confusion(rows, hits, decided)
        most = float(metric.values(statistics)) + float(shares @ beyond)
        low, high = self._ends(at, pooled=False)
        thresholds = np.array(
            [between(*ends, self.table.dtype) for ends in zip(low.tolist(), high.tolist(), strict=True)]
        )
        return LabelThresholds(thresholds, statistics, most, float(lows[int(np.argmax(together))]))

    def _for_all(self, metric: Metric) -> LabelThresholds:
        """Return thresholds at one calibrated probability, for a ratio of sums over labels."""
        L = self.table.n_classes
        labels = counted_in(metric, L)
        value = score_of_one(replace(metric, classes=None), float(self.rows[labels].sum()))
        counts = self._counted_in([labels], pooled=True)
        bins = self._told_apart([labels], counts, [_bins(counts[:, 0], self._edges)], [value], pooled=True)[0]
        at = _best(bins, value)[0]
        low, high = self._ends(np.full(L, at), pooled=True)
        if self.maps is None:
            low, high = np.full(L, low[labels].max()), np.full(L, high[labels].min())
        thresholds = np.array(
            [between(*ends, self.table.dtype) for ends in zip(low.tolist(), high.tolist(), strict=True)]
        )
        statistics = self.counted(Gains.above(thresholds))[0]
        return LabelThresholds(thresholds, statistics, most_of_sums(metric, self, float(metric.values(statistics))))

    def _between(self, low: Array, high: Array) -> Array:
        """Return thresholds (L,) between what is not decided and what is."""
        ends = zip(low.tolist(), high.tolist(), strict=True)
        return np.array([between(*each, self.table.dtype) for each in ends])

    def _ends(self, cuts: Array, *, pooled: bool) -> tuple[Array, Array]:
        """Return the largest given probability (L,) below the ``cuts`` (L,), and the least from these on."""
        found = list(self._over_parts(partial(_ends_of, cuts, pooled)))
        return np.max([low for low, _ in found], axis=0), np.min([high for _, high in found], axis=0)


def _bins(counts: Array, edges: Array) -> Bins:
    """Return the bins of sums (3, B) between ``edges``."""
    hits, decided, _ = counts[:, ::-1]
    return Bins(np.append(edges[::-1], 0.0), hits, decided, np.ones(len(hits), np.bool_))


def _best(bins: Bins, value: Callable[[Array, Array], Array]) -> tuple[float, float, float, float]:
    """Return from where on the best cut decides, its hits and decisions, and how much better one inside may be."""
    hits, decided = bins.before()
    reached = np.nan_to_num(value(hits, decided), nan=-np.inf)
    right = np.where(reached >= reached.max() - EQUAL, 2.0 * hits - decided, -np.inf)
    # rounding, which the order of parts changes, chooses between no cuts
    k = int(np.argmax(right >= right.max() - EQUAL))
    inside = value(*bins.corners())[bins.cuttable & (bins.decided > 0.0)]
    beyond = max(0.0, float(np.nan_to_num(inside, nan=-np.inf).max(initial=-np.inf) - reached[k]))
    return (np.inf if k == 0 else float(bins.low[k - 1])), float(hits[k]), float(decided[k]), beyond


def _reached(rows: Array, edges: Array, many: int) -> float:
    """Return where buckets begin that hold as many of the ``rows`` (B,), by bucket, with the largest probabilities.

    A bucket that holds very many more is left out, as where most rows have the same probability.
    """
    above = np.cumsum(rows[::-1])
    k = min(int(np.searchsorted(above, many)), len(above) - 1)
    lows = np.append(edges[::-1], 0.0)
    return float(lows[k - 1 if above[k] > MOST and k > 0 else k])


# --- what is run on a part, whose target is one in memory -------------------------------------------------------------


def _on_target(work: Callable[[Target], T], share: Array, maps: LabelScaling | None, part: MemoryTable) -> T:
    return work(Target(part, share, maps))


def _weights(target: Target) -> Array:
    return np.ones(target.table.n_rows) if target.table.weight is None else target.table.weight


def _both(one: tuple[Array, Array], other: tuple[Array, Array]) -> tuple[Array, Array]:
    return one[0] + other[0], one[1] + other[1]


def _means(target: Target) -> Array:
    return target.mean * target.table.weight_total


def _counted(gains: Gains, target: Target) -> tuple[Array, Array]:
    found = target.counted(gains)
    return found.diagonal * target.table.weight_total, found.columns * target.table.weight_total


def _by_bucket(groups: Sequence[Sequence[int]], stride: int, pooled: bool, target: Target) -> Array:
    size = len(range(0, BUCKETS, stride)) + 1
    out = np.zeros((3, len(groups), size))
    weight = _weights(target)
    for g, labels in enumerate(groups):
        for label in labels:
            place = _places(_column(target, label, pooled), stride)
            for k, part in enumerate((weight * target.column(label), weight, None)):
                out[k, g] += np.bincount(place, part, size)
    return out


def _inside(
    groups: Sequence[Sequence[int]], stride: int, open_: NDArray[np.bool_], pooled: bool, digits: int, target: Target
) -> list[tuple[Array, Array, Array]]:
    """Return the distinct probabilities in the buckets that are open, and their sums, of groups of labels."""
    out = []
    weight = _weights(target)
    for g, labels in enumerate(groups):
        found = []
        for label in labels:
            p = _column(target, label, pooled)
            rows = np.flatnonzero(open_[g][_places(p, stride)])
            w = weight[rows]
            found.append((_rounded_down(p[rows], digits), w * target.column(label)[rows], w))
        out.append(_by_value(*(np.concatenate(part) for part in zip(*found, strict=True))))
    return out


def _by_value(p: Array, hits: Array, decided: Array) -> tuple[Array, Array, Array]:
    """Return the distinct values of ``p`` (m,), and the sums of each."""
    values, place = np.unique(p, return_inverse=True)
    sums = [np.bincount(place, part, len(values)).astype(np.float64) for part in (hits, decided)]
    return values, sums[0], sums[1]


def _rounded_down(p: NDArray[Any], digits: int) -> Array:
    """Return numbers without the last ``digits`` bits of a float32; none is larger than it was."""
    if not digits:
        return p.astype(np.float64)
    return np.asarray((_bits(p) >> digits << digits).view(np.float32).astype(np.float64))


def _bits(p: NDArray[Any]) -> NDArray[np.int32]:
    """Return the bits of the largest float32 that are no larger than probabilities; they have the order of these."""
    near = p.astype(np.float32)
    if p.dtype != np.float32:
        near = np.where(near > p, np.nextafter(near, np.float32(0.0)), near)
    return np.asarray(near.view(np.int32))


def _places(p: NDArray[Any], stride: int) -> NDArray[np.intp]:
    """Return how many of the buckets begin at or below each of the probabilities (n,)."""
    below = (_bits(p) >> PER_OCTAVE) - (int(np.float32(LEAST).view(np.int32)) >> PER_OCTAVE)
    return np.asarray((np.clip(below, 0, BUCKETS) + (stride - 1)) // stride, dtype=np.intp)


def _column(target: Target, label: int, pooled: bool) -> NDArray[Any]:
    """Return the probabilities (n,) of a label that are cut: ``pooled`` with others' they are calibrated."""
    return target.columns(label)[1] if pooled else np.ascontiguousarray(target.table.proba[:, label])


def _above(lows: Mapping[int, float], target: Target) -> dict[int, tuple[NDArray[Any], Array, Array]]:
    """Return the probabilities from a number on, estimate and weight, of some labels."""
    out = {}
    weight = _weights(target)
    for label, low in lows.items():
        p = _column(target, label, False)
        rows = np.flatnonzero(p >= low)
        out[label] = p[rows], target.column(label)[rows], weight[rows]
    return out


def _ends_of(cuts: Array, pooled: bool, target: Target) -> tuple[Array, Array]:
    low, high = np.full(len(cuts), -np.inf), np.full(len(cuts), np.inf)
    for label, cut in enumerate(cuts.tolist()):
        p = _column(target, label, False)
        decided = _column(target, label, pooled) >= cut
        high[label] = p[decided].min(initial=np.inf)
        low[label] = p[~decided].max(initial=-np.inf)
    return low, high
