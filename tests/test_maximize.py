"""`maximize` as a user calls it."""

import itertools
import warnings
from dataclasses import replace

import numpy as np
import pytest

import confmax
from confmax import metrics
from confmax.confusion import Gains
from confmax.optimize import FrankWolfe, Mixture, Status, Step
from confmax.optimize.conditional_gradient import FrankWolfeState


def table(n=400, K=3, seed=0):
    rng = np.random.default_rng(seed)
    alpha = np.linspace(3, 0.7, K)
    P = rng.dirichlet(alpha, n)
    y = (rng.random(n)[:, None] > np.cumsum(P, 1)).sum(1).clip(0, K - 1)
    return P, y


P3, Y3 = table()
P2, Y2 = table(K=2, seed=1)
NAMES3 = [m for m in metrics.names() if m != "linear" and not metrics.get(m).binary]


def value_of(metric, decisions, y, K):
    C = np.zeros((K, K))
    np.add.at(C, (y, decisions), 1 / len(y))
    return metric.value(C)


@pytest.mark.parametrize("mode", ["model", "labels"])
@pytest.mark.parametrize("name", NAMES3)
def test_never_below_argmax_and_prior_weighting(name, mode):
    solution = confmax.maximize(name, P3, Y3, confusion=mode)
    assert set(solution.baselines) == {"argmax", "p/prior", "p/mean(p)"}
    assert solution.value >= max(solution.baselines.values()) - 1e-12
    if mode == "labels":
        prior = np.bincount(Y3) / len(Y3)
        metric = metrics.get(name)
        for key, scores in (("argmax", P3), ("p/prior", P3 / prior)):
            expected = value_of(metric, scores.argmax(1), Y3, 3)
            assert solution.baselines[key] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("mode", ["model", "labels"])
def test_the_rule_is_the_truth(mode):
    """Value and confusion are those of the returned rule, recomputed here from its decisions."""
    for randomized in (True, False):
        solution = confmax.maximize("h_mean", P3, Y3, confusion=mode, randomized=randomized)
        decided = solution.rule.decision_probabilities(P3)
        truth = P3 if mode == "model" else np.eye(3)[Y3]
        C = truth.T @ decided / len(P3)
        np.testing.assert_allclose(solution.confusion, C, atol=1e-12)
        assert solution.value == pytest.approx(metrics.get("h_mean").value(C), abs=1e-12)
        C_labels = np.eye(3)[Y3].T @ decided / len(P3)
        assert solution.label_value == pytest.approx(metrics.get("h_mean").value(C_labels), abs=1e-12)


def test_model_mode_certifies_and_labels_mode_does_not():
    model = confmax.maximize("q_mean", P3, Y3, confusion="model")
    assert model.upper_bound - model.value == model.gap
    assert 0 <= model.gap - model.randomization_loss <= 1e-5
    labels = confmax.maximize("q_mean", P3, Y3, confusion="labels")
    assert labels.gap is None
    assert labels.upper_bound is None
    assert labels.label_value == labels.value
    assert confmax.maximize("q_mean", P3).label_value is None


def test_passes_are_counted():
    solution = confmax.maximize("accuracy", P3)
    assert solution.n_passes == 3  # the starting rules, one gain, the final evaluation
    assert [entry.n_passes for entry in solution.history] == [1, 2]
    budget = confmax.maximize("min_recall", P3, max_passes=10, solver=FrankWolfe())
    assert budget.n_passes == 10
    assert budget.status is Status.MAX_PASSES


def test_history_and_callback():
    seen = []
    solution = confmax.maximize("min_recall", P3, callback=seen.append, max_passes=30)
    assert tuple(seen) == solution.history
    assert all(a.value <= b.value for a, b in itertools.pairwise(seen))
    bounds = [entry.upper_bound for entry in seen if entry.upper_bound is not None]
    assert bounds == sorted(bounds, reverse=True)
    stopped = confmax.maximize("min_recall", P3, callback=lambda progress: progress.n_passes >= 3)
    assert stopped.status is Status.STOPPED
    assert stopped.n_passes == 4


def test_same_input_same_bytes():
    for kwargs in ({}, {"y": Y3}, {"y": Y3, "confusion": "model", "randomized": True}):
        rules = {confmax.maximize("g_mean", P3, **kwargs).rule.to_json() for _ in range(3)}
        assert len(rules) == 1


