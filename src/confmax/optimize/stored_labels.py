"""What is stored of a sparse table of several labels, by label.

Rows that do not store a label lie below every threshold. They count as true rows where they are, and are never
decided.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array
from confmax.tables import Part


@dataclass(frozen=True, eq=False)
class Stored:
    """The m stored entries of a sparse table, by label and falling probability, (m,) each.

    ``edges`` (L + 1,) say where labels begin. ``order`` are the places of the entries in the table, and ``calibrated``
    are their calibrated probabilities.
    """

    label: NDArray[Any]
    row: NDArray[Any]
    p: NDArray[Any]
    calibrated: NDArray[Any]
    order: NDArray[np.intp]
    edges: NDArray[np.intp]
    n_rows: int

    @classmethod
    def of(cls, table: Part, calibrated: NDArray[Any]) -> Stored:
        """Return the entries of a ``table`` whose ``calibrated`` probabilities (m,) stand in its order."""
        csr = table.proba
        order = np.lexsort((-csr.data, csr.indices))
        row = np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))[order]
        edges = np.append(0, np.cumsum(np.bincount(csr.indices, minlength=csr.shape[1])))
        return cls(csr.indices[order], row, csr.data[order], calibrated[order], order, edges, csr.shape[0])

    def of_label(self, label: int) -> slice:
        """Return the entries of one label."""
        return slice(int(self.edges[label]), int(self.edges[label + 1]))

    @cached_property
    def lowest(self) -> Array:
        """What lies below all entries of a label (L,): zero, and minus infinity where every row stores the label."""
        return np.where(np.diff(self.edges) < self.n_rows, 0.0, -np.inf)

    def within(self, decided: NDArray[np.bool_]) -> tuple[Array, Array]:
        """Return the largest probability (L,) that is not ``decided`` (m,), and the smallest one that is."""
        L = len(self.edges) - 1
        high = np.full(L, np.inf)
        low = self.lowest.copy()
        np.minimum.at(high, self.label[decided], self.p[decided])
        np.maximum.at(low, self.label[~decided], self.p[~decided])
        return low, high
