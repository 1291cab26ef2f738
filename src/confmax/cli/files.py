"""Tables in files: CSV, Parquet and NPZ are read into named columns, and written whole or not at all.

What a file is named, what its first bytes say and what is in it must agree; a damaged file is refused with a reason.
"""

from __future__ import annotations

import csv
import io
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from confmax.cli.frame import INTEGER, Frame, is_number, typed_column
from confmax.places import check_place, same_place, write_whole

__all__ = [
    "DECISION", "EXTENSIONS", "check_output", "read_cells", "read_frame", "refuse_same", "write_decisions",
    "write_file", "writing",
]  # fmt: skip

DECISION = "decision"
EXTENSIONS = (".csv", ".parquet", ".npz")

# first bytes of files that are often misnamed, with what they are
_MAGIC = {
    b"PAR1": (".parquet", "a Parquet file"),
    b"PK\x03\x04": (".npz", "a zip archive such as NPZ"),
    b"PK\x05\x06": (".npz", "an empty zip archive"),
    b"\x93NUMPY": (".npy", "one NumPy array (.npy)"),
    b"\x1f\x8b": (".gz", "a gzip archive"),
}
# what zipfile, zlib and NumPy raise on a damaged archive
_DAMAGE = (
    ValueError,
    OSError,
    EOFError,
    KeyError,
    NotImplementedError,
    RuntimeError,
    MemoryError,
    zipfile.BadZipFile,
    zlib.error,
)


# --- reading ---------------------------------------------------------------------------------------------------------


def read_frame(path: Path) -> Frame:
    """Return the columns of a CSV, Parquet or NPZ file.

    Raises
    ------
    ValueError
        If the file is not there, is not what its name says, or is damaged; the sentence says which.
    OSError
        If it cannot be read.
    """
    extension = _known_extension(path)
    _check_bytes(path, extension)
    frame = {".csv": _read_csv, ".parquet": _read_parquet, ".npz": _read_npz}[extension](path)
    if extension != ".npz" and not any(len(column) for column in frame.columns.values()):
        raise ValueError(f"{path} has column names but no rows; give at least one row of probabilities")
    return frame


def read_cells(path: Path) -> list[list[str]]:
    """Return the cells of a small CSV file, such as a table of costs; errors as for `read_frame`."""
    if path.suffix.lower() != ".csv":
        raise ValueError(f"{path} does not end in .csv; save the table as CSV")
    _check_bytes(path, ".csv")
    return [[cell.strip() for cell in row] for row in _first_cells(path, 100_000)]


def _known_extension(path: Path) -> str:
    extension = path.suffix.lower()
    if extension not in EXTENSIONS:
        shown = f"the extension {path.suffix!r}" if path.suffix else "no extension"
        raise ValueError(f"{path} has {shown}; tables are read and written as {', '.join(EXTENSIONS)}")
    return extension


def _check_bytes(path: Path, extension: str) -> None:
    """Refuse a file that is missing, empty, or not what its name says."""
    if path.is_dir():
        raise ValueError(f"{path} is a directory; name a file in it")
    if not path.exists():
        raise ValueError(f"there is no file {path}; check the name and the folder")
    with path.open("rb") as file:
        head = file.read(4096)
    if not head.strip():
        raise ValueError(f"{path} is empty; give a table with column names and rows")
    found, what = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), (".csv", "text"))
    if found == ".csv" and b"\0" in head:
        found, what = "", "unknown binary data, or text that is not UTF-8"
    if found != extension:
        way_out = f"rename it to end in {found}" if found in EXTENSIONS else f"save the table as {extension} again"
        raise ValueError(f"{path} is named {extension} but holds {what}; {way_out}")


def _read_csv(path: Path) -> Frame:
    """Read all cells as text."""
    first = _first_cells(path, 1)
    names = first[0] if first else []
    if all(map(is_number, names)) and not all(map(INTEGER.fullmatch, names)):
        raise ValueError(f"the first row of {path} holds numbers, not column names; add a row of names above it")
    if len(names) == 1:
        split = next((mark for mark in (";", "\t", "|") if mark in names[0]), None)
        if split is not None:
            raise ValueError(f"{path} separates its columns with {split!r}; separate them with commas")
    _refuse_repeated(names, path)
    text = pacsv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False)
    quoted = pacsv.ParseOptions(newlines_in_values=True)
    try:
        table = pacsv.read_csv(path, parse_options=quoted, convert_options=text)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a well-formed CSV file: {_short(error)}; mend or remove such rows") from None
    return Frame(path, dict(zip(table.column_names, table.columns, strict=True)), is_text=True, table=table)


