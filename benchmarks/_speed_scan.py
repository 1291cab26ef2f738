"""One scan against the memory, how much of a maximum's bandwidth it reaches; and a whole run against NumPy.

NumPy's maximum reads every cell once on two threads and does nothing else; of its reductions it is the fastest.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

import confmax
from benchmarks._speed_tables import SEED, Recipe
from benchmarks._speed_tools import alternate, fresh, milliseconds, ratio, shown, verdict
from confmax.confusion import Gains
from confmax.oracle import make_oracle, make_table

SCANS = ((1_000_000, 10), (200_000, 100), (50_000, 1000), (200_000, 20), (5_000_000, 2))
REQUIRED_SCANS = SCANS[:3]
BANDWIDTH = 0.6
RUNS = ((1_000_000, 10), (200_000, 20))
SIGNALS = {"well separated": 3.0, "heavily overlapping": 1.0}
CERTIFIED = ("cohen_kappa", "micro_f1", "micro_f1_once", "g_mean", "h_mean", "q_mean")
INFORMATION = ("macro_f1", "min_recall")
MEANS = ("g_mean", "h_mean", "q_mean")
GAP = 1e-6
REPEATS = {"scan": 31, "runs": 7, "information": 5}


# --- yardsticks -------------------------------------------------------------------------------------------------------


class TwoThreadMaximum:
    """NumPy's maximum of an array, one half per thread."""

    def __init__(self):
        self.pool = ThreadPoolExecutor(2)

    def __call__(self, P):
        flat = P.reshape(-1)
        return max(self.pool.map(np.max, (flat[: flat.size // 2], flat[flat.size // 2 :])))


def numpy_pass(P, y, a, b):
    """Return the confusion counts (K * K,) of ``argmax(a p + b)``: what one pass costs in plain NumPy."""
    K = P.shape[1]
    d = (P * a + b).argmax(1)
    return np.bincount(y * K + d, minlength=K * K)


# --- scan -------------------------------------------------------------------------------------------------------------


def measure_scan(quick=False):
    """Return one row per table: times of the maximum, of scans, and of NumPy's pass."""
    largest, rows = TwoThreadMaximum(), []
    for n, K in SCANS:
        recipe = Recipe(n // 100 if quick else n, K)
        P, y = recipe.draw()
        rng = np.random.default_rng(SEED)
        a, b = 1 / recipe.priors(), 0.1 * rng.random(K)
        one, eight = Gains.reduced(a, b), Gains.reduced(a * (0.5 + rng.random((8, K))), b)
        a32, b32 = a.astype(np.float32), b.astype(np.float32)
        table = make_table(P, y, None, range(K))
        model, labels = make_oracle(table), make_oracle(table, "labels")
        calls = {
            "maximum": lambda P=P: largest(P),
            "scan": lambda oracle=model, gains=one: oracle.maximize(gains),
            "scan, labels": lambda oracle=labels, gains=one: oracle.maximize(gains),
            "eight gains": lambda oracle=model, gains=eight: oracle.maximize(gains),
            "NumPy": lambda P=P, y=y, a=a32, b=b32: numpy_pass(P, y, a, b),
        }
        times = alternate(calls, 1 if quick else REPEATS["scan"])
        rows.append({"n": recipe.n, "K": K, "size": recipe.size, "bytes": P.nbytes, "seconds": times})
    return {"seed": SEED, "rows": rows}


def report_scan(data):
    lines = [
        "`python -m benchmarks.speed scan`: one scan with a gain `a_j p_j + b_j`, cold caches, float32, against "
        "NumPy's maximum over the same array on two threads: median (range) over "
        f"{len(data['rows'][0]['seconds']['maximum'])} alternating repeats. Bandwidth is the maximum's time over the "
        f"scan's, required at least {BANDWIDTH} on the first three tables. NumPy: `(P * a + b).argmax(1)` and a "
        "`bincount`.",
        "",
        "table | max, ms | max, GB/s | scan, ms | bandwidth | target | labels | eight gains / one | NumPy / scan",
        "---|---:|---:|---:|---:|---|---:|---:|---:",
    ]
    for row in data["rows"]:
        t = row["seconds"]
        share = ratio(t["maximum"], t["scan"])
        required = (row["n"], row["K"]) in REQUIRED_SCANS
        lines.append(
            f"{row['size']} | {milliseconds(t['maximum'])} | {row['bytes'] / np.median(t['maximum']) / 1e9:.1f} | "
            f"{milliseconds(t['scan'])} | {shown(share)} | "
            f"{verdict(share[0], BANDWIDTH, most=False) if required else ''} | "
            f"{shown(ratio(t['maximum'], t['scan, labels']))} | {ratio(t['eight gains'], t['scan'])[0]:.2f} | "
            f"{ratio(t['NumPy'], t['scan'])[0]:.1f}"
        )
    return "\n".join(lines)


# --- whole runs -------------------------------------------------------------------------------------------------------


def certified(name, P):
    return confmax.maximize(name, P, confusion="model", calibration=None, randomized=True)


def measure_runs(quick=False):
    """Return one row per table, generator and metric: times of a certified run and of NumPy's pass, gap, passes."""
    rows = []
    for n, K in RUNS:
        for kind, signal in SIGNALS.items():
            recipe = Recipe(n // 200 if quick else n, K, signal=signal)
            P, y = recipe.draw()
            a, b = (1 / recipe.priors()).astype(np.float32), np.full(K, 0.01, np.float32)
            for name in CERTIFIED + INFORMATION:
                last = []
                calls = {
                    "run": lambda Q, name=name, last=last: last.append(certified(name, Q)),
                    "NumPy": lambda Q, y=y, a=a, b=b: numpy_pass(Q, y, a, b),
                }
                repeats = REPEATS["runs" if name in CERTIFIED else "information"]
                times = alternate(calls, 1 if quick else repeats, lambda P=P: fresh(P))
                found = last[-1]
                rows.append(
                    {"n": recipe.n, "K": K, "size": recipe.size, "table": kind, "metric": name, "seconds": times,
                     "gap": found.gap, "passes": found.n_passes, "status": found.status.value}
                )  # fmt: skip
    return {"seed": SEED, "rows": rows}


def bound_of(row):
    """Return what a run may cost in NumPy passes, None for information."""
    if row["metric"] in INFORMATION:
        return None
    return 1.5 if row["metric"] in MEANS and row["K"] > 10 else 1.0


def report_runs(data):
    lines = [
        "`python -m benchmarks.speed runs`: `maximize(metric, P, confusion='model', calibration=None, "
        "randomized=True)` to a certified gap of 1e-6, validation and conversion included, over **one** NumPy pass "
        "`(P * a + b).argmax(1)` with `bincount` on a fresh copy of the same float32 table: median (range) over "
        f"{len(data['rows'][0]['seconds']['run'])} alternating repeats. Macro F1 and the smallest recall for "
        "information.",
        "",
        "table | classes are | metric | NumPy, ms | run, ms | ratio | required | target | passes | gap",
        "---|---|---|---:|---:|---:|---:|---|---:|---:",
    ]
    for row in data["rows"]:
        found, bound = ratio(row["seconds"]["run"], row["seconds"]["NumPy"]), bound_of(row)
        gap = row["gap"]
        proved = gap is not None and gap <= GAP
        word = "" if bound is None else verdict(found[0], bound) if proved else "**missed** (gap)"
        lines.append(
            f"{row['size']} | {row['table']} | {row['metric']} | {milliseconds(row['seconds']['NumPy'])} | "
            f"{milliseconds(row['seconds']['run'])} | {shown(found)} | {'' if bound is None else bound} | {word} | "
            f"{row['passes']} | {'none' if gap is None else f'{gap:.1e}'}"
        )
    return "\n".join(lines)
