"""Frames of Spark Connect: the same answers as in memory; a process has one kind of session, so the client has one."""

import shutil
import subprocess
import sys
from importlib.util import find_spec

import pytest

pytest.importorskip("pyspark")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java"),
    pytest.mark.skipif(find_spec("grpc_status") is None, reason="Spark Connect needs pyspark[connect]"),
]

CLIENT = """
import numpy as np
import pandas as pd
import pytest
from pyspark.sql import SparkSession

import confmax
from confmax.confusion import Gains
from confmax.oracle import make_oracle, make_table

session = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
rng = np.random.default_rng(0)
P = rng.dirichlet(np.ones(3), 3000)
y = np.array(["a", "b", "c"])[(P.cumsum(1) > rng.random((3000, 1))).argmax(1)]
table = pd.DataFrame(P, columns=["a", "b", "c"]).assign(y=y, row=np.arange(3000), sex=np.where(P[:, 0] > 0.3, "m", "w"))
frame = session.createDataFrame(table).repartition(3, "row")
within = {"constraints": "min(recall[a] | group) >= 0.5"}
for settings, of_frame, of_rows in (({}, {}, {}), (within, {"group": "sex"}, {"group": table["sex"].to_numpy()})):
    found = confmax.maximize("macro_f1", frame, y="y", **settings, **of_frame)
    expected = confmax.maximize("macro_f1", P, y, **settings, **of_rows)
    # within limits a search in parts ends elsewhere
    assert abs(found.value - expected.value) < (1e-3 if settings else 1e-12)
    assert found.group_shares == pytest.approx(expected.group_shares)
    decided = found.rule.transform(frame, **of_frame).select("row", "decision").toPandas().sort_values("row")
    assert (decided["decision"].to_numpy() == found.rule.predict(P, **of_rows)).all()
several = pd.DataFrame(np.c_[P, P > 0.4].astype(float), columns=["p", "q", "r", "y_p", "y_q", "y_r"])
opened = confmax.open_table(
    session.createDataFrame(several).repartition(2), label=["y_p", "y_q", "y_r"], columns=["p", "q", "r"]
)
found = confmax.maximize("macro_f1", opened, decisions="any")
assert abs(found.value - confmax.maximize("macro_f1", P, P > 0.4, decisions="any").value) < 1e-12
chosen = make_table(frame, "y").rows_where(np.arange(3000) < 2000)
counted = make_oracle(chosen, "labels").maximize(Gains.reduced(np.ones((1, 3))))
assert chosen.n_rows == 2000 and abs(counted.columns.sum() - 1.0) < 1e-12
assert 2000.0 * counted.columns == pytest.approx(np.round(2000.0 * counted.columns))
with pytest.raises(ValueError, match=r"partition \\d: row \\d+ of proba sums to"):
    confmax.maximize("macro_f1", session.createDataFrame(table.assign(a=2.0)), y="y")
session.stop()
with pytest.raises(ValueError, match="was stopped"):
    confmax.maximize("macro_f1", frame, y="y")
print("alike")
"""


def test_a_client_of_spark_connect(monkeypatch):
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    found = subprocess.run([sys.executable, "-c", CLIENT], capture_output=True, text=True, timeout=300, check=False)
    assert found.stdout.endswith("alike\n"), found.stderr[-3000:]
