"""Populations against scipy and closed forms, and on them the paper's structure theorems as properties."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

import confmax
from confmax import metrics
from confmax.confusion import Gains
from confmax.optimize import BruteForce, FrankWolfe
from confmax.oracle import make_oracle
from confmax.populations import (
    FinitePopulation,
    GaussianMixture,
    atoms_example,
    coin,
    continuous_example,
    population_confusion,
)
from tests.helpers import all_deterministic_confusions

CONTINUOUS = {
    "example": continuous_example(),
    "line": GaussianMixture([0.8, 0.2], [[0.0], [1.0]], [[[1.0]], [[4.0]]]),
    "space": GaussianMixture(
        [0.5, 0.2, 0.2, 0.1], [[0, 0, 0], [1, 0, 0.5], [0, 1.5, 0], [0, 0.3, 1.2]], np.diag([1.0, 2.0, 0.5])
    ),
}
THEOREM_2 = ("g_mean", "h_mean", "q_mean", "micro_f1", "cohen_kappa")


def optimum(name, population, **settings):
    """Return the certified best mixture on the population's table."""
    table = population.table()
    settings = {"tol": 1e-9, "max_passes": 300, "randomized": True, **settings}
    return confmax.maximize(name, table.head.proba, sample_weight=table.head.weight, **settings)


def plug_in(population, G, *, last=True):
    """Return the confusion of ``argmax_y g_y eta``, ties to the last or the first class."""
    K = len(population.priors)

    def decide(X):
        score = population.eta(X) @ G
        best = K - 1 - score[:, ::-1].argmax(axis=1) if last else score.argmax(axis=1)
        return np.eye(K)[best]

    return population_confusion(population, decide)


# --- the populations themselves ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONTINUOUS)
def test_eta_is_bayes_rule(name):
    """Against scipy's densities; and eta averaged over the points is the prior."""
    population = CONTINUOUS[name]
    X, _ = population.sample(200, 0)
    parts = zip(population.priors, population.means, population.covariances, strict=True)
    density = np.column_stack([p * multivariate_normal(mu, S).pdf(X) for p, mu, S in parts])
    np.testing.assert_allclose(population.eta(X), density / density.sum(axis=1, keepdims=True), rtol=1e-9, atol=1e-300)
    table = population.table()
    assert table.head.weight.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(table.mean_probability(), population.priors, atol=5e-4)


@pytest.mark.parametrize("population", [*CONTINUOUS.values(), atoms_example()], ids=[*CONTINUOUS, "atoms"])
def test_samples_follow_eta(population):
    """The mean of ``1[y = k] - eta_k(X)`` times any function of X is zero within five standard errors."""
    X, y = population.sample(40_000, 1)
    left = np.eye(len(population.priors))[y] - population.eta(X)
    for weight in (np.ones(len(X)), X[:, 0], population.eta(X)[:, 0]):
        term = left * weight[:, None]
        assert (np.abs(term.mean(axis=0)) <= 5 * term.std(axis=0) / 200 + 1e-12).all()
    frequency = np.bincount(y, minlength=len(population.priors)) / len(y)
    np.testing.assert_allclose(frequency, population.priors, atol=0.015)
    again = population.sample(40_000, 1)
    np.testing.assert_array_equal(X, again[0])
    np.testing.assert_array_equal(y, again[1])


@pytest.mark.parametrize("name", ["g_mean", "h_mean", "q_mean", "min_recall", "balanced_accuracy"])
def test_optimum_of_two_gaussians_in_closed_form(name):
    """Means -1 and 1, unit variance: by symmetry the best threshold is 0 at any prior, with recalls Phi(1)."""
    population = GaussianMixture([0.85, 0.15], [[-1.0], [1.0]])
    assert optimum(name, population, tol=1e-7).value == pytest.approx(norm.cdf(1.0), abs=2e-4)


