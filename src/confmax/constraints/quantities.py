"""The quantities that can be limited, by functions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from confmax.constraints.words import Constraint, Quantity
from confmax.metrics import Metric, catalogue, get
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
    return Quantity(catalogue.quantity(metric, **given))


def at_least(metric: str | Metric | Quantity, limit: float, **params: Any) -> Constraint:
    """Return the floor ``metric >= limit``.

    Parameters
    ----------
    metric : str, Metric or Quantity
        As for `quantity`.
    limit : float
        The number, in the unit of the metric.
    **params
        ``label`` and parameters, as for `quantity`.

    Raises
    ------
    ValueError
        If there is no such metric, or it cannot have this floor.

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
    metric : str, Metric or Quantity
        As for `quantity`.
    limit : float
        The number, in the unit of the metric.
    **params
        ``label`` and parameters, as for `quantity`.

    Raises
    ------
    ValueError
        If there is no such metric, or it cannot have this ceiling.

    Examples
    --------
    >>> from confmax import constraints as c
    >>> c.at_most("rate", 0.05, label="L")
    Constraint('rate[L] <= 0.05')
    """
    return Constraint(quantity(metric, **params).metric, "<=", limit)


# --- of one class -----------------------------------------------------------------------------------------------------


def recall(label: Any = None) -> Quantity:
    """Return the share of the rows of one class that are decided as it.

    Parameters
    ----------
    label : str, int, float or None
        Name of the class, else a ValueError; None for the positive one of two classes.

    Examples
    --------
    >>> from confmax import constraints as c
    >>> c.recall("VF") >= 0.8
    Constraint('recall[VF] >= 0.8')
    """
    return quantity("recall", label)


def precision(label: Any = None) -> Quantity:
    """Return the share of the rows decided as one class that are of it.

    A class that is never decided has no precision, and keeps every limit on it. Limit its `rate` from below too.

    Parameters
    ----------
    label : str, int, float or None
        Name of the class, else a ValueError; None for the positive one of two classes.

    Examples
    --------
    >>> from confmax import constraints as c
    >>> c.precision("VF") >= 0.9
    Constraint('precision[VF] >= 0.9')
    """
    return quantity("precision", label)


def specificity(label: Any = None) -> Quantity:
    """Return the share of the rows of other classes that are not decided as one class.

    Parameters
    ----------
    label : str, int, float or None
        Name of the class, else a ValueError; None for the positive one of two classes.

    Examples
    --------
    >>> from confmax import constraints as c
    >>> c.specificity("VF") >= 0.95
    Constraint('specificity[VF] >= 0.95')
    """
    return quantity("specificity", label)


def fpr(label: Any = None) -> Quantity:
    """Return the share of the rows of other classes that are decided as one class: the false positive rate.

    Parameters
    ----------
    label : str, int, float or None
        Name of the class, else a ValueError; None for the positive one of two classes.

    Examples
    --------
    >>> from confmax import constraints as c
    >>> c.fpr("VF") <= 0.05
    Constraint('fpr[VF] <= 0.05')
    """
    return quantity("fpr", label)


def rate(label: Any = None) -> Quantity:
    """Return the share of all rows that are decided as one class.

    Parameters
    ----------
    label : str, int, float or None
        Name of the class, else a ValueError; None for the positive one of two classes.

    Examples
    --------
    >>> from confmax import constraints as c
    >>> c.rate("VF") <= 0.1
    Constraint('rate[VF] <= 0.1')
    """
    return quantity("rate", label)


def coverage(label: Any = None) -> Quantity:
    """Return the share of rows that are decided, by a rule that may abstain.

    Parameters
    ----------
    label : str, int, float or None
        Name of a class, else a ValueError, for the share of its rows; None for all rows.

    Examples
    --------
    >>> from confmax import constraints as c
    >>> c.coverage() >= 0.8, c.coverage("VF") >= 0.5
    (Constraint('coverage >= 0.8'), Constraint('coverage[VF] >= 0.5'))
    """
    return quantity("coverage", label)


def f1(label: Any = None) -> Quantity:
    """Return the F1 of one class.

    Parameters
    ----------
    label : str, int, float or None
        Name of the class, else a ValueError; None for the positive one of two classes.

    Examples
    --------
    >>> from confmax import constraints as c
    >>> c.f1("VF") >= 0.7
    Constraint('f1[VF] >= 0.7')
    """
    return quantity("f1", label)


def f_beta(label: Any = None, beta: float = 1.0) -> Quantity:
    """Return the F-beta of one class.

    Parameters
    ----------
    label : str, int, float or None
        Name of the class, else a ValueError; None for the positive one of two classes.
    beta : float
        How much more recall counts than precision.

    Examples
    --------
    >>> from confmax import constraints as c
    >>> c.f_beta("VF", 2) >= 0.6
    Constraint('f_beta[VF](beta=2) >= 0.6')
    """
    return quantity("f_beta", label, beta=beta)


def jaccard(label: Any = None) -> Quantity:
    """Return the Jaccard score of one class.

    Parameters
    ----------
    label : str, int, float or None
        Name of the class, else a ValueError; None for the positive one of two classes.

    Examples
    --------
    >>> from confmax import constraints as c
    >>> c.jaccard("VF") >= 0.5
    Constraint('jaccard[VF] >= 0.5')
    """
    return quantity("jaccard", label)


# --- of all classes ---------------------------------------------------------------------------------------------------


def accuracy() -> Quantity:
    """Return the share of correct decisions.

    Examples
    --------
    >>> from confmax import constraints as c
    >>> c.accuracy() >= 0.9
    Constraint('accuracy >= 0.9')
    """
    return Quantity(get("accuracy"))


def balanced_accuracy() -> Quantity:
    """Return the mean recall.

    Examples
    --------
    >>> from confmax import constraints as c
    >>> c.balanced_accuracy() >= 0.8
    Constraint('balanced_accuracy >= 0.8')
    """
    return Quantity(get("balanced_accuracy"))


def cohen_kappa() -> Quantity:
    """Return the agreement beyond chance.

    Examples
    --------
    >>> from confmax import constraints as c
    >>> c.cohen_kappa() >= 0.6
    Constraint('cohen_kappa >= 0.6')
    """
    return Quantity(get("cohen_kappa"))


def linear_kappa() -> Quantity:
    """Return the kappa with weights ``|i - j|``.

    Examples
    --------
    >>> from confmax import constraints as c
    >>> c.linear_kappa() >= 0.6
    Constraint('linear_kappa >= 0.6')
    """
    return Quantity(get("linear_kappa"))


def quadratic_kappa() -> Quantity:
    """Return the kappa with weights ``(i - j)^2``.

    Examples
    --------
    >>> from confmax import constraints as c
    >>> c.quadratic_kappa() >= 0.6
    Constraint('quadratic_kappa >= 0.6')
    """
    return Quantity(get("quadratic_kappa"))


def min_recall() -> Quantity:
    """Return the smallest recall, which can have a floor.

    Examples
    --------
    >>> from confmax import constraints as c
    >>> c.min_recall() >= 0.5
    Constraint('min_recall >= 0.5')
    """
    return Quantity(get("min_recall"))


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
