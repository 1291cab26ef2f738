"""An estimate of what is true of the rows, and the columns of it that thresholds cut.

``share p + (1 - share) y``: what the model says, and the labels, with a share of the model for every class or label.
Two classes, one class against the rest, a label, and labels that are cut together are columns of it. Classes are cut by
calibrated probabilities. Labels are cut by the probabilities as they are given, and counted by calibrated ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax.calibration.labels import LabelScaling
from confmax.confusion import Array, Confusion, Gains
from confmax.optimize.cuts import Column
from confmax.optimize.label_cuts import MOST, Entries, LabelBins, blended
from confmax.optimize.stored_labels import Stored
from confmax.oracle import OTHER_SOLVER, CountingOracle
from confmax.tables import Part, Table
from confmax.tables.array.label_columns import MOST_KEPT
from confmax.tables.decisions import ANY, Decisions
from confmax.tables.kinds import storage_named
from confmax.tables.several import decide_labels

SMALLEST = 1e-290  # probabilities below are zero: a threshold between them could not be scaled beside a weight of one
KEPT = ("weight", "mean", "known", "stored", "_modelled", "bins")  # what estimates of all shares have in common


@dataclass(frozen=True, eq=False)
class Estimate:
    """The estimate of what is true of every row of a ``table``, with a ``share`` of the model (K,) for every column.

    ``maps`` are those of the calibration of labels; None leaves probabilities as they are. Labels that are ``barred``
    (K,) are never decided, because no row has them; None are none.
    """

    table: Table
    share: Array
    maps: LabelScaling | None = None
    barred: NDArray[np.bool_] | None = None

    @property
    def here(self) -> Part:
        """All rows, which are sorted."""
        return self.table.gathered("the search of a threshold", OTHER_SOLVER)

    @cached_property
    def weight(self) -> Array:
        """The weight of every row (n,), as a fraction of all weight."""
        table = self.here
        weights = table.weights
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

    @classmethod
    def alike(cls, table: Table, share: ArrayLike) -> Estimate:
        """Return the estimate of a ``table`` with one ``share`` of the model, or one for every column."""
        return cls(table, np.broadcast_to(np.asarray(share, dtype=np.float64), (table.n_classes,)))

    def two_classes(self, by: int) -> Column:
        """Return the second of two classes by its probability, or with ``by`` 0 by minus that of the first."""
        table = self.here.dense("the search of a threshold")
        p = table.proba[:, 1] if by == 1 else -table.proba[:, 0]
        p = np.where(np.abs(p) < SMALLEST, p.dtype.type(0), p)
        truth = blended(self.share, table.proba.astype(np.float64), _is(table.labels))
        return Column(p, truth.T, self.weight)

    def one_class(self, k: int) -> Column:
        """Return class ``k`` against the rest. Rows that are not decided as it get the most probable other class."""
        share = float(self.share[k])
        two = two_columns(self.here, k)
        truth = blended(share, two.proba.astype(np.float64), _is(two.labels))
        return Column(two.proba[:, 1], truth.T, self.weight, right_beside(self.here, k, share))

    def allowed(self, thresholds: Array) -> Array:
        """Return ``thresholds`` (L,), infinity for labels that are never decided."""
        return thresholds if self.barred is None else np.where(self.barred, np.inf, thresholds)

    @property
    def n_passes(self) -> int:
        """How often all rows were read; those of an array with maps are counted once, and kept."""
        if self.bins.tells_all:
            return 1 if self.maps is not None else max(1, self.oracle.n_passes)
        return self.bins.passes[0] + self.oracle.n_passes

    def deciding(self, decisions: Decisions) -> Estimate:
        """Return the estimate of rows for which these ``decisions`` are made."""
        return replace(self, table=self.table.deciding(decisions))

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
            made = blended(self.share[label], part.value, part.true)
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
            csr = self.here.proba
            modelled = type(csr)((self._modelled, csr.indices, csr.indptr), csr.shape)
            counted = replace(self.here, proba=modelled, totals=None, calibrator=self.maps, raw=self.here)
            return CountingOracle(Table.of(counted).oracle(self.share).decided_by(None), barred=self.barred)
        return CountingOracle(self.table.oracle(self.share), barred=self.barred)

    @cached_property
    def answers(self) -> dict[bytes, Confusion]:
        """The statistics of rules that are counted by scans: a rule that is found is asked for again."""
        return {}

    def with_share(self, share: float) -> Estimate:
        """Return the estimate with the same ``share`` of the model for every label."""
        found = replace(self, share=np.full(self.table.n_classes, share))
        # what has been computed of all rows is not computed again
        vars(found).update({name: vars(self)[name] for name in KEPT if name in vars(self)})
        return found

    def of_weight(self) -> Estimate:
        """Return the estimate of the rows that have weight, which are what a pass over rows in parts reads."""
        some = self.table.of_weight()
        return self if some is self.table else replace(self, table=some)

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
            from confmax.tables.sparse.labels import true_entries

            out += (1.0 - share) * true_entries(self.here)[stored.order]
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
            return Confusion(self.rows, blended(self.share, value, true), made)
        hits, decided = self.bins.over_parts(partial(_scanned, gains, self.share, table.weight_total))
        return Confusion(self.rows, hits, decided)


def _scanned(gains: Gains, share: Array, total: float, bins: LabelBins) -> Array:
    """Return hits and decisions (2, B, L) of a part by each of ``gains``, where all rows weigh ``total``."""
    part = bins.table.head
    weight = part.weights / total
    out = np.empty((2, len(gains), part.n_classes))
    estimate = Estimate(bins.table, share, bins.maps)
    for k in range(len(gains)):
        chosen = decide_labels(part.proba, gains[k], part.decisions) != 0
        for label in range(part.n_classes):
            there = np.flatnonzero(chosen[:, label])
            out[0, k, label] = weight[there] @ estimate.column(label)[there]
        out[1, k] = weight @ chosen
    return out


def _reached(above: Array, many: int) -> int:
    """Return the bin by which there are so ``many`` rows, of which ``above`` (B,) are above the ends of the bins.

    A bin that holds very many more is left out, as where most rows have the same probability.
    """
    k = min(int(np.searchsorted(above, many)), len(above) - 1)
    return k - 1 if above[k] > MOST and k > 0 else k


# --- columns of classes -----------------------------------------------------------------------------------------------


def probability_of_class(table: Part, k: int) -> NDArray[Any]:
    """Return the probability of class ``k`` of every row (n,), in host memory."""
    p = np.zeros(table.n_rows, dtype=table.dtype)
    for values, rows in table.storage.columns(table.proba, [k]):
        p[rows] = values
    return np.where(p < SMALLEST, p.dtype.type(0), p)


def class_on_labels(table: Table, k: int) -> Column:
    """Return class ``k`` against the rest of all rows by their labels, gathered from all parts: `Estimate.one_class`.

    InputError if rows in parts are too many to be sorted.
    """
    what = f"the test of every threshold on {table.classes[k]!r}"
    p, true, weight, right = table.each_row(partial(_class_of_part, k), what)
    return Column(p, np.stack([~true, true]).astype(np.float64), weight / weight.sum(), right.astype(np.float64))


def _class_of_part(k: int, part: Part) -> tuple[NDArray[Any], ...]:
    assert part.labels is not None
    weight = part.weights
    return probability_of_class(part, k), part.labels == k, weight, right_beside(part, k, 0.0) > 0.0


def two_columns(table: Part, k: int) -> Part:
    """Return the rows of a table with two columns, ``1 - p`` and ``p`` of the class ``k``."""
    p = probability_of_class(table, k)
    labels = None if table.labels is None else (table.labels == k).astype(np.int64)
    proba = np.stack([p.dtype.type(1) - p, p], axis=1)
    return Part(storage_named("array"), proba, labels=labels, weight=table.weight, classes=(0, 1))


def right_beside(table: Part, k: int, model_share: float) -> Array:
    """Return how much of every row (n,) is decided rightly as the most probable class but ``k``."""
    a = np.ones(table.n_classes)
    b = np.zeros(table.n_classes)
    a[k] = 0.0
    b[k] = -1.0
    other = table.storage.decide(table.proba, Gains.reduced(a, b))[0]
    right = np.zeros(table.n_rows)
    if model_share > 0.0:
        right += model_share * table.probability_of(other)
    if model_share < 1.0:
        assert table.labels is not None
        right += (1.0 - model_share) * (other == table.labels)
    return right


def _is(labels: NDArray[Any] | None) -> Any:
    """Return which of two classes each row is (n, 2); zero where nothing is known, which no share of labels asks."""
    return 0.0 if labels is None else labels[:, None] == np.arange(2)
