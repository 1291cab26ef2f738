"""The best cuts of labels in an array: rows are counted in bins of similar probabilities, and few of them are sorted.

All scores here rise with the hits and fall with the decisions, so within a bin no cut is better than one that would
decide all of its true rows and no other. Only the rows of bins where this is better than the best cut between bins are
sorted, and those next to a cut. What is counted, true labels and probabilities apart, serves the estimates of all
shares of the model, and the statistics of every rule that cuts labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from confmax.calibration.labels import LabelScaling
from confmax.confusion import Array, Gains
from confmax.kernels.label_bins import BUCKETS, EDGES, GIVEN, MAPPED, Binned, binned, bucket_of, mapped, rows_in
from confmax.kernels.order import stable_order
from confmax.optimize.stored_labels import EQUAL
from confmax.tables import MemoryTable
from confmax.tables.array.label_columns import TOGETHER
from confmax.tables.precision import gain_coefficients, is_wide

FEW = 1 << 12  # rows that are sorted as fast as they are counted
BATCH = (1 << 21) // BUCKETS // TOGETHER * TOGETHER  # labels whose bins are held together

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
    """Entries (m,) of some labels, by label and falling key, with their weight and the estimate of what is true."""

    label: NDArray[np.intp]
    key: NDArray[Any]
    weight: Array
    estimate: Array

    @classmethod
    def by_key(cls, key: Array, weight: Array, estimates: Array) -> Sorted:
        """Sort the entries of one label."""
        order = stable_order(-key)
        return cls(np.zeros(len(key), np.intp), key[order], weight[order], estimates[order])


class Counted(NamedTuple):
    """The hits and decisions of m labels in bins (m, B), and which bins hold rows."""

    hits: Array
    decided: Array
    some: NDArray[np.bool_]


class Cuts(NamedTuple):
    """A cut of each of m labels: decided are rows from ``high`` on, ``low`` is the largest probability that is not.

    ``edges`` (m, U + 1) are the scores where labels are cut before each of the bins that are ``used`` (U,), and after
    the last one; of all labels there are ``n_bins``.
    """

    low: Array
    high: Array
    hits: Array
    decided: Array
    edges: Array
    used: NDArray[np.intp]
    n_bins: int

    def at_all(self, weight: Array) -> Array:
        """Return the sums of the scores by ``weight`` (m,), where all labels are cut before each bin (n_bins + 1,)."""
        ends = np.concatenate([[0], self.used + 1, [self.n_bins + 1]])
        return np.repeat(weight @ self.edges, np.diff(ends))


@dataclass(frozen=True, eq=False)
class LabelBins:
    """The rows of a ``table`` of several labels in bins, by probabilities as given, or as ``maps`` calibrate them."""

    table: MemoryTable
    maps: LabelScaling | None
    known: dict[Any, Any] = field(default_factory=dict)

    def batches(self) -> Iterator[range]:
        """Yield the labels whose bins are held together."""
        L = self.table.n_classes
        return (range(first, min(first + BATCH, L)) for first in range(0, L, BATCH))

    def map_of(self, label: int) -> tuple[Array, Array] | None:
        """Return the map of one label."""
        maps = self.maps
        return None if maps is None else (maps.a[label : label + 1], maps.c[label : label + 1])

    def key(self, by: int) -> int:
        """Return what rows are binned by: there may be no map."""
        return GIVEN if self.maps is None else by

    def sums(self, labels: range, by: int = GIVEN) -> Binned:
        """Return the sums over the bins of ``labels`` (m, BUCKETS), by the largest probabilities first."""
        by = self.key(by)
        found = self.known.get((labels, by))
        if found is None:
            weight = self.table.weight

            def counted(label: int, numbers: NDArray[Any]) -> Binned:
                return binned(numbers, weight, by, BUCKETS, self.map_of(label))

            made = self.table.label_columns.each(counted, labels.start, labels.stop)
            found = Binned._make(np.stack(parts) for parts in zip(*made, strict=True))
            # of very many labels they are counted again
            if len(labels) == self.table.n_classes:
                self.known[labels, by] = found
        return found

    def entries(self, labels: range, wanted: NDArray[np.bool_], by: int = GIVEN) -> Entries:
        """Return the entries of ``labels`` in the bins that are ``wanted`` (m, BUCKETS)."""
        by = self.key(by)
        near = wanted if by == GIVEN else self._given(labels, wanted)
        most = np.where(near, self.sums(labels).rows, 0.0).sum(axis=1).astype(np.intp)
        weight = self.table.weight

        def taken(label: int, numbers: NDArray[Any]) -> Entries:
            k = label - labels.start
            given = self.map_of(label)
            rows = rows_in(near[k], int(most[k]), numbers) if most[k] else np.zeros(0, np.int64)
            x = numbers[rows]
            p = np.abs(x)
            value = p.astype(np.float64) if given is None else mapped(p, *given)
            key = value if by == MAPPED else p
            order = stable_order(-key)
            if by == MAPPED:
                order = order[wanted[k, bucket_of(value[order])]]
            w = np.ones(len(rows)) if weight is None else weight[rows]
            one = (np.full(len(rows), k), key, p, value, np.signbit(x), w)
            return Entries._make(part[order] for part in one)

        made = self.table.label_columns.each(taken, labels.start, labels.stop)
        return Entries._make(np.concatenate(parts) for parts in zip(*made, strict=True))

    def _given(self, labels: range, wanted: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which bins of given probabilities may hold rows that lie in ``wanted`` bins of calibrated ones."""
        edges = np.minimum(EDGES, 1.0)
        edges[-1] = 0.0
        ends = np.stack([bucket_of(mapped(edges, *self.map_of(label))) for label in labels])  # type: ignore[misc]
        total = before(wanted.astype(np.float64))
        # one more on both sides, since maps are rounded
        first, last = np.maximum(ends[:, :-1] - 1, 0), np.minimum(ends[:, 1:] + 2, BUCKETS)
        return np.take_along_axis(total, last, 1) > np.take_along_axis(total, first, 1)

    def above(self, gains: Gains) -> tuple[Array, Array, Array] | None:
        """Return sums (B, L) over what ``gains`` decide: of weights, those of true rows, and calibrated probabilities.

        None where a gain may decide small probabilities and not large ones.
        """
        dtype = self.table.proba.dtype
        if is_wide(gains, dtype).any():
            return None
        a, b = gain_coefficients(gains, dtype)
        if b is None or not (a >= 0.0).all():
            return None
        keys = [one.tobytes() + other.tobytes() for one, other in zip(a, b, strict=True)]
        new = [g for g, key in enumerate(keys) if key not in self.known]
        if new:
            # the estimates of all shares of the model count the same rules
            self.known.update(zip([keys[g] for g in new], np.moveaxis(self._above(a[new], b[new]), 1, 0), strict=True))
        weight, true, value = np.stack([self.known[key] for key in keys], axis=1)
        return weight, true, value

    def _above(self, a: Array, b: Array) -> Array:
        """Return the sums (3, B, L) of `above` over rows whose scores ``a p + b`` (B, L) are above zero."""
        # always or never, where scores do not depend on probabilities
        threshold = np.where(b > 0.0, 0.0, 1.0)
        with np.errstate(over="ignore"):
            np.divide(-b.astype(np.float64), a, out=threshold, where=a > 0.0)
        # a rounded score has the right sign where a probability is not next to the threshold
        near = bucket_of(np.clip(threshold, 0.0, 1.0))
        out = np.zeros((3, *a.shape))
        for labels in self.batches():
            sums = self.sums(labels)[1:]
            doubtful = np.abs(np.arange(BUCKETS) - near[:, labels, None]) <= 1
            entries = self.entries(labels, doubtful.any(axis=0))
            k = entries.label
            parts = entries.weight, entries.weight * entries.true, entries.weight * entries.value
            at = bucket_of(entries.key)
            for g, edges in enumerate(near[:, labels].tolist()):
                j = k + labels.start
                decided = doubtful[g, k, at] & (entries.p * a[g, j] + b[g, j] > 0)
                for total, every, part in zip(out, sums, parts, strict=True):
                    surely = [row[: max(edge - 1, 0)].sum() for row, edge in zip(every, edges, strict=True)]
                    total[g, labels] = surely + np.bincount(k[decided], part[decided], len(labels))
        return out / self.table.weight_total


