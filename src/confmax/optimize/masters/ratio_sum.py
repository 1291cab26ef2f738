"""The master of a smooth function of linear ones within limits, such as macro F1: no small change improves its mixture.

Such a function, a sum of ratios for instance, is not concave in the mixture, so the master climbs. Each step maximises
the gradient at the mixture within the limits, which is a linear program, and a quadratic model of the function with its
convex part left out. The better of both solutions is where an exact line search leads: all mixtures between two that
keep the limits keep them, so no step loses value or a limit. It climbs from the mixture of the last pass, from the best
single rules that keep the limits, and from the largest mean of the numerators, each in units of the largest that some
rule has. The best of these tops is the solution. A climb from which a known top is uphill all the way would end there,
and stops. Its dual point is the gradient there with the multipliers of the linear program. A concave mean of labels has
one top, and what the gradient promises there bounds it.

The master of the means of recalls, without limits: the interior-point method mixes the rules.

Its next prices are the gradient at the best mixture, as for every master without limits; within limits a mean is the
objective of `masters.Program`, whose central path has better ones.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from confmax.confusion import ABSENT, Array
from confmax.metrics.curved import Curved
from confmax.metrics.structure import PowerMean
from confmax.optimize.line_search import best_steps
from confmax.optimize.masters.generic import least_norm_model, model_of_pairs, optimum, pairs_of
from confmax.optimize.masters.interior import Sum, central_path, least_norm, solve, without_traces
from confmax.optimize.masters.program import Program
from confmax.optimize.masters.protocol import Master, Optimum
from confmax.optimize.masters.within import mixed_inside
from confmax.optimize.points import Form, Space
from confmax.optimize.rounding import DEAREST, EXACT, LEAST_WEIGHT, LEFT_OVER, NEWTON_STEPS, SOLVED

MAX_GAINS_BEHIND = 10.0  # steps that a climb may lie behind another
IN_USE = LEFT_OVER  # a weight; the slack of a limit that binds
FINE = LEFT_OVER  # what the gradient may still promise at a top
SINGLES = 2  # best single rules to climb from
NEAREST = 40  # rules of the quadratic model: those that lack least at the prices
STEPS = np.linspace(0.0, 1.0, 33)  # between two mixtures
STEEP = DEAREST  # a slope that has no end, as of the G-mean at a recall of zero


class RatioSum(Master):
    """Climb to a mixture at which no rule within the limits improves a sum of ratios, or its kin, to first order."""

    most_columns: ClassVar[int] = Program.most_columns
    follows_path: ClassVar[bool] = True
    climbs: ClassVar[bool] = True

    def mix(self, space: Space, z: Array, start: Array, room: float = 0.0) -> Optimum:
        """Climb from several mixtures that keep the limits."""
        return mixed_inside(self, space, z, start, room)

    def solve(self, space: Space, z: Array, start: Array) -> Optimum:
        """Climb from several mixtures, and return the highest top."""
        assert space.curved is not None
        climb = _Climb(space.curved, z, space.n_limits)
        best = climb.top(start)
        for mix in climb.starts():
            top = climb.top(mix, best)
            best = top if top.value > best.value else best
        return best

    def value(self, space: Space, point: Array) -> float:
        """Return the sum at a mixture as a vector (d + m,)."""
        assert space.curved is not None
        return float(space.curved.value(point[: len(point) - space.n_limits]))

    def bounds(self, space: Space, gains: Array, heights: Array, at: Array) -> Array:
        """Bound what the gradient at a point promises, by answers whose objective it is; they bound no distant rule."""
        d = gains.shape[1] - space.n_limits
        same = (gains[:, :d] == gains[0, :d]).all(axis=1)
        rise = heights - gains[:, :d] @ at[0, :d]
        assert space.curved is not None
        return np.where(same, space.curved.value(at[0, :d]) + rise, np.inf)


class _Climb:
    """The rules that are mixed."""

    def __init__(self, of: Curved, z: Array, n_limits: int) -> None:
        self.of = of
        self.z = z
        self.d = z.shape[1] - n_limits
        self.slack = z[:, self.d :]

    def starts(self) -> list[Array]:
        """Return further mixtures to climb from; all keep the limits."""
        A = len(self.z)
        feasible = np.flatnonzero(self.slack.min(axis=1) >= 0.0)
        best = feasible[np.argsort(-self.of.value(self.z[feasible, : self.d]), kind="stable")[:SINGLES]]
        tops = self.of.gains(self.z[:, : self.d])
        shares = tops / np.maximum(tops.max(axis=0), ABSENT)
        return [*np.eye(A)[best], self._largest(shares @ self.of.weights).weights]

    def _largest(self, worth: Array) -> Optimum:
        """Maximise a linear function (A,) within the limits."""
        return solve(Form(1, self.slack.shape[1]), np.column_stack([worth, self.slack]))

    def top(self, mix: Array, known: Optimum | None = None) -> Optimum:
        """Climb from a mixture, until it lies below a ``known`` top on the same slope, or does not come near it."""
        point = mix @ self.z
        value = float(self.of.value(point[: self.d]))
        for _ in range(NEWTON_STEPS):
            slope = np.nan_to_num(self.of.slope(point[: self.d]), nan=STEEP, posinf=STEEP, neginf=-STEEP)
            worth = self.z[:, : self.d] @ slope
            linear = self._largest(worth)
            if linear.value - slope @ point[: self.d] <= FINE:
                break
            curvature = self._curvature(point)
            by_model = self._quadratic(mix, slope, curvature, linear)
            ends = (linear.weights, by_model, self._on_face(mix, slope, curvature))
            sizes, attained = _along(self.of, point[: self.d], np.stack([end @ self.z[:, : self.d] for end in ends]))
            k = int(attained.argmax())
            reached = float(attained[k])
            if reached <= value:
                break
            gained = reached - value
            mix = (1.0 - sizes[k]) * mix + sizes[k] * ends[k]
            point = mix @ self.z
            value = reached
            if gained < SOLVED:
                break
            if known is not None:
                if value + MAX_GAINS_BEHIND * gained < known.value:
                    break
                if self._rises(point, known.point):
                    return known
        # the price of the one function is about one, and is zero where the multipliers are larger by far
        prices = np.where(linear.path[:, :1] > 0.0, linear.path[:, :1], 1.0)
        path = np.hstack([np.repeat(slope[None], len(prices), axis=0), linear.path[:, 1:] / prices])
        return Optimum(mix, point, value, path[-1], path, linear.gaps)

    def _rises(self, low: Array, high: Array) -> bool:
        """Whether the function rises all the way from one mixture (d + m,) to another."""
        values = self.of.value(low[: self.d] + STEPS[:, None] * (high - low)[: self.d])
        return bool((np.diff(values) >= 0.0).all())

    def _curvature(self, point: Array) -> Array:
        """Return the second derivative at a mixture (d + m,), zero where there is none."""
        return np.nan_to_num(self.of.curvature(point[: self.d]), nan=0.0, posinf=0.0, neginf=0.0)

    def _quadratic(self, mix: Array, slope: Array, curvature: Array, linear: Optimum) -> Array:
        """Return the mixture that maximises the quadratic model."""
        lacks = -(np.column_stack([self.z[:, : self.d] @ slope, self.slack]) @ linear.gain)
        lacks[mix > IN_USE] = -np.inf
        near = np.argsort(lacks, kind="stable")[: max(NEAREST, int((mix > IN_USE).sum()))]
        point = mix @ self.z[:, : self.d]
        away = self.z[near, : self.d] - point
        largest = max(float((away @ slope).max()), ABSENT)
        bend = 1.0 / max(float(self.of.value(point)), largest)
        pairs = pairs_of(-curvature)
        # of hundreds of classes the eigenvectors of the whole matrix took most of the time
        if pairs is None:
            scaled = least_norm_model(away, slope, -curvature, bend)
        else:
            scaled = model_of_pairs(away, slope, pairs, bend)
        attained = np.zeros(len(mix))
        attained[near] = least_norm(scaled, self.slack[near])
        return attained

    def _on_face(self, mix: Array, slope: Array, curvature: Array) -> Array:
        """Return the mixture of the rules in use that Newton's step leads to, with the limits that bind."""
        used = np.flatnonzero(mix > IN_USE)
        slack = mix @ self.slack
        rows = np.vstack([np.ones(len(used)), self.slack[used][:, slack < IN_USE].T])
        _, sizes, axes = np.linalg.svd(rows)
        free = axes[(sizes > SOLVED * sizes[0]).sum() :]
        along = free @ self.z[used, : self.d]
        bends, turned = np.linalg.eigh(along @ curvature @ along.T)
        # where the sum bends upward, uphill is still uphill
        bends = np.abs(bends)
        bent = bends > SOLVED * bends.max(initial=0.0)
        change = np.zeros(len(mix))
        change[used] = ((along @ slope) @ turned[:, bent] / bends[bent]) @ turned[:, bent].T @ free
        left = np.append(mix, np.maximum(slack, 0.0))
        moves = np.append(change, change @ self.slack)
        falling = moves < -EXACT
        step = min(1.0, float((left[falling] / -moves[falling]).min(initial=1.0)))
        return np.maximum(mix + step * change, 0.0)


