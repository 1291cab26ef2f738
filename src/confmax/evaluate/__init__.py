"""The value of rules on labelled rows, and how certain it is."""

from confmax.evaluate.coverage_curves import RiskCoverage, risk_coverage
from confmax.evaluate.decided import Decided
from confmax.evaluate.scores import Score
from confmax.evaluate.uncertainty import check_bootstrap, compare, doubts, plain_rules, score
from confmax.evaluate.verdict import Difference, Estimate, Rival, Verdict

__all__ = [
    "Decided",
    "Difference",
    "Estimate",
    "RiskCoverage",
    "Rival",
    "Score",
    "Verdict",
    "check_bootstrap",
    "compare",
    "doubts",
    "plain_rules",
    "risk_coverage",
    "score",
]
