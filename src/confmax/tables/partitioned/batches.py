"""Where Arrow batches come from: four protocols, and files of text and of Arrow.

The protocols are streams of Arrow (``__arrow_c_stream__``), datasets of Arrow, lazy frames that collect batches, and
functions that return an iterator of chunks. Each of them becomes a `Stream`, which reads columns by name, as often as
somebody asks, and cuts the batches anew into tables of one size. What can be read only once is refused, or written to a
temporary file first.
"""

from __future__ import annotations

import glob
import inspect
import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from confmax.places import shown_in
from confmax.tables.arrays import as_array
from confmax.tables.frames import frame_columns
from confmax.tables.partitioned import streams_as
from confmax.tables.partitioned.arrow import refuse_further, short
from confmax.tables.partitioned.parts import refuse_missing

# the columns of chunks that are arrays without names
PROBA = "probability"
LABEL = "y"
WEIGHT = "sample_weight"
ARRAY_CHUNK = {b"confmax": b"arrays"}  # metadata of their schema
CHUNKS = "frames and tables with __arrow_c_stream__, dicts of arrays, or tuples (proba, y) or (proba, y, sample_weight)"
NO_ROWS = "{} holds no rows; at least one row of probabilities is needed"
FUNCTION = "pass a function without arguments that returns an iterator of chunks"
SPOOL = "or pass spool=True to open_table, which writes the rows to a temporary file once"
SPOOLED_ROWS = 1 << 16  # of a row group of the temporary file
FORMATS = {".csv": ",", ".tsv": "\t", ".csv.gz": ",", ".tsv.gz": "\t", ".feather": "", ".arrow": ""}  # delimiters

Batches = Generator[Any, None, None]  # of Arrow; closing it ends a query


@dataclass(frozen=True, eq=False)
class Stream:
    """Rows that can be read again and again.

    ``schema`` is that of Arrow. ``batches(columns, rows)`` yields Arrow batches that have these columns, best of so
    many rows. ``what`` is what a person calls the rows. ``count`` returns their number where that takes no pass.
    ``paths`` are those of files on this machine.
    """

    schema: Any
    batches: Callable[[list[str], int], Batches]
    what: str
    count: Callable[[], int] | None = None
    paths: Sequence[str] = ()

    def tables(self, columns: Sequence[str], rows: int) -> Batches:
        """Yield Arrow tables of these columns, of so many rows each but for the last; ValueError if types change."""
        import pyarrow as pa

        names = list(columns)
        held = list[Any]()
        n = 0
        first = before = None
        with closing(self.batches(names, rows)) as found:
            for number, batch in enumerate(found):
                if batch.schema is not before:
                    before = batch.schema
                    refuse_missing(f"batch {number} of {self.what}", names, before.names)
                picked = batch.select(names)
                first = first or picked.schema
                if picked.schema.types != first.types:
                    name, kind, other = next(
                        (name, kind, other)
                        for name, kind, other in zip(names, picked.schema.types, first.types, strict=True)
                        if kind != other
                    )
                    raise ValueError(
                        f"column {name!r} of {self.what} holds {kind} in batch {number} and {other} in the first one; "
                        f"give every batch the same types"
                    )
                start = 0
                while start < picked.num_rows:
                    piece = picked.slice(start, rows - n)
                    held.append(pa.RecordBatch.from_arrays(piece.columns, schema=first))
                    start += piece.num_rows
                    n += piece.num_rows
                    if n == rows:
                        yield pa.Table.from_batches(held)
                        held = []
                        n = 0
        if held:
            yield pa.Table.from_batches(held)

    def head(self, most: int, columns: Sequence[str] | None = None) -> Any:
        """Return the first rows of columns, or of all, as an Arrow table, at most so many; ValueError for no rows."""
        with closing(self.tables(self.schema.names if columns is None else columns, most)) as found:
            table = next(found, None)
        if table is None:
            raise ValueError(NO_ROWS.format(self.what))
        return table


@contextmanager
def _reading(what: str, way_out: str = "") -> Iterator[None]:
    """Make one sentence of whatever a library raises while it reads."""
    try:
        yield
    except Exception as error:  # each library raises the errors of its own
        raise ValueError(f"{what} cannot be read: {shown_in(short(error))}{way_out and '; '}{way_out}") from error


# --- the protocols ---------------------------------------------------------------------------------------------------


