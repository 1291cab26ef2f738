"""Random draws that are a function of (seed, key) alone: the same row gets the same draw in any batch or process.

The hash is multiply-shift on the two 32-bit halves x0, x1 of a 64-bit key (Dietzfelbinger, Universal hashing and k-wise
independent random variables via integer arithmetic without primes, STACS 1996, Theorem 3; Thorup, High speed hashing
for integers and strings, section 3.5)::

    h(x) = (a0 x0 + a1 x1 + b mod 2^64) div 2^32

taken twice with separate coefficients, 32 bits each, of which the draw is the 53 leading bits. For two distinct keys
and six independent uniform 64-bit coefficients, the pair of draws is *exactly* uniform on the pairs of multiples of
2^-53 in [0, 1): the draws of any two rows with distinct keys are independent. A seed selects the coefficients through
BLAKE2b, so over seeds this holds as far as BLAKE2b's output is as good as uniform. The edges between atoms are rounded
to that grid: an atom's probability differs from its weight by less than 2^-52. Three rows together need not be
independent; pairs are enough for the mean and the variance of any sum over rows, and no more is claimed.
"""

from __future__ import annotations

import hashlib
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax.confusion import Array, Gains
from confmax.oracle import Calibrator, apply_calibrator, decide, is_sparse, is_tensor, on_host
from confmax.oracle._numba_predict import decide_drawn
from confmax.oracle._numpy import features

DUPLICATE_SHARE = 0.1
DUPLICATE_SAMPLE = 4096

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble 64-bit words one to one (the finaliser of splitmix64)."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def column_factors(n_classes: int) -> NDArray[np.uint64]:
    """Return the odd multipliers (K,) of the fingerprint, one per column."""
    return _mix(np.arange(1, n_classes + 1, dtype=np.uint64) * _GOLDEN) | np.uint64(1)


def row_keys(proba: Any) -> NDArray[np.uint64]:
    """Return one fingerprint per row of ``proba`` (n, K), from its values: equal rows have equal keys, in any dtype.

    The definition, in NumPy; `decide_drawn` computes the same. Two different rows share a key about once in 2^64 pairs.
    """
    if is_sparse(proba):
        # zeros add nothing
        return _mix(sums_of_rows(proba, _folded(proba.data) * column_factors(proba.shape[1])[proba.indices]))
    keys = np.zeros(proba.shape[0], dtype=np.uint64)
    for column, factor in zip(proba.T, column_factors(proba.shape[1]), strict=True):
        keys += _folded(column) * factor
    return _mix(keys)


