"""What a report says of a rule that leaves rows undecided, in sentences."""

from __future__ import annotations

from confmax.evaluate.coverage_curves import CHOW, CoverageFigures
from confmax.evaluate.figures import Figures
from confmax.evaluate.limits import LimitRow
from confmax.evaluate.scores import Estimate, as_good, verdict_of
from confmax.page.words import capital, difference, listed, number, of_limits, percent


def headline(figures: Figures, undecided: CoverageFigures) -> str:
    """Return what to make of the rule, without a number."""
    name = f"{capital(undecided.label)} of what is decided"
    kind = verdict_of(undecided.minus)
    if figures.limits is not None and (_missed(figures) or undecided.missed_by_chow):
        return f"{name}: {of_limits(figures.limits)}"
    if good := as_good(undecided.minus):
        return f"{name}: {CHOW} is {good} as the tuned rule"
    said = {
        "better": f"the tuned rule is better than {CHOW}",
        "worse": f"the tuned rule is worse than {CHOW}",
        "same": f"the tuned rule scores as {CHOW} does",
        "unclear": f"too few rows to say whether the tuned rule beats {CHOW}",
    }
    return f"{name}: {said[kind]}" if kind in said else f"{name} of a tuned decision rule"


def verdict(figures: Figures, undecided: CoverageFigures) -> tuple[str, str]:
    """Return one of "better", "worse", "unclear", and what to make of the rule in plain words."""
    share = undecided.shares[0].rule
    kind = verdict_of(undecided.minus)
    text = (
        f"The rule leaves {_percent(share)} of the rows undecided. Its {undecided.label} on the others is "
        f"{number(undecided.rule.value)}. That of argmax is {number(undecided.everywhere.value)} on all rows, and "
        f"{number(undecided.chow.value)} on as many rows, those with the largest probabilities ({CHOW})."
    )
    minus = difference(undecided.minus, CHOW)
    if undecided.missed_by_chow:
        text += f" {CHOW} misses {listed(undecided.missed_by_chow)}, so these values alone do not compare: {minus}."
    elif kind in ("better", "worse"):
        text += f" {capital(minus)} is more than chance explains."
    elif good := as_good(undecided.minus):
        text += f" {CHOW} is {good}: {minus} has an interval that contains zero."
    elif kind == "unclear":
        text += f" {capital(minus)} could be noise."
    if figures.limits is not None:
        text += f" {capital(of_limits(figures.limits))}."
        if _missed(figures):
            return "worse" if any(not row.unsure for row in _missed(figures)) else "unclear", text
    if undecided.missed_by_chow:
        return "better", text
    return kind if kind in ("better", "worse") else "unclear", text


def _missed(figures: Figures) -> list[LimitRow]:
    return [] if figures.limits is None else [row for row in figures.limits.rows if not row.kept]


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
        f"{percent(high)} it is {number(undecided.curve.area(low, high))} for {CHOW}"
    )
    if undecided.path is None:
        return f"{text}. The best rules at other coverages are not known for this metric within these limits."
    return f"{text} and {number(undecided.path.area(low, high))} for the best rules at each coverage."
