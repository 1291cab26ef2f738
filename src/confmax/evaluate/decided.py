"""What rules decide on rows, and how these decisions are counted."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array
from confmax.tables import MemoryTable


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
    """

    decisions: NDArray[np.int64]
    shares: Array
    n_decisions: int
    abstains: bool = False


def rows_by_class(table: MemoryTable) -> NDArray[np.int64]:
    """Return the number of rows with weight of each class (K,) of a labelled ``table``."""
    assert table.labels is not None
    copies = np.ones(table.n_rows, np.int64) if table.copies is None else table.copies
    kept = copies if table.weight is None else copies * (table.weight > 0)
    return np.bincount(table.labels, kept, table.n_classes).astype(np.int64)


def counts_of(decided: Decided, table: MemoryTable, proba: NDArray[Any] | None = None) -> Array:
    """Return the weights (K, M) of the rows of a ``table`` by true class and decision.

    Labels are counted, or expected by the probabilities ``proba`` (n, K).
    """
    K = table.n_classes
    M = decided.n_decisions
    weight = np.ones(table.n_rows) if table.weight is None else table.weight
    counts = np.zeros((K, M))
    for line, share in zip(decided.decisions, decided.shares, strict=True):
        if proba is None:
            assert table.labels is not None
            counts += share * np.bincount(table.labels * M + line, weight, K * M).reshape(K, M)
            continue
        for k, row in enumerate(counts):
            row += share * np.bincount(line, weight * proba[:, k], M)
    return counts
