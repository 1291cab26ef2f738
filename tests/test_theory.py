"""The bounds hold where they are not vacuous, are attained where they are sharp, and move the right way.

The constants of the smoothed metrics are suprema that are attained; which of the printed ones are false.
"""

import itertools
import math

import numpy as np
import pytest

import confmax
from confmax import metrics
from confmax.confusion import Confusion
from confmax.optimize import FrankWolfe, Problem, baselines
from confmax.oracle import CountingOracle, make_oracle, make_table
from confmax.theory import (
    SmoothingConstants,
    bayes_cg_bound,
    brute_force_bound,
    confusion_radius,
    frank_wolfe_bound,
    linear_regret_bound,
    ratio_factor,
    rho_schedule,
    smoothed_bound,
    smoothing_constants,
    split_sizes,
)

MEANS = ("h_mean", "q_mean", "g_mean")
FORMS = ("tightened", "printed")


def smoothed(name, rho):
    return metrics.get(name, rho=rho, smoothing="additive")


# --- Lemma 8 and Theorem 7 ------------------------------------------------------------------------


def linear_regret(G, eta, eta_hat, weight):
    chosen = (eta_hat @ G).argmax(axis=1)
    return float(weight @ ((eta @ G).max(axis=1) - (eta @ G)[np.arange(len(eta)), chosen]))


@pytest.mark.parametrize("seed", range(6))
def test_lemma_8_on_random_estimates(seed):
    rng = np.random.default_rng(seed)
    K, n = int(rng.integers(2, 6)), 50
    G = rng.uniform(-1, 1, (K, K)) * rng.choice([0.1, 1, 10])
    eta, weight = rng.dirichlet(np.ones(K), n), rng.dirichlet(np.ones(n))
    eta_hat = (1 - (t := rng.random())) * eta + t * rng.dirichlet(np.ones(K), n)
    error = float(weight @ np.abs(eta_hat - eta).sum(axis=1))
    regret = linear_regret(G, eta, eta_hat, weight)
    tight, printed = (linear_regret_bound(G, error, form=form) for form in FORMS)
    assert regret <= tight.value <= printed.value + 1e-12
    assert regret <= tight.limit
    assert printed.value == linear_regret_bound(np.abs(G).max(), error, form="printed").value


def test_lemma_8_is_attained():
    """Two classes, a point just on the wrong side of the boundary: a bound smaller by any factor would be false."""
    for G, form in [(np.eye(2), "tightened"), (np.array([[1.0, -1.0], [-1.0, 1.0]]), "printed")]:
        eta, eta_hat = np.array([[0.6, 0.4]]), np.array([[0.5 - 1e-12, 0.5 + 1e-12]])
        regret = linear_regret(G, eta, eta_hat, np.ones(1))
        assert regret == pytest.approx(linear_regret_bound(G, 0.2, form=form).value, rel=1e-9)
    # a constant in a row changes no decision, and not the tightened bound
    assert linear_regret_bound([[6.0, 5.0], [-7.0, -6.0]], 0.2).value == pytest.approx(0.2)
    assert linear_regret_bound(np.eye(2), 1.0).is_vacuous and not linear_regret_bound(np.eye(2), 0.99).is_vacuous


RATIOS = {"f1": 2, "jaccard": 2, "micro_f1": 3, "micro_f1_once": 3}


def confusions(eta, weight):
    """Return the confusion matrices of all deterministic rules on a finite population."""
    K = eta.shape[1]
    hot = np.eye(K)[np.array(list(itertools.product(range(K), repeat=len(eta))))]
    return np.einsum("ni,rnj->rij", eta * weight[:, None], hot)


@pytest.mark.parametrize("name", RATIOS)
def test_ratio_factor_at_the_optimum(name):
    """E15: psi(C*) - psi(C) <= xi <grad psi(C*), C* - C> for every rule, and nearly with equality somewhere."""
    metric, K = metrics.get(name), RATIOS[name]
    rng = np.random.default_rng(0)
    closest = 0.0
    for trial in range(30):
        n = 1 if trial < 20 else 4
        eta, weight = rng.dirichlet(np.ones(K) * rng.choice([0.3, 1, 3]), n), rng.dirichlet(np.ones(n))
        all_C = confusions(eta, weight)
        values = np.array([metric.value(C) for C in all_C])
        best = all_C[values.argmax()]
        slope = ((best - all_C) * metric.gradient(best)).sum(axis=(1, 2))
        lost, xi = values.max() - values, ratio_factor(name, weight @ eta)
        assert (lost <= xi * slope + 1e-9).all()
        apart = slope > 1e-6
        closest = max(closest, (lost[apart] / (xi * slope[apart])).max(initial=0.0))
    assert closest > 0.9


