"""What confmax says of a solution: its guarantee in words, the paper's Algorithm 4, G* and the multipliers."""

import html

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import confmax
from confmax import metrics
from confmax.confusion import Gains
from confmax.optimize import BayesCG, FrankWolfe, FullyCorrective, MaxMin, Status
from confmax.oracle import make_oracle, make_table
from confmax.populations import FinitePopulation, atoms_example, coin, continuous_example, eta_error
from confmax.theory import rho_schedule
from tests.helpers import all_deterministic_confusions, confusion_of


def drawn(seed, n=240, K=3):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.linspace(3, 1, K), n)
    return P, (P.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)


# --- the guarantee ----------------------------------------------------------------------------------------------------


def test_a_proof_speaks_of_the_expected_confusion_matrix():
    """Of p = (.82, .98, .84) the decisions (0, 1, 0) have an expected kappa above the bound, which is on psi(E C)."""
    p = np.array([0.82, 0.98, 0.84])
    P = np.column_stack([1 - p, p])
    solution = confmax.maximize("cohen_kappa", P)
    kappa = metrics.get("cohen_kappa")
    expected = 0.0
    for y in np.ndindex(2, 2, 2):
        chance = np.prod([P[i, k] for i, k in enumerate(y)])
        expected += chance * kappa.value(confusion_of(np.eye(2)[list(y)] / 3, np.array([0, 1, 0]), 2))
    assert expected > solution.upper_bound
    assert solution.guarantee == (
        "proved: no rule has a higher cohen_kappa of the confusion matrix expected from these probabilities"
        "; no label was used, so this trusts the probabilities"
    )


def test_the_coin_says_what_a_draw_would_reach():
    solution = confmax.maximize("h_mean", [[0.5, 0.5]], randomized=False)
    assert solution.gap == pytest.approx(0.5)
    assert (
        "by more than 0.5; a rule that decides at random reaches 0.5, randomized=True returns it" in solution.guarantee
    )
    assert "nothing is left" not in repr(solution)


@pytest.mark.parametrize("metric", ["macro_f1", "min_recall"])
@pytest.mark.parametrize("confusion", ["auto", "labels"])
def test_labels_guarantee_nothing_and_the_default_says_what_the_model_knows(metric, confusion):
    solution = confmax.maximize(metric, *drawn(0), confusion=confusion)
    most, value = solution.model_upper_bound, solution.model_value
    assert solution.guarantee == (
        "search finished; no optimality guarantee on labels, confusion='model' gives one"
        if confusion == "labels"
        else f"if the probabilities are right, no rule exceeds {most:.4g}; this one has {value:.4g}"
    )
    assert solution.guarantee in repr(solution) and solution.guarantee in html.unescape(solution._repr_html_())
    assert solution.gap is None and solution.status is not Status.CONVERGED


