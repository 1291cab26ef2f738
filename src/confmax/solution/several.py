"""`maximize` for several labels per row: the plan, the estimate of what is true, and the thresholds.

The estimate is ``S = share P + (1 - share) Y``, with a share of the model for each label: one without labels, zero for
labels alone, and in a blend ``m / (m + true rows)``. So a label with few true rows is judged by what the calibrated
model says of it, and one with many by its own rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.calibration.labels import LabelScaling
from confmax.calibration.labels import fit as fit_maps
from confmax.confusion import ABSENT, Array, Confusion, Gains
from confmax.errors import InputError
from confmax.metrics import Metric
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
from confmax.solution.labels import LabelSolution
from confmax.solution.plan import CONFUSIONS, is_auto
from confmax.tables import MemoryTable
from confmax.tables.array.labels import LabelsOracle
from confmax.tables.columns import warn
from confmax.tables.decisions import ANY, Decisions
from confmax.tables.draws import as_seed
from confmax.tables.fingerprints import fingerprint
from confmax.tables.several import positives

BLENDED = 20.0  # true rows of a label that the model counts as, in a blend
TOGETHER = 10.0  # true rows that the common threshold counts as
TO_MODEL = 20.0  # true rows that the model's thresholds count as
NAMED = 5  # labels that a warning names
# arguments that rows with several labels do not take yet, and what they are when they are left out
LEFT_OUT: dict[str, Any] = {
    "pos_label": None,
    "constraints": (),
    "confidence": None,
    "abstain": False,
    "group": None,
    "group_proba": None,
    "normalize": False,
    "solver": "auto",
    "randomized": "auto",
    "on_infeasible": "raise",
}


@dataclass(frozen=True, eq=False)
class LabelPlan:
    """The checked settings of a tuning for several labels, by the names of `confmax.maximize`."""

    metric: Metric
    decisions: Decisions
    confusion: str = "auto"
    calibration: Any = "auto"
    shrinkage: Any = "auto"
    randomized: bool | str = False
    tol: float = 1e-6
    max_passes: int | None = None
    random_state: int = 0
    callback: Any = field(default=None, repr=False)

    @classmethod
    def checked(cls, metric: Any, decisions: Decisions, *, random_state: Any = 0, **settings: Any) -> LabelPlan:
        """Return the plan of the arguments of `maximize`; a ValueError for what several labels do not take."""
        for name, default in LEFT_OUT.items():
            if name == "randomized" and decisions.most is not None:
                continue
            given = settings.pop(name, default)
            if not (given is default or (isinstance(given, (str, bool, tuple, list)) and given == default)):
                raise InputError(f"`{name}` is of one class for every row, and decisions={decisions.argument!r} is not")
        settings.pop("progress", None)
        drawn = settings.get("randomized", False)
        if not (isinstance(drawn, (bool, np.bool_)) or is_auto(drawn)):
            raise ValueError(f"randomized must be True, False or 'auto'; got {drawn!r}")
        plan = cls(label_metrics.resolve(metric, decisions), decisions, random_state=as_seed(random_state), **settings)
        if plan.confusion not in CONFUSIONS:
            raise ValueError(f"confusion must be one of {', '.join(CONFUSIONS)}; got {plan.confusion!r}")
        known = plan.calibration is None or is_auto(plan.calibration) or isinstance(plan.calibration, LabelScaling)
        if not known:
            raise ValueError(f"calibration of several labels is 'auto' or None; got {plan.calibration!r:.60}")
        m = plan.shrinkage
        if not (
            is_auto(m) or m is None or (isinstance(m, (bool, int, float, np.number)) and np.isfinite(m) and m >= 0)
        ):
            raise InputError(
                f"`shrinkage` is 'auto', False, or how many true rows the common threshold counts as; got {m!r}"
            )
        return plan

    def solve(self, table: MemoryTable) -> LabelSolution:
        """Return the solution on a ``table`` of several labels."""
        return tune(self, table)


@dataclass(frozen=True, eq=False)
class LabelTask:
    """A plan on the rows of a table: the metric of the labels that are present, and the estimate of what is true."""

    plan: LabelPlan
    metric: Metric
    table: MemoryTable
    mode: str
    target: Target
    maps: LabelScaling | None
    # (L,): how many rows have the label; as expected by the model, where there are no labels
    positives: NDArray[Any]

    @property
    def settings(self) -> dict[str, Any]:
        """What every rule of the task has."""
        return {"classes": self.table.classes, "metric": repr(self.plan.metric), "seed": self.plan.random_state}

    @cached_property
    def calibrated(self) -> MemoryTable:
        """The table whose probabilities rules with the calibration decide by."""
        if self.maps is None:
            return self.table
        return replace(self.table, proba=self.maps.transform(self.table.proba), totals=None, hashes=None)

    def counted(self, rules: Sequence[LabelRule], share: float | None = None) -> list[Confusion]:
        """Return the statistics of ``rules`` on the estimate, or on that with the same ``share`` of the model."""
        target = self.target if share is None else self.target.with_share(share)
        # rules on the given probabilities share a pass
        given = [rule for rule in rules if rule.calibrator is None]
        parts = iter(target.counted(Gains.concatenate([rule.gains for rule in given]))) if given else iter(())
        found = []
        for rule in rules:
            if rule.calibrator is None:
                answers = Confusion.stack([next(parts) for _ in rule.weights])
            else:
                answers = LabelsOracle(self.calibrated, target.share).maximize(rule.gains)
            found.append(answers.mix(rule.weights))
        return found


def task_of(plan: LabelPlan, table: MemoryTable) -> LabelTask:
    """Return the task of a plan on a ``table``, with warnings of labels that no row has."""
    mode = plan.confusion
    if is_auto(mode):
        mode = "model" if table.labels is None else "blend"
    if mode != "model" and table.labels is None:
        raise InputError(f"confusion={mode!r} needs `y`, the true labels", "pass `y=`, or use confusion='model'")
    maps = plan.calibration
    if is_auto(maps):
        maps = None if table.labels is None else fit_maps(table)
    if isinstance(maps, LabelScaling) and len(maps.a) != table.n_classes:
        raise ValueError(f"calibration has maps of {len(maps.a)} labels, and the table has {table.n_classes}")
    labelled = table.labels is not None
    rows = table.label_weight() if labelled else table.mean_probability()
    present = rows > ABSENT
    if not present.any():
        raise InputError("no row has any label in `y`" if labelled else "`proba` is zero everywhere")
    _warn_of_absent(table, present)
    counted = positives(table) if labelled else table.n_rows * rows
    shares = {"model": np.ones(len(rows)), "labels": np.zeros(len(rows)), "blend": BLENDED / (BLENDED + counted)}
    # nothing but the model speaks of a label that no row has
    share = np.where(present, shares[mode], 1.0).astype(np.float64)
    target = Target(table, share, None if maps is None else maps.column)
    kept = None if present.all() else tuple(np.flatnonzero(present).tolist())
    metric = replace(plan.metric, classes=kept)
    if dict(metric.params).get("n", 0.0) is None:
        metric = metric.with_params({"n": float(table.n_rows)})
    return LabelTask(plan, metric, table, mode, target, maps, counted)


def _warn_of_absent(table: MemoryTable, present: NDArray[np.bool_]) -> None:
    absent = [repr(table.classes[k]) for k in np.flatnonzero(~present)[:NAMED]]
    if not absent:
        return
    more = int((~present).sum()) - len(absent)
    named = ", ".join(absent) + (f" and {more} more" if more else "")
    warn(
        f"no row of y has the label{'s' if len(absent) > 1 else ''} {named}: the metric leaves such labels out, and "
        f"their decision follows the other labels and the model"
    )


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
