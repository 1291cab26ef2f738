"""What a checked table is: a sum of parts, of which rows in memory are one.

A *source* runs work on every part where it lies; what comes back is added up. Nobody outside of this package asks where
rows are. What sorts or walks rows needs all of them in one place: `Table.gathered` is where they come together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from operator import add, iadd
from typing import Any, Protocol, TypeVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax.confusion import Array, Confusion, Gains, Layout
from confmax.confusion.ties import with_ties_broken
from confmax.errors import InputError
from confmax.tables.decisions import Decisions
from confmax.tables.fingerprints import Fingerprint
from confmax.tables.known import Known, mean_probability
from confmax.tables.part import CheckedPart, Part
from confmax.tables.scans import density_of_ties, scanned
from confmax.tables.storage import Calibrator

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
OTHER = 1e-6  # relative: beyond what sums of the same weights differ by
MOST_GATHERED = 1 << 25  # rows in parts, of which a few numbers each come together: to sort so many takes up to 5 GiB


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


class InColumns(Protocol[T_co]):
    """What counts the rows of a part whose columns lie apart, as files hold them, while it checks them."""

    def __call__(self, part: Any, *, classes: tuple[Any, ...], fraction: float) -> tuple[Any, T_co] | None:
        """Return what the part adds up to with its sample, a ``fraction`` of its rows, and the counts; or None."""


class Parts(Protocol):
    """Checked parts, where they lie: what a table is the sum of. Whether rows are good, the first pass says.

    Known before it are the ``classes`` and ``decisions`` of the table, ``has_labels`` and ``is_truncated``; and where
    rows have no weights the ``label_sums`` and the ``unit`` of `Known`. ``names`` are those of the columns as they were
    opened, () of what has none.
    """

    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def classes(self) -> tuple[Any, ...]: ...
    @property
    def decisions(self) -> Decisions: ...
    @property
    def has_labels(self) -> bool: ...
    @property
    def is_truncated(self) -> bool: ...
    @property
    def label_sums(self) -> Array: ...
    @property
    def unit(self) -> int: ...
    @property
    def known(self) -> Known: ...
    @property
    def sample(self) -> Part:
        """All rows, or a sample that has the same rows in the same order however the rows are divided."""

    def run(self, work: Callable[[CheckedPart], T], in_columns: InColumns[T] | None = None) -> Iterator[T]:
        """Yield what ``work``, which can be pickled, returns for every part, in the order of the parts.

        The first pass over files may do the same by ``in_columns``, in less time.
        """

    def rows_where(self, mask: NDArray[np.bool_], names: Sequence[tuple[bytes, int]]) -> Parts:
        """Return the parts of rows that a ``mask`` (n,) chooses; ``names`` are the `Part.name` of all with weight."""


@dataclass(frozen=True, eq=False)
class Memory:
    """The only part of a table whose rows are all in memory, ``as_given`` in the order that a caller knows."""

    sample: Part
    names: tuple[str, ...] = ()
    as_given: bool = True

    unit = 0

    @property
    def known(self) -> Part:
        """The rows as they were given."""
        return self.sample.calibrated(None)

    @property
    def classes(self) -> tuple[Any, ...]:
        return self.sample.classes

    @property
    def decisions(self) -> Decisions:
        return self.sample.decisions

    @property
    def has_labels(self) -> bool:
        return self.sample.has_labels

    @property
    def is_truncated(self) -> bool:
        return self.sample.storage.is_truncated

    @property
    def label_sums(self) -> Array:
        return self.sample.label_sums

    def run(self, work: Callable[[CheckedPart], T], in_columns: InColumns[T] | None = None) -> Iterator[T]:
        yield work(CheckedPart(self.sample, 1.0))

    def rows_where(self, mask: NDArray[np.bool_], names: Sequence[tuple[bytes, int]]) -> Memory:
        return Memory(self.sample.take(mask))


@final
@dataclass(frozen=True, eq=False)
class Table:
    """A checked table of class probabilities.

    Parameters
    ----------
    parts : Parts
        The rows, with probabilities as they are given.
    calibrator : Calibrator or None
        What makes the probabilities of the table from those; None leaves them.
    decided : Decisions or None
        What is decided for a row; None for what ``parts`` say.
    layout : Layout or None
        With it the groups of the rows lie side by side: then the classes are those of every group.

    Examples
    --------
    >>> from confmax.oracle import make_table
    >>> table = make_table([[0.75, 0.25], [0.5, 0.5]], ["no", "yes"])
    >>> table.n_rows, table.mean_probability(), table.head.labels
    (2, array([0.625, 0.375]), array([0, 1]))
    """

    parts: Parts
    calibrator: Calibrator | None = None
    decided: Decisions | None = None
    layout: Layout | None = None

    @classmethod
    def of(cls, rows: Part, names: tuple[str, ...] = ()) -> Table:
        """Return the table of ``rows`` that are all in memory, of columns with ``names``."""
        return cls(Memory(rows, names), rows.calibrator)

    @cached_property
    def head(self) -> Part:
        """All rows, or a sample that has the same rows in the same order however the table is divided."""
        rows = self.parts.sample.calibrated(self.calibrator)
        return rows if rows.decisions == self.decisions else replace(rows, decisions=self.decisions)

    @property
    def known(self) -> Known:
        """What all rows add up to, as they were given."""
        return self.parts.known

    @property
    def held(self) -> bool:
        """Whether all rows are in memory, in `head`, so that a pass over them takes little time."""
        return isinstance(self.parts, Memory)

    def decides_between_two(self, n_decisions: int) -> bool:
        """Whether every row, or every row of a group, gets one of two classes, which are all ``n_decisions``."""
        M = n_decisions if self.layout is None else self.layout.n_decisions
        return len(self.parts.classes) == M == 2 and not self.decisions.several

    # --- what the rows are ----------------------------------------------------------------------------------------

    @property
    def classes(self) -> tuple[Any, ...]:
        """Names of the columns, of every group where they lie side by side; 0..K-1 when nothing else is known."""
        own = self.parts.classes
        return own if self.layout is None else tuple((group, name) for group in self.groups.names for name in own)

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return len(self.parts.classes) if self.layout is None else self.layout.all_classes

    @property
    def groups(self) -> Any:
        """The groups, whose rows are those of `head`: `Groups`, `GroupShares`, or None."""
        return self.head.groups

    @property
    def decisions(self) -> Decisions:
        """What is decided for a row."""
        return self.parts.decisions if self.decided is None else self.decided

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type that scores are computed in."""
        # a sample is joined from rows of all parts, the widest type of which it has
        return self.head.dtype

    @property
    def is_truncated(self) -> bool:
        """Whether zeros are probabilities that were left out, from which nothing about the model can be learned."""
        return self.parts.is_truncated

    # --- what they add up to --------------------------------------------------------------------------------------

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
        """Sum of the weights; the number of rows where all are equal."""
        return self.known.weight_total

    @property
    def has_labels(self) -> bool:
        """Whether there are true classes."""
        return self.parts.has_labels

    def label_weight(self) -> Array:
        """Return the weight of each true class (K,), fractions of all weight; needs labels."""
        assert self.has_labels
        if self.layout is None:
            # several labels of a row are shares of all rows each, and do not share its weight
            sums = self.parts.label_sums
            return np.asarray(sums / (self.weight_total if self.decisions.several else sums.sum()))
        return np.asarray(self.known.by_group[1].reshape(-1) / self.weight_total)

    def cells(self) -> Array:
        """Return the number of rows of each true class in each group (G, K); needs labels and groups."""
        return np.asarray(self.known.by_group[0])

    def positives(self) -> NDArray[np.int64]:
        """Return how many rows with weight have each of several labels (L,); needs labels."""
        return self.known.positive_rows

    def mean_probability(self) -> Array:
        """Return the weighted mean of each column (K,), float64."""
        return self._mean_probability

    @cached_property
    def _mean_probability(self) -> Array:
        if self.calibrator is not None:
            totals = self.over_parts(_column_totals if self.layout is None else _totals_by_group)
        elif self.layout is None:
            return mean_probability(self.known)
        else:
            totals = self.known.by_group[2].reshape(-1)
        return np.asarray(totals / self.weight_total)

    def priors(self, rows: Array) -> Array:
        """Return class sizes ``rows`` (K,) as those that probabilities are divided by: of all groups, for each."""
        return rows if self.layout is None else np.tile(self.layout.priors(rows), self.layout.n_groups)

    def without(self, gains: Gains, barred: NDArray[np.bool_]) -> Gains:
        """Return ``gains`` that decide none of the classes that are ``barred`` (K,)."""
        return gains.without(barred, several=self.layout is not None or self.decisions.several)

    def with_ties_broken(self, gains: Gains) -> Gains:
        """Return ``gains`` that decide the most probable of classes that tie; those of labels as they are."""
        return gains if self.decisions.several else with_ties_broken(gains, self.layout)

    def fingerprint(self) -> Fingerprint | None:
        """Return what tells these labelled rows from others; None where it is not known."""
        return self.known.fingerprint()

    def has_fingerprint(self, known: Fingerprint) -> bool:
        """Return whether these labelled rows have a ``known`` fingerprint."""
        # only as many rows are worth a pass
        if known.n_rows != self.n_rows:
            return False
        mine = self.fingerprint()
        if mine is not None or not self.has_labels:
            return mine == known
        return bool(sum(self.parts.run(_content)) % (1 << 64) == known.content)

    # --- other tables of the same rows ----------------------------------------------------------------------------

    def calibrated(self, calibrator: Calibrator | None) -> Table:
        """Return the table of the given probabilities under ``calibrator``, or None; ValueError if these are none."""
        if calibrator is self.calibrator:
            return self
        # rows in memory are calibrated once, not in every pass
        parts = self.parts
        if isinstance(parts, Memory):
            parts = replace(parts, sample=self.head.calibrated(calibrator))
        return replace(self, parts=parts, calibrator=calibrator)

    def deciding(self, decisions: Decisions) -> Table:
        """Return the table of rows for which these ``decisions`` are made."""
        parts = self.parts
        if isinstance(parts, Memory):
            parts = replace(parts, sample=replace(self.head, decisions=decisions))
        return replace(self, parts=parts, decided=decisions)

    @property
    def as_given(self) -> bool:
        """Whether the rows are in memory in the order in which they were given: what was read in parts is not."""
        return isinstance(self.parts, Memory) and self.parts.as_given

    def with_groups(self, groups: Any, what: str = "group=") -> Table:
        """Return the table with the ``groups`` of its rows; ValueError, which names ``what``, for rows elsewhere."""
        self.refuse_parts(what)
        raw = self.head.raw
        raw = None if raw is None else replace(raw, groups=groups)
        return replace(self, parts=Memory(replace(self.head, groups=groups, raw=raw)))

    def refuse_parts(self, what: str) -> None:
        """Refuse, by a ValueError, rows that were read in parts: ``what`` needs them in the order that was given."""
        if not self.as_given:
            raise ValueError(f"{what} needs all rows in memory, and these lie in parts; pass an array or a frame")

    def side_by_side(self, n_further: int = 0) -> Table:
        """Return the table with the groups of its rows side by side, and ``n_further`` decisions beyond the classes."""
        shared = not hasattr(self.groups, "codes")
        return replace(self, layout=Layout(len(self.groups), len(self.parts.classes), n_further, shared))

    @property
    def sample(self) -> Table:
        """The table of the rows that are in memory: the table itself where these are all."""
        return self if self.held else replace(Table.of(self.head), layout=self.layout)

    def on_sample(self, work: Callable[[Table], T], otherwise: T) -> T:
        """Return what ``work`` makes of the sample of rows in parts; ``otherwise`` where all rows are here."""
        return otherwise if self.held else work(self.sample)

    def sampled(self, fraction: float) -> Table:
        """Return the table of about this ``fraction`` of the rows of `head`, chosen by the hash of what is in them."""
        return replace(Table.of(self.head.sampled(fraction)), layout=self.layout)

    # --- reading them ---------------------------------------------------------------------------------------------

    def over_parts(
        self, work: Callable[[Part], T], join: Callable[[T, T], T] = add, in_columns: InColumns[T] | None = None
    ) -> T:
        """Return the sum, or what else ``join`` makes, of what ``work`` returns for the rows of every part with weight.

        ``work`` can be pickled. ``in_columns`` may do the same in the pass that checks the rows, see `Parts.run`.
        """
        on_part: Any = partial(_on_part, work, self.calibrator, self.decisions, self.parts.unit)
        return reduce(join, (found for found in self.parts.run(on_part, in_columns) if found is not None))

    def each_part(self, work: Callable[[Part], T]) -> list[T]:
        """Return what ``work``, which can be pickled, returns for the rows of every part with weight."""
        return self.over_parts(partial(_in_list, work), iadd)

    def lines(self, of_part: Callable[[Part], T], in_columns: InColumns[T] | None = None) -> T:
        """Return the lines of all rows, which answer what the rows would: the sum of those ``of_part`` makes of a part.

        ``in_columns`` may make them in less time, see `over_parts`. Rows that agree in all that is counted are one line
        (`confmax.evaluate.lines`), or many rows are a line of sums (`confmax.evaluate.label_lines`). All that judges
        rules reads them.
        """
        return self.over_parts(of_part, in_columns=in_columns)

    def refuse_other_rows(self, weight: float) -> None:
        """Refuse, by a ValueError, the lines of rows of another ``weight`` than those that were checked."""
        if not abs(weight - self.weight_total) <= OTHER * self.weight_total:
            raise ValueError(
                f"the rows of a pass weigh {weight:.6g}, and those of the pass before {self.weight_total:.6g}; keep "
                f"the rows as they are while they are read"
            )

    def oracle(self, model_share: Any) -> TableOracle:
        """Return the oracle over these rows, for a confusion with this ``model_share``.

        Of several labels per row, and of groups side by side, it may be one number for each label or group.
        """
        return TableOracle(self, model_share)

    def gathered(self, what: str, way_out: str = "pass a sample of the rows in an array") -> Part:
        """Return all rows in one place, as they are held: ``what`` sorts or walks them.

        Rows in parts are in one place where a sample would have all of them. ValueError for more of them, with the
        ``way_out``, and where rows of different groups would be compared.
        """
        if self.layout is not None:
            raise ValueError(f"{what} compares all rows, and these are in groups; leave group out")
        if not self.held:
            raise ValueError(f"{what} needs all rows in memory, and this table is read in parts; {way_out}")
        return self.head

    def sorting(self, work: Callable[[], T], otherwise: T, *, in_groups: bool = False) -> T:
        """Return what ``work`` returns, which compares all rows in one place; ``otherwise`` where they are in parts.

        Rows of groups that lie side by side are not in one place. With ``in_groups``, ``work`` compares the rows of
        each group alone. Several labels must be an array: a dense copy of sparse ones would be calibrated elsewhere.
        """
        if in_groups:
            here = self.layout is None or not self.layout.shared
            here = here and not (self.decisions.several and self.is_truncated)
        else:
            here = self.layout is None
        return work() if self.held and here else otherwise

    def each_row(self, work: Callable[[Part], tuple[NDArray[Any], ...]], what: str) -> list[NDArray[Any]]:
        """Return the arrays (n,) of what ``work`` gives for the rows (n,) of every part, in the order of the parts.

        ``what`` needs a number or two of every row in one place. InputError if rows in parts are too many for that.
        """
        if self.held:
            return list(work(self.gathered(what)))
        if self.n_rows > MOST_GATHERED:
            raise InputError(
                f"{what} compares all rows in one place, and there are {self.n_rows:,} of them in parts",
                f"pass at most {MOST_GATHERED:,} rows, such as a sample in an array",
            )
        return [np.concatenate(each) for each in zip(*self.each_part(work), strict=True)]

    def of_weight(self) -> Table:
        """Return the table of the rows that have weight: of rows in parts no others are read."""
        if not self.held:
            return self
        some = self.head.of_weight()
        return self if some is self.head else replace(Table.of(some), layout=self.layout)

    def rows_where(self, mask: NDArray[np.bool_]) -> Table:
        """Return the table of the raw rows that a ``mask`` (n,) chooses, in the order of `each_row`.

        InputError where two parts that hold the same rows would be divided differently.
        """
        return Table(self.calibrated(None).parts.rows_where(mask, self._names_of_parts))

    @cached_property
    def _names_of_parts(self) -> list[tuple[bytes, int]]:
        # read once, so that what is chosen and what is left are not told apart by two orders of the parts
        return [] if self.held else self.calibrated(None).each_part(Part.name)

    def density_of_ties(self, functions: Gains, prices: Array) -> Array | None:
        """Return the second derivative (d, d) of the support function of d linear ``functions``, by their ``prices``.

        The support function is that of the model's confusion; see `confmax.tables.ties`. None where it is not known.
        """
        return density_of_ties(self.head, functions, prices, self.layout) if self.held else None


