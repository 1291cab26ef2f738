"""An interior-point method for the mixture of rules that is best within limits, or has the largest smallest recall.

It mixes A rules by weights w: a linear function, a ratio, the smallest of several functions (the "tops"), or a mean of
the recalls is maximised with ``w @ slack >= 0``. The top of a ratio is its numerator, and its bottom the denominator:
``w @ bottom = 1`` makes the ratio linear (Charnes and Cooper, 1962). Else the bottom is one. The dual point holds
prices of the tops, multipliers of the limits and a level, with ``prices @ tops_a + multipliers @ slack_a <= level
bottom_a`` for every rule a. The prices of several tops sum to one; those of a mean are its derivatives.

A corner of the set of dual points moves far with every new rule, and says little of where the optimum lies. The points
of the central path lie between this corner and the centre of all dual points that the rules leave.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from confmax import kernels
from confmax.confusion import Array
from confmax.metrics.structure import PowerMean
from confmax.optimize.masters.protocol import Optimum
from confmax.optimize.points import Form
from confmax.optimize.rounding import NEWTON_STEPS, SINGULAR, TINIEST

LEAST_CENTRED = 0.15  # part of the mean complementarity that a step aims at, at least
BACK = 0.95  # part of the way to the boundary that a step may take
# complementarity of a solution
CLOSED = SINGULAR
# residuals of a solution, and of a point of the path
MET = 1e-10
NEARLY_MET = 1e-7
INSIDE = 1e-3  # recalls at which a mean begins lie so far from zero and one


def solve(form: Form, z: Array) -> Optimum:
    """Return the best mixture of rules z (A, d + m), whose entries have this ``form``."""
    S = form.n_tops
    m = form.n_limits
    bottom = z[:, S] if form.ratio else np.ones(len(z))
    tops = z[:, :S]
    slack = z[:, z.shape[1] - m :]
    weights, duals, gaps = central_path(tops, bottom, slack, form.mean)
    weights = np.maximum(weights, 0.0) / np.maximum(weights, 0.0).sum()
    point = weights @ z
    if form.mean is not None:
        # the path maximises the sum of which the mean is a function
        unit = float(form.mean.partial(point[:S])[0] / form.mean.slope(point[:S])[0])
        duals = duals * unit
        gaps = gaps * unit
    level = -duals[:, -1:] if form.ratio else duals[:, :0]
    path = np.hstack([duals[:, :S], level, duals[:, S:-1]])
    # a price that falls toward zero must not decide rows by its last digits
    path[np.abs(path) < SINGULAR * np.abs(path).max(axis=1, keepdims=True)] = 0.0
    return Optimum(weights, point, value_at(form, point), path[-1], path, gaps)


def value_at(form: Form, point: Array) -> float:
    """Return the objective at a vector (d + m,) whose entries have this ``form``."""
    if form.mean is not None:
        return float(form.mean.value(point[: form.n_tops]))
    if form.ratio:
        # a ratio without a denominator is zero
        return float(point[0] / point[1]) if point[1] else 0.0
    return float(point[: form.n_tops].min())


@dataclass(eq=False)
class _Iterate:
    """Dual point y (prices, multipliers, level) with the slack u of every rule; weights w, and slack s of rows.

    Of a mean also the recalls, or what they miss, at the weights (v).
    """

    y: Array
    u: Array
    w: Array
    s: Array
    v: Array
    theta: float = 0.0


def central_path(tops: Array, bottom: Array, slack: Array, mean: PowerMean | None = None) -> tuple[Array, Array, Array]:
    """Solve the program of A rules by a primal-dual method.

    Parameters
    ----------
    tops : ndarray (A, S)
        The functions whose smallest, or whose ``mean``, is maximised.
    bottom : ndarray (A,)
        What the weights are scaled by.
    slack : ndarray (A, m)
        Slacks of the limits, which some weights meet.
    mean : PowerMean or None
        The mean of the tops that is maximised.

    Returns
    -------
    weights : ndarray (A,)
        With ``weights @ bottom = 1``.
    duals : ndarray (N, S + m + 1)
        Points of the central path: prices, multipliers and level. The last is the solution.
    gaps : ndarray (N,)
        How far these are from the solution, in the unit of the objective.
    """
    S = tops.shape[1]
    q = tops.shape[1] + slack.shape[1]
    # the score of a rare class has a small numerator and a small denominator; recalls have one size already
    top = 1.0 if mean is not None else max(float(np.abs(tops).max()), TINIEST)
    low = float(np.abs(bottom).max())
    rows = np.ascontiguousarray(np.hstack([-tops / top, -slack, bottom[:, None] / low]))
    at = _start(rows, mean, S)
    # a mean has its prices from its derivative: only multipliers can be zero, and nothing sums to one
    free = slice(0 if mean is None else S, q)
    if kernels.native is None:
        duals, gaps = _path(at, rows, free, S, mean)
    else:
        place = np.empty((NEWTON_STEPS, q + 1))
        sizes = np.empty(NEWTON_STEPS)
        kind, power = (0, 0.0) if mean is None else (2 if mean.of_misses else 1, mean.inverse(at.y[:S])[1])
        n = kernels.native.central_path(rows, at.y, at.u, at.w, at.s, at.v, S, kind, power, place, sizes)
        duals = list(place[:n])
        gaps = sizes[:n].tolist()
    if not duals:
        duals = [at.y]
        gaps = [float(at.w @ at.u + at.s @ at.y[free])]
    unit = np.concatenate([np.ones(S), np.full(q - S, top), [top / low]])
    return at.w / low, np.array(duals) * unit, np.array(gaps) * (top / low)


def _path(at: _Iterate, rows: Array, free: slice, S: int, mean: PowerMean | None) -> tuple[list[Array], list[float]]:
    """Follow the central path from an iterate, which becomes the solution; return its points and their gaps."""
    q = len(at.y) - 1
    summed = np.zeros(q + 1)
    summed[: S if mean is None else 0] = 1.0
    duals = []
    gaps = []
    least = np.inf
    for _ in range(NEWTON_STEPS):
        gap = float(at.w @ at.u + at.s @ at.y[free])
        away = rows @ at.y - at.u
        tilt = -rows.T @ at.w - at.theta * summed
        tilt[-1] += 1.0
        tilt[free] -= at.s
        if mean is not None:
            tilt[:S] -= 1.0 - at.v if mean.of_misses else at.v
            apart = float(np.abs(np.log(mean.inverse(at.y[:S])[0] / at.v)).max())
        else:
            apart = abs(1.0 - float(summed @ at.y))
        if np.abs(away).max() < NEARLY_MET and (mean is not None or apart < NEARLY_MET):
            duals.append(at.y.copy())
            gaps.append(gap)
        unmet = max(float(np.abs(away).max()), float(np.abs(tilt).max()), apart)
        if gap <= CLOSED and (unmet < MET or unmet >= least):
            break
        least = min(least, unmet)
        if not _advance(at, rows, free, summed, away, tilt, mean):
            break
    return duals, gaps


def _start(rows: Array, mean: PowerMean | None, S: int) -> _Iterate:
    """Return a dual point far inside, and equal weights, with complementarities of one size."""
    A = len(rows)
    q = rows.shape[1] - 1
    bottom = rows[:, -1]
    middle = np.clip(-rows[:, :S].mean(axis=0), INSIDE, 1.0 - INSIDE)
    prices = np.full(S, 1.0 / S) if mean is None else mean.slope(middle)
    # the slack of a rare decision is small, and its multiplier large
    sizes = np.abs(rows[:, S:q])
    s = np.maximum(np.partition(sizes, A // 2, axis=0)[A // 2], 1e-6 * sizes.max(axis=0, initial=1e-6))
    y = np.concatenate([prices, 1.0 / (A * s), [0.0]])
    with np.errstate(divide="ignore", invalid="ignore"):
        levels = -(rows @ y) / bottom
    y[-1] = float(np.max(levels[np.isfinite(levels)], initial=0.0)) + 1.0
    w = np.full(A, 1.0 / max(float(np.abs(bottom).sum()), TINIEST))
    v = np.zeros(0)
    if mean is None:
        s = np.concatenate([np.ones(S), s])
    else:
        v = mean.inverse(prices)[0]
    return _Iterate(y, np.maximum(rows @ y, 1.0), w, s, v)


def _advance(
    at: _Iterate, rows: Array, free: slice, summed: Array, away: Array, tilt: Array, mean: PowerMean | None
) -> bool:
    """Take a predictor-corrector step (Mehrotra, 1992) on the conditions of optimality; False where there is none."""
    q = len(at.y) - 1
    S = len(at.v)
    n = len(rows) + len(at.s)
    system = np.zeros((q + 2, q + 2))
    system[:-1, :-1] = (rows.T * (at.w / at.u)) @ rows
    diagonal = np.zeros(q + 1)
    diagonal[free] += at.s / at.y[free]
    fixed = np.append(-rows.T @ (at.w * away / at.u) - tilt, 1.0 - float(summed @ at.y))
    off = np.zeros(0)
    power = 0.0
    if mean is not None:
        # the price is a power of v: the equation of their logarithms holds far from the solution too
        wanted, power = mean.inverse(at.y[:S])
        off = at.v * np.log(wanted / at.v)
        diagonal[:S] += abs(power) * at.v / at.y[:S]
        fixed[:S] += -off if mean.of_misses else off
        # no price sums to one, and the last unknown has no part
        system[-1, -1] = 1.0
        fixed[-1] = 0.0
    system[range(q + 1), range(q + 1)] += diagonal
    system[:-1, -1], system[-1, :-1] = -summed, summed

    def direction(first: Array, second: Array) -> tuple[Array, ...]:
        right = fixed.copy()
        right[:-1] += rows.T @ (first / at.u)
        right[free] += second / at.y[free]
        moves = np.linalg.solve(system, right)
        dy = moves[:-1]
        du = rows @ moves[:-1] + away
        dv = off + power * at.v * dy[:S] / at.y[:S]
        return dy, du, (first - at.w * du) / at.u, (second - at.s * dy[free]) / at.y[free], dv, moves[-1:]

    def steps(dy: Array, du: Array, dw: Array, ds: Array, dv: Array, _: Array) -> tuple[float, float]:
        primal = longest(np.concatenate([at.w, at.s, at.v]), np.concatenate([dw, ds, dv]))
        dual = longest(np.concatenate([at.u, at.y[:q]]), np.concatenate([du, dy[:q]]))
        return (primal, dual) if mean is None else (min(primal, dual),) * 2

    gap = float(at.w @ at.u + at.s @ at.y[free])
    try:
        first = direction(-at.w * at.u, -at.s * at.y[free])
    except np.linalg.LinAlgError:
        return False
    primal, dual = steps(*first)
    dy, du, dw, ds = first[:4]
    left = float((at.w + primal * dw) @ (at.u + dual * du) + (at.s + primal * ds) @ (at.y + dual * dy)[free])
    aim = max(LEAST_CENTRED, min(1.0, left / gap) ** 3) * gap / n
    moves = direction(aim - at.w * at.u - dw * du, aim - at.s * at.y[free] - ds * dy[free])
    if not all(np.isfinite(part).all() for part in moves):
        return False
    primal, dual = steps(*moves)
    dy, du, dw, ds, dv, dtheta = moves
    at.w = at.w + primal * dw
    at.s = at.s + primal * ds
    at.v = at.v + primal * dv
    at.theta += primal * float(dtheta[0])
    at.u = at.u + dual * du
    at.y = at.y + dual * dy
    return True


def longest(values: Array, changes: Array) -> float:
    """Return the step, at most one, that keeps ``values`` positive."""
    falling = changes < 0.0
    return min(1.0, BACK * float((-values[falling] / changes[falling]).min(initial=np.inf)))
