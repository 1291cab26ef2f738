"""Fitting and choosing calibrations: independent optimisers, differences, known truths, invariants, odd tables."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.optimize
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax, softmax

import confmax
from confmax.calibration import MatrixScaling, Temperature, VectorScaling, choose, families, fit, log_loss
from confmax.calibration import scaling as solver
from confmax.calibration.families import first_fit, labelled
from confmax.oracle import make_table
from tests.helpers import labels_drawn


def drawn(P, seed=0):
    """Return labels drawn from the rows of P."""
    return labels_drawn(P, np.random.default_rng(seed))


def miscalibrated(n, K, a, b, seed=0):
    """Return probabilities whose labels follow ``softmax(a log p + b)``."""
    P = np.random.default_rng(seed).dirichlet(np.ones(K), n)
    return P, drawn(softmax(np.asarray(a) * np.log(P) + np.asarray(b), axis=1), seed + 1)


def objective(theta, P, y, w, floor=1e-12):
    """The penalised log loss, written down in NumPy."""
    a, b = theta.reshape(2, -1)
    scores = log_softmax(a * np.log(P + floor) + b, axis=1)
    precision = 1 + 10 / np.maximum([w[y == k].sum() for k in range(len(a))], 1)
    return -w @ scores[np.arange(len(y)), y] + 0.5 * (precision * ((a - 1) ** 2 + b**2)).sum()


def parameters(found):
    return np.concatenate([found.a, found.b])


# --- the minimiser ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("newton_classes", [128, 1])
@pytest.mark.parametrize(("n", "K"), [(60, 2), (300, 3), (800, 7)])
def test_vector_scaling_is_scipys_minimum(n, K, newton_classes, monkeypatch):
    monkeypatch.setattr(solver, "NEWTON_CLASSES", newton_classes)
    monkeypatch.setattr(solver, "WIDE_TOL", 1e-8)
    rng = np.random.default_rng(K)
    P, y = miscalibrated(n, K, rng.uniform(0.3, 2, K), rng.normal(size=K))
    w = rng.integers(1, 4, n).astype(float)
    w *= w.sum() / (w @ w)
    found = fit(make_table(P, y, w, range(K)), "vector")
    mine, floor = parameters(found), found.floor
    start = np.repeat([1.0, 0.0], K)
    best = scipy.optimize.minimize(objective, start, (P, y, w, floor), method="BFGS", options={"gtol": 1e-7})
    assert objective(mine, P, y, w, floor) <= best.fun + 1e-7
    np.testing.assert_allclose(mine, best.x, atol=2e-4)
    # a constant added to all offsets changes the prior alone
    rows = np.bincount(y, w, K)
    assert (1 + 10 / rows) @ mine[K:] == pytest.approx(0, abs=2e-3)


def test_temperature_is_scipys_minimum():
    P, y = miscalibrated(500, 4, 0.4, 0)

    def along(power):
        scores = log_softmax(power * np.log(P), axis=1)
        return -scores[np.arange(len(y)), y].sum() + 0.5 * (power - 1) ** 2

    best = scipy.optimize.minimize_scalar(along, bounds=(0.01, 10), method="bounded", options={"xatol": 1e-10})
    assert fit(make_table(P, y), "temperature").temperature == pytest.approx(1 / best.x, rel=1e-6)


def test_derivatives_against_differences():
    rng = np.random.default_rng(0)
    P, y = miscalibrated(200, 4, 1, 0)
    w, theta = rng.random(200), rng.normal(1, 0.5, 8)
    rows = solver.Sample(solver.log_table(P), y, w)
    value, gradient, hessian = solver.derivatives(rows, theta, solver.FULL)
    assert value == pytest.approx(objective(theta, P, y, w), rel=1e-12)
    eye, h = np.eye(8), 1e-5
    at = [[solver.derivatives(rows, theta + s * h * e, solver.FULL) for s in (1, -1)] for e in eye]
    np.testing.assert_allclose([(up[0] - down[0]) / (2 * h) for up, down in at], gradient, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose([(up[1] - down[1]) / (2 * h) for up, down in at], hessian, rtol=1e-5, atol=1e-6)
    blocks = solver.derivatives(rows, theta, solver.BLOCKS)[2]
    np.testing.assert_allclose(blocks, [np.diag(hessian)[:4], np.diag(hessian, 4), np.diag(hessian)[4:]], rtol=1e-12)


def test_known_parameters_are_recovered():
    a, b = np.array([0.5, 1.0, 1.6, 0.8]), np.array([0.5, -0.7, 0.0, 0.2])
    P, y = miscalibrated(60_000, 4, a, b)
    found = choose(make_table(P, y))
    assert found.kind == "vector"
    np.testing.assert_allclose(found.calibrator.a, a, atol=0.05)
    np.testing.assert_allclose(found.calibrator.b, b - b.mean(), atol=0.1)
    P, y = miscalibrated(20_000, 4, 0.5, 0)
    found = choose(make_table(P, y))
    assert found.kind == "temperature"
    assert found.calibrator.temperature == pytest.approx(2, abs=0.1)


def test_the_floor_of_the_fit_is_the_best_of_the_list():
    P, y = miscalibrated(300, 3, 0.6, 0, seed=4)
    y[:15] = P[:15].argmin(axis=1)
    found = fit(make_table(P, y), "temperature")

    def loss(power, floor):
        scores = log_softmax(power * np.log(P + floor), axis=1)
        return -scores[np.arange(300), y].sum() + 0.5 * (power - 1) ** 2

    each = {f: scipy.optimize.minimize_scalar(loss, (0.1, 1), args=(f,)).fun for f in solver.FLOORS}
    assert each[found.floor] <= min(each.values()) + solver.FLOOR_WORTH
    assert found.floor == solver.FLOOR or each[found.floor] < each[solver.FLOOR] - solver.FLOOR_WORTH + 1e-3


def test_calibrated_probabilities_are_mostly_left_alone():
    """The margin: of tables whose labels are drawn from p itself few are changed, and the losses say so."""
    kinds = []
    for seed in range(10):
        P = np.random.default_rng(seed).dirichlet(np.ones(3), 400)
        kinds.append(choose(make_table(P, drawn(P, seed + 100))).kind)
    assert kinds.count("none") >= 8


# --- losses -----------------------------------------------------------------------------------------------------------


def test_log_losses_are_scikit_learns():
    P, y = miscalibrated(500, 3, [0.4, 1, 2], [1, 0, -1])
    w = np.random.default_rng(3).random(500) + 0.5
    found = choose(make_table(P, y, w), "vector")
    assert found.log_loss_before == pytest.approx(sklearn.metrics.log_loss(y, P, sample_weight=w), rel=1e-9)
    after = sklearn.metrics.log_loss(y, found.calibrator.transform(P), sample_weight=w)
    assert found.log_loss_after == pytest.approx(after, rel=1e-9)
    assert found.log_loss_after < found.cv_log_loss_after < found.cv_log_loss_before


def test_cross_validation_is_what_it_says():
    """The loss of every tenth row again, by a fit of another library without it."""
    P, y = miscalibrated(300, 3, [0.4, 1, 2], [1, 0, -1])
    found = choose(make_table(P, y))
    rows = labelled(make_table(P, y), 0)
    left_out = first_fit(rows, "vector").left_out(rows.copies())
    assert found.cv_log_loss["vector"] == pytest.approx(left_out.mean(), abs=1e-12)
    for k in range(0, 300, 10):
        train = np.arange(300) != k
        theta = scipy.optimize.minimize(objective, np.repeat([1.0, 0], 3), (P[train], y[train], np.ones(299)), tol=1e-8)
        a, b = theta.x.reshape(2, 3)
        assert left_out[k] == pytest.approx(-log_softmax(a * np.log(P[k]) + b)[y[k]], rel=5e-3, abs=1e-3)


# --- invariants -------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=25)
@given(
    K=st.integers(2, 6),
    seed=st.integers(0, 10**6),
    T=st.floats(0.2, 5).filter(lambda T: T != 1.0),  # the identity leaves every bit, the floor too
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_transforms_are_probabilities_that_keep_their_argmax_under_a_temperature(K, seed, T, dtype):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(K), 50).astype(dtype)
    flat = Temperature(T).transform(P)
    np.testing.assert_array_equal(flat.argmax(1), P.argmax(1))
    a, b = rng.normal(1, 0.5, K), rng.normal(size=K)
    tilted = VectorScaling(a, b).transform(P)
    for Q, powers, offsets in ((flat, np.full(K, 1 / T), np.zeros(K)), (tilted, a, b)):
        assert Q.dtype == dtype
        np.testing.assert_allclose(Q.sum(1), 1, atol=K * np.finfo(dtype).eps)
        scores = powers * np.log(P.astype(float) + 1e-12) + offsets
        # the last digit of a logarithm counts as often as a score is large
        rtol = 10 * np.finfo(dtype).eps + 2 * np.abs(scores).max() * np.finfo(float).eps
        np.testing.assert_allclose(Q, softmax(scores, axis=1), rtol=rtol, atol=1e-30)
    np.testing.assert_array_equal(VectorScaling(a, b).transform(P[17:18]), tilted[17:18])


def test_identity_parameters_change_no_bit():
    P = np.random.default_rng(0).dirichlet(np.ones(4), 100).astype(np.float32)
    P[0] = [0, 1, 0, 0]
    for same in (Temperature(1.0), VectorScaling(np.ones(4), np.zeros(4)), VectorScaling(np.ones(4), np.full(4, 0.3))):
        assert same.transform(P).tobytes() == P.tobytes()


def assert_alike(one, other):
    """Assert that two choices are the same to rounding."""
    assert one.kind == other.kind == "vector"
    np.testing.assert_allclose(parameters(other.calibrator), parameters(one.calibrator), atol=1e-9)
    for kind, loss in one.cv_log_loss.items():
        assert other.cv_log_loss[kind] == pytest.approx(loss, rel=1e-9)


def test_row_order_changes_nothing():
    P, y = miscalibrated(400, 3, [0.5, 1, 1.5], [0.5, 0, -0.5])
    order = np.random.default_rng(1).permutation(400)
    assert_alike(choose(make_table(P, y)), choose(make_table(P[order], y[order])))


def test_column_order_changes_nothing():
    P, y = miscalibrated(400, 4, [0.5, 1, 1.5, 1], [0.5, 0, -0.5, 0], seed=1)
    order = [2, 0, 3, 1]
    plain, turned = make_table(P, y), make_table(P[:, order], np.argsort(order)[y])
    np.testing.assert_allclose(fit(turned, "matrix").W, fit(plain, "matrix").reordered(order).W, atol=1e-6)
    one, other = choose(plain), choose(turned)
    assert_alike(replace(one, calibrator=one.calibrator.reordered(order)), other)


@pytest.mark.parametrize("unit", [1e200, 1e-200])
def test_weights_of_any_size_are_relative(unit):
    P, y = miscalibrated(300, 3, [0.5, 1, 1.5], [0.5, 0, -0.5])
    w = np.random.default_rng(2).random(300)
    assert_alike(choose(make_table(P, y, w)), choose(make_table(P, y, unit * w)))


def inverted(n, K, seed, *, backwards):
    """Labels for which some classes are the less likely the larger their probability."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(K), n)
    a = np.where(np.arange(K) < backwards, -1.2, 1.0)
    return P, (a * np.log(P) + rng.gumbel(size=(n, K))).argmax(axis=1)


