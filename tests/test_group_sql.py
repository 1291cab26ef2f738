"""SQL of a rule with groups holds their calibration once, and decides every row by the numbers of its group."""

import re
from fractions import Fraction

import numpy as np
import pytest

import confmax
from confmax.calibration import Temperature
from confmax.confusion import Gains
from tests.export_helpers import (
    abstaining,
    beside,
    cells_of,
    connect,
    drawn,
    edge_rows,
    independent_scores,
    keeping,
    matrix_scaling,
    scaling,
    table,
)
from tests.helpers import simplex_grid
from tests.test_export_one_threshold import abstaining_of_one, plain
from tests.test_group_exports import in_groups, with_last

QUOTED = ("it's", "'; DROP TABLE scores; --", 'a"b')
DIGITS = ("1", "2.0", "1e0")
DIALECTS = ("duckdb", "sqlite", "standard")
MARGIN = 1.25  # times the text of one group is the most that the text of two has


def several(K, **settings):
    return [drawn(K, seed=seed, **settings) for seed in range(3)]


def offset_in_one(K):
    """Return gains of which the second group's alone have an offset, and the last group's alone a weight of zero."""
    last = Gains.reduced([0.0, *[1.0] * (K - 1)])
    return [drawn(K), drawn(K, offsets=True), last]


FULL = [Gains.from_matrix(np.random.default_rng(seed).normal(size=(3, 3))) for seed in range(3)]
THRESHOLDS = [beside(4, 3, cut) for cut in (0.2, 0.35, 0.7)]
RULES = {
    "temperature of 2": in_groups(several(2), Temperature(1.7), QUOTED),
    "vector of 4": in_groups(several(4), scaling(4), QUOTED),
    "vector of 18": in_groups(several(18), scaling(18), DIGITS),
    "matrix of 4, offsets": in_groups(several(4, offsets=True), matrix_scaling(4), (1, 2, -3)),
    "offsets in one group": in_groups(offset_in_one(3), None, DIGITS),
    "offsets in one group, vector": in_groups(offset_in_one(3), scaling(3), (0.5, 2.0, 1e300)),
    "two groups alike": in_groups([drawn(3), drawn(3, seed=1), drawn(3)], scaling(3)),
    "full, vector": in_groups(FULL, scaling(3), QUOTED),
    "distances": in_groups(several(4, offsets=True, power=2), scaling(4)),
    "abstaining, matrix": in_groups(with_last(several(3, offsets=True)), matrix_scaling(3), QUOTED),
    "abstaining of 2, vector": in_groups([abstaining(2), *with_last(several(2)[:2])], scaling(2)),
    "not calibrated": in_groups(several(4, offsets=True), keeping(scaling(4), 2)),
    "thresholds": in_groups(THRESHOLDS, None, QUOTED),
    "thresholds, vector": in_groups(THRESHOLDS, scaling(4), QUOTED),
    "thresholds, not calibrated": in_groups(THRESHOLDS, keeping(matrix_scaling(4), 3)),
    "thresholds, none and every row": in_groups(
        [beside(4, 3, 0.35), beside(4, 3, never=-1.0), beside(4, 3, never=1.0)], scaling(4)
    ),
    "thresholds, others by their scores": in_groups(
        [beside(4, 3, 0.35, drawn(4)), beside(4, 3, 0.2, drawn(4, offsets=True)), beside(4, 3, 0.4)], scaling(4)
    ),
    "thresholds of two classes, weights": in_groups([beside(4, 3, 0.35), beside(4, 1, 0.2), drawn(4)], scaling(4)),
    "thresholds between which it abstains": in_groups(
        [abstaining_of_one(1, 0.25, 0.5), abstaining_of_one(1, 0.125, 0.75), abstaining_of_one(1, 0.25, 0.25)],
        scaling(4),
    ),
}
each_rule = pytest.mark.parametrize("exported", RULES.values(), ids=RULES)
each_dialect = pytest.mark.parametrize("dialect", DIALECTS)
each_form = pytest.mark.parametrize("most", [None, 0], ids=["plain", "nested"])


def decided(exported, P, group, dialect):
    """Return what the expression gives (n,), None for NULL, by the engine of the dialect."""
    names = [f"c {k}" for k in range(exported.n_classes)]
    kind = {str: "VARCHAR", int: "INTEGER", float: "DOUBLE PRECISION"}[type(exported.groups[0])]
    connection = connect("sqlite", exported) if dialect == "sqlite" else connect(dialect)
    with connection:
        expression = exported.to_sql(dialect, names)
        cells_of(connection, "1", P.tolist(), names, more=f', "group" {kind}')
        pairs = [(name, k) for k, name in enumerate(group)]
        connection.executemany('UPDATE scores SET "group" = ? WHERE number = ?', pairs)
        query = f"SELECT number, {expression} FROM scores ORDER BY number"
        return [cell for _, cell in connection.execute(query).fetchall()]


