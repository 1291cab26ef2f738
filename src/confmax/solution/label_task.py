"""The plan of a tuning for several labels per row, and the task that it makes of a table.

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
from confmax.confusion import ABSENT, Confusion, Gains
from confmax.constraints import Constraint, Limits, bind_labels, resolve
from confmax.errors import InputError
from confmax.metrics import Metric
from confmax.metrics import labels as label_metrics
from confmax.metrics.labels import OfVectors, is_total
from confmax.metrics.rates import LABELS_PER_ROW
from confmax.optimize.estimate import Estimate
from confmax.progress import Bar
from confmax.rule.labels import LabelRule
from confmax.solution.plan import CONFUSIONS, absent_of, check_search, is_auto
from confmax.tables import Table
from confmax.tables.columns import warn
from confmax.tables.decisions import ANY, Decisions
from confmax.tables.draws import as_seed

BLENDED = 20.0  # true rows of a label that the model counts as, in a blend
NAMED = 5  # labels that a warning names
# arguments that rows with several labels do not take yet, and what they are when they are left out
LEFT_OUT: dict[str, Any] = {
    "pos_label": None,
    "confidence": None,
    "abstain": False,
    "group": None,
    "group_proba": None,
    "normalize": False,
    "solver": "auto",
    "randomized": "auto",
}


@dataclass(frozen=True, eq=False)
class LabelPlan:
    """The checked settings of a tuning for several labels, by the names of `confmax.maximize`."""

    metric: Metric
    decisions: Decisions
    confusion: str = "auto"
    calibration: Any = "auto"
    shrinkage: Any = "auto"
    randomized: bool | str = "auto"
    tol: float = 1e-6
    max_passes: int | None = None
    random_state: int = 0
    constraints: tuple[Constraint, ...] = ()
    on_infeasible: str = "raise"
    callback: Any = field(default=None, repr=False)
    progress: bool | Bar = False
    # the columns of labels that are never decided; None are those that no row has
    absent: tuple[int, ...] | None = None
    columns: tuple[str, ...] = ()  # what the columns of probabilities are called, of rules that know it

    @classmethod
    def checked(
        cls, metric: Any, decisions: Decisions, *, random_state: Any = 0, constraints: Any = (), **settings: Any
    ) -> LabelPlan:
        """Return the plan of the arguments of `maximize`; a ValueError for what several labels do not take."""
        for name, default in LEFT_OUT.items():
            if name == "randomized" and decisions.most is not None:
                continue
            given = settings.pop(name, default)
            if not (given is default or (isinstance(given, (str, bool, tuple, list)) and given == default)):
                raise InputError(
                    f"`{name}` is of one class for every row, and `decisions={decisions.argument!r}` is not"
                )
        drawn = settings.get("randomized", "auto")
        if not (isinstance(drawn, (bool, np.bool_)) or is_auto(drawn)):
            raise ValueError(f"randomized must be True, False or 'auto'; got {drawn!r}")
        wanted = resolve(constraints)
        exactly = decisions.most is not None and not decisions.positive
        if exactly and any(one.metric.formula == LABELS_PER_ROW.formula for one in wanted):
            raise InputError(
                f"`decisions={decisions.argument!r}` gives every row so many labels: labels_per_row cannot be limited",
                f"pass `decisions=('at_most', {decisions.most})`, or leave this limit out",
            )
        # with limits, metrics are of use that are largest if no row, or every row, gets a label
        found = label_metrics.resolve(metric, None if wanted and decisions == ANY else decisions)
        if wanted and isinstance(found.formula, OfVectors):
            raise InputError(
                f"limits of several labels need a mean over labels or a ratio of sums over them, and {found!r} is "
                f"a function",
                f"use one of {', '.join(label_metrics.names(decisions))}",
            )
        plan = cls(found, decisions, random_state=as_seed(random_state), constraints=wanted, **settings)
        if plan.on_infeasible not in ("raise", "closest"):
            raise ValueError(f"on_infeasible is 'raise' or 'closest'; got {plan.on_infeasible!r}")
        if plan.confusion not in CONFUSIONS:
            raise ValueError(f"confusion must be one of {', '.join(CONFUSIONS)}; got {plan.confusion!r}")
        check_search(plan.tol, plan.max_passes, plan.callback)
        known = plan.calibration is None or is_auto(plan.calibration) or isinstance(plan.calibration, LabelScaling)
        if not known:
            raise InputError(
                f"`calibration={plan.calibration!r:.60}` is of one class for every row; each label has its own map",
                "pass `calibration='auto'`, or `calibration=None`",
            )
        m = plan.shrinkage
        if not (
            is_auto(m) or m is None or (isinstance(m, (bool, int, float, np.number)) and np.isfinite(m) and m >= 0)
        ):
            raise InputError(
                f"`shrinkage` is 'auto', False, or how many true rows the common threshold counts as; got {m!r}"
            )
        if not isinstance(plan.progress, (bool, np.bool_, Bar)):
            raise ValueError(f"progress must be True or False; got {plan.progress!r}")
        plan.refuse_idle()
        return plan

    @property
    def by_gains(self) -> bool:
        """Whether rules are searched by gains: with a number of labels, and for functions; else by thresholds."""
        return self.decisions != ANY or isinstance(self.metric.formula, OfVectors)

    def refuse_idle(self) -> None:
        """Refuse, by a ValueError, settings that change nothing about what is maximised."""
        if not is_auto(self.shrinkage) and self.shrinkage:
            why = ""
            if self.decisions != ANY:
                why = f"`decisions={self.decisions.argument!r}` has none"
            elif isinstance(self.metric.formula, OfVectors):
                why = "those of a function are searched together"
            elif is_total(self.metric):
                why = f"those of {self.metric.name} are one for all labels"
            if why:
                raise InputError(f"`shrinkage` draws thresholds of single labels together, and {why}", "leave it out")
        if self.callback is not None and not self.by_gains:
            raise ValueError(
                f"callback is called at the steps of a search, and the thresholds for {self.metric.name} are found "
                f"without one; leave it out"
            )


@dataclass(frozen=True, eq=False)
class LabelTask:
    """A plan on the rows of a table: the metric of the labels that are present, and the estimate of what is true."""

    plan: LabelPlan
    metric: Metric
    table: Table
    mode: str
    estimate: Estimate
    maps: LabelScaling | None
    # (L,): how many rows have the label; as expected by the model, where there are no labels
    positives: NDArray[Any]
    limits: Limits | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """What every rule of the task has."""
        return {
            "classes": self.table.classes,
            "metric": repr(self.plan.metric),
            "seed": self.plan.random_state,
            "columns": self.plan.columns,
            "constraints": () if self.limits is None else self.limits.stored,
        }

    @cached_property
    def calibrated(self) -> Table:
        """The table whose probabilities rules with the calibration decide by."""
        if self.maps is None:
            return self.table
        return self.table.calibrated(self.maps)

    def counted(self, rules: Sequence[LabelRule], share: float | None = None) -> list[Confusion]:
        """Return the statistics of ``rules`` on the estimate, or on that with the same ``share`` of the model."""
        estimate = self.estimate if share is None else self.estimate.with_share(share)
        # rules on the given probabilities share a pass
        given = [rule for rule in rules if rule.calibrator is None]
        parts = iter(estimate.counted(Gains.concatenate([rule.gains for rule in given]))) if given else iter(())
        found = []
        for rule in rules:
            if rule.calibrator is None:
                answers = Confusion.stack([next(parts) for _ in rule.weights])
            else:
                answers = self.calibrated.oracle(estimate.share).maximize(rule.gains)
            found.append(answers.mix(rule.weights))
        return found


def task_of(plan: LabelPlan, table: Table) -> LabelTask:
    """Return the task of a plan on a ``table``, with warnings of labels that no row has.

    These are never decided, unless rows have them that this table is a part of (`LabelPlan.absent`). Raise a ValueError
    if fewer labels are left than are to be decided.
    """
    mode = plan.confusion
    absent = absent_of(table) if plan.absent is None else plan.absent
    plan = replace(plan, absent=absent)
    if is_auto(mode):
        mode = "blend" if table.has_labels else "model"
    if mode != "model" and not table.has_labels:
        raise InputError(f"confusion={mode!r} needs `y`, the true labels", "pass `y=`, or use confusion='model'")
    maps = plan.calibration
    if is_auto(maps):
        maps = fit_maps(table) if table.has_labels else None
    if isinstance(maps, LabelScaling) and len(maps.a) != table.n_classes:
        raise ValueError(f"calibration has maps of {len(maps.a)} labels, and the table has {table.n_classes}")
    labelled = table.has_labels
    rows = table.label_weight() if labelled else table.mean_probability()
    present = rows > ABSENT
    if not present.any():
        if labelled:
            raise InputError("no row has any label in `y`", "add rows that have labels, or leave `y` out")
        raise InputError(
            f"no label in `proba` has a mean probability above {ABSENT:g}",
            "pass probabilities of labels, which densities and likelihoods are not",
        )
    left = table.n_classes - len(absent)
    if not plan.decisions.positive and plan.decisions.most is not None and plan.decisions.most > left:
        raise InputError(
            f"`decisions={plan.decisions.argument!r}` gives every row so many labels, and only {left} of "
            f"{table.n_classes} are in any row of `y`: those that no row has are never decided",
            f"pass `decisions=('at_most', {plan.decisions.most})`, or a smaller number",
        )
    barred = np.isin(np.arange(len(rows)), absent)
    _warn_of_absent(table, present, barred)
    counted = table.positives() if labelled else table.n_rows * rows
    shares = {"model": np.ones(len(rows)), "labels": np.zeros(len(rows)), "blend": BLENDED / (BLENDED + counted)}
    # nothing but the model speaks of a label that no row has
    share = np.where(present, shares[mode], 1.0).astype(np.float64)
    estimate = Estimate(table, share, maps, barred)
    kept = None if present.all() else tuple(np.flatnonzero(present).tolist())
    metric = label_metrics.sized(replace(plan.metric, classes=kept), table.n_rows)
    limits = None
    if plan.constraints:
        # rows of y judge limits, and of a label that is absent there are none
        true = np.where(present, estimate.rows, 0.0)
        limits = bind_labels(plan.constraints, table.classes, true, _of_one_row(table), absent)
    return LabelTask(plan, metric, table, mode, estimate, maps, counted, limits)


def _of_one_row(table: Table) -> float:
    """Return the share of all weight that the row of least weight has."""
    return table.known.weight_ends[0] / table.weight_total


def _warn_of_absent(table: Table, present: NDArray[np.bool_], barred: NDArray[np.bool_]) -> None:
    absent = [repr(table.classes[k]) for k in np.flatnonzero(~present)[:NAMED]]
    if not absent:
        return
    more = int((~present).sum()) - len(absent)
    named = ", ".join(absent) + (f" and {more} more" if more else "")
    it = "it" if len(absent) == 1 else "them"
    never = f"the rule never decides {it}" if barred.any() else "their decision follows the other labels and the model"
    warn(
        f"no row of {'y' if table.has_labels else 'proba'} has the label{'s' if len(absent) > 1 else ''} {named}: the "
        f"metric leaves such labels out, and {never}"
    )
