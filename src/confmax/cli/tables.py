"""Tables in files: CSV, Parquet and NPZ are read into named columns, and written whole or not at all.

What a file is named, what its first bytes say and what is in it must agree; a damaged file is refused with a reason.
"""

from __future__ import annotations

import difflib
import glob
import io
import sys
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from confmax.cli import csvs
from confmax.cli.cells import Source, is_number, read_cells_of
from confmax.cli.csvs import arrow_file, as_names, refuse_repeated
from confmax.cli.texts import EXTENSIONS, STANDARD, TEXT, format_of, piped
from confmax.places import Address, is_stream, write_whole
from confmax.tables.frames import PROBABILITY
from confmax.tables.partitioned.arrow import array_of_lists, is_list, is_text, short
from confmax.tables.partitioned.parts import naming

DECISION = "decision"

# first bytes of files that are often misnamed, with what they are
_MAGIC = {
    b"PAR1": (".parquet", "a Parquet file"),
    b"PK\x03\x04": (".npz", "a zip archive such as NPZ"),
    b"PK\x05\x06": (".npz", "an empty zip archive"),
    b"\x93NUMPY": (".npy", "one NumPy array (.npy)"),
    b"\x1f\x8b": (".gz", "a gzip archive"),
}
# what zipfile, zlib and NumPy raise on a damaged archive
_DAMAGE = (ValueError, OSError, EOFError, KeyError, RuntimeError, MemoryError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True, eq=False)
class Frame:
    """The columns of one file, for which a pyarrow table does not suffice.

    A table holds columns of one length and one dimension. NPZ files also hold two-dimensional ``arrays``, and arrays of
    other lengths such as those of a second sample; the one-dimensional ones are in ``columns`` too, in file order.
    ``table`` is the table as it was read, None for NPZ. Of CSV, whose cells are text that has no type yet,
    ``separator`` is the mark between cells; None for other formats. Decimals of CSV have points.
    """

    path: Path
    columns: Mapping[str, pa.ChunkedArray]
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    table: pa.Table | None = None
    separator: str | None = None

    @property
    def is_text(self) -> bool:
        """Whether cells are text whose type is not known: CSV."""
        return self.separator is not None

    @cached_property
    def blocks(self) -> dict[str, NDArray[Any]]:
        """The tables of numbers with at least two columns: arrays of NPZ, and the column `probability` of lists."""
        # only this column of lists: others may be embeddings
        names = [*self.arrays, *([] if PROBABILITY in self.arrays else [PROBABILITY])]
        found = {name: self.block(name) for name in names}
        return {name: block for name, block in found.items() if block is not None}

    def block(self, name: str) -> NDArray[Any] | None:
        """Return a two-dimensional array, or a column of lists of K numbers, as (n, K) with K >= 2, else None."""
        if name in self.arrays:
            array = self.arrays[name]
            return array if array.ndim == 2 and array.shape[1] >= 2 and array.dtype.kind in "fiu" else None
        column = self.columns.get(name)
        if column is None or not is_list(column.type):
            return None
        with naming(f"column {name!r} of {self.path}"):
            lists = array_of_lists(column)
        return lists if lists.shape[1] >= 2 else None

    def is_numeric(self, name: str) -> bool:
        """Return whether a column holds numbers; for text its first cell that is not empty decides."""
        column = self.columns[name]
        if self.is_text:
            # one cell decides: a later one that is no number is an error of the file, which `numbers` names
            cell = next((text for text in column.slice(0, 1000).to_pylist() if text.strip()), "")
            return is_number(cell)
        return _is_number_type(column.type)

    def is_whole(self, name: str) -> bool:
        """Return whether a numeric column holds whole numbers only: a label, a key or a count, not a probability."""
        numbers = self.numbers(name)
        return bool((np.isnan(numbers) | (numbers == np.floor(numbers))).all())

    def numbers(self, name: str) -> NDArray[Any]:
        """Return a column (n,) as float32 or float64, empty cells of typed files as NaN."""
        column = self.columns[name]
        if self.is_text:
            return csvs.numbers_of(column, name, self.path)
        if not self.is_numeric(name):
            raise ValueError(
                f"column {name!r} of {self.path} holds {column.type}, not numbers; choose the columns of probabilities "
                f"with --columns"
            )
        # float32 stays, because rules decide in the table's own type
        kept = column.type in (pa.float32(), pa.float16())
        values = column if kept else pc.cast(column, pa.float64(), safe=False)
        return csvs.as_array(values)

    def names_in(self, name: str, role: str) -> NDArray[Any]:
        """Return a column (n,) of labels or keys: strings, integers or (not whole) floats."""
        column = self.columns[name]
        if not len(column):
            raise ValueError(f"{role} {name!r} of {self.path} has no rows; give at least one, with its probabilities")
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if not (is_text(kind) or _is_number_type(kind) or pa.types.is_boolean(kind)):
            raise ValueError(f"{role} {name!r} of {self.path} holds {column.type}; it must hold strings or numbers")
        if kind != column.type or str(kind) == "string_view":
            column = pc.cast(column, pa.string() if is_text(kind) else kind)
        # labels 1, 1.0 and decimal 1 are the same class, and pyarrow codes no half floats
        if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            column = pc.cast(column, pa.float64(), safe=False)
        # names repeat: what they say is found once for each
        coded = pa.chunked_array([column.combine_chunks()]).dictionary_encode().chunk(0)
        seen = coded.dictionary.to_pylist()
        if coded.null_count or any(map(_is_empty, seen)):
            row = next(k for k, cell in enumerate(column.to_pylist()) if _is_empty(cell))
            raise ValueError(
                f"row {row} of {role} {name!r} of {self.path} is empty; drop such rows, or leave the option out"
            )
        names = as_names([cell.strip() for cell in seen]) if self.is_text else _whole(np.array(seen))
        return names[csvs.as_array(coded.indices)]

    def names_where_given(self, name: str, role: str) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """Return the names (m,) in a column as `names_in` does, without its empty cells, and the rows (m,) of them."""
        column = self.columns[name]
        rows = np.flatnonzero([not _is_empty(cell) for cell in column.to_pylist()])
        if not len(rows):
            return np.empty(0, dtype=str), rows
        return replace(self, columns={name: column.take(rows)}).names_in(name, role), rows


