"""What a fresh process imports: each way in waits only for the libraries that it uses."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import confmax

HEAVY = (
    "click", "rich", "numpy", "scipy", "scipy.optimize", "scipy.stats", "sklearn", "pandas",
    "polars", "pyarrow", "pyarrow.csv", "pyarrow.parquet", "autograd", "matplotlib", "jinja2", "vl_convert", "torch",
    "dask", "distributed", "pyspark", "onnx", "numba",
)  # fmt: skip
MAIN = "from confmax.__main__ import main\ntry:\n    main()\nexcept SystemExit:\n    pass"
PROBA, LABELS = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]] * 10, [0, 0, 1, 1] * 10


def imported(code, *args, **env):
    """Return which heavy libraries a fresh process imports by some code, after what it may itself call ``before``."""
    shown = f"(name for name in {HEAVY} if name in set(sys.modules) - before)"
    code = f"import sys\nbefore = set()\n{code}\nprint('imported:', *{shown})"
    env = {**os.environ, "PYTHONPATH": str(Path(confmax.__file__).parents[1]), **env}
    done = subprocess.run([sys.executable, "-c", code, *map(str, args)], capture_output=True, text=True, env=env,
                          check=True)  # fmt: skip
    assert done.stderr == ""
    return done.stdout.split("imported:")[1].split()


def rule_in(folder, weights=(1.0, 2.0), classes=None):
    confmax.DecisionRule.from_weights(weights, classes=classes).save(folder / "rule.json")
    return folder / "rule.json"


# --- the library -----------------------------------------------------------------------------------------------------


def test_importing_the_library_waits_for_nothing():
    assert imported("import confmax") == []


@pytest.mark.parametrize(
    "code",
    [
        "rule = confmax.DecisionRule.load(sys.argv[1])\nrule.predict([[0.3, 0.7]])\n"
        "rule.predict(numpy.array([[0.7, 0.3]]))\nassert 'confmax.optimize' not in sys.modules",
        f"confmax.maximize('macro_f1', {PROBA}, {LABELS}).rule.predict({PROBA})",
        f"confmax.maximize('g_mean', numpy.array({PROBA}), numpy.array({LABELS}), tol=1e-4)",
        f"confmax.maximize('mcc', {PROBA}, confusion='model')",
    ],
)
def test_tuning_and_deciding_wait_for_numpy_alone(code, tmp_path):
    assert imported(f"import numpy, confmax\n{code}", rule_in(tmp_path)) == ["numpy"]


@pytest.mark.parametrize("metric", ["macro_f1", "g_mean"])
def test_a_plain_tuning_brings_none_of_what_it_does_not_use(metric):
    unused = (
        "confmax.export", "confmax.tables.partitioned.", "confmax.tables.groups", "confmax.rule.batch",
        "confmax.rule.labels", "confmax.solution.labels", "confmax.solution.confidence", "confmax.optimize.paper",
        "confmax.evaluate.uncertainty", "confmax.constraints.binding", "concurrent.futures", "json", "pathlib",
    )  # fmt: skip
    code = "import sys, numpy, numpy.random\nbefore = set(sys.modules)\nimport confmax\n"
    code += f"confmax.maximize({metric!r}, {PROBA}, {LABELS})\nprint(*set(sys.modules) - before)"
    env = {**os.environ, "PYTHONPATH": str(Path(confmax.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True)
    assert [name for name in done.stdout.split() if name.startswith(unused)] == []


@pytest.mark.parametrize(
    "package", ["", ".optimize", ".shift", ".evaluate", ".rule", ".solution", ".tables", ".constraints"]
)
def test_packages_show_and_give_all_names_before_anything_uses_them(package):
    code = f"import importlib\npackage = importlib.import_module('confmax{package}')\n"
    code += "assert dir(package) == sorted(package.__all__)\nall(getattr(package, name) for name in package.__all__)"
    imported(code)


def test_scoring_waits_for_sparse_matrices(tmp_path):
    code = f"import confmax\nconfmax.score('macro_f1', {PROBA}, {LABELS}, confmax.DecisionRule.load(sys.argv[1]))"
    assert imported(code, rule_in(tmp_path)) == ["numpy", "scipy"]


def test_a_classifier_waits_for_scikit_learn_alone():
    code = f"""
from sklearn.linear_model import LogisticRegression
before = set(sys.modules)
import confmax
confmax.MetricClassifierCV(LogisticRegression()).fit({PROBA}, {LABELS})
"""
    assert imported(code) == []


# --- the command line ------------------------------------------------------------------------------------------------

CALLS = {
    "": ["click"],
    "--version": ["click"],
    "--help": ["click"],
    "tune --help": ["click"],
    "report --help": ["click"],
    "completion zsh": ["click"],
    "metrics": ["click", "rich", "numpy"],
    "explain rule.json": ["click", "rich", "numpy", "scipy"],
    "export rule.json --to python": ["click", "rich", "numpy"],
    "apply rule.json small.csv -o out.csv": ["click", "rich", "numpy", "pyarrow", "pyarrow.csv"],
    "tune small.csv --label y --metric macro_f1 --weight w": ["click", "rich", "numpy", "pyarrow", "pyarrow.csv"],
    "tune small.npz --label y --metric g_mean": ["click", "rich", "numpy", "pyarrow", "pyarrow.csv"],
    "tune small.parquet --label y --metric g_mean": [
        "click", "rich", "numpy", "pyarrow", "pyarrow.csv", "pyarrow.parquet",
    ],
    "score small.csv --label y --rule rule.json": ["click", "rich", "numpy", "scipy", "pyarrow", "pyarrow.csv"],
}  # fmt: skip


@pytest.fixture
def _files(tmp_path, monkeypatch):
    helpers = pytest.importorskip("tests.cli_helpers")
    pytest.importorskip("pyarrow")
    from confmax.cli import tables

    monkeypatch.chdir(tmp_path)
    rule_in(tmp_path, [1.0, 1.0, 1.5], ["a", "b", "c"])
    frame = tables.read_frame(helpers.small(tmp_path))
    for name in ("small.parquet", "small.npz"):
        tables.write_decisions(Path(name), frame, frame.names_in("y", "column"))


@pytest.mark.usefixtures("_files")
@pytest.mark.parametrize("line", CALLS)
def test_commands_wait_for_what_they_use(line):
    assert imported(MAIN, *line.split()) == CALLS[line]


COMPLETED = {
    "confmax tu": ["click"],
    "confmax tune --met": ["click"],
    "confmax explain ru": ["click"],
    "confmax tune --metric ma": ["click", "numpy"],
    "confmax tune --solver d": ["click", "numpy"],
}


@pytest.mark.parametrize("line", COMPLETED)
def test_completion_waits_for_what_it_reads(line):
    env = {"_CONFMAX_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    assert imported(MAIN, **env) == COMPLETED[line]
