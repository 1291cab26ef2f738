"""Cross-validation folds that depend on the content of the rows and a seed, never on their order or partitioning."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax import _draw
from confmax.confusion import Array
from confmax.oracle import Table, is_sparse


def row_draws(proba: Any, seed: int) -> Array:
    """Return one number in [0, 1) per row from its probabilities, the same for any order of rows and of columns."""
    if is_sparse(proba):
        # zeros add nothing
        return _draw.uniform(seed, _draw.sums_of_rows(proba, _draw.row_keys(proba.data[:, None])))
    keys = np.zeros(len(proba), dtype=np.uint64)
    for k in range(proba.shape[1]):
        keys += _draw.row_keys(proba[:, k : k + 1])
    return _draw.uniform(seed, keys)


def dealt(labels: NDArray[np.int64], draws: Array, n_classes: int, n_folds: int) -> NDArray[np.int64]:
    """Return the fold of every row (n,), stratified by label; rows of a class that are equal share their fold."""
    fold = np.empty(len(labels), dtype=np.int64)
    for k in range(n_classes):
        mine = labels == k
        _, rank = np.unique(draws[mine], return_inverse=True)
        # rare classes must not all begin in the same fold
        first = int(draws[mine].min() * 2.0**53) if mine.any() else 0
        fold[mine] = (rank.reshape(-1) + first) % n_folds
    return fold


def stratified_folds(table: Table, n_folds: int, seed: int) -> NDArray[np.int64]:
    """Return the fold of every row (n,) of a labelled table."""
    assert table.labels is not None
    return dealt(table.labels, row_draws(table.proba, seed), table.n_classes, n_folds)


def folds_to_judge(table: Table, n_folds: int, seed: int) -> NDArray[np.int64]:
    """Return the fold of every row (n,), numbered from 0; there are fewer than asked for where few rows differ.

    Raises
    ------
    ValueError
        If there would be one fold only.
    """
    names, fold = np.unique(stratified_folds(table, n_folds, seed), return_inverse=True)
    if len(names) < 2:
        raise ValueError(
            "cross-fitting needs rows that differ, and those of each class hold the same probabilities, in whatever "
            "order; judge a rule on other rows"
        )
    return fold.reshape(-1).astype(np.int64)
