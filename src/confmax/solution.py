"""`maximize`: from a table of probabilities to the best rule for a metric, with what is known about its optimality."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax._aligned import aligned as aligned
from confmax._aligned import extra_names, with_positive
from confmax._html import solution_table
from confmax._metric import Metric
from confmax._order_check import doubt_of_order
from confmax._polish import polished
from confmax._report_method import Reports
from confmax._seed import RandomState, as_seed
from confmax.blend import model_share
from confmax.calibration import Calibration, check_calibration, held_out
from confmax.calibration import choose as choose_calibration
from confmax.confusion import Array, Confusion
from confmax.metrics import resolve
from confmax.optimize import (
    Mixture,
    Outcome,
    Problem,
    Progress,
    Status,
    baselines,
    best_cut,
    choose,
    run,
    warm_start,
)
from confmax.optimize._loop import MIXES
from confmax.oracle import CountingOracle, DecidingOn, Table, make_oracle, make_table, refuse_too_few_classes
from confmax.oracle._columns import column_names, stated_order
from confmax.oracle._span import held
from confmax.rule import DecisionRule

CONFUSIONS = ("auto", "model", "labels", "blend")
WITH_LABELS = "blend"  # confusion="auto" where there are labels: benchmarks/RESULTS.md, section confusion
RANDOMIZED_ABOVE = 1e-3  # randomized="auto": what a deterministic rule may cost
MAX_MATRIX_CLASSES = 1000
MATRIX_CELLS = 1 << 24  # of a confusion matrix that a metric needs
SHOWN = 20  # names of absent classes


@dataclass(frozen=True, eq=False, repr=False)
class Solution(Reports):
    """What `maximize` found.

    Attributes
    ----------
    rule : DecisionRule
        The rule to apply.
    value : float
        The metric of the rule on the table, under the confusion estimate used.
    upper_bound, gap : float or None
        No rule exceeds ``upper_bound``; ``gap = upper_bound - value``. None where nothing is proved: on labels, and
        for metrics whose structure gives no bound.
    randomization_loss : float or None
        What the returned rule loses, being deterministic, to the best mixture of rules found; part of the gap. None
        where a mixture may be better and the solver looked at single rules only (`CoordinateSearch`, `BruteForce`).
    status : Status
        How the run ended and what to do about it.
    n_passes : int
        Scans of the table, the final evaluation included.
    history : tuple of Progress
        One entry per step.
    confusion : ndarray (K, M) or None
        Confusion matrix of the rule, fractions of all weight; None above 1000 classes.
    statistics : Confusion
        Its row sums, diagonal and column sums.
    label_value : float or None
        The metric of the rule on the labels, where there are any; with ``tuned_on="refit"`` on the out-of-fold
        probabilities of the rows, not on those that the rule was tuned on.
    baselines : dict
        The metric, under the same estimate, of ``argmax(p)`` and ``argmax(p / prior)`` on the raw probabilities.
    metric : Metric
        The metric that was maximised: over the present classes, if some are absent; AMS without a regulariser has a
        floor of half a row under its background, where it is infinite.
    mode : {"model", "labels", "blend"}
        The confusion estimate used.
    model_share : float
        Weight of the model in it: 1 for the model, 0 for the labels.
    calibration : Calibration or None
        What was done to the probabilities first, with their log loss before and after.
    tuned_on : {"rows", "refit"}
        "refit": `MetricClassifierCV` tuned the rule on the refitted model's probabilities of its own training rows;
        ``value`` is in-sample. "rows": the rows that were given.
    """

    rule: DecisionRule
    value: float
    upper_bound: float | None
    randomization_loss: float | None
    status: Status
    n_passes: int
    history: tuple[Progress, ...]
    statistics: Confusion
    label_value: float | None
    baselines: dict[str, float]
    metric: Metric
    mode: str
    model_share: float
    calibration: Calibration | None = None
    tuned_on: str = "rows"

    @property
    def gap(self) -> float | None:
        """``upper_bound - value``, None without a bound."""
        return None if self.upper_bound is None else self.upper_bound - self.value

    @property
    def confusion(self) -> Array | None:
        """Confusion matrix (K, M), None above 1000 classes."""
        return self.statistics.matrix

    def predict(self, proba: ArrayLike, *, keys: ArrayLike | None = None) -> NDArray[Any]:
        """Return the label (n,) that the rule decides for every row of ``proba`` (n, K); ``keys`` (n,) draw.

        It is `DecisionRule.predict` of ``rule``, where ``proba``, ``keys`` and ValueError are described.

        Examples
        --------
        >>> import confmax
        >>> P, y = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]], ["no", "no", "yes", "yes"]
        >>> confmax.maximize("balanced_accuracy", P, y, confusion="labels").predict([[0.6, 0.4]]).tolist()
        ['yes']
        """
        return self.rule.predict(proba, keys=keys)

    def _repr_html_(self) -> str:
        return solution_table(self)

    def __repr__(self) -> str:
        known = "no certificate" if self.gap is None else f"gap {self.gap:.2g}"
        mode = f"blend, {self.model_share:.0%} model" if self.mode == "blend" else self.mode
        rows = [
            f"Solution: {self.metric!r} = {self.value:.6g} ({mode}; {known}; {self.n_passes} passes)",
            *(f"  {name:<10} {value:.6g}" for name, value in self.baselines.items()),
            *([] if self.calibration is None else [f"  {self.calibration}"]),
            f"  {self.status.value}",
            str(self.rule),
        ]
        return "\n".join(rows)


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
        Class probabilities on rows that the model was not fitted on. A tensor stays on its device. Of very many
        classes a sparse matrix may hold the largest few of each row, divided by their sum: what a scan costs is its
        stored entries and K numbers. The result is that of the dense table without calibration. The rows of a Dask
        array or DataFrame stay on their workers; a pass brings back K numbers per partition and gain.
    y : array-like (n,), Dask array or Series, name of a column of a Dask DataFrame, or None
        True classes: names or column numbers.
    sample_weight : array-like (n,), Dask array or Series, name of a column of a Dask DataFrame, or None
        Non-negative weights. Only their ratios matter: tests and shrinkage see ``(sum w)^2 / sum w^2`` rows. Repeat a
        row to say that it was seen twice; a weight of 2 does not say that.
    classes : sequence or None
        Class names in column order; needed for string labels when the metric depends on the order of the classes. A
        frame's columns are found by their names. An ordered ``pandas.Categorical`` as ``y`` states the order, too.
    pos_label : label or None
        The positive one of two classes, for metrics such as ``f1``; by default the second. The same as
        ``classes=[other, pos_label]`` for columns in that order: the columns of ``proba`` stay where they are.
    confusion : {"auto", "model", "labels", "blend"}
        Estimate of the confusion matrix: from the probabilities themselves, where the result is certified but is as
        good as the probabilities are calibrated; from the labels, unbiased, without a certificate; or an average of the
        two that shrinks the labels toward the model as far as the data agree with it. "auto" is "blend" when there is
        a ``y``, else "model".
    calibration : {"auto", "temperature", "vector", None} or object
        How the probabilities are corrected before anything else, see `confmax.calibration.choose`: "auto" lets
        cross-validated log loss decide, where there is a ``y`` and the table is not sparse; None leaves them as they
        are. An object with ``fit(proba, y)`` and ``transform(proba)`` is copied and fitted. The rule applies the
        correction itself.
    solver : "auto", "polished", str or solver
        "auto" chooses by the metric's declared structure. "polished" adds a search over one class weight or offset at a
        time on the labels, if five-fold cross-validation inside the table says that it helps; it costs about twenty
        times as much.
    randomized : {"auto", True, False}
        Whether the rule may draw between several rules; "auto" only where that gains more than 1e-3.
    tol : float
        Stop when ``gap - randomization_loss`` is at most this (a loss of None counts as zero).
    max_passes : int or None
        Budget of scans of the table. The starting rules (for two classes the best threshold among them) and the final
        evaluation are always made, and a round that takes several scans is finished.
    random_state : int, RandomState, Generator or None
        Seed of a randomised rule's draws, and of folds and samples. None: a seed from the operating system, stored in
        the rule, which repeats its draws; the table is tuned again in the same way with ``random_state=rule.seed``.
    callback : callable or None
        Called with a `Progress` after each step; a true result stops.

    Returns
    -------
    Solution
        Never worse than ``argmax(p)`` and ``argmax(p / prior)``, of raw and of calibrated probabilities, on the
        estimate used.

    Raises
    ------
    ValueError
        For bad input, in one sentence: what, where, and the way out.

    Warns
    -----
    UserWarning
        If a class has no weight in ``y`` and the metric divides by its prior: it is left out. If a frame's columns
        are named like no class, with the class that each was taken for. If the log loss of the probabilities is larger
        than that of the class shares: the columns are probably in another order than the classes.

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
    solution = tune(
        fit_metric(chosen, raw, explicit=explicit), raw, confusion=confusion, calibration=calibration, solver=solver,
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

    If ``raw`` holds a model's probabilities of its own training rows, ``out_of_fold`` are the labelled out-of-fold
    probabilities of these rows: the calibration and the share of the model in a blend are chosen on them, and the
    solution's ``label_value`` is counted on them. The settings ``confusion``, ``calibration``, ``solver``,
    ``randomized``, ``tol``, ``max_passes``, ``random_state`` and ``callback`` are those of `maximize`, checked; a
    ValueError if the solver cannot take the metric or the table.
    """
    chosen, judged = _finite(metric, raw), raw.at_hand() if out_of_fold is None else out_of_fold
    found = choose_calibration(judged, calibration, seed=random_state)
    mode, oracle = _estimate(raw, judged, found, confusion, calibration, seed=random_state)
    table = oracle.table
    gain = dict(chosen.params).get("gain")
    n_decisions = table.n_classes if gain is None else len(gain[0])
    polishing = isinstance(solver, str) and solver == "polished"
    if polishing and mode == "model":
        raise ValueError(
            "solver='polished' searches on labels; pass y and confusion='labels' or 'blend', or use 'auto'"
        )
    solver = "auto" if polishing else solver
    ways = {"exact": oracle.exact, "blended": mode == "blend"}
    in_parts = table.backend == "parts"
    method = choose(solver, chosen, table.n_classes, n_decisions, in_parts=in_parts, **ways)
    method.check(chosen, table.n_classes, table.n_rows)
    matrix = chosen.statistics == "matrix"
    priors = _priors(table)
    heard = warm_start(method, chosen, oracle, n_decisions, tol)
    starts = baselines(oracle, priors, n_decisions, matrix=matrix, more=None if heard is None else heard.rules)
    plain = starts[: 1 + len(priors)]
    if table is not raw:
        # what people decide without confmax; like the calibration, no scan by the oracle, and so not counted
        plain = baselines(CountingOracle(DecidingOn(raw, oracle)), _priors(raw), n_decisions, matrix=matrix)
    two = table.n_classes == n_decisions == 2
    if solver == "auto" and two and method.name != "ThresholdSearch" and (in_parts or chosen.structure in MIXES):
        # of two classes the best single rule is a threshold, and the best mixture draws between two
        starts[:0] = [rule for rule in best_cut(chosen, oracle)[:2] if rule is not None]
    # the final evaluation is counted too, on labels once more where they are not the estimate
    reserved = 2 if mode != "labels" and table.has_labels else 1
    budget = (method.budget if max_passes is None else max_passes) - reserved
    problem = Problem(chosen, oracle, n_decisions, tuple(starts), budget, tol, heard)
    outcome = run(method, problem, callback)
    if polishing:
        outcome = polished(problem, outcome, method, seed=random_state)
    solution = _finish(chosen, table, oracle, outcome, plain, randomized=randomized, seed=random_state, tol=tol)
    if mode == "blend":
        # the labels are in it, whatever their share: nothing is proved
        solution = replace(solution, mode=mode, upper_bound=None)
    if out_of_fold is not None:
        value = value_on_labels(solution.rule, chosen, out_of_fold)
        solution = replace(solution, label_value=value, tuned_on="refit")
    return replace(solution, calibration=found)


