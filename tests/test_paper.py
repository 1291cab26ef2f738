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
    solution = confmax.maximize(
        metric, table.proba, sample_weight=table.weight, solver=FrankWolfe(), randomized=True, max_passes=300, tol=1e-6
    )
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
