"""How long people wait for a new process, for the default call, and for a certified run on tables of a linear model.

Processes are new, the files of the packages are in the page cache, and Python has compiled them, as pip does.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks._speed_scan import certified, numpy_pass
from benchmarks._speed_tools import alternate, child_environment, fresh, milliseconds, ratio, shown, verdict

SEED = 0
PROCESSES = 5
REPEATS = {"defaults": 5, "runs": 9}
LOAD = "np = __import__('numpy'); data = np.load('{}.npz'); P, y = data['P'], data['y']; import confmax; "
CLOCK = "import time; t = time.perf_counter(); {}; print(time.perf_counter() - t)"
DECIDE = "from confmax import DecisionRule; DecisionRule.load('rule.json').predict([[.1, .2, .3, .2, .2]])"
FIT = """
import time, warnings
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
X, y = make_classification(2000, n_informative=5, n_classes=3, weights=[.85, .1, .05], random_state=0)
def seconds(call):
    t = time.perf_counter(); call(); return time.perf_counter() - t
plain = seconds(lambda: [LogisticRegression().fit(X, y) for _ in range(5)])
def ours():
    from confmax import MetricClassifierCV
    MetricClassifierCV(LogisticRegression(), metric="macro_f1").fit(X, y)
print(seconds(ours) - plain)
"""
MACRO, MEAN = "confmax.maximize('macro_f1', P, y)", "confmax.maximize('g_mean', P, y)"
# what is run, and how many seconds it may take: the whole process, or what it prints
WHOLE = {
    "load a rule, decide one row": (["-c", DECIDE], 0.35),
    "macro F1, defaults, 2000 x 5": (["-c", LOAD.format("small") + MACRO], 1.5),
    "macro F1, defaults, 20k x 10": (["-c", LOAD.format("middle") + MACRO], 4.0),
    "confmax --version": (["-m", "confmax", "--version"], 0.15),
    "confmax metrics": (["-m", "confmax", "metrics"], 0.4),
    "confmax apply, 1000 rows": (["-m", "confmax", "apply", "rule.json", "new.csv", "-o", "decided.csv"], 0.6),
    "confmax demo": (["-m", "confmax", "demo"], 5.0),
}
PRINTED = {
    "G-mean after macro F1, 2000 x 5": (["-c", LOAD.format("small") + f"{MACRO}; " + CLOCK.format(MEAN)], 0.3),
    "MetricClassifierCV beside five fits": (["-c", FIT], 1.0),
}
DEFAULTS = {(200_000, 20): 2.0, (20_000, 20): 0.3, (2000, 5): 0.04}
RIGHT = (0.6, 0.8, 0.95)  # of the rows, by argmax
BOUNDS = {"cohen_kappa": 1.0, "micro_f1": 1.0, "g_mean": 1.5, "h_mean": 1.5, "q_mean": 1.5}


def linear_model(right, n=200_000, K=20, d=12):
    """Return the posteriors (n, K) of a Gaussian model with class shares 1 / k^1.2, and labels, argmax so often right.

    The class means are drawn from N(0, s^2 I); s is found by halving.
    """
    rng = np.random.default_rng(SEED)
    share = 1 / np.arange(1, K + 1) ** 1.2
    share /= share.sum()
    means, y, noise = rng.normal(size=(K, d)), rng.choice(K, n, p=share), rng.normal(size=(n, d))

    def posteriors(s, rows=slice(None)):
        z = (s * means[y[rows]] + noise[rows]) @ (s * means).T - 0.5 * ((s * means) ** 2).sum(axis=1) + np.log(share)
        z = np.exp(z - z.max(axis=1, keepdims=True))
        return z / z.sum(axis=1, keepdims=True)

    low, high, few = 0.01, 10.0, slice(20_000)
    for _ in range(25):
        s = (low * high) ** 0.5
        enough = (posteriors(s, few).argmax(axis=1) == y[few]).mean() >= right
        low, high = (low, s) if enough else (s, high)
    return posteriors(s), y


def drawn(n, K):
    """Return probabilities (n, K) and labels drawn from them."""
    rng = np.random.default_rng([SEED, n, K])
    P = rng.dirichlet(np.ones(K) / 2, n)
    return P, (P.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)


# --- measuring --------------------------------------------------------------------------------------------------------


def measure(quick=False):
    """Return seconds of new processes, of default calls, and of certified runs beside NumPy's pass."""
    with tempfile.TemporaryDirectory() as folder:
        processes = measure_processes(Path(folder), 1 if quick else PROCESSES)
    return {"seed": SEED, "processes": processes, "defaults": measure_defaults(quick), "runs": measure_runs(quick)}


