"""Two classes: a metric against the threshold on the raw probability of the positive one.

Every rule of weights and offsets decides the positive class from some probability on, a calibration that keeps the
order included. So all of them, argmax and p/prior lie on one curve, and a picture of it shows how much the choice of
the threshold matters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from confmax._estimator_steps import class_thresholds
from confmax._metric import Metric
from confmax.confusion import Array, Confusion
from confmax.oracle import Table, apply_calibrator
from confmax.rule import DecisionRule
from confmax.uncertainty import values_at

EVEN, BY_RANK = 101, 200  # points of a curve: along the axis, and where the rows are
ORDER_CHECKED = 1001  # probabilities at which a rule is asked whether it decides from a threshold on


@dataclass(frozen=True)
class Mark:
    """A point of a curve: its name, the threshold, the metric there, and the share of a mixture that it has."""

    name: str
    threshold: float
    value: float
    share: float = 1.0


@dataclass(frozen=True, eq=False)
class ThresholdCurve:
    """A metric against thresholds.

    Attributes
    ----------
    thresholds, values : ndarray (T,)
        The positive class is decided where its raw probability is at least the threshold; at the last threshold, 1, it
        is never decided.
    marks : tuple of Mark
        argmax, p/prior, then the rule, once for every threshold that it draws between.
    positive : str
        Name of the class.
    """

    thresholds: Array
    values: Array
    marks: tuple[Mark, ...]
    positive: str


def positive_class(metric: Metric) -> int:
    """Return the column of the class that a metric of two classes is of: the second one, in the metric's order."""
    return int(metric.classes[-1]) if metric.ordered and metric.classes is not None else 1


def threshold_curve(rule: DecisionRule, table: Table, metric: Metric) -> ThresholdCurve | None:
    """Return the curve of a ``metric`` on a ``table`` of raw probabilities, with the points of ``rule``.

    With labels the rows are counted. Without, the probabilities as the rule calibrates them say what is expected. None
    where there is no such curve: other numbers of classes or decisions, or a rule that does not decide the positive
    class from a threshold on.
    """
    cuts = _cuts(rule, positive_class(metric))
    if cuts is None or table.n_classes != 2:
        return None
    k = positive_class(metric)
    p = table.proba[:, k].astype(np.float64)
    weight = np.ones(len(p)) if table.weight is None else table.weight
    truth = apply_calibrator(rule.calibrator, table.proba)[:, k] if table.labels is None else table.labels == k
    prior = float(np.average(truth, weights=weight))
    order = np.argsort(p, kind="stable")
    sums = [np.append(0.0, np.cumsum((weight * part)[order])) for part in (1.0 - truth, np.asarray(truth, float))]

    def values(at: Array, never: NDArray[np.bool_]) -> Array:
        below = np.where(never, len(p), np.searchsorted(p[order], at, side="left"))
        C = np.empty((len(at), 2, 2))
        for true, each in zip((1 - k, k), sums, strict=True):
            C[:, true, 1 - k], C[:, true, k] = each[below], each[-1] - each[below]
        return values_at(metric, Confusion.from_matrix(C / weight.sum()))

    at = np.union1d(np.linspace(0.0, 1.0, EVEN), np.quantile(p, np.linspace(0.0, 1.0, BY_RANK)))
    named = [("argmax", 0.5, 1.0), ("p/prior", prior, 1.0), *(("tuned rule", cut, share) for cut, share in cuts)]
    points = np.array([cut for _, cut, _ in named])
    found = values(points, np.isinf(points))
    marks = tuple(
        Mark(name, min(cut, 1.0), float(value), share) for (name, cut, share), value in zip(named, found, strict=True)
    )
    return ThresholdCurve(at, values(at, at >= 1.0), marks, str(table.classes[k]))


def _cuts(rule: DecisionRule, k: int) -> list[tuple[float, float]] | None:
    """Return thresholds on the raw probability of class k and their shares: 0 for always, infinite for never."""
    if rule.n_classes != 2 or rule.n_decisions != 2:
        return None
    p = np.linspace(0.0, 1.0, ORDER_CHECKED)
    P = np.column_stack([p, 1.0 - p] if k == 0 else [1.0 - p, p])
    found = []
    for a, share in enumerate(rule.weights):
        one = DecisionRule(rule.gains[a], np.ones(1), rule.class_names, rule.metric, rule.seed, rule.calibrator)
        if (np.diff(one.decision_probabilities(P)[:, k]) < 0).any():
            return None
        found.append((float(class_thresholds([one], np.full(2, 0.5))[0, k]), float(share)))
    return found
