"""With the compiled kernels and by NumPy: the same decisions and probabilities to the bit, the same solutions."""

import numpy as np
import pytest
import scipy.sparse

from confmax import DecisionRule
from confmax.calibration import MatrixScaling, Temperature, VectorScaling
from confmax.confusion import Gains
from tests.helpers import by_numpy, compiled

pytestmark = compiled
SHAPES = [(1, 2), (40, 3), (700, 5), (300, 9), (90, 140)]


def drawn(n, K, dtype, seed):
    """Rows some of which tie or are sure, with labels drawn from them."""
    rng = np.random.default_rng([n, K, seed])
    P = rng.dirichlet(np.ones(K) / 2, n)
    P[::7] = np.eye(K)[rng.integers(0, K, len(P[::7]))]
    P[3::7] = 1.0 / K
    return P.astype(dtype), (P.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)


def rules(K, seed):
    """Rules of every kind, with and without calibrations."""
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(0.2, 3.0, (3, K)), rng.uniform(0.0, 0.3, (3, K))
    gains = [
        Gains.reduced(a, b),
        Gains.reduced(a, np.c_[b, rng.uniform(0.2, 0.6, 3)]),
        Gains.reduced(a * np.logspace(-60, 0, K), b),
        Gains.reduced(-np.ones((3, K)), b, power=2),
        Gains.from_matrix(rng.random((3, K, K))),
    ]
    powers, offsets = rng.uniform(0.3, 2.0, K), rng.normal(size=K)
    matrix = np.diag(powers) + rng.normal(0.0, 0.2, (K, K))
    calibrators = (None, Temperature(1.7), VectorScaling(powers, offsets), MatrixScaling(matrix, offsets))
    calibrators = (*calibrators, MatrixScaling(matrix, offsets, kept=K - 1))
    for calibrator in calibrators:
        for each in gains:
            names = range(each.n_decisions)
            yield DecisionRule(each[:1], np.ones(1), names, calibrator=calibrator)
            yield DecisionRule(each, np.array([0.5, 0.3, 0.2]), names, calibrator=calibrator, seed=seed)


@pytest.mark.filterwarnings("ignore:.* duplicates of each other:UserWarning")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "K"), SHAPES)
def test_a_rule_decides_alike_to_the_bit(n, K, dtype):
    P, _ = drawn(n, K, dtype, 0)
    loose = P * (1.0 + 4e-4 * np.cos(np.arange(n))[:, None]).astype(dtype)
    for rule in rules(K, 1):
        for table in (P, loose, scipy.sparse.csr_array(P)):
            expected = rule.predict_index(table), rule.decision_probabilities(table)
            with by_numpy():
                found = rule.predict_index(table), rule.decision_probabilities(table)
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
