"""What metric and limits leave open is decided for accuracy: against programs, enumeration, and on real rows."""

import warnings
from importlib.resources import files
from unittest import mock

import numpy as np
import pandas as pd
import pytest

import confmax
from benchmarks import second_objective as benchmark
from benchmarks.harness import Data
from confmax.confusion import Confusion, Gains, Layout
from confmax.confusion.ties import never_told_apart, with_ties_broken
from confmax.optimize import Status
from confmax.oracle import decide
from confmax.solution import second_objective
from tests.helpers import all_deterministic_confusions


@pytest.mark.parametrize("seed", [2, 11, 23, 41, 266, 802])
def test_no_best_rule_decides_more_rows_rightly(seed):
    """A linear program over the decisions of all rows; the benchmark has two thousand such populations.

    The metric of the last two is zero at best.
    """
    value, accuracy, _ = benchmark.on_tiny(seed)
    assert value <= benchmark.TOL and accuracy <= benchmark.LOST


@pytest.mark.parametrize("metric", ["f1[1]", "recall[2]", "specificity[0]", "balanced_accuracy", "jaccard[2]"])
def test_single_rules_are_those_of_enumeration(metric):
    """All single rules of five rows are compared, by the metric first and by accuracy second."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        P = np.round(rng.dirichlet(np.ones(3), 5) * 8) + 0.5
        P /= P.sum(axis=1, keepdims=True)
        S = Confusion.from_matrix(all_deterministic_confusions(P, np.ones(5)))
        values, right = (confmax.metrics.get(name).values(S) for name in (metric, "accuracy"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = confmax.maximize(metric, P, confusion="model", calibration=None, randomized=False)
        assert found.value >= values.max() - 1e-6
        accuracy = float(P[np.arange(5), found.rule.predict_index(P)].mean())
        assert accuracy >= right[values >= values.max() - 1e-9].max() - 1e-9


def jobs():
    """Return the demo's rows, of which every other one tunes."""
    frame = pd.read_csv(files("confmax") / "data" / "hpc_cv.csv")
    first, names = np.arange(len(frame)) % 2 == 0, ["VF", "F", "M", "L"]
    P, y = frame.loc[first, names].to_numpy(), frame.loc[first, "obs"].map(names.index).to_numpy()
    return Data("jobs", P, y, P, y)


@pytest.mark.parametrize("confusion", ["labels", "blend"])
@pytest.mark.parametrize("question", [name for name in benchmark.QUESTIONS if name != "accuracy, recall floor"])
def test_other_classes_are_decided_for_accuracy(question, confusion):
    """No more than .005 is lost against the same decisions of the class, all other rows by argmax."""
    found = benchmark.lost(jobs(), question, 3, 0, confusion=confusion)
    assert found is None or found <= 0.005


@pytest.mark.parametrize("metric", ["accuracy", "g_mean", "cohen_kappa", "quadratic_kappa", "mcc"])
def test_nothing_open_is_no_second_run(metric):
    """Neither on rows without ties, nor for metrics that cannot be a floor."""
    data = jobs()
    P = data.P + np.random.default_rng(0).uniform(0.0, 1e-3, data.P.shape)
    with mock.patch.object(second_objective, "run", side_effect=AssertionError):
        for randomized in (True, False):
            confmax.maximize(metric, P / P.sum(axis=1, keepdims=True), confusion="model", randomized=randomized)


@pytest.mark.parametrize("settings", [{}, {"confusion": "labels"}, {"confusion": "model", "solver": "dinkelbach"}])
def test_a_rule_that_decides_the_most_probable_other_class_is_no_second_run(settings):
    data = jobs()
    with mock.patch.object(second_objective, "run", side_effect=AssertionError):
        for randomized in (True, False):
            confmax.maximize("f1[3]", data.P, data.y, randomized=randomized, **settings)


@pytest.mark.parametrize("others", [0.0, 2.0**-70, 1.0])
def test_gains_that_decide_the_most_probable_other_class(others):
    """By ties that are broken, by a weight too small to count, and by the weights of argmax."""
    told = Gains.reduced([others, 2.0, others], [0.0, -0.5, 0.0])
    for gain in (told, Gains.from_matrix(told.matrices())):
        assert second_objective.decides_most_probable(gain, np.array([0, 2]))
        assert not second_objective.decides_most_probable(gain, np.array([0, 1]))
    unequal = Gains.reduced([1.0, 2.0, 1.5], [0.0, -0.5, 0.0])
    assert not second_objective.decides_most_probable(unequal, np.array([0, 2]))


