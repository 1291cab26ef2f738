"""Coordinate search against the enumeration of every place where a decision changes."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

import confmax
from confmax import metrics
from confmax.checks import random_table
from confmax.confusion import Gains
from confmax.metrics.first_order import FirstOrder
from confmax.optimize import CoordinateSearch, Mixture, Problem, Status, baselines, run
from confmax.optimize.breakpoints import Coordinate, breakpoints, moved, working_gain
from confmax.optimize.rounding import BATCH
from confmax.oracle import CountingOracle, make_oracle, make_table
from confmax.tables import Table
from tests.helpers import by_numpy, confusion_of

NAMES = ["macro_f1", "g_mean", "q_mean", "cohen_kappa", "mcc", "min_recall", "weighted_f1", "quadratic_kappa"]


def small_table(seed, K, dtype=np.float64, n=11):
    rng = np.random.default_rng(seed)
    table = random_table(rng, n, K, ties=seed % 2 == 1, weights=seed % 3 == 2)
    return Table.of(replace(table.head, proba=table.head.proba.astype(dtype)))


def oracle_of(table, mode):
    return CountingOracle(make_oracle(table, mode))


def random_gain(rng, K, kind):
    if kind == "full":
        return Gains.from_matrix(np.eye(K) + 0.3 * rng.normal(size=(K, K)))
    return Gains.reduced(rng.random(K) + 0.5, 0.1 * rng.normal(size=K) * (kind == "offset"))


def enumerated(metric, table, mode, gain, coordinate):
    """Return the best value over one value of the coefficient from every gap between crossings of any two scores.

    Independent of the search: every pair of scores, decisions by numpy, and the definition of the confusion matrix.
    """
    P, j = table.head.proba.astype(float), coordinate.decision
    G = gain.matrices()[0]
    others = np.delete(P @ G, j, axis=1)
    if coordinate.kind == "offset":
        present = 0.0 if gain.full is not None else gain.b[0, j]  # a full gain's offset is added to its column
        crossings = (others - (P @ G)[:, [j]]).ravel() + present
    else:
        crossings = ((others - gain.b[0, j]) / P[:, [j]]).ravel()
        crossings = np.append(crossings[crossings > 0], 0.0)
    crossings = np.sort(crossings)
    gaps = np.flatnonzero(np.diff(crossings) > 1e-5)
    tried = [*(crossings[gaps] + crossings[gaps + 1]) / 2, crossings[-1] + 1.0]
    if coordinate.kind == "offset":
        tried.append(crossings[0] - 1.0)
    weight = np.ones(table.n_rows) if table.head.weight is None else table.head.weight
    truth = (P if mode == "model" else np.eye(table.n_classes)[table.head.labels]) * (weight / weight.sum())[:, None]
    best = -np.inf
    for value in tried:
        shifted = (moved(gain, coordinate, np.array([value])).matrices())[0]
        scores = P @ shifted
        scores = np.where(np.isclose(scores, scores.max(axis=1, keepdims=True), rtol=0, atol=1e-6), 1, 0)
        decisions = table.n_classes - 1 - np.argmax(scores[:, ::-1], axis=1)
        C = confusion_of(truth, decisions, table.n_classes)
        best = max(best, metric.value(C / C.sum()))
    return best


@pytest.mark.parametrize("mode", ["labels", "model"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("K", [2, 3, 4])
@pytest.mark.parametrize("kind", ["offset", "weight", "full"])
def test_no_cut_is_missed(kind, K, dtype, mode):
    """The best of all cuts is the best by enumeration, and the oracle confirms it at the coefficient returned."""
    rng = np.random.default_rng(K)
    for seed in range(K, 12, 3):
        table = small_table(seed, K, dtype)
        metric = metrics.get(NAMES[seed % len(NAMES)])
        gain = working_gain(random_gain(rng, K, kind), table.head.proba.dtype)
        coordinate = Coordinate("weight" if kind == "weight" else "offset", seed % K)
        oracle = oracle_of(table, mode)
        cuts = breakpoints(metric, oracle, gain, coordinate)
        expected = enumerated(metric, table, mode, gain, coordinate)
        assert cuts.values.max() == pytest.approx(expected, abs=1e-6 if dtype == np.float32 else 1e-9)
        found = moved(gain, coordinate, cuts.best(-np.inf, 4))
        answers = oracle.maximize(found, matrix=True)
        assert metric.at(answers[0]).value == pytest.approx(cuts.values.max(), abs=1e-12)


@pytest.mark.parametrize("form", [nullcontext, by_numpy])
@pytest.mark.parametrize("kind", ["offset", "weight", "full"])
def test_every_cut_has_the_oracles_value(kind, form):
    """The incremental statistics give, on each interval, what the oracle decides at its middle."""
    rng = np.random.default_rng(0)
    for seed in range(2):
        table = small_table(seed, 3, n=200)
        oracle = oracle_of(table, "labels" if seed % 2 else "model")
        for name in ("macro_f1", "quadratic_kappa"):
            metric = metrics.get(name)
            gain = working_gain(random_gain(rng, 3, kind), table.head.proba.dtype)
            coordinate = Coordinate("weight" if kind == "weight" else "offset", seed % 3)
            with form():
                cuts = breakpoints(metric, oracle, gain, coordinate)
            wide = np.flatnonzero(cuts.high - cuts.low > 1e-9)
            middles = cuts._between(cuts.low[wide], cuts.high[wide])
            answers = oracle.maximize(moved(gain, coordinate, middles), matrix=True)
            np.testing.assert_allclose(cuts.values[wide], metric.at(answers).value, atol=1e-12)


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("K", [3, 17])
def test_numpy_finds_the_same_cuts(K, dtype, share, monkeypatch):
    """The same breakpoints bit for bit, and the same values up to rounding, however the rows are divided."""
    rng = np.random.default_rng(K)
    for seed in range(6):
        table = small_table(seed, K, dtype, n=K + (0, 1, 5, 63, 130, 700)[seed])
        oracle = CountingOracle(make_oracle(table, "blend", model_share=share))
        kind = ("offset", "weight", "full")[seed % 3]
        gain = working_gain(random_gain(rng, K, kind), table.head.proba.dtype)
        coordinate = Coordinate("weight" if kind == "weight" else "offset", int(rng.integers(K)))
        for name in ("macro_f1", "quadratic_kappa"):
            cuts = breakpoints(metrics.get(name), oracle, gain, coordinate)
            for cells in (BATCH, 7 * K):
                with by_numpy():
                    monkeypatch.setattr("confmax.optimize.breakpoints.BATCH", cells)
                    same = breakpoints(metrics.get(name), oracle, gain, coordinate)
                if cuts is None:
                    assert same is None
                    continue
                np.testing.assert_array_equal(same.low, cuts.low)
                np.testing.assert_array_equal(same.high, cuts.high)
                np.testing.assert_allclose(same.values, cuts.values, rtol=1e-9, atol=1e-12)


def test_a_tie_of_values_takes_the_middle_of_the_widest_interval():
    P = np.array([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6], [0.2, 0.8]])
    oracle = oracle_of(make_table(P, [0, 0, 1, 1]), "labels")
    gain = working_gain(Gains.reduced([1.0, 1.0]), P.dtype)
    cuts = breakpoints(metrics.get("accuracy"), oracle, gain, Coordinate("offset", 1))
    # class 1 must win the third row (p_0 - p_1 = -0.2) and lose the second (0.6); gains are scaled below one
    np.testing.assert_allclose(cuts.best(0.0, 4)[0] / gain.a[0, 0], 0.2)
    cuts = breakpoints(metrics.get("accuracy"), oracle, gain, Coordinate("weight", 1))
    np.testing.assert_allclose(cuts.best(0.0, 4)[0] / gain.a[0, 0], np.sqrt(4 * 0.4 / 0.6))


def test_columns_of_zeros():
    """A class of probability zero can never be decided by its weight, but can by its offset."""
    P = np.array([[0.5, 0.5, 0.0], [0.3, 0.7, 0.0]])
    oracle = oracle_of(make_table(P, [0, 1], None, range(3)), "labels")
    gain = working_gain(Gains.reduced(np.ones(3)), P.dtype)
    assert breakpoints(metrics.get("accuracy"), oracle, gain, Coordinate("weight", 2)) is None
    cuts = breakpoints(metrics.get("accuracy"), oracle, gain, Coordinate("offset", 2))
    assert cuts.values.tolist() == [0.5, 0.5, 0.0]


@pytest.mark.parametrize("seed", [3, 4])
@pytest.mark.parametrize("name", NAMES)
def test_ends_where_no_single_coefficient_improves(name, seed):
    """At the end the enumeration of each coefficient finds nothing better; the value is the oracle's, never lower."""
    K = 2 + seed % 3
    table = small_table(seed, K, np.float32 if seed % 4 == 0 else np.float64)
    metric, oracle = metrics.get(name), oracle_of(table, "labels")
    starts = baselines(oracle, [table.label_weight()], K, matrix=True)
    outcome = run(CoordinateSearch(), Problem(metric, oracle, K, tuple(starts), 2000))
    assert outcome.status is Status.COORDINATEWISE
    gain = working_gain(outcome.single.atoms[0], table.head.proba.dtype)
    value = float(metric.at(outcome.single.confusion).value)
    assert value == metric.at(oracle.maximize(gain, matrix=True)[0]).value
    kinds = {"weights": ["weight"], "offsets": ["offset"]}.get(metric.gain_form, ["weight", "offset"])
    for kind in ["offset"] if gain.full is not None else kinds:
        for j in range(K):
            assert enumerated(metric, table, "labels", gain, Coordinate(kind, j)) <= value + 1e-9
    values = [entry.value for entry in outcome.history]
    assert values == sorted(values)


