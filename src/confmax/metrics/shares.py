"""Shares of rows: of some rows of one class, or decided as it, those that count.

A share is declared by two sums of the statistics of one class, the rows that it speaks of and those of them that count,
such as ``Share(of=DECIDED, hits=RIGHT)``: the precision. Its value, gradient, ratio and bound follow, and so does how
many rows it is a share of, which is what exact binomial tests and intervals need. A share is added by a row of
`METRICS`: the catalogue, limits, confidence, abstaining, the command line and the documentation read it there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, ClassVar

import numpy as np

from confmax.confusion import Array, Confusion, Gains
from confmax.metrics.first_order import TINY, FirstOrder, Formula, Side, reciprocal
from confmax.metrics.metric import ZERO_TO_ONE, Metric
from confmax.metrics.ratios import Ratios
from confmax.metrics.structure import Linear, Ratio, Structure


@dataclass(frozen=True)
class Rows:
    """A sum of shares of all rows, by their coefficients; the class is the last one.

    Rows of the class that are decided as it are ``right``, those of any class ``all_right``; ``decided`` are all rows
    that are decided as it, ``true`` all of the class, and ``others_decided`` and ``others_true`` the same of all other
    classes.
    """

    right: float = 0.0
    all_right: float = 0.0
    decided: float = 0.0
    true: float = 0.0
    others_decided: float = 0.0
    others_true: float = 0.0
    all_rows: float = 0.0

    def __add__(self, other: Rows) -> Rows:
        return Rows(*(getattr(self, name) + getattr(other, name) for name in _NAMES))

    def __sub__(self, other: Rows) -> Rows:
        return Rows(*(getattr(self, name) - getattr(other, name) for name in _NAMES))

    def at(self, S: Confusion) -> Array:
        """Return the sum (...) at confusions (...)."""
        total: Any = None
        for weight, value in _terms(self):
            # searches call this thousands of times: no products with one, no sums with zero
            term = value(S) if weight == 1.0 else weight * value(S)
            total = term if total is None else total + term
        return total if np.ndim(total) == S.diagonal.ndim - 1 else np.broadcast_to(total, S.diagonal.shape[:-1])

    def folded(self, true: Array, hits: Array, decided: Array) -> Array:
        """Return the sum (...) of two classes by the numbers (...) of the second, as `Formula.folded`."""
        total: Any = self.all_right + self.others_decided + self.others_true + self.all_rows
        for weight, part in (
            (self.true - self.others_true - self.all_right, true),
            (self.decided - self.others_decided - self.all_right, decided),
            (self.right + 2.0 * self.all_right, hits),
        ):
            total = total + weight * part if weight else total
        return np.asarray(total)

    def gains(self, K: int) -> Gains:
        """Return what depends on the decisions, for K classes."""
        unit = np.eye(1, K, K - 1)[0]
        if not (self.decided or self.others_decided):
            return Gains.reduced(self.right * unit + self.all_right)
        return Gains.reduced(
            self.right * unit + self.all_right, self.decided * unit + self.others_decided * (1.0 - unit)
        )

    def constant(self, rows: Array) -> float:
        """Return what depends on the row sums ``rows`` (K,) alone."""
        others = float(rows[:-1].sum()) if self.others_true else 0.0
        return self.true * float(rows[-1]) + self.others_true * others + self.all_rows

    def least(self, rows: Array) -> float:
        """Return the smallest value over all rules, at row sums ``rows`` (K,); it may not depend on ``all_right``."""
        true = float(rows[-1])
        # a share that reads no other class gets the size of its own class alone
        others = float(rows[:-1].sum()) if len(rows) > 1 else 1.0 - true
        # rows of the class and of the others that are decided as it: a linear function is least at a corner
        corners = [(right, right + wrong) for right in (0.0, true) for wrong in (0.0, others)]
        decisions = [
            self.right * right + self.decided * decided + self.others_decided * (true + others - decided)
            for right, decided in corners
        ]
        return max(0.0, self.constant(rows) + min(decisions))


_NAMES = [field.name for field in fields(Rows)]
# the statistics of the last class, by the names of their coefficients; what is right comes last, as it is subtracted
_VALUES: dict[str, Callable[[Confusion], Array]] = {
    "decided": lambda S: S.columns[..., S.rows.shape[-1] - 1],
    "true": lambda S: S.rows[..., -1],
    "others_decided": lambda S: S.columns[..., : S.rows.shape[-1] - 1].sum(-1),
    "others_true": lambda S: S.rows[..., :-1].sum(-1),
    "all_rows": lambda _: np.ones(()),
    "right": lambda S: S.diagonal[..., -1],
    "all_right": lambda S: S.diagonal.sum(-1),
}


@cache
def _terms(counted: Rows) -> list[tuple[float, Callable[[Confusion], Array]]]:
    return [(weight, value) for name, value in _VALUES.items() if (weight := getattr(counted, name))]


RIGHT = Rows(right=1.0)
ALL_RIGHT = Rows(all_right=1.0)
DECIDED = Rows(decided=1.0)
TRUE = Rows(true=1.0)
OTHERS_DECIDED = Rows(others_decided=1.0)
OTHERS_TRUE = Rows(others_true=1.0)
ALL_ROWS = Rows(all_rows=1.0)


@dataclass(frozen=True)
class Share(Formula):
    """The share ``hits / of`` of rows of one class, or ``1 - misses / of``; 0 at 0/0.

    Of the rows ``of`` that it speaks of, ``hits`` count, or ``misses`` do not: the one whose sum has fewer terms is
    given.
    """

    of: Rows
    hits: Rows | None = None
    misses: Rows | None = None
    is_share: ClassVar[bool] = True

    def __call__(self, S: Confusion, **_: Any) -> FirstOrder:
        unit = reciprocal(self.of.at(S))
        counted = self._counted
        slope = counted.at(S) * unit
        sign = 1.0 if self.hits is not None else -1.0

        own = S.rows.shape[-1] - 1
        by_diagonal = np.zeros_like(S.diagonal)
        by_columns = np.zeros_like(S.columns)
        by_rows = np.zeros_like(S.diagonal)
        places = {
            "right": by_diagonal[..., own:],
            "all_right": by_diagonal,
            "decided": by_columns[..., own : own + 1],
            "others_decided": by_columns[..., :own],
            "true": by_rows[..., own:],
            "others_true": by_rows[..., :own],
        }
        for name, place in places.items():
            adds = getattr(counted, name)
            takes = getattr(self.of, name)
            if adds or takes:
                # what a statistic adds to the rows that count, less what it takes by those that the share speaks of;
                # zero has one sign, since rule files hold offsets
                place[...] = (sign * (adds - slope * takes) * unit + 0.0)[..., None]
        return FirstOrder(self.values(S), by_diagonal, by_columns, by_rows)

    def values(self, S: Confusion, **_: Any) -> Array:
        return self._value(lambda rows: rows.at(S))

    def folded(self, true: Array, hits: Array, decided: Array, **_: Any) -> Array:
        return self._value(lambda rows: rows.folded(true, hits, decided))

    def _value(self, read: Callable[[Rows], Array]) -> Array:
        counted = read(self._counted)
        if self.of == ALL_ROWS and self.hits is not None:
            # searches call this thousands of times: no division by one
            return counted
        of = read(self.of)
        share = counted * reciprocal(of)
        # a difference from one would lose the digits of a small share
        return share if self.hits is not None else np.where(of > TINY, 1.0 - share, 0.0)

    @property
    def _counted(self) -> Rows:
        counted = self.hits or self.misses
        assert counted is not None
        return counted

    @property
    def parts(self) -> list[Rows]:
        """The sums of rows that it is declared by."""
        return [self.of, self._counted]

    @property
    def side(self) -> Side | None:
        return "decided" if self.of == DECIDED else "others" if self.of == OTHERS_DECIDED else None

    @property
    def counts_others_decided(self) -> bool:
        return any(part.others_decided for part in self.parts)

    def among(self, S: Confusion) -> Array:
        return self.of.at(S)

    @property
    def reads_rows(self) -> bool:
        return any(part.true or part.others_true for part in self.parts)

    @property
    def rises_with_hits(self) -> int:
        rises = int(np.sign(self._counted.right + self._counted.all_right))
        return rises if self.hits is not None else -rises

    def complement(self) -> Share:
        """Return one minus the share."""
        return Share(self.of, hits=self.misses, misses=self.hits)


@dataclass(frozen=True)
class ShareParts:
    """Numerator and denominator of a share."""

    share: Share

    def __call__(self, rows: Array) -> Ratios:
        """Return the ratio at row sums ``rows`` (K,)."""
        of = self.share.of
        hits = self.share.hits or of - self.share._counted
        K = len(rows)
        top = np.array([hits.constant(rows)])
        bottom = np.array([of.constant(rows)])
        return Ratios(hits.gains(K), of.gains(K), top, bottom, np.array([of.least(rows)]), np.ones(1))


def share(name: str, formula: Share, description: str, **more: Any) -> Metric:
    """Return the metric of a share: "one class" in its description stands for the class; ``more`` are its attributes.

    >>> npv = share("npv", Share(of=OTHERS_DECIDED, misses=TRUE - RIGHT), "share of the rows ...")
    >>> npv.value([[40, 10], [20, 30]])
    0.6666666666666667
    """
    of = formula.of
    structure: Structure = Linear()
    if of.right or of.decided or of.others_decided:
        structure = Ratio(fractions=ShareParts(formula))
    of_decisions = any(part.decided or part.others_decided for part in formula.parts)
    others = any(part.others_decided or part.others_true for part in formula.parts)
    settings: dict[str, Any] = {
        "binary": True,
        "ordered": True,
        "one_class": "with others" if others else "alone",
        "divides_by_prior": formula.of == TRUE,
        "description": description,
        "range": ZERO_TO_ONE,
    }
    return Metric(name, formula, structure, "columns" if of_decisions else "diagonal", **(settings | more))


# --- the catalogue ----------------------------------------------------------------------------------------------------

ACCURACY = Share(of=ALL_ROWS, hits=ALL_RIGHT)
RECALL = Share(of=TRUE, hits=RIGHT)
PRECISION = Share(of=DECIDED, hits=RIGHT)
RATE = Share(of=ALL_ROWS, hits=DECIDED)

METRICS = (
    share(
        "precision",
        PRECISION,
        "share of the rows decided as one class that are of this class",
        of_many="macro_precision",
        trivial_rule="only its surest row is decided as it",
        synonyms=("ppv", "positive_predictive_value"),
    ),
    share(
        "recall",
        RECALL,
        "share of the rows of one class that are decided as this class",
        of_many="balanced_accuracy",
        trivial_rule="every row is decided as it",
        synonyms=("sensitivity", "tpr", "true_positive_rate", "hit_rate", "detection_rate"),
    ),
    share(
        "specificity",
        Share(of=OTHERS_TRUE, misses=DECIDED - RIGHT),
        "share of the rows of other classes that are not decided as one class",
        of_many="balanced_accuracy",
        trivial_rule="no row is decided as it",
        synonyms=("tnr", "true_negative_rate", "selectivity"),
    ),
    share(
        "fpr",
        Share(of=OTHERS_TRUE, hits=DECIDED - RIGHT),
        "share of the rows of other classes that are decided as one class",
        title="false positive rate",
        of_many="",
        use="limited",
        synonyms=("false_positive_rate", "fall_out", "false_alarm_rate"),
    ),
    share(
        "npv",
        Share(of=OTHERS_DECIDED, misses=TRUE - RIGHT),
        "share of the rows not decided as one class that are of other classes",
        title="negative predictive value",
        of_many="",
        trivial_rule="every row but the least likely one is decided as it",
        synonyms=("negative_predictive_value",),
    ),
    share(
        "rate",
        RATE,
        "share of all rows that are decided as one class",
        of_many="",
        use="within limits",
        of_all_rows=True,
        synonyms=("selection_rate", "positive_rate", "alert_rate"),
    ),
)
