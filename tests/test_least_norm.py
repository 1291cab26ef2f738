"""The least-norm point against its optimality conditions, on easy and on degenerate points."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from confmax.optimize.masters.least_norm import least_norm


@settings(deadline=None, max_examples=200)
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
    u = least_norm(points, rng.random(len(points)) * (rng.random(len(points)) < 0.5))
    assert (u >= 0).all()
    assert abs(u.sum() - 1) < 1e-12
    z = u @ points
    assert (points @ z - z @ z).min() >= -1e-7 * (1 + np.abs(points).max() ** 2)


def test_two_points_and_a_segment():
    np.testing.assert_allclose(least_norm(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([1.0, 0.0])), [0.5, 0.5])
    np.testing.assert_allclose(least_norm(np.array([[2.0, 1.0], [1.0, 1.0]]), np.array([1.0, 0.0])), [0.0, 1.0])
    np.testing.assert_allclose(least_norm(np.array([[-1.0], [3.0]]), np.array([0.5, 0.5])), [0.75, 0.25])
