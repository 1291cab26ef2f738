"""How often limits with ``confidence=0.9`` are violated: on populations whose truth is known, and on test rows.

From every population samples are drawn, with seeds 0, 1, ..., and a rule is tuned on each with confidence and without.
The rule's confusion on the population is exact, or has the error of its grid. The probabilities of the second
population are twice as certain as they should be, those of the third have 40 different rows. Limits of groups are on
two populations, from each of which rows come by chance; the group says from which, and the truth is that of each.

On tables a random 30 % of the rows tune, with seeds 0, 1, ..., and the others test. The limit is a floor on the recall
of the rarest class that has 20 rows or more among those that tune: 40 % of the way from argmax on all rows to one. The
truth is not known there: a rule is called violated if the recall on the test rows is below the floor, which their
noise adds to.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from benchmarks.harness import benchmark, counts, load, markdown, solve
from confmax import constraints as c
from confmax.constraints.across import ALL_ROWS
from confmax.oracle import make_table
from confmax.populations import FinitePopulation, GaussianMixture, Population, continuous_example, population_confusion

CONFIDENCE = 0.9
TABLES = (
    "default_credit__logreg",
    "diamonds_cut__logreg",
    "hpc__hgb",
    "kr_vs_k__hgb",
    "nursery__logreg",
    "winequality_white__logreg",
)
OTHERS = 0.4  # of the rows that come from the population of a second group
SHARE, LEAST_ROWS, HARDER = 0.3, 20, 0.4  # of the rows, that tune; of a class among them; from argmax to one
ENOUGH, MARGIN, Z = 2.0, 0.1, 1.2816  # times z^2 f (1 - f) / margin^2 rows of the class


class Case(NamedTuple):
    """A population, how certain its model is relative to the truth, the size of a sample, and limits.

    A second population is that of a second group, from which `OTHERS` of the rows come.
    """

    name: str
    population: Population
    certainty: float
    n: int
    limits: list
    second: Population | None = None

    @property
    def parts(self):
        """The populations, and the share of the rows that comes from each."""
        if self.second is None:
            return [(self.population, 1.0)]
        return [(self.population, 1.0 - OTHERS), (self.second, OTHERS)]

    def proba(self, population, X):
        """Return what the model says (N, K) at points X (N, d) of a population."""
        powered = population.eta(X) ** self.certainty
        return powered / powered.sum(axis=1, keepdims=True)

    def sample(self, seed):
        """Return probabilities (n, K), classes (n,) and groups (n,), or None, of a sample."""
        if self.second is None:
            X, y = self.population.sample(self.n, seed)
            return self.proba(self.population, X), y, None
        rng = np.random.default_rng(seed)
        sizes = rng.multinomial(self.n, [share for _, share in self.parts])
        drawn = [(one, *one.sample(int(n), rng)) for (one, _), n in zip(self.parts, sizes, strict=True)]
        P = np.concatenate([self.proba(one, X) for one, X, _ in drawn])
        return P, np.concatenate([y for _, _, y in drawn]), np.repeat([0, 1], sizes)

    def confusions(self, rule):
        """Return the confusion (K, M) of a rule on each population."""
        found = []
        for g, (one, _) in enumerate(self.parts):

            def decide(X, one=one, g=g):
                group = None if self.second is None else np.full(len(X), g)
                return rule.decision_probabilities(self.proba(one, X), group=group)

            found.append(population_confusion(one, decide, per_class=1024))
        return found

    def is_violated(self, limit, confusions):
        """Whether a limit is violated in truth."""
        shares = [share for _, share in self.parts]
        among = confusions if limit.of_groups else [np.tensordot(shares, confusions, axes=1)]
        # placed on a table of these classes, for its metric alone
        table = make_table(np.eye(len(among[0])), classes=range(len(among[0])))
        placed = c.bind([replace(limit, across=ALL_ROWS)], table, explicit=True)
        values = [placed.constraints[0].metric.value(C) for C in among]
        return min(values) < limit.limit if limit.is_floor else max(values) > limit.limit


def cases():
    rng = np.random.default_rng(0)
    atoms = FinitePopulation(rng.dirichlet([0.5, 0.8, 1.0], 40), rng.dirichlet(np.full(40, 5.0)))
    others = FinitePopulation(rng.dirichlet([0.8, 0.8, 0.8], 40), rng.dirichlet(np.full(40, 5.0)))
    two = GaussianMixture([0.8, 0.2], [[0.0, 0.0], [1.5, 0.5]], [np.eye(2), 2.0 * np.eye(2)])
    harder = GaussianMixture([0.7, 0.3], [[0.0, 0.0], [1.0, 0.5]], [np.eye(2), 2.0 * np.eye(2)])
    three = continuous_example()
    sums = [c.rate(0) + c.rate(1) <= 0.5]
    each = [c.recall(1).per_group() >= 0.5]
    more = [c.recall(1).per_group() >= 0.6]
    return (
        Case("Gaussians, 3 classes", three, 1.0, 800, [c.recall(2) >= 0.6]),
        Case("Gaussians, 2 classes", two, 2.0, 600, [c.recall(1) >= 0.6, c.precision(1) >= 0.4]),
        Case("atoms, 3 classes", atoms, 1.0, 500, [c.rate(2) <= 0.4, c.recall(0) >= 0.5, c.accuracy() >= 0.5]),
        Case("Gaussians, 3 classes", three, 1.0, 800, [c.min_recall() >= 0.5]),
        Case("Gaussians, 2 classes", two, 2.0, 600, [c.min_recall() >= 0.65]),
        Case("atoms, 3 classes", atoms, 1.0, 800, [c.min_recall() >= 0.5]),
        Case("Gaussians, 3 classes", three, 1.0, 800, sums),
        Case("atoms, 3 classes", atoms, 1.0, 500, sums),
        Case("Gaussians, 2 classes, 2 groups", two, 2.0, 1000, each, harder),
        Case("atoms, 3 classes, 2 groups", atoms, 1.0, 1000, more, others),
    )


class Verdict(NamedTuple):
    """What became of one sample: whether limits are violated in truth, whether all are assured, and the accuracy."""

    violated: bool
    answered: bool
    value: float


def accurate(P, y, limits, seed, confidence, group=None):
    """Return the most accurate rule's solution; the limits may be missed."""
    settings = {"constraints": limits, "confidence": confidence, "on_infeasible": "closest", "random_state": seed}
    return solve("accuracy", P, y, classes=range(P.shape[1]), group=group, **settings)


