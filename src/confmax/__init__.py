"""confmax: decision rules that maximise any function of the confusion matrix.

Pass class probabilities and the metric that you are evaluated on. You get the decision rule that is best for this
metric, with a bound on how much better any rule could be.
"""

from typing import TYPE_CHECKING

from confmax._version import __version__
from confmax.lazily import names_of

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

# compiled code and scikit-learn take longest to import
__getattr__, __dir__ = names_of(
    __name__,
    {
        "calibration": "",
        "checks": "",
        "constraints": "",
        "errors": "InputError",
        "estimators": "FixedRuleClassifier MetricClassifierCV MetricMultilabelCV RuleScorer make_scorer",
        "evaluate": "Curve Score score",
        "frontiers": "Frontier frontier",
        "metrics": "",
        "optimize": "",
        "plotting": "",
        "populations": "",
        "report": "",
        "rule": "DecisionRule LabelRule",
        "shift": "",
        "solution": "Infeasible LabelSolution Solution maximize",
        "tables": "open_table",
        "theory": "",
    },
)
