"""Oracles that decide on one table and count by another of the same rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Confusion, Gains
from confmax.tables.deciding import decide
from confmax.tables.protocol import Oracle
from confmax.tables.table import Table


class DecidingOn:
    """An oracle that decides on other probabilities of the same rows, and counts by the truth of the one underneath.

    It answers what a rule on raw probabilities is worth under the estimate from calibrated ones. Its answers maximise
    nothing in particular.
    """

    exact = False

    def __init__(self, table: Table, oracle: Oracle) -> None:
        self.table = table
        self.oracle = oracle

    @property
    def model_share(self) -> float:
        """Part of the model in the confusion estimate."""
        return self.oracle.model_share

    @property
    def rows(self) -> Array:
        """Row sums of every confusion (K,)."""
        return self.oracle.rows

    def maximize(self, gains: Gains, *, matrix: bool = False) -> Confusion:
        """Return the confusions (batch of B) of the decisions on the other probabilities."""
        if self.table.backend == "torch":
            from confmax.tables.tensor.oracle import TorchOracle

            on_device = TorchOracle(self.oracle.table, self.oracle.model_share, decides_on=self.table)
            return on_device.maximize(gains, matrix=matrix)
        if self.table.backend == "parts":
            from confmax.tables.partitioned.oracle import PartsOracle

            return PartsOracle(self.oracle.table, self.oracle.model_share).maximize_on(self.table, gains, matrix=matrix)
        decisions = decide(self.table.proba, gains)
        parts = [tally(self.oracle, each, gains.n_decisions, matrix=matrix) for each in decisions]
        return Confusion.stack(parts)


def tally(oracle: Oracle, decision: NDArray[np.int32], n_decisions: int, *, matrix: bool) -> Confusion:
    """Return the confusion of given decisions (n,), by the truth that an oracle counts with."""
    table = oracle.table
    weight = np.ones(table.n_rows) if table.weight is None else table.weight
    total, K = weight.sum(), table.n_classes
    columns = np.bincount(decision, weights=weight, minlength=n_decisions) / total
    share, diagonal = oracle.model_share, np.zeros(K)
    full = np.zeros((K, n_decisions)) if matrix else None
    if share > 0.0:
        hit = np.bincount(decision, weights=weight * table.probability_of(decision), minlength=n_decisions)
        diagonal += share * hit[:K] / total
        if full is not None:
            for j in np.unique(decision):
                chosen = decision == j
                full[:, j] = share * (weight[chosen] @ table.proba[chosen]) / total
    if share < 1.0:
        assert table.labels is not None
        right = decision == table.labels
        diagonal += (1.0 - share) * np.bincount(table.labels, weights=weight * right, minlength=K) / total
        if full is not None:
            np.add.at(full, (table.labels, decision), (1.0 - share) * weight / total)
    return Confusion(oracle.rows, diagonal, columns, full)
