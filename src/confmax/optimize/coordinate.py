"""Coordinate search: one weight or offset at a time, compared at every place where a decision changes.

The metric is evaluated on the chosen confusion estimate. On labels, the search therefore improves what is measured
there, not what a plug-in gradient predicts. It finds the best of all values of one coefficient. It also fits the labels
as closely as it can, and small tables do not support so close a fit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from confmax.confusion import Gains
from confmax.metrics import Metric
from confmax.optimize.breakpoints import ROUNDING, Coordinate, all_cuts_of, moved, working_gain
from confmax.optimize.loop import Problem, Status, Step
from confmax.optimize.mixture import Mixture

CANDIDATES = 4  # cuts that the oracle confirms, in one pass


@dataclass(frozen=True, eq=False)
class CoordinateState:
    """The rule reached, the coefficient to search next, how many searches found nothing, and starts not yet used."""

    rule: Mixture
    place: int = 0
    idle: int = 0
    waiting: tuple[Mixture, ...] = ()
    follow_gradient: bool = False


@dataclass(frozen=True)
class CoordinateSearch:
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

    name: ClassVar[str] = "CoordinateSearch"
    budget: ClassVar[int] = 2000
    mixes: ClassVar[bool] = False

    starts: int = 1

    def __post_init__(self) -> None:
        """Refuse settings out of range."""
        if not (isinstance(self.starts, int) and self.starts >= 1):
            raise ValueError(f"starts of CoordinateSearch must be an integer of at least 1; got {self.starts!r}")

    def check(self, metric: Metric, n_classes: int, n_rows: int) -> None:
        """Accept every metric, because only values are compared."""

    def init(self, problem: Problem) -> CoordinateState:
        """Order the starting rules by their values."""
        singles = [rule for rule in problem.starts if len(rule.atoms) == 1]
        if not singles:
            heaviest = problem.start.atoms[int(np.argmax(problem.start.weights))]
            singles = [Mixture.single(heaviest, problem.ask(heaviest)[0])]
        singles.sort(key=lambda rule: -problem.value(rule.confusion))
        return CoordinateState(
            singles[0], waiting=tuple(singles[1 : self.starts]), follow_gradient=problem.needs_matrix
        )

    def step(self, problem: Problem, state: CoordinateState) -> tuple[CoordinateState, Step]:
        """Search one coefficient."""
        if state.follow_gradient:
            better = _gradient_rule(problem, state.rule)
            state = replace(state, rule=better or state.rule, follow_gradient=False)
            return state, Step(state.rule)
        gain = working_gain(state.rule.atoms[0], problem.oracle.table.dtype)
        coordinates = _coordinates(problem.metric, gain)
        better = _search(problem, state.rule, gain, coordinates[state.place % len(coordinates)])
        idle = 0 if better is not None else state.idle + 1
        state = replace(state, rule=better or state.rule, place=state.place + 1, idle=idle)
        step = Step(state.rule)
        if idle < len(coordinates):
            return state, step
        if not state.waiting:
            return state, replace(step, status=Status.COORDINATEWISE)
        state = CoordinateState(state.waiting[0], waiting=state.waiting[1:], follow_gradient=problem.needs_matrix)
        return state, step


def _coordinates(metric: Metric, gain: Gains) -> list[Coordinate]:
    """Return the coefficients that are searched, in order."""
    if gain.full is not None:
        return [Coordinate("offset", j) for j in range(gain.n_decisions)]
    form = metric.gain_form
    both = form in ("weights and offsets", "matrix")
    coordinates = []
    for j in range(gain.n_classes):
        if both or form == "weights":
            coordinates.append(Coordinate("weight", j))
        if both or form == "offsets":
            coordinates.append(Coordinate("offset", j))
    return coordinates


def _search(problem: Problem, rule: Mixture, gain: Gains, coordinate: Coordinate) -> Mixture | None:
    """Return the best rule along one coefficient, None if it is no better."""
    cuts = all_cuts_of(problem.metric, problem.oracle, gain, coordinate)
    if cuts is None:
        return None
    values = cuts.best(problem.value(rule.confusion), CANDIDATES)
    return _best_of(problem, rule, moved(gain, coordinate, values)) if len(values) else None


def _gradient_rule(problem: Problem, rule: Mixture) -> Mixture | None:
    """Return the maximiser of the gradient at a rule, None if it is no better."""
    gain = problem.metric.gains(problem.metric.at(rule.confusion))
    return _best_of(problem, rule, gain) if gain.is_finite else None


def _best_of(problem: Problem, rule: Mixture, gains: Gains) -> Mixture | None:
    """Return the best of a batch of gains by the oracle's own decisions, None if no better than the rule."""
    answers = problem.ask(gains)
    values = [problem.value(answers[k]) for k in range(len(gains))]
    k = int(np.argmax(values))
    if not values[k] > problem.value(rule.confusion) + ROUNDING:
        return None
    return Mixture.single(gains[k], answers[k])
