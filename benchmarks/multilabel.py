"""Several labels per row: what a pass costs, and the search of thresholds, against NumPy, and of rows in parts."""

from __future__ import annotations

import itertools
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

import confmax
from benchmarks import timing
from benchmarks.harness import benchmark, markdown, shortest, solve
from benchmarks.timing import SEED
from confmax.confusion import Gains
from confmax.kernels.blocks import on_threads
from confmax.tables.array.kind import ARRAYS
from confmax.tables.decisions import decisions_of
from confmax.tables.part import Part
from confmax.tables.table import Table

# tables, decisions, and what a pass may cost of one with NumPy
PASSES = [
    ((100_000, 50), "any", 0.1),
    *((size, k, 0.15) for size in ((200_000, 20), (100_000, 100)) for k in (1, 3, 5)),
]
FILES = 10
REPEATS = 15
SEARCHES = 5


def table(n, L, decisions):
    """Return probabilities (n, L) float32, most of them small, and labels that are drawn from them."""
    rng = np.random.default_rng([SEED, n, L])
    P = rng.random((n, L), dtype=np.float32) ** 4
    Y = (rng.random((n, L), dtype=np.float32) < P).astype(np.uint8)
    return Part(ARRAYS, P, labels=Y, weight=None, classes=tuple(range(L)), decisions=decisions_of(decisions))


def any_by_numpy(S, P, a, b):
    """Return the sums of S (n, L) where scores are positive, and how often they are."""
    chosen = P * a + b > 0
    return np.einsum("ij,ij->j", chosen, S), chosen.sum(axis=0)


def best_by_numpy(k, S, P, a, b):
    """Return the sums of S (n, L) where scores are among the k best of their row, and how often they are."""
    L = P.shape[1]
    best = np.argpartition(P * a + b, L - k, axis=1)[:, L - k :]
    chosen = best.ravel()
    return np.bincount(chosen, np.take_along_axis(S, best, 1).ravel(), L), np.bincount(chosen, minlength=L)


def measured(size, decisions, repeats):
    """Return the seconds of passes on the model and on the labels and of NumPy's, and the ratio with warm caches."""
    data = table(*size, decisions)
    rng = np.random.default_rng(SEED)
    a, b = 1.0 + rng.random(size[1]), -0.5 * rng.random(size[1])
    gains = Gains.reduced(a, b)
    model, labels = Table.of(data).oracle(1.0), Table.of(data).oracle(0.0)
    by_numpy = any_by_numpy if decisions == "any" else partial(best_by_numpy, decisions)

    def alone():
        with on_threads(1):
            model.maximize(gains)

    calls = {
        "NumPy": partial(by_numpy, data.proba, data.proba, a.astype(np.float32), b.astype(np.float32)),
        "one thread": alone,
        "two threads": partial(model.maximize, gains),
        "labels": partial(labels.maximize, gains),
    }
    with timing.two_threads():
        # where neither finds the table in the cache, and where both do
        warm = [shortest(calls[name], repeats)[0] for name in ("one thread", "NumPy")]
        return timing.alternate(calls, repeats), warm[0] / warm[1]