def measure_processes(folder, count):
    """Return {what: seconds of every process}, the first process, which reads files from the disk, left out."""
    import confmax

    for name, size in (("small", (2000, 5)), ("middle", (20_000, 10))):
        P, y = drawn(*size)
        np.savez(folder / name, P=P, y=y)
    P, y = drawn(2000, 5)
    names = np.array(list("abcde"))
    confmax.maximize("macro_f1", P, names[y]).rule.save(folder / "rule.json")
    lines = [",".join(names), *(",".join(map(str, row)) for row in P[:1000])]
    (folder / "new.csv").write_text("\n".join(lines) + "\n")
    # without its compiled files Python would compile every module again
    environment = {key: value for key, value in child_environment().items() if key != "PYTHONDONTWRITEBYTECODE"}
    times = {}
    for what, (arguments, _) in (WHOLE | PRINTED).items():
        found = []
        for _ in range(count + 1):
            start = time.perf_counter()
            run = subprocess.run(
                [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=True
            )
            found.append(time.perf_counter() - start if what in WHOLE else float(run.stdout))
        times[what] = found[1:]
    return times


def measure_defaults(quick):
    """Return one row per size: seconds of ``maximize("macro_f1", P, y)`` and of the G-mean."""
    import confmax

    rows = []
    for n, K in DEFAULTS:
        P, y = drawn(n // 100 if quick else n, K)
        calls = {name: lambda Q, name=name, y=y: confmax.maximize(name, Q, y) for name in ("macro_f1", "g_mean")}
        times = alternate(calls, 1 if quick else REPEATS["defaults"], lambda P=P: fresh(P))
        rows.append({"n": n, "K": K, "seconds": times})
    return rows


def measure_runs(quick):
    """Return one row per table and metric."""
    rows = []
    for right in RIGHT:
        P, y = linear_model(right, 2000 if quick else 200_000)
        a, b = np.ones(P.shape[1]), np.zeros(P.shape[1])
        last = {}
        calls = {"NumPy": lambda Q, y=y, a=a, b=b: numpy_pass(Q, y, a, b)}
        for name in BOUNDS:
            calls[name] = lambda Q, name=name, last=last: last.update({name: certified(name, Q)})
        times = alternate(calls, 1 if quick else REPEATS["runs"], lambda P=P: fresh(P))
        for name in BOUNDS:
            rows.append({"right": right, "metric": name, "seconds": times[name], "NumPy": times["NumPy"],
                         "gap": last[name].gap, "passes": last[name].n_passes})  # fmt: skip
    return rows


# --- reporting --------------------------------------------------------------------------------------------------------


def report(data):
    targets = WHOLE | PRINTED
    lines = [
        f"`python -m benchmarks.speed cold`: medians of {len(next(iter(data['processes'].values())))} new processes, "
        "imports included; for the last two, of what is added to the call or the fits before.",
        "",
        "what | seconds | required | target",
        "---|---:|---:|---",
    ]
    for what, times in data["processes"].items():
        bound = targets[what][1]
        lines.append(f"{what} | {np.median(times):.2f} | {bound} | {verdict(np.median(times), bound)}")
    lines += [
        "",
        "The default call (calibration, blend, run) on a fresh copy of the table, milliseconds:",
        "",
        "table | macro F1 | G-mean | required | target",
        "---|---:|---:|---:|---",
    ]
    for row in data["defaults"]:
        bound, worst = DEFAULTS[row["n"], row["K"]], max(np.median(times) for times in row["seconds"].values())
        cells = " | ".join(milliseconds(times) for times in row["seconds"].values())
        lines.append(f"{row['n']} x {row['K']} | {cells} | {1e3 * bound:.0f} | {verdict(worst, bound)}")
    lines += [
        "",
        "Certified runs on the model, 200k x 20 float64, posteriors of a linear discriminant (class shares "
        "1 / k^1.2, 12 features), over one NumPy pass `(P * a + b).argmax(1)` with `bincount`:",
        "",
        "argmax is right on | metric | NumPy, ms | run, ms | ratio | required | target | passes | gap",
        "---|---|---:|---:|---:|---:|---|---:|---:",
    ]
    for row in data["runs"]:
        found, bound = ratio(row["seconds"], row["NumPy"]), BOUNDS[row["metric"]]
        lines.append(
            f"{row['right']:.0%} | {row['metric']} | {milliseconds(row['NumPy'])} | {milliseconds(row['seconds'])} | "
            f"{shown(found)} | {bound} | {verdict(found[0], bound)} | {row['passes']} | {row['gap']:.0e}"
        )
    return "\n".join(lines)
