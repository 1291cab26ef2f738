"""The class shares of the rows that a rule was tuned on: against these, other rows are held."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from confmax.confusion import Array

CLOSE = 1e-6  # by which shares may miss the sum of one
_FIELDS = {"classes", "rows"}
_FURTHER = {"decided", "shifted_to"}


@dataclass(frozen=True)
class SourceShares:
    """The mean calibrated probabilities of the tuning rows, and what the rule decided there; fractions of all weight.

    Attributes
    ----------
    classes : tuple of float (K,)
        Mean probability of every class, under the calibration that the rule had then.
    n_rows : float
        As how many rows the tuning rows count: ``(sum w)^2 / sum w^2``.
    decided : tuple of float (M,), or None
        Share of every decision; None if it is not known.
    shifted_to : tuple of float (K,), or None
        The shares that the calibration of the rule was shifted to (`DecisionRule.shifted`).

    Raises
    ------
    ValueError
        If shares are negative or do not sum to one.

    Examples
    --------
    >>> SourceShares((0.75, 0.25), 200.0).meant
    array([0.75, 0.25])
    """

    classes: tuple[float, ...]
    n_rows: float
    decided: tuple[float, ...] | None = None
    shifted_to: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("classes", "decided", "shifted_to"):
            shares = getattr(self, name)
            if shares is not None:
                object.__setattr__(self, name, _checked(shares, name))
        if not (np.isfinite(self.n_rows) and self.n_rows > 0):
            raise ValueError(f"the number of its tuning rows is positive; got {self.n_rows!r}")
        if self.shifted_to is not None and len(self.shifted_to) != len(self.classes):
            raise ValueError(f"there are {len(self.classes)} classes, and shares of {len(self.shifted_to)}")

    @property
    def meant(self) -> Array:
        """The class shares (K,) that the calibrated probabilities of the rule are meant for."""
        return np.array(self.classes if self.shifted_to is None else self.shifted_to)

    def shifted(self, to: Array) -> SourceShares:
        """Return the record of a rule whose calibration is shifted ``to`` other shares (K,)."""
        return replace(self, shifted_to=tuple(map(float, to)))

    def reordered(self, index: Sequence[int]) -> SourceShares:
        """Return the record for columns in the order ``index`` (K,); further decisions stay where they are."""

        known = {name: getattr(self, name) for name in ("classes", *_FURTHER) if getattr(self, name) is not None}
        moved: dict[str, Any] = {name: (*(old[k] for k in index), *old[len(index) :]) for name, old in known.items()}
        return replace(self, **moved)

    def written(self) -> dict[str, Any]:
        """Return the record as a rule file holds it."""
        further = {name: list(getattr(self, name)) for name in _FURTHER if getattr(self, name) is not None}
        return {"classes": list(self.classes), "rows": self.n_rows, **dict(sorted(further.items()))}

    @classmethod
    def read(cls, record: Any, n_classes: int, n_decisions: int) -> SourceShares:
        """Return what a rule file holds for so many classes and decisions; a ValueError for anything else."""
        if not isinstance(record, dict) or not _FIELDS <= set(record) <= _FIELDS | _FURTHER:
            raise ValueError("its source shares do not hold classes and rows, perhaps decided and shifted_to, alone")
        sizes = {"classes": n_classes, "shifted_to": n_classes, "decided": n_decisions}
        for name, size in sizes.items():
            numbers = record.get(name)
            if name in record and not (
                isinstance(numbers, list) and len(numbers) == size and all(map(_is_number, numbers))
            ):
                raise ValueError(f"the {name} of its source shares are not {size} numbers")
        if not _is_number(record["rows"]):
            raise ValueError("the rows of its source shares are no number")
        return cls(
            tuple(record["classes"]),
            float(record["rows"]),
            *(tuple(record[name]) if name in record else None for name in ("decided", "shifted_to")),
        )


def _checked(shares: Sequence[float], name: str) -> tuple[float, ...]:
    found = np.asarray(shares, dtype=np.float64)
    if not ((found >= 0.0).all() and abs(found.sum() - 1.0) <= CLOSE):
        raise ValueError(f"the {name} of its source shares are negative, or do not sum to one")
    return tuple(found.tolist())


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
