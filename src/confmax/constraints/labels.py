"""Limits where rows have several labels: on one label, on a weighted sum of rates, and on the labels per row.

A limit on one label is that of a class against the rest, seen among the labels (`confmax.metrics.views`).
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import ABSENT, Array, Confusion
from confmax.constraints.binding import naming, refuse_undecided
from confmax.constraints.grammar import resolve
from confmax.constraints.limits import Limits
from confmax.constraints.smallest import is_smallest, of_each
from confmax.constraints.texts import metric_text
from confmax.constraints.words import Constraint, several_in
from confmax.errors import InputError
from confmax.metrics.limited import ratio_of, without_errors
from confmax.metrics.rates import LABELS_PER_ROW, SumOfRates
from confmax.metrics.views import View, label_view, without_view
from confmax.tables.labels import plain

SHOWN = 8  # labels in a sentence


def place_of(one: Constraint) -> int | None:
    """Return the label that a constraint is on; None for one on a sum of rates."""
    formula = one.metric.formula
    return formula.block if isinstance(formula, View) else None


def labels_of(limits: Limits) -> list[int]:
    """Return the labels that have limits of their own."""
    return sorted({place for one in limits.constraints if (place := place_of(one)) is not None})


def of_label(limits: Limits, label: int) -> Limits:
    """Return the limits of one ``label`` for two classes, of which it is the second one."""
    own = (one for one in limits.constraints if place_of(one) == label)
    return replace(
        limits, constraints=tuple(replace(one, metric=without_view(one.metric).of_class(1, 2)) for one in own)
    )


@dataclass(frozen=True, eq=False)
class Budgets:
    """Ceilings (m,) on sums of rates with ``weights`` (m, L), which of the limits they are, and their ``signs`` (m,).

    Floors are ceilings on sums of the other sign.
    """

    numbers: NDArray[np.intp]
    weights: Array
    ceilings: Array
    signs: Array

    @property
    def labels(self) -> list[int]:
        """The labels whose rates they read."""
        return np.flatnonzero((self.weights != 0.0).any(axis=0)).tolist()

    def blocks(self, limited: Sequence[int], tied: Collection[int]) -> list[tuple[int, ...]]:
        """Return the ``limited`` labels and those that ceilings read; of ``tied`` ones those that they read alike."""
        found: dict[Any, list[int]] = {}
        for label in sorted({*limited, *self.labels}):
            found.setdefault(self.weights[:, label].tobytes() if label in tied else label, []).append(label)
        return [tuple(labels) for labels in found.values()]

    @classmethod
    def of(cls, limits: Limits, rows: Array) -> Budgets:
        """Return those of some limits, on labels that are true of the shares ``rows`` (L,)."""
        some = [j for j, one in enumerate(limits.constraints) if place_of(one) is None]
        signs = np.array([-1.0 if limits.constraints[j].is_floor else 1.0 for j in some])
        every = limits.fractions(rows, len(rows))
        rates = np.concatenate([np.zeros((0, len(rows))), *(every[j].top.pair()[1] for j in some)])
        ceilings = signs * [limits.constraints[j].limit for j in some]
        return cls(np.array(some, dtype=np.intp), signs[:, None] * rates, ceilings, signs)


def bind_labels(
    constraints: Any,
    classes: Sequence[Any],
    rows: Array,
    least: float = 0.0,
    barred: Sequence[int] = (),
) -> Limits | None:
    """Return ``constraints``, as for `confmax.constraints.resolve`, placed among labels; None if there are none.

    Parameters
    ----------
    constraints : str, Constraint, iterable of these, or None
        Limits on one label, on sums of rates, and on ``labels_per_row``; ``min_recall`` limits every label.
    classes : sequence
        Names of the L labels.
    rows : ndarray (L,)
        How often every label is true, as a fraction of all rows.
    least : float
        `Limits.least`, which searches over rules need.
    barred : sequence of int
        Labels that are never decided: a floor on the rates of these alone is refused.

    Raises
    ------
    ValueError
        If a constraint names no label, or an unknown one, or is of classes, of groups, or of a label that no row has.

    Examples
    --------
    >>> import numpy as np
    >>> limits = bind_labels(["recall[a] >= 0.8", "rate[a] + 2 rate[b] <= 0.5"], ["a", "b"], np.array([0.2, 0.1]))
    >>> limits.values(Confusion(*np.array([[0.2, 0.1], [0.1, 0.05], [0.3, 0.1]])))
    array([0.5, 0.5])
    """
    given = [each for one in resolve(constraints) for each in _of_present(one, classes, rows)]
    if not given:
        return None
    names = [str(plain(name)) for name in classes]
    placed = []
    for one in given:
        with naming(one):
            if one.of_groups:
                raise InputError("rules of several labels know no groups", "limit all rows, or leave it out")
            if isinstance(one.metric.formula, SumOfRates):
                one = _sum(one, names)
            elif one.metric.formula != LABELS_PER_ROW.formula:
                one = _of_one_label(one, names, rows)
            if set(one.metric.classes or range(len(names))) <= set(barred):
                refuse_undecided(one, "label")
        placed.append(one)
    return Limits(tuple(placed), kept_by_none=False, least=least)


def judged_labels(constraints: Any, classes: Sequence[Any], rows: Array) -> tuple[Limits | None, tuple[str, ...]]:
    """Return the constraints that labelled rows can judge, as `bind_labels` does, and the texts of the others.

    The others are of labels that no row has, whose recall and precision are not defined.
    """
    lacking = [str(plain(name)) for name, share in zip(classes, rows, strict=True) if share <= ABSENT]
    kept, absent = [], []
    for one in resolve(constraints):
        try:
            bind_labels(one, classes, rows)
        except ValueError:
            if one.metric.label is None or str(plain(one.metric.label)) not in lacking:
                raise
            absent.append(one.text)
        else:
            kept.append(one)
    return bind_labels(kept, classes, rows), tuple(absent)


def _of_present(one: Constraint, classes: Sequence[Any], rows: Array) -> list[Constraint]:
    """Return a floor on the smallest recall as one for every label that some row has; other limits as they are."""
    if not is_smallest(one.metric) or one.of_groups:
        return [one]
    return [each for each, share in zip(of_each(one, classes), rows, strict=True) if share > ABSENT]


def _sum(one: Constraint, names: Sequence[str]) -> Constraint:
    formula = one.metric.formula
    assert isinstance(formula, SumOfRates)
    columns = [_place(name, names, "add the rates of labels, such as rate[a] + rate[b]") for _, name in formula.terms]
    formula, classes = replace(formula, of_labels=True).placed([[k] for k in columns])
    return replace(one, metric=replace(one.metric, formula=formula, classes=classes))


def _of_one_label(one: Constraint, names: Sequence[str], rows: Array) -> Constraint:
    metric = one.metric
    if metric.one_class is None or metric.label is None or metric.formula.is_coverage:
        raise InputError(
            f"{metric_text(metric)} is of no label",
            "limit one label, such as recall[NAME], a sum of rates, or labels_per_row",
        )
    place = _place(metric.label, names)
    metric = label_view(metric, place)
    r = np.where(rows <= ABSENT, 0.0, np.where(rows >= 1.0 - ABSENT, 1.0, rows))
    perfect = Confusion(r, r, r)
    speaks_of_none = metric.formula.is_share and not metric.among(perfect) > 0.0
    if speaks_of_none or not without_errors(ratio_of(metric, r, len(r)), r):
        which = "no row has" if r[place] <= 0.5 else "every row has"
        raise InputError(
            f"{which} the label {metric.label}, so {metric_text(one.metric)} is 0 for every rule",
            "take other rows, or leave this limit out",
        )
    return replace(one, metric=metric)


def _place(name: Any, names: Sequence[str], hint: str = "") -> int:
    """Return the number of a label; a ValueError if there is none of this name."""
    text = str(plain(name))
    if text in names:
        return names.index(text)
    near = difflib.get_close_matches(text, names, 3)
    hint = several_in(text).removeprefix("; ") or hint
    listed = ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")
    raise InputError(
        f"there is no label {text!r}", f"did you mean {' or '.join(near)}?" if near else hint or f"labels are {listed}"
    )
