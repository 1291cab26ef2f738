"""What is stored of a sparse table of several labels, by label, and the best cut of each label there.

Rows that do not store a label lie below every threshold. They count as true rows where they are, and are never
decided. All labels are cut at once: entries are sorted by label and probability, and sums begin anew with each label.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Confusion
from confmax.metrics import Metric
from confmax.metrics.labels import each_of
from confmax.tables import MemoryTable

EQUAL = 1e-12  # difference of values that is rounding


@dataclass(frozen=True, eq=False)
class Stored:
    """The m stored entries of a sparse table, by label and falling probability, (m,) each.

    ``edges`` (L + 1,) say where labels begin. ``order`` are the places of the entries in the table, and ``calibrated``
    are their calibrated probabilities.
    """

    label: NDArray[Any]
    row: NDArray[Any]
    p: NDArray[Any]
    calibrated: NDArray[Any]
    order: NDArray[np.intp]
    edges: NDArray[np.intp]
    n_rows: int

    @classmethod
    def of(cls, table: MemoryTable, calibrated: NDArray[Any]) -> Stored:
        """Return the entries of a ``table`` whose ``calibrated`` probabilities (m,) stand in its order."""
        csr = table.proba
        order = np.lexsort((-csr.data, csr.indices))
        row = np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))[order]
        edges = np.append(0, np.cumsum(np.bincount(csr.indices, minlength=csr.shape[1])))
        return cls(csr.indices[order], row, csr.data[order], calibrated[order], order, edges, csr.shape[0])

    def of_label(self, label: int) -> slice:
        """Return the entries of one label."""
        return slice(int(self.edges[label]), int(self.edges[label + 1]))

    @cached_property
    def ends(self) -> NDArray[np.intp]:
        """The last entry of every probability of a label: what lies between such entries is cut nowhere."""
        new = (self.p[1:] != self.p[:-1]) | (self.label[1:] != self.label[:-1])
        return np.flatnonzero(np.append(new, True)) if len(self.p) else np.zeros(0, np.intp)

    @cached_property
    def lowest(self) -> Array:
        """What lies below all entries of a label (L,): zero, and minus infinity where every row stores the label."""
        return np.where(np.diff(self.edges) < self.n_rows, 0.0, -np.inf)

    def within(self, decided: NDArray[np.bool_]) -> tuple[Array, Array]:
        """Return the largest probability (L,) that is not ``decided`` (m,), and the smallest one that is."""
        L = len(self.edges) - 1
        high = np.full(L, np.inf)
        low = self.lowest.copy()
        np.minimum.at(high, self.label[decided], self.p[decided])
        np.maximum.at(low, self.label[~decided], self.p[~decided])
        return low, high

    def sums(self, values: Array) -> Array:
        """Return the sums of ``values`` (m,) from the beginning of each label to its `ends`."""
        running = np.append(0.0, np.cumsum(values))
        return running[self.ends + 1] - running[self.edges[self.label[self.ends]]]

    def largest(self, values: Array, kept: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Return which of `ends` have the largest of ``values`` of their label, where that is positive.

        Only labels that are ``kept`` (L,) count.
        """
        label = self.label[self.ends]
        best = np.where(kept, 0.0, np.inf)
        np.maximum.at(best, label, values)
        found = np.flatnonzero((values == best[label]) & (values > 0.0) & kept[label])
        return found[np.append(True, label[found][1:] != label[found][:-1])] if len(found) else found


@dataclass(frozen=True, eq=False)
class Cuts:
    """The best cut of every label between ``low`` and ``high`` (L,), and how the weighted scores change.

    ``first`` is their mean where nothing is decided, and ``changes`` are what each of the entries `Stored.ends` adds.
    """

    low: Array
    high: Array
    first: float
    changes: Array


def best_cuts(metric: Metric, stored: Stored, rows: Array, shares: Array, estimate: Array, weight: Array) -> Cuts:
    """Return the best cuts for a mean of scores with ``shares`` (L,), labels being true as often as ``rows`` (L,) say.

    ``estimate`` and ``weight`` (m,) are those of the entries, weights as fractions of all.
    """
    label = stored.label[stored.ends]
    hits = stored.sums(weight * estimate)
    decided = stored.sums(weight)
    none = np.zeros(len(rows))
    before = _scores(metric, rows, none, none)
    reached = _scores(metric, rows[label], hits, decided)
    most = before.copy()
    np.maximum.at(most, label, reached)
    # of equal cuts the one with most right decisions, and of these the highest
    right = np.where(reached >= most[label] - EQUAL, 2.0 * hits - decided, -np.inf)
    best = np.where(before >= most - EQUAL, 0.0, -np.inf)
    np.maximum.at(best, label, right)
    chosen = np.flatnonzero((right == best[label]) & ~((best[label] == 0.0) & (before >= most - EQUAL)[label]))
    # where an entry is the first of its label among the chosen ones
    chosen = chosen[np.append(True, label[chosen][1:] != label[chosen][:-1])] if len(chosen) else chosen
    low = stored.lowest.copy()
    high = np.full(len(rows), np.inf)
    high[label[chosen]] = stored.p[stored.ends[chosen]]
    # the next entry of the label, if it has one, lies below
    following = np.minimum(stored.ends[chosen] + 1, len(stored.p) - 1)
    has = (stored.label[following] == label[chosen]) & (following > stored.ends[chosen])
    low[label[chosen[has]]] = stored.p[following[has]]
    starts = np.append(True, label[1:] != label[:-1]) if len(label) else np.zeros(0, np.bool_)
    earlier = np.where(starts, before[label], np.append(0.0, reached[:-1])[: len(label)])
    return Cuts(low, high, float(shares @ before), shares[label] * (reached - earlier))


def _scores(metric: Metric, rows: Array, hits: Array, decided: Array) -> Array:
    """Return the scores (T,) of labels; minus infinity for none."""
    values = each_of(metric, Confusion(rows, hits, decided))
    return np.nan_to_num(values, nan=-np.inf)
