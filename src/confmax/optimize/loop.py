"""The one loop. Solvers supply `init` and `step`; budget, best rules, bounds, history and status live here."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol
from weakref import WeakKeyDictionary

import numpy as np

from confmax.confusion import ABSENT, Array, Confusion, Gains
from confmax.metrics import Metric
from confmax.metrics.ratios import ROUNDING, Ratios
from confmax.optimize.mixture import Mixture
from confmax.optimize.rounding import BINDS, DIGITS, HALF_DIGITS, NEGLIGIBLE, SINGLE
from confmax.oracle import CountingOracle
from confmax.tables.columns import warn

if TYPE_CHECKING:
    from confmax.constraints.limits import Limits

# a limit that is missed by no more, which rounding explains, counts as met: of tables in float64, and in float32
MISSED = NEGLIGIBLE
ROUNDED = SINGLE


class Status(enum.Enum):
    """How a run ended; the value is a sentence. `Solution.guarantee` says what is proved about the rule."""

    CONVERGED = "converged: the upper bound is within tol of the best rule found, mixtures included"
    OPTIMAL = "optimal among all the rules that the solver compares"
    STATIONARY = "stationary: no rule improves the metric to first order; a better rule far away is possible"
    COORDINATEWISE = "coordinate-wise optimal: no single weight or offset improves the metric; other starts may"
    STALLED = "search finished: no further step improves the metric; the best rule met is returned"
    MAX_PASSES = "search finished: all passes that max_passes allows were made; the best rule met is returned"
    TRUNCATED = "cut short: max_passes is below BayesCG's T = ceil(kappa m); raise max_passes for all of its rounds"
    FINISHED = "search finished: all rounds were made"
    ON_LABELS = "search finished: the best threshold that keeps the limits on the labels; the model expects less"
    INFEASIBLE = "infeasible: no rule meets all limits, which the oracle's answer to their multipliers proves"
    STOPPED = "stopped by the callback; the best rule so far is returned"


@dataclass(frozen=True)
class Progress:
    """One entry of the history.

    Attributes
    ----------
    n_passes : int
        Number of scans of the table so far.
    value : float
        The objective of the best rule so far, mixtures included.
    deterministic_value : float
        The objective of the best single rule so far.
    upper_bound : float or None
        Smallest proved bound so far.
    iterate_value : float
        The objective at the solver's current point, which need not be its best.
    max_passes : int
        The budget.
    search, n_searches : int
        Which of how many searches this is an entry of, the first being 1. There may be several with a ``confidence``:
        all other numbers are then those of this search alone, and the last searches may not be needed.
    """

    n_passes: int
    value: float
    deterministic_value: float
    upper_bound: float | None
    iterate_value: float
    max_passes: int
    search: int = 1
    n_searches: int = 1


@dataclass(frozen=True, eq=False)
class WarmStart:
    """The result of a run on a sample of the table's rows."""

    # the best rules of the sample; they are the last starting rules of the problem
    rules: Gains
    # gains, answers: all gains of that run and their confusions on the sample; the last gain is the first of ``rules``
    gains: Gains | None = None
    answers: Confusion | None = None
    # number of gains before the last that are the last one with a single weight moved: K, or none
    n_perturbed: int = 0


