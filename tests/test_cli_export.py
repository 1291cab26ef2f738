"""`confmax export`: what it writes decides like the rule; errors are one sentence and leave nothing behind."""

import csv
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import confmax as library
from confmax.confusion import Gains
from tests.cli_helpers import document, refusal, run, small
from tests.export_helpers import cells_of, connect, function_of

RULE = library.DecisionRule.from_weights([1.0, 1.5, 2.0], [0.0, 0.1, 0.0], classes=list("abc"))


@pytest.fixture(autouse=True)
def _files(inside):
    """A rule and a table."""
    RULE.save("rule.json")
    small(inside)


def rows():
    with open("small.csv") as file:
        return [[float(row[name]) for name in "abc"] for row in csv.DictReader(file)]


def assert_decides(expression, names):
    found = cells_of(connect("sqlite", RULE), expression, rows(), names)
    np.testing.assert_array_equal(found, RULE.predict_index(rows()))


def test_sql_is_printed_and_decides():
    expression, stderr = run("export", "rule.json", "--to", "sql", "--dialect", "sqlite", "--columns", 'p 1,"p,2",p3')
    assert stderr == "" and expression.count("\n") == 1
    assert_decides(expression, ["p 1", "p,2", "p3"])


def test_columns_are_matched_to_classes_by_name():
    """As tune and apply do: columns given in the order of a file decide the same."""
    expression, stderr = run("export", "rule.json", "--to", "sql", "--columns", "p_c,p_a,p_b")
    assert stderr == "" and expression == RULE.to_sql(columns=["p_a", "p_b", "p_c"]) + "\n"
    # names that fit at their places leave the others at theirs
    assert run("export", "rule.json", "--to", "sql", "--columns", "a,b,x")[0] == RULE.to_sql(columns=list("abx")) + "\n"


def test_sql_needs_no_dialect():
    """Without one it is what DuckDB, PostgreSQL and SQLite all read"""
    expression, stderr = run("export", "rule.json", "--to", "sql")
    assert stderr == "note: the expression reads the columns a, b, c; --columns names others\n"
    assert run("export", "rule.json", "--to", "python")[1] == ""
    assert expression == run("export", "rule.json", "--to", "sql", "--dialect", "standard")[0] == RULE.to_sql() + "\n"
    assert_decides(expression, "abc")


def test_d17_a_rule_knows_the_columns_that_it_was_tuned_on():
    """In a frame, in a file that is opened, and by the command; columns of other names are in the order of classes."""
    P = np.array(rows())
    y = P.argmax(axis=1)
    named = pd.DataFrame({"p_c": P[:, 2], "p_a": P[:, 0], "age": 0.5, "p_b": P[:, 1], "y": np.array(list("abc"))[y]})
    pytest.importorskip("pyarrow")
    named.to_parquet("named.parquet")
    opened = library.open_table("named.parquet", label="y")
    run("tune", "named.parquet", "--label", "y", "--metric", "macro_f1", "-o", "named.json")
    rules = [
        library.maximize("macro_f1", named.drop(columns="age"), "y").rule,
        library.maximize("macro_f1", opened).rule,
        library.DecisionRule.load("named.json"),
    ]
    for rule in rules:
        assert rule.columns == tuple(f"p_{name}" for name in rule.class_names)
        assert library.DecisionRule.from_json(rule.to_json()).columns == rule.columns
        found = cells_of(connect("sqlite", rule), rule.to_sql(labels=True), rows(), ["p_a", "p_b", "p_c"])
        assert found == rule.predict(pd.DataFrame(P, columns=list("abc"))).tolist()
        assert rule.to_sql(columns=rule.class_names) == replace(rule, columns=()).to_sql()
        assert rule.reordered(["c", "a", "b"]).columns == ("p_c", "p_a", "p_b")
    # and so do the rules of other questions
    frame = named.drop(columns="age")
    path = library.frontier("accuracy", "rate[a] <=", frame, "y", levels=3)
    with pytest.raises(library.Infeasible) as missed:
        library.maximize("accuracy", frame, "y", constraints=["recall[a] >= 0.99", "rate[a] <= 0.01"])
    solution = library.maximize("macro_f1", frame, "y")
    adapted = solution.adapt(priors={"a": 0.2, "b": 0.3, "c": 0.5}, tuned_on=(frame.drop(columns="y"), frame["y"]))
    for rule in (path.at(path.levels[0]).rule, missed.value.closest.rule, adapted.rule):
        assert rule.columns == tuple(f"p_{name}" for name in rule.class_names)
    note = run("export", "named.json", "--to", "sql")[1]
    assert note == "note: the expression reads the columns p_c, p_a, p_b; --columns names others\n"
    frame = pd.DataFrame(P, columns=["x0", "x1", "x2"])
    assert library.maximize("macro_f1", frame, y, classes=[0, 1, 2]).rule.columns == ("x0", "x1", "x2")
    assert library.maximize("macro_f1", frame.set_axis([0, 1, 2], axis=1), y).rule.columns == ()


