"""What the model says of rules that a blend tunes: their value there, a bound on every rule, and when there is none."""

import itertools

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import confmax
from benchmarks import bounds, harness
from confmax import metrics
from confmax.oracle import make_table
from confmax.solution.search import TOLERANCE
from tests.helpers import confusion_of
from tests.parts_helpers import cut

METRICS = ("accuracy", "macro_f1", "g_mean", "min_recall", "cohen_kappa", "q_mean")


def sample(seed, n=250, K=3, sharpness=2.0):
    """Return probabilities, and labels that are drawn from their powers: a blend then trusts the model in part."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(K), n)
    powers = P**sharpness / (P**sharpness).sum(axis=1, keepdims=True)
    return P, (powers.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)


def calibrated(solution, P):
    """Return the calibrated probabilities of a solution."""
    found = solution.calibration
    return P if found is None else make_table(P).calibrated(found.calibrator).head.proba


def on_model(name, p, decided, K, weight=None):
    """Return a metric of decisions (n,) under probabilities p (n, K)."""
    w = np.full(len(p), 1.0 / len(p)) if weight is None else weight / weight.sum()
    return metrics.get(name).value(confusion_of(p * w[:, None], decided, K))


@pytest.mark.parametrize("name", METRICS)
def test_the_bound_holds_for_every_rule_of_a_tiny_table(name):
    """All 243 rules of five rows and three classes are tried."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        y = np.array([0, 1, 2, 0, 1])
        P = (rng.dirichlet(np.ones(3), 5) + np.eye(3)[y]) / 2.0
        found = confmax.maximize(name, P, y, calibration=None, randomized=False)
        every = [on_model(name, P, np.array(rule), 3) for rule in itertools.product(range(3), repeat=5)]
        assert found.model_value == pytest.approx(on_model(name, P, found.rule.predict(P), 3), abs=1e-12)
        assert found.model_upper_bound >= max(every) - 1e-12
        assert found.model_gap == found.model_upper_bound - found.model_value >= 0.0


@pytest.mark.parametrize("name", METRICS[1:4])
def test_the_bound_is_that_of_a_run_on_the_model(name):
    P, y = sample(1)
    weight = np.random.default_rng(2).uniform(0.5, 2.0, len(y))
    found = confmax.maximize(name, P, y, sample_weight=weight, calibration=None, randomized=False)
    assert 0.0 < found.model_share < 1.0 and found.gap is None
    assert found.model_value == pytest.approx(on_model(name, P, found.rule.predict(P), 3, weight), abs=1e-9)
    best = confmax.maximize(name, P, y, sample_weight=weight, confusion="model", calibration=None, randomized=True)
    assert best.value - 1e-9 <= found.model_upper_bound
    assert found.model_upper_bound <= best.upper_bound + 2.0 * TOLERANCE + 0.1 * best.gap
    assert (best.model_value, best.model_upper_bound, best.model_gap) == (best.value, best.upper_bound, best.gap)
    sentence = f"if the probabilities are right, no rule exceeds {found.model_upper_bound:.4g}; this one has"
    assert found.guarantee == f"{sentence} {found.model_value:.4g}"
    assert f"gap {found.model_gap:.2g} on the model" in repr(found)


def test_the_probabilities_are_the_calibrated_ones():
    P, y = sample(8, K=2, sharpness=1.0)
    P = np.stack([P[:, 0] ** 2, 1.0 - P[:, 0] ** 2], axis=1)
    found = confmax.maximize("g_mean", P, y, calibration="vector")
    p = calibrated(found, P)
    assert found.model_value == pytest.approx(on_model("g_mean", p, found.rule.predict(P), 2), abs=1e-9)
    assert found.guarantee.startswith("if the calibrated probabilities are right, no rule exceeds ")


@pytest.mark.parametrize("name", METRICS[1:4])
def test_a_blend_that_is_all_model_is_certified(name):
    """The labels are drawn from the probabilities."""
    P, y = sample(3, sharpness=1.0)
    found = confmax.maximize(name, P, y, calibration=None)
    assert found.mode == "blend" and found.model_share == 1.0
    assert found.upper_bound == found.model_upper_bound and found.value == pytest.approx(found.model_value, abs=1e-12)
    best = confmax.maximize(name, P, confusion="model", calibration=None, randomized=True)
    assert best.value - 1e-9 <= found.upper_bound <= best.upper_bound + 2.0 * TOLERANCE + 0.1 * best.gap
    assert found.guarantee.startswith("if the probabilities are right, no rule exceeds ")


