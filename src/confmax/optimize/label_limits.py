"""Thresholds of several labels within limits: exactly for each label, and by prices where limits couple them.

A limit on one label leaves some of its thresholds. All cuts of its rows, sorted by probability, are compared, and the
best of those that keep the limits is the best threshold.

A ceiling on a sum of rates, such as the labels per row, couples labels. One threshold of each is chosen so that the sum
of the labels' scores is largest within the ceilings: a knapsack with one choice of each label (Sinha and Zoltners, "The
multiple-choice knapsack problem", Operations Research 27, 1979). A linear program over the corners of each label's
curve of score against rate bounds all choices and gives the prices of the ceilings. Only as many labels as there are
ceilings lie between two corners in its solution. They are rounded, and every label takes the best threshold that the
others leave room for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Confusion
from confmax.constraints.labels import Budgets, labels_of, of_label, place_of
from confmax.constraints.limits import Limits
from confmax.kernels.label_bins import LEAST
from confmax.kernels.order import stable_order
from confmax.metrics import Metric
from confmax.metrics.labels import is_total, ratio_of, shares_of
from confmax.optimize.cuts import Cuts, shortest
from confmax.optimize.label_thresholds import (
    LabelThresholds,
    Target,
    counted_in,
    score_of_one,
    thresholds_from,
)
from confmax.optimize.rounding import NEGLIGIBLE
from confmax.optimize.stored_labels import EQUAL
from confmax.optimize.threshold import upper_chain

SPARE = 1e-7  # by which a ceiling is looser than what is reached at least: the tolerance of the linear program
MOST_ROUNDED = 8  # labels between two corners, of which all roundings are compared
SWEEPS = 20  # in which every label takes its best threshold beside those of the others
HALVINGS = 12
LEVELS = 8  # of a ratio of sums, each from the one before
FIRST = 32  # corners of each label that the linear program begins with
ROUNDS = 60  # in which corners join it


class Reached(NamedTuple):
    """How far a limit is met that no threshold keeps beside the other ones: its number, and the value reached."""

    constraint: int
    value: float
    label: int | None


def of_label_rows(p: NDArray[np.floating], made: Array, weight: Array) -> Cuts:
    """Return the cuts of a label by its probabilities ``p`` (n,), where so much of each row is ``made`` true (n,)."""
    return Cuts.of(p, np.stack([1.0 - made, made], axis=1), weight)


def cut_at(cuts: Cuts, threshold: float) -> int:
    """Return the cut that decides as a ``threshold`` of a label does."""
    return int(np.searchsorted(-cuts.x, -threshold)) if threshold > -np.inf else len(cuts.x)


def cut_or(cuts: Cuts, threshold: float, values: Array) -> int:
    """Return the cut at a ``threshold`` if it is allowed, else the best one by ``values`` (T,)."""
    exact = cut_at(cuts, threshold)
    return exact if cuts.allowed[exact] else cuts.best(values, EQUAL)


def cut_near(cuts: Cuts, threshold: float) -> int:
    """Return the allowed cut that is nearest to a ``threshold``, in logarithms."""
    exact = cut_at(cuts, threshold)
    if cuts.allowed[exact]:
        return exact
    # a cut stands for the numbers from the probability below it to that above it
    ends = np.log(np.maximum(np.append(cuts.x, 0.0), LEAST))
    above = np.append(np.inf, ends[:-1])
    t = np.log(np.clip(threshold, LEAST, 2.0))
    far = np.maximum(ends - t, t - above)
    return int(np.argmin(np.where(cuts.allowed, far, np.inf)))


def threshold_of(cuts: Cuts, k: int, near: float = np.nan) -> float:
    """Return a number that decides as cut ``k`` does, which is that ``near`` if it does so."""
    low, high = cuts.ends(k)
    if low <= near < high and low <= cuts.x.dtype.type(near) < high:
        return near
    return shortest(low, high, cuts.x.dtype, closed=False)


@dataclass(frozen=True, eq=False)
class Within:
    """The best thresholds (L,) within limits.

    ``most`` bounds the value of all thresholds within them; None where none keeps them, and ``reached`` then says how
    far the limits are met. ``prices`` (n,) are those of the constraints, NaN where none is known.
    """

    values: Array
    most: float | None
    prices: Array
    reached: tuple[Reached, ...] = ()
    budgets: Budgets | None = None
    cuts: dict[int, Cuts] = field(default_factory=dict)

    def near(self, drawn: Array, free: Array) -> Array:
        """Return thresholds (L,) that protection has ``drawn`` from the ``free`` ones, as far as the limits allow.

        A label takes the allowed cut that is nearest. With ceilings on sums of rates, what protection changes is
        changed in the thresholds within the ceilings, in logarithms, as much of it as keeps them.
        """
        if self.budgets is None or not self.cuts:
            return self.values
        W, ceilings = self.budgets.weights, self.budgets.ceilings
        coupled = (W != 0.0).any(axis=0)
        moved = (drawn != free) & np.isfinite(drawn) & np.isfinite(free) & np.isfinite(self.values)
        towards = drawn.copy()
        for label in np.flatnonzero(coupled & moved).tolist():
            if self.values[label] != free[label]:
                towards[label] = self.values[label] * max(drawn[label], LEAST) / max(free[label], LEAST)
        changed = [label for label in self.cuts if moved[label]]
        best = {label: cut_near(cuts, self.values[label]) for label, cuts in self.cuts.items()}

        def rule(part: float) -> tuple[Array, Array]:
            """Return thresholds, and the sums of the rates, with a ``part`` of the change."""
            values = np.where(np.isin(np.arange(len(drawn)), list(self.cuts)), self.values, drawn)
            rates = np.zeros(len(drawn))
            for label, cuts in self.cuts.items():
                k = best[label]
                if label in changed:
                    own = max(self.values[label], LEAST)
                    there = towards[label] if part == 1.0 else own * (max(towards[label], LEAST) / own) ** part
                    k = cut_near(cuts, there)
                    values[label] = threshold_of(cuts, k, there)
                rates[label] = cuts.decided[k]
            return values, W @ rates

        values, sums = rule(1.0)
        if not len(W) or (sums <= ceilings + NEGLIGIBLE).all():
            return values
        low, high, kept = 0.0, 1.0, self.values
        for _ in range(HALVINGS):
            middle = (low + high) / 2.0
            values, sums = rule(middle)
            if (sums <= ceilings + NEGLIGIBLE).all():
                low, kept = middle, values
            else:
                high = middle
        return kept


def best_within(
    metric: Metric,
    target: Target,
    limits: Limits,
    free: LabelThresholds,
    known: dict[int, Cuts] | None = None,
) -> Within:
    """Return the best thresholds within ``limits``; those without limits are the ``free`` ones.

    The cuts of labels that are ``known``, of the same target, are not sorted again; those that are sorted join them.
    """
    known = {} if known is None else known
    if is_total(metric):
        return _common_within(metric, target, limits, free, known)
    budgets = Budgets.of(limits, target.rows)
    W, ceilings = budgets.weights, budgets.ceilings
    coupled = np.flatnonzero((W != 0.0).any(axis=0)).tolist()
    shares = shares_of(metric, target.rows)
    thresholds = free.values.copy()
    hits, decided = free.statistics.diagonal.copy(), free.statistics.columns.copy()
    reached: list[Reached] = []
    cuts: dict[int, Cuts] = {}
    scores: dict[int, Array] = {}
    chosen: dict[int, int] = {}
    score = replace(metric, classes=None)
    limited = labels_of(limits)
    for label in sorted({*limited, *coupled}):
        found = _sorted(target, label, known)
        if label in limited:
            found, missed = _allowed(found, target, limits, label)
            reached += missed
        cuts[label] = found
        scores[label] = shares[label] * score_of_one(score, target.rows[label])(found.hits, found.decided)
        chosen[label] = found.best(scores[label], EQUAL)
    prices = np.full(len(limits), np.nan)
    beyond = 0.0
    if len(W):
        rest = [label for label in range(len(thresholds)) if label not in cuts]
        assert not W[:, rest].any()
        within = _Coupled([cuts[k] for k in coupled], [scores[k] for k in coupled], W[:, coupled], ceilings)
        solved = within.solve([chosen[k] for k in coupled])
        chosen |= dict(zip(coupled, solved.chosen, strict=True))
        prices[budgets.numbers] = solved.prices
        beyond = solved.beyond
        reached += [
            Reached(int(j), float(sign * (ceiling + least)), None)
            for j, sign, ceiling, least in zip(budgets.numbers, budgets.signs, ceilings, solved.loosened, strict=True)
            if least > 0.0
        ]
    for label, k in chosen.items():
        thresholds[label] = threshold_of(cuts[label], k)
        hits[label], decided[label] = cuts[label].hits[k], cuts[label].decided[k]
    value = float(metric.values(Confusion(target.rows, hits, decided)))
    # what a search without sorting leaves open of the labels without limits
    left = max(0.0, free.most - float(metric.values(free.statistics)))
    return Within(thresholds, None if reached else value + beyond + left, prices, tuple(reached), budgets, cuts)


def _sorted(target: Target, label: int, known: dict[int, Cuts]) -> Cuts:
    """Return the cuts of a label, which join those that are ``known``."""
    if label not in known:
        p, made, weight = target.columns(label)[0], target.column(label), target.weight
        never = target.barred is not None and target.barred[label]
        known[label] = Cuts.never(p.dtype) if never else of_label_rows(p, made, weight)
    return known[label]


def _allowed(cuts: Cuts, target: Target, limits: Limits, label: int) -> tuple[Cuts, list[Reached]]:
    """Return cuts of which those that keep the limits of a ``label`` are allowed, and what is reached if none does."""
    own = of_label(limits, label)
    S = Confusion(target.rows[[label]], cuts.hits[:, None], cuts.decided[:, None])
    slacks = own.slacks(S)
    enough = np.ones(len(slacks), dtype=np.bool_)
    if 0.0 < target.share[label] < 1.0 and own.least_rows > 1:
        # labels of few rows keep a precision by chance, unless the model keeps it alone
        model = target.with_share(1.0)
        there = of_label_rows(target.columns(label)[0], model.column(label), target.weight)
        on_model = Confusion(model.rows[[label]], there.hits[:, None], there.decided[:, None])
        enough = _kept(own.slacks(on_model)).all(axis=-1) | (cuts.rows >= own.least_rows)
    numbers = [j for j, one in enumerate(limits.constraints) if place_of(one) == label]
    allowed, reached = _nearest(own, numbers, slacks, own.values(S), enough)
    return cuts.among(allowed), [replaced._replace(label=label) for replaced in reached]


def _kept(slacks: Array) -> NDArray[np.bool_]:
    return np.asarray(slacks >= -NEGLIGIBLE)


def _nearest(
    own: Limits, numbers: list[int], slacks: Array, values: Array, enough: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], list[Reached]]:
    """Return which cuts (T,) keep limits with ``slacks`` (T, m), or miss them least, and what is reached if none does.

    Only ``enough`` (T,) rows can show that a limit is kept.
    """
    kept = _kept(slacks).all(axis=-1) & enough
    if kept.any():
        return kept, []
    least = np.where(enough, slacks.min(axis=-1), -np.inf)
    reached = []
    for j, one in enumerate(own.constraints):
        fits = _kept(np.delete(slacks, j, axis=-1)).all(axis=-1) & enough
        if fits.any():
            far = values[fits, j].max() if one.is_floor else values[fits, j].min()
            reached.append(Reached(numbers[j], float(far), None))
    if not reached:
        # no cut keeps all but one of them
        k = int(np.argmax(least))
        missed = int(np.argmin(slacks[k]))
        reached = [Reached(numbers[missed], float(values[k, missed]), None)]
    return least >= least.max() - SPARE, reached


@dataclass(frozen=True, eq=False)
class _Solved:
    """A cut of each label, how much more than their value no choice exceeds, prices, and by how much was loosened."""

    chosen: list[int]
    beyond: float
    prices: Array
    loosened: Array


@dataclass(frozen=True, eq=False)
class _Coupled:
    """Labels with their cuts and scores, whose rates times ``weights`` (m, L) have ``ceilings`` (m,)."""

    cuts: list[Cuts]
    scores: list[Array]
    weights: Array
    ceilings: Array

    def solve(self, free: list[int]) -> _Solved:
        """Return the best cuts within the ceilings, from the ``free`` ones, which are best without them."""
        m = len(self.ceilings)
        if self._missed(free) == 0.0:
            return _Solved(free, 0.0, np.zeros(m), np.zeros(m))
        corners = [self._corners(label) for label in range(len(self.cuts))]
        loosened = self._least_loosened(corners)
        eased = replace(self, ceilings=self.ceilings + loosened + np.where(loosened > 0.0, SPARE, 0.0))
        columns, parts, prices = eased._generated(corners)
        chosen = eased._improved(eased._rounded(columns, parts))
        value = sum(scores[k] for scores, k in zip(self.scores, chosen, strict=True))
        # the Lagrangian of any prices bounds the value, whatever the precision of the linear program
        priced = prices @ self.weights
        most = prices @ eased.ceilings + sum(
            float((scores[k] - price * cuts.decided[k]).max())
            for cuts, scores, k, price in zip(self.cuts, self.scores, corners, priced, strict=True)
        )
        return _Solved(chosen, max(0.0, float(most - value)), prices, loosened)

    def _corners(self, label: int) -> NDArray[np.intp]:
        """Return the corners of the upper hull of a label's scores against its rate, of the allowed cuts."""
        some = np.flatnonzero(self.cuts[label].allowed)
        return some[upper_chain(self.cuts[label].decided[some], self.scores[label][some])]

    def _missed(self, chosen: list[int]) -> float:
        """Return by how much all ceilings together are exceeded."""
        rates = np.array([cuts.decided[k] for cuts, k in zip(self.cuts, chosen, strict=True)])
        return float(self._excess((self.weights @ rates)[None])[0])

    def _excess(self, sums: Array) -> Array:
        over = sums - self.ceilings
        return np.asarray(np.where(over > NEGLIGIBLE, over, 0.0).sum(axis=-1))

    def _least_loosened(self, corners: list[NDArray[np.intp]]) -> Array:
        """Return by how much the ceilings (m,) must be loosened so that draws between cuts keep them."""
        if (self.weights >= 0.0).all() and (self.ceilings >= 0.0).all():
            least = np.array([cuts.decided[k].min() for cuts, k in zip(self.cuts, corners, strict=True)])
            over = self.weights @ least - self.ceilings
            return np.where(over > NEGLIGIBLE, over, 0.0)
        # what draws can keep depends on the smallest and the largest rates alone
        over = self._program([k[[0, -1]] for k in corners], eases=True)[0][-len(self.ceilings) :]
        return np.where(over > SPARE, over, 0.0)

    def _generated(self, corners: list[NDArray[np.intp]]) -> tuple[list[NDArray[np.intp]], Array, Array]:
        """Return some of the corners, how much of each the best draw has, and the prices (m,) of the ceilings.

        On a model nearly every row is a corner. So the program has a few, the two ends among them, and those join that
        are worth more at its prices.
        """
        columns = [k[np.unique(np.linspace(0, len(k) - 1, FIRST).astype(np.intp))] for k in corners]
        for _ in range(ROUNDS):
            parts, prices = self._program(columns)
            joined = 0
            for label, price in enumerate((prices @ self.weights).tolist()):
                worth = self.scores[label] - price * self.cuts[label].decided
                k = corners[label][np.argmax(worth[corners[label]])]
                if worth[k] > worth[columns[label]].max() + NEGLIGIBLE:
                    columns[label] = np.unique(np.append(columns[label], k))
                    joined += 1
            if not joined:
                break
        parts, prices = self._program(columns) if joined else (parts, prices)
        return columns, parts, prices

    def _program(self, corners: list[NDArray[np.intp]], *, eases: bool = False) -> tuple[Array, Array]:
        """Return how much of each corner the best draw has, and the prices (m,) of the ceilings.

        Where it ``eases``, the draw is that for which the ceilings are loosened least; the last m numbers are by how
        much.
        """
        # scipy takes longer to import than confmax
        from scipy.optimize import linprog
        from scipy.sparse import csr_array, eye_array, hstack

        sizes = [len(k) for k in corners]
        owner = np.repeat(np.arange(len(corners)), sizes)
        m = len(self.ceilings)
        rates = np.concatenate([cuts.decided[k] for cuts, k in zip(self.cuts, corners, strict=True)])
        values = np.concatenate([scores[k] for scores, k in zip(self.scores, corners, strict=True)])
        one_each = csr_array((np.ones(len(owner)), (owner, np.arange(len(owner)))), shape=(len(corners), len(owner)))
        sums = csr_array(self.weights[:, owner] * rates)
        objective = -values
        if eases:
            objective = np.append(np.zeros(len(values)), np.ones(m))
            sums = hstack([sums, -eye_array(m)], format="csr")
            one_each = hstack([one_each, csr_array((len(corners), m))], format="csr")
        found = linprog(
            objective, A_ub=sums, b_ub=self.ceilings, A_eq=one_each, b_eq=np.ones(len(corners)), method="highs"
        )
        if found.x is None:
            # its own tolerance may find no draw that just keeps the ceilings; labels then begin at their first corners
            first = np.zeros(len(objective))
            first[np.cumsum([0, *sizes[:-1]])] = 1.0
            return first, np.zeros(m)
        return np.asarray(found.x), np.maximum(0.0 - np.asarray(found.ineqlin.marginals), 0.0)

    def _rounded(self, corners: list[NDArray[np.intp]], parts: Array) -> list[int]:
        """Return a corner of each label, of those that the best draw has, so that the ceilings are missed least."""
        split = np.split(parts, np.cumsum([len(k) for k in corners])[:-1])
        chosen = [int(k[np.argmax(part)]) for k, part in zip(corners, split, strict=True)]
        between = [
            (label, k[np.argsort(-part)[:2]].tolist())
            for label, (k, part) in enumerate(zip(corners, split, strict=True))
            if (part > NEGLIGIBLE).sum() > 1
        ][:MOST_ROUNDED]
        best, rank = chosen, (np.inf, 0.0)
        for ends in product(*(ends for _, ends in between)):
            tried = chosen.copy()
            for (label, _), k in zip(between, ends, strict=True):
                tried[label] = k
            value = sum(scores[k] for scores, k in zip(self.scores, tried, strict=True))
            best, rank = min((best, rank), (tried, (self._missed(tried), -float(value))), key=lambda pair: pair[1])
        return best

    def _improved(self, chosen: list[int]) -> list[int]:
        """Return cuts, each of which is the best allowed one that the others leave room for."""
        rates = np.array([cuts.decided[k] for cuts, k in zip(self.cuts, chosen, strict=True)])
        chosen = list(chosen)
        for _ in range(SWEEPS):
            before = list(chosen)
            for label, (cuts, scores) in enumerate(zip(self.cuts, self.scores, strict=True)):
                others = self.weights @ rates - self.weights[:, label] * rates[label]
                excess = self._excess(others + cuts.decided[:, None] * self.weights[:, label])
                excess[~cuts.allowed] = np.inf
                here = chosen[label]
                values = np.where(excess <= excess.min() + NEGLIGIBLE, scores, -np.inf)
                k = cuts.best(values, EQUAL)
                if excess[k] < excess[here] - NEGLIGIBLE or values[k] > values[here] + EQUAL:
                    chosen[label] = k
                    rates[label] = cuts.decided[k]
            if chosen == before:
                break
        return chosen


