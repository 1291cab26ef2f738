"""Upper bounds: on means of scores of classes, and what the model says of rules that a blend tunes.

Bounds on means of scores: model confusion, no calibration, a randomised rule, at most 24 passes. "Separate" is the mean
of the classes' separate maxima; the bound is the one that `maximize` returns.

The model's bound: default settings. The model's value of the returned rule is computed again by hand from its decisions
on the calibrated probabilities. The bound is compared with every rule at hand: the best rule of a run on the model,
and random weights. The times are those of whole calls, with the bound and without it in turn, the shortest of five.
Within limits, it is counted how often the rule misses one on the model, so that there is no bound.
"""

from __future__ import annotations

from functools import partial
from unittest import mock

import numpy as np

import confmax
from benchmarks.harness import MODEL, benchmark, counts, figures, keep, load, markdown, shortest, solve
from confmax.confusion import Gains
from confmax.optimize.conditional_gradient import Levels
from confmax.optimize.loop import baselines
from confmax.oracle import CountingOracle, make_oracle, make_table
from confmax.solution import search
from confmax.tables import apply_calibrator

MEANS = [
    confmax.metrics.get("macro_f1"),
    confmax.metrics.get("macro_f_beta", beta=2),
    confmax.metrics.get("weighted_f1"),
    confmax.metrics.get("macro_jaccard"),
    confmax.metrics.get("macro_precision"),
]
PASSES = 24


def separate(metric, P):
    """Return the weighted mean of the classes' separate maxima."""
    oracle = CountingOracle(make_oracle(make_table(P)))
    rules = baselines(oracle, [oracle.rows], P.shape[1], matrix=False)
    levels = Levels.start(metric.as_ratios(oracle.rows, P.shape[1]), tuple(rules))
    for _ in range(20):
        levels = levels.answered(oracle.maximize(levels.gains(1e-9)), 1e-9)
    return levels.bound


def on_means(data):
    """Return figures (metrics, 3) of a table: the gap, that of the separate maxima, and passes."""
    rows = []
    for metric in MEANS:
        solution = confmax.maximize(metric, data.P, randomized=True, max_passes=PASSES, **MODEL)
        gap = solution.upper_bound - solution.value
        rows.append([gap, separate(metric, data.P) - solution.value, solution.n_passes])
    return rows


@benchmark("bounds", "FOLDER")
def bounds(folder):
    """Compare upper bounds on means of scores with the values reached."""
    tables = load(folder)
    every = np.array([on_means(data) for data in tables])
    names = [repr(metric) for metric in MEANS]
    rows = [[data.stem, *figures(gaps[:, :2].ravel())] for data, gaps in zip(tables, every, strict=True)]
    keep("bounds", ["table", *(f"{name}, {what}" for name in names for what in ("bound", "separate"))], rows)
    lines = []
    for words, some in (("three classes or more", [d.K > 2 for d in tables]), ("two", [d.K == 2 for d in tables])):
        for m, name in enumerate(names if any(some) else []):
            gap, wide, passes = every[some][:, m].T
            cells = (f"{np.median(part):.5f}, {part.max():.5f}" for part in (gap, wide))
            lines.append([f"{words}, {sum(some)} tables", name, *cells, f"{np.median(passes):.0f}, {passes.max():.0f}"])
    return [
        f"upper bound minus value, at most {PASSES} passes: median and most. Separate: the mean of the classes' "
        f"separate maxima, minus the same value.",
        markdown(["classes", "metric", "bound", "separate", "passes"], lines, 2),
    ]


METRICS = ("accuracy", "macro_f1", "g_mean", "min_recall", "cohen_kappa", "q_mean", "f1[{rarest}]")
TIMES, RANDOM_RULES = 5, 300


def without_bound(name, P, y):
    with mock.patch.object(search, "with_model_bound", lambda solution, *_, **__: solution):
        return solve(name, P, y)


def calibrated(solution, P):
    """Return the calibrated probabilities of a solution."""
    return apply_calibrator(None if solution.calibration is None else solution.calibration.calibrator, P)


