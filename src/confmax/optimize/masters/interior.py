"""The interior-point method of the masters: the best mixture of rules, within limits or without.

It mixes A rules by weights w. A linear function, a ratio, the smallest of several functions (the "tops"), or a sum of
concave functions of them is maximised with ``w @ slack >= 0``. The top of a ratio is its numerator, and its bottom the
denominator: ``w @ bottom = 1`` makes the ratio linear (Charnes and Cooper, 1962). Else the bottom is one. The dual
point holds prices of the tops, multipliers of the limits and a level, with ``prices @ tops_a + multipliers @ slack_a <=
level bottom_a`` for every rule a. The prices of several tops sum to one; those of a sum are its derivatives.

The sums are the means of recalls, and minus half the sum of squares: the mixture of least norm solves the quadratic
model of a Newton step.

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
from confmax.optimize.rounding import BINDS, NEGLIGIBLE, NEWTON_STEPS, SINGLE, SINGULAR, SOLVED, TINIEST

LEAST_CENTRED = 0.15  # part of the mean complementarity that a step aims at, at least
BACK = 0.95  # part of the way to the boundary that a step may take
# complementarity of a solution
CLOSED = SINGULAR
# residuals of a solution, and of a point of the path
MET = SOLVED
NEARLY_MET = SINGLE
INSIDE = 1e-3  # recalls at which a mean begins lie so far from zero and one


@dataclass(frozen=True)
class Sum:
    """A sum of one concave function of every top v: a mean of recalls, or minus half the sum of squares.

    The price of a top is the derivative y of its function. ``kind`` is its number in the kernel.
    """

    mean: PowerMean | None = None

    @property
    def kind(self) -> int:
        """1 for a mean of recalls, 2 for one of misses, 3 for squares; only squares have free signs."""
        if self.mean is None:
            return 3
        return 2 if self.mean.of_misses else 1

    @property
    def power(self) -> float:
        """The tops are prices to this power, or minus the prices of squares."""
        return 1.0 if self.mean is None else 1.0 / (self.mean.exponent - 1.0)

    @property
    def sign(self) -> float:
        """Minus one where v is not a top but what it misses of one."""
        return -1.0 if self.kind == 2 else 1.0

    def prices(self, tops: Array) -> Array:
        """Return the derivatives at ``tops`` (S,), of a mean a little inside."""
        return -tops if self.mean is None else self.mean.slope(np.clip(tops, INSIDE, 1.0 - INSIDE))

    def at(self, y: Array) -> Array:
        """Return v (S,) at prices y (S,)."""
        return -y if self.mean is None else y**self.power

    def linearised(self, y: Array, v: Array) -> tuple[Array, Array, Array]:
        """Return how far v is from where prices y ask for it, the step of v for this, and by how much v falls with y.

        A recall is a power of its price: the equation of their logarithms holds far from the solution too.
        """
        if self.mean is None:
            return -y - v, -y - v, np.ones_like(v)
        apart = np.log(self.at(y) / v)
        return apart, v * apart, abs(self.power) * v / y


SQUARES = Sum()


def least_norm(points: Array, slack: Array) -> Array:
    """Return weights (A,), in the simplex, that minimise ``|w @ points|`` with ``w @ slack >= 0``.

    The points are (A, r), and slacks (A, m) which some weights meet may have no column.
    """
    if points.shape[1] > points.shape[0]:
        # norms of mixtures stay as they are, and the method takes the cube of the dimensions
        points = np.linalg.qr(points.T)[1].T
    largest = np.sqrt(np.square(points).sum(axis=1).max())
    weights = central_path(points / max(largest, TINIEST), np.ones(len(points)), slack, SQUARES)[0]
    return without_traces(weights)


def without_traces(weights: Array) -> Array:
    """Return weights (A,) in the simplex without what an interior point leaves on the other rules."""
    weights = np.where(weights > NEGLIGIBLE * weights.sum(), weights, 0.0)
    return np.asarray(weights / weights.sum())


def solve(form: Form, z: Array) -> Optimum:
    """Return the best mixture of rules z (A, d + m), whose entries have this ``form``."""
    S = form.n_tops
    m = form.n_limits
    bottom = z[:, S] if form.ratio else np.ones(len(z))
    tops = z[:, :S]
    slack = z[:, z.shape[1] - m :]
    weights, duals, gaps = central_path(tops, bottom, slack, None if form.mean is None else Sum(form.mean))
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


def central_path(tops: Array, bottom: Array, slack: Array, of: Sum | None = None) -> tuple[Array, Array, Array]:
    """Solve the program of A rules by a primal-dual method.

    The smallest of the tops (A, S), or a sum ``of`` functions of them, is maximised. Weights are scaled by bottoms
    (A,), and some meet the limits of slacks (A, m). Returned are the weights (A,) with ``weights @ bottom = 1``, points
    (N, S + m + 1) of the central path with prices, multipliers and level, the last of which is the solution, and how
    far these are from it (N,), in the unit of the objective.
    """
    S = tops.shape[1]
    q = tops.shape[1] + slack.shape[1]
    # the score of a rare class has a small numerator and a small denominator; the tops of a sum have one size already
    top = 1.0 if of is not None else max(float(np.abs(tops).max()), TINIEST)
    low = float(np.abs(bottom).max())
    rows = np.ascontiguousarray(np.hstack([-tops / top, -slack, bottom[:, None] / low]))
    at = _start(rows, of, S)
    # a sum has its prices from its derivatives: only multipliers can be zero, and nothing sums to one
    free = slice(0 if of is None else S, q)
    if kernels.native is None:
        duals, gaps = _path(at, rows, free, S, of)
    else:
        place = np.empty((NEWTON_STEPS, q + 1))
        sizes = np.empty(NEWTON_STEPS)
        kind, power = (0, 0.0) if of is None else (of.kind, of.power)
        n = kernels.native.central_path(rows, at.y, at.u, at.w, at.s, at.v, S, kind, power, place, sizes)
        duals = list(place[:n])
        gaps = sizes[:n].tolist()
    if not duals:
        duals = [at.y]
        gaps = [float(at.w @ at.u + at.s @ at.y[free])]
    unit = np.concatenate([np.ones(S), np.full(q - S, top), [top / low]])
    return at.w / low, np.array(duals) * unit, np.array(gaps) * (top / low)


@dataclass(eq=False)
class _Iterate:
    """Dual point y (prices, multipliers, level) with the slack u of every rule; weights w, and slack s of rows.

    Of a sum also v (S,).
    """

    y: Array
    u: Array
    w: Array
    s: Array
    v: Array
    theta: float = 0.0


def _start(rows: Array, of: Sum | None, S: int) -> _Iterate:
    """Return a dual point far inside, and equal weights, with complementarities of one size."""
    A = len(rows)
    q = rows.shape[1] - 1
    bottom = rows[:, -1]
    prices = np.full(S, 1.0 / S) if of is None else of.prices(-rows[:, :S].mean(axis=0))
    # the slack of a rare decision is small, and its multiplier large
    sizes = np.abs(rows[:, S:q])
    s = np.maximum(np.partition(sizes, A // 2, axis=0)[A // 2], BINDS * sizes.max(axis=0, initial=BINDS))
    y = np.concatenate([prices, 1.0 / (A * s), [0.0]])
    with np.errstate(divide="ignore", invalid="ignore"):
        levels = -(rows @ y) / bottom
    y[-1] = float(np.max(levels[np.isfinite(levels)], initial=0.0)) + 1.0
    w = np.full(A, 1.0 / max(float(np.abs(bottom).sum()), TINIEST))
    v = np.zeros(0)
    if of is None:
        s = np.concatenate([np.ones(S), s])
    else:
        v = of.at(prices)
    return _Iterate(y, np.maximum(rows @ y, 1.0), w, s, v)


def _path(at: _Iterate, rows: Array, free: slice, S: int, of: Sum | None) -> tuple[list[Array], list[float]]:
    """Follow the central path from an iterate, which becomes the solution; return its points and their gaps."""
    q = len(at.y) - 1
    summed = np.zeros(q + 1)
    summed[: S if of is None else 0] = 1.0
    duals = []
    gaps = []
    least = np.inf
    for _ in range(NEWTON_STEPS):
        gap = float(at.w @ at.u + at.s @ at.y[free])
        away = rows @ at.y - at.u
        tilt = -rows.T @ at.w - at.theta * summed
        tilt[-1] += 1.0
        tilt[free] -= at.s
        if of is not None:
            tilt[:S] -= 1.0 - at.v if of.sign < 0.0 else at.v
            apart = float(np.abs(of.linearised(at.y[:S], at.v)[0]).max())
        else:
            apart = abs(1.0 - float(summed @ at.y))
        if np.abs(away).max() < NEARLY_MET and (of is not None or apart < NEARLY_MET):
            duals.append(at.y.copy())
            gaps.append(gap)
        unmet = max(float(np.abs(away).max()), float(np.abs(tilt).max()), apart)
        if gap <= CLOSED and (unmet < MET or unmet >= least):
            break
        least = min(least, unmet)
        if not _advance(at, rows, free, summed, away, tilt, of):
            break
    return duals, gaps


def _advance(at: _Iterate, rows: Array, free: slice, summed: Array, away: Array, tilt: Array, of: Sum | None) -> bool:
    """Take a predictor-corrector step (Mehrotra, 1992) on the conditions of optimality; False where there is none."""
    q = len(at.y) - 1
    S = len(at.v)
    n = len(rows) + len(at.s)
    # squares and their prices may be negative
    positive = slice(S if of is not None and of.mean is None else 0, q)
    system = np.zeros((q + 2, q + 2))
    system[:-1, :-1] = (rows.T * (at.w / at.u)) @ rows
    diagonal = np.zeros(q + 1)
    diagonal[free] += at.s / at.y[free]
    fixed = np.append(-rows.T @ (at.w * away / at.u) - tilt, 1.0 - float(summed @ at.y))
    off = np.zeros(0)
    falls = np.zeros(0)
    if of is not None:
        _, off, falls = of.linearised(at.y[:S], at.v)
        diagonal[:S] += falls
        fixed[:S] += of.sign * off
        falls = of.sign * falls
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
        return (
            dy,
            du,
            (first - at.w * du) / at.u,
            (second - at.s * dy[free]) / at.y[free],
            off - falls * dy[:S],
            moves[-1:],
        )

    def steps(dy: Array, du: Array, dw: Array, ds: Array, dv: Array, _: Array) -> tuple[float, float]:
        v = at.v[positive.start :]
        primal = longest(np.concatenate([at.w, at.s, v]), np.concatenate([dw, ds, dv[positive.start :]]))
        dual = longest(np.concatenate([at.u, at.y[positive]]), np.concatenate([du, dy[positive]]))
        return (primal, dual) if of is None else (min(primal, dual),) * 2

    gap = float(at.w @ at.u + at.s @ at.y[free])
    try:
        first = direction(-at.w * at.u, -at.s * at.y[free])
    except np.linalg.LinAlgError:
        return False
    primal, dual = steps(*first)
    dy, du, dw, ds = first[:4]
    left = float((at.w + primal * dw) @ (at.u + dual * du) + (at.s + primal * ds) @ (at.y + dual * dy)[free])
    aim = centred(left, gap, n)
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


def centred(left: float, gap: float, n: int, least: float = LEAST_CENTRED) -> float:
    """Return what a step makes of each of n products whose sum is a ``gap``, if a first one leaves so much of it."""
    return max(least, min(1.0, left / gap) ** 3) * gap / n


def longest(values: Array, changes: Array) -> float:
    """Return the step, at most one, that keeps ``values`` positive."""
    falling = changes < 0.0
    return min(1.0, BACK * float((-values[falling] / changes[falling]).min(initial=np.inf)))
