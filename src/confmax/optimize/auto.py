"""The solver for each kind of metric: a table on declared structure, not a ladder of types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from confmax.metrics import Metric
from confmax.optimize.column_generation import FullyCorrective, MaxMin
from confmax.optimize.conditional_gradient import FrankWolfe
from confmax.optimize.coordinate import CoordinateSearch
from confmax.optimize.fractional import Bisection, Dinkelbach
from confmax.optimize.loop import Solver
from confmax.optimize.paper import BayesCG, BruteForce
from confmax.optimize.stationary import Stationary
from confmax.optimize.threshold import ThresholdSearch

SOLVERS: dict[str, Callable[[], Solver]] = {
    "frank_wolfe": FrankWolfe,
    "fully_corrective": FullyCorrective,
    "bayes_cg": BayesCG,
    "dinkelbach": Dinkelbach,
    "bisection": Bisection,
    "stationary": Stationary,
    "max_min": MaxMin,
    "threshold_search": ThresholdSearch,
    "coordinate_search": CoordinateSearch,
    "brute_force": BruteForce,
}

# (structure, two classes, exact oracle) -> solver. A linear metric needs no search: its rule is known. Of two classes
# the best single rule is a threshold and the best mixture draws between two: the search of thresholds finds both.
_TABLE: dict[tuple[str, bool, bool], Callable[[], Solver]] = {
    ("linear", True, True): FrankWolfe,
    ("ratio", True, True): ThresholdSearch,
    ("quasiconvex", True, True): ThresholdSearch,
    ("general", True, True): Stationary,
    ("concave", True, True): FullyCorrective,
    ("linear", True, False): FrankWolfe,
    ("ratio", True, False): ThresholdSearch,
    ("quasiconvex", True, False): ThresholdSearch,
    ("general", True, False): ThresholdSearch,
    ("concave", True, False): ThresholdSearch,
    ("linear", False, True): FrankWolfe,
    ("ratio", False, True): Dinkelbach,
    ("quasiconvex", False, True): Stationary,
    ("general", False, True): Stationary,
    ("concave", False, True): FullyCorrective,
    ("linear", False, False): FrankWolfe,
    ("ratio", False, False): Dinkelbach,
    ("quasiconvex", False, False): Stationary,
    ("general", False, False): Stationary,
    ("concave", False, False): FrankWolfe,
}

# the master problem of FullyCorrective takes about K^3 operations, the linear program of MaxMin keeps K constant rules;
# above so many classes the conditional gradient gets further in the same time
MANY_CLASSES = {"min_recall": 500}
MOST_CLASSES = 2000
MATRIX_CLASSES = 500  # where the metric reads the whole matrix of each constant rule

# solvers of earlier versions, with what to use in their place: a script that names one gets a sentence, not a list
_REMOVED = {
    "polished": "use 'auto', which did as well on rows that were not searched, or 'coordinate_search', its search alone"
}

# metrics that have a solver of their own while they are not smoothed
_OWN: dict[str, Callable[[], Solver]] = {"min_recall": MaxMin}


def choose(
    solver: Any,
    metric: Metric,
    n_classes: int,
    n_decisions: int,
    *,
    exact: bool,
    blended: bool = False,
    in_parts: bool = False,
) -> Solver:
    """Return the requested solver or, for "auto", the one that suits the metric's structure.

    Parameters
    ----------
    solver : "auto", a name from `SOLVERS`, or a solver
        The caller's choice.
    metric : Metric
        The metric to maximise.
    n_classes, n_decisions : int
        Number of columns of the table, and number of decisions.
    exact : bool
        Whether the oracle is exact (model confusion).
    blended : bool
        Whether the confusion matrix is a blend. "auto" then avoids solvers that fit the estimate too closely.
    in_parts : bool
        Whether the rows are stored in several parts. "auto" then chooses no solver that sorts all rows.

    Raises
    ------
    ValueError
        If ``solver`` is neither a known name nor a solver.
    """
    if isinstance(solver, str):
        if solver == "auto":
            two = n_classes == n_decisions == 2 and not in_parts
            most = MATRIX_CLASSES if metric.statistics == "matrix" else MANY_CLASSES.get(metric.name, MOST_CLASSES)
            if metric.structure == "concave" and n_classes > most:
                return FrankWolfe()
            own = _OWN.get(metric.name) if not dict(metric.params).get("rho") else None
            if own is not None and blended and not two:
                return FrankWolfe()
            if own is not None and (exact or not two):
                return own()
            return _TABLE[metric.structure, two, exact]()
        if solver in _REMOVED:
            raise ValueError(f"solver {solver!r} was removed; {_REMOVED[solver]}")
        if solver not in SOLVERS:
            raise ValueError(f"solver is 'auto', a solver, or one of {', '.join(SOLVERS)}; got {solver!r}")
        return SOLVERS[solver]()
    missing = [name for name in ("init", "step", "check") if not callable(getattr(solver, name, None))]
    if isinstance(solver, type) or missing:
        raise ValueError(f"solver must be an instance such as FrankWolfe() or a name; got {solver!r}")
    return solver
