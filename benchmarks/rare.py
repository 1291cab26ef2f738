"""Classes of few rows: what default calls are worth on new rows of tables, by how many rows the rarest class has.

A split takes 300 rows, 1,500 rows or half of the table to tune on, five times, and tests on the others. Its rarest
class with tuning rows has fewer than ten of them, or at least ten. The calibration is chosen once for all metrics.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from benchmarks.harness import benchmark, load, markdown, solve, value
from confmax.calibration import choose
from confmax.oracle import make_table
from confmax.tables import apply_calibrator

METRICS = ("g_mean", "min_recall", "h_mean", "macro_f1", "q_mean", "micro_f1")
SIZES = (300, 1500, None)  # rows to tune on; None is half of the table
SEEDS, FEW = 5, 10
OUTPUT = Path(__file__).parent / "output" / "rare.json"


def splits(y):
    """Yield size, seed, and the places of the rows to tune and to test on."""
    n = len(y)
    for size in SIZES:
        for seed in range(SEEDS):
            order = np.random.default_rng(seed).permutation(n)
            m = size or n // 2
            if m <= n - 100:
                yield size or "half", seed, order[:m], order[m:]


def measured(P, y, tune, test):
    """Return what the default calls of a split are worth on its test rows, with log losses by the rows of classes."""
    K = P.shape[1]
    rows = np.bincount(y[tune], minlength=K)
    found = choose(make_table(P[tune], y[tune], None, range(K)))
    q = P[test] if found.calibrator is None else apply_calibrator(found.calibrator, P[test])
    losses = -np.log(np.maximum(q[np.arange(len(test)), y[test]], 1e-12))
    few = ((rows < FEW) & (rows > 0))[y[test]]
    values = {"log loss": float(losses.mean())}
    if few.any():
        values["log loss, rare"] = float(losses[few].mean())
    for name in METRICS:
        rule = solve(name, P[tune], y[tune], classes=range(K), calibration=found).rule
        # a class that has no tuning rows cannot be told from the others by any call
        kept = test[(rows > 0)[y[test]]]
        values[name] = value(name, y[kept], rule.decision_probabilities(P[kept]))
    return {"rarest": int(rows[rows > 0].min()), "kind": found.kind, **values}


def by_table(differences):
    """Return the mean of differences (table, number), the standard error of the tables' means, and it without the
    largest."""
    tables = {}
    for table, number in differences:
        tables.setdefault(table, []).append(number)
    means = np.array([np.mean(numbers) for numbers in tables.values()])
    every = np.array([number for _, number in differences])
    without = np.delete(every, np.abs(every).argmax()).mean() if len(every) > 1 else np.nan
    return every.mean(), means.std(ddof=1) / np.sqrt(len(means)) if len(means) > 1 else np.nan, without


@benchmark("rare", parameters="FOLDER [BEFORE.json]", section="rare classes")
def rare(folder, before=None):
    """Measure default calls on splits of tables; beside another state, if the file of that is given."""
    found = {}
    for data in load(folder, 3):
        P, y = data.whole
        for size, seed, tune, test in splits(y):
            found[f"{data.stem} {size} {seed}"] = measured(P, y, tune, test)
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(json.dumps(found))
    paragraphs = [
        f"{len(found)} splits of tables with three classes or more; of "
        f"{sum(one['rarest'] < FEW for one in found.values())} the rarest class has fewer than {FEW} tuning rows"
    ]
    if before is None:
        return paragraphs
    old = json.loads(Path(before).read_text())
    rows = []
    for words, some in ((f"below {FEW}", True), (f"{FEW} or more", False)):
        for name in ("log loss", "log loss, rare", *METRICS):
            kept = [
                key for key, one in found.items() if (one["rarest"] < FEW) == some and name in one and name in old[key]
            ]
            if kept:
                mean, error, without = by_table([(key.split()[0], found[key][name] - old[key][name]) for key in kept])
                rows.append([words, name, len(kept), f"{mean:+.4f} ({error:.4f})", f"{without:+.4f}"])
    head = [
        "rows of the rarest class",
        "value",
        "splits",
        "mean difference (standard error by table)",
        "without the largest",
    ]
    return [*paragraphs, "this state less the one before, on the same splits", markdown(head, rows, words=2)]
