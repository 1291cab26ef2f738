"""The decisions of a randomised rule: every row is decided by the atom that its key draws (`confmax.tables.draws`)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax.confusion import Array, Gains
from confmax.tables import Calibrator, apply_calibrator, decide, given_hashes, is_sparse, is_tensor, on_host
from confmax.tables.array.predict import decide_drawn
from confmax.tables.arrays import ROW_SUM_TOLERANCE, as_array, rounding_of
from confmax.tables.draws import coefficients, given_keys, uniform
from confmax.tables.precision import features, is_wide

DUPLICATE_SHARE = 0.1
DUPLICATE_PARTS = 256  # a table of more rows than this squared is judged by the rows whose keys fall in one part


def drawn_decisions(
    proba: NDArray[Any],
    gains: Gains,
    weights: Array,
    seed: int,
    keys: ArrayLike | None,
    *,
    calibrator: Calibrator | None = None,
    hashes: Any = None,
) -> NDArray[np.int64]:
    """Return the decision (n,) of every row of checked ``proba`` (n, K) by the atom that its key draws.

    Without keys a row's hash, before calibration, is its key, and a warning says where many rows share theirs.
    ``hashes`` are those of the rows as they were given (`given_hashes`); None takes those of ``proba``.
    """
    hashes = given_hashes(proba) if keys is None and hashes is None else hashes
    given = hashes if keys is None else given_keys(keys, proba.shape[0])
    if is_tensor(proba):
        return _drawn_on_device(proba, gains, weights, seed, given, keyed=keys is not None, calibrator=calibrator)
    P = apply_calibrator(calibrator, proba)
    if is_sparse(P) or is_wide(gains, proba.dtype).any():
        atom = np.searchsorted(np.cumsum(weights)[:-1], uniform(seed, given), "right")
        decisions = _by_atom(P, gains, atom)
    else:
        decisions, _, _ = _scanned(features(P, gains.power), gains, weights, seed, given)
    if keys is None:
        _warn_of_duplicates(P, gains, given)
    return decisions


def drawn_given(
    proba: ArrayLike, gains: Gains, weights: Array, seed: int, keys: ArrayLike | None, classes: Sequence[Any]
) -> NDArray[np.int64] | None:
    """Return the decisions (n,) of `drawn_decisions` on probabilities not checked before, checked in the same scan.

    None where they are no array or not of the gains' number of classes, or some row does not sum to one:
    `checked_probabilities` says what is wrong, or divides rows by their sums.
    """
    if is_sparse(proba) or is_tensor(proba) or gains.power:
        return None
    P = as_array(proba, classes)
    if P.shape[1] != gains.n_classes or is_wide(gains, P.dtype).any():
        return None
    given = None if keys is None else given_keys(keys, P.shape[0])
    decisions, used, broken = _scanned(P, gains, weights, seed, given, limits=(ROW_SUM_TOLERANCE, rounding_of(P)))
    if broken:
        return None
    if keys is None:
        _warn_of_duplicates(P, gains, used)
    return decisions


def _scanned(
    x: NDArray[Any],
    gains: Gains,
    weights: Array,
    seed: int,
    keys: NDArray[np.uint64] | None,
    *,
    limits: tuple[float, float] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.uint64], bool]:
    """Return decisions and keys (n,) of an array, and whether some row is beyond the limits."""
    return decide_drawn(x, gains, weights, words=coefficients(seed), keys=keys, limits=limits)


def _drawn_on_device(
    proba: Any,
    gains: Gains,
    weights: Array,
    seed: int,
    given: Any,
    *,
    keyed: bool,
    calibrator: Calibrator | None,
) -> Any:
    """Return the same decisions for a checked tensor, as a tensor (n,) of int64 on its device."""
    from confmax.tables.tensor import predict as device

    keys = device.as_words(given, proba) if keyed else given
    P = apply_calibrator(calibrator, proba)
    if not keyed:
        _warn_of_duplicates(P, gains, on_host(keys).view(np.uint64))
    return device.decide_drawn(P, gains, weights, words=coefficients(seed), keys=keys)


def _by_atom(csr: Any, gains: Gains, atom: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return the decisions (n,) of the rows of a table, each by its own atom."""
    out = np.empty(len(atom), dtype=np.int64)
    for k in range(len(gains)):
        rows = np.flatnonzero(atom == k)
        if len(rows):
            out[rows] = decide(csr[rows], gains[k])[0]
    return out


def _warn_of_duplicates(proba: NDArray[Any], gains: Gains, keys: NDArray[np.uint64]) -> None:
    """Warn where rows that share their key, and so their draw, are a real share of the table.

    The share is taken over the rows whose keys fall in one part of all keys, which holds either all copies of a row
    or none; over all rows where that part is not of the size that different rows would fill.
    """
    n = len(keys)
    chosen = np.arange(n)
    if n > DUPLICATE_PARTS**2:
        part = np.flatnonzero(keys < np.uint64((1 << 64) // DUPLICATE_PARTS))
        chosen = part if n / 2 <= len(part) * DUPLICATE_PARTS <= 2 * n else chosen
    _, first, counts = np.unique(keys[chosen], return_index=True, return_counts=True)
    repeated = counts > 1
    if counts[repeated].sum() <= DUPLICATE_SHARE * len(chosen):
        return
    decisions = decide(proba[chosen[first[repeated]]], gains)
    random = (decisions != decisions[0]).any(axis=0)
    shared = float(counts[repeated][random].sum() / len(chosen))
    if shared > DUPLICATE_SHARE:
        warnings.warn(
            f"{shared:.0%} of the rows are duplicates of each other and get one common draw of the randomised rule; "
            f"pass keys=, an identifier per row, to draw for each row",
            UserWarning,
            stacklevel=5,
        )
