"""confmax beside xcolumns, Nelder-Mead, argmax and p / prior on real probability tables.

    python -m benchmarks.rivals FOLDER_OF_NPZ          (needs xcolumns 0.0.2 from PyPI; without it its column is blank)

Each method (`benchmarks.methods`) is tuned on the tuning rows and scored on the labels of the test rows; rules that
draw are scored by their exact probabilities. confmax has its defaults, xcolumns the better of its two initial
classifiers on the tuning rows. The figures are written to the section "rivals" of benchmarks/RESULTS.md.
"""

from __future__ import annotations

import sys
import time
import warnings
from importlib.util import find_spec

import numpy as np
from scipy.stats import rankdata

import confmax
from benchmarks import methods
from benchmarks.harness import figures, load, markdown, over_present, paired, report, value
from confmax.confusion import Confusion

METRICS = ["g_mean", "h_mean", "q_mean", "macro_f1", "min_recall", "cohen_kappa"]
METHODS = {
    "confmax": methods.ours(),
    "xcolumns": methods.xcolumns("random", "top"),
    "Nelder-Mead": methods.nelder_mead(),
    "Nelder-Mead, wide": methods.nelder_mead(wide=True),
    "argmax": methods.argmax,
    "p/prior": methods.by_prior,
}
REPLICATES = 500
FEW = 20  # labels of a class
SHOWN = 5e-5  # smaller differences do not show in four digits


# --- scores -----------------------------------------------------------------------------------------------------------


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


def one_table(data):
    """Return {(metric, method): (test value, seconds)} and the list of losses beyond the bootstrap's interval."""
    W = replicates(data.z, np.random.default_rng(0))
    found, losses = {}, []
    for name in METRICS:
        tuning, decided = {}, {}
        for method, tune in METHODS.items():
            if method == "xcolumns" and find_spec("xcolumns") is None:
                found[name, method] = (np.nan, 0.0)
                continue
            start = time.perf_counter()
            decide = tune(name, data.P, data.y).decide
            seconds = time.perf_counter() - start
            decided[method], tuning[method] = decide(data.Q), value(name, data.y, decide(data.P))
            found[name, method] = (value(name, data.z, decided[method]), seconds)
            more = found[name, method][0] - found[name, "confmax"][0]
            if more > SHOWN:
                low, high = interval(name, data.z, decided[method], decided["confmax"], W)
                if low > 0:
                    why = reason(data, tuning["confmax"], tuning[method])
                    losses.append((data.stem, name, method, f"{more:+.4f} [{low:+.4f}, {high:+.4f}]", why))
    return found, losses


def reason(data, ours, theirs):
    """Return what the tuning rows say about a loss on the test rows."""
    count = np.bincount(data.y, minlength=data.K)
    share, mean = count / len(data.y), data.P.mean(axis=0, dtype=np.float64)
    off = np.abs(mean - share) / np.sqrt(np.maximum(share * (1 - share), 1 / len(data.y)) / len(data.y))
    parts = [f"on the tuning rows confmax {ours:.3f}, rival {theirs:.3f}"]
    if count.min() < FEW:
        parts.append(f"few labels: class {count.argmin()} has {count.min()}")
    if off.max() > 3:
        k = int(off.argmax())
        parts.append(f"miscalibrated: class {k} has mean probability {mean[k]:.3f} and share {share[k]:.3f}")
    return "; ".join(parts)


# --- the report -------------------------------------------------------------------------------------------------------


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


def table_of(name, results, tables):
    rows = []
    for data, (found, losses) in zip(tables, results, strict=True):
        marked = {method for _, metric, method, *_ in losses if metric == name}
        cells = figures(found[name, method][0] for method in METHODS)
        stars = (" *" if method in marked else "" for method in METHODS)
        rows.append([data.stem, *map("".join, zip(cells, stars, strict=True))])
    return markdown([f"**{name}**", *METHODS], rows)


def main(folder):
    tables = load(folder)
    with warnings.catch_warnings():
        # of the rivals (division by zero at an empty class) and of absent classes
        warnings.simplefilter("ignore")
        results = [one_table(data) for data in tables]
    rows, ranks, beaten = zip(*(summary_of(name, results) for name in METRICS), strict=True)
    overall, names = np.concatenate(ranks).mean(axis=0), list(METHODS)
    order = ", ".join(f"{names[m]} {overall[m]:.2f}" for m in np.argsort(overall) if not np.isnan(overall[m]))
    report(
        "rivals",
        f"`python -m benchmarks.rivals FOLDER` on {len(tables)} tables x {len(METRICS)} metrics: tuned on the "
        f"tuning rows, values on the test rows' labels (± standard error of the paired difference over tables); "
        f"xcolumns with k=1 and the better of its two initial classifiers, Nelder-Mead on log class weights from "
        f"1 / prior with at most min(200 K, 1500) evaluations, from scipy's first simplex and from a wide one.",
        f"Mean rank over all tables and metrics: {order}.",
        "Rivals better than confmax by more than two paired standard errors: "
        + ("; ".join(word for words in beaten for word in words) or "none")
        + ".",
        markdown(
            ["metric", "method", "mean test value", "mean rank", "confmax - rival", "seconds"],
            [row for some in rows for row in some],
            words=2,
        ),
        f"Where a rival exceeds confmax on one table and the 95 % interval of the difference lies above zero "
        f"(bootstrap of the test rows within each class, {REPLICATES} replicates), marked * below:",
        markdown(
            ["table", "metric", "rival", "rival - confmax", "why"], [loss for _, some in results for loss in some], 5
        ),
        *(table_of(name, results, tables) for name in METRICS),
    )


if __name__ == "__main__":
    main(sys.argv[1])
