"""`predict` returns labels in the dtype of the classes, on every kind of table; `predict_index` returns positions.

The witness is the definition, row by row in plain Python: the last of the largest scores, and the name at its place.
"""

import importlib

import numpy as np
import pandas as pd
import polars as pl
import pytest

import confmax
from confmax import DecisionRule
from confmax.confusion import Gains

CLASSES = {
    "positions": ((0, 1, 2), "int64"),
    "integers": ((7, -3, 2), "int64"),
    "shifted": ((1, 2, 3), "int64"),
    "names": (("no", "maybe", "yes, surely"), "<U11"),
    "numbers in text": (("0", "1", "2"), "<U1"),
    "floats": ((0.5, 1.0, 2.5), "float64"),
    "mixed": ((0, "abstain", 2), "object"),
    "numbers and text alike": ((1, "1", True), "object"),
    "beyond 64 bits": ((2**70, 1, 2), "object"),
    "a NUL at the end": (("a", "a\0", "b"), "object"),
}
each_kind = pytest.mark.parametrize(("names", "dtype"), CLASSES.values(), ids=CLASSES)
WEIGHTS = [1.0, 2.5, 1.7]


def table(n=400, K=3):
    P = np.random.default_rng(8).dirichlet(np.ones(K), n)
    P[:20] = 1 / K  # ties
    return P


def witness(P, names, weights=WEIGHTS):
    """Return the labels by the definition, as a list of plain values."""
    found = []
    for row in P.tolist():
        scores = [p * w for p, w in zip(row, weights, strict=True)]
        found.append(names[max(k for k, score in enumerate(scores) if score == max(scores))])
    return found


ARRAYS = {
    "array": lambda P: P,
    "list": lambda P: P.tolist(),
    "frame": lambda P: pd.DataFrame(P),
    "polars": lambda P: pl.DataFrame(P),
    "one row": lambda P: P[:1],
}


# --- arrays ----------------------------------------------------------------------------------------------------------


@each_kind
@pytest.mark.parametrize("kind", ARRAYS)
def test_labels_of_arrays(names, dtype, kind):
    P = table()
    rule, given = DecisionRule.from_weights(WEIGHTS, classes=names), ARRAYS[kind](P)
    if not isinstance(names[0], (int, str)) or kind not in ("frame", "polars"):
        found, index = rule.predict(given), rule.predict_index(given)
        expected = witness(P, names)[: len(found)]
        assert found.dtype == rule.classes.dtype == np.dtype(dtype)
        assert index.dtype == np.int64
        assert found.tolist() == rule.classes[index].tolist() == expected
        assert [type(label) for label in found.tolist()] == [type(label) for label in expected]


def test_truth_values_are_labels():
    rule = DecisionRule.from_weights([1.0, 3.0], classes=[False, True])
    found = rule.predict([[0.7, 0.3], [0.8, 0.2]])
    assert found.dtype == np.bool_
    assert found.tolist() == [True, False]
    assert rule.predict_index([[0.7, 0.3], [0.8, 0.2]]).tolist() == [1, 0]


def test_classes_that_are_positions_cost_no_second_array():
    """The index array itself is returned: nothing is looked up."""
    from confmax.tables.kinds import named

    index = np.array([2, 0, 1])
    assert named(np.arange(3), index) is index
    assert named(np.arange(3, dtype=np.int32), index).dtype == np.int32
    assert named(np.array([0, 2, 1]), index).tolist() == [1, 0, 2]


def test_warnings_of_draws_name_the_caller():
    rule = DecisionRule(Gains.constant(2, [0, 1]), np.array([0.5, 0.5]), ("a", "b"))
    for call in (rule.predict, rule.predict_index):
        with pytest.warns(UserWarning, match="duplicates of each other") as caught:
            call(np.full((50, 2), 0.5))
        assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("classes", "label"),
    [((0, 1, 2), 3), ((1, 2, 3), 4), ((10, 3, 5), 4), (("a", "b", "c"), "decision 3"), ((0.5, 1.0, 2.5), "decision 3")],
)
def test_a_further_decision_has_a_label_that_no_class_has(classes, label):
    P = np.array([[0.4, 0.3, 0.3], [0.1, 0.9, 0.0]] * 20)
    y = np.array(classes)[[1, 1] * 10 + [0, 1] * 5 + [2, 1] * 5]
    metric = confmax.metrics.get("linear", cost=np.hstack([1 - np.eye(3), np.full((3, 1), 0.3)]))
    solution = confmax.maximize(metric, P, y, classes=classes, confusion="model", calibration=None)
    assert solution.predict(P)[:2].tolist() == [label, classes[1]]
    assert solution.rule.predict_index(P)[:2].tolist() == [3, 1]


# --- solutions and estimators ----------------------------------------------------------------------------------------


