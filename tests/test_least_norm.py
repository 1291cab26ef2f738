"""The least-norm point and the best mean of recalls against their optimality conditions, on easy and degenerate points.

Both forms are tested, the kernels and NumPy.
"""

from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confmax.metrics.structure import PowerMean
from confmax.optimize.masters.interior import Sum, central_path, least_norm, without_traces
from tests.helpers import by_numpy


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    A=st.integers(1, 25),
    S=st.integers(1, 12),
    near=st.sampled_from([0.0, 1e-6, 1e-10]),
    shift=st.sampled_from([0.0, 0.3, 5.0]),
)
def test_no_point_of_the_hull_is_nearer_to_the_origin(seed, A, S, near, shift):
    """u is optimal iff every point p has <p, z> >= <z, z> at z = u @ points, up to rounding."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(A, S)) + shift
    points = np.vstack([points, points + near * rng.normal(size=(A, S))]) if near else points
    u = least_norm(points, points[:, :0])
    with by_numpy():
        v = least_norm(points, points[:, :0])
    for shares in (u, v):
        assert (shares >= 0).all()
        assert abs(shares.sum() - 1) < 1e-12
        z = shares @ points
        assert (points @ z - z @ z).min() >= -1e-7 * (1 + np.abs(points).max() ** 2)
    assert np.linalg.norm(u @ points) == pytest.approx(np.linalg.norm(v @ points), abs=1e-9)


@pytest.mark.parametrize("form", [nullcontext, by_numpy])
def test_two_points_and_a_segment(form):
    with form():
        check_segments()


def check_segments():
    for points, shares in (([[1, 0], [0, 1]], [0.5, 0.5]), ([[2, 1], [1, 1]], [0, 1]), ([[-1], [3]], [0.75, 0.25])):
        points = np.array(points, dtype=np.float64)
        np.testing.assert_allclose(least_norm(points, points[:, :0]), shares, atol=1e-7)


@pytest.mark.parametrize("form", [nullcontext, by_numpy])
@pytest.mark.parametrize("K", [1, 2, 9, 40])
@pytest.mark.parametrize(
    ("p", "of_misses"), [(0, False), (-1, False), (-2.5, False), (0.5, False), (2, True), (3, True)]
)
def test_no_mixture_has_a_larger_mean_of_recalls(p, of_misses, K, form):
    """The mean is concave: a mixture is the best iff no point lies further up the slope there."""
    for seed, A in enumerate((1, 2, 5, 30, 90)):
        rng = np.random.default_rng(seed)
        recalls = rng.random((A, K)) * (rng.random((A, K)) < 0.9)
        recalls[A // 2 :] = recalls[0] + 1e-11 * rng.random((A - A // 2, K)) if seed % 2 else recalls[A // 2 :]
        recalls[0] += 0.01  # no recall is zero everywhere
        with form():
            path = central_path(recalls, np.ones(A), recalls[:, :0], Sum(PowerMean(float(p), of_misses=of_misses)))
        mix = without_traces(path[0])
        T = mix @ recalls
        slope = (1 - T) ** (p - 1) if of_misses else T ** (p - 1.0)
        assert (mix >= 0).all() and abs(mix.sum() - 1) < 1e-12
        assert ((recalls - T) @ slope).max() <= 1e-7 * np.abs(slope * T).sum()


@pytest.mark.parametrize("form", [nullcontext, by_numpy])
def test_a_recall_that_is_zero_everywhere(form):
    recalls = np.array([[0.5, 0.0], [1.0, 0.0]])
    with form():
        for mean in (PowerMean(0.0), PowerMean(2.0, of_misses=True)):
            weights = central_path(recalls, np.ones(2), recalls[:, :0], Sum(mean))[0]
            assert np.isfinite(weights).all() and (mean.of_misses <= (weights[1] > 1 - 1e-6))
