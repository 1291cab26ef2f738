"""What a rule changes in the confusion matrix of argmax, class by class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from confmax.confusion import Array

MOST_SHOWN = 30  # classes


@dataclass(frozen=True, eq=False)
class ConfusionChange:
    """Confusion matrices (K, M), in any unit, ``before`` of argmax and ``after`` of a rule."""

    before: Array
    after: Array

    def shares(self) -> tuple[Array, Array]:
        """Return both matrices as shares of their rows; NaN for a class without rows."""
        total = self.before.sum(axis=1, keepdims=True)
        before, after = (
            np.divide(C, total, out=np.full(C.shape, np.nan), where=total > 0) for C in (self.before, self.after)
        )
        return before, after

    def shown(self) -> list[int]:
        """Return the classes to show where there are too many: those with the most rows decided otherwise."""
        change = np.abs(self.after - self.before)
        # of classes that change alike, one with rows says more than one without
        has_rows = 1e-9 * (self.before.sum(axis=1) > 0)
        return most_changed(change.sum(axis=1) + change[:, : len(change)].sum(axis=0) + has_rows, MOST_SHOWN)

    def limits(self) -> tuple[float, float]:
        """Return the largest share of a row, of both matrices, and its largest change among the classes `shown`."""
        kept = self.shown()
        before, after = (C[np.ix_(kept, self.columns(kept))] for C in self.shares())
        return limits_of(before, after)

    def columns(self, kept: Sequence[int]) -> list[int]:
        """Return the decisions for the classes ``kept``, then those that are no classes."""
        return [*kept, *range(*self.before.shape)]


def goodness(change: Array) -> Array:
    """Return a change (K, M) with the sign that is positive where it is an improvement.

    More of a class on the diagonal and less of it beside the diagonal are improvements. Decisions that are no classes
    are neither.
    """
    K, M = change.shape
    good = np.where(np.eye(K, M, dtype=bool), change, -change)
    good[:, K:] = 0.0
    return good


def limits_of(before: Array, after: Array) -> tuple[float, float]:
    """Return the largest entry of both matrices, and the largest change: the ends of two scales of colour."""
    # no class that is shown may have rows
    share, change = (float(np.nan_to_num(C).max()) for C in (np.stack([before, after]), np.abs(after - before)))
    return max(share, 1e-9), max(change, 1e-9)


def most_changed(change: Array, most: int) -> list[int]:
    """Return the positions of the largest changes, in their own order; all where there are few enough."""
    # in the order of the classes: a reader looks for a class by its place
    if len(change) <= most:
        return list(range(len(change)))
    return sorted(np.argsort(-change, kind="stable")[:most].tolist())
