"""Oracles: one scan of a probability table maximises linear functions of the confusion matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Confusion, Gains
from confmax.oracle.numpy import NumpyOracle
from confmax.tables import MemoryTable, Oracle, Table, decide, make_table
from confmax.tables.kinds import storage_named
from confmax.tables.table import T

__all__ = ["BACKENDS", "CountingOracle", "Oracle", "Table", "decide", "make_oracle", "make_table", "same_estimate"]


def _parts_oracle(table: Table, model_share: float) -> Oracle:
    from confmax.tables.partitioned.table import in_parts

    return in_parts(table).oracle(model_share)


# the code of a kind is loaded with its first table: nobody waits for torch who has no tensors
BACKENDS: dict[str, Callable[[Table, float], Oracle]] = {
    "numpy": NumpyOracle,
    "array": lambda table, model_share: storage_named("array").oracle(table, model_share),
    "sparse": lambda table, model_share: storage_named("sparse").oracle(table, model_share),
    "torch": lambda table, model_share: storage_named("torch").oracle(table, model_share),
    "parts": _parts_oracle,
    # what "array" was called before its scans were compiled in advance
    "numba": lambda table, model_share: storage_named("array").oracle(table, model_share),
}


def make_oracle(
    table: Table, confusion: str = "model", *, backend: str | None = None, model_share: Any = None
) -> Oracle:
    """Return an oracle over a checked table.

    Parameters
    ----------
    table : Table
        From `make_table`.
    confusion : {"model", "labels", "blend"}
        ``C[i, j] = mean(p_i h_j)``, for which the oracle is exact; ``mean(1[y = i] h_j)``; or an average of both.
    backend : {"array", "numpy", "sparse", "torch", "parts"} or None
        The scan of an array, the slow reference, the scan of the stored entries of a sparse table, of a tensor on its
        device, or of a table in parts; None: the one for this kind of table.
    model_share : float, ndarray (G,) or None
        Weight of the model in the blend, from 0 to 1; of groups side by side also one for each.

    Raises
    ------
    ValueError
        If an option is unknown, or ``confusion`` needs labels and the table has none.

    Examples
    --------
    >>> from confmax.confusion import Gains
    >>> from confmax.oracle import make_oracle, make_table
    >>> oracle = make_oracle(make_table([[0.8, 0.2], [0.4, 0.6]]))
    >>> oracle.maximize(Gains.reduced([1.0, 1.0])).diagonal
    array([[0.4, 0.3]])
    """
    if confusion not in ("model", "labels", "blend"):
        raise ValueError(f"confusion is 'model', 'labels' or 'blend'; got {confusion!r}")
    if backend is not None and backend not in BACKENDS:
        raise ValueError(f"backend is one of {', '.join(BACKENDS)}; got {backend!r}")
    if confusion != "model" and not table.has_labels:
        raise ValueError(f"confusion={confusion!r} needs y, the true classes; pass y, or use confusion='model'")
    if confusion != "blend":
        share: Any = float(confusion == "model")
    elif model_share is None or not 0.0 <= np.min(model_share) <= np.max(model_share) <= 1.0:
        raise ValueError(f"a blend needs model_share, a number from 0 to 1; got {model_share!r}")
    else:
        share = model_share if np.ndim(model_share) else float(model_share)
    return table.oracle(share) if backend is None else BACKENDS[backend](table, share)


def same_estimate(oracle: Oracle, table: Table) -> Oracle:
    """Return the default oracle over another ``table``, for the same estimate of the confusion as ``oracle``."""
    return table.oracle(oracle.model_share)


class CountingOracle:
    """An oracle that counts its scans of the table: several gains in one call are one pass.

    Solvers that read the table in another way ask this class to, so that no pass is forgotten and none counted twice.

    Parameters
    ----------
    oracle : Oracle
        What scans.
    counter : CountingOracle or None
        Where scans are counted as well.
    barred : ndarray (K,) of bool or None
        Classes that are never decided, because no row has them: answers are the best without them. None for none.

    Attributes
    ----------
    n_passes : int
        Scans so far.
    """

    def __init__(
        self, oracle: Oracle, *, counter: CountingOracle | None = None, barred: NDArray[np.bool_] | None = None
    ) -> None:
        self.oracle = oracle
        self.counter = counter
        self.barred = np.zeros(oracle.table.n_classes, dtype=np.bool_) if barred is None else barred
        self.n_passes = 0
        # the table and the estimate of an oracle never change
        self.table = oracle.table
        self.rows = oracle.rows
        self.model_share = oracle.model_share
        self.exact = oracle.exact

    def maximize(self, gains: Gains, *, matrix: bool = False) -> Confusion:
        """Count one pass and ask the oracle underneath."""
        self.count()
        return self.oracle.maximize(self.allowed(gains), matrix=matrix)

    def allowed(self, gains: Gains) -> Gains:
        """Return ``gains`` that decide none of the classes that are never decided."""
        several = self.table.layout is not None or self.table.decisions.several
        return gains.without(self.barred, several=several)

    @property
    def reads_model(self) -> bool:
        """Whether the model has a share in the estimate."""
        return bool(np.any(np.asarray(self.model_share) > 0.0))

    @property
    def is_blend(self) -> bool:
        """Whether both the model and the labels have a share in the estimate."""
        return self.reads_model and bool(np.any(np.asarray(self.model_share) < 1.0))

    def read_rows(self, what: str) -> MemoryTable:
        """Return all rows as an array in host memory, which ``what`` sorts or searches, and count one pass.

        ValueError if the rows are elsewhere, or would be large as an array.
        """
        table = self.table.dense(what)
        self.count()
        return table

    def read_groups(self, what: str) -> list[tuple[Any, MemoryTable]]:
        """Return the oracle and the rows of every group for ``what`` sorts them, and count one pass.

        Without groups there is one oracle, with all rows (`read_rows`).
        """
        from confmax.tables.groups import GroupedOracle

        if not isinstance(self.oracle, GroupedOracle):
            return [(self, self.read_rows(what))]
        self.count()
        return [(part, part.table.in_memory().dense(what)) for part in self.oracle.parts.values()]

    def over_parts(self, work: Callable[[MemoryTable], T]) -> Iterator[T]:
        """Yield what ``work`` returns for every part of the table, where the part lies, and count one pass."""
        self.count()
        return self.table.over_parts(work)

    def second_estimate(self, model_share: float) -> Oracle:
        """Return the oracle of the estimate with another ``model_share``, on the same table; scans are counted here."""
        # its scans read the same rows, so they count against the same budget
        return CountingOracle(self.table.oracle(model_share), counter=self, barred=self.barred)

    def anew(self, oracle: Oracle | None = None) -> CountingOracle:
        """Return one that begins to count, over the same or another ``oracle``; the same classes are never decided."""
        return CountingOracle(self.oracle if oracle is None else oracle, barred=self.barred)

    def count(self) -> None:
        """Count one pass, of a caller that reads the rows itself."""
        self.n_passes += 1
        if self.counter is not None:
            self.counter.count()
