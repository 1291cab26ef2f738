"""The oracle and the decisions of several labels per row, in an array.

As for one class (`confmax.tables.array.oracle`), the compiled scan decides as NumPy does, bit for bit, and its sums do
not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax import kernels
from confmax.confusion import Array, Confusion, Gains
from confmax.kernels.blocks import chunk_rows, over_rows
from confmax.tables.array.oracle import MATRIX_CELLS
from confmax.tables.columns import warn
from confmax.tables.decisions import Decisions
from confmax.tables.precision import answered, gain_coefficients, is_wide
from confmax.tables.table import MemoryTable

CELLS = 1 << 20  # scores that NumPy holds at a time

# what the scan does not need is empty, and what is empty is not written
NO_BYTES = np.empty((0, 0), np.uint8)
NO_SUMS = np.empty((0, 3, 0))


def decide_labels(proba: NDArray[Any], gains: Gains, decisions: Decisions) -> NDArray[np.uint8]:
    """Return which labels one gain chooses on every row of ``proba`` (n, L), 0 or 1; see `Decisions.chosen`.

    >>> from confmax.tables.decisions import ANY
    >>> decide_labels(np.array([[0.8, 0.3], [0.1, 0.4]]), Gains.reduced([1.0, 1.0], [-0.5, -0.3]), ANY).tolist()
    [[1, 0], [0, 1]]
    """
    # a gain whose coefficients the table's type does not hold is decided in float64 (`confmax.tables.precision`)
    P = np.ascontiguousarray(proba, np.float64 if is_wide(gains, proba.dtype).any() else None)
    first, second = _coefficients(gains, P.dtype)
    out = np.empty(P.shape, np.uint8)
    if kernels.native is None:
        warn(kernels.without_kernels(P.size))
        for part in _blocks(P):
            out[part] = decisions.chosen(P[part] * first[0] + second[0])
        return out
    by = (first[:1], second[:1], *_kernel_decisions(decisions, P.shape[1]))

    def work(_: int, start: int, stop: int) -> None:
        kernels.native.scan_labels(P, start, stop, *by, NO_BYTES, np.empty(0), 0, NO_SUMS, out)

    over_rows(work, len(P), chunk_rows(P.shape[1], len(P)))
    return out


class LabelsOracle:
    """The oracle of a table of several labels per row: probabilities P (n, L), labels Y (n, L) of 0 and 1 or None.

    Rows are decided by P, and statistics are sums of ``S_l = m_l P_l + (1 - m_l) Y_l``.

    Parameters
    ----------
    table : MemoryTable
        The rows, with labels (n, L) of 0 and 1 and the ``decisions`` that are made for a row.
    model_share : float or ndarray (L,)
        The shares m: of the model in the statistics, of all labels or of each.

    Attributes
    ----------
    rows : ndarray (L,)
        Means of S: what part of all weight has the label.
    exact : bool
        Whether the answers are true maximisers: all shares are one.
    """

    def __init__(self, table: MemoryTable, model_share: ArrayLike) -> None:
        self.table = table
        self.model_share: Any = model_share
        self.shares = np.broadcast_to(np.asarray(model_share, dtype=np.float64), (table.n_classes,))
        self.exact = bool((self.shares == 1.0).all())
        if table.labels is None and not self.exact:
            raise ValueError("a share of the model below 1 counts labels, and this table has none; pass `y=`")

    @cached_property
    def rows(self) -> Array:
        of_model = (
            self.shares * self.table.mean_probability() if (self.shares > 0.0).any() else np.zeros(len(self.shares))
        )
        return of_model if self.exact else of_model + (1.0 - self.shares) * self.table.label_weight()

    def maximize(self, gains: Gains, *, matrix: bool = False) -> Confusion:
        """Return, for each of ``gains``, the statistics of its decisions, fractions of all weight; ``rows`` are S's.

        ValueError if a ``matrix`` is asked for: decisions of several labels have none.
        """
        if matrix:
            raise ValueError("decisions of several labels per row have no confusion matrix; ask without `matrix`")
        return answered(gains, self.table.proba, self._confusion)

    def _confusion(self, proba: NDArray[Any], gains: Gains) -> Confusion:
        """Return the statistics of all gains, in the type of ``proba``."""
        sums = self._sums(proba, gains, self.table.decisions)
        return Confusion(self.rows, sums[:, 0], sums[:, 1])

    def _sums(self, proba: NDArray[Any], gains: Gains, decisions: Decisions) -> Array:
        """Return the means of S and of 1 (B, 2, L) over the decisions of all gains."""
        needed = bool((self.shares > 0.0).any()), not self.exact
        first, second = _coefficients(gains, proba.dtype)
        by = _sums_by_numpy if kernels.native is None else _sums_by_kernel
        p, y, made = np.moveaxis(by(self.table, proba, (first, second), decisions, needed), 1, 0)
        return np.stack([self.shares * p + (1.0 - self.shares) * y, made], axis=1) / self.table.weight_total


def _blocks(proba: NDArray[Any]) -> Iterator[slice]:
    """Yield the rows of ``proba`` (n, L) whose scores NumPy holds at a time."""
    size = max(1, CELLS // proba.shape[1])
    return (slice(low, low + size) for low in range(0, len(proba), size))


def _coefficients(gains: Gains, dtype: np.dtype[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the coefficients ``(a, b)`` of gains, both (B, L), in ``dtype``."""
    gains.pair()
    first, second = gain_coefficients(gains, dtype)
    assert second is not None
    return first, second


