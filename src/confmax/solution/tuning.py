"""`maximize`: from a table of probabilities to the best rule for a metric, with what is known about its optimality.

`maximize` checks what it is given and fits the metric to the table. `tune` then takes three steps: the problem
(calibration, confusion estimate and its oracle, solver, starting rules), the run of the solver, and the solution, which
is what the rule is worth once it is built. Estimators and reports enter at `tune`.

A solution is never worse than the plain rules, ``argmax(p)`` and ``argmax(p / prior)`` on the raw probabilities, which
people use without confmax. Their decisions on raw rows are evaluated on the calibrated estimate. If one
of them is better than the solver's rule, it is returned without a calibrator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from confmax import optimize
from confmax.calibration import Calibration, check_calibration
from confmax.calibration import choose as choose_calibration
from confmax.calibration.blend import model_share
from confmax.calibration.choice import held_out
from confmax.calibration.column_order import doubt_of_order
from confmax.confusion import Array, Confusion, Gains
from confmax.constraints import Limits, bind
from confmax.constraints import resolve as resolve_constraints
from confmax.errors import InputError
from confmax.evaluate.uncertainty import counts_of, decided_by
from confmax.metrics import Metric, resolve
from confmax.metrics.alignment import fit_metric, with_positive
from confmax.metrics.catalogue import refuse_without_limits
from confmax.optimize import Mixture, Outcome, Problem, Progress, Solver
from confmax.optimize.abstaining import first_rules
from confmax.optimize.class_cuts import ClassThreshold, class_of, with_thresholds
from confmax.optimize.loop import WarmStart, declared
from confmax.optimize.path_query import first_gains
from confmax.optimize.warm import with_rules_of_sample
from confmax.oracle import CountingOracle, make_oracle
from confmax.rule import DecisionRule
from confmax.solution.abstaining import abstain_name, with_abstaining
from confmax.solution.confidence import assured, check_confidence
from confmax.solution.grouping import check_groups, groups_of, side_by_side, warn_of_groups
from confmax.solution.infeasible import best_of_closest, check_infeasible, or_raise
from confmax.solution.model_bound import with_model_bound
from confmax.solution.one_class import (
    calibration_of_class,
    expected_by_model,
    for_raw_order,
    kept_on_labels,
    share_of_class,
    uncalibrated,
)
from confmax.solution.result import Solution
from confmax.solution.returned import best_rule, evaluated, refitted, solution_of
from confmax.solution.surprises import warn_of_surprises
from confmax.tables import MemoryTable, Table, make_table
from confmax.tables.columns import column_names, stated_order, warn
from confmax.tables.draws import RandomState, as_seed, is_whole
from confmax.tables.groups import Groups
from confmax.tables.memory import TransferredDecisions
from confmax.tables.normalize import divided
from confmax.tables.partitioned.table import AnyGroups

CONFUSIONS = ("auto", "model", "labels", "blend")
# confusion="auto" where there are labels: benchmarks/RESULTS.md, sections confusion and limits: estimates
WITH_LABELS = "blend"


def maximize(
    metric: str | Metric | Callable[[Array], float],
    proba: ArrayLike,
    y: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    classes: Sequence[Any] | None = None,
    pos_label: Any = None,
    constraints: Any = (),
    on_infeasible: str = "raise",
    confidence: float | None = None,
    abstain: bool | str | int = False,
    group: ArrayLike | None = None,
    group_proba: ArrayLike | None = None,
    normalize: bool = False,
    confusion: str = "auto",
    calibration: Any = "auto",
    solver: Any = "auto",
    randomized: bool | str = "auto",
    tol: float = 1e-6,
    max_passes: int | None = None,
    random_state: RandomState = 0,
    callback: Callable[[Progress], Any] | None = None,
) -> Solution:
    """Return the decision rule that maximises a metric on a table of class probabilities.

    Parameters
    ----------
    metric : str, Metric or callable
        A name from ``confmax.metrics.names()``, for one class with its name in brackets (``"recall[VF]"``), a metric,
        or a function of the confusion matrix (K, M).
    proba : array-like, data frame, torch tensor, scipy.sparse matrix or Dask collection (n, K)
        Class probabilities of rows that the model was not fitted on. A tensor stays on its device. With very many
        classes, pass a sparse matrix that holds only the largest few probabilities of each row, divided by their sum: a
        scan then costs its stored entries and K numbers. The result is that of the dense table without calibration. The
        rows of a Dask array or DataFrame stay on their workers; each pass returns K numbers per partition and gain. For
        two classes also a vector (n,): the probabilities of the second.
    y : array-like (n,), Dask array or Series, name of a column of a Dask DataFrame, or None
        True classes: names or column numbers.
    sample_weight : array-like (n,), Dask array or Series, name of a column of a Dask DataFrame, or None
        Non-negative weights. Only their ratios matter: tests and shrinkage count ``(sum w)^2 / sum w^2`` rows. A weight
        of 2 does not mean that a row was seen twice; repeat the row to say that.
    classes : sequence or None
        Class names in column order. You need them for string labels if the metric depends on the order of the classes.
        The columns of a data frame are matched by name. An ordered ``pandas.Categorical`` as ``y`` also states the
        order.
    pos_label : label or None
        The positive one of two classes, for metrics such as ``f1``; by default the second. The same as
        ``classes=[other, pos_label]`` for columns in that order: the columns of ``proba`` stay where they are.
    constraints : str, Constraint, or sequence of these
        What the rule must keep, such as ``"recall[VF] >= 0.8"`` or ``constraints.rate("L") <= 0.1``
        (`confmax.constraints`). They hold on the confusion estimate used. With "model" it is proved that no rule that
        keeps them is better, or that none keeps them. Linear metrics, ratios, means of the recalls, the smallest
        recall, and macro F1 and its kin can be maximised under constraints.
    on_infeasible : {"raise", "closest"}
        What to do if no rule keeps all constraints: raise `confmax.Infeasible`, or return the rule that misses them
        least.
    confidence : float or None
        How surely the constraints hold on new rows, such as 0.9. A question about one class is tested on all rows; the
        sequences of tests of a precision share the error. Else about half of the rows tune, and the others only
        test: of rules with more and less room to spare, the best one is returned before the first that fails a test. If
        none passes, a warning says so, and how many rows are needed. This needs labels, equal weights, and constraints
        on shares of rows, such as `recall`, `precision`, `rate` and `accuracy`.
    abstain : bool, str or int
        Whether the rule may leave rows undecided, and what it returns for them: True for "abstain" beside names and -1
        beside integers, or a name. The metric and the constraints are then those of the rows that are decided, except
        for ``coverage``, ``rate`` and tables of costs, which speak of all rows. Set a floor on the coverage
        (``"coverage >= 0.8"``, ``"coverage[VF] >= 0.5"``), maximise "coverage" itself with a floor on what is decided
        (``"accuracy >= 0.95"``), or give a table of costs one more column, for what abstaining costs.
    group : array-like (n,), Dask array or Series, name of a column of a Dask or Spark DataFrame, or None
        The group of each row, for constraints that speak of groups, such as ``"min(recall[VF] | group) >= 0.7"``,
        ``"difference(rate[VF] | group) <= 0.02"`` or ``"ratio(rate[VF] | group) >= 0.8"``. The rule then decides every
        group by gains of its own, and `DecisionRule.predict` needs the group of each row.
    group_proba : array-like or data frame (n, G), or None
        In the place of ``group``, the probability of every group for each row: for rules that do not know the group of
        a row. The rule decides all groups alike, by a score that depends on these probabilities, and
        `DecisionRule.predict` needs them. Class and group are taken to be independent given what the model knows.
    normalize : bool
        Whether to divide every row of an array or a data frame by its sum, as for probabilities that were rounded. Then
        pass ``normalize=True`` to `DecisionRule.predict` too. Without it a row whose sum is more than 1e-3 from one is
        refused.
    confusion : {"auto", "model", "labels", "blend"}
        How to estimate the confusion matrix. "model" uses the probabilities themselves: the result has a guarantee, but
        is only as good as their calibration. "labels" counts the labels: unbiased, without a guarantee. "blend"
        averages the two and shrinks the labels toward the model as far as the data agree with the model; it has the
        guarantee of the model, if the probabilities are right (`Solution.model_gap`). "auto" is
        "blend" if there is a ``y``, else "model".
    calibration : {"auto", "temperature", "vector", "matrix", None}, Calibration or object
        How to calibrate the probabilities first, see `confmax.calibration.choose`. "auto" chooses by cross-validated
        log loss if there is a ``y`` and the table is not sparse. None leaves the probabilities unchanged. An object
        with ``fit(proba, y)`` and ``transform(proba)`` is copied and fitted. The ``calibration`` of an earlier solution
        on the same rows is used again, which saves its time. The rule applies the calibration itself.
    solver : "auto", str or solver
        "auto" chooses by the metric's declared structure. ``BayesCG(returns="last")`` is the paper's Algorithm 4 as
        printed.
    randomized : {"auto", True, False}
        Whether the rule may decide at random between several rules. "auto" allows it only if it gains more than 1e-3,
        or if no single rule that keeps all constraints was met; with False, constraints are then infeasible. Of a
        blend, within limits on one class of few rows, a gain in accuracy must be more than noise. A question about one
        class is answered by one threshold, and by a draw only for True.
    tol : float
        Stop when ``gap - randomization_loss`` is at most this (a loss of None counts as zero).
    max_passes : int or None
        Maximum number of scans of the table. The starting rules (for two classes they include the best threshold) and
        the final evaluation are always computed, and a round that takes several scans is finished.
    random_state : int, RandomState, Generator or None
        Seed of a randomised rule's draws, and of folds and samples. None takes a seed from the operating system and
        stores it in the rule, so the rule repeats its draws. Pass ``random_state=rule.seed`` to repeat the tuning.
    callback : callable or None
        Called with a `Progress` after each step. The search stops if it returns a true value.

    Returns
    -------
    Solution
        The rule and what is proved about it. On the estimate used, it is never worse than ``argmax(p)`` and
        ``argmax(p / prior)``, on raw and on calibrated probabilities; only a solver with ``returns="last"`` may return
        a worse rule.

    Raises
    ------
    ValueError
        If the input is invalid. The message says what is wrong, where, and how to correct it.
    Infeasible
        If no rule keeps all constraints: a ValueError, whose ``closest`` is the solution that misses them least.

    Warns
    -----
    UserWarning
        If a class has no weight in ``y`` and the metric divides by its prior; the metric then leaves the class
        out. If no column of a data frame is named like a class; the message shows the class assumed for each
        column. If the log loss of the probabilities is larger than that of the class shares; the columns are
        then probably in another order than the classes. If ``normalize`` divides rows whose sums are more than
        1e-3 from one; the message shows the farthest. If the metric is one of one class that useless
        rules make largest, such as the recall. If the rule never decides a class that the metric or a constraint
        names, or decides less than half as many rows rightly as argmax (not for tables of costs). If the calibrated
        probabilities tell nothing about ``y``; its rows are then probably in another order.

    Examples
    --------
    >>> import confmax
    >>> P = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]]
    >>> solution = confmax.maximize("balanced_accuracy", P, confusion="model")
    >>> solution.predict(P).tolist(), solution.gap < 1e-6
    ([0, 0, 1, 1], True)
    """
    # words and numbers first: the check of a table reads every row
    chosen = resolve(metric)
    seed = as_seed(random_state)
    check_settings(confusion, calibration, randomized, tol=tol, max_passes=max_passes, callback=callback)
    wanted = resolve_constraints(constraints)
    check_infeasible(on_infeasible)
    if confidence is not None:
        check_confidence(confidence, wanted)
    order = stated_order(y, proba) if classes is None else classes
    check_groups(group, group_proba, wanted)
    raw = make_table(divided(proba, normalize), y, sample_weight, order, stated=classes is not None, group=group)
    chosen = with_positive(chosen, raw.classes, pos_label)
    explicit = order is not None or pos_label is not None
    fitted = fit_metric(chosen, raw, explicit=explicit)
    name = abstain_name(abstain, raw.classes, fitted.names and fitted.names[1])
    n_decisions = fitted.n_decisions(raw.n_classes) if name is None else raw.n_classes + 1
    groups = groups_of(group, group_proba, proba, raw, wanted)
    limits = bind(
        wanted,
        raw,
        explicit=explicit,
        pos_label=pos_label,
        n_decisions=n_decisions,
        abstains=name is not None,
        groups=groups,
    )
    fitted = with_abstaining(fitted, raw, limits, name)
    warn_of_groups(groups, raw, limits)
    if limits is None:
        warn_of_trivial(chosen)
    run = tune if confidence is None else partial(assured, tune, confidence=confidence)
    solution = run(
        fitted,
        raw,
        limits=limits,
        abstain=name,
        groups=groups,
        confusion=confusion,
        calibration=calibration,
        solver=solver,
        randomized=randomized,
        tol=tol,
        max_passes=max_passes,
        random_state=seed,
        callback=callback,
    )
    solution = replace(solution, rule=replace(solution.rule, tuned_on=raw.fingerprint()))
    assumed = classes is None and order is not None and column_names(proba) is None
    likely = _in_sorted_order(raw.classes) if assumed else None
    calibrated = None if solution.calibration is None else solution.calibration.log_loss_after
    warn(doubt_of_order(raw, likely=likely, calibrated=calibrated))
    warn_of_surprises(or_raise(solution, on_infeasible), raw, limits, groups)
    return solution


def _in_sorted_order(names: Sequence[Any]) -> list[int]:
    """Return the column of each class if scikit-learn sorted them: an ordered categorical may name another order."""
    return [sorted(names).index(name) for name in names]


def tune(
    metric: Metric,
    raw: Table,
    *,
    out_of_fold: Table | None = None,
    limits: Limits | None = None,
    abstain: Any = None,
    groups: AnyGroups | None = None,
    confusion: str = "auto",
    calibration: Any = "auto",
    solver: Any = "auto",
    randomized: bool | str = "auto",
    tol: float = 1e-6,
    max_passes: int | None = None,
    random_state: int = 0,
    callback: Callable[[Progress], Any] | None = None,
    prove: bool = True,
) -> Solution:
    """Return the solution of `maximize` on a checked table, ``raw``, for a ``metric`` from `fit_metric`.

    If ``raw`` holds a model's probabilities of its own training rows, ``out_of_fold`` holds the labelled out-of-fold
    probabilities of these rows. The calibration and the share of the model in a blend are then chosen on
    ``out_of_fold``, and the solution's ``label_value`` is computed on it. The settings ``confusion``, ``calibration``,
    ``solver``, ``randomized``, ``tol``, ``max_passes``, ``random_state`` and ``callback`` are the checked arguments of
    `maximize`, ``limits`` are its constraints, placed on the table, ``abstain`` is the name of abstaining, and
    ``groups`` are those of the rows. Where only the rule is of use, leave out what the model says of a blend's by
    ``prove=False``. Raise a ValueError if the solver cannot handle the metric or the table. If no rule
    keeps the limits the solution says so; `maximize` raises an error of it.
    """
    mode, calibration, randomized = _prescribed(solver, confusion, calibration, randomized)
    is_default = _is_auto(mode)
    mode = (WITH_LABELS if raw.has_labels else "model") if is_default else mode
    labelled = (raw if out_of_fold is None else out_of_fold).in_memory()
    one_class, limits = _one_class(solver, metric, limits, raw, groups)
    fitted, share = _estimate(raw, labelled, calibration, mode, random_state, one_class)
    table = raw if fitted is None else raw.calibrated(fitted.calibrator)
    metric = metric.finite(raw.n_rows)
    if groups is not None:
        raw, table, metric = side_by_side(raw, table, metric, groups)
    oracle = CountingOracle(make_oracle(table, mode, model_share=share))
    # a solver that sorts all rows or fits the estimate closely is not chosen for parts or for a blend
    method = optimize.choose(
        solver,
        metric,
        table.n_classes,
        metric.n_decisions(table.n_classes),
        exact=oracle.exact,
        blended=mode == "blend",
        in_parts=not table.is_whole,
        limited=limits is not None,
        one_class=one_class is not None,
    )
    if _is_auto(randomized) and not declared(method, "draws"):
        randomized = False
    method.check(metric, table.n_classes, table.n_rows, **({} if limits is None else {"limited": True}))
    problem, plain = _problem(
        method,
        metric,
        raw,
        oracle,
        limits,
        tol=tol,
        max_passes=max_passes,
        certify=mode == "model",
        automatic=_is_auto(solver),
        one_class=one_class is not None,
        wants_single=limits is not None and (randomized is not True or mode != "model"),
    )
    if one_class is None and groups is None and abstain is None:
        problem = with_thresholds(problem)
    outcome = optimize.run(method, with_rules_of_sample(method, problem), callback)
    outcome = outcome if one_class is not None else best_of_closest(problem, outcome, method)
    best, base = best_rule(problem, outcome, plain, randomized, random_state, one_class=one_class is not None)
    solution = solution_of(problem, outcome, best, base, mode, fitted)
    if is_default and mode == "blend" and limits is not None and groups is None and out_of_fold is None:
        beside = None if one_class is None else partial(for_raw_order, fitted, labelled, one_class, random_state)
        solution = _as_labels_say(solution, problem, outcome, fitted, random_state, beside)
    missed_by = tuple(name for name, rule in plain.items() if problem.shortfall(rule.confusion) > 0.0)
    solution = replace(solution, missed_by=missed_by, rule=replace(solution.rule, abstain=abstain))
    if prove:
        met = (outcome.mixture, outcome.single)
        solution = with_model_bound(solution, metric, table, limits, rules=met, max_passes=max_passes)
    return solution if out_of_fold is None else refitted(solution, limits, out_of_fold)


def _prescribed(solver: Any, confusion: str, calibration: Any, randomized: bool | str) -> tuple[str, Any, bool | str]:
    """Return settings in whose place, where they are "auto", those stand that a solver prescribes."""
    settings = {"confusion": confusion, "calibration": calibration, "randomized": randomized}
    prescribed = getattr(solver, "settings", {})
    settings |= {name: value for name, value in prescribed.items() if _is_auto(settings[name])}
    return settings["confusion"], settings["calibration"], settings["randomized"]


def _problem(
    method: Solver,
    metric: Metric,
    raw: Table,
    oracle: CountingOracle,
    limits: Limits | None,
    *,
    tol: float,
    max_passes: int | None,
    certify: bool,
    automatic: bool,
    one_class: bool,
    wants_single: bool,
) -> tuple[Problem, dict[str, Mixture]]:
    """Return the problem for a solver, and the rules that people use without confmax.

    ``automatic`` says that confmax chose the solver, ``one_class`` that it searches thresholds on one class: then
    neither thresholds on two classes nor rules for all classes are of use as a start.
    """
    table = oracle.table
    needs_matrix = "matrix" in (metric.statistics, limits and limits.statistics)
    starts, plain, sample = _starts(
        method,
        metric,
        raw,
        oracle,
        tol,
        automatic=automatic and not one_class,
        matrix=needs_matrix,
        limited=limits is not None and not one_class,
    )
    # the final evaluation is counted too, on labels once more where they are not the estimate
    reserved = 2 if oracle.model_share > 0.0 and table.has_labels else 1
    budget = (optimize.passes_allowed(method, table.n_rows) if max_passes is None else max_passes) - reserved
    n_decisions = metric.n_decisions(table.n_classes)
    problem = Problem(
        metric,
        oracle,
        n_decisions,
        tuple(starts[:1] if one_class else starts),
        budget,
        tol,
        sample,
        limits,
        certify=certify,
        wants_single=wants_single,
    )
    return problem, plain


def _estimate(
    raw: Table, labelled: MemoryTable, calibration: Any, mode: str, seed: int, one_class: int | None
) -> tuple[Calibration | None, float | None]:
    """Return the calibration, and the share of the model in a blend.

    Both are those of ``one_class`` where the metric and the limits read one class alone.
    """
    fitted = choose_calibration(labelled, calibration, seed=seed)
    changes = fitted is not None and fitted.calibrator is not None
    ordered = one_class is not None and changes and _is_auto(calibration)
    if labelled.labels is None or not (ordered or (mode == "blend" and raw.has_labels)):
        return fitted, None
    # on probabilities that were calibrated on the same rows, the model would look better than it is
    honest: Any = labelled
    if fitted is not None:
        honest = held_out(labelled, fitted, seed=seed, given=calibration)[0]
    if ordered and fitted is not None and one_class is not None:
        fitted, honest = calibration_of_class(fitted, honest, one_class, labelled)
    if mode != "blend":
        return fitted, None
    part = 1.0 if honest is raw else min(1.0, honest.n_weighted / raw.n_weighted)
    return fitted, model_share(honest, part) if one_class is None else share_of_class(honest, one_class, part)


def _as_labels_say(
    solution: Solution,
    problem: Problem,
    outcome: Outcome,
    fitted: Calibration | None,
    seed: int,
    beside: Callable[[], Calibration | None] | None,
) -> Solution:
    """Return the rule of one class that keeps the limits on the labels, where there is none on the blend.

    For a metric of this class ``beside`` gives the calibration of the others where its raw probability is compared.
    """
    found = kept_on_labels(problem, outcome, solution)
    if found is None:
        return solution
    table = found.problem.oracle.table
    if fitted is not None and table.calibrator is None:
        fitted = uncalibrated(fitted) if beside is None else beside()
        table = table.calibrated(None if fitted is None else fitted.calibrator)
    best = evaluated(found.problem, table, found.outcome.single, seed)
    again = solution_of(found.problem, found.outcome, best, solution.baselines, "labels", fitted)
    model = best.rule.evaluate(problem.oracle.second_estimate(1.0), matrix=problem.needs_matrix)
    return replace(again, doubt=expected_by_model(found.problem, model, again.constraints))


# --- settings --------------------------------------------------------------------------------------------------------


def check_settings(
    confusion: Any, calibration: Any, randomized: Any, *, tol: Any = 0.0, max_passes: Any = None, callback: Any = None
) -> None:
    """Raise a ValueError for settings of `maximize` that are unknown words or out of range.

    These are ``confusion``, ``calibration``, ``randomized``, ``tol``, ``max_passes`` and ``callback``.
    """
    if confusion not in CONFUSIONS:
        raise ValueError(f"confusion must be one of {', '.join(CONFUSIONS)}; got {confusion!r}")
    check_calibration(calibration)
    if not (isinstance(randomized, (bool, np.bool_)) or (isinstance(randomized, str) and randomized == "auto")):
        raise ValueError(f"randomized must be True, False or 'auto'; got {randomized!r}")
    if not (isinstance(tol, (int, float, np.number)) and tol >= 0 and np.isfinite(tol)):
        raise InputError(f"`tol` must be finite and not negative; got {tol!r}")
    if max_passes is not None and not is_whole(max_passes, 1):
        raise InputError(f"`max_passes` is a positive integer, if it is given; got {max_passes!r}")
    if callback is not None and not callable(callback):
        raise ValueError(f"callback must be a function of the progress, or None; got {callback!r}")


def warn_of_trivial(metric: Metric) -> None:
    """Warn of a ``metric`` of one class that says nothing about the other decisions, so that its optimum is no use.

    Raises
    ------
    ValueError
        If every rule that decides all rows as the class makes the metric largest: for its rate.
    """
    refuse_without_limits(metric)
    if metric.trivial_rule is None:
        return
    name = "" if metric.label is None else f"[{metric.label}]"
    warn(
        f"{metric.name} of one class alone is largest if {metric.trivial_rule}; maximise f1{name} or f_beta{name}, or "
        f"for all classes min_recall, and read {metric.name}{name} with confmax.score"
    )


def _one_class(
    solver: Any, metric: Metric, limits: Limits | None, raw: Table, groups: AnyGroups | None
) -> tuple[int | None, Limits | None]:
    """Return the class that metric and limits are about, and the limits; None where a threshold on it is no answer."""
    named = isinstance(solver, ClassThreshold) or (isinstance(solver, str) and solver in ("auto", "class_threshold"))
    if not named or groups is not None or not (raw.is_whole or limits is not None):
        return None, limits
    k = class_of(metric, limits, raw.n_classes)
    if k is None or limits is None:
        return k, limits
    # a rule that never decides the class is no answer
    return k, replace(limits, kept_by_none=False)


def _is_auto(setting: Any) -> bool:
    return isinstance(setting, str) and setting == "auto"


# --- the run ---------------------------------------------------------------------------------------------------------


def _starts(
    method: Solver,
    metric: Metric,
    raw: Table,
    oracle: CountingOracle,
    tol: float,
    *,
    automatic: bool,
    matrix: bool,
    limited: bool,
) -> tuple[list[Mixture], dict[str, Mixture], WarmStart | None]:
    """Return the starting rules, argmax and p / prior on the raw probabilities, and the result of a sample of rows.

    ``automatic`` says that confmax chose the solver, ``matrix`` whether whole confusion matrices are read, and
    ``limited`` that there are constraints: the best rules of a sample, and thresholds, then say little.
    """
    table = oracle.table
    n_decisions = metric.n_decisions(table.n_classes)
    priors = _priors(table)
    sample = None if limited else optimize.warm_start(method, metric, oracle, n_decisions, tol)
    more = first_rules(metric, priors[0]) if sample is None else sample.rules
    around = first_gains(table.n_rows, table.n_classes, n_decisions) if limited and oracle.exact else None
    if around is not None:
        more = around if more is None else Gains.concatenate([more, around])
    starts = optimize.baselines(oracle, priors, n_decisions, matrix=matrix, more=more)
    plain = starts[: 1 + len(priors)]
    if table is not raw:
        # what people decide without confmax; like the calibration, no scan by the oracle, and so not counted
        on_raw = CountingOracle(TransferredDecisions(raw, oracle))
        plain = optimize.baselines(on_raw, _priors(raw), n_decisions, matrix=matrix)
    automatic_for_two = (
        automatic and not limited and table.n_classes == n_decisions == 2 and method.name != "ThresholdSearch"
    )
    if automatic_for_two and (not table.is_whole or metric.structure.may_draw):
        # of two classes the best single rule is a threshold, and the best mixture draws between two
        starts[:0] = [rule for rule in optimize.best_cut(metric, oracle)[:2] if rule is not None]
    return starts, dict(zip(("argmax", "p/prior", "p/mean(p)"), plain, strict=False)), sample


def _priors(table: Table) -> list[Array]:
    """Return the class sizes to divide by: those of the labels, and the mean probabilities."""
    return [table.label_weight(), table.mean_probability()] if table.has_labels else [table.mean_probability()]


# --- values on labels -------------------------------------------------------------------------------------------------


def value_on_labels(rule: DecisionRule, metric: Metric, table: Table, groups: Groups | None = None) -> float:
    """Return the ``metric`` of a ``rule`` on the labels of a ``table`` of raw probabilities, its rows in ``groups``."""
    if groups is not None:
        # not side by side: a group of the rule may have no row here
        whole = table.in_memory()
        C = counts_of(decided_by(rule, whole, groups), whole)
        return float(metric.values(Confusion.from_matrix(C / C.sum())))
    return float(metric.values(rule.evaluate(make_oracle(table, "labels"), matrix=metric.statistics == "matrix")))
