"""Several labels per row: what decisions are worth on rows that were not tuned on, and what is proved of them.

Each NPZ of the folder holds P_tune, Y_tune, P_test and Y_test, matrices (n, L). The rows of both parts are split anew
into halves. A value is that of the labels that some test row has.
"""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import numpy as np

import confmax
from benchmarks.harness import benchmark, keep, markdown
from confmax.confusion import ABSENT, Confusion
from confmax.metrics import labels as label_metrics
from confmax.tables.decisions import decisions_of

RESPLITS = 6
FEW = {"tmc2007": 2}  # resplits of large tables
METRICS = ("macro_f1", "macro_recall", "g_mean")
CONCAVE = ("g_mean", "h_mean", "coverage")
BOUNDED = ("macro_f1", "macro_f_beta", "weighted_f1", "macro_jaccard")
RIVAL = "xCOLUMNs FW"
ANY_METRICS = ("macro_f1", "macro_jaccard", "g_mean", "balanced_accuracy", "micro_f1")
SEARCH = "search per label"
SHARES = (0.6, 0.8, 1.0)  # of the labels per row
TINY = 600  # random tables on which all decisions are enumerated


def tables(folder):
    """Yield name, P_tune, Y_tune, P_test and Y_test of the tables of a folder."""
    for path in sorted(Path(folder).glob("*.npz")):
        with np.load(path) as data:
            yield path.stem, *(data[name] for name in ("P_tune", "Y_tune", "P_test", "Y_test"))


