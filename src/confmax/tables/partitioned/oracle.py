"""The oracle on a table in parts: each part is scanned by the compiled oracle, sums are added in the order of parts."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from confmax.confusion import Array, Confusion, Gains
from confmax.tables.array.oracle import NumbaOracle
from confmax.tables.partitioned.table import PartedTable, in_one_part
from confmax.tables.table import Table
from confmax.tables.transferred import DecidingOn

Sums = tuple[float, Confusion]


class PartsOracle:
    """Oracle on a table whose rows lie in parts.

    Parameters
    ----------
    table : Table
        The checked table; one in memory is taken as one part.
    model_share : float
        C is estimated from ``model_share * p + (1 - model_share) * 1[y = i]``: 1 the model, 0 the labels.
    """

    def __init__(self, table: Table, model_share: float) -> None:
        parted = table if isinstance(table, PartedTable) else in_one_part(table)
        self.table: PartedTable = parted
        self.model_share = model_share
        self.exact = model_share == 1.0
        rows = np.zeros(parted.n_classes)
        if model_share > 0:
            rows = model_share * parted.mean_probability()
        if not self.exact:
            rows = rows + (1.0 - model_share) * parted.label_weight()
        self.rows: Array = rows

    def maximize(self, gains: Gains, *, matrix: bool = False) -> Confusion:
        """Return the confusions (batch of B) of the decisions that maximise each gain."""
        work = partial(_answers, gains=gains, share=self.model_share, matrix=matrix)
        return self._joined(self.table.over_parts(work))

    def maximize_on(self, table: Table, gains: Gains, *, matrix: bool) -> Confusion:
        """Return the confusions of decisions on another calibration of the same rows, counted by this one's truth."""
        work = partial(
            _answers_on, gains=gains, share=self.model_share, matrix=matrix, truth=self.table.calibrator,
            decides_on=table.calibrator,
        )  # fmt: skip
        return self._joined(self.table.uncalibrated().over_parts(work))

    def _joined(self, parts: Iterable[Sums | None]) -> Confusion:
        total: Any = None
        for part in parts:
            if part is not None:
                weight, found = part
                sums = [weight * found.diagonal, weight * found.columns]
                sums += [] if found.matrix is None else [weight * found.matrix]
                total = sums if total is None else [one + other for one, other in zip(total, sums, strict=True)]
        diagonal, columns, *matrix = (each / self.table.weight_total for each in total)
        return Confusion(self.rows, diagonal, columns, matrix[0] if matrix else None)


def _answers(table: Table, *, gains: Gains, share: float, matrix: bool) -> Sums:
    return table.weight_total, NumbaOracle(table, share).maximize(gains, matrix=matrix)


def _answers_on(table: Table, *, gains: Gains, share: float, matrix: bool, truth: Any, decides_on: Any) -> Sums:
    oracle = NumbaOracle(table.calibrated(truth), share)
    return table.weight_total, DecidingOn(table.calibrated(decides_on), oracle).maximize(gains, matrix=matrix)