def no_column(name: str, frame: Frame, option: str) -> ValueError:
    """Return the error of a column that is not there, with the nearest names that are."""
    known = [*frame.columns, *(frame.blocks if frame.arrays else ())]
    near = difflib.get_close_matches(name, known, 3, 0.5)
    near += [other for other in known if other.lower() == name.lower() and other not in near]
    more = ", ..." if len(known) > 12 else ""
    shown = [each or "(without a name)" for each in known[:12]]
    hint = f"nearest: {', '.join(near)}" if near else f"it has {', '.join(shown)}{more}"
    return ValueError(f"{frame.path} has no column {name!r} ({hint}); correct {option}")


def _is_empty(cell: Any) -> bool:
    return cell is None or cell != cell or not str(cell).strip()


def _is_number_type(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def _whole(values: NDArray[Any]) -> NDArray[Any]:
    """Return whole floats as integers."""
    # beyond 2^53 two whole numbers may be one float
    if values.dtype.kind == "f" and (np.abs(values) < 2**53).all() and (values == np.floor(values)).all():
        return values.astype(np.int64)
    return values


# --- reading ---------------------------------------------------------------------------------------------------------


def read_frame(path: Path, separator: str | None = None) -> Frame:
    """Return the columns of a CSV, Parquet or NPZ file, or of CSV text from a stream: ``-`` is standard input.

    Devices and pipes hold CSV unless their names say otherwise. ``separator`` is the mark between its cells; None: what
    the first rows show. A ValueError if the file is not there, is not what its name says, or is damaged.
    """
    _check_readable(path)
    extension = format_of(path)
    if separator is not None and extension != ".csv":
        raise ValueError(f"--sep is for CSV files and {path} is none; leave --sep out")
    source = _opened(path, extension)
    if extension == ".csv":
        table, mark = csvs.read_csv(source, separator)
        names = [name.strip() for name in table.column_names]
        frame = Frame(
            source.path, dict(zip(names, csvs.with_points(table, mark), strict=True)), table=table, separator=mark
        )
    else:
        frame = _read_parquet(source) if extension == ".parquet" else _read_npz(source)
    if extension != ".npz" and not any(len(column) for column in frame.columns.values()):
        raise ValueError(f"{source.path} has column names but no rows; give at least one row of probabilities")
    return frame


def read_cells(path: Path) -> list[list[str]]:
    """Return the cells of a small CSV file, such as a table of costs; errors as for `read_frame`."""
    _check_readable(path)
    if format_of(path) != ".csv":
        raise ValueError(f"{path} does not end in {', '.join(TEXT)}; save the table as CSV")
    return read_cells_of(_opened(path, ".csv"))


def _check_readable(path: Path) -> None:
    """Refuse what is not there, and what is no single file."""
    if path == STANDARD:
        return
    if isinstance(path, Address):
        raise ValueError(f"{path} is not on this machine, and this table is read whole, from a file here; copy it here")
    if path.is_dir():
        raise ValueError(f"{path} is a directory, and this table is read whole, from one file; name one file")
    if path.exists() or path.is_symlink():
        return
    # after the file itself, whose name may hold brackets
    if glob.has_magic(str(path)):
        raise ValueError(f"{path} is a pattern, and this table is read whole, from one file; name one file")
    raise ValueError(f"there is no file {path}; check the name and the folder")


def _opened(path: Path, extension: str) -> Source:
    """Return a file as it is, or a stream after reading it to its end; refuse what is empty, or not what its name says.

    A misnamed file is refused here, before a reader of the wrong format fails on it.
    """
    source = Source(path)
    if path == STANDARD:
        if sys.stdin is None:
            raise ValueError("standard input is closed; name a file instead of -")
        # read whole, because the separator and the quotes are looked at before the rows
        source = Source(Path("standard input"), sys.stdin.buffer.read())
    elif is_stream(path):
        source = Source(path, path.read_bytes())
    path = source.path
    with source.open() as file:
        head = file.read(4096)
    if not head.strip():
        raise ValueError(f"{path} is empty; give a table with column names and rows")
    found, what = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), (".csv", "text"))
    if found == ".csv" and b"\0" in head:
        found = ""
        what = "unknown binary data, or text that is not UTF-8"
    if found == extension:
        return source
    if source.data is not None:
        raise ValueError(f"{path} holds {what}; only CSV is read from a stream: name the file")
    way_out = f"rename it to end in {found}" if found in EXTENSIONS else f"save the table as {extension} again"
    way_out = piped(path) if found == ".gz" and extension == ".csv" else way_out
    raise ValueError(f"{path} is named {path.suffix.lower() or extension} but holds {what}; {way_out}")


