"""Groups of rows: which group a row belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array
from confmax.tables.labels import Coded, coded_labels, in_order, is_missing, plain, refuse_other_rows, vector
from confmax.tables.part import Part

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

    def sums(self, part: Part) -> Array:
        """Return of the rows of each group how many have each class, their weight, and sums of columns (3, G, K)."""
        out = np.zeros((3, len(self), part.n_classes))
        for g, mine in enumerate(part.groups_apart):
            if mine.labels is not None:
                out[0, g] = np.bincount(mine.labels, minlength=mine.n_classes)
                out[1, g] = mine.label_sums
            out[2, g] = mine.column_totals
        return out

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
