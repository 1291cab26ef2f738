"""The value of rules on labelled rows, and how certain it is."""

from typing import TYPE_CHECKING

from confmax.lazily import names_of

if TYPE_CHECKING:
    from confmax.evaluate.curves import Curve
    from confmax.evaluate.decided import Decided
    from confmax.evaluate.judging import plain_rules
    from confmax.evaluate.scores import Score
    from confmax.evaluate.uncertainty import check_bootstrap, compare, doubts, score
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

__getattr__, __dir__ = names_of(
    __name__,
    {
        "curves": "Curve",
        "decided": "Decided",
        "judging": "plain_rules",
        "scores": "Score",
        "uncertainty": "check_bootstrap compare doubts score",
        "verdict": "Difference Estimate Rival Verdict",
    },
)
