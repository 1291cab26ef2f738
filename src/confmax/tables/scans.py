"""The scan of one part of a table: what gains decide on its rows, of one kind of rows or of groups side by side.

A rule that knows the group of a row decides each group by gains of its own. So the rows of every group are scanned by
their own gains, and one scan answers gains for all groups (`confmax.confusion.Layout`). Where the groups of rows are
not known, a row belongs to all of them by its probability of each, and gets one decision for all. Class and group of a
row are taken to be independent given what the model knows of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Confusion, Gains, Layout
from confmax.tables.part import Part


def scanned(
    part: Part, gains: Gains, share: Any, layout: Layout | None, *, matrix: bool = False, by: Part | None = None
) -> Confusion:
    """Return the confusions of all ``gains`` on the rows of a ``part``, times their weight, as `Storage.scan` does.

    With a ``layout`` the groups of the rows lie side by side, and may have a ``share`` of the model each.
    """
    by = part if by is None else by
    if layout is None:
        return part.storage.scan(part, gains, share, matrix=matrix, by=by)
    if layout.shared:
        return _mixed(part, gains, float(np.mean(share)), layout, matrix=matrix, by=by)
    B = len(gains)
    K = layout.n_classes
    M = layout.n_decisions
    nothing = Confusion(np.zeros(K), np.zeros((B, K)), np.zeros((B, M)), np.zeros((B, K, M)) if matrix else None)
    shares = np.broadcast_to(np.asarray(share, dtype=np.float64), (layout.n_groups,)).tolist()
    rows = zip(layout.apart(gains), shares, part.groups_apart, by.groups_apart, strict=True)
    found = [
        mine.storage.scan(mine, own, model, matrix=matrix, by=deciding) if mine.weight_total else nothing
        for own, model, mine, deciding in rows
    ]
    return layout.joined(found, np.ones(layout.n_groups))


def density_of_ties(part: Part, functions: Gains, prices: Array, layout: Layout | None) -> Array | None:
    """Return the second derivative (d, d) of the support function; see `confmax.tables.ties`. None if it is not known.

    Groups side by side are decided apart, so theirs is the sum of those of the groups.
    """
    if layout is None:
        return part.density_of_ties(functions, prices)
    if layout.shared:
        return None
    total = np.zeros((len(prices), len(prices)))
    for g, mine in enumerate(part.groups_apart):
        if mine.weight_total:
            found = mine.density_of_ties(layout.gains_of(functions, g), prices)
            if found is None:
                return None
            total += mine.weight_total / part.weight_total * found
    return total


def _mixed(part: Part, gains: Gains, share: float, layout: Layout, *, matrix: bool, by: Part) -> Confusion:
    """Return what `scanned` does of rows that belong to all groups, by the probability of each."""
    truth = _truth(part, share)
    weights = part.groups.weights(part)
    proba = by.dense("group_proba").proba.astype(np.float64)
    B = len(gains)
    M = layout.n_decisions
    diagonal = np.zeros((B, layout.all_classes))
    columns = np.zeros((B, layout.all_decisions))
    full = np.zeros((B, layout.all_classes, layout.all_decisions)) if matrix else None
    padded = np.hstack([truth, np.zeros((len(truth), layout.n_further))])
    for b in range(B):
        decided = decide_mixed(proba, part.groups.proba, gains[b], layout)
        hit = padded[np.arange(len(decided)), decided]
        for g in range(layout.n_groups):
            place = layout.decisions(g)
            columns[b, place] = np.bincount(decided, weights[:, g], M)
            hits = np.bincount(decided, weights[:, g] * hit, M)
            diagonal[b, layout.classes(g)] = hits[: layout.n_classes]
            if full is not None:
                sums = np.zeros((M, layout.n_classes))
                np.add.at(sums, decided, truth * weights[:, [g]])
                full[(b, *layout.block(g))] = sums.T
    return Confusion(np.zeros(layout.all_classes), diagonal, columns, full)


def _truth(part: Part, share: float) -> Array:
    """Return what a confusion counts for the true class of every row (n, K)."""
    proba = part.dense("group_proba").proba.astype(np.float64)
    if share == 1.0:
        return np.asarray(proba)
    assert part.labels is not None
    return np.asarray(share * proba + (1.0 - share) * np.eye(part.n_classes)[part.labels])


def decide_mixed(proba: Array, shares: Array, gain: Gains, layout: Layout) -> NDArray[np.intp]:
    """Return the decisions (n,) by one gain of groups side by side, of rows with ``shares`` (n, G) of the groups."""
    scores = mixed_scores(proba, shares, gain, layout)
    # of equal scores the last decision is made
    return np.asarray(scores.shape[1] - 1 - np.argmax(scores[:, ::-1], axis=1))


def mixed_scores(proba: Array, shares: Array, gain: Gains, layout: Layout) -> Array:
    """Return the scores (n, M) by which `decide_mixed` decides."""
    parts = [layout.gains_of(gain, g) for g in range(layout.n_groups)]
    if gain.full is None:
        a = shares @ np.concatenate([part.pair()[0] for part in parts])
        scores = shares @ np.concatenate([part.pair()[1] for part in parts])
        scores[:, : layout.n_classes] += a * proba
    else:
        scores = sum(shares[:, [g]] * (proba @ part.matrices()[0]) for g, part in enumerate(parts))
    return np.asarray(scores)
