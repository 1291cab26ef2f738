"""Calibration of several labels per row: one rising map a label, drawn towards the map that all labels share.

The map of label l is ``sigmoid(a_l logit(p) + c_l)`` (Platt's). A label with few true rows says little of its own map.
So each label's two numbers have a normal prior around those of the map of all labels together, whose precision is what
`STRENGTH` true rows of an average label say. Rows are counted by the logarithm of their odds, in bins; what is fitted
does not depend on their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array
from confmax.kernels.blocks import over_rows
from confmax.kernels.label_bins import EDGE, LOGIT, binned, mapped
from confmax.tables import Part, Table
from confmax.tables.several import with_entries

STRENGTH = 2.0  # true rows that the common map counts as
BINS = 2048  # of a label
CELLS = 1 << 19  # bins of all labels, where these are many
ROUNDS = 60
HALVED = 30  # times that a step is halved
LEAST = 1e-3  # slope: a map rises
BLOCK = 1 << 15  # bins that are read together
CLOSE = 1e-12  # change of the likelihood at which a fit ends


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

    def column(self, p: NDArray[Any], label: Any) -> Array:
        """Return the calibrated probabilities (n,) of one ``label``, or of one for each (n,), from given ones (n,)."""
        whole = np.ascontiguousarray(p, None if p.dtype in (np.float32, np.float64) else np.float64)
        a, c = (np.ascontiguousarray(part[label]) for part in (self.a, self.c))
        return mapped(whole.ravel(), a, c).reshape(whole.shape)

    def transform(self, proba: Any) -> Any:
        """Return the calibrated probabilities (n, L) of ``proba`` (n, L), in float64.

        What a csr_array does not store stays zero.
        """
        return with_entries(proba, self.column)

    def raw(self, calibrated: Array) -> Array:
        """Return the probabilities (L,) that the maps take to ``calibrated`` ones (L,)."""
        p = np.clip(calibrated, 0.0, 1.0)
        with np.errstate(divide="ignore"):
            return _sigmoid((np.log(p) - np.log1p(-p) - self.c) / self.a)

    def reordered(self, index: Sequence[int]) -> LabelScaling:
        """Return the maps of the labels ``index``, in this order."""
        return LabelScaling(self.a[list(index)], self.c[list(index)])


def fit(table: Table, strength: float = STRENGTH) -> LabelScaling | None:
    """Return the maps that are fitted to a table with labels; None where no map rises.

    Parameters
    ----------
    table : Table
        Raw probabilities and labels of rows that the model was not fitted on, in memory or in parts.
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
    sets = _sets(table)
    flat = _flat(sets)
    common = _fitted(flat, np.array([[1.0, 0.0]]), None)
    if not common[0, 0] > LEAST:
        return None
    positives = float(flat.true.sum())
    information = _likely(common, (*flat[1:], common), None).curvature[0]
    prior = strength / max(positives, 1.0) * information
    every = np.repeat(common, table.n_classes, axis=0)
    for bins in sets:
        labels = bins.labels
        start = np.repeat(common, len(labels), axis=0)
        maps = _fitted(bins, start, prior)
        # a label whose own map falls has too few rows to say so
        every[labels] = np.where((maps[:, :1] > LEAST) & np.isfinite(maps).all(axis=1, keepdims=True), maps, start)
    return LabelScaling(every[:, 0], every[:, 1])


def _sets(table: Table) -> list[Bins]:
    """Return the bins of all labels, a set for those that have as many."""
    if table.is_truncated:
        return list(_stored(table.head))
    bins = _n_bins(table.n_classes)
    if table.head.n_weighted == table.n_weighted <= bins:
        return [_of_few(table.head)]
    sums, total, squares = table.over_parts(partial(_sums_of_part, bins=bins), _both)
    z = np.divide(sums[0], sums[2], out=np.zeros_like(sums[0]), where=sums[2] > 0.0)
    # as many rows as the weights are worth
    return [Bins(np.arange(table.n_classes), z, *(total / squares * sums[1:]))]


