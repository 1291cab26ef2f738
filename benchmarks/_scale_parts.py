"""Many small parts: what a row group of a Parquet file, or a block of a Dask array, costs beside its rows."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks._speed_tables import SEED, Recipe, short
from benchmarks._speed_tools import alternate, seconds_of, verdict

K, GROUP, BLOCKED, REPEATS = 10, 100, 200_000, 5
GROUPS, PARTS = (1, 10, 100, 1000, 5000), (2, 10, 100, 1000)
BOUND = 0.6  # milliseconds of a row group beside reading its data
NAMES = [f"p{k}" for k in range(K)]


def passes(proba, y, plain):
    """Return seconds of the check, of passes, of the plain thing beside them in turn, and of a run on labels."""
    import confmax
    from confmax.confusion import Gains
    from confmax.oracle import make_oracle, make_table

    settings = {"confusion": "labels", "calibration": None}
    rng = np.random.default_rng(SEED)
    gain = Gains.reduced(0.5 + rng.random(K), 0.1 * rng.random(K))
    check, table = seconds_of(lambda: make_table(proba, y))
    oracle = make_oracle(table)
    found = {"check": check, **alternate({"plain": plain, "pass": lambda: oracle.maximize(gain)}, REPEATS)}
    found["run"], solution = seconds_of(lambda: confmax.maximize("macro_f1", proba, y, **settings))
    return {**found, "passes": solution.n_passes, "value": solution.value}


def on_files(groups, folder):
    """Return what a file of so many row groups costs."""
    import confmax

    P, y = Recipe(groups * GROUP, K, wrong=True).draw()
    path = Path(folder) / f"{groups}.parquet"
    columns = {**{name: P[:, k] for k, name in enumerate(NAMES)}, "label": y.astype(np.int8)}
    pq.write_table(pa.table(columns), path, row_group_size=GROUP)

    def read():
        with pq.ParquetFile(path, memory_map=True) as file:
            return file.read(columns=NAMES).num_rows

    return passes(confmax.open_table(path, label="label"), None, read)


def on_blocks(parts, n):
    """Return what an array of so many blocks costs on the cluster that there is."""
    import dask.array as da
    from distributed import wait

    P, y = Recipe(n, K, wrong=True).draw()
    x, labels = (da.from_array(each, chunks=(n // parts, *each.shape[1:])).persist() for each in (P, y))
    wait([x, labels])
    return passes(x, labels, lambda: x.sum(axis=0).compute())


def measure(quick=False):
    """Return seconds for files of many row groups and for arrays of many blocks."""
    from distributed import Client, LocalCluster

    fewer = 10 if quick else 1
    with tempfile.TemporaryDirectory() as folder:
        files = {groups: on_files(groups, folder) for groups in GROUPS if groups <= max(GROUPS) // fewer}
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster):
        blocks = {parts: on_blocks(parts, BLOCKED) for parts in PARTS if parts <= max(PARTS) // fewer}
    return {"seed": SEED, "K": K, "files": files, "blocks": blocks}


def table_of(rows, what, plain):
    """Return the lines of a table; times are the fastest of their repeats, except the check and the run."""
    yield f"{what} | {plain}, ms | pass, ms | pass by {what}, ms | check, ms | run, ms | passes of the run"
    yield "---:|---:|---:|---:|---:|---:|---:"
    for number, row in rows.items():
        beside, scan = (1e3 * min(row[name]) for name in ("plain", "pass"))
        once = f"{1e3 * row['check']:.0f} | {1e3 * row['run']:.0f} | {row['passes']}"
        yield f"{number} | {beside:.1f} | {scan:.1f} | {scan / int(number):.3f} | {once}"


def report(data):
    most, row = max(data["files"].items(), key=lambda each: int(each[0]))
    cost = 1e3 * (min(row["pass"]) - min(row["plain"])) / int(most)
    return "\n".join(
        [
            f"`python -m benchmarks.scale parts`: tables of {data['K']} classes, float32; a run is macro F1 on labels.",
            "",
            f"Parquet files with row groups of {GROUP} rows, beside reading the probabilities by `ParquetFile.read`. "
            f"A row group costs {cost:.2f} ms beside its data in a file of {most} (at most {BOUND}: "
            f"{verdict(cost, BOUND)}).",
            "",
            *table_of(data["files"], "row groups", "read"),
            "",
            f"Dask arrays of {short(BLOCKED)} rows on a `LocalCluster` of two workers with one thread each, beside "
            "`x.sum(axis=0).compute()`.",
            "",
            *table_of(data["blocks"], "blocks", "sum"),
        ]
    )
