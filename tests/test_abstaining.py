"""Rules that may abstain: metrics of what is decided, coverage, and the best rules within limits."""

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import eye_array, kron

import confmax
from confmax import constraints as c
from confmax.confusion import Confusion, Gains
from confmax.metrics import catalogue
from confmax.metrics.decided import of_decided
from tests.helpers import population

NAMES = (
    "accuracy balanced_accuracy macro_f1 macro_precision macro_jaccard weighted_f1 cohen_kappa quadratic_kappa g_mean "
    "min_recall mcc micro_f1 recall[1] precision[1] f1[1] f_beta[1] jaccard[2] specificity[0]"
).split()


def random_matrix(rng, K):
    return rng.dirichlet(np.ones(K * (K + 1))).reshape(K, K + 1)


@pytest.mark.parametrize("name", NAMES)
def test_a_metric_of_what_is_decided(name):
    """Its value is that of the metric of the other columns, its gradient that of differences."""
    K, rng = 3, np.random.default_rng(len(name))
    metric = catalogue.quantity(name).numbered(K)
    decided = of_decided(metric, K)
    for _ in range(1):
        C = random_matrix(rng, K)
        assert decided.value(C) == pytest.approx(metric.value(C[:, :K] / C[:, :K].sum()), abs=1e-12)
        by_step = np.zeros_like(C)
        for place in np.ndindex(*C.shape):
            step = np.zeros_like(C)
            step[place] = 1e-6
            high, low = (float(decided.values(Confusion.from_matrix(C + sign * step))) for sign in (1, -1))
            by_step[place] = (high - low) / 2e-6
        G = decided.gradient(C)
        np.testing.assert_allclose(G - G[:, -1:], by_step - by_step[:, -1:], atol=1e-6)
        ratios = decided.as_ratios(C.sum(axis=1), K + 1)
        if ratios is not None:
            assert ratios.weights @ ratios.values(Confusion.from_matrix(C)) == pytest.approx(decided.value(C))
    nothing = np.zeros((K, K + 1))
    nothing[:, K] = 1 / K
    assert decided.value(nothing) == 0.0


def test_coverage_is_the_share_of_rows_that_are_decided():
    C = np.array([[4, 1, 3], [0, 2, 6]])
    assert of_decided(c.coverage().metric, 2).value(C) == 7 / 16
    assert of_decided(c.coverage(1).metric.numbered(2), 2).value(C) == pytest.approx(2 / 8)
    assert c.coverage().metric.value([[4, 1], [1, 4]]) == 1.0


# --- the best rules ---------------------------------------------------------------------------------------------------


def program(top, bottom, rows):
    """Return the largest ``top / bottom`` (n, M) over all rules that keep ``rows``, by a program over all rows."""
    n, M = top.shape
    # Charnes and Cooper: h / bottom
    A = [np.append(-row.ravel(), 0.0) for row in rows]
    equal = np.vstack([np.append(bottom.ravel(), 0.0), np.hstack([kron(eye_array(n), np.ones((1, M))).toarray(),
                                                                  -np.ones((n, 1))])])  # fmt: skip
    found = linprog(np.append(-top.ravel(), 0.0), np.array(A), np.zeros(len(A)), equal,
                    np.append(1.0, np.zeros(n)), (0, None))  # fmt: skip
    return None if found.status == 2 else -found.fun


def rows_of(P, K):
    """Return what decisions of every row add: hits (n, K + 1) by class, and the weight of what is decided."""
    decided = np.append(np.ones(K), 0.0) / len(P)
    hits = np.hstack([P / len(P), np.zeros((len(P), 1))])
    return hits, np.repeat(decided[None], len(P), axis=0)


