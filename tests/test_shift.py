"""Class shares of unlabelled rows: what they say, what adapts to them, and what stays when nothing has changed."""

import pickle
import re
import warnings
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import f1_score

import confmax
from confmax.calibration.calibrators import MatrixScaling, Temperature, VectorScaling
from confmax.calibration.shifted import raised, shifted
from confmax.rule.shares import SourceShares
from confmax.rule.shifted import shares_from
from confmax.shift import likelihood as about
from confmax.shift import priors as shares_of_rows
from tests.shift_helpers import of_shares, rows


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


def test_rules_that_other_shares_alone_do_not_change_say_what_they_need(tuned):
    _, P, y, _, _ = tuned
    for rule, reason in (
        (tuned[0].rule, r"the best rule for macro_f1 depends on the rows; pass proba=.*or use Solution\.adapt"),
        (confmax.maximize("accuracy", P, y, constraints="rate[0] <= 0.2").rule, r"keeps limits.*; use Solution\.adapt"),
        (
            confmax.DecisionRule.from_weights([1.0, 2.0]),
            r"does not know the class shares.*; pass tuned_on=\(proba, y\)",
        ),
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