@pytest.mark.parametrize(("n", "K", "backwards"), [(300, 2, 1), (300, 3, 1), (400, 4, 3), (500, 5, 5), (60, 6, 2)])
def test_powers_are_never_negative(n, K, backwards):
    """The constrained minimum of SciPy's L-BFGS-B, and the conditions of Karush, Kuhn and Tucker."""
    P, y = inverted(n, K, n + K, backwards=backwards)
    found = fit(make_table(P, y), "vector")
    assert (found.a >= 0).all() and (found.a == 0).any()
    rows, bounds = (P, y, np.ones(n), found.floor), [(0, None)] * K + [(None, None)] * K
    best = scipy.optimize.minimize(objective, np.repeat([1.0, 0.0], K), rows, method="L-BFGS-B", bounds=bounds,
                                   options={"ftol": 1e-15, "gtol": 1e-10, "maxfun": 10**6})  # fmt: skip
    theta = parameters(found)
    assert objective(theta, *rows) <= best.fun + 1e-6
    slope = scipy.optimize.approx_fprime(theta, objective, 1e-6, *rows)
    held = np.concatenate([found.a == 0, np.zeros(K, bool)])
    np.testing.assert_allclose(slope[~held], 0, atol=1e-2)
    assert (slope[held] > -1e-2).all()
    chosen = choose(make_table(P, y)).calibrator
    assert not isinstance(chosen, VectorScaling) or (chosen.a >= 0).all()


