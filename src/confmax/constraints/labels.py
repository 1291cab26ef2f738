"""Limits where rows have several labels: on one label, on a weighted sum of rates, and on the labels per row.

Of one label there are two columns, the rows without it and the rows with it. Its limits are those of a class against
the rest, so all their formulas hold. A search over rules reads them as functions of the statistics of all labels
(`LabelLimits.functions`).
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import ABSENT, Array, Confusion, Gains
from confmax.constraints.each_class import is_smallest, of_each
from confmax.constraints.grammar import resolve
from confmax.constraints.limits import Limits, is_read_back, naming, refuse_undecided
from confmax.constraints.outcomes import BINDING, ConstraintOutcome, on_labels
from confmax.constraints.texts import metric_text
from confmax.constraints.words import Constraint
from confmax.errors import InputError
from confmax.metrics import Metric
from confmax.metrics.first_order import FirstOrder, Formula
from confmax.metrics.limited import ratio_of, without_errors
from confmax.metrics.rates import LABELS_PER_ROW, SumOfRates
from confmax.metrics.ratios import Ratios
from confmax.metrics.structure import AffineFunctions, Linear, MeanFloor, Ratio, Statistics
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
    least : float
        The share of all rows that a ratio with a floor counts at least, such as that of the rows with a label whose
        precision is limited. A ratio of no rows keeps no floor.
    """

    constraints: tuple[Constraint, ...]
    places: tuple[int | None, ...]
    weights: Array
    least: float = 0.0
    # what solvers read of limits, as `confmax.optimize.mixture.Limits` says: they are on no single class
    statistics: ClassVar[Statistics] = "columns"
    only_class: ClassVar[None] = None
    ask_for_hits: ClassVar[bool] = False
    least_rows: ClassVar[int] = 1

    def __len__(self) -> int:
        return len(self.constraints)

    @property
    def texts(self) -> tuple[str, ...]:
        """The constraints as text."""
        return tuple(one.text for one in self.constraints)

    @property
    def stored(self) -> tuple[str, ...]:
        """The texts that say all, as `Limits.stored`."""
        return tuple(one.text for one in self.constraints if is_read_back(one))

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

    # --- for searches over rules ---

    @property
    def are_linear(self) -> bool:
        """Whether every one of `functions` is a slack."""
        return all(one.metric.structure.is_linear for one in self.constraints)

    def of_class(self, k: int, n_classes: int) -> LabelLimits:
        """Return no limits, but raise a TypeError: no class is that of all, to be column ``k`` of ``n_classes``."""
        raise TypeError("limits on labels are on no single class")

    def leeway(self, n_classes: int) -> Array:
        """Return by how much values of groups may differ (m,), of ``n_classes`` labels: infinity, as there are none."""
        return np.full(len(self) + sum(map(self._may_be_of_none, range(len(self)))), np.inf)

    def curves(self, n_classes: int) -> tuple[MeanFloor, ...]:
        """Return the floors on means of the recalls of ``n_classes`` labels: none."""
        return ()

    def without(self, j: int) -> LabelLimits | None:
        """Return all limits but that of constraint ``j``; None if there are no others."""
        left = [k for k in range(len(self)) if k != j]
        if not left:
            return None
        constraints = tuple(self.constraints[k] for k in left)
        places = tuple(self.places[k] for k in left)
        return replace(self, constraints=constraints, places=places, weights=self.weights[left])

    def ratio(self, j: int, rows: Array) -> Ratios:
        """Return the quantity of constraint ``j`` as a ratio of linear functions, where ``rows`` (L,) have the labels.

        With t of all rows hits, and q decided, the columns of the rest and the label have ``1 - r - q + t`` and t hits,
        and ``1 - q`` and q decisions.
        """
        L = len(rows)
        place = self.places[j]
        one, none = np.ones(1), Gains.reduced(np.zeros(L))
        if place is None:
            return Ratios(Gains.reduced(np.zeros(L), self.weights[j]), none, 0.0 * one, one, one, one)
        r = float(rows[place])
        parts = ratio_of(self.constraints[j].metric, two_columns(r, r, r).rows, 2)
        unit = np.eye(1, L, place)

        def moved(gains: Gains, constant: Array) -> tuple[Gains, Array]:
            (a,), (b,) = gains.pair()
            return Gains.reduced(a.sum() * unit, (b[1] - b[0] - a[0]) * unit), constant + a[0] * (1.0 - r) + b[0]

        top, top_constant = moved(parts.top, parts.top_constant)
        bottom, bottom_constant = moved(parts.bottom, parts.bottom_constant)
        return replace(parts, top=top, bottom=bottom, top_constant=top_constant, bottom_constant=bottom_constant)

    def functions(self, rows: Array, n_decisions: int) -> AffineFunctions:
        """Return the functions (m) that must not fall below zero, as `Limits.functions`, where ``rows`` (L,) are true.

        ``n_decisions`` is L.
        The first n are those of the constraints. Behind them are the denominators, less what is `least`, of floors on
        ratios of possibly no rows.
        """
        gains, constants, further = [], [], []
        for j, one in enumerate(self.constraints):
            parts = self.ratio(j, rows)
            factor = one.stated.sign / self._without_errors(parts, rows)
            gains.append(parts.gains(np.array([one.limit])).times(factor))
            constants.append(factor * (parts.top_constant - one.limit * parts.bottom_constant))
            if self._may_be_of_none(j):
                further.append(parts)
        return AffineFunctions(
            Gains.concatenate([*gains, *(parts.bottom for parts in further)]),
            np.concatenate([*constants, *(parts.bottom_constant - self.least for parts in further)]) + 0.0,
        )

    def prices(self, prices: Array, S: Confusion) -> Array:
        """Return the prices (n,) of the constraints from ``prices`` (m,) of `functions` at statistics ``S``."""
        parts = [self.ratio(j, S.rows) for j in range(len(self))]
        scales = [float(part.denominators(S)[0]) / self._without_errors(part, S.rows) for part in parts]
        worth = prices[: len(self)] * scales
        return np.where(worth < BINDING, 0.0, worth)

    def quantity(self, j: int) -> Metric:
        """Return what constraint ``j`` limits, as a metric of the statistics of all labels."""
        one = self.constraints[j].metric
        parts = partial(self.ratio, j)
        structure = Linear(fractions=parts) if one.structure.is_linear else Ratio(fractions=parts)
        return Metric(one.name, Limited(self, j), structure, "columns", range=one.range, use="within limits")

    def _may_be_of_none(self, j: int) -> bool:
        """Whether constraint ``j`` is a floor on a share of the rows with some decision, of which there may be none."""
        one = self.constraints[j]
        return one.is_floor and one.limit > 0.0 and one.metric.formula.side is not None

    def _without_errors(self, parts: Ratios, rows: Array) -> float:
        """Return the denominator of a ratio where every label is decided for the rows that have it."""
        return float(parts.denominators(Confusion(rows, rows, rows))[0]) or 1.0

    # --- at a rule ---

    def values(self, S: Confusion) -> Array:
        """Return the values (..., n) of the quantities at the statistics ``S`` (L,), or at each of a batch (...)."""
        return np.stack([self.value_of(j, S) for j in range(len(self.places))], axis=-1)

    def value_of(self, j: int, S: Confusion) -> Array:
        """Return the value of the quantity of constraint ``j`` at ``S``, or the values (...) at a batch."""
        return np.asarray(self._of_one(j).values(self._read(j, S))[..., 0])

    def slacks(self, S: Confusion, rounding: float = 0.0) -> Array:
        """Return by how much each limit is kept (..., n) at ``S``; misses of up to ``rounding`` are zero."""
        slacks = np.stack([self._of_one(j).slacks(self._read(j, S))[..., 0] for j in range(len(self))], axis=-1)
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


