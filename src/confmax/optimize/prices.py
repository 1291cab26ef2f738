"""A bound on means of scores of classes, such as macro F1, by prices on the hits and the decisions of every class.

Let t_l be the share of rows that are rightly decided as class l, q_l the share decided as it, and f_l(t_l, q_l) the
weighted score of the class. For all prices alpha and beta, no rule has a sum of scores above ::

    sum_l max [f_l(t, q) - alpha_l t - beta_l q] + max over rules of sum_l (alpha_l t_l + beta_l q_l)

The second maximum is an exact answer to one gain. Each of the first is over what its class attains alone: the convex
hull, as rules may draw, of the decisions that sorted probabilities give. A score is convex in t, so that it is largest
on an edge of the hull. Along an edge the difference is convex or concave, and its maximum is known in closed form. At
prices of zero the bound is the sum of the classes' separate maxima.

The hull of a table in parts has the edges of all parts' hulls, in the order of their slopes. Every part sorts its own
rows. Where a hull has many corners, a polygon around it takes its place: the bound stays valid.

The bound is convex in the prices. Cutting planes lower it: every answer bounds the second maximum from below, and every
point (t, q) bounds one of the first. A linear program minimises these bounds around the best prices, and the next pass
asks for prices between these and its solution. Without limits it would go far away as long as it knows few answers. The
program's value also says how far the bound can still fall.

Constraints ``A x >= b`` on the rule have prices mu too, which are not negative: ``mu' (A x - b)`` joins the second
maximum. It is not negative where the constraints are kept, so the bound holds for all rules that keep them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import ABSENT, Array, Confusion, Gains
from confmax.kernels.order import stable_order
from confmax.metrics.ratios import ROUNDING, Ratios
from confmax.metrics.structure import LinearFunctions
from confmax.optimize.loop import Problem
from confmax.optimize.mixture import Mixture
from confmax.optimize.price_program import PriceProgram
from confmax.optimize.rounding import HALF_DIGITS, LEFT_OVER, LITTLE, OF_TOL
from confmax.oracle import CountingOracle
from confmax.tables import MemoryTable

MOST_CLASSES = 300  # a step of the linear program solves a system of two prices for each
LEAST_PASSES = 3  # that the search must be allowed, beside the one that sorts
FIRST = (0.25, 0.5)  # of the score per row of its class: the first prices of hits
TOWARD = 0.5 ** np.arange(3)  # steps from the best prices to those of the linear program
SAMPLED = 16  # corners of each side of a hull that the first linear program knows
# points of a class, and answers, that a linear program leaves to the next, and how many of the newest stay
RULES = 100
NEWEST = RULES // 2
ENOUGH = 0.03  # of the gap: a search that cannot lower the bound by more ends
ROUGH = 0.03  # part of the room below the bound by which a linear program may miss its value
REACH = 0.7  # of the linear program around the best prices, in units of the scale
SHARP = HALF_DIGITS  # the least tol that counts: the edges may lie a part of tol outside of the hull
CORNERS = 1 << 17  # of the hulls of all classes, at most, that a part of a table sends and a search keeps
HELD = 32  # parts whose hulls wait at most, before they become one
FEW = 1 << 11  # rows of a part whose hulls keep all edges
RARE = LEFT_OVER  # a class of a smaller share keeps prices of zero


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores ``top_b t / (base_b + by_hits_b t + by_decisions_b q)`` of B classes, weighted."""

    # (B,): their columns in the table
    classes: NDArray[np.intp]
    # top, base, by_hits, by_decisions: (B,): the coefficients; ``top`` holds the weight
    top: Array
    base: Array
    by_hits: Array
    by_decisions: Array

    @classmethod
    def of(cls, parts: Ratios) -> Scores | None:
        """Return the scores that a metric sums; None where a ratio is no such score of one class alone."""
        if parts.top.full is not None or parts.bottom.full is not None:
            return None
        (a, b) = parts.top.pair()
        (c, d) = parts.bottom.pair()
        K = a.shape[1]
        used = (a != 0.0) | (c != 0.0) | (d[:, :K] != 0.0)
        k = used.argmax(axis=1)
        coefficients = np.arange(len(k))
        alone = (used.sum(axis=1) == 1).all() and len(np.unique(k)) == len(k) and not d[:, K:].any()
        top = a[coefficients, k]
        hits = c[coefficients, k]
        decisions = d[coefficients, k]
        # a score that is concave in t could be largest inside the hull
        if not alone or b.any() or parts.top_constant.any() or (top < 0).any() or (hits > 0).any():
            return None
        return cls(k, parts.weights * top, parts.bottom_constant, hits, decisions)

    def some(self, k: NDArray[np.bool_]) -> Scores:
        """Return the scores ``k`` (B,)."""
        return Scores(self.classes[k], self.top[k], self.base[k], self.by_hits[k], self.by_decisions[k])


