"""What a checked table is: nothing deeper validates again, and nobody asks where or how its rows are stored.

`Table` is what all tables do. There are two: `MemoryTable`, whose rows are in the memory of this process or of a
device, in one of several storages, and `PartitionedTable` of `partitioned/`. A *storage* knows one way to hold checked
rows (an array, a sparse matrix, a tensor). A table in memory is its rows, labels and weights, and leaves to the storage
all that depends on how rows are held. So kinds are composed, not derived from each other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Protocol, TypeVar, final, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax.confusion import Array, Confusion, Gains, Layout
from confmax.tables.array.label_columns import LabelColumns, label_counts
from confmax.tables.decisions import ONE, Decisions
from confmax.tables.fingerprints import Fingerprint, chosen_by_hash, fingerprint
from confmax.tables.ties import density_of_ties, rows_read

T = TypeVar("T")


class Calibrator(Protocol):
    """A map of probabilities (n, K) to probabilities (n, K), row by row."""

    def transform(self, proba: NDArray[Any]) -> ArrayLike:
        """Return the calibrated probabilities (n, K) of ``proba`` (n, K)."""


class Oracle(Protocol):
    """Maximises linear functions of the confusion matrix over all rules, on one table (paper, Section 2).

    Attributes
    ----------
    rows : ndarray (K,)
        Row sums of every confusion: the class priors, fractions of all weight.
    model_share : float
        Part of the model in the confusion: 1 the model, 0 the labels, between them a blend.
    exact : bool
        Whether the answers are true maximisers (model confusion) or plug-in ones (labels, blend).
    """

    model_share: float
    exact: bool

    @property
    def rows(self) -> Array:
        """Row sums (K,), as above."""

    @property
    def table(self) -> Table:
        """The table that the oracle reads."""

    def maximize(self, gains: Gains, *, matrix: bool = False) -> Confusion:
        """Return, for each of ``gains``, the confusion of ``argmax_j score_j``, its ``matrix`` if asked; one scan."""


@runtime_checkable
class Table(Protocol):
    """A checked table of class probabilities.

    Attributes
    ----------
    classes : tuple
        Names of the columns; 0..K-1 when nothing else is known.
    calibrator : Calibrator or None
        What made the probabilities from those that were given; None for the table as it was given.
    groups : Groups, GroupShares, GroupsInParts or None
        The groups of the rows, where the table brings them; None if it does not.

    Examples
    --------
    >>> from confmax.oracle import make_table
    >>> table = make_table([[0.75, 0.25], [0.5, 0.5]], ["no", "yes"])
    >>> table.backend, table.n_rows, table.mean_probability()
    ('array', 2, array([0.625, 0.375]))
    """

    classes: tuple[Any, ...]
    calibrator: Calibrator | None
    groups: Any

    @property
    def backend(self) -> str:
        """Name of the oracle that `make_oracle` takes for it."""
        return self.in_memory().storage.backend

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type that scores are computed in."""
        # a sample is joined from rows of all parts, the widest type of which it has
        rows = self.in_memory()
        return rows.storage.dtype(rows.proba)

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    def has_labels(self) -> bool:
        """Whether there are true classes."""
        return self.in_memory().labels is not None

    @property
    def weight_total(self) -> float:
        """Sum of the weights; the number of rows where all are equal."""

    @property
    def n_weighted(self) -> int:
        """Number of rows whose weight is not zero."""

    @property
    def is_truncated(self) -> bool:
        """Whether zeros are probabilities that were left out, from which nothing about the model can be learned."""
        return self.in_memory().storage.is_truncated

    def label_weight(self) -> Array:
        """Return the weight of each true class (K,), fractions of all weight; needs labels."""

    def positives(self) -> NDArray[np.int64]:
        """Return how many rows with weight have each of several labels (L,); needs labels."""
        return self.in_memory().positives()

    def mean_probability(self) -> Array:
        """Return the weighted mean of each column (K,), float64."""
        return self._mean_probability

    @cached_property
    def _mean_probability(self) -> Array: ...

    def calibrated(self, calibrator: Calibrator | None) -> Table:
        """Return the table of the given probabilities under ``calibrator``, or None; ValueError if these are none."""

    def in_memory(self) -> MemoryTable:
        """Return the rows that are in one place: all of them, or a sample."""

    def in_one_place(self) -> Table:
        """Return the rows of `in_memory`, side by side where those of this table are."""
        return self.in_memory()

    def dense(self, what: str) -> MemoryTable:
        """Return the table with ``proba`` as an array in host memory, which ``what`` needs.

        ValueError if that would be large, or rows are elsewhere.
        """

    def over_parts(self, work: Callable[[MemoryTable], T]) -> Iterator[T]:
        """Yield what ``work`` returns for the table of every part that has weight; rows in memory are one part."""
        yield work(self.in_memory())

    def gathered(self, work: Callable[[MemoryTable], tuple[NDArray[Any], ...]], what: str) -> list[NDArray[Any]]:
        """Return the arrays (n,) of what ``work`` gives for the rows (n,) of every part, in the order of the parts.

        ``what`` needs a number or two of every row in one place. InputError if rows in parts are too many for that.
        """
        return [np.concatenate(each) for each in zip(*self.over_parts(work), strict=True)]

    def rows_where(self, mask: NDArray[np.bool_]) -> Table:
        """Return the table of the raw rows that a ``mask`` (n,) chooses, in the order of the parts of `over_parts`."""
        return self.in_memory().calibrated(None).take(mask)

    def oracle(self, model_share: Any) -> Oracle:
        """Return the oracle over these rows, for a confusion with this ``model_share``.

        Of several labels per row, it may be one number for each label (L,).
        """

    def counted_by(self, oracle: Oracle, gains: Gains, *, matrix: bool) -> Confusion:
        """Return the confusions of all ``gains``, decided on this table, by the truth that ``oracle`` counts with.

        The oracle is over another table of the same rows, in the same place. ``matrix`` asks for whole matrices.
        """

    def density_of_ties(self, functions: Gains, prices: Array) -> Array | None:
        """Return the second derivative (d, d) of the support function of d linear ``functions``, by their ``prices``.

        The support function is that of the model's confusion; see `confmax.tables.ties`. None where it is not known.
        """
        return None

    def fingerprint(self) -> Fingerprint | None:
        """Return what tells these labelled rows from others; None where it is not known."""
        return None

    def has_fingerprint(self, known: Fingerprint) -> bool:
        """Return whether these labelled rows have a ``known`` fingerprint."""
        return self.fingerprint() == known

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return len(self.classes)

    @property
    def decisions(self) -> Decisions:
        """What is decided for a row."""
        return ONE

    @property
    def layout(self) -> Layout | None:
        """Where the groups of rows stand that lie side by side; None if there are none."""
        return None

    def priors(self, rows: Array) -> Array:
        """Return class sizes ``rows`` (K,) as those that probabilities are divided by."""
        return rows

    @property
    def is_whole(self) -> bool:
        """Whether all rows are in one place, so that they can be sorted and searched."""
        return self.in_memory() is self

    @property
    def sorts_rows(self) -> bool:
        """Whether the rows of every group can be sorted and searched; without groups, all rows.

        Several labels of a sparse table are decided by what it stores, and a dense copy would be calibrated elsewhere.
        """
        return self.is_whole and not (self.decisions.several and self.is_truncated)


