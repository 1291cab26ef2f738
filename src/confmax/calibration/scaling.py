"""The log loss of scaled probabilities and its minimisers: compiled sums over rows, a few Newton steps on top.

Every calibrator here is ``softmax(a_k log(p_k + floor) + b_k)``; a temperature is the case ``a_k = 1 / T`` and
``b_k = 0``. The log loss is convex in (a, b); the floor is one of a short list. Sums run over a fixed number of parts,
added in a fixed order, so that the result does not depend on the number of threads; nothing larger than the table and a
(2K, 2K) Hessian is ever held.

Powers are never negative. Weights are relative: fits and tests use ``(sum w)^2 / sum w^2`` as the number of rows. A
Gaussian prior of unit variance around the identity keeps every fit finite and unique; it is worth four rows at even
odds and was not tuned. Newton steps reuse their Hessian while they shrink fast, and Hessians add four rows at a time.
Without a floor, a few confident mistakes dominate a fit: the accuracy of one overfitted gradient boosting model fell
from .66 to .57 under vector scaling (`benchmarks/RESULTS.md`, section calibration, has the measured effect).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from confmax.confusion import Array
from confmax.kernels.blocks import run_parts
from confmax.kernels.softmax import ROWS, log_all, softmax_rows, weighted_sum

FLOOR = 1e-12  # added to every probability, in float32 and float64 alike: a zero has no logarithm
FLOORS = (FLOOR, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
FLOOR_WORTH = 2.0  # nats of the total loss that a higher floor must save
PRECISION = 1.0  # of the Gaussian prior around the identity, in 1 / nat^2
POWERS = (1e-3, 1e3)  # range of 1 / T
NEWTON_CLASSES = 128  # with more classes the Hessian costs more than it saves,
WIDE_TOL = 1e-4  # and steps end where no parameter is off by more than about a hundredth of its standard error
PARTS, PART_ROWS = 64, 4096
MAX_STEPS, MAX_WIDE_STEPS, MEMORY = 60, 500, 20
TINY, MOST_SHARE = 1e-300, 0.9  # where a group has nearly all curvature along its step, a step says little

_NO_SECOND, _BLOCKS, _FULL = 0, 1, 2


# --- sums over rows ---------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, error_model="numpy")
def _logs(proba, start, stop, floor, out):  # type: ignore[no-untyped-def]
    for i in range(start, stop):
        log_all(proba[i], floor, out[i])


@njit(cache=True, nogil=True)
def _next_rows(use, low, stop, rows):  # type: ignore[no-untyped-def]
    """List the next rows from low that are used, as many as rows (R,) holds; return their number and where to go on."""
    n = 0
    while low < stop and n < rows.shape[0]:
        if use[low]:
            rows[n] = low
            n += 1
        low += 1
    return n, low


@njit(cache=True, nogil=True, error_model="numpy")
def _losses(z, y, use, start, stop, a, b, out):  # type: ignore[no-untyped-def]
    q, log_total, rows = np.empty((ROWS, z.shape[1])), np.empty(ROWS), np.empty(ROWS, np.int64)
    low = start
    while low < stop:
        n, low = _next_rows(use, low, stop, rows)
        softmax_rows(z, rows, n, a, b, q, log_total)
        for r in range(n):
            i = rows[r]
            out[i] = log_total[r] - (a[y[i]] * z[i, y[i]] + b[y[i]])


@njit(cache=True, nogil=True, error_model="numpy")
def _power_sums(z, y, w, start, stop, power, zero, out):  # type: ignore[no-untyped-def]
    """Add loss, first and second derivative by the common power (3,)."""
    K = z.shape[1]
    q, log_total, rows, a = np.empty((ROWS, K)), np.empty(ROWS), np.empty(ROWS, np.int64), np.full(K, power)
    low = start
    while low < stop:
        n, low = _next_rows(w, low, stop, rows)
        softmax_rows(z, rows, n, a, zero, q, log_total)
        for r in range(n):
            i = rows[r]
            mean = weighted_sum(q[r], z[i], 0.0, 1)
            true = z[i, y[i]]
            out[0] += w[i] * (log_total[r] - power * true)
            out[1] += w[i] * (mean - true)
            out[2] += w[i] * weighted_sum(q[r], z[i], mean, 2)


@njit(cache=True, nogil=True, error_model="numpy")
def _vector_sums(z, y, w, start, stop, a, b, order, loss, gradient, second):  # type: ignore[no-untyped-def]
    """Add loss (1,), gradient (2K,) and second derivatives: none, (2K, 2K) above the diagonal, or blocks (3, K)."""
    K = z.shape[1]
    q, log_total, rows = np.empty((ROWS, K)), np.empty(ROWS), np.empty(ROWS, np.int64)
    # the derivatives of the scores by a and b, times the probabilities; without weight for rows that fill a block
    u, v = np.zeros((ROWS, 2 * K)), np.zeros((ROWS, 2 * K))
    low = start
    while low < stop:
        n, low = _next_rows(w, low, stop, rows)
        softmax_rows(z, rows, n, a, b, q, log_total)
        for r in range(n):
            i = rows[r]
            wi, yi, row = w[i], y[i], z[i]
            loss[0] += wi * (log_total[r] - a[yi] * row[yi] - b[yi])
            for k in range(K):
                u[r, k] = q[r, k] * row[k]
                u[r, K + k] = q[r, k]
            for c in range(2 * K):
                v[r, c] = wi * u[r, c]
                gradient[c] += v[r, c]
            gradient[yi] -= wi * row[yi]
            gradient[K + yi] -= wi
            if order == 2:
                for k in range(K):
                    second[k, k] += v[r, k] * row[k]
                    second[k, K + k] += v[r, k]
                    second[K + k, K + k] += v[r, K + k]
            elif order == 1:
                for k in range(K):
                    spread = v[r, K + k] * (1.0 - q[r, k])
                    second[0, k] += spread * row[k] * row[k]
                    second[1, k] += spread * row[k]
                    second[2, k] += spread
        if order == 2:
            u[n:], v[n:] = 0.0, 0.0
            _subtract_products(v, u, n, second)


@njit(cache=True, nogil=True)
def _subtract_products(v, u, n, second):  # type: ignore[no-untyped-def]
    """Subtract ``v^T u`` of the first n rows (R, d), R a multiple of four, above the diagonal; four rows in turn."""
    d = u.shape[1]
    for r in range(0, n, 4):
        u0, u1, u2, u3 = u[r], u[r + 1], u[r + 2], u[r + 3]
        for k in range(d):
            v0, v1, v2, v3 = v[r, k], v[r + 1, k], v[r + 2, k], v[r + 3, k]
            row = second[k]
            for c in range(k, d):
                row[c] -= (v0 * u0[c] + v1 * u1[c]) + (v2 * u2[c] + v3 * u3[c])


def _edges(n: int) -> NDArray[np.int64]:
    """Return where the parts begin and end: a function of the number of rows alone."""
    return np.linspace(0, n, max(1, min(PARTS, -(-n // PART_ROWS))) + 1).astype(np.int64)


def log_table(proba: NDArray[Any], floor: float = FLOOR) -> NDArray[Any]:
    """Return ``log(proba + floor)`` (n, K) in the table's dtype."""
    out, edges = np.empty_like(proba), _edges(len(proba))
    run_parts(lambda part: _logs(proba, edges[part], edges[part + 1], floor, out), len(edges) - 1)
    return out


