"""The first cells of CSV text, and which mark separates them: comma, semicolon or tab, as the first rows show.

Decimal commas, as spreadsheets write them in much of Europe beside semicolons or tabs, are read where no number of the
file has a decimal point.
"""

from __future__ import annotations

import csv
import io
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
SEEN = 20  # rows below the names that must have as many cells
COMMA, POINT = (rf"^\s*[+-]?[0-9]*{mark}[0-9]+([eE][+-]?[0-9]+)?\s*$" for mark in (",", r"\."))


@dataclass(frozen=True, eq=False)
class Source:
    """A file at ``path``, or the ``data`` of a stream that messages call so."""

    path: Path
    data: bytes | None = None

    def open(self) -> BinaryIO:
        """Return it as an open binary file, at its beginning."""
        return self.path.open("rb") if self.data is None else io.BytesIO(self.data)


def read_cells_of(source: Source) -> list[list[str]]:
    """Return the cells of a small table, such as one of costs, decimals with a point; errors as for `read_csv`."""
    check_quotes(source)
    mark = sniffed(source)
    rows = [[cell.strip() for cell in row] for row in first_cells(source, 100_000, mark)]
    has_point = any(re.match(POINT, cell) for row in rows for cell in row)
    if mark == "," or has_point:
        return rows
    return [[cell.replace(",", ".") if re.match(COMMA, cell) else cell for cell in row] for row in rows]


def sniffed(source: Source) -> str:
    """Return the mark that separates the cells of the first rows; a comma where there is one column only."""
    found: dict[str, list[list[str]]] = {}
    for mark in SEPARATORS:
        # a mark that the names do not hold makes one cell of them, which may be longer than the reader takes
        with suppress(csv.Error):
            rows = _first_rows(source, SEEN + 1, mark)
            if rows and len(rows[0]) > 1:
                found[mark] = rows
    # the right mark gives every row as many cells; a wrong one does so by chance only
    fitting = [mark for mark, rows in found.items() if len(rows) > 1 and len({len(row) for row in rows}) == 1]
    if len(fitting) > 1:
        # 0,5;0,5 are two numbers rather than 0, 5;0 and 5
        marked = {
            mark: [cell for row in found[mark][1:] for cell in row if any(other in cell for other in SEPARATORS)]
            for mark in fitting
        }
        fitting = [mark for mark in fitting if all(re.match(COMMA, cell) for cell in marked[mark])] or fitting
    if len(fitting) > 1:
        raise ValueError(
            f"the cells of {source.path} may be separated by {' or by '.join(SEPARATORS[mark] for mark in fitting)}; "
            f"say which with --sep"
        )
    return fitting[0] if fitting else max(found, key=lambda mark: len(found[mark][0]), default=",")


def first_cells(source: Source, most: int, separator: str) -> list[list[str]]:
    """Return the cells of the first rows, blank rows left out; a ValueError if they are not UTF-8, or not CSV."""
    try:
        return _first_rows(source, most, separator)
    except csv.Error as error:
        raise ValueError(f"{source.path} is not a well-formed CSV file: {error}; mend its names") from None


def _first_rows(source: Source, most: int, separator: str) -> list[list[str]]:
    """Return what `first_cells` does; a csv.Error if the names are not CSV."""
    rows: list[list[str]] = []
    try:
        with source.open() as file, io.TextIOWrapper(file, newline="", encoding="utf-8-sig") as text:
            for row in csv.reader(text, delimiter=separator):
                if len(rows) == most:
                    break
                if row:
                    rows.append(row)
    except csv.Error:
        # of the names nothing is forgiven; a cell further down may be longer than this reader takes
        if not rows:
            raise
    except UnicodeDecodeError:
        check_encoding(source)
        raise
    return rows


def check_encoding(source: Source) -> None:
    """Refuse text that is not UTF-8, and say where: pyarrow does not, nor does a decoder of parts of a file."""
    with source.open() as file:
        data = file.read()
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{source.path} is not UTF-8 text; save it as UTF-8 (byte 0x{data[error.start]:02x} at position "
            f"{error.start})"
        ) from None


def check_quotes(source: Source, size: int = 1 << 20) -> bool:
    """Refuse a quote that is never closed, which would swallow the rest of the file.

    Return whether every block of ``size`` bytes holds the end of a row.
    """
    # quotes stand in pairs, also doubled ones inside a cell
    inside = False
    ends = True
    with source.open() as file:
        # wherever a block begins, it holds a whole half
        while half := file.read(size // 2):
            ends &= len(half) < size // 2 or _ends_row(half, inside)
            inside ^= half.count(b'"') % 2 == 1
    if inside:
        raise ValueError(
            f'{source.path} has an odd number of quotes ("), so one is never closed; close it or double it'
        )
    return ends


def _ends_row(text: bytes, inside: bool) -> bool:
    """Return whether a row ends in ``text``, which begins ``inside`` of quotes or not."""
    before = 0
    while (place := text.find(b"\n", before)) >= 0:
        inside ^= text.count(b'"', before, place) % 2 == 1
        if not inside:
            return True
        before = place + 1
    return False


def is_number(cell: str) -> bool:
    """Return whether text is a number, as CSV readers take it."""
    try:
        float(cell)
    except ValueError:
        return False
    # Python reads 1_000 as a number, and no other reader does
    return "_" not in cell
