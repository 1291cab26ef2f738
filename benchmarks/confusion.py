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
from pathlib import Path

import numpy as np

import confmax
from benchmarks.quality import value_on_test
from benchmarks.results import write_section

METRICS = ["g_mean", "h_mean", "q_mean", "min_recall", "macro_f1", "weighted_f1", "cohen_kappa", "quadratic_kappa",
           "mcc", "balanced_accuracy"]  # fmt: skip
MODES = ["labels", "blend", "model"]
SMALL = 300


def halves(data):
    """Yield (P, y, P held out, y held out): both directions."""
    yield data["P_tune"], data["y_tune"], data["P_test"], data["y_test"]
    yield data["P_test"], data["y_test"], data["P_tune"], data["y_tune"]


def samples(data):
    """Yield three small samples with all other rows to score on."""
    P, y = np.vstack([data["P_tune"], data["P_test"]]), np.concatenate([data["y_tune"], data["y_test"]])
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(y))
        some = np.concatenate([order[y[order] == k][:3] for k in range(P.shape[1])])
        rest = order[~np.isin(order, some)]
        chosen = np.concatenate([some, rest[: max(min(SMALL, len(y) // 3) - len(some), 0)]])
        held = np.setdiff1d(order, chosen)
        yield P[chosen], y[chosen], P[held], y[held]


def values(parts, calibrations):
    """Return held-out values {(metric, calibration, mode): list}."""
    found = {}
    for P, y, Q, z in parts:
        for calibration in calibrations:
            for mode in MODES:
                for name in METRICS:
                    classes = range(P.shape[1])
                    solution = confmax.maximize(name, P, y, classes=classes, confusion=mode, calibration=calibration)
                    value = value_on_test(confmax.metrics.get(name), solution.rule, Q, z)
                    found.setdefault((name, calibration, mode), []).append(value)
    return found


def paired(a, b):
    d = np.array(a) - np.array(b)
    return f"{d.mean():+.4f} ({d.std(ddof=1) / np.sqrt(len(d)):.4f}), {(d > 1e-9).sum()}/{(d < -1e-9).sum()}"


def table_of(found, calibrations):
    columns = [(calibration, mode) for calibration in calibrations for mode in MODES]
    heads = [f"{mode}{'' if calibration else ', raw'}" for calibration, mode in columns]
    lines = [
        "metric | " + " | ".join(heads) + " | blend - labels (s.e.), won/lost | blend - model (s.e.), won/lost",
        "---|" + "---:|" * (len(columns) + 2),
    ]
    for name in METRICS:
        means = [f"{np.mean(found[name, *column]):.4f}" for column in columns]
        differences = [
            paired(found[name, "auto", "blend"], found[name, "auto", other]) for other in ("labels", "model")
        ]
        lines.append(f"{name} | " + " | ".join(means + differences))
    means = [f"{np.mean([found[name, *column] for name in METRICS]):.4f}" for column in columns]
    lines.append("mean | " + " | ".join(means) + " | |")
    return "\n".join(lines)


def main(folder):
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    tables = [np.load(path) for path in sorted(Path(folder).glob("*.npz"))]
    both = values([part for data in tables for part in halves(data)], [None, "auto"])
    few = values([part for data in tables for part in samples(data)], ["auto"])
    text = [
        f"`python -m benchmarks.confusion FOLDER` ({time.perf_counter() - start:.0f} s): held-out values on labels, "
        f"`randomized='auto'`, `calibration='auto'` unless raw.",
        f"Two-fold cross-fitting over {len(tables)} tables ({2 * len(tables)} values per cell):",
        table_of(both, [None, "auto"]),
        f"Small samples, at most {SMALL} rows, three per table ({3 * len(tables)} values per cell):",
        table_of(few, ["auto"]),
    ]
    write_section("confusion", "\n\n".join(text))
    print("\n\n".join(text))


if __name__ == "__main__":
    main(sys.argv[1])