def row_losses(z: NDArray[Any], y: NDArray[np.int64], theta: Array, use: NDArray[np.bool_]) -> Array:
    """Return the log loss in nats of the rows to ``use``, under parameters ``theta = (a, b)`` (2, K)."""
    out, edges = np.empty(len(z)), _edges(len(z))
    run_parts(lambda part: _losses(z, y, use, edges[part], edges[part + 1], theta[0], theta[1], out), len(edges) - 1)
    return out[use]


# --- what is left out -------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _times(vectors, start, stop, matrix, out):  # type: ignore[no-untyped-def]
    # not a library's product, whose last digits depend on the number of threads
    for r in range(start, stop):
        for i in range(matrix.shape[0]):
            for j in range(matrix.shape[1]):
                out[r, j] += vectors[r, i] * matrix[i, j]


def left_out_losses(
    z: NDArray[Any], y: NDArray[np.int64], w: Array, theta: Array, group: NDArray[np.intp], *, common: bool
) -> Array | None:
    """Return the log loss (n,) of every row under the fit without the rows of its group.

    A Newton step leads from the fit on all rows to the fit without a group, with the Hessian of the other rows along
    the step (approximate leave-one-out; Beirami et al., *On optimal generalizability in parametric learning*, 2017).

    Parameters
    ----------
    z, y, w
        Log-probabilities (n, K), labels (n,), weights (n,) in rows.
    theta : ndarray (2, K)
        The fit on all rows: powers and offsets.
    group : ndarray (n,)
        Which rows are left out together, numbered from 0.
    common : bool
        Whether the fit is one power, the same for all classes, without offsets.

    Returns
    -------
    ndarray (n,) or None
        None with more classes than have a Hessian.
    """
    n, K = z.shape
    if K > NEWTON_CLASSES:
        return None
    a, b = theta
    d = 1 if common else 2 * K
    slope, bend, out = np.empty((n, d)), np.empty(n), np.empty(n)
    edges = _edges(n)

    def slopes(part: int) -> None:
        rows = slice(edges[part], edges[part + 1])
        x, wide = z[rows].astype(np.float64), w[rows, None]
        q = _softmax(x * a + b)
        bend[rows] = w[rows] * _variance(q, x) if common else 0.0
        q[np.arange(len(q)), y[rows]] -= 1.0
        slope[rows] = (q * x).sum(axis=1, keepdims=True) * wide if common else np.concatenate([q * x, q], axis=1) * wide

    run_parts(slopes, len(edges) - 1)
    if common:
        inverse = np.array([[1.0 / (PRECISION + float(bend.sum()))]])
    else:
        free = np.append(a > 0, np.ones(K, dtype=np.bool_))  # a power that the fit holds at zero stays there
        inverse = np.zeros((d, d))
        hessian = _vector_at(z, y, w, theta.reshape(-1), _FULL)[2]
        inverse[np.ix_(free, free)] = np.linalg.inv(hessian[np.ix_(free, free)])
    order = np.argsort(group, kind="stable")
    firsts = np.flatnonzero(np.diff(group[order], prepend=-1))
    slope = np.add.reduceat(slope[order], firsts, axis=0)
    step, places = np.zeros_like(slope), _edges(len(slope))
    run_parts(lambda part: _times(slope, places[part], places[part + 1], inverse, step), len(places) - 1)

    def along(rows: slice) -> tuple[Array, Array]:
        x, moved = z[rows].astype(np.float64), step[group[rows]]
        return x * a + b, x * moved if common else x * moved[:, :K] + moved[:, K:]

    def bends(part: int) -> None:
        rows = slice(edges[part], edges[part + 1])
        score, change = along(rows)
        bend[rows] = w[rows] * _variance(_softmax(score), change)

    run_parts(bends, len(edges) - 1)
    # of all curvature along the step, the share of the group itself is gone with it
    share = np.add.reduceat(bend[order], firsts) / np.maximum((slope * step).sum(axis=1), TINY)
    longer = 1.0 / (1.0 - np.minimum(share, MOST_SHARE))

    def losses(part: int) -> None:
        rows = slice(edges[part], edges[part + 1])
        score, change = along(rows)
        score += change * longer[group[rows], None]
        top = score.max(axis=1)
        true = score[np.arange(len(score)), y[rows]]
        out[rows] = top + np.log(np.exp(score - top[:, None]).sum(axis=1)) - true

    run_parts(losses, len(edges) - 1)
    return out


