"""A rule as text that a person can read."""

from __future__ import annotations

from typing import Any

import numpy as np

from confmax._calibrators import Temperature, VectorScaling
from confmax.confusion import Array, Gains


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
    if rule.gains.full is not None:
        shape = f"({rule.n_classes}, {rule.n_decisions})"
        return [*lines, f"  decides the largest of {rule.n_decisions} scores p @ G, G {shape}"]
    offsets = bool(coefficients(rule.gains)[1].any())
    feature = ("p", "mean distance to the class", "mean squared distance to the class")[rule.gains.power]
    return [*lines, f"  decides the largest of  weight * {feature}" + (" + offset" if offsets else "")]


def coefficients(gains: Gains) -> tuple[Array, Array]:
    """Return weights and offsets (A, K) of reduced gains, the least weight of each one, the largest offset zero."""
    a, b = gains.coefficients()
    # the decision is unchanged by a common factor and a common offset
    scale = np.array([float(row[row != 0].min()) if (row != 0).any() else 1.0 for row in np.abs(a)])
    return a / scale[:, None], (b - b.max(axis=1, keepdims=True)) / scale[:, None]


def describe(rule: Any, most: int = 12) -> str:
    """Return a table of a rule's weights and offsets that a person can read."""
    lines = headline(rule)
    if rule.gains.full is not None:
        return "\n".join(lines)
    a, b = coefficients(rule.gains)
    offsets = bool(b.any())
    shown = min(len(rule.weights), 4)
    names = [printable(str(name)) for name in rule.class_names[:most]]
    width = max(8, *map(len, names)) + 2
    if rule.is_randomized:
        lines.append(" " * width + "".join(f"{f'{w:.1%}':>{22 if offsets else 12}}" for w in rule.weights[:shown]))
    header = f"{'weight':>12}" + (f"{'offset':>10}" if offsets else "")
    lines.append(f"  {'class':<{width - 2}}" + header * shown)
    for k, name in enumerate(names):
        cells = "".join(f"{a[s, k]:>12.4g}" + (f"{b[s, k]:>10.4g}" if offsets else "") for s in range(shown))
        lines.append(f"  {name:<{width - 2}}{cells}")
    if rule.n_classes > most:
        lines.append(f"  ... {rule.n_classes - most} more classes")
    if len(rule.weights) > shown:
        lines.append(f"  ... {len(rule.weights) - shown} more rules in the mixture")
    return "\n".join(lines)
