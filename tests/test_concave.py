"""Concave metrics of any statistics: the hull of all deterministic rules is the witness; mixtures have few atoms."""

import numpy as np
import pytest
from scipy.optimize import minimize

import confmax
from confmax import metrics
from confmax.checks import check_solver, random_table
from confmax.confusion import Confusion, Gains
from confmax.metrics import Metric
from confmax.optimize import FullyCorrective, Mixture, Status
from confmax.oracle import make_oracle
from tests.helpers import ascent, balanced_columns, entropy_gradient, entropy_like, hull_of, population

# some tables have labels without relation to their probabilities, which is warned of
pytestmark = pytest.mark.filterwarnings("ignore:the log loss of the probabilities")


USER = metrics.from_function(entropy_like, gradient=entropy_gradient, structure="concave", name="mine")
COLUMNS = Metric("balanced_columns", balanced_columns, "concave", "columns")
SMOOTHED = [
    metrics.get("g_mean", rho=0.05),
    metrics.get("h_mean", rho=0.05, smoothing="additive"),
    metrics.get("q_mean", rho=0.05),
    metrics.get("min_recall", rho=0.1),
]
CONCAVE = [metrics.get("g_mean"), metrics.get("h_mean"), metrics.get("q_mean"), *SMOOTHED, USER, COLUMNS]


def logistic_population(seed, K, n=1500):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, 4)) @ rng.normal(size=(4, K)) + np.log(rng.dirichlet(np.full(K, 2.0)) + 0.02)
    P = np.exp(Z - Z.max(1, keepdims=True))
    return P / P.sum(1, keepdims=True)


@pytest.mark.parametrize("seed", [2])
@pytest.mark.parametrize("metric", CONCAVE, ids=repr)
def test_every_concave_metric_reaches_the_best_of_the_hull(metric, seed):
    P = population(seed, 5, 3)[0]
    solution = confmax.maximize(metric, P, randomized=True)
    assert solution.status is Status.CONVERGED
    assert 0 <= solution.gap <= 1e-6
    hull = hull_of(P)
    rival = ascent(metric, hull, np.full(len(hull), 1 / len(hull)), 300)
    assert solution.upper_bound >= rival - 1e-9
    assert solution.value >= rival - 1e-6


@pytest.mark.parametrize("metric", CONCAVE, ids=repr)
def test_conformance(metric):
    check_solver(FullyCorrective(), metric, n_tables=3)


@pytest.mark.parametrize("K", [3, 12])
@pytest.mark.parametrize(("name", "limit"), [("g_mean", 15), ("h_mean", 20), ("q_mean", 15), ("min_recall", 60)])
@pytest.mark.filterwarnings("ignore:of the rows")
def test_passes_to_a_certified_optimum(name, limit, K):
    solution = confmax.maximize(name, logistic_population(0, K), randomized=True)
    assert solution.status is Status.CONVERGED
    assert solution.n_passes <= limit


def labelled(seed, K, n, distorted):
    """Return P and y; distorted probabilities are too sure of themselves and favour some classes."""
    rng = np.random.default_rng(seed)
    P = logistic_population(seed, K, n)
    y = (rng.random(len(P))[:, None] > np.cumsum(P, axis=1)).sum(axis=1).clip(0, K - 1)
    y[:K] = np.arange(K)
    if distorted:
        Z = 2 * np.log(P) + 2 * rng.normal(size=K)
        P = np.exp(Z - Z.max(axis=1, keepdims=True))
        P /= P.sum(axis=1, keepdims=True)
    return P, y


def best_direct_value(P, y, rng):
    """Nelder-Mead on log weights from 1 / prior, from two simplices, and 200 random weight vectors, on the labels."""
    K = P.shape[1]

    def smallest(log_weights):
        decided = (P * np.exp(log_weights)).argmax(axis=1)
        return min((decided[y == k] == k).mean() for k in range(K))

    start = -np.log(np.bincount(y, minlength=K) / len(y))
    wide = np.vstack([start, start + np.eye(K)])
    direct = [
        -minimize(lambda x: -smallest(x), start, method="Nelder-Mead", options={"maxfev": 1500, **more}).fun
        for more in ({}, {"initial_simplex": wide})
    ]
    drawn = [smallest(start + rng.normal(size=K) * s) for s in (0.2, 0.5, 1.0, 1.0) for _ in range(50)]
    return max([*direct, *drawn])


@pytest.mark.parametrize(("seed", "distorted"), [(0, False), (1, True)])
def test_min_recall_on_labels_beats_direct_searches(seed, distorted):
    P, y = labelled(seed, 5 + seed, 400, distorted)
    rival = best_direct_value(P, y, np.random.default_rng(seed))
    solution = confmax.maximize("min_recall", P, y, confusion="labels", calibration=None)
    assert solution.value >= rival - 1e-12
    assert solution.gap is None
    D = solution.rule.decision_probabilities(P)
    assert solution.value == pytest.approx(min(D[y == k, k].mean() for k in range(P.shape[1])), abs=1e-9)


