"""What users would pick: every method of the benchmark ``rivals``, and the process in which one of them is measured.

A method takes ``(metric, P, y)`` and returns the function that counts its confusions, ``(Q, z) -> C (K, K)``, with what
it tells of its search. Values are computed from these counts, by one function for all, never by the method itself.

    python -m benchmarks._speed_methods TABLE.npz METHOD METRIC ...

prints one line of JSON before and one after each metric, so that a search that takes too long can be stopped from
outside and still leaves what is known. The time of confmax on labels is measured around it in the same process.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from scipy.sparse import csr_array

import confmax
from benchmarks._speed_process import emit
from benchmarks._speed_tools import memory_floor, resident, seconds_of, two_threads
from benchmarks.rivals import frank_wolfe, inverse_prior, over_present, search_weights
from confmax.confusion import Gains
from confmax.oracle import make_oracle, make_table

REPEATS = 5
LONG = 3.0  # a method that takes more seconds is run once, with confmax around it


# --- confusions and values --------------------------------------------------------------------------------------------


def count(decide, Q, z):
    """Return the confusion counts (K, K) of decisions (n,)."""
    K = Q.shape[1]
    return np.bincount(z * K + decide(Q), minlength=K * K).reshape(K, K).astype(np.float64)


def by_decisions(decide):
    return lambda Q, z: count(decide, Q, z)


def by_rule(rule):
    def counts(Q, z):
        truth = csr_array((np.ones(len(z)), z, np.arange(len(z) + 1)), shape=Q.shape)
        return np.asarray(truth.T @ rule.decision_probabilities(Q))

    return counts


def by_weights(weights):
    w = np.asarray(weights, np.float32)
    return by_decisions(lambda Q: (Q * w).argmax(1))


def value(name, C):
    """Return a metric of confusion counts (K, K); a mean of recalls is over the classes that have rows."""
    rows, columns, diagonal = C.sum(axis=1), C.sum(axis=0), np.diagonal(C)
    if name == "macro_f1":
        size = rows + columns
        return float(np.mean(np.divide(2 * diagonal, size, out=np.zeros(len(C)), where=size > 0)))
    if name == "g_mean":
        recalls = diagonal[rows > 0] / rows[rows > 0]
        return float(np.exp(np.mean(np.log(recalls)))) if recalls.min() > 0 else 0.0
    n = C.sum()
    chance = rows @ columns / n**2
    return float((diagonal.sum() / n - chance) / (1 - chance))


# --- methods ----------------------------------------------------------------------------------------------------------


def ours(name, P, y, **settings):
    found = confmax.maximize(name, P, y, classes=None if y is None else range(P.shape[1]), **settings)
    return by_rule(found.rule), {"gap": found.gap, "passes": found.n_passes}


def on_labels(name, P, y):
    return ours(name, P, y, confusion="labels", calibration=None)


def on_labels_mixed(name, P, y):
    return ours(name, P, y, confusion="labels", calibration=None, randomized=True)


def on_model(name, P, _y):
    return ours(name, P, None, confusion="model", calibration=None)


def all_defaults(name, P, y):
    return ours(name, P, y)


def xcolumns_from(start):
    def tune(name, P, y):
        one_hot = np.zeros_like(P)
        one_hot[np.arange(len(y)), y] = 1
        found, meta = frank_wolfe(name, P, one_hot, start)
        used = np.flatnonzero(found.p > 0)
        atoms = [(found.p[i], found.a[i].astype(P.dtype), found.b[i].astype(P.dtype)) for i in used]

        def counts(Q, z):
            return sum(p * count(lambda R, a=a, b=b: (R * a + b).argmax(1), Q, z) for p, a, b in atoms)

        return counts, {"passes": meta.get("iters", 0) + 2}  # the initial classifier, and the step that ends the search

    return tune


def nelder_mead(name, P, y):
    weights, n = search_weights(lambda w: value(name, by_weights(w)(P, y)), inverse_prior(P, y))
    return by_weights(weights), {"passes": n}


def nelder_mead_compiled(name, P, y):
    metric = over_present(confmax.metrics.get(name), y, P.shape[1])
    oracle = make_oracle(make_table(P, y, None, range(P.shape[1])), "labels")
    found, n = search_weights(
        lambda w: float(metric.at(oracle.maximize(Gains.reduced(w))).value[0]), inverse_prior(P, y)
    )
    return by_weights(found), {"passes": n}


def cutoffs_by(method):
    def tune(_name, P, y):
        from optimal_cutoffs import get_optimal_threshold

        if P.shape[1] == 2:
            cut = get_optimal_threshold(y, P[:, 1], metric="f1").threshold
            return by_decisions(lambda Q: (Q[:, 1] > cut).astype(np.int64)), {}
        found = get_optimal_threshold(y, P, metric="f1", average="macro", method=method)
        return by_decisions(lambda Q: found.predict(Q).astype(np.int64)), {}

    return tune


def tuned_threshold(name, P, y):
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.frozen import FrozenEstimator
    from sklearn.metrics import cohen_kappa_score, f1_score, make_scorer, recall_score
    from sklearn.model_selection import TunedThresholdClassifierCV

    class Columns(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            self.classes_ = np.unique(y)
            return self

        def predict_proba(self, X):
            return X

        def predict(self, X):
            return X.argmax(1)

    def g_mean(y_true, y_pred):
        return np.prod(recall_score(y_true, y_pred, average=None)) ** 0.5

    score = {
        "macro_f1": make_scorer(f1_score, average="macro"),
        "cohen_kappa": make_scorer(cohen_kappa_score),
        "g_mean": make_scorer(g_mean),
    }[name]
    estimator = FrozenEstimator(Columns().fit(P[:2], [0, 1]))
    found = TunedThresholdClassifierCV(estimator, scoring=score, cv="prefit", refit=False).fit(P, y)
    return by_decisions(lambda Q: found.predict(Q).astype(np.int64)), {"passes": 100}


METHODS = {
    "confmax, labels": on_labels,
    "confmax, labels, mixture": on_labels_mixed,
    "confmax, model": on_model,
    "confmax, defaults": all_defaults,
    "xcolumns": xcolumns_from("random"),
    "xcolumns, top": xcolumns_from("top"),
    "Nelder-Mead": nelder_mead,
    "Nelder-Mead, compiled": nelder_mead_compiled,
    "cutoffs, one-vs-rest": cutoffs_by("auto"),
    "cutoffs, coordinate": cutoffs_by("coord_ascent"),
    "TunedThreshold": tuned_threshold,
    "argmax": lambda _name, P, _y: (by_weights(np.ones(P.shape[1])), {}),
    "p/prior": lambda _name, P, y: (by_weights(inverse_prior(P, y)), {}),
}


# --- the process ------------------------------------------------------------------------------------------------------


def measure(method, name, P, y):
    """Return times of the method and of confmax on labels around it, its peak memory, its rule and what it tells."""
    tune, own = METHODS[method], []

    def reference():
        if method != "confmax, labels":
            own.append(seconds_of(on_labels, name, P, y)[0])

    seconds_of(on_labels, name, P, y)
    reference()
    floor = memory_floor()
    emit(event="start", metric=name, ours=own, floor=floor)
    first, (rule, told) = seconds_of(tune, name, P, y)
    peak, times = resident("VmHWM") - floor, [first]
    emit(event="found", metric=name)
    for _ in range(REPEATS - 1):
        reference()
        if first < LONG:
            times.append(seconds_of(tune, name, P, y)[0])
    return {"seconds": times, "ours": own, "peak": peak, **told}, rule


def tiny(K):
    """Return a small table of K classes that compiles what the method needs."""
    rng = np.random.default_rng(0)
    y = np.arange(40 * K) % K
    P = rng.dirichlet(np.ones(K), len(y)).astype(np.float32) / 2
    P[np.arange(len(y)), y] += 0.5
    return P, y


def main(path, method, *names):
    warnings.simplefilter("ignore")  # of the rivals, and of absent classes
    with np.load(path) as data:
        P, y, Q, z = (data[key] for key in ("P", "y", "Q", "z"))
    warm = tiny(2 if P.shape[1] == 2 else 5)
    with two_threads():
        for name in names:
            METHODS[method](name, *warm)
            on_labels(name, *warm)
        for name in names:
            record, rule = measure(method, name, P, y)
            values = {"tuning": value(name, rule(P, y)), "test": value(name, rule(Q, z))}
            emit(event="done", metric=name, **record, **values)


if __name__ == "__main__":
    main(*sys.argv[1:])
