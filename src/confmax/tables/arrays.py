"""Arrays as they are given, checked: probabilities whose rows sum to one, and weights.

Rows that sum to one within rounding are used unchanged. Rows that sum to one within 1e-3 are divided by their sum. So
checking a table twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax import kernels
from confmax.confusion import Array
from confmax.errors import InputError
from confmax.kernels.blocks import LANES, MANY, block_rows, chunk_rows, over_rows
from confmax.tables.fingerprints import column_factors, row_hashes
from confmax.tables.kinds import refuse_name, refuse_no_table
from confmax.tables.labels import refuse_masked, vector

# a table of up to 20 classes that was rounded to four decimals stays within it
ROW_SUM_TOLERANCE = 1e-3
ORDINARY = 64  # the largest weight is so near to one, as a power of two, or is brought near
NO_WEIGHT = -(1 << 14)  # the unit of weights that are all zero, below that of all others
# rows have one sum if no more than this share of them is off by more than this part of the median
OTHER_ROWS = 0.01
ONE_SUM = 0.05
SURE_ROWS = 20  # fewer rows have one sum by chance, if it is neither one nor a hundred
SHOWN = 4  # columns in a message
FINITE, POSITIVE, CLOSE, EXACT = range(4)  # what is asked of rows: no NaN or infinity, not negative, sum near one, one


def as_array(proba: ArrayLike, *, order: Sequence[int] | None = None) -> NDArray[Any]:
    """Return a table as a C-contiguous array (n, K) of floats, its columns in ``order``, its rows unchecked.

    A vector (n,) becomes two columns: it holds the probabilities of the second of two classes.
    """
    # numpy.asarray drops the mask, and would let the values under it pass as probabilities
    refuse_masked(proba, "proba")
    P = np.asarray(proba)
    if order is not None and P.ndim == 2:
        P = P[:, list(order)]
    if P.ndim == 1:
        P = _two_columns(P)
    # these become an array without dimensions, whose shape would not tell the user what is wrong
    refuse_name(proba)
    refuse_no_table(proba)
    if P.ndim != 2 or P.shape[1] < 2:
        raise InputError(f"`proba` must have shape (n, K) with K >= 2 classes; got shape {P.shape}")
    # compiled scans read row after row: a transposed table is copied here once, and not in every pass
    return np.ascontiguousarray(as_float(P))


def _two_columns(p: NDArray[Any]) -> NDArray[Any]:
    """Return a vector (n,), the probabilities of the second of two classes, as one column for each (n, 2)."""
    if p.dtype.kind not in "biuf":
        try:
            p = p.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                f"proba must hold numbers; got dtype {p.dtype} and shape {p.shape}: pass one column per class, or for "
                f"two classes the probabilities of the second"
            ) from None
    p = as_float(p)
    bad = ~((p >= 0.0) & (p <= 1.0))
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(
            f"row {row} of proba is {p[row]:g}, and a vector (n,) holds the probabilities of the second of two "
            f"classes, between 0 and 1; pass one column per class, shape (n, K), for more classes"
        )
    return np.column_stack([1 - p, p])


def row_limits(P: NDArray[Any]) -> tuple[float, float]:
    """Return by how much a row's sum may be off for the row to be used at all, and to stay as it is."""
    return ROW_SUM_TOLERANCE, 8 * float(np.finfo(P.dtype).eps)


def checked_weight(sample_weight: ArrayLike, n: int) -> Array:
    """Return weights (n,) in float64 `in_own_unit`, or a ValueError: finite, not negative, and not all zero."""
    weight, _ = part_weight(sample_weight, n)
    if not weight.any():
        raise InputError("`sample_weight` sums to zero: at least one row needs a positive weight")
    return weight