def groups_of(exported, n):
    return [exported.groups[k % len(exported.groups)] for k in range(n)]


@each_form
@each_dialect
@each_rule
def test_decisions_are_those_of_predict(exported, dialect, most, monkeypatch):
    if most is not None:
        monkeypatch.setattr("confmax.export.sql.MOST", most)
    K = exported.n_classes
    P = np.vstack([edge_rows(K, 100), table(K, 200)])
    group = groups_of(exported, len(P))
    expected = exported.predict_index(P, group=np.array(group, dtype=object))
    assert len(np.unique(expected)) > 1
    found = np.array(decided(exported, P, group, dialect))
    for row in np.flatnonzero(found != expected):
        rule = exported.of_group(group[row])
        scores = independent_scores(rule, P[[row]])[0]
        assert abs(scores[found[row]] - scores[expected[row]]) <= 1e-12 * np.abs(rule.gains.matrices()).max()
    assert (found == expected).mean() > 0.98


@each_form
@each_dialect
@pytest.mark.parametrize("name", ["vector of 4", "matrix of 4, offsets", "thresholds", "full, vector"])
def test_unknown_groups_and_rows_that_are_no_probabilities_are_null(name, dialect, most, monkeypatch):
    if most is not None:
        monkeypatch.setattr("confmax.export.sql.MOST", most)
    exported = RULES[name]
    K = exported.n_classes
    bad = [[0.9, 0.9, *[0.0] * (K - 2)], [-0.5, 1.5, *[0.0] * (K - 2)], [None, 0.5, *[0.5 / (K - 2)] * (K - 2)]]
    P = np.array([*[[1.0 / K] * K] * 3, *bad], dtype=object)
    known = exported.groups[0]
    other = "children" if isinstance(known, str) else 77
    expected = exported.predict_index(np.full((1, K), 1.0 / K), group=[known]).tolist()
    assert decided(exported, P, [known, other, None, *[known] * 3], dialect) == [*expected, *[None] * 5]


@each_form
@each_dialect
def test_exact_ties_go_to_the_largest_index(dialect, most, monkeypatch):
    """The witness is exact arithmetic in fractions; every number here is a multiple of a power of two."""
    if most is not None:
        monkeypatch.setattr("confmax.export.sql.MOST", most)
    parts = [
        Gains.reduced([1.0, 2.0, 1.0], [0.25, 0.0, 0.125]),
        Gains.reduced([1.0, 1.0, 1.0], [0.0, 0.0, 0.0]),
        Gains.reduced([0.0, 1.0, 0.5], [0.5, 0.0, 0.25]),
    ]
    exported = in_groups(parts)
    counts = np.repeat(simplex_grid(3, 8), 3, axis=0)
    group = groups_of(exported, len(counts))
    expected, ties = [], 0
    for row, name in zip(counts.tolist(), group, strict=True):
        G = exported.of_group(name).gains.matrices()[0].tolist()
        scores = [sum(Fraction(c, 8) * Fraction(g[j]) for c, g in zip(row, G, strict=True)) for j in range(3)]
        best = [j for j in range(3) if scores[j] == max(scores)]
        expected.append(best[-1])
        ties += len(best) > 1
    assert ties > 10
    assert decided(exported, counts / 8, group, dialect) == expected


@each_dialect
def test_a_threshold_is_exact_to_the_float(dialect):
    exported = in_groups(THRESHOLDS)
    cuts = [0.2, 0.35, 0.7]
    rows = [[(1 - p) / 2, (1 - p) / 4, (1 - p) / 4, p] for cut in cuts for p in (cut, np.nextafter(cut, 0.0))]
    group = [name for name in exported.groups for _ in range(2)]
    P = np.array(rows)
    assert exported.predict_index(P, group=group).tolist() == [3, 0] * 3 == decided(exported, P, group, dialect)


# --- texts ------------------------------------------------------------------------------------------------------------


def test_thresholds_are_one_comparison():
    text = plain(in_groups(THRESHOLDS[:2], groups=("men", "women")).to_sql("duckdb", ["VF", "F", "M", "L"]))
    cut = """CASE "group" WHEN 'men' THEN 0.2e0 WHEN 'women' THEN 0.35e0 END"""
    assert text.startswith(
        f"""CASE WHEN "group" IN ('men', 'women') THEN CASE WHEN valid THEN CASE WHEN "L" / by >= {cut} THEN 3 ELSE """
    )
    assert text.count("0.2e0") == text.count('"L" / by') == 1


