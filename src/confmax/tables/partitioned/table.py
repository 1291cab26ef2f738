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
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial, reduce
from itertools import pairwise
from operator import add
from typing import Any, ClassVar, NoReturn, Protocol, final

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Confusion, Gains
from confmax.tables.array.kind import ARRAYS
from confmax.tables.array.oracle import ArrayOracle
from confmax.tables.arrays import as_array, checked_weight
from confmax.tables.columns import arranged, order_of, warn
from confmax.tables.fingerprints import column_factors
from confmax.tables.kinds import Kind, Rule
from confmax.tables.labels import Coded, distinct, encode_labels, resolve_classes, vector
from confmax.tables.table import Calibrator, Checked, MemoryTable, Oracle, T, Table, TableOracle

SAMPLE_CELLS, SAMPLE_CELLS_UNLABELLED = 1 << 22, 1 << 20  # of the sample, on which calibrations are fitted, too
MOST_ROWS = 1 << 19  # it has no more rows than this, however few classes there are,
SAMPLE_ROWS, ROWS_PER_CLASS = 20_000, 50  # and no fewer than these, however many

Heard = Callable[[int, int], None]  # takes the rows read of a pass so far, and the rows of the table


@dataclass(frozen=True, eq=False)
class Part:
    """The rows of one part as they lie there, unchecked.

    Attributes
    ----------
    proba : ndarray or frame (n, K) or None
        Probabilities in the order of the source's columns, None where labels alone are read; n may be zero.
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
    label_weight : ndarray (K,) or (0,)
        Weight of each true class; empty without labels.
    sample : tuple of MemoryTable
        The chosen rows of each part.
    renormalised : int
        Number of parts in which some row was divided by its sum.
    """

    n_rows: int
    n_weighted: int
    weight: float
    totals: Array
    label_weight: Array
    sample: tuple[MemoryTable, ...]
    renormalised: int

    def __add__(self, other: Summary) -> Summary:
        """Return the summary of the rows of both."""
        # parts are added one by one: a table of very many parts and classes never holds a summary of each
        return Summary(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(Summary)))


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
    known : Summary
        What the first pass has added up.
    sample : MemoryTable
        The rows in memory: about as many as `SAMPLE_CELLS` entries, chosen by a hash of their content.
    calibrator : Calibrator or None
        What every pass applies to each part.
    """

    source: Any
    classes: tuple[Any, ...]
    known: Summary
    sample: MemoryTable
    calibrator: Calibrator | None = None

    backend = "parts"

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.known.n_rows

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
        if calibrator is self.calibrator:
            return self
        return replace(self, calibrator=calibrator, sample=self.sample.calibrated(calibrator))

    def oracle(self, model_share: float) -> Oracle:
        """Return the oracle that scans every part where it lies."""
        return PartsOracle(self, model_share)

    def counted_by(self, oracle: Oracle, gains: Gains, *, matrix: bool) -> Confusion:
        """Return the confusions of decisions on this calibration of the rows, by another one's truth."""
        work = partial(_answers_on, gains=gains, share=oracle.model_share, matrix=matrix, decides_on=self.calibrator)
        return PartsOracle(in_parts(oracle.table), oracle.model_share).summed(work)

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
        return np.asarray(self.known.label_weight / self.known.label_weight.sum())

    @cached_property
    def _mean_probability(self) -> Array:
        if self.calibrator is None:
            return np.asarray(self.known.totals / self.known.weight)
        return np.asarray(np.sum(list(self.over_parts(_column_totals)), axis=0) / self.known.weight)

    def over_parts(self, work: Callable[[MemoryTable], T]) -> Iterator[T]:
        """Yield what ``work`` returns for the table of every part that has weight."""
        found = self.source.run(partial(_on_table, work, self.calibrator))
        return (each for each in found if each is not None)


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
    cells = SAMPLE_CELLS if source.has_labels else SAMPLE_CELLS_UNLABELLED
    K = source.n_classes
    wanted = max(min(cells // K, MOST_ROWS), SAMPLE_ROWS, ROWS_PER_CLASS * K)
    tables = source.kept(partial(as_table, classes=resolved, fraction=min(1.0, wanted / max(1, source.n_rows))))
    summaries = (summary for summary in tables.run(_summary_of) if summary is not None)
    first = next(summaries, None)
    if first is None:
        raise ValueError("proba is empty: at least one row of probabilities is needed")
    known = reduce(add, summaries, first)
    if known.weight <= 0 or not np.isfinite(known.weight):
        raise ValueError("sample_weight sums to zero, or to more than a float can hold; give usable weights")
    if not source.holds and not known.renormalised:
        # the source itself sees to it that rows do not change
        tables = source.kept(partial(as_table, classes=resolved, fraction=0.0))
    return PartitionedTable(tables, resolved, replace(known, sample=()), _ordered(known.sample))


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
    labelled = raw.label_weight() * raw.weight_total if raw.has_labels else np.empty(0)
    totals = raw.mean_probability() * raw.weight_total
    known = Summary(raw.n_rows, raw.n_weighted, raw.weight_total, totals, labelled, (), 0)
    return PartitionedTable(_OnePart(raw), raw.classes, known, raw).calibrated(given.calibrator)


# --- the oracle: each part is scanned where it lies, sums are added in the order of parts -----------------------------


class PartsOracle(TableOracle):
    """Oracle on a table whose rows lie in parts."""

    table: PartitionedTable

    def maximize(self, gains: Gains, *, matrix: bool = False) -> Confusion:
        """Return the confusions (batch of B) of the decisions that maximise each gain."""
        return self.summed(partial(_answers, gains=gains, share=self.model_share, matrix=matrix))

    def summed(self, work: Callable[[MemoryTable], list[Array]]) -> Confusion:
        """Return the confusions whose statistics, times the weight of a part, ``work`` gives for the part's table."""
        found = self.table.over_parts(work)
        sums = reduce(lambda one, other: [a + b for a, b in zip(one, other, strict=True)], found)
        return Confusion(self.rows, *(each / self.table.weight_total for each in sums))


def _answers(table: MemoryTable, *, gains: Gains, share: float, matrix: bool) -> list[Array]:
    return _times_weight(table, ArrayOracle(table, share).maximize(gains, matrix=matrix))


def _answers_on(table: MemoryTable, *, gains: Gains, share: float, matrix: bool, decides_on: Any) -> list[Array]:
    """Return the sums of what is decided under another calibrator, counted by this one's truth."""
    oracle = ArrayOracle(table, share)
    return _times_weight(table, table.calibrated(decides_on).counted_by(oracle, gains, matrix=matrix))


def _times_weight(table: MemoryTable, found: Confusion) -> list[Array]:
    sums = [found.diagonal, found.columns, *([] if found.matrix is None else [found.matrix])]
    return [table.weight_total * each for each in sums]


# --- what engines share ----------------------------------------------------------------------------------------------


class Refused(str):
    """A sentence about bad rows that takes the place of a part's result."""


def attempted(work: Callable[[Any], Any], part: Any) -> Any:
    """Return ``work(part)``, or that the part was refused, now or before."""
    if isinstance(part, Refused):
        return part
    try:
        return work(part)
    except ValueError as error:
        return Refused(str(error))


def refuse_first(found: Iterable[Any]) -> None:
    """Raise the sentence of the first part that was refused.

    Raises
    ------
    ValueError
        If there is one.
    """
    for each in found:
        if isinstance(each, Refused):
            raise ValueError(str(each))


def together(sizes: Sequence[int], most: int) -> list[slice]:
    """Return the places of neighbours of at most so many rows together, or of one that has more."""
    edges, rows = [0], 0
    for place, size in enumerate(sizes):
        if place > edges[-1] and rows + size > most:
            edges.append(place)
            rows = 0
        rows += size
    return [slice(low, high) for low, high in pairwise([*edges, len(sizes)])]


@contextmanager
def naming(part: str) -> Iterator[None]:
    """Put the name of a part before the sentence of a ValueError about its rows."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{part}: {error}") from None


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
    with naming(part.name):
        P = as_array(part.proba)
        if P.shape[1] != len(classes):
            raise ValueError(f"proba has {P.shape[1]} columns for {len(classes)} classes; give every part the same")
        found = ARRAYS.check(P, hashed=True) if fraction > 0 else Checked(ARRAYS, P)
        labels = None if part.labels is None else encode_labels(_given(part.labels), classes, len(P))
        weight = None if part.weight is None else checked_weight(part.weight, len(P), whole=False)
    table = MemoryTable(**vars(found), labels=labels, weight=weight, classes=classes)
    return CheckedPart(table, fraction, found.proba is not P)


def joined(found: Iterable[CheckedPart]) -> CheckedPart:
    """Return the rows of several checked parts as those of one."""
    several = list(found)
    tables = [each.table for each in several if each.table is not None]
    if len(several) == 1 or not tables:
        return several[0]
    return CheckedPart(_one_after_another(tables), several[0].fraction, any(each.renormalised for each in several))


def _given(labels: Any) -> Any:
    return labels if isinstance(labels, Coded) else vector(labels, "y", "one label")


def _summary_of(checked: CheckedPart) -> Summary | None:
    table = checked.table
    if table is None:
        return None
    labelled = np.empty(0)
    if table.labels is not None:
        labelled = np.bincount(table.labels, weights=table.weight, minlength=table.n_classes).astype(np.float64)
    return Summary(table.n_rows, table.n_weighted, table.weight_total, table.column_sums(table.weight), labelled,
                   (table.sampled(checked.fraction),), int(checked.renormalised))  # fmt: skip


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
    # an array of objects keeps the types of names, which NumPy would make one
    out = np.empty(len(found), dtype=object)
    out[:] = list(found)
    return out


def _distinct_of(part: Part) -> list[Any]:
    with naming(part.name):
        return distinct(_given(part.labels))


def _ordered(parts: tuple[MemoryTable, ...]) -> MemoryTable:
    """Return the chosen rows of all parts as one table, in an order that depends on nothing but their content."""
    whole = _one_after_another(parts)
    # rows of one hash are equal in float32; in float64 the last digits may differ
    digits = (whole.proba * column_factors(whole.n_classes).astype(np.float64)).sum(axis=1)
    keys = (whole.weight, whole.labels, digits, whole.row_hashes())
    return whole.take(np.lexsort([key for key in keys if key is not None]))


def _one_after_another(tables: Sequence[MemoryTable]) -> MemoryTable:
    """Return the rows of tables of the same classes as one table."""
    # rows that were divided by their sums keep the hashes that they were given with
    kept = any(t.unordered is not None for t in tables)
    given = [(t.proba, t.row_hashes(), t.unordered_hashes() if kept else None, t.labels, t.weight) for t in tables]
    rows = [None if each[0] is None else np.concatenate(each) for each in zip(*given, strict=True)]
    proba, hashes, unordered, labels, weight = rows
    return MemoryTable(ARRAYS, proba, None, hashes, unordered, labels=labels, weight=weight, classes=tables[0].classes)


# --- columns, as a caller states them ---------------------------------------------------------------------------------


def stated_columns(columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of probabilities that a caller names, one or several; a ValueError for none."""
    chosen = (columns,) if isinstance(columns, str) else tuple(columns)
    if not chosen:
        raise ValueError("columns is empty; name at least one column of probabilities")
    return chosen


def refuse_missing(table: str, names: Iterable[Any], there: Iterable[Any]) -> None:
    """Refuse, by a ValueError, a ``table`` without one of the columns ``names``, of which None are none."""
    known = list(there)
    for name in names:
        if name is not None and name not in known:
            raise ValueError(f"{table} has no column {name!r}; its columns are {', '.join(map(str, known[:12]))}")


# --- opened tables, as values that are given -------------------------------------------------------------------------


class ReadInParts(Kind):
    """A kind whose rows are never in one place, so that only a table or a rule can be asked about them."""

    in_memory = False
    refusal: ClassVar[str]

    @final
    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise ValueError(self.refusal)

    storage = property(_refuse)
    check = given_hashes = host = floats = decision_probabilities = named = _refuse


@final
class Opened(ReadInParts):
    """A table from `open_table`, or whatever else is a `Source` and says so by ``is_confmax_source``."""

    refusal = (
        "an opened table is not an array of rows; rule.predict(table) decides it, everything else needs its rows "
        "in memory"
    )

    def table(self, proba: Any, y: Any, sample_weight: Any, classes: Sequence[Any] | None, *, stated: bool) -> Table:
        """Return `make_table`; labels and weights are named where the table is opened."""
        if y is not None or sample_weight is not None:
            raise ValueError("an opened table brings its labels and weights; pass label= and weight= to open_table")
        return partitioned_table(proba, classes, stated=stated)

    def predict_index(self, rule: Rule, proba: Any, keys: Any) -> NDArray[np.int64]:
        """Return the decisions (n,) of a rule, read part by part."""
        if keys is not None:
            raise ValueError("keys are not split into parts; leave them out, or decide arrays part by part")
        order = order_of(proba.names, rule.class_names[: rule.n_classes])
        source = proba if order is None else proba.with_columns(order)
        return np.concatenate([np.empty(0, np.int64), *source.run(partial(_decide_part, rule))])


def _decide_part(rule: Rule, part: Part) -> NDArray[np.int64]:
    if len(part.proba) == 0:
        return np.empty(0, np.int64)
    with naming(part.name):
        return rule.predict_index(part.proba)


OPENED = Opened()
