"""Scans of rows in an array as they lie, and decisions, block by block in the cache.

Statistics are summed per chunk of rows, chunks in a fixed order: the result does not depend on the number of threads.
No fused multiply-add and no reassociation: compiled decisions equal those of NumPy bit for bit.

The table is never copied. A scan reads it in its own layout and transposes blocks of rows that fit the inner caches to
class-major order, in squares of vectors. Up to 128 classes, this takes no longer than the memory access; beyond that,
each row is compared along itself. A copy in class-major order would save a quarter of a scan and cost three scans.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax import kernels
from confmax.confusion import Array, Confusion, Gains
from confmax.kernels.blocks import block_rows, chunk_rows, over_rows
from confmax.tables.columns import warn
from confmax.tables.fingerprints import column_factors
from confmax.tables.part import Part
from confmax.tables.precision import answered, decided, features, gain_coefficients, is_wide, units

MATRIX_CELLS = 1 << 24  # partial statistics hold at most this many cells together
ROWS = 4096  # whose scores NumPy holds at a time

# for the scan: what it does not need is empty, and what is empty is not written
NO_TRUTH = 1.0, np.empty(0, dtype=np.int64), np.empty(0)
NO_SUMS = np.empty((0, 4, 0, 2)), np.empty((0, 0, 0))
UNCHECKED = np.empty(0), np.empty(0, dtype=np.bool_)
NO_DECISIONS = np.empty((0, 0), dtype=np.int64)


def decide(proba: NDArray[Any], gains: Gains) -> NDArray[np.int64]:
    """Return the decisions (B, n) of every gain on every row of ``proba`` (n, K); ties go to the largest index."""
    P = np.ascontiguousarray(proba)
    return np.asarray(decided(gains, P, lambda rows, part: decide_unchecked(rows, part, None)[0]))


def decide_by_numpy(proba: NDArray[Any], gains: Gains) -> NDArray[np.int64]:
    """Return `decide` of gains that are not wide (`is_wide`): the definition, which the kernels are tested against."""
    first, second = gain_coefficients(gains, proba.dtype)
    out = np.empty((len(gains), len(proba)), np.int64)
    for low in range(0, len(proba), ROWS):
        x = features(proba[low : low + ROWS], gains.power)
        for g in range(len(gains)):
            out[g, low : low + ROWS] = last_of_largest(_scores(x, first[g], None if second is None else second[g]))
    return out


def _scores(x: NDArray[Any], first: NDArray[Any], second: NDArray[Any] | None) -> NDArray[Any]:
    """Return the scores (n, M) of one gain, by its coefficients in the type of ``x`` (n, K)."""
    if second is not None:
        # decisions beyond the classes have an offset alone
        scores = np.tile(second, (len(x), 1))
        # two operations, never fused: compiled scans round in the same two places
        scores[:, : x.shape[1]] += x * first
        return scores
    scores = x[:, :1] * first[0]
    for i in range(1, x.shape[1]):
        scores = scores + x[:, i : i + 1] * first[i]
    return scores


def last_of_largest(scores: NDArray[Any]) -> NDArray[np.intp]:
    """Return the decision (n,) with the largest of ``scores`` (n, M)."""
    # numpy.argmax takes the first of equal scores, and ties belong to the largest index
    return np.asarray(scores.shape[1] - 1 - np.argmax(scores[:, ::-1], axis=1))


def scores_of(proba: NDArray[Any], gains: Gains) -> Array:
    """Return the scores (n, M) by which one gain decides the rows of ``proba`` (n, K), in its own unit.

    They are computed in the type that decides, and are float64 numbers of the same values.
    """
    P = proba.astype(np.float64) if is_wide(gains, proba.dtype).any() else proba
    first, second = gain_coefficients(gains, P.dtype)
    scores = _scores(features(P, gains.power), first[0], None if second is None else second[0])
    return np.asarray(scores.astype(np.float64) * units(gains)[0])


def kernel_gains(gains: Gains, dtype: np.dtype[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the coefficients as the kernels take them: first (B, 1 or K, K or M), second (B, M) or empty."""
    first, second = gain_coefficients(gains, dtype)
    if second is None:
        return np.ascontiguousarray(first), np.empty((0, 0), dtype)
    return first[:, None, :], second


def only_classes(gains: Gains) -> NDArray[np.int64]:
    """Return for each gain (B,) the only class that has a coefficient, -1 where there is none or more than one."""
    alone = np.full(len(gains), -1)
    if gains.full is not None or gains.power or gains.has_further:
        return alone
    a, b = gains.pair()
    used = (a != 0) | (b != 0)
    return np.where(used.sum(axis=1) == 1, used.argmax(axis=1), alone)


def decide_unchecked(
    proba: NDArray[Any], gains: Gains, limits: tuple[float, float] | None
) -> tuple[NDArray[np.int64], bool]:
    """Return the decisions (B, n), and whether some row does not meet the demands of `check_rows`, from one scan.

    No gain may be wide (`is_wide`); only the kernels check rows, by ``limits``, None for not at all.
    """
    if kernels.native is None:
        assert limits is None
        warn(kernels.without_kernels(proba.size))
        return decide_by_numpy(proba, gains), False
    by = kernel_gains(gains, proba.dtype)
    alone = only_classes(gains)
    out = np.empty((len(gains), len(proba)), np.int64)

    def work(rows: tuple[int, int, int], checks: tuple[Array, NDArray[np.bool_]]) -> None:
        kernels.native.scan(proba, *rows, *by, gains.power, alone, *NO_TRUTH, *NO_SUMS, *checks, out)

    return out, _checked_in_blocks(proba, limits, work)


