"""
Into production: SQL, ONNX, plain Python
========================================

A tuned rule is a few numbers per class. You can save it as JSON for confmax, or export it to systems without confmax.
All exports make the same decisions, and this example checks that they do.
"""

import json
import tempfile
import textwrap
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import confmax

# Three cultivars of wine, from three of their measurements
X, y = load_wine(return_X_y=True)
X = X[:, [1, 2, 3]]
X_fit, X_test, y_fit, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
model = make_pipeline(StandardScaler(), LogisticRegression())
P_fit = cross_val_predict(model, X_fit, y_fit, method="predict_proba")
P_test = model.fit(X_fit, y_fit).predict_proba(X_test)
rule = confmax.maximize("min_recall", P_fit, y_fit, classes=[0, 1, 2], randomized=False).rule
print(confmax.score("min_recall", P_test, y_test, rule))

# %%
# With 72 test rows, the interval is wide. This example shows the export, not a gain.
#
# JSON
# ----
# The file has a version number and is checked when it is loaded. It is never a pickle.

path = Path(tempfile.mkdtemp()) / "rule.json"
rule.save(path)
loaded = confmax.DecisionRule.load(path)
print(json.dumps(json.loads(path.read_text()), indent=1)[:400], "...")

# %%
# SQL
# ---
# The rule is one scalar expression: for DuckDB and SQLite directly, for other dialects through sqlglot.

scores = pd.DataFrame(P_test, columns=["p0", "p1", "p2"])
expression = rule.to_sql("duckdb", columns=["p0", "p1", "p2"])
print(textwrap.fill(expression, 100))
in_sql = duckdb.sql(f"SELECT {expression} AS decision FROM scores").df()["decision"].to_numpy()

# %%
# Plain Python
# ------------
# The rule is the source of a function that needs only Python.

source = rule.to_python("decide")
print(source)
namespace: dict = {}
exec(source, namespace)
in_python = np.array([namespace["decide"](row) for row in P_test.tolist()])

# %%
# ONNX
# ----
# The rule is a model that maps probabilities to class indices. Append it to the ONNX model of your classifier.

expected = rule.predict(P_test)
ways = {"JSON": loaded.predict(P_test), "SQL": in_sql, "Python": in_python}
try:
    from onnxruntime import InferenceSession

    session = InferenceSession(
        rule.to_onnx("float64").SerializeToString(), providers=["CPUExecutionProvider"]
    )
    ways["ONNX"] = session.run(None, {"proba": P_test})[0]
except ImportError:
    print("onnx or onnxruntime is not installed")

# %%
# Compare the decisions
# ---------------------

for name, decided in ways.items():
    print(f"{name}: {np.sum(decided != expected)} of {len(expected)} rows decided differently")
assert all(np.array_equal(decided, expected) for decided in ways.values())

# %%
# The decision regions of the rule, on the triangle of all probabilities. Corners are certain rows; dots are test rows.

from confmax.plotting import DecisionRegionsDisplay

display = DecisionRegionsDisplay.from_rule(rule, P_test, y_test)
display.figure_.set_size_inches(6, 5)
