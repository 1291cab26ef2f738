"""Counting scans of a table."""

from __future__ import annotations

from confmax.confusion import Array, Confusion, Gains
from confmax.tables import Oracle, Table


class CountingOracle:
    """An oracle that counts its scans of the table: several gains in one call are one pass."""

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle
        self.n_passes = 0

    @property
    def rows(self) -> Array:
        """Row sums of every confusion (K,)."""
        return self.oracle.rows

    @property
    def model_share(self) -> float:
        """Part of the model in the confusion estimate."""
        return self.oracle.model_share

    @property
    def exact(self) -> bool:
        """Whether the decisions are true maximisers."""
        return self.oracle.exact

    @property
    def table(self) -> Table:
        """The table underneath."""
        return self.oracle.table

    def maximize(self, gains: Gains, *, matrix: bool = False) -> Confusion:
        """Count one pass and ask the oracle underneath."""
        self.n_passes += 1
        return self.oracle.maximize(gains, matrix=matrix)
