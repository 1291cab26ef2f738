"""Weights are relative: their unit changes nothing, in `maximize`, `score` and the share of the model."""

import numpy as np
import pytest

import confmax
from confmax.calibration.blend import model_share
from confmax.oracle import make_table

UNITS = (1024.0, 2.5, 1e-3)


def tilted(n, K, seed=0, *, whole=False):
    """Labels that follow a tilted version of the probabilities, and weights."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(K), n)
    y = (rng.uniform(0.5, 1.5, K) * np.log(P) + rng.normal(size=K) + rng.gumbel(size=(n, K))).argmax(axis=1)
    return P, y, rng.integers(1, 5, n).astype(float) if whole else rng.uniform(0.2, 3.0, n)


@pytest.mark.parametrize(
    ("metric", "solver", "whole"),
    [("macro_f1", "coordinate_search", False), ("g_mean", "auto", True), ("min_recall", "auto", False)],
)
def test_the_unit_of_weights_changes_no_rule(metric, solver, whole):
    P, y, w = tilted(400, 3, whole=whole)
    one = confmax.maximize(metric, P, y, sample_weight=w, solver=solver)
    for unit in UNITS:
        other = confmax.maximize(metric, P, y, sample_weight=unit * w, solver=solver)
        assert other.calibration.kind == one.calibration.kind
        assert other.model_share == pytest.approx(one.model_share, rel=1e-9)
        # the linear programs of min recall end within the tolerance of the run
        assert other.value == pytest.approx(one.value, abs=1e-6 if metric == "min_recall" else 1e-9)
        np.testing.assert_allclose(other.rule.decision_probabilities(P), one.rule.decision_probabilities(P), atol=5e-7)
        if unit == 1024.0:
            assert other.rule.to_json() == one.rule.to_json()


@pytest.mark.parametrize("unit", [1.0, 1000.5])
def test_equal_weights_are_no_weights(unit):
    """1 and 1000.5 on all rows: one log loss, and the rule without weights."""
    P, y, _ = tilted(300, 3, seed=1)
    plain, found = (confmax.maximize("macro_f1", P, y, sample_weight=w) for w in (None, np.full(300, unit)))
    assert found.calibration.kind == plain.calibration.kind
    assert found.calibration.log_loss_after == pytest.approx(plain.calibration.log_loss_after, abs=1e-12)
    assert found.value == pytest.approx(plain.value, abs=1e-12)


def test_a_row_that_is_repeated_is_not_a_row_of_weight_two():
    """Twice the rows are twice as sure of their labels; twice the weight is not."""
    P, y, _ = tilted(150, 3, seed=2)
    share = {name: model_share(make_table(*rows)) for name, rows in {
        "once": (P, y), "weighted": (P, y, np.full(150, 2.0)), "twice": (np.repeat(P, 2, 0), np.repeat(y, 2)),
    }.items()}  # fmt: skip
    assert share["weighted"] == pytest.approx(share["once"], abs=1e-12) and share["twice"] < share["once"]


def test_intervals_do_not_depend_on_the_unit():
    P, y, w = tilted(200, 3, seed=3)
    one, other = (
        confmax.score(["macro_f1", "g_mean"], P, y, sample_weight=u * w, n_replicates=200) for u in (1.0, 2.5)
    )
    for rule, metric in (("argmax", "macro_f1"), ("p/prior", "g_mean")):
        assert tuple(other.estimate(rule, metric)) == pytest.approx(tuple(one.estimate(rule, metric)), abs=1e-9)