def part_weight(sample_weight: ArrayLike, n: int) -> tuple[Array, int]:
    """Return the weights (n,) of a part of a table `in_own_unit`, and the unit; a ValueError as for `checked_weight`.

    They may all be zero.
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
        raise InputError(f"row {row} of `sample_weight` is {weight[row]}", "weights must be finite and not negative")
    return in_own_unit(weight)


def in_own_unit(weight: Array) -> tuple[Array, int]:
    """Return weights (n,) of which sums, squares and products can be held, and the power of two that they are times.

    Only ratios of weights matter, and a power of two changes no digit. Where the largest weight is not far from one,
    the unit is zero and the weights stay as they are.

    >>> in_own_unit(np.array([2.0**-1060, 0.0, 2.0**-1059]))
    (array([0.25, 0.  , 0.5 ]), -1058)
    """
    largest = float(weight.max(initial=0.0))
    if largest == 0.0:
        return weight, NO_WEIGHT
    unit = int(np.frexp(largest)[1])
    return (weight, 0) if abs(unit) <= ORDINARY else (np.ldexp(weight, -unit), unit)


def in_native_order(values: NDArray[Any]) -> NDArray[Any]:
    """Return the same numbers with their bytes in the machine's order, which compiled code needs; no copy if so."""
    return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))


def as_float(P: NDArray[Any]) -> NDArray[Any]:
    """Return P as float32 or float64, in the machine's order of bytes."""
    P = in_native_order(P)
    if P.dtype in (np.float32, np.float64):
        return P
    # there is no compiled code for 16 bits, and float32 holds all of their numbers
    if P.dtype == np.float16:
        return P.astype(np.float32)
    if np.iscomplexobj(P):
        raise InputError("`proba` holds complex numbers; pass real probabilities")
    try:
        return P.astype(np.float64)
    except (TypeError, ValueError):
        # the failed conversion does not say which cell it was
        # entries of a sparse table come without their places
        for (row, column), cell in np.ndenumerate(P) if P.ndim == 2 else ():
            try:
                float(cell)
            except (TypeError, ValueError):
                raise InputError(
                    f"row {row}, column {column} of `proba` is not a number ({cell!r:.40}); drop columns that hold no "
                    f"probabilities, and rows with missing values"
                ) from None
        raise InputError(f"`proba` must hold numbers; got dtype {P.dtype}") from None


def refuse_rows(P: NDArray[Any]) -> None:
    """Say which row is no distribution."""
    refuse_entries(P.ravel(), lambda k: divmod(k, P.shape[1]))
    sums = P.sum(axis=1, dtype=np.float64)
    # NumPy adds in another order than the compiled check: at the edge of the tolerance it may find all sums
    # good, and then the worst row is shown
    row = int(np.argmax(np.abs(sums - 1.0)))
    if abs(sums[row] - 1.0) > ROW_SUM_TOLERANCE:
        row = int(np.argmax(np.abs(sums - 1.0) > ROW_SUM_TOLERANCE))
    refuse_other_columns(P)
    raise InputError(
        f"row {row} of `proba` sums to {sums[row]:.6g}, not to one (tolerance {ROW_SUM_TOLERANCE:g})",
        "pass predict_proba's output, or divide each row by its sum, as `normalize=True` does",
    )


def refuse_other_columns(P: NDArray[Any], names: Sequence[str] | None = None) -> None:
    """Refuse, by a ValueError, a table (n, K) with columns that are no class: rows have one sum without them only.

    Counts, scores and percentages pass, also where their rows have different sums. ``names`` are those of the columns.
    """
    K = P.shape[1]
    sums = row_sums(P)
    if _have_one_sum(sums):
        return
    # one column, or all that hold more than a probability, or these and one more
    large = frozenset(np.flatnonzero((P > 1.0).any(axis=0)).tolist())
    for others in dict.fromkeys([*(frozenset([k]) for k in range(K)), large, *(large | {k} for k in range(K))]):
        columns = sorted(others)
        rest = sums - P[:, columns].sum(axis=1, dtype=np.float64)
        one = float(np.median(rest))
        certain = len(rest) >= SURE_ROWS or min(abs(one - 1.0), abs(one - 100.0) / 100.0) <= ROW_SUM_TOLERANCE
        if not columns or K - len(columns) < 2 or one <= 0.0 or not certain or not _have_one_sum(rest):
            continue
        # such a column changes the sum of most rows; in few rows it may be an entry that is wrong
        if np.median(np.abs(sums - one)) <= ONE_SUM * one:
            continue
        row = int(np.argmax(np.abs(sums - one)))
        shown = " and ".join(f"column {k if names is None else repr(names[k])} of `proba`" for k in columns[:SHOWN])
        those = ("is no class", "it") if len(columns) == 1 else ("are no classes", "them")
        raise InputError(
            f"{shown} {those[0]}: rows sum to {one:.6g} without {those[1]}, and row {row} to {sums[row]:.6g} with "
            f"{those[1]}",
            "pass the columns of the classes alone",
        )


