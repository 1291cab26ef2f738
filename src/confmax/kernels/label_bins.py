"""Rows of one label in bins: what thresholds and calibrations are found by, in one pass over the numbers of a label.

The numbers (n,) of a label are its probabilities, below zero (minus zero included) for rows that have the label: so a
label is one array, which lies together. A label's map is ``sigmoid(a logit(p) + c)``. `label_bins.h` has the same
operations in the same order, and the same bits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from confmax import kernels
from confmax.kernels.softmax import exponentials, few_at_a_time, logarithms

EDGE = 1e-6  # probabilities are taken to lie as far from zero and one before their logits are taken
MOST_LOGIT = 13.815509557963774  # of one minus EDGE
LEAST = 2.0**-24  # probabilities below it share a bin
PER_OCTAVE = 16  # bits of a float32 that a bin leaves out: 128 bins between a probability and its double
BUCKETS = (24 << (23 - PER_OCTAVE)) + 2
FIRST = int(np.float32(LEAST).view(np.int32)) >> PER_OCTAVE
# (BUCKETS + 1,): what lies in the bins before one is at least its edge, and the rest is below it
EDGES = ((FIRST + BUCKETS - np.arange(BUCKETS + 1, dtype=np.int32)) << PER_OCTAVE).view(np.float32).astype(np.float64)
GIVEN, MAPPED, LOGIT = range(3)  # what is binned: probabilities, calibrated ones, logits

Array = NDArray[np.float64]
Map = tuple[Array, Array] | None  # a and c, one for all numbers or a row of them that is repeated; None for no map
NOTHING = np.empty(0)
NO_SUMS = np.empty((0, 4))
NO_BINS = np.empty(0, np.bool_)
NO_ROWS = np.empty(0, np.int64)


class Binned(NamedTuple):
    """Sums over the rows of each bin (B,): their number, their weight, that of true rows, and weighted values."""

    rows: Array
    weight: Array
    true: Array
    value: Array


def turned(proba: NDArray[Any], labels: NDArray[Any] | None, first: int, m: int) -> NDArray[Any]:
    """Return the numbers (m, n) of ``m`` labels from the ``first`` one on, of a table (n, L)."""
    out = np.empty((m, len(proba)), proba.dtype)
    if kernels.native is not None:
        given = np.empty((0, 0), np.uint8) if labels is None else labels
        kernels.native.turn_labels(proba, given, first, out)
        return out
    some = slice(first, first + m)
    out[...] = proba[:, some].T + proba.dtype.type(0.0)
    return out if labels is None else np.negative(out, out=out, where=labels[:, some].T != 0)


def mapped(p: NDArray[Any], a: Array, c: Array) -> Array:
    """Return ``sigmoid(a logit(p) + c)`` (n,) of probabilities; a and c (m,) are repeated."""
    out = np.empty(len(p))
    if kernels.native is not None:
        kernels.native.bin_labels(p, NOTHING, a, c, MAPPED, NO_SUMS, NO_BINS, NO_ROWS, out)
        return out
    for part in few_at_a_time(0, len(p)):
        out[part] = _values(p[part], (a, c), part, MAPPED)
    return out


def binned(numbers: NDArray[Any], weight: Array, by: int, bins: int, given: Map = None) -> Binned:
    """Return the sums of rows with ``numbers`` (n,) and ``weight`` (n,) in ``bins``; no weight is one for each row.

    Values are logits if binned ``by`` these, otherwise what the ``given`` map makes of the probabilities.
    """
    if kernels.native is not None:
        sums = np.zeros((bins, 4))
        a, c = given or (NOTHING, NOTHING)
        kernels.native.bin_labels(numbers, weight, a, c, by, sums, NO_BINS, NO_ROWS, NOTHING)
        return Binned(*sums.T)
    value = _values(np.abs(numbers), given, slice(0, len(numbers)), by)
    place = _places(numbers, value, by, bins)
    w = weight if weight.size else np.ones(len(numbers))
    parts = (np.ones(len(w)), w, np.where(np.signbit(numbers), w, 0.0), w * value)
    return Binned._make(np.bincount(place, part, bins).astype(np.float64) for part in parts)


def rows_in(wanted: NDArray[np.bool_], most: int, numbers: NDArray[Any]) -> NDArray[Any]:
    """Return the rows (m,) whose probabilities lie in bins that are ``wanted`` (B,), at ``most`` so many."""
    if kernels.native is not None:
        rows = np.empty(most, np.int64)
        found = kernels.native.bin_labels(numbers, NOTHING, NOTHING, NOTHING, GIVEN, NO_SUMS, wanted, rows, NOTHING)
        return rows[:found]
    return np.flatnonzero(wanted[bucket_of(np.abs(numbers))])


def bucket_of(p: NDArray[Any]) -> NDArray[np.intp]:
    """Return the bin of every probability (n,), the largest ones first."""
    # the bits of positive numbers have the order of these numbers, also where float32 rounds them
    bits = np.maximum(p.astype(np.float32), np.float32(LEAST)).view(np.int32) >> PER_OCTAVE
    return np.maximum((BUCKETS - 1) - (bits.astype(np.intp) - FIRST), 0)


def _values(p: NDArray[Any], given: Map, part: slice, by: int) -> Array:
    p = p.astype(np.float64)
    if by != LOGIT and given is None:
        return p
    inside = np.clip(p, EDGE, 1.0 - EDGE)
    logit = logarithms(inside / (1.0 - inside))
    if by == LOGIT or given is None:
        return logit
    a, c = (x if len(x) == 1 else x[np.arange(part.start, part.stop) % len(x)] for x in given)
    t = a * logit + c
    e = exponentials(-np.abs(t))
    return np.where(t < 0.0, e, 1.0) / (1.0 + e)


def _places(numbers: NDArray[Any], value: Array, by: int, bins: int) -> NDArray[np.intp]:
    if by != LOGIT:
        return bucket_of(np.abs(numbers) if by == GIVEN else value)
    return np.clip((value + MOST_LOGIT) * (bins / (2.0 * MOST_LOGIT)), 0, bins - 1).astype(np.intp)
