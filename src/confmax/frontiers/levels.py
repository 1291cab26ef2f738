"""The levels of a frontier: which limit moves, over which numbers, and what the best rules of tighter levels say."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from confmax.confusion import Array
from confmax.constraints import Constraint, Quantity, parse
from confmax.constraints.texts import SIGNS
from confmax.constraints.words import Sense
from confmax.errors import InputError
from confmax.evaluate.protocols import Tuned
from confmax.metrics.rates import LABELS_PER_ROW, SumOfRates
from confmax.metrics.shares import RATE

MOST_LEVELS = 10_000
# part of the way by which the tightest level ends before the best value of its quantity, which is a corner
INSIDE = 1e-3
APART = 1e-6  # of two levels: closer ones are one

S = TypeVar("S", bound=Tuned)


def read_limit(limit: str | Constraint | Quantity) -> tuple[Constraint, float | None]:
    """Return the loosest limit of a quantity with its direction, and the number that is asked for; None without one."""
    asked = None
    if isinstance(limit, Constraint):
        found = limit
        asked = limit.limit
    elif isinstance(limit, Quantity):
        found = Constraint(limit.metric, _direction(limit, str(limit)), _any_number(limit), limit.across)
    elif not isinstance(limit, str):
        raise ValueError(f"a limit is a text such as 'precision[yes] >=', or a quantity; got {type(limit).__name__}")
    elif limit.rstrip().endswith(tuple(SIGNS)):
        found = parse(f"{limit} 0")
    elif limit.rstrip().endswith(("]", ")")) or not set(SIGNS) & set(limit):
        found = _without_sign(limit)
    else:
        found = parse(limit)
        asked = found.limit
    low, high = found.range
    if found.metric.gain is not None:
        # the mean of a table lies between its numbers
        low, high = float(np.min(found.metric.gain)), float(np.max(found.metric.gain))
    loosest = low if found.is_floor else high
    return replace(found, limit=loosest if np.isfinite(loosest) else found.limit), asked


def _without_sign(text: str) -> Constraint:
    """Return the limit of a text without a direction, if people want only one."""
    for sense in (">=", "<="):
        try:
            found = parse(f"{text} {sense} 0")
        except ValueError:
            if sense == "<=":
                raise
            continue
        return replace(found, sense=_direction(found, text))
    raise AssertionError


def _direction(one: Constraint | Quantity, text: str) -> Sense:
    """Return the direction in which a quantity is limited, if people want only one; else a ValueError."""
    metric = one.metric
    of_rates = metric.formula in (RATE, LABELS_PER_ROW.formula) or isinstance(metric.formula, SumOfRates)
    goes_both_ways = of_rates or metric.gain is not None
    if goes_both_ways or one.across.compares:
        # a table has no text
        way_out = (
            f"write '{text.strip()} <=', or >=" if metric.gain is None else "pass a limit, such as cost(table) <= 1"
        )
        raise InputError(f"the frontier of {text.strip()!r} has no direction", way_out)
    return ">=" if metric.formula.rises_with_hits > 0 or metric.formula.is_coverage else "<="


def _any_number(one: Quantity) -> float:
    low, high = one.across.range(*one.metric.range)
    return low if np.isfinite(low) else high if np.isfinite(high) else 0.0


def checked_levels(levels: int | ArrayLike, asked: float | None) -> int | Array:
    """Return how many levels are wanted, or which (S,), with the one that is ``asked`` for; a ValueError for others."""
    if isinstance(levels, (int, np.integer)) and not isinstance(levels, bool):
        if not 2 <= levels <= MOST_LEVELS:
            raise ValueError(f"a frontier has 2 to {MOST_LEVELS:,} levels; got {levels}")
        return int(levels)
    try:
        given = np.unique(np.asarray(levels, dtype=np.float64).ravel())
    except (TypeError, ValueError):
        raise ValueError(f"levels is how many, or the numbers of the limit; got {levels!r:.60}") from None
    if asked is not None:
        given = np.sort(np.append(given[np.abs(given - asked) > APART], asked))
    if len(given) < 2 or len(given) > MOST_LEVELS or not np.isfinite(given).all():
        raise ValueError(
            f"a frontier has 2 to {MOST_LEVELS:,} levels, which are finite numbers; got {len(given)}; for one level "
            f"call maximize"
        )
    return given


def refuse_alike(metric: str, limit: Constraint, start: float, end: float) -> None:
    """Refuse, by a ValueError, a quantity whose best value ``end`` the best rule without the limit has, ``start``."""
    if (end - start) * limit.stated.sign <= APART:
        quantity = limit.across.text(limit.metric, limit.sense)
        raise ValueError(
            f"the best rule for {metric} has the best {quantity} already ({start:.4g}), so there is nothing to choose "
            f"between them; take quantities that pull apart"
        )


def in_order(levels: Array, asked: float | None, limit: Constraint) -> Array:
    """Return the levels (S,) of a ``limit``, with the one that is ``asked`` for, from the loosest to the tightest."""
    wanted = levels if asked is None else np.append(levels[np.abs(levels - asked) > APART], asked)
    return np.unique(wanted)[:: int(limit.stated.sign)]


def monotone(found: list[tuple[float, S]]) -> list[tuple[float, S]]:
    """Return solutions of which each is at least as good as those of the tighter levels that follow.

    Levels are left out that no rule keeps, nor any of a tighter level.
    """
    kept: list[tuple[float, S]] = []
    best: S | None = None
    for level, solution in reversed(found):
        if solution.infeasibility is None and (best is None or solution.value >= best.value):
            best = solution
        elif best is not None:
            # a bound of the looser level holds for it, too
            upper = solution.upper_bound
            best = replace(best, upper_bound=None if upper is None else max(upper, best.value))
        if best is not None:
            kept.append((level, best))
    return kept[::-1]
