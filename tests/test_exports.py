"""Exports decide like `predict`: on random rows, on exact ties, and on rows that must be divided by their sum.

``python -m tests.test_exports 100000`` counts the edge rows on which they differ.
"""

import functools
import sys
from fractions import Fraction

import numpy as np
import pytest

import confmax
from confmax.calibration import MatrixScaling
from confmax.confusion import Gains
from tests.export_helpers import (
    ENGINES,
    ROWS,
    RULES,
    abstaining,
    assert_same_decisions,
    drawn,
    each_engine,
    each_rule,
    edge_rows,
    enough_rows,
    in_duckdb,
    in_onnx,
    in_sqlite,
    matrix_scaling,
    rule,
    scaling,
    table,
)
from tests.helpers import simplex_grid

# --- equality ---------------------------------------------------------------------------------------------------------


@each_engine
@each_rule
def test_decisions_are_those_of_predict(exported, engine):
    K = exported.n_classes
    P = table(K, enough_rows(K, engine))
    assert len(np.unique(exported.predict_index(P))) > 1 or exported is RULES["a constant"]
    differing = assert_same_decisions(exported, P, engine(exported, P))
    # without logarithms every step is the same operation on the same numbers
    assert differing == 0 or exported.calibrator is not None or exported.gains.power == 1


@each_rule
def test_onnx_decides_single_precision_like_predict(exported):
    K = exported.n_classes
    P = table(K, enough_rows(K, in_onnx)).astype(np.float32)
    differing = assert_same_decisions(exported, P, in_onnx(exported, P), tolerance=8 * np.finfo(np.float32).eps)
    # two scores may round to the same number
    assert differing <= 1e-4 * len(P) or exported.calibrator is not None


# the last treats all classes alike: rows tie, but for the order in which their terms are added
CALIBRATED = {
    f"{kind}, {K} classes": rule(drawn(K, offsets=True) if kind != "alike" else Gains.reduced(np.ones(K)), calibrator)
    for K in (2, 3, 20)
    for kind, calibrator in (
        ("vector", scaling(K)),
        ("matrix", matrix_scaling(K)),
        ("alike", MatrixScaling(np.eye(K) + 0.1, np.zeros(K))),
    )
}


# the offset of the last is a score that classes reach exactly, on rows of whole and of half probabilities
ABSTAINING = {
    f"abstaining{kind}, {K} classes": rule(gains, calibrator)
    for K in (2, 3, 20)
    for kind, gains, calibrator in (
        ("", abstaining(K), None),
        (" below one half", Gains.reduced(np.ones(K), [*[0.0] * K, 0.5]), None),
        (" with classes of zero", Gains.reduced([0.0, *[1.0] * (K - 1)], [0.25, *[0.0] * (K - 1), 0.25]), None),
        (", full", Gains.from_matrix(np.hstack([np.eye(K), np.linspace(0.4, 0.6, K)[:, None]])), None),
        (", vector", abstaining(K), scaling(K)),
        (", matrix", abstaining(K), matrix_scaling(K)),
    )
}


def differing_on_edge_rows(exported, engine, n, share=1.0):
    P = edge_rows(exported.n_classes, n)
    made = np.unique(exported.predict_index(P))
    # every class wins somewhere; beside abstaining at least one does, and some rows are left
    assert (
        len(made) == exported.n_classes if not exported.gains.has_further else made[-1] == exported.n_classes > made[0]
    )
    return assert_same_decisions(exported, P, engine(exported, P), share=share)


@each_engine
@pytest.mark.parametrize("name", CALIBRATED)
def test_edge_rows(name, engine):
    differing = differing_on_edge_rows(CALIBRATED[name], engine, 500)
    assert differing == 0 or name.startswith("alike")


@each_engine
@pytest.mark.parametrize("name", ABSTAINING)
def test_edge_rows_of_rules_that_abstain(name, engine):
    assert differing_on_edge_rows(ABSTAINING[name], engine, 500) == 0


@pytest.mark.parametrize("powers", [300.0])
@pytest.mark.parametrize("engine", [in_duckdb, in_sqlite])
def test_standard_sql_of_the_widest_matrix(engine, powers):
    """SQLite before 3.46 reads 14 nested selects; without a maximum per row some exponents overflow."""
    matrix = matrix_scaling(50)
    exported = rule(drawn(50, offsets=True), MatrixScaling(powers * matrix.W, matrix.b))
    P = edge_rows(50, 200)
    np.testing.assert_array_equal(engine(exported, P, dialect="standard"), exported.predict_index(P))


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
        Gains.reduced([1, 1, 1], [0, 0, 0, 0.5]),
        Gains.reduced([1, 2, 0.5], [0.25, 0, 0.125, 0.75, 0.75]),
        Gains.reduced([1, 2, 1], [0, 0, 0, 0]),
        Gains.reduced([-1, -1, -1, -1], [0, 0, 0, 0, -0.5], power=1),
        Gains.reduced([-1, -1, -1, -1], power=1),
        Gains.reduced([-1, -2, -1, -1], [0, 1, 0.5, 0], power=2),
    ],
    ids=["weights", "argmax", "offsets", "falling", "matrix", "abstaining", "two more", "never",
         "abstaining at a distance", "distances", "squares"],
)  # fmt: skip
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


@each_engine
def test_division_by_the_sum_matters_to_offsets(engine):
    """Divided, the second is ahead by .2001 / .999, without by less than the offset of .2."""
    exported = rule(Gains.reduced([1.0, 1.0], [0.2, 0.0]))
    P = np.array([[0.39995, 0.60005]]) * 0.9995
    assert P[0, 1] - P[0, 0] < 0.2
    assert exported.predict_index(P).tolist() == engine(exported, P).tolist() == [1]


@each_rule
def test_sql_reads_single_precision_columns_in_double(exported):
    """Sums of single-precision rows are off by 1e-7: they are divided, as `predict` does with the same numbers."""
    P = table(exported.n_classes, ROWS // 5).astype(np.float32)
    assert_same_decisions(exported, P.astype(np.float64), in_duckdb(exported, P, "FLOAT"))


@functools.cache
def tuned_rules():
    draw = np.random.default_rng(5)
    P = table(4, 2000, 1)
    y = np.array([draw.choice(4, p=row) for row in P**1.3 / (P**1.3).sum(axis=1, keepdims=True)])
    return [
        confmax.maximize(metric, P, y, calibration=calibration, randomized=False).rule
        for metric in ("macro_f1", "quadratic_kappa")
        for calibration in ("temperature", "vector", None)
    ]


@each_engine
def test_tuned_rules(engine):
    """Rules as they are found, calibration included."""
    new = table(4, enough_rows(4, engine) // 2, 2)
    for exported in tuned_rules():
        assert_same_decisions(exported, new, engine(exported, new))


@each_engine
@pytest.mark.parametrize("calibrated", [False, True])
def test_a_thousand_classes(calibrated, engine):
    exported = rule(drawn(1000, offsets=True), scaling(1000) if calibrated else None)
    P = table(1000, 200)
    assert_same_decisions(exported, P, engine(exported, P), share=0.01)


if __name__ == "__main__":
    for name, exported in (CALIBRATED | ABSTAINING).items():
        counts = {each: differing_on_edge_rows(exported, engine, int(sys.argv[1])) for each, engine in ENGINES.items()}
        print(f"{name:40}", *(f"{each} {count}" for each, count in counts.items()), flush=True)
