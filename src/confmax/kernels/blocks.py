"""Blocks of rows in the cache: the table is read as it lies, and turned class-major where the processor keeps it.

A block is (K, width), so that a running argmax over classes works on vectors of rows. Rows that fill a block are
followed by zeros to a whole number of vectors, and by one more line of the cache: without it a row of a power of two
would put every class on the same few places of the cache.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
from numba import njit

from confmax.kernels.simd import BYTES, turn_eight, turn_four

MANY = 128  # classes beyond which a row is read along itself: turning it would not stay in the inner cache
PARTS = 16  # partial sums of a table,
LEAST_CELLS, MOST_CELLS = 1 << 18, 1 << 20  # each over at least and at most so many entries

_pool: ThreadPoolExecutor | None = None


def _forget_pool() -> None:
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    # threads do not survive a fork: a child starts its own
    os.register_at_fork(after_in_child=_forget_pool)


def run_parts(work: Callable[[int], Any], n_parts: int) -> list[Any]:
    """Return what ``work(part)`` makes of every part; each thread takes the next part that nobody has taken."""
    global _pool
    threads = min(numba.get_num_threads(), n_parts)
    parts = iter(range(n_parts))  # its next() is atomic
    made: list[Any] = [None] * n_parts

    def take() -> None:
        for part in parts:
            made[part] = work(part)

    if threads == 1:
        take()
        return made
    if _pool is None:
        _pool = ThreadPoolExecutor(numba.get_num_threads(), thread_name_prefix="confmax")
    helpers = [_pool.submit(take) for _ in range(threads - 1)]
    take()
    for helper in helpers:
        helper.result()
    return made


def over_rows(work: Callable[[int, int, int], Any], n_rows: int, chunk: int) -> list[Any]:
    """Return what ``work(part, start, stop)`` gives for all rows, ``chunk`` of them at a time, in their order."""
    starts = range(0, n_rows, chunk)
    return run_parts(lambda k: work(k, starts[k], min(starts[k] + chunk, n_rows)), len(starts))


def block_rows(n_classes: int) -> int:
    """Return how many rows a block has: what the inner caches hold, and whole vectors of either type."""
    # up to 128 classes a block of float64 takes at most 131 kB, which the inner caches hold beside a scan's sums
    if n_classes <= 24:
        return 512
    return 256 if n_classes <= 64 else (128 if n_classes <= 256 else 64)


def chunk_rows(n_classes: int, n_rows: int) -> int:
    """Return how many rows a partial sum is over: whole blocks, the same for any number of threads.

    A sixteenth of the table, within limits: small tables must occupy several threads, too.
    """
    rows = block_rows(n_classes)
    cells = min(max(n_rows * n_classes // PARTS, LEAST_CELLS), MOST_CELLS)
    return rows * max(1, cells // (rows * n_classes))


@njit(cache=True, nogil=True)
def new_block(n_classes, rows, like):  # type: ignore[no-untyped-def]
    """Return an empty block of the type of ``like``: some more columns than rows."""
    return np.zeros((n_classes, rows + BYTES // 2 // like.itemsize), like.dtype)


@njit(cache=True, nogil=True)
def load_block(proba, block):  # type: ignore[no-untyped-def]
    """Write proba (R, K) to the block (K, width), zeros behind it."""
    rows, K = proba.shape
    whole = 0
    # squares of vectors, which overlap where K is no multiple of eight: an entry is then written twice, alike
    if K >= 8:
        whole = rows - rows % 8
        few = 0 < K % 8 <= 4
        for r in range(0, whole, 8):
            for j in range(0, K - 7, 8):
                turn_eight(proba, r, j, block)
            # what is left over, and some classes again
            if few:
                turn_four(proba, r, K - 4, block)
                turn_four(proba, r + 4, K - 4, block)
            elif K % 8 > 0:
                turn_eight(proba, r, K - 8, block)
    elif K >= 4:
        whole = rows - rows % 4
        for r in range(0, whole, 4):
            turn_four(proba, r, 0, block)
            turn_four(proba, r, K - 4, block)
    else:
        # too few classes for a square: a flat index spares a scan of two classes a fifth of its time
        flat = proba.reshape(rows * K)
        for j in range(K):
            for r in range(rows):
                block[j, r] = flat[r * K + j]
        whole = rows
    for r in range(whole, rows):
        for j in range(K):
            block[j, r] = proba[r, j]
    for j in range(K):
        for r in range(rows, block.shape[1]):
            block[j, r] = 0.0


@njit(cache=True, nogil=True)
def distances(block, power, out):  # type: ignore[no-untyped-def]
    """Write ``sum_i |i - j|^power block[i, r]`` to ``out[j, r]``."""
    # the reference's order of operations: decisions must agree bit for bit
    K, size = block.shape
    total = np.empty(size, block.dtype)
    mean = np.zeros(size, block.dtype)
    square = np.zeros(size, block.dtype)
    for r in range(size):
        total[r] = block[0, r]
    for i in range(1, K):
        first, second = block.dtype.type(i), block.dtype.type(i * i)
        for r in range(size):
            total[r] = total[r] + block[i, r]
            mean[r] = mean[r] + block[i, r] * first
            square[r] = square[r] + block[i, r] * second
    if power == 2:
        for j in range(K):
            first, second = block.dtype.type(2 * j), block.dtype.type(j * j)
            for r in range(size):
                out[j, r] = (square[r] + total[r] * second) - mean[r] * first
        return
    # from class j to j + 1, the classes up to j come to lie one further away, and all others one nearer
    below = np.zeros(size, block.dtype)
    for j in range(K):
        for r in range(size):
            out[j, r] = mean[r]
            below[r] = below[r] + block[j, r]
            mean[r] = mean[r] + (below[r] + below[r] - total[r])
