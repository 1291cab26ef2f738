"""Which gains share a pass within limits: points of the master's central path, Newton's step, and what lies around.

The corner that solves the master's program is asked for, and points of the path to it whose gap is a part of the gap
between bound and value. Newton's step solves the conditions of optimality: the answer meets every limit that binds, the
prices are the slopes of a mean at it, the prices of several functions make these equal, and the excess of a ratio is
zero. It needs the second derivative of the support function, which earlier answers give (`optimize/query.py`). On
small tables this function is all kinks, and many gains in random directions find the rules that meet there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Gains
from confmax.optimize.descent import BINDS, LONGEST, bounds, free_prices, log_step
from confmax.optimize.masters.protocol import Optimum
from confmax.optimize.points import Form
from confmax.optimize.query import LARGEST, DualQueries, directions, second_derivative

Mask = NDArray[np.bool_]

PARTS = (3.0, 1.0, 0.5, 0.3, 0.2, 0.1, 0.06, 0.03, 0.01, 0.003)  # of the gap, at which the path is asked for
FEW_PARTS = (1.0, 0.3, 0.1, 0.03)  # on tables where a gain costs much
TOWARD = (0.5, 0.2)  # how far from the best dual point to the newest
NEWTON = (1.0, 0.5)  # and how far along Newton's step
SMALLEST = 1e-12  # of a price
NARROW, WIDE, FARTHEST = 0.02, 0.7, 6.0  # how far to look around a price, on a log scale
SHRINKS, GROWS = 0.1, 10.0  # what a step multiplies a price by, at least and at most
MOST_AROUND, LEAST_AROUND = 128, 4
LIFT = 0.02  # of the prices on a sample: the least of a limit that is near
FIRST_WEIGHTS, FIRST_OFFSETS = 1.0, 0.1  # how far the first gains lie from argmax: of weights on a log scale
NARROWEST, STEPPED = 2.5e-3, 0.1  # how near and how far to look around a price that a step of Newton has moved,
BESIDE = 0.4  # by this part of its move
NEAR_LENGTHS = np.array([1.0, 0.6, 0.2])  # of such a step
SLACK = -0.75  # step on a log scale of a price that is none
DROPS = 6  # how often limits are dropped from such a step
CELLS = 6_000_000  # of the table, times gains around: about what a pass without them costs


def breadth(n_rows: int, n_classes: int) -> int:
    """Return how many gains around the best to ask for on a table: on a small one they cost next to nothing."""
    return int(np.clip(CELLS // max(n_rows * n_classes, 1), LEAST_AROUND, MOST_AROUND))


def first_gains(n_rows: int, n_classes: int, n_decisions: int) -> Gains | None:
    """Return gains in all directions around argmax, which share the first pass over a small table; None for others.

    Limits may bind anywhere: the first prices of a master follow from rules on all sides.
    """
    around = breadth(n_rows, n_classes)
    if around == LEAST_AROUND:
        return None
    rng = np.random.default_rng(n_classes)
    width = (0.5 ** (np.arange(around) % 4))[:, None]
    a = np.exp(FIRST_WEIGHTS * width * rng.standard_normal((around, n_classes)))
    b = FIRST_OFFSETS * width * rng.standard_normal((around, n_decisions))
    # a decision that is none of the classes, such as abstaining, has no weight
    b[:, n_classes:] = rng.uniform(-1.0, 1.0, (around, n_decisions - n_classes))
    return Gains(a, b)


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
    gaps, newest = optimum.gaps, optimum.gain
    assert gaps is not None
    # before the first pass there is no bound, and the whole path is asked for
    wide, gap = not np.isfinite(gap), min(gap, float(gaps.max()))
    best = normalised(form, best, newest)
    within = [best + t * (newest - best) for t in TOWARD]
    newton = newton_step(form, asked, best, optimum)
    steps = [] if newton is None else [_moved(form, best, newton, t) for t in NEWTON]
    # within limits the master's newest prices count as much as what is predicted
    centres = [within[-1], steps[0] if steps else within[-1], *([newest] if form.n_limits else [])]
    far = np.abs(np.log(_size(centres[1]) / _size(newest)))
    width = np.full(len(best), FARTHEST) if wide else np.clip(far, NARROW, WIDE)
    if form.ratio:
        # the level is no price
        width[form.n_tops] = 0.0
    turn = np.arange(around)
    moves = directions(len(best), around, seed) * (0.5 ** (1 + turn // len(centres) % 4))[:, None] * width
    near = np.array(centres)[turn % len(centres)] * np.exp(moves)
    path = _on_path(optimum, gap, around)
    return np.concatenate([newest[None], path, within, *([steps] if steps else []), near])


def _on_path(optimum: Optimum, gap: float, around: int) -> Array:
    """Return the points of the path whose gaps are nearest to the parts of a ``gap``."""
    assert optimum.path is not None and optimum.gaps is not None
    parts = np.array(PARTS if around > LEAST_AROUND else FEW_PARTS) * max(gap, SMALLEST)
    nearest = np.abs(np.log(np.maximum(optimum.gaps, SMALLEST)[:, None] / parts)).argmin(axis=0)
    return optimum.path[np.unique(nearest)]


def normalised(form: Form, point: Array, newest: Array) -> Array:
    """Return a dual point of the length of the ``newest``: points that are compared get one length."""
    if form.has_slopes:
        return point * (float(np.abs(newest).sum()) / max(float(np.abs(point).sum()), SMALLEST))
    total = float(point[: form.n_tops].sum())
    return point / total if total > 0.0 else newest


def _size(point: Array) -> Array:
    return np.maximum(np.abs(point), SMALLEST)


def _moved(form: Form, best: Array, end: Array, t: float) -> Array:
    """Return the point at ``t`` of the way to ``end``, with prices and multipliers that stay positive."""
    moved = best + t * (end - best)
    least, most = np.maximum(SHRINKS * best, 0.0), np.where(best > 0.0, GROWS * best, np.inf)
    if form.ratio:
        least[form.n_tops], most[form.n_tops] = -np.inf, np.inf
    return np.clip(moved, least, most)


def climbing_gains(
    form: Form, optimum: Optimum, best: Array, curved: Array, asked: DualQueries, seed: int, around: int
) -> Array:
    """Return the dual points (B, d) to ask for where the master only climbs: `path_gains` for a sum of ratios.

    The points of the path share the gradient at the ``optimum`` and differ in the multipliers. Newton's step moves both
    (`slopes_step`). ``curved`` (S, S) is the second derivative of the objective.
    """
    gaps, newest = optimum.gaps, optimum.gain
    assert gaps is not None
    best = normalised(form, best, newest)
    newton = slopes_step(form, asked, best, optimum, curved)
    steps = [] if newton is None else [best + t * (newton - best) for t in NEWTON]
    # prices keep their signs
    signs = np.sign(newest)
    signs[form.n_tops :] = 1.0
    steps = [signs * np.maximum(signs * step, SHRINKS * np.abs(best)) for step in steps]
    centres = np.array([newest, steps[0] if steps else newest])
    far = np.abs(np.log(_size(centres[1]) / _size(best)))
    width = np.full(len(best), WIDE) if not steps else np.clip(far, NARROW, WIDE)
    turn = np.arange(around)
    moves = directions(len(best), around, seed) * (0.5 ** (1 + turn // 2 % 6))[:, None] * width
    near = centres[turn % 2] * np.exp(moves)
    path = _on_path(optimum, float(gaps[0]), around)
    return np.concatenate([newest[None], path, *([steps] if steps else []), near])


def slopes_step(form: Form, asked: DualQueries, best: Array, optimum: Optimum, curved: Array) -> Array | None:
    """Return the dual point whose predicted answer has it as its gradient and just keeps the limits that bind."""
    if len(best) > LARGEST or len(asked.gains) == 0:
        return None
    known = second_derivative(asked, best)
    if known is None:
        return None
    (B, answer), S, d, newest = known, form.n_tops, len(best), optimum.gain
    system, right = B.copy(), B @ best - answer
    system[:S] = np.eye(S, d) - curved @ B[:S]
    right[:S] = newest[:S] - curved @ (right[:S] + optimum.point[:S])
    prices = np.arange(d) >= S
    binding = np.maximum(np.abs(newest), np.abs(best)) > BINDS * float(np.abs(newest[S:]).max(initial=0.0))
    return _solved(system, right, prices, prices & ~binding, newest, newest)


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
    # of an entry that a sample says nothing of no derivative is known
    idle = ~active | ~B.any(axis=1)
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
    if form.mean is not None or S == 1:
        system[d, d] = 1.0
    prices = np.ones(d, dtype=bool)
    prices[: S + form.ratio] = not (form.mean is not None or S == 1)
    return _solved(system, right, prices, idle, newest, SHRINKS * best)


def _solved(system: Array, right: Array, prices: Mask, idle: Mask, held: Array, little: Array) -> Array | None:
    """Return the solution of a step's equations without negative prices; None if there is none.

    Parameters
    ----------
    system, right : ndarray (e, e), ndarray (e,)
        One row per entry of the dual point (d), and further ones.
    prices : ndarray of bool (d,)
        Entries that must not be negative.
    idle : ndarray of bool (d,)
        Entries that do not bind: they are ``held`` (d,).
    little : ndarray (d,)
        What takes the place of a price that would be negative, because its limit does not bind.
    """
    d, e = len(prices), len(right)
    for _ in range(DROPS):
        matrix, wanted = system.copy(), right.copy()
        matrix[:d][idle], wanted[:d][idle] = np.eye(d, e)[idle], held[idle]
        scale = np.maximum(np.abs(matrix).max(axis=1), SMALLEST)
        try:
            g = np.asarray(np.linalg.solve(matrix / scale[:, None], wanted / scale)[:d])
        except np.linalg.LinAlgError:
            return None
        if not np.isfinite(g).all():
            return None
        dropped = prices & ~idle & (g < 0.0)
        if not dropped.any():
            break
        idle, held = idle | dropped, np.where(dropped, little, held)
    return g


def lifted(form: Form, gain: Array, z: Array, reach: Array) -> Array:
    """Return a dual point with a price for every limit that its answer z (d,) keeps by less than ``reach`` (d,) alone.

    Such a limit may bind on all rows if it almost binds on a sample.
    """
    limits = np.arange(len(gain)) >= len(gain) - form.n_limits
    near = limits & (z < reach)
    binding = near & _counts(gain)
    if not binding.any():
        return np.where(limits, 0.0, gain)
    least = LIFT * float(np.median(gain[binding]))
    return np.where(limits, np.where(near, np.maximum(gain, least), 0.0), gain)


def _counts(gain: Array) -> Mask:
    return np.abs(gain) > BINDS * np.abs(gain).max()


def near_gains(form: Form, best: Array, newest: Array, asked: DualQueries, seed: int, *, first: bool) -> Array:
    """Return the dual points (B, d) to ask for where a sample of the rows has shown about where the optimum is.

    The best mixture draws between rules on all sides of the optimum, so gains around it are asked for, one more than
    prices and multipliers that count. The ``first`` ones lie around the optimum of the sample, further ones around
    Newton's step (`log_step`).
    """
    best = normalised(form, best, best)
    # a mean loses nothing to first order where recalls are a little off, but limits must be kept
    around = free_prices(form, len(best)) & ((np.arange(len(best)) >= form.n_tops) | (form.mean is None))
    places = np.flatnonzero(around & _counts(best))
    centres, width = best[None], np.full(len(places), NARROW)
    known = None if first or len(best) > LARGEST else second_derivative(asked, best)
    if known is not None:
        B, answer = known
        step = np.clip(log_step(form, best, answer, B), -LONGEST, LONGEST)
        # a limit that does not bind: the step in the prices themselves would end far below zero
        step[step < SLACK] = -LONGEST
        centres = best * np.exp(NEAR_LENGTHS[:, None] * step)
        if form.ratio:
            centres[:, form.n_tops] = -float(bounds(form, best[None], answer[None])[0]) * best[0]
        width = np.clip(BESIDE * np.abs(step[places]), NARROWEST, STEPPED)
    r = len(places)
    corners = directions(r, r, seed) if r else np.zeros((0, 0))
    corners = np.concatenate([corners, -corners.sum(axis=0, keepdims=True) / np.sqrt(max(r, 1))])
    moved = np.repeat(centres[:1], r + 1, axis=0)
    moved[:, places] *= np.exp(corners * width)
    return np.concatenate([centres, moved, newest[None]])
