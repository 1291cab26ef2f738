"""What is particular to SQL, ONNX and Python: quoting, lengths, what is refused, merging, missing extras."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from confmax import DecisionRule, LabelRule
from confmax.calibration import MatrixScaling, VectorScaling
from confmax.confusion import Gains
from tests.export_helpers import (
    RULES,
    assert_same_decisions,
    cells_of,
    connect,
    drawn,
    each_rule,
    edge_rows,
    function_of,
    in_duckdb,
    in_sqlite,
    matrix_scaling,
    rule,
    run_onnx,
    scaling,
    sqlite_with_functions,
    table,
)

# --- SQL --------------------------------------------------------------------------------------------------------------

BAD = [[None, 0.5, 0.5], [0.5, 0.5, None], [-0.1, 0.5, 0.6], [0.2, 0.2, 0.2], [0.9, 0.9, 0.9], [0.0, 0.0, 0.0]]
NOT_FINITE = [[float("nan"), 0.5, 0.5], [float("inf"), 0.0, 0.0], [float("inf"), float("-inf"), 1.0]]
OF_THREE = {name: each for name, each in RULES.items() if each.n_classes == 3}
SHORT = {name: each for name, each in RULES.items() if each.n_classes <= 4}
each_of_three = pytest.mark.parametrize("exported", OF_THREE.values(), ids=OF_THREE)


@each_of_three
@pytest.mark.parametrize("most", [None, 0], ids=["plain", "nested"])
@pytest.mark.parametrize("dialect", ["sqlite", "duckdb"])
def test_sql_gives_null_where_predict_refuses(exported, dialect, most, monkeypatch):
    if most is not None:
        monkeypatch.setattr("confmax.export.sql.MOST", most)
    expression = exported.to_sql(dialect, ["a", "b", "c"])
    assert dialect == "duckdb" or ("SELECT" in expression) == (most == 0)
    rows = [[0.2, 0.3, 0.5], *BAD, *NOT_FINITE]
    with connect(dialect) as connection:
        found = cells_of(connection, expression, rows, "abc")
    assert found == [exported.predict_index([rows[0]])[0], *[None] * (len(rows) - 1)]


@each_rule
def test_nested_steps_decide_like_the_plain_expression(exported, monkeypatch):
    monkeypatch.setattr("confmax.export.sql.MOST", 0)
    P = table(exported.n_classes, 1000)
    for engine in (in_sqlite, in_duckdb):
        assert_same_decisions(exported, P, engine(exported, P), share=1e-3)


# rows of several row groups, which DuckDB reads on several threads
MANY = 250_000


@pytest.mark.parametrize("name", ["offsets of 3", "matrix scaling, abstaining"])
def test_duckdb_keeps_the_order_of_the_rows(name, monkeypatch):
    """It makes a join of a sub-query, whose rows come in another order."""
    exported = RULES[name]
    assert "SELECT" not in exported.to_sql("duckdb")
    monkeypatch.setattr("confmax.export.sql.MOST", 0)
    P = table(exported.n_classes, MANY)
    assert_same_decisions(exported, P, in_duckdb(exported, P))


def test_duckdb_has_no_words_for_lambda_functions_in_an_expression():
    """Versions before 1.3 read ``x -> y`` only, versions from 2.0 on ``lambda x: y`` only; this warns nowhere."""
    text = RULES["vector scaling, offsets, 20 classes"].to_sql("duckdb")
    assert "[CASE WHEN GREATEST((r_step).r_score" in text and text.endswith("][1] END")
    assert "->" not in text and "lambda" not in text


def test_columns_are_quoted_and_named_like_the_classes():
    names = ['say "no"', "select", "x; DROP TABLE t --", "Ünï", "{0} %s"]
    exported = rule(drawn(5, offsets=True), names=names)
    P = table(5, 200)
    found = cells_of(connect("sqlite", exported), exported.to_sql("sqlite"), P.tolist(), names)
    np.testing.assert_array_equal(found, exported.predict_index(P))


@pytest.mark.parametrize("dialect", ["sqlite", "duckdb", "standard"])
def test_columns_and_the_table_may_be_named_like_the_parts_of_a_long_expression(dialect):
    """So may a column that the expression does not read."""
    exported, P = rule(drawn(20, offsets=True), scaling(20)), table(20, 50)
    names = [f"R_p{k + 1}" if k % 2 else f"rr_score{k}" for k in range(20)]
    kind = "REAL" if dialect == "sqlite" else "STRUCT(r_p0 DOUBLE, r_by0 DOUBLE)"
    settings = {"table": "r_step", "more": f", r_step {kind}, r_p0 INTEGER DEFAULT 1"}
    for columns, more in ((names, {}), ([f"c {k}" for k in range(20)], settings)):
        with connect(dialect) as connection:
            found = cells_of(connection, exported.to_sql(dialect, columns), P.tolist(), columns, **more)
        np.testing.assert_array_equal(found, exported.predict_index(P))


@pytest.mark.parametrize("engine", [in_duckdb, in_sqlite])
@each_rule
def test_standard_sql_decides_alike_in_every_engine(exported, engine):
    """One text for DuckDB, SQLite and PostgreSQL; the last is not run here."""
    P = table(exported.n_classes)[::200]
    np.testing.assert_array_equal(engine(exported, P, dialect="standard"), exported.predict_index(P))


@pytest.mark.parametrize("exported", SHORT.values(), ids=SHORT)
def test_standard_sql_is_what_postgresql_reads(exported):
    """Functions that it has, a type that it has, no column without a table that is not the outer one's."""
    sqlglot = pytest.importorskip("sqlglot")
    text = exported.to_sql()
    assert text == exported.to_sql("standard")
    parsed = sqlglot.parse_one(text, read="postgres")
    called = {type(node).__name__ for node in parsed.find_all(sqlglot.exp.Func)}
    assert called <= {"Abs", "And", "Case", "Cast", "Exp", "If", "Ln"}
    assert "REAL" not in text and "DOUBLE PRECISION" in text


