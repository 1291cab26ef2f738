"""What users would pick: every way to tune a rule that the benchmarks compare.

A method takes ``(metric, P, y)``, a name, probabilities (n, K) and labels (n,), and returns what it tuned: a function
from probabilities to decision probabilities (n, K), and what it says of its search.

* confmax: ``confmax.maximize(metric, P, y)``, with settings.
* xcolumns: its Frank-Wolfe search with a budget of one label per row (k=1), its defaults otherwise; its own macro F1,
  and for the multi-class means, the smallest recall and kappa, which it lacks, functions of (tp, fp, fn, tn) as its
  interface takes them; in the dtype of the table.
* Nelder-Mead: scipy's, on the logarithms of the class weights of the raw probabilities, from 1 / prior, with scipy's
  first simplex, 5 % of each coordinate, or a wide one, steps of 1, which searches further. Values come from decisions
  and counts in NumPy, or from confmax's scan ("compiled").
* cutoffs: optimal-classification-cutoffs, which knows F1. TunedThreshold: scikit-learn's, of two classes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import make_scorer
from sklearn.model_selection import TunedThresholdClassifierCV

import confmax
from benchmarks.harness import over_present, value
from confmax.confusion import Gains
from confmax.oracle import make_oracle, make_table

EPSILON = 1e-6  # xcolumns' own guard against division by zero


class Tuned(NamedTuple):
    """A function from probabilities (n, K) to decision probabilities (n, K); passes and gap where they are known."""

    decide: Any
    about: dict


def by_decisions(decide, **about):
    """Return a rule that makes decisions (n,)."""

    def probabilities(Q):
        D = np.zeros(Q.shape)
        D[np.arange(len(Q)), decide(Q)] = 1.0
        return D

    return Tuned(probabilities, about)


def by_weights(weights, **about):
    return by_decisions(lambda Q: (Q * weights).argmax(1), **about)


def inverse_prior(y, K):
    count = np.bincount(y, minlength=K)
    return np.divide(len(y), count, out=np.zeros(K), where=count > 0)


def argmax(_name, P, _y):
    return by_weights(np.ones(P.shape[1]))


def by_prior(_name, P, y):
    return by_weights(inverse_prior(y, P.shape[1]))


def ours(*, labels=True, **settings):
    """Return confmax with settings, with the labels or without any."""

    def tune(name, P, y):
        known = {"y": y, "classes": range(P.shape[1])} if labels else {}
        solution = confmax.maximize(name, P, **known, **settings)
        return Tuned(solution.rule.decision_probabilities, {"gap": solution.gap, "passes": solution.n_passes})

    return tune


def weights_of(logs):
    return np.exp(np.clip(logs - logs.max(), -80.0, 0.0))


def in_numpy(name, P, y):
    """Return the function from class weights to the metric: decisions and counts in NumPy."""
    K, metric = P.shape[1], over_present(confmax.metrics.get(name), y, P.shape[1])

    def of_weights(weights):
        decided = (P * weights).argmax(1)
        C = np.bincount(y * K + decided, minlength=K * K).reshape(K, K) / len(y)
        return round(float(metric.value(C)), 12)  # equal counts are equal values: a simplex moves by comparisons

    return of_weights


def compiled(name, P, y):
    """Return the function from class weights to the metric: confmax's scan."""
    metric = over_present(confmax.metrics.get(name), y, P.shape[1])
    oracle = make_oracle(make_table(P, y, None, range(P.shape[1])), "labels")
    return lambda weights: float(metric.at(oracle.maximize(Gains.reduced(weights))).value[0])


