"""The words of constraints: a quantity, and a limit on it.

A quantity is a metric that may be limited. ``recall("VF") >= 0.8`` and the text ``"recall[VF] >= 0.8"`` are the same
`Constraint`. What cannot be limited is refused here, by its name: which limits no convex set of confusions keeps
follows from the declared structure of a metric, and needs no table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NoReturn

import numpy as np

from confmax.metrics import Metric
from confmax.metrics.catalogue import range_of
from confmax.metrics.structure import Concave, Linear, MinOfLinear, Ratio
from confmax.tables.labels import plain

Sense = Literal[">=", "<="]
# what of the groups' values is limited: the smallest or the largest, the largest difference, or the smallest ratio
Over = Literal["each", "difference", "ratio"]

MOST_CHARACTERS = 500  # of one constraint, as texts come from files too


def number_text(value: float) -> str:
    """Return a number as short as it reads back the same."""
    return repr(as_float(value)).removesuffix(".0")


def as_float(value: float) -> float:
    """Return a number as a float; a whole one that is too large is infinite."""
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def metric_text(metric: Metric) -> str:
    """Return a metric as constraints write it: ``recall[VF]``, ``f_beta[VF](beta=2)``."""
    label = "" if metric.label is None else f"[{metric.label}]"
    # where the table has its classes is no part of the text
    shown = [
        f"{key}={number_text(value) if isinstance(value, float) else value}"
        for key, value in metric.params
        if key not in metric.fixed and value not in (0.0, "relative")
    ]
    return f"{metric.name}{label}" + (f"({', '.join(shown)})" if shown else "")


def quantity_text(metric: Metric, over: Over | None, sense: str = ">=") -> str:
    """Return a quantity as constraints write it: ``min(recall[VF] | group)`` for a floor of every group."""
    if over is None:
        return metric_text(metric)
    word = {"each": "min" if sense == ">=" else "max"}.get(over, over)
    return f"{word}({metric_text(metric)} | group)"


def is_number(value: object) -> bool:
    """Whether a limit is one number; booleans are integers to Python, and none."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


@dataclass(frozen=True, eq=False, repr=False)
class Quantity:
    """A quantity of the confusion matrix that can be limited: compare it with a number to get a `Constraint`.

    Attributes
    ----------
    metric : Metric
        What is limited.
    over : {"each", "difference", "ratio"} or None
        What is limited of the values of all groups; None for the value of all rows.

    Examples
    --------
    >>> from confmax import constraints as c
    >>> c.recall("VF") >= 0.8
    Constraint('recall[VF] >= 0.8')
    >>> 0.1 >= c.rate("L")
    Constraint('rate[L] <= 0.1')
    >>> c.recall("VF").per_group() >= 0.7
    Constraint('min(recall[VF] | group) >= 0.7')
    """

    metric: Metric
    over: Over | None = None

    # NumPy's numbers leave the comparison to the quantity
    __array_ufunc__: ClassVar[None] = None

    def per_group(self) -> Quantity:
        """Return the value in every group: a floor or a ceiling for each.

        Examples
        --------
        >>> from confmax import constraints as c
        >>> c.fpr("VF").per_group() <= 0.1
        Constraint('max(fpr[VF] | group) <= 0.1')
        """
        return Quantity(self.metric, "each")

    def difference(self) -> Quantity:
        """Return the largest difference between two groups, which can have a ceiling.

        A ceiling of zero keeps the groups equal, to 1e-12.

        Examples
        --------
        >>> from confmax import constraints as c
        >>> c.rate("VF").difference() <= 0.02
        Constraint('difference(rate[VF] | group) <= 0.02')
        """
        return Quantity(self.metric, "difference")

    def ratio(self) -> Quantity:
        """Return the smallest ratio of two groups, which can have a floor.

        A floor of one keeps the groups equal, to 1e-12.

        Examples
        --------
        >>> from confmax import constraints as c
        >>> c.rate("VF").ratio() >= 0.8
        Constraint('ratio(rate[VF] | group) >= 0.8')
        """
        return Quantity(self.metric, "ratio")

    def __ge__(self, limit: object) -> Constraint:
        return Constraint(self.metric, ">=", limit, self.over)  # type: ignore[arg-type]

    def __le__(self, limit: object) -> Constraint:
        return Constraint(self.metric, "<=", limit, self.over)  # type: ignore[arg-type]

    def __gt__(self, limit: object) -> NoReturn:
        raise ValueError(refused_sense(str(self), ">", limit))

    def __lt__(self, limit: object) -> NoReturn:
        raise ValueError(refused_sense(str(self), "<", limit))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Quantity):
            return (self.metric, self.over) == (other.metric, other.over)
        if is_number(other):
            raise ValueError(refused_sense(str(self), "==", other))
        return NotImplemented

    def __hash__(self) -> int:
        return hash((self.metric, self.over))

    def __str__(self) -> str:
        return quantity_text(self.metric, self.over)

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"