def resplits(name, P_tune, Y_tune, P_test, Y_test):
    """Yield halves of all rows: P and Y to tune on, and P and Y to test on."""
    P, Y = np.concatenate([P_tune, P_test]), np.concatenate([Y_tune, Y_test])
    for seed in range(FEW.get(name.rpartition("_")[0], RESPLITS)):
        order = np.random.default_rng(seed).permutation(len(P))
        first, second = order[: len(P) // 2], order[len(P) // 2 :]
        yield P[first], Y[first], P[second], Y[second]


def value(metric, Y, chances):
    """Return a metric of decisions, or of their probabilities (n, L), over the labels that some row has."""
    present = Y.any(axis=0)
    Y, chances = Y[:, present], chances[:, present]
    return float(metric.values(Confusion(Y.mean(axis=0), (Y * chances).mean(axis=0), chances.mean(axis=0))))


def by_rival(name, k, P, Y):
    """Return the chances (n, L) that xCOLUMNs' Frank-Wolfe decides rows with, as a function of their P; None without.

    Its wrappers for one metric each raise a TypeError in 0.0.2, so its general search gets the function itself.
    """
    try:
        from xcolumns import metrics
        from xcolumns.frank_wolfe import find_classifier_using_fw
    except ImportError:
        return None
    words = {"macro_f1": "macro_f1_score", "macro_recall": "macro_recall", "g_mean": "macro_gmean"}
    psi = getattr(metrics, f"{words[name]}_on_conf_matrix")
    truth, proba = Y.astype(np.float64), P.astype(np.float64)
    found = find_classifier_using_fw(truth, proba, psi, k, init_classifier="top", seed=0)
    decisions = decisions_of(k)

    def chances(rows):
        parts = zip(found.p, found.a, found.b, strict=True)
        return sum(share * decisions.chosen(a * rows + b) for share, a, b in parts)

    return chances


def tested(name, k, P, Y, P_test, Y_test):
    """Return the test values of one metric by method."""
    metric = label_metrics.resolve(name, decisions_of(k))
    prior = Y.mean(axis=0)
    scale = np.divide(1.0, prior, out=np.zeros(len(prior)), where=prior > ABSENT)
    chosen = decisions_of(k).chosen
    decided = {
        f"top-{k}": chosen(P_test),
        f"top-{k} of p/prior": chosen(P_test * scale),
        "confmax": confmax.maximize(name, P, Y, decisions=k).predict(P_test),
    }
    rival = by_rival(name, k, P, Y)
    if rival is not None:
        decided[RIVAL] = rival(P_test)
    return {method: value(metric, Y_test, made) for method, made in decided.items()}


def of_any_labels(name, P, Y, P_test, Y_test):
    """Return the test values of one metric by the ways to decide any labels of a row."""
    given = {"decisions": "any", "confusion": "labels", "calibration": None}
    metric = label_metrics.resolve(name, decisions_of("any"))
    # what people do: for every label the threshold that is best for its own F1, or G-mean, on its labels
    alone = "g_mean" if name == "g_mean" else "macro_f1"
    decided = {
        "p > .5": P_test > 0.5,
        SEARCH: confmax.maximize(alone, P, Y, **given).predict(P_test),
        "the same on the model": confmax.maximize(name, P, Y, decisions="any", confusion="model").predict(P_test),
        "confmax": confmax.maximize(name, P, Y, decisions="any").predict(P_test),
    }
    return {method: value(metric, Y_test, made) for method, made in decided.items()}


@benchmark("multilabel-any", "FOLDER", section="several labels: any, on other rows")
def any_labels(folder):
    """Compare thresholds by default with p > .5 and a search for every label, on other rows."""
    rows, gains = [], {}
    for name, *parts in tables(folder):
        for metric in ANY_METRICS:
            splits = [of_any_labels(metric, *split) for split in resplits(name, *parts)]
            means = {method: np.mean([split[method] for split in splits]) for method in splits[0]}
            rows.append([name, metric, *(f"{mean:.4f}" for mean in means.values())])
            gains.setdefault(metric, {})[name] = means["confmax"] - means[SEARCH]
    lines = []
    for metric, by_table in gains.items():
        every = np.array(list(by_table.values()))
        apart = np.array(["enron" in name for name in by_table])
        parts = (every, every[apart], every[~apart]) if apart.any() and not apart.all() else (every, every[:0], every)
        means = (f"{part.mean():+.4f}" if len(part) else "-" for part in parts)
        lines.append([metric, *means, f"{every.min():+.4f}", (every > 0).sum(), len(every)])
    return [
        f"by default, on halves of all rows, {RESPLITS} times (tmc2007 twice), seeds 0 to {RESPLITS - 1}. Test values "
        f"over the labels that a test row has. The {SEARCH} is that of F1 on labels, for g_mean that of the G-mean.",
        markdown(["table", "metric", *splits[0]], rows, words=2),
        markdown([f"confmax minus {SEARCH}", "mean", "enron", "others", "least", "above", "tables"], lines),
    ]


@benchmark("multilabel-together", "FOLDER", section="several labels: one threshold within limits")
def together(folder):
    """Compare one threshold for micro F1 within limits with those of single labels, on the tuning rows and others."""
    metric = label_metrics.resolve("micro_f1", decisions_of("any"))
    rows = []
    for name, *parts in tables(folder):
        apart = []
        for (P, Y, P_test, Y_test), share in itertools.product(resplits(name, *parts), SHARES):
            given = {"decisions": "any", "constraints": f"labels_per_row <= {share * Y.sum(axis=1).mean():.4f}"}
            one, own = (confmax.maximize("micro_f1", P, Y, shrinkage=word, **given) for word in ("auto", False))
            new = [value(metric, Y_test, found.predict(P_test)) for found in (one, own)]
            apart.append([own.value - one.value, new[1] - new[0]])
        every = np.array(apart)
        rows.append([name, *(f"{mean:+.4f}" for mean in every.mean(axis=0)), (every[:, 1] > 0).sum(), len(every)])
    return [
        f"micro F1 within labels_per_row of {', '.join(f'{share:g}' for share in SHARES)} times the true "
        f"labels of a row, on halves of all rows: the value with a threshold for each label (`shrinkage=False`) less "
        f"that with one for all labels (the default), on the estimate and on test rows.",
        markdown(["table", "estimate", "test rows", "each ahead", "of"], rows),
    ]


@benchmark("multilabel-quality", "FOLDER", section="several labels: budgets on other rows")
def quality(folder):
    """Compare budgets of three labels with the rules of practice and with xCOLUMNs on other rows."""
    rows, differences = [], {}
    for name, *parts in tables(folder):
        for metric in METRICS:
            splits = [tested(metric, 3, *split) for split in resplits(name, *parts)]
            means = {method: np.mean([split[method] for split in splits]) for method in splits[0]}
            rows.append([name, f"{metric}@3", *(f"{mean:.4f}" for mean in means.values())])
            for method, mean in means.items():
                differences.setdefault((metric, method), []).append(means["confmax"] - mean)
    head = ["table", "metric", *means]
    keep("multilabel quality", head, rows, words=2)
    others = [method for method in means if method != "confmax"]
    lines = []
    for metric, method in itertools.product(METRICS, others):
        d = np.array(differences[metric, method])
        error = d.std(ddof=1) / np.sqrt(len(d))
        lines.append(
            [f"{metric}@3", method, f"{d.mean():+.4f}", f"{error:.4f}", f"{d.min():+.4f}", (d > 0).sum(), len(d)]
        )
    return [
        f"by default, on halves of all rows, {RESPLITS} times (tmc2007 twice), seeds 0 to {RESPLITS - 1}. Test values "
        f"over the labels that a test row has; {RIVAL} (0.0.2, on the labels, from the top rule) counts as it draws. "
        "Its coefficients for G-means are not finite on five of the tables, so that row is no measure of its search.",
        markdown(head, rows, words=2),
        markdown(["confmax minus", "", "mean", "paired error", "least", "above", "tables"], lines, words=2),
    ]


@benchmark("multilabel-bounds", "FOLDER", section="several labels: what is proved of budgets")
def bounds(folder):
    """Measure bound minus value on calibrated models, and the passes of concave metrics."""
    rows, gaps, passes = [], {}, {}
    for name, P, Y, *_ in tables(folder):
        for k, metric in itertools.product((1, 3), ("macro_f1", *CONCAVE)):
            start = time.perf_counter()
            drawn = metric in CONCAVE
            found = confmax.maximize(metric, P, Y, decisions=k, confusion="model", randomized=drawn)
            spent = time.perf_counter() - start
            rows.append(
                [name, f"{metric}@{k}", f"{found.value:.4f}", f"{found.gap:.1e}", found.n_passes, f"{spent:.2f}"]
            )
            gaps.setdefault((metric, k), []).append(found.gap)
            passes.setdefault((metric, k), []).append(found.n_passes)
    keep("multilabel bounds", ["table", "metric", "value", "gap", "passes", "seconds"], rows, words=2)
    lines = [
        [
            f"{metric}@{k}",
            f"{np.median(gap):.1e}",
            f"{max(gap):.1e}",
            np.median(passes[metric, k]),
            max(passes[metric, k]),
        ]
        for (metric, k), gap in gaps.items()
    ]
    violated, closest = enumerated(TINY)
    return [
        "the calibrated model of the tune rows; concave metrics by the rule that draws.",
        markdown(["metric", "gap, median", "largest", "passes, median", "most"], lines),
        f"On {TINY} random tables of up to 5 rows and 4 labels, seed 0, all decisions were enumerated: {violated} "
        f"bounds were below the best of them, the closest {closest:.1e} above.",
    ]


def enumerated(count):
    """Return how many bounds of random tiny tables some decision exceeds, and by how much the closest lies above."""
    rng = np.random.default_rng(0)
    violated, closest = 0, np.inf
    for trial in range(count):
        n, L = rng.integers(2, 6), rng.integers(2, 5)
        most = int(rng.integers(1, min(L, 3)))
        k = most if trial % 2 else ("at_most", most)
        P = rng.beta(0.6, 1.4, (n, L))
        P = P.round(1) if trial % 3 == 0 else P
        P[0] = np.maximum(P[0], 0.01)
        weight = rng.uniform(0.1, 2.0, n)
        found = confmax.maximize(
            BOUNDED[trial % len(BOUNDED)], P, sample_weight=weight, decisions=k, confusion="model", calibration=None
        )
        best = best_of_all(found.metric, P, weight / weight.sum(), decisions_of(k))
        violated += bool(found.upper_bound < best - 1e-12)
        closest = min(closest, found.upper_bound - best)
    return violated, closest


def best_of_all(metric, P, w, decisions):
    """Return the largest value over all ways to decide rows P (n, L) of weights w (n,)."""
    every = 2.0 * np.array(list(itertools.product((0, 1), repeat=P.shape[1]))) - 1.0
    sets = np.array([one > 0 for one in every if (decisions.chosen(one) == (one > 0)).all()])
    sums = np.zeros((2, 1, P.shape[1]))
    for p, weight in zip(P, w, strict=True):
        more = weight * np.stack([p * sets, sets])
        sums = (sums[:, :, None] + more[:, None]).reshape(2, -1, P.shape[1])
    return float(metric.values(Confusion(w @ P, *sums)).max())
