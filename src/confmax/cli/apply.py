"""`confmax apply` decides every row of a file by a rule; `confmax export` writes a rule for systems without confmax."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from confmax.cli import app
from confmax.cli.columns import FileRows, TableOptions, existing, joined
from confmax.cli.metrics import rows_for
from confmax.cli.show import Document, Page, clean, print_document, show_source, source_document
from confmax.cli.tables import EXTENSIONS, format_of, write_decisions, write_file, writing
from confmax.rule import DecisionRule

_SETTINGS = {
    "sql": ("dialect", "columns", "labels"),
    "onnx": ("dtype", "opset", "labels"),
    "python": ("name", "labels"),
}


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
    # a column of a file has one type: a rule with classes 0, 1 and a decision "abstain" writes text
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


@app.confmax.command()
@click.argument("rule", type=app.PATH, shell_complete=app.rule_files)
@click.option("--to", "language", type=click.Choice(list(_SETTINGS)), required=True, help="What to write.")
@click.option("--dialect", metavar="NAME",
              help="For SQL: standard, which DuckDB, PostgreSQL and SQLite read; duckdb or sqlite; or with the extra "
                   "confmax[sql] others, such as mysql.  [default: standard]")  # fmt: skip
@click.option("--columns", callback=app.list_of_names, metavar="A,B,C",
              help="For SQL: columns of probabilities, in class order. Default: those named like the "
                   "classes.")  # fmt: skip
@click.option("--dtype", type=click.Choice(["float32", "float64"]),
              help="For ONNX: type of the probabilities.  [default: float32]")  # fmt: skip
@click.option(
    "--opset", type=int, metavar="N", help="For ONNX: version of the operator set, 13 or newer.  [default: 18]"
)
@click.option("--name", metavar="NAME", help="For Python: name of the function.  [default: decide]")
@click.option("--labels", is_flag=True, default=None, help="Return class names instead of the index.")
@click.option("-o", "--out", type=app.OUT,
              help="Where it goes, - for standard output. Without -o, SQL and Python are printed.")  # fmt: skip
@app.AS_JSON
def export(rule: Path, language: str, out: Path | None, as_json: bool, **given: Any) -> None:
    """Write RULE as an SQL expression, an ONNX model or a Python function.

    The result takes one probability per class and decides like 'confmax apply': it returns the index of the class, or
    with --labels its name. A rule that decides at random cannot be exported.

    \b
    Example:
      confmax export rule.json --to sql --columns p_no,p_yes
      confmax export rule.json --to onnx -o rule.onnx
      confmax export rule.json --to python -o rule.py
    """
    settings = {key: value for key, value in given.items() if value not in (None, ())}
    # an option that changes nothing is a mistake of the user's, and is not passed over
    for key in settings:
        if key not in _SETTINGS[language]:
            raise click.UsageError(f"--{key} has no meaning with --to {language}; leave it out")
    if out is not None:
        app.check_output(out, as_json, rule)
    elif language == "onnx" or as_json:
        raise click.UsageError("name the file to write with -o")
    loaded = app.load_rule(rule)
    made = getattr(loaded, f"to_{language}")(**settings)
    classes = [str(name) for name in loaded.class_names]
    # the database would only say that it knows no such column
    if language == "sql" and "columns" not in settings:
        read = joined(classes[: loaded.n_classes], 20)
        click.echo(clean(f"note: the expression reads the columns {read}; --columns names others"), err=True)
    if out is None:
        click.echo(made, nl=language == "sql")
        return
    data = made.SerializeToString() if language == "onnx" else made.rstrip("\n").encode() + b"\n"
    write_file(out, data)
    document = {"rule_file": str(rule), "to": language, "out": str(out), "bytes": len(data), "classes": classes}
    index = joined([f"{k} {name}" for k, name in enumerate(classes)], 20)
    print_document(document, as_json, lambda page, _: page.items({"index": index, "written": str(out)}), out)
