"""Curvature and Newton's step on the dual: against a set whose support function is known, and on a large table."""

import numpy as np
import pytest

import confmax
from confmax.optimize import warm as _warm
from confmax.optimize.points import Space
from confmax.optimize.query import DualQueries, by_differences, newton_gain


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


@pytest.mark.parametrize("d", [2, 12])
def test_curvature_is_the_second_derivative_of_the_support_function(d):
    body, gain = Ellipsoid(d, d), np.random.default_rng(d).uniform(0.5, 2.0, d)
    perturbed = gain * (1.0 + 1e-5 * np.eye(d))
    found = by_differences(gain, perturbed, body.answers(np.vstack([perturbed, gain])))
    expected = body.second_derivative(gain) * np.linalg.norm(gain)
    np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())
    # h is homogeneous: along the gain itself its derivative does not change
    np.testing.assert_allclose(found @ gain, 0.0, atol=1e-4 * np.abs(expected).max() * np.linalg.norm(gain))


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
        perturbed = best * (1.0 + 1e-4 * np.eye(d))
        answers = body.answers(np.vstack([perturbed, best]))
        asked = DualQueries(best[None], answers[-1:], by_differences(best, perturbed, answers))
        slope = space.gradient(answers[-1])
        best = newton_gain(space, asked, best * np.linalg.norm(slope) / np.linalg.norm(best), answers[-1], slope)
    assert distance(best) < 1e-6 < 1e-3 * before


@pytest.mark.parametrize("name", ["g_mean", "h_mean", "q_mean"])
def test_a_samples_curvature_saves_passes_and_changes_no_result(name, monkeypatch):
    rng = np.random.default_rng(0)
    n, K = 120_000, 20
    prior = 50.0 ** (-np.arange(K) / K)
    scores = 1.2 * rng.standard_normal((n, K), dtype=np.float32) + np.log(prior / prior.sum()).astype(np.float32)
    P = np.exp(scores)
    P /= P.sum(axis=1, keepdims=True)
    settings = {"confusion": "model", "calibration": None, "randomized": True}
    found = confmax.maximize(name, P, **settings)
    monkeypatch.setattr(_warm, "MOST_PERTURBED", 0.0)
    without = confmax.maximize(name, P, **settings)
    assert found.gap <= 1e-6 and without.gap <= 1e-6
    assert abs(found.value - without.value) <= 1e-6
    assert found.n_passes <= 4 and (found.n_passes, found.gap) < (without.n_passes, without.gap)
