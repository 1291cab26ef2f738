"""Rows that come as Arrow batches: from frames, datasets, queries, functions that yield chunks, and files of text.

Each of them becomes a `Stream`, which reads columns by name, as often as a run needs them. Batches are cut anew into
parts of one size, so that the same rows in the same order give the same parts, and the same rule byte for byte,
whatever they come from. As with files, one thread reads ahead while the part before is scanned.

Nothing but the source itself could see that a later pass reads other rows than the first. So rows are counted and
hashed in every pass, without regard to their order, which a query need not keep.
"""

from __future__ import annotations

import inspect
import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from confmax.errors import InputError
from confmax.tables.array.kind import ARRAYS
from confmax.tables.arrays import as_array, as_float
from confmax.tables.columns import find, frame_columns, which_label
from confmax.tables.decisions import Decisions
from confmax.tables.fingerprints import GOLDEN, column_factors, mixed
from confmax.tables.kinds import Batch, Beside, LabelledRule, Rule
from confmax.tables.labels import Coded
from confmax.tables.partitioned import arrow, files
from confmax.tables.partitioned.parts import Part, RowsRead, refuse_missing
from confmax.tables.partitioned.table import OPENED, ReadInParts, labels_in_parts, partitioned_table
from confmax.tables.table import T, Table

# the columns of chunks that are arrays without names
PROBA = "probability"
LABEL = "y"
WEIGHT = "sample_weight"
ARRAY_CHUNK = {b"confmax": b"arrays"}  # metadata of their schema
CHUNKS = "data frames, Arrow tables, dicts of arrays, or tuples (proba, y) or (proba, y, sample_weight)"
SPOOL = "or pass spool=True to open_table, which writes the rows to a temporary file once"
SPOOLED_ROWS = 1 << 16  # of a row group of the temporary file
DELIMITERS = {"csv": ",", "tsv": "\t"}

Batches = Generator[Any, None, None]  # of Arrow; closing it ends a query


@dataclass(frozen=True, eq=False)
class Stream:
    """Rows that can be read again and again.

    ``schema`` is that of Arrow. ``batches(columns, rows)`` yields Arrow batches that have these columns, best of so
    many rows. ``what`` is what a person calls the rows. ``count`` returns their number where that takes no pass.
    """

    schema: Any
    batches: Callable[[list[str], int], Batches]
    what: str
    count: Callable[[], int] | None = None


