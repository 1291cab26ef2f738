"""The masters of column generation with rows of limits: against linear programs over all rules of tiny tables."""

import numpy as np
import pytest
from scipy.optimize import linprog

from confmax import kernels, metrics
from confmax.confusion import Confusion, Gains
from confmax.metrics.curved import SumOfRatios
from confmax.metrics.structure import AffineFunctions, PowerMean
from confmax.optimize import ColumnGeneration, Problem, Status, baselines
from confmax.optimize.masters.generic import Smooth, least_norm_model, model_of_pairs, pairs_of
from confmax.optimize.masters.interior import Sum, central_path, least_norm
from confmax.optimize.masters.program import Program
from confmax.oracle import CountingOracle, make_oracle, make_table
from tests import helpers
from tests.helpers import (
    all_deterministic_confusions,
    balanced_columns,
    by_numpy,
    entropy_gradient,
    entropy_like,
    population,
)

K = 3


MASTERS = {
    "min_recall": (metrics.get("min_recall"), Program),
    "g_mean": (metrics.get("g_mean"), Program),
    "h_mean": (metrics.get("h_mean"), Program),
    "q_mean": (metrics.get("q_mean"), Program),
    "smoothed h_mean": (metrics.get("h_mean", rho=0.05), Smooth),
    "accuracy": (metrics.get("accuracy"), Program),
    "of the columns": (metrics.Metric("columns", balanced_columns, "concave", "columns"), Smooth),
    "of the matrix": (
        metrics.from_function(entropy_like, gradient=entropy_gradient, structure="concave", name="mine"),
        Smooth,
    ),
}


class Plain:
    """Limits that are linear functions of the confusion themselves."""

    def __init__(self, given):
        self.given, self.statistics = given, given.statistics

    def functions(self, rows, n_decisions):
        return self.given

    def curves(self, n_classes):
        return ()

    def leeway(self, n_classes):
        return np.full(len(self.given), np.inf)

    def slacks(self, S):
        return self.given.values(S)


def run(metric, P, limits, tol=1e-8):
    """Return the last state and step, the smallest bound and the number of rounds of column generation."""
    table = make_table(P)
    oracle = CountingOracle(make_oracle(table))
    matrix = metric.statistics == "matrix" or limits.statistics == "matrix"
    starts = tuple(baselines(oracle, [table.mean_probability()], K, matrix=matrix))
    problem, solver, bound = (
        Problem(metric, oracle, K, starts, 60, tol, limits=Plain(limits)),
        ColumnGeneration(),
        np.inf,
    )
    state = solver.init(problem)
    for _ in range(40):
        state, step = solver.step(problem, state)
        bound = min(bound, np.inf if step.upper_bound is None else step.upper_bound)
        if step.status is not None or bound - problem.value(step.iterate.confusion) <= tol:
            break
    return state, step, bound, oracle.n_passes


def recall_and_rate(P, recall, rate):
    """Return the limits: the recall of class 0 at least ``recall``, decisions of class 2 at most a share ``rate``."""
    share = P.mean(axis=0)[0]
    gains = Gains.reduced([[1 / share, 0, 0], [0, 0, 0]], [[0, 0, 0], [0, 0, -1]])
    return AffineFunctions(gains, np.array([-recall, rate]))


def program(objective, slack):
    """Maximise ``w @ objective`` over the simplex with ``w @ slack >= 0``; None if that is impossible."""
    A = len(objective)
    found = linprog(-objective, A_ub=-slack.T, b_ub=np.zeros(slack.shape[1]), A_eq=np.ones((1, A)), b_eq=[1.0])
    return -found.fun if found.status == 0 else None


def all_rules(P):
    return Confusion.from_matrix(all_deterministic_confusions(P))


def limits_that_bind(P, rules, recall=0.5, rate=0.9):
    """Return limits halfway from the free optimum of the G-mean to what is possible, and their slacks at all rules."""
    free = run(metrics.get("g_mean"), P, recall_and_rate(P, 0.0, 1.0))[1].iterate.confusion
    reached = free.diagonal[0] / P.mean(axis=0)[0]
    limits = recall_and_rate(P, reached + recall * (1 - reached), rate * free.columns[2])
    return limits, limits.values(rules)


