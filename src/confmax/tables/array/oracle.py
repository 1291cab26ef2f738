"""The default oracle: compiled scans of the table as it lies, block by block in the cache.

Statistics are summed per chunk of rows, chunks in a fixed order: the result does not depend on the number of threads.
No fused multiply-add and no reassociation: decisions equal the reference's bit for bit.

The table is never copied. A scan reads it in its own layout and transposes blocks of rows that fit the inner caches to
class-major order, in squares of vectors. Up to 128 classes, this takes no longer than the memory access; beyond that,
each row is compared along itself. A copy in class-major order would save a quarter of a scan and cost three scans.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from confmax.confusion import Confusion, Gains
from confmax.kernels.blocks import MANY, block_rows, chunk_rows, distances, load_block, new_block, run_parts
from confmax.kernels.simd import BYTES, count_where, decide_along, decide_full, decide_reduced, sum_where
from confmax.tables.arrays import judge, keep_worst, row_sums
from confmax.tables.precision import answered, decided, gain_coefficients
from confmax.tables.table import MemoryTable

MATRIX_CELLS = 1 << 24  # partial statistics hold at most this many cells together
SOME = 48  # classes from which one or two gains are not worth turning a block for
FEW = 4  # decisions up to which a sum for each is faster than adding every row to its own


@njit(cache=True, nogil=True)
def _decide_one(proba, k, rest, a, b, decision):  # type: ignore[no-untyped-def]
    # only class k has coefficients, all others score zero and the largest index of them is rest
    zero = proba.dtype.type(0)
    for r in range(proba.shape[0]):
        score = a * proba[r, k] + b
        wins = score > zero if k < rest else score >= zero
        decision[r] = k if wins else rest


@njit(cache=True, nogil=True)
def _decide_along(proba, a, b, decision):  # type: ignore[no-untyped-def]
    # vectors of classes, in the order in which they lie
    K, further = proba.shape[1], -1
    for r in range(proba.shape[0]):
        decision[r] = decide_along(proba, a, b, r)
    for j in range(K, b.shape[0]):
        if further < 0 or b[j] >= b[further]:
            further = j
    if further >= 0:
        # of the decisions beyond the classes, which score the same for all rows, only the best counts
        for r in range(proba.shape[0]):
            k = decision[r]
            score = a[k] * proba[r, k]
            if b[further] >= score + b[k]:
                decision[r] = further


@njit(cache=True, nogil=True)
def decide_block(x, first, second, g, decision):  # type: ignore[no-untyped-def]
    """Write the decisions of gain ``g`` for all rows of a block to ``decision`` (whole vectors)."""
    width = BYTES // x.itemsize
    if second.shape[0] > 0:
        a, b = first[g, 0], second[g]
        for r in range(0, decision.shape[0], width):
            decide_reduced(x, a, b, r, decision)
    else:
        gain = first[g]
        for r in range(0, decision.shape[0], width // 2):
            decide_full(x, gain, r, decision)


@njit(cache=True, nogil=True)
def _values(proba, decision, share, labels, weight, value):  # type: ignore[no-untyped-def]
    # what each row (R, K) adds to the diagonal
    rows, K = proba.shape
    if share > 0.0:
        for r in range(rows):
            j = np.uint32(decision[r])
            value[r] = proba[r, j] if j < K else 0.0
        if share < 1.0:
            for r in range(rows):
                value[r] *= share
    if share < 1.0:
        for r in range(rows):
            right = 1.0 - share if labels[r] == decision[r] else 0.0
            value[r] = value[r] + right if share > 0.0 else right
    if weight.shape[0] > 0:
        for r in range(rows):
            value[r] *= weight[r]


@njit(cache=True, nogil=True)
def _add(decision, rows, value, weight, sums):  # type: ignore[no-untyped-def]
    # sums (4, M, 2), of values and of weights; beyond the rows these are zero, and decisions are anything
    if sums.shape[1] <= FEW:
        for j in range(sums.shape[1]):
            sums[0, j, 0] += sum_where(value, decision, j)
            sums[0, j, 1] += sum_where(weight, decision, j)
        return
    # four rows in turn: a row's sum must not wait for that of the row before
    s0, s1, s2, s3 = sums[0], sums[1], sums[2], sums[3]
    whole = rows - rows % 4
    for r in range(0, whole, 4):
        j0, j1 = np.uint32(decision[r]), np.uint32(decision[r + 1])
        j2, j3 = np.uint32(decision[r + 2]), np.uint32(decision[r + 3])
        s0[j0, 0] += value[r]
        s0[j0, 1] += weight[r]
        s1[j1, 0] += value[r + 1]
        s1[j1, 1] += weight[r + 1]
        s2[j2, 0] += value[r + 2]
        s2[j2, 1] += weight[r + 2]
        s3[j3, 0] += value[r + 3]
        s3[j3, 1] += weight[r + 3]
    for r in range(whole, rows):
        j0 = np.uint32(decision[r])
        s0[j0, 0] += value[r]
        s0[j0, 1] += weight[r]


@njit(cache=True, nogil=True)
def _add_plain(proba, block, decision, sums):  # type: ignore[no-untyped-def]
    # the same for the model and equal weights, without a stop in between; decision covers the block
    rows = proba.shape[0]
    if sums.shape[1] <= FEW:
        decision[rows:] = -1
        for j in range(sums.shape[1]):
            sums[0, j, 0] += sum_where(block[j, : decision.shape[0]], decision, j)
            sums[0, j, 1] += count_where(decision, j)
        return
    s0, s1, s2, s3 = sums[0], sums[1], sums[2], sums[3]
    whole = rows - rows % 4
    for r in range(0, whole, 4):
        j0, j1 = np.uint32(decision[r]), np.uint32(decision[r + 1])
        j2, j3 = np.uint32(decision[r + 2]), np.uint32(decision[r + 3])
        p0, p1, p2, p3 = proba[r, j0], proba[r + 1, j1], proba[r + 2, j2], proba[r + 3, j3]
        s0[j0, 0] += p0
        s0[j0, 1] += 1.0
        s1[j1, 0] += p1
        s1[j1, 1] += 1.0
        s2[j2, 0] += p2
        s2[j2, 1] += 1.0
        s3[j3, 0] += p3
        s3[j3, 1] += 1.0
    for r in range(whole, rows):
        j0 = np.uint32(decision[r])
        s0[j0, 0] += proba[r, j0]
        s0[j0, 1] += 1.0


@njit(cache=True, nogil=True)
def _add_labels(rows, decision, labels, sums):  # type: ignore[no-untyped-def]
    # sums (4, M, 2), of rows whose label is another, and whose label it is; equal weights
    s0, s1, s2, s3 = sums[0], sums[1], sums[2], sums[3]
    whole = rows - rows % 4
    for r in range(0, whole, 4):
        j0, j1 = np.uint32(decision[r]), np.uint32(decision[r + 1])
        j2, j3 = np.uint32(decision[r + 2]), np.uint32(decision[r + 3])
        s0[j0, np.uint32(labels[r] == j0)] += 1.0
        s1[j1, np.uint32(labels[r + 1] == j1)] += 1.0
        s2[j2, np.uint32(labels[r + 2] == j2)] += 1.0
        s3[j3, np.uint32(labels[r + 3] == j3)] += 1.0
    for r in range(whole, rows):
        j0 = np.uint32(decision[r])
        s0[j0, np.uint32(labels[r] == j0)] += 1.0


@njit(cache=True, nogil=True)
def _add_rows(rows, decision, before, share, labels, weight, matrix):  # type: ignore[no-untyped-def]
    # rows (R, K) of the table, matrix (M, K); beside the decisions of another gain, only what differs from its matrix
    for r in range(rows.shape[0]):
        j, i = decision[r], before[r]
        if i == j:
            continue
        if share < 1.0:
            u = weight[r] * (1.0 - share)
            matrix[j, labels[r]] += u
            if i >= 0:
                matrix[i, labels[r]] -= u
        if share > 0.0:
            v = weight[r] * share
            for k in range(rows.shape[1]):
                matrix[j, k] += v * rows[r, k]
            if i >= 0:
                for k in range(rows.shape[1]):
                    matrix[i, k] -= v * rows[r, k]


@njit(cache=True, nogil=True)
def _count(rows, block, decision, before, share, labels, weight, each, value, sums, matrix):  # type: ignore[no-untyped-def]
    # add what the decisions on one block's rows are worth; each (size,): the rows' weights, zero beyond them
    n_rows = rows.shape[0]
    if share == 0.0 and weight.shape[0] == 0:
        _add_labels(n_rows, decision, labels, sums)
    elif share == 1.0 and weight.shape[0] == 0 and sums.shape[1] == rows.shape[1]:
        _add_plain(rows, block, decision, sums)
    else:
        _values(rows, decision, share, labels, weight, value)
        _add(decision, n_rows, value, each, sums)
    if matrix.shape[0] > 0:
        _add_rows(rows, decision, before, share, labels, each, matrix)


@njit(cache=True, nogil=True)
def _scan(  # type: ignore[no-untyped-def]
    proba, start, stop, size, first, second, power, alone, share, labels, weight, sums, matrices, limits, broken, out
):
    # sums (B, 4, M, 2), matrices (B, M, K), broken (4,) and out (B, n) are written where they are not empty
    B, K = first.shape[0], proba.shape[1]
    counted, checked, written = sums.shape[0] > 0, broken.shape[0] > 0, out.shape[0] > 0
    full = counted and matrices.shape[1] > 0
    # one or two gains are not worth turning a block for, unless a check needs it
    along = second.shape[0] > 0 and power == 0 and (K > MANY or (K >= SOME and B <= 2 and not checked))
    block = new_block(0 if along else K, size, proba)
    x = new_block(K, size, proba) if power > 0 else block
    decision, before = np.empty(size, np.int32), np.empty(size, np.int32)
    value, each = np.zeros(size), np.ones(size)
    row_sum, least, worst, whole = np.empty(size), np.ones(size, proba.dtype), np.zeros(size), np.zeros(size)
    for low in range(start, stop, size):
        rows = proba[low : min(low + size, stop)]
        n_rows = rows.shape[0]
        if not along:
            load_block(rows, block)
        if checked:
            row_sums(rows, block, row_sum, least)
            keep_worst(n_rows, row_sum, worst, whole)
        if power > 0:
            distances(block, power, x)
        y = labels[low : low + n_rows] if share < 1.0 else labels
        w = weight[low : low + n_rows] if weight.shape[0] > 0 else weight
        if weight.shape[0] > 0 or n_rows < size:
            for r in range(size):
                each[r] = 0.0 if r >= n_rows else (w[r] if weight.shape[0] > 0 else 1.0)
                value[r] = 0.0
        if full:
            for r in range(size):
                before[r] = -1
        for g in range(B):
            k = alone[g]
            if k >= 0:
                _decide_one(rows, k, K - 1 if k < K - 1 else K - 2, first[g, 0, k], second[g, k], decision)
            elif along:
                _decide_along(rows, first[g, 0], second[g], decision)
            else:
                decide_block(x, first, second, g, decision)
            if written:
                for r in range(n_rows):
                    out[g, low + r] = decision[r]
            if counted:
                _count(
                    rows, block, decision, before, share, y, w, each, value, sums[g], matrices[g % matrices.shape[0]]
                )
                if full and g == 0:
                    for r in range(size):
                        before[r] = decision[r]
    if checked:
        judge(least, worst, whole, limits, broken)


def kernel_gains(gains: Gains, dtype: np.dtype[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the coefficients as the kernels take them: first (B, 1 or K, K or M), second (B, M) or empty."""
    first, second = gain_coefficients(gains, dtype)
    if second is None:
        return np.ascontiguousarray(first), np.empty((0, 0), dtype)
    return first[:, None, :], second


