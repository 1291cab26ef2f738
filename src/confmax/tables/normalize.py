"""Rows that do not sum to one, such as probabilities that were rounded, divided by their sums because somebody asks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from confmax.errors import InputError
from confmax.tables.array.kind import ARRAYS
from confmax.tables.arrays import (
    ROW_SUM_TOLERANCE,
    as_array,
    normalised,
    refuse_entries,
    refuse_other_columns,
    row_limits,
    row_sums,
)
from confmax.tables.columns import warn
from confmax.tables.frames import as_rows, column_names, narrowed
from confmax.tables.kinds import known


def normalized(proba: Any) -> tuple[Any, str]:
    """Return probabilities (n, K) whose rows are divided by their sums, and what to say of the sums.

    A frame stays one, so that its names and its index count. The note says which row's sum is farthest from one; it is
    empty if all are close enough to need no division. ValueError if the rows are not in memory as numbers, an entry is
    negative or not finite, a row sums to zero, or a column is no class.
    """
    kind, given = known(proba)
    if kind is not ARRAYS:
        raise ValueError(
            f"normalize=True divides the rows of arrays and data frames; got {type(given).__name__}: divide its rows "
            f"by their sums first"
        )
    P = as_array(given)
    refuse_entries(P.ravel(), lambda k: divmod(k, P.shape[1]))
    if not len(P):
        return given, ""
    refuse_other_columns(P, column_names(given))
    sums = row_sums(P)
    empty = sums <= 0.0
    if empty.any():
        raise InputError(f"row {int(np.argmax(empty))} of `proba` sums to zero, so it cannot be divided; drop it")
    off = np.abs(sums - 1.0)
    note = ""
    row = int(np.argmax(off))
    if off[row] > ROW_SUM_TOLERANCE:
        note = f"the rows of proba were divided by their sums; that of row {row} is farthest from one: {sums[row]:.6g}"
    return _like(given, normalised(P, row_limits(P)[1])), note


def rows_to_decide(proba: Any, classes: Sequence[Any], *, normalize: bool = False) -> Any:
    """Return the rows that a rule over ``classes`` reads: one row that is a Series as a table, divided if asked to."""
    rows = as_rows(proba, classes)
    # a column that is no class has no part in the sum of a row
    return divided(narrowed(rows, classes), normalize=True) if normalize else rows


def divided(proba: Any, normalize: bool) -> Any:
    """Return probabilities as they are, or if asked to ``normalize`` what `normalized` returns, with a warning."""
    if not normalize:
        return proba
    found, note = normalized(proba)
    warn(note)
    return found


def _like(given: Any, P: Any) -> Any:
    """Return an array (n, K) as a frame like the one that was given, if it was one."""
    names = column_names(given)
    if names is None:
        return P
    # pandas, pyarrow, Polars
    if hasattr(given, "iloc"):
        return type(given)(P, index=given.index, columns=given.columns)
    if hasattr(given, "column_names"):
        return type(given).from_arrays(list(P.T), names=names)
    return type(given)(P, schema=names)