def absent_classes(sums: Array, others: Mapping[str, Array], *, normalize: bool) -> list[str]:
    """Return which of the ``others``, columns (n,) of n > 0 rows, are probabilities of further classes; often none.

    Rows have the ``sums`` (n,) over the known classes. With further classes they sum to one, or if they will be divided
    by their sums, to any one number, and far more exactly than without.
    """
    # beside votes one number says nothing: with it rows have one sum if they have one without
    tells = np.ptp if normalize else np.any
    others = {name: column for name, column in others.items() if np.isfinite(column).all() and tells(column)}
    if not others or not np.isfinite(sums).all():
        return []
    tolerance = ONE_SUM if normalize else ROW_SUM_TOLERANCE
    totals = [1.0]
    if normalize:
        # of votes the largest sum is that of rows where a further class has none; with one class, all rows have it
        totals += [100.0, float(sums.max()), *(float(np.median(sums + column)) for column in others.values())]
    before = float(np.abs(sums - (np.median(sums) if normalize else 1.0)).mean())
    found: list[str] = []
    nearest = before / 2
    for total in dict.fromkeys(totals):
        limit = tolerance * total
        rest = total - sums + limit
        fits = [name for name, c in others.items() if _in_most_rows((c >= 0.0) & (c <= rest))]
        sets = [fits, *([name] for name in fits), *([n for n in fits if n != name] for name in fits)]
        for names in sets:
            off = np.abs(sums + sum(others[name] for name in names) - total)
            if off.mean() < nearest and _in_most_rows(off <= limit):
                found, nearest = names, float(off.mean())
    return found


def _in_most_rows(holds: NDArray[np.bool_]) -> bool:
    return bool(np.mean(~holds) <= OTHER_ROWS)


def _have_one_sum(sums: Array) -> bool:
    """Whether almost all rows have about the same sum, as probabilities, percentages and votes of as many voters."""
    one = float(np.median(sums))
    return _in_most_rows(np.abs(sums - one) <= ONE_SUM * abs(one))


def refuse_entries(values: NDArray[Any], place: Callable[[int], tuple[int, int]]) -> None:
    """Refuse, by a ValueError, entries (m,) that are no probabilities; ``place(k)`` is the row and column of one."""
    # NaN is not below zero: numbers that are not finite are looked for first
    tests = [
        (~np.isfinite(values), "is not a finite number", "drop or impute such rows"),
        (values < 0, "is negative", "pass probabilities, not scores or log-probabilities"),
    ]
    for bad, what, way_out in tests:
        if bad.any():
            k = int(np.argmax(bad))
            row, column = place(k)
            raise InputError(f"row {row}, column {column} of `proba` {what} ({values[k]}); {way_out}")


# --- one pass that checks every row, adds up every column, and hashes every row ---------------------------------------


