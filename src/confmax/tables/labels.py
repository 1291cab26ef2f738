"""Labels and class names: what number a label has."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax.errors import InputError
from confmax.tables.kinds import host_array

MARKS = (";", "|")  # between the names of several labels in a text
COMPARED = 16  # labels up to which comparing all rows with each is faster than counting row by row


@dataclass(frozen=True, eq=False)
class Coded:
    """Labels by possible values and the place of each row's among them (n,)."""

    values: NDArray[Any]
    index: NDArray[np.intp]

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of rows, as arrays tell it."""
        return self.index.shape

    def __getitem__(self, row: int) -> Any:
        return self.values[self.index[row]]


def encode_labels(labels: NDArray[Any] | Coded, classes: Sequence[Any], n: int) -> NDArray[np.int64]:
    """Return labels (n,) as column numbers (n,), or a ValueError that names the first row whose label is no class."""
    if labels.shape != (n,):
        raise ValueError(f"y must have one label per row of proba: {n} labels; got shape {labels.shape}")
    code = {plain(name): k for k, name in enumerate(classes)}
    if isinstance(labels, np.ndarray) and labels.dtype.kind in "iu":
        # column numbers are used as they are, without a look at each distinct one
        numbered = tuple(classes) == tuple(range(len(classes)))
        labels = labels.copy()  # the kernels take them as indices, and another thread may change the caller's array
        if numbered and int(labels.min()) >= 0 and int(labels.max()) < len(classes):
            return labels.astype(np.int64, copy=False)
    coded = coded_labels(labels)
    # each distinct label is looked up once; -1 stands for a label that is no class
    codes = np.array([code.get(plain(value), -1) for value in coded.values], dtype=np.int64)[coded.index]
    if (codes < 0).any():
        row = int(np.argmax(codes < 0))
        if is_missing(labels[row]):
            raise _no_label(row, coded.values)
        shown = ", ".join(map(repr, map(plain, classes[:8]))) + (", ..." if len(classes) > 8 else "")
        raise InputError(
            f"row {row} of `y` holds the label {plain(labels[row])!r}, which is none of the {len(classes)} classes "
            f"({shown})",
            f"pass `classes=` with the names in column order{_several(coded.values)}",
        )
    return codes


def vector(values: ArrayLike, name: str, each: str) -> NDArray[Any]:
    """Return a one-dimensional array; a column (n, 1) is flattened."""
    refuse_masked(values, name)
    array = host_array(values)
    if array.dtype.kind == "U" and isinstance(values, (list, tuple)):
        # one type for all entries has made texts of numbers, which are other names
        entries = np.array(values, dtype=object)
        array = array if all(isinstance(entry, str) for entry in entries.flat) else entries
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        several = "; for several labels per row pass `decisions='any'`" if name == "y" and array.ndim == 2 else ""
        raise InputError(f"`{name}` must hold {each} per row, shape (n,); got shape {array.shape}{several}")
    return array


def refuse_other_rows(proba: Any, values: Any, name: str) -> None:
    """Refuse, by a ValueError, ``values`` (n,) called ``name`` whose pandas index has the rows in another order.

    An index that only counts the rows says nothing: probabilities from scikit-learn have it, whatever their order.
    """
    if order_of_index(proba, values) is None:
        return
    counts = np.arange(len(proba.index))
    if not any(np.array_equal(np.asarray(rows.index), counts) for rows in (proba, values)):
        raise _other_rows(proba, values, name)


def order_of_index(proba: Any, values: Any) -> NDArray[np.intp] | None:
    """Return the places (n,) of the rows of ``values`` in the order of the pandas index of ``proba``.

    None where one has no index, or both are the same. An index of other values may name something else than rows: only
    the same ones in another order may be a mistake.
    """
    mine: Any = getattr(proba, "index", None)
    theirs: Any = getattr(values, "index", None)
    if not (hasattr(mine, "equals") and hasattr(theirs, "equals")) or len(mine) != len(theirs) or mine.equals(theirs):
        return None
    if not (mine.is_unique and theirs.is_unique):
        return None
    places = theirs.get_indexer(mine)
    return None if (places < 0).any() else places


def refuse_better_order(proba: Any, y: Any, loss: Callable[[Any], float]) -> None:
    """Refuse, by a ValueError, labels ``y`` that fit better in the order of the pandas index of ``proba``.

    ``loss`` returns the log loss of the labels of rows in some order. A shuffled index beside rows that are in order is
    common, and then the labels fit better as they are.
    """
    places = order_of_index(proba, y)
    if places is None:
        return
    by_row = loss(slice(None))
    by_index = loss(places)
    if by_index < by_row:
        raise _other_rows(
            proba, y, "y", f" (log loss {by_index:.4g} in the order of the index, {by_row:.4g} as they are)"
        )


def log_loss(probability: NDArray[Any]) -> float:
    """Return the log loss of the probabilities of what is true, of which zero counts as the least float64."""
    return float(-np.log(np.maximum(probability, np.finfo(np.float64).tiny, dtype=np.float64)).mean())


def _other_rows(proba: Any, values: Any, name: str, why: str = "") -> InputError:
    row = int(np.argmax(np.asarray(proba.index != values.index)))
    mine, theirs = (plain(rows.index[row]) for rows in (proba, values))
    return InputError(
        f"the index of `{name}` holds the rows of `proba` in another order: row {row} is {mine!r} in `proba` and "
        f"{theirs!r} in `{name}`{why}",
        f"pass {name}.loc[proba.index] if the index says which rows belong together, or {name}.to_numpy() if the rows "
        f"are in one order",
    )


def refuse_masked(values: Any, name: str) -> None:
    """Refuse, by a ValueError, an array with masked entries: the values under the mask are nobody's numbers."""
    # no array is masked before this module is imported, and nobody else waits for it
    if "numpy.ma" not in sys.modules or not np.ma.isMaskedArray(values):
        return
    masked = np.ma.getmaskarray(values)
    if masked.any():
        row = int(np.argwhere(masked)[0, 0]) if masked.ndim else 0
        raise ValueError(
            f"row {row} of {name} is masked, and masked values are not used; drop such rows, or fill them with filled()"
        )


