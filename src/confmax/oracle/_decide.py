"""Decisions on any kind of checked probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Gains
from confmax.oracle import _numba, _sparse
from confmax.oracle._table import is_sparse
from confmax.oracle._tensors import is_tensor


def decide(proba: Any, gains: Gains) -> NDArray[np.int32]:
    """Return the decisions (B, n) of every gain on every row of ``proba`` (n, K); ties go to the largest index."""
    if is_tensor(proba):
        from confmax.oracle import _torch

        return _torch.decide(proba, gains)
    return _sparse.decide(proba, gains) if is_sparse(proba) else _numba.decide(proba, gains)
