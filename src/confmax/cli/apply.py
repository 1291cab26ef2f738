"""`confmax apply`: the decision of a rule for every row of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from confmax.cli import app
from confmax.cli.columns import TableOptions, joined, keys_of
from confmax.cli.metrics import rows_for
from confmax.cli.show import Document, Page, print_document, show_source, source_document
from confmax.cli.tables import EXTENSIONS, format_of, refuse_same, write_decisions, writing
from confmax.places import check_place
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
    check_place(out)
    app.one_result(as_json, out)
    refuse_same(out, file)
    refuse_same(out, rule)
    options = TableOptions(**more)
    document = decide_rows(file, options, app.load_rule(rule), out)
    print_document(document, as_json, _show, out)


def decide_rows(file: Path, options: TableOptions, rule: DecisionRule, out: Path) -> Document:
    """Decide every row of a file and write its columns with the decisions."""
    # --positive says here whose probability a score is; the rule keeps its order, and with it its ties
    rows = rows_for(rule, file, options).in_order(rule.class_names[: rule.n_classes])
    frame = rows.frame
    assert frame is not None
    names = rule.classes if rule.classes.dtype != object else rule.classes.astype(str)
    decisions = rule.predict_index(rows.proba, keys=keys_of(frame, options.key))
    with writing(out):
        left_out = write_decisions(
            out, frame, names[decisions], block=rows.block, block_names=[str(name) for name in rows.classes]
        )
    if left_out:
        app.warn(
            f"{joined(left_out)} of {frame.path} cannot be columns of {len(decisions)} rows and were left out of {out}"
        )
    shares = np.bincount(decisions, minlength=len(names)) / len(decisions)
    return {
        **source_document(rows, options),
        "out": str(out),
        "decided": {str(name): float(share) for name, share in zip(names.tolist(), shares, strict=True)},
    }


def _show(page: Page, document: Document) -> None:
    """Print where the decisions went, and how often each was taken."""
    show_source(page, document)
    taken = [f"{name} {share:.1%}" for name, share in document["decided"].items()]
    page.items([("decided", joined(taken, 20)), ("written", document["out"])])
