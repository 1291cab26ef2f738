"""What lies in a part of a table, and what every engine runs on it and adds up.

A *source* knows where the parts are and runs a function on each of them; that is all that an engine has to do. Errors
in a part are returned as values, so that the message names the first part rather than the fastest, and no engine tries
a bad row again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array
from confmax.errors import InputError, extended
from confmax.tables.array.kind import ARRAYS
from confmax.tables.arrays import as_array, as_float, part_weight
from confmax.tables.decisions import Decisions
from confmax.tables.fingerprints import Fingerprint, column_factors
from confmax.tables.groups import Groups, distinct_groups
from confmax.tables.labels import Coded, counted, encode_labels, vector
from confmax.tables.part import CheckedPart, Part
from confmax.tables.several import encoded
from confmax.tables.storage import Checked
from confmax.tables.table import T

RowsRead = Callable[[int, int], None]  # takes the rows read of a pass so far, and the rows of the table


@dataclass(frozen=True, eq=False)
class RawPart:
    """The rows of one part as they lie there, unchecked: n may be zero.

    Probabilities (n, K) are in the order of the source's columns, None where labels alone are read. Labels, weights and
    groups are (n,) or None. ``name`` is what a person calls this part, such as "row group 3 of a.parquet". ``beside``
    is an Arrow table of the columns that are passed through.
    """

    proba: Any
    labels: Any
    weight: Any
    name: str
    group: Any = None
    beside: Any = None


class Source(Protocol):
    """Where the parts of a table lie; rows, and names of the K columns of probabilities, are those of all parts.

    A source ``holds`` what `kept` makes, or makes it anew in every pass.
    """

    @property
    def n_rows(self) -> int: ...
    @property
    def n_classes(self) -> int: ...
    @property
    def names(self) -> tuple[str, ...] | None: ...
    @property
    def has_labels(self) -> bool: ...
    @property
    def has_groups(self) -> bool: ...
    @property
    def holds(self) -> bool: ...

    def run(self, work: Callable[[Any], T], *, labels_only: bool = False) -> Iterator[T]:
        """Yield what ``work`` returns for every part, in the order of the parts.

        ``work`` can be pickled and takes a `Part`, or what `kept` has made of it; with ``labels_only`` the part's
        probabilities and weights may be left out, and its labels and groups are there.
        """

    def with_columns(self, order: Sequence[int]) -> Source:
        """Return the source with its columns of probabilities in another order."""

    def kept(self, step: Callable[[Any], Any]) -> Source:
        """Return the source of what ``step`` makes of each part, held where the parts lie if they are held at all."""


@dataclass(frozen=True, eq=False)
class Summary:
    """What one part, or all of them, add up to.

    It is `Known`, with the ``sample``, the chosen rows of each part, and ``renormalised``, the number of parts in which
    some row was divided by its sum. The ``content`` (1,) is that of the fingerprint; with rows of which it is not
    known, that of all is not known. The ``unit`` is the largest of all parts.
    """

    n_rows: int
    n_weighted: int
    weight_total: float
    weight_ends: tuple[float, float]
    column_totals: Array
    label_sums: Array
    sample: tuple[Part, ...]
    renormalised: int
    by_group: Array
    positive_rows: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    content: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    unit: int = 0

    @property
    def several(self) -> bool:
        """Whether a row may have several labels."""
        return bool(self.positive_rows.size)

    def fingerprint(self) -> Fingerprint | None:
        """Return what tells these labelled rows from others; None where it is not known."""
        return Fingerprint(self.n_rows, int(self.content[0])) if self.content.size else None

    def __add__(self, other: Summary) -> Summary:
        """Return the summary of the rows of both."""
        # parts are added one by one: a table of very many parts and classes never holds a summary of each
        unit = max(self.unit, other.unit)
        one, two = self._in_unit(unit), other._in_unit(unit)
        added = {each.name: getattr(one, each.name) + getattr(two, each.name) for each in fields(Summary)}
        least, most = zip(one.weight_ends, two.weight_ends, strict=True)
        return Summary(**{**added, "weight_ends": (min(least), max(most)), "unit": unit})

    def _in_unit(self, unit: int) -> Summary:
        if self.unit == unit:
            return self
        power = self.unit - unit
        least, most = self.weight_ends
        counts, *sums = self.by_group if self.by_group.size else (self.by_group,)
        return replace(
            self,
            weight_total=float(np.ldexp(self.weight_total, power)),
            weight_ends=(float(np.ldexp(least, power)), float(np.ldexp(most, power))),
            column_totals=np.ldexp(self.column_totals, power),
            label_sums=np.ldexp(self.label_sums, power),
            sample=tuple(table.times(power) for table in self.sample),
            by_group=np.stack([counts, *(np.ldexp(part, power) for part in sums)]) if sums else self.by_group,
            unit=unit,
        )


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
    """Raise the sentence of the first part that was refused, as a ValueError, if there is one."""
    for each in found:
        if isinstance(each, Refused):
            raise ValueError(str(each))


def together(sizes: Sequence[int], most: int) -> list[slice]:
    """Return the places of neighbours of at most so many rows together, or of one that has more."""
    edges = [0]
    rows = 0
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
        raise extended(error, f"{part}: ") from None


# --- what is run on a part -------------------------------------------------------------------------------------------


def as_table(
    part: RawPart, *, classes: tuple[Any, ...], fraction: float, groups: tuple[Any, ...] | None = None
) -> CheckedPart:
    """Return the checked table of a part, or with fraction zero the table of one that was found good before.

    ``groups`` are the names of those of all parts, None where there are none. A ValueError begins with the part's name.
    """
    if len(part.proba) == 0:
        return CheckedPart(None, fraction)
    with naming(part.name):
        P = as_array(part.proba)
        if P.shape[1] != len(classes):
            raise ValueError(f"proba has {P.shape[1]} columns for {len(classes)} classes; give every part the same")
        found = ARRAYS.check(P, hashed=True) if fraction > 0 else Checked(ARRAYS, P)
        labels = None if part.labels is None else encode_labels(given_labels(part.labels), classes, len(P))
        weight, unit = (None, 0) if part.weight is None else part_weight(part.weight, len(P))
        mine = None if groups is None else Groups.of(part.group, len(P), groups)
    table = Part(**vars(found), labels=labels, weight=weight, classes=classes, groups=mine)
    return CheckedPart(_by_group(table), fraction, found.proba is not P, unit)


def as_label_table(
    part: RawPart, *, classes: tuple[Any, ...], fraction: float, decisions: Decisions, order: tuple[int, ...] | None
) -> CheckedPart:
    """Return the checked table of a part whose rows have several labels, with fraction zero of one found good before.

    The columns of labels that are a matrix are taken in ``order``. A ValueError begins with the part's name.
    """
    if len(part.proba) == 0:
        return CheckedPart(None, fraction)
    with naming(part.name):
        P = np.asanyarray(part.proba)
        if P.ndim == 2 and P.shape[1] != len(classes):
            raise ValueError(f"proba has {P.shape[1]} columns for {len(classes)} labels; give every part the same")
        found = ARRAYS.check_labels(P) if fraction > 0 else Checked(ARRAYS, np.ascontiguousarray(as_float(P)))
        labels = part.labels if order is None or part.labels is None else np.asarray(part.labels)[:, list(order)]
        if labels is not None:
            # lists of names are looked up in every pass: those of a part may be of one length, as rows of a matrix are
            known = fraction == 0 and isinstance(labels, np.ndarray) and labels.dtype.kind in "biuf"
            labels = labels.astype(np.uint8, order="C") if known else encoded(labels, classes, len(P))
        weight, unit = (None, 0) if part.weight is None else part_weight(part.weight, len(P))
    table = Part(**vars(found), labels=labels, weight=weight, classes=classes, decisions=decisions)
    # a sum of float32 above one is made one, anew in every pass
    return CheckedPart(table, fraction, fraction > 0 and bool((P > 1).any()), unit)


def _by_group(table: Part) -> Part:
    """Return the rows of a part in the order of their groups, if it has any, which then are slices of it."""
    return table if table.groups is None else table.at(np.argsort(table.groups.codes, kind="stable"))


def joined(found: Iterable[CheckedPart]) -> CheckedPart:
    """Return the rows of several checked parts as those of one."""
    several = list(found)
    unit = max(each.unit for each in several)
    several = [each.in_unit(unit) for each in several]
    tables = [each.rows for each in several if each.rows is not None]
    if len(several) == 1 or not tables:
        return several[0]
    whole = _by_group(_one_after_another(tables))
    return CheckedPart(whole, several[0].fraction, any(each.renormalised for each in several), unit)


def given_labels(labels: Any) -> Any:
    """Return the labels of a part (n,) as `encode_labels` takes them; an InputError for a list of them per row."""
    if isinstance(labels, list):
        raise InputError("`y` holds a list of labels for each row", "pass `decisions='any'` for several labels per row")
    return labels if isinstance(labels, Coded) else vector(labels, "y", "one label")


def summary_of(checked: CheckedPart) -> Summary | None:
    """Return what a part adds up to; None without rows."""
    rows = checked.rows
    if rows is None:
        return None
    return Summary(
        rows.n_rows,
        rows.n_weighted,
        rows.weight_total,
        rows.weight_ends,
        rows.column_totals,
        rows.label_sums,
        (rows.sampled(checked.fraction),),
        int(checked.renormalised),
        rows.by_group,
        rows.positive_rows,
        _content(checked),
        checked.unit,
    )


def _content(checked: CheckedPart) -> NDArray[np.uint64]:
    """Return the content (1,) of the fingerprint of a part that is read for the first time, one class for every row."""
    rows = checked.rows
    known = rows is None or checked.fraction == 0 or rows.several
    found = None if known or rows is None else rows.fingerprint()
    return np.array([] if found is None else [found.content], np.uint64)


def distinct_labels(source: Source) -> NDArray[Any]:
    """Return the distinct labels (m,) of all parts of ``source``."""
    return distinct_beside(source)[0]


def distinct_beside(source: Source) -> tuple[NDArray[Any], list[Any]]:
    """Return the distinct labels (m,), and the distinct groups, of all parts of ``source``; empty where it has none."""
    labels, groups = counted_beside(source)
    # an array of objects keeps the types of names, which NumPy would make one
    out = np.empty(len(labels), dtype=object)
    out[:] = list(labels)
    return out, groups


def counted_beside(source: Source) -> tuple[dict[Any, int], list[Any]]:
    """Return how many rows each distinct label has, and the distinct groups; empty where ``source`` has none."""
    labels: dict[Any, int] = {}
    groups: dict[Any, None] = {}
    for of_labels, of_groups in source.run(_distinct_of, labels_only=True):
        for name, count in of_labels.items():
            labels[name] = labels.get(name, 0) + count
        groups.update(dict.fromkeys(of_groups))
    return labels, list(groups)


def _distinct_of(part: RawPart) -> tuple[dict[Any, int], list[Any]]:
    with naming(part.name):
        labels = {} if part.labels is None else counted(given_labels(part.labels))
        return labels, [] if part.group is None else distinct_groups(part.group)


def ordered(parts: tuple[Part, ...]) -> Part:
    """Return the chosen rows of all parts as one table, in an order that depends on nothing but their content."""
    whole = _one_after_another(parts)
    hashes = whole.row_hashes()
    order = np.argsort(hashes)
    same = np.diff(hashes[order]) == 0
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    if len(tied):
        # all other keys are compared where hashes are equal only, which are few rows
        rows = np.sort(order[tied])
        order[tied] = rows[_order_of(whole.take(rows))]
    return whole.take(order)


def _order_of(table: Part) -> NDArray[np.intp]:
    """Return the order of rows by their hashes, then by all that tells them apart."""
    # rows of one hash are equal in float32; in float64 the last digits may differ
    digits = (table.proba * column_factors(table.n_classes).astype(np.float64)).sum(axis=1)
    codes = None if table.groups is None else table.groups.codes
    labels = table.labels
    if labels is not None and labels.ndim == 2:
        labels = labels.astype(np.uint64) @ column_factors(table.n_classes)
    keys = (table.weight, codes, labels, digits, table.row_hashes())
    return np.lexsort([key for key in keys if key is not None])


def _one_after_another(tables: Sequence[Part]) -> Part:
    """Return the rows of tables of the same classes as one table."""

    def join(one: Callable[[Part], Any]) -> Any:
        found = [one(table) for table in tables]
        return None if found[0] is None else np.concatenate(found)

    # rows that were divided by their sums keep the hashes that they were given with
    divided = any(table.unordered is not None for table in tables)
    first = tables[0]
    return replace(
        first,
        proba=join(lambda table: table.proba),
        totals=None,
        hashes=join(lambda table: table.row_hashes()),
        unordered=join(lambda table: table.unordered_hashes()) if divided else None,
        labels=join(lambda table: table.labels),
        weight=join(lambda table: table.weight),
        groups=None if first.groups is None else replace(first.groups, codes=join(lambda table: table.groups.codes)),
    )


# --- columns, as a caller states them ---------------------------------------------------------------------------------


def stated_columns(columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of probabilities that a caller names, one or several; a ValueError for none."""
    chosen = (columns,) if isinstance(columns, str) else tuple(columns)
    if not chosen:
        raise ValueError("columns is empty; name at least one column of probabilities")
    return chosen


def refuse_missing(table: str, names: Iterable[Any], there: Iterable[Any]) -> None:
    """Refuse, by a ValueError, a ``table`` without one of the columns ``names``, of which None are none."""
    known = dict.fromkeys(there)  # there may be thousands
    for name in names:
        if name is not None and not (isinstance(name, Hashable) and name in known):
            raise ValueError(f"{table} has no column {name!r}; its columns are {', '.join(map(str, list(known)[:12]))}")
