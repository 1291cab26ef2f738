"""Whether the labels bear out the order of the columns, and that of the rows.

A model that knows anything has a smaller log loss than the shares of the classes, which anybody can count. Columns that
are read in the wrong order have a larger one: most rows have little probability of their true class then. So does a
model that is badly overconfident; which of the two it is, the best order of the columns tells. Labels of other rows
give a larger one too. A calibration hides them, because it learns the class shares; but then the true class of a row
has no larger probability there than in other rows, which is true of no model that knows anything.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.calibration.scaling import losses_of
from confmax.confusion import Array
from confmax.errors import Sentence
from confmax.kernels.blocks import over_rows
from confmax.tables import Part, Table

PART_ROWS = 1 << 16  # of one thread's task
CELLS = 1 << 22  # of the rows on which other orders of the columns are tried
LABEL_CELLS = 1 << 20  # the same of rows with several labels
MOST_CLASSES = 500  # for which they are
SHOWN = 8
# standard errors by which a model shows that it knows anything: of 40 tables the least was 12.6, and 1 in 500 of their
# labels shuffled reached 3
CHANCE = 3.0
FEW = 30  # rows of other classes than the largest: fewer do not show that a model knows nothing
LABELS_WAY_OUT = "name the columns like the labels, or pass `classes=` with the names in column order"
WAY_OUT = "name the columns like the classes, or pass `classes=` with the names in column order"


def doubt_of_order(
    table: Table, *, likely: Sequence[int] | None = None, calibrated: float | None = None, fitted: bool = False
) -> str:
    """Return a sentence that doubts the order of the columns of raw probabilities, empty where labels bear it out.

    Without labels there is no doubt, nor of a sparse table, whose zeros are no information. ``likely`` has the column
    of each class in another order which the caller thinks likely: a better fit of that order is a doubt whatever the
    class shares are. Where the log loss of the ``calibrated`` probabilities is below that of the class shares,
    calibration has repaired a model that is overconfident, which is not told then; labels of other rows are. Where
    models were ``fitted`` on the same rows and labels, these are in the order of the probabilities.

    Differences of log losses count from two standard errors of the paired difference on. The best of the K! orders of
    the columns counts as better from ``2 + sqrt(2 log K!)`` on: so much more is the best of so many by chance.
    """
    rows = table.head
    if rows.labels is None or table.is_truncated:
        return ""
    labels = rows.labels
    weight = rows.weights
    loss = losses_of(rows.probability_of(labels))
    if likely is not None:
        there = losses_of(rows.probability_of(np.asarray(likely)[labels]))
        if _exceeds(loss, there, weight):
            return (
                f"the columns were assumed to be in the order {_shown(rows.classes)}, but the order of scikit-learn's "
                f"predict_proba, {_named(rows.classes, likely)}, fits the labels better (log loss "
                f"{_mean(there, weight):.2f} instead of {_mean(loss, weight):.2f}); {WAY_OUT}"
            )
    shares = losses_of(rows.label_weight())[labels]
    if not _exceeds(loss, shares, weight):
        return ""
    told = (
        f"the log loss of the probabilities is {_mean(loss, weight):.2f}, larger than that of the class shares, "
        f"{_mean(shares, weight):.2f}: "
    )
    order = _best_order(rows.dense("the search of an order").proba, labels, weight)
    there = loss if order is None else losses_of(rows.probability_of(np.asarray(order)[labels]))
    if _exceeds(loss, there, weight, 2 + math.sqrt(2 * math.lgamma(rows.n_classes + 1))):
        return Sentence(
            f"{told}the columns are probably in another order than the classes (in the order "
            f"{_named(rows.classes, order or ())} the log loss is {_mean(there, weight):.2f}); {WAY_OUT}"
        )
    if calibrated is not None and not fitted and not _knows(rows, weight):
        return Sentence(
            f"{told.removesuffix(': ')}, and after calibration the probabilities tell nothing about `y`: are the rows "
            f"of `y` and `proba` in the same order?"
        )
    if calibrated is not None and calibrated <= _mean(shares, weight):
        return ""
    if order == list(range(rows.n_classes)):
        return Sentence(
            f"{told}no other order of the columns fits better, so the model is badly overconfident, which calibration "
            f"mends, or the rows of `y` are in another order than those of `proba`"
        )
    return Sentence(
        f"{told}the columns may be in another order than the classes, the rows of `y` in another order than those of "
        f"`proba`, or the model is badly overconfident; {WAY_OUT}"
    )


def doubt_of_label_order(table: Table) -> str:
    """Return a sentence that doubts the order of the columns of several labels, empty where the labels bear it out.

    A column and a label agree by the correlation of probabilities and labels, in units of what it is by chance. Another
    order of the columns counts as better where the sum over the labels that it moves is larger beyond chance, by the
    number of standard errors of `doubt_of_order`, and where most of these labels agree twice as well. Nothing is said
    of sparse tables, very many labels and few rows.
    """
    from scipy.optimize import linear_sum_assignment

    rows = table.head
    L = rows.n_classes
    if rows.labels is None or table.is_truncated or not 1 < L <= MOST_CLASSES or rows.n_rows < FEW:
        return ""
    some = rows.at(slice(None, None, 1 + rows.n_rows * L // LABEL_CELLS))
    P = some.dense("the search of an order").proba.astype(np.float64)
    labels: Any = some.labels
    Y = (labels.toarray() if hasattr(labels, "toarray") else labels).astype(np.float64)
    weight = some.weights
    w = weight / weight.sum()
    P, Y = P - w @ P, Y - w @ Y
    size = np.sqrt(np.outer(w @ P**2, w @ Y**2) * (w @ w))
    agree = np.divide((P * w[:, None]).T @ Y, size, out=np.zeros((L, L)), where=size > 0.0)
    own = np.diagonal(agree)
    best = linear_sum_assignment(-agree.T)[1]
    there = agree[best, np.arange(L)]
    moved = best != np.arange(L)
    chance = (2.0 + math.sqrt(2.0 * math.lgamma(L + 1))) * math.sqrt(2.0 * max(int(moved.sum()), 1))
    if (there - own).sum() > chance and np.median((2.0 * own < there)[moved]) == 1.0:
        k = int(np.argmax(there - own))
        return Sentence(
            f"the columns are probably in another order than the labels: {int(moved.sum())} of {L} labels fit other "
            f"columns better, such as {rows.classes[k]!r} the column of {rows.classes[best[k]]!r}; {LABELS_WAY_OUT}"
        )
    if own.sum() <= CHANCE * math.sqrt(L) and len(P) >= FEW:
        return Sentence("the probabilities tell nothing about `y`: are the rows of `y` and `proba` in the same order?")
    return ""


def _knows(rows: Part, weight: Array) -> bool:
    """Return whether the true class of a row is more probable there than in other rows, beyond chance.

    Chance is what the mean probability of the true class varies by if the labels are shuffled, which is known. True if
    there are too few rows to tell.
    """
    assert rows.labels is not None
    P = rows.dense("the search of an order").proba
    shares = rows.label_weight()
    usual = rows.mean_probability()
    total = float(weight.sum())
    squares = float(weight @ weight)
    if total**2 / squares * (1.0 - float(shares.max())) < FEW:
        return True
    by_chance = float(usual @ shares)
    of_row = P @ shares
    # the square of p less what is usual in its row and in its column, by columns: the table is not copied
    spread = sum(
        share * np.average((column - of_row - mean + by_chance) ** 2, weights=weight)
        for column, share, mean in zip(P.T, shares, usual, strict=True)
    )
    error = math.sqrt(float(spread) * squares) / total
    return _mean(rows.probability_of(rows.labels), weight) - by_chance > CHANCE * error


def _mean(values: Array, weight: Array) -> float:
    return float(np.average(values, weights=weight))


def _exceeds(one: Array, other: Array, weight: Array, errors: float = 2.0) -> bool:
    """Whether the mean of ``one`` (n,) exceeds that of ``other`` by more than so many standard ``errors``."""

    def sums(_: int, start: int, stop: int) -> list[float]:
        excess = one[start:stop] - other[start:stop]
        w = weight[start:stop]
        off = w * excess
        return [w.sum(), off.sum(), (w * w).sum(), (w * off).sum(), (off * off).sum()]

    # all threads read a large table; the difference is paired, as both losses are of the same rows
    total, first, twice, cross, second = np.sum(over_rows(sums, len(one), PART_ROWS), axis=0)
    mean = first / total
    deviation = math.sqrt(max(second - 2.0 * mean * cross + mean * mean * twice, 0.0)) / total
    return bool(mean > errors * deviation + 1e-9)


def _best_order(proba: NDArray[Any], labels: NDArray[np.int64], weight: Array) -> list[int] | None:
    """Return the column for each class with which the log loss is smallest, None for too many classes."""
    from scipy.optimize import linear_sum_assignment

    n, K = proba.shape
    if K > MOST_CLASSES:
        return None
    step = 1 + n * K // CELLS
    # every so many rows of a large table: a wrong order is plain on a sample
    logs = losses_of(proba[::step]) * weight[::step, None]
    losses = np.array([np.bincount(labels[::step], weights=logs[:, j], minlength=K) for j in range(K)]).T
    return linear_sum_assignment(losses)[1].tolist()


def _named(classes: Sequence[Any], order: Sequence[int]) -> str:
    """Return the classes in the order of the columns, where each class has the column that ``order`` says."""
    return _shown([classes[k] for k in np.argsort(order)])


def _shown(names: Sequence[Any]) -> str:
    return ", ".join(map(str, names[:SHOWN])) + (f", ... ({len(names)})" if len(names) > SHOWN else "")
