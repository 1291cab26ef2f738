"""No certificate may ever be violated: every metric and every solver against all rules of small populations.

The attainable set of a population of n points is the convex hull of the confusions of its K^n deterministic rules.
"""

import functools

import numpy as np
import pytest

import confmax
from confmax import metrics
from confmax.optimize import SOLVERS, BayesCG, BruteForce
from tests.helpers import hull_of, most_over_hull

GAINS = {2: [[1.0, -1.0], [-3.0, 0.5]], 3: [[0.0, -1.0, -4.0], [-2.0, 0.0, -1.0], [-9.0, -3.0, 0.0]]}
VARIANTS = [
    ("f_beta", {"beta": 2}),
    ("macro_f_beta", {"beta": 0.5}),
    ("ams", {"b_reg": 0.01}),
    ("min_recall", {"rho": 0.1}),
    ("g_mean", {"rho": 0.05, "smoothing": "additive"}),
    ("h_mean", {"rho": 0.05}),
    ("q_mean", {"rho": 0.05, "smoothing": "additive"}),
]


def cases():
    for K, n in ((2, 6), (3, 5)):
        for name in metrics.names():
            params = {"gain": GAINS[K]} if name == "linear" else {}
            metric = metrics.get(name, **params)
            if K == 2 or not metric.binary:
                yield pytest.param(metric, K, n, id=f"{metric!r}-{K}")
        for name, params in VARIANTS:
            metric = metrics.get(name, **params)
            if K == 2 or not metric.binary:
                yield pytest.param(metric, K, n, id=f"{metric!r}-{K}")


def population(seed, n, K):
    """n points with weights; every other population has exact ties, one a point that is sure of its class."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(K) * 0.8, n)
    if seed % 2:
        P = np.round(P * 4) + 0.25
        P /= P.sum(1, keepdims=True)
    if seed % 3 == 0:
        P[0] = np.eye(K)[seed % K]
    return P, rng.integers(1, 4, n).astype(float)


@functools.cache
def hull(seed, n, K):
    """Return the confusions of all rules on a population, once for all metrics."""
    return hull_of(*population(seed, n, K))


@functools.cache
def most(metric, seed, n, K):
    """Return the most that was found over the hull of a population."""
    return most_over_hull(metric, hull(seed, n, K))


PARTS = ["quadratic_kappa", "linear_kappa", "cohen_kappa", "micro_f1", "macro_f1", "h_mean", "min_recall", "mcc"]


@pytest.mark.parametrize("name", PARTS)
def test_certificates_of_metrics_over_some_classes(name):
    """Three of four classes, in another order; the rows of the fourth count among the decisions only."""
    metric = metrics.get(name).over([3, 0, 1])
    for seed in (1, 2):
        P, weight = population(seed, 4, 4)
        best = most(metric, seed, 4, 4)
        for solver in ("auto", "frank_wolfe"):
            solution = confmax.maximize(metric, P, sample_weight=weight, solver=solver, randomized=True, max_passes=60)
            assert solution.value == pytest.approx(metric.value(solution.confusion), abs=1e-9)
            if solution.upper_bound is not None:
                assert solution.upper_bound >= best - 1e-9


QUICK = {"brute_force": lambda: BruteForce(resolution=3), "bayes_cg": lambda: BayesCG(kappa=3)}


def accepted(metric, K):
    yield "auto", "auto"
    for name, make in SOLVERS.items():
        solver = QUICK.get(name, make)()
        try:
            solver.check(metric, K, 5)
        except ValueError:
            continue
        yield name, solver


@pytest.mark.filterwarnings("ignore:.*has no weight in class")
@pytest.mark.parametrize(("metric", "K", "n"), list(cases()))
def test_no_certificate_is_violated(metric, K, n):
    seed = (K + n) % 2  # a population with exact ties, or one with a point that is sure of its class
    P, weight = population(seed, n, K)
    best = most(metric, seed, n, K)
    for name, solver in accepted(metric, K):
        solution = confmax.maximize(
            metric, P, sample_weight=weight, solver=solver, randomized=True, max_passes=60, confusion="model"
        )
        if solution.upper_bound is None:
            continue
        assert solution.upper_bound >= best - 1e-9, name
        assert solution.gap >= 0
        again = metric.value(solution.confusion)
        assert solution.value == pytest.approx(again, abs=1e-12)


CERTIFIED = [
    (name, K)
    for name in sorted(set(metrics.names()) - {"mcc", "ams"})
    for K in ((2,) if name != "linear" and metrics.get(name).binary else (2, 3))
]


@pytest.mark.parametrize(("name", "K"), CERTIFIED)
def test_a_certificate_is_given(name, K):
    """The model confusion of every metric but two has an upper bound, closed for all but the sums of ratios."""
    metric = metrics.get(name, **({"gain": GAINS[K]} if name == "linear" else {}))
    P, weight = population(2, 5, K)
    solution = confmax.maximize(metric, P, sample_weight=weight, randomized=True)
    assert solution.gap is not None
    if metric.structure != "general":
        assert solution.gap <= 1e-6
    best = most(metric, 2, 5, K)
    assert solution.upper_bound >= best - 1e-9
    # the witness is exact but for sums of ratios
    assert solution.value <= best + (1e-3 if metric.structure == "general" else 2e-6)


@pytest.mark.parametrize("name", sorted(set(metrics.names()) - {"linear"}))
def test_nothing_is_certified_on_labels(name):
    rng = np.random.default_rng(5)
    K = 2 if metrics.get(name).binary else 3
    P = rng.dirichlet(np.ones(K), 30)
    y = (rng.random(30)[:, None] > np.cumsum(P, 1)).sum(1).clip(0, K - 1)
    y[:K] = np.arange(K)
    solution = confmax.maximize(name, P, y, confusion="labels")
    assert solution.upper_bound is None
    assert solution.gap is None
