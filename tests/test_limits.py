"""`maximize` under constraints: against linear programs over all rows, with what it says where none is possible."""

import pickle
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import confmax
from benchmarks.constraints import tiny, verdict
from confmax import constraints as c
from confmax.confusion import Confusion
from confmax.oracle import make_table
from tests.helpers import population

# limits that leave a class, or the other rows, out
pytestmark = pytest.mark.filterwarnings("ignore:the rule never decides", "ignore:of the rows")

MODEL = {"confusion": "model", "calibration": None}


def table(n=400, K=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.linspace(0.3, 1.2, K), n)


@pytest.mark.parametrize("first", range(0, 40, 8))
def test_tiny_populations_against_programs_over_their_rows(first):
    ends = {verdict(seed)[0] for seed in range(first, first + 8)}
    assert ends <= {"right", "right, on the edge", "infeasible, proved", "on the edge", "contradictory"}
    assert "right" in ends


@pytest.mark.parametrize("seed", [870, 1417, 2760, 3165])
def test_populations_whose_limits_leave_no_room_or_have_no_price(seed):
    """Limits that only an edge of all rules keeps, and multipliers that fall toward zero."""
    assert verdict(seed)[0] in ("right", "right, on the edge")


def test_some_of_the_populations_are_infeasible():
    assert "infeasible, proved" in {verdict(seed)[0] for seed in range(8)}


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


@pytest.mark.parametrize("metric", ["accuracy", "g_mean", "min_recall", "cohen_kappa"])
def test_the_order_of_constraints_and_a_slack_one_change_nothing(metric):
    P, given = table(), ["recall[1] >= 0.7", "rate[3] <= 0.35", "precision[2] >= 0.5"]
    values = [
        confmax.maximize(metric, P, constraints=some, randomized=True, **MODEL).value
        for some in (given, given[::-1], [*given, "rate[0] <= 1", "accuracy >= 0.01"])
    ]
    assert np.ptp(values) <= 2e-6


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


def test_single_rules_keep_every_limit_exactly():
    for seed in range(3):
        P = table(2000, 3, seed)
        solution = confmax.maximize("accuracy", P, constraints=["recall[0] >= 0.8", "rate[2] <= 0.4"], **MODEL)
        assert len(solution.rule.weights) == 1 and solution.feasible
        assert min(one.slack for one in solution.constraints) >= 0.0
        assert solution.gap <= 1e-3 and solution.gap == pytest.approx(solution.randomization_loss, abs=1e-6)


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


def test_metrics_and_settings_that_take_no_constraints_are_refused_by_name():
    P = table()
    for metric in ("mcc", lambda C: np.trace(C)):
        with pytest.raises(ValueError, match="cannot be maximised under constraints"):
            confmax.maximize(metric, P, constraints="recall[0] >= 0.5")
    for metric in ("ams", "fowlkes_mallows", "mcc"):
        with pytest.raises(ValueError, match=f"{metric} cannot be maximised under constraints"):
            confmax.maximize(metric, table(60, 2), classes=[0, 1], constraints="recall[0] >= 0.5")
    with pytest.raises(ValueError, match="Dinkelbach does not take constraints"):
        confmax.maximize("cohen_kappa", P, constraints="recall[0] >= 0.5", solver="dinkelbach")
    with pytest.raises(ValueError, match="needs y, the true classes"):
        confmax.maximize("accuracy", P, constraints="recall[0] >= 0.5", confusion="labels")
    with pytest.raises(ValueError, match="on_infeasible is 'raise' or 'closest'"):
        confmax.maximize("accuracy", P, constraints="recall[0] >= 0.5", on_infeasible="warn")
    with pytest.raises(ValueError, match="names a class that the table does not have"):
        confmax.maximize("accuracy", P, constraints="recall[9] >= 0.5")


def test_labels_show_their_own_values():
    P = table(300, 3)
    y = np.array([np.random.default_rng(k).choice(3, p=row) for k, row in enumerate(P)])
    solution = confmax.maximize("accuracy", P, y, constraints="recall[1] >= 0.7", confusion="model")
    decided = solution.predict(P)
    assert solution.constraints[0].label_value == pytest.approx((decided[y == 1] == 1).mean())
    assert solution.mode == "model" and "recall[1] >= 0.7" in repr(solution)


def test_a_user_function_that_is_concave_is_maximised_within_limits():
    P = population(0, 60, 3)[0]
    metric = confmax.metrics.from_function(lambda C: np.sqrt(np.diag(C) + 0.01).sum(), structure="concave")
    solution = confmax.maximize(metric, P, constraints="rate[0] <= 0.3", randomized=True, **MODEL)
    assert solution.feasible and solution.gap <= 1e-5


def test_constraints_are_placed_on_the_classes_by_name():
    P, names = table(), ["d", "c", "b", "a"]
    first = confmax.maximize("accuracy", P, classes=names, constraints="recall[c] >= 0.8", randomized=True, **MODEL)
    other = confmax.maximize(
        "accuracy", P[:, ::-1], classes=names[::-1], constraints="recall[c] >= 0.8", randomized=True, **MODEL
    )
    assert first.value == pytest.approx(other.value, abs=2e-6)
    assert make_table(P, classes=names).n_classes == 4 and tiny(0)[0].shape[1] >= 2


