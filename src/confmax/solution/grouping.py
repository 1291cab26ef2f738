"""Limits of groups: the rows of each group lie side by side, and the rule has gains for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confmax.constraints import Constraint
from confmax.errors import InputError
from confmax.metrics import Metric
from confmax.metrics.decided import as_written
from confmax.metrics.seen import seen
from confmax.solution.plan import Plan, Task
from confmax.tables import Table
from confmax.tables.columns import warn
from confmax.tables.groups import Groups, GroupShares, SideBySide
from confmax.tables.partitioned.table import AnyGroups, GroupsInParts

FEW = 30  # rows of a class in a group, below which its recall says little


def groups_of(group: Any, group_proba: Any, proba: Any, raw: Table, wanted: Sequence[Constraint]) -> AnyGroups | None:
    """Return the groups of the rows of a table, for constraints that speak of them; None if there are none.

    Raises
    ------
    ValueError
        If no constraint speaks of groups, both are given, or there are probabilities of groups of rows that are not in
        memory.
    """
    check_groups(group, group_proba, wanted)
    if group_proba is not None:
        if not raw.is_whole:
            raise ValueError("group_proba= needs all rows in memory, and these lie in parts; pass an array or a frame")
        return GroupShares.of(group_proba, raw.n_rows)
    if raw.groups is None:
        return None if group is None else Groups.of(group, raw.n_rows, proba=proba)
    # an opened table may bring groups that nobody asked for
    check_groups(raw.groups, None, wanted)
    found: GroupsInParts = raw.groups
    return found


def groups_of_rows(group: Any, table: Table, plan: Plan) -> Groups | None:
    """Return the known groups of rows in memory, for the constraints of a plan; None if none are given.

    Raise a ValueError as `groups_of`.
    """
    found = groups_of(group, None, None, table, plan.constraints)
    assert found is None or isinstance(found, Groups)  # others are given by another argument, or not in memory
    return found


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
    groups = task.groups
    limits = task.limits
    raw = task.raw
    if groups is None or limits is None:
        return
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
    cells = groups.beside(raw).cells()
    few = [(g, k) for g in range(len(groups)) for k in used if cells[g, k] < FEW]
    if few:
        g, k = few[0]
        more = f", and {len(few) - 1} more such cells" if len(few) > 1 else ""
        warn(
            f"group {groups.names[g]!r} has {cells[g, k]:.0f} rows of class {raw.classes[k]!r}{more}: with fewer than "
            f"{FEW}, limits on this class in this group hold on new rows by luck"
        )


def side_by_side(raw: Table, table: Table, metric: Metric, groups: AnyGroups) -> tuple[SideBySide, SideBySide, Metric]:
    """Return raw and calibrated rows with their groups side by side, and a metric of all rows on them."""
    n_further = metric.n_decisions(table.n_classes) - table.n_classes
    tables = [groups.beside(one, n_further) for one in (raw, table)]
    return tables[0], tables[1], seen(metric, tables[0].layout)
