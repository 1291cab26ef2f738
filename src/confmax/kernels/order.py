"""The order of numbers, for searches that compare every threshold."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax import kernels

FEW = 1 << 11  # numbers that NumPy sorts as fast
MOST = 1 << 24  # the kernel holds 32 bytes a number


def stable_order(keys: NDArray[Any]) -> NDArray[np.intp]:
    """Return ``numpy.argsort(keys, kind="stable")`` of float32 or float64 keys (n,)."""
    if kernels.native is None or not FEW <= len(keys) <= MOST:
        return np.argsort(keys, kind="stable")
    order = np.empty(len(keys), np.int64)
    kernels.native.stable_order(np.ascontiguousarray(keys), order)
    return order
