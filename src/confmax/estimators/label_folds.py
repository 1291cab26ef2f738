"""Splits of rows with several labels, in which every label has its share of every fold."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import check_cv

from confmax.confusion import Array
from confmax.estimators import steps
from confmax.tables.columns import warn
from confmax.tables.draws import dealt_labels

NAMED = 5  # labels that a warning names
Splits = list[tuple[Any, Any]]


def label_splits(cv: Any, X: Any, Y: NDArray[Any], params: Any, seed: int, names: Sequence[Any]) -> Splits:
    """Return the splits that ``cv`` stands for: of a number, stratified by all labels (n, L) of 0 and 1.

    Warn, by name, of labels that cannot be in all folds, and of those on which the rows of a model agree.
    """
    n_folds = None
    if cv is None or isinstance(cv, Integral):
        n_folds = check_cv(cv).get_n_splits()
        shares, tested = np.full(n_folds, 1.0 / n_folds), range(n_folds)
    elif isinstance(cv, Real):
        # one split, which tests the second part
        shares, tested = np.array([1.0 - steps.hold_out(cv), steps.hold_out(cv)]), range(1, 2)
    else:
        splits = steps.own_splits(check_cv(cv), X, Y, params)
        _warn_of_rare(Y, splits, names)
        return splits
    fold = stratified(Y, shares, seed)
    splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in tested]
    if not all(len(train) and len(test) for train, test in splits):
        raise ValueError(f"cv={cv!r} leaves no rows to fit or to test, of {len(Y)}; pass another cv, or more rows")
    _warn_of_rare(Y, splits, names, n_folds)
    return splits


def stratified(Y: NDArray[Any], shares: Array, seed: int) -> NDArray[np.intp]:
    """Return the fold (n,) of every row of labels (n, L), for folds that get ``shares`` (F,) of rows and labels.

    The rows are dealt out in an order that depends on the seed, so that sorted rows are spread over all folds.

    >>> stratified(np.array([[1, 0], [1, 0], [1, 1], [0, 1], [0, 0], [0, 0]]), np.array([0.5, 0.5]), 0).tolist()
    [0, 1, 1, 0, 1, 0]
    """
    return dealt_labels(Y, shares, np.random.default_rng(seed).permutation(len(Y)))


def _warn_of_rare(Y: NDArray[Any], splits: Splits, names: Sequence[Any], n_folds: int | None = None) -> None:
    """Warn of labels on which too few rows differ for the splits; not of those on which none do."""
    rows = Y.sum(axis=0)
    fewer = np.minimum(rows, len(Y) - rows)
    if n_folds is None:
        alike = np.any([(Y[train] == Y[train][:1]).all(axis=0) for train, _ in splits], axis=0)
        why = "all training rows of a split agree on the"
    else:
        alike = fewer < n_folds
        why = f"for {n_folds} folds, too few rows have or have not the"
    found = np.flatnonzero(alike & (fewer > 0))
    if not len(found):
        return
    shown = ", ".join(f"{names[k]!r} ({rows[k]} of {len(Y)} rows)" for k in found[:NAMED])
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    warn(
        f"{why} label{'s' if len(found) > 1 else ''} {shown}{more}; where all rows of a model agree on a label, its "
        f"probability is their share: pass a smaller cv, or more such rows"
    )
