"""The command line: `confmax demo`, `tune`, `apply`, `score` and `metrics`, and the options that commands share."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from confmax._version import __version__
from confmax.cli import reports, show, tasks
from confmax.cli.columns import ASKED, Asked
from confmax.cli.completers import column_names, metric_names, rule_files, solver_names
from confmax.cli.demo import demonstrate
from confmax.cli.files import EXTENSIONS, check_output, read_frame, refuse_same, write_file
from confmax.cli.group import OneSentence, in_words_of_options, warn
from confmax.cli.large import SHARE, large
from confmax.cli.show import Bar, Page
from confmax.cli.sources import STANDARD
from confmax.evaluate.uncertainty import check_bootstrap
from confmax.places import is_stdout, replaces
from confmax.rule import DecisionRule

_Command = TypeVar("_Command", bound=Callable[..., Any])


# --- options ---------------------------------------------------------------------------------------------------------


def _names(_context: click.Context, _option: click.Parameter, value: str | None) -> tuple[str, ...]:
    """Split names at commas; a name that holds one is quoted."""
    if value is None:
        return ()
    names = tuple(name.strip() for name in next(csv.reader([value], skipinitialspace=True), []))
    if not names or not all(names):
        raise click.BadParameter(f"{value!r} is not a list of names with commas between them, such as a,b,c")
    return names


def _params(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> dict[str, Any]:
    """Return key=value pairs, numbers as numbers."""
    found: dict[str, Any] = {}
    for value in values:
        key, sign, text = value.partition("=")
        if not sign or not key or not text:
            raise click.BadParameter(f"{value!r} is not key=value, such as beta=2")
        if key in found:
            raise click.BadParameter(f"{key} is given twice; give each parameter once")
        try:
            found[key] = float(text)
        except ValueError:
            found[key] = text
    return found


class _Output(click.Path):
    """A path to write to; ``-`` is standard output."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path."""
        path = Path(str(super().convert(value, param, ctx)))
        return Path("/dev/stdout") if path == STANDARD else path


def _separator(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """Return a mark by its name or as it is."""
    if value is None:
        return None
    mark = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "pipe": "|", "space": " "}.get(
        value.lower(), value
    )
    if len(mark) != 1 or mark in '"\r\n' or mark.isalnum() or not mark.isascii():
        raise click.BadParameter(f"{value!r} is not one mark between cells, such as ';', or comma, semicolon or tab")
    return mark


_PATH = click.Path(path_type=Path)
_OUT = _Output(path_type=Path)
_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
_PARAM = click.option("--param", "params", multiple=True, callback=_params, metavar="KEY=VALUE",
                      help="Parameter of the metric, such as beta=2.")  # fmt: skip
_COLUMNS = click.option("--columns", callback=_names, metavar="A,B,C",
                        help="Columns of probabilities, in class order; or the name of a two-dimensional NPZ array. "
                             "Default: those named like the classes, otherwise all other numeric columns.")  # fmt: skip


_SCORE = click.option("--score", metavar="COL", shell_complete=column_names,
                      help="The only column of probabilities, for two classes: those of --positive.")  # fmt: skip
_SEP = click.option("--sep", callback=_separator, metavar="MARK",
                    help="Separator of CSV cells: ',', ';', tab or another mark. Default: detected from the first "
                         "rows.")  # fmt: skip


def _table_options(command: _Command) -> _Command:
    """Add the options that say what a file's columns mean."""
    for option in (
        _SEP,
        click.option("--weight", metavar="COL", shell_complete=column_names, help="Column of sample weights."),
        click.option("--positive", metavar="NAME", help="The positive class, if there are two."),
        _SCORE,
        _COLUMNS,
        click.option("--classes", callback=_names, metavar="A,B,C",
                     help="Class names in order; needed for metrics that depend on the order."),
    ):  # fmt: skip
        command = option(command)
    return command


def _bootstrap_options(command: _Command) -> _Command:
    """Add the options of bootstrap intervals."""
    for option in (
        click.option("--seed", type=click.IntRange(min=0), metavar="N", default=0, show_default=True,
                     help="Seed of random numbers."),
        click.option("--stratified", is_flag=True, help="Resample within each class, as if class sizes were fixed."),
        click.option("--level", type=float, metavar="X", default=0.95, show_default=True,
                     help="Coverage of the intervals."),
        click.option("--replicates", type=click.IntRange(min=0), metavar="N", default=1000, show_default=True,
                     help="Bootstrap replicates for the intervals; 0 for none."),
    ):  # fmt: skip
        command = option(command)
    return command