@dataclass(frozen=True, eq=False)
class Limited(Formula):
    """The quantity of constraint ``j`` of ``limits``."""

    limits: LabelLimits
    j: int
    whole: ClassVar[bool] = True

    def __call__(self, S: Confusion, **_: Any) -> FirstOrder:
        """Return value and derivatives."""
        # all members of a batch are of the same rows
        parts = self.limits.ratio(self.j, S.rows.reshape(-1, S.rows.shape[-1])[0])
        value = self.values(S)
        (a,), (b,) = parts.top.pair()
        (c,), (d,) = parts.bottom.pair()
        below = np.asarray(S.diagonal @ c + S.columns @ d + parts.bottom_constant[0])
        unit = np.divide(1.0, below, out=np.zeros_like(below), where=below > ABSENT)[..., None]
        by_hits, by_decided = (unit * (up - value[..., None] * down) for up, down in ((a, c), (b, d)))
        return FirstOrder(value, by_hits, by_decided + 0.0, np.zeros_like(S.diagonal))

    def values(self, S: Confusion, **_: Any) -> Array:
        """Return the values alone."""
        return self.limits.value_of(self.j, S)


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


def bind_labels(
    constraints: Any,
    classes: Sequence[Any],
    rows: Array,
    least: float = 0.0,
    barred: Sequence[int] = (),
) -> LabelLimits | None:
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
        `LabelLimits.least`, which searches over rules need.
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
    >>> limits.places, limits.weights.tolist()
    ((0, None), [[0.0, 0.0], [1.0, 2.0]])
    """
    given = [each for one in resolve(constraints) for each in _of_present(one, classes, rows)]
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
            if set(np.flatnonzero(weights[j]) if place is None else (place,)) <= set(barred):
                refuse_undecided(one, "label")
        placed.append(one)
        places.append(place)
    return LabelLimits(tuple(placed), tuple(places), weights, least)


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


def _of_present(one: Constraint, classes: Sequence[Any], rows: Array) -> list[Constraint]:
    """Return a floor on the smallest recall as one for every label that some row has; other limits as they are."""
    if not is_smallest(one.metric) or one.of_groups:
        return [one]
    return [each for each, share in zip(of_each(one, classes), rows, strict=True) if share > ABSENT]


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
