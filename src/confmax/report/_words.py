"""What the figures mean, in sentences for someone who has never heard of Frank-Wolfe."""

from __future__ import annotations

import math

import numpy as np

from confmax._rule_text import coefficients, printable
from confmax.report._figures import ROUNDING, ClassRow, Figures, MetricRow, verdict_of
from confmax.report._format import (
    capital,
    count,
    interval,
    labels,
    listed,
    metric_name,
    number,
    percent,
    probability,
    rows,
)

MOST_PRICES = 4


def confidence(figures: Figures) -> str:
    """Return the level of the intervals."""
    return f"{100 * figures.score.level:.4g} %"


def basis(figures: Figures) -> str:
    """Return which rows the figures are from, as the end of a sentence."""
    evidence = figures.evidence
    n = rows(figures.score.n_rows)
    if evidence.fold is not None:
        folds = len(evidence.solutions)
        return (
            f"on {n}, cross-fitted in {folds} folds: every row is decided by a rule that was tuned without its fold "
            f"(the rule that is kept is tuned on all rows)"
        )
    if evidence.seen:
        return f"on the very {n} that the rule was tuned on"
    return f"on the {n} given, which must be rows that the rule was not tuned on"


def headline(figures: Figures) -> str:
    """Return the result in one sentence."""
    main, name = figures.main, capital(metric_name(figures.main.name))
    span = interval(main.tuned.low, main.tuned.high)
    tuned = f"{number(main.tuned.value)}{f' {span}' if span else ''}"
    verb = {"better": "rises", "worse": "falls"}.get(main.verdict, "goes")
    return (
        f"{name} {verb} from {number(main.argmax.value)} with argmax to {tuned} with the tuned rule, {basis(figures)}."
    )


def verdict(figures: Figures) -> tuple[str, str]:
    """Return one of "better", "worse", "unclear", and what to make of the difference to argmax in plain words."""
    main = figures.main
    minus, kind = main.difference, main.verdict
    span = interval(minus.low, minus.high, sign=True)
    paired = f"On the same rows the difference is {number(minus.value, sign=True)}{f' {span}' if span else ''}"
    if kind == "unknown":
        return "unclear", "Without intervals, or without a finite value, nothing can be said about chance."
    if kind == "same":
        return (
            "unclear",
            "The tuned rule scores exactly as argmax on these rows: tuning changed nothing that counts here.",
        )
    if kind == "better":
        return "better", f"The tuned rule is better than argmax. {paired}, more than chance explains."
    if kind == "worse":
        return "worse", (
            f"The tuned rule is WORSE than argmax on these rows. {paired}, more than chance explains. Do not use it as "
            f"it is."
        )
    side = "looks better than argmax" if minus.value > 0 else "looks worse than argmax"
    if abs(minus.value) <= ROUNDING:
        side = "scores as argmax does"
    if minus.low is not None and minus.high is not None and (minus.low > ROUNDING or minus.high < -ROUNDING):
        return "unclear", (
            f"The tuned rule {side}. {paired}; the interval says nothing here, as it leaves the value itself out: it "
            f"is of replicates that lack rare classes."
        )
    advice = "More rows would tell." if minus.value > 0 else "Nothing here speaks for using it."
    return "unclear", f"The tuned rule {side}, but chance could explain it. {paired}, and zero lies within. {advice}"


def against_prior(figures: Figures) -> str:
    """Return how the rule compares with dividing by the class sizes, which needs no tuning."""
    minus = figures.main.to_prior
    if minus.low is None or minus.high is None or not math.isfinite(minus.value):
        return ""
    told = f"{number(minus.value, sign=True)} {interval(minus.low, minus.high, sign=True)}"
    kind = verdict_of(minus)
    if kind == "better":
        also = "also " if figures.main.verdict == "better" else ""
        return f"It is {also}better than p/prior, which divides by class sizes and needs no tuning ({told})."
    if kind == "same":
        return "It scores exactly as p/prior, which only divides by class sizes and needs no tuning."
    if kind == "worse":
        return f"p/prior, which only divides by class sizes, does better than the tuned rule here (difference {told})."
    return f"Whether it beats p/prior, which only divides by class sizes, these rows cannot tell (difference {told})."