def stream_of(given: Any, *, spool: bool = False, columns: Sequence[str] | None = None) -> Stream | None:
    """Return the stream of text or Arrow files, or of an object whose rows come as Arrow batches; None for the rest.

    With ``spool`` its rows are written to a temporary file first. ``columns`` are those of probabilities, of text.
    ValueError for what can be read only once.
    """
    try:
        paths = named_files(given)
        stream = _of_files(paths, () if columns is None else columns) if paths else _stream_of(given, spool=spool)
        return spooled(stream) if paths and spool and stream else stream
    except ModuleNotFoundError as error:
        if error.name != "pyarrow":
            raise
        raise ImportError("rows that stream need pyarrow; install it with: pip install 'confmax[cli]'") from None


def _stream_of(given: Any, *, spool: bool) -> Stream | None:
    what = f"the {type(given).__name__}"
    if hasattr(given, "__next__"):
        if not spool:
            raise ValueError(
                f"{what} can be read only once, and a run reads the rows several times; {FUNCTION}, a list of the "
                f"names of files, {SPOOL}"
            )
        return _spooled(_batches_of(given, what), what)
    protocol = streams_as(given)
    if protocol is None:
        return None
    makers = {"collect_batches": _of_lazy_frame, "scanner": _of_dataset, "__arrow_c_stream__": _of_arrow}
    stream = makers.get(protocol, _of_function)(given, what)
    return spooled(stream) if spool else stream


def _of_arrow(given: Any, what: str) -> Stream:
    import pyarrow as pa

    with _reading(what):
        table = _without_index(given)

    def batches(*_: Any) -> Batches:
        with _reading(what, FUNCTION), pa.RecordBatchReader.from_stream(table) as reader:
            yield from reader

    with _reading(what, FUNCTION), pa.RecordBatchReader.from_stream(table) as reader:
        return Stream(reader.schema, batches, what)


def _without_index(given: Any) -> Any:
    """Return what streams Arrow batches: a frame of pandas without its index, a frame of Polars in common types."""
    import pyarrow as pa

    kind = type(given)
    if hasattr(kind, "iloc"):
        return pa.Table.from_pandas(given, preserve_index=False)
    # its stream has types that older versions of pyarrow cannot read
    return given.to_arrow() if hasattr(kind, "to_arrow") else given


def _of_dataset(dataset: Any, what: str) -> Stream:
    import pyarrow.dataset as ds

    how: dict[str, Any] = {"batch_readahead": 1, "fragment_readahead": 1}
    with _reading(what):
        formats = [getattr(each, "format", None) for each in getattr(dataset, "children", [dataset])]
        if all(isinstance(each, ds.ParquetFileFormat) for each in formats):
            # what is buffered ahead is held until the end of a file, however large
            how["fragment_scan_options"] = ds.ParquetFragmentScanOptions(pre_buffer=False)

    def batches(columns: list[str], rows: int) -> Batches:
        with _reading(what):
            yield from dataset.to_batches(columns=columns, batch_size=rows, **how)

    # a dataset of several has none of its own
    here = getattr(getattr(dataset, "filesystem", None), "type_name", "") == "local"
    paths = dataset.files if here else ()
    return Stream(dataset.schema, batches, what, lambda: int(dataset.count_rows()), paths)


def _of_lazy_frame(frame: Any, what: str) -> Stream:
    # loaded, since there is a frame of it
    polars = sys.modules["polars"]

    def batches(columns: list[str], rows: int) -> Batches:
        # a name such as "^a$" would be a pattern
        chosen = frame.select([polars.nth(places[name]) for name in columns])
        with _reading(what):
            for part in chosen.collect_batches(chunk_size=rows, maintain_order=True):
                yield from part.to_arrow().to_batches()

    with _reading(what):
        types = frame.collect_schema()
        places = {name: place for place, name in enumerate(types)}
        return Stream(polars.DataFrame(schema=types).to_arrow().schema, batches, what)


# --- functions that yield chunks -------------------------------------------------------------------------------------


def _of_function(function: Callable[[], Any], kind: str) -> Stream:
    what = f"the function {function.__name__}" if hasattr(function, "__name__") else kind
    try:
        inspect.signature(function).bind()
    except TypeError as error:
        raise ValueError(f"{what} is called without arguments, once for each pass: {error}; bind them first") from None
    except ValueError:
        pass  # a built-in function does not say what it takes

    def batches(*_: Any) -> Batches:
        yield from _batches_of(function(), what)

    with closing(batches()) as found:
        first = next(found, None)
    if first is None:
        raise ValueError(f"{what} yields no rows; it must yield {CHUNKS}")
    return Stream(first.schema, batches, what)


