"""The same rows from wherever they are, each in a process of its own: one value, the same decisions, the same bytes."""

import importlib
import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from tests.parts_helpers import labelled

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("pandas")

NAMES = ["bad", "good", "ugly"]
NEEDED = {"polars": "polars", "lazy": "polars", "duckdb": "duckdb", "dask": "dask", "spark": "pyspark"}
# these give parts of one size, whatever the batches; NumPy's rows are in one place, and the others' where they lie
STREAMS = ["dataset", "lazy", "duckdb", "feather", "csv.gz", "generator"]
IN_MEMORY = ["numpy", "pandas", "polars", "arrow"]
WHERE_THEY_LIE = ["parquet", "npy", "dask", "spark"]

PROCESS = """
import hashlib, json, sys
import numpy as np
import confmax

way, folder = sys.argv[1:]
columns = ["bad", "good", "ugly"]
beside = {"y": "truth", "sample_weight": "w"}


def arrays():
    loaded = np.load(f"{folder}/t.npz")
    return loaded["P"], loaded["y"], loaded["w"]


def chunks():
    P, y, w = arrays()
    for low in range(0, len(P), 700):
        yield P[low : low + 700], y[low : low + 700], w[low : low + 700]


if way == "numpy":
    rows, *given = arrays()
    beside = dict(zip(beside, given))
elif way == "pandas":
    import pandas as pd

    rows = pd.read_parquet(f"{folder}/t.parquet")
elif way == "polars":
    import polars as pl

    rows = pl.read_parquet(f"{folder}/t.parquet")
elif way == "arrow":
    import pyarrow.parquet as pq

    rows = pq.read_table(f"{folder}/t.parquet")
elif way == "dataset":
    import pyarrow.dataset as ds

    rows = ds.dataset(f"{folder}/t.parquet")
elif way == "lazy":
    import polars as pl

    rows = pl.scan_parquet(f"{folder}/t.parquet")
elif way == "duckdb":
    import duckdb

    rows = duckdb.sql(f"SELECT * FROM '{folder}/t.parquet'")
elif way == "dask":
    import dask.dataframe as dd

    rows = dd.read_parquet(f"{folder}/t.parquet")
elif way == "spark":
    from pyspark.sql import SparkSession

    build = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.log.level", "OFF")
    session = build.getOrCreate()
    rows = session.read.parquet(f"{folder}/t.parquet")
else:
    beside = {}
    given = {"label": "truth", "weight": "w"}
    if way == "npy":
        given = {"label": f"{folder}/y.npy", "weight": f"{folder}/w.npy"}
    rows = chunks if way == "generator" else f"{folder}/t.{way}"
    rows = confmax.open_table(rows, **({} if way == "generator" else given))

known = {"classes": columns} if way in ("numpy", "npy", "generator") else {}
found = confmax.maximize("macro_f1", rows, **beside, **known)
if way == "spark":
    decided = [row["decision"] for row in found.rule.transform(rows).orderBy("row").collect()]
elif way in ("pandas", "polars", "arrow"):
    decided = found.predict(rows[columns] if way != "arrow" else rows.select(columns))
elif way == "dask":
    decided = found.predict(rows[columns]).compute()
else:
    decided = found.predict(rows)
told = "".join(str(name)[0] for name in decided)
rule = hashlib.sha256(found.rule.to_json().encode()).hexdigest()
print(json.dumps({"value": found.value, "label_value": found.label_value, "decided": told, "rule": rule}))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with the same 2,000 rows in every format, in one part."""
    folder = tmp_path_factory.mktemp("alike")
    P, y, w = labelled(2000, 3, dtype=np.float64)
    truth = np.array(NAMES)[y]
    table = pa.table({**dict(zip(NAMES, P.T, strict=True)), "truth": truth, "w": w, "row": np.arange(len(P))})
    pq.write_table(table, folder / "t.parquet")
    np.savez(folder / "t.npz", P=P, y=truth, w=w)
    for name, values in (("t", P), ("y", truth), ("w", w)):
        np.save(folder / f"{name}.npy", values)
    import pyarrow.feather

    pyarrow.feather.write_feather(table, folder / "t.feather")
    table.to_pandas().to_csv(folder / "t.csv.gz", index=False)
    return folder


@pytest.fixture(scope="module")
def answers(folder):
    """Return what each way has answered, asked once."""
    known = {}

    def answer(way):
        if not is_there(way):
            pytest.skip(f"{NEEDED[way]} is not installed, or is too old")
        if way == "spark" and shutil.which("java") is None:
            pytest.skip("Spark needs Java")
        if way not in known:
            settings = dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), sys.executable)
            found = subprocess.run(
                [sys.executable, "-c", PROCESS, way, str(folder)],
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
                env={**os.environ, **settings, "SPARK_LOCAL_IP": "127.0.0.1"},
            )
            assert found.returncode == 0, found.stderr[-3000:]
            known[way] = json.loads(found.stdout.splitlines()[-1])
        return known[way]

    return answer


def is_there(way):
    """Return whether the library of a way is installed, in a version that has it."""
    if way in NEEDED and find_spec(NEEDED[way]) is None:
        return False
    return way != "lazy" or hasattr(importlib.import_module("polars").LazyFrame, "collect_batches")


WAYS = [*IN_MEMORY[1:], *STREAMS, *WHERE_THEY_LIE]


@pytest.mark.parametrize("way", [pytest.param(way, marks=[pytest.mark.slow] if way == "spark" else []) for way in WAYS])
def test_rows_give_the_answer_of_arrays(answers, way):
    found = answers(way)
    expected = answers("numpy")
    assert found["decided"] == expected["decided"]
    for name in ("value", "label_value"):
        assert found[name] == pytest.approx(expected[name], rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(
    "ways", [IN_MEMORY, STREAMS, ["parquet", "npy", "dataset"]], ids=["memory", "streams", "files"]
)
def test_the_same_parts_give_the_same_bytes(answers, ways):
    there = [way for way in ways if is_there(way)]
    assert len(there) > 1
    assert len({answers(way)["rule"] for way in there}) == 1
