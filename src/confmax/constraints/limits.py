"""Constraints on one table: their metrics placed among its classes, and the rows that a master problem reads.

At fixed row sums a limit on a ratio N / D is linear: a floor l is ``N - l D >= 0``, a ceiling ``l D - N >= 0``
(Dinkelbach's functions, as in `confmax.metrics.ratios`). A floor on a mean of the recalls is convex (`Limits.curves`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import ABSENT, Array, Confusion, Gains, Layout
from confmax.constraints.across import AllRows
from confmax.constraints.grammar import parse, resolve
from confmax.constraints.proportions import CHANCE, rows_for_floor
from confmax.constraints.texts import metric_text, number_text
from confmax.constraints.words import Constraint, several_in
from confmax.errors import InputError, extended
from confmax.metrics import Metric
from confmax.metrics.alignment import fit_metric, with_positive
from confmax.metrics.decided import as_written, of_decided
from confmax.metrics.limited import Fractions, count_of, ratio_of, without_errors
from confmax.metrics.metric import STATISTICS
from confmax.metrics.rates import LABELS_PER_ROW, SumOfRates
from confmax.metrics.ratios import Ratios
from confmax.metrics.shares import RATE, Share
from confmax.metrics.structure import AffineFunctions, MeanFloor, Statistics
from confmax.metrics.views import without_view
from confmax.tables import Table, refuse_too_few_classes
from confmax.tables.labels import plain
from confmax.tables.partitioned.table import AnyGroups

T = TypeVar("T")

MOST_ENTRIES = 1 << 27  # of all rows together: 1 GiB
MOST_KEPT = 8  # row sums for which limits are kept as functions and ratios: those of a table, its sample and its labels
SHOWN = 8  # groups in a sentence
CUTS = 4.0  # by which the level of a test is divided whose rows are those of a cut
ALIKE = 1e-12  # difference between limits that rounding explains


@dataclass(frozen=True)
class Limits:
    """Constraints, in their order, whose metrics are placed among the classes of a table; `bind` makes them.

    The ``layout`` says where groups stand whose rows lie side by side, ``groups`` are their names. ``kept_by_none``
    says whether a limit on a ratio that is 0/0 is kept: a precision, where no row is decided as the class. Otherwise
    the ratio is 0. ``needs_decisions`` says that limits on what is decided are missed where nothing is, of all rows or
    of a group: rules that leave every row keep them, and are no answer. ``least`` is the share of all rows that a ratio
    with a floor must count, where one of no rows keeps no floor: such as that of the rows with a label whose precision
    is limited. Of limits that labels alone must show, ``tested`` holds the number of rows that all weight is worth: of
    all rows, or for each group, zero where the model counts, too.

    Examples
    --------
    >>> import numpy as np
    >>> from confmax import constraints as c
    >>> from confmax.confusion import Confusion
    >>> from confmax.oracle import make_table
    >>> table = make_table([[0.75, 0.25], [0.5, 0.5]], ["no", "yes"])
    >>> limits = c.bind(["recall[yes] >= 0.8", "rate <= 0.5"], table, explicit=True)
    >>> limits.texts
    ('recall[yes] >= 0.8', 'rate[yes] <= 0.5')
    >>> S = Confusion.from_matrix([[0.5, 0.125], [0.125, 0.25]])
    >>> limits.slacks(S).round(3), limits.functions(S.rows, 2).values(S).round(3)
    (array([-0.133,  0.125]), array([-0.133,  0.125]))
    """

    constraints: tuple[Constraint, ...]
    layout: Layout | None = None
    groups: tuple[Any, ...] = ()
    kept_by_none: bool = True
    needs_decisions: bool = False
    least: float = 0.0
    tested: tuple[float, ...] = ()

    def __len__(self) -> int:
        return len(self.constraints)

    @property
    def speak_of_groups(self) -> bool:
        """Whether a constraint limits the values of groups."""
        return any(one.of_groups for one in self.constraints)

    @property
    def only_class(self) -> int | None:
        """The class that all constraints are about; None if they are about several, about all, or about groups."""
        places = {one.metric.class_place for one in self.constraints}
        return places.pop() if len(places) == 1 and not self.speak_of_groups else None

    @property
    def ask_for_hits(self) -> bool:
        """Whether no limit on one class is better kept by deciding it where its probability is small.

        Ceilings on its recall, precision or F1, and floors on its false positive rate, are.
        """
        return all(one.metric.formula.rises_with_hits * one.stated.sign >= 0 for one in self.constraints)

    @property
    def are_linear(self) -> bool:
        """Whether every one of `functions` is a slack: of linear metrics, and the smallest of some, on all rows."""
        shapes = [one.metric.structure for one in self.constraints]
        return not self.speak_of_groups and all(shape.is_linear or shape.is_minimum for shape in shapes)

    @property
    def least_rows(self) -> int:
        """How many rows must be decided as a class before labels count for the floors on its precision."""
        floors = (one.limit for one in self.constraints if one.is_floor and one.metric.formula.side == "decided")
        return max(map(rows_for_floor, floors), default=1)

    def of_class(self, k: int, n_classes: int) -> Limits:
        """Return constraints on one class for a table of K columns, ``n_classes``, in which it is column ``k``."""
        moved = tuple(replace(one, metric=one.metric.of_class(k, n_classes)) for one in self.constraints)
        return replace(self, constraints=moved)

    def of_group(self, g: int, share: float) -> Limits:
        """Return what every value of group ``g`` must keep, as limits of its rows alone; without groups those of all.

        The group has a ``share`` of all weight. Limits that compare groups, and those of all rows where there are
        groups, are not among them.
        """
        if self.layout is None:
            return self
        own = (one for one in self.constraints if one.of_groups and not one.across.compares)
        return replace(
            self,
            constraints=tuple(replace(one, metric=without_view(one.metric), across=AllRows()) for one in own),
            layout=None,
            groups=(),
            tested=(self.tested[g] * share,) if self.tested else (),
        )

    @property
    def texts(self) -> tuple[str, ...]:
        """The constraints as text. A limit of the positive one of two classes names this class."""
        return tuple(one.text for one in self.constraints)

    @property
    def stored(self) -> tuple[str, ...]:
        """The texts that say all.

        Those on tables of costs, on users' functions and on another order of the classes than the table's do not.
        """
        return tuple(one.text for one in self.constraints if is_read_back(one))

    @property
    def statistics(self) -> Statistics:
        """What the metrics read besides the row sums: "diagonal", "columns" (and the diagonal) or "matrix"."""
        return max((one.metric.statistics for one in self.constraints), key=STATISTICS.index)

    def owner(self, n_classes: int) -> NDArray[np.intp]:
        """Return for each of the m rows of `functions` (m,) the index of its constraint, for ``n_classes`` K."""
        each = np.repeat(np.arange(len(self)), self._n_functions(n_classes))
        return np.append(each, np.array(self._may_be_of_none, dtype=np.intp))

    @cached_property
    def _may_be_of_none(self) -> list[int]:
        """The floors on a share of the rows with some decision, where one of no rows keeps no floor."""
        floors = [] if self.kept_by_none else enumerate(self.constraints)
        return [j for j, one in floors if one.is_floor and one.limit > 0.0 and one.metric.formula.side is not None]

    def _n_functions(self, n_classes: int) -> list[int]:
        return [one.across.n_functions(self.members(one), n_classes) for one in self.constraints]

    def leeway(self, n_classes: int) -> Array:
        """Return by how much values of groups may differ (m,), for each row of `functions`, for ``n_classes`` K.

        It is infinite for rows that do not compare groups. Of a ratio it is a part of the larger value.
        """
        found = [one.across.leeway(one.stated) for one in self.constraints]
        return np.maximum(found, 0.0)[self.owner(n_classes)]

    def functions(self, rows: Array, n_decisions: int) -> AffineFunctions:
        """Return the m functions that must not fall below zero at row sums ``rows`` (K,), with ``n_decisions`` M.

        Each is ``(value - limit) D / D_0`` of a floor, and its negative of a ceiling: the slack in the unit of the
        metric times its denominator D, in units of D_0, the denominator of the rule without errors. So a factor of
        numerator and denominator changes nothing. D is one for what is linear. A floor on a smallest function is a
        floor on each of them. Of a floor on a mean of the recalls these are the recalls plus one, as `curves` says. A
        difference or a ratio of groups has a function for every ordered pair of them. Where ratios of no rows keep no
        floor, the denominators of such ratios follow, less what is the ``least``.

        Raises
        ------
        ValueError
            If a table of costs has not M columns.
        """
        rows = np.asarray(rows, dtype=np.float64)
        return self._kept("functions", rows, n_decisions, partial(self._functions, rows, n_decisions))

    def _functions(self, rows: Array, n_decisions: int) -> AffineFunctions:
        every = self._ratios(rows, n_decisions)
        parts = [
            part
            for one, members, ratios in zip(self.constraints, self._members, every, strict=True)
            for part in one.across.functions(members, ratios, one.stated, rows)
        ]
        for j in self._may_be_of_none:
            (ratio,) = every[j]
            parts.append(AffineFunctions(ratio.bottom, ratio.bottom_constant - self.least + 0.0))
        constants = [np.zeros(len(part)) if part.constants is None else part.constants for part in parts]
        gains = Gains.concatenate([part.gains for part in parts])
        apart = gains.full is not None and any(part.gains.full is None and not part.gains.power for part in parts)
        return AffineFunctions(gains, np.concatenate(constants), tuple(parts) if apart else ())

    def curves(self, n_classes: int) -> tuple[MeanFloor, ...]:
        """Return the floors on means of the recalls, with their rows among `functions`, for ``n_classes`` K."""
        found = []
        starts = np.cumsum([0, *self._n_functions(n_classes)])
        for one, first in zip(self.constraints, starts.tolist(), strict=False):
            start = first
            # what compares groups is linear, and no mean
            for metric in self.members(one):
                size = count_of(metric, n_classes)
                mean = metric.structure.recall_mean
                if mean is not None:
                    found.append(MeanFloor(slice(start, start + size), mean, one.limit))
                start += size
        return tuple(found)

    def values(self, S: Confusion) -> Array:
        """Return the values (..., n) of the n quantities at a confusion ``S``, or at each of a batch (...)."""
        if not self.speak_of_groups:
            # of rules that are drawn to judge one, each on other rows, there are thousands
            drawn = S.rows.ndim > 1
            return np.stack([one.values(S) for (one,) in self._members], -1) if drawn else self._read(S)[0]
        found = zip(self.constraints, self.of_all_members(S), strict=True)
        return np.stack([one.across.value(*of_members, one.stated) for one, of_members in found], axis=-1)

    def members(self, one: Constraint) -> tuple[Metric, ...]:
        """Return the metrics that ``one`` of the constraints speaks of: of every group, or of all rows."""
        return one.across.members(one.metric, self.layout)

    @cached_property
    def _members(self) -> list[tuple[Metric, ...]]:
        return [self.members(one) for one in self.constraints]

    def slacks(self, S: Confusion) -> Array:
        """Return by how much each limit is kept (..., n) at ``S``, in the unit of its metric; negative: violated.

        It is zero where a ratio has no denominator (`vacuous`), if such limits are kept. Limits that need decisions are
        missed by all that they ask for where nothing is decided.
        """
        slacks = self._slacks(S)
        if any(self.tested):
            slacks = np.minimum(slacks, self._beyond_chance(S))
        if not self.needs_decisions:
            return slacks
        ends = [one.range[0] - one.limit if one.is_floor else one.limit - one.range[1] for one in self.constraints]
        return np.where(self._undecided(S), np.minimum(slacks, ends), slacks)

    def _slacks(self, S: Confusion) -> Array:
        """Return `slacks`, also where nothing is decided."""
        signs = np.array([1.0 if one.is_floor else -1.0 for one in self.constraints])
        if not self.speak_of_groups:
            every, nothing = self._read(S)
            return np.where(
                nothing & self.kept_by_none, 0.0, signs * (every - np.array([one.limit for one in self.constraints]))
            )
        slacks = [
            one.across.slack(values, vacuous & self.kept_by_none, one.stated)
            for one, (values, vacuous) in zip(self.constraints, self.of_all_members(S), strict=True)
        ]
        return np.stack(slacks, axis=-1)

    @property
    def untested(self) -> Limits:
        """The same limits, as the model alone judges them."""
        return replace(self, tested=())

    def passed(self, S: Confusion) -> NDArray[np.bool_]:
        """Return at which confusions ``S`` of `tested` labels, a batch (...), all limits pass their tests."""
        return np.asarray((self._beyond_chance(S) >= 0.0).all(axis=-1))

    def _beyond_chance(self, S: Confusion) -> Array:
        """Return by how much limits (..., n) are kept beyond what chance explains where labels alone are counted."""
        out = []
        every = zip(self.constraints, self._members, self.of_all_members(S), strict=True)
        for one, members, (values, vacuous) in every:
            found = np.full(values.shape[:-1], np.inf)
            if len(self.tested) == len(members) and one.metric.formula.is_share:
                among = np.stack([np.asarray(metric.among(S)) for metric in members], axis=-1)
                sizes = np.where(self.tested, among * self.tested, np.inf)
                # the best of many cuts keeps a share of the decided rows by chance
                level = CHANCE / (1.0 if one.metric.formula.side is None else CUTS)
                found = one.across.beyond_chance(one.stated, values, sizes, vacuous & self.kept_by_none, level)
            out.append(found)
        return np.stack(out, axis=-1)

    def scales(self, S: Confusion) -> Array:
        """Return by how much each of the m rows of `functions` (m,) changes with its metric, D / D_0, at ``S``.

        Prices of the recalls under a mean are those of the mean times its derivatives: they add up to its price.
        """
        parts: list[Array] = []
        every = zip(
            self.constraints,
            self._members,
            self._ratios(S.rows, S.columns.shape[-1]),
            self.of_all_members(S),
            strict=True,
        )
        for one, members, ratios, (values, _) in every:
            parts += one.across.scales(members, ratios, values, S)
        # what a ratio counts at least has no price
        return np.concatenate([*parts, np.zeros(len(self._may_be_of_none))])

    def without(self, j: int) -> Limits | None:
        """Return all limits but that of constraint ``j``; None if there are no others."""
        left = tuple(one for k, one in enumerate(self.constraints) if k != j)
        return replace(self, constraints=left) if left else None

    def vacuous(self, S: Confusion) -> NDArray[np.bool_]:
        """Return which limits (..., n) are kept at ``S`` because their ratio is 0/0: precisions of no decision."""
        found = np.stack([vacuous.all(axis=-1) for _, vacuous in self.of_all_members(S)], axis=-1)
        return found & ~self._undecided(S) if self.needs_decisions else found

    def _undecided(self, S: Confusion) -> NDArray[np.bool_]:
        """Return which limits (..., n) are on what is decided where nothing is, of all rows or of a group."""
        K = S.rows.shape[-1]
        parts = [np.arange(K)]
        if self.layout is not None:
            K = self.layout.n_classes
            parts = [self.layout.decisions(g)[:K] for g in range(self.layout.n_groups)]
        shares = np.stack([S.columns[..., part].sum(axis=-1) for part in parts], axis=-1)
        nothing = {True: shares.min(axis=-1) <= ABSENT, False: shares.sum(axis=-1) <= ABSENT}
        of_decided = [one.metric.formula.is_of_decided for one in self.constraints]
        found = [nothing[one.of_groups] & own for one, own in zip(self.constraints, of_decided, strict=True)]
        return np.stack(found, axis=-1)

    def of_all_members(self, S: Confusion) -> list[tuple[Array, NDArray[np.bool_]]]:
        """Return for each constraint the values of its metrics (..., G) at ``S``, and where they are 0/0."""
        edges = np.cumsum([len(part) for part in self._members])[:-1]
        values, vacuous = self._read(S)
        return list(zip(np.split(values, edges, axis=-1), np.split(vacuous, edges, axis=-1), strict=True))

    def _read(self, S: Confusion) -> tuple[Array, NDArray[np.bool_]]:
        """Return the values of all members (..., n) at ``S``, and where they are 0/0."""
        if S.rows.ndim == 1:
            # a rule that leaves no row has no decision for it, and limits may speak of those that are left
            K = S.rows.shape[-1]
            M = max(S.columns.shape[-1], *(metric.n_decisions(K) for part in self._members for metric in part))
            return self.fractions(S.rows, M).read(S.padded(M))
        # what a denominator is depends on the row sums
        shape = S.diagonal.shape[:-1]
        each = [self._read(S[index]) for index in np.ndindex(*shape)]
        values, vacuous = (np.array(part).reshape(*shape, -1) for part in zip(*each, strict=True))
        return values, vacuous

    def fractions(self, rows: Array, n_decisions: int) -> Fractions:
        """Return the metrics of all members as ratios of linear functions at ``rows`` (K,), ``n_decisions`` M."""
        every = tuple(metric for part in self._members for metric in part)
        return self._kept("fractions", rows, n_decisions, partial(Fractions, every, rows, n_decisions))

    def _ratios(self, rows: Array, n_decisions: int) -> list[list[Ratios]]:
        """Return `fractions` of the members of each constraint."""
        every = self.fractions(rows, n_decisions)
        edges = np.cumsum([0, *(len(part) for part in self._members)]).tolist()
        return [[every[k] for k in range(*ends)] for ends in pairwise(edges)]

    def _kept(self, what: Hashable, rows: Array, n_decisions: int, make: Callable[[], T]) -> T:
        """Return what was made at row sums ``rows`` for ``n_decisions``, or ``make`` and keep it."""
        key = (what, rows.tobytes(), n_decisions)
        if key not in self._made:
            if len(self._made) == 2 * MOST_KEPT:
                self._made.clear()
            self._made[key] = make()
        return cast(T, self._made[key])

    @cached_property
    def _made(self) -> dict[tuple[Hashable, bytes, int], Any]:
        return {}


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
    layout = replace(groups.beside(table).layout, n_further=n_further)
    places = {name: g for g, name in enumerate(_texts(groups))}
    placed = tuple(
        replace(one, across=one.across.placed(tuple(places[name] for name in one.across.named)))
        for one in limits.constraints
    )
    return Limits(placed, layout, groups.names)


def _texts(groups: AnyGroups) -> list[str]:
    """Return the names of groups as texts name them."""
    return [str(plain(name)).strip() for name in groups.names]


def _unknown(one: Constraint, groups: AnyGroups) -> list[str]:
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
    beside = table.groups.beside(table)
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


def is_read_back(one: Constraint) -> bool:
    """Whether the text of a constraint names its metric, in the order of the columns."""
    metric = as_written(without_view(one.metric))
    places = metric.classes or ()
    if metric.label is None and list(places) != sorted(places):
        return False
    try:
        again = parse(one.text).metric
        return again.formula == metric.formula or (again.formula.is_coverage and metric.formula.is_coverage)
    except ValueError:
        return False


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


def least_coverage(limits: Limits | None, n_classes: int) -> tuple[float, tuple[float, ...]]:
    """Return the floors that limits set on the coverage: of all rows, and of each class (K).

    Parameters
    ----------
    limits : Limits or None
        The limits, of rules that may abstain.
    n_classes : int
        K.

    Examples
    --------
    >>> from confmax import constraints as c
    >>> from confmax.oracle import make_table
    >>> table = make_table([[0.75, 0.25], [0.5, 0.5]], ["no", "yes"])
    >>> limits = c.bind(["coverage >= 0.5", "coverage[yes] >= 0.8"], table, explicit=True, abstains=True)
    >>> c.least_coverage(limits, 2)
    (0.5, (0.0, 0.8))
    """
    whole = 0.0
    of_classes = np.zeros(n_classes)
    decided = np.zeros(n_classes)
    for one in () if limits is None else limits.constraints:
        if not one.is_floor or one.across.compares:
            # groups may be alike with next to nothing decided
            continue
        if one.metric.formula.is_coverage:
            for place in one.metric.divided_by(n_classes):
                of_classes[place] = max(of_classes[place], one.limit)
            whole = max(whole, 0.0 if one.metric.divides_by_prior else one.limit)
        elif one.metric.formula == RATE:
            place = (one.metric.classes or (0,))[-1]
            decided[place] = max(decided[place], one.limit)
    # a row that is decided as a class is decided
    return max(whole, float(decided.sum())), tuple(of_classes.tolist())
