"""What is decided for a row: one of the classes, or several labels, by their scores.

A rule scores the M decisions of a row, ``score_j = a_j p_j + b_j``. `Decisions` say which of them are chosen. Of one
class of several, the largest score is; of several labels, every one with a score above zero, the k best, or of the k
best those above zero. Ties go to the largest index, and a score of zero is not above zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.errors import InputError

FORMS = "'one', 'any', a number of labels k, or ('at_most', k)"


@dataclass(frozen=True)
class Decisions:
    """Which decisions are made for a row.

    Attributes
    ----------
    most : int or None
        How many at most; None for any number.
    positive : bool
        Whether only those with a score above zero are made. If not, there are exactly ``most`` of them.
    several : bool
        Whether a row may have several labels. If not, its probabilities sum to one, and one decision is made.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[0.5, 0.5, -0.1], [-0.2, 0.0, -0.2]])
    >>> decisions_of(2).chosen(scores).astype(int).tolist()
    [[1, 1, 0], [0, 1, 1]]
    >>> decisions_of(("at_most", 1)).chosen(scores).astype(int).tolist()
    [[0, 1, 0], [0, 0, 0]]
    """

    most: int | None = 1
    positive: bool = False
    several: bool = True

    def chosen(self, scores: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which decisions (..., M) are made by their ``scores`` (..., M)."""
        M = scores.shape[-1]
        if self.most is None or self.most >= M:
            return scores > 0 if self.positive else np.ones(scores.shape, dtype=np.bool_)
        # of equal scores a stable order has the largest index last
        best = np.argsort(scores, axis=-1, kind="stable")[..., M - self.most :]
        out = np.zeros(scores.shape, dtype=np.bool_)
        np.put_along_axis(out, best, True, axis=-1)
        return out & (scores > 0) if self.positive else out

    @property
    def argument(self) -> Any:
        """The value of the argument ``decisions`` that means these."""
        if not self.several:
            return "one"
        if self.most is None:
            return "any"
        return ("at_most", self.most) if self.positive else self.most

    def written(self) -> dict[str, Any]:
        """Return the field of these in a rule file; a rule of one class has none."""
        return {"decisions": self.argument} if self.several else {}

    def __str__(self) -> str:
        if not self.several:
            return "one class for every row"
        if self.most is None:
            return "any labels"
        return (
            f"{'at most' if self.positive else 'exactly'} {self.most} label{'s' if self.most > 1 else ''} for every row"
        )


ONE = Decisions(several=False)
ANY = Decisions(None, positive=True)


def several_of(given: Any, n_labels: int | None = None) -> Decisions:
    """Return `decisions_of` what is given, for several labels per row; an InputError for one class."""
    found = decisions_of(given, n_labels)
    if not found.several:
        raise InputError(
            "`decisions` is of several labels per row: 'any', a number of labels k, or ('at_most', k); got 'one'",
            "pass `decisions='any'`, or take MetricClassifierCV for one class per row",
        )
    return found


def decisions_of(given: Any, n_labels: int | None = None) -> Decisions:
    """Return the decisions that the argument ``decisions`` means; ValueError if it means none for ``n_labels``.

    >>> decisions_of("any"), decisions_of(("at_most", 3)).argument
    (Decisions(most=None, positive=True, several=True), ('at_most', 3))
    """
    if isinstance(given, Decisions):
        return given
    if isinstance(given, str) and given in ("one", "any"):
        return ONE if given == "one" else ANY
    pair = isinstance(given, (tuple, list)) and len(given) == 2 and given[0] == "at_most"
    most = given[1] if pair else given
    # True is an integer to Python, and nobody means one label by it
    if isinstance(most, bool) or not isinstance(most, (int, np.integer)) or most < 1:
        raise ValueError(f"decisions is {FORMS}; got {given!r}")
    if n_labels is not None and most > n_labels:
        asked = f"{'at most ' if pair else ''}{most} labels"
        raise ValueError(f"decisions asks for {asked} of every row, and there are {n_labels}; pass at most {n_labels}")
    return Decisions(int(most), positive=pair)
