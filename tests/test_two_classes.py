"""Two classes: the best rule draws between two thresholds, and equals an independent optimum over all mixtures."""

import numpy as np
import pytest
from scipy.spatial import ConvexHull, QhullError

import confmax
from benchmarks import every_threshold
from confmax import metrics
from confmax.optimize.cuts import Cuts
from confmax.optimize.estimate import Estimate
from confmax.oracle import make_table
from tests.helpers import by_numpy
from tests.witnesses import MEANS, best_by_definition, small_table

pytestmark = pytest.mark.filterwarnings("ignore:.*duplicates:UserWarning", "ignore:.*has no weight in class")


def coin(n=200):
    """Rows that are all alike, labels that are drawn by a coin."""
    return np.full((n, 2), 0.5), np.random.default_rng(0).integers(0, 2, n)


@pytest.mark.parametrize("settings", [{}, {"confusion": "labels"}, {"confusion": "blend"}, {"confusion": "model"}])
@pytest.mark.parametrize("name", MEANS)
def test_a_coin_is_decided_by_a_draw(name, settings):
    P, y = coin()
    solution = confmax.maximize(name, P, y, **settings)
    assert solution.rule.is_randomized
    assert solution.value == pytest.approx(0.5, abs=1e-9)
    assert solution.randomization_loss == 0.0
    single = confmax.maximize(name, P, y, randomized=False, **settings)
    assert not single.rule.is_randomized
    assert single.value + single.randomization_loss == pytest.approx(0.5, abs=1e-9)


@pytest.mark.parametrize("name", MEANS)
def test_the_best_mixture_equals_an_independent_optimum(name):
    for seed in range(8):
        P, y, weight = small_table(seed)
        for mode, table_mode in (("labels", 0.0), ("model", 1.0), ("blend", None)):
            solution = confmax.maximize(
                name, P, y, sample_weight=weight, confusion=mode, calibration=None, randomized=True
            )
            share = solution.model_share if table_mode is None else table_mode
            assert solution.value == pytest.approx(best_by_definition(name, P, y, weight, share), abs=1e-9)
            if mode == "model":
                every = best_by_definition(name, P, y, weight, share, all_rules=True)
                assert solution.value == pytest.approx(every, abs=1e-9)


@pytest.mark.parametrize("mode", ["labels", "model"])
@pytest.mark.parametrize("name", ["macro_f1", "macro_jaccard", "weighted_f1"])
def test_other_metrics_draw_where_a_fine_grid_draws(name, mode):
    metric = metrics.get(name)
    for seed in range(8):
        P, y, weight = small_table(seed)
        solution = confmax.maximize(name, P, y, sample_weight=weight, confusion=mode, calibration=None, randomized=True)
        cuts = Cuts.of(Estimate.alike(make_table(P, y, weight), mode == "model").two_classes(1)).confusions
        steps = np.linspace(0, 1, 101)
        pairs = [(cuts[i], cuts[j]) for i in range(len(cuts)) for j in range(i)]
        best = max(float(metric.values(one.toward(other, steps)).max()) for one, other in pairs)
        assert solution.value >= best - 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_no_threshold_is_better_on_any_estimate(seed):
    # linear metrics, too, whose best rule is known on the model alone; after `adapt` as before
    wanted = ("accuracy", "balanced_accuracy", "costs", "f1", "g_mean")
    assert [(name, kind) for name, kind, is_short in every_threshold.short(seed, wanted) if is_short] == []


def test_a_small_gain_does_not_make_a_rule_draw():
    rng = np.random.default_rng(3)
    p = rng.random(3000)
    y = (rng.random(3000) < p).astype(int)
    solution = confmax.maximize("g_mean", np.column_stack([1 - p, p]), y, confusion="labels", calibration=None)
    assert not solution.rule.is_randomized
    assert 0.0 <= solution.randomization_loss < 1e-3


def leaning(C):
    """A concave function whose best recalls, .6 and .5, lie inside the hull."""
    T = C / C.sum(axis=1, keepdims=True)
    return 1.0 - (T[0, 0] - 0.6) ** 2 - (T[1, 1] - 0.5) ** 2


@pytest.mark.parametrize("mode", ["labels", "model"])
def test_an_optimum_inside_the_hull_is_found(mode):
    metric = metrics.from_function(leaning, structure="concave", name="leaning", n_classes=2)
    p = np.linspace(0.05, 0.95, 40)
    y = (np.random.default_rng(1).random(40) < p).astype(int)
    solution = confmax.maximize(
        metric, np.column_stack([1 - p, p]), y, confusion=mode, calibration=None, randomized=True
    )
    assert solution.value == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_the_chain_is_that_of_scipy(seed):
    from confmax.optimize.threshold import upper_chain

    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 60))
    points = np.cumsum(np.vstack([[0, 0], rng.integers(0, 4, (n, 2))]), axis=0).astype(float)
    points[-1] += 1
    chain = upper_chain(points[:, 0], points[:, 1])
    with by_numpy():
        np.testing.assert_array_equal(upper_chain(points[:, 0], points[:, 1]), chain)
    try:
        corners = set(map(tuple, points[ConvexHull(points).vertices]))
    except QhullError:
        corners = {tuple(points[0]), tuple(points[-1])}
    line = points[0] + (points[:, :1] - points[0, 0]) / (points[-1, 0] - points[0, 0]) * (points[-1] - points[0])
    above = {tuple(p) for p, q in zip(points, line, strict=True) if p[1] > q[1] + 1e-12}
    assert {tuple(points[k]) for k in chain} - {tuple(points[0]), tuple(points[-1])} == corners & above
