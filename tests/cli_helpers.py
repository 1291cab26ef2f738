"""Running the command line in tests, and a small table to run it on."""

import functools
import importlib
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import confmax as library

# the extra [cli] may not be installed: then the tests that import this are skipped
testing = pytest.importorskip("click.testing")
pytest.importorskip("rich")
cli = importlib.import_module("confmax.cli.app")

SOURCE = Path(library.__file__).parents[1]
HPC = Path(library.__file__).parent / "data" / "hpc_cv.csv"
CLASSES = ["VF", "F", "M", "L"]
# no file of the process grows beyond the limit: a write then fails as it does on a full disk. Python would write the
# beginning of compiled modules, too, and whoever imports them next would fail
FEW_BYTES = """
import os, resource, signal
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))
"""


@functools.cache
def demonstrated():
    """Return the rule and the document of `confmax demo`, some seconds of work, once for all tests of a process."""
    return importlib.import_module("confmax.cli.demo").demonstrate()


def invoked(*args, **settings):
    """Run a command in this process, apart from pytest's own warnings; return what click's runner saw."""
    apart = {"mix_stderr": False} if "mix_stderr" in inspect.signature(testing.CliRunner).parameters else {}
    result = testing.CliRunner(**apart).invoke(cli.confmax, [str(arg) for arg in args], **settings)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def run(*args, code=0, env=None, data=None):
    """Run a command in this process; return its stdout and stderr."""
    result = invoked(*args, env=env, input=data)
    assert result.exit_code == code, result.stderr
    return result.stdout, result.stderr


def refusal(*args, **settings):
    """Run a command that is refused: return its one sentence, beside which nothing is printed."""
    stdout, stderr = run(*args, code=2, **settings)
    assert stdout == "" and stderr.startswith("error: ") and stderr.count("\n") == 1
    return stderr


def shell(line, code=0):
    """Run a line of bash in which {} is the command; return what it printed, and what on stderr."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = ["bash", "-c", line.format(f"{sys.executable} -m confmax")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


def run_process(*args, code="from confmax.__main__ import main; main()", first="", **extra):
    """Run a command in a process of its own, which runs the code ``first`` before."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "COLUMNS": "80", **extra.pop("env", {})}
    command = after(first, [sys.executable, "-W", "error", "-c", code, *map(str, args)])
    extra = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **extra}
    return subprocess.run(command, text=True, env=environment, timeout=120, check=False, **extra)


def after(first, command):
    """Return a command whose process runs the code ``first`` before.

    It stands for `preexec_fn`, which runs in a child of a process with threads: a lock of one of these stays locked
    there, and the child may wait for it for ever.
    """
    return [sys.executable, "-ISc", f"{first}\nimport os, sys\nos.execv(sys.argv[1], sys.argv[1:])", *command]


def document(*args, code=0):
    stdout, _ = run(*args, "--json", code=code)
    return json.loads(stdout)


def small(folder, name="small.csv", rows=60, **replaced):
    """Write a small table of three classes, with a cell, a column or more replaced."""
    draw = np.random.default_rng(0)
    P = draw.dirichlet([2, 1, 1], rows).round(4)
    P[:, 2] = 1 - P[:, 0] - P[:, 1]
    columns = {
        "id": [f"{k:03d}" for k in range(rows)],
        **{name: [f"{value:.4f}" for value in P[:, k]] for k, name in enumerate("abc")},
        "w": ["1"] * rows,
        "y": ["abc"[draw.choice(3, p=row / row.sum())] for row in P.clip(0)],
    }
    for key, cells in replaced.items():
        if isinstance(cells, dict):
            for row, cell in cells.items():
                columns[key][row] = cell
        elif cells is None:
            del columns[key]
        else:
            columns[key] = cells if isinstance(cells, list) else [cells] * rows
    lines = [",".join(columns), *(",".join(cells) for cells in zip(*columns.values(), strict=True))]
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder / name
