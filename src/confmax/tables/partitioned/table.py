"""Tables whose rows lie in parts, in files or on a cluster: every part is scanned where it lies, small sums are added.

A *source* knows where the parts are and runs a function on each of them; that is all that an engine has to do. What is
run is the oracle of an array in memory, on the rows of one part. What comes back depends on the number of classes and
gains, never on rows, except for one sample of a bounded size, whose rows are chosen by what is in them.

The table that a solver sees holds no rows except the sample, which has the same rows in the same order for any
partition. Calibrations are fitted on the sample and warm starts begin on it; every reported number includes all rows.
Tables that an engine can hold (Dask, Spark) are checked once and held as arrays. Files are read in every pass, and
refused if their time or size has changed since their rows were checked. Errors in a part are returned as values, so
that the message names the first part rather than the fastest, and no engine tries a bad row again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NoReturn, Protocol, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Confusion, Gains
from confmax.tables.array.kind import ARRAYS
from confmax.tables.array.oracle import NumbaOracle
from confmax.tables.arrays import as_array, checked_array, checked_weight
from confmax.tables.columns import arranged, warn
from confmax.tables.fingerprints import column_factors, unordered_hashes
from confmax.tables.labels import Coded, distinct, encode_labels, resolve_classes, vector
from confmax.tables.table import Calibrator, MemoryTable, Oracle, Table, TableOracle

SAMPLE_CELLS, SAMPLE_CELLS_UNLABELLED = 1 << 22, 1 << 20  # of the sample, on which calibrations are fitted, too
MOST_ROWS = 1 << 19  # it has no more rows than this, however few classes there are,
SAMPLE_ROWS, ROWS_PER_CLASS = 20_000, 50  # and no fewer than these, however many

T = TypeVar("T")
Sums = tuple[float, Confusion]


@dataclass(frozen=True, eq=False)
class Part:
    """The rows of one part as they lie there, unchecked.

    Attributes
    ----------
    proba : ndarray or frame (n, K)
        Probabilities in the order of the source's columns; n may be zero.
    labels : ndarray (n,), Coded or None
        True classes, as names or numbers.
    weight : ndarray (n,) or None
        Sample weights.
    name : str
        What a person calls this part, such as "row group 3 of a.parquet".
    """

    proba: Any
    labels: Any
    weight: Any
    name: str


class Source(Protocol):
    """Where the parts of a table lie.

    Attributes
    ----------
    n_rows, n_classes : int
        Of all parts together.
    names : tuple of str or None
        Names of the columns of probabilities.
    has_labels : bool
        Whether there are true classes.
    holds : bool
        Whether `kept` holds what it makes; otherwise it is made anew in every pass.
    """

    @property
    def n_rows(self) -> int:
        """Number of rows of all parts."""

    @property
    def n_classes(self) -> int:
        """Number of classes K."""

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the columns of probabilities."""

    @property
    def has_labels(self) -> bool:
        """Whether there are true classes."""

    @property
    def holds(self) -> bool:
        """Whether `kept` holds what it makes."""

    def run(self, work: Callable[[Any], T], *, labels_only: bool = False) -> Iterator[T]:
        """Yield what ``work`` returns for every part, in the order of the parts.

        ``work`` can be pickled and takes a `Part`, or what `kept` has made of it; with ``labels_only`` the part's
        probabilities and weights may be left out.
        """

    def with_columns(self, order: Sequence[int]) -> Source:
        """Return the source with its columns of probabilities in another order."""

    def kept(self, step: Callable[[Any], Any]) -> Source:
        """Return the source of what ``step`` makes of each part, held where the parts lie if they are held at all."""


@dataclass(frozen=True, eq=False)
class Summary:
    """What one part, or all of them, add up to.

    Attributes
    ----------
    n_rows, n_weighted : int
        Rows, and rows whose weight is not zero.
    weight : float
        Sum of the weights.
    totals : ndarray (K,)
        Weighted sum of each column.
    label_weight : ndarray (K,) or None
        Weight of each true class.
    sample : tuple of MemoryTable
        The chosen rows of each part.
    renormalised : bool
        Whether some row was divided by its sum.
    """

    n_rows: int
    n_weighted: int
    weight: float
    totals: Array
    label_weight: Array | None
    sample: tuple[MemoryTable, ...]
    renormalised: bool


