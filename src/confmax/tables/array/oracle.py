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

from confmax.confusion import Array, Confusion, Gains
from confmax.kernels.blocks import MANY, block_rows, chunk_rows, distances, load_block, new_block, over_rows
from confmax.kernels.simd import BYTES, count_where, decide_along, decide_full, decide_reduced, sum_where
from confmax.tables.arrays import judge, keep_worst, row_sums
from confmax.tables.precision import answered, decided, gain_coefficients
from confmax.tables.table import MemoryTable, TableOracle

MATRIX_CELLS = 1 << 24  # partial statistics hold at most this many cells together
SOME = 48  # classes from which one or two gains are not worth turning a block for
SINGLE = 12  # classes from which a gain of one class alone is decided without vectors of all
FEW = 4  # decisions up to which a sum for each is faster than adding every row to its own

# for the scan, which is compiled once: what it does not need is empty, and what is empty is not written
NO_TRUTH = 1.0, np.empty(0, dtype=np.int64), np.empty(0)
NO_SUMS = np.empty((0, 4, 0, 2)), np.empty((0, 0, 0))
UNCHECKED = np.empty(0), np.empty(0, dtype=np.bool_)
NO_DECISIONS = np.empty((0, 0), dtype=np.int64)


@njit(cache=True, nogil=True)
def _decide_one(proba, k, rest, a, b, decision):  # type: ignore[no-untyped-def]
    # only class k has coefficients, all others score zero and the largest index of them is rest; products in place of
    # a choice, because whether a row's class wins is hard for the processor to foresee
    zero, more = proba.dtype.type(0), k - rest
    for r in range(proba.shape[0]):
        score = a * proba[r, k] + b
        decision[r] = rest + more * ((score > zero) | ((score == zero) & (more > 0)))


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
def _values(proba, decision, share, labels, each, value):  # type: ignore[no-untyped-def]
    # what each row (R, K) adds to the diagonal; one loop per term is vectorised, one of all terms is not
    rows, K = proba.shape
    for r in range(rows):
        j = np.uint32(decision[r])
        value[r] = share * proba[r, j] if share > 0.0 and j < K else 0.0
    if share < 1.0:
        for r in range(rows):
            value[r] += 1.0 - share if labels[r] == decision[r] else 0.0
    for r in range(rows):
        value[r] *= each[r]


# The three sums below take four rows in turn, each to sums of its own: a row must not wait for the sum of the row
# before. The rows that are left over go to the first: which sum a row goes to decides the last bit of the statistics.


@njit(cache=True, nogil=True)
def _add(decision, rows, value, each, sums):  # type: ignore[no-untyped-def]
    # sums (4, M, 2), of values and of weights; beyond the rows these are zero, and decisions are anything
    if sums.shape[1] <= FEW:
        for k in range(sums.shape[1]):
            sums[0, k, 0] += sum_where(value, decision, k)
            sums[0, k, 1] += sum_where(each, decision, k)
        return
    whole = rows - rows % 4
    for r in range(0, whole, 4):
        for s in range(4):
            j = np.uint32(decision[r + s])
            sums[s, j, 0] += value[r + s]
            sums[s, j, 1] += each[r + s]
    for r in range(whole, rows):
        j = np.uint32(decision[r])
        sums[0, j, 0] += value[r]
        sums[0, j, 1] += each[r]


@njit(cache=True, nogil=True)
def _add_plain(proba, block, decision, sums):  # type: ignore[no-untyped-def]
    # the same for the model and equal weights, a third faster without the values in between
    rows = proba.shape[0]
    if sums.shape[1] <= FEW:
        decision[rows:] = -1
        for k in range(sums.shape[1]):
            sums[0, k, 0] += sum_where(block[k, : decision.shape[0]], decision, k)
            sums[0, k, 1] += count_where(decision, k)
        return
    whole = rows - rows % 4
    for r in range(0, whole, 4):
        for s in range(4):
            j = np.uint32(decision[r + s])
            sums[s, j, 0] += proba[r + s, j]
            sums[s, j, 1] += 1.0
    for r in range(whole, rows):
        j = np.uint32(decision[r])
        sums[0, j, 0] += proba[r, j]
        sums[0, j, 1] += 1.0


@njit(cache=True, nogil=True)
def _add_labels(rows, decision, labels, sums):  # type: ignore[no-untyped-def]
    # sums (4, M, 2), of rows whose label is another, and whose label it is; equal weights
    whole = rows - rows % 4
    for r in range(0, whole, 4):
        for s in range(4):
            j = np.uint32(decision[r + s])
            sums[s, j, np.uint32(labels[r + s] == j)] += 1.0
    for r in range(whole, rows):
        j = np.uint32(decision[r])
        sums[0, j, np.uint32(labels[r] == j)] += 1.0


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
def _count(rows, block, decision, before, share, labels, weighted, each, value, sums, matrix):  # type: ignore[no-untyped-def]
    # add what the decisions on one block's rows are worth; each (size,): the rows' weights, zero beyond them
    if share == 0.0 and not weighted:
        _add_labels(rows.shape[0], decision, labels, sums)
    elif share == 1.0 and not weighted and sums.shape[1] == rows.shape[1]:
        _add_plain(rows, block, decision, sums)
    else:
        _values(rows, decision, share, labels, each, value)
        _add(decision, rows.shape[0], value, each, sums)
    if matrix.shape[0] > 0:
        _add_rows(rows, decision, before, share, labels, each, matrix)