@benchmark("multilabel-passes", section="several labels: passes")
def passes(quick=False):
    """Compare a pass with what it costs in NumPy."""
    rows = []
    for (n, L), decisions, target in PASSES:
        size = (n // 100 if quick else n), L
        t, warm = measured(size, decisions, 1 if quick else REPEATS)
        ratios = [timing.ratio(t[name], t["NumPy"]) for name in ("one thread", "two threads", "labels")]
        cells = [timing.milliseconds(t[name]) for name in ("NumPy", "one thread", "two threads")]
        words = [timing.verdict(one, target) for one in (warm, ratios[0][0], ratios[1][0])]
        first = [f"{timing.short(size[0])} x {L}", decisions, *cells, f"{warm:.3f}"]
        rows.append([*first, *map(timing.shown, ratios), target, *words])
    head = ["table", "decisions", "NumPy, ms", "one thread, ms", "two, ms", "one / NumPy, warm", "one / NumPy"]
    head += ["two / NumPy", "labels / NumPy", "target", "warm", "one thread", "two threads"]
    return [
        f"one pass with a weight and an offset per label, float32: cold caches, median (range) over {REPEATS} "
        f"alternating repeats; warm, the least of as many in a row. NumPy takes one thread: for any labels "
        f"`P * a + b > 0`, `einsum` and a sum, for the k best `argpartition` and two `bincount`. The model's sums, "
        f"and on two threads those of the labels. {timing.machine()}",
        markdown(head, rows, words=2),
    ]


@benchmark("multilabel-speed", section="several labels: thresholds")
def thresholds(quick=False):
    """Compare the search of thresholds for any labels with one pass of NumPy."""
    n, L = (1000, 10) if quick else (100_000, 50)
    data = table(n, L, "any")
    P, Y = data.proba, data.labels
    b = np.full(L, -0.3, np.float32)
    rows = []
    repeats = 1 if quick else SEARCHES
    for metric, estimate in itertools.product(("macro_f1", "micro_f1", "g_mean"), ("model", "labels", "auto")):
        y = None if estimate == "model" else Y
        search = partial(confmax.maximize, metric, P, y, decisions="any", confusion=estimate)
        calls = {"NumPy": partial(any_by_numpy, P, P, np.float32(1.0), b), "confmax": search}
        with timing.two_threads():
            t = timing.alternate(calls, repeats)
        found = search()
        cells = [timing.milliseconds(t[name]) for name in ("NumPy", "confmax")]
        ratio = timing.shown(timing.ratio(t["confmax"], t["NumPy"]))
        rows.append([metric, estimate, *cells, ratio, found.n_passes, f"{found.gap:.1e}"])
    return [
        f"a whole call of maximize on {timing.short(n)} x {L}, float32, with the check of the table, beside one pass "
        f"of NumPy, `P * a + b > 0`, `einsum` and a sum: medians (range) of {repeats} alternating repeats, cold "
        f"caches. {timing.machine()}",
        markdown(["metric", "confusion", "NumPy, ms", "confmax, ms", "ratio", "scans", "gap"], rows, words=2),
    ]


@benchmark("multilabel-parts", section="several labels: rows in parts")
def in_parts(quick=False):
    """Compare thresholds on rows in files with those of the same rows in memory."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    n, L = (60_000, 10) if quick else (300_000, 50)
    data = table(n, L, "any")
    names, of_labels = ([f"{word}{k}" for k in range(L)] for word in ("p", "y"))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for number, part in enumerate(np.array_split(np.arange(n), FILES)):
            both = zip((*names, *of_labels), (*data.proba[part].T, *data.labels[part].T), strict=True)
            pq.write_table(pa.table(dict(both)), Path(folder) / f"{number}.parquet")
        for metric, estimate in itertools.product(("macro_f1", "micro_f1", "g_mean"), ("model", "auto")):
            how = {"decisions": "any", "confusion": estimate, "classes": names}
            opened = confmax.open_table(f"{folder}/*.parquet", label=of_labels, columns=names)
            here, there = solve(metric, data.proba, data.labels, **how), solve(metric, opened, **how)
            figures = [f"{abs(there.value - here.value):.1e}", f"{here.gap:.1e}", f"{there.gap:.1e}"]
            rows.append([metric, estimate, there.n_passes, *figures])
    return [
        f"maximize on {timing.short(n)} x {L}, float32, in memory and in {FILES} Parquet files, of which a sample does "
        f"not hold all rows: how often the search reads the files, by how much the values differ, and both gaps.",
        markdown(["metric", "confusion", "passes", "values differ by", "gap, memory", "gap, files"], rows, words=2),
    ]
