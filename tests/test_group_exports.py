"""Exports of rules with groups decide like `predict`: every row by the gains of its group, none by another's.

``python -m tests.test_group_exports 100000`` counts the edge rows on which they differ.
"""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest

import confmax
from confmax.confusion import Gains, Layout
from confmax.tables.precision import is_wide
from tests.export_helpers import (
    abstaining,
    connect,
    drawn,
    edge_rows,
    function_of,
    independent_scores,
    matrix_scaling,
    scaling,
)

EXPORTS = ("to_sql", "to_onnx", "to_python")
NAMES = ("men", "women", "'; DROP TABLE scores; --")


def in_groups(parts, calibrator=None, groups=NAMES):
    """Return the rule whose groups are decided by gains of their own."""
    K, M = parts[0].n_classes, parts[0].n_decisions
    gains = Layout(len(parts), K, M - K).beside(parts)
    names = (*(f"c {k}" for k in range(K)), *["abstain"] * (M - K))
    return confmax.DecisionRule(
        gains, np.ones(1), names, calibrator=calibrator, abstain=names[-1] if M > K else None, groups=groups
    )


def with_last(parts):
    """Return gains with one decision more, from which a good part of the rows of every group is left."""
    return [Gains.reduced(part.a[0], [*part.b[0], 0.7 * part.a.mean() + part.b.mean()]) for part in parts]


def several(K, **settings):
    return [drawn(K, seed=seed, **settings) for seed in range(3)]


FULL = [Gains.from_matrix(np.random.default_rng(seed).normal(size=(4, 4))) for seed in range(3)]
RULES = {
    "weights of 2": in_groups(several(2)),
    "offsets of 3": in_groups(several(3, offsets=True)),
    "weights of 20": in_groups(several(20)),
    "one group": in_groups(several(3)[:1], groups=("all",)),
    "numbers as groups": in_groups(several(3), groups=(0, 7, -2)),
    "floats as groups": in_groups(several(3), groups=(0.1, 2, -1e300)),
    "truth values as groups": in_groups(several(3)[:2], groups=(False, True)),
    "full": in_groups(FULL),
    "vector": in_groups(several(3, offsets=True), scaling(3)),
    "matrix": in_groups(several(3), matrix_scaling(3)),
    "abstaining of 2": in_groups([abstaining(2), *with_last(several(2)[:2])]),
    "abstaining of 4": in_groups(with_last(several(4, offsets=True))),
    "abstaining of 4, vector": in_groups(with_last(several(4, offsets=True)), scaling(4)),
    "abstaining, full": in_groups(
        [Gains.from_matrix(np.hstack([each.full[0], np.full((4, 1), 0.4)])) for each in FULL]
    ),
}
each_rule = pytest.mark.parametrize("exported", RULES.values(), ids=RULES)


# --- the engines, each a function of a rule, a table (n, K) and groups (n,) -------------------------------------------


def in_sql(exported, P, group, connection, dialect, **settings):
    names = [f"c {k}" for k in range(P.shape[1])]
    kind = {str: "VARCHAR", bool: "BOOLEAN", int: "INTEGER", float: "DOUBLE"}[type(exported.groups[0])]
    columns = ", ".join(f'"{name}" DOUBLE PRECISION' for name in names)
    connection.execute(f'CREATE TABLE scores (number INTEGER PRIMARY KEY, "group" {kind}, {columns})')
    marks = ", ".join("?" * (len(names) + 2))
    rows = [[k, name, *row] for k, (name, row) in enumerate(zip(group, P.tolist(), strict=True))]
    if dialect == "sqlite":
        connection.executemany(f"INSERT INTO scores VALUES ({marks})", rows)
    else:
        pa = pytest.importorskip("pyarrow")
        given = pa.table({f"x{k}": list(cells) for k, cells in enumerate(zip(*rows, strict=True))})
        connection.register("given", given)
        connection.execute("INSERT INTO scores SELECT * FROM given")
    expression = exported.to_sql(dialect, names, **settings)
    cells = connection.execute(f"SELECT number, {expression} FROM scores ORDER BY number").fetchall()
    return [cell for _, cell in cells]


def in_duckdb(exported, P, group, **settings):
    with connect("duckdb") as connection:
        return in_sql(exported, P, group, connection, "duckdb", **settings)


def in_sqlite(exported, P, group, **settings):
    with connect("sqlite", exported) as connection:
        return in_sql(exported, P, group, connection, "sqlite", **settings)


def in_python(exported, P, group, **settings):
    chosen = function_of(exported.to_python("chosen", **settings), "chosen")
    return [chosen(row, name) for row, name in zip(P.tolist(), group, strict=True)]


def in_onnx(exported, P, group):
    pytest.importorskip("onnx")
    return run_onnx(exported.to_onnx(P.dtype.name), P, group)[0].tolist()


