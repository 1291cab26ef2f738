"""Tables in compressed sparse rows, of very many classes.

Their scan reads the stored entries.

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
from confmax.tables.part import Part
from confmax.tables.precision import answered, gain_coefficients
from confmax.tables.sparse.labels import decide_labels, row_numbers, scan_labels, without_zeros
from confmax.tables.sparse.rows import arrays_of, canonical, decide, divided, kernel_gains, loops, probability_of
from confmax.tables.storage import Calibrator, Checked

DENSE_CELLS = 10_000_000  # a sparse table of at most so many cells may be made dense,
DENSE_FACTOR = 4  # and one whose cells are at most so many times its stored entries
MOST_CELLS = 100_000_000  # of the probabilities of decisions
MOST_PARTS = 64
PART_ROWS = 4096
PART_CELLS = 1 << 24  # partial statistics hold at most this many numbers together
MATRIX_CELLS = 1 << 24  # of a confusion matrix


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

    def scan(self, part: Part, gains: Gains, share: Any, *, matrix: bool, by: Part) -> Confusion:
        if part.several:
            return scan_labels(part, gains, share, matrix=matrix, by=by)
        K = part.n_classes
        M = gains.n_decisions
        if matrix and K * M > MATRIX_CELLS:
            raise ValueError(
                f"the whole confusion matrix of {K} classes has {K * M:,} entries, more than {MATRIX_CELLS:,}; take a "
                f"metric of its diagonal and column sums, or merge classes"
            )
        if by is not part:
            return self.counted(part, gains, share, matrix=matrix, by=by)
        return answered(gains, part.proba, lambda proba, some: self._answers(part, proba, some, share, matrix=matrix))

    def held(self, part: Part, what: str) -> Part:
        """Return the rows without their zeros."""
        if part.storage is self:
            return part
        dense = part.dense(what)
        return dense.held_as(self, divided(canonical(csr_array(dense.proba))))

    def _answers(self, part: Part, proba: Any, gains: Gains, share: float, *, matrix: bool) -> Confusion:
        alone = np.full(len(gains), -1) if matrix else only_classes(gains)
        if (alone < 0).all():
            return self._scanned(part, proba, gains, share, matrix=matrix)
        diagonal, columns = _of_one_class(part, proba, gains, share, alone)
        others = np.flatnonzero(alone < 0)
        if len(others):
            a, b = gains.pair()
            answers = self._scanned(part, proba, Gains.reduced(a[others], b[others]), share, matrix=False)
            diagonal[others] = answers.diagonal
            columns[others] = answers.columns
        return Confusion(np.zeros(part.n_classes), diagonal, columns)

    def _scanned(self, part: Part, proba: Any, gains: Gains, share: float, *, matrix: bool) -> Confusion:
        """Decide every row by every gain."""
        if kernels.native is None:
            return self.counted(part, gains, share, matrix=matrix, by=part)
        B = len(gains)
        K = part.n_classes
        M = gains.n_decisions
        # every part has statistics of its own, which are added in the order of the parts
        edges = _edges(part, B * (K * M if matrix else K + M))
        parts = len(edges) - 1
        diagonal = np.zeros((parts, B, K))
        columns = np.zeros((parts, B, M))
        matrices = np.zeros((parts, B, K, M) if matrix else (parts, B, 0, 0))
        truth = kernel_truth(part, share)
        # what a power of the distance multiplies is dense: those decisions are made first, by blocks of rows
        made = decide(proba, gains) if gains.power else np.empty((0, 0), np.int32)
        by = kernel_gains(proba, gains)
        arrays = arrays_of(proba)

        def work(k: int) -> None:
            sums = diagonal[k], columns[k], matrices[k]
            kernels.native.sparse_scan(*arrays, edges[k], edges[k + 1], *by, made, *truth, *sums)

        run_parts(work, parts)
        full = matrices.sum(axis=0) if matrix else None
        return Confusion(np.zeros(K), diagonal.sum(axis=0), columns.sum(axis=0), full)


SPARSE = SparseRows()


def _of_one_class(part: Part, proba: Any, gains: Gains, share: float, alone: NDArray[np.int64]) -> tuple[Array, Array]:
    """Return diagonals and column sums (B, K), filled for the gains that have coefficients for one class only."""
    K = part.n_classes
    truth = kernel_truth(part, share)
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
    edges = _edges(part, 3 * len(mine))
    moved = np.zeros((len(edges) - 1, len(mine), 3))
    arrays = arrays_of(proba)
    described = (begin, listed, a, b, always, rest, *truth)
    run_parts(
        lambda k: loops().sparse_alone(*arrays, edges[k], edges[k + 1], *described, moved[k]),
        len(moved),
    )
    weight, own, others = moved.sum(axis=0).T
    diagonal = np.zeros((len(gains), K))
    columns = np.zeros((len(gains), K))
    # a difference of sums may end a rounding below zero
    rows = share * part.column_totals
    if share < 1.0:
        rows = rows + (1.0 - share) * part.label_sums
    beyond = np.maximum(part.weight_total - weight, 0.0)
    columns[mine, k] = np.where(always, beyond, weight)
    columns[mine, rest] = np.where(always, weight, beyond)
    diagonal[mine, k] = np.where(always, np.maximum(rows[k] - own, 0.0), own)
    diagonal[mine, rest] = np.where(always, others, np.maximum(rows[rest] - others, 0.0))
    return diagonal, columns


def _edges(part: Part, cells: int) -> list[int]:
    """Return the rows where parts begin and end: as many parts as entries and memory pay for, per part ``cells``.

    The number depends on the table and the gains alone, never on the threads.
    """
    n = part.n_rows
    stored = part.proba.nnz
    pays = (n + stored) // (4 * part.n_classes)
    parts = min(MOST_PARTS, -(-n // PART_ROWS), pays, PART_CELLS // max(cells, 1))
    return np.linspace(0, n, max(parts, 1) + 1).astype(np.int64).tolist()
