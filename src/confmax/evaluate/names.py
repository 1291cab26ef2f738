"""Names of metrics and classes as people read them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from confmax.calibration.words import printable

_NAMES = {
    "accuracy": "accuracy", "balanced_accuracy": "balanced accuracy", "informedness": "informedness", "f1": "F1",
    "f_beta": "F-beta", "jaccard": "Jaccard", "ams": "AMS", "fowlkes_mallows": "Fowlkes-Mallows",
    "micro_f1": "micro F1", "micro_f1_once": "micro F1 (once)", "macro_f1": "macro F1",
    "macro_f_beta": "macro F-beta", "weighted_f1": "weighted F1", "macro_jaccard": "macro Jaccard",
    "macro_precision": "macro precision", "h_mean": "H-mean", "q_mean": "Q-mean", "g_mean": "G-mean",
    "min_recall": "smallest recall", "cohen_kappa": "Cohen's kappa", "linear_kappa": "linear kappa",
    "quadratic_kappa": "quadratic kappa", "mcc": "MCC", "linear": "mean gain",
}  # fmt: skip


def metric_name(name: str) -> str:
    """Return a metric's name as it is written in prose, its parameters behind it."""
    head, sign, inside = name.partition("(")
    # column numbers mean nothing to a reader who knows the classes by name
    inside = re.sub(r"classes=\(([^)]*)\)", lambda match: f"{len(match[1].split(', '))} classes", inside)
    return f"{_NAMES.get(head, printable(head))}{' (' + printable(inside) if sign else ''}"


def labels(names: Sequence[str], most: int = 40) -> list[str]:
    """Return class names on one line each, without control characters, still different from each other."""
    shown = [printable(name, most) or "(empty)" for name in names]
    often = Counter(shown)
    return [name if often[name] == 1 else f"{name} #{k}" for k, name in enumerate(shown)]
