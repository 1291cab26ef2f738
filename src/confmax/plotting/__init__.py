"""Pictures of rules and runs on matplotlib, in scikit-learn's Display style (extra ``plot``).

Every display holds the numbers that it shows, is made by ``from_solution`` or ``from_estimator``, draws itself into the
axes that it is given, and keeps them as ``ax_`` and ``figure_``.
"""

from confmax.plotting._confusions import ConfusionChangeDisplay, TradeOffDisplay
from confmax.plotting._convergence import ConvergenceDisplay
from confmax.plotting._rules import DecisionRegionsDisplay, WeightsDisplay

__all__ = [
    "ConfusionChangeDisplay",
    "ConvergenceDisplay",
    "DecisionRegionsDisplay",
    "TradeOffDisplay",
    "WeightsDisplay",
]
