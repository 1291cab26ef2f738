"""The threshold of a rule of two classes: what `predict` does on a fine grid, and the sentences that say it."""

import json
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

import confmax
from confmax import DecisionRule
from confmax.calibration import Temperature, VectorScaling
from confmax.confusion import Gains

NAMES = ("no", "yes")
CALIBRATORS = {
    "none": None,
    "temperature": Temperature(1.7),
    "sharp": Temperature(0.05, 1e-3),
    "vector": VectorScaling([0.4, 2.0], [0.3, -0.5], 1e-4),
    "flat": VectorScaling([0.0, 1.5], [0.0, 1.0]),
}
GAINS = {
    "weights": Gains.reduced([1.0, 3.37]),
    "offsets": Gains.reduced([0.8, 1.9], [0.13, -0.4]),
    "cut": Gains.reduced([0.0, 1.0], [0.0, -0.2291]),
    "cut of the other": Gains.reduced([1.0, 0.0], [0.0, 0.7709]),
    "matrix": Gains.from_matrix([[1.0, 0.2], [-2.0, 0.9]]),
    "distance": Gains.reduced([-1.0, -1.5], [0.1, 0.0], power=1),
}


def rule_of(gains, calibrator=None, weights=(1.0,), names=NAMES):
    return DecisionRule(gains, np.array(weights), names, "f1", calibrator=calibrator)


def rows_at(p, dtype=np.float64):
    p = np.asarray(p, dtype=dtype)
    return np.stack([dtype(1) - p, p], axis=1)


@pytest.mark.parametrize("calibrator", CALIBRATORS)
@pytest.mark.parametrize("gains", GAINS)
def test_predict_decides_by_it(gains, calibrator):
    """On a grid, and on the floats next to it, in float64; in float32 but for its rounding."""
    rule = rule_of(GAINS[gains], CALIBRATORS[calibrator])
    t = rule.threshold
    assert 0 < t < 1
    grid = np.concatenate([np.linspace(0, 1, 20_001), 10.0 ** -np.linspace(1, 300, 500), 1 - 10.0 ** -np.arange(1, 17)])
    near = t * (1 + np.array([-1e-9, -1e-12, 1e-12, 1e-9]))
    p = np.concatenate([grid, near])
    np.testing.assert_array_equal(rule.predict(rows_at(p)) == "yes", p >= t)
    just = np.array([np.nextafter(t, 0), t])
    assert rule.predict(rows_at(just)).tolist() == ["no", "yes"]
    single = grid.astype(np.float32)
    clear = np.abs(single - t) > 1e-5
    np.testing.assert_array_equal(rule.predict(rows_at(single, np.float32))[clear] == "yes", single[clear] >= t)


@pytest.mark.parametrize("calibrator", CALIBRATORS)
@pytest.mark.parametrize("gains", GAINS)
def test_the_first_class_has_one_too(gains, calibrator):
    """It says what `predict` does to the float, and the class that was asked about changes no decision."""
    second = rule_of(GAINS[gains], CALIBRATORS[calibrator])
    rule = replace(second, positive=0)
    t = rule.threshold
    assert 0 < t < 1 and t + second.threshold == pytest.approx(1.0, abs=1e-12)
    p = np.concatenate([np.linspace(0, 1, 2001), 10.0 ** -np.linspace(1, 300, 50), t + np.array([-1e-9, 0.0, 1e-9])])
    P = np.stack([p, 1 - p], axis=1)
    np.testing.assert_array_equal(rule.predict(P) == "no", p >= t)
    np.testing.assert_array_equal(rule.predict(P), second.predict(P))
    assert rule.predict([[np.nextafter(t, 0), 1 - np.nextafter(t, 0)]]) == ["yes"]
    assert rule.to_spark_thresholds() == second.to_spark_thresholds()


def test_it_is_what_algebra_says():
    assert rule_of(GAINS["weights"]).threshold == pytest.approx(1 / 4.37, rel=1e-15)
    assert rule_of(GAINS["offsets"]).threshold == pytest.approx((0.8 + 0.13 + 0.4) / 2.7, rel=1e-15)
    assert rule_of(GAINS["cut"]).threshold == 0.2291
    odds = (1 / 3.37) ** 1.7
    assert rule_of(GAINS["weights"], Temperature(1.7)).threshold == pytest.approx(odds / (1 + odds), rel=1e-10)


@pytest.mark.parametrize("tiny", [1e-300, 1e-40, 1e-12])
def test_thresholds_next_to_zero(tiny):
    assert rule_of(Gains.reduced([0.0, 1.0], [0.0, -tiny])).threshold == tiny
    assert rule_of(Gains.reduced([tiny, 1.0])).threshold == pytest.approx(tiny, rel=1e-12)


