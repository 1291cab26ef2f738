"""What the commands share on rows with several labels: which options they take, their rows, and how these are shown."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np
from click.core import ParameterSource

from confmax.cli import app
from confmax.cli.columns import FileRows, TableOptions
from confmax.cli.in_parts import is_read_in_parts, label_rows_in_parts
from confmax.cli.label_columns import read_label_rows
from confmax.cli.show import Document, number, source_document
from confmax.cli.tables import read_frame
from confmax.rule import LabelRule
from confmax.tables.partitioned.parts import RowsRead

LABEL_OPTIONS = ("label_columns", "separator", "shrinkage")


def refuse_label_options(needed: str, way_out: str = "leave it out") -> None:
    """Refuse options of several labels that were given without what they need."""
    for option in _given():
        if option.name in LABEL_OPTIONS:
            raise click.UsageError(f"{option.opts[-1]} is for {needed}; {way_out}")


def only_options(taken: tuple[str, ...], decides: str) -> None:
    """Refuse options that were given and are none of those ``taken``, where what ``decides`` has several labels."""
    for option in _given():
        if option.name not in taken:
            raise click.UsageError(
                f"{decides} several labels per row, which {option.opts[-1]} is not for; leave it out"
            )


def _given() -> list[click.Parameter]:
    context = click.get_current_context()
    return [
        option
        for option in context.command.params
        if context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
    ]


def labelled_rows(rule: LabelRule, file: Path, more: Mapping[str, Any], progress: RowsRead) -> FileRows:
    """Return the rows of a file with their labels, by the options ``more``, for a rule; the notes are printed.

    Rows that are read in parts tell ``progress`` how many of a pass are read.
    """
    if more["label"] is None and not more["label_columns"]:
        raise click.UsageError("give the true labels: --labels A,B,C, or --label COL and --separator MARK")
    names = ("label", "label_columns", "separator", "weight", "columns", "sep")
    options = TableOptions(**{name: more[name] for name in names})
    if is_read_in_parts(file, more["in_parts"]):
        rows = label_rows_in_parts(file, options, rule.class_names, progress)
    else:
        rows = read_label_rows(read_frame(file, options.sep), options, rule.class_names)
    app.warn(*rows.notes)
    return rows


def label_source(rows: FileRows) -> Document:
    """Return which rows and columns were used, with the columns of labels."""
    return {**source_document(rows), "label_columns": list(rows.options.label_columns)}


def labels_per_row(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the item that says how many labels rows get and, where this is known, have; on average."""
    true = document["true_labels_per_row"]
    known = "" if true is None else f", {number(true)} true"
    return {"labels per row": f"{number(document['labels_per_row'])} decided{known}"}


def threshold(value: float | None) -> float | str | None:
    """Return a threshold as JSON can hold it: a number, or "never" or "always"; None for rules without thresholds."""
    if value is None or np.isfinite(value):
        return value
    return "never" if value > 0 else "always"
