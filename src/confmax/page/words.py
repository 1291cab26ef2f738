"""What the figures mean, in sentences for readers who know no optimisation."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np

from confmax.calibration import MatrixScaling, Scaling
from confmax.calibration.calibrators import kept_class
from confmax.calibration.pairs import moves
from confmax.calibration.words import how, is_calibrated, printable, weights_alone
from confmax.evaluate.figures import ClassRow, Figures
from confmax.evaluate.verdict import ROUNDING, Difference, Estimate, Rival, Verdict, holds_zero, negated
from confmax.evaluate.words import in_brief, listed

MOST_PRICES = 4
NO_TUNING = ("argmax", "p/prior", "p > 0.5")
MINUS = "−"


# --- numbers and names as people read them ----------------------------------------------------------------------------


def capital(text: str) -> str:
    """Return a text with a capital first letter."""
    return text[:1].upper() + text[1:]


def number(value: float | None, sign: bool = False) -> str:
    """Return a value with three decimals, more where these would be zero."""
    if value is None or not math.isfinite(value):
        return "–"
    size = abs(value)
    digits = f"{size:.3f}"
    if 0 < size < 5e-4:
        # a small number is written with its first digit; below 1e-9 it is rounding and written as zero
        digits = f"{size:.4f}" if size >= 5e-5 else f"{Decimal(f'{size:.0e}'):f}" if size >= 1e-9 else "0.000"
    before = MINUS if value < 0 and float(digits) != 0 else ("+" if sign and float(digits) != 0 else "")
    return before + digits


def probability(value: float) -> str:
    """Return a probability with three decimals, more where these would be zero or one."""
    rest = 1.0 - value
    return f"{1 - Decimal(f'{rest:.0e}'):f}" if 1e-9 <= rest < 5e-4 else number(value)


def threshold(value: float) -> str:
    """Return the probability from which a class is decided; it may be never, or always."""
    return "never" if not math.isfinite(value) else "always" if value == 0 else probability(value)


def interval(it: Estimate | Difference, sign: bool = False) -> str:
    """Return the interval of an estimate or a difference in brackets, nothing where there is none."""
    return "" if it.low is None or it.high is None else f"[{number(it.low, sign)}, {number(it.high, sign)}]"


def percent(share: float) -> str:
    """Return a share as a percentage with one decimal, or what it is below or above."""
    if 0 < share < 5e-4:
        return "under 0.1 %"
    if 1 - 5e-4 < share < 1:
        return "over 99.9 %"
    return f"{100 * share:.1f} %"


def count(n: float, sign: bool = False) -> str:
    """Return a number of rows, or of their weight, with thousands apart."""
    whole = float(round(float(n), 6))  # sums of weights are not exact
    before = "" if not sign or whole == 0 else "+" if whole > 0 else MINUS
    size = abs(whole)
    return before + (f"{size:,.0f}" if size.is_integer() else f"{size:,.2f}")


def rows(n: int) -> str:
    """Return "1 row", "2,000 rows"."""
    return f"{n:,} row{'' if n == 1 else 's'}"


# --- what the figures say ---------------------------------------------------------------------------------------------


def basis(figures: Figures) -> str:
    """Return which rows the figures describe, as the end of a sentence."""
    evidence = figures.evidence
    n = rows(figures.score.n_rows)
    if evidence.is_sample:
        seen = "that the rule was tuned on" if evidence.seen else "given"
        sure = "" if evidence.seen else ". Make sure that the rule was not tuned on them"
        return (
            f"on the {n} {seen}, which were read in parts. Calibration, thresholds, trade-offs and what else is not "
            f"counted are those of a sample of {rows(evidence.table.n_rows)}, chosen by what is in them{sure}"
        )
    if evidence.fold is not None:
        return (
            f"on {n}, cross-fitted in {len(evidence.solutions)} folds: each row is decided by a rule that was tuned on "
            f"the other folds (the rule that is kept is tuned on all rows)"
        )
    if evidence.seen:
        return f"on the {n} that the rule was tuned on"
    return f"on the {n} given. Make sure that the rule was not tuned on them"


def headline(figures: Figures) -> str:
    """Return what to make of the rule, without a number: the numbers stand below it, once."""
    verdict = figures.verdict
    name = capital(figures.main.label)
    if figures.undecided is not None and figures.main.label == figures.undecided.label:
        name += " of what is decided"
    if verdict.kind == "same":
        # other rows may be too few to show where the rule differs from argmax
        tuning = figures.evidence.fold is not None or figures.evidence.seen
        what = f"tuning found nothing better than {verdict.of}" if tuning else in_brief(verdict)
        return f"{name}: {what}"
    return of_verdict(verdict, name)


def of_verdict(verdict: Verdict, name: str) -> str:
    """Return what a verdict by a metric of this ``name`` says, without a number."""
    within = " within limits" if verdict.missed or any(one.missed for one in verdict.rivals) else ""
    said = in_brief(verdict)
    return f"{name}{within}: {said}" if said else f"{name} of a tuned decision rule"


def verdict(figures: Figures) -> tuple[str, str]:
    """Return one of "better", "worse", "unclear", and what to make of the rule in plain words."""
    found = figures.verdict
    if found.kind != "same":
        return found.side, " ".join(sentences(found, figures.limits is not None))
    if figures.changed or not figures.changed_by_folds:
        why = "needs no tuning" if found.of in NO_TUNING else "is simpler"
        return "unclear", f"The rule decides as {found.of} does on all these rows. Use {found.of}, which {why}."
    return "unclear", (
        f"The rule that is kept decides as argmax on all rows. Use argmax, which needs no tuning. The rules of the "
        f"folds change {percent(figures.changed_by_folds)} of the decisions. The figures of the tuned rule are "
        f"theirs, so they differ from those of argmax."
    )


def against(figures: Figures) -> list[str]:
    """Return how the rule compares with its other rivals; nothing where it decides as argmax does."""
    found = figures.verdict
    # the differences are then those of the rules of the folds, and none of them is kept
    return [] if not figures.changed and figures.changed_by_folds else of_others(found)


def sentences(verdict: Verdict, limited: bool = False) -> list[str]:
    """Return sentences on the limits of a rule, if it has some, and on the rival that decides its verdict."""
    said = []
    if verdict.missed:
        said.append(f"The tuned rule misses {listed(verdict.missed)} on these rows.")
    elif limited:
        said.append("The tuned rule keeps its limits on these rows.")
    if verdict.unsure:
        said.append(
            f"New rows may show otherwise: the interval of the value contains the limit for {listed(verdict.unsure)}."
        )
    first = _first(verdict)
    advice = ["It is worth using."] if verdict.kind == "better" else []
    return said if first is None else [*said, beside(first, verdict), *advice]


def of_others(verdict: Verdict) -> list[str]:
    """Return a sentence on every rival that `sentences` leaves out."""
    first = _first(verdict)
    return [beside(one, verdict) for one in verdict.rivals if one is not first]


def _first(verdict: Verdict) -> Rival | None:
    """Return the rival that decides a verdict, else the simplest one."""
    return next((one for one in verdict.rivals if one.name == verdict.of), next(iter(verdict.rivals), None))


def beside(rival: Rival, verdict: Verdict) -> str:
    """Return how the tuned rule compares with one of its rivals, and whether to use that instead."""
    name = rival.name
    minus = rival.minus
    text = difference(negated(minus) if verdict.costs else minus, name)
    if rival.missed:
        return f"{name} misses {listed(rival.missed)}, so these values alone do not compare: {text}."
    why = "needs no tuning" if name in NO_TUNING or name.startswith("top-") else "is simpler"
    advice = f" Use {name}, which {why}." if name == verdict.instead else ""
    if rival.kind == "unknown" and not math.isfinite(minus.value):
        return f"The difference to {name} is not finite on these rows, so the two cannot be compared."
    if rival.kind == "unknown":
        return f"Without intervals, this page cannot say whether the difference to {name} is noise."
    if rival.kind == "same":
        return f"The tuned rule scores exactly as {name} does on these rows.{advice}"
    if rival.kind == "better":
        return f"The tuned rule is better than {name}: {text} is more than chance explains."
    if rival.kind == "worse":
        advice = f" Do not use the rule as it is.{advice}" if advice else ""
        return f"The tuned rule is WORSE than {name} on these rows: {text} is more than chance explains.{advice}"
    if rival.good:
        below = "below zero" if rival.good == "at least as good" else "too small to matter"
        return f"{name} is {rival.good}: {text} has an interval that contains zero, and its middle is {below}.{advice}"
    side = "looks better than" if minus.value > 0 else "looks worse than"
    how = f"{side} {name}" if abs(minus.value) > ROUNDING else f"scores as {name} does"
    if not holds_zero(minus):
        return (
            f"The tuned rule {how}. {capital(text)} has an unusable interval: many bootstrap replicates lack rare "
            f"classes, so the interval does not contain the value itself."
        )
    return (
        f"The tuned rule {how}, but the difference could be noise: {text} has an interval that contains zero. More "
        f"rows would show."
    )


def difference(minus: Difference, other: str) -> str:
    """Return the difference of the tuned rule and another one, with its interval, as the subject of a sentence."""
    span = interval(minus, sign=True)
    return f"the difference (tuned rule minus {other}) of {number(minus.value, sign=True)}{f' {span}' if span else ''}"


def price(figures: Figures) -> str:
    """Return which metrics got worse."""
    # the tuned metric is the first one, and what it costs is seen in the others
    others = figures.metrics[1:]
    if not figures.score.n_replicates or not figures.changed:
        return ""
    worse = sorted((row for row in others if row.verdict == "worse"), key=lambda row: row.difference.value)
    maybe = [row for row in others if row.verdict == "unclear" and row.difference.value < 0]
    if worse:
        ends = [[number(row.as_shown(one.value)) for one in (row.argmax, row.tuned)] for row in worse]
        changes = [f"{row.label} from {before} to {after}" for row, (before, after) in zip(worse, ends, strict=True)]
        shown = listed(changes[:MOST_PRICES], MOST_PRICES)
        more = len(worse) - MOST_PRICES
        rest = f"; {more} more under 'All metrics'" if more > 0 else ""
        text = f"Significantly lower: {shown}{rest}."
    else:
        text = "No other metric is significantly lower."
    if maybe:
        text += f" Slightly lower (within noise): {listed([row.label for row in maybe], MOST_PRICES)}."
    return text


# --- the rule --------------------------------------------------------------------------------------------------------


def how_it_decides(figures: Figures) -> list[str]:
    """Return how the rule decides, in a few sentences."""
    rule = figures.evidence.rule
    sentences = []
    if rule.is_randomized:
        what = "A threshold below is the probability from which the class is"
        if len(figures.classes) > 2:
            what = "A row counts below for the class that is"
        sentences.append(
            f"The rule decides at random: it draws one of {len(rule.weights)} rules for each row, the most "
            f"frequent one with a probability of {percent(float(rule.weights.max()))}. {what} decided at least half of "
            f"the time."
        )
    if rule.calibrator is not None:
        kept = kept_class(rule.calibrator)
        but = "" if kept is None else f", but not that of {figures.names[kept]}"
        # only the text of an object that is not confmax's may be of any length
        calibration = (
            str(rule.calibrator) if isinstance(rule.calibrator, Scaling) else printable(str(rule.calibrator), 80)
        )
        sentences.append(
            f"It calibrates the probabilities first{but} ({calibration}). Pass it the raw probabilities of your model."
        )
    if isinstance(rule.calibrator, MatrixScaling):
        sentences += moved_pairs(figures)
    sentences.append(f"It {how(rule)}.")
    sentences.append(f"It changes the decision for {percent(figures.changed)} of rows, compared with argmax.")
    K = len(figures.classes)
    after = figures.change.after
    for name, column in zip(figures.names[K:], after.T[K:], strict=True):
        share = percent(float(column.sum() / after.sum()))
        if rule.abstain is None:
            sentences.append(f"It decides {name}, which is not a class, for {share} of rows.")
        else:
            sentences.append(f"It leaves {share} of rows undecided: its decision is then {name}.")
    return sentences


def moved_pairs(figures: Figures) -> list[str]:
    """Return which class gains or loses where another one is the most probable, for the pairs that move most."""
    evidence = figures.evidence
    name = figures.names
    moved_most = moves(evidence.table.proba, evidence.proba, evidence.labels, evidence.weight)
    pairs = [
        f"where {name[given]} is the most probable class, the mean probability of {name[moved]} goes from "
        f"{percent(before)} to {percent(after)} ({name[moved]} is the true class of {percent(labelled)} of these rows)"
        for given, moved, before, after, labelled in moved_most
    ]
    return [f"The pairs of classes that this calibration moves most: {'; '.join(pairs)}."] if pairs else []


def class_sentences(figures: Figures) -> list[str]:
    """Return what the rule does for every class, of two classes for the positive one: the other one follows."""
    shown = range(len(figures.classes)) if figures.curve is None else [figures.positive]
    return [class_sentence(figures, k) for k in shown]


def class_sentence(figures: Figures, k: int) -> str:
    """Return what the rule does for class k."""
    if len(figures.classes) > 2:
        return _among_several(figures, k)
    row = figures.classes[k]
    name = row.name
    least = row.threshold
    assert least is not None
    # of two classes the other one follows, if no row is left undecided
    of_two = figures.evidence.decided.n_decisions == 2
    if row.between is not None:
        low, high = map(probability, row.between)
        text = f"{name} is decided when its probability lies between {low} and {high}"
        return f"{text}; above that, another decision has the larger expected gain."
    if least == 0 or not math.isfinite(least):
        return f"{name} is {'never' if least else 'always'} decided, whatever its probability."
    text = f"{name} is decided when its probability exceeds {probability(least)} (argmax: 0.500)"
    return text + (f", and {figures.classes[1 - k].name} otherwise." if of_two else ".")


def _among_several(figures: Figures, k: int) -> str:
    """Return what the rule does for class k of more than two: the rows that it gets, and how its probability counts."""
    row = figures.classes[k]
    calibrated = "calibrated " if is_calibrated(figures.evidence.rule, k) else ""
    share, inside, outside = row.rows
    sentences = []
    name = row.name
    if row.threshold is not None:
        when = f"when its {calibrated}probability is at least {probability(row.threshold)}"
        ends = {0.0: "in all rows", math.inf: "in no row"}
        sentences.append(f"{name} is decided {ends.get(row.threshold, when)}, whatever the others have.")
        name = "It"
    if inside is None:
        sentences.append(f"{name} is decided for none of these rows. Its probability is {span(outside)} in them.")
    elif outside is None:
        sentences.append(f"{name} is decided for all of these rows. Its probability is {span(inside)} in them.")
    else:
        sentences.append(
            f"{name} is decided for {percent(share)} of rows, where its probability is {span(inside)}; in the other "
            f"rows it is {span(outside)}."
        )
    if row.favour is not None:
        weight, offset = row.favour
        less = f", less {number(-offset)}" if offset else ""
        sentences.append(
            f"Its {calibrated}probability counts {'once' if weight == 1 else f'{weight:.3g} times'}{less}."
        )
    ratio = _ratio_to_largest(figures, k)
    return " ".join([*sentences, *([capital(ratio) + "."] if ratio else [])])


def span(ends: tuple[float, float] | None) -> str:
    """Return a range of probabilities."""
    return "–" if ends is None else f"{ends[0]:.3f} to {number(ends[1])}"


def _ratio_to_largest(figures: Figures, k: int) -> str:
    """Return the share of the most frequent class's probability that suffices, of rules that are weights alone."""
    rule = figures.evidence.rule
    # only weights alone compare two classes by the ratio of their probabilities, whatever the others have
    weights = None if rule.calibrator is not None else weights_alone(rule)
    largest = int(np.argmax([row.share for row in figures.classes]))
    if weights is None or not (weights > 0).all() or weights[k] == weights[largest]:
        return ""
    name = figures.classes[largest].name
    ratio = float(weights[largest] / weights[k])
    if ratio > 1:
        return f"against {name} alone, it needs {number(ratio)} times the probability of {name}"
    return f"against {name} alone, {number(ratio)} of the probability of {name} is enough"


