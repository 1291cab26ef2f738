"""What a solution promises, in a sentence: what is proved, of what, and how the search ended.

The bound is one on the metric of the expected confusion matrix, psi(E C). The expected metric E psi(C) of a finite
table is another number, which a rule can raise above the bound.
"""

from __future__ import annotations

from typing import Any

from confmax.metrics.structure import General, Quasiconvex
from confmax.optimize import Status

EXACT = 1e-12  # a gap of rounding size
WORTH_SAYING = 1e-4  # what a mixture adds
ENDINGS = {
    Status.STOPPED: "the callback stopped the search",
    Status.TRUNCATED: "max_passes cut the search short",
    Status.OPTIMAL: "the search compared all rules of its kind",
}


def guarantee(solution: Any) -> str:
    """Return what is proved of a `Solution`, or why nothing is, as one line."""
    name, gap = repr(solution.metric), solution.gap
    ending = ENDINGS.get(solution.status, "search finished")
    if gap is None and solution.mode == "model":
        return f"{ending}; no optimality guarantee, because no upper bound is known for {name}"
    if gap is None:
        structure = solution.metric.structure
        bounded = structure.fractions is not None or not isinstance(structure, (General, Quasiconvex))
        way_out = ", confusion='model' gives one" if bounded else ""
        return f"{ending}; no optimality guarantee on labels{way_out}"
    within = "" if gap <= EXACT else f" by more than {gap:.2g}"
    proved = f"proved: no rule has a higher {name} of the confusion matrix expected from these probabilities{within}"
    loss = solution.randomization_loss or 0.0
    if loss > 0.5 * gap and loss >= WORTH_SAYING:
        mixture = solution.value + loss
        return f"{proved}; a rule that decides at random reaches {mixture:.6g}, randomized=True returns it"
    if solution.status is Status.MAX_PASSES:
        return f"{proved}; the search used all its passes, a larger max_passes may narrow this"
    return proved
