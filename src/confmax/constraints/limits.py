"""Limits on one table: their values and slacks, what labels alone must show, and the rows of a master problem.

At fixed row sums a limit on a ratio N / D is linear: a floor l is ``N - l D >= 0``, a ceiling ``l D - N >= 0``
(Dinkelbach's functions, as in `confmax.metrics.ratios`). A floor on a mean of the recalls is convex (`Limits.curves`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import ABSENT, Array, Confusion, Gains, Layout
from confmax.constraints.across import AllRows
from confmax.constraints.grammar import parse
from confmax.constraints.proportions import CHANCE, rows_for_floor
from confmax.constraints.words import Constraint
from confmax.metrics import Metric
from confmax.metrics.decided import as_written
from confmax.metrics.limited import Fractions, count_of
from confmax.metrics.metric import STATISTICS
from confmax.metrics.ratios import Ratios
from confmax.metrics.shares import RATE
from confmax.metrics.structure import AffineFunctions, MeanFloor, Statistics
from confmax.metrics.views import without_view

T = TypeVar("T")

MOST_KEPT = 8  # row sums for which limits are kept as functions and ratios: those of a table, its sample and its labels
CUTS = 4.0  # by which the level of a test is divided whose rows are those of a cut


@dataclass(frozen=True)
class Limits:
    """Constraints, in their order, whose metrics are placed among the classes of a table; `bind` makes them.

    The ``layout`` says where groups stand whose rows lie side by side, ``groups`` are their names. ``kept_by_none``
    says whether a limit on a ratio that is 0/0 is kept: a precision, where no row is decided as the class. Otherwise
    the ratio is 0. ``needs_decisions`` says that limits on what is decided are missed where nothing is, of all rows or
    of a group: rules that leave every row keep them, and are no answer. ``least`` is the share of all rows that a ratio
    with a floor must count, where one of no rows keeps no floor: such as that of the rows with a label whose precision
    is limited. Of groups of two classes whose labels alone must show that limits are kept, ``tested`` holds the number
    of rows that all weight is worth, zero for the other groups.

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
        # a recall, or a rate, of rows that are all decided alike is zero or one, whatever their labels
        alike = (S.columns.reshape(*S.columns.shape[:-1], -1, 2) > 0.0).sum(axis=-1) < 2
        for one, members, (values, vacuous) in every:
            found = np.full(values.shape[:-1], np.inf)
            if len(self.tested) == len(members) and one.metric.formula.is_share:
                among = np.stack([np.asarray(metric.among(S)) for metric in members], axis=-1)
                sizes = np.where(self.tested, among * self.tested, np.inf)
                of_decided = one.metric.formula.side is not None
                certain = alike if one.metric.one_class and not of_decided else np.zeros_like(alike)
                # the best of many cuts keeps a share of the decided rows by chance
                level = CHANCE / (CUTS if of_decided else 1.0)
                kept = (vacuous & self.kept_by_none) | certain
                found = one.across.beyond_chance(one.stated, values, sizes, kept, level)
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