def nelder_mead(evaluate=compiled, *, wide=False, most=1500, dtype=np.float64):
    """Return the search of at most ``min(200 K, most)`` evaluations, with weights of one precision."""

    def tune(name, P, y):
        of_weights, K = evaluate(name, P, y), P.shape[1]
        logs = np.log(np.maximum(inverse_prior(y, K), 1e-3))
        options = {"maxfev": min(200 * K, most)}
        if wide:
            options["initial_simplex"] = np.vstack([logs, logs + np.eye(K)])
        search = minimize(
            lambda x: -of_weights(weights_of(x).astype(dtype)), logs, method="Nelder-Mead", options=options
        )
        return by_weights(weights_of(search.x).astype(dtype), passes=search.nfev)

    return tune


def frank_wolfe(name, P, Y, start):
    """Return xcolumns' classifier and its record, from probabilities and one-hot labels (n, K) of one dtype."""
    import autograd.numpy as anp
    from xcolumns.frank_wolfe import find_classifier_using_fw
    from xcolumns.metrics import macro_f1_score_on_conf_matrix

    def recalls(tp, fn):
        return tp / (tp + fn + EPSILON)

    def kappa(tp, fp, fn, _tn):
        chance = anp.sum((tp + fp) * (tp + fn))
        return (anp.sum(tp) - chance) / (1.0 - chance)

    metric = {
        "g_mean": lambda tp, _fp, fn, _tn: anp.exp(anp.mean(anp.log(recalls(tp, fn) + EPSILON))),
        "h_mean": lambda tp, _fp, fn, _tn: 1.0 / anp.mean(1.0 / (recalls(tp, fn) + EPSILON)),
        "q_mean": lambda tp, _fp, fn, _tn: 1.0 - anp.sqrt(anp.mean((1.0 - recalls(tp, fn)) ** 2)),
        "macro_f1": macro_f1_score_on_conf_matrix,
        "min_recall": lambda tp, _fp, fn, _tn: anp.min(recalls(tp, fn)),
        "cohen_kappa": kappa,
    }[name]
    return find_classifier_using_fw(Y, P, metric, k=1, init_classifier=start, seed=0, return_meta=True)


def xcolumns(*starts):
    """Return its search from one initial classifier, or the better on the tuning rows of several."""

    def tune(name, P, y):
        Y = np.zeros_like(P)
        Y[np.arange(len(y)), y] = 1
        candidates = [frank_wolfe(name, P, Y, start) for start in starts]
        classifier, meta = max(candidates, key=lambda one: np.nan_to_num(one[1]["utilities"][-1], nan=-np.inf))
        used = np.flatnonzero(classifier.p > 0)
        atoms = [(classifier.p[i], classifier.a[i].astype(P.dtype), classifier.b[i].astype(P.dtype)) for i in used]

        def decide(Q):
            return sum(p * by_decisions(lambda R, a=a, b=b: (R * a + b).argmax(1)).decide(Q) for p, a, b in atoms)

        return Tuned(decide, {"passes": meta.get("iters", 0) + 2})  # the first classifier, and the step that ends

    return tune


def cutoffs(method):
    def tune(_name, P, y):
        from optimal_cutoffs import get_optimal_threshold

        if P.shape[1] == 2:
            cut = get_optimal_threshold(y, P[:, 1], metric="f1").threshold
            return by_decisions(lambda Q: (Q[:, 1] > cut).astype(np.int64))
        tuned = get_optimal_threshold(y, P, metric="f1", average="macro", method=method)
        return by_decisions(lambda Q: tuned.predict(Q).astype(np.int64))

    return tune


class Columns(ClassifierMixin, BaseEstimator):
    """A fitted model whose features are its probabilities."""

    def fit(self, _X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return np.asarray(X)

    def predict(self, X):
        return X.argmax(1)


def tuned_threshold(name, P, y):
    score = make_scorer(lambda true, decided: value(name, true, np.eye(2)[decided]))
    estimator = FrozenEstimator(Columns().fit(P[:2], [0, 1]))
    tuned = TunedThresholdClassifierCV(estimator, scoring=score, cv="prefit", refit=False).fit(P, y)
    return by_decisions(lambda Q: tuned.predict(Q).astype(np.int64), passes=100)
