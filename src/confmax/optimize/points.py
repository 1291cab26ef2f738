"""Rules met so far as points of the space of statistics, shared by the solvers of concave metrics.

Every rule is a point x of a convex set: its diagonal, with the column sums or the whole matrix where the metric reads
them. Deciding one class for all rows is such a point too, known without a pass. A gain is a linear function g of x.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from confmax.confusion import Array, Confusion, Gains
from confmax.metrics import Metric
from confmax.metrics.first_order import FirstOrder
from confmax.optimize.loop import Problem
from confmax.optimize.mixture import Mixture, constant_rules


@dataclass(frozen=True)
class Space:
    """How a metric's statistics are laid out as vectors x (d,), and gains as vectors g (d,).

    Attributes
    ----------
    metric : Metric
        Which reads the statistics.
    rows : ndarray (K,)
        Class priors, the same for all rules.
    n_decisions : int
        Number of decisions M.
    """

    metric: Metric
    rows: Array
    n_decisions: int

    @classmethod
    def of(cls, problem: Problem) -> Space:
        """Return the space of a problem."""
        return cls(problem.metric, problem.oracle.rows, problem.n_decisions)

    def vectors(self, S: Confusion) -> Array:
        """Return statistics (batch of A) as vectors (A, d)."""
        if self.metric.statistics == "matrix":
            assert S.matrix is not None
            return S.matrix.reshape(*S.matrix.shape[:-2], -1)
        if self.metric.statistics == "diagonal":
            return S.diagonal
        return np.concatenate([S.diagonal, S.columns], axis=-1)

    def first(self, x: Array) -> FirstOrder:
        """Return the metric's values and derivatives at vectors x (..., d)."""
        K = len(self.rows)
        rows = np.broadcast_to(self.rows, (*x.shape[:-1], K))
        if self.metric.statistics == "matrix":
            matrix = x.reshape(*x.shape[:-1], K, self.n_decisions)
            diagonal = np.diagonal(matrix, axis1=-2, axis2=-1)
            return self.metric.at(Confusion(rows, diagonal, matrix.sum(-2), matrix))
        columns = x[..., K:] if self.metric.statistics == "columns" else np.zeros_like(rows)
        return self.metric.at(Confusion(rows, x[..., :K], columns))

    def value(self, x: Array) -> Array:
        """Return the metric at vectors x (..., d), NaN as minus infinity."""
        return np.nan_to_num(self.first(x).value, nan=-np.inf, posinf=np.inf, neginf=-np.inf)

    def gradient(self, x: Array) -> Array:
        """Return the gradients (..., d) at vectors x (..., d)."""
        first = self.first(x)
        if first.matrix is not None:
            return first.matrix.reshape(x.shape)
        if self.metric.statistics == "diagonal":
            return first.diagonal
        return np.concatenate([first.diagonal, first.columns], axis=-1)

    def gains(self, g: Array) -> Gains:
        """Return vectors g (B, d) as gains."""
        K = len(self.rows)
        if self.metric.statistics == "matrix":
            return Gains.from_matrix(g.reshape(-1, K, self.n_decisions))
        return Gains.reduced(g[:, :K], g[:, K:] if self.metric.statistics == "columns" else None)

    def vectors_of_gains(self, gains: Gains) -> Array | None:
        """Return gains as vectors g (B, d), the inverse of `gains`; None where they are none of this space."""
        if self.metric.statistics == "matrix":
            return gains.matrices().reshape(len(gains), -1)
        if gains.full is not None or gains.power:
            return None
        a, b = gains.pair()
        if self.metric.statistics == "columns":
            return np.concatenate([a, b], axis=1)
        return None if b.any() else a


@dataclass(frozen=True, eq=False)
class Points:
    """Rules met so far, one after another.

    Attributes
    ----------
    space : Space
        What the vectors mean.
    gains : Gains
        One gain per rule (A).
    confusions : Confusion
        Batch of A.
    x : ndarray (A, d)
        Their statistics.
    n_fixed : int
        The first so many are the constant rules, which cost no pass and are never dropped.
    """

    space: Space
    gains: Gains
    confusions: Confusion
    x: Array
    n_fixed: int

    @classmethod
    def start(cls, problem: Problem) -> Points:
        """Return the constant rules and the problem's starting rules."""
        space, rows, M = Space.of(problem), problem.oracle.rows, problem.n_decisions
        uniform = Mixture.uniform(rows, M, matrix=problem.needs_matrix)
        whole = constant_rules(rows, M, matrix=problem.needs_matrix)
        constant = Confusion(rows, whole.diagonal, whole.columns, whole.matrix)
        points = cls(space, Gains.concatenate(uniform.atoms), constant, space.vectors(constant), M)
        singles = [rule for rule in problem.starts if len(rule.atoms) == 1]
        gains = Gains.concatenate([rule.atoms[0] for rule in singles])
        return points.joined(gains, Confusion.stack([rule.confusion for rule in singles]))

    def joined(self, gains: Gains, confusions: Confusion) -> Points:
        """Return these points and more."""
        mine, matrix = self.confusions, None
        if mine.matrix is not None and confusions.matrix is not None:
            matrix = np.concatenate([mine.matrix, confusions.matrix])
        together = Confusion(
            mine.rows,
            np.concatenate([mine.diagonal, confusions.diagonal]),
            np.concatenate([mine.columns, confusions.columns]),
            matrix,
        )
        x = np.concatenate([self.x, self.space.vectors(confusions)])
        return Points(self.space, Gains.concatenate([self.gains, gains]), together, x, self.n_fixed)

    def kept(self, index: Sequence[int]) -> Points:
        """Return the listed points."""
        chosen = np.asarray(index, dtype=np.intp)
        all_of, whole = self.confusions, self.gains
        matrix = None if all_of.matrix is None else all_of.matrix[chosen]
        part = Confusion(all_of.rows, all_of.diagonal[chosen], all_of.columns[chosen], matrix)
        if whole.full is not None:
            gains = Gains(full=whole.full[chosen])
        else:
            a, b = whole.pair()
            gains = Gains(a[chosen], b[chosen])
        return Points(self.space, gains, part, self.x[chosen], self.n_fixed)

    def mixture(self, weights: Array) -> Mixture:
        """Return the rule that draws the points with ``weights`` (A,)."""
        used = np.flatnonzero(weights > 1e-12)
        share = weights[used] / weights[used].sum()
        part = self.kept(used.tolist())
        atoms = tuple(part.gains[k] for k in range(len(used)))
        parts = tuple(part.confusions[k] for k in range(len(used)))
        return Mixture(atoms, share, part.confusions.mix(share), parts)
