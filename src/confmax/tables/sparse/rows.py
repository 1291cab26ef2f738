"""Checked rows in compressed form: the k largest probabilities of very many classes, all others being zero.

They are a `scipy.sparse.csr_array` of shape (n, K) whose rows store at least one class, each class once, in rising
order. Every answer equals that on the dense table; what a scan costs is O(stored entries + K) per gain. What is
inherently dense (a search over thresholds or over one coefficient) works on the dense table while that is small, and
is refused in one sentence otherwise.

A row's argmax considers its stored entries and one other class: the class with the largest offset among those that the
row does not store. Gains that have coefficients for one class only are answered together in one pass; macro F1
evaluates K of these at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax import kernels
from confmax.confusion import Array, Gains
from confmax.kernels.blocks import over_rows
from confmax.tables.array.oracle import NO_TRUTH
from confmax.tables.array.oracle import decide as decide_dense
from confmax.tables.arrays import ROW_SUM_TOLERANCE, as_float, in_native_order, refuse_entries
from confmax.tables.precision import decided, gain_coefficients
from confmax.tables.sparse import by_numpy

ROWS = 1 << 14  # rows per part of a scan that has no statistics
BLOCK_CELLS = 1 << 21  # cells of a dense block of rows
NO_SUMS = np.empty((0, 0)), np.empty((0, 0)), np.empty((0, 0, 0))


def loops() -> Any:
    """Return the loops over stored entries: compiled, or by NumPy where no compiler was."""
    return kernels.native or by_numpy


def divided(csr: Any) -> Any:
    """Return a canonical csr_array (n, K), checked and divided by its row sums: itself where these are one."""
    data, indices, indptr = arrays = arrays_of(csr)
    n = csr.shape[0]
    sums = np.empty(n)
    negative = over_rows(lambda _, low, high: loops().sparse_sums(*arrays, low, high, sums), n, ROWS)
    if any(negative) or not np.isfinite(sums).all():
        refuse_entries(data, lambda k: (_row_of(k, indptr), indices[k]))
    off = np.abs(sums - 1.0)
    if off.max(initial=0.0) > ROW_SUM_TOLERANCE:
        _refuse_sum(int(np.argmax(off > ROW_SUM_TOLERANCE)), sums)
    # rows that sum to one within rounding stay as they are, so that a second check changes nothing
    loose = off > 8 * np.finfo(data.dtype).eps
    if not loose.any():
        return csr
    divisors = np.repeat(np.where(loose, sums, 1.0), np.diff(indptr))
    return _csr((data / divisors).astype(data.dtype), indices, indptr, csr.shape)


def decide(csr: Any, gains: Gains) -> NDArray[np.int32]:
    """Return the decisions (B, n) of every gain on every row of a checked sparse table, as on the dense one."""
    return np.asarray(decided(gains, csr, _decide))


def _decide(csr: Any, gains: Gains) -> NDArray[np.int32]:
    n, K = csr.shape
    out = np.empty((len(gains), n), dtype=np.int32)
    if gains.power or (gains.full is not None and kernels.native is None):
        # every class's distance or score changes with every entry: K numbers per row, whatever is stored
        rows = max(1, BLOCK_CELLS // K)
        for low in range(0, n, rows):
            out[:, low : low + rows] = decide_dense(csr[low : low + rows].toarray(), gains)
        return out
    (coefficients, orders) = kernel_gains(csr, gains)
    arrays = arrays_of(csr)
    rest = (coefficients, orders, out, *NO_TRUTH, *NO_SUMS)
    over_rows(lambda _, low, high: loops().sparse_scan(*arrays, low, high, *rest), n, ROWS)
    return out


def kernel_gains(csr: Any, gains: Gains) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return what the kernels take: pairs of weight and offset (B, M, 2) with the offsets' order, or full gains.

    The order (B, L) lists the classes with the largest offsets, of equal ones the largest index first: one more than
    the fullest row stores, so that every row lacks one of them unless it stores all classes.
    """
    first, second = gain_coefficients(gains, csr.dtype)
    if gains.power:
        # gains of distances score every class of a row, so a scan of stored entries has no use for coefficients
        return np.empty((len(gains), 0, 0), csr.dtype), np.empty((0, 0), np.int64)
    if second is None:
        return np.ascontiguousarray(first), np.empty((0, 0), np.int64)
    # no row stores a decision beyond the classes: its weight may be anything
    weights = np.pad(first, ((0, 0), (0, second.shape[1] - first.shape[1])))
    most = min(second.shape[1], int(np.diff(csr.indptr).max(initial=0)) + 1)
    return np.stack([weights, second], axis=2), np.array([largest_first(b, most) for b in second])


