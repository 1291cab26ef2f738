"""The command line's frame: the group of commands, the options that they share, completion, errors and exit codes.

Every error of the user's making ends here as one sentence on stderr, in the words of the options, with exit code 2.
Other exceptions are bugs and keep their traceback, with exit code 1. If the reader of the output stops reading, nothing
is said.
"""

from __future__ import annotations

import csv
import difflib
import errno
import glob
import io
import os
import re
import shlex
import sys
import warnings
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
import pyarrow as pa
import pyarrow.parquet as pq
from click.core import ParameterSource
from click.shell_completion import CompletionItem, ShellComplete, get_completion_class

from confmax import metrics
from confmax._version import __version__
from confmax.cli.columns import shortened
from confmax.cli.csvs import STANDARD, Source, first_cells, sniffed
from confmax.cli.show import clean
from confmax.cli.tables import EXTENSIONS, format_of, refuse_same, write_file
from confmax.evaluate.uncertainty import check_bootstrap
from confmax.optimize import SOLVERS
from confmax.places import check_place, is_stdout, replaces
from confmax.rule import DecisionRule

_Command = TypeVar("_Command", bound=Callable[..., Any])
VARIABLE = "_CONFMAX_COMPLETE"  # click's name for it; the script sets it when it asks for completions


# --- errors ----------------------------------------------------------------------------------------------------------

# the library speaks of its arguments; here they have other names
_WORDS = (
    (r"\bpass classes= with\b", "give --classes with"),
    (r"\bpass keys=, an identifier per row,", "name a column of identifiers with --key"),
    (r"\bpass y, or use confusion='model'", "give --label, or --confusion model"),
    (r"\bconfusion='(\w+)'", r"--confusion \1"),
    (r"\bconfmax\.metrics\.names\(\) lists them", "'confmax metrics' lists them"),
    (r"\btune with randomized=False", "tune with --randomized no"),
    (r"^to_(sql|onnx|python) (?=writes|cannot)", r"--to \1 "),
    (r"\bsample_weight\b", "the weight column"),
    (r"\bof y\b", "of the label column"),
    (r"\by has\b", "the label column has"),
    (r"\bproba has\b", "the table of probabilities has"),
    (r"\bsolver is 'auto', a solver, or one of", "--solver is auto, or one of"),
    (r"\bmax_passes is a positive integer or None", "--max-passes is a positive whole number"),
    (r"\bmax_passes\b", "--max-passes"),
    (r"\brandomized=True returns", "--randomized yes returns"),
    (r"\bor tol$", "or --tol"),
    (r"^tol must", "--tol must"),
    (r"^level is", "--level is"),
    (r"\bpass stratified=True", "give --stratified"),
    (r"\bpass metric=, what", "give --metric, what"),
    (r"\bpass order_known=True if the columns are in order", "give the order with --classes"),
)
LONGEST_WORD = 200  # characters of a name in a message: a cell of a file can be a megabyte
LONGEST_LINE = 2000


# what writing to a stream without a name raises; files that confmax writes are named in their errors
_WRITING = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO, errno.EBADF)


def in_words_of_options(message: str) -> str:
    """Return a library's sentence on one line of readable length, its arguments called as the options are."""
    # first, because patterns are slow on a megabyte
    message = re.sub(rf"\S{{{LONGEST_WORD + 1},}}", lambda word: shortened(word[0], LONGEST_WORD), message)
    message = shortened(" ".join(message.split()), LONGEST_LINE)
    for pattern, words in _WORDS:
        message = re.sub(pattern, words, message)
    return clean(message)


def warn(*messages: str) -> None:
    """Print warnings on stderr, one line each."""
    for message in messages:
        click.echo(f"warning: {in_words_of_options(message)}", err=True)


def _fail(message: str) -> NoReturn:
    counted = " (rows are counted from 0, after the names)" if re.search(r"\brow \d+ of\b", message) else ""
    click.echo(f"error: {in_words_of_options(message)}{counted}", err=True)
    sys.exit(2)


