"""Limits and labels: intervals of proportions, and rules that keep limits on labels or a blend."""

import numpy as np
import pytest
from scipy.stats import binom, binomtest

import confmax
from confmax.constraints.proportions import interval


def labelled(n=400, K=4, seed=0):
    """Return probabilities (n, K), and classes (n,) that are drawn by them."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.linspace(0.3, 1.2, K), n)
    return P, (P.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1)


# --- intervals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 7, 60])
def test_intervals_are_those_of_scipy_and_cover(n):
    ends = [interval(met / n, n) for met in range(n + 1)]
    for met, (low, high) in enumerate(ends):
        exact = binomtest(met, n).proportion_ci(method="exact")
        assert (low, high) == pytest.approx((exact.low, exact.high), abs=1e-12)
    for p in np.linspace(0.01, 0.99, 23):
        inside = [low <= p <= high for low, high in ends]
        assert binom.pmf(np.arange(n + 1), n, p)[inside].sum() >= 0.95


def test_expected_counts_are_rounded_outward():
    low, high = interval(0.55, 10)
    assert low == interval(0.5, 10)[0] and high == interval(0.6, 10)[1]
    # a sum of shares is whole up to rounding
    assert interval(0.1 + 0.2, 10) == interval(0.3, 10)


def test_each_proportion_is_a_share_of_its_own_rows():
    P, y = labelled()
    texts = ["recall[1] >= 0.1", "precision[1] >= 0.1", "specificity[1] >= 0.1", "fpr[1] <= 0.9", "rate[1] <= 0.9",
             "accuracy >= 0.1"]  # fmt: skip
    solution = confmax.maximize("accuracy", P, y, constraints=texts, calibration=None)
    yes, true = solution.predict(P) == 1, y == 1
    right = solution.predict(P) == y
    for outcome, met, among in zip(
        solution.constraints, [yes, true, ~yes, yes, yes, right], [true, yes, ~true, ~true, true | ~true, true | ~true],
        strict=True,
    ):  # fmt: skip
        exact = binomtest(int(met[among].sum()), int(among.sum())).proportion_ci(method="exact")
        assert outcome.label_interval == pytest.approx((exact.low, exact.high), abs=1e-12), outcome.text


def test_other_quantities_and_unequal_weights_have_no_interval():
    P, y = labelled()
    given = ["f1[1] >= 0.1", "cohen_kappa >= 0.1", "min_recall >= 0.01", "recall[1] >= 0.1"]
    plain, weighted, equal = (
        confmax.maximize("accuracy", P, y, sample_weight=w, constraints=given, calibration=None, confusion="model")
        for w in (None, np.linspace(1, 2, len(y)), np.full(len(y), 3.0))
    )
    assert [one.label_interval is None for one in plain.constraints] == [True, True, True, False]
    assert all(one.label_interval is None for one in weighted.constraints)
    assert equal.constraints[3].label_interval == plain.constraints[3].label_interval
    without = confmax.maximize("accuracy", P, constraints=given, classes=range(4))
    assert all(one.label_interval is None for one in without.constraints)