def _softmax(score: Array) -> Array:
    e = np.exp(score - score.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def _variance(q: Array, x: Array) -> Array:
    """Return the variance (n,) of ``x`` (n, K) under probabilities ``q``."""
    mean = (q * x).sum(axis=1, keepdims=True)
    return np.asarray((q * (x - mean) ** 2).sum(axis=1))


# --- the minimisers ---------------------------------------------------------------------------------------------------


def fit_power(z: NDArray[Any], y: NDArray[np.int64], w: Array, start: float = 1.0, *, tol: float = 1e-8) -> float:
    """Return the power ``1 / T`` of least penalised log loss, by Newton steps inside a shrinking bracket.

    Parameters
    ----------
    z, y, w
        Log-probabilities (n, K), labels (n,), weights (n,) in rows; rows of weight zero are skipped.
    start : float
        Where to begin.
    tol : float
        Expected decrease of the total loss, nats, of the last step that is taken.
    """
    edges, zero = _edges(len(z)), np.zeros(z.shape[1])
    low, high = POWERS
    power = start
    for _ in range(MAX_STEPS):
        parts = np.zeros((len(edges) - 1, 3))
        at = power
        run_parts(lambda part: _power_sums(z, y, w, edges[part], edges[part + 1], at, zero, parts[part]), len(parts))  # noqa: B023
        _, slope, bend = parts.sum(axis=0)
        slope, bend = slope + PRECISION * (power - 1.0), bend + PRECISION
        low, high = (low, power) if slope > 0 else (power, high)
        step = power - slope / bend
        # outside the bracket the model of the loss is not to be trusted
        power = step if low <= step <= high else 0.5 * (low + high)
        if (power == step and 0.5 * slope * slope / bend <= tol) or high - low <= 1e-12 * high:
            break
    return float(power)


def _vector_at(z: NDArray[Any], y: NDArray[np.int64], w: Array, theta: Array, order: int) -> tuple[float, Array, Array]:
    """Return penalised loss, gradient (2K,) and second derivatives at ``theta`` (2K,)."""
    K = z.shape[1]
    edges = _edges(len(z))
    parts = len(edges) - 1
    loss, gradient = np.zeros((parts, 1)), np.zeros((parts, 2 * K))
    second = np.zeros((parts, *((2 * K, 2 * K) if order == _FULL else (3, K) if order == _BLOCKS else (0, 0))))

    def work(part: int) -> None:
        _vector_sums(z, y, w, edges[part], edges[part + 1], theta[:K], theta[K:], order, loss[part], gradient[part],
                     second[part])  # fmt: skip

    run_parts(work, parts)
    away = theta - np.repeat([1.0, 0.0], K)
    value = float(loss.sum()) + 0.5 * PRECISION * float((away * away).sum())
    total = second.sum(axis=0)
    if order == _FULL:
        total = np.triu(total) + np.triu(total, 1).T + PRECISION * np.eye(2 * K)
    elif order == _BLOCKS:
        total[[0, 2]] += PRECISION
    return value, gradient.sum(axis=0) + PRECISION * away, total


def best_floor(proba: NDArray[Any], y: NDArray[np.int64], w: Array) -> float:
    """Return the floor under which a temperature fits best; the lowest unless another saves 2 nats of the total loss.

    One row whose true class has probability 1e-12 outweighs a hundred ordinary ones in every sum here. A floor is what
    the model may be wrong by for no reason that its probabilities show, and it bounds what such a row can do.
    """
    rows, lowest, found = np.ones(len(y), dtype=np.bool_), np.inf, FLOOR
    power = 1.0
    for floor in FLOORS:
        z = log_table(proba, floor)
        power = fit_power(z, y, w, power, tol=1e-4)
        theta = np.array([np.full(z.shape[1], power), np.zeros(z.shape[1])])
        loss = float((w * row_losses(z, y, theta, rows)).sum()) + 0.5 * PRECISION * (power - 1.0) ** 2
        worth = FLOOR_WORTH if found == FLOOR and floor > FLOOR else 0.0
        if loss < lowest - worth:
            lowest, found = loss, floor
    return found


def fit_vector(
    z: NDArray[Any],
    y: NDArray[np.int64],
    w: Array,
    start: Array | None = None,
    *,
    curvature: Array | None = None,
    tol: float = 1e-8,
) -> Array:
    """Return the parameters ``(a, b)`` (2, K) of least penalised log loss, no power ``a_k`` being negative.

    A negative power would make a class less likely as its own probability grows. Where the minimum has none, it is
    the unconstrained one. Damped Newton steps; above `NEWTON_CLASSES` classes L-BFGS in coordinates that whiten each
    class's pair. The prior makes the minimum unique: adding a constant to b changes no probability, and the prior then
    prefers ``sum b = 0``. ``curvature`` is a Hessian from nearby (`hessian_at`) to begin with; the rest is as for
    `fit_power`.
    """
    K = z.shape[1]
    theta = np.repeat([1.0, 0.0], K) if start is None else np.asarray(start, dtype=np.float64).reshape(-1)
    if K > NEWTON_CLASSES:
        tol = max(tol, WIDE_TOL)
        found = _quasi_newton(z, y, w, theta, tol)
    else:
        found = _newton(z, y, w, theta, curvature, tol)
    return (found if (found[:K] >= 0.0).all() else _nonnegative(z, y, w, found, tol)).reshape(2, K)


def vector_loss(z: NDArray[Any], y: NDArray[np.int64], w: Array, theta: Array) -> float:
    """Return the total penalised loss in nats at ``theta`` (2, K)."""
    return _vector_at(z, y, w, theta.reshape(-1), _NO_SECOND)[0]


def hessian_at(z: NDArray[Any], y: NDArray[np.int64], w: Array, theta: Array) -> Array | None:
    """Return the Hessian (2K, 2K) at ``theta`` (2, K); None for more classes than have one."""
    return None if z.shape[1] > NEWTON_CLASSES else _vector_at(z, y, w, theta.reshape(-1), _FULL)[2]


def _nonnegative(z: NDArray[Any], y: NDArray[np.int64], w: Array, start: Array, tol: float) -> Array:
    """Minimise over powers of at least zero, from an unconstrained minimum (2K,) that has negative ones.

    Lawson and Hanson's active set: a minimum over the free powers is approached from a feasible point until a power
    reaches zero, which is then held there; at a feasible minimum the power with the most to gain is let go.
    """
    K = z.shape[1]
    held = start[:K] <= 0.0
    theta = np.concatenate([np.maximum(start[:K], 0.0), start[K:]])
    for _ in range(3 * K + 10):
        if K > NEWTON_CLASSES:
            goal = _quasi_newton(z, y, w, theta, tol, held)
        else:
            goal = _newton(z, y, w, theta, None, tol, held)
        falling = goal[:K] < 0.0
        if falling.any():
            a = theta[:K]
            reach = np.where(falling, a / np.where(falling, a - goal[:K], 1.0), np.inf)
            theta = theta + reach.min() * (goal - theta)
            held = held | (reach <= reach.min())
            theta[:K][held] = 0.0
            continue
        theta = goal
        _, gradient, (bend, _, _) = _vector_at(z, y, w, theta, _BLOCKS)
        gain = np.where(held & (gradient[:K] < 0.0), gradient[:K] ** 2 / (2.0 * bend), 0.0)
        if gain.max() <= tol:
            break
        held[int(np.argmax(gain))] = False
    return theta


def _newton(
    z: NDArray[Any],
    y: NDArray[np.int64],
    w: Array,
    theta: Array,
    hessian: Array | None,
    tol: float,
    held: NDArray[np.bool_] | None = None,
) -> Array:
    """Newton steps with a Hessian that is kept for as long as steps shrink fast: it costs several gradients.

    Powers that are ``held`` (K,) stay as they are.
    """
    still = np.zeros(0, dtype=np.int64) if held is None else np.flatnonzero(held)
    value, gradient, _ = _vector_at(z, y, w, theta, _NO_SECOND)
    fresh, last_promise = False, np.inf
    for _ in range(MAX_STEPS):
        if hessian is None:
            hessian, fresh = _vector_at(z, y, w, theta, _FULL)[2], True
            hessian[still], hessian[:, still] = 0.0, 0.0
            hessian[still, still] = 1.0
        gradient[still] = 0.0
        step = np.linalg.solve(hessian, -gradient)
        promised = -float(gradient @ step)
        if promised <= 2.0 * tol:
            return theta + step
        if not fresh and promised > 0.05 * last_promise:
            hessian = None
            continue
        length = 1.0
        while True:
            new_value, new_gradient, _ = _vector_at(z, y, w, theta + length * step, _NO_SECOND)
            # the last digits of a long sum are rounding
            if new_value <= value - 1e-4 * length * promised + 1e-13 * abs(value) or length < 1e-8:
                break
            length *= 0.5
        theta, value, gradient = theta + length * step, new_value, new_gradient
        fresh, last_promise = False, promised
    return theta


def _quasi_newton(
    z: NDArray[Any], y: NDArray[np.int64], w: Array, theta: Array, tol: float, held: NDArray[np.bool_] | None = None
) -> Array:
    """L-BFGS with unit first steps, in coordinates where every class's block of the first Hessian is the identity.

    Its own few lines, as library routines call a BLAS whose last digits depend on the number of threads. Powers that
    are ``held`` (K,) stay as they are.
    """
    still = np.zeros(0, dtype=np.int64) if held is None else np.flatnonzero(held)
    value, gradient, (aa, ab, bb) = _vector_at(z, y, w, theta, _BLOCKS)
    # Cholesky factors of the 2 x 2 blocks [[aa, ab], [ab, bb]]
    first = np.sqrt(aa)
    mixed = ab / first
    mixed[still] = 0.0
    last = np.sqrt(np.maximum(bb - mixed * mixed, PRECISION))

    def back(x: Array) -> Array:
        """Solve ``L^T theta = x`` class by class."""
        xa, xb = x.reshape(2, -1)
        b = xb / last
        return np.concatenate([(xa - mixed * b) / first, b])

    def forth(g: Array) -> Array:
        """Solve ``L x = g`` class by class: the gradient in the other coordinates."""
        ga, gb = g.reshape(2, -1)
        ga = ga / first
        ga[still] = 0.0
        return np.concatenate([ga, (gb - mixed * ga) / last])

    slope = forth(gradient)
    pairs: list[tuple[Array, Array, float]] = []
    for _ in range(MAX_WIDE_STEPS):
        if np.abs(slope).max() <= np.sqrt(tol):
            break
        step = -_inverse_times(pairs, slope)
        promised, length = -_dot(step, slope), 1.0
        while True:
            new_value, new_gradient, _ = _vector_at(z, y, w, theta + length * back(step), _NO_SECOND)
            if new_value <= value - 1e-4 * length * promised + 1e-13 * abs(value) or length < 1e-8:
                break
            length *= 0.5
        theta, value, new_slope = theta + length * back(step), new_value, forth(new_gradient)
        change = new_slope - slope
        bend = _dot(length * step, change)
        if bend > 0:
            pairs = [*pairs[-MEMORY + 1 :], (length * step, change, bend)]
        slope = new_slope
    return theta


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
