"""Rows of a table in parts that agree in all that is counted: one line for them, with their number.

A confusion matrix depends on a row through its class, its group, its weight and the decisions of the rules. So one pass
over the parts counts the rows of every combination that occurs, and a table of these lines answers what the rows would:
values, limits, groups, and the bootstrap, which draws how many rows of each line are in a replicate. That is exact.

Two things keep the lines few. Weights that agree in their first four binary digits become their mean where there are
too many: values stay exact, and intervals miss less than a thousandth of their width. Where the decisions of many rules
on many classes still make too many combinations, the rarest ones are kept for each rule apart, as if the rules decided
such rows independently of each other: values and the intervals of a rule stay those of the rows, and the intervals of
differences become wider. Only where both happen, values are rounded, too: in the fourth digit at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Gains
from confmax.evaluate.bootstrap import Index, code_of
from confmax.evaluate.decided import Decided
from confmax.tables import MemoryTable, Table
from confmax.tables.array.kind import ARRAYS
from confmax.tables.fingerprints import mixed
from confmax.tables.groups import Groups
from confmax.tables.partitioned.at_once import counted_part
from confmax.tables.partitioned.parts import CheckedPart, Part, Summary
from confmax.tables.partitioned.table import PartitionedTable, Unchecked

MOST_LINES = 1 << 17  # a thousand replicates of so many lines take about half a minute
BLOCK = 1 << 16  # rows of a part that are counted together
DENSE = 1 << 20  # combinations that are counted without sorting the rows of a part
DROPPED = np.uint64(49)  # binary digits of a weight: all but the first four

Judges = Callable[[MemoryTable, Array], Mapping[str, Decided]]
"""What rules decide for the rows of a part, given the sizes of the classes (K,) of the table; it can be pickled."""

GainsOf = Callable[[Array], Mapping[str, tuple[Gains, Array]] | None]
"""The gains and shares of the same rules, given the same, if they decide by their gains alone; else None."""


@dataclass(frozen=True, eq=False)
class Lines:
    """L lines: the group, the true class and what A deterministic rules decide, (A + 2, L), below ``sizes`` (A + 2,).

    ``unit`` (L,) is the weight of each row of a line, without its last digits where these were dropped; None where all
    are one. ``count`` (L,) is the number of the rows and ``total`` (L,) their weight.
    """

    keys: NDArray[np.int32]
    sizes: tuple[int, ...]
    unit: Array | None
    count: Index
    total: Array

    def joined(self) -> Lines:
        """Return the lines with those that are equal made one."""
        columns = list(self.keys)
        sizes = [*self.sizes]
        if self.unit is not None:
            values, rank = np.unique(self.unit, return_inverse=True)
            columns.append(rank.reshape(-1))
            sizes.append(len(values))
        _, first, place = np.unique(code_of(columns, sizes)[0], return_index=True, return_inverse=True)
        place = place.reshape(-1)
        return Lines(
            self.keys[:, first],
            self.sizes,
            None if self.unit is None else self.unit[first],
            np.bincount(place, self.count).astype(np.int64),
            np.bincount(place, self.total).astype(np.float64),
        )

    def coarse(self) -> Lines:
        """Return the lines with weights that agree in their first digits taken together."""
        assert self.unit is not None
        digits = np.ascontiguousarray(self.unit).view(np.uint64) >> DROPPED << DROPPED
        return Lines(self.keys, self.sizes, digits.view(np.float64), self.count, self.total).joined()

    def few(self, most: int) -> Lines:
        """Return the most frequent lines as they are, and the rarest with the decisions of each rule apart.

        The number of rows with a group, a class, a weight and what one rule decides stays what it is.
        """
        order = np.argsort(-self.count, kind="stable")
        rare = order[most // 2 :]
        unit = np.zeros(len(order)) if self.unit is None else self.unit
        alike, rank = np.unique(unit, return_inverse=True)
        stratum = code_of((*self.keys[:2], rank.reshape(-1)), (*self.sizes[:2], len(alike)))[0][rare]
        count = self.count[rare]
        columns = [stratum, *self.keys[2:, rare]]
        runs = []
        for k, column in enumerate(columns):
            # rows of a stratum lie side by side, in an order that is another one for each rule
            own = np.lexsort((mixed(column.astype(np.uint64) + np.uint64(k << 32)), stratum))
            last = np.append((np.diff(stratum[own]) != 0) | (np.diff(column[own]) != 0), True)
            runs.append((np.cumsum(count[own])[last], own[last]))
        edges = np.unique(np.concatenate([stop for stop, _ in runs]))
        first, *others = (rare[own[np.searchsorted(stop, edges)]] for stop, own in runs)
        keys = np.array([*self.keys[:2, first], *(self.keys[2 + k, rows] for k, rows in enumerate(others))])
        rows = np.diff(edges, prepend=0).astype(np.int64)
        place = np.unique(stratum, return_inverse=True)[1].reshape(-1)
        mean = (np.bincount(place, self.total[rare]) / np.bincount(place, count))[place]
        where = np.empty(len(order), np.intp)
        where[rare] = np.arange(len(rare))
        apart = Lines(keys, self.sizes, None if self.unit is None else unit[first], rows, rows * mean[where[first]])
        return _one_after_another([self.at(order[: most // 2]), apart]).joined()

    def at(self, chosen: NDArray[np.intp]) -> Lines:
        """Return the ``chosen`` lines."""
        unit = None if self.unit is None else self.unit[chosen]
        return Lines(self.keys[:, chosen], self.sizes, unit, self.count[chosen], self.total[chosen])

    def table(self, classes: tuple[Any, ...], groups: tuple[Any, ...] | None) -> MemoryTable:
        """Return the lines as rows with copies, which have no probabilities."""
        rows = len(self.count)
        return MemoryTable(
            ARRAYS,
            # nobody reads what a line does not have
            np.zeros((rows, 1), np.float32),
            hashes=np.zeros(rows, np.uint64),
            labels=self.keys[1].astype(np.int64),
            weight=self.total,
            classes=classes,
            groups=None if groups is None else Groups(groups, self.keys[0].astype(np.intp)),
            copies=self.count,
        )


def of_rows(table: MemoryTable, decided: Iterable[Decided]) -> Lines:
    """Return the lines of the rows of a labelled part, given what rules decide for them."""
    every = list(decided)
    assert table.labels is not None
    group = np.zeros(1, np.int32) if table.groups is None else table.groups.codes
    sizes = (
        1 if table.groups is None else len(table.groups),
        table.n_classes,
        *(one.n_decisions for one in every for _ in one.shares),
    )
    columns = [group, table.labels, *(line for one in every for line in one.decisions)]
    weight = table.weight
    span = math.prod(sizes)
    if weight is None and span <= DENSE:
        counts = np.zeros(span, np.int64)
        # as many rows as stay in the cache, unless there are more combinations
        step = max(BLOCK, span)
        for start in range(0, table.n_rows, step):
            rows = slice(start, start + step)
            code, _ = code_of((group if len(group) == 1 else group[rows], *(one[rows] for one in columns[1:])), sizes)
            counts += np.bincount(code, minlength=span)
        return _of_counts(counts, sizes)
    keys = np.array([np.broadcast_to(column, table.n_rows) for column in columns], dtype=np.int32)
    ones = np.ones(table.n_rows, np.int64)
    return Lines(keys, sizes, weight, ones, ones.astype(np.float64) if weight is None else weight).joined()


def _of_counts(counts: Index, sizes: tuple[int, ...]) -> Lines:
    """Return the lines of rows of equal weight, from the number of them with each code."""
    there = np.flatnonzero(counts)
    keys = np.array(np.unravel_index(there, sizes), dtype=np.int32)
    return Lines(keys, sizes, None, counts[there], counts[there].astype(np.float64))


def _one_after_another(parts: Sequence[Lines]) -> Lines:
    unit = None if parts[0].unit is None else np.concatenate([part.unit for part in parts if part.unit is not None])
    keys = np.concatenate([part.keys for part in parts], axis=1)
    count, total = (np.concatenate([getattr(part, name) for part in parts]) for name in ("count", "total"))
    return Lines(keys, parts[0].sizes, unit, count, total)


class Gathered:
    """The lines of the parts that were read so far, and how each rule draws."""

    def __init__(self) -> None:
        self.held: list[Lines] = []
        self.rules: dict[str, Decided] = {}
        self.is_coarse = False

    def add(self, part: tuple[Lines, dict[str, Decided]]) -> None:
        """Add the lines of a part."""
        lines, self.rules = part
        self.held.append(lines)
        if sum(len(each.count) for each in self.held) > 2 * MOST_LINES:
            self.held = [self.lines()]

    def lines(self) -> Lines:
        """Return the lines of all parts."""
        found = _one_after_another(self.held).joined()
        if found.unit is not None and (self.is_coarse or len(found.count) > MOST_LINES):
            self.is_coarse = True
            found = found.coarse()
        return found.few(MOST_LINES) if len(found.count) > MOST_LINES else found

    def judged(self, table: PartitionedTable) -> Judged:
        """Return the lines of a ``table``, and what the rules decide for them."""
        lines = self.lines()
        atom = 2
        found = {}
        for name, one in self.rules.items():
            found[name] = one._replace(decisions=lines.keys[atom : atom + len(one.shares)].astype(np.int64))
            atom += len(one.shares)
        names = None if table.groups is None else table.groups.names
        return Judged(table, lines.table(table.classes, names), found)


class Judged(NamedTuple):
    """A table, in parts or in memory; its lines, or its rows; and what rules decide for these."""

    table: Table
    rows: MemoryTable
    decided: dict[str, Decided]


def judge(found: Unchecked, judges: Judges, gains_of: GainsOf | None = None) -> Judged:
    """Check labelled parts, and return their rows, or lines of them, with what ``judges`` say.

    Without weights, this is one pass over the probabilities; else the sizes of the classes are known after a first one.
    With ``gains_of`` the same rules, files in columns are checked and decided at once.
    """
    if found.fits:
        rows = found.checked().in_memory()
        return Judged(rows, rows, dict(judges(rows, rows.label_weight())))
    if found.sizes is not None and not found.may_have_weights:
        gathered = Gathered()
        prior = found.sizes / found.sizes.sum()
        by = None if gains_of is None or found.groups is not None else gains_of(prior)
        counts = None if by is None else partial(_counted, by, found.classes)
        table = found.checked(partial(_judged, judges, prior), gathered.add, counts)
        return gathered.judged(table)
    return judge_checked(found.checked(), judges)


def judge_checked(table: Any, judges: Judges) -> Judged:
    """Return the lines of a labelled table in parts, with what ``judges`` say, in one pass over it."""
    gathered = Gathered()
    for part in table.source.run(partial(_on_checked, judges, table.label_weight())):
        if part is not None:
            gathered.add(part)
    return gathered.judged(table)


def _judged(judges: Judges, prior: Array, table: MemoryTable) -> tuple[Lines, dict[str, Decided]]:
    """Return the lines of a part, and the rules without their decisions."""
    every = judges(table, prior)
    none = np.empty((0, 0), np.int64)
    return of_rows(table, every.values()), {name: one._replace(decisions=none) for name, one in every.items()}


def _counted(
    by: Mapping[str, tuple[Gains, Array]], classes: tuple[Any, ...], part: Part, fraction: float
) -> tuple[Summary, tuple[Lines, dict[str, Decided]]] | None:
    """Return the summary of a part with what `_judged` returns for it, if it can be counted at once."""
    gains = Gains.concatenate([one for one, _ in by.values()])
    found = counted_part(part, classes=classes, fraction=fraction, gains=gains)
    if found is None:
        return None
    summary, counts = found
    none = np.empty((0, 0), np.int64)
    rules = {name: Decided(none, shares, gains.n_decisions) for name, (_, shares) in by.items()}
    return summary, (_of_counts(counts.reshape(-1), (1, *counts.shape)), rules)


def _on_checked(judges: Judges, prior: Array, checked: CheckedPart) -> tuple[Lines, dict[str, Decided]] | None:
    return None if checked.table is None else _judged(judges, prior, checked.table)