def refused_sense(quantity: str, sense: str, limit: object) -> str:
    """Return why a constraint is not written with this sign, and how it is."""
    number = number_text(limit) if is_number(limit) else limit  # type: ignore[arg-type]
    instead = {">": ">=", "=>": ">=", "<": "<=", "=<": "<="}.get(sense)
    if instead is None:
        return (
            f"{quantity} {sense} {number}: a limit is >= or <=; for a narrow range write two constraints, "
            f"{quantity} >= LOW and {quantity} <= HIGH"
        )
    why = "a limit includes its end" if "=" not in sense else "the sign stands first"
    return f"{quantity} {sense} {number}: {why}; write {quantity} {instead} {number}"


@dataclass(frozen=True, repr=False)
class Constraint:
    """A limit on a quantity of the confusion matrix.

    Attributes
    ----------
    metric : Metric
        The quantity. `bind` places it among the classes of a table.
    sense : {">=", "<="}
        Whether the limit is a floor or a ceiling.
    limit : float
        The number, in the unit of the metric.
    over : {"each", "difference", "ratio"} or None
        Whether it holds for all rows together (None), for every group, or for the largest difference or the smallest
        ratio of two groups.

    Raises
    ------
    ValueError
        If the limit is no finite number or outside of the range of the metric, or the metric cannot be limited so.

    Examples
    --------
    >>> from confmax import constraints as c
    >>> limit = c.f_beta("VF", 2) >= 0.6
    >>> limit.text
    'f_beta[VF](beta=2) >= 0.6'
    >>> c.parse(limit.text) == limit
    True
    """

    metric: Metric
    sense: Sense
    limit: float
    over: Over | None = None

    def __post_init__(self) -> None:
        """Check the limit, and the structure of the metric."""
        if self.metric.label is not None:
            # classes are found by their text: a constraint equals the one that is parsed from it
            label = str(plain(self.metric.label))
            object.__setattr__(self, "metric", replace(self.metric, label=label))
        what = quantity_text(self.metric, self.over, self.sense)
        if self.sense not in (">=", "<="):
            raise ValueError(refused_sense(what, str(self.sense), self.limit))
        if not is_number(self.limit):
            raise ValueError(f"the limit of {what} is one number; got {self.limit!r:.60}")
        # zero has one sign
        object.__setattr__(self, "limit", as_float(self.limit) + 0.0)
        if not np.isfinite(self.limit):
            raise ValueError(f"the limit of {what} is a finite number; got {self.limit}")
        _refuse_structure(self.metric, self.sense, self.limit)
        low, high = range_of(self.metric)
        if self.over in ("difference", "ratio"):
            low, high = self._between_groups(high - low)
        if not low <= self.limit <= high:
            number = number_text(self.limit)
            # a share may have been given in percent
            hint = f"; for {number} % write {number_text(round(self.limit / 100, 15))}" if 1 < self.limit <= 100 else ""
            raise ValueError(
                f"{self.text}: {what} lies between {number_text(low)} and {number_text(high)}, and {number} does not"
                f"{hint or '; choose a limit between them'}"
            )
        if len(self.text) > MOST_CHARACTERS:
            raise ValueError(too_long(self.text))

    def _between_groups(self, width: float) -> tuple[float, float]:
        """Return the range of a difference or a ratio of groups; ValueError for what no convex set of rules keeps."""
        if (self.over == "difference") == self.is_floor:
            instead = "<=" if self.is_floor else ">="
            raise ValueError(
                f"{self.text}: a {self.over} of groups has a {'ceiling' if self.is_floor else 'floor'}; write "
                f"{quantity_text(self.metric, self.over)} {instead} {number_text(self.limit)}"
            )
        if not is_linear(self.metric):
            raise ValueError(
                f"{self.text}: the denominator of {metric_text(self.metric)} depends on the rule, so the rules that "
                f"keep a {self.over} of it are no convex set; limit every group instead, such as "
                f"min({metric_text(self.metric)} | group) >= 0.7, or the {self.over} of recall, fpr or rate"
            )
        return (0.0, width) if self.over == "difference" else (0.0, 1.0)

    @property
    def text(self) -> str:
        """The constraint as `parse` reads it, such as ``recall[VF] >= 0.8``; a table of costs is no part of it."""
        return f"{quantity_text(self.metric, self.over, self.sense)} {self.sense} {number_text(self.limit)}"

    @property
    def is_floor(self) -> bool:
        """Whether the values must not be below the limit."""
        return self.sense == ">="

    def __bool__(self) -> bool:
        """Raise a ValueError: ``0.7 <= recall("x") <= 0.9`` asks for a truth value, and would lose its first half."""
        raise ValueError(
            f"a constraint has no truth value ({self.text}); write two constraints, such as "
            f"[recall('x') >= 0.7, recall('x') <= 0.9], instead of 0.7 <= recall('x') <= 0.9 or `and`"
        )

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Constraint({self.text!r})"


