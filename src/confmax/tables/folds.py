"""Cross-validation folds that depend on the content of the rows and a seed, never on their order or partitioning."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array
from confmax.tables.draws import uniform
from confmax.tables.table import MemoryTable

FOLDS = b"confmax fold"
Part = TypeVar("Part")
Fitted = TypeVar("Fitted")


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
        # equal rows must share a fold: a rule would else be judged on copies of rows that it was tuned on
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
    # without the order of the columns: naming classes differently must not move rows to other folds
    return dealt(table.labels, row_draws(table.unordered_hashes(), seed), table.n_classes, n_folds)


def folds_to_judge(table: MemoryTable, n_folds: int, seed: int) -> NDArray[np.int64]:
    """Return the fold of every row (n,), numbered from 0; there are fewer than asked for where few rows differ.

    Raises
    ------
    ValueError
        If there would be one fold only.
    """
    # a fold that no row fell into is left out, and the others are numbered without a gap
    names, fold = np.unique(stratified_folds(table, n_folds, seed), return_inverse=True)
    if len(names) < 2:
        raise ValueError(
            "cross-fitting needs rows that differ, but all rows of a class hold the same probabilities, in some order; "
            "evaluate the rule on other rows"
        )
    return fold.reshape(-1).astype(np.int64)


def cross_fit(fit: Callable[[Part], Fitted], parts: Iterable[Part]) -> Iterator[tuple[Part, Fitted]]:
    """Yield every part of the rows with what ``fit`` makes of the other rows.

    Parameters
    ----------
    fit : callable
        Maps the rows to leave out to what is fitted on the others.
    parts : iterable
        The rows of every part, such as `masks` of folds, or the test rows of a splitter.

    Examples
    --------
    >>> size = np.array([2.0, 4.0, 9.0])
    >>> fitted = cross_fit(lambda part: float(size[~part].mean()), masks(np.array([0, 0, 1])))
    >>> [(part.tolist(), mean) for part, mean in fitted]
    [([True, True, False], 9.0), ([False, False, True], 3.0)]
    """
    for part in parts:
        yield part, fit(part)


def quietly(tune: Callable[[Part], Fitted]) -> Callable[[Part], Fitted]:
    """Return ``tune`` without its warnings of classes that the rows lack.

    A warning about all rows is given where the rule of all rows is tuned. What only the other rows of a part lack shows
    in the rule that is tuned on them.
    """

    def tuned(part: Part) -> Fitted:
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", ".* divides by class sizes|the log loss of the probabilities", UserWarning
            )
            return tune(part)

    return tuned


def masks(fold: NDArray[np.integer]) -> list[NDArray[np.bool_]]:
    """Return the rows of every fold, as masks (n,), from the folds (n,) of the rows."""
    return [fold == k for k in np.unique(fold)]