@pytest.mark.parametrize(
    ("metric", "settings"),
    [
        ("macro_f1", {"confusion": "labels"}),
        ("macro_f1", {"confusion": "model"}),
        ("g_mean", {"confusion": "model", "constraints": ["recall[1] >= 0.7", "accuracy >= 0.4"], "randomized": True}),
    ],
)
def test_weights_count_as_repetitions_in_the_estimate(metric, settings):
    """Not in a calibration or a blend, which trust repeated rows more than weighted ones."""
    counts = np.random.default_rng(0).integers(0, 4, len(P3))
    counts[:50] = 1
    repeated = np.repeat(np.arange(len(P3)), counts)
    a = confmax.maximize(metric, P3, Y3, sample_weight=counts, calibration=None, **settings)
    b = confmax.maximize(metric, P3[repeated], Y3[repeated], calibration=None, **settings)
    assert a.value == pytest.approx(b.value, abs=2e-6 if "constraints" in settings else 1e-9)
    assert a.upper_bound is None or a.upper_bound == pytest.approx(b.upper_bound, rel=1e-3)


# --- class order ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["linear_kappa", "quadratic_kappa", "micro_f1", "micro_f1_once"])
def test_order_dependent_metrics_refuse_names_without_an_order(name):
    y = np.array(["low", "mid", "high"])[Y3]
    with pytest.raises(ValueError, match=f"{name} depends on the order of the classes .* pass classes="):
        confmax.maximize(name, P3, y)
    ordered = confmax.maximize(name, P3, y, classes=["low", "mid", "high"])
    assert ordered.value == confmax.maximize(name, P3, Y3).value


@pytest.mark.parametrize("name", ["f1", "f_beta", "jaccard", "ams", "fowlkes_mallows"])
def test_binary_metrics_refuse_names_without_an_order(name):
    y = np.array(["no", "yes"])[Y2]
    with pytest.raises(ValueError, match="the negative, then the positive"):
        confmax.maximize(name, P2, y)
    assert confmax.maximize(name, P2, y, classes=["no", "yes"]).value == confmax.maximize(name, P2, Y2).value
    with pytest.raises(ValueError, match="metric of two classes and the table has 3"):
        confmax.maximize(name, P3, Y3)


# --- absent classes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["informedness", "h_mean", "min_recall"])
@pytest.mark.parametrize("mode", ["model", "labels"])
def test_absent_classes_are_left_out_with_a_warning(name, mode):
    y = np.where(Y3 == 1, 0, Y3)
    with pytest.warns(UserWarning, match=f"{name} divides by class sizes and y has no weight in class 1"):
        solution = confmax.maximize(name, P3, y, classes=[0, 1, 2], confusion=mode)
    assert solution.metric.classes == (0, 2)
    assert solution.value > 0
    if mode == "labels":
        recalls = np.diag(solution.confusion)[[0, 2]] / solution.statistics.rows[[0, 2]]
        assert solution.value <= recalls.max()
    if mode == "model" and solution.upper_bound is not None:
        assert solution.gap >= 0


def test_absent_classes_that_the_metric_does_not_use_are_no_concern():
    keep = Y3 != 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solution = confmax.maximize(
            metrics.get("balanced_accuracy").over([0, 1]), P3[keep], Y3[keep], classes=[0, 1, 2]
        )
    assert solution.metric.classes == (0, 1)
    with pytest.raises(ValueError, match="computed over 2 classes, but y has no weight in 2; at least two"):
        confmax.maximize(metrics.get("g_mean").over([0, 2]), P3[keep], Y3[keep], classes=[0, 1, 2])


# --- special metrics --------------------------------------------------------------------------------------------------


def test_a_cost_table_with_a_rejection():
    """Deciding wrongly costs 1, abstaining .2: abstain where the largest probability is below .8."""
    cost = 1 - np.eye(3, 4)
    cost[:, 3] = 0.2
    solution = confmax.maximize(metrics.get("linear", cost=cost), P3)
    expected = np.where(P3.max(1) > 0.8, P3.argmax(1), 3)
    np.testing.assert_array_equal(solution.rule.predict(P3), expected)
    assert solution.gap <= 1e-9
    assert solution.confusion.shape == (3, 4)
    assert solution.rule.classes.tolist() == [0, 1, 2, 3]
    named = confmax.maximize(metrics.get("linear", cost=cost), P3, classes=["a", "b", "c"])
    assert named.rule.classes.tolist() == ["a", "b", "c", "decision 3"]


def test_ams_is_finite():
    solution = confmax.maximize("ams", P2, Y2)
    assert np.isfinite(solution.value)
    assert dict(solution.metric.params)["b_min"] == 0.5 / len(P2)
    regular = confmax.maximize(metrics.get("ams", b_reg=0.01), P2, Y2)
    assert dict(regular.metric.params)["b_min"] == 0.0


