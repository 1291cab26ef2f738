"""The best cuts of labels: rows are counted in bins of similar probabilities, and few of them are sorted.

All scores here rise with the hits and fall with the decisions, so within a bin no cut is better than one that would
decide all of its true rows and no other. Only the rows of bins where this is better than the best cut between bins are
sorted, and those next to a cut. What is counted, true labels and probabilities apart, serves the estimates of all
shares of the model, and the statistics of every rule that cuts labels.

Rows in memory are one part of a table; what is counted of several parts is added up. What comes back of a part is
bounded: bins of very many labels are wider, and if very many rows lie in open bins, those whose probabilities agree in
most digits are counted together. What a cut between these could gain is part of the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import add
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from confmax.calibration.labels import LabelScaling
from confmax.confusion import Array, Gains
from confmax.kernels.blocks import run_parts
from confmax.kernels.label_bins import BUCKETS, EDGES, GIVEN, MAPPED, Binned, binned, bucket_of, mapped, rows_in
from confmax.kernels.order import stable_order
from confmax.optimize.cuts import EQUAL, best_of_each
from confmax.tables import Part, Table
from confmax.tables.array.label_columns import TOGETHER
from confmax.tables.precision import gain_coefficients, is_wide
from confmax.tables.table import T

FEW = 1 << 12  # rows that are sorted as fast as they are counted
BATCH = TOGETHER  # labels whose bins are compared together: they stay in the cache,
MOST_KEPT = (1 << 21) // BUCKETS  # and whose bins are kept
CELLS = 3 << 19  # bins of all labels that come back of a part: those of 511 labels, 50 MB
MOST = 1 << 22  # rows of all parts that are told apart
DIGITS = 8  # bits of a float32 that are left out where there are more

# the scores (...) at hits and decisions (...) of labels, whose numbers broadcast with them
Values = Callable[[Array, Array, NDArray[np.intp]], Array]


class Entries(NamedTuple):
    """Entries (m,) of some labels, by label and falling key: as given and calibrated, their truth and weight."""

    label: NDArray[np.intp]
    key: NDArray[Any]
    p: NDArray[Any]
    value: Array
    true: NDArray[np.bool_]
    weight: Array


class Sorted(NamedTuple):
    """Entries (m,) of some labels, by label and falling key, with their weight and the estimate of what is true of it.

    Keys up to ``top`` are counted together. ``model`` is what the calibrated probabilities say is true, and ``rows`` is
    the number of rows with weight.
    """

    label: NDArray[np.intp]
    key: NDArray[Any]
    top: NDArray[Any]
    weight: Array
    hits: Array
    model: Array
    rows: Array

    @classmethod
    def by_key(cls, key: Array, weight: Array, hits: Array, model: Array) -> Sorted:
        """Sort the entries of one label."""
        order = stable_order(-key)
        parts = (key, key, weight, hits, model, (weight > 0.0).astype(np.float64))
        return cls(np.zeros(len(key), np.intp), *(part[order] for part in parts))

    @classmethod
    def joined(cls, parts: Sequence[Sorted]) -> Sorted:
        """Sort the entries of several ``parts``."""
        if len(parts) == 1:
            return parts[0]
        every = cls._make(np.concatenate(each) for each in zip(*parts, strict=True))
        order = np.lexsort((-every.key, every.label))
        return cls._make(each[order] for each in every)

    def of_label(self, label: int) -> Sorted:
        """Return the entries of one of several labels as those of one."""
        own = Sorted._make(part[slice(*np.searchsorted(self.label, [label, label + 1]))] for part in self)
        return own._replace(label=np.zeros(len(own.key), np.intp))

    def counted_together(self, digits: int) -> Sorted:
        """Return one entry for all of a label whose keys differ in no more than the last ``digits`` of a float32."""
        if not digits or not len(self.key):
            return self
        first = np.flatnonzero(_first_of(self.label, self.key.astype(np.float32).view(np.int32) >> digits))
        ways = (np.maximum, np.minimum, np.maximum, *[np.add] * 4)
        return Sorted._make(way.reduceat(each, first) for way, each in zip(ways, self, strict=True))


class Counted(NamedTuple):
    """The hits and decisions of m labels in bins (m, B), each ``step`` of the kernel's, and which bins hold rows.

    Where all rows are sorted, one bin of each label does.
    """

    hits: Array
    decided: Array
    some: NDArray[np.bool_]
    step: int = 1


class BestCuts(NamedTuple):
    """A cut of each of m labels: decided are rows from ``high`` on, ``low`` is the largest probability that is not.

    ``beyond`` (m,) is how much better a cut between keys that are counted together may be. ``edges`` (m, U + 1) are the
    scores where labels are cut before each of the bins that are ``used`` (U,), and after the last one; of all labels
    there are ``n_bins``. ``inside`` (T,) are the scores at each different key of open bins, which
    ends at one of ``ends`` (T,).
    """

    low: Array
    high: Array
    hits: Array
    decided: Array
    beyond: Array
    edges: Array
    ends: NDArray[np.intp]
    inside: Array
    used: NDArray[np.intp]
    n_bins: int

    def at_all(self, weight: Array) -> Array:
        """Return the sums of the scores by ``weight`` (m,), where all labels are cut before each bin (n_bins + 1,)."""
        ends = np.concatenate([[0], self.used + 1, [self.n_bins + 1]])
        return np.repeat(weight @ self.edges, np.diff(ends))


NO_ENTRIES = Sorted(np.zeros(0, np.intp), *[np.zeros(0)] * 6)


class Wanted(NamedTuple):
    """The entries of ``labels`` (m,) in some bins (m, B), by given or calibrated keys; ``together``: as if of one."""

    labels: range
    some: NDArray[np.bool_]
    by: int
    together: bool


@dataclass(frozen=True, eq=False)
class LabelBins:
    """The rows of a ``table`` of several labels in bins, by probabilities as given, or as ``maps`` calibrate them."""

    table: Table
    maps: LabelScaling | None
    known: dict[Any, Any] = field(default_factory=dict)
    passes: list[int] = field(default_factory=lambda: [0])

    def over_parts(self, work: Callable[[LabelBins], T], join: Callable[[T, T], T] = add) -> T:
        """Return what `Table.over_parts` does, of what ``work`` makes of the bins of every part."""
        self.passes[0] += 1
        return self.table.over_parts(partial(_on_bins, work, self.maps), join)

    def each_part(self, work: Callable[[LabelBins], T]) -> list[T]:
        """Return what `Table.each_part` does, of what ``work`` makes of the bins of every part."""
        self.passes[0] += 1
        return self.table.each_part(partial(_on_bins, work, self.maps))

    @property
    def tells_all(self) -> bool:
        """Whether all rows of a block of labels are told apart at once, because no pass over parts is saved."""
        return self.table.held

    @property
    def step(self) -> int:
        """How many bins of the kernel are one."""
        return 1 if self.tells_all else -(-self.table.n_classes * BUCKETS // CELLS)

    @property
    def edges(self) -> Array:
        """The least probabilities (B + 1,) of what lies before each bin, and of all."""
        return np.append(EDGES[: BUCKETS : self.step], EDGES[-1])

    def batches(self) -> Iterator[range]:
        """Yield the labels whose bins are held together; all of them come back of a part."""
        L = self.table.n_classes
        size = BATCH if self.tells_all else L
        return (range(first, min(first + size, L)) for first in range(0, L, size))

    def each_batch(self, work: Callable[[range], T]) -> list[T]:
        """Return what ``work`` makes of each of the `batches`, on threads."""
        batches = list(self.batches())
        return run_parts(lambda k: work(batches[k]), len(batches))

    def map_of(self, label: int) -> tuple[Array, Array] | None:
        """Return the map of one label."""
        maps = self.maps
        return None if maps is None else (maps.a[label : label + 1], maps.c[label : label + 1])

    def key(self, by: int) -> int:
        """Return what rows are binned by: there may be no map."""
        return GIVEN if self.maps is None else by

    def sums(self, labels: range, by: int = GIVEN) -> Binned:
        """Return the sums over the bins of ``labels`` (m, B), by the largest probabilities first."""
        by = self.key(by)
        found = self.known.get((labels, by))
        if found is None:
            found = self.over_parts(partial(_sums, labels, by, self.step), _added)
            # of very many labels they are counted again
            if self.table.n_classes <= MOST_KEPT or len(labels) == self.table.n_classes:
                self.known[labels, by] = found
        return found

    def entries(self, labels: range, wanted: NDArray[np.bool_]) -> Entries:
        """Return the entries of ``labels`` in the bins that are ``wanted`` (m, B), part by part."""
        found = self.each_part(partial(_entries, labels, wanted, GIVEN, self.step))
        return Entries._make(np.concatenate(parts) for parts in zip(*found, strict=True))

    def cut(
        self, wanted: Sequence[tuple[range, NDArray[np.bool_]]], share: Array, by: int, *, together: bool
    ) -> Sorted:
        """Return the entries of some labels in bins that are ``wanted``, with the estimate by ``share`` (L,).

        Those of all labels are sorted ``together``, as if of one.
        """
        # where none is wanted no part is read
        every = [Wanted(labels, some, self.key(by), together) for labels, some in wanted if some.any()]
        found = run_parts(lambda k: self.told_apart(every[k : k + 1], share)[0], len(every))
        return Sorted.joined(found) if found else NO_ENTRIES

    def told_apart(self, wanted: Sequence[Wanted], share: Array, known: float = 0.0) -> list[Sorted]:
        """Return each of the entries that are ``wanted``, in one pass, with the estimate by ``share`` (L,).

        If those of parts, with so many that are ``known``, are more than `MOST`, they are counted together.
        """
        digits = 0
        if not self.tells_all:
            every = range(self.table.n_classes)
            rows = sum(self.sums(every, one.by).rows[one.labels][one.some].sum() for one in wanted)
            digits = DIGITS if known + rows > MOST else 0
        found = self.each_part(partial(_cut, wanted, self.step, share, digits, self.table.weight_total))
        return [Sorted.joined(parts).counted_together(digits) for parts in zip(*found, strict=True)]

    def above(self, gains: Gains) -> tuple[Array, Array, Array] | None:
        """Return sums (B, L) over what ``gains`` decide: of weights, those of true rows, and calibrated probabilities.

        None where a gain may decide small probabilities and not large ones.
        """
        dtype = self.table.dtype
        if is_wide(gains, dtype).any():
            return None
        a, b = gain_coefficients(gains, dtype)
        if b is None or not (a >= 0.0).all():
            return None
        keys = [one.tobytes() + other.tobytes() for one, other in zip(a, b, strict=True)]
        new = [g for g, key in enumerate(keys) if key not in self.known]
        if new:
            # the estimates of all shares of the model count the same rules
            sums = self.over_parts(partial(_above, a[new], b[new])) / self.table.weight_total
            self.known.update(zip([keys[g] for g in new], np.moveaxis(sums, 1, 0), strict=True))
        weight, true, value = np.stack([self.known[key] for key in keys], axis=1)
        return weight, true, value

    def ends(self, high: float) -> tuple[Array, Array]:
        """Return the largest given probability (L,) of rows whose calibrated one is below ``high``.

        The second are the least ones of the other rows.
        """
        low, least = zip(*self.each_part(partial(_ends, high)), strict=True)
        return np.max(low, axis=0), np.min(least, axis=0)


# --- what is read of a part, whose rows are in memory -----------------------------------------------------------------


def _on_bins(work: Callable[[LabelBins], T], maps: LabelScaling | None, part: Part) -> T:
    return work(LabelBins(Table.of(part), maps))


def _added(one: Binned, other: Binned) -> Binned:
    return Binned._make(map(np.add, one, other))


def _sums(labels: range, by: int, step: int, bins: LabelBins) -> Binned:
    """Return the sums of `LabelBins.sums`, of bins that are each ``step`` of the kernel's."""
    table = bins.table.head
    first = np.arange(0, BUCKETS, step)
    weight = table.weighing.for_kernels

    def counted(label: int, numbers: NDArray[Any]) -> Binned:
        found = binned(numbers, weight, by, BUCKETS, bins.map_of(label))
        return found if step == 1 else Binned._make(np.add.reduceat(part, first) for part in found)

    made = table.label_columns.each(counted, labels.start, labels.stop)
    return Binned._make(np.stack(parts) for parts in zip(*made, strict=True))


