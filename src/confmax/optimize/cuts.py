"""All thresholds on one column of numbers: rows are sorted once, and the confusion of two classes is known at each cut.

Two classes, one class against the rest, the rows of a group and a label differ in what is sorted, and in what is
compared. Sums are taken from both ends: a difference from the whole would cancel where a class has nearly all weight.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax.confusion import Array, Confusion
from confmax.constraints.limits import Limits
from confmax.kernels.order import stable_order
from confmax.optimize.rounding import NEGLIGIBLE

MOST_DIGITS = 17  # of a threshold: these tell any two floats apart
EQUAL = 1e-12  # difference of values that is rounding
EXACT_TEN, EXACT_DIGITS = 22, 15  # powers of ten, and whole numbers of so many digits, are floats
TIE = 1e-3  # how near to the middle of two decimals their order is doubtful


@dataclass(frozen=True, eq=False)
class Column:
    """What is cut and what is counted of n rows.

    Attributes
    ----------
    key : ndarray (n,)
        The numbers that are compared with a threshold.
    truth : ndarray (2, n)
        How much of each row is of both classes.
    weight : ndarray (n,)
        The weights of the rows, as fractions of all.
    beside : ndarray (n,) or None
        How much of each row is right where it is not decided as the second class; None: how much is of the first one.
    """

    key: NDArray[np.floating]
    truth: Array
    weight: Array
    beside: Array | None = None


@dataclass(frozen=True, eq=False)
class Lumps:
    """Rows of a column that are counted together: what cuts between them are worth lies between `corners`.

    Attributes
    ----------
    at : ndarray (C,)
        The cuts that decide none of them; the next cuts decide all.
    bins : ndarray (C,)
        The bins of the column that they are; -1 for rows that no pass tells apart.
    corners : Confusion
        Batch (4, C): where none of them is decided, all, those of the second class alone, and the others alone.
    may : ndarray (C,)
        Whether a cut between them may keep the limits.
    wanted : ndarray (C,)
        Those that an answer depends on, which is found again once they are told apart.
    """

    at: NDArray[np.intp]
    bins: NDArray[np.intp]
    corners: Confusion
    may: NDArray[np.bool_]
    wanted: NDArray[np.bool_]

    @classmethod
    def of(cls, at: NDArray[np.intp], bins: NDArray[np.intp], S: Confusion) -> Lumps:
        """Return the lumps behind some cuts of all, whose confusions are ``S`` (T,)."""
        right, made = ([part[at], part[at + 1]] for part in (S.diagonal, S.columns))
        hits = right[1][:, 1] - right[0][:, 1]
        others = made[1][:, 1] - made[0][:, 1] - hits
        right += [
            np.stack([right[0][:, 0], right[1][:, 1]], axis=1),
            np.stack([right[1][:, 0], right[0][:, 1]], axis=1),
        ]
        made += [made[0] + part[:, None] * [-1.0, 1.0] for part in (hits, others)]
        every = np.ones(len(at), np.bool_)
        return cls(at, bins, Confusion(S.rows, np.stack(right), np.stack(made)), every, ~every)

    def __len__(self) -> int:
        return len(self.at)

    @property
    def hits(self) -> Array:
        """Which share of all weight is decided rightly if of the rows of each all of the second class are (C,)."""
        return self.corners.diagonal[2, :, 1]

    @property
    def decided(self) -> Array:
        """Which share of all weight is decided as the second class then (C,)."""
        return self.corners.columns[2, :, 1]

    @property
    def ends(self) -> Array:
        """Which share of all weight is decided above each, and with each (2, C)."""
        return self.corners.columns[:2, :, 1]

    @property
    def none(self) -> NDArray[np.bool_]:
        """None of them (C,)."""
        return np.zeros(len(self), np.bool_)

    def want(self, some: NDArray[np.bool_]) -> None:
        """Remember that an answer depends on ``some`` (C,), if these can be told apart."""
        self.wanted[some & (self.bins >= 0)] = True


_NONE = np.zeros(0, np.intp)
NO_LUMPS = Lumps.of(_NONE, _NONE, Confusion(np.zeros(2), np.zeros((1, 2)), np.zeros((1, 2))))


@dataclass(frozen=True, eq=False)
class Cuts:
    """All places where rows are cut, from none of them decided as the second of two classes to all of them.

    Attributes
    ----------
    x : ndarray (T - 1,)
        The different numbers, falling; of rows that are counted together the smallest one.
    top : ndarray (T - 1,)
        Of rows that are counted together the largest number.
    confusions : Confusion
        Batch of T, of two classes, in fractions of all weight, with common row sums (2,).
    right : ndarray (T,)
        Share of all weight that is decided rightly, up to a constant.
    rows : ndarray (T,)
        Number of rows with weight that are decided.
    allowed : ndarray (T,)
        Which cuts keep the limits, or the nearest ones.
    lumps : Lumps
        Rows that are counted together.
    """

    x: NDArray[np.floating]
    top: NDArray[np.floating]
    confusions: Confusion
    right: Array
    rows: NDArray[np.int64]
    allowed: NDArray[np.bool_]
    lumps: Lumps = field(default=NO_LUMPS)

    @classmethod
    def of(cls, column: Column, *, matrix: bool = False) -> Cuts:
        """Sort the rows of a ``column`` by falling numbers."""
        order = stable_order(-column.key)
        x, w = column.key[order], column.weight[order]
        first, second = (part[order] * w for part in column.truth)
        ends = np.append(np.flatnonzero(x[1:] != x[:-1]), len(x) - 1)
        rows = np.append(0, ends + 1 if w.min() > 0.0 else np.cumsum(w > 0.0)[ends])
        beside = None if column.beside is None else w * column.beside[order]
        return cls.summed((x, x), w, (first, second), ends, rows, beside, matrix=matrix)

    @classmethod
    def summed(
        cls,
        numbers: tuple[NDArray[np.floating], NDArray[np.floating]],
        w: Array,
        classes: tuple[Array, Array],
        ends: NDArray[np.intp],
        rows: NDArray[np.int64],
        beside: Array | None = None,
        *,
        matrix: bool = False,
    ) -> Cuts:
        """Return the cuts (T,) behind each of ``ends`` (T - 1,) of what is sorted: rows, or some that are one.

        The ``numbers`` are the smallest and the largest ones (n,). Of the weights ``w`` (n,) those of both ``classes``
        are (n,) each, and ``beside`` (n,) that of what is right where it is not decided as the second one.
        """
        first, second = classes
        hits, taken = _sums(second, ends), _sums(w, ends)
        others, left = _beyond(first, ends), _beyond(w, ends)
        C = None
        if matrix:
            C = np.stack([others, _sums(first, ends), _beyond(second, ends), hits], axis=1).reshape(-1, 2, 2)
        sums = np.array([first.sum(), second.sum()])
        confusions = Confusion(sums, np.stack([others, hits], axis=1), np.stack([left, taken], axis=1), C)
        right = 2.0 * hits - taken if beside is None else hits + _beyond(beside, ends)
        x, top = (part[ends] for part in numbers)
        return cls(x, top, confusions, right, rows, np.ones(len(ends) + 1, dtype=np.bool_))

    @classmethod
    def never(cls, dtype: np.dtype[Any], true: float) -> Cuts:
        """Return the cut of a class that is never decided, the only one there is; of all weight so much is ``true``."""
        rows = np.array([1.0 - true, true])
        confusions = Confusion(rows, np.array([[rows[0], 0.0]]), np.array([[1.0, 0.0]]))
        none = np.zeros(1)
        x = np.empty(0, dtype)
        return cls(x, x, confusions, none, none.astype(np.int64), np.ones(1, dtype=np.bool_))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def hits(self) -> Array:
        """Which share of all weight is decided rightly as the second class (T,)."""
        return self.confusions.diagonal[:, 1]

    @property
    def decided(self) -> Array:
        """Which share of all weight is decided as the second class (T,)."""
        return self.confusions.columns[:, 1]

    def among(self, allowed: NDArray[np.bool_], may: NDArray[np.bool_] | None = None) -> Cuts:
        """Return the same cuts, of which others are ``allowed`` (T,), and those in lumps that ``may`` be (C,)."""
        lumps = self.lumps if may is None else replace(self.lumps, may=may)
        return replace(self, allowed=allowed, lumps=lumps)

    def best(self, values: Array, tol: float) -> int:
        """Return the best allowed cut by ``values`` (T,); of those within ``tol`` the one that is right most often."""
        values = np.where(self.allowed, np.nan_to_num(values, nan=-np.inf), -np.inf)
        return int(best_of_each(values, self.right, np.zeros(1, np.intp), tol)[0])

    @property
    def middles(self) -> Array:
        """The numbers (T,) in the middle of each cut, in the dtype of the column: decided is what is not below."""
        high, low = self.x[:-1], self.x[1:]
        middle = (low + (high - low) / self.x.dtype.type(2)).astype(self.x.dtype)
        # between neighbouring floats there is no middle: the upper one cuts just below itself
        return np.concatenate([[np.inf], np.where(middle > low, middle, high), [-np.inf]])

    def ends(self, k: ArrayLike) -> tuple[Array, Array]:
        """Return the largest number that each cut ``k`` (...) does not decide, and the smallest one that it decides."""
        k, n = np.asarray(k), len(self.x)
        top, x = (self.top, self.x) if n else (np.zeros(1), np.zeros(1))
        low, high = top[np.minimum(k, n - 1)].astype(np.float64), x[np.maximum(k, 1) - 1].astype(np.float64)
        return np.where(k < n, low, -np.inf), np.where(k > 0, high, np.inf)

    def numbers(self, k: ArrayLike, dtype: np.dtype[Any], *, closed: bool) -> Array:
        """Return thresholds (...) of the cuts ``k`` (...) in few digits, as `shortest` does."""
        return shortest(*self.ends(k), dtype, closed=closed)


def kept(cuts: Cuts, limits: Limits | None) -> NDArray[np.bool_]:
    """Return which cuts (T,) keep all limits, of two columns."""
    if limits is None:
        return np.ones(len(cuts), dtype=np.bool_)
    return np.asarray((limits.slacks(cuts.confusions) >= -NEGLIGIBLE).all(axis=-1))


def shown(cuts: Cuts, limits: Limits, model: Cuts) -> NDArray[np.bool_]:
    """Return of which cuts (T,) enough is known: labels of few rows keep a precision by chance, unless the model does.

    ``model`` are the same cuts on the model's estimate.
    """
    return kept(model, limits) | (cuts.rows >= limits.least_rows)


def best_of_each(values: Array, right: Array, starts: NDArray[np.intp], tol: float = EQUAL) -> NDArray[np.intp]:
    """Return the best cut (m,) of each of m blocks, whose cuts lie in one row from ``starts`` (m,) on.

    Of cuts whose ``values`` (T,) lie within ``tol`` of the largest of their block, it is the first that is ``right``
    (T,) most often.
    """
    sizes = np.diff(np.append(starts, len(values)))
    near = values >= np.repeat(np.maximum.reduceat(values, starts) - tol, sizes)
    right = np.where(near, right, -np.inf)
    places = np.flatnonzero(near & (right >= np.repeat(np.maximum.reduceat(right, starts) - EQUAL, sizes)))
    return np.asarray(places[np.searchsorted(places, starts)])


def _sums(values: Array, ends: NDArray[np.intp]) -> Array:
    """Return the sums (T,) of no rows, and of the rows up to each of ``ends`` (T - 1,)."""
    out = np.zeros(len(ends) + 1)
    out[1:] = np.cumsum(values)[ends]
    return out


def _beyond(values: Array, ends: NDArray[np.intp]) -> Array:
    """Return the sums (T,) of all rows, and of those beyond each of ``ends`` (T - 1,), from the last one on."""
    out = np.zeros(len(ends) + 1)
    running = np.cumsum(values[::-1])[::-1]
    out[0] = running[0]
    out[1:-1] = running[ends[:-1] + 1]
    return out


def shortest(low: ArrayLike, high: ArrayLike, dtype: np.dtype[Any], *, closed: bool) -> Array:
    """Return numbers (...) with the fewest digits, near the middle, that cut between two neighbouring numbers (...).

    What is ``high`` or more is decided and what is ``low`` or less is not, in ``dtype``. Infinity stands for never,
    minus infinity for always. Where a threshold itself is decided, it is ``closed``: it may be as large as ``high``,
    and not as small as ``low``; otherwise the other way round.

    >>> shortest([0.25, 0.5], [0.5, np.inf], np.dtype(np.float64), closed=True)
    array([0.38,  inf])
    """
    low, high = np.broadcast_arrays(np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64))
    out = np.where(np.isfinite(high), -np.inf, np.inf)
    inside = np.isfinite(low) & np.isfinite(high)
    lows, highs = low[inside], high[inside]
    middle = lows + (highs - lows) / 2.0
    short = highs.copy() if closed else lows.copy()
    left = np.arange(len(middle))
    for digits in range(2, MOST_DIGITS):
        tried = _rounded(middle[left], digits)
        fits = np.ones(len(left), dtype=np.bool_)
        # a column in float32 compares rounded numbers
        for x in (tried, tried.astype(dtype).astype(np.float64)):
            fits &= (lows[left] < x) & (x <= highs[left]) if closed else (lows[left] <= x) & (x < highs[left])
        short[left[fits]] = tried[fits]
        left = left[~fits]
        if not len(left):
            break
    out[inside] = short
    return out


def _rounded(x: Array, digits: int) -> Array:
    """Return numbers (n,) with so many significant ``digits``: those that their decimals are read as."""
    with np.errstate(divide="ignore"):
        decimals = digits - 1.0 - np.floor(np.log10(np.abs(x)))
    exact = (decimals >= 0.0) & (decimals <= EXACT_TEN) & (digits <= EXACT_DIGITS)
    scale = 10.0 ** np.where(exact, decimals, 0.0)
    whole = np.rint(x * scale)
    # a product that is rounded to a tie may lie on either side of it
    exact &= np.abs(np.abs(x * scale - whole) - 0.5) > TIE
    out = whole / scale
    for k in np.flatnonzero(~exact).tolist():
        out[k] = float(np.format_float_positional(x[k], digits, fractional=False))
    return np.asarray(out)
