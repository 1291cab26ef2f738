"""Decisions on any kind of checked probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax.confusion import Gains
from confmax.oracle import _numba
from confmax.oracle._arrays import ROW_SUM_TOLERANCE, as_array, rounding_of
from confmax.oracle._table import checked_probabilities, is_sparse
from confmax.oracle._tensors import is_tensor


def decide(proba: Any, gains: Gains) -> NDArray[Any]:
    """Return the decisions (B, n) of every gain on every row of ``proba`` (n, K); ties go to the largest index."""
    if is_tensor(proba):
        from confmax.oracle import _torch

        return _torch.decide(proba, gains)
    if is_sparse(proba):
        from confmax.oracle import _sparse

        return _sparse.decide(proba, gains)
    return _numba.decide(proba, gains)


def decide_given(proba: ArrayLike, gains: Gains, classes: Sequence[Any] | None = None) -> NDArray[np.int64] | None:
    """Return the decisions (n,) of one gain on probabilities that nobody has checked, checked in the same scan.

    None where they are no array or not of the gain's number of classes: `checked_probabilities` says what they are.

    Raises
    ------
    ValueError
        As `checked_probabilities` does.
    """
    if is_sparse(proba) or is_tensor(proba):
        return None
    P = as_array(proba, classes)
    if P.shape[1] != gains.n_classes:
        return None
    rounding = rounding_of(P)
    decisions, broken = _numba.decide_unchecked(P, gains, (ROW_SUM_TOLERANCE, rounding))
    if broken.any():
        # rows are refused, or divided by their sums
        decisions = _numba.decide(checked_probabilities(P), gains)
    return decisions[0]
