"""Numbers, signs and metrics as constraints write them."""

from __future__ import annotations

import re

from confmax.metrics import Metric

NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
SIGNS = "<>=!≤≥"
MOST_CHARACTERS = 500  # of one constraint, as texts come from files too

_LIMIT = re.compile(rf"({NUMBER})\s*(%?)")


def plain_sign(sense: str) -> str:
    """Return a sign in the characters of a keyboard."""
    return sense.replace("≥", ">=").replace("≤", "<=")


def read_number(text: str) -> float | None:
    """Return the number that a text is, a hundredth of it with a percent sign; None for other texts."""
    found = _LIMIT.fullmatch(text.strip())
    if found is None or (found[2] and "e" in found[1].lower()):
        return None
    # 7 % and 0.07 are the same number, which a division need not give
    return float(f"{found[1]}e-2" if found[2] else found[1])


def number_text(value: float) -> str:
    """Return a number as short as it reads back the same."""
    return repr(as_float(value)).removesuffix(".0")


def as_float(value: float) -> float:
    """Return a number as a float; a whole one that is too large is infinite."""
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def metric_text(metric: Metric) -> str:
    """Return a metric as constraints write it: ``recall[VF]``, ``f_beta[VF](beta=2)``."""
    label = "" if metric.label is None else f"[{metric.label}]"
    # where the table has its classes is no part of the text
    shown = [
        f"{key}={number_text(value) if isinstance(value, float) else value}"
        for key, value in metric.params
        if key not in metric.fixed and value not in (0.0, "relative")
    ]
    return f"{metric.name}{label}" + (f"({', '.join(shown)})" if shown else "")


def too_long(text: str) -> str:
    """Return the sentence for a constraint of too many characters."""
    return f"a constraint has at most {MOST_CHARACTERS} characters; {text[:40]!r}... has {len(text)}"
