"""Sparse tables: what a pass costs, against the dense table, and whole runs with very many classes.

    python -m benchmarks sparse

Generated tables: ten stored float32 probabilities per row, classes of unequal size. The figures are written to the
section "sparse" of benchmarks/RESULTS.md.
"""

from __future__ import annotations

import tracemalloc
import warnings
from functools import partial

import numpy as np
import scipy.sparse as sp

import confmax
from benchmarks.harness import benchmark
from benchmarks.timing import seconds_of
from confmax.confusion import Gains
from confmax.kernels.blocks import n_threads
from confmax.oracle import make_oracle, make_table

STORED = 10
REPEATS = 5
MOST_PASSES = 20


def table(n, K, seed=0):
    """Return a csr_array (n, K) of about ten probabilities per row, and labels drawn from them."""
    rng = np.random.default_rng(seed)
    p = rng.gamma(0.4, size=(n, STORED)).astype(np.float32) + np.float32(1e-6)
    p /= p.sum(axis=1, keepdims=True)
    # small classes are many: class sizes fall like a square
    columns = np.sort((K * rng.random((n, STORED)) ** 2).astype(np.int32), axis=1)
    drawn = (rng.random(n, dtype=np.float32)[:, None] > np.cumsum(p, axis=1)).sum(axis=1).clip(0, STORED - 1)
    y = columns[np.arange(n), drawn]
    rows = np.arange(n + 1, dtype=np.int32) * STORED
    csr = sp.csr_array((p.reshape(-1), columns.reshape(-1), rows), shape=(n, K))
    csr.sum_duplicates()
    return csr, y


def median_seconds(work):
    work()
    return float(np.median([seconds_of(work)[0] for _ in range(REPEATS)]))


def gains(K):
    """Return one gain with a weight and an offset per class, as a kappa or an F-measure asks for."""
    rng = np.random.default_rng(1)
    return Gains.reduced(1.0 + rng.random(K), -0.01 * rng.random(K))


def passes():
    lines = ["stored entries | K | rows | check, ms | pass, ms | ns per entry", "---:|---:|---:|---:|---:|---:|"]
    for stored in (10**6, 10**7, 10**8):
        for K in (10**3, 10**4, 10**5):
            csr, _ = table(stored // STORED, K)
            check = median_seconds(lambda csr=csr: make_table(csr))
            oracle, gain = make_oracle(make_table(csr)), gains(K)
            seconds = median_seconds(lambda oracle=oracle, gain=gain: oracle.maximize(gain))
            nnz, n = csr.nnz, csr.shape[0]
            lines.append(
                f"{nnz:,} | {K:,} | {n:,} | {1e3 * check:.1f} | {1e3 * seconds:.1f} | {1e9 * seconds / nnz:.2f}"
            )
            print(lines[-1], flush=True)
    return lines


def beside_dense(n=50_000, K=1000):
    csr, y = table(n, K)
    dense = csr.toarray()
    lines = [f"on {n:,} x {K:,}, float32 | dense | sparse", "---|---:|---:|"]
    tables = [make_table(dense), make_table(csr)]
    found = [median_seconds(lambda t=t: make_oracle(t).maximize(gains(K))) for t in tables]
    lines.append(f"a first pass, ms (dense: its layout too) | {1e3 * found[0]:.1f} | {1e3 * found[1]:.1f}")
    oracles = [make_oracle(t) for t in tables]
    found = [median_seconds(lambda o=o: o.maximize(gains(K))) for o in oracles]
    lines.append(f"a pass, ms | {1e3 * found[0]:.1f} | {1e3 * found[1]:.1f}")
    for name in ("cohen_kappa", "macro_f1"):
        taken, values = [], []
        for given in (dense, csr):
            tune = partial(confmax.maximize, name, given, y, confusion="model", calibration=None)
            seconds, solution = seconds_of(tune)
            taken.append(seconds)
            values.append(solution.value)
        lines.append(f"maximize {name}, s | {taken[0]:.2f} | {taken[1]:.2f}")
        lines.append(f"its value | {values[0]:.9f} | {values[1]:.9f}")
    lines.append(f"size, MB | {dense.nbytes / 1e6:.0f} | {(csr.data.nbytes + csr.indices.nbytes) / 1e6:.0f}")
    print("\n".join(lines), flush=True)
    return lines


def whole_runs(n=200_000, K=100_000):
    csr, y = table(n, K)
    size = (csr.data.nbytes + csr.indices.nbytes + csr.indptr.nbytes) / 1e6
    lines = [
        f"K = {K:,}, {n:,} rows ({size:.0f} MB) | estimate | value | argmax | gap | passes | s | MB added",
        "---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name in ("accuracy", "balanced_accuracy", "cohen_kappa", "micro_f1", "mcc", "macro_f1", "h_mean"):
        for mode in ("model", "blend"):
            tune = partial(confmax.maximize, name, csr, y, confusion=mode)
            seconds, found = seconds_of(partial(tune, max_passes=MOST_PASSES))
            tracemalloc.start()
            tune(max_passes=4)
            peak = tracemalloc.get_traced_memory()[1] / 1e6
            tracemalloc.stop()
            gap = "" if found.gap is None else f"{found.gap:.1e}"
            lines.append(
                f"{name} | {mode} | {found.value:.5f} | {found.baselines['argmax']:.5f} | {gap} | {found.n_passes} | "
                f"{seconds:.1f} | {peak:.0f}"
            )
            print(lines[-1], flush=True)
    return lines


def solvers(n=20_000):
    lines = ["metric | K | solver | value | gap | passes | s", "---|---:|---|---:|---:|---:|---:|"]
    for K in (100, 300, 500):
        csr, _ = table(n, K)
        for name, own in (("h_mean", "fully_corrective"), ("q_mean", "fully_corrective"), ("min_recall", "max_min")):
            for solver in (own, "frank_wolfe"):
                tune = partial(confmax.maximize, name, csr, solver=solver, randomized=True)
                seconds, found = seconds_of(tune)
                lines.append(
                    f"{name} | {K} | {solver} | {found.value:.6f} | {found.gap:.1e} | {found.n_passes} | {seconds:.1f}"
                )
                print(lines[-1], flush=True)
    return lines


@benchmark("sparse", "")
def main():
    warnings.filterwarnings("ignore", message=".* divides by class sizes")
    return [
        f"ten stored float32 probabilities per row, int32 indices, medians of {REPEATS}, {n_threads()} threads.",
        "One gain with a weight and an offset per class; `check` validates the table, a pass decides all rows and "
        "counts them.",
        "\n".join(passes()),
        "\n".join(beside_dense()),
        "Whole runs on very many classes, at most 20 passes (true classes are "
        "drawn from the probabilities; metrics of recalls are over the present classes).",
        "\n".join(whole_runs()),
        "Metrics of the recalls where there are many classes, model confusion, a randomised rule: `solver='auto'` "
        "takes the conditional gradient above 500 classes for min_recall, above 2000 for the others.",
        "\n".join(solvers()),
    ]
