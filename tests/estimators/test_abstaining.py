"""Classifiers whose rules may leave rows undecided."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import accuracy_score, f1_score
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB

import confmax
from confmax import FixedRuleClassifier, MetricClassifierCV
from confmax.confusion import Gains
from tests.estimators.helpers import NAMES, Never, assert_invariant, by_hand

FLOOR = "coverage >= 0.7"


@pytest.mark.filterwarnings("ignore:of the rows")  # recall[fatal] counts no other class
@pytest.mark.parametrize(("metric", "weighted"), [("accuracy", False), ("macro_f1", True), ("recall[fatal]", False)])
def test_the_rule_is_that_of_all_out_of_fold_rows(three, weight, metric, weighted):
    X, y, _ = three
    splits = list(StratifiedKFold(3).split(X, y))
    weights = weight if weighted else None
    settings = {"abstain": True, "constraints": FLOOR}
    model = MetricClassifierCV(GaussianNB(), metric=metric, cv=splits, fold_rules=False, **settings)
    fitted = model.fit(X, y, sample_weight=weights)
    expected = by_hand(GaussianNB(), X, y, splits, metric, weight=weights, fit_weight=weights, **settings)
    assert fitted.rule_ == expected.rule and fitted.rule_.abstain == "abstain"
    assert fitted.solution_.label_value == expected.label_value
    assert_invariant(fitted, X)


def test_what_is_decided_is_scored(three, weight):
    """The score is scikit-learn's of the rows that are decided."""
    X, y, _ = three
    model = MetricClassifierCV(GaussianNB(), metric="macro_f1", cv=3, abstain=True, constraints=FLOOR, fold_rules=False)
    decided = model.fit(X, y).predict(X)
    kept = decided != "abstain"
    assert 0.5 < kept.mean() < 0.9
    assert model.decision_probabilities(X).shape == (300, 4)
    if not model.rule_.is_randomized:
        np.testing.assert_array_equal(model.decision_probabilities(X)[:, 3], ~kept)
        for weights in (None, weight):
            of_kept = None if weights is None else weights[kept]
            expected = f1_score(
                y[kept], decided[kept], average="macro", labels=NAMES, sample_weight=of_kept, zero_division=0
            )
            assert model.score(X, y, weights) == pytest.approx(expected, abs=1e-12)
    assert model.classes_.tolist() == NAMES and model.predict_proba(X).shape == (300, 3)
    assert model.thresholds_.shape == (3,)


@pytest.mark.parametrize(
    ("labels", "abstain", "name", "kind"),
    [
        (np.array(["no", "yes"]), True, "abstain", "U"),
        (np.array(["no", "yes"], dtype=object), True, "abstain", "U"),
        (np.array([0, 1]), True, -1, "i"),
        (np.array([0, 1], dtype=np.uint8), True, -1, "i"),
        (np.array([3, 7]), 99, 99, "i"),
        (np.array([0, 1]), "ask", "ask", "O"),
        (np.array([False, True]), True, -1, "O"),
        (np.array([1.0, 2.0]), True, -1, "f"),
        (np.array([1.0, 2.0]), "ask", "ask", "O"),
        (np.array([1.0, 2.0]), -1.0, -1.0, "f"),
    ],
)
def test_the_kind_of_the_labels_is_kept_where_it_holds_the_name(two, labels, abstain, name, kind):
    X, _, rare = two
    model = MetricClassifierCV(GaussianNB(), metric="accuracy", cv=2, abstain=abstain, constraints=FLOOR)
    decided = model.set_params(fold_rules=False, randomized=False).fit(X, labels[rare]).predict(X)
    assert decided.dtype.kind == kind and model.rule_.abstain == name
    assert {type(one) for one in decided.tolist()} <= {type(name), type(labels.tolist()[0])}
    assert set(decided.tolist()) == {name, *labels.tolist()}
    kept = decided != name
    assert model.score(X, labels[rare]) == pytest.approx((decided == labels[rare])[kept].mean())
    assert_invariant(model, X)


@pytest.mark.parametrize("more", [{"cv": 0.5, "refit": False}, {"cv": 3, "ensemble": True}, {"cv": "prefit"}])
def test_every_way_to_split(three, more):
    X, y, _ = three
    model = GaussianNB().fit(X[:150], y[:150])
    settings = {"metric": "balanced_accuracy", "abstain": True, "constraints": FLOOR, "randomized": True}
    tuned = pickle.loads(pickle.dumps(clone(MetricClassifierCV(model, **settings, **more)).set_params(estimator=model)))
    assert tuned.get_params()["abstain"] is True
    tuned.fit(X[150:], y[150:])
    assert tuned.solution_.constraints[0].slack >= 0.0
    assert tuned.decision_probabilities(X).shape == (300, 4)
    if more["cv"] == "prefit":
        found = confmax.maximize("balanced_accuracy", model.predict_proba(X[150:]), y[150:], classes=NAMES,
                                 abstain=True, constraints=FLOOR, randomized=True)  # fmt: skip
        assert tuned.rule_ == found.rule
    again = clone(tuned).set_params(estimator=model, abstain=False, constraints=())
    assert again.fit(X[150:], y[150:]).rule_.abstain is None and again.decision_probabilities(X).shape == (300, 3)


