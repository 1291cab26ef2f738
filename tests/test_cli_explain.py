"""`confmax explain`: words, numbers and steps are those of the rule."""

import numpy as np
import pytest

import confmax as library
from confmax.calibration import MatrixScaling, Temperature, VectorScaling
from confmax.confusion import Gains
from tests.cli_helpers import document, refusal, run

pytestmark = pytest.mark.usefixtures("inside")
FLAT = library.DecisionRule.from_weights([1.0, 1.5, 4.0], [0.0, 0.1, -0.1], classes=list("abc"))


def with_calibrator(rule, calibrator):
    return library.DecisionRule(rule.gains, rule.weights, rule.class_names, "macro_f1", 3, calibrator)


RULES = {
    "weights": library.DecisionRule.from_weights([1.0, 1.5, 4.0], classes=list("abc")),
    "offsets": FLAT,
    "temperature": with_calibrator(FLAT, Temperature(2.0)),
    "vector": with_calibrator(FLAT, VectorScaling([1.0, 0.5, 0.8], [0.3, 0.0, -0.2], 0.01)),
    "matrix": with_calibrator(FLAT, MatrixScaling([[1, 0.3, 0], [0, 0.9, 0.1], [0, -0.1, 1.1]], [0.1, 0, -0.2], 1e-4)),
    "beside": library.DecisionRule(
        Gains.reduced([2.0**-70, 2.0**-70, 1.0], [-(2.0**-70), -(2.0**-70), -0.4]), np.ones(1), "abc", "recall[c]", 3,
        MatrixScaling([[1, 0.3, 0], [0, 0.9, 0.1], [0, -0.1, 1.1]], [0.1, 0, -0.2], 1e-4, kept=2),
    ),
    "kappa": library.DecisionRule(Gains.reduced([-1.0, -1.2, -1.0], [0.0, 0.3, 0.1], power=2), np.ones(1), (1, 2, 3)),
    "draws": library.DecisionRule(
        Gains.reduced([[1, 1, 1], [1, 2, 9]], np.zeros((2, 3))), np.array([0.25, 0.75]), tuple("abc"), "min_recall", 5
    ),
    "table": library.DecisionRule(Gains(full=-np.array([[[0, 3, 2, 0.4], [1, 0, 2, 0.4], [5, 5, 0, 0.4]]])),
                                  np.ones(1), ("a", "b", "c", "ask"), "linear"),
}  # fmt: skip


def explained(rule, *arguments):
    """Return the document about a rule."""
    rule.save("r.json")
    return document("explain", "r.json", *arguments)


def printed(rule, *arguments):
    """Return what is printed about a rule; nothing is said beside it."""
    rule.save("r.json")
    stdout, stderr = run("explain", "r.json", *arguments)
    assert stderr == ""
    return stdout


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("row", [(0.2, 0.5, 0.3), (1.0, 0.0, 0.0)])
def test_the_example_decides_like_predict(name, row):
    """The shown scores have the rule's decision as their largest; shares are the rule's own."""
    rule = RULES[name]
    found = explained(rule, "--proba", ",".join(map(str, row)))
    example = found["example"]
    names = [str(each) for each in rule.class_names]
    assert example["decision"] == names[rule.predict_index([row])[0]]
    assert list(example["decision_probabilities"].values()) == rule.decision_probabilities([row])[0].tolist()
    shares = dict.fromkeys(names, 0.0)
    for part in example["parts"]:
        shares[part["decision"]] += part["share"]
        scores = np.array(part["scores"])
        assert part["decision"] == names[len(scores) - 1 - np.argmax(scores[::-1])]
    assert shares == pytest.approx(example["decision_probabilities"], abs=1e-15)
    calibrated = row if rule.calibrator is None else rule.calibrator.transform([row])[0]
    assert (example["calibrated"] or list(row)) == pytest.approx(list(calibrated))