def _read_parquet(source: Source) -> Frame:
    import pyarrow.parquet as pq  # who has CSV does not wait for it

    path = source.path
    try:
        with arrow_file(source) as file:
            table = pq.ParquetFile(file).read()
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} is a damaged Parquet file: {short(error)}; write it again") from None
    refuse_repeated(table.column_names, path)
    return Frame(path, dict(zip(table.column_names, table.columns, strict=True)), table=table)


def _read_npz(source: Source) -> Frame:
    path = source.path
    try:
        # opened here, because np.load leaves a damaged file open
        with source.open() as file, np.load(file, allow_pickle=False) as archive:
            refuse_repeated(archive.files, path)
            arrays = {name: archive[name] for name in archive.files}
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
    return pa.chunked_array([csvs.as_column(native)])


# --- writing ---------------------------------------------------------------------------------------------------------


def write_decisions(
    path: Path,
    frame: Frame,
    decisions: NDArray[Any],
    *,
    block: str | None = None,
    block_names: Sequence[Any] = (),
    labels: Sequence[Any] = (),
) -> list[str]:
    """Write the columns of ``frame`` and the column `DECISION`, in the format that the name of ``path`` says.

    The file appears whole or not at all. ``decisions`` (n,) are names, or with ``labels`` 0 and 1 (n, L), which are a
    column for each label (``decision_a``), and one array in NPZ. ``block`` is the two-dimensional array that was
    decided on, whose columns are called ``block_names`` in a table. Return the arrays of an NPZ file that have no place
    in a table of n rows and were left out.
    """
    extension = format_of(path)
    columns = {DECISION: decisions}
    if labels and extension != ".npz":
        columns = {f"{DECISION}_{name}": decisions[:, k] for k, name in enumerate(labels)}
    taken = next((name for name in columns if name in frame.columns or name in frame.arrays), None)
    if taken is not None:
        raise ValueError(f"{frame.path} already has a column {taken!r}; rename or remove it")
    left_out: list[str] = []
    table = frame.table
    if table is None and extension != ".npz":
        table, left_out = _as_table(frame, len(decisions), {block: list(map(str, block_names))})
        taken = next((name for name in columns if name in table.column_names), None)
        if taken is not None:
            raise ValueError(f"a class is named {taken!r}, like the column of decisions; write .npz instead")
    if table is None:
        write_whole(path, _npz_bytes({**frame.arrays, **columns}))
        return left_out
    # CSV takes the cells as they were read, not numbers written anew; names stay as the file has them, spaces and all
    if frame.is_text and extension != ".csv":
        typed = map(csvs.typed_column, frame.columns.values())
        table = pa.table(dict(zip(table.column_names, typed, strict=True))).combine_chunks()
    if extension != ".npz":
        for name, values in columns.items():
            table = table.append_column(name, csvs.as_column(np.ascontiguousarray(values)))
    if extension == ".csv":
        data = csvs.csv_bytes(table, "\t" if path.suffix.lower() == ".tsv" else frame.separator or ",")
    elif extension == ".parquet":
        import pyarrow.parquet as pq

        buffer = io.BytesIO()
        pq.write_table(table, buffer)
        data = buffer.getvalue()
    else:
        data = _npz_bytes({**_as_arrays(table), **columns})
    write_whole(path, data)
    return left_out


def _npz_bytes(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return an NPZ archive; the same arrays give the same bytes."""
    # not numpy.savez, whose parameters take some names from the arrays, such as "file"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)
    return buffer.getvalue()


def _as_table(frame: Frame, n: int, named: Mapping[str | None, Sequence[str]]) -> tuple[pa.Table, list[str]]:
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


def _as_arrays(table: pa.Table) -> dict[str, NDArray[Any]]:
    arrays = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        array = np.asarray(column.to_numpy())
        if array.dtype == object:  # pickled objects are never written
            array = np.array(["" if value is None else str(value) for value in array])
        arrays[name] = array
    return arrays
