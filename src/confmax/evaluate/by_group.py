"""What rules make of limits of groups on labelled rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Confusion
from confmax.evaluate.uncertainty import Decided, counts_of
from confmax.tables import MemoryTable
from confmax.tables.groups import Groups


def confusion_of(decided: Decided, table: MemoryTable, proba: NDArray[Any] | None = None) -> Confusion:
    """Return the confusion of decisions on labelled rows, or as the probabilities ``proba`` (n, K) expect it."""
    C = counts_of(decided, table, proba)
    return Confusion.from_matrix(C / C.sum())


def side_by_side(
    limits: Any, decided: Decided, table: MemoryTable, groups: Groups | None, proba: NDArray[Any] | None = None
) -> tuple[Any, Confusion]:
    """Return limits and the confusion of decisions on labelled rows, for limits of groups that of every group.

    ``limits`` are `confmax.constraints.Limits`. With ``proba`` (n, K) the confusion is the one that these probabilities
    expect.
    """
    if limits.layout is None or groups is None:
        return limits, confusion_of(decided, table, proba)
    # a rule may have more decisions than its limits speak of
    layout = replace(limits.layout, n_further=decided.n_decisions - table.n_classes)
    parts = []
    weights = []
    for g in range(len(groups)):
        rows = np.flatnonzero(groups.codes == g)
        mine = decided._replace(decisions=decided.decisions[:, rows])
        C = counts_of(mine, table.take(rows), None if proba is None else proba[rows])
        weights.append(C.sum())
        S = Confusion.from_matrix(C / C.sum())
        # row sums stand once for a batch
        parts.append(Confusion(S.rows, S.diagonal[None], S.columns[None], (C / C.sum())[None]))
    S = layout.joined(parts, np.array(weights) / np.sum(weights))
    return replace(limits, layout=layout), S[0]


def values_of_members(limits: Any, k: int, S: Confusion) -> Sequence[float]:
    """Return what limit ``k``, one of groups, limits in each of these, at a confusion of groups side by side."""
    return [float(metric.values(S)) for metric in limits.members(limits.constraints[k])]
