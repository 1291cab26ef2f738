"""Groups that are equal, or nearly: a limit that leaves no room for an interior point is kept like any other."""

import numpy as np
import pytest

import confmax
from benchmarks import groups
from confmax import constraints as c


def test_always_the_same_decision_keeps_three_rates_equal():
    q = np.array([0.78, 0.61, 0.43, 0.19, 0.06, 0.88, 0.83, 0.8])
    P, group = np.column_stack([1 - q, q]), [0, 1, 2, 2, 0, 0, 1, 1]
    found = confmax.maximize(
        "accuracy", P, constraints="difference(rate[1] | group) <= 0", group=group, randomized=True
    )
    assert found.feasible and found.value >= 0.5725 and found.gap < 1e-6
    assert found.constraints[0].value <= 1e-12


def test_equal_accuracies_cost_no_more_than_nearly_equal_ones():
    P = np.random.default_rng(0).dirichlet([1, 1], 300)
    settings = {"group": np.arange(300) % 3, "randomized": True}
    equal, nearly = (
        confmax.maximize("recall[1]", P, constraints=f"difference(accuracy | group) <= {limit}", **settings)
        for limit in (0, 1e-4)
    )
    assert equal.gap < 1e-6 and equal.constraints[0].value <= 1e-12
    assert nearly.value - 0.01 < equal.value <= nearly.value + 1e-9


def test_several_limits_of_two_groups_leave_no_room_together():
    P, group = np.random.default_rng(2).dirichlet([1, 1], 30), np.arange(30) % 2
    limits = ["difference(rate[1] | group) <= 0", "difference(recall[1] | group) <= 0"]
    found = confmax.maximize("min_recall", P, constraints=limits, group=group, randomized=True)
    assert found.gap < 1e-6 and max(one.value for one in found.constraints) <= 1e-12


@pytest.mark.parametrize("metric", ["g_mean", "h_mean", "macro_f1"])
def test_means_and_sums_of_ratios_keep_groups_equal(metric):
    P, group = np.random.default_rng(3).dirichlet([1, 1, 1], 60), np.arange(60) % 3
    equal, nearly = (
        confmax.maximize(metric, P, constraints=f"difference(rate[1] | group) <= {limit}", group=group, randomized=True)
        for limit in (0, 1e-4)
    )
    assert equal.feasible and equal.constraints[0].value <= 1e-12
    assert equal.value == pytest.approx(nearly.value, abs=1e-3)


def test_values_that_differ_by_rounding_are_alike():
    values = np.array([[1e-6, 1e-6 - 1e-16], [0.0, 0.0], [1e-6, 0.5e-6], [1.0, 0.0]])
    one = c.rate(1).ratio() >= 1.0
    assert one.across.value(values, np.zeros((4, 2), dtype=bool), one.stated).tolist() == [1.0, 1.0, 0.5, 0.0]


@pytest.mark.filterwarnings("ignore:the rule never decides", "ignore:of the rows")
@pytest.mark.parametrize("seed", range(6))
def test_equal_groups_reach_the_value_of_a_program_over_rows(seed):
    end, passes, lack = groups.verdict_on_equal(seed)
    assert end in ("right", "infeasible, proved") and passes <= 12 and lack <= 1e-6


@pytest.mark.filterwarnings("ignore:group:UserWarning")
def test_labels_keep_groups_equal():
    rng = np.random.default_rng(4)
    P, group = rng.dirichlet([1, 1, 1], 90), np.arange(90) % 3
    y = (P.cumsum(axis=1) > rng.random((90, 1))).argmax(axis=1)
    settings = {"confusion": "labels", "calibration": None, "group": group, "randomized": True}
    found = confmax.maximize("accuracy", P, y, constraints="difference(recall[1] | group) <= 0", **settings)
    assert found.feasible and found.constraints[0].value <= 1e-12 and found.value > 0.45
