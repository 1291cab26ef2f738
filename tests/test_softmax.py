"""Exponential, logarithm and softmax against extended precision, and the sums over rows against scipy."""

import numpy as np
import pytest
from scipy.special import log_softmax

from confmax.calibration.scaling import Sample, log_table, row_losses
from confmax.kernels.softmax import ROWS, exp_all, log_all, scaled_rows, softmax_rows, weighted_sum


def ulps(found, exact):
    """Return how far numbers are from exact ones (extended precision), in units of their last place."""
    return np.abs((found - exact) / np.spacing(np.abs(exact).astype(np.float64))).astype(np.float64)


def test_exponentials_are_within_two_ulp():
    rng = np.random.default_rng(0)
    parts = (rng.uniform(-708, 709, 50_000), rng.normal(0, 3, 50_000), rng.uniform(-1e-9, 1e-9, 1000), [0.0, -0.0])
    x = np.concatenate([*parts, np.arange(-1000, 1000) * np.log(2) / 2])
    x = x[(x >= -708) & (x <= 709)]
    found = x.copy()
    exp_all(found)
    assert ulps(found, np.exp(x.astype(np.longdouble))).max() <= 2.0
    assert found[x == 0.0].tolist() == [1.0] * int((x == 0.0).sum())


def test_exponentials_vanish_far_below_zero():
    x = np.array([-708.1, -1e4, -1e300, -np.inf])
    exp_all(x)
    assert x.tolist() == [0.0] * 4


def test_exponentials_never_fall():
    x = np.sort(np.random.default_rng(1).normal(-1, 2, 200_000))
    found = x.copy()
    exp_all(found)
    assert (np.diff(found) >= -np.spacing(found[1:])).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logarithms_are_within_two_ulp(dtype):
    rng = np.random.default_rng(0)
    parts = (rng.random(50_000), 10.0 ** rng.uniform(-30, 0, 50_000), 1 + rng.uniform(-1e-6, 1e-6, 5000))
    p = np.concatenate([*parts, [1.0, 0.5, 2.0, np.sqrt(0.5), np.sqrt(2.0)]]).astype(dtype)
    found = np.empty(len(p))
    log_all(p, 1e-300, found)
    exact = np.log(p.astype(np.longdouble))
    assert ulps(found[exact != 0], exact[exact != 0]).max() <= 2.0
    assert (found[exact == 0] == 0.0).all()
    log_all(np.zeros(3, dtype), 1e-12, found[:3])
    np.testing.assert_allclose(found[:3], np.log(1e-12), rtol=1e-15)


@pytest.mark.parametrize("K", [1, 2, 3, 4, 5, 7, 8, 20, 33])
@pytest.mark.parametrize("n", [1, 5, ROWS])
def test_softmax_of_listed_rows(K, n):
    rng = np.random.default_rng([K, n])
    z, a, b = rng.normal(0, 20, (50, K)), rng.uniform(0.1, 3, K), rng.normal(0, 1, K)
    rows = rng.permutation(50)[:ROWS]
    q, log_total = np.full((ROWS, K), np.nan), np.full(ROWS, np.nan)
    softmax_rows(z, rows, n, a, b, q, log_total)
    scores = a * z[rows[:n]] + b
    np.testing.assert_allclose(q[:n], np.exp(log_softmax(scores, axis=1)), rtol=1e-13, atol=1e-300)
    np.testing.assert_allclose(log_total[:n], np.logaddexp.reduce(scores, axis=1), rtol=1e-14)
    assert np.isnan(q[n:]).all() and np.isnan(log_total[n:]).all()


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("K", [1, 3, 4, 9, 32])
def test_weighted_sums(K, power):
    rng = np.random.default_rng(K)
    q, z = rng.random(K), rng.normal(0, 5, K)
    assert np.isclose(weighted_sum(q, z, 0.7, power), (q * (z - 0.7) ** power).sum(), rtol=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, ROWS - 1, ROWS + 1, 5000])
def test_tables_of_any_number_of_rows(n, dtype):
    rng = np.random.default_rng(n)
    P = rng.dirichlet(np.ones(6), n).astype(dtype)
    a, b = rng.uniform(0.5, 2, 6), rng.normal(0, 1, 6)
    z = log_table(P, 1e-6)
    tight = {"rtol": 1e-6 if dtype == np.float32 else 1e-12}
    np.testing.assert_allclose(z, np.log(P.astype(np.float64) + 1e-6), **tight)
    expected = log_softmax(a * np.log(P.astype(np.float64) + 1e-6) + b, axis=1)
    np.testing.assert_allclose(scaled_rows(P, a, b, 1e-6), np.exp(expected), atol=1e-12, **tight)
    y, use = rng.integers(0, 6, n), rng.random(n) < 0.6
    losses = -log_softmax(a * z.astype(np.float64) + b, axis=1)[np.arange(n), y]
    np.testing.assert_allclose(
        row_losses(Sample(z, y, np.ones(n)), np.array([a, b]), use), losses[use], rtol=1e-10, atol=1e-12
    )
