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

import numpy as np

from benchmarks.harness import figures, load, markdown, report
from confmax.calibration import Temperature, VectorScaling, choose, fit, log_loss
from confmax.calibration.scaling import FLOOR, Sample, fit_power, fit_vector, log_table, one_power
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
    rows = []
    for n, K in SIZES:
        table = large_table(n, K)
        times, work = [], []
        for _ in range(3 if n * K <= 4_000_000 else 1):
            start, began = time.perf_counter(), time.process_time()
            found = choose(table)
            times.append(time.perf_counter() - start)
            work.append(time.process_time() - began)
        losses = figures([found.cv_log_loss_before, found.cv_log_loss_after])
        rows.append([found.kind, n, K, *figures([min(times), min(work)], ".2f"), *losses])
    head = ["kind", "rows", "classes", "seconds, choice and fit", "processor seconds", "log loss before",
            "after, held out"]  # fmt: skip
    return markdown(head, rows)


def both(data):
    """Return the table to tune on and the one to score on."""
    return [make_table(P, y, None, range(data.K)) for P, y in ((data.P, data.y), (data.Q, data.z))]


def one_table(data):
    tune, test = both(data)
    found = choose(tune)
    after = {kind: log_loss(test.calibrated(choose(tune, kind).calibrator)) for kind in ("temperature", "vector")}
    after["none"] = log_loss(test)
    difference = np.log(own(test)) - np.log(own(test.calibrated(found.calibrator)))
    error = difference.std() / np.sqrt(len(difference))
    return found, after, error


def own(table):
    return np.maximum(table.proba[np.arange(table.n_rows), table.labels].astype(float), 1e-12)


def real_tables(tables):
    head = ["table", "kind", "tuning, before", "tuning, after (held out)", "test, before", "test, after",
            "change on test, standard error", "none, temperature, vector on test"]  # fmt: skip
    rows = []
    changed = worse = clearly = best = 0
    changes = []
    for data in tables:
        found, after, error = one_table(data)
        change = after[found.kind] - after["none"]
        changes.append(change)
        changed += found.kind != "none"
        worse += change > 0
        clearly += change > 2 * error
        best += after[found.kind] <= min(after.values())
        losses = [found.cv_log_loss_before, found.cv_log_loss_after, after["none"], after[found.kind]]
        every = figures(after[kind] for kind in ("none", "temperature", "vector"))
        rows.append([data.stem, found.kind, *figures(losses), f"{change:+.4f} ({error:.4f})", ", ".join(every)])
    told = (
        f"{changed} of {len(changes)} tables are changed; on test rows the log loss is worse than without calibration "
        f"on {worse}, by more than two standard errors on {clearly}; mean change {np.mean(changes):+.4f}, median "
        f"{np.median(changes):+.4f}; the kind chosen is the best of the three on test on {best}."
    )
    return told + "\n\n" + markdown(head, rows, words=2)


def without_floor(table, kind):
    """Return the calibrator of a kind over the lowest floor, 1e-12, whatever would fit best."""
    rows = Sample(log_table(table.proba, FLOOR), table.labels, np.ones(table.n_rows))
    power = fit_power(rows)
    if kind == "temperature":
        return Temperature(1.0 / power)
    return VectorScaling(*fit_vector(rows, one_power(power, table.n_classes)))


def floors(tables):
    """Return what the floor changes on the rows not fitted on: both halves of every table, each fitted once."""
    head, lines = ["kind", "log loss, lowest floor", "fitted floor", "accuracy, lowest floor", "fitted floor"], []
    largest = (0.0, "")
    for kind in ("temperature", "vector"):
        rows = []
        for data in (part for each in tables for part in (each, each.turned())):
            half, other = both(data)
            made = [other.calibrated(c) for c in (without_floor(half, kind), fit(half, kind))]
            hits = [float((table.proba.argmax(axis=1) == table.labels).mean()) for table in made]
            rows.append([*(log_loss(table) for table in made), *hits])
            raw = float((other.proba.argmax(axis=1) == other.labels).mean())
            largest = max(largest, (raw - hits[0], f"{data.stem}, {kind}: {raw:.4f} raw, {hits[0]:.4f} with the "
                                                   f"lowest floor, {hits[1]:.4f} with the fitted one"))  # fmt: skip
        lines.append([kind, *figures(np.mean(rows, axis=0))])
    told = "What the floor changes, mean over both halves of every table, each scored on the half it was not fitted on."
    return "\n\n".join([told, markdown(head, lines), f"Largest loss of accuracy without it: {largest[1]}."])


def main(folder):
    tables = load(folder)
    report(
        "calibration",
        f"`python -m benchmarks.calibration FOLDER`: `calibration='auto'`, log loss in nats, {os.cpu_count()} cores. "
        f"Seconds are for choosing by five folds and fitting, float32, compiled code warm; of three runs the shortest "
        f"where n K <= 4M, with its processor time.",
        seconds(),
        real_tables(tables),
        floors(tables),
    )


if __name__ == "__main__":
    main(sys.argv[1])
