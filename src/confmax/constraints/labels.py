"""Limits where rows have several labels: on one label, on a weighted sum of rates, and on the labels per row.

Of one label there are two columns, the rows without it and the rows with it. Its limits are those of a class against
the rest, so all their formulas hold.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import ABSENT, Array, Confusion
from confmax.constraints.grammar import resolve
from confmax.constraints.limits import Limits, naming
from confmax.constraints.outcomes import ConstraintOutcome, on_labels
from confmax.constraints.texts import metric_text
from confmax.constraints.words import Constraint
from confmax.errors import InputError
from confmax.metrics.limited import ratio_of, without_errors
from confmax.metrics.rates import LABELS_PER_ROW, SumOfRates
from confmax.tables.labels import plain

SHOWN = 8  # labels in a sentence
ROUNDING = 1e-12  # of sums of the weights of all rows, which are one


@dataclass(frozen=True, eq=False)
class LabelLimits:
    """Constraints on L labels, in their order; `bind_labels` makes them.

    Attributes
    ----------
    constraints : tuple of Constraint
        Of one label in two columns, the rest and the label.
    places : tuple
        The label of each constraint; None for one on a sum of rates.
    weights : ndarray (n, L)
        The weights of the rates in each of the n constraints; zero for those of one label.
    """

    constraints: tuple[Constraint, ...]
    places: tuple[int | None, ...]
    weights: Array

    @property
    def texts(self) -> tuple[str, ...]:
        """The constraints as text."""
        return tuple(one.text for one in self.constraints)

    @property
    def labels(self) -> list[int]:
        """The labels that have limits of their own."""
        return sorted({place for place in self.places if place is not None})

    @property
    def budgets(self) -> NDArray[np.intp]:
        """Which constraints (m,) are on sums of rates."""
        return np.flatnonzero([place is None for place in self.places])

    def of_label(self, label: int) -> Limits:
        """Return the limits of one ``label``, in two columns.

        A precision of no decision keeps no floor: a label that is never decided says nothing of its precision.
        """
        own = (one for one, place in zip(self.constraints, self.places, strict=True) if place == label)
        return Limits(tuple(own), kept_by_none=False)

    def ceilings(self) -> tuple[Array, Array]:
        """Return the sums of rates as ceilings: weights (m, L) of the rates, and numbers (m,) not to be exceeded."""
        some = self.budgets
        signs = np.array([-1.0 if self.constraints[j].is_floor else 1.0 for j in some])
        return signs[:, None] * self.weights[some], signs * [self.constraints[j].limit for j in some]

    def values(self, S: Confusion) -> Array:
        """Return the values (..., n) of the quantities at the statistics ``S`` (L,), or at each of a batch (...)."""
        return np.stack([self.value_of(j, S) for j in range(len(self.places))], axis=-1)

    def value_of(self, j: int, S: Confusion) -> Array:
        """Return the value of the quantity of constraint ``j`` at ``S``, or the values (...) at a batch."""
        return np.asarray(self._of_one(j).values(self._read(j, S))[..., 0])

    def slacks(self, S: Confusion, rounding: float = 0.0) -> Array:
        """Return by how much each limit is kept (n,) at ``S``; misses of up to ``rounding`` are zero."""
        slacks = np.array([self._of_one(j).slacks(self._read(j, S))[0] for j in range(len(self.places))])
        return np.where((slacks < 0.0) & (slacks >= -rounding), 0.0, slacks) + 0.0

    def outcomes(
        self,
        S: Confusion,
        labels: Confusion | None,
        model: Confusion | None,
        prices: Array | None,
        *,
        rounding: float,
        n_labelled: int | None,
    ) -> tuple[ConstraintOutcome, ...]:
        """Return what became of each constraint at a rule, with its statistics ``S`` (L,) on the estimate used.

        Those on the ``labels`` and on the ``model`` are None where there are none. ``n_labelled`` rows have labels,
        None if their weights are not equal. ``prices`` (n,) are NaN where none is known. Slacks that are missed by
        ``rounding`` or less are zero.
        """
        values, slacks = self.values(S), self.slacks(S, rounding)
        on_model = None if model is None else self.slacks(model, rounding)
        found = []
        for j, one in enumerate(self.constraints):
            price = None if prices is None or np.isnan(prices[j]) else float(prices[j])
            far = None if on_model is None else float(on_model[j])
            outcome = ConstraintOutcome(
                one.text, one.limit, float(values[j]), float(slacks[j]), price=price, model_slack=far
            )
            if one.metric.formula.side == "decided":
                outcome = replace(outcome, decided=float(one.metric.among(self._read(j, S))))
            if labels is not None:
                there = self._read(j, labels)
                n_rows = None if self.places[j] is None else n_labelled
                (outcome,) = on_labels([outcome], self._of_one(j), there, n_rows)
            found.append(outcome)
        return tuple(found)

    def _of_one(self, j: int) -> Limits:
        return Limits((self.constraints[j],), kept_by_none=False)

    def _read(self, j: int, S: Confusion) -> Confusion:
        """Return what constraint ``j`` reads: two columns, or the rates of all labels."""
        place = self.places[j]
        if place is None:
            return Confusion(S.rows, S.diagonal, S.columns)
        return two_columns(S.rows[..., place], S.diagonal[..., place], S.columns[..., place])


def two_columns(rows: Any, hits: Any, decided: Any) -> Confusion:
    """Return the confusions (...) of the rest and a label that is true of the share ``rows``, a number or (...).

    ``decided`` (...) are the shares of all rows that get the label, and ``hits`` (...) those of them that have it.
    """
    return Confusion(
        np.stack([_difference(1.0 - rows), np.asarray(rows)], -1),
        np.stack([_difference(1.0 - rows - decided + hits), np.asarray(hits)], -1),
        np.stack([_difference(1.0 - decided), np.asarray(decided)], -1),
    )


def _difference(value: Any) -> Any:
    """Return a difference of sums, which rounding may leave a little beside zero."""
    return np.where(value > ROUNDING, value, 0.0)


def bind_labels(constraints: Any, classes: Sequence[Any], rows: Array) -> LabelLimits | None:
    """Return ``constraints``, as for `confmax.constraints.resolve`, placed among labels; None if there are none.

    Parameters
    ----------
    constraints : str, Constraint, iterable of these, or None
        Limits on one label, on sums of rates, and on ``labels_per_row``.
    classes : sequence
        Names of the L labels.
    rows : ndarray (L,)
        How often every label is true, as a fraction of all rows.

    Raises
    ------
    ValueError
        If a constraint names no label, or an unknown one, or is of classes, of groups, or of a label that no row has.

    Examples
    --------
    >>> import numpy as np
    >>> limits = bind_labels(["recall[a] >= 0.8", "rate[a] + 2 rate[b] <= 0.5"], ["a", "b"], np.array([0.2, 0.1]))
    >>> limits.places, limits.weights.tolist()
    ((0, None), [[0.0, 0.0], [1.0, 2.0]])
    """
    given = resolve(constraints)
    if not given:
        return None
    names = [str(plain(name)) for name in classes]
    placed, places = [], []
    weights = np.zeros((len(given), len(names)))
    for j, one in enumerate(given):
        with naming(one):
            if one.of_groups:
                raise InputError("rules of several labels know no groups", "limit all rows, or leave it out")
            place = None
            if one.metric.formula == LABELS_PER_ROW.formula:
                weights[j] = 1.0
            elif isinstance(one.metric.formula, SumOfRates):
                one, weights[j] = _sum(one, names)
            else:
                one, place = _of_one_label(one, names, rows)
        placed.append(one)
        places.append(place)
    return LabelLimits(tuple(placed), tuple(places), weights)


def judged_labels(constraints: Any, classes: Sequence[Any], rows: Array) -> tuple[LabelLimits | None, tuple[str, ...]]:
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


def _sum(one: Constraint, names: Sequence[str]) -> tuple[Constraint, Array]:
    formula = one.metric.formula
    assert isinstance(formula, SumOfRates)
    columns = [_place(name, names, "add the rates of labels, such as rate[a] + rate[b]") for _, name in formula.terms]
    formula, classes = formula.placed([[k] for k in columns])
    assert isinstance(formula, SumOfRates)
    weights = np.zeros(len(names))
    weights[list(classes)] = formula.weights
    return replace(one, metric=replace(one.metric, formula=formula, classes=classes)), weights


def _of_one_label(one: Constraint, names: Sequence[str], rows: Array) -> tuple[Constraint, int]:
    metric = one.metric
    if metric.one_class is None or metric.label is None or metric.formula.is_coverage:
        raise InputError(
            f"{metric_text(metric)} is of no label",
            "limit one label, such as recall[NAME], a sum of rates, or labels_per_row",
        )
    place = _place(metric.label, names)
    metric = replace(metric, classes=None).of_class(1, 2)
    r = float(rows[place])
    r = 0.0 if r <= ABSENT else 1.0 if r >= 1.0 - ABSENT else r
    perfect = two_columns(r, r, r)
    speaks_of_none = metric.formula.is_share and not metric.among(perfect) > 0.0
    if speaks_of_none or not without_errors(ratio_of(metric, perfect.rows, 2), perfect.rows):
        which = "no row has" if r <= 0.5 else "every row has"
        raise InputError(
            f"{which} the label {metric.label}, so {metric_text(one.metric)} is 0 for every rule",
            "take other rows, or leave this limit out",
        )
    return replace(one, metric=metric), place


def _place(name: Any, names: Sequence[str], hint: str = "") -> int:
    """Return the number of a label; a ValueError if there is none of this name."""
    text = str(plain(name))
    if text in names:
        return names.index(text)
    near = difflib.get_close_matches(text, names, 3)
    listed = ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")
    raise InputError(
        f"there is no label {text!r}", f"did you mean {' or '.join(near)}?" if near else hint or f"labels are {listed}"
    )
