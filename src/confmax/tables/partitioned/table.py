"""Tables whose rows lie in parts, in files or on a cluster: every part is scanned where it lies, small sums are added.

A source (`confmax.tables.partitioned.parts`) runs the oracle of an array in memory on the rows of each part. What comes
back depends on the number of classes and gains, never on rows, except for one sample of a bounded size, whose rows are
chosen by what is in them.

The sample has the same rows in the same order for any partition. Calibrations are fitted on it and warm starts begin
on it; every reported number includes all rows. Tables that an engine can hold (Dask, Spark) are checked once and held
as arrays. Files are read in every pass, and refused if their time or size has changed since their rows were checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from operator import add
from typing import Any, ClassVar, NoReturn, final

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Confusion, Gains, Layout
from confmax.errors import InputError
from confmax.tables.columns import FIRST_ROWS, SHOWN, arranged, find, order_of, sum_to_one_alone, warn, which_label
from confmax.tables.decisions import ONE, Decisions, decisions_of
from confmax.tables.fingerprints import Fingerprint
from confmax.tables.groups import Groups, GroupShares, SideBySide, ordered_names
from confmax.tables.kinds import EMPTY, Batch, Beside, Kind, LabelledRule, Rule
from confmax.tables.labels import plain, resolve_classes
from confmax.tables.partitioned import parts
from confmax.tables.partitioned.at_once import AtOnce
from confmax.tables.several import arranged_labels, label_places
from confmax.tables.table import Calibrator, MemoryTable, Oracle, T, Table, TableOracle

# of the sample, on which calibrations are fitted, too
SAMPLE_CELLS = 1 << 22
SAMPLE_CELLS_UNLABELLED = 1 << 20
MOST_ROWS = 1 << 19  # it has no more rows than this, however few classes there are,
# and no fewer than these, however many
SAMPLE_ROWS = 20_000
ROWS_PER_CLASS = 50
# of which a few numbers each are brought to one place: to sort so many takes up to 5 GiB there
MOST_GATHERED = 1 << 25


class InParts(Table):
    """What tables in parts share, whether their groups lie side by side or not."""

    def oracle(self, model_share: Any) -> Oracle:
        """Return the oracle that scans every part where it lies."""
        return PartsOracle(self, model_share)

    def gathered(self, work: Callable[[MemoryTable], tuple[NDArray[Any], ...]], what: str) -> list[NDArray[Any]]:
        if self.n_rows > MOST_GATHERED:
            raise InputError(
                f"{what} compares all rows in one place, and there are {self.n_rows:,} of them in parts",
                f"pass at most {MOST_GATHERED:,} rows, such as a sample in an array",
            )
        return super().gathered(work, what)

    def counted_by(self, oracle: Oracle, gains: Gains, *, matrix: bool) -> Confusion:
        """Return the confusions of decisions on this calibration of the rows, by another one's truth."""
        work = partial(_answers_on, gains=gains, share=oracle.model_share, matrix=matrix, decides_on=self.calibrator)
        return PartsOracle(in_parts(oracle.table), oracle.model_share).summed(work)


