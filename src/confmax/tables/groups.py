"""Groups of rows: which group a row belongs to, and a table whose groups lie side by side.

A rule that knows the group of a row decides each group by gains of its own. So the rows of every group are a table of
their own, and one scan of all of them answers gains for all groups (`confmax.confusion.Layout`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax.confusion import Array, Confusion, Gains, Layout
from confmax.tables.columns import column_names
from confmax.tables.fingerprints import chosen_by_hash
from confmax.tables.labels import Coded, coded_labels, in_order, is_missing, plain, refuse_other_rows, vector
from confmax.tables.memory import checked_probabilities
from confmax.tables.table import Calibrator, MemoryTable, Oracle, T, Table, TableOracle

MOST_GROUPS = 100  # each has gains of its own for every class
SHOWN = 8  # groups in a message


@dataclass(frozen=True, eq=False)
class Groups:
    """The group of every row: sorted names (G,), and the place of each row's group among them (n,)."""

    names: tuple[Any, ...]
    codes: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.names)

    def take(self, chosen: NDArray[Any]) -> Groups:
        """Return the groups of the ``chosen`` rows (n,), a mask or indices."""
        return Groups(self.names, self.codes[chosen])

    def present(self) -> Groups:
        """Return the groups without those that have no row."""
        present, codes = np.unique(self.codes, return_inverse=True)
        return Groups(tuple(self.names[k] for k in present), codes.reshape(-1))

    def beside(self, table: Table, n_further: int = 0) -> GroupedTable:
        """Return a table of these rows with the groups side by side."""
        return GroupedTable(table.in_memory(), self, n_further)

    @classmethod
    def of(cls, group: Any, n: int, names: Sequence[Any] | None = None, *, proba: Any = None) -> Groups:
        """Return the groups of n rows from their names or numbers (n,).

        ``names`` are groups that are known, in their order; None: those that there are, sorted. The index of ``proba``
        is compared. ValueError for a wrong length, a row without a group, one that is not known, or too many of them.
        """
        refuse_other_rows(proba, group, "group")
        coded, found = _coded_groups(group)
        if coded.shape != (n,):
            raise ValueError(f"group must have one name per row of proba: {n} rows; got shape {coded.shape}")
        names = ordered_names(found.values()) if names is None else names
        known = {name: k for k, name in enumerate(names)}
        code = np.full(len(coded.values), -1, dtype=np.intp)
        for k, value in found.items():
            if value not in known:
                row = int(np.argmax(coded.index == k))
                shown = ", ".join(map(repr, names[:SHOWN])) + (", ..." if len(names) > SHOWN else "")
                raise ValueError(
                    f"row {row} has the group {value!r}, which the rule does not know; its groups are {shown}"
                )
            code[k] = known[value]
        return cls(tuple(names), code[coded.index])


def distinct_groups(group: Any) -> list[Any]:
    """Return the distinct groups of rows (n,) as plain Python values; a ValueError for a row without a group."""
    return list(_coded_groups(group)[1].values())


def ordered_names(found: Iterable[Any]) -> tuple[Any, ...]:
    """Return the distinct names of groups in their order, numbers before strings; a ValueError for too many."""
    names = in_order(set(found), "group", lambda name: (isinstance(name, str), name))
    if len(names) > MOST_GROUPS:
        raise ValueError(
            f"group has {len(names):,} different values and may have at most {MOST_GROUPS}; join small groups"
        )
    return tuple(names)


def _coded_groups(group: Any) -> tuple[Coded, dict[int, Any]]:
    """Return groups (n,) by their distinct values, and the plain names of the values that some row has."""
    coded = coded_labels(group if isinstance(group, Coded) else vector(group, "group", "one group"), "group")
    used = np.flatnonzero(np.bincount(coded.index, minlength=len(coded.values)))
    found = {int(k): plain(coded.values[k]) for k in used}
    for k, value in found.items():
        if is_missing(value):
            row = int(np.argmax(coded.index == k))
            raise ValueError(f"row {row} of group is missing; give every row a group, or drop such rows")
    return coded, found


