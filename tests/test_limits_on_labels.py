"""Limits and labels: intervals of proportions, and rules that keep limits on labels or a blend."""

import numpy as np
import pytest
from scipy.stats import binom, binomtest

import confmax
from benchmarks import constraints as benchmark
from confmax.constraints.proportions import interval

# limits that leave a class, or the other rows, out
pytestmark = pytest.mark.filterwarnings("ignore:the rule never decides", "ignore:of the rows")


def labelled(n=400, K=4, seed=0):
    """Return probabilities (n, K), and classes (n,) that are drawn by them."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.linspace(0.3, 1.2, K), n)
    return P, (P.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1)


# --- intervals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 7, 60])
def test_intervals_are_those_of_scipy_and_cover(n):
    ends = [interval(met / n, n) for met in range(n + 1)]
    for met, (low, high) in enumerate(ends):
        exact = binomtest(met, n).proportion_ci(method="exact")
        assert (low, high) == pytest.approx((exact.low, exact.high), abs=1e-12)
    for p in np.linspace(0.01, 0.99, 23):
        inside = [low <= p <= high for low, high in ends]
        assert binom.pmf(np.arange(n + 1), n, p)[inside].sum() >= 0.95


def test_expected_counts_are_rounded_outward():
    low, high = interval(0.55, 10)
    assert low == interval(0.5, 10)[0] and high == interval(0.6, 10)[1]
    # a sum of shares is whole up to rounding
    assert interval(0.1 + 0.2, 10) == interval(0.3, 10)


def test_other_quantities_and_unequal_weights_have_no_interval():
    P, y = labelled()
    given = ["f1[1] >= 0.1", "cohen_kappa >= 0.1", "min_recall >= 0.01", "recall[1] >= 0.1"]
    plain, weighted, equal = (
        confmax.maximize("accuracy", P, y, sample_weight=w, constraints=given, calibration=None, confusion="model")
        for w in (None, np.linspace(1, 2, len(y)), np.full(len(y), 3.0))
    )
    assert [one.label_interval is None for one in plain.constraints] == [True, True, True, False]
    assert all(one.label_interval is None for one in weighted.constraints)
    assert equal.constraints[3].label_interval == plain.constraints[3].label_interval
    without = confmax.maximize("accuracy", P, constraints=given, classes=range(4))
    assert all(one.label_interval is None for one in without.constraints)


# --- rules that keep limits on labels and blends ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "mode", "randomized"),
    [
        ("accuracy", "labels", True),
        ("cohen_kappa", "blend", False),
        ("g_mean", "labels", False),
        ("min_recall", "blend", True),
        ("f1[2]", "labels", True),
    ],
)
def test_limits_are_kept_on_the_estimate_asked_for(metric, mode, randomized):
    P, y = labelled()
    given = ["recall[1] >= 0.6", "rate[3] <= 0.4", "precision[2] >= 0.4"]
    solution = confmax.maximize(metric, P, y, constraints=given, confusion=mode, randomized=randomized)
    assert solution.mode == mode and solution.feasible
    assert (solution.gap is None) == (solution.model_share < 1.0)
    share, table = solution.model_share, solution.calibration
    Q = P if table is None or table.calibrator is None else table.calibrator.transform(P)
    truth = share * Q + (1 - share) * np.eye(4)[y]
    decided = solution.rule.decision_probabilities(P)
    C = truth.T @ decided / len(P)
    assert solution.value == pytest.approx(confmax.metrics.get(metric).value(C), abs=1e-9)
    here = [C[1, 1] / C[1].sum(), decided[:, 3].mean(), C[2, 2] / C[:, 2].sum()]
    assert [one.value for one in solution.constraints] == pytest.approx(here, abs=1e-9)
    assert here[0] >= 0.6 - 1e-9 and here[1] <= 0.4 + 1e-9 and here[2] >= 0.4 - 1e-9
    counted = np.eye(4)[y].T @ decided / len(P)
    assert solution.constraints[0].label_value == pytest.approx(counted[1, 1] / counted[1].sum(), abs=1e-12)


def rules_of_weights(P, steps=33):
    """Return the decisions (N, n) of a fine grid of weights of three classes."""
    logs = np.linspace(-3, 3, steps)
    return [(P * np.exp([0.0, u, v])).argmax(axis=1) for u in logs for v in logs]


@pytest.mark.parametrize("seed", range(1))
def test_single_rules_on_labels_are_no_worse_than_a_grid_of_weights(seed):
    P, y = labelled(150, 3, seed)
    solution = confmax.maximize(
        "accuracy", P, y, constraints=["min_recall >= 0.55"], confusion="labels", calibration=None, randomized=False
    )
    recalls = [[(d[y == k] == k).mean() for k in range(3)] for d in rules_of_weights(P)]
    values = [(d == y).mean() for d, each in zip(rules_of_weights(P), recalls, strict=True) if min(each) >= 0.55]
    assert values and len(solution.rule.weights) == 1 and solution.feasible
    assert solution.value >= max(values)


def test_limits_that_no_rule_met_on_labels_are_not_called_impossible():
    P, y = labelled()
    given = ["recall[1] >= 0.99", "rate[1] <= 0.02"]
    with pytest.raises(confmax.Infeasible, match=r"was met in \d+ passes, and counts of labels prove") as caught:
        confmax.maximize("accuracy", P, y, constraints=given, confusion="labels")
    assert "(proved)" not in str(caught.value) and not caught.value.closest.feasible
    # a blend that is all model is the model
    with pytest.raises(confmax.Infeasible, match=r"\(proved, if the probabilities are right\)") as caught:
        confmax.maximize("accuracy", P, y, constraints=given)
    assert caught.value.closest.model_share == 1.0 and not caught.value.closest.feasible


def test_a_rule_on_labels_is_met_where_the_model_refutes_the_limits():
    P, y = labelled(600, 3)
    # the model is much less certain than it should be
    dull = P**0.3 / (P**0.3).sum(axis=1, keepdims=True)
    given = {"constraints": ["min_recall >= 0.6"], "calibration": None}
    with pytest.raises(confmax.Infeasible, match=r"\(proved\)"):
        confmax.maximize("accuracy", dull, y, confusion="model", **given)
    assert confmax.maximize("accuracy", dull, y, confusion="labels", **given).feasible


def test_a_table_of_costs_and_a_user_function_are_limited_on_labels():
    P, y = labelled(300, 3)
    cost = confmax.constraints.cost([[0, 1, 2], [1, 0, 1], [2, 1, 0]])
    solution = confmax.maximize("accuracy", P, y, constraints=[cost <= 0.5, "rate[0] <= 0.3"], confusion="labels",
                                classes=range(3))  # fmt: skip
    off = np.abs(solution.rule.decision_probabilities(P) @ np.arange(3) - y) if len(solution.rule.weights) == 1 else 0
    assert solution.feasible and np.mean(off) <= 0.5
    metric = confmax.metrics.from_function(lambda C: np.sqrt(np.diag(C) + 0.01).sum(), structure="concave")
    assert confmax.maximize(metric, P, y, constraints="rate[0] <= 0.3", confusion="labels").feasible


def test_few_passes_are_kept_on_labels():
    P, y = labelled()
    for most in (6, 15, 40):
        solution = confmax.maximize("accuracy", P, y, constraints="recall[1] >= 0.6", confusion="labels",
                                    max_passes=most, on_infeasible="closest")  # fmt: skip
        assert solution.n_passes <= most + 2


def test_a_sample_of_the_comparison_of_estimates(tmp_path, monkeypatch):
    P, y = labelled(240, 3)
    np.savez(tmp_path / "one.npz", P_tune=P[:120], y_tune=y[:120], P_test=P[120:], y_test=y[120:])
    monkeypatch.setattr(benchmark, "MODES", ("model", "labels"))
    said = benchmark.limit_estimates(tmp_path)
    assert "kappa, a rate | model | 2 |" in said[-1] and "kappa, a rate | labels | 2 |" in said[-1]
