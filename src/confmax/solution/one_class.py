"""Questions about one class: the order of its rows, and what labels say where the model has no rule.

A metric of one class within limits on the same class asks for a threshold on p of this class. `ClassThreshold` finds it
on any estimate. Two things are special to such questions. The order of the rows is that of the raw or of the calibrated
p, whichever has the smaller loss on rows that were left out of the calibration: a calibration for all classes may
blur one of them. The class then keeps its raw probability, and the others are calibrated if more of the left-out rows
are right by that. And matrices and vectors flatten the largest p of a rare class, so that the model expects a lower
precision than the labels show. In the default mode the labels are then asked for one threshold. It must decide so many
rows that a rule which misses the limit would keep it by chance on all of them in one sample of ten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from confmax.calibration import Calibration, MatrixScaling, Scaling, VectorScaling, choose, log_loss
from confmax.calibration.calibrators import kept_class
from confmax.calibration.choice import held_out
from confmax.confusion import Confusion, Gains
from confmax.constraints import Constraint, ConstraintOutcome, Limits
from confmax.evaluate.protocols import NOT_ASSURED, Tuned
from confmax.optimize import Mixture, Outcome, Problem, Status
from confmax.optimize.auto import class_of
from confmax.optimize.class_cuts import gains_of_cuts, thresholds_beside
from confmax.optimize.cuts import Cuts, kept
from confmax.optimize.estimate import Estimate, right_beside, two_columns
from confmax.optimize.loop import MISSED
from confmax.oracle import CountingOracle
from confmax.tables import Part, Table
from confmax.tables.kinds import sharing_rest

TINY = 1e-300  # what a sum of probabilities is at least, where it divides


# --- the order of the rows --------------------------------------------------------------------------------------------


def calibration_of_class(fitted: Calibration, left_out: Table, k: int, labelled: Table) -> tuple[Calibration, Table]:
    """Return a calibration, or none, by the loss of "class k or not" on left-out rows, and these rows under it.

    A threshold reads the order of the rows alone, so both orders are compared after a calibration of their own, by
    vector scaling of the two columns. Where the raw order is better the class keeps its probability. ``fitted`` was
    chosen for all classes on the rows ``labelled``; ``left_out`` are rows under fits without them, over the raw ones
    (`held_out`).
    """
    rows = left_out.head
    if fitted.calibrator is None or rows.raw is None:
        return fitted, left_out
    raw, calibrated = (_loss_of_order(replace(rows, proba=each.proba), k) for each in (rows.raw, rows))
    if calibrated is None or raw is None or calibrated < raw:
        return fitted, left_out
    return _beside(fitted, left_out, k, labelled), Table.of(rows.raw)


def for_raw_order(fitted: Calibration | None, labelled: Table, k: int, seed: int) -> Calibration | None:
    """Return a calibration that leaves class ``k`` its raw probability, or none where the others are as often right.

    ``fitted`` was chosen for all classes on the rows ``labelled``. The decisions are compared on left-out rows of the
    folds of `held_out`, which ``seed`` makes.
    """
    if fitted is None:
        return None
    # a temperature keeps the order of the classes; what the caller passed may be anything
    if fitted.kind not in ("vector", "matrix"):
        return uncalibrated(fitted)
    if isinstance(fitted.calibrator, Scaling):
        # in the calibration of an earlier solution another class may keep its probability
        fitted = replace(fitted, calibrator=fitted.calibrator.keeping(None))
    return _beside(fitted, held_out(labelled, fitted, seed=seed), k, labelled)


def _beside(fitted: Calibration, left_out: Table, k: int, labelled: Table) -> Calibration:
    """Return `for_raw_order` from rows that were left out of the calibration."""
    rows = left_out.head
    raw = rows.raw
    calibrator = fitted.calibrator
    assert raw is not None
    if not isinstance(calibrator, (VectorScaling, MatrixScaling)):
        return uncalibrated(fitted)
    before, after = (
        float(np.average(right_beside(replace(raw, proba=each.proba), k, 0.0), weights=raw.weight))
        for each in (raw, rows)
    )
    if after <= before:
        return uncalibrated(fitted)
    kept = calibrator.keeping(k)
    out = rows.proba.copy()
    out[:, k] = 0.0
    out /= np.maximum(out.sum(axis=1, keepdims=True), TINY)
    sharing_rest(out, raw.proba[:, k], k)
    losses = {**fitted.cv_log_loss, fitted.kind: log_loss(Table.of(replace(raw, proba=out)))}
    return replace(
        fitted,
        calibrator=kept,
        for_counts=fitted.for_counts or calibrator,
        log_loss_after=log_loss(labelled.calibrated(kept)),
        cv_log_loss={name: loss for name, loss in losses.items() if loss is not None},
    )


def uncalibrated(fitted: Calibration) -> Calibration:
    """Return a calibration that leaves the probabilities as they are, with what was compared."""
    full = fitted.for_counts or fitted.calibrator
    return replace(fitted, kind="none", calibrator=None, log_loss_after=fitted.log_loss_before, for_counts=full)


def _loss_of_order(table: Part, k: int) -> float | None:
    """Return the log loss in nats of "class k or not" on left-out rows; None if there are too few."""
    found = choose(Table.of(two_columns(table, k)), "vector")
    return None if found is None else found.cv_log_loss_after


# --- what labels say where the model has no rule ----------------------------------------------------------------------


class OnLabels(NamedTuple):
    """A rule that keeps on the labels what it misses on the model's estimate, and the problem that it solves."""

    problem: Problem
    outcome: Outcome


