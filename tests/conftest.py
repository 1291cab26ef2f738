"""What all tests share: compiled code is made once for all processes of a test run, and Java compiles little.

Where nothing is compiled yet, every process that pytest-xdist starts would compile the same functions, for a third of a
minute of each kind of table. So each begins with another kind, and waits for what others compile.
"""

import os
import time

import numpy as np
import pytest

import confmax

# Spark's programs are short here: Java's optimising compiler takes about half of their processor time
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
WAIT = 600  # seconds: a process that died while it compiled must not hold up the others for ever


def use_compiled(dtype):
    """Tune and apply rules on a table of one precision, so that what they compile is in numba's cache."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), 300)
    y = (P.cumsum(axis=1) > rng.random((300, 1))).argmax(axis=1)
    P = P.astype(dtype)
    for metric in ("macro_f1", "g_mean", "quadratic_kappa"):
        for weight in (None, np.ones(300)):
            rule = confmax.maximize(metric, P, y, sample_weight=weight).rule
            rule.decision_probabilities(P)
            rule.predict(P)


def once_for_all(folder, name, task):
    """Run a task unless another process did or does, and wait for that one."""
    mine, done = folder / f"{name}.begun", folder / f"{name}.done"
    try:
        mine.touch(exist_ok=False)
    except FileExistsError:
        end = time.monotonic() + WAIT
        while not done.exists() and time.monotonic() < end:
            time.sleep(0.1)
        return
    try:
        task()
    finally:
        done.touch()


@pytest.fixture(scope="session", autouse=True)
def _compiled(request, tmp_path_factory):
    worker = getattr(request.config, "workerinput", None)
    if worker is None:
        return  # without pytest-xdist there is nobody to wait for
    kinds = [np.float64, np.float32]
    first = int(worker["workerid"].removeprefix("gw")) % len(kinds)
    folder = tmp_path_factory.getbasetemp().parent  # of the whole run
    for kind in (*kinds[first:], *kinds[:first]):
        once_for_all(folder, kind.__name__, lambda kind=kind: use_compiled(kind))
