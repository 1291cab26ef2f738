"""Where a metric meets the classes of a table: what it says by name finds its column here, and nowhere else.

Tables of costs with names, metrics of one class, and the positive one of two classes are placed by these functions, for
`maximize`, `score`, estimators, reports and the command line alike.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import count, islice
from typing import Any

from confmax.metrics.metric import Metric
from confmax.metrics.structure import Linear
from confmax.tables.columns import find, table_order
from confmax.tables.labels import plain

SHOWN = 6  # classes in a message


def aligned(metric: Metric, classes: Sequence[Any]) -> Metric:
    """Return a metric that finds classes by their names, placed among the classes of a table; others as they are.

    A table of gains with names is put into the order of the classes; a metric of one class finds its column.

    Parameters
    ----------
    metric : Metric
        Any metric.
    classes : sequence
        The K classes in the order of the table of probabilities.

    Raises
    ------
    ValueError
        If the names of a table of gains are not those of the classes, or a metric's class is none of them.

    Examples
    --------
    >>> import pandas as pd
    >>> from confmax import metrics
    >>> costs = pd.DataFrame([[0, 1], [5, 0]], index=["no", "yes"], columns=["no", "yes"])
    >>> aligned(metrics.get("linear", cost=costs), ["yes", "no"]).structure.gain
    ((-0.0, -5.0), (-1.0, -0.0))
    >>> aligned(metrics.get("recall[no]"), ["yes", "no"]).classes
    (1,)
    """
    if metric.label is not None and metric.classes is None:
        names = [str(plain(name)) for name in classes]
        found = find(names, [metric.label], whole=False, affix=False)
        quoted = re.fullmatch(r"""(['"])(.+)\1""", str(metric.label), re.DOTALL)
        if found.places is None and quoted is not None:  # as in recall['no']
            metric = replace(metric, label=quoted[2])
            found = find(names, [metric.label], whole=False, affix=False)
        if found.places is None:
            shown = ", ".join(map(repr, classes[:SHOWN])) + (", ..." if len(classes) > SHOWN else "")
            raise ValueError(f"{metric!r} names a class that the table does not have; its classes are {shown}")
        return metric.of_class(found.places[0], len(classes))
    gain = metric.structure.gain if isinstance(metric.structure, Linear) else None
    if metric.names is None or gain is None or len(gain) != len(classes):
        return metric
    lines, places = table_order(*metric.names, (len(gain), len(gain[0])), classes)
    moved = tuple(tuple(gain[i][j] for j in places) for i in lines)
    decisions = metric.names[1] or (*classes, *extra_names(tuple(classes), len(places)))
    further = tuple(decisions[j] for j in places[len(classes) :])
    return replace(metric, structure=Linear(moved), names=(tuple(classes), (*classes, *further)))


def with_positive(metric: Metric, classes: Sequence[Any], pos_label: Any) -> Metric:
    """Return a metric that counts ``pos_label`` as the positive one of two ``classes``; others as they are for None.

    Metrics that name their class, and tables of gains with names, are aligned by their names instead.

    Raises
    ------
    ValueError
        If there are not two classes, or ``pos_label`` is none of them.

    Examples
    --------
    >>> from confmax import metrics
    >>> with_positive(metrics.get("f1"), ["no", "yes"], "no").classes
    (1, 0)
    """
    if pos_label is None:
        return metric
    names = [plain(name) for name in classes]
    if len(names) != 2 or plain(pos_label) not in names:
        shown = ", ".join(map(repr, names[:SHOWN])) + (", ..." if len(names) > SHOWN else "")
        raise ValueError(
            f"pos_label must be one of two classes; got {pos_label!r} with {len(names)} classes ({shown}); for more "
            f"than two, pass classes= (estimators: labels=) in order, or a metric of one class, such as f1[{names[0]}]"
        )
    return in_given_order(metric, (1, 0) if names.index(plain(pos_label)) == 0 else (0, 1))


def or_its_name(metric: Metric, classes: Sequence[Any]) -> str:
    """Return how a sentence about the order goes on for a metric of one class, which can name its class; else nothing.

    Examples
    --------
    >>> from confmax import metrics
    >>> or_its_name(metrics.get("f1"), ["no", "yes"])
    ', or name the class, as in f1[yes]'
    """
    return f", or name the class, as in {metric.name}[{classes[-1]}]" if metric.one_class else ""


def in_given_order(metric: Metric, order: Sequence[int]) -> Metric:
    """Return a metric that counts the columns (K,) of a table in this ``order``, unless names have placed it."""
    if metric.names is not None or metric.label is not None or list(order) == list(range(len(order))):
        return metric
    return replace(metric, classes=tuple(order[k] for k in metric.classes or range(len(order))))


def extra_names(classes: tuple[Any, ...], n_decisions: int) -> tuple[Any, ...]:
    """Return names for decisions beyond the classes, such as abstaining, which no class has."""
    K = len(classes)
    if not all(isinstance(name, int) for name in classes):
        return tuple(f"decision {k}" for k in range(K, n_decisions))
    return tuple(islice((k for k in count(K) if k not in classes), n_decisions - K))
