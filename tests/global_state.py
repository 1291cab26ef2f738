"""What a library call must leave as it found it, and calls of every kind; run in a process of their own.

``python -c "from tests.global_state import main; main('arrays')"`` ends with a sentence if anything changed.
"""

from __future__ import annotations

import copy
import decimal
import gc
import importlib
import locale
import logging
import os
import random
import shutil
import signal
import socket
import sys
import tempfile
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

import confmax
from confmax.calibration import MatrixScaling, Temperature
from tests.parts_helpers import labelled

NAMES = ["low", "middle", "high"]


def modules(*names):
    """Import what is installed of some packages, which change global state themselves when they are imported."""
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            continue


def make_unusual():
    """Set what can be set to something that is no default, so that a reset is seen too."""
    warnings.filterwarnings("ignore", "of the user")
    warnings.showwarning = lambda *_, **__: None
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    np.seterr(all="ignore", under="warn")
    np.set_printoptions(precision=3, suppress=True)
    decimal.getcontext().prec = 11
    os.environ["CONFMAX_TEST"] = "1"
    os.umask(0o037)
    signal.signal(signal.SIGUSR1, lambda *_: None)
    logging.getLogger().addHandler(logging.NullHandler())
    logging.getLogger().setLevel(logging.ERROR)
    sys.setrecursionlimit(1234)
    gc.set_threshold(701, 11, 11)
    if "matplotlib" in sys.modules:
        sys.modules["matplotlib"].use("Agg")
        sys.modules["matplotlib"].rcParams["lines.linewidth"] = 3.25
    if "dask" in sys.modules:
        sys.modules["dask"].config.set({"confmax-test": 1, "array.chunk-size": "1MiB"})
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(5)
    if "sklearn" in sys.modules:
        sys.modules["sklearn"].set_config(display="text", working_memory=99)


def basics():
    """Return what Python and NumPy hold for the whole process."""
    mask = os.umask(0)
    os.umask(mask)
    root = logging.getLogger()
    return {
        "warnings.filters": list(warnings.filters),
        "warnings.showwarning": (warnings.showwarning, warnings.formatwarning),
        "random": random.getstate(),
        "numpy.random": np.random.get_state()[1].tolist(),  # noqa: NPY002
        "numpy.geterr": (np.geterr(), np.geterrcall(), np.getbufsize()),
        "numpy.printoptions": np.get_printoptions(),
        "signals": {each: signal.getsignal(each) for each in signal.valid_signals()},
        "environment": dict(os.environ),
        "locale": locale.setlocale(locale.LC_ALL, None),
        "umask": mask,
        "folder": os.getcwd(),
        "logging": (list(root.handlers), root.level, root.manager.disable, logging.raiseExceptions),
        "decimal": repr(decimal.getcontext()),
        "recursion": sys.getrecursionlimit(),
        "switch interval": sys.getswitchinterval(),
        "hooks": (sys.excepthook, sys.displayhook, threading.excepthook, sys.unraisablehook, sys.gettrace()),
        "streams": (sys.stdin, sys.stdout, sys.stderr),
        "path": list(sys.path),
        "arguments": list(sys.argv),
        "gc": (gc.isenabled(), gc.get_threshold()),
        "socket": socket.getdefaulttimeout(),
        "readers": [each.name for each in threading.enumerate() if "confmax-read" in each.name],
        "temporary folder": tempfile.tempdir,
    }


def packages():
    """Return what other packages hold for the whole process, as far as they are imported."""
    from confmax.kernels.blocks import n_threads

    found = {"threads of scans": n_threads()}
    there = sys.modules.get
    if (torch := there("torch")) is not None:
        found["torch"] = (torch.get_num_threads(), torch.get_default_dtype(), torch.is_grad_enabled(),
                          torch.initial_seed(), torch.get_float32_matmul_precision(), torch.get_default_device(),
                          torch.are_deterministic_algorithms_enabled())  # fmt: skip
        found["torch.random"] = torch.random.get_rng_state().tolist()
    if (dask := there("dask")) is not None:
        found["dask.config"] = copy.deepcopy(dask.config.config)
    if (matplotlib := there("matplotlib")) is not None:
        found["matplotlib"] = (dict(matplotlib.rcParams), matplotlib.get_backend())
    if (sklearn := there("sklearn")) is not None:
        found["sklearn"] = sklearn.get_config()
    if there("pandas") is not None:
        found["pandas"] = copy.deepcopy(importlib.import_module("pandas._config.config")._global_config)
    if there("threadpoolctl") is not None:
        found["thread pools"] = {each["filepath"]: each["num_threads"] for each in
                                 there("threadpoolctl").threadpool_info()}  # fmt: skip
    if there("pyspark") is not None:
        session = there("pyspark").sql.SparkSession.getActiveSession()
        found["spark"] = None if session is None else dict(session.conf.getAll)
    return found