def resolve_classes(order: tuple[Any, ...] | None, labels: NDArray[Any] | None, K: int) -> tuple[Any, ...]:
    """Return the K names of the columns: the ``order`` that is known, else the sorted labels, else 0..K-1."""
    if order is not None:
        if len(order) != K:
            raise ValueError(f"classes names {len(order)} classes and proba has {K} columns; give one name per column")
        return order
    if labels is None:
        return tuple(range(K))
    found = distinct(labels)
    if len(found) == K:
        return tuple(sorted(found))
    # column numbers keep their meaning where a class has no rows; with names, nobody can tell which column that is
    numbers = [value for value in found if isinstance(value, int) and not isinstance(value, bool)]
    if len(numbers) != len(found):
        raise InputError(
            f"`y` has {len(found)} distinct labels and `proba` has {K} columns, so the columns cannot be matched",
            f"pass `classes=` with the {K} names in column order{_several(np.array(found, dtype=object))}",
        )
    return tuple(range(K))


def distinct(labels: NDArray[Any] | Coded) -> list[Any]:
    """Return the distinct labels as plain Python values; missing ones are refused."""
    return list(counted(labels))


def counted(labels: NDArray[Any] | Coded) -> dict[Any, int]:
    """Return how many rows have each label, a plain Python value; missing ones are refused."""
    if isinstance(labels, np.ndarray) and labels.dtype.kind in "iu" and labels.itemsize < 8 and labels.size:
        low = int(labels.min())
        high = int(labels.max())
        if high - low < COMPARED:
            each = {k: int(np.count_nonzero(labels == k)) for k in range(low, high + 1)}
            return {k: count for k, count in each.items() if count}
        if high - low <= labels.size:
            # counted as they are, without their places among the distinct ones
            often = np.bincount(labels.astype(np.int64) - low)
            return {int(k) + low: int(often[k]) for k in np.flatnonzero(often)}
    coded = coded_labels(labels)
    # a list of categories may hold some that no row has
    counts = np.bincount(coded.index, minlength=len(coded.values))
    used = np.flatnonzero(counts)
    values = [plain(value) for value in coded.values[used]]
    if any(map(is_missing, values)):
        row = [is_missing(value) for value in coded.values[coded.index].tolist()].index(True)
        raise _no_label(row, coded.values)
    # 1 and "1" would become two classes, and the order of such classes is undefined
    if len({isinstance(value, str) for value in values}) > 1:
        raise ValueError("y mixes strings and numbers; give all labels as one type")
    found: dict[Any, int] = {}
    for value, count in zip(values, counts[used].tolist(), strict=True):
        # a dictionary of Arrow may hold a value twice
        found[value] = found.get(value, 0) + count
    in_order(found, "y")
    return found