def value_on_labels(rule: DecisionRule, metric: Metric, table: Table) -> float:
    """Return the ``metric`` of a ``rule`` on the labels of a ``table`` of raw probabilities."""
    confusion = rule.evaluate(make_oracle(table, "labels"), matrix=metric.statistics == "matrix")
    return float(metric.values(confusion))


def check_settings(
    confusion: Any, calibration: Any, randomized: Any, *, tol: Any = 0.0, max_passes: Any = None
) -> None:
    """Refuse, by a ValueError, settings of `maximize` that are none of the words, or out of range.

    ``confusion``, ``calibration``, ``randomized``, ``tol`` and ``max_passes`` as there."""
    if confusion not in CONFUSIONS:
        raise ValueError(f"confusion is one of {', '.join(CONFUSIONS)}; got {confusion!r}")
    check_calibration(calibration)
    if not (isinstance(randomized, (bool, np.bool_)) or (isinstance(randomized, str) and randomized == "auto")):
        raise ValueError(f"randomized is True, False or 'auto'; got {randomized!r}")
    if not (isinstance(tol, (int, float, np.number)) and tol >= 0 and np.isfinite(tol)):
        raise ValueError(f"tol must be finite and not negative; got {tol!r}")
    whole = isinstance(max_passes, (int, np.integer)) and not isinstance(max_passes, bool)
    if max_passes is not None and not (whole and max_passes >= 1):
        raise ValueError(f"max_passes is a positive integer or None; got {max_passes!r}")


