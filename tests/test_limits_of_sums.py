"""Macro F1 and its kin under constraints: against all rules of tiny tables, and programs over the decisions of rows."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import linprog

import confmax
from benchmarks.programs import TIGHT, Program, Tiny, Wish
from confmax import constraints as c
from confmax.confusion import Confusion
from confmax.metrics.curved import OfShares, SumOfRatios
from confmax.optimize import Problem
from confmax.optimize.masters.ratio_sum import RatioSum
from confmax.optimize.points import Space
from confmax.optimize.row_prices import row_bound
from confmax.oracle import CountingOracle, make_oracle, make_table
from tests.helpers import all_deterministic_confusions

MODEL = {"confusion": "model", "calibration": None}
METRICS = ["macro_f1", "weighted_f1", "macro_jaccard", "macro_precision", "macro_f_beta"]
LIMITS = ["recall[1] >= 0.6", "precision[0] >= 0.5"]
LIMITS_OF_TINY = ["recall[1] >= 0.5", "precision[0] >= 0.4"]


def table(n=300, K=4, seed=0):
    return np.random.default_rng(seed).dirichlet(np.linspace(0.3, 1.2, K), n)


def macro_f1(C):
    """Return macro F1 (...) of matrices (..., K, K)."""
    hits = np.diagonal(C, axis1=-2, axis2=-1)
    return (2 * hits / (C.sum(-1) + C.sum(-2))).mean(-1)


def pairs_within(C, recall, precision, steps=21):
    """Return the best macro F1 of mixtures of two of the rules C (A, K, K) within two limits, -inf if none keeps them.

    The limits are ``recall`` of class 1 and ``precision`` of class 0, as floors.
    """
    best = -np.inf
    for t in np.linspace(0.0, 1.0, steps):
        mixed = (1 - t) * C[:, None] + t * C[None]
        kept = mixed[..., 1, 1] >= recall * mixed[..., 1, :].sum(-1)
        kept &= mixed[..., 0, 0] >= precision * mixed[..., 0].sum(-1)
        best = max(best, float(np.where(kept, macro_f1(mixed), -np.inf).max()))
    return best


@pytest.mark.parametrize("seed", range(4))
def test_tiny_tables_against_mixtures_of_pairs_of_all_rules(seed):
    K, n = (2, 7) if seed % 2 else (3, 5)
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(K, 0.7), n)
    C = all_deterministic_confusions(P)
    recall, precision = rng.uniform(0.3, 1.0), rng.uniform(0.3, 0.9)
    best = pairs_within(C, recall, precision)
    given = [c.recall(1) >= recall, c.precision(0) >= precision]
    solution = confmax.maximize(
        "macro_f1", P, constraints=given, randomized=True, on_infeasible="closest", classes=list(range(K)), **MODEL
    )
    if not solution.feasible:
        assert best == -np.inf and "(proved)" in solution.infeasibility
        return
    assert min(one.slack for one in solution.constraints) >= -1e-12
    assert solution.value >= best - 0.005
    assert solution.upper_bound >= max(best, solution.value) - 1e-12


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.filterwarnings("ignore:of the rows")
def test_no_rule_within_the_limits_improves_to_first_order(metric):
    """The witness is a linear program over the decisions of all rows, at the gradient of the returned rule."""
    P = table(120)
    solution = confmax.maximize(metric, P, constraints=LIMITS, randomized=True, classes=list(range(4)), **MODEL)
    C = P.T @ solution.rule.decision_probabilities(P) / len(P)
    assert solution.value == pytest.approx(confmax.metrics.get(metric).value(C), abs=1e-12)
    assert solution.feasible and solution.value <= solution.upper_bound
    limits = [Wish("recall[1]", "all", ">=", 0.6), Wish("precision[0]", "all", ">=", 0.5)]
    kept = Program(Tiny(P, np.zeros(len(P)), metric, limits)).limits.reshape(2, -1)
    slope, each_row = P @ confmax.metrics.get(metric).gradient(C) / len(P), np.kron(np.eye(len(P)), np.ones(4))
    ones = np.ones(len(P))
    found = linprog(-slope.ravel(), -kept, np.zeros(2), each_row, ones, bounds=(0, 1), options=TIGHT)
    now = float((slope * solution.rule.decision_probabilities(P)).sum())
    assert -found.fun - now <= 2e-6


@pytest.mark.parametrize(("seed", "moved"), [(0, False), (1, True)])
def test_a_bound_holds_at_any_prices_of_the_limits(seed, moved):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(3), 5)
    C = all_deterministic_confusions(P)
    best = pairs_within(C, 0.5, 0.4)
    assert np.isfinite(best)
    oracle, metric = CountingOracle(make_oracle(make_table(P))), confmax.metrics.get("macro_f1")
    limits = c.bind(LIMITS_OF_TINY, make_table(P), explicit=True)
    problem = Problem(metric, oracle, 3, (), 60, limits=limits)
    parts = metric.as_ratios(oracle.rows, 3)
    free = confmax.maximize("macro_f1", P, classes=[0, 1, 2], **MODEL)
    at = Confusion.from_matrix(free.confusion)
    for _ in range(20):
        multipliers = rng.lognormal(size=2) * rng.integers(0, 2, 2) if moved else np.zeros(2)
        assert row_bound(problem, parts, at, multipliers=multipliers) >= best - 1e-12
    if not moved:
        # limits only lower it
        given = confmax.maximize("macro_f1", P, constraints=LIMITS_OF_TINY, classes=[0, 1, 2], randomized=True, **MODEL)
        assert best - 0.005 <= given.upper_bound <= free.upper_bound + 1e-3


OF_SHARES = ("cohen_kappa", "g_mean", "mcc", "weighted_f1")


def of_shares(name):
    return OfShares(confmax.metrics.get(name), 3)


def test_a_master_climbs_to_where_no_mixture_of_its_rules_is_better_to_first_order():
    P = table(5, 3, 4)
    rules = Confusion.from_matrix(all_deterministic_confusions(P))
    metric = confmax.metrics.get("macro_f1")
    limits = c.bind(["recall[1] >= 0.5"], make_table(P), explicit=True)
    parts, of = metric.as_ratios(P.mean(axis=0), 3), metric.as_climb(P.mean(axis=0), 3).of
    z = np.concatenate(
        [parts.top.pair()[0].diagonal() * rules.diagonal, rules.rows + rules.columns,
         limits.functions(P.mean(axis=0), 3).values(rules)], axis=1,
    )  # fmt: skip
    space = Space(metric, P.mean(axis=0), 3, None, limits.functions(P.mean(axis=0), 3), curved=of)
    start = np.eye(len(z))[int(np.argmax(z[:, -1]))]
    found = RatioSum().solve(space, z, start)
    assert found.value >= of.value(start @ z[:, :6])
    assert found.point[-1] >= -1e-11 and found.weights.sum() == pytest.approx(1.0)
    worth = z[:, :6] @ of.slope(found.point[:6])
    best = linprog(-worth, A_ub=-z[:, 6:].T, b_ub=[0.0], A_eq=np.ones((1, len(z))), b_eq=[1.0])
    assert -best.fun <= found.weights @ worth + 1e-7
    # its prices prove that
    assert (z @ found.gain).max() <= found.gain[:6] @ found.point[:6] + 1e-7 and found.gain[6] >= 0.0


@pytest.mark.parametrize("of", [SumOfRatios(np.array([0.5, 0.3, 0.2])), *map(of_shares, OF_SHARES)])
def test_derivatives_of_what_is_climbed(of):
    rng = np.random.default_rng(0)
    d = 6 if isinstance(of, SumOfRatios) else 9
    z, step = rng.uniform(0.2, 1.0, d) * np.repeat([0.2, 1.0, 1.0], d // 3), 1e-6 * np.eye(d)
    slope = (of.value(z + step) - of.value(z - step)) / 2e-6
    bend = (of.slope(z + step) - of.slope(z - step)) / 2e-6
    assert slope == pytest.approx(of.slope(z), abs=1e-7)
    assert bend == pytest.approx(of.curvature(z), abs=1e-4)


def test_limits_out_of_reach_and_tables_without_a_bound():
    P = table()
    with pytest.raises(confmax.Infeasible, match=r"\(proved\)"):
        confmax.maximize("macro_f1", P, constraints=["recall[1] >= 0.95", "rate[1] <= 0.05"], **MODEL)
    wide = np.random.default_rng(0).dirichlet(np.full(101, 0.1), 400)
    solution = confmax.maximize("macro_f1", wide, constraints="rate[0] <= 0.02", max_passes=4, **MODEL)
    assert solution.feasible and 0.0 < solution.upper_bound - solution.value < 0.02
    # a limit that reads the whole matrix
    cost = 1.0 - np.eye(4)
    solution = confmax.maximize("macro_f1", P, constraints=[c.cost(cost) <= 0.45], randomized=True, **MODEL)
    assert solution.feasible and solution.value <= solution.upper_bound


def test_tightening_never_raises_the_value_and_prices_are_its_slopes():
    P, step = table(2000), 2e-3
    runs = [
        confmax.maximize("macro_f1", P, constraints=[c.recall(1) >= level], randomized=True, **MODEL)
        for level in (0.8 - step, 0.8, 0.8 + step)
    ]
    values, price = [run.value for run in runs], runs[1].constraints[0].price
    assert all(later <= sooner + 1e-6 for sooner, later in pairwise(values))
    assert price > 0.01
    assert (values[0] - values[2]) / (2 * step) == pytest.approx(price, rel=0.1)