@dataclass(frozen=True, eq=False)
class Problem:
    """The problem that a solver gets: maximise ``metric`` over all rules on the oracle's table.

    The ``limits`` are constraints on the rule; only column generation takes them. Rules are compared by how far they
    miss a limit first, and by their value second. ``certify`` says whether a bound is wanted, so that passes may be
    spent on it alone: a blend has none, even if its share of the model is one. ``wants_single`` says the same of the
    best single rule that keeps all limits, and ``refines`` that a good one is among the ``starts``, so that the search
    for better ones need not be wide. ``worth`` is what a single rule may lose and yet be preferred to a draw: infinite
    where it alone is wanted, zero where a draw is. On labels, one that loses at most ``small_loss`` is not improved.
    """

    metric: Metric
    oracle: CountingOracle
    n_decisions: int
    starts: tuple[Mixture, ...]
    max_passes: int
    tol: float = 1e-6
    sample: WarmStart | None = None
    limits: Limits | None = None
    certify: bool = True
    wants_single: bool = False
    refines: bool = False
    worth: float = math.inf
    small_loss: float = -math.inf

    def ratios(self) -> Ratios | None:
        """Return the ratios that the metric sums, None where they are not known."""
        return self.metric.as_ratios(self.oracle.rows, self.n_decisions)

    @property
    def needs_matrix(self) -> bool:
        """Whether confusions must carry the matrix itself."""
        return self.metric.statistics == "matrix" or (self.limits is not None and self.limits.statistics == "matrix")

    def ask(self, gains: Gains) -> Confusion:
        """Return the oracle's answers to ``gains`` (a batch). This takes one pass."""
        # the rule that is returned breaks these ties, and limits may read which class gets them
        return self.oracle.maximize(self.oracle.table.with_ties_broken(gains), matrix=self.needs_matrix)

    def value(self, confusion: Confusion) -> float:
        """Return the objective at one ``confusion``, NaN as minus infinity."""
        # the same few rules are compared in every pass; a confusion that no rule has any more is forgotten
        value = self._values.get(confusion)
        if value is None:
            value = float(self.metric.values(confusion))
            # a comparison with NaN is always false, and such a rule would never be replaced
            self._values[confusion] = value = -math.inf if math.isnan(value) else value
        return value

    @cached_property
    def _values(self) -> WeakKeyDictionary[Confusion, float]:
        return WeakKeyDictionary()

    def shortfall(self, confusion: Confusion) -> float:
        """Return by how much a ``confusion`` misses the limit that it misses most, in the unit of its metric."""
        if self.limits is None:
            return 0.0
        missed = round(-float(self.limits.slacks(confusion).min()), DIGITS)
        return missed if missed > self.rounding else 0.0

    @cached_property
    def rounding(self) -> float:
        """By how much a limit may be missed that counts as met: sums of float32 differ by their rounding."""
        return MISSED if self.oracle.table.dtype == np.float64 else ROUNDED

    def rank(self, confusion: Confusion) -> tuple[float, float]:
        """Return what rules are compared by: how far their ``confusion`` misses a limit, and the objective."""
        rank = self._ranks.get(confusion)
        if rank is None:
            self._ranks[confusion] = rank = (-self.shortfall(confusion), self.value(confusion))
        return rank

    @cached_property
    def _ranks(self) -> WeakKeyDictionary[Confusion, tuple[float, float]]:
        return WeakKeyDictionary()

    def best(self, rules: Iterable[Mixture]) -> Mixture:
        """Return the best of some ``rules``, of equal ones the first."""
        rules = list(rules)
        if self.limits is None:
            return max(rules, key=lambda rule: self.rank(rule.confusion))
        # within limits there are many, and one call for all of them costs what one for each costs
        missed, values = self.ranks(Confusion.stack([rule.confusion for rule in rules]))
        return rules[int(np.lexsort((-np.arange(len(rules)), values, -missed))[-1])]

    def ranks(self, confusions: Confusion) -> tuple[Array, Array]:
        """Return how far each of a batch of ``confusions`` misses a limit (B,), and the objectives (B,)."""
        values = np.nan_to_num(self.metric.values(confusions), nan=-np.inf, posinf=np.inf)
        if self.limits is None:
            return np.zeros(len(confusions)), values
        # rounding must not choose between rules that miss a limit by the same
        missed = -self.limits.slacks(confusions).min(axis=-1).round(DIGITS)
        return np.where(missed > self.rounding, missed, 0.0), values

    @cached_property
    def start(self) -> Mixture:
        """The best of the starting rules."""
        return self.best(self.starts)

    @cached_property
    def singles(self) -> list[Mixture]:
        """The starting rules that do not draw."""
        return [rule for rule in self.starts if len(rule.atoms) == 1]


