"""Frames in memory: what their columns are called, which of them are taken, and the numbers in these.

What has no columns, such as an array, has no names either and is returned as it is. `confmax.tables.columns` says which
column is which class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.errors import InputError
from confmax.tables.arrays import ROW_SUM_TOLERANCE, as_array
from confmax.tables.columns import SHOWN, find, order_of, warn
from confmax.tables.kinds import here, kind_for
from confmax.tables.labels import distinct, plain, vector

PROBABILITY = "probability"  # the column of lists that is taken without being named, as Spark ML writes it
FIRST_ROWS = 1000  # that tell which columns sum to one


def frame_columns(values: Any) -> Any:
    """Return the names of a frame's columns, None for what has none."""
    names = getattr(values, "column_names", None)  # of pyarrow, whose ``columns`` are the columns themselves
    return names if isinstance(names, list) else getattr(values, "columns", None)


def column_names(proba: Any) -> list[str] | None:
    """Return a frame's column names as text, None for what has none."""
    columns = frame_columns(proba)
    return None if columns is None else [str(plain(name)) for name in columns]


def columns_of(proba: Any, table: Any, classes: Sequence[Any]) -> tuple[str, ...]:
    """Return what the columns of ``classes`` are called in ``proba``, of which a ``table`` was made.

    () stands for the names of the classes, and for columns without names.

    >>> import pandas as pd
    >>> columns_of(pd.DataFrame({"p_yes": [0.1], "p_no": [0.9], "age": [41]}), None, ["no", "yes"])
    ('p_no', 'p_yes')
    """
    names = column_names(proba) if kind_for(proba).in_memory else table.parts.names
    if not names:
        return ()
    places = find(names, classes, whole=False).places
    # columns that are called otherwise are taken in the order of the classes
    columns = [names[k] for k in places] if places is not None else names if len(names) == len(classes) else ()
    return () if list(columns) == [str(plain(name)) for name in classes] else tuple(columns)


