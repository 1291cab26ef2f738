"""Random draws that are a function of (seed, key) alone: the same row gets the same draw in any batch or process."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from confmax.confusion import Array

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble 64-bit words one to one (the finaliser of splitmix64)."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def row_keys(proba: NDArray[Any]) -> NDArray[np.uint64]:
    """Return one key per row of ``proba`` (n, K), from its values: equal rows have equal keys, in any dtype."""
    keys = np.zeros(proba.shape[0], dtype=np.uint64)
    for column in proba.T:
        bits = (column.astype(np.float64) + 0.0).view(np.uint64)  # + 0.0: one zero, not two
        keys = _mix((keys ^ bits) + _GOLDEN)
    return keys


def given_keys(keys: ArrayLike, n: int) -> NDArray[np.uint64]:
    """Return the caller's keys (n,), integers or strings, as 64-bit words.

    Raises
    ------
    ValueError
        If there is not one key per row, or a key is neither an integer nor a string.
    """
    values = np.asarray(keys)
    if values.shape != (n,):
        raise ValueError(f"keys must hold one key per row of proba: {n}; got shape {values.shape}")
    if values.dtype.kind in "iu":
        return values.astype(np.uint64)
    words = [_word(value) for value in values.tolist()]
    return np.array(words, dtype=np.uint64)


def _word(value: Any) -> int:
    if isinstance(value, int):
        return value % (1 << 64)
    if isinstance(value, str):
        return int.from_bytes(hashlib.blake2b(value.encode(), digest_size=8).digest(), "little")
    raise ValueError(f"keys must be integers or strings; got {type(value).__name__}: pass an identifier of each row")


def uniform(seed: int, keys: NDArray[np.uint64]) -> Array:
    """Return one number in [0, 1) per key."""
    start = _mix(np.array([seed % (1 << 64)], dtype=np.uint64) + _GOLDEN)
    return (_mix(keys * _GOLDEN + start) >> np.uint64(11)).astype(np.float64) * 2.0**-53
