"""The compiled kernels bit for bit against the reference, on every shape where one of their paths ends."""

from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confmax import DecisionRule, kernels
from confmax.confusion import Gains
from confmax.kernels import order
from confmax.kernels.blocks import MANY, block_rows, chunk_rows
from confmax.kernels.order import stable_order
from confmax.kernels.products import Positive, times
from confmax.oracle import decide, make_oracle, make_table
from confmax.oracle.numpy import decide as reference
from confmax.tables import checked_probabilities
from confmax.tables.arrays import CLOSE, EXACT, FINITE, POSITIVE, check_rows, weighted_totals
from tests.helpers import assert_same_statistics, by_numpy, compiled

FEW, SOME = 4, 48  # classes where a path of the scan ends (`scan.h`)
CLASSES = [2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, SOME - 1, SOME, 64, 100, MANY, MANY + 1, 161, 300]
TYPES = [np.float32, np.float64]


def tenths(rng, n, K, dtype):
    """Rows with many equal probabilities, so that ties are common."""
    P = rng.integers(0, 4, (n, K)) + (np.arange(K) == rng.integers(0, K, n)[:, None])
    return (P / P.sum(axis=1, keepdims=True)).astype(dtype)


@compiled
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("K", CLASSES)
def test_a_block_is_the_transpose(K, dtype):
    rng = np.random.default_rng(K)
    for rows in (1, 3, 8, 11, block_rows(K) - 1, block_rows(K)):
        P = rng.random((rows, K)).astype(dtype)
        block = np.full((K, rows + 5), 7.0, dtype)
        kernels.native.turn(P, block)
        np.testing.assert_array_equal(block[:, :rows], P.T)
        assert not block[:, rows:].any()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("K", CLASSES)
def test_decisions_equal_the_reference_bit_for_bit(K, dtype):
    rng = np.random.default_rng([K, 1])
    for n in (1, 5, block_rows(K) + 3, 1500):
        P = tenths(rng, n, K, dtype)
        gains = Gains.reduced(rng.integers(-1, 3, (3, K)), rng.integers(0, 2, (3, K)) / 4)
        np.testing.assert_array_equal(decide(P, gains), reference(P, gains))
        for alone in (gains[:1], gains[1:3]):
            np.testing.assert_array_equal(decide(P, alone), reference(P, alone))
        near = Gains.reduced(1.0 + rng.random((3, K)) * 1e-6, rng.random((3, K)) * 1e-7)
        np.testing.assert_array_equal(decide(P, near), reference(P, near))
        for power in (1, 2):
            far = Gains.reduced(-np.ones((1, K)), rng.integers(0, 2, (1, K)) / 8, power=power)
            np.testing.assert_array_equal(decide(P, far), reference(P, far))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("M", [2, 3, 4, 5, 8, 13])
@pytest.mark.parametrize("K", [2, 3, 9, 40, MANY + 2])
def test_full_gains_equal_the_reference_bit_for_bit(K, M, dtype):
    rng = np.random.default_rng([K, M])
    P = tenths(rng, 700, K, dtype)
    for G in (rng.random((2, K, M)), rng.integers(-1, 2, (2, K, M)).astype(float)):
        gains = Gains.from_matrix(G)
        np.testing.assert_array_equal(decide(P, gains), reference(P, gains))


def assert_backends_agree(table, share, gains):
    """Assert that the compiled oracle answers as the reference does; return it and its answer."""
    slow, fast = (make_oracle(table, "blend", backend=name, model_share=share) for name in ("numpy", "array"))
    found = fast.maximize(gains, matrix=True)
    assert_same_statistics(found, slow.maximize(gains, matrix=True))
    return fast, found


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("share", [1.0, 0.0, 0.3])
@pytest.mark.parametrize("K", [2, FEW, FEW + 1, 10, 64, MANY + 2])
def test_statistics_equal_the_reference(K, share, weighted):
    rng = np.random.default_rng([K, int(10 * share)])
    n = chunk_rows(K, 1 << 30) + 777 if K == 10 else 1500
    P = tenths(rng, n, K, np.float32)
    table = make_table(P, rng.integers(0, K, n), rng.random(n) if weighted else None)
    gains = Gains.reduced(rng.random((4, K)) + 0.5, rng.random((4, K)) * 0.1)
    alone = np.zeros((2, K))
    alone[[0, 1], [0, K - 1]] = 1.0
    gains = Gains.concatenate([gains, Gains.reduced(alone, -0.3 * alone)])
    fast, found = assert_backends_agree(table, share, gains)
    assert (found.matrix >= 0).all()
    without = fast.maximize(gains)
    assert without.diagonal.tobytes() == found.diagonal.tobytes()
    assert without.columns.tobytes() == found.columns.tobytes()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("share", [1.0, 0.0, 0.3])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 150, 513])
