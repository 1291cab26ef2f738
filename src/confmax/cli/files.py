"""Tables in files: CSV, Parquet and NPZ are read into named columns, and written whole or not at all.

What a file is named, what its first bytes say and what is in it must agree; a damaged file is refused with a reason.
"""

from __future__ import annotations

import glob
import io
import shlex
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from confmax.cli.csvs import csv_bytes, read_cells_of, read_csv
from confmax.cli.frame import Frame, typed_column
from confmax.cli.sources import STANDARD, Source, opened, refuse_repeated, short
from confmax.places import check_place, is_stream, same_place, write_whole

__all__ = [
    "DECISION", "EXTENSIONS", "check_output", "read_cells", "read_frame", "refuse_same", "write_decisions",
    "write_file", "writing",
]  # fmt: skip

DECISION = "decision"
EXTENSIONS = (".csv", ".tsv", ".txt", ".parquet", ".npz")
_TEXT = (".csv", ".tsv", ".txt")  # all read and written as CSV

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


def read_frame(path: Path, separator: str | None = None) -> Frame:
    """Return the columns of a CSV, Parquet or NPZ file, or of CSV text from a stream.

    Parameters
    ----------
    path : Path
        The file; ``-`` for standard input. Devices and pipes hold CSV unless their names say otherwise.
    separator : str or None
        The mark between the cells of CSV; None: what its first rows show.

    Raises
    ------
    ValueError
        If the file is not there, is not what its name says, or is damaged; the sentence says which.
    OSError
        If it cannot be read.
    """
    _check_readable(path)
    extension = ".csv" if path == STANDARD else format_of(path)
    if separator is not None and extension != ".csv":
        raise ValueError(f"--sep is for CSV files and {path} is none; leave --sep out")
    source = opened(path)
    _check_bytes(source, extension)
    if extension == ".csv":
        frame = read_csv(source, separator)
    else:
        frame = _read_parquet(source) if extension == ".parquet" else _read_npz(source)
    if extension != ".npz" and not any(len(column) for column in frame.columns.values()):
        raise ValueError(f"{source.path} has column names but no rows; give at least one row of probabilities")
    return frame


def read_cells(path: Path) -> list[list[str]]:
    """Return the cells of a small CSV file, such as a table of costs; errors as for `read_frame`."""
    _check_readable(path)
    if path != STANDARD and format_of(path) != ".csv":
        raise ValueError(f"{path} does not end in {', '.join(_TEXT)}; save the table as CSV")
    source = opened(path)
    _check_bytes(source, ".csv")
    return read_cells_of(source)


def _check_readable(path: Path) -> None:
    """Refuse what is not there, and what is no single file."""
    if path == STANDARD:
        return
    if path.is_dir():
        raise ValueError(
            f"{path} is a directory, and only 'confmax tune' reads the Parquet files of one; name one file"
        )
    if path.exists() or path.is_symlink():
        return
    if glob.has_magic(str(path)):
        raise ValueError(f"{path} is a pattern, and only 'confmax tune' reads several files; name one file")
    raise ValueError(f"there is no file {path}; check the name and the folder")


def format_of(path: Path) -> str:
    """Return the format that a name says, as an extension; streams whose names say none hold CSV."""
    extension = path.suffix.lower()
    if extension in EXTENSIONS:
        return ".csv" if extension in _TEXT else extension
    if is_stream(path):
        return ".csv"
    if extension == ".gz":
        raise ValueError(f"{path} is named like a gzip archive, which confmax neither reads nor writes; {_piped(path)}")
    shown = f"the extension {path.suffix!r}" if path.suffix else "no extension"
    raise ValueError(f"{path} has {shown}; tables are read and written as {', '.join(EXTENSIONS)}")


def _piped(path: Path) -> str:
    """Return how a compressed file can be used."""
    if not path.exists():
        return "write to standard output and compress that: confmax ... -o - | gzip > FILE"
    return f"unpack it, or pipe it: zcat {shlex.quote(str(path))} | confmax ... -"


