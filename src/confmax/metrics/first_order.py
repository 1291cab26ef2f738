"""What a formula returns: values and first derivatives of a metric, as functions of a confusion matrix's statistics.

With row sums r, diagonal D and column sums c, a metric ``psi(r, D, c)`` has the gradient
``G[i, j] = [i = j] dpsi/dD_i + dpsi/dr_i + dpsi/dc_j``. The part that is constant within a row does not change a
decision, so the reduced gain is ``a = dpsi/dD``, ``b = dpsi/dc``. A formula maps a `Confusion` (possibly a batch) to a
`FirstOrder`. At 0/0 the value is scikit-learn's ``zero_division=0`` with all labels listed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from confmax.confusion import Array, Confusion, difference

Side = Literal["decided", "others"]
TINY = 1e-150  # what is smaller is zero: its reciprocal, squared, could not be held


class FirstOrder(NamedTuple):
    """A metric near one confusion matrix: its value and its partial derivatives.

    ``matrix`` (..., K, M) is None for metrics of the statistics alone; for the others it is the whole gradient. Then
    ``columns`` and ``rows`` (..., K) are the derivatives by the column and row sums, for where C is a part of a larger
    matrix whose sums count; or empty.
    """

    value: Array
    diagonal: Array = np.empty(0)
    columns: Array = np.empty(0)
    rows: Array = np.empty(0)
    matrix: Array | None = None


class Formula(ABC):
    """The formula of a metric, with what else a metric knows of it.

    ``whole`` says whether it gets the statistics of the whole table, decisions beyond the classes included, and finds
    its classes itself.
    """

    whole: ClassVar[bool] = False
    takes_further: ClassVar[bool] = True  # whether a matrix may have more decisions than classes
    is_coverage: ClassVar[bool] = False  # whether it is the share of rows that are decided
    is_of_decided: ClassVar[bool] = False  # whether it is that of the rows that are decided
    smallest_of: ClassVar[str | None] = None  # the share of each class whose smallest it is, by its name
    # whether it is a sum of functions of one class each, of how often that is decided, rightly and at all
    is_separable: ClassVar[bool] = False

    @property
    def is_share(self) -> bool:
        """Whether it is a share of rows, so that binomial intervals and tests hold for it."""
        return False

    @property
    def side(self) -> Side | None:
        """The side of a threshold that it is a share of: rows decided as one class, or as others; None for others."""
        return None

    @property
    def counts_others_decided(self) -> bool:
        """Whether it takes every row that is not decided as one class to be decided as another class."""
        return False

    @property
    def reads_rows(self) -> bool:
        """Whether the value depends on the sizes of the classes."""
        return True

    @property
    def rises_with_hits(self) -> int:
        """Whether it rises (1), falls (-1) or stays (0) where more of what is decided as its class is right."""
        return 1

    def centre(self, rows: Array, n_decisions: int, *, matrix: bool) -> Confusion:
        """Return a confusion that rules can have, at row sums ``rows`` (K,), with a ``matrix`` where one is asked."""
        return Confusion.uniform(rows, n_decisions, matrix=matrix)

    @property
    def lift(self) -> Any:
        """Its linear functions and ratios, if it is a view of blocks (`confmax.metrics.views`); else None."""
        return None

    def decides(self, n_classes: int) -> int:
        """Return between how many decisions it chooses on a table of ``n_classes``."""
        return n_classes

    @abstractmethod
    def __call__(self, S: Confusion, **params: Any) -> FirstOrder:
        """Return value and derivatives at the statistics ``S``, which may be a batch."""

    @abstractmethod
    def values(self, S: Confusion, **params: Any) -> Array:
        """Return the values (B,) alone, the same bytes."""

    def folded(self, true: Array, hits: Array, decided: Array, **params: Any) -> Array:
        """Return the values (...) of two classes by the numbers (...) of the second.

        They say of which share of the rows it is ``true``, of which it is ``decided`` rightly (``hits``), and at all.
        A metric that very many labels are searched with computes them without the numbers of the first class.
        """
        return self.values(Confusion.of_two(true, hits, decided), **params)

    def best_step(self, C: Confusion, V: Confusion, **params: Any) -> float | None:
        """Return the step in [0, 1] from ``C`` toward ``V`` with the largest value; None if it is not known."""
        return None

    def admit(self, n_classes: int, n_decisions: int) -> None:  # noqa: B027
        """Refuse, by a ValueError, tables of ``n_classes`` and ``n_decisions`` for which the function does not work."""

    @property
    def placed_as(self) -> Any:
        """What two formulas that are placed on the same classes have in common if they are the same function."""
        return self

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of classes, or ``not NAME`` for all but one, that it finds in a table; most formulas name none."""
        return ()

    def placed(self, columns: Sequence[Sequence[int]]) -> tuple[Formula, tuple[int, ...]]:
        """Return the formula for a table, and its classes there, from the ``columns`` of each of its class names.

        A ValueError if it cannot be.
        """
        raise TypeError(f"{type(self).__name__} names no classes")

    def among(self, S: Confusion) -> Array:
        """Return of which rows it is a share (...), as a share of all rows."""
        raise TypeError(f"{type(self).__name__} is no share of rows")

    def reads_order(self, n_classes: int) -> bool:
        """Whether the value depends on the order of that many classes."""
        return False


@dataclass(frozen=True)
class Function(Formula):
    """A formula that is a function of the statistics, and no more."""

    function: Callable[..., FirstOrder]
    of_folded: Callable[..., Array] | None = None  # `folded`, where it is more than that of any formula
    takes_further: ClassVar[bool] = False

    def __call__(self, S: Confusion, **params: Any) -> FirstOrder:
        return self.function(S, **params)

    def values(self, S: Confusion, **params: Any) -> Array:
        return self.function(S, **params).value

    def folded(self, true: Array, hits: Array, decided: Array, **params: Any) -> Array:
        return (self.of_folded or super().folded)(true, hits, decided, **params)


def both_recalls(true: Array, hits: Array, decided: Array) -> tuple[Array, Array]:
    """Return the recalls (...) of two classes by the numbers of the second, as `Formula.folded`."""
    rest = difference(1.0 - true)
    of_rest = np.clip((rest - decided + hits) * reciprocal(rest), 0.0, 1.0)
    return of_rest, np.clip(hits * reciprocal(true), 0.0, 1.0)


def safe_ratio(numerator: Array, denominator: Array) -> Array:
    """Return ``numerator / denominator``, 0 where the denominator is 0 (or below `TINY`)."""
    shape = np.broadcast(numerator, denominator).shape
    return np.divide(numerator, denominator, out=np.zeros(shape), where=np.abs(denominator) > TINY)


def reciprocal(x: Array) -> Array:
    """Return ``1 / x``, 0 where x is 0 (or below `TINY`)."""
    present = np.abs(x) > TINY
    # a division with a mask is not vectorised
    return 1.0 / x if np.all(present) else np.divide(1.0, x, out=np.zeros(np.shape(x)), where=present)
