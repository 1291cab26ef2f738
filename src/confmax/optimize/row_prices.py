"""A bound on means of scores of classes, such as macro F1, by a price for every row.

Let y_ik be the probability with which row i, of weight w_i, is decided as class k. The weighted score f_k of a class
reads only its own decisions: hits ``t = sum_i w_i p_ik y_ik`` and their share ``q = sum_i w_i y_ik``. A row gets c
decisions, one or as many labels as `Decisions` say. So for all prices v_i of rows, no rule has a sum of scores above ::

    sum_i w_i c v_i + sum_k max over 0 <= y <= 1 of [f_k(y) - sum_i w_i v_i y_i]

Where a row may have fewer labels than c, this holds for prices v_i >= 0. At a rule that no step improves, with
derivatives a_k and b_k of the scores by t and q, v_i is the c-th largest of ``a_k p_ik + b_k``. Then every term of the
second sum is stationary at the rule. The bound lies above the rule's value only where a class alone has a larger
maximum elsewhere. Where it lies far above, Polyak's steps lower it: a price falls where fewer classes than c want the
row.

A score is ``top t / D`` with ``D = base + by_hits t + by_decisions q``. At a given ``s = 1 / D`` the best y of one
class is a fractional knapsack. For every price m >= 0 of the denominator it is worth no more than ::

    h(s, m) = sum_i w_i max(0, top s p_i - m (by_hits p_i + by_decisions) - v_i) + m (1 / s - base)

and at the best m no less. Between two values of s let m be linear in s. Then the sum is convex in s, at most as large
as on the line between its ends, and the maximum of that line and the last term has a closed form. So a few knots
(s, m), close to each other where the maximum is, bound all denominators. They are chosen on some of the rows. One pass
reads the sums at these knots on all rows.

Constraints on the rule have prices too, which are not negative. What they pay for a decision of a row is taken off the
price of the row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from confmax import kernels
from confmax.confusion import ABSENT, Array, Confusion, Gains
from confmax.kernels.blocks import over_rows
from confmax.metrics.ratios import ROUNDING, Ratios
from confmax.optimize.loop import Problem
from confmax.optimize.rounding import BATCH, BINDS, LITTLE, OF_TOL, SINGLE
from confmax.oracle import CountingOracle
from confmax.tables import Part
from confmax.tables.decisions import ONE, Decisions

Ints = NDArray[np.intp]

MOST_CLASSES = 1000  # every class has knots of its own: of 2000 rows they take 4 s
RARE = BINDS  # a class of a smaller share may have hardly any score in any rule
CELLS = 1 << 18  # of the rows on which the knots are chosen
LEAST_ROWS = 1 << 12  # of these
STEPS = 16  # toward the lowest bound, of tables of few cells
FEW_CELLS = 1 << 13  # each step searches knots anew
NARROWING = 0.5 ** np.arange(12)  # first denominators: parts of the way from the rule's own to the ends
FITTED = 14  # values of m that are tried for a knot
HALVED = 12  # times that intervals of s are halved where the bound is far
MOST_KNOTS = 96  # of a class, on average
CLOSE = 0.002  # part of the value: a bound that is closer is not lowered by steps
FAR = 0.02  # part of the gap that intervals may add
ROUGH = 0.2  # part of the gap that intervals may add between steps
SETTLED = 0.9  # part of the largest known worth below which a knot needs no better m
WIDEST = 1.0 / SINGLE  # range of the first m, relative to the rule's own
FEW_PRICES = BATCH // 8  # of lines times rows: to choose the rows of each line would take longer than to read all
PART_ROWS = 1 << 12  # of a sum
TOGETHER = 8  # lines that choose their rows together, or more where there are few rows


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores ``top_b t / (base_b + by_hits_b t + by_decisions_b q)`` of B classes, weighted."""

    # (B,): their columns in the table
    classes: Ints
    # top, base, by_hits, by_decisions: (B,): the coefficients; ``top`` holds the weight
    top: Array
    base: Array
    by_hits: Array
    by_decisions: Array

    @classmethod
    def of(cls, parts: Ratios) -> Scores | None:
        """Return the scores that a metric sums; None where a ratio is no such score of one class alone."""
        if parts.top.full is not None or parts.bottom.full is not None or parts.top.power or parts.bottom.power:
            return None
        (a, b) = parts.top.pair()
        (c, d) = parts.bottom.pair()
        K = a.shape[1]
        used = (a != 0.0) | (c != 0.0) | (d[:, :K] != 0.0)
        k = used.argmax(axis=1)
        coefficients = np.arange(len(k))
        alone = (used.sum(axis=1) == 1).all() and np.bincount(k).max(initial=0) <= 1 and not d[:, K:].any()
        top = a[coefficients, k]
        hits = c[coefficients, k]
        decisions = d[coefficients, k]
        if not alone or b.any() or parts.top_constant.any() or (top < 0).any() or (hits > 0).any():
            return None
        return cls(k, parts.weights * top, parts.bottom_constant, hits, decisions)

    def some(self, k: NDArray[np.bool_]) -> Scores:
        """Return the scores ``k`` (B,)."""
        return Scores(self.classes[k], self.top[k], self.base[k], self.by_hits[k], self.by_decisions[k])

    def lines(self, k: Ints, s: Array, m: Array) -> tuple[Array, Array]:
        """Return what a row of classes ``k`` (L,) is worth at (s, m), as a multiple of p and an offset (L,)."""
        return self.top[k] * s - m * self.by_hits[k], -m * self.by_decisions[k]

    def denominators(self, k: Ints, t: Array, q: Array) -> Array:
        """Return the denominators (L,) of classes ``k`` (L,)."""
        return self.base[k] + self.by_hits[k] * t + self.by_decisions[k] * q

    def worth(self, k: Ints, s: Array, m: Array, sums: Array) -> Array:
        """Return the sum of h (L,) at (s, m) from the ``sums`` (3, L) of the rows there, with what rounding hides."""
        t, q, paid = sums
        a, b = self.lines(k, s, m)
        terms = np.stack([a * t, b * q, -paid])
        return np.asarray(terms.sum(axis=0) + ROUNDING * (np.abs(terms).sum(axis=0) + m / s))

    def most(self, size: Array, largest: Array) -> Array:
        """Return bounds of the scores (B,) over all rules, by the class sizes and the ``largest`` probabilities (B,).

        A class has at most its size of hits, and decides at least as much as that over the largest probability.
        """
        with np.errstate(over="ignore"):
            D = self.base / size + self.by_hits + self.by_decisions / largest
        return np.asarray(self.top / D)

    def attained(self, k: Ints, sums: Array) -> Array:
        """Return what the rows that are taken are worth to the classes ``k``, less their prices (L,)."""
        t, q, paid = sums
        D = self.denominators(k, t, q)
        return np.asarray(np.divide(self.top[k] * t, D, out=np.zeros_like(D), where=D > 0.0) - paid)


