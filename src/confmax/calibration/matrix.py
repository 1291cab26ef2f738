"""Matrix scaling: its penalised log loss and the minimiser.

The scores are ``W x + b`` with logarithms x of the probabilities. The prior is Gaussian: that of vector
scaling on the diagonal and the offsets, and of variance 1 / strength around zero on all other powers, which is smaller
for classes of few rows (`prior_precision`). It also settles what the labels leave open, as a number added to a column
of W changes no probability.

No power may make a class less likely as its own probability grows (`monotone_margins`). The identity lies strictly
inside of these linear limits.

Up to `NEWTON_CLASSES` classes fits are Newton's, with all K^2 (K + 1)^2 second derivatives, and every step minimises
the quadratic model within the limits. With more classes fits are quasi-Newton, a quadratic penalty moves them next to
the limits, and they are drawn toward the identity by the little that is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from confmax import kernels
from confmax.calibration.newton import BLOCKS, FULL, NO_SECOND, newton, quasi_newton
from confmax.calibration.scaling import PULL_ROWS, WIDE_TOL, Sample, in_parts
from confmax.confusion import Array
from confmax.kernels.products import Positive, in_order, times
from confmax.kernels.softmax import few_at_a_time, softmax_rows

STRENGTHS = (300.0, 30.0, 3.0)  # precisions of the prior on powers of other classes, in 1 / nat^2
NEWTON_CLASSES = 20  # most classes whose second derivatives are all computed
MOST_CLASSES = 100
STEEP = 1e2  # of the penalty on what breaks the limits; steeper ones delay quasi-Newton steps
# what rounding takes off a margin, and what holds apart limits that coincide
LEAST_MARGIN = -1e-9
RIDGE = 1e-10
SLOW = 0.5  # convergence by an old Hessian, which takes some twenty gradients, that is still good enough
LOSSES = -1  # the order of what writes the losses of rows


@dataclass(frozen=True, eq=False)
class MatrixLoss:
    """The penalised log loss of matrix scaling, for parameters ``theta = (W, b)`` (K, K + 1), flat.

    ``strength`` is the precision of the prior on powers of other classes.
    """

    rows: Sample
    strength: float

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return int(self.rows.z.shape[1])

    def __call__(self, theta: Array, order: int) -> tuple[float, Array, Array]:
        """Return loss, gradient (d,) and second derivatives: of each score by itself (K, K + 1, K + 1), or (d, d).

        With more than `NEWTON_CLASSES` classes loss and gradient have the penalty on what breaks the limits.
        """
        K = self.n_classes
        value, gradient, bends = self._sums(theta, order)
        precision = prior_precision(self.rows, self.strength)
        away = theta.reshape(precision.shape) - np.eye(*precision.shape)
        loss = value + 0.5 * float((precision * away * away).sum())
        slope = gradient + precision * away
        if K > NEWTON_CLASSES:
            squares, slopes = _beyond(theta.reshape(K, K + 1)[:, :K])
            loss += 0.5 * STEEP * squares
            slope[:, :K] -= STEEP * slopes
        return loss, slope.reshape(-1), bends if order == NO_SECOND else self.with_prior(bends)

    def curvature(self, theta: Array) -> Array:
        """Return second derivatives of the mean log loss without the prior: all, or for many classes of each score."""
        bends = self._sums(theta, BLOCKS if self.n_classes > NEWTON_CLASSES else FULL)[2]
        return np.asarray(bends / self.rows.weight.sum())

    def with_prior(self, bends: Array) -> Array:
        """Return second derivatives, of either form, where those of the rows' loss are ``bends``."""
        precision = prior_precision(self.rows, self.strength)
        if bends.ndim == 2:
            return bends + np.diag(precision.reshape(-1))
        return np.asarray(bends + precision[:, :, None] * np.eye(self.n_classes + 1))

    def _sums(self, theta: Array, order: int) -> tuple[float, Array, Array]:
        """Return the rows' loss, gradient (K, K + 1) and second derivatives of an order."""
        K = self.n_classes
        n_pairs = (K + 1) * (K + 2) // 2
        shape = {NO_SECOND: (0, 0), BLOCKS: (K, n_pairs), FULL: (K * (K + 1) // 2, n_pairs)}[order]

        def sums(start: int, stop: int) -> tuple[Array, Array, Array]:
            out = np.zeros(1), np.zeros((K, K + 1)), np.zeros(shape)
            _add_sums(self.rows, self.rows.weight, start, stop, theta.reshape(K, K + 1), order, out)
            return out

        # one part after the other: the order of a sum is a part of the result
        value, gradient, bends = (sum(parts) for parts in zip(*in_parts(len(self.rows.z), sums), strict=True))
        if order == BLOCKS:
            bends = bends[:, _positions(K + 1)]
        elif order == FULL:
            bends = _all_pairs(bends)
        return float(value[0]), gradient, bends


def _add_sums(
    rows: Sample, weight: Array, start: int, stop: int, theta: Array, order: int, out: tuple[Array, Array, Array]
) -> None:
    """Write loss (1,), gradient (K, K + 1) and second derivatives; of the order `LOSSES` only losses (n,), to rows."""
    if kernels.native is not None:
        W = np.ascontiguousarray(theta[:, :-1])
        b = np.ascontiguousarray(theta[:, -1])
        kernels.native.matrix_sums(rows.z, rows.labels, weight, start, stop, W, b, order, *out)
        return
    K = len(theta)
    for part in few_at_a_time(start, stop, max(K, out[2].size and out[2].shape[1] + len(out[2]))):
        i = part.start + np.flatnonzero(weight[part])
        y = rows.labels[i]
        w = weight[i, None]
        x = np.ones((len(i), K + 1))
        x[:, :K] = rows.z[i]
        scores = in_order(x, theta.T)
        q, log_total = softmax_rows(scores)
        losses = log_total - scores[np.arange(len(y)), y]
        if order == LOSSES:
            out[0][i] = losses
            continue
        out[0][0] += (w[:, 0] * losses).sum()
        if order == BLOCKS:
            out[2][:] += (w * q * (1.0 - q)).T @ _products(x, x)
        elif order == FULL:
            bends = _products(-w * q, q)
            # the place of (k, k) among the pairs
            bends[:, np.diagonal(_positions(K))] += w * q
            out[2][:] += bends.T @ _products(x, x)
        # probabilities less labels: the derivative of the loss by the scores
        q[np.arange(len(q)), y] -= 1.0
        out[1][:] += (w * q).T @ x


def _products(left: Array, right: Array) -> Array:
    """Return the products (n, d (d + 1) / 2) of columns j of left and k >= j of right, both (n, d)."""
    j, k = np.triu_indices(left.shape[1])
    return np.asarray(left[:, j] * right[:, k])


def _positions(d: int) -> NDArray[np.intp]:
    """Return the place (d, d) of every pair among those of `_products`, whatever its order."""
    out = np.zeros((d, d), dtype=np.intp)
    upper = np.triu_indices(d)
    out[upper] = out[upper[::-1]] = np.arange(len(upper[0]))
    return out


def _all_pairs(bends: Array) -> Array:
    """Return second derivatives (d, d) from those by pairs of scores and of entries of x."""
    K = int(np.sqrt(2 * len(bends)))
    full = bends[_positions(K)[:, None, :, None], _positions(K + 1)[:, None, :]]
    return np.ascontiguousarray(full.reshape(K * (K + 1), K * (K + 1)))


def prior_precision(rows: Sample, strength: float) -> Array:
    """Return the precisions (K, K + 1) of the prior on ``(W, b)``."""
    own, few = rows.precision, rows.of_class
    precision = np.empty((len(own), len(own) + 1))
    # a power of another class pulls rows from the one to the other: the smaller one counts
    precision[:, :-1] = strength * (1.0 + PULL_ROWS / np.minimum(few[:, None], few))
    precision[:, -1] = own
    np.fill_diagonal(precision, own)
    return precision


def monotone_margins(W: Array) -> tuple[Array, Array]:
    """Return what must not be negative if no class is to become less likely as its own probability grows, twice (K, K).

    Where p_k grows and the others shrink in proportion to each other, the score of class k rises as much as that of
    class j whatever p is if ``W[k, k] >= W[j, k]`` and if the rest of row j sums to no less than the rest of row k.
    Both differences are for classes j (rows) and k (columns), zero for j = k.
    """
    own = np.diagonal(W) - W
    sums = W.sum(axis=1)
    others = own + (sums[:, None] - sums)
    np.fill_diagonal(others, 0.0)
    return own, others


def _beyond(W: Array) -> tuple[float, Array]:
    """Return the sum of the squares of negative margins, and minus half of its derivatives (K, K)."""
    own, others = (np.maximum(-margins, 0.0) for margins in monotone_margins(W))
    both = own + others
    # a margin rises with the diagonal of its column, and falls with its entry; the second one also follows row sums
    slopes = np.diag(both.sum(axis=0)) - both + (others.sum(axis=1) - others.sum(axis=0))[:, None]
    return float((own * own).sum() + (others * others).sum()), slopes


def _row_of(limit: int, K: int) -> Array:
    """Return the derivatives (d,) of a margin by ``(W, b)``, for its place among all of `monotone_margins`."""
    second = limit // K**2
    j = limit // K % K
    k = limit % K
    out = np.zeros((K, K + 1))
    out[k, k], out[j, k] = 1.0, -1.0
    if second:
        out[j, :K] += 1.0
        out[k, :K] -= 1.0
    return out.reshape(-1)


def fit_matrix(
    rows: Sample, strength: float, start: Array, *, curvature: Array | None = None, tol: float, slow: float = SLOW
) -> Array:
    """Return the parameters ``(W, b)`` (K, K + 1) of least penalised log loss within the limits, from a ``start``.

    ``curvature`` are second derivatives of the mean log loss nearby (`MatrixLoss.curvature`), which are kept for as
    long as `newton` says of ``slow``. ``tol`` is the expected decrease of the total loss, nats, of the last step that
    is taken; above `NEWTON_CLASSES` classes steps end where no
    parameter is off by more than about a hundredth of its standard error.
    """
    loss = MatrixLoss(rows, strength)
    theta = start.reshape(-1)
    if len(start) <= NEWTON_CLASSES:
        near = None if curvature is None else loss.with_prior(curvature * rows.weight.sum())
        theta = newton(loss, theta, tol, hessian=near, factored=_factored, step_of=_Step(len(start)), slow=slow)
    else:
        near = loss.curvature(theta) if curvature is None else curvature
        blocks = loss.with_prior(near * rows.weight.sum())
        theta = quasi_newton(loss, theta, max(tol, WIDE_TOL), *_whitening(blocks))
    return _inside(theta.reshape(start.shape))


def _factored(hessian: Array) -> Callable[[Array], Array]:
    return Positive(hessian).solve


class _Step:
    """Newton's step within the limits: the minimum of a quadratic model, for any inverse of its second derivatives.

    In its dual every limit that holds the step has a multiplier, which is not negative. The limit that is broken most
    is added to those that hold it, and those whose multiplier falls to zero are dropped (Lawson and Hanson, 1974). The
    limits that held the last step come first.
    """

    def __init__(self, n_classes: int) -> None:
        self.n_classes = n_classes
        self.holding: list[int] = []

    def __call__(self, inverse: Callable[[Array], Array], gradient: Array, theta: Array) -> Array:
        """Return the step (d,) from theta, for the way from gradients to steps."""
        free = -inverse(gradient)
        margins = self._margins(theta)
        rows = {limit: _row_of(limit, self.n_classes) for limit in self.holding}
        pulls = {limit: inverse(row) for limit, row in rows.items()}
        prices = dict.fromkeys(rows, 0.0)
        while True:
            prices = _nonnegative_prices(prices, margins, free, rows, pulls)
            self.holding = list(prices)
            step = free + sum(price * pulls[limit] for limit, price in prices.items())
            left = margins + self._margins(step)
            broken = int(left.argmin())
            if left[broken] >= LEAST_MARGIN or broken in prices:
                return step
            rows[broken] = _row_of(broken, self.n_classes)
            pulls[broken] = inverse(rows[broken])
            prices[broken] = 0.0

    def _margins(self, theta: Array) -> Array:
        """Return all margins (2 K^2,), linear in theta."""
        W = theta.reshape(self.n_classes, -1)[:, :-1]
        return np.concatenate([part.reshape(-1) for part in monotone_margins(W)])


def _nonnegative_prices(
    prices: dict[int, float], margins: Array, free: Array, rows: dict[int, Array], pulls: dict[int, Array]
) -> dict[int, float]:
    """Return the multipliers under which the limits hold the step exactly, without those that fall to zero."""
    while prices:
        holding = list(prices)
        old = np.array(list(prices.values()))
        A = np.array([rows[limit] for limit in holding])
        system = times(A, np.array([pulls[limit] for limit in holding]).T)
        system[np.diag_indices_from(system)] *= 1.0 + RIDGE
        new = Positive(system).solve(-(margins[holding] + times(A, free[:, None])[:, 0]))
        falling = new <= 0.0
        if not falling.any():
            return dict(zip(holding, new.tolist(), strict=True))
        ways = np.where(falling, old / np.maximum(old - new, 1e-300), np.inf)
        way = float(ways.min())
        prices = {
            limit: price + way * (wanted - price)
            for limit, price, wanted, zero in zip(holding, old.tolist(), new.tolist(), ways <= way, strict=True)
            if not zero
        }
    return prices


def _whitening(blocks: Array) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    """Return the ways into and out of coordinates where every score's ``blocks`` (K, K + 1, K + 1) are the identity."""
    factors = [Positive(block) for block in blocks]
    # with H = U' U, the solution of H X = U' is the inverse of U
    inverses = [each.solve(np.triu(each.factor).T) for each in factors]

    turned = [np.ascontiguousarray(inverse.T) for inverse in inverses]

    def back(x: Array) -> Array:
        parts = zip(x.reshape(len(inverses), 1, -1), turned, strict=True)
        return np.concatenate([times(part, matrix)[0] for part, matrix in parts])

    def forth(g: Array) -> Array:
        parts = zip(g.reshape(len(inverses), 1, -1), inverses, strict=True)
        return np.concatenate([times(part, matrix)[0] for part, matrix in parts])

    return back, forth


def _inside(theta: Array) -> Array:
    """Return ``(W, b)`` (K, K + 1) drawn toward the identity until every margin is at least zero."""
    K = len(theta)
    theta = theta.copy()
    least = min(float(margins.min()) for margins in monotone_margins(theta[:, :K]))
    # the margins of the identity are one; a rounding more, as sums of powers round
    share = min(1.0, -least / (1.0 - least) + 1e-12) if least < 0.0 else 0.0
    theta[:, :K] = (1.0 - share) * theta[:, :K] + share * np.eye(K)
    return theta


def matrix_losses(rows: Sample, theta: Array, use: NDArray[np.bool_]) -> Array:
    """Return the log loss in nats of the rows to ``use``, under parameters ``theta = (W, b)`` (K, K + 1)."""
    out = np.empty(len(use))
    none = np.zeros((0, 0))
    weight = use.astype(np.float64)
    in_parts(len(use), lambda start, stop: _add_sums(rows, weight, start, stop, theta, LOSSES, (out, none, none)))
    return np.asarray(out[use])
