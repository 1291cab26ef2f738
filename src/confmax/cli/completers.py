"""What a shell offers for a value that is half typed: metrics, solvers, rule files, the columns of a file."""

from __future__ import annotations

import zipfile
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.parquet as pq
from click.shell_completion import CompletionItem

from confmax import metrics
from confmax.cli.csvs import first_cells, sniffed
from confmax.cli.files import EXTENSIONS, format_of
from confmax.cli.sources import Source
from confmax.optimize import SOLVERS

__all__ = ["column_names", "metric_names", "rule_files", "solver_names"]


def metric_names(_context: click.Context, _option: click.Parameter, typed: str) -> list[CompletionItem]:
    """Return the metrics, and the aliases, that begin so."""
    found = [CompletionItem(name, help=_described(name)) for name in metrics.names() if name.startswith(typed)]
    return found + [CompletionItem(name) for name in sorted(metrics.aliases()) if typed and name.startswith(typed)]


def solver_names(_context: click.Context, _option: click.Parameter, typed: str) -> list[CompletionItem]:
    """Return the solvers that begin so."""
    return [CompletionItem(name) for name in ("auto", *SOLVERS) if name.startswith(typed)]


def rule_files(_context: click.Context, _option: click.Parameter, typed: str) -> list[CompletionItem]:
    """Return the JSON files and the folders that begin so; where there are none, whatever the shell finds."""
    folder, _, start = typed.rpartition("/")
    place = Path(f"{folder}/") if folder or typed.startswith("/") else Path()
    try:
        entries = sorted(place.iterdir())
    except OSError:
        return []
    prefix = typed[: len(typed) - len(start)]
    fitting = [each for each in entries if each.name.startswith(start) and not (each.name[0] == "." and not start)]
    files = [CompletionItem(prefix + each.name) for each in fitting if each.suffix == ".json" and each.is_file()]
    folders = [CompletionItem(f"{prefix}{each.name}/") for each in fitting if each.is_dir()]
    return files + folders if files else [CompletionItem(typed, type="file")]


def column_names(context: click.Context, _option: click.Parameter, typed: str) -> list[CompletionItem]:
    """Return the columns of the command's FILE that begin so; none where it cannot be read."""
    # click keeps the arguments apart while the option before the cursor has no value yet
    given = [context.params.get("file"), *reversed(context.args)]
    path = next((Path(each) for each in given if each and Path(each).suffix.lower() in EXTENSIONS), None)
    try:
        names = [] if path is None else _columns(path)
    except (OSError, ValueError, IndexError, zipfile.BadZipFile, pa.ArrowException):
        return []
    return [CompletionItem(name) for name in names if name.startswith(typed)]


def _described(name: str) -> str | None:
    # colons separate names from descriptions in what shells read
    return None if name == "linear" else metrics.get(name).description.replace(":", ",")


def _columns(path: Path) -> list[str]:
    """Return the names of a file's columns, of which only the beginning is read."""
    kind = format_of(path)
    if kind == ".parquet":
        return list(pq.read_schema(path).names)
    if kind == ".npz":
        with zipfile.ZipFile(path) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist()]
    source = Source(path)
    return [name.strip() for name in first_cells(source, 1, sniffed(source))[0]]
