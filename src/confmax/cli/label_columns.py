"""Which column of a file is what, for rows with several labels.

The true labels are columns of 0 and 1 (``--labels a,b``), one column of names with a mark between them (``--label tags
--separator ';'``), or a two-dimensional array. The columns of probabilities are those that were named, else the ones
named like the labels, else the only other two-dimensional array.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from confmax.cli.columns import (
    IN_ORDER,
    NUMERIC,
    PREFIX,
    FileRows,
    Place,
    TableOptions,
    class_order,
    existing,
    named_columns,
    read_if_named,
    refuse_twice,
)
from confmax.cli.csvs import as_names
from confmax.cli.tables import Frame
from confmax.cli.texts import joined
from confmax.errors import InputError, extended
from confmax.tables.columns import Found, find, refuse_part
from confmax.tables.several import checked_labels_proba

# how names such as y_a and y_b end before what tells them apart
_SHARED = re.compile(r".*[_. (-]")


@dataclass(frozen=True)
class _Truth:
    """The true labels of a file: ``matrix`` (n, L) in the order of ``names``; of an array without names, none.

    ``option`` is the one that says where they are. Columns of 0 and 1 are ``stated``: they say how many labels there
    are, and in which order. Lists hold only labels that some row has.
    """

    names: tuple[Any, ...] = ()
    matrix: NDArray[np.uint8] | None = None
    option: str = ""
    stated: bool = False


def read_label_rows(frame: Frame, options: TableOptions, rule_labels: Sequence[Any] = ()) -> FileRows:
    """Return probabilities and labels (n, L) of a file; ``rule_labels`` are those of a rule that is to be applied."""
    truth = _truth(frame, options)
    wanted = class_order(options, rule_labels, truth.names)
    stated = truth.stated and not wanted
    of_rows = not (wanted or stated)
    place, labels, notes = _probabilities_of(frame, options, wanted or truth.names, stated=stated, of_rows=of_rows)
    if truth.matrix is not None and not truth.names:
        truth = _named_array(truth, labels, frame, options)
    P = _checked(frame, place)
    weight = read_if_named(frame.numbers, options.weight, frame, "--weight")
    # labels that were found behind a prefix of their columns have shorter names now, in the same order
    Y = (
        truth.matrix
        if stated or truth.matrix is None
        else _arranged(truth, labels, frame, known_by_name=bool(options.classes))
    )
    for name, part in ((truth.option, Y), ("--weight", weight)):
        if part is not None and len(part) != len(P):
            raise ValueError(
                f"{name} names {len(part)} rows of {frame.path} and there are {len(P)} rows of probabilities; name "
                f"the table of these with --columns"
            )
    return FileRows(
        frame.path,
        options,
        tuple(labels),
        place.names,
        place.block,
        tuple(range(len(labels))),
        order_known=True,
        notes=(*place.notes, *notes),
        n_rows=len(P),
        proba=P,
        labels=Y,
        weight=weight,
        frame=frame,
    )


# --- the true labels -------------------------------------------------------------------------------------------------


def _truth(frame: Frame, options: TableOptions) -> _Truth:
    """Return the labels that --labels, or --label with --separator, name."""
    columns, label = options.label_columns, options.label
    if columns and (label is not None or options.separator is not None):
        other = "--label" if label is not None else "--separator"
        raise ValueError(f"--labels and {other} both say where the labels are; leave one of them out")
    if columns:
        refuse_twice(columns, "--labels", "column")
        parts = [_zero_one(frame, existing(name, frame, "--labels")) for name in columns]
        if len({len(part) for part in parts}) > 1:
            raise ValueError(f"the columns of --labels differ in length in {frame.path}; choose others")
        return _Truth(tuple(as_names(columns).tolist()), np.column_stack(parts), "--labels", stated=True)
    if label is None:
        if options.separator is not None:
            raise ValueError("--separator is the mark between the labels in a column; name the column with --label")
        return _Truth()
    array = frame.arrays.get(label)
    if array is not None and array.ndim == 2:
        return _Truth((), _zero_one_array(array, label, frame), "--label")
    lists = _lists(frame, existing(label, frame, "--label"), options.separator)
    texts = sorted({name for names in lists for name in names})
    if not texts:
        raise ValueError(f"no row of label column {label!r} of {frame.path} has a label; name another with --label")
    place = {name: k for k, name in enumerate(texts)}
    matrix = np.zeros((len(lists), len(texts)), dtype=np.uint8)
    for row, names in enumerate(lists):
        matrix[row, [place[name] for name in names]] = 1
    return _Truth(tuple(as_names(texts).tolist()), matrix, "--label")


def _zero_one(frame: Frame, name: str) -> NDArray[np.uint8]:
    """Return a column (n,) of 0 and 1, or of truth values."""
    values = frame.names_in(name, "label column")
    texts = np.char.lower(values.astype(str))
    ones = np.isin(texts, ("1", "1.0", "true"))
    wrong = ~(ones | np.isin(texts, ("0", "0.0", "false")))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"row {row} of label column {name!r} of {frame.path} holds {values[row].item()!r}, and columns of --labels "
            f"hold 0 or 1; for one column of names give --label and --separator"
        )
    return ones.astype(np.uint8)


def _zero_one_array(array: NDArray[Any], name: str, frame: Frame) -> NDArray[np.uint8]:
    ones = np.asarray(array == 1, dtype=np.bool_)
    wrong = ~(ones | np.asarray(array == 0, dtype=np.bool_))
    if wrong.any():
        row, column = (int(k) for k in np.argwhere(wrong)[0])
        raise ValueError(
            f"row {row}, column {column} of the array {name!r} of {frame.path} holds {array[row, column]!s:.40}, and "
            f"labels are 0 or 1; name another array with --label"
        )
    return ones.astype(np.uint8)


def _lists(frame: Frame, name: str, separator: str | None) -> list[list[str]]:
    """Return the names of the labels of every row; an empty cell has none."""
    column = frame.columns[name]
    kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    if any(kind(column.type) for kind in kinds):
        if separator is not None:
            raise ValueError(f"column {name!r} of {frame.path} holds lists; leave --separator out")
        return [[str(one).strip() for one in row or ()] for row in column.to_pylist()]
    if separator is None and frame.is_numeric(name):
        raise ValueError(
            f"--label {name} names a column of numbers, and rows have several labels: name columns of 0 and 1 with "
            f"--labels, or a column of names with --label and --separator"
        )
    if separator is None:
        raise ValueError(
            f"--label {name} names a column of text; give the mark between its labels, such as --separator ';', or "
            f"columns of 0 and 1 with --labels"
        )
    cells = pc.cast(column, pa.string()).to_pylist()
    return [[part.strip() for part in (cell or "").split(separator) if part.strip()] for cell in cells]


def _named_array(truth: _Truth, labels: Sequence[Any], frame: Frame, options: TableOptions) -> _Truth:
    """Return the labels of an array, whose columns are in the order of those of the probabilities."""
    assert truth.matrix is not None
    if truth.matrix.shape[1] != len(labels):
        raise ValueError(
            f"the array {options.label!r} of {frame.path} has {truth.matrix.shape[1]} labels and there are "
            f"{len(labels)} columns of probabilities; name their table with --columns"
        )
    return replace(truth, names=tuple(labels))


def _arranged(truth: _Truth, labels: Sequence[Any], frame: Frame, *, known_by_name: bool) -> NDArray[np.uint8]:
    """Return the true labels (n, L) in the order of ``labels``; a label that no row has is a column of zeros."""
    assert truth.matrix is not None
    texts = [str(name) for name in truth.names]
    if truth.stated:
        found = find(texts, labels)
        if found.places is None:
            refuse_part(found, texts, "correct --labels", of=f"--labels of {frame.path}", of_two="correct --labels")
            raise ValueError(f"--labels names {joined(texts)} and the labels are {joined(labels)}; name these columns")
        return np.ascontiguousarray(truth.matrix[:, list(found.places)])
    place = {str(name): k for k, name in enumerate(labels)}
    unknown = next((k for k, text in enumerate(texts) if text not in place), None)
    if unknown is not None:
        row = int(np.argmax(truth.matrix[:, unknown]))
        way_out = "name all labels with --classes, or drop such labels" if known_by_name else "drop such labels"
        raise ValueError(
            f"row {row} of the labels of {frame.path} has {texts[unknown]!r}, which is none of the {len(labels)} "
            f"labels ({joined(labels)}); {way_out}"
        )
    out = np.zeros((len(truth.matrix), len(labels)), dtype=np.uint8)
    out[:, [place[text] for text in texts]] = truth.matrix
    return out


# --- the probabilities -----------------------------------------------------------------------------------------------


def _probabilities_of(
    frame: Frame, options: TableOptions, labels: Sequence[Any], *, stated: bool, of_rows: bool
) -> tuple[Place, Sequence[Any], tuple[str, ...]]:
    """Return the columns of probabilities, the label of each, and what to warn of.

    ``labels`` are known from the labels of the rows, the rule or --classes; ``stated`` ones are called like their
    columns of 0 and 1, and may have a prefix that the columns of probabilities lack; those ``of_rows`` are the labels
    that some row has.
    """
    if options.columns:
        place = named_columns(frame, options.columns)
        return _by_name(frame, place, labels, certain=bool(options.classes) or stated)
    taken = (options.label, options.weight, options.key, *options.label_columns)
    numeric = [name for name in frame.columns if name not in taken and frame.is_numeric(name)]
    blocks = {name: block for name, block in frame.blocks.items() if name != options.label}
    found = _without_truth(frame, numeric, labels) if labels else Found(None, ())
    if found.places is None and stated:
        # columns y_a, y_b of 0 and 1 beside columns p_a, p_b: the label is what both have in common
        short = _without_prefix([str(name) for name in labels])
        again = find(numeric, short, whole=False) if short else found
        found, labels = (again, as_names(short).tolist()) if again.places is not None else (found, labels)
    if found.places is not None:
        names = tuple(numeric[k] for k in found.places)
        notes = _left_out(found, numeric, labels, frame if of_rows else None)
        return Place(names, None, "named like the labels"), labels, notes
    if len(blocks) > 1:
        raise ValueError(f"{frame.path} holds several tables ({joined(list(blocks))}); choose with --columns NAME")
    if blocks:
        return _by_name(frame, named_columns(frame, tuple(blocks)), labels, certain=True)
    refuse_part(found, numeric, IN_ORDER, of=str(frame.path), of_two=IN_ORDER)
    if labels:
        raise ValueError(
            f"{frame.path} has no columns of probabilities that are named like the labels {joined(labels)} (its other "
            f"numeric columns: {joined(numeric) or 'none'}); name them in this order with --columns"
        )
    return _unlabelled(frame, numeric)


def _without_truth(frame: Frame, numeric: Sequence[str], labels: Sequence[Any]) -> Found:
    """Return the columns of ``labels``; those of a held-out file that hold 0 and 1 beside probabilities are not meant.

    ``places`` are among ``numeric``.
    """
    found = find(numeric, labels, whole=False)
    exact = found.places is not None and found.names == tuple(numeric)
    if not exact and found.twice is None:
        return found
    rest = [name for name in numeric if not _is_zero_one(frame, name)]
    other = find(rest, labels, whole=False)
    behind = _without_prefix([str(name) for name in labels])
    if other.places is None and behind:
        # labels that were called y_a and y_b, of which p_a and p_b are the probabilities
        other = find(rest, behind, whole=False)
    if other.places is None or len(rest) == len(numeric):
        return found
    at = {name: k for k, name in enumerate(numeric)}
    names = [""] * len(numeric)
    for name, short in zip(rest, other.names, strict=True):
        names[at[name]] = short
    return Found(tuple(at[rest[k]] for k in other.places), tuple(names))


def _is_zero_one(frame: Frame, name: str) -> bool:
    return _holds_only(frame, name, lambda values: np.isin(values, (0.0, 1.0)))


def _is_share(frame: Frame, name: str) -> bool:
    """Whether a column holds numbers between 0 and 1, and not these two alone."""
    return _holds_only(frame, name, lambda values: (values >= 0.0) & (values <= 1.0)) and not _is_zero_one(frame, name)


def _holds_only(frame: Frame, name: str, where: Callable[[NDArray[Any]], NDArray[np.bool_]]) -> bool:
    """Whether all cells of a column are numbers ``where`` they should be."""
    try:
        return bool(where(frame.numbers(name)).all())
    except ValueError:  # a column that is not taken may hold anything
        return False


def _left_out(found: Found, numeric: Sequence[str], labels: Sequence[Any], frame: Frame | None) -> tuple[str, ...]:
    """Return a note on columns that are like those of the labels and belong to none.

    They have the same prefix; of a ``frame`` whose columns have none, the same kind of numbers.
    """
    places = found.places or ()
    known = {found.names[k] for k in places}
    others = [name for name, short in zip(numeric, found.names, strict=True) if short not in (*known, "", name)]
    if frame is not None and all(found.names[k] == numeric[k] for k in places):
        others = [name for k, name in enumerate(numeric) if k not in places and _is_share(frame, name)]
    if not others:
        return ()
    return (
        f"the columns {joined(others)} are like those of the labels {joined(labels, 4)} and were left out, because no "
        f"row has such a label; --classes names all labels",
    )


def _without_prefix(names: Sequence[str]) -> list[str]:
    """Return names behind the prefix that all of them share, up to a mark such as ``_``; nothing without one."""
    found = _SHARED.match(names[0][: _shared(names)])
    return [] if found is None or len(names) < 2 else [name[found.end() :] for name in names]


def _shared(names: Sequence[str]) -> int:
    """Return how many letters all names begin with."""
    return next((k for k, signs in enumerate(zip(*names, strict=False)) if len(set(signs)) > 1), min(map(len, names)))


def _by_name(
    frame: Frame, place: Place, labels: Sequence[Any], *, certain: bool
) -> tuple[Place, Sequence[Any], tuple[str, ...]]:
    """Return columns that were named by --columns, or are one array, in the order of the labels."""
    if not labels:
        return place, list(range(len(place.names))) if place.block else as_names(place.names).tolist(), ()
    if len(labels) != len(place.names):
        raise ValueError(
            f"there are {len(labels)} labels ({joined(labels)}) and {len(place.names)} columns of probabilities "
            f"({joined(place.names)}); name one for each label with --columns, and all labels with --classes"
        )
    found = find(place.names, labels)
    if found.places is not None and place.block is None:
        return replace(place, names=tuple(place.names[k] for k in found.places)), labels, ()
    if not certain and place.block is None:
        way_out = f"{IN_ORDER} and --classes"
        refuse_part(found, place.names, way_out, of=str(frame.path), of_two=way_out)
        raise ValueError(
            f"no column of --columns is called like a label ({joined(labels)}), so their order is not known; give the "
            f"labels in the same order with --classes"
        )
    return place, labels, ()


def _unlabelled(frame: Frame, numeric: Sequence[str]) -> tuple[Place, Sequence[Any], tuple[str, ...]]:
    """Return the columns of probabilities of a file whose labels nobody names: those that begin like one, or all."""
    begin = [found[0] for name in numeric if (found := PREFIX.match(name))]
    kept = tuple(name for name in numeric if begin and name.startswith(begin[0]))
    if len(set(begin)) == 1 and len(kept) == len(begin):
        left = [name for name in numeric if name not in kept]
        note = (
            f"the columns {joined(left)} do not begin with {begin[0]!r} and were left out; --columns sets the columns"
        )
        place = Place(kept, None, f"every column that begins with {begin[0]!r}", (note,) if left else ())
        return place, as_names([name[len(begin[0]) :] for name in kept]).tolist(), ()
    if not numeric:
        raise ValueError(f"{frame.path} has no column of probabilities; name them with --columns")
    return Place(tuple(numeric), None, NUMERIC), as_names(numeric).tolist(), ()


def _checked(frame: Frame, place: Place) -> NDArray[Any]:
    """Return the columns side by side (n, L), after the library's check, whose error names the column."""
    if place.block is not None:
        P = np.asarray(frame.block(place.block))
    else:
        parts = [frame.numbers(name) for name in place.names]
        if len({len(part) for part in parts}) > 1:
            raise ValueError(f"the columns {joined(place.names)} of {frame.path} differ in length; choose others")
        P = np.column_stack(parts)
    try:
        return checked_labels_proba(P).proba
    except ValueError as error:
        marked = extended(error).sentence.marked
        marked = re.sub(r"column (\d+) of `proba`", lambda at: f"column {place.names[int(at[1])]!r}", marked)
        if place.how != "named":
            marked += f" (columns taken: {joined(place.names)}, {place.how}; --columns chooses others)"
        raise InputError(f"{frame.path}: {marked}") from None
