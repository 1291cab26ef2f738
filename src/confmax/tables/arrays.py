"""Arrays as they are given, checked: probabilities whose rows sum to one, and weights.

Rows that sum to one within rounding are used unchanged. Rows that sum to one within 1e-3 are divided by their sum. So
checking a table twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from confmax.confusion import Array
from confmax.kernels.blocks import MANY, block_rows, chunk_rows, load_block, new_block, over_rows
from confmax.kernels.simd import BYTES, LANES, sum_of, sum_rows
from confmax.tables.fingerprints import column_factors, hash_rows
from confmax.tables.kinds import refuse_name
from confmax.tables.labels import refuse_masked, vector

# a table of up to 20 classes that was rounded to four decimals stays within it
ROW_SUM_TOLERANCE = 1e-3
FINITE, POSITIVE, CLOSE, EXACT = range(4)  # what is asked of rows: no NaN or infinity, not negative, sum near one, one


def as_array(proba: ArrayLike, *, order: Sequence[int] | None = None) -> NDArray[Any]:
    """Return a table as a C-contiguous array (n, K) of floats, its columns in ``order``, its rows unchecked."""
    # numpy.asarray drops the mask, and would let the values under it pass as probabilities
    refuse_masked(proba, "proba")
    P = np.asarray(proba)
    if order is not None and P.ndim == 2:
        P = P[:, list(order)]
    if P.ndim == 1:
        raise ValueError(
            f"proba must have one column per class, shape (n, K); got shape {P.shape}: for two classes and the "
            f"positive class's probabilities p, pass numpy.column_stack([1 - p, p])"
        )
    # the name of a file becomes an array without dimensions, whose shape would not tell the user what is wrong
    refuse_name(proba)
    if P.ndim != 2 or P.shape[1] < 2:
        raise ValueError(f"proba must have shape (n, K) with K >= 2 classes; got shape {P.shape}")
    if P.shape[0] == 0:
        raise ValueError("proba is empty: at least one row of probabilities is needed")
    # compiled scans read row after row: a transposed table is copied here once, and not in every pass
    return np.ascontiguousarray(as_float(P))


def row_limits(P: NDArray[Any]) -> tuple[float, float]:
    """Return by how much a row's sum may be off for the row to be used at all, and to stay as it is."""
    return ROW_SUM_TOLERANCE, 8 * float(np.finfo(P.dtype).eps)


def checked_weight(sample_weight: ArrayLike, n: int, *, whole: bool = True) -> Array:
    """Return weights (n,) in float64; those of a ``whole`` table must not all be zero.

    Raises
    ------
    ValueError
        For a wrong length, or weights that are no finite numbers of at least zero.
    """
    weight = vector(sample_weight, "sample_weight", "one weight")
    try:
        weight = weight.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"sample_weight must hold numbers; got dtype {weight.dtype}") from None
    if weight.shape != (n,):
        raise ValueError(f"sample_weight must have one weight per row of proba: {n}; got shape {weight.shape}")
    bad = ~(np.isfinite(weight) & (weight >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"row {row} of sample_weight is {weight[row]}; weights must be finite and not negative")
    # finite weights can add up to infinity, and every share of them would be zero
    with np.errstate(over="ignore"):
        total = weight.sum()
    if not np.isfinite(total):
        raise ValueError("sample_weight is too large to sum; divide the weights by their largest")
    if whole and total <= 0:
        raise ValueError("sample_weight sums to zero: at least one row needs a positive weight")
    return weight


def in_native_order(values: NDArray[Any]) -> NDArray[Any]:
    """Return the same numbers with their bytes in the machine's order, which compiled code needs; no copy if so."""
    return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))


def as_float(P: NDArray[Any]) -> NDArray[Any]:
    """Return P as float32 or float64, in the machine's order of bytes."""
    P = in_native_order(P)
    if P.dtype in (np.float32, np.float64):
        return P
    # there is no compiled code for 16 bits, and float32 holds all of their numbers
    if P.dtype == np.float16:
        return P.astype(np.float32)
    if np.iscomplexobj(P):
        raise ValueError("proba holds complex numbers; pass real probabilities")
    try:
        return P.astype(np.float64)
    except (TypeError, ValueError):
        # the failed conversion does not say which cell it was
        # entries of a sparse table come without their places
        for (row, column), cell in np.ndenumerate(P) if P.ndim == 2 else ():
            try:
                float(cell)
            except (TypeError, ValueError):
                raise ValueError(
                    f"row {row}, column {column} of proba is not a number ({cell!r:.40}); drop columns that hold no "
                    f"probabilities, and rows with missing values"
                ) from None
        raise ValueError(f"proba must hold numbers; got dtype {P.dtype}") from None


