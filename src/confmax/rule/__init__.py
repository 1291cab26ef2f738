"""Decision rules: weights and calibration behind one `predict`, stored as JSON."""

from confmax.rule.decision_rule import DecisionRule
from confmax.rule.labels import LabelRule

__all__ = ["DecisionRule", "LabelRule"]
