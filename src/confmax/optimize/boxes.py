"""The most that a metric, and the functions of limits, reach where every statistic lies between two confusions.

A linear function is largest where the statistics with positive coefficients are largest and the others smallest. The
objectives of column generation rise with linear functions, or are ratios of them, so the same corners bound them. A
search along one coefficient uses the bounds to leave out stretches on which nothing can be better
(`optimize/coordinate.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from confmax.confusion import ABSENT, Array, Confusion, Gains
from confmax.metrics import Metric
from confmax.metrics.ratios import Ratios
from confmax.metrics.structure import AffineFunctions, LinearFunctions, PowerMean, affine


@dataclass(frozen=True, eq=False)
class Corners:
    """The largest values of linear functions in boxes.

    ``parts`` (2 (K + M), S) are their coefficients: positive ones of the largest statistics, then negative ones of the
    smallest. ``constants`` is (S,).
    """

    parts: Array
    constants: Array

    @classmethod
    def of(cls, functions: LinearFunctions) -> Corners | None:
        """Return the corners of functions; None for those of the whole matrix."""
        gains, constants = affine(functions)
        if gains.full is not None or gains.power:
            return None
        weights = np.hstack(gains.pair()).T
        return cls(np.vstack([np.maximum(weights, 0.0), np.minimum(weights, 0.0)]), constants)

    def most(self, low: Confusion, high: Confusion) -> Array:
        """Return the largest values (B, S) between batches of confusions."""
        ends = (high.diagonal, high.columns, low.diagonal, low.columns)
        return np.asarray(np.concatenate(ends, axis=1) @ self.parts + self.constants)


@dataclass(frozen=True, eq=False)
class Objective:
    """A metric as a rising function of the largest values of linear functions, in boxes.

    The functions are numerators of ``ratios`` and their denominators with a minus sign; else the metric is their
    ``mean``, or the smallest of them.
    """

    corners: Corners
    ratios: Ratios | None = None
    mean: PowerMean | None = None

    @classmethod
    def of(cls, metric: Metric, rows: Array, n_decisions: int) -> Objective | None:
        """Return a metric at class priors ``rows`` (K,); None where it is no such function of diagonal and columns."""
        structure = metric.structure
        ratios = None
        functions: LinearFunctions | None = None
        rises = structure.is_linear or structure.is_minimum or structure.recall_mean is not None
        # of what is decided nothing but ratios is known
        if rises and metric.formula.lift is None:
            functions = metric.as_functions(rows, n_decisions)
        elif (ratios := metric.as_ratios(rows, n_decisions)) is not None:
            signed = Gains.concatenate([ratios.top, ratios.bottom.times(-1.0)])
            functions = AffineFunctions(signed, np.append(ratios.top_constant, -ratios.bottom_constant))
        corners = None if functions is None else Corners.of(functions)
        return None if corners is None else cls(corners, ratios, None if ratios else structure.recall_mean)

    def most(self, low: Confusion, high: Confusion) -> Array:
        """Return what the metric is at most (B,) between batches of confusions."""
        z = self.corners.most(low, high)
        if self.ratios is None:
            return z.min(axis=1) if self.mean is None else self.mean.value(z)
        n = z.shape[1] // 2
        top = z[:, :n]
        bottom = z[:, n:]
        # a ratio without a denominator is zero
        above = np.divide(top, -bottom, out=np.full_like(top, np.inf), where=bottom < -ABSENT)
        return np.asarray(np.clip(above, 0.0, self.ratios.most) @ self.ratios.weights)
