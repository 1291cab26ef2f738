"""How often labels are true on rows without labels: by another algorithm, from files, and what does not change."""

import json

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_array
from sklearn.metrics import f1_score

import confmax
from confmax.rule.shares import LabelShares
from confmax.shift.labels import label_shift
from confmax.tables.decisions import ANY
from confmax.tables.several import labels_table

PI = np.array([0.5, 0.2, 0.1])


def rows(n, shares=PI, seed=0):
    """Return probabilities (n, L) that are right for labels with shares `PI`, and labels (n, L) with others."""
    rng = np.random.default_rng(seed)
    Y = rng.random((n, len(shares))) < shares
    x = rng.normal(np.where(Y, 1.5, 0.0))
    odds = PI / (1.0 - PI) * np.exp(1.5 * x - 1.125)
    return odds / (1.0 + odds), Y.astype(int)


@pytest.fixture(scope="module")
def tuned():
    """A solution on rows with the shares `PI`."""
    P, Y = rows(3000)
    return confmax.maximize("macro_f1", P, Y, decisions="any", classes=["a", "b", "c"])


def test_the_shares_are_the_most_likely_ones():
    P, _ = rows(400, np.array([0.2, 0.4, 0.05]), seed=3)
    weight = np.random.default_rng(0).random(400)
    shares = LabelShares(tuple(PI), 1e9, tuple(PI))
    factor = weight.sum() / (weight**2).sum()
    for table, w in (
        (labels_table(ANY, P), np.ones(400)),
        (labels_table(ANY, P, None, weight), weight * factor),
        (labels_table(ANY, csr_array(P)), np.ones(400)),
    ):
        found = label_shift(table, "abc", shares, 1.0)
        for k in range(3):
            ratios = P[:, k] / PI[k], (1.0 - P[:, k]) / (1.0 - PI[k])

            def minus(q, k=k, ratios=ratios, w=w):
                prior = PI[k] * np.log(q) + (1.0 - PI[k]) * np.log(1.0 - q)
                return -(w @ np.log(q * ratios[0] + (1.0 - q) * ratios[1]) + prior)

            best = minimize_scalar(minus, bounds=(1e-6, 1 - 1e-6), method="bounded", options={"xatol": 1e-9})
            assert -best.fun <= -minus(found.raw_priors[k]) + found.gap + 1e-8
            assert found.gap <= 0.01


def test_entries_that_are_not_stored_are_zero():
    P, _ = rows(300, seed=5)
    P[P < 0.3] = 0.0
    shares = LabelShares(tuple(P.mean(axis=0)), 500.0, tuple(PI))
    dense = label_shift(labels_table(ANY, P), "abc", shares, None)
    sparse = label_shift(labels_table(ANY, csr_array(P)), "abc", shares, None)
    np.testing.assert_allclose(sparse.raw_priors, dense.raw_priors, atol=1e-9)
    np.testing.assert_allclose(sparse.p_values, dense.p_values, atol=1e-9)


def test_shares_that_moved_are_seen_and_others_keep_their_thresholds(tuned):
    to = np.array([0.5, 0.5, 0.1])
    Q, Z = rows(2000, to, seed=9)
    shift = confmax.shift.estimate_priors(Q, tuned)
    assert shift.moved() == [1] and shift.detected
    assert shift.sentence.startswith("in these 2000 rows the share has moved of b from 0.2")
    assert np.abs(shift.priors - to).max() < 0.06
    low, high = shift.interval(0.99)[1]
    assert low < 0.5 < high
    adapted = tuned.adapt(Q)
    np.testing.assert_array_equal(np.delete(adapted.rule.thresholds, 1), np.delete(tuned.rule.thresholds, 1))
    assert adapted.rule.thresholds[1] < tuned.rule.thresholds[1]
    old, new = (f1_score(Z, one.predict(Q), average="macro") for one in (tuned, adapted))
    assert new > old
    assert new == pytest.approx(adapted.value, abs=0.03)
    known = tuned.adapt(Q, priors={"b": 0.5})
    assert known.rule.thresholds[1] == pytest.approx(adapted.rule.thresholds[1], abs=0.05)


