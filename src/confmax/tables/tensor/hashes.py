"""The hashes of rows on a device: signed 64-bit words of the same bits, whose sums and products wrap alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from confmax.tables.fingerprints import FIRST, GOLDEN, SECOND, column_factors

Tensor = Any


def row_hashes(proba: Tensor, rows: Iterable[slice]) -> Tensor:
    """Return the bits of the hash of every row (n,), int64, of a tensor (n, K); ``rows`` are slices of all rows."""
    factors = torch.as_tensor(column_factors(proba.shape[1]).view("int64"), device=proba.device)
    return mixed(_summed(proba, rows, lambda words: words * factors))


def unordered_hashes(proba: Tensor, rows: Iterable[slice]) -> Tensor:
    """Return the bits of the unordered hash of every row (n,), int64; arguments as for `row_hashes`."""
    return mixed(_summed(proba, rows, mixed))


def _summed(proba: Tensor, rows: Iterable[slice], each: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the sum over every row (n,) of what ``each`` makes of its words."""
    sums = torch.empty(len(proba), dtype=torch.int64, device=proba.device)
    for part in rows:
        bits = (proba[part].float().contiguous().view(torch.int32).long() << 1) & 0xFFFFFFFF
        sums[part] = each(bits ^ (bits >> 16)).sum(dim=1)
    return sums


def mixed(words: Tensor) -> Tensor:
    """Scramble words one to one, as on arrays."""
    z = words * signed(GOLDEN)
    z = (z ^ shifted(z, 30)) * signed(FIRST)
    z = (z ^ shifted(z, 27)) * signed(SECOND)
    return z ^ shifted(z, 31)


def shifted(z: Tensor, by: int) -> Tensor:
    """Return words shifted right, zeros coming in."""
    return (z >> by) & ((1 << (64 - by)) - 1)


def signed(word: int) -> int:
    """Return the signed word of the same bits."""
    return word - (1 << 64) if word >= 1 << 63 else word