def refuse_rows(P: NDArray[Any]) -> None:
    """Say which row is no distribution."""
    refuse_entries(P.ravel(), lambda k: divmod(k, P.shape[1]))
    sums = P.sum(axis=1, dtype=np.float64)
    # NumPy adds in another order than the compiled check: at the edge of the tolerance it may find all sums
    # good, and then the worst row is shown
    row = int(np.argmax(np.abs(sums - 1.0)))
    if abs(sums[row] - 1.0) > ROW_SUM_TOLERANCE:
        row = int(np.argmax(np.abs(sums - 1.0) > ROW_SUM_TOLERANCE))
    raise ValueError(
        f"row {row} of proba sums to {sums[row]:.6g}, not to one (tolerance {ROW_SUM_TOLERANCE:g}); pass "
        f"predict_proba's output, or divide each row by its sum"
    )


def refuse_entries(values: NDArray[Any], place: Callable[[int], tuple[int, int]]) -> None:
    """Refuse, by a ValueError, entries (m,) that are no probabilities; ``place(k)`` is the row and column of one."""
    # NaN is not below zero: numbers that are not finite are looked for first
    tests = [
        (~np.isfinite(values), "is not a finite number", "drop or impute such rows"),
        (values < 0, "is negative", "pass probabilities, not scores or log-probabilities"),
    ]
    for bad, what, way_out in tests:
        if bad.any():
            k = int(np.argmax(bad))
            row, column = place(k)
            raise ValueError(f"row {row}, column {column} of proba {what} ({values[k]}); {way_out}")


# --- the compiled pass that checks every row, adds up every column, and hashes every row ------------------------------


