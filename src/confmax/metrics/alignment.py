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

from confmax.errors import InputError
from confmax.metrics.metric import Metric
from confmax.metrics.rates import NOT, OR
from confmax.metrics.structure import Linear
from confmax.tables import Table, refuse_too_few_classes
from confmax.tables.columns import find, table_order, warn
from confmax.tables.labels import plain

SHOWN = 6  # classes in a message
COMPARED = 1000  # classes that a wrong name is compared with
MOST_ABSENT = 20  # names of absent classes
MATRIX_CELLS = 1 << 24  # of a confusion matrix that a metric needs


def aligned(metric: Metric, classes: Sequence[Any]) -> Metric:
    """Return a ``metric`` that finds classes by name, placed among ``classes`` (K) of a table; others as they are.

    A table of gains with names is put into the order of the classes; a metric of one class finds its column. Raise a
    ValueError if the names of a table of gains are not those of the classes, or a metric's class is none of them.

    >>> from confmax import metrics
    >>> aligned(metrics.get("recall[no]"), ["yes", "no"]).classes
    (1,)
    """
    if metric.label is not None and metric.classes is None:
        column, label = _column(metric.label, classes)
        metric = replace(metric, label=label)
        if column is None:
            raise ValueError(_missing(metric.name, label, classes))
        return metric.of_class(column, len(classes))
    if metric.formula.class_names:
        formula, used = metric.formula.placed([_columns(name, classes) for name in metric.formula.class_names])
        return replace(metric, formula=formula, classes=used)
    gain = metric.gain
    if metric.names is None or gain is None or len(gain) != len(classes):
        return metric
    lines, places = table_order(*metric.names, (len(gain), len(gain[0])), classes)
    moved = tuple(tuple(gain[i][j] for j in places) for i in lines)
    decisions = metric.names[1] or (*classes, *extra_names(tuple(classes), len(places)))
    further = tuple(decisions[j] for j in places[len(classes) :])
    structure = Linear(moved, metric.is_cost, fractions=metric.structure.fractions)
    return replace(metric, structure=structure, names=(tuple(classes), (*classes, *further)))


def _column(label: Any, classes: Sequence[Any]) -> tuple[int | None, Any]:
    """Return the column of the class ``label`` among ``classes``, None if there is none, and the label as it is found.

    It may stand in quotes, as in ``recall['no']``.
    """
    names = [str(plain(name)) for name in classes]
    quoted = re.fullmatch(r"""(['"])(.+)\1""", str(label), re.DOTALL)
    # a class may have quotes in its name, so they are taken as they are first
    for written in (label, *([quoted[2]] if quoted else [])):
        label = written
        found = find(names, [label], whole=False, affix=False)
        if found.places is not None:
            return found.places[0], label
    return None, label


def _columns(name: str, classes: Sequence[Any]) -> list[int]:
    """Return the columns of ``A or B``, or of all classes but A for ``not A``; a class of this name comes first."""
    column, _ = _column(name, classes)
    if column is not None:
        return [column]
    if OR in name:
        return [k for part in name.split(OR) for k in _columns(part.strip(), classes)]
    if name.startswith(NOT):
        left_out, _ = _column(name.removeprefix(NOT).strip(), classes)
        if left_out is not None:
            return [k for k in range(len(classes)) if k != left_out]
    raise ValueError(_missing("rate", name, classes))


def _missing(name: str, label: Any, classes: Sequence[Any]) -> str:
    """Return the sentence for a metric of a class that a table does not have."""
    # names are compared one by one, and of very many classes that would take long
    import difflib

    near = difflib.get_close_matches(str(label), [str(plain(name)) for name in classes[:COMPARED]], cutoff=0.5)
    hint = f"; did you mean {' or '.join(f'{name}[{other}]' for other in near)}?" if near else ""
    return f"{name}[{label}] names a class that the table does not have; its classes are {_listed(classes)}{hint}"


def with_positive(metric: Metric, classes: Sequence[Any], pos_label: Any) -> Metric:
    """Return a metric that counts ``pos_label`` as the positive one of two ``classes``; as it is for None.

    Metrics that name their class, and tables of gains with names, are aligned by their names instead. Raise a
    ValueError if there are not two classes, or ``pos_label`` is none of them.
    """
    if pos_label is None:
        return metric
    names = [plain(name) for name in classes]
    if len(names) != 2 or plain(pos_label) not in names:
        raise ValueError(
            f"pos_label must be one of two classes; got {pos_label!r} with {len(names)} classes ({_listed(names)}); "
            f"for more than two, pass classes= (estimators: labels=) in order, or a metric of one class, such as "
            f"f1[{names[0]}]"
        )
    return in_given_order(metric, (1, 0) if names.index(plain(pos_label)) == 0 else (0, 1))


