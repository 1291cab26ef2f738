"""As fast as the memory? Every figure a ratio of two things that ran in one process, in turn, on two threads.

With ``--quick`` the sizes are small and nothing is written. `python -m benchmarks.speed WHAT ...` is a child process
that measures one thing and prints JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import confmax
from benchmarks.harness import benchmark, markdown, spread
from benchmarks.timing import (
    SEED,
    Recipe,
    alternate,
    child_environment,
    child_output,
    emit,
    fresh,
    machine,
    measured,
    memory_floor,
    milliseconds,
    ratio,
    resident,
    seconds_of,
    shown,
    tiny,
    two_threads,
    verdict,
)
from confmax import DecisionRule
from confmax.confusion import Gains
from confmax.oracle import make_oracle, make_table


def numpy_pass(P, y, a, b):
    """Return the confusion counts (K * K,) of ``argmax(a p + b)``: what one pass costs in plain NumPy."""
    K = P.shape[1]
    d = (P * a + b).argmax(1)
    return np.bincount(y * K + d, minlength=K * K)


def certified(name, P):
    """Return a run on the model to a certified gap."""
    return confmax.maximize(name, P, confusion="model", calibration=None, randomized=True)


# --- a scan against the memory, and against its size ------------------------------------------------------------------

SCANS = ((1_000_000, 10), (200_000, 100), (50_000, 1000), (200_000, 20), (5_000_000, 2))
BANDWIDTH, REPEATS = 0.6, 31


class TwoThreadMaximum:
    """NumPy's maximum of an array, one half per thread: of its reductions the fastest."""

    def __init__(self):
        self.pool = ThreadPoolExecutor(2)

    def __call__(self, P):
        flat = P.reshape(-1)
        return max(self.pool.map(np.max, (flat[: flat.size // 2], flat[flat.size // 2 :])))


@benchmark("scan", section="speed: scan")
def scan(quick=False):
    """Compare scans with NumPy's maximum of the same array."""
    largest, rows = TwoThreadMaximum(), []
    for place, (n, K) in enumerate(SCANS):
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
            "labels": lambda oracle=labels, gains=one: oracle.maximize(gains),
            "eight": lambda oracle=model, gains=eight: oracle.maximize(gains),
            "NumPy": lambda P=P, y=y, a=a32, b=b32: numpy_pass(P, y, a, b),
        }
        with two_threads():
            t = alternate(calls, 1 if quick else REPEATS)
        share = ratio(t["maximum"], t["scan"])
        rows.append(
            [
                recipe.size,
                milliseconds(t["maximum"]),
                f"{P.nbytes / np.median(t['maximum']) / 1e9:.1f}",
                milliseconds(t["scan"]),
                shown(share),
                verdict(share[0], BANDWIDTH, most=False) if place < 3 else "",
                shown(ratio(t["maximum"], t["labels"])),
                f"{ratio(t['eight'], t['scan'])[0]:.2f}",
                f"{ratio(t['NumPy'], t['scan'])[0]:.1f}",
            ]
        )
    head = ["table", "max, ms", "max, GB/s", "scan, ms", "bandwidth", "target", "labels", "eight gains / one"]
    return [
        f"one scan with a gain `a_j p_j + b_j`, cold caches, float32, against NumPy's maximum over the same array on "
        f"two threads: median (range) over {REPEATS} alternating repeats. Bandwidth is the maximum's time over the "
        f"scan's, required at least {BANDWIDTH} on the first three tables. NumPy: `(P * a + b).argmax(1)` and a "
        f"`bincount`. {machine()}",
        markdown([*head, "NumPy / scan"], rows),
    ]


CELLS = (1_000_000, 3_000_000, 10_000_000, 30_000_000, 100_000_000)
GROWING = {"rows, K = 10": ("rows", 10), "rows, K = 100": ("rows", 100), "classes, n = 20k": ("classes", 20_000)}
SLOPES = (0.9, 1.1)


@benchmark("scaling", section="speed: scaling")
def scaling(quick=False):
    """Measure the time of a scan against the cells of the table."""
    rows, cells = [], CELLS[:2] if quick else CELLS
    for name, (what, fixed) in GROWING.items():
        times = []
        for size in cells:
            n, K = (size // fixed, fixed) if what == "rows" else (fixed, size // fixed)
            recipe = Recipe(n, K)
            with two_threads():
                oracle = make_oracle(make_table(recipe.draw()[0]))
                gains = Gains.reduced(1 / recipe.priors(), np.full(K, 0.01))
                oracle.maximize(gains)
                # one scan after another, as a solver makes them
                times.append([seconds_of(oracle.maximize, gains)[0] for _ in range(7)])
        slope = float(np.polyfit(np.log(cells), np.log(np.median(times, axis=1)), 1)[0])
        word = "met" if SLOPES[0] <= slope <= SLOPES[1] else "**missed**"
        rows.append([name, *map(milliseconds, times), f"{slope:.3f}", word])
    return [
        f"milliseconds per scan with a gain `a_j p_j + b_j`, one scan after another, float32, median of 7; the slope "
        f"of log time on log cells must be between {SLOPES[0]} and {SLOPES[1]}. {machine()}",
        markdown(["growing", *(f"{c / 1e6:.0f}M cells" for c in cells), "slope", "target"], rows),
    ]


# --- whole runs against one pass of NumPy -----------------------------------------------------------------------------

RUNS = ((1_000_000, 10), (200_000, 20))
SIGNALS = {"well separated": 3.0, "heavily overlapping": 1.0}
CERTIFIED = ("cohen_kappa", "micro_f1", "micro_f1_once", "g_mean", "h_mean", "q_mean")
INFORMATION = ("macro_f1", "min_recall")
RIGHT = (0.6, 0.8, 0.95)  # of the rows, by argmax


def bound_of(name, K):
    """Return what a run may cost in NumPy passes, None for information."""
    if name in INFORMATION:
        return None
    return 1.5 if name.endswith("_mean") and K > 10 else 1.0


def linear_model(right, n=200_000, K=20, d=12):
    """Return the posteriors (n, K) of a Gaussian model with class shares 1 / k^1.2, and labels, argmax so often right.

    The class means are drawn from N(0, s^2 I); s is found by halving.
    """
    rng = np.random.default_rng(0)
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


def drawn_tables(quick):
    """Yield the name of a generator, its size, probabilities and labels."""
    for n, K in RUNS:
        for kind, signal in SIGNALS.items():
            recipe = Recipe(n // 200 if quick else n, K, signal=signal)
            yield kind, recipe.size, *recipe.draw()
    for right in RIGHT:
        P, y = linear_model(right, 2000 if quick else 200_000)
        yield f"linear, argmax is right on {right:.0%}", "200k x 20, float64", P, y


@benchmark("runs", section="speed: runs")
def runs(quick=False):
    """Compare certified runs with one pass of NumPy over a fresh copy of the table."""
    rows = []
    for kind, size, P, y in drawn_tables(quick):
        K, last = P.shape[1], {}
        a, b = np.linspace(1.0, 2.0, K).astype(P.dtype), np.full(K, 0.01, P.dtype)
        calls = {"NumPy": lambda Q, y=y, a=a, b=b: numpy_pass(Q, y, a, b)}
        for name in CERTIFIED + INFORMATION:
            calls[name] = lambda Q, name=name, last=last: last.update({name: certified(name, Q)})
        with two_threads():
            times = alternate(calls, 1 if quick else 7, lambda P=P: fresh(P))
        for name, found in last.items():
            cost, bound = ratio(times[name], times["NumPy"]), bound_of(name, K)
            proved = found.gap is not None and found.gap <= 1e-6
            word = "" if bound is None else verdict(cost[0], bound) if proved else "**missed** (gap)"
            rows.append(
                [
                    size,
                    kind,
                    name,
                    milliseconds(times["NumPy"]),
                    milliseconds(times[name]),
                    shown(cost),
                    "" if bound is None else bound,
                    word,
                    found.n_passes,
                    "none" if found.gap is None else f"{found.gap:.1e}",
                ]
            )
    head = ["table", "classes are", "metric", "NumPy, ms", "run, ms", "ratio", "required", "target", "passes", "gap"]
    missed = sum(row[7] != "met" for row in rows if row[7])
    return [
        "`maximize(metric, P, confusion='model', calibration=None, randomized=True)` to a certified gap of 1e-6, "
        "validation and conversion included, over **one** NumPy pass `(P * a + b).argmax(1)` with `bincount` on a "
        "fresh copy of the same table: over tables, the median of 7 alternating repeats, and (least, most). Macro F1 "
        f"and the smallest recall for information. {missed} of {sum(bool(row[7]) for row in rows)} targets (1.0; 1.5 "
        f"for means of more than 10 classes) are missed. {machine()}",
        spread("speed: runs", head, rows, 3, (0, 2)),
    ]


# --- memory -----------------------------------------------------------------------------------------------------------

LARGE = (2_000_000, 20)
CASES = [(name, mode) for name in ("cohen_kappa", "g_mean") for mode in ("model", "labels")] + [("NumPy", "pass")]
ADDED = 1.3


@benchmark("memory", section="speed: memory")
def memory(quick=False):
    """Measure what a run adds to the memory of a process that holds the table, each in a process of its own."""
    recipe, rows = Recipe(LARGE[0] // (100 if quick else 1), LARGE[1]), []
    with tempfile.TemporaryDirectory() as folder:
        P, y = recipe.draw()
        size = P.nbytes
        for name, part in (("P", P), ("y", y)):
            np.save(Path(folder) / f"{name}.npy", part)
        del P, y, part
        for name, mode in CASES[:2] if quick else CASES:
            added = json.loads(child_output(["-m", "benchmarks.speed", "memory", folder, name, mode]))
            word = "" if name == "NumPy" else verdict(added / size, ADDED)
            rows.append(
                [recipe.size, name, mode, f"{size / 1e6:.0f}", f"{added / 1e6:.0f}", f"{added / size:.2f}", word]
            )
    return [
        "resident maximum during a call minus what was resident with the table loaded (VmHWM restarted by "
        "`/proc/self/clear_refs`), over the bytes of the table, float32, each in a process of its own; required at "
        f"most {ADDED}. {machine()}",
        markdown(["table", "metric", "confusion", "table, MB", "added, MB", "in tables", "target"], rows, 3),
    ]


def added_memory(folder, name, mode):
    """Return the bytes that a call adds; the table is read from a file, so that nothing larger was ever resident."""

    def call(P, y):
        if name == "NumPy":
            return numpy_pass(P, y, np.ones(P.shape[1], np.float32), np.zeros(P.shape[1], np.float32))
        labels = y if mode == "labels" else None
        return confmax.maximize(name, P, labels, confusion=mode, calibration=None, randomized=True)

    P, y = (np.load(Path(folder) / f"{part}.npy") for part in ("P", "y"))
    call(*tiny(5))
    floor = memory_floor()
    call(P, y)
    return resident("VmHWM") - floor


# --- passes against the number of classes -----------------------------------------------------------------------------

MANY_CLASSES, ROWS = (10, 100, 1000), 100_000
COUNTED = ("cohen_kappa", "g_mean", "h_mean", "q_mean", "macro_f1")
FACTOR, CAP = 2.5, 120.0


@benchmark("class-passes", section="speed: passes")
def class_passes(quick=False):
    """Count the passes of certified runs on tables of few and of many classes."""
    n, classes = (2000, MANY_CLASSES[:1]) if quick else (ROWS, MANY_CLASSES)
    found = {name: [] for name in COUNTED}
    for K in classes:
        for record in measured(["-m", "benchmarks.speed", "passes", n, K], COUNTED, lambda _: CAP):
            found[record["metric"]].append(record)
    rows = []
    for name, records in found.items():
        made = [record.get("passes", np.nan) for record in records]
        # NaN, where a run was stopped, meets nothing
        factor = float(np.max(made) / np.min(made))
        rows.append([name, *map(passes_text, records), f"{factor:.2f}", verdict(factor, FACTOR)])
    return [
        "scans of the table to a certified gap of 1e-6 (macro F1: to the end of its search), `confusion='model'`, "
        f"randomised; the most over the least must be at most {FACTOR}. In brackets the gap and the seconds; a run is "
        f"stopped after {CAP:.0f} s. {machine()}",
        markdown(["metric", *(Recipe(n, K).size for K in classes), "most / least", "target"], rows),
    ]


def passes_text(record):
    """Return passes, gap and seconds as text."""
    if "passes" not in record:
        return f"> {record['seconds'][0]:.0f} s" if record.get("stopped") else "failed"
    gap = "none" if record["gap"] is None else f"{record['gap']:.1e}"
    return f"{record['passes']} ({gap}, {record['seconds'][0]:.2g} s)"


def print_passes(n, K, *names):
    """Print the passes, the gap and the seconds of a run for every metric."""
    P, _ = Recipe(int(n), int(K)).draw()
    for name in names:
        emit(event="start", metric=name)
        seconds, found = seconds_of(certified, name, P)
        emit(event="done", metric=name, passes=found.n_passes, gap=found.gap, seconds=[seconds])


# --- new processes, first and next calls ------------------------------------------------------------------------------

PROCESSES = 5
LOAD = "np = __import__('numpy'); data = np.load('{}.npz'); P, y = data['P'], data['y']; import confmax; "
CLOCK = "import time; t = time.perf_counter(); {}; print(time.perf_counter() - t)"
DECIDE = "from confmax import DecisionRule; DecisionRule.load('rule.json').predict([[.1, .2, .3, .2, .2]])"
FIT = """
import time
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
    "`import confmax`": (["-c", CLOCK.format("import confmax")], 0.5),
    "`from confmax import maximize`": (["-c", CLOCK.format("from confmax import maximize")], 0.5),
    "G-mean after macro F1, 2000 x 5": (["-c", LOAD.format("small") + f"{MACRO}; " + CLOCK.format(MEAN)], 0.3),
    "MetricClassifierCV beside five fits": (["-c", FIT], 1.0),
}
DEFAULTS = {(200_000, 20): 2.0, (20_000, 20): 0.3, (2000, 5): 0.04}


def drawn(n, K):
    """Return probabilities (n, K) and labels drawn from them."""
    rng = np.random.default_rng([0, n, K])
    P = rng.dirichlet(np.ones(K) / 2, n)
    return P, (P.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)


def process_times(folder, count):
    """Yield a name, its bound and seconds of every process but the first, which reads files from the disk."""
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
    for what, (arguments, bound) in (WHOLE | PRINTED).items():
        found = []
        for _ in range(count + 1):
            start = time.perf_counter()
            ended = subprocess.run(
                [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=True
            )
            found.append(time.perf_counter() - start if what in WHOLE else float(ended.stdout))
        yield what, bound, found[1:]


@benchmark("cold", section="speed: cold")
def cold(quick=False):
    """Measure how long people wait for a new process, and for the default call."""
    with tempfile.TemporaryDirectory() as folder:
        times = list(process_times(Path(folder), 1 if quick else PROCESSES))
    waits = [[what, f"{np.median(t):.2f}", bound, verdict(np.median(t), bound)] for what, bound, t in times]
    defaults = []
    for (n, K), bound in DEFAULTS.items():
        P, y = drawn(n // 100 if quick else n, K)
        calls = {name: lambda Q, name=name, y=y: confmax.maximize(name, Q, y) for name in ("macro_f1", "g_mean")}
        with two_threads():
            taken = alternate(calls, 1 if quick else 5, lambda P=P: fresh(P))
        worst = max(np.median(each) for each in taken.values())
        defaults.append([f"{n} x {K}", *map(milliseconds, taken.values()), f"{1e3 * bound:.0f}", verdict(worst, bound)])
    return [
        f"medians of {PROCESSES} new processes, the files of the packages in the page cache, imports included; below "
        f"`confmax demo`, of what is printed: the import, or what is added to the call or the fits before. {machine()}",
        markdown(["what", "seconds", "required", "target"], waits),
        "The default call (calibration, blend, run) on a fresh copy of the table, milliseconds:",
        markdown(["table", "macro F1", "G-mean", "required", "target"], defaults),
    ]


NEXT = ("macro_f1", "g_mean", "h_mean", "q_mean", "min_recall", "cohen_kappa", "quadratic_kappa", "micro_f1", "mcc")
MODES = ("model", "labels", "blend")
SOON = 0.02


@benchmark("latency", section="speed: latency")
def latency(quick=False):
    """Measure calls on a small table after the first one."""
    P, y = Recipe(1000, 5, imbalance=10.0).draw()
    rows = []
    for name in NEXT:
        cells, worst = [], 0.0
        for mode in MODES:
            labels = None if mode == "model" else y

            def once(name=name, mode=mode, labels=labels):
                return confmax.maximize(name, P, labels, classes=range(5), confusion=mode, calibration=None)

            with two_threads():
                times = [seconds_of(once)[0] for _ in range(3 if quick else 10)][1:]
            worst = max(worst, np.median(times))
            cells.append(f"{1e3 * np.median(times):.1f} ({once().n_passes})")
        rows.append([name, *cells, verdict(worst, SOON)])
    return [
        f"calls on a table of 1000 x 5 after the first one, milliseconds, median of 9 (passes), `calibration=None`, "
        f"required at most {1e3 * SOON:.0f}. {machine()}",
        markdown(["metric", *MODES, "target"], rows),
    ]


# --- predictions ------------------------------------------------------------------------------------------------------

PREDICTED = ((1_000_000, 10), (200_000, 50), (100_000, 100))
ONE_PASS, DRAWN = 1.5, 2.0  # "about one pass", and what a mixture may cost


@benchmark("prediction")
def prediction(quick=False):
    """Compare a rule with one scan of the oracle, and randomised with deterministic prediction."""
    rows = []
    for n, K in PREDICTED:
        recipe = Recipe(n // 100 if quick else n, K)
        P, _ = recipe.draw()
        rng, keys = np.random.default_rng(SEED), np.arange(recipe.n)
        oracle = make_oracle(make_table(P))
        for A in (2, 3, 5):
            gains = Gains.reduced(rng.random((A, K)) + 0.5, 0.1 * rng.random((A, K)))
            single = DecisionRule(gains[0], np.ones(1), tuple(range(K)))
            mixture = DecisionRule(gains, rng.dirichlet(np.ones(A)), tuple(range(K)))
            calls = {
                "scan": lambda oracle=oracle, gain=gains[0]: oracle.maximize(gain),
                "single": lambda rule=single, P=P: rule.predict(P),
                "rows": lambda rule=mixture, P=P: rule.predict(P),
                "keys": lambda rule=mixture, P=P, keys=keys: rule.predict(P, keys=keys),
            }
            with two_threads():
                t = alternate(calls, 1 if quick else 7)
            base, drawn_ = ratio(t["single"], t["scan"]), [ratio(t[how], t["single"]) for how in ("rows", "keys")]
            targets = verdict(base[0], ONE_PASS), verdict(max(part[0] for part in drawn_), DRAWN)
            rows.append([recipe.size, A, milliseconds(t["scan"]), milliseconds(t["single"]), shown(base), targets[0],
                         *map(shown, drawn_), targets[1]])  # fmt: skip
    head = ["table", "atoms", "scan, ms", "predict, ms", "predict / scan", "target", "by row / predict"]
    return [
        "`rule.predict` of one gain, validation included, beside one scan of the oracle (which also counts), and of a "
        "mixture beside that of one of its atoms, drawn by row or by given keys; cold caches, float32, median (range) "
        f"of 7 alternating calls. Required: about one scan (taken as at most {ONE_PASS}), and at most {DRAWN:g} times "
        f"for a mixture. {machine()}",
        markdown([*head, "by key / predict", "target"], rows),
    ]


if __name__ == "__main__":
    with two_threads():
        if sys.argv[1] == "memory":
            print(json.dumps(added_memory(*sys.argv[2:])))
        else:
            print_passes(*sys.argv[2:])
