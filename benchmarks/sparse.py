"""Sparse tables: what a pass costs, against the dense table, and whole runs with very many classes.

Generated tables: ten stored float32 probabilities per row, classes of unequal size.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import scipy.sparse as sp

import confmax
from benchmarks.harness import MODEL, benchmark, markdown
from benchmarks.timing import seconds_of
from confmax.confusion import Gains
from confmax.kernels.blocks import n_threads
from confmax.oracle import make_oracle, make_table

STORED, REPEATS, MOST_PASSES = 10, 5, 20


def table(n, K, seed=0):
    """Return a csr_array (n, K) of about ten probabilities per row, and labels drawn from them."""
    rng = np.random.default_rng(seed)
    p = rng.gamma(0.4, size=(n, STORED)).astype(np.float32) + np.float32(1e-6)
    p /= p.sum(axis=1, keepdims=True)
    # small classes are many: class sizes fall like a square
    columns = np.sort((K * rng.random((n, STORED)) ** 2).astype(np.int32), axis=1)
    drawn = (rng.random(n, dtype=np.float32)[:, None] > np.cumsum(p, axis=1)).sum(axis=1).clip(0, STORED - 1)
    rows = np.arange(n + 1, dtype=np.int32) * STORED
    csr = sp.csr_array((p.reshape(-1), columns.reshape(-1), rows), shape=(n, K))
    csr.sum_duplicates()
    return csr, columns[np.arange(n), drawn]


def milliseconds_of(work):
    """Return the median milliseconds of a call, after one that is not counted."""
    work()
    return 1e3 * float(np.median([seconds_of(work)[0] for _ in range(REPEATS)]))


def gains(K):
    """Return one gain with a weight and an offset per class, as a kappa or an F-measure asks for."""
    rng = np.random.default_rng(1)
    return Gains.reduced(1.0 + rng.random(K), -0.01 * rng.random(K))


def beside_dense(n=50_000, K=1000):
    """Return a row for the dense and for the sparse table: a pass, and runs of two metrics."""
    csr, y = table(n, K)
    rows = []
    for name, given in (("dense", csr.toarray()), ("sparse", csr)):
        oracle = make_oracle(make_table(given))
        cells = [f"{milliseconds_of(partial(oracle.maximize, gains(K))):.1f}"]
        for metric in ("cohen_kappa", "macro_f1"):
            seconds, solution = seconds_of(partial(confmax.maximize, metric, given, y, **MODEL))
            cells += [f"{seconds:.2f}", f"{solution.value:.9f}"]
        rows.append([name, *cells])
    return rows


def whole_runs(n=200_000, K=100_000):
    """Return a row for each metric on very many classes."""
    csr, y = table(n, K)
    rows = []
    for metric in ("accuracy", "balanced_accuracy", "cohen_kappa", "micro_f1", "mcc", "macro_f1", "h_mean"):
        run = partial(confmax.maximize, metric, csr, y, confusion="model", max_passes=MOST_PASSES)
        seconds, solution = seconds_of(run)
        gap = "" if solution.gap is None else f"{solution.gap:.1e}"
        both = (f"{part:.5f}" for part in (solution.value, solution.baselines["argmax"]))
        rows.append([metric, *both, gap, solution.n_passes, f"{seconds:.1f}"])
    return rows


@benchmark("sparse")
def sparse(quick=False):
    """Measure passes and runs of sparse tables."""
    small = {"n": 2000, "K": 100} if quick else {}
    runs = ["a pass, ms", "cohen_kappa, s", "value", "macro_f1, s", "value"]
    return [
        f"ten stored float32 probabilities per row, int32 indices, {n_threads()} threads: on 50,000 x 1,000 a pass "
        f"with a weight and an offset per class, median of {REPEATS}, and whole runs, beside the dense table:",
        markdown(["table", *runs], beside_dense(**small)),
        f"Runs on the model, 200,000 rows of 100,000 classes, at most {MOST_PASSES} passes (true classes are drawn "
        f"from the probabilities; metrics of recalls are over the present classes):",
        markdown(["metric", "value", "argmax", "gap", "passes", "seconds"], whole_runs(**small)),
    ]
