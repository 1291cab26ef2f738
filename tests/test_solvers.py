"""Solvers against enumeration: exact searches find the best, certificates are never violated."""

from dataclasses import replace

import numpy as np
import pytest

import confmax
from confmax import metrics
from confmax.confusion import Confusion
from confmax.optimize import (
    BayesCG,
    BruteForce,
    FrankWolfe,
    FullyCorrective,
    MaxMin,
    Status,
    ThresholdSearch,
    threshold,
    warm,
)
from confmax.optimize.conditional_gradient import line_search, line_searches, open_loop
from confmax.optimize.estimate import Estimate
from confmax.oracle import make_oracle, make_table
from tests.helpers import all_deterministic_confusions, confusion_of, hull_of, most_over_hull, population
from tests.parts_helpers import cut

CONCAVE = ["g_mean", "h_mean", "q_mean", "min_recall"]
RATIO = ["cohen_kappa", "linear_kappa", "quadratic_kappa", "micro_f1", "micro_f1_once"]
LINEAR = ["accuracy", "balanced_accuracy", "informedness"]
BINARY = ["f1", "f_beta", "jaccard", "fowlkes_mallows"]
GENERAL = ["macro_f1", "weighted_f1", "macro_jaccard", "macro_precision", "mcc"]


@pytest.mark.parametrize(("n", "K", "seed"), [(6, 2, 0), (5, 3, 1)])
@pytest.mark.parametrize("name", LINEAR + RATIO)
def test_the_conditional_gradient_finds_deterministic_optima(name, n, K, seed):
    """Linear functions, and ratios of them, have a deterministic optimum, which the gradient finds and certifies."""
    P, weight = population(seed, n, K)
    deterministic = max(metrics.get(name).value(C) for C in all_deterministic_confusions(P, weight))
    solution = confmax.maximize(name, P, sample_weight=weight, solver=FrankWolfe(), randomized=True, max_passes=400)
    assert solution.value == pytest.approx(deterministic, abs=1e-9)
    assert solution.upper_bound >= deterministic - 1e-9
    assert solution.status is Status.CONVERGED


@pytest.mark.parametrize(("n", "K", "seed"), [(6, 2, 0), (6, 2, 3), (5, 3, 1), (5, 3, 2)])
@pytest.mark.parametrize("name", CONCAVE)
def test_certified_solvers_reach_the_optimum(name, n, K, seed):
    """The best mixture of all deterministic rules, by an LP or by ascent over their hull within 1e-6, is met."""
    P, weight = population(seed, n, K)
    solution = confmax.maximize(name, P, sample_weight=weight, randomized=True)
    assert solution.status is Status.CONVERGED
    assert 0 <= solution.gap <= 1e-6
    optimum = most_over_hull(metrics.get(name), hull_of(P, weight))
    assert solution.upper_bound >= optimum - 1e-9
    assert solution.value == pytest.approx(optimum, abs=1.1e-6)
    assert solution.n_passes <= 25


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", CONCAVE)
def test_a_deterministic_rule_pays_its_randomization_loss(name, seed):
    P, weight = population(seed, 5, 3)
    mixed = confmax.maximize(name, P, sample_weight=weight, randomized=True)
    single = confmax.maximize(name, P, sample_weight=weight, randomized=False)
    assert not single.rule.is_randomized
    assert single.value + single.randomization_loss == pytest.approx(mixed.value, abs=1e-9)
    assert mixed.randomization_loss == 0.0
    deterministic = max(metrics.get(name).value(C) for C in all_deterministic_confusions(P, weight))
    assert single.value <= deterministic + 1e-12


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("mode", ["model", "labels"])
@pytest.mark.parametrize("name", [*BINARY, *GENERAL, *LINEAR, *CONCAVE, "cohen_kappa", "quadratic_kappa"])
def test_threshold_search_is_the_best_of_all_cuts(name, mode, seed):
    rng = np.random.default_rng(seed)
    P = np.round(rng.dirichlet([1, 1], 30), 1 if seed % 2 else 6)
    y = (rng.random(30) < P[:, 1]).astype(int)
    y[:2] = [0, 1]
    weight = rng.random(30)
    solution = confmax.maximize(
        name, P, y, sample_weight=weight, confusion=mode, solver=ThresholdSearch(), randomized=False
    )
    truth = (P if mode == "model" else np.eye(2)[y]) * weight[:, None] / weight.sum()
    cuts = [-1.0, *np.unique(P[:, 1]), 2.0]
    values = [metrics.get(name).value(confusion_of(truth, (P[:, 1] > t).astype(int), 2)) for t in cuts]
    assert solution.value == pytest.approx(max(values), abs=1e-12)
    assert solution.status in (Status.OPTIMAL, Status.CONVERGED)


