"""Tables in files that need not fit into memory: Parquet files, some row groups at a time, and memory-mapped arrays.

One thread reads ahead while the part before is scanned, so that about three parts are in memory at a time, whatever the
size of the table. A part is one row group, or several small ones of the same file. `open_table` checks names and types;
the rows are checked in every pass that reads them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from confmax import kernels
from confmax.errors import InputError
from confmax.tables.labels import Coded
from confmax.tables.partitioned.parts import Part, RowsRead, naming

TURNED_ROWS = 1 << 12
# Row groups that begin within so many probabilities are read together. A part costs about a millisecond of its own, as
# long as the scan of a tenth of these; larger parts would only take more memory.
PART_CELLS = 1 << 20

T = TypeVar("T")


@dataclass(frozen=True)
class Piece:
    """One row group of a Parquet file, or some rows of an array: rows ``start`` to ``stop`` of the file."""

    path: str
    group: int
    start: int
    stop: int
    stamp: tuple[int, int]  # size and time of the file
    beside: tuple[tuple[str, tuple[int, int]], ...] = ()  # files of labels, weights and groups, with their stamps

    def refuse_changed(self) -> None:
        """Refuse, by a ValueError, a file that is no longer the one that was opened, or one beside it."""
        for path, stamp in ((self.path, self.stamp), *self.beside):
            if not os.path.isfile(path) or stamp_of(path) != stamp:
                raise ValueError(f"{path} has changed since it was opened; keep files as they are during a run")

    def __str__(self) -> str:
        if self.group < 0:
            return f"rows {self.start} to {self.stop - 1} of {self.path}"
        return f"row group {self.group} of {self.path}"


@dataclass(frozen=True, eq=False)
class FileSource:
    """Rows in files, of which nothing is held.

    ``pieces`` are the parts that have rows, in order. One column of lists of K numbers is named alone; an array has no
    columns, and its label, weight and group are files of their own. Several labels per row are several columns of 0 and
    1, a column of lists, or a file of a matrix. ``order`` is that in which columns of Parquet files
    are given on. ``step`` makes something of each part before it is used. ``progress`` is called with the rows read of
    a pass so far, and the rows of the table.
    """

    pieces: tuple[Piece, ...]
    columns: tuple[str, ...]
    label: str | tuple[str, ...] | None
    weight: str | None
    n_classes: int
    names: tuple[str, ...] | None = None
    order: tuple[int, ...] | None = None
    step: Callable[[Any], Any] | None = None
    progress: RowsRead | None = None
    group: str | None = None

    is_confmax_source = True
    holds = False

    @cached_property
    def n_rows(self) -> int:
        return sum(piece.stop - piece.start for piece in self.pieces)

    @property
    def has_labels(self) -> bool:
        return self.label is not None

    @property
    def label_names(self) -> tuple[str, ...] | None:
        """The names of the columns of labels, where there are several; None for one."""
        return self.label if isinstance(self.label, tuple) else None

    @property
    def has_groups(self) -> bool:
        return self.group is not None

    def with_columns(self, order: Sequence[int]) -> FileSource:
        return replace(self, order=tuple(order))

    def kept(self, step: Callable[[Any], Any]) -> FileSource:
        """Return the source of what ``step`` makes of each part; it is done anew in every pass."""
        return replace(self, step=step)

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
                    if not isinstance(part, Part):
                        # the row groups become a part only now: until here the part before it was in use, whose memory
                        # it takes
                        part = _part_of(self, pieces, part, held=held, labels_only=labels_only)
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


def parquet_file(path: Path | str, footer: Any = None) -> Any:
    """Return an open Parquet file; ``footer`` is its metadata if they were read before."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path, memory_map=True, metadata=footer)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} is a damaged Parquet file: {short(error)}; write it again") from None


