"""A metric's structure is an object: what it knows is true, and solvers use it for metrics that users declare."""

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score, f1_score, matthews_corrcoef, precision_score

import confmax
from confmax import metrics
from confmax.checks import check_metric
from confmax.confusion import Confusion, Gains
from confmax.metrics.recalls import mean_of_recalls
from confmax.metrics.structure import (
    BY_WORD,
    AffineFunctions,
    Concave,
    DiagonalFunctions,
    General,
    Linear,
    MinOfLinear,
    PowerMean,
    Quasiconvex,
    Ratio,
)
from confmax.optimize.auto import choose
from tests.helpers import hull_of, largest_minimum, most_over_hull

WORDS = {"linear": Linear, "ratio": Ratio, "concave": Concave, "quasiconvex": Quasiconvex, "general": General}


def population(seed, n, K):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(K) * 0.8, n), rng.integers(1, 4, n).astype(float)


# --- words ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", WORDS)
def test_a_word_declares_a_structure_and_is_equal_to_it(word):
    """Words stood in the place of these objects, and comparisons with them keep their meaning."""
    kind = WORDS[word]
    structure = metrics.Metric("mine", lambda S: None, word, "columns").structure
    assert type(structure) is kind
    assert structure == word == str(structure) == structure.name
    assert structure != "something else"
    assert {word: 1}[structure] == 1
    assert structure == kind() != General(smoother="rho")
    assert (structure != Linear(((1.0, 0.0), (0.0, 1.0)))) and BY_WORD[word] == structure
    assert metrics.from_function(lambda C: C[0, 0] + C[1, 1], structure=kind()).structure == kind()


def test_smoothed_metrics_know_less():
    for name in ("g_mean", "h_mean", "q_mean", "min_recall"):
        metric = metrics.get(name)
        assert metric.bounds_any_gain and metrics.get(name, rho=0.0) == metric
        for smooth in (metric.smoothed(0.1), metrics.get(name, rho=0.1)):
            assert type(smooth.structure) is Concave and not smooth.bounds_any_gain
            assert smooth.structure == metric.smoothed(0.2).structure
    floored = metrics.get("ams").finite(50)
    assert (floored.structure, dict(floored.params)["b_min"]) == (General(smoother="b_reg"), 0.01)
    assert metrics.get("ams", b_reg=0.1).finite(50).structure == "quasiconvex"
    assert metrics.get("mcc").finite(50) == metrics.get("mcc")


# --- the smallest of linear functions ---------------------------------------------------------------------------------

WEIGHTS = np.array([1.0, 0.5, 0.75])
# for the solvers: the same functions three ways, of the diagonal, of diagonal and columns, and of the whole matrix
WAYS = {
    "diagonal": lambda r: DiagonalFunctions(r / WEIGHTS[: len(r)]),
    "columns": lambda r: Gains.reduced(np.diag(WEIGHTS[: len(r)] / r)),
    "matrix": lambda r: Gains.from_matrix([np.diag(row) for row in np.diag(WEIGHTS[: len(r)] / r)]),
}


def weighted_minimum(C):
    return np.min(WEIGHTS[: len(C)] * np.diag(C) / C.sum(axis=1))


def declared(way, **more):
    return metrics.from_function(weighted_minimum, structure=MinOfLinear(WAYS[way]), name="weighted minimum", **more)


@pytest.mark.parametrize(("n", "K", "seed"), [(6, 2, 0), (5, 3, 1)])
@pytest.mark.parametrize("way", WAYS)
def test_a_weighted_minimum_of_recalls_gets_the_solver_of_the_smallest_recall(way, n, K, seed):
    P, weight = population(seed, n, K)
    metric = declared(way)
    assert metric.statistics == way
    solution = confmax.maximize(metric, P, sample_weight=weight, randomized=True)
    assert type(choose("auto", metric, 3, 3, exact=True)).__name__ == "MaxMin"
    hull = hull_of(P, weight)
    optimum = largest_minimum(WEIGHTS[:K] * hull.diagonal / hull.rows)
    assert solution.value == pytest.approx(optimum, abs=2e-6)
    assert -1e-9 <= solution.upper_bound - optimum <= 2e-6
    # the weights of erratum E19 are on the declared functions
    combined = solution.multipliers * WEIGHTS[:K] / hull.rows
    np.testing.assert_allclose(np.diag(solution.gain), combined, rtol=1e-9)
    assert (hull.diagonal @ combined).max() == pytest.approx(optimum, abs=2e-6)