@pytest.mark.parametrize(
    "calibrator",
    [
        *(RULES[f"{kind} scaling, costs"].calibrator for kind in ("vector", "matrix")),
        RULES["matrix scaling with large powers"].calibrator,
        RULES["a very low temperature"].calibrator,
        VectorScaling([30.0, 1.0, 1.0], np.zeros(3)),
        MatrixScaling([[30.0, -5.0, 0.0], [4.0, 25.0, 0.0], [0.0, 2.0, 20.0]], [0.0, 1.0, 0.0]),
    ],
    ids=str,
)
def test_standard_sql_takes_no_exponential_that_postgresql_refuses(calibrator):
    """There a result of zero or infinity is an error."""
    results = []

    def refusing(x):
        result = math.exp(x)
        results.append(result)
        assert 0 < result < math.inf
        return result

    exported, P = rule(drawn(3, offsets=True), calibrator), edge_rows(3, 1000)
    connection = sqlite_with_functions()
    connection.create_function("EXP", 1, refusing)
    found = cells_of(connection, exported.to_sql(), P.tolist(), ["c 0", "c 1", "c 2"])
    np.testing.assert_array_equal(found, exported.predict_index(P))
    assert len(results) >= 1000


def test_standard_sql_is_linear_and_null_where_rows_are_no_probabilities():
    length = {K: len(rule(drawn(K, offsets=True), scaling(K)).to_sql()) for K in (100, 200)}
    assert length[200] < 2.2 * length[100]
    rows = [(0.5, 0.5, 0.0), (0.5, 0.6, 0.0), (1.2, -0.1, -0.1), (None, 0.5, 0.5)]
    for name in ("weights of 3", "temperature, floor, offsets", "a very low temperature"):
        found = cells_of(connect("sqlite"), RULES[name].to_sql(), rows, ["c 0", "c 1", "c 2"])
        assert [cell is None for cell in found] == [False, True, True, True]


def test_other_dialects_are_translated():
    sqlglot = pytest.importorskip("sqlglot")
    for exported in (RULES["offsets of 3"], RULES["vector scaling, offsets, 20 classes"]):
        for dialect in ("postgres", "bigquery", "snowflake", "mysql", "tsql", "spark", "clickhouse", "trino", "oracle"):
            text = exported.to_sql(dialect)
            again = sqlglot.parse_one(text, read=dialect)
            columns = {column.name for column in again.find_all(sqlglot.exp.Column)}
            assert {str(name) for name in exported.class_names} <= columns
    assert "CAST(`b c'` AS DOUBLE)" in RULES["weights of 2"].to_sql("mysql", ["a", "b c'"])
    for odd in ('b"', "b`", "b]", "b\\", "b\n"):
        with pytest.raises(ValueError, match=r"^columns holds 'b.*only duckdb, sqlite, standard take such names$"):
            RULES["weights of 2"].to_sql("mysql", ["a", odd])
    # back in DuckDB, the translation decides alike
    text = sqlglot.transpile(RULES["offsets of 3"].to_sql("postgres"), read="postgres", write="duckdb")[0]
    P = table(3, 500)
    with connect("duckdb") as connection:
        found = cells_of(connection, text, P.tolist(), ["c 0", "c 1", "c 2"])
    np.testing.assert_array_equal(found, RULES["offsets of 3"].predict_index(P))