# --- odd tables -------------------------------------------------------------------------------------------------------


def finite(found):
    values = np.concatenate([np.ravel(getattr(found, name)) for name in found.numbers])
    return np.isfinite(values).all() and np.abs(values).max() < 1e3


def odd_tables():
    rng = np.random.default_rng(0)
    P, y = miscalibrated(200, 4, 1, 0)
    return {
        "a class without rows": (P, np.where(y == 2, 0, y)),
        "one class only": (P, np.zeros(200, dtype=int)),
        "right and certain, zeros everywhere": (np.eye(4)[y], y),
        "certain and wrong": (np.eye(4)[(y + 1) % 4], y),
        "a class never expected": (
            np.column_stack([P[:, :3] / P[:, :3].sum(1, keepdims=True), np.zeros(200)]), y,
        ),
        "flat": (np.full((200, 4), 0.25), y),
        "one row": (P[:1], y[:1]),
        "two rows": (P[:2], y[:2]),
        "fifty classes of sixty rows": (rng.dirichlet(np.full(50, 0.1), 60), rng.integers(0, 50, 60)),
    }  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("proba", "labels"), odd_tables().values(), ids=odd_tables())
def test_odd_tables_stay_finite(proba, labels, dtype):
    table = make_table(proba.astype(dtype), labels, None, range(proba.shape[1]))
    for kind in ("temperature", "vector", "matrix"):
        found = fit(table, kind)
        assert finite(found)
        Q = found.transform(table.head.proba)
        assert np.isfinite(Q).all() and np.abs(Q.sum(1) - 1).max() < 1e-5
        assert found.is_monotone
    assert choose(table).kind in ("none", "temperature", "vector", "matrix")