def _first_cells(path: Path, most: int) -> list[list[str]]:
    """Return the cells of the first rows of a CSV file, blank rows left out.

    Raises
    ------
    ValueError
        If a quote is never closed (it would swallow the rest of the file), or the text is not UTF-8.
    """
    with path.open("rb") as file:
        marks = sum(chunk.count(b'"') for chunk in iter(lambda: file.read(1 << 20), b""))
    if marks % 2:
        raise ValueError(f'{path} has an odd number of quotes ("), so one is never closed; close it or double it')
    rows: list[list[str]] = []
    try:
        with path.open(newline="", encoding="utf-8-sig") as text:
            for row in csv.reader(text):
                if len(rows) == most:
                    break
                if row:
                    rows.append(row)
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} is not a well-formed CSV file: {_short(error)}; save it as UTF-8 text") from None
    return rows


def _read_parquet(path: Path) -> Frame:
    try:
        with path.open("rb") as file:
            table = pq.ParquetFile(file).read()
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} is a damaged Parquet file: {_short(error)}; write it again") from None
    _refuse_repeated(table.column_names, path)
    return Frame(path, dict(zip(table.column_names, table.columns, strict=True)), table=table)


def _read_npz(path: Path) -> Frame:
    arrays: dict[str, NDArray[Any]] = {}
    try:
        # opened here, because np.load leaves a damaged file open
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            _refuse_repeated(archive.files, path)
            for name in archive.files:
                arrays[name] = archive[name]
    except _DAMAGE as error:
        why = "it holds pickled objects, which are never loaded" if "pickle" in str(error) else _short(error)
        way_out = "save arrays of numbers or strings with numpy.savez"
        raise ValueError(f"{path} cannot be read as NPZ: {why}; {way_out}") from None
    arrays = {name: array for name, array in arrays.items() if isinstance(array, np.ndarray)}
    if not arrays:
        raise ValueError(f"{path} holds no arrays; save them with numpy.savez")
    flat = {name: array for name, array in arrays.items() if array.ndim == 1 and array.dtype.kind in "fiubUS"}
    columns = {name: _as_column(array) for name, array in flat.items()}
    return Frame(path, columns, arrays)


def _as_column(array: NDArray[Any]) -> pa.ChunkedArray:
    native = array.astype(array.dtype.newbyteorder("="))
    if array.dtype.kind == "S":
        native = np.char.decode(array, "utf-8", "replace")
    elif array.dtype.kind == "f" and array.dtype.itemsize not in (4, 8):
        native = array.astype(np.float32 if array.dtype.itemsize == 2 else np.float64)
    return pa.chunked_array([pa.array(native)])


def _refuse_repeated(names: Sequence[str], path: Path) -> None:
    repeated = next((name for k, name in enumerate(names) if name in names[:k]), None)
    if repeated is not None:
        raise ValueError(f"{path} has two columns named {repeated!r}; give each column its own name")


# --- writing ---------------------------------------------------------------------------------------------------------


def check_output(path: Path, extensions: Sequence[str] = ()) -> None:
    """Refuse a place that nothing can be written to, before any work is done.

    Raises
    ------
    ValueError
        If the folder does not exist or is not writable, the path is a directory, or the extension is unknown.
    """
    if extensions:
        _known_extension(path)
    check_place(path)