def test_costs_name_what_abstaining_costs(three):
    X, y, _ = three
    cost = np.hstack([1.0 - np.eye(3), np.full((3, 1), 0.2)])
    model = MetricClassifierCV(GaussianNB(), metric=confmax.metrics.get("linear", cost=cost), cv=3, abstain=True)
    model.set_params(labels=NAMES)
    splits = list(StratifiedKFold(3).split(X, y))
    expected = by_hand(GaussianNB(), X, y, splits, confmax.metrics.get("linear", cost=cost), abstain=True)
    assert model.fit(X, y).rule_ == expected.rule
    table = np.where(np.array(NAMES)[:, None] == np.array([*NAMES, "abstain"]), 0.0, 1.0)
    table[:, 3] = 0.2
    decided = model.predict(X)
    costs = [table[NAMES.index(true), [*NAMES, "abstain"].index(one)] for true, one in zip(y, decided, strict=True)]
    assert model.score(X, y) == pytest.approx(-np.mean(costs), abs=1e-12)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"abstain": True}, "set a floor"),
        ({"abstain": "bad", "constraints": FLOOR}, "a class is called 'bad'; give abstaining another name"),
        ({"abstain": True, "constraints": "coverage >= 1.5"}, "lies between 0 and 1"),
        ({"abstain": True, "constraints": "coverage[ugly] >= 0.5"}, "names a class that the table does not have"),
        ({"abstain": [1], "constraints": FLOOR}, "abstain is True or a name"),
        ({"abstain": True, "metric": "coverage"}, "limit what is decided"),
        ({"metric": "coverage"}, "pass abstain=True, or maximise another metric"),
        (
            {"abstain": True, "metric": confmax.metrics.get("linear", gain=np.eye(2)), "labels": ["bad", "good"]},
            "one more column",
        ),
        ({"abstain": True, "metric": confmax.metrics.get("linear", gain=np.eye(2, 4))}, "has 4 decisions for 2"),
    ],
)
def test_what_cannot_be_tuned_is_refused_before_anything_is_fitted(two, settings, sentence):
    X, y, _ = two
    with pytest.raises(ValueError, match=sentence):
        MetricClassifierCV(Never(), **{"metric": "accuracy"} | settings).fit(X, y)


def test_a_limit_on_the_coverage_needs_a_rule_that_abstains(two):
    X, y, _ = two
    with pytest.raises(ValueError, match="this rule decides all rows; pass abstain=True"):
        MetricClassifierCV(GaussianNB(), constraints=FLOOR).fit(X, y)


# --- rules that are known ---------------------------------------------------------------------------------------------


def abstaining(names, abstain):
    return confmax.DecisionRule(
        Gains.reduced([[1.0, 1.0]], [[0.0, 0.0, 0.8]]), np.ones(1), (*names, abstain), abstain=abstain
    )


@pytest.mark.filterwarnings("ignore:the rule has no class names:UserWarning")
@pytest.mark.parametrize("rule", [abstaining(("good", "bad"), "ask"), abstaining((0, 1), "ask")])
def test_a_fixed_rule_that_abstains(two, weight, rule):
    X, y, _ = two
    model = FixedRuleClassifier(GaussianNB(), rule).fit(X, y)
    P = model.predict_proba(X)
    expected = np.where(P.max(axis=1) > 0.8, model.classes_[P.argmax(axis=1)], "ask")
    np.testing.assert_array_equal(model.predict(X), expected)
    kept = expected != "ask"
    assert 0 < kept.sum() < 300 and model.classes_.tolist() == ["bad", "good"]
    for weights in (None, weight):
        of_kept = None if weights is None else weights[kept]
        assert model.score(X, y, weights) == accuracy_score(y[kept], expected[kept], sample_weight=of_kept)
    assert model.decision_probabilities(X).shape == (300, 3)


def test_a_fixed_rule_that_decides_nothing_has_the_score_zero(two):
    X, y, _ = two
    never = confmax.DecisionRule(
        Gains.reduced([[1.0, 1.0]], [[0.0, 0.0, 2.0]]), np.ones(1), ("bad", "good", -1), abstain=-1
    )
    model = FixedRuleClassifier(GaussianNB(), never).fit(X, y)
    assert model.score(X, y) == 0.0 and set(model.predict(X).tolist()) == {-1}


def test_a_class_with_the_name_of_abstaining_is_refused(two):
    X, _, rare = two
    with pytest.raises(ValueError, match="a class is called -1"):
        FixedRuleClassifier(GaussianNB(), abstaining((0, 1), -1)).fit(X, np.where(rare, 1, -1))


def test_other_decisions_beyond_the_classes_are_refused(two):
    X, y, _ = two
    other = confmax.DecisionRule(Gains.reduced([[1.0, 1.0]], [[0.0, 0.0, 0.8]]), np.ones(1), ("bad", "good", "ask"))
    with pytest.raises(ValueError, match=r"decides between \('bad', 'good', 'ask'\)"):
        FixedRuleClassifier(GaussianNB(), other).fit(X, y)


def test_the_rules_of_the_folds_abstain_too(two):
    X, y, _ = two
    splits = list(StratifiedKFold(3).split(X, y))
    model = MetricClassifierCV(GaussianNB(), metric="accuracy", cv=splits, abstain=True, constraints=FLOOR).fit(X, y)
    assert [rule.abstain for rule in model.fold_rules_] == ["abstain"] * 3
    P = np.concatenate([GaussianNB().fit(X[train], y[train]).predict_proba(X[test]) for train, test in splits])
    labels = np.concatenate([y[test] for _, test in splits])
    fold = np.repeat(np.arange(3), [len(test) for _, test in splits])
    for k, rule in enumerate(model.fold_rules_):
        other = confmax.maximize("accuracy", P[fold != k], labels[fold != k], abstain=True, constraints=FLOOR)
        assert rule == other.rule
    assert model.fold_thresholds_.shape == (3, 2) and np.isfinite(model.fold_spread_).all()
    # a class is decided from a probability above one half: below it the rule abstains
    assert (model.thresholds_ > 0.5).all()
