"""Decision rules: weights and calibration behind one `predict`, stored as JSON."""

from confmax.rule.decision_rule import DecisionRule

__all__ = ["DecisionRule"]