@dataclass(frozen=True, eq=False)
class Step:
    """The result of one step of a solver: the rules it evaluated, the bound it proved, and whether it has finished.

    ``multipliers`` (S,) are the class weights of its best bound; only the smallest recall has them. ``prices`` (m,) are
    the derivatives of the best value by the limits' functions.
    """

    iterate: Mixture
    rules: tuple[Mixture, ...] = ()
    upper_bound: float | None = None
    status: Status | None = None
    multipliers: Array | None = None
    prices: Array | None = None


class Solver(Protocol):
    """Frozen settings of an algorithm. `init` returns its first state, and `step` makes one round.

    The ``budget`` is the number of passes allowed if the caller sets no limit.

    A solver that returns single rules only sets ``mixes = False``. ``starts_from_sample`` lists the confusion estimates
    ("model", "labels") for which it can continue from the rules of a sample; with ``wants_curvature`` it learns there
    how the answers change around the best gain. A solver need not inherit from this class: what it does not declare has
    the value here.

    With ``draws = False`` the rule draws only if the caller asks for it: ``randomized="auto"`` is then False.

    A solver that keeps limits sets ``takes_limits``, and may have a method ``singles(problem, state)``: after a run, it
    yields steps with single rules that keep them.

    A solver whose last rule must be returned unchanged sets ``returns = "last"``. It may also have ``settings``, the
    values that `confmax.maximize` uses for its arguments that are "auto".
    """

    budget: ClassVar[int] = 100
    mixes: ClassVar[bool] = True
    starts_from_sample: ClassVar[tuple[str, ...]] = ()
    wants_curvature: ClassVar[bool] = False
    takes_limits: ClassVar[bool] = False
    draws: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """Name of the solver in messages."""
        return type(self).__name__

    def check(self, metric: Metric, n_classes: int, n_rows: int) -> None:
        """Raise a ValueError if it cannot maximise ``metric`` on ``n_rows`` rows of ``n_classes`` columns."""
        # an empty body would be abstract to type checkers; a solver of every metric has nothing to refuse
        return

    def init(self, problem: Problem) -> Any:
        """Return the first state for a ``problem``."""

    def step(self, problem: Problem, state: Any) -> tuple[Any, Step]:
        """Return the state that follows ``state`` for a ``problem``, and the result of the step."""


def declared(solver: Solver, name: str) -> Any:
    """Return what a ``solver`` declares under a ``name``, the protocol's value if it declares nothing."""
    return getattr(solver, name, getattr(Solver, name))


def check_setting(solver: Solver, setting: str, valid: bool, what: str) -> None:
    """Raise a ValueError if a ``setting`` of a ``solver`` is not ``valid``: it must be ``what``."""
    if not valid:
        raise ValueError(f"{setting} of {solver.name} must be {what}; got {getattr(solver, setting)!r}")


def check_word(solver: Solver, setting: str, *words: str) -> None:
    """Raise a ValueError if a ``setting`` of a ``solver`` is none of two ``words``."""
    check_setting(solver, setting, getattr(solver, setting) in words, " or ".join(map(repr, words)))


def check_whole(solver: Solver, setting: str, least: int) -> None:
    """Raise a ValueError if a ``setting`` of a ``solver`` is no integer of at least ``least``."""
    value = getattr(solver, setting)
    check_setting(solver, setting, isinstance(value, int) and value >= least, f"an integer of at least {least}")


def passes_allowed(solver: Solver, n_rows: int) -> int:
    """Return how many passes a ``solver`` may make on a table of ``n_rows`` if the caller sets no limit."""
    passes = getattr(solver, "passes", None)
    return solver.budget if passes is None else int(passes(n_rows))


