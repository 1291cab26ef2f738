"""confmax beside xcolumns, Nelder-Mead, argmax and p / prior on real probability tables.

    python -m benchmarks.rivals FOLDER_OF_NPZ          (needs xcolumns 0.0.2 from PyPI; without it its column is blank)

Each method is tuned on (P_tune, y_tune) and scored on the labels of the test rows; rules that draw are scored by their
exact probabilities. The figures are written to the section "rivals" of benchmarks/RESULTS.md.

* confmax: ``confmax.maximize(metric, P, y)``, all defaults.
* xcolumns: its Frank-Wolfe search with a budget of one label per row (k=1), its defaults otherwise; its own macro F1,
  and for the multi-class means, the smallest recall and kappa, which it lacks, functions of (tp, fp, fn, tn) as its
  interface takes them. Of its two initial classifiers ("random", seed 0, and "top") the better on the tuning rows.
* Nelder-Mead: scipy's, on the logarithms of the class weights, from 1 / prior, on the metric of the tuning labels,
  at most min(200 K, 1500) evaluations; with scipy's first simplex, 5 % of each coordinate, and with a wide one, steps
  of 1, which searches further and fits the tuning rows more closely.
"""

from __future__ import annotations

import functools
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.optimize import minimize
from scipy.stats import rankdata

import confmax
from benchmarks.results import write_section
from confmax.confusion import Confusion, Gains
from confmax.oracle import make_oracle, make_table

try:
    import autograd.numpy as anp
    from xcolumns.frank_wolfe import find_classifier_using_fw
    from xcolumns.metrics import macro_f1_score_on_conf_matrix
    from xcolumns.weighted_prediction import predict_weighted_per_instance
except ImportError:  # the other columns do not need it
    find_classifier_using_fw = None

METRICS = ["g_mean", "h_mean", "q_mean", "macro_f1", "min_recall", "cohen_kappa"]
METHODS = ["confmax", "xcolumns", "Nelder-Mead", "Nelder-Mead, wide", "argmax", "p/prior"]
REPLICATES = 500
FEW = 20  # labels of a class
SHOWN = 5e-5  # smaller differences do not show in four digits
EPSILON = 1e-6  # xcolumns' own guard against division by zero


# --- the methods: each returns a function from probabilities (n, K) to decision probabilities (n, K) ------------------


def by_weights(weights):
    rule = confmax.DecisionRule.from_weights(weights)
    return rule.decision_probabilities


def tune_confmax(name, P, y):
    return confmax.maximize(name, P, y).rule.decision_probabilities


def tune_argmax(_name, P, _y):
    return by_weights(np.ones(P.shape[1]))


def tune_prior(_name, P, y):
    return by_weights(inverse_prior(P, y))


def inverse_prior(P, y):
    count = np.bincount(y, minlength=P.shape[1])
    return np.divide(len(y), count, out=np.zeros(P.shape[1]), where=count > 0)


def tune_nelder_mead(name, P, y, wide=False):
    K, metric = P.shape[1], over_present(confmax.metrics.get(name), y, P.shape[1])
    oracle = make_oracle(make_table(P, y, None, range(K)), "labels")

    def value(weights):
        return float(metric.at(oracle.maximize(Gains.reduced(weights))).value[0])

    return by_weights(search_weights(value, inverse_prior(P, y), wide=wide)[0])


def search_weights(value, start, *, wide=False):
    """Return the class weights (K,) at which Nelder-Mead ends that maximises ``value``, and its evaluations."""
    K, logs = len(start), np.log(np.maximum(start, 1e-3))
    options = {"maxfev": min(200 * K, 1500)}
    if wide:
        options["initial_simplex"] = np.vstack([logs, logs + np.eye(K)])
    found = minimize(lambda x: -value(weights_of(x)), logs, method="Nelder-Mead", options=options)
    return weights_of(found.x), found.nfev


def weights_of(logs):
    return np.exp(np.clip(logs - logs.max(), -80.0, 0.0))


def recalls(tp, fn):
    return tp / (tp + fn + EPSILON)


def kappa(tp, fp, fn, _tn):
    chance = anp.sum((tp + fp) * (tp + fn))
    return (anp.sum(tp) - chance) / (1.0 - chance)


XCOLUMNS = {
    "g_mean": lambda tp, _fp, fn, _tn: anp.exp(anp.mean(anp.log(recalls(tp, fn) + EPSILON))),
    "h_mean": lambda tp, _fp, fn, _tn: 1.0 / anp.mean(1.0 / (recalls(tp, fn) + EPSILON)),
    "q_mean": lambda tp, _fp, fn, _tn: 1.0 - anp.sqrt(anp.mean((1.0 - recalls(tp, fn)) ** 2)),
    "macro_f1": lambda tp, fp, fn, tn: macro_f1_score_on_conf_matrix(tp, fp, fn, tn),
    "min_recall": lambda tp, _fp, fn, _tn: anp.min(recalls(tp, fn)),
    "cohen_kappa": kappa,
}


