"""The log loss of scaled probabilities and its minimisers: compiled sums over rows, a few Newton steps on top.

Every calibrator here is ``softmax(a_k log(p_k + floor) + b_k)``; a temperature is the case ``a_k = 1 / T`` and
``b_k = 0``. The log loss is convex in (a, b); the floor is one of a short list. Sums run over a fixed number of parts,
added in a fixed order, so that the result does not depend on the number of threads; nothing larger than the table and a
(2K, 2K) Hessian is ever held.

Powers are never negative. Weights are relative: fits and tests use ``(sum w)^2 / sum w^2`` as the number of rows. A
Gaussian prior of unit variance around the identity keeps every fit finite and unique; it is worth four rows at even
odds and was not tuned. It is more precise for classes of few rows (`Sample.precision`), which would move their numbers
by chance (`benchmarks/RESULTS.md`, section rare classes). Newton steps reuse their Hessian while they shrink fast, and
Hessians add four rows at a time. Without a floor, a few confident mistakes dominate a fit: the accuracy of one
overfitted gradient boosting model fell from .66 to .57 under vector scaling (`benchmarks/RESULTS.md`, section
calibration, has the measured effect).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax import kernels
from confmax.calibration.newton import BLOCKS, FULL, MAX_STEPS, NO_SECOND, newton, quasi_newton
from confmax.confusion import Array
from confmax.kernels.blocks import run_parts
from confmax.kernels.products import times
from confmax.kernels.softmax import few_at_a_time, softmax_rows, write_logs

FLOOR = 1e-12  # added to every probability, in float32 and float64 alike: a zero has no logarithm
FLOORS = (FLOOR, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 3e-2, 1e-1)
FLOOR_WORTH = 2.0  # nats of the total loss that a higher floor must save
PRECISION = 1.0  # of the Gaussian prior, in 1 / nat^2, on what belongs to a class of many rows
# rows of a class at which the precision is twice as large: on its power and offset, and on powers of other classes
OWN_ROWS = 10.0
PULL_ROWS = 100.0
POWERS = (1e-3, 1e3)  # range of 1 / T
NEWTON_CLASSES = 128  # with more classes the Hessian costs more than it saves,
WIDE_TOL = 1e-4  # and steps end where no parameter is off by more than about a hundredth of its standard error
PARTS = 64
PART_ROWS = 4096
# where copies have nearly all curvature along their step, a step says little
TINY = 1e-300
MOST_SHARE = 0.9


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows that a calibrator is fitted on: logarithms over a floor (n, K) (`log_table`), labels and weights (n,).

    Weights are in rows; rows of weight zero are skipped.
    """

    z: NDArray[Any]
    labels: NDArray[np.int64]
    weight: Array

    @cached_property
    def of_class(self) -> Array:
        """How many rows each class has (K,), at least one."""
        return np.maximum(np.bincount(self.labels, self.weight, self.z.shape[1]), 1.0)

    @property
    def precision(self) -> Array:
        """Precisions (K,) of the prior on the power and the offset of each class: few rows say little of them."""
        return PRECISION * (1.0 + OWN_ROWS / self.of_class)


def in_parts(n: int, work: Callable[[int, int], Any]) -> list[Any]:
    """Return what ``work(start, stop)`` makes of the parts of n rows, whose ends depend on this number alone."""
    edges = _edges(n)
    return run_parts(lambda part: work(edges[part], edges[part + 1]), len(edges) - 1)


