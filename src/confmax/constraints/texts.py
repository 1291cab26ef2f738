"""Numbers and metrics as constraints write them."""

from __future__ import annotations

from confmax.metrics import Metric

MOST_CHARACTERS = 500  # of one constraint, as texts come from files too


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