def in_order(names: Iterable[Any], argument: str, key: Callable[[Any], Any] | None = None) -> list[Any]:
    """Return the distinct names that an argument holds, sorted; a ValueError if they have no order."""
    found = list(names)
    try:
        return sorted(found, key=key)
    except TypeError:
        raise _no_name(found[0], argument) from None


def _no_name(value: Any, argument: str) -> InputError:
    kind = type(value).__name__
    return InputError(
        f"`{argument}` holds values that have no order, such as {value!r:.40} ({kind})",
        "give every one as a string or a number",
    )


def _no_label(row: int, values: NDArray[Any]) -> InputError:
    return InputError(f"row {row} of `y` has no label", f"drop such rows, or leave `y` out{_several(values)}")


def _several(values: NDArray[Any]) -> str:
    """Return how to give several labels per row, where texts among the ``values`` look like several names each."""
    mark = next((mark for mark in MARKS for text in values.tolist() if isinstance(text, str) and mark in text), None)
    return (
        f"; for several labels per row pass lists of names, split at {mark!r}, with `decisions='any'`" if mark else ""
    )


def refuse_missing(labels: NDArray[Any]) -> None:
    """Refuse, by a ValueError, labels (n,) of which one is missing, where there is nothing to do without labels."""
    # an object may be pandas' NA, which refuses to be compared
    missing = list(map(is_missing, labels.tolist())) if labels.dtype == object else labels != labels
    if np.any(missing):
        raise ValueError(f"row {np.argmax(missing)} of y has no label; drop such rows")


def coded_labels(labels: NDArray[Any] | Coded, argument: str = "y") -> Coded:
    """Return labels, or what else an argument holds, by their distinct values, sorted where they can be."""
    if isinstance(labels, Coded):
        return labels
    if labels.dtype == object:
        return _coded_objects(labels, argument)
    if labels.dtype.kind in "iu" and labels.size:
        labels = labels.copy()  # as above: the least of them must be that of those that are counted
        low = int(labels.min())
        high = int(labels.max())
        if high - low <= 4 * labels.size:
            # counting takes no sorting
            # the difference of two small integers may not fit into their own type
            wide = labels if labels.dtype.kind == "u" else labels.astype(np.int64, copy=False)
            place = (wide - wide.dtype.type(low)).astype(np.intp, copy=False)
            present = np.bincount(place) > 0
            if present.all():
                return Coded(np.arange(low, high + 1).astype(labels.dtype), place)
            values = np.flatnonzero(present).astype(labels.dtype) + labels.dtype.type(low)
            return Coded(values, (np.cumsum(present) - 1)[place])
    values, index = np.unique(labels, return_inverse=True)
    return Coded(values, index.reshape(-1))


def _coded_objects(labels: NDArray[Any], argument: str) -> Coded:
    """Return objects, which need not be comparable, by their distinct values."""
    position: dict[Any, int] = {}
    inverse = np.empty(len(labels), dtype=np.intp)
    for row, value in enumerate(labels.tolist()):
        # NaN differs from itself: every row without a label would be a class of its own
        key = None if is_missing(value) else value
        try:
            inverse[row] = position.setdefault(key, len(position))
        except TypeError:  # it cannot be looked up
            raise _no_name(value, argument) from None
    seen = np.empty(len(position), dtype=object)
    seen[:] = list(position)
    return Coded(seen, inverse)


def is_missing(value: Any) -> bool:
    """Whether a label is None, NaN or pandas' NA, which differs from itself or refuses to be compared."""
    try:
        return value is None or bool(value != value)
    except TypeError:
        return True


def plain(value: Any) -> Any:
    """Return a label as a plain Python value; whole floats become integers."""
    if isinstance(value, np.generic):
        value = value.item()
    # pandas writes integers beside missing values as floats, and 1.0 must stay the class 1
    return int(value) if isinstance(value, float) and value.is_integer() else value
