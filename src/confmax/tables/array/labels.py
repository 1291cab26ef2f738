"""The scan and the decisions of several labels per row, in an array.

As for one class (`confmax.tables.array.oracle`), the compiled scan decides as NumPy does, bit for bit, and its sums do
not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax import kernels
from confmax.confusion import Array, Confusion, Gains
from confmax.kernels.blocks import chunk_rows, over_rows
from confmax.tables.array.oracle import MATRIX_CELLS
from confmax.tables.columns import warn
from confmax.tables.decisions import Decisions
from confmax.tables.part import Part
from confmax.tables.precision import answered, gain_coefficients, is_wide

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


def scan_labels(part: Part, gains: Gains, share: Any, *, matrix: bool, by: Part) -> Confusion:
    """Return `Storage.scan` of several labels per row: rows are decided by ``by``, and ``share`` is one or (L,).

    Statistics are sums of ``S_l = m_l P_l + (1 - m_l) Y_l``, of probabilities P, labels Y and shares m. ValueError if a
    ``matrix`` is asked for: decisions of several labels have none.
    """
    refuse_matrix(matrix=matrix)
    shares = np.broadcast_to(np.asarray(share, dtype=np.float64), (part.n_classes,))
    return answered(gains, by.proba, lambda rows, some: _scanned(part, rows, some, shares, own=by is part))


def refuse_matrix(*, matrix: bool) -> None:
    """Refuse, by a ValueError, to give the ``matrix`` of decisions of several labels."""
    if matrix:
        raise ValueError("decisions of several labels per row have no confusion matrix; ask without `matrix`")


def _scanned(part: Part, proba: NDArray[Any], gains: Gains, shares: Array, *, own: bool) -> Confusion:
    """Return the sums of all gains, decided by ``proba`` in its type: the ``own`` one of a part, or another."""
    needed = bool((shares > 0.0).any()), bool((shares < 1.0).any())
    coefficients = _coefficients(gains, proba.dtype)
    if own and kernels.native is not None:
        sums = _sums_by_kernel(part, proba, coefficients, part.decisions, needed)
    else:
        sums = _sums_by_numpy(part, proba, coefficients, part.decisions, needed)
    p, y, made = np.moveaxis(sums, 1, 0)
    return Confusion(np.zeros(part.n_classes), shares * p + (1.0 - shares) * y, made)


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
    part: Part,
    proba: NDArray[Any],
    by: tuple[NDArray[Any], NDArray[Any]],
    decisions: Decisions,
    needed: tuple[bool, bool],
) -> Array:
    """Return the sums (B, 3, L) of P, Y and 1 by weight over the rows that choose a label; zeros if not ``needed``."""
    n, L = proba.shape
    labels = part.labels if needed[1] else NO_BYTES
    weight = part.weighing.for_kernels
    how = _kernel_decisions(decisions, L)
    chunk = chunk_rows(L, n)
    # a part of the rows more is a copy of all sums more
    chunk *= -(-n // (chunk * max(1, MATRIX_CELLS // (3 * by[0].size))))
    sums = np.zeros((-(-n // chunk), len(by[0]), 3, L))

    def work(place: int, start: int, stop: int) -> None:
        kernels.native.scan_labels(proba, start, stop, *by, *how, labels, weight, int(needed[0]), sums[place], NO_BYTES)

    over_rows(work, n, chunk)
    return np.asarray(sums.sum(axis=0))


def _sums_by_numpy(
    part: Part,
    proba: NDArray[Any],
    by: tuple[NDArray[Any], NDArray[Any]],
    decisions: Decisions,
    needed: tuple[bool, bool],
) -> Array:
    """Return `_sums_by_kernel`: the definition, which the kernel is tested against."""
    if kernels.native is None:
        warn(kernels.without_kernels(proba.size))
    out = np.zeros((len(by[0]), 3, proba.shape[1]))
    for rows in _blocks(proba):
        P = proba[rows]
        weight = part.weighing.of(rows).array(len(P))
        Y = None if part.labels is None or not needed[1] else part.labels[rows]
        values = [part.proba[rows] if needed[0] else None, Y, 1.0]
        for g, (first, second) in enumerate(zip(*by, strict=True)):
            chosen = weight[:, None] * decisions.chosen(P * first + second)
            for term, x in enumerate(values):
                if x is not None:
                    out[g, term] += (chosen * x).sum(axis=0)
    return out
