"""Random draws that are a function of (seed, key) alone: the same row gets the same draw in any batch or process.

A 64-bit key is first scrambled, one to one, by a fixed mixer (`confmax.oracle._fingerprints.mixed`). The hash is then
multiply-shift on the two 32-bit halves x0, x1 of the scrambled key (Dietzfelbinger, Universal hashing and k-wise
independent random variables via integer arithmetic without primes, STACS 1996, Theorem 3; Thorup, High speed hashing
for integers and strings, section 3.5)::

    h(x) = (a0 x0 + a1 x1 + b mod 2^64) div 2^32

taken twice with separate coefficients, 32 bits each, of which the draw is the 53 leading bits. For two distinct keys
and six independent uniform 64-bit coefficients, the pair of draws is *exactly* uniform on the pairs of multiples of
2^-53 in [0, 1): the draws of any two rows with distinct keys are independent. The mixer keeps distinct keys distinct,
so this holds with it as without it. A seed selects the coefficients through BLAKE2b, so over seeds this holds as far as
BLAKE2b's output is as good as uniform. The edges between atoms are rounded to that grid: an atom's probability differs
from its weight by less than 2^-52.

The theorem is about pairs, over seeds. Under one seed multiply-shift maps an arithmetic progression of keys, such as
row numbers, to an arithmetic progression of draws; the mixer is there to break the progressions up.
`benchmarks.draws` measures what is left.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax.confusion import Array, Gains
from confmax.oracle import Calibrator, apply_calibrator, decide, given_hashes, is_sparse, is_tensor, on_host
from confmax.oracle._arrays import ROW_SUM_TOLERANCE, as_array, rounding_of
from confmax.oracle._fingerprints import mixed
from confmax.oracle._labels import refuse_masked
from confmax.oracle._numba_predict import decide_drawn
from confmax.oracle._numpy import features
from confmax.oracle._span import is_wide

DUPLICATE_SHARE = 0.1
DRAWS = b"confmax draw"  # what coefficients are for
DUPLICATE_PARTS = 256  # a table of more rows than this squared is judged by the rows whose keys fall in one part


def given_keys(keys: ArrayLike, n: int) -> NDArray[np.uint64]:
    """Return the caller's keys (n,), integers or strings, as 64-bit words.

    Raises
    ------
    ValueError
        If there is not one key per row, or a key is neither an integer nor a string.
    """
    refuse_masked(keys, "keys")
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
        try:
            text = value.encode()
        except UnicodeEncodeError:
            raise ValueError(
                f"keys must be valid Unicode, and {value!a:.40} is not; pass integers, or strings that UTF-8 holds"
            ) from None
        return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
    raise ValueError(f"keys must be integers or strings; got {type(value).__name__}: pass an identifier of each row")


def coefficients(seed: int, purpose: bytes = DRAWS) -> NDArray[np.uint64]:
    """Return the six coefficients of a seed's hash: ``a0, a1, b`` twice; other ones for another purpose."""
    digest = hashlib.blake2b((seed % (1 << 64)).to_bytes(8, "little"), digest_size=48, person=purpose).digest()
    return np.frombuffer(digest, dtype="<u8").astype(np.uint64)