@dataclass(frozen=True, eq=False)
class Rows:
    """What B classes read of n rows: probabilities p (B, n), prices v (1, n) or (B, n), and weights w (n,)."""

    p: Array
    v: Array
    w: Array
    # the sum of the prices of all decisions, before what constraints pay is taken off
    spent: float
    # (n,): prices that may fall
    free: NDArray[np.bool_]

    def taken(self, scores: Scores, k: Ints, s: Array, m: Array) -> Array:
        """Return hits, share and price (3, L) of the rows that are worth more than their price at (s, m)."""
        a, b = scores.lines(k, s, m)
        if kernels.native is not None:
            return self._taken(np.asarray(k, np.int64), a, b)
        if len(k) * len(self.w) <= FEW_PRICES:
            p = self.p[k]
            v = np.broadcast_to(self.v if len(self.v) == 1 else self.v[k], p.shape)
            sides = (a[:, None] * p + b[:, None] > v) * self.w
            return np.stack([np.einsum("ln,ln->l", sides, p), sides.sum(axis=1), np.einsum("ln,ln->l", sides, v)])
        out = np.zeros((3, len(k)))
        order = np.lexsort((a, k))
        changes = np.flatnonzero(np.diff(k[order])) + 1
        together = max(TOGETHER, BATCH // 4 // len(self.w))
        for of_class in np.split(order, changes) if len(k) else ():
            c = k[of_class[0]]
            p = self.p[c]
            v = self.v[c % len(self.v)]
            # lines of similar slopes take similar rows
            for lines in np.array_split(of_class, -(-len(of_class) // together)):
                near = np.flatnonzero(a[lines].max() * p + b[lines].max() > v)
                for rows in np.array_split(near, -(-len(near) * len(lines) // BATCH) or 1):
                    over = a[lines, None] * p[rows] + b[lines, None] > v[rows]
                    sides = self.w[rows] * np.stack([p[rows], np.ones(len(rows)), v[rows]])
                    out[:, lines] += sides @ over.T
        return out

    def _taken(self, k: NDArray[np.int64], a: Array, b: Array) -> Array:
        """Return the sums of `taken` by the kernel."""

        def work(_: int, start: int, stop: int) -> Array:
            out = np.zeros((3, len(k)))
            kernels.native.above_lines(self.p, self.v, self.w, k, a, b, start, stop, out)
            return out

        # one part after the other: the order of a sum is a part of the result
        return np.asarray(sum(over_rows(work, len(self.w), PART_ROWS), start=np.zeros((3, len(k)))))


@dataclass(frozen=True, eq=False)
class PriceStep:
    """A step of prices: down by ``size``, and up by as much for every class that wants the row.

    A class wants a row by the share of its lines ``a p + b``, (2, B) each, that lie above the price.
    """

    size: float
    a: Array
    b: Array

    def wanted(self, p: Array, v: Array) -> Array:
        """Return by how many classes each of n rows is wanted, from p (B, n) and prices (1, n) or (B, n)."""
        above = [np.sum(a[:, None] * p + b[:, None] > v, axis=0) for a, b in zip(self.a, self.b, strict=True)]
        return np.asarray(np.mean(above, axis=0))


@dataclass(frozen=True, eq=False)
class RowPrices:
    """Prices as functions of the rows: the last score of ``gain`` that is decided, after some steps.

    ``paid`` are the gains of the constraints alone, which are a part of ``gain``.
    """

    classes: Ints
    gain: Gains
    paid: Gains | None = None
    steps: tuple[PriceStep, ...] = ()
    decisions: Decisions = ONE

    def lacks(self, step: PriceStep, p: Array, v: Array) -> Array:
        """Return how many decisions fewer than they get the rows (n,) are wanted for, from p and prices as `Rows`."""
        return count_of(self.decisions) - step.wanted(p, v)

    def rows(self, table: Part, total: float) -> Rows:
        """Return what the classes read of the rows of a ``table``, whose weights are parts of a ``total``."""
        P = np.asarray(table.dense("a bound by prices of rows").proba, dtype=np.float64)
        columns = np.ascontiguousarray(P.T)
        worth = _scores(self.gain, P, columns)
        others = np.delete(np.arange(len(worth)), self.classes)
        # no price lies below what a decision without a score is paid
        least = worth[others].max(axis=0) if len(others) else np.full(len(P), -np.inf)
        if self.decisions.positive:
            least = np.maximum(least, 0.0)
        p = columns if np.array_equal(self.classes, np.arange(len(columns))) else columns[self.classes]
        paid = np.zeros((1, len(P)))
        if self.paid is not None:
            paid = _scores(self.paid, P, columns)[self.classes]
        c = count_of(self.decisions)
        last = worth.max(axis=0) if c == 1 else np.partition(worth, len(worth) - c, axis=0)[-c]
        v = np.maximum(last, least)
        for step in self.steps:
            v = np.maximum(v - step.size * self.lacks(step, p, v - paid), least)
        w = table.weights / total
        free = v > least if self.decisions.several else np.ones(len(v), dtype=np.bool_)
        return Rows(p, v - paid, w, c * float(w @ v), free)


def count_of(decisions: Decisions) -> int:
    """Return how many decisions a row gets, or gets at most."""
    assert decisions.most is not None
    return decisions.most


def _scores(gains: Gains, P: Array, columns: Array) -> Array:
    """Return the scores (M, n) of one gain for rows P (n, K), whose transpose are the ``columns``."""
    if gains.full is not None or gains.power:
        return np.ascontiguousarray((P @ gains.matrices()[0]).T)
    ((a,), (b,)) = gains.pair()
    worth = np.repeat(b[:, None], len(P), axis=1)
    worth[: len(columns)] += a[:, None] * columns
    return worth


@dataclass(frozen=True, eq=False)
class Knots:
    """Knots (s, m) (L,) of classes ``k`` (L,), from the largest denominator of every class to its least."""

    k: Ints
    s: Array
    m: Array
    # how far m is from that of the rule: m is the rule's m times, or divided by, 1 + x
    x: Array

    def and_more(self, k: Ints, s: Array, m: Array, x: Array) -> tuple[Knots, Ints]:
        """Return the knots with others among them, and the order (L,) of both, one after the other."""
        both = np.append(self.k, k)
        order = np.lexsort((np.append(self.s, s), both))
        columns = (np.append(*pair)[order] for pair in ((self.s, s), (self.m, m), (self.x, x)))
        return Knots(both[order], *columns), order

    @property
    def intervals(self) -> Ints:
        """Where an interval begins; the next knot ends it."""
        return np.flatnonzero(self.k[1:] == self.k[:-1])

    def tops(self, scores: Scores, sums: Array) -> tuple[Array, Array]:
        """Return what a class is worth at most in each of the `intervals`, and at which s, from ``sums`` (3, L)."""
        first = self.intervals
        base = scores.base[self.k[first]]
        worth = scores.worth(self.k, self.s, self.m, sums)
        low, high = self.s[first], self.s[first + 1]
        width = np.where(high > low, high - low, np.inf)
        rise = (worth[first + 1] - worth[first]) / width
        by_s = (self.m[first + 1] - self.m[first]) / width
        at_zero = self.m[first] - by_s * low
        with np.errstate(divide="ignore", invalid="ignore"):
            inside = np.sqrt(at_zero / (rise - by_s * base))
        places = np.stack([low, high, np.clip(np.nan_to_num(inside, nan=0.0), low, high)])
        values = worth[first] + rise * (places - low) + (at_zero + by_s * places) * (1.0 / places - base)
        best = values.argmax(axis=0)[None]
        return np.take_along_axis(values, best, axis=0)[0], np.take_along_axis(places, best, axis=0)[0]


class KnotSearch:
    """The search for few knots on some rows, around s and m (B,) of a rule."""

    def __init__(self, scores: Scores, rows: Rows, s: Array, m: Array, tol: float, far: float = FAR) -> None:
        self.scores = scores
        self.rows = rows
        self.tol = tol
        self.far = far
        every = np.arange(len(s))
        least = 1.0 / (scores.base + scores.by_decisions * rows.w.sum())
        most = 1.0 / scores.base
        self.s = s = np.clip(s, least, most)
        self.m = m
        # what each class alone is worth where the rule is; the largest known anywhere is the aim
        sums = rows.taken(scores, every, s, m)
        self.here = np.maximum(scores.worth(every, s, m, sums) + m * (1.0 / s - scores.base), 0.0)
        self.aim = self.here.copy()
        self.knots = Knots(every, s, m, np.zeros(len(s)))
        self.sums = sums
        ends = [s[:, None] * (end / s)[:, None] ** NARROWING for end in (least, most)]
        k = np.repeat(every, len(NARROWING))
        for end in ends:
            self._add(k, end.ravel(), np.full(len(k), 1.0 / WIDEST), np.full(len(k), WIDEST))
        self._halve()

    @property
    def bound(self) -> float:
        """The bound on these rows."""
        return self.rows.spent + float(self.largest[1].sum())

    @property
    def value(self) -> float:
        """What the rule is worth on these rows."""
        return self.rows.spent + float(self.here.sum())

    @property
    def largest(self) -> tuple[Ints, Array, Array]:
        """The interval where each class is worth most (B,), what it is worth there (B,), and at which s (B,)."""
        first = self.knots.intervals
        tops, places = self.knots.tops(self.scores, self.sums)
        order = np.lexsort((tops, self.knots.k[first]))
        last = order[np.searchsorted(self.knots.k[first][order], np.arange(len(self.m)), side="right") - 1]
        return first[last], np.maximum(tops[last], 0.0), places[last]

    def _halve(self) -> None:
        """Halve the intervals in which a class may be worth more than anywhere known, the worst first."""
        for _ in range(HALVED):
            knots = self.knots
            first = knots.intervals
            tops, _ = knots.tops(self.scores, self.sums)
            # a part of what is left of the gap makes no difference
            far = self.far * float((self.aim - self.here).sum()) / len(self.aim)
            excess = tops - self.aim[knots.k[first]] - max(self.tol, far)
            wide = knots.s[first + 1] > knots.s[first] * (1.0 + SINGLE)
            chosen = np.flatnonzero((excess > 0.0) & wide)
            left = max(0, MOST_KNOTS * len(self.m) - len(knots.k))
            chosen = chosen[np.argsort(-excess[chosen], kind="stable")[:left]]
            if not len(chosen):
                break
            begin = first[chosen]
            x = np.sort(np.stack([knots.x[begin], knots.x[begin + 1]]), axis=0)
            low = np.where(x[0] > 0.0, x[0] / 2.0, LITTLE * x[1])
            self._add(knots.k[begin], np.sqrt(knots.s[begin] * knots.s[begin + 1]), low, 2.0 * x[1])

    def _add(self, k: Ints, s: Array, low: Array, high: Array) -> None:
        """Add knots at ``s`` (L,) of classes ``k`` (L,), with the best m (L,) in a range of x.

        Below the rule's own s, m is at most the rule's m, and otherwise at least: it is ``m (1 + x)`` to the power of
        minus one, or one.
        """
        scores = self.scores
        way = np.where(s < self.s[k], -1.0, 1.0)
        # slopes, heights and m where the rows that are taken are too many, and too few, with their sums
        sides = np.full((2, 6, len(k)), np.nan)
        left = np.arange(len(k))
        for _ in range(FITTED):
            x = np.sqrt(low[left] * high[left])
            over, height = self._tried(k[left], s[left], way[left], x, sides, left)
            # far from the maximum any m will do, and one like the rule's own is best between two knots
            settled = height <= SETTLED * self.aim[k[left]]
            more = over == (way[left] > 0.0)
            low[left] = np.where(more | settled, x, low[left])
            high[left] = np.where(more & ~settled, high[left], x)
            left = left[~settled]
        # h is convex in m, and mostly has one bend between the two that are nearest: where their tangents meet
        (slope_1, top_1, m_1), (slope_2, top_2, m_2) = sides[:, :3]
        with np.errstate(divide="ignore", invalid="ignore"):
            m = (top_2 - top_1 + slope_1 * m_1 - slope_2 * m_2) / (slope_1 - slope_2)
            x = (np.clip(m, m_1, m_2) / self.m[k]) ** way - 1.0
        x = np.where(np.isfinite(x) & (x >= 0.0) & (low < high), x, np.sqrt(low * high))
        m = self.m[k] * (1.0 + x) ** way
        sums = self.rows.taken(scores, k, s, m)
        many, few = sides[:, 3:]
        above, below = (scores.denominators(k, *side[:2]) * s - 1.0 for side in (many, few))
        drawn = few - np.divide(below, above - below, out=np.zeros_like(s), where=above > below) * (many - few)
        worth = scores.attained(k, drawn)
        known = np.isfinite(worth)
        np.maximum.at(self.aim, k[known], worth[known])
        self.knots, order = self.knots.and_more(k, s, m, x)
        self.sums = np.hstack([self.sums, sums])[:, order]

    def _tried(
        self, k: Ints, s: Array, way: Array, x: Array, sides: Array, into: Ints
    ) -> tuple[NDArray[np.bool_], Array]:
        """Return whether the rows that are taken at x are too many, and h; keep both with the sums in ``sides``."""
        scores = self.scores
        m = self.m[k] * (1.0 + x) ** way
        sums = self.rows.taken(scores, k, s, m)
        np.maximum.at(self.aim, k, scores.attained(k, sums))
        slope = 1.0 / s - scores.denominators(k, sums[0], sums[1])
        height = scores.worth(k, s, m, sums) + m * (1.0 / s - scores.base[k])
        here = np.stack([slope, height, m, *sums])
        over = slope < 0.0
        sides[0][:, into[over]] = here[:, over]
        sides[1][:, into[~over]] = here[:, ~over]
        return over, height


def row_bound(
    problem: Problem, parts: Ratios, at: Confusion, bound: float | None = None, multipliers: Array | None = None
) -> float | None:
    """Return the lower of a ``bound`` and that on a sum of scores by prices of rows, at the confusion ``at`` of a rule.

    It takes a pass. ``multipliers`` (m,) are the prices of the problem's limits. The bound stays as it is where the
    ratios are no scores of single classes, or too many. Where denominators may vanish, a class alone is worth most with
    hardly any decisions, whatever the prices of rows; then the bound is the sum of the separate maxima.
    """
    oracle = problem.oracle
    table = oracle.table
    counted = table.layout is None and table.decisions.most is not None
    scores = Scores.of(parts) if oracle.exact and counted else None
    # what is never decided has no score
    scores = None if scores is None else scores.some(~oracle.barred[scores.classes])
    if scores is None or table.n_classes > MOST_CLASSES:
        return bound
    size = oracle.rows[scores.classes]
    # a decision must not make a denominator smaller
    if (scores.base < 0.0).any() or (scores.by_hits + scores.by_decisions < 0.0).any():
        return bound
    # the slopes of a class that has hardly any score in any rule are steep: its separate maximum is enough
    rare = (size > 0.0) & (size <= RARE)
    separate = np.where(rare, 0.0, np.inf)
    if rare.any():
        separate[rare] = _separate(oracle, scores.some(rare), size[rare])
    left_out = rare & ((separate <= problem.tol) | (size <= ABSENT))
    nearly_absent = float(separate[left_out].sum())
    present = (size > 0.0) & ~left_out
    scores = scores.some(present)
    size = size[present]
    if not (len(size) and scores.base.all()):
        if bound is None and not scores.base.any():
            bound = nearly_absent + float(_separate(oracle, scores, size).sum())
        return bound
    total = table.weight_total
    paid, constant = None, 0.0
    if problem.limits is not None and multipliers is not None:
        limits = problem.limits.functions(oracle.rows, problem.n_decisions)
        paid = limits.combined(np.maximum(multipliers, 0.0)[None])
        constant = float(np.maximum(multipliers, 0.0) @ limits.constants)
    prices, knots = _searched(problem, scores, at, paid)
    lines = knots.k, knots.s, knots.m
    sums = np.zeros((3, len(knots.k)))
    spent = constant
    earned, largest = np.zeros((2, len(size)))
    for part in oracle.each_part(partial(_read, prices=prices, scores=scores, lines=lines, total=total)):
        sums += part[0]
        spent += part[1]
        earned += part[2]
        largest = np.maximum(largest, part[3])
    tops = np.zeros(len(size))
    np.maximum.at(tops, knots.k[knots.intervals], knots.tops(scores, sums)[0])
    # the knots of a rare class may prove less than its separate maximum
    tops = np.minimum(tops, scores.most(size, largest) + earned)
    spent += nearly_absent
    by_rows = spent + float(tops.sum()) + ROUNDING * (abs(spent) + abs(constant) + float(tops.sum()))
    return by_rows if bound is None else min(bound, by_rows)


def _separate(oracle: CountingOracle, scores: Scores, size: Array) -> Array:
    """Return what the scores (B,) are at most alone, from the class sizes (B,) and the largest probabilities."""
    work = partial(_largest, classes=scores.classes.tolist())
    return scores.most(size, oracle.over_parts(work, np.maximum)) * (1.0 + ROUNDING)


def _largest(table: Part, *, classes: list[int]) -> Array:
    """Return the largest probability of each of ``classes`` (B,)."""
    return np.array([p.max(initial=0.0) for p, _ in table.storage.columns(table.proba, classes)], dtype=np.float64)


def _read(
    table: Part, *, prices: RowPrices, scores: Scores, lines: tuple[Ints, Array, Array], total: float
) -> tuple[Array, float, Array, Array]:
    """Return the sums (3, L) at all ``lines`` (L,) of a part of the table, and the sum of its prices.

    Also returned are the sums of prices below zero, which the classes earn, and the largest probabilities (B,).
    """
    sums = np.zeros((3, len(lines[0])))
    spent = 0.0
    earned, largest = np.zeros((2, len(scores.top)))
    size = max(1, 4 * CELLS // table.n_classes)
    for start in range(0, table.n_rows, size):
        rows = prices.rows(table.at(slice(start, start + size)), total)
        sums += rows.taken(scores, *lines)
        spent += rows.spent
        earned += np.maximum(-rows.v, 0.0) @ rows.w
        largest = np.maximum(largest, rows.p.max(axis=1))
    return sums, spent, earned, largest


def _searched(problem: Problem, scores: Scores, at: Confusion, paid: Gains | None) -> tuple[RowPrices, Knots]:
    """Return prices and knots for all rows, from some of the rows."""
    table = problem.oracle.table.sample.head
    most = max(LEAST_ROWS, CELLS // table.n_classes)
    if table.n_rows > most:
        part = table.sampled(most / table.n_rows)
        # where many rows are copies of each other the sample may have any size
        near = most <= 2 * part.n_rows <= 4 * most and part.weight_total > 0.0
        table = part if near else table.at(slice(None, None, -(-table.n_rows // most)))
    total = table.weight_total
    tol = OF_TOL * problem.tol / len(scores.top)
    k = scores.classes
    t, q = at.diagonal[k], at.columns[k]
    every = np.arange(len(k))
    D = scores.denominators(every, t, q)
    score = scores.top * t / D
    a, b = np.zeros(table.n_classes), np.zeros(problem.n_decisions)
    a[k], b[k] = scores.lines(every, 1.0 / D, score / D)
    gain = Gains.reduced(a[None], b[None])
    prices = RowPrices(k, gain if paid is None else gain.plus(paid), paid, decisions=table.decisions)
    rows = prices.rows(table, total)
    # a class without hits has no price
    m = np.maximum(score, LITTLE * scores.top) / D
    search = KnotSearch(scores, rows, 1.0 / D, m, tol)
    return _lowered(scores, prices, search, table)


def _lowered(scores: Scores, prices: RowPrices, search: KnotSearch, table: Part) -> tuple[RowPrices, Knots]:
    """Return the prices of the lowest bound of some steps (Polyak, 1969), and their knots."""
    value = search.value
    tol = search.tol
    lowest = search
    best = prices
    for _ in range(STEPS):
        if search.bound - value <= CLOSE * abs(value) or search.rows.p.size > FEW_CELLS:
            break
        (s, m), lines = _at_largest(search)
        rows = search.rows
        a, b = (np.stack(part) for part in zip(*lines, strict=True))
        step = PriceStep(search.bound - value, a, b)
        lacks = prices.lacks(step, rows.p, rows.v)
        size = float(rows.w @ np.where(rows.free, lacks, np.minimum(lacks, 0.0)) ** 2)
        if size <= SINGLE:
            break
        prices = replace(prices, steps=(*prices.steps, replace(step, size=step.size / size)))
        search = KnotSearch(scores, prices.rows(table, table.weight_total), s, m, tol, ROUGH)
        if search.bound < lowest.bound:
            lowest = search
            best = prices
    if best.steps:
        lowest = KnotSearch(scores, lowest.rows, *_at_largest(lowest)[0], tol)
    return best, lowest.knots


def _at_largest(search: KnotSearch) -> tuple[tuple[Array, Array], list[tuple[Array, Array]]]:
    """Return s and m (B,) where every class is worth most, and the lines at both ends of its interval there."""
    knots = search.knots
    first, _, s = search.largest
    ends = [(knots.s[k], knots.m[k]) for k in (first, first + 1)]
    (s_1, m_1), (s_2, m_2) = ends
    part = np.divide(s - s_1, s_2 - s_1, out=np.zeros_like(s), where=s_2 > s_1)
    # as of a rule that nearly has no hits; the m before may be far larger than any that is near the maximum
    m = np.maximum(m_1 + part * (m_2 - m_1), LITTLE * search.scores.top * s)
    return (s, m), [search.scores.lines(knots.k[first], *end) for end in ends]
