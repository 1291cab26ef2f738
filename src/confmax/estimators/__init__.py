"""Classifiers for scikit-learn that tune their decisions to a metric."""

from confmax.estimators.classifiers import FixedRuleClassifier, MetricClassifierCV
from confmax.estimators.multilabel import MetricMultilabelCV
from confmax.estimators.scorer import RuleScorer, make_scorer

__all__ = ["FixedRuleClassifier", "MetricClassifierCV", "MetricMultilabelCV", "RuleScorer", "make_scorer"]
