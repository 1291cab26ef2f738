"""Class shares of unlabelled rows: by other algorithms, by enumeration, and what stays when nothing has changed."""

import itertools
import pickle
import re
import warnings
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array
from sklearn.metrics import f1_score

import confmax
from confmax.calibration.calibrators import MatrixScaling, Temperature, VectorScaling
from confmax.calibration.shifted import raised, shifted
from confmax.rule.shares import SourceShares
from confmax.rule.shifted import shares_from
from confmax.shift import likelihood as about
from confmax.shift import priors as shares_of_rows
from confmax.shift.likelihood import Likelihood, from_sample, most_likely
from confmax.shift.priors import UNLIKE, misfit
from confmax.shift.source import source_of
from confmax.tables import make_table
from tests.parts_helpers import cut


def rows(K, n, seed=0, sharp=0.5):
    """Return probabilities (n, K), and labels drawn from them, so that they are calibrated."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(K, sharp), n)
    return P, (P.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)


def of_shares(P, y, q, n, seed=1):
    """Return n rows that are drawn from each class as often as ``q`` says, and their labels."""
    rng = np.random.default_rng(seed)
    drawn = rng.choice(len(q), n, p=q)
    at = np.array([rng.choice(np.flatnonzero(y == k)) for k in drawn])
    return P[at], y[at]


def log_likelihood(P, pi, counts, weight=None):
    """Return the function of shares that is to be largest, in NumPy."""
    R = (P + about.FLOOR) / pi

    def value(q):
        each = np.log(R @ q)
        return (each if weight is None else each * weight).sum() + (counts * np.log(np.maximum(q, 1e-300))).sum()

    return value


@pytest.mark.parametrize("K", [2, 3, 7])
@pytest.mark.parametrize(("counted", "weighted"), [(True, False), (False, True)])
def test_the_most_likely_shares_are_those_of_another_algorithm(K, counted, weighted):
    P, _ = rows(K, 150, seed=K)
    rng = np.random.default_rng(K)
    pi = rng.dirichlet(np.full(K, 5.0))
    counts = rng.integers(0, 4, K).astype(float) if counted else np.zeros(K)
    weight = rng.random(150) if weighted else None
    found = most_likely(Likelihood.of(make_table(P, None, weight), pi).with_counts(counts), tol=1e-9)
    worth = None if weight is None else weight * (weight.sum() / (weight**2).sum())
    value = log_likelihood(P, pi, counts, worth)
    q = np.full(K, 1.0 / K)
    for _ in range(20_000):
        R = P / pi
        f = (R @ q)[:, None]
        q = q * (R / f if worth is None else worth[:, None] * R / f).sum(axis=0) + counts
        q = q / q.sum()
    assert found.value == pytest.approx(value(found.shares), abs=1e-8)
    assert value(found.shares) >= value(q) - 1e-7
    assert np.abs(found.shares - q).sum() < 1e-3


def test_no_shares_on_a_grid_are_better_than_the_certificate_says():
    rng = np.random.default_rng(0)
    grid = np.array([c for c in itertools.product(range(11), repeat=3) if sum(c) == 10]) / 10.0
    for seed in range(40):
        n = int(rng.integers(1, 8))
        P = rng.dirichlet(np.full(3, 0.3), n)
        pi = rng.dirichlet(np.ones(3)) + 0.01
        counts = rng.integers(0, 2, 3).astype(float)
        value = log_likelihood(P, pi, counts)
        at = np.where((grid > 0).all(axis=1) | (counts == 0).all(), [value(q) for q in grid], -np.inf)
        for tol in (10.0, 0.01):
            found = most_likely(Likelihood.of(make_table(P), pi).with_counts(counts), tol=tol)
            assert at.max() <= found.value + found.gap + 1e-9, seed
            assert found.gap <= tol
        best = minimize(lambda z, value=value: -value(np.exp(z) / np.exp(z).sum()), np.zeros(3), method="BFGS")
        assert -best.fun <= found.value + found.gap + 1e-6


def test_many_rows_and_classes():
    P, _ = rows(10, 60_000)
    pi = P.mean(axis=0)
    table = make_table(P.astype(np.float32))
    start = from_sample(table, pi)
    found = most_likely(Likelihood.of(table, pi), start)
    assert found.gap <= about.TOL and found.n_passes <= 5
    alone = most_likely(Likelihood.of(table, pi), tol=1e-6)
    assert np.abs(found.shares - alone.shares).sum() < 1e-3
    assert np.abs(found.shares - pi).sum() < 0.05
    P, _ = rows(250, 4000, sharp=0.01)
    found = most_likely(Likelihood.of(make_table(P), P.mean(axis=0)))
    assert found.gap <= about.TOL


def test_every_storage_says_the_same(monkeypatch):
    P, _ = rows(4, 500)
    P[P < 0.02] = 0.0
    P /= P.sum(axis=1, keepdims=True)
    weight = np.random.default_rng(0).random(500)
    pi = np.array([0.4, 0.3, 0.2, 0.1])
    wanted = most_likely(Likelihood.of(make_table(P, None, weight), pi), tol=1e-9).shares
    sparse = most_likely(Likelihood.of(make_table(csr_array(P), None, weight), pi), tol=1e-9).shares
    np.testing.assert_allclose(sparse, wanted, atol=1e-6)
    monkeypatch.setattr(about, "CACHED", 0)
    monkeypatch.setattr(about, "ROWS", 64)
    blocks = most_likely(Likelihood.of(make_table(P, None, weight), pi), tol=1e-9).shares
    np.testing.assert_allclose(blocks, wanted, atol=1e-6)
    dask = pytest.importorskip("dask.array")
    parts = make_table(dask.from_array(P, chunks=(120, 4)), None, dask.from_array(weight, chunks=120))
    found = most_likely(Likelihood.of(parts, pi), from_sample(parts, pi), tol=1e-9).shares
    np.testing.assert_allclose(found, wanted, atol=1e-6)


@pytest.mark.parametrize("way", ["dense", "sparse", "counted", "in parts"])
def test_many_classes_take_steps_without_second_derivatives(monkeypatch, way):
    P, _ = rows(6, 400, sharp=0.2)
    P[P < 1e-3] = 0.0
    P /= P.sum(axis=1, keepdims=True)
    pi = np.array([0.5, 0.3, 0.1, 0.05, 0.03, 0.02])
    counts = np.arange(6.0) * (way == "counted")
    given = {"sparse": csr_array(P), "in parts": cut(P, at=(150, 300))}.get(way, P)
    likelihood = Likelihood.of(make_table(given), pi).with_counts(counts)
    wanted = most_likely(likelihood, tol=1e-8)
    monkeypatch.setattr(about, "BY_NEWTON", 2)
    found = most_likely(likelihood, tol=1e-8)
    assert likelihood.at(found.shares, bends=False).bends is None and 0.0 <= found.gap <= 1e-8
    assert found.value == pytest.approx(log_likelihood(P, pi, counts)(found.shares), abs=1e-6)
    assert found.value == pytest.approx(wanted.value, abs=1e-7)
    np.testing.assert_allclose(found.shares, wanted.shares, atol=1e-4)


def test_without_a_maximum_of_the_quadratic_model_a_step_is_one_of_expectation_maximisation(monkeypatch):
    P, _ = rows(3, 150)
    pi = np.array([0.5, 0.3, 0.2])
    likelihood = Likelihood.of(make_table(P), pi)
    wanted = most_likely(likelihood, tol=1e-8)

    def fails(*_, **__):
        raise RuntimeError("Maximum number of iterations reached.")

    monkeypatch.setattr("scipy.optimize.nnls", fails)
    found = most_likely(likelihood, tol=1e-5)
    assert 0.0 <= found.gap <= 1e-5 and found.n_passes > wanted.n_passes
    np.testing.assert_allclose(found.shares, wanted.shares, atol=2e-3)


@pytest.fixture(scope="module")
def tuned():
    """A rule for macro F1, the rows that it was tuned on, and others of the same population."""
    P, y = rows(4, 1600, seed=1)
    return confmax.maximize("macro_f1", P[:800], y[:800]), P[:800], y[:800], P[800:], y[800:]


def test_rows_of_the_same_shares_leave_the_rule_as_it_is(tuned):
    solution, P, y, Q, _ = tuned
    found = solution.adapt(Q, tuned_on=(P, y))
    assert found.rule is solution.rule
    assert found.shift.shrinkage == 0.0 and not found.shift.detected
    assert not confmax.shift.detect(Q, solution).changed
    np.testing.assert_array_equal(found.shift.priors, found.shift.source)


def test_other_shares_are_seen_and_the_rule_adapts(tuned):
    solution, P, y, Q, z = tuned
    q = np.array([0.05, 0.15, 0.3, 0.5])
    new, truth = of_shares(Q, z, q, 1500)
    shift = confmax.shift.estimate_priors(new, solution)
    assert shift.detected and shift.moved()
    assert np.abs(shift.priors - q).sum() < 0.5 * np.abs(shift.source - q).sum()
    detection = confmax.shift.detect(new, solution)
    assert detection.changed and detection.decided.sum() == pytest.approx(1.0)
    before = (solution.predict(new) == truth).mean()
    for adapted in (
        solution.adapt(new, tuned_on=(P, y)),
        solution.adapt(new),
        solution.adapt(priors=q, tuned_on=(P, y)),
    ):
        assert (adapted.predict(new) == truth).mean() > before


def test_intervals_hold_the_shares_of_the_population():
    P, y = rows(3, 4000)
    solution = confmax.maximize("accuracy", P[:1000], y[:1000])
    q = np.array([0.2, 0.2, 0.6])
    held = []
    for seed in range(60):
        new, _ = of_shares(P[1000:], y[1000:], q, 400, seed)
        shift = confmax.shift.estimate_priors(new, solution, tuned_on=(P[:1000], y[:1000]))
        ends = shift.interval(0.9)
        held.append((ends[:, 0] <= q) & (q <= ends[:, 1]))
    assert 0.8 <= np.mean(held) <= 1.0


def test_false_alarms_are_as_rare_as_the_level_says():
    P, y = rows(3, 40_000)
    solution = confmax.maximize("accuracy", P[:2000], y[:2000], calibration=None)
    alarms = [confmax.shift.detect(P[at : at + 400], solution) for at in range(2000, 40_000, 400)]
    assert np.mean([one.p_value < 0.05 for one in alarms]) <= 0.12
    assert np.mean([one.changed for one in alarms]) <= 0.12


def test_labelled_rows_count(tuned):
    solution, _, _, Q, z = tuned
    new, truth = of_shares(Q, z, np.array([0.05, 0.15, 0.3, 0.5]), 300)
    some = [label if k < 150 else (None, -1)[k % 2] for k, label in enumerate(truth)]
    with_labels = confmax.shift.estimate_priors(new, solution, y=some)
    np.testing.assert_array_equal(with_labels.labelled, np.bincount(truth[:150], minlength=4))
    shares = np.bincount(truth, minlength=4) / 300
    without = confmax.shift.estimate_priors(new, solution)
    assert np.abs(with_labels.raw_priors - shares).sum() < np.abs(without.raw_priors - shares).sum()
    # a row counts by its label or by its probabilities, not by both
    assert (with_labels.n_rows, without.n_rows) == (150.0, 300.0)
    assert with_labels.sentence.startswith("the class shares of these 300 rows have moved")
    noise = [[0.25] * 4 if k < 150 else row for k, row in enumerate(new.tolist())]
    again = confmax.shift.estimate_priors(noise, solution, y=some)
    np.testing.assert_allclose(again.raw_priors, with_labels.raw_priors, atol=1e-3)
    some = pd.Series(truth, dtype="Int64").mask(np.arange(300) >= 150)
    names = confmax.shift.estimate_priors(new, solution, y=some)
    np.testing.assert_array_equal(names.labelled, with_labels.labelled)
    with pytest.raises(ValueError, match=r"every row of y has a class.*pass their shares as priors="):
        confmax.shift.estimate_priors(new, solution, y=truth)


def test_as_much_of_a_shift_is_believed_as_is_asked(tuned):
    solution, _, _, Q, z = tuned
    new, _ = of_shares(Q, z, np.array([0.05, 0.15, 0.3, 0.5]), 300)
    for shrink, part in ((None, 1.0), (0.25, 0.25), (np.float32(0.5), 0.5), (0, 0.0)):
        shift = confmax.shift.estimate_priors(new, solution, shrink=shrink)
        assert shift.shrinkage == part
        np.testing.assert_allclose(shift.priors, (1 - part) * shift.source + part * shift.raw_priors)
    for shrink in ("all", 1.5, -0.1, float("nan"), [0.5]):
        with pytest.raises(ValueError, match=r"shrink is 'auto', None, or a part from 0 to 1; got"):
            confmax.shift.estimate_priors(new, solution, shrink=shrink)


def test_an_estimate_is_printed_with_a_line_for_each_class(tuned):
    solution, _, _, Q, z = tuned
    shift = confmax.shift.estimate_priors(of_shares(Q, z, np.array([0.05, 0.15, 0.3, 0.5]), 300)[0], solution)
    said, *lines = str(shift).splitlines()
    assert said == shift.sentence and len(lines) == 4 and repr(shift) == str(shift)
    for k, line in enumerate(lines):
        numbers = re.fullmatch(rf"  {k}: (.*) -> (.*) \(shown (.*), 90% (.*) to (.*)\)", line).groups()
        wanted = [shift.source[k], shift.priors[k], shift.raw_priors[k], *shift.interval()[k]]
        assert [float(number) for number in numbers] == pytest.approx(wanted, rel=0.01)
    doubtful = replace(shift, warnings=("these rows are few",))
    assert str(doubtful) == f"{shift}\nthese rows are few"
    for level in (0.0, 1.0, 90, float("nan")):
        with pytest.raises(ValueError, match=f"level lies between 0 and 1; got {level}"):
            shift.interval(level)


def test_a_detection_is_printed_with_its_shares(tuned):
    with pytest.warns(UserWarning, match="20 rows are few for the shares of 4 classes"):
        found = confmax.shift.detect(tuned[3][:20], tuned[0])
    assert str(found) == repr(found) == f"{found.sentence}\n{found.shares}"


def test_a_rule_that_decides_one_class_alone_has_no_other_decisions():
    P, y = np.array([[0.9, 0.1], [0.7, 0.3]] * 50), np.array([0, 0, 0, 1] * 25)
    solution = confmax.maximize("accuracy", P, y, calibration=None)
    found = confmax.shift.detect(P[::-1], solution)
    assert found.decided.tolist() == [1.0, 0.0]
    assert found.p_values["decisions"] == 1.0 and not found.changed


def test_of_very_many_classes_each_has_an_error_by_itself(monkeypatch, tuned):
    _, P, y, Q, z = tuned
    solution = confmax.maximize("accuracy", P, y, calibration=None)
    new, _ = of_shares(Q, z, np.array([0.05, 0.15, 0.3, 0.5]), 300)
    for module in (about, shares_of_rows):
        monkeypatch.setattr(module, "BY_NEWTON", 2)
    shift = confmax.shift.estimate_priors(new, solution, tuned_on=(P, y))
    assert shift.misfit is None
    R = (new + about.FLOOR) / shift.source
    q = shift.raw_priors
    seen = (R / (R @ q)[:, None]).sum(axis=0)
    np.testing.assert_allclose(shift.stderr, np.sqrt(q / seen * (1 + 300 / len(P))), rtol=1e-6)


def test_tuning_rows_without_a_class_say_less(tuned):
    solution, P, y, Q, _ = tuned
    full = confmax.shift.estimate_priors(Q, solution, tuned_on=(P, y))
    for left in (0, 1):
        some = np.r_[np.flatnonzero(y != 3), np.flatnonzero(y == 3)[:left]]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            shift = confmax.shift.estimate_priors(Q, solution, tuned_on=(P[some], y[some]))
        # with too few rows of a class nothing is tested, and errors are not known to be small
        assert full.misfit is not None and shift.misfit is None
        np.testing.assert_allclose(shift.raw_priors, full.raw_priors)
        assert shift.stderr.max() > full.stderr.max()


def test_two_probabilities_fit_some_shares_whatever_they_are():
    P, y = np.array([[0.9, 0.1], [0.2, 0.8]] * 100), np.array(([0, 1] * 9 + [1, 0]) * 10)
    solution = confmax.maximize("accuracy", P, y, calibration=None)
    shift = confmax.shift.estimate_priors(P[:150], solution, tuned_on=(P, y))
    assert shift.misfit is None and not shift.warnings


# --- known shares -----------------------------------------------------------------------------------------------------


def test_metrics_of_recalls_keep_their_rule():
    P, y = rows(4, 600)
    for metric in ("g_mean", "balanced_accuracy", "min_recall", "h_mean", "q_mean"):
        solution = confmax.maximize(metric, P, y)
        adapted = solution.adapt(priors=[0.1, 0.2, 0.3, 0.4], tuned_on=(P, y))
        assert adapted.rule is solution.rule
        assert solution.rule.shifted([0.1, 0.2, 0.3, 0.4]) is solution.rule


@pytest.mark.parametrize("calibration", [None, "temperature", "vector", "matrix"])
def test_the_rule_for_accuracy_is_exact(calibration):
    P, y = rows(3, 600)
    solution = confmax.maximize(
        "accuracy", P, y, calibration=calibration, confusion="model" if calibration is None else "auto"
    )
    q = np.array([0.1, 0.3, 0.6])
    C = P if calibration is None else np.asarray(solution.calibration.calibrator.transform(P))
    wanted = (C * q / C.mean(axis=0)).argmax(axis=1)
    for rule in (solution.adapt(priors=q).rule, solution.rule.shifted(dict(enumerate(q)))):
        assert (rule.predict(P) == wanted).mean() > 0.995
    again = confmax.DecisionRule.from_json(solution.adapt(priors=q).rule.to_json())
    np.testing.assert_array_equal(again.predict(P), solution.adapt(priors=q).rule.predict(P))
    np.testing.assert_allclose(again.shares.meant, q)


@pytest.mark.parametrize("corrected", [False, True])
def test_a_rule_for_new_shares_is_tuned_on_probabilities_alone(corrected):
    P, y = rows(2, 300)
    rule = confmax.maximize("accuracy", P[:200], y[:200], calibration=None).rule
    new, q = P[200:], np.array([0.8, 0.2])
    upstream = new * q / rule.shares.meant
    upstream /= upstream.sum(axis=1, keepdims=True)
    given = upstream if corrected else new
    found = rule.shifted(q, metric="f1", proba=given, proba_shifted=corrected)
    p = upstream[:, 1]
    expected = [2 * p[p >= cut].sum() / (p.sum() + (p >= cut).sum()) for cut in p]
    np.testing.assert_array_equal(found.predict(given), p >= p[np.argmax(expected)])
    assert (found.metric, found.shares.shifted_to) == ("f1", tuple(q))


def test_rules_that_other_shares_alone_do_not_change_say_what_they_need(tuned, by_groups):
    _, P, y, _, _ = tuned
    for rule, reason in (
        (tuned[0].rule, r"the best rule for macro_f1 depends on the rows; pass proba=.*or use Solution\.adapt"),
        (confmax.maximize("accuracy", P, y, constraints="rate[0] <= 0.2").rule, r"keeps limits.*; use Solution\.adapt"),
        (
            confmax.DecisionRule.from_weights([1.0, 2.0]),
            r"does not know the class shares.*; pass tuned_on=\(proba, y\)",
        ),
        (by_groups.rule, "decides by groups, whose shares may change.*; tune a rule on rows of the new kind"),
    ):
        with pytest.raises(ValueError, match=reason):
            rule.shifted("balanced")


def test_weighted_rows_are_repeated_rows():
    P, y = rows(3, 400, sharp=1.0)
    y[:3] = [0, 1, 2]
    solution = confmax.maximize("macro_f1", P, y, calibration=None, confusion="labels")
    repeated = np.repeat(np.arange(400), np.array([1, 2, 4])[y])
    q = np.bincount(y[repeated], minlength=3) / len(repeated)
    adapted = solution.adapt(priors=q, tuned_on=(P, y))
    ratio = q / P.mean(axis=0)
    again = P * ratio / (P * ratio).sum(axis=1, keepdims=True)
    alone = confmax.maximize("macro_f1", again[repeated], y[repeated], calibration=None, confusion="labels")
    assert adapted.value == pytest.approx(alone.value, abs=0.01)
    counted = f1_score(y, adapted.predict(P), average="macro", sample_weight=np.array([1.0, 2.0, 4.0])[y])
    assert counted == pytest.approx(adapted.value, abs=1e-9)


CALIBRATORS = [
    None,
    Temperature(1.7, floor=1e-3),
    VectorScaling([0.5, 1.2, 2.0], [0.1, -0.3, 0.0], floor=1e-2),
    MatrixScaling([[1.0, 0.2, 0.0], [0.0, 0.8, -0.1], [0.3, 0.0, 1.1]], [0.0, 0.5, -0.5], floor=1e-4),
    VectorScaling([0.5, 1.2, 2.0], [0.1, -0.3, 0.0], kept=1),
]


@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=str)
def test_a_shifted_calibration_multiplies_probabilities_by_ratios(calibrator):
    P, _ = rows(3, 50)
    source, target = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.2, 0.7])
    before = calibrator if calibrator is None else calibrator.keeping(None)
    C = P if before is None else np.asarray(before.transform(P))
    wanted = C * target / source
    wanted /= wanted.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(shifted(calibrator, source, target).transform(P), wanted, atol=1e-9)
    # probabilities that were corrected upstream lead back to the same
    upstream = P * target / source
    upstream /= upstream.sum(axis=1, keepdims=True)
    if before is None or before.floor < 1e-11:  # a floor is added to what is given
        np.testing.assert_allclose(raised(calibrator, source, target).transform(upstream), C, atol=1e-6)


class Squared:
    """A calibration that is not confmax's."""

    def fit(self, proba, y):
        return self

    def transform(self, proba):
        return proba**2 / (proba**2).sum(axis=1, keepdims=True)

    def reordered(self, index):
        return self


