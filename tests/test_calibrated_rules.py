"""Calibration in rules, their files, `maximize`, the estimators and the command line."""

import json

import numpy as np
import pytest
from scipy.special import softmax

import confmax
from confmax import DecisionRule, metrics
from confmax.calibration import MatrixScaling, Temperature, VectorScaling
from confmax.confusion import Gains
from confmax.oracle import make_oracle, make_table
from confmax.tables.memory import calibrating_once
from tests.helpers import labels_drawn

RNG = np.random.default_rng(0)
P = RNG.dirichlet([1, 1, 1], 500)
Y = RNG.integers(0, 3, 500)
VECTOR = VectorScaling([0.5, 1.0, 2.0], [0.3, -0.5, 0.2], 1e-4)
MATRIX = MatrixScaling([[1.2, 0.1, -0.3], [0.0, 0.8, 0.2], [-0.1, 0.0, 1.5]], [0.3, -0.5, 0.2], 1e-4)
BESIDE = MatrixScaling(MATRIX.W, MATRIX.b, MATRIX.floor, kept=1)
CALIBRATORS = [Temperature(1.7), VECTOR, MATRIX, VectorScaling(VECTOR.a, VECTOR.b, kept=2), BESIDE]
MIXTURE = Gains.reduced([[1, 1, 1], [1, 4, 1]], [[0, 0, 0], [0, 0, 0.3]])


class Power:
    """Squares the probabilities."""

    def fit(self, proba, y):
        pass

    def transform(self, proba):
        return proba**2 / (proba**2).sum(axis=1, keepdims=True)


def mixture(calibrator, names=("a", "b", "c")):
    return DecisionRule(MIXTURE, np.array([0.25, 0.75]), names, "g_mean", 3, calibrator)


def tilted(n=3000, seed=0):
    """Return probabilities whose calibration needs a tilt, with labels."""
    rng = np.random.default_rng(seed)
    Q = rng.dirichlet([3, 1, 0.5], n)
    y = (rng.random(n)[:, None] > np.cumsum(Q, 1)).sum(1).clip(0, 2)
    return VectorScaling([2.0, 0.6, 1.2], [1.0, -1.0, 0.0]).transform(Q), y


# --- the rule ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("calibrator", [*CALIBRATORS, Power()])
def test_a_rule_calibrates_first(calibrator):
    rule, plain = mixture(calibrator), mixture(None)
    Q = calibrator.transform(P)
    np.testing.assert_array_equal(rule.decision_probabilities(P), plain.decision_probabilities(Q))
    keys = np.arange(500)
    np.testing.assert_array_equal(rule.predict(P, keys=keys), plain.predict(Q, keys=keys))
    single = DecisionRule(MIXTURE[1], np.ones(1), ("a", "b", "c"), calibrator=calibrator)
    np.testing.assert_array_equal(single.predict_index(P), (Q * [1, 4, 1] + [0, 0, 0.3]).argmax(1))
    np.testing.assert_array_equal(rule.predict(P[::-1]), rule.predict(P)[::-1])


def test_draws_come_from_the_raw_probabilities():
    """Rows that a calibration makes equal keep draws of their own."""

    class Flat(Power):
        def transform(self, proba):
            return np.full(proba.shape, 1 / 3)

    gains = Gains.constant(3, [0, 1])
    rule = DecisionRule(gains, np.array([0.5, 0.5]), (0, 1, 2), calibrator=Flat())
    plain = DecisionRule(gains, np.array([0.5, 0.5]), (0, 1, 2))
    np.testing.assert_array_equal(rule.predict(P), plain.predict(P))
    assert set(rule.predict(P)) == {0, 1}


