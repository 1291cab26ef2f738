"""confmax: decision rules that maximise any function of the confusion matrix.

Take class probabilities, name the metric that you are judged by, and get the decision rule that is best for it, with
a bound on how much better any rule could be.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from confmax import calibration, metrics, optimize
from confmax._version import __version__
from confmax.rule import DecisionRule
from confmax.solution import Solution, maximize

if TYPE_CHECKING:
    from confmax import checks, populations, theory
    from confmax.estimators import FixedRuleClassifier, MetricClassifierCV

__all__ = [
    "DecisionRule",
    "FixedRuleClassifier",
    "MetricClassifierCV",
    "Solution",
    "__version__",
    "calibration",
    "checks",
    "maximize",
    "metrics",
    "optimize",
    "populations",
    "theory",
]

# scikit-learn takes longer to import than the rest together: it waits until an estimator is asked for
_LATER = {
    "FixedRuleClassifier": "estimators",
    "MetricClassifierCV": "estimators",
    "checks": "",
    "theory": "",
    "populations": "",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'confmax' has no attribute {name!r}")
    if not _LATER[name]:
        return import_module(f"confmax.{name}")
    return getattr(import_module(f"confmax.{_LATER[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