def test_python_is_written_and_decides(tmp_path):
    stdout, _ = run("export", "rule.json", "--to", "python", "--name", "chosen", "-o", "chosen.py")
    assert stdout == "index      0 a, 1 b, 2 c\nwritten    chosen.py\n"
    chosen = function_of((tmp_path / "chosen.py").read_text(), "chosen")
    assert [chosen(row) for row in rows()] == RULE.predict_index(rows()).tolist()
    assert run("export", "rule.json", "--to", "python")[0] == RULE.to_python()


def test_onnx_is_written_and_decides(tmp_path):
    pytest.importorskip("onnx")
    told = document("export", "rule.json", "--to", "onnx", "--dtype", "float64", "--opset", "17", "-o", "rule.onnx")
    data = (tmp_path / "rule.onnx").read_bytes()
    assert told == {
        "rule_file": "rule.json", "to": "onnx", "out": "rule.onnx", "bytes": len(data), "classes": ["a", "b", "c"],
    }  # fmt: skip
    session = pytest.importorskip("onnxruntime").InferenceSession(data)
    found = session.run(["decision"], {"proba": np.array(rows())})[0]
    np.testing.assert_array_equal(found, RULE.predict_index(rows()))


TWO = library.DecisionRule(Gains.reduced([[1, 1], [1, 4]]), np.array([0.25, 0.75]), ("a", "b"))
SQL = ("rule.json", "--to", "sql", "--dialect", "duckdb")
PYTHON = ("rule.json", "--to", "python")
ERRORS = {
    "no rule": (("none.json", "--to", "python"), "there is no rule file none.json"),
    "the way out": (("two.json", "--to", "python", "-o", "two.py"), "--randomized no"),
    "no language": (("rule.json",), "Missing option '--to'"),
    "columns of another number": ((*SQL, "--columns", "a,b"), "columns holds the names of 3 columns"),
    "columns of some classes": ((*SQL, "--columns", "b,a,x"), "no column is named like the class 'c'"),
    "a column twice": ((*SQL, "--columns", "a,b,a"), "two columns of --columns are named like the class 'a'"),
    "a setting of another language": ((*PYTHON, "--opset", "18"), "--opset has no meaning with --to python"),
    "no file for a model": (("rule.json", "--to", "onnx"), "name the file to write with -o"),
    "the rule itself": ((*SQL, "-o", "rule.json"), "-o rule.json is the input file"),
    "no name of a function": ((*PYTHON, "--name", "a b", "-o", "x"), "'a b' cannot name a Python function"),
}


@pytest.mark.parametrize("arguments, sentence", ERRORS.values(), ids=ERRORS)
def test_errors_are_one_sentence(arguments, sentence, tmp_path):
    TWO.save("two.json")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert sentence in refusal("export", *arguments)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_unknown_dialects_and_missing_extras(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sqlglot", None)
    said = refusal("export", "rule.json", "--to", "sql", "--dialect", "postgres")
    assert "the SQL dialect 'postgres' needs sqlglot; install it with: pip install 'confmax[sql]'" in said
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    said = refusal("export", "rule.json", "--to", "onnx", "-o", "x.onnx")
    assert said == "error: to_onnx needs onnx; install it with: pip install 'confmax[onnx]'\n"