def test_constant_rules_and_rules_that_have_none():
    assert rule_of(Gains.constant(2, [1])).threshold == 0.0
    assert rule_of(Gains.constant(2, [0])).threshold == np.inf
    assert rule_of(Gains.reduced([1.0, 2.0], [-3.0, 0.0])).threshold == 0.0
    for without in (
        rule_of(Gains.reduced([-1.0, -1.0])),  # decides "yes" below a probability
        rule_of(Gains.reduced([[1.0, 1.0], [1.0, 2.0]]), weights=(0.5, 0.5)),
        DecisionRule.from_weights([1.0, 2.0, 3.0]),
        DecisionRule(Gains.from_matrix(np.eye(2, 3)), np.ones(1), (0, 1, 2)),
        rule_of(GAINS["weights"], VectorScaling([-0.5, 1.0], [0.0, 0.0])),
    ):
        assert without.threshold is None

    class Mine:
        def transform(self, proba):
            return proba

    assert rule_of(GAINS["weights"], Mine()).threshold is None


def test_sparks_thresholds_hold_calibrated_rules_of_two_classes():
    rule = rule_of(GAINS["offsets"], Temperature(1.7))
    low, high = rule.to_spark_thresholds()
    assert high / (low + high) == pytest.approx(rule.threshold, rel=1e-15) and max(low, high) == 1.0


# --- words ------------------------------------------------------------------------------------------------------------


def lines_of(rule):
    text = repr(rule).splitlines()
    page = ElementTree.fromstring(rule._repr_html_())
    assert page.find("table") is None
    assert ["".join(part.itertext()) for part in page.iter("p")] == [line.strip() for line in text]
    return text


def test_a_rule_of_two_classes_prints_as_a_sentence():
    assert lines_of(rule_of(Gains.reduced([0.0, 1.0], [0.0, -0.229]))) == [
        "DecisionRule for f1: 2 classes, deterministic",
        "  decides yes if p(yes) >= 0.229, else no",
    ]
    assert lines_of(rule_of(GAINS["weights"], Temperature(1.7)))[1:] == [
        "  calibrates p first: temperature 1.7",
        "  decides yes if p(yes) >= 0.1125, else no; this is p before calibration",
    ]
    assert lines_of(rule_of(Gains.constant(2, [0])))[1:] == ["  always decides no"]
    assert lines_of(rule_of(Gains.constant(2, [1])))[1:] == ["  always decides yes"]