def test_rows_that_fill_no_group_of_four(n, share, weighted):
    """A fresh process of one class's gain, whose decisions beyond the rows nobody has written."""
    rng = np.random.default_rng([n, int(10 * share)])
    P = tenths(rng, n, 7, np.float32)
    table = make_table(P, rng.integers(0, 7, n), rng.random(n) + 0.1 if weighted else None, range(7))
    for k in range(7):
        alone = np.eye(7)[k]
        gains = Gains.reduced(np.stack([alone, 2 * alone]), np.stack([-0.2 * alone, -0.5 * alone]))
        assert_backends_agree(table, share, gains)


@pytest.mark.parametrize("share", [1.0, 0.4])
def test_more_decisions_than_classes_add_nothing_to_the_diagonal(share):
    rng = np.random.default_rng(5)
    table = make_table(tenths(rng, 900, 3, np.float32), rng.integers(0, 3, 900))
    assert_backends_agree(table, share, Gains.from_matrix(rng.random((5, 3, 7))))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("K", [2, 3, 10, MANY, MANY + 1])
def test_a_rule_decides_unchecked_rows_as_it_does_checked_ones(K, dtype):
    """One scan checks and decides; rows that must be divided by their sums are."""
    rng = np.random.default_rng([K, 7])
    P = tenths(rng, block_rows(K) + 5, K, dtype)
    rule = DecisionRule.from_weights(rng.random(K) + 0.5, rng.random(K) / 4)
    loose = P * (1 + 5e-4 * rng.uniform(-1, 1, (len(P), 1))).astype(dtype)
    for table in (P, loose, np.asfortranarray(P), P.tolist()):
        expected = reference(checked_probabilities(table), rule.gains)[0]
        found = rule.predict(table)
        assert found.dtype == np.int64
        np.testing.assert_array_equal(found, expected)
    for entry in (np.nan, np.inf, -1.5, 0.5):
        bad = P.copy()
        bad[len(P) // 2, K - 1] += entry
        with pytest.raises(ValueError) as sentence, np.errstate(invalid="ignore"):
            checked_probabilities(bad)
        with pytest.raises(ValueError, match=f"^row {len(P) // 2}(,| )") as said:
            rule.predict(bad)
        assert str(said.value) == str(sentence.value)


@pytest.mark.parametrize("dtype", TYPES)
def test_the_same_bytes_for_any_number_of_threads(dtype, threads):
    """Counts, plain sums, weighted sums, the check and its draws."""
    rng = np.random.default_rng(8)
    P = tenths(rng, 400_000, 6, dtype)
    y, weight = rng.integers(0, 6, len(P)), rng.random(len(P))
    gains, answers = Gains.reduced(rng.random((3, 6))), []
    for number in (1, 2, 8):
        threads(number)
        found = []
        for w in (None, weight):
            table = make_table(P, y, w)
            found += [table.head.hashes, table.mean_probability()]
            for mode in ("model", "labels"):
                C = make_oracle(table, mode).maximize(gains, matrix=True)
                found += [C.diagonal, C.columns, C.matrix]
        answers.append(b"".join(np.ascontiguousarray(part).tobytes() for part in found))
    assert answers[0] == answers[1] == answers[2]


# --- the check of a table ---------------------------------------------------------------------------------------------

SHAPES = [
    (1, 2),
    (7, 3),
    (block_rows(10) + 1, 10),
    (chunk_rows(3, 1 << 30) + 5, 3),
    (300, MANY),
    (300, MANY + 1),
    (90, 1000),
]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_sums_of_columns(shape, dtype):
    rng = np.random.default_rng(shape)
    P = rng.dirichlet(np.ones(shape[1]), shape[0]).astype(dtype)
    totals, broken = check_rows(P, (1e-3, 8 * np.finfo(dtype).eps))
    np.testing.assert_allclose(totals, P.sum(0, dtype=np.float64), rtol=1e-13)
    assert not broken[:3].any()
    weight = rng.random(shape[0])
    np.testing.assert_allclose(weighted_totals(P, weight), weight @ P.astype(np.float64), rtol=1e-12)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("entry", "demand"), [(np.nan, FINITE), (np.inf, FINITE), (-np.inf, FINITE), (-1.25, POSITIVE), (0.75, CLOSE)]
)
def test_one_bad_entry_anywhere_is_found(shape, dtype, entry, demand):
    rng = np.random.default_rng(shape)
    for _ in range(6):
        P = np.full(shape, 1 / shape[1], dtype)
        row, column = rng.integers(shape[0]), rng.integers(shape[1])
        P[row, column] += entry
        with np.errstate(invalid="ignore"):
            _, broken = check_rows(P, (1e-3, 8 * np.finfo(dtype).eps))
        assert broken[demand]
        with pytest.raises(ValueError, match=f"^row {row}(,| )"):
            checked_probabilities(P)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_rows_off_by_more_than_rounding_are_divided_by_their_sum(shape, dtype):
    rng = np.random.default_rng(shape)
    P = rng.dirichlet(np.ones(shape[1]), shape[0]).astype(dtype)
    P = checked_probabilities(P)
    off = rng.random(shape[0]) < 0.3
    off[0] = True
    given = np.where(off[:, None], P * dtype(1.0005), P)
    before = given.copy()
    table = make_table(given)
    assert check_rows(given, (1e-3, 8 * np.finfo(dtype).eps))[1].tolist() == [False, False, False, True]
    np.testing.assert_array_equal(given, before)
    np.testing.assert_array_equal(table.head.proba[~off], given[~off])
    expected = (given / given.sum(1, dtype=np.float64, keepdims=True)).astype(dtype)
    np.testing.assert_allclose(table.head.proba, expected, rtol=32 * np.finfo(dtype).eps)
    np.testing.assert_allclose(table.mean_probability(), table.head.proba.mean(0, dtype=np.float64), rtol=1e-13)
    assert EXACT == 3
    assert checked_probabilities(table.head.proba) is table.head.proba