def price(figures: Figures) -> str:
    """Return which metrics got worse."""
    others = figures.metrics[1:]
    if not figures.score.n_replicates:
        return ""
    worse = sorted((row for row in others if row.verdict == "worse"), key=lambda row: row.difference.value)
    maybe = [row for row in others if row.verdict == "unclear" and row.difference.value < 0]
    if worse:
        shown = listed([_change(row) for row in worse[:MOST_PRICES]], MOST_PRICES)
        more = len(worse) - MOST_PRICES
        rest = f"; {more} more in the table below" if more > 0 else ""
        told = f"The price, beyond chance: {shown}{rest}."
    else:
        told = "No other metric in the table falls by more than chance explains."
    if maybe:
        told += f" Lower too, but within chance: {listed([metric_name(row.name) for row in maybe], MOST_PRICES)}."
    return told


def _change(row: MetricRow) -> str:
    return f"{metric_name(row.name)} from {number(row.argmax.value)} to {number(row.tuned.value)}"


# --- the rule --------------------------------------------------------------------------------------------------------


def how_it_decides(figures: Figures) -> list[str]:
    """Return how the rule decides, in a few sentences."""
    rule = figures.evidence.rule
    told = []
    if rule.is_randomized:
        told.append(
            f"The rule draws between {len(rule.weights)} rules, of which the most frequent has a share of "
            f"{percent(float(rule.weights.max()))}; what is said below is decided with a probability of at least 1/2."
        )
    if rule.calibrator is not None:
        told.append(
            f"It first corrects the probabilities ({printable(str(rule.calibrator), 80)}), then weighs them; pass it "
            f"raw probabilities."
        )
    if rule.gains.full is not None:
        told.append("It decides the largest of scores that mix the probabilities of all classes.")
    elif rule.gains.power:
        told.append("It decides by the expected distance of the true class from each class on their scale.")
    else:
        offsets = bool(coefficients(rule.gains)[1].any())
        told.append(
            "It multiplies each probability by a weight" + (", adds an offset" if offsets else "") + " and decides the "
            "largest result."
        )
    told.append(f"It decides {percent(figures.changed)} of the rows otherwise than argmax.")
    K, total = len(figures.classes), figures.after.sum()
    for name, column in zip(figures.names[K:], figures.after.T[K:], strict=True):
        told.append(f"Beside the classes it decides {name}, for {percent(float(column.sum() / total))} of the rows.")
    return told


def class_sentence(figures: Figures, k: int) -> str:
    """Return what the rule does for class k."""
    row = figures.classes[k]
    name = labels([each.name for each in figures.classes])[k]
    threshold = row.threshold
    of_two = len(figures.classes) == 2
    if row.between is not None:
        low, high = map(probability, row.between)
        told = f"{name} is decided when its probability lies between {low} and {high}"
        return f"{told}; when it is surer, another class gains more."
    if threshold == 0 or not math.isfinite(threshold):
        told = f"{name} is {'never decided' if threshold else 'always decided'}, whatever its probability"
        return f"{told}{'' if of_two else ', where the other classes share the rest as they do on average'}."
    told = f"{name} is decided when its probability exceeds {probability(threshold)}"
    if of_two:
        return f"{told} (argmax: 0.500)."
    if row.threshold_plain > 0 and math.isfinite(row.threshold_plain):
        told += f" (argmax: {probability(row.threshold_plain)})"
    ratio = _ratio_to_largest(figures, k)
    return told + (f"; {ratio}." if ratio else ".")


