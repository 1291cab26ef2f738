"""confmax on real probability tables: what it gains, beside which rivals, by which estimate, in how many passes.

A rule is tuned on the tuning rows and scored on the labels of the test rows; rules that draw are scored by their exact
probabilities. `benchmarks.methods` describes the rivals; without xcolumns (0.0.2 from PyPI) its column is blank.
"""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec

import numpy as np
from scipy.stats import rankdata

import confmax
from benchmarks import methods
from benchmarks.harness import Data, benchmark, figures, load, markdown, over_present, paired, spread, value
from confmax.confusion import Confusion

MEANS = ["g_mean", "h_mean", "q_mean", "macro_f1", "min_recall"]
PLAIN = {"argmax": methods.argmax, "p/prior": methods.by_prior}


# --- quality: three estimates beside two baselines --------------------------------------------------------------------

ESTIMATES = {
    "default": {},
    "labels": {"confusion": "labels", "calibration": None},
    "model": {"confusion": "model", "calibration": None},
}


def one_table(data):
    """Return test values {(metric, column)}, and (runs, runs below a baseline) over all metrics that apply."""
    values, runs, below = {}, 0, 0
    for name in confmax.metrics.names():
        if name == "linear" or (confmax.metrics.get(name).binary and data.K != 2):
            continue
        for mode, settings in ESTIMATES.items():
            solution = confmax.maximize(name, data.P, data.y, **settings)
            runs += 1
            below += solution.value < max(solution.baselines.values()) - 1e-12
            if name in MEANS:
                values[name, mode] = value(name, data.z, solution.rule.decision_probabilities(data.Q))
    for column, tune in PLAIN.items():
        for name in MEANS:
            values[name, column] = value(name, data.z, tune(name, data.P, data.y).decide(data.Q))
    return values, runs, below


@benchmark("quality", "FOLDER")
def quality(folder):
    """Compare defaults, labels alone and the model alone with argmax and p / prior."""
    found = {data.stem: one_table(data) for data in load(folder)}
    runs, below = (sum(counted[k] for counted in found.values()) for k in (1, 2))
    columns, rows, every = [*PLAIN, *ESTIMATES], [], []
    for name in MEANS:
        values = np.array([[one[name, column] for column in columns] for one, _, _ in found.values()])
        ranks = (values[:, None, :] > values[:, :, None] + 1e-9).sum(axis=2) + 1
        lost = (values[:, 2:] < values[:, :2].max(axis=1, keepdims=True) - 1e-9).sum(axis=0)
        rows.append([name, *figures(values.mean(axis=0)), ", ".join(figures(ranks.mean(axis=0), ".2f")), *lost])
        every += [[stem, name, *figures(row)] for stem, row in zip(found, values, strict=True)]
    head = ["metric", *columns, "mean ranks", *(f"{mode} below the better baseline on" for mode in ESTIMATES)]
    spread("quality", ["table", "metric", *columns], every, 2)
    return [
        f"means over {len(found)} tables of the values on the test rows' labels; `default` is confmax's defaults, "
        f"`labels` and `model` that estimate without calibration. The tuning objective is below argmax or p/prior in "
        f"{below} of {runs} runs (all metrics that apply, three settings).",
        markdown(head, rows),
    ]


# --- passes -----------------------------------------------------------------------------------------------------------

CERTIFIED = [
    "g_mean",
    "h_mean",
    "q_mean",
    "min_recall",
    "cohen_kappa",
    "linear_kappa",
    "quadratic_kappa",
    "micro_f1",
    "micro_f1_once",
    "f1",
    "jaccard",
]


