"""The verdict on a rule: what it competes with, and what their differences say, as a record without a sentence.

A rule is judged by the metric that it was tuned for. What it competes with stands in `confmax.evaluate.rivals`: rules
that need no tuning, or the usual one, on the same rows. One that misses a limit of the rule is no alternative to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

Record = TypeVar("Record", bound="Estimate | Difference")
ROUNDING = 1e-12  # of sums over parts of a mixture: a smaller difference is none
AS_GOOD = 0.005  # where the interval of a difference contains zero: its middle, below which nothing is gained


class Estimate(NamedTuple):
    """The value of a metric, and the interval of its bootstrap.

    Attributes
    ----------
    value : float
        On all rows.
    low, high : float or None
        Ends of the interval; None without replicates.
    """

    value: float
    low: float | None
    high: float | None


class Difference(NamedTuple):
    """One rule's value minus another's on the same rows, its interval, and how often it is greater.

    Attributes
    ----------
    value : float
        On all rows.
    low, high : float or None
        Ends of the interval; None without replicates.
    better : float or None
        Share of replicates, from 0 to 1, in which the rule's value is strictly greater.
    """

    value: float
    low: float | None
    high: float | None
    better: float | None


def negated(record: Record) -> Record:
    """Return an estimate or a difference with the other sign: of minus a cost that of the cost."""
    low, high = (None if end is None else 0.0 - end for end in (record.high, record.low))
    found: Any = record._replace(value=0.0 - record.value, low=low, high=high)
    return cast(Record, found)


class LimitScore(NamedTuple):
    """What a rule makes of a limit that it was tuned within.

    Attributes
    ----------
    text : str
        The limit, such as "recall[a] >= 0.8".
    value : float or None
        What is limited, on all rows; None where the rows cannot judge it.
    low, high : float or None
        Ends of its interval; None without replicates.
    slack : float or None
        By how much the limit is kept, in the unit of the value; negative if it is missed.
    kept : bool or None
        None where the rows cannot judge the limit: no row has its class or label, or no groups were given.
    unsure : bool
        Whether the interval holds the limit, or that of some group, if each group must keep it.
    """

    text: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    slack: float | None = None
    kept: bool | None = None
    unsure: bool = False


class Rival(NamedTuple):
    """What a rule competes with.

    Attributes
    ----------
    name : str
        Such as "argmax".
    value : Estimate
        Its value by the metric of the verdict.
    minus : Difference
        The value of the rule minus its own.
    missed : tuple of str
        The limits of the rule that it misses on these rows: if there are some, the two do not compare.
    kind : str
        What the difference says of the rule: "better", "worse", "unclear" (chance could do it), "same" or "unknown".
    good : str
        "as good" or "at least as good", if nothing speaks for the rule beside it; else "".
    """

    name: str
    value: Estimate
    minus: Difference
    missed: tuple[str, ...]
    kind: str
    good: str


@dataclass(frozen=True)
class Verdict:
    """What labelled rows say of a rule beside its rivals.

    Attributes
    ----------
    metric : str
        What the rule is judged by: the metric that it was tuned for, or else the first that was asked for.
    value : Estimate
        Its value.
    rivals : tuple of Rival
        What it competes with, the simplest first.
    missed, unsure : tuple of str
        The limits that the rule misses, and those whose interval holds the limit, so that new rows may say otherwise.
    kind : str
        * "misses": the rule misses a limit, and values alone do not compare.
        * "alone": the rule keeps its limits, and every rival misses one.
        * "same": the rule decides as ``of`` does.
        * "worse": it is worse than ``of`` by more than chance.
        * "as good": ``of`` is as good, and simpler.
        * "better": it is better than all rivals that keep the limits, of which ``of`` comes next.
        * "unclear": whether it is better than ``of`` cannot be said.
        * "unknown": there are no intervals, or there is nothing to compare with.
    of : str or None
        The rival that decides the verdict.
    costs : bool
        Whether values are minus the cost of a row. `to_dict` has the cost itself, and negative differences where the
        rule costs less.
    """

    metric: str
    value: Estimate
    rivals: tuple[Rival, ...]
    missed: tuple[str, ...]
    unsure: tuple[str, ...]
    kind: str
    of: str | None
    costs: bool = False

    @property
    def instead(self) -> str | None:
        """The rival that is recommended in the place of the rule; None where none is."""
        return self.of if self.kind in ("same", "worse", "as good") else None

    @property
    def competing(self) -> tuple[Rival, ...]:
        """The rivals that keep the limits."""
        return tuple(one for one in self.rivals if not one.missed)

    @property
    def side(self) -> str:
        """Whether the verdict is "better", "worse" or "unclear" for the rule."""
        if self.kind == "misses":
            return "worse" if set(self.missed) - set(self.unsure) else "unclear"
        if self.kind in ("alone", "better"):
            return "unclear" if self.unsure else "better"
        return "worse" if self.kind == "worse" else "unclear"

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain values that JSON can hold; None for numbers that are not finite."""
        rivals = [
            {**one._asdict(), "value": self._shown(one.value)["value"], "minus": self._shown(one.minus)}
            for one in self.rivals
        ]
        both = {"instead": self.instead, "side": self.side}
        plain = {key: value for key, value in asdict(self).items() if key != "costs"}
        return {**plain, "value": self._shown(self.value)["value"], "rivals": rivals, **both}

    def _shown(self, record: Estimate | Difference) -> dict[str, Any]:
        """Return a record as plain values, a cost without its minus."""
        return plain_values(negated(record) if self.costs else record)


