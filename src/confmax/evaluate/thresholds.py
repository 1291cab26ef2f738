"""The probability from which a rule decides each class, how much it varies between rules, and how much it matters.

Of two classes every rule of weights and offsets decides the positive one from some probability on, a calibration that
keeps the order included. So all of them, argmax and p/prior lie on one curve, the metric against the threshold, and a
picture of it shows how much the choice of the threshold matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from confmax.calibration.shown import coefficients
from confmax.calibration.thresholds import cuts
from confmax.calibration.words import one_class, others_of
from confmax.confusion import Array, Confusion
from confmax.evaluate.decided import Decided
from confmax.evaluate.judging import by_prior
from confmax.evaluate.protocols import plain_rule, with_gain
from confmax.evaluate.uncertainty import values_at
from confmax.metrics import Metric
from confmax.metrics.alignment import positive_class
from confmax.rule import DecisionRule
from confmax.tables import Part, apply_calibrator

MOST_ODDS = 36.0  # log odds beyond which a float64 probability is 0 or 1
HALVINGS = 40
# points of a curve: along the axis, and where the rows are
EVEN = 101
BY_RANK = 200
ORDER_CHECKED = 1001  # probabilities at which a rule is checked to decide from a threshold on


def class_thresholds(rules: Sequence[DecisionRule], mean: Array) -> Array:
    """Return the smallest probability (len(rules), K) at which each class is decided, the others sharing the rest.

    No row need have such probabilities, if there are more than two classes: then it is a measure of rules, to compare
    them by, and `class_ranges` says what is true of rows.

    For two classes they are the threshold of the second and one minus it. Otherwise by bisection of the log odds, the
    others in proportion to their ``mean`` probabilities (K,). 0 where the class is always decided, infinite where it
    never is.
    """
    K = len(mean)
    rest = _shares_of_others(mean)

    def decided(rule: DecisionRule, odds: Array) -> NDArray[np.bool_]:
        # bisection of log odds finds thresholds near 0 and 1 as exactly as those in the middle
        t = expit(odds)
        P = rest * expit(-odds)[:, None]
        P[np.arange(K), np.arange(K)] = t
        # a rule that draws decides a class where it does so at least half of the time
        return np.asarray(np.diagonal(rule.decision_probabilities(P)) >= 0.5)

    thresholds = np.empty((len(rules), K))
    for rule, line in zip(rules, thresholds, strict=True):
        cut = None if rule.is_randomized or rule.groups else cuts(rule.gains, rule.calibrator)[0]
        # of two classes the rule knows its threshold to the float
        if cut is not None:
            line[:] = {0.0: np.inf, np.inf: 0.0}.get(cut, 1.0 - cut), cut
            continue
        low = np.full(K, -MOST_ODDS)
        high = np.full(K, MOST_ODDS)
        always = decided(rule, low)
        never = ~decided(rule, high)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            hit = decided(rule, middle)
            low = np.where(hit, low, middle)
            high = np.where(hit, middle, high)
        line[:] = np.where(always, 0.0, np.where(never, np.inf, expit(high)))
    return thresholds


def _shares_of_others(mean: Array) -> Array:
    """Return how the others share what class k leaves, line k of (K, K), by their ``mean`` probabilities (K,)."""
    rest = np.tile(mean, (len(mean), 1))
    np.fill_diagonal(rest, 0.0)
    rest[rest.sum(axis=1) == 0] = 1.0  # no other class was ever seen: all alike
    np.fill_diagonal(rest, 0.0)
    return np.asarray(rest / rest.sum(axis=1, keepdims=True))


def decided_between(rule: DecisionRule, k: int) -> tuple[float, float] | None:
    """Return between which probabilities class k of two is decided; None where it is from one on, or never.

    Weights and offsets of probabilities favour a class the more, the more probable it is; of other rules every
    thousandth is checked.
    """
    if rule.gains.full is None and not rule.gains.power:
        return None
    p, P = _along_class(k)
    # as for thresholds, a rule that draws decides the class where it does so half of the time
    hit = rule.decision_probabilities(P)[:, k] >= 0.5
    if not hit.any() or hit[int(np.argmax(hit)) :].all():
        return None
    return float(p[hit].min()), float(p[hit].max())


def _along_class(k: int) -> tuple[Array, Array]:
    """Return increasing probabilities of class k of two, and the rows (n, 2) that have them."""
    p = np.linspace(0.0, 1.0, ORDER_CHECKED)
    return p, np.column_stack([p, 1.0 - p] if k == 0 else [1.0 - p, p])


def spread_of(thresholds: Array) -> Array:
    """Return the standard deviation over folds (K,) of the log odds of thresholds (F, K)."""
    if len(thresholds) < 2:
        return np.full(thresholds.shape[1], np.nan)
    # a fold that never or always decides the class has infinite log odds
    inside = (thresholds > 0) & (thresholds < 1)
    spread = np.std(logit(np.where(inside, thresholds, 0.5)), axis=0, ddof=1)
    return np.where(inside.all(axis=0), spread, np.where(inside.any(axis=0), np.inf, np.nan))


# --- several classes: what is true of the rows ------------------------------------------------------------------------


class ClassRange(NamedTuple):
    """The rows that are decided as a class, those at least half of the time where a rule draws."""

    share: float  # of all weight
    # the least and the largest raw probability of the class in them, and in the other rows; None without rows
    inside: tuple[float, float] | None
    outside: tuple[float, float] | None


def class_ranges(decided: Decided, table: Part) -> list[ClassRange]:
    """Return the `ClassRange` of every class (K), of what is ``decided`` for the rows of a table (n, K)."""
    weight = table.weights
    counted = weight > 0.0
    ranges = []
    for k in range(table.n_classes):
        hit = decided.shares @ (decided.decisions == k) >= 0.5
        p = table.proba[:, k]
        share = float(weight @ hit / weight.sum())
        ranges.append(ClassRange(share, _range(p[hit & counted]), _range(p[~hit & counted])))
    return ranges


def _range(p: NDArray[Any]) -> tuple[float, float] | None:
    return (float(p.min()), float(p.max())) if len(p) else None


def favours(rule: DecisionRule) -> list[tuple[float, float] | None]:
    """Return how often the probability of each class (K) counts, the least once, and the offset that is added.

    Of a rule that decides one class by its probability alone, these are the numbers of the others. None where a rule
    has no such numbers: it draws, reads distances or a table of gains.
    """
    none: list[tuple[float, float] | None] = [None] * rule.n_classes
    if rule.is_randomized or rule.gains.full is not None or rule.gains.power:
        return none
    of_class = one_class(rule)
    gains = rule.gains if of_class is None else others_of(of_class)
    if gains is None:
        return none
    a, b = (part[0].tolist() for part in coefficients(gains))
    return [None if of_class is not None and k == of_class.k else (a[k], b[k]) for k in range(rule.n_classes)]


# --- two classes: a metric against the threshold ----------------------------------------------------------------------


@dataclass(frozen=True)
class Mark:
    """A point of a curve: its name, the threshold, the metric there, and the share of a mixture that it has."""

    name: str
    threshold: float
    value: float
    share: float = 1.0


@dataclass(frozen=True, eq=False)
class ThresholdCurve:
    """A metric against thresholds (T,).

    The positive class is decided where its raw probability is at least the threshold; at the last threshold, 1, it is
    never decided. The marks are argmax, p/prior, then the rule, once for every threshold that it draws between.
    """

    thresholds: Array
    values: Array
    marks: tuple[Mark, ...]
    positive: str  # name of the class

    def value_at(self, threshold: float) -> float:
        """Return the metric at a ``threshold`` on the line."""
        return float(np.interp(threshold, self.thresholds, self.values))


def threshold_curve(rule: DecisionRule, table: Part, metric: Metric) -> ThresholdCurve | None:
    """Return the curve of a ``metric`` on a ``table`` of raw probabilities, with the points of ``rule``.

    With labels the rows are counted. Without, the probabilities as the rule calibrates them say what is expected. None
    where there is no such curve: other numbers of classes or decisions, or a rule that does not decide the positive
    class from a threshold on.
    """
    k = positive_class(metric)
    parts = _parts(rule, k)
    if not parts or table.n_classes != 2:
        return None
    p = table.proba[:, k].astype(np.float64)
    weight = table.weights
    # without labels a row counts for the class by its probability, as the rule calibrates it
    positive = apply_calibrator(rule.calibrator, table.proba)[:, k] if table.labels is None else table.labels == k
    truth = np.empty((2, len(p)))
    truth[k], truth[1 - k] = positive, 1.0 - positive
    total = np.array([weight @ true for true in truth])
    order = np.argsort(p, kind="stable")
    at = np.union1d(np.linspace(0.0, 1.0, EVEN), np.quantile(p, np.linspace(0.0, 1.0, BY_RANK)))
    # rows may have a probability of 1, and yet the last threshold decides none of them
    below = np.where(at >= 1.0, len(p), np.searchsorted(p[order], at, side="left"))

    def values(decided: Array) -> Array:
        """Return the metric (T,) if the positive class has so much weight (T, 2) of each true class."""
        C = np.empty((len(decided), 2, 2))
        C[:, :, k], C[:, :, 1 - k] = decided, total - decided
        return values_at(metric, Confusion.from_matrix(C / weight.sum()))

    # in order of p the rows above a threshold are the last ones: one running sum serves all thresholds
    above = [np.append(0.0, np.cumsum((weight * true)[order[::-1]]))[::-1][below] for true in truth]
    plain = plain_rule(rule)
    prior = np.array([np.average(true, weights=weight) for true in truth])
    named = [
        ("argmax", plain, 0.5, 1.0),
        ("p/prior", with_gain(plain, by_prior(prior)), float(prior[k]), 1.0),
        *(("tuned rule", *part) for part in parts),
    ]
    marks = []
    for name, shown, cut, share in named:
        # by its decisions: a threshold may be the very probability of a row
        hit = shown.predict_index(table.proba) == k
        value = values(np.array([[weight @ (hit * true) for true in truth]]))
        marks.append(Mark(name, min(cut, 1.0), float(value[0]), share))
    return ThresholdCurve(at, values(np.column_stack(above)), tuple(marks), str(table.classes[k]))


def _parts(rule: DecisionRule, k: int) -> list[tuple[DecisionRule, float, float]]:
    """Return the rules that a rule of two classes draws, their thresholds on the raw probability of class k, shares.

    A threshold is 0 where the class is always decided, infinite where it never is. None are returned if a rule does not
    decide the class from a threshold on.
    """
    if rule.n_classes != 2 or rule.n_decisions != 2:
        return []
    _, P = _along_class(k)
    parts = []
    for a, share in enumerate(rule.weights):
        part = with_gain(rule, rule.gains[a])
        if (np.diff((part.predict_index(P) == k).astype(int)) < 0).any():
            return []
        parts.append((part, float(class_thresholds([part], np.full(2, 0.5))[0, k]), float(share)))
    return parts
