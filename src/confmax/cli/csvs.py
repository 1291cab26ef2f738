"""CSV text, from a file or a stream, as a table, and tables as CSV text.

pyarrow reads and writes the rows, and all columns stay text until one is used as numbers, so that an identifier such as
``007`` passes through `confmax apply` as it came. What pyarrow cannot do is done here: it takes the separator and the
decimal mark as given, swallows the rest of a file behind an open quote, does not say where text is not UTF-8, writes
names of columns between quotes always, and reads ``007`` as 7.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
from numpy.typing import NDArray

from confmax.cli import cells
from confmax.cli.cells import COMMA, POINT, SEPARATORS, Source, check_encoding, first_cells, is_number, sniffed
from confmax.tables.columns import first_repeated
from confmax.tables.partitioned.arrow import short

INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")  # as a program writes it, and within 64 bits
SMALL = 1 << 20  # bytes that one thread reads at once
BLOCK_LINES = 256  # lines as long as that of the names, which a block has at least,
MOST_BLOCK = 1 << 30  # up to so many bytes


def refuse_repeated(names: Sequence[str], path: Path) -> None:
    """Refuse two columns of one name."""
    repeated = first_repeated(names)
    if repeated is not None:
        raise ValueError(f"{path} has two columns named {repeated!r}; give each column its own name")


# --- reading ---------------------------------------------------------------------------------------------------------


def read_csv(source: Source, separator: str | None = None) -> tuple[pa.Table, str]:
    """Return CSV text as a table of text, and the mark between its cells.

    The ``separator``, or what the first rows show.
    """
    # these checks say what is wrong; pyarrow's own message would only name a row
    rows_are_short = cells.check_quotes(source, SMALL)
    mark = separator or sniffed(source)
    first = first_cells(source, 2, mark)
    header = first[0] if first else []
    _check_header(header, source, mark, given=separator is not None)
    refuse_repeated([name.strip() for name in header], source.path)
    if len(first) == 1:
        # nothing is left for pyarrow, whose threads may still be starting when such an error ends the process
        raise ValueError(f"{source.path} has column names but no rows; give at least one row of probabilities")
    try:
        return _text_columns(source, header, mark, threads=rows_are_short), mark
    except (pa.ArrowException, UnicodeDecodeError) as error:
        check_encoding(source)
        raise ValueError(
            f"{source.path} is not a well-formed CSV file: {short(error)}; mend or remove such rows"
        ) from None


def _text_columns(source: Source, header: Sequence[str], mark: str, *, threads: bool) -> pa.Table:
    """Return the columns of CSV text, all of them text, as pyarrow reads it, with ``threads`` or with one.

    The threads of pyarrow 15 may wait for ever for each other when a row is longer than a block.
    """
    # an empty cell stays an empty text, so that apply writes it as it was
    text = pacsv.ConvertOptions(column_types=dict.fromkeys(header, pa.string()), strings_can_be_null=False)
    # a name between quotes may hold the end of a line
    quoted = pacsv.ParseOptions(delimiter=mark, newlines_in_values=True)
    # every block has an array for each column: with few rows in a block these arrays would be most of the work
    block = min(max(SMALL, BLOCK_LINES * sum(len(name) + 1 for name in header)), MOST_BLOCK)
    while True:
        # opened anew each time: a thread of a reader that has failed may still read ahead
        with arrow_file(source) as file:
            size = file.size()
            how = pacsv.ReadOptions(use_threads=threads and size > SMALL, block_size=block)
            try:
                return pacsv.read_csv(file, how, parse_options=quoted, convert_options=text)
            except pa.ArrowInvalid as error:
                # a row that is longer than a block
                if "straddling" not in str(error) or block >= min(size, MOST_BLOCK):
                    raise
        block = min(8 * block, MOST_BLOCK)


def arrow_file(source: Source) -> pa.NativeFile:
    """Return a source as an open file of pyarrow, whose threads may wait for ever for a file of Python's."""
    return pa.OSFile(str(source.path)) if source.data is None else pa.BufferReader(source.data)


def csv_bytes(table: pa.Table, separator: str = ",", *, header: bool = True) -> bytes:
    """Return a table as CSV text, without quotes where no cell needs them; a ValueError for types without a text.

    Without the ``header``, these are the rows that follow those of another table.
    """
    # pyarrow would put every name between quotes, which the file that was read need not have had
    names = io.StringIO()
    if header:
        csv.writer(names, delimiter=separator, lineterminator="\n").writerow(table.column_names)
    why = ""
    # values that need no quotes are the usual case, and the fast one; where pyarrow may write quotes, it puts them
    # around all text, also where the file that was read had none
    for quotes in ("none", "needed"):
        how = pacsv.WriteOptions(include_header=False, delimiter=separator, quoting_style=quotes)
        body = io.BytesIO()
        body.write(names.getvalue().encode())
        try:
            pacsv.write_csv(table, body, how)
            return body.getvalue()
        except pa.ArrowException as error:
            why = short(error)
    raise ValueError(f"the table cannot be written as CSV: {why}; write .parquet instead")


