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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from confmax.optimize.block_cuts import Block, BlockCuts, beside, best_of, cut_at, cut_near, threshold_of
from confmax.optimize.cuts import EQUAL, Cuts, Lumps, kept, shown
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

NEARLY = 2.0 * NEGLIGIBLE  # slack of a corner, beside which a cut may be that keeps its limits
SPARE = 1e-7  # by which a ceiling is looser than what is reached at least: the tolerance of the linear program
MOST_ROUNDED = 8  # labels between two corners, of which all roundings are compared
SWEEPS = 20  # in which every label takes its best threshold beside those of the others
HALVINGS = 12
LEVELS = 8  # of a ratio of sums, each from the one before
FIRST = 32  # corners of each label that the linear program begins with
ROUNDS = 60  # in which corners join it
LEAST_TOLERANCE = 1e-10  # of its prices: the least that it takes


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


@dataclass(frozen=True, eq=False)
class Within:
    """The best thresholds (L,) within limits.

    ``most`` bounds the value of all thresholds within them; None where none keeps them, and ``reached`` then says how
    far the limits are met. ``prices`` (n,) are those of the constraints, NaN where none is known. Thresholds of labels
    with limits are cuts of ``blocks``.
    """

    values: Array
    most: float | None
    prices: Array
    reached: tuple[Reached, ...]
    budgets: Budgets
    blocks: Blocks

    def near(self, drawn: Array, free: Array) -> Array:
        """Return thresholds (L,) that protection has ``drawn`` from the ``free`` ones, as far as the limits allow.

        A label takes the allowed cut that is nearest. With ceilings on sums of rates, what protection changes is
        changed in the thresholds within the ceilings, in logarithms, as much of it as keeps them.
        """
        return self.blocks.known.settled(lambda: self._near(drawn, free))

    def _near(self, drawn: Array, free: Array) -> Array:
        """Return `near` as the cuts that are known have it."""
        every = {block[0]: cuts for block, cuts in self.blocks.allowed().items() if len(block) == 1}
        W, ceilings = self.budgets.weights, self.budgets.ceilings
        moved = (drawn != free) & np.isfinite(drawn) & np.isfinite(free) & np.isfinite(self.values)
        towards = drawn.copy()
        for label in self.budgets.labels:
            if moved[label] and self.values[label] != free[label]:
                towards[label] = self.values[label] * max(drawn[label], LEAST) / max(free[label], LEAST)
        changed = [label for label in every if moved[label]]
        best = {label: cut_near(cuts, self.values[label]) for label, cuts in every.items()}

        def rule(part: float) -> tuple[Array, Array]:
            """Return thresholds, and the sums of the rates, with a ``part`` of the change."""
            values = np.where((drawn == free) | np.isin(np.arange(len(drawn)), list(every)), self.values, drawn)
            rates = np.zeros(len(drawn))
            for label, cuts in every.items():
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


@dataclass(frozen=True, eq=False)
class Blocks:
    """The blocks of labels that limits read, with the ``limits`` of those of one label that are ``limited``.

    Their cuts are ``known`` to other limits on the same estimate, too.
    """

    known: BlockCuts
    names: tuple[Block, ...]
    limits: Limits
    limited: tuple[int, ...]
    made: dict[Block, tuple[Cuts, Cuts, list[Reached]]] = field(default_factory=dict)

    def allowed(self) -> dict[Block, Cuts]:
        """Return the cuts of every block, of which those that keep the limits of its label are allowed."""
        for block in self.names:
            cuts = self.known.of(block)
            if block not in self.made or self.made[block][0] is not cuts:
                limited, missed = _allowed(cuts, self, block[0]) if block[0] in self.limited else (cuts, [])
                self.made[block] = cuts, limited, missed
        return {block: self.made[block][1] for block in self.names}

    @property
    def reached(self) -> list[Reached]:
        """How far the limits of labels are met that no cut keeps."""
        return [one for block in self.names for one in self.made[block][2]]