def largest_first(b: NDArray[Any], most: int) -> NDArray[np.int64]:
    """Return the indices of the ``most`` largest numbers of b (K,), falling, ties by falling index, in O(K)."""
    K = len(b)
    if b.min() == b.max():
        return np.arange(K - 1, K - 1 - most, -1)
    # a sort of all classes would cost more than the scan of a small table
    edge = np.partition(b, K - most)[K - most]
    above = np.flatnonzero(b > edge)
    chosen = np.concatenate([above, np.flatnonzero(b == edge)[len(above) - most :]])
    return np.asarray(chosen[np.lexsort((chosen, b[chosen]))[::-1]])


def arrays_of(csr: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return what the kernels take: entries, columns and row pointers."""
    return csr.data, csr.indices, csr.indptr


def probability_of(csr: Any, decision: NDArray[Any]) -> NDArray[Any]:
    """Return each row's probability of its ``decision`` (n,), zero for one that it does not store."""
    hit = np.empty(csr.shape[0], csr.dtype)
    arrays = arrays_of(csr)
    made = _whole_numbers(decision)
    over_rows(lambda _, low, high: loops().sparse_look_up(*arrays, low, high, made, hit), len(hit), ROWS)
    return hit


def _csr(data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], shape: tuple[int, int]) -> Any:
    # only who passes a sparse table pays for importing scipy.sparse
    from scipy.sparse import csr_array

    return csr_array((data, indices, indptr), shape=shape, copy=False)


def canonical(proba: Any, fewest: int = 2) -> Any:
    """Return the entries as a csr_array of floats (n, K), each row's classes rising, none twice.

    There are at least ``fewest`` columns: two classes, or one label of several that a row may have.
    """
    if proba.ndim != 2 or proba.shape[1] < fewest:
        wanted = "(n, K) with K >= 2 classes" if fewest > 1 else "(n, L)"
        raise ValueError(f"proba must have shape {wanted}; got shape {proba.shape}")
    csr = proba.tocsr()
    data = in_native_order(csr.data)
    # the kernels take these as indices, and another thread may change the caller's arrays while they run
    indices = _whole_numbers(csr.indices.copy())
    indptr = _whole_numbers(csr.indptr.copy())
    n, K = csr.shape
    falls = (np.diff(indptr) < 0).any()
    if len(indptr) != n + 1 or indptr[0] != 0 or falls or indptr[-1] > min(len(data), len(indices)):
        raise ValueError("the row pointers (indptr) of proba do not rise from 0; rebuild the sparse table")
    data = np.ascontiguousarray(as_float(data[: indptr[-1]]))
    indices = indices[: indptr[-1]]
    found = over_rows(lambda _, low, high: loops().sparse_structure(data, indices, indptr, low, high, K), n, ROWS)
    if by_numpy.OUTSIDE in found:
        outside = int(np.argmax((indices < 0) | (indices >= K)))
        row = _row_of(outside, indptr)
        column = indices[outside]
        raise ValueError(f"row {row} of proba stores an entry in column {column} of {K}; rebuild the sparse table")
    if by_numpy.UNSORTED in found:
        csr = _csr(data.copy(), indices, indptr, (n, K))
        csr.sum_duplicates()
        return csr
    return _csr(data, indices, indptr, (n, K))


def _whole_numbers(values: NDArray[Any]) -> NDArray[Any]:
    """Return C-contiguous int32 or int64 in the machine's order, which the kernels read; no copy if they are."""
    wanted = values.dtype.newbyteorder("=")
    return np.ascontiguousarray(values, wanted if wanted in (np.int32, np.int64) else np.int64)


def _row_of(entry: int, indptr: NDArray[Any]) -> int:
    # of rows that begin at the same entry all but the last are empty
    return int(np.searchsorted(indptr, entry, side="right")) - 1


def _refuse_sum(row: int, sums: Array) -> None:
    if sums[row] == 0.0:
        raise ValueError(
            f"row {row} of proba holds no probability; drop such rows, or add a column 'other' for what is left out"
        )
    raise ValueError(
        f"row {row} of proba sums to {sums[row]:.6g}, not to one (tolerance {ROW_SUM_TOLERANCE:g}); if only the "
        f"largest probabilities were kept, divide each row by its sum, or add a column 'other' for what is left out"
    )
