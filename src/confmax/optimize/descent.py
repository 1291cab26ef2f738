"""Dual descent: the bound itself is minimised, by Newton's steps on the logarithms of the prices.

With prices g of the objective's functions and multipliers of the limits, every objective of `Program` has a bound of
one shape: ``c + (h(g) - c sum_k g_k) / N(g)``, with the support function h of the attainable set, and N of degree one:
the price itself of one function, the sum of several, the dual mean of a mean (`PowerMean.bound`; of misses c is one,
else zero). For a ratio of functions u / v the least bound is the root r of ``h(1, -r, mu) = 0``. The derivative of h is
the answer to g, and its second derivative follows from the rows that nearly tie (`tables/ties.py`).

Prices are positive, and differ by factors. In their logarithms the bound is smooth where a step in the prices
themselves overshoots: a price that is ten times too small needs few steps. The second derivative by a logarithm is
``g_k^2 B_kk + g_k b_k``, where b is the gradient; the size of its second part makes it positive. Several lengths of a
step are asked for in one pass.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array
from confmax.metrics.structure import power_mean
from confmax.optimize.masters.program import Program
from confmax.optimize.points import Form, Space
from confmax.optimize.rounding import BINDS, DEAREST, HALF_DIGITS, MOVED, NEGLIGIBLE, NEWTON_STEPS, PROGRESS
from confmax.oracle import CountingOracle

FIRST = 0.03  # of the objective's gains: those of a limit with its first price
LENGTHS = 0.5 ** np.arange(-2.0, 4.0)  # of a step, in one pass
LONGEST = 3.0  # move of a price, on a log scale
FLAT = HALF_DIGITS  # least curvature in a direction, relative to the mean
LEAST = NEGLIGIBLE  # price of a recall, relative to the largest


def first_prices(space: Space) -> Array:
    """Return a dual point (d,) with equal prices of the functions, and small ones of all limits."""
    form = space.form
    sizes = space.row_sizes()
    S = form.n_tops
    of_limits = slice(len(sizes) - form.n_limits, None)
    g = np.zeros(len(sizes))
    g[:S] = 1.0 / S
    g[of_limits] = FIRST * float(g[:S] @ sizes[:S]) / np.where(sizes[of_limits] > 0.0, sizes[of_limits], 1.0)
    return g


def free_prices(form: Form, d: int) -> NDArray[np.bool_]:
    """Return which entries (d,) of a dual point move freely: the price of one function is one, a level is the bound."""
    free = np.ones(d, dtype=np.bool_)
    free[: form.n_tops + form.ratio] = form.mean is not None or form.n_tops > 1
    return free


def roots(form: Form, gains: Array, z: Array) -> Array:
    """Return the levels (B,) that Newton's step to the root leads to from dual points of a ratio (B, d), answered by z.

    Inf where the answer has no denominator.
    """
    S = form.n_tops
    heights = (gains * z).sum(axis=1)
    steps = np.divide(heights, z[:, S], out=np.full(len(z), np.inf), where=z[:, S] > 0.0)
    return np.asarray((steps - gains[:, S]) / gains[:, 0])


def log_step(form: Form, g: Array, z: Array, B: Array) -> Array:
    """Return Newton's step (d,) on the logarithms of the prices g (d,), zero for those that are not free.

    The dual point g has the answer z (d,), and the support function the second derivative B (d, d).
    """
    S = form.n_tops
    free = free_prices(form, len(g))
    if form.ratio:
        # the root moves with the multipliers, and the excess stays zero
        slope = np.where(free, z / z[S], 0.0)
        move = np.diag(free.astype(np.float64))
        move[S] = -slope
        H = move.T @ B @ move / z[S]
    else:
        N, first, second, c = _norm(form, g[:S])
        answer = z.copy()
        answer[:S] -= c
        bound = float(g @ answer) / N
        slope = answer / N
        slope[:S] -= bound * first / N
        # what this leaves out is zero where the slope is
        H = B / N
        H[:S, :S] -= bound * second / N
    used = free & (g > 0.0)
    price = g[used]
    slope = slope[used] * g[used]
    H = price[:, None] * H[np.ix_(used, used)] * price + np.diag(np.abs(slope))
    size = float(np.trace(H)) / max(len(price), 1)
    # prices of several functions have no scale: the step keeps their sum
    shares = np.where(np.arange(len(g)) < S, g, 0.0)[used] / float(g[:S].sum())
    H += size * np.outer(shares, shares) + FLAT * size * np.eye(len(price))
    step = np.zeros(len(g))
    if size > 0.0:
        step[used] = -np.linalg.solve(H, slope)
    return step


def _norm(form: Form, tops: Array) -> tuple[float, Array, Array, float]:
    """Return N with its first and second derivatives at the prices of functions (S,), and c."""
    S = len(tops)
    mean = form.mean
    if mean is None:
        return float(tops.sum()), np.ones(S), np.zeros((S, S)), 0.0
    q = mean.exponent / (mean.exponent - 1.0)
    # a price of zero has a slope that is infinite for some means, and does not move
    tops = np.maximum(tops, LEAST * float(tops.max()))
    size = float(power_mean(tops, q))
    shares = tops / size
    first = shares ** (q - 1.0)
    second = (q - 1.0) / size * (np.diag(shares ** (q - 2.0)) - np.outer(first, first) / S)
    return S * size, first, second, float(mean.of_misses)


def descended(space: Space, oracle: CountingOracle, *, matrix: bool) -> tuple[Array, Array] | None:
    """Return the dual point (d,) of the least bound, and its answer (d,); None if the limits cannot be kept.

    The ``oracle`` is exact and is asked for a batch of gains in every step, with whole matrices if ``matrix`` is true.
    """
    form = space.form
    g = first_prices(space)
    sizes = space.row_sizes()
    n_tops = form.n_tops + form.ratio

    def least(duals: Array) -> tuple[Array, Array, float]:
        """Return the dual point of the least bound, its answer and the bound; of a ratio the level is its root."""
        z = space.vectors(oracle.maximize(space.gains(duals), matrix=matrix))
        heights = (duals * z).sum(axis=1)
        bound_there = roots(form, duals, z) if form.ratio else Program().bounds(space, duals, heights, z)
        k = int(np.argmin(bound_there))
        return duals[k], z[k], float(bound_there[k])

    g, z, bound = least(g[None])
    for _ in range(NEWTON_STEPS):
        if form.ratio:
            g = g.copy()
            g[form.n_tops] = -bound * g[0]
        step = log_step(form, g, z, slope_of_answers(space, oracle, g, matrix=matrix))
        best, answer, bound_there = least(g * np.exp(np.clip(LENGTHS[:, None] * step, -LONGEST, LONGEST)))
        gained = bound - bound_there
        if gained <= 0.0 and not form.ratio:
            # rows that are copies of each other have kinks, across which no step leads
            return g, z
        g = best
        z = answer
        bound = bound_there
        worth = g * sizes
        if not np.isfinite(bound) or worth[n_tops:].max(initial=0.0) > DEAREST * worth[:n_tops].max():
            return None
        if abs(gained) < PROGRESS:
            return g, z
    return None


def slope_of_answers(space: Space, oracle: CountingOracle, g: Array, *, matrix: bool) -> Array:
    """Return how answers change with the prices at g (d,), a matrix (d, d), from the rows of a small table.

    It is the second derivative of the support function.
    """
    known = oracle.table.density_of_ties(space.gains(np.eye(len(g))), g)
    if known is not None:
        return known
    # of gains and tables of which this is not known, each price is moved in turn
    places = np.flatnonzero(np.abs(g) > BINDS * np.abs(g).max())
    # a small price by as much as others, or few rows would change
    steps = MOVED * np.sign(g[places]) * np.maximum(np.abs(g[places]), np.median(np.abs(g[places])))
    moved = np.repeat(g[None], len(places) + 1, axis=0)
    moved[np.arange(len(places)), places] += steps
    z = space.vectors(oracle.maximize(space.gains(moved), matrix=matrix))
    B = np.zeros((len(g), len(g)))
    B[places] = (z[:-1] - z[-1]) / steps[:, None]
    moving = np.ix_(places, places)
    both = np.zeros_like(B)
    both[moving] = 0.5 * (B[moving] + B[moving].T)
    return both
