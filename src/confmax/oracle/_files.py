"""Tables in files that need not fit into memory: Parquet files, row group by row group, and memory-mapped arrays.

One thread reads ahead while the part before is scanned, so that about three row groups are in memory at a time,
whatever the size of the table. `open_table` checks names and types; the rows are checked in every pass that reads them.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from confmax.oracle._blocks import load_block
from confmax.oracle._labels import Coded
from confmax.oracle._parts import Part

MAPPED_BYTES = 64 << 20  # of one part of a memory-mapped array
TURNED_ROWS = 1 << 12

T = TypeVar("T")
Heard = Callable[[int, int], None]


@dataclass(frozen=True)
class Piece:
    """One row group of a Parquet file, or some rows of an array: rows ``start`` to ``stop`` of the file."""

    path: str
    group: int
    start: int
    stop: int
    stamp: tuple[int, int]  # size and time of the file

    def refuse_changed(self) -> None:
        """Refuse a file that is no longer the one that was opened.

        Raises
        ------
        ValueError
            If its size or time is another, or it is gone.
        """
        if not os.path.isfile(self.path) or _stamp(self.path) != self.stamp:
            raise ValueError(f"{self.path} has changed since it was opened; keep files as they are during a run")

    def __str__(self) -> str:
        if self.group < 0:
            return f"rows {self.start} to {self.stop - 1} of {self.path}"
        return f"row group {self.group} of {self.path}"


@dataclass(frozen=True, eq=False)
class FileSource:
    """Rows in files; nothing of them is held.

    Attributes
    ----------
    pieces : tuple of Piece
        The parts, in order.
    columns : tuple of str
        Columns of probabilities; one column of lists of K numbers is named alone.
    label, weight : str or None
        Names of columns, or for arrays files of their own.
    n_classes : int
        Columns of probabilities.
    names : tuple of str or None
        Their names; None where there is one column of lists, or an array.
    order : tuple of int or None
        In which order the columns are given on.
    steps : tuple of callables
        What is made of each part before it is used.
    progress : callable or None
        Called with the rows read of a pass so far, and the rows of the table.
    """

    pieces: tuple[Piece, ...]
    columns: tuple[str, ...]
    label: str | None
    weight: str | None
    n_classes: int
    names: tuple[str, ...] | None = None
    order: tuple[int, ...] | None = None
    steps: tuple[Callable[[Any], Any], ...] = ()
    progress: Heard | None = None

    is_confmax_source = True
    holds = False

    @cached_property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(piece.stop - piece.start for piece in self.pieces)

    @property
    def has_labels(self) -> bool:
        """Whether a column of labels was named."""
        return self.label is not None

    def with_columns(self, order: Sequence[int]) -> FileSource:
        """Return the source with its columns in another order."""
        return replace(self, order=tuple(order))

    def kept(self, step: Callable[[Any], Any]) -> FileSource:
        """Return the source of what ``step`` makes of each part; it is done anew in every pass."""
        return replace(self, steps=(*self.steps, step))

    def run(self, work: Callable[[Any], T], *, labels_only: bool = False) -> Iterator[T]:
        """Yield what ``work`` returns for every part while the next one is read."""
        read = partial(_read_mapped if self._is_mapped else _read_group, self, labels_only=labels_only)
        as_part = partial(_given if self._is_mapped else _part_of_group, self, held={})
        done, pieces = 0, [piece for piece in self.pieces if piece.stop > piece.start]
        with ThreadPoolExecutor(1, thread_name_prefix="confmax-read") as reader:
            ahead: Future[Any] | None = reader.submit(read, pieces[0]) if pieces else None
            for k, piece in enumerate(pieces):
                assert ahead is not None
                found = ahead.result()
                ahead = reader.submit(read, pieces[k + 1]) if k + 1 < len(pieces) else None
                part: Any = as_part(piece, found)
                for step in self.steps:
                    part = step(part)
                yield work(part)
                done += piece.stop - piece.start
                if self.progress is not None and not labels_only:
                    self.progress(done, self.n_rows)

    @property
    def _is_mapped(self) -> bool:
        return self.pieces[0].group < 0


def open_table(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    label: str | os.PathLike[str] | None = None,
    weight: str | os.PathLike[str] | None = None,
    columns: Sequence[str] | None = None,
    progress: Heard | None = None,
) -> FileSource:
    """Open a table of probabilities in files, to be read part by part, whatever its size.

    Parameters
    ----------
    path : str, path or sequence of them
        Parquet files: a name, a pattern such as ``"scores/*.parquet"``, a directory of them, or several names; read in
        sorted order, row group by row group. Or one ``.npy`` file of an array (n, K), which is memory-mapped.
    label, weight : str or None
        Columns of true classes and of sample weights; beside a ``.npy`` file the ``.npy`` files that hold them (n,).
    columns : sequence of str or None
        The columns of probabilities in class order, or the one that holds a list of K numbers per row. Default: the
        column ``probability`` if it holds lists, else every column of floating-point numbers but label and weight.
    progress : callable or None
        Called with the number of rows read in a pass so far and the number of rows of the table.

    Returns
    -------
    object
        To be given to `maximize` in the place of ``proba``, without ``y`` and ``sample_weight``, or to
        `DecisionRule.predict`. Nothing has been read but the files' headers.

    Raises
    ------
    ValueError
        If there is no such file, a file is damaged, the files differ in their columns, or a column is missing.

    Notes
    -----
    A run reads the probabilities once to check them, once per pass, and once more where they are calibrated. The
    calibration is fitted on a sample of 4M entries, which also finds where the first full pass looks. Row groups of
    about a million rows are a good size: three of them are in memory at a time.

    Examples
    --------
    >>> import confmax, numpy, tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "scores.npy"
    >>> numpy.save(file, [[0.8, 0.2], [0.6, 0.4], [0.3, 0.7]])
    >>> confmax.maximize("balanced_accuracy", confmax.open_table(file)).rule.predict([[0.6, 0.4]])
    array([1])
    """
    paths = _files(path)
    if paths[0].suffix.lower() == ".npy":
        return _mapped(paths, label, weight, columns, progress)
    return _parquet(paths, _name(label), _name(weight), columns, progress)


# --- opening ---------------------------------------------------------------------------------------------------------


def _name(given: str | os.PathLike[str] | None) -> str | None:
    return None if given is None else os.fspath(given)


def _files(path: Any) -> list[Path]:
    given = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    found: list[Path] = []
    for each in given:
        name = os.fspath(each)
        if os.path.isdir(name):
            name = os.path.join(glob.escape(name), "*.parquet")
        matched = sorted(glob.glob(name)) if glob.has_magic(name) and not os.path.exists(name) else [name]
        if not matched:
            raise ValueError(f"no file is named like {name}; check the pattern and the folder")
        found += map(Path, matched)
    for file in found:
        if not file.is_file():
            raise ValueError(f"there is no file {file}; check the name and the folder")
        if file.suffix.lower() not in (".parquet", ".npy"):
            raise ValueError(f"{file} is neither .parquet nor .npy; these are the formats that are read in parts")
    if len({file.suffix.lower() for file in found}) > 1 or (found[0].suffix.lower() == ".npy" and len(found) > 1):
        raise ValueError(f"give Parquet files, or one .npy file; got {', '.join(map(str, found[:3]))}")
    return found


def _parquet(
    paths: list[Path], label: str | None, weight: str | None, columns: Sequence[str] | None, progress: Heard | None
) -> FileSource:
    schemas, pieces = [], []
    for path in paths:
        with _parquet_file(path) as file:
            schema, start, stamp = file.schema_arrow, 0, _stamp(path)
            for group in range(file.metadata.num_row_groups):
                stop = start + file.metadata.row_group(group).num_rows
                pieces.append(Piece(str(path), group, start, stop, stamp))
                start = stop
        schemas.append(schema)
    chosen = _probability_columns(schemas[0], columns, {label, weight}, paths[0])
    for path, schema in zip(paths, schemas, strict=True):
        missing = [name for name in (*chosen, label, weight) if name is not None and name not in schema.names]
        if missing:
            raise ValueError(f"{path} has no column {missing[0]!r}; its columns are {', '.join(schema.names[:12])}")
    if not pieces:
        raise ValueError(f"{paths[0]} holds no rows; at least one row of probabilities is needed")
    source = FileSource(tuple(pieces), chosen, label, weight, len(chosen), chosen, progress=progress)
    if len(chosen) > 1:
        return source
    first = next((piece for piece in pieces if piece.stop > piece.start), None)
    if first is None:
        raise ValueError(f"{paths[0]} holds no rows; at least one row of probabilities is needed")
    alone = replace(source, label=None, weight=None)
    K = _part_of_group(alone, first, _read_group(alone, first), held={}).proba.shape[1]
    return replace(source, n_classes=K, names=None)


def _probability_columns(
    schema: Any, columns: Sequence[str] | None, others: set[str | None], path: Path
) -> tuple[str, ...]:
    import pyarrow as pa

    if columns is not None:
        chosen = (columns,) if isinstance(columns, str) else tuple(columns)
        if not chosen:
            raise ValueError("columns is empty; name at least one column of probabilities")
        return chosen
    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    if "probability" in schema.names and any(kind(schema.field("probability").type) for kind in lists):
        return ("probability",)
    chosen = tuple(field.name for field in schema if pa.types.is_floating(field.type) and field.name not in others)
    if len(chosen) < 2:
        raise ValueError(
            f"{path} has {len(chosen)} columns of floating-point numbers beside label and weight; name the columns of "
            f"probabilities with columns="
        )
    return chosen


def _mapped(
    paths: list[Path], label: Any, weight: Any, columns: Sequence[str] | None, progress: Heard | None
) -> FileSource:
    if columns is not None:
        raise ValueError("columns= names columns of Parquet files; an array has numbers only: leave it out")
    array = _map(str(paths[0]))
    if array.ndim != 2 or array.shape[1] < 2:
        raise ValueError(f"{paths[0]} must hold an array (n, K) with K >= 2 classes; got shape {array.shape}")
    n, K = array.shape
    for given, what in ((label, "label"), (weight, "weight")):
        if given is not None and (shape := _map(os.fspath(given)).shape) != (n,):
            raise ValueError(f"{what} {given} must hold one entry per row: {n}; got shape {shape}")
    rows = max(1, MAPPED_BYTES // max(1, array.itemsize * K))
    stamp = _stamp(paths[0])
    pieces = tuple(Piece(str(paths[0]), -1, low, min(low + rows, n), stamp) for low in range(0, max(n, 1), rows))
    return FileSource(pieces, (), _name(label), _name(weight), K, progress=progress)


# --- reading ---------------------------------------------------------------------------------------------------------


def _parquet_file(path: Path | str) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path, memory_map=True)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} is a damaged Parquet file: {_short(error)}; write it again") from None


def _read_group(source: FileSource, piece: Piece, *, labels_only: bool = False) -> Any:
    """Return the Arrow table of a row group."""
    import pyarrow as pa

    columns = [] if labels_only else [*source.columns, *([] if source.weight is None else [source.weight])]
    columns += [] if source.label is None else [source.label]
    piece.refuse_changed()
    with _parquet_file(piece.path) as file:
        try:
            return file.read_row_group(piece.group, columns=list(dict.fromkeys(columns)))
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"{piece} is damaged: {_short(error)}; write the file again") from None


def _part_of_group(source: FileSource, piece: Piece, table: Any, *, held: dict[str, NDArray[Any]]) -> Part:
    """Return what was read of a row group as arrays; the probabilities take the place of the part before."""
    given = set(table.column_names)
    labels = None if source.label is None else _labels_of(table.column(source.label))
    weight = None
    if source.weight is not None and source.weight in given:
        weight = _numbers(table.column(source.weight), piece, source.weight)
    if not given.issuperset(source.columns):
        return Part(np.empty((0, source.n_classes)), labels, weight, str(piece))
    arrays = [_numbers(table.column(name), piece, name) for name in source.columns]
    proba = arrays[0]
    if proba.ndim == 1:
        proba = _turned(arrays, source.order, held)
    elif source.order is not None:
        proba = np.ascontiguousarray(proba[:, source.order])
    return Part(proba, labels, weight, str(piece))


def _numbers(column: Any, piece: Piece, name: str) -> NDArray[Any]:
    """Return a column as an array (n,), or (n, K) if it holds lists of K numbers; a missing value is NaN."""
    import pyarrow as pa

    chunk = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if pa.types.is_list(chunk.type) or pa.types.is_large_list(chunk.type) or pa.types.is_fixed_size_list(chunk.type):
        flat = chunk.flatten()
        n = len(chunk)
        if chunk.null_count or (n and len(flat) % n) or len(set(chunk.value_lengths().unique().to_pylist())) > 1:
            raise ValueError(f"{piece}: column {name!r} does not hold the same number of probabilities in every row")
        return np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(n, -1)
    if not (pa.types.is_floating(chunk.type) or pa.types.is_integer(chunk.type) or pa.types.is_null(chunk.type)):
        raise ValueError(f"{piece}: column {name!r} holds no numbers but {chunk.type}; choose other columns")
    return np.asarray(chunk.to_numpy(zero_copy_only=False))


def _labels_of(column: Any) -> Any:
    """Return labels: integers as they are, others by their distinct values."""
    import pyarrow as pa

    if pa.types.is_integer(column.type) and not column.null_count:
        return column.to_numpy()
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode(null_encoding="encode")
    chunk = column.combine_chunks()
    chunk = chunk.chunk(0) if isinstance(chunk, pa.ChunkedArray) else chunk
    values = np.empty(len(chunk.dictionary) + 1, dtype=object)
    values[:-1] = chunk.dictionary.to_pylist()
    index = np.asarray(chunk.indices.fill_null(len(values) - 1).to_numpy(zero_copy_only=False)).astype(np.intp)
    return Coded(values, index)


def _read_mapped(source: FileSource, piece: Piece, *, labels_only: bool = False) -> Part:
    piece.refuse_changed()
    part = slice(piece.start, piece.stop)
    labels = None if source.label is None else np.array(_map(source.label)[part])
    weight = None if source.weight is None or labels_only else np.array(_map(source.weight)[part])
    proba = np.empty((0, source.n_classes)) if labels_only else np.array(_map(piece.path)[part])
    return Part(proba if source.order is None else proba[:, source.order], labels, weight, str(piece))


def _given(_source: FileSource, _piece: Piece, part: Part, *, held: dict[str, NDArray[Any]]) -> Part:  # noqa: ARG001
    return part


def _map(path: str) -> NDArray[Any]:
    if not path.lower().endswith(".npy") or not os.path.isfile(path):
        raise ValueError(f"{path} is no .npy file; save the array with numpy.save and name the file")
    try:
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except (ValueError, OSError, EOFError) as error:
        raise ValueError(f"{path} cannot be read as an array: {_short(error)}; save it again with numpy.save") from None


def _turned(columns: list[NDArray[Any]], order: tuple[int, ...] | None, held: dict[str, NDArray[Any]]) -> NDArray[Any]:
    """Return columns (K arrays of n) as rows (n, K), in another order, in memory that is used again."""
    taken = columns if order is None else [columns[k] for k in order]
    kind = np.result_type(*taken)
    kind = kind if kind in (np.float32, np.float64) else np.dtype(np.float32 if kind == np.float16 else np.float64)
    n, K = len(taken[0]), len(taken)
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
        load_block(block, rows)
    return out


def _stamp(path: Path | str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns


def _short(error: BaseException) -> str:
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
