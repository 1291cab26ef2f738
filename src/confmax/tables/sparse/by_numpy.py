"""The kernels over compressed sparse rows in NumPy: their definition, for installations without a compiler.

`kernels/sparse.h` says how classes are considered that a row does not store. Everything here takes time and memory for
the stored entries, never for a dense (n, K). Full gains are decided on dense blocks of rows (`rows.py`). What begins
with ``sparse_`` has the name and the arguments of a kernel: first entries, columns and row pointers, then the rows.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array

# what `sparse_structure` finds
UNSORTED = 1
OUTSIDE = 2
PAIRS = 1 << 18  # of entries and gains that are looked at together


class Entries:
    """The m stored entries of some rows: classes j, probabilities p, and rows, counted from the first, all (m,).

    ``starts`` (n,) say where each row begins among these entries.
    """

    def __init__(self, data: Any, indices: Any, indptr: Any, start: int, stop: int) -> None:
        low = indptr[start]
        high = indptr[stop]
        self.p = data[low:high]
        self.j = indices[low:high]
        self.starts = indptr[start:stop] - low
        self.row = np.repeat(np.arange(stop - start), np.diff(indptr[start : stop + 1]))


def sparse_structure(data: Any, indices: Any, indptr: Any, start: int, stop: int, n_classes: int) -> int:
    """Return OUTSIDE where a column index is none, else UNSORTED where a row's do not rise strictly, else 0."""
    entries = Entries(data, indices, indptr, start, stop)
    j = entries.j
    row = entries.row
    if ((j < 0) | (j >= n_classes)).any():
        return OUTSIDE
    return UNSORTED if ((j[1:] <= j[:-1]) & (row[1:] == row[:-1])).any() else 0


def sparse_sums(data: Any, indices: Any, indptr: Any, start: int, stop: int, sums: Array) -> bool:
    """Write the sums of rows to ``sums`` (n,), in double precision; return whether an entry is negative."""
    entries = Entries(data, indices, indptr, start, stop)
    # bincount adds in the order of the entries, as the kernel does
    sums[start:stop] = np.bincount(entries.row, entries.p, stop - start)
    return bool((entries.p < 0).any())


def sparse_look_up(data: Any, indices: Any, indptr: Any, start: int, stop: int, decision: Any, hit: Any) -> None:
    """Write the probability of each row's ``decision`` (n,) to ``hit`` (n,)."""
    entries = Entries(data, indices, indptr, start, stop)
    stored = np.flatnonzero(entries.j == decision[start:stop][entries.row])
    hit[start:stop] = 0
    hit[start + entries.row[stored]] = entries.p[stored]


def sparse_scan(
    data: Any, indices: Any, indptr: Any, start: int, stop: int, pairs: Any, orders: Any, out: Any, *_: Any
) -> None:
    """Write the decisions of every gain to ``out`` (B, n), from `kernel_gains` that are not full; no statistics."""
    entries = Entries(data, indices, indptr, start, stop)
    for g, order in enumerate(orders):
        out[g, start:stop] = _decided(entries, pairs[g], order)


def _decided(entries: Entries, pairs: NDArray[Any], order: NDArray[np.int64]) -> NDArray[Any]:
    """Return decisions (n,) by weights and offsets ``pairs`` (M, 2) and the ``order`` (L,) of the offsets."""
    j = entries.j
    M = len(pairs)
    b = pairs[:, 1]
    score = pairs[j, 0] * entries.p + pairs[j, 1]
    best = np.maximum.reduceat(score, entries.starts)
    winner = np.maximum.reduceat(np.where(score == best[entries.row], j, -1), entries.starts)
    # of the classes that a row does not store, only the one with the best offset can win
    undecided = np.arange(len(winner))
    keys = None
    for k in order:
        offered = best[undecided]
        now = winner[undecided]
        undecided = undecided[(b[k] > offered) | ((b[k] == offered) & (k > now))]
        if len(undecided) == 0:
            break
        if keys is None:
            keys = entries.row * M + j
        wanted = undecided * M + k
        stored = keys[np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)] == wanted
        winner[undecided[~stored]] = k
        undecided = undecided[stored]
    return winner


