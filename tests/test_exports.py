"""Exports decide like `predict`: on random rows, on exact ties, on rows that must be divided, and on none that it refuses."""

import itertools
import json
import sqlite3
from fractions import Fraction

import numpy as np
import pytest

import confmax
from confmax import DecisionRule
from confmax._calibrators import Temperature, VectorScaling
from confmax.confusion import Gains

ROWS = 100_000


def rule(gains, calibrator=None, names=None):
    M = gains.n_decisions
    return DecisionRule(gains, np.ones(1), tuple(names or [f"c {k}" for k in range(M)]), "some metric", 0, calibrator)


def drawn(K, *, offsets=False, seed=0, power=0):
    draw = np.random.default_rng([K, seed])
    a, b = draw.uniform(0.3, 3.0, K), draw.uniform(0.0, 1.0 / K, K) * offsets
    return Gains.reduced(-a / K if power else a, b, power=power)


def scaling(K, *, floor=1e-12):
    draw = np.random.default_rng([K, 7])
    return VectorScaling(draw.uniform(0.5, 1.5, K), draw.normal(0.0, 0.5, K), floor)


COSTS = np.array([[0.0, 2.0, 1.0], [1.0, 0.0, 1.0], [5.0, 0.5, 0.0]])
ABSTAIN = np.hstack([np.eye(4), np.full((4, 1), 0.6)])
RULES = {
    "weights of 2": rule(drawn(2)),
    "weights of 3": rule(drawn(3)),
    "weights of 10": rule(drawn(10)),
    "weights of 100": rule(drawn(100)),
    "weights, one zero and one negative": rule(Gains.reduced([1.0, 0.0, -1.0, 2.0])),
    "a constant": rule(Gains.constant(3, [1])),
    "offsets of 2": rule(drawn(2, offsets=True)),
    "offsets of 3": rule(drawn(3, offsets=True)),
    "offsets of 40": rule(drawn(40, offsets=True)),
    "costs": rule(Gains.from_matrix(-COSTS)),
    "abstaining": rule(Gains.from_matrix(ABSTAIN)),
    "full gains of 12": rule(Gains.from_matrix(np.random.default_rng(3).normal(size=(12, 12)))),
    "distances": rule(drawn(5, offsets=True, power=1)),
    "squared distances": rule(drawn(5, offsets=True, power=2)),
    "temperature, weights": rule(drawn(3), Temperature(1.7)),
    "temperature of one": rule(drawn(3), Temperature(1.0)),
    "temperature, floor, offsets": rule(drawn(3, offsets=True), Temperature(0.6, 0.01)),
    "a very low temperature": rule(drawn(3, offsets=True), Temperature(0.002)),
    "a very high temperature": rule(drawn(3), Temperature(300.0)),
    "vector scaling, weights": rule(drawn(10), scaling(10)),
    "vector scaling, offsets": rule(drawn(4, offsets=True), scaling(4, floor=1e-4)),
    "vector scaling, offsets, 20 classes": rule(drawn(20, offsets=True), scaling(20)),
    "vector scaling, costs": rule(Gains.from_matrix(-COSTS), scaling(3)),
    "vector scaling, distances": rule(drawn(5, offsets=True, power=1), scaling(5)),
    "vector scaling with a power of zero and one below": rule(
        drawn(3), VectorScaling([1.0, 0.0, -0.5], [0.0, -1.0, -3.0], 1e-3)
    ),
}
each_rule = pytest.mark.parametrize("exported", RULES.values(), ids=RULES)