def test_a_group_without_a_threshold_is_left_out_of_the_comparison():
    exported = in_groups([beside(3, 2, 0.25), beside(3, 2, never=-1.0)], groups=("men", "women"))
    text = plain(exported.to_sql("sqlite", ["a", "b", "c"]))
    assert """"c" / by >= CASE "group" WHEN 'men' THEN 0.25e0 END THEN 2 ELSE """ in text


def test_numbers_that_groups_share_are_plain():
    same = in_groups([drawn(4)] * 2, scaling(4), ("men", "women"))
    alone = same.of_group("men").to_sql("duckdb")
    assert same.to_sql("duckdb") == f"""CASE WHEN "group" IN ('men', 'women') THEN {alone} END"""
    weights = [Gains.reduced([1.0, 0.75, last]) for last in (0.5, 0.25)]
    text = in_groups(weights, Temperature(2.0), ("men", "women")).to_sql("sqlite")
    # weights are halved, which changes no decision
    halves = """CASE "group" WHEN 'men' THEN 0.25e0 WHEN 'women' THEN 0.125e0 END"""
    assert set(re.findall(r'CASE "group" .*? END', text)) == {halves}
    assert " * 0.375e0" in text


def calibrators(K):
    return {"temperature": Temperature(1.4), "vector": scaling(K), "matrix": matrix_scaling(K)}


@each_dialect
@pytest.mark.parametrize("K", [4, 18])
@pytest.mark.parametrize("calibration", ["temperature", "vector", "matrix"])
def test_the_calibration_is_written_once(calibration, K, dialect):
    calibrator = calibrators(K)[calibration]
    two = in_groups(several(K)[:2], calibrator, ("men", "women"))
    text, alone = two.to_sql(dialect), two.of_group("men").to_sql(dialect)
    assert text.count("LN(") == alone.count("LN(")
    assert len(text) < MARGIN * len(alone)
    # a further group adds its numbers and its name to the scores, and nothing of the calibration
    ten = in_groups([drawn(K, seed=seed) for seed in range(10)], calibrator, tuple(f"group {k}" for k in range(10)))
    assert len(ten.to_sql(dialect)) < 3 * len(alone)


@each_form
@pytest.mark.parametrize("name", ["vector of 4", "thresholds, vector", "full, vector"])
def test_names_of_groups_stay_in_their_quotes(name, most, monkeypatch):
    """The names are literals for an independent reader of SQL, in every dialect."""
    sqlglot = pytest.importorskip("sqlglot")
    if most is not None:
        monkeypatch.setattr("confmax.export.sql.MOST", most)
    exported = RULES[name]
    columns = [f"p{k}" for k in range(exported.n_classes)]
    for dialect in ("duckdb", "sqlite", "postgres", "mysql", "bigquery", "snowflake", "tsql", "spark", "oracle"):
        again = sqlglot.parse(exported.to_sql(dialect, columns), read=dialect)
        assert len(again) == 1
        assert {each.this for each in again[0].find_all(sqlglot.exp.Literal) if each.is_string} == set(QUOTED)


@each_dialect
def test_the_rule_of_a_limit_between_groups(dialect):
    P = table(4, 3000)
    draw = np.random.default_rng(3)
    y = np.array([draw.choice(4, p=row) for row in np.sqrt(P) / np.sqrt(P).sum(axis=1, keepdims=True)])
    group = draw.choice(["men", "women"], len(P))
    limit = "difference(recall[3] | group) <= 0.02"
    given = {"constraints": limit, "group": group, "randomized": False, "calibration": "matrix"}
    exported = confmax.maximize("accuracy", P, y, **given).rule
    alone = exported.of_group("men").to_sql(dialect, list("abcd"))
    assert len(exported.to_sql(dialect, list("abcd"))) < MARGIN * len(alone)
    expected = exported.predict_index(P[:500], group=group[:500]).tolist()
    assert decided(exported, P[:500], group[:500].tolist(), dialect) == expected


@each_dialect
def test_many_groups(dialect):
    """Engines bound the depth of an expression: SQLite and DuckDB allow 1000 levels."""
    names = tuple(f"group {k}" for k in range(300))
    exported = in_groups([drawn(4, seed=seed) for seed in range(300)], scaling(4), names)
    P = table(4, 300)
    group = groups_of(exported, 300)
    expected = exported.predict_index(P, group=np.array(group, dtype=object)).tolist()
    assert decided(exported, P, group, dialect) == expected
