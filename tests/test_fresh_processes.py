"""README, first-steps, scale and the gallery run where nothing else was imported, with and without optional packages.

One process runs a page in one environment, warnings as errors. With all packages the gallery is run by
`test_examples`, in processes of its own.
"""

import re
import shlex
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from confmax import DecisionRule
from tests.cli_helpers import run_process, small
from tests.fresh_process import OPTIONAL, run_fresh
from tests.test_docs import BLOCK
from tests.test_examples import GALLERY, NEEDS
from tests.test_first_steps import PAGE, REPORTED, SCRIPT, normalised, printed_on, step_of, without_report

ROOT = Path(__file__).parents[1]
CLI = ("click", "rich", "pyarrow")
NO_CLI = "error: the command line needs {}; install it with: pip install 'confmax[cli]'\n"
ENVIRONMENTS = pytest.mark.parametrize("found", [(), OPTIONAL], ids=["without", "with"])

for name in CLI:
    pytest.importorskip(name)


def refused(step, sentence):
    """Whether a step, or a command, ended in one sentence."""
    if step["error"] is not None:
        return step["error"] == sentence
    return (step["code"], step["printed"]) == (2, sentence)


def fine(step):
    return step["error"] is None and step["code"] == 0


@ENVIRONMENTS
def test_readme(tmp_path, found):
    """The commands need the extra [cli] and say so; the Python needs none."""
    page = (ROOT / "README.md").read_text()
    code = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    lines = [
        shlex.split(line)[1:] for line in re.findall(r"^\.venv/bin/(confmax (?:tune|apply).*)", page, re.MULTILINE)
    ]
    assert (len(code), len(lines)) == (1, 2)
    small(tmp_path, "validation.csv")
    small(tmp_path, "new.csv")
    steps = [{"find": found, "code": code[0]}, {"command": lines[0]}]
    steps += [{"find": CLI, "command": line} for line in lines]
    python, early, *later = run_fresh(steps, tmp_path)
    assert fine(python), python
    assert "DecisionRule for g_mean" in python["printed"]
    assert fine(early) if found else refused(early, NO_CLI.format("click")), early
    assert all(map(fine, later)), later
    assert (tmp_path / "decided.csv").exists()


def test_every_line_that_first_steps_prints_is_real(tmp_path):
    """The script needs no package, the commands need the command line's, and the report its own."""
    whole = PAGE.read_text()
    assert whole.count(" --report report.html\n") == whole.count(REPORTED) == 1
    page = without_report(whole)
    for name, text in SCRIPT.findall(page):
        (tmp_path / name).write_text(text)
    shown, shown_with_report = printed_on(page), printed_on(whole)
    lines = list(shown)
    assert len(lines) >= 9
    with_report = next(line[2:] for line in whole.splitlines() if line.startswith("$ ") and "--report" in line)
    script = next(k for k, line in enumerate(lines) if line.startswith("python "))
    steps = [step_of(lines[script]), step_of(lines[0]), {"find": CLI, "code": ""}, step_of(with_report)]
    if find_spec("vl_convert") and find_spec("jinja2"):
        lines.append(with_report)
        shown[with_report] = shown_with_report[with_report]
    walk = [{"find": ("vl_convert",), **step_of(line)} if line == with_report else step_of(line) for line in lines]
    bare, early, _, report, *walked = run_fresh(steps + walk, tmp_path)
    assert fine(bare), bare
    assert refused(early, NO_CLI.format("click")), early
    assert refused(report, "error: a report needs vl-convert-python, which holds the charts' library; install it with: "
                           "pip install 'confmax[report]'\n"), report  # fmt: skip
    for line, step in zip(lines, walked, strict=True):
        assert fine(step), (line, step)
        assert normalised(step["printed"]) == normalised(shown[line]), line


# --- scale -----------------------------------------------------------------------------------------------------------

TABLES = """
import os
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

draw = np.random.default_rng(0)
P = draw.dirichlet([2, 1, 1], 300).astype(np.float32)
y = np.array(list("abc"))[np.array([draw.choice(3, p=row / row.sum()) for row in P.astype(float)])]
for folder in ("scores", "new"):
    os.mkdir(folder)
    for k in range(3):
        rows = slice(100 * k, 100 * k + 100)
        columns = {name: P[rows, j] for j, name in enumerate("abc")} | {"truth": y[rows]}
        columns["sex"] = np.array(["men", "women"])[np.arange(100) % 2]
        pq.write_table(pa.table(columns), f"{folder}/{k}.parquet")
"""
# the same rows with two labels each, in files of the same names
LABELS = """
import shutil
for folder in ("scores", "new"):
    shutil.rmtree(folder)
    os.mkdir(folder)
    for k in range(3):
        columns = {f"p_{name}": P[100 * k : 100 * k + 100, j] for j, name in enumerate(("news", "sport"))}
        if folder == "scores":
            columns |= {name.replace("p_", "y_"): (p > 0.4).astype(int) for name, p in columns.items()}
        pq.write_table(pa.table(columns), f"{folder}/{k}.parquet")
"""
# stands for zarr, which is not confmax's affair
ZARR = """
import dask.array
stored = {"scores.zarr": P, "labels.zarr": np.searchsorted(list("abc"), y)}
dask.array.from_zarr = lambda name: dask.array.from_array(stored[name], chunks=500 if name[0] == "l" else (500, 3))
"""
# stands for a model of Spark ML, whose frames have a column of vectors
MODEL = """
import os, sys, types
from pyspark.sql import SparkSession
os.environ["PYSPARK_PYTHON"] = sys.executable
build = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.log.level", "OFF")
build = build.config("spark.driver.host", "127.0.0.1").config("spark.sql.shuffle.partitions", "1")
spark = build.getOrCreate()
rows = [(row.tolist(), name) for row, name in zip(P[:100].astype(float), y.tolist())]
validation = new = spark.createDataFrame(rows, "probability array<double>, label string")
model = types.SimpleNamespace(transform=lambda frame: frame)
"""


