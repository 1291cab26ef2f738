"""Whether a polish by coordinate search pays: asked of rows that were not searched.

Coordinate search fits the labels of its table as closely as it can, and what it gains there need not last. So both
rules, with and without the polish, are found on four fifths of the rows and compared on the last fifth, five times;
the held-out decisions of all rows make one confusion matrix each. The difference of the metric must exceed its
standard error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Confusion, Gains
from confmax.metrics import Metric
from confmax.optimize import CoordinateSearch, Mixture, Outcome, Problem, Solver, baselines, run
from confmax.oracle import CountingOracle, make_oracle
from confmax.tables import Table, decide, rows_of
from confmax.tables.folds import stratified_folds

REPLICATES = 200  # of the bootstrap


@dataclass(frozen=True)
class Verdict:
    """What cross-validation says about the polish.

    Attributes
    ----------
    accepted : bool
        Whether the gain exceeds the asked number of its standard errors.
    gain, error : float
        Held-out metric with the polish minus without it, and the standard error of this difference (bootstrap of rows
        within each class, the rules taken as given).
    n_passes : int
        What it cost, in scans of the whole table.
    """

    accepted: bool
    gain: float
    error: float
    n_passes: int


def polish(metric: Metric, oracle: CountingOracle, rule: Mixture, n_decisions: int, max_passes: int) -> Mixture:
    """Return a single rule improved by coordinate search; the rule itself where nothing better is found."""
    return run(CoordinateSearch(), Problem(metric, oracle, n_decisions, (rule,), max_passes)).single


def polished(problem: Problem, outcome: Outcome, solver: Solver, *, seed: int) -> Outcome:
    """Return the outcome of a run with its best rule polished, where cross-validation says that this helps."""
    oracle, metric = problem.oracle, problem.metric
    verdict = worth_polishing(
        metric, oracle.table, solver, n_decisions=problem.n_decisions, seed=seed, max_passes=problem.max_passes,
        model_share=oracle.model_share,
    )  # fmt: skip
    oracle.n_passes += verdict.n_passes
    if not verdict.accepted or len(outcome.single.atoms) > 1:
        return outcome
    better = polish(metric, oracle, outcome.single, problem.n_decisions, oracle.n_passes + CoordinateSearch.budget)
    best = max(outcome.mixture, better, key=lambda rule: problem.value(rule.confusion))
    return replace(outcome, single=better, mixture=best)


def worth_polishing(
    metric: Metric,
    table: Table,
    solver: Solver,
    *,
    n_decisions: int | None = None,
    n_folds: int = 5,
    n_errors: float = 2.0,
    seed: int = 0,
    max_passes: int | None = None,
    model_share: float = 0.0,
) -> Verdict:
    """Return whether coordinate search after ``solver`` improves the metric on labels that were held out.

    Parameters
    ----------
    metric : Metric
        What is maximised.
    table : Table
        With labels.
    solver : Solver
        What the polish would follow.
    n_decisions : int or None
        Decisions to choose from; default as many as classes.
    n_folds, seed : int
        Number of folds and the seed of their draw.
    n_errors : float
        How many standard errors the gain must exceed.
    max_passes : int or None
        Budget of each run of the solver; default its own.
    model_share : float
        Weight of the model in the estimate that rules are tuned on; they are judged by labels alone.

    Returns
    -------
    Verdict
        Never accepted for two classes, where the search of thresholds leaves nothing, or with less than ``n_folds``
        rows.

    Notes
    -----
    Costs ``n_folds - 1`` times the passes of one run of the solver and the polish, and one pass.

    Examples
    --------
    >>> from confmax import metrics
    >>> from confmax.optimize import FrankWolfe
    >>> from confmax.oracle import make_table
    >>> table = make_table([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8]] * 20, [0, 1, 2] * 20)
    >>> worth_polishing(metrics.get("macro_f1"), table, FrankWolfe()).accepted
    False
    """
    M = table.n_classes if n_decisions is None else n_decisions
    if M == 2 or table.n_rows < n_folds:
        return Verdict(False, 0.0, 0.0, 0)
    table = table.dense("a polish") if table.backend in ("torch", "parts") else table
    folds = stratified_folds(table, n_folds, seed)
    decisions = np.empty((2, table.n_rows), dtype=np.int32)
    scanned = 0
    for fold in range(n_folds):
        held = folds == fold
        if held.all():
            return Verdict(False, 0.0, 0.0, 0)  # rows that are all alike cannot be told apart by any polish
        part = rows_of(table, ~held)
        pair, n_passes = _both_rules(
            _over_present(metric, part), part, solver, M, max_passes=max_passes, share=model_share
        )
        scanned += n_passes * part.n_rows
        decisions[:, held] = decide(table.proba[held], pair)
    gain, error = _difference(metric, table, decisions, M, seed)
    return Verdict(bool(gain > 0 and gain > n_errors * error), gain, error, math.ceil(scanned / table.n_rows) + 1)


def _both_rules(
    metric: Metric, table: Table, solver: Solver, n_decisions: int, *, max_passes: int | None, share: float
) -> tuple[Gains, int]:
    """Return the gains of the solver's best single rule and of the same polished (a batch of two), and the passes."""
    oracle = CountingOracle(make_oracle(table, "blend", model_share=share))
    priors = [table.label_weight(), table.mean_probability()]
    starts = baselines(oracle, priors, n_decisions, matrix=metric.statistics == "matrix")
    budget = solver.budget if max_passes is None else max_passes
    found = run(solver, Problem(metric, oracle, n_decisions, tuple(starts), budget)).single
    better = polish(metric, oracle, found, n_decisions, oracle.n_passes + CoordinateSearch.budget)
    return Gains.concatenate([found.atoms[0], better.atoms[0]]), oracle.n_passes


