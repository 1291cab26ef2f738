"""Decisions that a gain does not tell apart: of these, the most probable class is decided.

The gains of a metric of one class give all other classes equal scores, and all their rows would go to the last of them.
Here they get scores that are too small to change anything else. This is exact, and costs nothing. What else a metric
leaves open is decided in `confmax.optimize.second_objective`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from confmax.confusion.blocks import Layout
from confmax.confusion.statistics import Array, Gains

# of the largest coefficient: beside a score of the table's precision nothing, among themselves exact
UNSEEN = 2.0**-70


def with_ties_broken(gains: Gains, layout: Layout | None = None) -> Gains:
    """Return ``gains`` that decide the most probable of the classes which a gain does not tell apart.

    If there are several such sets of classes, these are the classes of the largest set. Other gains are returned as
    they are. With a layout, each part is decided by its own gains.

    >>> broken = with_ties_broken(Gains.reduced([0.0, 2.0, 0.0], [0.0, -0.5, 0.0]))
    >>> broken.a[0] > 0.0
    array([ True,  True,  True])
    """
    if layout is not None:
        parts = layout.apart(gains)
        broken = [with_ties_broken(part) for part in parts]
        changed = any(new is not old for new, old in zip(broken, parts, strict=True))
        return layout.beside(broken) if changed else gains
    if gains.power:
        return gains
    return _reduced(gains) if gains.full is None else _full(gains)


def never_told_apart(functions: Gains, layout: Layout | None = None) -> NDArray[np.bool_]:
    """Return which decisions (M,) belong to the largest set of classes that none of some ``functions`` tells apart.

    Of tables side by side these are the classes of each. None belongs to a set of one class.
    """
    M = functions.n_decisions
    out = np.zeros(M, dtype=bool)
    if layout is not None:
        for places, part in zip(layout.places, layout.apart(functions), strict=True):
            out[places] = never_told_apart(part)
        return out
    K = functions.n_classes
    if functions.full is not None or functions.power:
        free = np.arange(K)
        columns = functions.matrices()[:, :, :K].reshape(-1, K).T
    else:
        a, b = functions.pair()
        free = np.flatnonzero(~a.any(axis=0))
        columns = b[:, free].T
    same = free[_largest_set(columns)] if len(free) else free
    out[same] = len(same) > 1
    return out


def _reduced(gains: Gains) -> Gains:
    """Return `with_ties_broken` of gains ``a_j p_j + b_j``: classes without weight and of one offset are alike."""
    a, b = gains.pair()
    K = a.shape[1]
    M = b.shape[1]
    same = a == 0.0
    some = np.flatnonzero(np.count_nonzero(same, axis=1) > 1)
    if not len(some):
        return gains
    same = same[some]
    mine = b[some, :K]
    first = mine[np.arange(len(some)), same.argmax(axis=1)]
    for k in np.flatnonzero((same & (mine != first[:, None])).any(axis=1)).tolist():
        # offsets of several sizes
        free = np.flatnonzero(same[k])
        largest = free[_largest_set(mine[k, free])]
        same[k] = False
        first[k] = mine[k, largest[0]]
        same[k, largest] = True
    tied = np.count_nonzero(same, axis=1) > 1
    if not tied.any():
        return gains
    some = some[tied]
    same = same[tied]
    first = first[tied]
    a = a.copy()
    b = b.copy()
    b[some] -= first[:, None]
    tiny = _tiny(np.maximum(np.abs(a[some]).max(axis=1), np.abs(b[some]).max(axis=1)))[:, None]
    a[some] = np.where(same, tiny, a[some])
    b[some, :K] = np.where(same, np.where(_others_come_last(same, M), -tiny, 0.0), b[some, :K])
    return Gains(a, b)


def _full(gains: Gains) -> Gains:
    """Return `with_ties_broken` of matrices: classes of equal columns are alike."""
    assert gains.full is not None
    K, M = gains.full.shape[1:]
    sums = np.sort(gains.full[:, :, :K].sum(axis=1), axis=1)
    some = np.flatnonzero((sums[:, 1:] == sums[:, :-1]).any(axis=1))
    full = gains.full
    changed = False
    for k in some.tolist():
        same = _largest_set(full[k, :, :K].T)
        if len(same) < 2:
            continue
        full = full if changed else full.copy()
        changed = True
        # what is constant within a row of a gain changes no decision
        full[k] -= full[k][:, same[:1]]
        tiny = float(_tiny(np.abs(full[k]).max()))
        mask = np.isin(np.arange(K), same)
        full[k][:, same] = -tiny if _others_come_last(mask[None], M)[0, 0] else 0.0
        full[k, same, same] += tiny
    return Gains.from_matrix(full) if changed else gains


def _largest_set(values: Array) -> NDArray[np.intp]:
    """Return the places of the most frequent of some ``values`` (n,) or (n, K); of equally frequent ones the first."""
    _, which = np.unique(values, axis=0, return_inverse=True)
    which = which.reshape(-1)
    return np.flatnonzero(which == int(np.bincount(which).argmax()))


def _tiny(size: Array) -> Array:
    """Return numbers that add nothing to coefficients of the given sizes."""
    # a power of two: no product with it is rounded
    return np.asarray(np.ldexp(1.0, np.frexp(size)[1]) * UNSEEN)


def _others_come_last(same: NDArray[np.bool_], n_decisions: int) -> NDArray[np.bool_]:
    """Return whether a decision outside of the sets ``same`` (B, K) is the last of all, and wins ties (B, 1)."""
    return np.full((len(same), 1), True) if n_decisions > same.shape[1] else ~same[:, -1:]
