"""Displays: the numbers that they hold are computed in another way, and what is drawn is what they hold."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, confusion_matrix

import confmax
from confmax import DecisionRule
from confmax.confusion import Gains
from tests.parts_helpers import labelled

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")
plotting = pytest.importorskip("confmax.plotting")


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def table():
    P, y, _ = labelled(1500, 3, sharp=0.8)
    return P, np.array(["low", "middle", "high"])[y]


@pytest.fixture(scope="module")
def solved(table):
    P, y = table
    return confmax.maximize("g_mean", P, y, classes=["low", "middle", "high"], randomized=False)


def test_convergence_is_the_history(table):
    P, _ = table
    solution = confmax.maximize("g_mean", P, randomized=True)
    display = plotting.ConvergenceDisplay.from_solution(solution)
    value, bound = (line.get_ydata() for line in display.ax_.get_lines())
    np.testing.assert_allclose(value[:-1], [step.value for step in solution.history])
    known = [np.nan if step.upper_bound is None else step.upper_bound for step in solution.history]
    np.testing.assert_allclose(bound[:-1], known)
    assert (bound - value)[-1] <= 1e-6
    assert display.ax_.get_ylabel().startswith("g_mean")
    assert display.figure_ is display.ax_.figure


def test_without_a_bound_only_the_value_is_drawn(solved):
    display = plotting.ConvergenceDisplay.from_solution(solved)
    assert len(display.ax_.get_lines()) == 1


def test_confusions_are_those_of_scikit_learn(table, solved):
    P, y = table
    names = ["low", "middle", "high"]
    display = plotting.ConfusionChangeDisplay.from_solution(solved, P, y)
    for found, decided in ((display.before, P.argmax(1)), (display.after, solved.rule.predict_index(P))):
        expected = confusion_matrix(y, np.array(names)[decided], labels=names)
        np.testing.assert_allclose(found, expected / len(y), atol=1e-12)
    drawn = [np.asarray(panel.get_images()[0].get_array()) for panel in display.ax_]
    np.testing.assert_allclose(drawn[0].sum(axis=1), 1.0)
    np.testing.assert_allclose(drawn[2], drawn[1] - drawn[0], atol=1e-12)
    assert [label.get_text() for label in display.ax_[0].get_xticklabels()] == names
    assert len(display.ax_[2].texts) == 9
    whole = plotting.ConfusionChangeDisplay.from_solution(solved, P, y, normalize="all", ax=plt.subplots(1, 3)[1])
    assert np.asarray(whole.ax_[1].get_images()[0].get_array()).sum() == pytest.approx(1.0)


def test_the_trade_off_goes_through_argmax_and_the_rule(table, solved):
    P, y = table
    display = plotting.TradeOffDisplay.from_solution(solved, P, y)
    names = np.array(["low", "middle", "high"])
    calibrated = solved.rule.calibrator
    Q = P if calibrated is None else np.asarray(calibrated.transform(P))
    assert display.other[0] == pytest.approx(accuracy_score(y, names[Q.argmax(1)]), abs=1e-12)
    at = int(np.flatnonzero(display.steps == 1.0)[0])
    assert display.other[at] == pytest.approx(accuracy_score(y, solved.predict(P)), abs=1e-12)
    assert display.tuned[at] == pytest.approx(solved.label_value, abs=1e-12)
    assert display.tuned[at] > display.tuned[0]
    np.testing.assert_allclose(display.ax_.get_lines()[0].get_xdata(), display.other)
    other = plotting.TradeOffDisplay.from_solution(solved, P, y, other="macro_f1")
    assert other.ax_.get_xlabel().startswith("macro_f1")


def test_weights_of_a_classifier_and_of_its_folds():
    X, y = make_classification(600, n_informative=5, n_classes=3, weights=[0.8, 0.15], random_state=0)
    model = confmax.MetricClassifierCV(LogisticRegression(), metric="g_mean", random_state=0).fit(X, y)
    model.fold_rules_ = [DecisionRule.from_weights([1.0, 2.0, 3.0]), DecisionRule.from_weights([1.0, 3.0, 2.0])]
    display = plotting.WeightsDisplay.from_estimator(model)
    assert display.weights.shape == (3, 3)
    np.testing.assert_allclose(np.exp(np.log(display.weights).mean(axis=1)), 1.0)
    np.testing.assert_allclose(display.weights[1], np.array([1, 2, 3]) / 6 ** (1 / 3))
    drawn = [line.get_xdata() for line in display.ax_.get_lines() if len(line.get_xdata())]
    np.testing.assert_allclose(drawn, display.weights[[1, 2, 0]])
    assert [label.get_text() for label in display.ax_.get_yticklabels()] == ["0", "1", "2"]
    for made in (
        plotting.ConvergenceDisplay.from_estimator(model),
        plotting.TradeOffDisplay.from_estimator(model, X, y),
        plotting.ConfusionChangeDisplay.from_estimator(model, X, y),
        plotting.DecisionRegionsDisplay.from_estimator(model, X, y),
    ):
        assert made.figure_ is not None


def test_offsets_have_a_panel_of_their_own():
    rule = DecisionRule(Gains.reduced([1.0, 2.0, 4.0], [0.0, 0.1, -0.4]), np.ones(1), ("a", "b", "c"))
    display = plotting.WeightsDisplay.from_rule(rule)
    assert len(display.ax_) == 2
    np.testing.assert_allclose(display.offsets[0], (np.array([0.0, 0.1, -0.4]) + 0.1) / 2)
    np.testing.assert_allclose(display.ax_[1].get_lines()[0].get_xdata(), display.offsets[0])


def test_regions_are_what_the_rule_decides():
    rule = DecisionRule.from_weights([1.0, 2.0, 5.0])
    display = plotting.DecisionRegionsDisplay.from_rule(rule, n=40)
    np.testing.assert_allclose(display.points.sum(axis=1), 1.0)
    assert len(display.points) == 41 * 42 // 2
    scores = display.points * [1.0, 2.0, 5.0]
    chosen = scores[np.arange(len(scores)), display.decided]
    np.testing.assert_allclose(chosen, scores.max(axis=1))
    for corner in range(3):
        assert display.decided[display.points[:, corner] == 1.0].tolist() == [corner]


def test_regions_of_a_mixture_and_of_an_extra_decision():
    rule = DecisionRule(Gains.reduced([[1.0, 1.0, 1.0], [1.0, 5.0, 1.0]]), np.array([0.7, 0.3]), (0, 1, 2))
    display = plotting.DecisionRegionsDisplay.from_rule(rule, n=20)
    np.testing.assert_array_equal(display.decided, rule.decision_probabilities(display.points).argmax(axis=1))
    gain = np.column_stack([np.eye(3), np.full(3, 0.6)])
    abstaining = DecisionRule(Gains.from_matrix(gain), np.ones(1), ("a", "b", "c", "ask"))
    display = plotting.DecisionRegionsDisplay.from_rule(abstaining, n=20)
    assert set(display.decided) == {0, 1, 2, 3}
    assert "decided ask" in [text.get_text() for text in display.ax_.get_legend().get_texts()]


def test_what_cannot_be_drawn_says_why(table, solved):
    P, y = table
    four = DecisionRule.from_weights([1.0, 1.0, 1.0, 1.0])
    full = DecisionRule(Gains.from_matrix(np.eye(3)), np.ones(1), (0, 1, 2))
    cases = [
        (lambda: plotting.DecisionRegionsDisplay.from_rule(four), "three classes and the rule has 4"),
        (lambda: plotting.WeightsDisplay.from_rule(full), "no set of weights"),
        (lambda: plotting.WeightsDisplay.from_estimator(LogisticRegression()), "LogisticRegression has no solution_"),
        (lambda: plotting.ConfusionChangeDisplay.from_solution(solved, P, y, normalize="row"), "normalize is 'true'"),
        (lambda: plotting.ConfusionChangeDisplay.from_solution(solved, P, y, ax=plt.subplots()[1]), "must hold 3 axes"),
        (lambda: plotting.TradeOffDisplay.from_solution(solved, P, y, other="nothing"), "nothing"),
    ]
    for call, message in cases:
        with pytest.raises(ValueError, match=message):
            call()
