"""The draws of randomised rules: the hash's theorem by enumeration, its implementation, and what must not matter."""

import itertools

import numpy as np
import pytest
from scipy import stats
from scipy.sparse import csr_array

from confmax import DecisionRule, kernels
from confmax.calibration import Temperature
from confmax.confusion import Gains
from confmax.kernels.blocks import block_rows
from confmax.oracle import decide, make_table
from confmax.tables.array.kind import ARRAYS
from confmax.tables.array.oracle import decide_drawn
from confmax.tables.arrays import check_rows
from confmax.tables.draws import coefficients, multiply_shift, uniform
from confmax.tables.fingerprints import row_hashes, unordered_hashes
from confmax.tables.part import Part
from tests.helpers import simplex_grid
from tests.witnesses import serial_failures

RNG = np.random.default_rng(0)
COIN = DecisionRule(Gains.reduced([[1.0, 2.0], [2.0, 1.0]]), np.array([0.5, 0.5]), (0, 1))
COIN3 = DecisionRule(Gains.reduced([[1.0, 2.0, 1.5], [2.0, 1.0, 1.5]]), np.array([0.5, 0.5]), (0, 1, 2))
BLOCK = block_rows(10)


def a_rule(n_classes, n_atoms, *, seed=0, full=False, n_decisions=None):
    rng = np.random.default_rng([n_classes, n_atoms])
    if full:
        gains = Gains.from_matrix(rng.normal(size=(n_atoms, n_classes, n_decisions or n_classes)))
    else:
        gains = Gains.reduced(rng.random((n_atoms, n_classes)) + 0.5, 0.2 * rng.random((n_atoms, n_classes)))
    weights = rng.dirichlet(np.ones(n_atoms))
    return DecisionRule(gains, weights, tuple(range(gains.n_decisions)), "g_mean", seed)


# --- the hash ---------------------------------------------------------------------------------------------------------


