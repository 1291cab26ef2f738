"""Rules of every kind that can be exported, engines that run exports, and what deciding like `predict` means."""

import functools
import sqlite3
from dataclasses import replace

import numpy as np
import pytest

from confmax import DecisionRule
from confmax.calibration import MatrixScaling, Temperature, VectorScaling
from confmax.confusion import Gains

ROWS = 20_000


def rule(gains, calibrator=None, names=None):
    M = gains.n_decisions
    return DecisionRule(gains, np.ones(1), tuple(names or [f"c {k}" for k in range(M)]), "some metric", 0, calibrator)


def drawn(K, *, offsets=False, seed=0, power=0):
    draw = np.random.default_rng([K, seed])
    a, b = draw.uniform(0.3, 3.0, K), draw.uniform(0.0, 1.0 / K, K) * offsets
    return Gains.reduced(-a / K if power else a, b, power=power)


def abstaining(K, *, power=0):
    """Return gains that abstain from a good part of the rows: where no score of a class is above an offset."""
    gains = drawn(K, offsets=True, power=power)
    a, b = gains.coefficients()
    # the score of a class that is sure is its weight and offset; a distance of a tenth of the scale is far
    last = a.mean() * (0.7 if power == 0 else ((K - 1) / 10) ** power) + b.mean()
    return Gains.reduced(a, np.append(b[0], last), power=power)


def scaling(K, *, floor=1e-12):
    draw = np.random.default_rng([K, 7])
    return VectorScaling(draw.uniform(0.5, 1.5, K), draw.normal(0.0, 0.5, K), floor)


def matrix_scaling(K, *, floor=1e-12):
    draw, a = np.random.default_rng([K, 8]), scaling(K).a
    return MatrixScaling(np.diag(a) + draw.normal(0.0, 0.6 / K, (K, K)), draw.normal(0.0, 0.5, K), floor)


def keeping(calibrator, k):
    """Return a calibration of all classes but k."""
    return replace(calibrator, kept=k)


COSTS = np.array([[0.0, 2.0, 1.0], [1.0, 0.0, 1.0], [5.0, 0.5, 0.0]])
ABSTAIN = np.hstack([np.eye(4), np.full((4, 1), 0.6)])
RULES = {
    "weights of 2": rule(drawn(2)),
    "weights of 3": rule(drawn(3)),
    "weights of 100": rule(drawn(100)),
    "weights, one zero and one negative": rule(Gains.reduced([1.0, 0.0, -1.0, 2.0])),
    "a constant": rule(Gains.constant(3, [1])),
    "offsets of 3": rule(drawn(3, offsets=True)),
    "offsets of 40": rule(drawn(40, offsets=True)),
    "costs": rule(Gains.from_matrix(-COSTS)),
    "abstaining": rule(Gains.from_matrix(ABSTAIN)),
    "abstaining by an offset": rule(abstaining(4)),
    "abstaining by an offset, 40 classes": rule(abstaining(40)),
    "three further decisions": rule(Gains.reduced([1.0, 2.0, 1.5], [0.0, -0.1, 0.1, 0.7, 0.8, 0.6])),
    "abstaining below a distance": rule(abstaining(5, power=1)),
    "full gains of 12": rule(Gains.from_matrix(np.random.default_rng(3).normal(size=(12, 12)))),
    "distances": rule(drawn(5, offsets=True, power=1)),
    "squared distances": rule(drawn(5, offsets=True, power=2)),
    "temperature, weights": rule(drawn(3), Temperature(1.7)),
    "temperature, floor, offsets": rule(drawn(3, offsets=True), Temperature(0.6, 0.01)),
    "a very low temperature": rule(drawn(3, offsets=True), Temperature(0.002)),
    "a very high temperature": rule(Gains.reduced([1.0, 1.001, 0.999]), Temperature(300.0)),
    "vector scaling, offsets": rule(drawn(4, offsets=True), scaling(4, floor=1e-4)),
    "vector scaling, offsets, 20 classes": rule(drawn(20, offsets=True), scaling(20)),
    "vector scaling, costs": rule(Gains.from_matrix(-COSTS), scaling(3)),
    "vector scaling with a power of zero and one below": rule(
        drawn(3), VectorScaling([1.0, 0.0, -0.5], [0.0, -1.0, -3.0], 1e-3)
    ),
    "vector scaling, abstaining": rule(abstaining(10), scaling(10)),
    "matrix scaling, abstaining": rule(abstaining(4), matrix_scaling(4, floor=1e-4)),
    "matrix scaling, weights of 2": rule(drawn(2), matrix_scaling(2)),
    "matrix scaling, offsets": rule(drawn(4, offsets=True), matrix_scaling(4, floor=1e-4)),
    "matrix scaling, offsets, 20 classes": rule(drawn(20, offsets=True), matrix_scaling(20)),
    "matrix scaling, costs": rule(Gains.from_matrix(-COSTS), matrix_scaling(3)),
    "matrix scaling with large powers": rule(
        drawn(3, offsets=True), MatrixScaling([[9.0, 8.0, 0.0], [-9.0, 1.0, 7.0], [0.0, 0.0, 9.0]], [0.0, -1.0, 2.0])
    ),
}


