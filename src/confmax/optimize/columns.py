"""The rules that column generation has met, and what the next prices are.

`Columns` holds the rules, their best mixture with its prices, and the best bound. A round asks for gains around both
prices and joins the answers. While no mixture keeps the limits, the largest slack that all of them can have at once
takes the place of the objective (phase one).

Floors on means of the recalls, which are concave and no linear inequalities: outer cuts take their place.

Where a mixture misses such a floor l, a tangent of the mean f is added to the limits: ``f(y) + <f'(y), x - y> >= l``
holds for all recalls x that keep the floor, because f is concave. Points y on the edge of the floor cut deepest. No
cut needs a pass: the recalls of every rule are rows of the limits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from confmax.confusion import Array, Confusion, Gains
from confmax.metrics.structure import MeanFloor
from confmax.optimize.masters.generic import Smooth
from confmax.optimize.masters.program import Program
from confmax.optimize.masters.protocol import Master, Optimum, per_price
from confmax.optimize.masters.ratio_sum import RatioSum, RecallMeans
from confmax.optimize.masters.within import CUT_WITHIN, INTERIOR
from confmax.optimize.mixture import Mixture
from confmax.optimize.path_query import climbing_gains, near_gains, path_gains
from confmax.optimize.points import Form, Points, Space
from confmax.optimize.query import TOWARD, DualQueries, newton_gain, off_kinks, query_gains
from confmax.optimize.rounding import (
    BINDS,
    DIGITS,
    HALVINGS,
    LEFT_OVER,
    LITTLE,
    NEGLIGIBLE,
    OF_TOL,
    ROUNDS,
    TINIEST,
)
from confmax.oracle import Table

NEAR_ROUNDS = 10  # after a sample; where they do not close the gap, it has misled
NEAR_EVERY = 3  # one of so many later rounds: the mixture may lack rules on one side of the optimum
LOWEST = NEGLIGIBLE  # price, as a part of all prices
PRICED_OUT = NEGLIGIBLE  # an answer that is worth no more than this above the mixture changes nothing
ROOM = 0.02  # part of the gap by which a mixture keeps a cut
MOST_CUTS = 30  # that a mixture is cut before more is asked
N_PATH_POINTS = 8  # at which groups are joined


@dataclass(frozen=True, eq=False)
class Columns:
    """The rules met so far on one confusion estimate, and their best mixture."""

    master: Master
    # the rules (A)
    points: Points
    # their best mixture with its prices
    optimum: Optimum
    # best_gain, best_point: (d + m,): the dual point of the best bound, and where it is the derivative. On labels,
    # where there is no bound, the gain of the best single rule
    best_gain: Array
    best_point: Array
    # all gains asked so far, with their answers
    queries: DualQueries
    # the bound; on labels, minus the value of that rule
    best_bound: float = np.inf
    # number of random gains in a pass of an interior-point master
    breadth: int = 0
    # number of passes that ask only near the optimum that a sample of the rows has shown
    near_rounds: int = 0
    is_sampled: bool = False
    # (d + m, d + m) or None: the second derivative of the support function at the best dual point, for one of length
    # one, where it is known
    curvature: Array | None = None

    @classmethod
    def of(cls, points: Points, master: Master, breadth: int = 0) -> Columns:
        """Mix points for the first time."""
        A = len(points.z)
        nothing = points.z[:0]
        queries = DualQueries(nothing, nothing)
        start = np.full(A, 1.0 / A)
        points, queries, optimum = mixed_with_cuts(master, points, queries, start, np.inf)
        # while the limits are missed, dual points hold multipliers only
        first = optimum.gain if optimum.shortfall or master.follows_path else first_gain(points)
        return cls(master, points, optimum, first, points.centre, queries, breadth=breadth)

    @property
    def is_feasible(self) -> bool:
        """Whether some mixture meets all limits."""
        return self.optimum.shortfall == 0.0

    def mixture(self) -> Mixture:
        """Return the best mixture as a rule."""
        weights = self.optimum.weights
        if self.master.follows_path and not self.points.space.n_limits:
            # without limits that have to be kept exactly, what an interior point leaves on other rules can go
            weights = np.where(weights > LEFT_OVER, weights, 0.0)
        return self.points.mixture(weights)

    def next_dual_points(self, seed: int, tol: float, *, near: bool) -> tuple[Array, Array]:
        """Return the dual points (B, d + m) to ask for, and those (at most B) at which the first are derivatives."""
        if self.master.follows_path:
            return self._along_path(seed), self.optimum.point[None]
        space = self.points.space
        point = self.optimum.point
        newest = self.optimum.gain
        if not np.isfinite(newest).all():
            # a recall of zero under the G-mean: the rule that decides at random has a gradient
            point = self.points.centre
            newest = first_gain(self.points)
        # both dual points are compared, so they get one length
        size, length = (float(np.linalg.norm(gain)) for gain in (newest, self.best_gain))
        best = self.best_gain * (size / length) if size > 0.0 and length > TINIEST else newest
        # the slack of limits has no curvature
        newton = newton_gain(space, self.queries, best, point, newest) if self.is_feasible else None
        d = len(best) - space.n_limits
        # prices of limits are not negative, and zero has no logarithm
        prices = np.arange(len(best)) >= d
        best, newest = (np.where(prices, np.maximum(gain, LOWEST * size), gain) for gain in (best, newest))
        around = off_kinks(query_gains(best, newest, newton, seed, near=near), OF_TOL * tol)
        around[:, d:] = np.maximum(around[:, d:], 0.0)
        # while the limits are missed, the objective does not count yet
        if not self.master.between or not self.is_feasible:
            return around, point[None]
        between = self.best_point + np.array(self.master.between)[:, None] * (point - self.best_point)
        slopes = np.array(space.gradient(between))
        slopes[:, d:] = newest[d:]
        # the derivative may not exist at the point of the best bound
        fine = np.isfinite(slopes).all(axis=1)
        gains = np.concatenate([newest[None], slopes[fine], around[1 if near else len(TOWARD) :]])
        return gains, np.concatenate([point[None], between[fine]])

    def _along_path(self, seed: int) -> Array:
        """Return the dual points to ask for around the path of an interior-point master."""
        space = self.points.space
        optimum = self.optimum
        queries = replace(self.queries, curvature=self.curvature)
        first = self.near_rounds == NEAR_ROUNDS
        if self.near_rounds and (first or self.is_feasible):
            return near_gains(space.form, self.best_gain, optimum.gain, queries, seed, first=first)
        if self.is_feasible and space.curved is not None:
            curved = np.nan_to_num(space.curved.curvature(space.split(optimum.point)[0]))
            return climbing_gains(space.form, optimum, self.best_gain, curved, queries, seed, self.breadth)
        if self.is_feasible:
            gap = self.best_bound - optimum.value
            if self.is_sampled and seed % NEAR_EVERY == 0:
                return near_gains(space.form, self.best_gain, optimum.gain, queries, seed, first=False)
            return path_gains(space.form, optimum, self.best_gain, gap, queries, seed, self.breadth)
        # while the limits are missed, their slacks alone are the functions
        m = space.n_limits
        cut = replace(optimum, gain=optimum.gain[-m:], point=optimum.point[-m:], path=optimum.path[:, -m:])
        # answers to gains that price the objective too say nothing of these functions
        alone = ~queries.gains[:, :-m].any(axis=1)
        curvature = None if self.curvature is None else self.curvature[-m:, -m:]
        queries = DualQueries(queries.gains[alone, -m:], queries.answers[alone, -m:], curvature)
        gap = self.best_bound + optimum.shortfall
        gains = path_gains(Form(m), cut, self.best_gain[-m:], gap, queries, seed, self.breadth)
        return np.pad(gains, ((0, 0), (len(optimum.gain) - m, 0)))

    def curved(self, table: Table) -> Columns:
        """Return the columns with the curvature that the rows of a ``table`` show, if they do and a step needs it.

        It saves 5 % of the passes: 176 problems within limits on real tables take 1304 instead of 1376.
        """
        gain = self.best_gain
        if not self.master.follows_path or self.points.space.curved is not None or self.near_rounds == NEAR_ROUNDS:
            return self
        crossings = table.density_of_ties(self.points.space.gains(np.eye(len(gain))), gain)
        return self if crossings is None else replace(self, curvature=crossings * np.linalg.norm(gain))

    def joined(
        self, duals: Array, at: Array, gains: Gains, answers: Confusion, *, exact: bool, idle: bool = False
    ) -> Columns:
        """Return the columns with the answers to dual points ``duals`` (B, d + m), mixed anew.

        Further ``gains`` with their answers may follow these. After ``idle`` rounds, groups are not joined: a master of
        few rules is more exact.
        """
        space = self.points.space
        optimum = self.optimum
        B = len(duals)
        z = self.points.space.vectors(answers)
        if space.cuts is not None and duals.shape[1] < z.shape[1]:
            # dual points of other columns, which have other cuts
            duals = _padded(duals, z.shape[1])
            at = space.with_values_of_cuts(at)
        # on labels within limits, reuse the model's dual points
        led = space.n_limits > 0 or not self.master.follows_path
        prices = None if exact or led else space.vectors_of_gains(gains)
        if prices is not None:
            # gains that the model, or a search, has suggested: as prices, which are not negative, of length one
            prices = np.maximum(prices, 0.0)
            duals = prices / prices.sum(axis=1, keepdims=True)
            B = len(duals)
        rounds = max(self.near_rounds - 1, 0)
        following = replace(self, queries=self.queries.joined(duals, z[:B]), near_rounds=rounds)
        if not exact and led:
            # on labels nothing is proved, and the search goes on around the newest gradient
            following = replace(following, best_gain=duals[0], best_point=at[0])
        else:
            # on labels the best single rule takes the place of the best bound: that of the largest minimum, and of
            # equal minima the one of the larger mean
            functions = space.split(z)[0]
            smallest = functions.min(axis=1) + BINDS * functions.mean(axis=1)
            merits = self.bounds(duals, (duals * z[:B]).sum(axis=1), at) if exact else -smallest
            k = int(np.argmin(merits))
            if merits[k] < self.best_bound or (self.master.climbs and self.is_feasible):
                point = at[min(k, len(at) - 1)]
                following = replace(following, best_gain=duals[k], best_point=point, best_bound=float(merits[k]))
        priced_out = (
            np.isfinite(optimum.gain).all() and (z @ optimum.gain).max() <= optimum.gain @ optimum.point + PRICED_OUT
        )
        if priced_out and space.cuts is None and not (idle and self.points.layout):
            # no answer is worth more than the mixture at the master's own prices: its solution stays
            mixed = replace(optimum, weights=np.append(optimum.weights, np.zeros(len(z))))
            return replace(following, points=self.points.joined(gains, answers), optimum=mixed)
        points, start = self._trimmed()
        points = points.joined(gains, answers)
        start = np.append(start, np.zeros(len(z)))
        # an interior point would spread its weight over rules that are the same to it
        points, start = _without_copies(points, start)
        start = start / start.sum()
        left = following.best_bound - optimum.value
        first = mixed_with_cuts(self.master, points, following.queries, start, left)
        points, queries, mixed = first if idle else _crossed(self.master, *first, left)
        if points.space.cuts is not None:
            before = left
            left = following.best_bound - mixed.value
            # the bound may be nearer now than the room in which the mixture was looked for
            if mixed.shortfall == optimum.shortfall and CUT_WITHIN < ROOM * left < 0.5 * ROOM * before:
                points, queries, mixed = mixed_with_cuts(self.master, points, queries, mixed.weights, left)
            following = replace(
                following,
                queries=queries,
                best_gain=_padded(following.best_gain, len(mixed.gain)),
                best_point=points.space.with_values_of_cuts(following.best_point),
            )
        if mixed.shortfall == 0.0 < optimum.shortfall:
            # what was bounded until now was the slack of the limits
            again = replace(Columns.of(points, self.master, self.breadth), queries=following.queries)
            return again._bounded(duals, z[:B], at, rounds) if self.is_sampled else again
        return replace(following, points=points, optimum=mixed)._with_few_cuts()

    def _bounded(self, duals: Array, z: Array, at: Array, near_rounds: int) -> Columns:
        """Return the columns near the best of the dual points ``duals`` (B, d + m), which a sample has shown."""
        bounds = self.bounds(duals, (duals * z).sum(axis=1), at)
        k = int(np.argmin(bounds))
        if not np.isfinite(bounds[k]):
            return self
        best = replace(self, best_gain=duals[k], best_bound=float(bounds[k]))
        return replace(best, near_rounds=near_rounds, is_sampled=True)

    def _with_few_cuts(self) -> Columns:
        """Return the columns without the cuts that have no price, where there are many."""
        space = self.points.space
        optimum = self.optimum
        queries = self.queries
        if space.cuts is None or len(space.cuts) <= 2 * space.n_given:
            return self
        prices = space.split(optimum.gain)[1][space.n_given :]
        used = prices > LEFT_OVER * prices.max()
        few = space.with_few_cuts(used)
        path = space.with_few_prices(optimum.path, used)
        gain = space.with_few_prices(optimum.gain, used)
        return replace(
            self,
            points=replace(self.points, space=few),
            optimum=replace(optimum, gain=gain, path=path, point=few.with_values_of_cuts(optimum.point)),
            queries=DualQueries(space.with_few_prices(queries.gains, used), few.with_values_of_cuts(queries.answers)),
            best_gain=space.with_few_prices(self.best_gain, used),
            best_point=few.with_values_of_cuts(self.best_point),
        )

    def bounds(self, duals: Array, heights: Array, at: Array) -> Array:
        """Return what answers of ``heights`` (B,) prove: of the objective, or while it fails of the limits' slack."""
        if self.is_feasible:
            return self.master.bounds(self.points.space, duals, heights, at)
        objective, multipliers = self.points.space.split(duals)
        # a dual point that prices the objective too says nothing of the limits alone
        return per_price(heights, np.where(objective.any(axis=1), 0.0, multipliers.sum(axis=1)))

    def _trimmed(self) -> tuple[Points, Array]:
        """Return the constant rules, those with weight and the few others that lack least, with their weights."""
        points = self.points
        weights = self.optimum.weights
        gain = self.optimum.gain
        # an interior point gives every rule some weight
        used = weights > (INTERIOR if self.master.follows_path else NEGLIGIBLE)
        merit = np.where(used, np.inf, points.z @ gain if np.isfinite(gain).all() else 0.0)
        order = np.argsort(-merit, kind="stable")
        order = order[order >= points.n_fixed]
        n_kept = max(int(used[points.n_fixed :].sum()), self.master.most_columns - points.n_fixed)
        remaining = np.concatenate([np.arange(points.n_fixed), np.sort(order[:n_kept])])
        return points.chosen(remaining), weights[remaining]


