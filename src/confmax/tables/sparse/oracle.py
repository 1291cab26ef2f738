"""The oracle over sparse tables: one scan of the stored entries.

Partial statistics are summed per part of the rows, parts in a fixed order, so that the result does not depend on the
number of threads; a part counts K numbers, and there are only as many parts as the stored entries pay for. Gains that
have coefficients for one class only, as a metric of K separate scores asks for, are answered all together: of each,
the rows that store the class are looked at, and all others decide alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax import kernels
from confmax.confusion import Array, Confusion, Gains
from confmax.kernels.blocks import run_parts
from confmax.tables.array.oracle import kernel_truth, only_classes
from confmax.tables.precision import answered, gain_coefficients
from confmax.tables.sparse.rows import arrays_of, decide, kernel_gains, loops
from confmax.tables.table import MemoryTable, TableOracle

MOST_PARTS = 64
PART_ROWS = 4096
PART_CELLS = 1 << 24  # partial statistics hold at most this many numbers together
MATRIX_CELLS = 1 << 24  # of a confusion matrix


class SparseOracle(TableOracle):
    """Oracle on a table in sparse rows: compiled, or by NumPy where no compiler was."""

    table: MemoryTable

    def maximize(self, gains: Gains, *, matrix: bool = False) -> Confusion:
        """Return the confusions (batch of B) of the best decisions by each gain; ValueError for a large matrix."""
        K = self.table.n_classes
        M = gains.n_decisions
        if matrix and K * M > MATRIX_CELLS:
            raise ValueError(
                f"the whole confusion matrix of {K} classes has {K * M:,} entries, more than {MATRIX_CELLS:,}; take a "
                f"metric of its diagonal and column sums, or merge classes"
            )
        return answered(gains, self.table.proba, lambda proba, part: self._answers(proba, part, matrix=matrix))

    def _answers(self, proba: Any, gains: Gains, *, matrix: bool) -> Confusion:
        alone = np.full(len(gains), -1) if matrix else only_classes(gains)
        if (alone < 0).all():
            return self._scanned(proba, gains, matrix=matrix)
        diagonal, columns = self._of_one_class(proba, gains, alone)
        others = np.flatnonzero(alone < 0)
        if len(others):
            a, b = gains.pair()
            answers = self._scanned(proba, Gains.reduced(a[others], b[others]), matrix=False)
            diagonal[others] = answers.diagonal
            columns[others] = answers.columns
        return Confusion(self.rows, diagonal, columns)

    def _scanned(self, proba: Any, gains: Gains, *, matrix: bool) -> Confusion:
        """Decide every row by every gain."""
        if kernels.native is None:
            return self.table.counted_by(self, gains, matrix=matrix)
        B = len(gains)
        K = self.table.n_classes
        M = gains.n_decisions
        # every part has statistics of its own, which are added in the order of the parts
        edges = self._edges(B * (K * M if matrix else K + M))
        parts = len(edges) - 1
        diagonal = np.zeros((parts, B, K))
        columns = np.zeros((parts, B, M))
        matrices = np.zeros((parts, B, K, M) if matrix else (parts, B, 0, 0))
        truth = kernel_truth(self.table, self.model_share)
        # what a power of the distance multiplies is dense: those decisions are made first, by blocks of rows
        made = decide(proba, gains) if gains.power else np.empty((0, 0), np.int32)
        by = kernel_gains(proba, gains)
        arrays = arrays_of(proba)

        def work(part: int) -> None:
            kernels.native.sparse_scan(
                *arrays, edges[part], edges[part + 1], *by, made, *truth, diagonal[part], columns[part], matrices[part]
            )

        run_parts(work, parts)
        total = self.table.weight_total
        full = matrices.sum(axis=0) / total if matrix else None
        return Confusion(self.rows, diagonal.sum(axis=0) / total, columns.sum(axis=0) / total, full)

    def _of_one_class(self, proba: Any, gains: Gains, alone: NDArray[np.int64]) -> tuple[Array, Array]:
        """Return diagonals and column sums (B, K), filled for the gains that have coefficients for one class only."""
        K = self.table.n_classes
        truth = kernel_truth(self.table, self.model_share)
        mine = np.flatnonzero(alone >= 0)
        k = alone[mine]
        first, second = gain_coefficients(gains, proba.dtype)
        assert second is not None
        a = first[mine, k]
        b = second[mine, k]
        # where the class does not win, all others score zero, and the largest index of them does
        rest = np.where(k == K - 1, K - 2, K - 1)
        always = np.where(k < rest, b > 0, b >= 0)
        listed = np.argsort(k, kind="stable")
        begin = np.searchsorted(k[listed], np.arange(K + 1))
        edges = self._edges(3 * len(mine))
        moved = np.zeros((len(edges) - 1, len(mine), 3))
        arrays = arrays_of(proba)
        described = (begin, listed, a, b, always, rest, *truth)
        run_parts(
            lambda part: loops().sparse_alone(*arrays, edges[part], edges[part + 1], *described, moved[part]),
            len(moved),
        )
        weight, own, others = moved.sum(axis=0).T / self.table.weight_total
        diagonal = np.zeros((len(gains), K))
        columns = np.zeros((len(gains), K))
        # a difference of sums may end a rounding below zero
        rows = self.rows
        columns[mine, k] = np.where(always, np.maximum(1.0 - weight, 0.0), weight)
        columns[mine, rest] = np.where(always, weight, np.maximum(1.0 - weight, 0.0))
        diagonal[mine, k] = np.where(always, np.maximum(rows[k] - own, 0.0), own)
        diagonal[mine, rest] = np.where(always, others, np.maximum(rows[rest] - others, 0.0))
        return diagonal, columns

    def _edges(self, cells: int) -> list[int]:
        """Return the rows where parts begin and end: as many parts as entries and memory pay for, per part ``cells``.

        The number depends on the table and the gains alone, never on the threads.
        """
        n = self.table.n_rows
        stored = self.table.proba.nnz
        pays = (n + stored) // (4 * self.table.n_classes)
        parts = min(MOST_PARTS, -(-n // PART_ROWS), pays, PART_CELLS // max(cells, 1))
        return np.linspace(0, n, max(parts, 1) + 1).astype(np.int64).tolist()