def test_scores_follow_from_the_numbers_shown():
    """Done again by hand: power, factor, sum, weight, offset."""
    for name in ("vector", "matrix"):
        found = explained(RULES[name], "--proba", "0.2,0.5,0.3")
        calibration, part = found["calibration"], found["parts"][0]
        assert calibration["kind"] == name
        powers = calibration["matrix"] if name == "matrix" else np.diag(calibration["powers"])
        p = np.prod((np.array([0.2, 0.5, 0.3]) + calibration["floor"]) ** powers, axis=1)
        p *= np.exp(calibration["offsets"])
        expected = p / p.sum() * part["weights"] + part["offsets"]
        assert found["example"]["parts"][0]["scores"] == pytest.approx(expected.tolist(), rel=1e-12)
    found = explained(RULES["kappa"], "--proba", "0.2,0.5,0.3")
    distances = [sum(p * (i - j) ** 2 for i, p in enumerate((0.2, 0.5, 0.3))) for j in range(3)]
    assert found["example"]["scored"] == pytest.approx(distances)
    assert (found["score_of"], found["decided_from"]) == ("mean squared distance", None)


def test_the_floor_of_a_calibration_is_said():
    shown = " ".join(printed(with_calibrator(FLAT, Temperature(2.0, 0.1))).split())
    assert "each probability plus 0.1 to the power 1/2, then divided by their sum" in shown
    shown = " ".join(printed(with_calibrator(FLAT, VectorScaling([1.0, 0.5, 0.8], [0.3, 0.0, -0.2], 0.01))).split())
    assert "each probability plus 0.01 to its power, times its factor, then divided by their sum" in shown


def test_a_class_that_keeps_its_probability_is_named():
    found = explained(RULES["beside"], "--proba", "0.3,0.2,0.5")
    assert found["calibration"]["kept"] == "c" and found["one_class"] == {"class": "c", "threshold": 0.4}
    shown = " ".join(printed(RULES["beside"], "--proba", "0.3,0.2,0.5").split())
    assert "calibrates p first, but not p(c)" in shown
    assert "c 0.5000 0.5000 +0.1000*" in shown and "its probability reaches the threshold" in shown
    assert "c keeps its probability, and the others share the rest" in shown
    assert "decides c if p(c) >= 0.4, else the most probable other class by calibrated p" in shown


@pytest.mark.parametrize("name", ["weights", "offsets", "temperature", "vector", "matrix"])
def test_thresholds_are_where_decisions_change(name):
    """A search over a grid of rows with two possible classes finds the same."""
    rule = RULES[name]
    found = explained(rule)["decided_from"]
    grid = np.linspace(0, 1, 2001)
    for k, mine in enumerate("abc"):
        for j, other in enumerate("abc"):
            if j != k:
                P = np.zeros((len(grid), 3))
                P[:, k], P[:, j] = grid, 1 - grid
                first = grid[np.argmax(rule.predict_index(P) == k)]
                assert found[mine][other] == pytest.approx(first, abs=1e-3)


SHOWN = [
    ("weights", "c is decided from 0.200 against a, from 0.273 against b"),
    ("weights", "c is favoured most: its probability counts 4 times that of a"),
    ("weights", "c 0.3000 1.2000*"),
    ("weights", "Decided: c, the largest score (*)"),
    ("draws", "between 2 parts, by seed 5 and row"),
    ("draws", "Decided: b 25.0%, c 75.0%"),
    ("table", "decides ask"),
    ("kappa", "mean squared distance of the true class"),
]


@pytest.mark.parametrize(("name", "words"), SHOWN)
def test_what_is_printed(name, words):
    stdout = printed(RULES[name], "--proba", "0.2,0.5,0.3")
    assert stdout.isascii() and words in " ".join(stdout.split()) and "-0 " not in stdout


