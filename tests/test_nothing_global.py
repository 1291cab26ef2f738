"""A library call changes nothing that belongs to the whole process, nor the settings of other packages."""

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.global_state import CALLS


@pytest.mark.parametrize("name", CALLS)
def test_a_call_leaves_the_process_as_it_was(name):
    missing = [package for package in CALLS[name][1] if find_spec(package) is None]
    if missing or (name.startswith("Spark") and shutil.which("java") is None):
        pytest.skip(f"not installed: {', '.join(missing) or 'Java'}")
    code = f"from tests.global_state import main; main({name!r})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
