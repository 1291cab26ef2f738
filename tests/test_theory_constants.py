"""The constants of the smoothed metrics: suprema that are attained, and which of the printed ones are false."""

import itertools

import numpy as np
import pytest

from confmax import metrics
from confmax.confusion import Confusion
from confmax.theory import (
    bayes_cg_bound,
    smoothed_bound,
    smoothing_constants,
)

MEANS = ("h_mean", "q_mean", "g_mean")
FORMS = ("tightened", "printed")


def smoothed(name, rho):
    return metrics.get(name, rho=rho, smoothing="additive")


def extreme_points(K, rho):
    """Return the matrices at which the errata's suprema are attained: one small row, the others without errors."""
    sizes = [0.0, rho * (K - 2), rho * K / 2, rho * K]
    for missed in sizes:
        C = np.diag(np.r_[0.0, np.full(K - 1, (1 - missed) / (K - 1))])
        C[0, 1] = missed
        yield C


@pytest.mark.parametrize("name", MEANS)
@pytest.mark.parametrize("K", [2, 3, 5, 10])
def test_lipschitz_smoothness_and_plug_in_are_suprema(name, K):
    """E11: gradients and their differences stay below L, beta and plug_in, and come within 3 % of each."""
    rho, step = 0.005, 1e-8
    metric, known = smoothed(name, rho), smoothing_constants(name, rho, np.full(K, 1 / K))
    rng = np.random.default_rng(K)
    points = [*extreme_points(K, rho), *rng.dirichlet(np.full(K * K, 0.2), 30).reshape(-1, K, K)]
    slope = spread = bend = 0.0
    for C in points:
        G = metric.gradient(C)
        slope, spread = max(slope, np.abs(G).max()), max(spread, np.ptp(G, axis=1).max() / 2)
        for i, j in itertools.product(range(2), range(K)):
            moved = C.copy()
            moved[i, j] += step
            bend = max(bend, np.abs(metric.gradient(moved) - G).max() / step)
    for found, constant in [(slope, known.lipschitz), (bend, known.smoothness), (spread, known.plug_in)]:
        assert 0.97 * constant <= found <= constant * (1 + 1e-5)


@pytest.mark.parametrize("name", MEANS)
def test_theta_is_attained(name):
    """E8, E9: at the classifiers named there psi and psi_rho differ by theta."""
    for K, rho in [(2, 0.01), (4, 0.05), (3, 0.001)]:
        pi = np.arange(1.0, K + 1) / np.arange(1.0, K + 1).sum()
        recall = np.ones(K)
        if name != "q_mean":
            recall[0] = 0.0  # the smallest class is never right
        C = np.diag(recall * pi)
        C[0, 1] += pi[0] - C[0, 0]
        differ = abs(smoothed(name, rho).value(C) - metrics.get(name).value(C))
        assert differ == pytest.approx(smoothing_constants(name, rho, pi).theta, rel=1e-9)


@pytest.mark.parametrize("name", MEANS)
@pytest.mark.parametrize("seed", range(5))
def test_curvature_bounds_the_curvature_constant(name, seed):
    """E16: 2/gamma^2 times the distance below the tangent stays below C_psi, which is at most 4 beta."""
    rng = np.random.default_rng(seed)
    K, rho = int(rng.integers(2, 5)), float(rng.choice([0.3, 0.05]))
    pi = rng.dirichlet(np.ones(K) * 3)
    metric, known = smoothed(name, rho), smoothing_constants(name, rho, pi)
    assert known.curvature <= 4 * known.smoothness
    worst = 0.0
    for _ in range(300):
        D1, D2 = (rng.choice([0.0, 1.0, rng.random()], K) * pi for _ in range(2))
        gamma = rng.choice([0.01, 0.3, 1.0])
        first = metric.at(Confusion(pi, D1, pi))
        there = float(metric.at(Confusion(pi, D1 + gamma * (D2 - D1), pi)).value)
        tangent = float(first.value) + gamma * float(first.diagonal @ (D2 - D1))
        worst = max(worst, 2 / gamma**2 * (tangent - there))
    assert 0 < worst <= known.curvature * (1 + 1e-6)


def test_curvature_is_the_erratas():
    pi, rho = [0.3, 0.7], 0.1
    assert smoothing_constants("h_mean", rho, pi).curvature == pytest.approx(50.0)
    assert smoothing_constants("q_mean", rho, pi).curvature == pytest.approx(2 / (3 * 6**0.5 * 0.1 * 0.4))
    expected = max(0.25 * 0.1**-1.5 * 0.4**-0.5, 0.25 * 0.1**-1 * 0.4**-1)
    assert smoothing_constants("g_mean", rho, pi).curvature == pytest.approx(expected)


def test_printed_constants_are_table_2():
    pi, rho = [0.2, 0.3, 0.5], 0.1
    h, q, g = (smoothing_constants(name, rho, pi, form="printed") for name in MEANS)
    assert h[:3] == pytest.approx((3 * 0.1 / 0.2, 30.0, 600.0))
    assert q[:3] == pytest.approx((0.1 / (0.2 * 3**0.5), 10 / 3**0.5, 2 / 3**0.5 * 100 * 11))
    assert g[:3] == pytest.approx((2 * 0.1 ** (1 / 3), 10 / 3 * 11 ** (2 / 3), 1000 / 9 * 11 ** (1 / 3)))
    assert h.plug_in is None and h.curvature is None


@pytest.mark.parametrize(
    ("K", "threshold"), [(2, 0.333), (3, 0.383), (5, 0.367), (10, 0.296), (30, 0.184), (100, 0.102)]
)
def test_printed_beta_of_the_g_mean_is_false_above_the_erratas_thresholds(K, threshold):
    """E10."""
    pi = np.full(K, 1 / K)
    assert "smoothness" in smoothing_constants("g_mean", threshold + 1e-3, pi, form="printed").false
    assert "smoothness" not in smoothing_constants("g_mean", threshold - 1e-3, pi, form="printed").false


def test_printed_theta_is_false_where_the_errata_say():
    """E8 (balanced classes, small rho), E9 (exactly where pi_min + rho < 2^-K); the H-mean's never is."""
    for K, rho in [(2, 0.01), (10, 0.001)]:
        assert smoothing_constants("q_mean", rho, np.full(K, 1 / K), form="printed").false == ("theta",)
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(200):
        K, rho = int(rng.integers(2, 6)), float(10 ** rng.uniform(-4, -1))
        pi = rng.dirichlet(np.ones(K))
        found = "theta" in smoothing_constants("g_mean", rho, pi, form="printed").false
        assert found == (pi.min() + rho < 2.0**-K)
        assert not smoothing_constants("h_mean", rho, pi, form="printed").false
        seen.add(found)
    assert seen == {True, False}


def test_bounds_are_not_made_of_false_constants():
    printed = smoothing_constants("q_mean", 0.01, [0.5, 0.5], form="printed")
    with pytest.raises(ValueError, match=r"the printed theta is below the true supremum .* use smoothing_constants"):
        smoothed_bound(printed, 0.1, m=1000, n_classes=2)
    assert bayes_cg_bound(printed, 0.1, m=1000, n_classes=2).is_vacuous  # theta does not enter Theorem 10
    printed = smoothing_constants("g_mean", 0.5, [0.5, 0.5], form="printed")
    with pytest.raises(ValueError, match="the printed smoothness is below"):
        bayes_cg_bound(printed, 0.1, m=1000, n_classes=2)
