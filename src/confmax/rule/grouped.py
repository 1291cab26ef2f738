"""Rules of groups: each group's rows are decided by a rule of their own, or all by the probabilities of the groups."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.errors import InputError
from confmax.tables.draws import given_keys, uniform
from confmax.tables.groups import Groups, GroupShares, decide_mixed
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


def in_groups(rule: Rule, proba: Any, group: Any, keys: Any, what: str) -> Any:
    """Return what the rules of the groups of a ``rule`` answer for the rows of each, lazily for lazy rows.

    ``proba`` (n, K) are given probabilities, ``group`` (n,) the group of each row, ``keys`` (n,) identifiers or None,
    and ``what`` is the method that answers: "predict_index" or "decision_probabilities". A ValueError if there is no
    group for a row, or the rule does not know it, or rows are not in memory.
    """
    kind, rows = known(proba)
    if not kind.in_memory:
        # an opened table brings the groups of its rows
        if group is not None or not kind.brings_groups:
            groups_given(rule, group)
        if what == "predict_index":
            return kind.predict_index(rule, rows, {"keys": keys, "group": group})
        return kind.decision_probabilities(rule, rows, {"group": group})
    groups = groups_of_rows(rule, group, n_rows(rows), proba)
    parts = []
    for g, name in enumerate(rule.groups):
        index = np.flatnonzero(groups.codes == g)
        if len(index):
            mine = None if keys is None else rows_of(keys, index)
            parts.append((index, answer(rule.of_group(name), what, rows_of(proba, index), mine)))
    if not parts:
        return answer(rule.of_group(rule.groups[0]), what, proba, keys)
    return _joined(parts, len(groups.codes))


def groups_of_rows(rule: Rule, group: Any, n: int, proba: Any = None) -> Groups:
    """Return the groups of n rows that a ``rule`` is to decide, from the ``group`` (n,) of each.

    ``proba`` is the table of the rows, whose index is compared. Raise a ValueError for a rule that decides all groups
    alike, and if there is no group for a row, or the rule does not know it.
    """
    groups_given(rule, group)
    return Groups.of(group, n, rule.groups, proba=proba)


def groups_given(rule: Rule, group: Any) -> None:
    """Refuse, by a ValueError, groups for a rule that decides all alike, and none for one that decides by groups."""
    if not rule.groups:
        raise InputError("this rule decides all groups alike", "leave `group` out")
    if group is None:
        shown = ", ".join(map(repr, rule.groups[:8]))
        raise InputError(f"this rule decides by groups ({shown})", "pass `group=`, the group of every row")


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


# --- rules that do not know the group of a row ------------------------------------------------------------------------


def mixed(rule: Rule, what: str, proba: Any, group_proba: Any, keys: Any) -> NDArray[Any]:
    """Return what a method of a rule answers by the probabilities of groups (n, G); ``keys`` (n,) fix its draws."""
    refuse_elsewhere(proba, "rules by the probabilities of groups decide rows in memory; pass them part by part")
    found = calibrated_rows(rule.calibrator, rule.checked(proba))
    P = np.asarray(found.storage.dense(found.proba, "group_proba").proba, dtype=np.float64)
    n = len(P)
    layout = rule.layout
    assert layout is not None
    shares = GroupShares.of(group_proba, n, rule.groups)
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
