"""Samples of rows by what is in them: the same rows whatever their order, their number of copies or their partition."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.oracle._check import check_rows, draw_factors, draws_of, gathered
from confmax.oracle._table import Table, is_sparse


def sampled(table: Table, fraction: float) -> Table:
    """Return about this ``fraction`` of the rows of ``table``, in (0, 1), chosen by a hash of their probabilities."""
    below = int(fraction * 2.0**32)
    if table.backend == "torch":
        from confmax.oracle._torch_predict import row_words

        words = row_words(table.proba, draw_factors(np.arange(table.n_classes)))
        return rows_of(table, draws_of(words) < below)
    if is_sparse(table.proba):
        return rows_of(table, _sparse_draws(table.proba) < below)
    draws = table.draws
    if draws is None:
        draws = np.empty(table.n_rows, dtype=np.uint32)
        check_rows(table.proba, np.inf, np.inf, draws)
    return rows_of(table, np.flatnonzero(draws < below))


def rows_of(table: Table, chosen: NDArray[np.intp] | NDArray[np.bool_]) -> Table:
    """Return the ``chosen`` rows (n,) of ``table``, a mask or indices, as a table."""
    labels = None if table.labels is None else table.labels[chosen]
    weight = None if table.weight is None else table.weight[chosen]
    dense = table.backend == "numba" and chosen.dtype == np.intp
    part = gathered(table.proba, np.asarray(chosen, dtype=np.intp)) if dense else table.proba[chosen]
    return replace(table, proba=part, labels=labels, weight=weight, calibrator=None, raw=None, totals=None, draws=None)


def _sparse_draws(csr: Any) -> NDArray[np.uint64]:
    """Return the numbers of the rows (n,) of a checked sparse table: those of the dense one, as zeros add nothing."""
    data = csr.data
    bits = data.view(np.uint32 if data.itemsize == 4 else np.uint64) << 1
    words = bits if data.itemsize == 4 else (bits ^ (bits >> np.uint64(32))).astype(np.uint32)
    return draws_of(np.add.reduceat(words * draw_factors(csr.indices), csr.indptr[:-1], dtype=np.uint32))