def test_a_wrong_declaration_is_found_out():
    """A convex function declared concave: its 'bound' is beaten by the next rule, said so, and withdrawn."""
    psi = metrics.from_function(lambda C: np.sum((np.diag(C) / C.sum(1)) ** 4), name="fourth")
    psi = replace(psi, structure="concave")  # past the check on construction
    with pytest.warns(UserWarning, match="declared structure 'concave' implies: the declaration is wrong"):
        solution = confmax.maximize(psi, P3, solver=BruteForceAfter())
    assert solution.gap is None


class BruteForceAfter:
    """One conditional gradient step from the random rule, then rules that lie far away."""

    name, budget = "BruteForceAfter", 50

    def check(self, metric, n_classes, n_rows):
        pass

    def init(self, problem):
        return FrankWolfeState(Mixture.uniform(problem.oracle.rows, 3, matrix=True))

    def step(self, problem, state):
        if state.round > 1:
            gains = Gains.constant(3, [0, 1, 2])
            answers = problem.ask(gains)
            rules = tuple(Mixture.single(gains[k], answers[k]) for k in range(3))
            return state, Step(rules[0], rules, None, Status.FINISHED)
        return FrankWolfe().step(problem, state)


# --- words ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kwargs", "sentence"),
    [
        ({"metric": "macro-f1"}, "did you mean macro_f1"),
        ({"metric": 3}, "metric is a name such as 'macro_f1', a Metric or a function of the confusion matrix; got int"),
        ({"confusion": "truth"}, "confusion must be one of auto, model, labels, blend; got 'truth'"),
        ({"confusion": "labels"}, "needs y"),
        ({"calibration": "isotonic"}, "calibration must be 'auto', None, 'temperature', 'vector', 'matrix' or an"),
        ({"solver": "adam"}, "one of frank_wolfe"),
        ({"solver": "polished"}, "solver 'polished' was removed; use 'auto', .*'coordinate_search'"),
        ({"solver": FrankWolfe}, "solver must be an instance"),
        ({"randomized": "yes"}, "randomized must be True, False or 'auto'; got 'yes'"),
        ({"tol": -1}, "tol must be finite and not negative; got -1"),
        ({"callback": 3}, "callback must be a function of the progress, or None; got 3"),
        ({"max_passes": 0}, "max_passes is a positive integer, if it is given; got 0"),
        ({"random_state": 1.5}, "random_state must be an integer from 0 to .*, a Generator or None; got 1.5"),
    ],
)
def test_refusals(kwargs, sentence):
    with pytest.raises(ValueError, match=sentence):
        confmax.maximize(**{"metric": "accuracy", "proba": P3, **kwargs})


def test_repr_says_what_was_found():
    text = repr(confmax.maximize("g_mean", P3, confusion="model"))
    for part in ("g_mean = ", "gap ", "passes", "argmax", "p/prior", "DecisionRule for g_mean"):
        assert part in text
    assert "no guarantee" in repr(confmax.maximize("mcc", P3))


@pytest.mark.parametrize("kind", ["auto", "matrix", None])
@pytest.mark.parametrize("confusion", ["model", "blend"])
def test_the_calibration_of_a_solution_is_used_again(kind, confusion):
    """A second metric on the same rows need not choose and fit the calibration again."""
    rng = np.random.default_rng(3)
    P = rng.dirichlet([0.5, 1.0, 2.0], 600)
    y = np.array([rng.choice(3, p=row) for row in P**1.5 / (P**1.5).sum(axis=1, keepdims=True)])
    first = confmax.maximize("g_mean", P, y, confusion=confusion, calibration=kind)
    again = confmax.maximize("macro_f1", P, y, confusion=confusion, calibration=first.calibration)
    alone = confmax.maximize("macro_f1", P, y, confusion=confusion, calibration=kind)
    assert again.rule.to_json() == alone.rule.to_json() and again.value == alone.value
    assert again.calibration == first.calibration


def test_auto_confusion():
    assert confmax.maximize("accuracy", P3).mode == "model"
    assert confmax.maximize("accuracy", P3, Y3).mode == "blend"


@pytest.mark.parametrize("y", [["a;b", None, "a"], ["a;b", "b", "a"]])
@pytest.mark.parametrize("classes", [None, ["a", "b"]])
def test_texts_of_several_names_are_pointed_to_several_labels(y, classes):
    with pytest.raises(ValueError, match=r"for several labels per row pass lists .* at ';', with decisions='any'"):
        confmax.maximize("macro_f1", [[0.5, 0.5]] * 3, y, classes=classes)
    with pytest.raises(ValueError, match=r"leave y out$"):
        confmax.maximize("macro_f1", [[0.5, 0.5]] * 3, ["a", None, "b"])
