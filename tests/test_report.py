"""The figures of a report: against scikit-learn, against the definition of cross-fitting, over random tables."""

import numpy as np
import pytest
from sklearn import metrics as reference

import confmax
from confmax.confusion import Gains
from confmax.evaluate.evidence import kind_of, pooled, tuned_on
from confmax.evaluate.figures import reliability
from confmax.evaluate.judging import plain_rules
from confmax.metrics.catalogue import named
from confmax.oracle import make_table
from confmax.rule import DecisionRule
from confmax.tables.draws import folds_to_judge
from tests.report_helpers import cross_fit, judge, sample

RULE = DecisionRule.from_weights([1.0, 1.7, 2.9])

REFERENCE = {
    "accuracy": reference.accuracy_score,
    "balanced_accuracy": reference.balanced_accuracy_score,
    "macro_f1": lambda y, d, **w: reference.f1_score(y, d, average="macro", zero_division=0, **w),
    "weighted_f1": lambda y, d, **w: reference.f1_score(y, d, average="weighted", zero_division=0, **w),
    "macro_precision": lambda y, d, **w: reference.precision_score(y, d, average="macro", zero_division=0, **w),
    "macro_jaccard": lambda y, d, **w: reference.jaccard_score(y, d, average="macro", zero_division=0, **w),
    "cohen_kappa": reference.cohen_kappa_score,
    "quadratic_kappa": lambda y, d, **w: reference.cohen_kappa_score(y, d, weights="quadratic", **w),
    "mcc": reference.matthews_corrcoef,
}


@pytest.mark.parametrize("weighted", [False, True])
def test_values_and_classes_are_scikit_learns(weighted):
    P, y = sample()
    weight = np.random.default_rng(1).integers(1, 4, len(y)).astype(float) if weighted else None
    found = judge(RULE, P, y, weight=weight)
    kept = {} if weight is None else {"sample_weight": weight}
    before, after = P.argmax(1), (P * [1.0, 1.7, 2.9]).argmax(1)
    for row in found.metrics:
        if row.name in REFERENCE:
            assert row.argmax.value == pytest.approx(REFERENCE[row.name](y, before, **kept), abs=1e-12)
            assert row.tuned.value == pytest.approx(REFERENCE[row.name](y, after, **kept), abs=1e-12)
            assert row.difference.value == pytest.approx(row.tuned.value - row.argmax.value, abs=1e-12)
            assert row.tuned.low <= row.tuned.value <= row.tuned.high
    np.testing.assert_allclose(found.change.before, reference.confusion_matrix(y, before, **kept))
    np.testing.assert_allclose(found.change.after, reference.confusion_matrix(y, after, **kept))
    for decisions, side in ((before, "before"), (after, "after")):
        told = reference.precision_recall_fscore_support(y, decisions, zero_division=0, **kept)
        for part, expected in zip(("precision", "recall", "f1"), told, strict=False):
            np.testing.assert_allclose([getattr(row, side)[part].value for row in found.classes], expected)
    assert [row.n_rows for row in found.classes] == np.bincount(y).tolist()
    assert found.changed == pytest.approx(np.average(before != after, weights=weight))


def test_no_row_is_decided_by_a_rule_that_was_tuned_with_it():
    P, y = sample(400)
    found = cross_fit("macro_f1", P, y)
    evidence = found.evidence
    assert len(evidence.solutions) == 5 and sorted(set(evidence.fold)) == [0, 1, 2, 3, 4]
    for k in (0, 3):
        mine = evidence.fold == k
        # the rule of the fold is the rule of the other rows, and it decides this fold
        alone = confmax.maximize("macro_f1", P[~mine], y[~mine], classes=(0, 1, 2), calibration=None)
        assert alone.rule == evidence.solutions[k].rule
        np.testing.assert_array_equal(evidence.decided.decisions[0, mine], alone.rule.predict(P[mine]))
        # what stands in the fold has no say: other labels there, same rule
        other = y.copy()
        other[mine] = (other[mine] + 1) % 3
        again = confmax.maximize("macro_f1", P[~mine], other[~mine], classes=(0, 1, 2), calibration=None)
        assert again.rule == evidence.solutions[k].rule
    decisions = evidence.decided.decisions[0]
    assert found.main.tuned.value == pytest.approx(REFERENCE["macro_f1"](y, decisions))


