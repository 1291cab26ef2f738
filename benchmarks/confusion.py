"""Which estimate of the confusion matrix tunes best: labels, model, or a blend; with and without calibration.

    python -m benchmarks.confusion FOLDER_OF_NPZ

Two-fold cross-fitting: every table is tuned on its tuning rows and scored on its test rows, and the other way round;
then three samples of at most 300 rows (three or more of each class) per table are tuned on and scored on all others.
The figures are written to the section "confusion" of benchmarks/RESULTS.md.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np

from benchmarks import methods
from benchmarks.harness import Data, figures, load, markdown, paired, report, value

METRICS = ["g_mean", "h_mean", "q_mean", "min_recall", "macro_f1", "weighted_f1", "cohen_kappa", "quadratic_kappa",
           "mcc", "balanced_accuracy"]  # fmt: skip
MODES = ["labels", "blend", "model"]
SMALL = 300


def samples(data):
    """Yield three small samples with all other rows to score on."""
    P, y = np.vstack([data.P, data.Q]), np.concatenate([data.y, data.z])
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(y))
        some = np.concatenate([order[y[order] == k][:3] for k in range(data.K)])
        rest = order[~np.isin(order, some)]
        chosen = np.concatenate([some, rest[: max(min(SMALL, len(y) // 3) - len(some), 0)]])
        held = np.setdiff1d(order, chosen)
        yield Data(data.stem, P[chosen], y[chosen], P[held], y[held])


def measure(parts, columns):
    """Return held-out values {(metric, calibration, mode): list}."""
    found = {}
    for calibration, mode in columns:
        tune = methods.ours(confusion=mode, calibration=calibration)
        for name in METRICS:
            values = [value(name, data.z, tune(name, data.P, data.y).decide(data.Q)) for data in parts]
            found[name, calibration, mode] = values
    return found


def table_of(values, columns):
    head = ["metric", *(mode + ("" if calibration else ", raw") for calibration, mode in columns)]
    rows = []
    for name in METRICS:
        blend = np.array(values[name, "auto", "blend"])
        differences = [blend - values[name, "auto", other] for other in ("labels", "model")]
        rows.append([
            name, *figures(np.mean(values[name, *column]) for column in columns),
            *("{:+.4f} ({:.4f}), {}/{}".format(*paired(d), (d > 1e-9).sum(), (d < -1e-9).sum()) for d in differences),
        ])  # fmt: skip
    means = figures(np.mean([values[name, *column] for name in METRICS]) for column in columns)
    head += ["blend - labels (s.e.), won/lost", "blend - model (s.e.), won/lost"]
    return markdown(head, [*rows, ["mean", *means, "", ""]])


def main(folder):
    warnings.simplefilter("ignore")
    start, tables = time.perf_counter(), load(folder)
    calibrated = [("auto", mode) for mode in MODES]
    every = [(None, mode) for mode in MODES] + calibrated
    both = measure([part for data in tables for part in (data, data.turned())], every)
    few = measure([part for data in tables for part in samples(data)], calibrated)
    report(
        "confusion",
        f"`python -m benchmarks.confusion FOLDER` ({time.perf_counter() - start:.0f} s): held-out values on labels, "
        f"`randomized='auto'`, `calibration='auto'` unless raw.",
        f"Two-fold cross-fitting over {len(tables)} tables ({2 * len(tables)} values per cell):",
        table_of(both, every),
        f"Small samples, at most {SMALL} rows, three per table ({3 * len(tables)} values per cell):",
        table_of(few, calibrated),
    )


if __name__ == "__main__":
    main(sys.argv[1])