@dataclass(frozen=True, eq=False)
class GroupShares:
    """The probability of each of G named groups (n, G) for every row, where its group is not known."""

    names: tuple[Any, ...]
    proba: Array

    def __len__(self) -> int:
        return len(self.names)

    def take(self, chosen: NDArray[Any]) -> GroupShares:
        """Return the probabilities of the ``chosen`` rows (n,), a mask or indices."""
        return GroupShares(self.names, self.proba[chosen])

    def beside(self, table: Table, n_further: int = 0) -> MixedTable:
        """Return a table of these rows with the groups side by side."""
        return MixedTable(table.in_memory(), self, n_further)

    @classmethod
    def of(cls, group_proba: Any, n: int, names: Sequence[Any] | None = None) -> GroupShares:
        """Return the probabilities of groups of n rows, (n, G); the columns of a frame name these.

        ``names`` are groups that are known; None: those of the columns, or 0..G-1. ValueError if these are no
        probabilities, or of other rows or groups.
        """
        columns = column_names(group_proba)
        if names is None:
            checked = checked_probabilities(group_proba)
            found = tuple(range(checked.shape[1])) if columns is None else tuple(map(plain, columns))
        else:
            found = tuple(names)
            width = np.shape(group_proba)[1:] or (0,)
            if width[0] != len(found):
                shown = ", ".join(map(repr, found[:SHOWN]))
                raise ValueError(
                    f"group_proba has {width[0]} columns and the rule has {len(found)} groups; pass one for each of "
                    f"{shown}"
                )
            checked = checked_probabilities(group_proba, None if columns is None else found)
        if len(checked) != n:
            raise ValueError(f"group_proba must have one row per row of proba: {n} rows; got {len(checked)}")
        return cls(found, np.asarray(checked, dtype=np.float64))


@dataclass(frozen=True, eq=False)
class SideBySide(Table):
    """A table whose groups lie side by side: all its rows, their groups, and decisions beyond the classes."""

    whole: Any
    groups: Any
    n_further: int = 0

    @property
    def layout(self) -> Layout:
        shared = isinstance(self.groups, GroupShares)
        return Layout(len(self.groups), self.whole.n_classes, self.n_further, shared)

    @property
    def classes(self) -> tuple[Any, ...]:  # type: ignore[override]
        """The classes of every group."""
        return tuple((group, name) for group in self.groups.names for name in self.whole.classes)

    @property
    def calibrator(self) -> Calibrator | None:  # type: ignore[override]
        """What made the probabilities from those that were given."""
        return cast("Calibrator | None", self.whole.calibrator)

    @property
    def backend(self) -> str:
        return "groups"

    @property
    def n_rows(self) -> int:
        return int(self.whole.n_rows)

    @property
    def weight_total(self) -> float:
        return float(self.whole.weight_total)

    @property
    def n_weighted(self) -> int:
        return int(self.whole.n_weighted)

    @property
    def is_whole(self) -> bool:
        """No: rows of different groups are not compared."""
        return False

    def priors(self, rows: Array) -> Array:
        """Return class sizes (G K,) of the groups as those of all rows, for every group."""
        return np.tile(self.layout.priors(rows), len(self.groups))

    def calibrated(self, calibrator: Calibrator | None) -> SideBySide:
        return type(self)(self.whole.calibrated(calibrator), self.groups, self.n_further)

    def in_memory(self) -> MemoryTable:
        return cast("MemoryTable", self.whole.in_memory())

    def in_one_place(self) -> Table:
        return self

    def over_parts(self, work: Callable[[MemoryTable], T]) -> Iterator[T]:
        return cast("Iterator[T]", self.whole.over_parts(work))

    def sampled(self, fraction: float) -> SideBySide:
        """Return about this ``fraction`` of the rows, chosen by the hash of their probabilities."""
        chosen = chosen_by_hash(self.whole.row_hashes(), fraction)
        return type(self)(self.whole.take(chosen), self.groups.take(chosen), self.n_further)

    def dense(self, what: str) -> MemoryTable:
        """Refuse: rows of different groups are not compared."""
        raise ValueError(f"{what} compares all rows, and these are in groups; leave group out")


