"""Tables that are written part by part: one Parquet file, or a folder of them, whole or not at all.

One thread writes while the caller makes the next part, so that two parts are in memory here. Files are opened by the
caller's thread, which a signal interrupts: nothing is opened after what was begun has been removed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from itertools import groupby, repeat
from operator import itemgetter
from pathlib import Path
from typing import Any

from confmax.places import PART, check_folder, check_place, same_place, whole_file, whole_folder
from confmax.tables.partitioned.arrow import short
from confmax.tables.partitioned.files import parquet_file

# A dictionary of numbers is left out where it made them no smaller than this share of what they take plain: that a
# writer tries one costs more time than all else that it does with a column of probabilities.
DICTIONARY_PAYS = 0.95
_WIDTHS = {"INT32": 4, "INT64": 8, "FLOAT": 4, "DOUBLE": 8}  # bytes of a plain number


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Return whether a path names a folder: it is one, or ends as one."""
    return os.path.isdir(path) or os.fspath(path).endswith(tuple(filter(None, (os.sep, os.altsep))))


def check_destination(source: Any, path: Path, *, folder: bool) -> None:
    """Refuse, by a ValueError, a place that cannot be written to, or where files of a ``source`` are."""
    (check_folder if folder else check_place)(path)
    files = [file.path for file, _ in getattr(source, "files", ()) if file.filesystem is None]
    for file in (*files, *getattr(getattr(source, "stream", None), "paths", ())):
        here = Path(file)
        if same_place(path, here.parent if folder else here):
            raise ValueError(f"{path} holds the table that is read ({file}); choose another name for the output")


def write_tables(
    tables: Iterable[Any],
    path: Path,
    source: Any,
    *,
    folder: bool,
    rows_per_file: int | None = None,
    added: Sequence[str] = (),
) -> None:
    """Write Arrow ``tables``, made of the parts of a ``source``, to a Parquet file or to a ``folder`` of such.

    A folder gets one file for each file of the source, or for each ``rows_per_file`` rows. Columns are compressed as in
    the source; those that are ``added`` as the first of them.
    """
    files = getattr(source, "files", [])
    # of a source without files, all rows go to one
    sizes = [rows for _, rows in files] if rows_per_file is None else repeat(rows_per_file)
    # the thread ends before what it writes is put in its place, or removed
    with (
        _reading_apart() as read,
        (whole_folder if folder else whole_file)(path) as place,
        ThreadPoolExecutor(1, thread_name_prefix="confmax-write") as thread,
    ):
        number = -1
        for number, several in groupby(_cut(read(tables), sizes if folder else ()), itemgetter(0)):
            like = _settings(files[min(number, len(files) - 1)][0], added) if files and source.columns else {}
            with (
                open(place / PART.format(number), "xb") if isinstance(place, Path) else nullcontext(place) as file,
                _writing(thread, file, like) as write,
            ):
                for _, table in several:
                    write(table)
        if number < 0:
            raise ValueError("the table has no rows; give at least one row of probabilities")


@contextmanager
def _reading_apart() -> Iterator[Callable[[Iterable[Any]], Iterator[Any]]]:
    """Return what reads tables; its errors leave this context as they are, while those of writing name a file."""
    failed: list[OSError] = []

    def read(tables: Iterable[Any]) -> Iterator[Any]:
        try:
            yield from tables
        except OSError as error:
            failed.append(error)
            raise

    try:
        yield read
    except OSError:
        if failed:
            raise failed[0] from None
        raise


@contextmanager
def _writing(thread: ThreadPoolExecutor, file: Any, settings: dict[str, Any]) -> Iterator[Callable[[Any], None]]:
    """Return what has a ``thread`` write a table to a Parquet file, after it has written the one before."""
    import pyarrow.parquet as pq

    writer: Any = None
    begun: list[Future[Any]] = []

    def write(table: Any) -> None:
        nonlocal writer
        if writer is None:
            try:
                writer = pq.ParquetWriter(file, table.schema, **settings)
            except NotImplementedError as error:
                raise ValueError(f"a column cannot be written to Parquet: {short(error)}; leave it out") from None
        table = _as(writer.schema, table)
        while begun:
            begun.pop().result()
        begun.append(thread.submit(writer.write_table, table, row_group_size=table.num_rows))

    try:
        yield write
        while begun:
            begun.pop().result()
        thread.submit(writer.close).result()
    except BaseException:
        with suppress(Exception):
            while begun:
                begun.pop().result()
        if writer is not None:
            with suppress(Exception):
                writer.close()
            # else it would write to a file that is closed when it is collected
            writer.is_open = False
        raise


def _cut(tables: Iterable[Any], sizes: Iterable[int]) -> Iterator[tuple[int, Any]]:
    """Yield the number of its file and a table, for all rows; a table ends where a file of ``sizes`` rows ends."""
    edges = iter(sizes)
    number = -1
    room: float = 0
    for table in tables:
        while table.num_rows:
            if room == 0:
                number += 1
                room = next(edges, float("inf"))
            rows = int(min(room, table.num_rows))
            yield number, table.slice(0, rows)
            table = table.slice(rows)
            room -= rows


def _as(schema: Any, table: Any) -> Any:
    """Return a table with the types of the first one of its file; a ValueError if a column does not fit."""
    import pyarrow as pa

    if table.schema.equals(schema):
        return table
    columns = []
    for field in schema:
        column = table.column(field.name)
        try:
            columns.append(column.cast(field.type))
        except pa.ArrowException:
            raise ValueError(
                f"column {field.name!r} holds {column.type} in some files and {field.type} in the first; write to a "
                f"folder, which gets a file for each, or leave the column out"
            ) from None
    return pa.Table.from_arrays(columns, schema=schema)


def _settings(path: Any, added: Sequence[str]) -> dict[str, Any]:
    """Return how the columns of a Parquet file are compressed, as a writer takes it."""
    with parquet_file(path) as file:
        group = file.metadata.row_group(0)
        columns = [group.column(k) for k in range(group.num_columns)]
    codecs = {one.path_in_schema: _codec(one.compression) for one in columns}
    codecs |= dict.fromkeys(added, next(iter(codecs.values()), "SNAPPY"))
    different = set(codecs.values())
    return {
        "compression": codecs if len(different) > 1 else different.pop(),
        "use_dictionary": [*added, *(one.path_in_schema for one in columns if _dictionary_pays(one))],
    }


def _codec(name: str) -> str:
    """Return what a writer calls the codec that a footer names."""
    import pyarrow as pa

    known = {"UNCOMPRESSED": "NONE", "LZ4_RAW": "LZ4"}.get(name, name)
    return known if known == "NONE" or pa.Codec.is_available(known.lower()) else "SNAPPY"


def _dictionary_pays(column: Any) -> bool:
    """Return whether a dictionary makes a column of the source smaller."""
    if not any("DICTIONARY" in one for one in column.encodings):
        return False
    width = _WIDTHS.get(column.physical_type)
    return width is None or column.total_uncompressed_size < DICTIONARY_PAYS * width * column.num_values