def test_a_rule_that_misses_a_limit_keeps_its_ties():
    P = np.random.default_rng(0).dirichlet(np.ones(3), 40)
    limits = ["recall[0] >= 0.9", "rate[0] <= 0.1", "rate[1] <= 0.3"]
    with mock.patch.object(second_objective, "run", side_effect=AssertionError):
        found = confmax.maximize("f1[2]", P, confusion="model", constraints=limits, on_infeasible="closest")
    assert not found.feasible


def test_a_rule_of_one_class_stays_one():
    """Where a limit does not bind, the rule is a threshold of one class, and says so."""
    data = jobs()
    for settings in ({}, {"confusion": "model", "randomized": True}):
        found = confmax.maximize("f1[3]", data.P, data.y, constraints="recall[1] >= 0.2", calibration=None, **settings)
        shown = repr(found.rule)
        assert "decides 3 if" in shown and "p(3) >= 0." in shown and "else the most probable other class" in shown


# --- decisions that a gain does not tell apart ------------------------------------------------------------------------


def test_ties_of_any_set_of_classes_are_broken():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(5), 500)
    a, b = np.array([0.0, 3.0, 0.0, 0.0, 2.0]), np.array([0.1, -0.4, 0.1, 0.1, 0.0])
    reduced, full = Gains.reduced(a, b), Gains.from_matrix(Gains.reduced(a, b).matrices())
    before = decide(P, reduced)[0]
    for gains in (reduced, full):
        after = decide(P, with_ties_broken(gains))[0]
        tied = np.isin(before, [0, 2, 3])
        np.testing.assert_array_equal(after[~tied], before[~tied])
        np.testing.assert_array_equal(after[tied], np.array([0, 2, 3])[P[tied][:, [0, 2, 3]].argmax(axis=1)])
    told = Gains.concatenate([Gains.reduced(np.arange(5.0)), Gains.reduced([1.0, 2.0, 0.0, 0.0, 1.0], np.arange(5.0))])
    assert with_ties_broken(told) is told


def test_sets_of_decisions_that_are_alike():
    full = np.zeros((4, 5))
    full[:, 1], full[:, 3], full[0, 2] = [1.0, 2.0, 0.0, 0.0], [1.0, 2.0, 0.0, 1e-8], 3.0
    found = second_objective.alike(Gains.from_matrix(full), 1e-6)
    assert [places.tolist() for places in found] == [[0, 4], [1, 3]]
    reduced = Gains.reduced([0.0, 1.0, 1e-9, 0.0, 0.0], [0.5, 0.5, 0.5, 0.2, 0.2])
    assert [places.tolist() for places in second_objective.alike(reduced, 1e-6)] == [[3, 4], [0, 2]]
    assert second_objective.alike(Gains.reduced(np.ones(100_000)), 1e-6) == []


def test_ties_are_broken_in_every_group():
    layout = Layout(2, 3)
    one, other = Gains.reduced([0.0, 2.0, 0.0], [0.0, -0.5, 0.0]), Gains.reduced([1.0, 2.0, 3.0])
    broken = with_ties_broken(layout.beside([one, other]), layout)
    np.testing.assert_array_equal(layout.gains_of(broken, 0).a, with_ties_broken(one).a)
    np.testing.assert_array_equal(layout.gains_of(broken, 1).a, other.a)
    assert never_told_apart(layout.beside([one, other]), layout).tolist() == [True, False, True, False, False, False]


def test_the_bound_and_the_value_are_those_of_the_metric():
    population = benchmark.tiny(20)
    found, chances, accuracy = benchmark.solved(population)
    C = (population.P * population.weight[:, None]).T @ chances
    assert found.value == pytest.approx(confmax.metrics.get(population.metric).value(C), abs=1e-12)
    assert found.status is Status.CONVERGED and 0.0 <= found.gap <= benchmark.TOL
    assert found.history[-1].value == pytest.approx(found.value, abs=benchmark.TOL)
    assert accuracy > 0.1 + np.trace(C @ np.roll(np.eye(len(C)), 1, axis=0))


@pytest.mark.parametrize(
    "confusion, kind, accuracy", [("auto", "auto", 0.7), ("model", "auto", 0.7), ("labels", "temperature", 0.67)]
)
def test_a_floor_on_another_class_needs_no_draw_that_costs_less_than_a_row(confusion, kind, accuracy):
    """Two classes under floors: a single rule whose recall is less than a row below the draw, and which is accurate."""
    data = jobs()
    limits = ["precision[3] >= 0.7", "recall[0] >= 0.9"]
    settings = {"constraints": limits, "confusion": confusion, "classes": range(4), "calibration": kind}
    found = confmax.maximize("recall[3]", data.P, data.y, **settings)
    drawn = confmax.maximize("recall[3]", data.P, data.y, randomized=True, **settings)
    assert not found.rule.is_randomized and found.value >= drawn.value - 1 / (data.y == 3).sum()
    assert (found.predict(data.P) == data.y).mean() > accuracy