def _load_rule(path: Path) -> DecisionRule:
    if path.is_dir():
        raise ValueError(f"{path} is a directory; name a rule file, such as rule.json")
    if not path.exists():
        raise ValueError(f"there is no rule file {path}; 'confmax tune -o' writes one")
    return DecisionRule.load(path)


def _rule_output(command: _Command) -> _Command:
    """Add the options that say where a rule goes."""
    for option in (
        click.option("--force", is_flag=True, help="Let -o replace a file that is not a rule file."),
        click.option("-o", "--out", type=_OUT,
                     help="Where the rule goes, - for standard output. A rule file of that name is replaced. Without "
                          "-o nothing is written."),
    ):  # fmt: skip
        command = option(command)
    return command


def one_result(as_json: bool, *outputs: Path | None) -> None:
    """Refuse two results on standard output."""
    count = as_json + sum(out is not None and is_stdout(out) for out in outputs)
    if count > 1:
        raise click.UsageError(
            "two results cannot both go to standard output; name a file for one, or leave --json out"
        )


def _check_rule_output(out: Path | None, force: bool) -> None:
    """Refuse a place that no rule can be written to, or where it would replace something else."""
    if out is None:
        if force:
            raise click.UsageError("--force says that -o may replace a file; give -o too")
        return
    check_output(out)
    if force or not replaces(out):
        return
    try:
        DecisionRule.load(out)
    except (OSError, ValueError):
        raise ValueError(f"{out} is not a rule file, so it is not replaced; choose another name with -o, or replace it "
                         f"with --force") from None  # fmt: skip


def _save_rule(rule: DecisionRule, out: Path | None, force: bool) -> str | None:
    """Write the rule if ``out`` says where; return that as documents hold it."""
    if out is None:
        return None
    _check_rule_output(out, force)  # tuning may have taken hours
    write_file(out, rule.to_json().encode())
    return str(out)


# --- commands --------------------------------------------------------------------------------------------------------