def test_an_estimator_of_tensors_predicts_an_array():
    """scikit-learn's callers get an array of ``classes_`` even where the wrapped model's probabilities are a tensor."""
    torch = pytest.importorskip("torch")
    from sklearn.linear_model import LogisticRegression

    class Tensors(LogisticRegression):
        def predict_proba(self, X):
            return torch.from_numpy(super().predict_proba(X))

    X, y = np.arange(40.0)[:, None], np.array(["no", "yes"])[np.arange(40) // 30]
    rule = DecisionRule.from_weights([1.0, 3.0], classes=["no", "yes"])
    found = confmax.FixedRuleClassifier(Tensors(), rule).fit(X, y).predict(X)
    plain = confmax.FixedRuleClassifier(LogisticRegression(), rule).fit(X, y).predict(X)
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, plain)


def test_the_column_of_spark_holds_names_as_before():
    """The function that executors run, without a session."""
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("pyspark")
    spark = importlib.import_module("confmax.tables.partitioned.spark_rules")
    P = table(30)
    for names, expected in ((("no", "maybe", "yes"), None), ((4, 5, 6), [4.0, 5.0, 6.0])):
        rule = DecisionRule.from_weights(WEIGHTS, classes=names)
        lists = pa.FixedSizeListArray.from_arrays(pa.array(P.ravel()), 3).cast(pa.list_(pa.float64()))
        (found,) = list(spark._decider(spark._OneClass(rule, spark._kind(names)), ())(iter([lists])))
        assert found.to_pylist() == witness(P, expected or names)


@pytest.mark.parametrize("dtype", ["<U5", object, np.int32, np.int64, bool])
def test_the_rule_of_an_estimator_predicts_what_it_predicts(dtype):
    from sklearn.naive_bayes import GaussianNB

    rng = np.random.default_rng(1)
    y = rng.random(300) < 0.3
    X = rng.normal(size=(300, 2)) + y[:, None]
    labels = np.where(y, "yes", "no").astype(dtype) if dtype in ("<U5", object) else y.astype(dtype)
    tuned = confmax.MetricClassifierCV(GaussianNB(), metric="g_mean").fit(X, labels)
    found = tuned.predict(X)
    assert found.dtype == tuned.classes_.dtype
    np.testing.assert_array_equal(tuned.rule_.predict(tuned.predict_proba(X)), found)


@pytest.mark.parametrize("decisions", ["any", 1, 2, ("at_most", 1), ("at_most", 2)], ids=str)
def test_d10_a_rule_with_a_number_of_labels_says_in_words_what_decides(decisions):
    P = np.random.default_rng(0).beta(0.6, 2.0, (80, 4))
    Y = np.random.default_rng(1).random((80, 4)) < P
    found = confmax.maximize("macro_f1", P, Y, decisions=decisions)
    for shown in map(str, (found, found.rule, found._repr_html_(), found.rule._repr_html_())):
        words = "a row gets the "
        # a threshold for each label says all
        assert ("decided if" in shown) == (decisions == "any") != (words in shown)
        if decisions != "any":
            at_most, k = decisions if isinstance(decisions, tuple) else ("", decisions)
            assert f"{words}label with the largest score" * (k == 1) in shown
            assert f"{words}2 labels with the largest scores" * (k == 2) in shown
            assert ("above zero" in shown) == bool(at_most)
            assert "its weight times its" in shown and "plus its offset" in shown


@pytest.mark.parametrize("way", ["frame", "csv", "folder"])
def test_labels_beside_probabilities_are_not_read_as_these(way, tmp_path, monkeypatch):
    """A rule of the labels y_a, y_b decides by p_a, p_b, also where columns y_a, y_b hold what is true."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    P = rng.beta(0.5, 1.5, (200, 3)).round(4)
    Y = (rng.random(P.shape) < P).astype(np.int8)
    frame = pd.DataFrame(
        {**{f"y_{n}": Y[:, k] for k, n in enumerate("abc")}, **{f"p_{n}": P[:, k] for k, n in enumerate("abc")}}
    )
    frame.to_csv("t.csv", index=False)
    run = pytest.importorskip("tests.cli_helpers").run
    columns = ("--labels", "y_a,y_b,y_c", "--columns", "p_a,p_b,p_c")
    run("tune", "t.csv", "--decisions", "any", *columns, "--metric", "macro_f1", "-o", "rule.json")
    rule = confmax.LabelRule.load("rule.json")
    assert rule.columns == ("p_a", "p_b", "p_c") and rule.class_names == ("y_a", "y_b", "y_c")
    expected = rule.predict(P)
    assert (expected != Y).any()
    if way == "frame":
        np.testing.assert_array_equal(rule.predict(frame), expected)
        return
    given = "t.csv"
    if way == "folder":
        (tmp_path / "f").mkdir()
        frame.to_parquet("f/t.parquet")
        given = "f"
    run("apply", "rule.json", given, "-o", "out.csv" if way == "csv" else "out.parquet")
    read = pd.read_csv("out.csv") if way == "csv" else pd.read_parquet("out.parquet")
    np.testing.assert_array_equal(read[[f"decision_{n}" for n in rule.class_names]].to_numpy(), expected)
