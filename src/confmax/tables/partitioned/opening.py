"""Opening tables in files: which files, which columns, which row groups; nothing is read but headers."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from importlib.util import find_spec
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from confmax.tables.partitioned import arrow, batches, files, is_dask, is_spark, streams
from confmax.tables.partitioned.parts import RowsRead, refuse_missing
from confmax.tables.partitioned.spark import frame_source

MAPPED_BYTES = 64 << 20  # of one part of a memory-mapped array
ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+(.*)", re.DOTALL)  # pathlib leaves one slash of s3://


def open_table(
    path: Any,
    *,
    label: str | os.PathLike[str] | Sequence[str] | None = None,
    weight: str | os.PathLike[str] | None = None,
    group: str | os.PathLike[str] | None = None,
    columns: Sequence[str] | None = None,
    progress: RowsRead | None = None,
    spool: bool = False,
) -> Any:
    """Open a table of probabilities of any size, in files or where it streams from, which is then read part by part.

    Parameters
    ----------
    path : str, path, sequence of them, frame, stream or function
        Parquet files on this machine: a name, a pattern such as ``"scores/*.parquet"``, a directory, or several names.
        They are read in sorted order, row group by row group. So are ``.csv``, ``.tsv`` (also ``.gz``) and ``.feather``
        or ``.arrow`` files, in parts of a million probabilities. Or one ``.npy`` file of an array (n, K), which is
        memory-mapped. Or a Dask DataFrame whose columns other than label, weight and group are all probabilities, or a
        Spark DataFrame. Or what gives Arrow batches: a Polars LazyFrame, an Arrow dataset, a DuckDB relation, a data
        frame, any object with ``__arrow_c_stream__``. Or a function without arguments that yields chunks of rows: data
        frames, Arrow tables, dicts of arrays, or tuples ``(proba, y)`` or ``(proba, y, sample_weight)``. It is called
        anew for every pass, in another thread, and once to look at its first chunk.
    label, weight, group : str or None
        Columns of true classes, of sample weights and of groups, for constraints that speak of groups; with a ``.npy``
        file of probabilities, the ``.npy`` files that hold them (n,). Several labels per row are a sequence of columns
        of 0 and 1, one column of lists of names, or a ``.npy`` file (n, L) of 0 and 1.
    columns : sequence of str or None
        The columns of probabilities in class order, or one column that holds a list of K numbers per row. Default: the
        column ``probability`` if it holds lists, otherwise every column of floating-point numbers except label, weight
        and group. Columns of decimals or whole numbers are used only if you name them here.
    progress : callable or None
        Called with the number of rows read so far in a pass and the number of rows of the table.
    spool : bool
        Whether to write rows that stream to a temporary Parquet file first, which is removed with the table or at the
        end of the process: for readers and iterators, which can be read only once, and for queries that take long.

    Returns
    -------
    object
        Pass it to `maximize` as ``proba``, without ``y``, ``sample_weight`` and ``group``, or to
        `DecisionRule.predict`. So far only the headers of the files have been read.

    Raises
    ------
    ValueError
        If there is no such file on this machine, a file is damaged, the files differ in their columns, a column is
        missing or has a wrong type, ``path`` is an array, or can be read only once. While rows that stream are used: if
        a pass gives other rows than the one before.
    ImportError
        If rows come from Parquet, text or Arrow and pyarrow is not installed.

    Notes
    -----
    A run reads the probabilities once to check them, once per pass, and once more if they are calibrated. The
    calibration is fitted on a sample of 4 million entries; the solver starts from the solution on this sample. Row
    groups of about a million rows are a good size, as three of them are in memory at a time. Small row groups of one
    file are read together, up to a million probabilities. Rows that stream are cut into parts of a million
    probabilities: the same rows in the same order give the same rule, byte for byte, whatever they come from.

    Examples
    --------
    >>> import confmax, numpy, tempfile, pathlib
    >>> def chunks():
    ...     rng = numpy.random.default_rng(0)
    ...     for _ in range(3):
    ...         p = rng.random((1000, 1))
    ...         yield numpy.hstack([1 - p, p]), (rng.random(1000) < p[:, 0]).astype(int)
    >>> confmax.maximize("balanced_accuracy", confmax.open_table(chunks)).rule.n_classes
    2
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "scores.npy"
    >>> numpy.save(file, [[0.8, 0.2], [0.6, 0.4], [0.3, 0.7]])
    >>> confmax.maximize("balanced_accuracy", confmax.open_table(file)).rule.predict([[0.4, 0.6]])
    array([1])
    """
    if spool and (is_dask(path) or is_spark(path)):
        raise ValueError("spool=True is for rows that stream, and Dask and Spark hold theirs: leave it out")
    if is_dask(path):
        from confmax.tables.partitioned.dask import dask_source

        several = _is_several(label)
        label = tuple(label) if several else label  # type: ignore[arg-type]
        return dask_source(path, label, weight, group=group, columns=columns, progress=progress, several=several)
    if is_spark(path):
        return frame_source(path, label, weight, group=group, columns=columns)
    path = batches.names_first(path)
    stream = batches.stream_of(path, spool=spool, columns=columns)
    if stream is not None:
        return streams.opened(stream, label, weight, group, columns=columns, progress=progress)
    if spool:
        raise ValueError("spool=True is for rows that stream, and these files are read where they are: leave it out")
    paths = files_of(path)
    weight, group = (None if given is None else os.fspath(given) for given in (weight, group))
    if label is not None:
        label = tuple(label) if _is_several(label) else os.fspath(label)  # type: ignore[arg-type]
    if paths[0].suffix.lower() == ".npy":
        if columns is not None:
            raise ValueError("columns= names columns of Parquet files; an array has numbers only: leave it out")
        return _mapped(str(paths[0]), label, weight, group, progress)
    if find_spec("pyarrow") is None:
        raise ImportError("Parquet files need pyarrow; install it with: pip install 'confmax[cli]'")
    return _parquet(paths, label, weight, group, columns, progress)


def _is_several(label: Any) -> bool:
    """Whether columns of labels are named one by one."""
    return isinstance(label, (list, tuple))


def files_of(path: Any) -> list[Path]:
    """Return the files that names, patterns and directories stand for, in order; ValueError if there is none."""
    found: list[Path] = []
    for each in _names(path):
        _refuse_address(each)
        name = each
        if os.path.isdir(each):
            _refuse_partitions(each)
            name = os.path.join(glob.escape(each), "*.parquet")
        # a file whose name holds brackets or stars is that file, not a pattern
        matched = sorted(glob.glob(name)) if glob.has_magic(name) and not os.path.exists(name) else [name]
        if not matched:
            raise ValueError(f"no file matches {name}; check the pattern and the folder")
        found += map(Path, matched)
    for file in found:
        if not file.is_file():
            raise ValueError(f"there is no file {file}; check the name and the folder")
        if file.suffix.lower() not in (".parquet", ".npy"):
            raise ValueError(f"{file} is none of .parquet, .npy, .csv, .tsv, .feather; these are read in parts")
    if len({file.suffix.lower() for file in found}) > 1 or (found[0].suffix.lower() == ".npy" and len(found) > 1):
        raise ValueError(f"give Parquet files, or one .npy file; got {', '.join(map(str, found[:3]))}")
    return found


def _names(path: Any) -> list[str]:
    """Return the names of files that were given, one or several."""
    # frames would give their columns' names, and arrays their rows
    several = isinstance(path, (Sequence, Set, Iterator)) and not isinstance(path, (str, bytes, bytearray))
    given = list(path) if several else [path]
    if not given:
        raise ValueError("open_table was given no file; name at least one Parquet file, or one .npy file")
    odd = [each for each in given if not isinstance(each, (str, os.PathLike))]
    if odd:
        kind = type(odd[0])
        is_table = any(hasattr(odd[0], name) for name in ("columns", "shape", "schema"))
        own = batches.library(odd[0])
        what = "None" if odd[0] is None else kind.__name__ if own == "builtins" else f"a {own}.{kind.__name__}"
        memory = "pass a table in memory to maximize as proba, as a pandas or Polars frame or an array, or write it to "
        raise ValueError(
            f"open_table takes the names of files, data frames, Arrow streams, and functions that yield rows; got "
            f"{'a sequence with ' if several else ''}{what}: {memory if is_table else 'name '}a Parquet file"
            f"{' and name that' if is_table else ', or one .npy file'}"
        )
    return [os.fspath(each) for each in given]


def _refuse_address(name: str) -> None:
    """Refuse addresses of places that are not on this machine, or are not written as paths."""
    found = ADDRESS.fullmatch(name)
    if found is None or os.path.exists(name):
        return
    scheme = found[1]
    rest = found[2]
    if scheme.lower() == "file":
        raise ValueError(f"{name} is an address; give the path of the file: /{unquote(rest)}")
    raise ValueError(
        f"{scheme}://{rest} is not on this machine, and only local files are read; copy the files here, or pass a Dask "
        f"or Spark DataFrame that reads them there"
    )


def _refuse_partitions(folder: str) -> None:
    """Refuse a directory whose Parquet files lie in directories of their own, or that has none."""
    below = sorted(glob.glob(os.path.join(glob.escape(folder), "**", "*.parquet"), recursive=True))
    if not below:
        raise ValueError(f"{folder} is a directory without .parquet files; name a file, or another folder")
    deep = [os.path.relpath(path, folder).split(os.sep) for path in below]
    lower = [parts for parts in deep if len(parts) > 1]
    if not lower:
        return
    # folders such as day=0 hold a column in their names, which would be lost without a word
    keys = [part for parts in lower for part in parts[:-1] if "=" in part]
    pattern = os.path.join(folder, *["*"] * (len(lower[0]) - 1), "*.parquet")
    if keys:
        raise ValueError(
            f"{folder} is partitioned into folders such as {keys[0]}; confmax does not read the values in the names of "
            f"folders: to leave them out, name the files with the pattern {pattern}"
        )
    if len(lower) == len(deep):
        raise ValueError(
            f"the .parquet files of {folder} are in folders below it; name them with the pattern {pattern}"
        )


def _parquet(
    paths: list[Path],
    label: Any,
    weight: str | None,
    group: str | None,
    columns: Sequence[str] | None,
    progress: RowsRead | None,
) -> files.FileSource:
    schemas = []
    pieces = []
    for path in paths:
        # the stamp is taken before the file is looked at: a change between the two would be missed otherwise
        stamp = files.stamp_of(path)
        with files.parquet_file(path) as file:
            numbers = range(file.metadata.num_row_groups)
            edges = [0, *accumulate(file.metadata.row_group(number).num_rows for number in numbers)]
            schemas.append(file.schema_arrow)
        pieces += [files.Piece(str(path), number, *rows, stamp) for number, rows in enumerate(pairwise(edges))]
    labels = label if _is_several(label) else (label,)
    chosen = arrow.probability_columns(schemas[0], columns, {*labels, weight, group}, paths[0])
    for path, schema in zip(paths, schemas, strict=True):
        refuse_missing(str(path), (*chosen, *labels, weight, group), schema.names)
        for name, what in (*((one, "label") for one in labels), (group, "group")):
            if name is not None:
                arrow.refuse_label_type(schema.field(name).type, name, path, what)
    filled = tuple(piece for piece in pieces if piece.stop > piece.start)
    # the width of lists is known from a row only
    if not pieces or (len(chosen) == 1 and not filled):
        raise ValueError(f"{paths[0]} holds no rows; at least one row of probabilities is needed")
    source = files.FileSource(filled, chosen, label, weight, len(chosen), chosen, progress=progress, group=group)
    return source if len(chosen) > 1 else replace(source, n_classes=files.width_of_lists(source), names=None)


def _mapped(
    path: str, label: Any, weight: str | None, group: str | None, progress: RowsRead | None
) -> files.FileSource:
    if _is_several(label):
        raise ValueError(f"label names {len(label)} columns, and an array has none; name a .npy file (n, L) of 0 and 1")
    stamp = files.stamp_of(path)
    array = files.map_array(path)
    if array.ndim != 2 or array.shape[1] < 2:
        raise ValueError(f"{path} must hold an array (n, K) with K >= 2 classes; got shape {array.shape}")
    n, K = array.shape
    # stamped before they are looked at; what is no file is refused there
    there = [name for name in (label, weight, group) if name is not None and os.path.isfile(name)]
    beside = tuple((name, files.stamp_of(name)) for name in there)
    given = [
        (label, "label", "biufU", "strings or numbers"),
        (weight, "weight", "biuf", "numbers"),
        (group, "group", "biufU", "strings or numbers"),
    ]
    for name, what, kinds, words in given:
        if name is None:
            continue
        found = files.map_array(name)
        if found.shape != (n,) and not (what == "label" and found.ndim == 2 and len(found) == n):
            raise ValueError(f"{what} {name} must hold one entry per row: {n}; got shape {found.shape}")
        if found.dtype.kind not in kinds:
            raise ValueError(f"{what} {name} holds {found.dtype}; it must hold {words}")
    # an array has no row groups: parts are of one size in bytes, whatever the number of classes
    rows = max(1, MAPPED_BYTES // max(1, array.itemsize * K))
    pieces = tuple(files.Piece(path, -1, low, min(low + rows, n), stamp, beside) for low in range(0, n, rows))
    return files.FileSource(pieces, (), label, weight, K, progress=progress, group=group)
