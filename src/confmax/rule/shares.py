"""The class shares of the rows that a rule was tuned on: against these, other rows are held."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from confmax.calibration import Scaling
from confmax.confusion import Array

if TYPE_CHECKING:
    from confmax.calibration.labels import LabelScaling

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
    calibrator : Scaling or None
        The calibration by which rows are counted (`DecisionRule.expected_counts`), where the rule decides without it:
        thresholds on given probabilities need none. None if the rule has it, and after a shift.

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
    calibrator: Scaling | None = None

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
        return replace(self, shifted_to=tuple(map(float, to)), calibrator=None)

    def reordered(self, index: Sequence[int]) -> SourceShares:
        """Return the record for columns in the order ``index`` (K,); further decisions stay where they are."""

        known = {name: getattr(self, name) for name in ("classes", *_FURTHER) if getattr(self, name) is not None}
        moved: dict[str, Any] = {name: (*(old[k] for k in index), *old[len(index) :]) for name, old in known.items()}
        return replace(self, **moved, calibrator=self.calibrator and self.calibrator.reordered(index))

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
        decided, shifted_to = (tuple(record[name]) if name in record else None for name in ("decided", "shifted_to"))
        return cls(tuple(record["classes"]), float(record["rows"]), decided, shifted_to)


@dataclass(frozen=True)
class LabelShares:
    """What a rule of several labels per row knows of its tuning rows: how often each label is true, by the model.

    Attributes
    ----------
    labels : tuple of float (L,)
        Mean probability of every label, under ``maps``; fractions of all weight.
    n_rows : float
        As how many rows the tuning rows count.
    decided : tuple of float (L,)
        How often every label was decided.
    maps : LabelScaling or None
        The calibration of the labels, which thresholds on given probabilities do not need.

    Raises
    ------
    ValueError
        If shares do not lie between zero and one.

    Examples
    --------
    >>> LabelShares((0.5, 0.1), 200.0, (0.4, 0.2)).meant
    array([0.5, 0.1])
    """

    labels: tuple[float, ...]
    n_rows: float
    decided: tuple[float, ...]
    maps: LabelScaling | None = None

    def __post_init__(self) -> None:
        for name in ("labels", "decided"):
            shares = np.asarray(getattr(self, name), dtype=np.float64)
            if not ((shares >= 0.0) & (shares <= 1.0 + CLOSE)).all():
                raise ValueError(f"the {name} of its source shares do not lie between zero and one")
            object.__setattr__(self, name, tuple(shares.tolist()))
        if not (np.isfinite(self.n_rows) and self.n_rows > 0):
            raise ValueError(f"the number of its tuning rows is positive; got {self.n_rows!r}")

    @property
    def meant(self) -> Array:
        """How often the labels are true (L,), by the probabilities under ``maps``."""
        return np.minimum(np.array(self.labels), 1.0)

    def written(self) -> dict[str, Any]:
        """Return the record as a rule file holds it."""
        known = {"labels": list(self.labels), "rows": self.n_rows, "decided": list(self.decided)}
        return known if self.maps is None else {**known, "maps": {"a": self.maps.a.tolist(), "c": self.maps.c.tolist()}}

    @classmethod
    def read(cls, record: Any, n_labels: int) -> LabelShares:
        """Return what a rule file holds for so many labels; a ValueError for anything else."""
        from confmax.calibration.labels import LabelScaling

        fields = {"labels", "rows", "decided"}
        if not isinstance(record, dict) or not fields <= set(record) <= fields | {"maps"}:
            raise ValueError("its source shares do not hold labels, rows and decided, perhaps maps, alone")
        numbers = _numbers(record, ("labels", "decided"), n_labels)
        maps = None
        if "maps" in record:
            if not isinstance(record["maps"], dict) or set(record["maps"]) != {"a", "c"}:
                raise ValueError("the maps of its source shares do not hold a and c alone")
            maps = LabelScaling(*(np.array(part) for part in _numbers(record["maps"], ("a", "c"), n_labels)))
        if not _is_number(record["rows"]):
            raise ValueError("the rows of its source shares are no number")
        return cls(numbers[0], float(record["rows"]), numbers[1], maps)


def _numbers(record: dict[str, Any], names: Sequence[str], size: int) -> list[tuple[float, ...]]:
    """Return the lists of so many numbers that a record holds by these names; a ValueError for anything else."""
    for name in names:
        found = record[name]
        if not (isinstance(found, list) and len(found) == size and all(map(_is_number, found))):
            raise ValueError(f"the {name} of its source shares are not {size} numbers")
    return [tuple(map(float, record[name])) for name in names]


def _checked(shares: Sequence[float], name: str) -> tuple[float, ...]:
    found = np.asarray(shares, dtype=np.float64)
    if not ((found >= 0.0).all() and abs(found.sum() - 1.0) <= CLOSE):
        raise ValueError(f"the {name} of its source shares are negative, or do not sum to one")
    return tuple(found.tolist())


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