@benchmark("passes", "FOLDER")
def passes(folder):
    """Count the scans to a certified optimum: model confusion, a randomised rule."""
    tables, rows = load(folder), []
    for name in CERTIFIED:
        metric = confmax.metrics.get(name)
        found = [
            confmax.maximize(name, data.P, confusion="model", calibration=None, randomized=True, tol=1e-6)
            for data in tables
            if data.K == 2 or not metric.binary
        ]
        made, K = [solution.n_passes for solution in found], 2 if metric.binary else 3
        solver = confmax.optimize.choose("auto", metric, K, K, exact=True).name
        gap = max(solution.gap for solution in found)
        rows.append([name, solver, f"{np.median(made):.1f}", max(made), f"{gap:.1e}"])
    return [
        f"passes to a certified gap of 1e-6 on {len(tables)} tables, starting rules and final evaluation counted; "
        f"two-class tables of ratio metrics take ThresholdSearch.",
        markdown(["metric", "solver", "passes, median", "passes, most", "largest gap"], rows, words=2),
    ]


# --- confusion: labels, model, or a blend; with and without calibration -----------------------------------------------

COMPARED = [*MEANS, "weighted_f1", "cohen_kappa", "quadratic_kappa", "mcc", "balanced_accuracy"]
MODES = ["labels", "blend", "model"]
SMALL = 300