def table(K, n=ROWS, seed=0):
    """Random rows: flat ones, peaked ones, and some with zeros."""
    draw = np.random.default_rng([K, n, seed])
    P = np.vstack([draw.dirichlet(np.full(K, alpha), -(-n // 2)) for alpha in (1.0, 0.2)])[:n]
    P[:50] = np.where(P[:50] < 1.0 / K, 0.0, P[:50])
    return P / P.sum(axis=1, keepdims=True)


# --- the engines, each a function of a rule and a table (n, K) ---------------------------------------------------------


def in_duckdb(exported, P, kind="DOUBLE"):
    duckdb = pytest.importorskip("duckdb")
    pa = pytest.importorskip("pyarrow")
    names = [f"c {k}" for k in range(P.shape[1])]
    given = pa.table({"row": np.arange(len(P)), **{name: P[:, k] for k, name in enumerate(names)}})
    with duckdb.connect() as connection:
        connection.register("given", given)
        columns = ", ".join(f'CAST("{name}" AS {kind}) AS "{name}"' for name in names)
        connection.execute(f"CREATE TABLE scores AS SELECT row, {columns} FROM given")
        query = f"SELECT row, {exported.to_sql('duckdb', names)} AS decision FROM scores ORDER BY row"
        found = connection.execute(query).fetchnumpy()["decision"]
    assert np.ma.count_masked(found) == 0
    return np.asarray(found)


def sqlite_with_functions():
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("SELECT EXP(1.0), LN(2.0)")
    except sqlite3.OperationalError:
        pytest.skip("this build of SQLite has no EXP and LN")
    return connection


def in_sqlite(exported, P):
    names = [f"c {k}" for k in range(P.shape[1])]
    connection = sqlite_with_functions() if exported.calibrator else sqlite3.connect(":memory:")
    quoted = ", ".join(f'"{name}" REAL' for name in names)
    connection.execute(f"CREATE TABLE scores (number INTEGER PRIMARY KEY, {quoted})")
    marks = ", ".join("?" * len(names))
    rows = ((k, *row) for k, row in enumerate(P.tolist()))
    connection.executemany(f"INSERT INTO scores VALUES (?, {marks})", rows)
    found = connection.execute(f"SELECT {exported.to_sql('sqlite', names)} FROM scores ORDER BY number").fetchall()
    return np.array(found).ravel()


def in_python(exported, P):
    names = {}
    exec(exported.to_python("chosen"), names)
    return np.array([names["chosen"](row) for row in P.tolist()])


def run_onnx(model, feed):
    session = pytest.importorskip("onnxruntime").InferenceSession(model.SerializeToString())
    return session.run(["decision"], feed)[0]


def in_onnx(exported, P):
    pytest.importorskip("onnx")
    found = run_onnx(exported.to_onnx(P.dtype.name), {"proba": P})
    assert found.dtype == np.int64
    return found


ENGINES = {"duckdb": in_duckdb, "sqlite": in_sqlite, "python": in_python, "onnx": in_onnx}
each_engine = pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)


def independent_scores(exported, P):
    """Return the scores (n, M) as the definition says, by matrix products in extended precision where there is one."""
    p = P.astype(np.longdouble)
    p = p / p.sum(axis=1, keepdims=True)
    if exported.calibrator is not None:
        c, K = exported.calibrator, P.shape[1]
        a, b = (np.full(K, 1 / c.temperature), 0.0) if isinstance(c, Temperature) else (c.a, c.b)
        z = a * np.log(p + c.floor) + b
        p = np.exp(z - z.max(axis=1, keepdims=True))
        p = p / p.sum(axis=1, keepdims=True)
    return p @ exported.gains.matrices()[0].astype(np.longdouble)


def assert_same_decisions(exported, P, found, tolerance=1e-12, share=1e-4):
    """Decisions are those of `predict`, but for a few rows whose two scores are equal within rounding."""
    expected = exported.predict(P)
    assert found.shape == expected.shape
    differ = np.flatnonzero(found != expected)
    assert len(differ) <= share * len(P)
    scores = independent_scores(exported, P[differ])
    rows = np.arange(len(differ))
    off = np.abs(scores[rows, found[differ]] - scores[rows, expected[differ]])
    assert (off <= tolerance * np.abs(exported.gains.matrices()).max()).all()
    return len(differ)


# --- equality ---------------------------------------------------------------------------------------------------------


@each_engine
@each_rule
def test_decisions_are_those_of_predict(exported, engine):
    K = exported.n_classes
    P = table(K, ROWS if K <= 40 else ROWS // 5)
    assert len(np.unique(exported.predict(P))) > 1 or exported is RULES["a constant"]
    differing = assert_same_decisions(exported, P, engine(exported, P))
    # without logarithms every step is the same operation on the same numbers
    assert differing == 0 or exported.calibrator is not None or exported.gains.power == 1


@each_rule
def test_onnx_decides_single_precision_like_predict(exported):
    K = exported.n_classes
    P = table(K, ROWS if K <= 40 else ROWS // 5).astype(np.float32)
    differing = assert_same_decisions(exported, P, in_onnx(exported, P), tolerance=8 * np.finfo(np.float32).eps)
    assert differing == 0 or exported.calibrator is not None


def simplex_grid(K, steps):
    """Return all rows (n, K) of multiples of 1 / steps that sum to one."""
    return np.array([c for c in itertools.product(range(steps + 1), repeat=K) if sum(c) == steps])


@each_engine
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    "gains",
    [
        Gains.reduced([1, 2, 0.5]),
        Gains.reduced([1, 1, 1, 1]),
        Gains.reduced([1, 2, 1], [0.25, 0, 0.125]),
        Gains.reduced([1, -1, 0], [0, 1, 0.5]),
        Gains.from_matrix([[1, 0, 0.5], [0, 1, 0.5], [0, 0.25, 0.5]]),
        Gains.reduced([-1, -1, -1, -1], power=1),
        Gains.reduced([-1, -2, -1, -1], [0, 1, 0.5, 0], power=2),
    ],
    ids=["weights", "argmax", "offsets", "falling", "matrix", "distances", "squares"],
)
def test_exact_ties_go_to_the_largest_index(gains, dtype, engine):
    """The witness is exact arithmetic in fractions; every number here is a multiple of a power of two."""
    counts = simplex_grid(gains.n_classes, 8)
    G = [[Fraction(cell) for cell in row] for row in gains.matrices()[0].tolist()]
    expected, ties = [], 0
    for row in counts.tolist():
        scores = [sum(Fraction(c, 8) * g[j] for c, g in zip(row, G, strict=True)) for j in range(gains.n_decisions)]
        best = [j for j, score in enumerate(scores) if score == max(scores)]
        expected.append(best[-1])
        ties += len(best) > 1
    assert ties > 0
    np.testing.assert_array_equal(engine(rule(gains), (counts / 8).astype(dtype)), expected)


@each_engine
@pytest.mark.parametrize(
    "name", ["weights of 3", "offsets of 3", "offsets of 40", "temperature, floor, offsets", "costs"]
)
def test_rows_that_sum_to_one_nearly_are_divided_by_their_sum(name, engine):
    exported = RULES[name]
    P = table(exported.n_classes, ROWS // 5)
    P = P.round(4)
    P *= 1 + 4e-4 * np.sign(np.arange(len(P)) % 3 - 1)[:, None]
    P = P[np.abs(P.sum(axis=1) - 1) < 9e-4]
    assert len(P) > 1000
    assert_same_decisions(exported, P, engine(exported, P))
    undivided = P @ exported.gains.matrices()[0] + 0.0
    if name.startswith("offsets"):
        # it matters: without the division some decisions are others
        a, b = exported.gains.coefficients()
        undivided = P * a[0] + b[0]
        assert (undivided.argmax(axis=1) != exported.predict(P)).any()


@each_rule
def test_sql_reads_single_precision_columns_in_double(exported):
    """Sums of single-precision rows are off by 1e-7: they are divided, as `predict` does with the same numbers."""
    P = table(exported.n_classes, ROWS // 5).astype(np.float32)
    assert_same_decisions(exported, P.astype(np.float64), in_duckdb(exported, P, "FLOAT"))


@each_engine
def test_tuned_rules(engine):
    """Rules as they are found, calibration included."""
    draw = np.random.default_rng(5)
    P = table(4, 2000, 1)
    y = np.array([draw.choice(4, p=row) for row in P**1.3 / (P**1.3).sum(axis=1, keepdims=True)])
    new = table(4, ROWS // 5, 2)
    for metric in ("macro_f1", "g_mean", "quadratic_kappa", "linear_kappa", "mcc"):
        for calibration in ("temperature", "vector", None):
            found = confmax.maximize(metric, P, y, calibration=calibration, randomized=False).rule
            assert_same_decisions(found, new, engine(found, new))


# --- SQL --------------------------------------------------------------------------------------------------------------

BAD = [[None, 0.5, 0.5], [0.5, 0.5, None], [-0.1, 0.5, 0.6], [0.2, 0.2, 0.2], [0.9, 0.9, 0.9], [0.0, 0.0, 0.0]]
NOT_FINITE = [[float("nan"), 0.5, 0.5], [float("inf"), 0.0, 0.0], [float("inf"), float("-inf"), 1.0]]
OF_THREE = {name: each for name, each in RULES.items() if each.n_classes == 3}
each_of_three = pytest.mark.parametrize("exported", OF_THREE.values(), ids=OF_THREE)


@each_of_three
@pytest.mark.parametrize("most", [None, 0], ids=["plain", "nested"])
def test_sql_gives_null_where_predict_refuses(exported, most, monkeypatch):
    if most is not None:
        monkeypatch.setattr("confmax._export_sql.MOST", most)
    expression = exported.to_sql("sqlite", ["a", "b", "c"])
    assert ("SELECT" in expression) == (most == 0)
    rows = [[0.2, 0.3, 0.5], *BAD, *NOT_FINITE]
    connection = sqlite_with_functions()
    connection.execute("CREATE TABLE t (a REAL, b REAL, c REAL)")
    connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    found = [cell for (cell,) in connection.execute(f"SELECT {expression} FROM t ORDER BY rowid")]
    assert found == [exported.predict([rows[0]])[0], *[None] * (len(rows) - 1)]
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (row INTEGER, a DOUBLE, b DOUBLE, c DOUBLE)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", [[k, *row] for k, row in enumerate(rows)])
        expression = exported.to_sql("duckdb", ["a", "b", "c"])
        cells = connection.execute(f"SELECT {expression}, row FROM t ORDER BY row").fetchall()
    assert [cell for cell, _ in cells] == found


@each_rule
def test_nested_selects_decide_like_the_plain_expression(exported, monkeypatch):
    monkeypatch.setattr("confmax._export_sql.MOST", 0)
    P = table(exported.n_classes, 3000)
    for engine in (in_sqlite, in_duckdb):
        assert_same_decisions(exported, P, engine(exported, P), share=1e-3)


def test_sql_is_short():
    """Weights: K log K of scores. What repeats sums: linear in K, in selects."""
    length = {K: len(rule(drawn(K)).to_sql("duckdb")) for K in (10, 100)}
    assert length[100] < 20 * length[10] < 60_000
    nested = {K: rule(drawn(K, offsets=True), scaling(K)).to_sql("sqlite") for K in (50, 100)}
    assert all(text.startswith("(SELECT CASE WHEN") for text in nested.values())
    assert len(nested[100]) < 2.1 * len(nested[50]) < 40_000
    assert "SELECT" not in rule(drawn(20, offsets=True)).to_sql("duckdb")


def test_columns_are_quoted_and_named_like_the_classes():
    names = ['say "no"', "select", "x; DROP TABLE t --", "Ünï", "{0} %s"]
    exported = rule(drawn(5, offsets=True), names=names)
    P = table(5, 200)
    connection = sqlite3.connect(":memory:")
    quoted = ", ".join('"' + name.replace('"', '""') + '" REAL' for name in names)
    connection.execute(f"CREATE TABLE t ({quoted})")
    connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", P.tolist())
    found = connection.execute(f"SELECT {exported.to_sql('sqlite')} FROM t ORDER BY rowid").fetchall()
    np.testing.assert_array_equal(np.ravel(found), exported.predict(P))


@pytest.mark.parametrize("dialect", ["sqlite", "duckdb"])
def test_columns_may_be_named_like_the_parts_of_a_long_expression(dialect):
    exported = rule(drawn(20, offsets=True), scaling(20))
    names = [f"R_p{k + 1}" if k % 2 else f"rr_score{k}" for k in range(20)]
    P = table(20, 50)
    connection = sqlite_with_functions() if dialect == "sqlite" else pytest.importorskip("duckdb").connect()
    typed = ", ".join(f'"{name}" {"REAL" if dialect == "sqlite" else "DOUBLE"}' for name in names)
    connection.execute(f"CREATE TABLE t (row INTEGER, {typed})")
    rows = [[k, *row] for k, row in enumerate(P.tolist())]
    connection.executemany(f"INSERT INTO t VALUES ({', '.join('?' * 21)})", rows)
    cells = connection.execute(f"SELECT row, {exported.to_sql(dialect, names)} FROM t ORDER BY row").fetchall()
    connection.close()
    np.testing.assert_array_equal([cell for _, cell in cells], exported.predict(P))


def test_other_dialects_are_translated():
    sqlglot = pytest.importorskip("sqlglot")
    for exported in (RULES["offsets of 3"], RULES["vector scaling, offsets, 20 classes"]):
        for dialect in ("postgres", "bigquery", "snowflake", "mysql", "tsql", "spark", "clickhouse", "trino", "oracle"):
            text = exported.to_sql(dialect)
            again = sqlglot.parse_one(text, read=dialect)
            columns = {column.name for column in again.find_all(sqlglot.exp.Column)}
            assert {str(name) for name in exported.class_names} <= columns
    assert RULES["weights of 2"].to_sql("mysql", ["a", "b`"]).count("`b```") > 0
    # back in DuckDB, the translation decides alike
    text = sqlglot.transpile(RULES["offsets of 3"].to_sql("postgres"), read="postgres", write="duckdb")[0]
    P = table(3, 500)
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        connection.execute('CREATE TABLE t (row INTEGER, "c 0" DOUBLE, "c 1" DOUBLE, "c 2" DOUBLE)')
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", [[k, *row] for k, row in enumerate(P.tolist())])
        cells = connection.execute(f"SELECT {text} FROM t ORDER BY row").fetchall()
    np.testing.assert_array_equal(np.ravel(cells), RULES["offsets of 3"].predict(P))


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


def test_unknown_dialects():
    pytest.importorskip("sqlglot")
    known = r"^'klingon' is no SQL dialect known here; the dialects are .*duckdb, .*postgres, .*sqlite, .*tsql$"
    with pytest.raises(ValueError, match=known):
        RULES["weights of 3"].to_sql("klingon")


def test_without_sqlglot_the_two_dialects_remain(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sqlglot", None)
    assert "GREATEST" in RULES["weights of 3"].to_sql("duckdb")
    sentence = r"^without sqlglot the SQL dialects are duckdb and sqlite, not 'postgres'; .* 'confmax\[sql\]'$"
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
    assert found.tolist() == [exported.predict([rows[0]])[0], *[-1] * (len(rows) - 1)]


@pytest.mark.parametrize("name", ["weights of 3", "offsets of 3", "costs", "vector scaling, costs"])
def test_onnx_behind_a_model(name):
    onnx, skl2onnx = pytest.importorskip("onnx"), pytest.importorskip("skl2onnx")
    from sklearn.linear_model import LogisticRegression

    draw = np.random.default_rng(0)
    y = draw.integers(0, 3, 600)
    X = (draw.normal(size=(600, 4)) + y[:, None] * [0.5, -0.3, 0.0, 0.2]).astype(np.float32)
    fitted = LogisticRegression().fit(X, y)
    model = skl2onnx.to_onnx(fitted, X[:1], options={"zipmap": False}, target_opset=18)
    opset = next(each.version for each in model.opset_import if not each.domain)
    decide = RULES[name].to_onnx(opset=opset)
    model.ir_version = decide.ir_version
    fused = onnx.compose.merge_models(model, decide, io_map=[("probabilities", "proba")], outputs=["decision"])
    new = draw.normal(size=(ROWS, 4)).astype(np.float32)
    session = pytest.importorskip("onnxruntime").InferenceSession(model.SerializeToString())
    P = session.run(["probabilities"], {"X": new})[0]
    tolerance = 8 * np.finfo(np.float32).eps
    assert_same_decisions(RULES[name], P, run_onnx(fused, {"X": new}), tolerance)
    # and like the model in scikit-learn, which computes in double: 1e-5 of probability decides few rows
    assert (RULES[name].predict(fitted.predict_proba(new.astype(np.float64))) != RULES[name].predict(P)).mean() < 1e-3


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
    names = {}
    exec(exported.to_python(), names)
    assert names["decide"]((0.2, 0.3, 0.5)) == exported.predict([[0.2, 0.3, 0.5]])[0]
    assert names["decide"](np.array([0.2, 0.3, 0.5])) == exported.predict([[0.2, 0.3, 0.5]])[0]
    for row in (*BAD[2:], *NOT_FINITE):
        with pytest.raises(ValueError, match="^pass finite probabilities that sum to one, none negative; these sum to"):
            names["decide"](row)
    with pytest.raises(ValueError, match="^this rule decides on 3 probabilities; got 2$"):
        names["decide"]([0.5, 0.5])


@each_rule
def test_python_has_no_dependencies(exported):
    source = exported.to_python()
    imports = [line for line in source.splitlines() if "import" in line]
    calibrates = exported.calibrator not in (None, Temperature(1.0))
    assert imports == (["import math"] if calibrates else [])


def test_names_of_a_strange_rule_stay_in_their_comment():
    names = ['"""\nraise SystemExit', "\u2028raise SystemExit", "\r\\\nraise SystemExit"]
    strange = DecisionRule(drawn(3), np.ones(1), tuple(names), 'f1"""\nraise SystemExit')
    found = {}
    exec(strange.to_python(), found)
    assert found["decide"]([0.2, 0.3, 0.5]) == strange.predict([[0.2, 0.3, 0.5]])[0]


@pytest.mark.parametrize("name", ["not a name", "class", "", "max", "math", 3])
def test_bad_names_of_functions(name):
    with pytest.raises(ValueError, match="cannot name a Python function; give a name such as 'decide'$"):
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
    drawn_between = (
        f"^{name} writes deterministic rules, and this randomised rule draws between 2; tune with randomized"
    )
    with pytest.raises(ValueError, match=drawn_between):
        EXPORTS[name](two)
    foreign = rule(drawn(2), Foreign())
    with pytest.raises(
        ValueError, match=f"^{name} cannot write the calibration Foreign, an object that is not confmax"
    ):
        EXPORTS[name](foreign)
