"""Plans of several groups as one: what differs between groups is chosen by CASE, and all else is written once.

The groups of a rule have one calibration, whose text is most of an expression; their weights, offsets and thresholds
differ. A row is decided with the numbers of its group, by the operations of the plan of that group. The joint plan may
add a product with one or a sum with zero, which round nothing, and the division of a row by its sum, as in `predict`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array
from confmax.export.plan import Plan


@dataclass(frozen=True)
class Groups:
    """A column of groups, quoted, and the literals of their names. The default is that of a rule without groups."""

    column: str = ""
    names: tuple[str, ...] = ("",)

    def choose(self, texts: Sequence[str]) -> str:
        """Return the text of the row's group, from a text for each group; NULL for a group whose text is empty."""
        if len(set(texts)) == 1:
            return texts[0]
        pairs = zip(self.names, texts, strict=True)
        whens = " ".join(f"WHEN {name} THEN {text}" for name, text in pairs if text)
        return f"CASE {self.column} {whens} END"


@dataclass(frozen=True)
class JointPlan:
    """The plans of G groups that have one calibration and decide in the same steps (`alike`)."""

    plans: tuple[Plan, ...]
    scaling: tuple[Array, Array, float] | None
    kept: int | None

    @classmethod
    def of(cls, plans: Sequence[Plan]) -> JointPlan:
        """Return the plan of groups that are `alike`."""
        return cls(tuple(plans), plans[0].scaling, plans[0].kept)

    @property
    def gains(self) -> NDArray[np.float64]:
        """Weights (G, K), or full gains (G, K, M)."""
        return np.stack([plan.gains for plan in self.plans])

    @property
    def offsets(self) -> NDArray[np.float64] | None:
        """Offsets (G, M) of reduced gains."""
        offsets = [plan.offsets for plan in self.plans if plan.offsets is not None]
        return np.stack(offsets) if offsets else None

    @property
    def power(self) -> int:
        """The power of distances, which the groups share."""
        return self.plans[0].power

    @property
    def n_decisions(self) -> int:
        """Number of decisions M."""
        return self.plans[0].n_decisions

    @property
    def first(self) -> int | None:
        """The class that is compared first."""
        first = self.plans[0].first
        return None if first is None else first.k

    @property
    def steps(self) -> list[tuple[int, list[float | None]]]:
        """Decisions by the probability of that class, with the smallest one of each group; None if it never decides so.

        As in `FirstSteps`, but for all groups.
        """
        each = [dict(plan.first.steps) for plan in self.plans if plan.first is not None]
        # the class comes before abstaining, as in the steps of each group
        decisions = sorted({decision for steps in each for decision in steps}, key=lambda one: one != self.first)
        return [(decision, [steps.get(decision) for steps in each]) for decision in decisions]

    @property
    def others(self) -> list[int]:
        """The classes beside the one that is compared first."""
        return self.plans[0].others

    @property
    def others_alike(self) -> bool:
        """Whether all groups decide the most probable class, beside any that is compared first."""
        return all(plan.others_alike for plan in self.plans)

    @property
    def has_offsets(self) -> bool:
        """Whether some group has an offset that is not zero."""
        return any(plan.has_offsets for plan in self.plans)

    @property
    def reads_sums(self) -> bool:
        """Whether a row must be divided by its sum for some group."""
        return self.scaling is not None or self.has_offsets or self.first is not None


def by_group(
    written: Callable[[Sequence[Plan], Groups, int], tuple[str, bool]],
    plans: Sequence[Plan],
    groups: Groups,
    most: int,
) -> str:
    """Return the expression that decides by groups; it is NULL where the row's group is none of them.

    ``written`` returns the expression of some groups, and whether it has steps, which it has beyond a number of
    characters: ``most`` for all groups together.
    """
    by_itself = [written([plan], Groups(), most // len(plans)) for plan in plans]
    parts = []
    for places in alike(plans):
        each: list[tuple[tuple[str, ...], str]] = [((groups.names[k],), by_itself[k][0]) for k in places]
        some = [plans[k] for k in places]
        names = tuple(groups.names[k] for k in places)
        has_steps = any(by_itself[k][1] for k in places)
        # weights alone share no long part, and engines choose a group once faster than each number by group
        if has_steps or JointPlan.of(some).reads_sums:
            joint, _ = written(some, Groups(groups.column, names), 0 if has_steps else most)
            each = [(names, joint)] if len(joint) < sum(len(text) for _, text in each) else each
        parts += each
    if all(len(names) == 1 for names, _ in parts):
        texts = {names[0]: text for names, text in parts}
        whens = [f"WHEN {name} THEN {texts[name]}" for name in groups.names]
        return f"CASE {groups.column} {' '.join(whens)} END"
    whens = [f"WHEN {groups.column} IN ({', '.join(names)}) THEN {text}" for names, text in parts]
    return f"CASE {' '.join(whens)} END"


def alike(plans: Sequence[Plan]) -> list[list[int]]:
    """Return the places of the plans in lists; one `JointPlan` can hold the plans of a list."""

    def steps(place: int) -> tuple[int, bool]:
        plan = plans[place]
        return (-1 if plan.first is None else plan.first.k, plan.offsets is None)

    return [list(places) for _, places in groupby(sorted(range(len(plans)), key=steps), key=steps)]
