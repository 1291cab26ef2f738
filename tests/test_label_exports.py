"""Exports of rules of several labels decide as `predict` does, ties included."""

import json
import sqlite3
from contextlib import closing

import numpy as np
import pytest

from confmax import LabelRule
from confmax.calibration.labels import LabelScaling
from confmax.confusion import Gains
from confmax.export import labels as exports
from confmax.tables.decisions import ANY, decisions_of

HOSTILE = ('a "b"', "it's; DROP TABLE t", "ß\n", "decision", "0")
L = len(HOSTILE)
DRAW = np.random.default_rng(0)
MAPS = LabelScaling(DRAW.uniform(0.5, 2.0, L), DRAW.normal(0.0, 1.0, L))
WEIGHTS = Gains.reduced(DRAW.uniform(0.3, 2.0, L), DRAW.uniform(-0.8, -0.1, L))


def made(given, gains=WEIGHTS, maps=None, names=HOSTILE):
    return LabelRule(gains, np.ones(1), names, decisions_of(given), "some metric", calibrator=maps)


RULES = {
    "thresholds": LabelRule.from_thresholds([0.5, 0.2, np.inf, -np.inf, 0.25], classes=HOSTILE),
    "weights": made("any"),
    "a weight below zero": made("any", Gains.reduced([1.0, -1.0, 0.0, 0.0, 2.0], [-0.5, 0.3, 0.1, -0.1, -1.0])),
    "calibrated": made("any", maps=MAPS),
    "calibrated to the edges": made("any", maps=LabelScaling(np.ones(L), np.array([30.0, -30.0, 0.0, 9.0, -9.0]))),
    **{f"{given}": made(given) for given in (1, 3, L)},
    **{f"{given}": made(given) for given in (("at_most", 1), ("at_most", 3), ("at_most", L))},
    "equal weights, 2": made(2, Gains.reduced(np.ones(L))),
    "calibrated, 2": made(2, maps=MAPS),
    "calibrated, at most 2": made(("at_most", 2), maps=MAPS),
    "one label": LabelRule.from_thresholds([0.3], classes=["only"]),
}


def rows(L, dtype=np.float64):
    """Return rows with many ties, zeros and ones among others."""
    P = DRAW.random((3000, L))
    P[1000:] = DRAW.integers(0, 5, (2000, L)) / 4
    return P.astype(dtype)


def sqlite(expressions, P, columns):
    names = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
    with closing(sqlite3.connect(":memory:")) as base:
        base.execute(f"CREATE TABLE t ({names})")
        base.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(columns))})", P.tolist())
        return np.array(base.execute(f"SELECT {expressions} FROM t").fetchall(), dtype=float)


def duckdb(expressions, P, columns):
    engine = pytest.importorskip("duckdb")
    pa = pytest.importorskip("pyarrow")
    t = pa.table(dict(zip(columns, P.T, strict=True)))
    with engine.connect() as base:
        base.register("t", t)
        found = base.execute(f"SELECT {expressions} FROM t").fetchnumpy()
    return np.column_stack([np.ma.filled(found[f"decision_{name}"].astype(float), np.nan) for name in columns])


@pytest.mark.parametrize("dialect", ["standard", "duckdb", "sqlite"])
@pytest.mark.parametrize("name", RULES)
def test_sql(name, dialect):
    rule = RULES[name]
    P = rows(rule.n_classes)
    for engine in (sqlite, duckdb):
        if dialect not in ("standard", engine.__name__):
            continue
        if engine is sqlite and rule.calibrator is not None:
            with closing(sqlite3.connect(":memory:")) as base:
                try:
                    base.execute("SELECT LN(2.0), EXP(1.0)")
                except sqlite3.OperationalError:
                    continue
        found = engine(rule.to_sql(dialect), P, list(rule.class_names))
        assert (found == rule.predict(P)).all()


def test_sql_is_null_where_a_probability_is_none():
    P = np.array([[0.9, 0.9], [-0.1, 0.9], [0.9, 1.1], [np.nan, 0.9]])
    any_labels = LabelRule.from_thresholds([0.5, 0.5], classes=["a", "b"])
    best = LabelRule(Gains.reduced([1.0, 1.0]), np.ones(1), ("a", "b"), decisions_of(1))
    found = sqlite(any_labels.to_sql(), np.where(np.isnan(P), None, P), "ab")
    assert np.isnan(found).tolist() == [[False, False], [True, False], [False, True], [True, False]]
    assert np.isnan(sqlite(best.to_sql(), np.where(np.isnan(P), None, P), "ab")).all(axis=1).tolist() == [
        False,
        True,
        True,
        True,
    ]