def run_onnx(model, P, group):
    known = json.loads({each.key: each.value for each in model.metadata_props}["groups"])
    place = np.array([known.index(name) if name in known else -1 for name in group])
    session = pytest.importorskip("onnxruntime").InferenceSession(model.SerializeToString())
    return session.run(None, {"proba": P, "group": place})


ENGINES = {"duckdb": in_duckdb, "sqlite": in_sqlite, "python": in_python, "onnx": in_onnx}
each_engine = pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)


def groups_of(exported, n, seed=0):
    chosen = np.random.default_rng(seed).integers(0, len(exported.groups), n)
    return [exported.groups[k] for k in chosen]


def differing_on_edge_rows(exported, engine, n):
    """Return on how many rows an engine differs from `predict`; they must be ties within rounding."""
    P, group = edge_rows(exported.n_classes, n), groups_of(exported, n)
    given = np.array(group, dtype=object)
    expected, found = exported.predict_index(P, group=given), np.array(engine(exported, P, group))
    # the groups are decided differently, so that a wrong group is seen
    others = np.array(group[1:] + group[:1], dtype=object)
    assert len(exported.groups) == 1 or (exported.predict_index(P, group=others) != expected).any()
    assert len(np.unique(expected)) == exported.n_decisions
    differ = np.flatnonzero(found != expected)
    for row in differ:
        scores = independent_scores(exported.of_group(group[row]), P[[row]])[0]
        assert abs(scores[found[row]] - scores[expected[row]]) <= 1e-12 * np.abs(scores).max()
    assert len(differ) <= 1e-4 * n
    return len(differ)


# --- equality ---------------------------------------------------------------------------------------------------------


@each_engine
@each_rule
def test_edge_rows(exported, engine):
    assert differing_on_edge_rows(exported, engine, 500) == 0


@pytest.mark.parametrize("name", ["weights of 2", "abstaining of 4", "full", "matrix"])
@pytest.mark.parametrize("engine", [in_duckdb, in_sqlite])
def test_nested_steps_of_groups(name, engine, monkeypatch):
    monkeypatch.setattr("confmax.export.sql.MOST", 0)
    assert "(SELECT" in RULES[name].to_sql("sqlite") and "[CASE" in RULES[name].to_sql("duckdb")
    assert differing_on_edge_rows(RULES[name], engine, 300) == 0


def test_standard_sql_of_groups():
    exported, P = RULES["abstaining of 4"], edge_rows(4, 300)
    group = groups_of(exported, 300)
    expected = exported.predict_index(P, group=group).tolist()
    with connect("standard") as connection:
        assert in_sql(exported, P, group, connection, "standard") == expected
    assert exported.to_sql() == exported.to_sql(group="group")


def test_single_precision_in_onnx():
    """One group has weights that are decided in float64 and the others have not, as `predict` has it."""
    pytest.importorskip("onnx")
    exported = in_groups([Gains.reduced([1.0, 2.0, 1e-40]), Gains.reduced([1.0, 3.0, 2.0]), drawn(3)])
    assert is_wide(exported.of_group("men").gains, "float32") and not is_wide(
        exported.of_group("women").gains, "float32"
    )
    P = edge_rows(3, 2000).astype(np.float32)
    group = groups_of(exported, 2000)
    assert in_onnx(exported, P, group) == exported.predict_index(P, group=group).tolist()


@pytest.mark.parametrize("name", ["weights of 2", "abstaining of 4"])
def test_labels_of_groups(name):
    exported = RULES[name]
    P, group = edge_rows(exported.n_classes, 300), groups_of(exported, 300)
    expected = exported.predict(P, group=group).tolist()
    for engine in (in_duckdb, in_sqlite, in_python):
        assert engine(exported, P, group, labels=True) == expected
    assert run_onnx(exported.to_onnx("float64", labels=True), P, group)[0].tolist() == expected


# --- groups that are not known ----------------------------------------------------------------------------------------


@each_engine
def test_rows_without_a_known_group_are_not_decided(engine):
    exported = RULES["weights of 2"]
    P, group = np.full((4, 2), 0.5), ["men", None, "children", "Men"]
    if engine is in_python:
        for name in group[1:]:
            with pytest.raises(ValueError, match=r"^this rule decides the groups \['men', .*; got "):
                engine(exported, P[:1], [name])
        return
    nothing = -1 if engine is in_onnx else None
    assert engine(exported, P, group) == [exported.of_group("men").predict_index(P)[0], *[nothing] * 3]


def test_onnx_rows_that_are_no_probabilities_and_places_beyond_the_groups():
    pytest.importorskip("onnx")
    exported = RULES["weights of 2"]
    model = exported.to_onnx("float64")
    session = pytest.importorskip("onnxruntime").InferenceSession(model.SerializeToString())
    P = np.array([[0.9, 0.1], [0.9, 0.9], [0.9, 0.1], [0.9, 0.1]])
    found = session.run(None, {"proba": P, "group": np.array([0, 0, 3, -1])})[0]
    assert found.tolist() == [exported.of_group("men").predict_index(P[:1])[0], -1, -1, -1]
    assert [each.name for each in session.get_inputs()] == ["proba", "group"]


