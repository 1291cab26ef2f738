"""Tables in files that need not fit into memory: Parquet files, some row groups at a time, and memory-mapped arrays.

One thread reads ahead while the part before is scanned, so that about three parts are in memory at a time, whatever the
size of the table. A part is one row group, or several small ones of the same file. `open_table` checks names and types;
the rows are checked in every pass that reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from confmax.tables.columns import first_repeated
from confmax.tables.partitioned.arrow import NamedSource, columns_to_read, part_of, short, with_keys
from confmax.tables.partitioned.locations import Location, RemoteArray, no_array, reaching
from confmax.tables.partitioned.parts import RawPart, refuse_missing

# Row groups that begin within so many probabilities are read together. A part costs about a millisecond of its own, as
# long as the scan of a tenth of these; larger parts would only take more memory.
PART_CELLS = 1 << 20

T = TypeVar("T")


@dataclass(frozen=True)
class Piece:
    """One row group of a Parquet file, or some rows of an array: rows ``start`` to ``stop`` of the file."""

    path: Location
    group: int
    start: int
    stop: int
    stamp: tuple[Any, ...] | None  # what changes if the file does
    # files of labels, weights and groups, with their stamps
    beside: Mapping[str, tuple[Location, tuple[Any, ...] | None]] = field(default_factory=dict)
    keys: Mapping[str, Any] = field(default_factory=dict)  # Arrow scalars: the columns in the names of folders

    def refuse_changed(self) -> None:
        """Refuse, by a ValueError, a file that is no longer the one that was opened, or one beside it."""
        for path, stamp in ((self.path, self.stamp), *self.beside.values()):
            if path.stamp() != stamp:
                raise ValueError(f"{path} has changed since it was opened; keep files as they are during a run")

    def __str__(self) -> str:
        if self.group < 0:
            return f"rows {self.start} to {self.stop - 1} of {self.path}"
        return f"row group {self.group} of {self.path}"


@dataclass(frozen=True, eq=False)
class FileSource(NamedSource):
    """Rows in files, of which nothing is held.

    ``pieces`` are the parts that have rows, in order. An array has no columns, and its label, weight and group are
    files of their own, the labels a matrix where rows have several. With ``apart`` the probabilities of a part that lie
    in several columns are `Columns`.
    """

    pieces: tuple[Piece, ...] = field(kw_only=True)
    apart: bool = False

    @cached_property
    def n_rows(self) -> int:
        return sum(piece.stop - piece.start for piece in self.pieces)

    @property
    def files(self) -> list[tuple[Location, int]]:
        """The files that have rows, in order, and how many."""
        found = groupby(self.pieces, lambda piece: piece.path)
        return [(path, sum(piece.stop - piece.start for piece in pieces)) for path, pieces in found]

    def stored_columns(self, wanted: Sequence[str] | None = None) -> tuple[str, ...]:
        """Return the names of all columns, those of the first file and of the folders above it; none of an array.

        A ValueError if another file has others, whose columns would be lost, or if a file has two of one name. Columns
        other than those that are ``wanted``, by default all, may differ.
        """
        first: dict[str, None] = {}
        keys = {piece.path: piece.keys for piece in self.pieces}
        for path, _ in self.files if self.columns else ():
            with parquet_file(path) as file:
                names = file.schema_arrow.names
            names += [key for key in keys[path] if key not in names]
            first = first or dict.fromkeys(names)
            needed = first if wanted is None else {name: None for name in wanted if name in first}
            refuse_missing(str(path), needed, names)
            read = names if wanted is None else [name for name in names if name in needed]
            odd = next((name for name in read if name not in first), first_repeated(read))
            if odd is not None:
                why = "twice" if odd in first else f"and {self.files[0][0]} has not"
                raise ValueError(
                    f"{path} has the column {odd!r} {why}; write files alike, or name the columns in keep="
                )
        return tuple(first)

    def in_columns(self) -> FileSource:
        """Return the source whose parts have columns of probabilities as they are read, not as rows."""
        return replace(self, apart=True)

    def run(self, work: Callable[[Any], T], *, labels_only: bool = False) -> Iterator[T]:
        """Yield what ``work`` returns for every part while the next one is read."""
        done = 0
        held = dict[str, NDArray[Any]]()
        found = (_row_groups if self.columns else _mapped_parts)(self, labels_only=labels_only)
        with ThreadPoolExecutor(1, thread_name_prefix="confmax-read") as reader:
            ahead = reader.submit(next, found, None)
            while (read_now := ahead.result()) is not None:
                ahead = reader.submit(next, found, None)
                (pieces, part) = read_now
                refused = None
                try:
                    if not isinstance(part, RawPart):
                        # the row groups become a part only now: until here the part before it was in use, whose memory
                        # it takes
                        place = str(pieces[0]) if len(pieces) == 1 else f"{pieces[0]} to {pieces[-1]}"
                        settings: Any = {"labels_only": labels_only, "apart": self.apart}
                        part = part_of(self, _read(part), place, held=held, **settings)
                    result = work(part if self.step is None else self.step(part))
                except ValueError as error:
                    refused = error
                if refused is not None:
                    # each row group is read again alone, so that the sentence names the first bad one
                    for piece in pieces if len(pieces) > 1 else ():
                        list(replace(self, pieces=(piece,), progress=None).run(work, labels_only=labels_only))
                    raise refused
                yield result
                done += pieces[-1].stop - pieces[0].start
                if self.progress is not None and not labels_only:
                    self.progress(done, self.n_rows)


@contextmanager
def parquet_file(path: Location, footer: Any = None) -> Iterator[Any]:
    """Open a Parquet file; ``footer`` is its metadata if they were read before."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    remote = path.filesystem is not None
    try:
        with reaching(path) if remote else nullcontext():
            # of another machine, the columns of a row group are fetched in few requests
            source = path.opened() if remote else path.path
            file = pq.ParquetFile(source, memory_map=not remote, pre_buffer=remote, metadata=footer)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} is a damaged Parquet file: {short(error)}; write it again") from None
    try:
        yield file
    finally:
        file.close(force=True)


