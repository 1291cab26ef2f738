"""Several labels per row: the kernel against the definition of decisions, and statistics against sums over rows."""

import ctypes
import mmap
import os
import subprocess
import sys

import numpy as np
import pytest

from confmax import kernels
from confmax.confusion import Gains
from confmax.kernels.blocks import chunk_rows
from confmax.tables.array.kind import ARRAYS
from confmax.tables.array.labels import decide_labels
from confmax.tables.decisions import ANY, Decisions, decisions_of
from confmax.tables.part import Part
from confmax.tables.precision import gain_coefficients
from confmax.tables.table import Table, TableOracle
from tests.helpers import assert_same_statistics, by_numpy, compiled

# where a path of the kernel ends (`labels.h`): a vector, rows of a block, labels that are turned or counted together,
# and best scores that are kept in order
LABELS = [1, 2, 3, 5, 8, 9, 15, 16, 17, 20, 33, 63, 64, 65, 100, 255, 256, 257, 600]
ROWS = [1, 2, 3, 17, 127, 128, 129, 300]
FORMS = ["any", *(form for k in (1, 2, 5, 8, 16, 17, 40) for form in (k, ("at_most", k)))]


def table(rng, n, L, dtype, *, ties, labelled=True, weighted=True, decisions=ANY):
    P = (rng.integers(0, 5, (n, L)) / 4 if ties else rng.random((n, L))).astype(dtype)
    return Part(
        ARRAYS,
        P,
        labels=(rng.random((n, L)) < P).astype(np.uint8) if labelled else None,
        weight=rng.random(n) + 0.1 if weighted else None,
        classes=tuple(range(L)),
        decisions=decisions,
    )


def gains_on(rng, L, *, ties, B=3):
    """Gains of both signs, whose scores tie within a row and at zero."""
    if ties:
        return Gains.reduced(rng.integers(-1, 3, (B, L)), rng.integers(-2, 2, (B, L)) / 4)
    return Gains.reduced(rng.normal(size=(B, L)), rng.normal(size=(B, L)))


def defined(data, share, gains):
    """Return what every gain chooses (B, n, L), and the means of S, of S where chosen, and of the chosen."""
    weight = np.full(len(data.proba), 1.0) if data.weight is None else data.weight
    S = share * data.proba + (0.0 if data.labels is None else (1 - share) * data.labels)
    first, second = gain_coefficients(gains, data.proba.dtype)
    chosen = np.stack([data.decisions.chosen(data.proba * a + b) for a, b in zip(first, second, strict=True)])
    mean = weight / weight.sum()
    return chosen, mean @ S, np.einsum("n,nl,bnl->bl", mean, S, chosen), np.einsum("n,bnl->bl", mean, chosen)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize("L", LABELS)
def test_decisions_and_statistics_are_those_of_the_definition(L, ties, dtype):
    rng = np.random.default_rng([L, ties])
    for form in FORMS:
        decisions = decisions_of(form)
        n = int(rng.choice(ROWS))
        labelled, weighted = rng.random(2) < 0.7
        data = table(rng, n, L, dtype, ties=ties, labelled=labelled, weighted=weighted, decisions=decisions)
        share = [1.0, 0.0, 0.3, rng.random(L)][rng.integers(4)] if labelled else 1.0
        gains = gains_on(rng, L, ties=ties)
        chosen, rows, diagonal, columns = defined(data, share, gains)
        for g in range(len(gains)):
            found = decide_labels(data.proba, gains[g], decisions)
            assert found.dtype == np.uint8
            np.testing.assert_array_equal(found, chosen[g])
        oracle = TableOracle(Table.of(data), share)
        assert oracle.exact == bool(np.all(share == 1.0))
        found = oracle.maximize(gains)
        for one, expected in ((found.rows, rows), (found.diagonal, diagonal), (found.columns, columns)):
            # float32 tables: S of the definition is in float32 where all shares are one number
            np.testing.assert_allclose(one, expected, rtol=1e-6 if dtype == np.float32 else 1e-12, atol=1e-15)
        with by_numpy():
            np.testing.assert_array_equal(decide_labels(data.proba, gains[0], decisions), chosen[0])
            other = TableOracle(Table.of(data), share).maximize(gains)
        assert_same_statistics(found, other)


