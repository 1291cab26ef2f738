"""Rows whose groups are not known: the probability of each group for every row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array
from confmax.tables.frames import column_names
from confmax.tables.groups import SHOWN
from confmax.tables.labels import plain
from confmax.tables.memory import checked_probabilities
from confmax.tables.part import Part


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

    def weights(self, part: Part) -> Array:
        """Return the weight of every row of a ``part`` in every group (n, G)."""
        return self.proba if part.weight is None else self.proba * part.weight[:, None]

    def sums(self, part: Part) -> Array:
        """Return what `Groups.sums` does, of rows that belong to all groups: numbers of rows are not known."""
        weights = self.weights(part)
        of_labels = np.zeros((len(self), part.n_classes))
        if part.labels is not None:
            of_labels = weights.T @ np.eye(part.n_classes)[part.labels]
        columns = weights.T @ part.dense("group_proba").proba.astype(np.float64)
        return np.stack([np.full(columns.shape, np.nan), of_labels, columns])

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
