"""Several labels per row, of very many labels: the oracle and the decisions on tables that store few of each row.

What is not stored is zero, and so is its estimate by the model. Of any number of labels, only stored ones are decided:
a rule that gives every row a label that it does not store would fill a dense table. Of the k best labels, one that a
row does not store has the score b_l as on a dense table. Of these, a row needs the k with the largest offsets that it
does not store, and they are among the first k + m in falling order, m being the number that it stores.

A pass takes time for the stored entries and for L. It gives the pairs of row and label that are decided, and the sums
over these are taken in NumPy.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax.confusion import Array, Confusion, Gains
from confmax.kernels.blocks import over_rows
from confmax.tables.arrays import as_float
from confmax.tables.decisions import Decisions
from confmax.tables.precision import answered, gain_coefficients, is_wide
from confmax.tables.sparse.rows import arrays_of, largest_first, loops
from confmax.tables.table import MemoryTable

ROWS = 1 << 12  # rows that are decided at a time


class Pairs(NamedTuple):
    """Pairs of row and label that are decided, and which stored entry each is, -1 for none; (c,) each, by row."""

    row: NDArray[Any]
    label: NDArray[Any]
    place: NDArray[Any]


def decide_labels(csr: Any, gains: Gains, decisions: Decisions) -> Any:
    """Return which labels one gain chooses on every row of ``csr`` (n, L): a csr_array (n, L) of uint8.

    >>> from scipy.sparse import csr_array
    >>> decide_labels(csr_array([[0.8, 0.0], [0.1, 0.4]]), Gains.reduced([1.0, 1.0], -0.3), Decisions(1)).toarray()
    array([[1, 0],
           [0, 1]], dtype=uint8)
    """
    from scipy.sparse import csr_array

    # as for arrays: a gain whose coefficients the table's type does not hold is decided in float64
    P = csr.astype(np.float64) if is_wide(gains, csr.dtype).any() else csr
    found = _chosen(P, gains, decisions)[0]
    out = csr_array((np.ones(len(found.row), np.uint8), (found.row, found.label)), shape=csr.shape)
    out.sort_indices()
    return out


def row_numbers(csr: Any) -> NDArray[np.intp]:
    """Return the row of every stored entry (m,)."""
    return np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))


def _chosen(csr: Any, gains: Gains, decisions: Decisions) -> list[Pairs]:
    """Return what every gain decides, in the type of ``csr`` (n, L)."""
    first, second = gain_coefficients(gains, csr.dtype)
    assert second is not None
    n, L = csr.shape
    if decisions.most is None:
        rows = row_numbers(csr)
        j = csr.indices
        places = [np.flatnonzero(a[j] * csr.data + b[j] > 0) for a, b in zip(first, second, strict=True)]
        return [Pairs(rows[place], j[place], place) for place in places]
    most = min(decisions.most, L)
    listed = min(L, most + int(np.diff(csr.indptr).max(initial=0)))
    label, place = (np.full((n, most), -1, dtype=np.int64) for _ in range(2))
    arrays = arrays_of(csr)
    found = []
    for a, b in zip(first, second, strict=True):
        pairs = np.stack([a, b], axis=1)
        order = largest_first(b, listed)
        how = (pairs, order, int(decisions.positive), label, place)
        over_rows(lambda _, low, high, how=how: loops().sparse_best(*arrays, low, high, *how), n, ROWS)  # type: ignore[misc]
        made = label >= 0
        found.append(Pairs(np.nonzero(made)[0], label[made], place[made]))
    return found


class SparseLabelsOracle:
    """The oracle of a sparse table of several labels: `LabelsOracle` on what is stored.

    Parameters
    ----------
    table : MemoryTable
        The rows, with labels (n, L), a csr_array of 0 and 1, and the ``decisions`` that are made for a row.
    model_share : float or ndarray (L,)
        The shares of the model in the statistics, of all labels or of each.
    model : ndarray (m,) or None
        The model's probabilities of the stored entries that statistics count, if others than those of the table.

    Attributes
    ----------
    rows : ndarray (L,)
        How often labels are true under the estimate.
    exact : bool
        Whether the answers are true maximisers: all shares are one, and decisions are made by what is counted.
    """

    def __init__(self, table: MemoryTable, model_share: ArrayLike, model: Array | None = None) -> None:
        self.table = table
        self.model_share: Any = model_share
        self.shares = np.broadcast_to(np.asarray(model_share, dtype=np.float64), (table.n_classes,))
        self.exact = model is None and bool((self.shares == 1.0).all())
        if table.labels is None and not (self.shares == 1.0).all():
            raise ValueError("a share of the model below 1 counts labels, and this table has none; pass `y=`")
        self.model = table.proba.data if model is None else model
        csr = table.proba
        every = Pairs(row_numbers(csr), csr.indices, np.arange(len(csr.indices)))
        self.rows = self.shares * self._of_model(every)
        if table.labels is not None:
            self.rows = self.rows + (1.0 - self.shares) * table.label_weight()

    def maximize(self, gains: Gains, *, matrix: bool = False) -> Confusion:
        """Return, for each of ``gains``, the statistics of its decisions, as `LabelsOracle.maximize`."""
        if matrix:
            raise ValueError("decisions of several labels per row have no confusion matrix; ask without `matrix`")
        return answered(gains, self.table.proba, self._confusion)

    def _confusion(self, csr: Any, gains: Gains) -> Confusion:
        """Return the statistics of all gains, in the type of ``csr``."""
        hits, made = [], []
        for pairs in _chosen(csr, gains, self.table.decisions):
            made.append(self._sums(pairs.label, self._weights(pairs.row)))
            found = np.zeros(self.table.n_classes)
            if (self.shares > 0.0).any():
                found += self.shares * self._of_model(pairs)
            if (self.shares < 1.0).any():
                true = self._is_true(pairs)
                found += (1.0 - self.shares) * self._sums(pairs.label[true], self._weights(pairs.row[true]))
            hits.append(found)
        return Confusion(self.rows, np.stack(hits), np.stack(made))

    def _weights(self, rows: NDArray[Any]) -> Array | None:
        weight = self.table.weight
        return None if weight is None else weight[rows]

    def _sums(self, label: NDArray[Any], values: NDArray[Any] | None) -> Array:
        """Return the means (L,) over all weight of ``values`` (c,), of ones for None, by label."""
        return np.asarray(np.bincount(label, values, self.table.n_classes) / self.table.weight_total)

    def _of_model(self, pairs: Pairs) -> Array:
        """Return the model's means (L,) over the pairs."""
        stored = pairs.place >= 0
        p = self.model[pairs.place[stored]].astype(np.float64)
        weight = self._weights(pairs.row[stored])
        return self._sums(pairs.label[stored], p if weight is None else weight * p)

    def _is_true(self, pairs: Pairs) -> NDArray[np.bool_]:
        """Return which of the pairs are true."""
        out = self.true_entries[pairs.place]
        absent = np.flatnonzero(pairs.place < 0)
        out[absent] = is_true(self._true_pairs, self.table.n_classes, pairs.row[absent], pairs.label[absent])
        return out

    @cached_property
    def _true_pairs(self) -> NDArray[np.int64]:
        assert self.table.labels is not None
        return true_pairs(self.table.labels)

    @cached_property
    def true_entries(self) -> NDArray[np.bool_]:
        """Which of the stored entries (m,) are true."""
        csr = self.table.proba
        found = is_true(self._true_pairs, self.table.n_classes, row_numbers(csr), csr.indices)
        # so that a table without entries has one that is looked up for pairs that are not stored
        return found if len(found) else np.zeros(1, dtype=np.bool_)


def true_pairs(labels: Any) -> NDArray[np.int64]:
    """Return the numbers ``row L + label`` of the true pairs of a csr_array (n, L), rising."""
    return np.asarray(row_numbers(labels) * labels.shape[1] + labels.indices, dtype=np.int64)


def is_true(true: NDArray[np.int64], L: int, rows: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which pairs of ``rows`` and ``labels`` (c,) are among the `true_pairs`."""
    wanted = rows.astype(np.int64) * L + labels
    if not len(true):
        return np.zeros(len(wanted), dtype=np.bool_)
    return np.asarray(true[np.minimum(np.searchsorted(true, wanted), len(true) - 1)] == wanted)


def without_zeros(csr: Any) -> Any:
    """Return a canonical csr_array of floats without entries that are zero, which say no more than absent ones."""
    data = as_float(csr.data)
    if data.all():
        return csr
    out = csr.copy()
    out.eliminate_zeros()
    return out
