"""`maximize`: from a table of probabilities to the best rule for a metric, with what is known about its optimality."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from confmax.calibration import Calibration, check_calibration
from confmax.calibration import choose as choose_calibration
from confmax.calibration.blend import model_share
from confmax.calibration.choice import held_out
from confmax.calibration.column_order import doubt_of_order
from confmax.confusion import MAX_MATRIX_CLASSES, Array, Confusion
from confmax.metrics import Metric, resolve
from confmax.metrics.alignment import aligned, extra_names, fit_metric, with_positive
from confmax.optimize import (
    Mixture,
    Outcome,
    Problem,
    Progress,
    Status,
    baselines,
    best_cut,
    choose,
    passes_allowed,
    run,
    warm_start,
)
from confmax.oracle import CountingOracle, make_oracle
from confmax.rule import DecisionRule
from confmax.solution.result import Solution
from confmax.tables import Table, TransferredDecisions, make_table
from confmax.tables.columns import column_names, stated_order, warn
from confmax.tables.precision import held
from confmax.tables.seed import RandomState, as_seed

__all__ = ["Solution", "aligned", "check_settings", "fit_metric", "maximize", "tune", "value_on_labels",
           "warn_of_trivial"]  # fmt: skip

CONFUSIONS = ("auto", "model", "labels", "blend")
WITH_LABELS = "blend"  # confusion="auto" where there are labels: benchmarks/RESULTS.md, section confusion
RANDOMIZED_ABOVE = 1e-3  # randomized="auto": what a deterministic rule may cost


def maximize(
    metric: str | Metric | Callable[[Array], float],
    proba: ArrayLike,
    y: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    classes: Sequence[Any] | None = None,
    pos_label: Any = None,
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
        rows of a Dask array or DataFrame stay on their workers; each pass returns K numbers per partition and gain.
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
    confusion : {"auto", "model", "labels", "blend"}
        How to estimate the confusion matrix. "model" uses the probabilities themselves: the result has a guarantee, but
        is only as good as their calibration. "labels" counts the labels: unbiased, without a guarantee. "blend"
        averages the two and shrinks the labels toward the model as far as the data agree with the model. "auto" is
        "blend" if there is a ``y``, else "model".
    calibration : {"auto", "temperature", "vector", None} or object
        How to calibrate the probabilities first, see `confmax.calibration.choose`. "auto" chooses by cross-validated
        log loss if there is a ``y`` and the table is not sparse. None leaves the probabilities unchanged. An object
        with ``fit(proba, y)`` and ``transform(proba)`` is copied and fitted. The rule applies the calibration itself.
    solver : "auto", str or solver
        "auto" chooses by the metric's declared structure. ``BayesCG(returns="last")`` is the paper's Algorithm 4 as
        printed.
    randomized : {"auto", True, False}
        Whether the rule may decide at random between several rules. "auto" allows it only if it gains more than 1e-3.
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

    Warns
    -----
    UserWarning
        If a class has no weight in ``y`` and the metric divides by its prior; the metric then leaves the class out. If
        no column of a data frame is named like a class; the message shows the class assumed for each column. If the log
        loss of the probabilities is larger than that of the class shares; the columns are then probably in another
        order than the classes. If the metric is the recall, specificity or precision of one class, which useless rules
        make largest.

    Examples
    --------
    >>> import confmax
    >>> P = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]]
    >>> solution = confmax.maximize("balanced_accuracy", P, confusion="model")
    >>> solution.predict(P).tolist(), solution.gap < 1e-6
    ([0, 0, 1, 1], True)
    """
    chosen, seed = resolve(metric), as_seed(random_state)
    check_settings(confusion, calibration, randomized, tol=tol, max_passes=max_passes)
    _check_callback(callback)
    raw, explicit, sorted_maybe = _raw_table(proba, y, sample_weight, classes)
    chosen, explicit = with_positive(chosen, raw.classes, pos_label), explicit or pos_label is not None
    fitted = fit_metric(chosen, raw, explicit=explicit)
    warn_of_trivial(chosen)
    solution = tune(
        fitted, raw, confusion=confusion, calibration=calibration, solver=solver,
        randomized=randomized, tol=tol, max_passes=max_passes, random_state=seed, callback=callback,
    )  # fmt: skip
    _warn_of_order(raw, solution.calibration, sorted_maybe=sorted_maybe)
    return solution