def verdict(case, seed, confidence):
    """Return the verdict on a sample; without ``confidence`` all limits that a rule was met for count as assured."""
    P, y, group = case.sample(seed)
    solution = accurate(P, y, case.limits, seed, confidence, group)
    confusions = case.confusions(solution.rule)
    missed = False
    for limit, outcome in zip(case.limits, solution.constraints, strict=True):
        called = outcome.assured if confidence else solution.feasible
        missed |= bool(called and case.is_violated(limit, confusions))
    answered = all(one.assured for one in solution.constraints) if confidence else solution.feasible
    right = sum(share * np.trace(C) for (_, share), C in zip(case.parts, confusions, strict=True))
    return Verdict(missed, answered, float(right))


@benchmark("confidence", "[SAMPLES]", "limits: confidence")
def on_populations(count=200):
    """Count how often limits are violated on known populations."""
    lines = []
    for case in cases():
        for confidence in (CONFIDENCE, None):
            violated, answered, values = np.transpose([verdict(case, seed, confidence) for seed in range(count)])
            texts = ", ".join(limit.text for limit in case.limits)
            figures = [f"{violated.mean():.3f}", f"{answered.mean():.0%}", f"{values[answered > 0].mean():.4f}"]
            lines.append([case.name, texts, case.n, confidence or "none", *figures])
    most = 1 - CONFIDENCE + 2 * np.sqrt(CONFIDENCE * (1 - CONFIDENCE) / count)
    return [
        f"{count} samples of each population. Violated: samples in which a limit that is called assured is violated in "
        f"truth, of all samples; at most a tenth, by chance up to {most:.3f}. Answered: all limits are assured; the "
        f"accuracy is the mean on the population there.",
        markdown(["population", "limits", "rows", "confidence", "violated", "answered", "accuracy"], lines, words=2),
    ]