# --- a calibrator of one's own ----------------------------------------------------------------------------------------


class Shrink:
    """Mixes the probabilities with the class frequencies of the labels."""

    def __init__(self, share=0.5):
        self.share, self.prior = share, None

    def fit(self, proba, y, sample_weight=None):
        self.prior = np.bincount(y, weights=sample_weight, minlength=proba.shape[1])
        self.prior = self.prior / self.prior.sum()

    def transform(self, proba):
        return (1 - self.share) * proba + self.share * self.prior


class Unweighted(Shrink):
    def fit(self, proba, y):
        super().fit(proba, y)


def test_an_object_is_copied_fitted_and_cross_validated():
    P, y = miscalibrated(300, 3, 0.3, 0)
    w = np.arange(300) % 3
    for mine, counted in ((Shrink(), w), (Unweighted(), w > 0)):
        found = choose(make_table(P, y, w), mine)
        assert found.kind == "given"
        assert mine.prior is None
        np.testing.assert_allclose(found.calibrator.prior, np.bincount(y, weights=counted) / counted.sum())
        assert found.cv_log_loss_after < found.cv_log_loss_before


def test_a_fitted_calibrator_is_used_as_it_is():
    P, y = miscalibrated(300, 3, 0.3, 0)
    found = choose(make_table(P), Temperature(3.0))
    assert (found.kind, found.calibrator, found.log_loss_before) == ("given", Temperature(3.0), None)
    assert choose(make_table(P, y), Temperature(3.0)).log_loss_after is not None


class Gives(Shrink):
    def __init__(self, wrong):
        super().__init__()
        self.wrong = wrong

    def transform(self, proba):
        return self.wrong(proba)


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("isotonic", "calibration must be 'auto', None, 'temperature', 'vector', 'matrix' or an object with fit and"),
        (3, "got 3"),
        (Shrink, "an object with fit and transform; got <class"),
        (Gives(lambda P: -P), "the calibration Gives does not give probabilities: row 0, column 0 of proba is"),
        (Gives(lambda P: P[:1]), "the calibration Gives gave shape"),
        (Gives(lambda P: np.eye(len(P))), "the calibration Gives gave shape"),
    ],
)
def test_refusals(kind, sentence):
    P, y = miscalibrated(30, 3, 1, 0)
    with pytest.raises(ValueError, match=sentence):
        choose(make_table(P, y, None, range(3)), kind)


@pytest.mark.parametrize(
    ("call", "kind", "sentence"),
    [
        (choose, "vector", "calibration='vector' is fitted on labels, but there are none; pass y"),
        (choose, "matrix", "calibration='matrix' is fitted on labels, but there are none; pass y"),
        (choose, Shrink(), "calibration=Shrink is fitted on labels, but there are none; pass y"),
        (fit, "vector", "fitted on labels"),
        (fit, "none", "kind must be one of temperature, vector, matrix; got 'none'"),
    ],
)
def test_labels_are_needed(call, kind, sentence):
    table = make_table([[0.2, 0.8]])
    assert choose(table) is choose(table, None) is None
    with pytest.raises(ValueError, match=sentence):
        call(table, kind)