def tune(
    metric: Metric,
    raw: Table,
    *,
    out_of_fold: Table | None = None,
    confusion: str = "auto",
    calibration: Any = "auto",
    solver: Any = "auto",
    randomized: bool | str = "auto",
    tol: float = 1e-6,
    max_passes: int | None = None,
    random_state: int = 0,
    callback: Callable[[Progress], Any] | None = None,
) -> Solution:
    """Return the solution of `maximize` on a checked table, ``raw``, for a ``metric`` from `fit_metric`.

    If ``raw`` holds a model's probabilities of its own training rows, ``out_of_fold`` holds the labelled out-of-fold
    probabilities of these rows. The calibration and the share of the model in a blend are then chosen on
    ``out_of_fold``, and the solution's ``label_value`` is computed on it. The settings ``confusion``, ``calibration``,
    ``solver``, ``randomized``, ``tol``, ``max_passes``, ``random_state`` and ``callback`` are the checked arguments of
    `maximize`. Raise a ValueError if the solver cannot handle the metric or the table.
    """
    chosen, judged = metric.finite(raw.n_rows), raw.in_memory() if out_of_fold is None else out_of_fold
    confusion, calibration, randomized = _as_solver_says(solver, confusion, calibration, randomized)
    found = choose_calibration(judged, calibration, seed=random_state)
    mode, oracle = _estimate(raw, judged, found, confusion, calibration, seed=random_state)
    table = oracle.table
    n_decisions = chosen.n_decisions(table.n_classes)
    ways = {"exact": oracle.exact, "blended": mode == "blend"}
    in_parts = not table.is_whole
    method = choose(solver, chosen, table.n_classes, n_decisions, in_parts=in_parts, **ways)
    method.check(chosen, table.n_classes, table.n_rows)
    matrix = chosen.statistics == "matrix"
    priors = _priors(table)
    sample = warm_start(method, chosen, oracle, n_decisions, tol)
    starts = baselines(oracle, priors, n_decisions, matrix=matrix, more=None if sample is None else sample.rules)
    plain = starts[: 1 + len(priors)]
    if table is not raw:
        # what people decide without confmax; like the calibration, no scan by the oracle, and so not counted
        plain = baselines(CountingOracle(TransferredDecisions(raw, oracle)), _priors(raw), n_decisions, matrix=matrix)
    two = table.n_classes == n_decisions == 2
    if solver == "auto" and two and method.name != "ThresholdSearch" and (in_parts or chosen.structure.may_draw):
        # of two classes the best single rule is a threshold, and the best mixture draws between two
        starts[:0] = [rule for rule in best_cut(chosen, oracle)[:2] if rule is not None]
    # the final evaluation is counted too, on labels once more where they are not the estimate
    reserved = 2 if mode != "labels" and table.has_labels else 1
    budget = (passes_allowed(method, table.n_rows) if max_passes is None else max_passes) - reserved
    problem = Problem(chosen, oracle, n_decisions, tuple(starts), budget, tol, sample)
    outcome = run(method, problem, callback)
    solution = _finish(chosen, table, oracle, outcome, plain, randomized=randomized, seed=random_state, tol=tol)
    if mode == "blend":
        # the labels are in it, whatever their share: nothing is proved
        status = Status.FINISHED if solution.status is Status.CONVERGED else solution.status
        solution = replace(solution, mode=mode, upper_bound=None, status=status)
    if out_of_fold is not None:
        value = value_on_labels(solution.rule, chosen, out_of_fold)
        solution = replace(solution, label_value=value, tuned_on="refit")
    return replace(solution, calibration=found)


def _as_solver_says(solver: Any, confusion: Any, calibration: Any, randomized: Any) -> tuple[Any, Any, Any]:
    """Return the settings of `maximize`, with those that a solver prescribes in the place of "auto"."""
    given = {"confusion": confusion, "calibration": calibration, "randomized": randomized}
    for name, value in getattr(solver, "settings", {}).items():
        if isinstance(given[name], str) and given[name] == "auto":
            given[name] = value
    return given["confusion"], given["calibration"], given["randomized"]