def _entries(labels: range, wanted: NDArray[np.bool_], by: int, step: int, bins: LabelBins) -> Entries:
    """Return the entries of ``labels`` in the bins that are ``wanted`` (m, B), by label and falling key."""
    table = bins.table.head
    if step > 1:
        wanted = np.repeat(wanted, step, axis=1)[:, :BUCKETS]
    near = wanted if by == GIVEN else _given(bins, labels, wanted)

    def taken(label: int, numbers: NDArray[Any]) -> Entries:
        k = label - labels.start
        given = bins.map_of(label)
        rows = rows_in(near[k], len(numbers), numbers) if near[k].any() else np.zeros(0, np.int64)
        x = numbers[rows]
        p = np.abs(x)
        value = p.astype(np.float64) if given is None else mapped(p, *given)
        key = value if by == MAPPED else p
        order = stable_order(-key)
        if by == MAPPED:
            order = order[wanted[k, bucket_of(value[order])]]
        w = table.weighing.of(rows).array(len(rows))
        one = (np.full(len(rows), k), key, p, value, np.signbit(x), w)
        return Entries._make(part[order] for part in one)

    made = table.label_columns.each(taken, labels.start, labels.stop)
    return Entries._make(np.concatenate(parts) for parts in zip(*made, strict=True))


