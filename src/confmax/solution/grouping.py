"""Limits of groups: the rows of each group lie side by side, and the rule has gains for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from confmax.constraints import Constraint, Limits
from confmax.metrics import Metric
from confmax.metrics.decided import as_written
from confmax.metrics.seen import seen
from confmax.tables import Table
from confmax.tables.columns import warn
from confmax.tables.groups import Groups, GroupShares, SideBySide

FEW = 30  # rows of a class in a group, below which its recall says little


def groups_of(
    group: Any, group_proba: Any, proba: Any, raw: Table, wanted: Sequence[Constraint]
) -> Groups | GroupShares | None:
    """Return the groups of the rows of a table, for constraints that speak of them; None if none are given.

    Raises
    ------
    ValueError
        If no constraint speaks of groups, both are given, or the rows are not in memory.
    """
    if group is None and group_proba is None:
        return None
    name = "group_proba" if group is None else "group"
    if group is not None and group_proba is not None:
        raise ValueError("pass group=, if the group of a row is known when it is decided, or group_proba=; not both")
    if not any(one.over is not None for one in wanted):
        raise ValueError(
            f"{name}= changes the rule only through constraints that speak of groups, and there are none; add one, "
            f"such as 'min(recall[yes] | group) >= 0.7', or leave {name} out"
        )
    if not raw.is_whole:
        raise ValueError("groups need all rows in one place; pass an array or a frame of them")
    if group is None:
        return GroupShares.of(group_proba, raw.n_rows)
    return Groups.of(group, raw.n_rows, proba=proba)


def warn_of_groups(groups: Groups | GroupShares | None, raw: Table, limits: Limits | None) -> None:
    """Warn if several recalls of the groups are to be equal, or a class that is limited has few rows in a group."""
    if groups is None or limits is None:
        return
    about = [one for one in limits.constraints if one.over is not None]
    alone = [one for one in about if one.over == "difference" and one.metric.one_class == "alone"]
    if len({k for one in alone for k in one.metric.divided_by(raw.n_classes)}) > 1:
        warn(
            "equal recalls of several classes are met by deciding the better group worse, often at random; floors for "
            "every group, such as min(recall[NAME] | group) >= 0.7, raise the worse group instead"
        )
    labels = raw.in_memory().labels
    used = sorted({k for one in about for k in as_written(one.metric).divided_by(raw.n_classes)})
    if labels is None or not used or isinstance(groups, GroupShares):
        return
    cells = np.zeros((len(groups), raw.n_classes), dtype=np.int64)
    np.add.at(cells, (groups.codes, labels), 1)
    few = [(g, k) for g in range(len(groups)) for k in used if cells[g, k] < FEW]
    if few:
        g, k = few[0]
        more = f", and {len(few) - 1} more such cells" if len(few) > 1 else ""
        warn(
            f"group {groups.names[g]!r} has {cells[g, k]} rows of class {raw.classes[k]!r}{more}: with fewer than "
            f"{FEW}, limits on this class in this group hold on new rows by luck"
        )


def side_by_side(
    raw: Table, table: Table, metric: Metric, groups: Groups | GroupShares
) -> tuple[SideBySide, SideBySide, Metric]:
    """Return raw and calibrated rows with their groups side by side, and a metric of all rows on them."""
    n_further = metric.n_decisions(table.n_classes) - table.n_classes
    tables = [groups.beside(one.in_memory(), n_further) for one in (raw, table)]
    return tables[0], tables[1], seen(metric, tables[0].layout)