def _row_groups(source: FileSource, *, labels_only: bool = False) -> Iterator[tuple[Sequence[Piece], Any]]:
    """Yield the row groups of each part, and their Arrow table."""
    columns = columns_to_read(source, labels_only=labels_only)
    footers = dict[Location, Any]()
    # columns that are passed through take memory like probabilities
    most = max(1, PART_CELLS // max(source.n_classes, len(source.beside)))
    for (path, _), together in groupby(source.pieces, lambda piece: (piece.path, piece.start // most)):
        pieces = list(together)
        table: Any
        try:
            pieces[0].refuse_changed()
            # a file is opened for each part, so that no more of it stays mapped; its footer is read once
            with parquet_file(path, footers.get(path)) as file:
                footers = {path: file.metadata}
                table = _table(file, pieces, columns)
        except ValueError as error:
            # raised when it is this part's turn: a bad row before it is named first
            table = error
        yield pieces, table


def _table(file: Any, pieces: Sequence[Piece], columns: Sequence[str]) -> Any:
    """Return columns of row groups as an Arrow table, and of the keys of their folders."""
    import pyarrow as pa

    keys = {name: value for name, value in pieces[0].keys.items() if name in columns}
    of_file = [name for name in columns if name not in keys]
    n_rows = sum(piece.stop - piece.start for piece in pieces)
    place = pieces[0]
    try:
        with nullcontext() if place.path.filesystem is None else reaching(place):
            # of no columns a table would have no rows
            table = file.read_row_groups([piece.group for piece in pieces], columns=of_file) if of_file else None
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{place} is damaged: {short(error)}; write the file again") from None
    return with_keys(table, keys, n_rows)


def _read(table: Any) -> Any:
    """Return what was read, or raise why it could not be."""
    if isinstance(table, ValueError):
        raise table
    return table


def _mapped_parts(source: FileSource, *, labels_only: bool = False) -> Iterator[tuple[Sequence[Piece], RawPart]]:
    """Yield the parts of a memory-mapped array, copied into memory."""
    for piece in source.pieces:
        piece.refuse_changed()
        rows = slice(piece.start, piece.stop)
        label, weight, group = (piece.beside.get(what, (None,))[0] for what in ("label", "weight", "group"))
        labels = None if label is None else np.array(map_array(label)[rows])
        weights = None if weight is None or labels_only else np.array(map_array(weight)[rows])
        proba = None if labels_only else np.array(map_array(piece.path)[rows])
        if proba is not None and source.order is not None:
            proba = np.ascontiguousarray(proba[:, source.order])
        groups = None if group is None else np.array(map_array(group)[rows])
        yield (piece,), RawPart(proba, labels, weights, str(piece), groups)


def width_of_lists(source: FileSource) -> int:
    """Return how many probabilities each row of the one column of a source holds, by its first row group."""
    alone = replace(source, label=None, weight=None, group=None, pieces=source.pieces[:1])
    pieces, table = next(_row_groups(alone))
    return int(np.shape(part_of(alone, _read(table), str(pieces[0]), held={}).proba)[1])


def map_array(path: Location) -> Any:
    """Return the array of a ``.npy`` file, memory-mapped, or one whose rows are read when they are taken."""
    if path.filesystem is not None:
        return RemoteArray(path)
    try:
        return np.asarray(np.load(path.path, mmap_mode="r", allow_pickle=False))
    except (ValueError, OSError, EOFError) as error:
        raise no_array(path, error) from None
