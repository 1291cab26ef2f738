"""A limit that compares two groups by their names: one must not be worse than the other, by more than a number.

``recall[VF | women] >= recall[VF | men] - 0.02`` is a floor of -0.02 on the recall in women minus that in men. What
stands behind the last ``|`` of the brackets is the group. Nothing before it means the positive one of two classes, or
a quantity without a class: ``accuracy[| women] >= accuracy[| men]``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array
from confmax.constraints.across import Across, Limit, Pairs, Stated
from confmax.constraints.texts import SIGNS, metric_text, number_text, plain_sign, read_number, summands
from confmax.metrics import Metric

_SIDE = re.compile(r"\s*([^\[\]()|]*\w)\s*\[(.*)\]\s*(\([^()\[\]]*\))?([^()\[\]]*)", re.DOTALL)
_SIGN = re.compile(f"[{SIGNS}]+")
_FORM = "recall[yes | a] >= recall[yes | b] - 0.02"


@dataclass(frozen=True)
class TwoGroups(Pairs):
    """The value in one group minus that in another, which can have a floor or a ceiling.

    A ValueError if both are the same group, or a text cannot hold a name.
    """

    group: str
    other: str
    places: tuple[int, ...] = field(default=(0, 1), compare=False)  # of both among the groups of a table

    def __post_init__(self) -> None:
        """Check the names."""
        for key in ("group", "other"):
            name = str(getattr(self, key)).strip()
            if not name or "|" in name:
                raise ValueError(f"a limit names two groups, such as {_FORM}, by names without '|'; got {name!r}")
            object.__setattr__(self, key, name)
        if self.group == self.other:
            raise ValueError(f"a limit compares two groups, such as {_FORM}; group {self.group!r} stands on both sides")

    @property
    def named(self) -> tuple[str, ...]:
        return self.group, self.other

    def placed(self, places: tuple[int, ...]) -> TwoGroups:
        return replace(self, places=places)

    @staticmethod
    def read(text: str) -> Stated | None:
        """Return what a text states that compares two groups; the number, maybe in percent, follows either side.

        Raise a ValueError if it compares different quantities, one side names no group, or what follows is no number.

        >>> stated = TwoGroups.read("recall[VF | women] >= recall[VF | men] - 2 %")
        >>> stated.words, stated.sense, stated.limit, stated.across.named
        ('recall[VF]', '>=', -0.02, ('women', 'men'))
        """
        found = []
        # names may hold signs: the sign between equal quantities is meant
        for sign in _SIGN.finditer(text):
            left = _side(text[: sign.start()])
            right = _side(text[sign.end() :])
            if left is not None and right is not None and (left.group is not None or right.group is not None):
                found.append((left, plain_sign(sign[0]), right))
        if not found:
            return None
        left, sense, right = next((one for one in found if one[0].words == one[2].words), found[0])
        if left.group is None or right.group is None:
            raise ValueError(f"{text!r}: one side names no group; write both, such as {_FORM}")
        if left.words != right.words:
            raise ValueError(
                f"{text!r} compares {left.words} with {right.words}; groups are compared by one quantity of one class, "
                f"such as {_FORM}"
            )
        if sense not in (">=", "<="):
            raise ValueError(f"{text!r}: groups are compared by >= or <=, such as {_FORM}; got {sense}")
        limit = _number_behind(text, right.more) - _number_behind(text, left.more)
        return Stated(left.words, sense, limit, TwoGroups(left.group, right.group))

    def text(self, metric: Metric, sense: str) -> str:
        """Return ``NAME[CLASS | GROUP] - NAME[CLASS | OTHER]``."""
        return f"{metric_text(metric, self.group)} - {metric_text(metric, self.other)}"

    def written(self, metric: Metric, sense: str, number: float) -> str:
        """Return ``NAME[CLASS | GROUP] >= NAME[CLASS | OTHER] - NUMBER``."""
        more = f" {'-' if number < 0.0 else '+'} {number_text(abs(number))}" if number else ""
        return f"{metric_text(metric, self.group)} {sense} {metric_text(metric, self.other)}{more}"

    def range(self, low: float, high: float) -> tuple[float, float]:
        return low - high, high - low

    def weights(self, limit: Limit) -> tuple[float, float, float]:
        """Return those of ``v_a - v_b - limit`` for a floor, and of its negative for a ceiling."""
        return limit.sign, -limit.sign, -limit.sign * limit.number

    def pairs(self, n_groups: int) -> list[tuple[int, int]]:
        a, b = self.places
        return [(a, b)]

    def leeway(self, limit: Limit) -> float:
        return -limit.sign * limit.number

    def value(self, values: Array, vacuous: NDArray[np.bool_], limit: Limit) -> Array:
        a, b = self.places
        return np.asarray(values[..., a] - values[..., b])

    def tightened(self, limit: Limit, sizes: Sequence[float], step: float) -> tuple[float, Across]:
        # a ceiling has room below zero: it is a floor on the opposite difference
        floor = Limit(limit.sign * limit.number, True)
        number, _ = super().tightened(floor, [sizes[place] for place in self.places], step)
        return limit.sign * number, self


# --- texts ------------------------------------------------------------------------------------------------------------


class _Side(NamedTuple):
    """One side of a comparison: the words of the quantity, the group (None: none is named), and what follows."""

    words: str
    group: str | None
    more: str


def _side(text: str) -> _Side | None:
    """Return what one side of a comparison states; None if it is no quantity with brackets, or no sum of such."""
    words = ""
    groups = []
    more = ""
    for part in summands(text):
        found = _SIDE.fullmatch(part)
        if found is None:
            return None
        name, inner, params, more = found.groups()
        label, bar, group = inner.rpartition("|")
        label = (label if bar else inner).strip()
        words += (f"{name.strip()}[{label}]" if label else name.strip()) + (params or "")
        groups.append(group.strip() if bar else None)
    if len(set(groups)) > 1:
        raise ValueError(f"{text.strip()!r}: the quantities of one side of a comparison are of one group")
    return _Side(words, groups[0], more.strip())


def _number_behind(text: str, more: str) -> float:
    """Return the number that follows a side with its sign, zero if nothing does."""
    if not more:
        return 0.0
    number = read_number(more[0] + more[1:].lstrip()) if more[0] in "+-" else None
    if number is None:
        raise ValueError(f"{text!r}: + NUMBER or - NUMBER may follow a group, such as {_FORM}; got {more!r}")
    return number
