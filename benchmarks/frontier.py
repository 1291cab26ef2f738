"""Frontiers: against linear programs at every level of tiny populations, and how long those of tables take.

Times are those of a whole call, the rules of all levels included, over that of one NumPy pass: scores, argmax and the
statistics of the decisions. Batches are compared with assignments by a linear program.
"""

from __future__ import annotations

import time
from collections import Counter

import numpy as np
from scipy.optimize import linear_sum_assignment

import confmax
from benchmarks.harness import benchmark, load, markdown, solve
from benchmarks.programs import EXACT, Program, Tiny, Wish, random_table
from confmax.calibration import choose
from confmax.tables import make_table

TOL = 1e-4
LEVELS = 50
ON_LABELS = 20
OBJECTIVES = ("accuracy", "cohen_kappa", "min_recall", "f1[0]", "recall[0]", "balanced_accuracy")
LIMITS = ("recall[{}] >=", "precision[{}] >=", "rate[{}] <=", "fpr[{}] <=", "min_recall >=", "accuracy >=")


def verdict(seed):
    """Return "right", "refused: ..." or what is wrong with the frontier of a tiny population, and by how much."""
    rng = np.random.default_rng(seed)
    P = random_table(rng, seed)
    K = P.shape[1]
    metric = str(rng.choice(OBJECTIVES))
    limit = str(rng.choice(LIMITS)).format(rng.integers(K))
    settings = {"classes": range(K), "confusion": "model", "calibration": None, "randomized": True, "tol": TOL}
    try:
        found = confmax.frontier(metric, limit, P, levels=6, **settings)
    except ValueError as error:
        return ("refused: alike" if "pull apart" in str(error) else f"refused: {error}"), 0.0
    name, sense = limit.split()
    for level, value, bound, one in zip(found.levels, found.values, found.upper_bounds, found.solutions, strict=True):
        program = Program(Tiny(P, np.zeros(len(P), dtype=int), metric, [Wish(name, "all", sense, float(level))]))
        best = program.best(metric)
        if best is None:
            return "a level that no rule keeps", 0.0
        if bound < best - EXACT:
            return "bound too low", best - bound
        # the program drops small coefficients and misses the limit by its tolerance, for which a steep price pays
        if value < best - TOL - EXACT or value > best + 10 * EXACT * (1.0 + (one.constraints[-1].price or 0.0)):
            return "value too far", best - value
    if (np.diff(found.values) > 0.0).any():
        return "not monotone", float(np.diff(found.values).max())
    concave = metric in ("accuracy", "recall[0]", "balanced_accuracy", "min_recall") and not name.startswith(
        "precision"
    )
    slopes = np.diff(found.values) / np.abs(np.diff(found.levels))
    if concave and (np.diff(slopes) * np.abs(np.diff(found.levels))[1:] > 4 * TOL).any():
        return "not concave", float(np.diff(slopes).max())
    return "right", 0.0


def batch(seed):
    """Return whether the decisions of a tiny batch have the largest sum of scores that any assignment has."""
    rng = np.random.default_rng(seed)
    K, n = int(rng.integers(2, 5)), int(rng.integers(1, 13))
    P = random_table(rng, seed)[:n]
    K, n = P.shape[1], len(P)
    rule = confmax.DecisionRule.from_weights(rng.uniform(0.2, 3.0, K), rng.normal(0.0, 0.3, K))
    caps = {int(k): int(rng.integers(0, n + 1)) for k in rng.permutation(K)[: rng.integers(1, K + 1)]}
    room = np.array([caps.get(k, n) for k in range(K)])
    if room.sum() < n:
        return "refused"
    a, b = (part[0] for part in rule.gains.coefficients())
    scores = P * a + b
    decided = rule.predict_index(P, at_most=caps)
    if (np.bincount(decided, minlength=K) > room).any():
        return "over a cap"
    columns = np.repeat(np.arange(K), room)
    rows, places = linear_sum_assignment(-scores[:, columns])
    lack = scores[rows, columns[places]].sum() - scores[np.arange(n), decided].sum()
    return "optimal" if lack <= EXACT else "worse"


def cases(P):
    """Yield the kind, the metric and the limit of frontiers on probabilities P (n, K)."""
    shares = P.mean(axis=0)
    rare, large = int(shares.argmin()), int(shares.argmax())
    yield "linear", "accuracy", f"recall[{rare}] >="
    yield "ratio", "cohen_kappa", f"rate[{rare}] <="
    yield "mean", "g_mean", f"rate[{large}] >="
    yield "smallest", "min_recall", "accuracy >="
    yield "one class", f"recall[{rare}]", f"precision[{rare}] >="
    yield "macro F1", "macro_f1", f"rate[{rare}] <="


def pass_of(P):
    """Return the seconds of a NumPy pass over probabilities (n, K): the least of three."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        decided = (P * np.ones(P.shape[1], P.dtype)).argmax(axis=1)
        np.bincount(decided, minlength=P.shape[1])
        np.bincount(decided, P[np.arange(len(P)), decided], P.shape[1])
        times.append(time.perf_counter() - start)
    return min(times)


def timed(name, P, y, kinds, levels):
    """Return a row for each kind of frontier on a table; with labels y on the default estimate, calibrated before."""
    settings = {"classes": range(P.shape[1]), "levels": levels}
    settings |= {"confusion": "model"} if y is None else {"calibration": choose(make_table(P, y))}
    unit = pass_of(P)
    rows = []
    for kind, metric, limit in cases(P):
        if kinds is not None and kind not in kinds:
            continue
        start = time.perf_counter()
        try:
            found = solve(metric, limit, P, y, call=confmax.frontier, **settings)
        except ValueError as error:
            rows.append([name, kind, f"{metric}, {limit}", str(error)[:40], "", "", "", ""])
            continue
        took = time.perf_counter() - start
        losses = np.array([one.randomization_loss or 0.0 for one in found.solutions])
        gap = "-" if y is not None else f"{np.nanmax(found.upper_bounds - found.values - losses):.0e}"
        drawn = sum(rule.is_randomized for rule in found.rules)
        rows.append(
            [name, kind, f"{metric}, {limit}", len(found.levels), f"{took:.2f}", f"{took / unit:.0f}", gap, drawn]
        )
    return rows


@benchmark("frontier", "FOLDER [POPULATIONS]")
def frontier(folder, count=1000):
    """Compare frontiers with programs, and time them."""
    tables = {data.stem: data for data in load(folder)}
    rows = []
    for name in ("hpc__hgb", "kr_vs_k__hgb"):
        rows += timed(name, tables[name].proba, None, None, LEVELS)
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.linspace(1.0, 0.15, 10), 1_000_000).astype(np.float32)
    rows += timed("1M x 10", P / P.sum(axis=1, keepdims=True), None, ("linear", "ratio", "mean"), LEVELS)
    data = tables["kr_vs_k__hgb"]
    rows += timed("kr_vs_k__hgb, labels", data.P, data.y, None, ON_LABELS)
    ends = [Counter(map(check, range(n))) for check, n in ((lambda seed: verdict(seed)[0], count), (batch, 2 * count))]
    words = [", ".join(f"{number} {end}" for end, number in sorted(each.items())) for each in ends]
    heads = ["table", "kind", "metric, limit", "levels", "seconds", "NumPy passes", "gap less draws", "drawn"]
    return [
        f"frontiers of {count} tiny populations against programs at every level: {words[0]}. {2 * count} tiny batches "
        f"against assignments: {words[1]}.",
        markdown(heads, rows, 3),
    ]
