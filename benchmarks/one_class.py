"""Questions about one class: what new rows say, what is promised, and how long it takes.

Every table with three classes or more asks about three of its classes: the rarest, the middle and the most frequent of
those with four rows or more. What the other classes pay is measured by `benchmarks.second_objective`.

Three known populations, from which samples are drawn with seeds 0, 1, ...: a limit that is called assured and is missed
on the population is violated.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

import confmax
from benchmarks.harness import Data, benchmark, load, markdown, solve, spread

LEAST_ROWS, TESTABLE = 4, 20  # of a class that is asked about, and that confidence can be expected for
FLOORS = (0.7, 0.9)
CONFIDENCE = 0.9
SIZES = (300, 2000)
GRID = 20_000  # points of a population: rows of a sample hardly ever share one
TIES = 1e-12


def quietly(*arguments, **settings):
    """Return the solution of `confmax.maximize` without warnings; None if no rule keeps the limits."""
    try:
        return solve(*arguments, **settings)
    except confmax.Infeasible:
        return None


class Question(NamedTuple):
    """A table and a class of it."""

    data: Data
    k: int


def questions_of(tables):
    """Return three classes of every table."""
    questions = []
    for data in tables:
        n, there = data.sizes, np.bincount(data.z, minlength=data.K)
        order = [k for k in np.argsort(n, kind="stable").tolist() if n[k] >= LEAST_ROWS and there[k] > 0]
        if len(order) >= 3:
            questions += [Question(data, k) for k in (order[0], order[len(order) // 2], order[-1])]
    return questions


def held_out(questions, words, **settings):
    """Return a row of figures on the test rows for every floor; a rule that is not assured has the recall 0."""
    rows, promised = [], "confidence" in settings
    for floor in FLOORS:
        figures = []
        for one in questions:
            data, k = one
            given = {"classes": data.classes, "constraints": f"precision[{k}] >= {floor}"}
            solution = quietly(f"recall[{k}]", data.P, data.y, **given, **settings)
            decided = np.zeros(len(data.z), bool) if solution is None else solution.rule.predict_index(data.Q) == k
            hits = (decided & (data.z == k)).sum()
            short = max(0.0, floor - hits / decided.sum()) if decided.any() else 0.0
            assured = promised and solution is not None and all(one.assured for one in solution.constraints)
            recall = hits / (data.z == k).sum() * (assured or not promised)
            figures.append([recall, short, decided.any(), assured, assured and short > 0.0])
        recall, short, decide, assured, below = np.array(figures, dtype=float).T
        more = [f"{assured.sum():.0f}", f"{below.sum():.0f}"] if promised else ["", ""]
        rows.append([words, floor, f"{recall.mean():.4f}", f"{short.mean():.4f}", f"{decide.sum():.0f}", *more])
    return rows


class Curve(NamedTuple):
    """A population of scores: grid points with their weight, the chance of the class, and what the model says."""

    name: str
    weight: np.ndarray
    chance: np.ndarray
    says: np.ndarray

    def sample(self, n, seed):
        """Return probabilities (n, 3) and labels (n,): the class is the last one, the first two share the rest."""
        rng = np.random.default_rng(seed)
        rows = rng.choice(len(self.weight), n, p=self.weight)
        p = self.says[rows]
        y = np.where(rng.random(n) < self.chance[rows], 2, rng.integers(0, 2, n))
        part = rng.uniform(0.3, 0.7, n)
        return np.c_[(1 - p) * part, (1 - p) * (1 - part), p], y

    def values(self, cut):
        """Return recall, precision, rate and false positive rate of deciding the class from ``cut`` on."""
        decided = self.says >= cut
        mass, hit = self.weight[decided].sum(), (self.weight * self.chance)[decided].sum()
        prior = (self.weight * self.chance).sum()
        precision = hit / mass if mass else 1.0
        return {"recall": hit / prior, "precision": precision, "rate": mass, "fpr": (mass - hit) / (1 - prior)}


def curves():
    """Return three populations: calibrated, twice as sure as it should be, and with a dip of precision at the top."""
    x = (np.arange(GRID) + 0.5) / GRID
    rare = (1 - x) ** 2 * x**0.3
    rare /= rare.sum()
    odds = (x / (1 - x)) ** 2
    dip = np.where(x > 0.93, 0.75, x)
    return (
        Curve("calibrated", rare, x, x),
        Curve("too sure", rare, x, odds / (1 + odds)),
        Curve("dip at the top", rare, dip, x),
    )


LIMITS = {
    "precision": ("recall[2]", "precision[2] >= {limit}", True, (0.7, 0.6, 0.6)),
    "recall": ("precision[2]", "recall[2] >= {limit}", True, (0.8, 0.8, 0.8)),
    "rate": ("recall[2]", "rate[2] <= {limit}", False, (0.15, 0.15, 0.15)),
    "fpr": ("recall[2]", "fpr[2] <= {limit}", False, (0.1, 0.1, 0.1)),
}


def on_populations(n_samples):
    """Return rows of figures: violated and assured shares of samples for every population, limit and size."""
    rows = []
    for place, curve in enumerate(curves()):
        for (name, (metric, text, is_floor, limits)), n in itertools.product(LIMITS.items(), SIZES):
            limit, assured, violated = limits[place], 0, 0
            for seed in range(n_samples):
                P, y = curve.sample(n, seed)
                settings = {"classes": range(3), "confidence": CONFIDENCE, "on_infeasible": "closest"}
                solution = solve(metric, P, y, constraints=text.format(limit=limit), **settings)
                if solution.constraints[0].assured:
                    assured += 1
                    value = curve.values(threshold_of(solution.rule))[name]
                    violated += value < limit - TIES if is_floor else value > limit + TIES
            words = [curve.name, f"{name} {'>=' if is_floor else '<='} {limit}", n]
            rows.append([*words, f"{violated / n_samples:.3f}", f"{assured / n_samples:.2f}"])
    return rows


def threshold_of(rule):
    """Return the raw probability of class 2 from which a rule decides it."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        decides = rule.predict_index([[(1 - middle) / 2, (1 - middle) / 2, middle]])[0] == 2
        low, high = (low, middle) if decides else (middle, high)
    return high


@benchmark("one-class", "FOLDER [SAMPLES]", "one class")
def main(folder, n_samples=300):
    """Ask about classes of tables and of known populations."""
    questions = questions_of(load(folder, 3))
    large = [one for one in questions if one.data.sizes[one.k] >= TESTABLE]
    sure = {"confidence": CONFIDENCE}
    rows = held_out(questions, "default") + held_out(questions, f"confidence={CONFIDENCE}", **sure)
    rows += held_out(large, f"confidence={CONFIDENCE}, {len(large)} classes of {TESTABLE} rows or more", **sure)
    head = ["", "floor", "test recall", "shortfall of precision", "decide the class", "assured", "of these below"]
    return [
        f"recall with a floor on the precision, {len(questions)} classes of {len(questions) // 3} tables, on test "
        f"rows; with confidence, a rule that is not assured counts as a recall of zero.",
        markdown(head, rows),
        f"Known populations, {n_samples} samples each: shares of the samples in which an assured limit is violated in "
        f"truth, and in which the limit is assured.",
        spread(
            "one class", ["population", "limit", "rows", "violated", "assured"], on_populations(n_samples), 3, (0, 2)
        ),
    ]
