"""The compiled check of a table against NumPy, on every shape where one of its paths ends."""

import numpy as np
import pytest

from confmax.kernels.blocks import MANY, block_rows, chunk_rows
from confmax.oracle import make_table
from confmax.tables import checked_probabilities
from confmax.tables.arrays import CLOSE, EXACT, FINITE, POSITIVE, check_rows, weighted_totals

SHAPES = [
    (1, 2),
    (7, 3),
    (block_rows(10) + 1, 10),
    (chunk_rows(3, 1 << 30) + 5, 3),
    (300, MANY),
    (300, MANY + 1),
    (90, 1000),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_sums_of_columns(shape, dtype):
    rng = np.random.default_rng(shape)
    P = rng.dirichlet(np.ones(shape[1]), shape[0]).astype(dtype)
    totals, broken = check_rows(P, (1e-3, 8 * np.finfo(dtype).eps))
    np.testing.assert_allclose(totals, P.sum(0, dtype=np.float64), rtol=1e-13)
    assert not broken[:3].any()
    weight = rng.random(shape[0])
    np.testing.assert_allclose(weighted_totals(P, weight), weight @ P.astype(np.float64), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
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
    np.testing.assert_array_equal(table.proba[~off], given[~off])
    expected = (given / given.sum(1, dtype=np.float64, keepdims=True)).astype(dtype)
    np.testing.assert_allclose(table.proba, expected, rtol=32 * np.finfo(dtype).eps)
    np.testing.assert_allclose(table.mean_probability(), table.proba.mean(0, dtype=np.float64), rtol=1e-13)
    assert EXACT == 3
    assert checked_probabilities(table.proba) is table.proba


def test_a_good_table_is_not_copied():
    P = np.full((1000, 4), 0.25, np.float32)
    assert make_table(P).proba is P
