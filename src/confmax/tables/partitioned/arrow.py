"""Columns of Arrow tables as arrays: what every source of named columns makes of the rows that it has read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from confmax import kernels
from confmax.errors import InputError
from confmax.tables.labels import Coded
from confmax.tables.partitioned.parts import RawPart, RowsRead, naming, stated_columns

TURNED_ROWS = 1 << 12


@dataclass(frozen=True, eq=False)
class NamedSource:
    """What sources of named columns share that hold nothing and read their rows anew in every pass.

    One column of lists of K numbers is named alone. Several labels per row are several columns of 0 and 1, or one of
    lists. ``order`` is that in which columns are given on. ``step`` makes something of each part before it is used.
    ``progress`` is called with the rows read of a pass so far, and the rows of the table. ``beside`` are columns that
    are passed through as they are. ``stated`` says whether somebody has named the columns of probabilities.
    """

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
    stated: bool = True

    is_confmax_source = True
    holds = False

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

    def with_columns(self, order: Sequence[int]) -> Self:
        return replace(self, order=tuple(order))

    def keeping(self, names: Sequence[str]) -> Self:
        """Return the source whose parts hold these columns as they are, too, as an Arrow table."""
        return replace(self, beside=tuple(names))

    def kept(self, step: Callable[[Any], Any]) -> Self:
        """Return the source of what ``step`` makes of each part; it is done anew in every pass."""
        return replace(self, step=step if self.step is None else partial(_both, self.step, step))


def _both(first: Callable[[Any], Any], second: Callable[[Any], Any], part: Any) -> Any:
    """Return what one step after another makes of a part."""
    return second(first(part))


def columns_to_read(source: NamedSource, *, labels_only: bool = False) -> list[str]:
    """Return the columns that a pass reads, each of them once."""
    labels = source.label if isinstance(source.label, tuple) else (source.label,)
    names = [*labels, source.group]
    if not labels_only:
        names += [*source.columns, source.weight, *source.beside]
    return list(dict.fromkeys(name for name in names if name is not None))


def probability_columns(
    schema: Any, columns: Sequence[str] | None, others: set[str | None], path: Any
) -> tuple[str, ...]:
    """Return the columns of probabilities of an Arrow table: those that are named, lists, or all floats."""
    import pyarrow as pa

    if columns is not None:
        return stated_columns(columns)
    if "probability" in schema.names and is_list(schema.field("probability").type):
        return ("probability",)
    chosen = tuple(field.name for field in schema if pa.types.is_floating(field.type) and field.name not in others)
    if len(chosen) < 2:
        raise ValueError(
            f"{path} has {len(chosen)} columns of floating-point numbers beside label, weight and group; name "
            f"the columns of probabilities with columns="
        )
    return chosen


def refuse_further(path: Any, chosen: Sequence[str], others: set[str | None], schema: Any, first: Any) -> None:
    """Refuse, by a ValueError, a file with columns of floats that the ``chosen`` ones of the first file lack."""
    import pyarrow as pa

    known = {*chosen, *others, *first.names}
    more = next((field.name for field in schema if pa.types.is_floating(field.type) and field.name not in known), None)
    if more is not None:
        raise ValueError(
            f"{path} has the column {more!r} of floating-point numbers, and the first file has not; name the columns "
            f"of probabilities with columns="
        )


def part_of(
    source: NamedSource,
    table: Any,
    place: str,
    *,
    held: dict[str, NDArray[Any]],
    labels_only: bool = False,
    apart: bool = False,
) -> RawPart:
    """Return what was read of the columns of a ``source`` as arrays; ``place`` is what a person calls these rows.

    The probabilities take the memory ``held`` of the part before, unless their columns are to stay ``apart``.
    """
    labels = _labels(source, table, place)
    group = None if source.group is None else labels_of(table.column(source.group))
    if labels_only:
        return RawPart(None, labels, None, place, group)
    weight = None if source.weight is None else _numbers(table.column(source.weight), place, source.weight)
    arrays = [_numbers(table.column(name), place, name) for name in source.columns]
    proba: Any = arrays[0]
    if proba.ndim == 1:
        taken = Columns(arrays if source.order is None else [arrays[k] for k in source.order], held)
        proba = taken if apart else taken.rows()
    elif source.order is not None:
        proba = np.ascontiguousarray(proba[:, source.order])
    beside = table.select(list(source.beside)) if source.beside else None
    return RawPart(proba, labels, weight, place, group, beside)


def with_keys(table: Any, keys: Mapping[str, Any], n_rows: int | None = None) -> Any:
    """Return a table, None for no columns, with columns of one value each, which are Arrow scalars."""
    import pyarrow as pa

    n_rows = len(table) if n_rows is None else n_rows
    for name, value in keys.items():
        column = pa.repeat(value, n_rows)
        table = pa.table({name: column}) if table is None else table.append_column(name, column)
    return table


def _labels(source: NamedSource, table: Any, place: str) -> Any:
    """Return the labels (n,) of row groups, several columns of them (n, L), or a list for each row; None for none."""
    if source.label is None:
        return None
    if isinstance(source.label, tuple):
        return np.column_stack([_numbers(table.column(name), place, name) for name in source.label])
    column = table.column(source.label)
    return column.to_pylist() if holds_lists(column.type) else labels_of(column)


def _numbers(column: Any, place: str, name: str) -> NDArray[Any]:
    """Return a column as an array (n,), or (n, K) if it holds lists of K numbers; a missing value is NaN."""
    chunk = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if not _is_number(chunk.type):
        chunk = _decoded(chunk)
        if is_list(chunk.type):
            with naming(f"{place}: column {name!r}"):
                return array_of_lists(chunk)
        if not _is_number(chunk.type):
            raise ValueError(f"{place}: column {name!r} holds {column.type}, not numbers; choose other columns")
    return _as_numbers(chunk)


def _decoded(column: Any) -> Any:
    """Return a column without the ways to store it that Arrow has: by runs, by dictionaries, as an extension."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(column.type, pa.BaseExtensionType):
        return _decoded(pc.cast(column, column.type.storage_type))
    if pa.types.is_run_end_encoded(column.type):
        return _decoded(pc.run_end_decode(column))
    return pc.cast(column, column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _as_numbers(chunk: Any) -> NDArray[Any]:
    """Return an Arrow array of numbers (n,), of decimals and booleans as float64; a missing one is NaN."""
    import pyarrow as pa

    if pa.types.is_decimal(chunk.type) or pa.types.is_null(chunk.type):
        chunk = chunk.cast(pa.float64(), safe=False)
    elif pa.types.is_boolean(chunk.type):
        chunk = chunk.cast(pa.uint8()).cast(pa.float64())
    return np.asarray(chunk.to_numpy(zero_copy_only=False))


def plain(kind: Any) -> Any:
    """Return the type of what a column holds: of an encoded one the type of its values, of an extension its storage."""
    import pyarrow as pa

    while True:
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        elif pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
            kind = kind.value_type
        else:
            return kind


def _is_number(kind: Any) -> bool:
    import pyarrow as pa

    numbers = (pa.types.is_floating, pa.types.is_integer, pa.types.is_decimal, pa.types.is_boolean, pa.types.is_null)
    return any(test(kind) for test in numbers)


def is_list(kind: Any) -> bool:
    """Whether an Arrow type is one of lists of numbers, of one length or of several."""
    return holds_lists(kind) and _is_number(plain(plain(kind).value_type))


def holds_lists(kind: Any) -> bool:
    """Whether an Arrow type is one of lists of anything."""
    import pyarrow as pa

    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(test(plain(kind)) for test in lists)


def array_of_lists(column: Any) -> NDArray[Any]:
    """Return an Arrow column of lists of K numbers as an array (n, K), a missing one as NaN; else a ValueError."""
    import pyarrow as pa

    whole = _decoded(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)
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
    return _as_numbers(_decoded(whole.flatten())).reshape(len(whole), width)


def refuse_label_type(kind: Any, name: str, path: str, what: str = "label") -> None:
    """Refuse a column of labels, or of ``what`` else, by its type: it must hold strings or numbers."""
    inner = plain(kind)
    # lists are the labels of rows that have several
    inner = plain(inner.value_type) if what == "label" and holds_lists(inner) else inner
    if not (is_text(inner) or _is_number(inner)):
        raise ValueError(f"{what} column {name!r} of {path} holds {kind}; it must hold strings or numbers")


def is_text(kind: Any) -> bool:
    """Whether an Arrow type is one of strings."""
    return str(kind) in ("string", "large_string", "string_view")


def labels_of(column: Any) -> Any:
    """Return labels: integers as they are, others by their distinct values."""
    import pyarrow as pa

    kind = plain(column.type)
    if not pa.types.is_dictionary(column.type) or not is_text(kind):
        # numbers of a dictionary may be spelled in two ways, and then be two labels
        column = _decoded(column)
    if pa.types.is_decimal(kind):
        column = column.cast(pa.float64(), safe=False)
    if pa.types.is_float16(kind):
        # by NumPy, because old pyarrow has no cast
        column = pa.chunked_array([pa.array(np.asarray(column.to_numpy(), np.float64), from_pandas=True)])
    if str(kind) == "string_view":
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


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns (K arrays of n) of probabilities in order, and memory ``held`` for the rows of one part after another."""

    columns: list[NDArray[Any]]
    held: dict[str, NDArray[Any]]

    def __len__(self) -> int:
        return len(self.columns[0])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the rows: float32 or float64."""
        kind = np.result_type(*self.columns).newbyteorder("=")
        if kind in (np.float32, np.float64):
            return kind
        return np.dtype(np.float32 if kind == np.float16 else np.float64)

    def rows(self) -> NDArray[Any]:
        """Return the columns as rows (n, K), in memory that is used again."""
        kind = self.dtype
        n = len(self)
        K = len(self.columns)
        memory = self.held.get(kind.char)
        if memory is None or memory.size < n * K:
            # a new page costs more than what is written to it
            memory = self.held[kind.char] = np.empty(n * K, kind)
        out = memory[: n * K].reshape(n, K)
        for low in range(0, len(out), TURNED_ROWS):
            # as many rows as stay in the cache
            rows = out[low : low + TURNED_ROWS]
            block = np.empty(rows.shape[::-1], kind)
            for k, column in enumerate(self.columns):
                block[k] = column[low : low + TURNED_ROWS]
            if kernels.native is None:
                rows[:] = block.T
            else:
                kernels.native.turn(block, rows)
        return out


def short(error: BaseException) -> str:
    """Return an error's first line, without its full stop."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")[:300]
