"""The point of least norm of a hull within limits, by a primal-dual interior-point method.

Without limits the active-set method of `least_norm` is faster and exact.
"""

from __future__ import annotations

import numpy as np

from confmax.confusion import Array

STEPS = 60
CENTRED = 0.1  # part of the mean complementarity that a step aims at
BACK = 0.99  # part of the way to the boundary that a step may take
CLOSED = 1e-15


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
            # the shares in use are known to rounding
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
