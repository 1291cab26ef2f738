"""The bound by prices on what every class attains alone, against all rules and mixtures of small populations."""

import itertools
from unittest import mock

import numpy as np
import pytest
from scipy.optimize import linprog

import confmax
from confmax import metrics
from confmax.confusion import Gains
from confmax.optimize import Mixture, Problem, Stationary, Status, ThresholdSearch
from confmax.optimize import prices as bound_by_prices
from confmax.optimize.price_program import PriceProgram
from confmax.optimize.prices import REACH, RULES, Edges, PriceSearch, Scores, _lowest, _outside
from confmax.oracle import CountingOracle, make_oracle, make_table
from tests.parts_helpers import cut, labelled
from tests.witnesses import most_found, tiny_scores

NAMES = ("macro_f1", "macro_f_beta", "weighted_f1", "macro_jaccard", "macro_precision")
SETTINGS = {"confusion": "model", "calibration": None, "randomized": True, "max_passes": 24}
METRICS = [metrics.get(name, **({"beta": 2} if name == "macro_f_beta" else {})) for name in NAMES]


def edges_of(metric, P, weight=None, flat=0.0):
    """Return the edges of a table of any kind, read in one pass, the ratios and the oracle."""
    table = make_table(P, None, weight)
    oracle = CountingOracle(make_oracle(table))
    parts = metric.as_ratios(oracle.rows, table.n_classes)
    edges = Edges.read(oracle, Scores.of(parts), flat)
    assert oracle.n_passes == 1
    return edges, parts, oracle


def random_prices(P, count=8):
    rng = np.random.default_rng(count)
    return rng.normal(size=(count, 2, P.shape[1])) / P.mean(axis=0) / P.shape[1]


def given(P, weight, *, in_parts):
    """Return a table, in memory or in parts, and its weights as `maximize` takes them."""
    return (cut(P, None, weight, at=(1, 1, len(P) - 1)), None) if in_parts else (P, weight)


@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_the_maximum_of_a_class_is_that_over_all_draws(metric):
    """Every subset of the rows may be decided as the class, and every draw between two subsets."""
    for seed in range(2):
        P, weight = tiny_scores(seed)
        edges, parts, oracle = edges_of(metric, P, weight)
        w = weight / weight.sum()
        subsets = np.array(list(itertools.product((0.0, 1.0), repeat=len(P))))
        i, j = np.triu_indices(len(subsets), 1)
        steps = np.append(np.linspace(0.05, 0.95, 19), 1e-6)[:, None, None]
        drawn = np.concatenate([subsets, ((1 - steps) * subsets[i] + steps * subsets[j]).reshape(-1, len(P))])
        t, q = drawn @ (w[:, None] * P), drawn @ w
        rng = np.random.default_rng(seed)
        # what a class alone has decided: the other columns change no score of it
        for prices in (np.zeros((2, 3)), *rng.normal(size=(6, 2, 3))):
            scale = np.minimum(parts.weights / oracle.rows, 50.0)
            (best,), (points,) = edges.largest((prices * scale)[None])
            of = Scores.of(parts)
            for k in range(3):
                bottom = of.base[k] + of.by_hits[k] * t[:, k] + of.by_decisions[k] * q
                score = np.divide(of.top[k] * t[:, k], bottom, out=np.zeros_like(q), where=bottom > 0.0)
                most = (score - prices[0, k] * scale[k] * t[:, k] - prices[1, k] * scale[k] * q).max()
                assert best[k] >= most - 1e-12
                # the grid of draws comes near; a precision is approached where nothing is decided
                assert best[k] <= most + 2e-2 * max(1.0, scale[k])
            assert points[0] - (prices * scale * points[1:]).sum(axis=0) == pytest.approx(best, abs=1e-12)


