"""Limits of groups: a table brings the groups of its rows, which lie side by side, and the rule has gains for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from confmax.calibration import Calibration
from confmax.confusion import MAX_MATRIX_CLASSES, Array, Confusion, Layout
from confmax.errors import InputError
from confmax.evaluate.decided import counts_of, decided_by
from confmax.metrics.decided import as_written
from confmax.metrics.views import view
from confmax.oracle import make_oracle
from confmax.rule import DecisionRule
from confmax.solution.plan import Task
from confmax.solution.result import Solution
from confmax.tables import Part, Table
from confmax.tables.columns import warn
from confmax.tables.draws import uniform

if TYPE_CHECKING:
    from confmax.constraints import Constraint, Limits

FEW = 30  # rows of a class in a group, below which its recall says little


# --- which groups there are -------------------------------------------------------------------------------------------


def with_groups(
    table: Table, group: Any, wanted: Sequence[Constraint], *, group_proba: Any = None, proba: Any = None
) -> Table:
    """Return a table with the groups of its rows, for constraints that speak of them; as it is without groups.

    Raise a ValueError if no constraint speaks of groups, both are given, or they are those of rows that are not in
    memory.
    """
    check_groups(group, group_proba, wanted)
    if group_proba is not None:
        from confmax.tables.group_shares import GroupShares

        return table.with_groups(GroupShares.of(group_proba, table.n_rows), "group_proba=")
    if table.groups is not None:
        # an opened table may bring groups that nobody asked for
        check_groups(table.groups, None, wanted)
        return table
    if group is None:
        return table
    from confmax.tables.groups import Groups

    return table.with_groups(Groups.of(group, table.n_rows, proba=proba), "group=")


def check_groups(group: Any, group_proba: Any, wanted: Sequence[Constraint]) -> None:
    """Refuse, by a ValueError, groups of which no constraint speaks, and groups that are both known and not known."""
    if group is None and group_proba is None:
        return
    name = "group_proba" if group is None else "group"
    if group is not None and group_proba is not None:
        raise ValueError("pass group=, if the group of a row is known when it is decided, or group_proba=; not both")
    if not any(one.of_groups for one in wanted):
        raise InputError(
            f"`{name}` changes the rule only through constraints that speak of groups, and there are none",
            f"add one, such as 'min(recall[yes] | group) >= 0.7', or leave `{name}` out",
        )


def warn_of_groups(task: Task) -> None:
    """Warn if several recalls of the groups are to be equal, or a class that is limited has few rows in a group."""
    limits = task.limits
    raw = task.raw
    groups = raw.groups
    if groups is None or limits is None:
        return
    from confmax.tables.group_shares import GroupShares

    about = [one for one in limits.constraints if one.of_groups]
    alone = [one for one in about if one.across.equalises and one.metric.one_class == "alone"]
    if len({k for one in alone for k in one.metric.divided_by(raw.n_classes)}) > 1:
        warn(
            "equal recalls of several classes are met by deciding the better group worse, often at random; floors for "
            "every group, such as min(recall[NAME] | group) >= 0.7, raise the worse group instead"
        )
    used = sorted({k for one in about for k in as_written(one.metric).divided_by(raw.n_classes)})
    if not raw.has_labels or not used or isinstance(groups, GroupShares):
        return
    cells = raw.cells()
    few = [(g, k) for g in range(len(groups)) for k in used if cells[g, k] < FEW]
    if few:
        g, k = few[0]
        more = f", and {len(few) - 1} more such cells" if len(few) > 1 else ""
        warn(
            f"group {groups.names[g]!r} has {cells[g, k]:.0f} rows of class {raw.classes[k]!r}{more}: with fewer than "
            f"{FEW}, limits on this class in this group hold on new rows by luck"
        )


# --- what a solver sees -----------------------------------------------------------------------------------------------


def as_solved(task: Task, fitted: Calibration | None) -> tuple[Task, Table]:
    """Return the task as a solver sees it, and its calibrated rows; groups lie side by side."""
    raw = task.raw
    table = raw if fitted is None else raw.calibrated(fitted.calibrator)
    metric = task.metric.finite(raw.n_rows)
    if task.limits is not None and task.limits.layout is not None:
        n_further = task.n_decisions - table.n_classes
        if task.out_of_fold is not None:
            task = task.but(out_of_fold=task.out_of_fold.side_by_side(n_further))
        raw, table = (rows.side_by_side(n_further) for rows in (raw, table))
        metric = view(metric, raw.layout)
    return task.but(raw=raw, metric=metric), table


def parts_of_rule(table: Table) -> dict[str, Any]:
    """Return what a rule says of the groups of a table: nothing, or their names, and whether rows have one each."""
    layout = table.layout
    return {} if layout is None else {"groups": table.groups.names, "groups_known": not layout.shared}


# --- what labels say of a rule ----------------------------------------------------------------------------------------


def counted_on_labels(rule: DecisionRule, table: Table, *, matrix: bool = False) -> Confusion:
    """Return the confusion of a rule on the labels of raw probabilities, all groups together; expected, if it draws."""
    if not rule.groups:
        return rule.evaluate(make_oracle(table, "labels"), matrix=matrix)
    # not side by side: a group of the rule may have no row here
    rows = table.head
    C = counts_of(decided_by(rule, rows), rows)
    return Confusion.from_matrix(C / C.sum())


def statistics_on_labels(solution: Solution, raw: Table) -> Confusion:
    """Return the statistics of the rule on the labels; those of the solution where labels cannot be counted."""
    if not raw.has_labels or solution.mode == "labels" or not solution.rule.groups_known:
        return solution.statistics
    return counted_on_labels(solution.rule, raw)


def without_errors(table: Table, layout: Layout | None) -> Confusion:
    """Return the confusion of the rule without errors on labelled rows; of groups side by side."""
    rows = (table if layout is None else table.side_by_side()).label_weight()
    decisions = np.zeros(len(rows) if layout is None else layout.all_decisions)
    decisions[: len(rows)] = rows
    return Confusion(rows, rows, decisions, np.eye(len(rows), len(decisions)) * rows[:, None])


def counted_as_predicted(rule: DecisionRule, table: Table) -> Confusion:
    """Return the confusion of what `DecisionRule.predict` decides on labelled rows; of groups side by side.

    A rule that draws decides equal rows alike: it is one function of a row.
    """
    counts = table.over_parts(partial(_counts, rule), _added)
    sizes = counts[0].sum(axis=1)
    n = np.maximum(sizes, 1)
    groups = [_confusion(n[g], *(each[g] for each in counts)) for g in range(len(n))]
    if rule.layout is None:
        return groups[0]
    parts = [replace(Confusion.stack([group]), rows=group.rows) for group in groups]
    return rule.layout.joined(parts, sizes / max(table.n_rows, 1))[0]


def _added(one: list[NDArray[np.int64]], other: list[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
    return list(map(np.add, one, other))


def _counts(rule: DecisionRule, part: Part) -> list[NDArray[np.int64]]:
    """Return how many rows of each of G groups have a class, are decided rightly, and get a decision.

    These are (G, K), (G, K) and (G, M); with few classes also how many of a class get a decision (G, K, M). Where the
    rule does not decide by groups, all rows are one.
    """
    labels = part.labels
    assert labels is not None
    decisions, shares, M = rule.decided(part)
    atom = np.searchsorted(np.cumsum(shares)[:-1], uniform(rule.seed, part.row_hashes()), "right")
    decided = decisions[atom, np.arange(part.n_rows)]
    G, group = (1, 0) if rule.layout is None else (len(part.groups), part.groups.codes)
    K = part.n_classes

    def counted(code: NDArray[np.integer], *shape: int) -> NDArray[np.int64]:
        return np.bincount(code, minlength=int(np.prod(shape))).reshape(shape)

    right = decided == labels
    out = [counted(group * K + labels, G, K), counted((group * K + labels)[right], G, K)]
    out.append(counted(group * M + decided, G, M))
    if K <= MAX_MATRIX_CLASSES:
        out.append(counted((group * K + labels) * M + decided, G, K, M))
    return out


def _confusion(n: int, labels: Array, met: Array, decided: Array, matrix: Array | None = None) -> Confusion:
    """Return the confusion of counts of ``n`` rows."""
    return Confusion(labels / n, met / n, decided / n, None if matrix is None else matrix / n)


def refuse_shared_rows(table: Table, limits: Limits) -> None:
    """Refuse, by a ValueError, to test limits on rows whose groups are not known."""
    from confmax.tables.group_shares import GroupShares

    if isinstance(table.groups, GroupShares):
        text = next(one.text for one in limits.constraints if one.of_groups)
        what = f"`confidence` counts the rows of each group for {text!r}, and group_proba= does not tell them"
        raise InputError(what, "pass `group=`, or leave `confidence` out")