NO_BOUND = "no optimality guarantee, because no upper bound is known for mcc"
ENDINGS = [
    ("mcc", False, {}, f"search finished; {NO_BOUND}"),
    ("mcc", True, {}, f"search finished; {NO_BOUND}"),
    ("mcc", True, {"confusion": "labels"}, "search finished; no optimality guarantee on labels"),
    ("g_mean", True, {"callback": lambda _: True}, "the callback stopped the search; no optimality"),
    (
        "h_mean", False, {"solver": FrankWolfe("open_loop"), "max_passes": 5, "randomized": True},
        "the search used all its passes, a larger max_passes may narrow this",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("metric", "labelled", "settings", "words"), ENDINGS)
def test_other_endings_are_said(metric, labelled, settings, words):
    P, y = drawn(1)
    assert words in confmax.maximize(metric, P, y if labelled else None, **settings).guarantee


def test_a_search_that_compared_all_rules_says_so():
    P, y = drawn(1)
    two = confmax.maximize("f1", P[:, :2] / P[:, :2].sum(axis=1, keepdims=True), y % 2, confusion="labels")
    assert two.guarantee.startswith("the search compared all rules of its kind; no optimality guarantee on labels")


# --- Algorithm 4 ------------------------------------------------------------------------------------------------------


def printed(metric, P, y, T, rho):
    """Algorithm 4 as printed, in NumPy: return the decision probabilities of h^T."""
    K = P.shape[1]
    smooth = metrics.get(metric, rho=rho, smoothing="additive")
    truth = np.eye(K)[y] / len(y)
    h = np.eye(K)[K - 1 - P[:, ::-1].argmax(axis=1)]
    for j in range(1, T + 1):
        G = smooth.gradient(truth.T @ h)
        score = P @ G
        u = np.eye(K)[K - 1 - score[:, ::-1].argmax(axis=1)]
        h = (1 - 2 / (j + 1)) * h + 2 / (j + 1) * u
    return h


@pytest.mark.parametrize("metric", ["h_mean", "g_mean", "q_mean"])
def test_bayes_cg_returns_the_last_rule_as_printed(metric):
    """In one call: labels, no calibration, additive smoothing, all T = kappa m rounds, and h^T itself."""
    P, y = drawn(2, n=60)
    solution = confmax.maximize(metric, P, y, solver=BayesCG(returns="last"))
    share = np.bincount(y).min() / len(y)
    rho = rho_schedule(metric, 120, 3, scale=share)
    h = printed(metric, P, y, 120, rho)
    np.testing.assert_allclose(solution.rule.decision_probabilities(P), h, atol=1e-9)
    assert solution.mode == "labels" and solution.calibration is None and solution.status is Status.FINISHED
    assert solution.value == pytest.approx(metrics.get(metric).value(np.eye(3)[y].T @ h / len(y)), abs=1e-12)
    other = confmax.maximize(metric, P, y, solver=BayesCG(returns="last", alpha=1.0, rho=0.02, kappa=2))
    np.testing.assert_allclose(other.rule.decision_probabilities(P), printed(metric, P, y, 120, 0.02), atol=1e-9)


def test_the_last_rule_is_returned_even_if_it_is_worse():
    P, y = drawn(3, n=60)
    rough = confmax.maximize("h_mean", P, y, solver=BayesCG(returns="last", rho=0.5))
    best = confmax.maximize("h_mean", P, y, confusion="labels", calibration=None)
    assert rough.value < best.value


def test_what_the_caller_says_holds():
    P, y = drawn(4)
    solution = confmax.maximize(
        "g_mean", P, y, solver=BayesCG(returns="last"), confusion="model", calibration="temperature", max_passes=20
    )
    assert solution.mode == "model" and solution.calibration.kind == "temperature"
    assert solution.status is Status.TRUNCATED


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: BayesCG(returns="all"), "returns of BayesCG must be 'best' or 'last'; got 'all'"),
        (lambda: BayesCG(returns="last", kappa=0.5), r"kappa of BayesCG\(returns='last'\) must be a whole number; got"),
    ],
)
def test_settings_out_of_range(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_the_estimator_takes_a_solver():
    population = continuous_example()
    X, y = population.sample(100, 0)
    solver = BayesCG(returns="last", kappa=2)
    model = confmax.MetricClassifierCV(LogisticRegression(), metric="g_mean", solver=solver)
    fitted = clone(model).fit(X, y)
    assert fitted.solution_.mode == "labels" and fitted.solution_.status is Status.FINISHED
    assert fitted.rule_.is_randomized
    with pytest.raises(ValueError, match="Dinkelbach maximises ratios of affine functions"):
        clone(model).set_params(solver="dinkelbach").fit(X, y)


# --- G* and the multipliers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["g_mean", "h_mean", "q_mean", "cohen_kappa", "quadratic_kappa", "micro_f1"])
@pytest.mark.parametrize("seed", range(2))
def test_the_best_rule_maximises_its_own_gradient(metric, seed):
    """The first-order condition of Theorem 2, on the model where the gap is closed."""
    P, _ = drawn(seed)
    solution = confmax.maximize(metric, P, randomized=True, tol=1e-9)
    assert solution.gap < 1e-8
    best = make_oracle(make_table(P), "model").maximize(Gains.from_matrix(solution.gain[None]), matrix=True)
    reached = float((solution.gain * solution.confusion).sum())
    assert float((solution.gain * best.matrix[0]).sum()) <= reached + 1e-6


@pytest.mark.parametrize("seed", range(3))
def test_multipliers_are_least_favourable(seed):
    """By enumeration: no rule's weighted recall is above the bound, and any other weights allow more."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet([1.5, 1.0, 0.7], 5)
    solution = confmax.maximize("min_recall", P, randomized=True)
    every = all_deterministic_confusions(P)
    recalls = every.diagonal(axis1=1, axis2=2) / every.sum(axis=2)
    weights = solution.multipliers
    assert weights.sum() == pytest.approx(1) and (weights >= 0).all()
    assert (recalls @ weights).max() == pytest.approx(solution.value, abs=2e-6)
    assert all((recalls @ other).max() >= solution.value - 1e-9 for other in rng.dirichlet(np.ones(3), 200))
    np.testing.assert_allclose((solution.gain * every).sum(axis=(1, 2)), recalls @ weights, atol=1e-12)


def test_an_arbitrary_subgradient_is_no_way_to_the_optimum():
    """Erratum E19: eta ~ U(0, 1), optimum .75; the gradient of one recall alone leads to a smallest recall of 0."""
    p = (np.arange(2000) + 0.5) / 2000
    P = np.column_stack([1 - p, p])
    solution = confmax.maximize("min_recall", P)
    assert solution.value == pytest.approx(0.75, abs=1e-3)
    oracle, metric = make_oracle(make_table(P), "model"), metrics.get("min_recall")
    alone = oracle.maximize(Gains.from_matrix(np.diag([2.0, 0.0])[None]))
    assert float(metric.values(alone)[0]) == 0.0
    both = oracle.maximize(Gains.from_matrix(solution.gain[None]))
    assert float(metric.values(both)[0]) == pytest.approx(0.75, abs=2e-3)
    np.testing.assert_allclose(solution.multipliers, 0.5, atol=1e-3)


@pytest.mark.filterwarnings("ignore:the log loss of the probabilities")  # a class of the model has no rows
def test_classes_that_are_left_out_have_no_multiplier():
    P, y = drawn(5, K=4)
    keep = y != 2
    with pytest.warns(UserWarning, match="the metric is computed over the 3 classes that are present"):
        solution = confmax.maximize("min_recall", P[keep], y[keep], confusion="labels", calibration=None,
                                    classes=range(4), solver=MaxMin())  # fmt: skip
    assert solution.multipliers[2] == 0 and solution.multipliers.sum() == pytest.approx(1)


def test_no_gain_where_there_is_none():
    P, _ = drawn(6)
    assert confmax.maximize("g_mean", P).multipliers is None
    flat = np.tile([[0.6, 0.3, 0.1]], (4, 1))
    assert confmax.maximize("g_mean", flat, randomized=False).gain is None  # a recall of zero
    assert confmax.maximize("min_recall", *drawn(6)).gain is None  # a blend, which the conditional gradient solves


# --- theory against measurement ---------------------------------------------------------------------------------------


def test_eta_error_is_the_mean_distance():
    assert eta_error(coin(), lambda X: np.tile([0.3, 0.7], (len(X), 1))) == pytest.approx(0.4)
    population = FinitePopulation([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3]], [0.25, 0.75], np.eye(2))
    wrong = np.array([[0.5, 0.4, 0.1], [0.1, 0.6, 0.3]])
    assert eta_error(population, lambda X: X @ wrong) == pytest.approx(0.25 * 0.4)
    assert eta_error(population, population.eta) == 0.0


def test_eta_error_knows_the_classes_of_a_model():
    population = atoms_example()
    X, y = population.sample(4000, 1)
    assert eta_error(population, LogisticRegression(C=1e6).fit(X, y)) < 0.1
    partial = LogisticRegression(C=1e6).fit(X[y != 1], y[y != 1])
    estimate = np.zeros((3, 3))
    estimate[:, [0, 2]] = partial.predict_proba(np.eye(3))
    expected = [0.2, 0.6, 0.2] @ np.abs(estimate - population.eta(np.eye(3))).sum(axis=1)
    assert eta_error(population, partial) == pytest.approx(expected)
    with pytest.raises(ValueError, match=r"the population's classes are 0..2, but the model has \['a', 'b'\]"):
        eta_error(population, LogisticRegression().fit(X[:50], np.where(y[:50] > 0, "a", "b")))
    with pytest.raises(ValueError, match=r"shape \(3, 2\) for 3 points; return one probability per class"):
        eta_error(population, lambda X: np.full((len(X), 2), 0.5))


@pytest.mark.parametrize("metric", ["g_mean", "h_mean", "q_mean"])
@pytest.mark.parametrize("seed", range(2))
def test_the_fully_corrective_regret_is_never_above_that_of_the_papers_step(metric, seed):
    """After the same number of passes, on populations: Theorem 9 therefore bounds it too."""
    rng = np.random.default_rng(seed)
    P, weight = rng.dirichlet([2.0, 1.0, 0.6, 0.4], 80), rng.random(80)
    both = [
        confmax.maximize(metric, P, sample_weight=weight, solver=solver, randomized=True, tol=0.0, max_passes=40)
        for solver in (FullyCorrective(), FrankWolfe("open_loop"))
    ]
    corrective, paper = ({step.n_passes: step.value for step in solution.history} for solution in both)
    assert len(paper) > 30
    last = 0.0
    for n_passes, value in paper.items():
        last = max(last, corrective.get(n_passes, last))
        assert last >= value - 1e-9


def test_the_last_rule_is_returned_even_if_it_is_worse_than_argmax():
    P, y = drawn(3, n=60)
    solution = confmax.maximize("accuracy", P, y, solver=BayesCG(returns="last", kappa=1, alpha=1.0))
    assert solution.rule.is_randomized or solution.value >= solution.baselines["argmax"] - 1e-12
    rough = confmax.maximize("h_mean", P, y, solver=BayesCG(returns="last", rho=0.5))
    best = confmax.maximize("h_mean", P, y, confusion="labels", calibration=None)
    assert rough.value < best.value
