"""The most likely class shares: by other algorithms, by enumeration, and in every storage."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array

from confmax.shift import likelihood as about
from confmax.shift.likelihood import Likelihood, from_sample, most_likely
from confmax.tables import make_table
from tests.parts_helpers import cut
from tests.shift_helpers import rows


def log_likelihood(P, pi, counts, weight=None):
    """Return the function of shares that is to be largest, in NumPy."""
    R = (P + about.FLOOR) / pi

    def value(q):
        each = np.log(R @ q)
        return (each if weight is None else each * weight).sum() + (counts * np.log(np.maximum(q, 1e-300))).sum()

    return value


@pytest.mark.parametrize("K", [2, 3, 7])
@pytest.mark.parametrize(("counted", "weighted"), [(True, False), (False, True)])
def test_the_most_likely_shares_are_those_of_another_algorithm(K, counted, weighted):
    P, _ = rows(K, 150, seed=K)
    rng = np.random.default_rng(K)
    pi = rng.dirichlet(np.full(K, 5.0))
    counts = rng.integers(0, 4, K).astype(float) if counted else np.zeros(K)
    weight = rng.random(150) if weighted else None
    found = most_likely(Likelihood.of(make_table(P, None, weight), pi).with_counts(counts), tol=1e-9)
    worth = None if weight is None else weight * (weight.sum() / (weight**2).sum())
    value = log_likelihood(P, pi, counts, worth)
    q = np.full(K, 1.0 / K)
    for _ in range(20_000):
        R = P / pi
        f = (R @ q)[:, None]
        q = q * (R / f if worth is None else worth[:, None] * R / f).sum(axis=0) + counts
        q = q / q.sum()
    assert found.value == pytest.approx(value(found.shares), abs=1e-8)
    assert value(found.shares) >= value(q) - 1e-7
    assert np.abs(found.shares - q).sum() < 1e-3


def test_no_shares_on_a_grid_are_better_than_the_certificate_says():
    rng = np.random.default_rng(0)
    grid = np.array([c for c in itertools.product(range(11), repeat=3) if sum(c) == 10]) / 10.0
    for seed in range(40):
        n = int(rng.integers(1, 8))
        P = rng.dirichlet(np.full(3, 0.3), n)
        pi = rng.dirichlet(np.ones(3)) + 0.01
        counts = rng.integers(0, 2, 3).astype(float)
        value = log_likelihood(P, pi, counts)
        at = np.where((grid > 0).all(axis=1) | (counts == 0).all(), [value(q) for q in grid], -np.inf)
        for tol in (10.0, 0.01):
            found = most_likely(Likelihood.of(make_table(P), pi).with_counts(counts), tol=tol)
            assert at.max() <= found.value + found.gap + 1e-9, seed
            assert found.gap <= tol
        best = minimize(lambda z, value=value: -value(np.exp(z) / np.exp(z).sum()), np.zeros(3), method="BFGS")
        assert -best.fun <= found.value + found.gap + 1e-6


def test_many_rows_and_classes():
    P, _ = rows(10, 60_000)
    pi = P.mean(axis=0)
    table = make_table(P.astype(np.float32))
    start = from_sample(table, pi)
    found = most_likely(Likelihood.of(table, pi), start)
    assert found.gap <= about.TOL and found.n_passes <= 5
    alone = most_likely(Likelihood.of(table, pi), tol=1e-6)
    assert np.abs(found.shares - alone.shares).sum() < 1e-3
    assert np.abs(found.shares - pi).sum() < 0.05
    P, _ = rows(250, 4000, sharp=0.01)
    found = most_likely(Likelihood.of(make_table(P), P.mean(axis=0)))
    assert found.gap <= about.TOL


def test_every_storage_says_the_same(monkeypatch):
    P, _ = rows(4, 500)
    P[P < 0.02] = 0.0
    P /= P.sum(axis=1, keepdims=True)
    weight = np.random.default_rng(0).random(500)
    pi = np.array([0.4, 0.3, 0.2, 0.1])
    wanted = most_likely(Likelihood.of(make_table(P, None, weight), pi), tol=1e-9).shares
    sparse = most_likely(Likelihood.of(make_table(csr_array(P), None, weight), pi), tol=1e-9).shares
    np.testing.assert_allclose(sparse, wanted, atol=1e-6)
    monkeypatch.setattr(about, "CACHED", 0)
    monkeypatch.setattr(about, "ROWS", 64)
    blocks = most_likely(Likelihood.of(make_table(P, None, weight), pi), tol=1e-9).shares
    np.testing.assert_allclose(blocks, wanted, atol=1e-6)
    dask = pytest.importorskip("dask.array")
    parts = make_table(dask.from_array(P, chunks=(120, 4)), None, dask.from_array(weight, chunks=120))
    found = most_likely(Likelihood.of(parts, pi), from_sample(parts, pi), tol=1e-9).shares
    np.testing.assert_allclose(found, wanted, atol=1e-6)


@pytest.mark.parametrize("way", ["dense", "sparse", "counted", "in parts"])
def test_many_classes_take_steps_without_second_derivatives(monkeypatch, way):
    P, _ = rows(6, 400, sharp=0.2)
    P[P < 1e-3] = 0.0
    P /= P.sum(axis=1, keepdims=True)
    pi = np.array([0.5, 0.3, 0.1, 0.05, 0.03, 0.02])
    counts = np.arange(6.0) * (way == "counted")
    given = {"sparse": csr_array(P), "in parts": cut(P, at=(150, 300))}.get(way, P)
    likelihood = Likelihood.of(make_table(given), pi).with_counts(counts)
    wanted = most_likely(likelihood, tol=1e-8)
    monkeypatch.setattr(about, "BY_NEWTON", 2)
    found = most_likely(likelihood, tol=1e-8)
    assert likelihood.at(found.shares, bends=False).bends is None and 0.0 <= found.gap <= 1e-8
    assert found.value == pytest.approx(log_likelihood(P, pi, counts)(found.shares), abs=1e-6)
    assert found.value == pytest.approx(wanted.value, abs=1e-7)
    np.testing.assert_allclose(found.shares, wanted.shares, atol=1e-4)


def test_without_a_maximum_of_the_quadratic_model_a_step_is_one_of_expectation_maximisation(monkeypatch):
    P, _ = rows(3, 150)
    pi = np.array([0.5, 0.3, 0.2])
    likelihood = Likelihood.of(make_table(P), pi)
    wanted = most_likely(likelihood, tol=1e-8)

    def fails(*_, **__):
        raise RuntimeError("Maximum number of iterations reached.")

    monkeypatch.setattr("scipy.optimize.nnls", fails)
    found = most_likely(likelihood, tol=1e-5)
    assert 0.0 <= found.gap <= 1e-5 and found.n_passes > wanted.n_passes
    np.testing.assert_allclose(found.shares, wanted.shares, atol=2e-3)