FILES = """
import confmax
table = confmax.open_table("scores/*.parquet", label="truth")
solution = confmax.maximize("macro_f1", table)
decisions = solution.predict(confmax.open_table("new/*.parquet", columns=table.columns))
"""


def scale(word):
    """Return the Python of the page on scale that has a word."""
    code = [code for _, code, _ in BLOCK.findall((ROOT / "docs" / "scale.md").read_text())]
    (found,) = [block for block in code if word in block]
    return found


@pytest.mark.slow
def test_scale_with_optional_packages(tmp_path):
    """Dask comes to a process that has not imported distributed."""
    dask = find_spec("dask") is not None and find_spec("distributed") is not None
    spark = find_spec("pyspark") is not None and shutil.which("java") is not None
    on_dask, on_spark, on_labels = map(scale, ("import dask", "# Spark ML", 'decisions="any"'))
    steps = [{"find": OPTIONAL, "code": TABLES}, {"code": f"{FILES}\nprint(len(decisions))"}]
    steps += [{"code": LABELS}, {"code": f"{on_labels}\nprint(decided.shape)"}]
    if dask:
        steps += [{"code": ZARR}, {"code": f"{on_dask}\nprint(len(decided.compute()))"}]
    if spark:
        steps += [{"code": MODEL}, {"code": f"{on_spark}\nprint(decided.select('decision').count())\nspark.stop()"}]
    found = run_fresh(steps, tmp_path)
    assert [step["error"] for step in found] == [None] * len(steps)
    printed = ["300\n"] + ["(300, 2)\n"] + ["300\n"] * dask + ["100\n"] * spark
    assert [step["printed"] for step in found[1::2]] == printed
    if not (dask and spark):
        pytest.skip("Dask or Spark is not installed; the rest ran")


def test_scale_without_optional_packages(tmp_path):
    """Parquet needs pyarrow and says so; arrays in files need nothing, Parquet nothing else."""
    arrays = "import numpy\nnumpy.save('p.npy', numpy.full((9, 3), 1 / 3))\nprint(confmax.open_table('p.npy').n_rows)"
    steps = [
        {"code": "import os\nos.mkdir('scores')\nopen('scores/0.parquet', 'xb').close()"},
        {"code": FILES},
        {"code": "os.remove('scores/0.parquet')\nos.rmdir('scores')"},
        {"code": arrays},
        {"find": ("pyarrow",), "code": TABLES},
        {"code": f"{FILES}\nprint(len(decisions))"},
    ]
    _, parquet, _, mapped, _, files = run_fresh(steps, tmp_path)
    assert refused(parquet, "ImportError: Parquet files need pyarrow; install it with: pip install 'confmax[cli]'"), (
        parquet
    )
    assert mapped["printed"] == "9\n", mapped
    assert files["printed"] == "300\n", files


# --- gallery, commands -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_gallery_without_optional_packages(tmp_path):
    """What an example needs is found from then on: matplotlib and pandas in all, others in some, which come last."""
    drawn = "import matplotlib.pyplot as plt\nassert plt.get_fignums()\nplt.close('all')"
    # those that need more, and some of the others, which need the same
    names = ["plot_1_imbalanced.py", "plot_groups.py", "plot_theory.py"]
    names += [name for name, needs in NEEDS.items() if needs and "torch" not in needs]
    names = [name for name in names if all(map(find_spec, ("matplotlib", "pandas", *NEEDS[name])))]
    steps = []
    for name in names:
        steps += [{"find": ("matplotlib", "pandas", *NEEDS[name]), "script": str(GALLERY / name)}, {"code": drawn}]
    if not steps:
        pytest.skip("matplotlib or pandas is not installed")
    for name, *found in zip(names, *(iter(run_fresh(steps, tmp_path)),) * 2, strict=True):
        assert all(map(fine, found)), (name, found)


def test_demo_in_a_process_of_its_own(inside):
    """The walk of first-steps runs the other commands."""
    done = run_process("demo", "-o", "-")
    assert done.returncode == 0
    assert DecisionRule.from_json(done.stdout).metric == "g_mean"
    assert "DecisionRule for g_mean" in done.stderr and "/dev/stdout" in done.stderr
    assert list(inside.iterdir()) == []
