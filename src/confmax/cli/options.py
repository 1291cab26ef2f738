"""The options of the commands: what they are called, what they take, and what is said of it in help."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from confmax.cli.app import metric_names
from confmax.cli.texts import SHARE, STANDARD
from confmax.places import Address, path_of

_Command = TypeVar("_Command", bound=Callable[..., Any])


def list_of_names(_context: click.Context, _option: click.Parameter, value: str | None) -> tuple[str, ...]:
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


def rows_by_name(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> dict[str, int]:
    """Return the numbers of NAME=N by names, which may hold signs of equality."""
    found: dict[str, int] = {}
    for value in values:
        name, sign, text = value.rpartition("=")
        # of ASCII digits alone: int() reads "1_0" and digits of other scripts too
        if not sign or not name or not (text.isascii() and text.isdigit()):
            raise click.BadParameter(f"{value!r} is not NAME=N with a number of rows, such as VF=100")
        if name in found:
            raise click.BadParameter(f"{name} is given twice; give each class once")
        found[name] = int(text)
    return found


def class_shares(_context: click.Context, _option: click.Parameter, value: str | None) -> dict[str, float] | str | None:
    """Return shares by class name of NAME=X,NAME=X, of which names with commas are quoted; or the word balanced."""
    if value is None or value.strip() == "balanced":
        return value and value.strip()
    found: dict[str, float] = {}
    for cell in next(csv.reader([value], skipinitialspace=True), []):
        name, sign, text = cell.rpartition("=")
        name = name.strip()
        try:
            share = float(text)
        except ValueError:
            sign = ""
        if not sign or not name:
            raise click.BadParameter(
                f"{cell!r} is not NAME=SHARE; give a share for every class, such as VF=0.2,F=0.8, or balanced"
            )
        if name in found:
            raise click.BadParameter(f"{name} is given twice; give each class once")
        found[name] = share
    return found


class _Input(click.Path):
    """A path to read from, or an address."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path."""
        return path_of(str(super().convert(value, param, ctx)))


class _Output(_Input):
    """A path to write to; ``-`` is standard output."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path."""
        path = super().convert(value, param, ctx)
        if isinstance(path, Address):
            raise click.BadParameter(f"{path} is not on this machine, where results are written; name a file here")
        if str(value).endswith("/") and path.is_file():
            raise click.BadParameter(f"{value} is named like a folder, and {path} is a file; leave the / out")
        # as a path like any other: `places` writes to a stream of this process in place
        return Path("/dev/stdout") if path == STANDARD else path


def _separator(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """Return a mark by its name or as it is."""
    if value is None:
        return None
    marks = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "pipe": "|", "space": " "}
    mark = marks.get(value.lower(), value)
    if len(mark) != 1 or mark in '"\r\n' or mark.isalnum() or not mark.isascii():
        raise click.BadParameter(f"{value!r} is not one mark between cells, such as ';', or comma, semicolon or tab")
    return mark


def only_one(context: click.Context, option: click.Parameter, values: tuple[Any, ...]) -> Any:
    """Return the value of an option that may be given once, None without it; click would take the last of several."""
    if len(values) > 1:
        raise click.UsageError(
            f"{option.opts[-1]} is given {len(values)} times, and {context.info_name} takes one rule; confmax compare "
            f"takes several"
        )
    return values[0] if values else None


