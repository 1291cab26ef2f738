"""Thresholds of several labels within limits: exactly for each label, and by prices where limits couple them.

A limit on one label leaves some of its thresholds. All cuts of its rows, sorted by probability, are compared, and the
best of those that keep the limits is the best threshold.

A ceiling on a sum of rates, such as the labels per row, couples labels. One threshold of each is chosen so that the sum
of the labels' scores is largest within the ceilings: a knapsack with one choice of each label (Sinha and Zoltners, "The
multiple-choice knapsack problem", Operations Research 27, 1979). A linear program over the corners of each label's
curve of score against rate bounds all choices and gives the prices of the ceilings. Only as many labels as there are
ceilings lie between two corners in its solution. They are rounded, and every label takes the best threshold that the
others leave room for.

A mean of scores is such a sum. A ratio of sums over labels is one at every level of the ratio. Its labels need not have
thresholds of their own: those that the limits read alike may be cut together, as one block of rows. Few numbers are
chosen then, which hold better on new rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Confusion
from confmax.constraints.labels import Budgets, labels_of, of_label, place_of
from confmax.constraints.limits import Limits
from confmax.kernels.label_bins import LEAST
from confmax.metrics import Metric
from confmax.metrics.labels import fraction_of, is_total, shares_of
from confmax.optimize.cuts import EQUAL, Cuts, kept, shortest, shown
from confmax.optimize.estimate import Estimate
from confmax.optimize.label_thresholds import (
    LabelThresholds,
    common_cut,
    counted_in,
    most_at,
    score_of_one,
    thresholds_from,
)
from confmax.optimize.rounding import NEGLIGIBLE
from confmax.optimize.threshold import upper_chain

SPARE = 1e-7  # by which a ceiling is looser than what is reached at least: the tolerance of the linear program
MOST_ROUNDED = 8  # labels between two corners, of which all roundings are compared
SWEEPS = 20  # in which every label takes its best threshold beside those of the others
HALVINGS = 12
LEVELS = 8  # of a ratio of sums, each from the one before
FIRST = 32  # corners of each label that the linear program begins with
ROUNDS = 60  # in which corners join it


Block = tuple[int, ...]  # labels that are cut together


class Reached(NamedTuple):
    """How far a limit is met that no threshold keeps beside the other ones: its number, and the value reached.

    Where it counts rows of one label and a threshold must decide some number of them, ``few`` is what thresholds reach
    beyond the value that decide fewer, by so many ``rows``; else NaN. Where no threshold keeps all the others, the
    value is that of the ``nearest`` one.
    """

    constraint: int
    value: float
    label: int | None
    few: float = np.nan
    rows: int = 0
    nearest: bool = False


def cut_at(cuts: Cuts, threshold: float) -> int:
    """Return the cut that decides as a ``threshold`` of a label does."""
    return int(np.searchsorted(-cuts.x, -threshold)) if threshold > -np.inf else len(cuts.x)


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
    return float(shortest(low, high, cuts.x.dtype, closed=False))


@dataclass(frozen=True, eq=False)
class Within:
    """The best thresholds (L,) within limits.

    ``most`` bounds the value of all thresholds within them; None where none keeps them, and ``reached`` then says how
    far the limits are met. ``prices`` (n,) are those of the constraints, NaN where none is known.
    """

    values: Array
    most: float | None
    prices: Array
    reached: tuple[Reached, ...]
    budgets: Budgets
    cuts: dict[int, Cuts]

    def near(self, drawn: Array, free: Array) -> Array:
        """Return thresholds (L,) that protection has ``drawn`` from the ``free`` ones, as far as the limits allow.

        A label takes the allowed cut that is nearest. With ceilings on sums of rates, what protection changes is
        changed in the thresholds within the ceilings, in logarithms, as much of it as keeps them.
        """
        W, ceilings = self.budgets.weights, self.budgets.ceilings
        moved = (drawn != free) & np.isfinite(drawn) & np.isfinite(free) & np.isfinite(self.values)
        towards = drawn.copy()
        for label in self.budgets.labels:
            if moved[label] and self.values[label] != free[label]:
                towards[label] = self.values[label] * max(drawn[label], LEAST) / max(free[label], LEAST)
        changed = [label for label in self.cuts if moved[label]]
        best = {label: cut_near(cuts, self.values[label]) for label, cuts in self.cuts.items()}

        def rule(part: float) -> tuple[Array, Array]:
            """Return thresholds, and the sums of the rates, with a ``part`` of the change."""
            values = np.where((drawn == free) | np.isin(np.arange(len(drawn)), list(self.cuts)), self.values, drawn)
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
    estimate: Estimate,
    limits: Limits,
    free: LabelThresholds,
    known: dict[Block, Cuts] | None = None,
    *,
    together: bool = False,
) -> Within:
    """Return the best thresholds within ``limits``; those without limits are the ``free`` ones.

    The cuts that are ``known``, of the same estimate, are not sorted again; those that are sorted join them. For a
    ratio of sums over labels, those that ceilings read alike are cut ``together``: at one calibrated probability.
    """
    known = {} if known is None else known
    budgets = Budgets.of(limits, estimate.rows)
    limited = labels_of(limits)
    together = together and is_total(metric)
    tied = set(counted_in(metric, estimate.table.n_classes)) - set(limited) if together else set[int]()
    reached: list[Reached] = []
    cuts: dict[Block, Cuts] = {}
    for block in budgets.blocks(limited, tied):
        cuts[block] = _sorted(estimate, block, known)
        if block[0] in limited:
            cuts[block], missed = _allowed(cuts[block], estimate, limits, block[0])
            reached += missed
    if is_total(metric):
        best = _by_levels(metric, estimate, free, cuts, budgets, together=together)
    else:
        best = _by_label(metric, estimate, free, cuts, budgets)
    prices = np.full(len(limits), np.nan)
    most: float | None = best.most
    if together:
        # thresholds of their own are worth more, and prices would speak of these
        alone = best_within(metric, estimate, limits, free, known).most
        most = most if alone is None else alone
    else:
        prices[budgets.numbers] = best.solved.prices
    ends = zip(budgets.numbers.tolist(), budgets.signs, budgets.ceilings, best.solved.loosened, strict=True)
    reached += [
        Reached(j, float(sign * (ceiling + least) + 0.0), None) for j, sign, ceiling, least in ends if least > 0.0
    ]
    thresholds = best.others.copy()
    for block, k in best.solved.chosen.items():
        if len(block) == 1:
            near = thresholds[block[0]] if is_total(metric) else np.nan
            thresholds[block[0]] = threshold_of(cuts[block], k, near)
    single = {block[0]: one for block, one in cuts.items() if len(block) == 1}
    return Within(thresholds, None if reached else most, prices, tuple(reached), budgets, single)


@dataclass(frozen=True, eq=False)
class _Best:
    """The best cuts of labels with limits, thresholds (L,) of the ``others``, and what the value does not exceed."""

    solved: Solved
    others: Array
    most: float


def _by_label(
    metric: Metric, estimate: Estimate, free: LabelThresholds, cuts: dict[Block, Cuts], budgets: Budgets
) -> _Best:
    """Return the best cuts for a mean of scores of labels."""
    shares = shares_of(metric, estimate.rows)
    score = replace(metric, classes=None)
    scores = {
        block: shares[block[0]] * score_of_one(score, estimate.rows[block[0]])(one.hits, one.decided)
        for block, one in cuts.items()
    }
    solved = priced(cuts, scores, budgets)
    hits, decided = free.statistics.diagonal.copy(), free.statistics.columns.copy()
    for block, k in solved.chosen.items():
        hits[block[0]], decided[block[0]] = cuts[block].hits[k], cuts[block].decided[k]
    value = float(metric.values(Confusion(estimate.rows, hits, decided)))
    # what a search without sorting leaves open of the labels without limits
    left = max(0.0, free.most - float(metric.values(free.statistics)))
    return _Best(solved, free.values, value + solved.beyond + left)


def _by_levels(
    metric: Metric,
    estimate: Estimate,
    free: LabelThresholds,
    cuts: dict[Block, Cuts],
    budgets: Budgets,
    *,
    together: bool,
) -> _Best:
    """Return the best cuts for a ratio of sums over labels.

    At a level of the ratio, what the numerator has above the level times the denominator is a sum over labels. Where
    its largest value is zero, the level is the largest ratio (Dinkelbach's method). Labels without limits have one
    threshold, as they have where there are no limits. Where labels are cut ``together``, a label whose own limits this
    threshold keeps has it, too.
    """
    fraction = fraction_of(metric)
    assert fraction is not None
    counted = counted_in(metric, estimate.table.n_classes)
    inside = [block for block in cuts if block[0] in counted]
    others = [label for label in counted if not any(label in block for block in inside)]
    columns = budgets.weights.T
    true = float(estimate.rows[counted].sum())
    floor = fraction.base * true
    level, reached, most, thresholds = float(metric.values(free.statistics)), -np.inf, free.most, free.values
    for _ in range(LEVELS):
        gain, price = fraction.worth(level)
        tried = cuts
        if together:
            alone = [block for block in cuts if not columns[block[0]].any()]
            tried = cuts | {block: _only_at(cuts[block], thresholds[block[0]]) for block in alone}
        scores = {block: _gained(gain, price, one.hits, one.decided) * (block in inside) for block, one in cuts.items()}
        solved = priced(tried, scores, budgets)
        sums = np.zeros(2)
        for block in inside:
            sums += [part[solved.chosen[block]] for part in (cuts[block].hits, cuts[block].decided)]
        largest = solved.beyond + gain * sums[0] - price * sums[1]
        # labels that ceilings read alike are cut at one probability
        ends = {
            columns[one[0]].tobytes(): tuple(map(float, cuts[one].ends(k)))
            for one, k in solved.chosen.items()
            if len(one) > 1
        }
        if others:
            common = common_cut(estimate, others, partial(_gained, gain, price))
            ends[columns[others[0]].tobytes()] = float(common.low[0]), float(common.high[0])
            sums += [common.hits[0], common.decided[0]]
        if floor and not together:
            hits, decided, beyond = most_at(estimate, others, gain, price)
            largest += gain * hits - price * decided + beyond
            most = min(most, level + max(largest - level * floor, 0.0) / floor)
        value = float(fraction.value(true, *sums))
        if value <= reached + EQUAL:
            break
        level, reached, thresholds = value, value, free.values.copy()
        best = solved, thresholds
        for column, end in ends.items():
            same = [label for label, weights in enumerate(columns) if weights.tobytes() == column]
            thresholds[same] = estimate.allowed(thresholds_from(estimate, *end))[same]
    return _Best(*best, max(most, reached))


def _gained(gain: float, price: float, hits: Array, decided: Array) -> Array:
    """Return what is gained at a level (`confmax.metrics.views.Fraction.worth`)."""
    return np.asarray(gain * hits - price * decided)


def _only_at(cuts: Cuts, threshold: float) -> Cuts:
    """Return cuts of which that at a ``threshold`` alone is allowed, if it is; else the same."""
    k = cut_at(cuts, threshold)
    return cuts.among(np.arange(len(cuts)) == k) if cuts.allowed[k] else cuts


def _sorted(estimate: Estimate, block: Block, known: dict[Block, Cuts]) -> Cuts:
    """Return the cuts of a ``block``, which join those that are ``known``.

    One label is cut by its given probabilities, and several are cut by the calibrated ones.
    """
    if block not in known:
        never = estimate.barred is not None and estimate.barred[block[0]]
        if never:
            known[block] = Cuts.never(estimate.table.dtype, float(estimate.rows[block[0]]))
        else:
            known[block] = Cuts.of(estimate.labels(block))
    return known[block]


def _allowed(cuts: Cuts, estimate: Estimate, limits: Limits, label: int) -> tuple[Cuts, list[Reached]]:
    """Return cuts of which those that keep the limits of a ``label`` are allowed, and what is reached if none does."""
    own = of_label(limits, label)
    enough = np.ones(len(cuts), dtype=np.bool_)
    if 0.0 < estimate.share[label] < 1.0 and own.least_rows > 1:
        enough = shown(cuts, own, Cuts.of(estimate.with_share(1.0).labels([label])))
    allowed = kept(cuts, own) & enough
    if allowed.any():
        return cuts.among(allowed), []
    slacks, values = own.slacks(cuts.confusions), own.values(cuts.confusions)
    least = np.where(enough, slacks.min(axis=-1), -np.inf)
    numbers = [j for j, one in enumerate(limits.constraints) if place_of(one) == label]
    reached = []
    for j in range(len(own)):
        beside = (np.delete(slacks, j, axis=-1) >= -NEGLIGIBLE).all(axis=-1)
        if not (beside & enough).any():
            continue
        far, best = (int(np.argmax(np.where(some, slacks[:, j], -np.inf))) for some in (beside & enough, beside))
        found = Reached(numbers[j], float(values[far, j]), label)
        if slacks[best, j] > slacks[far, j]:
            found = found._replace(few=float(values[best, j]), rows=int(cuts.rows[best]))
        reached.append(found)
    if not reached:
        # no cut keeps all but one of them
        k = int(np.argmax(least))
        missed = int(np.argmin(slacks[k]))
        reached = [Reached(numbers[missed], float(values[k, missed]), label, nearest=True)]
    return cuts.among(least >= least.max() - SPARE), reached


@dataclass(frozen=True, eq=False)
class Solved:
    """A cut of each block, how much more than their value no choice exceeds, prices, and by how much was loosened."""

    chosen: dict[Block, int]
    beyond: float
    prices: Array
    loosened: Array


def priced(every: Mapping[Block, Cuts], scores: Mapping[Block, Array], budgets: Budgets) -> Solved:
    """Return the cuts with the largest sum of ``scores``, (T,) of each block, within the ceilings of ``budgets``.

    Blocks that no ceiling reads have their best cut.
    """
    chosen = {block: cuts.best(scores[block], EQUAL) for block, cuts in every.items()}
    blocks = [block for block in every if budgets.weights[:, block[0]].any()]
    m = len(budgets.ceilings)
    weights = budgets.weights[:, [block[0] for block in blocks]]
    within = _Coupled([every[one] for one in blocks], [scores[one] for one in blocks], weights, budgets.ceilings)
    if within.missed([chosen[one] for one in blocks]) == 0.0:
        return Solved(chosen, 0.0, np.zeros(m), np.zeros(m))
    corners = [within.corners(place) for place in range(len(blocks))]
    loosened = within.least_loosened(corners)
    eased = replace(within, ceilings=within.ceilings + loosened + np.where(loosened > 0.0, SPARE, 0.0))
    columns, parts, prices = eased.generated(corners)
    best = eased.improved(eased.rounded(columns, parts))
    value = sum(one[k] for one, k in zip(eased.scores, best, strict=True))
    # the Lagrangian of any prices bounds the value, whatever the precision of the linear program
    most = prices @ eased.ceilings + sum(
        float((one[k] - price * cuts.decided[k]).max())
        for cuts, one, k, price in zip(eased.cuts, eased.scores, corners, prices @ eased.weights, strict=True)
    )
    return Solved(chosen | dict(zip(blocks, best, strict=True)), max(0.0, float(most - value)), prices, loosened)


@dataclass(frozen=True, eq=False)
class _Coupled:
    """Labels with their cuts and scores, whose rates times ``weights`` (m, C) have ``ceilings`` (m,)."""

    cuts: list[Cuts]
    scores: list[Array]
    weights: Array
    ceilings: Array

    def corners(self, label: int) -> NDArray[np.intp]:
        """Return the corners of the upper hull of a label's scores against its rate, of the allowed cuts."""
        some = np.flatnonzero(self.cuts[label].allowed)
        return some[upper_chain(self.cuts[label].decided[some], self.scores[label][some])]

    def missed(self, chosen: list[int]) -> float:
        """Return by how much all ceilings together are exceeded."""
        rates = np.array([cuts.decided[k] for cuts, k in zip(self.cuts, chosen, strict=True)])
        return float(self._excess((self.weights @ rates)[None])[0])

    def _excess(self, sums: Array) -> Array:
        over = sums - self.ceilings
        return np.asarray(np.where(over > NEGLIGIBLE, over, 0.0).sum(axis=-1))

    def least_loosened(self, corners: list[NDArray[np.intp]]) -> Array:
        """Return by how much the ceilings (m,) must be loosened so that draws between cuts keep them."""
        if (self.weights >= 0.0).all() and (self.ceilings >= 0.0).all():
            least = np.array([cuts.decided[k].min() for cuts, k in zip(self.cuts, corners, strict=True)])
            over = self.weights @ least - self.ceilings
            return np.where(over > NEGLIGIBLE, over, 0.0)
        # what draws can keep depends on the smallest and the largest rates alone
        over = self._program([k[[0, -1]] for k in corners], eases=True)[0][-len(self.ceilings) :]
        return np.where(over > SPARE, over, 0.0)

    def generated(self, corners: list[NDArray[np.intp]]) -> tuple[list[NDArray[np.intp]], Array, Array]:
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

    def rounded(self, corners: list[NDArray[np.intp]], parts: Array) -> list[int]:
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
            best, rank = min((best, rank), (tried, (self.missed(tried), -float(value))), key=lambda pair: pair[1])
        return best

    def improved(self, chosen: list[int]) -> list[int]:
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