def test_parts_of_one_class_have_thresholds_and_no_tiny_scores():
    tiny = 2.0**-70
    gains = Gains.reduced([[tiny, tiny, 1.0], [tiny, tiny, 2.0]], [[0.0, 0.0, -0.25], [0.0, 0.0, -0.8]])
    drawn = library.DecisionRule(gains, np.array([0.25, 0.75]), tuple("abc"), "precision[c]", 5)
    stdout = printed(
        with_calibrator(drawn, VectorScaling([1.0, 0.5, 0.8], [0.3, 0.0, -0.2], 0.01)), "--proba", "0.5,0.2,0.3"
    )
    assert "e-2" not in stdout and " 0.0000" not in stdout
    # what both parts share is shown once
    assert stdout.count("power  factor") == 1
    found = document("explain", "r.json", "--proba", "0.5,0.2,0.3")["example"]
    (p,) = (p for name, p in zip("abc", found["calibrated"], strict=True) if name == "c")
    for k, cut in enumerate((0.25, 0.4)):
        assert f"decides c if calibrated p(c) >= {cut:.4g}, else the most probable other class" in stdout
        assert f"{p - cut:+.4f}" in stdout
        assert (found["parts"][k]["decision"] == "c") == (p >= cut)


def test_a_matrix_is_explained():
    told = " ".join(printed(RULES["matrix"]).split())
    # a against c: .3 + .1
    assert "takes p(b) as evidence for a: ten times as much multiplies the odds of a against c by 2.51" in told
    assert told.count("as evidence for") == 2
    # the first class loses by its own probability, so that no threshold is true
    turned = with_calibrator(FLAT, MatrixScaling([[0.2, 0, 0], [1, 1, 0], [0, 0, 1]], np.zeros(3)))
    turned.save("t.json")
    assert document("explain", "t.json")["decided_from"] is None


@pytest.mark.parametrize(
    "weights, offsets, sentence",
    [
        ([1.0, 3.0], None, "decides yes if p(yes) >= 0.25, else no (argmax: yes if p(yes) >= 0.5)"),
        ([1.0, 1.0], [5.0, 0.0], "always decides no (argmax: yes if p(yes) >= 0.5)"),
    ],
)
def test_two_classes_have_one_threshold(weights, offsets, sentence):
    """Weights 1 and 3: the second is decided from 1 / (1 + 3)."""
    assert sentence in printed(library.DecisionRule.from_weights(weights, offsets, classes=["no", "yes"]))


def test_many_classes_are_cut_but_not_in_json():
    stdout = printed(library.DecisionRule.from_weights(np.ones(40), np.linspace(0, 0.1, 40)))
    # and no heading stands without words
    assert "... 20 more classes" in stdout and "In words" not in stdout
    assert len(document("explain", "r.json")["parts"][0]["weights"]) == 40


ERRORS = {
    "no rule": (["none.json"], "there is no rule file none.json"),
    "another number": (["r.json", "--proba", "0.5,0.5"], "--proba gives 2 probabilities and the rule has 3 classes (a"),
    "negative": (["r.json", "--proba=-0.5,0.5,1"], "--proba gives numbers that sum to 1; give probabilities, none neg"),
    "nan": (["r.json", "--proba", "nan,0.5,0.5"], "--proba gives numbers that sum to nan"),
    "text": (["r.json", "--proba", "a,0.5,0.5"], "'a,0.5,0.5' is not a list of numbers with commas between them"),
}


@pytest.mark.parametrize("arguments, sentence", ERRORS.values(), ids=ERRORS)
def test_errors_are_one_sentence(arguments, sentence):
    FLAT.save("r.json")
    assert sentence in refusal("explain", *arguments)


def test_in_a_pipe_no_name_is_too_long_and_no_number_is_cut():
    names = ["short", "L" * 300]
    out = printed(library.DecisionRule.from_weights([1.0, 1.2345], classes=names), "--proba", "0.5,0.5")
    assert [*filter(None, out.splitlines())][-2].split() == ["L" * 300, "0.5000", "0.6172*"] and "…" not in out