def master_of(space: Space) -> Master:
    """Return the master of the objective of a ``space``, which its form decides."""
    if space.curved is not None:
        return RatioSum()
    if space.minimum_of is not None:
        return Program()
    return RecallMeans() if space.metric.bounds_any_gain else Smooth()


def mixed_with_cuts(
    master: Master, points: Points, queries: DualQueries, start: Array, gap: float
) -> tuple[Points, DualQueries, Optimum]:
    """Return the best mixture of rules, with the cuts that floors on means ask for.

    The mixture keeps a cut by a little of the ``gap`` that is left to the bound, so that few cuts are enough.
    """
    for further in reversed(range(MOST_CUTS)):
        space = points.space
        optimum = master.mix(space, points.z, start, ROOM * gap)
        cuts = further_cuts(space, optimum.point, optimum.shortfall)
        if cuts is None or not further:
            break
        space = space.with_cuts(cuts)
        points = replace(points, space=space)
        gains = _padded(queries.gains, points.z.shape[1])
        queries = DualQueries(gains, space.with_values_of_cuts(queries.answers))
    return points, queries, optimum


def _crossed(
    master: Master, points: Points, queries: DualQueries, mixed: Optimum, gap: float
) -> tuple[Points, DualQueries, Optimum]:
    """Return what `mixed_with_cuts` returns, with the rules that join what several points decide in different groups.

    These are as many as a product of the points of all groups. The prices say which of them improve the mixture, until
    none improves it by more than a part of the ``gap`` that is left to the bound.
    """
    least = max(PRICED_OUT, LITTLE * gap) if np.isfinite(gap) else PRICED_OUT
    for _ in range(0 if points.layout is None else ROUNDS):
        if not np.isfinite(mixed.gain).all():
            break
        duals = np.concatenate([mixed.gain[None], mixed.path[-N_PATH_POINTS:]])
        crossings = points.crossed(duals)
        if (crossings.z @ mixed.gain).max() <= float(mixed.gain @ mixed.point) + least:
            break
        start = np.append(mixed.weights, np.zeros(len(duals)))
        more, start = _without_copies(points.joined(crossings.gains, crossings.confusions), start)
        again = mixed_with_cuts(master, more, queries, start, gap)
        # where many rules are nearly the same, an interior-point master may end short of its solution
        if (-again[2].shortfall, again[2].value) <= (-mixed.shortfall, mixed.value):
            break
        points, queries, mixed = again
    return points, queries, mixed


