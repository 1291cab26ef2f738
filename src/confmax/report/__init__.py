"""Reports: one HTML page that says what a rule gains, what it costs, and whether to trust it (extra ``report``).

`write` evaluates a finished rule on rows that it was not tuned on. `write_cross_fitted` tunes a rule on all rows and
evaluates, for each fold, a rule that was tuned on the other folds. A page needs no network, and the same input gives
the same page.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax.evaluate.evidence import cross_fitted
from confmax.evaluate.uncertainty import AnyMetric
from confmax.metrics import resolve
from confmax.metrics.alignment import aligned
from confmax.page.template import Settings
from confmax.page.writing import AnyPath, check_first, check_order, finish, table_of, write
from confmax.report.labels import write_labels_cross_fitted
from confmax.solution import LabelSolution, Plan, Solution
from confmax.solution.label_task import LabelPlan
from confmax.solution.tuning import on_some_rows
from confmax.tables import Table
from confmax.tables.decisions import decisions_of
from confmax.tables.draws import RandomState, as_seed, is_whole

__all__ = ["write", "write_cross_fitted"]


def write_cross_fitted(
    path: AnyPath,
    metric: AnyMetric,
    proba: ArrayLike,
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    group: ArrayLike | None = None,
    classes: Sequence[Any] | None = None,
    folds: int = 5,
    second: AnyMetric = "accuracy",
    n_replicates: int = 1000,
    level: float = 0.95,
    random_state: RandomState = 0,
    source: str = "rows given",
    again: str | None = None,
    order_known: bool | None = None,
    solution: Solution | LabelSolution | None = None,
    **settings: Any,
) -> Solution | LabelSolution:
    """Tune a rule on all rows, and write a report that evaluates it by cross-fitting.

    For each fold, a rule is tuned on the other folds and decides the rows of the fold. These rules are of the kind of
    the rule of all rows: they decide at random only if it does, and they calibrate the probabilities in the same way.
    If the rows without a fold cannot keep the constraints, the rule that misses them least decides the fold, and the
    page says so.

    Parameters
    ----------
    path : path
        Where to write the HTML page. It is written whole or not at all.
    metric : str, Metric or callable
        As for `confmax.maximize`.
    proba : array-like (n, K)
        Raw class probabilities.
    y, sample_weight : array-like (n,)
        True classes; weights, or None.
    group : array-like (n,) or None
        The group of each row. The page then has a section with every metric by group. Constraints that speak of groups
        need it.
    classes : sequence or None
        Class names in column order.
    random_state : int, RandomState, Generator or None
        Seed of draws and folds. None takes one from the operating system.
    folds : int
        Number of folds. They are stratified by class, and depend only on the content of the rows and on the seed.
    second : str, Metric or callable
        The metric of the trade-off.
    n_replicates : int
        Number of bootstrap replicates.
    level : float
        Level of the intervals.
    source : str
        What the page calls the rows.
    again : str or None
        The command that makes the page again, as the page shows it.
    order_known : bool or None
        Whether to show metrics that depend on the order of the classes.
    solution : Solution or None
        The result of `maximize` on these rows with these settings, if you have it already.
    **settings
        Further settings of `confmax.maximize`, used for all rows and for every fold. With ``decisions`` of several
        labels the page is theirs, and its folds are stratified by all labels.

    Returns
    -------
    Solution or LabelSolution
        The one of all rows.

    Raises
    ------
    ValueError
        For bad input, and if no rule can be tuned without one of the folds.
    ImportError
        If the extra ``confmax[report]`` is not installed.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import confmax
    >>> P, y = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]] * 25, [0, 0, 1, 1] * 25
    >>> solution = confmax.report.write_cross_fitted("report.html", "g_mean", P, y)  # doctest: +SKIP
    """
    decided = decisions_of(settings.pop("decisions", "one"))
    seed = as_seed(random_state)
    how = Settings(n_replicates, level, seed, source, again, order_known)
    if not is_whole(folds, 2, 100):
        raise ValueError(f"folds is a whole number from 2 to 100; got {folds!r}")
    if decided.several:
        check_first(path, n_replicates, level, charts=False)
        rows = (proba, y, sample_weight)
        of_labels = LabelPlan.checked(metric, decided, random_state=seed, group=group, **settings)
        return write_labels_cross_fitted(path, of_labels, rows, classes, int(folds), solution, how, settings)
    check_first(path, n_replicates, level)
    table = table_of(proba, y, sample_weight, classes, group)
    chosen, other = (aligned(resolve(name), table.classes) for name in (metric, second))
    # who passes the classes in column order has said what the order is
    if not (order_known or (order_known is None and classes is not None)):
        check_order((chosen, other) if solution is None else (other,), table)
    plan = Plan.checked(chosen, random_state=seed, **settings)
    solve = on_some_rows(plan, Table.of(table))
    whole = solve(None, {}) if solution is None else solution

    def tune(rows: NDArray[np.bool_], kind: Mapping[str, Any]) -> Solution:
        # a fold that cannot keep the limits is no reason for no report, which says so
        return solve(rows, {**kind, "on_infeasible": "closest"})

    evidence = cross_fitted(table, whole, tune, n_folds=int(folds), seed=seed)
    # a callback watches the run and changes nothing on the page
    given = [(name, str(value)) for name, value in settings.items() if name != "callback"]
    pairs = [("metric", repr(whole.metric)), ("folds", f"{len(evidence.solutions)}, stratified by class"), *given]
    beside = "" if group is None else ", group=group"
    call = f"confmax.report.write_cross_fitted({os.fspath(path)!r}, {repr(chosen)!r}, proba, y{beside})"
    finish(path, evidence, other, how, pairs, call)
    return whole
