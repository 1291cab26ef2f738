"""Randomised decisions by a kernel: each row is given its atom by a hash first and is then decided by that atom alone.

Up to five atoms decide all rows of a block, of which each row keeps its own's answer. Of more, each takes its own rows,
turned class-major together: the cost does not grow with their number. Either way a row goes through the same kernels as
under a deterministic rule, and is decided alike bit for bit. `confmax.tables.draws` defines the draw; the tests compare
it with what is compiled here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax import kernels
from confmax.confusion import Array, Gains
from confmax.kernels.blocks import block_rows, chunk_rows, over_rows
from confmax.tables.array.oracle import kernel_gains
from confmax.tables.fingerprints import column_factors


def decide_drawn(
    proba: NDArray[Any],
    gains: Gains,
    weights: Array,
    *,
    words: NDArray[np.uint64],
    keys: NDArray[np.uint64] | None,
    limits: tuple[float, float] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.uint64], bool]:
    """Return the decision of every row by the atom that its key draws, the keys, both (n,), and whether rows are bad.

    The rows are probabilities (n, K), or what else reduced gains multiply; the atoms may decide more than the K
    classes. ``words`` (6,) are the coefficients of the hash. Without keys, rows draw by their hashes. ``limits`` are
    those of `check_rows`; None does not check the rows.
    """
    first, second = kernel_gains(gains, proba.dtype)
    n, K = proba.shape
    given = np.empty(0, dtype=np.uint64) if keys is None else np.ascontiguousarray(keys)
    hashes = np.empty(0 if keys is not None else n, dtype=np.uint64)
    used = hashes if keys is None else given
    edges = np.cumsum(weights)[:-1]
    out = np.empty(n, dtype=np.int64)
    size = block_rows(K)
    chunk = chunk_rows(K, n)
    factors = column_factors(K)
    broken = np.zeros((-(-n // chunk), 0 if limits is None else 4), dtype=np.bool_)
    allowed = np.array(limits or (np.inf, np.inf))

    def work(part: int, start: int, stop: int) -> None:
        kernels.native.draw(
            proba, start, stop, size, first, second, factors, words, edges, given, allowed, broken[part], hashes, out
        )

    over_rows(work, n, chunk)
    return out, used, bool(broken.any())
