"""Tables in parts: the same answer as one table in memory, whatever the parts."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import confmax
from confmax.calibration import VectorScaling
from confmax.confusion import Gains
from confmax.optimize import CoordinateSearch, ThresholdSearch
from confmax.oracle import make_oracle, make_table
from confmax.tables.partitioned.parts import together
from tests.helpers import assert_same_statistics
from tests.parts_helpers import GAINS, cut, labelled

CUTS = {
    "one part": (),
    "two": (700,),
    "many with empty ones": (0, 0, 1, 2, 400, 400, 1999, 2000, 2000),
    "every hundred": tuple(range(100, 2000, 100)),
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


@pytest.mark.parametrize(
    ("metric", "settings"),
    [
        ("g_mean", {}),
        ("macro_f1", {"calibration": None, "confusion": "model"}),
        ("cohen_kappa", {"confusion": "labels"}),
        ("min_recall", {}),
        ("quadratic_kappa", {"calibration": "vector"}),
    ],
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
        answers.append(truth.decided_by(None).maximize(gains, matrix=True))
    np.testing.assert_allclose(answers[0].matrix, answers[1].matrix, rtol=1e-12, atol=1e-15)


def test_two_classes_and_rare_ones():
    """A threshold is searched on the rows at hand, here all; a class may be missing from most parts."""
    P, y, w = labelled(4000, 2, sharp=0.6)
    for metric in ("f1", "mcc"):
        found = confmax.maximize(metric, cut(P, y, w, at=(1500,)))
        assert found.value == pytest.approx(confmax.maximize(metric, P, y, sample_weight=w).value, abs=2e-6)
    y = np.where(np.arange(4000) < 3990, "no", np.array(["no", "yes"])[y])
    found = confmax.maximize("balanced_accuracy", cut(P, y, at=(1000, 2000, 3995)), classes=["no", "yes"])
    assert found.rule.classes.tolist() == ["no", "yes"]


def test_what_needs_all_rows_in_memory_says_so():
    P, y, _ = labelled(500, 3)
    parts, two = cut(P, y, at=(100,)), cut(P[:, :2] / P[:, :2].sum(1, keepdims=True), y == 1, at=(9,))
    rule = confmax.DecisionRule.from_weights([1.0, 2.0, 3.0])
    memory = "needs all rows in memory, and this table is read in parts"
    for call, sentence in (
        (lambda: confmax.maximize("macro_f1", parts, confusion="labels", solver=CoordinateSearch()), memory),
        (lambda: confmax.maximize("f1", two, solver=ThresholdSearch()), memory),
        (lambda: rule.decision_probabilities(parts), r"^an opened table is not an array of rows"),
        (lambda: rule.evaluate(parts), "^evaluate takes an oracle; .* an opened table brings its labels, so leave y"),
        (lambda: confmax.maximize("macro_f1", parts, y), "brings its labels and weights"),
        (lambda: confmax.maximize("macro_f1", cut(P[:0], y[:0], at=())), "at least one row"),
        (lambda: confmax.maximize("macro_f1", cut(P, y, np.zeros(len(y)), at=(9,))), "weights"),
    ):
        with pytest.raises(ValueError, match=sentence):
            call()
    # the way out
    found = rule.evaluate(make_oracle(make_table(parts), "labels"))
    np.testing.assert_allclose(found.diagonal, rule.evaluate(make_oracle(make_table(P, y), "labels")).diagonal)


def test_chosen_rows_are_a_table_of_their_own(monkeypatch):
    """Its sums, sample and scans are those of the rows in memory, for every division and under a calibration."""
    monkeypatch.setattr("confmax.tables.partitioned.table.SAMPLE_CELLS", 900)
    for name in ("SAMPLE_ROWS", "ROWS_PER_CLASS"):
        monkeypatch.setattr(f"confmax.tables.partitioned.table.{name}", 10)
    P, y, w = labelled(2000, 3)
    w += 0.5
    mask = np.random.default_rng(0).random(2000) < 0.4
    mask[600:900] = False
    scale = VectorScaling([0.8, 1.2, 1.0], [0.0, 0.3, -0.2], 1e-3)
    gains = GAINS["offsets"](3, np.random.default_rng(1))
    here = make_table(P[mask], y[mask], w[mask])
    samples = []
    for at in ((1000,), (600, 900), (1, 1, 700, 1999)):
        there = make_table(cut(P, y, w, at=at)).calibrated(scale).rows_where(mask)
        assert there.calibrator is None and there.classes == here.classes
        assert (there.n_rows, there.n_weighted) == (mask.sum(), mask.sum())
        assert there.weight_total == pytest.approx(here.weight_total)
        np.testing.assert_allclose(there.label_weight(), here.label_weight())
        np.testing.assert_allclose(there.mean_probability(), here.mean_probability())
        for one, other in ((there, here), (there.calibrated(scale), here.calibrated(scale))):
            np.testing.assert_allclose(one.mean_probability(), other.mean_probability())
            found, wanted = (make_oracle(rows, "labels").maximize(gains) for rows in (one, other))
            np.testing.assert_allclose(found.columns, wanted.columns, rtol=1e-12, atol=1e-15)
        samples.append(there.head)
    for sample in samples:
        assert 200 < sample.n_rows < 400
        np.testing.assert_array_equal(sample.proba, samples[0].proba)
        assert set(sample.proba[:, 0]) <= set(P[mask, 0])
    empty = there.rows_where(np.zeros(mask.sum(), bool))
    assert empty.n_rows == 0 and empty.held


def test_rows_that_come_in_another_order_are_refused():
    """They would be told apart by their places."""
    P, y, _ = labelled(400, 3)
    source = cut(P, y, at=(100,))
    chosen = make_table(source).rows_where(np.arange(400) < 250)
    first, last = source.parts
    turned = replace(first, proba=first.proba[::-1], labels=first.labels[::-1])
    assert chosen.n_rows == 250
    held = chosen.parts.held
    for parts, refused in (((turned, last), True), ((last, first), False)):  # whole parts may change their places
        chosen.parts.held = replace(held, parts=parts)
        with (
            pytest.raises(ValueError, match="came in another order than in the pass before; write them to a file")
            if (refused)
            else nullcontext()
        ):
            assert chosen.over_parts(rows_of) == 250


def rows_of(part):
    return part.n_rows