def _difference(
    metric: Metric, table: Table, decisions: NDArray[np.int32], n_decisions: int, seed: int
) -> tuple[float, float]:
    """Return the second decisions' metric minus the first's, and its standard error by the bootstrap.

    Rows are drawn within each class, so that none is lost: for every class a multinomial over the pairs of decisions,
    with as many draws as the class has rows (under weights, as many equal rows as have the same variance).
    """
    assert table.labels is not None
    K, M = table.n_classes, n_decisions
    weight = np.ones(table.n_rows) if table.weight is None else table.weight
    cells, cell_of_row = np.unique((table.labels * M + decisions[0]) * M + decisions[1], return_inverse=True)
    first, second, label = cells // M % M, cells % M, cells // (M * M)
    share = np.bincount(cell_of_row, weights=weight) / weight.sum()
    squares = np.bincount(table.labels, weights=weight**2, minlength=K)
    sizes = np.bincount(table.labels, weights=weight, minlength=K)

    def difference(cell_share: Array) -> float:
        values = []
        for decided in (first, second):
            C = np.zeros((K, M))
            np.add.at(C, (label, decided), cell_share)
            values.append(float(metric.at(Confusion.from_matrix(C)).value))
        return values[1] - values[0]

    rng = np.random.default_rng(seed)
    drawn = np.zeros((REPLICATES, len(cells)))
    for k in np.unique(label[share > 0]):
        here = label == k
        total = share[here].sum()
        n_draws = max(1, round(sizes[k] ** 2 / squares[k]))
        drawn[:, here] = rng.multinomial(n_draws, share[here] / total, size=REPLICATES) * (total / n_draws)
    return difference(share), float(np.std([difference(row) for row in drawn]))


def _over_present(metric: Metric, table: Table) -> Metric:
    """Return the metric without classes of which these rows hold none, where it divides by their size."""
    used, size = metric.divided_by(table.n_classes), table.label_weight()
    kept = tuple(k for k in used if size[k] > 0)
    # the metric of one class that is absent has nothing else to be taken over: it is 0
    return metric if len(kept) == len(used) or metric.one_class else replace(metric, classes=kept)