def threshold_or_range(row: ClassRow) -> str:
    """Return from which probability a class is decided, or between which ones; of several classes, in these rows."""
    if row.between is not None:
        return f"{number(row.between[0])} to {number(row.between[1])}"
    return span(row.rows.inside) if row.threshold is None else threshold(row.threshold)


def fold_range(figures: Figures, row: ClassRow) -> str:
    """Return between what the threshold lies in the folds, or of several classes the share of rows."""
    if row.folds is None:
        return ""
    low, high = map(threshold if len(figures.classes) == 2 else percent, row.folds)
    return low if low == high else f"{low} to {high}"


def outside_folds(figures: Figures) -> str:
    """Return what the range of the folds' rules shows, and for which classes the tuned rule lies outside it."""
    ranges = [(row, row.folds) for row in figures.classes if row.folds is not None]
    out = [row.name for row, (low, high) in ranges if not low <= row.level <= high]
    what = "threshold" if len(figures.classes) == 2 else "share of rows"
    text = (
        "The folds' rules are of the same kind as the tuned rule (random or not, and calibrated in the same way). They "
        f"share most of their rows, so their range is narrower than the uncertainty of a {what}. They change the "
        f"decision for {percent(figures.changed_by_folds)} of rows, compared with argmax."
    )
    return text + (f" The tuned rule's {what} lies outside this range for {listed(out)}." if out else "")