@pytest.mark.parametrize(("mode", "matrix"), [("labels", True), ("model", False)])
@pytest.mark.parametrize("own", [None, *CALIBRATORS])
@pytest.mark.parametrize("other", [None, *CALIBRATORS])
def test_evaluate_takes_raw_and_calibrated_tables(own, other, mode, matrix):
    """Decisions are those of `predict` on raw rows, whatever the table; checked by the definition."""
    w = RNG.random(500)
    table = make_table(P, Y, w).calibrated(other)
    rule = mixture(own)
    found = rule.evaluate(make_oracle(table, mode), matrix=matrix)
    believed = P if (other or own) is None else (other or own).transform(P)
    truth = np.eye(3)[Y] if mode == "labels" else believed
    C = (truth * (w / w.sum())[:, None]).T @ rule.decision_probabilities(P)
    np.testing.assert_allclose(found.diagonal, np.diag(C), atol=1e-12)
    np.testing.assert_allclose(found.columns, C.sum(0), atol=1e-12)
    np.testing.assert_allclose(found.rows, C.sum(1), atol=1e-12)
    if matrix:
        np.testing.assert_allclose(found.matrix, C, atol=1e-12)


@pytest.mark.parametrize("calibrator", CALIBRATORS)
def test_reordered(calibrator):
    rule, order = mixture(calibrator), [2, 0, 1]
    other = rule.reordered(["c", "a", "b"])
    np.testing.assert_allclose(
        other.decision_probabilities(P[:, order]), rule.decision_probabilities(P)[:, order], atol=1e-15
    )
    assert rule.reordered(["a", "b", "c"]) == rule


def test_an_object_is_reordered_by_itself_or_not():
    rule = mixture(Power())
    assert rule.reordered(["a", "b", "c"]).calibrator is rule.calibrator
    with pytest.raises(ValueError, match=r"the calibration Power of this rule has no reordered\(index\); pass the"):
        rule.reordered(["c", "a", "b"])


def test_a_calibration_for_other_classes_is_refused():
    with pytest.raises(ValueError, match="the rule is for 3 classes and its calibration for 2"):
        mixture(VectorScaling([1, 1], [0, 0]))


# --- the file ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("calibrator", [None, *CALIBRATORS, Temperature(1 / 3)])
def test_round_trip(calibrator, tmp_path):
    rule = mixture(calibrator)
    rule.save(tmp_path / "rule.json")
    again = DecisionRule.load(tmp_path / "rule.json")
    assert again == rule
    assert again.calibrator == calibrator
    np.testing.assert_array_equal(again.predict(P), rule.predict(P))
    assert ("calibration" in json.loads(rule.to_json())) == (calibrator is not None)


def test_an_object_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="no objects such as the calibration Power; tune with calibration='auto', or"):
        mixture(Power()).save(tmp_path / "rule.json")
    assert list(tmp_path.iterdir()) == []


VALID = {"kind": "vector", "a": [1, 1, 1], "b": [0, 0, 0], "floor": 1e-12}
BY_MATRIX = {"kind": "matrix", "W": [[1, 0, 0], [0, 1, 0], [0, 0, 1]], "b": [0, 0, 0], "floor": 1e-12}


