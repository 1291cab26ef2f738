"""Which solver takes which metric: a table on declared structure, not a ladder of types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from confmax._metric import Metric
from confmax.optimize._loop import Solver
from confmax.optimize.frank_wolfe import BayesCG, FrankWolfe
from confmax.optimize.fully_corrective import FullyCorrective
from confmax.optimize.grid import BruteForce
from confmax.optimize.minmax import MaxMin
from confmax.optimize.threshold import ThresholdSearch

SOLVERS: dict[str, Callable[[], Solver]] = {
    "frank_wolfe": FrankWolfe,
    "fully_corrective": FullyCorrective,
    "bayes_cg": BayesCG,
    "max_min": MaxMin,
    "threshold_search": ThresholdSearch,
    "brute_force": BruteForce,
}

# (structure, two classes) -> solver. A linear metric needs no search: its rule is known. Else a threshold is optimal
# for two classes, except that a concave metric may need a mixture, which only the conditional gradient finds.
_TABLE: dict[tuple[str, bool], Callable[[], Solver]] = {
    ("linear", True): FrankWolfe,
    ("ratio", True): ThresholdSearch,
    ("quasiconvex", True): ThresholdSearch,
    ("general", True): ThresholdSearch,
    ("concave", True): FrankWolfe,
    ("linear", False): FrankWolfe,
    ("ratio", False): FrankWolfe,
    ("quasiconvex", False): FrankWolfe,
    ("general", False): FrankWolfe,
    ("concave", False): FrankWolfe,
}


# what an exact oracle allows beyond the table, certified in a few passes
_EXACT: dict[str, Callable[[], Solver]] = {"concave": FullyCorrective}
# metrics that have a solver of their own while they are not smoothed
_OWN: dict[str, Callable[[], Solver]] = {"min_recall": MaxMin}


def choose(solver: Any, metric: Metric, n_classes: int, n_decisions: int, *, exact: bool, randomized: bool) -> Solver:
    """Return the solver that was asked for, or the one that the metric's structure calls for.

    Parameters
    ----------
    solver : "auto", a name from `SOLVERS`, or a solver
        What the caller said.
    metric : Metric
        What is to be maximised.
    n_classes, n_decisions : int
        Columns of the table, and decisions to choose from.
    exact : bool
        Whether the oracle is exact (model confusion).
    randomized : bool
        Whether a mixture is asked for.

    Raises
    ------
    ValueError
        For a name that is no solver.
    """
    if isinstance(solver, str):
        if solver == "auto":
            two = n_classes == n_decisions == 2
            own = _OWN.get(metric.name) if not dict(metric.params).get("rho") else None
            if own is not None and (exact or not two):
                return own()
            if exact and metric.structure in _EXACT:
                return _EXACT[metric.structure]()
            # on labels the best threshold beats the mixtures that the conditional gradient meets
            thresholds = metric.structure == "concave" and not (exact or randomized)
            structure = "general" if thresholds else metric.structure
            return _TABLE[structure, two]()
        if solver not in SOLVERS:
            raise ValueError(f"solver is 'auto', a solver, or one of {', '.join(SOLVERS)}; got {solver!r}")
        return SOLVERS[solver]()
    missing = [name for name in ("init", "step", "check") if not callable(getattr(solver, name, None))]
    if isinstance(solver, type) or missing:
        raise ValueError(f"solver must be an instance such as FrankWolfe() or a name; got {solver!r}")
    return solver
