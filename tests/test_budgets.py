"""Budgets of labels per row: rules and bounds beside the enumeration of all decisions."""

import itertools
import warnings

import numpy as np
import pytest
from scipy.optimize import minimize

import confmax
from confmax.confusion import Confusion, Gains
from confmax.metrics import labels as label_metrics
from confmax.optimize.mixture import Mixture, constant_rules
from confmax.oracle import make_oracle
from confmax.tables.decisions import ANY, decisions_of
from confmax.tables.several import labels_table

K = (1, 2, ("at_most", 1), ("at_most", 2))
SINGLE = (
    "macro_recall",
    "balanced_accuracy",
    "hamming",
    "micro_f1",
    "micro_f_beta",
    "micro_jaccard",
    "micro_precision",
)
MIXED = ("g_mean", "h_mean", "coverage")
BOUNDED = ("macro_f1", "macro_f_beta", "weighted_f1", "macro_jaccard", "macro_precision")


def drawn(n=5, L=3, seed=0):
    rng = np.random.default_rng(seed)
    P = rng.beta(0.6, 1.4, (n, L))
    return P, (rng.random((n, L)) < P).astype(int)


def subsets(decisions, L):
    """Return every set of labels (s, L) that a row may get."""
    every = np.array(list(itertools.product((0, 1), repeat=L)))
    return every[[decisions.chosen(2.0 * one - 1.0).tolist() == one.astype(bool).tolist() for one in every]]


def all_decisions(P, decisions, weight=None):
    """Return the statistics of every way to decide all rows."""
    n, L = P.shape
    w = np.full(n, 1 / n) if weight is None else weight / weight.sum()
    sets = subsets(decisions, L)
    parts = [np.stack([w[i] * p * sets, w[i] * sets]) for i, p in enumerate(P)]
    sums = parts[0]
    for part in parts[1:]:
        sums = (sums[:, :, None] + part[:, None]).reshape(2, -1, L)
    return Confusion(w @ P, sums[0], sums[1])


def metric_of(name, decisions, n):
    metric = label_metrics.resolve(name, decisions)
    return metric.with_params({"n": float(n)}) if name == "coverage" else metric


def found_of(name, P, k, **more):
    return confmax.maximize(name, P, decisions=k, confusion="model", calibration=None, **more)


@pytest.mark.parametrize("k", K)
@pytest.mark.parametrize("name", SINGLE)
def test_linear_metrics_and_ratios_are_the_best_of_all_decisions(name, k):
    for seed in range(3):
        P, _ = drawn(seed=seed)
        decisions = decisions_of(k)
        most = metric_of(name, decisions, len(P)).values(all_decisions(P, decisions)).max()
        found = found_of(name, P, k)
        assert found.value == pytest.approx(most, abs=1e-12)
        assert 0.0 <= found.gap <= 1e-6


@pytest.mark.parametrize("k", K)
@pytest.mark.parametrize("name", MIXED)
def test_concave_metrics_are_the_best_of_all_draws(name, k):
    P, _ = drawn(seed=3)
    decisions = decisions_of(k)
    metric = metric_of(name, decisions, len(P))
    n, L = P.shape
    sets = subsets(decisions, L)

    def loss(x):
        y = x.reshape(n, -1) @ sets
        return -float(metric.values(Confusion(P.mean(0), (P * y).mean(0), y.mean(0))))

    sums = {"type": "eq", "fun": lambda x: x.reshape(n, -1).sum(axis=1) - 1.0}
    start = np.full(n * len(sets), 1 / len(sets))
    best = -minimize(loss, start, bounds=[(0, 1)] * len(start), constraints=sums, tol=1e-10).fun
    found = found_of(name, P, k, randomized=True)
    assert found.value == pytest.approx(best, abs=2e-6)
    assert best - 1e-8 <= found.upper_bound <= found.value + 1e-6
    chances = found.rule.decision_probabilities(P)
    again = Confusion(P.mean(0), (P * chances).mean(0), chances.mean(0))
    assert found.value == pytest.approx(float(metric.values(again)), abs=1e-12)
    single = found_of(name, P, k)
    assert not single.rule.is_randomized
    assert single.value + single.randomization_loss == pytest.approx(found.value, abs=1e-6)
    assert single.value <= metric.values(all_decisions(P, decisions)).max() + 1e-12


@pytest.mark.parametrize("k", K)
@pytest.mark.parametrize("name", BOUNDED)
def test_no_decision_is_above_the_bound(name, k):
    decisions = decisions_of(k)
    for seed in range(2):
        rng = np.random.default_rng(seed)
        P, _ = drawn(seed=seed, n=4)
        P = P.round(1) if seed % 2 else P
        weight = rng.uniform(0.0, 2.0, 4) if seed else None
        metric = metric_of(name, decisions, len(P))
        with warnings.catch_warnings():
            # of few rounded rows some label may have no probability at all
            warnings.simplefilter("ignore", UserWarning)
            found = found_of(name, P, k, sample_weight=weight)
        values = found.metric.values(all_decisions(P, decisions, weight))
        assert found.upper_bound >= values.max() - 1e-12
        assert found.upper_bound >= found.value
        assert metric.name == found.metric.name
        if name != "macro_precision":
            assert found.value >= 0.93 * values.max()


