"""Several labels per row, of very many labels: the scan and the decisions on tables that store few of each row.

What is not stored is zero, and so is its estimate by the model. Of any number of labels, only stored ones are decided:
a rule that gives every row a label that it does not store would fill a dense table. Of the k best labels, one that a
row does not store has the score b_l as on a dense table. Of these, a row needs the k with the largest offsets that it
does not store, and they are among the first k + m in falling order, m being the number that it stores.

A pass takes time for the stored entries and for L. It gives the pairs of row and label that are decided, and the sums
over these are taken in NumPy.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Confusion, Gains
from confmax.kernels.blocks import over_rows
from confmax.tables.array.labels import refuse_matrix
from confmax.tables.arrays import as_float
from confmax.tables.decisions import Decisions
from confmax.tables.part import Part
from confmax.tables.precision import answered, gain_coefficients, is_wide
from confmax.tables.sparse.rows import arrays_of, largest_first, loops

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


def scan_labels(part: Part, gains: Gains, share: Any, *, matrix: bool, by: Part) -> Confusion:
    """Return `Storage.scan` of what a sparse part stores, as `confmax.tables.array.labels.scan_labels` of an array.

    The rows of ``by`` store the same entries.
    """
    refuse_matrix(matrix=matrix)
    shares = np.broadcast_to(np.asarray(share, dtype=np.float64), (part.n_classes,))
    return answered(gains, by.proba, lambda csr, some: _scanned(part, csr, some, shares))


def _scanned(part: Part, csr: Any, gains: Gains, shares: Array) -> Confusion:
    """Return the sums of all gains, decided in the type of ``csr`` (n, L)."""
    hits, made = [], []
    for pairs in _chosen(csr, gains, part.decisions):
        made.append(_sums(part, pairs.row, pairs.label))
        found = np.zeros(part.n_classes)
        if (shares > 0.0).any():
            stored = pairs.place >= 0
            p = part.proba.data[pairs.place[stored]].astype(np.float64)
            found += shares * _sums(part, pairs.row[stored], pairs.label[stored], p)
        if (shares < 1.0).any():
            true = _is_true(part, pairs)
            found += (1.0 - shares) * _sums(part, pairs.row[true], pairs.label[true])
        hits.append(found)
    return Confusion(np.zeros(part.n_classes), np.stack(hits), np.stack(made))


def _sums(part: Part, row: NDArray[Any], label: NDArray[Any], values: Array | None = None) -> Array:
    """Return the weighted sums (L,) by label over pairs of rows and labels, of ``values`` (c,), of ones for None."""
    if part.weight is not None:
        weight = part.weight[row]
        values = weight if values is None else weight * values
    return np.bincount(label, values, part.n_classes).astype(np.float64)


def _is_true(part: Part, pairs: Pairs) -> NDArray[np.bool_]:
    """Return which of the pairs are true."""
    out = true_entries(part)[pairs.place]
    absent = np.flatnonzero(pairs.place < 0)
    out[absent] = is_true(_true_pairs(part), part.n_classes, pairs.row[absent], pairs.label[absent])
    return out


def _true_pairs(part: Part) -> NDArray[np.int64]:
    if "true_pairs" not in part.kept:
        part.kept["true_pairs"] = true_pairs(part.labels)
    found: NDArray[np.int64] = part.kept["true_pairs"]
    return found


def true_entries(part: Part) -> NDArray[np.bool_]:
    """Return which of the stored entries (m,) of a part are true."""
    if "true_entries" not in part.kept:
        csr = part.proba
        found = is_true(_true_pairs(part), part.n_classes, row_numbers(csr), csr.indices)
        # so that a table without entries has one that is looked up for pairs that are not stored
        part.kept["true_entries"] = found if len(found) else np.zeros(1, dtype=np.bool_)
    entries: NDArray[np.bool_] = part.kept["true_entries"]
    return entries


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