def best_within(
    metric: Metric,
    limits: Limits,
    free: LabelThresholds,
    known: BlockCuts,
    *,
    together: bool = False,
) -> Within:
    """Return the best thresholds within ``limits``; those without limits are the ``free`` ones.

    They are cuts that are ``known`` on the estimate, or become so. For a ratio of sums over labels, those that ceilings
    read alike are cut ``together``: at one calibrated probability.
    """
    estimate = known.estimate
    budgets = Budgets.of(limits, estimate.rows)
    limited = labels_of(limits)
    together = together and is_total(metric)
    tied = set(counted_in(metric, estimate.table.n_classes)) - set(limited) if together else set[int]()
    blocks = Blocks(known, tuple(budgets.blocks(limited, tied)), limits, tuple(limited))
    known.settled(blocks.allowed)
    reached = blocks.reached
    if is_total(metric):
        best = _by_levels(metric, free, blocks, budgets, together=together)
    else:
        best = _by_label(metric, free, blocks, budgets)
    prices = np.full(len(limits), np.nan)
    most: float | None = best.most
    if together:
        # thresholds of their own are worth more, and prices would speak of these
        alone = best_within(metric, limits, free, known).most
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
            thresholds[block[0]] = threshold_of(best.cuts[block], k, near)
    return Within(thresholds, None if reached else most, prices, tuple(reached), budgets, blocks)


@dataclass(frozen=True, eq=False)
class _Best:
    """The best of the ``cuts`` of labels with limits, thresholds (L,) of the ``others``, and a bound of the value."""

    cuts: Mapping[Block, Cuts]
    solved: Solved
    others: Array
    most: float


def _by_label(metric: Metric, free: LabelThresholds, blocks: Blocks, budgets: Budgets) -> _Best:
    """Return the best cuts for a mean of scores of labels."""
    rows = blocks.known.estimate.rows
    shares = shares_of(metric, rows)
    score = replace(metric, classes=None)

    def worth(block: Block, hits: Array, decided: Array) -> Array:
        return np.asarray(shares[block[0]] * score_of_one(score, rows[block[0]])(hits, decided))

    cuts, solved = blocks.known.settled(lambda: priced(blocks.allowed(), worth, budgets))
    hits, decided = free.statistics.diagonal.copy(), free.statistics.columns.copy()
    for block, k in solved.chosen.items():
        hits[block[0]], decided[block[0]] = cuts[block].hits[k], cuts[block].decided[k]
    value = float(metric.values(Confusion(rows, hits, decided)))
    # what a search without sorting leaves open of the labels without limits
    left = max(0.0, free.most - float(metric.values(free.statistics)))
    return _Best(cuts, solved, free.values, value + solved.beyond + left)


def _by_levels(metric: Metric, free: LabelThresholds, blocks: Blocks, budgets: Budgets, *, together: bool) -> _Best:
    """Return the best cuts for a ratio of sums over labels.

    At a level of the ratio, what the numerator has above the level times the denominator is a sum over labels. Where
    its largest value is zero, the level is the largest ratio (Dinkelbach's method). Labels without limits have one
    threshold, as they have where there are no limits. Where labels are cut ``together``, a label whose own limits this
    threshold keeps has it, too.
    """
    estimate = blocks.known.estimate
    fraction = fraction_of(metric)
    assert fraction is not None
    counted = counted_in(metric, estimate.table.n_classes)
    inside = [block for block in blocks.names if block[0] in counted]
    others = [label for label in counted if not any(label in block for block in inside)]
    columns = budgets.weights.T
    true = float(estimate.rows[counted].sum())
    floor = fraction.base * true
    level, reached, most, thresholds = float(metric.values(free.statistics)), -np.inf, free.most, free.values
    for _ in range(LEVELS):
        gain, price = fraction.worth(level)

        def worth(block: Block, hits: Array, decided: Array, gain: float = gain, price: float = price) -> Array:
            return _gained(gain, price, hits, decided) * (block in inside)

        def at_level(worth: Worth = worth, thresholds: Array = thresholds) -> tuple[Mapping[Block, Cuts], Solved]:
            tried = blocks.allowed()
            if together:
                alone = [block for block in tried if not columns[block[0]].any()]
                tried |= {block: _only_at(tried[block], thresholds[block[0]]) for block in alone}
            return priced(tried, worth, budgets)

        cuts, solved = blocks.known.settled(at_level)
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
        best = cuts, solved, thresholds
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
    return cuts.among(np.arange(len(cuts)) == k, cuts.lumps.none) if cuts.allowed[k] else cuts