def _kernel_decisions(decisions: Decisions, L: int) -> tuple[int, int]:
    """Return how many labels a row has, 0 for any number, and whether only positive scores are chosen."""
    most = 0 if decisions.most is None else min(decisions.most, L)
    return most, int(decisions.positive)


def _sums_by_kernel(
    table: MemoryTable,
    proba: NDArray[Any],
    by: tuple[NDArray[Any], NDArray[Any]],
    decisions: Decisions,
    needed: tuple[bool, bool],
) -> Array:
    """Return the sums (B, 3, L) of P, Y and 1 by weight over the rows that choose a label; zeros if not ``needed``."""
    n, L = proba.shape
    labels = table.labels if needed[1] else NO_BYTES
    weight = np.empty(0) if table.weight is None else table.weight
    how = _kernel_decisions(decisions, L)
    chunk = chunk_rows(L, n)
    # a part of the rows more is a copy of all sums more
    chunk *= -(-n // (chunk * max(1, MATRIX_CELLS // (3 * by[0].size))))
    sums = np.zeros((-(-n // chunk), len(by[0]), 3, L))

    def work(part: int, start: int, stop: int) -> None:
        kernels.native.scan_labels(proba, start, stop, *by, *how, labels, weight, int(needed[0]), sums[part], NO_BYTES)

    over_rows(work, n, chunk)
    return np.asarray(sums.sum(axis=0))


def _sums_by_numpy(
    table: MemoryTable,
    proba: NDArray[Any],
    by: tuple[NDArray[Any], NDArray[Any]],
    decisions: Decisions,
    needed: tuple[bool, bool],
) -> Array:
    """Return `_sums_by_kernel`: the definition, which the kernel is tested against."""
    warn(kernels.without_kernels(proba.size))
    out = np.zeros((len(by[0]), 3, proba.shape[1]))
    for part in _blocks(proba):
        P = proba[part]
        weight = np.ones(len(P)) if table.weight is None else table.weight[part]
        Y = None if table.labels is None or not needed[1] else table.labels[part]
        values = [P if needed[0] else None, Y, 1.0]
        for g, (first, second) in enumerate(zip(*by, strict=True)):
            chosen = weight[:, None] * decisions.chosen(P * first + second)
            for term, x in enumerate(values):
                if x is not None:
                    out[g, term] += (chosen * x).sum(axis=0)
    return out
