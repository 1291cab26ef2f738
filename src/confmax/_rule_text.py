"""A rule as text that a person can read."""

from __future__ import annotations

from typing import Any

import numpy as np

from confmax._calibrators import Temperature, VectorScaling
from confmax._threshold import cuts
from confmax.confusion import Array, Gains

BEYOND = 2.0**60  # times the weight of the others: they break ties and change nothing else
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
    """Return a rule that is a threshold as a sentence, None for rules that need more.

    Rules of two classes have one on the raw probability of the second class, or two where they draw between two. Rules
    for a metric of one class have one on the probability of this class.
    """
    if len(rule.weights) > 2:
        return None
    if rule.n_classes > 2:
        return _one_against_others(rule)
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


def _one_against_others(rule: Any) -> str | None:
    """Return the sentence for a rule that decides one class by its probability alone, else the most probable one."""
    if rule.gains.full is not None or rule.gains.power or rule.is_randomized:
        return None
    a, b = (part[0] for part in rule.gains.coefficients())
    k = int(np.argmax(a))
    others = np.arange(len(a)) != k
    rest, shift = a[others], b[others]
    if rest[0] <= 0 or (rest != rest[0]).any() or (shift != shift[0]).any() or a[k] < rest[0] * BEYOND:
        return None
    name, cut = printable(str(rule.class_names[k])), float(shift[0] - b[k]) / float(a[k])
    if cut <= UNSEEN:
        return f"always decides {name}"
    p = "p" if rule.calibrator is None else "calibrated p"
    return f"decides {name} if {p}({name}) >= {probability(cut)}, else the most probable other class"


def probability(p: float) -> str:
    """Return a probability with four digits, and with more where those would say 0 or 1."""
    shown = [f"{p:.{digits}g}" for digits in range(4, 18)]
    return next((text for text in shown if float(text) not in (0.0, 1.0)), shown[0])


def coefficients(gains: Gains) -> tuple[Array, Array]:
    """Return weights and offsets (A, K) of reduced gains, the least weight of each one, the largest offset zero."""
    a, b = gains.coefficients()
    # the decision is unchanged by a common factor and a common offset
    scale = np.array([float(row[row != 0].min()) if (row != 0).any() else 1.0 for row in np.abs(a)])
    return a / scale[:, None], (b - b.max(axis=1, keepdims=True)) / scale[:, None]


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
