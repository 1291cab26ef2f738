"""confmax: decision rules that maximise any function of the confusion matrix.

Take class probabilities, name the metric that you are judged by, and get the decision rule that is best for it, with
a bound on how much better any rule could be.
"""

from confmax import metrics
from confmax._version import __version__
from confmax.rule import DecisionRule
from confmax.solution import Solution, maximize

__all__ = ["DecisionRule", "Solution", "__version__", "maximize", "metrics"]
