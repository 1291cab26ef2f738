"""Whether any class shares explain the rows: other shares are no misfit, and other rows are."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import confmax
from confmax.shift.priors import UNLIKE, misfit
from confmax.shift.source import source_of
from tests.shift_helpers import of_shares, rows


@pytest.fixture(scope="module")
def jobs():
    """Return a solution, its tuning rows, and rows of a large population with their classes, all calibrated."""
    P, y = rows(4, 20_000)
    return confmax.maximize("accuracy", P[:4000], y[:4000], calibration=None), (P[:4000], y[:4000]), P[4000:], y[4000:]


def test_other_shares_are_no_misfit_and_other_rows_are(jobs):
    solution, tuned_on, Q, z = jobs
    rng = np.random.default_rng(0)
    shares, doubtful = [], []
    for _ in range(20):
        new, _ = of_shares(Q, z, rng.dirichlet(np.ones(4)) * 0.9 + 0.025, 500)
        shares.append(confmax.shift.estimate_priors(new, solution, tuned_on=tuned_on).misfit)
        weight = (1.0 - Q.max(axis=1)) ** 2
        other = Q[rng.choice(len(Q), 1000, p=weight / weight.sum())]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            doubtful.append(confmax.shift.estimate_priors(other, solution, tuned_on=tuned_on).misfit)
    assert np.mean(np.array(shares) < 0.05) <= 0.15
    assert np.mean(np.array(doubtful) < 0.01) >= 0.9
    with pytest.warns(UserWarning, match="these rows do not look like the tuning rows with other class shares"):
        solution.adapt(other, tuned_on=tuned_on)
    found = confmax.shift.detect(other, solution, tuned_on=tuned_on)
    assert "rows of a class look otherwise than those of the tuning, so that the class shares may be" in found.sentence
    assert "rows of a class" not in confmax.shift.detect(other, solution).p_values


def test_rows_are_unlike_at_the_level_of_the_warning_and_no_p_value_stands_beside_its_adjusted_form(jobs):
    solution, tuned_on, Q, z = jobs
    new, _ = of_shares(Q, z, [0.1, 0.2, 0.3, 0.4], 500)
    plain = confmax.shift.detect(new, solution, tuned_on=tuned_on)
    for p_value, unlike in ((0.021, False), (0.0101, False), (0.0099, True)):
        found = replace(plain, shares=replace(plain.shares, misfit=p_value))
        assert ("rows of a class" in found.sentence) == unlike == (p_value < UNLIKE)
        assert found.changed and "the class shares of these 500 rows have moved: " in found.sentence
        assert "p = " not in found.sentence and "(p = " in found.shares.sentence
    # all tests together keep the level: a fifth of it is for this one
    assert found.p_values["class shares"] == pytest.approx(2 * found.shares.p_value / 0.8, rel=1e-6)
    assert "rows of a class" not in replace(found, level=0.04).sentence


def test_without_the_tuning_rows_it_is_not_tested(jobs):
    solution, _, Q, _ = jobs
    assert confmax.shift.estimate_priors(Q[:500], solution).misfit is None


def test_the_misfit_counts_weights_as_repeated_rows(jobs):
    solution, (P, y), Q, _ = jobs
    weight = np.random.default_rng(1).integers(1, 4, 600)
    weighted = confmax.shift.estimate_priors(Q[:600], solution, sample_weight=weight, tuned_on=(P, y)).misfit
    assert 0.0 < weighted < 1.0
    twice = confmax.shift.estimate_priors(Q[:600], solution, sample_weight=2 * weight, tuned_on=(P, y)).misfit
    assert weighted == pytest.approx(twice)


@pytest.mark.parametrize(("K", "n"), [(2, 1), (3, 3), (3, 20), (8, 30)])
def test_few_rows_of_the_same_population_are_seldom_a_misfit(K, n):
    P, y = rows(K, 4000)
    solution = confmax.maximize("accuracy", P[:1000], y[:1000], calibration=None)
    held = source_of(solution, (P[:1000], y[:1000]))
    found = [misfit(held.table(P[at : at + n]), held, held.shares.meant) for at in range(1000, 4000, 3000 // 60)]
    assert np.mean([p is not None and p < 0.05 for p in found]) <= 0.15
