"""Numbers and names as people read them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal

from confmax.rule.words import printable

MINUS = "−"

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
    # which columns, in which order, says nothing to those who know names
    inside = re.sub(r"classes=\(([^)]*)\)", lambda found: f"{len(found[1].split(', '))} classes", inside)
    return f"{_NAMES.get(head, printable(head))}{' (' + printable(inside) if sign else ''}"


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
        # one digit that is not zero; what is smaller still is rounding
        digits = f"{size:.4f}" if size >= 5e-5 else f"{Decimal(f'{size:.0e}'):f}" if size >= 1e-9 else "0.000"
    before = MINUS if value < 0 and float(digits) != 0 else ("+" if sign and float(digits) != 0 else "")
    return before + digits


def probability(value: float) -> str:
    """Return a probability with three decimals, more where these would be zero or one."""
    rest = 1.0 - value
    return f"{1 - Decimal(f'{rest:.0e}'):f}" if 1e-9 <= rest < 5e-4 else number(value)


def interval(low: float | None, high: float | None, sign: bool = False) -> str:
    """Return an interval in brackets, nothing where there is none."""
    return "" if low is None or high is None else f"[{number(low, sign)}, {number(high, sign)}]"


def percent(share: float) -> str:
    """Return a share as a percentage with one decimal, or what it is below or above."""
    if 0 < share < 5e-4:
        return "under 0.1 %"
    if 1 - 5e-4 < share < 1:
        return "over 99.9 %"
    return f"{100 * share:.1f} %"


def count(n: float) -> str:
    """Return a number of rows, or of their weight, with thousands apart."""
    return f"{n:,.0f}" if float(n).is_integer() else f"{n:,.2f}"


def rows(n: int) -> str:
    """Return "1 row", "2,000 rows"."""
    return f"{n:,} row{'' if n == 1 else 's'}"


def listed(names: Sequence[str], most: int = 8) -> str:
    """Return names in a sentence, the later ones left out."""
    shown = list(names[:most])
    if len(names) > most:
        return ", ".join(shown) + f" and {len(names) - most} more"
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + f" and {shown[-1]}"


def labels(names: Sequence[str], most: int = 40) -> list[str]:
    """Return class names on one line each, without control characters, still different from each other."""
    shown = [printable(name, most) or "(empty)" for name in names]
    often = Counter(shown)
    return [name if often[name] == 1 else f"{name} #{k}" for k, name in enumerate(shown)]
