"""The point of least norm in the convex hull of a few points: the quadratic master problem of a fully corrective step.

With a row of ones and the target (0, ..., 0, 1) it is a non-negative least-squares problem without further
constraints: for any shares u the best multiple leaves ``|Pu|^2 / (1 + |Pu|^2)``, which grows with ``|Pu|``. It is
solved by Lawson and Hanson's active-set method, started from the points in use. SciPy has the method too, but its
releases 1.12 to 1.15 solve normal equations, which break down where points nearly coincide, as they do here.
"""

from __future__ import annotations

import numpy as np

from confmax.confusion import Array

TOLERANCE = 1e-13


def least_norm(points: Array, start: Array) -> Array:
    """Return shares ``u`` (A,), in the simplex, that minimise ``|u @ points|``.

    Parameters
    ----------
    points : ndarray (A, S)
        The points; no two of them equal.
    start : ndarray (A,)
        Shares to begin with; which of them are positive matters.
    """
    matrix = np.vstack([points.T, np.ones(len(points))])
    target = np.append(np.zeros(points.shape[1]), 1.0)
    lengths = np.linalg.norm(matrix, axis=0)
    matrix = matrix / lengths
    x = np.where(start > 0, start, 0.0) * lengths
    used = x > 0
    _settle(matrix, target, x, used)
    blocked = np.zeros(len(points), dtype=bool)
    for _ in range(10 * len(points)):
        slope = matrix.T @ (target - matrix @ x)
        slope[used | blocked] = -np.inf
        entering = int(np.argmax(slope))
        if slope[entering] <= TOLERANCE:
            break
        before = x.copy()
        used[entering] = True
        _settle(matrix, target, x, used)
        # a point that rounding throws out again would be chosen for ever
        blocked[entering] = not used[entering]
        if np.array_equal(before, x):
            blocked[entering] = True
    shares = np.maximum(x / lengths, 0.0)
    return shares / shares.sum()


def _settle(matrix: Array, target: Array, x: Array, used: np.ndarray) -> None:
    """Minimise over the columns in use, in place; columns whose share would turn negative leave on the way."""
    while used.any():
        best = np.zeros(len(x))
        best[used] = np.linalg.lstsq(matrix[:, used], target, rcond=1e-14)[0]
        negative = used & (best <= 0)
        if not negative.any():
            x[:] = best
            return
        step = float(np.min(x[negative] / (x[negative] - best[negative])))
        x += min(step, 1.0) * (best - x)
        leaving = negative & (x <= TOLERANCE)
        if not leaving.any():
            leaving[np.flatnonzero(negative)[np.argmin(x[negative])]] = True
        used &= ~leaving
        x[~used] = 0.0
