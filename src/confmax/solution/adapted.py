"""A solution for rows with other class shares: `Solution.adapt`.

The calibration of the rule is kept, and shifted to the new shares. Then the plan of the solution runs again: on the
tuning rows, each weighted by how much more frequent its class has become, or on the new rows, on the confusion matrix
that their probabilities lead to. Metrics of the recalls alone keep their rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

import numpy as np

from confmax.calibration import Calibration
from confmax.calibration.shifted import before_shift, shifted
from confmax.confusion import Array, Confusion
from confmax.errors import InputError
from confmax.evaluate.protocols import Tuned
from confmax.oracle import make_oracle
from confmax.rule import DecisionRule
from confmax.rule.shifted import corrected_upstream, reads_recalls_alone, shares_from
from confmax.shift.likelihood import worth
from confmax.shift.priors import PriorShift, rows_and_counts, shift_of
from confmax.shift.source import Source, source_of
from confmax.solution.infeasible import or_raise
from confmax.solution.plan import Plan, is_auto
from confmax.tables import Table, make_table
from confmax.tables.columns import warn

S = TypeVar("S", bound=Tuned)

ABSENT = 1e-5  # share below which a class counts as absent
APART = 0.1  # distance of class shares, below which nobody can see that a model was corrected
ROUNDING = 1e-9  # by which a limit is missed that rounding may miss
OLD = "old rule"  # what the rule from before is called among the baselines
DRAWS = (
    "no single rule keeps the limits under the new class shares, so the new rule draws between several by chance; the "
    "old one does not draw"
)
OVERSHOT = 0.1  # by which the mean probabilities of a model that was corrected miss the new shares, once shifted again


def adapt(
    solution: S,
    new_proba: Any,
    *,
    priors: Any,
    tuned_on: Sequence[Any] | None,
    y: Any,
    sample_weight: Any,
    proba_shifted: bool,
) -> S:
    """Return `Solution.adapt`."""
    if new_proba is None and priors is None:
        raise InputError(
            "nothing says what has changed",
            "pass `new_proba=` of new rows, or `priors=`, their class shares",
        )
    if proba_shifted and priors is None:
        raise InputError(
            "`proba_shifted` undoes a known shift", "pass `priors=`, the shares that the model was corrected for"
        )
    held = source_of(solution, tuned_on)
    table = None
    if new_proba is not None:
        table = make_table(new_proba, None, sample_weight, held.classes, stated=True)
    if priors is not None:
        target = shares_from(priors, held.classes)
        return replace(for_shares(solution, held, target, table, proba_shifted=proba_shifted), shift=None)
    assert table is not None
    shift = shift_of(*rows_and_counts(new_proba, y, sample_weight, held), None)
    for sentence in shift.warnings:
        warn(sentence)
    if shift.shrinkage == 0.0:
        return replace(solution, shift=shift)
    return replace(_known_from(for_shares(solution, held, shift.priors, table), held, shift), shift=shift)


def _known_from(found: S, held: Source, shift: PriorShift) -> S:
    """Return a solution whose rule says how well the shares that it is meant for are known: as of an estimate."""
    shares = found.rule.shares
    if shares is None or shares.shifted_to is None or not np.array_equal(shares.meant, shift.priors):
        return found
    rows = 1.0 / (1.0 / held.shares.n_rows + 1.0 / (shift.n_rows + float(shift.labelled.sum())))
    return replace(found, rule=replace(found.rule, shares=replace(shares, n_rows=min(rows, shares.n_rows))))


def for_shares(solution: S, held: Source, target: Array, table: Table | None, *, proba_shifted: bool = False) -> S:
    """Return the solution for rows with class shares ``target`` (K,).

    ``held`` are the shares of the source, with its rows where these are known, and ``table`` holds new rows.
    """
    plan: Plan = solution.plan
    rule = corrected_upstream(solution.rule, target, proba_shifted=proba_shifted)
    calibrator = before_shift(rule.calibrator)
    source = held.shares.meant
    if table is not None and not proba_shifted:
        _warn_if_corrected(table, calibrator, source, target)
    # a class that no row had is decided once it has a share
    absent = tuple(k for k in plan.absent or () if target[k] < ABSENT)
    returned = absent != (plan.absent or ())
    plan = plan.but(absent=absent)
    metric = solution.metric
    M = max(solution.rule.n_decisions, solution.rule.n_classes)
    if not (plan.constraints or plan.abstains or returned) and reads_recalls_alone(metric, len(target), M):
        return replace(solution, rule=rule)
    if held.rows is None and table is None:
        return _without_rows(solution, target, proba_shifted=proba_shifted)
    if plan.confidence is not None:
        raise InputError(
            "the solution keeps limits with a `confidence`, and only labelled rows of the new kind assure that",
            "tune a rule on such rows, or adapt a solution without `confidence`",
        )
    moved = shifted(calibrator, source, target)
    before = None
    if held.rows is None:
        assert table is not None
        rows = table
        found = _tuned(solution, plan.but(confusion="model", calibration=Calibration("given", moved)), table)
        before = _counted(rule, found, table.calibrated(moved))
    else:
        rows = _weighted(held, target)
        confusion = "blend" if plan.confusion == "auto" else plan.confusion
        given = Table.of(replace(rows.head, calibrator=None, raw=None))
        found = _tuned(solution, plan.but(confusion=confusion, calibration=None), given)
        before = _counted(solution.rule, found, rows)
        found = replace(found, rule=replace(found.rule, calibrator=moved))
    # to adapt it once more follows the settings that were given, not those of these rows
    found = replace(found, plan=plan)
    if before is not None:
        found = _beside(found, before, rows)
    shares = replace(
        held.shares.shifted(target),
        n_rows=worth(rows)[0],
        decided=tuple(found.statistics.columns / found.statistics.columns.sum()),
    )
    marked = replace(found.rule, shares=shares, tuned_on=solution.rule.tuned_on)
    if held.rows is not None and before is not None and not plan.constraints and found.baselines[OLD] >= found.value:
        return _with_rule(found, solution.rule, before, rows, rule)
    return or_raise(replace(found, rule=marked), plan.on_infeasible)


def _tuned(solution: S, plan: Plan, table: Table) -> S:
    """Return what a ``plan`` finds on a ``table``, a rule that draws only if the one from before does, or must.

    A rule that draws is not exported, and whoever uses one that does not draw need not expect it.
    """
    if not is_auto(plan.randomized) or solution.rule.is_randomized:
        return cast(S, solution.tuned_by(plan.on(table)))
    single: S = solution.tuned_by(plan.but(randomized=False).on(table))
    if single.infeasibility is None:
        return single
    found: S = solution.tuned_by(plan.on(table))
    if found.infeasibility is None and found.rule.is_randomized:
        warn(DRAWS)
    return found


def _weighted(held: Source, target: Array) -> Table:
    """Return the tuning rows under shares ``target`` (K,), whose classes together weigh as much as these say."""
    assert held.rows is not None
    raw = held.rows.head.calibrated(None)
    assert raw.labels is not None
    before = raw.label_weight()
    lacking = np.flatnonzero((target >= ABSENT) & (before == 0.0))
    if len(lacking):
        raise InputError(
            f"the tuning rows hold no row of {held.classes[lacking[0]]!r}, and its share is {target[lacking[0]]:.3g}",
            "pass `tuned_on=` with rows of this class, or leave it out",
        )
    # no rule is tuned on rows of one class
    least = ABSENT if (target >= ABSENT).sum() < 2 else 0.0
    factor = np.divide(np.where(target >= ABSENT, target, least), before, out=np.zeros_like(target), where=before > 0.0)
    weight = factor[raw.labels] * raw.weights
    table = Table.of(replace(raw, weight=weight, totals=None))
    return table.calibrated(shifted(held.calibrator, held.shares.meant, target))


def _counted(rule: DecisionRule, found: Tuned, rows: Table) -> Confusion | None:
    """Return the confusion of the rule from before on the estimate of a solution ``found`` on ``rows``."""
    if found.statistics.rows.shape != (rows.n_classes,) or rule.groups:
        return None
    oracle = make_oracle(rows, found.mode, model_share=found.model_share)
    return rule.evaluate(oracle, matrix=found.metric.statistics == "matrix" or found.statistics.matrix is not None)


def _beside(found: S, before: Confusion, rows: Table) -> S:
    """Return a solution with the old rule, of confusion ``before``, among its baselines: it may miss a limit there."""
    value = float(found.metric.values(before))
    limits = found.plan.on(rows).limits
    slacks = () if limits is None else limits.slacks(before).tolist()
    missed = tuple(limits.texts[k] for k, slack in enumerate(slacks) if limits is not None and slack < -ROUNDING)
    missed_by = (*found.missed_by, OLD) if missed else found.missed_by
    return replace(found, baselines={**found.baselines, OLD: value}, missed_by=missed_by, missed_before=missed)


def _with_rule(found: S, old: DecisionRule, counted: Confusion, rows: Table, rule: DecisionRule) -> S:
    """Return a solution ``found`` on calibrated ``rows`` with the ``old`` rule, which is ``counted`` there.

    ``rule`` is the old one for probabilities as they come (`corrected_upstream`).
    """
    matrix = found.metric.statistics == "matrix"
    on = {
        mode: float(found.metric.values(old.evaluate(make_oracle(rows, mode), matrix=matrix)))
        for mode in ("labels", "model")
    }
    return replace(
        found,
        rule=rule,
        value=float(found.metric.values(counted)),
        statistics=counted,
        label_value=on["labels"],
        model_value=None if found.model_value is None else on["model"],
        counts=None,
        randomization_loss=None,
    )


def _without_rows(solution: S, target: Array, *, proba_shifted: bool) -> S:
    """Return the solution of a linear metric, whose rule the shares say; no row says what it is worth."""
    plan = solution.plan
    if plan.constraints or plan.abstains or not solution.metric.structure.is_linear:
        why = "limits, and what is left undecided," if plan.constraints or plan.abstains else f"{solution.metric!r}"
        raise InputError(
            f"the best rule for {why} depends on the rows" if not plan.constraints else "limits depend on the rows",
            "pass `tuned_on=(proba, y)`, labelled rows with the old class shares, or `new_proba=` of new rows",
        )
    rule = solution.rule.shifted(target, metric=solution.metric, proba_shifted=proba_shifted)
    unknown: dict[str, Any] = dict.fromkeys(
        ("upper_bound", "label_value", "model_value", "model_upper_bound", "counts")
    )
    return replace(solution, rule=rule, value=float("nan"), baselines={}, randomization_loss=None, **unknown)


def _warn_if_corrected(table: Table, calibrator: Any, source: Array, target: Array) -> None:
    """Warn if the mean probabilities of a raw ``table`` are the ``target`` shares, and not if they are shifted there.

    Those of a model that was not corrected are, once they are shifted.
    """
    if np.abs(target - source).sum() < APART:
        return
    as_given, after = (
        float(np.abs(table.calibrated(one).mean_probability() - target).sum())
        for one in (calibrator, shifted(calibrator, source, target))
    )
    if after > max(2.0 * as_given, OVERSHOT):
        warn(
            "the mean probabilities of these rows are the new class shares already: if the model was corrected for "
            "them, pass `proba_shifted=True`, or the shift counts twice"
        )