def test_other_objects_are_wrapped_and_no_file_holds_them():
    P, _ = rows(3, 400, sharp=1.0)
    right = Squared().transform(P)
    y = (right.cumsum(axis=1) > np.random.default_rng(0).random((400, 1))).argmax(axis=1)
    solution = confmax.maximize("accuracy", P, y, calibration=Squared(), confusion="model")
    assert solution.rule.calibrator is not None
    adapted = solution.adapt(priors=[0.1, 0.3, 0.6])
    C = Squared().transform(P) * np.array([0.1, 0.3, 0.6]) / solution.rule.shares.meant
    assert (adapted.predict(P) == C.argmax(axis=1)).mean() > 0.99
    with pytest.raises(ValueError, match="Reweighted"):
        adapted.rule.to_json()
    upstream = P * np.array([0.1, 0.3, 0.6]) / solution.rule.shares.meant
    upstream /= upstream.sum(axis=1, keepdims=True)
    known = solution.adapt(priors=[0.1, 0.3, 0.6], proba_shifted=True)
    assert (known.predict(upstream) == adapted.predict(P)).mean() > 0.99
    # their classes in another order
    index = [2, 0, 1]
    for rule, given in ((adapted.rule, P), (known.rule, upstream)):
        np.testing.assert_array_equal(rule.reordered(index).predict(given[:, index]), rule.predict(given))
    with pytest.raises(ValueError, match=r"the calibration object has no reordered\(index\)"):
        shifted(object(), pi := np.full(3, 1 / 3), pi).reordered(index)


