"""Floors on means of the recalls: against tangents in a program over all rows, and what holds whatever the table."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

import confmax
from confmax import constraints as c

MODEL = {"confusion": "model", "calibration": None, "randomized": True}
MEANS = ["g_mean", "h_mean", "q_mean"]


def table(n=400, K=4, seed=0):
    return np.random.default_rng(seed).dirichlet(np.linspace(0.3, 1.2, K), n)


def mean_and_slope(name, T):
    """The means of recalls and their derivatives, written down again."""
    if name == "g_mean":
        value = np.exp(np.log(T).mean())
        return value, value / T / len(T)
    if name == "h_mean":
        value = len(T) / (1 / T).sum()
        return value, value**2 / T**2 / len(T)
    root = np.sqrt(((1 - T) ** 2).mean())
    return 1 - root, (1 - T) / root / len(T)


def best_by_tangents(P, name, floor, gain):
    """The largest ``<gain, C>`` with the floor, by a linear program over all decisions that gets tangents; and C."""
    n, K = P.shape
    prior = P.mean(axis=0)
    # recall k of the decisions x (n, K), flat
    recalls = np.array([(P * (np.arange(K) == k) / n / prior[k]).reshape(-1) for k in range(K)])
    cost, whole = -(P @ gain / n).reshape(-1), np.kron(np.eye(n), np.ones(K))
    A, b = [], []
    for _ in range(300):
        found = linprog(cost, A or None, b or None, whole, np.ones(n))
        if found.status == 2:
            return None
        T = recalls @ found.x
        if np.clip(T, 1e-9, 1).min() > 0 and mean_and_slope(name, np.clip(T, 1e-9, 1))[0] >= floor - 1e-7:
            return -found.fun
        at = np.clip(T, 1e-3, 1 - 1e-9)
        value, slope = mean_and_slope(name, at)
        A.append(-(slope @ recalls))
        b.append(value - slope @ at - floor)
    raise AssertionError("the tangents do not end")


@pytest.mark.parametrize("name", MEANS)
@pytest.mark.parametrize("seed", range(1))
def test_tiny_populations_against_tangents(name, seed):
    rng = np.random.default_rng([seed, len(name), MEANS.index(name)])
    P, gain = rng.dirichlet(np.full(3, 0.7), 9), np.eye(3) + 0.3 * rng.random((3, 3))
    most = confmax.maximize(name, P, **MODEL).value
    metric = confmax.metrics.get("linear", gain=gain) if seed % 2 else confmax.metrics.get("accuracy")
    best = confmax.maximize(metric, P, constraints=[c.at_least(name, 0.97 * most)], tol=1e-8, **MODEL)
    expected = best_by_tangents(P, name, 0.97 * most, gain if seed % 2 else np.eye(3))
    assert best.constraints[0].value >= 0.97 * most
    assert best.value == pytest.approx(expected, abs=3e-6)
    assert best.value + best.gap >= expected - 1e-6


@pytest.mark.parametrize(
    ("name", "objective"),
    [*itertools.product(MEANS, ["accuracy", "cohen_kappa", "min_recall", "q_mean"]), ("g_mean", "macro_f1")],
)
def test_rules_keep_the_floor_beside_other_limits(name, objective):
    P = table()
    most = confmax.maximize(name, P, constraints=["rate[3] <= 0.5"], **MODEL).value
    given = [c.at_least(name, 0.99 * most), c.rate(3) <= 0.5]
    found = confmax.maximize(objective, P, constraints=given, **MODEL)
    decided = found.rule.decision_probabilities(P)
    C = P.T @ decided / len(P)
    value = mean_and_slope(name, np.diag(C) / P.mean(axis=0))[0]
    assert value >= 0.99 * most - 1e-12 and decided[:, 3].mean() <= 0.5 + 1e-12
    assert found.value == pytest.approx(confmax.metrics.get(objective).value(C), abs=1e-12)
    assert found.feasible and -1e-12 <= found.gap <= (0.03 if objective == "macro_f1" else 1e-6)
    free = confmax.maximize(objective, P, constraints=given[1:], **MODEL)
    assert found.value <= free.value + free.gap + 1e-12


@pytest.mark.parametrize("name", MEANS)
def test_the_price_is_the_slope_of_the_value(name):
    P = table(1000)
    most = confmax.maximize(name, P, **MODEL).value
    levels, values, price = [0.985 * most - 2e-3, 0.985 * most, 0.985 * most + 2e-3], [], []
    for level in levels:
        found = confmax.maximize("accuracy", P, constraints=[c.at_least(name, level)], tol=1e-9, **MODEL)
        values.append(found.value)
        price.append(found.constraints[0].price)
    assert values[0] > values[1] > values[2] and price[1] > 0.01
    assert price[1] == pytest.approx((values[0] - values[2]) / 4e-3, rel=0.1)


@pytest.mark.parametrize("name", MEANS)
def test_a_floor_out_of_reach_is_proved_and_says_what_is_reached(name):
    P = table()
    best = confmax.maximize(name, P, **MODEL)
    with pytest.raises(confmax.Infeasible, match=rf"{name} reaches at most .* \(proved\)") as caught:
        confmax.maximize("accuracy", P, constraints=[c.at_least(name, best.value + 0.02)])
    assert float(str(caught.value).split("at most ")[1].split(" ")[0]) == pytest.approx(best.value, abs=2e-4)
    limits = [c.at_least(name, best.value + 0.02), "recall[0] >= 0.1"]
    closest = confmax.maximize("accuracy", P, constraints=limits, on_infeasible="closest", **MODEL)
    assert not closest.feasible and closest.constraints[0].value == pytest.approx(best.value, abs=1e-3)


def test_on_labels_the_floor_is_kept_as_they_count():
    P = table(300, 3)
    y = (P.cumsum(axis=1) < np.random.default_rng(1).random((300, 1))).sum(axis=1).clip(0, 2)
    given = {"confusion": "labels", "calibration": None, "randomized": True}

    def counted(rule):
        C = np.eye(3)[y].T @ rule.decision_probabilities(P) / len(P)
        return np.trace(C), mean_and_slope("g_mean", np.diag(C) / C.sum(axis=1))[0]

    accuracy, most = counted(confmax.maximize("g_mean", P, y, **given).rule)
    _, reached = counted(confmax.maximize("accuracy", P, y, **given).rule)
    floor = 0.5 * reached + 0.5 * most
    found = confmax.maximize("accuracy", P, y, constraints=[c.at_least("g_mean", floor)], **given)
    value, kept = counted(found.rule)
    assert kept >= floor - 1e-12 and value == pytest.approx(found.value, abs=1e-12)
    # the rule of the largest mean keeps the floor, too, and that of the largest accuracy does not
    assert reached < floor and accuracy + 0.005 < value