@pytest.mark.parametrize("name", [*BINARY, "accuracy", "balanced_accuracy", "cohen_kappa"])
def test_threshold_search_is_globally_optimal_on_the_model(name):
    """Linear, ratio and quasi-convex metrics have a deterministic optimum, at a threshold."""
    for seed in range(3):
        P, weight = population(seed, 8, 2)
        best = max(metrics.get(name).value(C) for C in all_deterministic_confusions(P, weight))
        solution = confmax.maximize(name, P, sample_weight=weight, solver=ThresholdSearch())
        assert solution.value == pytest.approx(best, abs=1e-12)
        assert solution.gap == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("name", ["f1", "f_beta", "jaccard", "precision", "npv", "cohen_kappa", "micro_f1"])
def test_thresholds_turned_round_are_left_out_where_right_decisions_pay(name):
    rng = np.random.default_rng(3)
    metric = metrics.get(name)
    for seed in range(30):
        P = rng.dirichlet(rng.uniform(0.2, 2.0, 2), 40)
        rows = make_table(P).head.column_sums(np.full(40, 1 / 40))
        assert threshold._rises(metric.as_ratios(rows, 2))
        cuts = threshold.Thresholds.of(Estimate.alike(make_table(P), 1.0), matrix=False).confusions
        turned = threshold._turned_round(cuts)
        assert np.nanmax(metric.values(turned)) <= np.nanmax(metric.values(cuts)) + 1e-12, seed
    errors = metrics.get("linear", gain=[[0.0, 1.0], [1.0, 0.0]])
    assert not threshold._rises(errors.as_ratios(rows, 2))


def test_threshold_search_claims_nothing_for_metrics_that_reward_errors():
    """Deciding wrongly pays: the best rule is a threshold turned round, and the gap says that it was not found."""
    for seed in range(4):
        P, weight = population(seed, 7, 2)
        metric = metrics.get("linear", gain=[[0, 1], [2, 0]])
        best = max(metric.value(C) for C in all_deterministic_confusions(P, weight))
        solution = confmax.maximize(metric, P, sample_weight=weight, solver=ThresholdSearch())
        assert solution.upper_bound == pytest.approx(best, abs=1e-12)
        assert confmax.maximize(metric, P, sample_weight=weight).value == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cuts_separate_neighbouring_floats(dtype):
    """No float lies between the two probabilities, yet the rule must tell them apart."""
    low = dtype(0.3)
    high = np.nextafter(low, dtype(1))
    P = np.array([[1 - low, low], [1 - high, high]], dtype=dtype)
    solution = confmax.maximize("f1", P, [0, 1], confusion="labels", solver=ThresholdSearch())
    assert solution.value == 1.0
    assert solution.rule.predict(P).tolist() == [0, 1]


def test_frank_wolfe_takes_the_papers_steps():
    """Round 1 has step 1; round j mixes with 2 / (j + 1), so rule j has weight 2 j / (T (T + 1)) after T rounds."""
    assert [open_loop(j) for j in (1, 2, 3)] == [1.0, 2 / 3, 0.5]
    rng = np.random.default_rng(0)
    table = make_table(rng.dirichlet([1, 1, 1], 60))
    from confmax.optimize import Problem, baselines
    from confmax.oracle import CountingOracle, make_oracle

    oracle = CountingOracle(make_oracle(table))
    starts = baselines(oracle, [table.mean_probability()], 3, matrix=False)
    problem = Problem(metrics.get("h_mean"), oracle, 3, tuple(starts), 100)
    solver, T = FrankWolfe("open_loop", rho=0.01), 7
    state = solver.init(problem)
    for _ in range(T):
        state, _ = solver.step(problem, state)
    np.testing.assert_allclose(state.rule.weights, [2 * j / (T * (T + 1)) for j in range(1, T + 1)], rtol=1e-12)


