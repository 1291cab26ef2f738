"""Oracles: one scan of a probability table maximises linear functions of the confusion matrix."""

from __future__ import annotations

from collections.abc import Callable
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Confusion, Gains
from confmax.oracle.numpy import NumpyOracle
from confmax.tables import Oracle, Part, Table, decide, make_table
from confmax.tables.kinds import storage_named
from confmax.tables.table import T

__all__ = ["BACKENDS", "CountingOracle", "Oracle", "Table", "decide", "make_oracle", "make_table", "same_estimate"]


# how rows are held for the scan of each name; the code of a kind is loaded with its first table: nobody waits for torch
# who has no tensors
BACKENDS = ("numpy", "array", "sparse", "torch")
# what a solver that reads all rows says of rows in parts
OTHER_SOLVER = "choose another solver, or pass a sample of the rows in an array"


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
    backend : {"array", "numpy", "sparse", "torch"} or None
        The scan of an array, the slow reference, or the scan of the stored entries of a sparse table, or of a tensor on
        its device, of rows that are all in memory; None: the one for this table.
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
    if backend is None:
        return table.oracle(share)
    what = f"backend={backend!r}"
    if backend == "numpy":
        return NumpyOracle(table, share)
    return Table.of(storage_named(backend).held(table.gathered(what), what)).oracle(share)


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
        return self.table.without(gains, self.barred)

    @property
    def reads_model(self) -> bool:
        """Whether the model has a share in the estimate."""
        return bool(np.any(np.asarray(self.model_share) > 0.0))

    @property
    def is_blend(self) -> bool:
        """Whether both the model and the labels have a share in the estimate."""
        return self.reads_model and bool(np.any(np.asarray(self.model_share) < 1.0))

    def read_rows(self, what: str) -> Part:
        """Return all rows as an array in host memory, which ``what`` sorts or searches, and count one pass.

        ValueError if the rows are elsewhere, or would be large as an array.
        """
        rows = self.table.gathered(what, OTHER_SOLVER).dense(what)
        self.count()
        return rows

    def read_groups(self, what: str) -> list[tuple[Any, Part]]:
        """Return the oracle and the rows of every group, which ``what`` sorts, and count one pass.

        Without groups there is one oracle, with all rows (`read_rows`).
        """
        if self.table.layout is None:
            return [(self, self.read_rows(what))]
        self.count()
        apart: Any = self.oracle
        return [(part, part.table.gathered(what, OTHER_SOLVER).dense(what)) for part in apart.groups_apart]

    def over_parts(self, work: Callable[[Part], T], join: Callable[[T, T], T] = add) -> T:
        """Return `Table.over_parts` of the table, with its ``work`` and ``join``, and count one pass."""
        self.count()
        return self.table.over_parts(work, join)

    def each_part(self, work: Callable[[Part], T]) -> list[T]:
        """Return `Table.each_part` of the table, with its ``work``, and count one pass."""
        self.count()
        return self.table.each_part(work)

    def decided_by(self, calibrator: Any) -> CountingOracle:
        """Return one that begins to count, whose decisions are by another ``calibrator`` (`TableOracle.decided_by`)."""
        known: Any = self.oracle
        return self.anew(known.decided_by(calibrator))

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
