"""The default oracle: compiled scans of a class-major copy of the table, in blocks that stay in the cache.

A block holds 512 rows as (K, 512), so that the running argmax over classes vectorises over rows. Statistics are
summed per chunk of blocks, chunks in a fixed order: the result does not depend on the number of threads. No fused
multiply-add and no reassociation: decisions equal the reference's bit for bit.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
from numba import njit
from numpy.typing import NDArray

from confmax.confusion import Confusion, Gains
from confmax.oracle._numpy import gain_coefficients
from confmax.oracle._table import Table

BLOCK = 512
CHUNK = 64  # blocks per partial sum
MATRIX_CELLS = 1 << 24  # partial statistics hold at most this many cells together

_pool: ThreadPoolExecutor | None = None


def _forget_pool() -> None:
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    # threads do not survive a fork: a child starts its own
    os.register_at_fork(after_in_child=_forget_pool)


def run_parts(work: Callable[[int], Any], n_parts: int) -> None:
    """Call ``work(part)`` for every part, over the thread pool when there is more than one."""
    global _pool
    if n_parts == 1 or numba.get_num_threads() == 1:
        for part in range(n_parts):
            work(part)
        return
    if _pool is None:
        _pool = ThreadPoolExecutor(numba.get_num_threads(), thread_name_prefix="confmax")
    list(_pool.map(work, range(n_parts)))


@njit(cache=True, nogil=True)
def _features(block, power, out):  # type: ignore[no-untyped-def]
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
    below = np.zeros(size, block.dtype)
    for j in range(K):
        for r in range(size):
            out[j, r] = mean[r]
            below[r] = below[r] + block[j, r]
            mean[r] = mean[r] + (below[r] + below[r] - total[r])


@njit(cache=True, nogil=True)
def _decide_one(block, k, rest, a, b, decision):  # type: ignore[no-untyped-def]
    # only class k has coefficients, all others score zero and the largest index of them is rest
    zero = block.dtype.type(0)
    for r in range(block.shape[1]):
        score = a * block[k, r] + b
        wins = score > zero if k < rest else score >= zero
        decision[r] = k if wins else rest


@njit(cache=True, nogil=True)
def _decide_reduced(block, a, b, best, decision):  # type: ignore[no-untyped-def]
    for r in range(block.shape[1]):
        best[r] = a[0] * block[0, r] + b[0]
        decision[r] = 0
    for j in range(1, block.shape[0]):
        aj, bj = a[j], b[j]
        for r in range(block.shape[1]):
            score = aj * block[j, r] + bj
            better = score >= best[r]
            best[r] = score if better else best[r]
            decision[r] = j if better else decision[r]


@njit(cache=True, nogil=True)
def _decide_full(block, gain, best, score, decision):  # type: ignore[no-untyped-def]
    for j in range(gain.shape[1]):
        for r in range(block.shape[1]):
            score[r] = block[0, r] * gain[0, j]
        for i in range(1, block.shape[0]):
            g = gain[i, j]
            for r in range(block.shape[1]):
                score[r] = score[r] + block[i, r] * g
        for r in range(block.shape[1]):
            better = j == 0 or score[r] >= best[r]
            best[r] = score[r] if better else best[r]
            decision[r] = j if better else decision[r]


@njit(cache=True, nogil=True)
def _accumulate(block, rows, decision, share, labels, weight, diagonal, columns, matrix):  # type: ignore[no-untyped-def]
    weighted, K = weight.size > 0, block.shape[0]
    for r in range(rows):
        j = decision[r]
        w = weight[r] if weighted else 1.0
        columns[j] += w
        if share < 1.0:
            u = w * (1.0 - share)
            if labels[r] == j:
                diagonal[j] += u
            if matrix.size > 0:
                matrix[labels[r], j] += u
        if share > 0.0:
            v = w * share
            if j < K:
                diagonal[j] += v * block[j, r]
            if matrix.size > 0:
                for i in range(K):
                    matrix[i, j] += v * block[i, r]


@njit(cache=True, nogil=True)
def _scan(blocks, start, stop, n, first, second, power, alone, share, labels, weight, diagonal, columns, matrix):  # type: ignore[no-untyped-def]
    size = blocks.shape[2]
    best = np.empty(size, blocks.dtype)
    score = np.empty(size, blocks.dtype)
    decision = np.empty(size, np.int32)
    x = np.empty((blocks.shape[1] if power > 0 else 0, size), blocks.dtype)
    for k in range(start, stop):
        low = k * size
        if power > 0:
            _features(blocks[k], power, x)
        high = min(low + size, n)
        y = labels[low:high] if labels.size > 0 else labels
        w = weight[low:high] if weight.size > 0 else weight
        for g in range(first.shape[0]):
            j = alone[g]
            if j >= 0:
                K = blocks.shape[1]
                _decide_one(blocks[k], j, K - 1 if j < K - 1 else K - 2, first[g, 0, j], second[g, j], decision)
            elif second.shape[0] > 0:
                _decide_reduced(x if power > 0 else blocks[k], first[g, 0], second[g], best, decision)
            else:
                _decide_full(blocks[k], first[g], best, score, decision)
            _accumulate(blocks[k], high - low, decision, share, y, w, diagonal[g], columns[g], matrix[g])


@njit(cache=True, nogil=True)
def _decide_rows(proba, start, stop, first, second, power, out):  # type: ignore[no-untyped-def]
    n, K = proba.shape
    block = np.empty((K, BLOCK), proba.dtype)
    best = np.empty(BLOCK, proba.dtype)
    score = np.empty(BLOCK, proba.dtype)
    decision = np.empty(BLOCK, np.int32)
    x = np.empty((K if power > 0 else 0, BLOCK), proba.dtype)
    for k in range(start, stop):
        low = k * BLOCK
        rows = min(BLOCK, n - low)
        for r in range(rows):
            for j in range(K):
                block[j, r] = proba[low + r, j]
        for r in range(rows, BLOCK):
            for j in range(K):
                block[j, r] = 0.0
        if power > 0:
            _features(block, power, x)
        for g in range(first.shape[0]):
            if second.shape[0] > 0:
                _decide_reduced(x if power > 0 else block, first[g, 0], second[g], best, decision)
            else:
                _decide_full(block, first[g], best, score, decision)
            for r in range(rows):
                out[g, low + r] = decision[r]


def _kernel_gains(gains: Gains, dtype: np.dtype[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the coefficients as the kernels take them: first (B, 1 or K, K or M), second (B, K) or empty."""
    first, second = gain_coefficients(gains, dtype)
    if second is None:
        return first, np.empty((0, 0), dtype)
    return first[:, None, :], second