def multiply_shift(keys: NDArray[np.uint64], a0: int, a1: int, b: int, *, bits: int = 64) -> NDArray[np.uint64]:
    """Return h(x), ``bits / 2`` bits long, of keys of ``bits`` bits; shorter ones than 64 are for enumeration."""
    half, modulus = np.uint64(bits // 2), np.uint64((1 << bits) - 1)
    low = keys & np.uint64((1 << (bits // 2)) - 1)
    return ((np.uint64(a0) * low + np.uint64(a1) * (keys >> half) + np.uint64(b)) & modulus) >> half


def uniform(seed: int, keys: NDArray[np.uint64], purpose: bytes = DRAWS) -> Array:
    """Return one number in [0, 1), a multiple of 2^-53, per key: the definition, in NumPy.

    Draws of one seed for two purposes, such as a rule's decisions and its folds, are independent.
    """
    words, x = [int(word) for word in coefficients(seed, purpose)], mixed(keys)
    high, rest = multiply_shift(x, *words[:3]), multiply_shift(x, *words[3:])
    return (((high << np.uint64(32)) | rest) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def drawn_decisions(
    proba: NDArray[Any],
    gains: Gains,
    weights: Array,
    seed: int,
    keys: ArrayLike | None,
    *,
    calibrator: Calibrator | None = None,
    hashes: Any = None,
) -> NDArray[np.int64]:
    """Return the decision (n,) of every row of checked ``proba`` (n, K) by the atom that its key draws.

    Without keys a row's hash, before calibration, is its key, and a warning says where many rows share theirs.
    ``hashes`` are those of the rows as they were given (`given_hashes`); None takes those of ``proba``.
    """
    hashes = given_hashes(proba) if keys is None and hashes is None else hashes
    given = hashes if keys is None else given_keys(keys, proba.shape[0])
    if is_tensor(proba):
        return _drawn_on_device(proba, gains, weights, seed, given, keyed=keys is not None, calibrator=calibrator)
    P = apply_calibrator(calibrator, proba)
    if is_sparse(P) or is_wide(gains, proba.dtype).any():
        atom = np.searchsorted(np.cumsum(weights)[:-1], uniform(seed, given), "right")
        decisions = _by_atom(P, gains, atom)
    else:
        decisions, _, _ = _scanned(features(P, gains.power), gains, weights, seed, given)
    if keys is None:
        _warn_of_duplicates(P, gains, given)
    return decisions


def drawn_given(
    proba: ArrayLike, gains: Gains, weights: Array, seed: int, keys: ArrayLike | None, classes: Sequence[Any]
) -> NDArray[np.int64] | None:
    """Return the decisions (n,) of `drawn_decisions` on probabilities not checked before, checked in the same scan.

    None where they are no array or not of the gains' number of classes, or some row does not sum to one:
    `checked_probabilities` says what is wrong, or divides rows by their sums.
    """
    if is_sparse(proba) or is_tensor(proba) or gains.power:
        return None
    P = as_array(proba, classes)
    if P.shape[1] != gains.n_classes or is_wide(gains, P.dtype).any():
        return None
    given = None if keys is None else given_keys(keys, P.shape[0])
    decisions, used, broken = _scanned(P, gains, weights, seed, given, limits=(ROW_SUM_TOLERANCE, rounding_of(P)))
    if broken:
        return None
    if keys is None:
        _warn_of_duplicates(P, gains, used)
    return decisions


def _scanned(
    x: NDArray[Any],
    gains: Gains,
    weights: Array,
    seed: int,
    keys: NDArray[np.uint64] | None,
    *,
    limits: tuple[float, float] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.uint64], bool]:
    """Return decisions and keys (n,) of an array, and whether some row is beyond the limits."""
    return decide_drawn(x, gains, weights, words=coefficients(seed), keys=keys, limits=limits)


def _drawn_on_device(
    proba: Any,
    gains: Gains,
    weights: Array,
    seed: int,
    given: Any,
    *,
    keyed: bool,
    calibrator: Calibrator | None,
) -> Any:
    """Return the same decisions for a checked tensor, as a tensor (n,) of int64 on its device."""
    from confmax.oracle import _torch_predict as device

    keys = device.as_words(given, proba) if keyed else given
    P = apply_calibrator(calibrator, proba)
    if not keyed:
        _warn_of_duplicates(P, gains, on_host(keys).view(np.uint64))
    return device.decide_drawn(P, gains, weights, words=coefficients(seed), keys=keys)


def _by_atom(csr: Any, gains: Gains, atom: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return the decisions (n,) of the rows of a table, each by its own atom."""
    out = np.empty(len(atom), dtype=np.int64)
    for k in range(len(gains)):
        rows = np.flatnonzero(atom == k)
        if len(rows):
            out[rows] = decide(csr[rows], gains[k])[0]
    return out


def _warn_of_duplicates(proba: NDArray[Any], gains: Gains, keys: NDArray[np.uint64]) -> None:
    """Warn where rows that share their key, and so their draw, are a real share of the table.

    The share is taken over the rows whose keys fall in one part of all keys, which holds either all copies of a row
    or none; over all rows where that part is not of the size that different rows would fill.
    """
    n = len(keys)
    chosen = np.arange(n)
    if n > DUPLICATE_PARTS**2:
        part = np.flatnonzero(keys < np.uint64((1 << 64) // DUPLICATE_PARTS))
        chosen = part if n / 2 <= len(part) * DUPLICATE_PARTS <= 2 * n else chosen
    _, first, counts = np.unique(keys[chosen], return_index=True, return_counts=True)
    repeated = counts > 1
    if counts[repeated].sum() <= DUPLICATE_SHARE * len(chosen):
        return
    decisions = decide(proba[chosen[first[repeated]]], gains)
    random = (decisions != decisions[0]).any(axis=0)
    shared = float(counts[repeated][random].sum() / len(chosen))
    if shared > DUPLICATE_SHARE:
        warnings.warn(
            f"{shared:.0%} of the rows are duplicates of each other and get one common draw of the randomised rule; "
            f"pass keys=, an identifier per row, to draw for each row",
            UserWarning,
            stacklevel=5,
        )