def sums_of_rows(csr: Any, words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the sum over every row (n,) of one word per stored entry of a checked sparse table."""
    return np.asarray(np.add.reduceat(words, csr.indptr[:-1]))


def _folded(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Return the bits of numbers, as float64, the upper half folded into the lower."""
    bits = (values.astype(np.float64) + 0.0).view(np.uint64)  # + 0.0: one zero, not two
    return bits ^ (bits >> np.uint64(32))


def given_keys(keys: ArrayLike, n: int) -> NDArray[np.uint64]:
    """Return the caller's keys (n,), integers or strings, as 64-bit words.

    Raises
    ------
    ValueError
        If there is not one key per row, or a key is neither an integer nor a string.
    """
    values = np.asarray(on_host(keys))
    if values.shape != (n,):
        raise ValueError(f"keys must hold one key per row of proba: {n}; got shape {values.shape}")
    if values.dtype.kind in "iu":
        return values.astype(np.uint64)
    words = [_word(value) for value in values.tolist()]
    return np.array(words, dtype=np.uint64)


def _word(value: Any) -> int:
    if isinstance(value, int):
        return value % (1 << 64)
    if isinstance(value, str):
        return int.from_bytes(hashlib.blake2b(value.encode(), digest_size=8).digest(), "little")
    raise ValueError(f"keys must be integers or strings; got {type(value).__name__}: pass an identifier of each row")


def coefficients(seed: int) -> NDArray[np.uint64]:
    """Return the six coefficients of a seed's hash: ``a0, a1, b`` twice."""
    digest = hashlib.blake2b((seed % (1 << 64)).to_bytes(8, "little"), digest_size=48, person=b"confmax draw").digest()
    return np.frombuffer(digest, dtype="<u8").astype(np.uint64)


def multiply_shift(keys: NDArray[np.uint64], a0: int, a1: int, b: int, *, bits: int = 64) -> NDArray[np.uint64]:
    """Return h(x), ``bits / 2`` bits long, of keys of ``bits`` bits; shorter ones than 64 are for enumeration."""
    half, modulus = np.uint64(bits // 2), np.uint64((1 << bits) - 1)
    low = keys & np.uint64((1 << (bits // 2)) - 1)
    return ((np.uint64(a0) * low + np.uint64(a1) * (keys >> half) + np.uint64(b)) & modulus) >> half


def uniform(seed: int, keys: NDArray[np.uint64]) -> Array:
    """Return one number in [0, 1), a multiple of 2^-53, per key: the definition, in NumPy."""
    words = [int(word) for word in coefficients(seed)]
    high, rest = multiply_shift(keys, *words[:3]), multiply_shift(keys, *words[3:])
    return (((high << np.uint64(32)) | rest) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def drawn_decisions(
    proba: NDArray[Any],
    gains: Gains,
    weights: Array,
    seed: int,
    keys: ArrayLike | None,
    *,
    calibrator: Calibrator | None = None,
) -> NDArray[np.int64]:
    """Return the decision (n,) of every row of checked ``proba`` (n, K) by the atom that its key draws.

    Without keys a row's fingerprint, before calibration, is its key, and a warning says where many rows share theirs.
    """
    given = None if keys is None else given_keys(keys, proba.shape[0])
    if is_tensor(proba):
        return _drawn_on_device(proba, gains, weights, seed, given, calibrator=calibrator)
    if keys is None and (calibrator is not None or gains.power or is_sparse(proba)):
        given = row_keys(proba)  # the scan below sees something else than the row
    P = apply_calibrator(calibrator, proba)
    if is_sparse(P):
        assert given is not None
        atom = np.searchsorted(np.cumsum(weights)[:-1], uniform(seed, given), "right")
        decisions, used = _by_atom(P, gains, atom), given
    else:
        factors, words = column_factors(P.shape[1]), coefficients(seed)
        x = features(P, gains.power)
        decisions, used = decide_drawn(x, gains, weights, words=words, keys=given, factors=factors)
    if keys is None:
        _warn_of_duplicates(P, gains, used)
    return decisions


def _drawn_on_device(
    proba: Any,
    gains: Gains,
    weights: Array,
    seed: int,
    given: NDArray[np.uint64] | None,
    *,
    calibrator: Calibrator | None,
) -> Any:
    """Return the same decisions for a checked tensor, as a tensor (n,) of int64 on its device."""
    from confmax.oracle import _torch_predict as device

    factors = column_factors(proba.shape[1])
    keys = device.row_keys(proba, factors) if given is None else device.as_words(given, proba)
    P = apply_calibrator(calibrator, proba)
    if given is None:
        _warn_of_duplicates(P, gains, on_host(keys).view(np.uint64))
    return device.decide_drawn(P, gains, weights, words=coefficients(seed), keys=keys)


def _by_atom(csr: Any, gains: Gains, atom: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return the decisions (n,) of the rows of a sparse table, each by its own atom."""
    out = np.empty(len(atom), dtype=np.int64)
    for k in range(len(gains)):
        rows = np.flatnonzero(atom == k)
        if len(rows):
            out[rows] = decide(csr[rows], gains[k])[0]
    return out


def _warn_of_duplicates(proba: NDArray[Any], gains: Gains, keys: NDArray[np.uint64]) -> None:
    """Warn where rows that share their key, and so their draw, are a real share of the table.

    The share is taken over a random sample of the rows; each is looked up among all rows.
    """
    n = len(keys)
    whole = n <= DUPLICATE_SAMPLE
    sample = np.arange(n) if whole else np.random.default_rng(0).choice(n, DUPLICATE_SAMPLE, replace=False)
    decisions = decide(proba[sample], gains)
    random = keys[sample][(decisions != decisions[0]).any(axis=0)]
    if len(random) <= DUPLICATE_SHARE * len(sample):
        return
    # only rows that agree with a sampled one in their leading bits can share its key
    leading = np.zeros(1 << 16, dtype=np.bool_)
    leading[random >> np.uint64(48)] = True
    found, counts = np.unique(keys[leading[keys >> np.uint64(48)]], return_counts=True)
    shared = float((counts[np.searchsorted(found, random)] > 1).sum() / len(sample))
    if shared > DUPLICATE_SHARE:
        warnings.warn(
            f"{shared:.0%} of the rows are duplicates of each other and get one common draw of the randomised rule; "
            f"pass keys=, an identifier per row, to draw for each row",
            UserWarning,
            stacklevel=4,
        )
