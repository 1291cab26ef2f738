"""What metric and limits leave open is decided for accuracy: the second objective, below the tolerance of the first.

Every rule that is best within the limits maximises one gain, ``f'(C) + A' prices``. So it is free only in rows whose
decisions tie there: in all rows between decisions that the gain does not tell apart, such as the other classes under a
metric of one class, and in single rows. Where nothing ties, this is the end. Else accuracy is maximised within the
limits and one more, a floor on the metric just below the value that was reached (`ColumnGeneration`). Decisions beyond
the classes are never right. Bound, status and prices stay those of the first run.

A metric that cannot be limited from below, such as macro F1, cannot be such a floor, and keeps its ties.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Confusion, Gains
from confmax.confusion.ties import never_told_apart
from confmax.constraints.proportions import counted_rows, trials
from confmax.metrics import Metric, get
from confmax.metrics.first_order import TINY, FirstOrder, Formula
from confmax.metrics.limited import ratio_of, refusal
from confmax.metrics.structure import AffineFunctions, Linear
from confmax.metrics.views import view, without_view
from confmax.optimize.loop import Outcome, Problem, Status, run
from confmax.optimize.mixture import Mixture

if TYPE_CHECKING:
    from confmax.constraints import Limits

# accuracy for which another rule is taken, and where labels are a part of the estimate
WORTH = 2e-6
ON_LABELS = 1e-4
LESS = 1.0 - 1e-3  # part of a denominator that another rule must have
ROOM = 0.5  # of the tolerance: what the metric may lose,
OF_SINGLE = 1e-4  # and what it may lose by a single rule: single rows can move it by more than the tolerance,
DEAR = 10.0  # if the accuracy gains so many times as much
MOST_CLASSES = 500  # of a second run, which has the rule of every class
SMALL = 1 << 17  # cells of a table whose rows are looked at for ties
SAME = 1e-15  # of the largest coefficient: rounding
RANDOMIZED_ABOVE = 1e-3  # randomized="auto": what a deterministic rule may cost at least
NOTHING = 100.0  # times the tolerance: a metric so near zero, but not zero, leaves no room below it
ASIDE = 1e-6  # times accuracy is added to a gain, for ties


def decided_for_accuracy(
    problem: Problem,
    outcome: Outcome,
    chosen: Mixture,
    *,
    draws: bool,
    least: float = -np.inf,
    rows: bool = True,
    dear: bool = True,
) -> Mixture:
    """Return the rule that decides most rows rightly among those that are as good as the ``chosen`` one.

    That one is to be returned: the best mixture, or the best single rule, of an ``outcome``. The rule keeps the limits,
    and its metric is not lower by more than the tolerance allows, nor below ``least``, the value of rules which people
    use without confmax. It may draw if it ``draws``. Without ``rows``, ties of single rows stay as they are. If not
    ``dear``, a single rule may lose no more than elsewhere (`_room_of_single`).
    """
    accuracy = view(get("accuracy"), problem.oracle.table.layout)
    spent = problem.oracle.n_passes >= problem.max_passes or problem.oracle.table.n_classes > MOST_CLASSES
    spent |= problem.shortfall(chosen.confusion) > 0.0
    gain = None if spent or without_view(problem.metric) == get("accuracy") else _final_gain(problem, outcome)
    # a metric of zero can be a floor, since most metrics are never lower: accuracy alone is left then
    if gain is None or TINY < abs(problem.value(chosen.confusion)) <= NOTHING * problem.tol:
        return chosen
    # before the rows are read again: few metrics that have no floor leave anything open
    room = ROOM * problem.tol if draws else max(ROOM * problem.tol, _room_of_single(problem) if dear else OF_SINGLE)
    limits = _with_floor(problem, outcome, chosen, least, room, draws=draws)
    if limits is None or not _leaves_open(problem, outcome, gain, chosen, accuracy, room, rows=rows):
        return chosen
    second = replace(
        problem,
        metric=accuracy,
        starts=(chosen,),
        sample=None,
        limits=limits,
        certify=False,
        wants_single=not draws,
        worth=np.inf,
    )
    second = replace(second, starts=(chosen, *_first_rules(second, outcome, gain), *problem.singles))
    from confmax.optimize.column_generation import ColumnGeneration

    found = run(ColumnGeneration(), second)
    best = second.best([second.start, found.mixture if draws else found.single])
    bound = outcome.upper_bound if draws and outcome.status is Status.CONVERGED else None
    worth = WORTH if problem.oracle.exact else ON_LABELS
    lost = max(0.0, problem.value(chosen.confusion) - problem.value(best.confusion))
    before = second.value(chosen.confusion) + worth + DEAR * lost
    # what the room under the metric pays for is not open
    most = second.value(found.mixture.confusion) - _paid_by_room(problem, second, found, limits, bound)
    kept = second.shortfall(best.confusion) == 0.0
    return best if kept and second.value(best.confusion) > before and most > before else chosen


def worth_drawing(problem: Problem) -> float:
    """Return what a deterministic rule may cost before ``randomized="auto"`` draws: .001, or within limits one row.

    A share of few rows, such as the recall of a rare class, is moved further by one row.
    """
    metric = problem.metric
    n = counted_rows(problem.oracle.table)
    if problem.limits is None or n is None or not metric.formula.is_share:
        return RANDOMIZED_ABOVE
    rows = trials(metric, problem.start.confusion, n)
    return max(RANDOMIZED_ABOVE, 1.0 / rows) if rows > 0 else RANDOMIZED_ABOVE


def worth_of_single(problem: Problem, randomized: bool | str) -> float:
    """Return `Problem.worth` of a question for a ``randomized`` rule."""
    return worth_drawing(problem) if randomized == "auto" else 0.0 if randomized else np.inf


def _paid_by_room(problem: Problem, second: Problem, found: Outcome, limits: Limits, bound: float | None) -> float:
    """Return how much accuracy the room under the metric has brought at most: its price times the room.

    The largest accuracy is a concave function of the floor, so this is a bound. The room ends at the ``bound`` on the
    metric, where it is known, else at the value of the chosen rule.
    """
    if found.prices is None:
        return 0.0
    S = found.mixture.confusion
    place = len(problem.limits.constraints) if problem.limits is not None else 0
    price = float((found.prices * limits.scales(S))[limits.owner(len(S.rows)) == place].sum())
    best = problem.value(second.starts[0].confusion) if bound is None else bound
    return price * (best - limits.constraints[place].limit)


def _room_of_single(problem: Problem) -> float:
    """Return what a metric may lose by a single rule: within limits on several classes, a share as much as one row."""
    limits = problem.limits
    several = limits is not None and limits.only_class is None
    return max(OF_SINGLE, worth_drawing(problem)) if several and problem.metric.formula.is_share else OF_SINGLE


def _first_rules(second: Problem, outcome: Outcome, gain: Gains) -> list[Mixture]:
    """Return the single rules of an outcome, and that of its final gain."""
    parts = () if outcome.mixture.parts is None else outcome.mixture.parts
    rules = [Mixture.single(*each) for each in zip(outcome.mixture.atoms, parts, strict=False)]
    return [*rules, Mixture.single(gain, second.ask(gain)[0]), outcome.single]


def _with_floor(
    problem: Problem, outcome: Outcome, chosen: Mixture, least: float, room: float, *, draws: bool
) -> Limits | None:
    """Return the limits with a floor on the metric, by ``room`` below the ``chosen`` rule's; None if it can be none.

    It is not below ``least``.
    """
    metric = without_view(problem.metric)
    if refusal(metric, True, "") is not None:
        return None
    from confmax.constraints import Constraint, Limits

    value = problem.value(chosen.confusion)
    floor = value - room
    if draws and outcome.status is Status.CONVERGED and outcome.upper_bound is not None:
        # what the bound leaves of the tolerance
        floor = min(max(floor, outcome.upper_bound - problem.tol), value)
    floor = max(floor, min(least, value))
    layout = problem.oracle.table.layout
    try:
        more = [Constraint(metric, ">=", max(floor, metric.range[0]))]
    except ValueError:
        return None
    inside = (problem.oracle.rows, problem.n_decisions)
    if layout is not None:
        inside = (layout.priors(problem.oracle.rows), layout.n_decisions)
    ratio = ratio_of(metric, *inside) if metric.structure.is_ratio and not metric.structure.is_linear else None
    if ratio is not None and ratio.floor[0] <= TINY:
        function = AffineFunctions(ratio.bottom, ratio.bottom_constant)
        formula = Denominator(function)
        reads = function.statistics
        below = Metric("denominator", formula, Linear(), reads, classes=metric.classes)
        share = float(view(below, layout).values(chosen.confusion))
        if share <= TINY and value > metric.range[0]:
            return None
        # a rule that never decides the class has no precision, and would keep the floor
        more.append(Constraint(below, ">=", LESS * share))
        if share <= TINY:
            # the metric cannot be lower, whether the class is decided or not
            more = [Constraint(get("accuracy"), ">=", 0.0)]
    if problem.limits is None:
        return Limits(tuple(more), layout)
    assert problem.limits is not None
    return replace(problem.limits, constraints=(*problem.limits.constraints, *more))


@dataclass(frozen=True, eq=False)
class Denominator(Formula):
    """The denominator of a ratio at given row sums: a linear function."""

    function: AffineFunctions
    whole: ClassVar[bool] = True

    def decides(self, n_classes: int) -> int:
        """Return the number of decisions of the ratio."""
        return self.function.gains.n_decisions

    def __call__(self, S: Confusion, **_: Any) -> FirstOrder:
        """Return value and derivatives."""
        shape = S.diagonal.shape[:-1]
        gains = self.function.gains
        value = self.values(S)
        if self.function.statistics == "matrix":
            return FirstOrder(value, matrix=np.broadcast_to(gains.matrices()[0], (*shape, *gains.matrices().shape[1:])))
        a, b = (np.broadcast_to(part[0], (*shape, part.shape[1])) for part in gains.pair())
        return FirstOrder(value, a, b, np.zeros_like(S.rows))

    def values(self, S: Confusion, **_: Any) -> Array:
        """Return the values alone."""
        return np.asarray(self.function.values(S)[..., 0])


def _final_gain(problem: Problem, outcome: Outcome) -> Gains | None:
    """Return the gain that all best rules maximise; None where it is not known, or the run has no best rule."""
    metric = problem.metric
    C = outcome.mixture.confusion
    if outcome.prescribed or outcome.status in (Status.STOPPED, Status.INFEASIBLE) or problem.shortfall(C) > 0.0:
        return None
    if metric.structure.recall_mean is not None:
        # the recalls of the best rules are the same, and with them the accuracy
        return None
    if metric.structure.is_minimum:
        if outcome.multipliers is None:
            return None
        gain = metric.linear_functions(C.rows, problem.n_decisions).combined(outcome.multipliers[None])
    else:
        gain = metric.gains(metric.at(C))
    if problem.limits is not None and outcome.prices is not None:
        gain += problem.limits.functions(C.rows, problem.n_decisions).combined(outcome.prices[None])
    return gain if gain.is_finite else None


# --- what is open -----------------------------------------------------------------------------------------------------


def _leaves_open(
    problem: Problem, outcome: Outcome, gain: Gains, chosen: Mixture, accuracy: Metric, room: float, *, rows: bool
) -> bool:
    """Whether rules that maximise the ``gain`` may decide more rows rightly than the ``chosen`` one."""
    if not _decides_for_accuracy(problem, gain, chosen):
        return True
    oracle = problem.oracle
    if len(chosen.atoms) == 1 and room > max(OF_SINGLE, ROOM * problem.tol):
        # a row more or less of one class may bring others that the metric and the limits do not name
        plain = float(accuracy.values(problem.singles[0].confusion)) if problem.singles else 0.0
        return plain - float(accuracy.values(chosen.confusion)) > DEAR * room
    if not rows or not oracle.exact or oracle.table.n_rows * oracle.table.n_classes > SMALL:
        return False
    if problem.value(chosen.confusion) < problem.value(outcome.mixture.confusion) - problem.tol:
        # a single rule that is not as good as the best mixture does not maximise the gain
        return False
    # no rule that maximises the gain is more accurate than the answer to it with a little accuracy, and none is less
    # than that without; this reads the few rows, but no rule comes of it, and it is not counted
    slope = accuracy.gains(accuracy.at(Confusion.uniform(oracle.rows, problem.n_decisions)))
    both = Gains.concatenate([gain + slope.times(ASIDE), gain + slope.times(-ASIDE)])
    most, least = accuracy.values(oracle.oracle.maximize(both, matrix=problem.needs_matrix)).tolist()
    return bool(most > max(least, float(accuracy.values(chosen.confusion))) + WORTH)


def _decides_for_accuracy(problem: Problem, gain: Gains, chosen: Mixture) -> bool:
    """Whether the ``chosen`` rule decides for accuracy between decisions that the ``gain`` does not tell apart.

    It does so if its own gains decide the most probable one of them.
    """
    layout = problem.oracle.table.layout
    C = chosen.confusion
    atoms = chosen.atoms[0] if len(chosen.atoms) == 1 else Gains.concatenate(chosen.atoms)
    parts = [(gain, C.columns, atoms)]
    if layout is not None:
        columns = [C.columns[places] for places in layout.places]
        parts = list(zip(layout.apart(gain), columns, layout.apart(atoms), strict=True))
    for mine, shares, of_atoms in parts:
        used = [places for places in alike(mine, problem.tol) if (shares[places] > WORTH).any()]
        if not used:
            continue
        if not all(decides_most_probable(of_atoms[k], places) for k in range(len(of_atoms)) for places in used):
            return False
    return True


def decides_most_probable(gain: Gains, places: NDArray[np.intp]) -> bool:
    """Whether one ``gain`` decides the most probable one of some classes wherever it decides any of them.

    They then have one weight and one offset; without a weight, the tie is broken (`confmax.confusion.ties`).
    """
    if never_told_apart(gain)[places].all():
        return True
    if places[-1] >= gain.n_classes or gain.power:
        return False
    if gain.full is None:
        a, b = (part[0, places] for part in gain.pair())
        return bool(a[0] > 0.0 and not np.ptp(a) and not np.ptp(b))
    columns = gain.full[0][:, places].copy()
    weight = columns[places[0], 0] - columns[places[0], 1]
    columns[places, np.arange(len(places))] -= weight
    return bool(weight > 0.0 and np.ptp(columns, axis=1).max() <= SAME * np.abs(gain.full).max())


def alike(gain: Gains, tol: float) -> list[NDArray[np.intp]]:
    """Return sets of decisions that have the same scores in one ``gain`` up to ``tol``, whatever the row.

    >>> alike(Gains.reduced([0.0, 2.0, 0.0], [0.0, -0.5, 0.0]), 1e-6)
    [array([0, 2])]
    """
    if gain.full is None and not gain.power:
        a, b = (part[0] for part in gain.pair())
        free = np.flatnonzero(np.append(np.abs(a) <= tol, np.ones(len(b) - len(a), dtype=bool)))
        columns = keys = b[None, free]
    else:
        columns = gain.matrices()[0]
        free = np.arange(columns.shape[1])
        # sums with weights tell apart what the columns do, and are equal where these are
        keys = np.random.default_rng(0).uniform(1.0, 2.0, (1, len(columns))) @ columns
    if len(free) < 2:
        return []
    order = np.argsort(keys[0], kind="stable")
    apart = np.abs(np.diff(columns[:, order], axis=1)).max(axis=0) > tol
    return [free[np.sort(places)] for places in np.split(order, np.flatnonzero(apart) + 1) if len(places) > 1]