def test_a_bound_holds_for_draws_between_decisions():
    P, _ = drawn(seed=1, n=4)
    rng = np.random.default_rng(0)
    for k in K:
        every = all_decisions(P, decisions_of(k))
        found = found_of("macro_f1", P, k)
        for _ in range(200):
            mixed = every.mix(rng.dirichlet(np.full(len(every), 0.02)))
            assert float(found.metric.values(mixed)) <= found.upper_bound + 1e-12


def test_at_most_k_is_no_worse_than_exactly_k():
    P, _ = drawn(n=40, L=4, seed=2)
    for name in ("macro_f1", "micro_f1", "hamming"):
        exactly, at_most = (found_of(name, P, k) for k in (2, ("at_most", 2)))
        assert at_most.value > exactly.value
        assert set(exactly.predict(P).sum(axis=1)) == {2}
        assert at_most.predict(P).sum(axis=1).max() == 2 > at_most.predict(P).sum(axis=1).min()
        assert "with as many labels for every row" in exactly.guarantee
        assert "with no more labels for a row" in at_most.guarantee


def test_all_labels_are_one_rule_and_more_are_refused():
    P, Y = drawn(n=8, L=2)
    for name in ("macro_f1", "micro_f1", "macro_recall", "g_mean"):
        found = found_of(name, P, 2)
        assert found.predict(P).all()
        assert found.gap == 0.0
    with pytest.raises(ValueError, match="decisions asks for 3 labels of every row, and there are 2"):
        confmax.maximize("macro_f1", P, Y, decisions=3)
    # no threshold on one of two columns is meant
    one = found_of("macro_f1", P, 1)
    assert one.upper_bound >= one.metric.values(all_decisions(P, decisions_of(1))).max() - 1e-12


@pytest.mark.parametrize("k", [2, ("at_most", 2)])
def test_rules_decide_the_best_scores(k, tmp_path):
    P, Y = drawn(n=80, L=5, seed=4)
    for settings in ({}, {"calibration": None}, {"confusion": "labels"}, {"confusion": "model", "randomized": True}):
        found = confmax.maximize("macro_f1", P, Y, decisions=k, **settings)
        rule = found.rule
        chosen = found.predict(P)
        if not rule.is_randomized:
            a, b = rule.gains.pair()
            p = P if rule.calibrator is None else rule.calibrator.transform(P)
            scores = a * p + b
            assert chosen.astype(bool).tolist() == decisions_of(k).chosen(scores).tolist()
        assert rule.thresholds is None
        rule.save(tmp_path / "rule.json")
        again = confmax.LabelRule.load(tmp_path / "rule.json")
        assert again == rule
        assert again.decisions == decisions_of(k)
        assert again.predict(P).tolist() == chosen.tolist()
        assert [len(names) for names in again.predict_lists(P)] == chosen.sum(axis=1).tolist()
        assert "LabelSolution: macro_f1" in repr(found)


def test_no_plain_rule_is_better_on_the_estimate():
    P, Y = drawn(n=30, L=4, seed=5)
    for name, confusion in itertools.product(("macro_f1", "micro_f1", "coverage"), ("auto", "labels", "model")):
        found = confmax.maximize(name, P, Y, decisions=2, confusion=confusion)
        assert list(found.baselines) == ["top-2", "top-2 of p/prior"]
        assert found.value >= max(found.baselines.values()) - 1e-12
        assert (found.upper_bound is None) == (confusion != "model")
        assert found.model_value <= found.model_upper_bound
        if confusion != "model":
            assert "on the model's, no rule exceeds" in found.guarantee


def test_weights_and_repeated_rows_count_alike():
    P, Y = drawn(n=15, L=4, seed=6)
    weight = np.random.default_rng(0).integers(1, 4, 15)
    many = np.repeat(np.arange(15), weight)
    for name in ("macro_f1", "micro_f1", "macro_recall"):
        for confusion in ("model", "labels"):
            given = {"decisions": 2, "confusion": confusion, "calibration": None}
            weighted = confmax.maximize(name, P, Y, sample_weight=weight.astype(float), **given)
            repeated = confmax.maximize(name, P[many], Y[many], **given)
            assert weighted.value == pytest.approx(repeated.value, abs=1e-9)


def test_rows_whose_labels_tie_are_decided_alike():
    P = np.repeat([[0.5, 0.5, 0.5], [0.2, 0.2, 0.2]], 3, axis=0)
    found = found_of("macro_f1", P, 1)
    assert len(np.unique(found.predict(P)[:3], axis=0)) == 1
    assert found.upper_bound >= found.metric.values(all_decisions(P, decisions_of(1))).max() - 1e-12


