"""A pass on a Dask cluster beside `x.sum(axis=0).compute()` on the same persisted array."""

from __future__ import annotations

import numpy as np

from benchmarks._speed_tables import SEED, Recipe, short
from benchmarks._speed_tools import alternate, certified, certify, ratio, seconds_of, shown, verdict

ROWS, K, CHUNKS, REPEATS = 20_000_000, 10, (500_000, 2_000_000), 5
BOUND = 1.5


def block(block_info=None):
    """Return the probabilities of one block, drawn from its place."""
    (low, high), (_, K) = block_info[None]["array-location"]
    return Recipe(1_000_000, K, wrong=True).draw(part=low, n=high - low)[0]


def measure(quick=False):
    """Return seconds of passes and sums per size of the chunks, and what certified runs take."""
    import dask.array as da
    from distributed import Client, LocalCluster, wait

    from confmax.confusion import Gains
    from confmax.oracle import make_oracle, make_table

    n, rows = (200_000 if quick else ROWS), []
    rng = np.random.default_rng(SEED)
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster):
        for chunk in CHUNKS:
            chunks = da.core.normalize_chunks((chunk // (100 if quick else 1), K), shape=(n, K))
            x = da.map_blocks(block, dtype=np.float32, chunks=chunks, meta=np.empty((0, 0), np.float32)).persist()
            wait(x)
            survey, table = seconds_of(lambda x=x: make_table(x))
            oracle, gain = make_oracle(table), Gains.reduced(0.5 + rng.random(K), 0.1 * rng.random(K))
            calls = {"sum": lambda x=x: x.sum(axis=0).compute(), "pass": lambda o=oracle, g=gain: o.maximize(g)}
            rows.append({"chunk": chunk, "parts": x.numblocks[0], "survey": survey, **alternate(calls, REPEATS)})
        runs = certify(x)
    return {"seed": SEED, "n": n, "K": K, "rows": rows, "runs": runs}


def report(data):
    size = f"{short(data['n'])} x {data['K']} float32"
    lines = [
        f"`python -m benchmarks.scale dask`: {size} on a `LocalCluster` of two workers with one thread each, in turn "
        f"with `x.sum(axis=0).compute()` on the same persisted array; medians of {REPEATS}, at most {BOUND}.",
        "",
        "chunk rows | parts | sum, s | pass, s | pass / sum | target | check and sample, s",
        "---:|---:|---:|---:|---:|---|---:",
    ]
    for row in data["rows"]:
        found = ratio(row["pass"], row["sum"])
        lines.append(
            f"{row['chunk']} | {row['parts']} | {np.median(row['sum']):.3f} | {np.median(row['pass']):.3f} | "
            f"{shown(found)} | {verdict(found[0], BOUND)} | {row['survey']:.2f}"
        )
    return "\n".join([*lines, "", *certified(data["runs"])])
