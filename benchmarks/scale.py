"""Tables larger than memory and engines: what a pass costs beside the plainest thing that the same engine can do.

Every benchmark runs by itself and is compared inside one run on the same data. With ``--quick`` the sizes are small and
nothing is written. `python -m benchmarks.scale FOLDER run METRIC` and `... FOLDER rate` are child processes that read
Parquet files and print JSON: nothing larger than a few row groups was ever resident there.
"""

from __future__ import annotations

import itertools
import json
import os
import pickle
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np

import confmax
from benchmarks.harness import benchmark, markdown, shortest
from benchmarks.timing import (
    SEED,
    Recipe,
    alternate,
    child_output,
    machine,
    ratio,
    resident,
    seconds_of,
    short,
    shown,
    two_threads,
    verdict,
)
from confmax.confusion import Gains
from confmax.oracle import make_oracle, make_table
from confmax.tables.partitioned.parts import Part

K, REPEATS = 10, 5
NAMES = tuple(f"p{k}" for k in range(K))
MOST_PASSES = 6  # of a certified run on rows that are elsewhere


def one_gain():
    """Return a gain with a weight and an offset per class."""
    rng = np.random.default_rng(SEED)
    return Gains.reduced(0.5 + rng.random(K), 0.1 * rng.random(K))


def certified(table):
    """Return the table of what runs to a certified gap of 1e-5 take on rows that an engine holds."""
    rows = []
    for metric in ("g_mean", "cohen_kappa"):
        seconds, found = seconds_of(lambda metric=metric: confmax.maximize(metric, table, tol=1e-5, randomized=True))
        word = verdict(found.n_passes, MOST_PASSES)
        rows.append([metric, found.n_passes, word, f"{found.gap:.1e}", f"{seconds:.1f}"])
    return markdown(["metric", "passes", "target", "gap", "seconds"], rows)


@contextmanager
def cluster():
    """Hold a Dask cluster of two workers with one thread each."""
    from distributed import Client, LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as made, Client(made):
        yield


# --- Dask -------------------------------------------------------------------------------------------------------------

DASK_ROWS, CHUNKS, DASK_BOUND = 20_000_000, (500_000, 2_000_000), 1.5


def block(block_info=None):
    """Return the probabilities of one block, drawn from its place."""
    (low, high), (_, K) = block_info[None]["array-location"]
    return Recipe(1_000_000, K, wrong=True).draw(part=low, n=high - low)[0]


