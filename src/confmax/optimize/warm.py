"""A large table is first solved on a sample of its rows: most of the way costs a fraction of a pass.

A hash of the rows' content chooses the sample. Its best rules join the starting rules, in the same pass. The solver
continues from there and proves its result on all rows, so the sample decides nothing but where to look. The answers on
the sample, corrected by the sample's error at one gain, already give a Newton step on the full table
(`optimize/column_generation.py`). The curvature for this step comes from moving every weight of the sample's best gain
by a tenth, where this costs no more than four gains on all rows. It saves one or two full passes compared with
estimating the curvature from the gains that happened to be evaluated. Ratios have no warm start, because their two
passes of two or three gains cost less than the sample. Screening out rows whose decision cannot change was not needed.

Within limits, and for the smallest recall, the sample gives prices alone: those of its least bound
(`optimize/descent.py`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Confusion, Gains
from confmax.metrics import Metric
from confmax.optimize.loop import Problem, Solver, WarmStart, baselines, declared, run
from confmax.optimize.mixture import Mixture
from confmax.optimize.rounding import MOVED
from confmax.oracle import CountingOracle, same_estimate
from confmax.tables import Oracle, Table

# a sample has at least so many rows,
SAMPLE_ROWS = 20_000
ROWS_PER_CLASS = 50
PART = 25  # or such a part of all rows,
LARGE = 5  # and a table is large that has so many times as many
MOST_ATOMS = 2
TOLERANCE = 1e-4  # what the sample is solved to: far below what it can tell
MOST_PERTURBED = 4.0  # the gains that this takes cost at most so many times one gain on the full table


class _Recorder(CountingOracle):
    """An oracle that keeps what it was asked and what it answered."""

    def __init__(self, oracle: Oracle, barred: NDArray[np.bool_]) -> None:
        super().__init__(oracle, barred=barred)
        self.queries: list[tuple[Gains, Confusion]] = []

    def maximize(self, gains: Gains, *, matrix: bool = False) -> Confusion:
        """Ask the oracle underneath, and keep its answers."""
        answers = super().maximize(gains, matrix=matrix)
        self.queries.append((gains, answers))
        return answers


def warm_start(
    solver: Solver, metric: Metric, oracle: CountingOracle, n_decisions: int, tol: float
) -> WarmStart | None:
    """Return the result of a run on a sample of the oracle's table, or None if that is not worthwhile.

    Parameters
    ----------
    solver, metric, n_decisions, tol
        Those of the problem. A solver lists in ``starts_from_sample`` the confusion estimates for which it can continue
        from the rules of a sample.
    oracle : Oracle
        The oracle of the full table.
    """
    mode = "model" if oracle.exact else "labels"
    sampled = sample_of(oracle) if mode in declared(solver, "starts_from_sample") else None
    if sampled is None:
        return None
    small = _Recorder(sampled, oracle.barred)
    table = oracle.table
    part = sampled.table
    matrix = metric.statistics == "matrix"
    # divided by the sample's own class sizes, as the starting rules on all rows are by those of all rows
    starts = baselines(small, [small.rows], n_decisions, matrix=matrix)
    problem = Problem(metric, small, n_decisions, tuple(starts), solver.budget, max(tol, TOLERANCE))
    outcome = run(solver, problem)
    heaviest = np.argsort(-outcome.mixture.weights, kind="stable")[:MOST_ATOMS]
    rules = [outcome.mixture.atoms[k] for k in heaviest]
    rules += [atom for atom in outcome.single.atoms if not any(_equal(atom, rule) for rule in rules)]
    slope = metric.gains(metric.at(outcome.mixture.confusion))
    # without a gradient at the sample's optimum there is no gain to compare the two tables at
    if not slope.is_finite:
        return WarmStart(Gains.concatenate(rules))
    perturbed = _perturbed(solver, slope) if table.n_classes * part.n_rows <= MOST_PERTURBED * table.n_rows else ()
    small.maximize(Gains.concatenate([*perturbed, slope]), matrix=matrix)
    gains, answers = zip(*small.queries, strict=True)
    n = len(perturbed) * table.n_classes
    return WarmStart(Gains.concatenate([slope, *rules]), Gains.concatenate(gains), Confusion.concatenate(answers), n)


def with_rules_of_sample(solver: Solver, problem: Problem) -> Problem:
    """Return a problem of a table in parts that starts with the best rules of its sample, too, within limits on labels.

    On labels the best rules are searched among sorted rows, and only those of the sample are in one place. Without
    limits, with a certificate, and for rows in memory, the problem is returned as it is.
    """
    if problem.limits is None or problem.oracle.exact:
        return problem
    return problem.oracle.table.on_sample(partial(_with_rules, solver, problem), problem)


def _with_rules(solver: Solver, problem: Problem, sample: Table) -> Problem:
    """Return a ``problem`` that starts with the best rules of a ``sample``, too."""
    oracle = problem.oracle
    small = oracle.anew(same_estimate(oracle, sample))
    # limits, and divisions by the class sizes, need every class in the sample
    if not (small.rows[oracle.rows > 0] > 0).all():
        return problem
    matrix = problem.needs_matrix
    starts = baselines(small, [small.rows], problem.n_decisions, matrix=matrix)
    outcome = run(solver, replace(problem, oracle=small, starts=tuple(starts), max_passes=solver.budget))
    gains = Gains.concatenate([outcome.mixture.gathered()[0], *outcome.single.atoms])
    answers = problem.ask(gains)
    more = [Mixture.single(gains[k], answers[k]) for k in range(len(gains))]
    return replace(problem, starts=(*problem.starts, *more))


def sample_of(oracle: Oracle) -> Oracle | None:
    """Return the oracle of a sample of the rows, for the same estimate; None if the table is small."""
    table = oracle.table
    rows: Any = table.sample
    wanted = min(max(SAMPLE_ROWS, ROWS_PER_CLASS * table.n_classes, table.n_rows // PART), rows.n_rows)
    if table.n_rows < LARGE * wanted:
        return None
    part = rows.sampled(wanted / rows.n_rows) if wanted < rows.n_rows else rows
    # where many rows are copies of each other the sample may have any size
    if not wanted / 2 <= part.n_rows <= 2 * wanted or part.weight_total <= 0.0:
        return None
    small = same_estimate(oracle, part)
    # a sample without a class says nothing about its recall
    return small if (small.rows[oracle.rows > 0] > 0).all() else None


def _equal(first: Gains, other: Gains) -> bool:
    pairs = ((first.a, other.a), (first.b, other.b), (first.full, other.full))
    return first.power == other.power and all(np.array_equal(a, b) for a, b in pairs)  # type: ignore[arg-type]


def _perturbed(solver: Solver, slope: Gains) -> tuple[Gains, ...]:
    """Return a gain (a, 0) with each of its K weights moved; nothing for others, or without a use for it."""
    if not declared(solver, "wants_curvature") or slope.full is not None or slope.power:
        return ()
    a, b = slope.pair()
    return () if b.any() else (Gains.reduced(a * (1.0 + MOVED * np.eye(a.shape[1]))),)
