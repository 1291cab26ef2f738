"""The examples run as scripts, warnings as errors: small ones print a rule, those of the gallery draw a figure.

Those of the gallery gain what their words say.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import confmax
from tests.fresh_process import WARNINGS

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[1] / "examples"
EXAMPLES_NEED = {
    "larger_than_memory.py": ("pyarrow",),
    "dask_cluster.py": ("dask", "distributed"),
    "spark_ml.py": ("pyspark", "pyarrow", "java"),
}
GALLERY = EXAMPLES / "gallery"
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
    "plot_several_labels.py": (),
    "plot_shift.py": (),
    "plot_theory.py": (),
}
# metric, rule, and what the text says of its difference to argmax: the interval lies above zero, below, or around it
SAID = {
    "plot_1_imbalanced.py": [("g_mean", "rule", ">"), ("accuracy", "rule", "<"), ("macro_f1", "for macro_f1", "=")],
    "plot_2_ordinal_kappa.py": [("quadratic_kappa", "tuned", ">"), ("accuracy", "tuned", "=")],
    "plot_3_worst_recall.py": [("min_recall", "rule", "="), ("accuracy", "rule", ">")],
    "plot_4_costs.py": [("cost of a row", "calibrated", "=")],
    "plot_5_lightgbm.py": [("macro_f1", "rule", "=")],
    "plot_6_torch_logits.py": [("g_mean", "rule", "=")],
    "plot_7_text.py": [("macro_f1", "rule", ">"), ("accuracy", "rule", ">")],
    "plot_8_export.py": [("min_recall", "rule", "=")],
    "plot_9_uncertainty.py": [("f_beta(beta=2.0)", "rule", "="), ("accuracy", "rule", "<")],
    # beside Chow's rule, which decides as many rows
    "plot_abstaining.py": [("accuracy", "rule", "="), ("coverage", "rule", "<")],
    "plot_groups.py": [],
    "plot_limits_capacity.py": [("recall[L]", "rule", "="), ("accuracy", "rule", "=")],
    "plot_limits_recall.py": [("recall[malignant]", "rule", "="), ("accuracy", "rule", "<")],
    "plot_several_labels.py": [],
    "plot_shift.py": [],
    "plot_theory.py": [],
}
# what examples print beside scores, and their words repeat
PRINTED = {
    "plot_abstaining.py": (
        r"one threshold: accuracy 0\.92\d, .* 0\.5\d", r"floors: accuracy 0\.9[23]\d, .* 0\.6\d",
        r"Chow's rule: mean loss .* 0\.08", r"tuned rules: mean loss .* 0\.08",
    ),
    "plot_groups.py": (
        r"argmax: accuracy 0\.73\d, recall of heavier 0\.9\d+, of slim 0\.5",
        r"floor for every group: accuracy 0\.7[34]\d, recall of heavier 0\.9\d+, of slim 0\.7",
        r"equal recalls: accuracy 0\.7[012]\d, recall of heavier 0\.[67]\d+, of slim 0\.7",
    ),
    "plot_limits_capacity.py": (r"argmax flags 0\.05[1-9] of the jobs, the rule 0\.04",),
    "plot_limits_recall.py": (
        r"kept on the tuning rows: missed in [45]\d% of", r"floor tested: missed in 1?\d% of",
        r"assured in (9\d|100)% of",
    ),
    "plot_several_labels.py": (
        r"p > 0\.5: macro F1 0\.6[012]", r"search per label: macro F1 0\.65", r"confmax: macro F1 0\.66",
        r"above the search in (5[5-9]|[67]\d)% of",
    ),
    "plot_shift.py": (
        r"month 1: nothing has changed", r"month 6: the class shares of these 800 rows have moved",
        r"as tuned last year: 0\.57", r"adapted: 0\.59", r"shares known: 0\.59",
    ),
}  # fmt: skip
DRAWN = "; import matplotlib.pyplot as plt; assert plt.get_fignums(), 'no figure'"


@pytest.mark.parametrize(
    ("folder", "needs"), [(EXAMPLES, EXAMPLES_NEED), (GALLERY, NEEDS)], ids=["examples", "gallery"]
)
def test_every_example_is_here(folder, needs):
    assert {path.name for path in folder.glob("*.py")} == set(needs)


def printed(arguments, needs, folder):
    """Return what a process prints that Python runs with some arguments, if what it needs is installed."""
    for need in needs:
        if not (shutil.which(need) if need == "java" else importlib.util.find_spec(need)):
            pytest.skip(f"{need} is not installed")
    source = str(Path(confmax.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True, text=True, env=environment, cwd=folder, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("name", EXAMPLES_NEED)
def test_small_examples(name, tmp_path):
    assert "DecisionRule for" in printed([*WARNINGS, str(EXAMPLES / name), "4000"], EXAMPLES_NEED[name], tmp_path)


def verdict(printed, metric, rule):
    """Where the interval of a rule's first difference, to argmax unless it abstains, lies in the printed score."""
    table = printed[re.search(rf"^  {re.escape(metric)} +value", printed, re.MULTILINE).end() :]
    line = re.search(rf"^    {re.escape(rule)} .*", table, re.MULTILINE)[0]
    low, high = map(float, re.findall(r"\[([^,]+), ([^]]+)\]", line)[1])
    return ">" if low > 0 else "<" if high < 0 else "="


@pytest.mark.parametrize("name", NEEDS)
def test_gallery(name, tmp_path):
    code = f"import runpy; runpy.run_path({str(GALLERY / name)!r}, run_name='__main__'){DRAWN}"
    found = printed(["-W", "error", "-c", code], ("matplotlib", "pandas", *NEEDS[name]), tmp_path)
    for metric, rule, said in SAID[name]:
        assert verdict(found, metric, rule) == said, (metric, rule, found)
    for said in PRINTED.get(name, ()):
        assert re.search(said, found), (said, found)
    assert not list(tmp_path.iterdir())
