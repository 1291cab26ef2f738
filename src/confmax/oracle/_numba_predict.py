"""Randomised decisions, compiled: each row is given its atom by a hash first and is then decided by that atom alone.

Up to five atoms decide all rows of a block, of which each row keeps its own's answer. Of more, each takes its own rows,
turned class-major together: the cost does not grow with their number. Either way a row goes through the same kernels as
under a deterministic rule, and is decided alike bit for bit. `confmax._draw` defines the fingerprint and the draw; the
tests compare them with what is compiled here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from confmax.confusion import Array, Gains
from confmax.oracle._blocks import MANY, block_rows, chunk_rows, load_block, new_block, run_parts
from confmax.oracle._numba import decide_block, kernel_gains
from confmax.oracle._simd import BYTES

ATOMS = 5  # that decide all rows of a block: more are given their own rows only


@njit(cache=True, nogil=True)
def _mix(z):  # type: ignore[no-untyped-def]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(cache=True, nogil=True)
def _fingerprints(proba, start, stop, factors, keys):  # type: ignore[no-untyped-def]
    value = np.empty(proba.shape[1], np.float64)
    bits = value.view(np.uint64)
    half = np.uint64(32)
    for r in range(start, stop):
        for j in range(proba.shape[1]):
            value[j] = proba[r, j] + 0.0
        total = np.uint64(0)
        for j in range(proba.shape[1]):
            total += (bits[j] ^ (bits[j] >> half)) * factors[j]
        keys[r] = _mix(total)


@njit(cache=True, nogil=True)
def _block_fingerprints(block, factors, value, keys):  # type: ignore[no-untyped-def]
    # the same from a block: vectors of rows
    bits = value.view(np.uint64)
    half = np.uint64(32)
    keys[:] = np.uint64(0)
    for j in range(block.shape[0]):
        factor = factors[j]
        for r in range(keys.shape[0]):
            value[r] = block[j, r] + 0.0
        for r in range(keys.shape[0]):
            keys[r] += (bits[r] ^ (bits[r] >> half)) * factor
    for r in range(keys.shape[0]):
        keys[r] = _mix(keys[r])


@njit(cache=True, nogil=True)
def _draw_atoms(keys, start, stop, words, edges, atom, count):  # type: ignore[no-untyped-def]
    low, half, down = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(11)
    count[:] = 0
    for r in range(start, stop):
        first, second = keys[r] & low, keys[r] >> half
        high = (words[0] * first + words[1] * second + words[2]) >> half
        rest = (words[3] * first + words[4] * second + words[5]) >> half
        u = np.float64(((high << half) | rest) >> down) * 2.0**-53
        s = 0
        for k in range(edges.shape[0]):
            s += u >= edges[k]
        atom[r - start] = s
        count[s] += 1


@njit(cache=True, nogil=True)
def _decide_by_atom(proba, low, rows, first, second, atom, count, order, block, decision, out):  # type: ignore[no-untyped-def]
    width = BYTES // proba.itemsize
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
def _decide_drawn(proba, start, stop, size, first, second, factors, words, edges, keys, out):  # type: ignore[no-untyped-def]
    K, A = proba.shape[1], first.shape[0]
    block = new_block(K, size, proba)
    decision = np.empty(size, np.int32)
    value = np.empty(size)
    atom = np.empty(size, np.int64)
    order = np.empty(size, np.int64)
    count = np.empty(A, np.int64)
    own, turned = factors.shape[0] > 0, K <= MANY
    for low in range(start, stop, size):
        rows = min(size, stop - low)
        if turned:
            load_block(proba[low : low + rows], block)
        if own and turned:
            _block_fingerprints(block, factors, value, keys[low : low + rows])
        elif own:
            _fingerprints(proba, low, low + rows, factors, keys)
        _draw_atoms(keys, low, low + rows, words, edges, atom, count)
        if turned and A <= ATOMS:
            # a few atoms decide all rows faster than each its own
            for s in range(A):
                decide_block(block, first, second, s, decision)
                for r in range(rows):
                    out[low + r] = decision[r] if atom[r] == s else out[low + r]
            continue
        _decide_by_atom(proba, low, rows, first, second, atom, count, order, block, decision, out)


def decide_drawn(
    proba: NDArray[Any],
    gains: Gains,
    weights: Array,
    *,
    words: NDArray[np.uint64],
    keys: NDArray[np.uint64] | None,
    factors: NDArray[np.uint64],
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Return the decision of every row by the atom that its key draws, and the keys, both (n,).

    Parameters
    ----------
    proba : ndarray (n, K)
        Checked probabilities, or what else reduced gains multiply.
    gains, weights
        The atoms and their probabilities (A,).
    words : ndarray (6,)
        The coefficients of the hash.
    keys : ndarray (n,) or None
        The rows' keys; None takes their fingerprints, with ``factors`` (K,).
    """
    first, second = kernel_gains(gains, proba.dtype)
    n = proba.shape[0]
    given = np.empty(n, dtype=np.uint64) if keys is None else np.ascontiguousarray(keys)
    used = factors if keys is None else np.empty(0, dtype=np.uint64)
    edges = np.cumsum(weights)[:-1]
    out = np.empty(n, dtype=np.int64)
    size, chunk = block_rows(proba.shape[1]), chunk_rows(proba.shape[1], n)

    def work(part: int) -> None:
        stop = min((part + 1) * chunk, n)
        _decide_drawn(proba, part * chunk, stop, size, first, second, used, words, edges, given, out)

    run_parts(work, -(-n // chunk))
    return out, given