@click.group(cls=OneSentence, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="confmax")
@click.pass_context
def confmax(context: click.Context) -> None:
    """Decision rules that maximise any function of the confusion matrix.

    From the class probabilities in a file (CSV, Parquet, NPZ), confmax finds the rule that is best for your metric, and
    applies it. 'confmax COMMAND --help' has examples.

    \b
    Example:
      confmax demo
      confmax tune scores.csv --label truth --metric macro_f1 -o rule.json
      confmax apply rule.json new.csv -o decided.csv
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@confmax.command()
@_rule_output
@_AS_JSON
def demo(out: Path | None, force: bool, as_json: bool) -> None:
    """Compare rules for four metrics on held-out rows.

    Uses published predictions that come with confmax. Compares argmax, p/prior and tuned rules on rows that the rules
    were not tuned on, and prints the rule for the G-mean; -o also writes it.

    \b
    Example:
      confmax demo
      confmax demo -o rule.json
    """
    one_result(as_json, out)
    _check_rule_output(out, force)
    with Bar("tuning", "steps", after=0) as bar:
        rule, document = demonstrate(bar.update)
    document["rule_file"] = _save_rule(rule, out, force)
    if as_json:
        show.print_json(document)
    else:
        show.show_demo(Page(out), document, rule)


@confmax.command()
@click.argument("file", type=_PATH)
@click.option("--label", metavar="COL", shell_complete=column_names,
              help="Column of true classes. Without it, only the probabilities are used.")  # fmt: skip
@click.option(
    "--metric", metavar="NAME", shell_complete=metric_names, help="What to maximise; 'confmax metrics' lists the names."
)
@_PARAM
@click.option("--costs", type=_PATH, metavar="FILE.csv",
              help="Table of costs for the metric linear: one row per true class, one column per decision. A first row "
                   "or column of names is matched to the classes; without names the order is that of --classes. "
                   "Further columns are further decisions, such as abstaining.")  # fmt: skip
@_table_options
@click.option("--confusion", type=click.Choice(["auto", "model", "labels", "blend"]), default="auto",
              show_default=True, help="Estimate of the confusion matrix: expected from the probabilities (model, "
                                      "with an optimality guarantee), counted on the labels, or a blend of both; "
                                      "auto: a blend if there are labels.")  # fmt: skip
@click.option("--calibration", type=click.Choice(["auto", "none", "temperature", "vector"]), default="auto",
              show_default=True, help="How the probabilities are corrected first, using the labels; auto: the kind "
                                      "that cross-validated log loss favours. The rule applies it.")  # fmt: skip
@click.option("--solver", default="auto", show_default=True, metavar="NAME", shell_complete=solver_names,
              help="Algorithm; auto chooses by the metric.")  # fmt: skip
@click.option("--randomized", type=click.Choice(["auto", "yes", "no"]), default="auto", show_default=True,
              help="Whether the rule may decide at random; auto: only if that gains more than 0.001.")  # fmt: skip
@click.option(
    "--tol", type=float, metavar="X", default=1e-6, show_default=True, help="Stop when the gap is at most this."
)
@click.option("--max-passes", type=int, metavar="N", help="Most passes over the table.  [default: the solver's budget]")
@click.option("--seed", type=int, metavar="N", default=0, show_default=True, help="Seed of random numbers.")
@click.option("--in-parts", type=click.Choice(["auto", "yes", "no"]), default="auto", show_default=True,
              help=f"Whether FILE is read part by part in every pass; auto: if it takes more than {SHARE:.0%} of the "
                   "memory. FILE is then Parquet (a file, a directory, or a pattern in quotes) or one .npy file, with "
                   "--label and --weight naming .npy files.")  # fmt: skip
@_rule_output
@click.option("--report", type=_OUT, metavar="PAGE.html",
              help="Also write an HTML page that evaluates the rule by cross-fitting: every row is decided by a rule "
                   "that was tuned without its fold, one of five.")  # fmt: skip
@click.option("--second", metavar="NAME", default="accuracy", show_default=True, shell_complete=metric_names,
              help="Second metric of the page's trade-off.")  # fmt: skip
@_AS_JSON
def tune(
    file: Path, out: Path | None, force: bool, as_json: bool, report: Path | None, second: str, **more: Any
) -> None:
    """Find the rule that maximises a metric on the rows of FILE.

    FILE is a table (CSV, Parquet, NPZ, or '-' for CSV on standard input) with one row per case and one column of
    probabilities per class, or for two classes a single one (--score). Tables larger than memory are read in parts. The
    rule is printed; -o also writes it.

    \b
    Example:
      confmax tune scores.csv --label truth --metric g_mean -o rule.json
      confmax tune scores.csv --label truth --metric f1 --positive yes
      confmax tune scores.csv --label truth --metric f1 --score p --positive yes
      confmax tune scores.csv --label truth --metric linear --costs costs.csv
      confmax tune 'scores/*.parquet' --label truth --metric macro_f1
      confmax tune scores.csv --label truth --metric g_mean --report report.html
    """
    metric, params, costs = (more.pop(key) for key in ("metric", "params", "costs"))
    if metric is None and costs is None:
        raise click.UsageError("give --metric NAME, or --costs FILE.csv; 'confmax metrics' lists the names")
    tasks.named_metric(metric or "linear", params, costs)
    read = [path for path in (file, costs) if path is not None]
    if out is not None:
        for path in read:
            refuse_same(out, path)
    _check_rule_output(out, force)
    one_result(as_json, out, report)
    asked = Asked(**{key: more.pop(key) for key in ASKED})
    if not 0 <= more["seed"] < 2**63:
        raise click.UsageError(f"--seed is a whole number from 0 to 2^63 - 1; got {more['seed']}")
    if more["confusion"] in ("labels", "blend") and asked.label is None:
        raise click.UsageError(f"--confusion {more['confusion']} needs --label, the column of true classes")
    if more["calibration"] in ("temperature", "vector") and asked.label is None:
        raise click.UsageError(f"--calibration {more['calibration']} needs --label, the column of true classes")
    reports.check_tune(report, out, asked.label, second, read)
    settings = {
        "confusion": more["confusion"],
        "calibration": None if more["calibration"] == "none" else more["calibration"],
        "solver": more["solver"],
        "randomized": {"auto": "auto", "yes": True, "no": False}[more["randomized"]],
        "tol": more["tol"],
        "max_passes": more["max_passes"],
        "random_state": more["seed"],
    }
    with Bar("tuning", "passes") as bar:
        frame = large(file, more["in_parts"], bar.rows) or read_frame(file, asked.sep)
        kept: list[Any] = []  # solution and rows
        rule, document = tasks.tune(
            frame, asked, metric or "linear", params, costs, warn=warn, callback=bar.step, found=kept.extend, **settings
        )
    document["rule_file"] = _save_rule(rule, out, force)
    if report is not None:
        try:
            reports.tuned(report, frame.path, *kept, second=second, settings=settings)
        except ValueError as error:
            written = "" if out is None else f"the rule is written to {out}, the report is not: "
            raise ValueError(f"{written}{error}") from None
        document["report_file"] = str(report)
    document["guarantee"] = in_words_of_options(document["guarantee"])
    if as_json:
        show.print_json(document)
    else:
        show.show_tune(Page(out, report), document, rule)


@confmax.command()
@click.argument("rule", type=_PATH, shell_complete=rule_files)
@click.argument("file", type=_PATH)
@click.option("-o", "--out", type=_OUT, required=True,
              help=f"Where the decisions go: {', '.join(EXTENSIONS)}; - for standard output. Pipes and devices take "
                   "CSV.")  # fmt: skip
@_COLUMNS
@_SCORE
@click.option("--positive", metavar="NAME", help="The class whose probability --score holds.")
@_SEP
@click.option("--key", metavar="COL", shell_complete=column_names,
              help="Column of identifiers. A rule that decides at random draws by them, so that a row keeps its "
                   "decision.")  # fmt: skip
@_AS_JSON
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
    check_output(out, EXTENSIONS)
    one_result(as_json, out)
    refuse_same(out, file)
    refuse_same(out, rule)
    asked = Asked(**more)
    document = tasks.apply(read_frame(file, asked.sep), asked, _load_rule(rule), out, warn=warn)
    if as_json:
        show.print_json(document)
    else:
        show.show_apply(Page(out), document)


@confmax.command()
@click.argument("file", type=_PATH)
@click.option("--label", metavar="COL", required=True, shell_complete=column_names, help="Column of true classes.")
@click.option("--rule", type=_PATH, metavar="RULE", shell_complete=rule_files,
              help="A rule file to score beside argmax and p/prior.")  # fmt: skip
@click.option("--metric", "names", multiple=True, metavar="NAME", shell_complete=metric_names,
              help="Only this metric; may be repeated.")  # fmt: skip
@_PARAM
@_table_options
@_bootstrap_options
@_AS_JSON
def score(file: Path, rule: Path | None, as_json: bool, **more: Any) -> None:
    """Score argmax, p/prior and a rule on the labels of FILE.

    Without --metric, by every metric that applies. The intervals show how uncertain the values are for the population
    that the rows come from; intervals of differences compare rules on the same rows. FILE should hold rows that the
    rule was not tuned on.

    \b
    Example:
      confmax score held_out.csv --label truth --rule rule.json
      confmax score held_out.csv --label truth --rule rule.json --metric g_mean --replicates 10000
    """
    names, params = more.pop("names"), more.pop("params")
    if params and len(names) != 1:
        raise click.UsageError("--param belongs to one --metric; give exactly one")
    settings = {"n_replicates": more.pop("replicates"), "seed": more.pop("seed")}
    settings |= {key: more.pop(key) for key in ("level", "stratified")}
    check_bootstrap(settings["n_replicates"], settings["level"])
    loaded = None if rule is None else _load_rule(rule)
    asked = Asked(**more)
    document = tasks.score(read_frame(file, asked.sep), asked, names, params, loaded, warn=warn, **settings)
    if as_json:
        show.print_json(document)
    else:
        show.show_score(Page(), document)


@confmax.command()
@_AS_JSON
def metrics(as_json: bool) -> None:
    """List the metrics: names, structure, parameters.

    \b
    Example:
      confmax metrics
    """
    document = tasks.catalogue()
    if as_json:
        show.print_json(document)
    else:
        show.show_metrics(Page(), document)