def test_parameters_are_bounded():
    for bad in (0.0, -1.0, np.inf, np.nan, 1e7):
        with pytest.raises(ValueError, match="temperature must lie between"):
            Temperature(bad)
    for a, b in (([1, 2], [1]), ([1], [1]), ([1, np.nan], [0, 0]), ([1, 1], [0, 1e7])):
        with pytest.raises(ValueError, match="vector scaling needs a and b of shape"):
            VectorScaling(a, b)
    with pytest.raises(ValueError, match="for 2 classes, but proba has 3 columns"):
        VectorScaling([1, 2], [0, 0]).transform(np.full((1, 3), 1 / 3))


def test_what_is_told():
    P, y = miscalibrated(3000, 3, 0.3, 0)
    text = str(choose(make_table(P, y)))
    assert text.startswith("calibration temperature: log loss 1.")
    assert " -> " in text and "(cross-validated 1." in text
    flat = str(choose(make_table([[0.2, 0.8]], [0])))
    assert flat == "calibration none: log loss 1.6094"


# --- rows that are left out -------------------------------------------------------------------------------------------


def labelled_rows(n, K, seed, *, copies=1, weighted=False):
    """Rows of probabilities that are tilted and too sure, with labels, weights, and which of them are copies."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.linspace(1.0, 2.0, K), n)
    y = np.array([rng.choice(K, p=row) for row in P])
    proba = P**1.6 * np.linspace(1.0, 2.0, K)
    proba = np.repeat(proba / proba.sum(axis=1, keepdims=True), copies, axis=0)
    weight = rng.uniform(0.5, 2.0, n * copies) if weighted else None
    return labelled(make_table(proba, np.repeat(y, copies), weight, range(K)), 0)


@pytest.mark.parametrize(("n", "K", "copies", "weighted"), [(60, 2, 1, False), (150, 3, 1, True), (80, 4, 3, True)])
@pytest.mark.parametrize("kind", ["temperature", "vector"])
def test_losses_of_rows_left_out_are_those_of_fits_without_them(n, K, copies, weighted, kind):
    """The witness fits anew without every group of copies."""
    rows = labelled_rows(n, K, 0, copies=copies, weighted=weighted)
    whole = first_fit(rows, kind)
    rows, group = whole.rows, rows.copies()
    assert len(np.unique(group)) == n
    found = whole.left_out(group)
    fitted, expected = whole.on_others(), np.empty(len(group))
    for k in range(n):
        out = group == k
        expected[out] = solver.row_losses(rows, np.array(fitted(out).parameters(K)), out)
    inside = solver.row_losses(rows, whole.theta, np.ones(len(group), bool))
    # what leaving rows out adds to the loss is right to a tenth, in sum; a row's own part to a small fraction of it
    added = np.average(expected - inside, weights=rows.weight)
    assert added > 0
    assert abs(np.average(found - expected, weights=rows.weight)) < 0.1 * added
    assert np.corrcoef(found - inside, expected - inside)[0, 1] > 0.98


def test_the_kind_depends_on_no_seed_and_no_last_digit():
    rng = np.random.default_rng(2)
    for seed in range(4):
        P = rng.dirichlet([0.5, 1.0, 1.5], 200)
        y = np.array([rng.choice(3, p=row) for row in P**0.7 / (P**0.7).sum(axis=1, keepdims=True)])
        first = choose(make_table(P, y, None, range(3)), seed=0)
        other = choose(make_table(P, y, None, range(3)), seed=seed + 1)
        assert (first.kind, first.cv_log_loss) == (other.kind, other.cv_log_loss)
        near = choose(make_table(P * (1 + 1e-7 * rng.normal(size=P.shape)), y, None, range(3)))
        assert near.kind == first.kind
        for kind, loss in first.cv_log_loss.items():
            assert near.cv_log_loss[kind] == pytest.approx(loss, abs=2e-4)


def test_many_classes_leave_out_folds():
    P = np.random.default_rng(0).dirichlet(np.ones(130), 400)
    table = make_table(P, np.arange(400) % 130, None, range(130))
    assert set(choose(table).cv_log_loss) == {"none", "temperature", "vector"}


@pytest.fixture
def small_samples(monkeypatch):
    """Tables of a thousand rows are large, and a sample has some hundred."""
    for name, value in (("LARGE", 1000), ("SAMPLE_CELLS", 1500), ("SAMPLE_ROWS", 500), ("WHOLE_CLASS", 40)):
        monkeypatch.setattr(families, name, value)


@pytest.mark.usefixtures("small_samples")
def test_a_sample_has_small_classes_whole_and_classes_of_their_weight():
    rng = np.random.default_rng(0)
    y = rng.choice(4, 6000, p=[0.8, 0.19, 0.006, 0.004])
    weight = rng.integers(0, 3, 6000)
    table = make_table(rng.dirichlet(np.ones(4), 6000), y, weight, range(4))
    everything = labelled(table, 0)
    some = labelled(table, 0, most=families.rows_to_compare(table), by_class=True)
    rows, of_all = (np.bincount(one.labels, minlength=4) for one in (some, everything))
    assert (rows[2:] == np.minimum(of_all[2:], 40)).all() and 450 < rows.sum() < 700
    assert some.part == pytest.approx(some.weight.sum() / everything.weight.sum())
    shares = [np.bincount(one.labels, one.weight) / one.weight.sum() for one in (some, everything)]
    np.testing.assert_allclose(*shares, rtol=0.2)  # weights of rows differ within a class
    # whatever the order of rows and columns
    order = rng.permutation(6000)
    turned = make_table(table.head.proba[order][:, ::-1], 3 - y[order], weight[order], range(4))
    same = labelled(turned, 0, most=families.rows_to_compare(turned), by_class=True)
    np.testing.assert_array_equal(np.sort(order[same.place]), some.place)
    # of copies their part is there
    few = rng.dirichlet(np.ones(4), 12)
    drawn_rows = rng.integers(0, 12, 6000)
    copies = make_table(few[drawn_rows], rng.integers(0, 4, 6000), None, range(4))
    some = labelled(copies, 0, most=families.rows_to_compare(copies), by_class=True)
    counts = np.bincount(drawn_rows[some.place], minlength=12)
    np.testing.assert_allclose(counts / counts.sum(), np.bincount(drawn_rows) / 6000, atol=0.01)
    plain = make_table(table.head.proba, y, None, range(4))
    some = labelled(plain, 0, most=families.rows_to_compare(plain), by_class=True)
    np.testing.assert_allclose(np.bincount(some.labels, some.weight) / some.weight.sum(), np.bincount(y) / 6000)


@pytest.mark.usefixtures("small_samples")
@pytest.mark.parametrize("kind", ["temperature", "vector"])
def test_a_kind_compared_on_a_sample_is_fitted_on_all_rows(kind):
    P, y = miscalibrated(
        5000, 3, 0.5 if kind == "temperature" else (0.5, 1.5, 1.0), (0.0, 0.5, -0.5) if kind == "vector" else 0
    )
    table = make_table(P, y)
    found = choose(table, kind)
    expected = fit(table, kind)
    if kind == "temperature":
        assert found.calibrator.temperature == pytest.approx(expected.temperature, rel=1e-5)
    else:
        np.testing.assert_allclose(parameters(found.calibrator), parameters(expected), atol=1e-4)
    assert found.log_loss_after == pytest.approx(log_loss(table.calibrated(expected)), abs=1e-8)


@pytest.mark.usefixtures("small_samples")
@pytest.mark.parametrize("share", [0.02, 0.3, 0.48])
def test_a_sample_holds_its_part_of_what_many_rows_have_in_common(share):
    """Rows that are certain of any class have one hash: a sample by hashes alone would hold none of them."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), 6000)
    y = labels_drawn(P, rng)
    sure = rng.random(6000) < share
    said = rng.integers(0, 3, 6000)
    P[sure] = np.eye(3)[said[sure]]
    y = np.where(sure, (said + (rng.random(6000) < 0.1)) % 3, y)
    table = make_table(P, y)
    some = labelled(table, 0, most=families.rows_to_compare(table), by_class=True)
    of_sample = np.average((some.proba == 1.0).any(axis=1), weights=some.weight)
    assert of_sample == pytest.approx(share, abs=0.05 if share > 0.1 else 0.02)
    found = choose(table)
    # the class of some row has the probability zero: raw probabilities are no candidate
    assert found.kind != "none"
    assert found.cv_log_loss_before == pytest.approx(log_loss(table), abs=0.2)
    # copies count by what they say and weigh, not by their places
    weight = np.where(sure, rng.pareto(2.0, 6000), 1.0)
    order = rng.permutation(6000)
    heavy, moved = (choose(make_table(P[k], y[k], weight[k])) for k in (np.arange(6000), order))
    assert moved.kind == heavy.kind
    assert moved.cv_log_loss == pytest.approx(heavy.cv_log_loss, rel=1e-9)


