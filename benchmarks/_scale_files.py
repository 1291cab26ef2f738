"""Parquet files larger than what a run may hold: memory, and the rate of a pass beside a plain scan of the same files.

    python -m benchmarks._scale_files FOLDER run METRIC
    python -m benchmarks._scale_files FOLDER rate

are processes of their own that print one line of JSON: nothing larger than a few row groups was ever resident there.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from benchmarks._speed_tables import SEED, Recipe, short
from benchmarks._speed_tools import alternate, child_output, ratio, resident, seconds_of, shown, two_threads, verdict

ROWS, K, GROUP, FILE = 100_000_000, 10, 1_000_000, 5_000_000
NAMES = tuple(f"p{k}" for k in range(K))
RUNS = {
    "g_mean, model": {"confusion": "model", "calibration": None, "tol": 1e-5, "randomized": True},
    "cohen_kappa, model": {"confusion": "model", "calibration": None, "tol": 1e-5, "randomized": True},
    "macro_f1, labels": {"confusion": "labels", "calibration": None},
    "macro_f1, defaults": {},
}
RESIDENT, RATE, PASSES, REPEATS = 1.5e9, 0.5, 6, 5


def generate(folder, n):
    """Write n rows of probabilities (float32) and labels to Parquet, a million rows to a group, as pyarrow does."""
    recipe = Recipe(GROUP, K, wrong=True)
    for start in range(0, n, FILE):
        writer = None
        for group in range(start, min(start + FILE, n), GROUP):
            P, y = recipe.draw(part=group // GROUP, n=min(GROUP, n - group))
            table = pa.table({**{name: P[:, k] for k, name in enumerate(NAMES)}, "label": y.astype(np.int8)})
            writer = writer or pq.ParquetWriter(Path(folder) / f"part-{start // FILE:04d}.parquet", table.schema)
            writer.write_table(table)
        writer.close()


def measure(quick=False, rows=None):
    """Return what runs and passes cost on generated files."""
    n = rows or (200_000 if quick else ROWS)
    with tempfile.TemporaryDirectory() as folder:
        generate(folder, n)
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
        runs = [json.loads(child_output(["-m", "benchmarks._scale_files", folder, "run", name])) for name in RUNS]
        rate = json.loads(child_output(["-m", "benchmarks._scale_files", folder, "rate"]))
    return {"seed": SEED, "rows": n, "K": K, "bytes": size, "runs": runs, "rate": rate}


def opened(folder, heard=None):
    import confmax

    return confmax.open_table(folder, label="label", columns=NAMES, progress=heard)


def one_run(folder, name):
    """Return what one run costs; a tiny one before it loads the compiled code."""
    import confmax

    metric, settings = name.split(",")[0], RUNS[name]
    P, y = Recipe(2000, K, wrong=True).draw()
    confmax.maximize(metric, P, y, **settings)
    read, floor = [0], resident()

    def heard(done, total):
        read[0] += done == total

    seconds, found = seconds_of(lambda: confmax.maximize(metric, opened(folder, heard), **settings))
    return {
        "name": name,
        "seconds": seconds,
        "passes": found.n_passes,
        "reads": read[0],
        "value": found.value,
        "gap": found.gap,
        "floor": floor,
        "resident": resident("VmHWM"),
    }


def rates(folder):
    """Return seconds of a plain scan of the columns and of a pass over them, in turn."""
    from confmax.confusion import Gains
    from confmax.oracle import make_oracle, make_table

    oracle = make_oracle(make_table(opened(folder)))
    rng = np.random.default_rng(SEED)
    gain = Gains.reduced(0.5 + rng.random(K), 0.1 * rng.random(K))

    def scan():
        return sum(batch.num_rows for batch in ds.dataset(folder, format="parquet").to_batches(columns=list(NAMES)))

    return alternate({"scan": scan, "pass": lambda: oracle.maximize(gain)}, REPEATS)


def report(data):
    n, size = data["rows"], data["bytes"]
    found = ratio(data["rate"]["scan"], data["rate"]["pass"])
    seconds = {name: float(np.median(times)) for name, times in data["rate"].items()}
    lines = [
        f"`python -m benchmarks.scale files`: {short(n)} x {data['K']} float32 in Parquet ({size / 1e9:.1f} GB, groups "
        "of a million rows, pyarrow's defaults), each run in a process of its own. Reads are of the whole table: the "
        "check, the mean of calibrated probabilities, and the passes. Resident is the process's maximum (VmHWM), with "
        "all libraries.",
        "",
        "run | value | gap | passes | reads | seconds | resident, GB | below 1.5 GB | passes to the gap <= 6",
        "---|---:|---:|---:|---:|---:|---:|---|---",
    ]
    for row in data["runs"]:
        gap = "" if row["gap"] is None else f"{row['gap']:.1e}"
        passes = "" if row["gap"] is None else verdict(row["passes"], PASSES)
        lines.append(
            f"{row['name']} | {row['value']:.5f} | {gap} | {row['passes']} | {row['reads']} | {row['seconds']:.1f} | "
            f"{row['resident'] / 1e9:.2f} | {verdict(row['resident'], RESIDENT)} | {passes}"
        )
    lines += [
        "",
        f"One pass, statistics of one gain, beside `pyarrow.dataset(...).to_batches` over the same columns: "
        f"{n / seconds['pass'] / 1e6:.1f} against {n / seconds['scan'] / 1e6:.1f} million rows per second, rate "
        f"{shown(found)} of the scan's (at least {RATE}: {verdict(found[0], RATE, most=False)}).",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    with two_threads():
        print(json.dumps(one_run(sys.argv[1], sys.argv[3]) if sys.argv[2] == "run" else rates(sys.argv[1])))
