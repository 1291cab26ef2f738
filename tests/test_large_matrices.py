"""Metrics of the whole confusion matrix on more classes than `Solution.confusion` shows."""

import numpy as np
import pytest
import scipy.sparse

import confmax
from confmax import metrics
from tests.helpers import confusion_of

# these tables have labels without relation to their probabilities, which is warned of
pytestmark = pytest.mark.filterwarnings("ignore:the log loss of the probabilities")

K = 8


@pytest.fixture
def few_shown(monkeypatch):
    """`Solution.confusion` ends at five classes, so that small tables do."""
    monkeypatch.setattr("confmax.solution.returned.MAX_MATRIX_CLASSES", 5)


def trace_and_corner(C):
    return np.trace(C) + 2.0 * C[0, 1]


def asked():
    index = np.arange(K)
    far = np.abs(index[:, None] - index) > 2
    yield "quadratic_kappa"
    yield "linear_kappa"
    yield metrics.get("linear", cost=far.astype(float).tolist())
    yield metrics.from_function(trace_and_corner, structure="linear", name="mine", n_classes=K)


def checked(metric, P, y, mode):
    solution = confmax.maximize(metric, P, y, confusion=mode, calibration=None, max_passes=8)
    assert solution.confusion is None
    assert solution.statistics.matrix is None
    classes = P.shape[1]
    truth = P if mode == "model" else np.eye(classes)[y]
    C = confusion_of(truth / len(P), solution.rule.predict(P), classes)
    assert solution.value == pytest.approx(solution.metric.value(C), abs=1e-9)
    assert solution.value >= max(solution.baselines.values()) - 1e-12


@pytest.mark.usefixtures("few_shown")
@pytest.mark.parametrize("mode", ["model", "labels"])
@pytest.mark.parametrize("metric", list(asked()), ids=["quadratic_kappa", "linear_kappa", "cost", "function"])
def test_metrics_of_the_matrix_work_where_no_matrix_is_shown(metric, mode):
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(K), 60)
    checked(metric, P, rng.permutation(np.arange(60) % K), mode)


@pytest.mark.filterwarnings("ignore:no row of y has the classes:UserWarning")
def test_more_than_a_thousand_classes():
    rng = np.random.default_rng(0)
    P = np.zeros((20, 1001))
    P[np.arange(20), rng.integers(0, 1001, 20)] += 0.6
    P[np.arange(20), rng.integers(0, 1001, 20)] += 0.4
    checked("quadratic_kappa", P, P.argmax(axis=1), "model")


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
def test_too_large_a_matrix_is_refused_before_the_run(kind):
    wide = 4097
    P = np.zeros((3, wide))
    P[np.arange(3), [0, 1, wide - 1]] = 1.0

    def never(_):
        raise AssertionError("the run began")

    told = (
        r"the whole confusion matrix of 4097 classes has 16,785,409 entries, more than 16,777,216, and quadratic_kappa "
        r"reads all of them; use a metric of its diagonal and column sums such as macro_f1, or merge classes"
    )
    with pytest.raises(ValueError, match=told):
        confmax.maximize("quadratic_kappa", kind(P), callback=never)


def test_the_matrices_of_many_constant_rules_are_refused():
    from confmax.optimize import Mixture

    with pytest.raises(ValueError, match="use solver='frank_wolfe', or merge rare classes"):
        Mixture.uniform(np.full(1001, 1 / 1001), 1001, matrix=True)
