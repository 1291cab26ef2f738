"""Samples by content: those of the smallest hashes, invariance, and the same for every kind of table."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from confmax.oracle import make_table
from confmax.tables.fingerprints import row_hashes


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "K"), [(50_003, 3), (50_000, 10), (700, 200)])
def test_the_definition(n, K, dtype):
    rng = np.random.default_rng(K)
    P = rng.dirichlet(np.ones(K), n).astype(dtype)
    P[::7, 0] = 0.0
    P /= P.sum(axis=1, keepdims=True)
    table = make_table(P, rng.integers(0, K, n), rng.random(n))
    part = table.sampled(0.1)
    chosen = np.isin(table.weight, part.weight)
    np.testing.assert_array_equal(chosen, row_hashes(P) < np.uint64(int(0.1 * 2.0**64)))
    assert abs(part.n_rows - 0.1 * n) < 5 * np.sqrt(0.1 * n)
    np.testing.assert_array_equal(part.proba, table.proba[chosen])
    np.testing.assert_array_equal(part.labels, table.labels[chosen])


def test_order_and_zero_signs_do_not_matter():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(4), 50_000).astype(np.float32)
    P[: 50_000 // 2, 1] = 0.0
    P /= P.sum(axis=1, keepdims=True)
    negative = np.where(P == 0, np.float32(-0.0), P)
    order = rng.permutation(len(P))
    first, other = make_table(P).sampled(0.05), make_table(negative[order]).sampled(0.05)
    np.testing.assert_array_equal(np.unique(first.proba, axis=0), np.unique(other.proba, axis=0))


def test_a_sparse_table_has_the_sample_of_the_dense_one():
    rng = np.random.default_rng(1)
    P = rng.dirichlet(np.full(30, 0.05), 5000)
    P[P < 1e-3] = 0.0
    P /= P.sum(axis=1, keepdims=True)
    dense, sparse = make_table(P).sampled(0.2), make_table(csr_array(P)).sampled(0.2)
    np.testing.assert_array_equal(sparse.proba.toarray(), dense.proba)
