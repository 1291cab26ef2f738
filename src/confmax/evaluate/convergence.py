"""How the search for a rule converged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array
from confmax.evaluate.protocols import Tuned


@dataclass(frozen=True, eq=False)
class Convergence:
    """Scans of the table (S,) after each step, the best value, and the lowest upper bound, NaN where there is none."""

    passes: NDArray[np.int64]
    values: Array
    bounds: Array


def convergence(solution: Tuned) -> Convergence:
    """Return how the search for a solution converged."""
    # where labels take part a run may have had bounds, which prove nothing of the solution
    proved = solution.upper_bound is not None
    bounds = [step.upper_bound if proved and step.upper_bound is not None else np.nan for step in solution.history]
    passes, values = zip(*((step.n_passes, step.value) for step in solution.history), strict=True)
    return Convergence(np.array(passes), np.array(values), np.array(bounds))