@dataclass(frozen=True, eq=False)
class GroupedTable(SideBySide):
    """A table in memory whose rows belong to one group each."""

    @property
    def sorts_rows(self) -> bool:
        """Yes: the rows of each group are in memory."""
        return True

    @cached_property
    def parts(self) -> tuple[MemoryTable, ...]:
        """The rows of each group."""
        codes = self.groups.codes
        if self.groups is self.whole.groups and not (codes[1:] < codes[:-1]).any():
            # a part of a table in parts is split once, for all passes
            return cast("tuple[MemoryTable, ...]", self.whole.groups_apart)
        return tuple(self.whole.take(np.flatnonzero(codes == g)) for g in range(len(self.groups)))

    @cached_property
    def shares(self) -> Array:
        """The weight of each group (G,), in fractions of all weight."""
        return np.array([part.weight_total for part in self.parts]) / self.whole.weight_total

    def label_weight(self) -> Array:
        """Return the weight of each true class in each group (G K,), fractions of all weight; needs labels."""
        return self._beside(lambda part: part.label_weight())

    def cells(self) -> Array:
        """Return the number of rows of each true class in each group (G, K); needs labels."""
        out = np.zeros((len(self.groups), self.whole.n_classes))
        np.add.at(out, (self.groups.codes, self.whole.labels), 1)
        return out

    @cached_property
    def _mean_probability(self) -> Array:
        return self._beside(lambda part: part.mean_probability())

    def _beside(self, numbers: Callable[[MemoryTable], Array]) -> Array:
        found = [
            share * numbers(part) if share else np.zeros(part.n_classes)
            for share, part in zip(self.shares, self.parts, strict=True)
        ]
        return np.concatenate(found)

    def density_of_ties(self, functions: Gains, prices: Array) -> Array | None:
        """Return the sum of those of the groups, whose rows are decided apart."""
        total = np.zeros((len(prices), len(prices)))
        for g, share in enumerate(self.shares):
            if share:
                part = self.parts[g].density_of_ties(self.layout.gains_of(functions, g), prices)
                if part is None:
                    return None
                total += share * part
        return total

    def oracle(self, model_share: ArrayLike) -> Oracle:
        return GroupedOracle(self, model_share)

    def counted_by(self, oracle: Oracle, gains: Gains, *, matrix: bool) -> Confusion:
        by = oracle_parts(oracle)
        return self._answered(gains, lambda g, part: self.parts[g].counted_by(by[g], part, matrix=matrix), matrix)

    def _answered(self, gains: Gains, answer: Callable[[int, Gains], Confusion], matrix: bool) -> Confusion:
        """Return what ``answer`` gives for every group and its gains, side by side; zeros for a group without rows."""
        layout = self.layout
        B = len(gains)
        K = layout.n_classes
        M = layout.n_decisions
        nothing = Confusion(np.zeros(K), np.zeros((B, K)), np.zeros((B, M)), np.zeros((B, K, M)) if matrix else None)
        found = [answer(g, layout.gains_of(gains, g)) if share else nothing for g, share in enumerate(self.shares)]
        return layout.joined(found, self.shares)


class GroupedOracle:
    """The oracle of a table whose groups lie side by side: one scan of the rows of every group that has weight."""

    def __init__(self, table: GroupedTable, model_share: ArrayLike) -> None:
        self.table = table
        self.model_share: Any = model_share
        shares = np.broadcast_to(np.asarray(model_share, dtype=np.float64), (len(table.groups),)).tolist()
        self.exact = min(shares) == 1.0
        self.parts = {g: part.oracle(shares[g]) for g, part in enumerate(table.parts) if table.shares[g]}
        K = table.layout.n_classes
        self.rows = np.concatenate(
            [table.shares[g] * self.parts[g].rows if g in self.parts else np.zeros(K) for g in range(len(table.groups))]
        )

    def maximize(self, gains: Gains, *, matrix: bool = False) -> Confusion:
        return self.table._answered(gains, lambda g, part: self.parts[g].maximize(part, matrix=matrix), matrix)


def oracle_parts(oracle: Any) -> dict[int, Oracle]:
    """Return the oracles of the groups that have weight, of an oracle that may be counted."""
    found = getattr(oracle, "oracle", oracle)
    assert isinstance(found, GroupedOracle)
    return found.parts


# --- groups that are not known ----------------------------------------------------------------------------------------