@final
@dataclass(frozen=True, eq=False)
class PartitionedTable(Table):
    """A checked table whose rows are elsewhere.

    Attributes
    ----------
    source : Source
        The parts, as tables of raw probabilities.
    classes : tuple
        Names of the columns.
    score_type : dtype
        The type of the probabilities.
    known : Summary
        What the first pass has added up.
    sample : MemoryTable
        The rows in memory: about as many as `SAMPLE_CELLS` entries, chosen by a hash of their content.
    calibrator : Calibrator or None
        What every pass applies to each part.
    raw : PartitionedTable or None
        The table as it was given, where this one is calibrated.
    """

    source: Any
    classes: tuple[Any, ...]
    score_type: np.dtype[Any]
    known: Summary
    sample: MemoryTable
    calibrator: Calibrator | None = None
    raw: PartitionedTable | None = None

    @property
    def backend(self) -> str:
        """Name of the oracle that `make_oracle` takes for it."""
        return "parts"

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type that scores are computed in."""
        return self.score_type

    @property
    def is_truncated(self) -> bool:
        """Whether zeros are probabilities that were left out: no."""
        return False

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.known.n_rows

    @property
    def has_labels(self) -> bool:
        """Whether there are true classes."""
        return self.known.label_weight is not None

    @property
    def n_weighted(self) -> int:
        """Number of rows whose weight is not zero."""
        return self.known.n_weighted

    @property
    def weight_total(self) -> float:
        """Sum of the weights."""
        return self.known.weight

    def in_memory(self) -> MemoryTable:
        """Return the sample."""
        return self.sample

    def calibrated(self, calibrator: Calibrator | None) -> PartitionedTable:
        """Return the table of the raw probabilities under a calibrator, which every pass applies to each part."""
        raw = self if self.raw is None else self.raw
        if calibrator is None:
            return raw
        return replace(raw, calibrator=calibrator, raw=raw, sample=self.sample.calibrated(calibrator))

    def oracle(self, model_share: float) -> Oracle:
        """Return the oracle that scans every part where it lies."""
        return PartsOracle(self, model_share)

    def counted_by(self, oracle: Oracle, gains: Gains, *, matrix: bool) -> Confusion:
        """Return the confusions of decisions on this calibration of the rows, by another one's truth."""
        truth = in_parts(oracle.table)
        return PartsOracle(truth, oracle.model_share).maximize_on(self, gains, matrix=matrix)

    def dense(self, what: str) -> NoReturn:
        """Refuse: ``what`` needs all rows in one place.

        Raises
        ------
        ValueError
            Always.
        """
        raise ValueError(
            f"{what} needs all rows in memory, and this table is read in parts; choose another solver, or tune on a "
            f"sample of the rows in an array"
        )

    def label_weight(self) -> Array:
        """Return the weight of each true class (K,), fractions of all weight; needs labels."""
        own = self.known.label_weight
        assert own is not None
        return np.asarray(own / own.sum())

    def mean_probability(self) -> Array:
        """Return the weighted mean of each column (K,), float64."""
        return self._mean_probability

    @cached_property
    def _mean_probability(self) -> Array:
        if self.calibrator is None:
            return np.asarray(self.known.totals / self.known.weight)
        parts = [part for part in self.over_parts(_column_totals) if part is not None]
        return np.asarray(np.sum(parts, axis=0) / self.known.weight)

    def over_parts(self, work: Callable[[MemoryTable], T]) -> Iterator[T | None]:
        """Yield what ``work`` returns for the table of every part, None where a part has no weight."""
        return self.source.run(partial(_on_table, work, self.calibrator))


def partitioned_table(source: Source, classes: Sequence[Any] | None, *, stated: bool = True) -> PartitionedTable:
    """Check all parts in one pass and return them as one table; ``stated`` as for `make_table`.

    Raises
    ------
    ValueError
        For anything that is no such table; the sentence names the part and its first offending row.
    """
    labels = distinct_labels(source) if source.has_labels else None
    found = arranged(source.names, classes, labels, stated=stated)
    if found.order is not None:
        source = source.with_columns(found.order)
    resolved = resolve_classes(found.classes, labels, source.n_classes)
    warn(found.note)
    if source.n_rows == 0:
        raise ValueError("proba is empty: at least one row of probabilities is needed")
    wanted = _sample_size(source.n_classes, labelled=source.has_labels)
    tables = source.kept(partial(as_table, classes=resolved, fraction=min(1.0, wanted / source.n_rows)))
    known, dtype = None, np.dtype(np.float32)
    for summary, kind in tables.run(_summaryed):
        if summary is not None:
            known, dtype = (summary if known is None else _together(known, summary)), np.promote_types(dtype, kind)
    if known is None:
        raise ValueError("proba is empty: at least one row of probabilities is needed")
    if known.weight <= 0 or not np.isfinite(known.weight):
        raise ValueError("sample_weight sums to zero, or to more than a float can hold; give usable weights")
    if not source.holds and not known.renormalised:
        # the source itself sees to it that rows do not change
        tables = source.kept(partial(as_table, classes=resolved, fraction=0.0))
    return PartitionedTable(tables, resolved, dtype, replace(known, sample=()), _ordered(known.sample))


