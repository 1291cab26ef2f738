"""Compiled scans of tables in compressed sparse rows (CSR): the cost of a row is that of its stored entries.

A class that a row does not store has probability zero and the score ``b_j``. The best of these is the first class in
falling order of (offset, index) that the row does not store, and it matters only while its offset reaches the best
stored score: nearly always one comparison. Entries are sorted by class within a row, so that a running ``>=`` gives
ties to the largest index. Multiply, then add, in the table's dtype, never fused: decisions equal those on the dense
table bit for bit.
"""

from __future__ import annotations

import numpy as np
from numba import njit

BLOCK = 512  # rows that all gains of a batch decide before the next rows are read

UNSORTED, OUTSIDE = 1, 2  # what `structure` finds


@njit(cache=True, nogil=True)
def structure(indptr, indices, start, stop, n_classes):  # type: ignore[no-untyped-def]
    """Return OUTSIDE where a column index is none, else UNSORTED where a row's do not rise strictly, else 0."""
    unsorted = outside = False
    for r in range(start, stop):
        before = -1
        for t in range(np.uint64(indptr[r]), np.uint64(indptr[r + 1])):
            j = indices[t]
            unsorted |= j <= before
            outside |= j < 0 or j >= n_classes
            before = j
    return 2 if outside else int(unsorted)


@njit(cache=True, nogil=True)
def row_sums(indptr, data, start, stop, sums):  # type: ignore[no-untyped-def]
    """Fill ``sums`` in double precision; return whether an entry is negative."""
    negative = False
    for r in range(start, stop):
        total = 0.0
        for t in range(np.uint64(indptr[r]), np.uint64(indptr[r + 1])):
            total += data[t]
            negative |= data[t] < 0
        sums[r] = total
    return negative


@njit(cache=True, nogil=True)
def _place(indices, first, last, j):  # type: ignore[no-untyped-def]
    """Return where a row stores class j, -1 if it does not."""
    low, high = first, last
    while low < high:
        middle = (low + high) // 2
        if indices[middle] < j:
            low = middle + 1
        else:
            high = middle
    return low if low < last and indices[low] == j else -1


@njit(cache=True, nogil=True)
def look_up(indptr, indices, data, start, stop, decision, hit):  # type: ignore[no-untyped-def]
    """Fill ``hit`` with the probability of each row's decision; both begin at row ``start``."""
    for r in range(start, stop):
        t = _place(indices, indptr[r], indptr[r + 1], decision[r - start])
        hit[r - start] = data[t] if t >= 0 else 0


@njit(cache=True, nogil=True)
def _decide_reduced(indptr, indices, data, start, stop, pairs, order, decision, hit):  # type: ignore[no-untyped-def]
    # unsigned positions spare the check for negative ones, selections the mispredicted branches: four times as fast
    one = np.uint64(1)
    for r in range(start, stop):
        first, last = np.uint64(indptr[r]), np.uint64(indptr[r + 1])
        j = np.uint32(indices[first])
        best = pairs[j, 0] * data[first] + pairs[j, 1]
        place = first
        for t in range(first + one, last):
            j = np.uint32(indices[t])
            score = pairs[j, 0] * data[t] + pairs[j, 1]
            better = score >= best
            best = score if better else best
            place = t if better else place  # type: ignore[assignment]
        winner, p = indices[place], data[place]
        # of the classes that the row does not store, only the one with the best offset can win
        for k in range(order.shape[0]):
            j = order[k]
            b = pairs[j, 1]
            if b < best or (b == best and j < winner):
                break
            if _place(indices, indptr[r], indptr[r + 1], j) < 0:
                winner, p = j, data.dtype.type(0)
                break
        decision[r - start] = winner
        hit[r - start] = p


@njit(cache=True, nogil=True)
def _decide_full(indptr, indices, data, start, stop, gain, score, decision):  # type: ignore[no-untyped-def]
    M, one = gain.shape[1], np.uint64(1)
    for r in range(start, stop):
        first, last = np.uint64(indptr[r]), np.uint64(indptr[r + 1])
        i, p = np.uint32(indices[first]), data[first]
        for j in range(M):
            score[j] = p * gain[i, j]
        for t in range(first + one, last):
            i, p = np.uint32(indices[t]), data[t]
            for j in range(M):
                score[j] = score[j] + p * gain[i, j]
        winner = 0
        for j in range(1, M):
            if score[j] >= score[winner]:
                winner = j
        decision[r - start] = winner