@pytest.mark.parametrize(
    "columns, sentence",
    [
        (["a", "b"], r"^columns holds the names of 3 columns, one per class in the rule's order; got \['a', 'b'\]$"),
        ("abc", "^columns holds the names of 3 columns, one per class in the rule's order; got 'abc'$"),
        (["a", "b", 3], "^columns holds the names of 3 columns"),
        (["a", "b", ""], "^columns holds the names of 3 columns"),
        (["a", "b", "A"], r"^columns names one column twice \(SQL does not tell A from a\).*give each class its own$"),
        (["a", "b", "c\0"], "^columns holds a name with a NUL character, which SQL cannot quote; rename that column$"),
    ],
)
def test_bad_columns(columns, sentence):
    with pytest.raises(ValueError, match=sentence):
        RULES["weights of 3"].to_sql("duckdb", columns)


def test_a_wide_matrix_is_refused():
    sentence = (
        "^to_sql writes a calibration by a matrix for at most 50 classes, because its text grows with their square, "
        "and this rule has 51; tune with calibration='vector', or use to_onnx or to_python$"
    )
    with pytest.raises(ValueError, match=sentence):
        rule(drawn(51), matrix_scaling(51)).to_sql()
    assert rule(drawn(51), matrix_scaling(51)).to_python()


def test_unknown_dialects():
    pytest.importorskip("sqlglot")
    known = r"^'klingon' is not a known SQL dialect; the dialects are .*duckdb, .*postgres, .*sqlite, .*tsql$"
    with pytest.raises(ValueError, match=known):
        RULES["weights of 3"].to_sql("klingon")


@pytest.mark.parametrize("names", [[], (), ""])
def test_no_columns_are_not_the_default(names):
    for exported in (RULES["weights of 2"], LabelRule.from_thresholds([0.5, 0.2])):
        for one in (exported, replace(exported, columns=("p", "q"))):
            with pytest.raises(ValueError, match=r"columns holds the names of 2 columns.* got"):
                one.to_sql(columns=names)


def test_without_sqlglot_three_dialects_remain(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sqlglot", None)
    assert "GREATEST" in RULES["weights of 3"].to_sql("duckdb")
    sentence = r"^the SQL dialect 'postgres' needs sqlglot; .* 'confmax\[sql\]', or use duckdb, sqlite, standard$"
    with pytest.raises(ImportError, match=sentence):
        RULES["weights of 3"].to_sql("postgres")


# --- ONNX -------------------------------------------------------------------------------------------------------------


@each_of_three
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("opset", [13, 18])
def test_onnx_gives_minus_one_where_predict_refuses(exported, dtype, opset):
    pytest.importorskip("onnx")
    rows = [[0.2, 0.3, 0.5], *BAD[2:], *NOT_FINITE]
    found = run_onnx(exported.to_onnx(dtype, opset=opset), {"proba": np.array(rows, dtype)})
    assert found.tolist() == [exported.predict_index([rows[0]])[0], *[-1] * (len(rows) - 1)]


@pytest.mark.parametrize("name", ["offsets of 3", "matrix scaling, costs"])
def test_onnx_behind_a_model(name):
    onnx, skl2onnx = pytest.importorskip("onnx"), pytest.importorskip("skl2onnx")
    from sklearn.linear_model import LogisticRegression

    draw = np.random.default_rng(0)
    y = draw.integers(0, 3, 600)
    X = (draw.normal(size=(600, 4)) + y[:, None] * [0.5, -0.3, 0.0, 0.2]).astype(np.float32)
    fitted = LogisticRegression().fit(X, y)
    model = skl2onnx.to_onnx(fitted, X[:1], options={"zipmap": False})
    opset = next(each.version for each in model.opset_import if not each.domain)
    decide = RULES[name].to_onnx(opset=opset)
    fused = onnx.compose.merge_models(model, decide, io_map=[("probabilities", "proba")])
    new = draw.normal(size=(20_000, 4)).astype(np.float32)
    session = pytest.importorskip("onnxruntime").InferenceSession(model.SerializeToString())
    P = session.run(["probabilities"], {"X": new})[0]
    tolerance = 8 * np.finfo(np.float32).eps
    assert_same_decisions(RULES[name], P, run_onnx(fused, {"X": new}), tolerance)
    # and like the model in scikit-learn, which computes in double: 1e-5 of probability decides few rows
    in_double = fitted.predict_proba(new.astype(np.float64))
    assert (RULES[name].predict_index(in_double) != RULES[name].predict_index(P)).mean() < 1e-3


def test_onnx_model_says_what_it_is():
    pytest.importorskip("onnx")
    model = rule(drawn(2), names=["no", "ünsafe\n"]).to_onnx("float64", opset=15)
    found = {entry.key: entry.value for entry in model.metadata_props}
    assert json.loads(found["classes"]) == ["no", "ünsafe\n"] and found["metric"] == "some metric"
    assert [each.version for each in model.opset_import] == [15]
    assert (
        model.SerializeToString()
        == rule(drawn(2), names=["no", "ünsafe\n"]).to_onnx(np.float64, opset=15).SerializeToString()
    )


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        ({"dtype": "float16"}, "^dtype is 'float32' or 'float64', that of the probabilities; got 'float16'$"),
        ({"dtype": "double trouble"}, "^dtype is 'float32' or 'float64'"),
        ({"dtype": None}, "^dtype is 'float32' or 'float64'"),
        ({"opset": 12}, r"^opset is a whole number from 13 to \d+, what this onnx knows; got 12$"),
        ({"opset": 10_000}, "^opset is a whole number"),
        ({"opset": 18.0}, "^opset is a whole number"),
    ],
)
def test_bad_settings_of_onnx(arguments, sentence):
    pytest.importorskip("onnx")
    with pytest.raises(ValueError, match=sentence):
        RULES["weights of 3"].to_onnx(**arguments)