@benchmark("dask", section="scale: dask")
def dask(quick=False):
    """Compare a pass with `x.sum(axis=0).compute()` on the same persisted array."""
    import dask.array as da
    from distributed import wait

    n, rows = (200_000 if quick else DASK_ROWS), []
    with cluster():
        for chunk in CHUNKS:
            chunks = da.core.normalize_chunks((chunk // (100 if quick else 1), K), shape=(n, K))
            x = da.map_blocks(block, dtype=np.float32, chunks=chunks, meta=np.empty((0, 0), np.float32)).persist()
            wait(x)
            survey, table = seconds_of(lambda x=x: make_table(x))
            oracle = make_oracle(table)
            calls = {"sum": lambda x=x: x.sum(axis=0).compute(), "pass": lambda o=oracle: o.maximize(one_gain())}
            times = alternate(calls, REPEATS)
            cost = ratio(times["pass"], times["sum"])
            middle = (f"{np.median(times[name]):.3f}" for name in ("sum", "pass"))
            word = verdict(cost[0], DASK_BOUND)
            rows.append([chunk, x.numblocks[0], *middle, shown(cost), word, f"{survey:.2f}"])
        runs = certified(x)
    head = ["chunk rows", "parts", "sum, s", "pass, s", "pass / sum", "target", "check and sample, s"]
    return [
        f"{short(n)} x {K} float32 on a `LocalCluster` of two workers with one thread each, in turn with "
        f"`x.sum(axis=0).compute()` on the same persisted array; medians of {REPEATS}, at most {DASK_BOUND}. "
        f"{machine()}",
        markdown(head, rows, 0),
        f"Certified runs to a gap of 1e-5 (at most {MOST_PASSES} passes):",
        runs,
    ]


# --- Spark ------------------------------------------------------------------------------------------------------------

SPARK_ROWS, PARTITIONS, SPARK_BOUND = 20_000_000, 16, 2.0


def session():
    """Return a local session of two threads."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    build = SparkSession.builder.master("local[2]").config("spark.driver.memory", "10g")
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "OFF"}
    for name, value in {**quiet, "spark.driver.host": "127.0.0.1"}.items():
        build = build.config(name, value)
    return build.getOrCreate()


def cached(spark, n, kind):
    """Return a cached frame of K columns of probabilities, made where it lies."""

    def make(batches):
        import pyarrow as pa

        for batch in batches:
            ids = batch.column(0).to_numpy()
            x = np.random.default_rng(int(ids[0])).exponential(size=(len(ids), K)) ** 2 * np.linspace(1, 0.1, K) + 0.01
            x /= x.sum(axis=1, keepdims=True)
            each = pa.float64() if kind == "double" else pa.float32()
            yield pa.RecordBatch.from_arrays([pa.array(x[:, k], each) for k in range(K)], [f"p{k}" for k in range(K)])

    frame = spark.range(0, n, 1, PARTITIONS).mapInArrow(make, ", ".join(f"p{k} {kind}" for k in range(K))).persist()
    frame.count()
    return frame


@benchmark("spark", section="scale: spark")
def spark(quick=False):
    """Compare a pass with the sums of every probability column of the same cached frame."""
    from pyspark.sql import functions as F

    n, rows, held = (200_000 if quick else SPARK_ROWS), [], session()
    for kind in ("float", "double"):
        frame = cached(held, n, kind)
        survey, table = seconds_of(lambda frame=frame: make_table(frame))
        oracle = make_oracle(table)
        calls = {
            "sums": lambda frame=frame: frame.agg(*[F.sum(name) for name in NAMES]).collect(),
            "pass": lambda oracle=oracle: oracle.maximize(one_gain()),
        }
        times = alternate(calls, REPEATS)
        cost = ratio(times["pass"], times["sums"])
        middle = (f"{np.median(times[name]):.3f}" for name in ("sums", "pass"))
        rows.append([kind, *middle, shown(cost), verdict(cost[0], SPARK_BOUND), f"{survey:.1f}"])
        if kind == "float":
            runs = certified(frame)
        del table, oracle
        frame.unpersist()
    held.stop()
    return [
        f"{short(n)} x {K}, one column per class, {PARTITIONS} partitions, `local[2]`; in turn with `df.agg(sum of "
        f"every column)` on the same cached frame, medians of {REPEATS}, at most {SPARK_BOUND}. {machine()}",
        markdown(["columns", "sums, s", "pass, s", "pass / sums", "target", "check and sample, s"], rows),
        f"Certified runs to a gap of 1e-5 (at most {MOST_PASSES} passes), float:",
        runs,
    ]


# --- Parquet files larger than what a run may hold --------------------------------------------------------------------

FILE_ROWS, GROUP, FILE = 100_000_000, 1_000_000, 5_000_000
RUNS = {
    "g_mean, model": {"confusion": "model", "calibration": None, "tol": 1e-5, "randomized": True},
    "cohen_kappa, model": {"confusion": "model", "calibration": None, "tol": 1e-5, "randomized": True},
    "macro_f1, labels": {"confusion": "labels", "calibration": None},
    "macro_f1, defaults": {},
}
RESIDENT, RATE = 1.5e9, 0.5


def generate(folder, n):
    """Write n rows of probabilities (float32) and labels to Parquet, a million rows to a group, as pyarrow does."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    recipe = Recipe(GROUP, K, wrong=True)
    for start in range(0, n, FILE):
        writer = None
        for group in range(start, min(start + FILE, n), GROUP):
            P, y = recipe.draw(part=group // GROUP, n=min(GROUP, n - group))
            table = pa.table({**{name: P[:, k] for k, name in enumerate(NAMES)}, "label": y.astype(np.int8)})
            writer = writer or pq.ParquetWriter(Path(folder) / f"part-{start // FILE:04d}.parquet", table.schema)
            writer.write_table(table)
        writer.close()


def one_run(folder, name):
    """Return what one run costs; a tiny one before it loads the compiled code."""
    metric, settings = name.split(",")[0], RUNS[name]
    P, y = Recipe(2000, K, wrong=True).draw()
    confmax.maximize(metric, P, y, **settings)
    read = [0]

    def heard(done, total):
        read[0] += done == total

    def tune():
        table = confmax.open_table(folder, label="label", columns=NAMES, progress=heard)
        return confmax.maximize(metric, table, **settings)

    seconds, found = seconds_of(tune)
    gap = "" if found.gap is None else f"{found.gap:.1e}"
    held = resident("VmHWM")
    words = verdict(held, RESIDENT), "" if found.gap is None else verdict(found.n_passes, MOST_PASSES)
    return [name, f"{found.value:.5f}", gap, found.n_passes, read[0], f"{seconds:.1f}", f"{held / 1e9:.2f}", *words]


def rates(folder):
    """Return seconds of a plain scan of the columns and of a pass over them, in turn."""
    import pyarrow.dataset as ds

    oracle = make_oracle(make_table(confmax.open_table(folder, label="label", columns=NAMES)))

    def scan():
        return sum(batch.num_rows for batch in ds.dataset(folder, format="parquet").to_batches(columns=list(NAMES)))

    return alternate({"scan": scan, "pass": lambda: oracle.maximize(one_gain())}, REPEATS)


@benchmark("files", section="scale: files")
def files(quick=False):
    """Measure memory, and the rate of a pass beside a plain scan of the same files."""
    n = 200_000 if quick else FILE_ROWS
    with tempfile.TemporaryDirectory() as folder:
        generate(folder, n)
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
        rows = [json.loads(child_output(["-m", "benchmarks.scale", folder, "run", name])) for name in RUNS]
        times = json.loads(child_output(["-m", "benchmarks.scale", folder, "rate"]))
    found = ratio(times["scan"], times["pass"])
    million = {name: f"{n / np.median(each) / 1e6:.1f}" for name, each in times.items()}
    head = ["run", "value", "gap", "passes", "reads", "seconds", "resident, GB", "below 1.5 GB"]
    return [
        f"{short(n)} x {K} float32 in Parquet ({size / 1e9:.1f} GB, groups of a million rows, pyarrow's defaults), "
        f"each run in a process of its own. Reads are of the whole table: the check, the mean of calibrated "
        f"probabilities, and the passes. Resident is the process's maximum (VmHWM), with all libraries. {machine()}",
        markdown([*head, f"passes to the gap <= {MOST_PASSES}"], rows),
        f"One pass, statistics of one gain, beside `pyarrow.dataset(...).to_batches` over the same columns: "
        f"{million['pass']} against {million['scan']} million rows per second, rate {shown(found)} of the scan's (at "
        f"least {RATE}: {verdict(found[0], RATE, most=False)}).",
    ]


# --- many small parts -------------------------------------------------------------------------------------------------

ROW_GROUP, BLOCKED = 100, 200_000
GROUPS, PARTS = (1, 10, 100, 1000, 5000), (2, 10, 100, 1000)
PART_BOUND = 0.6  # milliseconds of a row group beside reading its data


def of_parts(number, proba, y, plain):
    """Return the cells of a line: the check, passes, the plain thing beside them in turn, and a run on labels."""
    check, table = seconds_of(lambda: make_table(proba, y))
    oracle = make_oracle(table)
    times = alternate({"plain": plain, "pass": lambda: oracle.maximize(one_gain())}, REPEATS)
    settings = {"confusion": "labels", "calibration": None}
    taken, found = seconds_of(lambda: confmax.maximize("macro_f1", proba, y, **settings))
    beside, scan = (1e3 * min(times[name]) for name in ("plain", "pass"))
    texts = [f"{beside:.1f}", f"{scan:.1f}", f"{scan / number:.3f}", f"{1e3 * check:.0f}", f"{1e3 * taken:.0f}"]
    return [number, *texts, found.n_passes], (scan - beside) / number


def on_files(groups, folder):
    """Return what a file of so many row groups costs."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    P, y = Recipe(groups * ROW_GROUP, K, wrong=True).draw()
    path = Path(folder) / f"{groups}.parquet"
    columns = {**{name: P[:, k] for k, name in enumerate(NAMES)}, "label": y.astype(np.int8)}
    pq.write_table(pa.table(columns), path, row_group_size=ROW_GROUP)

    def read():
        with pq.ParquetFile(path, memory_map=True) as file:
            return file.read(columns=NAMES).num_rows

    return of_parts(groups, confmax.open_table(path, label="label"), None, read)


def on_blocks(parts):
    """Return what an array of so many blocks costs on the cluster that there is."""
    import dask.array as da
    from distributed import wait

    P, y = Recipe(BLOCKED, K, wrong=True).draw()
    x, labels = (da.from_array(each, chunks=(BLOCKED // parts, *each.shape[1:])).persist() for each in (P, y))
    wait([x, labels])
    return of_parts(parts, x, labels, lambda: x.sum(axis=0).compute())


@benchmark("parts", section="scale: parts")
def parts(quick=False):
    """Measure what a row group of a Parquet file, or a block of a Dask array, costs beside its rows."""
    fewer = 10 if quick else 1
    with tempfile.TemporaryDirectory() as folder:
        of_files = [on_files(groups, folder) for groups in GROUPS if groups <= max(GROUPS) // fewer]
    with cluster():
        of_blocks = [on_blocks(some) for some in PARTS if some <= max(PARTS) // fewer]
    cost = of_files[-1][1]
    more = ["check, ms", "run, ms", "passes of the run"]
    return [
        f"tables of {K} classes, float32; a run is macro F1 on labels. Parquet files with row groups of {ROW_GROUP} "
        f"rows, beside reading the probabilities by `ParquetFile.read`: a row group costs {cost:.2f} ms beside its "
        f"data in the largest file (at most {PART_BOUND}: {verdict(cost, PART_BOUND)}). {machine()}",
        markdown(["row groups", "read, ms", "pass, ms", "by row groups", *more], [row for row, _ in of_files], 0),
        f"Dask arrays of {short(BLOCKED)} rows on a `LocalCluster` of two workers with one thread each, beside "
        "`x.sum(axis=0).compute()`.",
        markdown(["blocks", "sum, ms", "pass, ms", "by blocks", *more], [row for row, _ in of_blocks], 0),
    ]


# --- what a pass sends to every part and gets back --------------------------------------------------------------------

WIRED = ((100_000, 10), (10_000_000, 10), (100_000, 100), (1_000_000, 100))
WIRE_PARTS = 8


@dataclass(frozen=True, eq=False)
class Metered:
    """Parts in this process; every exchange with one of them is serialised, and its length kept."""

    parts: tuple
    n_rows: int
    n_classes: int
    moved: list
    names: None = None
    has_labels: bool = True
    holds: bool = True
    is_confmax_source = True

    def kept(self, step):
        return Metered(tuple(map(step, self.parts)), self.n_rows, self.n_classes, self.moved)

    def run(self, work, *, labels_only=False):
        import cloudpickle

        sent, most = cloudpickle.dumps(work), 0
        for part in self.parts:
            received = pickle.dumps(cloudpickle.loads(sent)(part))
            most = max(most, len(received))
            yield pickle.loads(received)
        self.moved.append((len(sent), most))


@benchmark("wire", section="scale: wire")
def wire(quick=False):
    """Count the bytes of every exchange: distinct labels, the survey, then the passes."""
    rows = []
    for size, classes in WIRED:
        n = size // 100 if quick else size
        P, y = Recipe(n, classes, wrong=True).draw()
        edges = itertools.pairwise(np.linspace(0, n, WIRE_PARTS + 1).astype(int))
        split = tuple(Part(P[low:high], y[low:high], None, f"part {k}") for k, (low, high) in enumerate(edges))
        settings = {"confusion": "model", "calibration": None, "classes": range(classes), "tol": 1e-5}
        for metric in ("g_mean", "macro_f1", "quadratic_kappa"):
            moved = []
            found = confmax.maximize(metric, Metered(split, n, classes, moved), **settings)
            _, survey, *exchanged = moved
            most = (f"{max(each[way] for each in exchanged) / 1e3:.1f}" for way in (0, 1))
            rows.append([f"{short(n)} x {classes}", metric, found.n_passes, *most, f"{survey[1] / 1e3:.0f}"])
    return [
        f"bytes per part, {WIRE_PARTS} parts, serialised as engines do; the most that one pass of a run sent to a part "
        "and got back from one. The survey returns the sample, about 4 million entries over all parts, or the whole "
        "table if it is smaller.",
        markdown(["table", "metric", "passes", "sent, kB", "received, kB", "survey: received, kB"], rows, 2),
    ]


# --- groups and limits on labels in parts -----------------------------------------------------------------------------

LIMITS = (
    ("accuracy", "recall[1] >= 0.75"),
    ("macro_f1", "rate[1] <= 0.2"),
    ("accuracy", "difference(recall[0] | group) <= 0.01"),
)
SAMPLES = (10_000, 2000)  # rows of a sample that is not the whole table


def two_groups(n, seed=0):
    """Return groups (n,) of about equal size."""
    return np.array(["a", "b"])[np.random.default_rng(seed).integers(0, 2, n)]


def blocks(values):
    """Return an array as a Dask array of four blocks of rows."""
    import dask.array as da

    return da.from_array(values, chunks=(-(-len(values) // 4), *values.shape[1:]))


def costs(n=2_000_000, K=10):
    """Return a line per number of gains: milliseconds of a pass without groups and with two, and their ratio."""
    P, _ = Recipe(n, K).draw()
    plain, grouped = make_table(blocks(P)), make_table(blocks(P), group=blocks(two_groups(n)))
    oracles = [make_oracle(plain), make_oracle(grouped.groups.beside(grouped))]
    lines = []
    for B in (1, 8):
        a = np.random.default_rng(B).random((B, K))
        gains = [Gains.reduced(a), Gains.reduced(np.tile(a, 2))]
        calls = zip(oracles, gains, strict=True)
        one, two = (shortest(lambda o=o, g=g: o.maximize(g), 15)[0] for o, g in calls)
        lines.append([B, f"{1e3 * one:.1f}", f"{1e3 * two:.1f}", f"{two / one:.2f}"])
    return lines


def labelled(n, K, seed=1):
    """Return probabilities (n, K) and labels that they are too sure about."""
    rng = np.random.default_rng([seed, n, K])
    P = rng.dirichlet(np.linspace(1.0, 0.2, K), n)
    true = P**0.7 / (P**0.7).sum(axis=1, keepdims=True)
    return P, (true.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)


def singles(n=20_000, classes=(2, 3, 6), samples=SAMPLES):
    """Return a line per problem: the best single rule in memory, and by how much that in parts is above it."""
    lines = []
    for K in classes:
        P, y = labelled(n, K)
        for metric, limit in LIMITS:
            group = two_groups(n) if "group" in limit else None
            more = {"constraints": limit, "confusion": "labels", "randomized": False, "classes": range(K)}
            memory = confmax.maximize(metric, P, y, group=group, **more)
            found = [memory.value]
            for rows in (None, *samples):
                cells, least = (1 << 22, 20_000) if rows is None else (rows * K, rows)
                place = "confmax.tables.partitioned.table"
                with mock.patch(f"{place}.SAMPLE_CELLS", cells), mock.patch(f"{place}.SAMPLE_ROWS", least):
                    beside = None if group is None else blocks(group)
                    split = confmax.maximize(metric, blocks(P), blocks(y), group=beside, **more)
                found.append(split.value - memory.value if split.feasible else np.nan)
            lines.append([K, f"{metric}, {limit}", f"{found[0]:.4f}", *(f"{each:+.4f}" for each in found[1:])])
    return lines


@benchmark("parts-limits", section="parts: groups and limits")
def parts_limits():
    """Measure a pass with groups, and search the best single rules by label counts, which only memory can sort."""
    head = ["classes", "problem", "memory", "all rows", *(f"{rows:,} rows" for rows in SAMPLES)]
    return [
        "a pass over 2M x 10 float32 in 4 blocks of Dask arrays, without groups and with two, the shortest of 15, in "
        "milliseconds.",
        markdown(["gains", "without", "with", "ratio"], costs(), 0),
        "The best single rule within a limit on 20,000 rows, by label counts, in memory; and by how much the one of "
        "Dask arrays in parts is above it, where the sample is the whole table, 10,000 rows and 2000.",
        markdown(head, singles(), 2),
    ]


if __name__ == "__main__":
    with two_threads():
        print(json.dumps(one_run(sys.argv[1], sys.argv[3]) if sys.argv[2] == "run" else rates(sys.argv[1])))
