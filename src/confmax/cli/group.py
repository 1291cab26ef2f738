"""How every command ends: errors are one sentence in the words of the options, and exit codes tell what happened.

Every error of the user's making ends here on stderr with exit code 2; other exceptions are bugs and keep their
traceback, with exit code 1. Somebody who stops reading the output is no error worth a word.
"""

from __future__ import annotations

import difflib
import errno
import os
import re
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn

import click

from confmax.cli.columns import shortened
from confmax.cli.show import clean

__all__ = ["OneSentence", "in_words_of_options", "warn"]

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
    (r"\b(raise|lower|larger) max_passes\b", r"\1 --max-passes"),
    (r"^max_passes cut", "--max-passes cut"),
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


def warn(message: str) -> None:
    """Print a warning on stderr, on one line."""
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

    def main(
        self, args: Sequence[str] | None = None, prog_name: str | None = None, *rest: Any, **extra: Any
    ) -> NoReturn:
        """Run a command and end the process; ``standalone_mode`` is click's and has no effect here."""
        extra["standalone_mode"] = False
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("always", UserWarning)
                warnings.showwarning = lambda message, *_rest, **_more: warn(str(message))
                code = super().main(args, prog_name, *rest, **extra)
                sys.stdout.flush()
        except click.UsageError as error:
            path = error.ctx.command_path if error.ctx is not None else "confmax"
            _fail(f"{error.format_message().rstrip('.')}; '{path} --help' tells more")
        except click.ClickException as error:
            _fail(error.format_message())
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
        except ValueError as error:
            _fail(str(error))
        sys.exit(code if isinstance(code, int) else 0)
