"""What rules with a confidence are worth in truth, on two kinds of populations that are known.

On populations of few distinct rows, of which samples hold many copies, a rule is judged by the decisions of `predict`
for every distinct row, weighted by its share. A seed makes a population with one limit of each kind, and samples of it.

On a population of 112,000 rows of eight classes, of which the rarest has .9 % of the rows, every class must be found.
The rows are those that a logistic regression was not fitted on. The accuracy of a rule stands beside that of argmax on
all rows.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from benchmarks.harness import benchmark, markdown, paired, solve

CONFIDENCE = 0.9
DISTINCT = (4, 10, 100)
ROWS = 300
KINDS = ("recall", "rate", "precision")
WEIGHTS = [0.6, 0.15, 0.1, 0.06, 0.04, 0.03, 0.012, 0.008]
OF_EIGHT = 8000
FLOOR = 0.3
STATES = (3, 11, 12)


class Verdict(NamedTuple):
    """What became of a sample: whether the limit is assured, whether it is missed in truth, and of how many rules."""

    assured: bool
    missed: bool
    rules: int


def repeated(m, seed):
    """Return probabilities (m,) and shares (m,) of a population, and a limit of each kind."""
    r = np.random.default_rng([seed, m])
    p, share = np.sort(r.beta(1, 1.5, m)), r.dirichlet(np.full(m, 2.0))
    recall, rate, precision = r.choice([0.5, 0.6, 0.7, 0.8]), r.choice([0.1, 0.2, 0.3, 0.4]), r.choice([0.5, 0.6, 0.7])
    return p, share, (f"recall[1] >= {recall}", f"rate[1] <= {rate}", f"precision[1] >= {precision}")


def limits_of(m, seed):
    """Return the limits of a population."""
    return repeated(m, seed)[2]


def judged(m, seed, sample, limit, calibration):
    """Return the verdict on one sample of a population of ``m`` distinct rows."""
    p, share, _ = repeated(m, seed)
    rng = np.random.default_rng([seed, m, sample])
    drawn = p[rng.choice(m, ROWS, p=share)]
    y = (rng.random(ROWS) < drawn).astype(int)
    settings = {"constraints": limit, "confidence": CONFIDENCE, "calibration": calibration, "on_infeasible": "closest"}
    found = solve("accuracy", np.stack([1.0 - drawn, drawn], axis=1), y, classes=[0, 1], **settings)
    decided = found.predict(np.stack([1.0 - p, p], axis=1)) == 1
    flagged, right = share[decided].sum(), (share * p)[decided].sum()
    value = {"recall": right / (share * p).sum(), "rate": flagged, "precision": right / max(flagged, 1e-300)}
    kind, number = limit.partition("[")[0], float(limit.split()[-1])
    missed = value[kind] > number if kind == "rate" else value[kind] < number
    nothing = kind == "precision" and not decided.any()
    return Verdict(bool(found.constraints[0].assured), bool(missed) and not nothing, len(found.rule.weights))


def eight_classes(state):
    """Return probabilities (N, 8) and classes (N,) of rows that a model was not fitted on."""
    settings = {"n_features": 20, "n_informative": 10, "n_classes": 8, "n_clusters_per_class": 1, "flip_y": 0.02}
    X, t = make_classification(120_000, weights=WEIGHTS, class_sep=1.0, random_state=state, **settings)
    model = LogisticRegression(max_iter=500).fit(X[:OF_EIGHT], t[:OF_EIGHT])
    return model.predict_proba(X[OF_EIGHT:]), t[OF_EIGHT:]


class OfEight(NamedTuple):
    """A sample of eight classes: accuracy less that of argmax, whether assured, least recall, rules, seconds."""

    more: float
    assured: bool
    recall: float
    rules: int
    seconds: float


def of_eight(P, t, sample):
    """Return what a rule is worth on the population that is tuned on the ``sample``-th 8000 rows."""
    rows = slice(sample * OF_EIGHT, (sample + 1) * OF_EIGHT)
    settings = {"constraints": f"min_recall >= {FLOOR}", "confidence": CONFIDENCE, "on_infeasible": "closest"}
    start = time.process_time()
    found = solve("accuracy", P[rows], t[rows], classes=range(8), **settings)
    seconds = time.process_time() - start
    D = found.rule.decision_probabilities(P)
    hits = D[np.arange(len(t)), t]
    recall = min(hits[t == k].mean() for k in range(8))
    more = hits.mean() - (P.argmax(axis=1) == t).mean()
    return OfEight(more, bool(found.constraints[0].assured), recall, len(found.rule.weights), seconds)


@benchmark("truth-confidence-repeated", "[POPULATIONS] [SAMPLES]", "truth: confidence where rows repeat")
def measure_repeated(populations=10, samples=10, *, quick=False):
    """Measure samples of populations of few distinct rows."""
    populations, samples = (1, 2) if quick else (populations, samples)
    lines = []
    for m in DISTINCT:
        for place, kind in enumerate(KINDS):
            runs = [
                judged(m, seed, sample, limits_of(m, seed)[place], None)
                for seed in range(populations)
                for sample in range(samples)
            ]
            wrong = np.mean([one.assured and one.missed for one in runs])
            assured = np.mean([one.assured for one in runs])
            rules = max(one.rules for one in runs)
            lines.append([m, kind, len(runs), f"{assured:.0%}", f"{wrong:.1%}", rules])
    n = populations * samples
    error = np.sqrt(CONFIDENCE * (1 - CONFIDENCE) / n)
    return (
        f"populations with seeds 0 to {populations - 1}, {samples} samples of {ROWS} rows each, with seeds 0 to "
        f"{samples - 1}; accuracy within one limit, no calibration, confidence {CONFIDENCE}. "
        f"Assured and missed, by decisions of `predict`: at most a tenth of all samples, by chance up to "
        f"{1 - CONFIDENCE + 2 * error:.3f}.",
        markdown(
            ["distinct rows", "limit", "samples", "assured", "assured and missed", "most rules"],
            lines,
            2,
        ),
    )


@benchmark("truth-confidence-eight", "[SAMPLES]", "truth: confidence for the smallest of eight recalls")
def measure_eight(samples=6, *, quick=False):
    """Measure samples of populations of eight classes."""
    lines = []
    for state in STATES[: 1 if quick else None]:
        P, t = eight_classes(state)
        runs = [of_eight(P, t, sample) for sample in range(1 if quick else samples)]
        kept = [one for one in runs if one.assured]
        more = [one.more for one in kept]
        error = f" ± {paired(more)[1]:.4f}" if len(more) > 1 else ""
        mean = f"{np.mean(more):+.4f}{error}" if more else ""
        wrong = sum(one.recall < FLOOR for one in kept)
        seconds = np.mean([one.seconds for one in runs])
        rules = max(one.rules for one in runs)
        lines.append(
            [state, f"{len(kept)} of {len(runs)}", mean, min(more, default=""), wrong, rules, f"{seconds:.2f}"]
        )
    for line in lines:
        line[3] = f"{line[3]:+.4f}" if line[3] != "" else ""
    return (
        f"`make_classification` with random_state {', '.join(map(str, STATES))}; accuracy within min_recall >= "
        f"{FLOOR}, confidence {CONFIDENCE}, tuned on samples of {OF_EIGHT} rows, the first, the second and so on of "
        f"the population. The accuracy of the assured rules is that on all 112,000 rows less that of argmax there; "
        f"violated: the smallest recall there is below the floor.",
        markdown(
            ["random_state", "assured", "accuracy, mean", "least", "violated", "most rules", "processor seconds"], lines
        ),
    )
