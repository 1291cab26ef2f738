"""Bounds on metrics and limits in boxes of statistics: never below a value in the box, and they leave out nothing."""

import numpy as np
import pytest

from confmax import constraints as c
from confmax import metrics
from confmax.confusion import Confusion, Gains
from confmax.constraints import bind
from confmax.metrics.alignment import fit_metric
from confmax.optimize.beam import Corners, Objective
from confmax.optimize.breakpoints import Coordinate, Scored, all_breakpoints, working_gain
from confmax.oracle import CountingOracle, make_oracle
from confmax.tables import make_table

K = 4
BOUNDED = ("accuracy", "balanced_accuracy", "g_mean", "h_mean", "q_mean", "min_recall", "macro_f1", "weighted_f1")
BOUNDED += ("macro_jaccard", "macro_precision", "micro_f1", "f1[2]", "precision[1]", "recall[0]", "specificity[3]")


def table_of(seed, n=400):
    """Return a table with labels."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet([0.4, 0.6, 0.8, 0.3], n)
    return make_table(P, np.array([rng.choice(K, p=p) for p in P]), None, range(K))


def boxes(rows, rng, count=200):
    """Return the lowest and the highest statistics of pairs of rules, and any statistics between them."""
    matrices = rng.dirichlet(np.full(K, 0.5), (2, count, K)) * rows[:, None]
    every = [Confusion(rows, np.einsum("bkk->bk", part), part.sum(axis=1)) for part in matrices]
    parts = [np.stack([getattr(S, name) for S in every]) for name in ("diagonal", "columns")]
    low, high = (Confusion(rows, *(pick(part, axis=0) for part in parts)) for pick in (np.min, np.max))
    weight = rng.random((2, count, K))
    inside = [
        getattr(low, name) + w * (getattr(high, name) - getattr(low, name))
        for name, w in zip(("diagonal", "columns"), weight, strict=True)
    ]
    # no rule decides more rows of a class rightly than it decides as the class
    return low, high, Confusion(rows, np.minimum(*inside), inside[1])


@pytest.mark.parametrize("name", BOUNDED)
def test_no_value_in_a_box_exceeds_its_bound(name):
    """Any statistics between two confusions, whether a rule has them or not: the solver's objective is no larger."""
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.full(K, 3.0))
    metric = fit_metric(metrics.get(name), table_of(0), explicit=True)
    objective = Objective.of(metric, rows, K)
    assert objective is not None
    low, high, inside = boxes(rows, rng)
    assert (metric.values(inside) <= objective.most(low, high) + 1e-12).all()
    # a box that is a point has the value of the point, if it is not below that of no decision
    np.testing.assert_allclose(objective.most(inside, inside), np.maximum(metric.values(inside), 0.0), atol=1e-9)


def test_limits_are_bounded_too():
    """The functions of limits, of which one that is negative is a limit missed."""
    rng = np.random.default_rng(1)
    table = table_of(1)
    wanted = [c.recall(0) >= 0.4, c.rate(1) <= 0.3, c.precision(2) >= 0.5, c.min_recall() >= 0.1]
    functions = bind(wanted, table, explicit=True).functions(table.label_weight(), K)
    corners = Corners.of(functions)
    low, high, inside = boxes(table.label_weight(), rng)
    assert (functions.values(inside) <= corners.most(low, high) + 1e-12).all()


@pytest.mark.parametrize("name", ["quadratic_kappa", "mcc"])
def test_what_is_not_bounded_says_so(name):
    """Metrics of the whole matrix, and those that are no sum of ratios."""
    assert Objective.of(fit_metric(metrics.get(name), table_of(0), explicit=True), np.full(K, 0.25), K) is None


@pytest.mark.parametrize("kind", ["weight", "offset"])
@pytest.mark.parametrize("name", ["macro_f1", "g_mean", "min_recall", "accuracy", "macro_precision"])
def test_the_bound_leaves_out_nothing_better(name, kind):
    """Every cut above a level has its value with the bound as without, and the best coefficients are the same."""
    rng = np.random.default_rng(2)
    table = table_of(2)
    metric = fit_metric(metrics.get(name), table, explicit=True)
    oracle = CountingOracle(make_oracle(table, "blend", model_share=0.4))
    bound = Objective.of(metric, oracle.rows, K).most
    left_out = 0
    for j in range(K):
        gain = working_gain(Gains.reduced(rng.uniform(0.5, 2.0, K), rng.uniform(-0.1, 0.1, K)), table.head.proba.dtype)
        scored = Scored.of(oracle, table.head, gain)
        every = next(all_breakpoints(metric, scored, [Coordinate(kind, j)]), None)
        above = float(np.quantile(every.values, 0.95))
        some = next(all_breakpoints(metric, scored, [Coordinate(kind, j)], bound, above), None)
        better = every.values > above
        np.testing.assert_array_equal(some.values[better], every.values[better])
        np.testing.assert_array_equal(some.best(above, 4), every.best(above, 4))
        left_out += int((some.values < -1.0).sum())
    assert left_out > 0
