"""Exports of rules that compare the probability of one class first: short, with the threshold in clear, and exact."""

import re

import numpy as np
import pytest

from confmax import DecisionRule
from confmax.calibration import Temperature
from confmax.confusion import Gains
from tests.export_helpers import (
    ENGINES,
    ONE_THRESHOLD,
    assert_same_decisions,
    beside,
    each_engine,
    edge_rows,
    function_of,
    in_onnx,
    rule,
    run_onnx,
    scaling,
    sqlite,
    table,
)
from tests.helpers import simplex_grid

each_of_these = pytest.mark.parametrize("exported", ONE_THRESHOLD.values(), ids=ONE_THRESHOLD)
NAMES = ["VF", "F", "M", "L"]


def plain(text):
    """Return an expression without its casts, and with the sums and the tests of a row as words."""
    text = re.sub(r'CAST\(("[^"]*") AS [A-Z ]+\)', r"\1", text)
    text = re.sub(r'\("[^(),]*"\)', "sum", text)
    text = re.sub(r"CASE WHEN ABS\(sum - 1e0\) <= 1.7763568394002505e-15 THEN 1e0 ELSE sum END", "by", text)
    return re.sub(r"(LEAST|MIN)\(.*?\) >= 0e0 AND ABS\(sum - 1e0\) <= 0.001e0", "valid", text)


# --- texts ------------------------------------------------------------------------------------------------------------


def test_sql_compares_the_class_first():
    text = rule(beside(4, 3, 0.87), names=NAMES).to_sql("duckdb")
    assert plain(text) == (
        'CASE WHEN valid THEN CASE WHEN "L" / by >= 0.87e0 THEN 3 ELSE CASE WHEN GREATEST("F", "M") >= "VF" THEN '
        'CASE WHEN "M" >= "F" THEN 2 ELSE 1 END ELSE 0 END END END'
    )
    assert len(text) < 1000
    of_two = rule(beside(2, 1, 0.3), names=["no", "yes"]).to_sql("sqlite")
    assert plain(of_two) == 'CASE WHEN valid THEN CASE WHEN "yes" / by >= 0.3e0 THEN 1 ELSE 0 END END'
    named = rule(beside(3, 0, 0.5), names=["a", "b", "c"]).to_sql("duckdb", labels=True)
    assert "THEN 'a' ELSE CASE WHEN" in named


def test_sql_of_a_rule_that_asks_for_no_probability():
    never, always = (rule(beside(3, 1, never=offset), names=["a", "b", "c"]).to_sql("duckdb") for offset in (-1.0, 1.0))
    assert plain(never) == 'CASE WHEN valid THEN CASE WHEN "c" >= "a" THEN 2 ELSE 0 END END'
    assert plain(always) == "CASE WHEN valid THEN 1 END"


@each_of_these
def test_no_weight_is_tiny(exported):
    """Neither the weights of the others beside the class nor anything like them is written."""
    texts = [exported.to_sql(dialect) for dialect in ("duckdb", "sqlite", "standard")] + [exported.to_python()]
    for text in texts:
        numbers = [abs(float(number)) for number in re.findall(r"\d[\d.]*e-\d+", text)]
        assert all(number >= 1e-16 or number == 1e-12 for number in numbers)
    onnx = pytest.importorskip("onnx")
    for constant in exported.to_onnx().graph.initializer:
        values = np.abs(np.asarray(onnx.numpy_helper.to_array(constant), np.float64))
        assert (values[values > 0] >= 1e-12).all()


# --- decisions --------------------------------------------------------------------------------------------------------


@each_engine
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("k", [0, 3])
def test_exact_ties(k, dtype, engine):
    """A probability that equals the threshold decides the class; of equal others the last one is decided."""
    P = (simplex_grid(4, 16) / 16).astype(dtype)
    for cut in (0.25, 0.5, 0.0625):
        exported = rule(beside(4, k, cut))
        expected = exported.predict_index(P)
        np.testing.assert_array_equal(expected == k, P[:, k] >= cut)
        np.testing.assert_array_equal(engine(exported, P), expected)
        exported = rule(beside(4, k, cut, Gains.reduced([1.0, 2.0, 0.5, 2.0])))
        np.testing.assert_array_equal(engine(exported, P), exported.predict_index(P))


