"""Matrix scaling: derivatives, minima, limits and the choice, beside other optimisers and on known truths."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.optimize
from scipy.special import log_softmax, softmax
from sklearn.metrics import f1_score

import confmax
from confmax.calibration import MatrixScaling, VectorScaling, choose, families, fit, log_loss, matrix
from confmax.calibration.families import first_fit, labelled
from confmax.calibration.matrix import MatrixLoss, fit_matrix, matrix_losses, monotone_margins
from confmax.calibration.newton import BLOCKS, FULL, NO_SECOND
from confmax.oracle import make_table
from tests.helpers import by_numpy


def confused(n, K, strength=0.4, seed=0, noise=0.0):
    """Probabilities whose labels follow a matrix scaling, in which some pairs of classes are confused."""
    rng = np.random.default_rng([n, K, seed])
    P = rng.dirichlet(np.full(K, 0.7), n)
    W = np.eye(K) + strength * np.eye(K, k=1) + noise * rng.normal(size=(K, K))
    Q = softmax(np.log(P + 1e-6) @ W.T + np.linspace(0.3, -0.3, K), axis=1)
    return P, (Q.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)


def sample(n, K, *, weighted=False, **settings):
    P, y = confused(n, K, **settings)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, n) if weighted else None
    return labelled(make_table(P, y, weight, range(K)), 0)


def objective(theta, rows, strength):
    """The penalised log loss, written down again."""
    K = rows.z.shape[1]
    W, b = theta.reshape(K, K + 1)[:, :K], theta.reshape(K, K + 1)[:, K]
    scores = log_softmax(rows.z.astype(float) @ W.T + b, axis=1)
    n = np.maximum([rows.weight[rows.labels == k].sum() for k in range(K)], 1)
    own = 1 + 10 / n
    pulls = strength * (1 + 100 / np.minimum.outer(n, n))
    away = np.where(np.eye(K) > 0, np.diag(own), pulls) * (W - np.eye(K)) ** 2
    return -rows.weight @ scores[np.arange(len(rows.labels)), rows.labels] + 0.5 * (away.sum() + own @ b**2)


def identity(K):
    return np.c_[np.eye(K), np.zeros(K)]


# --- the minimiser ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("wide", [False, True])
def test_derivatives_are_those_of_the_loss(weighted, wide, monkeypatch):
    rows = sample(300, 4, weighted=weighted)
    rng = np.random.default_rng(0)
    if wide:
        monkeypatch.setattr(matrix, "NEWTON_CLASSES", 2)
    loss = MatrixLoss(rows, 30.0)
    theta = (identity(4) + rng.normal(0.0, 0.65 if wide else 0.05, (4, 5))).reshape(-1)
    value, gradient, hessian = loss(theta, FULL)
    # beyond the limits a wide loss has a penalty
    short = [np.minimum(margins, 0.0) for margins in monotone_margins(theta.reshape(4, 5)[:, :4])]
    penalty = 0.5 * matrix.STEEP * sum((part**2).sum() for part in short) * wide
    assert (penalty > 0) == wide
    assert value == pytest.approx(objective(theta, rows, 30.0) + penalty, rel=1e-12)
    for k in range(len(theta)):
        move = np.eye(len(theta))[k] * 1e-5
        up, down = loss(theta + move, NO_SECOND), loss(theta - move, NO_SECOND)
        assert gradient[k] == pytest.approx((up[0] - down[0]) / 2e-5, rel=1e-5, abs=1e-3)
        if not wide:
            np.testing.assert_allclose(hessian[k], (up[1] - down[1]) / 2e-5, rtol=1e-5, atol=1e-3)
    blocks = loss(theta, BLOCKS)[2]
    for j in range(4):
        np.testing.assert_allclose(blocks[j], hessian[5 * j : 5 * j + 5, 5 * j : 5 * j + 5], rtol=1e-12)


@pytest.mark.parametrize("seed", range(1))
def test_a_step_minimises_the_model_within_the_limits(seed):
    rng, step_of = np.random.default_rng(seed), matrix._Step(3)
    theta = identity(3).reshape(-1)
    for _ in range(3):
        root, gradient = rng.normal(size=(20, 12)), rng.normal(0.0, 30.0, 12)
        hessian = root.T @ root
        step = step_of(lambda x, H=hessian: np.linalg.solve(H, x), gradient, theta)

        def margins(d, theta=theta):
            W = (theta + d).reshape(3, 4)[:, :3]
            return np.concatenate([part[~np.eye(3, dtype=bool)] for part in monotone_margins(W)])

        other = scipy.optimize.minimize(
            lambda d, H=hessian, g=gradient: 0.5 * d @ H @ d + g @ d, np.zeros(12), method="SLSQP", tol=1e-12,
            constraints={"type": "ineq", "fun": margins}, jac=lambda d, H=hessian, g=gradient: H @ d + g,
        )  # fmt: skip
        assert margins(step).min() >= -1e-8
        assert margins(-np.linalg.solve(hessian, gradient)).min() < 0
        assert 0.5 * step @ hessian @ step + gradient @ step <= other.fun + 1e-7 * abs(other.fun)
        np.testing.assert_allclose(step, other.x, atol=1e-4)


@pytest.mark.parametrize("K", [2, 3, 8, 21])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_by_the_kernel_and_by_numpy(K, dtype):
    rng = np.random.default_rng(K)
    P, y = confused(5000, K)
    weight = rng.uniform(0.5, 2.0, 5000) * (rng.random(5000) < 0.7)
    rows = labelled(make_table(P.astype(dtype), y, None, range(K)), 0)
    rows = replace(rows, weight=weight)
    theta = identity(K) + rng.normal(0.0, 0.05, (K, K + 1))
    used = weight > 0
    loss = MatrixLoss(rows, 3.0)
    by_kernel = [loss(theta.reshape(-1), order) for order in (NO_SECOND, BLOCKS, FULL)]
    losses = matrix_losses(rows, theta, used)
    with by_numpy():
        by_array = [loss(theta.reshape(-1), order) for order in (NO_SECOND, BLOCKS, FULL)]
        np.testing.assert_array_equal(matrix_losses(rows, theta, used), losses)
    for one, other in zip(by_kernel, by_array, strict=True):
        for part, expected in zip(one, other, strict=True):
            np.testing.assert_allclose(part, expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max(initial=1.0))
    # rows without weight count for nothing
    fewer = MatrixLoss(rows.only(used), 3.0)(theta.reshape(-1), FULL)
    for part, expected in zip(fewer, by_kernel[2], strict=True):
        np.testing.assert_allclose(part, expected, rtol=1e-11, atol=1e-11 * np.abs(expected).max(initial=1.0))


@pytest.mark.parametrize(("K", "strength", "weighted"), [(2, 3.0, False), (3, 30.0, True), (4, 300.0, False)])
def test_the_minimum_is_that_of_another_optimiser(K, strength, weighted):
    rows = sample(200, K, weighted=weighted)
    found = fit_matrix(rows, strength, identity(K), tol=1e-9)
    other = scipy.optimize.minimize(objective, identity(K).reshape(-1), (rows, strength), tol=1e-10)
    assert objective(found.reshape(-1), rows, strength) == pytest.approx(other.fun, abs=1e-6)
    np.testing.assert_allclose(found.reshape(-1), other.x, atol=1e-3)


@pytest.mark.parametrize(("seed", "wide"), [(0, False), (1, True)])
def test_limits_hold_and_cost_what_they_must(seed, wide, monkeypatch):
    """Labels against the model: the witness minimises within the linear limits."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(3), 150)
    y = (P @ rng.normal(size=(3, 3)) + rng.gumbel(size=(150, 3))).argmax(axis=1)
    rows = labelled(make_table(P, y, None, range(3)), 0)
    if wide:
        monkeypatch.setattr(matrix, "NEWTON_CLASSES", 2)
    found = fit_matrix(rows, 3.0, identity(3), tol=1e-9)
    assert MatrixScaling(found[:, :3], found[:, 3]).is_monotone

    def margins(theta):
        return np.concatenate([part.reshape(-1) for part in monotone_margins(theta.reshape(3, 4)[:, :3])])

    limits = {"type": "ineq", "fun": margins}
    start = identity(3).reshape(-1)
    other = scipy.optimize.minimize(objective, start, (rows, 3.0), "SLSQP", constraints=limits, tol=1e-10)
    free = scipy.optimize.minimize(objective, start, (rows, 3.0), tol=1e-10)
    assert free.fun < other.fun - 0.05
    assert objective(found.reshape(-1), rows, 3.0) == pytest.approx(other.fun, abs=5.0 if wide else 1e-4)


