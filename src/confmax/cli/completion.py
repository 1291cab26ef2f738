"""`confmax completion`: the script with which a shell completes the commands, printed or put where the shell looks."""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from pathlib import Path

import click
from click.shell_completion import ShellComplete, get_completion_class

from confmax.cli.app import VARIABLE, confmax
from confmax.places import write_whole

SHELLS = ("bash", "zsh", "fish")


def completion(shell: str | None, install: bool) -> None:
    """Run `confmax completion`."""
    shell = shell or _own_shell()
    kind = get_completion_class(shell)
    assert kind is not None
    # not the class's own: bash's also asks which bash there is here, which need not be the one that reads this
    script = ShellComplete.source(kind(confmax, {}, "confmax", VARIABLE)).strip()
    if not install:
        click.echo(script)
        return
    path = place_of(shell)
    click.echo(f"{_put(path, f'{script}{os.linesep}'.encode())} {path}")
    click.echo(_what_else(shell, path))


def _own_shell() -> str:
    """Return the shell of the user, as the system names it."""
    name = Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        known = f"your shell, {name}, is none of them" if name else "the variable SHELL does not say which is yours"
        raise click.UsageError(f"give the shell, bash, zsh or fish: {known}", click.get_current_context())
    return name


def place_of(shell: str) -> Path:
    """Return the file in the user's folder from which a shell loads the completion of confmax."""

    def folder(variable: str, default: Path) -> Path:
        # some of these may list several folders, the first of which counts most; shells ignore what is relative
        given = Path(os.environ.get(variable, "").split(os.pathsep)[0])
        return given if given.is_absolute() else default

    home = _home()
    if shell == "fish":
        return folder("XDG_CONFIG_HOME", home / ".config") / "fish" / "completions" / "confmax.fish"
    if shell == "zsh":
        # zsh has no folder of its own for users; this one is the usual
        return folder("ZDOTDIR", home) / ".zfunc" / "_confmax"
    data = folder("XDG_DATA_HOME", home / ".local" / "share")
    return folder("BASH_COMPLETION_USER_DIR", data / "bash-completion") / "completions" / "confmax"


def _home() -> Path:
    """Return the user's folder; a ValueError if the system names none."""
    home = Path()
    with suppress(RuntimeError):
        home = Path.home()
    # Python takes an empty variable for the root
    if os.environ.get("HOME") == "" or not home.is_absolute() or not home.is_dir():
        raise ValueError(
            "the variable HOME does not name your folder; set it, or print the script to a file: "
            "confmax completion SHELL > FILE"
        )
    return home


def _put(path: Path, script: bytes) -> str:
    """Write the script, unless it is there or another program's file is; return what was done, as a word."""
    if path.exists():
        # reading from a pipe would wait
        old = path.read_bytes() if path.is_file() else b""
        if old == script:
            return "unchanged "
        if VARIABLE.encode() not in old:
            raise ValueError(
                f"{path} is not confmax's, so it stays as it is; move it away, or print the script to another file: "
                f"confmax completion SHELL > FILE"
            )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, script)
    return "written   "


def _what_else(shell: str, path: Path) -> str:
    """Return what is left to do, with the line to add where one is needed: start-up files are never edited."""
    if shell == "fish":
        return "New shells load it; nothing else is needed."
    if shell == "bash":
        line = f". {_for_shell(path)}"
        return f"New shells load it with the package bash-completion. Without it, add this line to ~/.bashrc:\n  {line}"
    start = path.parent.parent / ".zshrc"
    known = ""
    with suppress(OSError):  # none, or one that cannot be read
        known = start.read_text(errors="replace") if start.is_file() else ""
    if path.parent.name in known:
        return f"New shells load it; {start} names the folder already."
    line = f"fpath=({_for_shell(path.parent)} $fpath)"
    if "compinit" in known or "oh-my-zsh" in known:
        return f"Add this line to {start}, above the one that starts completion (compinit or oh-my-zsh):\n  {line}"
    return f"Add this line to {start}:\n  {line}; autoload -Uz compinit && compinit"


def _for_shell(path: Path) -> str:
    """Return a path as a shell reads it, short where it lies in the user's folder."""
    home = Path.home()
    if path.is_relative_to(home):
        return f"~/{shlex.quote(str(path.relative_to(home)))}"
    return shlex.quote(str(path))
