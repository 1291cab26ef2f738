"""`maximize` under constraints: against linear programs over all rows, with what it says where none is possible."""

import pickle
from itertools import pairwise

import numpy as np
import pytest

import confmax
from benchmarks.constraints import verdict
from confmax import constraints as c
from tests.helpers import population

# limits that leave a class, or the other rows, out
pytestmark = pytest.mark.filterwarnings("ignore:the rule never decides", "ignore:of the rows")

MODEL = {"confusion": "model", "calibration": None}


def table(n=400, K=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.linspace(0.3, 1.2, K), n)


@pytest.mark.parametrize("first", [0, 8])
def test_tiny_populations_against_programs_over_their_rows(first):
    ends = {verdict(seed)[0] for seed in range(first, first + 8)}
    assert ends <= {"right", "right, on the edge", "infeasible, proved", "on the edge", "infeasible, refused"}
    assert "right" in ends and (first or "infeasible, proved" in ends)


@pytest.mark.parametrize("seed", [870, 1417, 2760, 3165])
def test_populations_whose_limits_leave_no_room_or_have_no_price(seed):
    """Limits that only an edge of all rules keeps, and multipliers that fall toward zero."""
    assert verdict(seed)[0] in ("right", "right, on the edge")


@pytest.mark.parametrize("metric", ["accuracy", "cohen_kappa", "g_mean", "h_mean", "q_mean", "min_recall", "f1[2]"])
def test_value_bound_and_outcomes_belong_to_the_rule(metric):
    """What is said is what the returned rule does, and a mixture loses at most tol."""
    P, given = table(), ["recall[1] >= 0.7", c.rate(3) <= 0.35]
    solution = confmax.maximize(metric, P, constraints=given, randomized=True, **MODEL)
    decided = solution.rule.decision_probabilities(P)
    C = P.T @ decided / len(P)
    assert solution.value == pytest.approx(confmax.metrics.get(metric).value(C), abs=1e-12)
    recall, rate = C[1, 1] / P.mean(axis=0)[1], decided[:, 3].mean()
    assert [one.value for one in solution.constraints] == pytest.approx([recall, rate], abs=1e-12)
    assert recall >= 0.7 - 1e-12 and rate <= 0.35 + 1e-12
    assert -1e-12 <= solution.gap <= 1e-6 and solution.feasible and solution.infeasibility is None


@pytest.mark.parametrize("metric", ["accuracy", "cohen_kappa", "g_mean", "min_recall"])
def test_tightening_never_raises_the_value_and_prices_are_its_slopes(metric):
    P, step = table(), 1e-3
    levels = [0.8 - step, 0.8, 0.8 + step, 0.9]
    runs = [
        confmax.maximize(metric, P, constraints=[c.recall(1) >= level], randomized=True, tol=1e-10, **MODEL)
        for level in levels
    ]
    values = [run.value for run in runs]
    assert all(later <= sooner + 1e-9 for sooner, later in pairwise(values))
    price = runs[1].constraints[0].price
    assert price > 0 and runs[1].constraints[0].binding
    # the best value is concave in the limit for all but ratios, which bend little over such a step
    assert (values[1] - values[2]) / step >= price - 1e-3 * (1 + price)
    assert (values[0] - values[1]) / step <= price + 1e-3 * (1 + price)


@pytest.mark.parametrize(("metric", "seed"), [("accuracy", 0), ("macro_f1", 1)])
def test_single_rules_keep_every_limit_exactly(metric, seed):
    given = {"constraints": ["recall[0] >= 0.8", "rate[2] <= 0.4"], "randomized": False}
    solution = confmax.maximize(metric, table(2000, 3, seed), **given, **MODEL)
    assert len(solution.rule.weights) == 1 and solution.feasible
    assert min(one.slack for one in solution.constraints) >= 0.0
    assert solution.randomization_loss <= 2e-3
    assert metric == "macro_f1" or solution.gap == pytest.approx(solution.randomization_loss, abs=1e-6)


