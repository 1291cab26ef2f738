"""What a limit is on: the value of a quantity on all rows, or its values in groups.

Each kind is a class, which knows its words, its range, the functions of the confusion that must not fall below zero,
and what rows that tuned nothing say of it. A kind is added by a class in a file of its own and by its name in `KINDS`
of `confmax.constraints.grammar`: nothing else of confmax knows the kinds.

Limits that compare groups are linear functions of the values of two groups, ``w_a v_a + w_b v_b + constant >= 0``, for
some of the ordered pairs of groups (`Pairs`). They limit linear quantities only: where the denominator of a quantity
depends on the rule, the rules that keep such a limit are no convex set.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Confusion, Gains, Layout
from confmax.constraints.proportions import (
    REFUTED,
    chances_of_shares,
    interval,
    kept_on_new_rows,
    refutes,
    rows_needed,
)
from confmax.constraints.texts import metric_text, number_text
from confmax.metrics import Metric
from confmax.metrics.limited import count_of, functions_of_limit, scales_of
from confmax.metrics.ratios import Ratios
from confmax.metrics.structure import AffineFunctions
from confmax.metrics.views import view

ROUNDING = 1e-15  # values of groups that differ by no more are alike
WIDEST = 0.25  # the largest variance of one row of a share: those of groups that are compared are not known
BAND = 0.5  # standard errors by which the values of groups must be nearer than a limit where labels alone count
ERRORS = 1.2816  # standard errors that chance explains at a level of a tenth
BEYOND = 0.2  # of the variance of one row: how far beyond a limit labels alone must rule a share out,
LEAST_BEYOND = 0.01  # and no less far
LEAST_MISS = 1e-6  # by which a share that fails a test counts as missing its limit
NOT_EQUAL = 0.9  # part of the way to equality of groups that a limit is tightened, at most


class Limit(NamedTuple):
    """A number that a quantity must not fall below, if ``is_floor``, or exceed."""

    number: float
    is_floor: bool

    @property
    def sign(self) -> float:
        """One of a floor, minus one of a ceiling."""
        return 1.0 if self.is_floor else -1.0

    def moved(self, room: float, error: float, step: float) -> float:
        """Return the number tightened by ``step`` errors, and never by all the ``room`` that there is."""
        move = room * -np.expm1(-step * error / room) if room > 0.0 else 0.0
        return float(self.number + self.sign * move)


class Stated(NamedTuple):
    """What a text states: the words of a quantity, ``>=`` or ``<=``, the limit, and what of the values it is on."""

    words: str
    sense: str
    limit: float
    across: Across


class Across(ABC):
    """What of the values of a quantity is limited. What is not abstract holds unless a kind knows better."""

    words: ClassVar[Mapping[str, str]] = {}  # those of ``WORD(NAME | group)``, and the sign that goes with each, or ""
    of_groups: ClassVar[bool] = True  # whether it speaks of groups
    compares: ClassVar[bool] = False  # whether it compares groups with each other, and so needs two
    equalises: ClassVar[bool] = False  # whether a limit of zero makes the groups equal

    # --- the groups that it names ---

    @property
    def named(self) -> tuple[str, ...]:
        """The names of the groups that it speaks of; none if it speaks of all."""
        return ()

    def placed(self, places: tuple[int, ...]) -> Across:
        """Return it for a table among whose groups the named ones have these ``places``."""
        return self

    # --- words ---

    @staticmethod
    def read(text: str) -> Stated | None:  # noqa: ARG004
        """Return what a text of a form of its own states; None for other texts, and for ``WORD(NAME | group)``."""
        return None

    def text(self, metric: Metric, sense: str) -> str:
        """Return the quantity that is limited, as a constraint with this sign writes it."""
        word = next(word for word, only in self.words.items() if only in ("", sense))
        return f"{word}({metric_text(metric)} | group)"

    def written(self, metric: Metric, sense: str, number: float) -> str:
        """Return a constraint as a text."""
        return f"{self.text(metric, sense)} {sense} {number_text(number)}"

    def range(self, low: float, high: float) -> tuple[float, float]:
        """Return between which numbers the limited number lies, for a metric from ``low`` to ``high``."""
        return low, high

    def refuse(self, metric: Metric, limit: Limit, text: str) -> None:  # noqa: B027
        """Raise a ValueError for the constraint ``text``, if the rules that keep it are no convex set."""

    # --- on a table ---

    def members(self, metric: Metric, layout: Layout | None) -> tuple[Metric, ...]:
        """Return the metrics of groups side by side whose values are read: of every group, or of all rows."""
        if layout is None:
            return (metric,)
        return tuple(view(metric, layout, g) for g in range(layout.n_groups))

    @abstractmethod
    def n_functions(self, members: Sequence[Metric], n_classes: int) -> int:
        """Return how many linear functions a limit is."""

    @abstractmethod
    def functions(
        self, members: Sequence[Metric], parts: Sequence[Ratios], limit: Limit, rows: Array
    ) -> list[AffineFunctions]:
        """Return the functions that must not fall below zero, as `Limits.functions`, of the `ratio_of` of members."""

    @abstractmethod
    def scales(self, members: Sequence[Metric], parts: Sequence[Ratios], values: Array, S: Confusion) -> list[Array]:
        """Return `Limits.scales` of a limit, given `ratio_of` and the ``values`` (G,) of the members at ``S``."""

    def leeway(self, limit: Limit) -> float:
        """Return by how much values of groups may differ, as `Limits.leeway` says."""
        return np.inf

    @abstractmethod
    def value(self, values: Array, vacuous: NDArray[np.bool_], limit: Limit) -> Array:
        """Return the number that is limited (...), of the values (..., G) of the members; those of 0/0 do not count."""

    @abstractmethod
    def slack(self, values: Array, kept: NDArray[np.bool_], limit: Limit) -> Array:
        """Return by how much the limit is kept (...), of the values (..., G), some of which are ``kept`` as 0/0."""

    # --- what labels say ---

    @abstractmethod
    def refuted(self, limit: Limit, shares: Sequence[float], sizes: Sequence[float]) -> list[int]:
        """Return the places of the ``shares`` (G,), of ``sizes`` (G,) rows, by which labels refute the limit."""

    @abstractmethod
    def beyond_chance(self, limit: Limit, values: Array, sizes: Array, kept: NDArray[np.bool_], level: float) -> Array:
        """Return by how much a limit is kept (...) beyond what chance explains, of shares ``values`` (..., G).

        They are shares of ``sizes`` (..., G) rows that tuned, infinity where no test is asked for; some are ``kept`` as
        0/0. The tests are of a ``level``.
        """

    # --- with confidence ---

    @abstractmethod
    def passes(self, limit: Limit, shares: Sequence[float], sizes: Sequence[float], confidence: float) -> bool:
        """Whether ``shares`` (G,) of ``sizes`` (G,) rows that tuned nothing show that new rows keep the limit."""

    def rows_needed(self, limit: Limit, shares: Sequence[float], confidence: float) -> int | None:
        """Return about how many rows would show it, at the same shares; None if that is not known."""
        return None

    @abstractmethod
    def tightened(self, limit: Limit, sizes: Sequence[float], step: float) -> tuple[float, Across]:
        """Return the number and the kind of a limit with so many standard errors of ``sizes`` (G,) rows of room.

        It goes not as far as zero or one.
        """


def a_little_beyond(limit: Limit) -> float:
    """Return a share that misses a limit by a little: by a fifth of the variance of one row, .042 at .7.

    >>> round(a_little_beyond(Limit(0.7, is_floor=True)), 3), round(a_little_beyond(Limit(0.02, is_floor=False)), 3)
    (0.658, 0.03)
    """
    return float(limit.number - limit.sign * max(BEYOND * limit.number * (1.0 - limit.number), LEAST_BEYOND))


# --- all rows, and every group ----------------------------------------------------------------------------------------


class Separate(Across):
    """A limit that every value must keep, of all rows or of each group."""

    def numbers(self, limit: Limit, count: int) -> Array:
        """Return the number that each of the values (G,), of which there are ``count``, must keep."""
        return np.full(count, limit.number)

    def n_functions(self, members: Sequence[Metric], n_classes: int) -> int:
        return sum(count_of(metric, n_classes) for metric in members)

    def functions(
        self, members: Sequence[Metric], parts: Sequence[Ratios], limit: Limit, rows: Array
    ) -> list[AffineFunctions]:
        each = zip(members, parts, self.numbers(limit, len(members)).tolist(), strict=True)
        return [functions_of_limit(metric, part, number, limit.sign, rows) for metric, part, number in each]

    def scales(self, members: Sequence[Metric], parts: Sequence[Ratios], values: Array, S: Confusion) -> list[Array]:
        return [scales_of(metric, part, S) for metric, part in zip(members, parts, strict=True)]

    def value(self, values: Array, vacuous: NDArray[np.bool_], limit: Limit) -> Array:
        """Return the smallest value of a floor, the largest of a ceiling."""
        least = np.where(vacuous, np.inf, limit.sign * values).min(axis=-1)
        return np.where(vacuous.all(axis=-1), 0.0, limit.sign * least)

    def slack(self, values: Array, kept: NDArray[np.bool_], limit: Limit) -> Array:
        numbers = self.numbers(limit, values.shape[-1])
        return np.where(kept, 0.0, limit.sign * (values - numbers)).min(axis=-1)

    def refuted(self, limit: Limit, shares: Sequence[float], sizes: Sequence[float]) -> list[int]:
        """Return the places of the shares that the exact test of their own rows refutes."""
        each = zip(shares, sizes, strict=True)
        found = [refutes(share, n, limit.number, is_floor=limit.is_floor) for share, n in each]
        return np.flatnonzero(found).tolist()

    def beyond_chance(self, limit: Limit, values: Array, sizes: Array, kept: NDArray[np.bool_], level: float) -> Array:
        """Return the smallest slack of shares that fail an exact one-sided test; infinity where none fails.

        A share passes if the chance of it is small, were the limit missed by a little (`a_little_beyond`). It is the
        slack there less the errors of the test, so that what fails by less is nearer.
        """
        found = np.full(values.shape[:-1], np.inf)
        beyond = a_little_beyond(limit)
        variance = limit.number * (1.0 - limit.number)
        for g in np.flatnonzero(np.isfinite(sizes).reshape(-1, sizes.shape[-1]).any(axis=0)).tolist():
            value, n = values[..., g], sizes[..., g]
            chance = chances_of_shares(value, n, beyond, is_floor=limit.is_floor)
            slack = limit.sign * (value - beyond) - ERRORS * np.sqrt(variance / np.maximum(n, 1.0))
            failed = (chance > level) & ~kept[..., g]
            found = np.minimum(found, np.where(failed, np.minimum(slack, -LEAST_MISS), np.inf))
        return found

    def passes(self, limit: Limit, shares: Sequence[float], sizes: Sequence[float], confidence: float) -> bool:
        """Whether the exact tests of all shares pass, which needs no correction."""
        return all(
            kept_on_new_rows(share, n, limit.number, is_floor=limit.is_floor, confidence=confidence)
            for share, n in zip(shares, sizes, strict=True)
        )

    def rows_needed(self, limit: Limit, shares: Sequence[float], confidence: float) -> int | None:
        needed = [rows_needed(share, limit.number, is_floor=limit.is_floor, confidence=confidence) for share in shares]
        return None if None in needed else max(n for n in needed if n is not None)

    def tightened(self, limit: Limit, sizes: Sequence[float], step: float) -> tuple[float, Across]:
        """Return a limit that has room by the errors of all rows."""
        (size,) = sizes
        return self._tightened(limit, size, step), self

    @staticmethod
    def _tightened(limit: Limit, size: float, step: float) -> float:
        error = float(np.sqrt(limit.number * (1.0 - limit.number) / size))
        return limit.moved(1.0 - limit.number if limit.is_floor else limit.number, error, step)


@dataclass(frozen=True)
class AllRows(Separate):
    """The value on all rows."""

    of_groups: ClassVar[bool] = False

    def text(self, metric: Metric, sense: str) -> str:
        return metric_text(metric)

    def members(self, metric: Metric, layout: Layout | None) -> tuple[Metric, ...]:
        return (view(metric, layout),)


@dataclass(frozen=True)
class EveryGroup(Separate):
    """The value in every group: the smallest has the floor, or the largest the ceiling.

    While rules with a confidence are tuned, every group has a number of its ``own``, with room by its number of rows.
    """

    words: ClassVar[Mapping[str, str]] = {"min": ">=", "max": "<="}
    own: tuple[float, ...] = ()

    def numbers(self, limit: Limit, count: int) -> Array:
        return np.array(self.own) if self.own else super().numbers(limit, count)

    def tightened(self, limit: Limit, sizes: Sequence[float], step: float) -> tuple[float, Across]:
        """Return a limit that has room in every group by the errors of its own rows; its number is the tightest."""
        own = tuple(self._tightened(limit, size, step) for size in sizes)
        return limit.sign * max(limit.sign * number for number in own), EveryGroup(own)


# --- groups that are compared -----------------------------------------------------------------------------------------


class Pairs(Across):
    """A limit on linear functions of the values of two groups, for some ordered pairs of groups."""

    compares: ClassVar[bool] = True
    what: ClassVar[str] = "difference"  # what it is called
    side: ClassVar[str] = ""  # the sign that a limit on it has, if only one makes a convex set

    @abstractmethod
    def weights(self, limit: Limit) -> tuple[float, float, float]:
        """Return ``w_a``, ``w_b`` and the constant of ``w_a v_a + w_b v_b + constant >= 0``."""

    def pairs(self, n_groups: int) -> list[tuple[int, int]]:
        """Return the pairs ``(a, b)`` of groups that are compared: all ordered ones."""
        return [(a, b) for a in range(n_groups) for b in range(n_groups) if a != b]

    def slopes(self, values: Array) -> Array:
        """Return by how much the function of each pair changes with the limited number, at the ``values`` (G,)."""
        return np.ones(len(self.pairs(len(values))))

    def refuse(self, metric: Metric, limit: Limit, text: str) -> None:
        """Refuse the other side, and metrics that are not linear."""
        if self.side and limit.is_floor != (self.side == ">="):
            has = "floor" if self.side == ">=" else "ceiling"
            instead = self.written(metric, self.side, limit.number)
            raise ValueError(f"{text}: a {self.what} of groups has a {has}; write {instead}")
        if not metric.structure.is_linear:
            name = metric_text(metric)
            depends = f"the denominator of {name} depends on the rule"
            why = depends if metric.structure.is_ratio else f"{name} is not linear"
            every = f"min({name} | group) >= 0.7"
            if metric.formula.rises_with_hits < 0:
                every = f"max({name} | group) <= 0.1"
            # of the rows that are decided, no share is linear
            others = "" if metric.formula.is_of_decided else f", or the {self.what} of recall, fpr or rate"
            raise ValueError(
                f"{text}: {why}, so the rules that keep a {self.what} of it are no convex set; limit every group "
                f"instead, such as {every}{others}"
            )

    def n_functions(self, members: Sequence[Metric], n_classes: int) -> int:
        return len(self.pairs(len(members)))

    def functions(
        self, members: Sequence[Metric], parts: Sequence[Ratios], limit: Limit, rows: Array
    ) -> list[AffineFunctions]:
        # what is compared is linear
        constants = np.concatenate([part.top_constant for part in parts])
        every = AffineFunctions(Gains.concatenate([part.top for part in parts]))
        w_a, w_b, constant = self.weights(limit)
        found = []
        for a, b in self.pairs(len(members)):
            weights = np.zeros((1, len(members)))
            weights[0, [a, b]] = w_a, w_b
            found.append(AffineFunctions(every.combined(weights), weights @ constants + constant))
        return found

    def scales(self, members: Sequence[Metric], parts: Sequence[Ratios], values: Array, S: Confusion) -> list[Array]:
        return [self.slopes(values)]

    def slack(self, values: Array, kept: NDArray[np.bool_], limit: Limit) -> Array:
        return limit.sign * (self.value(values, kept, limit) - limit.number)

    def refuted(self, limit: Limit, shares: Sequence[float], sizes: Sequence[float]) -> list[int]:
        """Return the places of pairs whose labels refute the limit.

        How far a function of two values can be on the side that keeps the limit is known of each value by an exact
        one-sided bound; the distances are squared and added (Newcombe, "Interval estimation for the difference between
        independent proportions", Statistics in Medicine 17, 1998). That both values are at their bounds is less likely.
        """
        ends = _ends(shares, sizes, 1.0 - 2.0 * REFUTED)
        w_a, w_b, constant = self.weights(limit)
        found: set[int] = set()
        for a, b in self.pairs(len(ends)):
            far = np.hypot(w_a * (ends[a][w_a > 0.0] - shares[a]), w_b * (ends[b][w_b > 0.0] - shares[b]))
            if w_a * shares[a] + w_b * shares[b] + constant + far < 0.0:
                found |= {a, b}
        return sorted(found)

    def beyond_chance(self, limit: Limit, values: Array, sizes: Array, kept: NDArray[np.bool_], level: float) -> Array:
        """Return the slack less half a standard error of the shares that are tested."""
        spread = (values * (1.0 - values) / np.maximum(sizes, 1.0)).sum(axis=-1)
        return self.slack(values, kept, limit) - BAND * np.sqrt(np.maximum(spread, 0.0))

    def passes(self, limit: Limit, shares: Sequence[float], sizes: Sequence[float], confidence: float) -> bool:
        """Whether every pair keeps the limit at the ends of its intervals.

        Of two groups the one-sided limits of both proportions, each at half the error, must keep the limit; so must all
        pairs, which needs no correction.
        """
        ends = _ends(shares, sizes, confidence)
        w_a, w_b, constant = self.weights(limit)
        # a positive weight is least at the lower end
        return all(
            w_a * ends[a][w_a < 0.0] + w_b * ends[b][w_b < 0.0] + constant >= 0.0 for a, b in self.pairs(len(ends))
        )

    def tightened(self, limit: Limit, sizes: Sequence[float], step: float) -> tuple[float, Across]:
        """Return a limit that has room by the errors of the two smallest groups, which add up."""
        error = float(np.sqrt(WIDEST * sum(1.0 / size for size in sorted(sizes)[:2])))
        # no difference and no ratio is made exactly equal: such rules draw
        room = 1.0 - limit.number if limit.is_floor else limit.number
        return limit.moved(room * NOT_EQUAL, error, step), self


def _ends(shares: Sequence[float], sizes: Sequence[float], level: float) -> list[tuple[float, float]]:
    """Return the two-sided intervals of ``shares``, whose ends are one-sided limits at half of the error each."""
    return [interval(share, n, level) if n > 0 else (0.0, 1.0) for share, n in zip(shares, sizes, strict=True)]


@dataclass(frozen=True)
class Difference(Pairs):
    """The largest difference between two groups, which can have a ceiling."""

    words: ClassVar[Mapping[str, str]] = {"difference": ""}
    side: ClassVar[str] = "<="
    equalises: ClassVar[bool] = True

    def range(self, low: float, high: float) -> tuple[float, float]:
        return 0.0, high - low

    def weights(self, limit: Limit) -> tuple[float, float, float]:
        """Return those of ``limit - (v_a - v_b)``."""
        return -1.0, 1.0, limit.number

    def leeway(self, limit: Limit) -> float:
        return limit.number

    def value(self, values: Array, vacuous: NDArray[np.bool_], limit: Limit) -> Array:
        return np.asarray(np.ptp(values, axis=-1))


@dataclass(frozen=True)
class Ratio(Pairs):
    """The smallest ratio of two groups, which can have a floor."""

    words: ClassVar[Mapping[str, str]] = {"ratio": ""}
    what: ClassVar[str] = "ratio"
    side: ClassVar[str] = ">="

    def range(self, low: float, high: float) -> tuple[float, float]:
        return 0.0, 1.0

    def refuse(self, metric: Metric, limit: Limit, text: str) -> None:
        """Refuse quantities that may be negative, too."""
        super().refuse(metric, limit, text)
        least = min((gain for row in metric.gain for gain in row), default=0.0) if metric.gain else metric.range[0]
        if least < 0.0:
            raise ValueError(
                f"{text}: {metric_text(metric)} may be negative, and a ratio compares numbers that are not; limit the "
                f"difference of groups"
            )

    def weights(self, limit: Limit) -> tuple[float, float, float]:
        """Return those of ``v_a - limit v_b``."""
        return 1.0, -limit.number, 0.0

    def slopes(self, values: Array) -> Array:
        """Return the values below: a ratio moves its function by what stands there."""
        return np.array([values[b] for _, b in self.pairs(len(values))])

    def leeway(self, limit: Limit) -> float:
        return 1.0 - limit.number

    def value(self, values: Array, vacuous: NDArray[np.bool_], limit: Limit) -> Array:
        low = values.min(axis=-1)
        high = values.max(axis=-1)
        # groups in which nothing is decided as the class are alike, too
        alike = high - low <= ROUNDING
        return np.where(alike, 1.0, low / np.where(alike, 1.0, high))


ALL_ROWS = AllRows()
