"""The command line's frame: the group of commands, completion, errors and exit codes.

Every error of the user's making ends here as one sentence on stderr, in the words of the options, with exit code 2.
Other exceptions are bugs and keep their traceback, with exit code 1. If the reader of the output stops reading, nothing
is said.
"""

from __future__ import annotations

import csv
import difflib
import errno
import io
import os
import re
import shlex
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from confmax import kernels
from confmax._version import __version__
from confmax.cli.texts import EXPORTS, clean, shortened
from confmax.errors import InputError, Sentence
from confmax.places import shown_in

# --- errors ----------------------------------------------------------------------------------------------------------

# what the library says of its arguments, where the option has another name or there is none
_OPTIONS = {"y": "label", "cost": "costs", "sample_weight": "weight", "keys": "key", "order_known": "classes"}
_WORDS = {
    "proba": "the table of probabilities",
    "tuned_on=(proba, y)": "--tuned-on and --tuned-label",
    "new_proba=": "FILE",
    "source": "RULE",
    "shrink": "the shrinkage",
    "y": "the label column",
    "sample_weight": "the weight column",
    "confmax.metrics.names()": "'confmax metrics'",
    **{f"to_{language}": f"--to {language}" for language in EXPORTS},
}
_VALUES = {"True": "yes", "False": "no", "None": "none"}  # in the words of options that offer a choice
# options by other names that people try first
_TRIED = {
    **dict.fromkeys(("--constraint", "--constraints", "--limit", "--limits"), "--subject-to"),
    **dict.fromkeys(("--labels", "--target"), "--label"),
    "--tags": "--labels",
    "--output": "--out",
    "--overwrite": "--force",
    "--groups": "--group",
    "--random-state": "--seed",
    "--pos-label": "--positive",
}
LONGEST_WORD = 200  # characters of a name in a message: a cell of a file can be a megabyte
LONGEST_LINE = 2000


# what writing to a stream without a name raises; files that confmax writes are named in their errors
_WRITING = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO, errno.EBADF)


def option_for(argument: str, words: str) -> str:
    """Return what the command line calls an ``argument``, for which the library says ``words``."""
    if words in _WORDS:
        return _WORDS[words]
    options = {option.name: option for command in confmax.commands.values() for option in command.params}
    option = options.get(_OPTIONS.get(argument, argument))
    if not isinstance(option, click.Option):
        return words
    name = option.opts[-1]
    # the one pair among values, which is written with a colon
    words = re.sub(r"\('at_most', (\d+)\)", r"at-most:\1", words)
    _, sign, value = words.replace("'", "").partition("=")
    if not sign or option.is_flag:
        return name
    if isinstance(option.type, click.Choice):
        return f"{name} {_VALUES.get(value, value)}"
    return f"{name} {option.metavar if value in ('', 'True') else shlex.quote(value)}"


def in_words_of_options(message: str) -> str:
    """Return a library's sentence on one line of readable length, its arguments called as the options are."""
    message = message.said(option_for) if isinstance(message, Sentence) else str(message)
    message = re.sub(rf"\S{{{LONGEST_WORD + 1},}}", lambda word: shortened(word[0], LONGEST_WORD), message)
    return clean(shortened(" ".join(message.split()), LONGEST_LINE))


def warn(*messages: str) -> None:
    """Print warnings on stderr, one line each."""
    for message in messages:
        click.echo(f"warning: {in_words_of_options(message)}", err=True)


def fail(message: str, code: int = 2) -> NoReturn:
    """Print a library's sentence as an error, and end the process with an exit code."""
    counted = " (rows are counted from 0, after the names)" if re.search(r"\brow \d+ of\b", message) else ""
    # what click says of arguments may hold an address with its password
    click.echo(f"error: {shown_in(in_words_of_options(message))}{counted}", err=True)
    sys.exit(code)


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
                warnings.showwarning = lambda message, *_rest, **_more: warn(*message.args[:1])
                code = super().main(*args, **extra)
                sys.stdout.flush()
        except click.UsageError as error:
            path = error.ctx.command_path if error.ctx is not None else "confmax"
            if isinstance(error, click.NoSuchOption) and error.ctx is not None:
                options = {name for option in error.ctx.command.params for name in option.opts}
                meant = _TRIED.get(error.option_name, "")
                if meant in options:
                    error = click.UsageError(f"No such option {error.option_name}. Did you mean {meant}?", error.ctx)
            fail(f"{error.format_message().rstrip('.')}; '{path} --help' tells more")
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
                fail(f"standard output cannot be written ({why}); redirect it to another place")
            where = f"{error.filename}: " if error.filename else ""
            fail(f"{where}{why}; check the path and its permissions")
        except (click.ClickException, ValueError, ImportError) as error:
            # the library's sentence about an extra names no module; an import that fails by itself is a bug
            if isinstance(error, ImportError) and error.name is not None:
                raise
            fail(error.sentence if isinstance(error, InputError) else str(error))
        sys.exit(code if isinstance(code, int) else 0)


def _version(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    """Print the version, and the instructions of the processor that decide."""
    if not wanted or context.resilient_parsing:
        return
    click.echo(f"confmax, version {__version__}\nkernels: {kernels.in_words()}")
    context.exit()


SETTINGS = {"help_option_names": ["-h", "--help"], "show_default": True}


@click.group(cls=OneSentence, invoke_without_command=True, context_settings=SETTINGS)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version and exit."
)
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
# It runs at every press of a key, so each function imports what it needs and no more.


def metric_names(_context: click.Context, _option: click.Parameter, typed: str) -> list[CompletionItem]:
    """Return the metrics, and the aliases, that begin so."""
    from confmax import metrics

    # colons separate names from descriptions in what shells read; linear has none without its table
    about = {name: metrics.get(name).description.replace(":", ",") for name in metrics.names() if name != "linear"}
    names = [*metrics.names(), *(sorted(metrics.aliases()) if typed else ())]
    return [CompletionItem(name, help=about.get(name)) for name in names if name.startswith(typed)]


def solver_names(_context: click.Context, _option: click.Parameter, typed: str) -> list[str]:
    """Return the solvers that begin so."""
    from confmax.optimize import SOLVERS

    return [name for name in ("auto", *SOLVERS) if name.startswith(typed)]


# --- a line to repeat ------------------------------------------------------------------------------------------------


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
        if name == "decisions" and isinstance(value, tuple):
            values = [f"at-most:{value[-1]}"]
        elif isinstance(value, tuple):
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
