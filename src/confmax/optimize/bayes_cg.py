"""The paper's Algorithm 4, BayesCG: conditional gradient on confusion matrices counted on a sample."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from confmax.confusion import ABSENT
from confmax.metrics import Metric
from confmax.optimize.frank_wolfe import FrankWolfeState, check_smoothing, linear_step
from confmax.optimize.loop import DEFAULT_MAX_PASSES, Problem, Status, Step
from confmax.optimize.step_size import open_loop
from confmax.theory import rho_schedule

SPLIT = 0.5  # alpha and rho where the paper leaves them open
RHO = 0.01
OTHER_PASSES = 5  # starting rules and final evaluations


@dataclass(frozen=True)
class BayesCG:
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

    name: ClassVar[str] = "BayesCG"
    budget: ClassVar[int] = DEFAULT_MAX_PASSES

    alpha: float | None = None
    kappa: float = 1.0
    rho: float | None = None
    smoothing: Literal["relative", "additive"] | None = None
    returns: Literal["best", "last"] = "best"

    def __post_init__(self) -> None:
        """Refuse settings out of range."""
        if self.returns not in ("best", "last"):
            raise ValueError(f"returns of BayesCG must be 'best' or 'last'; got {self.returns!r}")
        if self.alpha is not None and not (isinstance(self.alpha, (int, float)) and 0 < self.alpha <= 1):
            raise ValueError(f"alpha of BayesCG must be a fraction in (0, 1]; got {self.alpha!r}")
        if not (isinstance(self.kappa, (int, float)) and self.kappa > 0 and math.isfinite(self.kappa)):
            raise ValueError(f"kappa of BayesCG must be positive and finite; got {self.kappa!r}")
        if self.returns == "last" and self.kappa != int(self.kappa):
            raise ValueError(f"kappa of BayesCG(returns='last') must be a whole number; got {self.kappa!r}")
        check_smoothing("BayesCG", self.rho, "additive" if self.smoothing is None else self.smoothing)

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

    def check(self, metric: Metric, n_classes: int, n_rows: int) -> None:
        """Accept every metric that has a gradient (the guarantee is for concave ones)."""

    def init(self, problem: Problem) -> FrankWolfeState:
        """Start at the plug-in argmax, which is among the rules that Lemma 11 covers (erratum E17)."""
        return FrankWolfeState(problem.starts[0])

    def step(self, problem: Problem, state: FrankWolfeState) -> tuple[FrankWolfeState, Step]:
        """Make round j."""
        n_rows = problem.oracle.table.n_rows
        rule, vertex, bound, _ = linear_step(problem, self._surrogate(problem.metric, problem), state.rule)
        moved = rule.toward(vertex.atoms[0], vertex.confusion, open_loop(state.round))
        status = None
        if state.round >= self.rounds(n_rows):
            status = Status.FINISHED
        elif problem.oracle.n_passes >= problem.max_passes:
            status = Status.TRUNCATED
        return FrankWolfeState(moved, state.round + 1), Step(moved, (vertex,), bound, status)

    def _sample_size(self, n_rows: int) -> int:
        alpha = (SPLIT if self.returns == "last" else 1.0) if self.alpha is None else self.alpha
        return round(n_rows / alpha)

    def _surrogate(self, metric: Metric, problem: Problem) -> Metric:
        rho = self.rho
        if rho is None and self.returns == "last" and metric.structure.scheduled:
            table = problem.oracle.table
            rows = problem.oracle.rows
            smallest = float(rows[rows > ABSENT].min())
            rho = rho_schedule(metric.name, max(3, self._sample_size(table.n_rows)), table.n_classes, scale=smallest)
        default = "additive" if self.returns == "last" else "relative"
        return metric.smoothed(RHO if rho is None else rho, self.smoothing or default)
