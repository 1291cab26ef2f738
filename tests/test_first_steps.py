"""The newcomer's walk in docs/first-steps.md: every command is run, every printed line is compared.

``python -m tests.test_first_steps`` writes what the commands print into the page, for those who change the output.
"""

import os
import re
import stat
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest

import confmax

PAGE = Path(__file__).parents[1] / "docs" / "first-steps.md"
SOURCE = Path(confmax.__file__).parents[1]
# what may differ from run to run, in the page and in what is printed: nothing else is forgiven
NORMALISED = ((r"version \d+\.\d+\.\d+\S*", "version X"), (r"\d+(\.\d+)? (s|ms)\b", "T s"))
REPORTED = "Report written to report.html; its figures are cross-fitted.\n"
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
SCRIPT = re.compile(r"<!-- file: (\S+) -->\n```python\n(.*?)```", re.DOTALL)


def environment(folder):
    """Return an environment where `confmax` and `python` are those under test, and warnings are errors."""
    (folder / "bin").mkdir()
    for name, command in (("confmax", "-m confmax"), ("python", "")):
        path = folder / "bin" / name
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" {command} "$@"\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    kept = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "FORCE_COLOR")}
    kept["PYTHONWARNINGS"] = "error"
    return {**kept, "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(SOURCE)}


def walked(page, folder):
    """Return the page with what its commands print now."""
    env = environment(folder)
    work = folder / "work"
    work.mkdir()
    for name, text in SCRIPT.findall(page):
        (work / name).write_text(text)

    def run(block):
        told = ""
        for line in block[1].splitlines():
            if line.startswith("$ "):
                done = subprocess.run(line[2:], shell=True, cwd=work, env=env, text=True, timeout=300,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)  # fmt: skip
                assert done.returncode == 0, f"{line}\n{done.stdout}"
                told += f"{line}\n{done.stdout}"
        return f"```console\n{told}```"

    return BLOCK.sub(run, page)


def without_report(page):
    """Return the page where reports cannot be written: without the option, and without what it prints."""
    return page.replace(" --report report.html\n", "\n").replace(REPORTED, "")


def normalised(text):
    for pattern, replacement in NORMALISED:
        text = re.sub(pattern, replacement, text)
    return text


def test_every_printed_line_is_real(tmp_path):
    pytest.importorskip("click")
    pytest.importorskip("rich")
    pytest.importorskip("pyarrow")
    page = PAGE.read_text()
    assert len(re.findall(r"^\$ ", page, re.MULTILINE)) >= 9
    assert page.count(" --report report.html\n") == page.count(REPORTED) == 1
    if find_spec("vl_convert") is None:
        page = without_report(page)
    assert normalised(walked(page, tmp_path)) == normalised(page)


def test_a_wrong_number_would_be_found(tmp_path):
    page = "```console\n$ echo 0.5705\n0.5706\n```\n"
    assert normalised(walked(page, tmp_path)) != normalised(page)


def test_numbers_in_the_prose_are_those_of_the_transcript():
    """Every decimal fraction that the prose speaks of is printed somewhere, rounded."""
    page = PAGE.read_text()
    printed = [abs(float(number)) for block in BLOCK.findall(page) for number in re.findall(r"\d\.\d+", block)]
    prose = BLOCK.sub("", SCRIPT.sub("", page))
    for number in re.findall(r"(?<![\w.])\.\d+", prose):
        digits = len(number) - 1
        assert any(abs(each - float(number)) <= 0.501 * 10**-digits for each in printed), number


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        PAGE.write_text(walked(PAGE.read_text(), Path(place)))
