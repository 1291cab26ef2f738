"""`maximize` for several labels per row: thresholds and budgets, and the solution of what is found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from confmax.confusion import Array, Confusion
from confmax.metrics import labels as label_metrics
from confmax.metrics.labels import Micro, OfVectors
from confmax.optimize.label_thresholds import (
    LabelThresholds,
    Target,
    best_for_all,
    best_per_label,
    drawn_together,
    steadied,
)
from confmax.rule.labels import LabelRule
from confmax.solution.budgets import Found, best_gains, plain_rules
from confmax.solution.label_task import LabelPlan, LabelTask, task_of
from confmax.solution.labels import LabelSolution
from confmax.solution.plan import is_auto
from confmax.tables import MemoryTable
from confmax.tables.decisions import ANY
from confmax.tables.fingerprints import fingerprint

TOGETHER = 10.0  # true rows that the common threshold counts as
TO_MODEL = 20.0  # true rows that the model's thresholds count as


def tune(plan: LabelPlan, table: MemoryTable) -> LabelSolution:
    """Return the solution of a plan on a ``table`` of several labels per row."""
    task = task_of(plan, table)
    by_gains = plan.decisions != ANY or isinstance(task.metric.formula, OfVectors)
    best, found = best_gains(task) if by_gains else best_thresholds(task)
    plain = plain_rules(task)
    counted = task.counted([best, *plain.values()])
    values = [float(task.metric.values(statistics)) for statistics in counted]
    # no rule that people have without confmax is better on the estimate
    k = int(np.argmax(values))
    return finished(task, [best, *plain.values()][k], counted[k], found, dict(zip(plain, values[1:], strict=True)))


def best_thresholds(task: LabelTask) -> tuple[LabelRule, Found]:
    """Return the rule of thresholds, one for each label, and the largest values of such rules."""
    target = task.target
    most = thresholds_of(task, target)
    model = most if task.mode == "model" else thresholds_of(task, target.with_share(1.0))
    rule = LabelRule.from_thresholds(protected(task, most, model), **task.settings)
    passes = 1 if target.calibrate is not None else max(1, target.oracle.n_passes)
    return rule, Found(most.most, model.most, alone=most.values, n_passes=passes)


def thresholds_of(task: LabelTask, target: Target) -> LabelThresholds:
    """Return the best thresholds on an estimate."""
    if isinstance(task.metric.formula, Micro):
        return best_for_all(task.metric, target)
    return best_per_label(task.metric, target)


def protected(task: LabelTask, most: LabelThresholds, model: LabelThresholds) -> Array:
    """Return thresholds (L,) that hold on new rows, between the best ones and ones that few rows cannot move.

    The latter are, of means of scores such as F1, one for all labels, since the best threshold of a label is half of
    its best score; of other means those of the ``model``. Ratios of sums over labels have few numbers to choose.
    """
    plan = task.plan
    strength = plan.shrinkage
    if is_auto(strength):
        # who asks for one estimate by name gets what is best on it
        strength = is_auto(plan.confusion) and task.mode == "blend"
    alike = label_metrics.is_f_like(task.metric)
    if strength is True:
        strength = TOGETHER if alike else TO_MODEL
    if not strength or most.common is None:
        return most.values
    if not alike:
        return drawn_together(most.values, model.values, task.positives, float(strength))
    own = steadied(task.metric, task.target, most, task.positives, plan.random_state)
    return drawn_together(own, np.full(len(own), most.common), task.positives, float(strength))


def finished(
    task: LabelTask, rule: LabelRule, statistics: Confusion, found: Found, baselines: dict[str, float]
) -> LabelSolution:
    """Return the solution of a ``rule`` with these ``statistics``, and with what its search ``found``."""
    table = task.table
    value = float(task.metric.values(statistics))
    on_labels = task.counted([rule], 0.0)[0] if table.labels is not None else None
    model_value = value
    if task.mode != "model":
        model_value = float(task.metric.values(task.counted([rule], 1.0)[0]))
    mark = None if table.labels is None else fingerprint(table.unordered_hashes(), table.labels, table.classes)
    return LabelSolution(
        rule=replace(rule, tuned_on=mark),
        value=value,
        upper_bound=None if found.most is None else max(found.most, value),
        randomization_loss=0.0 if found.drawn is None else max(0.0, found.drawn - value),
        status=found.status,
        n_passes=found.n_passes,
        history=found.history,
        statistics=statistics,
        label_value=None if on_labels is None else float(task.metric.values(on_labels)),
        baselines=baselines,
        metric=task.metric,
        mode=task.mode,
        model_share=float(task.target.share.mean()),
        calibration=task.maps,
        model_value=model_value,
        model_upper_bound=None if found.model_most is None else max(found.model_most, model_value),
        counted=on_labels or statistics,
        positives=task.positives if table.labels is not None else None,
        alone=found.alone,
    )
