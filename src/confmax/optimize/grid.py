"""Algorithm 2: evaluate every gain of a grid, if the grid is small enough."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from confmax.confusion import Array, Gains
from confmax.metrics import Metric
from confmax.metrics.metric import GainForm
from confmax.optimize.loop import Problem, Status, Step
from confmax.optimize.mixture import Mixture

PER_GAIN = 3000  # operations that a gain costs by itself: it is laid out in Python, and the metric is evaluated
CELLS_PER_SECOND = 3e8  # order of magnitude of one core; for the message only


@dataclass(frozen=True)
class BruteForceState:
    """The grid that is left to try and the best rule so far."""

    batches: Iterator[Gains]
    best: Mixture


@dataclass(frozen=True)
class BruteForce:
    """Search over a grid of gains (paper, Algorithm 2).

    The paper searches all gain matrices. This grid covers the family that contains the metric's gradients: weights per
    class (G-mean and other metrics of the recalls), offsets per class (kappa, MCC), both (F-measures), or the full gain
    matrix in [-1, 1]. Weights are relative to the class priors, ``score_j = w_j p_j / prior_j`` with w in (0, 1]. A
    factor or an offset that all classes share changes no decision and is searched only once.

    Parameters
    ----------
    resolution : int
        Grid points per coefficient.
    batch : int
        Gains per pass.
    max_operations : float
        Refuse grids that need more than this many operations (gains x rows x coefficients).

    Raises
    ------
    ValueError
        If a setting is out of range. `check` raises one for metrics or tables that the solver cannot handle.

    Examples
    --------
    >>> import confmax
    >>> from confmax.optimize import BruteForce
    >>> P = [[0.8, 0.1, 0.1], [0.5, 0.3, 0.2], [0.6, 0.1, 0.3]]
    >>> confmax.maximize("g_mean", P, [0, 1, 2], solver=BruteForce(), confusion="labels").value
    1.0
    """

    name: ClassVar[str] = "BruteForce"
    budget: ClassVar[int] = 10**9
    mixes: ClassVar[bool] = False

    resolution: int = 10
    batch: int = 64
    max_operations: float = 1e11

    def __post_init__(self) -> None:
        """Refuse settings out of range."""
        if not (isinstance(self.resolution, int) and self.resolution >= 2):
            raise ValueError(f"resolution of BruteForce must be an integer of at least 2; got {self.resolution!r}")
        if not (isinstance(self.batch, int) and self.batch >= 1):
            raise ValueError(f"batch of BruteForce must be an integer of at least 1; got {self.batch!r}")
        if not (isinstance(self.max_operations, (int, float)) and self.max_operations > 0):
            raise ValueError(f"max_operations of BruteForce must be a positive number; got {self.max_operations!r}")

    def n_gains(self, form: GainForm, n_classes: int, n_decisions: int | None = None) -> int:
        """Return how many gains of a ``form`` the grid has for ``n_classes`` classes and ``n_decisions`` decisions."""
        m, K = self.resolution, n_classes
        normalised = m**K - (m - 1) ** K  # at least one coefficient at the end of its range
        if form == "matrix":
            return m ** (K * (n_decisions or K))
        return normalised**2 if form == "weights and offsets" else normalised

    def check(self, metric: Metric, n_classes: int, n_rows: int) -> None:
        """Refuse a grid that needs more than ``max_operations`` operations."""
        M = metric.n_decisions(n_classes)
        per_row = n_classes * M if metric.gain_form == "matrix" else n_classes
        gains = self.n_gains(metric.gain_form, n_classes, M)
        operations = float(gains) * (n_rows * per_row + PER_GAIN)
        if operations > self.max_operations:
            hours = operations / CELLS_PER_SECOND / 3600
            raise ValueError(
                f"BruteForce would try {gains:.3g} gains ({metric.gain_form} of {n_classes} classes at resolution "
                f"{self.resolution}), about {hours:.2g} hours on {n_rows} rows; lower resolution, raise "
                f"max_operations, or use solver='auto'"
            )

    def init(self, problem: Problem) -> BruteForceState:
        """Lay out the grid."""
        prior = problem.oracle.rows
        return BruteForceState(
            _batches(self._grid(problem.metric.gain_form, prior, problem.n_decisions), self.batch), problem.start
        )

    def step(self, problem: Problem, state: BruteForceState) -> tuple[BruteForceState, Step]:
        """Try one batch of gains in one pass."""
        gains = next(state.batches, None)
        if gains is None:
            return state, Step(state.best, status=Status.OPTIMAL)
        answers = problem.ask(gains)
        values = np.nan_to_num(problem.metric.values(answers), nan=-np.inf)
        k = int(np.argmax(values))
        rule = Mixture.single(gains[k], answers[k])
        best = max(state.best, rule, key=lambda r: problem.value(r.confusion))
        return BruteForceState(state.batches, best), Step(best, (rule,))

    def _grid(
        self, form: GainForm, prior: Array, n_decisions: int | None = None
    ) -> Iterator[tuple[Array, Array] | Array]:
        K = len(prior)
        inverse = np.divide(1.0, prior, out=np.zeros(K), where=prior > 0)
        if form == "matrix":
            points = np.linspace(-1.0, 1.0, self.resolution)
            M = n_decisions or K
            for entries in itertools.product(points, repeat=K * M):
                yield np.array(entries).reshape(K, M)
            return
        weights = np.arange(1, self.resolution + 1) / self.resolution
        offsets = np.linspace(0.0, 1.0, self.resolution)
        scales = [np.ones(K)] if form == "offsets" else None
        for a in scales or (inverse * w for w in _with_end(weights, K, end=-1)):
            for b in [np.zeros(K)] if form == "weights" else _with_end(offsets, K, end=0):
                # offsets run over the range of the weighted probabilities
                yield a, b * a.max()


def _with_end(points: Array, K: int, *, end: int) -> Iterator[Array]:
    """Yield the grid vectors with some entry at the last (-1) or first (0) point: one per shared factor or offset."""
    for entries in itertools.product(points, repeat=K):
        if points[end] in entries:
            yield np.array(entries)


def _batches(grid: Iterator[tuple[Array, Array] | Array], size: int) -> Iterator[Gains]:
    for chunk in iter(lambda: list(itertools.islice(grid, size)), []):
        if isinstance(chunk[0], tuple):
            yield Gains.reduced(np.array([pair[0] for pair in chunk]), np.array([pair[1] for pair in chunk]))
        else:
            yield Gains.from_matrix(np.array(chunk))