def beside(K, k=1, cut=0.3, others=None, *, never=0.0):
    """Return gains that decide class k from ``cut`` on, else by gains of the others, as the search of thresholds does.

    ``never`` is the offset of class k where its probability does not matter.
    """
    a, b = (np.full(K, 2.0**-70), np.full(K, -(2.0**-70))) if others is None else (part[0] for part in others.pair())
    if others is not None:
        largest = max(np.abs(a).max(), np.abs(b).max())
        a, b = a / largest * 2.0**-70, (b / largest - 2.0) * 2.0**-70
    a[k], b[k] = (0.0, never) if never else (1.0, -cut)
    return Gains.reduced(a, b)


RULES |= {
    "one threshold of 2": rule(beside(2)),
    "one threshold of 2, without a weight": rule(Gains.reduced([0.0, 1.0], [0.0, -0.375])),
    "one threshold of 3": rule(beside(3, 2, 0.87)),
    "one threshold of 100": rule(beside(100, 50, 0.0625)),
    "one threshold, as ties are broken": rule(Gains.reduced([2.0**-68, 2.0, 2.0**-68], [0.0, -0.2, 0.0])),
    "one threshold that no row reaches": rule(beside(4, 3, never=-1.0)),
    "one threshold, others by p/prior": rule(beside(4, 3, 0.4, Gains.reduced([1.0, 9.0, 2.5, 5.0]))),
    "one threshold, others by offsets, 40 classes": rule(beside(40, 7, 0.05, drawn(40, offsets=True))),
    "temperature, one threshold, 40 classes": rule(beside(40, 2, 0.1), Temperature(0.6)),
    "vector scaling, one threshold, 20 classes": rule(beside(20, 1, 0.1), scaling(20)),
    "vector scaling, one threshold, others by weights": rule(beside(4, 1, 0.35, drawn(4)), scaling(4)),
    "vector scaling, one threshold, others by offsets": rule(beside(4, 1, 0.35, drawn(4, offsets=True)), scaling(4)),
    "matrix scaling, one threshold, others by offsets": rule(
        beside(20, 3, 0.1, drawn(20, offsets=True)), matrix_scaling(20)
    ),
    "one threshold on a class that is not calibrated": rule(beside(4, 3, 0.87), keeping(matrix_scaling(4), 3)),
    "one threshold, not calibrated, 20 classes": rule(beside(20, 1, 0.1), keeping(matrix_scaling(20), 1)),
    "one threshold, another class is not calibrated": rule(beside(4, 1, 0.35), keeping(matrix_scaling(4), 2)),
    "one threshold, not calibrated, others by offsets": rule(
        beside(20, 3, 0.1, drawn(20, offsets=True)), keeping(matrix_scaling(20), 3)
    ),
}
RULES |= {
    "abstaining, one class is not calibrated": rule(abstaining(10), keeping(scaling(10), 9)),
    "costs, one class is not calibrated": rule(Gains.from_matrix(-COSTS), keeping(scaling(3), 1)),
    "large powers, one class is not calibrated": rule(
        drawn(3, offsets=True),
        MatrixScaling([[9.0, 8.0, 0.0], [-9.0, 1.0, 7.0], [0.0, 0.0, 9.0]], [0.0, -1.0, 2.0], kept=1),
    ),
}
ONE_THRESHOLD = {name: exported for name, exported in RULES.items() if "one threshold" in name}
each_rule = pytest.mark.parametrize("exported", RULES.values(), ids=RULES)


