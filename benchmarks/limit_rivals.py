"""Limits by label counts: beside OxonFair, MAPIE and Nelder-Mead with a penalty.

    python -m benchmarks limit-rivals FOLDER_OF_NPZ      (needs oxonfair 0.3 and MAPIE 1.6 from PyPI for their lines)

Two classes: accuracy with a floor on the recall of class 1, tuned on each half of three tables and scored on the other.
Several classes: accuracy with the floor .8 of the smallest recall of p / prior on the recall of every class. OxonFair
searches its own grid of thresholds; MAPIE, with the confidence .9, its 100 default thresholds, of which it takes the
most accurate; Nelder-Mead the logarithms of class weights, with 10 times the shortfall taken off (2 starts of at most
3000 calls, from simplexes with steps of 1). confmax returns single rules here: on labels for the comparison on equal
terms, as by default, and with the confidence .9 beside MAPIE. A rival is ahead if it is more accurate on the tuning
rows than confmax on labels by more than 1e-9, with no larger shortfall. The figures are written to the section
"limits: rivals" of benchmarks/RESULTS.md.
"""

from __future__ import annotations

import time
import warnings
from importlib.util import find_spec

import numpy as np
from scipy.optimize import minimize

import confmax
from benchmarks.harness import benchmark, counts, load, markdown
from benchmarks.methods import by_decisions, by_weights, inverse_prior, weights_of
from confmax import constraints as c
from confmax.confusion import Gains
from confmax.oracle import make_oracle, make_table

FLOORS = {"default_credit__logreg": 0.55, "compas__logreg": 0.75, "communities_crime__hgb": 0.87}
SEVERAL = ("diamonds_cut__logreg", "hpc__hgb", "hpc__logreg", "kr_vs_k__hgb", "nursery__logreg",
           "winequality_white__logreg")  # fmt: skip
PART, LEAST = 0.8, 0.05
STARTS, CALLS, PENALTY = 2, 3000, 10.0
CONFIDENCE = 0.9
SHOWN = 1e-9

# --- methods: of P (n, K), y (n,), a floor and the class whose recall it is, None for every class --------------------


def ours(**settings):
    def tune(P, y, floor, k):
        limit = c.min_recall() >= floor if k is None else c.recall(k) >= floor
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = confmax.maximize("accuracy", P, y, classes=range(P.shape[1]), constraints=limit, randomized=False,
                                     on_infeasible="closest", **settings)  # fmt: skip
        return found.rule.decision_probabilities

    return tune


def nelder_mead(P, y, floor, k):
    K = P.shape[1]
    oracle, sizes = make_oracle(make_table(P, y, None, range(K)), "labels"), np.bincount(y, minlength=K) / len(y)
    some = np.flatnonzero(sizes) if k is None else [k]
    best = (-np.inf, np.ones(K))

    def loss(x):
        nonlocal best
        hit = oracle.maximize(Gains.reduced(weights_of(x)))[0].diagonal
        missed = max(0.0, floor - float((hit[some] / sizes[some]).min()))
        merit = float(hit.sum()) - PENALTY * missed
        best = max(best, (merit, weights_of(x)), key=lambda one: one[0])
        return -merit

    for start in (np.zeros(K), np.log(np.maximum(inverse_prior(y, K), 1e-3)))[:STARTS]:
        minimize(loss, start, method="Nelder-Mead", options={"maxfev": CALLS, "adaptive": True,
                 "initial_simplex": np.vstack([start, start + np.eye(K)])})  # fmt: skip
    return by_weights(best[1]).decide


def oxonfair(P, y, floor, _k):
    from oxonfair import FairPredictor, group_metrics

    def rows(Q):
        return {"data": Q, "target": np.zeros(len(Q), dtype=np.int64)}

    found = FairPredictor(None, {"data": P, "target": y})
    found.fit(group_metrics.accuracy, group_metrics.recall, floor)
    return by_decisions(lambda Q: np.asarray(found.predict(rows(Q)), dtype=np.int64)).decide


def mapie(method):
    def tune(P, y, floor, _k):
        from mapie.risk_control import BinaryClassificationController

        found = BinaryClassificationController(
            lambda Q: Q, risk="recall", target_level=floor, confidence_level=CONFIDENCE,
            best_predict_param_choice="accuracy", fwer_method=method,
        ).calibrate(P, y)  # fmt: skip
        return by_decisions(lambda Q: np.asarray(found.predict(Q), dtype=np.int64)).decide

    return tune


