"""Classifiers whose rules decide every group by gains of its own."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.metrics import accuracy_score, f1_score, recall_score
from sklearn.model_selection import GroupKFold, StratifiedKFold
from sklearn.naive_bayes import GaussianNB

import confmax
from confmax import FixedRuleClassifier, MetricClassifierCV
from confmax.confusion import Gains
from tests.estimators.helpers import Never

FLOOR = "min(recall[bad] | group) >= 0.8"


@pytest.fixture(scope="module")
def grouped():
    """Two classes that overlap, in two groups of different class sizes."""
    X, rare = make_classification(600, 6, n_informative=4, flip_y=0.15, class_sep=0.6, random_state=1)
    group = np.where(np.random.default_rng(0).random(600) < 0.3 + 0.3 * (X[:, 0] > 0), "a", "b")
    return X, np.where(rare == 1, "bad", "good"), group


def classifier(**more):
    given = {"metric": "accuracy", "constraints": FLOOR, "fold_rules": False, "cv": 3, **more}
    return MetricClassifierCV(GaussianNB(), **given)


def out_of_fold(X, y, splits):
    """Probabilities by models of the other rows, and the row of each."""
    parts = [GaussianNB().fit(X[train], y[train]).predict_proba(X[test]) for train, test in splits]
    return np.concatenate(parts), np.concatenate([test for _, test in splits])


# --- what is tuned ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"constraints": ["difference(rate[bad] | group) <= 0.02", "recall[bad] >= 0.6"], "metric": "g_mean"},
        {"constraints": [FLOOR, "min(coverage | group) >= 0.8"], "abstain": True},
        {"confidence": 0.8, "constraints": "min(recall[bad] | group) >= 0.5"},
        {"on_infeasible": "closest", "constraints": ["min(recall[bad] | group) >= 0.999", "rate[bad] <= 0.1"]},
    ],
    ids=["floor", "difference", "abstain", "confidence", "closest"],
)
def test_groups_go_with_the_rows_that_are_tested(grouped, settings):
    """The rule is that of `maximize` on the out-of-fold rows, with the group of each."""
    X, y, group = grouped
    splits = list(StratifiedKFold(3, shuffle=True, random_state=0).split(X, y))
    tuned = classifier(cv=splits, **settings).fit(X, y, group=group)
    P, rows = out_of_fold(X, y, splits)
    given = {"metric": "accuracy", "constraints": FLOOR, **settings}
    expected = confmax.maximize(given.pop("metric"), P, y[rows], group=group[rows], **given)
    assert tuned.rule_ == expected.rule and tuned.rule_.groups == ("a", "b")
    assert tuned.solution_.constraints == expected.constraints
    # the same decisions by the rule of each group alone
    decided, proba = tuned.predict(X, group=group), tuned.predict_proba(X)
    if not tuned.rule_.is_randomized:
        for name in "ab":
            np.testing.assert_array_equal(
                decided[group == name], tuned.rule_.of_group(name).predict(proba)[group == name]
            )
    shares = tuned.decision_probabilities(X, group=group)
    assert (shares[np.arange(600), tuned.rule_.predict_index(proba, group=group)] > 0).all()


@pytest.mark.filterwarnings("ignore:the labels refute:UserWarning")
def test_few_distinct_rows_are_tuned_on_the_final_model(grouped):
    """The values on labels are those of the out-of-fold rows, whose order is another one than that of X."""
    X, y, group = grouped
    X, y, group = np.repeat(np.round(X[:, :2]).clip(-1, 1), 4, 0), np.repeat(y, 4), np.repeat(group, 4)
    splits = list(StratifiedKFold(3, shuffle=True, random_state=0).split(X, y))
    limits = ["min(recall[bad] | group) >= 0.5", "max(rate[bad] | group) <= 0.7"]
    tuned = classifier(metric="g_mean", constraints=limits, cv=splits, randomized=False).fit(X, y, group=group)
    assert tuned.tuned_on_ == "refit"
    P, rows = out_of_fold(X, y, splits)
    decided = tuned.rule_.predict(P, group=group[rows])
    recalls = [recall_score(y[rows], decided, pos_label=name) for name in ("bad", "good")]
    assert tuned.solution_.label_value == pytest.approx(np.sqrt(np.prod(recalls)))
    recall, rate = tuned.solution_.constraints
    for part, share in zip(recall.by_group, rate.by_group, strict=True):
        mine = group[rows] == part.group
        assert part.label_value == pytest.approx(recall_score(y[rows][mine], decided[mine], pos_label="bad"))
        assert share.label_value == pytest.approx((decided[mine] == "bad").mean())
    seen = tuned.predict(X, group)
    recalls = [recall_score(y, seen, pos_label=name) for name in ("bad", "good")]
    assert tuned.refit_loss_ == pytest.approx(tuned.solution_.label_value - np.sqrt(np.prod(recalls)))


def test_the_rules_of_the_folds_have_groups_and_thresholds_too(grouped):
    X, y, group = grouped
    splits = list(StratifiedKFold(3).split(X, y))
    tuned = classifier(cv=splits, fold_rules=True, randomized=False).fit(X, y, group=group)
    P, rows = out_of_fold(X, y, splits)
    fold = np.repeat(np.arange(3), [len(test) for _, test in splits])
    assert len(tuned.fold_rules_) == 3
    for k, rule in enumerate(tuned.fold_rules_):
        mine = fold != k
        expected = confmax.maximize("accuracy", P[mine], y[rows][mine], group=group[rows][mine], constraints=FLOOR,
                                    randomized=False)  # fmt: skip
        assert rule == expected.rule
    assert tuned.thresholds_.shape == (2, 2) and tuned.fold_thresholds_.shape == (3, 2, 2)
    for g, name in enumerate("ab"):
        assert tuned.thresholds_[g, 1] == tuned.rule_.of_group(name).threshold
        cuts = [rule.of_group(name).threshold for rule in tuned.fold_rules_]
        np.testing.assert_array_equal(tuned.fold_thresholds_[:, g, 1], cuts)
        assert tuned.fold_spread_[g, 1] == pytest.approx(np.std(np.log(cuts) - np.log1p(np.negative(cuts)), ddof=1))


def test_a_fold_without_which_a_group_has_no_rows_is_skipped(grouped):
    X, y, group = grouped
    group = np.where(np.arange(600) < 40, "c", group)
    splits = [(np.arange(200, 600), np.arange(200)), *StratifiedKFold(2).split(X[200:], y[200:])]
    splits[1:] = [(train + 200, test + 200) for train, test in splits[1:]]
    with pytest.warns(UserWarning, match="group 'c' has"):
        tuned = classifier(cv=splits, fold_rules=True).fit(X, y, group=group)
    assert tuned.rule_.groups == ("a", "b", "c") and len(tuned.fold_rules_) == 2
    with pytest.raises(ValueError, match="cv tests no row of group 'c'"):
        classifier(cv=splits[1:]).fit(X, y, group=group)


# --- score ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("abstain", [False, True])
def test_score_is_that_of_scikit_learn(grouped, abstain):
    X, y, group = grouped
    more = {"abstain": True, "constraints": [FLOOR, "coverage >= 0.8"]} if abstain else {}
    tuned = classifier(metric="macro_f1", randomized=False, **more).fit(X, y, group=group)
    weight = np.random.default_rng(2).random(600)
    # a part of the rows may lack a group
    for rows in (slice(None), group == "b", slice(7, 8)):
        decided = tuned.predict(X[rows], group[rows])
        kept = decided != "abstain"
        if not kept.any():
            continue
        expected = f1_score(y[rows][kept], decided[kept], average="macro", labels=["bad", "good"], zero_division=0,
                            sample_weight=weight[rows][kept])  # fmt: skip
        assert tuned.score(X[rows], y[rows], weight[rows], group[rows]) == pytest.approx(expected)


# --- routing ----------------------------------------------------------------------------------------------------------


def test_groups_of_the_splitter_are_another_thing(grouped):
    X, y, group = grouped
    groups = np.random.default_rng(3).integers(0, 20, 600)
    with config_context(enable_metadata_routing=True):
        tuned = classifier(cv=GroupKFold(3)).fit(X, y, group=group, groups=groups)
    splits = list(GroupKFold(3).split(X, y, groups))
    assert tuned.rule_ == classifier(cv=splits).fit(X, y, group=group).rule_
    assert tuned.rule_ != classifier(cv=3).fit(X, y, group=group).rule_


def test_the_wrapped_estimator_gets_groups_that_it_requests(grouped):
    X, y, group = grouped

    class WithGroups(GaussianNB):
        def fit(self, X, y, sample_weight=None, group=None):
            self.seen_ = group
            return super().fit(X, y, sample_weight)

    with config_context(enable_metadata_routing=True):
        model = WithGroups().set_fit_request(group=True, sample_weight=False)
        tuned = MetricClassifierCV(model, metric="accuracy", constraints=FLOOR, cv=3).fit(X, y, group=group)
        assert tuned.estimator_.seen_ is not None and tuned.rule_.groups == ("a", "b")
        without = MetricClassifierCV(model.set_fit_request(group=False), metric="accuracy", constraints=FLOOR, cv=3)
        assert without.fit(X, y, group=group).estimator_.seen_ is None
    # without routing an estimator gets weights alone
    assert (
        MetricClassifierCV(WithGroups(), metric="accuracy", constraints=FLOOR).fit(X, y, group=group).estimator_.seen_
        is None
    )


def test_fixed_rules_decide_by_groups(grouped):
    X, y, group = grouped
    gains = Gains.reduced([1.0, 1.0, 1.0, 3.0])
    rule = confmax.DecisionRule(gains, np.ones(1), ("good", "bad"), groups=("b", "a"))
    fixed = FixedRuleClassifier(GaussianNB(), rule).fit(X, y)
    P = fixed.predict_proba(X)
    factor = np.where(group == "a", 3.0, 1.0)
    np.testing.assert_array_equal(fixed.predict(X, group), np.where(P[:, 0] * factor >= P[:, 1], "bad", "good"))
    assert fixed.score(X, y, group=group) == accuracy_score(y, fixed.predict(X, group))
    with pytest.raises(ValueError, match="pass group to predict"):
        fixed.fit(X, y, group=group)
    with pytest.raises(ValueError, match="by the probabilities of groups, which an estimator does not take"):
        FixedRuleClassifier(GaussianNB(), replace(rule, groups_known=False)).fit(X, y)


# --- mistakes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("constraints", "group", "sentence"),
    [
        ((), ["a", "b"], "group changes the rule only through constraints that speak of groups"),
        ("recall[bad] >= 0.5", ["a", "b"], "group changes the rule only through constraints that speak of groups"),
        (FLOOR, None, "speaks of groups, and there are none; pass group="),
        (FLOOR, ["a"], "group must have one name per row"),
        (FLOOR, ["a", None], "row 1 of group is missing"),
        ("difference(rate[bad] | group) <= 0.1", ["a", "a"], "compares groups, and there is one"),
        (FLOOR, ["a", "b", "empty"], "group 'empty' has no row of class 'bad'"),
    ],
)
def test_mistakes_are_found_before_anything_is_fitted(grouped, constraints, group, sentence):
    X, y, known = grouped
    if group is not None and len(group) == 2:
        group = np.resize(np.array(group, dtype=object), 600)
    elif group is not None and len(group) == 3:
        group = np.where((np.arange(600) < 200) & (y == "good"), "empty", known)
    with pytest.raises(ValueError, match=sentence):
        MetricClassifierCV(Never(), metric="accuracy", constraints=constraints).fit(X, y, group=group)


@pytest.mark.parametrize("method", ["predict", "decision_probabilities", "score"])
def test_rows_without_a_known_group_are_not_decided(grouped, method):
    X, y, group = grouped
    tuned, plain = classifier().fit(X, y, group=group), classifier(constraints=()).fit(X, y)

    def call(model, **more):
        return getattr(model, method)(X, *([y] if method == "score" else []), **more)

    for model, more, sentence in (
        (tuned, {}, r"this rule decides by groups \('a', 'b'\); pass group=, the group of every row"),
        (tuned, {"group": np.where(group == "a", "z", "b")}, "has the group 'z', which the rule does not know"),
        (tuned, {"group": np.where(np.arange(600) == 5, None, group)}, "row 5 of group is missing"),
        (tuned, {"group": group[:9]}, "one name per row"),
        (plain, {"group": group}, "decides all groups alike; leave group out"),
    ):
        with pytest.raises(ValueError, match=sentence):
            call(model, **more)


@pytest.mark.parametrize("more", [{"cv": 0.5, "refit": False}, {"cv": 3, "ensemble": True}, {"cv": "prefit"}])
def test_every_way_to_split(grouped, more):
    X, y, group = grouped
    model = GaussianNB().fit(X[::2], y[::2])
    tuned = classifier(**more).set_params(estimator=model)
    tuned = pickle.loads(pickle.dumps(tuned)).fit(X[1::2], y[1::2], group=group[1::2])
    assert [part.label_value >= 0.75 for part in tuned.solution_.constraints[0].by_group] == [True, True]
    assert tuned.predict(X, group).shape == (600,)
    if more["cv"] == "prefit":
        found = confmax.maximize("accuracy", model.predict_proba(X[1::2]), y[1::2], group=group[1::2],
                                 constraints=FLOOR)  # fmt: skip
        assert tuned.rule_ == found.rule
    again = clone(tuned).set_params(estimator=model, constraints=()).fit(X[1::2], y[1::2])
    assert again.rule_.groups == () and again.predict(X).shape == (600,)


def test_rows_without_weight_are_not_tested_either(grouped):
    X, y, group = grouped
    model, weight = GaussianNB().fit(X[::2], y[::2]), (np.arange(600) % 10 > 0).astype(float)
    tuned = classifier(cv="prefit", confidence=0.8, constraints="min(recall[bad] | group) >= 0.5")
    tuned.set_params(estimator=model).fit(X, y, weight, group)
    kept = weight > 0
    again = clone(tuned).set_params(estimator=model).fit(X[kept], y[kept], group=group[kept])
    # sums of weights and numbers of rows differ in the last digit
    np.testing.assert_allclose(tuned.rule_.gains.a, again.rule_.gains.a, rtol=1e-12)
    np.testing.assert_allclose(tuned.rule_.gains.b, again.rule_.gains.b, rtol=1e-12)
    assert (tuned.predict(X, group) == again.predict(X, group)).all()
