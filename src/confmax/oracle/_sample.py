"""Samples of rows by what is in them: the same rows whatever their order, their number of copies or their partition."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from confmax.oracle._blocks import chunk_rows, run_parts
from confmax.oracle._table import Table

_ODD = np.uint64(0x9E3779B97F4A7C15)


@njit(cache=True, nogil=True)
def _choose(bits, start, stop, factors, below, chosen):  # type: ignore[no-untyped-def]
    for r in range(start, stop):
        z = np.uint64(0)
        for j in range(bits.shape[1]):
            # without the sign, which zero may or may not have
            z += (np.uint64(bits[r, j]) << np.uint64(1)) * factors[j]
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        chosen[r] = (z ^ (z >> np.uint64(31))) < below


def sampled(table: Table, fraction: float) -> Table:
    """Return about this fraction of a table's rows (0 < fraction < 1), chosen by a hash of their probabilities."""
    P = table.proba
    n, K = P.shape
    bits = P.view(np.uint32 if P.itemsize == 4 else np.uint64)
    with np.errstate(over="ignore"):
        factors = (np.arange(1, K + 1, dtype=np.uint64) * _ODD) | np.uint64(1)
    chosen = np.empty(n, dtype=np.bool_)
    below, chunk = np.uint64(int(fraction * 2.0**64)), chunk_rows(K)
    run_parts(lambda k: _choose(bits, k * chunk, min((k + 1) * chunk, n), factors, below, chosen), -(-n // chunk))
    return rows_of(table, np.flatnonzero(chosen))


def rows_of(table: Table, chosen: NDArray[np.intp] | NDArray[np.bool_]) -> Table:
    """Return the chosen rows (a mask or indices) as a table."""
    labels = None if table.labels is None else table.labels[chosen]
    weight = None if table.weight is None else table.weight[chosen]
    return Table(table.proba[chosen], labels, weight, table.classes)
