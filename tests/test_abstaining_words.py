"""What rules that may abstain say: one sentence where it says all, which is what they decide, else their numbers."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

import confmax
from confmax import DecisionRule
from confmax.calibration import MatrixScaling, Temperature, VectorScaling
from confmax.calibration.thresholds import abstaining_class_cuts, abstaining_cuts
from confmax.calibration.words import how, in_words, plain_words
from confmax.confusion import Gains
from tests.parts_helpers import labelled


def rule_of(gains, names=None, calibrator=None, weights=(1.0,)):
    K = gains.n_classes
    names = names or (*(("no", "yes") if K == 2 else "abcdefghijklmnopqrstuvwxyz"[:K]), "abstain")
    return DecisionRule(gains, np.array(weights), tuple(names), "accuracy", 0, calibrator, (), names[-1])


def lines_of(rule):
    """Return the lines of a rule without a table, as text and in a notebook."""
    text = repr(rule).splitlines()
    page = ElementTree.fromstring(rule._repr_html_())
    assert page.find("table") is None
    assert ["".join(part.itertext()) for part in page.iter("p")] == [line.strip() for line in text]
    assert text[-1].strip() == in_words(rule) == how(rule)
    return text


# --- two classes ------------------------------------------------------------------------------------------------------

TWO = {
    "both": ([1, 1], [0, 0, 0.75], "decides yes if p(yes) >= 0.75, no if p(yes) < 0.25, else abstains"),
    "weights": ([1, 4], [0, 0, 0.5], "decides yes if p(yes) >= 0.2, else no, and never abstains"),
    "their own": ([1, 2], [0, 0, 0.75], "decides yes if p(yes) >= 0.375, no if p(yes) < 0.25, else abstains"),
    "never no": ([0, 1], [-1, 0, 0.75], "decides yes if p(yes) >= 0.75, else abstains"),
    "never yes": ([1, 0], [0, -1, 0.75], "decides no if p(yes) < 0.25, else abstains"),
    "never": ([1, 1], [0, 0, 0.25], "decides yes if p(yes) >= 0.5, else no, and never abstains"),
    "always": ([1, 1], [0, 0, 2], "always abstains"),
    "always no": ([0, 0], [1, 0, 0.5], "always decides no"),
    "always yes": ([0, 0], [0, 1, 0.5], "always decides yes"),
}


@pytest.mark.parametrize(("a", "b", "sentence"), TWO.values(), ids=TWO)
def test_two_classes_have_two_cuts(a, b, sentence):
    rule = rule_of(Gains.reduced(a, b))
    assert lines_of(rule)[1:] == [f"  {sentence}"]
    assert rule.threshold is None
    full = rule_of(Gains.from_matrix(rule.gains.matrices()))
    assert in_words(full) == sentence
    # what the sentence says is what is decided
    p = np.linspace(0, 1, 401)[1:-1] + 1e-9
    cuts = {name: float(number) for name, number in re.findall(r"(yes|no) if p\(yes\) [<>]=? ([\d.]+)", sentence)}
    rest = re.search(r"(?:else|always) (?:decides )?(\w+)", sentence)[1]
    rest = "abstain" if rest == "abstains" else rest
    expected = np.where(p >= cuts.get("yes", 2.0), "yes", np.where(p < cuts.get("no", -1.0), "no", rest))
    np.testing.assert_array_equal(rule.predict(np.stack([1 - p, p], axis=1)), expected)


@pytest.mark.parametrize("calibrator", [None, Temperature(0.6), VectorScaling([0.5, 1.5], [0.2, -0.4], 1e-6)])
@pytest.mark.parametrize("seed", range(2))
def test_cuts_are_those_of_the_floats(seed, calibrator):
    """At a cut one thing is decided, and at the float before it another."""
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(0.8, 1.2, 2), rng.uniform(0.0, 0.1, 2)
    rule = rule_of(Gains.reduced(a, [*b, 0.8]), calibrator=calibrator)
    low, high = abstaining_cuts(rule.gains, calibrator)
    assert 0 < low < high < 1
    p = np.array([0.0, np.nextafter(low, 0), low, np.nextafter(high, 0), high, 1.0])
    assert rule.predict_index(np.stack([1 - p, p], axis=1)).tolist() == [0, 0, 2, 2, 1, 1]
    assert in_words(rule).endswith("else abstains" + ("" if calibrator is None else "; this is p before calibration"))


def test_what_is_not_in_order_has_no_cuts():
    for gains in (
        Gains.reduced([-1, 1], [0, 0, 0.5]),
        Gains.reduced([1, -1], [0, 0, 0.5]),
        Gains.from_matrix([[1, 0, 0], [0, 1, 1.5]]),
        Gains.reduced([1, 1], [0, 0, 0.5, 0.6]),
        Gains.reduced([1, 1, 1], [0, 0, 0, 0.5]),
    ):
        assert abstaining_cuts(gains, None) is None
    turning = VectorScaling([1.0, -1.0], [0.0, 0.0])
    assert abstaining_cuts(Gains.reduced([1, 1], [0, 0, 0.5]), turning) is None
    falling = rule_of(Gains.reduced([-1, 1], [0, 0, 0.5]))
    assert in_words(falling) is None and "offset" in repr(falling)


# --- several classes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [(*"abc", "abstain"), (0, 1, 2, -1), (*"abc", "\x1b[31mask")])
def test_classes_that_are_treated_alike_have_one_cut(names):
    rule = rule_of(Gains.reduced([2, 2, 2], [1, 1, 1, 2.08]), names)
    left = {"abstain": "abstains", -1: "abstains (-1)"}.get(names[-1], r"abstains (\x1b[31mask)")
    assert lines_of(rule)[1:] == [f"  decides like argmax if the largest p is above 0.54, else {left}"]
    P = np.random.default_rng(0).dirichlet(np.ones(3), 500)
    expected = np.where(P.max(axis=1) > 0.54, P.argmax(axis=1), 3)
    np.testing.assert_array_equal(rule.predict_index(P), expected)
    calibrated = replace(rule, calibrator=MatrixScaling(np.eye(3) + 0.1, np.zeros(3)))
    assert in_words(calibrated).startswith(
        "decides like argmax of the calibrated probabilities if the largest p is above"
    )
    assert plain_words(rule) is None


@pytest.mark.parametrize(
    ("last", "sentence"),
    [
        (0.3, "decides like argmax, and never abstains"),
        (1.0, "always abstains"),
        (-1.0, "decides like argmax, and never abstains"),
    ],
)
def test_cuts_out_of_reach(last, sentence):
    rule = rule_of(Gains.reduced(np.ones(3), [0, 0, 0, last]))
    assert lines_of(rule)[1:] == [f"  {sentence}"]
    P = np.vstack([np.random.default_rng(0).dirichlet(np.ones(3), 200), np.eye(3), np.full((1, 3), 1 / 3)])
    assert ((rule.predict(P) == "abstain").all(), (rule.predict(P) != "abstain").all()) == (last == 1.0, last != 1.0)


def test_a_draw_between_two_cuts():
    gains = Gains.reduced(np.ones((2, 3)), [[0, 0, 0, 0.7], [0, 0, 0, 0.5]])
    rule = rule_of(gains, weights=(0.25, 0.75))
    assert lines_of(rule)[1:] == [
        "  decides like argmax if the largest p is above 0.7, abstains if it is not above 0.5, and between them "
        "decides with probability 0.75"
    ]
    P = np.array([[0.8, 0.1, 0.1], [0.6, 0.3, 0.1], [0.4, 0.3, 0.3]])
    np.testing.assert_allclose(rule.decision_probabilities(P)[:, 3], [0, 0.25, 1])
    for last in (0.2, 1.5):
        # one of the two never abstains, or always: the numbers say so
        other = rule_of(Gains.reduced(np.ones((2, 3)), [[0, 0, 0, 0.7], [0, 0, 0, last]]), weights=(0.25, 0.75))
        assert in_words(other) is None


def test_a_metric_of_one_class_has_two_cuts_on_its_probability():
    P = np.random.default_rng(0).dirichlet([1, 0.6, 0.8, 1], 500)
    found = confmax.maximize("f1[b]", P, classes=list("abcd"), abstain=True, constraints="coverage >= 0.7",
                             randomized=False).rule  # fmt: skip
    k, low, high = abstaining_class_cuts(found.gains)
    assert k == 1 and 0 < low < high < 1
    assert in_words(found) == (
        f"decides b if p(b) >= {high:.4g}, the most probable other class if p(b) < {low:.4g}, else abstains"
    )
    others = np.array([0, 2, 3])[P[:, [0, 2, 3]].argmax(axis=1)]
    expected = np.where(P[:, 1] >= high, 1, np.where(P[:, 1] < low, others, 4))
    assert len(np.unique(expected)) == 5
    np.testing.assert_array_equal(found.predict_index(P), expected)


def test_gains_that_only_look_like_those_of_one_class():
    G = np.array([[1e-21, -0.75, 0.0, -0.25], [0.0, 0.5, 0.0, 0.25], [0.0, -0.75, 1e-21, -0.25]])
    assert abstaining_class_cuts(Gains.from_matrix(G)) == (1, 0.5, pytest.approx(2 / 3))
    for place, value in (((0, 1), -0.7), ((2, 3), -0.2), ((0, 2), 1e-3), ((2, 2), 2e-21), ((0, 0), 0.5)):
        other = G.copy()
        other[place] = value
        assert abstaining_class_cuts(Gains.from_matrix(other)) is None
    # to abstain is worth no more than to guess among the others: their probabilities count
    equal = G.copy()
    equal[:, 3] = 0.5e-21
    assert abstaining_class_cuts(Gains.from_matrix(equal)) is None


# --- numbers ----------------------------------------------------------------------------------------------------------


def test_other_rules_are_a_table_with_a_row_for_abstaining():
    rule = rule_of(Gains.reduced([1.0, 2.0, 4.0], [0.0, -0.25, 0.0, 0.75]))
    assert repr(rule).splitlines() == [
        "DecisionRule for accuracy: 3 classes, deterministic",
        "  decides the largest of  weight * p + offset; abstain has an offset alone",
        "  class         weight    offset",
        "  a                  1     -0.75",
        "  b                  2        -1",
        "  c                  4     -0.75",
        "  abstain            -         0",
    ]
    page = ElementTree.fromstring(rule._repr_html_())
    rows = [["".join(cell.itertext()) for cell in row] for row in page.find("table").iter("tr")]
    assert rows[0] == ["class", "weight", "offset"] and rows[-1] == ["abstain", "-", "0"]
    assert how(rule).endswith("decides the class with the largest result, or abstains if no result is above one number")
    # other further decisions have no weight either, and are not called abstaining
    named = repr(replace(rule, abstain=None, class_names=(*"abc", "review"))).splitlines()
    assert named[1].endswith("offset") and named[-1].split() == ["review", "-", "0"]


def test_full_gains_say_which_score_is_that_of_abstaining():
    P, y, _ = labelled(300, 3)
    found = confmax.maximize("macro_f1", P, y, abstain="later", constraints="coverage >= 0.8", randomized=False).rule
    assert "decides the largest of 4 scores p @ G, G (3, 4); later (abstain) has the last" in repr(found)
    assert "each decision, abstaining too, has a gain for each true class" in how(found)
