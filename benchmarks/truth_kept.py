"""How much the model is believed, where its probabilities are wrong: two classes, groups, one class.

Probabilities p follow three laws, and a model says q: p itself, p with three digits, p bent in ten ways. The rule of
the defaults is compared on 40,000 new rows, by p, with the best threshold on the labels that tuned it.

In one of three groups labels follow another law than the model says. A limit that is called kept is missed if its true
value, on 60,000 rows by the true probabilities, lies beyond the limit by more than .05.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np

import confmax
from benchmarks.harness import benchmark, keep, load, markdown, solve
from benchmarks.one_class import questions_of


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


LAWS = {
    "beta(1, 3)": lambda rng, n: rng.beta(1, 3, n),
    "beta(.6, 6)": lambda rng, n: rng.beta(0.6, 6, n),
    "logit N(-.5, 2)": lambda rng, n: sigmoid(rng.normal(-0.5, 2, n)),
}
BENDS = {
    "right": lambda p: p,
    "three digits": lambda p: np.round(p, 3),
    # no power and no offset mends these
    "plateau": lambda p: np.where(p < 0.3, 0.3, p),
    "step": lambda p: np.where(p > 0.6, 0.95, p * 0.5),
    "hollow": lambda p: np.where((p > 0.2) & (p < 0.5), 0.2, p),
    "cap": lambda p: np.where(p > 0.4, 0.4 + 0.01 * p, p),
    "one digit": lambda p: np.round(p, 1).clip(0.01, 0.99),
    "forest of 25": None,
    # and a power with an offset nearly mends these
    "squeeze": lambda p: 0.5 + 0.1 * (p - 0.5),
    "cube": lambda p: p**3,
    "overconfident": lambda p: sigmoid(3 * np.log(p / (1 - p))),
    "shifted": lambda p: sigmoid(np.log(p / (1 - p)) + 2),
}
MISS = 8.0  # what a missed row of class 1 costs, where a false one costs one; the cost is divided by it
COST = [[0.0, 1.0], [MISS, 0.0]]
SIZES, SEEDS, NEW, NEW_SEED = (300, 1000, 4000), 10, 40_000, 99

KINDS = {
    "right": lambda p: p,
    "half": lambda p: p * 0.5,
    "a fifth": lambda p: p * 0.2,
    "none": lambda p: p * 0,
    "independent": lambda p: np.full(len(p), 0.35),
}
ROWS = 1500
SHARES = {
    500: (1 / 3, 1 / 3, 1 / 3),
    225: (0.45, 0.40, 0.15),
    60: (0.50, 0.46, 0.04),
}  # of the rows, by rows of group 2
LIMITS = ("min(precision[1] | group) >= 0.6", "min(recall[1] | group) >= 0.7", "difference(fpr[1] | group) <= 0.05")
SAMPLES, GROUP_ROWS, GROUP_SEED = 40, 60_000, 10_000
FAR = 0.05


# --- two classes ------------------------------------------------------------------------------------------------------


def rows_of(law, bend, n, seed):
    """Return what the model says (n,), the true probabilities (n,) and labels (n,)."""
    rng = np.random.default_rng(seed)
    p = LAWS[law](rng, n).clip(1e-9, 1 - 1e-9)
    # the votes of 25 trees are drawn
    q = rng.binomial(25, p) / 25 if BENDS[bend] is None else BENDS[bend](p)
    return q, p, (rng.random(n) < p).astype(int)


VALUES = {
    "accuracy": lambda hits, false, true: 1 - (true - hits) - false,
    "balanced_accuracy": lambda hits, false, true: (hits / true + 1 - false / (1 - true)) / 2,
    "costs": lambda hits, false, true: -(true - hits) - false / MISS,
}


def best_threshold(value, q, y):
    """Return the threshold with the largest value on labels; what is not below it is decided as class 1."""
    order = np.argsort(-q, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(q[order])), len(q) - 1)
    hits, decided = np.append(0, np.cumsum(y[order])[ends]) / len(q), np.append(0, ends + 1) / len(q)
    best = int(np.argmax(value(hits, decided - hits, y.mean())))
    return np.append(np.inf, q[order][ends])[best]


def behind_labels(law, bend, name, n, seeds):
    """Return by how much the default is better than the best threshold of its labels, for every seed."""
    q, p, _ = rows_of(law, bend, NEW, NEW_SEED)
    value = VALUES[name]
    metric = confmax.metrics.get("linear", cost=COST) if name == "costs" else name

    def worth(decided):
        return value((p * decided).mean(), ((1 - p) * decided).mean(), p.mean())

    found = []
    for seed in range(seeds):
        given, _, y = rows_of(law, bend, n, seed)
        solution = confmax.maximize(metric, np.c_[1 - given, given], y)
        mine = np.asarray(solution.predict(np.c_[1 - q, q])) == 1
        found.append(worth(mine) - worth(q >= best_threshold(value, given, y)))
    return found


@benchmark("truth-kept-thresholds", "[SEEDS]", section="truth: thresholds where probabilities are wrong")
def thresholds(seeds=SEEDS, quick=False):
    """Measure the defaults against the best threshold on labels."""
    sizes, seeds = ((300,), 2) if quick else (SIZES, int(seeds))
    rows, every = [], []
    for n in sizes:
        cells = {
            (law, bend, name): behind_labels(law, bend, name, n, seeds)
            for law in LAWS
            for bend in BENDS
            for name in VALUES
        }
        every += [[*cell, n, *found] for cell, found in cells.items()]
        for words, wanted in (("right", ("right", "three digits")), ("bent", [*BENDS][2:])):
            some = {cell: np.array(found) for cell, found in cells.items() if cell[1] in wanted}
            worst = min(some, key=lambda cell: some[cell].mean())
            error = some[worst].std() / np.sqrt(seeds)
            mean = np.mean([found.mean() for found in some.values()])
            least = some[worst].mean()
            rows.append([n, words, f"{mean:+.4f}", f"{least:+.4f} ± {error:.4f}", ", ".join(worst)])
    keep("truth-kept-thresholds", ["law", "bend", "metric", "rows", *range(seeds)], every)
    said = (
        f"accuracy, balanced accuracy and costs 1:8 (divided by 8) by the defaults, minus those of the best threshold "
        f"on the tuning labels, on {NEW} new rows (seed {NEW_SEED}); seeds 0 to {seeds - 1} tune. The worst cell with "
        f"its standard error."
    )
    return said, markdown(["rows", "probabilities", "mean", "worst cell", "which"], rows)


# --- groups -----------------------------------------------------------------------------------------------------------


class Rows(NamedTuple):
    """What the model says, the true probabilities, groups and labels (n,)."""

    q: np.ndarray
    p: np.ndarray
    group: np.ndarray
    y: np.ndarray

    @property
    def proba(self):
        return np.c_[1 - self.q, self.q]


def grouped(kind, shares, n, seed):
    rng = np.random.default_rng(seed)
    q = sigmoid(1.2 * rng.normal(size=n))
    group = rng.choice(3, n, p=shares)
    p = np.where(group == 2, KINDS[kind](q), q)
    return Rows(q, p, group, (rng.random(n) < p).astype(int))


def far_by(limit, new, decided):
    """Return by how much a limit is missed in truth, and two standard errors of its worst group."""
    values, sizes = [], []
    for g in range(3):
        p, own = new.p[new.group == g], decided[new.group == g]
        weight = {"precision": own, "recall": p, "fpr": 1 - p}[limit.split("(")[1].split("[")[0]]
        counted = p if "precision" in limit else own
        # a group without positive rows has no recall, and one without decisions keeps its precision
        values.append((weight * counted).sum() / weight.sum() if weight.sum() else 1.0)
        sizes.append(weight.mean() * (new.group == g).mean() * ROWS)
    if limit.startswith("difference"):
        return np.ptp(values) - 0.05, 2 * np.sqrt(
            sum(v * (1 - v) / max(n, 1) for v, n in zip(values, sizes, strict=True))
        )
    floor, worst = float(limit.split()[-1]), int(np.argmin(values))
    return floor - values[worst], 2 * np.sqrt(floor * (1 - floor) / max(sizes[worst], 1))


def judged(kind, rows, limit, samples):
    """Return for every sample whether it is refused, kept, how far it is missed, two standard errors, and accuracy."""
    new = grouped(kind, SHARES[rows], GROUP_ROWS, GROUP_SEED)
    found = []
    for seed in range(samples):
        tuning = grouped(kind, SHARES[rows], ROWS, seed)
        try:
            solution = solve("accuracy", tuning.proba, tuning.y, constraints=limit, group=tuning.group)
        except ValueError:
            # no rule keeps it, or a group has no row that it speaks of
            found.append([True, False, 0.0, 0.0, np.nan])
            continue
        decided = np.asarray(solution.predict(new.proba, group=new.group)) == 1
        right = np.where(decided, new.p, 1 - new.p).mean()
        found.append([False, solution.feasible, *far_by(limit, new, decided), right])
    return np.array(found, dtype=float)


@benchmark("truth-kept-groups", "[SAMPLES]", section="truth: limits of groups that the model is wrong about")
def groups(samples=SAMPLES, quick=False):
    """Measure limits of groups that are called kept against the truth."""
    samples = 2 if quick else int(samples)
    lines = []
    for rows in (60,) if quick else SHARES:
        for kind in KINDS:
            for limit in LIMITS:
                refused, kept, far, error, right = judged(kind, rows, limit, samples).T
                called = kept == 1
                missed, surely = (int((called & (far > least)).sum()) for least in (FAR, np.maximum(FAR, error)))
                counts = [int(refused.sum()), int((1 - refused - kept).sum()), int(called.sum()), missed, surely]
                lines.append([rows, kind, limit, *counts, f"{np.nanmean(right):.4f}" if called.any() else ""])
    sums = defaultdict(lambda: np.zeros(3, int))
    for rows, kind, _, _, _, *counts, _ in lines:
        for key in ((rows, kind), (rows, "all but right")):
            if key[1] != "all but right" or kind != "right":
                sums[key] += counts
    short = [[*key, *found] for key, found in sums.items()]
    keep(
        "truth-kept-groups", ["rows", "kind", "limit", "refused", "not kept", "kept", "missed", "by 2 se", "acc"], lines
    )
    said = (
        f"accuracy within a limit on three groups, {ROWS} rows, of which the third group has about 500, 225 or 60; "
        f"samples 0 to {samples - 1}, new rows of seed {GROUP_SEED}. Missed: called kept, and in truth beyond the "
        f"limit by more than .05, or by more than two standard errors of so many rows, too."
    )
    return said, markdown(["rows", "group 2", "called kept", "missed by .05", "and by 2 se"], short)


# --- one class --------------------------------------------------------------------------------------------------------


@benchmark("truth-kept-class", "FOLDER", section="truth: floors of one class")
def one_class(folder):
    """Measure floors of one class on test rows of real tables."""
    figures = defaultdict(list)
    for data, k in questions_of(load(folder)):
        for limited, maximised in (("precision", "recall"), ("recall", "precision")):
            for floor in (0.7, 0.9):
                try:
                    limit = f"{limited}[{k}] >= {floor}"
                    solution = solve(f"{maximised}[{k}]", data.P, data.y, classes=data.classes, constraints=limit)
                except confmax.Infeasible:
                    figures[limited, floor].append([True, False, 0.0])
                    continue
                decided, true = solution.rule.predict_index(data.Q) == k, data.z == k
                hits = (decided & true).sum()
                among = {"precision": decided.sum(), "recall": true.sum()}
                share = hits / among[limited] if among[limited] else 1.0
                error = np.sqrt(floor * (1 - floor) / max(among[limited], 1))
                value = hits / among[maximised] if among[maximised] else 0.0
                figures[limited, floor].append([False, floor - share > 2 * error, value])
    lines = []
    for key, found in figures.items():
        refused, missed, value = np.array(found, dtype=float).T
        lines.append([*key, len(found), int(refused.sum()), int(missed.sum()), f"{value.mean():.4f}"])
    said = (
        "the defaults on test rows; a limit that is refused has the value 0. Missed: by more than two standard errors"
    )
    return f"{said}.", markdown(["floor on", "at", "questions", "refused", "missed", "mean value"], lines)
