"""Rows of files that are read in parts: folders, patterns, and files that are large beside the memory.

The columns are chosen by the rules of `confmax.cli.columns`, from the first rows and the distinct labels of all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from confmax.cli.columns import FileRows, TableOptions, aligned_columns, class_order, existing
from confmax.cli.label_columns import read_label_rows
from confmax.cli.tables import Frame
from confmax.cli.texts import PARQUET, SHARE, joined
from confmax.places import is_stream
from confmax.tables.partitioned.batches import format_of, stream_of
from confmax.tables.partitioned.files import parquet_file
from confmax.tables.partitioned.locations import Location, is_several
from confmax.tables.partitioned.opening import first_rows, open_table
from confmax.tables.partitioned.parts import distinct_beside, distinct_labels

# what may be done otherwise with an option for files that are read whole
_OTHERWISE = {
    "--score": ", or store both columns of probabilities",
    "--separator": ", or store lists of names, or columns of 0 and 1",
}
HEAD = 1000  # rows that tell the types of columns
USUAL_MEMORY = 8 << 30  # bytes


def rows_in_parts(
    path: Path,
    options: TableOptions,
    progress: Callable[[int, int], None] | None = None,
    rule_classes: Sequence[Any] = (),
) -> FileRows:
    """Return the table of `open_table`, its columns in the order of the classes; a ValueError as `read_rows`.

    ``rule_classes`` are those of a rule that is to be applied, and must be found, as for `read_rows`.
    """
    _refuse_whole(path, options)
    if path.suffix.lower() == ".npy":
        return _mapped_rows(path, options, progress, rule_classes)
    head = _head(path)
    named = [name for name in (options.label, options.group) if name is not None]
    # a column that is missing is named by `aligned_columns`
    readable = bool(named) and all(name in head.columns for name in named)
    rows = aligned_columns(head, options, _labels(path, options, head) if readable else [], rule_classes)
    columns = rows.columns if rows.block is None else (rows.block,)
    source = open_table(
        path, label=options.label, weight=options.weight, group=options.group, columns=columns, progress=progress
    )
    if rows.block is not None:
        source = source.with_columns(rows.order)
    # the columns are in the order of the classes now, whatever their names are
    return replace(rows, path=path, n_rows=source.n_rows, proba=replace(source, names=None))


def label_rows_in_parts(
    path: Path, options: TableOptions, labels: Sequence[Any], progress: Callable[[int, int], None] | None = None
) -> FileRows:
    """Return the table of `open_table` that a rule of several ``labels`` decides; a ValueError as for one class.

    It brings its true labels and its weights, if the options name them.
    """
    _refuse_whole(path, options)
    if path.suffix.lower() == ".npy":
        return _mapped_rows(path, options, progress, labels)
    head = _head(path)
    if options.key is not None:
        existing(options.key, head, "--key")
    rows = read_label_rows(head, options, labels)
    columns = rows.columns if rows.block is None else (rows.block,)
    truth = options.label_columns or options.label
    source = replace(
        open_table(path, label=truth, weight=options.weight, columns=columns, progress=progress), names=None
    )
    # labels and weights of the first rows are those that the table brings
    return replace(rows, path=path, n_rows=source.n_rows, proba=source, labels=None, weight=None, frame=None)


def _refuse_whole(path: Path, options: TableOptions) -> None:
    """Refuse options for files that are read whole."""
    # a score is one column, and open_table takes all
    given = {
        "--score": options.score,
        "--sep": options.sep,
        "--normalize": options.normalize or None,
        "--separator": options.separator,
    }
    option = next((name for name, value in given.items() if value is not None), None)
    if option is not None:
        raise ValueError(
            f"{option} is for files that are read whole and {path} is read in parts; name one file with "
            f"--in-parts no" + _OTHERWISE.get(option, "")
        )


def _head(path: Path) -> Frame:
    """Return the first rows of the first file that has some."""
    stream = stream_of(path)
    if stream is not None:
        table = stream.head(HEAD)
        return Frame(path, dict(zip(table.column_names, table.columns, strict=True)))
    file, table = first_rows(path, HEAD)
    return Frame(file.name, dict(zip(table.column_names, table.columns, strict=True)))


def _labels(path: Path, options: TableOptions, head: Frame) -> list[Any]:
    """Return the distinct labels of all rows, sorted; a ValueError for an empty label or group, and for mixed types."""
    # columns of probabilities must be named here, and none is read; the first is one of the files themselves
    label = options.label
    group = options.group
    found, groups = distinct_beside(open_table(path, label=label, group=group, columns=[next(iter(head.columns))] * 2))
    for what, name, each in (("label", label, found.tolist()), ("group", group, groups)):
        if any(isinstance(one, str) and not one.strip() for one in each):
            raise ValueError(
                f"{what} column {name!r} of {path} has empty rows; drop such rows, or leave the option out"
            )
        if len({isinstance(one, str) for one in each}) > 1:
            raise ValueError(
                f"{what} column {name!r} of {path} holds text in some files and numbers in others; write it as one type"
            )
    return sorted(found.tolist())


def _mapped_rows(
    path: Path, options: TableOptions, progress: Callable[[int, int], None] | None, rule_classes: Sequence[Any]
) -> FileRows:
    source = open_table(path, label=options.label, weight=options.weight, group=options.group, progress=progress)
    # labels are read only to give names from --classes the type of the labels
    labels = distinct_labels(source).tolist() if options.classes and source.has_labels else []
    classes = tuple(class_order(options, rule_classes, labels)) or tuple(range(source.n_classes))
    if rule_classes and len(classes) != source.n_classes:
        raise ValueError(
            f"the rule has {len(classes)} classes ({joined(classes)}) and {path} has {source.n_classes} columns; name "
            f"an array with one column per class"
        )
    if options.columns or options.positive or options.label_columns:
        way_out = "give --classes, not --columns or --positive"
        if rule_classes:
            way_out = "its columns are the rule's classes in order: leave --columns and --positive out"
        raise ValueError(f"{path} is an array without names; {way_out}")
    columns = tuple(f"[:, {k}]" for k in range(source.n_classes))
    known = bool(options.classes) or not any(isinstance(name, str) for name in classes)
    order = tuple(range(len(classes)))
    # as messages show them: addresses hold passwords
    options = replace(options, label=source.label, weight=source.weight, group=source.group)
    return FileRows(path, options, classes, columns, str(path), order, known, n_rows=source.n_rows, proba=source)


def is_read_in_parts(path: Path, in_parts: str) -> bool:
    """Return whether a file, directory, pattern or address is read in parts.

    With "auto" these are directories, patterns, addresses, ``.npy`` files, and Parquet that takes more than `SHARE` of
    the memory.
    """
    several = is_several(path)
    if not several and (not path.exists() or is_stream(path)):
        return False  # which reading it whole refuses, or reads from the stream
    kind = ".parquet" if path.suffix.lower() in PARQUET else path.suffix.lower()
    if in_parts == "yes" and not several and kind not in (".parquet", ".npy") and format_of(path) is None:
        raise ValueError(
            f"{path} is neither Parquet, CSV, Feather nor .npy, and only these are read in parts; leave --in-parts out"
        )
    if in_parts == "no" and (several or kind == ".npy"):
        raise ValueError(
            f"{path} can only be read in parts; leave --in-parts out, or name one CSV, Parquet or NPZ file"
        )
    if several or kind == ".npy" or in_parts == "yes":
        return True
    return in_parts == "auto" and kind == ".parquet" and path.is_file() and _bytes_in(path) > SHARE * _memory()


def refuse_several(path: Path, call: str) -> None:
    """Refuse directories, patterns and addresses, which a ``call`` in Python reads, for a command that does not."""
    if is_several(path):
        raise ValueError(
            f"{path} is read in parts, and this command reads one file whole; name one file, or in Python pass "
            f"confmax.open_table(...) to {call}"
        )


def _bytes_in(path: Path) -> int:
    """Return the uncompressed bytes of a Parquet file; 0 if it is damaged: reading it says so."""
    try:
        with parquet_file(Location(str(path), path)) as file:
            metadata = file.metadata
            return int(np.sum([metadata.row_group(k).total_byte_size for k in range(metadata.num_row_groups)]))
    except ValueError:
        return 0


def _memory() -> int:
    """Return the bytes of memory of this machine, or how many most have where the system does not say, as Windows."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return USUAL_MEMORY