# --- names ------------------------------------------------------------------------------------------------------------


def test_the_column_of_groups_is_quoted_and_another_than_those_of_classes():
    exported = RULES["weights of 2"]
    assert exported.to_sql("duckdb", group='a"b').startswith('CASE "a""b" WHEN ')
    for group, sentence in [
        ("C 0", "one column twice .* give each class, and the groups, its own$"),
        ("", "^group is the name of a column; got ''$"),
        (3, "^group is the name of a column; got 3$"),
        ("a\0", "a NUL character"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            exported.to_sql(group=group)
    with pytest.raises(ValueError, match=r"^this rule decides all groups alike; leave group out$"):
        exported.of_group("men").to_sql(group="group")


def test_names_of_groups_stay_in_their_quotes():
    """The names are literals for an independent reader of SQL, in every dialect, and Python's source is ASCII."""
    sqlglot = pytest.importorskip("sqlglot")
    for dialect in ("duckdb", "sqlite", "postgres", "mysql", "bigquery", "snowflake", "tsql", "spark", "oracle"):
        again = sqlglot.parse(RULES["weights of 2"].to_sql(dialect, ["a", "b"]), read=dialect)
        assert len(again) == 1
        assert {each.this for each in again[0].find_all(sqlglot.exp.Literal) if each.is_string} == set(NAMES)
    odd = in_groups(several(2)[:2], groups=('"""', "line\nbreak \u2028"))
    assert odd.to_python().isascii()
    P = edge_rows(2, 100)
    group = groups_of(odd, 100)
    assert in_python(odd, P, group) == odd.predict_index(P, group=group).tolist()


@pytest.mark.parametrize(
    ("groups", "dialect", "sentence"),
    [
        (("a\\", "b"), "mysql", r"the group 'a.* has a backslash or a control character.*take such groups"),
        (("Men", "men "), "mysql", "do not tell the groups 'Men' and 'men ' apart; only duckdb, sqlite, standard"),
        (("a", 1), "duckdb", "compares one column with the groups .* of several types; rename them, or use to_python"),
        ((True, 1.5), "duckdb", "of several types"),
        (("a\0", "b"), "sqlite", "^the group .* holds a NUL character, which SQL cannot quote; rename it$"),
        ((float("inf"), 1.0), "duckdb", "writes groups that are strings or finite numbers, and one is inf; rename it"),
        (((1, 2), (2, 3)), "duckdb", "strings or finite numbers"),
    ],
)
def test_groups_that_cannot_be_written_in_sql(groups, dialect, sentence):
    with pytest.raises(ValueError, match=sentence):
        in_groups(several(2)[:2], groups=groups).to_sql(dialect, ["x", "y"])


def test_groups_that_differ_by_case_are_two_groups():
    """DuckDB, SQLite and PostgreSQL compare strings letter by letter."""
    exported = in_groups(several(2)[:2], groups=("Men", "men"))
    P, group = edge_rows(2, 300), groups_of(exported, 300)
    expected = exported.predict_index(P, group=group).tolist()
    assert in_duckdb(exported, P, group) == in_sqlite(exported, P, group) == expected


@pytest.mark.parametrize("name", EXPORTS)
def test_rules_that_are_not_written(name):
    shared = replace(RULES["weights of 2"], groups_known=False)
    sentence = (
        f"^{name} cannot write a rule that decides by the probabilities of groups; call predict with group_proba="
    )
    with pytest.raises(ValueError, match=sentence):
        getattr(shared, name)()
    two = Layout(2, 2).beside([Gains.reduced([[1.0, 1.0], [1.0, 2.0]])] * 2)
    drawing = confmax.DecisionRule(two, np.array([0.5, 0.5]), ("a", "b"), groups=("m", "w"))
    with pytest.raises(ValueError, match=f"^{name} writes deterministic rules, .* draws between 2; tune with"):
        getattr(drawing, name)()


if __name__ == "__main__":
    for name, exported in RULES.items():
        counts = {each: differing_on_edge_rows(exported, engine, int(sys.argv[1])) for each, engine in ENGINES.items()}
        print(f"{name:40}", *(f"{each} {count}" for each, count in counts.items()), flush=True)


@each_engine
def test_a_group_alone_is_decided_like_its_own_rule(engine):
    """The witness is the export of the rule of one group, which knows no groups."""
    exported, P = RULES["offsets of 3"], edge_rows(3, 300)
    for name in NAMES:
        alone = function_of(exported.of_group(name).to_python())
        assert engine(exported, P, [name] * 300) == [alone(row) for row in P.tolist()]
