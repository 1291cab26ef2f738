"""Products of matrices and positive definite systems: not a library's.

The last digits of a library's products and solutions depend on the number of threads, and so would every number that is
fitted by them. Here the order of a sum depends on the shapes alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax import kernels

Matrix = NDArray[np.float64]


def times(vectors: Matrix, matrix: Matrix) -> Matrix:
    """Return the product of rows (n, d) and a matrix (d, m); the terms of a sum are added in their order."""
    if kernels.native is not None:
        out = np.empty((len(vectors), matrix.shape[1]))
        kernels.native.times(np.ascontiguousarray(vectors), 0, len(vectors), np.ascontiguousarray(matrix), out)
        return out
    return in_order(vectors, matrix)


def in_order(vectors: Matrix, matrix: Matrix) -> Matrix:
    """Return what `times` does, in NumPy."""
    out = np.zeros((len(vectors), matrix.shape[1]))
    for i in range(len(matrix)):
        out += vectors[:, i, None] * matrix[i]
    return out


class Positive:
    """A positive definite matrix (d, d), factored; a ValueError for one that is not."""

    def __init__(self, matrix: Matrix) -> None:
        self.factor = np.array(matrix, order="C")
        if not (_factor(self.factor) if kernels.native is None else kernels.native.factor(self.factor)):
            raise ValueError("a system of equations that must be positive definite is not")
        # a column of the factor is a row of its transpose: numbers that lie together
        self._turned = np.ascontiguousarray(self.factor.T)

    def solve(self, sides: Matrix) -> Matrix:
        """Return the solutions (d, m) for right sides (d, m), or (d,) for one."""
        x = np.array(sides.reshape(len(sides), -1), order="C")
        if kernels.native is None:
            _substitute(self.factor, x)
        else:
            kernels.native.substitute(self.factor, self._turned, x)
        return x.reshape(sides.shape)


def _factor(a: Matrix) -> Any:
    for k in range(len(a)):
        if not a[k, k] > 0:
            return False
        a[k, k:] = a[k, k:] / np.sqrt(a[k, k])
        a[k + 1 :, k + 1 :] -= a[k, k + 1 :, None] * a[k, k + 1 :]
    return True


def _substitute(U: Matrix, x: Matrix) -> None:
    for k in range(len(x)):
        x[k] = x[k] / U[k, k]
        x[k + 1 :] -= U[k, k + 1 :, None] * x[k]
    for k in reversed(range(len(x))):
        x[k] = x[k] / U[k, k]
        x[:k] -= U[:k, k, None] * x[k]
