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
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Gains
from confmax.evaluate.bootstrap import Index, code_of
from confmax.evaluate.decided import Decided
from confmax.tables import Part, Table
from confmax.tables.array.kind import ARRAYS
from confmax.tables.fingerprints import mixed
from confmax.tables.groups import Groups
from confmax.tables.partitioned.checking import counted_in_columns
from confmax.tables.partitioned.parts import RawPart, Summary
from confmax.tables.weights import EQUAL, Weights

MOST_LINES = 1 << 17  # a thousand replicates of so many lines take about half a minute
BLOCK = 1 << 16  # rows of a part that are counted together
DENSE = 1 << 20  # combinations that are counted without sorting the rows of a part
DROPPED = np.uint64(49)  # binary digits of a weight: all but the first four

Judges = Callable[[Part, Array], Mapping[str, Decided]]
"""What rules decide for the rows of a part, given the sizes of the classes (K,) of the table; it can be pickled."""

GainsOf = Callable[[Array], Mapping[str, tuple[Gains, Array]] | None]
"""The gains and shares of the same rules, given the same, if they decide by their gains alone; else None."""


@dataclass(frozen=True, eq=False)
class Lines:
    """L lines: the group, the true class and what A deterministic rules decide, (A + 2, L), below ``sizes`` (A + 2,).

    ``unit`` is what each row of a line weighs, without the last digits where these were dropped. ``count`` (L,) is the
    number of the rows and ``total`` (L,) their weight.
    ``is_coarse`` says that digits were dropped.
    """

    keys: NDArray[np.int32]
    sizes: tuple[int, ...]
    unit: Weights
    count: Index
    total: Array
    is_coarse: bool = False

    def __len__(self) -> int:
        return len(self.count)

    def joined(self) -> Lines:
        """Return the lines with those that are equal made one."""
        rank, n_ranks = self.unit.ranks()
        code, _ = code_of([*self.keys, rank], [*self.sizes, n_ranks])
        _, first, place = np.unique(code, return_index=True, return_inverse=True)
        place = place.reshape(-1)
        return Lines(
            self.keys[:, first],
            self.sizes,
            self.unit.of(first),
            np.bincount(place, self.count).astype(np.int64),
            np.bincount(place, self.total).astype(np.float64),
        )

    def coarse(self) -> Lines:
        """Return the lines with weights that agree in their first digits taken together."""
        digits = np.ascontiguousarray(self.unit.array(len(self))).view(np.uint64) >> DROPPED << DROPPED
        found = replace(self, unit=Weights(digits.view(np.float64))).joined()
        return replace(found, is_coarse=True)

    def few(self, most: int) -> Lines:
        """Return the most frequent lines as they are, and the rarest with the decisions of each rule apart.

        The number of rows with a group, a class, a weight and what one rule decides stays what it is.
        """
        order = np.argsort(-self.count, kind="stable")
        rare = order[most // 2 :]
        rank, n_ranks = self.unit.ranks()
        stratum = code_of((*self.keys[:2], rank), (*self.sizes[:2], n_ranks))[0][rare]
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
        apart = Lines(keys, self.sizes, self.unit.of(first), rows, rows * mean[where[first]])
        found = _one_after_another([self.at(order[: most // 2]), apart]).joined()
        return replace(found, is_coarse=self.is_coarse)

    def at(self, chosen: NDArray[np.intp]) -> Lines:
        """Return the ``chosen`` lines."""
        return Lines(self.keys[:, chosen], self.sizes, self.unit.of(chosen), self.count[chosen], self.total[chosen])

    def table(self, classes: tuple[Any, ...], groups: tuple[Any, ...] | None) -> Part:
        """Return the lines as rows with copies, which have no probabilities."""
        rows = len(self.count)
        return Part(
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


def of_rows(table: Part, decided: Iterable[Decided]) -> Lines:
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
    weight = table.weighing
    span = math.prod(sizes)
    if weight.is_equal and span <= DENSE:
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
    return Lines(keys, sizes, weight, ones, weight.array(table.n_rows)).joined()


def _of_counts(counts: Index, sizes: tuple[int, ...]) -> Lines:
    """Return the lines of rows of equal weight, from the number of them with each code."""
    there = np.flatnonzero(counts)
    keys = np.array(np.unravel_index(there, sizes), dtype=np.int32)
    return Lines(keys, sizes, EQUAL, counts[there], counts[there].astype(np.float64))


def _one_after_another(parts: Sequence[Lines]) -> Lines:
    unit = Weights.joined(part.unit for part in parts)
    keys = np.concatenate([part.keys for part in parts], axis=1)
    count, total = (np.concatenate([getattr(part, name) for part in parts]) for name in ("count", "total"))
    return Lines(keys, parts[0].sizes, unit, count, total)


@dataclass(frozen=True, eq=False)
class Counted:
    """The lines of the rows of some parts, ``held`` apart, and how each of the ``rules`` draws."""

    held: tuple[Lines, ...]
    rules: Mapping[str, Decided]

    def __add__(self, other: Counted) -> Counted:
        """Return the lines of the rows of both."""
        both = Counted((*self.held, *other.held), self.rules)
        return replace(both, held=(both.lines,)) if sum(map(len, both.held)) > 2 * MOST_LINES else both

    @cached_property
    def lines(self) -> Lines:
        """The lines of all rows, as few as may be."""
        found = _one_after_another(self.held).joined()
        if not found.unit.is_equal and (any(part.is_coarse for part in self.held) or len(found) > MOST_LINES):
            found = found.coarse()
        return found.few(MOST_LINES) if len(found) > MOST_LINES else found

    def judged(self, table: Table) -> Judged:
        """Return the lines of a ``table``, and what the rules decide for them."""
        atom = 2
        found = {}
        for name, one in self.rules.items():
            found[name] = one._replace(decisions=self.lines.keys[atom : atom + len(one.shares)].astype(np.int64))
            atom += len(one.shares)
        names = None if table.groups is None else table.groups.names
        table.refuse_other_rows(float(self.lines.total.sum()))
        return Judged(table, self.lines.table(table.classes, names), found)


class Judged(NamedTuple):
    """A table, the lines of its rows, and what rules decide for these."""

    table: Table
    rows: Part
    decided: dict[str, Decided]


def judge(table: Table, judges: Judges, gains_of: GainsOf | None = None) -> Judged:
    """Return the lines of a labelled ``table``, with what ``judges`` say, in one pass over it.

    Without weights it is the pass that checks the rows, where that was not made. With ``gains_of`` the same rules,
    files in columns are checked and decided at once.
    """
    prior = table.label_weight()
    by = None if gains_of is None else gains_of(prior)
    in_columns = None if by is None else partial(_counted_in_columns, by)
    return table.lines(partial(_counted, judges, prior), in_columns).judged(table)


def judge_rows(rows: Part, decided: Mapping[str, Decided]) -> Judged:
    """Return the lines of labelled rows in memory, for which rules have ``decided``."""
    return judge(Table.of(rows), lambda *_: decided)


def _counted(judges: Judges, prior: Array, part: Part) -> Counted:
    """Return the lines of a part, and the rules without their decisions."""
    every = judges(part, prior)
    none = np.empty((0, 0), np.int64)
    rules = {name: one._replace(decisions=none) for name, one in every.items()}
    return Counted((of_rows(part, every.values()),), rules)


def _counted_in_columns(
    by: Mapping[str, tuple[Gains, Array]], part: RawPart, *, classes: tuple[Any, ...], fraction: float
) -> tuple[Summary, Counted] | None:
    """Return the summary of a part with what `_counted` returns for it, if its columns can be counted at once."""
    gains = Gains.concatenate([one for one, _ in by.values()])
    found = counted_in_columns(part, classes=classes, fraction=fraction, gains=gains)
    if found is None:
        return None
    summary, counts = found
    none = np.empty((0, 0), np.int64)
    rules = {name: Decided(none, shares, gains.n_decisions) for name, (_, shares) in by.items()}
    return summary, Counted((_of_counts(counts.reshape(-1), (1, *counts.shape)),), rules)