def test_a_score_of_minus_zero_is_zero():
    P = np.array([[0.5, 0.5, 0.0]] * 3)
    for form, expected in (("any", [0, 0, 0]), (1, [0, 0, 1]), (2, [0, 1, 1]), (("at_most", 2), [0, 0, 0])):
        gains = Gains.reduced([-0.0, 0.0, -1.0], [-0.0, 0.0, 0.0])
        assert decide_labels(P, gains, decisions_of(form)).tolist() == [expected] * 3
    # more than the kernel keeps in order
    P = np.zeros((2, 40))
    signs = np.where(np.arange(40) % 2, 1.0, -1.0)
    found = decide_labels(P, Gains.reduced(signs, np.zeros(40)), decisions_of(20))
    assert found.tolist() == [[0] * 20 + [1] * 20] * 2


def test_very_many_labels():
    rng = np.random.default_rng(0)
    L = 100_000
    for form in (3, ("at_most", 30), "any"):
        data = table(rng, 3, L, np.float32, ties=True, decisions=decisions_of(form))
        gains = gains_on(rng, L, ties=True, B=1)
        chosen, _, diagonal, _ = defined(data, 0.0, gains)
        np.testing.assert_array_equal(decide_labels(data.proba, gains, data.decisions), chosen[0])
        np.testing.assert_allclose(TableOracle(Table.of(data), 0.0).maximize(gains).diagonal, diagonal, rtol=1e-12)


def test_gains_with_more_digits_than_float32_are_decided_in_float64():
    P = np.full((2, 3), 0.5, dtype=np.float32)
    gains = Gains.reduced([[1.0, 1e-40, -1e-40], [1.0, 1.0, -1.0]])
    data = Part(ARRAYS, P, labels=None, weight=None, classes=(0, 1, 2), decisions=ANY)
    expected = [[1, 1, 0], [1, 1, 0]]
    assert decide_labels(P, gains[0], ANY).tolist() == expected
    found = TableOracle(Table.of(data), 1.0).maximize(gains)
    assert found.columns.tolist() == expected
    assert found.diagonal.tolist() == [[0.5, 0.5, 0.0]] * 2


def test_no_rows_choose_nothing():
    assert decide_labels(np.empty((0, 3)), Gains.reduced(np.ones(3)), ANY).shape == (0, 3)


def test_what_it_does_not_have_is_refused():
    data = table(np.random.default_rng(0), 5, 3, np.float64, ties=False, labelled=False)
    with pytest.raises(ValueError, match="counts labels, and this table has none; pass `y=`"):
        TableOracle(Table.of(data), 0.5)
    oracle = TableOracle(Table.of(data), 1.0)
    with pytest.raises(ValueError, match="several labels per row have no confusion matrix"):
        oracle.maximize(Gains.reduced(np.ones(3)), matrix=True)
    with pytest.raises(TypeError, match="full gains have no reduced form"):
        oracle.maximize(Gains.from_matrix(np.eye(3)))


@pytest.mark.parametrize("form", ["any", 2, ("at_most", 3), 20])
def test_the_same_bytes_for_any_number_of_threads(form, threads):
    rng = np.random.default_rng(3)
    L = 30
    n = 2 * chunk_rows(L, 10**5) + 77
    data = table(rng, n, L, np.float32, ties=False, decisions=decisions_of(form))
    gains, answers = gains_on(rng, L, ties=False), []
    for number in (1, 2, 8):
        threads(number)
        oracle = TableOracle(Table.of(data), 0.4)
        found = oracle.maximize(gains)
        decided = decide_labels(data.proba, gains[0], data.decisions)
        answers.append([part.tobytes() for part in (oracle.rows, found.diagonal, found.columns, decided)])
    assert answers[0] == answers[1] == answers[2]


