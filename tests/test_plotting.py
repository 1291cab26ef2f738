"""Displays: the numbers that they hold are computed in another way, and what is drawn is what they hold."""

import importlib

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, cohen_kappa_score, confusion_matrix, f1_score, recall_score

import confmax
from confmax import DecisionRule
from confmax.confusion import Gains
from confmax.evaluate import palette as _palette
from tests.parts_helpers import labelled

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")
plotting = importlib.import_module("confmax.plotting")


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


def test_without_a_bound_only_the_value_is_drawn(table):
    P, y = table
    on_labels = confmax.maximize("g_mean", P, y, classes=["low", "middle", "high"], confusion="labels")
    display = plotting.ConvergenceDisplay.from_solution(on_labels)
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
    # more on the diagonal is better, more beside it is worse: blue and orange
    change = drawn[1] - drawn[0]
    np.testing.assert_allclose(drawn[2], np.where(np.eye(3, dtype=bool), change, -change), atol=1e-12)
    np.testing.assert_allclose([float(text.get_text()) for text in display.ax_[2].texts], change.ravel(), atol=0.0051)
    red, _, blue, _ = display.ax_[2].get_images()[0].cmap(1.0)
    assert blue > red
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
    np.testing.assert_allclose(display.weights.min(axis=1), 1.0)
    np.testing.assert_allclose(display.weights[1], [1.0, 2.0, 3.0])
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
    rule = DecisionRule(Gains.reduced([2.0, 4.0, 8.0], [0.0, 0.2, -0.8]), np.ones(1), ("a", "b", "c"))
    display = plotting.WeightsDisplay.from_rule(rule)
    assert len(display.ax_) == 2
    np.testing.assert_allclose(display.offsets[0], [-0.1, 0.0, -0.5])
    np.testing.assert_allclose(display.ax_[1].get_lines()[0].get_xdata(), display.offsets[0])
    # the numbers that print shows
    shown = [[float(cell) for cell in line.split()[1:]] for line in str(rule).splitlines()[-3:]]
    np.testing.assert_allclose(np.column_stack([display.weights[0], display.offsets[0]]), shown)


@pytest.mark.parametrize("shape", [None, (1,)])
def test_a_single_axes_is_shared_by_weights_and_offsets(shape):
    rule = DecisionRule(Gains.reduced([2.0, 4.0, 8.0], [0.0, 0.2, -0.8]), np.ones(1), ("a", "b", "c"))
    figure, ax = plt.subplots()
    display = plotting.WeightsDisplay.from_rule(rule, ax=ax if shape is None else np.array([ax]))
    assert display.figure_ is figure and not ax.axison and len(display.ax_) == 2
    figure.draw_without_rendering()
    left, right = (panel.get_window_extent() for panel in display.ax_)
    whole = ax.get_window_extent()
    assert whole.x0 - 1 <= left.x0 < left.x1 < right.x0 < right.x1 <= whole.x1 + 1
    with pytest.raises(ValueError, match="must hold 2 axes"):
        plotting.WeightsDisplay.from_rule(rule, ax=plt.subplots(1, 3)[1])


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
        (lambda: plotting.DecisionRegionsDisplay.from_rule(four), "need three classes and the rule has 4"),
        (lambda: plotting.WeightsDisplay.from_rule(full), "no set of weights"),
        (lambda: plotting.WeightsDisplay.from_estimator(LogisticRegression()), "LogisticRegression has no solution_"),
        (lambda: plotting.ConfusionChangeDisplay.from_solution(solved, P, y, normalize="row"), "normalize is 'true'"),
        (lambda: plotting.ConfusionChangeDisplay.from_solution(solved, P, y, ax=plt.subplots()[1]), "must hold 3 axes"),
        (lambda: plotting.TradeOffDisplay.from_solution(solved, P, y, other="nothing"), "nothing"),
    ]
    for call, message in cases:
        with pytest.raises(ValueError, match=message):
            call()


