"""`confmax export`: a rule as SQL, ONNX or Python, for systems without confmax."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from confmax.cli import app
from confmax.cli.columns import joined
from confmax.cli.show import clean, print_document
from confmax.cli.tables import write_file

_SETTINGS = {
    "sql": ("dialect", "columns", "labels"),
    "onnx": ("dtype", "opset", "labels"),
    "python": ("name", "labels"),
}


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
    for key in settings:
        if key not in _SETTINGS[language]:
            raise click.UsageError(f"--{key} has no meaning with --to {language}; leave it out")
    if out is not None:
        app.check_output(out, as_json, rule)
    elif language == "onnx" or as_json:
        raise click.UsageError("name the file to write with -o")
    loaded = app.load_rule(rule)
    try:
        made = getattr(loaded, f"to_{language}")(**settings)
    except ImportError as error:
        raise ValueError(str(error)) from None
    classes = [str(name) for name in loaded.class_names]
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
