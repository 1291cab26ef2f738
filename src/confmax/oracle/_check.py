"""One pass over a table that checks every row, adds up every column, and draws a number for every row.

The number is a hash of the row's probabilities: what is sampled depends on the content of rows, never on their order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from confmax.confusion import Array
from confmax.oracle._blocks import MANY, block_rows, chunk_rows, load_block, new_block, run_parts
from confmax.oracle._simd import BYTES, LANES, sum_of, sum_rows

_ODD = np.uint64(0x9E3779B97F4A7C15)
FINITE, POSITIVE, CLOSE, EXACT = range(4)  # what is asked of rows: no NaN or infinity, not negative, sum near one, one


@njit(cache=True, nogil=True)
def _row_sum(row):  # type: ignore[no-untyped-def]
    whole = row.shape[0] - row.shape[0] % LANES
    total = sum_of(row[:whole])
    for j in range(whole, row.shape[0]):
        total += row[j]
    return total


@njit(cache=True, nogil=True)
def row_sums(rows, block, sums, least):  # type: ignore[no-untyped-def]
    """Write the sums of rows (R, K) and keep the least entries seen; the block holds them where K is small."""
    if rows.shape[1] <= MANY:
        for r in range(0, sums.shape[0], BYTES // block.itemsize):
            sum_rows(block, r, sums, least)
        return
    for r in range(rows.shape[0]):
        low = least[r]
        for j in range(rows.shape[1]):
            low = rows[r, j] if rows[r, j] < low else low
        sums[r], least[r] = _row_sum(rows[r]), low


@njit(cache=True, nogil=True)
def keep_worst(n_rows, sums, worst, whole):  # type: ignore[no-untyped-def]
    """Keep how far sums are from one, place by place, so that no row waits for another; NaN stays in ``whole``."""
    for r in range(sums.shape[0]):
        if r >= n_rows:
            sums[r] = 1.0
        off = abs(sums[r] - 1.0)
        worst[r] = off if off > worst[r] else worst[r]
        whole[r] += off


@njit(cache=True, nogil=True)
def judge(least, worst, whole, limits, broken):  # type: ignore[no-untyped-def]
    """Write which demands some row does not meet; limits are what sums may be off by to be near one, and one."""
    for r in range(least.shape[0]):
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
def _add_words(bits, factor, words):  # type: ignore[no-untyped-def]
    # without the sign, which zero may or may not have; 64 bits are folded
    if bits.itemsize == 4:
        for r in range(words.shape[0]):
            words[r] += np.uint32(bits[r] << np.uint32(1)) * factor
    else:
        for r in range(words.shape[0]):
            b = bits[r] << np.uint64(1)
            words[r] += np.uint32(b ^ (b >> np.uint64(32))) * factor


@njit(cache=True, nogil=True)
def _draw(rows, block, factors, words, draws):  # type: ignore[no-untyped-def]
    # sum_j bits(p_j) f_j in 32 bits, then mixed as splitmix64 does
    words[:] = np.uint32(0)
    if rows.shape[1] <= MANY:
        for j in range(block.shape[0]):
            _add_words(block[j, : words.shape[0]], factors[j], words)
    else:
        one = np.empty(1, np.uint32)
        for r in range(rows.shape[0]):
            one[0] = 0
            for j in range(rows.shape[1]):
                _add_words(rows[r, j : j + 1], factors[j], one)
            words[r] = one[0]
    for r in range(draws.shape[0]):
        z = np.uint64(words[r]) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        draws[r] = (z ^ (z >> np.uint64(31))) >> np.uint64(32)


@njit(cache=True, nogil=True)
def _check(proba, bits, start, stop, size, limits, factors, totals, broken, draws):  # type: ignore[no-untyped-def]
    K = proba.shape[1]
    block = new_block(K if K <= MANY else 0, size, proba)
    sums, least, worst, whole = np.empty(size), np.ones(size, proba.dtype), np.zeros(size), np.zeros(size)
    words, seen = np.empty(size, np.uint32), block.view(bits.dtype)
    for low in range(start, stop, size):
        high = min(low + size, stop)
        rows = proba[low:high]
        if K <= MANY:
            load_block(rows, block)
        row_sums(rows, block, sums, least)
        _add_columns(rows, block, size, totals)
        if draws.shape[0] > 0:
            _draw(bits[low:high], seen, factors, words, draws[low:high])
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
    P: NDArray[Any], tolerance: float, rounding: float, draws: NDArray[np.uint32] | None = None
) -> tuple[Array, NDArray[np.bool_]]:
    """Return the column sums (K,), and which of the four demands some row does not meet (4,).

    Parameters
    ----------
    P : ndarray (n, K)
        The table.
    tolerance, rounding : float
        How far the sum of a row may be from one to be near it, and to be it.
    draws : ndarray (n,) of uint32 or None
        Takes the rows' numbers.
    """
    n, K = P.shape
    chunk = chunk_rows(K, n)
    parts = -(-n // chunk)
    totals, broken = np.zeros((parts, K)), np.zeros((parts, 4), dtype=np.bool_)
    bits = P.view(np.uint32 if P.itemsize == 4 else np.uint64)
    drawn = np.empty(0, dtype=np.uint32) if draws is None else draws
    factors, limits = draw_factors(np.arange(K)), np.array([tolerance, rounding])

    def work(part: int) -> None:
        stop = min((part + 1) * chunk, n)
        _check(P, bits, part * chunk, stop, block_rows(K), limits, factors, totals[part], broken[part], drawn)

    run_parts(work, parts)
    return totals.sum(axis=0), np.asarray(broken.any(axis=0))


def draw_factors(columns: NDArray[Any]) -> NDArray[np.uint32]:
    """Return the odd multiplier of each column."""
    mixed = (columns.astype(np.uint64) + np.uint64(1)) * _ODD
    return np.asarray((mixed >> np.uint64(32)).astype(np.uint32) | np.uint32(1))


def draws_of(words: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """Return the numbers of rows, below 2^32, from the sums of their words."""
    z = words.astype(np.uint64) * _ODD
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray((z ^ (z >> np.uint64(31))) >> np.uint64(32))


def normalised(P: NDArray[Any], rounding: float) -> NDArray[Any]:
    """Return a copy whose rows are divided by their sums, except those that sum to one within rounding."""
    n, K = P.shape
    chunk, out = chunk_rows(K, n), np.empty_like(P)

    def work(part: int) -> None:
        _normalise(P, part * chunk, min((part + 1) * chunk, n), block_rows(K), rounding, out)

    run_parts(work, -(-n // chunk))
    return out


def weighted_totals(P: NDArray[Any], weight: Array) -> Array:
    """Return the weighted column sums (K,)."""
    n, K = P.shape
    chunk = chunk_rows(K, n)
    totals = np.zeros((-(-n // chunk), K))

    def work(part: int) -> None:
        _weighted(P, part * chunk, min((part + 1) * chunk, n), weight, totals[part])

    run_parts(work, len(totals))
    return np.asarray(totals.sum(axis=0))


def gathered(P: NDArray[Any], chosen: NDArray[np.intp]) -> NDArray[Any]:
    """Return the chosen rows (m, K), which lie far apart: every thread waits for its own."""
    out = np.empty((len(chosen), P.shape[1]), P.dtype)
    chunk = 1 << 12
    parts = -(-len(chosen) // chunk)
    run_parts(lambda k: _gather(P, chosen, k * chunk, min((k + 1) * chunk, len(chosen)), out), parts)
    return out