def test_limits_that_cannot_be_met():
    P = table()
    given = ["recall[1] >= 0.95", "rate[1] <= 0.05"]
    with pytest.raises(confmax.Infeasible, match=r"recall\[1\] reaches at most 0\.\d+ under the other limit") as caught:
        confmax.maximize("accuracy", P, constraints=given, **MODEL)
    closest = confmax.maximize("accuracy", P, constraints=given, on_infeasible="closest", **MODEL)
    assert isinstance(caught.value, ValueError) and not caught.value.closest.feasible
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert closest.value == caught.value.closest.value and closest.upper_bound is None and closest.gap is None
    assert closest.guarantee == closest.infeasibility
    # both are missed by as much, and no rule misses them by less
    missed = [-one.slack for one in closest.constraints]
    assert missed[0] == pytest.approx(missed[1], abs=1e-5) and missed[0] > 0.1


def test_one_limit_out_of_reach_names_what_is_reached():
    P = np.array([[0.6, 0.4], [0.7, 0.3]])
    with pytest.raises(confmax.Infeasible, match=r"precision\[1\] reaches at most 0.4 \(proved\)|cohen_kappa reaches"):
        confmax.maximize("accuracy", P, constraints="cohen_kappa >= 0.9", classes=[0, 1], **MODEL)


@pytest.mark.parametrize("limit", ["recall[1] >= 1", "specificity[0] >= 1", "rate[2] <= 0", "fpr[1] <= 0"])
def test_limits_at_the_end_of_their_range(limit):
    P = table()
    solution = confmax.maximize("accuracy", P, constraints=limit, randomized=True, **MODEL)
    assert solution.feasible and solution.gap <= 1e-6


@pytest.mark.parametrize(
    ("metric", "K", "settings", "sentence"),
    [
        ("mcc", 4, {}, "mcc cannot be maximised under constraints"),
        (lambda C: np.trace(C), 4, {}, "cannot be maximised under constraints"),
        ("ams", 2, {}, "ams cannot be maximised under constraints"),
        ("fowlkes_mallows", 2, {}, "fowlkes_mallows cannot be maximised under constraints"),
        ("cohen_kappa", 4, {"solver": "dinkelbach"}, "Dinkelbach does not take constraints"),
        ("accuracy", 4, {"confusion": "labels"}, "needs y, the true classes"),
        ("accuracy", 4, {"on_infeasible": "warn"}, "on_infeasible is 'raise' or 'closest'"),
        ("accuracy", 4, {"constraints": "recall[9] >= 0.5"}, "names a class that the table does not have"),
    ],
)
def test_what_takes_no_constraints_is_refused_by_name(metric, K, settings, sentence):
    given = {"constraints": "recall[0] >= 0.5", "classes": range(K)} | settings
    with pytest.raises(ValueError, match=sentence):
        confmax.maximize(metric, table(60, K), **given)


def test_a_user_function_that_is_concave_is_maximised_within_limits():
    P = population(0, 60, 3)[0]
    metric = confmax.metrics.from_function(lambda C: np.sqrt(np.diag(C) + 0.01).sum(), structure="concave")
    solution = confmax.maximize(metric, P, constraints="rate[0] <= 0.3", randomized=True, **MODEL)
    assert solution.feasible and solution.gap <= 1e-5


@pytest.mark.parametrize("metric", ["g_mean", "h_mean"])
def test_a_mean_that_is_zero_at_the_first_rules_is_raised(metric):
    """A floor on a precision is first kept by never deciding the class, which leaves its recall at zero."""
    P = table(3000, 4)
    given = ["recall[1] >= 0.6", "rate[3] <= 0.4", "precision[0] >= 0.7"]
    solution = confmax.maximize(metric, P, constraints=given, randomized=True, **MODEL)
    assert solution.value > 0.2 and solution.gap <= 1e-6 and not solution.constraints[2].vacuous


