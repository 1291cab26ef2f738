"""confmax on real probability tables: in how many passes, by which estimate, and beside which rivals.

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
from benchmarks.harness import MODEL, Data, benchmark, figures, keep, load, markdown, over_present, paired, value
from confmax.confusion import Confusion

MEANS = ["g_mean", "h_mean", "q_mean", "macro_f1", "min_recall"]


CERTIFIED = "g_mean h_mean q_mean min_recall cohen_kappa linear_kappa quadratic_kappa micro_f1 micro_f1_once f1 jaccard"


@benchmark("passes", "FOLDER")
def passes(folder):
    """Count the scans to a certified optimum: model confusion, a randomised rule."""
    tables, rows = load(folder), []
    for name in CERTIFIED.split():
        metric = confmax.metrics.get(name)
        some = [data for data in tables if data.K == 2 or not metric.binary]
        if not some:
            continue
        solutions = [confmax.maximize(name, data.P, randomized=True, tol=1e-6, **MODEL) for data in some]
        made, K = [solution.n_passes for solution in solutions], 2 if metric.binary else 3
        solver = confmax.optimize.choose("auto", metric, K, K, exact=True).name
        gap = max(solution.gap for solution in solutions)
        rows.append([name, solver, f"{np.median(made):.1f}", max(made), f"{gap:.1e}"])
    return [
        f"passes to a certified gap of 1e-6 on {len(tables)} tables, starting rules and final evaluation counted; "
        f"two-class tables of ratio metrics take ThresholdSearch.",
        markdown(["metric", "solver", "passes, median", "passes, most", "largest gap"], rows, words=2),
    ]


COMPARED = [*MEANS, "weighted_f1", "cohen_kappa", "quadratic_kappa", "mcc", "balanced_accuracy"]
MODES = ["labels", "blend", "model"]
SMALL = 300


def samples(data):
    """Yield three small samples, with three or more rows of each class, and all other rows to score on."""
    P, y = data.whole
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
            scores = [value(name, data.z, tune(name, data.P, data.y).decide(data.Q)) for data in parts]
            values[name, calibration, mode] = np.array(scores)
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


COMPETED = [*MEANS, "cohen_kappa"]
METHODS = {
    "confmax": methods.ours(),
    "xcolumns": methods.xcolumns("random", "top"),
    "Nelder-Mead": methods.nelder_mead(),
    "Nelder-Mead, wide": methods.nelder_mead(wide=True),
    "argmax": methods.argmax,
    "p/prior": methods.by_prior,
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
    return W / W.sum(axis=1, keepdims=True)


def interval(name, y, D, other, W):
    """Return the 95 % interval of a metric's difference between two rules' decision probabilities (n, K)."""
    metric, truth = over_present(confmax.metrics.get(name), y, D.shape[1]), np.eye(D.shape[1])[y]
    one, two = (metric.at(Confusion(W @ truth, W @ (truth * part), W @ part)).value for part in (D, other))
    return np.quantile(one - two, [0.025, 0.975])


def competed(data):
    """Return values and seconds (metrics, methods, 2), NaN without the package, and the losses beyond the interval."""
    W, results, losses = replicates(data.z, np.random.default_rng(0)), [], []
    for name in COMPETED:
        decided = {}
        for method, tune in METHODS.items():
            if method == "xcolumns" and find_spec("xcolumns") is None:
                results.append([np.nan, np.nan])
                continue
            start = time.perf_counter()
            decide = tune(name, data.P, data.y).decide
            seconds = time.perf_counter() - start
            decided[method] = decide(data.Q)
            theirs, ours = (value(name, data.z, D) for D in (decided[method], decided["confmax"]))
            results.append([theirs, seconds])
            if theirs > ours + SHOWN:
                low, high = interval(name, data.z, decided[method], decided["confmax"], W)
                if low > 0:
                    words = f"{data.stem}, {name}: {theirs:.4f} against {ours:.4f} [{low:+.4f}, {high:+.4f}]"
                    losses.append((method, theirs - ours, words))
    return np.array(results).reshape(len(COMPETED), len(METHODS), 2), losses


def beside(values):
    """Return the rows of the summary from values (tables, metrics, methods), mean ranks, and rivals that are better."""
    here = ~np.isnan(values).any(axis=(0, 1))
    ranks = np.full(values.shape, np.nan)
    # values that differ by rounding are ties
    ranks[..., here] = rankdata(-np.round(values[..., here], 9), axis=2)
    rows, better = [], []
    for m, name in enumerate(COMPETED):
        cells = figures(values[:, m, :1].mean(axis=0))
        for k, method in enumerate(METHODS):
            mean, error = paired(values[:, m, 0] - values[:, m, k])
            if k:
                lost = (values[:, m, k] > values[:, m, 0] + SHOWN).sum()
                cells.append(f"{values[:, m, k].mean():.4f}, {mean:+.4f} ± {error:.4f}, {lost}" if here[k] else "")
            if k and mean < -2 * error:
                better.append(f"{method} on {name}")
        rows.append([name, *cells])
    return rows, ranks.mean(axis=(0, 1)), better


@benchmark("rivals", "FOLDER")
def rivals(folder):
    """Compare the defaults with xcolumns, Nelder-Mead, argmax and p / prior."""
    tables = load(folder)
    results, losses = zip(*map(competed, tables), strict=True)
    values, seconds = np.moveaxis(results, 3, 0)
    rows, ranks, better = beside(values)
    placed = [one for one in zip(ranks, METHODS, seconds.sum(axis=(0, 1)), strict=True) if not np.isnan(one[0])]
    order = ", ".join(f"{name} {rank:.2f} ({taken:.1f} s)" for rank, name, taken in sorted(placed))
    every = [
        [data.stem, name, *figures(values[t, m])] for t, data in enumerate(tables) for m, name in enumerate(COMPETED)
    ]
    keep("rivals", ["table", "metric", *METHODS], every, 2)
    lost = [loss for some in losses for loss in some]
    ends = []
    for method in list(METHODS)[1:]:
        mine = [loss[1:] for loss in lost if loss[0] == method]
        ends.append([method, len(mine), max(mine)[1] if mine else ""])
    return [
        f"{len(tables)} tables x {len(COMPETED)} metrics, tuned on the tuning rows; mean value on the test rows' "
        f"labels, confmax - rival ± standard error of the paired difference over tables, and on how many tables the "
        f"rival is ahead; xcolumns with k=1 and the better of its two initial classifiers, Nelder-Mead on log class "
        f"weights from 1 / prior with at most min(200 K, 1500) evaluations, from scipy's first simplex and from a wide "
        f"one.",
        f"Mean rank over all tables and metrics (seconds in all): {order}. Rivals better than confmax by more than two "
        f"paired standard errors: {'; '.join(better) or 'none'}.",
        markdown(["metric", *METHODS], rows),
        f"Where a rival exceeds confmax on one table and the 95 % interval of the difference lies above zero "
        f"(bootstrap of the test rows within each class, {REPLICATES} replicates), of {len(tables) * len(COMPETED)}:",
        markdown(["rival", "times", "largest, rival against confmax"], ends),
    ]


FOR_RECALL = {
    "confmax": methods.ours(confusion="labels"),
    "confmax, raw": methods.ours(confusion="labels", calibration=None),
    "confmax, single": methods.ours(confusion="labels", randomized=False),
    "confmax, raw, single": methods.ours(confusion="labels", calibration=None, randomized=False),
    "Nelder-Mead": methods.nelder_mead(methods.in_numpy, most=sys.maxsize),
    "Nelder-Mead, wide": methods.nelder_mead(methods.in_numpy, wide=True, most=sys.maxsize),
}


@benchmark("worst-recall", "FOLDER", "worst recall")
def worst_recall(folder):
    """Compare the smallest recall on labels with direct searches over the class weights, both ways round."""
    tables, rows = load(folder, least=5), []
    both = {"tuning rows": tables, "test rows": [data.turned() for data in tables]}
    for words, some in both.items():
        smallest = []
        for data in some:
            rules = [tune("min_recall", data.P, data.y).decide for tune in FOR_RECALL.values()]
            parts = ((data.P, data.y), (data.Q, data.z))
            smallest.append([[value("min_recall", y, decide(P)) for P, y in parts] for decide in rules])
        smallest = np.array(smallest)
        reached = (smallest[:, :, 0] >= smallest[:, -2:, 0].max(axis=1, keepdims=True) - 1e-9).sum(axis=0)
        for m, method in enumerate(FOR_RECALL):
            count = f"{reached[m]} of {len(tables)}" if method.startswith("confmax") else ""
            rows.append([words, method, *figures(smallest[:, m].mean(axis=0)), count])
    return [
        f"means over the {len(tables)} tables of five classes or more of the smallest recall on the labels tuned on "
        f"and held out, and on how many of them it is on the labels tuned on at least that of the best direct search. "
        f"`confusion='labels'`; raw: `calibration=None`; single: `randomized=False`. The searches weigh the raw "
        f"probabilities.",
        markdown(["tuned on", "method", "there", "held out", "at least the best search"], rows, words=2),
    ]