@dataclass(frozen=True, eq=False)
class Checked:
    """What the check of probabilities gives: rows that sum to one up to rounding, in the form that their storage holds.

    Where the check has computed them: the sum of each column, and the hashes of the rows as they were given
    (`MemoryTable.row_hashes`, `MemoryTable.unordered_hashes`).
    """

    storage: Storage
    proba: Any
    totals: Array | None = None
    hashes: NDArray[np.uint64] | None = None
    unordered: NDArray[np.uint64] | None = None


class TableOracle:
    """What oracles that read a table share: which estimate they count by, and its row sums.

    C is estimated from ``model_share * p + (1 - model_share) * 1[y = i]``: 1 the model, 0 the labels.
    """

    def __init__(self, table: Table, model_share: ArrayLike) -> None:
        self.table = table
        self.model_share: Any = model_share
        # of several labels per row, each may have its own share; of groups side by side, each group
        shares = np.asarray(model_share, dtype=np.float64)
        if shares.ndim and table.layout is not None:
            shares = np.repeat(shares, table.layout.n_classes)
        self.shares = np.broadcast_to(shares, (table.n_classes,))
        self.exact = bool((self.shares == 1.0).all())
        # at once, because it refuses a table without labels
        self._of_labels = 0.0 if self.exact else (1.0 - self.shares) * table.label_weight()

    @cached_property
    def rows(self) -> Array:
        """The row sums of C (K,)."""
        # for labels alone no column is added up: a table in parts would be read for it
        if not (self.shares > 0.0).any():
            return np.zeros(self.table.n_classes) + self._of_labels
        return np.asarray(self.shares * self.table.mean_probability() + self._of_labels)


