"""Gains whose coefficients span more than the table's numbers hold: those are decided in float64.

The coefficients of a gain are scaled by a power of two and rounded to the table's type (`coefficients`). In
float32 a coefficient 1e-40 times the largest would become zero, and its class would never win a row. Such a gain is
multiplied with the same probabilities in float64 instead, in every backend and export. Whether it is, depends on the
gain alone, so that a rule decides alike as one of a batch and by itself.

Gains are scaled by a power of two, rounded once to the table's dtype, multiplied, then added, and never fused. The
NumPy and compiled oracles therefore make the same decision for every row, including ties.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confmax.confusion import Array, Confusion, Gains

# relative to the largest coefficient. A row's best score is at least a K-th of a coefficient: 26 bits are left for that
NARROW = 2.0**-100  # float32 holds no less
LEAST = 2.0**-1000  # nor does float64


def spans(gains: Gains) -> tuple[Array, Array]:
    """Return the smallest that is not zero and the largest size (B,) of each gain's coefficients; inf and 0 of none."""
    values = gains.full if gains.full is not None else np.concatenate(gains.coefficients(), axis=1)
    sizes = np.abs(values).reshape(len(values), -1)
    # a coefficient of zero is held exactly by every type, so it does not count as small
    return np.where(sizes > 0, sizes, np.inf).min(axis=1), sizes.max(axis=1)


def is_wide(gains: Gains, dtype: Any) -> NDArray[np.bool_]:
    """Return which gains (B,) are to be decided in float64 on a table of ``dtype``, which is narrower."""
    if np.dtype(dtype) == np.float64:
        return np.zeros(len(gains), dtype=np.bool_)
    least, largest = spans(gains)
    return np.asarray(least < largest * NARROW)


def refuse_unheld(gains: Gains) -> None:
    """Refuse, by a ValueError, gains whose coefficients span more than float64 holds."""
    least, largest = spans(gains)
    bad = np.flatnonzero(least < largest * LEAST)
    if len(bad):
        k = int(bad[0])
        raise ValueError(
            f"the weights and offsets of a rule range from {least[k]:.3g} to {largest[k]:.3g} in size, and scores in "
            f"float64 allow a factor of at most {1 / LEAST:.0e}; set the small ones to zero"
        )


def held(gains: Gains) -> Gains:
    """Return the gains with zeros in place of coefficients that float64 cannot hold beside the largest."""
    least, largest = spans(gains)
    if not (least < largest * LEAST).any():
        return gains
    # these gains come from a solver, whose slopes may span any range; a rule that somebody wrote is refused instead
    floor = largest * LEAST

    def cleaned(values: Array) -> Array:
        return np.where(np.abs(values) < floor.reshape((-1,) + (1,) * (values.ndim - 1)), 0.0, values)

    if gains.full is not None:
        return Gains.from_matrix(cleaned(gains.full))
    a, b = gains.coefficients()
    return Gains.reduced(cleaned(a), cleaned(b), power=gains.power)


def coefficients(values: Array, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Round coefficients (B, ...) once to the table's dtype, after scaling each gain by a power of two.

    The scaling is exact and changes no decision; it keeps large gains from overflowing in float32.
    """
    exponent = _exponents(values)
    return np.ldexp(values, -exponent.reshape((-1,) + (1,) * (values.ndim - 1))).astype(dtype)


def _exponents(values: Array) -> NDArray[Any]:
    """Return the powers of two (B,) by which the coefficients (B, ...) of gains are scaled."""
    largest = np.abs(values).reshape(len(values), -1).max(axis=1)
    return np.where(largest > 0, np.frexp(largest)[1], 0)


def units(gains: Gains) -> Array:
    """Return what a score of one stands for (B,), in the numbers of the gains as they were given."""
    values = gains.full if gains.full is not None else np.concatenate(gains.coefficients(), axis=1)
    return np.ldexp(1.0, _exponents(values))


def gain_coefficients(gains: Gains, dtype: np.dtype[Any]) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Return ``(a, b)``, (B, K) and (B, M), or ``(full, None)`` in the table's dtype; a and b share one scale."""
    if gains.full is not None:
        return coefficients(gains.full, dtype), None
    both = coefficients(np.concatenate(gains.coefficients(), axis=1), dtype)
    K = gains.n_classes
    return np.ascontiguousarray(both[:, :K]), np.ascontiguousarray(both[:, K:])


def features(proba: NDArray[Any], power: int) -> NDArray[Any]:
    """Return what reduced gains multiply (n, K): ``p_j``, or ``sum_i |i - j|^power p_i`` in O(K) operations per row."""
    if power == 0:
        return proba
    out = np.empty_like(proba)
    for j, column in enumerate(distances(proba.T, power)):
        out[:, j] = column
    return out


def distances(columns: Any, power: int) -> Iterator[Any]:
    """Yield ``sum_i |i - j|^power p_i`` for every class j from the columns of p, arrays or tensors (n,).

    What is yielded changes with the next class.
    """
    # compiled scans add in the same order, class after class: decisions must agree bit for bit
    total = columns[0] * 1.0
    mean = columns[0] * 0.0
    square = columns[0] * 0.0
    for i in range(1, len(columns)):
        total += columns[i]
        mean += columns[i] * float(i)
        square += columns[i] * float(i * i)
    below = total * 0.0
    distance = mean
    for j in range(len(columns)):
        if power == 2:
            yield (square + total * float(j * j)) - mean * float(2 * j)
            continue
        yield distance
        below += columns[j]
        distance += below + below - total


def decided(
    gains: Gains,
    proba: Any,
    by: Callable[[Any, Gains], Any],
    *,
    join: Callable[[Any], Any] = np.concatenate,
    dtype: Any = None,
    double: Callable[[Any], Any] = lambda proba: proba.astype(np.float64),
) -> Any:
    """Return the decisions (B, n): ``by(rows, part)`` decides ``proba`` (n, K) by some of the gains.

    Its rows are in float64, which ``double`` makes, for gains that are wide for a ``dtype``, by default that of the
    rows. ``join`` makes one batch of two.
    """
    wide = is_wide(gains, proba.dtype if dtype is None else dtype)
    if not wide.any():
        # the usual case: no gain is split off, and nothing is copied
        return by(proba, gains)
    # a copy for the pass: such gains are rare
    if wide.all():
        return by(double(proba), gains)
    order = [np.flatnonzero(~wide), np.flatnonzero(wide)]
    joined = join([by(proba, gains[order[0]]), by(double(proba), gains[order[1]])])
    return joined[np.argsort(np.concatenate(order))]


def answered(gains: Gains, proba: Any, by: Callable[[Any, Gains], Confusion], **how: Any) -> Confusion:
    """Return an oracle's answers (batch of B): ``by(rows, part)`` answers some of the gains, as in `decided`."""
    answers: Confusion = decided(gains, proba, by, join=Confusion.concatenate, **how)
    return answers
