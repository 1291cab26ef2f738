"""`confmax completion`: the script is printed, or put where the shell of the user looks, and nowhere else."""

import importlib
import os
from pathlib import Path

import pytest

from tests.cli_helpers import refusal, run

pytestmark = pytest.mark.usefixtures("inside")
FILES = {
    "bash": ".local/share/bash-completion/completions/confmax",
    "zsh": ".zfunc/_confmax",
    "fish": ".config/fish/completions/confmax.fish",
}


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "ZDOTDIR", "BASH_COMPLETION_USER_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "a home"))
    (tmp_path / "a home").mkdir()
    return tmp_path / "a home"


def files_in(folder):
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("shell", FILES)
def test_the_script_is_installed_once(shell, home, monkeypatch):
    """For the shell that the system names; no other file is written."""
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    script, _ = run("completion", shell)
    assert run("completion") == (script, "")
    first, _ = run("completion", "--install")
    assert first.startswith(f"written    {home / FILES[shell]}\n")
    assert files_in(home) == [FILES[shell]] and (home / FILES[shell]).read_text() == script
    again, _ = run("completion", "--install", shell)
    assert again == first.replace("written  ", "unchanged")
    (home / FILES[shell]).write_text("_CONFMAX_COMPLETE of an older version")
    assert run("completion", "--install")[0] == first
    assert (home / FILES[shell]).read_text() == script


def test_the_line_to_add_is_printed(home):
    last = {shell: run("completion", "--install", shell)[0].splitlines()[-1] for shell in FILES}
    assert last == {
        "bash": "  . ~/.local/share/bash-completion/completions/confmax",
        "zsh": "  fpath=(~/.zfunc $fpath); autoload -Uz compinit && compinit",
        "fish": "New shells load it; nothing else is needed.",
    }
    (home / ".zshrc").write_text("autoload -Uz compinit\ncompinit\n")
    told = run("completion", "--install", "zsh")[0]
    assert "above the one that starts completion" in told and told.endswith("\n  fpath=(~/.zfunc $fpath)\n")
    (home / ".zshrc").write_text("fpath=(~/.zfunc $fpath)\ncompinit\n")
    assert run("completion", "--install", "zsh")[0].endswith("names the folder already.\n")
    assert (home / ".zshrc").read_text() == "fpath=(~/.zfunc $fpath)\ncompinit\n"


def test_folders_that_the_shells_are_told(home, monkeypatch):
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "ZDOTDIR"):
        monkeypatch.setenv(name, f"{home}/{name}")
    place_of = importlib.import_module("confmax.cli.completion").place_of
    assert place_of("bash") == home / "XDG_DATA_HOME/bash-completion/completions/confmax"
    assert place_of("zsh") == home / "ZDOTDIR/.zfunc/_confmax"
    assert place_of("fish") == home / "XDG_CONFIG_HOME/fish/completions/confmax.fish"
    monkeypatch.setenv("BASH_COMPLETION_USER_DIR", f"{home}/one:{home}/two")
    assert place_of("bash") == home / "one/completions/confmax"
    # a name with a space is quoted for the shell
    monkeypatch.setenv("ZDOTDIR", f"{home.parent}/z dot")
    assert f"fpath=('{home.parent}/z dot/.zfunc' $fpath)" in run("completion", "--install", "zsh")[0]


@pytest.mark.parametrize("shell", FILES)
def test_a_file_of_another_program_stays(shell, home):
    path = home / FILES[shell]
    path.parent.mkdir(parents=True)
    path.write_text("complete -W 'mine' confmax")
    assert f"{path} is not confmax's, so it stays as it is" in refusal("completion", "--install", shell)
    assert path.read_text() == "complete -W 'mine' confmax"


def test_a_folder_that_cannot_be_made_is_named(home):
    (home / ".zfunc").write_text("a file")
    assert str(home / ".zfunc") in refusal("completion", "--install", "zsh")


@pytest.mark.parametrize("named", ["", "relative", "/none/there", "file", None])
def test_without_a_folder_of_the_user_nothing_is_written(named, home, monkeypatch):
    """An empty HOME would be the root; without one the system may know no user."""
    (home / "file").touch()
    (home.parent / "relative").mkdir()
    monkeypatch.setenv("HOME", str(home / named) if named == "file" else named or "")
    if named is None:
        monkeypatch.delenv("HOME")
        monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home directory")))
    before = files_in(home.parent)
    for shell in FILES:
        assert "the variable HOME does not name your folder; set it, or" in refusal("completion", "--install", shell)
        assert run("completion", shell)[0]
    assert files_in(home.parent) == before


@pytest.mark.parametrize("value", ["", ":", "relative", ":/first/is/empty"])
def test_folders_that_are_not_absolute_are_ignored(value, home, monkeypatch):
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "ZDOTDIR", "BASH_COMPLETION_USER_DIR"):
        monkeypatch.setenv(name, value)
    for shell, path in FILES.items():
        assert run("completion", "--install", shell)[0].startswith(f"written    {home / path}\n")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_what_is_no_file_stays(home):
    """Neither a folder nor a pipe is read."""
    (home / FILES["zsh"]).mkdir(parents=True)
    (home / FILES["bash"]).parent.mkdir(parents=True)
    os.mkfifo(home / FILES["bash"])
    os.mkfifo(home / ".zshrc")
    for shell in ("bash", "zsh"):
        assert f"{home / FILES[shell]} is not confmax's, so it stays" in refusal("completion", "--install", shell)
    (home / FILES["zsh"]).rmdir()
    assert f"Add this line to {home}/.zshrc:" in run("completion", "--install", "zsh")[0]


@pytest.mark.parametrize("shell", ["/bin/tcsh", ""])
def test_another_shell_is_told_those_there_are(shell, home, monkeypatch):
    monkeypatch.setenv("SHELL", shell)
    sentence = refusal("completion", "--install")
    assert "give the shell, bash, zsh or fish: " in sentence and Path(shell).name in sentence
    assert files_in(home) == []