def without_columns(frame: Any, beside: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return a frame in memory without the columns that are named ``beside`` it, and these in the place of their names.

    Several columns of labels are a list or tuple of names. What has no columns is returned as it is.
    """
    columns = frame_columns(frame)
    found = dict(beside)
    if columns is None:
        return frame, found
    names = list(columns)
    taken = set[int]()
    for argument, value in beside.items():
        # a list of texts may be the labels themselves, one for each row
        listed = argument == "y" and isinstance(value, (list, tuple)) and len(value) not in (0, len(frame))
        several = listed and all(isinstance(name, str) and name in columns for name in value)
        if not isinstance(value, str) and not several:
            continue
        for name in value if several else [value]:
            if names.count(name) != 1:
                shown = f"the columns {', '.join(map(str, names[:SHOWN]))}" if name not in names else "two of this name"
                way_out = "name one of these" if name not in names else "drop or rename one of them"
                raise InputError(f"`{argument}` names the column {name!r}, and `proba` has {shown}", way_out)
            taken.add(names.index(name))
        found[argument] = _picked(frame, list(map(names.index, value)) if several else names.index(value))
    return (_picked(frame, [k for k in range(len(names)) if k not in taken]) if taken else frame), found


def as_rows(proba: Any, classes: Sequence[Any]) -> Any:
    """Return a pandas Series whose index names the ``classes`` as the one row that it is, and other values as they are.

    Warn of a vector of two that sums to one: it is read as two rows, and may be meant as one.
    """
    is_series = hasattr(proba, "to_frame") and hasattr(proba, "iloc") and np.ndim(proba) == 1
    if is_series and len(classes) <= len(proba) <= len(classes) + FIRST_ROWS:
        # numbers may be those of rows, as any index has them, so of two classes they name none
        counted = not any(isinstance(name, str) for name in proba.index)
        may_name = not counted or len(classes) == len(proba) > 2
        if may_name and find([str(plain(name)) for name in proba.index], classes, whole=False).places is not None:
            return proba.to_frame().T
    _warn_of_one_row(proba, classes)
    return proba


def _warn_of_one_row(proba: Any, classes: Sequence[Any]) -> None:
    shape = (len(proba),) if isinstance(proba, (list, tuple)) else getattr(proba, "shape", ())
    if len(classes) != 2 or tuple(shape) != (2,):
        return
    try:
        first, second = map(float, proba)
    except (TypeError, ValueError):  # two rows, or what is refused later
        return
    if abs(first + second - 1.0) <= ROW_SUM_TOLERANCE:
        warn(
            f"the vector [{first:.4g}, {second:.4g}] was read as two rows, each the probability of {classes[1]!r}; if "
            f"it is one row, pass [proba] with a column per class; if it is two, numpy.column_stack([1 - proba, proba])"
        )


def in_class_order(frame: Any, classes: Sequence[Any]) -> NDArray[Any]:
    """Return the columns of a frame in memory that are named like the ``classes`` as an array (n, K) in their order."""
    frame = narrowed(frame, classes)
    return as_array(frame, order=order_of(column_names(frame), classes))


def narrowed(frame: Any, classes: Sequence[Any], *, labels: bool = False) -> Any:
    """Return a frame in memory with the columns that are named like the ``classes`` alone, if it has further ones.

    Of ``labels``, which need not have every class, this is done only if `sum_to_one_alone`.
    """
    columns = frame_columns(frame)
    if columns is None or len(columns) <= len(classes):
        return frame
    places = find(column_names(frame) or [], classes, whole=False).places
    if places is None:
        return frame
    if labels and not sum_to_one_alone(
        np.column_stack([_first_numbers(frame, k) for k in range(len(columns))]), places
    ):
        return frame
    return _picked(frame, sorted(places))


def sum_to_one_alone(rows: NDArray[Any], places: Sequence[int]) -> bool:
    """Return whether the columns at these ``places`` of some rows sum to one, and all columns together do not."""
    with np.errstate(invalid="ignore"):
        off, all_off = (np.abs(each.sum(axis=1) - 1.0) for each in (rows[:, list(places)], rows))
    return bool((off <= ROW_SUM_TOLERANCE).all() and not (all_off <= ROW_SUM_TOLERANCE).all())


def _first_numbers(frame: Any, place: int) -> NDArray[Any]:
    """Return the first entries of a column of a frame in memory, NaN where it holds something else than numbers."""
    entries = np.asarray(_picked(frame, place)[:FIRST_ROWS])
    is_text = entries.dtype.kind not in "biuf" and (_is_text(entries) or any(isinstance(one, str) for one in entries))
    return np.full(len(entries), np.nan) if is_text else entries.astype(np.float64)


def _picked(frame: Any, places: int | list[int]) -> Any:
    """Return the column of a frame at a place, or the frame of several, of which two may have one name."""
    if hasattr(frame, "iloc"):
        return frame.iloc[:, places]
    if hasattr(frame, "column_names"):
        # of lists, whose entries Arrow has its own type for, NumPy makes arrays
        return frame.select(places) if isinstance(places, list) else np.asarray(frame.column(places))
    columns = frame_columns(frame)
    return frame[[columns[k] for k in places] if isinstance(places, list) else columns[places]]


def holds_lists(values: Any) -> bool:
    """Whether ``values`` are a frame in memory whose column ``probability`` holds a list of numbers for every row."""
    columns = frame_columns(values)
    if columns is None or PROBABILITY not in columns or list(columns).count(PROBABILITY) != 1:
        return False
    first = np.asarray(_picked(values[:1], list(columns).index(PROBABILITY)))
    return len(first) > 0 and np.ndim(first[0]) == 1


def rows_of_lists(frame: Any) -> Any:
    """Return the lists of a frame that `holds_lists` as rows (n, K), of pandas as a frame of the same index."""
    column = frame[PROBABILITY]
    rows = column.to_pylist() if hasattr(column, "to_pylist") else column.to_list()
    for row, numbers in enumerate(rows):
        if np.ndim(numbers) != 1 or len(numbers) != len(rows[0]):
            raise InputError(
                f"row {row} of `proba` has {numbers!r:.40} in the column {PROBABILITY!r}, and row 0 has {len(rows[0])} "
                f"probabilities",
                "give every row a list with one per class",
            )
    P = np.array(rows)
    return type(frame)(P, index=frame.index) if hasattr(frame, "iloc") else P


def text_columns(frame: Any) -> list[str]:
    """Return the columns of a frame in memory whose first entry is no number."""
    columns = frame_columns(frame)
    names = () if columns is None else columns
    return [str(name) for k, name in enumerate(names) if _is_text(np.asarray(_picked(frame, k)[:1]))]


def _is_text(entries: NDArray[Any]) -> bool:
    try:
        entries.astype(np.float64)
    except (TypeError, ValueError):
        return not any(entry is None for entry in entries.tolist())
    return False


def stated_order(y: Any, proba: Any = None) -> tuple[Any, ...] | None:
    """Return the classes in the order that an ordered categorical ``y`` states, None for other labels.

    ``y`` may be the name of a column of a Dask frame. If ``proba`` (n, K) has as many columns as there are categories,
    all of them are classes, else those that have rows; all without it.
    """
    inside = isinstance(y, str) and y in (column_names(proba) or ())
    kind = getattr(proba[y] if inside else y, "dtype", None)
    categories = getattr(kind, "categories", None)
    if getattr(kind, "ordered", False) is not True or categories is None:
        return None
    order = tuple(plain(name) for name in categories)
    if "__UNKNOWN_CATEGORIES__" in order:  # of Dask, which has not looked
        return None
    if proba is None or inside or len(order) == width(proba):
        return order
    # labels that are lazy are not computed here: a class without rows is found with the table
    present = here(lambda labels: set(distinct(vector(labels, "y", "one label"))), y)
    return order if present is None else tuple(name for name in order if name in present)


def width(proba: Any) -> int | None:
    """Return the number of columns, None of what has none; a vector of two classes stands for two."""
    try:
        shape = getattr(proba, "shape", None) or np.shape(proba)
    except ValueError:  # rows of different lengths, which are refused as such
        return None
    if len(shape) == 1:
        return 2
    return int(shape[-1]) if len(shape) == 2 else None
