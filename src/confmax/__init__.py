"""confmax: decision rules that maximise any function of the confusion matrix.

Take class probabilities, name the metric that you are judged by, and get the decision rule that is best for it, with
a bound on how much better any rule could be.
"""

from confmax import metrics
from confmax.rule import DecisionRule
from confmax.solution import Solution, maximize

__version__ = "0.1.0"

__all__ = ["DecisionRule", "Solution", "maximize", "metrics"]