@pytest.mark.parametrize("seed", range(4))
def test_tiny_tables_against_a_program_over_their_rows(seed):
    rng = np.random.default_rng(seed)
    K, n = int(rng.integers(2, 5)), int(rng.integers(5, 20))
    P = population(seed, n, K)[0]
    hits, decided = rows_of(P, K)
    of_class = [P[:, [k]] * n * decided / P[:, k].sum() for k in range(K)]
    least, floor = rng.uniform(0.3, 0.9), rng.uniform(0.1, 0.4)
    ones = np.full_like(decided, 1.0 / n)
    recall = np.zeros_like(hits)
    recall[:, 0] = P[:, 0] / n
    cases = [
        ("accuracy", [f"coverage >= {least}"], hits, decided, [decided - least * ones]),
        ("accuracy", [f"coverage >= {least}", f"coverage[0] >= {floor}"], hits, decided,
         [decided - least * ones, of_class[0] - floor * ones]),
        ("coverage", [f"accuracy >= {least}"], decided, ones, [hits - least * decided]),
        ("accuracy", [f"coverage >= {least}", f"recall[0] >= {floor}"], hits, decided,
         [decided - least * ones, recall - floor * P[:, [0]] * decided]),
    ]  # fmt: skip
    for metric, limits, top, bottom, rows in cases:
        expected = program(top, bottom, rows)
        if expected is None or (metric == "coverage" and expected < 1e-9):
            continue
        found = confmax.maximize(metric, P, constraints=limits, abstain=True, randomized=True)
        assert found.value == pytest.approx(expected, abs=1e-6)
        assert found.upper_bound >= expected - 1e-9
        assert all(one.slack >= 0 for one in found.constraints)
        single = confmax.maximize(metric, P, constraints=limits, abstain=True, randomized=False)
        if not single.rule.is_randomized:
            assert single.value <= expected + 1e-9
            assert all(one.slack >= 0 for one in single.constraints)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_plain_accuracy_is_chows_rule(dtype):
    """Where classes need no thresholds of their own, the best rule decides the rows with the largest p."""
    P = np.random.default_rng(0).dirichlet(np.ones(4), 500).astype(dtype)
    for coverage in (0.3, 0.8):
        most = np.sort(P.max(axis=1) / P.sum(axis=1, dtype=np.float64))[::-1][: int(coverage * 500)]
        found = confmax.maximize("accuracy", P, abstain=True, constraints=f"coverage >= {coverage}", randomized=True)
        assert found.value == pytest.approx(most.mean(), abs=1e-6)


def test_what_a_rule_says_of_abstaining():
    P, y = [[0.9, 0.1], [0.2, 0.8], [0.55, 0.45], [0.5, 0.5]] * 5, ["no", "yes", "no", "yes"] * 5
    found = confmax.maximize("accuracy", P, y, abstain=True, constraints="coverage >= 0.5", confusion="model")
    assert found.rule.abstain == "abstain"
    assert found.rule.classes.tolist() == ["no", "yes", "abstain"]
    assert found.predict(P[:4]).tolist() == ["no", "yes", "abstain", "abstain"]
    assert found.predict(P[:4]).dtype.kind == "U"
    np.testing.assert_array_equal(found.rule.decision_probabilities(P[:4])[:, 2], [0, 0, 1, 1])
    assert found.confusion.shape == (2, 3)
    assert found.label_value == 1.0 and found.constraints[0].label_value == 0.5
    numbers = confmax.maximize("accuracy", P, abstain=True, constraints="coverage >= 0.5")
    assert numbers.predict(P[:4]).tolist() == [0, 1, -1, -1] and numbers.predict(P).dtype == np.int64
    named = confmax.maximize("accuracy", P, y, abstain="ask", constraints="coverage >= 0.5", confusion="model")
    assert named.predict(P[2:3]).tolist() == ["ask"]


def test_to_decide_all_rows_is_not_to_abstain():
    P = np.random.default_rng(1).dirichlet(np.ones(3), 300)
    for metric in ("accuracy", "f1[1]", "balanced_accuracy"):
        without = confmax.maximize(metric, P, constraints="recall[0] >= 0.5", randomized=True)
        everything = ["coverage >= 1", "recall[0] >= 0.5"]
        found = confmax.maximize(metric, P, constraints=everything, abstain=True, randomized=True)
        assert found.value == pytest.approx(without.value, abs=1e-6)
        assert (found.predict(P) >= 0).all()


@pytest.mark.parametrize("metric", ["macro_f1", "balanced_accuracy", "f1[1]", "cohen_kappa", "g_mean", "mcc"])
def test_more_abstaining_is_never_worse(metric):
    """Fewer rows to decide leave more rules; and no rule that decides all rows is better."""
    P = np.random.default_rng(2).dirichlet(np.full(3, 0.5), 100)
    values = [confmax.maximize(metric, P).value]
    for coverage in (0.9, 0.6):
        found = confmax.maximize(metric, P, abstain=True, constraints=f"coverage >= {coverage}", randomized=True)
        values.append(found.value)
        assert found.constraints[0].slack >= 0
    assert (np.diff(values) > -1e-6).all()