def decide_drawn(
    proba: NDArray[Any],
    gains: Gains,
    weights: Array,
    *,
    words: NDArray[np.uint64],
    keys: NDArray[np.uint64] | None,
    limits: tuple[float, float] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.uint64], bool]:
    """Return the decision of every row by the atom that its key draws, the keys, both (n,), and whether rows are bad.

    The rows are probabilities (n, K), or what else reduced gains multiply; the atoms may decide more than the K
    classes. ``words`` (6,) are the coefficients of the hash (`confmax.tables.draws`). Without keys, rows draw by their
    hashes. Up to five atoms decide all rows of a block, of which each row keeps one answer. Of more, each takes the
    rows that drew it, turned class-major together: the cost does not grow with their number. Either way a row goes
    through the same kernels as under a deterministic rule, and is decided alike bit for bit.
    """
    by = kernel_gains(gains, proba.dtype)
    n, K = proba.shape
    given = np.empty(0, dtype=np.uint64) if keys is None else np.ascontiguousarray(keys)
    hashes = np.empty(0 if keys is not None else n, dtype=np.uint64)
    edges = np.cumsum(weights)[:-1]
    out = np.empty(n, dtype=np.int64)
    factors = column_factors(K)

    def work(rows: tuple[int, int, int], checks: tuple[Array, NDArray[np.bool_]]) -> None:
        kernels.native.draw(proba, *rows, *by, factors, words, edges, given, *checks, hashes, out)

    refused = _checked_in_blocks(proba, limits, work)
    return out, hashes if keys is None else given, refused


def _checked_in_blocks(
    proba: NDArray[Any],
    limits: tuple[float, float] | None,
    work: Callable[[tuple[int, int, int], tuple[Array, NDArray[np.bool_]]], None],
) -> bool:
    """Return whether ``work`` has met a bad row: it takes where rows begin and end, the size of blocks, and checks."""
    (n, K) = proba.shape
    size = block_rows(K)
    chunk = chunk_rows(K, n)
    broken = np.zeros((-(-n // chunk), 0 if limits is None else 4), dtype=np.bool_)
    allowed = np.array(limits or (np.inf, np.inf))
    over_rows(lambda part, start, stop: work((start, stop, size), (allowed, broken[part])), n, chunk)
    return bool(broken.any())


def kernel_truth(part: Part, model_share: float) -> tuple[float, NDArray[np.int64], Array]:
    """Return what kernels count by: the share of the model, labels and weights (n,), empty where there are none."""
    labels = np.empty(0, dtype=np.int64) if part.labels is None else part.labels
    return model_share, labels, part.weighing.for_kernels


def scan(part: Part, gains: Gains, share: float, *, matrix: bool) -> Confusion:
    """Return `Storage.scan` of rows in an array, which are decided by their own probabilities, by the kernels."""
    return answered(gains, part.proba, lambda rows, some: _scanned(part, rows, some, share, matrix=matrix))


def _scanned(part: Part, proba: NDArray[Any], gains: Gains, share: float, *, matrix: bool) -> Confusion:
    """Decide every row by every gain, in the type of ``proba``."""
    first, second = kernel_gains(gains, proba.dtype)
    alone = only_classes(gains)
    truth = kernel_truth(part, share)
    (n, K) = proba.shape
    B = len(gains)
    M = gains.n_decisions
    chunk = chunk_rows(K, n)
    # a part of the rows more is a copy of all statistics more
    most = MATRIX_CELLS // (B * M * ((K if matrix else 0) + 8))
    chunk *= -(-n // (chunk * max(1, most)))
    parts = -(-n // chunk)
    size = block_rows(K)
    sums = np.zeros((parts, B, 4, M, 2))
    matrices = np.zeros((parts, B, M, K) if matrix else (parts, 1, 0, 0))
    how = (size, first, second, gains.power, alone, *truth)

    def work(place: int, start: int, stop: int) -> None:
        kernels.native.scan(proba, start, stop, *how, sums[place], matrices[place], *UNCHECKED, NO_DECISIONS)

    over_rows(work, n, chunk)
    summed = sums.sum(axis=(0, 2))
    # without weights and without the model, the kernel counts whole numbers, and faster than sums of ones
    if share == 0.0 and part.weight is None:
        # counts of labels that differ, and of labels that are met
        summed = np.stack([summed[..., 1], summed.sum(axis=-1)], axis=-1)
    full = _matrices(matrices) if matrix else None
    diagonal, columns = np.ascontiguousarray(summed[:, :K, 0]), np.ascontiguousarray(summed[:, :, 1])
    return Confusion(np.zeros(K), diagonal, columns, full)


def _matrices(parts: NDArray[Any]) -> NDArray[Any]:
    """Return the matrices (B, K, M): what the scan left for all but the first is the difference to it."""
    whole = parts.sum(axis=0)
    whole[1:] = np.maximum(whole[1:] + whole[0], 0.0)
    return np.ascontiguousarray(whole.transpose(0, 2, 1))