class TableOracle:
    """The oracle of a table: every part is scanned where it lies, and the sums are added up.

    C is estimated from ``model_share * p + (1 - model_share) * 1[y = i]``: 1 the model, 0 the labels. Of several labels
    per row each may have its own share, and of groups side by side each group.

    ``by`` is the calibrator whose probabilities decide, where it is not that of the table, whose truth counts.
    """

    def __init__(self, table: Table, model_share: ArrayLike, *, by: tuple[Calibrator | None] | None = None) -> None:
        self.table = table
        self.model_share: Any = model_share
        self.by = by
        shares = np.asarray(model_share, dtype=np.float64)
        if shares.ndim and table.layout is not None:
            shares = np.repeat(shares, table.layout.n_classes)
        self.shares = np.broadcast_to(shares, (table.n_classes,))
        of_model = bool((self.shares == 1.0).all())
        # what is maximised over other probabilities is no maximum of what is counted
        self.exact = of_model and by is None
        if not (of_model or table.has_labels):
            raise ValueError("a share of the model below 1 counts labels, and this table has none; pass `y=`")
        self._of_labels = 0.0 if of_model else (1.0 - self.shares) * table.label_weight()

    @cached_property
    def rows(self) -> Array:
        """The row sums of C (K,)."""
        # for labels alone no column is added up: a table in parts would be read for it
        if not (self.shares > 0.0).any():
            return np.zeros(self.table.n_classes) + self._of_labels
        return np.asarray(self.shares * self.table.mean_probability() + self._of_labels)

    @cached_property
    def _total(self) -> float:
        return self.table.weight_total

    def maximize(self, gains: Gains, *, matrix: bool = False) -> Confusion:
        work = partial(_scanned, gains, self.model_share, self.table.layout, matrix, self.by)
        found = self.table.over_parts(work)
        each = (found.diagonal, found.columns, *([] if found.matrix is None else [found.matrix]))
        return Confusion(self.rows, *(sums / self._total for sums in each))

    def decided_by(self, calibrator: Calibrator | None) -> TableOracle:
        """Return the oracle that decides by another calibration of the rows, and counts by the truth of this one.

        It says what a rule on raw probabilities is worth under the estimate from calibrated ones.
        """
        return TableOracle(self.table, self.model_share, by=(calibrator,))

    @cached_property
    def groups_apart(self) -> list[TableOracle]:
        """The oracles of the groups that have weight, of a table in memory whose groups lie side by side."""
        shares = np.broadcast_to(np.asarray(self.model_share, dtype=np.float64), (len(self.table.groups),)).tolist()
        rows = zip(shares, self.table.head.groups_apart, strict=True)
        return [Table.of(part).oracle(share) for share, part in rows if part.weight_total]


# --- what is run on a part -------------------------------------------------------------------------------------------


def _on_part(
    work: Callable[[Part], T], calibrator: Calibrator | None, decisions: Decisions, unit: int, checked: CheckedPart
) -> T | None:
    rows = checked.in_unit(unit).rows
    if rows is None or not rows.weight_total:
        return None
    if rows.decisions != decisions:
        rows = replace(rows, decisions=decisions)
    return work(rows.calibrated(calibrator))


def _in_list(work: Callable[[Part], T], part: Part) -> list[T]:
    return [work(part)]


def _scanned(
    gains: Gains, share: Any, layout: Layout | None, matrix: bool, by: tuple[Calibrator | None] | None, part: Part
) -> Confusion:
    deciding = None if by is None else part.calibrated(by[0])
    return scanned(part, gains, share, layout, matrix=matrix, by=deciding)


def _column_totals(part: Part) -> Array:
    return part.column_totals


def _totals_by_group(part: Part) -> Array:
    return np.asarray(part.by_group[2].reshape(-1))


def _content(checked: CheckedPart) -> int:
    """Return the hash of the content of a part, which is a sum over its rows."""
    found = None if checked.rows is None else checked.rows.fingerprint()
    return 0 if found is None else found.content
