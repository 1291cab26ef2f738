"""Exports with ``labels=True`` return what `predict` returns, and no class name ends its quotes."""

import json
from dataclasses import replace

import numpy as np
import pytest

from confmax import DecisionRule
from confmax.confusion import Gains
from tests.cli_helpers import document, run
from tests.export_helpers import ABSTAIN, abstaining, cells_of, connect, drawn, function_of, table
from tests.export_helpers import in_python as index_in_python

HOSTILE = ("'; DROP TABLE scores; --", 'a"b`c]d\\', "line\nbreak ''' \"\"\" \u2028 \U0001f600")
NAMES = {
    "names": ("no", "maybe", "don't know"),
    "hostile": HOSTILE,
    "an empty name": ("", "b", "c"),
    "integers": (7, -3, 0),
    "large": (2**63 - 1, -(2**63) + 1, 0),
    "floats": (0.1, -2.5, 1e300),
    "numbers in text": ("0", "1", "2.5"),
    "mixed": (0, "abstain", 2.5),
    "positions": (0, 1, 2),
}
each_kind = pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)


def rule(names, gains=None):
    return DecisionRule(drawn(3, offsets=True) if gains is None else gains, np.ones(1), tuple(names))


def expected(exported, P, *, one_type=True):
    """Return what `predict` decides, in strings where names are of several kinds and the format has one type."""
    labels = exported.predict(P).tolist()
    mixed = one_type and any(isinstance(name, str) for name in exported.class_names)
    return [str(label) for label in labels] if mixed else labels


def in_sql(exported, P, dialect):
    columns = [f"p{k}" for k in range(P.shape[1])]
    with connect(dialect) as connection:
        return cells_of(connection, exported.to_sql(dialect, columns, labels=True), P.tolist(), columns)


def in_python(exported, P):
    decide = function_of(exported.to_python(labels=True))
    return [decide(row) for row in P.tolist()]


def in_onnx(exported, P):
    pytest.importorskip("onnx")
    model = exported.to_onnx("float64", labels=True)
    session = pytest.importorskip("onnxruntime").InferenceSession(model.SerializeToString())
    assert [each.name for each in session.get_outputs()] == ["decision", "index"]
    return session.run(None, {"proba": P})


# --- what is decided -------------------------------------------------------------------------------------------------


@each_kind
@pytest.mark.parametrize("most", [None, 0], ids=["plain", "nested"])
@pytest.mark.parametrize("dialect", ["sqlite", "duckdb", "standard"])
def test_labels_in_sql(names, most, dialect, monkeypatch):
    if most is not None:
        monkeypatch.setattr("confmax.export.sql.MOST", most)
    P, exported = table(3, 500), rule(names)
    found = in_sql(exported, P, dialect)
    assert found == expected(exported, P)
    assert len(set(found)) == 3


@each_kind
def test_labels_in_python(names):
    P, exported = table(3, 500), rule(names)
    found = in_python(exported, P)
    assert found == expected(exported, P, one_type=False)
    assert {type(label) for label in found} == {type(name) for name in names}
    assert index_in_python(exported, P).tolist() == exported.predict_index(P).tolist()


@each_kind
def test_labels_in_onnx(names):
    P, exported = table(3, 500), rule(names)
    found, index = in_onnx(exported, P)
    assert found.tolist() == expected(exported, P)
    assert index.tolist() == exported.predict_index(P).tolist()


@pytest.mark.parametrize("names", [(False, True), (True, False)])
def test_truth_values(names):
    P = np.array([[0.7, 0.3], [0.2, 0.8]])
    exported = rule(names, Gains.reduced([1.0, 1.0]))
    assert in_sql(exported, P, "sqlite") == list(names)  # SQLite has 0 and 1
    found = in_sql(exported, P, "duckdb")
    assert [type(cell) for cell in found] == [bool, bool]
    assert found == list(names)
    assert in_onnx(exported, P)[0].dtype == np.bool_
    assert in_onnx(exported, P)[0].tolist() == list(names)


@pytest.mark.parametrize("gains", [Gains.from_matrix(ABSTAIN), abstaining(4)], ids=["full", "by an offset"])
@pytest.mark.parametrize(
    "names", [("a", "b", "c", "d", "abstain"), (0, 1, 2, 3, -1), (0, 1, 2, 3, "ask"), (0, 1, 2, 3.5, -1)]
)
def test_further_decisions_have_labels(names, gains):
    P = table(4, 300)
    exported = replace(rule(names, gains), abstain=names[-1])
    found = in_python(exported, P)
    assert names[-1] in found
    assert found == expected(exported, P, one_type=False)
    assert in_sql(exported, P, "sqlite") == expected(exported, P)
    assert in_sql(exported, P, "duckdb") == expected(exported, P)
    assert in_onnx(exported, P)[0].tolist() == expected(exported, P)


def test_a_refused_row_is_not_an_abstention():
    """Both are -1 beside integers in ONNX, and the index tells them apart."""
    P = np.array([[0.9, 0.1], [0.5, 0.5], [0.9, 0.9]])
    exported = DecisionRule(Gains.reduced([1, 1], [0, 0, 0.7]), np.ones(1), (0, 1, -1), abstain=-1)
    cells = cells_of(connect("sqlite"), exported.to_sql("standard", ["p", "q"], labels=True), P.tolist(), ["p", "q"])
    assert cells == [0, -1, None]
    found, index = in_onnx(exported, P)
    assert found.tolist() == [0, -1, -1] and index.tolist() == [0, 2, -1]