def test_ratio_factor_refutes_the_printed_one():
    """E15: eta = .2 everywhere; always positive is optimal, never positive needs xi = 6, printed are 1.25 or 5."""
    assert ratio_factor("f1", [0.8, 0.2]) == pytest.approx(6.0)
    assert ratio_factor("micro_f1", [0.4, 0.35, 0.25]) == pytest.approx(1.6 / 0.6)
    assert ratio_factor("jaccard", [0.75, 0.25]) == pytest.approx(4.0)
    with pytest.raises(ValueError, match="xi is known only for f1, jaccard"):
        ratio_factor("mcc", [0.5, 0.5])


@pytest.mark.parametrize("seed", range(5))
def test_theorem_7_with_an_unlimited_sample(seed):
    """The best threshold on wrong probabilities, measured exactly: its F1 regret is below the estimation term."""
    rng = np.random.default_rng(seed)
    eta, weight = rng.dirichlet([2.0, 2.0], 60), rng.dirichlet(np.ones(60))
    noise = rng.dirichlet([2.0, 2.0], 60)
    eta_hat = 0.97 * eta + 0.03 * noise
    metric, prior = metrics.get("f1"), weight @ eta

    def best(score):
        order = np.argsort(score)
        truth = (eta * weight[:, None])[order]
        below = np.vstack([np.zeros(2), truth.cumsum(axis=0)])  # all points up to a cut are decided negative
        return max(metric.value(np.column_stack([left, prior - left])) for left in below)

    error = float(weight @ np.abs(eta_hat - eta).sum(axis=1))
    L = 2 / prior[1]  # no partial derivative of F1 exceeds it
    bound = brute_force_bound(L, ratio_factor("f1", prior), error, m=10**6, n_classes=2)
    assert -1e-12 <= best(eta[:, 1]) - best(eta_hat[:, 1]) <= bound.estimation
    assert bound.estimation == pytest.approx(2 * L * ratio_factor("f1", prior) * error)
    printed = brute_force_bound(L, 1.0, error, m=10**6, n_classes=2, constant=0.5, form="printed")
    assert printed.sampling == pytest.approx(2 * L * 4 * confusion_radius(500_000, 2, constant=0.5))  # E14


# --- Lemma 6 --------------------------------------------------------------------------------------


def test_radius_against_its_formula():
    d = 2 * 9 * math.log2(9)
    for M in (5_000, 10**6):
        expected = math.sqrt(8 * (d * math.log(2 * math.e * M / d) + math.log(36 / 0.1)) / M)
        assert confusion_radius(M, 3, delta=0.1) == pytest.approx(expected)
        expected = 2 * math.sqrt((9 * math.log(3) * math.log(M) + math.log(9 / 0.1)) / M)
        assert confusion_radius(M, 3, delta=0.1, constant=2.0) == pytest.approx(expected)


# --- Theorems 9, 10, 12 ---------------------------------------------------------------------------


def test_code_block_of_the_errata():
    """Printed form, exact constants, C = 1: the four terms of Theorem 12 at three sizes."""
    rows = [
        (2, 10**4, 0.1, (0.20, 59.9, 0.04, 0.57)),
        (3, 10**6, 0.1, (0.13, 19.7, 3e-4, 0.95)),
        (3, 10**9, 0.05, (0.27, 3.06, 1e-6, 0.62)),
    ]
    for K, m, rho, expected in rows:
        constants = smoothing_constants("h_mean", rho, np.full(K, 1 / K))
        settings = {"m": m, "n_classes": K, "constant": 1.0}
        printed = smoothed_bound(constants, 0.01, **settings, form="printed")
        terms = (printed.estimation, printed.sampling, printed.optimization, printed.smoothing)
        assert terms == pytest.approx(expected, rel=0.15)  # two of them are printed to one digit
        assert terms[:2] + terms[3:] == pytest.approx(expected[:2] + expected[3:], rel=0.03)
        assert printed.is_vacuous and printed.value == pytest.approx(sum(terms))
        # E18 without the sharper constants of fixed rows: terms 1, 2 and 4 are halved
        plain = constants._replace(plug_in=None, curvature=None)
        tight = smoothed_bound(plain, 0.01, **settings)
        assert tight.estimation == pytest.approx(terms[0] / 2)
        assert tight.sampling == pytest.approx(2 * constants.smoothness * min(2, terms[1] / constants.smoothness / 4))
        assert tight.optimization == pytest.approx(terms[2]) and tight.smoothing == pytest.approx(terms[3] / 2)


