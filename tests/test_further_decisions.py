"""Reduced gains with more decisions than classes, such as abstaining, on every backend: as their full matrices."""

import numpy as np
import pytest
import scipy.sparse

import confmax
from confmax.confusion import Confusion, Gains
from confmax.oracle import make_oracle, make_table

BACKENDS = ["numpy", "array", "sparse", "torch", "parts"]


def gains_of(K, M, seed=0, power=0):
    """Four gains of eighths, so that every score is exact: with ties between classes and further decisions."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(1, 9, (4, K)) / 8.0, rng.integers(-4, 5, (4, M)) / 8.0
    # as good as a class of a moderate probability, or of a moderate distance
    b[:, K:] = (
        b[:, :K].max(axis=1, keepdims=True) + 0.125 * (1 if power == 0 else K**power) + np.array([0.0, 0.125])[: M - K]
    )
    b[0, K:] = -2.0  # never
    return Gains.reduced(a, b, power=power)


def rows_of(K, n=500, seed=1):
    """Probabilities in 256ths: sums and products with eighths are exact in float32 too."""
    rng = np.random.default_rng(seed)
    P = rng.multinomial(256, rng.dirichlet(np.full(K, 0.3)), n) / 256.0
    return P, rng.integers(0, K, n), rng.integers(1, 4, n).astype(float)


def table_for(backend, P, y, weight, tmp_path):
    if backend == "sparse":
        return make_table(scipy.sparse.csr_array(P), y, weight)
    if backend == "torch":
        torch = pytest.importorskip("torch")
        return make_table(torch.as_tensor(P), y, weight)
    if backend == "parts":
        path = tmp_path / "table.parquet"
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as pq

        columns = {f"p{k}": P[:, k] for k in range(P.shape[1])} | {"y": y, "w": weight}
        pq.write_table(pa.table(columns), path, row_group_size=100)
        source = confmax.open_table(path, label="y", weight="w", columns=[f"p{k}" for k in range(P.shape[1])])
        return make_table(source)
    return make_table(P, y, weight)


@pytest.mark.parametrize("power", [0, 1, 2])
@pytest.mark.parametrize("K", [2, 7, 200])
def test_the_matrix_is_the_definition(K, power):
    gains = gains_of(K, K + 2, power=power)
    assert (gains.n_classes, gains.n_decisions, gains.has_further) == (K, K + 2, True)
    full = gains.matrices()
    assert full.shape == (4, K, K + 2)
    a, b = gains.coefficients()
    distance = np.abs(np.subtract.outer(np.arange(K), np.arange(K))) ** power if power else np.eye(K)
    for g in range(4):
        np.testing.assert_array_equal(full[g, :, :K], distance * a[g] + b[g, :K])
        np.testing.assert_array_equal(full[g, :, K:], np.tile(b[g, K:], (K, 1)))
    P, _, _ = rows_of(K)
    C = np.zeros((K, K + 2))
    C[:, 1] = P.mean(axis=0)
    S = Confusion.from_matrix(C)
    np.testing.assert_allclose(gains.dot(S), (full * C).sum(axis=(1, 2)), rtol=1e-13)
    joined = Gains.concatenate([gains[0], gains[2:]])
    assert (len(joined), joined.n_decisions) == (3, K + 2)


@pytest.mark.parametrize("share", ["model", "labels", 0.25])
@pytest.mark.parametrize("K", [2, 7, 200])
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_oracle_answers_as_the_reference_does_to_the_matrices(backend, K, share, tmp_path):
    """Ties included: every score is exact. Four classes and less, vectors of classes, and more have kernels each."""
    P, y, weight = rows_of(K)
    gains = gains_of(K, K + 2)
    settings = {"confusion": "blend", "model_share": share} if share == 0.25 else {"confusion": share}
    table = table_for(backend, P, y, weight, tmp_path)
    oracle = make_oracle(table, **settings, **({"backend": "numpy"} if backend == "numpy" else {}))
    held = {"numpy": "array", "parts": "array"}.get(backend, backend)
    assert (type(oracle).__name__ == "NumpyOracle") == (backend == "numpy")
    assert (table.head.storage.backend, table.held) == (held, backend != "parts")
    expected = make_oracle(make_table(P, y, weight), **settings, backend="numpy").maximize(
        Gains.from_matrix(gains.matrices()), matrix=True
    )
    assert expected.columns[1:, K:].sum() > 0.0 == expected.columns[0, K:].sum()
    for batch in (slice(0, 4), slice(2, 3)):
        for matrix in (False, True):
            found = oracle.maximize(gains[batch], matrix=matrix)
            np.testing.assert_allclose(found.diagonal, expected.diagonal[batch], atol=1e-12)
            np.testing.assert_allclose(found.columns, expected.columns[batch], atol=1e-12)
            assert found.columns.shape[1] == K + 2
            if matrix:
                np.testing.assert_allclose(found.matrix, expected.matrix[batch], atol=1e-12)


def test_a_transferred_decision_is_counted():
    """The plain rules on raw probabilities are evaluated by the same calls: with columns for further decisions."""
    P, y, weight = rows_of(3)
    gains = gains_of(3, 4)
    table = make_table(P, y, weight)
    scale = confmax.calibration.Temperature(1.0)
    for share in ("model", "labels"):
        oracle = make_oracle(table.calibrated(scale), share)
        found, expected = (
            oracle.decided_by(table.calibrator).maximize(gains, matrix=True),
            oracle.maximize(gains, matrix=True),
        )
        np.testing.assert_allclose(found.matrix, expected.matrix, atol=1e-12)
        np.testing.assert_allclose(found.columns, expected.columns, atol=1e-12)