def test_line_search_is_exact():
    rng = np.random.default_rng(1)
    rows = np.array([0.5, 0.3, 0.2])
    for name in ("g_mean", "h_mean", "q_mean", "macro_f1", "mcc", "cohen_kappa"):
        for _ in range(5):
            A, B = (Confusion.from_matrix(rng.dirichlet([1, 1, 1], 3) * rows[:, None]) for _ in range(2))
            metric = metrics.get(name)
            fine = metric.at(A.toward(B, np.linspace(0, 1, 100_001))).value
            step = line_search(metric, A, B)
            assert float(metric.at(A.toward(B, np.array([step])))[0][0]) >= fine.max() - 1e-9
    C = Confusion.from_matrix(np.diag(rows))
    assert line_search(metrics.get("h_mean"), C, A) == 0.0


@pytest.mark.parametrize("name", [*LINEAR, *RATIO, *BINARY, "ams", "mcc"])
def test_metrics_that_no_draw_improves_are_largest_at_an_end(name):
    """A line search compares the ends alone. A correlation below zero is an exception, but a constant rule beats it."""
    rng, metric = np.random.default_rng(3), metrics.get(name)
    K = 2 if metric.binary else 3
    rows = rng.dirichlet(np.ones(K))
    first, last = (
        replace(Confusion.from_matrix(rows[:, None] * rng.dirichlet(np.full(K, 0.3), (400, K))), rows=rows)
        for _ in range(2)
    )
    values = metric.values(first.along(last, np.tile(np.linspace(0.0, 1.0, 65), (400, 1))))
    ends = np.maximum(values[:, 0], values[:, -1])
    counted = ends > 0.0 if name == "mcc" else np.ones(400, dtype=bool)
    assert not metric.structure.may_draw and counted.sum() > 200
    assert (values.max(axis=1) <= ends + 1e-12)[counted].all()
    steps = line_searches(metric, first, last)
    assert np.isin(steps, [0.0, 1.0]).all()
    np.testing.assert_array_equal(np.where(steps > 0.0, values[:, -1], values[:, 0]), ends)


@pytest.mark.filterwarnings("ignore:the log loss of the probabilities")  # labels without any relation to them
def test_bayes_cg_makes_ceil_kappa_m_rounds():
    rng = np.random.default_rng(2)
    P = rng.dirichlet([1, 1, 1], 20)
    y = np.arange(20) % 3
    done = confmax.maximize("h_mean", P, y, solver=BayesCG(kappa=1), confusion="labels")
    assert done.status is Status.FINISHED
    assert done.n_passes == 1 + 20 + 1  # the starting rules, T = m rounds, the final evaluation
    assert BayesCG(alpha=0.3, kappa=0.5).rounds(27) == 45
    short = confmax.maximize("h_mean", P, y, solver=BayesCG(kappa=100), confusion="labels", max_passes=15)
    assert short.status is Status.TRUNCATED
    assert short.n_passes == 15
    assert "raise max_passes" in short.status.value


@pytest.mark.parametrize(("name", "K"), [("g_mean", 3), ("cohen_kappa", 3), ("macro_f1", 2), ("accuracy", 2)])
def test_brute_force_tries_what_it_counts(name, K):
    """The grid has as many gains as announced, no two of the same decisions by a shared factor or offset."""
    metric = metrics.get(name)
    solver = BruteForce(resolution=4)
    grid = list(solver._grid(metric.gain_form, np.full(K, 1 / K), K))
    assert len(grid) == solver.n_gains(metric.gain_form, K)
    flat = {tuple(np.round(np.concatenate(pair), 12)) for pair in grid}
    assert len(flat) == len(grid)


