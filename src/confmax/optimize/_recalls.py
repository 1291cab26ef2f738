"""Column generation in recall space, shared by the solvers of concave metrics of the recalls.

Every rule is a point T (its recalls) of a convex set; deciding one class for all rows is the unit vector of that
class, known without a pass. A master problem mixes the points met so far; the weights that it puts on the classes are
the next gain. Points between these weights and the ones that gave the best bound (in-out points) share the pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from confmax.confusion import Array, Confusion, Gains
from confmax.optimize._loop import Problem
from confmax.optimize._mixture import Mixture

# how far from the best weights toward the newest: both ends matter, and most of all the neighbourhood of the best
IN_OUT = (1.0, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002)


@dataclass(frozen=True, eq=False)
class Points:
    """Rules met so far, one after another.

    Attributes
    ----------
    gains : Gains
        One gain per rule (A).
    confusions : Confusion
        Batch of A.
    recalls : ndarray (A, S)
        Over the S classes that the metric is computed over.
    """

    gains: Gains
    confusions: Confusion
    recalls: Array

    @classmethod
    def start(cls, problem: Problem) -> Points:
        """Return the constant rules and the problem's starting rules."""
        rows = problem.oracle.rows
        K = len(rows)
        constant = Confusion(rows, np.diag(rows), np.eye(K) * rows.sum())
        points = cls(Gains.constant(K, range(K)), constant, _recalls(problem, constant))
        singles = [rule for rule in problem.starts if len(rule.atoms) == 1]
        gains = Gains.concatenate([rule.atoms[0] for rule in singles])
        return points.joined(problem, gains, Confusion.stack([rule.confusion for rule in singles]))

    def joined(self, problem: Problem, gains: Gains, confusions: Confusion) -> Points:
        """Return these points and more."""
        both = (self.confusions, confusions)
        diagonal, columns = (np.concatenate([getattr(c, name) for c in both]) for name in ("diagonal", "columns"))
        return Points(
            Gains.concatenate([self.gains, gains]),
            Confusion(problem.oracle.rows, diagonal, columns),
            np.concatenate([self.recalls, _recalls(problem, confusions)]),
        )

    def kept(self, index: Sequence[int]) -> Points:
        """Return the listed points."""
        chosen = np.asarray(index, dtype=np.intp)
        a, b = self.gains.pair()
        part = Confusion(self.confusions.rows, self.confusions.diagonal[chosen], self.confusions.columns[chosen])
        return Points(Gains(a[chosen], b[chosen]), part, self.recalls[chosen])

    def mixture(self, weights: Array) -> Mixture:
        """Return the rule that draws the points with ``weights`` (A,)."""
        used = np.flatnonzero(weights > 1e-12)
        share = weights[used] / weights[used].sum()
        part = self.kept(used.tolist())
        return Mixture(tuple(part.gains[k] for k in range(len(used))), share, part.confusions.mix(share))


def _recalls(problem: Problem, confusions: Confusion) -> Array:
    """Return the recalls (A, S) over the classes that the metric is computed over."""
    kept = problem.metric.classes or range(len(problem.oracle.rows))
    index = np.array(list(kept))
    return confusions.diagonal[:, index] / problem.oracle.rows[index]


def ask_between(
    problem: Problem, best: Array, newest: Array
) -> tuple[Gains, Confusion, tuple[Mixture, ...], list[tuple[Array, float]]]:
    """Ask for the in-out points from the weights ``best`` to ``newest`` (S,), which sum to one; one pass.

    Returns
    -------
    gains, answers : Gains, Confusion
        What was asked and answered (batch of B).
    rules : tuple of Mixture
        The answers as single rules.
    heights : list of (weights, height)
        For each point the weights (S,) and ``max <weights, T>`` over all rules, if the oracle is exact.
    """
    t = np.array(IN_OUT)[:, None]
    weights = (1.0 - t) * best + t * newest
    rows = problem.oracle.rows
    index = np.array(list(problem.metric.classes or range(len(rows))))
    scale = np.zeros((len(weights), len(rows)))
    scale[:, index] = weights / rows[index]
    gains = Gains.reduced(scale)
    answers = problem.ask(gains)
    heights = (weights * _recalls(problem, answers)).sum(axis=1)
    rules = tuple(Mixture.single(gains[k], answers[k]) for k in range(len(gains)))
    return gains, answers, rules, list(zip(weights, heights.tolist(), strict=True))