@each_engine
@pytest.mark.parametrize("gains", [beside(2, 0, 0.375), beside(2, 1, 0.375), Gains.reduced([0.0, 1.0], [0.0, -0.375]),
                                   Gains.reduced([1.0, 0.0], [-0.375, 0.0])])  # fmt: skip
def test_exact_ties_of_two_classes(gains, engine):
    P = simplex_grid(2, 64) / 64
    np.testing.assert_array_equal(engine(rule(gains), P), rule(gains).predict_index(P))


@each_engine
@pytest.mark.parametrize("cut", [0.1, 0.87, 1 / 3, 0.7008, 1e-7, 1.0])
def test_the_threshold_is_exact_to_the_float(cut, engine):
    """Rows at the threshold and beside it, by one unit in the last place."""
    beside_it = [cut, np.nextafter(cut, 0.0), np.nextafter(cut, 1.0)]
    for gains in (beside(3, 1, cut), Gains.reduced([2.0**-68, 3.0, 2.0**-68], [0.0, -3.0 * cut, 0.0])):
        P = np.array([[(1.0 - p) * 0.75, p, (1.0 - p) * 0.25] for p in beside_it])
        np.testing.assert_array_equal(engine(rule(gains), P), rule(gains).predict_index(P))
        if engine is in_onnx:
            single = P.astype(np.float32)
            np.testing.assert_array_equal(in_onnx(rule(gains), single), rule(gains).predict_index(single))


@each_of_these
def test_edge_rows(exported):
    P = edge_rows(exported.n_classes, 500)
    for engine in ENGINES.values():
        assert_same_decisions(exported, P, engine(exported, P), share=0.01)


def abstaining_of_one(k=1, low=0.25, high=0.5):
    """Gains of four classes that decide one from ``high`` on, abstain from ``low`` on, else decide the best other."""
    others, tiny = [j for j in range(4) if j != k], 2.0**-69
    full = np.zeros((4, 5))
    # the class gains p - high more than abstaining, which gains p - low more than the others
    full[:, 4], full[:, k] = -low, -low - high
    full[k, 4], full[k, k] = 1.0 - low, 2.0 - low - high
    full[np.ix_(others, others)] = np.where(np.eye(3) == 1.0, 0.0, -tiny)
    full[k, others] = -tiny
    return Gains.from_matrix(full)


@each_engine
@pytest.mark.parametrize("calibrator", [None, Temperature(1.4), scaling(4)], ids=["raw", "temperature", "vector"])
def test_a_rule_that_abstains_between_two_probabilities(calibrator, engine, monkeypatch):
    exported = rule(abstaining_of_one(), calibrator, [*NAMES, "abstain"])
    P = table(4, 5000)
    assert set(exported.predict_index(P)) == set(range(5))
    assert_same_decisions(exported, P, engine(exported, P), share=1e-3)
    monkeypatch.setattr("confmax.export.sql.MOST", 0)
    assert_same_decisions(exported, P, engine(exported, P), share=1e-3)


def by_group():
    """A rule with groups: one threshold in the first and the last, weights and offsets in the second."""
    parts = [beside(3, 0, 0.375), Gains.reduced([1.0, 2.0, 3.0], [0.0, 0.1, 0.0]), beside(3, 2, never=-1.0)]
    a, b = (np.concatenate([part.pair()[which][0] for part in parts]) for which in range(2))
    return DecisionRule(Gains.reduced(a, b), np.ones(1), ("x", "y", "z"), groups=("g", "h", "i"))


def test_groups():
    exported, P = by_group(), edge_rows(3, 300)
    group = np.array(["g", "h", "i"])[np.arange(len(P)) % 3]
    expected = exported.predict_index(P, group=group)
    chosen = function_of(exported.to_python("chosen"), "chosen")
    found = [chosen(row, one) for row, one in zip(P.tolist(), group.tolist(), strict=True)]
    np.testing.assert_array_equal(found, expected)
    connection = sqlite()
    connection.execute("CREATE TABLE t (x REAL, y REAL, z REAL, g TEXT)")
    connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", zip(*P.T.tolist(), group.tolist(), strict=True))
    for dialect in ("sqlite", "standard"):
        text = exported.to_sql(dialect, group="g")
        np.testing.assert_array_equal(np.ravel(connection.execute(f"SELECT {text} FROM t").fetchall()), expected)
    pytest.importorskip("onnx")
    model = exported.to_onnx("float64")
    np.testing.assert_array_equal(run_onnx(model, {"proba": P, "group": np.arange(len(P)) % 3}), expected)
