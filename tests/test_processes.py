"""Processes that are started after a scan has started threads: each tunes and decides as this one, and none hangs."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import confmax
from tests.cli_helpers import run_process

ROOT = Path(__file__).parents[1]
N = 100_000  # rows of several partial sums, which threads share
# the rest of a process that hangs would never be seen: all of it runs below a process with a time limit
CODE = "from tests.test_processes import run; run({!r})"
METHODS = [*multiprocessing.get_all_start_methods(), "loky"]


@cache
def table():
    draw = np.random.default_rng(0)
    P = draw.dirichlet([2, 1, 1], N)
    return P, (P.cumsum(axis=1) > draw.random((N, 1))).argmax(axis=1)


def work(metric):
    """Tune and decide; return what came of it."""
    P, y = table()
    rule = confmax.maximize(metric, P, y).rule
    return rule.to_json(), int(rule.predict(P).sum())


def run(method):
    """Compare what processes that begin by a ``method`` make of the rows with what this one makes."""
    here = work("g_mean")
    if method == "loky":
        import joblib

        there = joblib.Parallel(2, backend="loky")(joblib.delayed(work)("g_mean") for _ in range(2))
    else:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as pool:
            there = list(pool.map(work, ["g_mean"] * 2, timeout=100))
    assert there == [here, here]


@pytest.mark.parametrize("method", METHODS)
def test_a_process_that_begins_after_a_scan(method):
    # of newer Pythons, which warn of a fork beside threads; a child of a fork starts threads of its own here
    code = f"import warnings; warnings.simplefilter('ignore', DeprecationWarning); {CODE.format(method)}"
    done = run_process(code=code, cwd=ROOT, env={"CONFMAX_NUM_THREADS": "3"})
    assert done.returncode == 0, done.stderr[-2000:]