def test_a_mixture_as_start():
    table = random_table(np.random.default_rng(0), 40, 3)
    oracle = oracle_of(table, "labels")
    start = Mixture.uniform(oracle.rows, 3, matrix=False)
    outcome = run(CoordinateSearch(), Problem(metrics.get("accuracy"), oracle, 3, (start,), 200))
    assert len(outcome.single.atoms) == 1 and outcome.status is Status.COORDINATEWISE
    assert metrics.get("accuracy").at(outcome.single.confusion).value > 1 / 3


@pytest.mark.parametrize("form", [nullcontext, by_numpy])
def test_more_decisions_than_classes(form):
    """Abstaining is a column of the gain and gets an offset of its own."""
    with form():
        check_more_decisions()


def check_more_decisions():
    table = random_table(np.random.default_rng(1), 50, 2)
    gain = [[1, 0, 0.7], [0, 1, 0.7]]
    found = confmax.maximize(metrics.get("linear", gain=gain), table.head.proba, table.head.labels, classes=[0, 1],
                             confusion="labels", solver="coordinate_search")  # fmt: skip
    plug_in = confmax.maximize(metrics.get("linear", gain=gain), table.head.proba, table.head.labels, classes=[0, 1],
                               confusion="labels")  # fmt: skip
    assert found.value >= plug_in.value