def _stop_writing() -> None:
    """Let what is still to be written to stdout go nowhere, so that Python does not complain of it at its end."""
    with suppress(OSError, ValueError):  # a stdout that is no file, as in tests
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class OneSentence(click.Group):
    """A group whose errors are one sentence each."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments name; the error of one that is not there names the nearest."""
        name = args[0]
        if self.get_command(ctx, name) is None and not ctx.resilient_parsing and not name.startswith("-"):
            near = difflib.get_close_matches(name, self.list_commands(ctx), 1, 0.5)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(self.list_commands(ctx))}"
            raise click.UsageError(f"no such command {name!r} ({hint})", ctx)
        return super().resolve_command(ctx, args)

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run a command and end the process; ``standalone_mode`` is click's and has no effect here."""
        # else click prints errors itself, in two lines and with its own exit codes
        extra["standalone_mode"] = False
        try:
            with warnings.catch_warnings():
                # Python's default shows a warning once per place, and would hide the one of a second rule
                warnings.simplefilter("always", UserWarning)
                warnings.showwarning = lambda message, *_rest, **_more: warn(str(message))
                code = super().main(*args, **extra)
                sys.stdout.flush()
        except click.UsageError as error:
            path = error.ctx.command_path if error.ctx is not None else "confmax"
            _fail(f"{error.format_message().rstrip('.')}; '{path} --help' tells more")
        except click.Abort:
            click.echo("interrupted", err=True)
            sys.exit(130)
        except BrokenPipeError:
            _stop_writing()
            sys.exit(1)
        except OSError as error:
            _stop_writing()
            why = error.strerror or str(error)
            if error.filename is None and error.errno in _WRITING:
                _fail(f"standard output cannot be written ({why}); redirect it to another place")
            where = f"{error.filename}: " if error.filename else ""
            _fail(f"{where}{why}; check the path and its permissions")
        except (click.ClickException, ValueError, ImportError) as error:
            # the library's sentence about an extra names no module; an import that fails by itself is a bug
            if isinstance(error, ImportError) and error.name is not None:
                raise
            _fail(str(error))
        sys.exit(code if isinstance(code, int) else 0)


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


# --- completion ------------------------------------------------------------------------------------------------------


def metric_names(_context: click.Context, _option: click.Parameter, typed: str) -> list[CompletionItem]:
    """Return the metrics, and the aliases, that begin so."""
    # colons separate names from descriptions in what shells read; linear has none without its table
    about = {name: metrics.get(name).description.replace(":", ",") for name in metrics.names() if name != "linear"}
    names = [*metrics.names(), *(sorted(metrics.aliases()) if typed else ())]
    return [CompletionItem(name, help=about.get(name)) for name in names if name.startswith(typed)]


def solver_names(_context: click.Context, _option: click.Parameter, typed: str) -> list[str]:
    """Return the solvers that begin so."""
    return [name for name in ("auto", *SOLVERS) if name.startswith(typed)]


def rule_files(_context: click.Context, _option: click.Parameter, typed: str) -> list[CompletionItem]:
    """Return the JSON files and the folders that begin so; where there are none, whatever the shell finds."""
    names = sorted(glob.glob(f"{glob.escape(typed)}*"))
    files = [CompletionItem(name) for name in names if name.endswith(".json") and os.path.isfile(name)]
    folders = [CompletionItem(f"{name}/") for name in names if os.path.isdir(name)]
    # the shell finds more than JSON: a rule may have any name
    return files + folders if files else [CompletionItem(typed, type="file")]


def column_names(context: click.Context, _option: click.Parameter, typed: str) -> list[str]:
    """Return the columns of the command's FILE that begin so; none where it cannot be read."""
    # click keeps the arguments apart while the option before the cursor has no value yet
    given = [context.params.get("file"), *reversed(context.args)]
    path = next((Path(each) for each in given if each and Path(each).suffix.lower() in EXTENSIONS), None)
    try:
        names = [] if path is None else _columns(path)
    except (OSError, ValueError, IndexError, zipfile.BadZipFile, pa.ArrowException):
        return []
    return [name for name in names if name.startswith(typed)]


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