def tune_xcolumns(name, P, y):
    if find_classifier_using_fw is None:
        return None
    P64, Y = P.astype(np.float64), np.eye(P.shape[1])[y]
    candidates = []
    for start in ("random", "top"):
        found, meta = frank_wolfe(name, P64, Y, start)
        candidates.append((-np.inf if np.isnan(meta["utilities"][-1]) else meta["utilities"][-1], found))
    best = max(candidates, key=lambda pair: pair[0])[1]

    def decide(Q):
        atoms = zip(best.p, best.a, best.b, strict=True)
        parts = [p * predict_weighted_per_instance(Q.astype(np.float64), 1, a=a, b=b) for p, a, b in atoms if p > 0]
        return np.sum(parts, axis=0)

    return decide


def frank_wolfe(name, P, Y, start):
    """Return xcolumns' classifier and its record, from probabilities and one-hot labels (n, K) of one dtype."""
    return find_classifier_using_fw(Y, P, XCOLUMNS[name], k=1, init_classifier=start, seed=0, return_meta=True)


TUNE = {
    "confmax": tune_confmax,
    "xcolumns": tune_xcolumns,
    "Nelder-Mead": tune_nelder_mead,
    "Nelder-Mead, wide": functools.partial(tune_nelder_mead, wide=True),
    "argmax": tune_argmax,
    "p/prior": tune_prior,
}


# --- scores -----------------------------------------------------------------------------------------------------------


def over_present(metric, y, K):
    """Return the metric over the classes that the labels hold, where it divides by their sizes."""
    present = np.bincount(y, minlength=K) > 0
    return metric if present.all() or not metric.divides_by_prior else metric.over(np.flatnonzero(present).tolist())


def values_of(metric, y, D, W):
    """Return the metric (B,) of decision probabilities D (n, K) on rows weighted by each row of W (B, n)."""
    truth = np.eye(D.shape[1])[y]
    W = W / W.sum(axis=1, keepdims=True)
    return metric.at(Confusion(W @ truth, W @ (truth * D), W @ D)).value


def replicates(y, rng):
    """Return how often each row is drawn (B, n) in bootstrap samples within each class: no class is ever lost."""
    W = np.zeros((REPLICATES, len(y)))
    for k in np.unique(y):
        rows = np.flatnonzero(y == k)
        drawn = rng.integers(0, len(rows), size=(REPLICATES, len(rows)))
        flat = (np.arange(REPLICATES)[:, None] * len(rows) + drawn).ravel()
        W[:, rows] = np.bincount(flat, minlength=REPLICATES * len(rows)).reshape(REPLICATES, len(rows))
    return W


def one_table(path):
    """Return {(metric, method): (test value, seconds)} and the list of losses beyond the bootstrap's interval."""
    data = np.load(path)
    P, y, P_test, y_test = data["P_tune"], data["y_tune"], data["P_test"], data["y_test"]
    W = replicates(y_test, np.random.default_rng(0))
    found, losses = {}, []
    for name in METRICS:
        metric = over_present(confmax.metrics.get(name), y_test, P.shape[1])
        on_tuning = over_present(confmax.metrics.get(name), y, P.shape[1])
        ours = None
        for method in METHODS:
            start = time.perf_counter()
            rule = TUNE[method](name, P, y)
            seconds = time.perf_counter() - start
            if rule is None:
                found[name, method] = (np.nan, 0.0)
                continue
            D = rule(P_test)
            value = float(values_of(metric, y_test, D, np.ones((1, len(y_test))))[0])
            tuning = float(values_of(on_tuning, y, rule(P), np.ones((1, len(y))))[0])
            found[name, method] = (value, seconds)
            if method == "confmax":
                ours = value, tuning, D
            elif value > ours[0] + SHOWN:
                drawn = values_of(metric, y_test, D, W) - values_of(metric, y_test, ours[2], W)
                low, high = np.quantile(drawn, [0.025, 0.975])
                if low > 0:
                    why = reason(P, y, ours[1], tuning)
                    losses.append((path.stem, name, method, value - ours[0], low, high, why))
    return found, losses


