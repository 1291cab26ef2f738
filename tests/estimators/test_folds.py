"""How much the rule varies between folds: the rules of the folds, their thresholds and the spread of these."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedKFold

import confmax
from confmax import MetricClassifierCV
from confmax.confusion import Gains
from confmax.evaluate.thresholds import class_thresholds, spread_of
from confmax.populations import continuous_example
from tests.estimators.helpers import by_hand

MODEL = LogisticRegression()


def draw(n, seed):
    X, y = continuous_example().sample(n, seed)
    return X, y


@pytest.mark.parametrize("settings", [{}, {"confusion": "labels", "calibration": None}])
def test_each_rule_is_tuned_without_the_rows_of_its_split(settings):
    X, y = draw(240, 0)
    cv = StratifiedKFold(4, shuffle=True, random_state=0)
    clf = MetricClassifierCV(MODEL, metric="macro_f1", cv=cv, **settings).fit(X, y)
    splits = list(cv.split(X, y))
    assert len(clf.fold_rules_) == 4
    for k, rule in enumerate(clf.fold_rules_):
        others = [split for j, split in enumerate(splits) if j != k]
        assert rule == by_hand(MODEL, X, y, others, **settings).rule
    assert clf.fold_thresholds_.shape == (4, 3)
    odds = np.log(clf.fold_thresholds_ / (1 - clf.fold_thresholds_))
    np.testing.assert_allclose(clf.fold_spread_, odds.std(axis=0, ddof=1))
    assert (clf.fold_spread_ > 0).all()


def test_the_rule_itself_is_the_same_without_them():
    X, y = draw(200, 1)
    cv = StratifiedKFold(3)
    full, none = (MetricClassifierCV(MODEL, metric="g_mean", cv=cv, fold_rules=f).fit(X, y) for f in (True, False))
    assert full.rule_ == none.rule_ and none.fold_rules_ == []
    assert none.fold_thresholds_.shape == (0, 3) and np.isnan(none.fold_spread_).all()
    np.testing.assert_array_equal(full.thresholds_, none.thresholds_)


def test_repeated_splits_leave_a_row_out_wherever_it_stands():
    X, y = draw(150, 2)
    cv = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
    w = np.ones(len(y))
    clf = MetricClassifierCV(MODEL, metric="macro_f1", cv=cv, confusion="labels", calibration=None).fit(X, y, w)
    assert len(clf.fold_rules_) == 6
    splits = list(cv.split(X, y))
    # the test rows of the first split, in both repeats, do not count: relabelling them changes nothing of its rule
    first = splits[0][1]
    rows = np.concatenate([test for _, test in splits])
    P = np.concatenate([LogisticRegression().fit(X[a], y[a]).predict_proba(X[b]) for a, b in splits])
    kept = ~np.isin(rows, first)
    assert kept.sum() == 2 * (len(y) - len(first))
    alone = confmax.maximize(
        "macro_f1", P[kept], y[rows][kept], classes=[0, 1, 2], confusion="labels", calibration=None
    )
    assert clf.fold_rules_[0] == alone.rule


@pytest.mark.parametrize("cv, refit", [("prefit", False), (0.3, True)])
def test_one_split_has_no_folds(cv, refit):
    X, y = draw(150, 3)
    model = MODEL if cv != "prefit" else LogisticRegression().fit(X, y)
    clf = MetricClassifierCV(model, metric="macro_f1", cv=cv, refit=refit).fit(X, y)
    assert clf.fold_rules_ == [] and np.isnan(clf.fold_spread_).all()
    assert np.isfinite(clf.thresholds_).all()


def test_a_split_without_which_one_class_is_left_has_no_rule():
    X, y = draw(90, 4)
    y = np.minimum(y, 1)
    ones, zeros = np.flatnonzero(y == 1), np.flatnonzero(y == 0)
    everything = np.arange(len(y))
    splits = [(everything, np.r_[ones, zeros[:5]]), (everything, zeros[5:])]
    clf = MetricClassifierCV(MODEL, metric="f1", cv=splits).fit(X, y)
    assert len(clf.fold_rules_) == 1


# --- thresholds ------------------------------------------------------------------------------------------------------


def test_thresholds_of_two_classes_are_the_usual_ones():
    """``a p + b`` of class 1 wins from a closed-form probability on; log odds of it are the log ratio of weights."""
    mean = np.array([0.8, 0.2])
    rng = np.random.default_rng(0)
    weights, offsets = rng.random((20, 2)) + 0.1, rng.normal(size=(20, 2)) * 0.03
    rules = [confmax.DecisionRule.from_weights(a, b) for a, b in zip(weights, offsets, strict=True)]
    closed = (weights[:, 0] + offsets[:, 0] - offsets[:, 1]) / weights.sum(axis=1)
    np.testing.assert_allclose(class_thresholds(rules, mean)[:, 1], closed, rtol=1e-9)
    plain = [confmax.DecisionRule.from_weights(a) for a in weights]
    odds = np.log(weights[:, 0] / weights[:, 1])
    np.testing.assert_allclose(spread_of(class_thresholds(plain, mean)), np.full(2, odds.std(ddof=1)), rtol=1e-9)


def test_thresholds_by_search_along_the_segment():
    """The witness walks from the others' mean to the class and asks the rule."""
    rng = np.random.default_rng(1)
    mean = np.array([0.5, 0.3, 0.15, 0.05])
    calibrated = confmax.maximize("macro_f1", *_table(rng), calibration="vector").rule
    assert calibrated.calibrator is not None
    rules = [confmax.DecisionRule.from_weights([1.0, 2.0, 3.0, 9.0]), calibrated]
    grid = np.linspace(0, 1, 4001)
    for rule, line in zip(rules, class_thresholds(rules, mean), strict=True):
        for k in range(4):
            rest = np.where(np.arange(4) == k, 0.0, mean)
            P = grid[:, None] * np.eye(4)[k] + (1 - grid)[:, None] * rest / rest.sum()
            first = grid[np.argmax(rule.predict(P) == k)]
            assert first - grid[1] <= line[k] <= first + 1e-12


