"""Limits of groups by label counts: beside fairlearn's ThresholdOptimizer and OxonFair, for two classes.

    python -m benchmarks group-rivals FOLDER_OF_NPZ FOLDER_OF_JMLR2024

The lines of the rivals need fairlearn 0.15 and oxonfair 0.3 from PyPI.

Accuracy with the difference of two groups at most .02: of the recall of class 1 (equal opportunity), of its rate
(demographic parity), of its recall and its false positive rate (equalised odds). compas has the groups of its data
(column 0); its parts of 60, 20 and 20 % fit a logistic regression, tune and test. The groups of default_credit and
communities_crime are drawn from the score, as `benchmarks.groups` says.

fairlearn draws between thresholds, so confmax beside it may draw; OxonFair searches single thresholds, so confmax
beside it may not. Every rival is compared with confmax on labels, tuned to the difference that the rival has on the
tuning rows, and 1e-6 more: it is ahead if it is more accurate there by more than 1e-9. "Thresholds" are the best pair
of single thresholds on the tuning rows, of all pairs. fairlearn has no tolerance for equalised odds. The figures are
written to the section "groups: rivals" of benchmarks/RESULTS.md.
"""

from __future__ import annotations

import time
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import confmax
from benchmarks.groups import NEAR, drawn_groups
from benchmarks.harness import benchmark, load, markdown

DRAWN = ("communities_crime__hgb", "default_credit__logreg")
# what is equal: the words of confmax, fairlearn and OxonFair
KINDS = {
    "equal opportunity": (("recall",), "true_positive_rate_parity", "equal_opportunity"),
    "demographic parity": (("rate",), "demographic_parity", "demographic_parity"),
    "equalised odds": (("recall", "fpr"), "equalized_odds", "equalized_odds_max"),
}
SHOWN, ROOM = 1e-9, 1e-6


class Rows(NamedTuple):
    """Probabilities (n, 2), labels (n,) and groups (n,) of 0 and 1."""

    P: np.ndarray
    y: np.ndarray
    group: np.ndarray


def compas(path, seed=0):
    """Return name, tuning and test rows of a data set whose first feature is the group."""
    with np.load(path) as data:
        X, y = data["X"], data["y"].astype(np.int64)
    X, Z, y, z = train_test_split(X, y, test_size=0.4, random_state=seed, stratify=y)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(X, y)
    parts = train_test_split(Z, z, test_size=0.5, random_state=seed, stratify=z)
    rows = [Rows(model.predict_proba(X), y, X[:, 0].astype(np.int64)) for X, y in (parts[::2], parts[1::2])]
    return Path(path).stem, *rows


def problems(folder, jmlr):
    """Yield name, tuning and test rows."""
    yield compas(Path(jmlr) / "compas.npz")
    for data in load(folder):
        if data.stem in DRAWN:
            halves = []
            for P, y in ((data.P, data.y), (data.Q, data.z)):
                P = P.astype(np.float64)
                P /= P.sum(axis=1, keepdims=True)
                halves.append(Rows(P, y, (drawn_groups(P) == "b").astype(np.int64)))
            yield data.stem, *halves


def rates(y, chance):
    """Return recall, false positive rate and rate of class 1 that rows y are decided as with a ``chance`` (n,)."""
    return {"recall": chance[y == 1].mean(), "fpr": chance[y == 0].mean(), "rate": chance.mean()}


def measured(rows, chance, words):
    """Return the accuracy of decisions as class 1 with a ``chance`` (n,), and the largest difference of groups."""
    by_group = [rates(rows.y[rows.group == g], chance[rows.group == g]) for g in (0, 1)]
    accuracy = np.where(rows.y == 1, chance, 1 - chance).mean()
    return float(accuracy), float(max(abs(by_group[0][word] - by_group[1][word]) for word in words))


# --- methods: of rows, the kind of limit and the difference; each returns a function of P and group -------------------


def ours(**settings):
    def tune(rows, kind, limit):
        limits = [f"difference({word}[1] | group) <= {limit!r}" for word in KINDS[kind][0]]
        found = confmax.maximize("accuracy", rows.P, rows.y, constraints=limits, group=rows.group, classes=range(2),
                                 **settings)  # fmt: skip
        return lambda P, group: found.rule.decision_probabilities(P, group=group)[:, 1]

    return tune


def thresholds(rows, kind, limit):
    """Return the best pair of thresholds, of all pairs."""
    cuts, right, values = [], [], []
    for g in (0, 1):
        p, y = rows.P[rows.group == g, 1], rows.y[rows.group == g]
        order = np.argsort(-p, kind="stable")
        # rows of one probability are decided alike
        ends = np.append(0, np.flatnonzero(np.append(np.diff(p[order]) < 0, True)) + 1)
        hits = np.append(0, np.cumsum(y[order]))[ends]
        false = ends - hits
        cuts.append(np.append(2.0, p[order])[ends])
        right.append(hits + (y == 0).sum() - false)
        values.append({"recall": hits / (y == 1).sum(), "fpr": false / (y == 0).sum(), "rate": ends / len(y)})
    total = np.add.outer(right[0], right[1])
    for word in KINDS[kind][0]:
        total[np.abs(np.subtract.outer(values[0][word], values[1][word])) > limit + 1e-12] = -1
    best = np.unravel_index(total.argmax(), total.shape)
    pair = np.array([cuts[g][best[g]] for g in (0, 1)])
    return lambda P, group: (P[:, 1] >= pair[group]).astype(np.float64)