@pytest.mark.parametrize(
    ("metric", "K", "solver", "sentence"),
    [
        ("macro_f1", 2, MaxMin(), "MaxMin maximises only the unsmoothed min_recall and got macro_f1"),
        ("macro_f1", 2, FullyCorrective(), "needs a concave metric with a gradient and got macro_f1"),
        ("min_recall", 2, FullyCorrective(), "got min_recall, declared concave; use solver='max_min'"),
        ("macro_f1", 3, ThresholdSearch(), "ThresholdSearch needs two classes, but the table has 3"),
        ("quadratic_kappa", 3, BruteForce(), r"would try 1e\+09 gains \(matrix of 3 classes at resolution 10\)"),
        ("g_mean", 9, BruteForce(), r"would try 6.13e\+08 gains \(weights of 9 classes at resolution 10\)"),
        ("macro_f1", 9, BruteForce(), r"weights and offsets .* hours on 50 rows; lower resolution"),
    ],
)
def test_solvers_refuse_what_they_cannot_search(metric, K, solver, sentence):
    P = np.random.default_rng(0).dirichlet(np.ones(K), 50)
    with pytest.raises(ValueError, match=sentence):
        confmax.maximize(metric, P, solver=solver)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: FrankWolfe("short"), "step_rule of FrankWolfe"),
        (lambda: FrankWolfe(rho=-1), "rho of FrankWolfe must be finite and not negative"),
        (lambda: FrankWolfe(smoothing="x"), "smoothing of FrankWolfe"),
        (lambda: BayesCG(alpha=0), r"alpha of BayesCG must be a fraction in \(0, 1\]; got 0"),
        (lambda: BayesCG(kappa=0), "kappa of BayesCG must be positive"),
        (lambda: BruteForce(resolution=1), "resolution of BruteForce must be an integer of at least 2"),
        (lambda: BruteForce(batch=0), "batch of BruteForce"),
        (lambda: BruteForce(max_operations="x"), "max_operations of BruteForce must be a positive number; got 'x'"),
        (lambda: BayesCG(alpha="x"), "alpha of BayesCG"),
        (lambda: FrankWolfe(rho="x"), "rho of FrankWolfe"),
    ],
)
def test_settings_out_of_range(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_a_gain_without_a_derivative_restarts_from_the_random_rule():
    """Every row looks alike, so argmax gives the G-mean 0, where its slope is infinite."""
    solution = confmax.maximize("g_mean", np.tile([0.5, 0.3, 0.2], (4, 1)), randomized=True)
    assert solution.value == pytest.approx(1 / 3, abs=1e-6)
    assert solution.gap <= 1e-6


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", CONCAVE)
def test_of_two_classes_the_single_rule_is_the_best_threshold(name, seed):
    P, weight = population(seed, 9, 2)
    truth = P * weight[:, None] / weight.sum()
    cuts = [-1.0, *np.unique(P[:, 1]), 2.0]
    best = max(metrics.get(name).value(confusion_of(truth, (P[:, 1] > t).astype(int), 2)) for t in cuts)
    single = confmax.maximize(name, P, sample_weight=weight, randomized=False)
    assert single.value == pytest.approx(best, abs=1e-12)
    assert single.gap - single.randomization_loss <= 1e-6


def test_brute_force_over_full_gains():
    P = np.array([[0.6, 0.4], [0.3, 0.7], [0.5, 0.5]])
    solution = confmax.maximize("quadratic_kappa", P, solver=BruteForce(resolution=5))
    assert solution.status is Status.CONVERGED or solution.status is Status.OPTIMAL
    best = max(metrics.get("quadratic_kappa").value(C) for C in all_deterministic_confusions(P))
    assert solution.value == pytest.approx(best, abs=1e-12)


# --- samples of large tables ------------------------------------------------------------------------------------------


def test_a_sample_is_used_if_it_has_the_classes_and_about_the_rows_that_were_asked(monkeypatch):
    for name, value in (("SAMPLE_ROWS", 20), ("ROWS_PER_CLASS", 5), ("PART", 1000)):
        monkeypatch.setattr(warm, name, value)
    P = np.random.default_rng(0).dirichlet(np.ones(3), 400)

    def sample(P, y=None, weight=None):
        return warm.sample_of(
            make_oracle(make_table(P, y, weight, classes=range(3)), "model" if y is None else "labels")
        )

    found = sample(P)
    assert 10 <= found.table.n_rows <= 40 and found.exact
    chosen = (found.table.head.proba[:, None] == P).all(axis=2).any(axis=1)
    assert chosen.all()
    np.testing.assert_allclose(found.rows, found.table.head.proba.mean(axis=0))
    # few rows, copies of one row, no weight in the sample
    assert sample(P[:99]) is None
    assert sample(np.repeat(P[:1], 400, axis=0)) is None
    sampled = (P[:, None] == found.table.head.proba).all(axis=2).any(axis=1)
    assert sample(P, weight=np.where(sampled, 0.0, 1.0)) is None
    # the only row of a class is in the sample, or not
    place = np.arange(400)
    for inside in (True, False):
        y = np.where(place == np.flatnonzero(sampled == inside)[0], 2, place % 2)
        one = sample(P, y)
        assert (one is not None) == inside
        if inside:
            np.testing.assert_allclose(one.rows, np.bincount(y[sampled], minlength=3) / sampled.sum())


@pytest.mark.usefixtures("small_samples")
def test_parts_whose_sample_lacks_a_class_are_solved_within_limits_without_it(monkeypatch):
    monkeypatch.setattr("confmax.tables.partitioned.table.SAMPLE_CELLS", 300)
    P = np.random.default_rng(0).dirichlet([1.0, 1.0, 0.01], 1000)
    y = np.where(np.arange(1000) == 1, 2, P[:, :2].argmax(axis=1))
    parts = cut(P, y, at=(300, 700))
    assert 2 not in make_table(parts).head.labels
    limits = ["rate[0] <= 0.25", "recall[1] >= 0.5"]
    found = confmax.maximize("accuracy", parts, constraints=limits, confusion="labels", calibration=None)
    decided = found.predict(P)
    assert found.feasible and (decided == 0).mean() <= 0.25 and (decided[y == 1] == 1).mean() >= 0.5
    # the rows decided as 0 are a quarter, and all others of this class are decided wrongly
    assert found.value == pytest.approx((decided == y).mean())
    assert 0.25 + (y == 1).mean() - 0.01 <= found.value <= 0.25 + (y != 0).mean()


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("g_mean", {}),
        ("q_mean", {"sample_weight": np.arange(1.0, 401.0)}),
        ("macro_f1", {"confusion": "labels", "randomized": False}),
        ("mcc", {"confusion": "labels", "randomized": False}),
    ],
)
def test_a_search_that_begins_on_a_sample_ends_where_one_on_all_rows_does(name, settings, monkeypatch):
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), 400)
    y = (P.cumsum(axis=1) > rng.random((400, 1))).argmax(axis=1)
    given = {"confusion": "model", "calibration": None, "randomized": True, **settings}
    alone = confmax.maximize(name, P, y, **given)
    for size, value in (("SAMPLE_ROWS", 20), ("ROWS_PER_CLASS", 5), ("PART", 1000)):
        monkeypatch.setattr(warm, size, value)
    asked = []
    begun = warm.warm_start
    monkeypatch.setattr("confmax.optimize.warm_start", lambda *of: asked.append(begun(*of)) or asked[-1])
    found = confmax.maximize(name, P, y, **given)
    assert len(asked) == 1 and asked[0] is not None
    if given["confusion"] == "model":
        assert found.value == pytest.approx(alone.value, abs=1e-6) and 0.0 <= found.gap <= 1e-6
    else:
        # a search without a certificate may end elsewhere, at the value of its rule
        decided = np.eye(3)[found.predict(P)]
        assert found.value == pytest.approx(metrics.get(name).value(np.eye(3)[y].T @ decided / 400))
        assert found.value >= alone.value - 0.02
