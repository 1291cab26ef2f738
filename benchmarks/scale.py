"""Tables larger than memory and engines: what a pass costs beside the plainest thing that the same engine can do.

Every benchmark runs by itself and is compared inside one run on the same data. With ``--quick`` the sizes are small and
nothing is written. `python -m benchmarks.scale FOLDER run METRIC`, `... FOLDER rate` and so on are child processes that
read Parquet files and print JSON: nothing larger than a few row groups was ever resident there.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import shutil
import sys
import tempfile
import time
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import numpy as np

import confmax
from benchmarks import timing
from benchmarks.harness import LABELS, MODEL, benchmark, markdown
from benchmarks.timing import SEED, Recipe
from confmax.confusion import Gains
from confmax.oracle import make_oracle, make_table
from confmax.tables.partitioned.files import PART_CELLS

K, REPEATS = 10, 5
NAMES = tuple(f"p{k}" for k in range(K))
MOST_PASSES = 6  # of a certified run on rows that are elsewhere


def one_gain():
    """Return a gain with a weight and an offset per class."""
    rng = np.random.default_rng(SEED)
    return Gains.reduced(0.5 + rng.random(K), 0.1 * rng.random(K))


def certified(table):
    """Return a sentence on runs to a certified gap of 1e-5 on rows that an engine holds."""
    words = []
    for metric in ("g_mean", "cohen_kappa"):
        seconds, solution = timing.seconds_of(
            lambda metric=metric: confmax.maximize(metric, table, tol=1e-5, randomized=True)
        )
        target = timing.verdict(solution.n_passes, MOST_PASSES)
        words.append(f"{metric} {solution.n_passes} ({target}; gap {solution.gap:.1e}, {seconds:.1f} s)")
    return f"Passes of certified runs to a gap of 1e-5 (at most {MOST_PASSES}): {', '.join(words)}."


DASK_ROWS, CHUNKS, DASK_BOUND = 20_000_000, (500_000, 2_000_000), 1.5


@contextmanager
def cluster():
    """Hold a Dask cluster of two workers with one thread each."""
    from distributed import Client, LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as made, Client(made):
        yield


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
            survey, table = timing.seconds_of(make_table, x)
            oracle = make_oracle(table)
            calls = {"sum": lambda x=x: x.sum(axis=0).compute(), "pass": lambda o=oracle: o.maximize(one_gain())}
            rows.append(
                [
                    f"{timing.short(chunk)}, {x.numblocks[0]}",
                    *costs(timing.alternate(calls, REPEATS), DASK_BOUND),
                    f"{survey:.2f}",
                ]
            )
        runs = certified(x)
    return [
        f"{timing.short(n)} x {K} float32 on a `LocalCluster` of two workers with one thread each, in turn with "
        f"`x.sum(axis=0).compute()` on the same persisted array; medians of {REPEATS}, at most {DASK_BOUND}. "
        f"{timing.machine()}",
        markdown(["chunk rows, parts", *COSTS], rows),
        runs,
    ]


COSTS = ["sum, s", "pass, s", "pass / sum", "target", "check and sample, s"]


def costs(times, bound):
    """Return the cells of a line: seconds of the sum and of a pass, their ratio, and whether it is low enough."""
    cost = timing.ratio(times["pass"], times["sum"])
    return [
        *(f"{np.median(times[name]):.3f}" for name in ("sum", "pass")),
        timing.shown(cost),
        timing.verdict(cost[0], bound),
    ]


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
        survey, table = timing.seconds_of(make_table, frame)
        oracle = make_oracle(table)
        calls = {
            "sum": lambda frame=frame: frame.agg(*[F.sum(name) for name in NAMES]).collect(),
            "pass": lambda oracle=oracle: oracle.maximize(one_gain()),
        }
        rows.append([kind, *costs(timing.alternate(calls, REPEATS), SPARK_BOUND), f"{survey:.1f}"])
        if kind == "float":
            runs = certified(frame)
        del table, oracle
        frame.unpersist()
    held.stop()
    return [
        f"{timing.short(n)} x {K}, one column per class, {PARTITIONS} partitions, `local[2]`; in turn with `df.agg(sum "
        f"of every column)` on the same cached frame, medians of {REPEATS}, at most {SPARK_BOUND}. {timing.machine()}",
        markdown(["columns", *COSTS], rows),
        runs,
    ]


FILE_ROWS, GROUP, FILE = 100_000_000, 1_000_000, 5_000_000
RUNS = {
    "g_mean, model": MODEL | {"tol": 1e-5, "randomized": True},
    "cohen_kappa, model": MODEL | {"tol": 1e-5, "randomized": True},
    "macro_f1, labels": LABELS,
    "macro_f1, defaults": {},
}
RESIDENT, RATE = 1.5e9, 0.5


def generate(folder, n, seed=SEED):
    """Write n rows of probabilities (float32) and labels to Parquet, a million rows to a group, as pyarrow does."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    recipe = Recipe(GROUP, K, wrong=True, seed=seed)
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

    def progress(done, total):
        read[0] += done == total

    def tune():
        table = confmax.open_table(folder, label="label", columns=NAMES, progress=progress)
        return confmax.maximize(metric, table, **settings)

    seconds, solution = timing.seconds_of(tune)
    gap = "" if solution.gap is None else f"{solution.gap:.1e}"
    passes, held = solution.n_passes, timing.resident("VmHWM")
    words = timing.verdict(held, RESIDENT), "" if solution.gap is None else timing.verdict(passes, MOST_PASSES)
    return [name, f"{solution.value:.5f}", gap, passes, read[0], f"{seconds:.1f}", f"{held / 1e9:.2f}", *words]


