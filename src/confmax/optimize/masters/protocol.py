"""What a master is: it mixes the rules met so far as well as possible, and says at which prices.

A master sees rules as vectors z (A, d + m): what the objective reads, then the slacks of the limits, which a mixture
must keep from falling below zero. It returns the weights of the best mixture and the dual point there: the derivative
of the objective with respect to the first d entries, and the multipliers ``mu >= 0`` of the limits. Column generation
asks the oracle for the rule that is worth most at these prices, and the master turns the answer into a bound.

If no mixture meets the limits, the dual point holds multipliers only. They price every rule below zero (Farkas): the
next rules are asked for at these prices, and if the oracle's answer is below zero too, no rule meets the limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

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
    shortfall : float
        By how much every mixture of these rules misses some limit; then the gain holds multipliers only.
    path : ndarray (N, d + m) or None
        Dual points on the way to the gain, which is the last; only an interior-point master has them.
    gaps : ndarray (N,) or None
        How far they are from it, in the unit of the objective.
    """

    weights: Array
    point: Array
    value: float
    gain: Array
    shortfall: float = 0.0
    path: Array | None = None
    gaps: Array | None = None


class Master(Protocol):
    """The best mixture for one kind of objective, and the bounds that hold for it.

    Attributes
    ----------
    most_columns : int
        Number of rules beside the constant ones that are kept if they are not in use.
    smooth : bool
        Whether the objective has second derivatives, which Newton's step on the dual needs.
    between : tuple of float
        How far from the point of the best bound to that of the newest mixture derivatives are asked for too.
    local : bool
        Whether its bounds hold only for what the gradient at the newest mixture promises.
    """

    most_columns: ClassVar[int] = 60
    smooth: ClassVar[bool] = True
    between: ClassVar[tuple[float, ...]] = ()
    local: ClassVar[bool] = False

    def solve(self, space: Space, z: Array, start: Array) -> Optimum:
        """Return the best mixture of rules z (A, d + m), some mixture of which meets the limits.

        The weights ``start`` (A,) are those of such a mixture where the limits are met by it.
        """

    def bounds(self, space: Space, gains: Array, heights: Array, at: Array) -> Array:
        """Return what answers of ``heights`` (B,) to dual points ``gains`` (B, d + m) prove, infinity for nothing.

        The first ``len(at)`` dual points are the derivatives at the points ``at``.
        """
