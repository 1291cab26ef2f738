"""The paper's own claims, with the errata's constants."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

import confmax
from confmax import metrics
from confmax.optimize import FrankWolfe, Problem, baselines
from confmax.oracle import CountingOracle, make_oracle, make_table
from confmax.theory import frank_wolfe_bound, smoothing_constants

MEANS = {"h_mean": "H", "q_mean": "Q", "g_mean": "G"}


def iterates(metric, table, T):
    """Return the values of the iterates h^1 ... h^T of Algorithm 3 on a finite population."""
    oracle = CountingOracle(make_oracle(table))
    starts = baselines(oracle, [table.mean_probability()], table.n_classes, matrix=False)
    problem = Problem(metric, oracle, table.n_classes, tuple(starts), 10**6)
    solver = FrankWolfe("open_loop", rho=None)
    state, values = solver.init(problem), []
    for _ in range(T):
        state, step = solver.step(problem, state)
        values.append(problem.value(step.iterate.confusion))
    return np.array(values)


@pytest.mark.parametrize("name", MEANS)
@pytest.mark.parametrize("seed", range(2))
def test_theorem_9_along_the_iterates(name, seed):
    """The regret of h^T is at most 8 beta / (T + 2) for every T, with the exact beta of erratum E11."""
    rng = np.random.default_rng(seed)
    K, n, rho = int(rng.integers(2, 5)), int(rng.integers(4, 40)), float(rng.choice([0.5, 0.1, 0.02]))
    table = make_table(rng.dirichlet(np.ones(K) * 0.7, n), None, rng.random(n) + 0.05)
    metric = metrics.get(name, rho=rho, smoothing="additive")
    settings = {"solver": FrankWolfe(), "randomized": True, "max_passes": 300, "tol": 1e-6}
    solution = confmax.maximize(metric, table.head.proba, sample_weight=table.head.weight, **settings)
    optimum = solution.value + solution.gap
    constants = smoothing_constants(name, rho, table.mean_probability())
    T = np.arange(1, 61)
    regret = optimum - iterates(metric, table, len(T))
    bound = np.array([frank_wolfe_bound(constants.smoothness, int(t)).value for t in T])
    assert (regret <= bound).all()
    # the bound has the right rate, and does not hold by being infinite: it falls below the range of the metric
    assert bound[-1] < bound[0] / 20


def test_smoothing_constants_are_the_erratas():
    path = Path(__file__).parent / "data" / "golden.json.gz"
    for case in json.loads(gzip.decompress(path.read_bytes()))["smoothed_constants"]:
        for name, letter in MEANS.items():
            got = smoothing_constants(name, case["rho"], case["pi"])
            assert got.theta == pytest.approx(case[letter]["theta"], rel=1e-12)
            assert got.lipschitz == pytest.approx(case[letter]["L"], rel=1e-12)
            assert got.smoothness == pytest.approx(case[letter]["beta"], rel=1e-12)
    with pytest.raises(ValueError, match="known only for h_mean, q_mean and g_mean; got 'mcc'"):
        smoothing_constants("mcc", 0.1, [0.5, 0.5])
    with pytest.raises(ValueError, match="rho must lie in"):
        smoothing_constants("h_mean", 0.0, [0.5, 0.5])


@pytest.mark.filterwarnings("ignore:.*duplicates:UserWarning")
def test_remark_on_the_necessity_of_assumption_a():
    """eta = (1/2, 1/2) everywhere: the H-mean's optimum 1/2 is reached by the randomised rule only."""
    P = np.array([[0.5, 0.5]])
    mixed = confmax.maximize("h_mean", P, randomized=True, tol=1e-9)
    assert mixed.value == pytest.approx(0.5, abs=1e-9)
    assert mixed.gap == pytest.approx(0.0, abs=1e-9)
    np.testing.assert_allclose(mixed.confusion, np.full((2, 2), 0.25), atol=1e-9)
    np.testing.assert_allclose(mixed.rule.decision_probabilities(P), [[0.5, 0.5]], atol=1e-9)
    single = confmax.maximize("h_mean", P, randomized=False)
    assert single.value == 0.0
    assert single.randomization_loss == pytest.approx(0.5, abs=1e-9)
    assert confmax.maximize("h_mean", P).rule.is_randomized  # "auto" pays for it here
    # G* of the remark, up to constants in rows
    G = metrics.get("h_mean").gradient(np.full((2, 2), 0.25))
    np.testing.assert_allclose(G, [[0.5, -0.5], [-0.5, 0.5]], atol=1e-12)


@pytest.mark.parametrize("name", MEANS)
def test_theta_bounds_the_smoothing(name):
    """Errata E8 and E9: sup |psi - psi_rho| is at most theta (printed, it is too small for Q and G)."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        K, rho = int(rng.integers(2, 6)), float(10 ** rng.uniform(-3, -0.5))
        rows = rng.dirichlet(np.ones(K)) * 0.98 + 0.02 / K
        recalls = rng.choice([0.0, 1.0, rng.random()], K)
        C = np.diag(recalls * rows)
        C[np.arange(K), (np.arange(K) + 1) % K] += (1 - recalls) * rows
        smooth = metrics.get(name, rho=rho, smoothing="additive").value(C)
        assert abs(smooth - metrics.get(name).value(C)) <= smoothing_constants(name, rho, rows).theta + 1e-12