@pytest.mark.parametrize("seed", range(2))
def test_functions_of_the_columns_with_constants(seed):
    """The smallest of a recall and of the share of rows that are not decided as a class: with offsets and constants."""
    P, weight = population(seed, 5, 3)

    def functions(r):
        a = np.vstack([np.diag(1 / r), np.zeros(3)])
        return AffineFunctions(Gains.reduced(a, np.vstack([np.zeros((3, 3)), [-2.0, 0.0, 0.0]])), np.r_[0, 0, 0, 1.2])

    metric = metrics.from_function(
        lambda C: np.min([*(np.diag(C) / C.sum(axis=1)), 1.2 - 2.0 * C[:, 0].sum()]), structure=MinOfLinear(functions),
        n_classes=3, name="mine",
    )  # fmt: skip
    solution = confmax.maximize(metric, P, sample_weight=weight, randomized=True)
    hull = hull_of(P, weight)
    optimum = largest_minimum(functions(hull.rows[0] if hull.rows.ndim > 1 else hull.rows).values(hull))
    assert solution.value == pytest.approx(optimum, abs=2e-6)
    assert -1e-9 <= solution.upper_bound - optimum <= 2e-6
    assert solution.multipliers.shape == (4,)


@pytest.mark.parametrize("way", WAYS)
def test_gradients_and_soft_minima_of_declared_functions(way):
    """Derivatives by differences along rows with fixed sums; batches of one distribution and of several."""
    metric = declared(way)
    check_metric(metric, n_classes=3)
    rng = np.random.default_rng(1)
    several = rng.dirichlet(np.ones(9), 4).reshape(4, 3, 3)
    same = Confusion.from_matrix(several[:1]).rows[0][:, None] * rng.dirichlet(np.ones(3), (4, 3))
    for C in (several, same):
        S = Confusion.from_matrix(C)
        for smooth in (metric, metric.smoothed(0.05)):
            values = np.array([float(smooth.values(Confusion.from_matrix(c))) for c in C])
            np.testing.assert_allclose(smooth.values(S), values, rtol=1e-12)
            np.testing.assert_allclose(smooth.at(S).value, values, rtol=1e-12)
        recalls = WEIGHTS * S.diagonal / S.rows
        soft = -0.05 * np.log(np.exp(-recalls / 0.05).mean(axis=-1))
        np.testing.assert_allclose(metric.smoothed(0.05).values(S), soft, rtol=1e-10)
    point, step = same[0], 1e-6
    slope = metric.smoothed(0.05).gradient(point)
    for i in range(3):
        for j in range(1, 3):
            up, down = point.copy(), point.copy()
            up[i, j], up[i, 0] = up[i, j] + step, up[i, 0] - step
            down[i, j], down[i, 0] = down[i, j] - step, down[i, 0] + step
            change = (metric.smoothed(0.05).value(up) - metric.smoothed(0.05).value(down)) / (2 * step)
            assert slope[i, j] - slope[i, 0] == pytest.approx(change, rel=1e-5, abs=1e-8)


def test_a_wrong_declaration_is_refused():
    with pytest.raises(ValueError, match=r"is declared the smallest of linear functions and is not: .* it is 0\.\d+"):
        metrics.from_function(weighted_minimum, structure=MinOfLinear(lambda r: DiagonalFunctions(r)))


def test_only_sums_of_the_functions_bound_their_minimum():
    """A gain that is no weighted sum of the functions, or one with a negative weight, proves nothing."""
    r = np.array([0.5, 0.3, 0.2])
    for functions in (
        DiagonalFunctions(r / WEIGHTS),
        AffineFunctions(WAYS["columns"](r)),
        AffineFunctions(WAYS["matrix"](r)),
    ):
        lam = np.array([[0.2, 0.5, 0.3], [1.0, 0.0, 2.0]])
        gains = functions.combined(lam)
        np.testing.assert_allclose(functions.weights(gains), lam, atol=1e-12)
        np.testing.assert_allclose(functions.bounds(gains, np.array([0.4, 0.9])), [0.4, 0.3], rtol=1e-12)
        other = Gains.reduced(np.ones(3), [0.3, 0.0, 0.0])
        if isinstance(functions, AffineFunctions):
            assert functions.bounds(other, np.array([0.4])) == np.inf
        inside = functions.placed((0, 2, 3), 4, 4)
        C = np.zeros((4, 4))
        C[[0, 2, 3], [0, 2, 3]] = [0.4, 0.2, 0.1]
        np.testing.assert_allclose(inside.values(Confusion.from_matrix(C)), WEIGHTS * [0.4, 0.2, 0.1] / r, rtol=1e-12)


# --- means of the recalls ---------------------------------------------------------------------------------------------

MEANS = {
    "p = -2": PowerMean(-2.0), "p = -7": PowerMean(-7.0), "p = 1/2": PowerMean(0.5), "misses 3": PowerMean(3.0, True),
    "misses 3/2": PowerMean(1.5, True), "p = -1": PowerMean(-1.0), "p = 0": PowerMean(0.0),
    "misses 2": PowerMean(2.0, True),
}  # fmt: skip