def test_models_that_were_corrected_upstream(tuned):
    _, P, y, Q, _ = tuned
    q = np.array([0.1, 0.2, 0.3, 0.4])
    for metric in ("macro_f1", "g_mean", "accuracy"):
        solution = confmax.maximize(metric, P, y, calibration=None)
        upstream = Q * q / solution.rule.shares.meant
        upstream /= upstream.sum(axis=1, keepdims=True)
        plain = solution.adapt(priors=q, tuned_on=(P, y)).predict(Q)
        known = solution.adapt(priors=q, tuned_on=(P, y), proba_shifted=True).predict(upstream)
        assert (plain == known).mean() > 0.995
    # their mean probabilities say so
    new, _ = of_shares(P, y, q, 3000)
    corrected = new * q / solution.rule.shares.meant
    corrected /= corrected.sum(axis=1, keepdims=True)
    with pytest.warns(UserWarning, match="pass proba_shifted=True"):
        solution.adapt(corrected, priors=q)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solution.adapt(new, priors=q)


def test_limits_are_kept_under_the_new_shares(tuned):
    _, P, y, Q, z = tuned
    solution = confmax.maximize("accuracy", P, y, constraints=["recall[3] >= 0.6", "rate[0] <= 0.2"])
    q = np.array([0.5, 0.2, 0.2, 0.1])
    adapted = solution.adapt(priors=q, tuned_on=(P, y))
    assert adapted.feasible and adapted.rule.constraints == solution.rule.constraints
    weight = (q / np.bincount(y, minlength=4) * len(y))[y]
    decided = adapted.predict(P)
    assert np.average(decided == 0, weights=weight) <= 0.2 + 1e-6
    new, _ = of_shares(Q, z, q, 2000)
    broken = confmax.shift.detect(new, solution)
    assert [one.text for one in broken.promises] == ["rate[0] <= 0.2"]
    assert broken.promises[0].value == pytest.approx((solution.predict(new) == 0).mean())
    with pytest.raises(ValueError, match=r"limits depend on the rows; pass tuned_on="):
        solution.adapt(priors=q)