def _batches_of(made: Any, what: str) -> Iterator[Any]:
    """Yield the Arrow batches that have rows of all chunks that were made, or of one; ValueError for anything else."""
    alone = isinstance(made, (tuple, dict, np.ndarray)) or hasattr(made, "__arrow_c_stream__")
    if not alone and (not isinstance(made, Iterable) or isinstance(made, (str, bytes))):
        raise ValueError(f"{what} returned {type(made).__name__}; it must yield {CHUNKS}")
    first: list[str] = []
    for number, chunk in enumerate([made] if alone else made):
        place = what if alone else f"chunk {number} of {what}"
        for batch in _batches_of_chunk(chunk, place):
            if batch.num_rows:
                first = first or batch.schema.names
                more = next((name for name in batch.schema.names if name not in first), None)
                if more is not None:
                    # else weights, labels or a class that only some chunks have would be left out
                    raise ValueError(f"{place} has {more!r}, and the first chunk has not; give every chunk the same")
                yield _copied(batch)


def _copied(batch: Any) -> Any:
    """Return a batch in memory of its own: a function may write its next chunk to the arrays of the one before."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return pa.ipc.open_stream(sink.getvalue()).read_next_batch()


def _batches_of_chunk(chunk: Any, what: str) -> Iterator[Any]:
    import pyarrow as pa

    if isinstance(chunk, (tuple, dict, np.ndarray)):
        with _reading(what):
            chunk = _of_arrays(chunk)
    elif not hasattr(chunk, "__arrow_c_stream__"):
        raise ValueError(f"{what} is {type(chunk).__name__}; chunks are {CHUNKS}")
    with _reading(what), pa.RecordBatchReader.from_stream(_without_index(chunk)) as reader:
        yield from reader


def _of_arrays(chunk: Any) -> Any:
    """Return arrays by name, or probabilities with labels and weights, as an Arrow table; ValueError for others."""
    import pyarrow as pa

    if isinstance(chunk, dict):
        return pa.table({str(name): _column(values) for name, values in chunk.items()})
    proba, *others = chunk if isinstance(chunk, tuple) else (chunk,)
    if isinstance(proba, str) or len(others) > 2:
        raise ValueError(f"a tuple of {len(others) + 1} is none of (proba, y) and (proba, y, sample_weight)")
    if frame_columns(proba) is not None:
        table = pa.table(_without_index(proba))
    else:
        P = as_array(proba) if len(proba) else np.empty((0, 2))
        table = pa.table({PROBA: _column(P)})
    for name, values in zip((LABEL, WEIGHT), others, strict=False):
        if values is not None:
            if not hasattr(values, "__len__"):
                raise ValueError(f"{name} is {type(values).__name__}; give one entry per row")
            if len(values) != table.num_rows:
                raise ValueError(f"{name} has {len(values)} entries for {table.num_rows} rows")
            # one label for each row may be a column (n, 1), as in memory
            values = values[:, 0] if isinstance(values, np.ndarray) and values.shape[1:] == (1,) else values
            table = table.append_column(name, _column(values))
    return table.replace_schema_metadata(ARRAY_CHUNK)


def _column(values: Any) -> Any:
    """Return an array (n,), or a matrix (n, K) as lists, as an Arrow column."""
    import pyarrow as pa

    if getattr(values, "ndim", 1) != 2:
        return pa.array(values)
    rows = np.ascontiguousarray(values)
    return pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])


# --- files of text and of Arrow, and rows that are written to one ----------------------------------------------------


def format_of(name: str | os.PathLike[str]) -> str | None:
    """Return the end of the name of a file of text or Arrow, None for others."""
    return next((end for end in FORMATS if os.fspath(name).lower().endswith(end)), None)


def named_files(given: Any) -> list[str]:
    """Return the files of text or Arrow that names, patterns and directories stand for, in order; empty for others."""
    several = isinstance(given, (list, tuple, set, frozenset))
    # a set has no order, and another one in each process
    names = [given] if not several else list(given) if isinstance(given, (list, tuple)) else sorted(given, key=str)
    if not all(isinstance(name, (str, os.PathLike)) for name in names):
        return []
    found = list[str]()
    for name in map(os.fspath, names):
        if os.path.isdir(name):
            there = [each.relative_to(name) for each in Path(name).rglob("*") if format_of(each) and each.is_file()]
            there = sorted(each for each in there if not any(part[0] in "._" for part in each.parts))
            # text beside Parquet files, or folders of them, is no part of the table
            parquet = next(Path(name).rglob("*.parquet"), None)
            found += [os.path.join(name, each) for each in there if parquet is None]
        else:
            # a file whose name holds brackets or stars is that file, not a pattern
            found += (
                sorted(glob.glob(name, recursive=True)) if glob.has_magic(name) and not os.path.exists(name) else [name]
            )
    ends = set(map(format_of, found))
    # an address has lost a slash where it is a path
    if ends <= {None} or any(":/" in name and not os.path.exists(name) for name in found):
        return []
    missing = next((name for name in found if not os.path.isfile(name)), None)
    if missing is not None:
        raise ValueError(f"there is no file {missing}; check the name and the folder")
    if len({end and FORMATS[end] for end in ends}) > 1:
        raise ValueError(f"give files of one format; got {', '.join(found[:3])}")
    return found


def _of_files(paths: Sequence[str], numbers: Sequence[str]) -> Stream:
    """Return the stream of files of text or Arrow; columns of ``numbers`` in text are floats.

    ValueError if a file cannot be read, or has other columns than the first.
    """
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.dataset as ds
    from pyarrow.fs import LocalFileSystem

    what = paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
    delimiter = FORMATS[format_of(paths[0]) or ""]
    how: Any = "feather"
    if delimiter:
        # an empty cell has no value, whatever its column holds
        how = ds.CsvFileFormat(
            parse_options=pa.csv.ParseOptions(delimiter=delimiter),
            convert_options=pa.csv.ConvertOptions(null_values=[""], strings_can_be_null=True),
        )
    with _reading(what):
        dataset = ds.dataset(list(paths), format=how, filesystem=LocalFileSystem())
        there = [(fragment.path, fragment.physical_schema) for fragment in dataset.get_fragments()]
        # text without rows has no types
        typed = (own for _, own in there if not all(map(pa.types.is_null, own.types)))
        schema = next(typed, dataset.schema)
        for name in (numbers,) if isinstance(numbers, str) else numbers:
            place = schema.get_field_index(name)
            if delimiter and place >= 0 and pa.types.is_integer(schema.field(place).type):
                schema = schema.set(place, pa.field(name, pa.float64()))
    if delimiter and not numbers and all(map(pa.types.is_null, schema.types)):
        raise ValueError(NO_ROWS.format(what))
    for path, own in there:
        # the dataset would give rows without values
        refuse_missing(path, schema.names, own.names)
        if not numbers:
            refuse_further(path, (), set(), own, schema)
        with _reading(what):
            for name in _padded(path, schema, delimiter) if delimiter else ():
                schema = schema.set(schema.get_field_index(name), pa.field(name, pa.string()))
    return _of_dataset(ds.dataset(list(paths), schema, format=how, filesystem=LocalFileSystem()), what)


def _padded(path: str, schema: Any, delimiter: str) -> list[str]:
    """Return the columns of whole numbers in text whose first cells have leading zeros, which numbers would lose."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv

    whole = {field.name: pa.string() for field in schema if pa.types.is_integer(field.type)}
    how = pa.csv.ConvertOptions(column_types=whole)
    with pa.csv.open_csv(path, parse_options=pa.csv.ParseOptions(delimiter=delimiter), convert_options=how) as reader:
        cells = pa.Table.from_batches(islice(reader, 1), reader.schema)
    padded = (name for name in whole if pc.any(pc.match_substring_regex(cells.column(name), "^0[0-9]")).as_py())
    return list(padded)


