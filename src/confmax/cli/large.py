"""Files that are not read whole: which of their columns mean what, as for other files, and the rows part by part.

The columns are chosen by the rules of `confmax.cli.columns`, from the first rows and the distinct labels of all.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from confmax.cli.columns import FileRows, TableOptions, aligned_columns, class_order
from confmax.cli.tables import Frame
from confmax.places import is_stream
from confmax.tables.partitioned.files import parquet_file
from confmax.tables.partitioned.opening import files_of, open_table
from confmax.tables.partitioned.table import distinct_labels

SHARE = 0.25  # of the machine's memory: Parquet files that hold more, uncompressed, are read in parts
HEAD = 1000  # rows that tell the types of columns
Progress = Callable[[int, int], None]  # takes the rows read of a pass so far, and all rows


def rows_in_parts(path: Path, options: TableOptions, progress: Progress | None = None) -> FileRows:
    """Return the table of `open_table`, its columns in the order of the classes.

    Raises
    ------
    ValueError
        As `read_rows`.
    """
    # a score is one column, and open_table takes all
    if options.score is not None or options.sep is not None:
        option = "--sep" if options.score is None else "--score"
        raise ValueError(
            f"{option} is for files that are read whole and {path} is read in parts; name one file with "
            f"--in-parts no" + ("" if options.score is None else ", or store both columns of probabilities")
        )
    if path.suffix.lower() == ".npy":
        return _mapped_rows(path, options, progress)
    head = _head(path)
    rows = aligned_columns(head, options, _labels(path, options.label) if options.label in head.columns else [])
    columns = rows.columns if rows.block is None else (rows.block,)
    source = open_table(path, label=options.label, weight=options.weight, columns=columns, progress=progress)
    if rows.block is not None:
        source = source.with_columns(rows.order)
    # the columns are in the order of the classes now, whatever their names are
    return replace(rows, path=path, n_rows=source.n_rows, proba=replace(source, names=None))


def _head(path: Path) -> Frame:
    """Return the first rows of the first file that has some."""
    for file_path in files_of(path):
        with parquet_file(file_path) as file:
            batch = next(file.iter_batches(HEAD), None)
        if batch is not None and batch.num_rows:
            return Frame(file_path, dict(zip(batch.schema.names, batch.columns, strict=True)))
    raise ValueError(f"{path} has column names but no rows; give at least one row of probabilities")


def _labels(path: Path, label: str | None) -> list[Any]:
    """Return the distinct labels of all rows, sorted."""
    # columns of probabilities must be named here, and none is read
    found = distinct_labels(open_table(path, label=label, columns=[str(label)] * 2)).tolist()
    if any(isinstance(name, str) and not name.strip() for name in found):
        raise ValueError(f"label column {label!r} of {path} has empty rows; drop such rows, or leave the option out")
    return sorted(found)


def _mapped_rows(path: Path, options: TableOptions, progress: Progress | None) -> FileRows:
    source = open_table(path, label=options.label, weight=options.weight, progress=progress)
    # labels are read only to give names from --classes the type of the labels
    labels = distinct_labels(source).tolist() if options.classes and source.has_labels else []
    classes = tuple(class_order(options, (), labels)) or tuple(range(source.n_classes))
    if options.columns or options.positive:
        raise ValueError(f"{path} is an array without names; give --classes, not --columns or --positive")
    columns = tuple(f"[:, {k}]" for k in range(source.n_classes))
    known = bool(options.classes) or not any(isinstance(name, str) for name in classes)
    order = tuple(range(len(classes)))
    return FileRows(path, options, classes, columns, str(path), order, known, n_rows=source.n_rows, proba=source)


def is_read_in_parts(path: Path, in_parts: str) -> bool:
    """Return whether a file, directory or pattern is read in parts.

    With "auto" these are directories, patterns, ``.npy`` files, and Parquet that takes more than `SHARE` of the memory;
    with "yes" and "no" it is as they say.

    Raises
    ------
    ValueError
        If a file cannot be read in this way.
    """
    # a file whose name holds brackets or stars is that file
    several = path.is_dir() or (glob.has_magic(str(path)) and not path.exists())
    if not several and (not path.exists() or is_stream(path)):
        return False  # which reading it whole refuses, or reads from the stream
    kind = path.suffix.lower()
    if in_parts == "yes" and not several and kind not in (".parquet", ".npy"):
        raise ValueError(f"{path} is neither Parquet nor .npy, and only these are read in parts; leave --in-parts out")
    if in_parts == "no" and (several or kind == ".npy"):
        raise ValueError(
            f"{path} can only be read in parts; leave --in-parts out, or name one CSV, Parquet or NPZ file"
        )
    if several or kind == ".npy" or in_parts == "yes":
        return True
    return in_parts == "auto" and kind == ".parquet" and path.is_file() and _bytes_in(path) > SHARE * _memory()


def _bytes_in(path: Path) -> int:
    """Return the uncompressed bytes of a Parquet file; 0 if it is damaged: reading it says so."""
    try:
        with pq.ParquetFile(path) as file:
            metadata = file.metadata
            return int(np.sum([metadata.row_group(k).total_byte_size for k in range(metadata.num_row_groups)]))
    except (pa.ArrowException, OSError):
        return 0


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