def _check_callback(callback: Any) -> None:
    if callback is not None and not callable(callback):
        raise ValueError(f"callback is a function of the progress, or None; got {callback!r}")


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


def fit_metric(metric: Metric, table: Table, *, explicit: bool) -> Metric:
    """Return ``metric`` for ``table``: class order known, absent classes left out where it divides by priors.

    ``explicit``: whether the order was given; a ValueError where it must be and was not."""
    present = refuse_too_few_classes(table)
    gain = dict(metric.params).get("gain")
    n_decisions = table.n_classes if gain is None else len(gain[0])
    if metric.statistics == "matrix" and table.n_classes * n_decisions > MATRIX_CELLS:
        raise ValueError(
            f"the whole confusion matrix of {table.n_classes} classes has {table.n_classes * n_decisions:,} entries, "
            f"more than {MATRIX_CELLS:,}, and {metric.name} reads all of them; take a metric of its diagonal and "
            f"column sums such as macro_f1, or merge classes"
        )
    metric.check_table(table.n_classes, n_decisions)
    metric = aligned(metric, table.classes)
    named = not explicit and any(isinstance(name, str) for name in table.classes)
    if named and metric.depends_on_order(table.n_classes):
        shown = ", ".join(map(repr, table.classes[:6]))
        raise ValueError(
            f"{metric.name} depends on the order of the classes and y holds names ({shown}); pass classes= with the "
            f"names in column order (for two classes: the negative, then the positive, or pos_label= with the latter)"
        )
    used = metric.divided_by(table.n_classes)
    kept = [k for k in used if present[k]]
    if len(kept) == len(used):
        return metric
    missing = [str(table.classes[k]) for k in used if not present[k]]
    absent = ", ".join(missing[:SHOWN]) + (f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else "")
    source = "y" if table.has_labels else "proba"
    if metric.one_class:
        raise ValueError(
            f"{metric!r} divides by the size of class {absent}, of which {source} has no weight; take rows that "
            f"include this class, or another metric"
        )
    if len(kept) < 2:
        raise ValueError(
            f"{metric.name} is taken over {len(used)} classes, of which {source} has no weight in {absent}; at least "
            f"two must be present"
        )
    warnings.warn(
        f"{metric.name} divides by class sizes and {source} has no weight in class {absent}: the metric is taken over "
        f"the {len(kept)} classes that are present",
        UserWarning,
        stacklevel=3,
    )
    return replace(metric, classes=tuple(kept))


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
    if doubt:
        warnings.warn(doubt, UserWarning, stacklevel=3)