def row_sums(P: NDArray[Any]) -> Array:
    """Return the sums of rows (n,) in float64, added in the order of the compiled check."""
    n, K = P.shape
    if K <= MANY:
        sums = np.zeros(n)
        for column in P.T:
            sums += column
        return sums
    # long rows are added along themselves, by interleaved sums whose halves are added to each other
    whole = K - K % LANES
    lanes = np.zeros((n, LANES))
    for j in range(0, whole, LANES):
        lanes += P[:, j : j + LANES]
    while lanes.shape[1] > 1:
        lanes = lanes[:, : lanes.shape[1] // 2] + lanes[:, lanes.shape[1] // 2 :]
    sums = lanes[:, 0]
    for j in range(whole, K):
        sums += P[:, j]
    return sums


def check_rows(
    P: NDArray[Any], limits: tuple[float, float] = (np.inf, np.inf), hashes: NDArray[np.uint64] | None = None
) -> tuple[Array, NDArray[np.bool_]]:
    """Return the column sums (K,) of P (n, K), and which of the four demands some row does not meet (4,).

    ``limits`` say how far the sum of a row may be from one to be near it, and to be it (`row_limits`). ``hashes`` (n,)
    take those of the rows (`confmax.tables.fingerprints`).
    """
    n, K = P.shape
    if kernels.native is None:
        if hashes is not None:
            hashes[:] = row_hashes(P)
        # infinite entries of both signs add up to NaN, which `refuse_rows` explains
        with np.errstate(invalid="ignore", over="ignore"):
            off = np.abs(row_sums(P) - 1.0)
            demands = [not np.isfinite(off).all(), (P < 0).any(), *((off > limit).any() for limit in limits)]
            return P.sum(axis=0, dtype=np.float64), np.array(demands)
    factors = column_factors(K)
    allowed = np.array(limits)
    chunk = chunk_rows(K, n)
    parts = -(-n // chunk)
    size = block_rows(K)
    totals = np.zeros((parts, K))
    broken = np.zeros((parts, 4), dtype=np.bool_)
    written = np.empty(0, dtype=np.uint64) if hashes is None else hashes

    def work(part: int, start: int, stop: int) -> None:
        # each part has a line of its own in the sums: their order, and so the result, is the same for any threads
        kernels.native.check(P, start, stop, size, allowed, factors, totals[part], broken[part], written)

    over_rows(work, n, chunk)
    return totals.sum(axis=0), np.asarray(broken.any(axis=0))


def normalised(P: NDArray[Any], rounding: float) -> NDArray[Any]:
    """Return a copy whose rows are divided by their sums, except those that sum to one within rounding."""
    n, K = P.shape
    if kernels.native is None:
        # rows that sum to one within rounding stay as they are, so that a second check changes nothing
        sums = row_sums(P)
        return np.asarray(P / np.where(np.abs(sums - 1.0) > rounding, sums, 1.0)[:, None]).astype(P.dtype)
    out = np.empty_like(P)
    size = block_rows(K)
    over_rows(lambda _, low, high: kernels.native.normalise(P, low, high, size, rounding, out), n, chunk_rows(K, n))
    return out


def weighted_totals(P: NDArray[Any], weight: Array) -> Array:
    """Return the weighted column sums (K,)."""
    n, K = P.shape
    if kernels.native is None:
        return np.asarray((weight[:, None] * P).sum(axis=0))
    chunk = chunk_rows(K, n)
    totals = np.zeros((-(-n // chunk), K))
    over_rows(lambda part, start, stop: kernels.native.weigh(P, start, stop, weight, totals[part]), n, chunk)
    return np.asarray(totals.sum(axis=0))


def gathered(P: NDArray[Any], chosen: NDArray[np.intp]) -> NDArray[Any]:
    """Return the chosen rows (m, K), which lie far apart: every thread waits for its own."""
    if kernels.native is None:
        return P[chosen]
    out = np.empty((len(chosen), P.shape[1]), P.dtype)
    over_rows(lambda _, start, stop: kernels.native.gather(P, chosen, start, stop, out), len(chosen), 1 << 12)
    return out


def picked(P: NDArray[Any], decision: NDArray[Any]) -> NDArray[Any]:
    """Return each row's probability of its ``decision`` (n,), zero for one that is no class."""
    if kernels.native is None:
        known = decision < P.shape[1]
        hit = P[np.arange(len(P)), np.where(known, decision, 0)]
        return np.where(known, hit, hit.dtype.type(0))
    out = np.empty(len(P), P.dtype)
    rows = np.ascontiguousarray(P)
    whole = np.ascontiguousarray(decision, np.int64)
    over_rows(lambda _, start, stop: kernels.native.pick(rows, whole, start, stop, out), len(P), 1 << 16)
    return out
