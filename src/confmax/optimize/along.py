"""The best rules within one limit at many levels: every level starts from the rules of the level before.

The best mixture at one level is a mixture of nearly the same rules at the next, so a level takes a pass or two. All
answers of all levels are kept: they are single rules, and the best of them that keeps a level is seldom far from the
mixture there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Confusion, Gains
from confmax.optimize.loop import Outcome, Problem
from confmax.optimize.mixture import Mixture
from confmax.oracle import CountingOracle

MOST_KEPT = 1 << 24  # numbers of all answers together: 128 MiB


class RecordingOracle(CountingOracle):
    """An oracle that counts its scans and adds its answers to a record."""

    def __init__(self, oracle: CountingOracle, record: Record) -> None:
        super().__init__(oracle.oracle, barred=oracle.barred)
        self.record = record

    def maximize(self, gains: Gains, *, matrix: bool = False) -> Confusion:
        """Count one pass, ask the oracle underneath, and keep its answers."""
        answers = super().maximize(gains, matrix=matrix)
        self.record.add(gains, answers)
        return answers


class Record:
    """The gains that were asked for, with their answers, while there is room for them.

    ``read`` returns of answers (B) the objectives (B,), by how much the limits are kept at one choice of their numbers
    (B, n), and which of them are 0/0 (B, n). ``matrix`` says whether it reads the matrix of a confusion.
    """

    def __init__(
        self, read: Callable[[Confusion], tuple[Array, Array, NDArray[np.bool_]]], *, matrix: bool = False
    ) -> None:
        self.read = read
        self.matrix = matrix
        self.parts: list[tuple[Gains, Confusion]] = []
        self.size = 0
        # what was read of the first so many parts
        self.known = 0
        self.numbers: tuple[Array, Array, NDArray[np.bool_]] | None = None

    def add(self, gains: Gains, answers: Confusion) -> None:
        """Keep ``answers`` (B) to ``gains`` (B), if they can be read."""
        if self.matrix and answers.matrix is None:
            return
        of_gains = gains.full.size if gains.full is not None else len(gains) * 2 * gains.n_decisions
        of_answers = answers.diagonal.size + answers.columns.size
        size = of_gains + of_answers + (0 if answers.matrix is None else answers.matrix.size)
        if self.size + size <= MOST_KEPT:
            self.parts.append((gains, answers))
            self.size += size

    def best(self, moved: Array, rounding: float) -> Mixture | None:
        """Return the best single rule that keeps all limits, loosened by ``moved`` (n,); None if none is.

        A limit that is missed by ``rounding`` counts as kept.
        """
        if self.known < len(self.parts):
            values, slacks, vacuous = self.read(Confusion.concatenate([part[1] for part in self.parts[self.known :]]))
            if self.numbers is not None:
                before = self.numbers
                values, slacks = np.append(before[0], values), np.vstack([before[1], slacks])
                vacuous = np.vstack([before[2], vacuous])
            self.numbers = values, slacks, vacuous
            self.known = len(self.parts)
        if self.numbers is None:
            return None
        values, slacks, vacuous = self.numbers
        kept = (np.where(vacuous, slacks, slacks + moved) >= -rounding).all(axis=1)
        if not kept.any():
            return None
        k = int(np.argmax(np.where(kept, values, -np.inf)))
        ends = np.cumsum([len(gains) for gains, _ in self.parts])
        part = int(np.searchsorted(ends, k, side="right"))
        gains, answers = self.parts[part]
        place = k - int(ends[part]) + len(gains)
        return Mixture.single(gains[place], answers[place])


def along(
    problem_at: Callable[[float, Sequence[Mixture]], Problem],
    levels: Iterable[float],
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


def with_rule(problem: Problem, outcome: Outcome, rule: Mixture | None) -> Outcome:
    """Return an outcome with another single ``rule``, where that is better."""
    if rule is None or problem.rank(rule.confusion) <= problem.rank(outcome.single.confusion):
        return outcome
    better = problem.rank(rule.confusion) > problem.rank(outcome.mixture.confusion)
    return replace(outcome, single=rule, mixture=rule if better else outcome.mixture)