def test_the_smallest_recall_of_what_is_decided():
    """It is climbed by a soft minimum: all recalls come near each other."""
    P = np.random.default_rng(2).dirichlet(np.full(3, 0.5), 400)
    free = confmax.maximize("min_recall", P, randomized=True).value
    found = confmax.maximize("min_recall", P, abstain=True, constraints="coverage >= 0.8", randomized=True)
    recalls = np.diag(found.confusion) / found.confusion[:, :3].sum(axis=1)
    assert found.value == pytest.approx(recalls.min()) and found.value > free + 0.03
    assert np.ptp(recalls) < 0.02


def test_costs_of_abstaining():
    """The rule of Chow: to abstain where every class costs more than abstaining."""
    P = np.random.default_rng(3).dirichlet(np.ones(3), 200)
    cost = np.hstack([1.0 - np.eye(3), np.full((3, 1), 0.4)])
    found = confmax.maximize(confmax.metrics.get("linear", cost=cost), P, abstain=True)
    expected = np.where(P.max(axis=1) > 0.6, P.argmax(axis=1), -1)
    np.testing.assert_array_equal(found.predict(P), expected)
    covered = confmax.maximize(
        confmax.metrics.get("linear", cost=cost), P, abstain=True, constraints="coverage >= 0.9", randomized=True
    )
    assert covered.constraints[0].value == pytest.approx(0.9, abs=1e-6) and covered.value < found.value


def test_the_other_classes_are_told_apart():
    """A metric of one class leaves the others open: the most probable of them is decided."""
    P = np.random.default_rng(4).dirichlet(np.ones(4), 300)
    found = confmax.maximize("f1[0]", P, abstain=True, constraints="coverage >= 0.8", randomized=False)
    decided = found.predict(P)
    others = np.isin(decided, (1, 2, 3))
    np.testing.assert_array_equal(decided[others], 1 + P[others, 1:].argmax(axis=1))


def test_confidence_tests_the_coverage_and_what_is_decided():
    rng = np.random.default_rng(5)
    P = rng.dirichlet(np.full(3, 0.5), 2000)
    y = (P.cumsum(axis=1) < rng.random((2000, 1))).sum(axis=1)
    found = confmax.maximize(
        "coverage", P, y, abstain=True, constraints=["accuracy >= 0.7", "coverage >= 0.1"], confidence=0.9
    )
    accuracy, coverage = found.constraints
    assert accuracy.assured and coverage.assured
    # of the rows that are decided, and of all
    assert accuracy.label_rows < coverage.label_rows
    assert accuracy.label_rows == round(coverage.label_value * coverage.label_rows)
    assert accuracy.label_interval[0] < accuracy.label_value < accuracy.label_interval[1]


