"""Which gains share a pass within limits: points of the master's central path, Newton's step, and what lies around.

The corner that solves the master's program is asked for, and points of the path to it whose gap is a part of the gap
between bound and value. Newton's step solves the conditions of optimality: the answer meets every limit that binds, the
prices are the slopes of a mean at it, the prices of several functions make these equal, and the excess of a ratio is
zero. It needs the second derivative of the support function, which earlier answers give (`optimize/query.py`). On
small tables this function is all kinks, and many gains in random directions find the rules that meet there.
"""

from __future__ import annotations

import numpy as np

from confmax.confusion import Array
from confmax.optimize.masters.protocol import Optimum
from confmax.optimize.points import Form
from confmax.optimize.query import LARGEST, DualQueries, directions, second_derivative

PARTS = (3.0, 1.0, 0.5, 0.3, 0.2, 0.1, 0.06, 0.03, 0.01, 0.003)  # of the gap, at which the path is asked for
FEW_PARTS = (1.0, 0.3, 0.1, 0.03)  # on tables where a gain costs much
TOWARD = (0.5, 0.2)  # how far from the best dual point to the newest
NEWTON = (1.0, 0.5)  # and how far along Newton's step
BINDS = 1e-6  # multipliers and prices that are smaller, relative to the largest, count as zero
SMALLEST = 1e-12  # of a price
NARROW, WIDE, FARTHEST = 0.02, 0.7, 6.0  # how far to look around a price, on a log scale
SHRINKS = 0.1  # the least part of a price that is left by a step
MOST_AROUND, LEAST_AROUND = 96, 4
CELLS = 4_000_000  # of the table, times gains around: about what a pass without them costs


def breadth(n_rows: int, n_classes: int) -> int:
    """Return how many gains around the best to ask for on a table: on a small one they cost next to nothing."""
    return int(np.clip(CELLS // max(n_rows * n_classes, 1), LEAST_AROUND, MOST_AROUND))


def path_gains(
    form: Form, optimum: Optimum, best: Array, gap: float, asked: DualQueries, seed: int, around: int
) -> Array:
    """Return the dual points (B, d) to ask for, the newest first.

    Parameters
    ----------
    form : Form
        How dual points are laid out.
    optimum : Optimum
        The master's solution, with the path to it.
    best : ndarray (d,)
        The dual point of the best bound.
    gap : float
        Between bound and value.
    asked : DualQueries
        Gains asked so far with their answers.
    seed : int
        Of the directions.
    around : int
        How many gains in random directions to ask for.
    """
    path, gaps, newest = optimum.path, optimum.gaps, optimum.gain
    assert path is not None and gaps is not None
    # before the first pass there is no bound, and the whole path is asked for
    wide, gap = not np.isfinite(gap), min(gap, float(gaps.max()))
    parts = np.array(PARTS if around > LEAST_AROUND else FEW_PARTS) * max(gap, SMALLEST)
    nearest = np.abs(np.log(np.maximum(gaps, SMALLEST)[:, None] / parts)).argmin(axis=0)
    best = normalised(form, best, newest)
    within = [best + t * (newest - best) for t in TOWARD]
    newton = newton_step(form, asked, best, optimum)
    steps = [] if newton is None else [_moved(form, best, newton, t) for t in NEWTON]
    centres = [within[-1], steps[0] if steps else within[-1]]
    far = np.abs(np.log(_size(centres[1]) / _size(newest)))
    width = np.full(len(best), FARTHEST) if wide else np.clip(far, NARROW, WIDE)
    if form.ratio:
        # the level is no price
        width[form.n_tops] = 0.0
    turn = np.arange(around)
    moves = directions(len(best), around, seed) * (0.5 ** (1 + turn // 2 % 4))[:, None] * width
    near = np.array(centres)[turn % 2] * np.exp(moves)
    return np.concatenate([newest[None], path[np.unique(nearest)], within, *([steps] if steps else []), near])


def normalised(form: Form, point: Array, newest: Array) -> Array:
    """Return a dual point of the length of the ``newest``: points that are compared get one length."""
    if form.mean is not None:
        return point * (float(np.abs(newest).sum()) / max(float(np.abs(point).sum()), SMALLEST))
    total = float(point[: form.n_tops].sum())
    return point / total if total > 0.0 else newest


def _size(point: Array) -> Array:
    return np.maximum(np.abs(point), SMALLEST)


def _moved(form: Form, best: Array, end: Array, t: float) -> Array:
    """Return the point at ``t`` of the way to ``end``, with prices and multipliers that stay positive."""
    moved = best + t * (end - best)
    least = np.maximum(SHRINKS * best, 0.0)
    if form.ratio:
        least[form.n_tops] = -np.inf
    return np.maximum(moved, least)


def newton_step(
    form: Form, asked: DualQueries, best: Array, optimum: Optimum, kept: Array | float = 0.0
) -> Array | None:
    """Return the dual point at which the predicted answer meets the conditions of optimality; None if unknown.

    It is computed from ``best``. Limits that bind are met with the slacks ``kept`` (m,).
    """
    if len(best) > LARGEST or len(asked.gains) == 0:
        return None
    known = second_derivative(asked, best)
    if known is None:
        return None
    B, answer = known
    newest, S, d = optimum.gain, form.n_tops, len(best)
    active = np.maximum(np.abs(newest), np.abs(best)) > BINDS * float(np.abs(newest).max())
    # a row per coordinate: of the answer ``answer + B (g - best)``, or for what does not bind, of the gain itself
    system, right = np.zeros((d + 1, d + 1)), np.zeros(d + 1)
    system[:d, :d], right[:d] = B, B @ best - answer
    right[d - form.n_limits : d] += kept
    idle = ~active
    idle[:S] &= form.mean is None
    if form.ratio:
        idle[S] = False
        # the excess is zero, and its derivative is the answer
        system[S, :d], right[S] = answer, 0.0
    if form.mean is not None:
        recalls = optimum.point[:S]
        unit = newest[0] / form.mean.slope(recalls)[0]
        wanted, power = form.mean.inverse(newest[:S] / unit)
        bend = abs(power) * wanted / newest[:S]
        system[range(S), range(S)] += bend
        right[:S] += recalls + bend * newest[:S]
    elif S == 1:
        system[0], right[0] = np.eye(d + 1)[0], 1.0
    else:
        # the functions with a price have one value, and the prices sum to one
        system[:S, d] = -1.0
        system[d, :S], right[d] = 1.0, 1.0
    system[:d][idle] = np.eye(d, d + 1)[idle]
    right[:d][idle] = newest[idle]
    if form.mean is not None or S == 1:
        system[d, d] = 1.0
    scale = np.abs(system).max(axis=1)
    try:
        g = np.linalg.solve(system / scale[:, None], right / scale)[:d]
    except np.linalg.LinAlgError:
        return None
    return np.asarray(g) if np.isfinite(g).all() else None
