"""`confmax completion`: the script by which a shell completes commands, options and values of confmax."""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class

from confmax.cli.commands import confmax

__all__ = ["completion"]

VARIABLE = "_CONFMAX_COMPLETE"  # click's name for it; the script sets it when it asks for completions


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
