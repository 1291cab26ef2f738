"""The bound by prices of rows on means of scores of classes, against all rules and mixtures of small populations."""

import itertools
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

import confmax
from confmax import metrics
from confmax.confusion import Confusion, Gains
from confmax.optimize import Problem, Stationary, Status, ThresholdSearch, row_prices
from confmax.optimize.row_prices import KnotSearch, RowPrices, Rows, Scores, row_bound
from confmax.oracle import CountingOracle, make_oracle, make_table
from tests.helpers import by_numpy, compiled
from tests.parts_helpers import cut, labelled
from tests.witnesses import most_found, tiny_scores

NAMES = ("macro_f1", "macro_f_beta", "weighted_f1", "macro_jaccard", "macro_precision")
SETTINGS = {"confusion": "model", "calibration": None, "randomized": True, "max_passes": 24}
METRICS = [metrics.get(name, **({"beta": 2} if name == "macro_f_beta" else {})) for name in NAMES]
BOUNDED = METRICS[:-1]  # no denominator vanishes


def problem_of(metric, table, n_decisions=None, **more):
    """Return a problem of a table of any kind, and the ratios that its metric sums."""
    oracle = CountingOracle(make_oracle(make_table(*table)))
    M = n_decisions or oracle.table.n_classes
    problem = Problem(metric, oracle, M, (), 50, **more)
    return problem, metric.as_ratios(oracle.rows, M)


def drawn(n):
    """Return the subsets of n rows, and draws between any two of them."""
    subsets = np.array(list(itertools.product((0.0, 1.0), repeat=n)))
    i, j = np.triu_indices(len(subsets), 1)
    steps = np.linspace(0.05, 0.95, 19)[:, None, None]
    return np.concatenate([subsets, ((1 - steps) * subsets[i] + steps * subsets[j]).reshape(-1, n)])


@compiled
@pytest.mark.parametrize("n_prices", [1, 3])
@pytest.mark.parametrize("n", [1, 15, 700, 9000])
def test_the_kernel_takes_the_rows_that_numpy_does(n, n_prices):
    rng = np.random.default_rng(n)
    rows = Rows(rng.random((3, n)), rng.random((n_prices, n)) - 0.2, rng.random(n) / n, 0.0, np.ones(n, dtype=bool))
    scores = Scores(np.arange(3), np.full(3, 2.0), np.ones(3), np.array([-0.5, 0.0, -1.0]), np.ones(3))
    lines = rng.integers(0, 3, 200), rng.random(200), rng.random(200)
    with by_numpy():
        expected = rows.taken(scores, *lines)
    np.testing.assert_allclose(rows.taken(scores, *lines), expected, rtol=1e-12, atol=1e-15)
    assert (expected[1] > 0.0).any()
    none = rows.taken(scores, *(each[:0] for each in lines))
    assert none.shape == (3, 0)


@pytest.mark.parametrize("metric", BOUNDED, ids=repr)
@pytest.mark.parametrize("seed", range(3))
def test_knots_bound_what_a_class_is_worth_at_any_prices(metric, seed):
    P, weight = tiny_scores(seed + 1)
    table = make_table(P, None, weight)
    w = weight / weight.sum()
    scores = Scores.of(metric.as_ratios(w @ P, 3))
    scores = scores.some(scores.base > 0.0)
    rng = np.random.default_rng(seed)
    k = scores.classes
    y = drawn(len(P))
    t, q = y @ (w[:, None] * P[:, k]), y @ w
    for _ in range(4):
        gain = Gains.reduced(rng.normal(size=(1, 3)), rng.normal(size=(1, 3)) / 2)
        paid = Gains.reduced(rng.normal(size=(1, 3)) / 4, rng.normal(size=(1, 3)) / 4)
        rows = RowPrices(k, gain.plus(paid), paid).rows(table.head, weight.sum())
        # at any denominator, with the price that bounds it best
        every = np.arange(len(k))
        s = 1 / (scores.base + rng.random(len(k)))
        grid = np.geomspace(1e-6, 1e3, 2000)
        lines = np.tile(every, 2000), np.tile(s, 2000), np.repeat(grid, len(k))
        heights = scores.worth(*lines, rows.taken(scores, *lines)) + lines[2] * (
            1 / lines[1] - np.tile(scores.base, 2000)
        )
        heights = heights.reshape(2000, -1)
        search = KnotSearch(scores, rows, s, grid[heights.argmin(axis=0)], 1e-9)
        values = scores.top * t / (scores.base + scores.by_hits * t + scores.by_decisions * q[:, None])
        most = (values - y @ (rows.w * np.broadcast_to(rows.v, (len(k), len(P)))).T).max(axis=0)
        _, tops, _ = search.largest
        assert (tops >= np.maximum(most, 0.0) - 1e-12).all()
        # the draws of the witness come near
        assert (tops <= np.maximum(most, 0.0) + 0.02).all()
        # the knots leave no denominator out
        for b in every:
            ends = 1.0 / (scores.base[b] + scores.by_decisions[b]), 1.0 / scores.base[b]
            of = search.knots.s[search.knots.k == b]
            assert (of.min(), of.max()) == pytest.approx(ends) and (np.diff(of) >= 0.0).all()