def test_mixtures_of_several_folds_are_pooled_exactly():
    P, y = sample(200)
    table = make_table(P, y).head
    gains = [Gains.reduced(np.random.default_rng(k).random((k + 1, 3)) + 0.2) for k in (1, 2)]
    rules = [DecisionRule(gains[0], np.array([0.25, 0.75]), (0, 1, 2)),
             DecisionRule(gains[1], np.array([0.2, 0.1, 0.7]), (0, 1, 2))]  # fmt: skip
    which = (np.arange(200) % 2).astype(np.int64)
    found = pooled(rules, table, which)
    assert found.shares.sum() == pytest.approx(1) and len(found.shares) <= 4
    expected = np.empty((200, 3))
    for k in (0, 1):
        expected[which == k] = rules[k].decision_probabilities(P[which == k])
    mine = np.zeros((200, 3))
    for line, share in zip(found.decisions, found.shares, strict=True):
        mine[np.arange(200), line] += share
    np.testing.assert_allclose(mine, expected, atol=1e-12)


@pytest.mark.parametrize(("confusion", "calibration"), [("model", None), ("labels", "vector"), ("blend", None)])
def test_tuning_rows_are_recognised(confusion, calibration):
    P, y = sample(400, sharp=2.0)
    other, labels = sample(400, seed=9, sharp=2.0)
    found = confmax.maximize("macro_f1", P, y, confusion=confusion, calibration=calibration)
    assert tuned_on(found, make_table(P, y)) and not tuned_on(found, make_table(other, labels))
    order = np.random.default_rng(0).permutation(400)
    assert tuned_on(found, make_table(P[order], y[order]))


def test_reliability_by_its_definition():
    P, y = sample(1000, sharp=2.0)
    weight = np.random.default_rng(0).random(1000) + 0.5
    found = reliability(P, y, weight)
    top, sure = P.argmax(1), P.max(1)
    assert found.log_loss == pytest.approx(reference.log_loss(y, P, sample_weight=weight))
    onehot = np.eye(3)[y]
    assert found.brier == pytest.approx(np.average(((P - onehot) ** 2).sum(1), weights=weight))
    place = np.searchsorted(np.quantile(sure, np.arange(1, 10) / 10), sure, side="right")
    error = 0.0
    for k in range(10):
        mine = place == k
        off = np.average(sure[mine], weights=weight[mine]) - np.average(top[mine] == y[mine], weights=weight[mine])
        error += weight[mine].sum() / weight.sum() * abs(off)
    assert found.ece == pytest.approx(error) and found.is_off


def test_calibration_error_of_right_probabilities_is_that_of_chance():
    drawn = [reliability(*sample(800, seed=seed), np.ones(800)) for seed in range(30)]
    assert np.mean([each.ece for each in drawn]) == pytest.approx(np.mean([e.ece_by_chance for e in drawn]), rel=0.15)
    assert np.mean([each.p_value < 0.1 for each in drawn]) < 0.25 and not any(each.is_off for each in drawn)


@pytest.mark.parametrize(("metric", "calibration"), [("macro_f1", None), ("quadratic_kappa", "temperature")])
def test_the_way_of_the_trade_off_passes_through_the_rule(metric, calibration):
    P, y = sample(500)
    for found in (
        judge(confmax.maximize(metric, P, y, calibration=calibration), P, y, metric),
        cross_fit(metric, P, y, calibration=calibration),
    ):
        trade = found.trade
        at = int(np.argmin(np.abs(trade.steps - 1.0)))
        assert trade.tuned[at] == pytest.approx(found.main.tuned.value, abs=1e-12)
        assert trade.other[at] == pytest.approx(found.second.tuned.value, abs=1e-12)
        # at zero stands argmax, of the calibrated probabilities: a temperature keeps it
        assert trade.other[0] == pytest.approx(found.second.argmax.value, abs=1e-12)