@contextmanager
def _spooling(what: str) -> Iterator[None]:
    """Make one sentence of what keeps rows from being written to a temporary Parquet file."""
    import pyarrow as pa

    try:
        yield
    except pa.ArrowNotImplementedError as error:
        raise ValueError(f"{what} cannot be written to Parquet: {short(error)}; leave this column out") from None
    except OSError as error:
        raise ValueError(f"{what} cannot be written to {tempfile.gettempdir()}: {short(error)}") from None


def spooled(stream: Stream) -> Stream:
    """Return the stream of a temporary file with all rows of another one."""
    return _spooled(stream.batches(stream.schema.names, SPOOLED_ROWS), stream.what)


def _spooled(batches: Iterator[Any], what: str) -> Stream:
    """Return the stream of a temporary Parquet file of batches, which goes with the last reference to it."""
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    first = next(batches, None)
    if first is None:
        raise ValueError(NO_ROWS.format(what))
    with _spooling(what):
        folder = tempfile.mkdtemp(prefix="confmax-")
    path = os.path.join(folder, "rows.parquet")

    def once(*_: Any) -> Batches:
        yield first
        yield from batches

    try:
        with _spooling(what):
            writer = pq.ParquetWriter(path, first.schema)
        try:
            for table in Stream(first.schema, once, what).tables(first.schema.names, SPOOLED_ROWS):
                with _spooling(what):
                    writer.write_table(table)
        finally:
            with _spooling(what):
                writer.close()
        stream = _of_dataset(ds.dataset(path), what)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    # the file has the Arrow schema, but not what it says of arrays
    stream = replace(stream, schema=first.schema)
    weakref.finalize(stream, shutil.rmtree, folder, ignore_errors=True)
    return stream
