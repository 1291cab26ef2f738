"""Calibration of several labels per row: one rising map a label, drawn towards the map that all labels share.

The map of label l is ``sigmoid(a_l logit(p) + c_l)`` (Platt's). A label with few true rows says little of its own map.
So each label's two numbers have a normal prior around those of the map of all labels together, whose precision is what
`STRENGTH` true rows of an average label say. Rows are counted by the logarithm of their odds, in bins; what is fitted
does not depend on their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax.confusion import Array
from confmax.tables import MemoryTable

STRENGTH = 2.0  # true rows that the common map counts as
EDGE = 1e-6  # probabilities are taken to lie as far from zero and one
BINS = 2048  # of a label
CELLS = 1 << 19  # bins of all labels, where these are many
ROUNDS = 60
HALVED = 30  # times that a step is halved
LEAST = 1e-3  # slope: a map rises
CLOSE = 1e-10  # change of the likelihood at which a fit ends


@dataclass(frozen=True, eq=False)
class LabelScaling:
    """The maps ``sigmoid(a_l logit(p_l) + c_l)`` of L labels, a_l > 0.

    Attributes
    ----------
    a, c : ndarray (L,)
        Slopes and offsets.

    Examples
    --------
    >>> import numpy as np
    >>> LabelScaling(np.array([2.0]), np.array([0.0])).transform([[0.5], [0.75]]).round(6).tolist()
    [[0.5], [0.9]]
    """

    a: Array
    c: Array
    kind: ClassVar[str] = "labels"

    def __post_init__(self) -> None:
        """Refuse numbers that are no rising maps."""
        a, c = np.asarray(self.a, dtype=np.float64), np.asarray(self.c, dtype=np.float64)
        if a.ndim != 1 or a.shape != c.shape or not (np.isfinite(a) & np.isfinite(c) & (a > 0.0)).all():
            raise ValueError("a calibration of labels has one positive slope and one finite offset for every label")
        object.__setattr__(self, "a", a)
        object.__setattr__(self, "c", c)

    def column(self, p: NDArray[Any], label: int) -> Array:
        """Return the calibrated probabilities (n,) of one ``label`` from given ones (n,)."""
        return _sigmoid(self.a[label] * _logit(p) + self.c[label])

    def transform(self, proba: ArrayLike) -> Array:
        """Return the calibrated probabilities (n, L) of ``proba`` (n, L), in float64."""
        return _sigmoid(self.a * _logit(np.asarray(proba)) + self.c)

    def raw(self, calibrated: Array) -> Array:
        """Return the probabilities (L,) that the maps take to ``calibrated`` ones (L,)."""
        p = np.clip(calibrated, 0.0, 1.0)
        with np.errstate(divide="ignore"):
            return _sigmoid((np.log(p) - np.log1p(-p) - self.c) / self.a)

    def reordered(self, index: Sequence[int]) -> LabelScaling:
        """Return the maps of the labels ``index``, in this order."""
        return LabelScaling(self.a[list(index)], self.c[list(index)])


def fit(table: MemoryTable, strength: float = STRENGTH) -> LabelScaling | None:
    """Return the maps that are fitted to a table with labels; None where no map rises.

    Parameters
    ----------
    table : MemoryTable
        Raw probabilities and labels of rows that the model was not fitted on.
    strength : float
        How many true rows of an average label the common map counts as.

    Examples
    --------
    >>> import numpy as np
    >>> from confmax.tables.decisions import ANY
    >>> from confmax.tables.several import labels_table
    >>> P = np.linspace(0.01, 0.99, 300)[:, None]
    >>> y = (np.random.default_rng(0).random((300, 1)) < P**3).astype(int)
    >>> maps = fit(labels_table(ANY, P, y))
    >>> bool(abs(maps.transform([[0.5]])[0, 0] - 0.125) < 0.05)
    True
    """
    z, true, every = _binned(table)
    flat_z, flat_true, flat_every = (part.reshape(1, -1) for part in (z, true, every))
    common = _fitted(flat_z, flat_true, flat_every, np.array([[1.0, 0.0]]), None)
    if not common[0, 0] > LEAST:
        return None
    positives = float(true.sum())
    information = _curvature(common, flat_z, flat_every)[0]
    prior = strength / max(positives, 1.0) * information
    start = np.repeat(common, len(z), axis=0)
    maps = _fitted(z, true, every, start, prior)
    # a label whose own map falls has too few rows to say so
    maps = np.where((maps[:, :1] > LEAST) & np.isfinite(maps).all(axis=1, keepdims=True), maps, start)
    return LabelScaling(maps[:, 0], maps[:, 1])


def _logit(p: NDArray[Any]) -> Array:
    inside = np.clip(p.astype(np.float64), EDGE, 1.0 - EDGE)
    return np.asarray(np.log(inside) - np.log1p(-inside))


def _sigmoid(x: Array) -> Array:
    # the exponential of a large number overflows to infinity, and one over it is zero
    with np.errstate(over="ignore"):
        return np.asarray(1.0 / (1.0 + np.exp(-x)))


def _binned(table: MemoryTable) -> tuple[Array, Array, Array]:
    """Return mean logits, and the weight of true and of all rows, (L, bins) each; few rows are bins of their own."""
    assert table.labels is not None
    n, L = table.proba.shape
    bins = min(BINS, max(64, CELLS // L))
    weights = np.ones(n)
    if table.weight is not None:
        # as many rows as the weights are worth
        weights = table.weight * (table.weight.sum() / (table.weight**2).sum())
    if n <= bins:
        z, true, every = _logit(table.proba.T), (weights[:, None] * table.labels).T, np.tile(weights, (L, 1))
        # sums in another order of the rows would differ in their last digits
        order = np.lexsort((every, true, z))
        return tuple(np.take_along_axis(part, order, axis=1) for part in (z, true, every))  # type: ignore[return-value]
    most = np.log1p(-EDGE) - np.log(EDGE)
    z, true, every = (np.zeros((L, bins)) for _ in range(3))
    for label in range(L):
        logits = _logit(table.proba[:, label])
        place = np.minimum((logits + most) * (bins / (2.0 * most)), bins - 1).astype(np.intp)
        every[label] = np.bincount(place, weights, bins)
        true[label] = np.bincount(place, weights * table.labels[:, label], bins)
        z[label] = np.bincount(place, weights * logits, bins)
    return np.divide(z, every, out=np.zeros_like(z), where=every > 0.0), true, every


def _fitted(z: Array, true: Array, every: Array, maps: Array, prior: Array | None) -> Array:
    """Return the likeliest maps (B, 2) of B sets of bins, by Newton's method from ``maps``, with a ``prior`` (2, 2)."""
    centre = maps.copy()
    value = _likelihood(maps, z, true, every, centre, prior)
    for _ in range(ROUNDS):
        p = _sigmoid(maps[:, :1] * z + maps[:, 1:])
        error = true - every * p
        slope = np.stack([(error * z).sum(axis=1), error.sum(axis=1)], axis=1)
        curvature = _curvature(maps, z, every)
        if prior is not None:
            slope -= (maps - centre) @ prior
            curvature = curvature + prior
        # of separable rows the likelihood has no end: what is added keeps the step finite
        step = np.linalg.solve(curvature + 1e-9 * np.eye(2), slope[..., None])[..., 0]
        # what a step adds to a quadratic function, of which nothing is left at the end
        gain = 0.5 * (slope * step).sum(axis=1)
        if (gain <= CLOSE * (1.0 + np.abs(value))).all():
            break
        moved, best = maps, value
        for _ in range(HALVED):
            trial = maps + step
            reached = _likelihood(trial, z, true, every, centre, prior)
            better = reached > best
            moved, best = np.where(better[:, None], trial, moved), np.where(better, reached, best)
            step = np.where(better[:, None], 0.0, step / 2.0)
            if not step.any() or better.all():
                break
        if (best == value).all():
            break
        maps, value = moved, best
    return maps


def _likelihood(maps: Array, z: Array, true: Array, every: Array, centre: Array, prior: Array | None) -> Array:
    """Return the logarithms of the likelihoods (B,) of ``maps`` (B, 2)."""
    x = maps[:, :1] * z + maps[:, 1:]
    value = (true * x - every * (np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x))))).sum(axis=1)
    if prior is not None:
        away = maps - centre
        value = value - 0.5 * np.einsum("bi,ij,bj->b", away, prior, away)
    return np.asarray(value)


def _curvature(maps: Array, z: Array, every: Array) -> Array:
    """Return minus the second derivatives (B, 2, 2) of the logarithms of the likelihoods."""
    p = _sigmoid(maps[:, :1] * z + maps[:, 1:])
    w = every * p * (1.0 - p)
    both = (w * z).sum(axis=1)
    return np.stack([np.stack([(w * z * z).sum(axis=1), both], 1), np.stack([both, w.sum(axis=1)], 1)], 1)
