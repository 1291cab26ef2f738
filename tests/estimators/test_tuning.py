"""The tuning: its table, refit and hold-outs, the order of the classes, each against the same work done by hand."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import cohen_kappa_score, f1_score
from sklearn.model_selection import (
    KFold,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
    StratifiedShuffleSplit,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

import confmax
from confmax.estimators import MetricClassifierCV
from tests.estimators.helpers import NAMES, RANK, assert_invariant, by_hand

# --- the table that is tuned on --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cv", "splitter"),
    [
        (None, StratifiedKFold(5)),
        (3, StratifiedKFold(3)),
        (0.25, StratifiedShuffleSplit(1, test_size=0.25, random_state=0)),
        (RepeatedStratifiedKFold(n_splits=2, n_repeats=3, random_state=0), None),
        (ShuffleSplit(2, test_size=0.3, random_state=0), None),
        (KFold(4), None),
    ],
    ids=["default", "folds", "hold-out", "repeated", "partial", "unstratified"],
)
@pytest.mark.parametrize("metric", ["macro_f1"])
def test_every_test_row_of_every_split_is_tuned_on(three, cv, splitter, metric):
    X, y, _ = three
    clf = MetricClassifierCV(GaussianNB(), metric=metric, cv=cv).fit(X, y)
    splits = list((splitter or cv).split(X, y))
    expected = by_hand(GaussianNB(), X, y, splits, metric)
    assert clf.rule_ == expected.rule
    assert clf.solution_.value == expected.value
    assert clf.rule_ is clf.solution_.rule
    np.testing.assert_array_equal(clf.predict_proba(X), GaussianNB().fit(X, y).predict_proba(X))
    assert_invariant(clf, X)


def test_splits_may_be_a_generator_that_is_used_once(three):
    X, y, _ = three
    splits = list(StratifiedKFold(4).split(X, y))
    clf = MetricClassifierCV(GaussianNB(), metric="macro_f1", cv=(split for split in splits)).fit(X, y)
    assert clf.rule_ == by_hand(GaussianNB(), X, y, splits).rule
    with pytest.raises(ValueError, match="a generator of splits can be used only once"):
        clf.fit(X, y)


def test_a_splitter_is_asked_once(three):
    """A splitter without a seed answers differently each time; model and table must come from one answer."""
    X, y, _ = three
    asked = []

    class Splitter(ShuffleSplit):
        def split(self, *args):
            asked.append(list(super().split(*args)))
            return iter(asked[-1])

    clf = MetricClassifierCV(GaussianNB(), metric="macro_f1", cv=Splitter(1, test_size=0.5), refit=False).fit(X, y)
    assert len(asked) == 1
    train, _ = asked[0][0]
    np.testing.assert_array_equal(clf.estimator_.theta_, GaussianNB().fit(X[train], y[train]).theta_)
    assert clf.rule_ == by_hand(GaussianNB(), X, y, asked[0]).rule


def test_every_split_starts_afresh(three):
    """A forest that goes on from where it was would keep the trees of the split before."""
    X, y, _ = three
    forest = RandomForestClassifier(5, warm_start=True, random_state=0)
    clf = MetricClassifierCV(forest, metric="macro_f1", cv=3).fit(X, y)
    assert clf.rule_ == by_hand(forest, X, y, list(StratifiedKFold(3).split(X, y))).rule


@pytest.mark.filterwarnings("ignore:.* the rule does not suit that model")
def test_a_class_that_a_fold_was_not_fitted_on_has_probability_zero(three):
    X, y, rank = three
    without = np.flatnonzero((rank < 2) & (np.arange(300) % 2 == 0))
    splits = [(without, np.setdiff1d(np.arange(300), without)), (np.arange(0, 300, 2), np.arange(1, 300, 2))]
    clf = MetricClassifierCV(GaussianNB(), metric="macro_f1", cv=splits).fit(X, y)
    assert clf.rule_ == by_hand(GaussianNB(), X, y, splits).rule
    assert clf.classes_.tolist() == NAMES
    with pytest.raises(ValueError, match=r"has the classes \('mild', 'serious'\), but y has \('fatal', 'mild'"):
        MetricClassifierCV(GaussianNB(), cv=splits[:1], refit=False).fit(X, y)


# --- refit, hold-outs and fitted estimators --------------------------------------------------------------------------


@pytest.mark.parametrize("refit", [True, False])
def test_hold_out(two, refit):
    X, y, _ = two
    clf = MetricClassifierCV(GaussianNB(), metric="mcc", cv=0.4, refit=refit, random_state=3).fit(X, y)
    split = next(StratifiedShuffleSplit(1, test_size=0.4, random_state=3).split(X, y))
    rows = slice(None) if refit else split[0]
    np.testing.assert_array_equal(clf.estimator_.theta_, GaussianNB().fit(X[rows], y[rows]).theta_)
    assert clf.rule_ == by_hand(GaussianNB(), X, y, [split], "mcc", random_state=3).rule


def test_prefit_is_maximize(three):
    X, y, _ = three
    model = GaussianNB().fit(X[:150], y[:150])
    clf = MetricClassifierCV(model, metric="g_mean", cv="prefit", refit=False, randomized=True, random_state=7)
    clf.fit(X[150:], y[150:])
    expected = confmax.maximize(
        "g_mean", model.predict_proba(X[150:]), y[150:], classes=NAMES, randomized=True, random_state=7
    )
    assert clf.rule_ == expected.rule
    assert clf.rule_.seed == 7
    assert clf.estimator_ is model
    assert_invariant(clf, X)


def test_settings_reach_maximize(three):
    X, y, _ = three
    model = GaussianNB().fit(X[:150], y[:150])
    clf = MetricClassifierCV(model, metric="g_mean", cv="prefit", refit=False, confusion="model", calibration=None)
    clf.set_params(randomized=False).fit(X[150:], y[150:])
    expected = confmax.maximize(
        "g_mean", model.predict_proba(X[150:]), y[150:], confusion="model", calibration=None, randomized=False
    )
    assert (clf.solution_.mode, clf.solution_.value) == ("model", expected.value)
    for setting in ("confusion", "calibration", "randomized", "random_state"):
        with pytest.raises(ValueError, match=f"{setting} must be .*; got 'wrong'"):
            clone(clf).set_params(estimator=model, **{setting: "wrong"}).fit(X[150:], y[150:])


def test_frozen_estimators_are_not_fitted(three):
    X, y, _ = three
    model = GaussianNB().fit(X[:150], y[:150])
    clf = MetricClassifierCV(FrozenEstimator(model), metric="balanced_accuracy").fit(X[150:], y[150:])
    expected = confmax.maximize("balanced_accuracy", model.predict_proba(X[150:]), y[150:])
    assert clf.solution_.value == pytest.approx(expected.value, abs=1e-12)
    np.testing.assert_array_equal(clf.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(clf.predict(X), expected.rule.predict(model.predict_proba(X)))


def test_a_fitted_model_may_know_more_classes_than_there_are_rows_of(three):
    X, y, rank = three
    model = GaussianNB().fit(X, y)
    few = rank < 2
    clf = MetricClassifierCV(model, cv="prefit", refit=False)
    with pytest.warns(UserWarning, match="has no weight in class fatal"):
        clf.fit(X[few], y[few])
    assert clf.classes_.tolist() == NAMES
    assert_invariant(clf, X)
    with pytest.raises(ValueError, match=r"holds 'mild', which is not a class of the model \('fatal'"):
        MetricClassifierCV(GaussianNB().fit(X[rank > 0], y[rank > 0]), cv="prefit", refit=False).fit(X[few], y[few])


@pytest.mark.parametrize(
    ("settings", "error", "sentence"),
    [
        ({"cv": "prefit"}, NotFittedError, "cv='prefit' needs a fitted estimator; fit it first"),
        ({"cv": "prefit", "refit": False}, NotFittedError, "cv='prefit' needs a fitted estimator; fit it first"),
        ({"refit": False}, ValueError, "refit=False needs one split, but cv gave 5; pass refit=True, or one split"),
        ({"refit": "yes"}, ValueError, "refit must be True or False; got 'yes'"),
        ({"fold_rules": "yes"}, ValueError, "fold_rules must be True or False; got 'yes'"),
        ({"ensemble": "yes"}, ValueError, "ensemble must be True or False; got 'yes'"),
        ({"cv": 1.5}, ValueError, "cv as a number is the share of a hold-out and must lie between 0 and 1; got 1.5"),
        ({"cv": []}, ValueError, "cv gave no splits"),
        ({"cv": "folds"}, ValueError, "Expected [`']?cv[`']? as an integer"),
        ({"metric": "f1_marco"}, ValueError, "there is no metric 'f1_marco'; did you mean f1_macro"),
        ({"metric": "f1", "labels": ["mild", "serious", "fatal"]}, ValueError, "f1 is a metric of two classes"),
        ({"estimator": LinearSVC()}, ValueError, "methods fit and predict_proba, but this LinearSVC does not have"),
    ],
)
def test_bad_parameters(three, settings, error, sentence):
    X, y, _ = three
    with pytest.raises(error, match=sentence):
        MetricClassifierCV(GaussianNB()).set_params(**settings).fit(X, y)


# --- the order of the classes ----------------------------------------------------------------------------------------


def test_pos_label_names_the_class_of_f1(two):
    X, y, rare = two
    clf = MetricClassifierCV(LogisticRegression(), metric="f1", pos_label="bad").fit(X, y)
    coded = MetricClassifierCV(LogisticRegression(), metric="f1").fit(X, rare)
    assert clf.classes_.tolist() == ["bad", "good"]
    assert clf.solution_.value == pytest.approx(coded.solution_.value, abs=1e-12)
    np.testing.assert_array_equal(clf.predict(X) == "bad", coded.predict(X) == 1)
    assert clf.score(X, y) == pytest.approx(f1_score(y, clf.predict(X), pos_label="bad"), abs=1e-12)
    other = MetricClassifierCV(LogisticRegression(), metric="f1", pos_label="good").fit(X, y)
    assert other.score(X, y) == pytest.approx(f1_score(y, other.predict(X), pos_label="good"), abs=1e-12)
    assert abs(clf.score(X, y) - other.score(X, y)) > 0.1
    plain = f1_score(y, LogisticRegression().fit(X, y).predict(X), pos_label="bad")
    assert clf.score(X, y) > plain + 0.02
    for settings in ({"labels": ["good", "bad"]}, {"labels": ["good", "bad"], "pos_label": "bad"}):
        assert MetricClassifierCV(LogisticRegression(), metric="f1", **settings).fit(X, y).rule_ == clf.rule_
    assert_invariant(clf, X)


def test_labels_order_a_weighted_kappa(three):
    X, y, rank = three
    clf = MetricClassifierCV(GaussianNB(), metric="quadratic_kappa", labels=list(RANK)).fit(X, y)
    coded = MetricClassifierCV(GaussianNB(), metric="quadratic_kappa").fit(X, rank)
    assert clf.classes_.tolist() == NAMES
    # old releases of scikit-learn normalise in the order of the columns: rows that differ in their last bit are drawn
    # into other folds, by which calibration and blend are chosen
    assert clf.solution_.value == pytest.approx(coded.solution_.value, abs=1e-4)
    undrawn = {"calibration": None, "confusion": "labels", "metric": "quadratic_kappa"}
    by_name = MetricClassifierCV(GaussianNB(), labels=list(RANK), **undrawn).fit(X, y)
    by_rank = MetricClassifierCV(GaussianNB(), **undrawn).fit(X, rank)
    assert by_name.solution_.value == pytest.approx(by_rank.solution_.value, abs=1e-9)
    ranked = np.array([RANK[name] for name in clf.predict(X)])
    assert (ranked == coded.predict(X)).mean() > 0.99
    assert clf.score(X, y) == pytest.approx(cohen_kappa_score(rank, ranked, weights="quadratic"), abs=1e-12)
    alphabet = MetricClassifierCV(GaussianNB(), metric="quadratic_kappa", labels=NAMES).fit(X, y)
    assert abs(alphabet.score(X, y) - clf.score(X, y)) > 0.01
    assert_invariant(clf, X)


@pytest.mark.parametrize(
    ("metric", "settings", "sentence"),
    [
        ("f1", {}, r"f1 depends on the order of the classes and y holds names \('bad', 'good'\); pass labels= with"),
        ("f1", {"pos_label": "rare"}, r"must be one of two classes; got 'rare' with 2 classes \('bad', 'good'\)"),
        ("f1", {"labels": ["good", "rare"]}, r"labels must hold each of the classes \('bad', 'good'\) once, in order"),
        ("f1", {"labels": ["bad"]}, "labels must hold each of the classes"),
        ("f1", {"labels": ["bad", "bad"]}, "labels must hold each of the classes"),
        ("f1", {"labels": "bad"}, "labels must hold each of the classes"),
        ("f1", {"labels": ["bad", "good"], "pos_label": "bad"}, "name different positive classes; pass one"),
        ("accuracy", {"pos_label": "rare"}, "pos_label must be one of two classes"),
    ],
)
def test_bad_orders(two, metric, settings, sentence):
    X, y, _ = two
    unfitted = MetricClassifierCV(GaussianNB(), metric=metric, **settings)
    with pytest.raises(ValueError, match=sentence):
        unfitted.fit(X, y)


def test_numbers_and_truth_values_are_in_order_by_themselves(two):
    X, _, rare = two
    flags = MetricClassifierCV(GaussianNB(), metric="f1").fit(X, rare == 1)
    assert flags.predict(X).dtype == bool
    assert flags.score(X, rare == 1) == pytest.approx(f1_score(rare == 1, flags.predict(X)), abs=1e-12)
    halves = MetricClassifierCV(GaussianNB(), metric="f1").fit(X, rare - 0.5 + 1.5)
    assert halves.classes_.tolist() == [1.0, 2.0]
    np.testing.assert_array_equal(halves.predict(X) == 2, flags.predict(X))
    first = MetricClassifierCV(GaussianNB(), metric="f1", pos_label=False).fit(X, rare == 1)
    assert first.score(X, rare == 1) == pytest.approx(f1_score(rare == 0, first.predict(X) == 0), abs=1e-12)
    assert_invariant(flags, X)
    assert_invariant(halves, X)


def test_a_classifier_decides_only_classes(two):
    X, _, rare = two
    abstain = confmax.metrics.get("linear", gain=[[1, 0, 0.4], [0, 1, 0.4]])
    with pytest.raises(ValueError, match="has 3 decisions for 2 classes, and an estimator predicts classes, or"):
        MetricClassifierCV(GaussianNB(), metric=abstain).fit(X, rare)


def test_splits_may_be_masks(three):
    X, y, _ = three
    masks = [np.arange(len(y)) % 3 == k for k in (0, 1)]
    clf = MetricClassifierCV(GaussianNB(), metric="macro_f1", cv=[(~mask, mask) for mask in masks]).fit(X, y)
    splits = [(np.flatnonzero(~mask), np.flatnonzero(mask)) for mask in masks]
    assert clf.rule_ == by_hand(GaussianNB(), X, y, splits).rule


@pytest.mark.parametrize("random_state", [0, None, np.random.RandomState(3)], ids=["int", "None", "state"])
def test_random_state_is_what_scikit_learn_takes(three, random_state):
    X, y, _ = three
    clf = MetricClassifierCV(GaussianNB(), metric="h_mean", random_state=random_state, randomized=True).fit(X, y)
    assert_invariant(clf, X)
    assert 0 <= clf.rule_.seed < 2**64


def test_pos_label_is_for_two_classes(three):
    X, y, _ = three
    with pytest.raises(ValueError, match=r"got 'mild' with 3 classes .* for more than two, pass classes="):
        MetricClassifierCV(GaussianNB(), pos_label="mild").fit(X, y)
