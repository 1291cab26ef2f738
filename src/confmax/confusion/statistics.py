"""Confusion matrices by their statistics, and the gains that are maximised over them.

Nearly every metric reads only three vectors of a confusion matrix C: its row sums (the class priors), its diagonal
and its column sums. `Confusion` holds these, and the matrix itself only when a metric needs it. A linear function of
C is a *gain*; for the same metrics it reduces to two vectors, ``score_j = a_j p_j + b_j``. Both records carry an
optional leading batch axis, so that one scan of a table, or one line search, answers for many at once.

A confusion may hold several of K classes beside each other: of the groups of the rows, or of labels (`Blocks`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

MAX_MATRIX_CLASSES = 1000  # up to which a confusion matrix is kept and shown
ABSENT = 1e-100  # a class of a smaller share counts as absent: one over its share, squared, could not be held
BELOW = -4.0  # times the largest coefficient: no score is larger than twice that
ROUNDING = 1e-12  # of sums of the weights of all rows, which are one
UNIT = 2e-6  # shares whose sum is as near to one sum to one: rows of a float32 table are not exact


@dataclass(frozen=True, eq=False)
class Confusion:
    """Statistics of confusion matrices ``C[i, j] = P(Y = i, h(X) = j)``; entries of each C sum to one.

    Parameters
    ----------
    rows : ndarray (..., K)
        Row sums: the class priors, fractions of all weight.
    diagonal : ndarray (..., K)
        ``C[i, i]``, fractions of all weight.
    columns : ndarray (..., M)
        Column sums: how often each decision is made, fractions of all weight.
    matrix : ndarray (..., K, M) or None
        The matrix C, kept only if a metric needs it.

    Examples
    --------
    >>> Confusion.from_matrix([[0.5, 0.1], [0.2, 0.2]]).columns.round(6).tolist()
    [0.7, 0.3]
    """

    rows: Array
    diagonal: Array
    columns: Array
    matrix: Array | None = None

    @classmethod
    def from_matrix(cls, matrix: ArrayLike) -> Confusion:
        """Return the statistics of ``matrix`` (..., K, M), and keep the matrix."""
        C = np.asarray(matrix, dtype=np.float64)
        return cls(C.sum(axis=-1), np.diagonal(C, axis1=-2, axis2=-1), C.sum(axis=-2), C)

    @classmethod
    def of_two(cls, true: Array, hits: Array, decided: Array, weight: float = 1.0) -> Confusion:
        """Return the confusions (..., 2) of rows of this ``weight`` by the numbers (...) of the second of two classes.

        They say of which share of the rows it is ``true``, of which it is ``decided`` rightly (``hits``), and at all.
        """
        rest = weight - true
        return cls(_pairs(rest, true), _pairs(rest - decided + hits, hits), _pairs(weight - decided, decided))

    @classmethod
    def uniform(cls, rows: Array, n_decisions: int, *, matrix: bool = False) -> Confusion:
        """Return the confusion, with its ``matrix`` or without, of deciding at random, at row sums ``rows`` (K,).

        All of the ``n_decisions`` decisions are equally likely."""
        full = np.repeat(rows[:, None] / n_decisions, n_decisions, axis=1) if matrix else None
        return cls(rows, rows / n_decisions, np.full(n_decisions, rows.sum() / n_decisions), full)

    @classmethod
    def stack(cls, parts: Sequence[Confusion]) -> Confusion:
        """Join single confusions ``parts`` into one batch."""
        rows = parts[0].rows
        # rules on one table share its class sizes: metrics of a batch with one array of them take fewer steps
        if not all(part.rows is rows or np.array_equal(part.rows, rows) for part in parts):
            rows = np.stack([part.rows for part in parts])
        return cls._joined(rows, parts, np.stack)

    @classmethod
    def concatenate(cls, parts: Sequence[Confusion]) -> Confusion:
        """Join batches ``parts`` of the same row sums into one."""
        return cls._joined(parts[0].rows, parts, np.concatenate)

    @classmethod
    def _joined(cls, rows: Array, parts: Sequence[Confusion], join: Callable[[Sequence[Array]], Array]) -> Confusion:
        """Return what ``join`` makes of each statistic of ``parts``, with these ``rows``; matrices if all have one."""
        matrices = [part.matrix for part in parts if part.matrix is not None]
        diagonal = join([part.diagonal for part in parts])
        columns = join([part.columns for part in parts])
        return cls(rows, diagonal, columns, join(matrices) if len(matrices) == len(parts) else None)

    def __len__(self) -> int:
        return len(self.diagonal)

    def __getitem__(self, index: int | slice | tuple[int, ...] | NDArray[np.intp]) -> Confusion:
        """Return one confusion of the batch, or several as a batch."""
        if self.diagonal.ndim < 2:
            raise TypeError("this is one confusion, and only a batch of several has members")
        # rules on one table share its class sizes, which are then stored once
        rows = self.rows[index] if self.rows.ndim > 1 else self.rows
        matrix = None if self.matrix is None else self.matrix[index]
        return Confusion(rows, self.diagonal[index], self.columns[index], matrix)

    def __add__(self, other: Confusion) -> Confusion:
        """Return the sums of two batches of the same row sums: of confusions times the weights of rows."""
        matrix = None if self.matrix is None or other.matrix is None else self.matrix + other.matrix
        return Confusion(self.rows, self.diagonal + other.diagonal, self.columns + other.columns, matrix)

    def mix(self, weights: Array) -> Confusion:
        """Return the average of the batch: the confusion of the rule that draws its members with ``weights`` (B,)."""
        rows = weights @ self.rows if self.rows.ndim > 1 else self.rows
        matrix = None if self.matrix is None else np.tensordot(weights, self.matrix, axes=1)
        return Confusion(rows, weights @ self.diagonal, weights @ self.columns, matrix)

    def toward(self, other: Confusion, steps: Array) -> Confusion:
        """Return ``(1 - t) * self + t *`` the confusion ``other`` for every ``t`` in ``steps`` (B,), as a batch."""

        def between(ends: Sequence[Array]) -> Array:
            t = steps.reshape(-1, *[1] * ends[0].ndim)
            return (1 - t) * ends[0] + t * ends[1]

        return Confusion._joined(between([self.rows, other.rows]), [self, other], between)

    def along(self, other: Confusion, steps: Array) -> Confusion:
        """Return ``(1 - t) * self + t *`` the batch ``other`` for ``steps`` (B, G) of each of B, as (B, G)."""

        def between(ends: Sequence[Array]) -> Array:
            first = ends[0][:, None]
            second = ends[1][:, None]
            t = steps.reshape(*steps.shape, *[1] * (first.ndim - 2))
            return (1 - t) * first + t * second

        first, second = (np.broadcast_to(part.rows, part.diagonal.shape) for part in (self, other))
        # class sizes that both ends share must not change by rounding along the way
        same = np.array_equal(first, second)
        rows = np.broadcast_to(first[:, None], (*steps.shape, first.shape[1])) if same else between([first, second])
        return Confusion._joined(rows, [self, other], between)

    def padded(self, n_decisions: int) -> Confusion:
        """Return the confusion among ``n_decisions`` M or more: those beyond the ones that there are are never made."""
        further = n_decisions - self.columns.shape[-1]
        if further <= 0:
            return self
        columns = np.concatenate([self.columns, np.zeros((*self.columns.shape[:-1], further))], axis=-1)
        matrix = self.matrix
        if matrix is not None:
            matrix = np.concatenate([matrix, np.zeros((*matrix.shape[:-1], further))], axis=-1)
        return Confusion(self.rows, self.diagonal, columns, matrix)

    def select(self, classes: Sequence[int] | NDArray[np.intp]) -> Confusion:
        """Return the statistics of the listed ``classes`` (k,) only, in that order."""
        index = np.asarray(classes, dtype=np.intp)
        matrix = None if self.matrix is None else self.matrix[..., index[:, None], index]
        return Confusion(self.rows[..., index], self.diagonal[..., index], self.columns[..., index], matrix)


def _pairs(rest: Array, second: Array) -> Array:
    """Return pairs (..., 2) of numbers of two classes."""
    # the numbers of one class lie together, since metrics read them so
    out = np.empty((2, *np.shape(rest)))
    out[0] = difference(rest)
    out[1] = second
    return np.moveaxis(out, 0, -1)


def difference(value: Array) -> Array:
    """Return the ``value`` (...) of a difference of sums of weights, which rounding may leave a little beside zero.

    >>> difference(np.array([0.25, 1e-17, -1e-17]))
    array([0.25, 0.  , 0.  ])
    """
    return np.where(value > ROUNDING, value, 0.0)


@dataclass(frozen=True, eq=False)
class Gains:
    """A batch of B gains: linear functions of a confusion matrix, each of which an oracle can maximise exactly.

    Either reduced, ``score_j(p) = a_j x_j + b_j`` (``a`` of shape (B, K), ``b`` of shape (B, M)), or full,
    ``score_j(p) = sum_i G[i, j] p_i`` (``full`` of shape (B, K, M)); the other form is None. In reduced gains ``x_j``
    is ``p_j``, or with a ``power`` of 1 or 2 the expected distance of the classes, ``sum_i |i - j|^power p_i``. The
    weighted kappas need these distances; all K of them take O(K) operations: running sums, or two moments of p. The
    M - K decisions beyond the classes, such as abstaining, have an offset and no weight.

    Attributes
    ----------
    a : ndarray (B, K) or None
        Weights.
    b : ndarray (B, M) or None
        Offsets, M >= K.
    full : ndarray (B, K, M) or None
        The matrices.
    power : {0, 1, 2}
        Power of the distance; 0 for probabilities.

    Examples
    --------
    >>> Gains.reduced([1.0, 4.0]).coefficients()
    (array([[1., 4.]]), array([[0., 0.]]))
    """

    a: Array | None = None
    b: Array | None = None
    full: Array | None = None
    power: int = 0

    @classmethod
    def reduced(cls, a: ArrayLike, b: ArrayLike | None = None, *, power: int = 0) -> Gains:
        """Return reduced gains of a ``power`` from ``a`` (K,) or (B, K) and ``b`` (M,) or (B, M).

        ``b`` is zero if left out. Either may be a single number, which all classes share.
        """
        scale = np.atleast_2d(np.asarray(a, dtype=np.float64))
        offset = np.zeros_like(scale) if b is None else np.atleast_2d(np.asarray(b, dtype=np.float64))
        # decisions beyond the classes have no weight: K weights beside more offsets are not stretched
        if 1 < scale.shape[1] < offset.shape[1]:
            size = np.broadcast_shapes(scale.shape[:1], offset.shape[:1])
            scale, offset = (np.broadcast_to(part, (*size, part.shape[1])) for part in (scale, offset))
        else:
            scale, offset = np.broadcast_arrays(scale, offset)
        return cls(np.ascontiguousarray(scale), np.ascontiguousarray(offset), power=power)

    @classmethod
    def from_matrix(cls, full: ArrayLike) -> Gains:
        """Return full gains from ``full`` of shape (K, M) or (B, K, M)."""
        G = np.ascontiguousarray(full, dtype=np.float64)
        return cls(full=G if G.ndim == 3 else G[None])

    @classmethod
    def constant(cls, n_classes: int, decisions: Sequence[int]) -> Gains:
        """Return gains on ``n_classes`` that decide the same for every row: one gain per entry of ``decisions``."""
        return cls.reduced(np.zeros((len(decisions), n_classes)), np.eye(n_classes)[list(decisions)])

    @classmethod
    def above(cls, thresholds: Array) -> Gains:
        """Return the gain whose scores are above zero where p is above its one of ``thresholds`` (L,).

        Infinity stands for never, and minus infinity for always.
        """
        ends = np.isinf(thresholds)
        # always and never have a score that does not depend on the probability
        return cls.reduced(np.where(ends, 0.0, 1.0), np.where(ends, -np.sign(thresholds), -thresholds) + 0.0)

    @classmethod
    def concatenate(cls, parts: Sequence[Gains]) -> Gains:
        """Join the batches ``parts``. All become full unless all are reduced in the same way."""
        # probabilities and distances have no common reduced form, but matrices always exist
        powers = {part.power for part in parts if part.full is None}
        if all(part.full is None for part in parts) and len(powers) == 1:
            scales, offsets = zip(*(part.coefficients() for part in parts), strict=True)
            return cls(np.concatenate(scales), np.concatenate(offsets), power=powers.pop())
        return cls(full=np.concatenate([part.matrices() for part in parts]))

    def __len__(self) -> int:
        return len(self.coefficients()[0] if self.full is None else self.full)

    def __getitem__(self, index: int | slice | NDArray[np.intp]) -> Gains:
        """Return a part of the batch, as a batch; of one index that of one gain."""
        # an array refuses an index beyond its end, which a slice does not: there a loop over the batch ends
        part = (index, None) if isinstance(index, (int, np.integer)) else index
        if self.full is not None:
            return Gains(full=self.full[part])
        a, b = self.coefficients()
        return Gains(a[part], b[part], power=self.power)

    def matrices(self) -> Array:
        """Return the gains as full matrices (B, K, M): ``diag(a) + 1 b^T``, or ``|i - j|^power a_j + b_j``."""
        if self.full is not None:
            return self.full
        a, b = self.coefficients()
        # an offset b_j is a constant column of G, because the probabilities of a row sum to one
        full = np.repeat(b[:, None, :], a.shape[1], axis=1)
        full[:, :, : a.shape[1]] = _features(a.shape[1], self.power) * a[:, None, :] + b[:, None, : a.shape[1]]
        return full

    def dot(self, S: Confusion) -> Array:
        """Return ``<G, C>`` (B,) of each gain with each confusion of a batch ``S`` of B, or with one."""
        # reduced gains need no matrix, which would be K times as large
        if self.full is None and self.power == 0:
            a, b = self.pair()
            return np.asarray((a * S.diagonal).sum(axis=-1) + (b * S.columns).sum(axis=-1))
        if S.matrix is None:
            raise TypeError("full gains and gains of distances need the matrix of a confusion")
        return np.asarray((self.matrices() * S.matrix).sum(axis=(-2, -1)))

    def heights(self, S: Confusion) -> Array:
        """Return ``<G, C>`` (B, A) of each gain with each confusion of a batch ``S`` of A."""
        if self.full is None:
            a, b = self.pair()
            return np.asarray(a @ S.diagonal.T + b @ S.columns.T)
        if S.matrix is None:
            raise TypeError("full gains need the matrices of confusions")
        return np.asarray(self.full.reshape(len(self), -1) @ S.matrix.reshape(len(S), -1).T)

    def plus(self, other: Gains, factor: float = 1.0) -> Gains:
        """Return the sums of these gains and a ``factor`` times ``other`` ones; either may be a batch of one."""
        if self.full is None and other.full is None and self.power == other.power:
            (a, b), (c, d) = self.coefficients(), other.coefficients()
            return Gains(a + factor * c, b + factor * d, power=self.power)
        return Gains.from_matrix(self.matrices() + factor * other.matrices())

    def pair(self) -> tuple[Array, Array]:
        """Return ``(a, b)`` of gains that are reduced to probabilities, (B, K) and (B, M)."""
        if self.power:
            raise TypeError("gains of distances have no form a_j p_j + b_j")
        return self.coefficients()

    def coefficients(self) -> tuple[Array, Array]:
        """Return ``(a, b)`` of reduced gains, (B, K) and (B, M), of probabilities or of distances."""
        if self.a is None or self.b is None:
            raise TypeError("full gains have no reduced form")
        return self.a, self.b

    def padded(self, n_decisions: int) -> Gains:
        """Return gains of ``n_decisions`` M or more: those beyond the ones that there are have no gain."""
        further = n_decisions - self.n_decisions
        if not further:
            return self
        if self.full is not None:
            return Gains(full=np.pad(self.full, ((0, 0), (0, 0), (0, further))))
        a, b = self.coefficients()
        return Gains(a, np.pad(b, ((0, 0), (0, further))), power=self.power)

    def times(self, factor: float) -> Gains:
        """Return the gains times ``factor``; zeros are not negative."""
        if self.full is not None:
            return Gains.from_matrix(factor * self.full + 0.0)
        a, b = self.coefficients()
        return Gains(factor * a + 0.0, factor * b + 0.0, power=self.power)

    def without(self, barred: NDArray[np.bool_], *, several: bool = False) -> Gains:
        """Return gains that never decide the classes that are ``barred`` (K,), whatever the row.

        Their scores are below that of the class with the smallest coefficients; where a row gets ``several`` decisions,
        or may belong to several groups, they are below all others.

        >>> Gains.reduced([1.0, 4.0], [0.0, 2.0]).without(np.array([False, True])).coefficients()
        (array([[1., 0.]]), array([[ 0., -1.]]))
        """
        if not barred.any():
            return self
        decisions = np.append(barred, np.zeros(self.n_decisions - len(barred), dtype=np.bool_))
        if self.full is not None:
            size = np.abs(self.full).max(axis=1)
            low = self.full.min(axis=1)
        else:
            a, b = self.coefficients()
            slope = np.zeros_like(b)
            # distances are at most so large
            slope[:, : len(barred)] = a * float(len(barred) - 1) ** self.power
            size = np.maximum(np.abs(slope), np.abs(b))
            low = b + np.minimum(slope, 0.0)
        every = np.where(decisions, 0.0, size).max(axis=1)
        rows = np.arange(len(size))
        near = np.where(decisions | (size == 0.0), np.inf, size).argmin(axis=1)
        lowest = BELOW * every if several else low[rows, near] - size[rows, near]
        # a finite number, which files and other systems can hold
        lowest = np.where(every > 0.0, lowest, -1.0)[:, None]
        if self.full is not None:
            return Gains(full=np.where(decisions, lowest[..., None], self.full))
        return Gains(np.where(barred, 0.0, a), np.where(decisions, lowest, b), power=self.power)

    def __add__(self, other: Gains) -> Gains:
        """Return the sums of gains of the same decisions."""
        return self.plus(other)

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return self.coefficients()[0].shape[1] if self.full is None else self.full.shape[1]

    @property
    def n_decisions(self) -> int:
        """Number of decisions M."""
        return self.coefficients()[1].shape[1] if self.full is None else self.full.shape[2]

    @property
    def has_further(self) -> bool:
        """Whether there are more decisions than classes."""
        return self.n_decisions > self.n_classes

    @property
    def is_finite(self) -> bool:
        """Whether every coefficient is a finite number."""
        parts = (self.a, self.b, self.full)
        return all(bool(np.isfinite(part).all()) for part in parts if part is not None)


def _features(K: int, power: int) -> Array:
    """Return the matrix (K, K) whose column j gives ``x_j`` of reduced gains as a linear function of p."""
    if power == 0:
        return np.eye(K)
    index = np.arange(K, dtype=np.float64)
    return np.abs(index[:, None] - index) ** power


@dataclass(frozen=True)
class CostTable:
    """What every decision costs for each true class, or what it gains, per row, in the unit of the table.

    Attributes
    ----------
    rows : tuple of tuple of float (K, M)
        A row for each true class, a column for each decision.
    of : {"costs", "gains"}
        What the numbers are; costs are to be low, gains high.
    """

    rows: tuple[tuple[float, ...], ...]
    of: Literal["costs", "gains"]

    def reordered(self, index: Sequence[int]) -> CostTable:
        """Return the table for classes in the order ``index`` (K,); further decisions stay where they are."""
        decisions = [*index, *range(len(index), len(self.rows[0]))]
        return CostTable(tuple(tuple(self.rows[i][j] for j in decisions) for i in index), self.of)


def sum_of_others(x: Array) -> Array:
    """Return ``sum x - x_k`` for every k, without cancellation, for numbers ``x`` (..., K) of one sign."""
    out = np.zeros(x.shape)
    # what is before k plus what is behind it: the sum of all less x_k would cancel where x_k is nearly all
    out[..., 1:] = np.cumsum(x[..., :-1], axis=-1)
    out[..., :-1] += np.cumsum(x[..., :0:-1], axis=-1)[..., ::-1]
    return out


def given_matrix(C: ArrayLike, name: str) -> Array:
    """Return a confusion matrix ``C`` (K, M), of fractions or of counts, as fractions of all rows.

    Raise a ValueError if it is none, which says that the metric of this ``name`` was given it.
    """
    raw = np.asarray(C)
    if raw.ndim != 2 or raw.shape[0] < 2 or raw.shape[1] < raw.shape[0]:
        raise ValueError(
            f"a confusion matrix has K >= 2 rows (true classes) and at least as many columns (decisions); {name} was "
            f"given shape {raw.shape}"
        )
    if raw.dtype.kind not in "iuf":
        raise ValueError(f"a confusion matrix holds numbers; {name} was given dtype {raw.dtype}")
    total = raw.sum()
    if raw.dtype.kind in "iu":
        if total <= 0 or (raw < 0).any():
            raise ValueError(f"the counts given to {name} must be non-negative with a positive sum")
        raw = raw / total
    elif not abs(total - 1.0) <= 1e-2:
        raise ValueError(
            f"the entries of a confusion matrix sum to one; those given to {name} sum to {total:.6g}: divide by their "
            f"sum, or pass integer counts"
        )
    return raw
