"""Fully corrective conditional gradient for the means of recalls: all rules met are mixed anew after every pass.

The master problem maximises the mean over all mixtures of the rules so far. Its quadratic model around the current
recalls asks for the point of least norm in the hull of the scaled rules; a few Newton steps with a line search suffice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from confmax._metric import Metric
from confmax.confusion import Array
from confmax.optimize._least_norm import least_norm
from confmax.optimize._loop import DEFAULT_MAX_PASSES, Problem, Status, Step
from confmax.optimize._recalls import Points, ask_between

# Around T0, up to constants, each mean's monotone transform is -|s * T - b|^2 / 2 to second order:
# sum log T, -sum 1 / T (divided by 2), and -sum (1 - T)^2, which is quadratic itself.
_MODELS: dict[str, Callable[[Array], tuple[Array, Array]]] = {
    "g_mean": lambda T: (1.0 / T, np.full_like(T, 2.0)),
    "h_mean": lambda T: (T**-1.5, 1.5 * T**-0.5),
    "q_mean": lambda T: (np.ones_like(T), np.ones_like(T)),
}
_STEPS = np.concatenate([np.linspace(1.0, 0.05, 20), [0.02, 0.01, 0.001]])
NEWTON_STEPS = 60


@dataclass(frozen=True, eq=False)
class FullyCorrectiveState:
    """Rules so far, their weights in the mixture, and the class weights that gave the best bound."""

    points: Points
    mix: Array
    best_weights: Array
    best_bound: float


@dataclass(frozen=True)
class FullyCorrective:
    """Maximise the G-, H- or Q-mean of the recalls with a certificate (paper, Section 4; the step is fully corrective).

    Each pass asks for several gains and bounds the optimum by every answer (arithmetic-geometric mean inequality for
    G, Cauchy-Schwarz for H and Q). Rules without weight are dropped.

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

    def check(self, metric: Metric, n_classes: int, n_rows: int) -> None:
        """Refuse other metrics."""
        if metric.name not in _MODELS or dict(metric.params).get("rho"):
            raise ValueError(
                f"FullyCorrective maximises {', '.join(_MODELS)} without smoothing and was given {metric!r}; use "
                f"solver='auto'"
            )

    def init(self, problem: Problem) -> FullyCorrectiveState:
        """Mix the constant rules, argmax and p / prior."""
        points = Points.start(problem)
        A, S = points.recalls.shape
        mix = _mix(problem.metric, points.recalls, np.full(A, 1.0 / A))
        return FullyCorrectiveState(points, mix, np.full(S, 1.0 / S), np.inf)

    def step(self, problem: Problem, state: FullyCorrectiveState) -> tuple[FullyCorrectiveState, Step]:
        """Ask for gains between the best class weights and the gradient's, and mix again."""
        metric, points = problem.metric, state.points
        newest = _gradient(metric, state.mix @ points.recalls)
        gains, answers, rules, heights = ask_between(problem, state.best_weights, newest)
        assert metric.dual is not None
        bounds = [(weights, metric.dual(weights, height)) for weights, height in heights]
        best_weights, bound = min([(state.best_weights, state.best_bound), *bounds], key=lambda pair: pair[1])
        K = len(problem.oracle.rows)
        kept = [k for k in range(len(state.mix)) if k < K or state.mix[k] > 1e-12]
        joined = points.kept(kept).joined(problem, gains, answers)
        start = np.concatenate([state.mix[kept], np.zeros(len(gains))])
        mix = _mix(metric, joined.recalls, start / start.sum())
        mixture = joined.mixture(mix)
        stuck = not problem.oracle.exact and problem.value(mixture.confusion) <= _value(metric, start, joined) + 1e-12
        following = FullyCorrectiveState(joined, mix, best_weights if problem.oracle.exact else newest, bound)
        return following, Step(mixture, rules, bound, Status.STALLED if stuck else None)


def _transform(metric: Metric, T: Array) -> Array:
    """Return what the master maximises, at recalls (..., S): a monotone function of the metric."""
    with np.errstate(divide="ignore"):
        if metric.name == "g_mean":
            return np.log(T).sum(-1)
        return -(1.0 / T).sum(-1) if metric.name == "h_mean" else -((1.0 - T) ** 2).sum(-1)


def _value(metric: Metric, mix: Array, points: Points) -> float:
    return float(metric.values(points.mixture(mix / mix.sum()).confusion))


def _gradient(metric: Metric, T: Array) -> Array:
    """Return the direction of the metric's gradient by the recalls (S,), scaled to sum one."""
    scale, target = _MODELS[metric.name](T)
    slope = np.maximum(scale * (target - scale * T), 1e-300)
    return slope / slope.sum() if slope.max() > 1e-290 else np.full(len(T), 1.0 / len(T))


def _mix(metric: Metric, recalls: Array, mix: Array) -> Array:
    """Maximise the mean of ``mix @ recalls`` over the simplex, from ``mix`` (A,)."""
    # gains that lie close together often get one answer: equal points would make the least squares singular
    _, first, group = np.unique(np.round(recalls, 12), axis=0, return_index=True, return_inverse=True)
    shares = np.bincount(group.reshape(-1), weights=mix, minlength=len(first)).astype(np.float64)
    whole = np.zeros(len(mix))
    whole[first] = _newton(metric, recalls[first], shares)
    return whole


def _newton(metric: Metric, recalls: Array, mix: Array) -> Array:
    """Maximise the mean of ``mix @ recalls`` over the simplex by Newton steps from ``mix`` (A,), points distinct."""
    for _ in range(NEWTON_STEPS):
        T = mix @ recalls
        scale, target = _MODELS[metric.name](T)
        found = least_norm(recalls * scale - target, mix)
        path = np.outer(1.0 - _STEPS, T) + np.outer(_STEPS, found @ recalls)
        values = _transform(metric, path)
        k = int(np.argmax(values))
        gain = values[k] - _transform(metric, T)
        if gain <= 0:
            return mix
        mix = (1.0 - _STEPS[k]) * mix + _STEPS[k] * found
        if gain < 1e-13 * (1.0 + abs(values[k])):
            return mix
    return mix
