"""Upper bounds on metrics that are means of scores of classes, on real probability tables and on tiny populations.

    python -m benchmarks bounds FOLDER_OF_NPZ [N_POPULATIONS]
    python -m benchmarks bound-speed

Model confusion, no calibration, a randomised rule, at most 24 passes: how far the bound lies above the best value
found. "separate" is the bound at prices of zero, the weighted mean of the classes' separate maxima; "bound" is the one
that `maximize` returns. The same tables are solved again from files that are read in parts. On tiny populations, the
bounds are compared with the most that was found over all rules and many mixtures. The figures are written to the
section "bounds" of benchmarks/RESULTS.md. The second command measures how long a run takes on large generated tables
(section "bounds: speed").
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest import mock

import numpy as np

import confmax
from benchmarks.harness import benchmark, figures, load, markdown, shortest
from benchmarks.timing import Recipe
from confmax.confusion import Confusion
from confmax.optimize.prices import Edges, PriceSearch, Scores
from confmax.oracle import CountingOracle, make_oracle, make_table

METRICS = [
    confmax.metrics.get("macro_f1"),
    confmax.metrics.get("macro_f_beta", beta=2),
    confmax.metrics.get("weighted_f1"),
    confmax.metrics.get("macro_jaccard"),
    confmax.metrics.get("macro_precision"),
]
PASSES = 24
DRAWS, STEPS = 300, np.linspace(0.0, 1.0, 17)


def solve(metric, P, weight=None):
    return confmax.maximize(
        metric, P, sample_weight=weight, confusion="model", calibration=None, randomized=True, max_passes=PASSES
    )


def in_file(P, folder):
    """Return a table in a file that is read in six parts; the folder must outlive it."""
    file = Path(folder) / "proba.npy"
    np.save(file, P)
    with mock.patch("confmax.tables.partitioned.opening.MAPPED_BYTES", P.nbytes // 5 + 1):
        return confmax.open_table(file)


def separate(metric, P):
    """Return the weighted mean of the classes' separate maxima."""
    oracle = CountingOracle(make_oracle(make_table(P)))
    scores = Scores.of(metric.as_ratios(oracle.rows, len(oracle.rows)))
    edges = Edges.read(oracle, scores, 0.0)
    return float(edges.largest(np.zeros((1, 2, len(scores.classes))))[0].sum())


# --- tiny populations -------------------------------------------------------------------------------------------------


