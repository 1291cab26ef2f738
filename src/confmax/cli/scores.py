"""One column of scores for two classes: the probability of one class, from which that of the other follows.

Which class the column belongs to is never guessed: --positive says it, the name of the column, the order of --classes,
or a rule that was tuned for a metric of the positive class, which is its second.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.cli.frame import Frame
from confmax.tables.columns import find

__all__ = ["Scored", "implied_score", "is_named_like", "two_columns"]


def is_named_like(column: str, name: Any) -> bool:
    """Return whether a column is named like a class, on its own or as a word of a name such as ``p_yes``.

    Examples
    --------
    >>> is_named_like("p_yes", "yes"), is_named_like("Yes", "yes"), is_named_like("eyes", "yes")
    (True, True, False)
    """
    if find([column], [name], affix=False).places is not None:
        return True
    around = rf"(^|[^0-9a-z]){re.escape(str(name).strip().casefold())}($|[^0-9a-z])"
    return re.search(around, column.casefold()) is not None


def implied_score(numeric: Sequence[str], classes: Sequence[Any], positive: str) -> str | None:
    """Return the only numeric column that is named like one of two classes, if --positive names this class.

    Parameters
    ----------
    numeric : sequence of str
        Numeric columns that are neither label nor weight.
    classes : sequence
        The classes of the labels, of --classes or of a rule.
    positive : str
        What --positive says.
    """
    if len(classes) != 2:
        return None
    named = [column for column in numeric if any(is_named_like(column, name) for name in classes)]
    return named[0] if len(named) == 1 and is_named_like(named[0], positive) else None


@dataclass(frozen=True)
class Scored:
    """Probabilities (n, 2) from one column of scores, what each of the two columns is, and the class of the scores."""

    proba: NDArray[Any]
    columns: tuple[str, str]
    of: Any


def two_columns(frame: Frame, column: str, positive: str | None, classes: Sequence[Any], last: Any) -> Scored:
    """Return the probabilities of two classes from a column of scores.

    Parameters
    ----------
    frame, column
        The file, and the name of its column.
    positive : str or None
        What --positive says.
    classes : sequence
        The classes, which must be two.
    last : object or None
        The positive class, if --classes or a rule that was tuned for a metric of it says it.

    Raises
    ------
    ValueError
        If there are not two classes, nothing says whose probability it is, or two things say different classes; if a
        score is missing or lies outside 0 to 1.
    """
    if len(classes) != 2:
        raise ValueError(_not_two(classes))
    place = _place(column, positive, classes, last)
    scores = frame.numbers(column)
    bad = ~((scores >= 0) & (scores <= 1))
    if bad.any():
        row = int(np.argmax(bad))
        empty = bool(np.isnan(scores[row]))
        what = "is empty" if empty else f"is {scores[row]:g}, which is not between 0 and 1"
        way_out = "drop such rows" if empty else (
            "give probabilities: divide percentages by 100, turn log-odds x into 1 / (1 + exp(-x))"
        )  # fmt: skip
        raise ValueError(f"row {row} of score column {column!r} of {frame.path} {what}; {way_out}")
    other = 1 - scores
    if place == 0:
        return Scored(np.column_stack([scores, other]), (column, f"1 - {column}"), classes[0])
    return Scored(np.column_stack([other, scores]), (f"1 - {column}", column), classes[1])


def _not_two(classes: Sequence[Any]) -> str:
    shown = ", ".join(str(name)[:100] for name in classes[:8])
    if len(classes) > 2:
        return (
            f"--score is for two classes and there are {len(classes)} ({shown}); give one column of probabilities per "
            f"class"
        )
    known = f"only the class {shown} is known" if classes else "no class is known"
    return f"--score is for two classes and {known} here; name both with --classes, the negative first"


def _place(column: str, positive: str | None, classes: Sequence[Any], last: Any) -> int:
    """Return the place of the class whose probability a column holds."""
    named = [k for k, name in enumerate(classes) if is_named_like(column, name)]
    own = named[0] if len(named) == 1 else None
    if positive is None:
        if own is None and last is None:
            raise ValueError(
                f"nothing says which class column {column!r} is the probability of; say it with --positive "
                f"{classes[0]} or --positive {classes[1]}"
            )
        return own if own is not None else list(classes).index(last)
    place = next(
        (k for k, name in enumerate(classes) if find([positive], [name], affix=False).places is not None), None
    )
    if place is None:
        raise ValueError(f"--positive {positive} is neither class ({classes[0]}, {classes[1]}); name one of them")
    if own not in (None, place):
        raise ValueError(
            f"column {column!r} is named like the class {classes[own]} and --positive says {classes[place]}; give "
            f"--positive {classes[own]}, or rename the column"
        )
    return place
