"""Samples of rows by what is in them: the same rows whatever their order, their number of copies or their partition."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from confmax.oracle._blocks import chunk_rows, run_parts
from confmax.oracle._table import Table, is_sparse

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
    if table.backend == "torch":
        from confmax.oracle._torch_predict import sampled_rows

        return rows_of(table, sampled_rows(table.proba, _ODD, fraction))
    P = table.proba
    if is_sparse(P):
        # zeros add nothing to a row's hash, nor would they to that of the dense table
        return rows_of(table, _sampled_sparse(P, fraction))
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
    return replace(
        table, proba=table.proba[chosen], labels=labels, weight=weight, calibrator=None, raw=None, totals=None
    )


def _sampled_sparse(csr: Any, fraction: float) -> NDArray[np.bool_]:
    """Return which rows (n,) of a checked sparse table are chosen."""
    data = csr.data
    bits = data.view(np.uint32 if data.itemsize == 4 else np.uint64).astype(np.uint64) << np.uint64(1)
    factors = (csr.indices.astype(np.uint64) + np.uint64(1)) * _ODD | np.uint64(1)
    z = np.add.reduceat(bits * factors, csr.indptr[:-1])
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray((z ^ (z >> np.uint64(31))) < np.uint64(int(fraction * 2.0**64)))