def kept_on_labels(problem: Problem, outcome: Outcome, solution: Tuned) -> OnLabels | None:
    """Return the best threshold of one class that keeps all limits on the labels; None if there is none, or no need.

    There is a need where a limit is missed, where it is kept by deciding no row as its class, and where a threshold
    that keeps a precision on the labels is better there than the rule that keeps it on the estimate: ``solution``, the
    result of the run. Thresholds on the raw and on the calibrated probability are compared.
    """
    limits = problem.limits
    table = problem.oracle.table
    assert limits is not None
    about = [one for one in limits.constraints if one.metric.class_place is not None]
    k = replace(limits, constraints=tuple(about)).only_class
    abstains = problem.n_decisions != table.n_classes
    if k is None or abstains or not table.has_labels:
        return None
    return table.sorting(lambda: _kept_on_labels(problem, outcome, solution, limits, k), None)


def _kept_on_labels(problem: Problem, outcome: Outcome, solution: Tuned, limits: Limits, k: int) -> OnLabels | None:
    # groups side by side have shares of their own, and their rows are not compared with each other
    if problem.oracle.model_share == 0.0:
        return None
    table = problem.oracle.table
    about = [one for one in limits.constraints if one.metric.class_place is not None]
    of_one = class_of(problem.metric, limits, table.n_classes) is not None
    missed = not solution.feasible_on_estimate
    of_decided = any(one.metric.formula.side == "decided" for one in about)
    if not (missed or any(one.vacuous for one in solution.constraints) or (of_one and of_decided)):
        return None
    # on the estimate, too, where only a precision is in doubt
    others = [] if missed else [one for one in about if one.metric.formula.side != "decided"]
    tables = [table.calibrated(None), table]
    if table.calibrator is None or kept_class(table.calibrator) == k:
        # the order of the rows is that of the raw probability
        tables = [table]
    every = [_best_threshold(problem, one, k, about, others, solution.rule.gains) for one in tables]
    found = max((one for one in every if one is not None), key=lambda one: one.merit, default=None)
    if found is None or (not missed and _is_no_better(found, solution, k)):
        return None
    ended = replace(
        outcome,
        mixture=found.rule,
        single=found.rule,
        upper_bound=None,
        status=Status.ON_LABELS,
        multipliers=None,
        prices=None,
    )
    return OnLabels(replace(found.problem, starts=(found.rule,)), ended)


class _Found(NamedTuple):
    """A threshold that keeps the limits on the labels, the problem on the labels, and what it is compared by."""

    rule: Mixture
    problem: Problem
    merit: float


