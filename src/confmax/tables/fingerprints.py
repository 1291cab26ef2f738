"""The hash of a row's content, from which samples, folds and draws without keys are made, and the mixer of keys.

A row's hash is taken of its entries as they were given, before rows are divided by their sums, in float32: a table in
float64 has the hashes of the same table in float32, and a last digit that float32 does not hold changes nothing. With
``w_j`` the 32 bits of ``p_j`` without the sign, ``w = c xor (c >> 16)`` of ``c = bits << 1``, it is::

    mixed(sum_j w_j F_j mod 2^64)

where ``F_j`` is an odd 64-bit factor that belongs to column j. Zeros add nothing, so a sparse table has the hashes of
the dense one. Bits are folded because probabilities on a coarse grid end in many zero bits, which products alone would
keep at the end of the sum. Rows with the same values in other columns have other hashes: they are other rows, and must
not share a draw.

Folds must not depend on the order in which the columns are given. They are made of the same words, each mixed by
itself: ``mixed(sum_j mixed(w_j))``, the *unordered* hash.

The *fingerprint* of a labelled table is the number of its rows and the sum, mod 2^64, of their unordered hashes, each
mixed with the place of the row's class among the sorted names of the classes. It depends on the order of neither rows
nor columns.

This module defines the hash in NumPy. The compiled kernels have the form that scans of a table use, and
`tensor/rows.py` that of tensors. The tests compare all of them with whole numbers in Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from confmax import kernels
from confmax.kernels.blocks import over_rows

ROWS = 1 << 16  # of a part
GOLDEN = 0x9E3779B97F4A7C15
# the multipliers of splitmix64's finaliser
FIRST = 0xBF58476D1CE4E5B9
SECOND = 0x94D049BB133111EB


class Fingerprint(NamedTuple):
    """What tells whether a table holds the same labelled rows: their number, and a 64-bit hash of their content."""

    n_rows: int
    content: int


def mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble 64-bit words, one to one: splitmix64's output for the state ``word * GOLDEN``."""
    z = words * np.uint64(GOLDEN)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(FIRST)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(SECOND)
    return np.asarray(z ^ (z >> np.uint64(31)))


def column_factors(columns: int | NDArray[Any]) -> NDArray[np.uint64]:
    """Return the odd 64-bit factors of the first columns, or of columns by their numbers."""
    numbers = np.arange(columns) if isinstance(columns, int) else columns
    return mixed(numbers.astype(np.uint64) + np.uint64(1)) | np.uint64(1)


def row_hashes(proba: NDArray[Any]) -> NDArray[np.uint64]:
    """Return the hash of every row (n,) of an array or csr_array (n, K): the definition, in NumPy."""
    if not isinstance(proba, np.ndarray):
        return mixed(_sums_of_rows(_words(proba.data) * column_factors(proba.indices), proba.indptr))
    sums = np.zeros(len(proba), dtype=np.uint64)
    for column, factor in zip(proba.T, column_factors(proba.shape[1]), strict=True):
        sums += _words(column) * factor
    return mixed(sums)


def unordered_hashes(proba: NDArray[Any]) -> NDArray[np.uint64]:
    """Return the hash of the entries of every row (n,), whatever their order, of an array or csr_array (n, K)."""
    if not isinstance(proba, np.ndarray):
        return mixed(_sums_of_rows(mixed(_words(proba.data)), proba.indptr))
    sums = np.zeros(len(proba), dtype=np.uint64)
    if kernels.native is None:
        for column in proba.T:
            sums += mixed(_words(column))
        return mixed(sums)
    # rows that another library holds may lie in columns
    P = np.ascontiguousarray(proba)
    over_rows(lambda _, start, stop: kernels.native.hash_unordered(P, start, stop, sums), len(P), ROWS)
    return sums


def fingerprint(unordered: NDArray[np.uint64], labels: NDArray[Any], classes: Sequence[Any]) -> Fingerprint:
    """Return the fingerprint of rows with ``unordered`` hashes (n,), and ``labels`` (n,) among the ``classes`` (K,).

    Several labels are a matrix (n, K) of 0 and 1, sparse or not, which may be empty in a row.
    """
    # a file may hold as text what is a number elsewhere
    names = [str(name) for name in classes]
    place = np.empty(len(names), dtype=np.uint64)
    place[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names), dtype=np.uint64)
    words = mixed(place + np.uint64(1))
    words = words[labels] if labels.ndim == 1 else _words_of_labels(labels, words)
    return Fingerprint(labels.shape[0], int(mixed(unordered ^ words).sum(dtype=np.uint64)))


def _words_of_labels(labels: Any, words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the sums of the ``words`` (K,) of the labels of every row (n,), of a matrix (n, K) of 0 and 1."""
    if not isinstance(labels, np.ndarray):
        return np.asarray(labels.astype(np.uint64) @ words)
    # eight labels are a byte, whose sums are looked up: products of whole numbers take no vectors
    packed = np.packbits(labels, axis=1)
    words = np.append(words, np.zeros(-len(words) % 8, np.uint64))
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.uint64)
    out = np.zeros(len(labels), dtype=np.uint64)
    for k in range(packed.shape[1]):
        out += (bits @ words[8 * k : 8 * k + 8])[packed[:, k]]
    return out


def chosen_by_hash(hashes: NDArray[np.uint64], fraction: float) -> NDArray[np.intp]:
    """Return the indices (m,) of the rows whose hashes (n,) lie in the lowest ``fraction`` of all 64-bit words.

    So a sample has the same rows whatever their order, their number of copies or their partition.
    """
    # the bound for all rows would be 2**64, which a 64-bit word does not hold
    if fraction >= 1.0:
        return np.arange(len(hashes))
    return np.flatnonzero(hashes < np.uint64(int(fraction * 2.0**64)))


def _sums_of_rows(words: NDArray[np.uint64], indptr: NDArray[Any]) -> NDArray[np.uint64]:
    # reduceat gives an empty row the entry that follows
    sums = np.add.reduceat(np.append(words, np.uint64(0)), indptr[:-1])
    return np.where(np.diff(indptr) > 0, sums, np.uint64(0))


def _words(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Return the words of entries: their bits in float32 without the sign, folded."""
    # what is smaller than float32 holds becomes zero here, as it is in the same table in float32
    with np.errstate(over="ignore", under="ignore"):
        bits = values.astype(np.float32).view(np.uint32) << np.uint32(1)
    return np.asarray(bits ^ (bits >> np.uint32(16))).astype(np.uint64)