# --- two classes -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two():
    P, y, _ = labelled(900, 2, sharp=1.6)
    return P, np.array(["no", "yes"])[y]


@pytest.mark.parametrize(
    ("metric", "positive"), [("f1", "no"), ("f1", "yes"), ("g_mean", "yes"), ("cohen_kappa", "yes")]
)
def test_the_curve_is_the_metric_of_each_threshold(two, metric, positive):
    P, y = two
    chosen = confmax.metrics.get(metric)
    k = ["no", "yes"].index(positive)
    if metric == "f1":
        chosen = chosen.over([1 - k, k])
    solution = confmax.maximize(chosen, P, y, classes=["no", "yes"])
    display = plotting.ThresholdDisplay.from_solution(solution, P, y)
    assert display.positive == positive and display.rows == "labels of the 900 tuning rows"
    reference = {
        "f1": lambda d: f1_score(y, d, pos_label=positive, zero_division=0),
        "g_mean": lambda d: np.sqrt(np.prod(recall_score(y, d, average=None, zero_division=0))),
        "cohen_kappa": lambda d: cohen_kappa_score(y, d),
    }[metric]
    other = {"no": "yes", "yes": "no"}[positive]
    for at in range(0, len(display.thresholds) - 1, 23):
        decided = np.where(P[:, k] >= display.thresholds[at], positive, other)
        assert display.values[at] == pytest.approx(reference(decided), abs=1e-12)
    marks = {mark.name: mark for mark in display.marks}
    assert marks["argmax"].threshold == 0.5
    assert marks["p/prior"].threshold == pytest.approx(np.mean(y == positive))
    for name, decided in (("argmax", np.array(["no", "yes"])[P.argmax(1)]), ("tuned rule", solution.predict(P))):
        assert marks[name].value == pytest.approx(reference(decided), abs=1e-12)
    # on the raw probabilities, though the rule calibrates them
    assert solution.rule.calibrator is not None
    cut = marks["tuned rule"].threshold
    np.testing.assert_array_equal(solution.predict(P) == positive, P[:, k] >= cut)
    drawn = {line.get_label().split(",")[0]: line for line in display.ax_.get_lines()}
    np.testing.assert_allclose(drawn["tuned rule"].get_xydata(), [[cut, marks["tuned rule"].value]])
    np.testing.assert_allclose(display.ax_.get_lines()[0].get_ydata(), display.values)


def test_a_curve_says_where_it_is_from(two):
    P, y = two
    solution = confmax.maximize("g_mean", P[:500], y[:500])
    held_out = plotting.ThresholdDisplay.from_solution(solution, P[500:], y[500:])
    assert held_out.rows == "labels of the 400 rows" and "400 rows" in held_out.ax_.get_title()
    expected = plotting.ThresholdDisplay.from_solution(solution, P[500:])
    assert expected.rows == "probabilities of the 400 rows"
    Q = solution.rule.calibrator.transform(P[500:])
    at = len(expected.thresholds) // 2
    hit = P[500:, 1] >= expected.thresholds[at]
    recalls = Q[~hit, 0].sum() / Q[:, 0].sum(), Q[hit, 1].sum() / Q[:, 1].sum()
    assert expected.values[at] == pytest.approx(np.sqrt(recalls[0] * recalls[1]))
    weighted = plotting.ThresholdDisplay.from_rule(solution.rule, P, y, sample_weight=np.full(900, 3.0))
    plain = plotting.ThresholdDisplay.from_rule(solution.rule, P, y, metric="g_mean", ax=plt.subplots()[1])
    np.testing.assert_allclose(weighted.values, plain.values)