def test_ties_of_argmax_go_to_the_last_class():
    P, y = np.array([[0.4, 0.2, 0.4], [0.5, 0.5, 0.0], [0.2, 0.3, 0.5]]), [0, 1, 2]
    assert plain_rules(make_table(P, y).head)["argmax"].decisions.tolist() == [[2, 1, 2]]
    np.testing.assert_allclose(judge(RULE, P, y).change.before, [[0, 0, 1], [0, 1, 0], [0, 0, 1]])


@pytest.mark.parametrize(
    "metric",
    [confmax.metrics.get("f_beta", beta=2.0), confmax.metrics.get("g_mean"), confmax.metrics.get("h_mean", rho=0.1),
     confmax.metrics.get("quadratic_kappa").over([2, 0, 1]),
     confmax.metrics.get("h_mean", rho=0.1, smoothing="additive"), confmax.metrics.get("f1[b (old), c]"),
     confmax.metrics.get("f_beta[b (old)]", beta=2.0)],
    ids=repr,
)  # fmt: skip
def test_the_metric_that_a_rule_names(metric):
    assert named(repr(metric)) == metric


def test_what_is_no_metric_of_the_catalogue_is_none():
    assert named("linear") is named("mine(f=2)") is named("") is named("f_beta(beta=x)") is None


# --- the rules of the folds are of the kept rule's kind ---------------------------------------------------------------


def freely_tuned(metric, P, y, K=4):
    """Return the solutions of the same folds, each of whatever kind it prefers."""
    fold = folds_to_judge(make_table(P, y).head, 5, 0)
    return [confmax.maximize(metric, P[fold != k], y[fold != k], classes=range(K)) for k in range(5)]


def test_folds_of_a_deterministic_rule_are_deterministic_and_count_whole_rows():
    P, y = sample(250, 4, seed=8, sharp=1.3, sizes=[3, 1, 0.6, 0.4])
    assert all(each.rule.is_randomized for each in freely_tuned("min_recall", P, y))
    found = cross_fit("min_recall", P, y)
    assert not found.evidence.rule.is_randomized
    assert not any(each.rule.is_randomized for each in found.evidence.solutions) and found.single is None
    assert (found.change.after == found.change.after.round()).all() and found.change.after.sum() == 250


def test_folds_are_calibrated_as_the_rule_is():
    P, y = sample(350, 4, seed=2, sharp=1.3, sizes=[3, 1, 0.6, 0.4])
    assert {each.calibration.kind for each in freely_tuned("g_mean", P, y)} == {"none", "temperature"}
    found = cross_fit("g_mean", P, y).evidence
    assert isinstance(found.rule.calibrator, confmax.calibration.Temperature)
    temperatures = [each.rule.calibrator.temperature for each in found.solutions]
    assert len(set(temperatures)) == 5  # fitted without the fold


@pytest.mark.parametrize("calibration", [None, "temperature"])
def test_the_kind_of_a_solution_is_what_makes_it_again(calibration):
    P, y = sample(400, sharp=1.5)
    found = confmax.maximize("macro_f1", P, y, calibration=calibration)
    assert kind_of(found) == {"randomized": False, "calibration": calibration}
    assert confmax.maximize("macro_f1", P, y, **kind_of(found)).rule == found.rule
    chosen = confmax.maximize("macro_f1", P, y)
    assert kind_of(chosen)["calibration"] in ("temperature", "vector")
    given = confmax.maximize("macro_f1", P, y, calibration=confmax.calibration.Temperature(2.0))
    assert kind_of(given) == {"randomized": False}


def test_folds_do_not_depend_on_the_order_of_rows():
    P, y = sample(300)
    order = np.random.default_rng(3).permutation(len(y))
    one, other = cross_fit("g_mean", P, y), cross_fit("g_mean", P[order], y[order])
    np.testing.assert_array_equal(one.evidence.fold[order], other.evidence.fold)
    assert one.main.tuned.value == pytest.approx(other.main.tuned.value, abs=1e-12)


def test_equal_rows_of_a_class_share_their_fold():
    P, y = sample(60)
    found = cross_fit("g_mean", np.repeat(P, 3, axis=0), np.repeat(y, 3))
    assert (found.evidence.fold.reshape(-1, 3) == found.evidence.fold[::3, None]).all()