def test_a_rule_within_limits_draws_only_if_no_single_rule_keeps_them():
    jobs = pd.read_csv(files("confmax") / "data" / "hpc_cv.csv")[::2]
    P, y = jobs[["VF", "F", "M", "L"]].to_numpy(), jobs["obs"].to_numpy()
    new = {"VF": 0.2, "F": 0.3, "M": 0.2, "L": 0.3}
    given = {"classes": list(new), "constraints": "rate[L] <= 0.1"}
    solution = confmax.maximize("accuracy", P, y, **given)
    adapted = solution.adapt(priors=new, tuned_on=(P, y))
    assert adapted.feasible and not adapted.rule.is_randomized and not solution.rule.is_randomized
    drawn = confmax.maximize("accuracy", P, y, **given, randomized=True).adapt(priors=new, tuned_on=(P, y))
    assert drawn.rule.is_randomized and adapted.value <= drawn.value < adapted.value + 0.01
    # the settings stay open for the next shares
    assert adapted.plan.randomized == "auto"


def test_a_rule_that_has_to_draw_says_so():
    P, y = [[0.9, 0.1]] * 50 + [[0.4, 0.6]] * 50, [0] * 45 + [1] * 5 + [0] * 20 + [1] * 30
    limits = ["rate[1] >= 0.3", "rate[1] <= 0.55"]
    solution = confmax.maximize("accuracy", P, y, constraints=limits, calibration=None)
    with pytest.warns(UserWarning, match="no single rule keeps the limits under the new class shares") as said:
        adapted = solution.adapt(priors=[0.2, 0.8], tuned_on=(P, y))
    assert len(said) == 1 and adapted.feasible and adapted.rule.is_randomized and not solution.rule.is_randomized