def _sums_of_part(part: Part, *, bins: int) -> tuple[Array, float, float]:
    """Return the sums of logits, of true rows and of all (3, L, bins), by weight, and of weights and their squares."""
    weights = part.weights
    # weights of one need no multiplication
    given = part.weighing.for_kernels
    found = part.label_columns.each(lambda _, numbers: binned(numbers, given, LOGIT, bins), 0, part.n_classes)
    sums = np.stack([[one.value, one.true, one.weight] for one in found], axis=1)
    return sums, float(weights.sum()), float((weights**2).sum())


def _of_few(rows: Part) -> Bins:
    """Return rows that are fewer than bins, each as a bin of its own."""
    assert rows.labels is not None
    L = rows.n_classes
    weights = rows.weights * _worth(rows.weights)
    z, true, every = _logit(rows.proba.T), (weights[:, None] * rows.labels).T, np.tile(weights, (L, 1))
    # sums in another order of the rows would differ in their last digits
    order = np.lexsort((every, true, z))
    return Bins(np.arange(L), *(np.take_along_axis(part, order, axis=1) for part in (z, true, every)))


def _both(one: tuple[Array, float, float], other: tuple[Array, float, float]) -> tuple[Array, float, float]:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


def _n_bins(n_labels: int) -> int:
    return min(BINS, max(64, CELLS // n_labels))


class Bins(NamedTuple):
    """Mean logits in bins of some ``labels``, and the weight of true and of all rows there, (labels, bins) each."""

    labels: NDArray[np.intp]
    z: Array
    true: Array
    every: Array


def _flat(sets: Sequence[Bins]) -> Bins:
    """Return the bins of all labels that hold rows as those of one label."""
    some = [one.every.ravel() > 0.0 for one in sets]
    parts = [np.concatenate([one[k].ravel()[there] for one, there in zip(sets, some, strict=True)]) for k in (1, 2, 3)]
    return Bins(np.zeros(1, np.intp), *(part[None] for part in parts))


def _logit(p: NDArray[Any]) -> Array:
    inside = np.clip(p.astype(np.float64), EDGE, 1.0 - EDGE)
    return np.asarray(np.log(inside) - np.log1p(-inside))


def _sigmoid(x: Array) -> Array:
    # the exponential of a large number overflows to infinity, and one over it is zero
    with np.errstate(over="ignore"):
        return np.asarray(1.0 / (1.0 + np.exp(-x)))


def _worth(weights: Array) -> float:
    """Return what weights (n,) are times, so that their sum is as many rows as they are worth."""
    return float(weights.sum() / (weights**2).sum())


def _counted(logits: Array, true: Array, weights: Array, bins: int) -> tuple[Array, Array, Array]:
    """Return mean logits, and the weight of true and of all rows, (bins,) each, of rows of one label."""
    most = np.log1p(-EDGE) - np.log(EDGE)
    place = np.minimum((logits + most) * (bins / (2.0 * most)), bins - 1).astype(np.intp)
    z, hits, every = (np.bincount(place, part, bins).astype(np.float64) for part in (weights * logits, true, weights))
    return np.divide(z, every, out=np.zeros_like(z), where=every > 0.0), hits, every


def _stored(table: Part) -> Iterator[Bins]:
    """Yield the bins of what a sparse table stores, for labels that store about as many rows.

    A label that stores few rows has a bin for each, so that all bins are at most twice as many as entries. What is not
    stored stays zero, and is not fitted.
    """
    from confmax.tables.sparse.labels import is_true, row_numbers, true_pairs

    assert table.labels is not None
    csr = table.proba
    order = np.argsort(csr.indices, kind="stable")
    rows = row_numbers(csr)[order]
    label = csr.indices[order]
    logits = _logit(csr.data[order])
    weights = (table.weights * _worth(table.weights))[rows]
    true = weights * is_true(true_pairs(table.labels), csr.shape[1], rows, label)
    many = np.bincount(label, minlength=csr.shape[1])
    starts = np.append(0, np.cumsum(many))
    sizes = np.minimum(2 ** np.ceil(np.log2(np.maximum(many, 1))).astype(np.intp), 2 * BINS)
    for size in np.unique(sizes[many > 0]).tolist():
        some = np.flatnonzero((sizes == size) & (many > 0))
        if size > BINS:
            parts = [slice(starts[k], starts[k + 1]) for k in some]
            found = [_counted(logits[part], true[part], weights[part], BINS) for part in parts]
            yield Bins(some, *(np.stack(column) for column in zip(*found, strict=True)))
            continue
        number = np.repeat(np.arange(len(some)), many[some])
        inside = np.arange(len(number)) - np.repeat(np.cumsum(many[some]) - many[some], many[some])
        entries = np.repeat(starts[some], many[some]) + inside
        out = np.zeros((3, len(some), size))
        for k, values in enumerate((logits, true, weights)):
            out[k, number, inside] = values[entries]
        yield Bins(some, *out)


class _Likely(NamedTuple):
    """The logarithms of the likelihoods (B,) of B maps, their slopes (B, 2), and minus their curvatures (B, 2, 2)."""

    value: Array
    slope: Array
    curvature: Array

    def only(self, some: NDArray[np.bool_]) -> _Likely:
        """Return those of some maps."""
        return _Likely(*(part[some] for part in self))


def _fitted(bins: Bins, maps: Array, prior: Array | None) -> Array:
    """Return the likeliest maps (B, 2) of B sets of bins, by Newton's method from ``maps``, with a ``prior`` (2, 2)."""
    sets = (bins.z, bins.true, bins.every, maps)
    # few sets at a time stay in the cache
    chunk = max(1, BLOCK // max(1, bins.z.shape[1]))
    found = over_rows(lambda _, start, stop: _newton([one[start:stop] for one in sets], prior), len(maps), chunk)
    return np.concatenate(found)


def _newton(sets: list[Array], prior: Array | None) -> Array:
    """Return what `_fitted` does for ``sets`` of bins: z, true, every (B, bins), and where it begins (B, 2)."""
    maps = sets[-1].copy()
    at = _likely(maps, sets, prior)
    # the sets whose maps still move: the others are not read again
    left = np.arange(len(maps))

    def keep(some: NDArray[np.bool_]) -> None:
        nonlocal left, sets, at
        if not some.all():
            left, sets, at = left[some], [one[some] for one in sets], at.only(some)

    for _ in range(ROUNDS):
        # of separable rows the likelihood has no end: what is added keeps the step finite
        step = np.linalg.solve(at.curvature + 1e-9 * np.eye(2), at.slope[..., None])[..., 0]
        # what a step adds to a quadratic function, of which nothing is left at the end
        moves = 0.5 * (at.slope * step).sum(axis=1) > CLOSE * (1.0 + np.abs(at.value))
        step = step[moves]
        keep(moves)
        if not len(left):
            break
        for _ in range(HALVED):
            tried = _likely(maps[left] + step, sets, prior)
            better = tried.value > at.value
            if better.all():
                break
            step[~better] /= 2.0
        maps[left[better]] += step[better]
        at = tried
        # what no step improves is at its end
        keep(better)
    return maps


def _likely(maps: Array, sets: Sequence[Array], prior: Array | None) -> _Likely:
    """Return how likely ``maps`` (B, 2) are, by the ``sets`` of `_newton`."""
    z, true, every, centre = sets
    x = maps[:, :1] * z + maps[:, 1:]
    small = np.exp(-np.abs(x))
    value = (true * x - every * (np.maximum(x, 0.0) + np.log1p(small))).sum(axis=1)
    p = np.where(x < 0.0, small, 1.0) / (1.0 + small)
    error = true - every * p
    w = every * p * (1.0 - p)
    wz = w * z
    slope = np.stack([(error * z).sum(axis=1), error.sum(axis=1)], axis=1)
    both = wz.sum(axis=1)
    curvature = np.stack([np.stack([(wz * z).sum(axis=1), both], 1), np.stack([both, w.sum(axis=1)], 1)], 1)
    if prior is not None:
        away = maps - centre
        value = value - 0.5 * np.einsum("bi,ij,bj->b", away, prior, away)
        slope = slope - away @ prior
        curvature = curvature + prior
    return _Likely(np.asarray(value), slope, curvature)
