"""The space in which column generation works: every rule is a vector z, every gain a linear function of it.

Deciding one class for all rows is such a vector too, known without a pass. The first entries of z are what the
objective reads: the statistics themselves for a metric with a gradient, the values of its linear functions for a
minimum of these. The entries after them are the slacks ``A x - b`` of the limits. A dual point is then one vector too:
the derivative of the objective, and the limits' multipliers. The oracle is asked for their sum, ``f'(x) + A' mu``, and
the product of both vectors is the height from which a bound follows, ``<f'(x), x> + mu' (A x - b)``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Confusion, Gains, Layout
from confmax.metrics import Metric
from confmax.metrics.curved import Curved
from confmax.metrics.first_order import FirstOrder
from confmax.metrics.ratios import Ratios
from confmax.metrics.structure import AffineFunctions, LinearFunctions, MeanFloor, PowerMean
from confmax.optimize.loop import Problem
from confmax.optimize.mixture import Mixture, constant_rules
from confmax.optimize.rounding import NEGLIGIBLE


@dataclass(frozen=True)
class Form:
    """How vectors are laid out whose objective is a function of linear functions."""

    # number of functions S whose smallest, or whose ``mean``, is the objective; of a ratio the numerator
    n_tops: int
    # number of limits m, the last entries
    n_limits: int = 0
    # whether a denominator stands between them
    ratio: bool = False
    mean: PowerMean | None = None
    # whether the objective is another function of them that has a gradient
    smooth: bool = False

    @property
    def has_slopes(self) -> bool:
        """Whether the prices of the functions are derivatives, and not free."""
        return self.mean is not None or self.smooth


@dataclass(frozen=True)
class Space:
    """How rules are laid out as vectors z (d + m,), and gains as vectors g (d + m,)."""

    metric: Metric
    # (K,): class priors, the same for all rules
    rows: Array
    n_decisions: int
    # the d functions whose smallest one is the objective; of a ratio the numerator and the denominator. None if z
    # starts with the statistics
    minimum_of: LinearFunctions | None = None
    # the m functions that must not fall below zero
    limits: LinearFunctions | None = None
    # the ratio that the objective is, if ``minimum_of`` holds its numerator and denominator
    ratio: Ratios | None = None
    # the mean that the objective is, if ``minimum_of`` holds the recalls
    mean: PowerMean | None = None
    # the smooth function that the objective is of ``minimum_of``: for a sum of ratios these are all numerators and then
    # all denominators
    curved: Curved | None = None
    # the ratios that the objective sums
    sum_of: Ratios | None = None
    # floors on means of the recalls
    curves: tuple[MeanFloor, ...] = ()
    # (c, n_given + 1) or None: the last c limits: weights of the given ones, and a constant (`optimize/columns.py`)
    cuts: Array | None = None
    # (n_given,) or None: by how much the values of groups may differ that a given limit compares; inf for limits that
    # compare none
    leeway: Array | None = None

    @property
    def n_objective(self) -> int:
        """Number of entries d that the objective reads."""
        if self.minimum_of is not None:
            return len(self.minimum_of)
        K = len(self.rows)
        M = self.n_decisions
        return {"diagonal": K, "columns": K + M, "matrix": K * M}[self.statistics]

    @property
    def n_given(self) -> int:
        """Number of limits without the cuts, which follow them."""
        return self.n_limits - (0 if self.cuts is None else len(self.cuts))

    def widening(self, width: float) -> Array:
        """Return by how much more limits (m,) may be missed for the values of groups to differ by a ``width``."""
        more = np.zeros(self.n_limits)
        if self.leeway is not None:
            more[: self.n_given] = np.maximum(width - self.leeway, 0.0)
        return more

    def with_cuts(self, cuts: Array) -> Space:
        """Return the space with more limits, sums of the given ones: weights and a constant (c, n_given + 1)."""
        assert isinstance(self.limits, AffineFunctions) and self.limits.constants is not None
        given = np.eye(self.n_given, self.n_limits)
        constants = self.limits.constants[: self.n_given]
        gains = self.limits.combined(cuts[:, :-1] @ given)
        functions = AffineFunctions(
            Gains.concatenate([self.limits.gains, gains]),
            np.concatenate([self.limits.constants, cuts[:, :-1] @ constants + cuts[:, -1]]),
        )
        every = cuts if self.cuts is None else np.concatenate([self.cuts, cuts])
        return replace(self, limits=functions, cuts=every)

    def with_few_cuts(self, used: NDArray[np.bool_]) -> Space:
        """Return the space without the cuts that are not ``used`` (c,)."""
        assert isinstance(self.limits, AffineFunctions) and self.limits.constants is not None and self.cuts is not None
        left = np.append(np.ones(self.n_given, dtype=bool), used)
        functions = AffineFunctions(self.limits.gains[np.flatnonzero(left)], self.limits.constants[left])
        return replace(self, limits=functions, cuts=self.cuts[used] if used.any() else None)

    def with_few_prices(self, vectors: Array, used: NDArray[np.bool_]) -> Array:
        """Return dual points (..., d + m) with multipliers of ``used`` cuts, and those of others as `without_cuts`."""
        objective, multipliers = self.split(vectors)
        given = multipliers[..., : self.n_given]
        priced = multipliers[..., self.n_given :]
        assert self.cuts is not None
        given = given + priced[..., ~used] @ self.cuts[~used, :-1]
        return np.concatenate([objective, given, priced[..., used]], axis=-1)

    def with_values_of_cuts(self, z: Array) -> Array:
        """Return vectors z (..., d + m) with the values of all cuts, whichever of them they have."""
        given = z[..., : self.n_objective + self.n_given]
        if self.cuts is None:
            return given
        values = given[..., self.n_objective :] @ self.cuts[:, :-1].T + self.cuts[:, -1]
        return np.concatenate([given, values], axis=-1)

    def without_cuts(self, vectors: Array) -> Array:
        """Return dual points (..., d + m) whose multipliers of cuts have become those of the limits that they sum."""
        if self.cuts is None:
            return vectors
        return self.with_few_prices(vectors, np.zeros(len(self.cuts), dtype=bool))

    @property
    def n_limits(self) -> int:
        """Number of limits m."""
        return 0 if self.limits is None else len(self.limits)

    @property
    def form(self) -> Form:
        """How vectors of a space of linear functions are laid out."""
        assert self.minimum_of is not None
        n_tops = 1 if self.ratio is not None else len(self.minimum_of)
        return Form(n_tops, self.n_limits, self.ratio is not None, self.mean, self.curved is not None)

    def split(self, vectors: Array) -> tuple[Array, Array]:
        """Return of vectors (..., d + m) what belongs to the objective (..., d) and what to the limits (..., m)."""
        d = vectors.shape[-1] - self.n_limits
        return vectors[..., :d], vectors[..., d:]

    @property
    def statistics(self) -> str:
        """What the metric and the limits read."""
        read = (self.metric.statistics, "diagonal" if self.limits is None else self.limits.statistics)
        return max(read, key=("diagonal", "columns", "matrix").index)

    def vectors(self, S: Confusion) -> Array:
        """Return confusions (batch of A) as vectors (A, d + m)."""
        if self.minimum_of is not None:
            z = self.minimum_of.values(S)
        elif self.statistics == "matrix":
            assert S.matrix is not None
            z = S.matrix.reshape(*S.matrix.shape[:-2], -1)
        elif self.statistics == "diagonal":
            z = S.diagonal
        else:
            z = np.concatenate([S.diagonal, S.columns], axis=-1)
        return z if self.limits is None else np.concatenate([z, self.limits.values(S)], axis=-1)

    def first(self, z: Array) -> FirstOrder:
        """Return the metric's values and derivatives at vectors z (..., d + m) that start with the statistics."""
        K = len(self.rows)
        rows = np.broadcast_to(self.rows, (*z.shape[:-1], K))
        if self.statistics == "matrix":
            matrix = z[..., : K * self.n_decisions].reshape(*z.shape[:-1], K, self.n_decisions)
            # the row sums stay those of the table: the sums of the entries would differ by rounding
            diagonal = np.diagonal(matrix, axis1=-2, axis2=-1)
            return self.metric.at(Confusion(rows, diagonal, matrix.sum(-2), matrix))
        columns = z[..., K : K + self.n_decisions] if self.statistics == "columns" else np.zeros_like(rows)
        return self.metric.at(Confusion(rows, z[..., :K], columns))

    def value(self, z: Array) -> Array:
        """Return the metric at vectors z (..., d + m), NaN as minus infinity."""
        return np.nan_to_num(self.first(z).value, nan=-np.inf, posinf=np.inf, neginf=-np.inf)

    def gradient(self, z: Array) -> Array:
        """Return the metric's gradients (..., d + m) at vectors z (..., d + m); the slacks are not in the metric."""
        slope = self.vectors_of_gains(self.metric.gains(self.first(z)))
        assert slope is not None
        return slope.reshape(z.shape)

    def gains(self, g: Array) -> Gains:
        """Return vectors g (B, d + m) as gains: those of the objective plus the multiples of the limits."""
        K = len(self.rows)
        g, multipliers = self.split(g)
        if self.minimum_of is not None:
            gains = self.minimum_of.combined(g)
        elif self.statistics == "matrix":
            gains = Gains.from_matrix(g.reshape(-1, K, self.n_decisions))
        else:
            gains = Gains.reduced(g[:, :K], g[:, K:] if self.statistics == "columns" else None)
        return gains if self.limits is None else gains.plus(self.limits.combined(multipliers))

    def row_sizes(self) -> Array:
        """Return for each entry of a vector (d,) the most that it changes by a decision of all rows."""
        gains = self.gains(np.eye(self.form.n_tops + self.form.ratio + self.n_limits))
        parts = [part for part in (gains.a, gains.b, gains.full) if part is not None]
        return np.asarray(np.max([np.abs(part).reshape(len(gains), -1).max(axis=1) for part in parts], axis=0))

    def vectors_of_gains(self, gains: Gains) -> Array | None:
        """Return gains as vectors g (B, d + m) without multipliers; None where they are none of this space."""
        if self.minimum_of is not None:
            g = self.minimum_of.weights(gains)
        elif self.statistics == "matrix":
            g = gains.matrices().reshape(len(gains), -1)
        # gains of distances, and of a table of costs, are no linear functions of the statistics alone
        elif gains.full is not None or gains.power:
            return None
        else:
            a, b = gains.pair()
            if self.statistics == "diagonal" and b.any():
                return None
            g = a if self.statistics == "diagonal" else np.concatenate([a, b], axis=1)
        # the objective does not read the slacks, and only a master knows the multipliers of limits
        return np.concatenate([g, np.zeros((len(g), self.n_limits))], axis=1) if self.n_limits else g


