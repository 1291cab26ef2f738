"""Any labels of a row: one threshold a label, compared at every distinct probability.

A metric that is a mean of one score per label is maximised label by label: rows are sorted by the probability of the
label, and every place where they may be cut is compared, which is exact on every estimate of the confusion. A ratio of
sums over all labels has one threshold for all of them: all entries are sorted. What is cut are the probabilities as
they are given; a calibration that rises keeps their order, and takes part in the estimate alone.

Of labels with few true rows, the best threshold follows these rows. `drawn_together` moves the thresholds of a mean of
scores such as F1 towards the one that is best for all labels, in logarithms, by the number of true rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Confusion
from confmax.kernels.order import stable_order
from confmax.metrics import Metric
from confmax.tables import MemoryTable

EQUAL = 1e-12  # difference of values that is rounding
MOST_DIGITS = 17
CANDIDATES = 1024  # thresholds that are tried for all labels
LEAST = 1e-12  # probability whose logarithm is taken for that of zero


@dataclass(frozen=True, eq=False)
class Target:
    """The estimate of what is true of every row and label: ``share p + (1 - share) y``, by label.

    ``calibrate`` maps probabilities (n,) of label number l to calibrated ones, rising; None leaves them as they are.
    """

    table: MemoryTable
    share: Array
    calibrate: Callable[[NDArray[Any], int], Array] | None = None

    @cached_property
    def weight(self) -> Array:
        """The weight of every row (n,), as a fraction of all weight."""
        table = self.table
        weights = np.ones(table.n_rows) if table.weight is None else table.weight
        return np.asarray(weights / weights.sum())

    def column(self, label: int) -> Array:
        """Return the estimate (n,) of one ``label``."""
        p = self.table.proba[:, label]
        share = float(self.share[label])
        out = np.zeros(len(p))
        if share > 0.0:
            out += share * (p.astype(np.float64) if self.calibrate is None else self.calibrate(p, label))
        if share < 1.0:
            out += (1.0 - share) * self.table.labels[:, label]  # type: ignore[index]
        return out

    @cached_property
    def rows(self) -> Array:
        """How often every label is true (L,)."""
        return np.array([self.weight @ self.column(label) for label in range(self.table.n_classes)])

    def counted(self, chosen: NDArray[Any]) -> Confusion:
        """Return the statistics of decisions (n, L), which are 0 or 1."""
        w = self.weight
        hits = np.array([w @ (self.column(label) * chosen[:, label]) for label in range(chosen.shape[1])])
        return Confusion(self.rows, hits, np.asarray(w @ chosen))


@dataclass(frozen=True, eq=False)
class LabelCuts:
    """Every threshold on the probability of a label: the statistics of deciding it above the threshold.

    ``ends`` (T, 2) are the probabilities between which a threshold lies: below its higher, and not below its lower one.
    """

    ends: Array
    hits: Array
    decided: Array

    @classmethod
    def of(cls, p: NDArray[Any], target: Array, weight: Array) -> LabelCuts:
        """Sort rows by their probabilities ``p`` (n,), with their ``target`` and ``weight`` (n,)."""
        order = stable_order(-p)
        x = p[order]
        last = np.append(np.flatnonzero(x[1:] != x[:-1]), len(x) - 1)
        w = weight[order]
        hits = np.cumsum(w * target[order])[last]
        decided = np.cumsum(w)[last]
        high = np.append(np.inf, x[last])
        low = np.append(x[last], -np.inf)
        return cls(np.stack([low, high], axis=1).astype(np.float64), np.append(0.0, hits), np.append(0.0, decided))

    def best(self, values: Array) -> int:
        """Return the threshold with the largest of ``values`` (T,); of equal ones that with most right decisions."""
        values = np.nan_to_num(values, nan=-np.inf)
        right = 2.0 * self.hits - self.decided
        return int(np.argmax(np.where(values >= values.max() - EQUAL, right, -np.inf)))

    def threshold(self, index: int, dtype: np.dtype[Any]) -> float:
        """Return a number with few digits that decides as one of the cuts does."""
        low, high = self.ends[index].tolist()
        return between(low, high, dtype)

    def statistics(self, rows: float) -> Confusion:
        """Return the statistics (T) of one label, which is true of the share ``rows``."""
        return Confusion(np.array([rows]), self.hits[:, None], self.decided[:, None])

    def at(self, thresholds: Array) -> NDArray[np.intp]:
        """Return which of the cuts decide as the ``thresholds`` (...) do."""
        return np.maximum(np.searchsorted(-self.ends[:, 1], -thresholds, side="left") - 1, 0)


def between(low: float, high: float, dtype: np.dtype[Any]) -> float:
    """Return a number with few digits that is at least ``low`` and below ``high``, in ``dtype``, near their middle.

    Probabilities above it are ``high`` and more. Without a lower end it is minus infinity, without a higher one plus
    infinity.
    """
    if not np.isfinite(high):
        return np.inf
    if not np.isfinite(low):
        return -np.inf
    middle = low + (high - low) / 2.0
    for digits in range(2, MOST_DIGITS):
        short = float(np.format_float_positional(middle, digits, fractional=False))
        if low <= dtype.type(short) < high and low <= short < high:
            return short
    return low


@dataclass(frozen=True, eq=False)
class LabelThresholds:
    """Thresholds (L,) above which labels are decided, the statistics there, and the largest value of such rules."""

    values: Array
    statistics: Confusion
    most: float


def best_per_label(metric: Metric, target: Target) -> LabelThresholds:
    """Return the best threshold of every label, for a ``metric`` that is a mean of scores of labels."""
    table = target.table
    # the mean over one label is its score
    score = replace(metric, classes=None)
    thresholds, hits, decided = (np.empty(table.n_classes) for _ in range(3))
    for label in range(table.n_classes):
        cuts = LabelCuts.of(table.proba[:, label], target.column(label), target.weight)
        best = cuts.best(score.values(cuts.statistics(target.rows[label])))
        thresholds[label] = cuts.threshold(best, table.proba.dtype)
        hits[label] = cuts.hits[best]
        decided[label] = cuts.decided[best]
    statistics = Confusion(target.rows, hits, decided)
    return LabelThresholds(thresholds, statistics, float(metric.values(statistics)))


def best_for_all(metric: Metric, target: Target) -> LabelThresholds:
    """Return the one threshold for all labels that is best for a ``metric`` of the sums over labels."""
    table = target.table
    L = table.n_classes
    every = np.concatenate([target.column(label) for label in range(L)])
    cuts = LabelCuts.of(table.proba.T.ravel(), every, np.tile(target.weight, L))
    # a ratio of sums reads nothing else of the three vectors
    best = cuts.best(replace(metric, classes=None).values(cuts.statistics(target.rows.sum())))
    threshold = cuts.threshold(best, table.proba.dtype)
    statistics = target.counted(table.proba > table.proba.dtype.type(threshold))
    return LabelThresholds(np.full(L, threshold), statistics, float(metric.values(statistics)))


def common_threshold(metric: Metric, target: Target) -> float:
    """Return the one threshold for all labels that is best for a mean of scores of labels, of some `CANDIDATES`."""
    table = target.table
    L = table.n_classes
    # as many of every label's probabilities, whatever its share of the rows
    tried = np.unique(np.quantile(table.proba, np.linspace(0.0, 1.0, CANDIDATES)))
    hits, decided = np.empty((2, len(tried), L))
    for label in range(L):
        cuts = LabelCuts.of(table.proba[:, label], target.column(label), target.weight)
        places = cuts.at(tried)
        hits[:, label] = cuts.hits[places]
        decided[:, label] = cuts.decided[places]
    values = metric.values(Confusion(target.rows, hits, decided))
    return float(tried[int(np.argmax(values))])


def drawn_together(own: Array, common: float, positives: NDArray[np.int64], strength: float) -> Array:
    """Return thresholds (L,) between the labels' ``own`` (L,) and the ``common`` one, by their number of true rows.

    In logarithms, the common one counts as ``strength`` true rows.
    """
    finite = np.isfinite(own)
    inside = np.log(np.maximum(np.where(finite, own, common), LEAST))
    together = np.exp((positives * inside + strength * np.log(max(common, LEAST))) / (positives + strength))
    return np.where(finite | (positives == 0), together, own)