def _allowed(cuts: Cuts, blocks: Blocks, label: int) -> tuple[Cuts, list[Reached]]:
    """Return cuts of which those that keep the limits of a ``label`` are allowed, and what is reached if none does."""
    limits, estimate = blocks.limits, blocks.known.estimate
    own = of_label(limits, label)
    lumps = cuts.lumps
    enough, may = np.ones(len(cuts), dtype=np.bool_), ~lumps.none
    if 0.0 < estimate.share[label] < 1.0 and own.least_rows > 1:
        model = blocks.known.of((label,), on_model=True)
        enough = shown(cuts, own, model)
        # rows are counted one by one until they are enough
        lumps.want(cuts.rows[lumps.at] < own.least_rows)
        may = (_corners(model.lumps, own).min(axis=-1) >= -NEARLY) | (cuts.rows[lumps.at + 1] >= own.least_rows)
    corners = _corners(lumps, own)
    inside = may & (corners.min(axis=-1) >= -NEARLY)
    allowed = kept(cuts, own) & enough
    if allowed.any():
        return cuts.among(allowed, inside), []
    slacks, values = own.slacks(cuts.confusions), own.values(cuts.confusions)
    least = np.where(enough, slacks.min(axis=-1), -np.inf)
    numbers = [j for j, one in enumerate(limits.constraints) if place_of(one) == label]
    reached = []
    for j in range(len(own)):
        others, rest = (np.delete(part, j, axis=-1).min(axis=-1, initial=np.inf) for part in (corners, slacks))
        near = rest >= -NEGLIGIBLE
        lumps.want(may & (others >= -NEARLY) & ~(near & enough).any())
        if not (near & enough).any():
            continue
        far, best = (int(np.argmax(np.where(some, slacks[:, j], -np.inf))) for some in (near & enough, near))
        further = corners[:, j] >= slacks[far, j] - EQUAL, corners[:, j] >= slacks[best, j] - EQUAL
        lumps.want((others >= -NEARLY) & ((may & further[0]) | further[1]))
        found = Reached(numbers[j], float(values[far, j]), label)
        if slacks[best, j] > slacks[far, j]:
            found = found._replace(few=float(values[best, j]), rows=int(cuts.rows[best]))
        reached.append(found)
    if not reached:
        # no cut keeps all but one of them
        k = int(np.argmax(least))
        missed = int(np.argmin(slacks[k]))
        reached = [Reached(numbers[missed], float(values[k, missed]), label, nearest=True)]
    nearest = corners.min(axis=-1) >= least.max() - SPARE
    lumps.want(may & nearest)
    return cuts.among(least >= least.max() - SPARE, may & nearest), reached


def _corners(lumps: Lumps, limits: Limits) -> Array:
    """Return the largest slacks (C, n) that cuts in ``lumps`` may have; ratios are largest at a corner."""
    return np.asarray(limits.slacks(lumps.corners).max(axis=0))


@dataclass(frozen=True, eq=False)
class Solved:
    """A cut of each block, how much more than their value no choice exceeds, prices, and by how much was loosened."""

    chosen: dict[Block, int]
    beyond: float
    prices: Array
    loosened: Array


# what a block is worth at hits and decisions (...)
Worth = Callable[[Block, Array, Array], Array]


def priced(every: Mapping[Block, Cuts], worth: Worth, budgets: Budgets) -> tuple[Mapping[Block, Cuts], Solved]:
    """Return ``every`` block's cuts, and those with the largest sum of ``worth`` within the ceilings of ``budgets``.

    Blocks that no ceiling reads have their best cut.
    """
    scores = {block: worth(block, cuts.hits, cuts.decided) for block, cuts in every.items()}
    inside = {block: worth(block, cuts.lumps.hits, cuts.lumps.decided) for block, cuts in every.items()}
    chosen = {block: best_of(cuts, scores[block], inside[block]) for block, cuts in every.items()}
    coupled = [block for block in every if budgets.weights[:, block[0]].any()]
    m = len(budgets.ceilings)
    within = _Coupled(
        [every[block] for block in coupled],
        [scores[block] for block in coupled],
        [inside[block] for block in coupled],
        budgets.weights[:, [block[0] for block in coupled]],
        budgets.ceilings,
    )
    solved = Solved({}, 0.0, np.zeros(m), np.zeros(m))
    if within.missed([chosen[block] for block in coupled]) > 0.0:
        solved = within.solved(coupled)
    beyond = solved.beyond
    for block in [one for one in every if one not in solved.chosen]:
        value = scores[block][chosen[block]]
        beyond += float(np.max(inside[block], where=every[block].lumps.may, initial=value) - value)
    solved = replace(solved, chosen=chosen | solved.chosen, beyond=beyond)
    for block, k in solved.chosen.items():
        # the numbers on both sides of a cut are its threshold
        every[block].lumps.want(beside(every[block].lumps, k))
    return every, solved