def samples(data):
    """Yield three small samples, with three or more rows of each class, and all other rows to score on."""
    P, y = np.vstack([data.P, data.Q]), np.concatenate([data.y, data.z])
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(y))
        some = np.concatenate([order[y[order] == k][:3] for k in range(data.K)])
        rest = order[~np.isin(order, some)]
        chosen = np.concatenate([some, rest[: max(min(SMALL, len(y) // 3) - len(some), 0)]])
        held = np.setdiff1d(order, chosen)
        yield Data(data.stem, P[chosen], y[chosen], P[held], y[held])


def by_estimate(parts, columns):
    """Return a table of mean held-out values by metric, with the paired differences of the blend."""
    values = {}
    for calibration, mode in columns:
        tune = methods.ours(confusion=mode, calibration=calibration)
        for name in COMPARED:
            found = [value(name, data.z, tune(name, data.P, data.y).decide(data.Q)) for data in parts]
            values[name, calibration, mode] = np.array(found)
    rows = []
    for name in COMPARED:
        differences = [values[name, "auto", "blend"] - values[name, "auto", other] for other in ("labels", "model")]
        cells = ["{:+.4f} ({:.4f}), {}/{}".format(*paired(d), (d > 1e-9).sum(), (d < -1e-9).sum()) for d in differences]
        rows.append([name, *figures(values[name, *column].mean() for column in columns), *cells])
    means = figures(np.mean([values[name, *column] for name in COMPARED]) for column in columns)
    head = ["metric", *(mode + ("" if calibration else ", raw") for calibration, mode in columns)]
    head += ["blend - labels (s.e.), won/lost", "blend - model (s.e.), won/lost"]
    return markdown(head, [*rows, ["mean", *means, "", ""]])


@benchmark("confusion", "FOLDER")
def confusion(folder):
    """Tune by every estimate on both halves of the tables, and on small samples of them."""
    tables = load(folder)
    calibrated = [("auto", mode) for mode in MODES]
    every = [(None, mode) for mode in MODES] + calibrated
    return [
        f"held-out values on labels, `randomized='auto'`, `calibration='auto'` unless raw. Two-fold cross-fitting over "
        f"{len(tables)} tables ({2 * len(tables)} values per cell):",
        by_estimate([part for data in tables for part in (data, data.turned())], every),
        f"Small samples, at most {SMALL} rows, three per table ({3 * len(tables)} values per cell):",
        by_estimate([part for data in tables for part in samples(data)], calibrated),
    ]


# --- rivals -----------------------------------------------------------------------------------------------------------

COMPETED = [*MEANS, "cohen_kappa"]
METHODS = {
    "confmax": methods.ours(),
    "xcolumns": methods.xcolumns("random", "top"),
    "Nelder-Mead": methods.nelder_mead(),
    "Nelder-Mead, wide": methods.nelder_mead(wide=True),
    **PLAIN,
}
REPLICATES = 500
SHOWN = 5e-5  # smaller differences do not show in four digits


def replicates(y, rng):
    """Return how often each row is drawn (B, n) in bootstrap samples within each class: no class is ever lost."""
    W = np.zeros((REPLICATES, len(y)))
    for k in np.unique(y):
        rows = np.flatnonzero(y == k)
        drawn = rng.integers(0, len(rows), size=(REPLICATES, len(rows)))
        flat = (np.arange(REPLICATES)[:, None] * len(rows) + drawn).ravel()
        W[:, rows] = np.bincount(flat, minlength=REPLICATES * len(rows)).reshape(REPLICATES, len(rows))
    return W


def interval(name, y, D, other, W):
    """Return the 95 % interval of a metric's difference between two rules' decision probabilities (n, K)."""
    metric, truth = over_present(confmax.metrics.get(name), y, D.shape[1]), np.eye(D.shape[1])[y]
    W = W / W.sum(axis=1, keepdims=True)
    one, two = (metric.at(Confusion(W @ truth, W @ (truth * part), W @ part)).value for part in (D, other))
    return np.quantile(one - two, [0.025, 0.975])


def competed(data):
    """Return {(metric, method): (test value, seconds)} and the list of losses beyond the bootstrap's interval."""
    W = replicates(data.z, np.random.default_rng(0))
    found, losses = {}, []
    for name in COMPETED:
        decided = {}
        for method, tune in METHODS.items():
            if method == "xcolumns" and find_spec("xcolumns") is None:
                found[name, method] = (np.nan, 0.0)
                continue
            start = time.perf_counter()
            decide = tune(name, data.P, data.y).decide
            seconds = time.perf_counter() - start
            decided[method] = decide(data.Q)
            found[name, method] = (value(name, data.z, decided[method]), seconds)
            theirs, ours = found[name, method][0], found[name, "confmax"][0]
            if theirs > ours + SHOWN:
                low, high = interval(name, data.z, decided[method], decided["confmax"], W)
                if low > 0:
                    both = f"{theirs:.4f}, {ours:.4f}"
                    fewest = int(np.bincount(data.y, minlength=data.K).min())
                    more = f"{theirs - ours:+.4f} [{low:+.4f}, {high:+.4f}]"
                    losses.append([data.stem, name, method, both, more, fewest])
    return found, losses


def summary_of(name, results):
    """Return one metric's rows of the summary, the ranks (tables, methods), and rivals better by two errors."""
    values, seconds = np.moveaxis([[found[name, method] for method in METHODS] for found, _ in results], 2, 0)
    here = ~np.isnan(values).any(axis=0)
    ranks = np.full(values.shape, np.nan)
    # values that differ by rounding are ties
    ranks[:, here] = rankdata(-np.round(values[:, here], 9), axis=1)
    rows, beaten = [], []
    for m, method in enumerate(METHODS):
        mean, error = paired(values[:, 0] - values[:, m])
        cell = f"{mean:+.4f} ± {error:.4f}" if m and here[m] else ""
        if m and mean < -2 * error:
            beaten.append(f"{method} on {name} ({cell})")
        shown = [*figures([values[:, m].mean()]), *figures([ranks[:, m].mean()], ".2f"), cell]
        rows.append([name, method, *shown, f"{seconds[:, m].sum():.1f}" if here[m] else ""])
    return rows, ranks, beaten


@benchmark("rivals", "FOLDER")
def rivals(folder):
    """Compare the defaults with xcolumns, Nelder-Mead, argmax and p / prior."""
    tables = load(folder)
    results = [competed(data) for data in tables]
    rows, ranks, beaten = zip(*(summary_of(name, results) for name in COMPETED), strict=True)
    overall, names = np.concatenate(ranks).mean(axis=0), list(METHODS)
    order = ", ".join(f"{names[m]} {overall[m]:.2f}" for m in np.argsort(overall) if not np.isnan(overall[m]))
    every = [
        [data.stem, name, *figures(found[name, method][0] for method in METHODS)]
        for name in COMPETED
        for data, (found, _) in zip(tables, results, strict=True)
    ]
    spread("rivals", ["table", "metric", *METHODS], every, 2)
    return [
        f"{len(tables)} tables x {len(COMPETED)} metrics, tuned on the tuning rows, values on the test rows' labels (± "
        f"standard error of the paired difference over tables); xcolumns with k=1 and the better of its two initial "
        f"classifiers, Nelder-Mead on log class weights from 1 / prior with at most min(200 K, 1500) evaluations, from "
        f"scipy's first simplex and from a wide one.",
        f"Mean rank over all tables and metrics: {order}. Rivals better than confmax by more than two paired standard "
        f"errors: {'; '.join(word for words in beaten for word in words) or 'none'}.",
        markdown(
            ["metric", "method", "mean test value", "mean rank", "confmax - rival", "seconds"],
            [row for some in rows for row in some],
            words=2,
        ),
        f"Where a rival exceeds confmax on one table and the 95 % interval of the difference lies above zero "
        f"(bootstrap of the test rows within each class, {REPLICATES} replicates):",
        markdown(
            ["table", "metric", "rival", "rival, confmax", "difference", "fewest labels of a class"],
            [loss for _, some in results for loss in some],
            words=3,
        ),
    ]


# --- the smallest recall on labels ------------------------------------------------------------------------------------

OURS = {
    "confmax": {},
    "confmax, raw": {"calibration": None},
    "confmax, single": {"randomized": False},
    "confmax, raw, single": {"calibration": None, "randomized": False},
}
SEARCHES = {
    "Nelder-Mead": methods.nelder_mead(methods.in_numpy, most=sys.maxsize),
    "Nelder-Mead, wide": methods.nelder_mead(methods.in_numpy, wide=True, most=sys.maxsize),
    "random": methods.at_random,
}
ALL = {name: methods.ours(confusion="labels", **settings) for name, settings in OURS.items()} | SEARCHES


def smallest_recalls(tables):
    """Return the smallest recall on the labels tuned on and on those held out (tables, methods, 2)."""
    found = []
    for data in tables:
        decide = [tune("min_recall", data.P, data.y).decide for tune in ALL.values()]
        both = ((data.P, data.y), (data.Q, data.z))
        found.append([[value("min_recall", y, one(P)) for P, y in both] for one in decide])
    return np.array(found)


@benchmark("worst-recall", "FOLDER", "worst recall")
def worst_recall(folder):
    """Compare the smallest recall on labels with direct searches over the class weights, both ways round."""
    tables, rows, every = load(folder, least=5), [], []
    both = {"tuning rows": tables, "test rows": [data.turned() for data in tables]}
    for words, some in both.items():
        found = smallest_recalls(some)
        best = found[:, len(OURS) :, 0].max(axis=1, keepdims=True)
        reached = (found[:, : len(OURS), 0] >= best - 1e-9).sum(axis=0)
        for m, method in enumerate(ALL):
            mean = figures(found[:, m].mean(axis=0))
            rows.append([words, method, *mean, f"{reached[m]} of {len(tables)}" if m < len(OURS) else ""])
        every += [[words, data.stem, *figures(one[:, 0])] for data, one in zip(some, found, strict=True)]
    spread("worst recall", ["tuned on", "table", *ALL], every, 2)
    return [
        f"means over the {len(tables)} tables of five classes or more of the smallest recall on the labels tuned on "
        f"and held out, and on how many of them it is on the labels tuned on at least that of the best direct search. "
        f"`confusion='labels'`; raw: `calibration=None`; single: `randomized=False`. The searches weigh the raw "
        f"probabilities.",
        markdown(["tuned on", "method", "there", "held out", "at least the best search"], rows, words=2),
    ]
