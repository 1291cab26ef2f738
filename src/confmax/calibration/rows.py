"""The rows that a calibration is fitted on: those with weight, their folds, samples of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.calibration.scaling import Sample, best_floor, log_table
from confmax.tables import Table
from confmax.tables.draws import dealt, row_draws
from confmax.tables.fingerprints import mixed

FOLDS = 5
FLOOR_CELLS = 1 << 19  # the floor is chosen on a sample of at most this many entries of the table,
ROWS_PER_CLASS = 10  # but on at least this many rows per class


@dataclass(frozen=True, eq=False)
class Rows(Sample):
    """Labelled rows that have weight, their weights in units of rows, and their folds.

    Weights are relative. They are scaled to sum to ``(sum w)^2 / sum w^2``, the number of equally weighted rows that
    say as much (Kish): the prior of the fit and the errors of the choice see that number of rows.
    """

    proba: NDArray[Any]
    hashes: NDArray[np.uint64]
    seed: int
    floor: float

    def folds(self) -> NDArray[np.int64]:
        """Return the fold of every row."""
        return dealt(self.labels, row_draws(self.hashes, self.seed), self.proba.shape[1], FOLDS)

    def copies(self) -> NDArray[np.intp]:
        """Return which rows (n,) are left out together, numbered from 0: those of a class that are equal.

        Copies of a row say the same, so that one is no test of a fit that has seen the other.
        """
        keys = self.hashes ^ mixed(self.labels.astype(np.uint64) + np.uint64(1))
        return np.asarray(np.unique(keys, return_inverse=True)[1].reshape(-1))

    def take(self, n_rows: int) -> Rows:
        """Return about ``n_rows`` rows: those with the smallest hashes."""
        if n_rows >= len(self.labels):
            return self
        kept = _smallest(self.hashes, n_rows)
        return replace(self, proba=self.proba[kept], labels=self.labels[kept], weight=self.weight[kept],
                       hashes=self.hashes[kept], z=self.z[kept])  # fmt: skip

    def at(self, floor: float) -> Rows:
        """Return the same rows with the logarithms over another floor."""
        return self if floor == self.floor else replace(self, z=log_table(self.proba, floor), floor=floor)


def labelled(table: Table, seed: int) -> Rows:
    """Return the rows of a labelled table, with folds by a seed."""
    table = table.dense("the fit of a calibration")
    # hashes of the probabilities in any order: an order of the columns must not move a row to another fold
    labels, hashes = table.labels, table.unordered_hashes()
    assert labels is not None
    P, weight = table.proba, np.ones(table.n_rows) if table.weight is None else table.weight
    if not weight.all():
        kept = weight > 0
        P, labels, weight, hashes = P[kept], labels[kept], weight[kept], hashes[kept]
    weight = weight / weight.max()  # no square overflows
    weight = weight * (weight.sum() / (weight * weight).sum())
    # the floor is chosen on a smaller sample than the kind, and by all folds together: it is one of seven numbers
    few = _smallest(hashes, most_rows(P, FLOOR_CELLS))
    floor = best_floor(P[few], labels[few], weight[few])
    return Rows(log_table(P, floor), labels, weight, P, hashes, seed, floor)


def most_rows(P: NDArray[Any], cells: int) -> int:
    """Return on how many rows a choice is made."""
    return min(len(P), max(cells // P.shape[1], ROWS_PER_CLASS * P.shape[1]))


def _smallest(hashes: NDArray[np.uint64], n_rows: int) -> NDArray[np.bool_]:
    """Return which rows (n,) have the smallest hashes: about ``n_rows``, equal rows all or none."""
    return np.asarray(hashes <= np.partition(hashes, n_rows - 1)[n_rows - 1])
