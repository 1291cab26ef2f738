"""Counting scans of a table: the only place where passes are counted."""

from __future__ import annotations

from confmax.confusion import Confusion, Gains
from confmax.tables import MemoryTable, Oracle


class CountingOracle:
    """An oracle that counts its scans of the table: several gains in one call are one pass.

    Solvers that read the table in another way ask this class to, so that no pass is forgotten and none counted twice.

    Parameters
    ----------
    oracle : Oracle
        What scans.
    counter : CountingOracle or None
        Where scans are counted as well.

    Attributes
    ----------
    n_passes : int
        Scans so far.
    """

    def __init__(self, oracle: Oracle, *, counter: CountingOracle | None = None) -> None:
        self.oracle = oracle
        self.counter = counter
        self.n_passes = 0
        self.table, self.rows = oracle.table, oracle.rows
        self.model_share, self.exact = oracle.model_share, oracle.exact

    def maximize(self, gains: Gains, *, matrix: bool = False) -> Confusion:
        """Count one pass and ask the oracle underneath."""
        self._count()
        return self.oracle.maximize(gains, matrix=matrix)

    def read_rows(self, what: str) -> MemoryTable:
        """Return all rows as an array in host memory, which ``what`` sorts or searches, and count one pass.

        Raises
        ------
        ValueError
            If the rows are elsewhere, or would be large as an array.
        """
        table = self.table.dense(what)
        self._count()
        return table

    def second_estimate(self, model_share: float) -> Oracle:
        """Return the oracle of the estimate with another ``model_share``, on the same table; scans are counted here."""
        return CountingOracle(self.table.oracle(model_share), counter=self)

    def _count(self) -> None:
        self.n_passes += 1
        if self.counter is not None:
            self.counter._count()
