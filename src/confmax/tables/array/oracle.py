"""The default oracle: scans of the table as it lies, block by block in the cache.

Statistics are summed per chunk of rows, chunks in a fixed order: the result does not depend on the number of threads.
No fused multiply-add and no reassociation: compiled decisions equal those of NumPy bit for bit.

The table is never copied. A scan reads it in its own layout and transposes blocks of rows that fit the inner caches to
class-major order, in squares of vectors. Up to 128 classes, this takes no longer than the memory access; beyond that,
each row is compared along itself. A copy in class-major order would save a quarter of a scan and cost three scans.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax import kernels
from confmax.confusion import Array, Confusion, Gains
from confmax.kernels.blocks import block_rows, chunk_rows, over_rows
from confmax.tables.precision import answered, decided, features, gain_coefficients
from confmax.tables.table import MemoryTable, TableOracle

MATRIX_CELLS = 1 << 24  # partial statistics hold at most this many cells together
ROWS = 4096  # whose scores NumPy holds at a time

# for the scan: what it does not need is empty, and what is empty is not written
NO_TRUTH = 1.0, np.empty(0, dtype=np.int64), np.empty(0)
NO_SUMS = np.empty((0, 4, 0, 2)), np.empty((0, 0, 0))
UNCHECKED = np.empty(0), np.empty(0, dtype=np.bool_)
NO_DECISIONS = np.empty((0, 0), dtype=np.int64)


def decide(proba: NDArray[Any], gains: Gains) -> NDArray[np.int64]:
    """Return the decisions (B, n) of every gain on every row of ``proba`` (n, K); ties go to the largest index."""
    P = np.ascontiguousarray(proba)

    def by(part: Gains, wide: bool) -> NDArray[np.int64]:
        return decide_unchecked(P.astype(np.float64) if wide else P, part, None)[0]

    return np.asarray(decided(gains, P.dtype, by))


def decide_by_numpy(proba: NDArray[Any], gains: Gains) -> NDArray[np.int64]:
    """Return `decide` of gains that are not wide (`is_wide`): the definition, which the kernels are tested against."""
    first, second = gain_coefficients(gains, proba.dtype)
    out = np.empty((len(gains), len(proba)), np.int64)
    for low in range(0, len(proba), ROWS):
        rows = proba[low : low + ROWS]
        x = features(rows, gains.power)
        for g in range(len(gains)):
            if second is not None:
                # decisions beyond the classes have an offset alone
                scores = np.tile(second[g], (len(x), 1))
                # two operations, never fused: compiled scans round in the same two places
                scores[:, : x.shape[1]] += x * first[g]
            else:
                scores = rows[:, :1] * first[g, 0]
                for i in range(1, rows.shape[1]):
                    scores = scores + rows[:, i : i + 1] * first[g, i]
            # numpy.argmax takes the first of equal scores, and ties belong to the largest index
            out[g, low : low + ROWS] = scores.shape[1] - 1 - np.argmax(scores[:, ::-1], axis=1)
    return out


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


def decide_unchecked(
    proba: NDArray[Any], gains: Gains, limits: tuple[float, float] | None
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the decisions (B, n), and which demands of `check_rows` some row does not meet (4,), from one scan.

    No gain may be wide (`is_wide`); only the kernels check rows, by ``limits``.
    """
    if kernels.native is None:
        assert limits is None
        return decide_by_numpy(proba, gains), np.zeros(4, dtype=np.bool_)
    first, second = kernel_gains(gains, proba.dtype)
    alone = only_classes(gains)
    (n, K) = proba.shape
    size = block_rows(K)
    chunk = chunk_rows(K, n)
    out = np.empty((len(gains), n), np.int64)
    broken = np.zeros((-(-n // chunk), 0 if limits is None else 4), dtype=np.bool_)
    allowed = np.array(limits or (np.inf, np.inf))

    def work(part: int, start: int, stop: int) -> None:
        kernels.native.scan(
            proba, start, stop, size, first, second, gains.power, alone, *NO_TRUTH, *NO_SUMS, allowed, broken[part], out
        )

    over_rows(work, n, chunk)
    return out, np.asarray(broken.any(axis=0))


def kernel_truth(table: MemoryTable, model_share: float) -> tuple[float, NDArray[np.int64], Array]:
    """Return what kernels count by: the share of the model, labels and weights (n,), empty where there are none."""
    labels = np.empty(0, dtype=np.int64) if table.labels is None else table.labels
    return model_share, labels, np.empty(0) if table.weight is None else table.weight


class ArrayOracle(TableOracle):
    """Oracle on a table in memory, an array that it does not copy: compiled, or by NumPy where no compiler was."""

    table: MemoryTable

    def maximize(self, gains: Gains, *, matrix: bool = False) -> Confusion:
        """Return the confusions (batch of B) of the decisions that maximise each gain."""
        if kernels.native is None:
            return self.table.counted_by(self, gains, matrix=matrix)

        def by(part: Gains, wide: bool) -> Confusion:
            return self._scanned(self.table.proba.astype(np.float64) if wide else self.table.proba, part, matrix=matrix)

        return answered(gains, self.table.proba.dtype, by)

    def _scanned(self, proba: NDArray[Any], gains: Gains, *, matrix: bool) -> Confusion:
        """Decide every row by every gain, in the type of ``proba``."""
        first, second = kernel_gains(gains, proba.dtype)
        alone = only_classes(gains)
        truth = kernel_truth(self.table, self.model_share)
        (n, K) = proba.shape
        B = len(gains)
        M = gains.n_decisions
        chunk = chunk_rows(K, n)
        # a part of the rows more is a copy of all statistics more
        most = MATRIX_CELLS // (B * M * ((K if matrix else 0) + 8))
        chunk *= -(-n // (chunk * max(1, most)))
        parts = -(-n // chunk)
        size = block_rows(K)
        sums = np.zeros((parts, B, 4, M, 2))
        matrices = np.zeros((parts, B, M, K) if matrix else (parts, 1, 0, 0))

        def work(part: int, start: int, stop: int) -> None:
            kernels.native.scan(
                proba,
                start,
                stop,
                size,
                first,
                second,
                gains.power,
                alone,
                *truth,
                sums[part],
                matrices[part],
                *UNCHECKED,
                NO_DECISIONS,
            )

        over_rows(work, n, chunk)
        summed = sums.sum(axis=(0, 2)) / self.table.weight_total
        # without weights and without the model, the kernel counts whole numbers, and faster than sums of ones
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