def estimate(share: Array, value: Array, true: Any) -> Array:
    """Return what is true, of calibrated probabilities and truth: ``share value + (1 - share) true``."""
    return np.asarray(share * value + (1.0 - share) * true)


def before(parts: Array) -> Array:
    """Return the sums (m, B + 1) of what lies before each bin, and of all."""
    out = np.zeros((len(parts), parts.shape[1] + 1))
    np.cumsum(parts, axis=1, out=out[:, 1:])
    return out


def best_cuts(counted: Counted, values: Values, take: Callable[[NDArray[np.bool_]], Sorted], few: bool) -> Cuts:
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
    at = place[bucket_of(entries.key)]
    ends, sums = _cuts_inside(entries, at, inside, hits, decided)
    own = entries.label[ends]
    reached = np.nan_to_num(values(sums[0], sums[1], own), nan=-np.inf)
    best = top.copy()
    np.maximum.at(best, own, reached)
    right = np.where(edges >= best[:, None] - EQUAL, 2.0 * hits - decided, -np.inf)
    right_inside = np.where(reached >= best[own] - EQUAL, 2.0 * sums[0] - sums[1], -np.inf)
    most_right = right.max(axis=1)
    np.maximum.at(most_right, own, right_inside)
    # the edges first: rounding, which the order of rows changes, chooses between no cuts
    k = (right >= most_right[:, None] - EQUAL).argmax(axis=1)
    at_edge = right[m, k] >= most_right - EQUAL
    chosen = np.flatnonzero((right_inside >= most_right[own] - EQUAL) & ~at_edge[own])
    chosen = chosen[_first_of(own[chosen])]
    begin = np.searchsorted(entries.label, np.arange(len(m) + 1))
    cut = begin[:-1] + np.bincount(entries.label[at < k[entries.label]], minlength=len(m))
    cut[own[chosen]] = ends[chosen] + 1
    reach = [part[m, k] for part in (hits, decided)]
    for part, found in zip(reach, sums, strict=True):
        part[own[chosen]] = found[chosen]
    key = np.append(entries.key, 0.0)
    high = np.where(cut > begin[:-1], key[cut - 1], np.inf)
    low = np.where(cut < begin[1:], key[cut], -np.inf)
    return Cuts(low, high, reach[0], reach[1], edges, used, n_bins)


def _cuts_inside(
    entries: Sorted, at: NDArray[np.intp], inside: NDArray[np.bool_], hits: Array, decided: Array
) -> tuple[NDArray[np.intp], tuple[Array, Array]]:
    """Return the last entries (T,) of every probability in bins that count, with hits and decisions down to them.

    Entries lie in the bins ``at`` (m,), and ``hits`` and ``decided`` (m, B + 1) lie before these.
    """
    label, key, w, made = entries
    starts = _first_of(label, at)
    ends = np.flatnonzero(np.append(_first_of(label, key)[1:], True)[: len(key)])
    ends = ends[inside[label[ends], at[ends]]]
    # sums begin anew in every bin, with what lies before it
    first = np.maximum.accumulate(np.where(starts, np.arange(len(label)), 0))[ends]
    sums = []
    for earlier, part in ((hits, w * made), (decided, w)):
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
