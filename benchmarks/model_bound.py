"""What the model says of rules that a blend tunes: how far they lie from the bound, whether it holds, what it costs.

    python -m benchmarks model-bound FOLDER_OF_NPZ [N_POPULATIONS]

Default settings. On every table and metric, the model's value of the returned rule is computed again by hand from its
decisions on the calibrated probabilities. The bound is compared with every rule at hand: the best rule of a run with
confusion="model", random weights, and on tiny populations all rules that there are. The times are those of whole calls,
with the bound and without it in turn, the shortest of five. Within limits, it is counted how often the rule misses one
on the model, so that there is no bound. The figures are written to the section "model bound" of RESULTS.md.
"""

from __future__ import annotations

import itertools
import warnings
from functools import partial
from unittest import mock

import numpy as np

import confmax
from benchmarks.harness import benchmark, counts, figures, load, markdown, shortest
from confmax.confusion import Gains
from confmax.oracle import make_oracle, make_table
from confmax.solution import search

METRICS = ("accuracy", "macro_f1", "g_mean", "min_recall", "cohen_kappa", "q_mean", "f1[{rarest}]")
TIMES, RANDOM_RULES, SEED = 5, 300, 0
TINY_ROWS, TINY_CLASSES = 5, 3


def solve(name, P, y, **settings):
    """Return what `maximize` finds, without its warnings on the data."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return confmax.maximize(name, P, y, **settings)


def without_bound(name, P, y):
    with mock.patch.object(search, "with_model_bound", lambda solution, *_, **__: solution):
        return solve(name, P, y)


def calibrated(found, P):
    """Return the calibrated probabilities of a solution."""
    table = make_table(P)
    return table if found.calibration is None else table.calibrated(found.calibration.calibrator)


def by_hand(found, P):
    """Return the metric of the rule's decisions under the calibrated probabilities."""
    table = calibrated(found, P)
    C = np.asarray(table.proba, dtype=np.float64).T @ found.rule.decision_probabilities(P) / len(P)
    return float(found.metric.value(C))


def most_of_others(found, P):
    """Return the best value under the calibrated probabilities that other rules have: a run's, and random ones'."""
    table = calibrated(found, P)
    rng = np.random.default_rng(SEED)
    weights = np.exp(rng.normal(size=(RANDOM_RULES, P.shape[1]))) / table.mean_probability()
    answers = make_oracle(table).maximize(Gains.reduced(weights), matrix=found.metric.statistics == "matrix")
    best = solve(found.metric, P, None, confusion="model", calibration=found.calibration, randomized=True)
    return max(float(np.max(found.metric.values(answers))), best.value), best


def of_tables(tables):
    """Return rows of text by metric, and by how much the values by hand and the bounds are off at most."""
    rows, off, below, above = [], 0.0, np.inf, -np.inf
    for name in METRICS:
        gaps, ratios = [], []
        for data in tables:
            text = name.format(rarest=int(np.bincount(data.y, minlength=data.K).argmin()))
            calls = (partial(without_bound, text, data.P, data.y), partial(solve, text, data.P, data.y))
            times = [[shortest(call, 1)[0] for call in calls] for _ in range(TIMES)]
            before, after = np.min(times, axis=0)
            found = calls[1]()
            others, best = most_of_others(found, data.P)
            gaps.append(found.model_gap)
            ratios.append(after / before)
            off = max(off, abs(found.model_value - by_hand(found, data.P)))
            below = min(below, found.model_upper_bound - others)
            above = max(above, found.model_upper_bound - best.upper_bound)
        rows.append([name.format(rarest="rarest"), *figures([np.median(gaps), max(gaps)], ".1e"),
                     *figures([np.median(ratios), max(ratios)], ".2f")])  # fmt: skip
    return rows, off, below, above


def on_tiny(count):
    """Return by how much the bound exceeds the best of all rules, at least, by metric."""
    least = dict.fromkeys(METRICS, np.inf)
    for seed in range(count):
        rng = np.random.default_rng(seed)
        y = np.arange(TINY_ROWS) % TINY_CLASSES
        # not against the labels, of which a user is warned
        P = (rng.dirichlet(np.ones(TINY_CLASSES), TINY_ROWS) + np.eye(TINY_CLASSES)[y]) / 2.0
        every = np.array(list(itertools.product(range(TINY_CLASSES), repeat=TINY_ROWS)))
        C = np.einsum("nk,anj->akj", P, np.eye(TINY_CLASSES)[every]) / TINY_ROWS
        for name in METRICS:
            found = solve(name.format(rarest=2), P, y, calibration=None, randomized=bool(seed % 2))
            most = max(found.metric.value(each) for each in C)
            least[name] = min(least[name], found.model_upper_bound - most)
    return least


def within_limits(tables):
    """Return how many calls with limits there were, how many rules miss one on the model, and by how much at most."""
    calls, missed = 0, []
    for data in tables:
        sizes = np.bincount(data.y, minlength=data.K)
        k, share = int(sizes.argmin()), sizes.min() / len(data.y)
        by_prior = counts(data.y, np.eye(data.K)[(data.P / np.maximum(sizes, 1)).argmax(axis=1)])
        floor = 0.9 * by_prior[k, k] / max(sizes[k], 1)
        limits = (f"recall[{k}] >= {floor:.3f}", f"rate[{k}] <= {1.2 * share:.4f}", "min_recall >= 0.1")
        for limit in limits:
            found = solve("accuracy", data.P, data.y, constraints=limit, on_infeasible="closest")
            if found.infeasibility is None:
                calls += 1
                missed += [-one.model_slack for one in found.constraints if one.model_slack < 0.0]
    return calls, missed


@benchmark("model-bound", "FOLDER", "model bound")
def main(folder, count=200):
    tables = load(folder)
    rows, off, below, above = of_tables(tables)
    least = on_tiny(int(count))
    calls, missed = within_limits(tables)
    return [
        f"default settings on {len(tables)} tables. Gap: `model_gap`. Time: "
        f"a whole call divided by the same call without the bound, each the shortest of {TIMES}.",
        markdown(["metric", "gap, median", "most", "time, median", "most"], rows),
        f"`model_value` differs from the value by hand by {off:.0e} at most. `model_upper_bound` lies above the best "
        f"of {RANDOM_RULES} random rules and a run on the model by {below:.0e} or more, and above the bound of this "
        f"run by {above:.0e} at most. On {count} tiny populations it lies above the best of all "
        f"{TINY_CLASSES**TINY_ROWS} rules by {min(least.values()):.0e} or more.",
        f"Accuracy within a floor on the recall of the rarest class, a ceiling on its rate, or a floor on all recalls: "
        f"in {len(missed)} of {calls} calls whose rule keeps the limit on the blend, it misses it on the model, by "
        f"{max(missed, default=0.0):.3f} at most, and there is no bound.",
    ]
