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


@dataclass(frozen=True, eq=False)
class Optimum:
    """The best mixture of some rules.

    Attributes
    ----------
    weights : ndarray (A,)
        Weight of each rule, in the simplex.
    point : ndarray (d + m,)
        The mixture as a vector.
    value : float
        The objective there.
    gain : ndarray (d + m,)
        The dual point: derivative of the objective, then the multipliers of the limits.
    path : ndarray (N, d + m)
        Dual points on the way to the gain, which is the last; none if the master follows no path.
    gaps : ndarray (N,)
        How far they are from it, in the unit of the objective.
    shortfall : float
        By how much every mixture of these rules misses some limit; then the gain holds multipliers only.
    """

    weights: Array
    point: Array
    value: float
    gain: Array
    path: Array
    gaps: Array
    shortfall: float = 0.0

    @classmethod
    def without_path(cls, weights: Array, point: Array, value: float, gain: Array, shortfall: float = 0.0) -> Optimum:
        """Return the optimum of a master that follows no path."""
        return cls(weights, point, value, gain, gain[None][:0], np.zeros(0), shortfall)


class Master(Protocol):
    """The best mixture for one kind of objective, and the bounds that hold for it.

    Attributes
    ----------
    most_columns : int
        Number of rules beside the constant ones that are kept if they are not in use.
    between : tuple of float
        How far from the point of the best bound to that of the newest mixture derivatives are asked for too.
    follows_path : bool
        Whether it follows a central path to its solution. The next dual points are then asked for on this path, and
        every rule keeps a trace of weight. The objective of other masters has a gradient, which is asked for.
    climbs : bool
        Whether its bounds hold only for what the gradient at the newest mixture promises.
    """

    most_columns: ClassVar[int] = 60
    between: ClassVar[tuple[float, ...]] = ()
    follows_path: ClassVar[bool] = False
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