def _common_within(
    metric: Metric, target: Target, limits: Limits, free: LabelThresholds, known: dict[int, Cuts]
) -> Within:
    """Return one threshold for all labels without limits of their own, on calibrated probabilities, and one for others.

    A label whose limits the common threshold does not keep takes the allowed cut that is best at the level of the
    metric, and leaves that of the others as it is. Ceilings on sums of rates move the common threshold.
    """
    L = target.table.n_classes
    cuts: dict[int, Cuts] = {}
    reached: list[Reached] = []
    for label in labels_of(limits):
        cuts[label], missed = _allowed(_sorted(target, label, known), target, limits, label)
        reached += missed
    labels = counted_in(metric, L)
    barred = np.zeros(L, dtype=np.bool_) if target.barred is None else target.barred
    together_cut = [label for label in range(L) if label not in cuts and not barred[label]]
    budgets = Budgets.of(limits, target.rows)
    common = _Common.of(target, together_cut, labels, limits)
    value = score_of_one(replace(metric, classes=None), float(target.rows[labels].sum()))
    coefficients = ratio_of(metric)
    assert coefficients is not None
    top, _, less = coefficients
    level = float(metric.values(free.statistics))
    thresholds = free.values
    best: tuple[float, Array, list[Reached]] = (-np.inf, thresholds, [])
    for _ in range(LEVELS):
        at = top + less * level
        chosen = {
            label: cut_or(one, thresholds[label], at * one.hits - level * one.decided) for label, one in cuts.items()
        }
        fixed = np.array(
            [[cuts[label].hits[k], cuts[label].decided[k]] for label, k in chosen.items() if label in labels]
        )
        hits, decided = fixed.reshape(-1, 2).sum(axis=0)
        rates = np.zeros(L)
        rates[list(chosen)] = [cuts[label].decided[k] for label, k in chosen.items()]
        k, missed = common.best(value, hits, decided, rates, limits, budgets)
        level = float(value(common.hits[[k]] + hits, common.decided[[k]] + decided)[0])
        if level <= best[0] + EQUAL:
            break
        thresholds = target.allowed(thresholds_from(target, float(common.x[k - 1]) if k else np.inf))
        together = thresholds.copy()
        for label, cut in chosen.items():
            together[label] = threshold_of(cuts[label], cut, thresholds[label])
        best = level, together, missed
    _, thresholds, missed = best
    reached += missed
    # limits leave fewer thresholds than there are without them
    most = None if reached else free.most
    return Within(thresholds, most, np.full(len(limits), np.nan), tuple(reached))