@njit(cache=True, nogil=True)
def row_sums(rows, block, sums, least):  # type: ignore[no-untyped-def]
    """Write the sums of rows (R, K) and keep the least entries seen; the block holds them where K is small."""
    if rows.shape[1] <= MANY:
        for r in range(0, sums.shape[0], BYTES // block.itemsize):
            sum_rows(block, r, sums, least)
        return
    # whole vectors first: what is left over is fewer numbers than a vector has
    whole = rows.shape[1] - rows.shape[1] % LANES
    for r in range(rows.shape[0]):
        low, total = least[r], sum_of(rows[r, :whole])
        for j in range(whole, rows.shape[1]):
            total += rows[r, j]
        for j in range(rows.shape[1]):
            low = rows[r, j] if rows[r, j] < low else low
        sums[r], least[r] = total, low


@njit(cache=True, nogil=True)
def keep_worst(n_rows, sums, worst, whole):  # type: ignore[no-untyped-def]
    """Keep how far sums are from one, place by place, so that no row waits for another; NaN stays in ``whole``."""
    for r in range(sums.shape[0]):
        if r >= n_rows:
            # the block ends in rows of zeros, which are no rows of the table
            sums[r] = 1.0
        off = abs(sums[r] - 1.0)
        worst[r] = off if off > worst[r] else worst[r]
        whole[r] += off


@njit(cache=True, nogil=True)
def judge(least, worst, whole, limits, broken):  # type: ignore[no-untyped-def]
    """Write which demands some row does not meet; limits are what sums may be off by to be near one, and one."""
    for r in range(least.shape[0]):
        # no comparison with NaN is true, so the negation catches NaN and infinity together
        broken[FINITE] |= not (whole[r] < np.inf)
        broken[POSITIVE] |= least[r] < 0
        broken[CLOSE] |= worst[r] > limits[0]
        broken[EXACT] |= worst[r] > limits[1]


@njit(cache=True, nogil=True)
def _add_columns(rows, block, size, totals):  # type: ignore[no-untyped-def]
    if rows.shape[1] <= MANY:
        for j in range(block.shape[0]):
            totals[j] += sum_of(block[j, :size])
        return
    for r in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            totals[j] += rows[r, j]


@njit(cache=True, nogil=True)
def _check(proba, start, stop, size, limits, factors, totals, broken, hashes):  # type: ignore[no-untyped-def]
    K = proba.shape[1]
    block = new_block(K if K <= MANY else 0, size, proba)
    sums, least, worst, whole = np.empty(size), np.ones(size, proba.dtype), np.zeros(size), np.zeros(size)
    words, narrow = np.empty(size, np.uint64), np.empty(max(size, K), np.float32)
    for low in range(start, stop, size):
        high = min(low + size, stop)
        rows = proba[low:high]
        if K <= MANY:
            load_block(rows, block)
        row_sums(rows, block, sums, least)
        _add_columns(rows, block, size, totals)
        if hashes.shape[0] > 0:
            hash_rows(rows, block, factors, narrow, words)
            hashes[low:high] = words[: high - low]
        keep_worst(high - low, sums, worst, whole)
    judge(least, worst, whole, limits, broken)


@njit(cache=True, nogil=True)
def _normalise(proba, start, stop, size, rounding, out):  # type: ignore[no-untyped-def]
    K = proba.shape[1]
    block = new_block(K if K <= MANY else 0, size, proba)
    sums, least = np.empty(size), np.empty(size, proba.dtype)
    for low in range(start, stop, size):
        rows = proba[low : min(low + size, stop)]
        if K <= MANY:
            load_block(rows, block)
        row_sums(rows, block, sums, least)
        for r in range(rows.shape[0]):
            # rows that sum to one within rounding stay as they are, so that a second check changes nothing
            if abs(sums[r] - 1.0) > rounding:
                for j in range(K):
                    out[low + r, j] = rows[r, j] / sums[r]
            else:
                out[low + r] = rows[r]


@njit(cache=True, nogil=True)
def _gather(proba, chosen, start, stop, out):  # type: ignore[no-untyped-def]
    for r in range(start, stop):
        for j in range(proba.shape[1]):
            out[r, j] = proba[chosen[r], j]


@njit(cache=True, nogil=True)
def _weighted(proba, start, stop, weight, totals):  # type: ignore[no-untyped-def]
    for r in range(start, stop):
        w = weight[r]
        for j in range(proba.shape[1]):
            totals[j] += w * proba[r, j]


def check_rows(
    P: NDArray[Any], limits: tuple[float, float] = (np.inf, np.inf), hashes: NDArray[np.uint64] | None = None
) -> tuple[Array, NDArray[np.bool_]]:
    """Return the column sums (K,), and which of the four demands some row does not meet (4,).

    Parameters
    ----------
    P : ndarray (n, K)
        The table.
    limits : (float, float)
        How far the sum of a row may be from one to be near it, and to be it (`row_limits`).
    hashes : ndarray (n,) of uint64 or None
        Takes the rows' hashes (`confmax.tables.fingerprints`).
    """
    n, K = P.shape
    factors, allowed, chunk = column_factors(K), np.array(limits), chunk_rows(K, n)
    parts = -(-n // chunk)
    totals, broken = np.zeros((parts, K)), np.zeros((parts, 4), dtype=np.bool_)
    written = np.empty(0, dtype=np.uint64) if hashes is None else hashes

    def work(part: int, start: int, stop: int) -> None:
        # each part has a line of its own in the sums: their order, and so the result, is the same for any threads
        _check(P, start, stop, block_rows(K), allowed, factors, totals[part], broken[part], written)

    over_rows(work, n, chunk)
    return totals.sum(axis=0), np.asarray(broken.any(axis=0))


def normalised(P: NDArray[Any], rounding: float) -> NDArray[Any]:
    """Return a copy whose rows are divided by their sums, except those that sum to one within rounding."""
    n, K = P.shape
    out = np.empty_like(P)
    over_rows(lambda _, start, stop: _normalise(P, start, stop, block_rows(K), rounding, out), n, chunk_rows(K, n))
    return out


def weighted_totals(P: NDArray[Any], weight: Array) -> Array:
    """Return the weighted column sums (K,)."""
    n, K = P.shape
    chunk = chunk_rows(K, n)
    totals = np.zeros((-(-n // chunk), K))
    over_rows(lambda part, start, stop: _weighted(P, start, stop, weight, totals[part]), n, chunk)
    return np.asarray(totals.sum(axis=0))


def gathered(P: NDArray[Any], chosen: NDArray[np.intp]) -> NDArray[Any]:
    """Return the chosen rows (m, K), which lie far apart: every thread waits for its own."""
    out = np.empty((len(chosen), P.shape[1]), P.dtype)
    over_rows(lambda _, start, stop: _gather(P, chosen, start, stop, out), len(chosen), 1 << 12)
    return out