@pytest.mark.parametrize("seed", range(1))
@pytest.mark.parametrize("name", MASTERS)
def test_within_limits_no_rule_is_better(name, seed):
    """At the optimum x* no mixture of all rules within the limits is worth more at the prices f'(x*)."""
    metric, master = MASTERS[name]
    P = population(seed, 5, K)[0]
    rules = all_rules(P)
    limits, slack = limits_that_bind(P, rules)
    state, step, bound, _ = run(metric, P, limits)
    assert type(state.columns.master) is master
    confusion = step.iterate.confusion
    value = float(metric.values(confusion))
    assert limits.values(confusion).min() >= -1e-9
    assert value - 1e-9 <= bound <= value + 1e-7
    if name == "min_recall":
        assert value == pytest.approx(helpers.largest_minimum(rules.diagonal / rules.rows, slack), abs=1e-8)
    else:
        gain = metric.gains(metric.at(confusion))
        assert program(gain.dot(rules), slack) <= float(gain.dot(confusion)[0]) + 1e-6
    multipliers = state.columns.optimum.gain[-2:]
    assert (multipliers >= 0).all()
    # a limit that does not bind has no price
    assert abs(multipliers @ limits.values(confusion)) <= 1e-6


@pytest.mark.parametrize("seed", range(1))
@pytest.mark.parametrize("name", MASTERS)
def test_limits_that_no_rule_meets_are_proved(name, seed):
    """The multipliers price every rule of the table below zero (Farkas), and the run ends with this proof."""
    metric = MASTERS[name][0]
    P = population(seed, 5, K)[0]
    rules = all_rules(P)
    share = P.mean(axis=0)[0]
    gains = Gains.reduced([[1 / share, 0, 0], [0, 0, 0]], [[0, 0, 0], [-1, 0, 0]])
    # the largest recall of class 0 if it is decided for a fifth of the rows, and a little more
    rate = AffineFunctions(gains[1:], np.array([0.2])).values(rules)
    highest = program(gains[:1].dot(rules), rate)
    for demanded, possible in ((highest + 1e-3, False), (highest - 1e-3, True)):
        limits = AffineFunctions(gains, np.array([-demanded, 0.2]))
        slack = limits.values(rules)
        assert (program(np.zeros(len(slack)), slack) is not None) == possible
        state, step, bound, passes = run(metric, P, limits)
        assert (step.status is Status.INFEASIBLE) != possible
        assert passes <= 11
        if not possible:
            dual = state.columns.best_gain
            assert bound == np.inf and not dual[:-2].any() and (dual[-2:] >= 0).all()
            assert (slack @ dual[-2:]).max() < 0
            # by how much the limits are missed at least is what the best mixture of all rules misses
            least = helpers.largest_minimum(slack)
            assert state.columns.optimum.shortfall == pytest.approx(-least, abs=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_the_least_norm_within_limits(seed):
    """The conditions of optimality: no point within the limits lies further down the slope."""
    rng = np.random.default_rng(seed)
    points, slack = rng.normal(size=(12, 4)) + 0.5, rng.normal(size=(12, 2)) + 0.3
    weights = least_norm(points, slack)
    assert (weights >= 0).all() and weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert (weights @ slack).min() >= -1e-11
    nearest = weights @ points
    assert program(-points @ nearest, slack) <= -nearest @ nearest + 1e-9


@pytest.mark.skipif(kernels.native is None, reason="without the compiled module")
@pytest.mark.parametrize("kind", ["linear", "ratio", "smallest", "geometric", "of misses", "squares"])
@pytest.mark.parametrize("m", [0, 3])
def test_the_central_path_by_the_kernel_and_by_numpy(kind, m):
    """The same points to rounding; the solution is that of a linear program where it is one."""
    rng = np.random.default_rng([len(kind), m])
    for A in (3, 40, 150):
        tops, slack = rng.random((A, 4)), rng.normal(size=(A, m))
        # copies are met too, of which any share of the weight is right
        tops[1], slack[1] = tops[0], slack[0]
        slack += 0.2 - slack.mean(axis=0)
        if kind in ("linear", "ratio"):
            tops = tops[:, :1]
        bottom = rng.uniform(0.2, 1.0, A) if kind == "ratio" else np.ones(A)
        means = {"geometric": PowerMean(0.0), "of misses": PowerMean(2.0, of_misses=True), "squares": None}
        of = Sum(means[kind]) if kind in means else None
        if of is not None:
            tops = tops[:, :3] - (0.5 if kind == "squares" else 0.0)
        found = central_path(tops, bottom, slack, of)
        with by_numpy():
            expected = central_path(tops, bottom, slack, of)
        weights = found[0]
        np.testing.assert_allclose(weights @ tops, expected[0] @ tops, atol=1e-7)
        np.testing.assert_allclose(found[1][-1], expected[1][-1], rtol=1e-5, atol=1e-7)
        assert len(found[2]) == len(expected[2])
        assert weights.min() > 0 and weights @ bottom == pytest.approx(1.0) and (weights @ slack >= -1e-9).all()
        if of is None:
            S = tops.shape[1]
            program = linprog(
                np.append(np.zeros(A), -1.0), np.vstack([np.c_[-tops.T, np.ones(S)], np.c_[-slack.T, np.zeros(m)]]),
                np.zeros(S + m), [np.append(bottom, 0.0)], [1.0], [(0, None)] * A + [(None, None)],
            )  # fmt: skip
            assert (weights @ tops).min() == pytest.approx(-program.fun, abs=1e-8)


@pytest.mark.parametrize("name", MASTERS)
def test_a_multiplier_is_the_price_of_its_limit(name):
    """The value falls by the multiplier times what a limit is raised by."""
    metric, step = MASTERS[name][0], 1e-4
    P = population(1, 6, K)[0]
    limits, _ = limits_that_bind(P, all_rules(P))
    state, before, *_ = run(metric, P, limits, tol=1e-10)
    price = state.columns.optimum.gain[-2:]
    for k in range(2):
        moved = [
            float(metric.values(run(metric, P, AffineFunctions(limits.gains, limits.constants + change), tol=1e-10)[1]
                                .iterate.confusion))
            for change in (-step * np.eye(2)[k], step * np.eye(2)[k])
        ]  # fmt: skip
        value = float(metric.values(before.iterate.confusion))
        # the value is concave in the limit: the price lies between the slopes on both sides
        assert (moved[1] - value) / step - 1e-3 <= price[k] <= (value - moved[0]) / step + 1e-3


@pytest.mark.parametrize("name", MASTERS)
def test_a_limit_that_does_not_bind_changes_nothing(name):
    metric = MASTERS[name][0]
    P = population(2, 6, K)[0]
    none = AffineFunctions(Gains.reduced(np.zeros((1, K))), np.ones(1))
    wide = recall_and_rate(P, 0.0, 1.0)
    values = [float(metric.values(run(metric, P, limits)[1].iterate.confusion)) for limits in (none, wide)]
    assert values[0] == pytest.approx(values[1], abs=2e-8)


def test_pairs_of_numbers_give_the_model_of_the_whole_matrix():
    rng = np.random.default_rng(0)
    of = SumOfRatios(rng.random(4))
    z = rng.random(8) + 0.1
    model = -of.curvature(z)
    blocks = pairs_of(model)
    assert blocks is not None
    away, slope = rng.normal(size=(9, 8)), of.slope(z)
    mixes = rng.dirichlet(np.ones(9), 20)
    whole, paired = (
        ((mixes @ points) ** 2).sum(axis=1)
        for points in (least_norm_model(away, slope, model, 0.7), model_of_pairs(away, slope, blocks, 0.7))
    )
    # both are the same model but for a constant
    assert np.ptp(whole - paired) <= 1e-9 * np.ptp(whole)
    assert pairs_of(model + 1e-3) is None
    assert pairs_of(model[:7, :7]) is None