# --- files and bad input ----------------------------------------------------------------------------------------------


def test_rule_files_hold_the_shares(tuned, tmp_path):
    rule = tuned[0].rule
    rule.save(tmp_path / "rule.json")
    again = confmax.DecisionRule.load(tmp_path / "rule.json")
    assert again.shares == rule.shares and again == rule
    names = (3, 1, 0, 2)
    assert again.reordered(names).shares.classes == tuple(rule.shares.classes[k] for k in names)
    shift = confmax.shift.estimate_priors(tuned[3][:, names], again.reordered(names))
    np.testing.assert_allclose(shift.raw_priors, confmax.shift.estimate_priors(tuned[3], rule).raw_priors[list(names)])


@pytest.mark.parametrize(
    ("shares", "reason"),
    [
        ({"classes": [0.5, 0.5], "rows": 3.0}, "the classes of its source shares are not 4 numbers"),
        ({"classes": [0.5, 0.5, 0.5, 0.5], "rows": 3.0}, "do not sum to one"),
        ({"classes": [0.5, 0.5, 0.5, -0.5], "rows": 3.0}, "are negative"),
        ({"classes": [0.25] * 4, "rows": 0}, "the number of its tuning rows is positive"),
        ({"classes": [0.25] * 4, "rows": True}, "the rows of its source shares are no number"),
        ({"classes": [0.25] * 4}, "do not hold classes and rows"),
        ({"classes": [0.25] * 4, "rows": 3.0, "more": 1}, "do not hold classes and rows"),
    ],
)
def test_files_with_other_shares_are_refused(tuned, shares, reason):
    import json

    document = json.loads(tuned[0].rule.to_json())
    document["shares"] = shares
    with pytest.raises(ValueError, match=reason):
        confmax.DecisionRule.from_json(json.dumps(document))


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({}, "nothing says what has changed; pass new_proba=.* or priors="),
        ({"priors": [0.5, 0.5, 0.5, 0.5]}, "priors sum to 2, and shares sum to one; divide them by their sum"),
        ({"priors": [50, 20, 20, 10]}, "priors sum to 100, .* divide them by 100, for they are in percent"),
        ({"priors": [1.5, -0.5, 0, 0]}, "the share of 1 in priors is -0.5"),
        ({"priors": {0: 0.5, 1: 0.5}}, "the class 2 has no share"),
        ({"priors": {0: 0.5, 1: 0.5, 2: 0, 3: 0, "x": 0}}, "'x' is none of the classes"),
        ({"priors": "equal"}, "or 'balanced'; got 'equal'"),
        ({"priors": [0.5, 0.5]}, r"priors have shape \(2,\), and the rule has 4 classes"),
        ({"priors": [0.25] * 4}, "the best rule for macro_f1 depends on the rows; pass tuned_on="),
        ({"priors": [0.25] * 4, "tuned_on": [[0.5, 0.5]]}, r"tuned_on is \(proba, y\) or"),
        ({"priors": [0.25] * 4, "tuned_on": ([[0.25] * 4], None)}, r"needs the true classes .*; pass \(proba, y\)"),
        ({"priors": ["many"] * 4}, "priors are numbers, the share of every class"),
        ({"new_proba": [[0.2, 0.8]]}, "4"),
        ({"new_proba": [[0.25] * 4], "proba_shifted": True}, "proba_shifted undoes a known shift; pass priors="),
        ({"new_proba": [[0.25] * 4], "y": [9]}, "row 0 of y has the class 9"),
        ({"new_proba": [[0.25] * 4], "y": [1, 1]}, r"y has shape \(2,\), and there are 1 rows"),
    ],
)
def test_bad_input_gets_one_sentence(tuned, arguments, reason):
    with pytest.raises(ValueError, match=reason):
        tuned[0].adapt(**arguments)


