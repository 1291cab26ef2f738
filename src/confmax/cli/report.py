"""`confmax report`: a page that evaluates a saved rule on rows that it was not tuned on; and the page of `tune`."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from confmax.cli import app
from confmax.cli.columns import FileRows, TableOptions
from confmax.cli.metrics import over, rows_for
from confmax.cli.show import print_document
from confmax.cli.tables import refuse_same, writing
from confmax.evaluate.applicable import named
from confmax.metrics import Metric, get
from confmax.places import check_place, same_place
from confmax.rule import DecisionRule
from confmax.solution import Solution
from confmax.tables import refuse_elsewhere

FOLDS = 5


@app.confmax.command()
@click.argument("rule", type=app.PATH, shell_complete=app.rule_files)
@click.argument("file", type=app.PATH)
@click.option("--label", metavar="COL", required=True, shell_complete=app.column_names, help="Column of true classes.")
@click.option("--metric", metavar="NAME", shell_complete=app.metric_names,
              help="The metric to evaluate.  [default: what the rule was tuned for]")  # fmt: skip
@app.PARAM
@click.option("--second", metavar="NAME", default="accuracy", show_default=True, shell_complete=app.metric_names,
              help="The metric of the trade-off.")  # fmt: skip
@app.table_options
@click.option("--replicates", type=click.IntRange(min=0), metavar="N", default=1000, show_default=True,
              help="Number of bootstrap replicates; 0 leaves the intervals out.")  # fmt: skip
@click.option("--level", type=float, metavar="X", default=0.95, show_default=True, help="Level of the intervals.")
@click.option("--seed", type=click.IntRange(min=0), metavar="N", default=0, show_default=True,
              help="Seed of the bootstrap.")  # fmt: skip
@click.option(
    "-o", "--out", type=app.OUT, default=Path("report.html"), show_default=True, help="Where to write the page."
)
@app.AS_JSON
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
    check_place(out)
    app.one_result(as_json, out)
    refuse_same(out, file)
    refuse_same(out, rule)
    check_installed()
    loaded = app.load_rule(rule)
    metric = None if name is None else metric_of("--metric", name, **params)
    metric_of("--second", second)
    options = TableOptions(**more)
    rows = write_page(out, loaded, file, options, metric, second, **settings)
    document = {"rule_file": str(rule), "file": str(file), "rows": rows.n_rows, "report_file": str(out)}
    items = [("evaluated on", f"{file}, {rows.n_rows} rows"), ("written", str(out))]
    print_document(document, as_json, lambda page, _: page.items(items), out)


def check_installed() -> None:
    """Refuse before anything is tuned, if pages cannot be written."""
    # pages load scipy.stats, which takes longer than all else: the other commands, and completion, do not wait for it
    from confmax.page import writing as pages

    try:
        pages.check_installed()
    except ImportError as error:
        raise ValueError(str(error)) from None


def metric_of(option: str, name: str, **params: Any) -> Metric:
    """Return the metric that an option names."""
    if name == "linear":
        raise ValueError(f"a report has no table of costs for {option} linear; name another metric")
    return get(name, **params)


def check_tune(path: Path | None, out: Path | None, label: str | None, second: str, read: Sequence[Path]) -> None:
    """Refuse what `tune --report` cannot do, before anything is tuned; ``read`` are the files that are read."""
    if path is None:
        return
    if label is None:
        raise click.UsageError("--report counts labels; give --label, the column of true classes")
    if out is not None and same_place(path, out):
        raise click.UsageError(f"--report and -o both name {path}; choose another name for one of them")
    check_place(path)
    for given in read:
        refuse_same(path, given, "--report")
    metric_of("--second", second)
    check_installed()


def write_cross_fitted_page(
    path: Path, solution: Solution, rows: FileRows, *, second: str, settings: Mapping[str, Any]
) -> None:
    """Write the page of a rule that was tuned on a file's rows, its figures cross-fitted in five folds."""
    from confmax import report as pages

    refuse_elsewhere(
        rows.proba,
        f"{rows.path} is read in parts and a report needs its rows in memory; leave out --report, and run confmax "
        f"report on a file of other rows",
    )
    assert rows.labels is not None
    more = {key: value for key, value in settings.items() if key != "random_state"}
    with writing(path):
        pages.write_cross_fitted(
            path,
            solution.metric,
            rows.proba,
            rows.labels,
            sample_weight=rows.weight,
            classes=rows.classes,
            folds=FOLDS,
            second=get(second),
            random_state=settings["random_state"],
            source=rows.path.name,
            again=command_line(click.get_current_context()),
            order_known=rows.order_known,
            solution=solution,
            **more,
        )


def write_page(
    path: Path,
    rule: DecisionRule,
    file: Path,
    options: TableOptions,
    metric: Metric | None,
    second: str,
    **settings: Any,
) -> FileRows:
    """Write the page of a rule on a file's rows; return these."""
    from confmax import report as pages

    rows = rows_for(rule, file, options)
    tuned_for = named(rule.metric)
    rule = over(rule, rows.classes)
    with writing(path):
        pages.write(
            path,
            rule,
            rows.proba,
            rows.labels if rows.labels is not None else (),
            rows.weight,
            metric=metric,
            second=get(second),
            source=rows.path.name,
            again=command_line(click.get_current_context()),
            order_known=rows.order_known or (tuned_for is not None and tuned_for.ordered),
            **settings,
        )
    return rows


def command_line(context: click.Context) -> str:
    """Return the command line of a context, with the options that were given."""
    words = context.command_path.split()
    for parameter in context.command.params:
        name = parameter.name or ""
        if context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        value = context.params.get(name)
        values = [f"{key}={one}" for key, one in value.items()] if isinstance(value, dict) else [value]
        if isinstance(value, tuple):
            values = list(value) if parameter.multiple else [with_commas(value)]
        option = None
        if isinstance(parameter, click.Option):
            option = parameter.opts[-1]
            if parameter.is_flag:
                words.append(option)
                continue
        for one in values:
            words += [*([] if option is None else [option]), f"{one:g}" if isinstance(one, float) else str(one)]
    return shlex.join(words)


def with_commas(names: tuple[Any, ...]) -> str:
    """Return names as an option takes them."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()