def rates(folder):
    """Return seconds of a plain scan of the columns and of a pass over them, in turn."""
    import pyarrow.dataset as ds

    oracle = make_oracle(make_table(confmax.open_table(folder, label="label", columns=NAMES)))

    def scan():
        return sum(batch.num_rows for batch in ds.dataset(folder, format="parquet").to_batches(columns=list(NAMES)))

    return timing.alternate({"scan": scan, "pass": lambda: oracle.maximize(one_gain())}, REPEATS)


@benchmark("files", section="scale: files")
def files(quick=False):
    """Measure memory, and the rate of a pass beside a plain scan of the same files."""
    n = 200_000 if quick else FILE_ROWS
    with tempfile.TemporaryDirectory() as folder:
        generate(folder, n)
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
        rows = [timing.child_output("-m", "benchmarks.scale", folder, "run", name) for name in RUNS]
        times = timing.child_output("-m", "benchmarks.scale", folder, "rate")
    rate = timing.ratio(times["scan"], times["pass"])
    million = {name: f"{n / np.median(each) / 1e6:.1f}" for name, each in times.items()}
    head = ["run", "value", "gap", "passes", "reads", "seconds", "resident, GB", "below 1.5 GB"]
    return [
        f"{timing.short(n)} x {K} float32 in Parquet ({size / 1e9:.1f} GB, groups of a million rows, pyarrow's "
        f"defaults), each run in a process of its own. Reads are of the whole table: the check, the mean of calibrated "
        f"probabilities, and the passes. Resident is the process's maximum (VmHWM), with all libraries. "
        f"{timing.machine()}",
        markdown([*head, f"passes to the gap <= {MOST_PASSES}"], rows),
        f"One pass, statistics of one gain, beside `pyarrow.dataset(...).to_batches` over the same columns: "
        f"{million['pass']} against {million['scan']} million rows per second, rate {timing.shown(rate)} of the "
        f"scan's (at least {RATE}: {timing.verdict(rate[0], RATE, most=False)}).",
    ]


GROUPS, ABOVE = 1000, 0.5
SHAPES = {"1,000 rows": (1_000, False), "1,000 rows, a file each": (1_000, True), "105,000 rows": (105_000, False)}