@pytest.mark.parametrize("name", MEANS)
def test_a_power_mean_of_the_recalls_is_one_line(name):
    """Value by definition, gradient by differences, concave along segments: and nothing else has to be written."""
    metric = mean_of_recalls(name, MEANS[name])
    rng = np.random.default_rng(0)
    C = rng.dirichlet(np.ones(9)).reshape(3, 3)
    x, p = np.diag(C) / C.sum(axis=1), MEANS[name].exponent
    x = 1 - x if MEANS[name].of_misses else x
    mean = np.exp(np.log(x).mean()) if p == 0 else np.mean(x**p) ** (1 / p)
    assert metric.value(C) == pytest.approx(1 - mean if MEANS[name].of_misses else mean, rel=1e-12)
    check_metric(metric)
    for rho, smoothing in ((0.1, "relative"), (0.05, "additive")):
        check_metric(metric.smoothed(rho, smoothing))


@pytest.mark.parametrize(("n", "K", "seed"), [(6, 2, 0), (5, 3, 1)])
@pytest.mark.parametrize("name", MEANS)
def test_power_means_reach_their_optimum_with_a_certificate(name, n, K, seed):
    P, weight = population(seed, n, K)
    metric = mean_of_recalls(name, MEANS[name])
    solution = confmax.maximize(metric, P, sample_weight=weight, randomized=True)
    assert 0 <= solution.gap <= 1e-6
    most = most_over_hull(metric, hull_of(P, weight))
    assert solution.upper_bound >= most - 1e-9
    assert solution.value >= most - 1e-6


@pytest.mark.parametrize("name", MEANS)
def test_bounds_of_power_means_are_attained(name):
    """At weights that are the derivative at T, the bound from ``h = <w, T>`` is the mean of T; else it is above."""
    mean, rng = MEANS[name], np.random.default_rng(2)
    T = rng.uniform(0.05, 0.95, (50, 4))
    w = mean.partial(T)
    np.testing.assert_allclose(mean.bound(w, (w * T).sum(axis=1)), mean.value(T), rtol=1e-9)
    other = mean.partial(rng.uniform(0.05, 0.95, (50, 4)))
    assert (mean.bound(other, (other * T).sum(axis=1)) >= mean.value(T) - 1e-12).all()
    assert mean.bound(np.full(3, -1.0), np.array(1.0)) >= 1.0


def test_means_that_are_not_concave_are_refused():
    for exponent, of_misses in ((1.0, False), (2.0, False), (1.0, True), (0.5, True), (-np.inf, False)):
        with pytest.raises(ValueError, match="the exponent of a concave mean of the recalls is"):
            PowerMean(exponent, of_misses)


# --- more decisions than classes --------------------------------------------------------------------------------------


def rows_with_abstaining(K, seed=0):
    rng = np.random.default_rng(seed)
    y, made = rng.integers(0, K, 400), rng.integers(0, K + 1, 400)
    made = np.where(rng.random(400) < 0.5, y, made)
    C = np.zeros((K, K + 1), dtype=int)
    np.add.at(C, (y, made), 1)
    return y, made, C


@pytest.mark.parametrize("K", [2, 3, 5])
def test_abstaining_is_what_scikit_learn_makes_of_a_label_that_no_row_has(K):
    y, made, C = rows_with_abstaining(K)
    own = list(range(K))
    expected = {
        "macro_f1": f1_score(y, made, labels=own, average="macro"),
        "weighted_f1": f1_score(y, made, labels=own, average="weighted"),
        "macro_precision": precision_score(y, made, labels=own, average="macro"),
        "micro_f1": f1_score(y, made, labels=own[1:], average="micro"),
        "accuracy": (y == made).mean(), "cohen_kappa": cohen_kappa_score(y, made), "mcc": matthews_corrcoef(y, made),
        "balanced_accuracy": np.mean(np.diag(C) / C.sum(axis=1)), "min_recall": np.min(np.diag(C) / C.sum(axis=1)),
    }  # fmt: skip
    if K == 2:
        expected |= {"f1": f1_score(y, made, labels=own, average=None)[1]}
        expected |= {"specificity": 1 - C[0, 1] / C[0].sum(), "recall": C[1, 1] / C[1].sum()}
    for name, value in expected.items():
        assert metrics.get(name).value(C) == pytest.approx(value, rel=1e-12), name


@pytest.mark.parametrize(
    "name", [name for name in metrics.names() if not name.endswith(("linear_kappa", "tic_kappa", "npv"))]
)
def test_gradients_of_matrices_with_a_further_column(name):
    if name == "linear":
        metric = metrics.get(name, gain=np.arange(12.0).reshape(3, 4))
        check_metric(metric)
        return
    metric = metrics.get(name)
    K = 2 if metric.binary else 3
    check_metric(metric, n_classes=K, n_decisions=K + 1)
    check_metric(metric, n_classes=K, n_decisions=K + 2)
    _, _, C = rows_with_abstaining(4)
    over = metrics.get(name).over((0, 2, 3) if K == 3 else (0, 3))
    a, b = over.reduced_gain(C / C.sum())
    assert (a.shape, b.shape) == ((4,), (5,)) and b[4] == 0.0
    assert over.gains(over.at(Confusion.from_matrix(C / C.sum()))).n_decisions == 5
