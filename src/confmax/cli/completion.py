"""`confmax completion`: the script of click with which a shell completes the commands."""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class

from confmax.cli.app import confmax


def completion(shell: str) -> None:
    """Run `confmax completion`."""
    kind = get_completion_class(shell)
    assert kind is not None
    # not the class's own: bash's also asks which bash there is here, which need not be the one that reads this
    click.echo(ShellComplete.source(kind(confmax, {}, "confmax", "_CONFMAX_COMPLETE")).strip())
