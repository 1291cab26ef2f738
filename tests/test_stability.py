"""The 16th digit of a probability, and one row in another fold, do not change what kind of rule one gets."""

import numpy as np
import pytest

import confmax
from confmax.oracle import make_table


def kind_of(solution):
    """Return what must not change: kind of calibration, drawing or not, calibrator applied or not."""
    return solution.calibration.kind, solution.rule.is_randomized, solution.rule.calibrator is not None


def parameters(calibrator):
    """Return the numbers of a calibrator as one array."""
    if calibrator is None:
        return np.zeros(0)
    return np.concatenate([np.ravel(getattr(calibrator, name)) for name in calibrator.numbers])


def same(one, other, P):
    """Whether two solutions are alike: kind, parameters, and decision probabilities on all but near-ties."""
    if kind_of(one) != kind_of(other):
        return False
    mine, theirs = parameters(one.calibration.calibrator), parameters(other.calibration.calibrator)
    if not np.allclose(mine, theirs, rtol=1e-6, atol=1e-6):
        return False
    off = np.abs(one.rule.decision_probabilities(P) - other.rule.decision_probabilities(P)).max(axis=1) > 1e-3
    return off.mean() <= 1e-3


def on_the_edge(seed, n=300):
    """A table on which calibrating pays as much as chance would have it: the choice depends on the folds."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet([2.0, 1.0, 0.7], n)
    y = (1.2 * np.log(P) + rng.gumbel(size=P.shape)).argmax(axis=1)
    return P, y


@pytest.mark.parametrize(("metric", "seed"), [("macro_f1", 0), ("g_mean", 1)])
def test_the_sixteenth_digit_changes_nothing(metric, seed):
    """Relative perturbations of 1e-13, and rounding to float32: kind, calibration and decisions are the same."""
    P, y = on_the_edge(seed)
    plain, rng = confmax.maximize(metric, P, y), np.random.default_rng(seed)
    tables = [P * (1 + 1e-13 * rng.normal(size=P.shape)) for _ in range(2)] + [P.astype(np.float32)]
    for table in tables:
        assert same(plain, confmax.maximize(metric, table, y), P)


@pytest.mark.parametrize(("metric", "seed"), [("g_mean", 8), ("h_mean", 23), ("q_mean", 5)])
def test_a_row_that_ties_at_the_best_gain_falls_to_one_side(metric, seed):
    """The optimum of the dual lies where rows tie; each of these tables gave another single rule by the last digit."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(6, 0.7) * np.linspace(1, 3, 6), 200)
    decided = confmax.maximize(metric, P, randomized=False).predict(P)
    for _ in range(3):
        again = confmax.maximize(metric, P * (1 + 1e-13 * rng.normal(size=P.shape)), randomized=False)
        np.testing.assert_array_equal(again.predict(P), decided)


def test_rows_off_by_a_rounding_are_the_same_rows():
    """A float32 table cast to float64 and divided by its sums in either precision."""
    P, y = on_the_edge(3, 500)
    narrow = P.astype(np.float32)
    wide = narrow.astype(np.float64)
    one, other = confmax.maximize("macro_f1", narrow, y), confmax.maximize("macro_f1", wide, y)
    assert same(one, other, P)
    one, other = make_table(narrow, y), make_table(wide, y)
    np.testing.assert_array_equal(one.head.row_hashes(), other.head.row_hashes())
