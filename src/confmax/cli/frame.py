"""A file's columns, whatever its format: names, numbers and labels are asked of a `Frame`.

Cells of a CSV file stay text until a column is asked for its numbers, so that an identifier such as ``007`` passes
through `confmax apply` as it came.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from confmax.tables.partitioned.files import array_of_lists, is_list, is_text

__all__ = ["INTEGER", "Frame", "as_names", "is_number", "no_column", "typed_column"]

PROBABILITY = "probability"  # the column of lists that is taken without being named, as by Spark ML and open_table
INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")  # as a program writes it, and within 64 bits


@dataclass(frozen=True, eq=False)
class Frame:
    """The columns of one file.

    Attributes
    ----------
    path : Path
        Where it came from.
    columns : dict of str to pyarrow.ChunkedArray
        One-dimensional columns, in file order.
    arrays : dict of str to ndarray
        For NPZ, every array of the file; its one-dimensional ones are in ``columns`` too.
    table : pyarrow.Table or None
        The table as it was read, None for NPZ.
    separator : str or None
        Of CSV, the mark between cells; None for other formats.
    decimal : str
        Of CSV, the mark before the decimals of numbers.
    """

    path: Path
    columns: Mapping[str, pa.ChunkedArray]
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    table: pa.Table | None = None
    separator: str | None = None
    decimal: str = "."

    @property
    def is_text(self) -> bool:
        """Whether cells are text whose type is not known: CSV."""
        return self.separator is not None

    def with_point(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return cells of text with their decimal commas as points; text that is no number stays as it is."""
        if self.decimal == ".":
            return column
        return pc.replace_substring_regex(column, r"^(\s*[+-]?[0-9]*),([0-9]+([eE][+-]?[0-9]+)?\s*)$", r"\1.\2")

    @cached_property
    def blocks(self) -> dict[str, NDArray[Any]]:
        """The tables of numbers with at least two columns: arrays of NPZ, and the column `probability` of lists."""
        names = [*self.arrays, *([] if PROBABILITY in self.arrays else [PROBABILITY])]
        found = {name: self.block(name) for name in names}
        return {name: block for name, block in found.items() if block is not None}

    def block(self, name: str) -> NDArray[Any] | None:
        """Return a two-dimensional array, or a column of lists of K numbers, as (n, K) with K >= 2; None if it is none.

        Raises
        ------
        ValueError
            If the lists are not all of one length.
        """
        if name in self.arrays:
            array = self.arrays[name]
            return array if array.ndim == 2 and array.shape[1] >= 2 and array.dtype.kind in "fiu" else None
        column = self.columns.get(name)
        if column is None or not is_list(column.type):
            return None
        lists = array_of_lists(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)
        if lists is None:
            raise ValueError(
                f"column {name!r} of {self.path} does not hold the same number of probabilities in every row"
            )
        return lists if lists.shape[1] >= 2 else None

    def is_numeric(self, name: str) -> bool:
        """Return whether a column holds numbers; for text its first cell that is not empty decides."""
        column = self.columns[name]
        if self.is_text:
            cell = next((text for text in self.with_point(column.slice(0, 1000)).to_pylist() if text.strip()), "")
            return is_number(cell)
        return _is_number_type(column.type)

    def is_whole(self, name: str) -> bool:
        """Return whether a numeric column holds whole numbers only: a label, a key or a count, not a probability."""
        numbers = self.numbers(name)
        return bool((np.isnan(numbers) | (numbers == np.floor(numbers))).all())

    def numbers(self, name: str) -> NDArray[Any]:
        """Return a column (n,) as float32 or float64, empty cells of typed files as NaN.

        Raises
        ------
        ValueError
            If a cell is not a number; the sentence names the first such row.
        """
        column = self.columns[name]
        if self.is_text:
            return _parsed(self.with_point(column), name, self.path)
        if not self.is_numeric(name):
            raise ValueError(
                f"column {name!r} of {self.path} holds {column.type}, not numbers; choose the columns of probabilities "
                f"with --columns"
            )
        kept = column.type in (pa.float32(), pa.float16())
        values = column if kept else pc.cast(column, pa.float64(), safe=False)
        return np.asarray(values.to_numpy())

    def names_in(self, name: str, role: str) -> NDArray[Any]:
        """Return a column (n,) of labels or keys: strings, integers or (not whole) floats.

        Raises
        ------
        ValueError
            If a cell is empty, or the column holds neither strings nor numbers.
        """
        column = self.columns[name]
        kind = column.type
        inner = kind.value_type if pa.types.is_dictionary(kind) else kind
        text = is_text(inner)
        if not (text or _is_number_type(inner) or pa.types.is_boolean(inner)):
            raise ValueError(f"{role} {name!r} of {self.path} holds {kind}; it must hold strings or numbers")
        if inner != kind or str(kind) == "string_view":
            column = pc.cast(column, pa.string() if text else inner)
        kind = inner
        if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            column = pc.cast(column, pa.float64(), safe=False)
        distinct = column.combine_chunks().dictionary_encode()
        distinct = distinct.combine_chunks() if isinstance(distinct, pa.ChunkedArray) else distinct
        seen = distinct.dictionary.to_pylist()
        empty = np.array([value is None or value != value or (text and not value.strip()) for value in seen], bool)
        codes = distinct.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        missing = codes < 0 if not empty.any() else (codes < 0) | empty[codes]
        if missing.any():
            row = int(np.argmax(missing))
            raise ValueError(
                f"row {row} of {role} {name!r} of {self.path} is empty; drop such rows, or leave the option out"
            )
        if not self.is_text:
            return _whole(np.array(seen))[codes]
        return as_names([cell.strip() for cell in self.with_point(pa.chunked_array([seen], pa.string())).to_pylist()])[
            codes
        ]


