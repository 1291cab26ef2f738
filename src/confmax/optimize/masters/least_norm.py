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

import numpy as np

from confmax import kernels
from confmax.confusion import Array
from confmax.optimize.rounding import NEGLIGIBLE, NEWTON_STEPS, SINGULAR, TINIEST

CENTRED = 0.1  # part of the mean complementarity that a step aims at
BACK = 0.99  # part of the way to the boundary that a step may take
CLOSED = 1e-15
TOLERANCE = SINGULAR
DEPENDENT = 1e-11  # a column of length one that is nearer to the span of the others adds nothing


def least_norm(points: Array, start: Array) -> Array:
    """Return shares ``u`` (A,), in the simplex, that minimise ``|u @ points|``.

    Parameters
    ----------
    points : ndarray (A, S)
        The points.
    start : ndarray (A,)
        Shares to begin with; which of them are positive matters.
    """
    if kernels.native is None:
        with np.errstate(all="ignore"):
            return _least_norm_by_numpy(points, start)
    shares = np.empty(len(points))
    kernels.native.least_norm(np.ascontiguousarray(points), np.ascontiguousarray(start), shares)
    return shares


class _ActiveSet:
    """The columns in use (s of them), which are ``triangle.T @ basis``; columns (A, d) have length one."""

    def __init__(self, columns: Array) -> None:
        self.columns = columns
        self.x = np.zeros(len(columns))
        self.used: list[int] = []
        self.basis = np.empty((0, columns.shape[1]))
        self.triangle = np.empty((0, 0))

    def enter(self, k: int) -> bool:
        """Append column k unless it depends on the others; return whether it is independent."""
        s = len(self.used)
        if s == min(self.columns.shape):
            return False
        rest = self.columns[k]
        along = np.zeros(s)
        # once is not enough where columns nearly depend on each other
        for _ in range(2):
            more = self.basis @ rest
            rest = rest - more @ self.basis
            along = along + more
        length = np.linalg.norm(rest)
        if length < DEPENDENT:
            return False
        self.triangle = np.block([[self.triangle, along[:, None]], [np.zeros(s), length]])
        self.basis = np.vstack([self.basis, rest / length])
        self.used.append(k)
        return True

    def leave(self, place: int) -> None:
        """Take the column at a place out; a rotation makes the rest triangular again."""
        turned, self.triangle = np.linalg.qr(np.delete(self.triangle, place, axis=1))
        self.basis = turned.T @ self.basis
        self.x[self.used.pop(place)] = 0.0

    def settle(self) -> None:
        """Minimise over the columns in use; those whose share would turn negative leave on the way."""
        while self.used:
            # least squares with the target (0, ..., 0, 1)
            best = np.linalg.solve(self.triangle, self.basis[:, -1])
            now = self.x[self.used]
            falling = best <= 0.0
            steps = np.where(falling, np.where(now > 0.0, now / (now - best), 0.0), np.inf)
            leaving = int(np.argmin(steps))
            step = min(1.0, steps[leaving])
            self.x[self.used] = now = now + step * (best - now)
            if not falling.any():
                return
            falling &= now <= TOLERANCE
            falling[leaving] = True
            for place in np.flatnonzero(falling)[::-1]:
                self.leave(int(place))


def _least_norm_by_numpy(points: Array, start: Array) -> Array:
    A = len(points)
    columns = np.column_stack([points, np.ones(A)])
    lengths = np.linalg.norm(columns, axis=1)
    active = _ActiveSet(columns / lengths[:, None])
    blocked = np.zeros(A, np.bool_)
    for k in np.flatnonzero(start > 0.0):
        if active.enter(int(k)):
            active.x[k] = start[k] * lengths[k]
    active.settle()
    for _ in range(10 * A):
        # what each column would take off what is left of the target
        rest = -active.x @ active.columns
        rest[-1] += 1.0
        slope = active.columns @ rest
        slope[active.used] = 0.0
        slope[blocked] = 0.0
        entering = int(np.argmax(slope))
        if not slope[entering] > TOLERANCE:
            break
        if active.enter(entering):
            active.settle()
        # a point that rounding throws out again would be chosen for ever
        blocked[entering] = active.x[entering] <= 0.0
    shares = np.maximum(active.x / lengths, 0.0)
    return np.asarray(shares / shares.sum())


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
    Q = Q / max(float(np.abs(np.diag(Q)).max()), TINIEST)
    w = np.full(A, 1.0 / A)
    s = np.ones(m)
    z = np.ones(A)
    multipliers = np.ones(m)
    level = np.zeros(())
    for _ in range(NEWTON_STEPS):
        missed = 1.0 - w.sum()
        short = w @ slack - s
        tilt = Q @ w - level - slack @ multipliers - z
        gap = (w @ z + s @ multipliers) / (A + m)
        if gap < CLOSED and max(abs(missed), np.abs(short).max(), np.abs(tilt).max()) < SINGULAR:
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
        dw = moves[:A]
        dlevel = moves[A]
        dz = (aim - w * z - z * dw) / w
        ds = dw @ slack + short
        dm = push - ratio * (dw @ slack)
        values = np.concatenate([w, s, z, multipliers])
        changes = np.concatenate([dw, ds, dz, dm])
        falling = changes < 0
        size = min(1.0, BACK * float((-values[falling] / changes[falling]).min(initial=np.inf)))
        w = w + size * dw
        s = s + size * ds
        z = z + size * dz
        multipliers = multipliers + size * dm
        level = level + size * dlevel
    # an interior point gives every rule some weight
    w = np.where(w > NEGLIGIBLE, w, 0.0)
    return np.asarray(w / w.sum())