@dataclass(frozen=True, eq=False)
class _Coupled:
    """Labels with their cuts and scores, whose rates times ``weights`` (m, C) have ``ceilings`` (m,).

    Cuts in lumps have scores of at most those ``inside``.
    """

    cuts: list[Cuts]
    scores: list[Array]
    inside: list[Array]
    weights: Array
    ceilings: Array

    def solved(self, blocks: Sequence[Block]) -> Solved:
        """Return the best cuts of the ``blocks`` within the ceilings, or within those that they miss least."""
        corners = [self.corners(place) for place in range(len(blocks))]
        loosened = self.least_loosened(corners)
        eased = replace(self, ceilings=self.ceilings + loosened + np.where(loosened > 0.0, SPARE, 0.0))
        columns, parts, prices = eased.generated(corners)
        best = eased.improved(eased.rounded(columns, parts))
        value = sum(one[k] for one, k in zip(eased.scores, best, strict=True))
        # the Lagrangian of any prices bounds the value, whatever the precision of the linear program
        most = prices @ eased.ceilings + sum(
            eased.most_at(label, k, price)
            for label, (k, price) in enumerate(zip(corners, prices @ eased.weights, strict=True))
        )
        return Solved(dict(zip(blocks, best, strict=True)), max(0.0, float(most - value)), prices, loosened)

    def most_at(self, label: int, corners: NDArray[np.intp], price: float) -> float:
        """Return what no cut of a ``label`` is worth more than at a ``price`` of its rate."""
        cuts, lumps = self.cuts[label], self.cuts[label].lumps
        most = float((self.scores[label][corners] - price * cuts.decided[corners]).max())
        if not len(lumps):
            return most
        inside = self.inside[label] - (price * lumps.ends).min(axis=0)
        lumps.want(lumps.may & ~(inside < most - EQUAL))
        return float(np.max(inside, where=lumps.may, initial=most))

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
            over = np.where(over > NEGLIGIBLE, over, 0.0)
        else:
            # what draws can keep depends on the smallest and the largest rates alone
            over = self._program([k[[0, -1]] for k in corners], eases=True)[0][-len(self.ceilings) :]
            over = np.where(over > SPARE, over, 0.0)
        if over.any():
            for cuts, k in zip(self.cuts, corners, strict=True):
                low, high = cuts.lumps.ends
                ends = cuts.decided[k]
                cuts.lumps.want(cuts.lumps.may & ((low < ends.min()) | (high > ends.max())))
        return over

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

    def _want_better(self, label: int, others: Array, least: float, value: float) -> None:
        """Tell the lumps of a ``label`` apart that may exceed the ceilings less, or as little and be worth more.

        ``others`` (m,) are the sums of the other labels, ``least`` is the excess, and ``value`` the score.
        """
        lumps = self.cuts[label].lumps
        if not len(lumps):
            return
        low = (lumps.ends[..., None] * self.weights[:, label]).min(axis=0)
        excess = self._excess(others + low)
        better = ~(self.inside[label] < value - EQUAL)
        lumps.want(lumps.may & ((excess < least - NEGLIGIBLE) | ((excess <= least + NEGLIGIBLE) & better)))

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
        # of corners that are nearly worth the same, the solution does not depend on which others are in the program
        found = linprog(
            objective,
            A_ub=sums,
            b_ub=self.ceilings,
            A_eq=one_each,
            b_eq=np.ones(len(corners)),
            method="highs",
            options={"dual_feasibility_tolerance": LEAST_TOLERANCE},
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
                self._want_better(label, others, float(excess.min()), float(values[k]))
                if excess[k] < excess[here] - NEGLIGIBLE or values[k] > values[here] + EQUAL:
                    chosen[label] = k
                    rates[label] = cuts.decided[k]
            if chosen == before:
                break
        return chosen