def test_a_coin_needs_the_inside_of_the_edges():
    """At (1/2, 1/2) a coin has a macro F1 of 1/2, and the corners of what a class attains alone prove only .417."""
    P = np.full((4, 2), 0.5)
    edges, _, oracle = edges_of(metrics.get("macro_f1"), P)
    prices = np.array([[0.0, 0.0], [1 / 3, 1 / 3]])
    answer = oracle.maximize(Gains.reduced(prices[:1], prices[1:]))
    second = float((prices[0] * answer.diagonal + prices[1] * answer.columns).sum())
    at_corners = max(0.0, 1 / 3 - 1 / 3)
    assert 2 * at_corners + second == pytest.approx(1 / 3)
    assert edges.largest(prices[None])[0].sum() + second >= 0.5 - 1e-12
    for table, solver in ((P, "auto"), (P, Stationary()), (cut(P, at=(1,)), "auto")):
        solution = confmax.maximize("macro_f1", table, confusion="model", solver=solver, randomized=True)
        assert solution.value == pytest.approx(0.5, abs=1e-6)
        assert 0.5 - 1e-12 <= solution.upper_bound <= 0.5 + 1e-5


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
            # rounding may lead linear programs to other prices, and in memory two classes need none
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


def test_a_linear_program_knows_points_that_the_classes_attain():
    P = np.random.default_rng(5).dirichlet([2.0, 1.0, 0.5], 60)
    for metric in METRICS:
        edges, parts, _ = edges_of(metric, P)
        of, points = Scores.of(parts), edges.sampled()
        t, q = points[:, 1], points[:, 2]
        bottom = of.base + of.by_hits * t + of.by_decisions * q
        score = np.divide(of.top * t, bottom, out=points[:, 0].copy(), where=q > 0.0)
        assert points[:, 0] == pytest.approx(score, abs=1e-12)
        assert q.max() == pytest.approx(1.0)
        prices = np.random.default_rng(0).normal(size=(50, 2, 3))
        among = points[:, 0] - (prices[:, None] * points[:, 1:]).sum(axis=2)
        best = edges.largest(prices)[0]
        assert (among.max(axis=1) <= best + 1e-12).all()
        # a little below, because the largest lies between two of them
        assert (among.max(axis=1) >= best - 0.05).all()


def random_program(seed):
    """Return a program of up to eight classes, with prices of limits that may be zero and a class without prices."""
    rng = np.random.default_rng(seed)
    B, N, A, m = (int(rng.integers(low, high)) for low, high in ((1, 9), (1, 30), (1, 40), (0, 4)))
    cuts, rules = rng.normal(size=(2, N, B)), rng.normal(size=(A, 2 * B + m)) * 10.0 ** rng.integers(-3, 2)
    cuts[:, :, 0] *= rng.integers(0, 2)
    low, high = np.full(2 * B + m, REACH), np.full(2 * B + m, REACH)
    low[2 * B :] *= rng.choice([0.0, 1e-6, 0.5], m)
    return PriceProgram(rng.normal(size=(N, B)), cuts, rng.normal(size=A), rules, low, high)


@pytest.mark.parametrize("seed", range(12))
def test_the_program_has_the_value_that_highs_computes(seed):
    program = random_program(seed)
    (N, B), (A, d) = program.tops.shape, program.rules.shape
    points, rules = np.zeros((N, B, d + B + 1)), np.hstack([program.rules, np.zeros((A, B)), np.full((A, 1), -1.0)])
    for b in range(B):
        points[:, b, [b, B + b]], points[:, b, d + b] = -program.cuts[:, :, b].T, -1.0
    found = linprog(
        np.repeat([0.0, 1.0], [d, B + 1]),
        np.concatenate([points.reshape(N * B, -1), rules]),
        -np.append(program.tops.ravel(), program.base),
        bounds=[*zip(-program.low, program.high, strict=True), *[(None, None)] * (B + 1)],
    )

    def value(z):
        falls = program.cuts[0] * z[:B] + program.cuts[1] * z[B : 2 * B]
        return (program.tops - falls).max(axis=0).sum() + (program.base + program.rules @ z).max()

    size = max(1.0, abs(found.fun))
    for bound, part in ((-np.inf, 0.0), (found.fun + 1.0, 0.05)):
        floor, z, weights = program.solve(bound, part)
        room = max(1e-7 * size, part * (bound - found.fun + 1e-7) / (1.0 - part))
        assert floor <= found.fun + 1e-7 * size and found.fun - 1e-7 * size <= value(z) <= floor + room
        assert ((-program.low <= z) & (z <= program.high)).all()
        assert (weights >= 0.0).all() and weights.sum() == pytest.approx(1.0)


