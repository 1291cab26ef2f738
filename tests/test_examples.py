"""The examples run, at a small size and warnings as errors, and print a rule."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import confmax
from tests.fresh_process import WARNINGS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
NEEDS = {
    "larger_than_memory.py": ("pyarrow",),
    "dask_cluster.py": ("dask", "distributed"),
    "spark_ml.py": ("pyspark", "pyarrow", "java"),
}


def test_every_example_is_here():
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == set(NEEDS)


@pytest.mark.parametrize("name", NEEDS)
def test_example(name, tmp_path):
    for need in NEEDS[name]:
        if not (shutil.which(need) if need == "java" else importlib.util.find_spec(need)):
            pytest.skip(f"{need} is not installed")
    environment = {**os.environ, "PYTHONPATH": str(Path(confmax.__file__).parents[1])}
    command = [sys.executable, *WARNINGS, str(ROOT / "examples" / name), "20000"]
    found = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=300, check=False
    )
    assert found.returncode == 0, found.stderr[-2000:]
    assert "DecisionRule for" in found.stdout