@final
@dataclass(frozen=True, eq=False)
class PartitionedTable(InParts):
    """A checked table whose rows are elsewhere: the source of its parts, and a sample in memory.

    The parts are tables of raw probabilities. ``known`` is what the first pass has added up. The sample has about
    `SAMPLE_CELLS` entries, chosen by a hash of the rows' content. Every pass applies the calibrator to each part.
    """

    source: Any
    classes: tuple[Any, ...]
    known: parts.Summary
    sample: MemoryTable
    calibrator: Calibrator | None = None
    groups: GroupsInParts | None = None
    decisions: Decisions = ONE

    backend = "parts"

    @property
    def n_rows(self) -> int:
        return self.known.n_rows

    @property
    def n_weighted(self) -> int:
        return self.known.n_weighted

    @property
    def weight_total(self) -> float:
        return self.known.weight

    def in_memory(self) -> MemoryTable:
        return self.sample

    def calibrated(self, calibrator: Calibrator | None) -> PartitionedTable:
        if calibrator is self.calibrator:
            return self
        return replace(self, calibrator=calibrator, sample=self.sample.calibrated(calibrator))

    def dense(self, what: str) -> NoReturn:
        """Refuse, by a ValueError: ``what`` needs all rows in one place."""
        # several labels have no solvers to choose from
        other = "" if self.decisions.several else "choose another solver, or "
        raise ValueError(
            f"{what} needs all rows in memory, and this table is read in parts; {other}tune on a sample of the rows in "
            f"an array"
        )

    def positives(self) -> NDArray[np.int64]:
        return self.known.positives

    def label_weight(self) -> Array:
        # several labels of a row are shares of all rows each, and do not share its weight
        whole = self.known.weight if self.decisions.several else self.known.label_weight.sum()
        return np.asarray(self.known.label_weight / whole)

    @cached_property
    def _mean_probability(self) -> Array:
        if self.calibrator is None:
            return np.asarray(self.known.totals / self.known.weight)
        return np.asarray(np.sum(list(self.over_parts(parts.column_totals)), axis=0) / self.known.weight)

    def fingerprint(self) -> Fingerprint | None:
        content = self.known.content
        return Fingerprint(self.n_rows, int(content[0])) if content.size else None

    def has_fingerprint(self, known: Fingerprint) -> bool:
        # only as many rows are worth a pass
        if known.n_rows != self.n_rows:
            return False
        if self.known.content.size:
            return self.fingerprint() == known
        content = sum(self.source.run(_content)) % (1 << 64)
        return content == known.content

    def rows_where(self, mask: NDArray[np.bool_]) -> Table:
        """Return the table of the raw rows that a ``mask`` (n,) chooses; of none an empty one, in memory.

        An InputError if two parts hold the same rows in the same order, and not the same of them are chosen.
        """
        raw = self.calibrated(None)
        n = int(mask.sum())
        if n == 0:
            return raw.sample.take(np.empty(0, np.intp))
        names, sizes = zip(*raw._names_of_parts, strict=True)
        masks: dict[bytes, NDArray[np.uint8]] = {}
        for name, part in zip(names, np.split(mask, np.cumsum(sizes)[:-1]), strict=True):
            bits = np.packbits(part)
            if not np.array_equal(masks.setdefault(name, bits), bits):
                raise InputError(
                    "two parts of `proba` hold the same rows, and no split of the rows can tell them apart",
                    "leave copies out, or join small parts",
                )
        fraction = min(1.0, sample_rows(self.n_classes, has_labels=self.has_labels) / n)
        source = self.source.kept(partial(parts.chosen, masks=masks, fraction=fraction))
        known = _summary(source)
        if not self.source.holds:
            source = self.source.kept(partial(parts.chosen, masks=masks, fraction=0.0))
        return replace(raw, source=source, known=replace(known, sample=()), sample=parts.ordered(known.sample))

    @cached_property
    def _names_of_parts(self) -> list[tuple[bytes, int]]:
        # read once, so that what is chosen and what is left are not told apart by two orders of the parts
        return list(self.over_parts(parts.name_of_rows))

    def over_parts(self, work: Callable[[MemoryTable], T]) -> Iterator[T]:
        found = self.source.run(partial(_on_table, work, self.calibrator, self.decisions, self.known.unit))
        return (each for each in found if each is not None)


