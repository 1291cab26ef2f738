"""Minimisers of smooth convex losses, by sums in a fixed order: damped Newton steps, and L-BFGS.

Their own few lines, as library routines call a BLAS whose last digits depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array

MAX_STEPS = 60
MAX_WIDE_STEPS = 500
MEMORY = 20
# second derivatives: none, of each class by itself, or all
NO_SECOND = 0
BLOCKS = 1
FULL = 2

_Pair = tuple[Array, Array, float]  # a step, the change of the gradient along it, and their product


class Loss(Protocol):
    """A convex function of d parameters."""

    def __call__(self, theta: Array, order: int) -> tuple[float, Array, Array]:
        """Return value, gradient (d,) and, in the form of an ``order``, second derivatives at ``theta`` (d,)."""


def newton(
    loss: Loss,
    theta: Array,
    tol: float,
    *,
    still: NDArray[np.intp] | None = None,
    hessian: Array | None = None,
    factored: Callable[[Array], Callable[[Array], Array]] | None = None,
    step_of: Callable[[Callable[[Array], Array], Array, Array], Array] | None = None,
    slow: float = 0.05,
) -> Array:
    """Minimise by Newton steps with a Hessian that is kept for as long as steps shrink fast: it costs many gradients.

    The differences of gradients correct a Hessian that is kept (L-BFGS). It may begin with a ``hessian`` (d, d) from
    nearby. ``tol`` is the expected decrease of the last step that is taken. Parameters ``still`` stay as they are.
    ``factored`` returns what solves systems of a Hessian, by default `numpy.linalg.solve`, for systems that are small.
    ``step_of`` returns the step from an inverse of the Hessian, gradient and theta, by default Newton's. A new Hessian
    is worth its time where a step promises more than a part ``slow`` of what the last one did.
    """
    still = np.zeros(0, dtype=np.intp) if still is None else still
    value, gradient, _ = loss(theta, NO_SECOND)
    fresh = False
    last_promise = np.inf
    pairs: list[_Pair] = []
    inverse: Callable[[Array], Array] | None = None
    for _ in range(MAX_STEPS):
        if hessian is None:
            hessian = loss(theta, FULL)[2]
            fresh = True
            inverse = None
            # rows and columns of the identity: a parameter that is held does not move
            hessian[still], hessian[:, still] = 0.0, 0.0
            hessian[still, still] = 1.0
        gradient[still] = 0.0
        if inverse is None:
            inverse = partial(np.linalg.solve, hessian) if factored is None else factored(hessian)
            pairs = []
        corrected = partial(_inverse_times, pairs, first=inverse)
        step = -corrected(gradient) if step_of is None else step_of(corrected, gradient, theta)
        promised = -_dot(gradient, step)
        # a Newton step promises twice what it takes off the loss
        if promised <= 2.0 * tol:
            return np.asarray(theta + step)
        if not fresh and promised > slow * last_promise:
            hessian = None
            continue
        length, theta, value, end = _shortened(loss, theta, value, step, promised)
        end[still] = 0.0
        pairs = _with_pair(pairs, length * step, end - gradient)
        gradient = end
        fresh = False
        last_promise = promised
    return theta


def quasi_newton(
    loss: Loss, theta: Array, tol: float, back: Callable[[Array], Array], forth: Callable[[Array], Array]
) -> Array:
    """Minimise by L-BFGS with unit first steps, in coordinates where the first Hessian is about the identity.

    ``back`` leads from steps in these coordinates to steps of the parameters (d,), and ``forth`` from gradients by the
    parameters to gradients in these coordinates. The rest is as for `newton`.
    """
    value, gradient, _ = loss(theta, NO_SECOND)
    slope = forth(gradient)
    pairs: list[_Pair] = []

    def scaled(x: Array) -> Array:
        if not pairs:
            return x
        _, change, bend = pairs[-1]
        return np.asarray(x * (bend / _dot(change, change)))

    for _ in range(MAX_WIDE_STEPS):
        # where the curvature is about one, half a squared slope is what a step may still gain
        if np.abs(slope).max() <= np.sqrt(tol):
            break
        step = -_inverse_times(pairs, slope, scaled)
        length, theta, value, gradient = _shortened(loss, theta, value, back(step), -_dot(step, slope))
        old = slope
        slope = forth(gradient)
        pairs = _with_pair(pairs, length * step, slope - old)
    return theta


def _shortened(
    loss: Loss, theta: Array, value: float, step: Array, promised: float
) -> tuple[float, Array, float, Array]:
    """Halve a step until the loss falls by a part of what it promised; return length, end, loss and gradient."""
    length = 1.0
    while True:
        end = theta + length * step
        new_value, gradient, _ = loss(end, NO_SECOND)
        # the last digits of a long sum are rounding
        if new_value <= value - 1e-4 * length * promised + 1e-13 * abs(value) or length < 1e-8:
            return length, end, new_value, gradient
        length *= 0.5


def _dot(one: Array, other: Array) -> float:
    return float((one * other).sum())


def _with_pair(pairs: list[_Pair], step: Array, change: Array) -> list[_Pair]:
    """Return the last pairs with another one: a step and the change of the gradient along it."""
    bend = _dot(step, change)
    # a pair without curvature would make the inverse indefinite
    return [*pairs[-MEMORY + 1 :], (step, change, bend)] if bend > 0 else pairs


def _inverse_times(pairs: list[_Pair], slope: Array, first: Callable[[Array], Array]) -> Array:
    """Return the inverse Hessian that the pairs make of the ``first`` one, times ``slope``, by two loops over them."""
    out = slope.copy()
    shares = []
    for step, change, bend in reversed(pairs):
        share = _dot(step, out) / bend
        out -= share * change
        shares.append(share)
    out = first(out)
    for (step, change, bend), share in zip(pairs, reversed(shares), strict=True):
        out += (share - _dot(change, out) / bend) * step
    return out
