"""Samples of rows by what is in them: the same rows whatever their order, their number of copies or their partition."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.tables.check import gathered
from confmax.tables.table import Table


def sampled(table: Table, fraction: float) -> Table:
    """Return about this ``fraction`` of the rows of ``table``, in (0, 1), chosen by the hash of their probabilities."""
    return rows_of(table, chosen_by_hash(table.row_hashes(), fraction))


def chosen_by_hash(hashes: NDArray[np.uint64], fraction: float) -> NDArray[np.intp]:
    """Return the indices (m,) of the rows whose hashes (n,) lie in the lowest ``fraction`` of all 64-bit words."""
    if fraction >= 1.0:
        return np.arange(len(hashes))
    return np.flatnonzero(hashes < np.uint64(int(fraction * 2.0**64)))


def rows_of(table: Table, chosen: NDArray[np.intp] | NDArray[np.bool_]) -> Table:
    """Return the ``chosen`` rows (n,) of ``table``, a mask or indices, as a table; hashed as they were given."""
    labels = None if table.labels is None else table.labels[chosen]
    weight = None if table.weight is None else table.weight[chosen]
    dense = table.backend == "numba" and chosen.dtype == np.intp
    part: Any = gathered(table.proba, np.asarray(chosen, dtype=np.intp)) if dense else table.proba[chosen]
    hashes, unordered = table.row_hashes()[chosen], None
    if table.unordered is not None or table.raw is not None:
        unordered = table.unordered_hashes()[chosen]
    return replace(table, proba=part, labels=labels, weight=weight, calibrator=None, raw=None, totals=None,
                   hashes=hashes, unordered=unordered)  # fmt: skip
