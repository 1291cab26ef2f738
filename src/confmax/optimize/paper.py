"""Two of the paper's algorithms to the letter: Algorithm 2, search over a grid of gains, and Algorithm 4, BayesCG.

Algorithm 1 is `ThresholdSearch` (optimize/threshold.py), Algorithm 3 `FrankWolfe` (optimize/conditional_gradient.py).

BayesCG splits the sample. The probabilities given to `maximize` come from a model fitted on S', so the table is S''.
The sample has ``m = round(n / alpha)`` rows, and the algorithm makes ``ceil(kappa m)`` rounds.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from confmax.confusion import ABSENT, Array, Gains
from confmax.metrics import Metric
from confmax.metrics.metric import GainForm
from confmax.optimize.conditional_gradient import FrankWolfeState, check_rho, linear_step, open_loop
from confmax.optimize.loop import Problem, Solver, Status, Step, best_answer, check_setting, check_whole, check_word
from confmax.optimize.mixture import Mixture
from confmax.optimize.rounding import PER_PASS
from confmax.theory import rho_schedule

PER_GAIN = 3000  # operations that a gain costs by itself: it is laid out in Python, and the metric is evaluated
CELLS_PER_HOUR = 1e12  # order of magnitude of one core; for the message only
SPLIT = 0.5  # alpha and rho where the paper leaves them open
RHO = 0.01
OTHER_PASSES = 5  # starting rules and final evaluations


@dataclass(frozen=True)
class BruteForceState:
    """The grid that is left to try and the best rule so far."""

    batches: Iterator[Gains]
    best: Mixture


@dataclass(frozen=True)
class BruteForce(Solver):
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

    budget: ClassVar[int] = sys.maxsize
    mixes: ClassVar[bool] = False

    resolution: int = 10
    batch: int = PER_PASS
    max_operations: float = 1e11

    def __post_init__(self) -> None:
        """Refuse settings out of range."""
        check_whole(self, "resolution", 2)
        check_whole(self, "batch", 1)
        valid = isinstance(self.max_operations, (int, float)) and self.max_operations > 0
        check_setting(self, "max_operations", valid, "a positive number")

    def n_gains(self, form: GainForm, n_classes: int, n_decisions: int | None = None) -> int:
        """Return how many gains of a ``form`` the grid has for ``n_classes`` classes and ``n_decisions`` decisions."""
        m = self.resolution
        K = n_classes
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
            hours = operations / CELLS_PER_HOUR
            raise ValueError(
                f"BruteForce would try {gains:.3g} gains ({metric.gain_form} of {n_classes} classes at resolution "
                f"{self.resolution}), about {hours:.2g} hours on {n_rows} rows; lower resolution, raise "
                f"max_operations, or use solver='auto'"
            )

    def init(self, problem: Problem) -> BruteForceState:
        """Lay out the grid."""
        form = problem.metric.gain_form
        grid = self._grid(form, problem.oracle.rows, problem.n_decisions)
        # the grid is laid out batch by batch, because the whole of it may not fit into memory
        chunks = map(np.array, iter(lambda: list(itertools.islice(grid, self.batch)), []))
        if form == "matrix":
            return BruteForceState(map(Gains.from_matrix, chunks), problem.start)
        return BruteForceState((Gains.reduced(chunk[:, 0], chunk[:, 1]) for chunk in chunks), problem.start)

    def step(self, problem: Problem, state: BruteForceState) -> tuple[BruteForceState, Step]:
        """Try one batch of gains in one pass."""
        gains = next(state.batches, None)
        if gains is None:
            return state, Step(state.best, status=Status.OPTIMAL)
        rule = best_answer(problem, gains, problem.ask(gains))
        best = problem.best((state.best, rule))
        return BruteForceState(state.batches, best), Step(best, (rule,))

    def _grid(self, form: GainForm, prior: Array, n_decisions: int) -> Iterator[Array]:
        """Yield matrices (K, M) for that form of gains, for the others pairs (2, K) of weights and offsets."""
        K = len(prior)
        if form == "matrix":
            points = np.linspace(-1.0, 1.0, self.resolution)
            for entries in itertools.product(points, repeat=K * n_decisions):
                yield np.array(entries).reshape(K, n_decisions)
            return
        # a class without weight has no prior to be relative to: its scale is zero
        inverse = np.divide(1.0, prior, out=np.zeros(K), where=prior > 0)
        weights = np.arange(1, self.resolution + 1) / self.resolution
        offsets = np.linspace(0.0, 1.0, self.resolution)
        scales = [np.ones(K)] if form == "offsets" else None
        for a in scales or (inverse * w for w in _with_end(weights, K, end=-1)):
            for b in [np.zeros(K)] if form == "weights" else _with_end(offsets, K, end=0):
                # offsets run over the range of the weighted probabilities
                yield np.array([a, b * a.max()])


def _with_end(points: Array, K: int, *, end: int) -> Iterator[Array]:
    """Yield the grid vectors with some entry at the last (-1) or first (0) point: one per shared factor or offset."""
    for entries in itertools.product(points, repeat=K):
        if points[end] in entries:
            yield np.array(entries)


# --- Algorithm 4 ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BayesCG(Solver):
    """The paper's Algorithm 4: conditional gradient on a sample with a plug-in oracle and step ``2 / (j + 1)``.

    ``BayesCG(returns="last")`` runs the algorithm as printed. It makes all rounds and returns the rule of the last one,
    whatever its value. `confmax.maximize` then uses the algorithm's settings as defaults: confusion matrices counted on
    labels, no calibration, a randomised rule. Arguments that you pass to `confmax.maximize` override these defaults.

    Parameters
    ----------
    alpha : float in (0, 1] or None
        Fraction of the sample on which confusion matrices are measured. Your table is this part, S''; its probabilities
        come from a model fitted on the rest, S'. The whole sample has ``m = round(n / alpha)`` rows. None means 1/2 for
        "last" (the paper gives no number) and 1 for "best".
    kappa : float
        The algorithm makes ``T = ceil(kappa m)`` rounds. If ``max_passes`` is smaller, it makes fewer rounds and the
        solution's status says so. For "last", kappa must be a whole number, as in the paper.
    rho : float or None
        Smoothing (Theorem 12). With None, "last" computes rho for the H-, Q- and G-mean by
        `confmax.theory.rho_schedule`, which decreases with m (Corollary 13); its scale is the smallest class share.
        Otherwise None means .01. Metrics with gradients everywhere are not smoothed.
    smoothing : {"relative", "additive"} or None
        Smooth relative to each class's prior, or as in the paper's Table 2. None means "additive" for "last" and
        "relative" for "best".
    returns : {"best", "last"}
        "best" returns the best rule of all rounds, because on labels the last one may be worse. "last" returns h^T, as
        printed.

    Notes
    -----
    Round 1 has step 1, so the initial rule only determines the first gradient (note on Theorem 9 in the errata). The
    initial rule is the plug-in argmax, which Lemma 11 requires (erratum E17).

    Raises
    ------
    ValueError
        If a setting is out of range. `check` raises one for metrics or tables that the solver cannot handle.

    Examples
    --------
    >>> import confmax
    >>> from confmax.optimize import BayesCG
    >>> P, y = [[0.9, 0.1], [0.6, 0.4], [0.7, 0.3]], [0, 1, 0]
    >>> confmax.maximize("g_mean", P, y, solver=BayesCG(kappa=5), confusion="labels").value
    1.0
    >>> printed = confmax.maximize("g_mean", P, y, solver=BayesCG(returns="last"))
    >>> printed.mode, printed.calibration, printed.status.name
    ('labels', None, 'FINISHED')
    """

    alpha: float | None = None
    kappa: float = 1.0
    rho: float | None = None
    smoothing: Literal["relative", "additive"] | None = None
    returns: Literal["best", "last"] = "best"

    def __post_init__(self) -> None:
        """Refuse settings out of range."""
        check_word(self, "returns", "best", "last")
        fraction = self.alpha is None or (isinstance(self.alpha, (int, float)) and 0 < self.alpha <= 1)
        check_setting(self, "alpha", fraction, "a fraction in (0, 1]")
        positive = isinstance(self.kappa, (int, float)) and 0 < self.kappa < math.inf
        check_setting(self, "kappa", positive, "positive and finite")
        if self.returns == "last" and self.kappa != int(self.kappa):
            raise ValueError(f"kappa of BayesCG(returns='last') must be a whole number; got {self.kappa!r}")
        check_rho(self, self.rho)
        if self.smoothing is not None:
            check_word(self, "smoothing", "relative", "additive")

    @property
    def settings(self) -> Mapping[str, Any]:
        """The values that `confmax.maximize` uses for its arguments that are "auto"."""
        if self.returns == "best":
            return {}
        return {"confusion": "labels", "calibration": None, "randomized": True}

    def rounds(self, n_rows: int) -> int:
        """Return ``T = ceil(kappa m)`` for a table of ``n_rows`` rows, a fraction alpha of the m rows of the sample."""
        return math.ceil(self.kappa * self._sample_size(n_rows))

    def passes(self, n_rows: int) -> int:
        """Return how many passes are allowed on a table of ``n_rows`` if the caller sets no limit."""
        return self.rounds(n_rows) + OTHER_PASSES if self.returns == "last" else self.budget

    def init(self, problem: Problem) -> FrankWolfeState:
        """Start at the plug-in argmax, which is among the rules that Lemma 11 covers (erratum E17)."""
        return FrankWolfeState(problem.starts[0])

    def step(self, problem: Problem, state: FrankWolfeState) -> tuple[FrankWolfeState, Step]:
        """Make round j."""
        n_rows = problem.oracle.table.n_rows
        rule, vertex, bound, _ = linear_step(problem, self._surrogate(problem), state.rule)
        moved = rule.toward(vertex, open_loop(state.round))
        status = None
        # a run that makes fewer rounds than the algorithm says so, as the theorem is about all T of them
        if state.round >= self.rounds(n_rows):
            status = Status.FINISHED
        elif problem.oracle.n_passes >= problem.max_passes:
            status = Status.TRUNCATED
        return FrankWolfeState(moved, state.round + 1), Step(moved, (vertex,), bound, status)

    def _sample_size(self, n_rows: int) -> int:
        alpha = (SPLIT if self.returns == "last" else 1.0) if self.alpha is None else self.alpha
        return round(n_rows / alpha)

    def _surrogate(self, problem: Problem) -> Metric:
        metric = problem.metric
        table = problem.oracle.table
        rows = problem.oracle.rows
        rho = self.rho
        if rho is None and self.returns == "last" and metric.structure.scheduled:
            # the schedule begins at m = 3, from where log m / m falls; an absent class has no recall to smooth
            smallest = float(rows[rows > ABSENT].min())
            rho = rho_schedule(metric.name, max(3, self._sample_size(table.n_rows)), table.n_classes, scale=smallest)
        default = "additive" if self.returns == "last" else "relative"
        return metric.smoothed(RHO if rho is None else rho, self.smoothing or default)