def test_the_polygon_lies_outside_by_no_more_than_it_may():
    p = np.sort(np.random.default_rng(0).beta(0.3, 2.0, 4000))[::-1]
    q, t = np.arange(4001) / 4000, np.append(0.0, np.cumsum(p)) / 4000
    for flat in (1e-3, 1e-5, 1e-7):
        x, y = _outside(q, t, p, flat)
        above = np.interp(q, x, y) - t
        assert above.min() >= -1e-14
        assert above.max() <= flat
        assert (np.diff(np.diff(y) / np.diff(x)) <= 1e-9).all()
        assert len(x) < 60 / np.sqrt(flat)
    # few rows, and equal ones, are kept as they are
    for p in ([0.9, 0.5, 0.5, 0.1], [0.5] * 6, [1.0, 0.0, 0.0]):
        q, t = np.arange(len(p) + 1) / len(p), np.append(0.0, np.cumsum(p)) / len(p)
        x, y = _outside(q, t, np.array(p), 0.0)
        assert np.interp(q, x, y) == pytest.approx(t, abs=1e-15)
        assert np.interp(x, q, t) == pytest.approx(y, abs=1e-15)


def test_passes_are_counted_and_the_bound_only_falls():
    P = np.random.default_rng(1).dirichlet([2.0, 1.0, 0.6, 0.3], 500)
    for most in (1, 4, 6, 9, 14):
        solution = confmax.maximize("macro_f1", P, confusion="model", max_passes=most)
        assert solution.n_passes <= max(most, 3)
        bounds = [entry.upper_bound for entry in solution.history if entry.upper_bound is not None]
        assert all(after <= before for before, after in itertools.pairwise(bounds))
    assert solution.history[-1].n_passes <= 13
    assert solution.upper_bound - solution.value < 0.01
    coarse = confmax.maximize("macro_f1", P, confusion="model", tol=0.02)
    assert coarse.status is Status.CONVERGED
    assert coarse.n_passes < 8


def test_the_newest_answers_are_kept():
    """With as many answers as are kept, two solutions took turns: what ruled out one was forgotten at the other."""
    rng = np.random.default_rng(4)
    P, metric = rng.dirichlet([2.0, 1.0, 0.6, 0.3], 300), metrics.get("macro_f1")
    oracle = CountingOracle(make_oracle(make_table(P)))
    gains = Gains.reduced(rng.random((2 * RULES, 4)), rng.normal(size=(2 * RULES, 4)) / 10)
    answers = oracle.maximize(gains)
    starts = tuple(Mixture.single(gains[k], answers[k]) for k in range(2 * RULES))
    search = PriceSearch.start(Problem(metric, oracle, 4, starts, 50), metric.as_ratios(oracle.rows, 4))
    far = Gains.reduced(np.eye(4)[:1], -np.ones((1, 4)))
    for _ in range(2):
        search = search.beside(far, np.zeros(0))
        asked = search.gains()
        search = search.answered(oracle.maximize(asked), search.bound, 0.0)
        assert len(search.answers) == RULES
        np.testing.assert_array_equal(search.rules.coefficients()[0][-len(asked) :], asked.coefficients()[0])