def reason(P, y, ours, theirs):
    """Return what the tuning rows say about a loss on the test rows."""
    count = np.bincount(y, minlength=P.shape[1])
    share, mean = count / len(y), P.mean(axis=0, dtype=np.float64)
    off = np.abs(mean - share) / np.sqrt(np.maximum(share * (1 - share), 1 / len(y)) / len(y))
    parts = [f"on the tuning rows confmax {ours:.3f}, rival {theirs:.3f}"]
    if count.min() < FEW:
        parts.append(f"few labels: class {count.argmin()} has {count.min()}")
    if off.max() > 3:
        k = int(off.argmax())
        parts.append(f"miscalibrated: class {k} has mean probability {mean[k]:.3f} and share {share[k]:.3f}")
    return "; ".join(parts)


# --- the report -------------------------------------------------------------------------------------------------------


def summary_of(name, results):
    """Return one metric's lines of the summary, the ranks (tables, methods), and rivals better by two errors."""
    values = np.array([[found[name, method][0] for method in METHODS] for found, _ in results])
    seconds = np.array([[found[name, method][1] for method in METHODS] for found, _ in results]).sum(axis=0)
    here = ~np.isnan(values).any(axis=0)
    ranks = np.full(values.shape, np.nan)
    # values that differ by rounding are ties
    ranks[:, here] = rankdata(-np.round(values[:, here], 9), axis=1)
    lines, beaten = [], []
    for m, method in enumerate(METHODS):
        if not here[m]:
            lines.append(f"{name} | {method} | | | | ")
            continue
        cell = ""
        if m:
            d = values[:, 0] - values[:, m]
            error = d.std(ddof=1) / np.sqrt(len(d))
            cell = f"{d.mean():+.4f} ± {error:.4f}"
            if d.mean() < -2 * error:
                beaten.append(f"{method} on {name} ({cell})")
        lines.append(
            f"{name} | {method} | {values[:, m].mean():.4f} | {ranks[:, m].mean():.2f} | {cell} | {seconds[m]:.1f}"
        )
    return lines, ranks, beaten


def table_of(name, results, stems):
    lines = [f"**{name}** | " + " | ".join(METHODS), "---|" + "---:|" * len(METHODS)]
    for stem, (found, losses) in zip(stems, results, strict=True):
        marked = {method for _, metric, method, *_ in losses if metric == name}
        cells = [f"{found[name, method][0]:.4f}" + (" *" if method in marked else "") for method in METHODS]
        lines.append(f"{stem} | " + " | ".join(cell.replace("nan", "") for cell in cells))
    return "\n".join(lines)


def report(results, stems):
    lines = ["metric | method | mean test value | mean rank | confmax - rival | seconds", "---|---|---:|---:|---:|---:"]
    ranks, beaten = [], []
    for name in METRICS:
        more, rank, worse = summary_of(name, results)
        lines += more
        ranks.append(rank)
        beaten += worse
    overall = np.concatenate(ranks).mean(axis=0)
    order = ", ".join(f"{METHODS[m]} {overall[m]:.2f}" for m in np.argsort(overall) if not np.isnan(overall[m]))
    losses = [
        f"{stem} | {name} | {method} | {d:+.4f} [{low:+.4f}, {high:+.4f}] | {why}"
        for _, found in results
        for stem, name, method, d, low, high, why in found
    ]
    return "\n\n".join(
        [
            f"`python -m benchmarks.rivals FOLDER` on {len(results)} tables x {len(METRICS)} metrics: tuned on the "
            f"tuning rows, values on the test rows' labels (± standard error of the paired difference over tables); "
            f"xcolumns with k=1 and the better of its two initial classifiers, Nelder-Mead on log class weights from "
            f"1 / prior with at most min(200 K, 1500) evaluations, from scipy's first simplex and from a wide one.",
            f"Mean rank over all tables and metrics: {order}.",
            "Rivals better than confmax by more than two paired standard errors: "
            + ("; ".join(beaten) or "none")
            + ".",
            "\n".join(lines),
            f"Where a rival exceeds confmax on one table and the 95 % interval of the difference lies above zero "
            f"(bootstrap of the test rows within each class, {REPLICATES} replicates), marked * below:",
            "\n".join(["table | metric | rival | rival - confmax | why", "---|---|---|---:|---", *losses]),
            *(table_of(name, results, stems) for name in METRICS),
        ]
    )


def main(folder):
    start = time.perf_counter()
    paths, results = sorted(Path(folder).glob("*.npz")), []
    for path in paths:
        with warnings.catch_warnings():
            # of the rivals (division by zero at an empty class) and of absent classes
            warnings.simplefilter("ignore")
            results.append(one_table(path))
        print(f"{path.stem}: {time.perf_counter() - start:.0f} s", flush=True)
    text = report(results, [path.stem for path in paths])
    write_section("rivals", text)
    print(text)


if __name__ == "__main__":
    main(sys.argv[1])
