"""Pictures of rules and runs on matplotlib, in scikit-learn's Display style (extra ``plot``).

Every display stores the numbers that it shows. You make one with ``from_solution`` or ``from_estimator``, or with
``from_rule`` where a rule is enough. It draws into the axes that you pass, or into new ones, and keeps them as ``ax_``
and ``figure_``. The colours are those of the reports, for light and for dark backgrounds: blue is better, orange worse.
"""

from confmax.plotting.confusions import ConfusionChangeDisplay
from confmax.plotting.curves import (
    ConvergenceDisplay,
    FrontierDisplay,
    RiskCoverageDisplay,
    ThresholdDisplay,
    TradeOffDisplay,
)
from confmax.plotting.rules import DecisionRegionsDisplay, WeightsDisplay

__all__ = [
    "ConfusionChangeDisplay",
    "ConvergenceDisplay",
    "DecisionRegionsDisplay",
    "FrontierDisplay",
    "RiskCoverageDisplay",
    "ThresholdDisplay",
    "TradeOffDisplay",
    "WeightsDisplay",
]