def value_on_labels(rule: DecisionRule, metric: Metric, table: Table) -> float:
    """Return the ``metric`` of a ``rule`` on the labels of a ``table`` of raw probabilities."""
    confusion = rule.evaluate(make_oracle(table, "labels"), matrix=metric.statistics == "matrix")
    return float(metric.values(confusion))


def check_settings(
    confusion: Any, calibration: Any, randomized: Any, *, tol: Any = 0.0, max_passes: Any = None
) -> None:
    """Raise a ValueError for settings of `maximize` that are unknown words or out of range.

    These are ``confusion``, ``calibration``, ``randomized``, ``tol`` and ``max_passes``.
    """
    if confusion not in CONFUSIONS:
        raise ValueError(f"confusion must be one of {', '.join(CONFUSIONS)}; got {confusion!r}")
    check_calibration(calibration)
    if not (isinstance(randomized, (bool, np.bool_)) or (isinstance(randomized, str) and randomized == "auto")):
        raise ValueError(f"randomized must be True, False or 'auto'; got {randomized!r}")
    if not (isinstance(tol, (int, float, np.number)) and tol >= 0 and np.isfinite(tol)):
        raise ValueError(f"tol must be finite and not negative; got {tol!r}")
    whole = isinstance(max_passes, (int, np.integer)) and not isinstance(max_passes, bool)
    if max_passes is not None and not (whole and max_passes >= 1):
        raise ValueError(f"max_passes is a positive integer or None; got {max_passes!r}")


def _check_callback(callback: Any) -> None:
    if callback is not None and not callable(callback):
        raise ValueError(f"callback must be a function of the progress, or None; got {callback!r}")


def _estimate(
    raw: Table, judged: Table, found: Calibration | None, confusion: str, calibration: Any, *, seed: int
) -> tuple[str, CountingOracle]:
    """Return the name of the confusion estimate and its oracle, on the calibrated table.

    The share of the model is taken from the labelled rows ``judged``."""
    table = raw if found is None else raw.calibrated(found.calibrator)
    mode = confusion if confusion != "auto" else (WITH_LABELS if table.has_labels else "model")
    share = None
    if mode == "blend" and raw.has_labels:
        honest = judged if found is None else held_out(judged, found, seed=seed, given=calibration)[0]
        share = model_share(honest, 1.0 if honest is raw else min(1.0, honest.n_weighted / raw.n_weighted))
    return mode, CountingOracle(make_oracle(table, mode, model_share=share))


def _priors(table: Table) -> list[Array]:
    """Return the class sizes to divide by: those of the labels, and the mean probabilities."""
    return [table.label_weight(), table.mean_probability()] if table.has_labels else [table.mean_probability()]


def _raw_table(proba: Any, y: Any, sample_weight: Any, classes: Sequence[Any] | None) -> tuple[Table, bool, bool]:
    """Return the checked table, whether the order of the classes was stated, and whether its columns may be sorted."""
    order = stated_order(y, proba) if classes is None else classes
    raw = make_table(proba, y, sample_weight, order, stated=classes is not None)
    return raw, order is not None, classes is None and order is not None and column_names(proba) is None


def _warn_of_order(raw: Table, found: Calibration | None, *, sorted_maybe: bool) -> None:
    """Warn where the labels of a table speak against the order of its columns.

    ``sorted_maybe``: the order is that of an ordered categorical, and the columns may be sorted, as scikit-learn's are.
    """
    likely = None
    if sorted_maybe and tuple(sorted(raw.classes)) != raw.classes:
        likely = [sorted(raw.classes).index(name) for name in raw.classes]
    doubt = doubt_of_order(raw, likely=likely, calibrated=None if found is None else found.log_loss_after)
    warn(doubt)


def warn_of_trivial(metric: Metric) -> None:
    """Warn of a ``metric`` of one class that says nothing about the other decisions, so that its optimum is no use."""
    if metric.trivial_rule is None:
        return
    name = "" if metric.label is None else f"[{metric.label}]"
    warn(
        f"{metric.name} of one class alone is largest if {metric.trivial_rule}; maximise f1{name} or f_beta{name}, or "
        f"for all classes min_recall, and read {metric.name}{name} with confmax.score"
    )


