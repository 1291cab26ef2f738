"""The oracle on tensors: decisions and statistics against the reference, and what stays on the device."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confmax.checks import check_oracle
from confmax.oracle import decide, make_oracle, make_table
from confmax.oracle import decide as reference_decide
from confmax.oracle.numpy import NumpyOracle
from confmax.tables import Part, Table
from confmax.tables.array.kind import ARRAYS
from tests.torch_helpers import FORMS, NARROW, WIDE, drawn_labels, random_gains, simplex, small_chunks

torch = pytest.importorskip("torch")


# --- decisions --------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 300),
    K=st.integers(2, 9),
    digits=st.sampled_from([1, 2, None]),
    dtype=st.sampled_from(list(WIDE)),
    form=st.sampled_from(FORMS),
)
def test_decisions_equal_the_reference(seed, n, K, digits, dtype, form):
    """Bit for bit where gains reduce, ties included; matrix products may differ where two scores are 8 ulp apart."""
    rng = np.random.default_rng(seed)
    P, gains = simplex(rng, n, K, dtype, digits), random_gains(rng, K, form)
    got, expected = decide(torch.from_numpy(P), gains), reference_decide(P, gains)
    assert got.dtype == np.int32
    if gains.full is None:
        np.testing.assert_array_equal(got, expected)
        return
    for g, (mine, theirs) in enumerate(zip(got, expected, strict=True)):
        scores = (P.astype(np.longdouble) @ gains.full[g]).astype(np.float64)
        ahead = np.abs(np.take_along_axis(scores, mine[:, None], 1) - np.take_along_axis(scores, theirs[:, None], 1))
        assert (ahead <= 8 * np.finfo(dtype).eps * np.abs(gains.full[g]).max()).all()


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("form", FORMS[:4])
def test_half_precision_is_scored_in_float32(dtype, form):
    rng = np.random.default_rng(3)
    P = torch.from_numpy(simplex(rng, 2000, 6)).to(dtype)
    gains = random_gains(rng, 6, form, digits=3)
    np.testing.assert_array_equal(decide(P, gains), reference_decide(P.float().numpy(), gains))


# --- the oracle -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cells", [1000, 1 << 18])
def test_the_oracle_passes_the_public_checks(monkeypatch, cells):
    small_chunks(monkeypatch, cells)
    check_oracle("torch", seed=2)
    check_oracle(lambda table, share: make_oracle(table, "blend", backend="torch", model_share=share), seed=3)


@pytest.mark.parametrize("dtype", [*WIDE.values(), *NARROW])
@pytest.mark.parametrize("mode, share", [("model", None), ("labels", None), ("blend", 0.3)])
@pytest.mark.parametrize("weighted", [False, True])
def test_statistics_equal_the_reference(dtype, mode, share, weighted):
    rng = np.random.default_rng(4)
    P = torch.from_numpy(simplex(rng, 700, 5, np.float64, 2)).to(dtype)
    y, weight = rng.integers(0, 5, 700), rng.random(700) * 1e-5 if weighted else None
    oracle = make_oracle(make_table(P, torch.from_numpy(y), weight, range(5)), mode, model_share=share)
    held = (P.double() if dtype == torch.float64 else P.float()).numpy()
    rows = Part(ARRAYS, held, labels=y, weight=weight, classes=tuple(range(5)))
    reference = NumpyOracle(Table.of(rows), oracle.model_share)
    assert oracle.table.head.storage.backend == "torch"
    np.testing.assert_allclose(oracle.rows, reference.rows, atol=1e-14)
    for form in FORMS:
        gains = random_gains(rng, 5, form, digits=6)
        expected = reference.maximize(gains, matrix=True)
        for matrix in (False, True):
            got = oracle.maximize(gains, matrix=matrix)
            assert (got.matrix is not None) == matrix
            for name in ("diagonal", "columns", "matrix")[: 2 + matrix]:
                np.testing.assert_allclose(getattr(got, name), getattr(expected, name), rtol=0, atol=1e-14)


def test_the_same_bytes_for_any_chunks_threads_and_order_of_rows(monkeypatch):
    rng = np.random.default_rng(5)
    P = simplex(rng, 3000, 4)
    y, weight = drawn_labels(rng, P), rng.random(3000)
    gains, order = random_gains(rng, 4, "offsets", digits=9), rng.permutation(3000)
    weight = np.round(weight * 1024) / 1024  # so that their own sum does not depend on the order either

    def answer(rows):
        oracle = make_oracle(make_table(torch.from_numpy(P[rows]), y[rows], weight[rows]), "blend", model_share=0.6)
        got = oracle.maximize(gains, matrix=True)
        return [oracle.rows.tobytes(), got.diagonal.tobytes(), got.columns.tobytes(), got.matrix.tobytes()]

    first = answer(slice(None))
    assert answer(slice(None)) == first
    assert answer(order) == first
    threads = torch.get_num_threads()
    torch.set_num_threads(1 if threads > 1 else 2)
    try:
        small_chunks(monkeypatch, 1000)
        assert answer(slice(None)) == first
    finally:
        torch.set_num_threads(threads)


def test_no_temporary_is_as_large_as_the_table(monkeypatch):
    """Every tensor that a scan or a check makes is at most as large as a few chunks, or as the rows' weights."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Largest(TorchDispatchMode):
        cells = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            for each in out if isinstance(out, (tuple, list)) else [out]:
                if isinstance(each, torch.Tensor) and each.untyped_storage().data_ptr() != table_at:
                    self.cells = max(self.cells, each.numel())
            return out

    rng = np.random.default_rng(7)
    P = torch.from_numpy(simplex(rng, 4000, 50, np.float32)).half()
    table_at, y = P.untyped_storage().data_ptr(), rng.integers(0, 50, 4000)
    small_chunks(monkeypatch, 5000)
    with Largest() as seen:
        oracle = make_oracle(make_table(P, y, None, range(50)), "blend", model_share=0.5)
        for form in FORMS:
            oracle.maximize(random_gains(rng, 50, form), matrix=True)
        decide(P, random_gains(rng, 50, "offsets"))
    assert 5000 <= seen.cells <= 3 * 5000 < P.numel() / 10
