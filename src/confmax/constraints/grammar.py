"""Constraints as text: ``NAME[CLASS](beta=2) >= NUMBER``, read by patterns and never evaluated.

The class is all between the first ``[`` and the last ``]``, so its name may hold brackets and signs. The number may
stand on the left, and may be in percent: ``5 %`` is 0.05.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any

from confmax.constraints.across import ALL_ROWS, Across, Difference, EveryGroup, Ratio, Stated
from confmax.constraints.quantities import quantity
from confmax.constraints.texts import (
    MOST_CHARACTERS,
    NUMBER,
    SIGNS,
    number_text,
    plain_sign,
    read_number,
    read_rates,
    too_long,
)
from confmax.constraints.two_groups import TwoGroups
from confmax.constraints.words import Constraint, Quantity, of_a_number, refused_sense
from confmax.metrics.rates import sum_of_rates

# the kinds of limits on groups: a new kind is added here, and to nothing else that exists
KINDS: tuple[type[Across], ...] = (TwoGroups, EveryGroup, Difference, Ratio)
MOST_CONSTRAINTS = 1000  # each is a row of every master problem

_ON_THE_RIGHT = re.compile(rf"([{SIGNS}]+)([^{SIGNS}]*)$")
_ON_THE_LEFT = re.compile(rf"({NUMBER}\s*%?)\s*([{SIGNS}]+)(.*)", re.DOTALL)
_QUANTITY = re.compile(r"([^\[\]()|]+?)\s*(?:\[(.*)\])?\s*(?:\(([^()\[\]]*)\))?", re.DOTALL)
_OF_GROUPS = re.compile(r"(\w+)\s*\((.*)\|([^|\]]*)\)", re.DOTALL)
_BAR = re.compile(r"[^|]*\]\s*\|[^\]]*", re.DOTALL)
# words for a number of rows, which no limit is on
_COUNTS = (
    *("count", "counts", "n", "number", "rows", "n_rows", "cases", "alerts", "capacity", "volume", "budget", "top"),
    "at_most",
)
_MIRRORED = {">=": "<=", "<=": ">=", ">": "<", "<": ">", "=>": "=<", "=<": "=>"}
_FORM = "write NAME >= NUMBER or NAME <= NUMBER, such as recall[yes] >= 0.8"


def parse(text: str) -> Constraint:
    """Return the constraint that a text states.

    ``min(NAME | group) >= NUMBER``, ``max(NAME | group) <= NUMBER``, ``difference(NAME | group) <= NUMBER`` and
    ``ratio(NAME | group) >= NUMBER`` limit the values of groups, and ``NAME[CLASS | A] >= NAME[CLASS | B] - NUMBER``
    compares the groups A and B.

    Parameters
    ----------
    text : str
        ``NAME >= NUMBER`` or ``NAME <= NUMBER``, at most 500 characters. NAME is a metric whose structure is linear or
        a ratio, or ``rate``, ``fpr`` or ``min_recall``. The class stands in brackets (``recall[VF]``), parameters
        behind them (``f_beta[VF](beta=2)``). Brackets and signs in the name of a class are kept: it ends at the last
        bracket. The number may stand on the left. A percent sign divides it by 100. Rates may be added, with weights
        (``2 rate[VF] + rate[F]``), and ``rate[not VF]`` is that of all other classes.

    Raises
    ------
    ValueError
        If the text is no such constraint, or the metric cannot be limited so.

    Examples
    --------
    >>> from confmax import constraints as c
    >>> c.parse("recall[VF]>=80 %")
    Constraint('recall[VF] >= 0.8')
    """
    if not isinstance(text, str):
        raise ValueError(f"a constraint is a text or an object of confmax.constraints; got {type(text).__name__}")
    if len(text) > MOST_CHARACTERS:
        raise ValueError(too_long(text))
    try:
        return _parsed(text)
    except ValueError as error:
        if len(str(error).splitlines()) == 1:
            raise
        # the text of a stranger's file may hold line breaks, and a sentence stands on one line
        raise ValueError(" ".join(str(error).split())) from None


@lru_cache(maxsize=2 * MOST_CONSTRAINTS)
def _parsed(text: str) -> Constraint:
    """Return what `parse` returns; every rule that is made reads the texts of its constraints again."""
    stated = next((stated for kind in KINDS if (stated := kind.read(text)) is not None), None)
    words, sense, limit, across = stated or _quantity_and_number(text)
    rates = read_rates(words)
    if rates is not None:
        return Constraint(sum_of_rates(rates), sense, limit, across)  # type: ignore[arg-type]
    found = _QUANTITY.fullmatch(words)
    if found is None:
        form = "a limit for every group is written min(recall[yes] | group) >= NUMBER" if "| group" in words else _FORM
        raise ValueError(f"{text!r}: {words!r} is no quantity; {form}")
    name, label, params = found.groups()
    # tables have no place in a text
    tables = {"cost": "cost(table)", "linear": "quantity('linear', gain=table)"}
    if name in tables:
        call = f"confmax.constraints.{tables[name]} {sense} {number_text(limit)}"
        raise ValueError(f"{text!r}: {name} needs its table; pass {call}")
    if name.lower() in _COUNTS:
        raise ValueError(f"{text!r}: a limit is on a share of rows; {of_a_number(label, limit)}")
    metric = quantity(name, label, **_parameters(text, params)).metric
    return Constraint(metric, sense, limit, across)  # type: ignore[arg-type]


def _quantity_and_number(text: str) -> Stated:
    """Return what a text states that compares one quantity, on all rows or in groups, with a number."""
    words, sense, limit = _split(text)
    if sense not in (">=", "<="):
        raise ValueError(refused_sense(words, sense, limit))
    across, words = _across_groups(text, words, sense)
    return Stated(words, sense, limit, across)


def _across_groups(text: str, words: str, sense: str) -> tuple[Across, str]:
    """Return what of the groups is limited, or the value on all rows, and the words of the metric."""
    found = _OF_GROUPS.fullmatch(words)
    if found is None:
        if _BAR.fullmatch(words):
            raise ValueError(f"{text!r}: a limit for every group is written min(recall[yes] | group) {sense} NUMBER")
        return ALL_ROWS, words
    word, inner, by = (part.strip() for part in found.groups())
    kind = next((kind for kind in KINDS if word in kind.words), None)
    if kind is None or by != "group":
        raise ValueError(
            f"{text!r}: limits of groups are min(... | group) >=, max(... | group) <=, difference(... | group) <= and "
            f"ratio(... | group) >=, such as min(recall[yes] | group) >= 0.7; the group of each row is passed as group="
        )
    if kind.words[word] not in ("", sense):
        raise ValueError(
            f"{text!r}: the smallest of the groups has a floor and the largest a ceiling; write "
            f"min({inner} | group) >= NUMBER or max({inner} | group) <= NUMBER"
        )
    return kind(), inner


def _split(text: str) -> tuple[str, str, float]:
    """Return quantity, sign and limit, with the limit on the right."""
    stripped = text.strip()
    # the sign is the last one before a number: those in the name of a class stand before a bracket
    right = _ON_THE_RIGHT.search(stripped)
    left = _ON_THE_LEFT.fullmatch(stripped)
    limit = None if right is None else read_number(right[2])
    if right is not None and limit is not None:
        words = stripped[: right.start()].strip()
        sense = right[1]
        inner = _ON_THE_LEFT.fullmatch(words)
        if inner is not None:
            name = inner[3].strip()
            number = inner[1].strip()
            first = plain_sign(inner[2])
            raise ValueError(
                f"{text!r} holds two limits; write two constraints, '{name} {_MIRRORED.get(first, first)} {number}' "
                f"and '{name} {plain_sign(sense)} {right[2].strip()}'"
            )
    elif left is not None and (limit := read_number(left[1])) is not None:
        words = left[3].strip()
        sense = _MIRRORED.get(plain_sign(left[2]), left[2])
    elif right is not None and not set("])") & set(right[2]):
        raise ValueError(f"{text!r}: the limit is a number; got {right[2].strip()!r}")
    else:
        raise ValueError(f"{text!r} has no limit; {_FORM}")
    if not words:
        raise ValueError(f"{text!r} has no quantity; {_FORM}")
    return words, plain_sign(sense), limit


def _parameters(text: str, params: str | None) -> dict[str, Any]:
    """Return the parameters in parentheses, such as ``beta=2``."""
    pairs = [] if params is None or not params.strip() else [part.partition("=") for part in params.split(",")]
    found: dict[str, Any] = {}
    for key, sign, value in pairs:
        number = read_number(value)
        if not sign or not key.strip().isidentifier() or key.strip() in found or key.strip() == "label":
            raise ValueError(f"{text!r}: parameters are written once, with their names, such as f_beta[yes](beta=2)")
        found[key.strip()] = value.strip() if number is None else number
    return found


def resolve(constraints: Any) -> tuple[Constraint, ...]:
    """Return constraints from texts and objects.

    Parameters
    ----------
    constraints : str, Constraint, iterable of these, or None
        A single one counts as one; None as none. At most 1000.

    Raises
    ------
    ValueError
        If it is none of these, or a text is no constraint.

    Examples
    --------
    >>> from confmax import constraints as c
    >>> c.resolve(["recall[VF] >= 0.8", c.rate("L") <= 0.1])
    (Constraint('recall[VF] >= 0.8'), Constraint('rate[L] <= 0.1'))
    """
    if constraints is None:
        return ()
    if isinstance(constraints, (str, Constraint, Quantity)):
        return (_resolved(constraints),)
    if isinstance(constraints, (Mapping, bytes, bytearray)) or not isinstance(constraints, Iterable):
        raise ValueError(
            f"constraints is a text such as 'recall[yes] >= 0.8', an object of confmax.constraints, or a list of "
            f"these; got {type(constraints).__name__}"
        )
    several = list(islice(constraints, MOST_CONSTRAINTS + 1))
    if len(several) > MOST_CONSTRAINTS:
        raise ValueError(
            f"there may be at most {MOST_CONSTRAINTS} constraints; a floor on min_recall limits all recalls"
        )
    return tuple(map(_resolved, several))


def _resolved(one: Any) -> Constraint:
    """Return one constraint."""
    if isinstance(one, Quantity):
        raise ValueError(f"{one} has no limit; compare it with a number, such as {one} >= 0.8")
    return one if isinstance(one, Constraint) else parse(one)