def test_a_rule_that_draws_has_a_point_for_each_threshold(two):
    P, y = two
    pair = Gains.reduced([[1.0, 1.0], [1.0, 3.0]])
    rule = DecisionRule(pair, np.array([0.25, 0.75]), ("no", "yes"), "g_mean")
    display = plotting.ThresholdDisplay.from_rule(rule, P, y)
    points = [(mark.threshold, mark.share) for mark in display.marks if mark.name == "tuned rule"]
    np.testing.assert_allclose(points, [(0.5, 0.25), (0.25, 0.75)])
    never = DecisionRule.from_weights([1.0, 0.0], [0.0, -1.0], classes=["no", "yes"])
    display = plotting.ThresholdDisplay.from_rule(never, P, y, metric="accuracy")
    assert display.marks[-1].threshold == 1.0 and display.marks[-1].value == pytest.approx(np.mean(y == "no"))


def test_what_has_no_curve_says_why(two, solved, table):
    P, y = two
    backwards = DecisionRule(Gains.from_matrix([[0.0, 1.0], [1.0, 0.0]]), np.ones(1), ("no", "yes"), "accuracy")
    rule = DecisionRule.from_weights([1.0, 2.0], classes=["no", "yes"])
    for call, message in (
        (lambda: plotting.ThresholdDisplay.from_solution(solved, *table), "needs two classes"),
        (lambda: plotting.ThresholdDisplay.from_rule(backwards, P, y), "from some probability on"),
        (lambda: plotting.ThresholdDisplay.from_rule(rule, P, y), "pass metric="),
    ):
        with pytest.raises(ValueError, match=message):
            call()


# --- colours ---------------------------------------------------------------------------------------------------------


def luminance(colour):
    parts = np.array(matplotlib.colors.to_rgb(colour))
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def contrast(one, other):
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colours", [_palette.LIGHT, _palette.DARK], ids=["light", "dark"])
def test_colours_can_be_read_on_their_background(colours):
    for name in ("good", "bad", "accent", "quiet", "second"):
        assert contrast(colours[name], colours["card"]) >= 3.0
    assert contrast(colours["ink"], colours["card"]) >= 7.0 and contrast(colours["soft"], colours["page"]) >= 4.5
    # better and worse differ along blue to yellow, which the common colour blindnesses see
    (r, g, b), (R, G, B) = (matplotlib.colors.to_rgb(colours[name]) for name in ("good", "bad"))
    assert b - (r + g) / 2 > 0.2 > 0 > B - (R + G) / 2
    assert set(_palette.LIGHT) == set(_palette.DARK)


def test_risk_coverage_curves_are_those_of_the_library(table):
    P, y = table
    classes = ["low", "middle", "high"]
    solution = confmax.maximize(
        "accuracy", P[:700], y[:700], classes=classes, abstain=True, constraints="coverage >= 0.8", calibration=None
    )
    display = plotting.RiskCoverageDisplay.from_solution(solution, P[700:], y[700:])
    drawn = {line.get_label().split(",")[0]: line.get_xydata() for line in display.ax_.get_lines()}
    at = drawn["Chow's rule"]
    settings = {"classes": classes, "confusion": "model", "calibration": None, "abstain": True}
    path = confmax.frontier("accuracy", "coverage >=", P[700:], y[700:], levels=at[:, 0], **settings)
    chow = path.on_labels.chow
    np.testing.assert_allclose(at[:, 1], 1.0 - chow.values)
    assert display.areas["Chow's rule"] == pytest.approx(1.0 - chow.area(0.5, 1.0))
    decided = solution.predict(P[700:])
    kept = decided != "abstain"
    np.testing.assert_allclose(drawn["tuned rule"][0], [kept.mean(), (decided != y[700:])[kept].mean()])
    assert display.ax_.get_ylabel() == "1 - accuracy of what is decided"
    given = plotting.RiskCoverageDisplay(curves={"one": chow}, over=(0.6, 0.9))
    assert given.areas == {"one": 1.0 - chow.area(0.6, 0.9)} and len(given.plot().ax_.get_lines()) == 1


def test_a_rule_that_decides_all_rows_has_no_risk_coverage_curve(table, solved):
    P, y = table
    for labels in (y, None):
        with pytest.raises(ValueError, match="a risk-coverage curve needs labels y, and a rule that leaves rows"):
            plotting.RiskCoverageDisplay.from_solution(solved, P, labels)
