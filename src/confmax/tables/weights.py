"""What rows weigh: one each, or a number for every row.

Rows of equal weight have no array of ones: to multiply by it costs a third of a scan, and sums of it are counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array


@final
@dataclass(frozen=True, eq=False)
class Weights:
    """The weights of n rows, or of as many lots of them: ``values`` (n,), or () where all weigh one, as in `EQUAL`.

    >>> EQUAL.times(np.array([2.0, 3.0])), Weights(np.array([1.0, 4.0])).times(np.array([2.0, 3.0]))
    (array([2., 3.]), array([ 2., 12.]))
    >>> EQUAL.sum(np.array([2.0, 3.0])), Weights(np.array([1.0, 4.0])).sum(np.array([2.0, 3.0]))
    (5.0, 14.0)
    """

    values: Array | None = None

    @staticmethod
    def given(values: Any) -> Weights:
        """Return the weights that an argument ``sample_weight`` means: None is one each."""
        return EQUAL if values is None else Weights(values)

    @property
    def is_equal(self) -> bool:
        """Whether all rows weigh one."""
        return self.values is None

    @property
    def differ(self) -> bool:
        """Whether two rows that have weight weigh differently."""
        return self.values is not None and bool(np.ptp(self.values[self.values > 0.0]) > 0.0)

    @property
    def for_kernels(self) -> Array:
        """The weights as compiled code takes them: an array without numbers where all weigh one."""
        return np.empty(0) if self.values is None else self.values

    def array(self, n: int) -> Array:
        """Return the weights of the ``n`` rows as an array."""
        return np.ones(n) if self.values is None else self.values

    def of(self, rows: Any) -> Weights:
        """Return the weights of some ``rows``: a mask, a slice or indices."""
        return self if self.values is None else Weights(np.asarray(self.values)[rows])

    def repeated(self, counts: NDArray[np.int64]) -> Weights:
        """Return the weights of as many copies of each row as ``counts`` (n,) say."""
        return self if self.values is None else Weights(np.repeat(self.values, counts))

    def times(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return numbers ``x`` (..., n) of the rows, times their weights."""
        return x if self.values is None else x * self.values

    def roots(self) -> Weights:
        """Return the square roots of the weights."""
        return self if self.values is None else Weights(np.sqrt(self.values))

    def sum(self, x: Array) -> float:
        """Return the weighted sum of numbers ``x`` (n,)."""
        return float(x.sum() if self.values is None else self.values @ x)

    def sums(self, place: NDArray[Any], size: int) -> Array:
        """Return the weight of the rows at each ``place`` (n,) below ``size``, (size,): of equal ones their number."""
        return np.asarray(np.bincount(place, weights=self.values, minlength=size))

    def ranks(self) -> tuple[NDArray[np.intp], int]:
        """Return the rank of every weight, or of all of them (1,), and how many ranks there are."""
        if self.values is None:
            return np.zeros(1, np.intp), 1
        values, rank = np.unique(self.values, return_inverse=True)
        return rank.reshape(-1), len(values)

    @staticmethod
    def joined(parts: Iterable[Weights]) -> Weights:
        """Return the weights of the rows of all ``parts``, which are equal in all of them or in none."""
        values = [part.values for part in parts if part.values is not None]
        return Weights(np.concatenate(values)) if values else EQUAL


EQUAL = Weights()
