"""As fast as the memory? Every figure a ratio of two things that ran in one process, in turn, on two threads.

With ``--quick`` the sizes are small and nothing is written.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

import confmax
from benchmarks import timing
from benchmarks.harness import MODEL, benchmark, keep, markdown, spread
from benchmarks.timing import SEED, Recipe
from confmax import DecisionRule
from confmax.confusion import Gains
from confmax.oracle import make_oracle, make_table


def certified(name, P):
    """Return a run on the model to a certified gap."""
    return confmax.maximize(name, P, randomized=True, **MODEL)


SCANS = ((1_000_000, 10), (200_000, 100), (50_000, 1000), (200_000, 20), (5_000_000, 2))
BANDWIDTH, REPEATS = 0.6, 31


@benchmark("scan", section="speed: scan")
def scan(quick=False):
    """Compare scans with NumPy's maximum of the same array, one half per thread: of its reductions the fastest."""
    pool, rows = ThreadPoolExecutor(2), []
    for place, (n, K) in enumerate(SCANS):
        recipe = Recipe(n // 100 if quick else n, K)
        P, y = recipe.draw()
        rng = np.random.default_rng(SEED)
        a, b = 1 / recipe.priors(), 0.1 * rng.random(K)
        one, eight = Gains.reduced(a, b), Gains.reduced(a * (0.5 + rng.random((8, K))), b)
        table, halves = make_table(P, y, None, range(K)), np.array_split(P.reshape(-1), 2)
        model, labels = make_oracle(table), make_oracle(table, "labels")
        calls = {
            "maximum": lambda halves=halves: max(pool.map(np.max, halves)),
            "scan": partial(model.maximize, one),
            "labels": partial(labels.maximize, one),
            "eight": partial(model.maximize, eight),
            "NumPy": partial(timing.numpy_pass, P, y, a.astype(np.float32), b.astype(np.float32)),
        }
        with timing.two_threads():
            t = timing.alternate(calls, 1 if quick else REPEATS)
        share, rate = timing.ratio(t["maximum"], t["scan"]), P.nbytes / np.median(t["maximum"]) / 1e9
        texts = [timing.milliseconds(t["maximum"]), f"{rate:.1f}", timing.milliseconds(t["scan"]), timing.shown(share)]
        target = timing.verdict(share[0], BANDWIDTH, most=False) if place < 3 else ""
        more = [f"{timing.ratio(t['eight'], t['scan'])[0]:.2f}", f"{timing.ratio(t['NumPy'], t['scan'])[0]:.1f}"]
        rows.append([recipe.size, *texts, target, timing.shown(timing.ratio(t["maximum"], t["labels"])), *more])
    head = ["table", "max, ms", "max, GB/s", "scan, ms", "bandwidth", "target", "labels", "eight gains / one"]
    return [
        f"one scan with a gain `a_j p_j + b_j`, cold caches, float32, against NumPy's maximum over the same array on "
        f"two threads: median (range) over {REPEATS} alternating repeats. Bandwidth is the maximum's time over the "
        f"scan's, required at least {BANDWIDTH} on the first three tables. NumPy: `(P * a + b).argmax(1)` and a "
        f"`bincount`. {timing.machine()}",
        markdown([*head, "NumPy / scan"], rows),
    ]


RUNS = ((1_000_000, 10), (200_000, 20))
SIGNALS = {"well separated": 3.0, "heavily overlapping": 1.0}
CERTIFIED = ("cohen_kappa", "micro_f1", "micro_f1_once", "g_mean", "h_mean", "q_mean")
INFORMATION = ("macro_f1", "min_recall")
RIGHT = (0.6, 0.8, 0.95)  # of the rows, by argmax


def bound_of(name, K):
    """Return what a run may cost in NumPy passes, NaN for information."""
    if name in INFORMATION:
        return np.nan
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
        yield f"argmax is right on {right:.0%}", "200k x 20, float64", *linear_model(right, 2000 if quick else 200_000)


@benchmark("runs", section="speed: runs")
def runs(quick=False):
    """Compare certified runs with one pass of NumPy over a fresh copy of the table."""
    rows, targets = [], []
    for kind, size, P, y in drawn_tables(quick):
        K, last = P.shape[1], {}
        a, b = np.linspace(1.0, 2.0, K).astype(P.dtype), np.full(K, 0.01, P.dtype)
        calls = {"NumPy": lambda Q, y=y, a=a, b=b: timing.numpy_pass(Q, y, a, b)}
        for name in CERTIFIED + INFORMATION:
            calls[name] = lambda Q, name=name, last=last: last.update({name: certified(name, Q)})
        with timing.two_threads():
            times = timing.alternate(calls, 1 if quick else 7, lambda P=P: timing.fresh(P))
        for name, solution in last.items():
            cost, bound = timing.ratio(times[name], times["NumPy"]), bound_of(name, K)
            proved = solution.gap is not None and solution.gap <= 1e-6
            target = "" if np.isnan(bound) else timing.verdict(cost[0], bound) if proved else "**missed** (gap)"
            targets += [target] if target else []
            gap = "none" if solution.gap is None else f"{solution.gap:.1e}"
            both = [timing.milliseconds(times["NumPy"]), timing.milliseconds(times[name])]
            rows.append([size, kind, name, *both, timing.shown(cost), target, solution.n_passes, gap])
    head = ["table", "classes are", "metric", "NumPy, ms", "run, ms", "ratio", "target", "passes", "gap"]
    return [
        "`maximize(metric, P, confusion='model', calibration=None, randomized=True)` to a certified gap of 1e-6, "
        "validation and conversion included, over **one** NumPy pass `(P * a + b).argmax(1)` with `bincount` on a "
        "fresh copy of the same table: over tables, the median of 7 alternating repeats, and (least, most). Macro F1 "
        f"and the smallest recall for information. {sum(word != 'met' for word in targets)} of {len(targets)} targets "
        f"(1.0; 1.5 for means of more than 10 classes) are missed. {timing.machine()}",
        spread("speed: runs", head, rows, 3, (0, 2)),
    ]


MANY_CLASSES, ROWS = (10, 100, 1000), 100_000
COUNTED = ("cohen_kappa", "g_mean", "h_mean", "q_mean", "macro_f1")
FACTOR = 2.5


@benchmark("class-passes", section="speed: passes")
def class_passes(quick=False):
    """Count the passes of certified runs on tables of few and of many classes."""
    n, classes = (2000, MANY_CLASSES[:1]) if quick else (ROWS, MANY_CLASSES)
    cells, passes = {name: [] for name in COUNTED}, {name: [] for name in COUNTED}
    for K in classes:
        P, _ = Recipe(n, K).draw()
        for name in COUNTED:
            seconds, solution = timing.seconds_of(certified, name, P)
            gap = "none" if solution.gap is None else f"{solution.gap:.1e}"
            cells[name].append(f"{solution.n_passes} ({gap}, {seconds:.2g} s)")
            passes[name].append(solution.n_passes)
    factors = {name: max(made) / min(made) for name, made in passes.items()}
    rows = [[name, *cells[name], f"{factors[name]:.2f}", timing.verdict(factors[name], FACTOR)] for name in COUNTED]
    return [
        "scans of the table to a certified gap of 1e-6 (macro F1: to the end of its search), `confusion='model'`, "
        f"randomised; the most over the least must be at most {FACTOR}. In brackets the gap and the seconds. "
        f"{timing.machine()}",
        markdown(["metric", *(Recipe(n, K).size for K in classes), "most / least", "target"], rows),
    ]


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
    np.savetxt(folder / "new.csv", P[:1000], delimiter=",", header=",".join(names), comments="")
    # without its compiled files Python would compile every module again
    environment = {key: value for key, value in timing.child_environment().items() if key != "PYTHONDONTWRITEBYTECODE"}
    settings = {"cwd": folder, "env": environment, "capture_output": True, "text": True, "check": True}
    for what, (arguments, bound) in (WHOLE | PRINTED).items():
        times = []
        for _ in range(count + 1):
            start = time.perf_counter()
            ended = subprocess.run([sys.executable, *arguments], **settings)
            times.append(time.perf_counter() - start if what in WHOLE else float(ended.stdout))
        yield what, bound, times[1:]


def default_calls(quick):
    """Return a row for each size: the default call for two metrics on a fresh copy of the table."""
    rows = []
    for (n, K), bound in DEFAULTS.items():
        P, y = drawn(n // 100 if quick else n, K)
        calls = {name: lambda Q, name=name, y=y: confmax.maximize(name, Q, y) for name in ("macro_f1", "g_mean")}
        with timing.two_threads():
            taken = timing.alternate(calls, 1 if quick else 5, lambda P=P: timing.fresh(P))
        worst = max(np.median(times) for times in taken.values())
        rows.append(
            [
                f"{n} x {K}",
                *map(timing.milliseconds, taken.values()),
                f"{1e3 * bound:.0f}",
                timing.verdict(worst, bound),
            ]
        )
    return rows


NEXT = ("macro_f1", "g_mean", "h_mean", "q_mean", "min_recall", "cohen_kappa", "quadratic_kappa", "micro_f1", "mcc")
MODES = ("model", "labels", "blend")
SOON = 0.02


def next_calls(quick):
    """Return a row for each metric: milliseconds and passes of calls on a small table after the first one."""
    P, y = Recipe(1000, 5, imbalance=10.0).draw()
    rows = []
    for name in NEXT:
        cells, worst = [], 0.0
        for mode in MODES:
            settings = {"classes": range(5), "confusion": mode, "calibration": None}
            call = partial(confmax.maximize, name, P, None if mode == "model" else y, **settings)
            with timing.two_threads():
                times = [timing.seconds_of(call)[0] for _ in range(3 if quick else 10)][1:]
            worst = max(worst, np.median(times))
            cells.append(f"{1e3 * np.median(times):.1f} ({call().n_passes})")
        rows.append([name, *cells, timing.verdict(worst, SOON)])
    return rows


@benchmark("cold", section="speed: cold")
def cold(quick=False):
    """Measure how long people wait: for a new process, for the default call, and for calls after the first."""
    with tempfile.TemporaryDirectory() as folder:
        times = list(process_times(Path(folder), 1 if quick else PROCESSES))
    waits = [[what, f"{np.median(t):.2f}", bound, timing.verdict(np.median(t), bound)] for what, bound, t in times]
    later = next_calls(quick)
    keep("speed: latency", ["metric", *MODES, "target"], later)
    slowest = max(later, key=lambda row: max(float(cell.split()[0]) for cell in row[1:-1]))
    return [
        f"medians of {PROCESSES} new processes, the files of the packages in the page cache, imports included; below "
        f"`confmax demo`, of what is printed: the import, or what is added to the call or the fits before. "
        f"{timing.machine()}",
        markdown(["what", "seconds", "required", "target"], waits),
        "The default call (calibration, blend, run) on a fresh copy of the table, milliseconds:",
        markdown(["table", "macro F1", "G-mean", "required", "target"], default_calls(quick)),
        f"Calls on a table of 1000 x 5 after the first one, `calibration=None`: "
        f"{sum(row[-1] == 'met' for row in later)} of {len(NEXT)} metrics take at most {1e3 * SOON:.0f} ms. The "
        f"slowest, {slowest[0]}, takes "
        f"{', '.join(f'{cell} ({mode})' for mode, cell in zip(MODES, slowest[1:], strict=False))}, in milliseconds "
        f"(passes).",
    ]


PREDICTED, ATOMS = ((1_000_000, 10), (200_000, 50), (100_000, 100)), 5
ONE_PASS, DRAWN = 1.5, 2.0  # "about one pass", and what a mixture may cost


@benchmark("prediction")
def prediction(quick=False):
    """Compare a rule with one scan of the oracle, and randomised with deterministic prediction."""
    rows = []
    for n, K in PREDICTED:
        recipe = Recipe(n // 100 if quick else n, K)
        P, _ = recipe.draw()
        rng, oracle = np.random.default_rng(SEED), make_oracle(make_table(P))
        gains = Gains.reduced(rng.random((ATOMS, K)) + 0.5, 0.1 * rng.random((ATOMS, K)))
        single = DecisionRule(gains[0], np.ones(1), tuple(range(K)))
        mixture = DecisionRule(gains, rng.dirichlet(np.ones(ATOMS)), tuple(range(K)))
        calls = {
            "scan": partial(oracle.maximize, gains[0]),
            "single": partial(single.predict, P),
            "rows": partial(mixture.predict, P),
            "keys": partial(mixture.predict, P, keys=np.arange(recipe.n)),
        }
        with timing.two_threads():
            t = timing.alternate(calls, 1 if quick else 7)
        ratios = [
            timing.ratio(t["single"], t["scan"]),
            *(timing.ratio(t[how], t["single"]) for how in ("rows", "keys")),
        ]
        targets = [timing.verdict(cost[0], most) for cost, most in zip(ratios, (ONE_PASS, DRAWN, DRAWN), strict=True)]
        cells = (f"{timing.shown(cost)}, {target}" for cost, target in zip(ratios, targets, strict=True))
        rows.append([recipe.size, timing.milliseconds(t["scan"]), timing.milliseconds(t["single"]), *cells])
    head = ["table", "scan, ms", "predict, ms", "predict / scan", "by row / predict", "by key / predict"]
    return [
        f"`rule.predict` of one gain, validation included, beside one scan of the oracle (which also counts), and of a "
        f"mixture of {ATOMS} beside that of one of its atoms, drawn by row or by given keys; cold caches, float32, "
        f"median (range) of 7 alternating calls. Required: about one scan (taken as at most {ONE_PASS}), and at most "
        f"{DRAWN:g} times for a mixture. {timing.machine()}",
        markdown(head, rows),
    ]
