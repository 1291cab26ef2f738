"""The quantities that can be limited, by functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from inspect import Parameter, Signature
from typing import Any

from confmax.constraints.texts import metric_text
from confmax.constraints.words import Constraint, Quantity
from confmax.metrics import Metric, catalogue, get
from confmax.metrics.rates import LABELS_PER_ROW, NOT, OR, sum_of_rates
from confmax.metrics.shares import RATE
from confmax.metrics.structure import Linear


def quantity(metric: str | Metric | Quantity, label: Any = None, **params: Any) -> Quantity:
    """Return any metric as a quantity to limit.

    Parameters
    ----------
    metric : str, Metric or Quantity
        A name as for `confmax.metrics.get`, or "rate" or "fpr"; or a metric. Its structure is linear or a ratio, or it
        is the smallest recall or a mean of the recalls.
    label : str, int, float or None
        The class of a metric of one class; None for the positive one of two classes.
    **params
        Parameters of the metric, such as ``beta``.

    Raises
    ------
    ValueError
        If there is no such metric, or it has no such parameter.

    Examples
    --------
    >>> from confmax import constraints as c
    >>> c.quantity("micro_f1") >= 0.5
    Constraint('micro_f1 >= 0.5')
    """
    if isinstance(metric, Quantity):
        metric = metric.metric
    given = params if label is None else {**params, "label": label}
    if isinstance(metric, Metric):
        if given:
            raise ValueError(f"{', '.join(given)} of {metric!r} cannot be changed here; pass the name of the metric")
        return Quantity(metric)
    if not isinstance(metric, str):
        raise ValueError(
            f"a constraint limits a metric: a name, or a function by confmax.metrics.from_function with its structure; "
            f"got {type(metric).__name__}"
        )
    if metric == LABELS_PER_ROW.name and not given:
        return Quantity(LABELS_PER_ROW)
    made = catalogue.quantity(metric, **given)
    if made.formula == RATE and (str(made.label).startswith(NOT) or OR in str(made.label)):
        made = sum_of_rates([(1.0, str(made.label))])
    return Quantity(made)


def at_least(metric: str | Metric | Quantity, limit: float, **params: Any) -> Constraint:
    """Return the floor ``metric >= limit``.

    Parameters
    ----------
    metric, limit, **params : str, Metric or Quantity; float
        What is limited, with ``label`` and parameters as for `quantity`, and the number. A ValueError if there is no
        such metric, or it cannot have this floor.

    Examples
    --------
    >>> from confmax import constraints as c
    >>> c.at_least("cohen_kappa", 0.6)
    Constraint('cohen_kappa >= 0.6')
    """
    return Constraint(quantity(metric, **params).metric, ">=", limit)


def at_most(metric: str | Metric | Quantity, limit: float, **params: Any) -> Constraint:
    """Return the ceiling ``metric <= limit``.

    Parameters
    ----------
    metric, limit, **params : str, Metric or Quantity; float
        As for `at_least`. A ValueError if it cannot have this ceiling.

    Examples
    --------
    >>> from confmax import constraints as c
    >>> c.at_most("rate", 0.05, label="L")
    Constraint('rate[L] <= 0.05')
    """
    return Constraint(quantity(metric, **params).metric, "<=", limit)


# --- every quantity by a function of its name -------------------------------------------------------------------------


def _function(name: str) -> Callable[..., Quantity]:
    """Return the function that makes a quantity of the catalogue: of one class it takes the name of the class."""
    metric = catalogue.quantity(name)
    taken: dict[str, Any] = {}
    if name in catalogue.limited_names()[0]:
        taken = {"label": None, **{key: value for key, value in metric.params if key not in metric.fixed}}
    parameters = [Parameter(key, Parameter.POSITIONAL_OR_KEYWORD, default=value) for key, value in taken.items()]
    signature = Signature(parameters)

    def made(*given: Any, **named: Any) -> Quantity:
        return quantity(name, **signature.bind(*given, **named).arguments)

    made.__signature__ = signature  # type: ignore[attr-defined]
    made.__name__ = name
    made.__qualname__ = name
    made.__doc__ = _docstring(metric, taken)
    return made


def _docstring(metric: Metric, taken: Mapping[str, Any]) -> str:
    """Return the docstring of the function of a metric that takes these parameters."""
    # bars are marks of a substitution to the documentation
    what = re.sub(r"(\|[^|]*\|)", r"``\1``", metric.description)
    lines = [f"Return the {what}, as a quantity to limit."]
    shown = metric
    call = f"c.{metric.name}()"
    if taken:
        nobody = "the positive one of two classes" if metric.one_class else "all rows"
        lines += ["", "Parameters", "----------", "label : str, int, float or None"]
        lines += [f"    Name of a class, else a ValueError; None for {nobody}."]
        for key in taken.keys() - {"label"}:
            lines += [f"{key} : float", f"    Parameter of the metric ``{metric.name}``."]
        shown = catalogue.quantity(metric.name, label="VF")
        call = f'c.{metric.name}("VF")'
    lines += ["", "Raises", "------", "ValueError", "    If the name or a parameter is none."]
    limit = ">= 0.8" if metric.formula.rises_with_hits > 0 else "<= 0.1"
    lines += ["", "Examples", "--------", ">>> from confmax import constraints as c", f">>> {call} {limit}"]
    return "\n".join([*lines, f"Constraint('{metric_text(shown)} {limit}')"])


FUNCTIONS = {name: _function(name) for names in catalogue.limited_names() for name in names}
globals().update(FUNCTIONS)


def labels_per_row() -> Quantity:
    """Return the mean number of labels that a row gets, where rows have several labels: the label cardinality.

    Examples
    --------
    >>> from confmax import constraints as c
    >>> c.labels_per_row() <= 3
    Constraint('labels_per_row <= 3')
    """
    return Quantity(LABELS_PER_ROW)


def cost(table: Any) -> Quantity:
    """Return the expected cost of a decision.

    Parameters
    ----------
    table : array-like or data frame (K, M)
        The cost of each decision (columns) for each true class (rows). The names of a data frame are matched to the
        classes, as for the metric ``linear`` of `confmax.metrics.get`.

    Raises
    ------
    ValueError
        If it is no such table.

    Examples
    --------
    >>> from confmax import constraints as c
    >>> c.cost([[0, 1], [5, 0]]) <= 0.2
    Constraint('cost <= 0.2')
    """
    metric = get("linear", cost=table)
    assert metric.gain is not None
    # the catalogue's metric is the negative cost, which is maximised
    costs = tuple(tuple(0.0 - gain for gain in row) for row in metric.gain)
    structure = Linear(costs, fractions=metric.structure.fractions)
    about = "expected cost of a decision"
    return Quantity(replace(metric, name="cost", structure=structure, title="expected cost", description=about))
