"""Test values of tuned rules on real probability tables, beside argmax and p / prior.

    python -m benchmarks.quality FOLDER_OF_NPZ

A rule is tuned on the tuning rows and scored on the labels of the test rows. The tables, with the share of runs in
which a rule is below a baseline on its own tuning objective, are written to the section "quality" of
benchmarks/RESULTS.md.
"""

from __future__ import annotations

import sys

import numpy as np

import confmax
from benchmarks import methods
from benchmarks.harness import load, markdown, report, value

METRICS = ["g_mean", "h_mean", "q_mean", "macro_f1", "min_recall"]
BASELINES = {"argmax": methods.argmax, "p/prior": methods.by_prior}
SETTINGS = {
    "default": {},
    "labels": {"confusion": "labels", "calibration": None},
    "model": {"confusion": "model", "calibration": None},
}
COLUMNS = [*BASELINES, *SETTINGS]


def one_table(data):
    """Return test values {(metric, column)}, and (runs, runs below a baseline) over all metrics that apply."""
    values, runs, below = {}, 0, 0
    for name in confmax.metrics.names():
        if name == "linear" or (confmax.metrics.get(name).binary and data.K != 2):
            continue
        for mode, settings in SETTINGS.items():
            solution = confmax.maximize(name, data.P, data.y, **settings)
            runs += 1
            below += solution.value < max(solution.baselines.values()) - 1e-12
            if name in METRICS:
                values[name, mode] = value(name, data.z, solution.rule.decision_probabilities(data.Q))
    for column, tune in BASELINES.items():
        for name in METRICS:
            values[name, column] = value(name, data.z, tune(name, data.P, data.y).decide(data.Q))
    return values, runs, below


def table_of(name, results):
    columns = np.array([[values[name, column] for column in COLUMNS] for values in results.values()])
    rows = []
    for stem, row in zip(results, columns, strict=True):
        rows.append([stem, *(f"**{v:.4f}**" if v >= max(row) - 5e-5 else f"{v:.4f}" for v in row)])
    ranks = (columns[:, None, :] > columns[:, :, None] + 1e-9).sum(axis=2) + 1
    losses = (columns[:, 2:] < columns[:, :2].max(axis=1, keepdims=True) - 1e-9).sum(axis=0)
    rows.append(["mean", *(f"{v:.4f}" for v in columns.mean(axis=0))])
    rows.append(["mean rank", *(f"{v:.2f}" for v in ranks.mean(axis=0))])
    rows.append(["tables below the better baseline", "", "", *losses])
    return markdown([f"**{name}**", *COLUMNS], rows)


def main(folder):
    found = {data.stem: one_table(data) for data in load(folder)}
    results = {stem: values for stem, (values, _, _) in found.items()}
    runs, below = (sum(counted[k] for counted in found.values()) for k in (1, 2))
    report(
        "quality",
        f"`python -m benchmarks.quality FOLDER` on {len(results)} tables: values on the test rows' labels, higher is "
        f"better; `default` is confmax's defaults, `labels` and `model` that estimate without calibration.",
        f"Tuning objective below argmax or p/prior in {below} of {runs} runs (all metrics that apply, three settings).",
        *(table_of(name, results) for name in METRICS),
    )


if __name__ == "__main__":
    main(sys.argv[1])