def test_pairs_are_exactly_uniform_over_all_coefficients():
    """The theorem on 4-bit words: every pair of distinct keys meets every pair of values equally often."""
    words = range(16)
    a0, a1, b = (np.array(part, dtype=np.uint64) for part in zip(*itertools.product(words, repeat=3), strict=True))
    hashes = np.array([multiply_shift(np.uint64(x), a0, a1, b, bits=4) for x in range(16)])
    assert hashes.max() == 3
    for x, z in itertools.combinations(range(16), 2):
        counts = np.bincount((hashes[x] * np.uint64(4) + hashes[z]).astype(int), minlength=16)
        assert set(counts.tolist()) == {16**3 // 16}, (x, z)


def scrambled(word):
    """The mixer, in Python's whole numbers."""
    z = word * 0x9E3779B97F4A7C15 % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def test_draws_are_the_definition():
    """In Python's whole numbers."""
    keys = [0, 1, 2, 2**32 - 1, 2**32, 2**63, 2**64 - 1]
    for seed in (0, 1, 2**64 - 1):
        a0, a1, b, c0, c1, d = (int(word) for word in coefficients(seed))
        draws = uniform(seed, np.array(keys, dtype=np.uint64))
        for key, draw in zip(keys, draws, strict=True):
            low, high = scrambled(key) % 2**32, scrambled(key) >> 32
            leading = (a0 * low + a1 * high + b) % 2**64 >> 32
            rest = (c0 * low + c1 * high + d) % 2**64 >> 32
            assert draw == (leading * 2**32 + rest >> 11) * 2.0**-53


@pytest.mark.parametrize("keys", [np.arange(100_000), RNG.integers(0, 2**63, 100_000)], ids=["adjacent", "random"])
def test_draws_of_one_seed_cover_the_interval_evenly(keys):
    for seed in range(3):
        draws = uniform(seed, keys.astype(np.uint64))
        assert draws.min() >= 0 and draws.max() < 1
        # pairwise independence bounds the variance of each share, and so the distance
        shares = np.histogram(draws, bins=20, range=(0, 1))[0] / len(draws)
        np.testing.assert_allclose(shares, 0.05, atol=5 * np.sqrt(0.05 * 0.95 / len(draws)))


def test_fingerprints_of_different_rows_differ():
    """Neighbouring rows, permuted rows, rows on coarse grids, one-hot rows: as many hashes as rows in float32."""
    coarse, fine = (simplex_grid(4, steps) / steps for steps in (20, 64))
    near = np.array([0.5, 0.5, 0.0, 0.0]) + np.arange(5000)[:, None] * np.array([1, -1, 0, 0]) * 2.0**-24
    rows = np.concatenate([coarse, fine, near, RNG.dirichlet(np.ones(4), 5000)]).astype(np.float32)
    rows = np.unique(rows, axis=0)
    assert len(np.unique(row_hashes(rows))) == len(rows)
    assert len(np.unique(row_hashes(np.eye(1000)))) == 1000


def word_of(value):
    bits = int(value.view(np.uint32)) * 2 % 2**32
    return bits ^ (bits >> 16)


def hash_of(row):
    """The definition, in Python's whole numbers."""
    total = 0
    for column, value in enumerate(np.asarray(row, np.float32)):
        total += word_of(value) * (scrambled(column + 1) | 1)
    return scrambled(total % 2**64)


@pytest.mark.parametrize(("n", "K"), [(3, 2), (BLOCK + 5, 3), (700, 10), (40, 128), (40, 129), (9, 1000)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_hashes_are_the_definition(n, K, dtype):
    """NumPy, the compiled scan, sparse tables: the same words; float64 those of float32, -0.0 that of 0.0."""
    P = np.random.default_rng(K).dirichlet(np.full(K, 0.3), n).astype(dtype)
    P[P < 1e-3] = 0.0
    expected = np.array([hash_of(row) for row in P], dtype=np.uint64)
    scanned = np.empty(n, np.uint64)
    check_rows(P, hashes=scanned)
    for found in (row_hashes(P), scanned, row_hashes(csr_array(P)), row_hashes(np.where(P == 0, -0.0, P))):
        np.testing.assert_array_equal(found, expected)
    table = Part(ARRAYS, P.astype(np.float32), labels=None, weight=None, classes=())
    np.testing.assert_array_equal(table.row_hashes(), expected)
    P /= P.sum(axis=1, keepdims=True)
    dense, sparse = make_table(P).head, make_table(csr_array(P)).head
    np.testing.assert_array_equal(sparse.row_hashes(), dense.row_hashes())
    np.testing.assert_array_equal(sparse.unordered_hashes(), dense.unordered_hashes())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("K", [3, 130])
def test_unordered_hashes_are_the_definition(K, dtype):
    P = np.random.default_rng(K).dirichlet(np.full(K, 0.3), 50).astype(dtype)
    P[P < 1e-3] = 0.0
    expected = [scrambled(sum(scrambled(word_of(v)) for v in row) % 2**64) for row in P.astype(np.float32)]
    for found in (P, P[:, ::-1].copy(), csr_array(P), -P * (P == 0) + P):
        np.testing.assert_array_equal(unordered_hashes(found), np.array(expected, dtype=np.uint64))


def test_rows_are_hashed_as_they_were_given():
    """A table in float64 whose rows sum to one up to float32's rounding is divided, and hashed before."""
    P = RNG.dirichlet(np.ones(3), 500).astype(np.float32)
    P[:20] *= np.float32(1.0005)
    wide = make_table(P.astype(np.float64))
    assert (wide.head.proba != P).any()
    np.testing.assert_array_equal(wide.head.row_hashes(), row_hashes(P))
    np.testing.assert_array_equal(wide.head.unordered_hashes(), unordered_hashes(P))
    part = wide.calibrated(Temperature(2.0)).head.take(np.arange(7, 90))
    np.testing.assert_array_equal(part.row_hashes(), row_hashes(P[7:90]))
    for calibrator in (None, Temperature(2.0)):
        rule = DecisionRule(COIN3.gains, COIN3.weights, (0, 1, 2), calibrator=calibrator)
        np.testing.assert_array_equal(rule.predict(P.astype(np.float64)), rule.predict(P))
        np.testing.assert_array_equal(rule.predict(P), rule.predict(P, keys=row_hashes(P)))


@pytest.mark.parametrize("step", [1, 2**20, 2**43], ids=str)
def test_draws_of_row_numbers_are_not_serially_dependent(step):
    """Lags 1 to 64 of 10^5 draws under 4 seeds, each at the level 1e-6."""
    keys = np.arange(100_000, dtype=np.uint64) * np.uint64(step)
    counts = [serial_failures(uniform(seed, keys), 64, 1e-6) for seed in range(4)]
    assert sum(counts) == 0


# --- the compiled decisions against the definition --------------------------------------------------------------------


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("n", [1, BLOCK, 3 * BLOCK + 5])
@pytest.mark.parametrize(
    ("K", "A", "kind"),
    [
        (3, 2, {}),
        (10, 5, {}),
        (10, 8, {}),
        (130, 3, {}),
        (4, 3, {"full": True}),
        (3, 2, {"full": True, "n_decisions": 5}),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_to_the_slow_definition(n, K, A, kind, dtype, keyed):
    """All atoms decide all rows; the draw picks. Rows in tenths make ties, small whole gains keep them."""
    rng = np.random.default_rng([n, K])
    P = np.round(rng.dirichlet(np.ones(K), n), 1) + 0.1
    P = (P / P.sum(1, keepdims=True)).astype(dtype)
    rule = a_rule(K, A, **kind)
    if not kind:
        rule = DecisionRule(Gains.reduced(rng.integers(1, 4, (A, K))), rule.weights, rule.class_names)
    keys = rng.integers(0, 2**63, n) if keyed else None
    words = keys.astype(np.uint64) if keyed else row_hashes(P)
    atom = np.searchsorted(np.cumsum(rule.weights)[:-1], uniform(rule.seed, words), side="right")
    expected = decide(P, rule.gains)[atom, np.arange(n)]
    found = ARRAYS.drawn(P, rule.gains, rule.weights, rule.seed, words)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == np.int64
    if not keyed and kernels.native is not None:
        words_of_seed = coefficients(rule.seed)
        drawn, used, _ = decide_drawn(P, rule.gains, rule.weights, words=words_of_seed, keys=None)
        np.testing.assert_array_equal(used, words)
        np.testing.assert_array_equal(drawn, expected)


def test_batches_order_and_dtype_do_not_matter():
    P = RNG.dirichlet(np.ones(5), 4000).astype(np.float32)
    rule = a_rule(5, 3)
    whole = rule.predict(P)
    order = RNG.permutation(len(P))
    np.testing.assert_array_equal(rule.predict(P[order]), whole[order])
    np.testing.assert_array_equal(np.concatenate([rule.predict(part) for part in np.array_split(P, 37)]), whole)
    np.testing.assert_array_equal(rule.predict(np.asfortranarray(P)), whole)
    keys = [f"row-{k}" for k in range(len(P))]
    np.testing.assert_array_equal(rule.predict(P[order], keys=np.array(keys)[order]), rule.predict(P, keys=keys)[order])
    # another seed draws otherwise
    assert (a_rule(5, 3, seed=1).predict(P) != whole).any()


# --- the warning ------------------------------------------------------------------------------------------------------


def tied(n, distinct, seed=0):
    """Return n rows of which ``distinct`` differ, in float32 too, on all of which the two atoms of `COIN` disagree."""
    p = 0.5 + 0.1 * np.random.default_rng(seed).permutation(distinct) / distinct
    return np.column_stack([p, 1 - p])[np.arange(n) % distinct]


@pytest.mark.parametrize(("n", "distinct"), [(100, 1), (4000, 1500), (50_000, 20_000), (200_000, 80_000)])
def test_duplicates_are_told(n, distinct):
    """Few large groups and many small ones, on tables that are looked at whole and on larger ones."""
    with pytest.warns(UserWarning, match="of the rows are duplicates of each other .* pass keys=") as caught:
        drawn = COIN.predict(tied(n, distinct))
    assert caught[0].filename == __file__
    assert distinct > 1 or len(set(drawn.tolist())) == 1  # equal rows share a draw
    # 20 000 rows in turn: half of them appear twice in 50 000 rows and the others three times
    assert str(caught[0].message).startswith("100%")


@pytest.mark.parametrize("n", [4000, 200_000])
def test_no_warning_without_duplicates_or_where_atoms_agree(n):
    """Warnings are errors here."""
    COIN.predict(tied(n, n))
    COIN.predict(tied(n, 3), keys=np.arange(n))
    sure = np.tile([0.9, 0.1], (n, 1))
    COIN.predict(np.where(np.arange(n)[:, None] % 20 == 0, tied(n, n), sure))


# --- samples by content -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "K"), [(50_003, 3), (50_000, 10), (700, 200)])
def test_a_sample_has_the_rows_of_the_smallest_hashes(n, K, dtype):
    rng = np.random.default_rng(K)
    P = rng.dirichlet(np.ones(K), n).astype(dtype)
    P[::7, 0] = 0.0
    P /= P.sum(axis=1, keepdims=True)
    table = make_table(P, rng.integers(0, K, n), rng.random(n))
    part = table.sampled(0.1)
    chosen = np.isin(table.head.weight, part.head.weight)
    np.testing.assert_array_equal(chosen, row_hashes(P) < np.uint64(int(0.1 * 2.0**64)))
    assert abs(part.n_rows - 0.1 * n) < 5 * np.sqrt(0.1 * n)
    np.testing.assert_array_equal(part.head.proba, table.head.proba[chosen])
    np.testing.assert_array_equal(part.head.labels, table.head.labels[chosen])


def test_neither_order_nor_signs_of_zeros_matter_to_a_sample_nor_that_a_table_is_sparse():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(4), 50_000).astype(np.float32)
    P[: 50_000 // 2, 1] = 0.0
    P /= P.sum(axis=1, keepdims=True)
    negative = np.where(P == 0, np.float32(-0.0), P)
    order = rng.permutation(len(P))
    first, other = make_table(P).sampled(0.05), make_table(negative[order]).sampled(0.05)
    np.testing.assert_array_equal(np.unique(first.head.proba, axis=0), np.unique(other.head.proba, axis=0))
    np.testing.assert_array_equal(make_table(csr_array(P)).sampled(0.05).head.proba.toarray(), first.head.proba)


def test_shares_follow_the_weights():
    rule = a_rule(4, 4)
    row = np.array([[0.3, 0.2, 0.3, 0.2]])
    exact = rule.decision_probabilities(row)[0]
    drawn = rule.predict(np.repeat(row, 50_000, axis=0), keys=np.arange(50_000))
    np.testing.assert_allclose(np.bincount(drawn, minlength=4) / 50_000, exact, atol=5 * np.sqrt(0.25 / 50_000))


@pytest.mark.parametrize("pair", [(0, 1), (1, 2), (7, 8), (0, 2**32), (5, 2**63 + 5), (2**64 - 1, 0)])
def test_pairs_of_keys_are_independent_over_seeds(pair):
    """Chi-square on a 5 x 5 grid over 5000 seeds, at the level 1e-4: adjacent keys and keys that share a half."""
    keys = np.array(pair, dtype=np.uint64)
    draws = np.array([uniform(seed, keys) for seed in range(5000)])
    cells = np.bincount((draws * 5).astype(int) @ [5, 1], minlength=25)
    assert stats.chisquare(cells).pvalue > 1e-4
