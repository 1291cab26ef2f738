"""A solution of several labels for rows on which labels are more or less frequent: `LabelSolution.adapt`.

The maps of the labels are shifted, and the plan of the solution runs again on the new rows, on what their probabilities
lead to. In means over labels, labels whose share has not moved keep their thresholds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from confmax.calibration.labels import LabelScaling
from confmax.confusion import Array, Confusion
from confmax.errors import InputError
from confmax.evaluate.protocols import Tuned
from confmax.metrics import Metric
from confmax.metrics.labels import is_mean
from confmax.rule.shares import LabelShares
from confmax.shift.labels import label_shift, shares_of_rule
from confmax.solution.label_task import task_of
from confmax.tables.columns import warn
from confmax.tables.several import labels_table

S = TypeVar("S", bound=Tuned)

ALIKE = 1e-9  # difference of values that is rounding


def adapt(solution: S, new_proba: Any, *, priors: Any, sample_weight: Any) -> S:
    """Return `LabelSolution.adapt`."""
    rule: Any = solution.rule
    plan = solution.plan
    if plan is None:
        raise ValueError("this solution does not hold the settings of its search; tune it again")
    if new_proba is None:
        raise InputError(
            "a rule of several labels is adapted on the rows that it is for",
            "pass `new_proba=`, the probabilities of the new rows",
        )
    shares = shares_of_rule(rule)
    table = labels_table(rule.decisions, new_proba, None, sample_weight, rule.class_names)
    if priors is None:
        shift = label_shift(table, rule.class_names, shares)
        for sentence in shift.warnings:
            warn(sentence)
        solution = replace(solution, shift=shift)
        target = shift.priors
    else:
        target = _given(priors, rule.class_names, shares.meant)
    moved = np.abs(target - shares.meant) > ALIKE
    # a label that no row had is decided once it has a share
    absent = tuple(k for k in plan.absent or () if not moved[k])
    kept = absent == (plan.absent or ()) and not plan.constraints
    if not moved.any() or (kept and _reads_rates_alone(solution.metric, len(target))):
        return solution
    maps = _shifted(shares, target)
    plan = replace(plan, calibration=maps, confusion="model", absent=absent)
    found = solution.tuned_by(plan, table)
    value, statistics = found.value, found.statistics
    old, new = rule.thresholds, found.rule.thresholds
    rule = found.rule
    if old is not None and new is not None and is_mean(solution.metric) and not plan.constraints:
        task = task_of(plan, table)
        rule = type(rule).from_thresholds(np.where(moved, new, old), **task.settings)
        statistics = task.counted([rule])[0]
        value = float(task.metric.values(statistics))
    record = LabelShares(
        tuple(target.tolist()), shares.n_rows, tuple(np.minimum(statistics.columns, 1.0).tolist()), maps
    )
    rule = replace(rule, shares=record, tuned_on=solution.rule.tuned_on)
    changed = {"statistics": statistics, "counted": statistics, "counts": None, "shift": solution.shift}
    return replace(found, rule=rule, value=value, model_value=value, **changed)


def _shifted(shares: LabelShares, target: Array) -> LabelScaling:
    """Return the maps of the labels for shares ``target`` (L,)."""
    pi = np.clip(shares.meant, 1e-12, 1.0 - 1e-12)
    q = np.clip(target, 1e-12, 1.0 - 1e-12)
    offsets = np.log(q / pi) - np.log((1.0 - q) / (1.0 - pi))
    maps = shares.maps
    L = len(pi)
    return LabelScaling(np.ones(L), offsets) if maps is None else LabelScaling(maps.a, maps.c + offsets)


def _given(priors: Any, names: tuple[Any, ...], source: Array) -> Array:
    """Return shares (L,) that were given, as an array or by name; labels that are not named keep theirs."""
    if isinstance(priors, Mapping):
        other = [name for name in priors if name not in names]
        if other:
            raise InputError(f"`priors` name {other[0]!r}, which is none of the labels")
        place = {name: k for k, name in enumerate(names)}
        found = source.copy()
        for name, share in priors.items():
            found[place[name]] = share
    else:
        found = np.asarray(priors, dtype=np.float64)
    if found.shape != source.shape:
        raise InputError(f"`priors` have shape {found.shape}, and there are {len(names)} labels", "pass one for each")
    wrong = ~((found >= 0.0) & (found <= 1.0))
    if wrong.any():
        k = int(np.argmax(wrong))
        raise InputError(f"the share of {names[k]!r} in `priors` is {found[k]:g}, and shares lie between 0 and 1")
    return found


def _reads_rates_alone(metric: Metric, n_labels: int) -> bool:
    """Whether a ``metric`` depends on recalls and false positive rates alone, which no share of a label changes."""
    rng = np.random.default_rng(0)
    hit, false = rng.random((2, n_labels))
    values = []
    for r in rng.uniform(0.2, 0.8, (3, n_labels)):
        values.append(float(metric.values(Confusion(r, r * hit, r * hit + (1.0 - r) * false))))
    return bool(np.ptp(values) <= ALIKE)
