"""Matrix scaling: its penalised log loss and the minimiser.

The scores are ``W x + b`` with logarithms x of the probabilities. The prior is Gaussian: variance one around the
identity on the diagonal and the offsets, as for vector scaling, and 1 / strength around zero on all other powers. It
also settles what the labels leave open, as a number added to a column of W changes no probability.

No power may make a class less likely as its own probability grows (`monotone_margins`). The identity lies strictly
inside of these linear limits. A fit that would break them is therefore found by a steep quadratic penalty, which moves
it next to them, and then drawn toward the identity by the little that is missing.

Up to `NEWTON_CLASSES` classes fits are Newton's, with all K^2 (K + 1)^2 second derivatives, and with more classes
quasi-Newton.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from confmax.calibration.newton import BLOCKS, FULL, NO_SECOND, newton, quasi_newton
from confmax.calibration.scaling import PRECISION, WIDE_TOL, Sample, in_parts
from confmax.confusion import Array
from confmax.kernels.products import Positive, add_cross, times
from confmax.kernels.softmax import softmax_of

STRENGTHS = (300.0, 30.0, 3.0)  # precisions of the prior on powers of other classes, in 1 / nat^2
NEWTON_CLASSES = 20  # most classes whose second derivatives are all computed
MOST_CLASSES = 100
STEEP, WIDE_STEEP = 1e5, 1e2  # of the penalty on what breaks the limits; steeper ones delay quasi-Newton steps
SLOW = 0.3  # convergence by an old Hessian, which takes ten gradients, that is still good enough
CELLS = 1 << 18  # numbers that a part of the second derivatives may hold at a time


@dataclass(frozen=True, eq=False)
class _Block:
    """Some rows: logarithms and a one x (n, K + 1), labels, weights (n,), probabilities (n, K), log losses (n,)."""

    x: Array
    y: NDArray[np.int64]
    w: Array
    q: Array
    losses: Array


@dataclass(frozen=True, eq=False)
class MatrixLoss:
    """The penalised log loss of matrix scaling, for parameters ``theta = (W, b)`` (K, K + 1), flat.

    Parameters
    ----------
    rows : Sample
        The rows.
    strength : float
        Precision of the prior on powers of other classes.
    """

    rows: Sample
    strength: float

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return int(self.rows.z.shape[1])

    @property
    def steep(self) -> float:
        """The factor of the penalty on what breaks the limits."""
        return STEEP if self.n_classes <= NEWTON_CLASSES else WIDE_STEEP

    def blocks(self, theta: Array, start: int, stop: int, width: int) -> Iterator[_Block]:
        """Yield the rows that have weight, so few at a time that ``width`` numbers of every row can be held."""
        K, step = self.n_classes, max(64, CELLS // width)
        for low in range(start, stop, step):
            i: NDArray[np.intp] | slice = slice(low, min(low + step, stop))
            if not self.rows.weight[i].all():
                i = low + np.flatnonzero(self.rows.weight[i])
            y, x = self.rows.labels[i], np.ones((len(self.rows.labels[i]), K + 1))
            x[:, :K] = self.rows.z[i]
            scores = times(x, theta.reshape(K, K + 1).T)
            q, log_total = softmax_of(scores)
            yield _Block(x, y, self.rows.weight[i], q, log_total - scores[np.arange(len(y)), y])

    def __call__(self, theta: Array, order: int) -> tuple[float, Array, Array]:
        """Return loss, gradient (d,) and second derivatives: of each score by itself (K, K + 1, K + 1), or (d, d)."""
        K = self.n_classes
        value, gradient, bends = self._sums(theta, order)
        precision = prior_precision(K, self.strength)
        away = theta.reshape(precision.shape) - np.eye(*precision.shape)
        squares, slopes = _beyond(theta.reshape(K, K + 1)[:, :K])
        loss = value + 0.5 * float((precision * away * away).sum()) + 0.5 * self.steep * squares
        slope = gradient + precision * away
        slope[:, :K] -= self.steep * slopes
        if order == BLOCKS:
            bends = self.blocks_with_prior(bends[:, _positions(K + 1)])
        elif order == FULL:
            bends = self.hessian(theta, _all_pairs(bends))
        return loss, slope.reshape(-1), bends

    def curvature(self, theta: Array) -> Array:
        """Return second derivatives of the mean log loss without the prior: all, or for many classes of each score."""
        K = self.n_classes
        if K > NEWTON_CLASSES:
            bends = self._sums(theta, BLOCKS)[2][:, _positions(K + 1)]
        else:
            bends = _all_pairs(self._sums(theta, FULL)[2])
        return np.asarray(bends / self.rows.weight.sum())

    def blocks_with_prior(self, bends: Array) -> Array:
        """Return second derivatives of each score by itself (K, K + 1, K + 1) where those of the rows are ``bends``."""
        out, entries = bends + 0.0, np.arange(self.n_classes + 1)
        out[:, entries, entries] += prior_precision(self.n_classes, self.strength)
        return out

    def hessian(self, theta: Array, bends: Array) -> Array:
        """Return the second derivatives (d, d) where those of the rows' loss are ``bends``."""
        out = bends + 0.0
        out[np.diag_indices(theta.size)] += prior_precision(self.n_classes, self.strength).reshape(-1)
        active = _slopes_beyond(theta.reshape(self.n_classes, -1)[:, :-1])
        return out + self.steep * times(active.T, active) if len(active) else out

    def _sums(self, theta: Array, order: int) -> tuple[float, Array, Array]:
        """Return the rows' loss, gradient (K, K + 1) and second derivatives by pairs of scores and of entries of x."""
        K = self.n_classes
        n_pairs = (K + 1) * (K + 2) // 2
        shape = {NO_SECOND: (0, 0), BLOCKS: (K, n_pairs), FULL: (K * (K + 1) // 2, n_pairs)}[order]

        def sums(start: int, stop: int) -> tuple[Array, Array, Array]:
            out = np.zeros(1), np.zeros((K, K + 1)), np.zeros(shape)
            for block in self.blocks(theta, start, stop, K if order == NO_SECOND else 2 * n_pairs):
                q, w = block.q, block.w[:, None]
                out[0][0] += (block.w * block.losses).sum()
                if order == BLOCKS:
                    add_cross(w * q * (1.0 - q), _products(block.x, block.x), out[2])
                elif order == FULL:
                    bends = _products(-w * q, q)
                    # the place of (k, k) among the pairs
                    bends[:, np.diagonal(_positions(K))] += w * q
                    add_cross(bends, _products(block.x, block.x), out[2])
                # probabilities less labels: the derivative of the loss by the scores
                q[np.arange(len(q)), block.y] -= 1.0
                add_cross(w * q, block.x, out[1])
            return out

        # one part after the other: the order of a sum is a part of the result
        value, gradient, bends = (sum(parts) for parts in zip(*in_parts(len(self.rows.z), sums), strict=True))
        return float(value[0]), gradient, bends


def _products(left: Array, right: Array) -> Array:
    """Return the products (n, d (d + 1) / 2) of columns j of left and k >= j of right, both (n, d)."""
    n, d = left.shape
    out, at = np.empty((n, d * (d + 1) // 2)), 0
    for j in range(d):
        np.multiply(left[:, j, None], right[:, j:], out=out[:, at : at + d - j])
        at += d - j
    return out


def _positions(d: int) -> NDArray[np.intp]:
    """Return the place (d, d) of every pair among those of `_products`, whatever its order."""
    out, upper = np.zeros((d, d), dtype=np.intp), np.triu_indices(d)
    out[upper] = out[upper[::-1]] = np.arange(len(upper[0]))
    return out


def _all_pairs(bends: Array) -> Array:
    """Return second derivatives (d, d) from those by pairs of scores and of entries of x."""
    K = int(np.sqrt(2 * len(bends)))
    full = bends[_positions(K)[:, None, :, None], _positions(K + 1)[:, None, :]]
    return np.ascontiguousarray(full.reshape(K * (K + 1), K * (K + 1)))


def prior_precision(K: int, strength: float) -> Array:
    """Return the precisions (K, K + 1) of the prior on ``(W, b)``."""
    precision = np.full((K, K + 1), strength)
    precision[:, -1] = PRECISION
    np.fill_diagonal(precision, PRECISION)
    return precision


def monotone_margins(W: Array) -> tuple[Array, Array]:
    """Return what must not be negative if no class is to become less likely as its own probability grows.

    Where p_k grows and the others shrink in proportion to each other, the score of class k rises as much as that of
    class j whatever p is if ``W[k, k] >= W[j, k]`` and if the rest of row j sums to no less than the rest of row k.

    Parameters
    ----------
    W : ndarray (K, K)
        Powers.

    Returns
    -------
    ndarray (K, K), ndarray (K, K)
        Both differences for classes j (rows) and k (columns), zero for j = k.

    Examples
    --------
    >>> own, others = monotone_margins(np.array([[1.0, 0.0, 0.3], [0.0, 0.1, 0.0], [0.0, 0.0, 1.0]]))
    >>> bool((own >= 0).all()), bool((others >= 0).all())
    (True, False)
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


def _slopes_beyond(W: Array) -> Array:
    """Return the derivatives (m, d) of the m negative margins by ``(W, b)``."""
    K = len(W)
    own, others = (np.argwhere(margins < 0.0) for margins in monotone_margins(W))
    out = np.zeros((len(own) + len(others), K, K + 1))
    m, (j, k) = np.arange(len(out)), np.concatenate([own, others]).T
    out[m, k, k], out[m, j, k] = 1.0, -1.0
    second = slice(len(own), None)
    out[m[second], j[second], :K] += 1.0
    out[m[second], k[second], :K] -= 1.0
    return out.reshape(len(out), K * (K + 1))


# --- the minimiser ----------------------------------------------------------------------------------------------------


def fit_matrix(rows: Sample, strength: float, start: Array, *, curvature: Array | None = None, tol: float) -> Array:
    """Return the parameters ``(W, b)`` (K, K + 1) of least penalised log loss within the limits.

    Parameters
    ----------
    rows : Sample
        The rows.
    strength : float
        Precision of the prior on powers of other classes.
    start : ndarray (K, K + 1)
        Where to begin.
    curvature : ndarray or None
        Second derivatives of the mean log loss nearby (`MatrixLoss.curvature`).
    tol : float
        Expected decrease of the total loss, nats, of the last step that is taken; above `NEWTON_CLASSES` classes steps
        end where no parameter is off by more than about a hundredth of its standard error.
    """
    loss, theta = MatrixLoss(rows, strength), start.reshape(-1)
    if len(start) <= NEWTON_CLASSES:
        near = None if curvature is None else loss.hessian(theta, curvature * rows.weight.sum())
        theta = newton(loss, theta, tol, hessian=near, solve=_Solver(), slow=SLOW)
    else:
        near = loss.curvature(theta) if curvature is None else curvature
        blocks = loss.blocks_with_prior(near * rows.weight.sum())
        theta = quasi_newton(loss, theta, max(tol, WIDE_TOL), *_whitening(blocks))
    return _inside(theta.reshape(start.shape))


class _Solver:
    """Solves systems, and factors a matrix once for all its right sides."""

    def __init__(self) -> None:
        self.matrix: Array | None = None

    def __call__(self, matrix: Array, sides: Array) -> Array:
        if self.matrix is not matrix:
            self.matrix, self.factored = matrix, Positive(matrix)
        return self.factored.solve(sides)


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
    K, theta = len(theta), theta.copy()
    least = min(float(margins.min()) for margins in monotone_margins(theta[:, :K]))
    # the margins of the identity are one; a rounding more, as sums of powers round
    share = min(1.0, -least / (1.0 - least) + 1e-12) if least < 0.0 else 0.0
    theta[:, :K] = (1.0 - share) * theta[:, :K] + share * np.eye(K)
    return theta


def matrix_losses(rows: Sample, theta: Array, use: NDArray[np.bool_]) -> Array:
    """Return the log loss in nats of the rows to ``use``, under parameters ``theta = (W, b)`` (K, K + 1)."""
    some = Sample(rows.z, rows.labels, use.astype(np.float64))
    loss = MatrixLoss(some, 0.0)

    def work(start: int, stop: int) -> Array:
        return np.concatenate([np.empty(0), *(block.losses for block in loss.blocks(theta, start, stop, len(theta)))])

    return np.concatenate(in_parts(len(use), work))