# --- the order of many numbers, products and systems of equations -----------------------------------------------------


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [0, 1, 2, 300, 5000])
def test_the_order_is_numpys_stable_one(n, dtype, monkeypatch):
    monkeypatch.setattr(order, "FEW", 0)
    rng = np.random.default_rng(n)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 5e-324, -1e-40, 1e-45, 3e38])
    for numbers in (
        rng.normal(size=n),
        np.round(rng.normal(size=n), 1),
        np.full(n, -0.5),
        rng.random(n) ** 40,
        10.0 ** rng.uniform(-37, 37, n) * rng.choice([-1, 1], n),
        rng.choice(special, n),
    ):
        keys = numbers.astype(dtype)
        np.testing.assert_array_equal(stable_order(keys), np.argsort(keys, kind="stable"))
        np.testing.assert_array_equal(stable_order(keys[::-1]), np.argsort(keys[::-1], kind="stable"))
        with by_numpy():
            np.testing.assert_array_equal(stable_order(keys), np.argsort(keys, kind="stable"))


@pytest.mark.parametrize(("n", "d", "m"), [(1, 1, 1), (3, 2, 5), (4, 7, 8), (130, 9, 21), (257, 66, 33)])
def test_products(n, d, m):
    rng = np.random.default_rng([n, d])
    X, M = rng.normal(size=(n, d)), rng.normal(size=(d, m))
    found = times(X, M)
    np.testing.assert_allclose(found, X @ M, rtol=1e-12, atol=1e-12)
    with by_numpy():
        assert times(X, M).tobytes() == found.tobytes()


@pytest.mark.parametrize("d", [1, 2, 9, 40])
def test_positive_definite_systems(d):
    rng = np.random.default_rng(d)
    X = rng.normal(size=(2 * d, d))
    matrix, sides = X.T @ X + np.eye(d), rng.normal(size=(d, 3))
    found = Positive(matrix).solve(sides)
    np.testing.assert_allclose(found, np.linalg.solve(matrix, sides), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(Positive(matrix).solve(sides[:, 0]), found[:, 0])
    with by_numpy():
        assert Positive(matrix).solve(sides).tobytes() == found.tobytes()


@pytest.mark.parametrize("form", [nullcontext, by_numpy])
@pytest.mark.parametrize("matrix", [np.diag([1.0, -1.0]), np.ones((2, 2)), np.full((2, 2), np.nan)])
def test_a_system_that_is_not_positive_definite_is_refused(matrix, form):
    with form(), pytest.raises(ValueError, match="must be positive definite"):
        Positive(matrix)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 40), st.integers(1, 90), st.sampled_from(TYPES), st.integers(0, 2**32))
def test_any_shape(K, n, dtype, seed):
    rng = np.random.default_rng(seed)
    P = tenths(rng, n, K, dtype)
    gains = Gains.reduced(rng.normal(size=(2, K)).round(1), rng.normal(size=(2, K)).round(1))
    np.testing.assert_array_equal(decide(P, gains), reference(P, gains))
