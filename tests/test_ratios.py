"""Numerators and denominators against the metrics' own values, and the two methods for ratios."""

import numpy as np
import pytest

import confmax
from confmax import metrics
from confmax.checks import random_confusion
from confmax.confusion import Confusion
from confmax.optimize import Bisection, Dinkelbach, Status, row_prices
from tests.helpers import all_deterministic_confusions

GAIN = [[1.0, -0.5, 0.2], [0.0, 2.0, -1.0], [-0.3, 0.1, 0.7]]
OF_TWO = [metrics.get("f1"), metrics.get("f_beta", beta=0.5), metrics.get("f_beta", beta=2), metrics.get("jaccard")]
OF_MORE = [
    *(metrics.get(name) for name in ("micro_f1", "micro_f1_once", "cohen_kappa", "linear_kappa", "quadratic_kappa")),
    metrics.get("linear", gain=GAIN),
]
SUMS = [
    *(metrics.get(name) for name in ("macro_f1", "weighted_f1", "macro_jaccard", "macro_precision")),
    metrics.get("macro_f_beta", beta=2),
]
PLACED = [
    metrics.get("cohen_kappa").over([3, 0, 1]),
    metrics.get("micro_f1").over([2, 0, 3]),
    metrics.get("micro_f1_once").over([2, 0, 3]),
    metrics.get("quadratic_kappa").over([3, 1, 0, 2]),
    metrics.get("quadratic_kappa").over([3, 0]),
    metrics.get("linear_kappa").over([0, 1, 3]),
    metrics.get("macro_f1").over([0, 3]),
    metrics.get("weighted_f1").over([1, 2, 3]),
]


def some_confusions(metric, n=20):
    rng = np.random.default_rng(0)
    K = 2 if metric.binary else 3 if metric.classes is None else 4
    for _ in range(n):
        rows = rng.dirichlet(np.full(K, 2.0)) * 0.9 + 0.1 / K
        yield Confusion.from_matrix(random_confusion(rng, rows, K))


@pytest.mark.parametrize("metric", OF_TWO + OF_MORE + SUMS + PLACED, ids=repr)
def test_the_ratios_sum_to_the_metric(metric):
    """Two statements of one metric: its formula, and its numerators over its denominators."""
    for S in some_confusions(metric):
        parts = metric.as_ratios(S.rows, len(S.columns))
        assert parts.weights @ parts.values(S) == pytest.approx(float(metric.at(S).value), abs=1e-12)
        assert (parts.denominators(S) >= parts.floor - 1e-12).all()


@pytest.mark.parametrize("metric", OF_TWO + OF_MORE + PLACED[:6], ids=repr)
def test_the_gain_of_a_level_is_the_gradient_there(metric):
    """``grad (N / D) = (grad N - psi grad D) / D``, up to a constant in each row."""
    for S in some_confusions(metric):
        parts = metric.as_ratios(S.rows, len(S.columns))
        value = metric.at(S).value
        mine = parts.gains(np.array([value])).matrices()[0] / parts.denominators(S)[0]
        difference = metric.gains(metric.at(S)).matrices()[0] - mine
        assert np.ptp(difference, axis=1).max() < 1e-9


@pytest.mark.parametrize("metric", OF_TWO + OF_MORE + SUMS, ids=repr)
def test_the_floor_is_the_smallest_denominator_over_all_rules(metric):
    """Over the deterministic rules of a tiny population, whose hull is the attainable set; tight for one ratio."""
    rng = np.random.default_rng(1)
    K = 2 if metric.binary else 3
    P = rng.dirichlet(np.ones(K), 5)
    hull = [Confusion.from_matrix(C) for C in all_deterministic_confusions(P)]
    parts = metric.as_ratios(hull[0].rows, K)
    least = np.min([parts.denominators(S) for S in hull], axis=0)
    assert (parts.floor <= least + 1e-12).all()
    if metric.name != "linear":
        np.testing.assert_allclose(parts.floor, least, atol=1e-12)


@pytest.mark.parametrize("metric", OF_TWO + OF_MORE + SUMS, ids=repr)
def test_bounds_at_every_level(metric):
    """Below, at and above the optimum, ``l + max(F(l), 0) / min D`` is never below the largest ratio."""
    rng = np.random.default_rng(2)
    K = 2 if metric.binary else 3
    P = rng.dirichlet(np.ones(K), 5)
    hull = Confusion.from_matrix(all_deterministic_confusions(P))
    hull = Confusion(hull.rows[0], hull.diagonal, hull.columns, hull.matrix)
    parts = metric.as_ratios(hull.rows, K)
    best = np.max([parts.values(hull[k]) for k in range(len(hull))], axis=0)
    for shift in (-0.5, -0.1, 0.0, 1e-9, 0.1):
        levels = best + shift
        gains = parts.gains(levels)
        heights = np.array([[float(gains[b].dot(hull[k])[0]) for k in range(len(hull))] for b in range(len(gains))])
        answers = Confusion.stack([hull[int(k)] for k in heights.argmax(axis=1)])
        excess = parts.excess(levels, answers)
        assert (parts.bounds(levels, excess) >= best - 1e-12).all()
        if shift > 0:
            assert (excess <= 1e-15).all()
            np.testing.assert_array_equal(parts.bounds(levels, np.minimum(excess, 0.0)), levels)


