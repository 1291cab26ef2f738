"""Shares, labels and weights that are easily given wrongly, rules that are adapted again, and what files lack."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import f1_score

import confmax
from confmax.rule.shares import SourceShares
from confmax.shift import likelihood as about
from tests.shift_helpers import of_shares, rows


@pytest.fixture(scope="module")
def tuned():
    """A rule for macro F1, the rows that it was tuned on, and others of the same population."""
    P, y = rows(4, 1600, seed=1)
    return confmax.maximize("macro_f1", P[:800], y[:800]), P[:800], y[:800], P[800:], y[800:]


def test_a_series_of_shares_is_read_by_its_names():
    P, y = rows(3, 300)
    solution = confmax.maximize("accuracy", P, np.array(["b", "c", "a"])[y], classes=["b", "c", "a"])
    shares = pd.Series({"a": 0.1, "b": 0.2, "c": 0.7})
    np.testing.assert_allclose(solution.adapt(priors=shares).rule.shares.meant, [0.2, 0.7, 0.1])
    np.testing.assert_allclose(solution.rule.shifted(pd.Series([0.2, 0.7, 0.1])).shares.meant, [0.2, 0.7, 0.1])
    with pytest.raises(ValueError, match="'d' is none of the classes"):
        solution.adapt(priors=shares.rename({"a": "d"}))
    with pytest.raises(ValueError, match="row 1 of priors is masked"):
        solution.adapt(priors=np.ma.array([0.2, 0.7, 0.1], mask=[0, 1, 0]))
    with pytest.raises(ValueError, match="level lies between 0 and 1; got None"):
        confmax.shift.detect(P, solution, level=None)
    some = pd.Series([["a"], *[None] * 299])
    with pytest.raises(ValueError, match=r"row 0 of y is \['a'\], and a class is a name"):
        confmax.shift.estimate_priors(P, solution, y=some)


def test_weights_of_any_size_count_alike():
    P, y = rows(3, 300)
    sizes = np.random.default_rng(0).random(300) + 0.5
    plain, light = (confmax.maximize("accuracy", P, y, sample_weight=sizes * by) for by in (1.0, 1e-200))
    assert light.rule.shares.n_rows == pytest.approx(plain.rule.shares.n_rows)
    wanted, *others = (
        confmax.shift.estimate_priors(P[:200], plain, sample_weight=sizes[:200] * by) for by in (1.0, 1e200, 1e-200)
    )
    for found in others:
        np.testing.assert_allclose(found.raw_priors, wanted.raw_priors, atol=1e-6)


def test_known_shares_after_an_estimate(tuned):
    solution, P, y, Q, z = tuned
    q = np.array([0.05, 0.15, 0.3, 0.5])
    first = solution.adapt(of_shares(Q, z, q, 1500)[0])
    assert first.shift is not None
    second, alone = (one.adapt(priors=q, tuned_on=(P, y)) for one in (first, solution))
    # nothing is left of the estimate, and labels take part again
    assert second.shift is None and second.mode == alone.mode == "blend"
    assert second.value == pytest.approx(alone.value)
    recalls = confmax.maximize("g_mean", P, y).adapt(of_shares(Q, z, q, 1500)[0])
    assert recalls.shift is not None and recalls.adapt(priors=q).shift is None


def test_shares_from_few_rows_raise_no_alarm_among_many(tuned):
    _, P, y, _, _ = tuned
    Q, z = rows(4, 20_000, seed=5)
    solution = confmax.maximize("accuracy", P, y, calibration=None)
    q = np.array([0.05, 0.15, 0.3, 0.5])
    alarms = []
    for seed in range(12):
        adapted = solution.adapt(of_shares(Q, z, q, 200, seed)[0], tuned_on=(P, y))
        assert adapted.rule.shares.n_rows < 200.0
        alarms.append(confmax.shift.detect(of_shares(Q, z, q, 2000, seed + 100)[0], adapted).changed)
    assert np.mean(alarms) <= 0.25


def test_what_is_said_of_an_old_rule_that_is_kept_is_about_it():
    kept = 0
    for seed in range(50, 62):
        P, y = rows(3, 120, seed=seed)
        solution = confmax.maximize("macro_f1", P, y)
        q = np.array([0.2, 0.3, 0.5])
        found = solution.adapt(priors=q, tuned_on=(P, y))
        assert float(found.metric.values(found.statistics)) == pytest.approx(found.value, abs=1e-12)
        weight = (q / np.bincount(y, minlength=3))[y]
        counted = f1_score(y, found.predict(P), average="macro", sample_weight=weight)
        assert found.label_value == pytest.approx(counted)
        kept += found.rule.gains is solution.rule.gains
    assert kept


def test_tables_of_costs(tuned):
    _, P, y, Q, _ = tuned
    q = np.array([0.1, 0.2, 0.3, 0.4])
    gain = -np.array([[0, 1, 2, 3, 0.5], [1, 0, 1, 2, 0.5], [2, 1, 0, 1, 0.5], [5, 3, 2, 0, 0.5]])
    metric = confmax.metrics.get("linear", gain=gain)
    solution = confmax.maximize(metric, P, y, calibration=None, confusion="model")
    wanted = (Q * q / P.mean(axis=0)) @ gain
    for rule in (solution.adapt(priors=q).rule, solution.rule.shifted(q)):
        assert (rule.predict_index(Q) == wanted.argmax(axis=1)).all()
        assert rule.cost_table == metric.cost_table
    # a function of this name has no table
    labels = confmax.DecisionRule.from_weights(np.ones(4), classes=range(4))
    labels = replace(labels, metric="linear", shares=SourceShares((0.25,) * 4, 10.0))
    with pytest.raises(ValueError, match="the rule does not name a metric that it holds in full, but 'linear'"):
        labels.shifted(q)


@pytest.mark.filterwarnings("ignore:no row of y has the class:UserWarning")
def test_a_class_without_a_share_keeps_none():
    P, y = rows(3, 300)
    # a calibration leaves such a probability
    old = P * [1.0, 1.0, 0.0] / P[:, :2].sum(axis=1, keepdims=True) + [0.0, 0.0, 1e-12]
    z = (np.random.default_rng(1).random(300) < old[:, 1]).astype(int)
    solution = confmax.maximize("accuracy", old, z, classes=[0, 1, 2], calibration=None)
    assert 0.0 < solution.rule.shares.meant[2] < about.LEAST_SHARE
    shift = confmax.shift.estimate_priors(P, solution)
    assert np.isfinite(shift.raw_priors).all() and shift.raw_priors[2] == 0.0
    # nor do rows of this class hide that others have moved
    moved = np.concatenate([P[y == 2], old[z == 1]])
    found = confmax.shift.estimate_priors(moved, solution)
    assert found.detected and found.moved() == [0, 1]
    with pytest.raises(ValueError, match="y has rows of 2, and the tuning rows had none"):
        confmax.shift.estimate_priors(P, solution, y=[2, *[None] * 299])


def test_one_class_alone(tuned):
    _, P, y, Q, _ = tuned
    solution = confmax.maximize("accuracy", P, y, calibration=None)
    assert (solution.adapt(priors=[0.0, 1.0, 0.0, 0.0]).predict(Q) == 1).mean() > 0.9


def test_a_confidence_needs_labelled_rows(tuned):
    _, P, y, Q, _ = tuned
    solution = confmax.maximize("accuracy", P, y, constraints=["recall[1] >= 0.3"], confidence=0.9)
    for more in ({"tuned_on": (P, y)}, {"new_proba": Q}):
        with pytest.raises(ValueError, match=r"keeps limits with a confidence.*or adapt a solution without confidence"):
            solution.adapt(priors="balanced", **more)