def _finish(
    metric: Metric,
    table: Table,
    oracle: CountingOracle,
    outcome: Outcome,
    plain: Sequence[Mixture],
    *,
    randomized: bool | str,
    seed: int,
    tol: float,
) -> Solution:
    """Choose between mixture and single rule, build the rule, and evaluate what was built.

    ``plain`` are argmax and p / prior on the raw probabilities; where these differ from the table's, the best of them
    is returned, without calibration, if it is better.
    """
    plain_values = [float(metric.values(rule.confusion)) for rule in plain]
    base = dict(zip(["argmax", "p/prior", "p/mean(p)"], plain_values, strict=False))
    if outcome.prescribed:
        (rule, statistics, value), mixed, loss = _evaluated(metric, table, oracle, outcome.mixture, seed), True, 0.0
    else:
        (rule, statistics, value), mixed, loss = _best(
            metric, table, oracle, outcome, plain, base, randomized=randomized, seed=seed
        )
    label_value = None
    if table.has_labels:
        label_value = value
        if oracle.model_share > 0.0:
            on_labels = rule.evaluate(oracle.second_estimate(0.0), matrix=metric.statistics == "matrix")
            label_value = float(metric.values(on_labels))
    bound = outcome.upper_bound
    # the last digit of a closed gap is rounding
    upper = None if bound is None else max(bound, value)
    mode = "model" if oracle.exact else "labels"
    paid = None if not outcome.mixed else 0.0 if mixed else loss
    status = outcome.status
    if status is Status.CONVERGED and upper is not None and upper - value - (paid or 0.0) > tol + 1e-12:
        status = Status.STALLED  # the rule, evaluated by itself, is worth less: its value is lost in rounding
    multipliers = None
    if outcome.multipliers is not None:
        multipliers = outcome.multipliers
        if metric.classes is not None:
            multipliers = np.zeros(table.n_classes)
            multipliers[list(metric.classes)] = outcome.multipliers
    return Solution(rule, value, upper, paid, status, oracle.n_passes, outcome.history, statistics, label_value, base,
                    metric, mode, oracle.model_share, multipliers=multipliers)  # fmt: skip


def _best(
    metric: Metric,
    table: Table,
    oracle: CountingOracle,
    outcome: Outcome,
    plain: Sequence[Mixture],
    base: dict[str, float],
    *,
    randomized: bool | str,
    seed: int,
) -> tuple[tuple[DecisionRule, Confusion, float], bool, float]:
    """Return the best rule with its statistics and value, whether it is the mixture, and what it loses to it.

    ``base`` are the values of ``plain``, which are set to those of one kind of scan where rounding could matter.
    """
    single_value = float(metric.values(outcome.single.confusion))
    loss = max(0.0, float(metric.values(outcome.mixture.confusion)) - single_value)
    mixed = loss > 0.0 and (randomized is True or (randomized == "auto" and loss > RANDOMIZED_ABOVE))
    best = _evaluated(metric, table, oracle, outcome.mixture if mixed else outcome.single, seed)
    if mixed and best[2] < single_value:
        # the mixture lived on weights of rounding size, which a rule does not keep
        mixed, loss = False, 0.0
        best = _evaluated(metric, table, oracle, outcome.single, seed)
    for name, rule in zip(base, plain, strict=False):
        if base[name] <= best[2] + 1e-13 * max(1.0, abs(best[2])):
            continue
        # better without calibration; or rounding told them apart, and the values shown are of one kind of scan
        again = _evaluated(metric, table.calibrated(None), oracle, rule, seed)
        base[name] = again[2]
        if again[2] > best[2]:
            loss, mixed, best = max(loss + single_value - again[2], 0.0), False, again
    return best, mixed, loss


def _evaluated(
    metric: Metric, table: Table, oracle: CountingOracle, found: Mixture, seed: int
) -> tuple[DecisionRule, Confusion, float]:
    """Build the rule of a mixture, and return it with its statistics and its value on the table."""
    gains, weights = found.gathered()
    known = None if metric.names is None else metric.names[1]
    gains = metric.with_ties_broken(gains)
    names = known or (*table.classes, *extra_names(table.classes, gains.n_decisions))
    rule = DecisionRule(held(gains), weights, names, repr(metric), seed, table.calibrator)
    few = table.n_classes <= MAX_MATRIX_CLASSES
    statistics = rule.evaluate(oracle, matrix=few or metric.statistics == "matrix")
    value = float(metric.values(statistics))
    return rule, statistics if few else replace(statistics, matrix=None), value