@njit(cache=True, nogil=True)
def _scan(  # type: ignore[no-untyped-def]
    proba, start, stop, size, first, second, power, alone, share, labels, weight, sums, matrices, limits, broken, out
):
    # sums (B, 4, M, 2), matrices (B, M, K), broken (4,) and out (B, n) are written where they are not empty
    B, K = first.shape[0], proba.shape[1]
    counted, checked, written = sums.shape[0] > 0, broken.shape[0] > 0, out.shape[0] > 0
    full, weighted = counted and matrices.shape[1] > 0, weight.shape[0] > 0
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
        # the block itself stays: a row counts with the probability of its decision, whatever decides
        if power > 0:
            distances(block, power, x)
        y = labels[low : low + n_rows]
        if weighted:
            for r in range(n_rows):
                each[r] = weight[low + r]
        # the last block's rows may be fewer, and masked sums run over whole vectors
        each[n_rows:] = 0.0
        value[n_rows:] = 0.0
        before[:] = -1
        for g in range(B):
            k = alone[g]
            if k >= 0 and K >= SINGLE:
                _decide_one(rows, k, K - 1 if k < K - 1 else K - 2, first[g, 0, k], second[g, k], decision)
            elif along:
                _decide_along(rows, first[g, 0], second[g], decision)
            else:
                decide_block(x, first, second, g, decision)
            if written:
                out[g, low : low + n_rows] = decision[:n_rows]
            if counted:
                matrix = matrices[g % matrices.shape[0]]
                _count(rows, block, decision, before, share, y, weighted, each, value, sums[g], matrix)
                if full and g == 0:
                    before[:] = decision
    if checked:
        judge(least, worst, whole, limits, broken)


def kernel_gains(gains: Gains, dtype: np.dtype[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the coefficients as the kernels take them: first (B, 1 or K, K or M), second (B, M) or empty."""
    first, second = gain_coefficients(gains, dtype)
    if second is None:
        return np.ascontiguousarray(first), np.empty((0, 0), dtype)
    return first[:, None, :], second


def only_classes(gains: Gains) -> NDArray[np.int64]:
    """Return for each gain (B,) the only class that has a coefficient, -1 where there is none or more than one."""
    alone = np.full(len(gains), -1)
    if gains.full is not None or gains.power or gains.has_further:
        return alone
    a, b = gains.pair()
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
    alone, (n, K) = only_classes(gains), proba.shape
    size, chunk, out = block_rows(K), chunk_rows(K, n), np.empty((len(gains), n), np.int64)
    broken = np.zeros((-(-n // chunk), 0 if limits is None else 4), dtype=np.bool_)
    allowed = np.array(limits or (np.inf, np.inf))

    def work(part: int, start: int, stop: int) -> None:
        _scan(proba, start, stop, size, first, second, gains.power, alone, *NO_TRUTH, *NO_SUMS, allowed, broken[part],
              out)  # fmt: skip

    over_rows(work, n, chunk)
    return out, np.asarray(broken.any(axis=0))


def kernel_truth(table: MemoryTable, model_share: float) -> tuple[float, NDArray[np.int64], Array]:
    """Return what kernels count by: the share of the model, labels and weights (n,), empty where there are none."""
    labels = np.empty(0, dtype=np.int64) if table.labels is None else table.labels
    return model_share, labels, np.empty(0) if table.weight is None else table.weight


class NumbaOracle(TableOracle):
    """Compiled oracle on a table in memory, an array that it does not copy."""

    table: MemoryTable

    def maximize(self, gains: Gains, *, matrix: bool = False) -> Confusion:
        """Return the confusions (batch of B) of the decisions that maximise each gain."""

        def by(part: Gains, wide: bool) -> Confusion:
            return self._scanned(self.table.proba.astype(np.float64) if wide else self.table.proba, part, matrix=matrix)

        return answered(gains, self.table.proba.dtype, by)

    def _scanned(self, proba: NDArray[Any], gains: Gains, *, matrix: bool) -> Confusion:
        """Decide every row by every gain, in the type of ``proba``."""
        first, second = kernel_gains(gains, proba.dtype)
        alone, truth, (n, K) = only_classes(gains), kernel_truth(self.table, self.model_share), proba.shape
        B, M, chunk = len(gains), gains.n_decisions, chunk_rows(K, n)
        # a part of the rows more is a copy of all statistics more
        most = MATRIX_CELLS // (B * M * ((K if matrix else 0) + 8))
        chunk *= -(-n // (chunk * max(1, most)))
        parts, size = -(-n // chunk), block_rows(K)
        sums = np.zeros((parts, B, 4, M, 2))
        matrices = np.zeros((parts, B, M, K) if matrix else (parts, 1, 0, 0))

        def work(part: int, start: int, stop: int) -> None:
            _scan(proba, start, stop, size, first, second, gains.power, alone, *truth, sums[part], matrices[part],
                  *UNCHECKED, NO_DECISIONS)  # fmt: skip

        over_rows(work, n, chunk)
        summed = sums.sum(axis=(0, 2)) / self.table.weight_total
        # without weights and without the model, `_add_labels` counts whole numbers, and faster than sums of ones
        if self.model_share == 0.0 and self.table.weight is None:
            # counts of labels that differ, and of labels that are met
            summed = np.stack([summed[..., 1], summed.sum(axis=-1)], axis=-1)
        full = self._matrices(matrices) if matrix else None
        return Confusion(self.rows, np.ascontiguousarray(summed[:, :K, 0]), np.ascontiguousarray(summed[:, :, 1]), full)

    def _matrices(self, parts: NDArray[Any]) -> NDArray[Any]:
        """Return the matrices (B, K, M): what the scan left for all but the first is the difference to it."""
        whole = parts.sum(axis=0)
        whole[1:] = np.maximum(whole[1:] + whole[0], 0.0)
        return np.ascontiguousarray(whole.transpose(0, 2, 1)) / self.table.weight_total