def test_losses_on_a_sample_are_those_of_a_fit_on_all_rows(monkeypatch):
    """A fit of d numbers on m rows loses d / (2 m) nats; that on all rows is what is chosen."""
    for name, value in (("LARGE", 1000), ("SAMPLE_CELLS", 8000), ("SAMPLE_ROWS", 1000)):
        monkeypatch.setattr(families, name, value)
    costs = []
    for seed in range(10):
        table = make_table(*miscalibrated(10_000, 8, 1, 0, seed=seed))
        some = labelled(table, 0, most=families.rows_to_compare(table), by_class=True)
        found = first_fit(some, "vector")
        on_all = first_fit(labelled(table, 0), "vector")
        # the rows of the sample, under the fit on all rows: what differs is what the fit costs
        of_all = families.losses_under(some, on_all.calibrator, np.ones(len(some.labels), dtype=bool))
        alone = replace(found, rows=replace(some, part=1.0))
        losses = (one.left_out(some.copies()) - of_all for one in (found, alone))
        costs.append([float(np.average(each, weights=some.weight)) for each in losses])
    corrected, plain = np.mean(costs, axis=0)
    assert plain > 0.006
    assert abs(corrected) < 0.6 * plain


def test_a_floor_bounds_confident_mistakes():
    """One label in ten is noise: no temperature of the logarithms alone can say that, a floor can."""
    rng = np.random.default_rng(3)
    P = softmax(8 * rng.normal(size=(4000, 4)), axis=1)
    y = np.where(rng.random(4000) < 0.1, rng.integers(0, 4, 4000), drawn(P, 5))
    table = make_table(P, y)
    found = fit(table, "temperature")
    assert found.floor == 3e-2
    assert log_loss(table.calibrated(found)) < 0.85 * min(
        log_loss(table.calibrated(Temperature(T))) for T in (1.0, 2.0, 3.0, 4.0, 6.0)
    )
    # clean labels need none
    assert fit(make_table(P, drawn(P, 6)), "temperature").floor <= 1e-8


