"""The way from argmax to a rule: its ends are argmax and the rule, in every row and in every statistic."""

import numpy as np
import pytest

import confmax
from confmax.calibration.thresholds import class_cut, cuts
from confmax.confusion import Gains
from confmax.evaluate.trade_off import reduced_path
from confmax.optimize.class_cuts import class_gains
from confmax.oracle import decide
from tests.report_helpers import sample

STEPS = np.array([0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5])
PLACES = ("f1[0]", "f1[2]", "f1[3]", "precision[1]", "recall[1]", "specificity[1]")


def last_argmax(P):
    return P.shape[1] - 1 - P[:, ::-1].argmax(axis=1)


@pytest.mark.filterwarnings("ignore:.* of one class alone is largest:UserWarning")
@pytest.mark.parametrize("metric", [*PLACES, "macro_f1", "g_mean", "cohen_kappa", "mcc"])
@pytest.mark.parametrize(("calibration", "rounded"), [(None, True), ("temperature", False), ("vector", True)])
def test_the_ends_are_argmax_and_the_rule(metric, calibration, rounded):
    P, y = sample(500, 4, sharp=0.7)
    if rounded:
        P = np.round(P * 8) + 1
        P /= P.sum(axis=1, keepdims=True)
    rule = confmax.maximize(metric, P, y, calibration=calibration, randomized=False).rule
    Q = P if rule.calibrator is None else np.asarray(rule.calibrator.transform(P))
    if rule.gains.full is not None:
        pytest.skip("a rule with a table of gains")
    decided = decide(Q, reduced_path(rule.gains, STEPS))
    np.testing.assert_array_equal(decided[0], last_argmax(Q))
    np.testing.assert_array_equal(decided[4], rule.predict_index(P))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [0, 3])
@pytest.mark.parametrize("cut", [-np.inf, 0.1, 0.7, np.inf])
def test_the_way_of_one_class_is_one_way(k, cut, dtype):
    """Each row changes once to or from the class at most; the others are always decided by their probability."""
    P = sample(800, 4)[0].astype(dtype)
    a, b = np.full(4, 2.0**-68), np.zeros(4)
    a[k], b[k] = (2.0, -2 * cut) if np.isfinite(cut) else (0.0, -np.sign(cut))
    gain = Gains.reduced(a, b)
    assert class_cut(gain) == (k, cut)
    decided = decide(P, reduced_path(gain, np.linspace(0.0, 1.5, 31)))
    others = np.where(np.arange(4) == k, -1.0, P)
    for row in decided:
        np.testing.assert_array_equal(row[row != k], others.argmax(axis=1)[row != k])
    mine = decided == k
    assert (np.count_nonzero(mine[1:21] != mine[:20], axis=0) <= 1).all()
    at_one = P[:, k] >= cut
    np.testing.assert_array_equal(mine[20], at_one)
    beyond = np.isfinite(cut) and (cut / (1 - cut)) ** 1.5
    if np.isfinite(cut):
        clear = np.abs(P[:, k] - beyond / (1 + beyond)) > 1e-6
        np.testing.assert_array_equal(mine[30][clear], (P[:, k] >= beyond / (1 + beyond))[clear])
        assert (mine[30] >= mine[20]).all() if cut < 0.5 else (mine[30] <= mine[20]).all()


def test_which_gains_are_a_cut_on_one_class():
    tiny = 2.0**-70
    for a, b, expected in (
        ([tiny, 1.0, tiny], [0.0, -0.25, 0.0], (1, 0.25)),
        ([tiny, tiny, 1.0], [-tiny, -tiny, -0.5], (2, 0.5)),
        ([4.0, 2 * tiny, 2 * tiny], [3.0, 4.0, 4.0], (0, 0.25)),
        ([0.0, tiny, tiny], [1.0, 0.0, 0.0], (0, -np.inf)),
        ([tiny, 1.0, 2 * tiny], [0.0, 0.0, 0.0], None),
        ([tiny, 1.0, tiny], [0.0, -0.25, 0.1], None),
        ([0.0, 1.0, 0.0], [0.0, -0.25, 0.0], None),
        ([tiny, -1.0, tiny], [0.0, 0.25, 0.0], None),
        ([1.0, 1.0, 1.0], [0.0, 0.0, 0.0], None),
        ([1.0, 2.0, 1.0], [0.0, 0.0, 0.0], None),
        ([tiny, 1.0], [0.0, -0.25], None),
    ):
        assert class_cut(Gains.reduced(a, b)) == expected
    assert class_cut(Gains.from_matrix(np.eye(3))) is None


@pytest.mark.parametrize("k", [0, 1])
@pytest.mark.parametrize("cut", [0.02, 0.45, 0.9])
def test_a_threshold_of_two_classes_moves_from_argmax_to_its_own(k, cut):
    """The scores of the other class are next to nothing: their logarithms would decide everything alike."""
    found = np.array(cuts(reduced_path(class_gains(np.array([cut]), k, 2), STEPS), None, k))
    assert found[STEPS == 0.0] == pytest.approx(0.5) and found[STEPS == 1.0] == pytest.approx(cut)
    away = np.diff(found) * np.sign(cut - 0.5)
    assert (away > 0.0).all()
