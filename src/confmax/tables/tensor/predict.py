"""Applying a rule on a device: decisions, their probabilities, and draws, equal to those on arrays.

`confmax.tables.draws` defines draws in unsigned 64-bit words; here they are signed ones of the same bits,
whose sums and products wrap alike.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from confmax.confusion import Array, Gains
from confmax.tables.tensor.hashes import mixed, shifted, signed
from confmax.tables.tensor.oracle import decide_tensor
from confmax.tables.tensor.rows import Tensor, chunks


def decision_probabilities(proba: Tensor, gains: Gains, weights: Array) -> Tensor:
    """Return the exact probability of every decision (n, M), float64, on the device of checked ``proba`` (n, K)."""
    out = torch.zeros((len(proba), gains.n_decisions), dtype=torch.float64, device=proba.device)
    for k, weight in enumerate(weights):
        decision = decide_tensor(proba, gains[k])[0]
        out[torch.arange(len(proba), device=proba.device), decision] += float(weight)
    return out


def decide_drawn(proba: Tensor, gains: Gains, weights: Array, *, words: NDArray[np.uint64], keys: Tensor) -> Tensor:
    """Return the decision of every row (n,), int64, by the atom that its key draws.

    Parameters
    ----------
    proba : torch.Tensor (n, K)
        Checked probabilities.
    gains, weights
        The atoms and their probabilities (A,).
    words : ndarray (6,)
        The coefficients of the hash.
    keys : torch.Tensor (n,), int64
        The bits of the rows' keys.
    """
    edges = torch.as_tensor(np.cumsum(weights)[:-1], device=proba.device)
    atom = torch.searchsorted(edges, _uniform(keys, words), right=True)
    out = torch.empty(len(proba), dtype=torch.int64, device=proba.device)
    for k in range(len(gains)):
        rows = torch.nonzero(atom == k)[:, 0]
        for part in rows.split(max(1, _largest(proba))):
            out[part] = decide_tensor(proba[part], gains[k])[0]
    return out


def as_words(keys: NDArray[np.uint64] | Tensor, proba: Tensor) -> Tensor:
    """Return keys as words on the device of ``proba``, where the hashes of rows are already."""
    return torch.as_tensor(keys.view(np.int64), device=proba.device) if isinstance(keys, np.ndarray) else keys


def _largest(proba: Tensor) -> int:
    """Return how many rows are gathered at a time."""
    return next(chunks(proba)).stop


def _uniform(keys: Tensor, words: NDArray[np.uint64]) -> Tensor:
    """Return one number in [0, 1), a multiple of 2^-53, per key (n,), float64."""
    keys = mixed(keys)
    low, half = keys & 0xFFFFFFFF, shifted(keys, 32)
    a0, a1, b, c0, c1, d = (signed(int(word)) for word in words)
    high, rest = shifted(low * a0 + half * a1 + b, 32), shifted(low * c0 + half * c1 + d, 32)
    return shifted((high << 32) | rest, 11).double() * 2.0**-53
