"""Curvature and Newton's step on the dual: against a set whose support function is known, and on a large table."""

import numpy as np
import pytest

import confmax
from confmax.optimize import warm as _warm
from confmax.optimize.points import Space
from confmax.optimize.query import DualQueries, newton_gain


class Ellipsoid:
    """The set ``centre + M u`` with ``|u| <= 1``: ``h(g) = <g, centre> + |M^T g|``."""

    def __init__(self, seed, d, size=0.05):
        rng = np.random.default_rng(seed)
        self.centre = 1.0 / d * rng.uniform(0.4, 0.6, d)
        self.M = size / d * (np.eye(d) + 0.3 * rng.standard_normal((d, d)))

    def answers(self, gains):
        along = gains @ self.M
        return self.centre + along / np.linalg.norm(along, axis=1, keepdims=True) @ self.M.T

    def second_derivative(self, gain):
        along = self.M.T @ gain
        length = np.linalg.norm(along)
        unit = along / length
        return self.M @ (np.eye(len(gain)) - np.outer(unit, unit)) @ self.M.T / length


@pytest.mark.parametrize(("name", "seed"), [("g_mean", 6)])
def test_copies_of_few_rows_take_few_more_passes_after_a_sample(name, seed, monkeypatch):
    """A sample of other rows misleads for a few rounds at most."""
    rng = np.random.default_rng(seed)
    K, m = int(rng.integers(8, 25)), int(rng.integers(40, 300))
    base = rng.dirichlet(np.full(K, 0.5), m)
    P = base[rng.integers(0, m, 120_000)].astype(np.float32)
    settings = {"confusion": "model", "randomized": True, "solver": "fully_corrective"}
    found = confmax.maximize(name, P, **settings)
    monkeypatch.setattr(_warm, "LARGE", 10**9)
    without = confmax.maximize(name, P, **settings)
    assert found.n_passes <= without.n_passes + 3 and 0 <= found.gap <= 1e-6


@pytest.mark.parametrize("name", ["g_mean", "h_mean", "q_mean"])
@pytest.mark.parametrize("seed", range(1))
def test_newtons_step_with_the_curvature_closes_in_on_the_best_gain(name, seed):
    d = 6
    body, rows = Ellipsoid(seed, d), np.full(d, 1.0 / d)
    space = Space(confmax.metrics.get(name), rows, d)
    best = np.random.default_rng(seed).uniform(0.8, 1.2, d)

    def distance(gain):
        slope = space.gradient(body.answers(gain[None])[0])
        return np.linalg.norm(slope / np.linalg.norm(slope) - gain / np.linalg.norm(gain))

    before = distance(best)
    for _ in range(3):
        answer = body.answers(best[None])
        asked = DualQueries(best[None], answer, body.second_derivative(best) * np.linalg.norm(best))
        slope = space.gradient(answer[0])
        best = newton_gain(space, asked, best * np.linalg.norm(slope) / np.linalg.norm(best), answer[0], slope)
    assert distance(best) < 1e-6 < 1e-3 * before


@pytest.mark.parametrize("name", ["g_mean", "h_mean", "q_mean"])
def test_a_sample_saves_passes_and_changes_no_result(name, monkeypatch):
    rng = np.random.default_rng(0)
    n, K = 120_000, 20
    prior = 50.0 ** (-np.arange(K) / K)
    scores = 1.2 * rng.standard_normal((n, K), dtype=np.float32) + np.log(prior / prior.sum()).astype(np.float32)
    P = np.exp(scores)
    P /= P.sum(axis=1, keepdims=True)
    settings = {"confusion": "model", "calibration": None, "randomized": True}
    found = confmax.maximize(name, P, **settings)
    monkeypatch.setattr(_warm, "LARGE", 10**9)
    without = confmax.maximize(name, P, **settings)
    assert found.gap <= 1e-6 and without.gap <= 1e-6
    assert abs(found.value - without.value) <= 1e-6
    assert found.n_passes <= min(4, without.n_passes)