def sparse_alone(data: Any, indices: Any, indptr: Any, start: int, stop: int, *given: Any) -> None:
    """Add to ``out`` (B, 3) what entries change in gains of which each has coefficients for one class only."""
    begin, listed, a, b, always, rest, share, labels, weight, out = given
    entries = Entries(data, indices, indptr, start, stop)
    K = len(begin) - 1
    w = weight[start:stop] if len(weight) else np.ones(stop - start)
    u = w * (1.0 - share)
    v = w * share
    y = labels[start:stop] if share < 1.0 else np.full(stop - start, -1)
    # each row's truth at the last class but one, and at the last
    others = np.array([u * (y == k) for k in (K - 2, K - 1)])
    at = np.flatnonzero(entries.j >= K - 2)
    others[entries.j[at] - (K - 2), entries.row[at]] += v[entries.row[at]] * entries.p[at]
    many = np.diff(begin)[entries.j]
    before = np.append(0, np.cumsum(many))
    edges = np.append(np.searchsorted(before, np.arange(0, before[-1], PAIRS)), len(many))
    for low, high in pairwise(edges):
        e = np.repeat(np.arange(low, high), many[low:high])
        j = entries.j[e]
        p = entries.p[e]
        row = entries.row[e]
        g = listed[begin[j] + np.arange(before[low], before[high]) - before[e]]
        score = a[g] * p + b[g]
        moved = np.flatnonzero(np.where(j < rest[g], score > 0, score >= 0) != always[g])
        g = g[moved]
        j = j[moved]
        p = p[moved]
        row = row[moved]
        out[:, 0] += np.bincount(g, w[row], len(out))
        out[:, 1] += np.bincount(g, v[row] * p + u[row] * (y[row] == j), len(out))
        out[:, 2] += np.bincount(g, others[rest[g] - (K - 2), row], len(out))


def sparse_best(
    data: Any, indices: Any, indptr: Any, start: int, stop: int, pairs: Any, order: Any, positive: int, *out: Any
) -> None:
    """Write the k best labels of every row, by falling (score, label), and which entry each is; -1 for none.

    Weights and offsets are ``pairs`` (L, 2), and ``order`` (l,) lists the first k + m labels by falling (offset,
    label), m entries being the most of a row. Written are ``label`` and ``place`` (n, k); only scores above zero are
    decided if ``positive``.
    """
    label, place = out
    most = label.shape[1]
    entries = Entries(data, indices, indptr, start, stop)
    j = entries.j.astype(np.int64)
    L = len(pairs)
    rows = [entries.row]
    labels = [j]
    scores = [pairs[j, 0] * entries.p + pairs[j, 1]]
    places = [np.arange(indptr[start], indptr[stop], dtype=np.int64)]
    # beside what a row stores, the first k others are enough
    taken = np.zeros(stop - start, dtype=np.int64)
    keys = np.append(entries.row * L + j, (stop - start) * L)
    for k in order:
        open_rows = np.flatnonzero(taken < most)
        if len(open_rows) == 0 or (positive and not pairs[k, 1] > 0):
            break
        wanted = open_rows * L + k
        open_rows = open_rows[keys[np.searchsorted(keys, wanted)] != wanted]
        taken[open_rows] += 1
        rows.append(open_rows)
        labels.append(np.full(len(open_rows), k))
        scores.append(np.full(len(open_rows), pairs[k, 1]))
        places.append(np.full(len(open_rows), -1))
    row, tag, score, at = (np.concatenate(part) for part in (rows, labels, scores, places))
    if positive:
        above = score > 0
        row, tag, score, at = row[above], tag[above], score[above], at[above]
    by = np.lexsort((tag, score, row))
    row = row[by]
    # the place from the end of its row
    rank = np.searchsorted(row, row, "right") - 1 - np.arange(len(row))
    best = np.flatnonzero(rank < most)
    label[start:stop] = -1
    place[start:stop] = -1
    label[start + row[best], rank[best]] = tag[by[best]]
    place[start + row[best], rank[best]] = at[by[best]]
