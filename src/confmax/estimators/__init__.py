"""Classifiers for scikit-learn that tune their decisions to a metric."""

from confmax.estimators.classifiers import FixedRuleClassifier, MetricClassifierCV

__all__ = ["FixedRuleClassifier", "MetricClassifierCV"]
