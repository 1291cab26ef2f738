"""Dask collections in a process that imported nothing else: each entry point is the first that uses Dask there."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("dask", reason="dask is not installed")
pytest.importorskip("distributed", reason="distributed is not installed")
pytest.importorskip("pandas", reason="pandas is not installed")

START = """
import sys, copy, warnings
warnings.simplefilter("error")
import numpy as np
import confmax
rng = np.random.default_rng(0)
P = rng.dirichlet([1.0, 1.0, 1.0], 600)
y = (P.cumsum(axis=1) > rng.random((600, 1))).argmax(axis=1)
rule = confmax.DecisionRule.from_weights([1.0, 2.0, 3.0])
drawn = confmax.maximize("g_mean", P, y, confusion="labels", calibration=None)
import dask
import dask.array as da
proba, labels = da.from_array(P, chunks=(200, 3)), da.from_array(y, chunks=200)

def frame():
    import dask.dataframe as dd, pandas as pd
    whole = pd.DataFrame(P, columns=["0", "1", "2"]).assign(truth=y)
    return dd.from_delayed([dask.delayed(whole.iloc[k : k + 200]) for k in (0, 200, 400)], meta=whole.iloc[:0])

assert "distributed" not in sys.modules
"""
# what importing distributed adds is all that there is
END = """
import distributed
assert dask.config.get("distributed.admin.large-graph-warning-threshold") == "10MB"
found = copy.deepcopy(dask.config.config)
dask.config.refresh()
assert found == dask.config.config
"""
ENTRIES = {
    "maximize": """
value = confmax.maximize("g_mean", proba, labels, confusion="labels", calibration=None).value
assert abs(value - drawn.value) < 1e-9
""",
    "maximize, labels in memory": 'assert confmax.maximize("macro_f1", proba, y, sample_weight=np.ones(600)).value > 0',
    "maximize, frame": """
lazy = frame()
value = confmax.maximize("g_mean", lazy, "truth", confusion="labels", calibration=None).value
assert abs(value - drawn.value) < 1e-9
""",
    "maximize, several labels": """
several = (P > [0.5, 0.4, 0.3]).astype(int)
lazy = da.from_array(several, chunks=(200, 3))
here = confmax.maximize("macro_f1", P, several, decisions="any", confusion="labels")
there = confmax.maximize("macro_f1", proba, lazy, decisions="any", confusion="labels")
assert abs(there.value - here.value) < 1e-9
""",
    "open_table": """
opened = confmax.open_table(frame(), label="truth")
assert abs(confmax.maximize("g_mean", opened, confusion="labels", calibration=None).value - drawn.value) < 1e-9
""",
    "predict": "assert (np.asarray(rule.predict(proba).compute()) == rule.predict(P)).all()",
    "predict, several labels": """
several = confmax.LabelRule.from_thresholds([0.2, 0.4, 0.1], classes=["0", "1", "2"])
assert (several.predict(proba).compute() == several.predict(P)).all()
assert (several.predict(frame()[["0", "1", "2"]]).compute().to_numpy() == several.predict(P)).all()
""",
    "predict, frame": """
assert (rule.predict(frame()[["0", "1", "2"]]).compute().to_numpy() == rule.predict(P)).all()
""",
    "predict, opened": """
assert (rule.predict(confmax.open_table(frame()[["0", "1", "2"]])) == rule.predict(P)).all()
""",
    "decision_probabilities": """
assert (rule.decision_probabilities(proba).compute() == rule.decision_probabilities(P)).all()
""",
    "estimator": """
from sklearn.base import BaseEstimator, ClassifierMixin
class Model(ClassifierMixin, BaseEstimator):
    def __init__(self):
        self.classes_ = np.arange(3)
    def fit(self, X, y):
        return self
    def predict_proba(self, X):
        return X
tuner = confmax.MetricClassifierCV(Model(), metric="g_mean", cv="prefit", refit=False).fit(proba, labels)
assert (tuner.predict(proba).compute() == tuner.predict(P)).all()
""",
}


# the process divides where nothing of confmax has used Dask yet, once for every entry point
DIVIDE = """
import json, os, traceback
for name, entry in json.loads(sys.argv[1]).items():
    child = os.fork()
    if not child:
        try:
            exec(entry, globals())
            os._exit(0)
        except BaseException:
            print(name, traceback.format_exc(), file=sys.stderr, flush=True)
            os._exit(1)
    if os.waitpid(child, 0)[1]:
        print(name)
"""


def failures(entries):
    """Return the names of the entry points that fail, and what they wrote."""
    entries = {name: entry + END for name, entry in entries.items()}
    done = subprocess.run(
        [sys.executable, "-c", START + DIVIDE, json.dumps(entries)], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines(), done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot divide here")
def test_every_entry_point_can_be_the_first_to_use_dask():
    """It works, and leaves Dask's configuration as an import of Dask leaves it."""
    names, errors = failures(ENTRIES)
    assert names == [], errors
    names, errors = failures({"that fails": "import distributed\ndask.config.set({'scheduler': 'sync'})\n"})
    assert names == ["that fails"] and "AssertionError" in errors