def test_table_of_a_finite_population_is_exact():
    """Weights stay weights, and the confusion of a rule agrees with a solver's."""
    population = FinitePopulation([[0.9, 0.1], [0.3, 0.7], [0.5, 0.5]], [2, 1, 1], [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    np.testing.assert_allclose(population.priors, [0.65, 0.35])
    found = optimum("macro_f1", population, randomized=False, max_passes=50)
    C = population_confusion(population, lambda X: found.rule.decision_probabilities(population.eta(X)))
    np.testing.assert_allclose(C, found.confusion, atol=1e-12)
    np.testing.assert_array_equal(population.eta([[1.0, 1.0], [0.0, 1.0]]), [[0.5, 0.5], [0.9, 0.1]])


def test_continuity():
    """Assumption A needs K - 1 directions in which the classes differ."""
    assert all(population.satisfies_continuity for population in CONTINUOUS.values())
    assert not GaussianMixture([0.3, 0.3, 0.4], [[0.0], [1.0], [2.0]]).satisfies_continuity  # a curve in the simplex
    assert not GaussianMixture([0.3, 0.3, 0.4], [[0.0, 0], [1.0, 0], [2.0, 0]]).satisfies_continuity
    assert not GaussianMixture([0.5, 0.5], [[1.0], [1.0]]).satisfies_continuity  # eta is constant
    assert GaussianMixture([0.5, 0.5], [[1.0], [1.0]], [[[1.0]], [[2.0]]]).satisfies_continuity
    assert not atoms_example().satisfies_continuity and not coin().satisfies_continuity


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: FinitePopulation([[0.5, 0.6]]), "row 0 of proba sums to 1.1"),
        (lambda: FinitePopulation([[0.5, 0.5]], [-1.0]), "weight"),
        (lambda: FinitePopulation([[0.5, 0.5], [0.1, 0.9]], features=[[1.0], [1.0]]), "2 different points"),
        (lambda: coin().eta([[3.0]]), "row 0 of X is not a point of the population"),
        (lambda: coin().eta([0.0]), r"points must have shape \(n, 1\)"),
        (lambda: coin().sample(0, 0), "n must be an integer of at least 1; got 0"),
        (lambda: GaussianMixture([0.5, 0.6], [[0.0], [1.0]]), "positive numbers that sum to one"),
        (lambda: GaussianMixture([0.5, 0.5], [[0.0], [np.nan]]), "points must be finite"),
        (lambda: GaussianMixture([0.5, 0.5], [[0.0], [1.0]], np.eye(2)), "covariances must be finite and of shape"),
        (lambda: GaussianMixture([0.5, 0.5], [[0.0], [1.0]], [[-1.0]]), "symmetric with positive eigenvalues"),
        (lambda: continuous_example().points(1000), "per_class must be a power of two"),
        (lambda: population_confusion(coin(), lambda X: [[0.5, 0.5]] * 2), "decide returned 2 rows for 1 points"),
        (lambda: population_confusion(coin(), lambda X: [[0.5, 0.6]]), "sums to 1.1"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# --- Proposition 1 -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("population", "seed"), [(continuous_example(), 0), (atoms_example(), 1)], ids=["continuous", "atoms"]
)
def test_proposition_1(population, seed):
    """Attainable matrices are convex: a coin between two rules attains the mean; none passes a supporting plane."""
    rng = np.random.default_rng(seed)
    K, share = len(population.priors), float(rng.random())
    X, _ = population.points()
    first, second = (rng.dirichlet(np.full(K, 0.3), len(X)) for _ in range(2))
    C1, C2 = (population_confusion(population, lambda _, h=h: h) for h in (first, second))
    mixed = population_confusion(population, lambda _: share * first + (1 - share) * second)
    np.testing.assert_allclose(mixed, share * C1 + (1 - share) * C2, atol=1e-14)
    table = population.table()
    np.testing.assert_allclose(mixed.sum(axis=1), table.mean_probability(), atol=1e-12)
    oracle = make_oracle(table)
    for G in rng.normal(size=(20, K, K)):
        top = oracle.maximize(Gains.from_matrix(G), matrix=True)[0].matrix
        assert (G * mixed).sum() <= max((G * C1).sum(), (G * C2).sum()) + 1e-12 <= (G * top).sum() + 2e-12


# --- Lemma 3 -----------------------------------------------------------------------------------------------------


def width_of_maximisers(population, G, seed):
    """Return the largest l1 distance between maximisers of gains that are within 1e-6 of G."""
    rng = np.random.default_rng(seed)
    found = [plug_in(population, G), plug_in(population, G, last=False)]
    for step in rng.normal(size=(6, *G.shape)) * 1e-6:
        found += [plug_in(population, G + step), plug_in(population, G - step)]
    return max(np.abs(a - b).sum() for a in found for b in found)


@pytest.mark.parametrize(("name", "seed"), list(zip(CONTINUOUS, range(3), strict=True)))
def test_lemma_3(name, seed):
    """Continuous: the gradient at any attainable matrix has one maximiser, however ties and rounding fall."""
    population = CONTINUOUS[name]
    rng = np.random.default_rng(seed)
    K = len(population.priors)
    X, weight = population.points()
    C = population_confusion(population, lambda _: rng.dirichlet(np.ones(K), len(X)))
    for metric in THEOREM_2:
        G = metrics.get(metric).gradient(C)
        assert width_of_maximisers(population, G, seed) <= 40 * weight.max()


def test_lemma_3_needs_different_columns_and_no_atoms():
    """Two equal columns leave a choice everywhere, an atom on the boundary leaves one there."""
    G = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.5]])
    assert width_of_maximisers(continuous_example(), G, 0) > 0.5
    population = atoms_example()
    for name in ("g_mean", "h_mean", "q_mean"):
        G = metrics.get(name).gradient(optimum(name, population).confusion)
        assert width_of_maximisers(population, G, 0) > 0.1