# --- rows that are refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "refused"), [(("a", "b", "c"), ""), ((-1, 0, 1), -1), ((0.5, 1.5, -1.0), np.nan), ((True, False, 2), -1)]
)
def test_rows_that_predict_refuses(names, refused):
    P = np.array([[0.2, 0.3, 0.5], [0.5, 0.5, 0.5], [-0.5, 0.5, 1.0], [np.nan, 0.5, 0.5]])
    exported = rule(names)
    label = expected(exported, P[:1])[0]
    assert in_sql(exported, P, "sqlite") == [label, None, None, None]
    with pytest.raises(ValueError, match=r"^pass finite probabilities that sum to one"):
        in_python(exported, P[1:2])
    found, index = in_onnx(exported, P)
    assert index.tolist() == [exported.predict_index(P[:1])[0], -1, -1, -1]
    np.testing.assert_array_equal(found, np.array([label, refused, refused, refused], found.dtype))


# --- quotes ----------------------------------------------------------------------------------------------------------


def test_labels_of_a_stranger_stay_in_their_quotes():
    """The whole text is one literal per class for an independent reader of Python and of SQL."""
    source = rule(HOSTILE).to_python(labels=True)
    assert source.isascii()
    assert source.count("\n") == rule(NAMES["names"]).to_python(labels=True).count("\n")
    sqlglot = pytest.importorskip("sqlglot")
    for dialect in ("duckdb", "sqlite"):
        statements = sqlglot.parse(rule(HOSTILE).to_sql(dialect, ["a", "b", "c"], labels=True), read=dialect)
        assert len(statements) == 1
        found = {each.this for each in statements[0].find_all(sqlglot.exp.Literal) if each.is_string}
        assert found == set(HOSTILE)


def test_labels_in_other_dialects():
    sqlglot = pytest.importorskip("sqlglot")
    names = ("don't know", "'; DROP TABLE x; --", 'a"b`c]')
    for dialect in ("postgres", "bigquery", "snowflake", "mysql", "tsql", "spark", "clickhouse", "trino", "oracle"):
        text = rule(names).to_sql(dialect, ["a", "b", "c"], labels=True)
        again = sqlglot.parse(text, read=dialect)
        assert len(again) == 1
        assert {each.this for each in again[0].find_all(sqlglot.exp.Literal) if each.is_string} == set(names)
    for odd in ("b\\", "b\n"):
        sentence = r"^the label 'b.* has a backslash or a control .* only duckdb, sqlite, standard take such labels$"
        with pytest.raises(ValueError, match=sentence):
            rule(("a", odd, "c")).to_sql("mysql", ["a", "b", "c"], labels=True)


# --- what cannot be written ------------------------------------------------------------------------------------------

REFUSED = {
    "None": (
        ("a", None, "c"),
        r"^labels=True writes strings and finite numbers, and a class is None; export the index$",
    ),
    "infinity": ((1.0, 2.0, np.inf), "^labels=True writes strings and finite numbers, and a class is inf"),
    "large": ((2**63, 0, 1), "^labels=True writes integers of 64 bits, and a class is larger; export the index$"),
    "alike": ((1, "1", "b"), r"^labels=True writes \[1, '1', 'b'\] as strings, of which two are equal; export the"),
    "half a letter": (
        ("a", "\ud800", "c"),
        r"^labels=True writes valid Unicode, and a class is not \(.*\); export the",
    ),
}


@pytest.mark.parametrize(("names", "sentence"), REFUSED.values(), ids=REFUSED)
def test_labels_that_cannot_be_written(names, sentence):
    pytest.importorskip("onnx")
    exported = rule(names)
    for write in (
        lambda: exported.to_sql("duckdb", ["a", "b", "c"], labels=True),
        lambda: exported.to_onnx(labels=True),
    ):
        with pytest.raises(ValueError, match=sentence):
            write()


def test_other_refusals():
    pytest.importorskip("onnx")
    with pytest.raises(ValueError, match=r"^the label 'b\\x00' holds a NUL character, which SQL cannot quote"):
        rule(("a", "b\0", "c")).to_sql("sqlite", ["a", "b", "c"], labels=True)
    for write in (rule("abc").to_python, rule("abc").to_onnx):
        with pytest.raises(ValueError, match=r"^labels is True for labels or False for the index; got 'yes'$"):
            write(labels="yes")


# --- the command line ------------------------------------------------------------------------------------------------


def test_the_command_writes_labels(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exported = rule(("no", "maybe", "yes"))
    exported.save("rule.json")
    P = table(3, 50)
    decide = function_of(run("export", "rule.json", "--to", "python", "--labels")[0])
    assert [decide(row) for row in P.tolist()] == exported.predict(P).tolist()
    sql = run("export", "rule.json", "--to", "sql", "--dialect", "sqlite", "--labels")[0]
    assert sql == exported.to_sql("sqlite", labels=True) + "\n"
    pytest.importorskip("onnx")
    told = document("export", "rule.json", "--to", "onnx", "--labels", "-o", "rule.onnx")
    assert told["classes"] == ["no", "maybe", "yes"]
    assert (tmp_path / "rule.onnx").read_bytes() == exported.to_onnx(labels=True).SerializeToString()
    assert json.loads((tmp_path / "rule.json").read_text())["classes"] == ["no", "maybe", "yes"]