def _is_no_better(found: _Found, solution: Tuned, k: int) -> bool:
    """Whether a threshold is worth no more on the labels than the rule that keeps the limits on the estimate.

    Values that differ by less than a standard error of a share of class ``k`` count as equal: the rule stays that both
    estimates support. A rule that never decides the class keeps a precision: it is left for one that is as good.
    """
    value = found.problem.value(found.rule.confusion)
    table = found.problem.oracle.table
    assert solution.label_value is not None
    if any(one.vacuous for one in solution.constraints):
        return value < solution.label_value
    n = max(1.0, float(table.label_weight()[k]) * table.n_weighted)
    return value <= solution.label_value + float(np.sqrt(max(value * (1.0 - value), 0.0) / n))


def _best_threshold(
    problem: Problem, table: Table, k: int, about: Sequence[Constraint], others: Sequence[Constraint], rule: Gains
) -> _Found | None:
    """Return the best threshold on the probabilities of a table that keeps the limits on the labels.

    The limits ``about`` the class ``k`` are those of one class; ``others`` of them hold on the estimate, too.
    """
    limits = problem.limits
    assert limits is not None
    oracle = CountingOracle(table.oracle(0.0), counter=problem.oracle, barred=problem.oracle.barred)
    on_labels = replace(problem, oracle=oracle, limits=replace(limits, kept_by_none=False), certify=False, sample=None)
    cuts = Cuts.of(Estimate.alike(table.sample, 0.0).one_class(k))
    # an answer that never decides the class is none
    of_class = replace(limits, constraints=tuple(about), kept_by_none=False)
    allowed = kept(cuts, of_class.of_class(1, 2)) & (cuts.rows >= of_class.least_rows)
    if not allowed.any():
        return None
    gains = _candidates(on_labels, cuts, allowed, k, rule)
    answers = on_labels.ask(gains)
    estimate = problem.oracle.decided_by(table.calibrator).maximize(gains, matrix=problem.needs_matrix)
    possible = np.array([on_labels.shortfall(answers[i]) == 0.0 for i in range(len(gains))])
    if others:
        held = replace(limits, constraints=tuple(others))
        possible &= (held.slacks(estimate) >= -MISSED).all(axis=-1)
    if not possible.any():
        return None
    # labels of few rows say less of all classes than the blend, which compares what the labels allow
    judge = answers if len(gains) == 1 else estimate
    values = np.where(possible, np.nan_to_num(problem.metric.values(judge), nan=-np.inf), -np.inf)
    best = int(np.argmax(values))
    return _Found(Mixture.single(gains[best], answers[best]), on_labels, float(values[best]))


def _candidates(problem: Problem, cuts: Cuts, allowed: NDArray[np.bool_], k: int, rule: Gains) -> Gains:
    """Return gains (B) that decide class ``k`` by one of the allowed thresholds, and the others in several ways."""
    table = problem.oracle.table
    if class_of(problem.metric, problem.limits, table.n_classes) is None:
        return thresholds_beside(cuts, np.flatnonzero(allowed), k, table, [rule] if len(rule) == 1 else [])
    values = problem.metric.of_class(1, 2).values(cuts.confusions)
    best = cuts.among(allowed).best(values, problem.tol / 2.0)
    return gains_of_cuts(cuts, [best], k, table.n_classes, table.dtype)


def expected_by_model(problem: Problem, S: Confusion, kept: Sequence[ConstraintOutcome]) -> str:
    """Return in a sentence which limits a rule keeps on labels alone, and what the model expects of it.

    ``S`` is the rule's confusion on the model, ``kept`` what became of the limits on the labels.
    """
    limits = problem.limits
    assert limits is not None
    values = limits.values(S)
    slacks = limits.untested.slacks(S)
    said = []
    for one, value, slack in zip(kept, values, slacks, strict=True):
        if slack >= 0.0:
            continue
        shown = f"{one.text} is kept on the labels"
        if one.label_rows and one.label_value is not None:
            shown = f"{one.text} is kept by {round(one.label_value * one.label_rows)} of {one.label_rows} tuning rows"
        said.append(f"{shown}, and the model expects {value:.2g}")
    return f"{'; '.join(said)}; {NOT_ASSURED}" if said else NOT_ASSURED