def _given(bins: LabelBins, labels: range, wanted: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which bins of given probabilities may hold rows that lie in ``wanted`` bins of calibrated ones."""
    edges = np.minimum(EDGES, 1.0)
    edges[-1] = 0.0
    ends = np.stack([bucket_of(mapped(edges, *bins.map_of(label))) for label in labels])  # type: ignore[misc]
    total = before(wanted.astype(np.float64))
    # one more on both sides, since maps are rounded
    first, last = np.maximum(ends[:, :-1] - 1, 0), np.minimum(ends[:, 1:] + 2, BUCKETS)
    return np.take_along_axis(total, last, 1) > np.take_along_axis(total, first, 1)


def _cut(wanted: Sequence[Wanted], step: int, share: Array, digits: int, total: float, bins: LabelBins) -> list[Sorted]:
    """Return what `LabelBins.told_apart` does of a part, where all rows weigh ``total``."""
    out = []
    for labels, some, by, together in wanted:
        found = _entries(labels, some, by, step, bins)
        weight = found.weight / total
        hits = weight * blended(share[labels][found.label], found.value, found.true)
        model = weight * found.value
        if together:
            every = Sorted.by_key(found.key, weight, hits, model)
        else:
            counts = (weight > 0.0).astype(np.float64)
            every = Sorted(found.label, found.key, found.key, weight, hits, model, counts)
        out.append(every.counted_together(digits))
    return out


def _above(a: Array, b: Array, bins: LabelBins) -> Array:
    """Return the sums (3, B, L) of `LabelBins.above` over rows whose scores ``a p + b`` (B, L) are above zero."""
    # always or never, where scores do not depend on probabilities
    threshold = np.where(b > 0.0, 0.0, 1.0)
    with np.errstate(over="ignore"):
        np.divide(-b.astype(np.float64), a, out=threshold, where=a > 0.0)
    # a rounded score has the right sign where a probability is not next to the threshold
    near = bucket_of(np.clip(threshold, 0.0, 1.0))
    out = np.zeros((3, *a.shape))

    def add(labels: range) -> None:
        sums = bins.sums(labels)[1:]
        doubtful = np.abs(np.arange(BUCKETS) - near[:, labels, None]) <= 1
        entries = bins.entries(labels, doubtful.any(axis=0))
        k = entries.label
        parts = entries.weight, entries.weight * entries.true, entries.weight * entries.value
        at = bucket_of(entries.key)
        for g, edges in enumerate(near[:, labels].tolist()):
            j = k + labels.start
            decided = doubtful[g, k, at] & (entries.p * a[g, j] + b[g, j] > 0)
            for total, every, part in zip(out, sums, parts, strict=True):
                surely = [row[: max(edge - 1, 0)].sum() for row, edge in zip(every, edges, strict=True)]
                total[g, labels] = surely + np.bincount(k[decided], part[decided], len(labels))

    bins.each_batch(add)
    return out


def _ends(high: float, bins: LabelBins) -> tuple[Array, Array]:
    """Return what `LabelBins.ends` does of a part."""
    most, least = np.full(bins.table.n_classes, -np.inf), np.full(bins.table.n_classes, np.inf)
    place = bucket_of(np.array([high]))[0]
    edges = np.arange(BUCKETS + 1)

    def add(labels: range) -> None:
        some = bins.sums(labels, MAPPED).rows > 0.0
        inside = some & (edges[:-1] == place)
        near = np.broadcast_to((edges == place) | (edges == place + 1), (len(labels), BUCKETS + 1))
        entries = _entries(labels, inside | beside(some, inside, near), bins.key(MAPPED), 1, bins)
        decided = entries.value >= high
        label = entries.label + labels.start
        np.minimum.at(least, label[decided], entries.p[decided])
        np.maximum.at(most, label[~decided], entries.p[~decided])

    bins.each_batch(add)
    return most, least


# --- cuts -------------------------------------------------------------------------------------------------------------


def blended(share: float | Array, value: Array, true: Any) -> Array:
    """Return what is true, of calibrated probabilities and truth: ``share value + (1 - share) true``."""
    return np.asarray(share * value + (1.0 - share) * true)


def before(parts: Array) -> Array:
    """Return the sums (m, B + 1) of what lies before each bin, and of all."""
    out = np.zeros((len(parts), parts.shape[1] + 1))
    np.cumsum(parts, axis=1, out=out[:, 1:])
    return out


def best_cuts(counted: Counted, values: Values, take: Callable[[NDArray[np.bool_]], Sorted], few: bool) -> BestCuts:
    """Return the best cuts of m labels by ``values``; of equal ones those with most right decisions.

    ``take`` returns the entries of bins that are wanted (m, B). Of ``few`` rows all are sorted.
    """
    n_bins = counted.some.shape[1]
    # bins that no label has are left out
    used = np.flatnonzero(counted.some.any(axis=0))
    some = counted.some[:, used]
    hits, decided = before(counted.hits[:, used]), before(counted.decided[:, used])
    m = np.arange(len(some))
    edges = np.nan_to_num(values(hits, decided, m[:, None]), nan=-np.inf)
    top = edges.max(axis=1)
    inside = some & (np.diff(decided, axis=1) > 0.0)
    if not few:
        most = np.diff(hits, axis=1)
        bounds = values(hits[:, :-1] + most, decided[:, :-1] + most, m[:, None])
        inside &= ~(bounds <= top[:, None] + EQUAL)
    near = edges >= top[:, None] - EQUAL
    wanted = np.zeros(counted.some.shape, np.bool_)
    wanted[:, used] = inside | beside(some, inside, near)
    entries = take(wanted)
    place = np.zeros(n_bins, np.intp)
    place[used] = np.arange(len(used))
    at = place[bucket_of(entries.key) // counted.step]
    ends, sums = _cuts_inside(entries, at, inside, hits, decided)
    own = entries.label[ends]
    reached = np.nan_to_num(values(sums[0], sums[1], own), nan=-np.inf)
    label, k = np.nonzero(near)
    block = np.concatenate([label, own])
    # from the highest threshold on
    order = np.lexsort((np.concatenate([decided[label, k], sums[1]]), block))
    scores = np.concatenate([edges[label, k], reached])
    right = np.concatenate([2.0 * hits[label, k] - decided[label, k], 2.0 * sums[0] - sums[1]])
    best = order[best_of_each(scores[order], right[order], np.searchsorted(block[order], m))]
    begin = np.searchsorted(entries.label, np.arange(len(m) + 1))
    inner = np.flatnonzero(best >= len(label))
    chosen = best[inner] - len(label)
    outer = k[np.where(best < len(label), best, 0)]
    outer[inner] = 0
    cut = begin[:-1] + np.bincount(entries.label[at < outer[entries.label]], minlength=len(m))
    cut[inner] = ends[chosen] + 1
    reach = [part[m, outer] for part in (hits, decided)]
    for part, found in zip(reach, sums, strict=True):
        part[inner] = found[chosen]
    # a cut between keys that are counted together decides no more than their true rows, and no other
    beyond = np.zeros(len(m))
    rough = entries.top[ends] > entries.key[ends]
    if rough.any():
        corner = values(sums[0], sums[1] - entries.weight[ends] + entries.hits[ends], own) - scores[best][own]
        np.maximum.at(beyond, own[rough], np.nan_to_num(corner[rough], nan=0.0))
    high = np.where(cut > begin[:-1], np.append(entries.key, 0.0)[cut - 1], np.inf)
    low = np.where(cut < begin[1:], np.append(entries.top, 0.0)[cut], -np.inf)
    return BestCuts(low, high, reach[0], reach[1], beyond, edges, ends, reached, used, n_bins)


def _cuts_inside(
    entries: Sorted, at: NDArray[np.intp], inside: NDArray[np.bool_], hits: Array, decided: Array
) -> tuple[NDArray[np.intp], tuple[Array, Array]]:
    """Return the last entries (T,) of every probability in bins that count, with hits and decisions down to them.

    Entries lie in the bins ``at`` (m,), and ``hits`` and ``decided`` (m, B + 1) lie before these.
    """
    label, key = entries.label, entries.key
    starts = _first_of(label, at)
    ends = np.flatnonzero(np.append(_first_of(label, key)[1:], True)[: len(key)])
    ends = ends[inside[label[ends], at[ends]]]
    # sums begin anew in every bin, with what lies before it
    first = np.maximum.accumulate(np.where(starts, np.arange(len(label)), 0))[ends]
    sums = []
    for earlier, part in ((hits, entries.hits), (decided, entries.weight)):
        running = np.append(0.0, np.cumsum(part))
        sums.append(earlier[label[ends], at[ends]] + (running[ends + 1] - running[first]))
    return ends, (sums[0], sums[1])


def _first_of(*parts: NDArray[Any]) -> NDArray[np.bool_]:
    """Return whether one of the ``parts`` (m,) differs from that of the place before."""
    new = np.ones(len(parts[0]), np.bool_)
    new[1:] = np.logical_or.reduce([part[1:] != part[:-1] for part in parts])
    return new


def beside(some: NDArray[np.bool_], inside: NDArray[np.bool_], near: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the bins (m, B) with ``some`` rows beside edges (m, B + 1) that are ``near``, and below bins inside."""
    m, B = some.shape
    number = np.arange(B)
    none = np.full((m, 1), -1)
    # the last bin with rows before every edge, and the first one behind it
    above = np.append(none, np.maximum.accumulate(np.where(some, number, -1), axis=1), axis=1)
    below = np.minimum.accumulate(np.where(some, number, B)[:, ::-1], axis=1)[:, ::-1]
    below = np.append(below, np.full((m, 1), B), axis=1)
    out = np.zeros((m, B + 2), np.bool_)  # none before the first bin, and none behind the last one
    label, edge = np.nonzero(near)
    out[label, above[label, edge] + 1] = True
    out[label, below[label, edge] + 1] = True
    label, bin_ = np.nonzero(inside)
    out[label, below[label, bin_ + 1] + 1] = True
    return out[:, 1:-1]