def test_without_onnx(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(ImportError, match=r"^to_onnx needs onnx; install it with: pip install 'confmax\[onnx\]'$"):
        RULES["weights of 3"].to_onnx()


# --- Python -----------------------------------------------------------------------------------------------------------


@each_of_three
def test_python_refuses_what_predict_refuses(exported):
    decide = function_of(exported.to_python())
    row = [0.2, 0.3, 0.5]
    assert decide(tuple(row)) == decide(np.array(row)) == exported.predict_index([row])[0]
    for row in (*BAD[2:], *NOT_FINITE):
        with pytest.raises(
            ValueError, match=r"^pass finite probabilities that sum to one, none negative; these sum to"
        ):
            decide(row)
    with pytest.raises(ValueError, match=r"^this rule decides on 3 probabilities; got 2$"):
        decide([0.5, 0.5])


def test_names_of_a_strange_rule_stay_in_their_comment():
    names = ['"""\nraise SystemExit', "\u2028raise SystemExit", "\r\\\nraise SystemExit"]
    strange = DecisionRule(drawn(3), np.ones(1), tuple(names), 'f1"""\nraise SystemExit')
    assert function_of(strange.to_python())([0.2, 0.3, 0.5]) == strange.predict_index([[0.2, 0.3, 0.5]])[0]


@pytest.mark.parametrize("name", ["not a name", "class", "", "max", "math", 3])
def test_bad_names_of_functions(name):
    with pytest.raises(ValueError, match=r"cannot name a Python function; give a name such as 'decide'$"):
        RULES["weights of 3"].to_python(name)


# --- what is refused --------------------------------------------------------------------------------------------------


class Foreign:
    def transform(self, proba):
        return proba


EXPORTS = {
    "to_sql": lambda exported: exported.to_sql("duckdb"),
    "to_onnx": lambda exported: exported.to_onnx(),
    "to_python": lambda exported: exported.to_python(),
}


@pytest.mark.parametrize("name", EXPORTS)
def test_randomised_rules_and_foreign_calibrators_are_refused_by_name(name):
    two = DecisionRule(Gains.reduced([[1, 1], [1, 4]]), np.array([0.25, 0.75]), ("a", "b"))
    for refused, sentence in (
        (two, "writes deterministic rules, and this randomised rule draws between 2; tune with randomized"),
        (rule(drawn(2), Foreign()), "cannot write the calibration Foreign, an object that is not confmax"),
    ):
        with pytest.raises(ValueError, match=f"^{name} {sentence}"):
            EXPORTS[name](refused)