def test_sql_in_another_dialect_and_with_other_columns():
    rule = made(2, names=tuple("abcde"))
    P = rows(L)
    columns = [f"p_{name}" for name in "abcde"]
    assert (sqlite(rule.to_sql(columns=columns), P, columns) == rule.predict(P)).all()
    pytest.importorskip("sqlglot")
    assert rule.to_sql("mysql").count("`decision_") == L


@pytest.mark.parametrize("name", RULES)
def test_python(name):
    rule = RULES[name]
    P = rows(rule.n_classes)[::3]
    space, named = {}, {}
    exec(rule.to_python(), space)
    exec(rule.to_python("f", labels=True), named)
    assert [space["decide"](row) for row in P] == rule.predict(P).tolist()
    assert [named["f"](row) for row in P] == rule.predict_lists(P)
    for bad in ([0.5], [0.5] * (rule.n_classes - 1) + [1.1], [0.5] * (rule.n_classes - 1) + [np.nan]):
        if rule.n_classes > 1:
            with pytest.raises(ValueError, match=r"this rule decides on|pass probabilities from 0 to 1"):
                space["decide"](bad)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", RULES)
def test_onnx(name, dtype):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    rule = RULES[name]
    for opset in (13, 18):
        model = rule.to_onnx(dtype, opset=opset)
        session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        P = rows(rule.n_classes, dtype)
        (found,) = session.run(["decision"], {"proba": P})
        assert found.dtype == np.int64 and (found == rule.predict(P)).all()
        P[0, 0], P[1, 0], P[2, 0] = np.nan, -0.1, 1.1
        (found,) = session.run(["decision"], {"proba": P})
        assert (found[:3] == -1).all() and (found[3:] == rule.predict(P[3:])).all()
    about = {one.key: one.value for one in model.metadata_props}
    assert json.loads(about["classes"]) == list(rule.class_names)


def test_what_cannot_be_written_is_refused():
    two = Gains.reduced([[1.0, 1.0], [1.0, 1.0]], [[-0.5] * 2, [-0.2] * 2])
    drawn = LabelRule(two, np.array([0.5, 0.5]), ("a", "b"))
    for write in (drawn.to_sql, drawn.to_python, drawn.to_onnx):
        with pytest.raises(ValueError, match=r"deterministic rules, .* draws between 2; decide with predict"):
            write()
    many = 150
    wide = LabelRule(Gains.reduced(np.ones(many)), np.ones(1), tuple(range(many)), decisions_of(2))
    with pytest.raises(ValueError, match=r"characters for 2 of 150 labels, .*; use to_onnx or to_python"):
        wide.to_sql()
    # thresholds grow with the number of labels alone
    assert len(LabelRule.from_thresholds(np.full(5000, 0.5)).to_sql()) < exports.LONGEST
    rule = LabelRule.from_thresholds([0.5, 0.5], classes=["a", "A"])
    with pytest.raises(ValueError, match="SQL does not tell A from a"):
        rule.to_sql()
    with pytest.raises(ValueError, match="columns holds the names of 2 columns"):
        rule.to_sql(columns=["a"])
    with pytest.raises(ValueError, match="cannot name a Python function"):
        rule.to_python("class")
    with pytest.raises(ValueError, match="dtype is 'float32' or 'float64'"):
        rule.to_onnx("int8")


def test_the_longest_text_that_is_written_runs_in_sqlite():
    most = next(n for n in range(200, 0, -1) if _fits(n))
    rule = LabelRule(Gains.reduced(np.ones(most)), np.ones(1), tuple(range(most)), decisions_of(2))
    P = rows(most)[-20:]
    assert (sqlite(rule.to_sql(), P, [str(k) for k in range(most)]) == rule.predict(P)).all()


def _fits(n):
    rule = LabelRule(Gains.reduced(np.ones(n)), np.ones(1), tuple(range(n)), decisions_of(2))
    try:
        return bool(rule.to_sql())
    except ValueError:
        return False


def test_thresholds_of_calibrated_rules_tell_what_is_decided():
    for name in ("calibrated", "calibrated to the edges"):
        rule = RULES[name]
        P = rows(L)
        assert rule.decisions == ANY and ((rule.thresholds < P) == rule.predict(P)).all()
