"""Mixtures that keep limits: a mixture to start from, what an interior point needs, and what is left to correct.

An interior-point method needs mixtures that keep every limit by a little. The largest slack that all limits can have at
once (phase one) says whether there are some. Where limits leave no room, the rules that can keep them are mixed alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import numpy as np

from confmax.confusion import Array
from confmax.optimize.masters.interior import solve
from confmax.optimize.masters.protocol import FEASIBLE, Optimum
from confmax.optimize.points import Form, Space
from confmax.optimize.rounding import BINDS, DEAREST, EXACT, HALF_DIGITS, LEFT_OVER, ROUNDS, SINGLE, SOLVED

INTERIOR = SOLVED  # weight of a rule below which an interior-point master does not use it
CUT_WITHIN = LEFT_OVER  # by how much a mixture keeps a cut at least
# by how much a mixture keeps its limits, and the least room that this needs
WITHIN = 1e-11
THIN = HALF_DIGITS
# within what values are mixed that must be equal
WIDTH = 2.0 * SINGLE
# without room: a price that is zero, by how much a rule that keeps the limits misses them, and the room that the
# interior-point master is given
TRACE = BINDS
EDGE = WITHIN
GIVEN = SINGLE


class PathMaster(Protocol):
    """What this module needs of a master that follows a central path."""

    def solve(self, space: Space, z: Array, start: Array) -> Optimum:
        """Return the best mixture of rules z (A, d + m), some mixture of which keeps the limits by a little."""

    def value(self, space: Space, point: Array) -> float:
        """Return the objective at a mixture as a vector (d + m,)."""


def mixed_inside(master: PathMaster, space: Space, z: Array, start: Array, room: float) -> Optimum:
    """Return the best mixture of rules z (A, d + m) from ``start`` (A,), or how far all of them miss the limits.

    It keeps cuts by the ``room``, if there is so much. Values that must be equal leave an interior-point method no
    room. It mixes them within `WIDTH`, and a correction of the weights makes them equal.
    """
    m = space.n_limits
    if not m:
        return master.solve(space, z, start)
    loose = z.copy()
    loose[:, -m:] += space.widening(WIDTH)
    optimum = _mixed(master, space, loose, start, room)
    if optimum.shortfall > FEASIBLE:
        return replace(optimum, point=optimum.weights @ z)
    return _kept(master, space, z, optimum)


def keeps_limits(start: Array, space: Space, z: Array) -> bool:
    """Whether a mixture keeps the limits: that of a master does, by about `WITHIN`, where they leave room."""
    return bool((start @ z[:, -space.n_limits :]).min() >= 0.5 * WITHIN)


def _mixed(master: PathMaster, space: Space, z: Array, start: Array, room: float) -> Optimum:
    """Return the mixture of `mixed_inside`, which may miss limits by rounding."""
    if not keeps_limits(start, space, z):
        first = slack_by_path(space, z)
        if first.shortfall > FEASIBLE:
            return first
        start = first.weights
        if first.shortfall > -THIN:
            return _on_edge(master, space, z, first)
    # kept by a little more, so that rounding misses no limit, and cuts so that their mean meets its floor
    shift = np.full(space.n_limits, -WITHIN)
    n_cuts = space.n_limits - space.n_given
    if n_cuts:
        shift[-n_cuts:] = -max(CUT_WITHIN, min(room, 0.5 * float((start @ z[:, -n_cuts:]).min())))
    return _shifted(master, space, z, start, shift)


def _kept(master: PathMaster, space: Space, z: Array, optimum: Optimum) -> Optimum:
    """Return a mixture that keeps the limits, where the master's misses some by little.

    Its weights are corrected. Where that is not enough, a little of the mixture with the largest slack joins it.
    """
    slack = z[:, -space.n_limits :]
    if (optimum.weights @ slack).min() >= -EXACT:
        return replace(optimum, point=optimum.weights @ z)
    weights = _corrected(optimum.weights, space, z, optimum.gain)
    missed = -float((weights @ slack).min())
    if missed > EXACT:
        first = slack_by_path(space, z)
        room = -first.shortfall
        if room > WITHIN:
            share = (missed + WITHIN) / (missed + room)
            weights = (1.0 - share) * weights + share * first.weights
    point = weights @ z
    return replace(optimum, weights=weights, point=point, value=master.value(space, point))


def _corrected(weights: Array, space: Space, z: Array, gain: Array) -> Array:
    """Return weights (A,) near by that keep the limits of rules z (A, d + m), if there are some.

    Limits with a price, or that are missed, are just kept then, cuts by what they were kept by, and functions with a
    price whose smallest is the objective are equal. Each weight changes in proportion to itself.
    """
    slack = z[:, -space.n_limits :]
    wanted = np.maximum(weights @ slack, 0.0)
    wanted[: space.n_given] = 0.0
    tops = z[:, np.flatnonzero(gain[: 1 if space.form.has_slopes else space.form.n_tops] > TRACE)]
    equal = tops[:, 1:] - tops[:, :1]
    binds = gain[-space.n_limits :] > TRACE
    # a rule does not hold smaller weights
    weights = np.where(weights > INTERIOR, weights, 0.0)
    for _ in range(ROUNDS):
        binds |= weights @ slack < 0.0
        rows = np.hstack([slack[:, binds], equal, np.ones((len(z), 1))])
        lacks = np.concatenate([wanted[binds], np.zeros(equal.shape[1]), [1.0]]) - weights @ rows
        change = np.linalg.lstsq((rows * weights[:, None]).T, lacks, rcond=None)[0]
        weights = np.maximum(weights * (1.0 + change), 0.0)
        if (weights @ slack).min() >= -EXACT:
            break
    return weights / weights.sum()


def slack_by_path(space: Space, z: Array) -> Optimum:
    """Return the mixture with the largest slack that all limits can have at once; its shortfall may be negative."""
    _, slack = space.split(z)
    first = solve(Form(space.n_limits), slack)
    least, weights = _best_corner(first.value, first.weights, slack)
    path = np.pad(first.path, ((0, 0), (z.shape[1] - space.n_limits, 0)))
    return Optimum(weights, weights @ z, -np.inf, path[-1], path, first.gaps, -least)


def _best_corner(least: float, weights: Array, slack: Array) -> tuple[float, Array]:
    """Return a slack of all limits with its mixture, or of the best single rule if that is larger.

    An interior point may end short of a corner where the limits leave no room.
    """
    smallest = slack.min(axis=1)
    k = int(smallest.argmax())
    return (float(smallest[k]), np.eye(1, len(slack), k)[0]) if smallest[k] > least else (least, weights)


def _on_edge(master: PathMaster, space: Space, z: Array, first: Optimum) -> Optimum:
    """Return the best mixture where the limits leave no room: an interior-point method needs a strictly feasible start.

    All rules have a slack of zero at most at the prices of phase one, so a mixture that keeps the limits draws only
    those of zero. These are mixed, and the prices of phase one are added until the others are worth no more.
    """
    m = space.n_limits
    # the interior-point method leaves a trace of prices that are zero
    prices = np.where(first.gain > TRACE, first.gain, 0.0)
    slack = z @ prices
    on_edge = slack >= min(-EDGE, 2.0 * float(slack.max()))
    inner = z[on_edge]
    # a limit that all of them just keep leaves nothing to decide
    alone = np.abs(inner[:, -m:]).max(axis=0) <= EDGE
    inner[:, -m:][:, alone] = 1.0
    # those of phase one leave no room together, the others do
    shift = np.where(prices[-m:] > 0.0, GIVEN, -WITHIN)
    optimum = _shifted(master, space, inner, first.weights[on_edge], shift)
    weights = np.zeros(len(z))
    weights[on_edge] = optimum.weights
    # the program had to leave the limits of phase one a little room, to have any
    weights = _corrected(weights, space, z, optimum.gain)
    point = weights @ z
    worth = z[~on_edge] @ optimum.gain - float(optimum.gain @ point)
    needed = float((worth / -slack[~on_edge]).max(initial=0.0))
    more = np.zeros_like(optimum.gain)
    more[-m:] = min(max(needed, 0.0), DEAREST) * prices[-m:]
    value = master.value(space, point)
    gain = optimum.gain + more
    path = optimum.path + more
    return replace(optimum, weights=weights, point=point, value=value, gain=gain, path=path)


def _shifted(master: PathMaster, space: Space, z: Array, start: Array, shift: float | Array) -> Optimum:
    """Return the best mixture with slacks moved by ``shift``."""
    moved = z.copy()
    moved[:, -space.n_limits :] += shift
    optimum = master.solve(space, moved, start)
    return replace(optimum, point=optimum.weights @ z)