def test_a_limit_that_is_missed_on_the_model_is_named():
    missed, kept = 0, 0
    for seed in range(6):
        P, y = sample(seed, sharpness=(0.6, 2.0)[seed % 2])
        found = confmax.maximize("accuracy", P, y, constraints="recall[2] >= 0.7", calibration=None)
        share = P[found.rule.predict(P) == 2, 2].sum() / P[:, 2].sum()
        (one,) = found.constraints
        assert len(found.rule.weights) > 1 or one.model_slack == pytest.approx(share - 0.7, abs=1e-12)
        hits = round(one.label_value * one.label_rows)
        counted = (
            f"on the labels recall[2] is {hits} of {(y == 2).sum()} tuning rows, not assured on new rows, unless you "
            f"ask with a confidence"
        )
        if one.model_slack < 0.0:
            missed += 1
            assert found.model_upper_bound is None and found.model_value is not None
            assert found.guarantee == (
                f"if the probabilities are right, this rule misses recall[2] >= 0.7 by {-one.model_slack:.2g}, so no "
                f"bound on other rules is given; this limit is kept on the estimate that tuned the rule, "
                f"{found.model_share:.0%} expected from the probabilities, the rest counted on the labels; {counted}"
            )
        else:
            kept += 1
            best = confmax.maximize("accuracy", P, constraints="recall[2] >= 0.7", randomized=True)
            assert best.value - 1e-9 <= found.model_upper_bound <= best.upper_bound + 2.0 * TOLERANCE
            assert "no rule that keeps the constraints exceeds" in found.guarantee
            assert found.guarantee.endswith(f"; {counted}")
    assert missed and kept


def test_where_nothing_is_known_it_is_said():
    P, y = sample(4)
    found = confmax.maximize("mcc", P, y)
    assert found.model_value is not None and found.model_upper_bound is None and found.model_gap is None
    assert found.guarantee.endswith("no optimality guarantee, because no upper bound is known for mcc")
    labels = confmax.maximize("g_mean", P, y, confusion="labels")
    assert labels.model_value is None and "no optimality guarantee on labels, confusion='model'" in labels.guarantee
    stopped = confmax.maximize("g_mean", P, y, callback=lambda _: True)
    assert stopped.model_value is None and stopped.guarantee.startswith(
        "the callback stopped the search; no optimality"
    )
    assured = confmax.maximize("accuracy", P, y, constraints="recall[2] >= 0.5", confidence=0.9)
    assert assured.model_value is None and assured.model_upper_bound is None and assured.upper_bound is None


def test_rows_in_parts_have_a_bound_only_on_the_model():
    P, y = sample(1)
    found = confmax.maximize("g_mean", cut(P, y, at=(100,)), calibration=None)
    assert found.mode == "blend" and found.model_value is None and found.model_upper_bound is None
    assert found.guarantee.endswith("no optimality guarantee, confusion='model' gives one")
    model = confmax.maximize("g_mean", cut(P, y, at=(100,)), calibration=None, confusion="model")
    assert model.model_gap == model.gap is not None


def test_the_rows_of_a_refitted_model_are_named():
    """A classifier on four distinct rows is tuned on the final model's probabilities of them."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (400, 2)).astype(float)
    y = (rng.random(400) < 0.1 + 0.4 * X[:, 0] + 0.3 * X[:, 0] * X[:, 1]).astype(int)
    found = confmax.MetricClassifierCV(LogisticRegression(), metric="g_mean").fit(X, y)
    solution = found.solution_
    assert found.tuned_on_ == solution.tuned_on == "refit" and solution.model_gap >= 0.0
    assert solution.guarantee.endswith("; these are the final model's probabilities of its own training rows")


def test_a_sample_of_the_benchmark(tmp_path, monkeypatch):
    monkeypatch.setattr(harness, "PATH", tmp_path / "RESULTS.md")
    monkeypatch.setattr(bounds, "METRICS", ("g_mean", "f1[{rarest}]"))
    monkeypatch.setattr(bounds, "TIMES", 1)
    P, y = sample(9, n=200)
    np.savez(tmp_path / "one.npz", P_tune=P[:100], y_tune=y[:100], P_test=P[100:], y_test=y[100:])
    harness.run("model-bound", tmp_path)
    text = harness.PATH.read_text()
    assert "## model bound" in text and "g_mean | " in text and "of 3 calls" in text


@pytest.mark.parametrize("most", [3, 30])
def test_the_bound_takes_no_more_passes_than_are_allowed(most):
    P, y = sample(5)
    found = confmax.maximize("g_mean", P, y, max_passes=most)
    assert found.n_passes <= max(most, 4)
    assert most < 30 or found.model_upper_bound is not None


def test_rules_of_groups_and_rules_that_abstain_have_a_bound():
    P, y = sample(6, n=400)
    group = np.arange(400) % 2
    limit = "difference(rate[1] | group) <= 0.3"
    grouped = confmax.maximize("accuracy", P, y, group=group, constraints=limit, calibration=None)
    value = np.take_along_axis(P, grouped.rule.predict(P, group=group)[:, None], axis=1).mean()
    assert grouped.model_value == pytest.approx(value, abs=1e-12) and grouped.model_gap >= 0.0
    careful = confmax.maximize("accuracy", P, y, abstain=True, constraints="coverage >= 0.7", calibration=None)
    assert careful.model_upper_bound is None or careful.model_gap >= 0.0


def test_a_single_threshold_has_a_bound_for_metrics_of_two_classes():
    P, y = sample(7, K=2)
    found = confmax.maximize("fowlkes_mallows", P, y, calibration=None)
    order = np.argsort(P[:, 1])
    every = [on_model("fowlkes_mallows", P, (np.argsort(order) >= cut).astype(int), 2) for cut in range(len(y) + 1)]
    assert found.model_upper_bound >= max(every) - 1e-12