def grouped(folder, size, n_groups, apart):
    """Write row groups of a size, in a file each or in one; return what is measured on them as functions."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    P, y = Recipe(size, K, wrong=True).draw()
    table = pa.table({**{name: P[:, k] for k, name in enumerate(NAMES)}, "label": y.astype(np.int8)})
    paths = [Path(folder) / f"{k:04d}.parquet" for k in range(n_groups if apart else 1)]
    for path in paths:
        with pq.ParquetWriter(path, table.schema) as writer:
            for _ in range(n_groups // len(paths)):
                writer.write_table(table)
    oracle = make_oracle(make_table(confmax.open_table(folder, label="label", columns=NAMES)))
    in_memory = make_oracle(make_table(P, y))
    together = max(1, PART_CELLS // K // size)

    def read():
        for path in paths:
            with pq.ParquetFile(path, memory_map=True) as file:
                for first in range(0, file.num_row_groups, together):
                    last = min(first + together, file.num_row_groups)
                    file.read_row_groups(range(first, last), columns=[*NAMES, "label"])

    def scan():
        for _ in range(n_groups):
            in_memory.maximize(one_gain())

    return {"read": read, "scan": scan, "pass": lambda: oracle.maximize(one_gain())}


@benchmark("row-groups", section="scale: row groups")
def row_groups(quick=False):
    """Measure what a pass costs per row group above reading it and scanning its rows."""
    rows = []
    n_groups = 20 if quick else GROUPS
    for name, shape in SHAPES.items():
        with tempfile.TemporaryDirectory() as folder:
            times = timing.alternate(grouped(folder, shape[0], n_groups, shape[1]), REPEATS)
        each = {what: 1e3 * np.array(seconds) / n_groups for what, seconds in times.items()}
        above = float(np.median(each["pass"] - each["read"] - (each["scan"] if shape[0] > GROUPS else 0)))
        rows.append([name, *(f"{np.median(each[what]):.3f}" for what in times), f"{above:.3f}"])
        rows[-1].append(timing.verdict(above, ABOVE))
    return [
        f"{n_groups} row groups x {K} float32 and a label in Parquet. Reading is pyarrow's `read_row_groups` of the "
        f"columns and groups that confmax reads together, with its threads; the scan is that of the rows of one group "
        f"in memory; a pass does both. Milliseconds per row group, medians of {REPEATS} in turn. Of a pass above "
        f"reading, at most {ABOVE}; of groups of 105,000 rows, above reading and the scan. {timing.machine()}",
        markdown(["row groups", "reading", "scan in memory", "pass", "above", "target"], rows),
    ]


# --- applying a rule -------------------------------------------------------------------------------------------------

APPLY_ROWS, APPLY_REPEATS, APPLY_RESIDENT, APPLY_RATE = 40_000_000, 3, 1e9, 0.5


def copied(**settings):
    """Return a function that copies the files row group by row group into one, as plain pyarrow does.

    The columns are the same and compressed alike; further ``settings`` are those of the writer.
    """

    def run(folder):
        import pyarrow.parquet as pq

        writer = None
        for path in sorted((folder / "scores").iterdir()):
            with pq.ParquetFile(path, memory_map=True) as file:
                for number in range(file.num_row_groups):
                    table = file.read_row_group(number)
                    writer = writer or pq.ParquetWriter(folder / "out.parquet", table.schema, **settings)
                    writer.write_table(table)
        writer.close()

    return run


def applied(out, *options):
    """Return a function that runs `confmax apply`."""

    def run(folder):
        from confmax.cli import confmax as command

        words = ["apply", folder / "rule.json", folder / "scores", "-o", folder / out, *options, "--json"]
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
            try:
                command.main(list(map(str, words)))
            except SystemExit as end:
                if end.code:
                    raise RuntimeError(f"{words} ended with {end.code}") from end

    return run


# the first is what the others are compared with: apply tries no dictionaries that did not pay in the files it reads
LOOP = "pyarrow, no dictionaries"
WRITING = {
    LOOP: copied(use_dictionary=False),
    "pyarrow, its defaults": copied(),
    "apply -o out.parquet": applied("out.parquet"),
    "apply -o out": applied("out"),
    "apply --at-most p0=1000000": applied("out.parquet", "--at-most", "p0=1000000"),
}


def written(folder, name):
    """Return how long one way to write takes, and how many bytes were resident at most."""
    for module in ("pyarrow.parquet", "confmax.cli.apply"):
        importlib.import_module(module)
    seconds, _ = timing.seconds_of(WRITING[name], Path(folder))
    return seconds, timing.resident("VmHWM")


@benchmark("apply-parts", "[ROWS] [SEED]", section="scale: apply")
def apply_parts(n=APPLY_ROWS, seed=SEED, quick=False):
    """Measure memory and rate of `confmax apply` beside copies of the same files."""
    n = 200_000 if quick else n
    found = {name: [] for name in WRITING}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "scores").mkdir()
        generate(folder / "scores", n, seed)
        size = sum(path.stat().st_size for path in (folder / "scores").iterdir())
        gains = Gains.reduced(0.5 + np.random.default_rng(seed).random((1, K)))
        confmax.DecisionRule(gains, np.ones(1), NAMES).save(folder / "rule.json")
        for turn in range(APPLY_REPEATS):
            order = list(WRITING)
            for way in order[turn % len(order) :] + order[: turn % len(order)]:
                # what was written before is neither on its way to the disk nor replaced
                shutil.rmtree(folder / "out", ignore_errors=True)
                (folder / "out.parquet").unlink(missing_ok=True)
                os.sync()
                found[way].append(timing.child_output("-m", "benchmarks.scale", folder, "write", way))
    rows = []
    times = {way: [seconds for seconds, _ in each] for way, each in found.items()}
    for way, each in found.items():
        held = max(bytes_held for _, bytes_held in each)
        rate = timing.ratio(times[LOOP], times[way])
        words = (timing.verdict(rate[0], APPLY_RATE, most=False), timing.verdict(held, APPLY_RESIDENT))
        seconds = f"{np.median(times[way]):.1f} ({min(times[way]):.1f}-{max(times[way]):.1f})"
        million = f"{n / np.median(times[way]) / 1e6:.1f}"
        targets = words if way == "apply -o out.parquet" else ("", words[1] if way.startswith("apply") else "")
        rows.append([way, seconds, million, timing.shown(rate), f"{held / 1e9:.2f}", *targets])
    head = ["", "seconds", "million rows per second", "rate, of the first", "resident, GB"]
    return [
        f"{timing.short(n)} x {K} float32 and a label in Parquet ({size / 1e9:.1f} GB, groups of a million rows, "
        f"pyarrow's defaults: snappy), seed {seed}; all columns are read and written, in turn, on one disk, "
        f"{APPLY_REPEATS} times, each in a process of its own; seconds without imports, medians and ranges. Resident "
        f"is the largest VmHWM of a process, with all libraries and mapped files. The copies are loops over row "
        f"groups, `read_row_group` and `write_table`. {timing.machine()}",
        markdown([*head, f"rate >= {APPLY_RATE}", f"below {APPLY_RESIDENT / 1e9:.0f} GB"], rows),
    ]


# --- judging a rule --------------------------------------------------------------------------------------------------

JUDGED_ROWS, JUDGED_RESIDENT = 40_000_000, 1e9


def judging(folder):
    """Return seconds of reading all columns and of scoring a rule on them, in turn, of processors too, and memory."""
    import pyarrow.dataset as ds

    rule = confmax.DecisionRule.from_weights(np.linspace(1.0, 2.0, K))

    def score():
        table = confmax.open_table(folder, label="label", columns=NAMES)
        return confmax.score(["macro_f1", "accuracy", "mcc"], table, rule=rule)

    def read():
        columns = [*NAMES, "label"]
        return sum(batch.num_rows for batch in ds.dataset(folder, format="parquet").to_batches(columns=columns))

    processor = {"read": [], "score": []}

    def noted(name, call):
        def run():
            start = time.process_time()
            call()
            processor[name].append(time.process_time() - start)

        return run

    score()
    held = timing.resident("VmHWM")
    calls = {name: noted(name, call) for name, call in (("read", read), ("score", score))}
    return timing.alternate(calls, REPEATS) | {"held": held, "processor": processor}


@benchmark("score-parts", section="scale: score in parts")
def score_parts(quick=False):
    """Measure the score of a rule on files that are read in parts, beside reading them."""
    n = 200_000 if quick else JUDGED_ROWS
    with tempfile.TemporaryDirectory() as folder:
        generate(folder, n)
        times = timing.child_output("-m", "benchmarks.scale", folder, "judge")
    held = times.pop("held")
    work = {name: np.median(each) for name, each in times.pop("processor").items()}
    rate = timing.ratio(times["read"], times["score"])
    million = {name: f"{n / np.median(each) / 1e6:.1f}" for name, each in times.items()}
    return [
        f"`confmax.score` of three metrics for argmax, p/prior and a rule, 1000 replicates, on {timing.short(n)} x {K} "
        f"float32 and labels in Parquet, in turn with `pyarrow.dataset(...).to_batches` over the same columns. "
        f"{timing.machine()}",
        f"{million['score']} against {million['read']} million rows per second, rate {timing.shown(rate)} of the "
        f"reading (at least {RATE}: {timing.verdict(rate[0], RATE, most=False)}). All processors together took "
        f"{work['score']:.2f} s and {work['read']:.2f} s. The process held at most "
        f"{held / 1e9:.2f} GB with all libraries (below 1 GB: {timing.verdict(held, JUDGED_RESIDENT)}).",
    ]


# --- rows that stream ------------------------------------------------------------------------------------------------

STREAM_ROWS = 10_000_000


def by_pyarrow(folder):
    """Return a function that yields the row groups of the files."""
    import pyarrow.parquet as pq

    def chunks():
        for path in sorted(Path(folder, "scores").glob("*.parquet")):
            with pq.ParquetFile(path) as file:
                yield from (file.read_row_group(k, columns=[*NAMES, "label"]) for k in range(file.num_row_groups))

    return chunks


STREAMS = {
    "open_table, Parquet files": lambda folder: f"{folder}/scores",
    "Arrow dataset": lambda folder: importlib.import_module("pyarrow.dataset").dataset(f"{folder}/scores"),
    "Polars LazyFrame": lambda folder: importlib.import_module("polars").scan_parquet(f"{folder}/scores/*.parquet"),
    "DuckDB relation": lambda folder: importlib.import_module("duckdb").sql(
        f"SELECT * FROM '{folder}/scores/*.parquet'"
    ),
    "function of chunks (pyarrow)": by_pyarrow,
    "Feather files": lambda folder: f"{folder}/feather/*.feather",
    "CSV.gz": lambda folder: f"{folder}/t.csv.gz",
}


def streamed(folder, name):
    """Return the number of rows of a source, the seconds of passes over it, and how many bytes were resident."""
    table = confmax.open_table(STREAMS[name](folder), label="label", columns=NAMES)
    oracle = make_oracle(make_table(table))
    times = timing.alternate({"pass": lambda: oracle.maximize(one_gain())}, 3)
    return oracle.table.n_rows, times["pass"], timing.resident("VmHWM")


@benchmark("streams", section="scale: streams")
def streams(quick=False):
    """Measure a pass over the same rows from wherever Arrow batches come."""
    import pyarrow.csv
    import pyarrow.feather
    import pyarrow.parquet as pq

    n = 200_000 if quick else STREAM_ROWS
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "scores").mkdir()
        (Path(folder) / "feather").mkdir()
        generate(f"{folder}/scores", n)
        first = None
        for path in sorted(Path(folder, "scores").glob("*.parquet")):
            table = pq.read_table(path)
            first = table.slice(0, n // 10) if first is None else first
            pyarrow.feather.write_feather(table, Path(folder) / "feather" / f"{path.stem}.feather")
        with pyarrow.output_stream(f"{folder}/t.csv.gz", compression="gzip") as out:
            pyarrow.csv.write_csv(first, out)
        for name in STREAMS:
            if name.startswith("DuckDB") and importlib.util.find_spec("duckdb") is None:
                continue
            read, seconds, held = timing.child_output("-m", "benchmarks.scale", folder, "stream", name)
            median = np.median(seconds)
            rows.append([name, timing.short(read), f"{median:.2f}", f"{read / median / 1e6:.1f}", f"{held / 1e9:.2f}"])
    return [
        f"{timing.short(n)} x {K} float32 and a label, of CSV a tenth of the rows. A pass, statistics of one gain, the "
        f"median of 3; each source in a process of its own. Resident is its largest VmHWM, with all libraries and "
        f"mapped files. {timing.machine()}",
        markdown(["rows", "number", "pass, s", "million rows per second", "resident, GB"], rows),
    ]


RUNNERS = {"run": one_run, "rate": rates, "write": written, "judge": judging, "stream": streamed}

if __name__ == "__main__":
    folder, what, *name = sys.argv[1:]
    with timing.two_threads():
        print(json.dumps(RUNNERS[what](folder, *name)))
