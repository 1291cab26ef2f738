"""Tables in compressed sparse rows, of very many classes.

The oracle over sparse tables: one scan of the stored entries.

Partial statistics are summed per part of the rows, parts in a fixed order, so that the result does not depend on the
number of threads; a part counts K numbers, and there are only as many parts as the stored entries pay for. Gains that
have coefficients for one class only, as a metric of K separate scores asks for, are answered all together: of each,
the rows that store the class are looked at, and all others decide alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from confmax import kernels
from confmax.confusion import Array, Confusion, Gains
from confmax.kernels.blocks import run_parts
from confmax.tables.array.kind import ARRAYS
from confmax.tables.array.label_rows import refuse_over
from confmax.tables.array.oracle import kernel_truth, only_classes
from confmax.tables.arrays import refuse_entries
from confmax.tables.decisions import Decisions
from confmax.tables.fingerprints import row_hashes, unordered_hashes
from confmax.tables.memory import MemoryKind
from confmax.tables.precision import answered, gain_coefficients
from confmax.tables.sparse.labels import SparseLabelsOracle, decide_labels, row_numbers, without_zeros
from confmax.tables.sparse.rows import arrays_of, canonical, decide, divided, kernel_gains, loops, probability_of
from confmax.tables.table import Calibrator, Checked, MemoryTable, Oracle, Table, TableOracle

DENSE_CELLS = 10_000_000  # a sparse table of at most so many cells may be made dense,
DENSE_FACTOR = 4  # and one whose cells are at most so many times its stored entries
MOST_CELLS = 100_000_000  # of the probabilities of decisions


@final
class SparseRows(MemoryKind):
    """Rows in a canonical ``scipy.sparse.csr_array`` of float32 or float64."""

    backend = "sparse"
    # a truncated table's zeros carry no information, and a floor would make the table dense: it is never calibrated
    is_truncated = True

    def check(self, proba: Any, *, order: Any = None, hashed: bool = False) -> Checked:
        """Return given probabilities as checked rows; what is canonical already is not copied."""
        given = canonical(proba)
        checked = divided(given)
        if not hashed or checked is given:
            return Checked(self, checked)
        return Checked(self, checked, None, row_hashes(given), unordered_hashes(given))

    def given_hashes(self, proba: Any) -> NDArray[np.uint64]:
        return row_hashes(canonical(proba))

    def host(self, values: Any) -> NDArray[Any]:
        return np.asarray(values.toarray())

    def calibrated(self, calibrator: Calibrator, proba: Any) -> Checked:
        """Return what a calibrator makes of the dense rows, for which the rule was tuned."""
        return ARRAYS.calibrated(calibrator, self.dense(proba, "the calibration of this rule").proba)

    def hashes(self, proba: Any, *, ordered: bool = True) -> NDArray[np.uint64]:
        return row_hashes(proba) if ordered else unordered_hashes(proba)

    def dense(self, proba: Any, what: str) -> Checked:
        """Return the rows as an array, if it is small enough."""
        n, K = proba.shape
        if n * K > max(DENSE_CELLS, DENSE_FACTOR * proba.nnz):
            raise ValueError(
                f"{what} needs a dense table, and this sparse one would have {n} x {K} cells, more than "
                f"{DENSE_CELLS:,}; pass fewer rows, or a dense table if it fits into the memory"
            )
        return Checked(ARRAYS, self.host(proba))

    def column_sums(self, proba: Any, weight: Array | None, *, spread: bool) -> Array:
        p = proba.data.astype(np.float64)
        if spread:
            p *= 1.0 - p
        if weight is not None:
            p *= np.repeat(weight, np.diff(proba.indptr))
        # bincount adds in the order of the rows, in float64
        return np.asarray(np.bincount(proba.indices, p, proba.shape[1]), np.float64)

    def columns(self, proba: Any, classes: Sequence[int]) -> Iterator[tuple[NDArray[Any], Any]]:
        """Yield the stored probabilities (m,) of each of ``classes``, and their rows (m,)."""
        by_column = proba.tocsc()
        stored = (slice(*by_column.indptr[k : k + 2]) for k in classes)
        return ((by_column.data[each], by_column.indices[each]) for each in stored)

    def probability_of(self, proba: Any, decision: NDArray[Any]) -> NDArray[Any]:
        return probability_of(proba, np.asarray(decision))

    def decide(self, proba: Any, gains: Gains) -> NDArray[np.int32]:
        return decide(proba, gains)

    def probabilities(self, proba: Any, gains: Gains, weights: Array) -> Any:
        """Return the probability of every decision (n, M), a dense table; ValueError if it would be large."""
        n = proba.shape[0]
        M = gains.n_decisions
        if n * M > MOST_CELLS:
            raise ValueError(
                f"the probabilities of {M} decisions on {n} rows are a dense table of more than {MOST_CELLS:,} cells; "
                f"pass fewer rows at a time"
            )
        return super().probabilities(proba, gains, weights)

    def check_labels(self, proba: Any, *, order: Any = None) -> Checked:
        """Return sparse probabilities as a csr_array of entries in (0, 1]; what is not stored is zero."""
        P = without_zeros(canonical(proba, fewest=1))

        def place(k: int) -> tuple[int, int]:
            return int(row_numbers(P)[k]), int(P.indices[k])

        refuse_entries(P.data, place)
        if (P.data > 1.0).any():
            refuse_over(P.data, place)
            P = P.copy()
            P.data = np.minimum(P.data, P.dtype.type(1.0))
        return Checked(self, P)

    def with_entries(self, proba: Any, change: Any) -> Any:
        return type(proba)((change(proba.data, proba.indices), proba.indices, proba.indptr), proba.shape)

    def decide_labels(self, proba: Any, gains: Gains, decisions: Decisions) -> Any:
        return decide_labels(proba, gains, decisions)

    def stacked(self, parts: Sequence[Any]) -> Any:
        return vstack(parts, format="csr")

    def as_given(self, proba: Any, found: Any) -> Any:
        """Return a sparse matrix or array in rows, as ``proba`` is."""
        return type(proba.tocsr())(found)

    def oracle(self, table: Table, model_share: float) -> Oracle:
        """Return the scan of the stored entries; zeros of a table in another storage are left out."""
        if table.decisions.several and isinstance(table, MemoryTable) and table.storage is self:
            return SparseLabelsOracle(table, model_share)
        if not (isinstance(table, MemoryTable) and table.storage is self):
            dense = table.dense("backend='sparse'")
            table = dense.held_as(self, divided(canonical(csr_array(dense.proba))))
        return SparseOracle(table, model_share)


SPARSE = SparseRows()


# --- the oracle over sparse tables ------------------------------------------------------------------------------------


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