@pytest.mark.parametrize(
    ("calibration", "reason"),
    [
        (None, "not of the kind temperature with"),
        ({"kind": "temperature"}, "not of the kind"),
        ({"kind": ["vector"], "a": [1], "b": [1]}, "not of the kind"),
        ({"kind": "temperature", "temperature": 2, "a": 1, "floor": 1e-6}, "not of the kind"),
        ({"kind": "temperature", "temperature": "2", "floor": 1e-6}, "not a number"),
        ({"kind": "temperature", "temperature": True, "floor": 1e-6}, "not a number"),
        ({"kind": "temperature", "temperature": 0, "floor": 1e-6}, "temperature must lie between 1e-06 and 1e"),
        ({"kind": "temperature", "temperature": 10**400, "floor": 1e-6}, "too large"),
        ({**VALID, "a": [1, 1]}, "a of its calibration is not a list of 3 numbers"),
        ({**VALID, "b": [0, 0, 1e7]}, "with numbers of at most 1e"),
        ({**VALID, "floor": 0}, "the floor of a calibration must lie between 1e-12 and 1; got 0"),
        ({**VALID, "floor": "x"}, "floor holds something that is not a number"),
        ({**VALID, "kind": "matrix"}, "not of the kind"),
        ({**BY_MATRIX, "W": [[1, 0, 0], [0, 1, 0]]}, "W of its calibration is not a list of 3 rows"),
        ({**BY_MATRIX, "W": [[1, 0, 0], [0, 1, 0], [0, 1]]}, "W of its calibration is not a list of 3 numbers"),
        ({**BY_MATRIX, "W": [[1, 0, 0], [0, 1, 0], [0, 0, 1e7]]}, "matrix scaling needs W of shape"),
        ({**BY_MATRIX, "W": "I"}, "W of its calibration is not a list of 3 rows"),
        ({**BY_MATRIX, "kept": True}, "kept of its calibration is not a column from 0 to 2"),
        ({**VALID, "kept": "a"}, "kept of its calibration is not a column from 0 to 2"),
        ({"kind": "temperature", "temperature": 2, "floor": 1e-6, "kept": 0}, "not of the kind"),
    ],
)
def test_files_with_another_calibration_are_refused(calibration, reason, tmp_path):
    document = json.loads(mixture(VECTOR).to_json())
    document["calibration"] = calibration
    (tmp_path / "bad.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match=f"bad.json is not a rule that can be used: .*{reason}"):
        DecisionRule.load(tmp_path / "bad.json")


@pytest.mark.parametrize("seed", range(3))
def test_margins_say_whether_a_class_can_lose_by_its_own_probability(seed):
    rng = np.random.default_rng(seed)
    powers = np.diag(rng.uniform(0.1, 1.5, 3)) + rng.normal(0.0, 0.08, (3, 3))
    calibrator = MatrixScaling(powers, rng.normal(size=3))
    start = rng.dirichlet(np.full(3, 0.2), 4000) + 1e-9
    falls = False
    for k in range(3):
        # the others keep their proportions
        grown = start * (1.0 - 0.01 / (1.0 + start[:, [k]]))
        grown[:, k] = start[:, k] + (start.sum(axis=1) - start[:, k]) - (grown.sum(axis=1) - grown[:, k])
        before, after = (calibrator.transform(rows / rows.sum(axis=1, keepdims=True)) for rows in (start, grown))
        falls |= bool((after[:, k] < before[:, k] * (1 - 1e-12)).any())
    assert falls != calibrator.is_monotone


# --- maximize ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["labels", "model"])
def test_the_rule_of_a_solution_is_the_truth(mode):
    proba, y = tilted()
    solution = confmax.maximize("macro_f1", proba, y, confusion=mode)
    found = solution.calibration
    assert found.kind == "vector"
    assert solution.rule.calibrator is found.calibrator
    assert found.cv_log_loss_after < found.cv_log_loss_before
    assert f"  {found}" in repr(solution).splitlines()
    truth = np.eye(3)[y] if mode == "labels" else found.calibrator.transform(proba)
    C = truth.T @ np.eye(3)[solution.rule.predict(proba)] / len(y)
    np.testing.assert_allclose(solution.confusion, C, atol=1e-12)
    assert solution.value == pytest.approx(metrics.get("macro_f1").value(C), abs=1e-12)
    on_labels = metrics.get("macro_f1").value(np.eye(3)[y].T @ np.eye(3)[solution.rule.predict(proba)] / len(y))
    assert solution.label_value == pytest.approx(on_labels, abs=1e-12)


@pytest.mark.filterwarnings("ignore:of the rows")
def test_a_plain_rule_that_is_better_is_returned_without_calibration():
    """A calibration that destroys the order of the rows leaves nothing to find; raw argmax is perfect."""
    y = np.arange(300) % 3
    proba = 0.7 * np.eye(3)[y] + 0.1
    flat = VectorScaling([1e-5, 1e-5, 1e-5], [0.0, 0.0, 0.0])
    noisy = confmax.maximize("macro_f1", proba, y, calibration=flat, confusion="labels")
    assert noisy.value == 1.0  # the order is kept, faintly

    class Same(Power):
        def transform(self, proba):
            return np.full(proba.shape, 1 / 3)

    solution = confmax.maximize("macro_f1", proba, y, calibration=Same(), confusion="labels")
    assert solution.rule.calibrator is None
    assert solution.value == solution.label_value == solution.baselines["argmax"] == 1.0
    np.testing.assert_array_equal(solution.rule.predict(proba), y)
    assert solution.randomization_loss == 0.0
    assert DecisionRule.from_json(solution.rule.to_json()) == solution.rule
    model = confmax.maximize("g_mean", proba, y, calibration=Same(), confusion="model", randomized=True)
    assert model.gap >= 0


def test_what_needs_labels():
    assert confmax.maximize("accuracy", P).calibration is None
    with pytest.warns(UserWarning, match="the log loss of the probabilities is"):  # which calibration would repair
        assert confmax.maximize("accuracy", P, Y, calibration=None).calibration is None
    with pytest.raises(ValueError, match="calibration='temperature' is fitted on labels, but there are none; pass y"):
        confmax.maximize("accuracy", P, calibration="temperature")
    fixed = confmax.maximize("accuracy", P, calibration=Temperature(2.0))
    assert fixed.rule.calibrator == Temperature(2.0)
    with pytest.raises(ValueError, match="for 3 classes, but proba has 2"):
        confmax.maximize("accuracy", P[:, :2] / P[:, :2].sum(1, keepdims=True), calibration=VECTOR)


def test_the_command_line(tmp_path):
    pytest.importorskip("click")
    from tests.cli_helpers import document, run

    proba, y = tilted(1500)
    lines = ["a,b,c,y", *(",".join([*(f"{v:.8f}" for v in row), "abc"[k]]) for row, k in zip(proba, y, strict=True))]
    table, rule = tmp_path / "t.csv", tmp_path / "r.json"
    table.write_text("\n".join(lines) + "\n")
    common = ("tune", table, "--label", "y", "--metric", "macro_f1", "-o", rule)
    told = document(*common)["calibration"]
    assert told["kind"] == "vector"
    assert told["log_loss_after"] < told["cv_log_loss_after"] < told["cv_log_loss_before"]
    stdout, _ = run(*common)
    assert "calibration  vector: log loss" in stdout
    assert DecisionRule.load(rule).calibrator is not None
    assert document(*common, "--calibration", "none")["calibration"] is None
    _, told = run(
        "tune", table, "--metric", "macro_f1", "--columns", "a,b,c", "--calibration", "vector", "-o", rule, code=2
    )
    assert "--calibration vector needs --label" in told


@pytest.mark.parametrize("mode", ["labels", "model"])
@pytest.mark.parametrize("name", ["accuracy", "macro_f1", "g_mean", "min_recall", "cohen_kappa", "q_mean"])
def test_never_below_the_plain_rules_on_raw_probabilities(name, mode):
    proba, y = tilted(400)
    bad = VectorScaling([0.1, 3.0, 0.5], [2.0, -2.0, 0.0])
    prior = np.bincount(y) / len(y)
    metric = metrics.get(name)
    for calibration in ("auto", bad):
        solution = confmax.maximize(name, proba, y, confusion=mode, calibration=calibration)
        truth = np.eye(3)[y] if mode == "labels" else solution.calibration.calibrator.transform(proba)
        for key, scores in (("argmax", proba), ("p/prior", proba / prior), ("p/mean(p)", proba / proba.mean(0))):
            value = metric.value(truth.T @ np.eye(3)[scores.argmax(1)] / len(y))
            assert solution.baselines[key] == pytest.approx(value, abs=1e-12)
            assert solution.value >= value - 1e-12


def test_tables_are_calibrated_from_the_raw_rows():
    table = make_table(P, Y)
    twice = table.calibrated(VECTOR).calibrated(Temperature(2.0))
    np.testing.assert_array_equal(twice.head.proba, Temperature(2.0).transform(P))
    assert twice.head.raw is table.head
    assert twice.calibrated(None).head is table.head


def test_all_rows_are_calibrated_once(monkeypatch):
    """For the choice, the search, the class shares and the warnings; afterwards no rows are kept."""
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.ones(3), 3000)
    y = labels_drawn(softmax(2 * np.log(rows) + [0.5, 0, -0.5], axis=1), rng)
    read = []
    scaled = VectorScaling.transform
    monkeypatch.setattr(VectorScaling, "transform", lambda self, proba: read.append(len(proba)) or scaled(self, proba))
    found = confmax.maximize("macro_f1", rows, y, calibration="vector")
    assert found.calibration.kind == "vector" and read.count(3000) == 1
    table = make_table(rows, y)
    with calibrating_once(table):
        one, again = (table.calibrated(found.rule.calibrator) for _ in range(2))
        assert one.head.proba is again.head.proba and one.head.raw is table.head
    assert table.calibrated(found.rule.calibrator).head.proba is not one.head.proba
