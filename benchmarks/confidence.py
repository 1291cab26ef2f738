"""How often limits with ``confidence=0.9`` are violated in truth, on populations whose truth is known.

    python -m benchmarks.confidence [N_SAMPLES]

From every population samples are drawn, with seeds 0, 1, ..., and a rule is tuned on each with ``confidence=0.9`` and
without. The rule's confusion on the population is exact, or has the error of its grid. Violated: samples in which a
limit that is called assured is violated there, of all samples; at most a tenth, and two standard errors more by chance.
Answered: samples in which all limits are assured. The value is the mean accuracy on the population where they are. The
probabilities of the second population are twice as certain as they should be, those of the third have 40 different
rows. The figures are written to the section "limits: confidence" of benchmarks/RESULTS.md.
"""

from __future__ import annotations

import sys
import warnings
from typing import NamedTuple

import numpy as np

import confmax
from benchmarks.harness import markdown, report
from confmax import constraints as c
from confmax.populations import FinitePopulation, GaussianMixture, Population, continuous_example, population_confusion

CONFIDENCE = 0.9


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
    report(
        "limits: confidence",
        f"`python -m benchmarks.confidence`: {count} samples of each population; violated by chance in up to "
        f"{most:.3f} of them.",
        markdown(["population", "limits", "rows", "confidence", "violated", "answered", "accuracy"], lines, words=2),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
