"""Estimates of class shares beside every method of quapy for more than two classes, on the same draws.

quapy fits on the calibrated probabilities of the tuning rows, which a classifier passes on as they are. Install quapy
0.2.3 beside confmax, and abstention for EMQ_BCTS; methods that cannot be fitted on a table are left out there.
"""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from benchmarks.harness import benchmark, figures, markdown
from benchmarks.shift import cases, drawn, errors, held_of, strong
from benchmarks.timing import seconds_of
from confmax.shift.priors import shift_of

SIZES = (200, 1000)
MOST_CLASSES = 10  # above which density estimates of quapy take minutes


class Given(ClassifierMixin, BaseEstimator):
    """A classifier whose features are probabilities."""

    def fit(self, X, y):
        """Take the names of the classes."""
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        """Return the features."""
        return X

    def predict(self, X):
        """Return the most probable classes."""
        return self.classes_[X.argmax(axis=1)]


def methods(P, y):
    """Return quapy's fitted methods by name."""
    from quapy.method import aggregative as q

    known = {"fit_classifier": False}
    makers = {
        "CC": lambda c: q.CC(c, **known),
        "PCC": lambda c: q.PCC(c, **known),
        "ACC": lambda c: q.ACC(c, **known),
        "PACC": lambda c: q.PACC(c, **known),
        "RLLS": lambda c: q.RLLS(c, **known),
        "EMQ": lambda c: q.EMQ(c, **known),
        "EMQ, mean p": lambda c: q.EMQ(c, exact_train_prev=False, **known),
        "EMQ_BCTS": lambda _: q.EMQ(Given(), val_split=5, calib="bcts"),
        "EMQ_BCTS, mean p": lambda _: q.EMQ(Given(), val_split=5, calib="bcts", exact_train_prev=False),
        "DMy": lambda c: q.DMy(c, **known),
        "EDy": lambda c: q.EDy(c, **known),
        "KDEyML": lambda c: q.KDEyML(c, **known),
        "KDEyHD": lambda c: q.KDEyHD(c, **known),
        "KDEyCS": lambda c: q.KDEyCS(c, **known),
    }
    found = {}
    for name, make in makers.items():
        try:
            found[name] = make(Given().fit(P, y))
            found[name].fit(P, y)
        except Exception as error:  # each method of quapy fails in its own way
            print(f"{name}: {type(error).__name__} {str(error)[:100]}")
            found.pop(name, None)
    return found


@benchmark("shift-rivals", "FOLDER")
def rivals(folder, draws=1):
    """Measure errors and times of quapy's methods and of confmax."""
    rng = np.random.default_rng(0)
    found, used = {}, []
    for case in cases(folder):
        if case.K > MOST_CLASSES or len(np.unique(case.y)) < case.K:
            continue
        used.append(case.name)
        _, held, table = held_of(case)
        P = held.rows.proba.astype(np.float64)
        P /= P.sum(axis=1, keepdims=True)
        fitted = methods(P, case.y)
        for n in SIZES:
            for _ in range(draws):
                for _, q in strong(case, rng):
                    part = table.take(drawn(case, q, n, rng))
                    new = part.proba.astype(np.float64)
                    new /= new.sum(axis=1, keepdims=True)
                    seconds, shift = seconds_of(partial(shift_of, part, held, np.zeros(case.K), None))
                    each = {"confmax": (seconds, shift.raw_priors)}
                    for name, one in fitted.items():
                        with warnings.catch_warnings():
                            warnings.simplefilter("ignore")
                            each[name] = seconds_of(partial(one.predict, new))
                    for name, (seconds, shares) in each.items():
                        found.setdefault((name, n), []).append([*errors(np.asarray(shares), q, n), 1e3 * seconds])
    rows = []
    for name in dict.fromkeys(name for name, _ in found):
        cells = []
        for n in SIZES:
            values = np.array(found[name, n])
            cells += [*figures(values[:, :3].mean(axis=0)), f"{np.median(values[:, 3]):.2f}", len(values)]
        rows.append([name, *cells])
    heads = ["method", *(f"{what}, {n}" for n in SIZES for what in ("L1", "MAE", "RAE", "ms", "cases"))]
    return [
        f"{len(used)} tables of up to {MOST_CLASSES} classes, five strong shifts each; median times; that of confmax "
        f"holds the test, shrinkage and intervals:",
        markdown(heads, rows),
    ]
