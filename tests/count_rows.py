"""A kind of table in one file: shares of 128 draws, stored as bytes and widened a few rows at a time."""

from dataclasses import dataclass

import numpy as np

from confmax.confusion import Confusion
from confmax.tables.array.kind import ARRAYS
from confmax.tables.memory import MemoryKind
from confmax.tables.table import Checked

DRAWS, ROWS = 128, 100


@dataclass(frozen=True, eq=False)
class Counts:
    """How often each class was drawn, bytes (n, K)."""

    values: np.ndarray

    @property
    def shape(self):
        return self.values.shape

    def __getitem__(self, chosen):
        return self.wide()[chosen]

    def wide(self):
        return self.values / np.float32(DRAWS)

    def blocks(self):
        for low in range(0, len(self.values), ROWS):
            yield low, Counts(self.values[low : low + ROWS]).wide()


class CountRows(MemoryKind):
    """Nothing but its own rows is ever held."""

    backend = "counts"

    def check(self, proba, *, order=None, hashed=False):
        sums = proba.values.sum(axis=1, dtype=int)
        if (sums != DRAWS).any():
            raise ValueError(f"row {np.argmax(sums != DRAWS)} of proba does not hold {DRAWS} draws")
        return Checked(self, proba)

    def given_hashes(self, proba):
        return self.hashes(proba)

    def host(self, values):
        return values.wide()

    def calibrated(self, calibrator, proba):
        return ARRAYS.calibrated(calibrator, proba.wide())

    def dtype(self, proba):
        return np.dtype(np.float32)

    def hashes(self, proba, *, ordered=True):
        return np.concatenate([ARRAYS.hashes(part, ordered=ordered) for _, part in proba.blocks()])

    def rows(self, proba, chosen):
        return Counts(proba.values[chosen])

    def dense(self, proba, what):
        return Checked(ARRAYS, proba.wide())

    def column_sums(self, proba, weight, *, spread):
        parts = proba.blocks()
        return sum(
            ARRAYS.column_sums(part, None if weight is None else weight[low : low + ROWS], spread=spread)
            for low, part in parts
        )

    def probability_of(self, proba, decision):
        return ARRAYS.probability_of(proba.wide(), decision)

    def decide(self, proba, gains):
        return np.concatenate([ARRAYS.decide(part, gains) for _, part in proba.blocks()], axis=1)

    def oracle(self, table, model_share):
        return CountOracle(table, model_share)


class CountOracle:
    """Scans some rows at a time."""

    def __init__(self, table, model_share):
        self.table, self.model_share, self.exact = table, model_share, model_share == 1.0
        self.rows = model_share * table.mean_probability()
        if not self.exact:
            self.rows = self.rows + (1.0 - model_share) * table.label_weight()

    def maximize(self, gains, *, matrix=False):
        labels, weight, n = self.table.labels, self.table.weight, self.table.n_rows
        whole = []
        for low, part in self.table.proba.blocks():
            rows = slice(low, low + ROWS)
            piece = self.table.with_rows(
                part, None if labels is None else labels[rows], None if weight is None else weight[rows]
            ).held_as(ARRAYS, part)
            share = piece.weight_total / self.table.weight_total
            found = ARRAYS.oracle(piece, self.model_share).maximize(gains, matrix=matrix)
            whole.append([share * found.diagonal, share * found.columns, share * (found.matrix if matrix else 0.0)])
        assert sum(len(part) for _, part in self.table.proba.blocks()) == n
        diagonal, columns, full = (sum(parts) for parts in zip(*whole, strict=True))
        return Confusion(self.rows, diagonal, columns, full if matrix else None)
