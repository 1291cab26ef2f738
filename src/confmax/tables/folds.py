"""Cross-validation folds that depend on the content of the rows and a seed, never on their order or partitioning."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array
from confmax.tables.draws import uniform
from confmax.tables.table import MemoryTable

FOLDS = b"confmax fold"


def row_draws(hashes: NDArray[np.uint64], seed: int) -> Array:
    """Return one number in [0, 1) per unordered hash (n,), independent of what a rule of the same seed draws."""
    return uniform(seed, hashes, FOLDS)


def dealt(labels: NDArray[np.int64], draws: Array, n_classes: int, n_folds: int) -> NDArray[np.int64]:
    """Return the fold of every row (n,), stratified by label; rows of a class that are equal share their fold.

    A row's draw says which fold it goes to, so that a row that is changed, added or left out moves no other row of a
    large class. A fold that has its share of a class, and a twentieth of the class more, is full: what is left over
    goes to the next fold with room. Fewer than 20 rows of a class are divided evenly.
    """
    fold = np.empty(len(labels), dtype=np.int64)
    for k in range(n_classes):
        mine = labels == k
        distinct, where = np.unique(draws[mine], return_inverse=True)
        fold[mine] = _spread(distinct, n_folds)[where.reshape(-1)]
    return fold


def _spread(draws: Array, n_folds: int) -> NDArray[np.int64]:
    """Return the folds of the different rows of one class."""
    wanted = (draws * n_folds).astype(np.int64)
    most = -(-len(draws) // n_folds) + len(draws) // 20
    if np.bincount(wanted, minlength=n_folds).max() <= most:
        return wanted
    room = np.full(n_folds, most)
    # the order does not depend on the fold that is wanted, so that one row less moves few others
    for row in np.argsort(draws * n_folds - wanted, kind="stable"):
        while room[wanted[row]] == 0:
            wanted[row] = (wanted[row] + 1) % n_folds
        room[wanted[row]] -= 1
    return wanted


def stratified_folds(table: MemoryTable, n_folds: int, seed: int) -> NDArray[np.int64]:
    """Return the fold of every row (n,) of a labelled table."""
    assert table.labels is not None
    return dealt(table.labels, row_draws(table.unordered_hashes(), seed), table.n_classes, n_folds)


def folds_to_judge(table: MemoryTable, n_folds: int, seed: int) -> NDArray[np.int64]:
    """Return the fold of every row (n,), numbered from 0; there are fewer than asked for where few rows differ.

    Raises
    ------
    ValueError
        If there would be one fold only.
    """
    names, fold = np.unique(stratified_folds(table, n_folds, seed), return_inverse=True)
    if len(names) < 2:
        raise ValueError(
            "cross-fitting needs rows that differ, but all rows of a class hold the same probabilities, in some order; "
            "evaluate the rule on other rows"
        )
    return fold.reshape(-1).astype(np.int64)
