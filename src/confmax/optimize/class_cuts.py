"""One class against the rest: every threshold on the probability of the class, within limits on the same class.

A metric of one class, and a limit on it, read two numbers of a rule: how much of the class is decided as it, and how
much of the rest. So the question has two columns, ``1 - p`` and ``p`` of the class, and its rules are thresholds on p
(paper, Algorithm 1). Rows below the threshold are decided as the most probable other class, which neither metric nor
limit reads. Of thresholds that are equally good, the one is taken that decides most rows rightly.

A rule's point has two coordinates, how much of the rest and how much of the class is decided as the class. Mixtures of
thresholds fill the convex hull of their points, off which every limit cuts a half-plane. Quasi-convex functions, such
as linear metrics and ratios, are largest at a corner of what remains, so the best mixture is known exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import ABSENT, Array, Confusion, Gains
from confmax.constraints.limits import Limits
from confmax.metrics import Metric
from confmax.metrics.structure import LinearFunctions
from confmax.optimize.auto import class_of
from confmax.optimize.cuts import Cuts, kept, shown
from confmax.optimize.estimate import Estimate
from confmax.optimize.loop import MISSED, Problem, Solver, Status, Step
from confmax.optimize.mixture import Mixture
from confmax.optimize.rounding import PER_PASS, SINGLE, SINGULAR
from confmax.optimize.threshold import hull_chains
from confmax.tables import Table

UNSEEN = 2.0**-70  # weight of the other classes beside that of the class: it orders them and changes nothing else


def of_two_columns(metric: Metric, limits: Limits | None) -> tuple[Metric, Limits | None]:
    """Return a metric of one class, and limits on it, for the rest in the first column and the class in the second."""
    return metric.of_class(1, 2), None if limits is None else limits.of_class(1, 2)


def class_gains(values: Array, k: int, n_classes: int) -> Gains:
    """Return gains (B) that decide class ``k`` from a probability on, each of ``values`` (B,), else the best other.

    Infinity stands for never, minus infinity for always.
    """
    B = len(values)
    others = np.arange(n_classes) != k
    between = np.isfinite(values)
    a = np.zeros((B, n_classes))
    b = np.zeros((B, n_classes))
    # no other class has a score above zero, so the class is decided where its own is zero
    a[:, others] = UNSEEN
    b[:, others] = -UNSEEN
    a[:, k] = between
    b[:, k] = np.where(between, -values, np.where(values > 0.0, -1.0, 1.0))
    return Gains.reduced(a, b)


def candidates(
    cuts: Cuts, metric: Metric, limits: Limits | None, tol: float, *, exact: bool, model: Cuts | None = None
) -> list[int]:
    """Return the best of the allowed cuts and those beside it; the nearest one to the limits where none is allowed.

    ``metric`` is one of two columns. ``exact`` and ``model`` are those of `nearest`.
    """
    if not cuts.allowed.any():
        assert limits is not None
        return [nearest(cuts, limits, exact=exact, model=model)]
    best = cuts.best(metric.values(cuts.confusions), tol)
    near = [best, best - 1, best + 1, best - 2, best + 2] if limits is not None else [best]
    return [index for index in near if 0 <= index < len(cuts) and (index == best or cuts.allowed[index])]


def nearest(cuts: Cuts, limits: Limits, *, exact: bool, model: Cuts | None = None) -> int:
    """Return the cut that misses a limit by the least.

    Labels count where it decides enough rows. Where it decides fewer, the ``model`` counts, if there is one; a cut that
    keeps the limits by labels of few rows is none of them. On the model alone, which is ``exact``, all cuts count.
    """
    slacks = limits.slacks(cuts.confusions).min(axis=-1)
    if not exact:
        few = np.full(len(slacks), -np.inf)
        if model is not None:
            few = np.where(slacks < -MISSED, limits.slacks(model.confusions).min(axis=-1), few)
        slacks = np.where(cuts.rows >= least_rows(cuts, limits), slacks, few)
    return int(np.argmax(slacks))


def least_rows(cuts: Cuts, limits: Limits) -> int:
    """Return how many rows a cut must decide for labels to say how far it is from a floor on the precision.

    No rule is right on more rows than the class has.
    """
    return max(1, min(limits.least_rows, round(float(cuts.confusions.rows[1]) * int(cuts.rows[-1]))))


def gains_of_cuts(cuts: Cuts, index: Sequence[int], k: int, n_classes: int, dtype: np.dtype[Any]) -> Gains:
    """Return gains (B) that decide class ``k`` by the cuts at ``index`` (B,), else the best other class."""
    return class_gains(cuts.numbers(index, dtype, closed=True), k, n_classes)


def best_mixture(
    cuts: Cuts, metric: Metric, limits: Limits | None, among: NDArray[np.bool_] | None = None
) -> Drawn | None:
    """Return the best draw between cuts within the limits, which no rule exceeds; None if none keeps them.

    The functions of a limit on a precision are zero where no row is decided, so the draw may decide none. Where only
    cuts ``among`` all (T,) may be drawn, never and always deciding the class are of them, too.
    """
    C = cuts.confusions
    functions = None if limits is None else limits.functions(C.rows, 2)
    if among is None:
        return best_drawn_within(C, metric, functions)
    ends = np.isin(np.arange(len(among)), (0, len(among) - 1))
    used = np.flatnonzero(among | ends)
    best = best_drawn_within(C[used], metric, functions)
    return None if best is None else replace(best, index=used[best.index])


@dataclass(frozen=True)
class ClassThreshold(Solver):
    """Exact search over thresholds on the probability of one class, within limits on the same class.

    The metric and the limits read one class (`class_of`), so the rules that count are thresholds on its probability,
    and draws between them (paper, Algorithm 1). All thresholds are compared in one scan. With the model's confusion the
    result is the best threshold, and the bound is the value of the best draw. Of thresholds that are equally good, the
    one is returned that decides most rows rightly. For a table in parts the thresholds are those of its sample.

    Examples
    --------
    >>> import confmax
    >>> from confmax.optimize.class_cuts import ClassThreshold
    >>> P = [[0.7, 0.2, 0.1], [0.5, 0.4, 0.1], [0.4, 0.2, 0.4]]
    >>> solution = confmax.maximize("recall[1]", P, solver=ClassThreshold(), constraints="precision[1] >= 0.3")
    >>> solution.rule
    DecisionRule for recall[1]: 3 classes, deterministic
      tuned within precision[1] >= 0.3
      decides 1 if p(1) >= 0.3, else the most probable other class
    """

    takes_limits: ClassVar[bool] = True
    draws: ClassVar[bool] = False
    # the thresholds on the tables, classes and estimates that were searched last, for another search there
    known: dict[tuple[int, int, float], Cuts] | None = field(default=None, compare=False, repr=False)

    def check(self, metric: Metric, n_classes: int, n_rows: int, *, limited: bool = False) -> None:
        """Refuse, by a ValueError, metrics of more than one class."""
        if metric.one_class is None or metric.formula.whole:
            raise ValueError(
                f"{self.name} searches a threshold for one class, and {metric.name} reads several; use solver='auto'"
            )

    def init(self, problem: Problem) -> None:
        """Refuse, by a ValueError, limits on other classes."""
        if _class_in(problem) is None:
            raise ValueError(
                f"{self.name} takes limits on the class of its metric {problem.metric!r} alone; use solver='auto'"
            )

    def step(self, problem: Problem, state: None) -> tuple[None, Step]:
        """Compare all thresholds."""
        k = _class_in(problem)
        assert k is not None
        metric, within = of_two_columns(problem.metric, problem.limits)
        here = problem.oracle.table.sorting(lambda: self._among_rows(problem, metric, within, k), None)
        return None, here or _step_in_parts(problem, metric, within, k)

    def _among_rows(self, problem: Problem, metric: Metric, within: Limits | None, k: int) -> Step:
        """Return the best of all thresholds on class ``k``, whose rows are compared with each other."""
        oracle = problem.oracle
        K = len(oracle.rows)
        oracle.count()
        estimate = Estimate.alike(oracle.table, oracle.model_share)
        cuts = self._cuts(estimate, k)
        model = None
        enough = None
        allowed = kept(cuts, within)
        if within is not None and 0.0 < oracle.model_share < 1.0 and within.least_rows > 1:
            model = self._cuts(estimate.with_share(1.0), k)
            enough = shown(cuts, within, model)
            allowed &= enough
        mixed = best_mixture(cuts, metric, within, enough)
        is_model = oracle.model_share == 1.0
        singles = candidates(cuts.among(allowed), metric, within, problem.tol / 2.0, exact=is_model, model=model)
        chosen = [*singles, *(() if mixed is None else mixed.index)]
        gains = gains_of_cuts(cuts, chosen, k, K, oracle.table.dtype)
        answers = problem.ask(gains)
        rules = [Mixture.single(gains[i], answers[i]) for i in range(len(singles))]
        # the sums of a scan may differ from those of the search by rounding: the next threshold then keeps the limit
        rule = next(
            (candidate for candidate in rules if problem.shortfall(candidate.confusion) == 0.0), problem.best(rules)
        )
        is_kept = problem.shortfall(rule.confusion) == 0.0
        drawn = None
        if mixed is not None:
            drawn = Mixture.drawn(gains[len(singles) :], answers[len(singles) :], mixed.weights)
            is_kept |= problem.shortfall(drawn.confusion) == 0.0
        if mixed is None or drawn is None or not is_kept:
            return Step(rule, (rule,), status=Status.INFEASIBLE if oracle.exact else Status.OPTIMAL)
        bound = max(mixed.value, problem.value(drawn.confusion)) if oracle.exact else None
        return Step(rule, (rule, drawn), bound, Status.OPTIMAL, prices=mixed.prices)

    def _cuts(self, estimate: Estimate, k: int) -> Cuts:
        known = {} if self.known is None else self.known
        key = (id(estimate.table), k, float(estimate.share[k]))
        if key not in known:
            known[key] = Cuts.of(estimate.one_class(k))
        return known[key]


def _step_in_parts(problem: Problem, metric: Metric, limits: Limits | None, k: int) -> Step:
    """Return the best threshold of a table in parts: those of its sample around the best one are counted on all rows.

    A second pass looks between the neighbours of the best one.
    """
    table = problem.oracle.table
    K = len(problem.oracle.rows)
    cuts = Cuts.of(Estimate.alike(table.sample, problem.oracle.model_share).one_class(k))
    is_model = problem.oracle.model_share == 1.0
    centre = candidates(cuts.among(kept(cuts, limits)), metric, limits, problem.tol / 2.0, exact=is_model)[0]
    last = len(cuts) - 1
    steps = 2 ** np.arange(int(np.log2(last)) + 1)
    places = np.unique(np.clip(np.concatenate([[centre], centre - steps, centre + steps]), 0, last))
    rules: list[Mixture] = []
    for _ in range(2):
        gains = gains_of_cuts(cuts, places.tolist(), k, K, table.dtype)
        answers = problem.ask(gains)
        singles = [Mixture.single(gains[i], answers[i]) for i in range(len(gains))]
        best = singles.index(problem.best(singles))
        rules.append(singles[best])
        low = places[max(best - 1, 0)]
        high = places[min(best + 1, len(places) - 1)]
        places = np.unique(np.linspace(low, high, PER_PASS).round().astype(np.intp))
    rule = problem.best(rules)
    return Step(rule, (rule,), status=Status.FINISHED)


def with_thresholds(problem: Problem) -> Problem:
    """Return a problem that starts with thresholds on one class, too, where labels judge and all limits are about it.

    The other classes are decided by argmax, or by p / prior. On labels, rules that the search misses may be among them.
    """
    limits = problem.limits
    oracle = problem.oracle
    table = problem.oracle.table
    k = None if limits is None or problem.metric.class_place is not None else limits.only_class
    if limits is None or k is None or oracle.exact or problem.n_decisions != table.n_classes:
        return problem
    return table.sorting(lambda: _with_thresholds(problem, limits, k), problem)


def _with_thresholds(problem: Problem, limits: Limits, k: int) -> Problem:
    table = problem.oracle.table
    cuts = Cuts.of(Estimate.alike(table, problem.oracle.model_share).one_class(k))
    places = np.flatnonzero(kept(cuts, limits.of_class(1, 2)))
    if not len(places):
        return problem
    gains = thresholds_beside(cuts, places, k, table, [])
    answers = problem.ask(gains)
    rules = [Mixture.single(gains[i], answers[i]) for i in range(len(gains))]
    return replace(problem, starts=(*problem.starts, problem.best(rules)))


def thresholds_beside(cuts: Cuts, places: NDArray[np.intp], k: int, table: Table, others: Sequence[Gains]) -> Gains:
    """Return gains (B) that decide class ``k`` by some of the thresholds at ``places``, and the others in several ways.

    These are argmax, p / prior, and what reduced gains of ``others`` decide.
    """
    K = table.n_classes
    few = np.unique(np.linspace(0, len(places) - 1, PER_PASS).round().astype(np.intp))
    a, b = gains_of_cuts(cuts, places[few].tolist(), k, K, table.dtype).pair()
    priors = table.label_weight()
    ways = [Gains.reduced(np.ones(K)), Gains.reduced(np.divide(1.0, priors, out=np.zeros(K), where=priors > ABSENT))]
    parts = []
    for way in (*ways, *(gains for gains in others if gains.full is None and not gains.power)):
        weights, offsets = (part[0] for part in way.pair())
        largest = max(np.abs(weights).max(), np.abs(offsets).max()) or 1.0
        # none of the scores is above zero, so the class is decided where its own is zero
        scale = np.tile(weights * (UNSEEN / largest), (len(a), 1))
        offset = np.tile(offsets, (len(a), 1))
        offset = (offset / largest - 2.0) * UNSEEN
        scale[:, k] = a[:, k]
        offset[:, k] = b[:, k]
        parts.append(Gains(scale, offset))
    return Gains.concatenate(parts)


def _class_in(problem: Problem) -> int | None:
    """Return the class that the metric and the limits of a problem read; None where they read several."""
    K = len(problem.oracle.rows)
    limits = problem.limits
    return problem.metric.class_place if limits is None else class_of(problem.metric, limits, K)


# --- what mixtures of thresholds on one class attain ------------------------------------------------------------------


OUTSIDE = SINGULAR  # a corner that is cut off by no more, which rounding explains, stays
LOOSER = SINGLE  # by which a limit is loosened to find its price


@dataclass(frozen=True)
class Drawn:
    """A draw between thresholds: their indices and weights, its value, and the price of every function of a limit."""

    index: NDArray[np.intp]
    weights: Array
    value: float
    prices: Array | None


@dataclass(frozen=True, eq=False)
class Polygon:
    """The corners of a convex polygon, in their order around it."""

    # batch of C, one for each corner
    confusions: Confusion
    # (C, D): the thresholds between which a corner draws, D at most
    index: NDArray[np.intp]
    # (C, D): their weights
    weights: Array

    @classmethod
    def of(cls, confusions: Confusion) -> Polygon:
        """Return the hull of thresholds (T), from never deciding the class to always."""
        upper, lower = hull_chains(confusions)
        around = np.concatenate([upper, lower[-2:0:-1]])
        return cls(confusions[around], around[:, None], np.ones((len(around), 1)))

    def cut_off(self, heights: Array) -> Polygon | None:
        """Return the part where a linear function of the confusion is not negative; None where nothing is left.

        ``heights`` (C,) are its values at the corners.
        """
        inside = heights >= -OUTSIDE
        if inside.all():
            return self
        if not inside.any():
            return None
        following = np.roll(np.arange(len(heights)), -1)
        i = np.flatnonzero(inside != inside[following])
        j = following[i]
        share = np.clip(heights[i] / (heights[i] - heights[j]), 0.0, 1.0)[:, None]
        S = self.confusions
        inner = np.flatnonzero(inside)
        # a new corner stands between the two whose edge is cut
        order = np.argsort(np.concatenate([inner, i + 0.5]), kind="stable")

        def joined(part: NDArray[np.float64]) -> Array:
            return np.concatenate([part[inner], (1.0 - share) * part[i] + share * part[j]])[order]

        index = np.concatenate([np.tile(self.index[inner], 2), np.hstack([self.index[i], self.index[j]])])
        weights = np.concatenate(
            [
                np.pad(self.weights[inner], ((0, 0), (0, self.weights.shape[1]))),
                np.hstack([(1.0 - share) * self.weights[i], share * self.weights[j]]),
            ]
        )
        return Polygon(Confusion(S.rows, joined(S.diagonal), joined(S.columns)), index[order], weights[order])

    def within(self, functions: LinearFunctions, shift: Array) -> Polygon | None:
        """Return the part where ``functions`` (m), each raised by its ``shift`` (m,), are not negative."""
        left: Polygon | None = self
        for k in range(len(shift)):
            if left is not None:
                left = left.cut_off(functions.values(left.confusions)[..., k] + shift[k])
        return left

    def best(self, metric: Metric) -> Drawn:
        """Return the best corner."""
        values = np.nan_to_num(metric.values(self.confusions), nan=-np.inf)
        k = int(np.argmax(values))
        index, inverse = np.unique(self.index[k], return_inverse=True)
        weights = np.bincount(inverse, self.weights[k], len(index)).astype(np.float64)
        used = weights > 0.0
        return Drawn(index[used], weights[used], float(values[k]), None)


def best_drawn_within(confusions: Confusion, metric: Metric, functions: LinearFunctions | None) -> Drawn | None:
    """Return the best mixture of thresholds at which all ``functions`` are not negative; None if there is none.

    The T thresholds have common row sums (2,). The ``metric`` is linear or a ratio, of two columns.
    """
    polygon = Polygon.of(confusions)
    if functions is None:
        return polygon.best(metric)
    left = polygon.within(functions, np.zeros(len(functions)))
    if left is None:
        return None
    best = left.best(metric)
    prices = []
    if not confusions.columns[best.index, 1].any():
        # a precision of no row is no number that a limit moves
        return best
    for unit in np.eye(len(functions)):
        looser = polygon.within(functions, LOOSER * unit)
        prices.append(0.0 if looser is None else max(0.0, looser.best(metric).value - best.value) / LOOSER)
    return Drawn(best.index, best.weights, best.value, np.array(prices))