@dataclass(frozen=True, eq=False)
class StreamSource:
    """Rows of a `Stream`, of which nothing is held; its columns are as those of a `FileSource`.

    ``seen`` has the number of rows, and the sum of their hashes by the columns that were read.
    """

    stream: Stream
    columns: tuple[str, ...]
    label: str | tuple[str, ...] | None
    weight: str | None
    n_classes: int
    names: tuple[str, ...] | None = None
    order: tuple[int, ...] | None = None
    step: Callable[[Any], Any] | None = None
    progress: RowsRead | None = None
    group: str | None = None
    beside: tuple[str, ...] = ()
    seen: dict[Any, int] = field(default_factory=dict)

    is_confmax_source = True
    holds = False

    @property
    def n_rows(self) -> int:
        """Number of rows, which may take a pass over the smallest column."""
        if "rows" not in self.seen:
            count = self.stream.count
            tables = () if count else _cut_anew(self.stream, [self._smallest()], files.PART_CELLS)
            self.seen["rows"] = count() if count else sum(table.num_rows for table in tables)
        return self.seen["rows"]

    @property
    def has_labels(self) -> bool:
        return self.label is not None

    @property
    def label_names(self) -> tuple[str, ...] | None:
        """The names of the columns of labels, where there are several; None for one."""
        return self.label if isinstance(self.label, tuple) else None

    @property
    def may_be_labels(self) -> list[str]:
        """The names of the columns beside the probabilities that may hold labels, by their types."""
        used = (*self.columns, self.weight, self.group)
        return [each.name for each in self.stream.schema if each.name not in used and _may_be_label(each.type)]

    @property
    def has_groups(self) -> bool:
        return self.group is not None

    def with_columns(self, order: Sequence[int]) -> StreamSource:
        return replace(self, order=tuple(order))

    def keeping(self, names: Sequence[str]) -> StreamSource:
        """Return the source whose parts hold these columns as they are, too, as an Arrow table."""
        return replace(self, beside=tuple(names))

    def kept(self, step: Callable[[Any], Any]) -> StreamSource:
        """Return the source of what ``step`` makes of each part; it is done anew in every pass."""
        return replace(self, step=step)

    def run(self, work: Callable[[Any], T], *, labels_only: bool = False) -> Iterator[T]:
        """Yield what ``work`` returns for every part while the next one is read; ValueError if rows have changed."""
        done = 0
        content = 0
        held = dict[str, NDArray[Any]]()
        # a count is a pass of its own, and a connection may have one at a time
        told = None if labels_only or self.progress is None else (self.progress, self.n_rows)
        columns = arrow.columns_to_read(self, labels_only=labels_only)
        found = _cut_anew(self.stream, columns, max(1, files.PART_CELLS // self.n_classes))
        try:
            with ThreadPoolExecutor(1, thread_name_prefix="confmax-read") as reader:
                ahead = reader.submit(next, found, None)
                while (table := ahead.result()) is not None:
                    ahead = reader.submit(next, found, None)
                    place = f"rows {done} to {done + table.num_rows - 1} of {self.stream.what}"
                    part = arrow.part_of(self, table, place, held=held, labels_only=labels_only)
                    content += 0 if labels_only else _content(part)
                    yield work(part if self.step is None else self.step(part))
                    done += table.num_rows
                    if told is not None:
                        told[0](done, told[1])
        finally:
            found.close()
        self._compare("rows", done, f"{done:,} rows")
        if not done:
            raise _no_rows(self.stream.what)
        if not labels_only:
            key = (self.columns, self.order, self.label, self.weight, self.group)
            self._compare(key, content % 2**64, "other rows")

    def _compare(self, key: Any, found: int, shown: str) -> None:
        """Refuse, by a ValueError, what a pass has found if it is not what the first one found."""
        before = self.seen.setdefault(key, found)
        if before != found:
            shown = f"{shown}, and {before:,} before" if key == "rows" else f"{shown} than before"
            raise ValueError(
                f"{self.stream.what} gave {shown}; a run reads the rows several times, so they must be the same each "
                f"time: keep them as they are (a function must start anew, with the same seed), {SPOOL}"
            )

    def _smallest(self) -> str:
        """Return the name of a column that takes few bytes."""

        def bits(name: str) -> int:
            kind = self.stream.schema.field(name).type
            return int(getattr(kind, "bit_width", 1 << 20)) if not arrow.holds_lists(kind) else 1 << 20

        return min(arrow.columns_to_read(self), key=bits)


def opened(
    stream: Stream,
    label: Any = None,
    weight: Any = None,
    group: Any = None,
    *,
    columns: Sequence[str] | None = None,
    progress: RowsRead | None = None,
    classes: Sequence[Any] = (),
) -> StreamSource:
    """Return the source of a stream; types are checked here, rows in the passes.

    The arguments are those of `open_table`. If the columns of numbers are named like the ``classes``, they are the
    probabilities. ValueError if a column is missing, is there twice, or has a wrong type.
    """
    import pyarrow as pa

    names = stream.schema.names
    if (stream.schema.metadata or {}).items() >= ARRAY_CHUNK.items():
        label = LABEL if label is None and LABEL in names else label
        weight = WEIGHT if weight is None and WEIGHT in names else weight
    label = tuple(label) if isinstance(label, (list, tuple)) else label
    labels = label if isinstance(label, tuple) else (label,)
    for given, argument in (*((one, "label") for one in labels), (weight, "weight"), (group, "group")):
        if given is not None and not isinstance(given, str):
            kind = type(given).__name__
            raise ValueError(
                f"{argument} must be the name of a column of {stream.what}; got {kind}: add it as a column"
            )
    others = {*labels, weight, group}
    if columns is None and len(classes) >= 2:
        floats = [name for name in names if name not in others and pa.types.is_floating(stream.schema.field(name).type)]
        places = find(floats, classes, whole=False).places
        columns = None if places is None else [floats[k] for k in places]
    chosen = arrow.probability_columns(stream.schema, columns, others, stream.what)
    refuse_missing(stream.what, (*chosen, *labels, weight, group), names)
    for name in (*chosen, *labels, weight, group):
        if name is not None and names.count(name) > 1:
            raise ValueError(f"{stream.what} has {names.count(name)} columns {name!r}; give each column its own name")
    for name, role in (*((one, "label") for one in labels), (group, "group")):
        if name is not None:
            arrow.refuse_label_type(stream.schema.field(name).type, name, stream.what, role)
    source = StreamSource(stream, chosen, label, weight, len(chosen), chosen, progress=progress, group=group)
    if len(chosen) > 1:
        return source
    return replace(source, n_classes=_width_of_lists(source), names=None)


def _width_of_lists(source: StreamSource) -> int:
    """Return how many probabilities each row of the one column of a source holds, by its first row."""
    kind = source.stream.schema.field(source.columns[0]).type
    if hasattr(kind, "list_size"):
        return int(kind.list_size)
    with closing(_cut_anew(source.stream, list(source.columns), 1)) as found:
        table = next(found, None)
    if table is None:
        raise _no_rows(source.stream.what)
    alone = replace(source, label=None, weight=None, group=None)
    return int(np.shape(arrow.part_of(alone, table, f"row 0 of {source.stream.what}", held={}).proba)[1])


def _no_rows(what: str) -> ValueError:
    return ValueError(f"{what} holds no rows; at least one row of probabilities is needed")


# --- what a pass reads -----------------------------------------------------------------------------------------------


def _cut_anew(stream: Stream, columns: list[str], rows: int) -> Batches:
    """Yield Arrow tables of these columns, of so many rows each but for the last; ValueError if their types change."""
    import pyarrow as pa

    held = list[Any]()
    n = 0
    first = before = None
    with closing(stream.batches(columns, rows)) as found:
        for number, batch in enumerate(found):
            if batch.schema is not before:
                before = batch.schema
                refuse_missing(f"batch {number} of {stream.what}", columns, before.names)
            picked = batch.select(columns)
            first = first or picked.schema
            if picked.schema.types != first.types:
                name, kind, other = next(
                    (name, kind, other)
                    for name, kind, other in zip(columns, picked.schema.types, first.types, strict=True)
                    if kind != other
                )
                raise ValueError(
                    f"column {name!r} of {stream.what} holds {kind} in batch {number} and {other} in the first one; "
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


def _content(part: Part) -> int:
    """Return the sum of a hash of each row, of its probabilities with its label, weight and group."""
    words = ARRAYS.hashes(np.ascontiguousarray(as_float(np.asarray(part.proba))))
    for values in (part.labels, part.weight, part.group):
        if values is not None:
            # a product with an odd number: that of a row with another row's label is another one
            words *= _words(values) | np.uint64(1)
    return int(words.sum(dtype=np.uint64))


def _words(values: Any) -> NDArray[np.uint64]:
    """Return a word for each label, list of labels, weight or group (n,), or row of labels (n, L)."""
    if isinstance(values, list):
        values = np.array([hash(one if one is None else tuple(one)) for one in values], dtype=np.int64)
    if isinstance(values, Coded):
        return mixed(np.array([hash(one) for one in values.values], dtype=np.int64).view(np.uint64))[values.index]
    if values.ndim == 2:
        return np.asarray(np.ascontiguousarray(values, np.float64).view(np.uint64) @ column_factors(values.shape[1]))
    if values.dtype.kind != "f":
        return np.asarray(values.astype(np.uint64) * np.uint64(GOLDEN))
    # common weights differ in their first bits only, which a product alone would lose
    bits = values.astype(np.float64).view(np.uint64)
    return np.asarray((bits ^ (bits >> np.uint64(32))) * np.uint64(GOLDEN))


@contextmanager
def _reading(what: str) -> Iterator[None]:
    """Make one sentence of whatever a library raises while it reads."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"{what} cannot be read: {arrow.short(error)}") from error


# --- streams of what libraries have ----------------------------------------------------------------------------------


def library(values: Any) -> str:
    """Return the name of the library that the type of ``values`` is of, without imports."""
    # C modules begin with an underscore, which nobody imports: _duckdb is duckdb
    return type(values).__module__.partition(".")[0].lstrip("_")


def is_stream(values: Any) -> bool:
    """Whether ``values`` are a lazy frame of Polars, a dataset of Arrow, a relation of DuckDB, an iterator or function.

    The rows of functions and iterators come in chunks.
    """
    own = library(values)
    known = {"polars": "LazyFrame", "pyarrow": "Dataset", "duckdb": "DuckDBPyRelation"}
    return (
        any(kind.__name__ == known.get(own) for kind in type(values).__mro__)
        or hasattr(values, "__next__")
        or (callable(values) and not isinstance(values, type) and not hasattr(values, "__array__"))
    )


def stream_of(given: Any, *, spool: bool = False) -> Stream | None:
    """Return the stream of an object whose rows come as Arrow batches; None for names of files and all other values.

    With ``spool`` its rows are written to a temporary file first. ValueError for what can be read only once.
    """
    try:
        stream = _stream_of(given, spool=spool)
    except ModuleNotFoundError as error:
        if error.name != "pyarrow":
            raise
        raise ImportError("rows of Arrow need pyarrow; install it with: pip install 'confmax[cli]'") from None
    return stream


def _stream_of(given: Any, *, spool: bool) -> Stream | None:
    once = _read_once(given)
    if once is not None:
        batches, what = once
        if not spool:
            raise ValueError(
                f"{what} can be read only once, and a run reads the rows several times; pass a function without "
                f"arguments that opens it anew, {SPOOL}"
            )
        return _spooled(batches, what)
    kind = type(given).__name__
    if library(given) == "duckdb" and is_stream(given):
        stream = _of_relation(given)
    elif library(given) == "polars" and is_stream(given):
        stream = _of_lazy_frame(given)
    elif library(given) == "pyarrow" and is_stream(given):
        stream = _of_dataset(given, "the Arrow dataset")
    elif _is_frame(given):
        stream = _of_table(given, f"the {kind}")
    elif hasattr(given, "__arrow_c_stream__"):
        stream = _of_capsule(given, f"the {kind}")
    elif is_stream(given):
        stream = _of_function(given)
    else:
        return None
    return spooled(stream) if spool else stream


def _read_once(given: Any) -> tuple[Iterator[Any], str] | None:
    """Return the batches of what is used up by reading, and what a person calls it; None for other values."""
    if not hasattr(given, "__next__"):
        return None
    what = f"the {type(given).__name__}" if hasattr(given, "__arrow_c_stream__") else "the iterator"
    return _batches_of(given, what), what


def _is_frame(given: Any) -> bool:
    """Whether a value is a table in memory of pandas, Polars or Arrow."""
    own = library(given), type(given).__name__
    is_pandas = hasattr(given, "iloc") and hasattr(given, "columns")
    return is_pandas or own in (("polars", "DataFrame"), ("pyarrow", "Table"), ("pyarrow", "RecordBatch"))


def _as_table(frame: Any) -> Any:
    """Return a frame in memory as an Arrow table, which shares its memory where it can."""
    import pyarrow as pa

    if hasattr(frame, "iloc"):
        return pa.Table.from_pandas(frame, preserve_index=False)
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    return frame if isinstance(frame, pa.Table) else frame.to_arrow()


def _of_table(frame: Any, what: str) -> Stream:
    with _reading(what):
        table = _as_table(frame)

    def batches(columns: list[str], _: int) -> Batches:
        yield from table.select(columns).to_batches()

    return Stream(table.schema, batches, what, lambda: int(table.num_rows))


def _of_capsule(given: Any, what: str) -> Stream:
    import pyarrow as pa

    def batches(*_: Any) -> Batches:
        with _reading(what), pa.RecordBatchReader.from_stream(given) as reader:
            yield from reader

    with _reading(what), pa.RecordBatchReader.from_stream(given) as reader:
        return Stream(reader.schema, batches, what)


def _of_dataset(dataset: Any, what: str) -> Stream:
    import pyarrow.dataset as ds

    how: dict[str, Any] = {"batch_readahead": 1, "fragment_readahead": 1}
    with _reading(what):
        if isinstance(next(dataset.get_fragments(), None), ds.ParquetFileFragment):
            # what is buffered ahead is held until the end of a file, however large
            how["fragment_scan_options"] = ds.ParquetFragmentScanOptions(pre_buffer=False)

    def batches(columns: list[str], rows: int) -> Batches:
        with _reading(what):
            yield from dataset.to_batches(columns=columns, batch_size=rows, **how)

    return Stream(dataset.schema, batches, what, lambda: int(dataset.count_rows()))


def _of_lazy_frame(frame: Any) -> Stream:
    # loaded, since there is a frame of it
    polars = sys.modules["polars"]
    what = "the Polars LazyFrame"
    if not hasattr(frame, "collect_batches"):
        raise ValueError(
            f"{what} cannot be read in batches by Polars {polars.__version__}; install polars>=1.34, or pass "
            f"frame.collect()"
        )

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


def _of_relation(relation: Any) -> Stream:
    what = "the DuckDB relation"

    def reader(chosen: Any, rows: int) -> Any:
        # older versions have another name for it, which newer ones warn of
        return (chosen.to_arrow_reader if hasattr(type(chosen), "to_arrow_reader") else chosen.fetch_arrow_reader)(rows)

    def batches(columns: list[str], rows: int) -> Batches:
        quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
        # a connection has one open result at a time, which is closed with its reader
        with _reading(what), reader(relation.project(quoted), rows) as found:
            yield from found

    with _reading(what), reader(relation.limit(0), 1) as found:
        return Stream(found.schema, batches, what)


# --- functions that yield chunks -------------------------------------------------------------------------------------


def _of_function(function: Callable[[], Any]) -> Stream:
    what = f"the function {getattr(function, '__name__', type(function).__name__)}"
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
    alone = isinstance(made, (tuple, dict, np.ndarray)) or hasattr(made, "__arrow_c_stream__") or _is_frame(made)
    if not alone and (not isinstance(made, Iterable) or isinstance(made, (str, bytes))):
        raise ValueError(f"{what} returned {type(made).__name__}; it must yield {CHUNKS}")
    for number, chunk in enumerate([made] if alone else made):
        for batch in _batches_of_chunk(chunk, what if alone else f"chunk {number} of {what}"):
            if batch.num_rows:
                yield batch


def _batches_of_chunk(chunk: Any, what: str) -> Iterator[Any]:
    import pyarrow as pa

    if isinstance(chunk, (tuple, dict, np.ndarray)):
        with _reading(what):
            table = _of_arrays(chunk)
        yield from table.to_batches()
    elif _is_frame(chunk):
        with _reading(what):
            table = _as_table(chunk)
        yield from table.to_batches()
    elif hasattr(chunk, "__arrow_c_stream__"):
        with _reading(what), pa.RecordBatchReader.from_stream(chunk) as reader:
            yield from reader
    else:
        raise ValueError(f"{what} is {type(chunk).__name__}; chunks are {CHUNKS}")


def _of_arrays(chunk: Any) -> Any:
    """Return arrays by name, or probabilities with labels and weights, as an Arrow table; ValueError for others."""
    import pyarrow as pa

    if isinstance(chunk, dict):
        return pa.table({str(name): _column(values) for name, values in chunk.items()})
    proba, *others = chunk if isinstance(chunk, tuple) else (chunk,)
    if isinstance(proba, str) or len(others) > 2:
        raise ValueError(f"a tuple of {len(others) + 1} is none of (proba, y) and (proba, y, sample_weight)")
    if frame_columns(proba) is not None:
        table = _as_table(proba)
    else:
        P = as_array(proba) if len(proba) else np.empty((0, 2))
        table = pa.table({PROBA: _column(P)})
    for name, values in zip((LABEL, WEIGHT), others, strict=False):
        if values is not None:
            if len(values) != table.num_rows:
                raise ValueError(f"{name} has {len(values)} entries for {table.num_rows} rows")
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


def of_files(paths: Sequence[os.PathLike[str]], kind: str | None, numbers: Iterable[str]) -> Stream:
    """Return the stream of files of a ``kind``: "csv", "tsv" or "arrow"; columns of ``numbers`` in text are floats.

    ValueError if a file cannot be read, or has other columns than the first.
    """
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.dataset as ds

    what = f"{paths[0]}" if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
    given: Any = "feather"
    if kind in DELIMITERS:
        # an empty cell has no value, whatever its column holds
        given = ds.CsvFileFormat(
            parse_options=pa.csv.ParseOptions(delimiter=DELIMITERS[kind]),
            convert_options=pa.csv.ConvertOptions(null_values=[""], strings_can_be_null=True),
        )
    with _reading(what):
        dataset = ds.dataset([os.fspath(path) for path in paths], format=given)
        schema = dataset.schema
        if kind in DELIMITERS:
            for name in numbers:
                place = schema.get_field_index(name)
                if place >= 0 and pa.types.is_integer(schema.field(place).type):
                    schema = schema.set(place, pa.field(name, pa.float64()))
            dataset = dataset.replace_schema(schema)
        there = [(fragment.path, fragment.physical_schema.names) for fragment in dataset.get_fragments()]
    for path, names in there:
        # the dataset would give rows without values
        refuse_missing(path, schema.names, names)
    return _of_dataset(dataset, what)


def spooled(stream: Stream) -> Stream:
    """Return the stream of a temporary file with all rows of another one."""
    return _spooled(stream.batches(stream.schema.names, SPOOLED_ROWS), stream.what)


def _spooled(batches: Iterator[Any], what: str) -> Stream:
    """Return the stream of a temporary Parquet file of batches, which goes with the last reference to it."""
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    first = next(batches, None)
    if first is None:
        raise _no_rows(what)
    folder = tempfile.mkdtemp(prefix="confmax-")
    path = os.path.join(folder, "rows.parquet")

    def once(*_: Any) -> Batches:
        yield first
        yield from batches

    try:
        with pq.ParquetWriter(path, first.schema) as writer:
            for table in _cut_anew(Stream(first.schema, once, what), first.schema.names, SPOOLED_ROWS):
                writer.write_table(table)
        stream = _of_dataset(ds.dataset(path), what)
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError):
            raise ValueError(f"{what} cannot be written to {tempfile.gettempdir()}: {arrow.short(error)}") from None
        raise
    # the file has the Arrow schema, but not what it says of arrays
    stream = replace(stream, schema=first.schema)
    weakref.finalize(stream, shutil.rmtree, folder, ignore_errors=True)
    return stream


# --- as values that are given ----------------------------------------------------------------------------------------


@final
class Streams(ReadInParts):
    """Lazy frames, datasets, relations, and functions that yield chunks, whose label is the name of a column."""

    brings_groups = True
    refusal = (
        "rows that are read as a stream are not an array; rule.predict decides them, everything else needs its rows in "
        "memory"
    )

    def apart(
        self, proba: Any, beside: Beside, classes: Sequence[Any] | None, confusion: str
    ) -> tuple[Any, dict[str, Any]]:
        source = _source(proba, beside, classes)
        if confusion != "model" and not source.has_labels and source.may_be_labels:
            raise which_label(source.stream.what, source.may_be_labels, "or pass `confusion='model'` if none is")
        return source, dict.fromkeys(beside)

    def table(self, proba: Any, beside: Beside, classes: Sequence[Any] | None, *, stated: bool) -> Table:
        return partitioned_table(_source(proba, beside, classes), classes, stated=stated)

    def label_table(
        self, decisions: Decisions, proba: Any, beside: Beside, classes: Sequence[Any] | None, *, stated: bool
    ) -> Table:
        return labels_in_parts(_source(proba, beside, classes), decisions, classes, stated=stated)

    def predict_index(self, rule: Rule, proba: Any, beside: Beside) -> NDArray[np.int64]:
        return OPENED.predict_index(rule, *_to_decide(rule, proba, beside))

    def predict_labels(self, rule: LabelledRule, proba: Any, beside: Beside) -> NDArray[np.uint8]:
        return OPENED.predict_labels(rule, *_to_decide(rule, proba, beside))

    def predict_batch(self, batch: Batch, proba: Any, beside: Beside) -> NDArray[np.int64]:
        return OPENED.predict_batch(batch, *_to_decide(batch.rule, proba, beside))


def _may_be_label(kind: Any) -> bool:
    import pyarrow as pa

    inner = kind.value_type if arrow.holds_lists(kind) or pa.types.is_dictionary(kind) else kind
    return arrow.is_text(inner) or pa.types.is_integer(inner) or pa.types.is_boolean(inner)


def _source(proba: Any, beside: Beside, classes: Sequence[Any] | None) -> StreamSource:
    """Return the source of a stream whose label, weight and group are named ``beside`` it."""
    stream: Any = stream_of(proba)
    for argument, value in beside.items():
        several = argument == "y" and isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value)
        if value is not None and not isinstance(value, str) and not several:
            raise InputError(
                f"`{argument}` must be the name of a column of {stream.what}; got {type(value).__name__}",
                "add it as a column",
            )
    classes = () if classes is None else classes
    return opened(stream, beside["y"], beside["sample_weight"], beside.get("group"), classes=classes)


def _to_decide(rule: Rule | LabelledRule, proba: Any, beside: Beside) -> tuple[StreamSource, Beside]:
    """Return the source of rows that a rule is to decide, and what is beside them otherwise."""
    if getattr(rule, "groups", ()) and beside.get("group") is None:
        raise InputError("this rule decides by groups", "pass `group=`, the name of the column of groups")
    given = {"y": None, "sample_weight": None, "group": beside.get("group")}
    return _source(proba, given, rule.class_names[: rule.n_classes]), {**beside, "group": None}


STREAMS = Streams()
