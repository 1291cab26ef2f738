"""Which gains share a pass within limits: points of the master's central path, Newton's step, and what lies around.

The corner that solves the master's program is asked for, and points of the path to it whose gap is a part of the gap
between bound and value. Newton's step minimises the bound, in the logarithms of the prices (`optimize/descent.py`). It
needs the second derivative of the support function, which the rows that nearly tie give (`tables/ties.py`), and where
these are not at hand, earlier answers (`optimize/query.py`). On small tables this function is all kinks, and many gains
in random directions find the rules that meet there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Gains
from confmax.optimize.descent import LONGEST, free_prices, log_step, roots
from confmax.optimize.masters.protocol import Optimum
from confmax.optimize.points import Form
from confmax.optimize.query import LARGEST, SHRINKS, WIDTHS, DualQueries, directions, second_derivative
from confmax.optimize.rounding import BINDS, MOVED, NEGLIGIBLE, ROUNDS

Mask = NDArray[np.bool_]

# of the gap, at which the path is asked for: even steps on a log scale, and the few of tables where a gain costs much
PARTS = np.array([3.0, 1.0, 0.5, 0.3, 0.2, 0.1, 0.06, 0.03, 0.01, 0.003])
FEW_PARTS = PARTS[[1, 3, 5, 7]]
TOWARD = (0.5, 0.2)  # how far from the best dual point to the newest
NEWTON = np.array([1.0, 0.5])  # and how far along Newton's step
SMALLEST = NEGLIGIBLE  # of a price
# how far to look around a price, on a log scale
NARROW = 0.02
WIDE = 0.7
FARTHEST = 6.0
# gains in random directions: with 64 at most, 176 problems within limits take 4 % more passes, with 16 they take 15 %
# more, and one ends .04 or .06 lower
MOST_AROUND = 128
LEAST_AROUND = 4
CLIMBING_WIDTHS = 6  # the same as `WIDTHS` where the master only climbs
LIFT = 0.02  # of the prices on a sample: the least of a limit that is near
# how far the first gains lie from argmax: of weights on a log scale
FIRST_WEIGHTS = 1.0
FIRST_OFFSETS = MOVED
# how near and how far to look around a price that a step of Newton has moved,
NARROWEST = 1e-3
STEPPED = MOVED
BESIDE = 0.5  # by this part of its move
NEAR_LENGTHS: Array = 0.5 ** np.arange(3.0)  # of such a step
SLACK = -0.75  # step on a log scale of a price that is none
CELLS = 6_000_000  # of the table, times gains around: about what a pass without them costs


def breadth(n_rows: int, n_classes: int) -> int:
    """Return how many gains around the best to ask for on a table: on a small one they cost next to nothing."""
    return int(np.clip(CELLS // max(n_rows * n_classes, 1), LEAST_AROUND, MOST_AROUND))


def first_gains(n_rows: int, n_classes: int, n_decisions: int) -> Gains | None:
    """Return gains in all directions around argmax, which share the first pass over a small table; None for others.

    Limits may bind anywhere: the first prices of a master follow from rules on all sides. Without them 176 problems
    take 1.2 % more passes, and one ends .036 lower.
    """
    around = breadth(n_rows, n_classes)
    if around == LEAST_AROUND:
        return None
    rng = np.random.default_rng(n_classes)
    width = (0.5 ** (np.arange(around) % WIDTHS))[:, None]
    a = np.exp(FIRST_WEIGHTS * width * rng.standard_normal((around, n_classes)))
    b = FIRST_OFFSETS * width * rng.standard_normal((around, n_decisions))
    # a decision that is none of the classes, such as abstaining, has no weight
    b[:, n_classes:] = rng.uniform(-1.0, 1.0, (around, n_decisions - n_classes))
    return Gains(a, b)


def path_gains(
    form: Form, optimum: Optimum, best: Array, gap: float, queries: DualQueries, seed: int, around: int
) -> Array:
    """Return the dual points (B, d) to ask for, the newest first.

    They lie on the path to the master's solution ``optimum``, on Newton's step from the dual point of the best bound
    ``best`` (d,), which earlier ``queries`` give, and in ``around`` random directions of a ``seed``. The ``gap`` is
    that between bound and value.
    """
    gaps = optimum.gaps
    newest = optimum.gain
    # before the first pass there is no bound, and the whole path is asked for
    wide = not np.isfinite(gap)
    gap = min(gap, float(gaps.max()))
    best = normalised(form, best, newest)
    within = [best + t * (newest - best) for t in TOWARD]
    steps = _along_step(form, queries, best, NEWTON)
    # within limits the master's newest prices count as much as what is predicted
    centres = [within[-1], steps[0] if len(steps) else within[-1], *([newest] if form.n_limits else [])]
    far = np.abs(np.log(_size(centres[1]) / _size(newest)))
    width = np.full(len(best), FARTHEST) if wide else np.clip(far, NARROW, WIDE)
    if form.ratio:
        # the level is no price
        width[form.n_tops] = 0.0
    turn = np.arange(around)
    moves = directions(len(best), around, seed) * (0.5 ** (1 + turn // len(centres) % WIDTHS))[:, None] * width
    near = np.array(centres)[turn % len(centres)] * np.exp(moves)
    path = _on_path(optimum, gap, around)
    return np.concatenate([newest[None], path, within, steps, near])


def _on_path(optimum: Optimum, gap: float, around: int) -> Array:
    """Return the points of the path whose gaps are nearest to the parts of a ``gap``."""
    parts = (PARTS if around > LEAST_AROUND else FEW_PARTS) * max(gap, SMALLEST)
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


def _along_step(form: Form, queries: DualQueries, best: Array, lengths: Array) -> Array:
    """Return the points (B, d) at ``lengths`` (B,) of Newton's step from ``best`` (`log_step`); none if it is unknown.

    The level of a ratio is at the root that the step starts from.
    """
    none = np.zeros((0, len(best)))
    # prices of limits alone say nothing of the objective
    if len(best) > LARGEST or not len(queries.gains) or not best[: form.n_tops].any():
        return none
    known = second_derivative(queries, best)
    if known is None or (form.ratio and known[1][form.n_tops] <= 0.0):
        return none
    B, answer = known
    step = np.clip(log_step(form, best, answer, B), -LONGEST, LONGEST)
    # a limit that does not bind: the step in the prices themselves would end far below zero
    step[step < SLACK] = -LONGEST
    points = best * np.exp(lengths[:, None] * step)
    if form.ratio:
        points[:, form.n_tops] = -float(roots(form, best[None], answer[None])[0]) * best[0]
    return np.asarray(points)


def climbing_gains(
    form: Form, optimum: Optimum, best: Array, curved: Array, queries: DualQueries, seed: int, around: int
) -> Array:
    """Return the dual points (B, d) to ask for where the master only climbs: `path_gains` for a sum of ratios.

    The points of the path share the gradient at the ``optimum`` and differ in the multipliers. Newton's step moves both
    (`slopes_step`). ``curved`` (S, S) is the second derivative of the objective.
    """
    gaps = optimum.gaps
    newest = optimum.gain
    best = normalised(form, best, newest)
    newton = slopes_step(form, queries, best, optimum, curved)
    steps = [] if newton is None else [best + t * (newton - best) for t in NEWTON]
    # prices keep their signs
    signs = np.sign(newest)
    signs[form.n_tops :] = 1.0
    steps = [signs * np.maximum(signs * step, SHRINKS * np.abs(best)) for step in steps]
    centres = np.array([newest, steps[0] if steps else newest])
    far = np.abs(np.log(_size(centres[1]) / _size(best)))
    width = np.full(len(best), WIDE) if not steps else np.clip(far, NARROW, WIDE)
    turn = np.arange(around)
    moves = directions(len(best), around, seed) * (0.5 ** (1 + turn // 2 % CLIMBING_WIDTHS))[:, None] * width
    near = centres[turn % 2] * np.exp(moves)
    path = _on_path(optimum, float(gaps[0]), around)
    return np.concatenate([newest[None], path, *([steps] if steps else []), near])


def slopes_step(form: Form, queries: DualQueries, best: Array, optimum: Optimum, curved: Array) -> Array | None:
    """Return the dual point whose predicted answer has it as its gradient and just keeps the limits that bind."""
    if len(best) > LARGEST or len(queries.gains) == 0:
        return None
    known = second_derivative(queries, best)
    if known is None:
        return None
    (B, answer) = known
    S = form.n_tops
    d = len(best)
    newest = optimum.gain
    system = B.copy()
    right = B @ best - answer
    system[:S] = np.eye(S, d) - curved @ B[:S]
    right[:S] = newest[:S] - curved @ (right[:S] + optimum.point[:S])
    binding = np.maximum(np.abs(newest), np.abs(best)) > BINDS * float(np.abs(newest[S:]).max(initial=0.0))
    prices = np.arange(d) >= S
    idle = prices & ~binding
    # a limit whose price would be negative does not bind
    for _ in range(ROUNDS):
        matrix = np.where(idle[:, None], np.eye(d), system)
        wanted = np.where(idle, newest, right)
        scale = np.maximum(np.abs(matrix).max(axis=1), SMALLEST)
        try:
            g = np.linalg.solve(matrix / scale[:, None], wanted / scale)
        except np.linalg.LinAlgError:
            return None
        if not np.isfinite(g).all():
            return None
        dropped = prices & ~idle & (g < 0.0)
        if not dropped.any():
            break
        idle = idle | dropped
    return np.asarray(g)


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


def near_gains(form: Form, best: Array, newest: Array, queries: DualQueries, seed: int, *, first: bool) -> Array:
    """Return the dual points (B, d) to ask for where a sample of the rows has shown about where the optimum is.

    The best mixture draws between rules on all sides of the optimum, so gains around it are asked for, one more than
    prices and multipliers that count. The ``first`` ones lie around the optimum of the sample, further ones around
    Newton's step (`log_step`).
    """
    best = normalised(form, best, best)
    # a mean loses nothing to first order where recalls are a little off, but limits must be kept
    matter = free_prices(form, len(best)) & ((np.arange(len(best)) >= form.n_tops) | (form.mean is None))
    places = np.flatnonzero(matter & _counts(best))
    centres = best[None]
    width = np.full(len(places), NARROW)
    steps = centres[:0] if first else _along_step(form, queries, best, NEAR_LENGTHS)
    if len(steps):
        centres = steps
        far = np.abs(np.log(_size(steps[0]) / _size(best)))[places]
        width = np.clip(BESIDE * far, NARROWEST, STEPPED)
    r = len(places)
    corners = directions(r, r, seed) if r else np.zeros((0, 0))
    corners = np.concatenate([corners, -corners.sum(axis=0, keepdims=True) / np.sqrt(max(r, 1))])
    around = np.repeat(centres[:1], r + 1, axis=0)
    around[:, places] *= np.exp(corners * width)
    return np.concatenate([centres, around, newest[None]])
