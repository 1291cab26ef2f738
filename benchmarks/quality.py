"""Test values of tuned rules on real probability tables, beside argmax and p / prior.

    python -m benchmarks.quality FOLDER_OF_NPZ

Each NPZ holds P_tune, y_tune, P_test, y_test. A rule is tuned on the first two and scored on the labels of the other
two. The tables, with the share of runs in which a rule is below a baseline on its own tuning objective, are written to
the section "quality" of benchmarks/RESULTS.md.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

import confmax
from benchmarks.results import write_section
from confmax.oracle import make_oracle, make_table

METRICS = ["g_mean", "h_mean", "q_mean", "macro_f1", "min_recall"]
COLUMNS = ["argmax", "p/prior", "default", "labels", "model"]
SETTINGS = {
    "default": {},
    "labels": {"confusion": "labels", "calibration": None},
    "model": {"confusion": "model", "calibration": None},
}


def value_on_test(metric, rule, P, y):
    oracle = make_oracle(make_table(P, y, None, range(P.shape[1])), "labels")
    return float(metric.values(rule.evaluate(oracle, matrix=metric.statistics == "matrix")))


def baseline_rules(P, y):
    prior = np.bincount(y, minlength=P.shape[1]) / len(y)
    return {
        "argmax": confmax.DecisionRule.from_weights(np.ones(P.shape[1])),
        "p/prior": confmax.DecisionRule.from_weights(1 / prior),
    }


def one_table(path):
    """Return test values {(metric, column)}, and (runs, runs below a baseline) over all metrics that apply."""
    data = np.load(path)
    P, y, P_test, y_test = data["P_tune"], data["y_tune"], data["P_test"], data["y_test"]
    values, runs, below = {}, 0, 0
    for name in confmax.metrics.names():
        if name == "linear" or (confmax.metrics.get(name).binary and P.shape[1] != 2):
            continue
        for mode, settings in SETTINGS.items():
            solution = confmax.maximize(name, P, y, **settings)
            runs += 1
            below += solution.value < max(solution.baselines.values()) - 1e-12
            if name in METRICS:
                values[name, mode] = value_on_test(solution.metric, solution.rule, P_test, y_test)
    for column, rule in baseline_rules(P, y).items():
        for name in METRICS:
            values[name, column] = value_on_test(confmax.metrics.get(name), rule, P_test, y_test)
    return values, runs, below


def table_of(name, results):
    lines = [f"**{name}** | " + " | ".join(COLUMNS), "---|" + "---:|" * len(COLUMNS)]
    for table, values in results.items():
        row = [values[name, column] for column in COLUMNS]
        best = max(row)
        cells = [f"**{v:.4f}**" if v >= best - 5e-5 else f"{v:.4f}" for v in row]
        lines.append(f"{table} | " + " | ".join(cells))
    columns = np.array([[values[name, column] for column in COLUMNS] for values in results.values()])
    lines.append("mean | " + " | ".join(f"{v:.4f}" for v in columns.mean(axis=0)))
    ranks = (columns[:, None, :] > columns[:, :, None] + 1e-9).sum(axis=2) + 1
    lines.append("mean rank | " + " | ".join(f"{v:.2f}" for v in ranks.mean(axis=0)))
    losses = (columns[:, 2:] < columns[:, :2].max(axis=1, keepdims=True) - 1e-9).sum(axis=0)
    lines.append("tables below the better baseline | | | " + " | ".join(map(str, losses)))
    return "\n".join(lines)


def main(folder):
    start, results, runs, below = time.perf_counter(), {}, 0, 0
    for path in sorted(Path(folder).glob("*.npz")):
        results[path.stem], more, worse = one_table(path)
        runs, below = runs + more, below + worse
    text = [
        f"`python -m benchmarks.quality FOLDER` on {len(results)} tables: values on the test rows' labels, higher is "
        f"better; `default` is confmax's defaults, `labels` and `model` that estimate without calibration.",
        f"Tuning objective below argmax or p/prior in {below} of {runs} runs (all metrics that apply, three settings).",
        *(table_of(name, results) for name in METRICS),
    ]
    write_section("quality", "\n\n".join(text))
    print("\n\n".join(text))
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1])
