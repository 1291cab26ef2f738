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
COMPILED = ("scipy.special", "scipy.sparse")  # numba imports them too
MAIN = "from confmax.__main__ import main\ntry:\n    main()\nexcept SystemExit:\n    pass"


def imported(code, *args, **env):
    """Return which heavy libraries a fresh process has imported after some code."""
    shown = f"(name for name in {HEAVY} if name in set(sys.modules) - before)"
    code = f"import sys\nbefore = set()\n{code}\nprint('imported:', *{shown})"
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


def without(found, names):
    return [name for name in found if name not in names]


def test_importing_the_library_waits_for_nothing():
    assert imported("import confmax") == []


PROBA, LABELS = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]] * 10, [0, 0, 1, 1] * 10


@pytest.mark.parametrize(
    "code",
    [
        "confmax.DecisionRule.load(sys.argv[1]).predict([[0.3, 0.7]])",
        f"confmax.maximize('macro_f1', {PROBA}, {LABELS})",
        f"confmax.maximize('g_mean', numpy.array({PROBA}), numpy.array({LABELS}), tol=1e-4)",
        f"confmax.score('macro_f1', {PROBA}, {LABELS}, confmax.DecisionRule.load(sys.argv[1]))",
    ],
)
def test_arrays_wait_for_numpy_alone(code, tmp_path):
    path = tmp_path / "rule.json"
    confmax.DecisionRule.from_weights([1.0, 2.0]).save(path)
    assert without(imported(f"import numpy, confmax\n{code}", path), COMPILED) == ["numpy"]


CALLS = {
    "metrics": ["click", "rich", "numpy"],
    "explain rule.json": ["click", "rich", "numpy"],
    "export rule.json --to sql --columns a,b,c": ["click", "rich", "numpy", "pyarrow", "pyarrow.csv"],
    "apply rule.json small.csv -o out.csv": ["click", "rich", "numpy", "pyarrow", "pyarrow.csv"],
    "tune small.csv --label y --metric macro_f1 --weight w": ["click", "rich", "numpy", "pyarrow", "pyarrow.csv"],
    "score small.csv --label y --rule rule.json": ["click", "rich", "numpy", "pyarrow", "pyarrow.csv"],
}


@pytest.mark.parametrize("line", CALLS)
def test_commands_wait_for_what_they_use(line, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(small(tmp_path).parent)
    confmax.DecisionRule.from_weights([1.0, 1.0, 1.5], classes=["a", "b", "c"]).save("rule.json")
    assert without(imported(MAIN, *line.split()), COMPILED) == CALLS[line]


def test_a_classifier_waits_for_scikit_learn():
    code = f"""
from sklearn.linear_model import LogisticRegression
before = set(sys.modules)
import confmax
confmax.MetricClassifierCV(LogisticRegression()).fit({PROBA}, {LABELS})
"""
    assert imported(code) == []
