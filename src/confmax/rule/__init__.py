"""Decision rules: weights and calibration behind one `predict`, stored as JSON."""

from typing import TYPE_CHECKING

from confmax.lazily import names_of
from confmax.rule.decision_rule import DecisionRule

if TYPE_CHECKING:
    from confmax.rule.labels import LabelRule

__all__ = ["DecisionRule", "LabelRule"]

# rules of several labels are imported with the first of them
__getattr__, __dir__ = names_of(__name__, {"labels": "LabelRule"})
