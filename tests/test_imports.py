"""What a fresh process imports: each way in waits only for the libraries that it uses."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import confmax
from tests.cli_helpers import small

HEAVY = (
    "click", "rich", "numpy", "scipy.special", "scipy.sparse", "scipy.optimize", "scipy.stats", "sklearn", "pandas",
    "polars", "pyarrow", "pyarrow.csv", "pyarrow.parquet", "autograd", "matplotlib", "jinja2", "vl_convert", "torch",
    "dask", "pyspark", "onnx",
)  # fmt: skip
MAIN = "from confmax.__main__ import main\ntry:\n    main()\nexcept SystemExit:\n    pass"


def imported(code, *args, **env):
    """Return which heavy libraries a fresh process has imported after some code."""
    code = f"import sys\n{code}\nprint('imported:', *(name for name in {HEAVY} if name in sys.modules))"
    env = {**os.environ, "PYTHONPATH": str(Path(confmax.__file__).parents[1]), **env}
    done = subprocess.run([sys.executable, "-c", code, *map(str, args)], capture_output=True, text=True, env=env,
                          check=True)  # fmt: skip
    assert done.stderr == ""
    return done.stdout.split("imported:")[1].split()


@pytest.mark.parametrize(
    "args", [(), ("--version",), ("--help",), ("tune", "--help"), ("report", "--help"), ("completion", "zsh")]
)
def test_help_waits_for_click_alone(args):
    assert imported(MAIN, *args) == ["click"]


@pytest.mark.parametrize(
    "line", ["confmax tu", "confmax tune --met", "confmax explain ru", "confmax tune FILE --label "]
)
def test_completion_waits_for_click_alone(line, tmp_path):
    words = line.replace("FILE", str(small(tmp_path)))
    env = {"_CONFMAX_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    assert imported(MAIN, **env) == ["click"]