def sample_rows(n_classes: int, *, has_labels: bool) -> int:
    """Return how many rows the sample of a table of one class per row has."""
    cells = SAMPLE_CELLS if has_labels else SAMPLE_CELLS_UNLABELLED
    return max(min(cells // n_classes, MOST_ROWS), SAMPLE_ROWS, ROWS_PER_CLASS * n_classes)


def partitioned_table(source: parts.Source, classes: Sequence[Any] | None, *, stated: bool = True) -> PartitionedTable:
    """Check all parts in one pass and return them as one table; ``stated`` as for `make_table`.

    ValueError for anything that is no such table; the sentence names the part and its first offending row.
    """
    return unchecked(source, classes, stated=stated).checked()


@dataclass(frozen=True, eq=False)
class Unchecked:
    """A source whose classes and groups are known, before the pass that checks its probabilities.

    ``groups`` are the names of the groups, None without. ``sizes`` (K,) is the number of rows of each class, None
    without labels.
    """

    source: Any
    classes: tuple[Any, ...]
    groups: tuple[Any, ...] | None
    sizes: NDArray[np.int64] | None

    @property
    def may_have_weights(self) -> bool:
        """Whether rows may differ in weight: sources of somebody else do not say."""
        return getattr(self.source, "weight", "") is not None

    @property
    def wanted(self) -> int:
        """How many rows a sample has."""
        return sample_rows(self.source.n_classes, has_labels=self.source.has_labels)

    @property
    def fits(self) -> bool:
        """Whether the sample has all rows."""
        return self.source.n_rows <= self.wanted

    def checked(
        self,
        also: Callable[[MemoryTable], T] | None = None,
        take: Callable[[T], None] | None = None,
        counts: Callable[..., tuple[parts.Summary, T] | None] | None = None,
    ) -> PartitionedTable:
        """Check all parts in one pass; ``take`` gets what ``also`` returns for each part with rows.

        ``counts`` may return the summary of a part and the same faster, from its columns and the fraction of the rows
        that a sample has; None if it cannot. The errors are those of `partitioned_table`.
        """
        source = self.source
        fraction = min(1.0, self.wanted / max(1, source.n_rows))
        check = partial(parts.as_table, classes=self.classes, groups=self.groups)
        tables = source.kept(partial(check, fraction=fraction))
        if also is None:
            known = _summary(tables)
        elif counts is None or not hasattr(source, "in_columns"):
            known = _summary(_Also(tables, also, take))
        else:
            at_once = partial(counts, fraction=fraction)
            known = _summary(AtOnce(source.in_columns(), partial(check, fraction=fraction), also, take, at_once))
        if not source.holds and not known.renormalised:
            # the source itself sees to it that rows do not change
            tables = source.kept(partial(check, fraction=0.0))
        groups = None if self.groups is None else GroupsInParts(self.groups)
        sample = parts.ordered(known.sample)
        return PartitionedTable(tables, self.classes, replace(known, sample=()), sample, groups=groups)


def unchecked(source: parts.Source, classes: Sequence[Any] | None, *, stated: bool = True) -> Unchecked:
    """Return a source with its columns in the order of the classes; arguments and errors as of `partitioned_table`."""
    if source.n_classes < 2:
        raise ValueError(
            "proba must have one column per class, K >= 2 of them; got one column p: for two classes add a column 1 - p"
        )
    # a source of somebody else may not speak of groups
    grouped = getattr(source, "has_groups", False)
    counts, found_groups = parts.counted_beside(source) if source.has_labels or grouped else ({}, [])
    labels = None
    if source.has_labels:
        # an array of objects keeps the types of names, which NumPy would make one
        labels = np.empty(len(counts), dtype=object)
        labels[:] = list(counts)
    if (source.has_labels or grouped) and not (counts or found_groups):
        raise InputError(EMPTY)
    names = ordered_names(found_groups) if grouped else None
    if classes is not None or labels is not None:
        wanted = list(counts) if classes is None else list(classes)
        source = of_classes(source, wanted, labels=classes is None)
        _refuse_further(source, wanted, labels=classes is None)
    found = arranged(source.names, classes, labels, stated=stated)
    if found.order is not None:
        source = source.with_columns(found.order)
    resolved = resolve_classes(found.classes, labels, source.n_classes)
    warn(found.note)
    sizes = None if labels is None else np.array([counts.get(plain(name), 0) for name in resolved])
    return Unchecked(source, resolved, names, sizes)


def of_classes(source: Any, classes: Sequence[Any], *, labels: bool = False) -> Any:
    """Return a source with the columns that are named like the ``classes`` alone, if nobody stated its columns.

    Of ``labels``, which need not have every class, this is done only if these columns alone sum to one.
    """
    if getattr(source, "stated", True) or source.names is None or len(source.names) <= len(classes):
        return source
    places = find(source.names, classes, whole=False).places
    if places is None:
        return source
    if labels:
        first = next((rows for rows in source.run(_first_rows) if len(rows)), None)
        if first is None or not sum_to_one_alone(first, places):
            return source
    columns = tuple(source.names[k] for k in sorted(places))
    return replace(source, columns=columns, names=columns, n_classes=len(columns))


def _refuse_further(source: Any, classes: Sequence[Any], *, labels: bool) -> None:
    """Refuse, by a ValueError, columns that nobody stated, if they are more than the classes and named like none.

    Labels that are numbers need not have every class.
    """
    names = source.names
    if getattr(source, "stated", True) or names is None or len(names) <= len(classes):
        return
    found = find(names, classes)
    if found.own or found.twice or (labels and not any(isinstance(one, str) for one in classes)):
        return
    raise ValueError(
        f"the table has {len(names)} columns of floating-point numbers ({', '.join(map(repr, names[:SHOWN]))}) for "
        f"{len(classes)} classes, and none is named like a class; name those of probabilities with columns= of "
        f"open_table, in the order of classes="
    )


def _first_rows(part: parts.Part) -> NDArray[Any]:
    """Return some rows of a part, whose memory the next one takes."""
    return np.array(part.proba[:FIRST_ROWS])


@dataclass(frozen=True, eq=False)
class _Also:
    """Checked ``tables``; a pass over them does something else on every part, too."""

    tables: Any
    also: Callable[[MemoryTable], Any]
    take: Any

    def run(self, work: Callable[[Any], T]) -> Iterator[T]:
        for result, more in self.tables.run(partial(_both, work, self.also)):
            if more is not None:
                self.take(more)
            yield result


def _both(work: Callable[[Any], T], also: Callable[[MemoryTable], Any], checked: parts.CheckedPart) -> tuple[T, Any]:
    return work(checked), None if checked.table is None else also(checked.table)


def labels_in_parts(
    source: Any, decisions: Decisions, classes: Sequence[Any] | None, *, stated: bool = True
) -> MemoryTable | PartitionedTable:
    """Check all parts of a source of several labels per row in one pass and return them as one table.

    A table that is no larger than a sample is brought into memory. ``stated`` and the ValueErrors as for
    `labels_table`.
    """
    if getattr(source, "has_groups", False):
        raise ValueError("groups are of one class for every row; open a table of several labels without group=")
    source = source if classes is None else of_classes(source, list(classes))
    L = source.n_classes
    decisions_of(decisions.argument, L)
    of_labels = getattr(source, "label_names", None)
    found = arranged_labels(source.names, of_labels, L, classes, stated=stated)
    if found.order is not None:
        source = source.with_columns(found.order)
    order = tuple(range(L)) if found.classes is None else found.classes
    places = None if of_labels is None or len(of_labels) != L else label_places(of_labels, order)
    warn(found.note)
    cells = SAMPLE_CELLS if source.has_labels else SAMPLE_CELLS_UNLABELLED
    fraction = min(1.0, max(min(cells // L, MOST_ROWS), SAMPLE_ROWS) / max(1, source.n_rows))
    check = partial(parts.as_label_table, classes=order, decisions=decisions, order=places)
    tables = source.kept(partial(check, fraction=fraction))
    known = _summary(tables)
    sample = parts.ordered(known.sample)
    if fraction == 1.0:
        return sample
    if not source.holds and not known.renormalised:
        # as above: rows that were found good are not checked in every pass
        tables = source.kept(partial(check, fraction=0.0))
    return PartitionedTable(tables, order, replace(known, sample=()), sample, decisions=decisions)


def _summary(tables: Any) -> parts.Summary:
    """Return what all checked parts add up to; ValueError if they have no rows, or no weight."""
    summaries = (summary for summary in tables.run(parts.summary_of) if summary is not None)
    first = next(summaries, None)
    if first is None:
        raise InputError(EMPTY)
    known = reduce(add, summaries, first)
    if known.weight <= 0:
        raise ValueError("the weights sum to zero; give usable weights")
    return known


@dataclass(frozen=True, eq=False)
class _OnePart:
    """A table in memory as the only part of a source."""

    table: MemoryTable

    def run(self, work: Callable[[Any], T], *, labels_only: bool = False) -> Iterator[T]:
        yield work(parts.CheckedPart(self.table, 1.0))


def in_parts(table: Table) -> InParts:
    """Return a table as one in parts; one in memory is the only part of it."""
    if isinstance(table, InParts):
        return table
    given = table.dense("backend='parts'")
    raw = given.calibrated(None)
    labelled = raw.label_weight() * raw.weight_total if raw.has_labels else np.empty(0)
    totals = raw.mean_probability() * raw.weight_total
    known = parts.Summary(raw.n_rows, raw.n_weighted, raw.weight_total, totals, labelled, (), 0, np.empty(0))
    return PartitionedTable(_OnePart(raw), raw.classes, known, raw).calibrated(given.calibrator)


# --- the oracle: each part is scanned where it lies, sums are added in the order of parts -----------------------------


class PartsOracle(TableOracle):
    """Oracle on a table whose rows lie in parts, side by side or not."""

    table: InParts

    def maximize(self, gains: Gains, *, matrix: bool = False) -> Confusion:
        return self.summed(partial(_answers, gains=gains, share=self.model_share, matrix=matrix))

    def summed(self, work: Callable[[MemoryTable], list[Array]]) -> Confusion:
        """Return the confusions whose statistics, times the weight of a part, ``work`` gives for the part's table."""
        found = self.table.over_parts(partial(_seen, work, self.table.layout))
        sums = reduce(lambda one, other: [a + b for a, b in zip(one, other, strict=True)], found)
        return Confusion(self.rows, *(each / self.table.weight_total for each in sums))


def _seen(work: Callable[[Any], T], layout: Layout | None, part: MemoryTable) -> T:
    """Return ``work`` of a part, whose groups lie side by side where there is a layout."""
    return work(part if layout is None else part.groups.beside(part, layout.n_further))


def _answers(table: Any, *, gains: Gains, share: float, matrix: bool) -> list[Array]:
    return _times_weight(table, _oracle_of(table, share).maximize(gains, matrix=matrix))


def _answers_on(table: Any, *, gains: Gains, share: float, matrix: bool, decides_on: Any) -> list[Array]:
    """Return the sums of what is decided under another calibrator, counted by this one's truth."""
    oracle = _oracle_of(table, share)
    return _times_weight(table, table.calibrated(decides_on).counted_by(oracle, gains, matrix=matrix))


def _oracle_of(table: Any, share: float) -> Any:
    """Return the oracle of a part, without the row sums: those of the whole table are known.

    Adding them up takes as long as a scan, and a part that is read anew in every pass has not kept them.
    """
    oracle = table.oracle(share)
    if table.layout is None:
        oracle.rows = np.zeros(table.n_classes)
    return oracle


def _times_weight(table: Table, found: Confusion) -> list[Array]:
    sums = [found.diagonal, found.columns, *([] if found.matrix is None else [found.matrix])]
    return [table.weight_total * each for each in sums]


@dataclass(frozen=True, eq=False)
class GroupsInParts:
    """The sorted names of the groups of rows that lie in parts, which have the group of each row."""

    names: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.names)

    def beside(self, table: Table, n_further: int = 0) -> GroupedParts:
        """Return a table in parts with the groups side by side in each part."""
        return GroupedParts(table, self, n_further)


class GroupedParts(InParts, SideBySide):
    """A table whose rows lie in parts, and belong to one group each."""

    whole: PartitionedTable

    def label_weight(self) -> Array:
        """Return the weight of each true class in each group (G K,), fractions of all weight; needs labels."""
        return np.asarray(self.whole.known.by_group[1].reshape(-1) / self.whole.known.weight)

    def cells(self) -> Array:
        """Return the number of rows of each true class in each group (G, K); needs labels."""
        return self.whole.known.by_group[0]

    @cached_property
    def _mean_probability(self) -> Array:
        totals = self.whole.known.by_group[2].reshape(-1)
        if self.calibrator is not None:
            totals = np.sum(list(self.over_parts(_totals_by_group)), axis=0)
        return np.asarray(totals / self.whole.known.weight)

    def rows_where(self, mask: NDArray[np.bool_]) -> Table:
        return self.whole.rows_where(mask)

    def in_one_place(self) -> Table:
        sample = self.in_memory()
        beside: Table = sample.groups.beside(sample, self.n_further)
        return beside


def _totals_by_group(part: MemoryTable) -> Array:
    return part.weight_total * np.asarray(part.groups.beside(part).mean_probability())


AnyGroups = Groups | GroupShares | GroupsInParts


def _content(checked: parts.CheckedPart) -> int:
    """Return the hash of the content of a part, which is a sum over its rows."""
    found = None if checked.table is None else checked.table.fingerprint()
    return 0 if found is None else found.content


def _on_table(
    work: Callable[[MemoryTable], T],
    calibrator: Calibrator | None,
    decisions: Decisions,
    unit: int,
    checked: parts.CheckedPart,
) -> T | None:
    table = checked.in_unit(unit).table
    if table is None or (table.weight is not None and not table.weight.any()):
        return None
    return work(replace(table, decisions=decisions).calibrated(calibrator))


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
    check_labels = label_probabilities = _refuse


@final
class Opened(ReadInParts):
    """A table from `open_table`, or whatever else is a `Source` and says so by ``is_confmax_source``."""

    brings_groups = True
    refusal = (
        "an opened table is not an array of rows; rule.predict(table) decides it, everything else needs its rows "
        "in memory"
    )

    def apart(
        self, proba: Any, beside: Beside, classes: Sequence[Any] | None, confusion: str
    ) -> tuple[Any, dict[str, Any]]:
        others = () if proba.has_labels or confusion not in ("labels", "blend") else getattr(proba, "may_be_labels", ())
        if others:
            raise which_label("the opened table", others, "where you open it", "label")
        return proba, dict(beside)

    def table(self, proba: Any, beside: Beside, classes: Sequence[Any] | None, *, stated: bool) -> Table:
        """Return `make_table`; labels, weights and groups are named where the table is opened."""
        if beside["group"] is not None:
            raise ValueError("an opened table brings the group of each row; pass group= to open_table")
        _refuse_beside(beside)
        return partitioned_table(proba, classes, stated=stated)

    def label_table(
        self, decisions: Decisions, proba: Any, beside: Beside, classes: Sequence[Any] | None, *, stated: bool
    ) -> Table:
        """Return `labels_table`; labels and weights are named where the table is opened."""
        _refuse_beside(beside)
        return labels_in_parts(proba, decisions, classes, stated=stated)

    def predict_index(self, rule: Rule, proba: Any, beside: Beside) -> NDArray[np.int64]:
        """Return the decisions (n,) of a rule, read part by part with the group of each row."""
        source = to_decide(rule, proba, beside)
        found = source.run(partial(_on_part, rule.predict_index, rule))
        return np.concatenate([np.empty(0, np.int64), *(part for part in found if part is not None)])

    def predict_labels(self, rule: LabelledRule, proba: Any, beside: Beside) -> NDArray[np.uint8]:
        """Return which labels a rule gives each row (n, L), read part by part; the decisions of all rows are held."""
        source = in_order_of(rule, proba, beside)
        found = source.run(partial(_labels_on_part, rule))
        none = np.empty((0, len(rule.class_names)), np.uint8)
        return np.concatenate([none, *(part for part in found if part is not None)])

    def predict_batch(self, batch: Batch, proba: Any, beside: Beside) -> NDArray[np.int64]:
        """Return the decisions (n,) under the limit of a batch, in one pass: those of all rows are held anyway."""
        source = to_decide(batch.rule, proba, beside)
        found = list(source.run(partial(_on_part, batch.ranked, batch.rule)))
        known = {number: part for number, part in enumerate(found) if part is not None}
        cut = batch.cut(known)
        decided = [batch.decided(part, cut, number) for number, part in known.items()]
        return np.concatenate([np.empty(0, np.int64), *decided])


def _refuse_beside(beside: Beside) -> None:
    if beside["y"] is not None or beside["sample_weight"] is not None:
        raise ValueError("an opened table brings its labels and weights; pass label= and weight= to open_table")


def stored_columns(table: Any, wanted: Sequence[str] | None = None) -> tuple[str, ...] | None:
    """Return the columns of an opened table, of which some are ``wanted``; None of one that cannot pass them on."""
    found: tuple[str, ...] | None = table.stored_columns(wanted) if hasattr(table, "keeping") else None
    return found


def to_decide(rule: Rule, proba: Any, beside: Beside) -> Any:
    """Return the source of rows that a rule is to decide, columns in the order of its classes."""
    if rule.groups and (beside["group"] is not None or not getattr(proba, "has_groups", False)):
        shown = ", ".join(map(repr, rule.groups[:8]))
        raise ValueError(
            f"this rule decides by groups ({shown}), and an opened table brings the group of each row; pass group= "
            f"to open_table"
        )
    return in_order_of(rule, proba, beside)


def in_order_of(rule: Rule | LabelledRule, proba: Any, beside: Beside) -> Any:
    """Return the source of rows with the columns in the order of the classes of a rule."""
    if beside["keys"] is not None:
        raise ValueError("keys are not split into parts; leave them out, or decide arrays part by part")
    proba = of_classes(proba, rule.class_names[: rule.n_classes])
    order = order_of(proba.names, rule.class_names[: rule.n_classes])
    return proba if order is None else proba.with_columns(order)


def _on_part(work: Callable[..., T], rule: Rule, part: parts.Part) -> T | None:
    """Return what ``work`` makes of the rows of a part, with their groups for a rule that decides by these."""
    if len(part.proba) == 0:
        return None
    with parts.naming(part.name):
        return work(part.proba, group=part.group if rule.groups else None)


def _labels_on_part(rule: LabelledRule, part: parts.Part) -> NDArray[np.uint8] | None:
    if len(part.proba) == 0:
        return None
    with parts.naming(part.name):
        return np.asarray(rule.predict(part.proba))


OPENED = Opened()
