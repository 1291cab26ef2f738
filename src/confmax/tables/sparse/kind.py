"""Tables in compressed sparse rows, of very many classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from confmax.confusion import Array, Gains
from confmax.tables.array.kind import ARRAYS
from confmax.tables.array.label_rows import refuse_over
from confmax.tables.arrays import refuse_entries
from confmax.tables.decisions import Decisions
from confmax.tables.fingerprints import row_hashes, unordered_hashes
from confmax.tables.memory import MemoryKind
from confmax.tables.sparse.labels import SparseLabelsOracle, decide_labels, row_numbers, without_zeros
from confmax.tables.sparse.oracle import SparseOracle
from confmax.tables.sparse.rows import canonical, decide, divided, probability_of
from confmax.tables.table import Calibrator, Checked, MemoryTable, Oracle, Table

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