@confmax.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes confmax's commands in a shell.

    It completes commands, options, names of metrics and solvers, rule files, and the columns of FILE. Load it in your
    shell's start-up file:

    \b
      bash: eval "$(confmax completion bash)"    in ~/.bashrc
      zsh:  eval "$(confmax completion zsh)"     in ~/.zshrc, after compinit
      fish: confmax completion fish > ~/.config/fish/completions/confmax.fish

    \b
    Example:
      confmax completion bash
      confmax completion fish > ~/.config/fish/completions/confmax.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    # not the class's own: bash's also asks which bash there is here, which need not be the one that reads this
    click.echo(ShellComplete.source(kind(confmax, {}, "confmax", VARIABLE)).strip())


# --- options ---------------------------------------------------------------------------------------------------------


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


class _Output(click.Path):
    """A path to write to; ``-`` is standard output."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path."""
        path = Path(str(super().convert(value, param, ctx)))
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


PATH = click.Path(path_type=Path)
OUT = _Output(path_type=Path)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
PARAM = click.option("--param", "params", multiple=True, callback=_params, metavar="KEY=VALUE",
                      help="Parameter of the metric, such as beta=2.")  # fmt: skip
LABEL = click.option("--label", metavar="COL", required=True, shell_complete=column_names,
                     help="Column of true classes.")  # fmt: skip
COLUMNS = click.option("--columns", callback=list_of_names, metavar="A,B,C",
                        help="Columns of probabilities, in class order; or the name of a two-dimensional NPZ array. "
                             "Default: those named like the classes, otherwise all other numeric columns.")  # fmt: skip
SECOND = click.option("--second", metavar="NAME", default="accuracy", show_default=True, shell_complete=metric_names,
                      help="Second metric of the page's trade-off.")  # fmt: skip
SCORE = click.option("--score", metavar="COL", shell_complete=column_names,
                      help="The only column of probabilities, for two classes: those of --positive.")  # fmt: skip
SEP = click.option("--sep", callback=_separator, metavar="MARK",
                    help="Separator of CSV cells: ',', ';', tab or another mark. Default: detected from the first "
                         "rows.")  # fmt: skip


def _together(*options: Callable[[Any], Any]) -> Callable[[_Command], _Command]:
    """Return a decorator that adds several options; help lists the last one first."""

    def add(command: _Command) -> _Command:
        for option in options:
            command = option(command)
        return command

    return add


# what a file's columns mean
table_options = _together(
    SEP,
    click.option("--weight", metavar="COL", shell_complete=column_names, help="Column of sample weights."),
    click.option("--positive", metavar="NAME", help="The positive class, if there are two."),
    SCORE,
    COLUMNS,
    click.option("--classes", callback=list_of_names, metavar="A,B,C",
                 help="Class names in order; needed for metrics that depend on the order."),
)  # fmt: skip
# bootstrap intervals
REPLICATES = click.option("--replicates", "n_replicates", type=click.IntRange(min=0), metavar="N", default=1000,
                          show_default=True, help="Bootstrap replicates for the intervals; 0 for none.")  # fmt: skip
LEVEL = click.option("--level", type=float, metavar="X", default=0.95, show_default=True,
                     help="Coverage of the intervals.")  # fmt: skip
SEED = click.option("--seed", type=click.IntRange(min=0), metavar="N", default=0, show_default=True,
                    help="Seed of random numbers.")  # fmt: skip
