"""The master of the means of recalls, without limits: the interior-point method mixes the rules.

Its next prices are the gradient at the best mixture, as for every master without limits; within limits a mean is the
objective of `masters.Program`, whose central path has better ones.
"""

from __future__ import annotations

import numpy as np

from confmax.confusion import Array
from confmax.metrics.structure import PowerMean
from confmax.optimize.masters.generic import optimum
from confmax.optimize.masters.interior import Sum, central_path, without_traces
from confmax.optimize.masters.protocol import Master, Optimum
from confmax.optimize.points import Space


class RecallMeans(Master):
    """Maximise an unsmoothed mean of the recalls; the statistics with which vectors start begin with the diagonal."""

    def mix(self, space: Space, z: Array, start: Array, room: float = 0.0) -> Optimum:
        """Maximise the mean over all mixtures."""
        diagonal, rows = _diagonal(space, z)
        weights = central_path(diagonal / rows, np.ones(len(z)), z[:, :0], Sum(_mean(space)))[0]
        return optimum(space, z, without_traces(weights))

    def bounds(self, space: Space, gains: Array, heights: Array, at: Array) -> Array:
        """Bound the mean by the inequality between it and a weighted mean of the recalls (`PowerMean.bound`)."""
        # the inequality holds for any weights, so this master needs no further gains between its points
        diagonal, rows = _diagonal(space, gains)
        return np.nan_to_num(_mean(space).bound(diagonal * rows, heights), nan=np.inf)


def _mean(space: Space) -> PowerMean:
    mean = space.metric.structure.recall_mean
    assert mean is not None
    return mean


def _diagonal(space: Space, z: Array) -> tuple[Array, Array]:
    """Return the diagonal (A, S) in vectors z (A, d + m) and the priors (S,), of the classes of the metric."""
    used = np.array(space.metric.classes or range(len(space.rows)))
    # the entries of the whole matrix stand row after row
    places = used * (space.n_decisions + 1) if space.statistics == "matrix" else used
    return z[:, places], space.rows[used]
