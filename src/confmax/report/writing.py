"""From rules and rows to a report's file: the checks of what is given, and the two ways to get evidence."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax._version import __version__
from confmax.confusion import Array
from confmax.evaluate.uncertainty import check_bootstrap
from confmax.metrics import Metric, get, resolve
from confmax.places import check_place, write_whole
from confmax.report.evidence import Evidence, cross_fitted, judged
from confmax.report.figures import figures
from confmax.report.metrics import named
from confmax.report.page import bundle, page
from confmax.report.sections import Made
from confmax.rule import DecisionRule
from confmax.solution import Solution, maximize
from confmax.solution.tuning import MAX_MATRIX_CLASSES, aligned
from confmax.tables import MemoryTable, make_table, refuse_elsewhere, refuse_too_few_classes
from confmax.tables.seed import RandomState, as_seed

AnyMetric = str | Metric | Callable[[Array], float]
AnyPath = str | os.PathLike[str]


def write(
    path: AnyPath,
    rule: DecisionRule | Solution,
    proba: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    metric: AnyMetric | None = None,
    second: AnyMetric = "accuracy",
    n_replicates: int = 1000,
    level: float = 0.95,
    random_state: RandomState = 0,
    source: str = "rows given",
    again: str | None = None,
    order_known: bool | None = None,
) -> None:
    """Write a report of a finished rule on labelled rows that it was not tuned on.

    Parameters
    ----------
    path : path
        Where to write the HTML page. It is written whole or not at all.
    rule : DecisionRule or Solution
        The rule to evaluate. With a solution, the page also shows gap and convergence, and it warns if the rows are
        the tuning rows.
    proba : array-like (n, K)
        Raw class probabilities, columns in the order of ``rule.classes``.
    y : array-like (n,)
        True classes: names or column numbers.
    sample_weight : array-like (n,) or None
        Non-negative weights.
    metric : str, Metric, callable or None
        The metric to evaluate; by default the one that the rule was tuned for.
    second : str, Metric or callable
        The metric of the trade-off.
    n_replicates : int
        Number of bootstrap replicates, as in `confmax.score`.
    random_state : int, RandomState, Generator or None
        Seed of the bootstrap, as there.
    level : float
        Level of the intervals, as there.
    source : str
        What the page calls the rows, such as the name of a file.
    again : str or None
        The command that makes the page again, as the page shows it; by default this call.
    order_known : bool or None
        Whether to show metrics that depend on the order of the classes. By default they are shown if the tuned metric
        depends on it, too, or if the classes are numbers.

    Raises
    ------
    ValueError
        For bad input, and if the rule does not say what it was tuned for and ``metric`` is None.
    ImportError
        If vl-convert-python (extra ``confmax[report]``) is not installed.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import confmax
    >>> P, y = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]] * 25, [0, 0, 1, 1] * 25
    >>> solution = confmax.maximize("g_mean", P[::2], y[::2])
    >>> confmax.report.write("report.html", solution, P[1::2], y[1::2])  # doctest: +SKIP
    """
    bundle()
    check_place(Path(path))
    solution = rule if isinstance(rule, Solution) else None
    own = solution.rule if solution is not None else rule
    if not isinstance(own, DecisionRule):
        raise ValueError(f"rule is a DecisionRule or a Solution; got {type(rule).__name__}")
    chosen, other = _metric_of(own, solution, metric), resolve(second)
    check_bootstrap(n_replicates, level)
    seed = as_seed(random_state)
    table = _table(proba, y, sample_weight, own.class_names[: own.n_classes], stated=False)
    chosen, other = aligned(chosen, table.classes), aligned(other, table.classes)
    tuned_for = named(own.metric) if solution is None else solution.metric
    if not (order_known or (tuned_for is not None and tuned_for.depends_on_order(table.n_classes))):
        _check_order((chosen, other), table)
    evidence = judged(table, chosen, own, solution)
    call = "solution.report({})" if solution is not None else "confmax.report.write({})"
    first = "" if solution is not None else ", rule"
    given = again or call.format(f"{os.fspath(path)!r}{first}, proba, y")
    settings: list[tuple[str, str]] = [("rule", f"tuned for {own.metric or 'a metric it does not name'}")]
    _finish(path, evidence, other, n_replicates=n_replicates, level=level, seed=seed, source=source,
            again=given, settings=settings, order_known=order_known)  # fmt: skip


def write_cross_fitted(
    path: AnyPath,
    metric: AnyMetric,
    proba: ArrayLike,
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    classes: Sequence[Any] | None = None,
    folds: int = 5,
    second: AnyMetric = "accuracy",
    n_replicates: int = 1000,
    level: float = 0.95,
    random_state: RandomState = 0,
    source: str = "rows given",
    again: str | None = None,
    order_known: bool | None = None,
    solution: Solution | None = None,
    **settings: Any,
) -> Solution:
    """Tune a rule on all rows, and write a report that evaluates it by cross-fitting.

    For each fold, a rule is tuned on the other folds and decides the rows of the fold. These rules are of the kind of
    the rule of all rows: they decide at random only if it does, and they calibrate the probabilities in the same way.

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
        Further keywords of `confmax.maximize`, used for all rows and for every fold.

    Returns
    -------
    Solution
        The one of all rows.

    Raises
    ------
    ValueError
        For bad input, and if no rule can be tuned without one of the folds.
    ImportError
        If vl-convert-python (extra ``confmax[report]``) is not installed.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import confmax
    >>> P, y = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]] * 25, [0, 0, 1, 1] * 25
    >>> solution = confmax.report.write_cross_fitted("report.html", "g_mean", P, y)  # doctest: +SKIP
    """
    bundle()
    check_place(Path(path))
    whole = isinstance(folds, (int, np.integer)) and not isinstance(folds, bool)
    if not (whole and 2 <= folds <= 100):
        raise ValueError(f"folds is a whole number from 2 to 100; got {folds!r}")
    check_bootstrap(n_replicates, level)
    seed = as_seed(random_state)
    table = _table(proba, y, sample_weight, classes)
    chosen, other = (aligned(resolve(each), table.classes) for each in (metric, second))
    if not (order_known or (order_known is None and classes is not None)):
        _check_order((chosen, other) if solution is None else (other,), table)
    own = {"classes": table.classes, "random_state": seed, **settings}

    def tune(kept: NDArray[np.bool_] | slice, kind: Mapping[str, Any]) -> Solution:
        assert table.labels is not None
        weight = None if table.weight is None else table.weight[kept]
        names = np.array(table.classes, dtype=object)[table.labels[kept]]
        return maximize(chosen, table.proba[kept], names, sample_weight=weight, **{**own, **kind})

    found = tune(slice(None), {}) if solution is None else solution
    evidence = cross_fitted(table, found, tune, n_folds=int(folds), seed=seed)
    told = [(name, str(value)) for name, value in settings.items() if name != "callback"]
    pairs = [("metric", repr(found.metric)), ("folds", f"{len(evidence.solutions)}, stratified by class"), *told]
    given = again or f"confmax.report.write_cross_fitted({os.fspath(path)!r}, {repr(chosen)!r}, proba, y)"
    _finish(path, evidence, other, n_replicates=n_replicates, level=level, seed=seed, source=source,
            again=given, settings=pairs, order_known=order_known)  # fmt: skip
    return found


# --- steps -----------------------------------------------------------------------------------------------------------


def _metric_of(rule: DecisionRule, solution: Solution | None, given: AnyMetric | None) -> Metric:
    if given is not None:
        return resolve(given)
    if solution is not None:
        return solution.metric
    metric = named(rule.metric)
    if metric is None and rule.metric == "linear":
        raise ValueError(
            "the rule was tuned for costs, which a rule does not store; pass metric=, what to evaluate it by"
        )
    if metric is None:
        raise ValueError(
            f"the rule was tuned for {rule.metric or 'a metric that it does not name'!r}, which is not in the "
            f"catalogue; pass metric=, what to evaluate it by"
        )
    return metric


def _check_order(metrics: Sequence[Metric], table: MemoryTable) -> None:
    """Refuse metrics that depend on an order of the classes that nobody has given."""
    for metric in metrics:
        if dict(metric.params).get("gain") is None:
            metric.check_table(table.n_classes, table.n_classes)
    ordered = [metric for metric in metrics if metric.depends_on_order(table.n_classes)]
    if ordered and any(isinstance(name, str) for name in table.classes):
        shown = ", ".join(map(str, table.classes[:6]))
        raise ValueError(
            f"{ordered[0].name} depends on the order of the classes and these have names ({shown}); pass "
            f"order_known=True if the columns are in order"
        )


def _check_metric(metric: Metric, K: int, M: int) -> None:
    """Refuse a metric that has no value for M decisions between K classes."""
    gain = dict(metric.params).get("gain")
    metric.check_table(K, K if gain is None else len(gain[0]))
    if M > K and (metric.statistics != "diagonal" if gain is None else len(gain[0]) != M):
        raise ValueError(
            f"{metric.name} is not defined for this rule, which decides between {M} things for {K} classes; name a "
            f"metric of the recalls, such as accuracy, or a table of costs with as many columns"
        )


def _table(proba: Any, y: Any, weight: Any, classes: Sequence[Any] | None, *, stated: bool = True) -> MemoryTable:
    if y is None:
        raise ValueError("a report counts labels; pass y, the true class of every row")
    refuse_elsewhere(
        proba, "a report needs its rows in memory; pass arrays proba (n, K) and y (n,), a sample of the rows"
    )
    table = make_table(proba, y, weight, classes, stated=stated).dense("a report")
    if table.n_classes > MAX_MATRIX_CLASSES:
        raise ValueError(f"a report shows at most {MAX_MATRIX_CLASSES} classes and the table has {table.n_classes}; "
                         f"confmax.score compares rules on more")  # fmt: skip
    refuse_too_few_classes(table)
    return table


def _finish(
    path: AnyPath,
    evidence: Evidence,
    second: Metric,
    *,
    n_replicates: int,
    level: float,
    seed: int,
    source: str,
    again: str,
    settings: list[tuple[str, str]],
    order_known: bool | None,
) -> None:
    table, metric = evidence.table, evidence.metric
    for each in (metric, second):
        _check_metric(each, table.n_classes, evidence.decided.n_decisions)
    if repr(second) == repr(metric):
        # what the tuned metric costs in itself is nothing: what it costs rare classes is
        second = get("balanced_accuracy" if metric.name != "balanced_accuracy" else "accuracy")
    known = order_known
    if known is None:
        known = metric.ordered or not any(isinstance(name, str) for name in table.classes)
    found = figures(evidence, second, order_known=known, n_replicates=int(n_replicates), level=level, seed=int(seed))
    pairs = [
        *settings,
        ("bootstrap", f"{n_replicates:,} replicates of rows, level {level:g}"),
        ("seed", str(seed)),
        ("versions", f"Python {platform.python_version()}, NumPy {np.__version__}"),
    ]
    made = Made(source, __version__, tuple(pairs), again, evidence.rule.to_json())
    write_whole(Path(path), page(found, made).encode())
