"""The best mixture for a mean of scores on a table of fewer rows than classes, and a bound.

Such a mixture spreads every row over many classes and draws from about as many rules as there are classes, while a pass
adds a few. Here the unknowns are the probabilities y (n, B) with which each of n rows is decided as each of B classes.
With the other rows fixed, a score changes by ``top c / (D + e y)^2`` with its y, where D is the denominator without the
row, so the best y of one row have a closed form (water filling). Rows take turns, and Newton's steps on the
probabilities above zero finish. Scores are not concave, so this is a local maximum.

For all prices v_i of the rows, no y has a sum of scores above ::

    sum_i v_i + sum_l max [score_l(y) - v'y  over 0 <= y <= 1]

At the best y, the prices are the derivatives of the scores. Only classes that several rows share have a larger maximum
than their score. `optimize/row_prices.py` has this bound for larger tables; here, the maxima are exact.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Gains
from confmax.kernels.products import Positive
from confmax.metrics.ratios import ROUNDING, Ratios
from confmax.optimize.loop import Problem
from confmax.optimize.mixture import Mixture
from confmax.optimize.rounding import BATCH, EXACT, NEGLIGIBLE, NEWTON_STEPS, OF_TOL
from confmax.optimize.row_prices import Scores
from confmax.tables import Part

LEAST_PASSES = 3  # that must be left
MOST_ROWS = 16  # the bound compares all pairs of rows
TURNS = 2  # of all rows between two of Newton's steps
PENALTY = 1.0  # on changes of the rows' sums, relative to the largest curvature
STEPS = 30  # toward the lowest bound, unless the first proves enough
AHEAD = 1e-6  # of a row's score: by how much the class that a rule decides is ahead


def best_spread(problem: Problem, parts: Ratios) -> tuple[Mixture, float] | None:
    """Return a mixture that is locally the best, and a bound, for one class per row; it takes two passes.

    None where there are many rows or few passes, groups, decisions beside the classes, or a denominator that vanishes
    or that a row leaves as it is, and where rows with the same probabilities share classes: no rule decides them
    differently.
    """
    oracle = problem.oracle
    table = oracle.table
    few = table.n_rows <= MOST_ROWS and problem.max_passes - oracle.n_passes > LEAST_PASSES
    scores = Scores.of(parts) if few and oracle.exact and table.layout is None else None
    if scores is None or problem.n_decisions > table.n_classes:
        return None
    scores = scores.some((oracle.rows[scores.classes] > 0.0) & ~oracle.barred[scores.classes])
    if table.n_rows >= len(scores.classes) or not (scores.base > 0.0).all():
        return None
    rows = oracle.each_part(partial(_rows, classes=scores.classes))
    weight = np.concatenate([part for _, part in rows]) / table.weight_total
    # of rows that are alike, only the sum of their y counts
    P, alike = np.unique(np.concatenate([part for part, _ in rows])[weight > 0.0], axis=0, return_inverse=True)
    sums: Array = np.bincount(alike.ravel(), weight[weight > 0.0]).astype(np.float64)
    spread = _Spread(scores, P, sums)
    if not (spread.bottoms > 0.0).all():
        return None
    y, a, b = spread.best(OF_TOL * problem.tol)
    shares, chosen = _at_quantiles(y)
    gains = _deciding(P, a, b, chosen, scores.classes, problem.n_decisions)
    mixture = Mixture.drawn(gains, problem.ask(gains), shares)
    value = problem.value(mixture.confusion)
    if abs(float(spread.at(y)[1].sum()) - value) > OF_TOL * problem.tol:
        return None
    return mixture, spread.bound(spread.weight * (a * P + b).max(axis=1), value, problem.tol)


def _rows(table: Part, classes: NDArray[np.intp]) -> tuple[Array, Array]:
    """Return the probabilities (n, B) of ``classes``, and the weights (n,)."""
    P = np.zeros((table.n_rows, len(classes)))
    for k, (p, rows) in enumerate(table.storage.columns(table.proba, classes.tolist())):
        P[rows, k] = p
    return P, table.weights


class _Spread:
    """The mean of scores as a function of y (n, B), for rows P (n, B) of weights (n,)."""

    def __init__(self, scores: Scores, P: Array, weight: Array) -> None:
        self.of = scores
        self.P = P
        self.weight = weight
        # by how much numerators and denominators grow with y
        self.tops = weight[:, None] * scores.top * P
        self.bottoms = weight[:, None] * (scores.by_decisions + scores.by_hits * P)

    def best(self, close: float) -> tuple[Array, Array, Array]:
        """Return a y that no change improves by more than ``close``, and the derivatives (B,) by hits and rows."""
        of = self.of
        y = self._start()
        for _ in range(NEWTON_STEPS):
            for _ in range(TURNS):
                self._take_turns(y)
            bottom, score = self.at(y)
            a = (of.top - score * of.by_hits) / bottom
            b = -score * of.by_decisions / bottom
            worth = a * self.P + b
            if self.weight @ (worth.max(axis=1) - (worth * y).sum(axis=1)) <= close:
                break
            y = self._newton(y, bottom, score, worth)
        return y, a, b

    def _start(self) -> Array:
        """Return the y that gives every class to the row of its largest probability, and spreads rows evenly.

        Classes of equal probabilities go to the rows in turn: at an even spread between them nothing would grow.
        """
        n, B = self.P.shape
        turn = (np.arange(n)[:, None] + np.arange(B)) % n
        largest = np.where(self.P.max(axis=0) == self.P, turn, -1).argmax(axis=0)
        y = np.zeros((n, B))
        y[largest, np.arange(B)] = 1.0
        y[np.arange(n), self.P.argmax(axis=1)] = 1.0
        return y / y.sum(axis=1, keepdims=True)

    def at(self, y: Array) -> tuple[Array, Array]:
        """Return the denominators and the scores (B,)."""
        bottom = self.of.base + (self.bottoms * y).sum(axis=0)
        return bottom, (self.tops * y).sum(axis=0) / bottom

    def _take_turns(self, y: Array) -> None:
        """Spread one row after another, in place, as is best for the others as they are."""
        top = (self.tops * y).sum(axis=0)
        bottom = self.of.base + (self.bottoms * y).sum(axis=0)
        for tops, bottoms, shares in zip(self.tops, self.bottoms, y, strict=True):
            top -= tops * shares
            bottom -= bottoms * shares
            # y = (root level - bottom) / bottoms, where it is positive; the shares sum to one at some level
            root = np.sqrt(np.maximum(tops * bottom - top * bottoms, 0.0))
            first = np.divide(bottom, root, out=np.full(len(root), np.inf), where=root > 0.0)
            order = np.argsort(first)
            with np.errstate(divide="ignore"):
                levels = (1.0 + np.cumsum((bottom / bottoms)[order])) / np.cumsum((root / bottoms)[order])
            level = levels[np.flatnonzero(first[order] < levels)[-1]] if np.isfinite(first).any() else np.inf
            if level < np.inf:
                shares[:] = np.maximum((root * level - bottom) / bottoms, 0.0)
            top += tops * shares
            bottom += bottoms * shares

    def _newton(self, y: Array, bottom: Array, score: Array, worth: Array) -> Array:
        """Return y after Newton's step on what is positive, as far as nothing turns negative and the scores grow."""
        row, k = np.nonzero(y)
        tops = self.tops[row, k]
        bottoms = self.bottoms[row, k]
        same_row = (row[:, None] == np.arange(len(y))).astype(np.float64)
        bent = np.outer(tops, bottoms) + np.outer(bottoms, tops) - 2.0 * score[k] * np.outer(bottoms, bottoms)
        bent = np.where(k[:, None] == k, bent / bottom[k] ** 2, 0.0)
        # sums of rows stay one, so a penalty on them changes no step, and the system is positive definite at a maximum
        bent += PENALTY * bent.diagonal().max() * (row[:, None] == row)
        try:
            system = Positive(bent)
            by_row = system.solve(same_row)
            free = system.solve(self.weight[row] * worth[row, k])
            step = free - by_row @ Positive(same_row.T @ by_row).solve(same_row.T @ free)
        except ValueError:
            return y
        now = y[row, k]
        falling = step < 0.0
        size = min(1.0, float((now[falling] / -step[falling]).min(initial=np.inf)))
        moved = np.zeros_like(y)
        moved[row, k] = np.maximum(now + size * step, 0.0)
        return moved if self.at(moved)[1].sum() > score.sum() else y

    def bound(self, prices: Array, value: float, tol: float) -> float:
        """Return the lowest bound of several prices (n,), of which these are the first.

        The next ones lie where the bound would be the ``value`` if it were linear (Polyak).
        """
        n, B = self.P.shape
        pairs = n * (n - 1) // 2 + 1
        blocks = np.array_split(np.arange(B), -(-B * n * pairs // BATCH))
        lowest = np.inf
        for _ in range(STEPS):
            alone, y = (
                np.concatenate(parts) for parts in zip(*[self._largest(k, prices) for k in blocks], strict=True)
            )
            bound = float(prices.sum() + alone.sum()) + ROUNDING * float(np.abs(prices).sum() + alone.sum())
            lowest = min(lowest, bound)
            lacks = 1.0 - y.sum(axis=0)
            size = float(lacks @ lacks)
            if lowest - value <= tol or size <= EXACT:
                break
            prices = prices - (bound - value) / size * lacks
        return lowest

    def _largest(self, k: NDArray[np.intp], prices: Array) -> tuple[Array, Array]:
        """Return what the scores of classes ``k`` (b,) exceed the prices (n,) of the rows by at most, and y (b, n).

        At a given denominator the best y takes rows in the order of what they gain for what they add to it. This order
        changes where two rows gain the same. In between, one row after another grows from zero to one, and the
        difference has a closed maximum on the way.
        """
        tops = self.tops[:, k].T
        bottoms = self.bottoms[:, k].T
        base = self.of.base[k][:, None]
        i, j = np.triu_indices(len(prices), 1)
        density = tops / bottoms
        price = prices / bottoms
        with np.errstate(divide="ignore", invalid="ignore"):
            equal = (density[:, i] - density[:, j]) / (price[:, i] - price[:, j])
        ends = np.hstack([base, np.nan_to_num(equal), base + bottoms.sum(axis=1, keepdims=True)])
        ends = np.sort(np.clip(ends, base, ends[:, -1:]), axis=1)
        low = ends[:, :-1, None]
        high = ends[:, 1:, None]
        middle = (low + high) / 2.0
        order = np.argsort(price[:, None] - density[:, None] / middle, axis=2)

        def sorted_sums(values: Array) -> tuple[Array, Array]:
            """Return values (b, n) in the orders (b, pairs, n), and the sums of those before each."""
            values = np.take_along_axis(np.broadcast_to(values[:, None], order.shape), order, axis=2)
            return values, np.cumsum(values, axis=2) - values

        step, before = sorted_sums(bottoms)
        before += base[:, None]
        density, top = sorted_sums(tops)
        density /= step
        price, paid = sorted_sums(np.broadcast_to(prices, tops.shape))
        price /= step
        low = np.maximum(low, before)
        high = np.minimum(high, before + step)
        # the score is density - missing / D
        missing = density * before - top
        with np.errstate(divide="ignore", invalid="ignore"):
            best = np.where(missing > 0.0, np.where(price > 0.0, np.sqrt(missing / price), high), low)
        D = np.stack([low, np.clip(best, low, high), high])
        values = np.where(low <= high, density - missing / D - paid - price * (D - before), -np.inf)
        values = values.swapaxes(0, 1).reshape(len(k), -1)
        top = values.argmax(axis=1)
        every = np.arange(len(k))
        D = D.swapaxes(0, 1).reshape(len(k), -1)[every, top]
        place = np.unravel_index(top, (3, *order.shape[1:]))[1:]
        taken = order[every, place[0]]
        y = np.zeros(tops.shape)
        y[every[:, None], taken] = np.clip((D[:, None] - before[every, place[0]]) / step[every, place[0]], 0.0, 1.0)
        top = values[every, top]
        return np.maximum(top, 0.0), np.where(top[:, None] > 0.0, y, 0.0)


def _at_quantiles(y: Array) -> tuple[Array, NDArray[np.intp]]:
    """Return weights (A,) and decisions (A, n) of rules whose mixture decides rows with probabilities y (n, B)."""
    ends = np.cumsum(y, axis=1)
    ends /= ends[:, -1:]
    cuts = np.unique(np.append(0.0, ends[y > 0.0]))
    shares = np.diff(cuts)
    large = shares > NEGLIGIBLE
    middles = (cuts[:-1] + cuts[1:])[large] / 2.0
    return shares[large], np.stack([np.searchsorted(row, middles) for row in ends], axis=1)


def _deciding(P: Array, a: Array, b: Array, chosen: NDArray[np.intp], classes: NDArray[np.intp], M: int) -> Gains:
    """Return gains of M decisions near ``a`` and ``b``, with which the rows decide what is ``chosen`` (A, n)."""
    offsets = np.tile(b, (len(chosen), 1))
    rule = np.arange(len(chosen))[:, None]
    row = np.arange(len(P))
    size = np.abs(a * P).max()
    for _ in range(len(P) + 1):
        worth = a * P + offsets[:, None]
        here = worth[rule, row, chosen]
        worth[rule, row, chosen] = -np.inf
        lacks = worth.max(axis=2) + AHEAD * size - here
        if lacks.max() <= 0.0:
            break
        more = np.zeros_like(offsets)
        np.maximum.at(more, (rule, chosen), lacks)
        offsets += more
    weights = np.zeros((len(chosen), M))
    weights[:, classes] = a
    # no row is decided as a class that no score counts
    every = np.full((len(chosen), M), offsets.min() - size)
    every[:, classes] = offsets
    return Gains.reduced(weights, every)
