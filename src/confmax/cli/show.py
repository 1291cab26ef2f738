"""How results are printed: documents as JSON, text and tables with rich, readable on a terminal and plain in a pipe."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from confmax.cli.texts import clean, joined
from confmax.places import is_stdout

if TYPE_CHECKING:  # a list of metrics needs neither tables nor solvers
    from confmax.cli.columns import FileRows

PIPED_WIDTH = 1_000_000  # a pipe has no width; lines are for programs and pagers, never folded or cut
COLUMN_GAP = 3  # between columns on a terminal
LEAST_PROSE = 30  # columns of text below which a table is no table
Document = dict[str, Any]


def finite(value: float | None) -> float | None:
    """Return a number as JSON can hold it."""
    return None if value is None or not math.isfinite(value) else float(value)


def print_document(
    document: Document, as_json: bool, show: Callable[[Page, Document], None], *outputs: Path | None
) -> None:
    """Print a command's document as JSON, or as text; ``outputs`` are the places where results were written."""
    # NaN is no JSON: documents hold null
    if as_json:
        print(json.dumps(document, indent=1, allow_nan=False))
    else:
        show(Page(*outputs), document)


def number(value: float | None) -> str:
    """Return a metric's value with four decimals."""
    return "-" if value is None else f"{value:.4f}"


def between(value: float | None, low: float | None, high: float | None, sign: str = "") -> str:
    """Return a value with its interval, three decimals each."""
    if value is None or low is None or high is None:
        return number(value)
    return f"{value:{sign}.4f} [{low:{sign}.3f}, {high:{sign}.3f}]"


def key_of(rule: str) -> str:
    """Return the key of a rule in documents, such as ``p_prior`` of "p/prior": programs can use it as a name."""
    return rule.removesuffix("'s rule").replace("/", "_").replace(" ", "_").lower()


class Page:
    """Where text is printed: as wide as the terminal, or with lines of unlimited length in a pipe.

    If one of the ``outputs``, where results were written, is stdout, the text goes to stderr: stdout then holds data
    only.
    """

    def __init__(self, *outputs: Path | None) -> None:
        self.file = sys.stderr if any(out is not None and is_stdout(out) for out in outputs) else sys.stdout
        self.is_terminal = self.file.isatty()
        width = None if self.is_terminal else PIPED_WIDTH
        # names of classes and columns are printed as they are: rich would read [b] as a style and :x: as a picture
        self.console = Console(file=self.file, width=width, markup=False, highlight=False, emoji=False)

    def say(self, *sentences: str, style: str = "") -> None:
        """Print prose, each text on lines of its own, folded between words on a terminal; nothing is an empty line."""
        for sentence in sentences or ("",):
            self.console.print(Text(clean(sentence), style=style), soft_wrap=not self.is_terminal)

    def items(self, texts: Mapping[str, str]) -> None:
        """Print names and what belongs to each, folded under itself on a terminal."""
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(min_width=9, no_wrap=True)
        grid.add_column(overflow="fold")
        for name, text in texts.items():
            grid.add_row(clean(name), clean(text))
        self._print(grid)

    def _print(self, grid: Table) -> None:
        """Print a grid, in a pipe without the spaces that fill its lines."""
        if self.is_terminal:
            self.console.print(grid)
            return
        with self.console.capture() as captured:
            self.console.print(grid)
        for line in captured.get().splitlines():
            print(line.rstrip(), file=self.file)

    def block(self, text: str) -> None:
        """Print lines as they are."""
        for line in text.splitlines():
            self.console.print(Text(clean(line)), soft_wrap=True)

    def table(self, names: Sequence[str], rows: Sequence[Sequence[str]], *, right: bool = True, best: int = -1) -> None:
        """Print a table: the first column left, numbers right, the column ``best`` bold.

        Where a terminal is too narrow, numbers go to several tables below each other, or one row below the other.
        """
        for columns in self._fitting(names, rows, right):
            if columns:
                self._grid(names, rows, columns, right, best)
                continue
            for row in rows:
                self.say(row[0], style="bold")
                for name, cell in zip(names[1:], row[1:], strict=True):
                    if cell:
                        line = Text(clean(f"{name}  {cell}"), no_wrap=False)
                        self.console.print(Padding(line, (0, 0, 0, 2 if right else 4)))

    def _fitting(self, names: Sequence[str], rows: Sequence[Sequence[str]], right: bool) -> list[list[int]]:
        """Return the columns of the tables that fit beside each other; an empty list stands for rows as blocks."""
        every = list(range(len(names)))
        if not self.is_terminal:
            return [every]
        widths = [max(cell_len(clean(row[k])) for row in (names, *rows)) + COLUMN_GAP for k in every]
        room = self.console.width
        if not right:  # the last column is prose, which folds
            return [every] if sum(widths[:-1]) + LEAST_PROSE <= room else [[]]
        # the names of the rows stand again before the columns of every table
        if widths[0] + max(widths[1:]) > room:
            return [[]]
        tables: list[list[int]] = [[0]]
        for k in every[1:]:
            if sum(widths[j] for j in tables[-1]) + widths[k] > room:
                tables.append([0])
            tables[-1].append(k)
        # a table per column is none
        return [[]] if len(tables) > 1 and max(map(len, tables)) < 3 else tables

    def _grid(
        self, names: Sequence[str], rows: Sequence[Sequence[str]], columns: Sequence[int], right: bool, best: int
    ) -> None:
        grid = Table(box=box.SIMPLE_HEAD if self.is_terminal else None, pad_edge=False, header_style="bold")
        for k in columns:
            is_number = right and k > 0
            style = "bold" if k == best else ""
            # a name or a number that is cut in two is read wrongly; only prose folds
            grid.add_column(
                names[k], justify="right" if is_number else "left", no_wrap=is_number or k == 0, style=style
            )
        for row in rows:
            grid.add_row(*(clean(row[k]) for k in columns))
        self._print(grid)


# --- which rows were used --------------------------------------------------------------------------------------------


def source_document(rows: FileRows) -> Document:
    """Return which rows and columns were used."""
    return {
        "file": str(rows.path),
        "rows": rows.n_rows,
        "label": rows.options.label,
        "weight": rows.options.weight,
        "classes": list(rows.classes),
        "columns": list(rows.columns),
        "table": rows.block,
    }


def show_source(page: Page, about: Document) -> None:
    """Print which rows and columns were used."""
    classes = list(map(str, about["classes"]))
    columns = about["columns"]
    items = {"file": f"{about['file']}, {about['rows']} rows", "classes": joined(classes, 20)}
    if about["table"] is not None:
        items["columns"] = f"those of {about['table']}"
    elif classes != columns:
        items["columns"] = joined(columns, 20)
    items |= {f"{key}s": about[key] for key in ("label", "weight") if about[key] is not None}
    page.items(items)
    if about.get("label_columns"):
        page.items({"labels": joined(about["label_columns"], 20)})