def _alone(gains: Gains) -> NDArray[np.int64]:
    """Return for each gain the only class that has a coefficient, -1 where there is none or more than one."""
    alone = np.full(len(gains), -1)
    if gains.full is not None or gains.power or gains.n_classes < 3:
        return alone
    a, b = gains.pair()
    used = (a != 0) | (b != 0)
    return np.where(used.sum(axis=1) == 1, used.argmax(axis=1), alone)


def decide(proba: NDArray[Any], gains: Gains) -> NDArray[np.int32]:
    """Return the decisions (B, n) of every gain on every row of ``proba`` (n, K); ties go to the largest index."""
    first, second = _kernel_gains(gains, proba.dtype)
    out = np.empty((len(gains), proba.shape[0]), dtype=np.int32)
    n_blocks = -(-proba.shape[0] // BLOCK)

    def work(part: int) -> None:
        _decide_rows(proba, part * CHUNK, min((part + 1) * CHUNK, n_blocks), first, second, gains.power, out)

    run_parts(work, -(-n_blocks // CHUNK))
    return out


class NumbaOracle:
    """Compiled oracle on a table in memory.

    Parameters
    ----------
    table : Table
        The checked table.
    model_share : float
        C is estimated from ``model_share * p + (1 - model_share) * 1[y = i]``: 1 the model, 0 the labels.
    """

    def __init__(self, table: Table, model_share: float) -> None:
        self.table = table
        self.model_share = model_share
        self.exact = model_share == 1.0
        n, K = table.proba.shape
        n_blocks = -(-n // BLOCK)
        self._blocks = np.zeros((n_blocks, K, BLOCK), table.proba.dtype)
        whole = n // BLOCK
        self._blocks[:whole] = table.proba[: whole * BLOCK].reshape(whole, BLOCK, K).transpose(0, 2, 1)
        if whole < n_blocks:
            self._blocks[whole, :, : n - whole * BLOCK] = table.proba[whole * BLOCK :].T
        self._weight = np.empty(0) if table.weight is None else table.weight
        self._total = float(n) if table.weight is None else float(table.weight.sum())
        self._labels = np.empty(0, dtype=np.int64)
        self.rows = table.mean_probability() if model_share > 0 else np.zeros(K)
        if not self.exact:
            assert table.labels is not None
            self._labels = table.labels
            self.rows = model_share * self.rows + (1.0 - model_share) * table.label_weight()

    def maximize(self, gains: Gains, *, matrix: bool = False) -> Confusion:
        """Return the confusions (batch of B) of the decisions that maximise each gain."""
        first, second = _kernel_gains(gains, self._blocks.dtype)
        n_blocks, K = self._blocks.shape[:2]
        alone = _alone(gains)
        B, M = len(gains), first.shape[2]
        parts = -(-n_blocks // CHUNK)
        parts = max(1, min(parts, MATRIX_CELLS // (B * (K + M))))
        if matrix:
            parts = max(1, min(parts, MATRIX_CELLS // (K * M)))
        edges = np.linspace(0, n_blocks, parts + 1).astype(np.int64)
        diagonal, columns = np.zeros((parts, B, K)), np.zeros((parts, B, M))
        matrices = np.zeros((parts, B, K, M) if matrix else (parts, B, 0, 0))

        def work(part: int) -> None:
            _scan(self._blocks, edges[part], edges[part + 1], self.table.n_rows, first, second, gains.power,
                  alone, self.model_share,
                  self._labels, self._weight, diagonal[part], columns[part], matrices[part])  # fmt: skip

        run_parts(work, parts)
        total = self._total
        full = matrices.sum(axis=0) / total if matrix else None
        return Confusion(self.rows, diagonal.sum(axis=0) / total, columns.sum(axis=0) / total, full)