@pytest.mark.parametrize("mode", ["labels", "blend"])
@pytest.mark.parametrize("max_passes", [3, 5, 62])
def test_min_recall_keeps_its_budget(max_passes, mode):
    P, y = labelled(1, 6, 300, True)
    solution = confmax.maximize("min_recall", P, y, confusion=mode, calibration=None, max_passes=max_passes)
    assert solution.mode == mode
    assert 0 <= solution.model_share < 1
    assert solution.n_passes <= max(max_passes, 4)


# --- few atoms --------------------------------------------------------------------------------------------------------


def random_mixture(metric, seed, n_atoms, K):
    rng = np.random.default_rng(seed)
    oracle = make_oracle(random_table(rng, 60, K))
    gains = Gains.from_matrix(rng.normal(size=(n_atoms, K, K)) + np.eye(K))
    answers = oracle.maximize(gains, matrix=metric.statistics == "matrix")
    weights = rng.dirichlet(np.ones(n_atoms))
    atoms, parts = (tuple(batch[k] for k in range(n_atoms)) for batch in (gains, answers))
    return Mixture(atoms, weights, answers.mix(weights), parts)


def free_statistics(metric, K):
    return {"diagonal": K, "columns": 2 * K - 1, "matrix": K * K - K}[metric.statistics]


@pytest.mark.parametrize(("K", "seed"), [(2, 0), (3, 1), (5, 2)])
@pytest.mark.parametrize("name", ["g_mean", "h_mean", "min_recall", "macro_f1", "mcc", "quadratic_kappa"])
def test_few_atoms_are_enough(name, K, seed):
    metric = metrics.get(name)
    many = random_mixture(metric, seed, 60, K)
    few, d = many.caratheodory(metric), free_statistics(metric, K)
    assert len(few.atoms) <= d + 1
    assert (few.weights > 0).all()
    assert few.weights.sum() == pytest.approx(1.0, abs=1e-12)
    before, after = (float(metric.at(mixture.confusion).value) for mixture in (many, few))
    assert after >= before - 1e-12
    if len(few.atoms) == d + 1:
        # no step along the gradient was taken: nothing that the metric reads has changed
        for field in ("diagonal",) if metric.statistics == "diagonal" else ("diagonal", "columns"):
            np.testing.assert_allclose(getattr(few.confusion, field), getattr(many.confusion, field), atol=1e-12)
    elif metric.structure == "concave":
        assert len(few.atoms) <= d
    again = Confusion.stack(few.parts).mix(few.weights)
    np.testing.assert_allclose(again.diagonal, few.confusion.diagonal, atol=1e-12)


def test_a_kink_ends_the_run():
    """The smallest recall as a user's function: gradients at single points never close the gap, and that is noticed."""
    worst = confmax.metrics.from_function(lambda C: np.min(np.diag(C) / C.sum(axis=1)), structure="concave")
    P = np.random.default_rng(1).dirichlet(np.full(4, 0.5), 60)
    solution = confmax.maximize(worst, P, randomized=True)
    assert solution.n_passes < 90
    assert solution.upper_bound >= confmax.maximize("min_recall", P, randomized=True).value - 1e-9


@pytest.mark.parametrize(("seed", "K"), [(21, 5), (23, 7), (27, 5)])
def test_min_recall_searches_labels_that_the_model_contradicts(seed, K):
    """Probabilities that are too sure: the best of the rules that the model asks for loses to direct searches here."""
    P, y = labelled(seed, K, 300, False)
    P = P**3 / (P**3).sum(axis=1, keepdims=True)
    rival = best_direct_value(P, y, np.random.default_rng(seed))
    solution = confmax.maximize("min_recall", P, y, confusion="labels", calibration=None, randomized=False)
    assert len(solution.rule.weights) == 1
    assert solution.value >= rival


@pytest.mark.parametrize("mode", ["model", "labels"])
@pytest.mark.parametrize("solver", ["auto", "frank_wolfe"])
@pytest.mark.parametrize("name", ["g_mean", "h_mean", "q_mean", "min_recall", "macro_f1"])
def test_solutions_have_few_atoms(name, solver, mode):
    rng = np.random.default_rng(0)
    table = random_table(rng, 80, 4)
    solution = confmax.maximize(
        name, table.head.proba, table.head.labels, confusion=mode, solver=solver, randomized=True, max_passes=60
    )
    assert len(solution.rule.weights) <= free_statistics(metrics.get(name), 4)