def _check_bytes(source: Source, extension: str) -> None:
    """Refuse a file that is empty, or not what its name says."""
    path = source.path
    with source.open() as file:
        head = file.read(4096)
    if not head.strip():
        raise ValueError(f"{path} is empty; give a table with column names and rows")
    found, what = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), (".csv", "text"))
    if found == ".csv" and b"\0" in head:
        found, what = "", "unknown binary data, or text that is not UTF-8"
    if found == extension:
        return
    if source.data is not None:
        raise ValueError(f"{path} holds {what}; only CSV is read from a stream: name the file")
    way_out = f"rename it to end in {found}" if found in EXTENSIONS else f"save the table as {extension} again"
    way_out = _piped(path) if found == ".gz" and extension == ".csv" else way_out
    raise ValueError(f"{path} is named {path.suffix.lower() or extension} but holds {what}; {way_out}")


def _read_parquet(source: Source) -> Frame:
    path = source.path
    try:
        with source.open() as file:
            table = pq.ParquetFile(file).read()
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} is a damaged Parquet file: {short(error)}; write it again") from None
    refuse_repeated(table.column_names, path)
    return Frame(path, dict(zip(table.column_names, table.columns, strict=True)), table=table)


def _read_npz(source: Source) -> Frame:
    path = source.path
    arrays: dict[str, NDArray[Any]] = {}
    try:
        # opened here, because np.load leaves a damaged file open
        with source.open() as file, np.load(file, allow_pickle=False) as archive:
            refuse_repeated(archive.files, path)
            for name in archive.files:
                arrays[name] = archive[name]
    except _DAMAGE as error:
        why = "it holds pickled objects, which are never loaded" if "pickle" in str(error) else short(error)
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


# --- writing ---------------------------------------------------------------------------------------------------------


def check_output(path: Path, extensions: Sequence[str] = ()) -> None:
    """Refuse a place that nothing can be written to, before any work is done.

    Raises
    ------
    ValueError
        If the folder does not exist or is not writable, the path is a directory, or the extension is unknown.
    """
    if extensions:
        format_of(path)
    check_place(path)


def refuse_same(path: Path, given: Path, option: str = "-o") -> None:
    """Refuse to write to the file that is read, under whatever name; ``option`` is what names the output."""
    if path.exists() and given.exists() and same_place(path, given):
        raise ValueError(f"{option} {path} is the input file; choose another name for the output")


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
    extension = format_of(path)
    if DECISION in frame.columns or DECISION in frame.arrays:
        raise ValueError(f"{frame.path} already has a column {DECISION!r}; rename or remove it")
    left_out: list[str] = []
    table = frame.table
    if table is None and extension != ".npz":
        named = {} if block is None else {block: list(block_names)}
        table, left_out = _as_table(frame, len(decisions), named)
        if DECISION in table.column_names:
            raise ValueError(f"a class is named {DECISION!r}, like the column of decisions; write .npz instead")
    if table is None:
        data = _npz_bytes({**frame.arrays, DECISION: decisions})
    elif extension == ".csv":
        separator = "\t" if path.suffix.lower() == ".tsv" else frame.separator or ","
        data = csv_bytes(table.append_column(DECISION, pa.array(decisions)), separator)
    else:
        typed = _typed_table(frame) if frame.is_text else table
        typed = typed.append_column(DECISION, pa.array(decisions))
        data = _parquet_bytes(typed) if extension == ".parquet" else _npz_bytes(_as_arrays(typed))
    write_whole(path, data)
    return left_out


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


def _typed_table(frame: Frame) -> pa.Table:
    """Return a table of text with its columns of numbers as numbers."""
    assert frame.table is not None
    names = frame.table.column_names  # as the file has them, also with spaces around
    typed = (typed_column(frame.with_point(column)) for column in frame.table.columns)
    return pa.table({name: pa.array(column) for name, column in zip(names, typed, strict=True)})


def _as_arrays(table: pa.Table) -> dict[str, NDArray[Any]]:
    arrays = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        array = np.asarray(column.to_numpy())
        if array.dtype == object:  # pickled objects are never written
            array = np.array(["" if value is None else str(value) for value in array])
        arrays[name] = array
    return arrays