def changed(before, after):
    """Return the names of what differs; what was loaded meanwhile was not there to be changed."""
    if "thread pools" in before:
        pools = before["thread pools"]
        after = after | {"thread pools": {path: after["thread pools"].get(path) for path in pools}}
    return [name for name in before if before[name] != after[name]]


# --- calls -----------------------------------------------------------------------------------------------------------


def table(n=400):
    P, y, weight = labelled(n, 3, sharp=0.6)
    return P, np.array(NAMES)[y], weight + 0.5


def arrays(folder):
    """Everything on arrays in memory: tuning, decisions, scores, files, exports, reports."""
    modules("autograd.numpy", "scipy.optimize", "scipy.sparse", "scipy.special", "onnx", "sqlglot", "pandas")
    P, y, weight = table()
    yield
    for metric in ("macro_f1", "min_recall", "g_mean", lambda C: C[0, 0] * C[1, 1] + C[2, 2]):
        for confusion in ("model", "labels", "blend"):
            tuned = confmax.maximize(
                metric, P, y, sample_weight=weight, classes=NAMES, confusion=confusion, randomized=True
            )
    tuned = confmax.maximize("g_mean", P, y, classes=NAMES, solver="coordinate_search", calibration=None)
    confmax.maximize("f1", P[:, :2] / P[:, :2].sum(axis=1, keepdims=True), calibration=Temperature(1.2))
    for calibrator in (None, MatrixScaling(np.eye(3) + 0.1, np.zeros(3))):
        rule = confmax.DecisionRule(tuned.rule.gains, tuned.rule.weights, tuple(NAMES), calibrator=calibrator)
        rule.predict(P)
        rule.decision_probabilities(P)
    rule = confmax.maximize("macro_f1", P, y, classes=NAMES, randomized=False, calibration=None).rule
    rule.predict(P, keys=np.arange(len(P)))
    rule.save(folder / "rule.json")
    confmax.DecisionRule.load(folder / "rule.json")
    confmax.score("macro_f1", P, y, rule, sample_weight=weight, n_replicates=40)
    page = folder / "report.html"
    for written in (
        lambda: rule.to_sql("duckdb"), rule.to_onnx, rule.to_python,
        lambda: tuned.report(page, P, y, weight, n_replicates=40),
    ):  # fmt: skip
        try:
            written()
        except ImportError:
            continue


def sparse(_):
    import scipy.sparse as sp

    P, y, _ = table()
    P = np.where(P < 0.05, 0.0, P)
    rows = sp.csr_array(P / P.sum(axis=1, keepdims=True))
    yield
    confmax.maximize("macro_f1", rows, y, classes=NAMES, calibration=None).rule.predict(rows)


def estimators(_):
    modules("sklearn.linear_model", "sklearn.model_selection", "sklearn.utils.validation", "pandas", "scipy.optimize")
    from sklearn.linear_model import LogisticRegression
    from sklearn.multioutput import MultiOutputClassifier

    _, y, weight = table()
    X = np.random.default_rng(0).normal(size=(len(y), 3)) + (y == "high")[:, None]
    yield
    tuned = confmax.MetricClassifierCV(LogisticRegression(), metric="macro_f1", random_state=3).fit(X, y)
    tuned.predict(X)
    tuned.score(X, y, weight)
    fixed = confmax.FixedRuleClassifier(tuned.estimator_, tuned.solution_.rule).fit(X, y)
    fixed.predict(X)
    Y = np.stack([y == "high", X[:, 0] > 0.0], axis=1)
    several = confmax.MetricMultilabelCV(MultiOutputClassifier(LogisticRegression())).fit(X, Y)
    several.predict(X)
    several.score(X, Y, weight)


def displays(_):
    modules("matplotlib.pyplot", "scipy.optimize")
    P, y, _ = table()
    sys.modules["matplotlib"].use("Agg")
    yield
    from confmax import plotting

    tuned = confmax.maximize("g_mean", P, y, classes=NAMES, randomized=False)
    plotting.ConvergenceDisplay.from_solution(tuned)
    plotting.WeightsDisplay.from_solution(tuned)
    plotting.ConfusionChangeDisplay.from_solution(tuned, P, y)
    plotting.TradeOffDisplay.from_solution(tuned, P, y)
    plotting.DecisionRegionsDisplay.from_solution(tuned)


