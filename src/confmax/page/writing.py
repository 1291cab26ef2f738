"""From a rule and rows to the file of a page: the checks, the template, and the writing.

The functions read a rule and a solution by their protocols, so that `Solution.report` can call them. The page is one
HTML document that holds its own style, script, charts and numbers, and loads nothing. The template `page.html.jinja`
holds the structure and the sentences that are always true. `words` and `cautions` write those that depend on the
figures.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from confmax._version import __version__
from confmax.calibration.words import tuned_for as in_words
from confmax.confusion import MAX_MATRIX_CLASSES
from confmax.errors import InputError
from confmax.evaluate.evidence import Evidence, evidence_of, judge_rule
from confmax.evaluate.figures import CLASS_INTERVALS, Figures, figures
from confmax.evaluate.judging import LABELS, labelled_rows, labelled_table
from confmax.evaluate.label_figures import TunedLabels
from confmax.evaluate.palette import style_variables
from confmax.evaluate.protocols import Tuned
from confmax.evaluate.seen import seen_by_tuning
from confmax.evaluate.uncertainty import AnyMetric, check_bootstrap
from confmax.evaluate.verdict import AS_GOOD
from confmax.metrics import Metric, get, resolve
from confmax.metrics.alignment import aligned
from confmax.metrics.catalogue import metric_of
from confmax.metrics.decided import as_written
from confmax.page import coverage_words, sections, words
from confmax.page.cautions import warnings_of
from confmax.page.charts import charts
from confmax.page.label_page import write_labels
from confmax.page.template import POLICY, Settings, environment, resource
from confmax.places import check_place, write_whole
from confmax.rule import DecisionRule, LabelRule
from confmax.tables import Part, Table, make_table, refuse_elsewhere, refuse_too_few_classes
from confmax.tables.columns import warn
from confmax.tables.draws import RandomState, as_seed
from confmax.tables.groups import Groups

AnyPath = str | os.PathLike[str]


def write(
    path: AnyPath,
    rule: DecisionRule | Tuned,
    proba: Any,
    y: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    *,
    group: ArrayLike | None = None,
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
    rule : DecisionRule, LabelRule or a solution of either
        The rule to evaluate. With a solution, the page also shows gap and convergence. The page of several labels per
        row shows other figures: metrics, limits, every label, and labels per row.
    proba : array-like or data frame (n, K), Dask collection, rows that stream, or a table of `confmax.open_table`
        Raw class probabilities, columns in the order of ``rule.classes``. An opened table brings labels, weights and
        groups. Rows that are not in memory are counted in parts, and what needs them one by one is that of a sample, as
        the page says.
    y : array-like (n,), or (n, L) for several labels, or str
        True classes: names or column numbers, or the name of their column, as for `confmax.score`. With several labels
        per row as for `confmax.maximize`.
    sample_weight : array-like (n,) or None
        Non-negative weights.
    group : array-like (n,) or None
        The group of each row. The page then has a section with every metric by group. Rules that decide by groups need
        it.
    metric : str, Metric, callable or None
        The metric to evaluate; by default the one that the rule was tuned for.
    second : str, Metric or callable
        The metric of the trade-off; the page of several labels has none.
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
        For bad input, and if the rule does not say what it was tuned for and ``metric`` is None. If the rule decides by
        groups, and the group of a row is missing or the rule does not know it.
    ImportError
        If the extra ``confmax[report]`` is not installed.
    OSError
        If the file cannot be written.

    Warns
    -----
    UserWarning
        If the rule was tuned on exactly these rows, whatever their order.

    Examples
    --------
    >>> import confmax
    >>> P, y = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]] * 25, [0, 0, 1, 1] * 25
    >>> solution = confmax.maximize("g_mean", P[::2], y[::2])
    >>> confmax.report.write("report.html", solution, P[1::2], y[1::2])  # doctest: +SKIP
    """
    solution = rule if isinstance(rule, Tuned) else None
    evaluated = rule.rule if isinstance(rule, Tuned) else rule
    if isinstance(evaluated, LabelRule):
        how = Settings(n_replicates, level, as_seed(random_state), source, again)
        check_first(path, how.n_replicates, how.level, charts=False)
        if group is not None:
            raise InputError("`group` is of one class for every row, and this rule decides several labels")
        of_labels = None if solution is None else cast(TunedLabels, solution)
        rows, (y, sample_weight, _) = labelled_rows(proba, (y, sample_weight, None), evaluated.class_names)
        write_labels(path, evaluated, of_labels, (rows, y, sample_weight), metric, how)
        return
    if not isinstance(evaluated, DecisionRule):
        raise ValueError(f"rule is a DecisionRule or a Solution; got {type(rule).__name__}")
    how = Settings(n_replicates, level, as_seed(random_state), source, again, order_known)
    check_first(path, how.n_replicates, how.level)
    chosen = as_written(_metric_of(evaluated, solution, metric))
    other = resolve(second)
    names = evaluated.class_names[: evaluated.n_classes]
    proba, (y, sample_weight, group) = labelled_rows(proba, (y, sample_weight, group), names)
    rows = labelled_table(proba, (y, sample_weight, group), names, stated=False, what="a report")
    _check_classes(rows.classes)
    # what needs rows one by one is that of a sample, where they are not all here
    whole = None if rows.held else judge_rule(rows, evaluated)
    refuse_too_few_classes(rows)
    table = rows.head.dense("a report")
    chosen = aligned(chosen, table.classes)
    other = aligned(other, table.classes)
    # who tuned for a metric of ordered classes has said that the columns are in order
    tuned_for = metric_of(evaluated) if solution is None else solution.metric
    if not (how.order_known or (tuned_for is not None and tuned_for.depends_on_order(table.n_classes))):
        check_order((chosen, other), table)
    evidence = evidence_of(table, chosen, evaluated, solution, whole)
    if evidence.seen:
        warn(seen_by_tuning(table.n_rows if whole is None else whole.table.n_rows))
    call = "confmax.report.write({!r}, rule, proba, y{})" if solution is None else "solution.report({!r}, proba, y{})"
    pairs = [("rule", f"tuned for {in_words(evaluated) or 'a metric it does not name'}")]
    beside = "" if group is None else ", group=group"
    finish(path, evidence, other, how, pairs, call.format(os.fspath(path), beside))


