"""What goes together: the rows of a file, a rule and a metric."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from confmax.cli import app
from confmax.cli.columns import FileRows, TableOptions, read_rows
from confmax.cli.csvs import as_names
from confmax.cli.in_parts import rows_in_parts
from confmax.cli.tables import read_frame
from confmax.cli.texts import joined
from confmax.confusion import MAX_MATRIX_CLASSES
from confmax.constraints import Constraint
from confmax.constraints.binding import naming
from confmax.metrics import Metric
from confmax.metrics.alignment import aligned, or_its_name
from confmax.metrics.catalogue import metric_of
from confmax.rule import DecisionRule
from confmax.tables.labels import Coded, coded_labels, is_missing, plain
from confmax.tables.partitioned.parts import RawPart


def not_applicable(metric: Metric, rows: FileRows) -> str:
    """Return why a metric has no value on these rows, nothing if it has."""
    K = len(rows.classes)
    if metric.binary and K != 2:
        of_one = f"; for one class write {metric.name}[NAME]" if metric.one_class else ""
        return f"for two classes; the file has {K}{of_one}"
    if metric.statistics == "matrix" and K > MAX_MATRIX_CLASSES:
        return f"the confusion matrix of {K} classes is too large"
    if rows.order_known or not metric.ordered:
        return ""
    positive = ", or name the positive class with --positive" if K == 2 else ""
    return f"the order of the classes is not known; give it with --classes{positive}"


def check_applies(metric: Metric, rows: FileRows) -> None:
    """Refuse a metric that was asked for by name and has no value on these rows."""
    K = len(rows.classes)
    if metric.binary:
        metric.check_table(K, K)  # with more classes no order helps
    why = not_applicable(metric, rows)
    if why and "order" in why:
        positive = " (the negative first), or the positive one with --positive" if K == 2 else ""
        raise ValueError(
            f"{metric.name} depends on the order of the classes, and the order of {joined(rows.classes)} is not known; "
            f"give the order with --classes{positive}{or_its_name(metric, rows.classes)}"
        )
    if why:
        raise ValueError(f"{metric.name} does not apply: {why}")


def check_limits(limits: Iterable[Constraint], rows: FileRows) -> None:
    """Refuse limits that depend on the order of the classes, where that is not known, as metrics are."""
    for one in limits:
        if one.metric.ordered:
            with naming(one):
                check_applies(one.metric, rows)


def name_beside(text: str, classes: Sequence[Any]) -> Any:
    """Return the name of a further decision as a command line gives it, as a number where the ``classes`` are numbers.

    >>> name_beside("-1", [0, 1]), name_beside("later", [0, 1]), name_beside("-1", ["no", "yes"])
    (-1, 'later', '-1')
    """
    is_text = any(isinstance(name, str) for name in classes)
    return text if is_text else as_names([text]).tolist()[0]


def rows_for(
    rules: Mapping[str, DecisionRule],
    file: Path,
    options: TableOptions,
    *,
    in_parts: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> FileRows:
    """Return the rows of a file, matched to the first of ``rules``, by their files; the notes on them are printed.

    Refuse rules that decide by groups without the column of these. Rows ``in_parts`` tell ``progress`` how many of a
    pass are read.
    """
    for path, rule in rules.items():
        _check_group(rule, path, options.group)
    first = next(iter(rules.values()), None)
    # whose probability a single column of scores is may be known from what the rule was tuned for
    known = () if first is None else (first.class_names[: first.n_classes], positive_of(first))
    if in_parts:
        rows = rows_in_parts(file, options, progress, *known[:1])
    else:
        rows = read_rows(read_frame(file, options.sep), options, *known)
    app.warn(*rows.notes)
    if in_parts and first is not None and not (options.group is None and options.label is None):
        # labels are matched as they are written, too
        return replace(rows, proba=rows.proba.kept(partial(_typed_part, first.groups, rows.classes)))
    return rows if first is None or rows.group is None else replace(rows, group=typed(rows.group, first.groups))


def over(rule: DecisionRule, classes: tuple[Any, ...]) -> DecisionRule:
    """Return the rule with its classes in this order, further decisions behind them."""
    return rule.reordered((*classes, *rule.class_names[rule.n_classes :]))


def positive_of(rule: DecisionRule) -> Any:
    """Return the positive class of a rule of two classes, None where its metric has none.

    Of a metric that names its class, such as ``f1[yes]``, it is this class.
    """
    own = rule.class_names[: rule.n_classes]
    metric = tuned_metric(rule, own)
    # without places the last of two classes is the positive one, as for scikit-learn
    if metric is None or len(own) != 2 or not (metric.binary or metric.one_class):
        return None
    return own[(metric.classes or (0, 1))[-1]]


def tuned_metric(rule: DecisionRule, classes: Sequence[Any], *, order_known: bool = True) -> Metric | None:
    """Return the metric that a rule was tuned for, over its classes in this order; None where its file does not say.

    One of the last of two classes names this class where another one is the last here, or the order is not known.
    """
    own = rule.class_names[: rule.n_classes]
    # a rule file holds its metric as text; one by a function of the user's own is not known here
    metric = metric_of(rule)
    try:
        metric = metric and aligned(metric, own)
    except ValueError:  # a rule whose classes were renamed
        return None
    if metric is None:
        return None
    if metric.classes is None:
        same = order_known and tuple(classes) == tuple(own)
        if same or len(own) != 2 or not metric.binary:
            return metric
        if metric.one_class:
            return aligned(replace(metric, label=own[-1], binary=False, ordered=False), classes)
        return metric if tuple(classes) == tuple(own) else replace(metric, classes=(1, 0))
    # text of a file may name places that the rule does not have
    if max(metric.classes) >= len(own):
        return None
    place = {name: k for k, name in enumerate(classes)}
    places = tuple(place[own[k]] for k in metric.classes)
    in_order = metric.label is None and places == tuple(range(len(own)))
    return replace(metric, classes=None if in_order else places)


def _check_group(rule: DecisionRule, path: str, group: str | None) -> None:
    """Refuse, for a rule that decides by groups, a command line without the column of these."""
    if not rule.groups_known:
        raise ValueError(
            f"{path} decides by the probabilities of groups, which no file holds; use predict of the library"
        )
    if rule.groups and group is None:
        known = joined([str(name) for name in rule.groups])
        raise click.UsageError(f"{path} decides by the groups {known}; give --group, the column of these")


def typed(group: Sequence[Any] | NDArray[Any], known: Sequence[Any]) -> Any:
    """Return names of groups as a rule has them: a file may hold numbers as text."""
    as_known = {str(name): name for name in known}
    return [as_known.get(str(name), name) for name in group] if known else group


def _typed_part(groups: Sequence[Any], classes: Sequence[Any], part: RawPart) -> RawPart:
    """Return a part of the rows with its groups and labels as a rule has them."""
    group = part.group if part.group is None or not groups else _typed(part.group, groups)
    labels = part.labels
    numbered = isinstance(labels, np.ndarray) and labels.dtype.kind in "iu" and isinstance(classes[0], int)
    return replace(part, group=group, labels=labels if labels is None or numbered else _typed(labels, classes))


def _typed(names: Any, known: Sequence[Any]) -> Coded:
    """Return names of rows as those that are ``known``; what is missing is refused where it is used."""
    coded = coded_labels(names)
    values = np.empty(len(coded.values), dtype=object)
    values[:] = [name if is_missing(name) else typed([plain(name)], known)[0] for name in coded.values]
    return Coded(values, coded.index)
