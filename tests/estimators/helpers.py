"""What the estimators promise, by hand."""

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import confmax

RANK = {"mild": 0, "serious": 1, "fatal": 2}  # the natural order, a cycle away from the alphabet's
NAMES = sorted(RANK)


class Never(LogisticRegression):
    """A model that must not be fitted."""

    def fit(self, *_args, **_more):
        raise AssertionError("fitted")


def by_hand(model, X, y, splits, metric="macro_f1", *, weight=None, fit_weight=None, **settings):
    """What the estimator promises: all test rows of all splits, stacked, go to `maximize`."""
    classes = np.unique(y)
    tables, rows = [], []
    for train, test in splits:
        given = {} if fit_weight is None else {"sample_weight": fit_weight[train]}
        fitted = clone(model).fit(X[train], y[train], **given)
        table = np.zeros((len(X[test]), len(classes)))
        table[:, np.searchsorted(classes, fitted.classes_)] = fitted.predict_proba(X[test])
        tables.append(table)
        rows.append(np.arange(len(y))[test])
    rows = np.concatenate(rows)
    weights = None if weight is None else weight[rows]
    return confmax.maximize(
        metric, np.concatenate(tables), y[rows], sample_weight=weights, classes=classes.tolist(), **settings
    )


def assert_invariant(clf, X):
    np.testing.assert_array_equal(clf.classes_, np.sort(clf.classes_))
    np.testing.assert_array_equal(clf.rule_.predict(clf.predict_proba(X)), clf.predict(X))
