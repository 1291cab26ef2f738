"""The solver for each kind of metric: a table on declared structure, not a ladder of types.

With the model confusion, concave metrics and the smallest recall use column generation, ratios Dinkelbach's method, and
the others gradient steps from several starts. On labels, Dinkelbach's method is a search over its one parameter, and
the smallest recall is searched on the labels too; this reaches the highest values on tuning rows but lower ones than
the conditional gradient on held-out rows, which a blend therefore uses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from confmax.metrics import Metric
from confmax.metrics.structure import Concave, General, Linear, MinOfLinear, Quasiconvex, Ratio, Structure
from confmax.optimize.loop import Solver, declared

if TYPE_CHECKING:
    from confmax.constraints import Limits
    from confmax.tables import Table

# where each solver is: its code is imported when it is needed
_CLASSES = {
    "frank_wolfe": "conditional_gradient.FrankWolfe",
    "fully_corrective": "column_generation.FullyCorrective",
    "bayes_cg": "paper.BayesCG",
    "dinkelbach": "fractional.Dinkelbach",
    "bisection": "fractional.Bisection",
    "stationary": "conditional_gradient.Stationary",
    "max_min": "column_generation.MaxMin",
    "threshold_search": "threshold.ThresholdSearch",
    "class_threshold": "class_cuts.ClassThreshold",
    "coordinate_search": "coordinate.CoordinateSearch",
    "brute_force": "paper.BruteForce",
}
_WITHIN_LIMITS = "column_generation.ColumnGeneration"


def _made(path: str) -> Solver:
    """Return the solver of a class of this package, such as "paper.BayesCG"."""
    module, name = path.split(".")
    solver: Solver = getattr(import_module(f"confmax.optimize.{module}"), name)()
    return solver


SOLVERS: dict[str, Callable[[], Solver]] = {name: partial(_made, path) for name, path in _CLASSES.items()}

# solvers of earlier versions, with what to use in their place: a script that names one gets a sentence, not a list
_REMOVED = {
    "polished": "use 'auto', which is as good on held-out rows, or 'coordinate_search', which runs only the search"
}


class _Row(NamedTuple):
    """The solvers of a structure, by their names: of two classes, whose rules can be sorted, and of more.

    ``blend`` is the solver for blends of more classes, whatever their share of the model; without it a blend counts as
    labels, and as the model where its share is one. Above ``most_classes`` the conditional gradient takes their place.
    """

    two_model: str
    two_labels: str
    model: str
    labels: str
    blend: str | None = None
    most_classes: float = math.inf


# On the model a linear metric needs no search: its rule is known. On labels and on a blend a threshold may be better
# than that rule. Of two classes the best single rule is a threshold and the best mixture draws between two: the search
# of thresholds finds both. The master problem of FullyCorrective takes about K^3
# operations, and the linear program of MaxMin keeps K constant rules: with more classes the conditional gradient gets
# further in the same time.
MATRIX_CLASSES = 500  # also where a metric reads the whole matrix of each constant rule
_TABLE: dict[type[Structure], _Row] = {
    Linear: _Row("frank_wolfe", "threshold_search", "frank_wolfe", "frank_wolfe"),
    Ratio: _Row("threshold_search", "threshold_search", "dinkelbach", "dinkelbach"),
    Quasiconvex: _Row("threshold_search", "threshold_search", "stationary", "stationary"),
    General: _Row("stationary", "threshold_search", "stationary", "stationary"),
    Concave: _Row("fully_corrective", "threshold_search", "fully_corrective", "frank_wolfe", most_classes=2000),
    MinOfLinear: _Row(
        "max_min", "threshold_search", "max_min", "max_min", blend="frank_wolfe", most_classes=MATRIX_CLASSES
    ),
}


def class_of(metric: Metric, limits: Limits | None, n_classes: int) -> int | None:
    """Return the class that a metric and all limits are about; None where a threshold on it may not be the best rule.

    Both are placed among the K classes of the table. Some limits, such as a ceiling on the precision, are better kept
    where the probability of the class is small.
    """
    if metric.one_class is None or metric.formula.whole or not metric.structure.is_ratio:
        return None
    if limits is None:
        # of two classes the search of thresholds answers this
        return None if n_classes == 2 else metric.class_place
    return metric.class_place if limits.only_class == metric.class_place and limits.ask_for_hits else None


def choose(
    solver: Any,
    metric: Metric,
    n_classes: int,
    n_decisions: int,
    *,
    exact: bool,
    blended: bool = False,
    table: Table | None = None,
    sorts: bool = True,
    limited: bool = False,
    one_class: bool = False,
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
    table : Table or None
        The rows, which "auto" has sorted where they are in one place; None where they are.
    sorts : bool
        Whether "auto" may choose a solver that sorts rows: one class is decided for each. Of several labels two columns
        are two labels, and no two sides of a threshold.
    limited : bool
        Whether there are constraints, which only column generation and the search for one class take.
    one_class : bool
        Whether the metric and all constraints read the same class.

    Raises
    ------
    ValueError
        If ``solver`` is neither a known name nor a solver, or does not take constraints and there are some.
    """
    if isinstance(solver, str) and solver == "auto" and (limited or one_class):
        return SOLVERS["class_threshold"]() if one_class else _made(_WITHIN_LIMITS)
    sorts &= table is None or table.sorting(lambda: True, False)
    chosen = _unlimited(solver, metric, n_classes, n_decisions, exact=exact, blended=blended, sorts=sorts)
    if limited and not declared(chosen, "takes_limits"):
        raise ValueError(f"{chosen.name} does not take constraints; use solver='auto', or leave the constraints out")
    return chosen


def _unlimited(
    solver: Any, metric: Metric, n_classes: int, n_decisions: int, *, exact: bool, blended: bool, sorts: bool
) -> Solver:
    """Return the solver of a metric without limits."""
    if isinstance(solver, str):
        if solver == "auto":
            solver = _name_for(metric, n_classes, n_decisions, exact=exact, blended=blended, sorts=sorts)
        if solver in _REMOVED:
            raise ValueError(f"solver {solver!r} was removed; {_REMOVED[solver]}")
        if solver not in SOLVERS:
            raise ValueError(f"there is no solver {solver!r}; take 'auto', or one of {', '.join(SOLVERS)}")
        return SOLVERS[solver]()
    # a class has the methods of its instances, too: FrankWolfe where FrankWolfe() is meant
    missing = [name for name in ("init", "step", "check") if not callable(getattr(solver, name, None))]
    if isinstance(solver, type) or missing:
        raise ValueError(f"solver must be an instance such as FrankWolfe() or a name; got {solver!r}")
    return solver


def _name_for(metric: Metric, n_classes: int, n_decisions: int, *, exact: bool, blended: bool, sorts: bool) -> str:
    """Return the name of the solver that "auto" takes."""
    row = _TABLE[type(metric.structure)]
    most = min(row.most_classes, MATRIX_CLASSES) if metric.statistics == "matrix" else row.most_classes
    if n_classes > most and row.most_classes < math.inf:
        return "frank_wolfe"
    # the rows of a table in parts cannot be sorted without bringing them together
    if n_classes == n_decisions == 2 and sorts:
        # the search is exact for sums of ratios, but not for every metric of which nothing is known
        known = isinstance(metric.structure, General) and metric.structure.fractions is not None
        if exact and known and not blended:
            return "threshold_search"
        return row.two_model if exact else row.two_labels
    if blended and row.blend is not None:
        return row.blend
    return row.model if exact else row.labels