@pytest.mark.parametrize("solver", [Dinkelbach(), Bisection()], ids=repr)
@pytest.mark.parametrize("metric", OF_TWO + OF_MORE, ids=repr)
def test_both_methods_find_the_best_of_all_rules(metric, solver):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        K = 2 if metric.binary else 3
        P, weight = rng.dirichlet(np.ones(K), 6), rng.integers(1, 4, 6).astype(float)
        if seed % 2:
            P = np.round(P * 4) + 0.25
            P /= P.sum(1, keepdims=True)
        best = max(metric.value(C) for C in all_deterministic_confusions(P, weight))
        solution = confmax.maximize(metric, P, sample_weight=weight, solver=solver)
        assert solution.value == pytest.approx(best, abs=1.1e-6)
        assert best - 1e-12 <= solution.upper_bound <= solution.value + 1e-6
        assert not solution.rule.is_randomized


def test_a_denominator_that_nearly_vanishes():
    """Nearly all weight in one class: 1 - max prior proves little, so a level above the optimum must."""
    P = np.array([[0.9999, 0.0001], [0.99999, 0.00001], [0.99, 0.01]])
    weight = np.array([1.0, 1000.0, 0.01])
    solution = confmax.maximize("cohen_kappa", P, sample_weight=weight, solver=Dinkelbach())
    best = max(metrics.get("cohen_kappa").value(C) for C in all_deterministic_confusions(P, weight))
    assert solution.value == pytest.approx(best, abs=1e-9)
    assert solution.status is Status.CONVERGED


def test_a_ratio_from_a_function_is_solved_and_certified():
    """Its parts are not known, but the gradient at the optimum leaves nothing to gain."""
    kappa = metrics.get("cohen_kappa")
    mine = metrics.from_function(
        lambda C: kappa.value(C / C.sum()), gradient=kappa.gradient, structure="ratio", name="mine"
    )
    P = np.random.default_rng(3).dirichlet(np.ones(3), 50)
    solution = confmax.maximize(mine, P)
    assert solution.value == pytest.approx(confmax.maximize("cohen_kappa", P).value, abs=1e-12)
    assert solution.gap == 0.0


def test_refusals_name_the_metric_and_the_way_out():
    P = [[0.5, 0.3, 0.2]]
    with pytest.raises(ValueError, match="Dinkelbach maximises ratios of affine functions, but macro_f1 is declared"):
        confmax.maximize("macro_f1", P, solver=Dinkelbach())
    mine = metrics.from_function(lambda C: C[0, 0], structure="ratio", name="mine")
    with pytest.raises(ValueError, match="Bisection needs the numerator and the denominator of mine, which are not"):
        confmax.maximize(mine, P, solver=Bisection())


@pytest.mark.parametrize("metric", SUMS, ids=repr)
def test_the_bound_of_a_sum_is_the_sum_of_the_classes_best_scores(metric, monkeypatch):
    """Each class's best score is found by trying every threshold of that class; of many classes no bound is lower."""
    rng = np.random.default_rng(4)
    P = rng.dirichlet([3.0, 1.0, 0.5], 400)
    rows = P.mean(axis=0)
    parts = metric.as_ratios(rows, 3)
    best = np.zeros(3)
    for k in range(3):
        order = np.argsort(-P[:, k])
        hits, taken = np.cumsum(P[order, k]) / 400, np.arange(1, 401) / 400
        diagonal, columns = np.zeros((400, 3)), np.zeros((400, 3))
        diagonal[:, k], columns[:, k] = hits, taken
        best[k] = max(parts.values(Confusion(rows, d, c))[k] for d, c in zip(diagonal, columns, strict=True))
    lower = confmax.maximize(metric, P)
    monkeypatch.setattr(row_prices, "MOST_CLASSES", 2)
    solution = confmax.maximize(metric, P)
    assert solution.upper_bound == pytest.approx(parts.weights @ best, abs=3e-6)
    assert lower.value <= lower.upper_bound
    # of macro precision no bound is lower
    assert lower.upper_bound < solution.upper_bound - 1e-3 or not parts.floor.any()


def test_dinkelbach_needs_few_passes_and_bisection_many():
    rng = np.random.default_rng(0)
    P = rng.dirichlet([2.0, 1.0, 0.6, 0.3, 0.2, 0.1], 3000)
    for name in ("cohen_kappa", "quadratic_kappa", "micro_f1"):
        fast = confmax.maximize(name, P, solver=Dinkelbach())
        slow = confmax.maximize(name, P, solver=Bisection())
        assert fast.value == pytest.approx(slow.value, abs=2e-6)
        assert fast.gap <= 1e-6
        assert fast.n_passes <= 6 <= slow.n_passes