def test_the_wide_path_leads_to_the_same_minimum(monkeypatch):
    rows = sample(2000, 8, weighted=True)
    newton = fit_matrix(rows, 30.0, identity(8), tol=1e-9)
    monkeypatch.setattr(matrix, "NEWTON_CLASSES", 7)
    np.testing.assert_allclose(fit_matrix(rows, 30.0, identity(8), tol=1e-9), newton, atol=0.03)


def test_a_truth_is_recovered():
    P, y = confused(40_000, 4)
    found = fit(make_table(P, y), "matrix")
    # a constant per column of W and one on b change no probability
    truth = np.eye(4) + 0.4 * np.eye(4, k=1)
    np.testing.assert_allclose(found.W - found.W.mean(axis=0), truth - truth.mean(axis=0), atol=0.05)
    Q, z = confused(40_000, 4, seed=1)
    test = make_table(Q, z)
    by_vector = log_loss(test.calibrated(fit(make_table(P, y), "vector")))
    assert log_loss(test.calibrated(found)) < by_vector - 0.02


def test_a_fit_is_the_same_bits_on_any_number_of_threads(monkeypatch):
    table = make_table(*confused(9000, 5))
    found = []
    for threads in ("1", "2", "3"):
        monkeypatch.setenv("CONFMAX_NUM_THREADS", threads)
        found.append(fit(table, "matrix"))
    assert found[0] == found[1] == found[2]