@functools.lru_cache(maxsize=4)
def table(K, n=ROWS, seed=0):
    """Random rows: flat ones, peaked ones, and some with zeros."""
    draw = np.random.default_rng([K, n, seed])
    P = np.vstack([draw.dirichlet(np.full(K, alpha), -(-n // 2)) for alpha in (1.0, 0.2)])[:n]
    P[:50] = np.where(P[:50] < 1.0 / K, 0.0, P[:50])
    P /= P.sum(axis=1, keepdims=True)
    P.flags.writeable = False
    return P


def edge_rows(K, n, seed=0):
    """Return rows at the ends of what may be given: zeros, ones, ties, sums off by nearly 1e-3, tiny probabilities."""
    draw = np.random.default_rng([K, n, seed])
    # powers of two at random, some of them tiny, sum to one only after the division
    P = np.exp2(-draw.integers(0, 60, (n, K)).astype(np.float64))
    kind = np.arange(n) % 5
    P[kind == 0] *= draw.random((int((kind == 0).sum()), K)) < 0.5
    P[kind == 1] = np.eye(K)[draw.integers(0, K, int((kind == 1).sum()))]
    P[kind == 2] = draw.integers(0, 3, (int((kind == 2).sum()), K))
    P[P.sum(axis=1) == 0.0] = 1.0
    P /= P.sum(axis=1, keepdims=True)
    P[kind == 3] *= draw.choice([1 - 9.9e-4, 1 + 9.9e-4, 1 - 1e-15, 1 + 1e-7], (int((kind == 3).sum()), 1))
    return P


# --- the engines, each a function of a rule and a table (n, K) --------------------------------------------------------


def in_duckdb(exported, P, kind="DOUBLE", dialect="duckdb"):
    duckdb = pytest.importorskip("duckdb")
    pa = pytest.importorskip("pyarrow")
    names = [f"c {k}" for k in range(P.shape[1])]
    given = pa.table({"row": np.arange(len(P)), **{name: P[:, k] for k, name in enumerate(names)}})
    with duckdb.connect() as connection:
        connection.register("given", given)
        columns = ", ".join(f'CAST("{name}" AS {kind}) AS "{name}"' for name in names)
        connection.execute(f"CREATE TABLE scores AS SELECT row, {columns} FROM given")
        # one thread more than this machine may have: row groups end in any order
        connection.execute("SET threads = 4")
        expression = exported.to_sql(dialect, names)
        # what DuckDB alone reads keeps the order of the rows; sub-queries do not
        query = f"SELECT {expression} AS decision FROM scores"
        if dialect != "duckdb":
            query = f"SELECT row, {expression} AS decision FROM scores ORDER BY row"
        found = connection.execute(query).fetchnumpy()["decision"]
    assert np.ma.count_masked(found) == 0
    return np.asarray(found)


class Closed(sqlite3.Connection):
    """A database that closes with its last name, in whatever thread: from Python 3.13 on, an open one warns."""

    def __del__(self):
        self.close()


def sqlite():
    """Return a new database of SQLite in memory."""
    return sqlite3.connect(":memory:", factory=Closed, check_same_thread=False)


def sqlite_with_functions():
    connection = sqlite()
    try:
        connection.execute("SELECT EXP(1.0), LN(2.0)")
    except sqlite3.OperationalError:
        pytest.skip("this build of SQLite has no EXP and LN")
    return connection


def connect(dialect, exported=None):
    """Return a new database: SQLite for its dialect, DuckDB for others; SQLite has EXP and LN if a rule takes them."""
    if dialect != "sqlite":
        return pytest.importorskip("duckdb").connect()
    return sqlite() if exported is not None and not exported.calibrator else sqlite_with_functions()


def cells_of(connection, expression, rows, names, *, table="scores", more=""):
    """Return what an expression gives on rows of the columns ``names``, in order; ``more`` declares further columns."""
    quoted = ['"' + name.replace('"', '""') + '"' for name in names]
    typed = ", ".join(f"{name} DOUBLE PRECISION" for name in quoted)
    connection.execute(f"CREATE TABLE {table} (number INTEGER, {typed}{more})")
    insert = f"INSERT INTO {table} (number, {', '.join(quoted)}) VALUES ({', '.join('?' * (1 + len(quoted)))})"
    connection.executemany(insert, [[k, *row] for k, row in enumerate(rows)])
    found = connection.execute(f"SELECT number, {expression} FROM {table} ORDER BY number").fetchall()
    return [cell for _, cell in found]


def function_of(source, name="decide"):
    """Return a function of a Python source."""
    namespace = {}
    exec(source, namespace)
    return namespace[name]


def in_sqlite(exported, P, dialect="sqlite"):
    names = [f"c {k}" for k in range(P.shape[1])]
    return np.array(cells_of(connect("sqlite", exported), exported.to_sql(dialect, names), P.tolist(), names))


def in_python(exported, P):
    chosen = function_of(exported.to_python("chosen"), "chosen")
    return np.array([chosen(row) for row in P.tolist()])


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


def enough_rows(K, engine):
    """Return how many rows an engine decides: fewer where Python goes through them, or where rows are wide."""
    return ROWS // 20 if engine in (in_python, in_sqlite) else ROWS // 5 if K > 40 else ROWS


def independent_scores(exported, P):
    """Return the scores (n, M) as the definition says, by matrix products in extended precision where there is one."""
    p = P.astype(np.longdouble)
    p = p / p.sum(axis=1, keepdims=True)
    if exported.calibrator is not None:
        c, K = exported.calibrator, P.shape[1]
        W, b = c.parameters(K)
        z = np.log(p + c.floor) @ (np.diag(W) if W.ndim == 1 else W).T.astype(np.longdouble) + b
        own = np.arange(K) == c.kept
        z[:, own] = -np.inf
        q = np.exp(z - z.max(axis=1, keepdims=True))
        # the others share what a class that is not calibrated leaves
        q = q / q.sum(axis=1, keepdims=True) * (1 - p[:, own].sum(axis=1, keepdims=True))
        p = np.where(own, p, q)
    return p @ exported.gains.matrices()[0].astype(np.longdouble)


def assert_same_decisions(exported, P, found, tolerance=1e-12, share=1e-4):
    """Decisions are those of `predict`, but for a few rows whose two scores are equal within rounding."""
    expected = exported.predict_index(P)
    assert found.shape == expected.shape
    differ = np.flatnonzero(found != expected)
    assert len(differ) <= share * len(P)
    scores = independent_scores(exported, P[differ])
    rows = np.arange(len(differ))
    off = np.abs(scores[rows, found[differ]] - scores[rows, expected[differ]])
    assert (off <= tolerance * np.abs(exported.gains.matrices()).max()).all()
    return len(differ)
