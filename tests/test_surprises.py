"""Warnings of rules that are best for the metric and of no use: classes never decided, and few rows decided rightly."""

import warnings

import numpy as np
import pytest

import confmax
from tests.column_helpers import drawn

NEVER = (
    r"^the rule never decides 2, which precision\[2\] >= 0.999 names; argmax decides it for \d+\.\d% of the rows. Ask "
    r"for rows of this class by a floor such as recall\[2\] >= 0.1, or loosen the limits$"
)
FEW = (
    r"^of the rows the rule decides \d+\.\d% rightly, and argmax \d\d\.\d%; it is the best found for [^ ]*. Add a "
    r"limit such as accuracy >= 0\.\d+, or change the metric$"
)


def rare(n=600, seed=0):
    """Return probabilities (n, 2) and labels (n,) of a class that an eighth of the rows have."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.5, 3.5, n)
    return np.column_stack([1 - p, p]), (rng.random(n) < p).astype(int)


def of_rare_class(C):
    return C[1, 1] / C[1].sum()


@pytest.mark.parametrize("settings", [{}, {"confusion": "model"}], ids=str)
def test_a_class_that_is_named_and_never_decided(settings):
    P, y = drawn(3)
    with pytest.warns(UserWarning, match=NEVER) as told:
        found = confmax.maximize("accuracy", P, y, constraints="precision[2] >= 0.999", calibration=None, **settings)
    assert found.statistics.columns[2] == 0.0 and len(told) == 1
    # without labels too, from what the model expects
    with pytest.warns(UserWarning, match=NEVER):
        confmax.maximize("accuracy", P, constraints="precision[2] >= 0.999")


def test_who_asks_for_no_decision_is_not_told_of_it():
    P, y = drawn(3)
    confmax.maximize("accuracy", P, y, constraints="rate[2] <= 0")  # warnings are errors
    confmax.maximize("accuracy", P, y, constraints="precision[2] >= 0.5")


def test_fewer_than_half_of_the_rows_of_argmax_are_right():
    P, y = rare()
    metric = confmax.metrics.from_function(of_rare_class)
    with pytest.warns(UserWarning, match=FEW) as told:
        found = confmax.maximize(metric, P, y)
    right = [np.mean(decided == y) for decided in (found.predict(P), P.argmax(axis=1))]
    assert f"the rule decides {right[0]:.1%} rightly, and argmax {right[1]:.1%}" in str(told[0].message)
    assert len(told) == 1
    with pytest.warns(UserWarning, match=FEW):
        confmax.maximize(metric, P)
    # the way out
    kept = confmax.maximize("f1", P, y, constraints=f"accuracy >= {0.9 * right[1]:.2f}")
    assert np.mean(kept.predict(P) == y) > 0.5


def test_costs_and_one_fact_are_not_told_twice():
    P, y = rare()
    costs = confmax.metrics.get("linear", cost=[[0, 1], [1000, 0]])
    assert np.mean(confmax.maximize(costs, P, y).predict(P) == y) < 0.5  # warnings are errors
    with pytest.warns(UserWarning, match="recall of one class alone is largest") as told:
        confmax.maximize("recall", P, y)
    assert len(told) == 1
    with pytest.raises(confmax.Infeasible):
        confmax.maximize("accuracy", P, y, constraints=["precision[1] >= 0.999", "recall[1] >= 0.9"])


def few_and_overrated(n, wrong, seed=0):
    """Return rows of three classes of which the last is expected in nine of ten of a few rows, and wrong in some."""
    rng = np.random.default_rng(seed)
    P = np.c_[rng.dirichlet([3.0, 3.0], 600) * 0.98, np.full(600, 0.02)]
    y = np.where(rng.random(600) < P[:, 0] / 0.98, 0, 1)
    P[:n], y[:n] = [0.05, 0.05, 0.9], 2
    y[:wrong] = 0
    y[n : n + 12] = 2
    return P, y


def test_labels_that_do_not_support_a_floor_on_a_precision():
    """The probabilities keep it; the labels of the rows that it decides say otherwise, or hardly anything."""
    asked = {"constraints": "precision[2] >= 0.8", "confusion": "model", "calibration": None}
    P, y = few_and_overrated(12, 9)
    with pytest.warns(UserWarning, match=r"labels refute precision\[2\] >= 0.8 .*precision\[2\] is 3 of 12 rows"):
        confmax.maximize("macro_f1", P, y, **asked)
    P, y = few_and_overrated(3, 2)
    with pytest.warns(UserWarning, match=r"^precision\[2\] >= 0.8: 1 of 3 tuning rows are right; 11 rows or more"):
        confmax.maximize("macro_f1", P, y, **asked)
    # the labels agree, or the caller has asked for them
    P, y = few_and_overrated(12, 1)
    confmax.maximize("macro_f1", P, y, **asked)


def test_accuracy_that_a_limit_ruins():
    rng = np.random.default_rng(0)
    P = np.c_[rng.dirichlet([4.0, 1.0], 800) * 0.95, np.full(800, 0.05)]
    y = np.where(rng.random(800) < 0.05, 2, P.argmax(axis=1))
    with pytest.warns(UserWarning, match=r"and argmax \d\d.\d%; it is the best found for accuracy within the limits."):
        confmax.maximize("accuracy", P, y, constraints="recall[2] >= 0.9")


def test_a_rule_that_draws_though_nobody_asked_for_it_is_named():
    """No export can write it, and the user should know that at once."""
    P, y = np.array([[0.5, 0.5]] * 8), [0, 1] * 4
    limits = ["rate[1] <= 0.5", "rate[0] <= 0.5"]
    with pytest.warns(UserWarning, match="draws between .* no export .*randomized=False"):
        solution = confmax.maximize("accuracy", P, y, constraints=limits, confusion="model", calibration=None)
    for write in (solution.rule.to_sql, solution.rule.to_python, solution.rule.to_onnx):
        with pytest.raises(ValueError, match="randomised rule draws"):
            write()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        confmax.maximize("accuracy", P, y, constraints=limits, confusion="model", calibration=None, randomized=True)
