"""An array that another thread changes while it is read: an answer or a sentence, never an index out of range."""

import threading
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import confmax
from confmax.tables import make_table
from tests.cli_helpers import run_process

ROOT = Path(__file__).parents[1]
N, K = 30_000, 5


def rows(*, sparse=False):
    """Return probabilities (n, K), of which some are zero, and labels (n,)."""
    draw = np.random.default_rng(0)
    P = draw.dirichlet(np.ones(K), N)
    P[P < 0.1] = 0.0
    P /= P.sum(axis=1, keepdims=True)
    y = (P.cumsum(axis=1) > draw.random((N, 1))).argmax(axis=1)
    return pytest.importorskip("scipy.sparse").csr_array(P) if sparse else P, y


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint64])
def test_a_table_keeps_labels_of_its_own(dtype):
    P, y = rows()
    given = y.astype(dtype)
    table = make_table(P, given)
    given[:] = 100
    np.testing.assert_array_equal(table.head.labels, y)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_a_sparse_table_keeps_indices_of_its_own(dtype):
    P, y = rows(sparse=True)
    P.indices, P.indptr = P.indices.astype(dtype), P.indptr.astype(dtype)
    table = make_table(P, y)
    dense = P.toarray()
    P.indices[:] = np.iinfo(dtype).max
    P.indptr[:] = np.iinfo(dtype).max
    np.testing.assert_array_equal(table.head.proba.toarray(), dense)


def scan_while_changed(sparse, name, times):
    """Tune and decide while another thread changes an array of the arguments; what it refuses is passed over."""
    P, y = rows(sparse=sparse)
    weight = np.ones(N)
    array = {"labels": y, "weight": weight, "proba": P}.get(name)
    array = getattr(P, name) if array is None else array
    draw = np.random.default_rng(1)
    whole = array.dtype.kind == "i"
    wild = (
        draw.integers(-(2**31), 2**31 - 1, array.shape) if whole else draw.choice([np.nan, np.inf, -9.0], array.shape)
    )
    good = array.copy()
    done = threading.Event()

    def change():
        while not done.wait(0.001):
            array[...] = wild
            array[...] = good

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(times):
            # rows that were read in the middle of a change may be refused by any sentence
            with warnings.catch_warnings(), suppress(ValueError, IndexError, ArithmeticError):
                warnings.simplefilter("ignore")
                found = confmax.maximize("cohen_kappa", P, y, sample_weight=weight, max_passes=5)
                assert set(np.unique(found.rule.predict(P))) <= set(range(K))
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize("sparse", [False, True])
def test_a_scan_survives_a_change(sparse):
    """In a process of its own, which an index out of range would end."""
    names = ("indices", "indptr", "data", "labels") if sparse else ("labels", "proba", "weight")
    code = f"from tests.test_changed_arrays import scan_while_changed as run; [run({sparse}, n, 4) for n in {names}]"
    done = run_process(code=code, cwd=ROOT)
    assert done.returncode == 0, done.stderr