bootstrap_options = _together(
    SEED,
    click.option("--stratified", is_flag=True, help="Resample within each class, as if class sizes were fixed."),
    LEVEL,
    REPLICATES,
)
# where a rule goes
rule_output = _together(
    click.option("--force", is_flag=True, help="Let -o replace a file that is not a rule file."),
    click.option("-o", "--out", type=OUT,
                 help="Where the rule goes, - for standard output. A rule file of that name is replaced. Without "
                      "-o nothing is written."),
)  # fmt: skip


def check_output(out: Path, as_json: bool, *given: Path) -> None:
    """Refuse, before any work is done, a place that cannot be written, and one of the files that are read."""
    check_place(out)
    one_result(as_json, out)
    refuse_same(out, *given)


def one_result(as_json: bool, *outputs: Path | None) -> None:
    """Refuse two results on standard output."""
    count = as_json + sum(out is not None and is_stdout(out) for out in outputs)
    if count > 1:
        raise click.UsageError(
            "two results cannot both go to standard output; name a file for one, or leave --json out"
        )


def metrics_and_bootstrap(options: dict[str, Any]) -> tuple[list[metrics.Metric], dict[str, Any]]:
    """Take the metrics and the settings of the bootstrap out of a command's options."""
    names, params = options.pop("names"), options.pop("params")
    # which of several metrics a parameter is for cannot be told
    if params and len(names) != 1:
        raise click.UsageError("--param belongs to one --metric; give exactly one")
    if "linear" in names:
        command = click.get_current_context().info_name
        raise ValueError(f"{command} has no table of costs for linear; confmax tune --costs shows its values")
    settings = {key: options.pop(key) for key in ("n_replicates", "level", "stratified", "seed")}
    check_bootstrap(settings["n_replicates"], settings["level"])
    return [metrics.get(name, **params) for name in names], settings


def load_rule(path: Path) -> DecisionRule:
    """Return the rule of a file; a missing one is refused with the way to make one."""
    if path.is_dir():
        raise ValueError(f"{path} is a directory; name a rule file, such as rule.json")
    if not path.exists():
        raise ValueError(f"there is no rule file {path}; 'confmax tune -o' writes one")
    return DecisionRule.load(path)


def check_rule_output(out: Path | None, force: bool, *given: Path) -> None:
    """Refuse a place that no rule can be written to, or where it would replace something else, such as what is read."""
    if out is None:
        if force:
            raise click.UsageError("--force says that -o may replace a file; give -o too")
        return
    refuse_same(out, *given)
    check_place(out)
    if force or not replaces(out):
        return
    try:
        DecisionRule.load(out)
    except (OSError, ValueError):
        raise ValueError(f"{out} is not a rule file, so it is not replaced; choose another name with -o, or replace it "
                         f"with --force") from None  # fmt: skip


def save_rule(rule: DecisionRule, out: Path | None, force: bool) -> str | None:
    """Write the rule if ``out`` says where; return that as documents hold it."""
    if out is None:
        return None
    check_rule_output(out, force)  # tuning may have taken hours
    write_file(out, rule.to_json().encode())
    return str(out)


def command_line(context: click.Context, command: str = "", only: Sequence[str] | None = None) -> str:
    """Return the command line of a context, with the options that were given; ``only`` these for another command."""
    words = (command or context.command_path).split()
    for parameter in context.command.params:
        name = parameter.name or ""
        # defaults are left out, so that the line is as short as the one that was typed
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if not given or (only is not None and name not in only):
            continue
        value = context.params.get(name)
        values = [f"{key}={one}" for key, one in value.items()] if isinstance(value, dict) else [value]
        if isinstance(value, tuple):
            # names as an option takes them: commas between, and quotes around a name that holds one
            line = io.StringIO()
            csv.writer(line, lineterminator="").writerow(value)
            values = list(value) if parameter.multiple else [line.getvalue()]
        option = [parameter.opts[-1]] if isinstance(parameter, click.Option) else []
        if isinstance(parameter, click.Option) and parameter.is_flag:
            words += option
            continue
        for one in values:
            words += [*option, f"{one:g}" if isinstance(one, float) else str(one)]
    return shlex.join(words)