def _row_groups(source: FileSource, *, labels_only: bool = False) -> Iterator[tuple[Sequence[Piece], Any]]:
    """Yield the row groups of each part, and their Arrow table."""
    import pyarrow as pa

    names = [*(source.label_names or (source.label,)), source.group]
    if not labels_only:
        names += [*source.columns, source.weight]
    # a column that is named twice is read once
    columns = list(dict.fromkeys(name for name in names if name is not None))
    footers = dict[str, Any]()
    most = max(1, PART_CELLS // source.n_classes)
    for (path, _), together in groupby(source.pieces, lambda piece: (piece.path, piece.start // most)):
        pieces = list(together)
        pieces[0].refuse_changed()
        # a file is opened for each part, so that no more of it stays mapped; its footer is read once
        with parquet_file(path, footers.get(path)) as file:
            footers = {path: file.metadata}
            try:
                table = file.read_row_groups([piece.group for piece in pieces], columns=columns)
            except (pa.ArrowException, OSError) as error:
                # raised when it is this part's turn: a bad row before it is named first
                table = ValueError(f"{pieces[0]} is damaged: {short(error)}; write the file again")
        yield pieces, table


def _part_of(
    source: FileSource, pieces: Sequence[Piece], table: Any, *, held: dict[str, NDArray[Any]], labels_only: bool = False
) -> Part:
    """Return what was read of row groups as arrays; the probabilities take the place of the part before."""
    if isinstance(table, ValueError):
        raise table
    place = str(pieces[0]) if len(pieces) == 1 else f"{pieces[0]} to {pieces[-1]}"
    labels = _labels(source, table, place)
    group = None if source.group is None else labels_of(table.column(source.group))
    if labels_only:
        return Part(None, labels, None, place, group)
    weight = None if source.weight is None else _numbers(table.column(source.weight), place, source.weight)
    arrays = [_numbers(table.column(name), place, name) for name in source.columns]
    proba = arrays[0]
    if proba.ndim == 1:
        proba = _turned(arrays, source.order, held)
    elif source.order is not None:
        proba = np.ascontiguousarray(proba[:, source.order])
    return Part(proba, labels, weight, place, group)


def _labels(source: FileSource, table: Any, place: str) -> Any:
    """Return the labels (n,) of row groups, several columns of them (n, L), or a list for each row; None for none."""
    if source.label is None:
        return None
    if source.label_names is not None:
        return np.column_stack([_numbers(table.column(name), place, name) for name in source.label_names])
    column = table.column(source.label)
    return column.to_pylist() if holds_lists(column.type) else labels_of(column)


def _numbers(column: Any, place: str, name: str) -> NDArray[Any]:
    """Return a column as an array (n,), or (n, K) if it holds lists of K numbers; a missing value is NaN."""
    import pyarrow as pa

    chunk = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if is_list(chunk.type):
        with naming(f"{place}: column {name!r}"):
            return array_of_lists(chunk)
    if pa.types.is_decimal(chunk.type):
        chunk = chunk.cast(pa.float64(), safe=False)
    if not (pa.types.is_floating(chunk.type) or pa.types.is_integer(chunk.type) or pa.types.is_null(chunk.type)):
        raise ValueError(f"{place}: column {name!r} holds {chunk.type}, not numbers; choose other columns")
    return np.asarray(chunk.to_numpy(zero_copy_only=False))


def is_list(kind: Any) -> bool:
    """Whether an Arrow type is one of lists of numbers, of one length or of several."""
    import pyarrow as pa

    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    numbers = (pa.types.is_floating, pa.types.is_integer, pa.types.is_null)
    return any(test(kind) for test in lists) and any(test(kind.value_type) for test in numbers)


def holds_lists(kind: Any) -> bool:
    """Whether an Arrow type is one of lists of anything."""
    import pyarrow as pa

    return any(test(kind) for test in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list))


def array_of_lists(column: Any) -> NDArray[Any]:
    """Return an Arrow column of lists of K numbers as an array (n, K), a missing one as NaN; else a ValueError."""
    import pyarrow as pa

    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if whole.null_count:
        row = int(np.argmax(whole.is_null().to_numpy(zero_copy_only=False)))
        raise InputError(f"row {row} of `proba` has no probabilities", "drop such rows")
    lengths = whole.value_lengths().to_numpy(zero_copy_only=False)
    if len(lengths) and (lengths != lengths[0]).any():
        row = int(np.argmax(lengths != lengths[0]))
        raise InputError(
            f"row {row} of `proba` has {lengths[row]} probabilities and row 0 has {lengths[0]}",
            "give every row one per class",
        )
    # the width is stated, because NumPy cannot derive it from an array without rows
    width = int(lengths[0]) if len(lengths) else 0
    return np.asarray(whole.flatten().to_numpy(zero_copy_only=False)).reshape(len(whole), width)


def refuse_label_type(kind: Any, name: str, path: Path, what: str = "label") -> None:
    """Refuse a column of labels, or of ``what`` else, by its type: it must hold strings or numbers."""
    import pyarrow as pa

    # lists are the labels of rows that have several
    inner = kind.value_type if pa.types.is_dictionary(kind) or (what == "label" and holds_lists(kind)) else kind
    numbers = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean, pa.types.is_null)
    if not (is_text(inner) or any(test(inner) for test in numbers)):
        raise ValueError(f"{what} column {name!r} of {path} holds {kind}; it must hold strings or numbers")


def is_text(kind: Any) -> bool:
    """Whether an Arrow type is one of strings."""
    return str(kind) in ("string", "large_string", "string_view")


def labels_of(column: Any) -> Any:
    """Return labels: integers as they are, others by their distinct values."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type) and pa.types.is_decimal(column.type.value_type):
        column = column.cast(column.type.value_type)
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64(), safe=False)
    if str(column.type) == "string_view":
        column = column.cast(pa.string())
    if pa.types.is_integer(column.type) and not column.null_count:
        return column.to_numpy()
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode(null_encoding="encode")
    chunk = column.combine_chunks()
    # the last value is that of rows without a label, which are refused by number later
    values = np.empty(len(chunk.dictionary) + 1, dtype=object)
    values[:-1] = chunk.dictionary.to_pylist()
    index = np.asarray(chunk.indices.fill_null(len(values) - 1).to_numpy(zero_copy_only=False)).astype(np.intp)
    return Coded(values, index)


def _mapped_parts(source: FileSource, *, labels_only: bool = False) -> Iterator[tuple[Sequence[Piece], Part]]:
    """Yield the parts of a memory-mapped array, copied into memory."""
    for piece in source.pieces:
        piece.refuse_changed()
        rows = slice(piece.start, piece.stop)
        labels = None if source.label is None else np.array(map_array(str(source.label))[rows])
        weight = None if source.weight is None or labels_only else np.array(map_array(source.weight)[rows])
        proba = None if labels_only else np.array(map_array(piece.path)[rows])
        group = None if source.group is None else np.array(map_array(source.group)[rows])
        yield (piece,), Part(proba, labels, weight, str(piece), group)


def width_of_lists(source: FileSource) -> int:
    """Return how many probabilities each row of the one column of a source holds, by its first row group."""
    alone = replace(source, label=None, weight=None, group=None, pieces=source.pieces[:1])
    pieces, table = next(_row_groups(alone))
    return int(np.shape(_part_of(alone, pieces, table, held={}).proba)[1])


def map_array(path: str) -> NDArray[Any]:
    """Return the array of a ``.npy`` file, memory-mapped."""
    if not path.lower().endswith(".npy") or not os.path.isfile(path):
        raise ValueError(f"{path} is not a .npy file; save the array with numpy.save and name the file")
    try:
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except (ValueError, OSError, EOFError) as error:
        raise ValueError(f"{path} cannot be read as an array: {short(error)}; save it again with numpy.save") from None


def _turned(columns: list[NDArray[Any]], order: tuple[int, ...] | None, held: dict[str, NDArray[Any]]) -> NDArray[Any]:
    """Return columns (K arrays of n) as rows (n, K), in another order, in memory that is used again."""
    taken = columns if order is None else [columns[k] for k in order]
    kind = np.result_type(*taken).newbyteorder("=")
    kind = kind if kind in (np.float32, np.float64) else np.dtype(np.float32 if kind == np.float16 else np.float64)
    n = len(taken[0])
    K = len(taken)
    memory = held.get(kind.char)
    if memory is None or memory.size < n * K:
        # a new page costs more than what is written to it
        memory = held[kind.char] = np.empty(n * K, kind)
    out = memory[: n * K].reshape(n, K)
    for low in range(0, len(out), TURNED_ROWS):
        # as many rows as stay in the cache
        rows = out[low : low + TURNED_ROWS]
        block = np.empty(rows.shape[::-1], kind)
        for k, column in enumerate(taken):
            block[k] = column[low : low + TURNED_ROWS]
        if kernels.native is None:
            rows[:] = block.T
        else:
            kernels.native.turn(block, rows)
    return out


def stamp_of(path: Path | str) -> tuple[int, int]:
    """Return the size and the time of change of a file."""
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns


def short(error: BaseException) -> str:
    """Return an error's first line, without its full stop."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")[:300]
