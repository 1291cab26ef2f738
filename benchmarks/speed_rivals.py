"""confmax beside what users would pick, on generated tables: values and seconds of each.

Every method (`benchmarks.methods`) runs in a process of its own, one for each metric: `python -m
benchmarks.speed_rivals TABLE.npz METHOD METRIC` prints a line of JSON. The labels are drawn from a model of which the
table is a mildly miscalibrated version. A method that is not done in its time is stopped; its seconds, and so its
ratio, are then lower bounds. The time of confmax on labels is measured around the method in the same process.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

from benchmarks import methods
from benchmarks.harness import LABELS, MODEL, benchmark, keep, markdown, spread, value
from benchmarks.timing import Recipe, child_output, machine, ratio, seconds_of, two_threads, verdict

SIZES = (
    Recipe(1000, 5, signal=1.5, imbalance=30.0, wrong=True),
    Recipe(20_000, 10, wrong=True),
    Recipe(200_000, 20, wrong=True),
    Recipe(1_000_000, 10, wrong=True),
    Recipe(100_000, 50, wrong=True),
    Recipe(50_000, 1000, signal=3.0, imbalance=5.0, wrong=True),
    Recipe(20_000, 2, imbalance=10.0, wrong=True),
    Recipe(200_000, 2, imbalance=10.0, wrong=True),
)
METRICS = ("macro_f1", "g_mean", "cohen_kappa")
BASE = "confmax, labels"
OURS = {
    BASE: methods.ours(**LABELS),
    "confmax, model": methods.ours(labels=False, **MODEL),
    "confmax, defaults": methods.ours(),
}
METHODS = OURS | {
    "xcolumns": methods.xcolumns("random"),
    "xcolumns, top": methods.xcolumns("top"),
    "Nelder-Mead": methods.nelder_mead(methods.in_numpy, dtype=np.float32),
    "Nelder-Mead, compiled": methods.nelder_mead(dtype=np.float32),
    "cutoffs, one-vs-rest": methods.cutoffs("auto"),
    "cutoffs, coordinate": methods.cutoffs("coord_ascent"),
    "TunedThreshold": methods.tuned_threshold,
    "argmax": methods.argmax,
    "p/prior": methods.by_prior,
}
TEST_ROWS, TEST_CELLS = 100_000, 50_000_000
REPEATS, LONG = 5, 3.0  # a method that takes more seconds is run once, with confmax around it
CAP = 60.0
SHOWN = 5e-5
FASTER = {"xcolumns": 50.0, "xcolumns, top": 50.0, "Nelder-Mead": 100.0}


def metrics_of(method, K):
    """Return the metrics that a method is measured on for K classes."""
    if method == "TunedThreshold":
        return METRICS if K == 2 else ()
    if method.startswith(("xcolumns", "Nelder")) and K == 2:
        return ()
    # the cutoffs know F1 only; long searches of 1000 weights take one metric
    few = method.startswith("cutoffs") or (method.startswith("Nelder") and K > 100)
    return METRICS[:1] if few else METRICS


def measure(quick=False, methods=METHODS):
    """Return one row per table, method and metric."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for recipe in SIZES[:1] if quick else SIZES:
            path, n_test = Path(folder) / "table.npz", min(TEST_ROWS, TEST_CELLS // recipe.K)
            (P, y), (Q, z) = recipe.draw(), recipe.draw(part=1, n=1000 if quick else n_test)
            np.savez(path, P=P, y=y, Q=Q, z=z)
            for method in methods:
                for metric in metrics_of(method, recipe.K):
                    about = {"n": recipe.n, "K": recipe.K, "size": recipe.size, "method": method, "metric": metric}
                    rows.append(about | measure_one(path, method, metric))
    return rows


def measure_one(path, method, metric, cap=CAP):
    """Return what a method does on a metric; of one that fails, or that is stopped, what is known."""
    try:
        return child_output("-m", "benchmarks.speed_rivals", path, method, metric, timeout=cap)
    except subprocess.TimeoutExpired:
        return {"seconds": [cap], "stopped": True}
    except subprocess.CalledProcessError:
        return {"failed": True}


def time_method(method, metric, P, y):
    """Return the times of the method and of confmax on labels around it, and its rule."""
    tune, base, times = METHODS[method], [], []
    for warm in (method, BASE):
        METHODS[warm](metric, P[: 40 * P.shape[1]], np.arange(40 * P.shape[1]) % P.shape[1])
    for _ in range(REPEATS):
        base.append(seconds_of(METHODS[BASE], metric, P, y)[0])
        if not times or times[0] < LONG:
            seconds, tuned = seconds_of(tune, metric, P, y)
            times.append(seconds)
    return {"seconds": times, "ours": base}, tuned


def main(path, method, metric):
    warnings.simplefilter("ignore")  # of the rivals, and of absent classes
    with np.load(path) as data:
        P, y, Q, z = (data[key] for key in ("P", "y", "Q", "z"))
    with two_threads():
        record, tuned = time_method(method, metric, P, y)
    values = {"tuning": value(metric, y, tuned.decide(P)), "test": value(metric, z, tuned.decide(Q))}
    print(json.dumps(record | values | tuned.about))


def of_problem(every, row, method=BASE):
    """Return the row of a method on the same table and metric; empty without one."""
    keys = ("size", "metric")
    return next((r for r in every if r["method"] == method and all(r[k] == row[k] for k in keys)), {})


def speedup(every, row):
    """Return how many times faster confmax on labels is than a row's method, in the row's process where it ended."""
    if len(row["seconds"]) > 1:
        return ratio(row["seconds"], row["ours"])[0]
    ours = row["ours"] if "ours" in row else of_problem(every, row)["seconds"]
    return float(row["seconds"][0] / np.median(ours))


def times_of(every, row):
    """Return that number as text, of a search that was stopped as a lower bound."""
    return f"{'> ' if row.get('stopped') else ''}{speedup(every, row):.3g}"


def targets(every):
    """Return what is required, over the metrics: ratio and tuning value against the rivals that the target names."""
    lines = []
    for row in every:
        is_large = row["size"] in ("1M x 10", "200k x 20") and (row["method"] != "Nelder-Mead" or row["K"] == 20)
        if row["method"] not in FASTER or not is_large or row.get("failed"):
            continue
        # a search that was stopped has the value that the same search on the compiled scan reaches
        theirs = row if "tuning" in row else of_problem(every, row, f"{row['method']}, compiled")
        more = of_problem(every, row)["tuning"] - theirs.get("tuning", np.nan)
        bound = FASTER[row["method"]]
        fast = verdict(speedup(every, row), bound, most=False)
        words = [row["size"], row["metric"], f"{row['method']}, {bound:g} times"]
        lines.append([*words, f"{speedup(every, row):.3g}", fast, f"{more:+.4f}", verdict(more, 0.0, most=False)])
    head = ["table", "metric", "rival, required", "times faster", "speed", "tuning, confmax - rival", "value"]
    return spread("speed: rivals, targets", head, lines, 3, (0, 2))


def losses(every):
    """Return the sentences that name every method that beats confmax on labels in value, or in time."""
    better = {"tuning": [], "test": [], "time": []}
    for row in every:
        if row["method"] in OURS or row.get("failed"):
            continue
        words = f"{row['method']} on {row['size']} {row['metric']}"
        for key in ("tuning", "test"):
            ahead = row.get(key, -np.inf) - of_problem(every, row)[key]
            if ahead > SHOWN:
                better[key].append(f"{words} ({ahead:+.4f})")
        if row["method"] not in ("argmax", "p/prior") and speedup(every, row) < 1:
            better["time"].append(f"{words} ({speedup(every, row):.2f})")
    sentences = [
        f"Rivals ahead of confmax on labels, {key}: {'; '.join(some) or 'none'}." for key, some in better.items()
    ]
    return "\n\n".join(sentences)


BESIDE = ("confmax, defaults", "xcolumns", "Nelder-Mead, compiled", "cutoffs, one-vs-rest", "TunedThreshold")


def test_values(every):
    """Return the table of values on test rows, and seconds over those of confmax on labels, of some methods."""
    lines = []
    for row in (row for row in every if row["method"] == BASE):
        cells = [row["size"], row["metric"], f"{row['test']:.5f}"]
        for other in (of_problem(every, row, method) for method in BESIDE):
            tested = [f"{other['test']:.5f}"] if "test" in other else []
            cells.append(", ".join([*tested, times_of(every, other)]) if "seconds" in other else "")
        lines.append(cells)
    return markdown(["table", "metric", BASE, *BESIDE], lines, 2)


@benchmark("speed-rivals", section="speed: rivals")
def rivals(quick=False):
    """Run every method on generated tables."""
    every = measure(quick)
    columns = ("size", "metric", "method", "tuning", "test", "gap", "passes", "seconds", "stopped", "failed")
    keep("speed: rivals", columns, [[row.get(column, "") for column in columns] for row in every], 3)
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
  counts in NumPy. "Compiled": with confmax's scan in place of NumPy. Of 1000 classes macro F1 only.
* cutoffs: optimal-classification-cutoffs, `metric="f1"`, which knows neither G-mean nor kappa; one-vs-rest (its
  default) and coordinate ascent. Of two classes its F1 is the positive class's.
* TunedThreshold: scikit-learn's TunedThresholdClassifierCV on prefit columns, 100 thresholds, two classes only."""


if __name__ == "__main__":
    main(*sys.argv[1:])