class Pool(NamedTuple):
    """All rows of a table, P (n, K) and y (n,), and a floor on the recall of a class k."""

    P: np.ndarray
    y: np.ndarray
    k: int
    floor: float

    @classmethod
    def of(cls, data):
        P, y = data.whole
        sizes = np.bincount(y, minlength=data.K)
        k = min(np.flatnonzero(SHARE * sizes >= LEAST_ROWS).tolist(), key=lambda k: sizes[k])
        recall = float((P[y == k].argmax(axis=1) == k).mean())
        return cls(P, y, k, recall + HARDER * (1.0 - recall))

    @property
    def enough(self):
        """The rows of the class with which a floor is to be answered."""
        return ENOUGH * Z**2 * self.floor * (1.0 - self.floor) / MARGIN**2

    def tried(self, seed, confidence):
        """Return whether the floor is violated on the test rows, whether it is answered, accuracy, rows of the class.

        Without ``confidence`` every rule that keeps the floor where it was tuned is an answer.
        """
        order, n = np.random.default_rng(seed).permutation(len(self.y)), round(SHARE * len(self.y))
        rows, rest = order[:n], order[n:]
        solution = accurate(self.P[rows], self.y[rows], c.recall(self.k) >= self.floor, seed, confidence)
        C = counts(self.y[rest], solution.rule.decision_probabilities(self.P[rest])) / len(rest)
        answered = bool(solution.constraints[0].assured) if confidence else solution.feasible
        missed = C[self.k, self.k] < self.floor * C[self.k].sum()
        return missed, answered, float(np.trace(C)), int((self.y[rows] == self.k).sum())


@benchmark("confidence-tables", "FOLDER [RESPLITS]", "limits: confidence on tables")
def on_tables(folder, count=100):
    """Count how often a floor is violated on the other rows of tables."""
    lines = []
    for data in load(folder):
        if data.stem not in TABLES:
            continue
        pool = Pool.of(data)
        sure, plain = (np.transpose([pool.tried(seed, level) for seed in range(count)]) for level in (CONFIDENCE, None))
        (missed, answered, value, rows), (missed_too, met, value_too, _) = sure, plain
        answered, met, many = answered > 0, met > 0, rows >= pool.enough
        shares = [f"{answered.sum()} of {count}", f"{answered[many].sum()} of {many.sum()}" if many.any() else ""]
        violated = [f"{part[some].sum():.0f} of {some.sum()}" for part, some in ((missed, answered), (missed_too, met))]
        beside = f"{value[answered].mean():.4f}, {value_too[answered].mean():.4f}" if answered.any() else ""
        words = [data.stem, f"recall[{pool.k}] >= {pool.floor:.3f}", f"{rows.mean():.0f}, {pool.enough:.0f}"]
        lines.append([*words, *shares, violated[0], beside, violated[1]])
    head = ["table", "limit", "rows of the class, enough", "answered", "with enough rows", "violated"]
    return [
        f"{count} resplits of each table, confidence {CONFIDENCE}. Rows of the class among those that tune, mean, and "
        f"how many are enough, twice z^2 f (1 - f) / {MARGIN}^2; answered: the limit is assured, of all resplits and "
        f"of those with enough rows; violated on the test rows, of those answered; mean accuracy there, and that of "
        f"the rules without confidence in the same resplits.",
        markdown([*head, "accuracy, without confidence", "violated without confidence"], lines, words=2),
    ]
