"""Opening tables in files: which files, which columns, which row groups; nothing is read but headers."""

from __future__ import annotations

import os
from collections.abc import Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.util import find_spec
from itertools import accumulate, pairwise
from typing import Any

from confmax.errors import InputError
from confmax.places import shown
from confmax.tables.kinds import refuse_name
from confmax.tables.partitioned import arrow, batches, files, is_dask, is_opened, is_spark, is_stream, streams
from confmax.tables.partitioned.locations import Location, files_of, key_columns
from confmax.tables.partitioned.parts import RowsRead, refuse_missing
from confmax.tables.partitioned.spark import frame_source

MAPPED_BYTES = 64 << 20  # of one part of a memory-mapped array
OPENERS = 16  # files of other machines whose footers are read at the same time: each waits for the answers


def open_table(
    path: Any,
    *,
    label: str | os.PathLike[str] | Sequence[str] | None = None,
    weight: str | os.PathLike[str] | None = None,
    group: str | os.PathLike[str] | None = None,
    columns: Sequence[str] | None = None,
    filesystem: Any = None,
    progress: RowsRead | None = None,
    spool: bool = False,
) -> Any:
    """Open a table of probabilities of any size, in files or where it streams from, which is then read part by part.

    Parameters
    ----------
    path : str, path, sequence of them, frame, stream or function
        Parquet files: a name, a pattern such as ``"scores/*.parquet"``, a directory, or several names.
        They are read in sorted order, row group by row group. So are ``.csv``, ``.tsv`` (also ``.gz``) and ``.feather``
        or ``.arrow`` files, in parts of a million probabilities. Or one ``.npy`` file of an array (n, K), which is
        memory-mapped. Or a Dask DataFrame or a Spark DataFrame. Or what streams: an object with ``__arrow_c_stream__``,
        such as a data frame or a DuckDB relation, an Arrow dataset, a Polars LazyFrame (1.34 or newer), or a function
        without arguments that returns an iterator of chunks of rows: data frames, Arrow tables, dicts of arrays, or
        tuples ``(proba, y)`` or ``(proba, y, sample_weight)``. It is called anew for every pass, in another thread, and
        once to look at its first chunk.
        Names of Parquet and ``.npy`` files may be addresses, such as ``"s3://bucket/scores/*.parquet"``, for which
        `pyarrow.fs` or fsspec has a filesystem.
    label, weight, group : str or None
        Columns of true classes, of sample weights and of groups, for constraints that speak of groups; with a ``.npy``
        file of probabilities, the ``.npy`` files that hold them (n,). Several labels per row are a sequence of columns
        of 0 and 1, one column of lists of names, or a ``.npy`` file (n, L) of 0 and 1.
    columns : sequence of str or None
        The columns of probabilities in class order, or one column that holds a list of K numbers per row. Default: the
        column ``probability`` if it holds lists, otherwise every column of floating-point numbers except label, weight
        and group. Columns of decimals or whole numbers are used only if you name them here.
    filesystem : pyarrow.fs.FileSystem, fsspec filesystem or None
        The filesystem of all names, with its credentials. Default: that of each address, or this machine.
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
        If there is no such file, a file is damaged or may not be read, a host does not answer, the files differ in
        their columns, a column is missing or has a wrong type, ``path`` is an array, or can be read only once. While
        rows that stream are used: if a pass gives other rows than the one before. Addresses in messages have neither
        user nor password nor query.
    ImportError
        If rows come from Parquet, text or Arrow, or from another machine, and pyarrow is not installed, or a filesystem
        needs fsspec or one of its packages.

    Notes
    -----
    A run reads the probabilities once to check them, once per pass, and once more if they are calibrated. The
    calibration is fitted on a sample of 4 million entries; the solver starts from the solution on this sample. Row
    groups of about a million rows are a good size, as three of them are in memory at a time. Small row groups of one
    file are read together, up to a million probabilities. Rows that stream are cut into parts of a million
    probabilities: the same rows in the same order give the same rule, byte for byte, whatever they come from.

    A directory is read with all directories below it, as by ``pandas.read_parquet`` and pyarrow; what begins with ``_``
    or ``.`` is left out. Directories ``key=value`` are a column ``key`` of whole numbers or strings, for label, weight
    and group; it never holds probabilities. Of a pattern, these are the directories from the first part with a
    wildcard on. A column of the files themselves comes before a directory of its name.

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
    if filesystem is not None and (is_dask(path) or is_spark(path)):
        raise ValueError("filesystem= is for names of files, and a frame knows where its rows are: leave it out")
    if is_dask(path):
        from confmax.tables.partitioned.dask import dask_source

        several = _is_several(label)
        label = tuple(label) if several else label  # type: ignore[arg-type]
        return dask_source(path, label, weight, group=group, columns=columns, progress=progress, several=several)
    if is_spark(path):
        return frame_source(path, label, weight, group=group, columns=columns)
    stream = batches.stream_of(path, spool=spool, columns=columns)
    if stream is not None and filesystem is not None:
        raise ValueError("filesystem= is for names of Parquet and .npy files: leave it out")
    if stream is not None:
        return streams.opened(stream, label, weight, group, columns=columns, progress=progress)
    if spool:
        raise ValueError("spool=True is for rows that stream, and these files are read where they are: leave it out")
    paths = files_of(_names(path), filesystem)
    weight, group = (None if given is None else os.fspath(given) for given in (weight, group))
    if label is not None:
        label = tuple(label) if _is_several(label) else os.fspath(label)  # type: ignore[arg-type]
    if paths[0].format == ".npy":
        if columns is not None:
            raise ValueError("columns= names columns of Parquet files; an array has numbers only: leave it out")
        return _mapped(paths[0], label, weight, group, progress, filesystem)
    if find_spec("pyarrow") is None:
        raise ImportError("Parquet files need pyarrow; install it with: pip install 'confmax[cli]'")
    return _parquet(paths, label, weight, group, columns, progress)


def opened_rows(table: Any) -> Any:
    """Return an opened table, and rows that stream as one; a ValueError for other rows."""
    refuse_name(table)
    if is_opened(table):
        return table
    if not is_stream(table):
        raise InputError(
            "these rows are no parts of a table", "pass them to predict, or a table from confmax.open_table"
        )
    return open_table(table)


def _is_several(label: Any) -> bool:
    """Whether columns of labels are named one by one."""
    return isinstance(label, (list, tuple))


def _names(path: Any) -> list[str]:
    """Return the names of files that were given, one or several."""
    # frames would give their columns' names, and arrays their rows
    several = isinstance(path, (Sequence, Set)) and not isinstance(path, (str, bytes, bytearray))
    given = list(path) if several else [path]
    # a set has no order, and another one in each process
    given = sorted(given, key=str) if isinstance(path, Set) else given
    if not given:
        raise ValueError("open_table was given no file; name at least one Parquet file, or one .npy file")
    odd = [each for each in given if not isinstance(each, (str, os.PathLike))]
    if odd:
        kind = "None" if odd[0] is None else type(odd[0]).__name__
        raise ValueError(
            f"open_table takes names of files, Arrow streams and datasets, lazy frames of Polars 1.34 or newer "
            f"and functions; got {'a sequence with ' if several else ''}{kind}: name a file, pass a table in memory to "
            f"maximize as proba, or {batches.FUNCTION}"
        )
    return [os.fspath(each) for each in given]


def first_rows(path: Any, most: int, filesystem: Any = None) -> tuple[Location, Any]:
    """Return the first file that has rows, and at most so many of them as an Arrow table, with the keys of folders.

    A ValueError if there are none.
    """
    import pyarrow as pa

    found = files_of(_names(path), filesystem)
    keys = key_columns(found)
    for place, file_path in enumerate(found):
        with files.parquet_file(file_path) as file:
            batch = next(file.iter_batches(most), None)
        if batch is not None and batch.num_rows:
            own = {key: values[place] for key, values in keys.items() if key not in batch.schema.names}
            return file_path, arrow.with_keys(pa.Table.from_batches([batch]), own)
    raise ValueError(f"{found[0]} has column names but no rows; give at least one row of probabilities")


def _footer(path: Location) -> tuple[Any, list[int], Any]:
    """Return the stamp of a Parquet file, the edges of its row groups, and its schema."""
    # the stamp is taken before the file is looked at: a change between the two would be missed otherwise
    stamp = path.stamp()
    with files.parquet_file(path) as file:
        numbers = range(file.metadata.num_row_groups)
        return stamp, [0, *accumulate(file.metadata.row_group(k).num_rows for k in numbers)], file.schema_arrow


def _parquet(
    paths: list[Location],
    label: Any,
    weight: str | None,
    group: str | None,
    columns: Sequence[str] | None,
    progress: RowsRead | None,
) -> files.FileSource:
    if len(paths) > 1 and any(path.filesystem is not None for path in paths):
        with ThreadPoolExecutor(OPENERS, thread_name_prefix="confmax-open") as several:
            footers = list(several.map(_footer, paths))
    else:
        footers = [_footer(path) for path in paths]
    schemas = [schema for _, _, schema in footers]
    in_files = {name for schema in schemas for name in schema.names}
    keys = {key: values for key, values in key_columns(paths).items() if key not in in_files}
    pieces = []
    for place, (path, (stamp, edges, _)) in enumerate(zip(paths, footers, strict=True)):
        own = {key: values[place] for key, values in keys.items()}
        pieces += [files.Piece(path, number, *rows, stamp, keys=own) for number, rows in enumerate(pairwise(edges))]
    labels = label if _is_several(label) else (label,)
    chosen = arrow.probability_columns(schemas[0], columns, {*labels, weight, group}, paths[0])
    for path, schema in zip(paths, schemas, strict=True):
        refuse_missing(str(path), chosen, schema.names)
        if columns is None and len(chosen) > 1:
            arrow.refuse_further(path, chosen, {*labels, weight, group}, schema, schemas[0])
        refuse_missing(str(path), (*labels, weight, group), [*schema.names, *keys])
        for name, what in (*((one, "label") for one in labels), (group, "group")):
            if name is not None:
                kind = keys[name].type if name in keys else schema.field(name).type
                arrow.refuse_label_type(kind, name, str(path), what)
    filled = tuple(piece for piece in pieces if piece.stop > piece.start)
    # the width of lists is known from a row only
    if not pieces or (len(chosen) == 1 and not filled):
        raise ValueError(f"{paths[0]} holds no rows; at least one row of probabilities is needed")
    beside = {"label": label, "weight": weight, "group": group, "progress": progress, "stated": columns is not None}
    source = files.FileSource(chosen, pieces=filled, n_classes=len(chosen), names=chosen, **beside)
    return source if len(chosen) > 1 else replace(source, n_classes=files.width_of_lists(source), names=None)


def _mapped(
    path: Location, label: Any, weight: str | None, group: str | None, progress: RowsRead | None, filesystem: Any
) -> files.FileSource:
    if _is_several(label):
        raise ValueError(f"label names {len(label)} columns, and an array has none; name a .npy file (n, L) of 0 and 1")
    stamp = path.stamp()
    array = files.map_array(path)
    if array.ndim != 2 or array.shape[1] < 2:
        raise ValueError(f"{path} must hold an array (n, K) with K >= 2 classes; got shape {array.shape}")
    n, K = array.shape
    given = [
        ("label", label, "biufU", "strings or numbers"),
        ("weight", weight, "biuf", "numbers"),
        ("group", group, "biufU", "strings or numbers"),
    ]
    beside = {}
    for what, name, kinds, words in given:
        if name is None:
            continue
        if not shown(name).lower().endswith(".npy"):
            raise ValueError(f"{shown(name)} is not a .npy file; save the array with numpy.save and name the file")
        (file,) = files_of([name], filesystem)
        # stamped before it is looked at
        beside[what] = (file, file.stamp())
        found = files.map_array(file)
        if found.shape != (n,) and not (what == "label" and found.ndim == 2 and len(found) == n):
            raise ValueError(f"{what} {file} must hold one entry per row: {n}; got shape {found.shape}")
        if found.dtype.kind not in kinds:
            raise ValueError(f"{what} {file} holds {found.dtype}; it must hold {words}")
    # an array has no row groups: parts are of one size in bytes, whatever the number of classes
    rows = max(1, MAPPED_BYTES // max(1, array.itemsize * K))
    edges = range(0, n, rows)
    pieces = tuple(files.Piece(path, -1, low, min(low + rows, n), stamp, beside) for low in edges)
    names = [None if name is None else shown(name) for name in (label, weight, group)]
    return files.FileSource((), names[0], names[1], K, pieces=pieces, progress=progress, group=names[2])
