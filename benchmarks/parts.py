"""Tables in parts: what a pass with groups costs, and the best single rules within limits on labels.

`python -m benchmarks.parts` writes the sections "parts: groups" and "parts: limits on labels" of benchmarks/RESULTS.md.
Parts are blocks of Dask arrays in this process. On labels the best rules are searched among sorted rows, which only
memory has: parts start with the best rules of their sample, of all rows or of some.
"""

from __future__ import annotations

from unittest import mock

import dask.array as da
import numpy as np

import confmax
from benchmarks._speed_tables import Recipe
from benchmarks.harness import markdown, report, shortest
from confmax.confusion import Gains
from confmax.oracle import make_oracle, make_table

PARTS, TIMES = 4, 15
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
    """Return an array as a Dask array of a few blocks of rows."""
    return da.from_array(values, chunks=(-(-len(values) // PARTS), *values.shape[1:]))


def costs(n=2_000_000, K=10):
    """Return a line per number of gains: milliseconds of a pass without groups and with two, and their ratio."""
    P, _ = Recipe(n, K).draw()
    group = blocks(two_groups(n))
    plain, grouped = make_table(blocks(P)), make_table(blocks(P), group=group)
    oracles = [make_oracle(plain), make_oracle(grouped.groups.beside(grouped))]
    lines = []
    for B in (1, 8):
        a = np.random.default_rng(B).random((B, K))
        gains = [Gains.reduced(a), Gains.reduced(np.tile(a, 2))]
        calls = zip(oracles, gains, strict=True)
        one, two = (shortest(lambda o=o, g=g: o.maximize(g), TIMES)[0] for o, g in calls)
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
                    parts = confmax.maximize(metric, blocks(P), blocks(y), group=beside, **more)
                found.append(parts.value - memory.value if parts.feasible else np.nan)
            lines.append([K, f"{metric}, {limit}", f"{found[0]:.4f}", *(f"{each:+.4f}" for each in found[1:])])
    return lines


def main():
    """Measure and write both sections."""
    report(
        "parts: groups",
        f"`python -m benchmarks.parts`: a pass over 2M x 10 float32 in {PARTS} blocks of Dask arrays, without groups "
        f"and with two, the shortest of {TIMES}, in milliseconds.",
        markdown(["gains", "without", "with", "ratio"], costs(), words=0),
    )
    report(
        "parts: limits on labels",
        "`python -m benchmarks.parts`: the best single rule within a limit on 20,000 rows, by label counts, in memory; "
        "and by how much the one of Dask arrays in parts is above it, where the sample is the whole table, 10,000 rows "
        "and 2000.",
        markdown(
            ["classes", "problem", "memory", "all rows", *(f"{rows:,} rows" for rows in SAMPLES)], singles(), words=2
        ),
    )


if __name__ == "__main__":
    main()
