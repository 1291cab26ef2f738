"""Benchmarks on folders of tables: known answers of their parts, and a sample of each."""

import numpy as np
import pytest

import confmax
from benchmarks import few_labels, harness, zeros
from benchmarks.harness import Data, load, paired, value
from confmax.calibration import fit
from confmax.confusion import Gains
from confmax.oracle import make_table


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with one table of 3 classes; sections are written beside it."""
    monkeypatch.setattr(harness, "PATH", tmp_path / "RESULTS.md")
    rng = np.random.default_rng(0)
    P = rng.dirichlet([0.8, 0.3, 0.1], 160).astype(np.float32)
    y = (np.log(P + 0.01) + rng.gumbel(size=P.shape)).argmax(axis=1)
    np.savez(tmp_path / "one.npz", P_tune=P[:80], y_tune=y[:80], P_test=P[80:], y_test=y[80:])
    return tmp_path


# --- few labels -------------------------------------------------------------------------------------------------------


def test_a_threshold_is_a_pair_of_weights():
    P = np.random.default_rng(0).dirichlet([1.0, 1.0], 500)
    rules = [([[0.0, 1.0]], [[0.3, 0.0]]), ([[1.0, 2.0]], [[0.1, 0.0]]), ([[0.0, 0.0]], [[1.0, 0.0]])]
    for a, b in rules:
        rule = confmax.DecisionRule(Gains.reduced(a, b), np.ones(1), ("no", "yes"))
        made = few_labels.of_weights(rule)
        assert (made.predict_index(P) == rule.predict_index(P)).all()
        assert (made.gains.b == 0).all() == (made.gains.a > 0).all()


def test_weights_move_toward_their_target_in_logarithms():
    """A share of m / (n_k + m) of the way, relative to the classes with labels enough, which stay in proportion."""
    rule = confmax.DecisionRule.from_weights([1.0, 2.0, 4.0, 8.0])
    count, target = np.array([100, 50, 10, 0]), np.log([1.0, 2.0, 32.0, 1.0])
    a = few_labels.moved(rule, count, target, 10).gains.a[0]
    # one class alone is off its target, by 8, of which its 10 of 160 labels put a part into the mean
    share = 0.5 * (1.0 - 10.0 / 160.0)
    np.testing.assert_allclose(a / a[0], [1.0, 2.0, 4.0 * 8.0**share, 8.0])
    assert few_labels.moved(rule, np.array([100, 50, 30, 0]), target, 10).gains.a.tolist() == rule.gains.a.tolist()


def test_atoms_without_weights_stay_as_they_are():
    gains = Gains.concatenate([Gains.reduced([1.0, 4.0, 4.0]), Gains.constant(3, [2])])
    rule = confmax.DecisionRule(gains, np.array([0.5, 0.5]), (0, 1, 2))
    moved = few_labels.moved(rule, np.array([40, 40, 5]), np.zeros(3), 5)
    assert (moved.gains.a[1] == 0).all() and moved.gains.b[1].tolist() == [0.0, 0.0, 1.0]
    assert moved.gains.a[0, 2] / moved.gains.a[0, 1] < 1.0


def test_a_sample_of_few_labels(folder, monkeypatch):
    """The value of the default is that of a call by hand."""
    monkeypatch.setattr(few_labels, "METRICS", ["q_mean"])
    monkeypatch.setattr(few_labels, "SIZES", (60,))
    monkeypatch.setattr(few_labels, "DRAWS", 1)
    np.savez(folder / "two.npz", **np.load(folder / "one.npz"))
    harness.run("few-labels", folder)
    ((P, y, Q, z),) = few_labels.draws(load(folder)[0], 60)
    assert len(y) == 60 and len(z) == 100
    rule = confmax.maximize("q_mean", P, y, classes=range(3)).rule
    expected = value("q_mean", z, rule.decision_probabilities(Q))
    assert f"default, value |  | {expected:.4f} |" in harness.PATH.read_text()


def test_what_gains_enough():
    assert few_labels.verdict(np.array([0.01, 0.02, 0.015]))
    assert not few_labels.verdict(np.array([0.01, 0.02, -0.015, 0.03, 0.03, 0.03, 0.03, 0.03, 0.03]))
    assert not few_labels.verdict(np.array([0.01, -0.005, 0.0]))


# --- zeros ------------------------------------------------------------------------------------------------------------


def test_floors_are_those_that_a_variant_names(folder):
    data = zeros.rounded(load(folder)[0], 2)
    assert (data.P == 0).any() and np.allclose(data.P.sum(axis=1), 1.0)
    table = make_table(data.P, data.y, None, range(3))
    before = fit(table, "vector")
    for floor in (1e-6, 0.1):
        data_of, settings = zeros.VARIANTS[f"{floor:g} always"](data)
        with settings:
            assert {fit(table, kind).floor for kind in ("temperature", "vector")} == {floor}
        assert data_of is data
    assert fit(table, "vector") == before


def test_zeros_alone_are_replaced_and_fitted(folder):
    """What replaces them loses less than almost nothing in their place; their frequency is that of a count by hand."""
    data = zeros.rounded(load(folder)[0], 1)
    by = zeros.of_zeros(data)
    filled = zeros.filled(data.P, by)
    assert (filled > 0).all() and np.allclose(filled.sum(axis=1), 1.0)
    losses = [zeros.log_loss(make_table(zeros.filled(data.P, x), data.y, None, range(3))) for x in (1e-9, by)]
    assert losses[1] < losses[0]
    assert zeros.of_zeros_by_class(data).shape == (3,)
    share, rows, rate, *_ = zeros.meaning([data, data.turned()])
    assert share == pytest.approx(np.mean(np.vstack([data.P, data.Q]) == 0))
    assert rows == pytest.approx(rate * share * 3)


def test_errors_over_data_sets_are_those_over_tables_if_these_differ():
    change = np.random.default_rng(0).normal(size=9)
    mean, error = paired(change)
    assert zeros.line_of(change, np.arange(9)) == f"{mean:+.4f} ({error:.4f})"
    # copies of a table say nothing new
    assert zeros.line_of(np.repeat(change, 3), np.repeat(np.arange(9), 3)) == f"{mean:+.4f} ({error:.4f})"


def test_a_sample_of_zeros(folder, monkeypatch):
    """The value of the list that was the default before is that of a call by hand."""
    monkeypatch.setattr(zeros, "METRICS", ["q_mean"])
    monkeypatch.setattr(zeros, "DECIMALS", (2,))
    kept = (zeros.TODAY, *zeros.FIXED, "zeros by class")
    monkeypatch.setattr(zeros, "VARIANTS", {name: zeros.VARIANTS[name] for name in kept})
    monkeypatch.setattr(zeros, "data_sets", list)
    harness.run("zeros", folder)
    (data,) = load(folder)

    def by_hand(part: Data):
        with zeros.settings_of(zeros.LIST), zeros.any_kind():
            rule = confmax.maximize("q_mean", part.P, part.y, classes=range(3)).rule
        return value("q_mean", part.z, rule.decision_probabilities(part.Q))

    parts = [data, zeros.rounded(data, 2)]
    expected = np.mean([by_hand(each) for part in parts for each in (part, part.turned())])
    line = next(line for line in harness.PATH.read_text().splitlines() if line.startswith(zeros.TODAY + " |"))
    assert line.split(" | ")[2] == f"{expected:.4f}"
