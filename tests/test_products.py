"""Products and systems of equations: the same bits by the kernels and by NumPy, and right."""

import numpy as np
import pytest

from confmax.kernels.products import Positive, times
from tests.helpers import by_numpy

RNG = np.random.default_rng(0)
SHAPES = [(1, 1, 1), (3, 2, 5), (4, 7, 8), (130, 9, 21), (257, 66, 33)]


@pytest.mark.parametrize(("n", "d", "m"), SHAPES)
def test_products(n, d, m):
    X, M = RNG.normal(size=(n, d)), RNG.normal(size=(d, m))
    found = times(X, M)
    np.testing.assert_allclose(found, X @ M, rtol=1e-12, atol=1e-12)
    with by_numpy():
        assert times(X, M).tobytes() == found.tobytes()


@pytest.mark.parametrize("d", [1, 2, 9, 40])
def test_positive_definite_systems(d):
    X = RNG.normal(size=(2 * d, d))
    matrix, sides = X.T @ X + np.eye(d), RNG.normal(size=(d, 3))
    found = Positive(matrix).solve(sides)
    np.testing.assert_allclose(found, np.linalg.solve(matrix, sides), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(Positive(matrix).solve(sides[:, 0]), found[:, 0])
    with by_numpy():
        assert Positive(matrix).solve(sides).tobytes() == found.tobytes()


@pytest.mark.parametrize("by", ["kernels", "numpy"])
def test_a_system_that_is_not_positive_definite_is_refused(by):
    with by_numpy() if by == "numpy" else pytest.MonkeyPatch.context():
        for matrix in (np.diag([1.0, -1.0]), np.ones((2, 2)), np.full((2, 2), np.nan)):
            with pytest.raises(ValueError, match="must be positive definite"):
                Positive(matrix)