class MixedTable(SideBySide):
    """A table whose rows belong to all groups, by the probability of each; a row gets one decision for all of them.

    Class and group of a row are taken to be independent given what the model knows of it.
    """

    def label_weight(self) -> Array:
        """Return the weight of each true class in each group (G K,), fractions of all weight; needs labels."""
        return self._sums(self.truth(0.0))

    @cached_property
    def _mean_probability(self) -> Array:
        return self._sums(self.proba)

    @cached_property
    def proba(self) -> Array:
        """The probabilities of the classes (n, K), in float64."""
        return np.asarray(self.whole.dense("group_proba").proba, dtype=np.float64)

    @cached_property
    def row_shares(self) -> Array:
        """The weight of every row in every group (n, G), in fractions of all weight."""
        weight = np.ones(self.n_rows) if self.whole.weight is None else self.whole.weight
        return np.asarray(self.groups.proba * (weight / self.weight_total)[:, None])

    def truth(self, model_share: float) -> Array:
        """Return what a confusion counts for the true class of every row (n, K)."""
        if model_share == 1.0:
            return self.proba
        assert self.whole.labels is not None
        return model_share * self.proba + (1.0 - model_share) * np.eye(self.whole.n_classes)[self.whole.labels]

    def _sums(self, truth: Array) -> Array:
        return np.asarray((self.row_shares.T @ truth).reshape(-1))

    def oracle(self, model_share: float) -> Oracle:
        return MixedOracle(self, model_share)

    def counted_by(self, oracle: Any, gains: Gains, *, matrix: bool) -> Confusion:
        truth = getattr(oracle, "oracle", oracle)
        return self.counted(gains, truth.truth, truth.rows, matrix=matrix)

    def counted(self, gains: Gains, truth: Array, rows: Array, *, matrix: bool) -> Confusion:
        """Return the confusions of all ``gains``, decided on this table and counted by ``truth`` (n, K)."""
        layout = self.layout
        shares = self.row_shares
        B = len(gains)
        M = layout.n_decisions
        diagonal = np.zeros((B, layout.all_classes))
        columns = np.zeros((B, layout.all_decisions))
        full = np.zeros((B, layout.all_classes, layout.all_decisions)) if matrix else None
        padded = np.hstack([truth, np.zeros((len(truth), layout.n_further))])
        for b in range(B):
            decided = decide_mixed(self.proba, self.groups.proba, gains[b], layout)
            hit = padded[np.arange(len(decided)), decided]
            for g in range(layout.n_groups):
                place = layout.decisions(g)
                columns[b, place] = np.bincount(decided, shares[:, g], M)
                hits = np.bincount(decided, shares[:, g] * hit, M)
                diagonal[b, layout.classes(g)] = hits[: layout.n_classes]
                if full is not None:
                    sums = np.zeros((M, layout.n_classes))
                    np.add.at(sums, decided, truth * shares[:, [g]])
                    full[(b, *layout.block(g))] = sums.T
        return Confusion(rows, diagonal, columns, full)


class MixedOracle(TableOracle):
    """The oracle of a table whose rows belong to all groups: ``score_j = sum_g P(g | x) (a_gj p_j + b_gj)``."""

    table: MixedTable

    def __init__(self, table: MixedTable, model_share: float) -> None:
        super().__init__(table, model_share)
        self.truth = table.truth(model_share)

    def maximize(self, gains: Gains, *, matrix: bool = False) -> Confusion:
        return self.table.counted(gains, self.truth, self.rows, matrix=matrix)


def decide_mixed(proba: Array, shares: Array, gain: Gains, layout: Layout) -> NDArray[np.intp]:
    """Return the decisions (n,) by one gain of groups side by side, of rows with ``shares`` (n, G) of the groups."""
    scores = mixed_scores(proba, shares, gain, layout)
    # of equal scores the last decision is made
    return np.asarray(scores.shape[1] - 1 - np.argmax(scores[:, ::-1], axis=1))


def mixed_scores(proba: Array, shares: Array, gain: Gains, layout: Layout) -> Array:
    """Return the scores (n, M) by which `decide_mixed` decides."""
    parts = [layout.gains_of(gain, g) for g in range(layout.n_groups)]
    if gain.full is None:
        a = shares @ np.concatenate([part.pair()[0] for part in parts])
        scores = shares @ np.concatenate([part.pair()[1] for part in parts])
        scores[:, : layout.n_classes] += a * proba
    else:
        scores = sum(shares[:, [g]] * (proba @ part.matrices()[0]) for g, part in enumerate(parts))
    return np.asarray(scores)
