"""Tables in parts: the same answer as one table in memory, whatever the parts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import confmax
from confmax.confusion import Gains
from confmax.optimize import CoordinateSearch, ThresholdSearch
from confmax.oracle import make_oracle, make_table
from confmax.tables.memory import TransferredDecisions
from confmax.tables.partitioned import table as _parts
from confmax.tables.partitioned.parts import together
from tests.helpers import assert_same_statistics
from tests.parts_helpers import cut, labelled

CUTS = {
    "one part": (),
    "two": (700,),
    "many with empty ones": (0, 0, 1, 2, 400, 400, 1999, 2000, 2000),
    "every hundred": tuple(range(100, 2000, 100)),
}
GAINS = {
    "weights": lambda K, rng: Gains.reduced(rng.random((2, K)) + 0.5),
    "offsets": lambda K, rng: Gains.reduced(rng.random((3, K)), 0.2 * rng.random((3, K))),
    "full": lambda K, rng: Gains.from_matrix(rng.normal(size=(2, K, K + 1))),
    "distance": lambda K, rng: Gains.reduced(-rng.random((1, K)), power=2),
}


@pytest.mark.parametrize("kind", GAINS)
@pytest.mark.parametrize("at", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize(("mode", "share"), [("model", None), ("labels", None), ("blend", 0.3)])
@pytest.mark.parametrize("weighted", [False, True])
def test_statistics_are_those_of_one_table(kind, at, mode, share, weighted):
    P, y, w = labelled(2000, 5)
    w = w if weighted else None
    gains = GAINS[kind](5, np.random.default_rng(1))
    whole = make_oracle(make_table(P, y, w), mode, model_share=share).maximize(gains, matrix=True)
    found = make_oracle(make_table(cut(P, y, w, at=at)), mode, model_share=share).maximize(gains, matrix=True)
    assert_same_statistics(found, whole)


@pytest.mark.parametrize("metric", ["g_mean", "macro_f1", "cohen_kappa", "min_recall", "quadratic_kappa"])
@pytest.mark.parametrize(
    "settings", [{}, {"calibration": None, "confusion": "model"}, {"confusion": "labels"}, {"calibration": "vector"}]
)
def test_small_tables_are_solved_as_in_memory(metric, settings):
    """The sample is the whole table then: calibration, starts and steps are the same."""
    P, y, w = labelled(2000, 5, sharp=0.6)
    whole = confmax.maximize(metric, P, y, sample_weight=w, **settings)
    found = confmax.maximize(metric, cut(P, y, w, at=CUTS["many with empty ones"]), **settings)
    if metric == "min_recall" and found.mode != "model":
        # a search of single weights needs all rows, so another path leads to another rule
        assert found.value == pytest.approx(whole.value, abs=0.02)
        return
    assert found.value == pytest.approx(whole.value, abs=1e-9)
    assert found.baselines == pytest.approx(whole.baselines, abs=1e-12)
    assert found.label_value == pytest.approx(whole.label_value, abs=1e-9)
    assert str(found.calibration) == str(whole.calibration)
    np.testing.assert_allclose(found.confusion, whole.confusion, atol=1e-9)
    np.testing.assert_array_equal(found.rule.predict(P), whole.rule.predict(P))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.integers(-1, 20))
def test_neighbours_are_together_up_to_a_size(sizes, most):
    places = together(sizes, most)
    assert [each for place in places for each in sizes[place]] == sizes
    sums = [sum(sizes[place]) for place in places]
    assert all(rows <= most or place.stop - place.start == 1 for place, rows in zip(places, sums, strict=True))
    assert all(rows + sizes[place.stop] > most for place, rows in zip(places[:-1], sums[:-1], strict=True))


@pytest.fixture
def small_samples(monkeypatch):
    """As if a sample were a small part of a large table."""
    monkeypatch.setattr(_parts, "SAMPLE_CELLS", 4000)
    monkeypatch.setattr(_parts, "SAMPLE_CELLS_UNLABELLED", 4000)
    monkeypatch.setattr(_parts, "SAMPLE_ROWS", 100)
    monkeypatch.setattr(_parts, "ROWS_PER_CLASS", 10)


@pytest.mark.usefixtures("small_samples")
@pytest.mark.parametrize("metric", ["g_mean", "h_mean", "cohen_kappa", "micro_f1"])
def test_certificates_hold_where_the_sample_is_small(metric):
    P, _, w = labelled(30_000, 4)
    whole = confmax.maximize(metric, P, sample_weight=w, randomized=True)
    found = confmax.maximize(metric, cut(P, None, w, at=(5000, 5000, 21_000)), randomized=True)
    table = make_table(cut(P, None, w, at=(77,)))
    assert 700 < table.sample.n_rows < 1300
    assert found.gap <= 1e-6
    assert abs(found.value - whole.value) <= 2e-6
    assert found.upper_bound >= whole.value - 1e-12


@pytest.mark.usefixtures("small_samples")
def test_samples_depend_on_content_not_on_parts():
    P, y, w = labelled(20_000, 4, dtype=np.float32)
    tables = [
        make_table(cut(P, y, w, at=at)) for at in ((), (1,), (5000, 5000, 12_345), tuple(range(1000, 20_000, 777)))
    ]
    order = np.random.default_rng(0).permutation(len(P))
    tables.append(make_table(cut(P[order], y[order], w[order], at=(3333,))))
    first = tables[0].sample
    for table in tables[1:]:
        np.testing.assert_array_equal(table.sample.proba, first.proba)
        np.testing.assert_array_equal(table.sample.labels, first.labels)
        np.testing.assert_array_equal(table.sample.weight, first.weight)


@pytest.mark.usefixtures("small_samples")
def test_the_same_parts_give_the_same_bytes_and_any_parts_nearly_the_same_rule():
    P, y, _ = labelled(20_000, 4, sharp=0.7)
    rules = [confmax.maximize("macro_f1", cut(P, y, at=at)).rule for at in ((9000,), (9000,), (4, 5, 19_000))]
    assert rules[0].to_json() == rules[1].to_json()
    assert (rules[0].predict(P) == rules[2].predict(P)).mean() > 0.999


@pytest.mark.usefixtures("small_samples")
def test_a_calibration_from_a_sample_is_near_that_of_all_rows():
    P, y, _ = labelled(40_000, 4, sharp=0.5)
    whole = confmax.maximize("g_mean", P, y, calibration="temperature")
    found = confmax.maximize("g_mean", cut(P, y, at=(1000,)), calibration="temperature")
    one, other = whole.calibration.calibrator.temperature, found.calibration.calibrator.temperature
    assert other == pytest.approx(one, rel=0.25)
    assert other != one
    assert found.label_value == pytest.approx(whole.label_value, abs=0.01)
    # every number of the solution is of all rows
    on_labels = found.rule.evaluate(make_oracle(make_table(P, y), "labels"))
    assert found.label_value == pytest.approx(float(found.metric.values(on_labels)), abs=1e-12)


@pytest.mark.parametrize(
    "scale",
    [
        confmax.calibration.Temperature(0.5),
        confmax.calibration.MatrixScaling(np.eye(4) + np.diag([0.2] * 3, 1), np.zeros(4)),
    ],
    ids=str,
)
def test_decisions_on_other_probabilities_of_the_same_rows(scale):
    P, y, w = labelled(3000, 4, sharp=0.5)
    gains = Gains.reduced(np.random.default_rng(0).random((2, 4)))
    answers = []
    for table in (make_table(P, y, w), make_table(cut(P, y, w, at=(10, 2000)))):
        truth = make_oracle(table.calibrated(scale), "blend", model_share=0.4)
        answers.append(TransferredDecisions(table, truth).maximize(gains, matrix=True))
    np.testing.assert_allclose(answers[0].matrix, answers[1].matrix, rtol=1e-12, atol=1e-15)


def test_two_classes_and_rare_ones():
    """A threshold is searched on the rows at hand, here all; a class may be missing from most parts."""
    P, y, w = labelled(4000, 2, sharp=0.6)
    for metric in ("f1", "g_mean", "mcc", "cohen_kappa"):
        for mode in ("model", "labels", "blend"):
            found = confmax.maximize(metric, cut(P, y, w, at=(1500,)), confusion=mode)
            whole = confmax.maximize(metric, P, y, sample_weight=w, confusion=mode)
            assert found.value == pytest.approx(whole.value, abs=2e-6), (metric, mode)
    y = np.where(y == 1, "yes", "no")
    y[:3990] = "no"
    found = confmax.maximize("balanced_accuracy", cut(P, y, at=(1000, 2000, 3995)), classes=["no", "yes"])
    assert found.rule.classes.tolist() == ["no", "yes"]


def test_columns_follow_their_names():
    P, y, _ = labelled(1000, 3)
    names = np.array(["b", "c", "a"])
    found = confmax.maximize("macro_f1", cut(P, names[y], at=(500,), names=("b", "c", "a")))
    assert found.rule.classes.tolist() == ["b", "c", "a"]
    found = confmax.maximize("macro_f1", cut(P, names[y], at=(500,), names=("b", "c", "a")), classes=["a", "b", "c"])
    whole = confmax.maximize("macro_f1", P[:, [2, 0, 1]], names[y], classes=["a", "b", "c"])
    assert found.value == pytest.approx(whole.value, abs=1e-9)


def test_rows_that_nearly_sum_to_one_are_divided_by_their_sums():
    P, y, _ = labelled(1000, 3)
    off = P * (1 + 5e-4 * np.random.default_rng(0).standard_normal((1000, 1)).clip(-1, 1))
    found, whole = confmax.maximize("g_mean", cut(off, y, at=(300,))), confmax.maximize("g_mean", off, y)
    assert found.value == pytest.approx(whole.value, abs=1e-12)


# --- what is refused --------------------------------------------------------------------------------------------------


def broken(row, **what):
    P, y, w = labelled(1000, 3)
    if "p" in what:
        P[row] = what["p"]
    y = y.astype(object)
    y[row] = what.get("y", y[row])
    w[row] = what.get("w", w[row])
    return cut(P, y, w, at=(200, 200, 600))


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ({"p": [0.5, np.nan, 0.5]}, "part 3: row 17, column 1 of proba is not a finite number"),
        ({"p": [1.5, -0.5, 0.0]}, "part 3: row 17, column 1 of proba is negative"),
        ({"p": [0.5, 0.2, 0.2]}, "part 3: row 17 of proba sums to 0.9"),
        ({"y": None}, "part 3: row 17 of y has no label"),
        ({"y": 7}, "part 3: row 17 of y holds the label 7"),
        ({"w": -1.0}, "part 3: row 17 of sample_weight is -1.0"),
    ],
)
def test_a_bad_row_is_named_with_its_part(what, message):
    with pytest.raises(ValueError, match=message):
        confmax.maximize("macro_f1", broken(617, **what))


def test_what_needs_all_rows_in_memory_says_so():
    P, y, _ = labelled(500, 3)
    parts, two = cut(P, y, at=(100,)), cut(P[:, :2] / P[:, :2].sum(1, keepdims=True), y == 1, at=(9,))
    rule = confmax.DecisionRule.from_weights([1.0, 2.0, 3.0])
    memory = "needs all rows in memory, and this table is read in parts"
    for call, sentence in (
        (lambda: confmax.maximize("macro_f1", parts, confusion="labels", solver=CoordinateSearch()), memory),
        (lambda: confmax.maximize("f1", two, solver=ThresholdSearch()), memory),
        (
            lambda: rule.decision_probabilities(parts),
            r"^an opened table is not an array of rows; rule\.predict\(table\) decides it",
        ),
        (
            lambda: rule.evaluate(parts),
            "^evaluate takes an oracle; .* an opened table brings its labels, so leave y",
        ),
        (lambda: confmax.maximize("macro_f1", parts, y), "brings its labels and weights"),
        (lambda: confmax.maximize("macro_f1", cut(P[:0], y[:0], at=())), "at least one row"),
        (lambda: confmax.maximize("macro_f1", cut(P, y, np.zeros(len(y)), at=(9,))), "weights"),
    ):
        with pytest.raises(ValueError, match=sentence):
            call()
    # the way out
    found = rule.evaluate(make_oracle(make_table(parts), "labels"))
    np.testing.assert_allclose(found.diagonal, rule.evaluate(make_oracle(make_table(P, y), "labels")).diagonal)