def between_names(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """Return a mark between names, which may be several signs."""
    if value is not None and not value.strip():
        raise click.BadParameter(f"{value!r} is no mark between names, such as ';'")
    return value


def decisions(_context: click.Context, _option: click.Parameter, value: str) -> Any:
    """Return what is decided for a row, as `confmax.maximize` takes it."""
    kind, sign, most = value.strip().rpartition(":")
    if value in ("one", "any"):
        return value
    # of ASCII digits alone: int() reads "1_0" and digits of other scripts too
    if (sign and kind != "at-most") or not (most.isascii() and most.isdigit() and int(most)):
        raise click.BadParameter(f"{value!r} is none of one, any, a number of labels such as 3, and at-most:3")
    return ("at_most", int(most)) if sign else int(most)


PATH = _Input()
OUT = _Output()


def column(name: str, text: str, **more: Any) -> Callable[[_Command], _Command]:
    """Return an option that names a column."""
    return click.option(name, metavar="COL", help=text, **more)


def metric_name(name: str, *names: str, **more: Any) -> Callable[[_Command], _Command]:
    """Return an option that names a metric; the last of ``names`` is its text."""
    *keys, text = names
    return click.option(name, *keys, metavar="NAME", shell_complete=metric_names, help=text, **more)


def list_option(name: str, text: str) -> Callable[[_Command], _Command]:
    """Return an option that takes a list of names."""
    return click.option(name, callback=list_of_names, metavar="A,B,C", help=text)


def choice(name: str, words: str, text: str) -> Callable[[_Command], _Command]:
    """Return an option that takes one of several words, by default the first."""
    choices = words.split()
    return click.option(name, type=click.Choice(choices), default=choices[0], help=text)


def rule_file(name: str, *names: str, **more: Any) -> Callable[[_Command], _Command]:
    """Return an option that names a rule file; the last of ``names`` is its text."""
    *keys, text = names
    return click.option(name, *keys, type=PATH, metavar="RULE", help=text, **more)


RULE = click.argument("rule", type=PATH)
FILE = click.argument("file", type=PATH)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
PARAM = click.option(
    "--param",
    "params",
    multiple=True,
    callback=_params,
    metavar="KEY=VALUE",
    help="Parameter of the metric, such as beta=2.",
)
LABEL = column("--label", "Column of true classes.", required=True)
COLUMNS = list_option(
    "--columns",
    "Columns of probabilities, in class order; or the name of a two-dimensional NPZ array. Default: those named "
    "like the classes, otherwise all other numeric columns.",
)
SUBJECT_TO = click.option(
    "--subject-to",
    "constraints",
    multiple=True,
    metavar="LIMIT",
    help="A limit that the rule must keep, such as 'recall[VF] >= 0.8' or 'rate[L] <= 0.1'; may be repeated. The "
    "estimate of the confusion matrix counts; only with --confusion model is anything proved.",
)
ABSTAIN = click.option(
    "--abstain",
    metavar="NAME",
    help="Let the rule leave rows undecided: it decides NAME for them, such as abstain. Metrics and limits are "
    "then those of the rows that are decided; 'coverage' is their share, and needs a floor, such as "
    "--subject-to 'coverage >= 0.8'.",
)
GROUP = column(
    "--group",
    "Column of groups, for rules that decide by groups: limits speak of them, such as 'min(recall[VF] | group) >= "
    "0.7'.",
)
DECISIONS = click.option(
    "--decisions",
    callback=decisions,
    metavar="one|any|K|at-most:K",
    default="one",
    help="What is decided for a row: one class; any of several labels; the K best labels; or at most K. The labels are "
    "named by --labels, or by --label and --separator.",
)
LABELS = click.option(
    "--labels",
    "label_columns",
    callback=list_of_names,
    metavar="A,B,C",
    help="Of rows with several labels: columns of 0 and 1, one for each label.",
)
SEPARATOR = click.option(
    "--separator",
    callback=between_names,
    metavar="MARK",
    help="Of rows with several labels: the mark between the names in the column --label, such as ';'.",
)
IN_PARTS = choice(
    "--in-parts",
    "auto yes no",
    f"Whether FILE is read part by part in every pass; auto: if it takes more than {SHARE:.0%} of the memory. FILE "
    "is then Parquet (a file, a directory, a pattern or an address such as s3://..., in quotes) or one .npy file, with "
    "labels, weights and groups in .npy files, too; with yes also one CSV or Feather file.",
)
SECOND = metric_name("--second", "Second metric of the page's trade-off.", default="accuracy")
SCORE = column("--score", "The only column of probabilities, for two classes: those of --positive.")
NORMALIZE = click.option(
    "--normalize",
    is_flag=True,
    help="Divide every row of probabilities by its sum, as for numbers that were rounded. A warning shows the sum "
    "that is farthest from one.",
)
SEP = click.option(
    "--sep",
    callback=_separator,
    metavar="MARK",
    help="Separator of CSV cells: ',', ';', tab or another mark. Default: detected from the first rows.",
)


def _together(*options: Callable[[Any], Any]) -> Callable[[_Command], _Command]:
    """Return a decorator that adds several options; help lists the last one first."""

    def add(command: _Command) -> _Command:
        for option in options:
            command = option(command)
        return command

    return add


# what a file's columns mean
table_options = _together(
    NORMALIZE,
    SEP,
    column("--weight", "Column of sample weights."),
    click.option("--positive", metavar="NAME", help="The positive class, if there are two."),
    SCORE,
    COLUMNS,
    list_option("--classes", "Class names in order; needed for metrics that depend on the order."),
)
# bootstrap intervals
REPLICATES = click.option(
    "--replicates",
    "n_replicates",
    type=click.IntRange(min=0),
    metavar="N",
    default=1000,
    help="Bootstrap replicates for the intervals; 0 for none.",
)
LEVEL = click.option("--level", type=float, metavar="X", default=0.95, help="Coverage of the intervals.")
SEED = click.option("--seed", type=click.IntRange(min=0), metavar="N", default=0, help="Seed of random numbers.")
bootstrap_options = _together(
    SEED,
    click.option("--stratified", is_flag=True, help="Resample within each class, as if class sizes were fixed."),
    LEVEL,
    REPLICATES,
)
# where a rule goes
rule_output = _together(
    click.option("--force", is_flag=True, help="Let -o replace a file that is not a rule file."),
    click.option(
        "-o",
        "--out",
        type=OUT,
        help="Where the rule goes, - for standard output. A rule file of that name is replaced. Without -o "
        "nothing is written.",
    ),
)


def numbers(_context: click.Context, _option: click.Parameter, value: str | None) -> list[float] | None:
    """Return numbers with commas between them."""
    if value is None:
        return None
    try:
        return [float(cell) for cell in value.split(",")]
    except ValueError:
        raise click.BadParameter(
            f"{value!r} is not a list of numbers with commas between them, such as 0.2,0.5,0.3"
        ) from None


def levels(_context: click.Context, _option: click.Parameter, value: str) -> int | list[float]:
    """Return how many levels, or the levels."""
    if value.strip().isdecimal():
        return int(value)
    try:
        return [float(cell) for cell in value.split(",")]
    except ValueError:
        raise click.BadParameter(f"{value!r} is neither a number of levels nor levels such as 0.7,0.8,0.9") from None
