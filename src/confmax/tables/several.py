"""Tables of rows with several labels: probabilities (n, L) that need not sum to one, and a 0/1 matrix of the labels."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Gains
from confmax.errors import InputError
from confmax.tables.array.kind import ARRAYS
from confmax.tables.array.label_rows import in_one_matrix
from confmax.tables.arrays import checked_weight
from confmax.tables.columns import Columns, arranged, first_repeated, matched, warn
from confmax.tables.decisions import Decisions, decisions_of
from confmax.tables.frames import column_names, frame_columns, width
from confmax.tables.kinds import host_array, kind_for, known, refuse_empty, refuse_name
from confmax.tables.labels import is_missing, log_loss, plain, refuse_better_order, refuse_masked, refuse_other_rows
from confmax.tables.part import Part
from confmax.tables.storage import Checked
from confmax.tables.table import Table

MATRIX_ALONE = "a matrix (n, L) of 0 and 1"
MATRIX = f"{MATRIX_ALONE}, or one list of labels per row"


def labels_table(
    decisions: Decisions,
    proba: Any,
    y: Any = None,
    sample_weight: Any = None,
    classes: Sequence[Any] | None = None,
    *,
    stated: bool = True,
) -> Table:
    """Check probabilities, labels and weights of rows with several labels and return them as one table.

    Parameters
    ----------
    decisions : Decisions
        What is decided for a row.
    proba : array-like, data frame or scipy.sparse matrix (n, L), or sequence of L arrays (n, 2)
        Probability of every label, in [0, 1], as ``predict_proba`` returns it: one matrix, or for each label one with
        the probabilities that it is absent and present. The columns of a frame are matched to ``classes`` by name.
        What a sparse matrix does not store is zero, and where any labels may be decided, it never is.
    y : array-like, data frame or scipy.sparse matrix (n, L), sequence of n collections of names, or None
        The true labels: 0 and 1, or the names of each row's labels. The columns of a frame are matched by name.
    sample_weight : array-like (n,) or None
        Non-negative weights.
    classes : sequence or None
        Names of the labels in column order; those of the frames' columns, or 0..L-1, where they are not given.
    stated : bool
        Whether ``classes`` state the order of the columns, so that names which fit no label need no warning.

    Raises
    ------
    ValueError
        For anything that is not such a table; the sentence names the first offending row.

    Examples
    --------
    >>> from confmax.tables.decisions import ANY
    >>> table = labels_table(ANY, [[0.8, 0.4], [0.3, 0.9]], [["a"], ["a", "b"]], classes=["a", "b"])
    >>> table.head.labels.tolist()
    [[1, 0], [1, 1]]
    """
    refuse_other_rows(proba, sample_weight, "sample_weight")
    refuse_name(proba)
    kind, proba = known(proba)
    if not kind.in_memory:
        beside = {"y": y, "sample_weight": sample_weight}
        return kind.label_table(decisions, proba, beside, classes, stated=stated)
    # L matrices become one here, so that their number is known
    proba = in_one_matrix(proba)
    refuse_empty(proba)
    given_rows, given_y = proba, y
    of_labels = None if column_names(y) is None else list(frame_columns(y))
    found = arranged_labels(column_names(proba), of_labels, width(proba), classes, stated=stated)
    given = checked_labels_proba(proba, found.order)
    checked = given.storage.searched(given)
    n, L = checked.proba.shape
    decisions_of(decisions.argument, L)
    order = tuple(range(L)) if found.classes is None else found.classes
    if len(order) != L:
        raise InputError(f"`classes` names {len(order)} labels and `proba` has {L} columns", "give one name per column")
    warn(found.note)
    labels = None
    y, sample_weight = (kind.beside(rows) for kind, rows in map(known, (y, sample_weight)))
    if y is not None:
        labels = encoded_sparse(y, order, n) if is_sparse(checked.proba) else encoded(y, order, n)
        refuse_better_order(given_rows, given_y, lambda rows: log_loss(np.abs(1 - labels[rows] - checked.proba)))
    weight = None if sample_weight is None else checked_weight(sample_weight, n)
    return Table.of(Part(**vars(checked), labels=labels, weight=weight, classes=order, decisions=decisions))


def arranged_labels(
    names: Sequence[str] | None,
    of_labels: Sequence[Any] | None,
    n_labels: int | None,
    classes: Sequence[Any] | None,
    *,
    stated: bool,
) -> Columns:
    """Return which label each column of probabilities is of, by the ``names`` of these and of the columns of labels.

    ``classes`` and ``stated`` are those of `labels_table`.
    """
    wanted = classes
    fits = classes is None and of_labels is not None and len(of_labels) == n_labels
    if fits and {str(one) for one in of_labels or ()} != set(names or ()):
        # the labels name the columns: the columns of probabilities may have a prefix
        wanted = of_labels
    return arranged(names, wanted, None, stated=stated or names is None)


def checked_labels_proba(proba: Any, order: Sequence[int] | None = None) -> Checked:
    """Return probabilities of labels (n, L) as rows in [0, 1], the columns of a frame in ``order``, where they are.

    Arrays and frames become an array of float32 or float64, and what is sparse a csr_array without zeros.
    """
    refuse_name(proba)
    kind, rows = known(proba)
    return kind.check_labels(rows, order=order)


def is_sparse(values: Any) -> bool:
    """Whether ``values`` are a sparse matrix or array of scipy."""
    return hasattr(values, "tocsr")


def with_entries(proba: Any, change: Callable[[NDArray[Any], Any], NDArray[Any]]) -> Any:
    """Return checked probabilities (n, L) with other entries: ``change(entries, columns)`` of those that are held.

    The columns of a dense matrix are a slice. What a sparse one does not store stays zero.
    """
    return known(proba)[0].storage.with_entries(proba, change)


def chosen_columns(chosen: Any) -> list[NDArray[np.intp]]:
    """Return the columns that are chosen in every row of decisions (n, L), n arrays."""
    if is_sparse(chosen):
        return [chosen.indices[low:high] for low, high in pairwise(chosen.indptr)]
    return [np.flatnonzero(row) for row in host_array(chosen)]


def dense_within(proba: Any, what: str) -> Any:
    """Return probabilities, sparse ones as an array that ``what`` needs; a ValueError if that would be large."""
    if not is_sparse(proba):
        return proba
    kind: Any = kind_for(proba)
    return kind.dense(proba, what).proba


def dense_table(table: Table, what: str) -> Table:
    """Return a table of several labels as one of arrays, which ``what`` needs; a ValueError if that would be large."""
    if not table.is_truncated:
        table.gathered(what)
        return table
    rows = table.head
    labels = None if rows.labels is None else plain_matrix(rows.labels)
    return Table.of(replace(rows, storage=ARRAYS, proba=dense_within(rows.proba, what), labels=labels))


def decide_labels(proba: Any, gains: Gains, decisions: Decisions) -> Any:
    """Return which labels one gain chooses on every row of checked ``proba`` (n, L), 0 or 1, held as these are."""
    return known(proba)[0].storage.decide_labels(proba, gains, decisions)


def in_rows(y: Any) -> NDArray[Any]:
    """Return labels ``y`` as an array of rows, which can be divided: (n, L), or (n,) of collections of names."""
    if not kept_as_collections(y):
        return plain_matrix(y)
    out = np.empty(len(y), dtype=object)
    for row, labels in enumerate(y):
        out[row] = labels
    return out


def plain_matrix(values: Any) -> NDArray[Any]:
    """Return a matrix, sparse or not, as a NumPy array."""
    return np.asarray(values.toarray() if is_sparse(values) else values)


def kept_as_collections(y: Any) -> bool:
    """Whether labels ``y`` are one collection for every row, of different lengths or in one column of objects."""
    if is_sparse(y):
        return False
    try:
        values = np.asarray(y)
    except ValueError:
        # NumPy refuses lists of different lengths
        return True
    is_column = values.ndim == 1 and values.dtype == object and len(values) > 0
    is_lists = is_column and isinstance(values[0], (list, tuple, set, frozenset, np.ndarray))
    return is_lists or _without_labels(y, values)


def _without_labels(y: Any, values: NDArray[Any]) -> bool:
    """Whether ``values`` are of collections of names that are all empty, which NumPy makes a matrix (n, 0)."""
    is_matrix = column_names(y) is not None or (isinstance(y, np.ndarray) and y.dtype != object)
    return values.ndim == 2 and values.shape[1] == 0 and not is_matrix


def sparse_form(values: Any) -> Any:
    """Return the type of a sparse matrix or array in rows that ``values`` are; None for others."""
    if not is_sparse(values):
        return None
    return type(values.tocsr())


# --- labels -----------------------------------------------------------------------------------------------------------


def encoded(y: Any, classes: Sequence[Any], n: int, form: str = MATRIX) -> NDArray[np.uint8]:
    """Return labels ``y`` as a matrix (n, L) of 0 and 1, a copy, or a ValueError that names the first wrong row.

    The ``form`` is what the sentence says that labels may be.
    """
    refuse_masked(y, "y")
    if is_sparse(y):
        return _checked_matrix(y.toarray(), len(classes), n, form)
    names = column_names(y)
    matrix = _numbers(y)
    if matrix is None:
        return _from_lists(y, classes, n)
    if names is not None and len(names) == len(classes):
        order = label_places(names, classes)
        matrix = matrix if order is None else matrix[:, list(order)]
    return _checked_matrix(matrix, len(classes), n, form)


def label_places(names: Sequence[str], classes: Sequence[Any]) -> tuple[int, ...] | None:
    """Return the places of the ``classes`` among the ``names`` of columns of labels, None where these are in order."""
    if (twice := first_repeated(names)) is not None:
        raise InputError(f"`y` has two columns {twice!r}; give each label its own name")
    order, note = matched(names, classes, stated=tuple(classes) == tuple(range(len(classes))))
    warn(note.replace("proba", "y"))
    return order


def encoded_sparse(y: Any, classes: Sequence[Any], n: int) -> Any:
    """Return labels ``y`` as a csr_array (n, L) of ones in bytes, or the ValueErrors of `encoded`; nothing is dense."""
    from scipy.sparse import csr_array

    L = len(classes)
    if not is_sparse(y) and (column_names(y) is not None or _numbers(y) is not None):
        return csr_array(encoded(y, classes, n))
    if not is_sparse(y):
        rows, columns = _pairs(y, classes, n)
        # names that stand twice in a row are one label
        keys = np.unique(np.array(rows, dtype=np.int64) * L + np.array(columns, dtype=np.int64))
        return csr_array((np.ones(len(keys), np.uint8), (keys // L, keys % L)), shape=(n, L))
    if y.shape != (n, L):
        raise InputError(f"`y` must be {MATRIX}, for {n} rows and {L} labels; got shape {y.shape}")
    csr = csr_array(y.tocsr(), copy=True)
    csr.sum_duplicates()
    csr.eliminate_zeros()
    wrong = ~np.asarray(csr.data == 1, dtype=np.bool_)
    if wrong.any():
        k = int(np.argmax(wrong))
        row = int(np.searchsorted(csr.indptr, k, "right")) - 1
        value = plain(csr.data[k])
        raise InputError(
            f"row {row}, column {int(csr.indices[k])} of `y` is {value!r}, and labels are 0 or 1", f"pass {MATRIX}"
        )
    return csr.astype(np.uint8)


def _numbers(y: Any) -> NDArray[Any] | None:
    """Return labels that are a matrix of numbers, or of what must be one; None for collections of names."""
    try:
        values = np.asarray(y)
    except ValueError:
        # NumPy refuses lists of different lengths
        return None
    if (
        values.ndim == 2
        and values.size
        and values.dtype == object
        and (column_names(y) is not None or _are_numbers(values))
    ):
        return values
    if values.ndim != 2 or values.dtype.kind not in "biuf" or _without_labels(y, values):
        return None
    return values


def _are_numbers(values: NDArray[Any]) -> bool:
    """Whether all objects are numbers or missing, as in what a frame with missing values gives as an array."""
    return all(isinstance(one, (bool, int, float, np.number, np.bool_)) or is_missing(one) for one in values.flat)


def _checked_matrix(matrix: NDArray[Any], L: int, n: int, form: str) -> NDArray[np.uint8]:
    """Return the matrix in bytes, if it has n rows, L columns, and only 0 and 1."""
    if matrix.shape != (n, L):
        raise InputError(f"`y` must be {form}, for {n} rows and {L} labels; got shape {matrix.shape}")
    if matrix.dtype == object:
        # pandas' missing value refuses to be compared
        matrix = np.where(np.frompyfunc(is_missing, 1, 1)(matrix).astype(np.bool_), np.nan, matrix)
    if matrix.dtype in (np.uint8, np.bool_) and matrix.max(initial=0) <= 1:
        return np.array(matrix, dtype=np.uint8, order="C")
    # comparing with both numbers also finds NaN and texts
    ones = np.asarray(matrix == 1, dtype=np.bool_)
    wrong = ~(ones | np.asarray(matrix == 0, dtype=np.bool_))
    if wrong.any():
        row, column = (int(place) for place in np.argwhere(wrong)[0])
        value = plain(matrix[row, column])
        raise InputError(f"row {row}, column {column} of `y` is {value!r}, and labels are 0 or 1", f"pass {form}")
    return ones.astype(np.uint8, order="C")


def _from_lists(y: Any, classes: Sequence[Any], n: int) -> NDArray[np.uint8]:
    """Return the matrix of collections of names, one for each row."""
    out = np.zeros((n, len(classes)), dtype=np.uint8)
    rows, columns = _pairs(y, classes, n)
    out[rows, columns] = 1
    return out


def _pairs(y: Any, classes: Sequence[Any], n: int) -> tuple[list[int], list[int]]:
    """Return row and column of every name in collections of names, one for each row."""
    try:
        # the entries of Arrow's lists are no texts
        rows = y.to_pylist() if hasattr(y, "to_pylist") else list(y)
    except TypeError:
        raise InputError(f"`y` must be {MATRIX}; got {y!r:.60}") from None
    place = {plain(name): k for k, name in enumerate(classes)}
    found: tuple[list[int], list[int]] = ([], [])
    if len(rows) != n:
        raise InputError(f"`y` has labels of {len(rows)} rows, and `proba` has {n} rows")
    for row, labels in enumerate(rows):
        if isinstance(labels, (str, bytes)) or not hasattr(labels, "__iter__"):
            shown = "is missing" if is_missing(labels) else f"is {plain(labels)!r:.60}"
            raise InputError(f"row {row} of `y` {shown}, and rows have several labels", f"pass {MATRIX}")
        for label in labels:
            # a name that is a list, say, could be looked up nowhere
            is_name = isinstance(label, Hashable) and not is_missing(label)
            k = place.get(plain(label)) if is_name else None
            if k is None:
                shown = ", ".join(map(repr, classes[:8])) + (", ..." if len(classes) > 8 else "")
                raise InputError(
                    f"row {row} of `y` has the label {plain(label)!r}, which is none of the {len(classes)} ({shown})",
                    "pass `classes=` with the names in column order",
                )
            found[0].append(row)
            found[1].append(k)
    return found