def _finite(metric: Metric, table: Table) -> Metric:
    """Return AMS with a floor of half a row under its background, where it would be infinite; others as they are."""
    params = dict(metric.params)
    if metric.name != "ams" or params["b_reg"] or params["b_min"]:
        return metric
    return replace(metric, structure="general", params=(("b_reg", 0.0), ("b_min", 0.5 / table.n_rows)))


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
    single_value = float(metric.values(outcome.single.confusion))
    loss = max(0.0, float(metric.values(outcome.mixture.confusion)) - single_value)
    mixed = loss > 0.0 and (randomized is True or (randomized == "auto" and loss > RANDOMIZED_ABOVE))
    rule, statistics, value = _evaluated(metric, table, oracle, outcome.mixture if mixed else outcome.single, seed)
    if mixed and value < single_value:
        # the mixture lived on weights of rounding size, which a rule does not keep
        mixed, loss = False, 0.0
        rule, statistics, value = _evaluated(metric, table, oracle, outcome.single, seed)
    for name, each in zip(base, plain, strict=False):
        if base[name] <= value + 1e-13 * max(1.0, abs(value)):
            continue
        # better without calibration; or rounding told them apart, and the values shown are of one kind of scan
        again = _evaluated(metric, table if table.raw is None else table.raw, oracle, each, seed)
        base[name] = again[2]
        if again[2] > value:
            loss, mixed = max(loss + single_value - again[2], 0.0), False
            rule, statistics, value = again
    label_value = None
    if table.has_labels:
        label_value = value
        if oracle.model_share > 0.0:
            on_labels = CountingOracle(make_oracle(table, "labels"))
            label_value = float(metric.values(rule.evaluate(on_labels, matrix=metric.statistics == "matrix")))
            oracle.n_passes += on_labels.n_passes
    bound = outcome.upper_bound
    # the last digit of a closed gap is rounding
    upper = None if bound is None else max(bound, value)
    mode = "model" if oracle.exact else "labels"
    paid = None if not outcome.mixed else 0.0 if mixed else loss
    status = outcome.status
    if status is Status.CONVERGED and upper is not None and upper - value - (paid or 0.0) > tol + 1e-12:
        status = Status.STALLED  # the rule, evaluated by itself, is worth less: its value is lost in rounding
    return Solution(rule, value, upper, paid, status, oracle.n_passes, outcome.history,
                    statistics, label_value, base, metric, mode, oracle.model_share)  # fmt: skip


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
