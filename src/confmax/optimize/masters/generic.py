"""The master of a concave metric with a gradient: the best mixture of the rules met so far, by Newton's method.

In place of the concave f it takes ``-exp(-t f)``, whose second derivative ``t exp(-t f) (f'' - t f' f'^T)`` bends where
f itself is flat, as every mean of recalls is along its own direction. The quadratic model then always has its gradient
in the range of its curvature, so that maximising it over the mixtures is a problem of least norm.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from confmax.confusion import Array
from confmax.optimize.masters.interior import least_norm, solve
from confmax.optimize.masters.protocol import FEASIBLE, Master, Optimum
from confmax.optimize.masters.within import keeps_limits, slack_by_path
from confmax.optimize.points import Form, Space
from confmax.optimize.rounding import NEWTON_STEPS, ROUNDS, SINGULAR, TINIEST

# how far gradients are compared: those of a user's function may come from differences themselves
COORDINATE_STEP = 1e-6
MATRIX_STEP = 1e-3


class Smooth(Master):
    """Maximise a concave metric of the statistics with which vectors start."""

    # a bound comes from a tangent only, so gradients are asked at points between the two known ones, too
    between: ClassVar[tuple[float, ...]] = tuple(0.5 ** np.arange(1, 5))

    def mix(self, space: Space, z: Array, start: Array, room: float = 0.0) -> Optimum:
        """Take Newton steps from ``start``, or from the mixture that keeps the limits best."""
        if space.n_limits and not keeps_limits(start, space, z):
            first = slack_by_path(space, z)
            if first.shortfall > FEASIBLE:
                return first
            start = first.weights
        return self.solve(space, z, start)

    def solve(self, space: Space, z: Array, start: Array) -> Optimum:
        """Take Newton steps from ``start`` (A,), which keeps the limits."""
        return optimum(space, z, _newton(space, z, start))

    def bounds(self, space: Space, gains: Array, heights: Array, at: Array) -> Array:
        """Bound by the tangent at a point: ``f(C) <= f(at) + max <f'(at), V - at> + mu' (A V - b)``."""
        bounds = np.full(len(gains), np.inf)
        n = len(at)
        rise = heights[:n] - (space.split(gains[:n])[0] * space.split(at)[0]).sum(axis=1)
        # without limits a point between rules is no better than the best of them, whatever rounding says
        bounds[:n] = space.value(at) + (rise if space.n_limits else np.maximum(rise, 0.0))
        return np.where(np.isnan(bounds), np.inf, bounds)


def optimum(space: Space, z: Array, weights: Array) -> Optimum:
    """Return a mixture of rules z (A, d + m) with the derivative there, and the multipliers of the limits.

    The mixture maximises the linear function ``f'(x)`` within the limits too. The multipliers are those of this linear
    program: unlike the equations of the rules in use, it has a solution where fewer rules are in use than limits bind.
    """
    point = weights @ z
    gain = space.gradient(point)
    m = space.n_limits
    if m and np.isfinite(gain).all():
        price, *multipliers = solve(Form(1, m), np.column_stack([z @ gain, z[:, -m:]])).gain
        # the price of the one function is one, but for its unit
        gain[-m:] = np.array(multipliers) / max(price, TINIEST)
    return Optimum.without_path(weights, point, float(space.value(point)), gain)


def curvature(space: Space, at: Array, slope: Array) -> Array:
    """Return minus the second derivative (d, d) at ``at``, by differences of the gradient in every coordinate."""
    d = len(at) - space.n_limits
    steps = COORDINATE_STEP * np.resize(np.where(space.rows > 0, space.rows, 1.0), d)
    change = np.zeros((len(at), len(at)))
    change[:d, :d] = (space.gradient(at + np.eye(d, len(at)) * steps[:, None]) - slope)[:, :d] / steps[:, None]
    return -(change + change.T) / 2.0


def _newton(space: Space, x: Array, mix: Array) -> Array:
    """Maximise over the mixtures within the limits by Newton steps."""
    value = float(space.value(mix @ x))
    for _ in range(NEWTON_STEPS):
        scaled = _quadratic_model(space, x, mix, value)
        if scaled is None:
            return mix
        # both mixtures keep the limits, and so does every mixture between them
        target = least_norm(scaled, x[:, x.shape[1] - space.n_limits :])
        size, reached = _longest(space, mix @ x, target @ x, value)
        if reached <= value:
            return mix
        mix = (1.0 - size) * mix + size * target
        gain = reached - value
        value = reached
        if gain < SINGULAR * (1.0 + abs(value)):
            return mix
    return mix


def _quadratic_model(space: Space, x: Array, mix: Array, value: float) -> Array | None:
    """Return points (A, r) whose mixture of least norm maximises the quadratic model; None where nothing is to gain."""
    at = mix @ x
    slope = space.gradient(at)
    if not np.isfinite(slope).all():
        return None
    away = x - at
    along = away @ slope
    largest = float(along.max())
    if largest <= SINGULAR * (1.0 + abs(value)):
        return None
    bend = 1.0 / max(abs(value), largest)
    basis = away
    if space.metric.formula.is_separable and space.statistics == "columns" and not space.n_limits:
        return separable_model(space, at, slope, away, bend)
    if space.statistics == "matrix":
        # along the points themselves: row sums stay as they are, and few points span what matters
        change = (space.gradient(at + MATRIX_STEP * away) - slope) / MATRIX_STEP
        _, sizes, axes = np.linalg.svd(away, full_matrices=False)
        axes = axes[sizes > 1e-9 * sizes[0]]
        basis = away @ axes.T
        slope = axes @ slope
        bent = np.linalg.lstsq(basis, change @ axes.T, rcond=None)[0]
        model = -(bent + bent.T) / 2.0
    else:
        model = curvature(space, at, slope)
    if not np.isfinite(model).all():
        return None
    return least_norm_model(basis, slope, model, bend)


def separable_model(space: Space, at: Array, slope: Array, away: Array, bend: float) -> Array | None:
    """Return `least_norm_model` of a sum of functions of one class each, by its second derivatives, two by two."""
    K = len(space.rows)
    steps = COORDINATE_STEP * np.where(space.rows > 0, space.rows, 1.0)
    moves = np.zeros((2, 2, K))
    moves[[0, 1], [0, 1]] = steps
    change = (space.gradient(at + moves.reshape(2, -1)) - slope).reshape(2, 2, K) / steps
    blocks = -(change + change.swapaxes(0, 1)).transpose(2, 0, 1) / 2.0
    return model_of_pairs(away, slope, blocks, bend) if np.isfinite(blocks).all() else None


def pairs_of(curvature: Array) -> Array | None:
    """Return the blocks (K, 2, 2) of a second derivative (2 K, 2 K) that couples k and K + k; None of any other."""
    K = len(curvature) // 2
    if len(curvature) != 2 * K:
        return None
    k = np.arange(K)
    places = np.stack([k, K + k], axis=1)
    blocks = curvature[places[:, :, None], places[:, None]]
    return blocks if np.count_nonzero(blocks) == np.count_nonzero(curvature) else None


def model_of_pairs(away: Array, slope: Array, blocks: Array, bend: float) -> Array:
    """Return `least_norm_model` where the curvature consists of ``blocks`` (K, 2, 2), as `pairs_of` returns them."""
    K = len(blocks)
    sizes, axes = np.linalg.eigh(blocks)
    # most of them bend in one direction, since their functions are of degree one or read one of the two numbers
    k, axis = np.nonzero(sizes > SINGULAR * max(float(sizes.max()), 0.0))
    along = (away.reshape(len(away), 2, K)[:, :, k] * axes[k, :, axis].T).sum(axis=1) * np.sqrt(sizes[k, axis])
    # a column whose product with what is aimed at is the slope
    root = np.sqrt(bend)
    return np.column_stack([along, root * (away @ slope) - 1.0 / root])


def least_norm_model(away: Array, slope: Array, curvature: Array, bend: float) -> Array:
    """Return points (A, r) whose mixture of least norm maximises a quadratic model.

    The model is made at zero, of points ``away`` (A, d) from there, the derivative ``slope`` (d,) and minus the second
    derivative, ``curvature`` (d, d). Where this is negative, zero takes its place: what is concave may have a little
    convexity by differences. A curvature ``bend`` along the slope joins.
    """
    sizes, axes = np.linalg.eigh(curvature)
    model = (axes * np.maximum(sizes, 0.0)) @ axes.T + bend * np.outer(slope, slope)
    sizes, axes = np.linalg.eigh(model)
    bent_axes = sizes > SINGULAR * sizes[-1]
    root = np.sqrt(sizes[bent_axes])
    return np.asarray(away @ (axes[:, bent_axes] * root) - (axes[:, bent_axes].T @ slope) / root)


def _longest(space: Space, start: Array, end: Array, value: float) -> tuple[float, float]:
    """Return a step from start to end that improves, halved until it does, and the value there; 0 if none is found.

    Where it ends there is a gradient: a mean of G-means has none where one of them is zero.
    """
    for k in range(ROUNDS):
        size = 0.5**k
        at = (1.0 - size) * start + size * end
        reached = float(space.value(at))
        if reached > value and np.isfinite(space.gradient(at)).all():
            return size, reached
    return 0.0, value
