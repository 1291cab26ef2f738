"""`confmax apply`: the decision of a rule for every row of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from confmax.cli import app
from confmax.cli.columns import FileRows, TableOptions, existing, joined
from confmax.cli.metrics import rows_for
from confmax.cli.show import Document, Page, print_document, show_source, source_document
from confmax.cli.tables import EXTENSIONS, format_of, write_decisions, writing
from confmax.rule import DecisionRule


@app.confmax.command()
@click.argument("rule", type=app.PATH, shell_complete=app.rule_files)
@click.argument("file", type=app.PATH)
@click.option("-o", "--out", type=app.OUT, required=True,
              help=f"Where the decisions go: {', '.join(EXTENSIONS)}; - for standard output. Pipes and devices take "
                   "CSV.")  # fmt: skip
@app.COLUMNS
@app.SCORE
@click.option("--positive", metavar="NAME", help="The class whose probability --score holds.")
@app.SEP
@click.option("--key", metavar="COL", shell_complete=app.column_names,
              help="Column of identifiers. A rule that decides at random draws by them, so that a row keeps its "
                   "decision.")  # fmt: skip
@app.AS_JSON
def apply(rule: Path, file: Path, out: Path, as_json: bool, **more: Any) -> None:
    """Decide every row of FILE by RULE.

    Writes the columns of FILE and a column 'decision', in the format that the name of the output says; CSV keeps the
    separator of FILE, and .tsv has tabs. Columns are matched to the rule's classes by name. FILE may be '-' for CSV on
    standard input.

    \b
    Example:
      confmax apply rule.json new.csv -o decided.parquet
      confmax apply rule.json new.csv -o decided.csv --score p --positive yes
      confmax apply rule.json - -o -
    """
    format_of(out)
    app.check_output(out, as_json, file, rule)
    loaded = app.load_rule(rule)
    rows = rows_for(loaded, file, TableOptions(**more))
    print_document(decide_rows(rows, loaded, out), as_json, _show, out)


def decide_rows(rows: FileRows, rule: DecisionRule, out: Path) -> Document:
    """Decide every row of a file and write its columns with the decisions."""
    # --positive says here whose probability a score is; the rule keeps its order, and with it its ties
    rows = rows.in_order(rule.class_names[: rule.n_classes])
    frame, key = rows.frame, rows.options.key
    assert frame is not None
    keys = None if key is None else frame.names_in(existing(key, frame, "--key"), "key column")
    names = rule.classes if rule.classes.dtype != object else rule.classes.astype(str)
    decisions = rule.predict_index(rows.proba, keys=keys)
    with writing(out):
        left_out = write_decisions(out, frame, names[decisions], block=rows.block, block_names=rows.classes)
    if left_out:
        app.warn(
            f"{joined(left_out)} of {frame.path} cannot be columns of {rows.n_rows} rows and were left out of {out}"
        )
    shares = np.bincount(decisions, minlength=len(names)) / rows.n_rows
    return {
        **source_document(rows),
        "out": str(out),
        "decided": {str(name): float(share) for name, share in zip(names.tolist(), shares, strict=True)},
    }


def _show(page: Page, document: Document) -> None:
    """Print where the decisions went, and how often each was taken."""
    show_source(page, document)
    taken = [f"{name} {share:.1%}" for name, share in document["decided"].items()]
    page.items({"decided": joined(taken, 20), "written": document["out"]})
