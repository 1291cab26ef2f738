"""The second derivative of the support function, from the rows whose two best decisions nearly tie.

The support function ``h(g) = max_C <g, C>`` of an exact oracle is the mean of the rows' best scores, and its derivative
is the confusion of the decisions. A move of g changes the decisions of rows that tie, so the second derivative is the
density of these rows, times the products of what the two decisions differ by. The density is that of the rows whose
best score leads by less than a part of the scores, weighted by a triangle. One scan gives it for all directions, where
differences of answers take one gain for each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax import kernels
from confmax.confusion import Array, Gains
from confmax.kernels.blocks import block_rows, chunk_rows, over_rows

WIDTH = 0.07  # by what part of the two scores the best leads at most
# that are read
MOST_ROWS = 200_000
MOST_CELLS = 4_000_000
SUMS = 1 << 22  # that partial sums hold together, at most
KINDS = 6  # of sums over the rows in which two decisions nearly tie


def rows_read(n_rows: int, n_classes: int) -> NDArray[np.intp] | None:
    """Return which rows are read, in blocks from all over a table, whose rows may be sorted; None if all are."""
    size = block_rows(n_classes)
    every = _one_of(n_rows, n_classes)
    return None if every == 1 else _blocks(0, n_rows, size, every)


def density_of_ties(
    proba: NDArray[Any], weight: Array | None, total: float, functions: Gains, prices: Array
) -> Array | None:
    """Return the second derivative (d, d) of the support function of d linear functions, by their prices (d,).

    The best decisions on rows of ``proba`` (n, K) maximise the sum of the functions, reduced and of probabilities,
    times their prices. Of a large array only `rows_read` are looked at. ``total`` is the sum of all weights (n,). None
    where all prices are zero.
    """
    by_weight, by_offset = functions.coefficients()
    a = prices @ by_weight
    b = prices @ by_offset
    scale = max(float(np.abs(a).max()), float(np.abs(b).max()))
    if not 0.0 < scale < np.inf:
        return None
    sums = _sums(proba, (a / scale).astype(proba.dtype), (b / scale).astype(proba.dtype), weight)
    by_both = np.concatenate([by_weight, by_offset], axis=1)
    return np.asarray(by_both @ _by_coefficients(sums, len(a)) @ by_both.T / (scale * total))


def _one_of(n_rows: int, n_classes: int) -> int:
    """Return of how many blocks one is read."""
    return max(1, n_rows // MOST_ROWS, n_rows * n_classes // MOST_CELLS)


def _blocks(start: int, stop: int, size: int, every: int) -> NDArray[np.intp]:
    """Return the rows from ``start`` to ``stop`` that are read, in blocks of ``size``."""
    return np.concatenate([np.arange(low, min(low + size, stop)) for low in range(start, stop, every * size)])


def _sums(proba: NDArray[Any], a: NDArray[Any], b: NDArray[Any], weight: Array | None) -> Array:
    """Return the sums (M, M, 6) of ``kernels/ties.h``, of a large table by a part of its rows."""
    (n, K) = proba.shape
    M = len(b)
    size = block_rows(proba.shape[1])
    every = _one_of(n, K)
    most = max(1, SUMS // (KINDS * M * M))
    chunk = chunk_rows(K, n)
    chunk *= -(-n // (chunk * most))
    parts = np.zeros((-(-n // chunk), M, M, KINDS))
    weights = np.empty(0) if weight is None else weight

    def work(part: int, start: int, stop: int) -> int:
        read = _blocks(start, stop, size, every)
        if kernels.native is None:
            parts[part] = _sums_by_numpy(proba[read], a, b, None if weight is None else weight[read])
        else:
            kernels.native.near_ties(proba, start, stop, size, every, a, b, WIDTH, weights, parts[part])
        return len(read)

    n_read = sum(over_rows(work, n, chunk))
    return np.asarray(parts.sum(axis=0)) * (n / n_read)


def _sums_by_numpy(proba: NDArray[Any], a: NDArray[Any], b: NDArray[Any], weight: Array | None) -> Array:
    """Return the sums (M, M, 6) of all rows: the definition, which the kernel is tested against."""
    (n, K) = proba.shape
    M = len(b)
    scores = np.tile(b, (n, 1))
    scores[:, :K] += proba * a
    rows = np.arange(n)
    order = scores.argsort(axis=1, kind="stable")
    j = order[:, -1]
    k = order[:, -2]
    lead = (scores[rows, j] - scores[rows, k]).astype(np.float64)
    padded = np.hstack([proba, np.zeros((n, M - K), proba.dtype)]).astype(np.float64)
    p = padded[rows, j]
    q = padded[rows, k]
    scale = np.append(a, np.zeros(M - K))
    near = WIDTH * (np.abs(scale[j] * p) + np.abs(scale[k] * q) + np.abs(b[j].astype(np.float64) - b[k]))
    ties = lead < near
    j, k, p, q, lead, near = (part[ties] for part in (j, k, p, q, lead, near))
    c = (near - lead) / near**2 * (1.0 if weight is None else weight[ties])
    sums = np.zeros((M, M, KINDS))
    np.add.at(sums, (j, k), np.stack([c, c * p, c * q, c * p * p, c * q * q, c * p * q], axis=1))
    return sums


def _by_coefficients(sums: Array, n_classes: int) -> Array:
    """Return the second derivative (K + M, K + M) by all weights and offsets.

    In a row, the two best decisions j and k differ by p_j in the weight of j, -p_k in that of k, and by 1 and -1 in
    their offsets.
    """
    one, p, q, pp, qq, pq = np.moveaxis(sums, 2, 0)
    weights = np.diag(pp.sum(axis=1) + qq.sum(axis=0)) - pq - pq.T
    both = np.diag(p.sum(axis=1) + q.sum(axis=0)) - p - q.T
    offsets = np.diag(one.sum(axis=1) + one.sum(axis=0)) - one - one.T
    K = n_classes
    return np.block([[weights[:K, :K], both[:K]], [both[:K].T, offsets]])
