"""What became of constraints: their values at a rule, on the estimate it was tuned on and on labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from confmax.confusion import Array, Confusion
from confmax.constraints.limits import Limits
from confmax.constraints.proportions import interval, trials
from confmax.constraints.smallest import is_tested, of_each
from confmax.constraints.texts import metric_text
from confmax.constraints.words import Constraint
from confmax.metrics import Metric

NONE_DECIDED = "no decision"  # of a share of no row, which a limit may keep
BINDING = 1e-9  # a price below it is none
FEW_ROWS = 3.0  # by which a single rule keeps a limit that binds: its values have steps of rows
MOST_ROWS = 10**6  # that anybody has to test a limit on


@dataclass(frozen=True)
class GroupValue:
    """The quantity of a constraint in one group.

    Attributes
    ----------
    group : str, int or float
        Name of the group.
    value : float
        The quantity, under the confusion estimate that the rule was tuned on.
    label_value : float or None
        The quantity on the labels of this group's rows, if there are any.
    label_interval : tuple of two floats, or None
        Its interval, as that of `ConstraintOutcome`.
    label_rows : int or None
        Number of rows that it is a share of.
    vacuous : bool
        Whether the group keeps the limit because its ratio is 0/0, as `ConstraintOutcome.vacuous` says of all rows.
    """

    group: Any
    value: float
    label_value: float | None = None
    label_interval: tuple[float, float] | None = None
    label_rows: int | None = None
    vacuous: bool = False

    @property
    def shown(self) -> str:
        """The value as a text."""
        return NONE_DECIDED if self.vacuous else f"{round(self.value, 12) + 0.0:.4g}"


class Blocking(NamedTuple):
    """A class, a group, or a class of a group, whose test a limit with a confidence fails.

    ``name`` says which it is, ``label_value`` what its share is among the ``label_rows`` that test it, and
    ``rows_needed`` about how many would be enough; None where more rows do not help.
    """

    name: str
    label_value: float
    label_rows: int
    rows_needed: int | None


@dataclass(frozen=True)
class ConstraintOutcome:
    """One constraint at the rule that was returned.

    Attributes
    ----------
    text : str
        The constraint, such as ``recall[VF] >= 0.8``.
    limit : float
        Its number.
    value : float
        The quantity at the rule, under the confusion estimate that the rule was tuned on.
    slack : float
        By how much the limit is kept, in the unit of the quantity; negative if it is missed.
    label_value : float or None
        The quantity at the rule on the labels, if there are any.
    refuted_by : tuple of str
        The shares of labelled rows that refute the limit, such as "recall[VF] is 3 of 40 rows"; empty where none does.
        A rule that just keeps the limit in truth has so few rows right, or so many wrong, in less than one sample of
        twenty (exact one-sided binomial test). Of a limit on every group, or on the smallest recall, each group and
        each class is tested so by its own rows, and of a difference or a ratio of groups each pair, by the exact bounds
        of both. Nothing is tested without labels, with unequal weights, such as those of rows that `adapt` has
        weighted, and for quantities that are no shares of rows.
    price : float or None
        By how much the best value of the metric rises if the limit is loosened by one unit, to first order. Zero for a
        limit that costs nothing, and for one that the rule keeps by more than three rows: loosened a little, it changes
        nothing. None where no rule keeps all limits, and where a test asks for room: the rule keeps no limit just so.
    vacuous : bool
        Whether the limit is kept because its ratio is 0/0: a precision floor, and no row is decided as the class.
    label_interval : tuple of two floats, or None
        Exact binomial interval (Clopper and Pearson) around ``label_value``, of the two-sided level 0.95. It is one for
        new rows only if the rule was not tuned on the labelled rows; on tuning rows it shows how much few rows can say.
        None without labels, with unequal weights, and for quantities that are no shares of rows, such as `f1`.
    label_rows : int or None
        Number of rows that ``label_value`` is a share of; None where there is no interval.
    assured : bool or None
        Whether the limit holds on new rows with the ``confidence`` asked for, by a test on rows that tuned nothing;
        ``label_value`` is then that on these rows. In `MetricClassifierCV` a model of the folds decides these rows, and
        new rows are new to it: of a final model that was fitted on all rows, or averages the models, this says nothing.
        None if no confidence was asked for.
    rows_needed : int or None
        If it is not assured, about how many such rows would be enough at this ``label_value``: a little more than ``z^2
        f (1 - f) / margin^2`` with the limit f and the normal quantile z. Of a limit on every group it is the largest
        number that one of the groups needs whose tests fail (`blocking`). None if the limit is missed or just met
        there, and for a difference or a ratio of groups.
    model_slack : float or None
        By how much the limit is kept on the model's estimate alone; None where it was not computed.
    of_class : str, int, float or None
        Of a limit on the smallest recall, with a ``confidence``: the class whose rows `label_rows` and `rows_needed`
        count. It is the one that needs most of them, or where all classes pass the one with the smallest recall.
    blocking : tuple of Blocking
        Of a limit on the smallest recall, or on the value in every group, that is not assured: the classes and groups
        whose tests fail, with their rows.
    decided : float or None
        Of a limit on a share of the rows that are decided as a class, such as a precision: how many rows these are, as
        a fraction of all weight. None for other limits, and for limits of groups.
    by_group : tuple of GroupValue
        The quantity in every group, for a limit of groups; its value is then the smallest, the largest, their
        difference or their ratio.

    Examples
    --------
    >>> import confmax
    >>> P = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]]
    >>> outcome, = confmax.maximize("accuracy", P, constraints="recall[1] >= 0.7", randomized=True).constraints
    >>> outcome.text, round(outcome.value, 6), outcome.binding
    ('recall[1] >= 0.7', 0.7, True)
    """

    text: str
    limit: float
    value: float
    slack: float
    label_value: float | None = None
    price: float | None = None
    vacuous: bool = False
    label_interval: tuple[float, float] | None = None
    label_rows: int | None = None
    assured: bool | None = None
    rows_needed: int | None = None
    model_slack: float | None = None
    of_class: Any = None
    blocking: tuple[Blocking, ...] = ()
    by_group: tuple[GroupValue, ...] = ()
    decided: float | None = None
    refuted_by: tuple[str, ...] = ()

    @property
    def binding(self) -> bool:
        """Whether the limit costs something."""
        return self.price is not None and self.price > 0.0

    @property
    def is_hardly_met(self) -> bool:
        """Whether a limit that is not assured would need more rows than anybody has."""
        return self.rows_needed is not None and self.rows_needed > MOST_ROWS

    @property
    def refutation(self) -> str:
        """That labels refute a limit which is kept on the estimate, in words; empty if they do not."""
        by = self.refuted_by if self.kept_on_estimate else ()
        return f"refuted by the labels: {', '.join(by)}" if by else ""

    @property
    def kept_on_estimate(self) -> bool:
        """Whether the rule keeps the limit on the estimate that it was tuned on, whatever the labels say."""
        return self.slack >= 0.0

    @property
    def kept(self) -> bool:
        """Whether the rule keeps the limit on the estimate that it was tuned on, and labels do not refute this."""
        return self.kept_on_estimate and not self.refuted_by

    @property
    def parts(self) -> tuple[GroupValue, ...] | tuple[ConstraintOutcome]:
        """What holds the values that the limit is on: ``by_group``, or the outcome itself."""
        return self.by_group or (self,)

    @property
    def all_label_rows(self) -> int:
        """Number of labelled rows that were counted, of a limit of groups those of all groups."""
        return sum(part.label_rows or 0 for part in self.parts)


def outcomes(
    limits: Limits,
    S: Confusion,
    prices: Array | None,
    at: Confusion,
    *,
    rounding: float,
) -> tuple[ConstraintOutcome, ...]:
    """Return what became of each constraint at a rule whose confusion is ``S`` under the estimate that it was tuned on.

    ``prices`` (m,) are the derivatives of the best value by the functions of the limits, where the confusion is ``at``.
    Slacks that are missed by ``rounding`` or less are zero.
    """
    values = limits.values(S)
    slacks = rounded(limits.slacks(S), rounding)
    vacuous = limits.vacuous(S) & limits.kept_by_none
    worth = None
    if prices is not None:
        worth = prices_of(limits, prices, at)
    return tuple(
        ConstraintOutcome(
            one.text,
            one.limit,
            float(values[k]),
            float(slacks[k]),
            None,
            None if worth is None else float(worth[k]),
            bool(vacuous[k]),
            by_group=_by_group(limits, one, S),
            decided=_decided(limits, one, S),
        )
        for k, one in enumerate(limits.constraints)
    )


def prices_of(limits: Limits, prices: Array, at: Confusion) -> Array:
    """Return the prices (n,) of limits from the derivatives ``prices`` (m,) by their functions at a confusion."""
    worth = np.bincount(limits.owner(len(at.rows)), prices * limits.scales(at), minlength=len(limits))
    return np.where(worth < BINDING, 0.0, worth)


def without_slack(
    found: Sequence[ConstraintOutcome], limits: Limits, S: Confusion, n_rows: float
) -> tuple[ConstraintOutcome, ...]:
    """Return outcomes whose price is zero where a rule of confusion ``S`` on ``n_rows`` keeps the limit with slack.

    The prices are those of the best draw, which may just keep a limit where the rule has room. What the room is worth
    that a test asks for, they do not say.
    """
    if any(limits.tested):
        return tuple(replace(outcome, price=None) for outcome in found)
    return tuple(
        replace(outcome, price=0.0)
        if outcome.price and outcome.slack > FEW_ROWS * max(_step(m, S) for m in limits.members(one)) / n_rows
        else outcome
        for one, outcome in zip(limits.constraints, found, strict=True)
    )


def _step(metric: Metric, S: Confusion) -> float:
    """Return by how much a metric changes, per share of all rows, if they are decided otherwise, to first order."""
    first = metric.at(S)
    if first.matrix is not None:
        return float(np.ptp(first.matrix, axis=-1).max())
    return float(np.abs(first.diagonal).max() + np.abs(first.columns).max())


def on_labels(
    found: Sequence[ConstraintOutcome], limits: Limits, S: Confusion, n_labelled: int | None, classes: Sequence[Any]
) -> tuple[ConstraintOutcome, ...]:
    """Return outcomes with what labels of ``classes`` (K,) say: the confusion ``S`` of the rule on ``n_labelled`` rows.

    Their number is None if their weights are not equal.
    """
    filled = []
    for one, outcome, value in zip(limits.constraints, found, limits.values(S).tolist(), strict=True):
        members = limits.members(one)
        parts = tuple(
            replace(part, **_counted(metric, float(metric.values(S)), S, n_labelled))
            for part, metric in zip(outcome.by_group, members, strict=False)
        )
        whole = _counted(members[0], value, S, None if one.of_groups else n_labelled)
        refuted = () if n_labelled is None else _refuted_by(limits, one, S, n_labelled, classes)
        filled.append(replace(outcome, **whole, by_group=parts, refuted_by=refuted))
    return tuple(filled)


def _refuted_by(limits: Limits, one: Constraint, S: Confusion, n: int, classes: Sequence[Any]) -> tuple[str, ...]:
    """Return the shares that refute a limit, of a rule whose confusion is ``S`` on ``n`` labelled rows."""
    if not is_tested(one.metric):
        return ()
    names = limits.groups if one.of_groups else (None,)
    texts, shares, sizes = [], [], []
    for part in of_each(one, classes if limits.layout is None else classes[: limits.layout.n_classes]):
        for group, metric in zip(names, limits.members(part), strict=True):
            texts.append(metric_text(part.metric, group if group is None else str(group)))
            shares.append(float(metric.values(S)))
            sizes.append(trials(metric, S, n))
    places = one.across.refuted(one.stated, shares, sizes)
    return tuple(f"{texts[k]} is {round(shares[k] * sizes[k]):,} of {round(sizes[k]):,} rows" for k in places)


def _counted(metric: Metric, value: float, S: Confusion, n: int | None) -> dict[str, Any]:
    """Return a value on labels; of a share of ``n`` rows of equal weight its interval, and of how many rows it is."""
    if n is None or not metric.formula.is_share:
        return {"label_value": value, "label_interval": None, "label_rows": None}
    among = trials(metric, S, n)
    return {"label_value": value, "label_interval": interval(value, among), "label_rows": round(among)}


def price_note(metric: str, prices: Sequence[float | None], *, falls: bool = False) -> str:
    """Return in a sentence what the prices of limits are, with the highest as an example; nothing if none costs.

    The best value of the ``metric`` rises where a limit is loosened, or ``falls``: that of a cost.
    """
    rises = "falls" if falls else "rises"
    highest = max((price or 0.0 for price in prices), default=0.0)
    if highest <= 0.0:
        return ""
    return (
        f"price: by how much {metric} {rises} per unit by which the limit is loosened, to first order; with "
        f"{highest:.4g} it {rises} by {highest / 100.0:.2g} if the limit is loosened by 0.01"
    )


def on_model(
    found: Sequence[ConstraintOutcome], limits: Limits, S: Confusion, *, rounding: float
) -> tuple[ConstraintOutcome, ...]:
    """Return outcomes with the slacks of the rule's confusion ``S`` on the model, as in `outcomes`."""
    slacks = rounded(limits.slacks(S), rounding)
    return tuple(replace(one, model_slack=float(slack)) for one, slack in zip(found, slacks, strict=True))


def rounded(slacks: Array, rounding: float) -> Array:
    """Return ``slacks`` (m,) where those that miss a limit by no more than ``rounding`` are zero."""
    return np.asarray(np.where((slacks < 0.0) & (slacks >= -rounding), 0.0, slacks) + 0.0)


def _decided(limits: Limits, one: Constraint, S: Confusion) -> float | None:
    """Return how much weight is decided as the class of a limit on a share of it; None for other limits."""
    if one.of_groups or one.metric.formula.side != "decided":
        return None
    (metric,) = limits.members(one)
    return float(metric.among(S))


def _by_group(limits: Limits, one: Constraint, S: Confusion) -> tuple[GroupValue, ...]:
    """Return the values of a limit of groups in each of them; nothing for others."""
    if not one.of_groups:
        return ()
    values, nothing = limits.of_all_members(S)[limits.constraints.index(one)]
    found = zip(limits.groups, values.tolist(), (nothing & limits.kept_by_none).tolist(), strict=True)
    return tuple(GroupValue(name, value, vacuous=vacuous) for name, value, vacuous in found)
