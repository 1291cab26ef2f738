"""Time per scan against the size of the table, and scans to a certificate against the number of classes."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import confmax
from benchmarks._speed_process import emit, measured
from benchmarks._speed_tables import SEED, Recipe
from benchmarks._speed_tools import milliseconds, seconds_of, two_threads, verdict
from confmax.confusion import Gains
from confmax.oracle import make_oracle, make_table

PLOT = Path(__file__).parent / "figures" / "scaling.png"
CELLS = (1_000_000, 3_000_000, 10_000_000, 30_000_000, 100_000_000)
GROWING = {"rows, K = 10": ("rows", 10), "rows, K = 100": ("rows", 100), "classes, n = 20k": ("classes", 20_000)}
SLOPES = (0.9, 1.1)
REPEATS = 7
MANY_CLASSES, ROWS = (10, 100, 1000), 100_000
METRICS = ("cohen_kappa", "g_mean", "h_mean", "q_mean", "macro_f1")
FACTOR = 2.5
CAP = 120.0


# --- time per scan ----------------------------------------------------------------------------------------------------


def measure_scaling(quick=False):
    """Return one row per way of growing: cells, times of a scan and the slope of log time on log cells."""
    rows = []
    for name, (what, fixed) in GROWING.items():
        times, sizes = [], []
        for cells in CELLS[:2] if quick else CELLS:
            n, K = (cells // fixed, fixed) if what == "rows" else (fixed, cells // fixed)
            recipe = Recipe(n, K)
            P, _ = recipe.draw()
            oracle, gains = make_oracle(make_table(P)), Gains.reduced(1 / recipe.priors(), np.full(K, 0.01))
            oracle.maximize(gains)
            # one scan after another, as a solver makes them
            times.append([seconds_of(oracle.maximize, gains)[0] for _ in range(REPEATS)])
            sizes.append(n * K)
        slope = float(np.polyfit(np.log(sizes), np.log(np.median(times, axis=1)), 1)[0])
        rows.append({"growing": name, "cells": sizes, "seconds": times, "slope": slope})
    return {"seed": SEED, "rows": rows}


def report_scaling(data):
    cells = data["rows"][0]["cells"]
    lines = [
        "`python -m benchmarks.speed scaling`: time per scan with a gain `a_j p_j + b_j`, one scan after another, "
        f"float32, median of {len(data['rows'][0]['seconds'][0])}; the slope of log time on log cells must be between "
        f"{SLOPES[0]} and {SLOPES[1]}. Milliseconds per scan:",
        "",
        "growing | " + " | ".join(f"{c / 1e6:.0f}M cells" for c in cells) + " | slope | target",
        "---|" + "---:|" * (len(cells) + 1) + "---",
    ]
    for row in data["rows"]:
        inside = SLOPES[0] <= row["slope"] <= SLOPES[1]
        middle = " | ".join(milliseconds(times) for times in row["seconds"])
        lines.append(f"{row['growing']} | {middle} | {row['slope']:.3f} | {'met' if inside else '**missed**'}")
    return "\n".join([*lines, "", "![time per scan](figures/scaling.png)"])


def plot(data, path=PLOT):
    """Save time per scan against cells, both logarithmic, with a line of slope one."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(5.5, 4), layout="constrained")
    for row, marker in zip(data["rows"], "osv", strict=False):
        middle = 1e3 * np.median(row["seconds"], axis=1)
        axis.plot(row["cells"], middle, marker=marker, label=f"{row['growing']}: slope {row['slope']:.2f}")
    cells = np.array(data["rows"][0]["cells"], dtype=float)
    anchor = 1e3 * np.median(data["rows"][0]["seconds"][-1])
    axis.plot(cells, anchor * cells / cells[-1], color="0.6", linestyle=":", label="slope 1")
    axis.set(xscale="log", yscale="log", xlabel="cells of the table (rows x classes)", ylabel="milliseconds per scan")
    axis.grid(alpha=0.3)
    axis.legend(title="growing", frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=80)
    plt.close(figure)


# --- passes -----------------------------------------------------------------------------------------------------------


def measure_passes(quick=False):
    """Return one row per number of classes and metric: passes, gap and seconds of a certified run."""
    rows = []
    for K in MANY_CLASSES[:1] if quick else MANY_CLASSES:
        n = 2000 if quick else ROWS
        for found in measured(["-m", "benchmarks._speed_scaling", n, K], METRICS, lambda _: CAP):
            rows.append({"n": n, "K": K, "size": Recipe(n, K).size, **found})
    return {"seed": SEED, "rows": rows}


def certify(n, K, *names):
    """Print the passes, the gap and the seconds of a run for every metric."""
    with two_threads():
        P, _ = Recipe(n, K).draw()
        for name in names:
            emit(event="start", metric=name)
            settings = {"confusion": "model", "calibration": None, "randomized": True}
            seconds, found = seconds_of(lambda m=name, s=settings: confmax.maximize(m, P, **s))
            emit(event="done", metric=name, passes=found.n_passes, gap=found.gap, seconds=[seconds])


def cell(row):
    """Return passes, gap and seconds as text."""
    if "passes" not in row:
        return f"> {row['seconds'][0]:.0f} s" if row.get("stopped") else "failed"
    gap = "none" if row["gap"] is None else f"{row['gap']:.1e}"
    return f"{row['passes']} ({gap}, {row['seconds'][0]:.2g} s)"


def report_passes(data):
    sizes = list(dict.fromkeys(row["size"] for row in data["rows"]))
    lines = [
        "`python -m benchmarks.speed passes`: scans of the table to a certified gap of 1e-6 (macro F1: to the end of "
        f"its search), `confusion='model'`, randomised; the most over the least must be at most {FACTOR}. In brackets "
        f"the gap and the seconds; a run is stopped after {CAP:.0f} s.",
        "",
        "metric | " + " | ".join(sizes) + " | most / least | target",
        "---|" + "---:|" * (len(sizes) + 1) + "---",
    ]
    for name in dict.fromkeys(row["metric"] for row in data["rows"]):
        rows = [row for row in data["rows"] if row["metric"] == name]
        passes = [row.get("passes", float("nan")) for row in rows]
        # NaN, where a run was stopped, meets nothing
        factor = float(np.max(passes) / np.min(passes))
        lines.append(f"{name} | {' | '.join(map(cell, rows))} | {factor:.2f} | {verdict(factor, FACTOR)}")
    return "\n".join(lines)


if __name__ == "__main__":
    certify(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
