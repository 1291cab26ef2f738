"""Coordinate search: one weight or offset at a time, compared at every place where a decision changes.

The values of one coefficient and the metric at each of them are those of `optimize/breakpoints.py`; the oracle confirms
every change.

The metric is evaluated on the chosen confusion estimate. On labels, the search therefore improves what is measured
there, not what a plug-in gradient predicts. It finds the best of all values of one coefficient. It also fits the labels
as closely as it can, and small tables do not support so close a fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from confmax.confusion import Gains
from confmax.metrics import Metric
from confmax.metrics.metric import GainForm
from confmax.optimize.breakpoints import ROUNDING, Coordinate, Kind, better_values, working_gain
from confmax.optimize.loop import Problem, Solver, Status, Step, best_answer, check_whole
from confmax.optimize.mixture import Mixture


@dataclass(frozen=True, eq=False)
class CoordinateState:
    """The rules to improve, the first of them now; the coefficient to search next; how many searches found nothing.

    ``place`` is -1 where the gradient at the rule comes first.
    """

    rules: tuple[Mixture, ...]
    place: int
    idle: int = 0


@dataclass(frozen=True)
class CoordinateSearch(Solver):
    """Exact search over one class weight or offset at a time, comparing all breakpoints.

    The metric's gradients determine which coefficients are searched: weights (metrics of the recalls), offsets (kappa,
    MCC) or both (F-measures). For metrics that read the whole matrix, the search starts from the best starting rule or
    from the maximiser of the gradient there, whichever is better; a full gain ``G`` is searched over ``G + 1 b^T``. The
    oracle confirms every change, so the value never falls. A search takes one pass, and one more if it finds an
    improvement.

    Parameters
    ----------
    starts : int
        Number of starting rules to improve, best first.

    Notes
    -----
    The cuts lie strictly between adjacent breakpoints. Among intervals of equal value, the search takes the middle of
    the widest. Breakpoints that differ by less than the rounding of the table's dtype count as one.

    This method is not in the paper. It fits the labels of its table as closely as one coordinate at a time can; what it
    gains there need not last on other rows, and "auto" never chooses it.

    Raises
    ------
    ValueError
        If a setting is out of range. `check` raises one for metrics or tables that the solver cannot handle.

    Examples
    --------
    >>> import confmax
    >>> from confmax.optimize import CoordinateSearch
    >>> P = [[0.8, 0.1, 0.1], [0.5, 0.3, 0.2], [0.6, 0.1, 0.3]]
    >>> confmax.maximize("macro_f1", P, [0, 1, 2], solver=CoordinateSearch(), confusion="labels").value
    1.0
    """

    budget: ClassVar[int] = 2000
    mixes: ClassVar[bool] = False

    starts: int = 1

    def __post_init__(self) -> None:
        """Refuse settings out of range."""
        check_whole(self, "starts", 1)

    def init(self, problem: Problem) -> CoordinateState:
        """Order the starting rules by their values."""
        singles = problem.singles
        if not singles:
            heaviest = problem.start.atoms[int(np.argmax(problem.start.weights))]
            singles = [Mixture.single(heaviest, problem.ask(heaviest)[0])]
        singles = sorted(singles, key=lambda rule: -problem.value(rule.confusion))
        return CoordinateState(tuple(singles[: self.starts]), _first_place(problem))

    def step(self, problem: Problem, state: CoordinateState) -> tuple[CoordinateState, Step]:
        """Search one coefficient."""
        rule, *waiting = state.rules
        if state.place < 0:
            gains = problem.metric.gains(problem.metric.at(rule.confusion))
            rule = _improved(problem, rule, gains if gains.is_finite else None)
            return CoordinateState((rule, *waiting), 0), Step(rule)
        barred = problem.oracle.barred
        gain = working_gain(problem.oracle.allowed(rule.atoms[0]), problem.oracle.table.dtype)
        never = set(np.flatnonzero(barred).tolist())
        places = [place for place in _coordinates(problem.metric, gain) if place.decision not in never]
        place = places[state.place % len(places)]
        value = problem.value(rule.confusion)
        better = _improved(problem, rule, better_values(problem.metric, problem.oracle, gain, place, value))
        idle = state.idle + 1 if better is rule else 0
        exhausted = idle >= len(places)
        if exhausted and waiting:
            return CoordinateState(tuple(waiting), _first_place(problem)), Step(rule)
        status = Status.COORDINATEWISE if exhausted else None
        return CoordinateState((better, *waiting), state.place + 1, idle), Step(better, status=status)


def _first_place(problem: Problem) -> int:
    # offsets reach little of what a full gain can decide: its gradient chooses the gain that they are added to
    return -1 if problem.needs_matrix else 0


def _coordinates(metric: Metric, gain: Gains) -> list[Coordinate]:
    """Return the coefficients that are searched, in order."""
    if gain.full is not None:
        return [Coordinate("offset", j) for j in range(gain.n_decisions)]
    kinds: dict[GainForm, tuple[Kind, ...]] = {"weights": ("weight",), "offsets": ("offset",)}
    both: tuple[Kind, ...] = ("weight", "offset")
    return [Coordinate(kind, j) for j in range(gain.n_classes) for kind in kinds.get(metric.gain_form, both)]


def _improved(problem: Problem, rule: Mixture, gains: Gains | None) -> Mixture:
    """Return the best of a batch of gains by the oracle's own decisions, or the rule if none is better."""
    if gains is None:
        return rule
    # the search adds up in another order than the oracle, and a cut beside a breakpoint may fall on its other side
    best = best_answer(problem, gains, problem.ask(gains))
    return best if problem.value(best.confusion) > problem.value(rule.confusion) + ROUNDING else rule
