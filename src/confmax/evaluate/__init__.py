"""The value of rules on labelled rows, and how certain it is."""

from confmax.evaluate.curves import Curve
from confmax.evaluate.decided import Decided
from confmax.evaluate.scores import Score
from confmax.evaluate.uncertainty import check_bootstrap, compare, doubts, plain_rules, score
from confmax.evaluate.verdict import Difference, Estimate, Rival, Verdict

__all__ = [
    "Curve",
    "Decided",
    "Difference",
    "Estimate",
    "Rival",
    "Score",
    "Verdict",
    "check_bootstrap",
    "compare",
    "doubts",
    "plain_rules",
    "score",
]
