"""Splits whose rows lack a class, and models that order their classes by their rows: every column is its class's."""

import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import GroupKFold, KFold, LeaveOneGroupOut, StratifiedKFold
from sklearn.naive_bayes import GaussianNB

import confmax
from confmax import MetricClassifierCV


class AsTheyCome(ClassifierMixin, BaseEstimator):
    """A model whose classes stand in the order in which its rows name them."""

    def fit(self, X, y):
        self.model_ = GaussianNB().fit(X, y)
        _, first = np.unique(y, return_index=True)
        self.places_ = np.argsort(first)
        self.classes_ = self.model_.classes_[self.places_]
        return self

    def predict_proba(self, X):
        return self.model_.predict_proba(X)[:, self.places_]

    def predict(self, X):
        return self.model_.predict(X)


def rows(counts):
    """Return features (n, 2) and classes (n,), of which the first ones come in their order."""
    draw = np.random.default_rng(len(counts) + counts[0])
    y = draw.permutation(np.repeat(np.arange(len(counts)), np.array(counts) - 1))
    y = np.array(list("abcd"))[np.concatenate([np.arange(len(counts)), y])]
    centres = draw.normal(size=(len(counts), 2)) * 1.5
    return centres[np.searchsorted(list("abcd"), y)] + draw.normal(size=(len(y), 2)), y


def out_of_fold(model, X, y, splits):
    """Return the probabilities (n, K) of every row by the model that has not seen it, columns sorted by name."""
    classes = np.unique(y)
    out = np.zeros((len(y), len(classes)))
    for train, test in splits:
        fitted = clone(model).fit(X[train], y[train])
        for name, column in zip(fitted.classes_, fitted.predict_proba(X[test]).T, strict=True):
            out[test, np.searchsorted(classes, name)] = column
    return out


def by_hand(model, X, y, cv, groups=None):
    """Return the rule of probabilities that are put together by hand, on splits that hold every row once."""
    P = out_of_fold(model, X, y, list(cv.split(X, y, groups)))
    return confmax.maximize("accuracy", P, y, classes=np.unique(y).tolist(), calibration=None, confusion="labels").rule


COUNTS = [(40, 40, 40, 1), (1, 40, 40, 40), (40, 1, 40), (2, 40, 40), (40, 40, 2), (30, 30, 30)]


@pytest.mark.parametrize("counts", COUNTS, ids=str)
@pytest.mark.parametrize("model", [GaussianNB(), AsTheyCome()], ids=["sorted", "as they come"])
@pytest.mark.parametrize("cv", [KFold(4), StratifiedKFold(3), "groups"], ids=["rows", "strata", "groups"])
def test_columns_are_those_of_their_classes(counts, model, cv):
    X, y = rows(counts)
    params = {}
    if cv == "groups":
        # one group holds all rows of the rarest class
        params = {"groups": np.where(y == y[np.argmin(counts)], 9, np.arange(len(y)) % 3)}
        cv = LeaveOneGroupOut() if counts[0] < counts[-1] else GroupKFold(3)
    splits = list(cv.split(X, y, **params)) if params else cv
    with warnings.catch_warnings():
        # scikit-learn's of classes with fewer rows than splits, and confmax's of rules that such a class decides
        warnings.simplefilter("ignore", UserWarning)
        fitted = MetricClassifierCV(model, metric="accuracy", calibration=None, confusion="labels", cv=splits).fit(X, y)
        rule = by_hand(model, X, y, cv, **params)
    assert fitted.classes_.tolist() == np.unique(y).tolist()
    P = np.random.default_rng(1).dirichlet(np.ones(len(counts)), 500)
    np.testing.assert_array_equal(fitted.rule_.predict(P), rule.predict(P))


@pytest.mark.parametrize("counts", COUNTS, ids=str)
def test_models_that_order_classes_differently_agree(counts):
    X, y = rows(counts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        one, other = (MetricClassifierCV(model, metric="macro_f1").fit(X, y) for model in (GaussianNB(), AsTheyCome()))
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
