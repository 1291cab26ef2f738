"""The order of many numbers against NumPy's."""

import numpy as np
import pytest

from confmax.kernels import order
from confmax.kernels.order import stable_order
from tests.helpers import by_numpy


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [0, 1, 2, 300, 5000])
def test_it_is_numpys_stable_order(n, dtype, monkeypatch):
    monkeypatch.setattr(order, "FEW", 0)
    rng = np.random.default_rng(n)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 5e-324, -1e-40, 1e-45, 3e38])
    for numbers in (
        rng.normal(size=n),
        np.round(rng.normal(size=n), 1),
        np.full(n, -0.5),
        rng.random(n) ** 40,
        10.0 ** rng.uniform(-37, 37, n) * rng.choice([-1, 1], n),
        rng.choice(special, n),
    ):
        keys = numbers.astype(dtype)
        np.testing.assert_array_equal(stable_order(keys), np.argsort(keys, kind="stable"))
        np.testing.assert_array_equal(stable_order(keys[::-1]), np.argsort(keys[::-1], kind="stable"))
        with by_numpy():
            np.testing.assert_array_equal(stable_order(keys), np.argsort(keys, kind="stable"))