def _check_header(header: Sequence[str], source: Source, mark: str, *, given: bool) -> None:
    """Refuse a first row of numbers, and one that another mark separates."""
    cells = header if mark == "," else [name.replace(",", ".") for name in header]
    # whole numbers may be names of classes; fractions are a row of probabilities without names above it
    if all(map(is_number, cells)) and not all(map(INTEGER.fullmatch, cells)):
        raise ValueError(f"the first row of {source.path} holds numbers, not column names; add a row of names above it")
    if len(header) > 1:
        return
    other = next((sign for sign in (*SEPARATORS, "|") if sign != mark and sign in "".join(header)), None)
    if other is not None:
        found = SEPARATORS.get(other, repr(other))
        way_out = "leave --sep out" if other in SEPARATORS and given else f"give --sep {other!r}"
        raise ValueError(f"{source.path} seems to separate its columns with {found}; {way_out}")


def with_points(table: pa.Table, mark: str) -> list[pa.ChunkedArray]:
    """Return the columns with decimal points, where the file has decimal commas; ``mark`` separates its cells."""
    # in a file that is separated by commas a cell such as "1,234" is as likely a thousand
    if mark == "," or not _any_cell(table, COMMA) or _any_cell(table, POINT):
        return list(table.columns)
    return [
        pc.if_else(pc.match_substring_regex(column, COMMA), pc.replace_substring(column, ",", "."), column)
        for column in table.columns
    ]


def _any_cell(table: pa.Table, pattern: str) -> bool:
    return any(pc.any(pc.match_substring_regex(column, pattern)).as_py() for column in table.columns)


# --- cells -----------------------------------------------------------------------------------------------------------


def numbers_of(column: pa.ChunkedArray, name: str, path: Path) -> NDArray[np.float64]:
    """Return text as numbers, as exactly as Python reads them."""
    # pyarrow's cast is correctly rounded, as Python's float is: no probability changes its last bit
    trimmed = pc.utf8_trim_whitespace(column)
    try:
        return as_array(pc.cast(trimmed, pa.float64()))
    except pa.ArrowInvalid:
        cells = column.to_pylist()
        row = next((k for k, cell in enumerate(cells) if not is_number(cell)), 0)
        what = f"holds {cells[row]!r}, which is not a number" if cells[row].strip() else "is empty"
        way_out = "drop such rows, or choose other columns with --columns"
        if "," in cells[row]:
            way_out = "write numbers with a decimal point and without commas"
        raise ValueError(f"row {row} of column {name!r} of {path} {what}; {way_out}") from None


def as_array(column: pa.ChunkedArray | pa.Array) -> NDArray[Any]:
    """Return a column of numbers (n,) as an array, empty cells as NaN."""
    if column.null_count:
        return np.asarray(column.to_numpy())
    # pyarrow's own conversions, either way, import pandas where it is installed, which takes longer than all the rest
    dtype = np.dtype(f"{'f' if pa.types.is_floating(column.type) else 'i'}{column.type.bit_width // 8}")
    parts = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    arrays = [
        np.frombuffer(part.buffers()[1], dtype, len(part), part.offset * dtype.itemsize) for part in parts if len(part)
    ]
    return arrays[0] if len(arrays) == 1 else np.concatenate([np.zeros(0, dtype), *arrays])


def as_column(array: NDArray[Any]) -> pa.Array:
    """Return an array (n,) as `pyarrow.array` does."""
    if array.dtype.kind == "U" and array.nbytes < 2**31:
        texts = [text.encode() for text in array.tolist()]
        ends = np.cumsum([0, *map(len, texts)], dtype=np.int32)
        return pa.StringArray.from_buffers(len(texts), pa.py_buffer(ends), pa.py_buffer(b"".join(texts)))
    if array.dtype.kind in "if":
        data = pa.py_buffer(np.ascontiguousarray(array))
        return pa.Array.from_buffers(pa.from_numpy_dtype(array.dtype), len(array), [None, data])
    return pa.array(array)


def as_names(values: Sequence[str]) -> NDArray[Any]:
    """Return names read from text: integers where all of them are written so, also as 1.0; else strings."""
    # pandas writes whole labels as 1.0 where others are missing
    whole = [re.sub(r"\.0+$", "", value.strip()) for value in values]
    if all(map(INTEGER.fullmatch, whole)):
        return np.array(whole, dtype=np.int64)
    return np.array(values, dtype=str)


def typed_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of text as integers, else as floats, where every cell is one and loses nothing; else as text."""
    if pc.all(pc.match_substring_regex(column, f"^{INTEGER.pattern}$")).as_py():
        return pc.cast(column, pa.int64())
    if pc.any(pc.match_substring_regex(column, "^0[0-9]")).as_py():  # a number would lose leading zeros
        return column
    try:
        return pc.cast(pc.utf8_trim_whitespace(column), pa.float64())
    except pa.ArrowInvalid:
        return column