def tensors(_):
    import torch

    modules("torch.nn.functional", "scipy.optimize")
    torch.set_num_threads(1)
    P, y, _ = table()
    yield
    given = torch.as_tensor(P)
    tuned = confmax.maximize("macro_f1", given, y, classes=NAMES)
    tuned.rule.predict_index(given)
    confmax.maximize("g_mean", given.float(), confusion="model", calibration=None)


def files(folder):
    import pyarrow as pa
    import pyarrow.parquet as pq

    modules("scipy.optimize")
    P, y, weight = table()
    columns = {name: P[:, k] for k, name in enumerate(NAMES)}
    pq.write_table(pa.table(columns | {"truth": y, "w": weight}), folder / "t.parquet", row_group_size=100)
    np.save(folder / "p.npy", P)
    yield
    opened = confmax.open_table(folder / "t.parquet", label="truth", weight="w", columns=NAMES)
    rule = confmax.maximize("macro_f1", opened).rule
    rule.predict(confmax.open_table(folder / "t.parquet", columns=NAMES))
    rule.predict(confmax.open_table(folder / "p.npy"))
    assert sum(map(len, rule.predict_batches(opened))) == len(P)
    rule.write_parquet(opened, folder / "decided.parquet")
    rule.write_parquet(opened, folder / "decided", rows_per_file=100)


def dask_collections(_):
    import distributed  # noqa: F401, its defaults are part of Dask's configuration from here on

    modules("dask.dataframe", "scipy.optimize", "cloudpickle")
    import dask.array as da

    P, y, weight = table()
    proba, labels = da.from_array(P, chunks=(100, 3)), da.from_array(y, chunks=100)
    proba.sum().compute()
    yield
    for given in (labels, y):
        tuned = confmax.maximize("macro_f1", proba, given, sample_weight=weight, classes=NAMES)
    tuned.rule.predict(proba).compute()
    tuned.rule.decision_probabilities(proba).compute()


def spark_frames(_):
    modules("scipy.optimize", "pandas", "pyspark.sql.pandas.functions", "pyspark.ml.functions", "pyarrow")
    from pyspark.sql import SparkSession

    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    settings = {
        "driver.host": "127.0.0.1", "ui.enabled": "false", "ui.showConsoleProgress": "false", "log.level": "OFF",
        "sql.shuffle.partitions": "1", "python.worker.faulthandler.enabled": "false",
    }  # fmt: skip
    build = SparkSession.builder.master("local[1]").appName("confmax")
    for name, value in settings.items():
        build = build.config(f"spark.{name}", value)
    session = build.getOrCreate()
    P, y, _ = table(60)
    frame = session.createDataFrame([(row, str(name)) for row, name in zip(P.tolist(), y, strict=True)],
                                    "probability array<double>, label string")  # fmt: skip
    frame.count()
    yield
    tuned = confmax.maximize("macro_f1", frame, y="label", classes=NAMES)
    assert tuned.rule.transform(frame).count() == 60
    yield
    opened = confmax.open_table(frame, label="label", columns=["probability"])
    session.stop()
    sentence = "the Spark session of this DataFrame was stopped; start a session and make the frame again"
    calls = (
        lambda: confmax.maximize("g_mean", frame),
        lambda: confmax.maximize("g_mean", opened),
        lambda: tuned.rule.transform(frame),
    )
    for call in calls:
        with pytest.raises(ValueError, match=f"^{sentence}$"):
            call()


CALLS = {
    "arrays": (arrays, ()),
    "sparse matrices": (sparse, ()),
    "estimators": (estimators, ("sklearn",)),
    "displays": (displays, ("matplotlib",)),
    "tensors": (tensors, ("torch",)),
    "files": (files, ("pyarrow",)),
    "Dask collections": (dask_collections, ("dask", "distributed")),
    "Spark frames": (spark_frames, ("pyspark", "pyarrow")),
}


def main(name):
    """Run the calls of one kind and say what they changed."""
    folder = Path(tempfile.mkdtemp())
    modules("threadpoolctl", "sklearn.model_selection", "scipy.stats")
    # compiled on first use, and imported: that is no call yet
    confmax.maximize("macro_f1", *table()[:2], classes=NAMES)
    try:
        steps = CALLS[name][0](folder)
        next(steps)
        make_unusual()
        before = basics() | packages()
        next(steps, None)
        found = changed(before, basics() | packages())
        for _ in steps:
            pass
    finally:
        shutil.rmtree(folder)
    if found:
        sys.exit(f"changed: {', '.join(found)}")