def test_of_two_classes_one_share_is_enough():
    assert shares_from({"yes": 0.25}, ["no", "yes"]).tolist() == [0.75, 0.25]
    assert shares_from({"no": 1.0}, ["no", "yes"]).tolist() == [1.0, 0.0]
    for share, reason in (
        (30, "is 30, and shares lie .* by 100, if it is in percent"),
        (-1, "is -1, and"),
        ("x", "numb"),
    ):
        with pytest.raises(confmax.InputError, match=reason):
            shares_from({"yes": share}, ["no", "yes"])
    with pytest.raises(confmax.InputError, match="the class 'a' has no share"):
        shares_from({"b": 0.5}, ["a", "b", "c"])
    with pytest.raises(confmax.InputError, match="'x' is none of the classes"):
        shares_from({"x": 0.5}, ["a", "b"])


def test_rules_without_shares_say_what_they_need(tuned):
    _, P, y, Q, _ = tuned
    old = confmax.DecisionRule.from_weights([1.0, 1.0, 2.0, 1.0])
    with pytest.raises(ValueError, match=r"does not know the class shares .* pass tuned_on=\(proba, y\)"):
        confmax.shift.detect(Q, old)
    found = confmax.shift.estimate_priors(Q, old, tuned_on=(P, y))
    np.testing.assert_allclose(found.source, P.mean(axis=0))
    with pytest.raises(ValueError, match="source is a solution, a rule for one class per row"):
        confmax.shift.estimate_priors(Q, "rule.json")