# --- Theorem 2 ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "metric"), [*zip(("example", "line", "space", "example", "line"), THEOREM_2, strict=True)]
)
def test_theorem_2(name, metric):
    """Continuous: the deterministic rule of the gradient at the optimum is optimal, up to single grid points."""
    population = CONTINUOUS[name]
    best = optimum(metric, population)
    assert best.gap <= 1e-8
    value = metrics.get(metric).value(plug_in(population, metrics.get(metric).gradient(best.confusion)))
    assert best.upper_bound - value <= 1e-4
    assert best.value - value >= -1e-8
    # the converse: a gradient elsewhere decides worse, so the test can fail
    argmax = metrics.get(metric).value(plug_in(population, np.eye(len(population.priors))))
    assert best.value - argmax > 1e-3


@pytest.mark.parametrize("metric", ["g_mean", "h_mean", "q_mean"])
def test_theorem_2_needs_continuity(metric):
    """On atoms the optimum is a mixture: the gradient's rule falls short of it, as every deterministic rule does."""
    for population in (coin(), atoms_example()):
        best = optimum(metric, population)
        value = metrics.get(metric)
        every = all_deterministic_confusions(population.proba, population.weight)
        assert best.value - max(value.value(C) for C in every) > 0.09
        for last in (True, False):
            rule = plug_in(population, value.gradient(best.confusion), last=last)
            assert best.value - value.value(rule) > 0.09


@pytest.mark.parametrize("metric", ["micro_f1", "cohen_kappa"])
def test_theorem_2_holds_on_atoms_for_ratios(metric):
    """For ratios of affine functions continuity is not needed (remark after Theorem 2)."""
    population = atoms_example()
    best = optimum(metric, population)
    value = metrics.get(metric).value(plug_in(population, metrics.get(metric).gradient(best.confusion)))
    assert value == pytest.approx(best.value, abs=1e-9)


def test_proposition_1_the_hull_of_deterministic_rules_is_attained():
    """On atoms: a random point of the hull of all deterministic rules' matrices belongs to the mixture of the rules."""
    population = atoms_example()
    vertices = all_deterministic_confusions(population.proba, population.weight)
    rng = np.random.default_rng(0)
    share = rng.dirichlet(np.ones(len(vertices)))
    rules = np.eye(3)[np.array(np.unravel_index(np.arange(27), (3, 3, 3))).T]
    h = np.tensordot(share, rules, axes=1)
    np.testing.assert_allclose(
        population_confusion(population, lambda X: h), np.tensordot(share, vertices, axes=1), atol=1e-14
    )


@pytest.mark.filterwarnings("ignore:.*duplicates:UserWarning")
def test_brute_force_fails_on_atoms_and_the_conditional_gradient_does_not():
    """Algorithm 2 ranges over deterministic rules only (remark after Theorem 12)."""
    table = atoms_example().table()
    settings = {"sample_weight": table.head.weight, "max_passes": 1000}
    best = optimum("h_mean", atoms_example()).value
    brute = confmax.maximize("h_mean", table.head.proba, solver=BruteForce(), **settings)
    gradient = confmax.maximize("h_mean", table.head.proba, solver=FrankWolfe("open_loop"), **settings)
    assert best - brute.value > 0.09
    assert best - gradient.value < 1e-3
