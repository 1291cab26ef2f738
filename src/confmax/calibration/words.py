"""A rule as text that a person can read."""

from __future__ import annotations

from typing import Any

import numpy as np

from confmax.calibration import Temperature, VectorScaling
from confmax.calibration.thresholds import class_cut, cuts
from confmax.confusion import Array, Gains

UNSEEN = 2.0**-60


def printable(text: str, most: int = 40) -> str:
    """Return a name of a file from anywhere as one short line without control characters."""
    shown = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text[: most + 1])
    return shown if len(text) <= most else shown[:most] + "..."


def headline(rule: Any) -> list[str]:
    """Return what a rule is, in one line, and how it decides, in one or two."""
    kind = f"draws between {len(rule.weights)} rules" if rule.is_randomized else "deterministic"
    tuned = f" for {printable(rule.metric)}" if rule.metric else ""
    lines = [f"DecisionRule{tuned}: {rule.n_classes} classes, {kind}"]
    if rule.calibrator is not None:
        own = isinstance(rule.calibrator, (Temperature, VectorScaling))
        lines.append(f"  calibrates p first: {rule.calibrator if own else printable(type(rule.calibrator).__name__)}")
    sentence = in_words(rule)
    if sentence is not None:
        return [*lines, f"  {sentence}"]
    if rule.gains.full is not None:
        shape = f"({rule.n_classes}, {rule.n_decisions})"
        return [*lines, f"  decides the largest of {rule.n_decisions} scores p @ G, G {shape}"]
    offsets = bool(coefficients(rule.gains)[1].any())
    feature = ("p", "mean distance to the class", "mean squared distance to the class")[rule.gains.power]
    return [*lines, f"  decides the largest of  weight * {feature}" + (" + offset" if offsets else "")]


def in_words(rule: Any) -> str | None:
    """Return how a rule decides as a sentence, where one says all of it, and None for rules that need more.

    Rules of two classes have one on the raw probability of the second class, or two where they draw between two. Rules
    for a metric of one class have one on the probability of this class. With more classes, equal weights are argmax.
    """
    if len(rule.weights) > 2:
        return None
    if rule.n_classes > 2:
        return _like_argmax(rule) or _one_against_others(rule)
    found = cuts(rule.gains, rule.calibrator)
    if None in found:
        return None
    no, yes = (printable(str(name)) for name in rule.class_names)
    order = np.argsort(np.array(found, dtype=np.float64), kind="stable")
    low, high, share = found[order[0]], found[order[-1]], f"{rule.weights[order[0]]:.4g}"
    assert low is not None and high is not None
    if low == high and low in (0.0, np.inf):
        return f"always decides {no if low else yes}"
    if low == 0.0 and high == np.inf:
        return f"decides {yes} with probability {share}, whatever its p"
    if low == high:
        told = f"decides {yes} if p({yes}) >= {probability(low)}, else {no}"
    elif low == 0.0:
        told = f"decides {yes} if p({yes}) >= {probability(high)}, below that {yes} with probability {share}"
    elif high == np.inf:
        told = f"decides {no} if p({yes}) < {probability(low)}, from there {yes} with probability {share}"
    else:
        told = (
            f"decides {yes} if p({yes}) >= {probability(high)}, {no} if p({yes}) < {probability(low)}, and between "
            f"them {yes} with probability {share}"
        )
    return told if rule.calibrator is None else f"{told}; this is p before calibration"


def _like_argmax(rule: Any) -> str | None:
    """Return the sentence for a rule whose weights and offsets are the same for all classes."""
    if rule.is_randomized or rule.gains.full is not None or rule.gains.power:
        return None
    a, b = rule.gains.coefficients()
    if not a[0, 0] > 0 or (a != a[0, 0]).any() or (b != b[0, 0]).any():
        return None
    return "decides like argmax" + ("" if rule.calibrator is None else " of the calibrated probabilities")


def one_class(rule: Any) -> tuple[int, float] | None:
    """Return the class that a rule decides by its probability alone, and its cut after calibration, None for others."""
    return None if rule.is_randomized else class_cut(rule.gains)