@dataclass(frozen=True, eq=False)
class Outcome:
    """Best rules and bound of a run.

    ``mixed`` says whether the solver searched mixtures; it is also True if no mixture can beat the best single rule.
    ``prescribed`` says that the mixture is the solver's last one and is returned whatever its value.
    """

    mixture: Mixture
    single: Mixture
    upper_bound: float | None
    status: Status
    history: tuple[Progress, ...] = field(default_factory=tuple)
    mixed: bool = True
    prescribed: bool = False
    multipliers: Array | None = None
    prices: Array | None = None


def best_answer(problem: Problem, gains: Gains, answers: Confusion) -> Mixture:
    """Return the answer with the largest objective as a single rule; within limits, the one of the highest rank."""
    missed, values = problem.ranks(answers)
    k = int(np.argmax(np.where(missed == missed.min(), values, -np.inf)))
    return Mixture.single(gains[k], answers[k])


def baselines(
    oracle: CountingOracle, priors: Sequence[Array], n_decisions: int, *, matrix: bool, more: Gains | None = None
) -> list[Mixture]:
    """Return the rules argmax(p), argmax(p / prior) for each of ``priors`` (K,), and those of ``more``.

    They choose between ``n_decisions`` decisions. The ``oracle`` evaluates them in one pass, with whole confusion
    matrices if ``matrix`` is true.
    """
    K = len(oracle.rows)
    priors = [oracle.table.priors(prior) for prior in priors]
    scales = [np.ones(K)] + [np.divide(1.0, prior, out=np.zeros(K), where=prior > ABSENT) for prior in priors]
    offsets = np.zeros((len(scales), n_decisions))
    # further decisions, such as abstaining, must not win here: every score of a class is above -1
    offsets[:, K:] = -1.0
    gains = Gains(np.array(scales), offsets)
    batches = [gains] if more is None else [gains, more]
    # gains of one form share the pass; to share it with others they would become matrices of K^2 numbers
    if more is not None and gains.full is None and more.full is None and gains.power == more.power:
        batches = [Gains.concatenate(batches)]
    rules = []
    for batch in batches:
        answers = oracle.maximize(batch, matrix=matrix)
        rules += [Mixture.single(batch[k], answers[k]) for k in range(len(batch))]
    return rules


def run(solver: Solver, problem: Problem, callback: Callable[[Progress], Any] | None = None) -> Outcome:
    """Run a solver until the bound is within tol of the best rule, the solver finishes, or the budget is used up.

    Parameters
    ----------
    solver : Solver
        The solver to run.
    problem : Problem
        The problem to solve. Its starting rules count from the beginning.
    callback : callable or None
        Called with a `Progress` after every step. The run stops if it returns a true value.

    Returns
    -------
    Outcome
        The best rules found, the bound, and how the run ended.
    """
    incumbent = Incumbent(problem)
    state = solver.init(problem)
    status: Status | None = None
    while True:
        progress = incumbent.record()
        if callback is not None and callback(progress):
            status = Status.STOPPED
        elif incumbent.is_closed():
            status = Status.CONVERGED
        # a solver that has finished with its last pass keeps its own status
        elif status is None and problem.oracle.n_passes >= problem.max_passes:
            status = Status.MAX_PASSES
        if status is not None:
            proved = problem.worth == 0.0 and status is Status.OPTIMAL
            if problem.wants_single and not proved and status is not Status.STOPPED:
                for step in getattr(solver, "singles", _no_steps)(problem, state, incumbent):
                    incumbent.take(step)
                    incumbent.record()
            mixed = declared(solver, "mixes") or not problem.metric.structure.may_draw
            prescribed = getattr(solver, "returns", "best") == "last"
            mixture = incumbent.mixture
            if not prescribed:
                mixture = mixture.caratheodory(problem.metric, problem.limits, problem.oracle.table.decisions)
            best = incumbent.last if prescribed else mixture
            return Outcome(
                best,
                incumbent.single,
                incumbent.bound,
                status,
                tuple(incumbent.history),
                mixed,
                prescribed,
                incumbent.multipliers,
                incumbent.prices,
            )
        state, step = solver.step(problem, state)
        incumbent.take(step)
        status = step.status