def no_column(name: str, frame: Frame, option: str) -> ValueError:
    """Return the error of a column that is not there, with the nearest names that are."""
    known = [*frame.columns, *(frame.blocks if frame.arrays else ())]
    near = difflib.get_close_matches(name, known, 3, 0.5)
    near += [other for other in known if other.lower() == name.lower() and other not in near]
    more = ", ..." if len(known) > 12 else ""
    hint = f"nearest: {', '.join(near)}" if near else f"it has {', '.join(known[:12])}{more}"
    return ValueError(f"{frame.path} has no column {name!r} ({hint}); correct {option}")


def _is_number_type(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


# --- cells -----------------------------------------------------------------------------------------------------------


def is_number(cell: str) -> bool:
    """Return whether text is a number, as CSV readers take it."""
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _parsed(column: pa.ChunkedArray, name: str, path: Path) -> NDArray[np.float64]:
    """Return text as numbers, as exactly as Python reads them."""
    trimmed = pc.utf8_trim_whitespace(column)
    try:
        return np.asarray(pc.cast(trimmed, pa.float64()).to_numpy())
    except pa.ArrowInvalid:
        cells = column.to_pylist()
        row = next((k for k, cell in enumerate(cells) if not is_number(cell)), 0)
        what = f"holds {cells[row]!r}, which is not a number" if cells[row].strip() else "is empty"
        way_out = "drop such rows, or choose other columns with --columns"
        if "," in cells[row]:
            way_out = "write numbers with a decimal point and without commas"
        raise ValueError(f"row {row} of column {name!r} of {path} {what}; {way_out}") from None


def as_names(values: Sequence[str]) -> NDArray[Any]:
    """Return names read from text: integers where all of them are written so, also as 1.0; else strings."""
    whole = [re.sub(r"\.0+$", "", value.strip()) for value in values]
    if all(map(INTEGER.fullmatch, whole)):
        return np.array(whole, dtype=np.int64)
    return np.array(values, dtype=str)


def _whole(values: NDArray[Any]) -> NDArray[Any]:
    """Return whole floats as integers."""
    if values.dtype.kind == "f" and (np.abs(values) < 2**53).all() and (values == np.floor(values)).all():
        return values.astype(np.int64)
    return values


def typed_column(column: pa.ChunkedArray) -> Any:
    """Return a column of text as integers, else as floats, where every cell is one and loses nothing; else as text."""
    cells = column.to_pylist()
    if all(map(INTEGER.fullmatch, cells)):
        return np.array(cells, dtype=np.int64)
    try:
        return pc.cast(pc.utf8_trim_whitespace(column), pa.float64()).to_numpy() if _is_plain(cells) else cells
    except pa.ArrowInvalid:
        return cells


def _is_plain(cells: Sequence[str]) -> bool:
    """Return whether no cell has leading zeros that a number would lose."""
    return not any(cell[:1] == "0" and cell[1:2].isdigit() for cell in cells)
