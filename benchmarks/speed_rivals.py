"""confmax beside what users would pick, on generated tables: value, gap, passes, seconds and peak memory of each.

Every method (`benchmarks.methods`) runs in a process of its own. The labels are drawn from a model of which the table
is a mildly miscalibrated version. A method that is not done in its time is stopped; its seconds, and so its ratio, are
then lower bounds.

    python -m benchmarks.speed_rivals TABLE.npz METHOD METRIC ...

is that process: it prints one line of JSON before and one after each metric, so that what is known of a search that
was stopped is not lost. The time of confmax on labels is measured around the method in the same process.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks import methods
from benchmarks.harness import benchmark, markdown, spread, value
from benchmarks.timing import (
    Recipe,
    emit,
    machine,
    measured,
    memory_floor,
    ratio,
    resident,
    seconds_of,
    tiny,
    two_threads,
    verdict,
)

SIZES = (
    Recipe(1000, 5, signal=1.5, imbalance=30.0, wrong=True),
    Recipe(20_000, 10, wrong=True),
    Recipe(200_000, 20, wrong=True),
    Recipe(1_000_000, 10, wrong=True),
    Recipe(100_000, 50, wrong=True),
    Recipe(50_000, 1000, signal=3.0, imbalance=5.0, wrong=True),
)
BINARY = (Recipe(20_000, 2, imbalance=10.0, wrong=True), Recipe(200_000, 2, imbalance=10.0, wrong=True))
METRICS = ("macro_f1", "g_mean", "cohen_kappa")
BASE = "confmax, labels"
OURS = {
    BASE: methods.ours(confusion="labels", calibration=None),
    "confmax, labels, mixture": methods.ours(confusion="labels", calibration=None, randomized=True),
    "confmax, model": methods.ours(labels=False, confusion="model", calibration=None),
    "confmax, defaults": methods.ours(),
}
MANY = OURS | {
    "xcolumns": methods.xcolumns("random"),
    "xcolumns, top": methods.xcolumns("top"),
    "Nelder-Mead": methods.nelder_mead(methods.in_numpy, dtype=np.float32),
    "Nelder-Mead, compiled": methods.nelder_mead(dtype=np.float32),
    "cutoffs, one-vs-rest": methods.cutoffs("auto"),
    "cutoffs, coordinate": methods.cutoffs("coord_ascent"),
    "argmax": methods.argmax,
    "p/prior": methods.by_prior,
}
METHODS = MANY | {"TunedThreshold": methods.tuned_threshold}
TWO = (*OURS, "TunedThreshold", "cutoffs, one-vs-rest", "argmax", "p/prior")
TEST_ROWS, TEST_CELLS = 100_000, 50_000_000
REPEATS, LONG = 5, 3.0  # a method that takes more seconds is run once, with confmax around it
CAP, CAP_OF_RIVAL, ENOUGH = 12.0, 5.0, 150.0
SHOWN = 5e-5
FASTER = {"xcolumns": 50.0, "Nelder-Mead": 100.0}


def metrics_of(method, K):
    """Return the metrics that a method is measured on: the cutoffs know F1 only; long searches of 1000 weights, one."""
    if method.startswith("cutoffs"):
        return METRICS[:1]
    return METRICS[:1] if method.startswith("Nelder") and K > 100 else METRICS


def required(row):
    """Return how many times faster than this rival confmax must be, None where nothing is required."""
    big = (row["n"], row["K"]) in ((1_000_000, 10), (200_000, 20))
    if not big or row["method"].split(",")[0] not in FASTER or row["method"].endswith("compiled"):
        return None
    if row["method"] == "Nelder-Mead" and row["K"] < 20:
        return None
    return FASTER[row["method"].split(",")[0]]


# --- measuring --------------------------------------------------------------------------------------------------------


def measure(quick=False):
    """Return one row per table, method and metric."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for recipe in (*SIZES, *BINARY):
            small = replace(recipe, n=min(recipe.n, 1000), K=min(recipe.K, 6)) if quick else recipe
            path = Path(folder) / "table.npz"
            n_test = min(TEST_ROWS, TEST_CELLS // small.K, 1000 if quick else TEST_ROWS)
            (P, y), (Q, z) = small.draw(), small.draw(part=1, n=n_test)
            np.savez(path, P=P, y=y, Q=Q, z=z)
            about = {"n": small.n, "K": small.K, "size": small.size, "bytes": P.nbytes}
            del P, Q
            for method in MANY if recipe.K > 2 else TWO:
                for found in measure_method(path, method, metrics_of(method, recipe.K), 2.0 if quick else CAP):
                    rows.append({**about, "method": method, **found})
            if quick:
                break
    return rows


def measure_method(path, method, names, cap):
    """Yield what a method found on every metric."""

    def limit(own):
        # plain Nelder-Mead gets no more than the ratio that is asked needs
        return min(cap, max(CAP_OF_RIVAL, ENOUGH * own)) if method == "Nelder-Mead" else cap

    return measured(["-m", "benchmarks.speed_rivals", path, method], names, limit)


# --- the process ------------------------------------------------------------------------------------------------------


def time_method(method, name, P, y):
    """Return times of the method and of confmax on labels around it, its peak memory and what it says, and its rule."""
    tune, base = METHODS[method], []

    def reference():
        if method != BASE:
            base.append(seconds_of(METHODS[BASE], name, P, y)[0])

    seconds_of(METHODS[BASE], name, P, y)
    reference()
    floor = memory_floor()
    emit(event="start", metric=name, ours=base, floor=floor)
    first, tuned = seconds_of(tune, name, P, y)
    peak, times = resident("VmHWM") - floor, [first]
    for _ in range(REPEATS - 1):
        reference()
        if first < LONG:
            times.append(seconds_of(tune, name, P, y)[0])
    return {"seconds": times, "ours": base, "peak": peak, **tuned.about}, tuned.decide


def main(path, method, *names):
    warnings.simplefilter("ignore")  # of the rivals, and of absent classes
    with np.load(path) as data:
        P, y, Q, z = (data[key] for key in ("P", "y", "Q", "z"))
    with two_threads():
        for name in names:
            for warm in (method, BASE):
                METHODS[warm](name, *tiny(2 if P.shape[1] == 2 else 5))
        for name in names:
            record, decide = time_method(method, name, P, y)
            emit(event="done", metric=name, tuning=value(name, y, decide(P)), test=value(name, z, decide(Q)), **record)


# --- the report -------------------------------------------------------------------------------------------------------


def speedup(row):
    """Return how many times faster confmax on labels is than a row's method, in the row's process."""
    if not row.get("ours"):
        return None
    if len(row["seconds"]) > 1:
        # the first call of confmax was made before the first of the method
        return ratio(row["seconds"], row["ours"][: len(row["seconds"])])[0]
    return float(np.median(row["seconds"]) / np.median(row["ours"]))


def base_of(every, row, method=BASE):
    """Return the row of confmax on the same table and metric."""
    keys = ("n", "K", "metric")
    return next(r for r in every if r["method"] == method and all(r[k] == row[k] for k in keys))


def line_of(every, row):
    """Return the cells of one line of a table's report."""
    head = [row["metric"], row["method"]]
    if row.get("failed"):
        return [*head, "failed", *[""] * 6]
    times, mark = speedup(row), "> " if row.get("stopped") else ""
    gap = "" if row.get("gap") is None else f"{row['gap']:.1e}"
    values = ["", ""]
    if "tuning" in row:
        behind = row["tuning"] > base_of(every, row).get("tuning", 1.0) + SHOWN
        values = [f"{row['tuning']:.5f}" + (" *" if behind else ""), f"{row['test']:.5f}"]
    return [*head, *values, gap, row.get("passes", ""), f"{mark}{np.median(row['seconds']):.3g}",
            f"{row['peak'] / row['bytes']:.1f}", "" if times is None else f"{mark}{times:.3g}"]  # fmt: skip


def targets(every):
    """Return the table of what is required: ratio and tuning value against the rivals that the target names."""
    lines = []
    for row in every:
        bound = required(row)
        if bound is None or row.get("failed"):
            continue
        times = speedup(row)
        # a search that was stopped has the value that the same search on the compiled scan reaches
        theirs = row if "tuning" in row else base_of(every, row, f"{row['method']}, compiled")
        less = base_of(every, row)["tuning"] - theirs["tuning"] if "tuning" in theirs else float("nan")
        mixed = base_of(every, row, "confmax, labels, mixture")["tuning"] - theirs.get("tuning", float("nan"))
        lines.append(
            [row["size"], row["metric"], row["method"], f"{'> ' if row.get('stopped') else ''}{times:.3g}",
             f"{bound:g}", verdict(times, bound, most=False), f"{less:+.1e} (mixture {mixed:+.1e})",
             verdict(less, 0.0, most=False)]
        )  # fmt: skip
    head = ["table", "metric", "rival", "times faster", "required", "speed", "tuning, confmax - rival", "value"]
    return markdown(head, lines, 3)


def losses(every):
    """Return the sentences that name every method that beats confmax on labels in value, or in time."""
    better = {"tuning": [], "test": [], "time": []}
    for row in every:
        if row["method"] in OURS or row.get("failed"):
            continue
        base = base_of(every, row)
        for key in ("tuning", "test"):
            if key in row and row[key] > base[key] + SHOWN:
                better[key].append(f"{row['method']} on {row['size']} {row['metric']} ({row[key] - base[key]:+.4f})")
        if speedup(row) < 1 and row["method"] not in ("argmax", "p/prior"):
            better["time"].append(f"{row['method']} on {row['size']} {row['metric']} ({speedup(row):.2f})")
    return "\n\n".join(
        f"Rivals ahead of confmax on labels, {key}: {'; '.join(found) or 'none'}." for key, found in better.items()
    )


BESIDE = ("confmax, defaults", "xcolumns", "Nelder-Mead, compiled", "cutoffs, one-vs-rest", "TunedThreshold")


def test_values(every):
    """Return the table of values on test rows, and seconds over those of confmax on labels, of some methods."""
    lines = []
    for row in every:
        if row["method"] != BASE:
            continue
        cells = [row["size"], row["metric"], f"{row['test']:.5f}"]
        for method in BESIDE:
            keys = ("size", "metric")
            found = [r for r in every if r["method"] == method and all(r[key] == row[key] for key in keys)]
            tested = f"{found[0]['test']:.5f}" if found and "test" in found[0] else ""
            times = line_of(every, found[0])[-1] if found else ""
            cells.append(", ".join(text for text in (tested, times) if text))
        lines.append(cells)
    return markdown(["table", "metric", BASE, *BESIDE], lines, 2)


@benchmark("speed-rivals", section="speed: rivals")
def rivals(quick=False):
    """Run every method on generated tables."""
    every = measure(quick)
    head = ["table", "metric", "method", "tuning", "test", "gap", "passes", "seconds", "memory", "times"]
    spread("speed: rivals", head, [[row["size"], *line_of(every, row)] for row in every], 3)
    return [
        "every method on generated tables whose probabilities are mildly wrong (sharpened by 1.25, one offset per "
        "class), tuned on the table's labels, each in a process of its own. Times are seconds over those of "
        '`confusion="labels", calibration=None` in the same process, called in turn, median of 5, or one call where a '
        f"method takes more than 3 s; `>`: stopped, a lower bound. {machine()}",
        ABOUT,
        losses(every),
        targets(every),
        "Values by label counts of the test rows, and times:",
        test_values(every),
    ]


ABOUT = """* xcolumns: its Frank-Wolfe search with k=1 from its default initial classifier, and from "top", in float32.
* Nelder-Mead: scipy's on log class weights from 1 / prior, at most min(200 K, 1500) evaluations, of decisions and
  counts in NumPy; stopped after 150 times confmax's seconds (5 at least, 12 at most). "Compiled": the same search
  with confmax's scan in place of NumPy. Of 1000 classes macro F1 only.
* cutoffs: optimal-classification-cutoffs, `metric="f1"`, which knows neither G-mean nor kappa; one-vs-rest (its
  default) and coordinate ascent. Of two classes its F1 is the positive class's.
* TunedThreshold: scikit-learn's TunedThresholdClassifierCV on prefit columns, 100 thresholds, two classes only."""


if __name__ == "__main__":
    main(*sys.argv[1:])