# --- tables in parts, and sparse tables -------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("at", [(), (300,), (0, 1, 2, 500, 500, 999), tuple(range(10, 1000, 10))])
def test_hulls_do_not_depend_on_the_parts(at, weighted):
    P, _, weight = labelled(1000, 4)
    weight = weight if weighted else None
    whole, parts = edges_of(METRICS[0], P, weight)[0], edges_of(METRICS[0], cut(P, None, weight, at=at))[0]
    asked = random_prices(P)
    np.testing.assert_allclose(parts.largest(asked)[0], whole.largest(asked)[0], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("most", [17 * 4, 40 * 4, 400 * 4])
def test_few_corners_give_a_bound_that_is_higher_but_little(most):
    """Of many parts some are joined before others have come, and every time corners may move outwards."""
    P, _, weight = labelled(4000, 4)
    exact = edges_of(METRICS[0], P, weight)[0]
    with mock.patch.object(bound_by_prices, "CORNERS", most), mock.patch.object(bound_by_prices, "HELD", 2):
        coarse = edges_of(METRICS[0], cut(P, None, weight, at=tuple(range(100, 4000, 100))))[0]
    assert coarse.sizes.max() <= 2 * most // 4
    asked = random_prices(P)
    above = coarse.largest(asked)[0] - exact.largest(asked)[0]
    scale = np.abs(asked).max()
    assert above.min() >= -1e-13 * scale
    assert above.max() <= scale / (most / 8) ** 2


def test_probabilities_that_are_not_stored_count_as_zeros():
    from scipy.sparse import csr_array

    P, _, weight = labelled(500, 6)
    P = np.where(np.sort(P, axis=1)[:, -2:-1] <= P, P, 0.0)
    P[:, 0] = 0.0
    P /= P.sum(axis=1, keepdims=True)
    for w in (None, weight):
        dense, stored = (edges_of(METRICS[0], each, w)[0] for each in (P, csr_array(P)))
        asked = random_prices(P + 0.1)
        np.testing.assert_allclose(stored.largest(asked)[0], dense.largest(asked)[0], rtol=1e-12, atol=1e-13)
    # a sparse table that is too large for an array is bounded, too
    with (
        mock.patch("confmax.tables.sparse.kind.DENSE_CELLS", 0),
        mock.patch("confmax.tables.sparse.kind.DENSE_FACTOR", 0),
    ):
        sparse = confmax.maximize("macro_f1", csr_array(P), **SETTINGS)
    assert sparse.upper_bound == pytest.approx(confmax.maximize("macro_f1", P, **SETTINGS).upper_bound, abs=1e-9)


def test_a_linear_program_stays_near_and_its_value_bounds_from_below():
    rng = np.random.default_rng(6)
    P = rng.dirichlet([2.0, 1.0, 0.5, 0.4], 300)
    edges, parts, oracle = edges_of(METRICS[0], P)
    scale = np.stack([parts.weights / oracle.rows, edges.largest(np.zeros((1, 2, 4)))[0][0] / oracle.rows])
    answers = oracle.maximize(Gains.reduced(rng.random((20, 4)), rng.normal(size=(20, 4)) / 5))
    shares, centre = np.stack([answers.diagonal, answers.columns], axis=1), 0.5 * scale * [[1.0], [-0.2]]
    none = np.zeros((20, 0))
    floor, prices, _, weights = _lowest(edges.sampled(), shares, centre, scale, none, none[0], -np.inf)
    assert (np.abs(prices - centre) <= REACH * scale * (1 + 1e-9)).all()
    assert weights.sum() == pytest.approx(1.0)
    # no prices in the box have a lower bound, and these have this one by the points and answers that are known
    tried = np.concatenate([prices[None], centre + REACH * scale * rng.uniform(-1, 1, (300, 2, 4))])
    answered = (tried[:, None] * shares).sum(axis=(2, 3)).max(axis=1)
    heights = edges.sampled()[:, 0] - (tried[:, None] * edges.sampled()[:, 1:]).sum(axis=2)
    bounds = heights.max(axis=1).sum(axis=1) + answered
    assert bounds[0] == pytest.approx(floor, abs=1e-9)
    assert bounds.min() >= floor - 1e-9
    assert (edges.largest(tried)[0].sum(axis=1) + answered >= floor - 1e-9).all()


def test_many_classes_have_a_bound_below_their_separate_maxima():
    P = np.random.default_rng(7).dirichlet(np.full(70, 0.05), 400)
    separate = edges_of(METRICS[0], P)[0].largest(np.zeros((1, 2, 70)))[0].sum()
    solution = confmax.maximize("macro_f1", P, confusion="model", randomized=True, max_passes=16)
    assert solution.value <= solution.upper_bound < separate - 0.1 * (separate - solution.value)


def test_weights_that_vanish_beside_others_do_no_harm():
    P = np.array([[0.9, 0.1, 0.0], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8], [0.4, 0.3, 0.3]])
    full = confmax.maximize("macro_f1", P[:3], confusion="model")
    tiny_weights = confmax.maximize("macro_f1", P, sample_weight=[1.0, 1.0, 1.0, 1e-30], confusion="model")
    assert tiny_weights.upper_bound == pytest.approx(full.upper_bound, rel=1e-6)
    assert confmax.maximize("macro_f1", P, confusion="model", tol=0.0).gap < 0.05
