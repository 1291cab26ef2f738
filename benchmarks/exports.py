"""Does SQL in DuckDB give each row its decision, without ORDER BY? Rules of every kind that SQL holds, on 10^6 rows.

    python -m benchmarks exports [ROWS]

A table of random rows is read on four threads, and `SELECT {expression} FROM scores` names no order. Its decisions are
compared with `DecisionRule.predict_index`, place by place: once in the dialect "duckdb", once in "standard". The
figures go into the section "exports" of benchmarks/RESULTS.md.
"""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks.harness import benchmark, markdown, shortest
from confmax import DecisionRule
from confmax.calibration import MatrixScaling, Temperature, VectorScaling
from confmax.confusion import Gains, Layout
from confmax.optimize.class_cuts import class_gains

N, THREADS = 1_000_000, 4
CLASSES = (7, 26)
GROUPS = ("a", "b", "c")
DIALECTS = ("duckdb", "standard")
TIE = 1e-12  # scores so near, relative to the largest gain, may go either way


def rules(K):
    """Return a rule of each kind for K classes, by name."""
    draw = np.random.default_rng(K)
    a, b = draw.uniform(0.3, 3.0, K), draw.uniform(0.0, 1.0 / K, K)
    weights, offsets = Gains.reduced(a), Gains.reduced(a, b)
    # an offset that a good part of the rows does not reach
    abstaining = Gains.reduced(a, [*b, 0.7 * a.mean()])
    vector = VectorScaling(draw.uniform(0.5, 1.5, K), draw.normal(0.0, 0.5, K))
    matrix = MatrixScaling(np.diag(vector.a) + draw.normal(0.0, 0.6 / K, (K, K)), vector.b)
    parts = [Gains.reduced(draw.uniform(0.3, 3.0, K), b) for _ in GROUPS]
    kinds = {
        "weights": (weights, None),
        "offsets": (offsets, None),
        "offsets, temperature": (offsets, Temperature(1.7)),
        "weights, vector": (weights, vector),
        "offsets, vector": (offsets, vector),
        "weights, matrix": (weights, matrix),
        "offsets, matrix": (offsets, matrix),
        "abstaining": (abstaining, None),
        "abstaining, matrix": (abstaining, matrix),
        "linear kappa": (Gains.reduced(-a / K, b, power=1), None),
        "quadratic kappa": (Gains.reduced(-a / K, b, power=2), None),
        "full gains": (Gains.from_matrix(draw.normal(size=(K, K))), None),
        "full gains, matrix": (Gains.from_matrix(draw.normal(size=(K, K))), matrix),
        "one class first, others by a matrix": (class_gains(np.array([0.5]), 0, K), matrix.keeping(0)),
        "groups": (Layout(len(GROUPS), K, 0).beside(parts), None),
        "groups, matrix": (Layout(len(GROUPS), K, 0).beside(parts), matrix),
    }
    return {name: made(K, gains, calibrator, name.startswith("groups")) for name, (gains, calibrator) in kinds.items()}


def made(K, gains, calibrator, grouped):
    """Return the rule of some gains; beyond the classes it abstains."""
    abstain = "abstain" if not grouped and gains.n_decisions > K else None
    names = (*(f"p{k}" for k in range(K)), *([abstain] if abstain else []))
    groups = GROUPS if grouped else ()
    return DecisionRule(gains, np.ones(1), names, calibrator=calibrator, abstain=abstain, groups=groups)


def elsewhere(rule, P, group, found):
    """Return how many rows have another decision than the rule's, and how many of these are ties within rounding."""
    given = group if rule.groups else None
    expected = rule.predict_index(P, group=given)
    rows = np.flatnonzero(found != expected)
    p = P[rows] if rule.calibrator is None else rule.calibrator.transform(P[rows])
    ties = 0
    for name in rule.groups or [None]:
        gains = (rule if name is None else rule.of_group(name)).gains.matrices()[0]
        chosen = np.arange(len(rows)) if name is None else np.flatnonzero(group[rows] == name)
        scores, at = p[chosen] @ gains, np.arange(len(chosen))
        apart = np.abs(scores[at, found[rows][chosen]] - scores[at, expected[rows][chosen]])
        ties += int((apart <= TIE * np.abs(gains).max()).sum())
    return len(rows), ties


def measured(connection, rule, P, group):
    """Return the cells of a rule: of each dialect its form, the rows that are decided otherwise, and seconds."""
    cells = []
    for dialect in DIALECTS:
        expression = rule.to_sql(dialect)
        query = f"SELECT {expression} AS decision FROM scores"
        seconds, found = shortest(lambda query=query: connection.execute(query).fetchnumpy()["decision"], 2)
        differing, ties = elsewhere(rule, P, group, np.asarray(found))
        form = "sub-query" if "(SELECT" in expression else "lists" if " FOR " in expression else "one expression"
        cells += [form, f"{differing - ties:,}", f"{ties:,}", f"{seconds:.2f}"]
    return cells


@benchmark("exports", "[ROWS]")
def main(n=N):
    """Measure and write the section "exports"."""
    lines = []
    for K in CLASSES:
        draw = np.random.default_rng(K)
        P, group = draw.dirichlet(np.full(K, 0.5), n), draw.choice(GROUPS, n)
        table = pa.table({**{f"p{k}": P[:, k] for k in range(K)}, "group": group})
        with duckdb.connect() as connection:
            connection.execute(f"SET threads = {THREADS}")
            connection.register("given", table)
            connection.execute("CREATE TABLE scores AS SELECT * FROM given")
            for name, rule in rules(K).items():
                lines.append([f"{name}, {K} classes", *measured(connection, rule, P, group)])
                print(*lines[-1], sep=" | ", flush=True)
    text = (
        f"SQL in DuckDB {duckdb.__version__} on {n:,} random rows, {THREADS} "
        "threads, no ORDER BY. Rows elsewhere: their decision is not that of `predict_index` at the same place, ties "
        f"within {TIE:g} aside, which are counted beside them. Seconds are the shorter of two runs, planning included."
    )
    head = ["rule", *(f"{dialect}: {what}" for dialect in DIALECTS for what in ("form", "elsewhere", "ties", "s"))]
    return [text, markdown(head, lines)]
