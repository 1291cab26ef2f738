"""The examples of the gallery run as scripts, warnings as errors, draw a figure, and gain what their words say."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import confmax

pytestmark = pytest.mark.slow

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
    "plot_abstaining.py": (),
    "plot_groups.py": (),
    "plot_limits_capacity.py": (),
    "plot_limits_recall.py": (),
    "plot_theory.py": (),
}
# metric, rule, and what the text says of its difference to argmax: the interval lies above zero, below, or around it
SAID = {
    "plot_1_imbalanced.py": [("g_mean", "rule", ">"), ("accuracy", "rule", "<"), ("macro_f1", "for macro_f1", "=")],
    "plot_2_ordinal_kappa.py": [("quadratic_kappa", "tuned", ">"), ("accuracy", "tuned", "=")],
    "plot_3_worst_recall.py": [("min_recall", "rule", "="), ("accuracy", "rule", ">")],
    "plot_4_costs.py": [("linear", "calibrated", "=")],
    "plot_5_lightgbm.py": [("macro_f1", "rule", "=")],
    "plot_6_torch_logits.py": [("g_mean", "rule", "=")],
    "plot_7_text.py": [("macro_f1", "rule", ">"), ("accuracy", "rule", "=")],
    "plot_8_export.py": [("min_recall", "rule", "=")],
    "plot_9_uncertainty.py": [("f_beta(beta=2.0)", "rule", "="), ("accuracy", "rule", "<")],
    "plot_abstaining.py": [("accuracy", "rule", ">"), ("coverage", "rule", "<")],
    "plot_groups.py": [],
    "plot_limits_capacity.py": [("recall[L]", "rule", "="), ("accuracy", "rule", "=")],
    "plot_limits_recall.py": [("recall[malignant]", "rule", "="), ("accuracy", "rule", "<")],
    "plot_theory.py": [],
}
# what examples print beside scores, and their words repeat
PRINTED = {
    "plot_abstaining.py": (
        r"one threshold: accuracy 0\.92\d, .* 0\.5\d", r"floors: accuracy 0\.9[23]\d, .* 0\.6\d",
        r"Chow's rule: mean loss .* 0\.069", r"tuned rules: mean loss .* 0\.07",
    ),
    "plot_groups.py": (
        r"argmax: accuracy 0\.73\d, recall of heavier 0\.9\d+, of slim 0\.5",
        r"floor for every group: accuracy 0\.7[34]\d, recall of heavier 0\.9\d+, of slim 0\.7",
        r"equal recalls: accuracy 0\.7[012]\d, recall of heavier 0\.[67]\d+, of slim 0\.7",
    ),
    "plot_limits_capacity.py": (r"argmax flags 0\.05[1-9] of the jobs, the rule 0\.04",),
    "plot_limits_recall.py": (
        r"kept on the tuning rows: missed in [45]\d% of", r"floor tested: missed in \d% of",
        r"assured in (9\d|100)% of",
    ),
}  # fmt: skip
DRAWN = "; import matplotlib.pyplot as plt; assert plt.get_fignums(), 'no figure'"


def test_every_example_is_here():
    assert {path.name for path in GALLERY.glob("*.py")} == set(NEEDS)


def verdict(printed, metric, rule):
    """Where the interval of a rule's difference to argmax lies, read from the printed score."""
    table = printed[re.search(rf"^  {re.escape(metric)} +value", printed, re.MULTILINE).end() :]
    line = re.search(rf"^    {re.escape(rule)} .*", table, re.MULTILINE)[0]
    low, high = map(float, re.findall(r"\[([^,]+), ([^]]+)\]", line)[1])
    return ">" if low > 0 else "<" if high < 0 else "="


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
    for metric, rule, said in SAID[name]:
        assert verdict(found.stdout, metric, rule) == said, (metric, rule, found.stdout)
    for said in PRINTED.get(name, ()):
        assert re.search(said, found.stdout), (said, found.stdout)
    assert not list(tmp_path.iterdir())
