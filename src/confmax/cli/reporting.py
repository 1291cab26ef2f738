"""`confmax report`: a page that evaluates a saved rule on rows that it was not tuned on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from confmax.cli.columns import Asked
from confmax.cli.commands import _AS_JSON, _PARAM, _PATH, _load_rule, _table_options
from confmax.cli.completers import column_names, metric_names, rule_files
from confmax.cli.exporting import confmax
from confmax.cli.files import check_output, read_frame, refuse_same
from confmax.cli.group import warn
from confmax.cli.reports import check_installed, judged, metric_of
from confmax.cli.show import Page, print_json

__all__ = ["confmax", "report"]


@confmax.command()
@click.argument("rule", type=_PATH, shell_complete=rule_files)
@click.argument("file", type=_PATH)
@click.option("--label", metavar="COL", required=True, shell_complete=column_names, help="Column of true classes.")
@click.option("--metric", metavar="NAME", shell_complete=metric_names,
              help="The metric to evaluate.  [default: what the rule was tuned for]")  # fmt: skip
@_PARAM
@click.option("--second", metavar="NAME", default="accuracy", show_default=True, shell_complete=metric_names,
              help="The metric of the trade-off.")  # fmt: skip
@_table_options
@click.option("--replicates", type=click.IntRange(min=0), metavar="N", default=1000, show_default=True,
              help="Number of bootstrap replicates; 0 leaves the intervals out.")  # fmt: skip
@click.option("--level", type=float, metavar="X", default=0.95, show_default=True, help="Level of the intervals.")
@click.option("--seed", type=click.IntRange(min=0), metavar="N", default=0, show_default=True,
              help="Seed of the bootstrap.")  # fmt: skip
@click.option(
    "-o", "--out", type=_PATH, default=Path("report.html"), show_default=True, help="Where to write the page."
)
@_AS_JSON
def report(rule: Path, file: Path, out: Path, as_json: bool, **more: Any) -> None:
    """Write an HTML page that evaluates RULE on the rows of FILE.

    FILE must not hold the rows that the rule was tuned on. The page needs no network. It shows metrics with intervals
    and paired differences, the rule in words, confusion matrices, calibration, trade-off and warnings.

    \b
    Example:
      confmax report rule.json held_out.csv --label truth -o report.html
      confmax report rule.json held_out.csv --label truth --second macro_f1
    """
    name, params, second = (more.pop(key) for key in ("metric", "params", "second"))
    if params and name is None:
        raise click.UsageError("--param belongs to --metric; give both")
    settings = {"n_replicates": more.pop("replicates"), "level": more.pop("level"), "random_state": more.pop("seed")}
    check_output(out)
    refuse_same(out, file)
    refuse_same(out, rule)
    check_installed()
    loaded = _load_rule(rule)
    metric = None if name is None else metric_of("--metric", name, **params)
    metric_of("--second", second)
    rows = judged(out, loaded, read_frame(file), Asked(**more), metric, second, **settings)
    for note in rows.notes:
        warn(note)
    document = {"rule_file": str(rule), "file": str(file), "rows": rows.n_rows, "report_file": str(out)}
    if as_json:
        print_json(document)
    else:
        Page().items([("evaluated on", f"{file}, {rows.n_rows} rows"), ("written", str(out))])