@pytest.mark.parametrize("metric", ["g_mean", "h_mean"])
def test_a_mean_that_is_zero_at_the_first_rules_is_raised(metric):
    """A floor on a precision is first kept by never deciding the class, which leaves its recall at zero."""
    P = table(3000, 4)
    given = ["recall[1] >= 0.6", "rate[3] <= 0.4", "precision[0] >= 0.7"]
    solution = confmax.maximize(metric, P, constraints=given, randomized=True, **MODEL)
    assert solution.value > 0.2 and solution.gap <= 1e-6 and not solution.constraints[2].vacuous


def tables(P, tmp_path):
    """Yield the same table of every kind."""
    yield P.astype(np.float32)
    yield pytest.importorskip("scipy.sparse").csr_array(P)
    yield pytest.importorskip("torch").tensor(P)
    yield pytest.importorskip("dask.array").from_array(P, chunks=(120, 4))
    frame = pytest.importorskip("pandas").DataFrame(P, columns=list("0123"))
    yield frame
    frame.to_parquet(tmp_path / "table.parquet", row_group_size=100)
    yield confmax.open_table(tmp_path / "table.parquet")


def test_every_kind_of_table_takes_constraints(tmp_path):
    P, given = table(), ["recall[1] >= 0.7", "rate[3] <= 0.35"]
    plain = confmax.maximize("cohen_kappa", P, constraints=given, randomized=True, **MODEL)
    for kind in tables(P, tmp_path):
        solution = confmax.maximize("cohen_kappa", kind, constraints=given, randomized=True, **MODEL)
        assert solution.value == pytest.approx(plain.value, abs=2e-6) and solution.feasible
        assert solution.gap <= 1e-6


def test_weights_count_as_repeated_rows():
    P, weight = table(), np.arange(400) % 3 + 1
    given = ["recall[1] >= 0.7", "accuracy >= 0.4"]
    weighted = confmax.maximize("g_mean", P, sample_weight=weight, constraints=given, randomized=True, **MODEL)
    repeated = confmax.maximize("g_mean", np.repeat(P, weight, axis=0), constraints=given, randomized=True, **MODEL)
    assert weighted.value == pytest.approx(repeated.value, abs=2e-6)


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


@pytest.mark.parametrize("seed", range(5))
def test_many_limits_are_read_as_each_of_them(seed):
    """Limits that are read at once have the values and slacks of their metrics, one by one."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(4), 50)
    one_class = ("recall", "precision", "specificity", "fpr", "rate", "f1", "jaccard")
    texts = [f"{name}[{k}] >= 0.2" for name in one_class for k in range(4)]
    texts += [f"{name} <= 0.4" for name in ("accuracy", "balanced_accuracy", "cohen_kappa", "rate[2]", "fpr[1]")]
    texts += ["min_recall >= 0.2", "g_mean >= 0.1"]
    limits = c.bind(texts, make_table(P), explicit=True)
    matrices = rng.dirichlet(np.ones(16), 6).reshape(6, 4, 4) * 4
    # a class that is never decided: its precision is 0/0
    matrices[0, :, 0] = 0.0
    matrices *= P.mean(axis=0)[:, None] / matrices.sum(axis=2, keepdims=True)
    S = replace(Confusion.from_matrix(matrices), rows=P.mean(axis=0))
    values, slacks, vacuous = limits.values(S), limits.slacks(S), limits.vacuous(S)
    for k, one in enumerate(limits.constraints):
        expected = one.metric.values(S)
        np.testing.assert_allclose(values[:, k], expected, rtol=1e-13, atol=1e-15, err_msg=str(one))
        sign = 1.0 if one.is_floor else -1.0
        kept = np.where(vacuous[:, k], 0.0, sign * (expected - one.limit))
        np.testing.assert_allclose(slacks[:, k], kept, rtol=1e-12, atol=1e-14, err_msg=str(one))
        np.testing.assert_allclose(limits.slacks(S[2])[k], slacks[2, k], rtol=1e-13, atol=1e-15)
    assert vacuous[0, texts.index("precision[0] >= 0.2")] and vacuous[:, :].sum() < vacuous.size / 4


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
    assert (solution.rule.predict_index(P) != k).all() and solution.constraints[0].price is None


def test_few_rows_within_tight_limits_end_without_warnings_of_numpy():
    """Warnings are errors here: all of these met a division by zero."""
    P = np.array([[2.0, 1.0], [1.0, 2.0]]) / 3.0
    for metric in ("precision[0]", "f1[1]", "macro_precision", "accuracy"):
        for limits in ("rate[0] <= 0", "fpr[0] <= 0.1", "precision[1] >= 0.6", "specificity[0] >= 1"):
            for n in (1, 2):
                confmax.maximize(metric, np.repeat(P, n, axis=0), constraints=limits)