@pytest.mark.parametrize(
    ("metric", "settings", "sentence"),
    [
        ("accuracy", {"abstain": True}, "largest if next to nothing is decided; set a floor"),
        ("accuracy", {"abstain": True, "constraints": "coverage <= 0.5"}, "set a floor"),
        ("accuracy", {"constraints": "coverage >= 0.5"}, "pass abstain=True"),
        ("accuracy", {"abstain": True, "constraints": "coverage >= 1.5"}, "lies between 0 and 1"),
        ("accuracy", {"abstain": "no", "constraints": "coverage >= 0.5"}, "a class is called 'no'"),
        ("accuracy", {"abstain": "", "constraints": "coverage >= 0.5"}, "a name for the decision"),
        ("accuracy", {"abstain": [1], "constraints": "coverage >= 0.5"}, "a name for the decision"),
        ("coverage", {"abstain": True}, "limit what is decided"),
        ("coverage", {}, "pass abstain=True, or maximise another metric"),
        (
            confmax.metrics.get("linear", cost=1 - np.eye(2)), {"abstain": True, "classes": ["no", "yes"]},
            "one more column",
        ),
        ("accuracy", {"abstain": True, "constraints": ["coverage >= 0.5", "cohen_kappa >= 0.1"]},
         "neither linear nor a ratio"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused(metric, settings, sentence):
    P, y = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]] * 5, ["no", "yes", "no"] * 5
    with pytest.raises(ValueError, match=sentence):
        confmax.maximize(metric, P, y, **settings)


def test_a_rule_names_abstaining_last():
    gains = Gains.reduced([[1.0, 1.0]], [[0.0, 0.0, 0.7]])
    rule = confmax.DecisionRule(gains, np.ones(1), ("no", "yes", "ask"), abstain="ask")
    assert rule.predict([[0.6, 0.4], [0.1, 0.9]]).tolist() == ["ask", "yes"]
    assert rule.reordered(["yes", "no", "ask"]).abstain == "ask"
    with pytest.raises(ValueError, match="abstain is the last name"):
        confmax.DecisionRule(gains, np.ones(1), ("no", "yes", "ask"), abstain="yes")


@pytest.mark.parametrize("grouped", [False, True])
def test_a_rate_is_maximised_by_rules_that_may_abstain(grouped):
    P = np.random.default_rng(0).dirichlet(np.ones(3), 60)
    more = {"group": np.arange(60) % 2} if grouped else {}
    limits = ["coverage >= 0.5"] + ["difference(rate[2] | group) <= 0.1"] * grouped
    found = confmax.maximize(
        "rate[2]", P, constraints=limits, abstain=True, confusion="model", calibration=None, **more
    )
    assert found.value == pytest.approx(1.0) and (found.rule.predict(P, **more) == 2).all()


def test_class_sizes_that_do_not_quite_sum_to_one_keep_the_ratio_of_what_is_decided():
    # as those of a table in float32
    rows = np.array([0.5, 0.3, 0.2]) * (1.0 + 3e-8)
    metric = of_decided(confmax.metrics.get("accuracy"), 3)
    assert metric.as_ratios(rows, 4) is not None


@pytest.mark.parametrize("confusion", ["model", "labels", "blend"])
def test_ams_is_finite_where_no_background_is_accepted(confusion):
    """As without abstaining, the background counts at least half a row."""
    P, y = np.repeat(np.eye(2), 5, axis=0), np.repeat([0, 1], 5)
    every = confmax.maximize("ams", P, y, confusion=confusion)
    some = confmax.maximize("ams", P, y, confusion=confusion, abstain=True, constraints="coverage >= 0.5")
    assert np.isfinite([every.value, every.label_value or 0.0, some.value, some.label_value or 0.0]).all()
    assert some.value >= every.value


UNKEPT = (
    ["accuracy >= 0.9"],
    ["recall[0] >= 0.9", "recall[1] >= 0.9"],
    ["precision[0] >= 0.9", "precision[1] >= 0.9"],
    ["f1[0] >= 0.9", "f1[1] >= 0.9"],
    ["fpr[0] <= 0", "fpr[1] <= 0"],
    ["min(accuracy | group) >= 0.9"],
)


@pytest.mark.parametrize("limits", UNKEPT, ids=" ".join)
@pytest.mark.parametrize("confusion", ["model", "labels", "blend"])
def test_a_rule_that_leaves_every_row_is_no_answer(limits, confusion):
    """No decision is right often enough: not feasible with a coverage of zero, and the closest rule decides rows."""
    P = np.repeat([[0.55, 0.45], [0.4, 0.6]], 100, axis=0)
    y = np.concatenate([np.repeat([0, 1], [55, 45]), np.repeat([0, 1], [40, 60])])
    group = np.arange(200) % 2 if "group" in limits[0] else None
    settings = {"abstain": True, "confusion": confusion, "calibration": None, "group": group, "constraints": limits}
    with pytest.raises(confmax.Infeasible, match=r"no .*rule.* keep.*loosen") as error:
        confmax.maximize("coverage", P, y, **settings)
    closest = error.value.closest
    assert not closest.feasible and closest.value > 0.0
    if confusion == "model" and group is None:
        assert "proved" in str(error.value) and "none was proved" not in str(error.value)
    if limits == UNKEPT[0]:
        kept = confmax.maximize("coverage", P, y, **{**settings, "constraints": "accuracy >= 0.58"})
        assert kept.feasible and 0.0 < kept.value < 1.0