# --- the choice -------------------------------------------------------------------------------------------------------


def test_confused_pairs_are_what_it_is_chosen_for():
    found = choose(make_table(*confused(3000, 5)))
    assert found.kind == "matrix"
    assert found.strength in matrix.STRENGTHS
    assert found.cv_log_loss["matrix"] == min(found.cv_log_loss.values())
    plain = choose(make_table(*confused(3000, 5, strength=0.0)))
    assert plain.kind != "matrix" and plain.strength is None


@pytest.mark.parametrize("K", [2, 21])
def test_other_numbers_of_classes_are_not_tried(K):
    assert "matrix" not in choose(make_table(*confused(1500, K))).cv_log_loss


def test_few_rows_are_too_few_to_choose_a_matrix():
    """Six rows of ten classes once got one: log loss 3.18 -> .29 on these rows."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(10), 6)
    assert "matrix" not in choose(make_table(P, rng.integers(0, 10, 6), None, range(10))).cv_log_loss
    P, y = confused(400, 3)
    few, enough = np.r_[np.ones(60), np.full(340, 1e-3)], np.r_[np.ones(110), np.full(290, 1e-3)]
    for weight, tried in ((None, True), (few, False), (enough, True)):
        assert ("matrix" in choose(make_table(P, y, weight, range(3))).cv_log_loss) == tried
    # who asks for one gets one
    assert choose(make_table(P[:6], y[:6], None, range(3)), "matrix").kind == "matrix"


def test_the_choice_is_the_one_standard_error_rule_on_five_folds():
    """The witness: folds, fits of another optimiser and losses, all written down again."""
    P, y = confused(400, 3, strength=0.25, seed=3)
    rows = labelled(make_table(P, y), 0)
    found = first_fit(rows, "matrix")
    fold, losses = found.rows.steady_folds(), np.empty(400)
    for k in range(5):
        part = families.replace(found.rows, weight=found.rows.weight * (fold != k))
        theta = scipy.optimize.minimize(objective, identity(3).reshape(-1), (part, found.strength), tol=1e-9).x
        W, b = theta.reshape(3, 4)[:, :3], theta.reshape(3, 4)[:, 3]
        scores = log_softmax(found.rows.z.astype(float) @ W.T + b, axis=1)
        losses[fold == k] = -scores[np.arange(400), y][fold == k]
    np.testing.assert_allclose(found.left_out(rows.copies()), losses, atol=5e-3)
    assert choose(make_table(P, y)).cv_log_loss["matrix"] == pytest.approx(losses.mean(), abs=1e-3)


def test_large_tables_are_chosen_on_samples_and_fitted_whole(monkeypatch):
    table = make_table(*confused(4000, 3))
    whole = choose(table, "matrix")
    for name, most in (("LARGE", 1000), ("SAMPLE_CELLS", 3000), ("SAMPLE_ROWS", 1000)):
        monkeypatch.setattr(families, name, most)
    sampled = choose(table, "matrix")
    assert sampled.cv_log_loss["matrix"] != whole.cv_log_loss["matrix"]
    everything = labelled(table, 0).at(sampled.calibrator.floor)
    theta = fit_matrix(everything, sampled.strength, identity(3), tol=1e-9)
    np.testing.assert_allclose(sampled.calibrator.W, theta[:, :3], atol=1e-4)


def test_too_many_classes_are_refused_by_name():
    with pytest.raises(ValueError, match="for at most 100 classes, and the table has 101; use calibration='vector'"):
        fit(make_table(*confused(300, 101)), "matrix")


@pytest.mark.parametrize("confusion", ["blend"])
def test_maximize_uses_it(confusion):
    P, y = confused(2500, 4)
    found = confmax.maximize("macro_f1", P, y, confusion=confusion)
    assert isinstance(found.rule.calibrator, MatrixScaling)
    assert found.rule.calibrator == confmax.maximize("macro_f1", P, y, calibration="matrix").rule.calibrator
    Q, z = confused(20_000, 4, seed=5)
    plain = confmax.maximize("macro_f1", P, y, calibration="vector", confusion=confusion)
    by_matrix, by_vector = (f1_score(z, rule.predict(Q), average="macro") for rule in (found.rule, plain.rule))
    assert by_matrix > by_vector + 0.01
    assert isinstance(plain.rule.calibrator, VectorScaling)


def test_weights_count_rows():
    P, y = confused(600, 3)
    twice = fit(make_table(np.r_[P, P[:300]], np.r_[y, y[:300]]), "matrix")
    rows = labelled(make_table(P, y, np.r_[np.full(300, 2.0), np.ones(300)]), 0)
    scaled = families.replace(rows, weight=rows.weight * 900 / rows.weight.sum())
    found = first_fit(scaled, "matrix").calibrator
    np.testing.assert_allclose(found.W, twice.W, atol=2e-2)
