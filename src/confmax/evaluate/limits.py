"""Limits on labelled rows: what rules make of them, and the numbers of a report, which `studies` computes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Confusion
from confmax.constraints import Constraint, Limits
from confmax.constraints.texts import metric_text
from confmax.evaluate.confusion_change import ConfusionChange
from confmax.evaluate.decided import Decided, counts_of
from confmax.evaluate.scores import Score, percentiles
from confmax.evaluate.verdict import Difference, Estimate, LimitScore
from confmax.tables import Part

UNKNOWN = Estimate(math.nan, None, None)  # 0/0
MISSED = 1e-12  # a limit that is missed by no more, which rounding explains, counts as kept


def confusion_of(decided: Decided, table: Part, proba: NDArray[Any] | None = None) -> Confusion:
    """Return the confusion of decisions on labelled rows, or as the probabilities ``proba`` (n, K) expect it."""
    C = counts_of(decided, table, proba)
    return Confusion.from_matrix(C / C.sum())


def side_by_side(
    limits: Limits, decided: Decided, table: Part, proba: NDArray[Any] | None = None
) -> tuple[Limits, Confusion]:
    """Return limits and the confusion of decisions on labelled rows, for limits of groups that of every group.

    With ``proba`` (n, K) the confusion is the one that these probabilities expect.
    """
    groups = table.groups
    if limits.layout is None or groups is None:
        return limits, confusion_of(decided, table, proba)
    # a rule may have more decisions than its limits speak of
    layout = replace(limits.layout, n_further=decided.n_decisions - table.n_classes)
    parts = []
    weights = []
    for g in range(len(groups)):
        rows = np.flatnonzero(groups.codes == g)
        mine = decided._replace(decisions=decided.decisions[:, rows])
        C = counts_of(mine, table.take(rows), None if proba is None else proba[rows])
        weights.append(C.sum())
        S = Confusion.from_matrix(C / C.sum())
        # row sums stand once for a batch
        parts.append(Confusion(S.rows, S.diagonal[None], S.columns[None], (C / C.sum())[None]))
    S = layout.joined(parts, np.array(weights) / np.sum(weights))
    return replace(limits, layout=layout), S[0]


class Judged(NamedTuple):
    """What a rule makes of a limit on labelled rows; ``by_group`` are the values in each group of a limit of groups.

    The value of a group of which no row is decided is `UNKNOWN`.
    """

    estimate: Estimate
    kept: bool
    vacuous: bool
    by_group: dict[Any, Estimate]
    slack: float  # by how much it is kept
    # whether new rows may show otherwise: the interval holds the limit. Of groups that all must keep it, that of some
    # group holds it, and that of none lies beyond it
    unsure: bool


def judged_limits(limits: Limits, score: Score, rule: str, decided: Decided, table: Part) -> list[Judged]:
    """Return what a ``rule`` of a ``score`` makes of limits, given what it ``decided``; the score has them by texts."""
    limits, S = side_by_side(limits, decided, table)
    found = []
    each = (limits.values(S), limits.slacks(S), limits.vacuous(S), limits.of_all_members(S))
    for one, value, slack, vacuous, (_, uncounted) in zip(limits.constraints, *each, strict=True):
        estimate = Estimate(float(value), None, None)
        by_group = {}
        if one.of_groups:
            parts = zip(score.by_group.items(), uncounted, strict=True)
            by_group = {name: UNKNOWN if none else part.estimate(rule, str(one)) for (name, part), none in parts}
            estimate = Estimate(float(value), *_ends_across(one, score, rule, uncounted))
        else:
            estimate = score.estimate(rule, str(one))._replace(value=float(value))
        shown = by_group.values() if one.of_groups and not one.across.compares else [estimate]
        ends = [(it.low, it.high) for it in shown if it.low is not None and it.high is not None]
        beyond = any(high < one.limit if one.is_floor else low > one.limit for low, high in ends)
        unsure = not (vacuous or beyond) and any(low <= one.limit <= high for low, high in ends)
        found.append(Judged(estimate, is_kept(slack), bool(vacuous), by_group, float(slack), unsure))
    return found


def limit_scores(limits: Limits, score: Score, rule: str, decided: Decided, table: Part) -> tuple[LimitScore, ...]:
    """Return what a ``rule`` makes of limits, as `judged_limits` finds it, as records."""
    found = zip(limits.texts, judged_limits(limits, score, rule, decided, table), strict=True)
    return tuple(LimitScore(text, *one.estimate, one.slack, one.kept, one.unsure) for text, one in found)


def is_kept(slack: float) -> bool:
    """Return whether a limit with this ``slack`` is kept, up to rounding."""
    return bool(slack >= -MISSED)


def missed_by(limits: Limits, decided: Decided, table: Part) -> tuple[str, ...]:
    """Return the limits, as they are written, that a rule misses, given what it ``decided``."""
    limits, S = side_by_side(limits, decided, table)
    return tuple(text for text, slack in zip(limits.texts, limits.slacks(S), strict=True) if not is_kept(slack))


def _ends_across(
    one: Constraint, score: Score, rule: str, uncounted: NDArray[np.bool_]
) -> tuple[float | None, float | None]:
    """Return the interval of a limited value of groups, of which the ``uncounted`` (G,) are 0/0.

    The rows of every group are drawn apart, from one seed. Shuffled, the draws of two groups are independent.
    """
    rng = np.random.default_rng(len(uncounted))
    parts = [part.drawn(rule, str(one)) for part in score.by_group.values()]
    drawn = np.stack([rng.permutation(part) for part in parts], axis=-1)
    known = np.isfinite(drawn).all(axis=-1)
    found = one.across.value(drawn[known], np.broadcast_to(uncounted, drawn[known].shape), one.stated)
    return percentiles(found, score.level)


# --- the numbers of a report ------------------------------------------------------------------------------------------


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

    A limit of groups has the values ``by_group``. Its own is the smallest of them, the largest, their difference or
    their ratio.
    """

    constraint: Constraint
    expected: float
    labels: Estimate
    kept: bool  # whether the rule keeps the limit on these rows
    unsure: bool  # whether its interval holds the limit (`Judged.unsure`)
    argmax: Estimate
    prior: Estimate
    price: float | None  # by how much the best value rises per unit by which the limit is loosened, where it is known
    vacuous: bool  # whether no row is decided as the class of a precision
    outcome: Any = None  # what the tuning says of the limit (`ConstraintOutcome`), None for a saved rule
    by_group: tuple[GroupLimit, ...] = ()

    @property
    def text(self) -> str:
        """The limit as it is written."""
        return str(self.constraint)

    @property
    def of_each(self) -> bool:
        """Whether each group must keep the limit."""
        return self.constraint.of_groups and not self.constraint.across.compares