def _without_copies(points: Points, weights: Array) -> tuple[Points, Array]:
    """Merge duplicate points and add their weights; the first of them stays."""
    first: dict[Any, int] = {}
    # minus zero has other bytes
    rows = np.ascontiguousarray(points.z.round(DIGITS) + 0.0)
    keys = rows.view(np.dtype((np.void, rows.shape[1] * rows.itemsize))).ravel().tolist()
    place = [first.setdefault(key, a) for a, key in enumerate(keys)]
    remaining = np.union1d(np.arange(points.n_fixed), place)
    if len(remaining) == len(points.z):
        return points, weights
    together = np.zeros(len(weights))
    np.add.at(together, place, weights)
    return points.chosen(remaining), together[remaining]


def _padded(gains: Array, width: int) -> Array:
    """Return dual points with a multiplier of zero for every further limit."""
    return np.concatenate([gains, np.zeros((*gains.shape[:-1], width - gains.shape[-1]))], axis=-1)


def first_gain(points: Points) -> Array:
    """Return the gradient at the rule that decides at random, equal prices where there is none."""
    slope = points.space.gradient(points.centre)
    return slope if np.isfinite(slope).all() else np.nan_to_num(slope, nan=1.0, posinf=1.0, neginf=-1.0)


# --- floors on means of the recalls -----------------------------------------------------------------------------------