def test_few_rows_and_classes_that_look_alike_are_warned_of(tuned):
    with pytest.warns(UserWarning, match=r"rows are few|hardly say") as heard:
        shift = confmax.shift.estimate_priors(tuned[3][:20], tuned[0])
    assert str(heard[0].message) == "20 rows are few for the shares of 4 classes; have at least 50" == shift.warnings[0]
    P = np.full((400, 3), [0.2, 0.3, 0.5]) + np.random.default_rng(0).normal(0, 1e-4, (400, 3))
    P /= P.sum(axis=1, keepdims=True)
    solution = confmax.maximize("accuracy", P, confusion="model")
    with pytest.warns(UserWarning, match="hardly say the shares"):
        confmax.shift.estimate_priors(P, solution)


def test_solutions_are_adapted_in_another_process(tuned):
    _, P, y, _, _ = tuned
    solution = pickle.loads(pickle.dumps(confmax.maximize("macro_f1", P, y, callback=lambda _: False)))
    assert solution.adapt(priors=[0.1, 0.2, 0.3, 0.4], tuned_on=(P, y)).rule.shares.meant.tolist() == [
        0.1,
        0.2,
        0.3,
        0.4,
    ]


def test_shares_of_a_source_are_shares():
    assert SourceShares((0.5, 0.5), 10.0).shifted(np.array([0.25, 0.75])).meant.tolist() == [0.25, 0.75]
    with pytest.raises(ValueError, match="do not sum to one"):
        SourceShares((0.5, 0.4), 10.0)


# --- whether any shares explain the rows ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def jobs():
    """Return a solution, its tuning rows, and rows of a large population with their classes, all calibrated."""
    P, y = rows(4, 20_000)
    return confmax.maximize("accuracy", P[:4000], y[:4000], calibration=None), (P[:4000], y[:4000]), P[4000:], y[4000:]


def test_other_shares_are_no_misfit_and_other_rows_are(jobs):
    solution, tuned_on, Q, z = jobs
    rng = np.random.default_rng(0)
    shares, doubtful = [], []
    for _ in range(20):
        new, _ = of_shares(Q, z, rng.dirichlet(np.ones(4)) * 0.9 + 0.025, 500)
        shares.append(confmax.shift.estimate_priors(new, solution, tuned_on=tuned_on).misfit)
        weight = (1.0 - Q.max(axis=1)) ** 2
        other = Q[rng.choice(len(Q), 1000, p=weight / weight.sum())]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            doubtful.append(confmax.shift.estimate_priors(other, solution, tuned_on=tuned_on).misfit)
    assert np.mean(np.array(shares) < 0.05) <= 0.15
    assert np.mean(np.array(doubtful) < 0.01) >= 0.9
    with pytest.warns(UserWarning, match="these rows do not look like the tuning rows with other class shares"):
        solution.adapt(other, tuned_on=tuned_on)
    found = confmax.shift.detect(other, solution, tuned_on=tuned_on)
    assert "rows of a class look otherwise than those of the tuning, so that the class shares may be" in found.sentence
    assert "rows of a class" not in confmax.shift.detect(other, solution).p_values


def test_rows_are_unlike_at_the_level_of_the_warning_and_no_p_value_stands_beside_its_adjusted_form(jobs):
    solution, tuned_on, Q, z = jobs
    new, _ = of_shares(Q, z, [0.1, 0.2, 0.3, 0.4], 500)
    plain = confmax.shift.detect(new, solution, tuned_on=tuned_on)
    for p_value, unlike in ((0.021, False), (0.0101, False), (0.0099, True)):
        found = replace(plain, shares=replace(plain.shares, misfit=p_value))
        assert ("rows of a class" in found.sentence) == unlike == (p_value < UNLIKE)
        assert found.changed and "the class shares of these 500 rows have moved: " in found.sentence
        assert "p = " not in found.sentence and "(p = " in found.shares.sentence
    # all tests together keep the level: a fifth of it is for this one
    assert found.p_values["class shares"] == pytest.approx(2 * found.shares.p_value / 0.8, rel=1e-6)
    assert "rows of a class" not in replace(found, level=0.04).sentence


