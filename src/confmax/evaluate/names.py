"""Names of metrics and classes as people read them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from confmax.calibration.words import printable
from confmax.metrics.catalogue import title_of


def metric_name(name: str) -> str:
    """Return a metric's name as it is written in prose, its parameters behind it."""
    head, sign, inside = name.partition("(")
    # column numbers mean nothing to a reader who knows the classes by name
    inside = re.sub(r"classes=\(([^)]*)\)", lambda match: f"{len(match[1].split(', '))} classes", inside)
    return f"{title_of(head) or printable(head)}{' (' + printable(inside) if sign else ''}"


def labels(names: Sequence[str], most: int = 40) -> list[str]:
    """Return class names on one line each, without control characters, still different from each other."""
    # two names may differ only beyond what is shown: their places tell them apart
    shown = [printable(name, most) or "(empty)" for name in names]
    often = Counter(shown)
    return [name if often[name] == 1 else f"{name} #{k}" for k, name in enumerate(shown)]
