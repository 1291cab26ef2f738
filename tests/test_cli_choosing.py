"""`confmax tune` without a metric: what it lists, asks and takes in a terminal, and its error elsewhere."""

import importlib
import json
import os
import select
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from confmax.constraints import parse
from tests.cli_helpers import SOURCE, document, refusal, run, small

pytest.importorskip("pyarrow")
choosing = importlib.import_module("confmax.cli.choosing")
pytestmark = pytest.mark.usefixtures("inside")


@pytest.fixture
def _terminal(monkeypatch):
    # click's runner puts streams of its own in the place of stdin and stderr
    monkeypatch.setattr("confmax.cli.tune.can_ask", lambda file: True)


def listed(stderr):
    return [line.split()[1] for line in stderr.splitlines() if line[:3].strip().isdigit()]


def test_elsewhere_it_is_an_error(tmp_path):
    path = small(tmp_path)
    assert "give --metric NAME, or --costs FILE.csv; 'confmax metrics' lists" in refusal("tune", path, "--label", "y")


def test_it_asks_where_both_streams_are_terminals(monkeypatch):
    for stdin, stderr, file in [
        (True, True, "t.csv"),
        (False, True, "t.csv"),
        (True, False, "t.csv"),
        (True, True, "-"),
    ]:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda yes=stdin: yes))
        monkeypatch.setattr(sys, "stderr", SimpleNamespace(isatty=lambda yes=stderr: yes))
        assert choosing.can_ask(Path(file)) == (stdin and stderr and file != "-")
    monkeypatch.setattr(sys, "stdin", None)
    assert not choosing.can_ask(Path("t.csv"))


@pytest.mark.usefixtures("_terminal")
@pytest.mark.parametrize("answer", ["5\n", " 5 \n", "f1_macro\n", "marco_f1\n99\n5\n"])
def test_a_number_and_a_name_are_answers(answer, tmp_path):
    """Whatever is no metric is asked again; stdout holds the result alone."""
    path = small(tmp_path)
    stdout, stderr = run("tune", path, "--label", "y", "--json", data=answer)
    assert json.loads(stdout) == document("tune", path, "--label", "y", "--metric", "macro_f1")
    assert listed(stderr) == [
        "accuracy", "balanced_accuracy", "g_mean", "min_recall", "macro_f1", "f1[c]", "cohen_kappa"
    ]  # fmt: skip
    assert "'confmax metrics' lists them" in stderr
    assert "--subject-to 'precision[c] >= 0.9' (right nine times of ten), --subject-to 'rate[c] <= 0.05'" in stderr
    assert ("did you mean macro_f1" in stderr) == ("marco_f1" in answer)
    name = "f1_macro" if "f1_macro" in answer else "macro_f1"
    assert f"note: the same without the question: confmax tune {path} --label y --json --metric {name}" in stderr


@pytest.mark.usefixtures("_terminal")
def test_the_list_is_what_the_rows_and_limits_allow(tmp_path):
    path = small(tmp_path)
    more = ("--label", "y", "--classes", "a,b,c", "--columns", "a,b,c")
    _, stderr = run("tune", path, *more, data="quadratic_kappa\n")
    assert listed(stderr)[-2:] == ["cohen_kappa", "quadratic_kappa"]
    # of the rows that are decided it cannot be maximised
    undecided = ("--abstain", "ask", "--subject-to", "coverage >= 0.8")
    _, stderr = run("tune", path, *more, *undecided, data="1\n")
    assert listed(stderr)[-1] == "cohen_kappa" and "Limits are" not in stderr
    two = small(tmp_path, "two.csv", c=None, y=["ab"[k % 3 == 0] for k in range(60)], a="0.25", b="0.75")
    _, stderr = run("tune", two, "--label", "y", "--columns", "a,b", data="1\n")
    assert "f1[b]" in listed(stderr) and "here of b" in stderr
    _, stderr = run("tune", two, "--label", "y", "--columns", "a,b", "--positive", "a", data="f1\n")
    assert "f1" in listed(stderr) and "f1[b]" not in listed(stderr)


@pytest.mark.usefixtures("_terminal")
def test_parameters_belong_to_the_answer(tmp_path):
    path = small(tmp_path)
    arguments = ("tune", path, "--label", "y", "--param", "beta=2", "--json")
    stdout, stderr = run(*arguments, data="g_mean\nmacro_f_beta\n")
    assert stderr.count("Number or name") == 2
    assert json.loads(stdout)["metric"] == document(*arguments[:-1], "--metric", "macro_f_beta")["metric"]


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no pseudo terminals")
def test_in_a_real_terminal(tmp_path):
    path = small(tmp_path)
    read, write = os.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "confmax", "tune", str(path), "--label", "y"],
        stdin=write, stdout=write, stderr=write, env={**os.environ, "PYTHONPATH": str(SOURCE), "TERM": "xterm"},
    )  # fmt: skip
    os.close(write)
    shown = b""
    while select.select([read], [], [], 60)[0]:
        try:
            shown += os.read(read, 4096)
        except OSError:  # the other end is closed
            break
        if shown.endswith(b"Number or name: ") and shown.count(b"Number or name") == 1:
            os.write(read, b"3\n")
    os.close(read)
    assert child.wait(timeout=60) == 0
    assert "--metric g_mean" in shown.decode() and "DecisionRule for g_mean" in shown.decode()


@pytest.mark.usefixtures("_terminal")
@pytest.mark.parametrize("name", ["it's | x] \\ [b]", "[1]", "n" * 5000, "\x1b[31mred"])
def test_the_limits_that_it_shows_are_limits(name, tmp_path):
    """Of a class of any name; of a name that is too long, one that stands for it."""
    path = small(tmp_path, y=["ab"[k % 3 > 0] if k % 7 else name for k in range(60)])
    (tmp_path / path).write_text((tmp_path / path).read_text().replace("id,a,b,c,", f'id,a,b,"{name}",'))
    _, stderr = run("tune", path, "--label", "y", data="1\n")
    (line,) = [line for line in stderr.splitlines() if line.startswith("Limits are options")]
    words = shlex.split(line)
    shown = [words[k + 1] for k, word in enumerate(words) if word == "--subject-to"]
    assert any(one.startswith("f1[") for one in listed(stderr)) == ("[" not in name)
    assert len(shown) == 2 and all(parse(limit).text for limit in shown) and "\x1b" not in line