def check_first(path: AnyPath, n_replicates: int, level: float, *, charts: bool = True) -> None:
    """Refuse what can be refused before anything is computed."""
    check_installed(charts=charts)
    check_place(Path(path))
    check_bootstrap(n_replicates, level)


def _metric_of(rule: DecisionRule, solution: Tuned | None, metric_given: AnyMetric | None) -> Metric:
    if metric_given is not None:
        return resolve(metric_given)
    if solution is not None:
        return solution.metric
    metric = metric_of(rule)
    if metric is None:
        what = f"{rule.metric or 'a metric that it does not name'!r}, which is not in the catalogue"
        raise InputError(f"the rule was tuned for {what}", "pass `metric=`, what to evaluate it by")
    return metric


def check_order(metrics: Sequence[Metric], table: Part) -> None:
    """Refuse metrics that depend on an order of the classes that nobody has given."""
    for metric in metrics:
        if metric.gain is None:
            metric.check_table(table.n_classes, table.n_classes)
    ordered = [metric for metric in metrics if metric.depends_on_order(table.n_classes)]
    if ordered and any(isinstance(name, str) for name in table.classes):
        shown = ", ".join(map(str, table.classes[:6]))
        raise InputError(
            f"{ordered[0].name} depends on the order of the classes and these have names ({shown})",
            "if the columns are in order, say so with `order_known=True`",
        )


def table_of(
    proba: Any, y: Any, weight: Any, classes: Sequence[Any] | None, group: Any, *, stated: bool = True
) -> Part:
    """Return the labelled table of a report, its rows in memory, with the ``group`` (n,) of each, if there is one."""
    if y is None:
        raise InputError("a report counts labels", f"pass `y=`, {LABELS}")
    in_memory = "a cross-fitted report needs its rows in memory; pass arrays proba (n, K) and y (n,), a sample of them"
    refuse_elsewhere(proba, in_memory)
    # figures read the rows many times: counts, folds, bootstrap
    table = make_table(proba, y, weight, classes, stated=stated).gathered("a report").dense("a report")
    _check_classes(table.classes)
    refuse_too_few_classes(Table.of(table))
    return table if group is None else replace(table, groups=Groups.of(group, table.n_rows, proba=proba))


def _check_classes(classes: Sequence[Any]) -> None:
    if len(classes) > MAX_MATRIX_CLASSES:
        raise ValueError(
            f"a report shows at most {MAX_MATRIX_CLASSES} classes and the table has {len(classes)}; "
            f"confmax.score compares rules on more"
        )


