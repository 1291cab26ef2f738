"""The largest minimum of linear functions: a linear program, whose dual prices the functions and the limits.

Source: linear programming duality. Phase one of a smooth master, the largest slack that all limits can have at once, is
this program with the limits in the place of the functions. So is a mixture under which no recall is zero.
"""

from __future__ import annotations

import numpy as np

from confmax.confusion import Array
from confmax.optimize.rounding import LEFT_OVER

FEASIBLE = LEFT_OVER  # a limit that is missed by no more than this counts as met


def per_price(heights: Array, total: Array) -> Array:
    """Return ``heights / total`` (B,), by the sums of prices: a bound on a minimum; inf where nothing is priced."""
    return np.divide(heights, total, out=np.full(len(total), np.inf), where=total > 0.0)


def largest_minimum(functions: Array, slack: Array | None = None) -> tuple[float, Array, Array, Array]:
    """Solve ``max_w min_u (w @ functions)_u`` over the simplex with ``w @ slack >= 0``.

    Parameters
    ----------
    functions : ndarray (A, S)
        Values of S functions at A points.
    slack : ndarray (A, m) or None
        Slacks of m limits, which some point of the simplex meets.

    Returns
    -------
    value : float
        The largest minimum.
    weights : ndarray (A,)
        Where it is reached.
    prices : ndarray (S,)
        Dual weights of the functions; they sum to one.
    multipliers : ndarray (m,)
        Duals of the limits.
    """
    # scipy.optimize takes longer to import than confmax
    from scipy.optimize import linprog

    # the variables are the weights of the A points and, last, the smallest function v, of which linprog minimises -v
    A, S = functions.shape
    slack = np.empty((A, 0)) if slack is None else slack
    m = slack.shape[1]
    result = linprog(
        np.append(np.zeros(A), -1.0),
        A_ub=np.vstack([np.hstack([-functions.T, np.ones((S, 1))]), np.hstack([-slack.T, np.zeros((m, 1))])]),
        b_ub=np.zeros(S + m),
        A_eq=[np.append(np.ones(A), 0.0)],
        b_eq=[1.0],
        # recalls are not negative; other functions may be
        bounds=[(0, None)] * A + [(min(0.0, float(functions.min())), None)],
        # the simplex method ends in a corner of the feasible set, where few rules have weight
        method="highs-ds",
    )
    if result.x is None:
        raise RuntimeError(f"no solution of a master's linear program was found, although one exists: {result.message}")
    # rounding may leave a dual a little below zero, and their sum a little off one
    duals = np.maximum(-np.asarray(result.ineqlin.marginals), 0.0)
    total = duals[:S].sum()
    return float(result.x[-1]), np.maximum(result.x[:-1], 0.0), duals[:S] / total, duals[S:] / total
