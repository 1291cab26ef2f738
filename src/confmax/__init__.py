"""confmax: decision rules that maximise any function of the confusion matrix.

Pass class probabilities and the metric that you are evaluated on. You get the decision rule that is best for this
metric, with a bound on how much better any rule could be.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from confmax._version import __version__

if TYPE_CHECKING:
    from confmax import (
        calibration,
        checks,
        constraints,
        metrics,
        optimize,
        plotting,
        populations,
        report,
        shift,
        theory,
    )
    from confmax.errors import InputError
    from confmax.estimators import FixedRuleClassifier, MetricClassifierCV, MetricMultilabelCV, RuleScorer, make_scorer
    from confmax.evaluate import Curve, Score, score
    from confmax.frontiers import Frontier, frontier
    from confmax.rule import DecisionRule, LabelRule
    from confmax.solution import Infeasible, LabelSolution, Solution, maximize
    from confmax.tables import open_table

__all__ = [
    "Curve",
    "DecisionRule",
    "FixedRuleClassifier",
    "Frontier",
    "Infeasible",
    "InputError",
    "LabelRule",
    "LabelSolution",
    "MetricClassifierCV",
    "MetricMultilabelCV",
    "RuleScorer",
    "Score",
    "Solution",
    "__version__",
    "calibration",
    "checks",
    "constraints",
    "frontier",
    "make_scorer",
    "maximize",
    "metrics",
    "open_table",
    "optimize",
    "plotting",
    "populations",
    "report",
    "score",
    "shift",
    "theory",
]

# Compiled code and scikit-learn take longest to import: each name brings what it needs when it is first asked for
_NAMES = {
    "Curve": "evaluate",
    "DecisionRule": "rule",
    "FixedRuleClassifier": "estimators",
    "Frontier": "frontiers",
    "Infeasible": "solution",
    "InputError": "errors",
    "LabelRule": "rule",
    "LabelSolution": "solution",
    "MetricClassifierCV": "estimators",
    "MetricMultilabelCV": "estimators",
    "RuleScorer": "estimators",
    "Score": "evaluate",
    "Solution": "solution",
    "frontier": "frontiers",
    "make_scorer": "estimators",
    "maximize": "solution",
    "open_table": "tables",
    "score": "evaluate",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'confmax' has no attribute {name!r}")
    if name not in _NAMES:
        return import_module(f"confmax.{name}")
    value = getattr(import_module(f"confmax.{_NAMES[name]}"), name)
    # the next access finds the name in the module and does not come here
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
