"""The smallest recall on labels: confmax beside direct searches over the class weights.

    python -m benchmarks.worst_recall FOLDER_OF_NPZ

For every table of five classes or more, in both directions (tuned on the tuning rows and scored on the test rows, and
the other way round): the smallest recall on the labels that were tuned on, and on those held out. Rules that draw are
scored by their exact probabilities. The figures are written to the section "worst recall" of benchmarks/RESULTS.md.

* confmax: ``confmax.maximize("min_recall", P, y, confusion="labels")``, defaults otherwise; "raw" with
  ``calibration=None``, "single" with ``randomized=False``.
* Nelder-Mead: scipy's, on the logarithms of the class weights of the raw probabilities, from 1 / prior, at most 200 K
  evaluations; with scipy's first simplex, 5 % of each coordinate, and with a wide one, steps of 1.
* random: the best of 200 weight vectors, log-normal around 1 / prior with a spread of 1, and of 200 of Dirichlet(1) /
  prior.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

import confmax
from benchmarks.confusion import halves
from benchmarks.results import write_section

OURS = {
    "confmax": {},
    "confmax, raw": {"calibration": None},
    "confmax, single": {"randomized": False},
    "confmax, raw, single": {"calibration": None, "randomized": False},
}
RIVALS = ["Nelder-Mead", "Nelder-Mead, wide", "random"]
METHODS = [*OURS, *RIVALS]


def smallest_recall(y, D):
    """Return the smallest recall of decision probabilities D (n, K) over the classes that y (n,) holds."""
    return min(float(D[y == k, k].mean()) for k in np.unique(y))


def by_weights(logs):
    rule = confmax.DecisionRule.from_weights(np.exp(np.clip(logs - logs.max(), -80.0, 0.0)))
    return rule.decision_probabilities


def tune(method, P, y):
    """Return a function from probabilities (n, K) to decision probabilities (n, K)."""
    K = P.shape[1]
    if method in OURS:
        solution = confmax.maximize("min_recall", P, y, classes=range(K), confusion="labels", **OURS[method])
        return solution.rule.decision_probabilities
    members = [(k, np.flatnonzero(y == k)) for k in np.unique(y)]

    def value(logs):
        decided = (P * np.exp(np.clip(logs - logs.max(), -80.0, 0.0))).argmax(axis=1)
        return min((decided[rows] == k).mean() for k, rows in members)

    start = np.log(len(y) / np.maximum(np.bincount(y, minlength=K), 1))
    if method == "random":
        rng = np.random.default_rng(0)
        around = start + rng.normal(size=(200, K))
        anywhere = start + np.log(np.maximum(rng.dirichlet(np.ones(K), 200), 1e-300))
        return by_weights(max([*around, *anywhere], key=value))
    options = {"maxfev": 200 * K}
    if method == "Nelder-Mead, wide":
        options["initial_simplex"] = np.vstack([start, start + np.eye(K)])
    found = minimize(lambda logs: -value(logs), start, method="Nelder-Mead", options=options)
    return by_weights(found.x)


def one_table(P, y, Q, z):
    """Return tuning value, held-out value and seconds (methods, 3)."""
    rows = []
    for method in METHODS:
        start = time.perf_counter()
        rule = tune(method, P, y)
        seconds = time.perf_counter() - start
        rows.append((smallest_recall(y, rule(P)), smallest_recall(z, rule(Q)), seconds))
    return np.array(rows)


def verdict(results, stems, rivals):
    """Return in words on how many tables each way to call confmax reaches the best of the named direct searches."""
    places = [METHODS.index(rival) for rival in rivals]
    parts = []
    for m, method in enumerate(OURS):
        missed = [
            f"{stem} ({found[m, 0]:.4f} against {found[places, 0].max():.4f})"
            for stem, found in zip(stems, results, strict=True)
            if found[m, 0] < found[places, 0].max() - 1e-9
        ]
        parts.append(f"{method} {len(results) - len(missed)}" + (f" (not {', '.join(missed)})" if missed else ""))
    return "; ".join(parts)


def table_of(results, stems):
    lines = ["table | " + " | ".join(METHODS), "---|" + "---:|" * len(METHODS)]
    for stem, found in zip(stems, results, strict=True):
        lines.append(f"{stem} | " + " | ".join(f"{tuning:.3f} / {held:.3f}" for tuning, held, _ in found))
    mean = np.mean(results, axis=0)
    lines.append("mean | " + " | ".join(f"{tuning:.4f} / {held:.4f}" for tuning, held, _ in mean))
    worst = np.max(results, axis=0)[:, 2]
    seconds = [f"{mean[m, 2]:.1f} / {worst[m]:.1f}" for m in range(len(METHODS))]
    lines.append("seconds, mean / most | " + " | ".join(seconds))
    return "\n".join(lines)


def main(folder):
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    directions, stems = ([], []), []
    for path in sorted(Path(folder).glob("*.npz")):
        data = np.load(path)
        if data["P_tune"].shape[1] < 5:
            continue
        stems.append(path.stem)
        for direction, part in zip(directions, halves(data), strict=True):
            direction.append(one_table(*part))
        print(f"{path.stem}: {time.perf_counter() - start:.0f} s", flush=True)
    forward, back = directions
    text = "\n\n".join(
        [
            f"`python -m benchmarks.worst_recall FOLDER` on the {len(stems)} tables of five classes or more: the "
            f"smallest recall on the labels tuned on / held out. `confusion='labels'`; raw: `calibration=None`; "
            f"single: `randomized=False`. Nelder-Mead and the random search weigh the raw probabilities.",
            "Tuned on the tuning rows:",
            table_of(forward, stems),
            "Tuned on the test rows, held out the tuning rows:",
            table_of(back, stems),
            f"At least the best direct search on the labels tuned on, of {len(stems)} tables: "
            f"{verdict(forward, stems, RIVALS)}. The other way round: {verdict(back, stems, RIVALS)}.",
            f"Without the wide simplex: {verdict(forward, stems, RIVALS[::2])}. The other way round: "
            f"{verdict(back, stems, RIVALS[::2])}.",
        ]
    )
    write_section("worst recall", text)
    print(text)


if __name__ == "__main__":
    main(sys.argv[1])