def test_folds_are_stratified_and_keep_equal_rows_together():
    P, y = miscalibrated(500, 3, 1, 0)
    twice = labelled(make_table(np.concatenate([P, P]), np.concatenate([y, y])), 0).folds()
    np.testing.assert_array_equal(twice[:500], twice[500:])
    for k in range(3):
        size = int((y == k).sum())
        assert np.bincount(twice[:500][y == k], minlength=5).max() <= -(-size // 5) + size // 20
    assert (labelled(make_table(P, y), 1).folds() != twice[:500]).any()


def test_powers_of_many_classes_are_never_negative(monkeypatch):
    """L-BFGS finds what Newton's method does."""
    P, y = inverted(500, 5, 3, backwards=2)
    newton = fit(make_table(P, y), "vector")
    monkeypatch.setattr(solver, "NEWTON_CLASSES", 3)
    monkeypatch.setattr(solver, "WIDE_TOL", 1e-10)
    other = fit(make_table(P, y), "vector")
    assert (newton.a[:2] == 0).all()
    np.testing.assert_allclose(parameters(other), parameters(newton), atol=1e-3)


def test_d11_calibrations_name_no_range_of_one_number_and_messages_no_class_that_is_not_meant():
    alike = str(VectorScaling([1.0, 1.0004], [0.25, -0.5]))
    assert "powers all 1," in alike and "offsets -0.5 to 0.25" in alike and "1 to 1" not in alike
    assert "powers 0.5 to 1" in str(VectorScaling([0.5, 1.0], [0.0, 0.0]))
    assert "powers all 1, of other classes all 0" in str(MatrixScaling(np.eye(3), np.zeros(3)))
    P, y = [[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]] * 4, ["ok", "fraud", "ok"] * 4
    for metric in ("f1", "recall", "jaccard", "precision"):
        with pytest.raises(ValueError, match=rf"{metric}\[fraud\] or {metric}\[ok\]"):
            confmax.maximize(metric, P, y)