@dataclass(frozen=True, eq=False)
class _Common:
    """The places where the rows of several labels are cut together, by falling calibrated probabilities ``x`` (T - 1,).

    ``hits`` and ``decided`` (T,) count the labels of the metric, and ``sums`` (T, m) what ceilings limit.
    """

    x: Array
    hits: Array
    decided: Array
    sums: Array

    @classmethod
    def of(cls, target: Target, labels: list[int], counted: list[int], limits: Limits) -> _Common:
        """Sort the rows of some ``labels``, of which those that are ``counted`` are in the metric."""
        n = target.table.n_rows
        every = np.concatenate([target.columns(label)[1] for label in labels] or [np.zeros(0)])
        order = stable_order(-every)
        x = every[order]
        last = np.flatnonzero(np.append(x[1:] != x[:-1], True)) if len(x) else np.zeros(0, np.intp)
        owner = np.array(labels, dtype=np.intp)[order // n]
        w = target.weight[order % n]
        made = np.concatenate([target.column(label) for label in labels] or [np.zeros(0)])[order] * w
        inside = np.isin(owner, counted)
        W = Budgets.of(limits, target.rows).weights

        def summed(part: Array) -> Array:
            return np.append(0.0, np.cumsum(part)[last])

        sums = [summed(weights[owner] * w) for weights in W]
        hits, decided = (summed(np.where(inside, part, 0.0)) for part in (made, w))
        return cls(x[last], hits, decided, np.stack(sums, axis=1) if sums else np.zeros((len(last) + 1, 0)))

    def best(
        self,
        value: Callable[[Array, Array], Array],
        hits: float,
        decided: float,
        rates: Array,
        limits: Limits,
        budgets: Budgets,
    ) -> tuple[int, list[Reached]]:
        """Return the best cut beside labels with these ``hits``, decisions and ``rates`` (L,), within the ceilings."""
        reached = self.sums + budgets.weights @ rates
        ends = [limits.constraints[j] for j in budgets.numbers]
        allowed = np.ones(len(self.hits), dtype=np.bool_)
        missed: list[Reached] = []
        if ends:
            given = (budgets.ceilings - reached, budgets.signs * reached, allowed)
            allowed, missed = _nearest(Limits(tuple(ends)), budgets.numbers.tolist(), *given)
        reaches = np.where(allowed, value(self.hits + hits, self.decided + decided), -np.inf)
        right = 2.0 * self.hits - self.decided
        return int(np.argmax(np.where(reaches >= reaches.max() - EQUAL, right, -np.inf))), missed