class Given(ClassifierMixin, BaseEstimator):
    """A fitted model for fairlearn, whose features are probabilities."""

    def fit(self, *_):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def predict_proba(self, P):
        return np.asarray(P)


def fairlearn(exact):
    def tune(rows, kind, limit):
        from fairlearn.postprocessing import ThresholdOptimizer

        found = ThresholdOptimizer(
            estimator=Given(), constraints=KINDS[kind][1], objective="accuracy_score", prefit=True,
            predict_method="predict_proba", tol=None if exact else limit,
        )  # fmt: skip
        found.fit(rows.P, rows.y, sensitive_features=rows.group)
        return lambda P, group: found._pmf_predict(P, sensitive_features=group)[:, 1]

    return tune


def oxonfair(rows, kind, limit):
    from oxonfair import FairPredictor, group_metrics

    def told(P, group):
        return {"data": P, "target": np.zeros(len(P), dtype=np.int64), "groups": group}

    found = FairPredictor(None, {"data": rows.P, "target": rows.y, "groups": rows.group})
    found.fit(group_metrics.accuracy, getattr(group_metrics, KINDS[kind][2]), limit)
    return lambda P, group: np.asarray(found.predict(told(P, group)), dtype=np.float64)


SINGLE = {"confusion": "labels", "calibration": None, "randomized": False}
OURS = {
    "confmax, labels, drawn": ours(**SINGLE | {"randomized": True}),
    "confmax, labels, single": ours(**SINGLE),
    "confmax": ours(),
}
RIVALS = {
    "fairlearn": ("fairlearn", fairlearn(True), "confmax, labels, drawn"),
    "fairlearn, tol .02": ("fairlearn", fairlearn(False), "confmax, labels, drawn"),
    "OxonFair": ("oxonfair", oxonfair, "confmax, labels, single"),
    "thresholds": ("numpy", thresholds, "confmax, labels, single"),
}


# --- figures ----------------------------------------------------------------------------------------------------------


def judged(tune, tuning, test, kind, limit):
    """Return accuracy and difference on tuning and on test rows, and seconds."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        decide = tune(tuning, kind, limit)
    seconds = time.perf_counter() - start
    parts = [measured(rows, decide(rows.P, rows.group), KINDS[kind][0]) for rows in (tuning, test)]
    return (*parts[0], *parts[1], seconds)


def beside(tuning, test, kind):
    """Yield a method, its difference, what `judged` says, and the same of confmax at the difference of a rival."""
    yield "argmax", 1.0, judged(lambda *_: lambda P, _g: (P[:, 1] > 0.5).astype(float), tuning, test, kind, 1.0), None
    for name, tune in OURS.items():
        yield name, NEAR, judged(tune, tuning, test, kind, NEAR), None
    exact = None
    for name, (package, tune, other) in RIVALS.items():
        if find_spec(package) is None or (kind == "equalised odds" and "tol" in name):
            # fairlearn refuses a tolerance for equalised odds
            continue
        for limit in (NEAR, exact) if name == "OxonFair" and exact is not None else (NEAR,):
            found = judged(tune, tuning, test, kind, limit)
            exact = found[1] if name == "fairlearn" else exact
            yield name, limit, found, judged(OURS[other], tuning, test, kind, found[1] + ROOM)


@benchmark("group-rivals", "FOLDER JMLR2024", "groups: rivals")
def main(folder, jmlr):
    lines, ahead = [], []
    for name, tuning, test in problems(folder, jmlr):
        for kind in KINDS:
            for method, limit, found, other in beside(tuning, test, kind):
                if other is not None and found[0] > other[0] + SHOWN and other[1] <= found[1] + 2 * ROOM:
                    ahead.append(f"{name}, {kind}: {method} by {found[0] - other[0]:.4f}")
                asked = "" if method == "argmax" else "parity" if method == "fairlearn" else f"{limit:.4f}"
                there = ["", ""] if other is None else [f"{other[0]:.4f}", f"{other[2]:.4f} / {other[3]:.4f}"]
                lines.append([name, kind, method, asked, f"{found[0]:.4f} / {found[1]:.4f}",
                              f"{found[2]:.4f} / {found[3]:.4f}", f"{found[4]:.3f}", *there])  # fmt: skip
    return [
        "accuracy / difference of the groups, by label counts, "
        "and seconds to tune; beside every rival confmax on labels, tuned to the difference that the rival has on the "
        "tuning rows (drawn beside fairlearn, single beside the others).",
        f"More accurate on the tuning rows than confmax there: {'; '.join(ahead) or 'none'}.",
        markdown(["data", "equal", "method", "asked", "tuning", "test", "seconds", "confmax there: tuning", "test"],
                 lines, words=3),
    ]  # fmt: skip