@pytest.mark.parametrize("metric", BOUNDED, ids=repr)
@pytest.mark.parametrize("further", [False, True])
def test_the_bound_holds_at_any_rule(metric, further):
    """Also at rules that are not the best, and where rows may be left undecided."""
    for seed in range(2):
        P, weight = tiny_scores(seed)
        n, K = P.shape
        M = K + further
        problem, parts = problem_of(metric, (P, None, weight), M)
        w = weight / weight.sum()
        decided = np.eye(M)[np.indices((M,) * n).reshape(n, -1).T]
        C = np.einsum("n,nk,anm->akm", w, P, decided)
        rules = Confusion(problem.oracle.rows, np.einsum("akk->ak", C[..., :K]), C.sum(axis=1))
        mixed = np.random.default_rng(seed).dirichlet(np.full(len(C), 0.02), 200) @ C.reshape(len(C), -1)
        mixed = mixed.reshape(-1, K, M)
        mixtures = Confusion(problem.oracle.rows, np.einsum("akk->ak", mixed[..., :K]), mixed.sum(axis=1))
        most = max(metric.values(rules).max(), metric.values(mixtures).max())
        for at in (rules[0], rules[len(C) // 2], mixtures[3]):
            at = Confusion(at.rows, at.diagonal, at.columns)
            assert row_bound(problem, parts, at) >= most - 1e-12
        passes = problem.oracle.n_passes
        row_bound(problem, parts, mixtures[0], 0.0)
        assert problem.oracle.n_passes == passes + 1


def test_steps_do_not_lose_a_bound_where_a_price_falls_by_far():
    """Rows where the price of a denominator is hundreds of times as large at one step as at the next."""
    rng = np.random.default_rng(2)
    n, K = int(rng.integers(20, 200)), int(rng.integers(2, 4))
    P = rng.beta(0.6, 1.5, (n, K))
    assert 0.0 <= confmax.maximize("macro_f1", P, calibration=None, decisions=1).gap <= 0.001


def test_a_bound_from_few_rows_holds_on_all_and_steps_lower_it():
    rng = np.random.default_rng(3)
    P = rng.dirichlet([2.0, 0.3, 0.1, 0.2], 3000) ** 3
    P /= P.sum(axis=1, keepdims=True)
    metric = metrics.get("macro_jaccard")
    solution = confmax.maximize(metric, P, **SETTINGS)
    bounds = []
    for cells, steps in ((1 << 18, 16), (1 << 18, 0), (0, 16)):
        problem, parts = problem_of(metric, (P,))
        at = Confusion.from_matrix(solution.confusion)
        few = mock.patch.multiple(row_prices, CELLS=cells, LEAST_ROWS=200, STEPS=steps, CLOSE=0.0, FEW_CELLS=1 << 18)
        with few:
            bounds.append(row_bound(problem, parts, at))
    assert min(bounds) >= solution.value
    all_rows, without_steps, few_rows = bounds
    assert all_rows - solution.value < 0.5 * (without_steps - solution.value)
    # prices that few rows suggest are worse, and they prove something all the same
    assert all_rows - 1e-9 <= few_rows < solution.value + 0.05


def test_ratios_that_are_no_such_scores_keep_their_bound():
    P = np.random.default_rng(0).dirichlet(np.ones(3), 20)
    for name in ("macro_precision", "micro_f1", "cohen_kappa"):
        problem, parts = problem_of(metrics.get(name), (P,))
        at = Confusion(problem.oracle.rows, problem.oracle.rows, np.ones(3))
        assert row_bound(problem, parts, at, 0.75) == 0.75
        assert problem.oracle.n_passes == 0
        # where every denominator may vanish, the separate maxima are known
        alone = P.max(axis=0).mean() if name == "macro_precision" else None
        assert row_bound(problem, parts, at) == (alone if alone is None else pytest.approx(alone, abs=1e-12))


def test_a_coin_is_bound_by_what_it_draws():
    """At (1/2, 1/2) a coin has a macro F1 of 1/2, and the best single rules have less."""
    P = np.full((4, 2), 0.5)
    for table, solver in ((P, "auto"), (P, Stationary()), (cut(P, at=(1,)), "auto")):
        solution = confmax.maximize("macro_f1", table, confusion="model", solver=solver, randomized=True)
        assert solution.value == pytest.approx(0.5, abs=1e-6)
        assert 0.5 - 1e-12 <= solution.upper_bound <= 0.5 + 1e-5


def given(P, weight, *, in_parts):
    """Return a table, in memory or in parts, and its weights as `maximize` takes them."""
    return (cut(P, None, weight, at=(1, 1, len(P) - 1)), None) if in_parts else (P, weight)


@pytest.mark.parametrize("in_parts", [False, True])
@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_no_rule_and_no_mixture_exceeds_the_bound(metric, in_parts):
    for seed in range(2):
        P, weight = tiny_scores(seed)
        table, weights = given(P, weight, in_parts=in_parts)
        solution = confmax.maximize(metric, table, sample_weight=weights, **SETTINGS)
        assert solution.upper_bound >= most_found(metric, P, weight, seed) - 1e-12
        assert solution.value <= solution.upper_bound
        if in_parts:
            whole = confmax.maximize(metric, P, sample_weight=weight, **SETTINGS)
            # in memory two classes need no prices
            assert solution.upper_bound == pytest.approx(whole.upper_bound, abs=1e-5)


@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_two_classes_are_closed(metric):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        P = np.round(rng.dirichlet([0.7, 0.4], 5), seed % 3 + 1)
        weight = rng.integers(1, 4, 5).astype(float)
        solution = confmax.maximize(metric, P, sample_weight=weight, confusion="model", randomized=True)
        assert solution.gap <= 1e-6
        assert solution.upper_bound >= most_found(metric, P, weight, seed) - 1e-12
        assert solution.value == pytest.approx(metric.value(solution.confusion), abs=1e-12)
    # by its name the solver does the same
    P = rng.dirichlet([3.0, 1.0], 300)
    assert confmax.maximize(metric, P, solver=ThresholdSearch(), randomized=True).gap <= 1e-6


def test_passes_are_counted_and_the_bound_only_falls():
    P = np.random.default_rng(1).dirichlet([2.0, 1.0, 0.6, 0.3], 500)
    for most in (1, 4, 6, 9, 14):
        solution = confmax.maximize("macro_f1", P, confusion="model", max_passes=most)
        assert solution.n_passes <= max(most, 3)
        bounds = [entry.upper_bound for entry in solution.history if entry.upper_bound is not None]
        assert all(after <= before for before, after in itertools.pairwise(bounds))
    assert solution.history[-1].n_passes <= 13
    assert solution.upper_bound - solution.value < 1e-4
    coarse = confmax.maximize("macro_f1", P, confusion="model", tol=0.02)
    assert coarse.status is Status.CONVERGED
    assert coarse.n_passes < 8


@pytest.mark.parametrize("kind", ["parts", "sparse", "float32"])
def test_other_kinds_of_tables_have_the_same_bound(kind):
    from scipy.sparse import csr_array

    P, _, weight = labelled(500, 6)
    P = np.where(np.sort(P, axis=1)[:, -2:-1] <= P, P, 0.0)
    P[:, 0] = 0.0
    P /= P.sum(axis=1, keepdims=True)
    weights = {"sample_weight": weight}
    dense = confmax.maximize("macro_f1", P, **weights, **SETTINGS)
    if kind == "parts":
        other = confmax.maximize("macro_f1", cut(P, None, weight, at=(0, 1, 200, 200)), **SETTINGS)
    else:
        # a sparse table that is too large for an array is bounded, too
        limits = {"DENSE_CELLS": 1100, "DENSE_FACTOR": 0}
        few = mock.patch.multiple(row_prices, CELLS=256, LEAST_ROWS=100 if kind == "sparse" else 4096)
        with few, mock.patch.multiple("confmax.tables.sparse.kind", **limits):
            table = csr_array(P) if kind == "sparse" else P.astype(np.float32)
            other = confmax.maximize("macro_f1", table, **weights, **SETTINGS)
    # here few rows of the sparse table choose the knots
    near = {"parts": 1e-7, "sparse": 0.02, "float32": 1e-5}[kind]
    assert dense.value <= other.upper_bound == pytest.approx(dense.upper_bound, abs=near)


def test_many_classes_have_a_near_bound():
    P = np.random.default_rng(7).dirichlet(np.full(120, 0.05), 600)
    solution = confmax.maximize("macro_f1", P, confusion="model", randomized=True, max_passes=16)
    assert 0.0 <= solution.gap < 0.01


def test_weights_that_vanish_beside_others_do_no_harm():
    P = np.array([[0.9, 0.1, 0.0], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8], [0.4, 0.3, 0.3]])
    full = confmax.maximize("macro_f1", P[:3], confusion="model")
    tiny_weights = confmax.maximize("macro_f1", P, sample_weight=[1.0, 1.0, 1.0, 1e-30], confusion="model")
    assert tiny_weights.upper_bound == pytest.approx(full.upper_bound, rel=1e-6)
    assert confmax.maximize("macro_f1", P, confusion="model", tol=0.0).gap < 0.05


@pytest.mark.parametrize("share", [1e-9, 1e-12, 1e-101])
@pytest.mark.parametrize("name", ["macro_f1", "macro_jaccard"])
@pytest.mark.parametrize("limit", ["recall[1] >= 0.5", "rate[1] <= 0.3"])
def test_a_class_that_is_nearly_absent_adds_nearly_nothing(share, name, limit):
    P = np.random.default_rng(0).dirichlet(np.ones(3), 12)
    P[:, 0] *= share
    P /= P.sum(axis=1, keepdims=True)
    solution = confmax.maximize(name, P, constraints=limit, on_infeasible="closest", **SETTINGS)
    assert solution.value <= solution.upper_bound < solution.value + 0.02


def test_fewer_rows_than_classes_in_parts():
    P = np.random.default_rng(0).dirichlet(np.ones(5), 3)
    whole = confmax.maximize("macro_f1", P, **SETTINGS)
    parts = confmax.maximize("macro_f1", cut(P, at=(1,)), **SETTINGS)
    assert (parts.value, parts.upper_bound) == pytest.approx((whole.value, whole.upper_bound), abs=1e-6)


@pytest.mark.parametrize("limits", [(), ("rate[2] <= 0.5",)])
def test_many_copies_of_few_rows_have_a_bound(limits):
    """A sample by the hash of the rows has none of them, or all."""
    P = np.repeat(np.random.default_rng(0).dirichlet(np.ones(10), 3), 20_000, axis=0)
    solution = confmax.maximize("macro_f1", P, constraints=limits, **SETTINGS)
    assert solution.value <= solution.upper_bound < solution.value + 0.05


def test_scores_of_absent_classes_alone_have_a_bound():
    P = np.random.default_rng(0).dirichlet(np.ones(3), 12)
    P[:, 0] *= 1e-12
    problem, parts = problem_of(metrics.get("macro_f1"), (P / P.sum(axis=1, keepdims=True),))
    first = replace(
        parts,
        top=parts.top[:1],
        bottom=parts.bottom[:1],
        top_constant=parts.top_constant[:1],
        bottom_constant=parts.bottom_constant[:1],
        weights=parts.weights[:1],
    )
    at = Confusion(problem.oracle.rows, problem.oracle.rows, np.ones(3))
    assert 0.0 <= row_bound(problem, first, at) < 1e-9
