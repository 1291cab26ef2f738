"""What rules make of limits on labelled rows; where groups are limited, these lie side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Confusion
from confmax.constraints import Limits
from confmax.evaluate.scores import Estimate, Score
from confmax.evaluate.uncertainty import Decided, counts_of
from confmax.tables import MemoryTable


def confusion_of(decided: Decided, table: MemoryTable, proba: NDArray[Any] | None = None) -> Confusion:
    """Return the confusion of decisions on labelled rows, or as the probabilities ``proba`` (n, K) expect it."""
    C = counts_of(decided, table, proba)
    return Confusion.from_matrix(C / C.sum())


def side_by_side(
    limits: Limits, decided: Decided, table: MemoryTable, proba: NDArray[Any] | None = None
) -> tuple[Limits, Confusion]:
    """Return limits and the confusion of decisions on labelled rows, for limits of groups that of every group.

    With ``proba`` (n, K) the confusion is the one that these probabilities expect.
    """
    groups = table.groups
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


class Judged(NamedTuple):
    """What a rule makes of a limit on labelled rows; ``by_group`` are the values in each group of a limit of groups."""

    value: float
    estimate: Estimate  # the value, with its interval where the limit is one of all rows
    kept: bool
    vacuous: bool
    by_group: dict[Any, Estimate]


def judged_limits(limits: Limits, score: Score, rule: str, decided: Decided, table: MemoryTable) -> list[Judged]:
    """Return what a ``rule`` of a ``score`` makes of limits, given what it ``decided``; the score has them by texts."""
    limits, S = side_by_side(limits, decided, table)
    found = []
    values = zip(limits.constraints, limits.values(S), limits.slacks(S), limits.vacuous(S), strict=True)
    for one, value, slack, vacuous in values:
        text = str(one)
        estimate = Estimate(float(value), None, None) if one.of_groups else score.estimate(rule, text)
        parts = score.by_group.items() if one.of_groups else ()
        by_group = {name: part.estimate(rule, text) for name, part in parts}
        found.append(Judged(float(value), estimate, bool(slack >= 0.0), bool(vacuous), by_group))
    return found
