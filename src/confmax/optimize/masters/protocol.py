"""What a master is: it mixes the rules met so far as well as possible, and says at which prices.

A master sees rules as vectors z (A, d + m): what the objective reads, then the slacks of the limits, which a mixture
must keep from falling below zero. It returns the weights of the best mixture and the dual point there: the derivative
of the objective with respect to the first d entries, and the multipliers ``mu >= 0`` of the limits. Column generation
asks the oracle for the rule that is worth most at these prices, and the master turns the answer into a bound.

If no mixture meets the limits, the dual point holds multipliers only. They price every rule below zero (Farkas): the
next rules are asked for at these prices, and if the oracle's answer is below zero too, no rule meets the limits.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from confmax.confusion import Array
from confmax.optimize.points import Space
from confmax.optimize.rounding import LEFT_OVER

FEASIBLE = LEFT_OVER  # a limit that is missed by no more than this counts as met


@dataclass(frozen=True, eq=False)
class Optimum:
    """The best mixture of some rules."""

    # (A,): weight of each rule, in the simplex
    weights: Array
    # (d + m,): the mixture as a vector
    point: Array
    value: float
    # (d + m,): the dual point: derivative of the objective, then the multipliers of the limits
    gain: Array
    # (N, d + m): dual points on the way to the gain, which is the last; none if the master follows no path
    path: Array
    # (N,): how far they are from it, in the unit of the objective
    gaps: Array
    # by how much every mixture of these rules misses some limit; then the gain holds multipliers only
    shortfall: float = 0.0

    @classmethod
    def without_path(cls, weights: Array, point: Array, value: float, gain: Array, shortfall: float = 0.0) -> Optimum:
        """Return the optimum of a master that follows no path."""
        return cls(weights, point, value, gain, gain[None][:0], np.zeros(0), shortfall)


class Master(Protocol):
    """The best mixture for one kind of objective, and the bounds that hold for it."""

    # number of rules beside the constant ones that are kept if they are not in use
    most_columns: ClassVar[int] = 60
    # how far from the point of the best bound to that of the newest mixture derivatives are asked for too
    between: ClassVar[tuple[float, ...]] = ()
    # whether it follows a central path to its solution. The next dual points are then asked for on this path, and every
    # rule keeps a trace of weight. The objective of other masters has a gradient, which is asked for
    follows_path: ClassVar[bool] = False
    # whether its bounds hold only for what the gradient at the newest mixture promises
    climbs: ClassVar[bool] = False

    @abstractmethod
    def mix(self, space: Space, z: Array, start: Array, room: float = 0.0) -> Optimum:
        """Return the best mixture of rules z (A, d + m), or by how much all of them miss the limits.

        The search starts from the weights ``start`` (A,). A mixture keeps cuts by the ``room``, if there is so much.
        """

    @abstractmethod
    def bounds(self, space: Space, gains: Array, heights: Array, at: Array) -> Array:
        """Return what answers of ``heights`` (B,) to dual points ``gains`` (B, d + m) prove, infinity for nothing.

        The first ``len(at)`` dual points are the derivatives at the points ``at``.
        """


def per_price(heights: Array, total: Array) -> Array:
    """Return ``heights / total`` (B,), by the sums of prices: a bound on a minimum; inf where nothing is priced."""
    return np.divide(heights, total, out=np.full(len(total), np.inf), where=total > 0.0)