def verdict(
    metric: str,
    value: Estimate,
    rivals: Sequence[tuple[str, Estimate, Difference, tuple[str, ...]]],
    limits: Sequence[LimitScore] = (),
    *,
    same: str | None = None,
    relative: bool = False,
    costs: bool = False,
) -> Verdict:
    """Return the verdict on a rule with a ``value`` by a ``metric``.

    ``rivals`` are names, values, differences (rule minus rival) and the limits that each of them misses, the simplest
    first; ``limits`` are what the rule makes of its own, and ``same`` is the rival that decides as it does, if one
    does. A difference that is ``relative`` has no unit of its own, as costs have none: what is as good is a share of
    the rival's value. ``costs`` says that values are minus costs.
    """
    found = tuple(
        Rival(name, own, minus, missed, verdict_of(minus), as_good(minus, abs(own.value) if relative else 1.0))
        for name, own, minus, missed in rivals
    )
    missed = tuple(one.text for one in limits if one.kept is False)
    unsure = tuple(one.text for one in limits if one.unsure)
    return Verdict(metric, value, found, missed, unsure, *_decisive(found, missed, same), costs)


def _decisive(rivals: Sequence[Rival], missed: Sequence[str], same: str | None) -> tuple[str, str | None]:
    """Return the kind of a verdict, and the rival that decides it."""
    if missed:
        return "misses", None
    competing = [one for one in rivals if not one.missed and one.kind != "unknown"]
    if rivals and all(one.missed for one in rivals):
        return "alone", None
    if same is not None:
        return "same", same
    worse = [one for one in competing if one.kind == "worse"]
    if worse:
        return "worse", min(worse, key=lambda one: one.minus.value).name
    # of rivals that are as good, the simplest is named; a difference that chance explains is named before one beyond it
    for kind, some in (
        ("as good", [one for one in competing if one.good]),
        ("unclear", [one for one in competing if one.kind == "unclear"]),
    ):
        if some:
            return kind, some[0].name
    return ("better", min(competing, key=lambda one: one.minus.value).name) if competing else ("unknown", None)


def verdict_of(minus: Difference) -> str:
    """Return "better", "worse", "unclear" (chance could do it), "same" or "unknown".

    Replicates that lack a class take metrics of the recalls over the others, so that an interval may lie on one side of
    zero where the difference itself does not: then it says nothing about the difference.
    """
    value = minus.value
    low = minus.low
    high = minus.high
    if not np.isfinite(value) or low is None or high is None:
        return "unknown"
    if max(abs(value), abs(low), abs(high)) <= ROUNDING:
        return "same"
    if min(value, low) > ROUNDING:
        return "better"
    return "worse" if max(value, high) < -ROUNDING else "unclear"


def as_good(minus: Difference, unit: float = 1.0) -> str:
    """Return "as good", "at least as good" or "": what the other one is, by the difference of the rule and it.

    It is as good if the interval contains zero and its middle is below 0.005 times ``unit``, at least as good if the
    middle is below -0.005 times ``unit``. Then nothing speaks for the rule, which had to be tuned.
    """
    if minus.low is None or minus.high is None or not (np.isfinite(minus.value) and holds_zero(minus)):
        return ""
    middle = (minus.low + minus.high) / 2
    if middle < -AS_GOOD * unit:
        return "at least as good"
    return "as good" if middle < AS_GOOD * unit or verdict_of(minus) == "same" else ""


def holds_zero(minus: Difference) -> bool:
    """Return whether there is an interval of a difference and it contains zero, up to rounding."""
    return minus.low is not None and minus.high is not None and minus.low <= ROUNDING and minus.high >= -ROUNDING


def plain_values(record: Estimate | Difference | LimitScore) -> dict[str, Any]:
    """Return a record as plain values, None for numbers that are not finite."""
    return {
        key: None if isinstance(number, float) and not np.isfinite(number) else number
        for key, number in record._asdict().items()
    }