def test_theorem_9_forms():
    assert frank_wolfe_bound(3.0, 6, 0.5, form="printed").value == pytest.approx(3.0 + 1.0)
    assert frank_wolfe_bound(3.0, 6, 0.5).value == pytest.approx(3.0 + 0.5)
    assert frank_wolfe_bound(3.0, 6, 0.5, curvature=6.0).value == pytest.approx(1.5 + 0.5)
    assert frank_wolfe_bound(3.0, 6, 0.5, curvature=60.0).value == pytest.approx(3.0 + 0.5)
    assert frank_wolfe_bound(3.0, 6, curvature=6.0, form="printed").value == pytest.approx(3.0)


def best_value(metric, eta, weight):
    found = confmax.maximize(metric, eta, sample_weight=weight, solver=FrankWolfe(), randomized=True, max_passes=60)
    return found.value + found.gap


@pytest.mark.parametrize("name", MEANS)
@pytest.mark.parametrize("seed", range(2))
def test_theorem_10_with_an_unlimited_sample(name, seed):
    """Algorithm 4 with wrong probabilities, its confusions measured on the population itself, stays below the bound.

    The population is a table with one row per point and class: the estimate as its probabilities, the truth as labels
    and weights. So the sampling term is zero and the other two must hold by themselves, for every round.
    """
    rng = np.random.default_rng(seed)
    K, n, rho = int(rng.integers(2, 4)), 25, 0.4
    eta, weight = rng.dirichlet(np.ones(K), n), rng.dirichlet(np.ones(n))
    eta_hat = 0.9 * eta + 0.1 * rng.dirichlet(np.ones(K), n)
    error = float(weight @ np.abs(eta_hat - eta).sum(axis=1))
    metric = smoothed(name, rho)
    table = make_table(np.repeat(eta_hat, K, axis=0), np.tile(np.arange(K), n), (eta * weight[:, None]).ravel())
    oracle = CountingOracle(make_oracle(table, "labels"))
    starts = baselines(oracle, [table.label_weight()], K, matrix=False)
    problem = Problem(metric, oracle, K, tuple(starts), 10**6)
    solver = FrankWolfe("open_loop")
    state, optimum = solver.init(problem), best_value(metric, eta, weight)
    constants = smoothing_constants(name, rho, weight @ eta)
    useful = 0
    for T in range(1, 121):
        state, step = solver.step(problem, state)
        bound = bayes_cg_bound(constants, error, m=1000, kappa=T / 1000, n_classes=K)
        reached = bound.estimation + bound.optimization
        useful += reached < 1
        assert optimum - problem.value(step.iterate.confusion) <= reached
    assert useful > 60  # the two terms are below the metric's range, so the comparison means something


@pytest.mark.parametrize("form", FORMS)
def test_bounds_move_the_right_way(form):
    """Worse probabilities, fewer rows, fewer rounds, more classes and more certainty never lower a bound."""
    constants = smoothing_constants("h_mean", 0.2, [0.4, 0.6])
    base = {"m": 10**7, "n_classes": 2, "alpha": 0.5, "kappa": 0.1, "delta": 0.05, "constant": 1.0, "form": form}
    for constant in ("vapnik", 1.0):
        start = {**base, "constant": constant}
        value = smoothed_bound(constants, 0.02, **start).value
        assert smoothed_bound(constants, 0.03, **start).value > value
        for change in ({"m": 10**6}, {"kappa": 1e-6}, {"n_classes": 3}, {"delta": 0.001}, {"alpha": 0.2}):
            assert smoothed_bound(constants, 0.02, **{**start, **change}).value > value, change
        sizes = [confusion_radius(int(m), 3, constant=constant) for m in np.geomspace(4, 1e9, 60)]
        assert (np.diff(sizes) <= 0).all()
    assert smoothed_bound(constants, 0.02, **{**base, "constant": 2.0}).sampling == pytest.approx(
        2 * smoothed_bound(constants, 0.02, **base).sampling
    )
    larger = [constants._replace(theta=0.9), SmoothingConstants(*[2 * part for part in constants[:5]])]
    assert all(smoothed_bound(c, 0.02, **base).value > smoothed_bound(constants, 0.02, **base).value for c in larger)
    assert (
        brute_force_bound(2, 3, 0.1, m=10**6, n_classes=2, form=form).value
        > brute_force_bound(1, 3, 0.1, m=10**6, n_classes=2, form=form).value
    )
    assert frank_wolfe_bound(1, 10, 0.1, form=form).value > frank_wolfe_bound(1, 11, 0.1, form=form).value


