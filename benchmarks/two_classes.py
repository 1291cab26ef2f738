"""The best mixture of two classes against an independent optimum over all mixtures of thresholds.

    python -m benchmarks.two_classes [TABLES]

Small tables by seed, ties and sure rows included; labels, blend and model. The smallest recall is compared with a
linear program over all thresholds, the G-, H- and Q-mean with a one-dimensional search between every pair of corners of
the convex hull. On the model the same is done for all rules that decide equal rows alike. The largest difference of
each is written to the section "two classes" of benchmarks/RESULTS.md.
"""

from __future__ import annotations

import itertools
import sys
import warnings

import numpy as np
from scipy.optimize import linprog, minimize_scalar

import confmax
from benchmarks.results import write_section

METRICS = ["min_recall", "g_mean", "h_mean", "q_mean"]
MODES = {"labels": 0.0, "blend": None, "model": 1.0}


def small_table(seed):
    """Return P (n, 2), y and weights of 3 to 8 rows: ties in two of three tables, sure rows in some."""
    rng = np.random.default_rng([13, seed])
    n = int(rng.integers(3, 9))
    p = rng.random(n)
    if seed % 3:
        p = np.round(p * 4) / 4
    y = (rng.random(n) < 0.5).astype(int)
    y[:2] = 0, 1
    if 0.0 < p.sum() < n:
        return np.column_stack([1 - p, p]), y, rng.integers(1, 4, n).astype(float)
    return small_table(seed + 10**6)


def value_of(name, recalls):
    """Return a metric at two recalls, by its definition."""
    low, high = min(recalls), max(recalls)
    if name == "min_recall":
        return low
    if name == "g_mean":
        return np.sqrt(max(low, 0.0) * high)
    if name == "h_mean":
        return 2 * low * high / (low + high) if low > 0 else 0.0
    return 1 - np.sqrt(((1 - low) ** 2 + (1 - high) ** 2) / 2)


def recalls_of(P, y, weight, share, *, all_rules):
    """Return the recalls (A, 2) of all thresholds on p, or of all rules that decide equal rows alike."""
    truth = (share * P + (1 - share) * np.eye(2)[y]) * (weight / weight.sum())[:, None]
    levels, which = np.unique(P[:, 1], return_inverse=True)
    if all_rules:
        rules = itertools.product([0, 1], repeat=len(levels))
        decisions = [np.array(rule)[which] for rule in rules]
    else:
        decisions = [(P[:, 1] >= level).astype(int) for level in [*levels, np.inf]]
    return np.array([[truth[d == k, k].sum() for k in (0, 1)] for d in decisions]) / truth.sum(axis=0)


def corners_of(recalls):
    """Return the points that no other point dominates: between two of them lies the best mixture."""
    kept = [a for a in recalls if not any((b >= a).all() and (b > a).any() for b in recalls)]
    return np.unique(np.round(kept, 15), axis=0)


def best_by_definition(name, P, y, weight, share, *, all_rules=False):
    """Return the largest value of a metric over all mixtures."""
    recalls = recalls_of(P, y, weight, share, all_rules=all_rules)
    if name == "min_recall":
        n = len(recalls)
        result = linprog(
            np.append(np.zeros(n), -1.0), A_ub=np.hstack([-recalls.T, np.ones((2, 1))]), b_ub=np.zeros(2),
            A_eq=[np.append(np.ones(n), 0.0)], b_eq=[1.0], bounds=[(0, None)] * n + [(None, None)],
        )  # fmt: skip
        return -result.fun
    corners = corners_of(recalls)
    best = max(value_of(name, corner) for corner in corners)
    for a, b in itertools.combinations(corners, 2):
        found = minimize_scalar(
            lambda t, a=a, b=b: -value_of(name, (1 - t) * a + t * b), bounds=(0, 1), method="bounded",
            options={"xatol": 1e-12},
        )  # fmt: skip
        best = max(best, -found.fun)
    return best


def main(n_tables=1000):
    warnings.simplefilter("ignore")
    lines = ["metric | labels | blend | model | model, all rules", "---|---:|---:|---:|---:"]
    for name in METRICS:
        worst = dict.fromkeys((*MODES, "all rules"), 0.0)
        for seed in range(n_tables):
            P, y, weight = small_table(seed)
            for mode, share in MODES.items():
                solution = confmax.maximize(
                    name, P, y, sample_weight=weight, confusion=mode, calibration=None, randomized=True
                )
                used = solution.model_share if share is None else share
                optimum = best_by_definition(name, P, y, weight, used)
                worst[mode] = max(worst[mode], abs(solution.value - optimum))
                if mode == "model":
                    optimum = best_by_definition(name, P, y, weight, used, all_rules=True)
                    worst["all rules"] = max(worst["all rules"], abs(solution.value - optimum))
        lines.append(f"{name} | " + " | ".join(f"{worst[mode]:.1e}" for mode in worst))
        print(lines[-1], flush=True)
    write_section(
        "two classes",
        f"`python -m benchmarks.two_classes {n_tables}`: the best mixture of two classes, largest |value - optimum| "
        f"over {n_tables} small tables.\n\n" + "\n".join(lines),
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
