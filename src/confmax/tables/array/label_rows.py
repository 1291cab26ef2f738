"""The check of probabilities of labels (n, L), which lie in [0, 1] and whose rows need not sum to one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array
from confmax.errors import InputError
from confmax.kernels.blocks import chunk_rows, over_rows
from confmax.tables.arrays import as_float, check_rows, refuse_entries
from confmax.tables.labels import refuse_masked

OVER = 1e-6  # by how much a probability may exceed one, as a sum of float32 may


def in_one_matrix(proba: Any) -> Any:
    """Return probabilities that are given as L matrices (n, 2), absent and present, as one (n, L); others as they are.

    A ValueError for matrices of other shapes.
    """
    if not (isinstance(proba, (list, tuple)) and len(proba) and all(np.ndim(part) == 2 for part in proba)):
        return proba
    shapes = [np.shape(part) for part in proba]
    for label, shape in enumerate(shapes):
        if shape[1] != 2 or shape[0] != shapes[0][0]:
            raise InputError(
                f"`proba` is a sequence of one matrix per label, and label {label} has shape {tuple(shape)}, not "
                f"({shapes[0][0]}, 2): the probabilities that the label is absent and present"
            )
    return np.column_stack([np.asarray(part)[:, 1] for part in proba])


def checked_matrix(proba: Any, order: Sequence[int] | None) -> tuple[NDArray[Any], Array]:
    """Return a C-contiguous array (n, L) of floats in [0, 1], its columns in ``order``, and their sums (L,).

    A ValueError names the first entry that is no probability.
    """
    refuse_masked(proba, "proba")
    P = np.asarray(in_one_matrix(proba))
    if P.ndim != 2 or P.shape[1] < 1:
        raise InputError(f"`proba` must have shape (n, L), one column per label; got shape {P.shape}")
    P = np.ascontiguousarray(as_float(P if order is None else P[:, list(order)]))
    totals, broken = check_rows(P)
    # the compiled pass says only that some row is bad; which one, and why, takes a slower look
    if broken[:2].any() or not np.isfinite(totals).all():
        refuse_entries(P.ravel(), lambda k: divmod(k, P.shape[1]))
    chunk = chunk_rows(P.shape[1], len(P))
    most = max(over_rows(lambda _, start, stop: P[start:stop].max(), len(P), chunk), default=0.0)
    if most > 1.0 + OVER:
        refuse_over(P.ravel(), lambda k: divmod(k, P.shape[1]))
    if most > 1.0:
        P = np.minimum(P, P.dtype.type(1.0))
        totals = check_rows(P)[0]
    return P, totals


def refuse_over(values: NDArray[Any], place: Callable[[int], tuple[int, int]]) -> None:
    """Refuse, by a ValueError, entries (m,) above one by more than rounding; ``place`` is their row and column."""
    k = int(np.argmax(values))
    if values[k] > 1.0 + OVER:
        row, column = place(k)
        raise InputError(
            f"row {row}, column {column} of `proba` is {values[k]:g}, and a probability is at most 1",
            "pass the probability of every label, as predict_proba returns it",
        )