# --- Corollary 13 ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MEANS)
@pytest.mark.parametrize("K", [2, 3])
def test_corollary_13(name, K):
    """Along the schedule the bound vanishes, and its two largest terms at the same rate."""
    values, ratios = [], []
    for power in (20, 60, 100, 140):
        m = 10**power
        rho = rho_schedule(name, m, K)
        constants = smoothing_constants(name, rho, np.full(K, 1 / K))
        bound = smoothed_bound(constants, m**-0.5, m=m, n_classes=K, constant=1.0)
        values.append(bound.value)
        ratios.append(bound.sampling / bound.smoothing)
    assert (np.diff(values) < 0).all() and values[-1] < 1e-2
    assert max(ratios[1:]) / min(ratios[1:]) < 1.5  # a wrong exponent would make it a power of m


def test_schedule_values_and_scale():
    assert rho_schedule("h_mean", 10**6, 4) == pytest.approx((math.log(1e6) / 1e6) ** (1 / 6))
    assert rho_schedule("g_mean", 10**6, 4) == pytest.approx((math.log(1e6) / 1e6) ** (4 / 18))
    assert rho_schedule("q_mean", 10**6, 4, scale=0.1) == pytest.approx(0.1 * rho_schedule("q_mean", 10**6, 4))
    assert rho_schedule("q_mean", 5, 4, scale=100.0) == 0.5


# --- splits and refusals --------------------------------------------------------------------------