@dataclass(frozen=True, eq=False)
class LimitCurve:
    """The best expected ``values`` (S,) of a metric within one limit at the ``levels`` (S,), the others as they are.

    No rule exceeds the ``bounds`` (S,), NaN where none is known. ``marks`` are the quantity and the metric, as the
    probabilities expect them, of the best rule without limits, of argmax, p/prior and the tuned rule, by their names.
    ``rules`` (S) are the best single rules in words; empty where there are many classes.
    """

    constraint: Constraint
    levels: Array
    values: Array
    bounds: Array
    marks: dict[str, tuple[float, float]]
    rules: tuple[str, ...]

    @property
    def name(self) -> str:
        """The quantity that is limited."""
        return metric_text(self.constraint.metric)


@dataclass(frozen=True, eq=False)
class LimitFigures:
    """The numbers of a report about limits."""

    rows: tuple[LimitRow, ...]
    absent: tuple[str, ...]  # limits of classes without rows, which cannot be judged
    reached: bool | None = None  # whether some rule keeps all limits, as the probabilities expect, where it is known
    curve: LimitCurve | None = None
    free: Estimate | None = None  # the metric on the labels of the best rule without limits
    given_up: Difference | None = None  # how much less the tuned rule has
    moved: float = 0.0  # the share of the weight that both decide differently
    change: ConfusionChange | None = None  # rows by class and decision, of that rule and of the tuned one
