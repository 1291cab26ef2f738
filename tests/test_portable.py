"""What only some systems have: calls of POSIX, kernels, and a warning where there are none."""

import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

import confmax
from confmax import DecisionRule, kernels, places
from confmax.cli import in_parts
from confmax.confusion import Gains
from confmax.kernels import blocks
from confmax.oracle import make_oracle, make_table
from tests.helpers import by_numpy

WITHOUT_POSIX = """
import os, signal, sys
for name in ("sysconf", "fork", "register_at_fork", "sched_getaffinity", "chown", "O_NOCTTY", "getuid", "umask"):
    if hasattr(os, name):
        delattr(os, name)
del signal.SIGPIPE
for name in ("fcntl", "resource", "termios", "pwd", "grp"):
    sys.modules[name] = None
"""


def in_a_process(code, **environment):
    source = str(Path(confmax.__file__).parents[1])
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": source, **environment})  # fmt: skip


def test_maximize_needs_no_call_of_posix():
    done = in_a_process(
        f"{WITHOUT_POSIX}\nimport confmax\n"
        "rule = confmax.maximize('g_mean', [[0.8, 0.2], [0.4, 0.6]] * 9, [0, 1] * 9).rule\nprint(rule.metric)"
    )
    assert (done.stdout, done.stderr) == ("g_mean\n", "")


@pytest.mark.parametrize("words", [("--version",), ("metrics",), ("demo", "-o", "-")])
def test_commands_need_no_call_of_posix(words):
    pytest.importorskip("pyarrow")
    pytest.importorskip("click")
    code = f"{WITHOUT_POSIX}\nfrom confmax.__main__ import main\nsys.argv[1:] = {words!r}\nmain()"
    done = in_a_process(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_memory_and_processors_of_a_system_that_does_not_say(monkeypatch):
    monkeypatch.delattr(os, "sysconf")
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.delenv("CONFMAX_NUM_THREADS", raising=False)
    assert in_parts._memory() == in_parts.USUAL_MEMORY
    assert blocks.most_threads() == os.cpu_count()


def test_standard_output_without_a_file_of_its_name(monkeypatch, tmp_path, capfd):
    nowhere = tmp_path / "none" / "stdout"
    assert not places.is_stdout(nowhere)
    with pytest.raises(ValueError, match="does not exist"):
        places.check_place(nowhere)
    monkeypatch.setattr(places, "STDOUT", nowhere)
    monkeypatch.delattr(os, "O_NOCTTY")
    assert places.is_stdout(nowhere) and places.is_stream(nowhere)
    places.write_whole(nowhere, b"rule")
    places.write_whole(Path(os.devnull), b"nothing")
    assert capfd.readouterr().out == "rule"


# --- without kernels -------------------------------------------------------------------------------------------------


@pytest.fixture
def bare(monkeypatch):
    """An installation without kernels, where a table of more than 20 entries is large."""
    monkeypatch.setattr(kernels, "missing", True)
    monkeypatch.setattr(kernels, "MANY_ENTRIES", 20)
    monkeypatch.setattr(kernels, "_warned", threading.Lock())
    with by_numpy():
        yield


@pytest.mark.usefixtures("bare")
def test_a_large_table_without_kernels_warns_once():
    rule, gains = DecisionRule.from_weights([1, 2]), Gains.reduced([1.0, 1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_oracle(make_table([[0.5, 0.5]] * 10)).maximize(gains)  # small
    large = np.full((11, 2), 0.5)
    with pytest.warns(UserWarning, match="no compiled kernels, so NumPy scans a table of 22 entries") as caught:
        make_oracle(make_table(large)).maximize(gains)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rule.predict(large)


@pytest.mark.usefixtures("bare")
def test_deciding_warns_too():
    with pytest.warns(UserWarning, match="with GCC or Clang, pip install --force-reinstall --no-deps --no-binary"):
        DecisionRule.from_weights([1, 2]).predict(np.full((11, 2), 0.5))


@pytest.mark.usefixtures("bare")
def test_the_way_out_on_windows_is_another_system(monkeypatch):
    monkeypatch.setattr(kernels.os, "name", "nt")
    assert "there are none for Windows: WSL or Linux has them" in kernels.without_kernels(1000)


@pytest.mark.parametrize(("asked", "missing"), [("numpy", False), ("", True)])
def test_who_asks_for_numpy_is_not_warned(asked, missing):
    code = (
        "import sys; sys.modules['confmax.kernels.native'] = None\n"  # as if it were not there
        "from confmax import kernels; print(kernels.missing, bool(kernels.without_kernels(10**7)), kernels.in_words())"
    )
    done = in_a_process(code, CONFMAX_INSTRUCTIONS=asked)
    assert done.stdout == f"{missing} {missing} none, NumPy decides\n", done.stderr
