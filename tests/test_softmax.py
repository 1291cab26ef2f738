"""Exponential, logarithm and softmax against extended precision, sums against scipy, kernels against NumPy."""

import numpy as np
import pytest
from scipy.special import log_softmax

from confmax import kernels
from confmax.calibration.scaling import (
    BLOCKS,
    FULL,
    NO_SECOND,
    Sample,
    best_floor,
    derivatives,
    fit_power,
    fit_vector,
    left_out_losses,
    log_table,
    one_power,
    row_losses,
)
from confmax.kernels.softmax import CELLS, exponentials, in_turn, scaled_rows, softmax_rows, write_logs

BLOCK = 32  # rows that a kernel takes at a time


@pytest.fixture
def both(monkeypatch):
    """Return what a function answers by the kernels and by NumPy."""

    def answers(work):
        with monkeypatch.context() as patch:
            patch.setattr(kernels, "native", None)
            by_numpy = work()
        return work(), by_numpy

    return answers


def ulps(found, exact):
    """Return how far numbers are from exact ones (extended precision), in units of their last place."""
    return np.abs((found - exact) / np.spacing(np.abs(exact).astype(np.float64))).astype(np.float64)


def test_exponentials_are_within_two_ulp():
    rng = np.random.default_rng(0)
    parts = (rng.uniform(-708, 709, 50_000), rng.normal(0, 3, 50_000), rng.uniform(-1e-9, 1e-9, 1000), [0.0, -0.0])
    x = np.concatenate([*parts, np.arange(-1000, 1000) * np.log(2) / 2])
    x = x[(x >= -708) & (x <= 709)]
    found = exponentials(x)
    assert ulps(found, np.exp(x.astype(np.longdouble))).max() <= 2.0
    assert found[x == 0.0].tolist() == [1.0] * int((x == 0.0).sum())


def test_exponentials_vanish_far_below_zero():
    x = np.array([-708.1, -1e4, -1e300, -np.inf])
    assert exponentials(x).tolist() == [0.0] * 4


def test_exponentials_never_fall():
    x = np.sort(np.random.default_rng(1).normal(-1, 2, 200_000))
    found = exponentials(x)
    assert (np.diff(found) >= -np.spacing(found[1:])).all()


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logarithms_are_within_two_ulp(dtype):
    rng = np.random.default_rng(0)
    parts = (rng.random(50_000), 10.0 ** rng.uniform(-30, 0, 50_000), 1 + rng.uniform(-1e-6, 1e-6, 5000))
    p = np.concatenate([*parts, [1.0, 0.5, 2.0, np.sqrt(0.5), np.sqrt(2.0)]]).astype(dtype)
    found = np.empty(len(p))
    # in float64, so that the result is not rounded
    write_logs(p.astype(np.float64), 1e-300, found)
    exact = np.log(p.astype(np.longdouble))
    assert ulps(found[exact != 0], exact[exact != 0]).max() <= 2.0
    assert (found[exact == 0] == 0.0).all()
    few = np.empty(3, dtype)
    write_logs(np.zeros(3, dtype), 1e-12, few)
    np.testing.assert_allclose(few, np.log(1e-12), rtol=1e-15 if dtype == np.float64 else 1e-7)


@pytest.mark.parametrize("K", [1, 2, 3, 4, 5, 7, 8, 20, 33])
@pytest.mark.parametrize("n", [1, 5, 50])
def test_softmax_of_rows(K, n):
    scores = np.random.default_rng([K, n]).normal(0, 20, (n, K))
    q, log_total = softmax_rows(scores)
    np.testing.assert_allclose(q, np.exp(log_softmax(scores, axis=1)), rtol=1e-13, atol=1e-300)
    np.testing.assert_allclose(log_total, np.logaddexp.reduce(scores, axis=1), rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("K", [1, 3, 4, 9, 34])
def test_sums_in_turn_are_those_of_a_loop(K):
    x = np.random.default_rng(K).random((7, K))
    found = in_turn(x)
    for row, total in zip(x, found, strict=True):
        sums = [0.0] * 4
        for k, number in enumerate(row):
            sums[k % 4 if k < K - K % 4 else 0] += number
        assert total == (sums[0] + sums[1]) + (sums[2] + sums[3])
        assert in_turn(row[None]) == total


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, BLOCK - 1, BLOCK + 1, 5000])
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


