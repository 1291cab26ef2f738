"""A floor on the smallest share of all classes, such as ``min_recall``, as a floor on the share of each class.

The smallest of several shares is no share of rows, but each of them is one: an exact test of every class says whether
new rows keep the floor. All must pass, so no correction is needed (Berger, 1982). A class of few rows is given more
room than others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from confmax.constraints.limits import Limits
from confmax.constraints.outcomes import Blocking, ConstraintOutcome, GroupValue
from confmax.constraints.smallest import is_smallest, of_each, places
from confmax.constraints.words import Constraint
from confmax.tables.labels import plain


class Separated(NamedTuple):
    """Limits on shares alone, which say the same as others, and for each (n,) the place of that other limit."""

    limits: Limits
    owner: tuple[int, ...]
    classes: tuple[Any, ...]

    @classmethod
    def of(cls, limits: Limits, classes: Sequence[Any]) -> Separated:
        """Return ``limits`` with a floor for each of the ``classes`` (K,) in the place of one on the smallest share."""
        parts = [of_each(one, classes) for one in limits.constraints]
        owner = tuple(place for place, some in enumerate(parts) for _ in some)
        return cls(replace(limits, constraints=tuple(one for some in parts for one in some)), owner, tuple(classes))

    def joined(self, wanted: Limits, found: Sequence[ConstraintOutcome]) -> tuple[ConstraintOutcome, ...]:
        """Return one outcome for each of the ``wanted`` limits, of those ``found`` for the separated ones (n,)."""
        some: list[list[ConstraintOutcome]] = [[] for _ in wanted.constraints]
        for place, outcome in zip(self.owner, found, strict=True):
            some[place].append(outcome)
        return tuple(
            _joined(one, part, self.classes) if is_smallest(one.metric) else _alone(one, *part)
            for one, part in zip(wanted.constraints, some, strict=True)
        )


def _joined(one: Constraint, found: Sequence[ConstraintOutcome], classes: Sequence[Any]) -> ConstraintOutcome:
    """Return the outcome of a floor on the smallest share, of those of all classes.

    Rows are counted of the class that is farthest from being shown, or else of the one with the smallest share.
    """
    names = [str(plain(classes[k])) for k in places(one.metric, len(classes))]
    failed = [part for part in found if not part.assured]
    needed = [part.rows_needed for part in failed]
    lowest = min(found, key=_on_labels)
    counted = lowest
    if failed:
        counted = max(failed, key=lambda part: float("inf") if part.rows_needed is None else part.rows_needed)
    return replace(
        lowest,
        text=one.text,
        limit=one.limit,
        value=min(part.value for part in found),
        slack=min(part.slack for part in found),
        price=None if any(part.price is None for part in found) else sum(part.price or 0.0 for part in found),
        label_interval=None,
        label_rows=counted.label_rows,
        assured=not failed,
        of_class=plain(classes[places(one.metric, len(classes))[found.index(counted)]]),
        rows_needed=None if None in needed else max((n for n in needed if n is not None), default=None),
        blocking=tuple(
            _of_class(name, part) for name, some in zip(names, found, strict=True) for part in some.blocking
        ),
        by_group=tuple(min(parts, key=_on_labels) for parts in zip(*(part.by_group for part in found), strict=True)),
    )


def _alone(one: Constraint, found: ConstraintOutcome) -> ConstraintOutcome:
    """Return the outcome of a limit that is one test, or one of each group: only groups block it."""
    return found if one.of_groups or not found.blocking else replace(found, blocking=())


def _of_class(name: str, part: Blocking) -> Blocking:
    """Return what blocks the limit of a class under the ``name`` of this class."""
    return part._replace(name=f"class {name} in {part.name}" if part.name else f"class {name}")


def _on_labels(part: ConstraintOutcome | GroupValue) -> float:
    return part.label_value or 0.0
