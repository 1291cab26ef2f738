"""`maximize` for several labels per row: thresholds and budgets, and the solution of what is found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from confmax.calibration.column_order import doubt_of_label_order
from confmax.calibration.words import printable
from confmax.confusion import Array, Confusion
from confmax.constraints import ConstraintOutcome
from confmax.constraints.labels import of_label, place_of
from confmax.constraints.outcomes import on_labels, on_model, outcomes, rounded, without_slack
from confmax.constraints.proportions import counted_rows
from confmax.errors import InputError
from confmax.evaluate.decided import in_rows
from confmax.metrics import labels as label_metrics
from confmax.metrics.labels import is_total
from confmax.metrics.user import refuse_infinite
from confmax.optimize import Status
from confmax.optimize.block_cuts import BlockCuts
from confmax.optimize.cuts import EQUAL
from confmax.optimize.estimate import Estimate
from confmax.optimize.label_limits import Within, best_within
from confmax.optimize.label_thresholds import (
    LabelThresholds,
    best_of_labels,
    drawn_together,
    steadied,
)
from confmax.optimize.loop import MISSED, ROUNDED
from confmax.progress import bar_for, beside
from confmax.rule.labels import LabelRule
from confmax.rule.shares import LabelShares
from confmax.shift.likelihood import worth
from confmax.solution.budgets import Found, Met, best_gains, plain_rules
from confmax.solution.infeasible import or_raise
from confmax.solution.label_task import NAMED, LabelPlan, LabelTask, task_of
from confmax.solution.labels import ESTIMATES, LabelSolution
from confmax.solution.plan import absent_of, is_auto
from confmax.solution.surprises import warn_of_names, warn_of_refuted, warn_of_unwritten
from confmax.tables import Table
from confmax.tables.columns import warn
from confmax.tables.decisions import Decisions
from confmax.tables.frames import columns_of
from confmax.tables.kinds import apart
from confmax.tables.several import dense_table, labels_table

TOGETHER = 10.0  # true rows that the common threshold counts as
TO_MODEL = 20.0  # true rows that the model's thresholds count as


def maximize_labels(
    metric: Any,
    decisions: Decisions,
    proba: Any,
    beside: Mapping[str, Any],
    classes: Sequence[Any] | None,
    **settings: Any,
) -> LabelSolution:
    """Return what `confmax.maximize` does for several labels: y and weights lie ``beside`` the rows."""
    plan = LabelPlan.checked(metric, decisions, **settings)
    proba, named = apart(proba, beside, classes, settings["confusion"])
    table = labels_table(decisions, proba, **named, classes=classes, stated=classes is not None)
    return tune_all_label_rows(replace(plan, columns=columns_of(proba, table, table.classes)), table)


def tune(plan: LabelPlan, table: Table) -> LabelSolution:
    """Return the solution of a plan on a ``table`` of several labels per row; it says if no rule keeps the limits."""
    # what a sparse table leaves out has no place among cuts
    by_cuts = plan.constraints and not plan.by_gains and table.is_truncated
    dense = dense_table(table, "a limit on several labels") if by_cuts else table
    # what is called in this process need not be there in another that reads the solution
    settings = replace(plan, progress=False, callback=None)
    with bar_for(plan.progress, f"tuning for {printable(repr(plan.metric))}", "passes") as bar:
        if bar is not None:
            plan = replace(plan, callback=beside(bar, plan.callback), progress=False)
        task = task_of(plan, dense)
        solution = solve(task)
        if dense is not table:
            refuse_unstored(table, solution.rule)
        if bar is not None:
            bar.solved(solution.n_passes, solution.value)
        return replace(solution, plan=replace(settings, absent=task.plan.absent), tuned_by=tune)


def tune_all_label_rows(plan: LabelPlan, table: Table) -> LabelSolution:
    """Return the solution of a plan on the rows that a caller has, with a warning of columns in another order.

    `Infeasible` is raised if no rule keeps the limits, unless the plan wants the closest one.
    """
    warn_of_names(table.classes)
    solution = tune(plan, table)
    warn(doubt_of_label_order(table))
    warn_of_unwritten(or_raise(solution, plan.on_infeasible))
    warn_of_refuted(solution)
    return solution


def refuse_unstored(table: Table, rule: LabelRule) -> None:
    """Refuse, by a ValueError, a ``rule`` that decides labels where a sparse ``table`` stores nothing.

    Limits are searched on a dense table, and what they say of such a rule would be false of the sparse rows.
    """
    if not table.is_truncated:
        return
    always = rule.predict(np.zeros((1, rule.n_classes)))[0] == 1
    stored = np.bincount(table.head.proba.indices, minlength=rule.n_classes)
    wrong = np.flatnonzero(always & (stored < table.n_rows))
    if len(wrong):
        raise InputError(
            f"the best thresholds within the limits give every row the label {rule.class_names[wrong[0]]!r}, and on "
            f"sparse rows it is never decided where `proba` does not store it",
            "pass `proba` as an array, or other limits",
        )


def solve(task: LabelTask, free: Free | None = None, met: Met | None = None) -> LabelSolution:
    """Return the solution of a ``task``; the ``free`` thresholds are those of the same rows without limits.

    Rules that were ``met`` at other levels of its limits are where a search starts, and the new ones are kept there.
    """
    if task.plan.by_gains:
        best, found = best_gains(task, met or Met())
    else:
        best, found = best_thresholds(task, free or free_thresholds(task))
    plain = plain_rules(task)
    counted = task.counted([best, *plain.values()])
    values = [float(task.metric.values(statistics)) for statistics in counted]
    # no rule that people have without confmax is better on the estimate, unless it misses a limit
    kept = [task.limits is None or bool((slacks_of(task, S) >= 0.0).all()) for S in counted]
    fit = [keeps and _is_shown(task, value, found) for keeps, value in zip(kept, values, strict=True)]
    k = max(range(len(counted)), key=lambda k: (fit[k], values[k] if fit[k] else -k))
    refuse_infinite(task.plan.metric, values[k])
    missed = tuple(name for name, keeps in zip(plain, kept[1:], strict=True) if not keeps)
    baselines = dict(zip(plain, values[1:], strict=True))
    return replace(finished(task, [best, *plain.values()][k], counted[k], found, baselines), missed_by=missed)


def on_some_label_rows(plan: LabelPlan, table: Table) -> Callable[[Any, Mapping[str, Any]], LabelSolution]:
    """Return a function of rows (n,) of a table with labels and of settings: what the plan finds on them with these.

    None are all rows.
    """
    plan = replace(plan, absent=absent_of(table))

    def solve(rows: Any, settings: Mapping[str, Any]) -> LabelSolution:
        part = table if rows is None else Table.of(table.head.take(rows))
        wanted = replace(plan, **settings)
        return or_raise(tune(wanted, part), wanted.on_infeasible)

    return solve


def _is_shown(task: LabelTask, value: float, found: Found) -> bool:
    """Return whether enough rows show that a rule of this ``value``, which keeps the limits, is one of those searched.

    One above their bound keeps a precision by labels of few rows.
    """
    if task.plan.by_gains or task.limits is None:
        return True
    return found.most is not None and value <= found.most + EQUAL


@dataclass(frozen=True, eq=False)
class Free:
    """Thresholds without limits: the best ones on the estimate, those on the model, and protected ones (L,).

    ``cuts`` are those of labels that limits have asked for.
    """

    most: LabelThresholds
    model: LabelThresholds
    drawn: Array
    cuts: BlockCuts


def free_thresholds(task: LabelTask) -> Free:
    """Return the thresholds of a ``task`` without its limits."""
    most = thresholds_of(task, task.estimate)
    model = most if task.mode == "model" else thresholds_of(task, task.estimate.with_share(1.0))
    drawn = task.estimate.allowed(protected(task, most, model))
    return Free(most, model, drawn, BlockCuts(task.estimate))


def best_thresholds(task: LabelTask, free: Free) -> tuple[LabelRule, Found]:
    """Return the rule of thresholds, one for each label, and the largest values of such rules."""
    most, model, drawn = free.most, free.model, free.drawn
    if task.limits is None:
        rule = LabelRule.from_thresholds(drawn, **task.settings)
        return rule, Found(most.most, model.most, alone=most.values, n_passes=task.estimate.n_passes)
    within = best_within(task.metric, task.limits, most, free.cuts, together=bool(is_protected(task)))
    rule = LabelRule.from_thresholds(within.near(drawn, most.values), **task.settings)
    # without limits the model's bound is one within limits too
    model_most = within.most if task.mode == "model" else model.most
    why = None if within.most is not None else out_of_reach(task, within)
    passes = task.estimate.n_passes
    prices = None if why else within.prices
    return rule, Found(within.most, model_most, alone=within.values, n_passes=passes, prices=prices, infeasibility=why)


def out_of_reach(task: LabelTask, within: Within) -> str:
    """Return in a sentence which limits no thresholds keep, and how far the first ones that fail can be met."""
    limits = task.limits
    assert limits is not None
    first = within.reached[0]
    about = [j for j, one in enumerate(limits.constraints) if first.label is not None and place_of(one) == first.label]
    common = is_total(task.metric) and is_protected(task)
    who = "no threshold of all labels keeps" if common else "no thresholds keep"
    if first.label is not None:
        who = f"no threshold of the label {task.table.classes[first.label]!r} keeps"
    texts = [limits.texts[j] for j in about or range(len(limits.texts))]
    parts = [one for one in within.reached if one.label == first.label][:NAMED]
    said = []
    for one in parts:
        limit = limits.constraints[one.constraint]
        what = limit.across.text(limit.metric, limit.sense)
        at = f"at {'most' if limit.is_floor else 'least'} "
        few = ""
        if not np.isnan(one.few):
            on = "1 row, which shows" if one.rows == 1 else f"{one.rows} rows, which show"
            few = f"{at}{one.few:.3g} on {on} too little, and "
        said.append(f"{what} is {few}{'' if one.nearest else at}{one.value:.3g}{' at the nearest' * one.nearest}")
    beside = " within the other limits" if len(texts) > 1 and not parts[0].nearest else ""
    least = shown_by(task, first.label)
    where = f" where the model or {least} rows show a precision" if least > 1 else ""
    return f"{who} {', '.join(texts[:NAMED])}: on {ESTIMATES[task.mode]}, {' or '.join(said)}{beside}{where}"


def shown_by(task: LabelTask, label: int | None = None) -> int:
    """Return how many rows must get a ``label`` for a blend to count a floor on its precision that the model misses.

    None are all labels. It is one where other thresholds count as well.
    """
    if task.mode != "blend" or task.limits is None or task.plan.by_gains:
        return 1
    return (task.limits if label is None else of_label(task.limits, label)).least_rows


def not_met(task: LabelTask) -> str:
    """Return in a sentence that the search met no thresholds that keep the limits of a task."""
    listed = ", ".join(task.limits.texts[:NAMED]) if task.limits is not None else ""
    return f"no thresholds that keep {listed} were met, and none was proved impossible"


def outcomes_of(
    task: LabelTask, S: Confusion, labels: Confusion | None, model: Confusion, prices: Array | None
) -> tuple[ConstraintOutcome, ...]:
    """Return what became of the limits of a task at a rule, by its statistics on the estimate, labels and model."""
    if task.limits is None:
        return ()
    rounding = rounding_of(task)
    found = on_model(outcomes(task.limits, S, None, S, rounding=rounding), task.limits, model, rounding=rounding)
    if labels is not None:
        found = on_labels(found, task.limits, labels, counted_rows(task.table), task.table.classes)
    if prices is None:
        return found
    known = [None if np.isnan(price) else float(price) for price in prices]
    found = tuple(replace(one, price=price) for one, price in zip(found, known, strict=True))
    return without_slack(found, task.limits, S, task.table.n_rows)


def rounding_of(task: LabelTask) -> float:
    """Return by how much a limit may be missed that counts as met, as `confmax.optimize.Problem.rounding`."""
    return MISSED if task.table.dtype == np.float64 else ROUNDED


def slacks_of(task: LabelTask, S: Confusion) -> Array:
    """Return by how much each limit of a task is kept at the statistics ``S``, up to rounding."""
    assert task.limits is not None
    return rounded(task.limits.slacks(S), rounding_of(task))


def thresholds_of(task: LabelTask, estimate: Estimate) -> LabelThresholds:
    """Return the best thresholds on an estimate."""
    return best_of_labels(task.metric, estimate)


def is_protected(task: LabelTask) -> bool | float:
    """Return whether thresholds are drawn together, or how many true rows the others count as."""
    strength = task.plan.shrinkage
    # who asks for one estimate by name gets what is best on it
    return is_auto(task.plan.confusion) and task.mode == "blend" if is_auto(strength) else strength


def protected(task: LabelTask, most: LabelThresholds, model: LabelThresholds) -> Array:
    """Return thresholds (L,) that hold on new rows, between the best ones and ones that few rows cannot move.

    The latter are, of means of scores such as F1, one for all labels, since the best threshold of a label is half of
    its best score; of other means those of the ``model``. Ratios of sums over labels have few numbers to choose.
    """
    strength = is_protected(task)
    alike = label_metrics.is_f_like(task.metric)
    if strength is True:
        strength = TOGETHER if alike else TO_MODEL
    if not strength or most.common is None:
        return most.values
    if not alike:
        return drawn_together(most.values, model.values, task.positives, float(strength))
    own = steadied(task.metric, task.estimate, most, task.positives, task.plan.random_state)
    return drawn_together(own, np.full(len(own), most.common), task.positives, float(strength))


def finished(
    task: LabelTask, rule: LabelRule, statistics: Confusion, found: Found, baselines: dict[str, float]
) -> LabelSolution:
    """Return the solution of a ``rule`` with these ``statistics``, and with what its search ``found``."""
    table = task.table
    value = float(task.metric.values(statistics))
    on_labels = task.counted([rule], 0.0)[0] if table.has_labels else None
    on_model = statistics if task.mode == "model" else task.counted([rule], 1.0)[0]
    model_value = float(task.metric.values(on_model))
    outcomes = outcomes_of(task, statistics, on_labels, on_model, found.prices)
    kept = all(one.kept_on_estimate for one in outcomes)
    # of thresholds, labels of few rows may not show that a limit is kept
    why = None if kept and task.plan.by_gains else found.infeasibility or (None if kept else not_met(task))
    shares = LabelShares(
        tuple(np.clip(task.estimate.mean, 0.0, 1.0).tolist()),
        worth(table)[0],
        tuple(np.clip(statistics.columns, 0.0, 1.0).tolist()),
        task.maps,
    )
    return LabelSolution(
        rule=replace(rule, tuned_on=table.fingerprint(), shares=shares),
        value=value,
        upper_bound=None if found.most is None or why else float(max(found.most, value)),
        randomization_loss=0.0 if found.drawn is None else max(0.0, found.drawn - value),
        status=Status.INFEASIBLE if why and found.infeasibility and not task.plan.by_gains else found.status,
        n_passes=found.n_passes,
        history=found.history,
        statistics=statistics,
        label_value=None if on_labels is None else float(task.metric.values(on_labels)),
        baselines=baselines,
        metric=task.metric,
        mode=task.mode,
        model_share=float(task.estimate.share.mean()),
        calibration=task.maps,
        model_value=model_value,
        model_upper_bound=None if found.model_most is None else float(max(found.model_most, model_value)),
        counted=on_labels or statistics,
        counts=None if on_labels is None else in_rows(on_labels, table, *[rule.class_names] * 2),
        positives=task.positives if table.has_labels else None,
        alone=found.alone,
        constraints=outcomes,
        infeasibility=why,
        shown_by=shown_by(task),
    )