def test_functions_of_three_vectors_are_maximised():
    P, Y = drawn(n=80, L=4, seed=7)

    def mine(rows, diagonal, columns):
        return (2 * diagonal / (rows + columns)).mean()

    for k in (2, "any"):
        known, of_user = (confmax.maximize(m, P, Y, decisions=k, confusion="model") for m in ("macro_f1", mine))
        assert of_user.value == pytest.approx(known.value, abs=2e-3)
        assert of_user.value <= known.upper_bound + 1e-9
        assert of_user.upper_bound is None
    assert of_user.rule.calibrator is None
    chosen = of_user.predict(P)
    assert chosen.tolist() == ([one.threshold for one in of_user.labels] < P).astype(int).tolist()
    S = of_user.calibration.transform(P)
    direct = mine(S.mean(0), (S * chosen).mean(0), chosen.mean(0))
    assert of_user.value == pytest.approx(direct, abs=1e-12)

    def worst(rows, diagonal, columns):
        return (diagonal / rows).min() - columns.max()

    # no sum over labels: thresholds label by label would not see it
    found = confmax.maximize(worst, P, Y, decisions="any", confusion="model", shrinkage=False)
    assert found.value >= found.baselines["p > 0.5"]
    blend = confmax.maximize(mine, P, Y, decisions="any")
    assert blend.value >= blend.baselines["p > 0.5"]


def test_coverage_has_a_number_of_rows():
    P, Y = drawn(n=50, L=4, seed=8)
    found = confmax.maximize("coverage", P, Y, decisions=1, confusion="model", calibration=None)
    assert dict(found.metric.params) == {"n": 50.0}
    t = found.statistics.diagonal
    assert found.value == pytest.approx((1.0 - np.exp(-50 * t)).mean(), abs=1e-12)
    few = confmax.maximize(label_metrics.get("coverage", n=10), P, Y, decisions=1, confusion="model", calibration=None)
    assert few.value < found.value
    with pytest.raises(
        ValueError, match="coverage cannot be maximised with decisions='any': it is largest if every row"
    ):
        confmax.maximize("coverage", P, Y, decisions="any")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"metric": "cohen_kappa"}, "cohen_kappa cannot be maximised with decisions=2"),
        ({"randomized": "yes"}, "randomized must be True, False or 'auto'"),
        ({"decisions": "any", "randomized": True}, "randomized is of one class for every row"),
        ({"solver": "stationary"}, "solver is of one class for every row"),
        ({"decisions": 0}, "decisions is 'one', 'any', a number of labels k"),
        ({"decisions": ("at_least", 2)}, "decisions is 'one', 'any', a number of labels k"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(change, sentence):
    P, Y = drawn()
    with pytest.raises(ValueError, match=sentence):
        confmax.maximize(**({"metric": "macro_f1", "proba": P, "y": Y, "decisions": 2} | change))


@pytest.mark.parametrize("k", [*K, "any", ("at_most", 3), 3])
def test_constant_rules_are_what_their_gains_decide(k):
    decisions = decisions_of(k)
    P, _ = drawn()
    oracle = labels_table(decisions, P).oracle(1.0)
    gains, known = constant_rules(oracle.rows, 3, matrix=False, decisions=decisions)
    answers = oracle.maximize(gains)
    np.testing.assert_allclose(known.diagonal, answers.diagonal, atol=1e-15)
    np.testing.assert_allclose(known.columns, answers.columns, atol=1e-15)
    centre = Mixture.uniform(oracle.rows, 3, matrix=False, decisions=decisions).confusion
    np.testing.assert_allclose(centre.diagonal / oracle.rows, centre.columns, atol=1e-12)


def test_a_table_of_several_labels_has_their_oracle():
    P, Y = drawn()
    table = labels_table(decisions_of(2), P, Y)
    gains = Gains.reduced([[1.0, 1.0, 1.0]])
    for share in (1.0, 0.5):
        oracle = make_oracle(table, "blend", model_share=share)
        assert oracle.maximize(gains).columns.sum() == pytest.approx(2.0)
    assert table.density_of_ties(gains, np.ones(1)) is None
    assert table.decisions == decisions_of(2)
    assert labels_table(ANY, P).decisions == ANY


@pytest.mark.parametrize("name", ["g_mean", "h_mean"])
def test_a_bound_holds_for_draws_where_all_labels_may_be_decided(name):
    # rows that are alike are decided alike by a rule that does not draw: G-mean and H-mean are zero
    found = confmax.maximize(name, np.full((4, 1), 0.5), decisions=("at_most", 1), randomized=True)
    assert found.value == pytest.approx(0.5, abs=1e-6)
    assert found.upper_bound >= 0.5
    assert found.predict([[0.5], [0.4]]).shape == (2, 1)


def test_a_label_that_all_rows_have_agrees_by_chance():
    # weights that sum to one but for rounding
    S = Confusion(*(np.array([1.0 - x]) for x in (1e-16, 0.0, 2e-16)))
    assert all(label_metrics.get(name).values(S) == 0.0 for name in ("cohen_kappa", "mcc"))


def test_the_only_rule_is_a_rule():
    P, Y = drawn(6, 2)
    found = confmax.maximize("g_mean", P, Y, decisions=2, randomized=True, confusion="labels")
    assert len(found.rule.weights) == 1
    assert found.predict(P).all()
