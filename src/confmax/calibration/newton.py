"""Minimisers of smooth convex losses, by sums in a fixed order: damped Newton steps, and L-BFGS.

Their own few lines, as library routines call a BLAS whose last digits depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array

MAX_STEPS, MAX_WIDE_STEPS, MEMORY = 60, 500, 20
NO_SECOND, BLOCKS, FULL = 0, 1, 2  # second derivatives: none, of each class by itself, or all


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
    solve: Callable[[Array, Array], Array] | None = None,
    slow: float = 0.05,
) -> Array:
    """Minimise by Newton steps with a Hessian that is kept for as long as steps shrink fast: it costs many gradients.

    Parameters
    ----------
    loss : Loss
        What is minimised.
    theta : ndarray (d,)
        Where to begin.
    tol : float
        Expected decrease of the last step that is taken.
    still : ndarray of int or None
        Parameters that stay as they are.
    hessian : ndarray (d, d) or None
        A Hessian from nearby to begin with.
    solve : callable or None
        Solves a positive definite system; by default `numpy.linalg.solve`, for systems that are small.
    slow : float
        What a step may promise, as a part of what the last one did, before a new Hessian is worth its time.
    """
    still = np.zeros(0, dtype=np.intp) if still is None else still
    value, gradient, _ = loss(theta, NO_SECOND)
    fresh, last_promise = False, np.inf
    for _ in range(MAX_STEPS):
        if hessian is None:
            hessian, fresh = loss(theta, FULL)[2], True
            # rows and columns of the identity: a parameter that is held does not move
            hessian[still], hessian[:, still] = 0.0, 0.0
            hessian[still, still] = 1.0
        gradient[still] = 0.0
        step = np.asarray((solve or np.linalg.solve)(hessian, -gradient), dtype=np.float64)
        promised = -float(gradient @ step)
        # a Newton step promises twice what it takes off the loss
        if promised <= 2.0 * tol:
            return np.asarray(theta + step)
        if not fresh and promised > slow * last_promise:
            hessian = None
            continue
        _, theta, value, gradient = _shortened(loss, theta, value, step, promised)
        fresh, last_promise = False, promised
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
    pairs: list[tuple[Array, Array, float]] = []
    for _ in range(MAX_WIDE_STEPS):
        # where the curvature is about one, half a squared slope is what a step may still gain
        if np.abs(slope).max() <= np.sqrt(tol):
            break
        step = -_inverse_times(pairs, slope)
        length, theta, value, gradient = _shortened(loss, theta, value, back(step), -_dot(step, slope))
        old, slope = slope, forth(gradient)
        step, change = length * step, slope - old
        bend = _dot(step, change)
        # a pair without curvature would make the inverse indefinite
        if bend > 0:
            pairs = [*pairs[-MEMORY + 1 :], (step, change, bend)]
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


def _inverse_times(pairs: list[tuple[Array, Array, float]], slope: Array) -> Array:
    """Return the inverse Hessian that the pairs tell of, times ``slope``, by two loops over them."""
    out, shares = slope.copy(), []
    for step, change, bend in reversed(pairs):
        share = _dot(step, out) / bend
        out -= share * change
        shares.append(share)
    if pairs:
        _, change, bend = pairs[-1]
        out *= bend / _dot(change, change)
    for (step, change, bend), share in zip(pairs, reversed(shares), strict=True):
        out += (share - _dot(change, out) / bend) * step
    return out