def tiny(seed, K=3):
    """Return probabilities (n, K) and weights (n,) of up to 5 rows, with ties, zeros and repeated rows."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 6))
    P = rng.dirichlet(np.full(K, rng.choice([0.3, 1.0, 3.0])), n)
    if seed % 2:
        P = np.round(P * 4) + (0.0 if seed % 4 == 1 else 0.25)
        P[P.sum(axis=1) == 0.0] = 1.0
        P /= P.sum(axis=1, keepdims=True)
    if seed % 3 == 0:
        P[0] = np.eye(K)[seed % K]
    if seed % 5 == 0:
        P[-1] = P[0]
    if np.count_nonzero(P.sum(axis=0)) < 2:
        P[0] = 1.0 / K
    return P, rng.integers(1, 4, n).astype(float)


def most_found(metric, P, weight, seed):
    """Return the most of a metric over all rules, draws between pairs of them, and random mixtures."""
    n, K = P.shape
    rules = np.indices((K,) * n).reshape(n, -1).T
    decided = np.eye(K)[rules]
    w = weight / weight.sum()
    diagonal, columns = np.einsum("n,nk,ank->ak", w, P, decided), np.einsum("n,ank->ak", w, decided)
    hull = Confusion(w @ P, diagonal, columns)
    values = metric.values(hull)
    rng = np.random.default_rng(seed)
    # draws between the best rules and all others, and between random pairs
    best = np.argsort(-values)[:20]
    pairs = np.concatenate([
        np.stack(np.meshgrid(best, np.arange(len(rules))), axis=-1).reshape(-1, 2),
        rng.integers(len(rules), size=(DRAWS, 2)),
    ])  # fmt: skip
    along = hull[pairs[:, 0]].along(hull[pairs[:, 1]], np.broadcast_to(STEPS, (len(pairs), len(STEPS))))
    mixed = [hull.mix(rng.dirichlet(np.full(len(rules), 1.0 / len(rules)))) for _ in range(DRAWS)]
    return float(max(values.max(), metric.values(along).max(), metric.values(Confusion.stack(mixed)).max()))


def on_tiny(count):
    """Return by how much the bound exceeds the most found, (count, metrics), of two and three classes."""
    excess = []
    for seed in range(count):
        P, weight = tiny(seed, 2 + seed % 2)
        excess.append([solve(m, P, weight).upper_bound - most_found(m, P, weight, seed) for m in METRICS])
    return np.array(excess)


# --- the section ------------------------------------------------------------------------------------------------------


def of_tables(tables):
    """Return rows of text: separate and final gap of every metric, and their medians and largest."""
    found = [[solve(metric, data.P) for metric in METRICS] for data in tables]
    before = [[separate(metric, data.P) for metric in METRICS] for data in tables]
    gaps = np.array([[s.upper_bound - s.value for s in row] for row in found])
    wide = np.array([[b - s.value for b, s in zip(*pair, strict=True)] for pair in zip(before, found, strict=True)])
    passes = np.array([[s.n_passes for s in row] for row in found])
    both = np.stack([wide, gaps], axis=2).reshape(len(tables), -1)
    rows = [[data.stem, *figures(row)] for data, row in zip(tables, both, strict=True)]
    for what, summary in (("median", np.median), ("most", np.max)):
        rows.append([what, *figures(summary(both, axis=0))])
    rows.append(
        ["bound - separate, most", *(text for number in (gaps - wide).max(axis=0) for text in ("", f"{number:.1e}"))]
    )
    for what, summary in (("median", np.median), ("most", np.max)):
        rows.append(
            [f"passes, {what}", *(text for number in summary(passes, axis=0) for text in ("", f"{number:.0f}"))]
        )
    return rows


def of_parts(tables):
    """Return rows of text: how solutions of tables in parts differ from those in memory, by metric."""
    found = []
    for data in tables:
        with tempfile.TemporaryDirectory() as folder:
            for metric in METRICS:
                whole, parts = solve(metric, data.P), solve(metric, in_file(data.P, folder))
                found.append([parts.value - whole.value, parts.upper_bound - whole.upper_bound, parts.n_passes])
    value, bound, passes = np.array(found).reshape(len(tables), len(METRICS), 3).transpose(2, 0, 1)
    return [
        ["value, least", *(f"{x:.1e}" for x in value.min(axis=0))],
        ["bound, least", *(f"{x:.1e}" for x in bound.min(axis=0))],
        ["bound, most", *(f"{x:.1e}" for x in bound.max(axis=0))],
        ["passes, most", *(f"{x:.0f}" for x in passes.max(axis=0))],
    ]


@benchmark("bound-speed", "", "bounds: speed")
def speed():
    rows = []
    for recipe, where in (
        (Recipe(1000, 5, imbalance=10.0), "memory"), (Recipe(200_000, 20), "memory"),
        (Recipe(1_000_000, 10), "memory"), (Recipe(1_000_000, 10), "parts"),
    ):  # fmt: skip
        P, _ = recipe.draw()
        K = recipe.K
        a, b = np.linspace(0.5, 2.0, K, dtype=np.float32), np.linspace(0.0, 0.1, K, dtype=np.float32)
        one, _ = shortest(lambda P=P, a=a, b=b, K=K: np.bincount((P * a + b).argmax(axis=1), minlength=K))
        with tempfile.TemporaryDirectory() as folder:
            table = P if where == "memory" else in_file(P, folder)
            with mock.patch.object(PriceSearch, "start", return_value=None):
                plain, before = shortest(lambda table=table: solve(METRICS[0], table))
            priced, after = shortest(lambda table=table: solve(METRICS[0], table))
        seconds = (f"{1e3 * each:.0f} ms, {each / one:.1f}" for each in (plain, priced))
        rows.append(
            [f"{recipe.size}, {where}", f"{1e3 * one:.2f}", *seconds, *figures([before.gap, after.gap]), after.n_passes]
        )
    return [
        "macro F1 as above on generated tables, the shortest of three runs, in "
        "milliseconds and in NumPy passes, `(P * a + b).argmax(1)` and a `bincount`. Parts: a file that "
        "is read in six parts, the check of its rows included.",
        markdown(["table", "NumPy pass", "separate maxima", "bound", "gap, separate", "gap", "passes"], rows),
    ]


@benchmark("bounds", "FOLDER")
def main(folder, count=1000):
    head = ["table", *(f"{metric!r}, {what}" for metric in METRICS for what in ("separate", "bound"))]
    tables = load(folder)
    many, two = [data for data in tables if data.K > 2], [data for data in tables if data.K == 2]
    excess = on_tiny(int(count))
    rows = [
        ["least", *(f"{x:.1e}" for x in excess.min(axis=0))],
        ["median", *(f"{x:.1e}" for x in np.median(excess, axis=0))],
    ]
    return [
        f"upper bound minus value on {len(many)} tables of three classes or "
        f"more, at most {PASSES} passes. Separate: the mean of the classes' separate maxima, minus the same value.",
        markdown(head, of_tables(many)),
        f"In parts minus in memory, on all {len(tables)} tables: each is read from a file in six parts.",
        markdown(["", *map(repr, METRICS)], of_parts(tables)),
        f"The first table's figures on {len(two)} tables of two classes.",
        markdown(head, of_tables(two)),
        f"Bound minus the most found over all rules and many mixtures, on {count} tiny populations of two and three "
        f"classes with ties, zeros and repeated rows.",
        markdown(["", *map(repr, METRICS)], rows),
    ]
