"""The reference oracle: the definition of the confusion matrix, slow and obvious. All others are tested against it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Confusion, Gains
from confmax.tables import Table
from confmax.tables.array.oracle import decide_by_numpy
from confmax.tables.precision import decided
from confmax.tables.table import TableOracle


def decide(proba: NDArray[Any], gains: Gains) -> NDArray[np.int64]:
    """Return the decisions (B, n) of every gain on every row of ``proba`` (n, K); ties go to the largest index."""
    return np.asarray(decided(gains, proba, decide_by_numpy))


class NumpyOracle(TableOracle):
    """Reference oracle, on a table of any kind that fits into memory as an array."""

    def __init__(self, table: Table, model_share: float) -> None:
        super().__init__(table, model_share)
        rows = table.gathered("backend='numpy'").dense("backend='numpy'")
        self._proba = rows.proba
        truth = model_share * rows.proba.astype(np.float64)
        if not self.exact:
            truth += (1.0 - model_share) * np.eye(table.n_classes)[rows.labels]
        self._weight = rows.weights
        self._truth = truth * (self._weight / self._weight.sum())[:, None]
        # the row sums by their definition, from the truth that the matrices are made of
        self.rows = self._truth.sum(axis=0)

    def maximize(self, gains: Gains, *, matrix: bool = False) -> Confusion:
        K = self.table.n_classes
        M = gains.n_decisions
        parts = []
        for decision in decide(self._proba, gains):
            C = np.zeros((K, M))
            np.add.at(C.T, decision, self._truth)
            # the whole weight of a row goes to its decision; a row's truth sums to one only up to rounding
            columns = np.bincount(decision, weights=self._weight, minlength=M) / self._weight.sum()
            parts.append(Confusion(self.rows, np.diagonal(C), columns, C if matrix else None))
        return replace(Confusion.stack(parts), rows=self.rows)