def _sample_size(K: int, *, labelled: bool) -> int:
    """Return about how many rows are brought to one place."""
    cells = SAMPLE_CELLS if labelled else SAMPLE_CELLS_UNLABELLED
    return max(min(cells // K, MOST_ROWS), SAMPLE_ROWS, ROWS_PER_CLASS * K)


@dataclass(frozen=True, eq=False)
class _OnePart:
    """A table in memory as the only part of a source."""

    table: MemoryTable

    def run(self, work: Callable[[Any], T], *, labels_only: bool = False) -> Iterator[T]:
        yield work(CheckedPart(self.table, 1.0))


def in_parts(table: Table) -> PartitionedTable:
    """Return a table as one in parts; one in memory is the only part of it."""
    if isinstance(table, PartitionedTable):
        return table
    given = table.dense("backend='parts'")
    raw = given.calibrated(None)
    own = None if raw.labels is None else raw.label_weight() * raw.weight_total
    totals = raw.mean_probability() * raw.weight_total
    known = Summary(raw.n_rows, raw.n_weighted, raw.weight_total, totals, own, (), False)
    whole = PartitionedTable(_OnePart(raw), raw.classes, raw.dtype, known, raw)
    return whole.calibrated(given.calibrator)


# --- the oracle: each part is scanned where it lies, sums are added in the order of parts -----------------------------


class PartsOracle(TableOracle):
    """Oracle on a table whose rows lie in parts."""

    table: PartitionedTable

    def maximize(self, gains: Gains, *, matrix: bool = False) -> Confusion:
        """Return the confusions (batch of B) of the decisions that maximise each gain."""
        work = partial(_answers, gains=gains, share=self.model_share, matrix=matrix)
        return self._joined(self.table.over_parts(work))

    def maximize_on(self, table: PartitionedTable, gains: Gains, *, matrix: bool) -> Confusion:
        """Return the confusions of decisions on another calibration of the same rows, counted by this one's truth."""
        work = partial(
            _answers_on, gains=gains, share=self.model_share, matrix=matrix, truth=self.table.calibrator,
            decides_on=table.calibrator,
        )  # fmt: skip
        return self._joined(self.table.calibrated(None).over_parts(work))

    def _joined(self, parts: Iterable[Sums | None]) -> Confusion:
        total: Any = None
        for part in parts:
            if part is not None:
                weight, found = part
                sums = [weight * found.diagonal, weight * found.columns]
                sums += [] if found.matrix is None else [weight * found.matrix]
                total = sums if total is None else [one + other for one, other in zip(total, sums, strict=True)]
        diagonal, columns, *matrix = (each / self.table.weight_total for each in total)
        return Confusion(self.rows, diagonal, columns, matrix[0] if matrix else None)


def _answers(table: MemoryTable, *, gains: Gains, share: float, matrix: bool) -> Sums:
    return table.weight_total, NumbaOracle(table, share).maximize(gains, matrix=matrix)


def _answers_on(table: MemoryTable, *, gains: Gains, share: float, matrix: bool, truth: Any, decides_on: Any) -> Sums:
    oracle = NumbaOracle(table.calibrated(truth), share)
    return table.weight_total, table.calibrated(decides_on).counted_by(oracle, gains, matrix=matrix)


# --- what is run on a part -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CheckedPart:
    """A part after its check: its table, None without rows, and what it adds up to.

    The summary rides along, so that a part which is not held is read once for both.
    """

    table: MemoryTable | None
    fraction: float
    renormalised: bool = False


def as_table(part: Part, *, classes: tuple[Any, ...], fraction: float) -> CheckedPart:
    """Return the checked table of a part, or with fraction zero the table of one that was found good before.

    Raises
    ------
    ValueError
        As `make_table`, with the name of the part before it.
    """
    if len(part.proba) == 0:
        return CheckedPart(None, fraction)
    try:
        P = as_array(part.proba)
        if P.shape[1] != len(classes):
            raise ValueError(f"proba has {P.shape[1]} columns for {len(classes)} classes; give every part the same")
        proba, totals, hashes = checked_array(P, hashed=True) if fraction > 0 else (P, None, None)
        unordered = unordered_hashes(P) if fraction > 0 and proba is not P else None
        labels = None if part.labels is None else encode_labels(_given(part.labels), classes, len(P))
        weight = None if part.weight is None else checked_weight(part.weight, len(P), whole=False)
    except ValueError as error:
        raise ValueError(f"{part.name}: {error}") from None
    table = MemoryTable(ARRAYS, proba, labels, weight, classes, totals=totals, hashes=hashes, unordered=unordered)
    return CheckedPart(table, fraction, proba is not P)


def _given(labels: Any) -> Any:
    return labels if isinstance(labels, Coded) else vector(labels, "y", "one label")


def _summaryed(checked: CheckedPart) -> tuple[Summary | None, np.dtype[Any]]:
    table = checked.table
    if table is None:
        return None, np.dtype(np.float32)
    weight = np.ones(table.n_rows) if table.weight is None else table.weight
    own = None
    if table.labels is not None:
        own = np.bincount(table.labels, weights=table.weight, minlength=table.n_classes).astype(np.float64)
    sample = table.sampled(checked.fraction)
    n_weighted = int(np.count_nonzero(weight))
    found = Summary(table.n_rows, n_weighted, float(weight.sum()), table.column_sums(table.weight), own, (sample,),
                   checked.renormalised)  # fmt: skip
    return found, table.dtype


def _on_table(work: Callable[[MemoryTable], T], calibrator: Calibrator | None, checked: CheckedPart) -> T | None:
    table = checked.table
    if table is None or (table.weight is not None and not table.weight.any()):
        return None
    return work(table.calibrated(calibrator))


def _column_totals(table: MemoryTable) -> Array:
    return table.column_sums(table.weight)


# --- steps -----------------------------------------------------------------------------------------------------------


def distinct_labels(source: Source) -> NDArray[Any]:
    """Return the distinct labels (m,) of all parts of ``source``."""
    found: dict[Any, None] = {}
    for values in source.run(_distinct_of, labels_only=True):
        found.update(dict.fromkeys(values))
    return distinct_array(list(found))


def _distinct_of(part: Part) -> list[Any]:
    try:
        return distinct(_given(part.labels))
    except ValueError as error:
        raise ValueError(f"{part.name}: {error}") from None


def distinct_array(values: list[Any]) -> NDArray[Any]:
    """Return names as an array that keeps their types."""
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def _together(one: Summary, other: Summary) -> Summary:
    own = None
    if one.label_weight is not None and other.label_weight is not None:
        own = one.label_weight + other.label_weight
    return Summary(one.n_rows + other.n_rows, one.n_weighted + other.n_weighted, one.weight + other.weight,
                  one.totals + other.totals, own, one.sample + other.sample,
                  one.renormalised or other.renormalised)  # fmt: skip


def _ordered(parts: tuple[MemoryTable, ...]) -> MemoryTable:
    """Return the chosen rows of all parts as one table, in an order that depends on nothing but their content."""
    proba = np.concatenate([part.proba for part in parts])
    labels, weight, hashes = (
        None if getattr(parts[0], name) is None else np.concatenate([getattr(part, name) for part in parts])
        for name in ("labels", "weight", "hashes")
    )
    unordered = np.concatenate([part.unordered_hashes() for part in parts])
    # rows of one hash are equal in float32; in float64 the last digits may differ
    digits = (proba * column_factors(proba.shape[1]).astype(np.float64)).sum(axis=1)
    keys = [key for key in (weight, labels, digits, hashes) if key is not None]
    order = np.lexsort(keys)
    picked = [None if part is None else part[order] for part in (labels, weight, hashes, unordered)]
    return MemoryTable(ARRAYS, np.ascontiguousarray(proba[order]), picked[0], picked[1], parts[0].classes,
                       hashes=picked[2], unordered=picked[3])  # fmt: skip