class Storage(ABC):
    """One way to hold checked rows; ``proba`` (n, K) are always rows that were checked, and have a ``shape``."""

    backend: ClassVar[str]
    is_truncated: ClassVar[bool] = False

    @abstractmethod
    def scaled(self, proba: Any, W: Array, b: Array, floor: float) -> Any:
        """Return ``softmax(W log(p + floor) + b)`` (n, K), W (K,) or (K, K), in the dtype of ``proba``."""

    @abstractmethod
    def calibrated(self, calibrator: Calibrator, proba: Any) -> Checked:
        """Return what a calibrator makes of the rows, checked in turn."""

    def dtype(self, proba: Any) -> np.dtype[Any]:
        """Return the type that scores are computed in."""
        return np.dtype(proba.dtype)

    @abstractmethod
    def hashes(self, proba: Any, *, ordered: bool = True) -> NDArray[np.uint64]:
        """Return the hash of every row (n,), by the order of the columns or without (`confmax.tables.fingerprints`)."""

    def rows(self, proba: Any, chosen: NDArray[Any]) -> Any:
        """Return the ``chosen`` rows (n,), a mask or indices."""
        return proba[chosen]

    def is_on_host(self, proba: Any) -> bool:
        """Whether the rows are in host memory."""
        return True

    @abstractmethod
    def dense(self, proba: Any, what: str) -> Checked:
        """Return the rows as an array in host memory, which ``what`` needs; ValueError if that would be large."""

    @abstractmethod
    def column_sums(self, proba: Any, weight: Array | None, *, spread: bool) -> Array:
        """Return the sums of ``p`` by class (K,), with ``spread`` of ``p (1 - p)``, by ``weight`` (n,), in float64."""

    @abstractmethod
    def columns(self, proba: Any, classes: Sequence[int]) -> Iterator[tuple[NDArray[Any], Any]]:
        """Yield the probabilities (m,) of each of ``classes`` in host memory, and their rows: m indices, or a slice.

        Probabilities that are left out are zero.
        """

    @abstractmethod
    def probability_of(self, proba: Any, decision: NDArray[Any]) -> NDArray[Any]:
        """Return each row's probability of its ``decision`` (n,), zero for one that is no class."""

    def sums_by_decision(self, proba: Any, weight: Array | None, decision: NDArray[Any], n_decisions: int) -> Array:
        """Return the sums of the rows of every decision (K, M), by ``weight`` (n,), in float64."""
        out = np.zeros((proba.shape[1], n_decisions))
        order = np.argsort(decision, kind="stable")
        made, starts = np.unique(decision[order], return_index=True)
        # of very many decisions only those that are made take a product with their rows
        for j, chosen in zip(made, np.split(order, starts[1:]), strict=True):
            out[:, j] = (np.ones(len(chosen)) if weight is None else weight[chosen]) @ self.rows(proba, chosen)
        return out

    @abstractmethod
    def decide(self, proba: Any, gains: Gains) -> NDArray[Any]:
        """Return the decisions (B, n) of every gain on every row in host memory; ties go to the largest index."""

    def decide_one(self, proba: Any, gains: Gains) -> Any:
        """Return the decisions (n,) of one gain, int64, where the rows are."""
        return self.decide(proba, gains)[0].astype(np.int64, copy=False)

    @abstractmethod
    def drawn(self, proba: Any, gains: Gains, weights: Array, seed: int, keys: Any) -> Any:
        """Return the decision (n,) of every row by the atom that its key draws, int64, where the rows are.

        ``keys`` (n,) are those of `given_hashes`, or words in host memory.
        """

    @abstractmethod
    def probabilities(self, proba: Any, gains: Gains, weights: Array) -> Any:
        """Return the probability of every decision (n, M) under a draw of the gain, where the rows are."""

    @abstractmethod
    def with_entries(self, proba: Any, change: Callable[[NDArray[Any], Any], NDArray[Any]]) -> Any:
        """Return rows (n, L) with other entries, `confmax.tables.several.with_entries`."""

    @abstractmethod
    def decide_labels(self, proba: Any, gains: Gains, decisions: Decisions) -> Any:
        """Return which labels one gain chooses on every row (n, L), 0 or 1, held as the rows are."""

    def searched(self, checked: Checked) -> Checked:
        """Return rows of labels as thresholds are searched on them: in host memory."""
        return checked

    def stacked(self, parts: Sequence[Any]) -> Any:
        """Return rows of several parts as those of one, in their order."""
        return np.concatenate(parts)

    def averaged(self, parts: Sequence[Any], weights: Array) -> Any:
        """Return the sum of ``parts`` (n, L) by their ``weights``, in float64."""
        return sum(part * weight for part, weight in zip(parts, weights, strict=True))

    def as_given(self, proba: Any, found: Any) -> Any:
        """Return what was ``found`` for each entry of given ``proba`` (n, L), in the form in which these came."""
        return found

    @abstractmethod
    def oracle(self, table: Table, model_share: float) -> Oracle:
        """Return this kind's oracle over a table; one in another storage is converted, by way of an array."""

    @abstractmethod
    def counted_by(self, table: MemoryTable, oracle: Oracle, gains: Gains, *, matrix: bool) -> Confusion:
        """Return `Table.counted_by`."""