def refuse_same(path: Path, given: Path, option: str = "-o") -> None:
    """Refuse to write to the file that is read, under whatever name; ``option`` is what names the output."""
    if path.exists() and given.exists() and same_place(path, given):
        raise ValueError(f"{option} {path} is the file that is read; choose another name for what is written")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say in one sentence why ``path`` could not be written."""
    try:
        yield
    except OSError as error:
        if error.filename != str(path):
            raise
        raise ValueError(f"{path} cannot be written ({error.strerror}); choose another place") from None


def write_file(path: Path, data: bytes) -> None:
    """Write a result to where an option says.

    Raises
    ------
    ValueError
        If that fails, with the path.
    """
    with writing(path):
        write_whole(path, data)


def write_decisions(
    path: Path, frame: Frame, decisions: NDArray[Any], *, block: str | None = None, block_names: Sequence[str] = ()
) -> list[str]:
    """Write the columns of ``frame`` and the column `DECISION`, in the format that the name of ``path`` says.

    Parameters
    ----------
    path : Path
        Where to; the file appears whole or not at all.
    frame : Frame
        What was read.
    decisions : ndarray (n,)
        One decision per row, as names.
    block : str or None
        The two-dimensional array that was decided on; its columns are called ``block_names`` in a table.
    block_names : sequence of str
        Names of the block's columns.

    Returns
    -------
    list of str
        Arrays of an NPZ file that have no place in a table of n rows and were left out.
    """
    extension = _known_extension(path)
    if DECISION in frame.columns or DECISION in frame.arrays:
        raise ValueError(f"{frame.path} already has a column {DECISION!r}; rename or remove it")
    left_out: list[str] = []
    table = frame.table
    if table is None and extension != ".npz":
        named = {} if block is None else {block: list(block_names)}
        table, left_out = _as_table(frame, len(decisions), named)
        if DECISION in table.column_names:
            raise ValueError(f"a class is called {DECISION!r}, as the column of decisions is; write .npz instead")
    if table is None:
        data = _npz_bytes({**frame.arrays, DECISION: decisions})
    elif extension == ".csv":
        data = _csv_bytes(table.append_column(DECISION, pa.array(decisions)))
    else:
        typed = _typed_table(table) if frame.is_text else table
        typed = typed.append_column(DECISION, pa.array(decisions))
        data = _parquet_bytes(typed) if extension == ".parquet" else _npz_bytes(_as_arrays(typed))
    write_whole(path, data)
    return left_out


def _csv_bytes(table: pa.Table) -> bytes:
    """Return CSV text, cells quoted only where they must be."""
    header = io.StringIO()
    csv.writer(header, lineterminator="\n").writerow(table.column_names)
    body = io.BytesIO()
    body.write(header.getvalue().encode())
    start = body.tell()
    try:
        # values that need no quotes are the usual case, and the fast one
        pacsv.write_csv(table, body, pacsv.WriteOptions(include_header=False, quoting_style="none"))
    except pa.ArrowInvalid:
        body.seek(start)
        body.truncate()
        try:
            pacsv.write_csv(table, body, pacsv.WriteOptions(include_header=False, quoting_style="needed"))
        except pa.ArrowException as error:
            raise ValueError(f"the table cannot be written as CSV: {_short(error)}; write .parquet instead") from None
    return body.getvalue()


def _parquet_bytes(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


def _npz_bytes(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return an NPZ archive; the same arrays give the same bytes (numpy.savez stamps the time of day)."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            member = zipfile.ZipInfo(f"{name}.npy")
            member.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(member, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)
    return buffer.getvalue()


def _as_table(frame: Frame, n: int, named: Mapping[str, Sequence[str]]) -> tuple[pa.Table, list[str]]:
    """Return the arrays of n rows as a table, and the names of the others."""
    columns: dict[str, Any] = {}
    left_out = []
    for name, array in frame.arrays.items():
        if name in frame.columns and len(array) == n:
            columns[name] = frame.columns[name]
        elif name in frame.blocks and len(array) == n:
            names = named.get(name) or [f"{name}_{k}" for k in range(array.shape[1])]
            columns.update(zip(names, (np.ascontiguousarray(column) for column in array.T), strict=True))
        else:
            left_out.append(name)
    return pa.table(columns), left_out


def _typed_table(table: pa.Table) -> pa.Table:
    """Return a table of text with its columns of numbers as numbers."""
    columns = zip(table.column_names, table.columns, strict=True)
    return pa.table({name: pa.array(typed_column(column)) for name, column in columns})


def _as_arrays(table: pa.Table) -> dict[str, NDArray[Any]]:
    arrays = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        array = np.asarray(column.to_numpy())
        if array.dtype == object:  # pickled objects are never written
            array = np.array(["" if value is None else str(value) for value in array])
        arrays[name] = array
    return arrays


def _short(error: BaseException) -> str:
    """Return an error's first line, without its full stop."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")[:300]