def test_limits_on_the_whole_matrix():
    P = table()
    cost = np.array([[0, 1, 2, 3], [1, 0, 1, 2], [4, 1, 0, 1], [9, 4, 1, 0.0]])
    free = confmax.maximize("accuracy", P, **MODEL)
    paid = float((P.T @ free.rule.decision_probabilities(P) / len(P) * cost).sum())
    given = [c.cost(cost) <= 0.9 * paid, "quadratic_kappa >= 0.1"]
    classes = [0, 1, 2, 3]
    solution = confmax.maximize("accuracy", P, classes=classes, constraints=given, randomized=True, **MODEL)
    C = P.T @ solution.rule.decision_probabilities(P) / len(P)
    assert float((C * cost).sum()) <= 0.9 * paid + 1e-12 and solution.gap <= 1e-6
    assert solution.constraints[0].binding and solution.constraints[0].value == pytest.approx((C * cost).sum())


def test_plain_rules_that_miss_a_limit_are_marked():
    """Their values do not compare with that of a rule that keeps it."""
    P = table()
    solution = confmax.maximize("accuracy", P, constraints="recall[0] >= 0.9", **MODEL)
    assert "argmax" in solution.missed_by and solution.baselines["argmax"] > solution.value
    assert "(misses a constraint)" in repr(solution) and "(misses a constraint)" in solution._repr_html_()
    assert "recall[0] &gt;= 0.9" in solution._repr_html_()
    assert confmax.maximize("accuracy", P, constraints="recall[0] >= 0", **MODEL).missed_by == ()


FEW = [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]]


@pytest.mark.parametrize(
    ("metric", "P", "y", "limits", "more"),
    [
        ("precision[1]", FEW, [0, 0, 0, 1], "fpr[1] <= 0", {}),
        ("precision[1]", FEW, [0, 0, 0, 1], "specificity[1] >= 1", {}),
        ("precision[1]", FEW, [0, 0, 0, 1], "fpr[1] <= 0", {"confusion": "labels"}),
        ("precision[0]", np.eye(3), None, "rate[0] <= 0", {}),
        ("precision[0]", np.eye(3), None, ["rate[0] <= 0", "coverage >= 0.5"], {"abstain": "?"}),
    ],
)
def test_a_class_that_no_rule_within_the_limits_decides(metric, P, y, limits, more):
    """A ratio without a denominator is zero, as a precision is where nothing is decided."""
    solution = confmax.maximize(metric, P, y, constraints=limits, **more)
    k = int(metric[-2])
    assert solution.value == 0.0 and solution.feasible
    assert (solution.rule.predict_index(P) != k).all() and solution.constraints[0].price in (None, 0.0)


def test_few_rows_within_tight_limits_end_without_warnings_of_numpy():
    """Warnings are errors here: all of these met a division by zero."""
    P = np.array([[2.0, 1.0], [1.0, 2.0]]) / 3.0
    for metric in ("precision[0]", "f1[1]", "macro_precision", "accuracy"):
        for limits in ("rate[0] <= 0", "fpr[0] <= 0.1", "precision[1] >= 0.6", "specificity[0] >= 1"):
            for n in (1, 2):
                confmax.maximize(metric, np.repeat(P, n, axis=0), constraints=limits)


@pytest.mark.parametrize("metric", ["accuracy", "g_mean", "min_recall", "cohen_kappa", "macro_f1"])
def test_the_order_of_constraints_and_a_slack_one_change_nothing(metric):
    P, given = table(), ["recall[1] >= 0.7", "rate[3] <= 0.35", "precision[2] >= 0.5"]
    values = [
        confmax.maximize(metric, P, constraints=some, randomized=True, **MODEL).value
        for some in (given, given[::-1], [*given, "rate[0] <= 1", "accuracy >= 0.01"])
    ]
    assert np.ptp(values) <= (1e-5 if metric == "macro_f1" else 2e-6)