BOTH = {
    "confmax, labels": ours(confusion="labels", calibration=None),
    "confmax": ours(),
    "Nelder-Mead": nelder_mead,
}
TWO = BOTH | {
    "OxonFair": oxonfair,
    "confmax, confidence": ours(confidence=CONFIDENCE),
    "MAPIE, Holm": mapie("bonferroni_holm"),
    "MAPIE, fixed sequence": mapie("fixed_sequence"),
}
PACKAGES = {"OxonFair": "oxonfair", "MAPIE, Holm": "mapie", "MAPIE, fixed sequence": "mapie"}


# --- figures ----------------------------------------------------------------------------------------------------------


def measured(y, D, floor, k):
    """Return the accuracy of decision probabilities on labels y, and by how much a recall misses the floor."""
    C = counts(y, D) / len(y)
    sizes = C.sum(axis=1)
    some = np.flatnonzero(sizes) if k is None else [k]
    return float(np.trace(C)), max(0.0, floor - float((np.diag(C)[some] / sizes[some]).min()))


def problems(folder):
    """Yield a table's half, the floor, and the class whose recall it is, None for all."""
    for data in load(folder):
        for half in (data, data.turned()):
            if data.stem in FLOORS:
                yield half, FLOORS[data.stem], 1
            sizes = np.bincount(half.y, minlength=half.K)
            if data.stem in SEVERAL and sizes.all():
                even = counts(half.y, np.eye(half.K)[(half.P / sizes).argmax(axis=1)])
                floor = PART * float((np.diag(even) / sizes).min())
                if floor > LEAST:
                    yield half, floor, None


def beside(data, floor, k, methods):
    """Return for every method that is installed its accuracy and shortfall on tuning and test rows, and seconds."""
    P, Q = (part.astype(np.float64) for part in (data.P, data.Q))
    P, Q = (part / part.sum(axis=1, keepdims=True) for part in (P, Q))
    found = {}
    for name, tune in methods.items():
        if name in PACKAGES and find_spec(PACKAGES[name]) is None:
            continue
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            decide = tune(P, data.y, floor, k)
        seconds = time.perf_counter() - start
        found[name] = (*measured(data.y, decide(P), floor, k), *measured(data.z, decide(Q), floor, k), seconds)
    return found


def summary(runs, methods, kind):
    """Return a line for each method: means over ``runs`` of `beside`, and how often the limit is missed."""
    lines = []
    for name in methods:
        figures = np.array([found[name] for found in runs if name in found])
        if len(figures):
            tuned, short, test, short_there, seconds = figures.T
            lines.append([kind, name, len(figures), f"{tuned.mean():.4f}", (short > SHOWN).sum(), f"{test.mean():.4f}",
                          (short_there > SHOWN).sum(), f"{seconds.sum():.2f}"])  # fmt: skip
    return lines


@benchmark("limit-rivals", "FOLDER", "limits: rivals")
def main(folder):
    lines, ahead, runs = [], [], {1: [], None: []}
    for data, floor, k in problems(folder):
        limit = f"min_recall >= {floor:.3f}" if k is None else f"recall[{k}] >= {floor:g}"
        found = beside(data, floor, k, BOTH if k is None else TWO)
        runs[k].append(found)
        value, missed, *_ = found["confmax, labels"]
        for name, (tuned, short, test, short_there, seconds) in found.items():
            if not name.startswith("confmax") and tuned > value + SHOWN and short <= missed + SHOWN:
                ahead.append(f"{data.stem}, {limit}: {name} by {tuned - value:.4f}")
            lines.append([data.stem, limit, name, f"{tuned:.4f}", f"{short:.4f}", f"{test:.4f}", f"{short_there:.4f}",
                          f"{seconds:.3f}"])  # fmt: skip
    means = [*summary(runs[1], TWO, "two classes"), *summary(runs[None], BOTH, "several classes")]
    head = ["tuning", "missed", "test", "missed", "seconds"]
    return [
        "accuracy within limits, by label counts. Means over the runs, how "
        "often the limit is missed on the tuning rows and on the test rows, and seconds to tune.",
        markdown(["problem", "method", "runs", *head], means, words=2),
        "Ahead of confmax on labels on the tuning rows, with no larger shortfall: "
        + ("; ".join(ahead) or "none")
        + ".",
        "Every run: value and by how much the limit is missed.",
        markdown(["table", "limit", "method", *head], lines, words=3),
    ]