def test_rows_of_the_same_shares_change_nothing(tuned):
    Q, _ = rows(1500, seed=4)
    assert tuned.adapt(Q).rule is tuned.rule
    assert not confmax.shift.estimate_priors(Q, tuned).detected
    with pytest.warns(UserWarning, match="20 rows are few"):
        tuned.adapt(Q[:20])
    with pytest.warns(UserWarning, match="20 rows are few for the shares of labels; have at least 50"):
        few = confmax.shift.estimate_priors(Q[:20], tuned)
    said, doubt = str(few).splitlines()
    assert said == few.sentence and "are as frequent in these 20 rows as in the tuning rows" in said
    assert doubt == few.warnings[0]


def test_means_of_recalls_keep_their_rule():
    P, Y = rows(1500)
    Q, _ = rows(1500, np.array([0.1, 0.6, 0.3]), seed=2)
    solution = confmax.maximize("g_mean", P, Y, decisions="any")
    adapted = solution.adapt(Q)
    assert adapted.rule is solution.rule and adapted.shift.detected


def test_budgets_and_micro_averages_adapt():
    P, Y = rows(1500)
    Q, Z = rows(1500, np.array([0.1, 0.6, 0.3]), seed=2)
    for metric, decisions in (("micro_f1", "any"), ("macro_f1", 1), ("macro_f1", ("at_most", 2))):
        solution = confmax.maximize(metric, P, Y, decisions=decisions)
        adapted = solution.adapt(Q)
        average = metric.split("_")[0]
        old, new = (f1_score(Z, one.predict(Q), average=average) for one in (solution, adapted))
        assert new > old - 0.005


def test_files_hold_the_shares_of_labels(tuned):
    again = confmax.LabelRule.from_json(tuned.rule.to_json())
    assert again == tuned.rule
    Q, _ = rows(500, np.array([0.5, 0.5, 0.1]), seed=9)
    one, other = (confmax.shift.estimate_priors(Q, rule) for rule in (again, tuned))
    np.testing.assert_array_equal(one.priors, other.priors)
    document = json.loads(tuned.rule.to_json())
    for wrong, reason in (
        ({"labels": [2.0, 0.1, 0.1]}, "do not lie between zero and one"),
        ({"labels": [0.1]}, "labels of its source shares are not 3 numbers"),
        ({"maps": {"a": [1.0]}}, "do not hold a and c alone"),
        ({"rows": "many"}, "rows of its source shares are no number"),
        ({"other": 1}, "labels, rows and decided, perhaps maps"),
    ):
        with pytest.raises(ValueError, match=reason):
            confmax.LabelRule.from_json(json.dumps({**document, "shares": {**document["shares"], **wrong}}))


def test_bad_input_gets_one_sentence(tuned):
    Q, _ = rows(100)
    for arguments, reason in (
        ({}, "a rule of several labels is adapted on the rows that it is for; pass new_proba="),
        ({"new_proba": Q, "priors": {"x": 0.5}}, "priors name 'x', which is none of the labels"),
        ({"new_proba": Q, "priors": [0.5, 0.5]}, r"priors have shape \(2,\), and there are 3 labels"),
        ({"new_proba": Q, "priors": [0.5, 0.5, 1.5]}, "the share of 'c' in priors is 1.5"),
    ):
        with pytest.raises(ValueError, match=reason):
            tuned.adapt(**arguments)
    old = confmax.LabelRule.from_thresholds([0.5, 0.5, 0.5])
    with pytest.raises(ValueError, match="does not know how often labels were true"):
        confmax.shift.estimate_priors(Q, old)
    with pytest.raises(ValueError, match="without y and tuned_on; leave both out"):
        confmax.shift.estimate_priors(Q, tuned, y=[None] * 100)
