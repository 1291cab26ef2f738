"""Weighted sums of the rates of classes, such as ``rate[VF] + rate[F]`` and ``2 rate[VF] + rate[F]``.

A sum is linear in the shares of rows that are decided as each class. ``not NAME`` stands for all classes but one, and
``A or B`` for two. With weights of one it is a share of rows, because every row is decided once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from confmax.confusion import Array, Confusion
from confmax.metrics.first_order import FirstOrder, Formula
from confmax.metrics.metric import Metric
from confmax.metrics.structure import Linear

NOT = "not "
OR = " or "
LEAST, MOST = 1e-6, 1e6  # sizes of weights


@dataclass(frozen=True)
class SumOfRates(Formula):
    """The sum of ``weights`` (B,) times the shares of rows decided as the B classes of a metric.

    ``terms`` are weights and names as they were written; the weights of the classes follow where a metric is placed.
    """

    terms: tuple[tuple[float, str], ...]
    weights: tuple[float, ...] = field(default=(), compare=False)
    of_labels: bool = field(default=False, compare=False)  # of which a row may have several

    def __call__(self, S: Confusion, **_: Any) -> FirstOrder:
        none = np.zeros_like(S.diagonal)
        return FirstOrder(self.values(S), none, np.zeros_like(S.columns) + np.array(self.weights), none)

    def values(self, S: Confusion, **_: Any) -> Array:
        return np.asarray(S.columns @ np.array(self.weights))

    @property
    def is_share(self) -> bool:
        return not self.of_labels and all(weight == 1.0 for weight, _ in self.terms)

    @property
    def reads_rows(self) -> bool:
        return False

    @property
    def rises_with_hits(self) -> int:
        return 0

    @property
    def range_of_several(self) -> tuple[float, float]:
        """Between which numbers the sum lies where a row may have all labels."""
        weights = [weight for weight, _ in self.terms]
        return sum(min(0.0, weight) for weight in weights), sum(max(0.0, weight) for weight in weights)

    def among(self, S: Confusion) -> Array:
        return np.ones(S.diagonal.shape[:-1])

    @property
    def placed_as(self) -> Any:
        return self.weights

    @property
    def class_names(self) -> tuple[str, ...]:
        return tuple(name for _, name in self.terms)

    def placed(self, columns: Sequence[Sequence[int]]) -> tuple[Formula, tuple[int, ...]]:
        weights: dict[int, float] = {}
        for (weight, name), places in zip(self.terms, columns, strict=True):
            if weights.keys() & places or len(set(places)) < len(places):
                raise ValueError(f"rate[{name}] counts a class that another rate of the sum counts; name a class once")
            weights |= dict.fromkeys(places, weight)
        order = sorted(weights)
        return replace(self, weights=tuple(weights[k] for k in order)), tuple(order)


@dataclass(frozen=True)
class LabelsPerRow(Formula):
    """The mean number of labels that a row gets, the sum of the rates of all labels; the literature's cardinality."""

    def __call__(self, S: Confusion, **_: Any) -> FirstOrder:
        none = np.zeros_like(S.diagonal)
        return FirstOrder(self.values(S), none, np.ones_like(S.columns), none)

    def values(self, S: Confusion, **_: Any) -> Array:
        return np.asarray(S.columns.sum(-1))

    @property
    def reads_rows(self) -> bool:
        return False


LABELS_PER_ROW = Metric(
    "labels_per_row",
    LabelsPerRow(),
    Linear(),
    "columns",
    description="mean number of labels that a row gets",
    range=(0.0, np.inf),
    use="within limits",
    of_all_rows=True,
)


def sum_of_rates(terms: Sequence[tuple[float, str]]) -> Metric:
    """Return the sum of rates of classes, by their weights and names.

    Raises
    ------
    ValueError
        If a class is named twice, or a weight is no finite number other than zero.

    Examples
    --------
    >>> sum_of_rates([(2.0, "VF"), (-1.0, "F")])
    2 rate[VF] - rate[F]
    """
    for k, (weight, name) in enumerate(terms):
        if not LEAST <= abs(weight) <= MOST:
            raise ValueError(
                f"the weight of rate[{name}] in a sum has a size from {LEAST:g} to {MOST:g}; got {weight:g}"
            )
        if name in [earlier for _, earlier in terms[:k]]:
            raise ValueError(f"rate[{name}] stands twice in a sum; name a class once")
    formula = SumOfRates(tuple((float(weight), name) for weight, name in terms))
    weights = [weight for weight, _ in terms]
    classes = [f"a class that is {name}" if name.startswith(NOT) else f"the class {name}" for _, name in terms]
    what = "share of all rows that are decided as " + " or ".join(classes)
    return Metric(
        sum_text(terms),
        formula,
        Linear(),
        "columns",
        description=what if formula.is_share else "weighted sum of the shares of all rows decided as classes",
        range=(min(0.0, *weights), max(0.0, *weights)),
        use="within limits",
        of_all_rows=True,
    )


def sum_text(terms: Sequence[tuple[float, str]], group: str | None = None) -> str:
    """Return a sum of rates as a text, or that in a ``group``.

    >>> sum_text([(1.0, "VF"), (0.5, "F")], "women")
    'rate[VF | women] + 0.5 rate[F | women]'
    """
    behind = "" if group is None else f" | {group}"
    shown = ""
    for weight, name in terms:
        size = abs(weight)
        sign = (" - " if weight < 0.0 else " + ") if shown else ("-" if weight < 0.0 else "")
        shown += sign + (f"{size!r}".removesuffix(".0") + " " if size != 1.0 else "") + f"rate[{name}{behind}]"
    return shown