FALLS_SHORT = LEFT_OVER  # where no mixture keeps the limits: by how much a mean may lie below its cuts


def further_cuts(space: Space, point: Array, shortfall: float) -> Array | None:
    """Return the cuts (c, m + 1) that a mixture asks for: weights of the m rows of the limits, and a constant.

    The mixture ``point`` (d + m + cuts,) misses the limits and cuts so far by the ``shortfall``, by choice of the
    master; it is zero where it keeps them. None is returned if it keeps all floors, or where none can be kept misses
    them by no more than the shortfall.
    """
    limits = space.split(point)[1][: space.n_given]
    cuts = []
    for curve in space.curves:
        recalls = limits[curve.rows] - 1.0
        short = float(curve.mean.value(recalls)) - curve.floor + max(shortfall, 0.0)
        if short >= (-FALLS_SHORT if shortfall > 0.0 else 0.0):
            continue
        at, slopes = curve.mean.tangent(recalls if shortfall > 0.0 else _edge(curve, recalls))
        cut = np.zeros(space.n_given + 1)
        cut[curve.rows] = slopes
        # the rows hold recalls plus one
        cut[-1] = curve.mean.value(at) - curve.floor - slopes @ (at + 1.0)
        cuts.append(cut)
    return np.array(cuts) if cuts else None


def _edge(curve: MeanFloor, recalls: Array) -> Array:
    """Return the point between ``recalls`` that miss a floor and the perfect ones where it is met."""
    low = 0.0
    high = 1.0
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        met = curve.mean.value(recalls + middle * (1.0 - recalls)) >= curve.floor
        low, high = (low, middle) if met else (middle, high)
    return np.asarray(recalls + high * (1.0 - recalls))
