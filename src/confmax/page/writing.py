"""From a rule and rows to the file of a page: the checks, and the writing.

The functions read a rule and a solution by their protocols, so that `Solution.report` can call them.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from confmax._version import __version__
from confmax.confusion import MAX_MATRIX_CLASSES, Array
from confmax.evaluate.applicable import named
from confmax.evaluate.evidence import Evidence, evidence_of
from confmax.evaluate.figures import figures
from confmax.evaluate.protocols import Rule, Tuned
from confmax.evaluate.uncertainty import check_bootstrap
from confmax.metrics import Metric, get, resolve
from confmax.metrics.alignment import aligned
from confmax.page.page import Made, check_installed, page
from confmax.places import check_place, write_whole
from confmax.tables import MemoryTable, make_table, refuse_elsewhere, refuse_too_few_classes
from confmax.tables.seed import RandomState, as_seed

AnyMetric = str | Metric | Callable[[Array], float]
AnyPath = str | os.PathLike[str]


@dataclass(frozen=True)
class Settings:
    """What a page shows beside rows and rule, and how: the keywords of `confmax.report.write`."""

    second: AnyMetric = "accuracy"
    n_replicates: int = 1000
    level: float = 0.95
    random_state: RandomState = 0
    source: str = "rows given"
    again: str | None = None
    order_known: bool | None = None

    def checked(self, path: AnyPath) -> Settings:
        """Return the settings with a seed that is a number, once a page can be written to ``path``."""
        check_installed()
        check_place(Path(path))
        check_bootstrap(self.n_replicates, self.level)
        return replace(self, random_state=as_seed(self.random_state))


def write_evaluated(
    path: AnyPath,
    rule: Rule,
    proba: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    solution: Tuned | None = None,
    metric: AnyMetric | None = None,
    **settings: Any,
) -> None:
    """Write a report of a finished rule; `confmax.report.write` describes the arguments.

    ``solution`` is what the rule was found as, if that is known.
    """
    how = Settings(**settings).checked(path)
    chosen, other = _metric_of(rule, solution, metric), resolve(how.second)
    table = table_of(proba, y, sample_weight, rule.class_names[: rule.n_classes], stated=False)
    chosen, other = aligned(chosen, table.classes), aligned(other, table.classes)
    # who tuned for a metric of ordered classes has said that the columns are in order
    tuned_for = named(rule.metric) if solution is None else solution.metric
    if not (how.order_known or (tuned_for is not None and tuned_for.depends_on_order(table.n_classes))):
        check_order((chosen, other), table)
    evidence = evidence_of(table, chosen, rule, solution)
    call = "confmax.report.write({!r}, rule, proba, y)" if solution is None else "solution.report({!r}, proba, y)"
    pairs = [("rule", f"tuned for {rule.metric or 'a metric it does not name'}")]
    finish(path, evidence, other, how, pairs, call.format(os.fspath(path)))


def _metric_of(rule: Rule, solution: Tuned | None, metric_given: AnyMetric | None) -> Metric:
    if metric_given is not None:
        return resolve(metric_given)
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


def check_order(metrics: Sequence[Metric], table: MemoryTable) -> None:
    """Refuse metrics that depend on an order of the classes that nobody has given."""
    for metric in metrics:
        if metric.gain is None:
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
    metric.check_table(K, metric.n_decisions(K))
    if M > K and metric.statistics != "diagonal" and metric.n_decisions(K) != M:
        raise ValueError(
            f"{metric.name} is not defined for this rule, which decides between {M} things for {K} classes; name a "
            f"metric of the recalls, such as accuracy, or a table of costs with as many columns"
        )


def table_of(proba: Any, y: Any, weight: Any, classes: Sequence[Any] | None, *, stated: bool = True) -> MemoryTable:
    """Return the labelled table of a report, its rows in memory."""
    if y is None:
        raise ValueError("a report counts labels; pass y, the true class of every row")
    refuse_elsewhere(
        proba, "a report needs its rows in memory; pass arrays proba (n, K) and y (n,), a sample of the rows"
    )
    # figures read the rows many times: counts, folds, bootstrap
    table = make_table(proba, y, weight, classes, stated=stated).dense("a report")
    if table.n_classes > MAX_MATRIX_CLASSES:
        raise ValueError(f"a report shows at most {MAX_MATRIX_CLASSES} classes and the table has {table.n_classes}; "
                         f"confmax.score compares rules on more")  # fmt: skip
    refuse_too_few_classes(table)
    return table


def finish(
    path: AnyPath, evidence: Evidence, second: Metric, how: Settings, pairs: list[tuple[str, str]], call: str
) -> None:
    """Compute the figures and write the page.

    ``second`` is the metric of the trade-off, ``pairs`` are further settings to show, and ``call`` makes the page again
    where nothing else is said to.
    """
    table, metric = evidence.table, evidence.metric
    for one in (metric, second):
        _check_metric(one, table.n_classes, evidence.decided.n_decisions)
    if repr(second) == repr(metric):
        # the trade-off shows what the tuned metric costs in another one
        is_balanced = replace(metric, classes=None) == get("balanced_accuracy")
        second = get("accuracy" if is_balanced else "balanced_accuracy")
    known = how.order_known
    # numbers are in order, names may be in any
    if known is None:
        known = metric.ordered or not any(isinstance(name, str) for name in table.classes)
    # the seed stands on the page, so that the page can be made again
    seed = as_seed(how.random_state)
    numbers = figures(
        evidence, second, order_known=known, n_replicates=int(how.n_replicates), level=how.level, seed=seed
    )
    shown = [
        *pairs,
        ("bootstrap", f"{how.n_replicates:,} replicates of rows, level {how.level:g}"),
        ("seed", str(seed)),
        ("versions", f"Python {platform.python_version()}, NumPy {np.__version__}"),
    ]
    made = Made(how.source, __version__, shown, how.again or call, evidence.rule.to_json())
    write_whole(Path(path), page(numbers, made).encode())
