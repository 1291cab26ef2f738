"""Rules of groups: each group's rows are decided by a rule of their own, or all by the probabilities of the groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array
from confmax.errors import InputError
from confmax.tables import Part, Table
from confmax.tables.decisions import ONE
from confmax.tables.draws import given_keys, uniform
from confmax.tables.kinds import (
    Rule,
    calibrated_rows,
    decision_probabilities,
    given_hashes,
    host_array,
    known,
    n_rows,
    predict_index,
    refuse_elsewhere,
    rows_of,
)

if TYPE_CHECKING:
    from confmax.tables.group_shares import GroupShares
    from confmax.tables.groups import Groups


def in_groups(rule: Rule, proba: Any, group: Any, keys: Any, what: str) -> Any:
    """Return what the rules of the groups of a ``rule`` answer for the rows of each, lazily for lazy rows.

    ``proba`` (n, K) are given probabilities, ``group`` (n,) the group of each row, ``keys`` (n,) identifiers or None,
    and ``what`` is the method that answers: "predict_index" or "decision_probabilities".
    """
    kind, rows = known(proba)
    if not kind.in_memory:
        # an opened table brings the groups of its rows
        if group is not None or not kind.brings_groups:
            groups_given(rule, group)
        if what == "predict_index":
            return kind.predict_index(rule, rows, {"keys": keys, "group": group})
        return kind.decision_probabilities(rule, rows, {"group": group})
    return by_group(rule, proba, groups_of_rows(rule, group, n_rows(rows), proba).codes, keys, what)


def by_group(rule: Rule, proba: Any, codes: NDArray[np.intp], keys: Any, what: str) -> Any:
    """Return `in_groups` of rows in memory, by the places (n,) of their groups among those of the rule."""
    parts = []
    for g, name in enumerate(rule.groups):
        index = np.flatnonzero(codes == g)
        if len(index):
            mine = None if keys is None else rows_of(keys, index)
            parts.append((index, answer(rule.of_group(name), what, rows_of(proba, index), mine)))
    if not parts:
        return answer(rule.of_group(rule.groups[0]), what, proba, keys)
    return _joined(parts, len(codes))


def groups_of_rows(rule: Rule, group: Any, n: int, proba: Any = None) -> Groups:
    """Return the groups of n rows that a ``rule`` is to decide, from the ``group`` (n,) of each.

    ``proba`` is the table of the rows, whose index is compared.
    """
    from confmax.tables.groups import Groups

    groups_given(rule, group)
    return Groups.of(group, n, rule.groups, proba=proba)


def groups_given(rule: Rule, group: Any) -> None:
    """Refuse, by a ValueError, groups for a rule that decides all alike, and none for one that decides by groups."""
    if not rule.groups:
        raise InputError("this rule decides all groups alike", "leave `group` out")
    if group is None:
        shown = ", ".join(map(repr, rule.groups[:8]))
        raise InputError(f"this rule decides by groups ({shown})", "pass `group=`, the group of every row")


def refuse_other_groups(rule: Rule, group: Any, group_proba: Any) -> None:
    """Refuse, by a ValueError, probabilities of groups for a rule that needs none, and none for one that needs them."""
    shown = ", ".join(map(str, rule.groups[:8])) + (", ..." if len(rule.groups) > 8 else "")
    if not rule.groups_known and (group is not None or group_proba is None):
        raise ValueError(
            f"this rule decides by the probabilities of groups ({shown}); pass group_proba=, a column for each"
        )
    if rule.groups_known and group_proba is not None:
        refused = "decides by the group of a row; pass group=" if rule.groups else "decides all groups alike"
        raise ValueError(f"this rule {refused}; leave group_proba out")


def answer(rule: Rule, what: str, proba: Any, keys: Any) -> Any:
    """Return what a method of a rule without groups answers (m, ...) for m rows."""
    return predict_index(rule, proba, keys) if what == "predict_index" else decision_probabilities(rule, proba)


def _joined(parts: list[tuple[NDArray[np.intp], Any]], n: int) -> Any:
    """Return answers for all n rows in their order, arrays or tensors."""
    first = parts[0][1]
    if isinstance(first, np.ndarray):
        out = np.empty((n, *first.shape[1:]), dtype=first.dtype)
        for index, answers in parts:
            out[index] = answers
        return out
    tensor = first.new_empty((n, *first.shape[1:]))
    for index, answers in parts:
        tensor[index] = answers
    return tensor


# --- rules on tables --------------------------------------------------------------------------------------------------


def refuse_labels(rule: Any, what: str) -> None:
    """Refuse, by a ValueError, a rule or a solution of several labels per row for ``what``, of one class each."""
    if getattr(getattr(getattr(rule, "rule", rule), "decisions", ONE), "several", False):
        raise ValueError(
            f"{what} is of one class for every row, and this rule decides several labels per row; confmax.score "
            f"evaluates it"
        )


def refuse_several(rule: Rule) -> None:
    """Refuse, by a ValueError, a rule whose gains are those of groups side by side, for a figure of one gain.

    So is a rule of several labels per row.
    """
    refuse_labels(rule, "this figure")
    if rule.groups:
        raise ValueError(
            "this figure shows one rule for all rows, and this rule decides by groups; show rule.of_group(NAME) on the "
            "rows of this group"
        )


def parts_of(rule: Any, table: Part) -> list[tuple[Any, Part]]:
    """Return a rule with its rows; of a rule that decides by groups, the rule of each group with the rows of this.

    Groups without a row that has weight are left out.
    """
    parts = [(rule, table)]
    if table.groups is not None and rule.groups:
        codes = table.groups.codes
        parts = [(rule.of_group(name), table.take(codes == g)) for g, name in enumerate(table.groups.names)]
    return [(one, part) for one, part in parts if part.n_rows and part.weight_total]


def to_decide(rule: Rule, table: Table, group: Any) -> Table:
    """Return rows that a rule is to decide with the ``group`` of each, if it needs one or one is given."""
    if not rule.groups and group is None:
        return table
    return table.with_groups(groups_of_rows(rule, group, table.n_rows))


def laid_out(rule: Rule, table: Table) -> Table | None:
    """Return a table as ``rule.evaluate`` takes it: groups of the rule side by side, None if it has others."""
    if not rule.groups:
        return table
    if table.groups is None or table.groups.names != rule.groups:
        return None
    return table.side_by_side(rule.n_decisions - rule.n_classes)


# --- rules that do not know the group of a row ------------------------------------------------------------------------


def mixed(rule: Rule, what: str, proba: Any, group_proba: Any, keys: Any) -> NDArray[Any]:
    """Return what a method of a rule answers by the probabilities of groups (n, G); ``keys`` (n,) fix its draws."""
    from confmax.tables.scans import decide_mixed

    P, shares = mixed_rows(rule, proba, group_proba)
    n = len(P)
    layout = rule.layout
    assert layout is not None
    # what every atom decides (A, n)
    decisions = np.array([decide_mixed(P, shares.proba, rule.gains[k], layout) for k in range(len(rule.weights))])
    if what == "decision_probabilities":
        out = np.zeros((n, rule.n_decisions))
        for weight, decided in zip(rule.weights, decisions, strict=True):
            out[np.arange(n), decided] += weight
        return out
    if not rule.is_randomized:
        return decisions[0]
    used = given_hashes(proba) if keys is None else given_keys(keys, n)
    atom = np.searchsorted(np.cumsum(rule.weights)[:-1], uniform(rule.seed, host_array(used)), "right")
    return np.asarray(decisions[atom, np.arange(n)])


def mixed_rows(rule: Rule, proba: Any, group_proba: Any) -> tuple[Array, GroupShares]:
    """Return the calibrated probabilities (n, K) of rows in memory in float64, and those of their groups (n, G)."""
    from confmax.tables.group_shares import GroupShares

    refuse_elsewhere(proba, "rules by the probabilities of groups decide rows in memory; pass them part by part")
    found = calibrated_rows(rule.calibrator, rule.checked(proba))
    P = np.asarray(found.storage.dense(found.proba, "group_proba").proba, dtype=np.float64)
    return P, GroupShares.of(group_proba, len(P), rule.groups)