def test_infinite_values_and_values_that_are_no_numbers():
    """AMS is infinite without background, and where it is undefined no cut is chosen."""
    P = np.array([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6], [0.2, 0.8]])
    oracle = oracle_of(make_table(P, [0, 1, 0, 1]), "labels")
    gain = working_gain(Gains.reduced([1.0, 1.0]), P.dtype)
    cuts = breakpoints(metrics.get("ams"), oracle, gain, Coordinate("offset", 1))
    assert cuts.values.max() == 1e100  # only the last row is decided 1
    np.testing.assert_allclose(cuts.best(0.0, 1) / gain.a[0, 0], (-0.6 - 0.2) / 2)

    def sometimes(S):
        return FirstOrder(np.where(S.diagonal[..., 1] > 0.4, S.diagonal[..., 0], np.nan))

    undefined = metrics.Metric("undefined", sometimes, "general", "columns")
    cuts = breakpoints(undefined, oracle, gain, Coordinate("offset", 1))
    assert cuts.values.min() == -1e100 and len(cuts.best(0.0, 9)) == 1


def test_settings_are_checked():
    with pytest.raises(ValueError, match="starts of CoordinateSearch must be an integer of at least 1; got 0"):
        CoordinateSearch(starts=0)


def test_two_classes_reach_the_best_threshold():
    """With two classes one offset is the threshold, so Algorithm 1 is a witness."""
    for seed in range(10):
        table = small_table(seed, 2, n=60)
        for name in ("f1", "mcc", "g_mean"):
            found = confmax.maximize(
                name, table.head.proba, table.head.labels, sample_weight=table.head.weight,
                solver=CoordinateSearch(starts=3), confusion="labels", classes=[0, 1],
            )  # fmt: skip
            best = confmax.maximize(
                name, table.head.proba, table.head.labels, sample_weight=table.head.weight, solver="threshold_search",
                confusion="labels", classes=[0, 1], randomized=False,
            )  # fmt: skip
            assert found.value == pytest.approx(best.value, abs=1e-12)
