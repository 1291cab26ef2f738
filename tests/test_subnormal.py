"""Probabilities at the lower end of their type: no raw warning, no absurd gap, a rule that can be saved."""

import numpy as np
import pytest

import confmax
from confmax import metrics

# these tables have labels without relation to their probabilities, which is warned of
# and so few rows of a class that a rule for it alone decides few rows rightly
pytestmark = [
    pytest.mark.filterwarnings("ignore:the log loss of the probabilities"),
    pytest.mark.filterwarnings("ignore:of the rows the rule decides"),
]

TINY = {np.float32: 1e-44, np.float64: 1e-310}
GAIN = {2: [[1.0, -1.0], [-3.0, 0.5]], 3: [[0.0, -1.0, -4.0], [-2.0, 0.0, -1.0], [-9.0, -3.0, 0.0]]}


def table(seed, K, dtype, tiny):
    """Rows in which many probabilities are of the smallest size, for the last class all of them, and labels."""
    rng = np.random.default_rng([K, seed])
    P = rng.dirichlet(np.ones(K), 40)
    small = rng.random(P.shape) < 0.4
    small[:, 0] = False
    small[:, -1] |= seed % 2 == 0
    P[small] = 0
    P = (P / P.sum(axis=1, keepdims=True)).astype(dtype)
    P[small] = tiny
    return P, np.arange(40) % K


def cases():
    for name in metrics.names():
        for K in (2, 3):
            metric = metrics.get(name, gain=GAIN[K]) if name == "linear" else metrics.get(name)
            if K == 2 or not metric.binary:
                yield pytest.param(metric, K, id=f"{name}-{K}")


@pytest.mark.filterwarnings("ignore:.*has no weight in class", "ignore:.*duplicates")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("metric", "K"), list(cases()))
def test_no_warning_and_no_absurd_number(metric, K, dtype):
    for seed, tiny in ((0, TINY[dtype]), (1, 1e-38 if dtype == np.float32 else 1e-290)):
        P, y = table(seed, K, dtype, tiny)
        for mode in ("model", "labels", "blend"):
            truth = P.astype(float) if mode == "model" else np.eye(K)[y]
            if (truth.mean(axis=0) > 1e-100).sum() < 2:
                continue  # one class is left: refused
            settings = {"confusion": mode, "max_passes": 20, "randomized": bool(seed % 2)}
            solution = confmax.maximize(metric, P, None if mode == "model" else y, **settings)
            assert np.isfinite(solution.value)
            assert solution.gap is None or 0 <= solution.gap <= 10
            again = confmax.DecisionRule.from_json(solution.rule.to_json())
            keys = np.arange(len(P))
            np.testing.assert_array_equal(again.predict(P, keys=keys), solution.rule.predict(P, keys=keys))


@pytest.mark.parametrize("name", ["g_mean", "balanced_accuracy", "min_recall"])
def test_a_class_of_nearly_no_share_is_left_out(name):
    P, _ = table(0, 3, np.float64, 1e-310)
    with pytest.warns(UserWarning, match="proba has no weight in class 2: the metric is computed over the 2 classes"):
        solution = confmax.maximize(name, P)
    plain = P[:, :2] / P[:, :2].sum(axis=1, keepdims=True)
    assert solution.value == pytest.approx(confmax.maximize(name, plain).value, abs=1e-6)


@pytest.mark.parametrize("name", ["f1", "jaccard", "cohen_kappa", "mcc", "g_mean"])
def test_a_rare_class_in_float32_is_still_ranked(name):
    """The second class has probabilities from 1e-44 to 1e-38; its labels are those of the largest."""
    p = np.logspace(-44, -38, 60).astype(np.float32)
    P = np.column_stack([np.ones(60, np.float32), p])
    y = (np.arange(60) >= 40).astype(int)
    solution = confmax.maximize(name, P, y, confusion="labels", calibration=None)
    assert solution.value == pytest.approx(1.0)
    np.testing.assert_array_equal(solution.rule.predict(P), y)
