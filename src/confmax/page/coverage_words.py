"""What a report says of a rule that leaves rows undecided, in sentences."""

from __future__ import annotations

from confmax.evaluate.curves import CoverageFigures
from confmax.evaluate.rivals import CHOW
from confmax.evaluate.verdict import Estimate
from confmax.page.words import number, percent


def left(undecided: CoverageFigures) -> str:
    """Return how many rows the rule leaves undecided."""
    return (
        f"The rule leaves {_percent(undecided.shares[0].rule)} of the rows undecided. Its {undecided.label} on the "
        f"others is {number(undecided.rule.value)}. That of argmax is {number(undecided.everywhere.value)} on all "
        f"rows, and {number(undecided.chow.value)} on as many rows, those with the largest probabilities ({CHOW})."
    )


def _percent(share: Estimate) -> str:
    span = (
        "" if share.low is None or share.high is None else f" [{percent(max(0.0, share.low))}, {percent(share.high)}]"
    )
    return f"{percent(share.value)}{span}"


def areas(undecided: CoverageFigures) -> str:
    """Return the areas under the risk-coverage curves."""
    low, high = undecided.over
    text = (
        f"The area under a curve, divided by its length, is the mean loss: from a coverage of {percent(low)} to "
        f"{percent(high)} it is {number(1.0 - undecided.curve.area(low, high))} for {CHOW}"
    )
    if undecided.path is None:
        return f"{text}. The best rules at other coverages are not known for this metric within these limits."
    return f"{text} and {number(1.0 - undecided.path.area(low, high))} for the best rules at each coverage."
