"""How often limits with ``confidence=0.9`` are violated: on populations whose truth is known, and on test rows.

    python -m benchmarks confidence [N_SAMPLES]
    python -m benchmarks confidence-tables FOLDER_OF_NPZ [N_RESPLITS]

From every population samples are drawn, with seeds 0, 1, ..., and a rule is tuned on each with ``confidence=0.9`` and
without. The rule's confusion on the population is exact, or has the error of its grid. Violated: samples in which a
limit that is called assured is violated there, of all samples; at most a tenth, and two standard errors more by chance.
Answered: samples in which all limits are assured. The value is the mean accuracy on the population where they are. The
probabilities of the second population are twice as certain as they should be, those of the third have 40 different
rows.

On tables a random 30 % of the rows tune, with seeds 0, 1, ..., and the others test. The limit is a floor on the recall
of the rarest class that has 20 rows or more among those that tune: 40 % of the way from argmax on all rows to one. The
truth is not known there: a rule is called violated if the recall on the test rows is below the floor, which their own
noise adds to. The figures are written to the sections "limits: confidence" and "limits: confidence on tables" of
benchmarks/RESULTS.md.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

import confmax
from benchmarks.harness import benchmark, counts, load, markdown
from confmax import constraints as c
from confmax.populations import FinitePopulation, GaussianMixture, Population, continuous_example, population_confusion

CONFIDENCE = 0.9
TABLES = ("default_credit__logreg", "diamonds_cut__logreg", "hpc__hgb", "kr_vs_k__hgb", "nursery__logreg",
          "winequality_white__logreg")  # fmt: skip
SHARE, LEAST_ROWS, HARDER = 0.3, 20, 0.4  # of the rows, that tune; of a class among them; from argmax to one
ENOUGH, MARGIN, Z = 2.0, 0.1, 1.2816  # times z^2 f (1 - f) / margin^2 rows of the class


class Case(NamedTuple):
    """A population, how certain its model is relative to the truth, the size of a sample, and limits."""

    name: str
    population: Population
    certainty: float
    n: int
    limits: list

    def proba(self, X):
        """Return what the model says (N, K) at points X (N, d)."""
        powered = self.population.eta(X) ** self.certainty
        return powered / powered.sum(axis=1, keepdims=True)


def cases():
    rng = np.random.default_rng(0)
    atoms = FinitePopulation(rng.dirichlet([0.5, 0.8, 1.0], 40), rng.dirichlet(np.full(40, 5.0)))
    two = GaussianMixture([0.8, 0.2], [[0.0, 0.0], [1.5, 0.5]], [np.eye(2), 2.0 * np.eye(2)])
    return (
        Case("Gaussians, 3 classes", continuous_example(), 1.0, 800, [c.recall(2) >= 0.6]),
        Case("Gaussians, 2 classes", two, 2.0, 600, [c.recall(1) >= 0.6, c.precision(1) >= 0.4]),
        Case("atoms, 3 classes", atoms, 1.0, 500, [c.rate(2) <= 0.4, c.recall(0) >= 0.5, c.accuracy() >= 0.5]),
    )


class Verdict(NamedTuple):
    """What became of one sample: whether limits are violated in truth, whether all are assured, and the accuracy."""

    violated: bool
    answered: bool
    value: float


def verdict(case, seed, confidence):
    """Return the verdict on a sample; without ``confidence`` all limits that a rule was met for count as assured."""
    X, y = case.population.sample(case.n, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = confmax.maximize("accuracy", case.proba(X), y, classes=range(case.proba(X).shape[1]),
                                 constraints=case.limits, confidence=confidence, on_infeasible="closest",
                                 random_state=seed)  # fmt: skip
    C = population_confusion(
        case.population, lambda x: found.rule.decision_probabilities(case.proba(x)), per_class=1024
    )
    missed = False
    for limit, outcome in zip(case.limits, found.constraints, strict=True):
        there = limit.metric.numbered(len(C)).value(C)
        called = outcome.assured if confidence else found.feasible
        missed |= bool(called and (there < limit.limit if limit.is_floor else there > limit.limit))
    answered = all(one.assured for one in found.constraints) if confidence else found.feasible
    return Verdict(missed, answered, float(np.trace(C)))


# --- tables -----------------------------------------------------------------------------------------------------------


class Pool(NamedTuple):
    """All rows of a table, P (n, K) and y (n,), and a floor on the recall of a class k."""

    P: np.ndarray
    y: np.ndarray
    k: int
    floor: float

    @classmethod
    def of(cls, data):
        P, y = np.concatenate([data.P, data.Q]), np.concatenate([data.y, data.z])
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
        rows, rest, K = order[:n], order[n:], self.P.shape[1]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = confmax.maximize("accuracy", self.P[rows], self.y[rows], classes=range(K), random_state=seed,
                                     constraints=c.recall(self.k) >= self.floor, confidence=confidence,
                                     on_infeasible="closest")  # fmt: skip
        C = counts(self.y[rest], found.rule.decision_probabilities(self.P[rest])) / len(rest)
        answered = bool(found.constraints[0].assured) if confidence else found.feasible
        missed = C[self.k, self.k] < self.floor * C[self.k].sum()
        return missed, answered, float(np.trace(C)), int((self.y[rows] == self.k).sum())


def share(part, whole):
    return f"{np.sum(part)} of {np.sum(whole)}"


def on_tables(folder, count):
    """Return a line for each table."""
    lines = []
    for data in load(folder):
        if data.stem not in TABLES:
            continue
        pool = Pool.of(data)
        sure, plain = (
            [np.array(part) for part in zip(*(pool.tried(seed, level) for seed in range(count)), strict=True)]
            for level in (CONFIDENCE, None)
        )
        (missed, answered, value, rows), (missed_too, met, value_too, _) = sure, plain
        many = rows >= pool.enough
        beside = f"{value[answered].mean():.4f}, {value_too[answered].mean():.4f}" if answered.any() else ""
        lines.append([data.stem, f"recall[{pool.k}] >= {pool.floor:.3f}", f"{rows.mean():.0f}, {pool.enough:.0f}",
                      share(answered, answered | True), share(answered & many, many) if many.any() else "",
                      share(missed & answered, answered), beside, share(missed_too & met, met)])  # fmt: skip
    return lines


# --- the sections -----------------------------------------------------------------------------------------------------


@benchmark("confidence-tables", "FOLDER", "limits: confidence on tables")
def report_tables(folder, count=100):
    head = ["table", "limit", "rows of the class, enough", "answered", "with enough rows", "violated",
            "accuracy, without confidence", "violated without confidence"]  # fmt: skip
    return [
        f"{count} resplits of each table, confidence {CONFIDENCE}. Rows of "
        f"the class among those that tune, mean, and how many are enough, twice z^2 f (1 - f) / {MARGIN}^2; answered: "
        f"the limit is assured, of all resplits and of those with enough rows; violated on the test rows, of those "
        f"answered; mean accuracy there, and that of the rules without confidence in the same resplits.",
        markdown(head, on_tables(folder, int(count)), words=2),
    ]


@benchmark("confidence", "[SAMPLES]", "limits: confidence")
def main(count=200):
    lines, count = [], int(count)
    for case in cases():
        for confidence in (CONFIDENCE, None):
            runs = [verdict(case, seed, confidence) for seed in range(count)]
            violated, answered = (np.mean([getattr(run, part) for run in runs]) for part in ("violated", "answered"))
            values = [run.value for run in runs if run.answered]
            texts = ", ".join(limit.text for limit in case.limits)
            lines.append([case.name, texts, case.n, confidence or "none", f"{violated:.3f}", f"{answered:.0%}",
                          f"{np.mean(values):.4f}" if values else ""])  # fmt: skip
    most = 1 - CONFIDENCE + 2 * np.sqrt(CONFIDENCE * (1 - CONFIDENCE) / count)
    return [
        f"{count} samples of each population; violated by chance in up to {most:.3f} of them.",
        markdown(["population", "limits", "rows", "confidence", "violated", "answered", "accuracy"], lines, words=2),
    ]
