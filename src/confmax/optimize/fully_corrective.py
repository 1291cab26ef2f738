"""Fully corrective conditional gradient for concave metrics: every pass mixes all rules found so far anew."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from confmax.confusion import Array, Confusion
from confmax.metrics import Metric
from confmax.metrics.structure import Concave, Linear, MinOfLinear
from confmax.optimize.loop import DEFAULT_MAX_PASSES, Problem, Status, Step, WarmStart, best_answer
from confmax.optimize.masters.generic import best_mix
from confmax.optimize.points import Points, Space
from confmax.optimize.query import BETWEEN, DualQueries, by_differences, newton_gain, off_kinks, query_gains

PATIENCE = 12  # passes that improve neither value nor bound: a kink, which gradients at single points do not see
BELIEVED = 2  # rounds for which a sample's curvature counts: what is not closed then has kinks
ASIDE = 0.1  # of the tolerance: how far, relatively, gains are moved off the kinks
MOST_POINTS = 40  # beside the constant rules; of those without weight only the nearest to use are kept


@dataclass(frozen=True, eq=False)
class FullyCorrectiveState:
    """Rules so far, their weights, what was asked, gain and point of the best bound, rounds; whether it began near."""

    points: Points
    mix: Array
    asked: DualQueries
    best_gain: Array
    best_point: Array
    best_bound: float = np.inf
    round: int = 0
    value: float = -np.inf
    idle: int = 0
    near: bool = False


@dataclass(frozen=True)
class FullyCorrective:
    """Maximise a concave metric with a certificate (paper, Algorithm 3; the step is fully corrective).

    Each pass evaluates several gains: the gradient at the best mixture so far, gradients at points between it and the
    point of the best bound, and gains around them. Some metrics of the recalls (the unsmoothed means) are bounded by
    any gain, so every answer gives a bound. For the others, a concave f satisfies ``f(C) <= f(C_i) + max <f'(C_i), V -
    C_i>`` at every point C_i whose gradient was evaluated, and the smallest of these bounds counts. Of the rules
    without weight, only the few that come nearest to being used are kept.

    Examples
    --------
    >>> import confmax
    >>> from confmax.optimize import FullyCorrective
    >>> P = [[0.7, 0.2, 0.1], [0.5, 0.4, 0.1], [0.4, 0.2, 0.4]]
    >>> solution = confmax.maximize("g_mean", P, solver=FullyCorrective(), randomized=True)
    >>> solution.gap < 1e-6
    True
    """

    name: ClassVar[str] = "FullyCorrective"
    budget: ClassVar[int] = DEFAULT_MAX_PASSES
    starts_from_sample: ClassVar[tuple[str, ...]] = ("model",)
    wants_curvature: ClassVar[bool] = True

    def check(self, metric: Metric, n_classes: int, n_rows: int) -> None:
        """Refuse metrics that are not declared concave, and the smallest recall, which has kinks everywhere."""
        kinked = isinstance(metric.structure, MinOfLinear)
        if kinked or not isinstance(metric.structure, (Concave, Linear)):
            way_out = "solver='max_min'" if kinked else "solver='auto'"
            raise ValueError(
                f"FullyCorrective needs a concave metric with a gradient and got {metric!r}, declared "
                f"{metric.structure}; use {way_out}"
            )

    def init(self, problem: Problem) -> FullyCorrectiveState:
        """Mix the constant rules, argmax and p / prior."""
        points = Points.start(problem)
        A = len(points.x)
        mix = best_mix(points.space, points.x, np.full(A, 1.0 / A))
        centre = points.x[: points.n_fixed].mean(axis=0)
        nothing = np.empty((0, points.x.shape[1]))
        best, asked, near = (_first_gain(points, centre), centre, np.inf), DualQueries(nothing, nothing), False
        gains = points.space.vectors_of_gains(points.gains[points.n_fixed :])
        if gains is not None and problem.sample is not None:
            asked = _told(problem.sample, points, gains)
            bounds = _bounds(problem, points.space, gains, nothing, points.confusions.part(points.n_fixed, A))
            k = int(np.argmin(bounds))
            near = bool(np.isfinite(bounds[k]))
            if near:
                best = (gains[k], mix @ points.x, float(bounds[k]))
        return FullyCorrectiveState(points, mix, asked, *best, round=-1 if near else 0, near=near)

    def step(self, problem: Problem, state: FullyCorrectiveState) -> tuple[FullyCorrectiveState, Step]:
        """Evaluate gains around the best gain and the gradient, and compute the best mixture again."""
        space = state.points.space
        if state.round < 0:
            # what the starting rules prove may be enough
            return replace(state, round=0), Step(state.points.mixture(state.mix), (), state.best_bound)
        gains, at = self._gains(problem, state)
        answers = problem.ask(space.gains(gains))
        bounds = _bounds(problem, space, gains, at, answers)
        k = int(np.argmin(bounds))
        best = (state.best_gain, state.best_point, state.best_bound)
        if not problem.oracle.exact:
            best = (gains[0], at[0], np.inf)
        elif bounds[k] < best[2]:
            best = (gains[k], at[k] if k < len(at) else state.points.x.T @ state.mix, bounds[k])
        points, start = _trimmed(state.points, state.mix)
        points = points.joined(space.gains(gains), answers)
        start = np.append(start, np.zeros(len(gains)))
        mix = best_mix(space, points.x, start / start.sum())
        mixture = points.mixture(mix)
        value = float(space.value(mix @ points.x))
        least = 0.01 * problem.tol
        idle = 0 if value > state.value + least or best[2] < state.best_bound - least else state.idle + 1
        stuck = idle >= PATIENCE if problem.oracle.exact else value <= state.value + 1e-12
        asked = state.asked.joined(gains, space.vectors(answers))
        following = FullyCorrectiveState(
            points, mix, asked, *best, state.round + 1, max(value, state.value), idle, state.near
        )
        rules = (best_answer(problem, space.gains(gains), answers),)
        return following, Step(mixture, rules, float(best[2]), Status.STALLED if stuck else None)

    def _gains(self, problem: Problem, state: FullyCorrectiveState) -> tuple[Array, Array]:
        """Return the gains (B, d) of this pass and the points (at most B, d) at which the first ones are gradients."""
        space, point = state.points.space, state.mix @ state.points.x
        slope = space.gradient(point)
        if not np.isfinite(slope).all():
            point = state.points.x[: state.points.n_fixed].mean(axis=0)
            slope = _first_gain(state.points, point)
        size = np.linalg.norm(slope)
        best = state.best_gain * (size / max(float(np.linalg.norm(state.best_gain)), 1e-300)) if size > 0 else slope
        asked = state.asked if state.round < BELIEVED else replace(state.asked, curvature=None)
        newton = newton_gain(space, asked, best, point, slope)
        around = query_gains(best, slope, newton, state.round, near=state.near)
        around = off_kinks(around, ASIDE * problem.tol)
        if problem.metric.bounds_any_gain:
            return around, point[None]
        between = np.array([state.best_point + t * (point - state.best_point) for t in (0.7, *BETWEEN[1:], 0.1, 0.03)])
        slopes = space.gradient(between)
        fine = np.isfinite(slopes).all(axis=1)
        gains = np.concatenate([slope[None], slopes[fine], around[1 if state.near else len(BETWEEN) :]])
        return gains, np.concatenate([point[None], between[fine]])


def _told(sample: WarmStart, points: Points, gains: Array) -> DualQueries:
    """Return what was asked of the starting rules, after what a sample answered.

    The sample's answers are moved by its error at the one gain that both were asked. Where each weight of that gain
    was moved there too, the changes of the answers are the curvature of the support function.
    """
    space, x = points.space, points.x[points.n_fixed :]
    asked = DualQueries(np.empty((0, x.shape[1])), np.empty((0, x.shape[1])))
    earlier = None if sample.gains is None else space.vectors_of_gains(sample.gains)
    if earlier is not None and sample.answers is not None:
        answers, n = space.vectors(sample.answers), sample.n_perturbed
        moved = answers + (x[len(x) - len(sample.rules)] - answers[-1])
        asked = asked.joined(earlier[: -1 - n], moved[: -1 - n])
        if n:
            asked = replace(asked, curvature=by_differences(earlier[-1], earlier[-1 - n : -1], answers[-1 - n :]))
    return asked.joined(gains, x)


def _first_gain(points: Points, centre: Array) -> Array:
    """Return the gradient at the rule that decides at random, equal weights on the classes where there is none."""
    slope = points.space.gradient(centre)
    if np.isfinite(slope).all():
        return slope
    return np.nan_to_num(slope, nan=1.0, posinf=1.0, neginf=-1.0)


def _bounds(problem: Problem, space: Space, gains: Array, at: Array, answers: Confusion) -> Array:
    """Return what each answer proves (B,), infinity where it proves nothing."""
    metric, x = problem.metric, space.vectors(answers)
    heights = (gains * x).sum(axis=1)
    if metric.bounds_any_gain:
        return np.nan_to_num(metric.bounds_of(space.gains(gains), heights, space.rows, space.n_decisions), nan=np.inf)
    bounds = np.full(len(gains), np.inf)
    known = len(at)
    bounds[:known] = space.value(at) + np.maximum(heights[:known] - (gains[:known] * at).sum(axis=1), 0.0)
    return np.where(np.isnan(bounds), np.inf, bounds)


def _trimmed(points: Points, mix: Array) -> tuple[Points, Array]:
    """Return the constant rules, those with weight and the few others that lack least, with their weights."""
    slope = points.space.gradient(mix @ points.x)
    used = mix > 1e-12
    merit = np.where(used, np.inf, points.x @ slope if np.isfinite(slope).all() else 0.0)
    order = [k for k in np.argsort(-merit, kind="stable") if k >= points.n_fixed]
    n_used = int(used[points.n_fixed :].sum())
    kept = [*range(points.n_fixed), *sorted(order[: max(n_used, MOST_POINTS)])]
    return points.kept(kept), mix[kept]
