"""The best rules within one limit at many levels: every level starts from the rules of the level before.

The best mixture at one level is a mixture of nearly the same rules at the next, so a level takes a pass or two. All
answers of all levels are kept: they are single rules, and the best of them that keeps a level is seldom far from the
mixture there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from confmax.confusion import Confusion, Gains
from confmax.optimize.loop import Outcome, Problem
from confmax.optimize.mixture import Mixture
from confmax.oracle import CountingOracle
from confmax.tables import Oracle

MOST_KEPT = 1 << 24  # numbers of all answers together: 128 MiB


class RecordingOracle(CountingOracle):
    """An oracle that counts its scans and adds its answers to a record."""

    def __init__(self, oracle: Oracle, record: Record) -> None:
        super().__init__(oracle)
        self.record = record

    def maximize(self, gains: Gains, *, matrix: bool = False) -> Confusion:
        """Count one pass, ask the oracle underneath, and keep its answers."""
        answers = super().maximize(gains, matrix=matrix)
        self.record.add(gains, answers)
        return answers


class Record:
    """The gains that were asked for, with their answers, while there is room for them."""

    def __init__(self) -> None:
        self.parts: list[tuple[Gains, Confusion]] = []
        self.size = 0
        # the answers of the first so many parts as one batch
        self.joined: tuple[int, Confusion] | None = None

    def add(self, gains: Gains, answers: Confusion) -> None:
        """Keep ``answers`` (B) to ``gains`` (B)."""
        of_gains = gains.full.size if gains.full is not None else len(gains) * 2 * gains.n_decisions
        of_answers = answers.diagonal.size + answers.columns.size
        size = of_gains + of_answers + (0 if answers.matrix is None else answers.matrix.size)
        if self.size + size <= MOST_KEPT:
            self.parts.append((gains, answers))
            self.size += size

    def best(self, problem: Problem) -> Mixture | None:
        """Return the best single rule of the record that keeps the limits of a ``problem``; None if none does."""
        if not self.parts:
            return None
        answers = self._answers()
        missed, values = problem.ranks(answers)
        k = int(np.argmax(np.where(missed == 0.0, values, -np.inf)))
        if missed[k] > 0.0:
            return None
        ends = np.cumsum([len(gains) for gains, _ in self.parts])
        part = int(np.searchsorted(ends, k, side="right"))
        gains = self.parts[part][0]
        return Mixture.single(gains[k - int(ends[part]) + len(gains)], answers[k])

    def _answers(self) -> Confusion:
        """Return all answers as one batch."""
        known, batch = (0, None) if self.joined is None else self.joined
        if batch is None or known < len(self.parts):
            more = [answers for _, answers in self.parts[known:]]
            batch = Confusion.concatenate(more if batch is None else [batch, *more])
            self.joined = len(self.parts), batch
        return batch


def along(
    problem_at: Callable[[float, Sequence[Mixture]], Problem],
    levels: Sequence[float],
    run: Callable[[Problem], Outcome],
    rules: Sequence[Mixture] = (),
) -> Iterator[tuple[Problem, Outcome]]:
    """Yield the problem of every level with its outcome, each started at the ``rules`` that the level before has used.

    ``problem_at`` returns the problem of a level with further starting rules, and ``run`` solves it. A level that no
    rule was met for leaves the starting rules as they are.
    """
    last = tuple(rules)
    for level in levels:
        problem = problem_at(level, last)
        outcome = run(problem)
        if problem.shortfall(outcome.mixture.confusion) == 0.0:
            last = atoms_of(outcome)
        yield problem, outcome


def atoms_of(outcome: Outcome) -> tuple[Mixture, ...]:
    """Return the single rules of an outcome: those of its mixture, and the best single one."""
    mixture = outcome.mixture
    parts = mixture.parts if mixture.parts is not None else ((mixture.confusion,) if len(mixture.atoms) == 1 else ())
    rules = [Mixture.single(*each) for each in zip(mixture.atoms, parts, strict=False)]
    return (*rules, outcome.single) if len(outcome.single.atoms) == 1 else tuple(rules)


def with_recorded(problem: Problem, outcome: Outcome, record: Record) -> Outcome:
    """Return an outcome with the best single rule of a ``record``, where that is better."""
    best = record.best(problem)
    if best is None or problem.rank(best.confusion) <= problem.rank(outcome.single.confusion):
        return outcome
    better = problem.rank(best.confusion) > problem.rank(outcome.mixture.confusion)
    return replace(outcome, single=best, mixture=best if better else outcome.mixture)
