"""One column of scores for two classes, and which class it belongs to.

The class is never guessed: --positive says it, the name of the column, the order of --classes, or a rule that was tuned
for a metric of the positive class, which is its second.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.cli.tables import Frame
from confmax.cli.texts import joined
from confmax.tables.columns import find


def is_named_like(column: str, name: Any) -> bool:
    """Return whether a column is named like a class, on its own or as a word of a name such as ``p_yes``.

    >>> is_named_like("p_yes", "yes"), is_named_like("Yes", "yes"), is_named_like("eyes", "yes")
    (True, True, False)
    """
    if find([column], [name], affix=False).places is not None:
        return True
    # a word of the column's name, so that eyes is not like yes
    around = rf"(^|[^0-9a-z]){re.escape(str(name).strip().casefold())}($|[^0-9a-z])"
    return re.search(around, column.casefold()) is not None


def pair_of_scores(
    frame: Frame, column: str, classes: Sequence[Any], k: int, *, named: bool
) -> tuple[tuple[str, ...], NDArray[Any], tuple[str, ...]]:
    """Return what two columns are called, and their probabilities (n, 2), from the column of class k; what to warn of.

    A column that was ``named`` as the one of scores needs no warning.
    """
    scores = frame.numbers(column)
    bad = ~((scores >= 0) & (scores <= 1))
    if bad.any():
        row = int(np.argmax(bad))
        what = "is empty"
        way_out = "drop such rows"
        if not np.isnan(scores[row]):
            what = f"is {scores[row]:g}, which is not between 0 and 1"
            way_out = "give probabilities: divide percentages by 100, turn log-odds x into 1 / (1 + exp(-x))"
        raise ValueError(f"row {row} of score column {column!r} of {frame.path} {what}; {way_out}")
    note = (
        f"column {column!r} was taken as the probability of {classes[k]}, and the rest as that of the other class; "
        f"--score {shlex.quote(column)} says so without this warning"
    )
    pair = [(f"1 - {column}", 1 - scores), (column, scores)]
    names, columns = zip(*(pair if k else reversed(pair)), strict=True)
    return names, np.column_stack(columns), () if named else (note,)


def class_of_score(column: str, positive: str | None, classes: Sequence[Any], last: Any) -> int:
    """Return the place of the class, of two, whose probability a column holds.

    ``last`` is the positive class, if --classes or a rule that was tuned for a metric of it says it.
    """
    if len(classes) != 2:
        what = f"there are {len(classes)} ({joined(classes)}); give one column of probabilities per class"
        if len(classes) < 2:
            what = f"only the class {joined(classes)} is known" if classes else "no class is known"
            what += " here; name both with --classes, the negative first"
        raise ValueError(f"--score is for two classes and {what}")
    named = [k for k, name in enumerate(classes) if is_named_like(column, name)]
    own = named[0] if len(named) == 1 else None
    if positive is None:
        if own is None and last is None:
            raise ValueError(
                f"nothing says which class column {column!r} is the probability of; say it with --positive "
                f"{classes[0]} or --positive {classes[1]}"
            )
        return own if own is not None else list(classes).index(last)
    place = place_of_positive(positive, classes)
    if own not in (None, place):
        raise ValueError(
            f"column {column!r} is named like the class {classes[own]} and --positive says {classes[place]}; give "
            f"--positive {classes[own]}, or rename the column"
        )
    return place


def place_of_positive(positive: str, classes: Sequence[Any]) -> int:
    """Return the place of the class that --positive names."""
    if len(classes) != 2:
        raise ValueError(
            f"--positive is for two classes and there are {len(classes)} ({joined(classes)}); give the order of all "
            f"with --classes"
        )
    found = find([str(name) for name in classes], [positive], affix=False)
    if found.places is None:
        raise ValueError(f"--positive {positive} is none of the classes ({joined(classes)}); name one of them")
    return found.places[0]
