"""Which gains share a pass: the best dual point so far, the master's newest, and what lies around them.

The support function h(g) = max <g, x> of the attainable set is convex, and an answer is its gradient. All answers near
the best gain together give its second derivative B by the BFGS formula; equating the answer that B predicts with the
point whose gradient is asked for makes one linear system, Newton's step on the dual. It sees no kinks. On small tables
h is all kinks, and what finds the rules that meet there is to look in every direction: orthogonal ones, each
coordinate scaled by how far the best gain and the newest are apart in it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from confmax.confusion import Array
from confmax.optimize.masters.generic import curvature
from confmax.optimize.points import Space
from confmax.optimize.rounding import MOVED, NEGLIGIBLE

TOWARD = (1.0, 0.3)  # how far from the best gain to the newest
NEARER = (MOVED, 0.02)  # where Newton's step is unknown
NEWTON = TOWARD  # and how far along Newton's step
NEWTON_NEAR = (1.0, 0.5)  # the same near the optimum: the curvature of a sample may make the step too long
WIDTHS = 4  # sizes of moves in random directions, each half of the one before
SHRINKS = 0.1  # what a step multiplies a price by at least
# directions: one per dimension within these limits
LEAST = 8
MOST = 20
# answers that the second derivative is made of, at most, and per dimension
MEMORY = 2 * MOST
PER_WEIGHT = 4
CHANGED = 0.8  # part of the moved weights that must change an answer; that of a well separated class may change none
LARGEST = 400  # dimensions up to which it is
SMOOTH = 0.1  # asymmetry of differences below which they are a derivative: samples have .06, few distinct rows .2


@dataclass(frozen=True, eq=False)
class DualQueries:
    """Gains asked so far with their answers, as vectors: ``gains`` and ``answers`` (N, d), the newest last.

    ``curvature`` is the second derivative (d, d) of h near the best gain, for a gain of length one, where it is known.
    """

    gains: Array
    answers: Array
    curvature: Array | None = None

    def joined(self, gains: Array, answers: Array) -> DualQueries:
        """Return these and more; only the last few passes count."""
        keep = 8 * (LEAST + MOST)
        every = np.concatenate([self.gains, gains])
        theirs = np.concatenate([self.answers, answers])
        return DualQueries(every[-keep:], theirs[-keep:], self.curvature)


def query_gains(best: Array, newest: Array, newton: Array | None, seed: int, *, near: bool = False) -> Array:
    """Return the gains (B, d) to ask for, the newest first.

    ``best`` (d,) is the gain of the best bound and ``newest`` (d,) the gradient at the master's optimum, of one scale.
    Newton's step on the dual leads to ``newton`` (d,), if it is known. Each pass has directions of another ``seed``. If
    the best gain is ``near`` the optimum, few others say enough.
    """
    used = (best != 0) | (newest != 0)
    if not used.all() and used.any():
        # what the objective does not read stays zero
        part = query_gains(best[used], newest[used], None if newton is None else newton[used], seed, near=near)
        whole = np.zeros((len(part), len(best)))
        whole[:, used] = part
        return whole
    positive = bool((best > 0).all() and (newest > 0).all() and (newton is None or (newton > 0).all()))
    # class weights matter by their ratios, so they are moved on a log scale
    onto, back = (np.log, np.exp) if positive else (np.asarray, np.asarray)
    # weights that lie far apart in ratio say little about how far to go
    farthest = 1.0 if positive else np.inf
    origin = onto(best)
    toward = np.clip(onto(newest) - origin, -farthest, farthest)
    scale = _spread(toward)
    between = [best + t * (newest - best) for t in TOWARD[: 1 if near else None]]
    middle = [origin + 0.5 * toward]
    if newton is None:
        # nothing tells how far to go: look around the best gain too
        between += [best + t * (newest - best) for t in NEARER]
        middle.insert(0, origin)
    else:
        step = np.clip(onto(newton) - origin, -farthest, farthest)
        between += [back(origin + t * step) for t in (NEWTON_NEAR if near else NEWTON)]
        middle.insert(0, origin + 0.5 * step)
        scale = np.minimum(scale, 2.0 * _spread(step) + 0.25 * scale)
    d = len(best)
    # near the optimum the shorter step of Newton takes the place of one of them
    count = (max(1, d // MOST) - (newton is not None)) if near else min(max(d, LEAST), MOST)
    if not count:
        return np.array(between)
    turned = directions(d, count, seed)
    turn = np.arange(len(turned))
    around = np.array(middle)[turn % len(middle)] + 0.5 ** (1.0 + turn % WIDTHS)[:, None] * turned * scale
    return np.concatenate([np.array(between), back(around)])


def off_kinks(gains: Array, size: float) -> Array:
    """Return ``gains`` (B, d) with every entry moved by a factor of about ``1 + size``, always the same way.

    The best gain lies where some rows tie exactly. There the last digit of a probability would choose the single rule;
    the moved gain chooses it by the same side of the tie every time.
    """
    moves = np.random.default_rng(gains.shape[1]).uniform(-1.0, 1.0, gains.shape)
    return np.asarray(gains * (1.0 + size * moves))


def newton_gain(space: Space, queries: DualQueries, best: Array, point: Array, slope: Array) -> Array | None:
    """Return the gain g with ``g = f'(z)`` at the point z that it is predicted to be answered by; None if unknown.

    With f' linear around ``point`` (d,), where it is ``slope`` (d,), and the answer linear around ``best`` (d,).
    """
    if len(best) > LARGEST or len(queries.gains) == 0:
        return None
    H = curvature(space, point, slope)
    derivative = second_derivative(queries, best)
    if derivative is None or not np.isfinite(H).all():
        return None
    B, answer = derivative
    system = np.eye(len(best)) + H @ B
    try:
        g: Array = np.asarray(np.linalg.solve(system, slope + H @ (point - answer + B @ best)), dtype=np.float64)
    except np.linalg.LinAlgError:
        return None
    # a far step may leave the positive weights, of which alone answers prove something
    if (best > 0).all() and (slope > 0).all():
        g = np.asarray(np.maximum(g, SHRINKS * np.minimum(best, slope)), dtype=np.float64)
    return g if np.isfinite(g).all() else None


def by_differences(gain: Array, perturbed: Array, answers: Array) -> Array | None:
    """Return the second derivative (d, d) of h for a gain of length one; None where h has kinks there.

    It is wanted at ``gain`` (d,). The ``perturbed`` gains (d, d) have one weight after the other moved, and ``answers``
    (d + 1, d) are those to them, and to ``gain`` last.
    """
    steps = np.diagonal(perturbed - gain)
    changes = answers[:-1] - answers[-1]
    moved = steps != 0
    B = np.divide(changes, steps[:, None], out=np.zeros_like(changes), where=moved[:, None])
    unit = np.sqrt(np.abs(np.outer(gain, gain)))
    asymmetry, size = (float(np.linalg.norm(part * unit)) for part in (B - B.T, B + B.T))
    # of few different rows h is all kinks, and answers jump: a second derivative is symmetric
    if changes[moved].any(axis=1).sum() < CHANGED * moved.sum() or asymmetry > SMOOTH * size:
        return None
    # h is homogeneous of degree one, its second derivative of degree minus one
    return np.asarray(0.5 * (B + B.T) * np.linalg.norm(gain))


def second_derivative(queries: DualQueries, best: Array) -> tuple[Array, Array] | None:
    """Return the second derivative of h at ``best`` (d, d), and the answer (d,) that it predicts there."""
    unit = np.abs(best) + np.abs(best).mean()
    unit = np.where(unit > 0, unit, 1.0)
    lengths = np.linalg.norm(queries.gains, axis=1, keepdims=True)
    gains = queries.gains / np.where(lengths > 0, lengths, 1.0) * np.linalg.norm(best)
    away = gains - best
    distance = np.sqrt(((away / unit) ** 2).mean(axis=1))
    order = np.argsort(distance, kind="stable")
    if queries.curvature is not None:
        curved = np.asarray(queries.curvature / np.linalg.norm(best), dtype=np.float64)
        return curved, queries.answers[order[0]] - away[order[0]] @ curved
    order = order[distance[order] < 3.0][: min(MEMORY, max(LEAST, PER_WEIGHT * len(best)))]
    if len(order) < 2:
        return None
    nearest = queries.answers[order[0]]
    # each coordinate of an answer changes about in proportion to itself
    base = nearest / unit + NEGLIGIBLE * np.abs(nearest).max()
    steps = away[order] - away[order[0]]
    changes = queries.answers[order] - nearest
    B = _bfgs(base, steps, changes)
    if B is None:
        return None
    close = order[: LEAST + 3]
    return B, (queries.answers[close] - away[close] @ B).mean(axis=0)


def _bfgs(base: Array, steps: Array, changes: Array) -> Array | None:
    """Return the second derivative (d, d) by steps and changes of the gradient (N, d), the nearest first.

    ``base`` (d,) is the diagonal that it starts from, times a number.
    """
    # a step along which the gradient does not rise tells nothing of a convex function; the first is none
    rises, lengths = (np.einsum("nd,nd->n", steps, part) for part in (changes, steps))
    rising = rises > NEGLIGIBLE * np.sqrt(lengths * np.einsum("nd,nd->n", changes, changes))
    # where the gradient is zero, nothing says how it curves along a step
    sizes = steps**2 @ base
    rising &= sizes != 0.0
    rising[0] = False
    if not rising.any():
        return None
    steps = steps[rising]
    changes = changes[rising]
    rises = rises[rising]
    B = np.diag(base * np.sort(rises / sizes[rising])[len(steps) // 2])
    # from far to near: the nearest has the last word
    for s, y in zip(steps[::-1], (changes / np.sqrt(rises)[:, None])[::-1], strict=True):
        Bs = B.dot(s)
        # rounding may leave nothing of a step along earlier ones
        if (length := s.dot(Bs)) > 0.0:
            known = Bs / math.sqrt(length)
            B += y[:, None] * y - known[:, None] * known
    return B


def _spread(move: Array) -> Array:
    """Return how far to look in each coordinate: half its own move, half the average one."""
    return np.asarray(np.sqrt((move**2 + (move**2).mean()) / 2.0))


@lru_cache(maxsize=64)
def directions(d: int, wanted: int, seed: int) -> Array:
    """Return orthogonal directions (wanted, d) with entries of size one."""
    rng = np.random.default_rng(seed)
    sets: list[Array] = []
    while sum(len(part) for part in sets) < wanted:
        Q, _ = np.linalg.qr(rng.standard_normal((d, min(d, wanted))))
        sets.append(Q.T * np.sqrt(d))
    return np.concatenate(sets)[:wanted]