CODE = """
import sys
import numpy as np
from confmax import kernels
from confmax.tables.array.kind import ARRAYS
from confmax.tables.array.labels import decide_labels
from confmax.tables.decisions import decisions_of
from confmax.tables.table import Table, TableOracle
from tests.test_labels_oracle import gains_on, table
rng = np.random.default_rng(4)
print(kernels.native and kernels.native.instructions)
for dtype in (np.float32, np.float64):
    for L in (1, 7, 20, 70, 260):
        for form in ("any", 1, 6, ("at_most", 4), 30):
            for ties in (True, False):
                data = table(rng, 140, L, dtype, ties=ties, decisions=decisions_of(form))
                gains = gains_on(rng, L, ties=ties, B=2)
                print(decide_labels(data.proba, gains[0], data.decisions).tobytes().hex())
                found = TableOracle(Table.of(data), 0.3).maximize(gains)
                print(found.diagonal.tobytes().hex(), found.columns.tobytes().hex(), file=sys.stderr)
"""


@compiled
def test_every_instruction_set_gives_the_same_bits():
    decided, sums = set(), set()
    for instructions in ("avx512", "avx2", "baseline", "numpy"):
        run = subprocess.run(
            [sys.executable, "-c", CODE],
            env={**os.environ, "CONFMAX_INSTRUCTIONS": instructions},
            capture_output=True,
            text=True,
            check=True,
        )
        used, rest = run.stdout.split(maxsplit=1)
        assert used == {"numpy": "None"}.get(instructions, used)
        decided.add(rest)
        if used != "None":
            # NumPy adds in another order
            sums.add(run.stderr)
    assert (len(decided), len(sums)) == (1, 1)


def at_the_end(values):
    """Return a copy of an array behind which memory may not be read: a read there ends the process."""
    page = mmap.PAGESIZE
    whole = -(-values.nbytes // page) * page
    held = mmap.mmap(-1, whole + page)
    memory = np.frombuffer(held, np.uint8)
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    assert protect(ctypes.c_void_p(memory.ctypes.data + whole), ctypes.c_size_t(page), 0) == 0
    out = memory[whole - values.nbytes : whole].view(values.dtype).reshape(values.shape)
    out[...] = values
    return out


@compiled
@pytest.mark.skipif(os.name == "nt", reason="protects memory as POSIX does")
@pytest.mark.parametrize("most", [0, 2, 17])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_reads_and_writes_its_own_arrays_only(dtype, most):
    rng = np.random.default_rng(5)
    for L, n in ((1, 5), (1, 300), (3, 130), (20, 2), (20, 128), (65, 129), (300, 1)):
        P, y = at_the_end(rng.random((n, L)).astype(dtype)), at_the_end(rng.integers(0, 2, (n, L)).astype(np.uint8))
        a, b = at_the_end(np.ones((1, L), dtype)), at_the_end(np.full((1, L), -0.5, dtype))
        weight, out = at_the_end(rng.random(n)), np.full((n + 2, L), 7, np.uint8)
        sums = np.full((3, 3, L), 7.0)
        kernels.native.scan_labels(P, 0, n, a, b, most, 1, y, weight, 1, sums[1:2], out[1:-1])
        expected = Decisions(most or None, positive=True).chosen(P - dtype(0.5))
        np.testing.assert_array_equal(out[1:-1], expected)
        assert (out[[0, -1]] == 7).all() and (sums[[0, 2]] == 7.0).all()
        # sums are added to what is there
        np.testing.assert_allclose(sums[1, 2], 7.0 + weight @ expected, rtol=1e-12)


@compiled
def test_decisions_of_several_gains_have_no_place():
    P, none = np.full((4, 3), 0.5), np.empty(0)
    arguments = [np.ones((2, 3)), np.zeros((2, 3)), 1, 0, np.empty((0, 0), np.uint8), none, 0, np.empty((0, 3, 0))]
    with pytest.raises(ValueError, match="arguments do not fit together"):
        kernels.native.scan_labels(P, 0, 4, *arguments, np.zeros((4, 3), np.uint8))
    with pytest.raises(TypeError, match="argument 12 has another type"):
        kernels.native.scan_labels(P, 0, 4, *arguments, np.zeros((4, 3), np.bool_))


@pytest.mark.parametrize("most", [3, 4, 100])
def test_as_many_as_there_are(most):
    rng = np.random.default_rng(6)
    data = table(rng, 40, 3, np.float64, ties=True)
    gains = gains_on(rng, 3, ties=True, B=1)
    assert decide_labels(data.proba, gains, Decisions(most)).all()
    found = decide_labels(data.proba, gains, Decisions(most, positive=True))
    np.testing.assert_array_equal(found, decide_labels(data.proba, gains, ANY))
