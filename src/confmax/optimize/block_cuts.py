"""The cuts of blocks of labels: rows are counted in bins, and told apart in those bins that an answer depends on.

A block is one label, or several that are cut together. All of its cuts are known where its rows are in memory. Where
rows lie in parts, the cuts between bins are: the rows of a bin are a lump (`confmax.optimize.cuts.Lumps`). Who compares
cuts says which lumps may have a better one. Their rows are read in one pass, until no lump may change the answer. It is
then the one that all rows would give, and parts have sent sums and few of their rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array
from confmax.kernels.label_bins import GIVEN, LEAST, MAPPED, bucket_of
from confmax.optimize.cuts import EQUAL, Cuts, Lumps, shortest
from confmax.optimize.estimate import Estimate
from confmax.optimize.label_cuts import NO_ENTRIES, LabelBins, Sorted, Wanted, blended
from confmax.optimize.rounding import SINGLE

Block = tuple[int, ...]  # labels that are cut together
T = TypeVar("T")


@dataclass(eq=False)
class _Rows:
    """What is known of the rows of a block: which bins (B,) are told apart, their entries, and the cuts that follow."""

    apart: NDArray[np.bool_]
    entries: Sorted = NO_ENTRIES
    cuts: dict[bool, Cuts] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class BlockCuts:
    """The cuts of blocks of labels on an ``estimate``, which are kept."""

    estimate: Estimate
    known: dict[Block, _Rows] = field(default_factory=dict)

    def of(self, block: Block, *, on_model: bool = False) -> Cuts:
        """Return the cuts of a ``block``, on the estimate or as the model alone counts them.

        One label is cut by its given probabilities, and several are cut by the calibrated ones.
        """
        estimate = self.estimate
        if estimate.barred is not None and estimate.barred[block[0]]:
            return Cuts.never(estimate.table.dtype, float(estimate.rows[block[0]]))
        every = np.ones(len(self._bins.edges) - 1, np.bool_)
        rows = self.known.setdefault(block, _Rows(~every))
        if on_model not in rows.cuts:
            entries, apart = rows.entries, rows.apart
            if self._bins.tells_all:
                # they are read again rather than kept: they take as much memory as the cuts
                (entries,), apart = self._read({block: every}), every
            rows.cuts[on_model] = self._cuts(block, entries, apart, on_model=on_model)
        return rows.cuts[on_model]

    def settled(self, answer: Callable[[], T]) -> T:
        """Return an ``answer`` that follows from cuts of blocks, once it wants no more rows to be told apart."""
        while True:
            found = answer()
            wanted = {block: some for block, rows in self.known.items() if (some := self._wanted(rows)).any()}
            if not wanted:
                return found
            for (block, some), entries in zip(wanted.items(), self._read(wanted), strict=True):
                rows = self.known[block]
                self.known[block] = _Rows(rows.apart | some, Sorted.joined([rows.entries, entries]))

    # --- rows ---------------------------------------------------------------------------------------------------------

    @property
    def _bins(self) -> LabelBins:
        return self.estimate.bins

    def _by(self, block: Block) -> int:
        """Return what the rows of a ``block`` are binned by."""
        return self._bins.key(GIVEN if len(block) == 1 else MAPPED)

    def _wanted(self, rows: _Rows) -> NDArray[np.bool_]:
        """Return the bins (B,) that cuts have been asked to tell apart."""
        out = np.zeros(len(rows.apart), np.bool_)
        for cuts in rows.cuts.values():
            out[cuts.lumps.bins[cuts.lumps.wanted]] = True
        return out

    def _read(self, wanted: dict[Block, NDArray[np.bool_]]) -> list[Sorted]:
        """Return the rows of some bins (B,) of every block, in one pass."""
        singles = sorted(block[0] for block in wanted if len(block) == 1)
        several = [block for block in wanted if len(block) > 1]
        every = [_request(block, [wanted[block]] * len(block), self._by(block), together=True) for block in several]
        if singles:
            every.append(_request(singles, [wanted[label,] for label in singles], GIVEN, together=False))
        known = sum(rows.entries.rows.sum() for rows in self.known.values())
        found = self._bins.told_apart(every, self.estimate.share, known)
        own: dict[Block, Sorted] = {(label,): found[-1].of_label(label - singles[0]) for label in singles}
        own |= dict(zip(several, found, strict=False))
        return [own[block] for block in wanted]

    # --- cuts ---------------------------------------------------------------------------------------------------------

    def _cuts(self, block: Block, found: Sorted, apart: NDArray[np.bool_], *, on_model: bool) -> Cuts:
        """Return the cuts of a ``block``: between its rows in bins (B,) that are ``apart``, and between other bins."""
        bins = bucket_of(found.key) // self._bins.step
        # of a lump no pass tells more, unless it is a bin
        left = np.full(len(bins), -1)
        if not apart.all():
            lumps = self._lumps(block, ~apart)
            places = np.concatenate([bins, lumps.label])
            order = np.argsort(places, kind="stable")
            found = Sorted._make(np.concatenate(parts)[order] for parts in zip(found, lumps, strict=True))
            left = np.concatenate([left, lumps.label])[order]
        hits = found.model if on_model else found.hits
        # keys of neighbouring bins may be equal at the edge, and are of different rows all the same
        ends = np.flatnonzero(np.append((found.key[1:] != found.key[:-1]) | (left[1:] != left[:-1]), True))
        counts = np.append(0, np.cumsum(found.rows)[ends].astype(np.int64))
        classes = (found.weight - hits, hits)
        # thresholds are compared in the type of the table, also where none of its numbers is known
        dtype = self.estimate.table.dtype if self._by(block) == GIVEN else np.dtype(np.float64)
        numbers = found.key.astype(dtype, copy=False), found.top.astype(dtype, copy=False)
        cuts = Cuts.summed(numbers, found.weight, classes, ends, counts)
        at = np.flatnonzero((cuts.top > cuts.x) | (left[ends] >= 0))
        return replace(cuts, lumps=Lumps.of(at, left[ends][at], cuts.confusions)) if len(at) else cuts

    def _lumps(self, block: Block, some: NDArray[np.bool_]) -> Sorted:
        """Return the rows of each of ``some`` bins (B,) of a ``block`` as one entry, whose label is the bin."""
        estimate, bins = self.estimate, self._bins
        index = list(block)
        sums = bins.sums(range(estimate.table.n_classes), self._by(block))
        hits = blended(estimate.share[index, None], sums.value[index], sums.true[index])
        count, *parts = (part.sum(axis=0) for part in (sums.rows[index], sums.weight[index], hits, sums.value[index]))
        places = np.flatnonzero(some & (count > 0.0))
        ends = bins.edges[places + 1], bins.edges[places]
        weight, true, model = (part[places] / estimate.table.weight_total for part in parts)
        return Sorted(places, *ends, weight, true, model, count[places])


def _request(labels: Sequence[int], some: Sequence[NDArray[np.bool_]], by: int, *, together: bool) -> Wanted:
    """Return a request for ``some`` bins (B,) of each of some ``labels``, which are in order."""
    every = np.zeros((labels[-1] + 1 - labels[0], len(some[0])), np.bool_)
    every[np.array(labels) - labels[0]] = some
    return Wanted(range(labels[0], labels[-1] + 1), every, by, together)


# --- which cut a threshold is, and which is best: with the lumps that may have another --------------------------------


def cut_at(cuts: Cuts, threshold: float) -> int:
    """Return the cut that decides as a ``threshold`` of a label does."""
    lumps = cuts.lumps
    low, high = cuts.x[lumps.at] * (1.0 - SINGLE), cuts.top[lumps.at] * (1.0 + SINGLE)
    lumps.want((low <= threshold) & (threshold <= high))
    return int(np.searchsorted(-cuts.x, -threshold)) if threshold > -np.inf else len(cuts.x)


def cut_near(cuts: Cuts, threshold: float) -> int:
    """Return the allowed cut that is nearest to a ``threshold``, in logarithms."""
    exact = cut_at(cuts, threshold)
    if cuts.allowed[exact]:
        return exact
    # a cut stands for the numbers from the probability below it to that above it, and where these are in lumps for more
    low, high = (np.log(np.maximum(part, LEAST)) for part in (np.append(cuts.x, 0.0), cuts.top))
    t = np.log(np.clip(threshold, LEAST, 2.0))
    far = np.maximum(low - t, t - np.append(np.inf, high))
    k = int(np.argmin(np.where(cuts.allowed, far, np.inf)))
    lumps = cuts.lumps
    # from the lower end of a lump to its upper one
    inside = np.maximum(low[lumps.at] - t, t - high[lumps.at])
    lumps.want((lumps.may & (inside <= far[k])) | beside(lumps, k))
    return k


def beside(lumps: Lumps, k: int) -> NDArray[np.bool_]:
    """Return which lumps (C,) lie next to cut ``k``."""
    return (lumps.at == k) | (lumps.at == k - 1)


def best_of(cuts: Cuts, values: Array, most: Array) -> int:
    """Return the best allowed cut by ``values`` (T,), where cuts in lumps have no more than ``most`` (C,)."""
    k = cuts.best(values, EQUAL)
    cuts.lumps.want(cuts.lumps.may & ~(most < values[k] - EQUAL))
    return k


def threshold_of(cuts: Cuts, k: int, near: float = np.nan) -> float:
    """Return a number that decides as cut ``k`` does, which is that ``near`` if it does so."""
    cuts.lumps.want(beside(cuts.lumps, k))
    low, high = cuts.ends(k)
    if low <= near < high and low <= cuts.x.dtype.type(near) < high:
        return near
    return float(shortest(low, high, cuts.x.dtype, closed=False))