@final
@dataclass(frozen=True, eq=False)
class MemoryTable(Checked, Table):
    """A checked table of class probabilities in memory.

    Labels are column numbers (n,), or where rows have several labels a matrix (n, L) of 0 and 1. Weights have any unit;
    None means equal ones. ``decisions`` say what is decided for a row.

    ``calibrator`` has made ``proba`` from the probabilities of ``raw``, the table as it was given; both are None for
    that table itself. ``groups`` are those of the rows of a part of a table in parts, in the order of the groups, or of
    its sample.

    ``copies`` (n,) are set where each row stands for several equal ones (`confmax.evaluate.lines`), so many of them,
    and its weight is theirs together.
    """

    _: KW_ONLY
    labels: NDArray[Any] | None
    weight: Array | None
    classes: tuple[Any, ...]
    calibrator: Calibrator | None = None
    raw: MemoryTable | None = None
    groups: Any = None
    decisions: Decisions = ONE
    copies: NDArray[np.int64] | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.proba.shape[0])

    # the total is cached, because every scan divides by it
    @cached_property
    def weight_total(self) -> float:
        return float(self.n_rows if self.weight is None else self.weight.sum())

    @property
    def n_weighted(self) -> int:
        """Number of rows whose weight is not zero."""
        return self.n_rows if self.weight is None else int(np.count_nonzero(self.weight))

    def calibrated(self, calibrator: Calibrator | None) -> MemoryTable:
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

    def in_memory(self) -> MemoryTable:
        return self

    def dense(self, what: str) -> MemoryTable:
        """Return the table with ``proba`` as an array in host memory, which ``what`` needs: itself if it is one."""
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
    def _read_for_ties(self) -> MemoryTable:
        """The rows that are read, as an array: that of a sparse table may be large."""
        chosen = rows_read(self.n_rows, self.n_classes)
        return (self if chosen is None else self.take(chosen)).dense("the density of rows that tie")

    def held_as(self, storage: Storage, proba: Any) -> MemoryTable:
        """Return the same rows as ``proba`` (n, K) in another ``storage``."""
        # the sums of the columns are left out: in another storage they are added in another order
        return replace(self, storage=storage, proba=proba, totals=None, calibrator=None, raw=None, groups=None)

    def with_rows(self, proba: Any, labels: NDArray[np.int64] | None, weight: Array | None) -> MemoryTable:
        """Return checked rows of the same classes, held alike: ``proba`` (m, K), ``labels`` and ``weight`` (m,)."""
        return MemoryTable(self.storage, proba, labels=labels, weight=weight, classes=self.classes)

    def oracle(self, model_share: Any) -> Oracle:
        return self.storage.oracle(self, model_share)

    def counted_by(self, oracle: Oracle, gains: Gains, *, matrix: bool) -> Confusion:
        return self.storage.counted_by(self, oracle, gains, matrix=matrix)

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

    def take(self, chosen: NDArray[np.intp] | NDArray[np.bool_]) -> MemoryTable:
        """Return the ``chosen`` rows (n,), a mask or indices, as a table; hashed as they were given."""
        # a part keeps the hashes of its rows, so that samples and folds of a part are those of the whole table
        given = self.unordered is None and self.raw is None
        unordered = None if given else self.unordered_hashes()
        hashed = replace(self, hashes=self.row_hashes(), unordered=unordered, calibrator=None, raw=None)
        return hashed.at(chosen)

    def at(self, chosen: Any) -> MemoryTable:
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
    def groups_apart(self) -> tuple[MemoryTable, ...]:
        """The rows of each group, of a table whose rows lie in the order of their groups, without a copy."""
        edges = np.searchsorted(self.groups.codes, np.arange(len(self.groups) + 1)).tolist()
        raw = [None] * len(self.groups) if self.raw is None else self.raw.groups_apart
        parts = [self.at(slice(low, high)) for low, high in pairwise(edges)]
        return tuple(replace(part, raw=given, groups=None) for part, given in zip(parts, raw, strict=True))

    def sampled(self, fraction: float) -> MemoryTable:
        """Return about this ``fraction`` of the rows, in (0, 1), chosen by the hash of their probabilities."""
        if fraction not in self._samples:
            self._samples.clear()
            self._samples[fraction] = self.take(chosen_by_hash(self.row_hashes(), fraction))
        return self._samples[fraction]

    @cached_property
    def _samples(self) -> dict[float, MemoryTable]:
        # the last one: searches within limits of other numbers ask for it again
        return {}

    @cached_property
    def label_columns(self) -> LabelColumns:
        """The columns of several labels per row in an array."""
        return LabelColumns(self.proba, self.labels)

    def label_weight(self) -> Array:
        return self._label_weight

    def positives(self) -> NDArray[np.int64]:
        labels = self.labels
        assert labels is not None
        return label_counts(labels if self.weight is None else labels[self.weight > 0.0])

    @cached_property
    def _label_weight(self) -> Array:
        assert self.labels is not None
        if self.decisions.several:
            if self.weight is None:
                return label_counts(self.labels) / self.n_rows
            return np.asarray(self.weight @ self.labels / self.weight.sum())
        counts = np.bincount(self.labels, weights=self.weight, minlength=self.n_classes)
        return counts / counts.sum()

    @cached_property
    def _mean_probability(self) -> Array:
        # the pass that checked the rows has added up the columns already
        if self.weight is None and self.totals is not None:
            return self.totals / self.n_rows
        return self.column_sums(self.weight) / self.weight_total

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