def _one_against_others(rule: Any) -> str | None:
    """Return the sentence for a rule that decides one class by its probability alone, else the most probable one."""
    one = one_class(rule)
    if one is None:
        return None
    k, cut = one
    name = printable(str(rule.class_names[k]))
    if cut <= UNSEEN:
        return f"always decides {name}"
    if cut > 1.0:
        return f"always decides the most probable class other than {name}"
    p = "p" if rule.calibrator is None else "calibrated p"
    return f"decides {name} if {p}({name}) >= {probability(cut)}, else the most probable other class"


def plain_words(rule: Any) -> str | None:
    """Return when argmax decides the class that the rule's sentence names, None where there is no such sentence."""
    if in_words(rule) is None:
        return None
    if rule.n_classes == 2:
        yes = printable(str(rule.class_names[1]))
        return f"argmax: {yes} if p({yes}) >= 0.5"
    one = one_class(rule)
    if one is None:
        return None
    # a temperature keeps the order of the classes, other calibrations may change it
    raw = "" if rule.calibrator is None or isinstance(rule.calibrator, Temperature) else " before calibration"
    return f"argmax: {printable(str(rule.class_names[one[0]]))} if it is the most probable class{raw}"


def probability(p: float) -> str:
    """Return a probability with four digits, and with more where those would say 0 or 1."""
    shown = [f"{p:.{digits}g}" for digits in range(4, 18)]
    return next((text for text in shown if float(text) not in (0.0, 1.0)), shown[0])


def coefficients(gains: Gains) -> tuple[Array, Array]:
    """Return weights and offsets (A, K) of reduced gains, the least weight of each one, the largest offset zero.

    Of gains that decide one class by its probability alone, the weight of this class is one.
    """
    a, b = gains.coefficients()
    # the decision is unchanged by a common factor and a common offset
    scale = np.array([_scale(gains[s]) for s in range(len(gains))])
    return a / scale[:, None], (b - b.max(axis=1, keepdims=True)) / scale[:, None]


def _scale(gain: Gains) -> float:
    """Return what the weights and offsets of a gain are divided by to be shown."""
    a, b = (part[0] for part in gain.coefficients())
    one = class_cut(gain)
    if one is not None:
        return float(a[one[0]] or np.ptp(b))
    return float(np.abs(a[a != 0]).min()) if a.any() else 1.0


def describe(rule: Any, most: int = 12) -> str:
    """Return a rule in words, or a table of its weights and offsets, that a person can read."""
    lines = headline(rule)
    if not has_table(rule):
        return "\n".join(lines)
    a, b = coefficients(rule.gains)
    offsets = bool(b.any())
    shown = min(len(rule.weights), 4)
    names = [printable(str(name)) for name in rule.class_names[:most]]
    width = max(8, *map(len, names)) + 2
    columns = []
    for s in range(shown):
        columns.append(_column("weight", a[s, : len(names)], 12))
        if offsets:
            columns.append(_column("offset", b[s, : len(names)], 10))
    if rule.is_randomized:
        per_rule = 2 if offsets else 1
        spans = [sum(len(column[0]) for column in columns[k : k + per_rule]) for k in range(0, len(columns), per_rule)]
        shares = [f"{share:.1%}" for share in rule.weights[:shown]]
        lines.append(" " * width + "".join(f"{text:>{span}}" for text, span in zip(shares, spans, strict=True)))
    for name, *cells in zip(["class", *names], *columns, strict=True):
        lines.append(f"  {name:<{width - 2}}" + "".join(cells))
    if rule.n_classes > most:
        lines.append(f"  ... {rule.n_classes - most} more classes")
    if len(rule.weights) > shown:
        lines.append(f"  ... {len(rule.weights) - shown} more rules in the mixture")
    return "\n".join(lines)


def has_table(rule: Any) -> bool:
    """Whether a table of weights and offsets says more of a rule than its headline."""
    return rule.gains.full is None and in_words(rule) is None


def _column(head: str, values: Array, least: int) -> list[str]:
    """Return a column of numbers under its head, right-aligned, at least two spaces from what is left of it."""
    cells = [head, *(f"{value:.4g}" for value in values)]
    width = max(least, *(len(cell) + 2 for cell in cells))
    return [f"{cell:>{width}}" for cell in cells]
