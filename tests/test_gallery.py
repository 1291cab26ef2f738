"""The examples of the gallery run as scripts, warnings as errors, and draw a figure."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import confmax

GALLERY = Path(__file__).parents[1] / "examples" / "gallery"
NEEDS = {
    "plot_1_imbalanced.py": (),
    "plot_2_ordinal_kappa.py": (),
    "plot_3_worst_recall.py": (),
    "plot_4_costs.py": (),
    "plot_5_lightgbm.py": ("lightgbm",),
    "plot_6_torch_logits.py": ("torch",),
    "plot_7_text.py": (),
    "plot_8_export.py": ("duckdb",),
    "plot_9_uncertainty.py": (),
}
DRAWN = "; import matplotlib.pyplot as plt; assert plt.get_fignums(), 'no figure'"


def test_every_example_is_here():
    assert {path.name for path in GALLERY.glob("*.py")} == set(NEEDS)


@pytest.mark.parametrize("name", NEEDS)
def test_example(name, tmp_path):
    for need in ("matplotlib", "pandas", *NEEDS[name]):
        if not importlib.util.find_spec(need):
            pytest.skip(f"{need} is not installed")
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(confmax.__file__).parents[1]),
        "MPLBACKEND": "agg",
        "OMP_NUM_THREADS": "1",
    }
    code = f"import runpy; runpy.run_path({str(GALLERY / name)!r}, run_name='__main__'){DRAWN}"
    command = [sys.executable, "-W", "error", "-c", code]
    found = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=300, check=False
    )
    assert found.returncode == 0, found.stderr[-2000:]
    assert "minus argmax" in found.stdout
    assert not list(tmp_path.iterdir())
