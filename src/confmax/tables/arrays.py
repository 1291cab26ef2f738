"""Arrays as they are given, checked: probabilities whose rows sum to one, and weights.

Rows that sum to one within rounding are used unchanged. Rows that sum to one within 1e-3 are divided by their sum. So
checking a table twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax.confusion import Array
from confmax.tables.check import check_rows, normalised
from confmax.tables.kinds import refuse_name
from confmax.tables.labels import refuse_masked, vector

# a table of up to 20 classes that was rounded to four decimals stays within it
ROW_SUM_TOLERANCE = 1e-3


def as_array(proba: ArrayLike, *, order: Sequence[int] | None = None) -> NDArray[Any]:
    """Return a table as a C-contiguous array (n, K) of floats, its columns in ``order``, its rows unchecked."""
    # numpy.asarray drops the mask, and would let the values under it pass as probabilities
    refuse_masked(proba, "proba")
    P = np.asarray(proba)
    if order is not None and P.ndim == 2:
        P = P[:, list(order)]
    if P.ndim == 1:
        raise ValueError(
            f"proba must have one column per class, shape (n, K); got shape {P.shape}: for two classes and the "
            f"positive class's probabilities p, pass numpy.column_stack([1 - p, p])"
        )
    # the name of a file becomes an array without dimensions, whose shape would not tell the user what is wrong
    refuse_name(proba)
    if P.ndim != 2 or P.shape[1] < 2:
        raise ValueError(f"proba must have shape (n, K) with K >= 2 classes; got shape {P.shape}")
    if P.shape[0] == 0:
        raise ValueError("proba is empty: at least one row of probabilities is needed")
    # compiled scans read row after row: a transposed table is copied here once, and not in every pass
    return np.ascontiguousarray(_as_float(P))


def checked_array(P: NDArray[Any], *, hashed: bool) -> tuple[NDArray[Any], Array, NDArray[np.uint64] | None]:
    """Return an array from `as_array`, its rows checked and divided by their sums, its column sums, and row hashes.

    Rows are hashed as they were given, before they are divided.
    """
    rounding = rounding_of(P)
    hashes = np.empty(len(P), dtype=np.uint64) if hashed else None
    totals, broken = check_rows(P, ROW_SUM_TOLERANCE, rounding, hashes)
    # the compiled pass says only that some row is bad; which one, and why, takes a slower look
    if broken[:3].any():
        _refuse_rows(P)
    if broken[3]:
        P = normalised(P, rounding)
        # division changes the sums of the columns; the hashes stay those of the rows as they were given
        totals, _ = check_rows(P, ROW_SUM_TOLERANCE, rounding)
    return P, totals, hashes


def rounding_of(P: NDArray[Any]) -> float:
    """Return by how much a row's sum may be off for the row to stay as it is."""
    return 8 * float(np.finfo(P.dtype).eps)


def checked_weight(sample_weight: ArrayLike, n: int, *, whole: bool = True) -> Array:
    """Return weights (n,) in float64; those of a ``whole`` table must not all be zero.

    Raises
    ------
    ValueError
        For a wrong length, or weights that are no finite numbers of at least zero.
    """
    weight = vector(sample_weight, "sample_weight", "one weight")
    try:
        weight = weight.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"sample_weight must hold numbers; got dtype {weight.dtype}") from None
    if weight.shape != (n,):
        raise ValueError(f"sample_weight must have one weight per row of proba: {n}; got shape {weight.shape}")
    bad = ~(np.isfinite(weight) & (weight >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"row {row} of sample_weight is {weight[row]}; weights must be finite and not negative")
    # finite weights can add up to infinity, and every share of them would be zero
    with np.errstate(over="ignore"):
        total = weight.sum()
    if not np.isfinite(total):
        raise ValueError("sample_weight is too large to sum; divide the weights by their largest")
    if whole and total <= 0:
        raise ValueError("sample_weight sums to zero: at least one row needs a positive weight")
    return weight


def in_native_order(values: NDArray[Any]) -> NDArray[Any]:
    """Return the same numbers with their bytes in the machine's order, which compiled code needs; no copy if so."""
    return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))


def _as_float(P: NDArray[Any]) -> NDArray[Any]:
    """Return P as float32 or float64, in the machine's order of bytes."""
    P = in_native_order(P)
    if P.dtype in (np.float32, np.float64):
        return P
    # there is no compiled code for 16 bits, and float32 holds all of their numbers
    if P.dtype == np.float16:
        return P.astype(np.float32)
    if np.iscomplexobj(P):
        raise ValueError("proba holds complex numbers; pass real probabilities")
    try:
        return P.astype(np.float64)
    except (TypeError, ValueError):
        # the failed conversion does not say which cell it was
        for (row, column), cell in np.ndenumerate(P):
            try:
                float(cell)
            except (TypeError, ValueError):
                raise ValueError(
                    f"row {row}, column {column} of proba is not a number ({cell!r:.40}); drop columns that hold no "
                    f"probabilities, and rows with missing values"
                ) from None
        raise ValueError(f"proba must hold numbers; got dtype {P.dtype}") from None


def _refuse_rows(P: NDArray[Any]) -> None:
    """Say which row is no distribution."""
    if not np.isfinite(P).all():
        _refuse_first(P, ~np.isfinite(P), "is not a finite number", "drop or impute such rows")
    if P.min() < 0:
        _refuse_first(P, P < 0, "is negative", "pass probabilities, not scores or log-probabilities")
    sums = P.sum(axis=1, dtype=np.float64)
    # NumPy adds in another order than the compiled check: at the edge of the tolerance it may find all sums
    # good, and then the worst row is shown
    row = int(np.argmax(np.abs(sums - 1.0)))
    if abs(sums[row] - 1.0) > ROW_SUM_TOLERANCE:
        row = int(np.argmax(np.abs(sums - 1.0) > ROW_SUM_TOLERANCE))
    raise ValueError(
        f"row {row} of proba sums to {sums[row]:.6g}, not to one (tolerance {ROW_SUM_TOLERANCE:g}); pass "
        f"predict_proba's output, or divide each row by its sum"
    )


def _refuse_first(P: NDArray[Any], bad: NDArray[np.bool_], what: str, way_out: str) -> None:
    row, column = (int(part) for part in np.unravel_index(int(np.argmax(bad)), bad.shape))
    raise ValueError(f"row {row}, column {column} of proba {what} ({P[row, column]}); {way_out}")
