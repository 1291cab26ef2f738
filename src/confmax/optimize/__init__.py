"""Solvers, and the one loop that runs them."""

from typing import TYPE_CHECKING

from confmax.lazily import names_of

if TYPE_CHECKING:
    from confmax.optimize.auto import SOLVERS, choose
    from confmax.optimize.column_generation import ColumnGeneration, FullyCorrective, MaxMin
    from confmax.optimize.conditional_gradient import FrankWolfe, Stationary
    from confmax.optimize.coordinate import CoordinateSearch
    from confmax.optimize.fractional import Bisection, Dinkelbach
    from confmax.optimize.loop import Outcome, Problem, Progress, Solver, Status, Step, baselines, passes_allowed, run
    from confmax.optimize.mixture import Mixture
    from confmax.optimize.paper import BayesCG, BruteForce
    from confmax.optimize.threshold import ThresholdSearch, best_cut
    from confmax.optimize.warm import warm_start

__all__ = [
    "SOLVERS",
    "BayesCG",
    "Bisection",
    "BruteForce",
    "ColumnGeneration",
    "CoordinateSearch",
    "Dinkelbach",
    "FrankWolfe",
    "FullyCorrective",
    "MaxMin",
    "Mixture",
    "Outcome",
    "Problem",
    "Progress",
    "Solver",
    "Stationary",
    "Status",
    "Step",
    "ThresholdSearch",
    "baselines",
    "best_cut",
    "choose",
    "passes_allowed",
    "run",
    "warm_start",
]

__getattr__, __dir__ = names_of(
    __name__,
    {
        "auto": "SOLVERS choose",
        "column_generation": "ColumnGeneration FullyCorrective MaxMin",
        "conditional_gradient": "FrankWolfe Stationary",
        "coordinate": "CoordinateSearch",
        "fractional": "Bisection Dinkelbach",
        "loop": "Outcome Problem Progress Solver Status Step baselines passes_allowed run",
        "mixture": "Mixture",
        "paper": "BayesCG BruteForce",
        "threshold": "ThresholdSearch best_cut",
        "warm": "warm_start",
    },
)
