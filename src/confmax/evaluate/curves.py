"""Curves: what a rule is worth at every level of a quantity that is limited, such as the share of the rows it decides.

A rule that abstains has two numbers: the share of the rows that it decides, its coverage, and a metric of these rows.
One minus the metric is the loss, and the loss against the coverage the risk-coverage curve. Chow's order is what people
use without tuning: it decides the most probable class of the rows where this probability is largest, so that one order
of the rows serves every coverage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Confusion
from confmax.evaluate.decided import counts_of
from confmax.evaluate.rivals import CHOW, chow
from confmax.evaluate.uncertainty import values_at
from confmax.evaluate.verdict import Difference, Estimate
from confmax.metrics import Metric
from confmax.tables import Part

BEST = "best rule at each coverage"
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class Curve:
    """What the rules of a frontier are worth on labelled rows.

    Attributes
    ----------
    metric, limit : str
        The metric, and the quantity that is limited.
    levels : ndarray (S,)
        The limits that the rules were tuned to, from the loosest to the tightest.
    reached : ndarray (S,)
        The limited quantity on these rows.
    values : ndarray (S,)
        The metric on these rows.
    reached_intervals, intervals : ndarray (S, 2)
        Bootstrap intervals of both, of 95 %; NaN where there is none: of limits of groups.
    marks : dict of str to (float, float)
        The limited quantity and the metric of argmax and of p/prior on these rows, or of several labels of p > 0.5 or
        top-k.
    chow : Curve or None
        Of a coverage, the curve of Chow's rule on these rows: it decides the most probable class of the rows where its
        calibrated probability is largest. None for other quantities.
    is_cost : bool
        Whether the metric is a table of costs: ``values`` are minus the costs, which are printed.

    Examples
    --------
    >>> curve = Curve("accuracy", "coverage", *np.array([[1.0, 0.5], [1.0, 0.5], [0.8, 1.0]]), *np.ones((2, 2, 2)), {})
    >>> curve.area(), curve.value_at(0.75)
    (0.9, 0.9)
    """

    metric: str
    limit: str
    levels: Array
    reached: Array
    values: Array
    reached_intervals: Array
    intervals: Array
    marks: dict[str, tuple[float, float]]
    chow: Curve | None = None
    is_cost: bool = False

    def value_at(self, reached: float) -> float:
        """Return the metric where the limited quantity is ``reached``, on the line between two rules.

        Raises
        ------
        ValueError
            If no two rules have it between them.
        """
        x, y = self.line()
        if not x[0] - ROUNDING <= reached <= x[-1] + ROUNDING:
            raise ValueError(f"the curve lies between {x[0]:.6g} and {x[-1]:.6g} of {self.limit}; got {reached!r}")
        return float(np.interp(reached, x, y))

    def area(self, low: float | None = None, high: float | None = None) -> float:
        """Return the mean of the metric from ``low`` to ``high`` of the limited quantity, by the trapezoid.

        None is the end of the curve. Compare two curves over the same range.

        Raises
        ------
        ValueError
            If ``low`` is not below ``high``, or the curve does not reach there.
        """
        x, y = self.line()
        start = float(x[0] if low is None else low)
        end = float(x[-1] if high is None else high)
        ends = self.value_at(start), self.value_at(end)
        if not start < end:
            raise ValueError(f"an area needs two different numbers, the lower one first; got {start:.6g} and {end:.6g}")
        inside = (x > start) & (x < end)
        x = np.concatenate([[start], x[inside], [end]])
        y = np.concatenate([ends[:1], y[inside], ends[1:]])
        return float((np.diff(x) * (y[1:] + y[:-1])).sum() / 2.0 / (end - start))

    def line(self) -> tuple[Array, Array]:
        """Return the points (P,), (P,) by the limited quantity; of points above each other the mean.

        A tighter level has at least as tight a quantity but for the chance of these rows: rules that are out of order
        are one point, with the means of both numbers. ValueError if no point has a value.
        """
        from sklearn.isotonic import isotonic_regression  # a table of numbers does not wait for it

        known = np.isfinite(self.reached) & np.isfinite(self.values)
        if not known.any():
            raise ValueError(f"no rule of this curve has a value of {self.limit} on these rows")
        levels = self.levels[known]
        falls = bool(levels[-1] < levels[0])
        x = isotonic_regression(self.reached[known], increasing=not falls)
        x, place = np.unique(x.round(12), return_inverse=True)
        return x, np.bincount(place, weights=self.values[known]) / np.bincount(place)

    def __str__(self) -> str:
        name = "cost of a row" if self.is_cost else self.metric
        sign = -1.0 if self.is_cost else 1.0
        lines = [[f"{self.limit}, tuned to", "reached", "from", "to", name, "from", "to"]]
        numbers = zip(self.levels, self.reached, self.reached_intervals, self.values, self.intervals, strict=True)
        for level, x, around, y, between in numbers:
            lines.append([written(number) for number in (level, x, *around, sign * y, *sorted(sign * between))])
        marks = [f"{rule}: {name} {written(sign * y)} at {written(x)}" for rule, (x, y) in self.marks.items()]
        return "\n".join([*in_columns(lines), *marks])

    __repr__ = __str__


def curve_through(metric: str, limit: str, levels: Array, values: Array) -> Curve:
    """Return the curve through ``values`` at ``levels`` that are reached, without intervals."""
    unknown = np.full((len(levels), 2), np.nan)
    return Curve(metric, limit, levels, levels, values, unknown, unknown, {})


def written(number: float) -> str:
    """Return a number as text, a dash for one that is not known."""
    return f"{number:.4g}" if np.isfinite(number) else "-"


def in_columns(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return lines of cells as texts, aligned on the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(f"{cell:>{width}}" for cell, width in zip(line, widths, strict=True)) for line in lines]


# --- of rules that abstain --------------------------------------------------------------------------------------------


def chow_curve(metric: Metric, proba: NDArray[Any], table: Part, coverages: Array) -> Curve:
    """Return the curve of Chow's rule on a labelled ``table``, by its calibrated probabilities ``proba`` (n, K).

    ``metric`` is one of what is decided, ``coverages`` (S,) are the points.
    """
    weight = table.weights
    return coverage_curve(metric, coverages, [counts_of(chow(proba, weight, c), table) for c in coverages.tolist()])


def coverage_curve(metric: Metric, coverages: Array, confusions: Sequence[Array]) -> Curve:
    """Return the curve of a metric of what is decided through rules at ``coverages`` (S,).

    Their ``confusions`` are the weights (K, M) of rows by true class and decision.
    """
    C = np.stack([counts / counts.sum() for counts in confusions])
    return curve_through(repr(metric), "coverage", coverages, values_at(metric, Confusion.from_matrix(C)))


# --- the numbers of a report ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Undecided:
    """Which share of a class, or of all rows, a rule leaves undecided, and which one Chow's rule."""

    name: str
    rule: Estimate
    chow: Estimate


@dataclass(frozen=True, eq=False)
class CoverageFigures:
    """The numbers of a report about what a rule leaves undecided; `confmax.evaluate.studies` computes them.

    ``label`` is the name of the metric. ``everywhere`` is argmax on all rows, ``chow`` Chow's rule at the coverage of
    the rule, ``rule`` the rule itself, and ``minus`` the rule minus Chow's. ``path`` is the curve of the best rules at
    a grid of coverages, None where there is none; ``over`` are the coverages that both areas are taken over.
    """

    label: str
    shares: tuple[Undecided, ...]
    everywhere: Estimate
    chow: Estimate
    rule: Estimate
    minus: Difference
    curve: Curve
    path: Curve | None
    over: tuple[float, float]

    @property
    def point(self) -> tuple[float, float]:
        """Coverage and loss of the rule."""
        return 1.0 - self.shares[0].rule.value, 1.0 - self.rule.value

    @property
    def curves(self) -> dict[str, Curve]:
        """The curves by their names."""
        return named_curves(self.curve, self.path)


def named_curves(chow: Curve, best: Curve | None) -> dict[str, Curve]:
    """Return Chow's curve and that of the best rules, which may not be known, by their names."""
    return {CHOW: chow} | ({} if best is None else {BEST: best})