def _alone(gains: Gains) -> NDArray[np.int64]:
    """Return for each gain the only class that has a coefficient, -1 where there is none or more than one."""
    alone = np.full(len(gains), -1)
    if gains.full is not None or gains.power or gains.n_classes < 3 or gains.has_further:
        return alone
    a, b = gains.pair()
    if np.count_nonzero(a) == a.size:
        return alone
    used = (a != 0) | (b != 0)
    return np.where(used.sum(axis=1) == 1, used.argmax(axis=1), alone)


def decide(proba: NDArray[Any], gains: Gains) -> NDArray[np.int64]:
    """Return the decisions (B, n) of every gain on every row of ``proba`` (n, K); ties go to the largest index."""
    P = np.ascontiguousarray(proba)

    def by(part: Gains, wide: bool) -> NDArray[np.int64]:
        return decide_unchecked(P.astype(np.float64) if wide else P, part, None)[0]

    return np.asarray(decided(gains, P.dtype, by))


def decide_unchecked(
    proba: NDArray[Any], gains: Gains, limits: tuple[float, float] | None
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the decisions (B, n), and which demands of `check_rows` some row does not meet (4,), from one scan.

    No gain may be wide (`is_wide`)."""
    first, second = kernel_gains(gains, proba.dtype)
    n, K = proba.shape
    out = np.empty((len(gains), n), np.int64)
    size, chunk = block_rows(K), chunk_rows(K, n)
    parts, nothing = -(-n // chunk), np.empty(0)
    broken = np.zeros((parts, 0 if limits is None else 4), dtype=np.bool_)
    allowed = np.array([np.inf, np.inf] if limits is None else limits)
    alone, labels = _alone(gains), np.empty(0, dtype=np.int64)
    sums, matrices = np.empty((0, 4, 0, 2)), np.empty((0, 0, 0))

    def work(part: int) -> None:
        low, high = part * chunk, min((part + 1) * chunk, n)
        _scan(proba, low, high, size, first, second, gains.power, alone, 1.0, labels, nothing, sums, matrices, allowed,
              broken[part], out)  # fmt: skip

    run_parts(work, parts)
    return out, np.asarray(broken.any(axis=0))


class NumbaOracle:
    """Compiled oracle on a table in memory, which it does not copy.

    Parameters
    ----------
    table : MemoryTable
        The checked table, in an array.
    model_share : float
        C is estimated from ``model_share * p + (1 - model_share) * 1[y = i]``: 1 the model, 0 the labels.
    """

    def __init__(self, table: MemoryTable, model_share: float) -> None:
        self.table = table
        self.model_share = model_share
        self.exact = model_share == 1.0
        self._weight = np.empty(0) if table.weight is None else table.weight
        self._total = float(table.n_rows) if table.weight is None else float(table.weight.sum())
        self._labels = np.empty(0, dtype=np.int64)
        self.rows = table.class_shares(model_share)
        if not self.exact:
            assert table.labels is not None
            self._labels = table.labels

    def maximize(self, gains: Gains, *, matrix: bool = False) -> Confusion:
        """Return the confusions (batch of B) of the decisions that maximise each gain."""

        def by(part: Gains, wide: bool) -> Confusion:
            return self._scanned(self.table.proba.astype(np.float64) if wide else self.table.proba, part, matrix=matrix)

        return answered(gains, self.table.proba.dtype, by)

    def _scanned(self, proba: NDArray[Any], gains: Gains, *, matrix: bool) -> Confusion:
        """Decide every row by every gain, in the type of ``proba``."""
        first, second = kernel_gains(gains, proba.dtype)
        alone, (n, K) = _alone(gains), proba.shape
        B, M, chunk = len(gains), gains.n_decisions, chunk_rows(K, n)
        most = MATRIX_CELLS // (B * M * ((K if matrix else 0) + 8))
        chunk *= -(-n // (chunk * max(1, most)))
        parts, size = -(-n // chunk), block_rows(K)
        sums = np.zeros((parts, B, 4, M, 2))
        matrices = np.zeros((parts, B, M, K) if matrix else (parts, 1, 0, 0))
        limits, broken, out = np.empty(0), np.empty(0, dtype=np.bool_), np.empty((0, 0), dtype=np.int64)

        def work(part: int) -> None:
            low, high = part * chunk, min((part + 1) * chunk, n)
            _scan(proba, low, high, size, first, second, gains.power, alone, self.model_share, self._labels,
                  self._weight, sums[part], matrices[part], limits, broken, out)  # fmt: skip

        run_parts(work, parts)
        summed = sums.sum(axis=(0, 2)) / self._total
        if self.model_share == 0.0 and self._weight.size == 0:
            # counts of labels that differ, and of labels that are met
            summed = np.stack([summed[..., 1], summed.sum(axis=-1)], axis=-1)
        full = self._matrices(matrices) if matrix else None
        return Confusion(self.rows, np.ascontiguousarray(summed[:, :K, 0]), np.ascontiguousarray(summed[:, :, 1]), full)

    def _matrices(self, parts: NDArray[Any]) -> NDArray[Any]:
        """Return the matrices (B, K, M): what the scan left for all but the first is the difference to it."""
        whole = parts.sum(axis=0)
        whole[1:] = np.maximum(whole[1:] + whole[0], 0.0)
        return np.ascontiguousarray(whole.transpose(0, 2, 1)) / self._total