@dataclass(frozen=True, eq=False)
class Edges:
    """The edges of what each of B classes attains alone: lines ``t = start + slope q`` up to a corner.

    Along an edge the slope of a score is ``rise / (base + step q)^2``; it changes in one direction.
    """

    # sizes, top: (B,): number of edges of each class, and the numerator of its score as a multiple of t
    sizes: NDArray[np.intp]
    top: Array
    # start, slope, base, step, rise: (E,): the lines, and the scores along them
    start: Array
    slope: Array
    base: Array
    step: Array
    rise: Array
    # before, after: (E,): the slope of the score where an edge begins and where it ends
    before: Array
    after: Array
    # (3, E): score, t and q where an edge ends
    corners: Array
    # (3, B): the same where a class is not decided. A score of 0/0 is the largest that rules approach
    none: Array

    @classmethod
    def read(cls, oracle: CountingOracle, scores: Scores, flat: float) -> Edges:
        """Return the edges in the table of an ``oracle``, from one pass.

        They may lie ``flat`` times the size of a class outside, and more where there are more than `CORNERS`.
        """
        sizes = flat * oracle.rows[scores.classes]
        work = partial(_hulls, classes=scores.classes.tolist(), flat=sizes, total=oracle.table.weight_total)
        hulls = _joined(oracle.over_parts(work), sizes)
        # what is left to the other classes has the least t: the same corners, turned round
        chains = [chain for most in hulls for chain in (most, (most[:, -1:] - most)[:, ::-1])]
        sizes = np.array([chain.shape[1] - 1 for chain in chains]).reshape(-1, 2).sum(axis=1)
        low, t_low = np.concatenate([chain[:, :-1] for chain in chains], axis=1)
        high, t_high = np.concatenate([chain[:, 1:] for chain in chains], axis=1)
        coefficients = np.stack([scores.top, scores.base, scores.by_hits, scores.by_decisions])
        top, base, by_hits, by_decisions = np.repeat(coefficients, sizes, axis=1)
        slope = (t_high - t_low) / (high - low)
        start = t_low - slope * low
        base = base + by_hits * start
        step = by_decisions + by_hits * slope
        rise = top * (slope * base - start * step)
        begin = base + step * low
        end = base + step * high
        score = np.divide(top * t_high, end, out=np.zeros_like(end), where=end > 0.0)
        first = np.cumsum(sizes) - sizes
        # where the denominator is zero too, the first edge, which has the most hits, leads there
        none = np.where(begin[first] > 0.0, 0.0, score[first])
        before, after = (np.divide(rise, at * at, out=np.zeros_like(at), where=at > ABSENT) for at in (begin, end))
        corners = np.stack([score, t_high, high])
        none = np.stack([none, 0.0 * none, 0.0 * none])
        return cls(sizes, scores.top, start, slope, base, step, rise, before, after, corners, none)

    def largest(self, prices: Array) -> tuple[Array, Array]:
        """Return maxima (P, B) at ``prices`` (P, 2, B), and as (P, 3, B) the score, t and q where they are reached."""
        last = np.cumsum(self.sizes)
        every = np.arange(prices[:, 0].size)
        of_hits, of_decisions = np.repeat(prices, self.sizes, axis=2).swapaxes(0, 1)
        values = self.corners[0] - of_hits * self.corners[1] - of_decisions * self.corners[2]
        ends = zip(last, self.sizes, strict=True)
        best = np.stack([end - size + values[:, end - size : end].argmax(axis=1) for end, size in ends], axis=1)
        # the difference is largest inside an edge if its slope falls through zero there
        cost = of_hits * self.slope + of_decisions
        p, k = np.nonzero((self.after < cost) & (cost < self.before))
        bottom = np.sqrt(self.rise[k] / cost[p, k])
        q = (bottom - self.base[k]) / self.step[k]
        t = self.start[k] + self.slope[k] * q
        of = np.searchsorted(last, k, side="right")
        inside = np.stack([self.top[of] * t / bottom, t, q])
        # of equal maxima, the corner of the most decisions: where nothing is decided the gradient is not known
        of = np.concatenate([every, p * len(last) + of, every])
        places = np.concatenate([np.tile(self.none, len(prices)), inside, self.corners[:, best.ravel()]], axis=1)
        price = prices.swapaxes(0, 1).reshape(2, -1)[:, of]
        values = places[0] - price[0] * places[1] - price[1] * places[2]
        order = np.lexsort((values, of))
        top = order[np.searchsorted(of[order], every, side="right") - 1]
        shape = len(prices), len(last)
        return values[top].reshape(shape), places[:, top].reshape(len(places), *shape).swapaxes(0, 1)

    def sampled(self) -> Array:
        """Return some corners (N, 3, B) of every class: from none decided to all, in even steps of t on both sides."""
        shares = np.linspace(0.0, 1.0, SAMPLED + 1)[1:]
        B = len(self.sizes)
        sides = np.split(self.corners, np.cumsum(np.repeat(self.sizes // 2, 2))[:-1], axis=1)
        places_met = np.stack([side[:, np.searchsorted(side[1], shares * side[1, -1])] for side in sides])
        spread = np.einsum("bsck->skcb", places_met.reshape(B, 2, -1, SAMPLED)).reshape(-1, len(self.corners), B)
        return np.concatenate([self.none[None], spread])


def _hulls(table: MemoryTable, *, classes: list[int], flat: Array, total: float) -> list[Array]:
    """Return corners (q, t) (2, T) of the most t that each of ``classes`` attains at every share q of a ``table``.

    They are shares of a ``total`` weight, and may lie ``flat`` (B,) times the table's own share above.
    """
    n = table.n_rows
    share = table.weight_total / total
    hulls = []
    for (p, rows), above in zip(table.storage.columns(table.proba, classes), flat, strict=True):
        if table.weight is None:
            p = np.sort(p)[::-1].astype(np.float64)
            q = np.arange(len(p) + 1) / total
            t = np.append(0.0, np.cumsum(p)) / total
        else:
            order = stable_order(-p)
            weight = table.weight[rows][order] / total
            p = p[order].astype(np.float64)
            q = np.append(0.0, np.cumsum(weight))
            t = np.append(0.0, np.cumsum(weight * p))
        # probabilities that are not stored are zero
        if len(p) < n:
            q = np.append(q, share)
            t = np.append(t, t[-1])
            p = np.append(p, 0.0)
        hulls.append(_fewer(q, t, p, share * above, CORNERS // len(flat)))
    return hulls


def _joined(parts: Iterable[list[Array]], flat: Array) -> list[Array]:
    """Return the hulls of all rows from those of their ``parts``, whose edges they have, the steepest first."""
    held: list[list[Array]] = []
    for hulls in parts:
        held.append(hulls)
        if len(held) > HELD:
            held = [_sums(held, flat)]
    return held[0] if len(held) == 1 else _sums(held, flat)


def _sums(held: list[list[Array]], flat: Array) -> list[Array]:
    places_met = []
    for hulls, above in zip(zip(*held, strict=True), flat, strict=True):
        width, height = np.concatenate([np.diff(corners) for corners in hulls], axis=1)
        slope = height / width
        order = stable_order(-slope)
        q, t = (np.append(0.0, np.cumsum(steps[order])) for steps in (width, height))
        places_met.append(_fewer(q, t, slope[order], above, CORNERS // len(flat)))
    return places_met


def _fewer(q: Array, t: Array, p: Array, flat: float, most: int) -> Array:
    """Return the corners of `_outside`, with ``flat`` so much larger that they are no more than ``most``."""
    # rows without weight, or with too little to be seen beside the others, have no edge
    differs = np.append(True, np.diff(q) > 0.0)
    if not differs.all():
        q = q[differs]
        t = t[differs]
        p = p[differs[1:]]
    if len(p) < min(FEW, most):
        return np.stack([q, t])
    while (corners := _outside(q, t, p, flat)).shape[1] > most:
        flat = max(2.0 * flat, SHARP * t[-1])
    return corners


def _outside(q: Array, t: Array, p: Array, flat: float) -> Array:
    """Return few corners (q, t) (2, S) of a polygon around a concave chain ``q``, ``t`` (T + 1,) of slopes ``p`` (T,).

    Between corners of the chain that are kept, the lines through their edges meet at most ``flat`` above it.
    """

    def meet(i: NDArray[np.intp], j: NDArray[np.intp]) -> tuple[Array, Array]:
        """Return how far behind corners ``i`` the lines to ``j`` meet, and how far above the chord."""
        width = q[j] - q[i]
        first = p[i]
        last = p[j - 1]
        bend = np.where(first > last, first - last, 1.0)
        behind = np.where(first > last, np.clip((t[j] - t[i] - last * width) / bend, 0.0, width), width)
        return behind, (first - (t[j] - t[i]) / width) * behind

    i = np.array([0])
    j = np.array([len(p)])
    remaining = [np.array([len(p)])]
    while len(i):
        split = (meet(i, j)[1] > flat) & (j - i > 2)
        remaining.append(i[~split])
        i = i[split]
        j = j[split]
        middle = np.clip(np.searchsorted(q, (q[i] + q[j]) / 2.0), i + 1, j - 1)
        i = np.append(i, middle)
        j = np.append(middle, j)
    corners = np.sort(np.concatenate(remaining))
    i = corners[:-1]
    j = corners[1:]
    behind, _ = meet(i, j)
    q = np.append(q[0], np.stack([q[i] + behind, q[j]], axis=1).ravel())
    t = np.append(t[0], np.stack([t[i] + p[i] * behind, t[j]], axis=1).ravel())
    return np.stack([q, t])[:, np.append(True, np.diff(q) > 0.0)]


@dataclass(frozen=True, eq=False)
class PriceSearch:
    """The search for the prices of the lowest bound."""

    scores: Scores
    edges: Edges
    # (2, B): by which prices are measured: the weight of each class per row of it, and the largest score per row
    scale: Array
    # rules, answers: single rules (A) and their confusions
    rules: Gains
    answers: Confusion
    # pending, pending_limits: (P, 2, B), (P, m): prices that wait for an answer, and those of the m functions of the
    # constraints; none once the search has ended
    pending: Array
    pending_limits: Array
    # best, best_limits: (2, B), (m,): prices of the lowest bound
    best: Array
    best_limits: Array
    bound: float
    # (N, 3, B): score, t and q of points that the classes attain alone. At first they begin with the separate maxima
    points: Array
    # (A,): the linear program's mixture of the rules; all zero before there is one
    weights: Array
    # the functions of the constraints, which must not fall below zero
    limits: LinearFunctions | None = None

    @classmethod
    def start(cls, problem: Problem, parts: Ratios) -> PriceSearch | None:
        """Sort every class, which takes a pass; None where nothing would be proved."""
        oracle = problem.oracle
        singles = problem.singles
        few = len(parts.weights) <= MOST_CLASSES and problem.max_passes - oracle.n_passes > LEAST_PASSES
        scores = Scores.of(parts) if few and oracle.exact and problem.certify and singles else None
        if scores is None:
            return None
        edges = Edges.read(oracle, scores, OF_TOL * max(problem.tol, SHARP))
        size = oracle.rows[scores.classes]
        scale = np.divide(parts.weights, size, out=np.zeros_like(size), where=size > RARE)
        none = np.zeros((2, len(size)))
        (best,), points = edges.largest(none[None])
        points = np.concatenate([points, edges.sampled()])
        alone = np.divide(best, size, out=np.zeros_like(size), where=size > RARE)
        pending = np.array([[part * alone, none[1]] for part in FIRST])
        rules = Gains.concatenate([rule.atoms[0] for rule in singles])
        answers = replace(Confusion.stack([rule.confusion for rule in singles]), rows=oracle.rows)
        bound = float(best.sum())
        weights = np.zeros(len(singles))
        limits = None if problem.limits is None else problem.limits.functions(oracle.rows, problem.n_decisions)
        free = np.zeros((len(pending), 0 if limits is None else len(limits)))
        scales = np.stack([scale, alone])
        return cls(scores, edges, scales, rules, answers, pending, free, none, free[0], bound, points, weights, limits)

    def compromise(self) -> Gains:
        """Return the gradient that the sum has where every score is at its separate maximum."""
        of = self.scores
        (score, t, q) = self.points[0]
        bottom = of.base + of.by_hits * t + of.by_decisions * q
        slopes = np.stack([of.top - score * of.by_hits, -score * of.by_decisions])
        return self._gains((np.divide(slopes, bottom, out=np.zeros_like(slopes), where=bottom > 0.0))[None])

    def gains(self) -> Gains:
        """Return the gains of the prices that wait for an answer."""
        gains = self._gains(self.pending)
        return gains if self.limits is None else gains.plus(self.limits.combined(self.pending_limits))

    def beside(self, gain: Gains, multipliers: Array) -> PriceSearch:
        """Return the search with one more set of prices: a ``gain`` of the objective, and those of the constraints."""
        if gain.full is not None or not gain.is_finite:
            return self
        (a, b) = gain.pair()
        k = self.scores.classes
        pending = np.concatenate([self.pending, np.stack([a[:, k], b[:, k]], axis=1)])
        return replace(self, pending=pending, pending_limits=np.concatenate([self.pending_limits, multipliers[None]]))

    def mixtures(self) -> tuple[Mixture, ...]:
        """Return the linear program's mixture of the rules, if it has one."""
        used = np.flatnonzero(self.weights > LITTLE * self.weights.max(initial=0.0))
        return (Mixture.drawn(self.rules[used], self.answers[used], self.weights[used]),) if len(used) else ()

    def answered(self, answers: Confusion, value: float, tol: float) -> PriceSearch:
        """Return the search after ``answers`` to `gains`; it ends where the bound cannot fall by much.

        ``value`` is what some rule reaches.
        """
        terms = self.pending * self._shares(answers)
        slacks = self._slacks(answers)
        paid = self.pending_limits * slacks
        size = np.abs(self._slacks(self.answers)).max(axis=0) + np.abs(slacks)
        tops, places_met = self.edges.largest(self.pending)
        # a sum of terms that may cancel: what rounding hides belongs to the bound
        doubt = ROUNDING * (np.abs(terms).sum(axis=(1, 2)) + (self.pending_limits * size).sum(axis=1))
        bounds = terms.sum(axis=(1, 2)) + paid.sum(axis=1) + doubt + tops.sum(axis=1)
        k = int(bounds.argmin())
        best = self.best
        best_limits = self.best_limits
        bound = self.bound
        if bounds[k] < bound:
            best = self.pending[k]
            best_limits = self.pending_limits[k]
            bound = float(bounds[k])
        points = np.concatenate([self.points, places_met])
        rules = Gains.concatenate([self.rules, self.gains()])
        together = Confusion.concatenate([self.answers, answers])
        weights = np.append(self.weights, np.zeros(len(answers)))
        search = replace(
            self,
            rules=rules,
            answers=together,
            best=best,
            best_limits=best_limits,
            bound=bound,
            points=points,
            weights=weights,
        )
        return search._following(max(tol, ENOUGH * (bound - value)))

    def _following(self, enough: float) -> PriceSearch:
        """Return the search with the next prices, or with none if the bound cannot fall by more than ``enough``."""
        shares = self._shares(self.answers)
        slacks = self._slacks(self.answers)
        search = replace(self, pending=self.pending[:0], pending_limits=self.pending_limits[:0])
        floor, prices, multipliers, weights = _lowest(
            self.points, shares, self.best, self.scale, slacks, self.best_limits, self.bound
        )
        # points and answers that are far from the largest there would only make the next programs slow. The newest
        # stay, or two solutions may take turns: at one of them, the answer that excludes the other would be dropped
        lack = (prices * self.points[:, 1:]).sum(axis=1) - self.points[:, 0]
        lack[-NEWEST:] = -np.inf
        order = np.sort(np.argsort(lack, axis=0, kind="stable")[:RULES], axis=0)
        points = np.take_along_axis(self.points, order[:, None], axis=0)
        worth = (shares * prices).sum(axis=(1, 2)) + slacks @ multipliers
        worth[-NEWEST:] = np.inf
        remaining = np.sort(np.argsort(-worth, kind="stable")[:RULES])
        rules = self.rules[remaining]
        answers = self.answers[remaining]
        search = replace(search, rules=rules, answers=answers, points=points, weights=weights[remaining])
        if self.bound - floor <= enough:
            return search
        steps = TOWARD[:, None, None]
        pending_limits = self.best_limits + steps[:, 0] * (multipliers - self.best_limits)
        return replace(search, pending=self.best + steps * (prices - self.best), pending_limits=pending_limits)

    def _gains(self, prices: Array) -> Gains:
        a = np.zeros((len(prices), self.rules.n_classes))
        b = np.zeros((len(prices), self.rules.n_decisions))
        a[:, self.scores.classes] = prices[:, 0]
        b[:, self.scores.classes] = prices[:, 1]
        return Gains.reduced(a, b)

    def _shares(self, answers: Confusion) -> Array:
        """Return t and q (A, 2, B) of ``answers``."""
        k = self.scores.classes
        return np.stack([answers.diagonal[:, k], answers.columns[:, k]], axis=1)

    def _slacks(self, answers: Confusion) -> Array:
        """Return the functions of the constraints (A, m) at ``answers``."""
        return np.zeros((len(answers), 0)) if self.limits is None else self.limits.values(answers)


def _lowest(
    points: Array, shares: Array, centre: Array, scale: Array, slacks: Array, paid: Array, bound: float
) -> tuple[float, Array, Array, Array]:
    """Return a value that no bound by ``points`` (N, 3, B), ``shares`` (A, 2, B) and ``slacks`` (A, m) falls below.

    This holds for all prices near a ``centre`` (2, B) and ``paid`` (m,). Also returned are prices (2, B), prices of the
    constraints (m,), whose bound is nearly as low, and weights (A,), which mix the answers. ``bound`` is the lowest one
    so far.
    """
    B = points.shape[2]
    m = slacks.shape[1]
    program = PriceProgram(
        points[:, 0] - (centre * points[:, 1:]).sum(axis=1),
        (points[:, 1:] * scale).swapaxes(0, 1),
        (shares * centre).sum(axis=(1, 2)) + slacks @ paid,
        np.hstack([(shares * scale).reshape(len(shares), -1), slacks]),
        np.append(np.full(2 * B, REACH), np.minimum(paid, REACH)),
        np.full(2 * B + m, REACH),
    )
    floor, step, weights = program.solve(bound, ROUGH)
    prices = centre + step[: 2 * B].reshape(2, B) * scale
    return floor, prices, np.maximum(paid + step[2 * B :], 0.0), weights