def by_hand(solution, P):
    """Return the metric of the rule's decisions under the calibrated probabilities."""
    decided = solution.rule.decision_probabilities(P)
    return float(solution.metric.value(np.asarray(calibrated(solution, P), dtype=np.float64).T @ decided / len(P)))


def most_of_others(solution, P):
    """Return the best value under the calibrated probabilities that other rules have, and the run on the model."""
    table = make_table(calibrated(solution, P))
    weights = np.exp(np.random.default_rng(0).normal(size=(RANDOM_RULES, P.shape[1]))) / table.mean_probability()
    answers = make_oracle(table).maximize(Gains.reduced(weights), matrix=solution.metric.statistics == "matrix")
    best = solve(solution.metric, P, None, confusion="model", calibration=solution.calibration, randomized=True)
    return max(float(np.max(solution.metric.values(answers))), best.value), best


def of_model(tables):
    """Return rows of text by metric, and how far values by hand and the bounds are off: most, least and most."""
    rows, off = [], []
    for name in METRICS:
        gaps, ratios = [], []
        for data in tables:
            text = name.format(rarest=int(data.sizes.argmin()))
            calls = (partial(without_bound, text, data.P, data.y), partial(solve, text, data.P, data.y))
            before, after = np.min([[shortest(call, 1)[0] for call in calls] for _ in range(TIMES)], axis=0)
            solution = calls[1]()
            others, best = most_of_others(solution, data.P)
            gaps.append(solution.model_gap)
            ratios.append(after / before)
            bound = solution.model_upper_bound
            off.append(
                [abs(solution.model_value - by_hand(solution, data.P)), bound - others, bound - best.upper_bound]
            )
        texts = [*figures([np.median(gaps), max(gaps)], ".1e"), *figures([np.median(ratios), max(ratios)], ".2f")]
        rows.append([name.format(rarest="rarest"), *texts])
    by_hand_off, below, above = np.transpose(off)
    return rows, by_hand_off.max(), below.min(), above.max()


def within_limits(tables):
    """Return how many calls with limits there were, and by how much rules miss one on the model."""
    calls, missed = 0, []
    for data in tables:
        sizes = data.sizes
        k, share = int(sizes.argmin()), sizes.min() / len(data.y)
        by_prior = counts(data.y, np.eye(data.K)[(data.P / np.maximum(sizes, 1)).argmax(axis=1)])
        floor = 0.9 * by_prior[k, k] / max(sizes[k], 1)
        for limit in (f"recall[{k}] >= {floor:.3f}", f"rate[{k}] <= {1.2 * share:.4f}", "min_recall >= 0.1"):
            solution = solve("accuracy", data.P, data.y, constraints=limit, on_infeasible="closest")
            if solution.infeasibility is None:
                calls += 1
                missed += [-one.model_slack for one in solution.constraints if one.model_slack < 0.0]
    return calls, missed


@benchmark("model-bound", "FOLDER", "model bound")
def model_bound(folder):
    """Compare the model's bound with the rules at hand, and count how often there is none."""
    tables = load(folder)
    rows, off, below, above = of_model(tables)
    calls, missed = within_limits(tables)
    return [
        f"default settings on {len(tables)} tables. Gap: `model_gap`. Time: a whole call divided by the same call "
        f"without the bound, each the shortest of {TIMES}.",
        markdown(["metric", "gap, median", "most", "time, median", "most"], rows),
        f"`model_value` differs from the value by hand by {off:.0e} at most. `model_upper_bound` lies above the best "
        f"of {RANDOM_RULES} random rules and a run on the model by {below:.0e} or more, and above the bound of this "
        f"run by {above:.0e} at most. Accuracy within a floor on the recall of the rarest class, a ceiling on its "
        f"rate, or a floor on all recalls: in {len(missed)} of {calls} calls whose rule keeps the limit on the blend, "
        f"it misses it on the model, by {max(missed, default=0.0):.3f} at most, and there is no bound.",
    ]
