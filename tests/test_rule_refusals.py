"""What cannot be decided, read or kept, each refused in one sentence; and reordering a rule of very many classes."""

import time

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

import confmax
from confmax import DecisionRule
from confmax.confusion import Gains

RULE = DecisionRule.from_weights([1.0, 2.0, 3.0, 4.0], classes=list("abcd"))
P = np.random.default_rng(0).dirichlet(np.ones(4), 20)


@pytest.mark.parametrize("make", [np.asarray, np.ndarray.tolist, pd.DataFrame, sp.csr_array], ids=str)
def test_columns_are_counted_before_rows_are_summed(make):
    for call in (RULE.predict, RULE.predict_index, RULE.decision_probabilities):
        with pytest.raises(
            ValueError, match="proba has 2 columns and the rule has 4 classes; pass one column per class"
        ):
            call(make(P[:, :2]))
    drawn = DecisionRule(Gains.reduced([[1.0, 2.0], [2.0, 1.0]]), np.array([0.5, 0.5]), ("a", "b"))
    with pytest.raises(ValueError, match=r"proba has 4 columns and the rule has 2 classes; .* in the order a, b$"):
        drawn.predict(make(P))


def test_a_rule_that_no_file_could_give_back():
    with pytest.raises(ValueError, match="class names that are finite numbers; got inf: rename this class"):
        DecisionRule.from_weights([1.0, 2.0], classes=[float("inf"), 1.0]).to_json()
    with pytest.raises(ValueError, match="this rule names a class twice; rename one of them"):
        DecisionRule.from_weights([1.0, 2.0], classes=["a", "a"]).to_json()


def test_keys_are_valid_unicode():
    drawn = DecisionRule(Gains.reduced([[1.0, 2.0], [2.0, 1.0]]), np.array([0.5, 0.5]), ("a", "b"))
    with pytest.raises(
        ValueError, match=r"keys must be valid Unicode, and '\\ud800' is not; pass integers, or strings"
    ):
        drawn.predict([[0.6, 0.4]], keys=["\ud800"])


def test_reordering_takes_time_in_proportion_to_the_classes():
    """A search of every name among all of them took 207 s at this size."""
    K = 100_000
    rule = DecisionRule.from_weights(np.arange(1.0, K + 1), classes=[f"c{k}" for k in range(K)])
    order = np.random.default_rng(0).permutation(K)
    began = time.perf_counter()
    moved = rule.reordered([rule.class_names[k] for k in order])
    assert time.perf_counter() - began < 5
    np.testing.assert_array_equal(moved.gains.a[0], rule.gains.a[0][order])


# --- estimators -------------------------------------------------------------------------------------------------------

X = np.random.default_rng(1).normal(size=(60, 3))


def test_a_fixed_rule_is_no_json_text():
    rule = DecisionRule.from_weights([1.0, 2.0], classes=["a", "b"])
    y = np.array(["a", "b"])[(X[:, 0] > 0).astype(int)]
    with pytest.raises(ValueError, match=r"rule is the JSON text .* pass DecisionRule.from_json\(text\), or the path"):
        confmax.FixedRuleClassifier(LogisticRegression(), rule.to_json()).fit(X, y)


def test_classes_with_fewer_rows_than_folds():
    y = np.array(["a"] * 40 + ["b"] * 18 + ["c"] * 2)
    sentence = r"class c has fewer rows \(2\) than there are folds \(5\), so some folds have none .* pass a smaller cv"
    with pytest.warns(UserWarning, match=sentence) as caught:
        confmax.MetricClassifierCV(LogisticRegression(), fold_rules=False).fit(X, y)
    assert len(caught) == 1 and caught[0].filename == __file__
    with pytest.raises(
        ValueError, match="no class has the 5 rows that 5 stratified folds need; pass cv=3, or more rows"
    ):
        confmax.MetricClassifierCV(LogisticRegression()).fit(X[:7], np.array(list("aaaabbb")))


def test_an_estimator_predicts_classes_or_abstains():
    y = (X[:, 0] > 0).astype(int)
    costs = confmax.metrics.get("linear", cost=[[0, 1, 0.3], [5, 0, 0.3]])
    with pytest.raises(ValueError, match="for other decisions pass the model's probabilities to"):
        confmax.MetricClassifierCV(LogisticRegression(), metric=costs).fit(X, y)


def test_thresholds_of_rules_that_have_none():
    make = DecisionRule.from_weights
    assert make([1, 4, 2], [3, 3, 3]).to_spark_thresholds() == [1.0, 0.25, 0.5]
    assert make([1, 1], [0.0, 0.5]).to_spark_thresholds() == pytest.approx([1.0, 1 / 3])
    scaled = confmax.calibration.Temperature(0.5)
    gains = Gains.reduced([1.0, 2.0, 3.0])
    for rule, sentence in (
        (make([1, 2, 3], [0, 0.1, 0]), "cannot express a rule with offsets; use rule.transform"),
        (make([1, 0, 3]), "weights that are not positive"),
        (make([1, 1], [0.0, 3.0]), "always decides one class"),
        (
            DecisionRule(Gains.reduced(np.ones((2, 3))), np.array([0.5, 0.5]), (0, 1, 2)),
            "rule that decides at random",
        ),
        (DecisionRule(gains, np.ones(1), (0, 1, 2), calibrator=scaled), "calibrates the probabilities first"),
        (DecisionRule(Gains.from_matrix(np.eye(3)), np.ones(1), (0, 1, 2)), "more than one weight per class"),
        (DecisionRule(Gains.reduced([1, 1], [0, 0, 0.7]), np.ones(1), (0, 1, 2)), "beyond its classes"),
        (DecisionRule(Gains.from_matrix(np.eye(2, 3)), np.ones(1), (0, 1, 2)), "beyond its classes"),
    ):
        with pytest.raises(ValueError, match=sentence):
            rule.to_spark_thresholds()
