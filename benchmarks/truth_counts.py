"""Rows that are expected without labels: intervals against the exact distribution, and against labels that are drawn.

Probabilities of a class are drawn by Beta distributions whose parameters are 10^u, u uniform in (-2, 1) and (-2, 2):
from nearly certain rows to rows of one probability. The exact distribution is a convolution, a row at a time.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import confmax
from benchmarks.harness import benchmark, markdown
from confmax.confusion import Gains
from confmax.rule.counts import COUNTS, EXACT_ROWS, FURTHER, Sums

SIZES = (10, 50, 256, 257, 1000, 5000)
TABLES = 300
BATCHES, DRAWS = 200, 20
LEVEL = 0.95


def distribution(p):
    """Return the distribution (n + 1,) of the number of true rows."""
    chances = np.ones(1)
    for one in p:
        chances = np.convolve(chances, [1.0 - one, one])
    return chances


def ends(chances):
    """Return the exact ends of an interval."""
    below = np.cumsum(chances)
    tail = (1.0 - LEVEL) / 2
    return np.array([np.argmax(below > tail + 1e-9), np.argmax(below >= 1.0 - tail - 1e-9)])


def of_rows(p):
    """Return the interval of the number of true rows among rows with the probabilities ``p`` (n,), by their moments."""
    rule = confmax.DecisionRule.from_weights([1.0, 1.0])
    sums = Sums.of(rule, np.column_stack([1.0 - p, p]), np.ones(len(p), np.int64))
    return [part.counts(rule, LEVEL).intervals["right"][1] for part in (sums, without_rows(sums))]


def without_rows(sums):
    """Return sums whose rows are not known, as those of many rows."""
    return replace(sums, rows=None)


def against_convolution(rng):
    """Return a line for every number of rows: how often ends are exact, how much wider, and the least coverage."""
    lines = []
    for n in SIZES:
        off, least = [], []
        for _ in range(TABLES):
            p = rng.beta(10 ** rng.uniform(-2, 1), 10 ** rng.uniform(-2, 2), n).clip(0.0, 1.0)
            chances = distribution(p)
            found, by_moments = of_rows(p)
            exact = ends(chances)
            off.append([np.abs(found - exact).max(), np.abs(by_moments - exact).max()])
            least.append([chances[low : high + 1].sum() for low, high in (found, by_moments)])
        off, least = np.array(off), np.array(least).min(axis=0)
        same = (off == 0).mean(axis=0)
        lines.append([f"{n}", f"{same[0]:.0%}", f"{off[:, 0].max()}", f"{least[0]:.4f}", f"{same[1]:.0%}",
                      f"{off[:, 1].max()}", f"{least[1]:.4f}"])  # fmt: skip
    return lines


def against_labels(rng):
    """Return how often numbers of rows lie in their intervals: of batches of two to six classes, labels drawn anew."""
    inside = {what: [] for what in (*COUNTS, FURTHER)}
    for _ in range(BATCHES):
        K = int(rng.integers(2, 7))
        n = int(10 ** rng.uniform(1.0, 3.7))
        P = rng.dirichlet(10 ** rng.uniform(-1.5, 1.0, K), n).clip(1e-12)
        P /= P.sum(axis=1, keepdims=True)
        weights = 10 ** rng.uniform(-1.0, 1.0, K)
        rule = confmax.DecisionRule.from_weights(weights)
        if rng.random() < 0.5:
            gains = np.hstack([np.diag(weights), np.full((K, 1), weights.mean() / 2)])
            rule = confmax.DecisionRule(Gains.from_matrix(gains), np.ones(1), (*range(K), "ask"), abstain="ask")
        cap = {0: int(rng.integers(0, n))} if rng.random() < 0.5 else None
        decided = rule.predict_index(P, at_most=cap)
        intervals = rule.expected_counts(P, at_most=cap).intervals
        for _ in range(DRAWS):
            y = (rng.random((n, 1)) > P.cumsum(axis=1)).sum(axis=1).clip(0, K - 1)
            true, right, further = (np.bincount(part, minlength=K) for part in (y, y[y == decided], y[decided == K]))
            numbers = {"true": true, "right": right, "missed": true - right - further, FURTHER: further}
            for what, ends_of_it in intervals.items():
                low, high = ends_of_it.T
                inside[what] += ((low <= numbers[what]) & (numbers[what] <= high)).tolist()
    return [[what, f"{len(found):,}", f"{np.mean(found):.2%}"] for what, found in inside.items()]


@benchmark("truth-counts", section="truth: counts")
def counts():
    """Compare intervals of expected rows with exact ones, and count how often labels keep them."""
    return [
        f"intervals of level {LEVEL} of the number of right rows, {TABLES} classes for each number of rows, seed 0. "
        f"Exact: both ends are those of the convolution. As used: the distribution up to {EXACT_ROWS} rows, "
        f"the corrected normal interval from there on. Moments: that interval always.",
        markdown(["rows", "as used: exact", "rows off, most", "least coverage", "moments: exact", "rows off, most",
                  "least coverage"], against_convolution(np.random.default_rng(0))),
        f"Labels drawn {DRAWS} times from the probabilities of {BATCHES} batches of 10 to 5000 rows, half of them with "
        f"`at_most`, half of rules that abstain, seed 1: how often the number of rows of a class lies in its interval.",
        markdown(["number", "intervals", "inside"], against_labels(np.random.default_rng(1))),
    ]  # fmt: skip
