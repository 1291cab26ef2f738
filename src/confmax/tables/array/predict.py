"""Randomised decisions, compiled: each row is given its atom by a hash first and is then decided by that atom alone.

Up to five atoms decide all rows of a block, of which each row keeps its own's answer. Of more, each takes its own rows,
turned class-major together: the cost does not grow with their number. Either way a row goes through the same kernels as
under a deterministic rule, and is decided alike bit for bit. `confmax.tables.draws` defines the draw; the tests compare
it with what is compiled here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from confmax.confusion import Array, Gains
from confmax.kernels.blocks import MANY, block_rows, chunk_rows, load_block, new_block, over_rows
from confmax.kernels.simd import BYTES
from confmax.tables.array.oracle import decide_block, kernel_gains
from confmax.tables.arrays import judge, keep_worst, row_sums
from confmax.tables.fingerprints import column_factors, hash_rows, mix

ATOMS = 5  # that decide all rows of a block: more are given their own rows only


@njit(cache=True, nogil=True)
def _draw_atoms(keys, words, edges, u, atom):  # type: ignore[no-untyped-def]
    # atom (size,) of int32: how many edges a row's draw has passed
    low, half, down = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(11)
    for r in range(keys.shape[0]):
        word = mix(keys[r])
        first, second = word & low, word >> half
        high = (words[0] * first + words[1] * second + words[2]) >> half
        rest = (words[3] * first + words[4] * second + words[5]) >> half
        # below 2^53, so that as a signed number it is the same
        u[r] = np.float64(np.int64(((high << half) | rest) >> down)) * 2.0**-53
        atom[r] = 0
    # an edge at a time: comparisons of one number with many rows are vectors, a search for each row is not
    for k in range(edges.shape[0]):
        edge = edges[k]
        for r in range(keys.shape[0]):
            atom[r] += np.int32(u[r] >= edge)


@njit(cache=True, nogil=True)
def _decide_by_atom(proba, low, rows, first, second, atom, count, order, block, decision, out):  # type: ignore[no-untyped-def]
    width = BYTES // proba.itemsize
    # rows are sorted by their atoms by counting: first how many each has, then where they begin
    count[:] = 0
    for r in range(rows):
        count[atom[r]] += 1
    end = 0
    for s in range(count.shape[0]):
        end += count[s]
        count[s] = end - count[s]
    for r in range(rows):
        s = atom[r]
        order[count[s]] = low + r
        count[s] += 1
    begin = 0
    for s in range(count.shape[0]):
        mine = count[s] - begin
        if mine > 0:
            for r in range(mine):
                row = order[begin + r]
                for j in range(proba.shape[1]):
                    block[j, r] = proba[row, j]
            decide_block(block, first, second, s, decision[: -(-mine // width) * width])
            for r in range(mine):
                out[order[begin + r]] = decision[r]
        begin = count[s]


@njit(cache=True, nogil=True)
def _decide_drawn(proba, start, stop, size, first, second, factors, words, edges, given, limits, broken, keys, out):  # type: ignore[no-untyped-def]
    K, A = proba.shape[1], first.shape[0]
    block = new_block(K, size, proba)
    decision, picked, atom = np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int32)
    key, value = np.empty(size, np.uint64), np.empty(size)
    narrow = np.empty(max(size, K), np.float32)
    order, count = np.empty(size, np.int64), np.empty(A, np.int64)
    row_sum, least, worst, whole = np.empty(size), np.ones(size, proba.dtype), np.zeros(size), np.zeros(size)
    for low in range(start, stop, size):
        rows = proba[low : min(low + size, stop)]
        n_rows = rows.shape[0]
        # of more classes, rows are gathered by their atoms from the table itself
        if K <= MANY:
            load_block(rows, block)
        if broken.shape[0] > 0:
            row_sums(rows, block, row_sum, least)
            keep_worst(n_rows, row_sum, worst, whole)
        if given.shape[0] > 0:
            key[:n_rows] = given[low : low + n_rows]
        else:
            hash_rows(rows, block, factors, narrow, key)
            keys[low : low + n_rows] = key[:n_rows]
        _draw_atoms(key, words, edges, value, atom)
        if K > MANY or A > ATOMS:
            _decide_by_atom(proba, low, n_rows, first, second, atom, count, order, block, decision, out)
            continue
        # a few atoms decide all rows faster than each its own
        for s in range(A):
            decide_block(block, first, second, s, decision)
            for r in range(size):
                picked[r] = decision[r] if atom[r] == s else picked[r]
        out[low : low + n_rows] = picked[:n_rows]
    if broken.shape[0] > 0:
        judge(least, worst, whole, limits, broken)


def decide_drawn(
    proba: NDArray[Any],
    gains: Gains,
    weights: Array,
    *,
    words: NDArray[np.uint64],
    keys: NDArray[np.uint64] | None,
    limits: tuple[float, float] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.uint64], bool]:
    """Return the decision of every row by the atom that its key draws, the keys, both (n,), and whether rows are bad.

    Parameters
    ----------
    proba : ndarray (n, K)
        Probabilities, or what else reduced gains multiply.
    gains, weights
        The atoms, which may decide more than the K classes, and their probabilities (A,).
    words : ndarray (6,)
        The coefficients of the hash.
    keys : ndarray (n,) or None
        The rows' keys; None takes their hashes.
    limits : tuple of float or None
        What the sums of rows may be off by, as in `check_rows`; None does not check the rows.
    """
    first, second = kernel_gains(gains, proba.dtype)
    n, K = proba.shape
    given = np.empty(0, dtype=np.uint64) if keys is None else np.ascontiguousarray(keys)
    used = np.empty(n, dtype=np.uint64) if keys is None else given
    edges, out = np.cumsum(weights)[:-1], np.empty(n, dtype=np.int64)
    size, chunk, factors = block_rows(K), chunk_rows(K, n), column_factors(K)
    broken = np.zeros((-(-n // chunk), 0 if limits is None else 4), dtype=np.bool_)
    allowed = np.array(limits or (np.inf, np.inf))

    def work(part: int, start: int, stop: int) -> None:
        _decide_drawn(proba, start, stop, size, first, second, factors, words, edges, given, allowed, broken[part],
                      used, out)  # fmt: skip

    over_rows(work, n, chunk)
    return out, used, bool(broken.any())
