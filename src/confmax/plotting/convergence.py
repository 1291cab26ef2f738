"""How a run converged."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array
from confmax.evaluate.protocols import convergence
from confmax.plotting.shared import axes_of, fitted, palette
from confmax.solution import Solution


class ConvergenceDisplay:
    """The best value and the upper bound after each scan of the table.

    Parameters
    ----------
    passes : ndarray (S,)
        Number of scans of the table after each step.
    values : ndarray (S,)
        The best value so far.
    bounds : ndarray (S,)
        The lowest upper bound so far, NaN where there is none.
    metric : str
        Name of the metric that was maximised.

    Examples
    --------
    >>> import confmax
    >>> from confmax.plotting import ConvergenceDisplay
    >>> solution = confmax.maximize("g_mean", [[0.9, 0.1], [0.7, 0.3], [0.2, 0.8]])
    >>> ConvergenceDisplay.from_solution(solution).ax_.get_xlabel()
    'scans of the table'
    """

    def __init__(self, *, passes: NDArray[Any], values: Array, bounds: Array, metric: str) -> None:
        self.passes, self.values, self.bounds, self.metric = passes, values, bounds, metric

    @classmethod
    def from_solution(cls, solution: Solution, *, ax: Any = None) -> ConvergenceDisplay:
        """Draw how the search for ``solution`` went into ``ax``."""
        passes, values, bounds = convergence(solution)
        return cls(passes=passes, values=values, bounds=bounds, metric=repr(solution.metric)).plot(ax=ax)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> ConvergenceDisplay:
        """Draw how the search of ``estimator``, a fitted `MetricClassifierCV`, went into ``ax``."""
        return cls.from_solution(fitted(estimator), ax=ax)

    def plot(self, ax: Any = None) -> ConvergenceDisplay:
        """Draw into axes ``ax``, new ones by default. The optimum lies in the band between value and bound."""
        self.figure_, self.ax_ = axes_of(ax)
        colours = palette(self.ax_)
        # the starting rules are known from the first pass on
        x = np.append(self.passes, self.passes[-1] + 0.5)
        value, bound = (np.append(line, line[-1]) for line in (self.values, self.bounds))
        self.ax_.step(x, value, where="post", color=colours["accent"], label="best rule so far")
        # on labels nothing is proved, and there is no bound to draw
        if np.isfinite(bound).any():
            self.ax_.step(x, bound, where="post", linestyle="--", color=colours["second"], label="upper bound")
            gap = f"gap ({bound[-1] - value[-1]:.1e} at the end)"
            self.ax_.fill_between(x, value, bound, step="post", alpha=0.15, color=colours["accent"], label=gap)
        self.ax_.set(xlabel="scans of the table", ylabel=self.metric)
        self.ax_.legend(loc="lower right")
        return self
