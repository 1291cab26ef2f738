"""What a rule decides on checked tables, and its exact confusion there, before any draw."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.calibration import Scaling
from confmax.calibration.words import listed
from confmax.confusion import Array, Confusion
from confmax.errors import InputError
from confmax.oracle import same_estimate
from confmax.tables import Calibrator, Oracle, Part
from confmax.tables.kinds import Rule


def evaluate(rule: Rule, oracle: Oracle, *, matrix: bool = False) -> Confusion:
    """Return the exact confusion of a ``rule`` on the table of ``oracle``, with its ``matrix`` or without; one pass.

    The decisions are those of `predict` on the raw probabilities. A raw table is calibrated with the rule's
    calibrator, and so is the truth of a model confusion. The truth of a table that is already calibrated stays as
    it is.

    Raises
    ------
    ValueError
        If ``oracle`` is something else, such as an array or an opened table; or if its table has other groups.
    """
    if getattr(oracle, "table", None) is None:
        raise ValueError(
            f"evaluate takes an oracle; got {type(oracle).__name__}: pass make_oracle(make_table(proba, y), "
            f"'labels') of confmax.oracle; an opened table brings its labels, so leave y out"
        )
    table = oracle.table
    if rule.layout != table.layout:
        raise ValueError(
            "a rule with groups is evaluated on a table with the same groups side by side, "
            "table.with_groups(Groups.of(group, n)).side_by_side(), and other rules on one without"
        )
    if not same_calibrator(rule.calibrator, table.calibrator):
        # the truth of a raw table is calibrated with the rule; a calibrated table keeps the truth that it has
        if table.calibrator is None:
            oracle = same_estimate(oracle, table.calibrated(rule.calibrator))
        else:
            counted: Any = oracle
            oracle = counted.decided_by(rule.calibrator)
    return oracle.maximize(rule.gains, matrix=matrix).mix(rule.weights)


def decided(rule: Rule, table: Part) -> tuple[NDArray[np.int64], Array, int]:
    """Return what every atom of a ``rule`` decides on the raw probabilities of ``table``: exact, before any draw.

    A rule with groups needs a table whose ``groups`` are those of its rows, else a ValueError.

    Returns
    -------
    decisions : ndarray (A, n)
        Column numbers, a line per atom.
    shares : ndarray (A,)
        Probability of each line: `weights`.
    n_decisions : int
        M.
    """
    if not rule.groups:
        return table.decide(rule.gains, rule.calibrator), rule.weights, rule.n_decisions
    if not rule.groups_known:
        raise ValueError(
            "this rule decides by the probabilities of groups, which a table does not hold; pass what "
            "predict(proba, group_proba=...) returns in its place"
        )
    groups = table.groups
    if groups is None:
        raise InputError("this rule decides by groups", "pass `group=`, the group of every row")
    unknown = [name for name in groups.names if name not in rule.groups]
    if unknown:
        raise ValueError(f"the rule does not know the group {unknown[0]!r}; its groups are {listed(rule.groups)}")
    out = np.empty((len(rule.weights), table.n_rows), dtype=np.int64)
    for k, name in enumerate(groups.names):
        rows = np.flatnonzero(groups.codes == k)
        if len(rows):
            out[:, rows] = table.take(rows).decide(rule.of_group(name).gains, rule.calibrator)
    return out, rule.weights, rule.n_decisions


def same_calibrator(one: Calibrator | None, other: Calibrator | None) -> bool:
    """Whether two calibrators are one; objects that are not confmax's are only themselves."""
    return one is other or (isinstance(one, Scaling) and one == other)