def _ratio_to_largest(figures: Figures, k: int) -> str:
    """Return the share of the most frequent class's probability that suffices, of rules that are weights alone."""
    rule = figures.evidence.rule
    if rule.is_randomized or rule.calibrator is not None or rule.gains.full is not None or rule.gains.power:
        return ""
    a, b = coefficients(rule.gains)
    largest = int(np.argmax([row.share for row in figures.classes]))
    if b.any() or not (a > 0).all() or a[0, k] == a[0, largest]:
        return ""
    name = labels([row.name for row in figures.classes])[largest]
    ratio = float(a[0, largest] / a[0, k])
    if ratio > 1:
        return f"against {name} alone, it takes {number(ratio)} times the probability of {name}"
    return f"against {name} alone, {number(ratio)} of the probability of {name} is enough"


def fold_range(row: ClassRow) -> str:
    """Return between what the threshold lies in the folds."""
    if row.folds is None:
        return ""
    low, high = map(threshold_text, row.folds)
    return low if low == high else f"{low} to {high}"


def threshold_text(value: float) -> str:
    """Return the probability from which a class is decided; it may be never, or always."""
    return "never" if not math.isfinite(value) else "always" if value == 0 else probability(value)


# --- trust -----------------------------------------------------------------------------------------------------------


def certificate(figures: Figures) -> str:
    """Return what is proved of the rule, or why nothing is."""
    solution, metric = figures.evidence.solution, figures.evidence.metric
    name = metric_name(repr(metric if solution is None else solution.metric))  # it may be judged by another one
    if solution is None:
        return (
            "A saved rule holds no proof: how far it is from the best one was known when it was tuned. The figures "
            "above are the evidence here."
        )
    if solution.gap is not None and solution.upper_bound is not None:
        return (
            f"Proved: if the probabilities are right, no rule reaches more than {number(solution.upper_bound)} in "
            f"expected {name} on the tuning rows; this one has {number(solution.value)}, so at most "
            f"{number(solution.gap)} is missing."
        )
    if solution.mode == "model":
        return (
            f"Nothing is proved about how much better another rule could be: for {name} no bound is known, so the "
            f"search tries several starts and keeps the best."
        )
    source = "labels" if solution.mode == "labels" else "labels and probabilities together"
    evidence = "; here the evidence is what the rule does on rows that it was not tuned on"
    return (
        f"Nothing is proved about how much better another rule could be: the rule was tuned on {source}, and labels "
        f"are only a sample. Most metrics have a proof under confusion='model', which trusts the probabilities alone"
        f"{'' if figures.evidence.seen else evidence}."
    )


def calibrated(figures: Figures) -> str:
    """Return whether the probabilities mean what they say."""
    raw, used = figures.raw, figures.calibrated
    told = (
        f"On average the stated probability of the most probable class is off by {number(raw.ece)} (expected "
        f"calibration error in {len(raw.said)} bins; with this many rows {number(raw.ece_by_chance)} would be chance)."
    )
    if used is raw:
        return told + " The rule uses the probabilities as they are."
    return told + (
        f" The rule corrects them first: then it is {number(used.ece)}, and the log loss goes from "
        f"{number(raw.log_loss)} to {number(used.log_loss)}."
    )


def intervals(figures: Figures) -> str:
    """Return what the brackets are."""
    score = figures.score
    if not score.n_replicates:
        return "No intervals were asked for."
    folds = figures.evidence.fold is not None
    return (
        f"Brackets are {confidence(figures)} percentile intervals of {score.n_replicates:,} bootstrap replicates: rows "
        f"are drawn again with replacement, the same for all rules, with class sizes as they fall. They cover the "
        f"chance of which rows were at hand, with the rules as they are; "
        + ("the chance of tuning is in the spread between folds. " if folds else "not the chance of tuning. ")
        + "p/prior takes the class sizes from these same rows."
    )


def weight_note(figures: Figures) -> str:
    """Return the number of rows and the weight."""
    evidence = figures.evidence
    if evidence.table.weight is None:
        return rows(figures.score.n_rows)
    return f"{rows(figures.score.n_rows)} of a total weight of {count(float(evidence.weight.sum()))}"