def positive_class(metric: Metric) -> int:
    """Return the column of the class that a metric of two classes is of: its own, or the second one in its order."""
    has_order = metric.ordered or metric.label is not None
    return int(metric.classes[-1]) if has_order and metric.classes is not None else 1


def class_asked_about(metric: Metric, classes: Sequence[Any]) -> int:
    """Return the column of the class that a metric of two ``classes`` is of: its label, or the positive one."""
    column = None if metric.label is None else _column(metric.label, classes)[0]
    return positive_class(metric) if column is None else column


def or_its_name(metric: Metric, classes: Sequence[Any]) -> str:
    """Return how a sentence about the order goes on for a metric that can name its class; for others nothing."""
    # one of two alone would be taken for the one that is meant
    named = " or ".join(f"{metric.name}[{name}]" for name in classes)
    return f", or name the class, {named}" if metric.one_class else ""


def refuse_unstated_order(metric: Metric, classes: Sequence[Any], way_out: str) -> None:
    """Refuse, by a ValueError, a metric that depends on the order of the classes, where they have names.

    Numbers have an order, names only their alphabet, which is seldom the order that is meant.
    """
    if any(isinstance(name, str) for name in classes) and metric.depends_on_order(len(classes)):
        raise InputError(
            f"{metric.name} depends on the order of the classes and y holds names ({_listed(classes)})",
            way_out + or_its_name(metric, classes),
        )


def _listed(names: Sequence[Any]) -> str:
    """Return the first names for a message."""
    return ", ".join(map(repr, names[:SHOWN])) + (", ..." if len(names) > SHOWN else "")


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


def _named(classes: Sequence[Any]) -> str:
    """Return the names of absent classes for a message."""
    more = f" and {len(classes) - MOST_ABSENT} more" if len(classes) > MOST_ABSENT else ""
    return ", ".join(map(str, classes[:MOST_ABSENT])) + more


def fit_metric(metric: Metric, table: Table, *, explicit: bool, barred: Sequence[int] = ()) -> Metric:
    """Return ``metric`` for ``table``, without the absent classes if it divides by priors.

    A ValueError if it depends on the order of the classes, and that is not ``explicit``: it was not given. Classes that
    are ``barred`` are never decided, because no row has them: a warning names them.
    """
    present = refuse_too_few_classes(table)
    n_decisions = metric.n_decisions(table.n_classes)
    # refused here and not at the end of a long search, where the matrix is made
    if metric.statistics == "matrix" and table.n_classes * n_decisions > MATRIX_CELLS:
        raise ValueError(
            f"the whole confusion matrix of {table.n_classes} classes has {table.n_classes * n_decisions:,} entries, "
            f"more than {MATRIX_CELLS:,}, and {metric.name} reads all of them; use a metric of its diagonal and "
            f"column sums such as macro_f1, or merge classes"
        )
    # first the number of classes: no order of them would help a metric that does not fit it
    metric.check_table(table.n_classes, n_decisions)
    metric = aligned(metric, table.classes)
    if not explicit:
        refuse_unstated_order(
            metric,
            table.classes,
            "pass `classes=` with the names in column order (for two classes: the negative, then the positive, or "
            "pos_label= with the latter)",
        )
    used = metric.divided_by(table.n_classes)
    kept = [k for k in used if present[k]]
    source = "`y`" if table.has_labels else "`proba`"
    never = _named([table.classes[k] for k in barred])
    if len(kept) == len(used):
        if metric.class_place in barred:
            raise InputError(
                f"no row of {source} has the class of {metric!r}, so no rule decides it",
                "take rows that include this class, or another metric",
            )
        # who chose the classes of a mean has left the others out
        if barred and (metric.one_class or metric.classes is None):
            which, it = ("class", "it") if len(barred) == 1 else ("classes", "them")
            warn(
                f"no row of y has the {which} {never}: the rule never decides {it}, and metrics that are a mean over "
                f"all classes, such as macro F1, count {it} as 0"
            )
        return metric
    absent = _named([table.classes[k] for k in used if not present[k]])
    # other metrics go on with the classes that are present; a metric of one class has no other
    if metric.one_class:
        raise InputError(
            f"{metric!r} divides by the size of class {absent}, of which {source} has no weight",
            "take rows that include this class, or another metric",
        )
    if len(kept) < 2:
        raise InputError(
            f"{metric.name} is computed over {len(used)} classes, but {source} has no weight in {absent}",
            "at least two classes must be present",
        )
    warn(
        f"{metric.name} divides by class sizes and {source} has no weight in class {absent}: the metric is computed "
        f"over the {len(kept)} classes that are present{f', and the rule never decides {never}' if barred else ''}"
    )
    return replace(metric, classes=tuple(kept))