def _no_steps(*_: Any) -> Iterable[Step]:
    return ()


class Incumbent:
    """Best rules, best bound and history of one run."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.mixture = self.last = problem.start
        self.rank = problem.rank(problem.start.confusion)
        self.iterate_value = problem.value(problem.start.confusion)
        mixes = 0 < len(problem.singles) < len(problem.starts)
        self.single = problem.best(problem.singles) if mixes else problem.start
        self.single_rank = problem.rank(self.single.confusion)
        self.bound: float | None = None
        self.history: list[Progress] = []
        # what is counted on labels bounds nothing, whatever a solver returns
        self.trusts_bounds = problem.oracle.exact
        self.multipliers: Array | None = None
        self.prices: Array | None = None

    @property
    def value(self) -> float:
        """The objective of the best rule."""
        return self.rank[1]

    @property
    def is_feasible(self) -> bool:
        """Whether the best rule keeps all limits."""
        return self.rank[0] == 0.0

    def take(self, step: Step) -> None:
        """Compare the rules and the bound of a step with the best so far."""
        self.last = step.iterate
        if step.multipliers is not None:
            self.multipliers = step.multipliers
        if step.prices is not None:
            self.prices = step.prices
        for rule in (*step.rules, step.iterate):
            # the iterate comes last
            self.iterate_value = self.problem.value(rule.confusion)
            rank = self.problem.rank(rule.confusion)
            if rank > self.rank:
                self.mixture = rule
                self.rank = rank
            if len(rule.atoms) == 1 and rank > self.single_rank:
                self.single = rule
                self.single_rank = rank
        if step.upper_bound is not None and self.trusts_bounds and math.isfinite(step.upper_bound):
            self.bound = step.upper_bound if self.bound is None else min(self.bound, step.upper_bound)
        self._check_bound()

    def _check_bound(self) -> None:
        """A bound below a value that was reached means that the declared structure is wrong."""
        if self.bound is None or not self.is_feasible:
            return
        # decisions are exact in the table's dtype only: a row's scores may tie within its rounding
        rounding = HALF_DIGITS if self.problem.oracle.table.dtype == np.float64 else 2.0 * BINDS
        if self.bound >= self.value - rounding * max(1.0, abs(self.value)):
            return
        S = self.mixture.confusion
        doubt = float(np.nan_to_num(self.problem.metric.rounding(S), nan=0.0, posinf=np.inf))
        # beside zero a mean of recalls rises so steeply that its derivative says little of it
        least = Confusion(S.rows, np.maximum(S.diagonal - ROUNDING, 0.0), S.columns, S.matrix)
        doubt = max(doubt, self.value - self.problem.value(least))
        # within the doubt the statistics do not hold the value any better: nothing is wrong, and nothing is proved
        if self.bound < self.value - 2.0 * doubt:
            warn(
                f"{self.problem.metric.name} reached {self.value:.9g}, above the bound {self.bound:.9g} that its "
                f"declared structure {str(self.problem.metric.structure)!r} implies: the declaration is wrong, no gap "
                f"is reported; declare structure='general'"
            )
        self.bound = None
        self.trusts_bounds = False

    def single_loss(self) -> float:
        """Return how much less the best single rule is worth than the best rule; inf if it misses a limit."""
        return self.value - self.single_rank[1] if self.single_rank[0] == self.rank[0] else math.inf

    def is_closed(self) -> bool:
        """Whether the bound proves the best rule optimal within tol."""
        return self.is_feasible and self.bound is not None and self.bound - self.value <= self.problem.tol

    def record(self) -> Progress:
        """Add an entry to the history, and return it."""
        n_passes = self.problem.oracle.n_passes
        most = self.problem.max_passes
        progress = Progress(n_passes, self.value, self.single_rank[1], self.bound, self.iterate_value, most)
        self.history.append(progress)
        return progress
