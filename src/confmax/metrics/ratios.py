"""Metrics that are ratios of affine functions of C at fixed row sums, or weighted sums of such ratios.

A ratio N / D is maximised through the linear functions ``N - l D`` (Dinkelbach): with ``F(l) = max_C N - l D``, every
l with ``F(l) <= 0`` is an upper bound, and so is ``l + F(l) / min D``. For a sum of ratios (macro F1: one per class)
the sum of the separate maxima bounds the metric.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from confmax.confusion import ABSENT, Array, Confusion, Gains

ROUNDING = 16 * float(np.finfo(np.float64).eps)  # of a sum, relative to its terms
NEGLIGIBLE = 1e-9  # doubts about a value that are not worth a word


@dataclass(frozen=True, eq=False)
class Ratios:
    """The metric ``sum_b weights_b N_b / D_b`` with ``N_b = <top_b, C> + top_constant_b``, D_b likewise.

    ``top`` and ``bottom`` are batches of B gains, their constants (B,) those at the given row sums. ``floor`` (B,) is a
    lower bound on D_b over all rules, not negative; so are the ``weights`` (B,). No ratio exceeds ``most``.
    """

    top: Gains
    bottom: Gains
    top_constant: Array
    bottom_constant: Array
    floor: Array
    weights: Array
    most: float = 1.0

    @property
    def is_reduced(self) -> bool:
        """Whether they are functions of the diagonal and the decisions."""
        return not any(gains.full is not None or gains.power for gains in (self.top, self.bottom))

    def denominators(self, S: Confusion) -> Array:
        """Return D_b (B,) at one confusion, or each at its own of a batch of B."""
        return self.bottom.dot(S) + self.bottom_constant

    def values(self, S: Confusion) -> Array:
        """Return N_b / D_b (B,) at one confusion, or each at its own of a batch of B; 0 at 0/0."""
        D = self.denominators(S)
        N = self.top.dot(S) + self.top_constant
        return np.divide(N, D, out=np.zeros(D.shape), where=D > 0)

    def gains(self, levels: Array) -> Gains:
        """Return the gains of ``N_b - levels_b D_b`` (B), or of one ratio at several levels."""
        level = np.asarray(levels, dtype=np.float64)[:, None]
        if self.top.full is not None or self.bottom.full is not None:
            return Gains.from_matrix(self.top.matrices() - level[..., None] * self.bottom.matrices())
        (a, b) = self.top.coefficients()
        (c, d) = self.bottom.coefficients()
        return Gains.reduced(a - level * c, b - level * d, power=self.top.power)

    def excess(self, levels: Array, answers: Confusion) -> Array:
        """Return ``F_b(levels_b)`` (B,) from an exact oracle's answers to `gains`."""
        return self.gains(levels).dot(answers) + self.top_constant - levels * self.bottom_constant

    def doubts(self, levels: Array, answers: Confusion) -> Array:
        """Return by how much rounding may move a bound from these ``answers`` (B,); 0 where that is below 1e-9.

        `excess` is a sum of terms that may cancel, and is divided by a denominator that may be as small as its floor.
        """
        gains = self.gains(levels)
        if gains.full is None and not gains.power:
            a, b = (np.abs(part) for part in gains.pair())
            terms = (a * answers.diagonal).sum(axis=-1) + (b * answers.columns).sum(axis=-1)
        else:
            # the entries of a matrix may be differences of others: their error is that of the largest
            parts = (gains.full,) if gains.full is not None else gains.coefficients()
            terms = np.sum([np.abs(part).reshape(len(gains), -1).max(axis=1) for part in parts], axis=0)
        terms = terms + np.abs(self.top_constant) + np.abs(levels * self.bottom_constant)
        doubts = np.divide(ROUNDING * terms, self.floor, out=np.zeros(terms.shape), where=self.floor > ABSENT)
        return np.where(doubts > NEGLIGIBLE, doubts, 0.0)

    def bounds(self, levels: Array, excess: Array, doubts: Array | float = 0.0) -> Array:
        """Return upper bounds on the largest N_b / D_b (B,), from ``excess = F_b(levels_b)``; inf where there is none.

        Source: ``N - l D <= F(l)`` for every rule, divided by D (erratum E15 for the constants). `doubts` (B,) are
        added.
        """
        above = np.maximum(excess, 0.0)
        steps = np.divide(above, self.floor, out=np.full(above.shape, np.inf), where=self.floor > ABSENT)
        return np.asarray(np.minimum(levels + np.where(above > 0.0, steps, 0.0) + doubts, self.most))

    def placed(self, classes: tuple[int, ...], n_classes: int, n_decisions: int) -> Ratios:
        """Return the same ratios, whose classes are ``classes`` of a table of K columns, over the whole table."""
        top, bottom = (placed(gains, classes, n_classes, n_decisions) for gains in (self.top, self.bottom))
        # a chance agreement by distances vanishes where only other classes are decided
        floor = self.floor if not self.top.power or len(classes) == n_classes else np.zeros_like(self.floor)
        return replace(self, top=top, bottom=bottom, floor=floor)


def placed(gains: Gains, classes: tuple[int, ...], n_classes: int, n_decisions: int) -> Gains:
    """Return ``gains`` whose classes are ``classes`` of a table of K columns and M decisions, over the whole table."""
    index = np.array(classes)
    if gains.full is not None or gains.power:
        full = np.zeros((len(gains), n_classes, n_decisions))
        full[:, index[:, None], index] = gains.matrices()
        if gains.power:
            # how often a class is decided counts all rows, those of other classes too
            others = np.setdiff1d(np.arange(n_classes), index)
            full[:, others[:, None], index] = gains.coefficients()[1][:, None, :]
        return Gains.from_matrix(full)
    parts = np.zeros((2, len(gains), n_classes))
    parts[:, :, index] = np.stack(gains.pair())
    return Gains.reduced(*parts)