# --- kernels against NumPy --------------------------------------------------------------------------------------------


def sample(n, K, dtype, seed=0, used=0.7):
    rng = np.random.default_rng([n, K, seed])
    P = rng.dirichlet(np.full(K, 0.2), n).astype(dtype)
    P[0] = np.eye(K)[0]
    w = rng.random(n) * (rng.random(n) < used)
    return P, Sample(log_table(P, 1e-9), rng.integers(0, K, n), w), rng.normal(1, 1, (2, K))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("K", [2, 5, 9, 64, 129])
@pytest.mark.parametrize("n", [1, 2, BLOCK - 1, BLOCK, 3 * BLOCK + 9])
def test_probabilities_and_losses_are_the_same_bits(n, K, dtype, both):
    P, rows, theta = sample(n, K, dtype)
    for scale in (1.0, 60.0):
        by_kernel, by_numpy = both(lambda scale=scale: scaled_rows(P, scale * theta[0], theta[1], 1e-6))
        assert by_kernel.dtype == dtype
        assert by_kernel.tobytes() == by_numpy.tobytes()
    for work in (lambda: log_table(P, 1e-9), lambda: row_losses(rows, theta, rows.weight > 0)):
        by_kernel, by_numpy = both(work)
        assert by_kernel.tobytes() == by_numpy.tobytes()


def test_exponentials_of_kernels_are_the_same_bits_everywhere(both):
    """The first class has score 0, the second one any at all."""
    rng = np.random.default_rng(0)
    P = np.stack([np.ones(200_000), np.exp(rng.uniform(-30, 0, 200_000))], axis=1)
    for power in (1.0, 30.0):
        by_kernel, by_numpy = both(lambda power=power: scaled_rows(P, np.full(2, power), np.zeros(2), 1e-300))
        assert by_kernel.tobytes() == by_numpy.tobytes()


@pytest.mark.usefixtures("form")
def test_rows_do_not_depend_on_their_neighbours():
    P = sample(CELLS // 16, 20, np.float64)[0]
    a, b = np.full(20, 1.3), np.zeros(20)
    whole = scaled_rows(P, a, b, 1e-6)
    for k in (0, 1, 40, len(P) - 1):
        assert scaled_rows(P[k : k + 1], a, b, 1e-6).tobytes() == whole[k].tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "K"), [(1, 3), (33, 2), (5000, 5), (400, 17), (260, 64), (200, 129)])
def test_sums_agree(n, K, dtype, both):
    _, rows, theta = sample(n, K, dtype)
    for order in (NO_SECOND, BLOCKS, FULL):
        for by_kernel, by_numpy in zip(*both(lambda order=order: derivatives(rows, theta, order)), strict=True):
            np.testing.assert_allclose(by_kernel, by_numpy, rtol=0, atol=1e-11 * np.abs(by_numpy).max(initial=0.0))


@pytest.mark.parametrize("K", [2, 6, 130])
def test_fits_agree(K, both):
    P, rows, _ = sample(700, K, np.float64, used=1.0)
    one = one_power(1.0, K)
    np.testing.assert_allclose(*both(lambda: fit_power(rows)), rtol=1e-12)
    np.testing.assert_allclose(*both(lambda: fit_vector(rows, one)), rtol=0, atol=1e-11)
    assert len(set(both(lambda: best_floor(P, rows.labels, rows.weight)))) == 1
    if K < 100:
        group = np.arange(700) // 2
        np.testing.assert_allclose(*both(lambda: left_out_losses(rows, one, group, common=False)), rtol=1e-9)