def test_split_sizes_are_exact():
    """The two parts make the whole, and a product that is whole but for rounding is not rounded up (errata A)."""
    for alpha_percent, m in itertools.product(range(1, 100, 4), range(2, 300, 7)):
        first, second = split_sizes(m, alpha_percent / 100)
        assert first + second == m and second == -(-alpha_percent * m // 100)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: smoothing_constants("h_mean", 0.1, [0.5, 0.6]), "priors must be K >= 2 non-negative numbers"),
        (lambda: smoothing_constants("h_mean", 0.1, [0.5, 0.5], form="loose"), "form must be 'tightened' or 'printed'"),
        (lambda: rho_schedule("mcc", 100, 3), "the schedule of Corollary 13 is known only for"),
        (lambda: rho_schedule("h_mean", 2, 3), "needs m >= 3"),
        (lambda: split_sizes(10, 1.0), r"alpha in \(0, 1\)"),
        (lambda: confusion_radius(1, 2), "n_rows >= 2"),
        (lambda: confusion_radius(10, 2, constant="blumer"), "constant must be 'vapnik' or a positive number"),
        (lambda: confusion_radius(10, 2, constant=-1.0), "constant must be 'vapnik' or a positive number"),
        (lambda: linear_regret_bound([1.0, 2.0], 0.1), "gain must be a finite matrix"),
        (lambda: linear_regret_bound(1.0, 2.1), "eta_error is an expected l1 distance and must lie between 0 and 2"),
        (lambda: frank_wolfe_bound(1.0, 0), "rounds must be at least 1"),
        (lambda: frank_wolfe_bound(-1.0, 3), "smoothness must be positive and finite"),
        (lambda: brute_force_bound(1.0, math.inf, 0.1, m=10, n_classes=2), "factor must be positive and finite"),
        (
            lambda: bayes_cg_bound(SmoothingConstants(0.0, 1.0, 1.0), 0.1, m=10, n_classes=2, kappa=0),
            "BayesCG makes ceil",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# --- constants of the smoothed metrics ------------------------------------------------------------


def extreme_points(K, rho):
    """Return the matrices at which the errata's suprema are attained: one small row, the others without errors."""
    sizes = [0.0, rho * (K - 2), rho * K / 2, rho * K]
    for missed in sizes:
        C = np.diag(np.r_[0.0, np.full(K - 1, (1 - missed) / (K - 1))])
        C[0, 1] = missed
        yield C


@pytest.mark.parametrize("name", MEANS)
@pytest.mark.parametrize("K", [2, 3, 5, 10])
def test_lipschitz_smoothness_and_plug_in_are_suprema(name, K):
    """E11: gradients and their differences stay below L, beta and plug_in, and come within 3 % of each."""
    rho, step = 0.005, 1e-8
    metric, known = smoothed(name, rho), smoothing_constants(name, rho, np.full(K, 1 / K))
    rng = np.random.default_rng(K)
    points = [*extreme_points(K, rho), *rng.dirichlet(np.full(K * K, 0.2), 30).reshape(-1, K, K)]
    slope = spread = bend = 0.0
    for C in points:
        G = metric.gradient(C)
        slope, spread = max(slope, np.abs(G).max()), max(spread, np.ptp(G, axis=1).max() / 2)
        for i, j in itertools.product(range(2), range(K)):
            moved = C.copy()
            moved[i, j] += step
            bend = max(bend, np.abs(metric.gradient(moved) - G).max() / step)
    for found, constant in [(slope, known.lipschitz), (bend, known.smoothness), (spread, known.plug_in)]:
        assert 0.97 * constant <= found <= constant * (1 + 1e-5)


@pytest.mark.parametrize("name", MEANS)
def test_theta_is_attained(name):
    """E8, E9: at the classifiers named there psi and psi_rho differ by theta."""
    for K, rho in [(2, 0.01), (4, 0.05), (3, 0.001)]:
        pi = np.arange(1.0, K + 1) / np.arange(1.0, K + 1).sum()
        recall = np.ones(K)
        if name != "q_mean":
            recall[0] = 0.0  # the smallest class is never right
        C = np.diag(recall * pi)
        C[0, 1] += pi[0] - C[0, 0]
        differ = abs(smoothed(name, rho).value(C) - metrics.get(name).value(C))
        assert differ == pytest.approx(smoothing_constants(name, rho, pi).theta, rel=1e-9)


@pytest.mark.parametrize("name", MEANS)
@pytest.mark.parametrize("seed", range(2))
def test_curvature_bounds_the_curvature_constant(name, seed):
    """E16: 2/gamma^2 times the distance below the tangent stays below C_psi, which is at most 4 beta."""
    rng = np.random.default_rng(seed)
    K, rho = int(rng.integers(2, 5)), float(rng.choice([0.3, 0.05]))
    pi = rng.dirichlet(np.ones(K) * 3)
    metric, known = smoothed(name, rho), smoothing_constants(name, rho, pi)
    assert known.curvature <= 4 * known.smoothness
    worst = 0.0
    for _ in range(300):
        D1, D2 = (rng.choice([0.0, 1.0, rng.random()], K) * pi for _ in range(2))
        gamma = rng.choice([0.01, 0.3, 1.0])
        first = metric.at(Confusion(pi, D1, pi))
        there = float(metric.at(Confusion(pi, D1 + gamma * (D2 - D1), pi)).value)
        tangent = float(first.value) + gamma * float(first.diagonal @ (D2 - D1))
        worst = max(worst, 2 / gamma**2 * (tangent - there))
    assert 0 < worst <= known.curvature * (1 + 1e-6)


def test_curvature_is_the_erratas():
    pi, rho = [0.3, 0.7], 0.1
    assert smoothing_constants("h_mean", rho, pi).curvature == pytest.approx(50.0)
    assert smoothing_constants("q_mean", rho, pi).curvature == pytest.approx(2 / (3 * 6**0.5 * 0.1 * 0.4))
    expected = max(0.25 * 0.1**-1.5 * 0.4**-0.5, 0.25 * 0.1**-1 * 0.4**-1)
    assert smoothing_constants("g_mean", rho, pi).curvature == pytest.approx(expected)


def test_printed_constants_are_table_2():
    pi, rho = [0.2, 0.3, 0.5], 0.1
    h, q, g = (smoothing_constants(name, rho, pi, form="printed") for name in MEANS)
    assert h[:3] == pytest.approx((3 * 0.1 / 0.2, 30.0, 600.0))
    assert q[:3] == pytest.approx((0.1 / (0.2 * 3**0.5), 10 / 3**0.5, 2 / 3**0.5 * 100 * 11))
    assert g[:3] == pytest.approx((2 * 0.1 ** (1 / 3), 10 / 3 * 11 ** (2 / 3), 1000 / 9 * 11 ** (1 / 3)))
    assert h.plug_in is None and h.curvature is None


@pytest.mark.parametrize(
    ("K", "threshold"), [(2, 0.333), (3, 0.383), (5, 0.367), (10, 0.296), (30, 0.184), (100, 0.102)]
)
def test_printed_beta_of_the_g_mean_is_false_above_the_erratas_thresholds(K, threshold):
    """E10."""
    pi = np.full(K, 1 / K)
    assert "smoothness" in smoothing_constants("g_mean", threshold + 1e-3, pi, form="printed").false
    assert "smoothness" not in smoothing_constants("g_mean", threshold - 1e-3, pi, form="printed").false


def test_printed_theta_is_false_where_the_errata_say():
    """E8 (balanced classes, small rho), E9 (exactly where pi_min + rho < 2^-K); the H-mean's never is."""
    for K, rho in [(2, 0.01), (10, 0.001)]:
        assert smoothing_constants("q_mean", rho, np.full(K, 1 / K), form="printed").false == ("theta",)
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(200):
        K, rho = int(rng.integers(2, 6)), float(10 ** rng.uniform(-4, -1))
        pi = rng.dirichlet(np.ones(K))
        found = "theta" in smoothing_constants("g_mean", rho, pi, form="printed").false
        assert found == (pi.min() + rho < 2.0**-K)
        assert not smoothing_constants("h_mean", rho, pi, form="printed").false
        seen.add(found)
    assert seen == {True, False}


def test_bounds_are_not_made_of_false_constants():
    printed = smoothing_constants("q_mean", 0.01, [0.5, 0.5], form="printed")
    with pytest.raises(ValueError, match=r"the printed theta is below the true supremum .* use smoothing_constants"):
        smoothed_bound(printed, 0.1, m=1000, n_classes=2)
    assert bayes_cg_bound(printed, 0.1, m=1000, n_classes=2).is_vacuous  # theta does not enter Theorem 10
    printed = smoothing_constants("g_mean", 0.5, [0.5, 0.5], form="printed")
    with pytest.raises(ValueError, match="the printed smoothness is below"):
        bayes_cg_bound(printed, 0.1, m=1000, n_classes=2)


def test_radius_holds_in_simulation_and_at_the_right_rate():
    """Two classes, all thresholds in both directions: the largest error of an entry, and how it falls with M."""
    rng = np.random.default_rng(0)
    score = np.sort(rng.random(400))
    truth = np.column_stack([1 - score, score]) / 400
    worst = {}
    for M in (2_000, 32_000):
        found = []
        for _ in range(40):
            sample = rng.multinomial(M, truth.ravel() / truth.sum()).reshape(truth.shape) / M
            apart = (sample - truth).cumsum(axis=0)
            found.append(max(np.abs(apart).max(), np.abs(apart[-1] - apart).max()))
        worst[M] = max(found)
        assert worst[M] <= confusion_radius(M, 2)
    assert worst[2_000] / worst[32_000] == pytest.approx(4.0, rel=0.4)  # sqrt(16)
    assert confusion_radius(2_000, 2) / confusion_radius(32_000, 2) == pytest.approx(4.0, rel=0.25)


def test_tightened_is_never_above_printed():
    for name, rho, K in itertools.product(MEANS, (0.4, 0.05), (2, 4)):
        constants = smoothing_constants(name, rho, np.full(K, 1 / K))
        for m, E in ((100, 0.5), (10**8, 0.001)):
            tight, printed = (smoothed_bound(constants, E, m=m, n_classes=K, form=form) for form in FORMS)
            for part in ("estimation", "sampling", "optimization", "smoothing"):
                assert getattr(tight, part) <= getattr(printed, part) * (1 + 1e-12)