def is_linear(metric: Metric) -> bool:
    """Whether a metric is a linear function of the confusion at fixed class sizes."""
    return isinstance(metric.structure, Linear)


def too_long(text: str) -> str:
    """Return the sentence for a constraint of too many characters."""
    return f"a constraint has at most {MOST_CHARACTERS} characters; {text[:40]!r}... has {len(text)}"


def _refuse_structure(metric: Metric, sense: Sense, limit: float) -> None:
    """Refuse, by a ValueError, limits that the confusion matrices of no convex set keep."""
    structure = metric.structure
    number = number_text(limit)
    text = f"{metric_text(metric)} {sense} {number}"
    if isinstance(structure, Linear) or (isinstance(structure, Ratio) and structure.fractions is not None):
        return
    mean = isinstance(structure, Concave) and structure.recall_mean is not None
    if isinstance(structure, (Concave, MinOfLinear)):
        if sense == "<=":
            raise ValueError(
                f"{text}: no ceiling can be set on a concave metric, because the rules that keep it are no convex "
                f"set; limit the recall of a class, such as recall[NAME] <= {number}"
            )
        if mean or isinstance(structure, MinOfLinear):
            return
        raise ValueError(
            f"{text}: of the concave metrics only means of the recalls without smoothing can be limited; limit g_mean, "
            f"h_mean, q_mean or min_recall instead"
        )
    if isinstance(structure, Ratio):
        raise ValueError(
            f"{text}: the numerator and the denominator of a function are not known; limit a ratio of the catalogue, "
            f"such as cohen_kappa {sense} {number}"
        )
    raise ValueError(
        f"{text}: {metric.name} is neither linear nor a ratio, so no limit on it can be proved; limit a ratio instead, "
        f"such as cohen_kappa {sense} {number}, or f1[NAME] {sense} {number} of each class"
    )
