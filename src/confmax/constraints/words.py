"""The words of constraints: a quantity, and a limit on it.

A quantity is a metric that may be limited. ``recall("VF") >= 0.8`` and the text ``"recall[VF] >= 0.8"`` are the same
`Constraint`. What cannot be limited is refused here, by its name: which limits no convex set of confusions keeps
follows from the declared structure of a metric, and needs no table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Literal, NoReturn

import numpy as np

from confmax.constraints.across import ALL_ROWS, Across, Difference, EveryGroup, Limit, Ratio
from confmax.constraints.texts import MOST_CHARACTERS, as_float, metric_text, number_text, too_long
from confmax.constraints.two_groups import TwoGroups
from confmax.metrics import Metric
from confmax.metrics.limited import refusal
from confmax.metrics.rates import SumOfRates, sum_of_rates
from confmax.metrics.shares import RATE
from confmax.tables.labels import plain

Sense = Literal[">=", "<="]


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
    across : Across
        Whether the value on all rows is limited, or what of the values in groups (`confmax.constraints.across`).

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
    across: Across = ALL_ROWS

    # NumPy's numbers leave the comparison to the quantity
    __array_ufunc__: ClassVar[None] = None

    def on(self, across: Across) -> Quantity:
        """Return what ``across``, a kind of limit, reads of the values: the way to kinds without a method here.

        Examples
        --------
        >>> from confmax import constraints as c
        >>> from confmax.constraints.across import Difference
        >>> c.rate("VF").on(Difference()) <= 0.02
        Constraint('difference(rate[VF] | group) <= 0.02')
        """
        return Quantity(self.metric, across)

    def per_group(self) -> Quantity:
        """Return the value in every group: a floor or a ceiling for each.

        Examples
        --------
        >>> from confmax import constraints as c
        >>> c.fpr("VF").per_group() <= 0.1
        Constraint('max(fpr[VF] | group) <= 0.1')
        """
        return self.on(EveryGroup())

    def difference(self, group: object = None, other: object = None) -> Quantity:
        """Return the largest difference between two groups, or the value in a group minus that in another.

        The largest difference can have a ceiling. A ceiling of zero keeps the groups equal, to 1e-12. The difference of
        two groups that are named has a sign: a floor of -0.02 says that the first is at most 0.02 below the other.

        Parameters
        ----------
        group, other : str, int, float or None
            Names of two groups; None for the largest difference.

        Raises
        ------
        ValueError
            If one of them is missing, or both are the same.

        Examples
        --------
        >>> from confmax import constraints as c
        >>> c.rate("VF").difference() <= 0.02
        Constraint('difference(rate[VF] | group) <= 0.02')
        >>> c.recall("VF").difference("women", "men") >= -0.02
        Constraint('recall[VF | women] >= recall[VF | men] - 0.02')
        """
        if group is None and other is None:
            return self.on(Difference())
        if group is None or other is None:
            raise ValueError("a difference names two groups, such as difference('women', 'men'), or none")
        return self.on(TwoGroups(str(plain(group)), str(plain(other))))

    def ratio(self) -> Quantity:
        """Return the smallest ratio of two groups, which can have a floor.

        A floor of one keeps the groups equal, to 1e-12.

        Examples
        --------
        >>> from confmax import constraints as c
        >>> c.rate("VF").ratio() >= 0.8
        Constraint('ratio(rate[VF] | group) >= 0.8')
        """
        return self.on(Ratio())

    def __add__(self, other: object) -> Quantity:
        """Return the sum of two rates, or of sums of rates, which is linear.

        Examples
        --------
        >>> from confmax import constraints as c
        >>> c.rate("VF") + 2 * c.rate("F") <= 0.1
        Constraint('rate[VF] + 2 rate[F] <= 0.1')
        """
        # the sum() of Python begins with zero
        if is_number(other) and other == 0:
            return self
        if not isinstance(other, Quantity):
            return NotImplemented
        return Quantity(sum_of_rates([*self._terms, *other._terms]))

    __radd__ = __add__

    def __mul__(self, weight: object) -> Quantity:
        if not is_number(weight):
            return NotImplemented
        return Quantity(sum_of_rates([(float(weight) * own, name) for own, name in self._terms]))  # type: ignore[arg-type]

    __rmul__ = __mul__

    def __neg__(self) -> Quantity:
        return -1.0 * self

    def __sub__(self, other: object) -> Quantity:
        return self + -other if isinstance(other, Quantity) else NotImplemented

    @property
    def _terms(self) -> list[tuple[float, str]]:
        """Weights and classes of a rate, or of a sum of rates; a ValueError for other quantities."""
        formula = self.metric.formula
        if self.across != ALL_ROWS:
            raise ValueError(f"{self} is of groups already; add rates first, as in (a + b).per_group() <= 0.1")
        if isinstance(formula, SumOfRates):
            return list(formula.terms)
        if formula != RATE or self.metric.label is None:
            raise ValueError(
                f"rates of classes can be added, such as rate('a') + rate('b'), and {self} is none; limit every "
                f"quantity by a constraint of its own"
            )
        return [(1.0, str(plain(self.metric.label)))]

    def __ge__(self, limit: object) -> Constraint:
        return Constraint(self.metric, ">=", limit, self.across)  # type: ignore[arg-type]

    def __le__(self, limit: object) -> Constraint:
        return Constraint(self.metric, "<=", limit, self.across)  # type: ignore[arg-type]

    def __gt__(self, limit: object) -> NoReturn:
        raise ValueError(refused_sense(str(self), ">", limit))

    def __lt__(self, limit: object) -> NoReturn:
        raise ValueError(refused_sense(str(self), "<", limit))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Quantity):
            return (self.metric, self.across) == (other.metric, other.across)
        if is_number(other):
            raise ValueError(refused_sense(str(self), "==", other))
        return NotImplemented

    def __hash__(self) -> int:
        return hash((self.metric, self.across))

    def __str__(self) -> str:
        return self.across.text(self.metric, ">=")

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"


def of_a_number(label: object, limit: float) -> str:
    """Return how a number of rows with the decision ``label`` is limited.

    >>> of_a_number("fraud", 200)
    "a number of rows is one of a batch: pass at_most={'fraud': 200} to predict (confmax apply --at-most fraud=200)"
    """
    name = "NAME" if label is None else str(label)
    of, number = f"{name!r}: {number_text(limit)}", f"{name}={number_text(limit)}"
    return f"a number of rows is one of a batch: pass at_most={{{of}}} to predict (confmax apply --at-most {number})"


def several_in(label: str) -> str:
    """Return the way out where several quantities in one text were read as the ``label`` of a strange class."""
    if re.search(r"\]\s*[-+*/]", label):
        return (
            "; rates can be added, such as rate[a] + rate[b] <= 0.1, and other quantities cannot: limit each in a text "
            "of its own"
        )
    return "; write every constraint as a text of its own" if "]" in label and "[" in label else ""


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
    across : Across
        Whether it holds for all rows together, for every group, or for what compares groups
        (`confmax.constraints.across`).

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
    across: Across = ALL_ROWS

    def __post_init__(self) -> None:
        """Check the limit, and the structure of the metric."""
        if self.metric.label is not None:
            # classes are found by their text: a constraint equals the one that is parsed from it
            label = str(plain(self.metric.label))
            object.__setattr__(self, "metric", replace(self.metric, label=label))
        what = self.across.text(self.metric, self.sense)
        if self.sense not in (">=", "<="):
            raise ValueError(refused_sense(what, str(self.sense), self.limit))
        if not is_number(self.limit):
            raise ValueError(f"the limit of {what} is one number; got {self.limit!r:.60}")
        # zero has one sign
        object.__setattr__(self, "limit", as_float(self.limit) + 0.0)
        if not np.isfinite(self.limit):
            raise ValueError(f"the limit of {what} is a finite number; got {self.limit}")
        number = number_text(self.limit)
        why = refusal(self.metric, self.is_floor, number)
        if why is not None:
            raise ValueError(f"{metric_text(self.metric)} {self.sense} {number}: {why}")
        self.across.refuse(self.metric, self.stated, self.text)
        low, high = self.range
        if isinstance(self.metric.formula, SumOfRates) and self.across == ALL_ROWS:
            # whether rows have one class or several labels is known when it is placed
            low, high = self.metric.formula.range_of_several
        if not low <= self.limit <= high:
            # a share may have been given in percent
            hint = f"; for {number} % write {number_text(round(self.limit / 100, 15))}" if 1 < self.limit <= 100 else ""
            if self.limit > 1 and self.metric.formula == RATE and not self.is_floor:
                hint += f"; {of_a_number(self.metric.label, self.limit)}"
            if several := several_in(str(self.metric.label)):
                raise ValueError(f"{self.text}: this is no single quantity{several}")
            raise ValueError(
                f"{self.text}: {what} lies between {number_text(low)} and {number_text(high)}, and {number} does not"
                f"{hint or '; choose a limit between them'}"
            )
        if len(self.text) > MOST_CHARACTERS:
            raise ValueError(too_long(self.text))

    @cached_property
    def text(self) -> str:
        """The constraint as `parse` reads it, such as ``recall[VF] >= 0.8``; a table of costs is no part of it."""
        return self.across.written(self.metric, self.sense, self.limit)

    @property
    def stated(self) -> Limit:
        """The number, and whether it is a floor."""
        return Limit(self.limit, self.is_floor)

    @property
    def range(self) -> tuple[float, float]:
        """Between which numbers the limit may lie, where every row has one class."""
        return self.across.range(*self.metric.range)

    @property
    def of_groups(self) -> bool:
        """Whether it limits values in groups."""
        return self.across.of_groups

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
