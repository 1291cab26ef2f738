"""Checked rows of one part of a table, in the memory of this process or of a device.

Nothing deeper validates them again.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Gains
from confmax.tables.array.label_columns import LabelColumns, label_counts
from confmax.tables.decisions import ONE, Decisions
from confmax.tables.fingerprints import Fingerprint, chosen_by_hash, fingerprint
from confmax.tables.known import label_weight, mean_probability
from confmax.tables.storage import Calibrator, Checked, Storage
from confmax.tables.ties import density_of_ties, rows_read
from confmax.tables.weights import EQUAL, Weights


@final
@dataclass(frozen=True, eq=False)
class Part(Checked):
    """Checked rows with their probabilities, held in one way.

    Labels are column numbers (n,), or where rows have several labels a matrix (n, L) of 0 and 1. Weights have any unit;
    None means equal ones. ``decisions`` say what is decided for a row.

    ``calibrator`` has made ``proba`` from the probabilities of ``raw``, the part as it was given; both are None for
    that part itself. ``groups`` are those of the rows, None where they have none.

    ``copies`` (n,) are set where each row stands for several equal ones (`confmax.evaluate.lines`), so many of them,
    and its weight is theirs together.
    """

    _: KW_ONLY
    labels: NDArray[Any] | None
    weight: Array | None
    classes: tuple[Any, ...]
    calibrator: Calibrator | None = None
    raw: Part | None = None
    groups: Any = None
    decisions: Decisions = ONE
    copies: NDArray[np.int64] | None = None

    unit = 0  # of the weights, as `Known` has it

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type that scores are computed in."""
        return self.storage.dtype(self.proba)

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return len(self.classes)

    @property
    def several(self) -> bool:
        """Whether a row may have several labels."""
        return self.decisions.several

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.proba.shape[0])

    # the total is cached, because every scan divides by it
    @cached_property
    def weight_total(self) -> float:
        """Sum of the weights; the number of rows where all are equal."""
        return float(self.n_rows if self.weight is None else self.weight.sum())

    @property
    def weighing(self) -> Weights:
        """What the rows weigh; `EQUAL` where all weigh one."""
        return EQUAL if self.weight is None else Weights(self.weight)

    @property
    def weights(self) -> Array:
        """The weight of every row (n,): ones where all are equal."""
        return self.weighing.array(self.n_rows)

    @property
    def weighted(self) -> NDArray[np.bool_] | slice:
        """What chooses the rows (n,) that have weight."""
        return slice(None) if self.weight is None or self.weight.all() else self.weight > 0.0

    def of_weight(self) -> Part:
        """Return the rows that have weight; the part itself where all have."""
        kept = self.weighted
        return self if isinstance(kept, slice) else self.take(kept)

    @cached_property
    def n_weighted(self) -> int:
        """Number of rows whose weight is not zero."""
        if self.copies is not None:
            return int(self.copies.sum() if self.weight is None else self.copies[self.weight > 0.0].sum())
        return self.n_rows if self.weight is None else int(np.count_nonzero(self.weight))

    @cached_property
    def weight_ends(self) -> tuple[float, float]:
        """The least and the largest weight of one row that has some."""
        if self.weight is None:
            return 1.0, 1.0
        kept = self.weight > 0.0
        each = self.weight[kept] if self.copies is None else self.weight[kept] / self.copies[kept]
        return float(each.min(initial=np.inf)), float(each.max(initial=0.0))

    def calibrated(self, calibrator: Calibrator | None) -> Part:
        """Return the given probabilities under ``calibrator``, or None; ValueError if what it gives are none."""
        if calibrator is self.calibrator:
            return self
        # calibrations are never stacked: each is applied to the probabilities as they were given
        raw = self if self.raw is None else self.raw
        if calibrator is None:
            return raw
        if self.decisions.several:
            return replace(raw, proba=calibrator.transform(raw.proba), calibrator=calibrator, raw=raw, totals=None)
        # () until rows have been calibrated, None where they are not kept
        kept = raw.__dict__.get("_last_calibrated")
        if kept and kept[0] is calibrator:
            found = kept[1]
        else:
            found = raw.storage.calibrated(calibrator, raw.proba)
            if kept is not None:
                raw.__dict__["_last_calibrated"] = (calibrator, found)
        return replace(
            raw, storage=found.storage, proba=found.proba, calibrator=calibrator, raw=raw, totals=found.totals
        )

    def dense(self, what: str) -> Part:
        """Return the rows as an array in host memory, which ``what`` needs: the part itself if it is one.

        ValueError if that would be large.
        """
        kept = self.__dict__.get("_dense")
        if kept is None:
            found = self.storage.dense(self.proba, what)
            if found.proba is self.proba:
                # not kept: a table that refers to itself is freed late
                return self
            kept = self.__dict__["_dense"] = self.held_as(found.storage, found.proba)
        return kept

    def density_of_ties(self, functions: Gains, prices: Array) -> Array | None:
        """Return the second derivative (d, d) of the support function of d linear ``functions``, by their ``prices``.

        It is known of reduced gains of probabilities, if the rows are in host memory: they leave no device. Of several
        labels per row it is not.
        """
        on_host = self.storage.is_on_host(self.proba)
        if functions.full is not None or functions.power or self.decisions.several or not on_host:
            return None
        rows = self
        if self.storage.backend != "array":
            rows = self._read_for_ties
        return density_of_ties(rows.proba, rows.weight, rows.weight_total, functions, prices)

    @cached_property
    def _read_for_ties(self) -> Part:
        """The rows that are read, as an array: that of a sparse table may be large."""
        chosen = rows_read(self.n_rows, self.n_classes)
        return (self if chosen is None else self.take(chosen)).dense("the density of rows that tie")

    def held_as(self, storage: Storage, proba: Any) -> Part:
        """Return the same rows as ``proba`` (n, K) in another ``storage``."""
        # the sums of the columns are left out: in another storage they are added in another order
        return replace(self, storage=storage, proba=proba, totals=None, calibrator=None, raw=None, groups=None)

    def with_rows(self, proba: Any, labels: NDArray[np.int64] | None, weight: Array | None) -> Part:
        """Return checked rows of the same classes, held alike: ``proba`` (m, K), ``labels`` and ``weight`` (m,)."""
        return Part(self.storage, proba, labels=labels, weight=weight, classes=self.classes)

    def times(self, power: int) -> Part:
        """Return the rows with weights times two to a ``power``."""
        return self if self.weight is None else replace(self, weight=np.ldexp(self.weight, power))

    def row_hashes(self) -> NDArray[np.uint64]:
        """Return the hash of every row (n,), of which samples are made: that of the row as it was given.

        Neither a calibrator nor the division of rows by their sums changes it; float64 counts as float32.
        """
        return self._row_hashes

    @cached_property
    def _row_hashes(self) -> NDArray[np.uint64]:
        if self.hashes is not None:
            return self.hashes
        return self.storage.hashes(self.proba) if self.raw is None else self.raw.row_hashes()

    def unordered_hashes(self) -> NDArray[np.uint64]:
        """Return the hash of the entries of every row (n,), of which folds are made: the order of columns is no matter.

        As `row_hashes` in all else.
        """
        return self._unordered_hashes

    @cached_property
    def _unordered_hashes(self) -> NDArray[np.uint64]:
        if self.unordered is not None:
            return self.unordered
        return self.storage.hashes(self.proba, ordered=False) if self.raw is None else self.raw.unordered_hashes()

    def fingerprint(self) -> Fingerprint | None:
        """Return what tells these rows from others, whatever the order of rows and columns; None without labels."""
        return None if self.labels is None else fingerprint(self.unordered_hashes(), self.labels, self.classes)

    def name(self) -> tuple[bytes, int]:
        """Return what tells labelled rows, in their order, from those of other parts, and their number.

        Parts are told by what is in them, because a source that reads them anew in every pass gives them no number.
        """
        digest = blake2b(self.row_hashes().tobytes(), digest_size=16)
        for values in (self.labels, None if self.groups is None else self.groups.codes):
            digest.update(b"" if values is None else values.tobytes())
        return digest.digest(), self.n_rows

    def take(self, chosen: NDArray[np.intp] | NDArray[np.bool_]) -> Part:
        """Return the ``chosen`` rows (n,), a mask or indices; hashed as they were given."""
        # a part keeps the hashes of its rows, so that samples and folds of a part are those of the whole table
        given = self.unordered is None and self.raw is None
        unordered = None if given else self.unordered_hashes()
        hashed = replace(self, hashes=self.row_hashes(), unordered=unordered, calibrator=None, raw=None)
        return hashed.at(chosen)

    def at(self, chosen: Any) -> Part:
        """Return the ``chosen`` rows, a slice, a mask or indices (n,), with the hashes that are known."""

        def part(values: Any) -> Any:
            return None if values is None else values[chosen]

        return replace(
            self,
            proba=self.storage.rows(self.proba, chosen),
            totals=None,
            hashes=part(self.hashes),
            unordered=part(self.unordered),
            labels=part(self.labels),
            weight=part(self.weight),
            groups=None if self.groups is None else self.groups.take(chosen),
            copies=part(self.copies),
        )

    @cached_property
    def groups_apart(self) -> tuple[Part, ...]:
        """The rows of each group, without a copy where they lie in the order of their groups."""
        codes = self.groups.codes
        if (codes[1:] < codes[:-1]).any():
            rows = [self.take(np.flatnonzero(codes == g)) for g in range(len(self.groups))]
            return tuple(replace(part, groups=None) for part in rows)
        edges = np.searchsorted(codes, np.arange(len(self.groups) + 1)).tolist()
        raw = [None] * len(self.groups) if self.raw is None else self.raw.groups_apart
        parts = [self.at(slice(low, high)) for low, high in pairwise(edges)]
        return tuple(replace(part, raw=given, groups=None) for part, given in zip(parts, raw, strict=True))

    def sampled(self, fraction: float) -> Part:
        """Return about this ``fraction`` of the rows, in (0, 1), chosen by the hash of their probabilities."""
        if fraction not in self._samples:
            self._samples.clear()
            self._samples[fraction] = self.take(chosen_by_hash(self.row_hashes(), fraction))
        return self._samples[fraction]

    @cached_property
    def _samples(self) -> dict[float, Part]:
        # the last one: searches within limits of other numbers ask for it again
        return {}

    @cached_property
    def kept(self) -> dict[str, Any]:
        """What scans of these rows need again and again, by names of their own."""
        return {}

    @cached_property
    def label_columns(self) -> LabelColumns:
        """The columns of several labels per row in an array."""
        return LabelColumns(self.proba, self.labels)

    @cached_property
    def label_sums(self) -> Array:
        """The weight of the rows with each true class, or with each of several labels (K,); empty without labels."""
        labels = self.labels
        if labels is None:
            return np.empty(0)
        if self.several:
            counted = label_counts(labels) if self.weight is None else self.weight @ labels
            return np.asarray(counted, dtype=np.float64)
        return np.bincount(labels, self.weight, self.n_classes).astype(np.float64)

    def positives(self) -> NDArray[np.int64]:
        """Return how many rows with weight have each of several labels (L,); needs labels."""
        return self.positive_rows

    @cached_property
    def positive_rows(self) -> NDArray[np.int64]:
        """How many rows with weight have each of several labels (L,); empty for one class, and without labels."""
        if self.labels is None or not self.several:
            return np.empty(0, np.int64)
        return label_counts(self.labels if self.weight is None else self.labels[self.weight > 0.0])

    @cached_property
    def column_totals(self) -> Array:
        """The weighted sum of each column (K,), float64."""
        # the pass that checked the rows has added up the columns already
        known = self.totals if self.weight is None else None
        return self.column_sums(self.weight) if known is None else known

    @cached_property
    def by_group(self) -> Array:
        """Of every group the rows of each true class, their weight, and the weighted sums of columns (3, G, K)."""
        if self.groups is None:
            return np.empty(0)
        return np.asarray(self.groups.sums(self))

    @property
    def has_labels(self) -> bool:
        """Whether there are true classes."""
        return self.labels is not None

    def label_weight(self) -> Array:
        """Return the weight of each true class (K,), fractions of all weight; needs labels."""
        assert self.labels is not None
        return label_weight(self)

    def mean_probability(self) -> Array:
        """Return the weighted mean of each column (K,), float64."""
        return mean_probability(self)

    def column_sums(self, weight: Array | None, *, spread: bool = False) -> Array:
        """Return the sums of ``p`` by class (K,), with ``spread`` of ``p (1 - p)``, by ``weight`` (n,), in float64."""
        return self.storage.column_sums(self.proba, weight, spread=spread)

    def probability_of(self, decision: NDArray[Any]) -> NDArray[Any]:
        """Return each row's probability of its ``decision`` (n,), zero for one that is no class."""
        return self.storage.probability_of(self.proba, decision)

    def decide(self, gains: Gains, calibrator: Calibrator | None = None) -> NDArray[Any]:
        """Return the decisions (B, n) of all ``gains`` under a ``calibrator`` of these rows, in host memory."""
        # a calibrator may give rows of another storage, and those decide
        found = self if calibrator is None else self.storage.calibrated(calibrator, self.proba)
        return found.storage.decide(found.proba, gains)


@dataclass(frozen=True, eq=False)
class CheckedPart:
    """A part after its check: its rows, None if it has none, and what of it is chosen for a sample.

    Weights are times two to the power of ``unit``, which is that of the part: no part knows the weights of the others.
    With ``fraction`` zero the part was found good before.
    """

    rows: Part | None
    fraction: float
    renormalised: bool = False
    unit: int = 0

    def in_unit(self, unit: int) -> CheckedPart:
        """Return the part with its weights in another unit."""
        if self.rows is None or self.unit == unit:
            return self
        return replace(self, rows=self.rows.times(self.unit - unit), unit=unit)
