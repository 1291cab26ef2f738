"""Calibration: seconds for a large table, and log loss before and after on real ones.

    python -m benchmarks.calibration FOLDER_OF_NPZ

Each NPZ holds P_tune, y_tune, P_test, y_test. The kind is chosen and fitted on the first two; its log loss is that of
held-out folds of these, and of the other two. The figures are written to the section "calibration" of
benchmarks/RESULTS.md.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.results import write_section
from confmax.calibration import choose, log_loss
from confmax.oracle import make_table

SIZES = [(20_000, 20), (200_000, 20), (1_000_000, 10), (20_000, 1000)]


def large_table(n, K, seed=0):
    """Return a table whose labels follow a tilted version of its probabilities."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.linspace(0.2, 1.0, K), n).astype(np.float32)
    P /= P.sum(axis=1, keepdims=True)
    scores = rng.uniform(0.6, 1.4, K) * np.log(np.maximum(P, 1e-12)) + 0.5 * rng.normal(size=K)
    y = (scores + rng.gumbel(size=(n, K))).argmax(axis=1)
    return make_table(P, y, None, range(K))


def seconds():
    choose(large_table(1000, 3))
    lines = [
        "rows | classes | kind | seconds, choice and fit | processor seconds | log loss before | after, held out",
        "---:|---:|---|---:|---:|---:|---:",
    ]
    for n, K in SIZES:
        table = large_table(n, K)
        times, work = [], []
        for _ in range(3 if n * K <= 4_000_000 else 1):
            start, began = time.perf_counter(), time.process_time()
            found = choose(table)
            times.append(time.perf_counter() - start)
            work.append(time.process_time() - began)
        lines.append(
            f"{n} | {K} | {found.kind} | {min(times):.2f} | {min(work):.2f} | {found.cv_log_loss_before:.4f} | "
            f"{found.cv_log_loss_after:.4f}"
        )
    return "\n".join(lines)


def one_table(path):
    data = np.load(path)
    K = data["P_tune"].shape[1]
    tune = make_table(data["P_tune"], data["y_tune"], None, range(K))
    test = make_table(data["P_test"], data["y_test"], None, range(K))
    found = choose(tune)
    after = {kind: log_loss(test.calibrated(choose(tune, kind).calibrator)) for kind in ("temperature", "vector")}
    after["none"] = log_loss(test)
    difference = np.log(own(test)) - np.log(own(test.calibrated(found.calibrator)))
    error = difference.std() / np.sqrt(len(difference))
    return found, after, error


def own(table):
    return np.maximum(table.proba[np.arange(table.n_rows), table.labels].astype(float), 1e-12)


def real_tables(folder):
    lines = [
        "table | kind | tuning, before | tuning, after (held out) | test, before | test, after | change on test, "
        "standard error | none, temperature, vector on test",
        "---|---|---:|---:|---:|---:|---:|---:",
    ]
    changed = worse = clearly = best = 0
    changes = []
    for path in sorted(Path(folder).glob("*.npz")):
        found, after, error = one_table(path)
        change = after[found.kind] - after["none"]
        changes.append(change)
        changed += found.kind != "none"
        worse += change > 0
        clearly += change > 2 * error
        best += after[found.kind] <= min(after.values())
        lines.append(
            f"{path.stem} | {found.kind} | {found.cv_log_loss_before:.4f} | {found.cv_log_loss_after:.4f} | "
            f"{after['none']:.4f} | {after[found.kind]:.4f} | {change:+.4f} ({error:.4f}) | "
            f"{after['none']:.4f}, {after['temperature']:.4f}, {after['vector']:.4f}"
        )
    told = (
        f"{changed} of {len(changes)} tables are changed; on test rows the log loss is worse than without calibration "
        f"on {worse}, by more than two standard errors on {clearly}; mean change {np.mean(changes):+.4f}, median "
        f"{np.median(changes):+.4f}; the kind chosen is the best of the three on test on {best}."
    )
    return told + "\n\n" + "\n".join(lines)


def main(folder):
    text = (
        f"`python -m benchmarks.calibration FOLDER`: `calibration='auto'`, log loss in nats, {os.cpu_count()} cores. "
        f"Seconds are for choosing by five folds and fitting, float32, compiled "
        f"code warm; of three runs the shortest where n K <= 4M, with its processor time.\n\n"
        f"{seconds()}\n\n{real_tables(folder)}"
    )
    write_section("calibration", text)
    print(text)


if __name__ == "__main__":
    main(sys.argv[1])