def test_without_the_tuning_rows_it_is_not_tested(jobs):
    solution, _, Q, _ = jobs
    assert confmax.shift.estimate_priors(Q[:500], solution).misfit is None


def test_the_misfit_counts_weights_as_repeated_rows(jobs):
    solution, (P, y), Q, _ = jobs
    weight = np.random.default_rng(1).integers(1, 4, 600)
    weighted = confmax.shift.estimate_priors(Q[:600], solution, sample_weight=weight, tuned_on=(P, y)).misfit
    assert 0.0 < weighted < 1.0
    twice = confmax.shift.estimate_priors(Q[:600], solution, sample_weight=2 * weight, tuned_on=(P, y)).misfit
    assert weighted == pytest.approx(twice)


@pytest.mark.parametrize(("K", "n"), [(2, 1), (3, 3), (3, 20), (8, 30)])
def test_few_rows_of_the_same_population_are_seldom_a_misfit(K, n):
    P, y = rows(K, 4000)
    solution = confmax.maximize("accuracy", P[:1000], y[:1000], calibration=None)
    held = source_of(solution, (P[:1000], y[:1000]))
    found = [misfit(held.table(P[at : at + n]), held, held.shares.meant) for at in range(1000, 4000, 3000 // 60)]
    assert np.mean([p is not None and p < 0.05 for p in found]) <= 0.15


# --- rules that decide by groups --------------------------------------------------------------------------------------


OF_GROUPS = (
    "difference(rate[1] | group) <= 0.05",
    "ratio(rate[1] | group) >= 0.7",
    "max(rate[1] | group) <= 0.4",
    "rate[1 | w] <= rate[1 | m] + 0.1",
    "rate[1] <= 0.5",
    "min(recall[1] | group) >= 0.3",
)


def rows_of_groups(n, seed, gap=0.0):
    draw = np.random.default_rng(seed)
    group = np.where(draw.random(n) < 0.4, "w", "m")
    p = 1.0 / (1.0 + np.exp(-draw.normal(-1.0 + gap * (group == "w"), 2.0, n)))
    return np.c_[1.0 - p, p], (draw.random(n) < p).astype(int), group


@pytest.fixture(scope="module")
def by_groups():
    P, y, group = rows_of_groups(3000, 0)
    return confmax.maximize("accuracy", P, y, group=group, constraints=list(OF_GROUPS), calibration=None)


def test_limits_of_groups_are_checked_without_labels(by_groups):
    P, _, group = rows_of_groups(1500, 5, gap=2.0)
    found = confmax.shift.detect(P, by_groups, group=group)
    decided = by_groups.rule.predict(P, group=group) == 1
    np.testing.assert_allclose(found.decided, [1.0 - decided.mean(), decided.mean()])
    m, w = (decided[group == name].mean() for name in "mw")
    values = dict(zip(OF_GROUPS, [abs(m - w), min(m, w) / max(m, w), max(m, w), w - m, decided.mean()], strict=False))
    assert {one.text: one.value for one in found.promises} == pytest.approx(values)
    assert all(low <= value <= high for _, value, (low, high), _ in found.promises)
    broken = {one.text for one in found.promises if found.p_values[one.text] < 0.05}
    assert broken == set(OF_GROUPS[:4]) and found.changed
    # weights count as repeated rows, and a group may be absent
    twice = confmax.shift.detect(
        np.r_[P, P], by_groups, group=np.r_[group, group], sample_weight=np.repeat([1.0, 0.0], 1500)
    )
    assert {one.text: one.value for one in twice.promises} == pytest.approx(values)
    alone = confmax.shift.detect(P[group == "w"], by_groups, group=group[group == "w"])
    assert [one.text for one in alone.promises] == [OF_GROUPS[4], OF_GROUPS[2]]


def test_false_alarms_of_rules_of_groups_are_rare(by_groups):
    tables = [rows_of_groups(800, 100 + k) for k in range(60)]
    assert sum(confmax.shift.detect(P, by_groups, group=group).changed for P, _, group in tables) <= 6


def test_groups_of_new_rows_are_known(by_groups):
    P, y, group = rows_of_groups(200, 7)
    for given, sentence in (({}, "pass `?group"), ({"group": group == "w"}, "does not know; its groups are 'm', 'w'")):
        with pytest.raises(ValueError, match=sentence):
            confmax.shift.detect(P, by_groups, **given)
    with pytest.raises(ValueError, match=r"decides all groups alike.*leave `?group"):
        confmax.shift.detect(P, confmax.maximize("accuracy", P, y), group=group)
    with pytest.raises(ValueError, match=r"decide by groups are checked on rows in memory; pass arrays of a sample"):
        confmax.shift.detect(cut(P, at=(100,)), by_groups, group=group)
    with pytest.raises(ValueError, match=r"which rows are of which group is not known; check a rule .* with group="):
        confmax.shift.detect(P, replace(by_groups.rule, groups_known=False))
    with pytest.raises(ValueError, match="decides by groups, whose shares may change"):
        by_groups.adapt(P)