@lru_cache(maxsize=64)
def _edges(n: int) -> list[int]:
    """Return where the parts of n rows begin and end; a fit asks for them in every step."""
    edges: list[int] = np.linspace(0, n, max(1, min(PARTS, -(-n // PART_ROWS))) + 1).astype(np.int64).tolist()
    return edges


@dataclass(frozen=True, eq=False)
class _Softmax:
    """Some rows (n,), their labels and weights (n,), logarithms x, softmax q (n, K) and logarithms of normalisers."""

    rows: NDArray[np.intp]
    y: NDArray[np.int64]
    w: Array
    x: Array
    q: Array
    log_total: Array

    @property
    def truth(self) -> Array:
        return np.asarray(self.x[np.arange(len(self.y)), self.y])

    def losses(self, a: Array, b: Array) -> Array:
        return np.asarray(self.log_total - (a[self.y] * self.truth + b[self.y]))


def _softmaxes(
    rows: Sample, use: NDArray[Any], start: int, stop: int, a: Array | float, b: Array | float
) -> Iterator[_Softmax]:
    """Yield the softmax of the rows that are used, in NumPy, a few at a time."""
    for part in few_at_a_time(start, stop, rows.z.shape[1]):
        i = part.start + np.flatnonzero(use[part])
        x = rows.z[i].astype(np.float64)
        yield _Softmax(i, rows.labels[i], rows.weight[i], x, *softmax_rows(a * x + b))


def log_table(proba: NDArray[Any], floor: float = FLOOR) -> NDArray[Any]:
    """Return ``log(proba + floor)`` (n, K) in the table's dtype."""
    # rows in their order, whatever that of the table: a part of them is one vector then
    out = np.empty(proba.shape, proba.dtype)
    in_parts(len(out), lambda low, high: write_logs(proba[low:high].reshape(-1), floor, out[low:high].reshape(-1)))
    return out


def row_losses(rows: Sample, theta: Array, use: NDArray[np.bool_]) -> Array:
    """Return the log loss in nats of the rows to ``use``, under parameters ``theta = (a, b)`` (2, K)."""
    out = np.empty(len(rows.z))
    (a, b) = theta

    def work(start: int, stop: int) -> None:
        if kernels.native is not None:
            kernels.native.row_losses(rows.z, rows.labels, use, start, stop, a, b, out)
            return
        for part in _softmaxes(rows, use, start, stop, a, b):
            out[part.rows] = part.losses(a, b)

    in_parts(len(out), work)
    return out[use]


def losses_of(of_truth: NDArray[Any]) -> Array:
    """Return the log losses (n,) in nats of probabilities of the true classes (n,); below 1e-12 they count as 1e-12."""
    parts = in_parts(len(of_truth), lambda low, high: np.log(np.maximum(of_truth[low:high].astype(np.float64), FLOOR)))
    return np.asarray(-np.concatenate(parts))


def one_power(power: float, K: int) -> Array:
    """Return the parameters (2, K) of one power for all classes, and no offsets."""
    return np.array([np.full(K, power), np.zeros(K)])


def left_out_losses(rows: Sample, theta: Array, copies: NDArray[np.intp], *, common: bool) -> Array | None:
    """Return the log loss (n,) of every row under the fit without its copies.

    None with more classes than have a Hessian. A Newton step leads from the fit ``theta`` (2, K) on all rows, powers
    and offsets, to the fit without copies, with the Hessian of the other rows along the step (approximate
    leave-one-out; Beirami et al., *On optimal generalizability in parametric learning*, 2017). Rows of one number among
    ``copies`` (n,), from 0, are left out together. A ``common`` fit is one power, the same for all classes, without
    offsets.
    """
    n, K = rows.z.shape
    if K > NEWTON_CLASSES:
        return None
    if common:
        inverse = np.array([[1.0 / _power_derivatives(rows, float(theta[0, 0]))[2]]])
    else:
        free = np.append(theta[0] > 0, np.ones(K, dtype=np.bool_))  # a power that the fit holds at zero stays there
        inverse = np.zeros((2 * K, 2 * K))
        hessian = derivatives(rows, theta, FULL)[2]
        inverse[np.ix_(free, free)] = np.linalg.inv(hessian[np.ix_(free, free)])
    if kernels.native is None:
        return _without_copies(rows, theta, copies, inverse)
    # most rows have no copies: the kernel takes a row by itself through all steps
    out = np.empty(n)
    (a, b) = theta
    alone = np.bincount(copies)[copies] == 1
    in_parts(
        n,
        lambda start, stop: kernels.native.leave_out(
            rows.z, rows.labels, rows.weight, alone, start, stop, a, b, inverse, TINY, MOST_SHARE, out
        ),
    )
    repeated = np.flatnonzero(~alone)
    if len(repeated):
        part = Sample(rows.z[repeated], rows.labels[repeated], rows.weight[repeated])
        out[repeated] = _without_copies(part, theta, np.unique(copies[repeated], return_inverse=True)[1], inverse)
    return out


def _without_copies(rows: Sample, theta: Array, copies: NDArray[np.intp], inverse: Array) -> Array:
    """Return the log loss (n,) of rows one Newton step away from their copies, by the ``inverse`` Hessian (d, d)."""
    n, K = rows.z.shape
    y = rows.labels
    w = rows.weight
    (a, b) = theta
    common = len(inverse) == 1

    def slopes(start: int, stop: int) -> Array:
        x = rows.z[start:stop].astype(np.float64)
        q = softmax_rows(x * a + b)[0]
        # probabilities less labels: the derivative of the loss by the scores
        q[np.arange(len(q)), y[start:stop]] -= 1.0
        by = (q * x).sum(axis=1, keepdims=True) if common else np.concatenate([q * x, q], axis=1)
        return np.asarray(by * w[start:stop, None])

    slope = np.concatenate(in_parts(n, slopes))
    order = np.argsort(copies, kind="stable")
    firsts = np.flatnonzero(np.diff(copies[order], prepend=-1))
    slope = np.add.reduceat(slope[order], firsts, axis=0)
    step = np.concatenate(in_parts(len(slope), lambda start, stop: times(slope[start:stop], inverse)))

    def along(start: int, stop: int) -> tuple[Array, Array]:
        x = rows.z[start:stop].astype(np.float64)
        moved = step[copies[start:stop]]
        return x * a + b, x * moved if common else x * moved[:, :K] + moved[:, K:]

    def bends(start: int, stop: int) -> Array:
        score, change = along(start, stop)
        q = softmax_rows(score)[0]
        mean = (q * change).sum(axis=1, keepdims=True)
        return np.asarray(w[start:stop] * (q * (change - mean) ** 2).sum(axis=1))

    # of all curvature along the step, the share of the copies is gone with it
    bend = np.add.reduceat(np.concatenate(in_parts(n, bends))[order], firsts)
    longer = 1.0 / (1.0 - np.minimum(bend / np.maximum((slope * step).sum(axis=1), TINY), MOST_SHARE))

    def losses(start: int, stop: int) -> Array:
        score, change = along(start, stop)
        score += change * longer[copies[start:stop], None]
        return np.asarray(softmax_rows(score)[1] - score[np.arange(len(score)), y[start:stop]])

    return np.concatenate(in_parts(n, losses))


def fit_power(rows: Sample, start: float = 1.0, *, tol: float = 1e-8) -> float:
    """Return the power ``1 / T`` of least penalised log loss, by Newton steps inside a shrinking bracket.

    ``tol`` is the expected decrease of the total loss, nats, of the last step that is taken.
    """
    low, high = POWERS
    power = start
    for _ in range(MAX_STEPS):
        _, slope, bend = _power_derivatives(rows, power)
        low, high = (low, power) if slope > 0 else (power, high)
        step = power - slope / bend
        # outside the bracket the model of the loss is not to be trusted
        power = step if low <= step <= high else 0.5 * (low + high)
        if (power == step and 0.5 * slope * slope / bend <= tol) or high - low <= 1e-12 * high:
            break
    return float(power)


def _power_derivatives(rows: Sample, power: float) -> tuple[float, float, float]:
    """Return the penalised loss, and its first and second derivative by the common power."""

    def sums(start: int, stop: int) -> Array:
        out = np.zeros(3)
        if kernels.native is not None:
            kernels.native.power_sums(rows.z, rows.labels, rows.weight, start, stop, float(power), out)
            return out
        for part in _softmaxes(rows, rows.weight, start, stop, power, 0.0):
            mean = (part.q * part.x).sum(axis=1)
            spread = (part.q * (part.x - mean[:, None]) ** 2).sum(axis=1)
            terms = np.array([part.log_total - power * part.truth, mean - part.truth, spread])
            out += (part.w * terms).sum(axis=1)
        return out

    loss, slope, bend = np.sum(in_parts(len(rows.z), sums), axis=0)
    away = power - 1.0
    return loss + 0.5 * PRECISION * away**2, slope + PRECISION * away, bend + PRECISION


def derivatives(rows: Sample, theta: Array, order: int) -> tuple[float, Array, Array]:
    """Return penalised loss, gradient (2K,) and second derivatives of an ``order`` at ``theta`` (2, K) or (2K,).

    Those of each class by itself are (3, K), all of them (2K, 2K).
    """
    K = rows.z.shape[1]
    theta = theta.reshape(-1)
    a = theta[:K]
    b = theta[K:]
    shape = {NO_SECOND: (0, 0), BLOCKS: (3, K), FULL: (2 * K, 2 * K)}[order]

    def sums(start: int, stop: int) -> tuple[Array, Array, Array]:
        out = np.zeros(1), np.zeros(2 * K), np.zeros(shape)
        if kernels.native is not None:
            kernels.native.vector_sums(rows.z, rows.labels, rows.weight, start, stop, a, b, order, *out)
            return out
        for part in _softmaxes(rows, rows.weight, start, stop, a, b):
            out[0][0] += (part.w * part.losses(a, b)).sum()
            _add_slopes(part, order, *out[1:])
        return out

    # one part after the other: the order of a sum is a part of the result
    loss, gradient, second = (sum(parts) for parts in zip(*in_parts(len(rows.z), sums), strict=True))
    away = theta - one_power(1.0, K).reshape(-1)
    precision = np.tile(rows.precision, 2)
    if order == FULL:
        second = np.triu(second) + np.triu(second, 1).T + prior(rows)
    elif order == BLOCKS:
        second[[0, 2]] += precision.reshape(2, K)
    return float(loss[0]) + 0.5 * float((precision * away * away).sum()), gradient + precision * away, second


def prior(rows: Sample) -> Array:
    """Return the second derivatives (2K, 2K) of the prior on powers and offsets."""
    return np.diag(np.tile(rows.precision, 2))


def _add_slopes(part: _Softmax, order: int, gradient: Array, second: Array) -> None:
    """Add the gradient (2K,) and second derivatives of an order, in NumPy."""
    w = part.w[:, None]
    q = part.q
    x = part.x
    K = part.q.shape[1]
    u = np.concatenate([q * x, q], axis=1)
    gradient += (w * u).sum(axis=0)
    gradient[:K] -= np.bincount(part.y, part.w * part.truth, K)
    gradient[K:] -= np.bincount(part.y, part.w, K)
    if order == FULL:
        k = np.arange(K)
        v = w * u
        second -= v.T @ u
        second[k, k] += (v[:, :K] * x).sum(axis=0)
        second[np.arange(2 * K), np.append(K + k, K + k)] += v.sum(axis=0)
    elif order == BLOCKS:
        spread = w * q * (1.0 - q)
        second += [(spread * x * x).sum(axis=0), (spread * x).sum(axis=0), spread.sum(axis=0)]


def best_floor(proba: NDArray[Any], y: NDArray[np.int64], w: Array) -> float:
    """Return the floor under which a temperature fits best; the lowest unless another saves 2 nats of the total loss.

    One row whose true class has probability 1e-12 outweighs a hundred ordinary ones in every sum here. A floor is what
    the model may be wrong by for no reason that its probabilities show, and it bounds what such a row can do.
    """
    lowest = np.inf
    found = FLOOR
    power = 1.0
    for floor in FLOORS:
        rows = Sample(log_table(proba, floor), y, w)
        # only the lowest floor needs a reason to be left: every other one changes sure rows
        worth = FLOOR_WORTH if found == FLOOR and floor > FLOOR else 0.0
        loss, slope, bend = _power_derivatives(rows, power)
        # the best power saves about half as much
        if loss - slope * slope / bend >= lowest - worth:
            continue
        power = fit_power(rows, power, tol=1e-4)
        loss, _, _ = _power_derivatives(rows, power)
        if loss < lowest - worth:
            lowest = loss
            found = floor
    return found


def fit_vector(rows: Sample, start: Array, *, curvature: Array | None = None, tol: float = 1e-8) -> Array:
    """Return the parameters ``(a, b)`` (2, K) of least penalised log loss, no power ``a_k`` being negative.

    A negative power would make a class less likely as its own probability grows. Where the minimum has none, it is
    the unconstrained one. Damped Newton steps; above `NEWTON_CLASSES` classes L-BFGS in coordinates that whiten each
    class's pair. The prior makes the minimum unique: adding a constant to b changes no probability, and the prior then
    prefers that the b, weighted by its precisions, sum to zero. ``curvature`` is a Hessian from nearby to begin with;
    the rest is as for `fit_power`.
    """
    K = start.shape[1]
    tol = max(tol, WIDE_TOL) if K > NEWTON_CLASSES else tol
    found = _minimum(rows, start.reshape(-1), tol, np.zeros(0, dtype=np.intp), curvature)
    return (found if (found[:K] >= 0.0).all() else _nonnegative(rows, found, tol)).reshape(2, K)


def _minimum(rows: Sample, theta: Array, tol: float, still: NDArray[np.intp], hessian: Array | None = None) -> Array:
    """Minimise over powers of either sign; those of the classes ``still`` stay as they are."""
    loss = partial(derivatives, rows)
    if rows.z.shape[1] > NEWTON_CLASSES:
        return quasi_newton(loss, theta, tol, *_whitening(loss(theta, BLOCKS)[2], still))
    return newton(loss, theta, tol, still=still, hessian=hessian)


def _whitening(blocks: Array, still: NDArray[np.intp]) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    """Return the ways into and out of coordinates where every class's ``blocks`` (3, K) are the identity."""
    aa, ab, bb = blocks
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

    return back, forth


def _nonnegative(rows: Sample, start: Array, tol: float) -> Array:
    """Minimise over powers of at least zero, from an unconstrained minimum (2K,) that has negative ones.

    Lawson and Hanson's active set: a minimum over the free powers is approached from a feasible point until a power
    reaches zero, which is then held there; at a feasible minimum the power with the most to gain is let go.
    """
    K = len(start) // 2
    held = start[:K] <= 0.0
    theta = np.concatenate([np.maximum(start[:K], 0.0), start[K:]])
    # as many rounds as are usual for non-negative least squares
    for _ in range(3 * K + 10):
        goal = _minimum(rows, theta, tol, np.flatnonzero(held))
        falling = goal[:K] < 0.0
        if falling.any():
            a = theta[:K]
            reach = np.where(falling, a / np.where(falling, a - goal[:K], 1.0), np.inf)
            theta = theta + reach.min() * (goal - theta)
            held = held | (reach <= reach.min())
            theta[:K][held] = 0.0
            continue
        theta = goal
        _, gradient, (bend, _, _) = derivatives(rows, theta, BLOCKS)
        gain = np.where(held & (gradient[:K] < 0.0), gradient[:K] ** 2 / (2.0 * bend), 0.0)
        if gain.max() <= tol:
            break
        held[int(np.argmax(gain))] = False
    return theta
