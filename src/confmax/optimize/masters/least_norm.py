"""The point of least norm in the convex hull of a few points: the quadratic master problem of a fully corrective step.

With a row of ones and the target (0, ..., 0, 1) it is a non-negative least-squares problem without further
constraints: for any shares u the best multiple leaves ``|Pu|^2 / (1 + |Pu|^2)``, which grows with ``|Pu|``. It is
solved by Lawson and Hanson's active-set method, started from the points in use. An orthogonal basis of the columns in
use is kept: a column that enters is made orthogonal to it twice, one that leaves is taken out by rotations. (SciPy has
the method too, but its releases 1.12 to 1.15 solve normal equations, which break down where points nearly coincide, as
they do here.)

Within limits it is solved by a primal-dual interior-point method. Without limits the active-set method is faster and
exact.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from confmax.confusion import Array

STEPS = 60  # of the interior-point method
CENTRED = 0.1  # part of the mean complementarity that a step aims at
BACK = 0.99  # part of the way to the boundary that a step may take
CLOSED = 1e-15
TOLERANCE = 1e-13
DEPENDENT = 1e-11  # a column of length one that is nearer to the span of the others adds nothing

# Plain loops over elements: array expressions and views take seconds to compile on first use.


@njit(cache=True, nogil=True)
def _enter(columns, entering, basis, triangle, s):  # type: ignore[no-untyped-def]
    # basis (cap, d): orthonormal rows; triangle (cap, cap): triangle[:, t] are column t's coefficients
    d = columns.shape[1]
    for i in range(d):
        basis[s, i] = columns[entering, i]
    for t in range(s):
        triangle[t, s] = 0.0
    for _ in range(2):
        for t in range(s):
            along = 0.0
            for i in range(d):
                along += basis[t, i] * basis[s, i]
            triangle[t, s] += along
            for i in range(d):
                basis[s, i] -= along * basis[t, i]
    length = 0.0
    for i in range(d):
        length += basis[s, i] * basis[s, i]
    length = math.sqrt(length)
    if length < DEPENDENT:
        return False
    triangle[s, s] = length
    for i in range(d):
        basis[s, i] /= length
    return True


@njit(cache=True, nogil=True)
def _leave(basis, triangle, place, s):  # type: ignore[no-untyped-def]
    # columns behind move up by one; rotations of neighbouring rows make the rest triangular again
    for t in range(place, s - 1):
        for i in range(t + 2):
            triangle[i, t] = triangle[i, t + 1]
        c, w = triangle[t, t], triangle[t + 1, t]
        length = math.hypot(c, w)
        if length > 0.0:
            c, w = c / length, w / length
            for k in range(t + 1, s - 1):
                # the columns that have not moved yet still stand one place behind
                upper, lower = triangle[t, k + 1], triangle[t + 1, k + 1]
                triangle[t, k + 1], triangle[t + 1, k + 1] = c * upper + w * lower, c * lower - w * upper
            for i in range(basis.shape[1]):
                upper, lower = basis[t, i], basis[t + 1, i]
                basis[t, i], basis[t + 1, i] = c * upper + w * lower, c * lower - w * upper
        triangle[t, t] = length
        triangle[t + 1, t] = 0.0


@njit(cache=True, nogil=True)
def _solve(basis, triangle, s, best):  # type: ignore[no-untyped-def]
    # least squares with the target (0, ..., 0, 1)
    last = basis.shape[1] - 1
    for t in range(s - 1, -1, -1):
        value = basis[t, last]
        for k in range(t + 1, s):
            value -= triangle[t, k] * best[k]
        best[t] = value / triangle[t, t]


@njit(cache=True, nogil=True)
def _settle(x, used, s, basis, triangle, best):  # type: ignore[no-untyped-def]
    """Minimise over the columns in use, in place; columns whose share would turn negative leave on the way."""
    while s > 0:
        _solve(basis, triangle, s, best)
        step, leaving = 1.0, -1
        for t in range(s):
            if best[t] <= 0.0:
                ratio = x[used[t]] / (x[used[t]] - best[t]) if x[used[t]] > 0.0 else 0.0
                if leaving < 0 or ratio < step:
                    step, leaving = ratio, t
        for t in range(s):
            x[used[t]] += step * (best[t] - x[used[t]])
        if leaving < 0:
            return s
        for t in range(s - 1, -1, -1):
            if t == leaving or (best[t] <= 0.0 and x[used[t]] <= TOLERANCE):
                x[used[t]] = 0.0
                _leave(basis, triangle, t, s)
                for k in range(t, s - 1):
                    used[k] = used[k + 1]
                s -= 1
    return s


@njit(cache=True, nogil=True)
def _slopes(columns, x, used, s, rest, slope):  # type: ignore[no-untyped-def]
    # what each column would take off what is left of the target; nothing for those in use
    A, d = columns.shape
    for i in range(d):
        rest[i] = 0.0
    rest[d - 1] = 1.0
    for t in range(s):
        for i in range(d):
            rest[i] -= x[used[t]] * columns[used[t], i]
    for k in range(A):
        total = 0.0
        for i in range(d):
            total += columns[k, i] * rest[i]
        slope[k] = total
    for t in range(s):
        slope[used[t]] = 0.0


@njit(cache=True, nogil=True)
def least_norm(points, start):  # type: ignore[no-untyped-def]
    """Return shares ``u`` (A,), in the simplex, that minimise ``|u @ points|``.

    Parameters
    ----------
    points : ndarray (A, S)
        The points.
    start : ndarray (A,)
        Shares to begin with; which of them are positive matters.
    """
    A, d = points.shape[0], points.shape[1] + 1
    most = min(A, d)
    columns, lengths, slope = np.empty((A, d)), np.empty(A), np.empty(A)
    basis, triangle, best = np.empty((most, d)), np.zeros((most, most)), np.empty(most)
    used, x, blocked = np.empty(most, np.int64), np.zeros(A), np.zeros(A, np.bool_)
    s = np.int64(0)  # not a literal: every function below would be compiled for it, too
    for k in range(A):
        length = 1.0
        for i in range(d - 1):
            length += points[k, i] * points[k, i]
        lengths[k] = math.sqrt(length)
        for i in range(d - 1):
            columns[k, i] = points[k, i] / lengths[k]
        columns[k, d - 1] = 1.0 / lengths[k]
        if start[k] > 0.0 and s < most and _enter(columns, k, basis, triangle, s):
            used[s] = k
            x[k] = start[k] * lengths[k]
            s += 1
    s = _settle(x, used, s, basis, triangle, best)
    rest = np.empty(d)
    for _ in range(10 * A):
        _slopes(columns, x, used, s, rest, slope)
        entering: int = np.int64(-1)  # type: ignore[assignment]
        for k in range(A):
            if not blocked[k] and slope[k] > TOLERANCE and (entering < 0 or slope[k] > slope[entering]):
                entering = k
        if entering < 0:
            break
        # a point that rounding throws out again would be chosen for ever
        if s == most or not _enter(columns, entering, basis, triangle, s):
            blocked[entering] = True
            continue
        used[s] = entering
        s = _settle(x, used, s + 1, basis, triangle, best)
        if x[entering] <= 0.0:
            blocked[entering] = True
    total = 0.0
    for k in range(A):
        x[k] = max(x[k] / lengths[k], 0.0)
        total += x[k]
    for k in range(A):
        x[k] /= total
    return x


def least_norm_within(points: Array, slack: Array) -> Array:
    """Return shares ``w`` (A,), in the simplex, that minimise ``|w @ points|`` with ``w @ slack >= 0``.

    Parameters
    ----------
    points : ndarray (A, r)
        The points.
    slack : ndarray (A, m)
        Slacks of the limits at each point; some mixture meets them.
    """
    A, m = slack.shape
    # the norm is scaled to one, so that one tolerance fits all
    Q = points @ points.T
    Q = Q / max(float(np.abs(np.diag(Q)).max()), 1e-300)
    w, s = np.full(A, 1.0 / A), np.ones(m)
    z, multipliers, level = np.ones(A), np.ones(m), np.zeros(())
    for _ in range(STEPS):
        missed, short = 1.0 - w.sum(), w @ slack - s
        tilt = Q @ w - level - slack @ multipliers - z
        gap = (w @ z + s @ multipliers) / (A + m)
        if gap < CLOSED and max(abs(missed), np.abs(short).max(), np.abs(tilt).max()) < 1e-13:
            break
        # Newton's step on the conditions of optimality, with z w = s multipliers = aim in the place of zero; the slacks
        # are eliminated, so that the system has one row per share and one for their sum
        aim = CENTRED * gap
        ratio = multipliers / s
        push = (aim - s * multipliers - multipliers * short) / s
        system = np.zeros((A + 1, A + 1))
        system[:A, :A] = Q + np.diag(z / w) + (slack * ratio) @ slack.T
        system[:A, A] = system[A, :A] = -1.0
        try:
            moves = np.linalg.solve(system, np.append(-tilt + (aim - w * z) / w + slack @ push, -missed))
        except np.linalg.LinAlgError:
            # a singular system: the weights are exact up to rounding, and no further step improves them
            break
        dw, dlevel = moves[:A], moves[A]
        dz = (aim - w * z - z * dw) / w
        ds, dm = dw @ slack + short, push - ratio * (dw @ slack)
        values, changes = np.concatenate([w, s, z, multipliers]), np.concatenate([dw, ds, dz, dm])
        falling = changes < 0
        size = min(1.0, BACK * float((-values[falling] / changes[falling]).min(initial=np.inf)))
        w, s, z = w + size * dw, s + size * ds, z + size * dz
        multipliers, level = multipliers + size * dm, level + size * dlevel
    # an interior point gives every rule some weight
    w = np.where(w > 1e-12, w, 0.0)
    return np.asarray(w / w.sum())
