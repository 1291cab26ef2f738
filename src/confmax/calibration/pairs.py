"""The pairs of classes that a calibration moves most: by the numbers of a matrix, and on rows.

The matrix alone says how the probability of one class changes the odds of another. How often that matters only rows can
say: there a pair is measured by how much probability it moves.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Gains
from confmax.tables import decide

MOST = 3  # pairs
LEAST_POWER = 0.01  # ten times the probability changes odds by 2 %
LEAST_MOVED = 5e-4  # of the probability of all rows


class Pull(NamedTuple):
    """What the probability of class ``given`` does to class ``moved``: its odds go with this ``power`` of it."""

    given: int
    moved: int
    power: float


def pulls(W: Array) -> list[Pull]:
    """Return what changes the odds of classes most by the powers W (K, K), the largest first.

    There are at most three, each of at least .01. The power is that on the odds of the class against the others but the
    given one: ``W[moved, given]`` minus the mean of their ``W[., given]``. A constant in a column of W, which no result
    depends on, does not change it. There is none for two classes, where the odds of the moved class are those of the
    given one. Of three classes, what one gains another loses, and the one that gains is named.
    """
    K = len(W)
    if K < 3:
        return []
    others = W * ~np.eye(K, dtype=np.bool_)
    # the mean of the others but the class itself
    powers = W - (others.sum(axis=0) - W) / (K - 2)
    powers[np.abs(powers) < LEAST_POWER] = 0.0
    np.fill_diagonal(powers, 0.0)
    if K == 3:
        powers = np.maximum(powers, 0.0)
    largest = np.argsort(-np.abs(powers), axis=None, kind="stable")[:MOST].tolist()
    found = [Pull(cell % K, cell // K, float(powers.flat[cell])) for cell in largest]
    return [each for each in found if each.power]


class Move(NamedTuple):
    """Class ``moved`` in the rows where ``given`` is most probable: mean probabilities, and the share of its labels."""

    given: int
    moved: int
    before: float
    after: float
    labelled: float


def moves(raw: NDArray[Any], calibrated: NDArray[Any], labels: NDArray[np.int64], weight: Array) -> list[Move]:
    """Return where a calibration moves most probability, summed over the rows, the largest first.

    There are at most three, each of at least .0005 of the probability of all rows, from the probabilities before and
    after (n, K), and the labels and weights of the rows (n,).
    """
    K = raw.shape[1]
    top = np.asarray(decide(raw, Gains.reduced(np.ones(K)))[0])
    size = np.bincount(top, weights=weight, minlength=K)

    def sums(P: NDArray[Any]) -> Array:
        return np.stack([np.bincount(top, weights=weight * P[:, k], minlength=K) for k in range(K)], axis=1)

    before = sums(raw)
    after = sums(calibrated)
    moved = np.abs(after - before)
    np.fill_diagonal(moved, 0.0)
    found = []
    for cell in np.argsort(-moved, axis=None, kind="stable")[:MOST].tolist():
        given, k = divmod(cell, K)
        if moved[given, k] >= LEAST_MOVED * weight.sum() and size[given]:
            labelled = float(weight[(top == given) & (labels == k)].sum())
            means = (float(each) / float(size[given]) for each in (before[given, k], after[given, k], labelled))
            found.append(Move(given, k, *means))
    return found
