"""Rows whose columns lie apart, as files hold them: checked, hashed, decided and counted in one pass.

The rows are never turned into an array of all: some thousands of them at a time lie in the cache, column after column,
which is how the kernels read a block of rows anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax import kernels
from confmax.confusion import Array, Gains
from confmax.kernels.blocks import MANY, block_rows, chunk_rows, over_rows
from confmax.tables.array.oracle import decide_unchecked, kernel_gains
from confmax.tables.arrays import check_rows, row_limits
from confmax.tables.fingerprints import chosen_by_hash, column_factors
from confmax.tables.precision import is_wide

MOST_COUNTS = 1 << 18  # combinations of a class and decisions whose counts stay in the cache of a processor
STEP_CELLS = 1 << 17  # probabilities that are copied from the columns together: half a megabyte

Chosen = tuple[NDArray[np.intp], NDArray[Any], NDArray[np.uint64]]  # places, rows and hashes


@dataclass(frozen=True, eq=False)
class Tally:
    """What rows (n, K) add up to, and those of them that their hashes choose.

    ``totals`` (K,) are the sums of the columns, ``counts`` (K, K, ...) the number of rows by label and by what each
    gain decides. ``places`` (m,) are those of the chosen rows, ``rows`` (m, K), with their ``hashes`` (m,).
    """

    totals: Array
    counts: NDArray[np.int64]
    places: NDArray[np.intp]
    rows: NDArray[Any]
    hashes: NDArray[np.uint64]


def is_tallied(gains: Gains, dtype: np.dtype[Any]) -> bool:
    """Return whether `tally` counts the decisions of ``gains`` on probabilities of a ``dtype``."""
    if gains.full is not None or gains.power or gains.n_decisions != gains.n_classes:
        return False
    K = gains.n_classes
    return K <= MANY and K ** (len(gains) + 1) <= MOST_COUNTS and not is_wide(gains, dtype).any()


def tally(
    columns: Sequence[NDArray[Any]],
    labels: NDArray[np.int64],
    gains: Gains,
    fraction: float,
    dtype: np.dtype[Any],
) -> Tally | None:
    """Return what rows of a ``dtype`` in K ``columns`` (n,) add up to; None if some row is bad or would be divided.

    The ``labels`` (n,) are column numbers. ``fraction`` is that of the rows to choose (`chosen_by_hash`). All numbers
    are those of `check_rows` and `decide` on the array of the rows, to the last bit. `is_tallied` must say yes.
    """
    n = len(labels)
    K = len(columns)
    size = block_rows(K)
    chunk = chunk_rows(K, n)
    step = size * max(1, STEP_CELLS // (size * K))
    by = kernel_gains(gains, dtype)
    limits = np.array(row_limits(np.empty(0, dtype)))
    factors = column_factors(K)
    totals = np.zeros((-(-n // chunk), K))
    broken = np.zeros((len(totals), 4), dtype=np.bool_)
    every: list[_Memory] = []
    spare: list[_Memory] = []

    def work(part: int, start: int, stop: int) -> list[Chosen]:
        try:
            mine = spare.pop()
        except IndexError:
            mine = _Memory.of(step, gains, dtype)
            every.append(mine)
        found = []
        for low in range(start, stop, step):
            m = mine.take(columns, low, min(low + step, stop))
            sums = totals[part], broken[part], mine.hashes[:m]
            if kernels.native is None:
                _tally_by_numpy(mine.columns[:, :m], labels[low : low + m], gains, limits, *sums, mine.counts)
            else:
                given = labels[low : low + m]
                kernels.native.tally(mine.columns, given, size, limits, factors, *sums, *by, mine.counts)
            near = chosen_by_hash(mine.hashes[:m], fraction)
            found.append((near + low, np.ascontiguousarray(mine.columns[:, near].T), mine.hashes[near]))
        spare.append(mine)
        return found

    chosen = [one for found in over_rows(work, n, chunk) for one in found]
    if broken.any():
        return None
    counts = np.sum([mine.counts for mine in every], axis=0).reshape((K,) * (len(gains) + 1))
    return Tally(totals.sum(axis=0), counts, *(np.concatenate(each) for each in zip(*chosen, strict=True)))


@dataclass(frozen=True, eq=False)
class _Memory:
    """What a thread writes to: ``columns`` (K, step or more) and ``hashes`` (step,) of some rows, and its counts."""

    columns: NDArray[Any]
    hashes: NDArray[np.uint64]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, step: int, gains: Gains, dtype: np.dtype[Any]) -> _Memory:
        K = gains.n_classes
        # a line of the cache more, as blocks have it
        columns = np.empty((K, step + 64 // dtype.itemsize), dtype)
        return cls(columns, np.empty(step, np.uint64), np.zeros(K ** (len(gains) + 1), np.int64))

    def take(self, columns: Sequence[NDArray[Any]], low: int, high: int) -> int:
        """Copy some rows of the ``columns``, zeros behind them, and return how many."""
        m = high - low
        for line, column in zip(self.columns, columns, strict=True):
            line[:m] = column[low:high]
        self.columns[:, m:] = 0
        return m


def _tally_by_numpy(
    columns: NDArray[Any],
    labels: NDArray[np.int64],
    gains: Gains,
    limits: Array,
    totals: Array,
    broken: NDArray[np.bool_],
    hashes: NDArray[np.uint64],
    counts: NDArray[np.int64],
) -> None:
    """Add rows in ``columns`` (K, m) to totals, demands that are not met, and counts, as the kernel does."""
    rows = np.ascontiguousarray(columns.T)
    sums, unmet = check_rows(rows, (limits[0], limits[1]), hashes)
    totals += sums
    broken |= unmet
    code = labels
    for decisions in decide_unchecked(rows, gains, None)[0]:
        code = code * len(columns) + decisions
    counts += np.bincount(code, minlength=len(counts))
