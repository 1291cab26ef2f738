"""What rules decide on rows, and how these decisions are counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import MAX_MATRIX_CLASSES, Array, Confusion
from confmax.constraints.proportions import counted_rows
from confmax.evaluate.protocols import Decides
from confmax.metrics.alignment import extra_names
from confmax.rule.counts import Counts
from confmax.tables import Part, Table


class Decided(NamedTuple):
    """The decisions of a randomised rule.

    Attributes
    ----------
    decisions : ndarray (A, n)
        Column numbers: one line for each of the A rules that it draws from.
    shares : ndarray (A,)
        Probability of each line; they sum to one.
    n_decisions : int
        M.
    abstains : bool
        Whether the last decision is to leave a row undecided. Metrics are then those of the rows that are decided.
    further : tuple
        Names of decisions beyond the classes, as far as they are known.
    """

    decisions: NDArray[np.int64]
    shares: Array
    n_decisions: int
    abstains: bool = False
    further: tuple[Any, ...] = ()


def decided_by(rule: Decides, table: Part) -> Decided:
    """Return what a rule decides on the raw probabilities of a ``table``, by the groups of its rows if it has some."""
    further = tuple(rule.class_names[rule.n_classes :])
    return Decided(*rule.decided(table), getattr(rule, "abstain", None) is not None, further)


def rows_decided(decided: Decided, table: Part) -> Counts:
    """Return how many rows of a labelled ``table`` have each class, and how many of them get each decision."""
    K = table.n_classes
    M = decided.n_decisions
    if K <= MAX_MATRIX_CLASSES:
        S = Confusion.from_matrix(counts_of(decided, table) / table.weight_total)
    else:
        assert table.labels is not None
        labels = table.labels
        weight = table.weights / table.weight_total
        hits, columns = np.zeros(K), np.zeros(M)
        for line, share in zip(decided.decisions, decided.shares, strict=True):
            hits += share * np.bincount(labels, weight * (line == labels), K)
            columns += share * np.bincount(line, weight, M)
        S = Confusion(np.asarray(np.bincount(labels, weight, K), dtype=np.float64), hits, columns)
    further = extra_names(table.classes, M)
    names = (*table.classes, *decided.further, *further[len(decided.further) :])
    return in_rows(S, Table.of(table), table.classes, names)


def in_rows(S: Confusion, table: Table, classes: Sequence[Any], decisions: Sequence[Any]) -> Counts:
    """Return the counts of the rows of a labelled ``table``, whose statistics, as shares of all weight, are ``S``."""
    n_rows = counted_rows(table)
    unit, total = ("weight", table.weight_total) if n_rows is None else ("rows", float(n_rows))
    return Counts.of_labels(S, total, unit, classes, decisions)


def rows_by_class(table: Part) -> NDArray[np.int64]:
    """Return the number of rows with weight of each class (K,) of a labelled ``table``."""
    assert table.labels is not None
    copies = np.ones(table.n_rows, np.int64) if table.copies is None else table.copies
    return np.bincount(table.labels, copies * (table.weights > 0.0), table.n_classes).astype(np.int64)


def counts_of(decided: Decided, table: Part, proba: NDArray[Any] | None = None) -> Array:
    """Return the weights (K, M) of the rows of a ``table`` by true class and decision.

    Labels are counted, or expected by the probabilities ``proba`` (n, K).
    """
    K = table.n_classes
    M = decided.n_decisions
    weight = table.weights
    counts = np.zeros((K, M))
    for line, share in zip(decided.decisions, decided.shares, strict=True):
        if proba is None:
            assert table.labels is not None
            counts += share * np.bincount(table.labels * M + line, weight, K * M).reshape(K, M)
            continue
        for k, row in enumerate(counts):
            row += share * np.bincount(line, weight * proba[:, k], M)
    return counts
