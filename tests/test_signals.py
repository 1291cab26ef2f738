"""Signals that end a command: files stay whole, nothing is left behind, and the exit code says what happened."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from confmax import __main__ as command
from tests.cli_helpers import SOURCE, after, run, run_process, small

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.usefixtures("inside")
SAID = {
    signal.SIGINT: "interrupted\n",
    signal.SIGTERM: "terminated\n",
    signal.SIGHUP: "the terminal was closed\n",
}
SIGNALS = pytest.mark.parametrize("number", SAID, ids=lambda number: number.name)


# what processes inherit is undone: a shell lets those in its background ignore interruptions, nohup hang-ups
OBEY = f"import signal\nfor number in {list(map(int, SAID))}: signal.signal(number, signal.SIG_DFL)"


# the signal comes at the moment when the new file is there, beside the old one
AT_REPLACE = """
import os, signal, confmax.places
confmax.places.os.replace = lambda *_: signal.raise_signal({})
from confmax.__main__ import main
main()
"""
# Python prints what a destructor raises, and goes on
IN_DESTRUCTOR = """
import signal, confmax.cli.metrics as work
class Last:
    def __del__(self):
        signal.raise_signal({})
every = work.every_metric
work.every_metric = lambda: (Last(), every())[1]
from confmax.__main__ import main
main()
"""


@SIGNALS
def test_what_a_signal_says(number, monkeypatch, capfd):
    ends = []
    monkeypatch.setattr(os, "_exit", ends.append)
    command._end(number, None)
    assert ends == [128 + number]
    assert capfd.readouterr() == ("", SAID[number])


@SIGNALS
def test_a_file_that_is_being_written_is_removed(tmp_path, number):
    path = small(tmp_path)
    out = tmp_path / "out.csv"
    out.write_text("old")
    run("tune", path, "--label", "y", "--metric", "macro_f1", "-o", "rule.json")
    done = run_process("apply", "rule.json", path, "-o", out, code=AT_REPLACE.format(number), first=OBEY)
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", SAID[number])
    assert out.read_text() == "old"
    assert {each.name for each in tmp_path.iterdir()} == {"out.csv", "rule.json", path.name}


@SIGNALS
def test_no_callback_swallows_a_signal(number):
    done = run_process("metrics", code=IN_DESTRUCTOR.format(number), first=OBEY)
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", SAID[number])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_an_ignored_signal_stays_ignored(number):
    """As in the background of a shell, and below nohup."""
    ignore = f"import signal\nsignal.signal({int(number)}, signal.SIG_IGN)"
    done = run_process("metrics", "--json", code=IN_DESTRUCTOR.format(int(number)), first=ignore)
    assert (done.returncode, done.stderr) == (0, "")


@SIGNALS
def test_a_command_ends_whenever_a_signal_comes(tmp_path, number):
    """At random moments: the old file or the new one, and nothing else."""
    path = small(tmp_path, rows=20_000)
    command = [
        sys.executable,
        "-m",
        "confmax",
        "tune",
        path.name,
        "--label",
        "y",
        "--metric",
        "macro_f1",
        "-o",
        "r.json",
    ]
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    subprocess.run(command, env=env, check=True, capture_output=True)
    new = (tmp_path / "r.json").read_bytes()
    old = new.replace(b"{", b"{ ", 1)
    draw = random.Random(number)
    (tmp_path / "r.json").write_bytes(old)
    process = subprocess.Popen(after(OBEY, command), env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    # before the package is there, Python itself answers signals
    time.sleep(0.25 + draw.random())
    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)
    # what had ended, or was ending, has no more to say
    assert stderr in ("", SAID[number])
    assert process.returncode in ((128 + number,) if stderr else (0, -number))
    assert (tmp_path / "r.json").read_bytes() in (old, new)
    assert {each.name for each in tmp_path.iterdir()} == {"r.json", path.name}


@pytest.mark.parametrize("command", ["apply rule.json {} -o -", "export rule.json --to python -o /dev/stdout"])
def test_a_reader_that_has_enough_ends_a_command_in_silence(tmp_path, command):
    """It has gone before the first byte comes."""
    path = small(tmp_path)
    run("tune", path, "--label", "y", "--metric", "macro_f1", "-o", "rule.json")
    before = {each.name for each in tmp_path.iterdir()}
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "confmax", *command.format(path.name).split()],
        env={**os.environ, "PYTHONPATH": str(SOURCE)}, stdout=write, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")
    assert {each.name for each in tmp_path.iterdir()} == before


def test_a_command_without_standard_output_says_so(monkeypatch, capfd):
    monkeypatch.setattr(command.signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(SystemExit, match="2"):
        command.main()
    assert capfd.readouterr().err.startswith("error: standard output is closed, so results would be lost")


def test_a_damaged_installation_is_told_from_a_missing_extra(monkeypatch):
    def fails(**_):
        raise ModuleNotFoundError("No module named 'other'", name="other")

    monkeypatch.setattr(command.signal, "signal", lambda *_: None)
    monkeypatch.setattr("confmax.cli.confmax", fails)
    with pytest.raises(ModuleNotFoundError, match="other"):
        command.main()
