"""Numbers and names as people read them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal

from confmax.evaluate.scores import Difference, Estimate

MINUS = "−"


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


def threshold(value: float) -> str:
    """Return the probability from which a class is decided; it may be never, or always."""
    return "never" if not math.isfinite(value) else "always" if value == 0 else probability(value)


def interval(it: Estimate | Difference, sign: bool = False) -> str:
    """Return the interval of an estimate or a difference in brackets, nothing where there is none."""
    return "" if it.low is None or it.high is None else f"[{number(it.low, sign)}, {number(it.high, sign)}]"


def percent(share: float) -> str:
    """Return a share as a percentage with one decimal, or what it is below or above."""
    if 0 < share < 5e-4:
        return "under 0.1 %"
    if 1 - 5e-4 < share < 1:
        return "over 99.9 %"
    return f"{100 * share:.1f} %"


def count(n: float, sign: bool = False) -> str:
    """Return a number of rows, or of their weight, with thousands apart."""
    whole = float(round(float(n), 6))  # sums of weights are not exact
    before = "" if not sign or whole == 0 else "+" if whole > 0 else MINUS
    size = abs(whole)
    return before + (f"{size:,.0f}" if size.is_integer() else f"{size:,.2f}")


def rows(n: int) -> str:
    """Return "1 row", "2,000 rows"."""
    return f"{n:,} row{'' if n == 1 else 's'}"


def listed(names: Sequence[str], most: int = 8) -> str:
    """Return names in a sentence, the later ones left out."""
    shown = list(names[:most])
    if len(names) > most:
        return ", ".join(shown) + f" and {len(names) - most} more"
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + f" and {shown[-1]}"
