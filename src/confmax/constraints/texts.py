"""Numbers, signs and metrics as constraints write them."""

from __future__ import annotations

import re

from confmax.metrics import Metric
from confmax.metrics.rates import SumOfRates, sum_text

NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
SIGNS = "<>=!≤≥"
MOST_CHARACTERS = 500  # of one constraint, as texts come from files too

_UNSIGNED = NUMBER.removeprefix("[+-]?")
# a sign behind a class and before another quantity, which may have a weight
_SUM = re.compile(rf"(?<=\])\s*([+-])\s*(?=(?:{_UNSIGNED}\s*\*?\s*)?[^\W\d]\w*\s*\[)")
_TERM = re.compile(rf"\s*([+-]?)\s*(?:({_UNSIGNED})\s*\*?\s*)?rate\s*\[(.*)\]\s*", re.DOTALL)
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


def summands(text: str) -> list[str]:
    """Return the parts of a sum of quantities with brackets, all but the first one with their signs.

    >>> summands("rate[VF] + 2 rate[F]")
    ['rate[VF]', '+2 rate[F]']
    """
    first, *more = _SUM.split(text)
    return [first, *(sign + part for sign, part in zip(more[::2], more[1::2], strict=True))]


def read_rates(text: str) -> list[tuple[float, str]] | None:
    """Return weights and classes of a sum of rates; None for other texts, and for a single rate.

    >>> read_rates("rate[VF] - 2 * rate[F]")
    [(1.0, 'VF'), (-2.0, 'F')]
    """
    found = [_TERM.fullmatch(part) for part in summands(text)]
    terms = []
    for term in found:
        if term is None:
            return None
        sign, weight, label = term.groups()
        terms.append((float(f"{sign}{weight or 1}"), label.strip()))
    return None if len(terms) == 1 and terms[0][0] == 1.0 else terms


def number_text(value: float) -> str:
    """Return a number as short as it reads back the same."""
    return repr(as_float(value)).removesuffix(".0")


def as_float(value: float) -> float:
    """Return a number as a float; a whole one that is too large is infinite."""
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def metric_text(metric: Metric, group: str | None = None) -> str:
    """Return a metric, or that of a ``group``, as constraints write it: ``recall[VF]``, ``f_beta[VF](beta=2)``."""
    if isinstance(metric.formula, SumOfRates):
        return metric.name if group is None else sum_text(metric.formula.terms, group)
    label = metric.label
    if group is not None:
        label = f"| {group}" if label is None else f"{label} | {group}"
    label = "" if label is None else f"[{label}]"
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
