"""What a pass sends to every part and gets back, in bytes, for tables of very different numbers of rows.

A source whose parts lie in this process serialises whatever a client and its workers would exchange, and keeps the
lengths: what every engine moves, its own messages apart.
"""

from __future__ import annotations

import itertools
import pickle
from dataclasses import dataclass

import cloudpickle
import numpy as np

import confmax
from benchmarks._speed_tables import SEED, Recipe, short
from confmax.tables.partitioned.parts import Part

SIZES = ((100_000, 10), (10_000_000, 10), (100_000, 100), (1_000_000, 100))
PARTS = 8
METRICS = ("g_mean", "macro_f1", "quadratic_kappa")


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
        sent, most = cloudpickle.dumps(work), 0
        for part in self.parts:
            received = pickle.dumps(cloudpickle.loads(sent)(part))
            most = max(most, len(received))
            yield pickle.loads(received)
        self.moved.append({"sent": len(sent), "received": most})


def measure(quick=False):
    """Return the bytes of every exchange per size and metric: distinct labels, the survey, then the passes."""
    rows = []
    for n, K in SIZES:
        n = n // 100 if quick else n
        P, y = Recipe(n, K, wrong=True).draw()
        edges = itertools.pairwise(np.linspace(0, n, PARTS + 1).astype(int))
        parts = tuple(Part(P[low:high], y[low:high], None, f"part {k}") for k, (low, high) in enumerate(edges))
        for metric in METRICS:
            moved = []
            source = Metered(parts, n, K, moved)
            found = confmax.maximize(metric, source, confusion="model", calibration=None, classes=range(K), tol=1e-5)
            rows.append({"n": n, "K": K, "metric": metric, "passes": found.n_passes, "moved": moved})
    return {"seed": SEED, "parts": PARTS, "rows": rows}


def report(data):
    lines = [
        f"`python -m benchmarks.scale wire`: bytes per part, {data['parts']} parts, serialised as engines do; the most "
        "that one pass of a run sent to a part and got back from one. The survey returns the sample, about 4 million "
        "entries over all parts, or the whole table if it is smaller.",
        "",
        "table | metric | passes | sent, kB | received, kB | survey: received, kB",
        "---|---|---:|---:|---:|---:",
    ]
    for row in data["rows"]:
        _, survey, *passes = row["moved"]
        sent, back = (max(each[way] for each in passes) for way in ("sent", "received"))
        lines.append(
            f"{short(row['n'])} x {row['K']} | {row['metric']} | {row['passes']} | {sent / 1e3:.1f} | "
            f"{back / 1e3:.1f} | {survey['received'] / 1e3:.0f}"
        )
    return "\n".join(lines)
