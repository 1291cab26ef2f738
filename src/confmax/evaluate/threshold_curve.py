"""Two classes: a metric against the threshold on the raw probability of the positive one.

Every rule of weights and offsets decides the positive class from some probability on, a calibration that keeps the
order included. So all of them, argmax and p/prior lie on one curve, and a picture of it shows how much the choice of
the threshold matters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from confmax.confusion import Array, Confusion, Gains
from confmax.evaluate.protocols import Rule, plain_rule, with_gain
from confmax.evaluate.thresholds import class_thresholds
from confmax.evaluate.uncertainty import values_at
from confmax.metrics import Metric
from confmax.tables import MemoryTable, apply_calibrator

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

    def value_at(self, threshold: float) -> float:
        """Return the metric at a ``threshold`` on the line."""
        return float(np.interp(threshold, self.thresholds, self.values))


def positive_class(metric: Metric) -> int:
    """Return the column of the class that a metric of two classes is of: its own, or the second one in its order."""
    has_positive = metric.ordered or metric.label is not None
    return int(metric.classes[-1]) if has_positive and metric.classes is not None else 1


def threshold_curve(rule: Rule, table: MemoryTable, metric: Metric) -> ThresholdCurve | None:
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
    weight = np.ones(len(p)) if table.weight is None else table.weight
    # without labels a row counts for the class by its probability, as the rule calibrates it
    truth = apply_calibrator(rule.calibrator, table.proba)[:, k] if table.labels is None else table.labels == k
    truth = np.asarray(truth, dtype=np.float64)
    prior = np.array([1.0 - np.average(truth, weights=weight), np.average(truth, weights=weight)])
    order = np.argsort(p, kind="stable")
    at = np.union1d(np.linspace(0.0, 1.0, EVEN), np.quantile(p, np.linspace(0.0, 1.0, BY_RANK)))
    # rows may have a probability of 1, and yet the last threshold decides none of them
    below = np.where(at >= 1.0, len(p), np.searchsorted(p[order], at, side="left"))

    def values(decided: Array) -> Array:
        """Return the metric if the positive class has so much weight (T, 2) of each true class, negative first."""
        C = np.empty((len(decided), 2, 2))
        for true, missed in ((1 - k, 0), (k, 1)):
            total = weight @ np.abs(1.0 - missed - truth)
            C[:, true, k], C[:, true, 1 - k] = decided[:, missed], total - decided[:, missed]
        return values_at(metric, Confusion.from_matrix(C / weight.sum()))

    # in order of p the rows above a threshold are the last ones: one running sum serves all thresholds
    above = [np.append(0.0, np.cumsum((weight * share)[order[::-1]]))[::-1][below] for share in (1.0 - truth, truth)]
    inverse = np.divide(1.0, prior, out=np.zeros(2), where=prior > 0)
    plain = plain_rule(rule)
    named = [
        ("argmax", plain, 0.5, 1.0),
        ("p/prior", with_gain(plain, Gains.reduced(inverse if k == 1 else inverse[::-1])), float(prior[1]), 1.0),
        *(("tuned rule", *part) for part in parts),
    ]
    marks = []
    for name, one, cut, share in named:
        # by its decisions: a threshold may be the very probability of a row
        hit = one.predict_index(table.proba) == k
        value = values(np.array([[weight @ (hit * (1.0 - truth)), weight @ (hit * truth)]]))
        marks.append(Mark(name, min(cut, 1.0), float(value[0]), share))
    return ThresholdCurve(at, values(np.column_stack(above)), tuple(marks), str(table.classes[k]))


def _parts(rule: Rule, k: int) -> list[tuple[Rule, float, float]]:
    """Return the rules that a rule of two classes draws, their thresholds on the raw probability of class k, shares.

    A threshold is 0 where the class is always decided, infinite where it never is. None are returned if a rule does not
    decide the class from a threshold on.
    """
    if rule.n_classes != 2 or rule.n_decisions != 2:
        return []
    p = np.linspace(0.0, 1.0, ORDER_CHECKED)
    P = np.column_stack([p, 1.0 - p] if k == 0 else [1.0 - p, p])
    parts = []
    for a, share in enumerate(rule.weights):
        one = with_gain(rule, rule.gains[a])
        if (np.diff((one.predict_index(P) == k).astype(int)) < 0).any():
            return []
        parts.append((one, float(class_thresholds([one], np.full(2, 0.5))[0, k]), float(share)))
    return parts
