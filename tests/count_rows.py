"""A kind of table in one file: shares of 128 draws, stored as bytes and widened a few rows at a time."""

from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from confmax.tables.array.kind import ARRAYS
from confmax.tables.memory import MemoryKind
from confmax.tables.storage import Checked

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

    def scan(self, part, gains, share, *, matrix, by):
        """Scan some rows at a time."""
        assert by is part
        labels, weight = part.labels, part.weight
        found = []
        for low, proba in part.proba.blocks():
            rows = slice(low, low + ROWS)
            piece = part.with_rows(
                proba, None if labels is None else labels[rows], None if weight is None else weight[rows]
            ).held_as(ARRAYS, proba)
            found.append(ARRAYS.scan(piece, gains, share, matrix=matrix, by=piece))
        assert sum(len(proba) for _, proba in part.proba.blocks()) == part.n_rows
        return reduce(add, found)
