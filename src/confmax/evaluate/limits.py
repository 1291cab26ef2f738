"""The numbers of a report about limits; `confmax.evaluate.studies` computes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from confmax.confusion import Array
from confmax.evaluate.confusion_change import ConfusionChange
from confmax.evaluate.scores import Difference, Estimate

MISSED = 1e-12  # a limit that is missed by no more, which rounding explains, counts as kept


@dataclass(frozen=True)
class GroupLimit:
    """What a limit of groups limits in one ``group``: expected, and of three rules on the labels."""

    group: str
    expected: float
    labels: Estimate
    argmax: Estimate
    prior: Estimate


@dataclass(frozen=True)
class LimitRow:
    """A limit: the quantity as the probabilities expect it, and of three rules on the labels; its price, and tests.

    ``price`` is by how much the best value rises per unit by which the limit is loosened, None where it is not known.
    ``outcome`` is what the tuning says of the limit (`confmax.constraints.ConstraintOutcome`), None for a saved rule.
    ``vacuous`` says that no row is decided as the class of a precision, ``is_floor`` on which side the limit lies.
    A limit of groups has the values ``by_group``. Its own is the smallest of them, the largest, their difference or
    their ratio, without an interval.
    """

    text: str
    limit: float
    is_floor: bool
    expected: float
    labels: Estimate
    argmax: Estimate
    prior: Estimate
    price: float | None
    vacuous: bool
    outcome: Any = None
    by_group: tuple[GroupLimit, ...] = ()
    of_each: bool = False

    def keeps(self, it: Estimate) -> bool:
        """Whether a value keeps the limit."""
        return is_kept(it.value, self.limit, self.is_floor)

    @property
    def kept(self) -> bool:
        """Whether the rule keeps the limit on these rows."""
        return self.vacuous or self.keeps(self.labels)

    @property
    def unsure(self) -> bool:
        """Whether the interval of the rule's value holds the limit, or that of some group, if each must keep it."""
        shown = [part.labels for part in self.by_group] if self.of_each else [self.labels]
        return not self.vacuous and any(
            it.low is not None and it.high is not None and it.low <= self.limit <= it.high for it in shown
        )


def is_kept(value: float, limit: float, is_floor: bool) -> bool:
    """Return whether a value keeps a limit, up to rounding."""
    return value >= limit - MISSED if is_floor else value <= limit + MISSED


@dataclass(frozen=True, eq=False)
class LimitCurve:
    """The best expected ``values`` (S,) of a metric within one limit at the ``levels`` (S,), the others as they are.

    ``name`` is the quantity, ``limit`` its limit, ``rule`` and ``free`` are the quantity and the metric, as the
    probabilities expect them, of the tuned rule and of the best rule without limits.
    """

    name: str
    limit: float
    is_floor: bool
    levels: Array
    values: Array
    rule: tuple[float, float]
    free: tuple[float, float]


@dataclass(frozen=True, eq=False)
class LimitFigures:
    """The numbers of a report about limits.

    ``absent`` are the limits of classes without rows, which cannot be judged. ``reached`` says whether some rule keeps
    all limits, as the probabilities expect; None where it is not known. ``free`` is the metric on the labels of the
    best rule without limits, ``given_up`` how much less the tuned rule has, ``moved`` the share of the weight that they
    decide differently, and ``change`` the rows by class and decision, of that rule and of the tuned one.
    """

    rows: tuple[LimitRow, ...]
    absent: tuple[str, ...]
    reached: bool | None = None
    curve: LimitCurve | None = None
    free: Estimate | None = None
    given_up: Difference | None = None
    moved: float = 0.0
    change: ConfusionChange | None = None

    def missed(self, rule: str) -> list[str]:
        """Return the limits that "argmax" or "prior" misses on these rows."""
        return [row.text for row in self.rows if not row.keeps(getattr(row, rule))]