def _table(rng):
    P = rng.dirichlet([4.0, 2.0, 1.0, 0.5], 400)
    return P, (P.cumsum(1) < rng.random((400, 1))).sum(1)


def test_classes_that_are_always_or_never_decided():
    always, never = (confmax.DecisionRule.from_weights([1.0, 1.0], [0.0, b]) for b in (2.0, -2.0))
    mean, both = np.array([0.5, 0.5]), confmax.DecisionRule.from_weights([1.0, 1.0])
    found = class_thresholds([always, never, both, both], mean)
    np.testing.assert_allclose(found[:, 1], [0.0, np.inf, 0.5, 0.5])
    np.testing.assert_array_equal(spread_of(found), [np.inf, np.inf])
    assert np.isnan(spread_of(found[:2])).all() and (spread_of(found[2:]) == 0).all()
    mixture = confmax.DecisionRule(Gains.reduced([[1.0, 1.0], [1.0, 3.0]]), np.array([0.4, 0.6]), (0, 1))
    np.testing.assert_allclose(class_thresholds([mixture], mean), [[0.75, 0.25]], rtol=1e-9)


def test_the_spread_tells_the_standard_error():
    """By the jackknife factor of the docstring, from folds of one sample, against the thresholds of many samples."""
    thresholds, squares = [], []
    for seed in range(12):
        X, y = draw(400, 100 + seed)
        clf = MetricClassifierCV(MODEL, metric="g_mean", confusion="model", calibration=None).fit(X, y)
        thresholds.append(np.log(clf.thresholds_ / (1 - clf.thresholds_)))
        squares.append((4 / np.sqrt(5) * clf.fold_spread_) ** 2)
    told, true = np.sqrt(np.mean(squares, axis=0)), np.std(thresholds, axis=0, ddof=1)
    assert ((told / true > 0.5) & (told / true < 2.0)).all(), told / true