def check_metrics(metrics: Sequence[Metric], n_classes: int, n_decisions: int, *, abstains: bool) -> None:
    """Refuse metrics that are not defined for a rule of so many classes and decisions, which may abstain."""
    K = n_classes
    M = n_decisions
    for chosen in metrics:
        chosen.check_table(K, chosen.n_decisions(K))
        # a rule that abstains is read on the rows that it decides
        if M > K and not abstains and chosen.statistics != "diagonal" and chosen.n_decisions(K) != M:
            raise ValueError(
                f"{chosen.name} is not defined for this rule, which decides between {M} things for {K} classes; name a "
                f"metric of the recalls, such as accuracy, or a table of costs with as many columns"
            )


def finish(
    path: AnyPath, evidence: Evidence, second: Metric, how: Settings, pairs: list[tuple[str, str]], call: str
) -> None:
    """Compute the figures and write the page.

    ``second`` is the metric of the trade-off, ``pairs`` are further settings to show, and ``call`` makes the page again
    where nothing else is said to.
    """
    table = evidence.table
    metric = evidence.metric
    K = table.n_classes
    M = evidence.decided.n_decisions
    check_metrics((metric, second), K, M, abstains=evidence.decided.abstains)
    if repr(second) == repr(metric):
        # the trade-off shows what the tuned metric costs in another one
        is_balanced = replace(metric, classes=None) == get("balanced_accuracy")
        second = get("accuracy" if is_balanced else "balanced_accuracy")
    known = how.order_known
    # numbers are in order, names may be in any
    if known is None:
        known = metric.ordered or not any(isinstance(name, str) for name in table.classes)
    replicates = int(how.n_replicates)
    numbers = figures(evidence, second, order_known=known, n_replicates=replicates, level=how.level, seed=how.seed)
    settings = [
        *pairs,
        ("bootstrap", f"{how.n_replicates:,} replicates of rows, level {how.level:g}"),
        # so that the page can be made again
        ("seed", str(how.seed)),
        ("versions", f"Python {platform.python_version()}, NumPy {np.__version__}"),
    ]
    made = {
        "source": how.source,
        "version": __version__,
        "settings": settings,
        "again": how.again or call,
        "rule": evidence.rule.to_json(),
    }
    write_whole(Path(path), page(numbers, made).encode())


# --- the document -----------------------------------------------------------------------------------------------------


def check_installed(*, charts: bool = True) -> None:
    """Refuse, by an ImportError, to write a page, with ``charts`` or without, if ``confmax[report]`` is missing."""
    charts_need = ("vl_convert", "vl-convert-python, which holds the charts' library")
    for name, what in (charts_need, ("jinja2", "jinja2, which fills in the page's template")):
        if find_spec(name) is None and (charts or name != "vl_convert"):
            raise ImportError(f"a report needs {what}; install it with: pip install 'confmax[report]'")


def page(figures: Figures, made: dict[str, Any]) -> str:
    """Return the document; the same figures give the same text.

    ``made`` says how: ``source``, what the rows are, the ``version`` of confmax, ``settings``, pairs of names and
    values that the figures depend on, ``again``, the call that makes the page again, and the ``rule`` as JSON.
    """
    from markupsafe import Markup

    drawn = charts(figures)
    shown = figures.change.shown()
    columns = figures.change.columns(shown)
    share, change = figures.change.limits()
    # what the template may use; only the texts of this package are Markup, all else is escaped
    values = {
        "figures": figures,
        "made": made,
        "words": words,
        "coverage_words": coverage_words,
        "sections": sections,
        "charts": drawn,
        "warnings": warnings_of(figures),
        "shown": shown,
        "columns": columns,
        "column_names": [figures.names[k] for k in columns],
        "largest_share": share,
        "largest_change": change,
        "class_intervals": CLASS_INTERVALS,
        "as_good": AS_GOOD,
        "policy": Markup(POLICY),
        "style": Markup(f"{style_variables()}\n{resource('page.css')}"),
        "specs": {name: chart.spec for name, chart in drawn.items()},
        "bundle": Markup(bundle()),
        "script": Markup(resource("page.js")),
    }
    return str(environment().from_string(resource("page.html.jinja")).render(values))


@cache
def bundle() -> str:
    """Return Vega, Vega-Lite and their embedding as one script."""
    import vl_convert

    text = str(vl_convert.javascript_bundle("window.vegaEmbed=vegaEmbed;"))
    # the page's script element would end at the first of these texts, wherever it stands
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")
