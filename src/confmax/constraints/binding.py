"""Constraints placed among the classes of a table; those that contradict it, or each other, are refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from confmax.confusion import Array, Confusion
from confmax.constraints.grammar import resolve
from confmax.constraints.limits import Limits
from confmax.constraints.texts import metric_text, number_text
from confmax.constraints.words import Constraint, several_in
from confmax.errors import InputError, extended
from confmax.metrics import Metric
from confmax.metrics.alignment import fit_metric, with_positive
from confmax.metrics.decided import as_written, of_decided
from confmax.metrics.limited import ratio_of, without_errors
from confmax.metrics.rates import LABELS_PER_ROW, SumOfRates
from confmax.metrics.shares import RATE, Share
from confmax.metrics.views import without_view
from confmax.tables import Table, refuse_too_few_classes
from confmax.tables.labels import plain

if TYPE_CHECKING:
    from confmax.tables.group_shares import GroupShares
    from confmax.tables.groups import Groups

MOST_ENTRIES = 1 << 27  # of all rows together: 1 GiB
SHOWN = 8  # groups in a sentence
ALIKE = 1e-12  # difference between limits that rounding explains


def bind(
    constraints: Any,
    table: Table,
    *,
    explicit: bool,
    pos_label: Any = None,
    n_decisions: int | None = None,
    abstains: bool = False,
    barred: Sequence[int] = (),
) -> Limits | None:
    """Return ``constraints``, as for `resolve`, placed among the classes of a ``table``; None if there are none.

    ``explicit`` says whether the order of the classes was given, ``pos_label`` which of two classes is the positive
    one, ``n_decisions`` between how many decisions rules choose (None: those of the tables of costs, or K).
    ``abstains`` says that the last of K + 1 decisions is to abstain: metrics are then those of what is decided.
    The groups of the rows, which the table brings, lie side by side if a constraint speaks of them. Rules never decide
    classes that are ``barred``: a limit that such a rule misses, such as a floor on the rate of one, is refused.

    Raises
    ------
    ValueError
        If a constraint cannot be used on this table: it names an unknown class or one without weight, or depends on the
        order of the classes and that was not given. Also if two contradict each other, whatever the table; so do a
        floor and a lower ceiling of one precision, though a class that is never decided would keep both.
    """
    given = resolve(constraints)
    if not given:
        return None
    K = table.n_classes
    placed = tuple(_placed(one, table, explicit=explicit, pos_label=pos_label, abstains=abstains) for one in given)
    # decisions beyond the classes are those of a table of costs
    M = n_decisions or max(one.metric.n_decisions(K) for one in placed)
    for one in placed:
        with naming(one):
            one.metric.check_table(K, M)
            about = one.metric.classes or ()
            if about and set(about if one.metric.class_place is None else (one.metric.class_place,)) <= set(barred):
                refuse_undecided(one, "class")
    limits = Limits(placed)
    if limits.speak_of_groups:
        limits = _in_groups(limits, table, M - K)
    m = len(limits.owner(K if limits.layout is None else limits.layout.all_classes))
    whole = limits.statistics == "matrix"
    if m * (K * M if whole else K + M) > MOST_ENTRIES:
        raise ValueError(
            f"these constraints are {m:,} linear functions of {K:,} classes, too many to hold; limit single classes "
            f"instead of min_recall, or leave out the metrics that read the whole matrix"
        )
    _refuse_contradictions(placed, [str(plain(name)) for name in table.classes], M)
    return limits


def judged(constraints: Any, table: Table, *, abstains: bool = False) -> tuple[Limits | None, tuple[str, ...]]:
    """Return the constraints that the labels of a ``table`` can judge, as `bind` does, and the texts of the others.

    The others are those of classes without rows, in the table or in one of the groups of its rows, whose recall and
    precision are not defined, what compares groups where there is one, and what names groups without rows. ``abstains``
    is that of `bind`.
    """
    present = table.label_weight() > 0.0
    lacking = [str(plain(name)) for name, has in zip(table.classes, present, strict=True) if not has]
    groups = table.groups
    kept = []
    absent = []
    for one in resolve(constraints):
        try:
            placed = _placed(one, table, explicit=True, pos_label=None, abstains=abstains)
        except ValueError:
            if one.metric.label not in lacking:
                raise
            absent.append(one.text)
        else:
            alone = one.across.compares and groups is not None and len(groups) < 2
            unknown = groups is not None and _unknown(one, groups)
            lacks = alone or unknown or _lacking([placed], table)
            (absent.append(one.text) if lacks else kept.append(one))
    return bind(kept, table, explicit=True, abstains=abstains), tuple(absent)


def _in_groups(limits: Limits, table: Table, n_further: int) -> Limits:
    """Return limits some of which speak of the groups of the rows, which lie side by side.

    Raise a ValueError if there are no groups, one that is named is none, or one lacks a class that a limit divides by.
    """
    about = next(one for one in limits.constraints if one.of_groups)
    groups = table.groups
    if groups is None:
        raise InputError(
            f"the constraint {about.text!r} speaks of groups, and there are none",
            "pass `group=`, the group of every row",
        )
    if len(groups) < 2 and about.across.compares:
        raise InputError(
            f"the constraint {about.text!r} compares groups, and there is one",
            "pass `group=` with several, or leave the constraint out",
        )
    for group, size in zip(groups.names, _sizes(table).sum(axis=1), strict=True):
        if size <= 0.0:
            raise ValueError(f"group {group!r} has no weight; leave its rows out")
    for one in limits.constraints:
        for name in _unknown(one, groups):
            raise ValueError(
                f"the constraint {one.text!r} cannot be used: there is no group {name!r}; the groups are "
                f"{', '.join(_texts(groups)[:SHOWN])}{', ...' if len(groups) > SHOWN else ''}"
            )
    for one, group, name in _lacking(limits.constraints, table):
        raise ValueError(
            f"the constraint {one.text!r} cannot be used: group {group!r} has no row of class {name!r}; join groups, "
            f"or limit a quantity that every group has, such as its rate"
        )
    layout = table.side_by_side(n_further).layout
    places = {name: g for g, name in enumerate(_texts(groups))}
    placed = tuple(
        replace(one, across=one.across.placed(tuple(places[name] for name in one.across.named)))
        for one in limits.constraints
    )
    return Limits(placed, layout, groups.names)


def _texts(groups: Groups | GroupShares) -> list[str]:
    """Return the names of groups as texts name them."""
    return [str(plain(name)).strip() for name in groups.names]


def _unknown(one: Constraint, groups: Groups | GroupShares) -> list[str]:
    """Return the groups that a constraint names, and that are none of these."""
    return [name for name in one.across.named if name not in _texts(groups)]


def _lacking(constraints: Sequence[Constraint], table: Table) -> list[tuple[Constraint, Any, Any]]:
    """Return the limits of groups that divide by the size of a class which a group has no row of, with both names."""
    about = [one for one in constraints if one.of_groups]
    if table.groups is None or not about:
        return []
    sizes = _sizes(table)
    return [
        (one, table.groups.names[g], plain(table.classes[k]))
        for one in about
        for k in as_written(one.metric).divided_by(table.n_classes)
        for g in np.flatnonzero(sizes[:, k] <= 0.0).tolist()
    ]


def _sizes(table: Table) -> Array:
    """Return the weight of each class in each group (G, K), by labels if there are any."""
    beside = table.side_by_side()
    weights: Array = beside.label_weight() if table.has_labels else beside.mean_probability()
    return weights.reshape(len(table.groups), -1)


def refuse_undecided(one: Constraint, what: str) -> None:
    """Refuse, by a ValueError, a limit on a class, or on ``what``, that no rule decides, if such rules miss it."""
    if one.across.compares:
        return
    metric = as_written(without_view(one.metric))
    rest = np.array([1.0, 0.0])
    # a sum of rates is zero
    one_of_two = None if isinstance(metric.formula, SumOfRates) else replace(metric, classes=None).of_class(1, 2)
    value = 0.0 if one_of_two is None else float(one_of_two.values(Confusion(rest, rest, rest)))
    if value < one.limit if one.is_floor else value > one.limit:
        raise InputError(
            f"no row of `y` has this {what}, so no rule decides it, and the quantity is {number_text(value)}",
            f"take rows that include this {what}, or leave this limit out",
        )


@contextmanager
def naming(one: Constraint) -> Iterator[None]:
    """Name the constraint in the sentence of an error."""
    try:
        yield
    except ValueError as error:
        raise extended(error, f"the constraint {one.text!r} cannot be used: ") from error


def _placed(one: Constraint, table: Table, *, explicit: bool, pos_label: Any, abstains: bool) -> Constraint:
    """Return a constraint whose metric is placed among the classes of a table."""
    # a constraint that was placed on another table is placed again by its name
    metric = as_written(one.metric)
    if metric.label is not None or metric.formula.class_names:
        metric = replace(metric, classes=None)
    if metric.formula.is_coverage and not abstains:
        with naming(one):
            raise InputError(
                "coverage is the share of rows that are decided, and this rule decides all rows",
                "pass `abstain=True`, or leave it out",
            )
    if metric.formula == LABELS_PER_ROW.formula:
        with naming(one):
            raise InputError(
                "every row has one class", "pass `decisions='any'` for several labels per row, or leave it out"
            )
    if isinstance(metric.formula, SumOfRates):
        low, high = one.range
        if not low <= one.limit <= high:
            ends = f"{number_text(low)} and {number_text(high)}"
            with naming(one):
                raise ValueError(
                    f"every row has one class, so the sum lies between {ends}; choose a limit between them"
                )
    several = several_in(str(metric.label))
    with naming(one):
        try:
            metric = fit_metric(with_positive(metric, table.classes, pos_label), table, explicit=explicit)
        except ValueError as error:
            raise extended(error, after=several) from error
        metric = _labelled(metric, table.classes)
        present = refuse_too_few_classes(table)
        shares = present / present.sum()
        # fit_metric has refused the coverage of an absent class
        divides = metric.one_class is not None and not metric.formula.is_coverage
        if divides and not without_errors(ratio_of(metric, shares, table.n_classes), shares):
            source = "`y`" if table.has_labels else "`proba`"
            raise InputError(
                f"{source} has no weight in class {metric.label}, so {metric_text(metric)} is 0 for every rule",
                "take rows that include this class, or leave this limit out",
            )
        if not abstains:
            return replace(one, metric=metric)
        decided = of_decided(metric, table.n_classes)
        if not decided.structure.is_ratio:
            raise ValueError(
                f"of the rows that are decided, {metric_text(metric)} is neither linear nor a ratio; beside abstain "
                f"limit accuracy, coverage, or the recall, precision, f1 or coverage of single classes"
            )
        return replace(one, metric=decided)


def _labelled(metric: Metric, classes: Sequence[Any]) -> Metric:
    """Return a metric of the positive one of two ``classes`` by the name of this class; others as they are."""
    if metric.one_class is None or metric.label is not None:
        return metric
    k = (metric.classes or (0, 1))[-1]
    name = str(plain(classes[k]))
    described = metric.described(name)
    named = replace(metric, label=name, binary=False, ordered=False, description=described, classes=None)
    return named.of_class(k, len(classes))


# --- contradictions ---------------------------------------------------------------------------------------------------


def _refuse_contradictions(placed: Sequence[Constraint], names: Sequence[str], n_decisions: int) -> None:
    """Refuse, by a ValueError, limits that no rule on any table keeps."""
    floors: dict[Any, tuple[float, Constraint]] = {}
    ceilings: dict[Any, tuple[float, Constraint]] = {}
    for one in placed:
        key, limit, is_floor = _as_limited(one)
        tightest = floors if is_floor else ceilings
        if key not in tightest or (limit > tightest[key][0]) == is_floor:
            tightest[key] = (limit, one)
    for key, (low, floor) in floors.items():
        high, ceiling = ceilings.get(key, (np.inf, floor))
        if low > high + ALIKE:
            raise ValueError(f"the constraints {floor} and {ceiling} contradict each other; loosen one of them")
    of_rates = (
        {key: limit for key, (limit, _) in limits.items() if key[0] == RATE and not key[-1].of_groups}
        for limits in (floors, ceilings)
    )
    lows, highs = ({key[2][-1]: limit for key, limit in limits.items()} for limits in of_rates)
    if sum(lows.values()) > 1 + ALIKE:
        shown = ", ".join(f"{names[k]}: {number_text(low)}" for k, low in list(lows.items())[:8])
        total = number_text(round(sum(lows.values()), 12))
        raise ValueError(
            f"the floors on rates add up to {total} ({shown}), and every row is decided once; lower one of them"
        )
    if len(highs) == len(names) == n_decisions and sum(highs.values()) < 1 - ALIKE:
        total = number_text(round(sum(highs.values()), 12))
        raise ValueError(
            f"the ceilings on the rates of all {len(names)} classes add up to {total}, and every row is decided as one "
            f"of them; raise one of them"
        )


def _as_limited(one: Constraint) -> tuple[Any, float, bool]:
    """Return what is limited, at which number, and whether from below; what falls with hits by its complement."""
    metric = one.metric
    limit = one.limit
    is_floor = one.is_floor
    formula = metric.formula
    # one minus a difference or a ratio of groups is not that of the complement
    if isinstance(formula, Share) and formula.rises_with_hits < 0 and not one.across.compares:
        formula = formula.complement()
        limit = 1.0 - limit
        is_floor = not is_floor
    return (formula.placed_as, metric.params, metric.classes, metric.gain, one.across), limit, is_floor