@njit(cache=True, nogil=True)
def _count(indptr, indices, data, start, stop, decision, hit, share, labels, weight, diagonal, columns, matrix):  # type: ignore[no-untyped-def]
    weighted, K = weight.size > 0, diagonal.shape[0]
    for r in range(stop - start):
        j = np.uint32(decision[r])
        w = weight[start + r] if weighted else 1.0
        columns[j] += w
        if share < 1.0 and labels[start + r] == j:
            diagonal[j] += w * (1.0 - share)
        if share > 0.0 and j < K:
            diagonal[j] += w * share * hit[r]
    if matrix.size == 0:
        return
    # a second walk: without the matrix, only one entry of a row is read
    for r in range(start, stop):
        j = np.uint32(decision[r - start])
        w = weight[r] if weighted else 1.0
        if share < 1.0:
            matrix[labels[r], j] += w * (1.0 - share)
        if share > 0.0:
            for t in range(indptr[r], indptr[r + 1]):
                matrix[indices[t], j] += w * share * data[t]


@njit(cache=True, nogil=True)
def scan(  # type: ignore[no-untyped-def]
    indptr, indices, data, start, stop, coefficients, orders, out, share, labels, weight, diagonal, columns, matrix
):
    """Decide the rows from ``start`` to ``stop`` by every gain and add up its statistics.

    ``coefficients`` are pairs (B, M, 2) of weight and offset, with ``orders`` of the offsets (B, L), or full gains
    (B, K, M) without. Decisions are written to ``out`` (B, n) unless it is empty, or read from it if there are no
    coefficients (B, 0, 0). Nothing is counted where the statistics are empty.
    """
    counted, score = diagonal.shape[0] > 0, np.empty(coefficients.shape[2], data.dtype)
    hit = np.empty(BLOCK, data.dtype)
    decision = np.empty(BLOCK, np.int32)
    for low in range(start, stop, BLOCK):
        high = min(low + BLOCK, stop)
        for g in range(coefficients.shape[0]):
            if out.shape[0] > 0:
                decision = out[g, low:high]
            if orders.shape[0] > 0:
                _decide_reduced(indptr, indices, data, low, high, coefficients[g], orders[g], decision, hit)
            elif coefficients.shape[1] > 0:
                _decide_full(indptr, indices, data, low, high, coefficients[g], score, decision)
            if counted:
                if orders.shape[0] == 0:
                    look_up(indptr, indices, data, low, high, decision, hit)
                _count(indptr, indices, data, low, high, decision, hit, share, labels, weight,
                       diagonal[g], columns[g], matrix[g])  # fmt: skip


@njit(cache=True, nogil=True)
def scan_alone(indptr, indices, data, start, stop, begin, listed, a, b, always, rest, share, labels, weight, out):  # type: ignore[no-untyped-def]
    """Add up what entries change in gains of which each has coefficients for one class only.

    Without the class stored, gain g decides the class everywhere (``always[g]``) or ``rest[g]`` everywhere. Rows whose
    entry decides otherwise add to ``out[g]``: their weight, and their truth at the class and at the rest. The gains of
    class j are ``listed[begin[j]:begin[j + 1]]``.
    """
    K = begin.shape[0] - 1
    for r in range(start, stop):
        # what the row adds if a gain's class does not win: its truth at the last class, or at the one before
        first, last = indptr[r], indptr[r + 1]
        w = weight[r] if weight.size > 0 else 1.0
        u, v = w * (1.0 - share), w * share
        y = labels[r] if share < 1.0 else -1
        highest = v * data[last - 1] if indices[last - 1] == K - 1 else 0.0
        t = _place(indices, first, last, K - 2)
        second = v * data[t] if t >= 0 else 0.0
        for t in range(first, last):
            j = indices[t]
            for k in range(begin[j], begin[j + 1]):
                g = listed[k]
                score = a[g] * data[t] + b[g]
                wins = score > 0 if j < rest[g] else score >= 0
                if wins != always[g]:
                    out[g, 0] += w
                    out[g, 1] += v * data[t] + (u if y == j else 0.0)
                    out[g, 2] += (highest if rest[g] == K - 1 else second) + (u if y == rest[g] else 0.0)
