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
from confmax.tables import MemoryTable, Table
from confmax.tables.groups import GroupedTable

WIDTH = 0.07  # by what part of the two scores the best leads at most
CELLS = 1 << 22  # that partial sums hold together, at most
MOST_ROWS = 200_000  # that are read
KINDS = 6  # of sums over the rows in which two decisions nearly tie


def density_of_ties(table: Table, functions: Gains, prices: Array) -> Array | None:
    """Return the second derivative (d, d) of the support function of d linear functions, by their prices.

    Parameters
    ----------
    table : Table
        Rows, of which the best decisions by the model's confusion maximise the sum of the functions.
    functions : Gains
        The functions (d).
    prices : ndarray (d,)
        What they are multiplied by.

    Returns
    -------
    ndarray (d, d) or None
        None where it is not known: for tables that are no array, and gains that are not reduced ones of probabilities.
    """
    if isinstance(table, GroupedTable):
        total = np.zeros((len(prices), len(prices)))
        for g, share in enumerate(table.shares):
            part = density_of_ties(table.parts[g], table.layout.gains_of(functions, g), prices) if share else 0.0
            if part is None:
                return None
            total += share * part
        return total
    if not isinstance(table, MemoryTable) or not isinstance(table.proba, np.ndarray):
        return None
    if functions.full is not None or functions.power:
        return None
    by_weight, by_offset = functions.coefficients()
    a, b = prices @ by_weight, prices @ by_offset
    scale = max(float(np.abs(a).max()), float(np.abs(b).max()))
    if not 0.0 < scale < np.inf:
        return None
    dtype = table.proba.dtype
    sums = _sums(table.proba, (a / scale).astype(dtype), (b / scale).astype(dtype), table.weight)
    by_both = np.concatenate([by_weight, by_offset], axis=1)
    return np.asarray(by_both @ _by_coefficients(sums, len(a)) @ by_both.T / (scale * table.weight_total))


def _sums(proba: NDArray[Any], a: NDArray[Any], b: NDArray[Any], weight: Array | None) -> Array:
    """Return the sums (M, M, 6) of ``kernels/ties.h``, of a large table by a part of its rows."""
    (n, K), M, size = proba.shape, len(b), block_rows(proba.shape[1])
    # blocks from all over the table: its rows may be sorted
    every = max(1, n // MOST_ROWS)
    most = max(1, CELLS // (KINDS * M * M))
    chunk = chunk_rows(K, n)
    chunk *= -(-n // (chunk * most))
    starts = range(0, n, chunk)
    parts = np.zeros((len(starts), M, M, KINDS))
    weights = np.empty(0) if weight is None else weight

    def work(part: int, start: int, stop: int) -> None:
        if kernels.native is None:
            _add_by_numpy(proba, start, stop, size, every, a, b, weights, parts[part])
        else:
            kernels.native.near_ties(proba, start, stop, size, every, a, b, WIDTH, weights, parts[part])

    over_rows(work, n, chunk)
    n_read = sum(min(low + size, n, start + chunk) - low for start in starts
                 for low in range(start, min(start + chunk, n), every * size))  # fmt: skip
    return np.asarray(parts.sum(axis=0)) * (n / n_read)


def _add_by_numpy(
    proba: NDArray[Any],
    start: int,
    stop: int,
    size: int,
    every: int,
    a: NDArray[Any],
    b: NDArray[Any],
    weights: Array,
    sums: Array,
) -> None:
    """Add the sums of some rows: the definition, which the kernel is tested against."""
    read = np.concatenate([np.arange(low, min(low + size, stop)) for low in range(start, stop, every * size)])
    proba, weight = proba[read], weights[read] if len(weights) else None
    (n, K), M = proba.shape, len(b)
    scores = np.tile(b, (n, 1))
    scores[:, :K] += proba * a
    rows, order = np.arange(n), scores.argsort(axis=1, kind="stable")
    j, k = order[:, -1], order[:, -2]
    lead = (scores[rows, j] - scores[rows, k]).astype(np.float64)
    padded = np.hstack([proba, np.zeros((n, M - K), proba.dtype)]).astype(np.float64)
    p, q, scale = padded[rows, j], padded[rows, k], np.append(a, np.zeros(M - K))
    near = WIDTH * (np.abs(scale[j] * p) + np.abs(scale[k] * q) + np.abs(b[j].astype(np.float64) - b[k]))
    ties = lead < near
    j, k, p, q, lead, near = (part[ties] for part in (j, k, p, q, lead, near))
    c = (near - lead) / near**2 * (1.0 if weight is None else weight[ties])
    np.add.at(sums, (j, k), np.stack([c, c * p, c * q, c * p * p, c * q * q, c * p * q], axis=1))


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