@dataclass(frozen=True, eq=False)
class Points:
    """Rules met so far, one after another."""

    space: Space
    # one gain per rule (A)
    gains: Gains
    confusions: Confusion
    # the first so many are the constant rules, which cost no pass and are never dropped
    n_fixed: int
    # where groups stand, of which each is decided by gains of its own
    layout: Layout | None = None

    @cached_property
    def z(self) -> Array:
        """The rules as vectors (A, d + m)."""
        return self.space.vectors(self.confusions)

    @property
    def centre(self) -> Array:
        """The rule that decides at random (d + m,), where every metric of the catalogue has a gradient."""
        return self.z[: self.n_fixed].mean(axis=0)

    @classmethod
    def start(cls, problem: Problem, space: Space) -> Points:
        """Return the constant rules and the problem's starting rules."""
        layout = problem.oracle.table.layout
        constants, known = constant_rules(
            problem.oracle.rows,
            problem.n_decisions,
            matrix=problem.needs_matrix,
            layout=layout,
            decisions=problem.oracle.table.decisions,
            barred=problem.oracle.barred,
        )
        singles = problem.singles
        gains = Gains.concatenate([constants, *(rule.atoms[0] for rule in singles)])
        starts = [Confusion.stack([rule.confusion for rule in singles])] if singles else []
        confusions = Confusion.concatenate([known, *starts])
        apart = None if layout is None or layout.shared else layout
        return cls(space, gains, confusions, len(constants), apart)

    def crossed(self, duals: Array) -> Points:
        """Return for dual points ``duals`` (B, d + m) the best rules that decide every group as one of the points does.

        No pass is needed: what a group's gains decide does not depend on the other groups.
        """
        layout = self.layout
        S = self.confusions
        B = len(duals)
        assert layout is not None
        prices = self.space.gains(duals)
        parts = []
        diagonal = np.zeros((B, layout.all_classes))
        columns = np.zeros((B, layout.all_decisions))
        matrix = None if S.matrix is None else np.zeros((B, layout.all_classes, layout.all_decisions))
        for g in range(layout.n_groups):
            classes = layout.classes(g)
            decisions = layout.decisions(g)
            block = (slice(None), *layout.block(g))
            inner = None if S.matrix is None else S.matrix[block]
            inside = Confusion(S.rows[..., classes], S.diagonal[:, classes], S.columns[:, decisions], inner)
            best = layout.gains_of(prices, g).heights(inside).argmax(axis=1)
            parts.append(layout.gains_of(self.gains, g)[best])
            diagonal[:, classes] = S.diagonal[best, classes]
            columns[:, decisions] = S.columns[best][:, decisions]
            if matrix is not None and S.matrix is not None:
                matrix[block] = S.matrix[best][block]
        answers = Confusion(self.space.rows, diagonal, columns, matrix)
        return replace(self, gains=layout.beside(parts), confusions=answers)

    def joined(self, gains: Gains, confusions: Confusion) -> Points:
        """Return these points and more."""
        together = Confusion.concatenate([self.confusions, confusions])
        return replace(self, gains=Gains.concatenate([self.gains, gains]), confusions=together)

    def chosen(self, index: NDArray[np.intp]) -> Points:
        """Return the listed points."""
        return replace(self, gains=self.gains[index], confusions=self.confusions[index])

    def mixture(self, weights: Array) -> Mixture:
        """Return the rule that draws the points with ``weights`` (A,)."""
        used = np.flatnonzero(weights > NEGLIGIBLE)
        return Mixture.drawn(self.gains[used], self.confusions[used], weights[used])