@pytest.mark.parametrize(
    ("cuts", "sentence"),
    [
        ((0.25, 0.31), "decides yes if p(yes) >= 0.31, no if p(yes) < 0.25, and between them yes with probability 0.4"),
        ((-1.0, 0.31), "decides yes if p(yes) >= 0.31, below that yes with probability 0.4"),
        ((0.25, 2.0), "decides no if p(yes) < 0.25, from there yes with probability 0.4"),
        ((-1.0, 2.0), "decides yes with probability 0.4, whatever its p"),
        ((0.25, 0.25), "decides yes if p(yes) >= 0.25, else no"),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_a_rule_that_draws_between_two_thresholds(cuts, sentence, turned):
    order = [1, 0] if turned else [0, 1]
    gains = Gains.reduced([[0.0, 1.0]] * 2, [[0.0, -cuts[k]] for k in order])
    rule = rule_of(gains, weights=np.array([0.4, 0.6])[order])
    assert lines_of(rule)[1:] == [f"  {sentence}"]
    low, high = cuts
    p = np.linspace(0, 1, 101)
    share = 0.4 * (p >= low) + 0.6 * (p >= high)
    np.testing.assert_allclose(rule.decision_probabilities(rows_at(p))[:, 1], share, atol=1e-15)


def test_names_of_strangers_are_printable():
    rule = DecisionRule.from_weights([1, 2], classes=["\x1b[31mred\n", "b" * 500])
    assert len(repr(rule).splitlines()) == 2 and "\x1b" not in repr(rule)
    assert max(map(len, repr(rule).splitlines())) < 200


# --- the class that was asked about -----------------------------------------------------------------------------------

rng = np.random.default_rng(0)
q = 1 / (1 + np.exp(-rng.normal(-3.0, 2.0, 500)))
FRAUD = np.stack([q, 1 - q], axis=1)
TRUTH = np.where(rng.random(500) < q, "fraud", "ok")
ASKED = {
    "a positive class": {"metric": "f1", "pos_label": "fraud"},
    "a metric of a class": {"metric": "f1[fraud]"},
    "a share within a limit": {"metric": "recall[fraud]", "constraints": "rate[fraud] <= 0.1"},
    "of a metric of both": {"metric": "accuracy", "pos_label": "fraud"},
    "on the model": {"metric": "mcc", "pos_label": "fraud", "confusion": "model"},
    "on labels": {"metric": "f1[fraud]", "confusion": "labels"},
    "calibrated": {"metric": "f1[fraud]", "calibration": Temperature(1.3)},
    "of costs": {"metric": confmax.metrics.get("linear", gain=[[1.0, -5.0], [0.0, 0.2]]), "pos_label": "fraud"},
}


@pytest.mark.parametrize("asked", ASKED)
def test_d5_rules_speak_of_the_class_that_was_asked_about(asked):
    solution = confmax.maximize(proba=FRAUD, y=TRUTH, classes=["fraud", "ok"], **ASKED[asked])
    rule = solution.rule
    for one in (rule, DecisionRule.from_json(rule.to_json()), rule.reordered(["ok", "fraud"])):
        sentence = repr(one).splitlines()[-1]
        assert "decides fraud if p(fraud) >" in sentence and "p(ok)" not in sentence
        np.testing.assert_array_equal(rule.predict(FRAUD) == "fraud", q >= one.threshold)
    assert rule.positive == 0 and "p(fraud) >" in str(solution) + rule._repr_html_().replace("&gt;", ">")
    back = rule.reordered(["ok", "fraud"])
    assert back.positive == 1 and back.reordered(["fraud", "ok"]) == rule


def test_a_rule_that_was_asked_about_the_second_class_is_unchanged():
    rule = confmax.maximize("f1[ok]", FRAUD, TRUTH, classes=["fraud", "ok"]).rule
    assert rule.positive == 1 and "positive" not in rule.to_json() and "decides ok if p(ok) >=" in repr(rule)


def test_rules_of_estimators_speak_of_the_class_that_was_asked_about():
    from sklearn.linear_model import LogisticRegression

    X = np.log(q)[:, None]
    for settings in ({"metric": "f1", "pos_label": "fraud"}, {"metric": "f1[fraud]"}):
        tuned = confmax.MetricClassifierCV(LogisticRegression(), cv=2, **settings).fit(X, TRUTH)
        p = tuned.estimator_.predict_proba(X)[:, 0]
        assert "decides fraud if p(fraud) >" in repr(tuned.rule_)
        np.testing.assert_array_equal(tuned.predict(X) == "fraud", p >= tuned.rule_.threshold)


def test_a_tie_is_printed_as_one():
    """Equal scores decide the second class: the sentence has the number, and `threshold` the float behind it."""
    rule = DecisionRule(Gains.reduced([3.0, 1.0]), np.ones(1), ("fraud", "ok"), positive=0)
    assert repr(rule).endswith("decides fraud if p(fraud) > 0.25, else ok")
    assert rule.threshold == np.nextafter(0.25, 1) and rule.predict([[0.25, 0.75]]) == ["ok"]
    draws = replace(rule, gains=Gains.reduced([[3.0, 1.0], [1.0, 1.0]]), weights=np.array([0.3, 0.7]))
    assert repr(draws).endswith(
        "decides fraud if p(fraud) > 0.5, ok if p(fraud) <= 0.25, and between them fraud with probability 0.3"
    )
    abstains = DecisionRule(
        Gains.from_matrix([[1.0, 0.0, 0.7], [0.0, 1.0, 0.7]]),
        np.ones(1),
        ("fraud", "ok", "?"),
        abstain="?",
        positive=0,
    )
    assert repr(abstains).endswith("decides fraud if p(fraud) > 0.7, ok if p(fraud) < 0.3, else abstains (?)")


@pytest.mark.parametrize("column", [1, 2, -1, True, False, None, 0.0, "fraud", [0]])
def test_files_name_no_other_class(column):
    document = json.loads(DecisionRule.from_weights([3.0, 1.0], classes=["fraud", "ok"]).to_json())
    with pytest.raises(ValueError, match="its positive is not 0, the first of two classes"):
        DecisionRule.from_json(json.dumps({**document, "positive": column}))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_rule_has_no_other_positive_class(n_classes):
    rule = DecisionRule.from_weights(np.ones(n_classes))
    with pytest.raises(ValueError, match="positive is 0 or 1, the column of one of two classes; got"):
        replace(rule, positive=n_classes - 1 if n_classes > 2 else 2)
    named = replace(replace(DecisionRule.from_weights([3.0, 1.0]), positive=0), class_names=("fraud", "ok"))
    assert "decides fraud if p(fraud) > 0.25" in repr(named)
