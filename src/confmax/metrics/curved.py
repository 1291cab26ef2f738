"""Metrics as smooth functions of linear ones, such as sums of ratios or concave means of labels: what a climb reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from confmax.confusion import ABSENT, Array, Confusion
from confmax.metrics.structure import AffineFunctions

STEP = 1e-5  # of differences, relative to the size of what changes
LEAST = 1e-9  # a statistic that counts as zero
SHRUNK = 1e-8  # part of the way to decisions at random


class Curved(Protocol):
    """A function of vectors z (..., d), the values of d linear functions."""

    @property
    def weights(self) -> Array:
        """How much each of its parts counts (B,)."""

    def gains(self, z: Array) -> Array:
        """Return the parts of z (..., B) whose rise raises the function: a climb starts where they are largest."""

    def value(self, z: Array) -> Array:
        """Return the values (...) at vectors z (..., d)."""

    def slope(self, z: Array) -> Array:
        """Return the gradients (..., d) at vectors z (..., d)."""

    def curvature(self, z: Array) -> Array:
        """Return the second derivative (d, d) at one vector z (d,)."""


@dataclass(frozen=True, eq=False)
class SumOfRatios:
    """The sum of B ratios with ``weights`` (B,), of B numerators and then B denominators."""

    weights: Array

    def gains(self, z: Array) -> Array:
        """Return the numerators."""
        return z[..., : len(self.weights)]

    def value(self, z: Array) -> Array:
        """Return the sums (...), 0 for 0/0."""
        top, bottom = self._split(z)
        return np.asarray(np.divide(top, bottom, out=np.zeros_like(top), where=bottom > ABSENT) @ self.weights)

    def slope(self, z: Array) -> Array:
        """Return the gradients (..., 2 B)."""
        top, bottom = self._split(z)
        by_top = np.divide(self.weights, bottom, out=np.zeros_like(bottom), where=bottom > ABSENT)
        ratio = np.divide(top, bottom, out=np.zeros_like(bottom), where=bottom > ABSENT)
        return np.concatenate([by_top, -by_top * ratio], axis=-1)

    def curvature(self, z: Array) -> Array:
        """Return the second derivative (2 B, 2 B) at one vector."""
        B = len(self.weights)
        by_top, by_bottom = np.split(self.slope(z), 2)
        bottom = np.where(z[B : 2 * B] > ABSENT, z[B : 2 * B], np.inf)
        H = np.zeros((2 * B, 2 * B))
        k = np.arange(B)
        H[k, B + k] = H[B + k, k] = -by_top / bottom
        H[B + k, B + k] = -2.0 * by_bottom / bottom
        return H

    def _split(self, z: Array) -> tuple[Array, Array]:
        B = len(self.weights)
        return z[..., :B], z[..., B : 2 * B]


@dataclass(frozen=True, eq=False)
class OfShares:
    """A metric of the rows that are decided, of their diagonal, column sums and row sums (3 K), whatever their share.

    The ``metric`` reads no matrix.
    """

    metric: Any
    n_classes: int

    @property
    def weights(self) -> Array:
        """Equal ones."""
        return np.full(self.n_classes, 1.0 / self.n_classes)

    def gains(self, z: Array) -> Array:
        """Return the diagonal."""
        return z[..., : self.n_classes]

    def value(self, z: Array) -> Array:
        """Return the values (...), 0 where nothing is decided."""
        S, total = self._seen(z)
        # differences leave the confusions that there are: roots of what is negative there have no value
        with np.errstate(invalid="ignore"):
            return np.nan_to_num(np.where(total[..., 0] > LEAST, self.metric.values(S), 0.0), nan=0.0)

    def slope(self, z: Array) -> Array:
        """Return the gradients (..., 3 K)."""
        S, total = self._seen(z)
        with np.errstate(invalid="ignore"):
            first = self.metric.at(S)
        parts = (first.diagonal, first.columns, first.rows)
        # the share of what is decided is the sum of the columns
        along = sum((part * at).sum(-1) for part, at in zip(parts, (S.diagonal, S.columns, S.rows), strict=True))
        unit = 1.0 / np.maximum(total, LEAST)
        by_columns = first.columns - np.asarray(along)[..., None]
        return np.concatenate([first.diagonal, by_columns, first.rows], axis=-1) * unit

    def curvature(self, z: Array) -> Array:
        """Return the second derivative (3 K, 3 K), by differences of the gradient."""
        steps = STEP * np.maximum(np.abs(z), LEAST / STEP)
        moves = np.diag(steps)
        bend = (self.slope(z + moves) - self.slope(z - moves)) / (2.0 * steps[:, None])
        return np.asarray(bend + bend.T) / 2.0

    def _seen(self, z: Array) -> tuple[Confusion, Array]:
        """Return the confusion of what is decided, and its share of all rows (..., 1)."""
        K = self.n_classes
        total = z[..., K : 2 * K].sum(-1, keepdims=True)
        shares = z[..., : 3 * K] / np.maximum(total, LEAST)
        return Confusion(shares[..., 2 * K :], shares[..., :K], shares[..., K : 2 * K]), total


@dataclass(frozen=True, eq=False)
class OfLabels:
    """A concave metric of labels, not negative, which sums functions of one label each, of t (L) and then q (L).

    The slope of a mean of recalls has no end where a recall is zero. So this is the metric at points that are moved a
    little, by `SHRUNK`, toward those of decisions at random.
    """

    metric: Any
    # (L,): how often labels are true
    rows: Array

    @property
    def weights(self) -> Array:
        """Equal ones."""
        return np.full(len(self.rows), 1.0 / len(self.rows))

    def gains(self, z: Array) -> Array:
        """Return the hits."""
        return z[..., : len(self.rows)]

    def value(self, z: Array) -> Array:
        """Return the values (...)."""
        return np.asarray(self.metric.values(self._moved(z)))

    def slope(self, z: Array) -> Array:
        """Return the gradients (..., 2 L)."""
        first = self.metric.at(self._moved(z))
        return (1.0 - SHRUNK) * np.concatenate([first.diagonal, first.columns], axis=-1)

    def curvature(self, z: Array) -> Array:
        """Return the second derivative (2 L, 2 L), by differences of the gradient in one number of every label."""
        L = len(self.rows)
        steps = STEP * np.minimum(self.rows, 1.0 - self.rows) + LEAST
        H = np.zeros((2 * L, 2 * L))
        k = np.arange(L)
        for first in (0, L):
            move = np.zeros(2 * L)
            move[first : first + L] = steps
            bend = (self.slope(z + move) - self.slope(z - move)) / (2.0 * np.tile(steps, 2))
            H[k, first + k], H[L + k, first + k] = bend[:L], bend[L:]
        return (H + H.T) / 2.0

    def _moved(self, z: Array) -> Confusion:
        half = np.concatenate([0.5 * self.rows, np.full(len(self.rows), 0.5)])
        t, q = np.split((1.0 - SHRUNK) * z[..., : 2 * len(self.rows)] + SHRUNK * half, 2, axis=-1)
        return Confusion(self.rows, t, q)


@dataclass(frozen=True)
class Climb:
    """A metric as a smooth function ``of`` linear ``functions`` (d)."""

    functions: AffineFunctions
    of: Curved
