"""`maximize`: from a table of probabilities to the best rule for a metric, with what is known about its optimality.

`maximize` makes a plan of its arguments (`plan.py`) and a table of the rows; `search.py` solves the plan on the table.
Estimators, reports and the command line do the same with tables of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from confmax.calibration import Scaling
from confmax.calibration.column_order import doubt_of_order
from confmax.calibration.shifted import before_shift
from confmax.calibration.words import printable
from confmax.confusion import Array, Confusion
from confmax.errors import InputError
from confmax.metrics import Metric
from confmax.metrics.alignment import with_positive
from confmax.metrics.catalogue import metric_of, refuse_without_limits, refusing_parameters
from confmax.optimize import Progress, Status
from confmax.progress import bar_for, beside
from confmax.rule import DecisionRule
from confmax.shift.source import shares_of
from confmax.solution.infeasible import or_raise
from confmax.solution.plan import Plan, Task, absent_of, is_auto
from confmax.solution.result import Solution
from confmax.solution.search import search
from confmax.solution.side_by_side import check_groups, counted_on_labels, warn_of_groups, with_groups
from confmax.solution.surprises import warn_of_draws, warn_of_names, warn_of_surprises, warn_of_unwritten
from confmax.tables import Table, make_table
from confmax.tables.columns import warn
from confmax.tables.decisions import decisions_of
from confmax.tables.draws import RandomState
from confmax.tables.frames import column_names, columns_of, stated_order
from confmax.tables.kinds import apart
from confmax.tables.labels import plain
from confmax.tables.memory import calibrating_once
from confmax.tables.normalize import divided

if TYPE_CHECKING:
    from confmax.solution.labels import LabelSolution

LEAST_OF_MODEL = 0.05  # share of the model in a blend, from which its row sums tell those of the model


@refusing_parameters
def maximize(
    metric: str | Metric | Callable[[Array], float],
    proba: ArrayLike,
    y: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    classes: Sequence[Any] | None = None,
    pos_label: Any = None,
    decisions: Any = "one",
    constraints: Any = (),
    on_infeasible: str = "raise",
    confidence: float | None = None,
    abstain: bool | str | int = False,
    group: ArrayLike | None = None,
    group_proba: ArrayLike | None = None,
    normalize: bool = False,
    confusion: str = "auto",
    calibration: Any = "auto",
    shrinkage: Any = "auto",
    solver: Any = "auto",
    randomized: bool | str = "auto",
    tol: float = 1e-6,
    max_passes: int | None = None,
    random_state: RandomState = 0,
    callback: Callable[[Progress], Any] | None = None,
    progress: bool = False,
) -> Solution | LabelSolution:
    """Return the decision rule that maximises a metric on a table of class probabilities.

    Parameters
    ----------
    metric : str, Metric or callable
        A name from ``confmax.metrics.names()``, for one class with its name in brackets (``"recall[VF]"``), a metric,
        or a function of the confusion matrix (K, M).
    proba : array-like, data frame, torch tensor, scipy.sparse matrix, Dask collection or opened table (n, K)
        Class probabilities of rows that the model was not fitted on. A tensor stays on its device. With very many
        classes, pass a sparse matrix that holds only the largest few probabilities of each row, divided by their sum: a
        scan then costs its stored entries and K numbers. The result is that of the dense table without calibration. The
        rows of a Dask array or DataFrame stay on their workers; each pass returns K numbers per partition and gain. A
        Polars LazyFrame, an Arrow dataset or a DuckDB relation is read part by part in each pass (`open_table`). For
        two classes also a vector (n,): the probabilities of the second. A frame may also hold a column ``probability``
        of lists of K numbers.
    y : array-like (n,), Dask array or Series, name of a column of ``proba``, or None
        True classes: names or column numbers. A column that is named here, or below, holds no probabilities. Rows are
        taken in their order; a pandas index that has them in another one, in which the labels fit better, is refused.
    sample_weight : array-like (n,), Dask array or Series, name of a column of ``proba``, or None
        Non-negative weights of any size. Only their ratios matter: tests and shrinkage count ``(sum w)^2 / sum w^2``
        rows. A weight of 2 does not mean that a row was seen twice; repeat the row to say that.
    classes : sequence or None
        Class names in column order. You need them for string labels if the metric depends on the order of the classes.
        The columns of a data frame are matched by name. An ordered ``pandas.Categorical`` as ``y`` also states the
        order.
    pos_label : label or None
        The positive one of two classes, for metrics such as ``f1``; by default the second. The same as
        ``classes=[other, pos_label]`` for columns in that order: the columns of ``proba`` stay where they are.
    decisions : {"one", "any"}, int k, or ("at_most", k)
        What is decided for a row: one class; or of several labels any, exactly the k best, or at most k. For labels,
        ``proba`` (n, L) need not sum to one, and may be a list of one array (n, 2) per label, as scikit-learn's forests
        give it; ``y`` is a matrix (n, L) of 0 and 1, sparse or not, or one list of names per row. The metric is then a
        mean over labels, or (micro) over entries, as in scikit-learn, or a function of three vectors (L,): how often
        labels are true, decided and true, and decided. Of a frame, ``y`` may name the columns of 0 and
        1, or one column of lists of names. The result is a `confmax.solution.labels.LabelSolution`, whose ``predict``
        gives a matrix of 0 and 1.
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
        sequences of tests of `precision` or `npv` share the error. Else about half of the rows tune, and the others
        only test: of rules with more and less room to spare, the best one is returned before the first that fails a
        test. Every class and group has room by its own number of rows. If no rule passes, a warning says which need
        how many rows. Rows in parts, 2^25 of them at most, are split alike however they are divided. This needs labels,
        equal weights, and constraints on shares of rows, such as `recall`, `precision`, `rate` and `accuracy`,
        or on `min_recall`: every class is then tested. A callback gets the number of the search in `Progress`. The rule
        draws only if that is asked for (``randomized``).
    abstain : bool, str or int
        Whether the rule may leave rows undecided, and what it returns for them: True for "abstain" beside names and -1
        beside integers, or a name. The metric and the constraints are then those of the rows that are decided, except
        for ``coverage``, ``rate`` and tables of costs, which speak of all rows. Set a floor on the coverage
        (``"coverage >= 0.8"``, ``"coverage[VF] >= 0.5"``), maximise "coverage" itself with a floor on what is decided
        (``"accuracy >= 0.95"``), or give a table of costs one more column, for what abstaining costs.
    group : array-like (n,), Dask array or Series, name of a column of ``proba``, or None
        The group of each row, for constraints that speak of groups, such as ``"min(recall[VF] | group) >= 0.7"``,
        ``"difference(rate[VF] | group) <= 0.02"`` or ``"ratio(rate[VF] | group) >= 0.8"``. The rule then decides every
        group by gains of its own, and `DecisionRule.predict` needs the group of each row.
    group_proba : array-like or data frame (n, G), or None
        In the place of ``group``, the probability of every group for each row: for rules that do not know the group of
        a row. The rule decides all groups alike, by a score that depends on these probabilities, and
        `DecisionRule.predict` needs them. Class and group are taken to be independent given what the model knows.
    normalize : bool
        Whether to divide every row of an array or a data frame by its sum, as for probabilities that were rounded,
        percentages, scores and counts of votes. Then pass ``normalize=True`` to `DecisionRule.predict` too. Without it
        a row whose sum is more than 1e-3 from one is refused. A column without which all rows have one sum, and with
        which they have not, is no class and is refused either way.
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
    shrinkage : {"auto", True, False} or float
        Of several labels: whether, in means of scores such as F1, the thresholds of labels with few true rows are drawn
        towards one that all labels share, which counts as so many true rows. "auto" does so by ten rows where
        ``confusion`` is "auto" and there is a ``y``. Rules with a number of labels, and ratios of sums over labels,
        have no thresholds to draw.
    solver : "auto", str or solver
        "auto" chooses by the metric's declared structure. ``BayesCG(returns="last")`` is the paper's Algorithm 4 as
        printed.
    randomized : {"auto", True, False}
        Whether the rule may decide at random between several rules. "auto" allows it only if it gains more than 1e-3
        (within limits, of a share, more than one row),
        or if no single rule that keeps all constraints was met; with False, constraints are then infeasible. Of a
        blend, within limits on one class of few rows, a gain in accuracy must be more than noise. A question about one
        class is answered by one threshold, and by a draw only for True. With a ``confidence`` "auto" is False, and a
        rule that draws is tested by what `DecisionRule.predict` decides without keys: equal rows alike.
    tol : float
        Stop when ``gap - randomization_loss`` is at most this (a loss of None counts as zero).
    max_passes : int or None
        Maximum number of scans of the table. The starting rules (for two classes they include the best threshold) and
        the final evaluation are always computed, and a round that takes several scans is finished.
    random_state : int, RandomState, Generator or None
        Seed of a randomised rule's draws, and of folds and samples. None takes a seed from the operating system and
        stores it in the rule, so the rule repeats its draws. Pass ``random_state=rule.seed`` to repeat the tuning.
    callback : callable or None
        Called with a `Progress` after each step. The search stops if it returns a true value. Thresholds of several
        labels are found without steps.
    progress : bool
        Whether to show on stderr how far the search is: a bar of rich in a terminal and in a notebook, lines of text
        elsewhere. With a ``confidence`` it counts searches, else passes over the table, of which ``max_passes`` are the
        most.

    Returns
    -------
    Solution
        The rule and what is proved about it. On the estimate used, it is never worse than ``argmax(p)`` and
        ``argmax(p / prior)`` among the classes that some row has, on raw and on calibrated probabilities; only a solver
        with ``returns="last"`` may return a worse rule. Of equal probabilities all rules decide the last class, these
        two included. NumPy and scikit-learn take the first: the ``predict`` of a model with many ties, such as a forest
        of few trees, is another rule.

    Raises
    ------
    ValueError
        If the input is invalid. The message says what is wrong, where, and how to correct it.
    Infeasible
        If no rule keeps all constraints: a ValueError, whose ``closest`` is the solution that misses them least.

    Warns
    -----
    UserWarning
        If a class has no weight in ``y``: it is never decided, a metric that divides by its prior leaves it out, and
        other means over classes, such as macro F1, count it as zero. If no column of a data frame is named like a
        class; the message shows the class assumed for each column. If the log loss of the probabilities is
        larger than that of the class shares; the columns are then probably in another order than the classes.
        If ``normalize`` divides rows whose sums are more than 1e-3 from one; the message shows the farthest. If
        the metric is one of one class that useless rules make largest, such as the recall. If the rule never
        decides a class that the metric or a constraint names, or decides less than half as many rows rightly as
        argmax (not for tables of costs). If the calibrated probabilities tell nothing about ``y``; its rows are
        then probably in another order. If names of classes or groups are such
        that no rule file holds them, as dates and bytes are: the rule then cannot be saved. If the rule draws and that
        was not asked for: no export writes such a rule.

    Examples
    --------
    >>> import confmax
    >>> P = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]]
    >>> solution = confmax.maximize("balanced_accuracy", P, confusion="model")
    >>> solution.predict(P).tolist(), solution.gap < 1e-6
    ([0, 0, 1, 1], True)
    """
    # words and numbers first: the check of a table reads every row
    settings: dict[str, Any] = {
        "constraints": constraints,
        "on_infeasible": on_infeasible,
        "confidence": confidence,
        "abstain": abstain,
        "pos_label": pos_label,
        "confusion": confusion,
        "calibration": calibration,
        "solver": solver,
        "randomized": randomized,
        "tol": tol,
        "max_passes": max_passes,
        "random_state": random_state,
        "callback": callback,
        "progress": progress,
    }
    rows: dict[str, Any] = {"group": group, "group_proba": group_proba, "normalize": normalize}
    chosen = decisions_of(decisions)
    if chosen.several:
        from confmax.solution.several import maximize_labels

        given = {"y": y, "sample_weight": sample_weight}
        return maximize_labels(metric, chosen, proba, given, classes, shrinkage=shrinkage, **settings, **rows)
    if not is_auto(shrinkage):
        raise InputError("`shrinkage` is of several labels per row", "pass `decisions=`, or leave it out")
    plan = Plan.checked(metric, **settings)
    task, likely = task_of(plan, proba, y, sample_weight=sample_weight, classes=classes, **rows)
    solution = tune_all_rows(task, likely)
    if is_auto(randomized):
        warn_of_draws(solution)
    return solution


def task_of(
    plan: Plan,
    proba: ArrayLike,
    y: ArrayLike | None,
    *,
    sample_weight: ArrayLike | None = None,
    classes: Sequence[Any] | None = None,
    group: ArrayLike | None = None,
    group_proba: ArrayLike | None = None,
    normalize: bool = False,
) -> tuple[Task, list[int] | None]:
    """Return the task of a ``plan`` on the rows that `maximize` is given, and the columns that are likely to be meant.

    The latter are those of `tune_all_rows`.
    """
    given = {"y": y, "sample_weight": sample_weight, "group": group}
    proba, given = apart(proba, given, classes, plan.confusion)
    y, sample_weight, group = given.values()
    order = stated_order(y, proba) if classes is None else classes
    check_groups(group, group_proba, plan.constraints)
    raw = make_table(divided(proba, normalize), y, sample_weight, order, stated=classes is not None, group=group)
    plan = plan.but(columns=columns_of(proba, raw, raw.classes))
    raw = with_groups(raw, group, plan.constraints, group_proba=group_proba, proba=proba)
    if plan.pos_label is not None:
        plan = plan.but(metric=with_positive(plan.metric, raw.classes, plan.pos_label))
    task = plan.on(raw, explicit=order is not None or plan.pos_label is not None)
    likely = None
    if classes is None and order is not None and column_names(proba) is None:
        # an ordered categorical may name another order than that of scikit-learn, which sorts
        rank = {name: k for k, name in enumerate(sorted(raw.classes))}
        likely = [rank[name] for name in raw.classes]
    return task, likely


def tune_all_rows(task: Task, likely: Sequence[int] | None = None) -> Solution:
    """Return the solution of a task whose table holds the rows that a caller has, with the warnings of `maximize`.

    ``likely`` is the column of each class, if the columns may stand in another order than that of the classes.
    """
    raw = task.raw
    warn_of_groups(task)
    warn_of_names(raw.classes, () if raw.groups is None else raw.groups.names)
    if task.limits is None:
        warn_of_trivial(task.plan.metric)
    with calibrating_once(raw):
        solution = tune(task)
        asked = task.plan.pos_label
        positive = solution.rule.positive if asked is None else raw.classes.index(plain(asked))
        solution = replace(solution, rule=replace(solution.rule, tuned_on=raw.fingerprint(), positive=positive))
        calibrated = None if solution.calibration is None else solution.calibration.log_loss_after
        warn(doubt_of_order(raw, likely=likely, calibrated=calibrated))
        warn_of_unwritten(or_raise(solution, task.plan.on_infeasible))
        warn_of_surprises(solution, task)
    return solution


def on_some_rows(plan: Plan, table: Table) -> Callable[[Any, Mapping[str, Any]], Solution]:
    """Return a function of rows (n,) of a table with labels and of settings: what the plan finds on them with these.

    None are all rows. `maximize` finds the same rule on these rows, if it is given all classes in the order of the
    columns. What the model says of a rule is computed for that of all rows alone.
    """
    plan = plan.but(metric=with_positive(plan.metric, table.classes, plan.pos_label), absent=absent_of(table))
    by_group = any(one.of_groups for one in plan.constraints)

    def solve(rows: Any, settings: Mapping[str, Any]) -> Solution:
        part = table if rows is None else Table.of(table.head.take(rows))
        # a group without rows has no rule
        groups = part.groups.present() if by_group and part.groups is not None else None
        return tune_all_rows(plan.but(prove=rows is None, **settings).on(part.with_groups(groups)))

    return solve


def tune(task: Task) -> Solution:
    """Return the solution of a ``task``: a plan on a table (`Plan.on`).

    If no rule keeps the limits the solution says so; `maximize` raises an error of it. Raise a ValueError if the
    solver cannot handle the metric or the table, or the rows cannot test the limits with the confidence of the plan.
    """
    # rows that a part of the search leaves out count
    task = task.but(plan=task.plan.but(absent=task.absent))
    plan = task.plan
    with bar_for(plan.progress, f"tuning for {printable(repr(plan.metric))}", "passes") as bar:
        if bar is not None:
            task = task.but(plan=plan.but(callback=beside(bar, plan.callback), progress=False))
        if plan.confidence is None:
            solution = search(task)
        else:
            from confmax.solution.confidence import tune_with_confidence

            solution = tune_with_confidence(task)
        if bar is not None:
            bar.solved(solution.n_passes, solution.value)
        return _with_shares(solution, plan, task.raw)


def _with_shares(solution: Solution, plan: Plan, raw: Table) -> Solution:
    """Return the solution with its ``plan``, whose rule knows the class shares of the rows that it was tuned on."""
    rule = solution.rule
    known = None
    share = solution.model_share
    fitted = None if solution.calibration is None else solution.calibration.calibrator
    whole = solution.confidence is None and rule.calibrator is fitted and before_shift(fitted) is fitted
    if whole and share >= LEAST_OF_MODEL and not solution.group_shares:
        # the row sums of a blend are those of the labels and of the model
        of_labels = (1.0 - share) * raw.label_weight() if share < 1.0 else 0.0
        known = (solution.statistics.rows - of_labels) / share
    shares = shares_of(rule.calibrator, raw, solution.statistics.columns, known)
    if solution.calibration is not None:
        by = solution.calibration.for_counts or solution.calibration.calibrator
        # objects of the user's own have no place in a file
        shares = replace(shares, calibrator=by if isinstance(by, Scaling) and by != rule.calibrator else None)
    # what was called in this process need not be there in another that reads the solution
    kept = plan.but(callback=None, progress=False)
    return replace(solution, rule=replace(rule, shares=shares), plan=kept, tuned_by=tune)


def solution_of_rule(rule: DecisionRule) -> Solution:
    """Return a solution of which the rule alone is known, such as that in a file, so that it can be adapted.

    Its value is NaN. A ValueError if the rule's metric is no text that can be read.
    """
    metric = metric_of(rule)
    if metric is None:
        raise InputError(
            f"the rule does not name a metric that it holds in full, but {rule.metric!r}",
            "adapt the solution, which knows the metric, or tune a rule on rows of the new kind",
        )
    plan = Plan.checked(
        metric,
        constraints=rule.constraints,
        abstain=False if rule.abstain is None else rule.abstain,
        random_state=rule.seed,
    ).but(columns=rule.columns)
    K = rule.n_classes
    shares = np.full(K, 1.0 / K) if rule.shares is None else rule.shares.meant
    # a table of the classes, among which metrics are placed
    table = make_table(np.tile(shares, (2, 1)), None, None, rule.class_names[:K])
    task = plan.on(table)
    statistics = Confusion(shares, np.full(K, np.nan), np.full(rule.n_decisions, np.nan))
    return Solution(
        rule,
        float("nan"),
        upper_bound=None,
        randomization_loss=None,
        status=Status.CONVERGED,
        n_passes=0,
        history=(),
        statistics=statistics,
        label_value=None,
        baselines={},
        metric=task.metric,
        mode="model",
        model_share=1.0,
        plan=plan,
        tuned_by=tune,
    )


def warn_of_trivial(metric: Metric) -> None:
    """Warn of a ``metric`` of one class that says nothing about the other decisions, so that its optimum is no use.

    A ValueError if every rule that decides all rows as the class makes it largest: for its rate.
    """
    refuse_without_limits(metric)
    if metric.trivial_rule is None:
        return
    name = "" if metric.label is None else f"[{metric.label}]"
    warn(
        f"{metric.name} of one class alone is largest if {metric.trivial_rule}; maximise f1{name} or f_beta{name}, or "
        f"for all classes min_recall, and read {metric.name}{name} with confmax.score"
    )


def value_on_labels(rule: DecisionRule, metric: Metric, table: Table) -> float:
    """Return the ``metric`` of a ``rule`` on the labels of a ``table`` of raw probabilities."""
    return float(metric.values(counted_on_labels(rule, table, matrix=metric.statistics == "matrix")))