def _along(of: Curved, start: Array, ends: Array) -> tuple[Array, Array]:
    """Return the best steps (B,) from ``start`` (d,) to each of ``ends`` (B, d), and the values there (B,)."""
    moves = (ends - start)[:, None]
    best, reached = best_steps(lambda steps: of.value(start + steps[..., None] * moves), len(ends))
    whole = best > 1.0 - LEAST_WEIGHT
    return np.where(whole, 1.0, best), np.where(whole, np.array([of.value(end) for end in ends]), reached)


# --- the master of the means of recalls, without limits ---------------------------------------------------------------


class RecallMeans(Master):
    """Maximise an unsmoothed mean of the recalls; the statistics with which vectors start begin with the diagonal."""

    def mix(self, space: Space, z: Array, start: Array, room: float = 0.0) -> Optimum:
        """Maximise the mean over all mixtures."""
        diagonal, rows = _diagonal(space, z)
        weights = central_path(diagonal / rows, np.ones(len(z)), z[:, :0], Sum(_mean(space)))[0]
        return optimum(space, z, without_traces(weights))

    def bounds(self, space: Space, gains: Array, heights: Array, at: Array) -> Array:
        """Bound the mean by the inequality between it and a weighted mean of the recalls (`PowerMean.bound`)."""
        # the inequality holds for any weights, so this master needs no further gains between its points
        diagonal, rows = _diagonal(space, gains)
        return np.nan_to_num(_mean(space).bound(diagonal * rows, heights), nan=np.inf)


def _mean(space: Space) -> PowerMean:
    mean = space.metric.structure.recall_mean
    assert mean is not None
    return mean


def _diagonal(space: Space, z: Array) -> tuple[Array, Array]:
    """Return the diagonal (A, S) in vectors z (A, d + m) and the priors (S,), of the classes of the metric."""
    used = np.array(space.metric.classes or range(len(space.rows)))
    # the entries of the whole matrix stand row after row
    places = used * (space.n_decisions + 1) if space.statistics == "matrix" else used
    return z[:, places], space.rows[used]
